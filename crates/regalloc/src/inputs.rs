//! The inputs of the allocation of one register file, which none of its steps change.

use oriole_ir::{Block, Function, Inst, RegFile};
use oriole_support::IndexVec;

use crate::dead_parts::DeadTupleParts;
use crate::emit::{Emitter, MoveCapabilities};
use crate::environment::{AllocationEnvironment, BlockLimits};
use crate::liveness::{ControlFlowAndLoops, FileLiveness};
use crate::outcome::AllocateError;

/// The inputs of the allocation of one register file.
#[derive(Clone)]
pub(crate) struct AllocationInputs<'a> {
    /// The registers that the allocator may use, and those that calls overwrite.
    pub env: &'a AllocationEnvironment,
    /// The capabilities of the target that determine how moves are made.
    move_capabilities: MoveCapabilities,
    /// The register file that is being allocated.
    pub file: RegFile,
    /// The control-flow graph and its loops.
    pub flow: ControlFlowAndLoops,
    /// Liveness and next uses of the values of the register file being allocated.
    pub liveness: FileLiveness,
    /// Registers of tuples that are read for the last time while other registers of the tuple are still needed.
    pub dead_parts: DeadTupleParts,
    /// The number of general registers that each block may name, while the general registers are allocated.
    pub block_limits: BlockLimits,
    /// For each block: its number of instructions before the moves and spill code of this register file are inserted.
    pub block_lengths: IndexVec<Block, u32>,
}

impl<'a> AllocationInputs<'a> {
    /// Computes the inputs that all register files share.
    pub fn new(function: &Function, env: &'a AllocationEnvironment) -> AllocationInputs<'a> {
        AllocationInputs {
            env,
            move_capabilities: MoveCapabilities::new(env.target),
            file: RegFile::General,
            flow: ControlFlowAndLoops::new(function),
            liveness: FileLiveness::default(),
            dead_parts: DeadTupleParts::default(),
            block_limits: BlockLimits::default(),
            block_lengths: IndexVec::filled(function.blocks.len(), 0),
        }
    }

    /// Computes the inputs for a register file. If the allocation of the previous file split edges, control flow is computed again.
    pub fn start_register_file(&mut self, function: &Function, file: RegFile) -> Result<(), AllocateError> {
        // `block_lengths` has as many entries as the function had blocks when `flow` was computed.
        if self.block_lengths.len() != function.blocks.len() {
            self.flow = ControlFlowAndLoops::new(function);
        }
        self.file = file;
        if file == RegFile::General {
            self.block_limits = self.env.block_limits(function, &self.flow.graph);
        }
        self.block_lengths.clear();
        for block in &function.blocks {
            self.block_lengths.push(block.insts.len() as u32);
        }
        self.liveness.compute(function, &self.flow, file)?;
        self.dead_parts.compute(function, self.flow.reverse_post_order(), &self.liveness, file);
        Ok(())
    }

    /// Returns an emitter for moves and spill code that the allocation of `inst` needs; the emitter appends to `out`.
    pub fn emitter<'f>(&self, function: &'f mut Function, out: &'f mut Vec<Inst>, inst: Inst) -> Emitter<'f> {
        Emitter::new(function, self.move_capabilities, self.file, out, inst)
    }
}
