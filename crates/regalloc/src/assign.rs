//! The walk over the blocks: which value is in which registers, from instruction to instruction.
//!
//! A block starts with what its first visited predecessor left; phis find places there; then instructions one by one
//! ([`crate::operate`]). A loop's first block keeps in registers what the loop uses and drops what only lives through it, if the loop
//! needs the space: a value dropped inside would have to come back on every round.

use oriole_ir::{Block, Class, File, Function, Inst, Value};
use oriole_support::Index;
use rustc_hash::FxHashMap;

use crate::control_flow::ControlFlow;
use crate::environment::Environment;
use crate::hints::Hints;
use crate::liveness::{Liveness, NEVER, Touch, phi_source};
use crate::moves::Mover;
use crate::registers::RegisterSet;
use crate::{AllocateError, Allocation};

/// In no register.
pub(crate) const NOWHERE: u16 = u16::MAX;
const NOBODY: u32 = u32::MAX;

const NO_BLOCK: u32 = u32::MAX;

/// Values in registers at one border of each block, one list behind the other.
#[derive(Default)]
pub(crate) struct States {
    entries: Vec<(Value, u16)>,
    spans: Vec<(u32, u32)>,
}

impl States {
    fn clear(&mut self, blocks: usize) {
        self.entries.clear();
        self.spans.clear();
        self.spans.resize(blocks, (0, 0));
    }

    fn range(&self, block: Block) -> std::ops::Range<usize> {
        let (start, end) = self.spans[block.position()];
        start as usize..end as usize
    }

    /// The values and their first registers.
    pub(crate) fn of(&self, block: Block) -> &[(Value, u16)] {
        &self.entries[self.range(block)]
    }
}

/// Allocates one file after the other. What is kept by value serves all files, because they share no values.
pub(crate) struct Assigner<'a> {
    pub(crate) function: &'a mut Function,
    pub(crate) env: &'a Environment,
    pub(crate) file: File,
    pub(crate) flow: ControlFlow,
    pub(crate) liveness: Liveness,
    pub(crate) hints: Hints,
    pub(crate) mover: Mover,
    /// What the environment lets values use.
    allowed: RegisterSet,
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
    pub(crate) entry_state: States,
    pub(crate) exit_state: States,
    /// Whether each block has a phi, copy or pack that concerns the file.
    pub(crate) may_dissolve: Vec<bool>,
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
    /// The last block that each value was found live into.
    live_into: Vec<u32>,
    /// Where each value is at the end of the block that phis inherit from; nowhere between uses of the list.
    left_at: Vec<u16>,
}

impl<'a> Assigner<'a> {
    /// Prepares to allocate a function.
    pub fn new(function: &'a mut Function, env: &'a Environment) -> Assigner<'a> {
        Assigner {
            env,
            file: File::General,
            flow: ControlFlow::of(function),
            liveness: Liveness::default(),
            hints: Hints::default(),
            mover: Mover::new(env.target),
            allowed: RegisterSet::EMPTY,
            usable: RegisterSet::EMPTY,
            free: RegisterSet::EMPTY,
            occupant: vec![NOBODY; 256],
            register_of: Vec::new(),
            next_use: Vec::new(),
            defined_in: Vec::new(),
            wanted: Vec::new(),
            definition: Vec::new(),
            entered_at: Vec::new(),
            phi_of: Vec::new(),
            heads: Vec::new(),
            repeatable: Vec::new(),
            slots: FxHashMap::default(),
            shadows: FxHashMap::default(),
            entry_state: States::default(),
            exit_state: States::default(),
            may_dissolve: Vec::new(),
            output: Vec::new(),
            memory_phis: Vec::new(),
            stored_bytes: 0,
            loaded_bytes: 0,
            emergency_slot: None,
            private_slots: Vec::new(),
            block: function.entry(),
            lengths: Vec::new(),
            defined_at: Vec::new(),
            guarded_copies: Vec::new(),
            live_into: Vec::new(),
            left_at: Vec::new(),
            function,
        }
    }

    /// Looks at one file.
    fn start(&mut self, file: File) -> Result<(), AllocateError> {
        if self.flow.is_outdated(self.function) {
            self.flow = ControlFlow::of(self.function);
        }
        self.file = file;
        self.allowed = self.env.usable(file);
        self.liveness.look_at(self.function, &self.flow, file)?;
        self.hints.look_at(self.function, &self.liveness, file);
        let (values, blocks) = (self.function.values.len(), self.function.blocks.len());
        self.register_of.resize(values, NOWHERE);
        self.next_use.resize(values, NEVER);
        self.defined_in.resize(values, NOWHERE);
        self.wanted.clear();
        self.wanted.resize(values, false);
        self.definition.resize(values, None);
        self.entered_at.resize(values, NOWHERE);
        self.phi_of.resize(values, None);
        self.repeatable.resize(values, None);
        self.defined_at.resize(values, None);
        self.live_into.resize(values, NO_BLOCK);
        self.left_at.resize(values, NOWHERE);
        self.entry_state.clear(blocks);
        self.exit_state.clear(blocks);
        self.may_dissolve.clear();
        self.may_dissolve.resize(blocks, false);
        self.output.resize_with(blocks, Vec::new);
        self.heads.resize_with(blocks, Vec::new);
        self.lengths.clear();
        self.lengths.extend(self.function.blocks.iter().map(|block| block.insts.len() as u32));
        self.slots.clear();
        self.shadows.clear();
        self.private_slots.clear();
        self.memory_phis.clear();
        self.emergency_slot = None;
        Ok(())
    }

    /// Allocates one file: finds places, moves and rewrites.
    pub fn run(&mut self, file: File) -> Result<(), AllocateError> {
        if !self.function.values.iter().any(|class| class.file == file) {
            return Ok(());
        }
        self.start(file)?;
        let first_slot = self.function.frame_bytes.next_multiple_of(4);
        self.find_repeatable();
        for place in 0..self.flow.order.len() {
            self.run_block(self.flow.order[place], place)?;
        }
        self.usable = self.allowed;
        self.resolve_edges()?;
        self.rewrite_blocks()?;
        self.share_slots(first_slot);
        Ok(())
    }

    /// Says what all files together needed.
    pub fn report(self, allocation: &mut Allocation) {
        allocation.spill_store_bytes = self.stored_bytes;
        allocation.spill_load_bytes = self.loaded_bytes;
        allocation.guarded_copies = self.guarded_copies;
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
        self.occupy(register, width, value.position() as u32);
        self.register_of[value.position()] = register;
    }

    /// Takes a value out of its registers.
    pub(crate) fn take(&mut self, value: Value) {
        let register = std::mem::replace(&mut self.register_of[value.position()], NOWHERE);
        let width = self.class(value).width;
        self.free.insert(register, width);
        self.occupy(register, width, NOBODY);
    }

    fn occupy(&mut self, register: u16, width: u8, occupant: u32) {
        let first = usize::from(register);
        match width {
            1 => self.occupant[first] = occupant,
            _ => self.occupant[first..first + usize::from(width)].fill(occupant),
        }
    }

    /// Appends the values in registers, by register.
    fn add_residents(&self, found: &mut Vec<(Value, u16)>) {
        let occupied = self.usable.without(&self.free);
        found.reserve(occupied.count() as usize);
        occupied.for_each(|register| {
            if let Some(value) = self.occupant(register)
                && self.register_of[value.position()] == register
            {
                found.push((value, register));
            }
        });
    }

    /// A free place for a value: where its web is, where the web as a whole fits, or anywhere.
    pub(crate) fn choose(&mut self, value: Value, free: &RegisterSet) -> Option<u16> {
        let class = self.class(value);
        let fits = |place: u16| place.is_multiple_of(u16::from(class.align)) && free.has_all(place, class.width);
        let web = self.hints.web(value);
        let wish = self.hints.place(web);
        if let Some(place) = wish {
            if fits(place) {
                return Some(place);
            }
        } else {
            let (width, offset, align) = self.hints.extent(web);
            if width > class.width {
                let whole = Class { width, align, ..class };
                if let Some(place) = free.find(whole).map(|place| place + u16::from(offset)).filter(|&place| fits(place)) {
                    self.hints.settle(web, place);
                    return Some(place);
                }
            }
        }
        let place = free.find(class)?;
        if wish.is_none() {
            self.hints.settle(web, place);
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

    fn run_block(&mut self, block: Block, place: usize) -> Result<(), AllocateError> {
        self.block = block;
        self.usable = self.allowed;
        self.free = self.usable;
        self.occupant.fill(NOBODY);
        if place > 0 {
            self.enter_block(block, place);
        }
        let insts = std::mem::take(&mut self.function.blocks[block].insts);
        let mut out = Vec::with_capacity(insts.len() + insts.len() / 8);
        let result = self.walk(block, &insts, &mut out);
        self.function.blocks[block].insts = insts;
        result?;
        self.join_terminators(block, &mut out);
        self.output[block.position()] = out;
        let mut states = std::mem::take(&mut self.exit_state);
        let start = states.entries.len();
        self.add_residents(&mut states.entries);
        for &(value, _) in &states.entries[start..] {
            self.register_of[value.position()] = NOWHERE;
        }
        states.spans[block.position()] = (start as u32, states.entries.len() as u32);
        self.exit_state = states;
        Ok(())
    }

    fn walk(&mut self, block: Block, insts: &[Inst], out: &mut Vec<Inst>) -> Result<(), AllocateError> {
        let mut done = 0;
        for number in 0..self.liveness.touching(block).len() {
            let touch: Touch = self.liveness.touching(block)[number];
            out.extend_from_slice(&insts[done..touch.position as usize]);
            self.operate(touch, out)?;
            done = touch.position as usize + 1;
        }
        out.extend_from_slice(&insts[done..]);
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

    /// The state at the start of a block.
    fn enter_block(&mut self, block: Block, place: usize) {
        let at = block.position();
        let visited = self.flow.predecessors[at].iter().copied().filter(|from| (self.flow.place[from.position()] as usize) < place);
        let base = visited.max_by_key(|from| (self.flow.depth[from.position()], self.flow.place[from.position()]));
        for (&value, &distance) in self.liveness.live_in(block).iter().zip(self.liveness.distances(block)) {
            self.next_use[value.position()] = distance;
            self.live_into[value.position()] = at as u32;
        }
        for number in base.map_or(0..0, |base| self.exit_state.range(base)) {
            let (value, register) = self.exit_state.entries[number];
            if self.live_into[value.position()] == at as u32 {
                self.put(value, register);
            }
        }
        if self.flow.loops[at].is_some() {
            self.make_room_for_loop(block);
        }
        self.place_phis(block, base);
        for number in 0..self.liveness.live_in(block).len() {
            let value = self.liveness.live_in(block)[number];
            if self.register_of[value.position()] == NOWHERE {
                self.want_back(value);
            }
        }
        let mut states = std::mem::take(&mut self.entry_state);
        let start = states.entries.len();
        self.add_residents(&mut states.entries);
        states.spans[at] = (start as u32, states.entries.len() as u32);
        self.entry_state = states;
    }

    /// Drops what lives through a loop unused, as far as the loop needs the space, and fetches what it uses, as far as it has space.
    fn make_room_for_loop(&mut self, block: Block) {
        let body = self.flow.loops[block.position()].as_deref().unwrap_or_default();
        let most = body.iter().map(|inside| self.liveness.pressure[inside.position()]).max().unwrap_or(0);
        let mut excess = most.saturating_sub(self.usable.count());
        if excess == 0 {
            let live_in = self.liveness.live_in(block).iter();
            let mut missing: Vec<Value> = live_in.copied().filter(|value| self.register_of[value.position()] == NOWHERE).collect();
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
        let mut residents = Vec::new();
        self.add_residents(&mut residents);
        let mut unused: Vec<(u32, Value)> =
            residents.iter().map(|&(value, _)| (self.next_use[value.position()], value)).filter(|&(next, _)| next >= 100_000).collect();
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
        for &touch in self.liveness.touching(block).iter().take(phis.len()) {
            for (value, &next) in self.liveness.defined(touch).iter().zip(self.liveness.nexts_of_defined(touch)) {
                self.next_use[value.position()] = next;
            }
        }
        let left = base.map_or(&[][..], |base| self.exit_state.of(base));
        left.iter().for_each(|&(value, register)| self.left_at[value.position()] = register);
        let mut later = Vec::new();
        for &(phi, value) in &phis {
            if self.next_use[value.position()] == NEVER {
                continue;
            }
            let class = self.class(value);
            let source = base.and_then(|base| phi_source(self.function, phi, base).part());
            let left_at = source.map(|part| (self.left_at[part.value.position()], part.first)).filter(|left| left.0 != NOWHERE);
            let inherited = left_at.map(|(register, first)| register + u16::from(first));
            match inherited.filter(|&place| place.is_multiple_of(u16::from(class.align)) && self.free.has_all(place, class.width)) {
                Some(place) => {
                    self.put(value, place);
                    let web = self.hints.web(value);
                    self.hints.settle(web, place);
                }
                None => later.push((phi, value)),
            }
        }
        let left = base.map_or(&[][..], |base| self.exit_state.of(base));
        left.iter().for_each(|&(value, _)| self.left_at[value.position()] = NOWHERE);
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
        for &(_, value) in &phis {
            self.entered_at[value.position()] = self.register_of[value.position()];
            self.phi_of[value.position()] = Some(block);
        }
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
