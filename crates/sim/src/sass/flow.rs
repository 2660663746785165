//! Control-flow and synchronization instructions. This module decodes them into [`Flow`]; the scheduler executes a `Flow`, because it
//! changes the groups of threads.
//!
//! `BSSY`, `BSYNC`, `BREAK` and `BMOV` operate on convergence barriers (see [`super::convergence`]).
//!
//! `WARPSYNC` is an illegal instruction for a thread that is not in its own mask (seen on an H200). It synchronizes threads at the same
//! instruction; threads at two different `WARPSYNC`s do not synchronize (on an H200 such a
//! program hangs). Threads at different `WARPSYNC.COLLECTIVE`s do: all continue together at one of them, and at `ENDCOLLECTIVE` each goes
//! to the address its own `WARPSYNC.COLLECTIVE` names.

use oriole_isa::{Opcode, OperandValue, RegFile};

use super::convergence::BARRIERS;
use super::load::INSTRUCTION;
use super::register_pool::RegisterCountChange;
use super::site::{Operands, Site};
use super::step::{Action, Built, UnsupportedInst, compute};
use super::warp::{Mask, PredicateDestination, PredicateSource, Row, Source, WideSource, first};

/// The effect of a control-flow instruction. `condition` is a second predicate in addition to the guard.
#[derive(Clone, Debug)]
pub enum Flow {
    /// `EXIT`
    Exit {
        condition: PredicateSource,
    },
    /// `BRA`, `BRX`, `CALL`, `RET`
    Jump {
        condition: PredicateSource,
        test: ConvergenceTest,
        branch_target: BranchTarget,
    },
    /// `BSYNC`
    Converge {
        condition: PredicateSource,
        barrier: usize,
    },
    /// `BREAK`
    Break {
        condition: PredicateSource,
        barrier: usize,
    },
    /// `WARPSYNC`: waits for the threads of a mask. With `.EXCLUSIVE`, no other group of the warp runs until these threads wait again or
    /// exit.
    Gather {
        condition: PredicateSource,
        mask: Source,
        exclusive: bool,
    },
    /// `WARPSYNC.COLLECTIVE`: waits for the threads of a mask at any such instruction; then all continue together.
    Collect {
        condition: PredicateSource,
        mask: Source,
        /// Address at which these threads continue after `ENDCOLLECTIVE`.
        after: u64,
    },
    /// `ENDCOLLECTIVE`
    Disperse,
    Yield,
    /// `BAR`
    Block(BlockBarrier),
    /// `UCGABAR_ARV`: arrives at the barrier of the cluster.
    ArriveCluster,
    /// `UCGABAR_WAIT`: waits for the end of the phase in which the warp arrived.
    WaitCluster,
    /// `USETMAXREG`: moves registers between the warp and the pool of its block.
    ChangeRegisters {
        change: RegisterCountChange,
        /// The predicate that says whether a request was granted.
        is_granted: Option<PredicateDestination>,
    },
    /// Ends the program with this error.
    Trap(String),
}

/// The condition of a branch on the convergence of the warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConvergenceTest {
    Always,
    /// True if some live thread of this mask is not in the group (`.DIV`).
    Diverged {
        mask: Source,
        invert: bool,
    },
    /// True if all live threads of this mask are in the group (`.CONV`).
    Converged {
        mask: Source,
        invert: bool,
    },
}

/// The target of a branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BranchTarget {
    At(u64),
    /// The sum of a 64-bit register value and a constant.
    Register {
        address: WideSource,
        base: u64,
    },
}

/// An arrival at a block barrier.
#[derive(Clone, Copy, Debug)]
pub struct BlockBarrier {
    pub what: BarrierKind,
    pub number: BarrierOperand,
    pub threads: BarrierOperand,
    /// The predicate that a reduction combines.
    pub predicate: PredicateSource,
}

/// The kind of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BarrierKind {
    /// Waits for the other threads.
    Sync,
    /// Arrives without waiting.
    Arrive,
    /// Waits, and reduces the predicates of all threads.
    Reduce(PredicateReduction),
}

/// The reduction of predicates at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredicateReduction {
    Count,
    And,
    Or,
}

/// A bit field of a register or of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BarrierOperand {
    pub source: Source,
    pub shift: u32,
    pub mask: u32,
}

impl BarrierOperand {
    /// Returns the value of the field in one thread.
    pub fn of(self, values: &[u32; 32], lane: usize) -> u32 {
        values[lane] >> self.shift & self.mask
    }
}

/// Mask of the thread count of a barrier.
const THREADS: u32 = 0xfff;
/// Mask of the barrier number.
const NUMBERS: u32 = 0xf;

/// Builds the action of a control-flow instruction; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::EXIT => condition(site).map(|condition| Action::Flow(Flow::Exit { condition })),
        Opcode::BRA => branch(site),
        Opcode::BRX | Opcode::BRXU | Opcode::CALL | Opcode::RET => jump(site),
        Opcode::BSSY => set_barrier(site),
        Opcode::BSYNC => barrier(site).map(|(condition, barrier)| Action::Flow(Flow::Converge { condition, barrier })),
        Opcode::BREAK => barrier(site).map(|(condition, barrier)| Action::Flow(Flow::Break { condition, barrier })),
        Opcode::BMOV => move_barrier(site),
        Opcode::WARPSYNC => gather(site),
        Opcode::ENDCOLLECTIVE => Ok(Action::Flow(Flow::Disperse)),
        Opcode::YIELD | Opcode::NANOSLEEP => Ok(Action::Flow(Flow::Yield)),
        Opcode::BAR => block_barrier(site),
        Opcode::UCGABAR_ARV => Ok(Action::Flow(Flow::ArriveCluster)),
        Opcode::UCGABAR_WAIT => Ok(Action::Flow(Flow::WaitCluster)),
        Opcode::BPT => Ok(Action::Flow(Flow::Trap("the program trapped".into()))),
        Opcode::NOP | Opcode::PMTRIG | Opcode::PREEXIT | Opcode::ACQBULK | Opcode::DEPBAR => Ok(Action::Nothing),
        _ => return None,
    })
}

/// Decodes the optional second predicate.
fn condition(site: &Site<'_>) -> Result<PredicateSource, UnsupportedInst> {
    site.operands().optional_predicate()
}

/// Builds `BRA`.
fn branch(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let mut condition = operands.optional_predicate()?;
    let is_uniform = operands.next_is_predicate();
    if is_uniform {
        let uniform = operands.predicate()?;
        if !condition.is_always() && condition != PredicateSource::new(None, false, false) {
            return Err(site.unsupported("a branch on two predicates"));
        }
        condition = uniform;
    }
    let mut test = ConvergenceTest::Always;
    if matches!(operands.peek().map(|operand| &operand.value), Some(OperandValue::Register(RegFile::Uniform, _))) {
        let mask = operands.input()?;
        let (mask, invert) = (mask.source, mask.invert);
        test = match site.one_of(&[(".DIV", false), (".CONV", true)]) {
            Some(true) => ConvergenceTest::Converged { mask, invert },
            Some(false) => ConvergenceTest::Diverged { mask, invert },
            None => return Err(site.unsupported("a branch on a mask that asks neither for divergence nor convergence")),
        };
    } else if site.has(".DIV") {
        test = ConvergenceTest::Diverged { mask: Source::Immediate(!0), invert: false };
    } else if site.has(".CONV") {
        test = ConvergenceTest::Converged { mask: Source::Immediate(!0), invert: false };
    }
    let OperandValue::Relative(distance) = operands.take()?.value else {
        return Err(site.unsupported("a branch without a target"));
    };
    let branch_target = BranchTarget::At(site.next().wrapping_add_signed(distance));
    Ok(Action::Flow(Flow::Jump { condition, test, branch_target }))
}

/// Builds `BRX`, `CALL` and `RET`, whose target is a constant or the sum of a register pair and a constant. There is no stack of return
/// addresses: compilers use only the forms `.NOINC` and `.NODEC`.
fn jump(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let condition = operands.optional_predicate()?;
    let is_absolute = site.has(".ABS");
    let base = if is_absolute { 0 } else { site.next() };
    let branch_target = match &operands.take()?.value {
        OperandValue::Relative(distance) => BranchTarget::At(site.next().wrapping_add_signed(*distance)),
        OperandValue::Integer(address) => BranchTarget::At(*address as u64),
        OperandValue::RegisterAndNumber(file, number, place) => {
            let address = match file {
                RegFile::General => WideSource::General(Row::source(site.checked(*number, 2)?)),
                RegFile::Uniform => WideSource::Uniform(Row::source(*number)),
                _ => return Err(site.unsupported("a jump through a register of this file")),
            };
            BranchTarget::Register { address, base: base.wrapping_add_signed(place.number) }
        }
        OperandValue::Address(_) => {
            let mut again = site.operands();
            again.optional_predicate()?;
            let constant = again.wide_input()?;
            BranchTarget::Register { address: constant.source, base }
        }
        other => return Err(site.unsupported(format!("a jump to {other:?}"))),
    };
    Ok(Action::Flow(Flow::Jump { condition, test: ConvergenceTest::Always, branch_target }))
}

/// Decodes the second predicate and the convergence barrier.
fn barrier(site: &Site<'_>) -> Result<(PredicateSource, usize), UnsupportedInst> {
    let mut operands = site.operands();
    Ok((operands.optional_predicate()?, barrier_number(&mut operands)?))
}

/// Takes a convergence barrier and returns its number.
fn barrier_number(operands: &mut Operands<'_>) -> Result<usize, UnsupportedInst> {
    match operands.take()?.value {
        OperandValue::Register(RegFile::Convergence, Some(number)) if usize::from(number) < BARRIERS => Ok(usize::from(number)),
        ref other => Err(UnsupportedInst(format!("expected a convergence barrier, found {other:?}"))),
    }
}

/// Builds `BSSY`.
fn set_barrier(site: &Site<'_>) -> Built {
    let (condition, barrier) = barrier(site)?;
    Ok(compute(move |warp, mask| {
        let threads = mask & warp.read_predicate(condition);
        warp.barriers.add(barrier, threads);
    }))
}

/// Builds `BMOV`, which moves a barrier's mask from or to registers.
fn move_barrier(site: &Site<'_>) -> Built {
    let clear = site.has(".CLEAR");
    let mut operands = site.operands();
    match &operands.peek().map(|operand| &operand.value) {
        Some(OperandValue::Register(RegFile::General, _)) => {
            let d = operands.destination()?;
            if let Some(OperandValue::Name(name)) = operands.peek().map(|operand| &operand.value) {
                return match name.spelling() {
                    "MACTIVE" => Ok(compute(move |warp, mask| warp.write(d, mask, &[mask; 32]))),
                    other => Err(site.unsupported(format!("thread state {other}"))),
                };
            }
            let barrier = barrier_number(&mut operands)?;
            Ok(compute(move |warp, mask| {
                warp.write(d, mask, &[warp.barriers.members(barrier); 32]);
                if clear {
                    warp.barriers.clear(barrier);
                }
            }))
        }
        Some(OperandValue::Register(RegFile::Convergence, _)) => {
            let barrier = barrier_number(&mut operands)?;
            if matches!(operands.peek().map(|operand| &operand.value), Some(OperandValue::Register(RegFile::Convergence, _))) {
                let from = barrier_number(&mut operands)?;
                return Ok(compute(move |warp, _| {
                    warp.barriers.copy(from, barrier);
                    if clear {
                        warp.barriers.clear(from);
                    }
                }));
            }
            let value = operands.input()?.source;
            Ok(compute(move |warp, mask| {
                let values = warp.read(value);
                warp.barriers.restore(barrier, mask, &values);
            }))
        }
        // The mask of collective operations is implied: the group itself is the set of participants.
        Some(OperandValue::Name(name)) if name.spelling() == "MCOLLECTIVE" => Ok(Action::Nothing),
        other => Err(site.unsupported(format!("a move to {other:?}"))),
    }
}

/// Builds `WARPSYNC`.
fn gather(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let condition = operands.optional_predicate()?;
    let mask = if site.has(".ALL") { Source::Immediate(!0) } else { operands.input()?.source };
    if site.has(".COLLECTIVE") {
        let OperandValue::Relative(distance) = operands.take()?.value else {
            return Err(site.unsupported("a collective operation without end"));
        };
        return Ok(Action::Flow(Flow::Collect { condition, mask, after: site.next().wrapping_add_signed(distance) }));
    }
    Ok(Action::Flow(Flow::Gather { condition, mask, exclusive: site.has(".EXCLUSIVE") }))
}

/// Builds `BAR`.
fn block_barrier(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let reduction =
        site.one_of(&[(".POPC", PredicateReduction::Count), (".AND", PredicateReduction::And), (".OR", PredicateReduction::Or)]);
    let what = match site.one_of(&[(".SYNC", 0), (".ARV", 1), (".RED", 2)]) {
        Some(0) => BarrierKind::Sync,
        Some(1) => BarrierKind::Arrive,
        Some(_) => BarrierKind::Reduce(reduction.ok_or_else(|| site.unsupported("a reduction without operation"))?),
        None => return Err(site.unsupported("this kind of barrier")),
    };
    let (number, threads) = (operands.input()?.source, operands.input()?.source);
    // One register may hold both operands: barrier number in the low half, thread count in the high half.
    let is_packed = matches!(number, Source::General(_)) && number == threads;
    let number = BarrierOperand { source: number, shift: 0, mask: NUMBERS };
    let threads = BarrierOperand { source: threads, shift: if is_packed { 16 } else { 0 }, mask: THREADS };
    let predicate = operands.optional_predicate()?;
    Ok(Action::Flow(Flow::Block(BlockBarrier { what, number, threads, predicate })))
}

impl Site<'_> {
    /// Returns the address of the next instruction.
    pub fn next(&self) -> u64 {
        self.address + INSTRUCTION
    }
}

impl ConvergenceTest {
    /// Returns whether the group of threads `mask` takes the branch; `alive` are the threads that have not exited.
    pub(super) fn holds(self, warp: &super::warp::Warp, mask: Mask, alive: Mask) -> bool {
        let wanted = |source, invert: bool| {
            let value = warp.read(source)[first(mask)];
            (if invert { !value } else { value }) & alive
        };
        match self {
            ConvergenceTest::Always => true,
            ConvergenceTest::Diverged { mask: source, invert } => wanted(source, invert) & !mask != 0,
            ConvergenceTest::Converged { mask: source, invert } => wanted(source, invert) & !mask == 0,
        }
    }
}
