//! `ssa`, `control_flow`, `loops`, `liveness`, `uniformity`, `register_counts`: the analyses of Ori, and SSA construction.

use oriole_ir::analysis::{ControlFlow, Dominators, Liveness, Loops, PostDominators, RegisterCounts, Threads, Uniformity};
use oriole_ir::text::{print, print_inst};
use oriole_ir::{Block, Function, Value, construct_ssa, verify};
use oriole_isa::Target;

use super::{Lines, functions};
use crate::file::{TestFile, TestKind};

/// Returns the result of an analysis for all functions.
pub fn run(file: &TestFile, _: Option<Target>, kind: &TestKind) -> Lines {
    let mut lines = Vec::new();
    for function in &functions(file)? {
        lines.extend(result(&kind.name, function)?);
    }
    Ok(lines)
}

fn result(kind: &str, function: &Function) -> Lines {
    let flow = ControlFlow::compute(function);
    Ok(match kind {
        "ssa" => {
            let mut function = function.clone();
            construct_ssa(&mut function);
            verify(&function).map_err(|errors| errors.to_string())?;
            print(&function).lines().map(str::to_owned).collect()
        }
        "control_flow" => control_flow(function, &flow),
        "loops" => loops(function, &flow),
        "liveness" => {
            let liveness = Liveness::compute(function, &flow);
            let line =
                |&block: &Block| format!("{block:?}: in {} out {}", values(liveness.live_in(block)), values(liveness.live_out(block)));
            function.layout.iter().map(line).collect()
        }
        "uniformity" | "uniformity_in_one_dimension" => {
            let threads = if kind == "uniformity" { Threads::InAnyShape } else { Threads::InOneDimension };
            let (dominators, post_dominators) = (Dominators::compute(function, &flow), PostDominators::compute(function, &flow));
            let loops = Loops::compute(function, &flow);
            let uniformity = Uniformity::compute_for_threads(function, &flow, &dominators, &post_dominators, &loops, threads);
            let divergent: Vec<Value> = function.values.indices().filter(|&value| uniformity.is_divergent(value)).collect();
            let branches = uniformity.divergent_branches().iter().map(|&inst| format!("threads part at {}", print_inst(function, inst)));
            std::iter::once(format!("divergent: {}", values(&divergent))).chain(branches).collect()
        }
        other => return Err(format!("`{other}` is no analysis")),
    })
}

/// Lists the number of registers at the start of each block, and the number that can be used in it.
pub fn register_counts(file: &TestFile, _: Option<Target>, _: &TestKind) -> Lines {
    let initial = file.options.initial_registers.ok_or_else(|| "no header line `initial_registers`".to_owned())?;
    let mut lines = Vec::new();
    for function in &functions(file)? {
        let counts = RegisterCounts::compute(function, &ControlFlow::compute(function), initial);
        let line = |&block: &Block| format!("{block:?}: {} at the start, {} usable", counts.at_start(block), counts.in_block(block));
        lines.extend(function.layout.iter().map(line));
    }
    Ok(lines)
}

fn loops(function: &Function, flow: &ControlFlow) -> Vec<String> {
    let loops = Loops::compute(function, flow);
    let describe = |id| {
        let info = loops.get(id);
        let shape = if info.is_irreducible { "irreducible " } else { "" };
        format!("{shape}loop at {:?} depth {}: {}", info.header, info.depth, blocks(loops.blocks(id)))
    };
    loops.iter().map(describe).collect()
}

fn control_flow(function: &Function, flow: &ControlFlow) -> Vec<String> {
    let dominators = Dominators::compute(function, flow);
    let post_dominators = PostDominators::compute(function, flow);
    let name = |block: Option<Block>| block.map_or("none".to_owned(), |block| format!("{block:?}"));
    let line = |&block: &Block| {
        let (above, below) = (name(dominators.immediate(block)), name(post_dominators.immediate(block)));
        format!("{block:?}: from {}, dominator {above}, post-dominator {below}", blocks(flow.predecessors(block)))
    };
    let order = format!("order {}", blocks(flow.reverse_post_order()));
    std::iter::once(order).chain(function.layout.iter().map(line)).collect()
}

fn blocks(list: &[Block]) -> String {
    list.iter().map(|block| format!("{block:?}")).collect::<Vec<_>>().join(" ")
}

fn values(list: &[Value]) -> String {
    format!("[{}]", list.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" "))
}
