//! The walk over the blocks: which value is in which registers, from instruction to instruction.
//!
//! A block starts with what its first visited predecessor left; phis find places there; then instructions one by one
//! ([`crate::operate`]). A loop's first block keeps in registers what the loop uses and drops what only lives through it, if the loop
//! needs the space: a value dropped inside would have to come back on every round.

use oriole_ir::{Block, Class, File, Function, Inst, Opcode, Value};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::control_flow::ControlFlow;
use crate::environment::Environment;
use crate::hints::Hints;
use crate::liveness::{Liveness, NEVER, defined_in, phi_source, used_in};
use crate::moves::Mover;
use crate::registers::RegisterSet;
use crate::{AllocateError, Allocation};

/// In no register.
pub(crate) const NOWHERE: u16 = u16::MAX;
const NOBODY: u32 = u32::MAX;

/// Allocates one file.
pub(crate) struct Assigner<'a> {
    pub(crate) function: &'a mut Function,
    pub(crate) env: &'a Environment,
    pub(crate) file: File,
    pub(crate) flow: ControlFlow,
    pub(crate) liveness: Liveness,
    pub(crate) hints: Hints,
    pub(crate) mover: Mover,
    pub(crate) usable: RegisterSet,
    /// Registers that hold no value now.
    pub(crate) free: RegisterSet,
    occupant: Vec<u32>,
    /// First register of each value now.
    pub(crate) register_of: Vec<u16>,
    /// Position in the block of the next use of each value that is in registers; beyond the block, an estimate.
    pub(crate) next_use: Vec<u32>,
    /// First register of each value where it is defined.
    pub(crate) defined_in: Vec<u16>,
    /// The instruction that defines each value, phis excepted.
    pub(crate) definition: Vec<Option<Inst>>,
    /// First register of each phi where its block starts.
    pub(crate) entered_at: Vec<u16>,
    /// The block whose phi defines each value.
    pub(crate) phi_of: Vec<Option<Block>>,
    /// By block: moves at its start.
    pub(crate) heads: Vec<Vec<Inst>>,
    /// Whether a value needs a store behind its definition.
    pub(crate) wanted: Vec<bool>,
    pub(crate) repeatable: Vec<Option<Inst>>,
    pub(crate) slots: FxHashMap<Value, u32>,
    pub(crate) shadows: FxHashMap<Value, Value>,
    /// By block: values in registers where it starts and ends.
    pub(crate) entry_state: Vec<Vec<(Value, u16)>>,
    pub(crate) exit_state: Vec<Vec<(Value, u16)>>,
    /// By block: its instructions from now on.
    pub(crate) output: Vec<Vec<Inst>>,
    /// Phis whose values are in no register where their block starts.
    pub(crate) memory_phis: Vec<(Block, Inst)>,
    pub(crate) stored_bytes: u32,
    pub(crate) loaded_bytes: u32,
    pub(crate) emergency_slot: Option<u32>,
    /// Words of local memory that no value owns: offset and number.
    pub(crate) private_slots: Vec<(u32, u32)>,
    /// The block that is being walked.
    pub(crate) block: Block,
    /// The number of instructions that each block had.
    pub(crate) lengths: Vec<u32>,
    /// Block and position of each definition, phis excepted, and the position of the last use in that block.
    pub(crate) defined_at: Vec<Option<(Block, u32, u32)>>,
    pub(crate) guarded_copies: Vec<(Inst, Vec<Inst>)>,
    pressure: Vec<u32>,
    /// Distances of all values, [`NEVER`] between uses of the list.
    nearest: Vec<u32>,
}

impl<'a> Assigner<'a> {
    /// Prepares to allocate one file of a function.
    pub fn new(function: &'a mut Function, env: &'a Environment, file: File) -> Result<Assigner<'a>, AllocateError> {
        let flow = ControlFlow::of(function);
        let liveness = Liveness::of(function, &flow, file)?;
        let hints = Hints::of(function, &liveness, file);
        let (values, blocks) = (function.values.len(), function.blocks.len());
        let usable = env.usable(file);
        Ok(Assigner {
            env,
            file,
            flow,
            liveness,
            hints,
            mover: Mover::new(env.target),
            usable,
            free: usable,
            occupant: vec![NOBODY; 256],
            register_of: vec![NOWHERE; values],
            next_use: vec![NEVER; values],
            defined_in: vec![NOWHERE; values],
            wanted: vec![false; values],
            definition: vec![None; values],
            entered_at: vec![NOWHERE; values],
            phi_of: vec![None; values],
            heads: Vec::new(),
            repeatable: vec![None; values],
            slots: FxHashMap::default(),
            shadows: FxHashMap::default(),
            entry_state: vec![Vec::new(); blocks],
            exit_state: vec![Vec::new(); blocks],
            output: vec![Vec::new(); blocks],
            memory_phis: Vec::new(),
            stored_bytes: 0,
            loaded_bytes: 0,
            emergency_slot: None,
            private_slots: Vec::new(),
            block: function.entry(),
            lengths: function.blocks.iter().map(|block| block.insts.len() as u32).collect(),
            defined_at: vec![None; values],
            guarded_copies: Vec::new(),
            pressure: vec![0; blocks],
            nearest: vec![NEVER; values],
            function,
        })
    }

    /// Allocates, moves and rewrites.
    pub fn run(mut self, allocation: &mut Allocation) -> Result<(), AllocateError> {
        if !self.function.values.iter().any(|class| class.file == self.file) {
            self.report(allocation);
            return Ok(());
        }
        let first_slot = self.function.frame_bytes.next_multiple_of(4);
        self.find_repeatable();
        self.measure_pressure();
        for place in 0..self.flow.order.len() {
            self.run_block(self.flow.order[place], place)?;
        }
        self.usable = self.env.usable(self.file);
        self.resolve_edges()?;
        self.rewrite_blocks()?;
        self.share_slots(first_slot);
        self.report(allocation);
        allocation.guarded_copies.append(&mut self.guarded_copies);
        Ok(())
    }

    /// The class of a value.
    pub(crate) fn class(&self, value: Value) -> Class {
        self.function.values[value]
    }

    /// The value in a register.
    pub(crate) fn occupant(&self, register: u16) -> Option<Value> {
        let number = self.occupant[usize::from(register)];
        (number != NOBODY).then(|| Value::new(number as usize))
    }

    /// Puts a value into free registers.
    pub(crate) fn put(&mut self, value: Value, register: u16) {
        let width = self.class(value).width;
        debug_assert!(self.free.has_all(register, width), "{value:?} to occupied {register}+{width}");
        self.free.remove(register, width);
        let end = usize::from(register) + usize::from(width);
        self.occupant[usize::from(register)..end].fill(value.position() as u32);
        self.register_of[value.position()] = register;
    }

    /// Takes a value out of its registers.
    pub(crate) fn take(&mut self, value: Value) {
        let register = std::mem::replace(&mut self.register_of[value.position()], NOWHERE);
        let width = self.class(value).width;
        self.free.insert(register, width);
        self.occupant[usize::from(register)..usize::from(register) + usize::from(width)].fill(NOBODY);
    }

    /// The values in registers, by register.
    pub(crate) fn residents(&self) -> Vec<(Value, u16)> {
        let mut found = Vec::new();
        for register in self.usable.without(&self.free).iter() {
            if let Some(value) = self.occupant(register)
                && self.register_of[value.position()] == register
            {
                found.push((value, register));
            }
        }
        found
    }

    /// A free place for a value: where its web is, where the web as a whole fits, or anywhere.
    pub(crate) fn choose(&mut self, value: Value, free: &RegisterSet) -> Option<u16> {
        let class = self.class(value);
        let fits = |place: u16| place.is_multiple_of(u16::from(class.align)) && free.has_all(place, class.width);
        if let Some(place) = self.hints.place(value) {
            if fits(place) {
                return Some(place);
            }
        } else {
            let (width, offset, align) = self.hints.extent(value);
            if width > class.width {
                let web = Class { width, align, ..class };
                if let Some(place) = free.find(web).map(|place| place + u16::from(offset)).filter(|&place| fits(place)) {
                    self.hints.settle(value, place);
                    return Some(place);
                }
            }
        }
        let place = free.find(class)?;
        if self.hints.place(value).is_none() {
            self.hints.settle(value, place);
        }
        Some(place)
    }

    /// How bad it is to drop a value: the nearer the next use, the worse.
    pub(crate) fn drop_cost(&self, value: Value, position: u32) -> u64 {
        let distance = u64::from(self.next_use[value.position()].saturating_sub(position)) + 1;
        let weight: u64 = if self.repeatable[value.position()].is_some() {
            1 << 34
        } else if self.wanted[value.position()] {
            3 << 34
        } else {
            5 << 34
        };
        1 + weight / distance
    }

    /// Notes how far a value reaches in the block of its definition.
    pub(crate) fn note_use(&mut self, value: Value, position: u32, next: u32) {
        let leaves = next != NEVER && next >= self.lengths[self.block.position()];
        if let Some((block, _, last)) = &mut self.defined_at[value.position()]
            && *block == self.block
        {
            *last = if leaves { u32::MAX } else { (*last).max(position) };
        }
    }

    /// Notes where a value is defined.
    pub(crate) fn note_definition(&mut self, value: Value, inst: Inst, position: u32, next: u32, register: u16) {
        self.next_use[value.position()] = next;
        self.defined_in[value.position()] = register;
        self.definition[value.position()] = Some(inst);
        self.defined_at[value.position()] = Some((self.block, position, position));
        self.note_use(value, position, next);
    }

    /// Forgets where a value is; it will be fetched when it is used again.
    pub(crate) fn drop_value(&mut self, value: Value) {
        self.take(value);
        self.want_back(value);
    }

    /// The greatest number of registers that each block needs at once, if nothing is dropped.
    fn measure_pressure(&mut self) {
        let mut nearest = vec![NEVER; self.function.values.len()];
        for &block in &self.flow.order {
            let live_out = self.liveness.at_end(self.function, &self.flow, block, self.file, &mut nearest);
            let mut now: u32 = live_out.iter().map(|&value| u32::from(self.class(value).width)).sum();
            let mut most = now;
            for &(_, inst) in self.liveness.touching[block.position()].iter().rev() {
                for value in defined_in(self.function, inst, self.file) {
                    if std::mem::replace(&mut nearest[value.position()], NEVER) != NEVER {
                        now -= u32::from(self.function.values[value].width);
                    }
                }
                for part in used_in(self.function, inst, self.file) {
                    if std::mem::replace(&mut nearest[part.value.position()], 0) == NEVER {
                        now += u32::from(self.function.values[part.value].width);
                    }
                }
                most = most.max(now);
            }
            self.pressure[block.position()] = most;
            for value in live_out.iter().chain(&self.liveness.live_in[block.position()]) {
                nearest[value.position()] = NEVER;
            }
        }
    }

    fn run_block(&mut self, block: Block, place: usize) -> Result<(), AllocateError> {
        self.block = block;
        self.usable = self.env.usable(self.file);
        self.free = self.usable;
        self.occupant.fill(NOBODY);
        if place > 0 {
            self.enter_block(block, place);
        }
        let insts = self.function.blocks[block].insts.clone();
        let touching = std::mem::take(&mut self.liveness.touching[block.position()]);
        let (starts, nexts) = self.look_ahead(block, &touching);
        let mut out = Vec::with_capacity(insts.len() + insts.len() / 8);
        let mut ahead = touching.iter().zip(&starts).peekable();
        for (position, &inst) in insts.iter().enumerate() {
            match ahead.next_if(|((at, _), _)| *at == position as u32) {
                Some((_, &start)) => self.operate(inst, position as u32, &nexts[start..], &mut out)?,
                None if self.function.insts[inst].is_machine(Opcode::CALL) => self.operate(inst, position as u32, &[], &mut out)?,
                None => out.push(inst),
            }
        }
        self.liveness.touching[block.position()] = touching;
        self.join_terminators(block, &mut out);
        self.output[block.position()] = out;
        let residents = self.residents();
        for &(value, _) in &residents {
            self.register_of[value.position()] = NOWHERE;
        }
        self.exit_state[block.position()] = residents;
        Ok(())
    }

    /// What was written for the sake of the last instruction goes in front of the guarded branch before it.
    fn join_terminators(&self, block: Block, out: &mut [Inst]) {
        if let [first, _] = *self.function.terminators(block) {
            let end = out.len() - 1;
            if let Some(at) = out[..end].iter().rposition(|&inst| inst == first) {
                out[at..end].rotate_left(1);
            }
        }
    }

    /// For each instruction, the positions of the next uses of what it reads, then of what it writes.
    fn look_ahead(&mut self, block: Block, insts: &[(u32, Inst)]) -> (Vec<usize>, Vec<u32>) {
        let mut upcoming = std::mem::take(&mut self.nearest);
        let touched = self.liveness.at_end(self.function, &self.flow, block, self.file, &mut upcoming);
        let mut starts = vec![0; insts.len()];
        let mut nexts = Vec::new();
        for (number, &(position, inst)) in insts.iter().enumerate().rev() {
            starts[number] = nexts.len();
            nexts.extend(used_in(self.function, inst, self.file).map(|part| upcoming[part.value.position()]));
            for value in defined_in(self.function, inst, self.file) {
                nexts.push(std::mem::replace(&mut upcoming[value.position()], NEVER));
            }
            for part in used_in(self.function, inst, self.file) {
                upcoming[part.value.position()] = position;
            }
        }
        touched.iter().chain(&self.liveness.live_in[block.position()]).for_each(|value| upcoming[value.position()] = NEVER);
        self.nearest = upcoming;
        (starts, nexts)
    }

    /// The state at the start of a block.
    fn enter_block(&mut self, block: Block, place: usize) {
        let at = block.position();
        let visited = self.flow.predecessors[at].iter().copied().filter(|from| (self.flow.place[from.position()] as usize) < place);
        let base = visited.max_by_key(|from| (self.flow.depth[from.position()], self.flow.place[from.position()]));
        let live_in = self.liveness.live_in[at].clone();
        for (&value, &distance) in live_in.iter().zip(&self.liveness.distance[at]) {
            self.next_use[value.position()] = distance;
        }
        let left = base.map_or(Vec::new(), |base| self.exit_state[base.position()].clone());
        for (value, register) in left {
            if live_in.binary_search(&value).is_ok() {
                self.put(value, register);
            }
        }
        if self.flow.loops[at].is_some() {
            self.make_room_for_loop(block, &live_in);
        }
        self.place_phis(block, base);
        for &phi in self.function.phis(block) {
            if let Some(value) = self.function.operands(phi)[0].value() {
                self.entered_at[value.position()] = self.register_of[value.position()];
                self.phi_of[value.position()] = Some(block);
            }
        }
        for value in live_in {
            if self.register_of[value.position()] == NOWHERE {
                self.want_back(value);
            }
        }
        self.entry_state[at] = self.residents();
    }

    /// Drops what lives through a loop unused, as far as the loop needs the space, and fetches what it uses, as far as it has space.
    fn make_room_for_loop(&mut self, block: Block, live_in: &[Value]) {
        let body = self.flow.loops[block.position()].as_deref().unwrap_or_default();
        let most = body.iter().map(|inside| self.pressure[inside.position()]).max().unwrap_or(0);
        let mut excess = most.saturating_sub(self.usable.count());
        if excess == 0 {
            let mut missing: Vec<Value> = live_in.iter().copied().filter(|value| self.register_of[value.position()] == NOWHERE).collect();
            missing.sort_by_key(|value| self.next_use[value.position()]);
            for value in missing {
                let free = self.free;
                if self.next_use[value.position()] < 100_000
                    && let Some(register) = self.choose(value, &free)
                {
                    self.put(value, register);
                }
            }
            return;
        }
        let mut unused: Vec<(u32, Value)> = self
            .residents()
            .iter()
            .map(|&(value, _)| (self.next_use[value.position()], value))
            .filter(|&(next, _)| next >= 100_000)
            .collect();
        unused.sort_by_key(|&(next, value)| (std::cmp::Reverse(next), value));
        for (_, value) in unused {
            if excess == 0 {
                break;
            }
            excess = excess.saturating_sub(u32::from(self.class(value).width));
            self.drop_value(value);
        }
    }

    /// Finds places for phis: where their source from the base already is, or anywhere, or nowhere.
    fn place_phis(&mut self, block: Block, base: Option<Block>) {
        let phis: Vec<(Inst, Value)> = self
            .function
            .phis(block)
            .iter()
            .filter_map(|&phi| self.function.operands(phi)[0].value().map(|value| (phi, value)))
            .filter(|&(_, value)| self.class(value).file == self.file)
            .collect();
        if phis.is_empty() {
            return;
        }
        self.measure_phis(block, &phis);
        let left = base.map_or(&[][..], |base| &self.exit_state[base.position()][..]);
        let left: FxHashMap<Value, u16> = left.iter().copied().collect();
        let mut later = Vec::new();
        for &(phi, value) in &phis {
            if self.next_use[value.position()] == NEVER {
                continue;
            }
            let class = self.class(value);
            let source = base.and_then(|base| phi_source(self.function, phi, base).part());
            let inherited = source.and_then(|part| left.get(&part.value).map(|register| register + u16::from(part.first)));
            match inherited.filter(|&place| place.is_multiple_of(u16::from(class.align)) && self.free.has_all(place, class.width)) {
                Some(place) => {
                    self.put(value, place);
                    self.hints.settle(value, place);
                }
                None => later.push((phi, value)),
            }
        }
        later.sort_by_key(|&(_, value)| (std::cmp::Reverse(self.class(value).width), self.next_use[value.position()], value));
        for (phi, value) in later {
            let free = self.free;
            if let Some(register) = self.choose(value, &free) {
                self.put(value, register);
            } else if !self.displace_for_phi(value, &phis) {
                self.memory_phis.push((block, phi));
                self.want_back(value);
            }
        }
    }

    /// Distances to the next uses of a block's phis.
    fn measure_phis(&mut self, block: Block, phis: &[(Inst, Value)]) {
        let mut nearest = std::mem::take(&mut self.nearest);
        let touched = self.liveness.at_end(self.function, &self.flow, block, self.file, &mut nearest);
        let insts = &self.liveness.touching[block.position()];
        for &(position, inst) in insts.iter().rev() {
            for part in used_in(self.function, inst, self.file) {
                nearest[part.value.position()] = position;
            }
        }
        for &(_, value) in phis {
            self.next_use[value.position()] = nearest[value.position()];
        }
        for &(_, inst) in insts {
            used_in(self.function, inst, self.file).for_each(|part| nearest[part.value.position()] = NEVER);
        }
        touched.into_iter().for_each(|value| nearest[value.position()] = NEVER);
        self.nearest = nearest;
    }

    /// Drops values that are used later than a phi, to give it their place.
    fn displace_for_phi(&mut self, value: Value, phis: &[(Inst, Value)]) -> bool {
        let class = self.class(value);
        let is_phi = |victim: Value| phis.iter().any(|&(_, phi)| phi == victim);
        let Some((cost, place)) = self.cheapest_window(class, &self.usable, 0, |victim| !is_phi(victim)) else { return false };
        if cost >= self.drop_cost(value, 0) {
            return false;
        }
        for register in place..place + u16::from(class.width) {
            if let Some(victim) = self.occupant(register) {
                self.drop_value(victim);
            }
        }
        self.put(value, place);
        true
    }

    /// The window of a class whose occupants are cheapest to drop.
    pub(crate) fn cheapest_window(
        &self,
        class: Class,
        within: &RegisterSet,
        position: u32,
        may_drop: impl Fn(Value) -> bool,
    ) -> Option<(u64, u16)> {
        let mut best: Option<(u64, u16)> = None;
        for place in within.places(class).iter() {
            let mut cost = 0;
            let mut last = None;
            let mut allowed = true;
            for register in place..place + u16::from(class.width) {
                let occupant = self.occupant(register);
                if let Some(value) = occupant.filter(|_| occupant != last) {
                    allowed &= may_drop(value);
                    cost += self.drop_cost(value, position);
                }
                last = occupant;
            }
            if allowed && best.is_none_or(|(lowest, _)| cost < lowest) {
                best = Some((cost, place));
            }
        }
        best
    }
}
