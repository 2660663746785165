//! Lists the registers that an instruction reads and writes.
//!
//! An operand names the first of a group of consecutive registers. The size of the group depends on the instruction and its
//! modifiers (`data/widths.tbl`, module `widths`). [`accesses`] lists the registers of operands, addresses, descriptors, the guard,
//! and the predicates that `PR` stands for. The constant registers (`RZ`, `PT`, `URZ`, `UPT`) are not listed.
//!
//! An instruction whose guard is false does not write its destinations. The list does not account for that: liveness analyses have to
//! look at the guard.

use smallvec::SmallVec;

use crate::instruction::{Address, Instruction, Operand, OperandValue};
use crate::table::{Opcode, RegFile, Symbol};
use crate::widths::{Extent, OperandPurpose, OperandRole, extent, source_roles};

/// A group of consecutive registers of one file that an instruction reads or writes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Access {
    /// The register file.
    pub file: RegFile,
    /// The lowest register number.
    pub first: u16,
    /// The number of registers.
    pub count: u16,
    /// Where the instruction names the registers.
    pub place: AccessPlace,
    /// Whether the instruction writes the registers; it reads them otherwise.
    pub written: bool,
}

impl Access {
    /// Returns the register numbers.
    pub fn registers(self) -> std::ops::Range<u16> {
        self.first..self.first + self.count
    }

    /// Returns whether this is the guard.
    pub fn is_guard(self) -> bool {
        self.place == AccessPlace::Guard
    }

    /// Returns the index of the operand that names the registers; `None` for the guard.
    pub fn operand(self) -> Option<usize> {
        match self.place {
            AccessPlace::Guard => None,
            AccessPlace::Plain(operand) | AccessPlace::Address(operand) => Some(usize::from(operand)),
        }
    }
}

/// Where an instruction names registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum AccessPlace {
    /// The guard.
    Guard,
    /// A register operand, by operand index.
    Plain(u8),
    /// A register in the brackets of an operand, by operand index.
    Address(u8),
}

/// All register accesses of an instruction.
pub type Accesses = SmallVec<[Access; 8]>;

/// Number of general registers that the hardware allocates to each thread in addition to those that instructions name.
pub const HIDDEN_REGISTERS: u32 = 2;

/// Returns the number of registers that a warp keeps or requests at an instruction (`USETMAXREG`), including the hidden ones; `None` for other
/// instructions.
pub fn requested_registers(instruction: &Instruction) -> Option<u16> {
    if instruction.opcode != Opcode::USETMAXREG {
        return None;
    }
    instruction.operands.iter().find_map(|operand| match operand.value {
        OperandValue::Integer(count) => u16::try_from(count).ok(),
        _ => None,
    })
}

/// Returns the general registers that a warp gives up at an instruction (`USETMAXREG.DEALLOC`); none for other instructions.
pub fn released_registers(instruction: &Instruction) -> std::ops::Range<u16> {
    let is_release = instruction.modifiers.iter().any(|modifier| modifier.spelling() == ".DEALLOC");
    let kept = requested_registers(instruction).filter(|_| is_release);
    kept.map_or(0..0, |kept| kept.saturating_sub(HIDDEN_REGISTERS as u16)..size(RegFile::General))
}

/// Returns the number of registers in the file without the constant one. A group that extends past the file is truncated.
fn size(file: RegFile) -> u16 {
    match file {
        RegFile::General | RegFile::Uniform => 255,
        RegFile::Predicate | RegFile::UniformPredicate => 7,
        RegFile::Convergence => 16,
        RegFile::Scoreboard => 6,
    }
}

/// Returns the registers that an instruction reads and writes: the guard first, then the operands in order. A register that is read and
/// written has two entries.
pub fn accesses(instruction: &Instruction) -> Accesses {
    let mut found = Accesses::new();
    let guard = instruction.guard;
    let guard_file = if guard.uniform { RegFile::UniformPredicate } else { RegFile::Predicate };
    if u16::from(guard.predicate) < size(guard_file) {
        found.push(Access { file: guard_file, first: guard.predicate.into(), count: 1, place: AccessPlace::Guard, written: false });
    }
    let written = instruction.written();
    let (mut destinations, mut sources) = (0, 0);
    for (number, (operand, &written)) in instruction.operands.iter().zip(&written).enumerate() {
        let mut lister = Lister { instruction, found: &mut found, number: number as u8 };
        lister.operand(operand, written, destinations, sources);
        if written {
            destinations += u8::from(counts_as_destination(operand));
        } else {
            sources += 1;
        }
    }
    found
}

/// Returns whether the rules of `widths.tbl` count a written operand among the destinations. Predicates are always single registers, so
/// the rules do not count them.
fn counts_as_destination(operand: &Operand) -> bool {
    !matches!(operand.value, OperandValue::Register(RegFile::Predicate | RegFile::UniformPredicate, _))
}

/// Collects the accesses of one operand.
struct Lister<'i> {
    instruction: &'i Instruction,
    found: &'i mut Accesses,
    /// Index of the operand.
    number: u8,
}

impl Lister<'_> {
    /// Adds the accesses of one operand. `destinations` and `sources` are the numbers of earlier operands of each kind.
    fn operand(&mut self, operand: &Operand, written: bool, destinations: u8, sources: u8) {
        match &operand.value {
            &OperandValue::Register(file, Some(first)) | &OperandValue::RegisterAndNumber(file, Some(first), _) => {
                let extent = if matches!(file, RegFile::Predicate | RegFile::UniformPredicate) {
                    Extent::SINGLE
                } else if written {
                    extent(
                        self.instruction,
                        &[OperandRole { kind: OperandPurpose::Destination, index: Some(destinations) }],
                        &operand.suffixes,
                    )
                } else {
                    extent(self.instruction, &source_roles(sources, file), &operand.suffixes)
                };
                self.push(file, first, extent, AccessPlace::Plain(self.number), written);
            }
            OperandValue::Address(address) => self.address(address, sources),
            &OperandValue::Name(name) => self.all_predicates(name),
            _ => {}
        }
    }

    /// Adds the registers in the brackets of an address; all of them are read.
    fn address(&mut self, address: &Address, source: u8) {
        let word = address.word.spelling();
        for (part_number, part) in address.parts.iter().enumerate() {
            for register in &part.registers {
                let Some(first) = register.number else { continue };
                let kind = match (word, part_number, register.file) {
                    ("desc", 0, _) => OperandPurpose::Descriptor,
                    ("gdesc", 0, _) => OperandPurpose::MatrixDescriptor,
                    ("cx", 0, _) => OperandPurpose::ConstantBank,
                    ("c" | "cx", ..) => OperandPurpose::ConstantOffset,
                    (_, _, RegFile::Uniform) => OperandPurpose::UniformAddress,
                    _ => OperandPurpose::Address,
                };
                let extent = extent(self.instruction, &[OperandRole { kind, index: Some(source) }], &register.suffixes);
                self.push(register.file, first, extent, AccessPlace::Address(self.number), false);
            }
        }
    }

    fn push(&mut self, file: RegFile, first: u16, extent: Extent, place: AccessPlace, written: bool) {
        let count = extent.count.min(size(file).saturating_sub(first));
        if count == 0 || file == RegFile::Scoreboard {
            return;
        }
        let access = Access { file, first, count, place, written };
        if !written || extent.also_read {
            self.found.push(Access { written: false, ..access });
        }
        if written || extent.also_written {
            self.found.push(Access { written: true, ..access });
        }
    }

    /// Adds the predicates that `PR` or `UPR` stands for: those in the mask that is the last operand, or all if the last operand is a
    /// register. As the first operand `PR` is written (`R2P`), elsewhere it is read (`P2R`).
    fn all_predicates(&mut self, name: Symbol) {
        let file = match name.spelling() {
            "PR" => RegFile::Predicate,
            "UPR" => RegFile::UniformPredicate,
            _ => return,
        };
        let mask = match self.instruction.operands.last().map(|operand| &operand.value) {
            Some(&OperandValue::Integer(mask)) => mask as u64,
            _ => u64::MAX,
        };
        let written = self.number == 0;
        for first in (0..size(file)).filter(|predicate| mask >> predicate & 1 == 1) {
            self.found.push(Access { file, first, count: 1, place: AccessPlace::Plain(self.number), written });
        }
    }
}
