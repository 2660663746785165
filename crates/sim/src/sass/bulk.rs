//! Bulk copies: `UBLKCP`, `UBLKRED`, `UBLKPF`, and the groups of `UTMACMDFLUSH`.
//!
//! A copy is performed as late as the program allows, so that code that does not wait for it reads the old contents. A copy that signals a
//! barrier is performed when a thread tests the barrier; a copy in a group when its warp waits for the group (`DEPBAR`), or when the block
//! ends. In a random order of threads every copy is performed at once, so that code that writes the source after the copy, or reads the
//! destination before it, is noticed as well.

use std::sync::Arc;

use oriole_isa::{Opcode, RegFile, Value};

use super::atomic::{Update, bulk_update};
use super::fault::Fault;
use super::mbarrier;
use super::site::Site;
use super::step::{Action, Built, access};
use super::warp::{Row, Warp};
use super::world::World;

/// Bytes of the unit in which sizes are given.
const UNIT: usize = 16;

/// A place in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Global(u64),
    /// An offset in the shared memory of the block with this slot.
    Shared(usize, u64),
}

/// What a copy signals when it is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Signal {
    /// The barrier at this offset in the shared memory of the block with this slot.
    Barrier(usize, u64),
    /// The end of a group of the warp with this number; `None` until the group is complete.
    Group { slot: usize, warp: u32, group: Option<u64> },
}

/// A copy that has been issued but not performed.
pub struct Copy {
    from: Place,
    to: Place,
    bytes: usize,
    signal: Signal,
    /// Element size and operation of a reduction.
    reduction: Option<Arc<Reduction>>,
}

/// An operation on elements of a number of bytes.
pub struct Reduction {
    bytes: usize,
    update: Update,
}

/// The copies that have been issued but not performed, oldest first.
#[derive(Default)]
pub struct Copies {
    pending: Vec<Copy>,
    /// Number of groups that have been completed so far.
    groups: u64,
    /// Whether copies are performed when they are issued.
    eager: bool,
}

impl Copies {
    /// Makes a list without copies; with `eager`, copies are performed when they are issued.
    pub fn new(eager: bool) -> Copies {
        Copies { eager, ..Copies::default() }
    }
}

/// Builds the action of an instruction of this family; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::UBLKCP | Opcode::UBLKRED => copy(site),
        Opcode::UBLKPF | Opcode::UTMAPF | Opcode::UTMACCTL => Ok(Action::Nothing),
        Opcode::UTMACMDFLUSH => Ok(access(|warp, world, _| {
            end_group(world, warp);
            Ok(())
        })),
        Opcode::DEPBAR if site.has(".LE") => wait(site),
        _ => return None,
    })
}

/// Takes an address in brackets, which is one uniform register, and returns its row.
fn uniform_row(site: &Site<'_>, operand: &Value) -> Result<Row, super::step::Unsupported> {
    let Value::Address(address) = operand else { return Err(site.unsupported("a copy without an address")) };
    let registers: Vec<_> = address.parts.iter().flat_map(|part| &part.registers).collect();
    match registers[..] {
        [register] if register.file == RegFile::Uniform => Ok(Row::source(register.number)),
        _ => Err(site.unsupported("the address of this copy")),
    }
}

/// Builds a copy.
fn copy(site: &Site<'_>) -> Built {
    if site.has(".MULTICAST") || site.has(".DST_G_BYTE_MASK") {
        return Err(site.unsupported("a copy to several blocks or of some bytes"));
    }
    let mut operands = site.operands();
    let to = uniform_row(site, &operands.take()?.value)?;
    let from = uniform_row(site, &operands.take()?.value)?;
    let size = operands.input()?.source;
    let reduction = match site.opcode() {
        Opcode::UBLKRED => {
            let (bytes, update) = bulk_update(site)?;
            Some(Arc::new(Reduction { bytes, update }))
        }
        _ => None,
    };
    // The first of the two letters is the destination.
    let letters = site.instruction.modifiers.iter().map(|symbol| symbol.spelling()).filter(|name| matches!(*name, ".S" | ".G"));
    let letters: Vec<&str> = letters.collect();
    let (to_shared, from_shared) = match letters[..] {
        [".S", ".G"] => (true, false),
        [".G", ".S"] => (false, true),
        [".S", ".S"] => (true, true),
        _ => return Err(site.unsupported("a copy from global to global memory")),
    };
    Ok(access(move |warp: &mut Warp, world: &mut World<'_>, mask| {
        let lane = mask.trailing_zeros() as usize;
        let slot = warp.identity.slot;
        let bytes = (warp.read(size)[lane] as usize & 0xffff) * UNIT;
        let place = |warp: &Warp, row: Row, is_shared: bool| match is_shared {
            true => Place::Shared(slot, u64::from(warp.uniform(row))),
            false => Place::Global(warp.uniform_wide(row)),
        };
        let (source, target) = (place(warp, from, from_shared), place(warp, to, to_shared));
        let signal = match to_shared {
            true => Signal::Barrier(slot, u64::from(warp.uniform(to.plus(1)))),
            false => Signal::Group { slot, warp: warp.identity.warp, group: None },
        };
        // The instruction executes once, whatever the number of active threads.
        let copy = Copy { from: source, to: target, bytes, signal, reduction: reduction.clone() };
        if world.copies.eager {
            return perform(world, &copy).map_err(Fault::of_warp);
        }
        world.copies.pending.push(copy);
        Ok(())
    }))
}

/// Makes a group of the warp's copies that are in none yet.
fn end_group(world: &mut World<'_>, of: &Warp) {
    world.copies.groups += 1;
    let number = world.copies.groups;
    for copy in &mut world.copies.pending {
        if let Signal::Group { slot, warp, group: group @ None } = &mut copy.signal
            && (*slot, *warp) == (of.identity.slot, of.identity.warp)
        {
            *group = Some(number);
        }
    }
}

/// `DEPBAR.LE SB, n`: performs the copies of all groups of the warp but the last `n`.
fn wait(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    operands.take()?;
    let left = operands.input()?.source;
    Ok(access(move |warp: &mut Warp, world: &mut World<'_>, mask| {
        let left = warp.read(left)[mask.trailing_zeros() as usize] as usize;
        let of = (warp.identity.slot, warp.identity.warp);
        let number = |copy: &Copy| match copy.signal {
            Signal::Group { slot, warp, group } if (slot, warp) == of => group,
            _ => None,
        };
        let mut groups: Vec<u64> = world.copies.pending.iter().filter_map(number).collect();
        groups.dedup();
        let Some(&last) = groups.len().checked_sub(left + 1).and_then(|at| groups.get(at)) else { return Ok(()) };
        perform_where(world, |copy| number(copy).is_some_and(|group| group <= last)).map_err(Fault::of_warp)
    }))
}

/// Performs the copies that signal a barrier.
pub fn perform_for_barrier(world: &mut World<'_>, slot: usize, barrier: u64) -> Result<(), String> {
    if world.copies.pending.is_empty() {
        return Ok(());
    }
    perform_where(world, |copy| copy.signal == Signal::Barrier(slot, barrier))
}

/// Performs all copies of a block that ends.
pub fn perform_all(world: &mut World<'_>, ending: usize) -> Result<(), String> {
    perform_where(world, |copy| match copy.signal {
        Signal::Barrier(slot, _) | Signal::Group { slot, .. } => slot == ending,
    })
}

/// Performs the selected copies, oldest first.
fn perform_where(world: &mut World<'_>, is_due: impl Fn(&Copy) -> bool) -> Result<(), String> {
    let (due, rest): (Vec<Copy>, Vec<Copy>) = std::mem::take(&mut world.copies.pending).into_iter().partition(|copy| is_due(copy));
    world.copies.pending = rest;
    due.iter().try_for_each(|copy| perform(world, copy))
}

/// Performs one copy.
fn perform(world: &mut World<'_>, copy: &Copy) -> Result<(), String> {
    for offset in (0..copy.bytes).step_by(UNIT) {
        let mut unit = [0; UNIT];
        unit.copy_from_slice(unit_of(world, copy.from, offset)?);
        let target = unit_of(world, copy.to, offset)?;
        match copy.reduction.as_deref() {
            None => target.copy_from_slice(&unit),
            Some(Reduction { bytes, update }) => {
                for (old, new) in target.chunks_exact_mut(*bytes).zip(unit.chunks_exact(*bytes)) {
                    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |bits: u128, &byte| bits << 8 | u128::from(byte));
                    let result = update(number(old), number(new), 0);
                    old.copy_from_slice(&result.to_le_bytes()[..*bytes]);
                }
            }
        }
    }
    if let Signal::Barrier(slot, offset) = copy.signal {
        let bytes = copy.bytes as i64;
        mbarrier::change(world, slot, offset, |barrier| {
            barrier.add_transactions(-bytes);
            Ok(())
        })?;
    }
    Ok(())
}

/// Returns one unit of memory.
fn unit_of<'w>(world: &'w mut World<'_>, place: Place, offset: usize) -> Result<&'w mut [u8], String> {
    match place {
        Place::Global(address) => {
            let address = address + offset as u64;
            world.memory.write(address, UNIT).map_err(|fault| format!("a copy accesses {UNIT} bytes at {:#x}", fault.address))
        }
        Place::Shared(slot, start) => {
            let start = start as usize + offset;
            let memory = &mut world.shared[slot];
            let is_aligned = start.is_multiple_of(UNIT);
            let bytes = memory.get_mut(start..start + UNIT).filter(|_| is_aligned);
            bytes.ok_or_else(|| format!("a copy accesses {UNIT} bytes at {start:#x} of shared memory"))
        }
    }
}
