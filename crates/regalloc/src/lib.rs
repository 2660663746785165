//! Register allocation: replaces the SSA values of a function by physical registers.
//!
//! [`allocate`] handles one register file after the other. For each file it walks the blocks once in reverse post-order ([`assign`]) and
//! assigns registers to the operands of each instruction ([`allocate_inst`]). A value that is evicted from its registers is *dropped*: it
//! is reloaded before its next use. It has one spill store, directly after its definition, which dominates every reload. Where a tuple
//! finds no aligned gap, other values are moved to other registers. Phis, and values whose registers at the end of a block differ from
//! those at the start of its successor, are resolved by moves on the edge ([`edges`]).
//!
//! Spilling and the choice of victims follow Braun and Hack 2009, "Register Spilling and Live-Range Splitting for SSA-Form Programs";
//! [`assign`] says where it departs.
//!
//! The order of the files makes spilling simple. A uniform predicate is spilled to a uniform register; a uniform register, predicate or
//! convergence barrier is spilled to a general register. In both cases the spilled content is a new SSA value, its *shadow*, which is
//! allocated with its own file later. Only general registers are spilled to local memory. Values that are cheap to recompute are
//! recomputed instead ([`spill`]).
//!
//! **Before:** strict SSA; blocks end in explicit control flow. **After:** no values and no pseudo operations. Tied and fixed operands stay
//! as physical registers, for passes that analyse dependences; they are not encoded. Instructions keep their numbers.
//!
//! Callee-saved registers are ordinary values: `ENTRY` defines them in fixed registers, and `KEEP` uses them in the same registers.
//!
//! # The source files, lowest layer first
//!
//! A source file uses only files above it in this table.
//!
//! | source files | purpose |
//! |---|---|
//! | `registers`, `lists`, `operands`, `outcome`, `environment`, `pressure` | register sets and gaps; small helpers; input and output |
//! | `liveness`, `dead_parts`, `hints` | next uses and register pressure; last reads of single registers of tuples; coalescing hints |
//! | `moves`, `emit` | parallel copies; move instructions for every pair of files |
//! | `frame`, `spill` | spill slots; stores, reloads and recomputed values |
//! | `accumulators`, `products` | preparation for matrix products, and accumulators that do not fit into the registers together |
//! | `banks`, `slow_calls`, `reservations`, `pack_windows`, `in_flight` | reasons to prefer or avoid registers |
//! | `register_file`, `walk`, `borders`, `inputs`, `assigner` | the state of the allocator, one part each |
//! | `inst_state`, `make_room`, `repack`, `emit_inst` | one instruction: the decisions, aligned registers for tuples, the emitted code |
//! | `allocate_copy`, `allocate_inst` | one copy or pack; one other instruction |
//! | `enter_block`, `edges`, `rewrite`, `slots` | starts of blocks; edges; the rewritten blocks; sharing of spill slots |
//! | `assign`, `normalize` | all steps for one register file; preparation of the input |
//!
//! [`check`] verifies an allocation. It shares with the allocator the types of registers, environment and outcome, and no logic.
//!
//! # Limits on the width of tuples
//!
//! - A width is a `u8` ([`oriole_ir::Class`]) and a [`RegisterSet`] has 256 registers, so up to 255 registers are possible. Alignments are
//!   powers of two up to 128.
//! - A web of coalescing hints is at most 128 registers wide (`MAX_WEB_WIDTH` in [`hints`]). A wider tuple is allocated correctly, but the
//!   sources of a pack into it, and the phis that carry it around a loop, get no hints: they may cost one move for each register.
//! - Gaps are chosen so that aligned pairs and quads stay whole ([`RegisterSet::find_gap`]); wider aligned blocks of registers are not
//!   protected. A wide tuple that is defined late may find the file fragmented. Values are then moved out of a window. For a result, the
//!   cost of a move of one register is 1 and that of a dropped value at least 16. So if 16 or more registers have to move, dropping the
//!   values of another window may be chosen instead ([`make_room`]).
//! - Where sources of one instruction occupy parts of every window that another source could use, all its sources are placed again in
//!   decreasing order of width ([`repack`]). That is sure to succeed only for widths that are powers of two with the same alignment.
#![deny(missing_docs)]

mod accumulators;
mod allocate_copy;
mod allocate_inst;
mod assign;
mod assigner;
mod banks;
mod borders;
pub mod check;
mod dead_parts;
mod edges;
mod emit;
mod emit_inst;
mod enter_block;
mod environment;
mod frame;
mod hints;
mod in_flight;
mod inputs;
mod inst_state;
mod lists;
mod liveness;
mod make_room;
mod moves;
mod normalize;
mod operands;
mod outcome;
mod pack_windows;
mod pressure;
mod products;
mod register_file;
mod registers;
mod repack;
mod reservations;
mod rewrite;
mod slots;
mod slow_calls;
mod spill;
mod walk;

use oriole_ir::{Function, RegFile};

pub use environment::{AllocationEnvironment, Clobbers};
pub use oriole_isa::HIDDEN_REGISTERS;
pub use outcome::{AllocateError, Allocation};
pub use registers::{Reg, RegisterSet};

use crate::assigner::RegisterAssigner;

/// The register files that are allocated before the general registers, in this order. Values of a register file are spilled to one that is
/// allocated later.
const FILES_BEFORE_GENERAL: [RegFile; 4] = [RegFile::UniformPredicate, RegFile::Uniform, RegFile::Predicate, RegFile::Convergence];

/// Number of general registers of a thread, including the hidden ones, up to which an allocation with bank preferences is accepted without
/// comparison. Above it, the allocation is compared with one without bank preferences, because more registers may lower the occupancy.
const MAX_REGISTERS_WITHOUT_COMPARISON: u32 = 24;

/// Replaces the SSA values of a function by physical registers, and inserts spill code where there are not enough registers. Returns the
/// resources that the allocated function uses.
pub fn allocate(function: &mut Function, env: &AllocationEnvironment) -> Result<Allocation, AllocateError> {
    if !function.is_ssa {
        return Err(AllocateError::Invalid("the function is not in SSA form".into()));
    }
    normalize::run(function)?;
    products::run(function, env);
    let accumulators = accumulators::divide_accumulators(function, env);
    let mut assigner = RegisterAssigner::new(function, env, &accumulators);
    for file in FILES_BEFORE_GENERAL {
        assigner.allocate_file(file)?;
    }
    assigner.start_register_file(RegFile::General)?;
    // Bank preferences may break up aligned pairs of free registers that tuples need. If they cost allocation units, spill code or
    // instructions, the allocation without them is used.
    if !assigner.prefer_conflict_free_banks() {
        return allocate_general_registers(assigner);
    }
    let fewest_registers = assigner.inputs.liveness.pressure.iter().copied().max().unwrap_or(0);
    let fewest_instructions = machine_instruction_count(assigner.function);
    let units = |registers: u32| (registers + HIDDEN_REGISTERS).div_ceil(env.register_unit);
    let spills = |allocation: &Allocation| allocation.spill_store_bytes + allocation.spill_load_bytes;
    let mut banked_function = assigner.function.clone();
    let with_banks = allocate_general_registers(assigner.clone_for_function(&mut banked_function));
    if let Ok(allocation) = &with_banks {
        let is_cheap = allocation.registers_used + HIDDEN_REGISTERS <= MAX_REGISTERS_WITHOUT_COMPARISON.min(env.full_occupancy_registers);
        // No allocation has fewer allocation units, spill code or instructions, so a comparison is not necessary.
        let is_least = || {
            spills(allocation) == 0
                && units(allocation.registers_used) <= units(fewest_registers)
                && banked_function.inst_count() <= fewest_instructions
        };
        if is_cheap || is_least() {
            *function = banked_function;
            return with_banks;
        }
    }
    assigner.hints.forget_preferred_banks();
    let without_banks = match (allocate_general_registers(assigner), &with_banks) {
        (Ok(allocation), _) => allocation,
        // Bank preferences make the difference between spills, which are forbidden, and none.
        (Err(AllocateError::Spills), Ok(_)) => {
            *function = banked_function;
            return with_banks;
        }
        (Err(error), _) => return Err(error),
    };
    match with_banks {
        Ok(allocation)
            if units(allocation.registers_used) <= units(without_banks.registers_used)
                && spills(&allocation) <= spills(&without_banks)
                && banked_function.inst_count() <= function.inst_count() =>
        {
            *function = banked_function;
            Ok(allocation)
        }
        _ => Ok(without_banks),
    }
}

/// Returns the number of instructions that are no pseudo operations. The allocation of the general registers adds moves and spill code to
/// them, and deletes none.
fn machine_instruction_count(function: &Function) -> usize {
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    insts.filter(|&&inst| function.insts[inst].op.machine().is_some()).count()
}

/// Assigns the general registers, which are allocated last, and deletes the pseudo operations. Returns the resources that the function uses
/// in all register files.
fn allocate_general_registers(mut assigner: RegisterAssigner<'_>) -> Result<Allocation, AllocateError> {
    assigner.allocate_current_file()?;
    let mut allocation = Allocation::default();
    let function = assigner.finish_with_report(&mut allocation);
    rewrite::delete_pseudo_ops(function, &mut allocation);
    allocation.frame_bytes = function.frame_bytes;
    Ok(allocation)
}
