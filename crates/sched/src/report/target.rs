//! Computes the register target: the number of general registers that may be live without losing occupancy.
//!
//! Registers are allocated to a warp in units, and the number of resident warps is limited by the registers they need. The target is the
//! largest number of live registers that keeps as many warps resident as the old order does. If a schedule may give up occupancy, only a
//! percentage of these warps must stay ([`RegisterTargetBounds::occupancy_percent`]). If the block size is declared, whole blocks are
//! counted, with their shared memory and barriers. Whole blocks are a coarser unit than warps, so the target is often larger than for
//! single warps.
//!
//! Example (sm_90: 512 registers per lane of a scheduler, unit 8; 6 registers for gaps and hidden registers): 30 live registers allocate 40
//! per thread, which allows 12 warps. 12 warps allow up to 512 / 12 = 42 registers, rounded down to 40. The target is 40 - 6 = 34.

use std::fmt;

use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::LaunchResources;

/// The limits and requests from which the register target is computed, besides the code and the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterTargetBounds {
    /// Resources of a thread block besides registers; `None` if the block size is not declared.
    pub launch: Option<LaunchResources>,
    /// Number of registers that allocation may need beyond the live ones, because the alignment of tuples leaves gaps.
    pub alignment_gaps: i32,
    /// Number of registers that the hardware allocates to a thread beyond those that its code can name.
    pub reserved: i32,
    /// Maximum number of registers that the code may name.
    pub limit: i32,
    /// Percentage of the warps resident with the old order that must stay resident.
    pub occupancy_percent: u32,
    /// The target requested by the user, in registers; `None` if it is to be computed.
    pub requested: Option<i32>,
}

/// The register target (maximum number of live general registers), with the figures that it is derived from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterTarget {
    /// Maximum number of general registers live in the old order.
    pub live: i32,
    /// Allocation unit, in registers per thread.
    pub unit: i32,
    /// Number of registers allocated to a thread for the old order: at most the limit, rounded up to the unit.
    pub allocated: i32,
    /// Warps per scheduler that must stay resident.
    pub warps: u32,
    /// Blocks per multiprocessor that must stay resident, and threads per block. `None` if no block size is declared or no block fits.
    pub blocks_and_threads: Option<(u32, u32)>,
    /// Maximum number of registers per thread with which `warps`, or the blocks of `blocks_and_threads`, stay resident.
    pub max_for_occupancy: i32,
    /// The target: the number of registers that may be live.
    pub registers: i32,
    /// The inputs, besides the code and the machine, from which the target was computed.
    pub bounds: RegisterTargetBounds,
}

impl RegisterTarget {
    /// Computes the register target of a function whose original order has at most `live` live general registers.
    pub fn new(live: i32, machine: &Machine, bounds: &RegisterTargetBounds) -> RegisterTarget {
        let unit = (machine.register_unit / machine.threads_per_warp).max(1) as i32;
        // Number of registers allocated to a thread beyond the live ones.
        let beyond = bounds.alignment_gaps + bounds.reserved;
        let allocated = (live + beyond).min(bounds.limit + bounds.reserved).saturating_add(unit - 1) / unit * unit;
        let (warps, blocks_and_threads, max_for_occupancy) =
            occupancy_by_blocks(allocated, machine, bounds).unwrap_or_else(|| occupancy_by_warps(allocated, unit, machine, bounds));
        // A requested target replaces the computed one, but the limit applies to both.
        let registers = bounds.requested.unwrap_or(max_for_occupancy - beyond).min(bounds.limit - bounds.alignment_gaps).max(1);
        RegisterTarget { live, unit, allocated, warps, blocks_and_threads, max_for_occupancy, registers, bounds: *bounds }
    }

    /// Returns whether the register limit [`RegisterTargetBounds::limit`], and not occupancy alone, determines the target.
    pub(crate) fn is_bound_by_register_limit(&self) -> bool {
        let RegisterTargetBounds { alignment_gaps, reserved, limit, .. } = self.bounds;
        self.live + alignment_gaps > limit || limit < self.max_for_occupancy - reserved
    }
}

/// An occupancy, as three figures: resident warps per scheduler; resident blocks and threads per block (`None` if the block size is
/// unknown); the maximum number of registers per thread with which that many warps and blocks stay resident.
type OccupancyFigures = (u32, Option<(u32, u32)>, i32);

/// Computes the occupancy in warps per scheduler, for an unknown block size. `allocated` is the number of registers per thread, `unit` the
/// allocation unit.
fn occupancy_by_warps(allocated: i32, unit: i32, machine: &Machine, bounds: &RegisterTargetBounds) -> OccupancyFigures {
    let for_warp = (machine.registers_per_scheduler() / machine.threads_per_warp) as i32;
    let warps = (for_warp / allocated.max(unit)).clamp(1, machine.warps_per_scheduler() as i32);
    let warps = (warps * bounds.occupancy_percent as i32 / 100).max(1);
    (warps as u32, None, for_warp / warps / unit * unit)
}

/// Computes the occupancy in whole thread blocks; `None` if no block size is declared, or if no block fits. `allocated` is the number of
/// registers per thread.
fn occupancy_by_blocks(allocated: i32, machine: &Machine, bounds: &RegisterTargetBounds) -> Option<OccupancyFigures> {
    let registers = u32::try_from(allocated).ok()?.min(machine.registers_per_thread);
    let launch = LaunchResources { registers, ..bounds.launch? };
    let found = launch.occupancy(machine).ok().filter(|found| found.blocks > 0)?;
    let kept = (found.blocks * bounds.occupancy_percent / 100).max(1);
    let cliff = launch.register_cliffs(machine).ok()?.into_iter().rfind(|cliff| cliff.blocks >= kept)?;
    let warps = found.warps / found.blocks * kept;
    Some((warps.div_ceil(machine.schedulers), Some((kept, launch.threads)), cliff.most as i32))
}

impl fmt::Display for RegisterTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RegisterTarget { live, unit, allocated, warps, max_for_occupancy, registers, bounds, .. } = self;
        let beyond = bounds.alignment_gaps + bounds.reserved;
        write!(f, "target {registers} registers: {live} were live, with {beyond} more in units of {unit} a thread gets {allocated}, ")?;
        match self.blocks_and_threads {
            Some((blocks, threads)) => write!(f, "{blocks} blocks of {threads} threads")?,
            None => write!(f, "{warps} warps of a scheduler")?,
        }
        if bounds.occupancy_percent != 100 {
            write!(f, ", {} percent of those of the original order,", bounds.occupancy_percent)?;
        }
        write!(f, " stay resident up to {max_for_occupancy}")?;
        if bounds.requested.is_some() {
            write!(f, "; it was asked for")?;
        }
        if self.is_bound_by_register_limit() {
            write!(f, "; {} is the limit", bounds.limit)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns bounds with 4 registers for tuple gaps, 2 hidden registers and full occupancy.
    fn bounds(launch: Option<LaunchResources>, limit: i32) -> RegisterTargetBounds {
        RegisterTargetBounds { launch, alignment_gaps: 4, reserved: 2, limit, occupancy_percent: 100, requested: None }
    }

    /// Returns the target for an original order with `live` live registers on sm_90.
    fn target(live: i32, launch: Option<LaunchResources>, limit: i32) -> RegisterTarget {
        RegisterTarget::new(live, Machine::named("sm_90").unwrap(), &bounds(launch, limit))
    }

    /// A scheduler's 16,384 registers are 512 per lane. 40 registers per thread allow 12 warps, and 12 warps allow 42, rounded down to 40.
    #[test]
    fn target_keeps_resident_warps() {
        let found = target(30, None, 253);
        assert_eq!((found.allocated, found.warps, found.max_for_occupancy, found.registers), (40, 12, 40, 34));
        assert!(found.to_string().contains("12 warps of a scheduler stay resident up to 40"), "{found}");
        assert_eq!(target(250, None, 253).registers, 249);
        assert_eq!(target(3, None, 253).registers, 26, "sixteen warps, 32 registers each");
    }

    /// A block of 1,024 threads has 8 warps per scheduler. One block is resident with 40 registers per thread and with 64.
    #[test]
    fn target_keeps_resident_blocks() {
        let launch = |threads| Some(LaunchResources { threads, ..LaunchResources::default() });
        let found = target(30, launch(1024), 253);
        assert_eq!((found.blocks_and_threads, found.warps, found.max_for_occupancy, found.registers), (Some((1, 1024)), 8, 64, 58));
        assert!(found.to_string().contains("1 blocks of 1024 threads stay resident up to 64"), "{found}");
        // The example of the best practices guide: blocks of 128 threads with 37 registers; 12 blocks are resident.
        assert_eq!(target(31, launch(128), 253).blocks_and_threads, Some((12, 128)));
        // Shared memory allows one block only, so all registers are free.
        let shared = Some(LaunchResources { threads: 128, static_shared: 160 << 10, ..LaunchResources::default() });
        assert_eq!(target(30, shared, 253).registers, 249);
    }

    /// Half of 12 warps: 512 / 6 is 85, rounded down to 80. Half of two blocks of 512 threads with 56 registers is one block, with up to
    /// 128.
    #[test]
    fn lower_occupancy_raises_the_target() {
        let half = |live, launch| {
            let bounds = RegisterTargetBounds { occupancy_percent: 50, ..bounds(launch, 253) };
            RegisterTarget::new(live, Machine::named("sm_90").unwrap(), &bounds)
        };
        let found = half(30, None);
        assert_eq!((found.warps, found.max_for_occupancy, found.registers), (6, 80, 74));
        assert!(
            found.to_string().contains("6 warps of a scheduler, 50 percent of those of the original order, stay resident up to 80"),
            "{found}"
        );
        let found = half(50, Some(LaunchResources { threads: 512, ..LaunchResources::default() }));
        assert_eq!((found.allocated, found.blocks_and_threads, found.warps, found.max_for_occupancy), (56, Some((1, 512)), 4, 128));
    }

    #[test]
    fn requested_target_is_used() {
        let bounds = RegisterTargetBounds { requested: Some(20), ..bounds(None, 253) };
        assert_eq!(RegisterTarget::new(30, Machine::named("sm_90").unwrap(), &bounds).registers, 20);
    }

    #[test]
    fn target_respects_the_register_limit() {
        let found = target(30, None, 30);
        assert_eq!(found.registers, 26);
        assert!(found.is_bound_by_register_limit() && found.to_string().ends_with("30 is the limit"), "{found}");
        // Blocks of 416 threads can launch with at most 128 registers per thread. 153 live registers will be spilled.
        let found = target(153, Some(LaunchResources { threads: 416, ..LaunchResources::default() }), 126);
        assert_eq!((found.allocated, found.blocks_and_threads, found.registers), (128, Some((1, 416)), 122));
    }
}
