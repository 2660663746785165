//! Barriers of a thread block: `bar`, `barrier`.
//!
//! The machine has sixteen. Barrier number and thread count are both immediates, or one of them is in a register, or both are in the same
//! register: the number in bits 0 to 3, the count from bit 16 on.
//!
//! **Warps.** The hardware counts warps: a `BAR` executed by some threads of a warp counts for the whole warp. So all threads of the warp
//! have to be converged at a `BAR`.
//!
//! - All threads of a warp execute an `.aligned` barrier (every `bar` is one), but they may arrive diverged. `WARPSYNC` is emitted before
//!   the barrier to reconverge them.
//! - Without `.aligned`, the threads of a warp may wait for each other at different barrier instructions, so no `WARPSYNC` can reconverge
//!   them. If they are diverged (tested by `BRA.DIV`), they call a runtime function shared by all such barriers (`runtime.rs`) and
//!   reconverge inside it.

use oriole_ir::{Block, Class, Guard, Op, Operand, OperandKind, Reference, ReferenceKind, RegFile, Signs};
use oriole_isa::{Opcode as Machine, Symbol};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::calls::fixed;
use crate::context::Select;
use crate::convention::FIRST_REGISTER;
use crate::error::Unsupported;
use crate::memory::has_clusters;
use crate::ptx::Ptx;
use crate::runtime::barrier_name;

/// The number of barriers; all count as used if a barrier number is only known at run time.
const ALL_BARRIERS: u32 = 16;

/// The operation of a barrier instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BarrierOperation {
    Sync,
    Arrive,
    /// `red.popc`: returns, to every thread, the number of threads whose predicate holds.
    Count,
    And,
    Or,
}

impl BarrierOperation {
    fn of(ptx: &Ptx<'_>) -> BarrierOperation {
        match () {
            () if ptx.has(Modifier::Arrive) => BarrierOperation::Arrive,
            () if !ptx.has(Modifier::Red) => BarrierOperation::Sync,
            () if ptx.has(Modifier::Popc) => BarrierOperation::Count,
            () if ptx.has(Modifier::And) => BarrierOperation::And,
            () => BarrierOperation::Or,
        }
    }

    /// Returns the part of a runtime function's name for this operation.
    fn name(self) -> &'static str {
        match self {
            BarrierOperation::Sync => "sync",
            BarrierOperation::Arrive => "arrive",
            BarrierOperation::Count => "popc",
            BarrierOperation::And => "and",
            BarrierOperation::Or => "or",
        }
    }
}

/// A barrier instruction with its operands.
#[derive(Clone, Copy)]
struct BarrierOperands {
    kind: BarrierOperation,
    /// The barrier number.
    number: Operand,
    /// The number of participating threads; `None` for all threads of the block.
    threads: Option<Operand>,
    /// The predicate that a reduction combines; `None` for other operations.
    predicate: Option<Operand>,
}

/// Selects `bar.sync`, `bar.arrive`, `bar.red`, and the same for `barrier`.
pub(crate) fn barrier(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let (barrier, destination) = read(select, ptx)?;
    let is_aligned = ptx.opcode() == Opcode::Bar || ptx.has(Modifier::Aligned);
    if is_aligned || select.is_warp_converged() {
        select.reconverge_warp();
        let result = barrier.wait(select);
        return assign(select, destination, result);
    }
    select.branch_around(|select| barrier.wait_maybe_diverged(select, destination))
}

/// Reads the operands; returns the barrier and the destination of a reduction.
fn read(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(BarrierOperands, Option<ast::Operand>), Unsupported> {
    let kind = BarrierOperation::of(ptx);
    let mut operands = ptx.operands;
    let (mut destination, mut predicate) = (None, None);
    if matches!(kind, BarrierOperation::Count | BarrierOperation::And | BarrierOperation::Or) {
        destination = Some(ptx.operand(0));
        predicate = Some(select.predicate(ptx.operand(operands.len() - 1))?);
        operands = &operands[1..operands.len() - 1];
    }
    let used = select.literal(operands[0], ScalarType::U32).map_or(ALL_BARRIERS, |number| number as u32 + 1);
    select.barriers = select.barriers.max(used);
    let number = select.source(operands[0], ScalarType::U32)?;
    let threads = operands.get(1).map(|&threads| select.source(threads, ScalarType::U32)).transpose()?;
    Ok((BarrierOperands { kind, number, threads, predicate }, destination))
}

/// Assigns the result of a reduction.
fn assign(select: &mut Select<'_>, destination: Option<ast::Operand>, result: Option<Operand>) -> Result<(), Unsupported> {
    match (destination, result) {
        (Some(destination), Some(result)) => select.assign(destination, result),
        _ => Ok(()),
    }
}

impl BarrierOperands {
    /// Emits the barrier instruction, for a converged warp. Returns the result of a reduction.
    fn wait(&self, select: &mut Select<'_>) -> Option<Operand> {
        let threads = self.threads.unwrap_or(Operand::from(0));
        if self.kind == BarrierOperation::Arrive {
            let [number, threads] =
                if is_literal(self.number) && is_literal(threads) { [self.number, threads] } else { packed(select, self.number, threads) };
            select.b.emit("BAR.ARV {}, {}", &[number, threads]);
            return None;
        }
        let (number, threads) = joined(select, self.number, threads);
        let deferred = deferred(select);
        let operation = match self.kind {
            BarrierOperation::Count => "POPC",
            BarrierOperation::And => "AND",
            BarrierOperation::Or => "OR",
            BarrierOperation::Sync | BarrierOperation::Arrive => {
                select.b.emit(&format!("BAR.SYNC{deferred} {{}}, {{}}"), &[number, threads]);
                return None;
            }
        };
        let predicate = self.predicate.unwrap_or(Operand::PT);
        select.b.emit(&format!("BAR.RED.{operation}{deferred} {{}}, {{}}, {{}}"), &[number, threads, predicate]);
        Some(match self.kind {
            BarrierOperation::Count => select.b.define(Class::R, "B2R.RESULT $, PT", &[]),
            _ => select.b.define(Class::P, "B2R.RESULT RZ, $", &[]),
        })
    }

    /// Emits the barrier for threads that may be diverged: the instruction if the warp is converged, otherwise a call.
    fn wait_maybe_diverged(&self, select: &mut Select<'_>, destination: Option<ast::Operand>) -> Result<(), Unsupported> {
        let [together, apart, after] = [(); 3].map(|()| select.b.new_block());
        branch_if_diverged(select, apart);
        select.b.branch(None, together);

        select.start(apart);
        let result = self.call(select);
        assign(select, destination, result)?;
        select.b.branch(None, after);
        select.unlikely.push(apart);

        select.start(together);
        let result = self.wait(select);
        assign(select, destination, result)?;
        select.b.branch(None, after);
        select.start(after);
        Ok(())
    }

    /// Emits the call of the runtime function in which the threads of a warp reconverge. Returns the result of a reduction.
    fn call(&self, select: &mut Select<'_>) -> Option<Operand> {
        let mut arguments = vec![select.in_register(self.number)];
        arguments.extend(self.threads.map(|threads| select.in_register(threads)));
        let flag = self.predicate.map(|predicate| select.b.define(Class::R, "SEL $, {}, RZ, {}", &[Operand::from(1), predicate]));
        arguments.extend(flag);
        let result = self.predicate.map(|_| select.b.value(Class::R)).map(|value| select.b.whole(value));
        let name = barrier_name(self.kind.name(), self.threads.is_some());
        let symbol = select.b.symbol(&name);
        select.callees.add(name);
        let mut operands: Vec<Operand> = result.map(|result| fixed(result, FIRST_REGISTER)).into_iter().collect();
        operands.push(Reference { symbol, offset: 0, kind: ReferenceKind::Call }.into());
        operands.extend(arguments.into_iter().zip(FIRST_REGISTER..).map(|(argument, register)| fixed(argument, register)));
        let results = usize::from(result.is_some());
        let inst = select.b.emit("CALL.ABS.NOINC {}", &[operands[results]]);
        select.b.function.set_operands(inst, &operands, results);
        match self.kind {
            BarrierOperation::And | BarrierOperation::Or => {
                result.map(|result| select.b.define(Class::P, "ISETP.NE.U32.AND $, PT, {}, RZ, PT", &[result]))
            }
            _ => result,
        }
    }
}

/// Emits the call of a runtime function without arguments and results.
pub(crate) fn call_runtime(select: &mut Select<'_>, name: String) {
    let symbol = select.b.symbol(&name);
    select.callees.add(name);
    select.b.emit("CALL.ABS.NOINC {}", &[Reference { symbol, offset: 0, kind: ReferenceKind::Call }.into()]);
}

/// Emits a branch that is taken if some threads of the warp that have not exited are not active here. All active threads take the same
/// side.
pub(crate) fn branch_if_diverged(select: &mut Select<'_>, apart: Block) {
    let all = Operand::URZ.with_signs(Signs::INVERT);
    let operands = match () {
        // The mask of the threads to consider: all.
        () if has_clusters(select.target) => vec![select.b.define(Class::UR, "UMOV $, {}", &[Operand::from(-1)]), apart.into()],
        () if select.encodes("BRA.DIV ~URZ, 0x0") => vec![all, apart.into()],
        () => vec![apart.into()],
    };
    let always = Guard { kind: OperandKind::Zero(RegFile::Predicate), negated: false };
    let saved = select.b.guard.replace(always);
    let modifiers = Symbol::find(".DIV").into_iter().collect();
    select.b.append(Op::Machine(Machine::BRA), modifiers, &operands, 0);
    select.b.guard = saved;
}

/// Returns the modifier by which newer targets do not block the whole warp while some of its threads are missing.
fn deferred(select: &Select<'_>) -> &'static str {
    if has_clusters(select.target) { ".DEFER_BLOCKING" } else { "" }
}

fn is_literal(operand: Operand) -> bool {
    operand.integer().is_some()
}

/// Returns number and count as `BAR.SYNC` and `BAR.RED` accept them: at most one in a register, or both in the same register.
fn joined(select: &mut Select<'_>, number: Operand, threads: Operand) -> (Operand, Operand) {
    if is_literal(number) || is_literal(threads) {
        return (number, threads);
    }
    let [number, threads] = packed(select, number, threads);
    (number, threads)
}

/// Packs number and count into one register, which is returned for both operands.
fn packed(select: &mut Select<'_>, number: Operand, threads: Operand) -> [Operand; 2] {
    let threads = select.in_register(threads);
    let shifted = select.b.define(Class::R, "SHF.L.U32 $, {}, 0x10, RZ", &[threads]);
    let number = select.in_register(number);
    let both = select.b.define(Class::R, "LOP3.LUT $, {}, 0xf, {}, 0xf8, !PT", &[shifted, number]);
    [both, both]
}
