//! Tests of convergence barriers: deep nesting, and simulated warps on random graphs. `filetests/converge` has small graphs.

use std::collections::BTreeSet;

use oriole_ir::analysis::Threads;
use oriole_ir::{Block, Builder, Class, Function, FunctionKind, Guard, OperandKind, Target, machine};
use oriole_isa::{Opcode, encode};
use oriole_opt::converge::CalleeFacts;
use oriole_opt::legalize::EncodabilityCache;
use oriole_opt::{converge, legalize};

const NO_CALLEES: CalleeFacts<'static> = CalleeFacts { waits_for_whole_warp: &|_| false, has_warp_operations: &|_| false, may_meet: true };

fn target(name: &str) -> Target {
    Target::parse(name).unwrap()
}

/// Builds a function from the successors of each block. A block without successors exits, a block with one branches to it, and a block with
/// two branches on a predicate of its own.
fn graph(edges: &[&[usize]]) -> Function {
    let mut function = Function::new("graph", FunctionKind::Kernel);
    function.is_ssa = true;
    let mut builder = Builder::new(function);
    let blocks: Vec<Block> = std::iter::once(builder.block()).chain((1..edges.len()).map(|_| builder.new_block())).collect();
    for (number, next) in edges.iter().enumerate() {
        if number > 0 {
            builder.start(blocks[number]);
        }
        let x = builder.define(Class::R, "S2R $, SR_TID.X", &[]);
        builder.emit("WARPSYNC {}", &[0xffff_ffff_u32.into()]);
        match next {
            [] => {
                builder.emit("STS [{}], {}", &[x, x]);
                builder.emit("EXIT", &[]);
            }
            [only] => _ = builder.branch(None, blocks[*only]),
            [taken, other] => {
                let p = builder.define(Class::P, "ISETP.GT.AND $, PT, {}, {}, PT", &[x, (number as i64).into()]);
                builder.branch(Some(Guard { kind: p.kind, negated: false }), blocks[*taken]);
                builder.branch(None, blocks[*other]);
            }
            _ => panic!("at most two successors"),
        }
    }
    builder.function
}

/// Describes each block by its `BSSY` ("set for") and `BSYNC` ("wait") and its successors, as positions in the layout.
fn shape(function: &Function) -> Vec<String> {
    let name = |block: Block| function.layout.iter().position(|&other| other == block).unwrap();
    function
        .layout
        .iter()
        .map(|&block| {
            let mut text = String::new();
            for &inst in &function.blocks[block].insts {
                for operand in function.operands(inst) {
                    match (function.insts[inst].op.machine(), operand.kind) {
                        (Some(Opcode::BSSY), OperandKind::Block(after)) => text.push_str(&format!("set for {} ", name(after))),
                        (Some(Opcode::BSYNC), _) => text.push_str("wait "),
                        _ => {}
                    }
                }
            }
            let next: Vec<String> = function.successors(block).iter().map(|&next| name(next).to_string()).collect();
            text + &next.join(",")
        })
        .collect()
}

/// Runs the pass on a graph.
fn converged(edges: &[&[usize]]) -> converge::Stats {
    converge::run(&mut graph(edges), target("sm_90"), NO_CALLEES, Threads::InAnyShape)
}

#[test]
fn outermost_regions_beyond_the_nesting_limit_get_no_barrier() {
    let depth = 20;
    // Block `level` branches to the next condition or to the end of its own; the conditions end in reverse order.
    let mut edges: Vec<Vec<usize>> = Vec::new();
    for level in 0..depth {
        edges.push(vec![level + 1, 2 * depth - level]);
    }
    for level in 0..depth {
        edges.push(vec![depth + level + 1]);
    }
    edges.push(Vec::new());
    let edges: Vec<&[usize]> = edges.iter().map(Vec::as_slice).collect();
    let stats = converged(&edges);
    assert_eq!((stats.barriers, stats.skipped), (converge::MAX_NESTED_BARRIERS, depth - converge::MAX_NESTED_BARRIERS));
}

/// A deterministic xorshift generator.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % limit
    }
}

/// Threads of a warp that execute together, and their next instruction.
struct Group {
    threads: Vec<usize>,
    block: Block,
    at: usize,
}

/// A simulated warp whose threads take each branch at random.
struct Warp<'f> {
    function: &'f Function,
    groups: Vec<Group>,
    /// For each thread, the barriers that it has set, with the threads that were active then.
    set: Vec<Vec<(oriole_ir::Value, Vec<usize>)>>,
    exited: BTreeSet<usize>,
}

const THREADS: usize = 5;

impl Warp<'_> {
    /// Returns the barrier that a group waits on, if its next instruction is a `BSYNC`.
    fn barrier(&self, group: &Group) -> Option<oriole_ir::Value> {
        let inst = self.function.blocks[group.block].insts[group.at];
        let is_wait = self.function.insts[inst].is_machine(Opcode::BSYNC);
        is_wait.then(|| self.function.operands(inst)[0].value().unwrap())
    }

    /// Returns whether a group waits for threads that have not arrived at its barrier.
    fn is_blocked(&self, group: &Group) -> bool {
        let Some(barrier) = self.barrier(group) else { return false };
        let Some((_, mask)) = self.set[group.threads[0]].iter().find(|entry| entry.0 == barrier) else {
            panic!("waits for a barrier that it has not set");
        };
        let waiting: Vec<usize> = self
            .groups
            .iter()
            .chain([group])
            .filter(|other| other.block == group.block && self.barrier(other) == Some(barrier))
            .flat_map(|other| other.threads.clone())
            .collect();
        !mask.iter().all(|thread| self.exited.contains(thread) || waiting.contains(thread))
    }

    /// Executes one instruction of a group that is not blocked.
    fn step(&mut self, random: &mut Random, number: usize) {
        let mut group = self.groups.swap_remove(number);
        let inst = self.function.blocks[group.block].insts[group.at];
        let data = &self.function.insts[inst];
        match data.op.machine() {
            Some(Opcode::BSSY) => {
                let barrier = self.function.operands(inst)[0].value().unwrap();
                for &thread in &group.threads {
                    assert!(self.set[thread].iter().all(|entry| entry.0 != barrier), "sets a barrier twice");
                    self.set[thread].push((barrier, group.threads.clone()));
                }
                group.at += 1;
            }
            Some(Opcode::BSYNC) => {
                let barrier = self.barrier(&group).unwrap();
                let (block, at) = (group.block, group.at);
                let mask = self.set[group.threads[0]].iter().find(|entry| entry.0 == barrier).unwrap().1.clone();
                let mut kept = Vec::new();
                for other in std::mem::take(&mut self.groups) {
                    let joins = other.block == block && other.at == at && other.threads.iter().all(|thread| mask.contains(thread));
                    if joins { group.threads.extend(other.threads) } else { kept.push(other) }
                }
                self.groups = kept;
                for &thread in &group.threads {
                    self.set[thread].retain(|entry| entry.0 != barrier);
                }
                group.at += 1;
            }
            Some(Opcode::BRA) => {
                let OperandKind::Block(taken) = self.function.operands(inst)[0].kind else { panic!() };
                let (go, stay): (Vec<usize>, Vec<usize>) = group.threads.iter().partition(|_| data.guard.is_none() || random.below(2) == 0);
                if !go.is_empty() {
                    self.groups.push(Group { threads: go, block: taken, at: 0 });
                }
                if stay.is_empty() {
                    return;
                }
                group.threads = stay;
                group.at += 1;
            }
            Some(Opcode::EXIT) => {
                self.exited.extend(group.threads);
                return;
            }
            _ => group.at += 1,
        }
        self.groups.push(group);
    }
}

#[test]
fn random_graphs_do_not_deadlock() {
    let mut random = Random(0x1234_5678_9abc_def1);
    let (mut barriers, mut finished) = (0, 0);
    for _ in 0..3000 {
        let count = 3 + random.below(10);
        let edges: Vec<Vec<usize>> = (0..count)
            .map(|block| {
                let near = |random: &mut Random| {
                    let to = if random.below(4) == 0 { random.below(count) } else { block + 1 + random.below(3) };
                    to.clamp(1, count - 1)
                };
                match random.below(6) {
                    _ if block == count - 1 => vec![],
                    0 | 1 => vec![near(&mut random)],
                    2 if random.below(3) == 0 => vec![],
                    _ => vec![near(&mut random), near(&mut random)],
                }
            })
            .collect();
        let edges: Vec<&[usize]> = edges.iter().map(Vec::as_slice).collect();
        let mut function = graph(&edges);
        barriers += converge::run(&mut function, target("sm_90"), NO_CALLEES, Threads::InAnyShape).barriers;
        for _ in 0..6 {
            let start = Group { threads: (0..THREADS).collect(), block: function.entry(), at: 0 };
            let mut warp = Warp { function: &function, groups: vec![start], set: vec![Vec::new(); THREADS], exited: BTreeSet::new() };
            for _ in 0..600 {
                if warp.groups.is_empty() {
                    finished += 1;
                    break;
                }
                let ready: Vec<usize> = (0..warp.groups.len()).filter(|&number| !warp.is_blocked(&warp.groups[number])).collect();
                assert!(!ready.is_empty(), "all wait for each other in {edges:?}: {:?}", shape(&function));
                let chosen = ready[random.below(ready.len())];
                warp.step(&mut random, chosen);
            }
        }
    }
    assert!(barriers > 1500 && finished > 5000, "{barriers} barriers, {finished} warps came to the end");
}

#[test]
fn barriers_are_encoded_on_every_target() {
    for target in Target::all_with_machine_code() {
        let mut function = graph(&[&[1, 2], &[3], &[3], &[]]);
        legalize::run(&mut function, &mut EncodabilityCache::new(target)).unwrap();
        converge::run(&mut function, target, NO_CALLEES, Threads::InAnyShape);
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                encode(&machine::machine_instruction(&function, inst, &|_| 64), target).unwrap();
            }
        }
    }
}
