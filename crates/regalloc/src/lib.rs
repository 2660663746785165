//! Register allocation: replaces the SSA values of a function by physical registers.
//!
//! [`allocate`] handles one register file after the other. For each file it walks the blocks once in reverse post-order ([`assign`]) and
//! assigns registers to the operands of each instruction ([`allocate_inst`]). A value that has to leave its registers is *dropped*: it is
//! reloaded before its next use. Its spill store is a single one, directly after the definition, which dominates every reload. Where a
//! tuple finds no aligned gap, other values are moved to other registers. Differences between the registers of a value at the end of one
//! block and at the start of the next, and phis, are resolved by moves on the edge ([`edges`]).
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
//! # The files, lowest first
//!
//! A file uses only files above it in this list.
//!
//! | files | duty |
//! |---|---|
//! | `registers`, `lists`, `operands`, `outcome`, `environment` | register sets and the search for gaps; small helpers; input and output |
//! | `liveness`, `dead_parts`, `hints` | next uses and pressure; last reads of parts of tuples; which values should be in related registers |
//! | `moves`, `emit` | parallel copies; move instructions for every pair of files |
//! | `frame`, `spill` | spill slots; stores, reloads and recomputed values |
//! | `reservations`, `register_file`, `walk`, `borders`, `inputs`, `assigner` | the state of the allocator, cut by purpose |
//! | `inst_state`, `make_room`, `repack`, `emit_inst` | one instruction: the decisions, space for tuples, the code |
//! | `allocate_copy`, `allocate_inst` | one copy or pack; one other instruction |
//! | `enter_block`, `edges`, `rewrite`, `slots` | starts of blocks; edges; the new blocks; sharing of slots |
//! | `assign`, `normalize`, `products`, `in_flight` | all steps for one register file; the form of the input that they need |
//!
//! [`check`] verifies an allocation. It shares with the allocator the types of registers, environment and outcome, and no logic.
//!
//! # Limits on the width of tuples
//!
//! - A width is a `u8` ([`oriole_ir::Class`]) and a [`RegisterSet`] has 256 registers, so up to 255 registers are possible. Alignments are
//!   powers of two up to 128.
//! - A web of coalescing hints is at most 128 registers wide (`WIDEST` in [`hints`]). A wider tuple is allocated correctly, but the sources of
//!   a pack into it, and the phis that carry it around a loop, get no hints: they may cost one move for each register.
//! - Gaps are chosen so that aligned pairs and quads stay whole ([`RegisterSet::find`]); wider groups are not protected. A wide tuple that is
//!   defined late may find the file fragmented. Space is then made by moves; for a result, a window with 16 or more registers to move
//!   competes with windows whose values are dropped ([`make_room`]).
//! - Where the sources of one instruction block each other, they are packed anew in decreasing order ([`repack`]). That is sure
//!   to succeed only for widths that are powers of two with the same alignment.
#![deny(missing_docs)]

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
mod products;
mod register_file;
mod registers;
mod repack;
mod reservations;
mod rewrite;
mod slots;
mod spill;
mod walk;

use oriole_ir::{Function, RegFile};

pub use environment::{Clobbers, Environment};
pub use outcome::{AllocateError, Allocation};
pub use registers::{Reg, RegisterSet};

use crate::assigner::Assigner;

/// The order in which register files are allocated. The file that takes the spilled values of another file comes after that file.
const FILES: [RegFile; 5] = [RegFile::UniformPredicate, RegFile::Uniform, RegFile::Predicate, RegFile::Convergence, RegFile::General];

/// Number of registers that each thread has in addition to those that instructions name.
pub const HIDDEN_REGISTERS: u32 = 2;

/// Largest number of registers for which an allocation with banks is kept without a comparison: so few registers cost no resident warps.
const KEEP_WITH_BANKS: u32 = 24;

/// Replaces the values of a function by physical registers, inserting spill code where there are not enough. Returns the resources used.
pub fn allocate(function: &mut Function, env: &Environment) -> Result<Allocation, AllocateError> {
    if !function.is_ssa {
        return Err(AllocateError::Invalid("the function is not in SSA form".into()));
    }
    normalize::run(function)?;
    products::run(function);
    // Registers of the wanted banks may break up pairs that tuples need. If that costs registers, spills or moves, banks are not worth it.
    let mut banked = function.clone();
    let with_banks = assign(&mut banked, env, true);
    if let Ok(allocation) = &with_banks
        && allocation.registers_used + HIDDEN_REGISTERS <= KEEP_WITH_BANKS.min(env.full_occupancy_registers)
    {
        *function = banked;
        return with_banks;
    }
    let without_banks = assign(function, env, false)?;
    let units = |allocation: &Allocation| (allocation.registers_used + HIDDEN_REGISTERS).div_ceil(env.register_unit);
    let spills = |allocation: &Allocation| allocation.spill_store_bytes + allocation.spill_load_bytes;
    match with_banks {
        Ok(allocation)
            if units(&allocation) <= units(&without_banks)
                && spills(&allocation) <= spills(&without_banks)
                && banked.inst_count() <= function.inst_count() =>
        {
            *function = banked;
            Ok(allocation)
        }
        _ => Ok(without_banks),
    }
}

/// Assigns registers to a normalized function, with or without regard to their banks.
fn assign(function: &mut Function, env: &Environment, has_banks: bool) -> Result<Allocation, AllocateError> {
    let mut allocation = Allocation::default();
    let mut assigner = Assigner::new(function, env, has_banks);
    for file in FILES {
        assigner.run(file)?;
    }
    assigner.report(&mut allocation);
    rewrite::finish(function, &mut allocation);
    allocation.frame_bytes = function.frame_bytes;
    Ok(allocation)
}
