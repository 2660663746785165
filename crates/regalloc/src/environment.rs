//! The registers that the allocator may use, and the registers that calls overwrite.

use oriole_hardware::machine::Machine;
use oriole_ir::analysis::{ControlFlow, RegisterCounts};
use oriole_ir::{Block, Function, Inst, RegFile, Target};
use oriole_isa::HIDDEN_REGISTERS;
use oriole_support::IndexVec;

use crate::registers::{Reg, RegisterSet};

/// The registers that a function may use, and the registers that its calls overwrite.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AllocationEnvironment {
    /// The target that the code is for.
    pub target: Target,
    /// Maximum number of general registers of a thread; at most 255. If the function changes the number of registers, the maximum in any part
    /// of it.
    pub max_registers: u32,
    /// Number of general registers of a thread where the function starts, with the hidden ones, if the function changes this number
    /// (`USETMAXREG`).
    pub initial_registers: Option<u32>,
    /// Allocation unit of general registers: the hardware gives each thread a multiple of this number.
    pub register_unit: u32,
    /// Largest number of general registers per thread, including the hidden ones, at which registers do not limit the number of resident
    /// warps.
    pub full_occupancy_registers: u32,
    /// Number of uniform registers that the allocator may use.
    pub uniform_registers: u32,
    /// Number of predicate registers that the allocator may use.
    pub predicates: u32,
    /// Number of uniform predicate registers that the allocator may use.
    pub uniform_predicates: u32,
    /// Number of convergence barriers that the allocator may use.
    pub barriers: u32,
    /// The general register with the stack pointer; no value is assigned to it.
    pub stack_pointer: Reg,
    /// Registers that a `CALL` clobbers, for callees that are not in `known_callees`.
    pub clobbers: Clobbers,
    /// Callees whose clobbered registers are known: name, and registers that a call clobbers.
    pub known_callees: Vec<(String, Clobbers)>,
    /// Registers that are not assigned to any value, for instance because other threads of the warp may use them.
    pub reserved: Clobbers,
    /// Whether values stay available for a debugger: until the `KEEP` that names a value (a pseudo operation that only extends live
    /// ranges), the value is in registers or in its spill slot, and no value is rematerialized.
    pub keeps_variables: bool,
    /// Whether an allocation with spills to memory is useless to the caller. The allocation then ends with an error at the first spill.
    pub forbids_spills: bool,
}

/// Registers of all register files, one set for each file; usually those that a callee may overwrite.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the register files")]
pub struct Clobbers {
    /// Set of general registers (R).
    pub general: RegisterSet,
    /// Set of uniform registers (UR).
    pub uniform: RegisterSet,
    /// Set of predicate registers (P).
    pub predicates: RegisterSet,
    /// Set of uniform predicate registers (UP).
    pub uniform_predicates: RegisterSet,
    /// Set of convergence barrier registers (B).
    pub barriers: RegisterSet,
}

impl Clobbers {
    /// All registers.
    pub const ALL: Clobbers = Clobbers {
        general: RegisterSet::ALL,
        uniform: RegisterSet::ALL,
        predicates: RegisterSet::ALL,
        uniform_predicates: RegisterSet::ALL,
        barriers: RegisterSet::ALL,
    };

    /// No registers.
    pub const NONE: Clobbers = Clobbers {
        general: RegisterSet::EMPTY,
        uniform: RegisterSet::EMPTY,
        predicates: RegisterSet::EMPTY,
        uniform_predicates: RegisterSet::EMPTY,
        barriers: RegisterSet::EMPTY,
    };

    /// Returns the set of registers of one register file.
    fn registers_of_file(&self, file: RegFile) -> RegisterSet {
        match file {
            RegFile::General => self.general,
            RegFile::Uniform => self.uniform,
            RegFile::Predicate => self.predicates,
            RegFile::UniformPredicate => self.uniform_predicates,
            RegFile::Convergence => self.barriers,
            RegFile::Scoreboard => RegisterSet::EMPTY,
        }
    }
}

impl AllocationEnvironment {
    /// Returns the environment of a target with at most `max_registers` general registers, where calls clobber all registers.
    pub fn new(target: Target, max_registers: u32) -> AllocationEnvironment {
        AllocationEnvironment::new_for_machine(Machine::of(target), target, max_registers)
    }

    /// Returns the environment of a target like [`AllocationEnvironment::new`], but with the register limits of `machine`, which may come
    /// from the user's hardware profile.
    pub fn new_for_machine(machine: &Machine, target: Target, max_registers: u32) -> AllocationEnvironment {
        AllocationEnvironment {
            target,
            max_registers: max_registers.min(255),
            initial_registers: None,
            register_unit: machine.register_unit_of_thread(),
            full_occupancy_registers: machine.registers_at_full_occupancy(),
            uniform_registers: 63,
            predicates: 7,
            uniform_predicates: 7,
            barriers: 16,
            stack_pointer: Reg::new(1),
            clobbers: Clobbers::ALL,
            known_callees: Vec::new(),
            reserved: Clobbers::NONE,
            keeps_variables: false,
            forbids_spills: false,
        }
    }

    /// Returns the number of registers of a register file that code may name: all register numbers are below it.
    pub fn limit(&self, file: RegFile) -> u32 {
        match file {
            RegFile::General => self.max_registers,
            RegFile::Uniform => self.uniform_registers,
            RegFile::Predicate => self.predicates,
            RegFile::UniformPredicate => self.uniform_predicates,
            RegFile::Convergence => self.barriers,
            // No value is assigned to a scoreboard, but code may name one (`DEPBAR`).
            RegFile::Scoreboard => 6,
        }
    }

    /// Returns the number of general registers that the code of each block may name. Blocks that are created later have no entry.
    pub(crate) fn block_limits(&self, function: &Function, flow: &ControlFlow) -> BlockLimits {
        let counts = self.initial_registers.map(|initial| RegisterCounts::compute(function, flow, initial));
        let limit = |counts: &RegisterCounts, block| nameable_registers(counts.in_block(block)).min(self.max_registers);
        let limits = counts.map(|counts| {
            let mut limits = IndexVec::filled(function.blocks.len(), self.max_registers);
            function.layout.iter().for_each(|&block| limits[block] = limit(&counts, block));
            limits
        });
        let smallest = limits.as_ref().and_then(|limits| function.layout.iter().map(|&block| limits[block]).min());
        BlockLimits { max_registers: self.max_registers, limits, smallest: smallest.unwrap_or(self.max_registers) }
    }

    /// Returns the registers of a register file that values may be assigned to.
    pub(crate) fn usable_registers(&self, file: RegFile) -> RegisterSet {
        let mut set = RegisterSet::first_n(self.limit(file)).without(&self.reserved.registers_of_file(file));
        if file == RegFile::General {
            set.remove(self.stack_pointer, 1);
        }
        set
    }

    /// Returns the registers of a register file that the callee of `call` may overwrite.
    pub(crate) fn clobbered_by(&self, function: &Function, call: Inst, file: RegFile) -> RegisterSet {
        let callee = function.callee(call);
        let known = self.known_callees.iter().find(|(name, _)| callee == Some(name.as_str()));
        known.map_or(&self.clobbers, |(_, clobbers)| clobbers).registers_of_file(file)
    }
}

/// Returns the number of registers that code can name if a thread has `count` registers, of which some are hidden.
pub(crate) fn nameable_registers(count: u32) -> u32 {
    count.saturating_sub(HIDDEN_REGISTERS)
}

/// The number of general registers that the code of each block may name.
#[derive(Clone, Default)]
pub(crate) struct BlockLimits {
    /// The limit of all blocks, unless `limits` has another one.
    max_registers: u32,
    /// For each block: its limit. `None` if all blocks have the same.
    limits: Option<IndexVec<Block, u32>>,
    /// The smallest limit of a block.
    smallest: u32,
}

impl BlockLimits {
    /// Returns the number of general registers that the code of a block may name.
    pub fn limit_of(&self, block: Block) -> u32 {
        self.limits.as_ref().map_or(self.max_registers, |limits| limits[block])
    }

    /// Returns the smallest limit of some blocks; that of all blocks if there are none.
    pub fn smallest(&self, blocks: impl Iterator<Item = Block>) -> u32 {
        blocks.map(|block| self.limit_of(block)).min().unwrap_or(self.max_registers)
    }

    /// Returns whether the code of a block may name more registers than that of another block.
    pub fn has_more_than_others(&self, block: Block) -> bool {
        self.limit_of(block) > self.smallest
    }

    /// Returns whether the limits of blocks differ.
    pub fn are_different(&self) -> bool {
        self.limits.is_some()
    }
}
