//! How many registers a thread may have.

use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::Launch;
use oriole_ptx::ast::LaunchBounds;

/// Registers of one thread at most: the last number is the zero register.
const MOST: u32 = 255;
/// Fewer do not suffice for addresses and wide operands.
const FEWEST: u32 = 16;

/// The limit that directives and the command line give together. `.maxnreg` wins over the command line, as in ptxas.
pub fn limit(bounds: &LaunchBounds, command_line: Option<u32>, machine: &Machine) -> u32 {
    let threads = bounds.required_threads.as_ref().or(bounds.max_threads.as_ref());
    let threads = threads.map(|sizes| sizes.iter().fold(1_u32, |threads, &size| threads.saturating_mul(size)));
    let from_bounds = threads.map_or(MOST, |threads| most_for(threads, bounds.min_blocks_per_sm.unwrap_or(1), machine));
    let asked = bounds.max_registers.or(command_line).unwrap_or(MOST);
    from_bounds.min(asked).clamp(FEWEST, MOST)
}

/// The most registers with which so many blocks are resident. Warps live in sub-partitions and blocks in whole warps of all of them, so
/// this is less than the size of the file divided by threads. A number of blocks that no kernel reaches does not count, as in ptxas.
fn most_for(threads: u32, blocks: u32, machine: &Machine) -> u32 {
    let launch = Launch { threads: threads.clamp(1, machine.threads_per_block), ..Launch::default() };
    let cliffs = launch.register_cliffs(machine).unwrap_or_default();
    let most = |blocks| cliffs.iter().filter(|cliff| cliff.blocks >= blocks).map(|cliff| cliff.most).max();
    most(blocks).or_else(|| most(1)).unwrap_or(FEWEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(threads: u32, blocks: Option<u32>) -> LaunchBounds {
        LaunchBounds { max_threads: Some(vec![threads]), min_blocks_per_sm: blocks, ..LaunchBounds::default() }
    }

    fn limit_of(bounds: &LaunchBounds, command_line: Option<u32>) -> u32 {
        limit(bounds, command_line, Machine::named("sm_90").unwrap())
    }

    #[test]
    fn launch_bounds_divide_the_file() {
        assert_eq!(limit_of(&bounds(1024, None), None), 64);
        assert_eq!(limit_of(&bounds(128, None), None), 255);
        assert_eq!(limit_of(&bounds(256, Some(4)), None), 64);
        assert_eq!(limit_of(&bounds(256, Some(4)), Some(40)), 40);
        assert_eq!(limit_of(&LaunchBounds::default(), Some(4)), 16);
        let both = LaunchBounds { max_registers: Some(48), ..bounds(256, Some(4)) };
        assert_eq!(limit_of(&both, Some(40)), 48);
    }

    /// 416 threads are 13 warps, which start as 16: 65,536 / (16 * 32) = 128, where 65,536 / 416 would be 157. The blocks that the driver of an
    /// H200 allows are in `crates/hardware/data/measured/occupancy_sm_90.tsv`; the calculator agrees with all of them.
    #[test]
    fn a_block_of_the_declared_size_can_start() {
        assert_eq!(limit_of(&bounds(416, None), None), 128);
        // ptxas 13.0.88 takes the same. 3 warps a block: with 96 registers five warps fit on a scheduler, 20 on four, six blocks; seven need 88 or fewer: 5 * 4 / 3 again,
        // and with 80 registers six warps, 24 on four, eight blocks.
        assert_eq!(limit_of(&bounds(96, Some(7)), None), 80);
    }

    #[test]
    fn what_cannot_be_is_not_asked_for() {
        // "Value of threads per SM is out of range. .minnctapersm will be ignored", says ptxas 13.0.88, and takes 64.
        assert_eq!(limit_of(&bounds(1024, Some(3)), None), 64);
        assert_eq!(limit_of(&bounds(0, None), None), 255);
        assert_eq!(limit_of(&bounds(4096, None), None), 64);
    }
}
