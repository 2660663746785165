//! Uniformity analysis: a value reported uniform has the same content in all threads when the threads are interpreted one by one.

use std::collections::HashMap;
use std::time::Instant;

use crate::common::interpret::{Event, interpret_thread};
use crate::common::{Random, random_function};
use oriole_ir::analysis::{ControlFlow, LoopId, Loops, Uniformity};
use oriole_ir::text::{parse, print};
use oriole_ir::{Block, Class, Function, Inst, Op, Opcode, Part, Pseudo, Symbol, Value, construct_ssa, verify};
use oriole_support::Index;

/// Returns a random function in which one variable is assigned the thread number at the end of the entry block.
fn threaded_function(random: &mut Random, blocks: usize, size: usize) -> Function {
    let mut function = random_function(random, blocks, size, true);
    let thread = function.new_value(Class::R);
    let (whole, name) = (function.whole(thread), Symbol::find("SR_TID.X").unwrap());
    let read = function.new_inst(Op::Machine(Opcode::S2R), Default::default(), None, &[whole.into(), name.into()], 1);
    let variable: Part = function.whole(Value::new(0));
    let copy = function.new_inst(Op::Pseudo(Pseudo::Copy), Default::default(), None, &[variable.into(), whole.into()], 1);
    let entry = function.entry();
    let at = function.blocks[entry].insts.len() - function.terminators(entry).len();
    function.blocks[entry].insts.splice(at..at, [read, copy]);
    construct_ssa(&mut function);
    function
}

/// Counts, for each loop around the current block, the iterations since the loop was entered.
struct Iterations<'a> {
    loops: &'a Loops,
    counts: HashMap<LoopId, u32>,
    last: Option<Block>,
}

impl Iterations<'_> {
    /// Records that a block is entered.
    fn enter(&mut self, block: Block) {
        if self.loops.is_header(block) {
            let id = self.loops.innermost(block).unwrap();
            let is_back = self.last.is_some_and(|last| self.loops.contains(id, last));
            let count = self.counts.entry(id).or_default();
            *count = if is_back { *count + 1 } else { 0 };
        }
        self.last = Some(block);
    }

    /// Returns the iteration numbers of the loops around the current block, innermost first.
    fn now(&self) -> Vec<u32> {
        let mut around = self.last.and_then(|block| self.loops.innermost(block));
        let mut counts = Vec::new();
        while let Some(id) = around {
            counts.push(self.counts[&id]);
            around = self.loops.get(id).parent;
        }
        counts
    }
}

/// An operand of an instruction in a particular iteration of the loops around it.
type Occasion = (Inst, usize, Vec<u32>);

#[test]
fn uniform_values_are_equal_in_threads_that_run_alone() {
    let (mut uniform, mut divergent, mut parted) = (0, 0, 0);
    for seed in 0..1200 {
        let mut random = Random::new(seed);
        let blocks = 2 + random.below(12);
        let function = threaded_function(&mut random, blocks, 6);
        let flow = ControlFlow::compute(&function);
        let loops = Loops::compute(&function, &flow);
        if loops.iter().any(|id| loops.get(id).is_irreducible) {
            continue;
        }
        let uniformity = Uniformity::compute(&function, &flow);
        parted += uniformity.divergent_branches().len();
        let mut seen: HashMap<Occasion, (i32, Vec<i32>)> = HashMap::new();
        for thread in 0..5 {
            let mut iterations = Iterations { loops: &loops, counts: HashMap::new(), last: None };
            interpret_thread(&function, 80, thread, &mut |event| match event {
                Event::Enters(block) => iterations.enter(block),
                Event::Has { value, .. } if uniformity.is_divergent(value) => divergent += 1,
                Event::Has { inst, operand, value, words } => {
                    uniform += 1;
                    let key = (inst, operand, iterations.now());
                    let (other, expected) = seen.entry(key.clone()).or_insert_with(|| (thread, words.to_vec()));
                    assert_eq!(expected, words, "{value:?} at {key:?} in threads {other} and {thread}, seed {seed}\n{}", print(&function));
                }
            });
        }
    }
    assert!(uniform > 100_000 && divergent > 50_000 && parted > 200, "{uniform} {divergent} {parted}: too few to mean anything");
}

#[test]
fn large_functions_are_analysed_in_linear_time() {
    let mut random = Random::new(5);
    let function = threaded_function(&mut random, 50_000, 8);
    assert!(verify(&function).is_ok());
    let flow = ControlFlow::compute(&function);
    let start = Instant::now();
    let uniformity = Uniformity::compute(&function, &flow);
    println!("{} instructions, {} divergent branches: {:?}", function.inst_count(), uniformity.divergent_branches().len(), start.elapsed());
    let text = print(&function);
    let read = parse(&text).unwrap();
    assert_eq!(read[0].inst_count(), function.inst_count());
    assert!(start.elapsed().as_secs_f64() < 30.0);
}
