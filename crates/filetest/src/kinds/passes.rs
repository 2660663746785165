//! `isel` and `opt PASS`: the functions after instruction selection, and the effect of one pass.
//!
//! The effect of a pass is a listing of the function with `-` before each line that the pass deletes and `+` before each line that it
//! inserts; `unchanged` if it does neither. Source positions are not listed.

use std::collections::HashSet;

use oriole_hardware::Hardware;
use oriole_ir::analysis::Threads;
use oriole_ir::text::{print, print_inst};
use oriole_ir::{Function, Inst, construct_ssa, machine, verify};
use oriole_isa::Target;
use oriole_opt::converge::CalleeFacts;
use oriole_opt::{
    aggregate, balance, combine, constant_handles, constant_phis, contract, converge, dead, drop_copies, drop_divergence_tests, fold,
    forward, forward_stores, fuse, gather_stores, guard_copies, guard_elected, guard_sums, halves, hoist, if_convert, insert_yields,
    join_phis, legalize, merge, narrow, peel_waits, reduce, share_constants, share_products, share_tuples, simplify, split_index,
    stagger_products, straighten, sync_diverged, tie_loads, uniform_handles, uniform_numbers, unroll, vector_loads,
};

use super::{Lines, functions, module, required};
use crate::diff;
use crate::file::{Options, TestFile, TestKind, UNCHANGED};
use crate::kinds::back_end;
use crate::pipeline;

/// The number of general registers that `stagger-products` may use.
const MAX_REGISTERS: u32 = 253;

/// Passes that may leave instructions without an encoding, which `legalize` rewrites.
const BEFORE_LEGALIZATION: [&str; 7] = ["construct-ssa", "uniform-handles", "straighten", "simplify", "contract", "fuse", "split-index"];

/// Lists the functions that instruction selection makes from PTX.
pub fn isel(file: &TestFile, target: Option<Target>, _: &TestKind) -> Lines {
    let found = pipeline::around(&module(file)?, &file.options, required(target), "select")?.ok_or("selection does not run")?;
    Ok(found.after.iter().flat_map(|text| without_positions(text).lines().map(str::to_owned).collect::<Vec<_>>()).collect())
}

/// Lists the effect of a pass on PTX that the passes before it have compiled.
pub fn opt_ptx(file: &TestFile, target: Option<Target>, kind: &TestKind) -> Lines {
    let pass = kind.argument.as_deref().ok_or("`test opt` needs the name of a pass")?;
    match pipeline::around(&module(file)?, &file.options, required(target), pass)? {
        None => Ok(vec!["the pass does not run at this level".to_owned()]),
        Some(found) => Ok(effect(&found.before, &found.after)),
    }
}

/// Lists the effect of a pass on Ori. The verifier must accept the function before and after the pass. After `legalize` every instruction
/// must have an encoding; after later passes every instruction that had one before.
pub fn opt_ori(file: &TestFile, target: Option<Target>, kind: &TestKind) -> Lines {
    let pass = kind.argument.as_deref().ok_or("`test opt` needs the name of a pass")?;
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for mut function in functions(file)? {
        checked(&function, "the program")?;
        before.push(print(&function));
        let was_encodable = encodable(&function, required(target));
        if let Some(error) = apply(&mut function, required(target), pass, &file.options)? {
            return Ok(vec![format!("error: {error}")]);
        }
        checked(&function, "the result")?;
        check_encodings(&function, &was_encodable, required(target), pass)?;
        after.push(print(&function));
    }
    Ok(effect(&before, &after))
}

fn checked(function: &Function, what: &str) -> Result<(), String> {
    if !function.is_ssa {
        return Ok(());
    }
    verify(function).map_err(|errors| format!("{what} is not valid: {errors}"))
}

/// Checks that a pass leaves no instruction without an encoding: none at all for `legalize`, otherwise none that had one before.
fn check_encodings(function: &Function, before: &HashSet<Inst>, target: Target, pass: &str) -> Result<(), String> {
    if !function.is_ssa || BEFORE_LEGALIZATION.contains(&pass) {
        return Ok(());
    }
    let after = encodable(function, target);
    let mut insts = function.layout.iter().flat_map(|&block| function.blocks[block].insts.iter().copied());
    let lost = insts.find(|inst| (pass == "legalize" || before.contains(inst)) && !after.contains(inst));
    lost.map_or(Ok(()), |inst| Err(format!("the result cannot be encoded: {}", print_inst(function, inst))))
}

/// Returns the instructions of a function that the target can encode. Pseudo operations count as encodable.
fn encodable(function: &Function, target: Target) -> HashSet<Inst> {
    let insts = function.layout.iter().flat_map(|&block| function.blocks[block].insts.iter().copied());
    insts.filter(|&inst| machine::is_encodable(function, inst, target)).collect()
}

/// Applies a pass to a function. Returns the error that the pass reports, if any.
fn apply(function: &mut Function, target: Target, pass: &str, options: &Options) -> Result<Option<String>, String> {
    let encodability = &mut legalize::EncodabilityCache::new(target);
    match pass {
        "construct-ssa" => construct_ssa(function),
        "uniform-handles" => _ = uniform_handles::run(function),
        "straighten" => _ = straighten::run(function, target),
        "simplify" | "simplify-again" => _ = simplify::run(function, encodability),
        "fuse" => _ = fuse::run(function, target),
        "legalize" => return Ok(legalize::run(function, encodability).err().map(|error| error.to_string())),
        "forward" => _ = forward::run(function, target),
        "merge" => _ = merge::run(function, target),
        "contract" => _ = contract::run(function, encodability, contract::RequiredLegality::Any),
        "contract-again" => _ = contract::run(function, encodability, contract::RequiredLegality::Encodable),
        "split-index" => _ = split_index::run(function, target),
        "tie-loads" => _ = tie_loads::run(function, encodability),
        "fold" => _ = fold::run(function, encodability),
        "combine" => _ = combine::run(function, encodability),
        "if-convert" => _ = if_convert::run(function, &Hardware::built_in(target)),
        "halves" => _ = halves::run(function, encodability),
        "guard-sums" => _ = guard_sums::run(function, encodability),
        "uniform-numbers" => _ = uniform_numbers::run(function, encodability),
        "join-phis" => _ = join_phis::run(function, target),
        "share-products" => _ = share_products::run(function, encodability),
        "share-tuples" => _ = share_tuples::run(function, target),
        "constant-handles" => _ = constant_handles::run(function, target),
        "share-constants" => _ = share_constants::run(function, target),
        "stagger-products" => _ = stagger_products::run(function, MAX_REGISTERS),
        "constant-phis" => _ = constant_phis::run(function, target),
        "remove-dead" => _ = dead::run(function, target),
        "converge" => {
            // Every callee may execute a shuffle.
            let callees = CalleeFacts { waits_for_whole_warp: &|_| false, has_warp_operations: &|_| true, may_meet: true };
            converge::run(function, target, callees, Threads::InAnyShape);
        }
        "sync-diverged" => _ = sync_diverged::run(function, target),
        "give-way" => _ = insert_yields::run(function, target),
        "hoist" => _ = hoist::run(function, target),
        "unroll" => _ = unroll::run(function, &Hardware::built_in(target)),
        "forward-stores" => _ = forward_stores::run(function),
        "gather-stores" => _ = gather_stores::run(function),
        "peel-waits" => _ = peel_waits::run(function, Threads::InAnyShape),
        "guard-elected" => _ = guard_elected::run(function, target, Threads::InAnyShape),
        "drop-divergence-tests" => _ = drop_divergence_tests::run(function, target, Threads::InAnyShape),
        "vector-loads" => _ = vector_loads::run(function, target),
        "narrow" => _ = narrow::run(function, target),
        "reduce" => _ = reduce::run(function, target),
        "aggregate" => _ = aggregate::run(function, target),
        "balance" => _ = balance::run(function, &Hardware::built_in(target), encodability),
        "drop-copies" => _ = drop_copies::run(function),
        "balance-moves" => _ = balance::run_on_register_moves(function, &Hardware::built_in(target), encodability),
        "guard-copies" => guard_copies::run(function),
        "allocate" => match back_end::allocated(function, target, options)? {
            Ok((allocated, _)) => *function = allocated,
            Err(error) => return Ok(Some(error.to_string())),
        },
        other => return Err(format!("the pass `{other}` cannot be applied to Ori; use PTX")),
    }
    Ok(None)
}

/// Returns the marked listing of all functions. The heading of a function does not count as a change: it says whether the function is in
/// SSA form.
fn effect(before: &[String], after: &[String]) -> Vec<String> {
    let body = |text: &str| without_positions(text).lines().skip(1).map(str::to_owned).collect::<Vec<_>>().join("\n");
    let is_changed = |number: usize| before.get(number).map(|text| body(text)) != after.get(number).map(|text| body(text));
    if !(0..before.len().max(after.len())).any(is_changed) {
        return vec![UNCHANGED.to_owned()];
    }
    let mut lines = Vec::new();
    for (number, after) in after.iter().enumerate() {
        let after = without_positions(after);
        if is_changed(number) {
            lines.extend(diff::marked(&without_positions(before.get(number).map_or("", String::as_str)), &after));
        } else {
            lines.push(format!("{} {UNCHANGED} }}", after.lines().next().unwrap_or_default()));
        }
    }
    lines
}

/// Removes the source positions of instructions, such as ` ;@12:3`.
fn without_positions(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(|line| line.split(" ;@").next().unwrap_or_default()).collect();
    lines.join("\n")
}
