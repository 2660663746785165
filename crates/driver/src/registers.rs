//! How many registers a thread may have.

use oriole_ptx::ast::LaunchBounds;

/// Registers of one multiprocessor.
const FILE_SIZE: u32 = 65_536;
/// Registers of one thread at most: the last number is the zero register.
const MOST: u32 = 255;
/// Threads get registers in multiples of this.
const UNIT: u32 = 8;
/// Fewer do not suffice for addresses and wide operands.
const FEWEST: u32 = 16;

/// The limit that directives and the command line give together. `.maxnreg` wins over the command line, as in ptxas.
pub fn limit(bounds: &LaunchBounds, command_line: Option<u32>) -> u32 {
    let threads = bounds.required_threads.as_ref().or(bounds.max_threads.as_ref());
    let threads = threads.map(|sizes| sizes.iter().product::<u32>().max(1).next_multiple_of(32));
    let blocks = bounds.min_blocks_per_sm.unwrap_or(1).max(1);
    let from_bounds = threads.map_or(MOST, |threads| FILE_SIZE / threads.saturating_mul(blocks).max(1) / UNIT * UNIT);
    let asked = bounds.max_registers.or(command_line).unwrap_or(MOST);
    from_bounds.min(asked).clamp(FEWEST, MOST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launch_bounds_divide_the_file() {
        let bounds =
            |threads: u32, blocks| LaunchBounds { max_threads: Some(vec![threads]), min_blocks_per_sm: blocks, ..LaunchBounds::default() };
        assert_eq!(limit(&bounds(1024, None), None), 64);
        assert_eq!(limit(&bounds(128, None), None), 255);
        assert_eq!(limit(&bounds(256, Some(4)), None), 64);
        assert_eq!(limit(&bounds(256, Some(4)), Some(40)), 40);
        assert_eq!(limit(&LaunchBounds::default(), Some(4)), 16);
    }
}
