//! Finds the instruction that last wrote an address.
//!
//! A wrong element of a buffer shows what is wrong, but not where. Running the program again with a [`WriteWatch`] on the element's address
//! finds the instruction and the thread that stored it last, and the preceding instructions of that thread's warp. Every store to the
//! address counts, even one that does not change the value.

use oriole_isa::{Opcode, OperandValue};

use super::constants::ConstantBanks;
use super::memory::address::AddressSum;
use super::observe::{Issue, Observer, Trace};
use super::site::Site;
use super::warp::{Warp, lanes_of};

/// The thread that wrote the address, and the preceding instructions of its warp.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritingThread {
    /// Linear index of the block in the grid.
    pub block: u64,
    /// Index of the warp in the block.
    pub warp: u32,
    pub lane: usize,
    /// Offset of the instruction in its function, in bytes.
    pub offset: u64,
    /// The last instructions of the warp, oldest first, one per line; empty if no trace was requested.
    pub trace: String,
}

/// Observer that finds the last store to an address of global memory.
pub struct WriteWatch {
    address: u64,
    trace: Option<Trace>,
    /// The store that is being executed; becomes `writer` if it succeeds.
    current: Option<WritingThread>,
    writer: Option<WritingThread>,
}

impl WriteWatch {
    /// Watches a byte address.
    pub fn new(address: u64) -> WriteWatch {
        WriteWatch { address, trace: None, current: None, writer: None }
    }

    /// Also records the instructions of a warp; an earlier run without a trace determines which warp.
    pub fn with_trace(address: u64, trace: Trace) -> WriteWatch {
        WriteWatch { trace: Some(trace), ..WriteWatch::new(address) }
    }

    /// Returns the last writer, if any.
    pub fn writer(self) -> Option<WritingThread> {
        self.writer
    }
}

impl Observer for WriteWatch {
    fn issue(&mut self, issue: &Issue<'_>, warp: &Warp) {
        if let Some(trace) = &mut self.trace {
            trace.issue(issue, warp);
        }
        self.current = writing_lane(issue, warp, self.address).map(|lane| WritingThread {
            block: issue.block,
            warp: issue.warp,
            lane,
            offset: issue.address - issue.function,
            trace: String::new(),
        });
    }

    fn executed(&mut self, issue: &Issue<'_>, warp: &Warp) {
        if let Some(trace) = &mut self.trace {
            trace.executed(issue, warp);
        }
        let Some(mut writer) = self.current.take() else { return };
        writer.trace = self.trace.as_ref().map_or(String::new(), |trace| trace.text(issue.block, issue.warp));
        self.writer = Some(writer);
    }
}

/// Returns the last active lane that writes the address, if the instruction writes to global memory.
fn writing_lane(issue: &Issue<'_>, warp: &Warp, watched: u64) -> Option<usize> {
    let opcode = issue.instruction.opcode;
    if !matches!(opcode, Opcode::ST | Opcode::STG | Opcode::ATOM | Opcode::ATOMG | Opcode::RED | Opcode::REDG) {
        return None;
    }
    let constants = ConstantBanks::default();
    let site = Site {
        instruction: issue.instruction,
        target: issue.target,
        address: issue.address,
        section: issue.function,
        constants: &constants,
        registers: u16::MAX,
    };
    let mut operands = site.operands();
    while !matches!(operands.peek()?.value, OperandValue::Address(_)) {
        operands.take().ok()?;
    }
    let addresses = AddressSum::take(&site, &mut operands, true).ok()?.of(warp);
    let bytes = bytes_of(&site);
    lanes_of(issue.active).filter(|&lane| watched.checked_sub(addresses[lane]).is_some_and(|behind| behind < bytes)).last()
}

/// Returns the number of bytes an instruction writes per thread, from its modifiers.
fn bytes_of(site: &Site<'_>) -> u64 {
    let names = [("256", 32), ("128", 16), ("64", 8), (".U8", 1), (".S8", 1), (".U16", 2), (".S16", 2)];
    let modifiers = || site.instruction.modifiers.iter().map(|symbol| symbol.spelling());
    names.iter().find(|(name, _)| modifiers().any(|modifier| modifier.ends_with(name))).map_or(4, |&(_, bytes)| bytes)
}
