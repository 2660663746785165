//! The registers of the warps of a block where `USETMAXREG` moves them (`setmaxnreg` in PTX).
//!
//! A block starts with the registers of its warps and none in its pool. `USETMAXREG.DEALLOC` gives the upper registers of a warp to the
//! pool; `USETMAXREG.TRY_ALLOC` takes registers from it, or does nothing if there are too few. All threads of a warp execute it together.
//! An instruction that names a register that its warp does not have is an error.

use oriole_isa::{Instruction, Opcode, RegFile, accesses, requested_registers};

use super::flow::Flow;
use super::site::Site;
use super::step::{Action, Built};

/// A change of the number of registers of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterCountChange {
    /// `.DEALLOC`: the warp keeps this number of registers.
    Release(u16),
    /// `.TRY_ALLOC`: the warp asks for this number of registers.
    Request(u16),
}

/// Builds the action of `USETMAXREG`; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    (site.opcode() == Opcode::USETMAXREG).then(|| change(site))
}

/// Builds `USETMAXREG`.
fn change(site: &Site<'_>) -> Built {
    let count = requested_registers(site.instruction).ok_or_else(|| site.unsupported("a number of registers in a register"))?;
    if site.has(".DEALLOC") {
        return Ok(Action::Flow(Flow::ChangeRegisters { change: RegisterCountChange::Release(count), is_granted: None }));
    }
    let is_granted = site.operands().predicate_destination()?;
    Ok(Action::Flow(Flow::ChangeRegisters { change: RegisterCountChange::Request(count), is_granted: Some(is_granted) }))
}

/// Returns the number of registers that an instruction needs: the highest general register that it names, plus one.
pub(super) fn needed_registers(instruction: &Instruction) -> u16 {
    let general = accesses(instruction);
    general.iter().filter(|access| access.file == RegFile::General).map(|access| access.registers().end).max().unwrap_or(0)
}

impl RegisterCountChange {
    /// Applies the change to a warp with `count` registers, in a block with `free` registers in its pool; both count the registers of one
    /// thread. Returns the new numbers, or `None` if the pool has too few registers. The error says why the change is not allowed.
    pub(super) fn apply(self, count: u16, free: u32) -> Result<Option<(u16, u32)>, String> {
        match self {
            RegisterCountChange::Release(kept) if kept > count => {
                Err(format!("USETMAXREG.DEALLOC keeps {kept} registers, and the warp has {count}"))
            }
            RegisterCountChange::Request(wanted) if wanted < count => {
                Err(format!("USETMAXREG.TRY_ALLOC asks for {wanted} registers, and the warp has {count}"))
            }
            RegisterCountChange::Release(kept) => Ok(Some((kept, free + u32::from(count - kept)))),
            RegisterCountChange::Request(wanted) => Ok(free.checked_sub(u32::from(wanted - count)).map(|left| (wanted, left))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::RegisterCountChange::{Release, Request};

    /// Three warps with 168 registers each: one gives up 128, which is enough for the other two.
    #[test]
    fn registers_move_between_the_warps_of_a_block() {
        assert_eq!(Request(232).apply(168, 0), Ok(None), "nothing has been given up");
        assert_eq!(Release(40).apply(168, 0), Ok(Some((40, 128))));
        assert_eq!(Request(232).apply(168, 128), Ok(Some((232, 64))));
        assert_eq!(Request(232).apply(168, 64), Ok(Some((232, 0))));
        assert_eq!(Request(240).apply(232, 0), Ok(None));
        assert!(Release(200).apply(168, 0).is_err() && Request(80).apply(168, 9).is_err());
    }
}
