//! Properties of a loop body that decide whether and how the loop is unrolled.

use oriole_ir::{Function, Inst, Op, Space};
use oriole_isa::{Effect, Opcode, Pipe};

use super::shape::{self, UnrollableLoop};

/// Properties of a loop body that decide whether and how it is unrolled.
#[derive(Default)]
pub(super) struct LoopBodyProperties {
    /// Number of machine instructions, not counting branches and moves of constants.
    pub(super) size: usize,
    /// The memory spaces that loads and atomic operations read, not counting loads from memory that is read-only while the kernel runs.
    pub(super) read_spaces: Vec<Space>,
    /// The memory spaces that stores and atomic operations write.
    pub(super) written_spaces: Vec<Space>,
    /// Whether there are loads from memory that is read-only while the kernel runs.
    pub(super) has_constant_loads: bool,
    /// Number of reads of textures and surfaces.
    pub(super) fetches: usize,
    /// Whether an instruction exchanges data between the lanes of a warp.
    pub(super) has_lane_exchange: bool,
    /// Whether there are instructions that wait for other threads, or order memory accesses.
    pub(super) has_barriers: bool,
    /// Whether there are instructions of which a function must not contain two copies.
    pub(super) has_unique_inst: bool,
}

impl LoopBodyProperties {
    /// Collects the properties of the body of a loop.
    pub(super) fn collect(function: &Function, old_loop: &UnrollableLoop) -> LoopBodyProperties {
        let mut body = LoopBodyProperties::default();
        for &inst in old_loop.blocks.iter().flat_map(|&block| &function.blocks[block].insts) {
            body.add_inst(function, inst);
        }
        body
    }

    /// Updates the properties for one instruction of the body.
    fn add_inst(&mut self, function: &Function, inst: Inst) {
        self.has_unique_inst |= shape::must_not_be_copied(function, inst);
        let Op::Machine(opcode) = function.insts[inst].op else { return };
        let is_constant = matches!(opcode, Opcode::MOV | Opcode::UMOV) && function.used(inst).next().is_none();
        self.size += usize::from(!is_constant && opcode != Opcode::BRA);
        let properties = opcode.properties();
        self.add_accessed_spaces(function, inst, properties.effect);
        self.fetches += usize::from(properties.pipe == Pipe::Tex && properties.effect == Effect::Reads);
        match properties.effect {
            Effect::None | Effect::State | Effect::Reads | Effect::Writes | Effect::Updates => {}
            Effect::Lanes => self.has_lane_exchange = true,
            Effect::Barrier if opcode == Opcode::WARPSYNC => self.has_lane_exchange = true,
            Effect::Barrier | Effect::Fence => self.has_barriers = true,
            Effect::Control => self.has_unique_inst |= opcode != Opcode::BRA && !function.calls_slow_path(inst),
            Effect::Other => self.has_unique_inst = true,
        }
        // Warpgroup matrix products, and instructions of the uniform datapath that start other units, must not be copied.
        self.has_unique_inst |= properties.pipe == Pipe::Tensor && properties.effect != Effect::Lanes;
        self.has_lane_exchange |= properties.pipe == Pipe::Tensor;
    }

    /// Adds the memory spaces that one instruction accesses to those that the body reads and writes.
    fn add_accessed_spaces(&mut self, function: &Function, inst: Inst, effect: Effect) {
        let access = function.insts[inst].memory.map(|id| function.accesses[id]);
        let space = access.map_or(Space::Generic, |access| access.space);
        match effect {
            Effect::Reads if access.is_some_and(|access| access.constant) || space == Space::Constant => self.has_constant_loads = true,
            Effect::Reads => self.read_spaces.push(space),
            Effect::Writes => self.written_spaces.push(space),
            Effect::Updates => {
                self.read_spaces.push(space);
                self.written_spaces.push(space);
            }
            _ => {}
        }
    }

    /// Returns whether the loads of one iteration may be executed before the stores of the previous one, so that the latencies of loads of
    /// several iterations overlap.
    pub(super) fn has_overlapping_loads(&self) -> bool {
        self.has_constant_loads || self.read_spaces.iter().any(|&read| !self.may_write(read))
    }

    /// Returns whether the body may write to this memory space.
    pub(super) fn may_write(&self, space: Space) -> bool {
        let may_alias = |written: &Space| *written == space || space == Space::Generic || *written == Space::Generic;
        self.written_spaces.iter().any(may_alias)
    }
}
