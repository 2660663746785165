//! Barriers of a block: `bar`, `barrier`
//!
//! The machine has sixteen. Number and thread count are both immediates, or one of them is in a register, or both are in the same one:
//! the number in the lowest four bits, the count from bit 16 on.
//!
//! All threads of a warp come to a barrier that is `.aligned`, as every `bar` is, but they need not be together there by themselves, and the
//! hardware may then let a part of them go on too early. So `WARPSYNC` goes in front where they may have gone different ways. Without
//! `.aligned` threads of a warp may be at different barriers, and nothing can bring them together.

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::error::Unsupported;
use crate::memory::has_clusters;
use crate::ptx::Ptx;
use crate::select::Select;

/// The number of barriers, which are all in use where a number is known at run time only.
const ALL_BARRIERS: u32 = 16;

/// `bar.sync`, `bar.arrive`, `bar.red` and the same of `barrier`
pub(crate) fn barrier(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if ptx.opcode() == Opcode::Bar || ptx.has(Modifier::Aligned) {
        select.bring_warp_together();
    }
    if ptx.has(Modifier::Red) {
        return reduce(select, ptx);
    }
    let (number, threads) = operands(select, ptx.operand(0), ptx.operands.get(1).copied())?;
    if ptx.has(Modifier::Arrive) {
        let [number, threads] = if is_literal(number) && is_literal(threads) { [number, threads] } else { packed(select, number, threads) };
        select.b.emit("BAR.ARV {}, {}", &[number, threads]);
    } else {
        let (number, threads) = joined(select, number, threads);
        select.b.emit(&format!("BAR.SYNC{} {{}}, {{}}", deferred(select)), &[number, threads]);
    }
    Ok(())
}

fn reduce(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let has_threads = ptx.operands.len() == 4;
    let threads = has_threads.then(|| ptx.operand(2));
    let (number, threads) = operands(select, ptx.operand(1), threads)?;
    let (number, threads) = joined(select, number, threads);
    let predicate = select.predicate(ptx.operand(if has_threads { 3 } else { 2 }))?;
    let operation = match () {
        () if ptx.has(Modifier::Popc) => "POPC",
        () if ptx.has(Modifier::And) => "AND",
        () => "OR",
    };
    select.b.emit(&format!("BAR.RED.{operation}{} {{}}, {{}}, {{}}", deferred(select)), &[number, threads, predicate]);
    let result = match operation {
        "POPC" => select.b.define(Class::R, "B2R.RESULT $, PT", &[]),
        _ => select.b.define(Class::P, "B2R.RESULT RZ, $", &[]),
    };
    select.assign(ptx.operand(0), result)
}

/// Newer targets do not block the whole warp while some of its threads are missing.
fn deferred(select: &Select<'_>) -> &'static str {
    if has_clusters(select.target) { ".DEFER_BLOCKING" } else { "" }
}

/// Number and thread count, 0 for all threads. Remembers which barriers are used.
fn operands(select: &mut Select<'_>, number: ast::Operand, threads: Option<ast::Operand>) -> Result<(Operand, Operand), Unsupported> {
    let used = select.literal(number, ScalarType::U32).map_or(ALL_BARRIERS, |number| number as u32 + 1);
    select.barriers = select.barriers.max(used);
    let number = select.source(number, ScalarType::U32)?;
    let threads = threads.map_or(Ok(Operand::from(0)), |threads| select.source(threads, ScalarType::U32))?;
    Ok((number, threads))
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
