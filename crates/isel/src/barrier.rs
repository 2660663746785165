//! Barriers of a block: `bar`, `barrier`
//!
//! The machine has sixteen. Number and thread count are both immediates, or one of them is in a register, or both are in the same one:
//! the number in the lowest four bits, the count from bit 16 on.
//!
//! **Warps.** The machine counts warps: whatever part of a warp executes `BAR` stands for all of it. So all its threads have to be
//! together there.
//!
//! - All come to a barrier that is `.aligned`, as every `bar` is, but they need not be together by themselves: `WARPSYNC` goes in front
//!   where they may have gone different ways.
//! - Without `.aligned`, threads of a warp may wait for each other at different places, where no `WARPSYNC` brings them together. If they are
//!   not together (`BRA.DIV`), they call a function that all such places share (`runtime.rs`), and meet there.

use oriole_ir::{Block, Class, File, Guard, Op, Operand, OperandKind, Reference, ReferenceKind, Signs};
use oriole_isa::{Opcode as Machine, Symbol};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::calls::fixed;
use crate::convention::FIRST_REGISTER;
use crate::error::Unsupported;
use crate::memory::has_clusters;
use crate::ptx::Ptx;
use crate::runtime::barrier_name;
use crate::select::Select;

/// The number of barriers, which are all in use where a number is known at run time only.
const ALL_BARRIERS: u32 = 16;

/// What happens at a barrier.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sync,
    Arrive,
    /// The number of threads, in all threads.
    Count,
    And,
    Or,
}

impl Kind {
    fn of(ptx: &Ptx<'_>) -> Kind {
        match () {
            () if ptx.has(Modifier::Arrive) => Kind::Arrive,
            () if !ptx.has(Modifier::Red) => Kind::Sync,
            () if ptx.has(Modifier::Popc) => Kind::Count,
            () if ptx.has(Modifier::And) => Kind::And,
            () => Kind::Or,
        }
    }

    /// As the shared functions are named.
    fn name(self) -> &'static str {
        match self {
            Kind::Sync => "sync",
            Kind::Arrive => "arrive",
            Kind::Count => "popc",
            Kind::And => "and",
            Kind::Or => "or",
        }
    }
}

/// A barrier with its operands.
#[derive(Clone, Copy)]
struct Barrier {
    kind: Kind,
    number: Operand,
    threads: Option<Operand>,
    /// What a reduction combines.
    predicate: Option<Operand>,
}

/// `bar.sync`, `bar.arrive`, `bar.red` and the same of `barrier`
pub(crate) fn barrier(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let (barrier, destination) = read(select, ptx)?;
    let is_aligned = ptx.opcode() == Opcode::Bar || ptx.has(Modifier::Aligned);
    if is_aligned || select.is_warp_together() {
        select.bring_warp_together();
        let result = barrier.wait(select);
        return assign(select, destination, result);
    }
    select.branch_around(|select| barrier.wait_apart(select, destination))
}

fn read(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(Barrier, Option<ast::Operand>), Unsupported> {
    let kind = Kind::of(ptx);
    let mut operands = ptx.operands;
    let (mut destination, mut predicate) = (None, None);
    if matches!(kind, Kind::Count | Kind::And | Kind::Or) {
        destination = Some(ptx.operand(0));
        predicate = Some(select.predicate(ptx.operand(operands.len() - 1))?);
        operands = &operands[1..operands.len() - 1];
    }
    let used = select.literal(operands[0], ScalarType::U32).map_or(ALL_BARRIERS, |number| number as u32 + 1);
    select.barriers = select.barriers.max(used);
    let number = select.source(operands[0], ScalarType::U32)?;
    let threads = operands.get(1).map(|&threads| select.source(threads, ScalarType::U32)).transpose()?;
    Ok((Barrier { kind, number, threads, predicate }, destination))
}

fn assign(select: &mut Select<'_>, destination: Option<ast::Operand>, result: Option<Operand>) -> Result<(), Unsupported> {
    match (destination, result) {
        (Some(destination), Some(result)) => select.assign(destination, result),
        _ => Ok(()),
    }
}

impl Barrier {
    /// The instruction itself, for a warp that is together.
    fn wait(&self, select: &mut Select<'_>) -> Option<Operand> {
        let threads = self.threads.unwrap_or(Operand::from(0));
        if self.kind == Kind::Arrive {
            let [number, threads] =
                if is_literal(self.number) && is_literal(threads) { [self.number, threads] } else { packed(select, self.number, threads) };
            select.b.emit("BAR.ARV {}, {}", &[number, threads]);
            return None;
        }
        let (number, threads) = joined(select, self.number, threads);
        let deferred = deferred(select);
        let operation = match self.kind {
            Kind::Count => "POPC",
            Kind::And => "AND",
            Kind::Or => "OR",
            Kind::Sync | Kind::Arrive => {
                select.b.emit(&format!("BAR.SYNC{deferred} {{}}, {{}}"), &[number, threads]);
                return None;
            }
        };
        let predicate = self.predicate.unwrap_or(Operand::PT);
        select.b.emit(&format!("BAR.RED.{operation}{deferred} {{}}, {{}}, {{}}"), &[number, threads, predicate]);
        Some(match self.kind {
            Kind::Count => select.b.define(Class::R, "B2R.RESULT $, PT", &[]),
            _ => select.b.define(Class::P, "B2R.RESULT RZ, $", &[]),
        })
    }

    /// For threads that may have come alone.
    fn wait_apart(&self, select: &mut Select<'_>, destination: Option<ast::Operand>) -> Result<(), Unsupported> {
        let [together, apart, after] = [(); 3].map(|()| select.b.new_block());
        branch_if_apart(select, apart);
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

    /// Calls the function where all threads of a warp meet.
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
            Kind::And | Kind::Or => result.map(|result| select.b.define(Class::P, "ISETP.NE.U32.AND $, PT, {}, RZ, PT", &[result])),
            _ => result,
        }
    }
}

/// Branches where threads of the warp that have not ended are elsewhere. All that are here go the same way.
fn branch_if_apart(select: &mut Select<'_>, apart: Block) {
    let all = Operand::URZ.with_signs(Signs::INVERT);
    let operands = match () {
        // The mask of threads that count.
        () if has_clusters(select.target) => vec![select.b.define(Class::UR, "UMOV $, {}", &[Operand::from(-1)]), apart.into()],
        () if select.encodes("BRA.DIV ~URZ, 0x0") => vec![all, apart.into()],
        () => vec![apart.into()],
    };
    let always = Guard { kind: OperandKind::Zero(File::Predicate), negated: false };
    let saved = select.b.guard.replace(always);
    let modifiers = Symbol::find(".DIV").into_iter().collect();
    select.b.append(Op::Machine(Machine::BRA), modifiers, &operands, 0);
    select.b.guard = saved;
}

/// Newer targets do not block the whole warp while some of its threads are missing.
fn deferred(select: &Select<'_>) -> &'static str {
    if has_clusters(select.target) { ".DEFER_BLOCKING" } else { "" }
}

fn is_literal(operand: Operand) -> bool {
    operand.integer().is_some()
}

/// As `BAR.SYNC` and `BAR.RED` take them: at most one in a register, or both in the same.
fn joined(select: &mut Select<'_>, number: Operand, threads: Operand) -> (Operand, Operand) {
    if is_literal(number) || is_literal(threads) {
        return (number, threads);
    }
    let [number, threads] = packed(select, number, threads);
    (number, threads)
}

fn packed(select: &mut Select<'_>, number: Operand, threads: Operand) -> [Operand; 2] {
    let threads = select.in_register(threads);
    let shifted = select.b.define(Class::R, "SHF.L.U32 $, {}, 0x10, RZ", &[threads]);
    let number = select.in_register(number);
    let both = select.b.define(Class::R, "LOP3.LUT $, {}, 0xf, {}, 0xf8, !PT", &[shifted, number]);
    [both, both]
}
