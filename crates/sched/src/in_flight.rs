//! Tracks the results that are still in flight when a block or a region starts.
//!
//! Blocks are scheduled one by one, but a load at the end of a block is not complete when the next block starts. [`InFlightResults`] tracks
//! the results of variable latency across the boundaries of regions and blocks, so that the dependency graph of a region knows when the
//! operands from before the region arrive ([`crate::graph::Graph::start_cycles`]).
//!
//! Example: `bb0` ends with `LDG R14`, which usually takes 400 cycles, and a branch; `bb1` has `FADD R6, R7, R14` and then four more loads.
//! Without this module the scheduler would assume that the addition is ready at once and leave it first; the loads after it would then wait
//! for `R14` too. With it, the addition is known to wait for about 400 cycles, and the loads issue first.
//!
//! The state at the start of a block is the maximum over its predecessors; at a loop header over its back edges only, because a result in
//! flight before the loop delays the first iteration only. The block of a back edge is scheduled after the header, so its original order is
//! used. Time is estimated roughly: one cycle per instruction, plus the wait for operands in flight.

use oriole_hardware::Model;
use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, OperandKind, Part};
use oriole_support::IndexVec;

use crate::code::from_ir::ValueNumbers;
use crate::code::{Item, SchedCode};

/// A register number whose latest result is in flight, and the number of cycles until that result arrives.
type InFlightRegister = (u32, u32);

/// Tracks results in flight: at the current position of a block, and at the ends of the blocks that were finished.
pub(crate) struct InFlightResults<'m> {
    /// The latencies of the target.
    model: &'m Model,
    /// For each register number, the cycle, from the start of the block, in which its latest result arrives; 0 if it is not in flight.
    arrivals: Vec<u32>,
    /// Register numbers whose entry in `arrivals` may be nonzero; used to reset the table.
    maybe_in_flight: Vec<u32>,
    /// The current cycle, from the start of the block.
    cycle: u32,
    /// The results in flight at the start of the current block, each as a register and the number of cycles until its result arrives.
    in_flight_at_start: Vec<InFlightRegister>,
    /// For each block, the results in flight at its end, each as a register and the remaining cycles, ordered by register number.
    in_flight_at_ends: IndexVec<Block, Vec<InFlightRegister>>,
}

impl<'m> InFlightResults<'m> {
    /// Creates the state for a function whose code has `registers` register numbers.
    pub(crate) fn new(model: &'m Model, registers: usize, function: &Function) -> InFlightResults<'m> {
        InFlightResults {
            model,
            arrivals: vec![0; registers],
            maybe_in_flight: Vec::new(),
            cycle: 0,
            in_flight_at_start: Vec::new(),
            in_flight_at_ends: IndexVec::filled(function.blocks.len(), Vec::new()),
        }
    }

    /// Moves to the start of `block`, with the results that its predecessors leave in flight. `numbers` maps SSA values to register
    /// numbers; `None` for code on physical registers.
    pub(crate) fn enter_block(&mut self, function: &Function, flow: &ControlFlow, block: Block, numbers: Option<&ValueNumbers>) {
        self.reset();
        let is_back_edge = |from: &Block| flow.position(*from) >= flow.position(block);
        let is_loop = flow.predecessors(block).iter().any(is_back_edge);
        for &predecessor in flow.predecessors(block).iter().filter(|from| !is_loop || is_back_edge(from)) {
            let ends = &self.in_flight_at_ends[predecessor];
            for &(register, cycles) in ends {
                record_arrival(&mut self.arrivals, &mut self.maybe_in_flight, register, cycles);
            }
            // The result of a phi arrives with the source for this predecessor.
            if let Some(numbers) = numbers.filter(|_| !ends.is_empty()) {
                for (to, from) in phi_registers(function, block, predecessor, numbers) {
                    if let Ok(found) = ends.binary_search_by_key(&from, |&(register, _)| register) {
                        record_arrival(&mut self.arrivals, &mut self.maybe_in_flight, to, ends[found].1);
                    }
                }
            }
        }
        self.in_flight_at_start = self.registers_in_flight();
    }

    /// Moves back to the start of the current block.
    pub(crate) fn restart_block(&mut self) {
        self.reset();
        for &(register, cycles) in &self.in_flight_at_start {
            record_arrival(&mut self.arrivals, &mut self.maybe_in_flight, register, cycles);
        }
    }

    /// Moves past an item: advances the current cycle, and records the cycle in which the results of the item arrive.
    pub(crate) fn step(&mut self, code: &SchedCode, item: &Item) {
        let arrival = code.reads(item).iter().map(|access| self.arrivals[access.register as usize]).max().unwrap_or(0);
        // A pseudo operation does not wait: its results arrive with its operands.
        let result = if item.opcode.is_none() {
            arrival
        } else {
            self.cycle = arrival.max(self.cycle) + 1;
            self.model.time(item.class).map_or(0, |time| self.cycle - 1 + u32::from(time.usual))
        };
        for access in code.results(item) {
            self.arrivals[access.register as usize] = result;
            if result > 0 {
                self.maybe_in_flight.push(access.register);
            }
        }
    }

    /// Returns the cycles until the latest result of a register arrives; 0 if it is not in flight.
    pub(crate) fn cycles_until_result(&self, register: u32) -> u32 {
        self.arrivals[register as usize].saturating_sub(self.cycle)
    }

    /// Walks the current block in its final order and records the results that are in flight at its end, for the successors.
    pub(crate) fn finish_block(&mut self, code: &SchedCode, block: Block, order: impl Iterator<Item = usize>) {
        self.restart_block();
        for position in order {
            self.step(code, &code.items[position]);
        }
        self.in_flight_at_ends[block] = self.registers_in_flight();
    }

    /// Forgets all results in flight, and sets the current cycle to 0.
    fn reset(&mut self) {
        for register in self.maybe_in_flight.drain(..) {
            self.arrivals[register as usize] = 0;
        }
        self.cycle = 0;
    }

    /// Returns the registers whose results have not arrived yet, each with the cycles until its result arrives, in ascending order of
    /// registers.
    fn registers_in_flight(&mut self) -> Vec<InFlightRegister> {
        self.maybe_in_flight.sort_unstable();
        self.maybe_in_flight.dedup();
        let left = self.maybe_in_flight.iter().map(|&register| (register, self.cycles_until_result(register)));
        left.filter(|&(_, cycles)| cycles > 0).collect()
    }
}

/// Records that the result in `register` arrives in cycle `cycles` of the block, unless a later arrival is recorded already.
fn record_arrival(arrivals: &mut [u32], maybe_in_flight: &mut Vec<u32>, register: u32, cycles: u32) {
    let arrival = &mut arrivals[register as usize];
    *arrival = cycles.max(*arrival);
    maybe_in_flight.push(register);
}

/// Returns pairs of register numbers for the phis of a block: a register of the result, and the register of its source for `predecessor`.
pub(crate) fn phi_registers<'f>(
    function: &'f Function,
    block: Block,
    predecessor: Block,
    numbers: &'f ValueNumbers,
) -> impl Iterator<Item = (u32, u32)> + use<'f> {
    function.phis(block).iter().flat_map(move |&phi| {
        let source = function.sources(phi).chunks(2).find_map(|pair| match pair {
            [source, from] if from.kind == OperandKind::Block(predecessor) => source.part(),
            _ => None,
        });
        let result = function.defined(phi).next().map(|value| Part { value, first: 0, count: function.values[value].width });
        result.zip(source).into_iter().flat_map(move |(to, from)| numbers.registers(to).zip(numbers.registers(from)))
    })
}

#[cfg(test)]
mod tests {
    use oriole_ir::analysis::ControlFlow;
    use oriole_isa::{RegFile, Target};

    use super::*;
    use crate::code::from_ir::push_ssa_inst;
    use crate::code::from_machine;
    use crate::code::products::ProductRegisters;

    /// Returns the latency model of the tests.
    fn model() -> &'static Model {
        Model::of(Target::parse("sm_90a").unwrap())
    }

    /// Walks a function on SSA values block by block. Returns, for each block, the registers in flight at its start with the cycles until
    /// they arrive.
    fn starts(text: &str) -> Vec<Vec<InFlightRegister>> {
        let function = oriole_ir::text::parse(text).unwrap().remove(0);
        let flow = ControlFlow::compute(&function);
        let numbers = ValueNumbers::new(&function);
        let mut code = numbers.empty();
        let mut in_flight = InFlightResults::new(model(), code.registers(), &function);
        let mut found = Vec::new();
        for &block in &function.layout {
            let start = code.items.len();
            function.blocks[block]
                .insts
                .iter()
                .for_each(|&inst| push_ssa_inst(&mut code, &numbers, &function, &ProductRegisters::default(), inst));
            in_flight.enter_block(&function, &flow, block, Some(&numbers));
            found.push(in_flight.in_flight_at_start.clone());
            in_flight.finish_block(&code, block, start..code.items.len());
        }
        found
    }

    /// The load of `bb0` is the last instruction before the branch; `bb1` starts one cycle later. A phi gets the arrival of its source.
    #[test]
    fn a_load_is_in_flight_in_the_next_block() {
        let text = "func kernel @f ssa {\nbb0:\n    %0:UR2 = ULDC.64 c[0x0][0x208]\n    %1:R2 = IMAD.WIDE RZ, 0x4, c[0x0][0x210]\n    %2:R = LDG.E desc[%0][%1.64] !global.4\n    BRA bb1\nbb1:\n    %3:R = PHI %2, bb0\n    %4:R = FADD %2, %3\n    BRA bb2\nbb2:\n    EXIT\n}";
        let starts = starts(text);
        let usual = oriole_hardware::Classes::get().of(oriole_isa::Opcode::LDG, &[]);
        let usual = u32::from(model().time(usual).expect("a load has a variable latency").usual);
        // Registers: %0 is 0 and 1, %1 is 2 and 3, %2 is 4, %3 is 5. The load and the branch take a cycle each.
        assert_eq!(starts[0], []);
        assert_eq!(starts[1], [(4, usual - 2), (5, usual - 2)]);
        // The addition has waited for both results.
        assert_eq!(starts[2], []);
    }

    /// A load before the loop is in flight in the first iteration only and does not count; a load at the end of the loop counts.
    #[test]
    fn only_back_edges_count_at_the_start_of_a_loop() {
        let text = "func kernel @f ssa {\nbb0:\n    %0:UR2 = ULDC.64 c[0x0][0x208]\n    %1:R2 = IMAD.WIDE RZ, 0x4, c[0x0][0x210]\n    %2:R = LDG.E desc[%0][%1.64] !global.4\n    BRA bb1\nbb1:\n    %3:P, PT = ISETP.NE.U32.AND %2, 0x0, PT\n    %4:R = LDG.E desc[%0][%1.64+0x4] !global.4\n    @%3 BRA bb1\n    BRA bb2\nbb2:\n    EXIT\n}";
        let function = oriole_ir::text::parse(text).unwrap().remove(0);
        let flow = ControlFlow::compute(&function);
        let numbers = ValueNumbers::new(&function);
        let mut code = numbers.empty();
        let mut ranges = Vec::new();
        for &block in &function.layout {
            let start = code.items.len();
            function.blocks[block]
                .insts
                .iter()
                .for_each(|&inst| push_ssa_inst(&mut code, &numbers, &function, &ProductRegisters::default(), inst));
            ranges.push((block, start..code.items.len()));
        }
        let mut in_flight = InFlightResults::new(model(), code.registers(), &function);
        for (block, range) in &ranges[..2] {
            in_flight.enter_block(&function, &flow, *block, Some(&numbers));
            in_flight.finish_block(&code, *block, range.clone());
        }
        in_flight.enter_block(&function, &flow, ranges[1].0, Some(&numbers));
        // %2 is register 4, %3 is 5, %4 is 6.
        assert_eq!(in_flight.in_flight_at_start.iter().map(|&(register, _)| register).collect::<Vec<_>>(), [6]);
    }

    #[test]
    fn a_result_that_is_overwritten_is_not_in_flight() {
        let lines = ["LDG.E R4, desc[UR4][R2.64]", "LDG.E R5, desc[UR4][R2.64+0x4]", "MOV R4, R9"];
        let code = from_machine::code(&lines.map(|line| oriole_isa::parse(line).unwrap()));
        let function = oriole_ir::text::parse("func kernel @f {\nbb0:\n    EXIT\n}").unwrap().remove(0);
        let mut in_flight = InFlightResults::new(model(), code.registers(), &function);
        code.items.iter().for_each(|item| in_flight.step(&code, item));
        let cycles = |number| in_flight.cycles_until_result(from_machine::register(RegFile::General, number).unwrap());
        assert_eq!(cycles(4), 0);
        assert!(cycles(5) > 100, "{}", cycles(5));
    }
}
