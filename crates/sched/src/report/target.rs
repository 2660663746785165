//! How many general registers may be live, and why.
//!
//! A warp gets registers in units, and so many warps stay resident as their registers fit. The target is the most registers with which as
//! many stay as with what the old order needs, or a share of them where a schedule is to pay with warps. Where the size of a block is
//! declared, whole blocks count, with all else that a block needs: between two numbers of blocks even more registers are free.

use std::fmt;

use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::Launch;

/// What the target depends on besides the code and the machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// What a block of threads needs besides registers, if its size is declared.
    pub launch: Option<Launch>,
    /// Registers that allocation may need beyond those that are live: tuples leave gaps.
    pub gaps: i32,
    /// Registers that a thread gets beyond those that its code names.
    pub hidden: i32,
    /// Registers that its code may name.
    pub limit: i32,
    /// The share of resident warps, in percent, that must be left.
    pub warps_kept: u32,
    /// A target that somebody asked for.
    pub asked: Option<i32>,
}

/// Registers that may be live, with the figures that they follow from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterTarget {
    /// The most that were live in the old order.
    pub live: i32,
    /// Registers of a thread are given out in this unit.
    pub unit: i32,
    /// What a thread of the old order gets, as far as the limit allows.
    pub given: i32,
    /// Warps of a scheduler that stay resident with that, or the share of them that is kept.
    pub warps: u32,
    /// The same in blocks of a multiprocessor, and their threads, where a size is declared.
    pub blocks: Option<(u32, u32)>,
    /// The most that a thread may get without changing that.
    pub free: i32,
    /// The target: what may be live.
    pub registers: i32,
    /// What it depends on besides.
    pub bounds: Bounds,
}

impl RegisterTarget {
    /// The target for an old order with so many live registers.
    pub fn new(live: i32, machine: &Machine, bounds: &Bounds) -> RegisterTarget {
        let unit = (machine.register_unit / machine.threads_per_warp).max(1) as i32;
        let beyond = bounds.gaps + bounds.hidden;
        let given = (live + beyond).min(bounds.limit + bounds.hidden).saturating_add(unit - 1) / unit * unit;
        let (warps, blocks, free) = by_blocks(given, machine, bounds).unwrap_or_else(|| by_warps(given, unit, machine, bounds));
        let registers = bounds.asked.unwrap_or(free - beyond).min(bounds.limit - bounds.gaps).max(1);
        RegisterTarget { live, unit, given, warps, blocks, free, registers, bounds: *bounds }
    }

    /// Whether the limit decides, not the machine alone.
    pub fn is_limited(&self) -> bool {
        let Bounds { gaps, hidden, limit, .. } = self.bounds;
        self.live + gaps > limit || limit < self.free - hidden
    }
}

type Found = (u32, Option<(u32, u32)>, i32);

fn by_warps(given: i32, unit: i32, machine: &Machine, bounds: &Bounds) -> Found {
    let for_warp = (machine.registers_per_scheduler() / machine.threads_per_warp) as i32;
    let warps = (for_warp / given.max(unit)).clamp(1, machine.warps_per_scheduler() as i32);
    let warps = (warps * bounds.warps_kept as i32 / 100).max(1);
    (warps as u32, None, for_warp / warps / unit * unit)
}

/// None if no block fits, or if no size is declared.
fn by_blocks(given: i32, machine: &Machine, bounds: &Bounds) -> Option<Found> {
    let registers = u32::try_from(given).ok()?.min(machine.registers_per_thread);
    let launch = Launch { registers, ..bounds.launch? };
    let found = launch.occupancy(machine).ok().filter(|found| found.blocks > 0)?;
    let kept = (found.blocks * bounds.warps_kept / 100).max(1);
    let cliff = launch.register_cliffs(machine).ok()?.into_iter().rfind(|cliff| cliff.blocks >= kept)?;
    let warps = found.warps / found.blocks * kept;
    Some((warps.div_ceil(machine.schedulers), Some((kept, launch.threads)), cliff.most as i32))
}

impl fmt::Display for RegisterTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RegisterTarget { live, unit, given, warps, free, registers, bounds, .. } = self;
        let beyond = bounds.gaps + bounds.hidden;
        write!(f, "target {registers} registers: {live} were live, with {beyond} more in units of {unit} a thread gets {given}, ")?;
        match self.blocks {
            Some((blocks, threads)) => write!(f, "{blocks} blocks of {threads} threads")?,
            None => write!(f, "{warps} warps of a scheduler")?,
        }
        if bounds.warps_kept != 100 {
            write!(f, ", {} percent of those without paying,", bounds.warps_kept)?;
        }
        write!(f, " stay resident up to {free}")?;
        if bounds.asked.is_some() {
            write!(f, "; it was asked for")?;
        }
        if self.is_limited() {
            write!(f, "; {} is the limit", bounds.limit)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(launch: Option<Launch>, limit: i32) -> Bounds {
        Bounds { launch, gaps: 4, hidden: 2, limit, warps_kept: 100, asked: None }
    }

    fn target(live: i32, launch: Option<Launch>, limit: i32) -> RegisterTarget {
        RegisterTarget::new(live, Machine::named("sm_90").unwrap(), &bounds(launch, limit))
    }

    /// 16,384 registers of a scheduler are 512 for each of 32 threads: 40 registers allow 12 warps, and 12 warps 42, in units of 8 40.
    #[test]
    fn what_one_warp_more_would_need_is_the_end() {
        let found = target(30, None, 253);
        assert_eq!((found.given, found.warps, found.free, found.registers), (40, 12, 40, 34));
        assert!(found.to_string().contains("12 warps of a scheduler stay resident up to 40"), "{found}");
        assert_eq!(target(250, None, 253).registers, 249);
        assert_eq!(target(3, None, 253).registers, 26, "sixteen warps, 32 registers each");
    }

    /// Blocks of 1,024 threads have 8 warps in each scheduler: one block stays with 40 registers as with 64.
    #[test]
    fn between_two_numbers_of_blocks_registers_are_free() {
        let launch = |threads| Some(Launch { threads, ..Launch::default() });
        let found = target(30, launch(1024), 253);
        assert_eq!((found.blocks, found.warps, found.free, found.registers), (Some((1, 1024)), 8, 64, 58));
        assert!(found.to_string().contains("1 blocks of 1024 threads stay resident up to 64"), "{found}");
        // The best practices guide's blocks of 128 with 37 registers: twelve of them.
        assert_eq!(target(31, launch(128), 253).blocks, Some((12, 128)));
        // Shared memory for one block only: all registers are free.
        let shared = Some(Launch { threads: 128, static_shared: 160 << 10, ..Launch::default() });
        assert_eq!(target(30, shared, 253).registers, 249);
    }

    /// Half of twelve warps: 512 / 6 is 85, in units of 8 80. Half of two blocks of 512 threads with 56 registers: one, with up to 128.
    #[test]
    fn a_share_of_the_warps_buys_registers() {
        let half = |live, launch| {
            let bounds = Bounds { warps_kept: 50, ..bounds(launch, 253) };
            RegisterTarget::new(live, Machine::named("sm_90").unwrap(), &bounds)
        };
        let found = half(30, None);
        assert_eq!((found.warps, found.free, found.registers), (6, 80, 74));
        assert!(
            found.to_string().contains("6 warps of a scheduler, 50 percent of those without paying, stay resident up to 80"),
            "{found}"
        );
        let found = half(50, Some(Launch { threads: 512, ..Launch::default() }));
        assert_eq!((found.given, found.blocks, found.warps, found.free), (56, Some((1, 512)), 4, 128));
    }

    #[test]
    fn who_asks_for_a_target_gets_it() {
        let bounds = Bounds { asked: Some(20), ..bounds(None, 253) };
        assert_eq!(RegisterTarget::new(30, Machine::named("sm_90").unwrap(), &bounds).registers, 20);
    }

    #[test]
    fn limits_are_kept() {
        let found = target(30, None, 30);
        assert_eq!(found.registers, 26);
        assert!(found.is_limited() && found.to_string().ends_with("30 is the limit"), "{found}");
        // Blocks of 416 threads start with at most 128 registers; 153 live ones will be spilled.
        let found = target(153, Some(Launch { threads: 416, ..Launch::default() }), 126);
        assert_eq!((found.given, found.blocks, found.registers), (128, Some((1, 416)), 122));
    }
}
