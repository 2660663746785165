//! Computes the register limit of a function from launch bounds in directives and on the command line.
//!
//! The rules of precedence are those of ptxas 13.0.88. Directives override the command line unless `--override-directive-values` is given.
//! A register limit from the command line is ignored for a kernel with launch bounds. Values that no GPU of the target can satisfy are
//! ignored with a warning.
//!
//! For example, `.maxntid 1024` on sm_90 allows 65,536 / 1024 = 64 registers, and `-maxrregcount=40` does not lower that limit.

use oriole_hardware::machine::Machine;
use oriole_hardware::occupancy::LaunchResources;
use oriole_ptx::ast::LaunchBounds;
pub use oriole_regalloc::HIDDEN_REGISTERS;

use crate::options::{LaunchOptions, Options};

/// Maximum number of registers per thread: of the 256 register numbers, the highest one stands for the zero register.
pub const MAX_REGISTER_LIMIT: u32 = 255;
/// Minimum register limit per thread: fewer registers are not enough for addresses and wide operands.
const MIN_REGISTER_LIMIT: u32 = 16;
/// Minimum register limit that the directive `.maxnreg` can set; lower values are raised to it.
const MIN_MAXNREG: u32 = 24;

/// Returns the launch bounds of a kernel: those of its directives, completed from the command line.
pub fn complete_launch_bounds(directives: &LaunchBounds, options: &Options) -> LaunchBounds {
    let LaunchOptions { max_threads, min_blocks_per_sm, override_directives, .. } = options.launch;
    let mut bounds = directives.clone();
    if override_directives || directives.max_threads.is_none() && directives.required_threads.is_none() {
        bounds.max_threads = max_threads.map(Vec::from).or(bounds.max_threads);
    }
    if override_directives || directives.min_blocks_per_sm.is_none() {
        bounds.min_blocks_per_sm = min_blocks_per_sm.or(bounds.min_blocks_per_sm);
    }
    bounds
}

/// Returns the number of threads of the largest thread block that the launch bounds allow; `None` if they do not limit it.
pub fn max_block_threads(bounds: &LaunchBounds) -> Option<u32> {
    let sizes = bounds.max_threads.as_ref().or(bounds.required_threads.as_ref())?;
    Some(sizes.iter().fold(1, |threads: u32, &size| threads.saturating_mul(size)))
}

/// Returns whether the launch bounds of a kernel require blocks of one dimension (`.reqntid`). `.maxntid` limits the number of threads
/// only, not the size in each dimension.
pub fn has_one_dimension(bounds: &LaunchBounds) -> bool {
    bounds.required_threads.as_ref().is_some_and(|sizes| sizes.iter().skip(1).all(|&size| size == 1))
}

/// The register limit of a function, and warnings about ignored launch bounds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegisterLimit {
    /// Maximum number of registers per thread.
    pub registers: u32,
    /// Warnings about ignored launch bounds, in ptxas' words.
    pub warnings: Vec<String>,
}

/// Returns the register limit of a function. `bounds` must already be completed from the command line ([`complete_launch_bounds`]).
pub fn register_limit(name: &str, bounds: &LaunchBounds, options: &Options, machine: &Machine) -> RegisterLimit {
    let mut warnings = Vec::new();
    let from_threads = max_block_threads(bounds).filter(|&threads| threads > 0).and_then(|threads| {
        let blocks = accepted_min_blocks_per_sm(name, threads, bounds.min_blocks_per_sm, machine, &mut warnings)?;
        Some(max_registers_for_blocks(threads, blocks, machine))
    });
    let by_directive = bounds.max_registers.and_then(|registers| accepted_maxnreg(name, registers, &mut warnings));
    let by_option = options.max_registers.filter(|_| from_threads.is_none() && bounds.max_registers.is_none());
    let registers = match options.max_registers.filter(|_| options.launch.override_directives) {
        Some(registers) => registers,
        None => from_threads.unwrap_or(MAX_REGISTER_LIMIT).min(by_directive.or(by_option).unwrap_or(MAX_REGISTER_LIMIT)),
    };
    RegisterLimit { registers: registers.clamp(MIN_REGISTER_LIMIT, MAX_REGISTER_LIMIT), warnings }
}

/// Returns the number of thread blocks that must be resident per multiprocessor, given the launch bounds `threads` (per block) and
/// `blocks`; `None` if the bounds cannot be met at all. Appends a warning if a bound is ignored.
fn accepted_min_blocks_per_sm(name: &str, threads: u32, blocks: Option<u32>, machine: &Machine, warnings: &mut Vec<String>) -> Option<u32> {
    if threads > machine.resident_threads {
        let what = if blocks.is_some() { "maxntid," } else { "threads per SM" };
        warnings.push(format!("Value of {what} for entry {name} is out of range. .minnctapersm and .maxntid will be ignored"));
        return None;
    }
    let blocks = blocks.unwrap_or(1);
    if blocks > machine.resident_blocks {
        warnings.push(format!("Value of minnctapersm for entry {name} is out of range. minnctapersm will be ignored"));
    } else if blocks.saturating_mul(threads) > machine.resident_threads {
        warnings.push(format!("Value of threads per SM for entry {name} is out of range. .minnctapersm will be ignored"));
    } else {
        return Some(blocks);
    }
    Some(1)
}

/// Returns the register limit that `.maxnreg` sets, or `None` if its value is ignored. Appends a warning if the value is ignored or raised.
fn accepted_maxnreg(name: &str, registers: u32, warnings: &mut Vec<String>) -> Option<u32> {
    if registers > MAX_REGISTER_LIMIT {
        warnings.push(format!("Too many maxnreg specified for entry {name}, will be ignored"));
        return None;
    }
    if registers < MIN_MAXNREG {
        let bound = format!("lower bound of {MIN_MAXNREG}");
        warnings.push(format!("For entry {name} adjusting per thread register count of {registers} to {bound}"));
    }
    Some(registers.max(MIN_MAXNREG))
}

/// Returns the maximum number of registers per thread with which `blocks` thread blocks of `threads` threads can be resident. Registers are
/// allocated per warp in each sub-partition, so the result may be lower than the size of the register file divided by the number of
/// threads.
fn max_registers_for_blocks(threads: u32, blocks: u32, machine: &Machine) -> u32 {
    if threads > machine.threads_per_block {
        // A block with this number of threads cannot be launched; ptxas still divides the register file by it.
        let warps = threads.div_ceil(machine.threads_per_warp).next_multiple_of(machine.warp_unit);
        let step = machine.register_unit / machine.threads_per_warp;
        return machine.registers_per_block / (warps * machine.threads_per_warp) / step * step;
    }
    let launch = LaunchResources { threads: threads.max(1), ..LaunchResources::default() };
    let cliffs = launch.register_cliffs(machine).unwrap_or_default();
    let most = |blocks| cliffs.iter().filter(|cliff| cliff.blocks >= blocks).map(|cliff| cliff.most).max();
    most(blocks).or_else(|| most(1)).unwrap_or(MIN_REGISTER_LIMIT)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns launch bounds with a maximum number of threads per block and a minimum number of resident blocks.
    fn launch_bounds(threads: u32, blocks: Option<u32>) -> LaunchBounds {
        LaunchBounds { max_threads: Some(vec![threads]), min_blocks_per_sm: blocks, ..LaunchBounds::default() }
    }

    /// Returns options for sm_90 with a register limit and launch bounds.
    fn options(max_registers: Option<u32>, launch: LaunchOptions) -> Options {
        Options { max_registers, launch, ..Options::new(oriole_isa::Target::parse("sm_90").unwrap()) }
    }

    /// Returns the register limit of a function with these launch bounds on sm_90.
    fn limit_with(directives: &LaunchBounds, options: &Options) -> RegisterLimit {
        register_limit("k", &complete_launch_bounds(directives, options), options, Machine::named("sm_90").unwrap())
    }

    /// Returns the number of registers that launch bounds and a register limit on the command line allow on sm_90.
    fn limit_of(directives: &LaunchBounds, max_registers: Option<u32>) -> u32 {
        limit_with(directives, &options(max_registers, LaunchOptions::default())).registers
    }

    #[test]
    fn register_file_is_divided_among_the_threads_of_the_launch_bounds() {
        assert_eq!(limit_of(&launch_bounds(1024, None), None), 64);
        assert_eq!(limit_of(&launch_bounds(128, None), None), 255);
        assert_eq!(limit_of(&launch_bounds(256, Some(4)), None), 64);
        assert_eq!(limit_of(&LaunchBounds::default(), Some(4)), 16);
    }

    /// ptxas 13.0.88 ignores `-maxrregcount=40` for a function with each of these directives.
    #[test]
    fn directives_win_over_the_command_line() {
        assert_eq!(limit_of(&launch_bounds(256, Some(4)), Some(40)), 64);
        assert_eq!(limit_of(&launch_bounds(128, None), Some(40)), 255);
        let both = LaunchBounds { max_registers: Some(48), ..launch_bounds(256, Some(4)) };
        assert_eq!(limit_of(&both, Some(40)), 48);
        let launch = LaunchOptions { max_threads: Some([1024, 1, 1]), min_blocks_per_sm: Some(2), ..LaunchOptions::default() };
        assert_eq!(limit_with(&launch_bounds(128, Some(4)), &options(None, launch)).registers, 128);
        // Launch bounds that are ignored do not count as launch bounds, and neither does `.minnctapersm` alone.
        assert_eq!(limit_of(&launch_bounds(2049, None), Some(40)), 40);
        let blocks = LaunchBounds { min_blocks_per_sm: Some(4), ..LaunchBounds::default() };
        assert_eq!(limit_of(&blocks, Some(40)), 40);
    }

    /// The expected limits are those of ptxas 13.0.88.
    #[test]
    fn command_line_bounds_complete_or_override_directives() {
        let launch = |threads, blocks, override_directives| {
            let max_threads = (threads > 0).then_some([threads, 1, 1]);
            options(None, LaunchOptions { max_threads, min_blocks_per_sm: blocks, override_directives, ..LaunchOptions::default() })
        };
        let none = LaunchBounds::default();
        assert_eq!(limit_with(&none, &launch(1024, None, false)).registers, 64);
        assert_eq!(limit_with(&none, &launch(640, None, false)).registers, 96);
        assert_eq!(limit_with(&none, &launch(256, Some(2), false)).registers, 128);
        assert_eq!(limit_with(&none, &launch(0, Some(4), false)).registers, 255);
        assert_eq!(limit_with(&launch_bounds(128, None), &launch(0, Some(4), false)).registers, 128);
        assert_eq!(limit_with(&launch_bounds(128, None), &launch(1024, None, true)).registers, 64);
        let required = LaunchBounds { required_threads: Some(vec![128]), ..LaunchBounds::default() };
        assert_eq!(limit_with(&required, &launch(1024, None, false)).registers, 255);
        assert_eq!(limit_with(&required, &launch(1024, None, true)).registers, 64);
        let all = LaunchOptions { override_directives: true, ..LaunchOptions::default() };
        assert_eq!(limit_with(&launch_bounds(1024, None), &options(Some(200), all)).registers, 200);
    }

    /// 416 threads are 13 warps, for which registers are allocated as for 16: 65,536 / (16 * 32) = 128 registers, while 65,536 / 416 would
    /// be 157. The number of blocks that the driver of an H200 allows is recorded in `crates/hardware/data/measured/occupancy_sm_90.tsv`;
    /// the occupancy calculator agrees with all entries.
    #[test]
    fn register_limit_allows_a_block_of_the_declared_size() {
        assert_eq!(limit_of(&launch_bounds(416, None), None), 128);
        // A block has 3 warps and there are four schedulers. With 96 or 88 registers five warps fit on each scheduler: 20 warps, six
        // blocks. With 80 registers six warps fit: 24 warps, eight blocks. ptxas 13.0.88 has the same limit.
        assert_eq!(limit_of(&launch_bounds(96, Some(7)), None), 80);
    }

    /// The expected limits and warnings are those of ptxas 13.0.88.
    #[test]
    fn impossible_bounds_are_ignored_with_a_warning() {
        let cases = [
            (launch_bounds(1024, Some(3)), 64, "Value of threads per SM for entry k is out of range. .minnctapersm will be ignored"),
            (launch_bounds(256, Some(33)), 255, "Value of minnctapersm for entry k is out of range. minnctapersm will be ignored"),
            (
                launch_bounds(2049, None),
                255,
                "Value of threads per SM for entry k is out of range. .minnctapersm and .maxntid will be ignored",
            ),
            (
                launch_bounds(65536, Some(2)),
                255,
                "Value of maxntid, for entry k is out of range. .minnctapersm and .maxntid will be ignored",
            ),
            (
                launch_bounds(u32::MAX, None),
                255,
                "Value of threads per SM for entry k is out of range. .minnctapersm and .maxntid will be ignored",
            ),
        ];
        for (directives, registers, warning) in cases {
            assert_eq!(
                limit_with(&directives, &options(None, LaunchOptions::default())),
                RegisterLimit { registers, warnings: vec![warning.to_owned()] }
            );
        }
        for (registers, limit, warning) in [
            (300, 255, "Too many maxnreg specified for entry k, will be ignored"),
            (10, 24, "For entry k adjusting per thread register count of 10 to lower bound of 24"),
        ] {
            let directives = LaunchBounds { max_registers: Some(registers), ..LaunchBounds::default() };
            let found = limit_with(&directives, &options(None, LaunchOptions::default()));
            assert_eq!(found, RegisterLimit { registers: limit, warnings: vec![warning.to_owned()] });
        }
        for (threads, registers) in [(0, 255), (1025, 56), (1536, 40), (1537, 32), (2048, 32)] {
            assert_eq!(
                limit_with(&launch_bounds(threads, None), &options(None, LaunchOptions::default())),
                RegisterLimit { registers, warnings: Vec::new() }
            );
        }
    }
}
