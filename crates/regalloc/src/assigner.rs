//! The state of the allocator, divided into parts by purpose, and the few operations that concern several parts.
//!
//! | part | contents | changed by |
//! |---|---|---|
//! | [`AllocationInputs`] | environment, control flow, liveness | nothing while a register file is allocated |
//! | [`CoalescingHints`] | webs (sets of values that should be in related registers to save moves) | choices of registers |
//! | [`Accumulators`] | accumulators of matrix products that do not fit into the registers together | nothing |
//! | [`InFlightReads`] | registers that asynchronous instructions may still read | the walk |
//! | [`RegisterReservations`] | registers that the sources of phis should be defined into | the walk |
//! | [`LiveAcrossSlowCalls`] | values that are live across calls of slow paths | nothing while a register file is allocated |
//! | [`PackWindows`] | registers of tuples whose elements are being defined | the walk |
//! | [`RegisterFile`] | which value is in which register at the current point | the walk, instruction by instruction |
//! | [`BlockWalk`] | next uses and definitions of values | the walk |
//! | [`SpilledValues`] | dropped values, their spill slots and shadows (copies in other register files) | the walk and the edges |
//! | [`BlockBoundaryStates`] | values in registers at the starts and ends of blocks | the walk; read by the edges |
//! | [`AllocatedCode`] | the new instructions | the walk and the edges |

use oriole_ir::{Block, Class, Function, Inst, RegFile, Value};
use oriole_support::IndexVec;

use crate::accumulators::Accumulators;
use crate::banks::choose_banks;
use crate::borders::BlockBoundaryStates;
use crate::environment::AllocationEnvironment;
use crate::hints::CoalescingHints;
use crate::in_flight::InFlightReads;
use crate::inputs::AllocationInputs;
use crate::outcome::{AllocateError, Allocation};
use crate::pack_windows::PackWindows;
use crate::register_file::RegisterFile;
use crate::registers::{Reg, RegisterSet};
use crate::reservations::RegisterReservations;
use crate::slow_calls::LiveAcrossSlowCalls;
use crate::spill::SpilledValues;
use crate::walk::BlockWalk;

/// The cost of dropping (evicting) a value that only a `KEEP` still uses. No other cost is lower; see [`RegisterAssigner::eviction_cost`].
const MIN_EVICTION_COST: u64 = 16;

/// The code that the allocation of one register file produces.
#[derive(Clone, Default)]
pub(crate) struct AllocatedCode {
    /// For each block: its new instruction list.
    pub insts: IndexVec<Block, Vec<Inst>>,
    /// For each block: whether it has a phi, copy or pack with an operand of the register file, which has to be deleted afterwards.
    pub has_pseudo_ops: IndexVec<Block, bool>,
    /// For each guarded copy: the moves that replace it. The verifier of the allocation ([`crate::check`]) needs this list.
    pub guarded_copies: Vec<(Inst, Vec<Inst>)>,
}

/// The state of the allocator, which handles one register file after the other. Vectors indexed by value are kept from file to file: each
/// value belongs to one file.
pub(crate) struct RegisterAssigner<'a> {
    /// The function whose values get registers.
    pub function: &'a mut Function,
    /// The inputs of the allocation: environment, control flow and liveness.
    pub inputs: AllocationInputs<'a>,
    /// Coalescing hints: webs of values that should be in related registers.
    pub hints: CoalescingHints,
    /// Accumulators of matrix products that do not fit into the registers together.
    pub accumulators: &'a Accumulators,
    /// Registers that asynchronous instructions may still read.
    pub in_flight: InFlightReads,
    /// Registers that are kept free in the current block for the definitions of phi sources, so that these need no move to the phi's
    /// register.
    pub reservations: RegisterReservations,
    /// Registers that are kept free for elements of a tuple between the definitions of its first and its last element.
    pub pack_windows: PackWindows,
    /// Minimum number of registers of the current register file that the function needs, rounded up to an allocation unit of the hardware.
    needed_registers: u32,
    /// The values that are live across calls of slow paths (functions for rare cases of an operation), and the registers that such calls
    /// overwrite.
    live_across_slow_calls: LiveAcrossSlowCalls,
    /// The value in each register at the current point of the walk.
    pub registers: RegisterFile,
    /// Next uses and definitions of values at the current point of the walk.
    pub walk: BlockWalk,
    /// Dropped values, their spill slots, and their shadows (values of another register file with the same content).
    pub spills: SpilledValues,
    /// Values in registers at the starts and ends of blocks.
    pub borders: BlockBoundaryStates,
    /// The instruction lists that the allocation of the current register file produces.
    pub output: AllocatedCode,
}

impl<'a> RegisterAssigner<'a> {
    /// Creates the state for a function; no register file is allocated yet.
    pub fn new(function: &'a mut Function, env: &'a AllocationEnvironment, accumulators: &'a Accumulators) -> RegisterAssigner<'a> {
        RegisterAssigner {
            inputs: AllocationInputs::new(function, env),
            hints: CoalescingHints::default(),
            accumulators,
            in_flight: InFlightReads::default(),
            reservations: RegisterReservations::default(),
            pack_windows: PackWindows::default(),
            needed_registers: 0,
            live_across_slow_calls: LiveAcrossSlowCalls::default(),
            registers: RegisterFile::new(),
            walk: BlockWalk::new(function.entry()),
            spills: SpilledValues::new(env.stack_pointer, accumulators.spill_slot_owners().clone()),
            borders: BlockBoundaryStates::default(),
            output: AllocatedCode::default(),
            function,
        }
    }

    /// Resets the state that is kept for one register file, and computes liveness and coalescing hints for `file`.
    pub fn start_register_file(&mut self, file: RegFile) -> Result<(), AllocateError> {
        let (values, blocks) = (self.function.values.len(), self.function.blocks.len());
        self.inputs.start_register_file(self.function, file)?;
        self.hints.add_webs_of_file(self.function, &self.inputs.liveness, file);
        if file == RegFile::General {
            self.accumulators.homes().for_each(|(value, home)| self.hints.note_register(value, home));
        }
        self.in_flight = InFlightReads::default();
        if file == RegFile::General {
            let (flow, pressure) = (&self.inputs.flow.graph, &self.inputs.liveness.pressure);
            let usable = self.inputs.env.usable_registers(file).count();
            self.in_flight = InFlightReads::new(self.function, flow, pressure, usable, &mut self.hints);
        }
        self.reservations = RegisterReservations::default();
        if file == RegFile::General {
            self.reservations = RegisterReservations::find(self.function, &self.inputs.flow, &self.inputs.liveness, file);
        }
        let pressure = self.inputs.liveness.pressure.iter().copied().max().unwrap_or(0);
        self.needed_registers = pressure.next_multiple_of(self.inputs.env.register_unit.max(1));
        self.live_across_slow_calls = LiveAcrossSlowCalls::default();
        if matches!(file, RegFile::General | RegFile::Predicate) {
            let inputs = &self.inputs;
            self.live_across_slow_calls =
                LiveAcrossSlowCalls::find(self.function, inputs.env, &inputs.liveness, file, self.needed_registers);
        }
        self.registers.start_register_file(self.function, self.inputs.env.usable_registers(file));
        self.walk.start_register_file(values);
        self.spills.start_register_file(self.function, &self.inputs.liveness, file, !self.inputs.env.keeps_variables);
        self.borders.start_register_file(values, blocks);
        self.output.insts.resize(blocks, Vec::new());
        self.output.has_pseudo_ops.clear();
        self.output.has_pseudo_ops.resize(blocks, false);
        Ok(())
    }

    /// Makes values of the current register file prefer registers in banks that avoid bank conflicts ([`crate::banks`]). Returns whether any
    /// value has a preference.
    pub fn prefer_conflict_free_banks(&mut self) -> bool {
        choose_banks(&mut self.hints, self.function, &self.inputs.liveness, &self.inputs.flow)
    }

    /// Returns a copy of this state for `function`, which must be a copy of this state's function.
    pub fn clone_for_function<'f>(&self, function: &'f mut Function) -> RegisterAssigner<'f>
    where
        'a: 'f,
    {
        RegisterAssigner {
            function,
            inputs: self.inputs.clone(),
            hints: self.hints.clone(),
            accumulators: self.accumulators,
            in_flight: self.in_flight.clone(),
            reservations: self.reservations.clone(),
            pack_windows: self.pack_windows.clone(),
            needed_registers: self.needed_registers,
            live_across_slow_calls: self.live_across_slow_calls.clone(),
            registers: self.registers.clone(),
            walk: self.walk.clone(),
            spills: self.spills.clone(),
            borders: self.borders.clone(),
            output: self.output.clone(),
        }
    }

    /// Writes the spill statistics and the guarded copies of all register files into `allocation`. Returns the allocated function.
    pub fn finish_with_report(self, allocation: &mut Allocation) -> &'a mut Function {
        allocation.spill_store_bytes = self.spills.frame.stored_bytes;
        allocation.spill_load_bytes = self.spills.frame.loaded_bytes;
        allocation.guarded_copies = self.output.guarded_copies;
        self.function
    }

    /// Returns the register class of a value.
    pub fn class_of(&self, value: Value) -> Class {
        self.function.values[value]
    }

    /// Returns whether a value belongs to the register file that is being allocated.
    pub fn is_in_current_file(&self, value: Value) -> bool {
        self.class_of(value).file == self.inputs.file
    }

    /// Chooses consecutive registers for a value among `free` and returns the first; `None` if no aligned gap is wide enough. Follows the
    /// coalescing hints ([`CoalescingHints::choose_registers`]) within these preferences:
    ///
    /// - An operand of an asynchronous matrix product that runs across a back edge prefers registers that the next iteration does not write
    ///   early ([`InFlightReads`]).
    /// - Other values avoid registers that are reserved for a value which needs them before this value dies ([`RegisterReservations`]),
    ///   registers that a queued `LDGSTS` or another asynchronous copy may still read, and registers that a call of a slow path overwrites
    ///   while the value is live ([`LiveAcrossSlowCalls`]).
    /// - A value that is being defined avoids registers kept free for elements of a tuple, and the first element of a tuple determines the
    ///   registers of the whole tuple ([`PackWindows`]).
    /// - In a loop, a value that belongs to no divided accumulator prefers registers outside the home registers of the accumulators
    ///   ([`Accumulators`]).
    pub fn choose_registers(&mut self, value: Value, free: &RegisterSet) -> Option<Reg> {
        let is_in_loop = || self.inputs.flow.loops.depth(self.walk.block) > 0;
        if !self.accumulators.is_empty()
            && self.inputs.file == RegFile::General
            && self.accumulators.home_register_of(value).is_none()
            && is_in_loop()
            && let Some(place) = self.choose_ignoring_accumulators(value, &free.without(self.accumulators.registers()))
        {
            return Some(place);
        }
        self.choose_ignoring_accumulators(value, free)
    }

    /// Chooses registers for a value among `free` like [`RegisterAssigner::choose_registers`], but does not avoid the home registers of
    /// accumulators.
    fn choose_ignoring_accumulators(&mut self, value: Value, free: &RegisterSet) -> Option<Reg> {
        let place = self.choose_outside_pack_windows(value, free).or_else(|| self.choose_ignoring_windows(value, free))?;
        if self.walk.definitions[value].is_none() {
            self.pack_windows.note_definition(value, place, free);
        }
        Some(place)
    }

    /// Chooses registers for a value outside of those kept free for elements of other tuples ([`PackWindows`]), and returns the first. The
    /// first element of a tuple gets its place in a gap for the whole tuple. Returns `None` if the function would need more registers for
    /// that, or if the registers that the coalescing hints prefer for the value are free.
    fn choose_outside_pack_windows(&mut self, value: Value, free: &RegisterSet) -> Option<Reg> {
        let class = self.function.values[value];
        if self.hints.hinted_register(value).is_some_and(|place| free.has_all(place, class.width)) {
            return None;
        }
        let avoided = self.pack_windows.registers_to_avoid(value);
        let unreserved = avoided.map_or(*free, |avoided| free.without(&avoided));
        // An operand of a matrix product that still runs in the next iteration of the loop may raise the number of registers, because
        // waiting for the product would cost more.
        if let Some((tuple, offset)) = self.pack_windows.tuple_to_place(value)
            && let Some(busy) = self.in_flight.registers_to_avoid(&mut self.hints, value)
            && let Some(start) = unreserved.without(busy).find_gap(tuple)
            && (start + offset).is_aligned(class.align)
        {
            self.hints.note_chosen_registers(value, class, start + offset);
            return Some(start + offset);
        }
        let affordable = RegisterSet::first_n(self.needed_registers.max(self.hints.used_register_end().into()));
        let allowed = unreserved.and(&affordable);
        if let Some((tuple, offset)) = self.pack_windows.tuple_to_place(value)
            && !self.hints.has_gap_for_web(value, &allowed)
            && let Some(start) = allowed.find_gap(tuple)
            && (start + offset).is_aligned(class.align)
        {
            self.hints.note_chosen_registers(value, class, start + offset);
            return Some(start + offset);
        }
        avoided.and_then(|_| self.choose_ignoring_windows(value, &allowed))
    }

    /// Chooses registers for a value among `free` like [`RegisterAssigner::choose_registers`], but does not avoid the home registers of
    /// accumulators and the registers kept free for elements of tuples.
    fn choose_ignoring_windows(&mut self, value: Value, free: &RegisterSet) -> Option<Reg> {
        let class = self.function.values[value];
        if let Some(avoided) = self.in_flight.registers_to_avoid(&mut self.hints, value)
            && let Some(place) = self.hints.choose_registers(value, class, &free.without(avoided))
        {
            return Some(place);
        }
        if class.file == RegFile::General
            && let Some(preferred) = self.in_flight.registers_for_non_operands(self.walk.block).map(|preferred| free.and(preferred))
            && self.in_flight.registers_to_avoid(&mut self.hints, value).is_none()
            && self.hints.hinted_register(value).is_none()
            && let Some(place) = self.hints.choose_registers(value, class, &preferred)
        {
            return Some(place);
        }
        if let Some(avoided) = self.in_flight.async_copy_reads().filter(|_| class.file == RegFile::Uniform) {
            if let Some(place) = self.hints.choose_registers(value, class, &free.without(&avoided)) {
                return Some(place);
            }
            self.in_flight.forget_async_copy_reads();
        }
        if let Some(avoided) = self.in_flight.ldgsts_reads().filter(|_| class.file == RegFile::General) {
            let in_use = free.and(&RegisterSet::first_n(self.hints.used_register_end().into())).without(&avoided);
            let has_hint = self.hints.hinted_register(value).is_some();
            if !has_hint && let Some(place) = self.hints.choose_registers(value, class, &in_use) {
                return Some(place);
            }
        }
        if let Some(preferred) = self.live_across_slow_calls.preferred_registers(value, free, self.hints.used_register_end()) {
            let has_hint = self.hints.hinted_register(value).is_some_and(|place| free.has_all(place, class.width));
            if !has_hint && let Some(place) = self.hints.choose_registers(value, class, &preferred) {
                return Some(place);
            }
        }
        if let Some(choice) = self.reservations.candidate_registers(value, free, self.hints.used_register_end()) {
            let has_hint = self.hints.hinted_register(value).is_some_and(|place| choice.unreserved.has_all(place, class.width));
            if !has_hint
                && class.width == 1
                && let Some(place) = self.hints.choose_registers(value, class, &choice.preferred)
            {
                return Some(place);
            }
            if let Some(place) = self.hints.choose_registers(value, class, &choice.unreserved) {
                return Some(place);
            }
        }
        self.hints.choose_registers(value, class, free)
    }

    /// Returns the estimated cost of dropping (evicting) a value at a position of the block: a number without unit, at least 16, for
    /// comparison with the costs of other values.
    ///
    /// Belady's MIN rule evicts the value whose next use is farthest away. The cost is therefore inversely proportional to the number of
    /// instructions to the next use, and the cheapest value is the one to evict. There are two departures. The cost is multiplied by the
    /// weight of the value ([`SpilledValues::eviction_weight`]). And the costs of the values in a window are added, so a window with two
    /// values that are used late may be cheaper than one with a single value that is used soon. The numerator is 2^34, so that the cost is
    /// at least 16 for the largest distance (2^30), and distances below 2^17 give different costs after integer division.
    ///
    /// Example at position 10: `%a` is used next at 19 and has no store, `%b` at 49 and has one. `%a` costs 5 * 2^34 / 10, `%b` costs
    /// 3 * 2^34 / 40, so `%b` is dropped; `%a` would have to be used next at 76 or later to be dropped instead.
    pub fn eviction_cost(&self, value: Value, position: u32) -> u64 {
        if self.walk.is_only_kept(value) {
            return MIN_EVICTION_COST;
        }
        let distance = u64::from(self.walk.next_use[value].distance_from(position)) + 1;
        // Dropping a piece of an accumulator costs a wait for its matrix product, and a store and a load of four registers.
        let factor = self.accumulators.home_register_of(value).map_or(1, |_| 4 * u64::from(self.class_of(value).width));
        1 + ((factor * self.spills.eviction_weight(value)) << 34) / distance
    }

    /// Drops (evicts) a value: frees its registers and marks it as spilled. No instruction is emitted here: the spill store is inserted
    /// after the definition later, and the next use reloads the value. A value that is not read any more needs no store and no reload,
    /// except for debuggers, which read its spill slot.
    pub fn evict_value(&mut self, value: Value) {
        self.registers.vacate(value);
        if self.walk.is_only_kept(value) && !self.inputs.env.keeps_variables {
            return;
        }
        self.spills.mark_spilled(value);
    }
}
