//! Computes occupancy: how many blocks of a kernel can be resident on a multiprocessor.
//!
//! A block is resident with all its resources or not at all. Each resource allows a number of blocks, and the result is the minimum:
//!
//! - *warps*: the warp slots of the multiprocessor, divided by the warps of the block.
//! - *blocks*: a fixed limit.
//! - *registers*: the registers of a warp are rounded up to the allocation unit, and a warp is in one sub-partition. So registers left over
//!   in one sub-partition cannot serve another. In addition, the block must fit with its number of warps rounded up to the number of
//!   sub-partitions, otherwise it cannot launch.
//! - *shared memory*: static, dynamic and system-reserved bytes together, rounded up to the allocation unit, from the part of the L1 cache
//!   configured as shared memory (the carve-out). Without a preference that part is the maximum. A preference is a percentage, rounded up
//!   to a carve-out that the hardware supports. If not even one block fits into it, the smallest carve-out that holds a block is used.
//! - *barriers*: on machines that count them.
//!
//! Example (sm_90): 128 threads with 37 registers are 4 warps of 37 * 32 = 1,184 registers, rounded up to 1,280. Each of the four
//! sub-partitions has 16,384 registers, so it holds 12 warps. The 48 warps are 12 blocks, an occupancy of 75%.
//!
//! The rules are checked against the CUDA driver on an H200: a test compares all answers in `data/measured/occupancy_sm_90.tsv`.
//!
//! A *cliff* is the largest amount of a resource with which a number of blocks is still resident. With more, fewer blocks are resident.

use std::fmt;

use crate::machine::Machine;

/// The resources of a kernel, and its launch configuration.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LaunchResources {
    /// Threads per block.
    pub threads: u32,
    /// Registers per thread.
    pub registers: u32,
    /// Bytes of shared memory that the kernel declares.
    pub static_shared: u32,
    /// Bytes of shared memory that the launch adds.
    pub dynamic_shared: u32,
    /// Named barriers per block.
    pub barriers: u32,
    /// Preferred carve-out, in percent of the maximum shared memory. `None` without a preference.
    pub carve_out: Option<u32>,
}

/// A resource that limits the number of resident blocks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[allow(missing_docs)]
pub enum Resource {
    Warps,
    Registers,
    SharedMemory,
    Blocks,
    Barriers,
}

impl Resource {
    /// All resources.
    pub const ALL: [Resource; 5] = [Resource::Warps, Resource::Registers, Resource::SharedMemory, Resource::Blocks, Resource::Barriers];

    /// Returns the name for messages.
    pub fn name(self) -> &'static str {
        match self {
            Resource::Warps => "warps",
            Resource::Registers => "registers",
            Resource::SharedMemory => "shared memory",
            Resource::Blocks => "blocks",
            Resource::Barriers => "barriers",
        }
    }
}

/// The occupancy of a multiprocessor.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupancy {
    /// Resident blocks; 0 if the registers of a single block do not fit.
    pub blocks: u32,
    /// Resident warps.
    pub warps: u32,
    /// Warp slots of the machine.
    pub warp_slots: u32,
    /// Number of blocks that each resource allows, indexed by [`Resource`]. `None` if the resource does not limit them.
    limits: [Option<u32>; Resource::ALL.len()],
}

impl Occupancy {
    /// Returns the resident warps as a fraction of the warp slots.
    pub fn ratio(&self) -> f64 {
        f64::from(self.warps) / f64::from(self.warp_slots)
    }

    /// Returns the number of blocks that a resource allows, or `None` if the resource does not limit them.
    pub fn limit(&self, resource: Resource) -> Option<u32> {
        self.limits[resource as usize]
    }

    /// Returns the resources that allow no more blocks than are resident.
    pub fn limiting(&self) -> impl Iterator<Item = Resource> {
        Resource::ALL.into_iter().filter(|resource| self.limit(*resource) == Some(self.blocks))
    }
}

/// The reason why a machine can never accept a launch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "what was asked for, and what there is")]
pub enum Refusal {
    NoThreads,
    Threads { wanted: u32, available: u32 },
    Registers { wanted: u32, available: u32 },
    SharedMemory { wanted: u64, available: u32 },
    Barriers { wanted: u32, available: u32 },
    CarveOut { percent: u32 },
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Refusal::NoThreads => f.write_str("a block needs a thread"),
            Refusal::Threads { wanted, available } => write!(f, "{wanted} threads in a block, {available} are possible"),
            Refusal::Registers { wanted, available } => write!(f, "{wanted} registers for a thread, {available} are possible"),
            Refusal::SharedMemory { wanted, available } => {
                write!(f, "{wanted} bytes of shared memory in a block, {available} are possible")
            }
            Refusal::Barriers { wanted, available } => write!(f, "{wanted} barriers in a block, {available} are possible"),
            Refusal::CarveOut { percent } => write!(f, "{percent} percent of shared memory"),
        }
    }
}

impl std::error::Error for Refusal {}

/// The largest amount of a resource with which a number of blocks is resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cliff {
    /// Registers per thread, or bytes of shared memory per block.
    pub most: u32,
    /// Blocks that are resident with this amount.
    pub blocks: u32,
    /// Warps of these blocks.
    pub warps: u32,
}

impl LaunchResources {
    /// Returns the bytes of shared memory that the kernel and the launch request.
    fn shared(&self) -> u64 {
        u64::from(self.static_shared) + u64::from(self.dynamic_shared)
    }

    /// Returns the number of warps per block.
    fn warps(&self, machine: &Machine) -> u32 {
        self.threads.div_ceil(machine.threads_per_warp)
    }

    /// Checks the limits of a single block.
    fn check(&self, machine: &Machine) -> Result<(), Refusal> {
        if self.threads == 0 {
            return Err(Refusal::NoThreads);
        }
        if self.threads > machine.threads_per_block {
            return Err(Refusal::Threads { wanted: self.threads, available: machine.threads_per_block });
        }
        if self.registers > machine.registers_per_thread {
            return Err(Refusal::Registers { wanted: self.registers, available: machine.registers_per_thread });
        }
        if self.shared() > u64::from(machine.shared_per_block_opt_in) {
            return Err(Refusal::SharedMemory { wanted: self.shared(), available: machine.shared_per_block_opt_in });
        }
        if self.barriers > machine.barriers_per_block {
            return Err(Refusal::Barriers { wanted: self.barriers, available: machine.barriers_per_block });
        }
        match self.carve_out {
            Some(percent) if percent > 100 => Err(Refusal::CarveOut { percent }),
            _ => Ok(()),
        }
    }

    /// Computes the occupancy.
    pub fn occupancy(&self, machine: &Machine) -> Result<Occupancy, Refusal> {
        self.check(machine)?;
        let warps = self.warps(machine);
        let limit = |resource| match resource {
            Resource::Warps => Some(machine.resident_warps / warps),
            Resource::Registers => self.blocks_by_registers(machine),
            Resource::SharedMemory => self.blocks_by_shared(machine),
            Resource::Blocks => Some(machine.resident_blocks),
            Resource::Barriers if machine.barriers_limit_blocks => machine.barriers_per_sm.checked_div(self.barriers),
            Resource::Barriers => None,
        };
        let limits = Resource::ALL.map(limit);
        let blocks = limits.into_iter().flatten().min().unwrap_or(0);
        Ok(Occupancy { blocks, warps: blocks * warps, warp_slots: machine.resident_warps, limits })
    }

    /// Returns the number of blocks that the registers allow, or `None` if the kernel uses none.
    fn blocks_by_registers(&self, machine: &Machine) -> Option<u32> {
        let warps = self.warps(machine);
        let per_warp = (self.registers * machine.threads_per_warp).next_multiple_of(machine.register_unit);
        let per_scheduler = machine.registers_per_scheduler().checked_div(per_warp)?;
        // The block itself does not fit, with its warps rounded up to the number of sub-partitions.
        if per_warp * warps.next_multiple_of(machine.warp_unit) > machine.registers_per_block {
            return Some(0);
        }
        Some(per_scheduler * machine.schedulers / warps)
    }

    /// Returns the number of blocks that shared memory allows, or `None` if a block uses none.
    fn blocks_by_shared(&self, machine: &Machine) -> Option<u32> {
        let wanted = self.static_shared + self.dynamic_shared + machine.shared_reserved;
        let per_block = wanted.next_multiple_of(machine.shared_unit);
        let division = |bytes| machine.carve_outs.iter().copied().find(|carve_out| *carve_out >= bytes).unwrap_or(machine.shared_per_sm);
        let preferred = self.carve_out.map_or(machine.shared_per_sm, |percent| division(percent * machine.shared_per_sm / 100));
        // The preferred carve-out, unless not even one block fits into it.
        let given = if preferred >= per_block { preferred } else { division(per_block) };
        given.checked_div(per_block)
    }

    /// Returns the register cliffs, in ascending order of registers. The launch's own number of registers is ignored.
    pub fn register_cliffs(&self, machine: &Machine) -> Result<Vec<Cliff>, Refusal> {
        let step = machine.register_unit_of_thread();
        let amounts = (1..=machine.registers_per_thread.div_ceil(step)).map(|units| (units * step).min(machine.registers_per_thread));
        cliffs(machine, amounts, |registers| LaunchResources { registers, ..*self })
    }

    /// Returns the shared memory cliffs, in ascending order of bytes, static and dynamic together. The launch's own dynamic shared memory
    /// is ignored.
    pub fn shared_cliffs(&self, machine: &Machine) -> Result<Vec<Cliff>, Refusal> {
        LaunchResources { dynamic_shared: 0, ..*self }.check(machine)?;
        let (unit, reserved) = (machine.shared_unit, machine.shared_reserved);
        let full_units = reserved.div_ceil(unit)..=(machine.shared_per_block_opt_in + reserved) / unit;
        let amounts = full_units.map(|units| units * unit - reserved).filter(|bytes| *bytes >= self.static_shared);
        cliffs(machine, amounts, |bytes| LaunchResources { dynamic_shared: bytes - self.static_shared, ..*self })
    }
}

/// Returns, for each number of resident blocks, the last of the ascending amounts that gives it.
fn cliffs(machine: &Machine, amounts: impl Iterator<Item = u32>, launch: impl Fn(u32) -> LaunchResources) -> Result<Vec<Cliff>, Refusal> {
    let mut found: Vec<Cliff> = Vec::new();
    for most in amounts {
        let Occupancy { blocks, warps, .. } = launch(most).occupancy(machine)?;
        if blocks == 0 {
            break;
        }
        match found.last_mut() {
            Some(last) if last.blocks == blocks => last.most = most,
            _ => found.push(Cliff { most, blocks, warps }),
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine(name: &str) -> &'static Machine {
        Machine::named(name).unwrap()
    }

    fn blocks(name: &str, launch: LaunchResources) -> u32 {
        launch.occupancy(machine(name)).unwrap().blocks
    }

    /// Compares every cell of a table of recorded answers. The columns are static bytes, barriers, registers, dynamic bytes, carve-out,
    /// then the number of blocks for each block size. Returns the number of cells and the number of refusals among them.
    fn compare(name: &str, text: &str) -> (usize, usize) {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let sizes: Vec<u32> = lines.next().unwrap().split('\t').skip(5).map(|size| size.parse().unwrap()).collect();
        let (mut compared, mut refused) = (0, 0);
        for line in lines {
            let cells: Vec<&str> = line.split('\t').collect();
            assert_eq!(cells.len(), 5 + sizes.len(), "{line}");
            let number = |column: usize| cells[column].parse::<i64>().unwrap();
            for (&threads, answer) in sizes.iter().zip(&cells[5..]) {
                let launch = LaunchResources {
                    threads,
                    static_shared: number(0) as u32,
                    barriers: number(1) as u32,
                    registers: number(2) as u32,
                    dynamic_shared: number(3) as u32,
                    carve_out: u32::try_from(number(4)).ok(),
                };
                let ours = launch.occupancy(machine(name)).map_or("-".to_string(), |occupancy| occupancy.blocks.to_string());
                assert_eq!(ours, *answer, "{name} {launch:?}");
                compared += 1;
                refused += usize::from(*answer == "-");
            }
        }
        (compared, refused)
    }

    #[test]
    fn occupancy_matches_the_cuda_driver_on_h200() {
        assert_eq!(compare("sm_90", include_str!("../data/measured/occupancy_sm_90.tsv")), (44_075, 1_505));
    }

    /// Compares with the tables that `tools/occupancy/calculator.c` writes.
    #[test]
    fn occupancy_matches_the_cuda_calculator() {
        let Some(folder) = std::env::var_os("ORIOLE_OCCUPANCY_DIR") else {
            println!("skipped: ORIOLE_OCCUPANCY_DIR names no folder of tables");
            return;
        };
        let mut tables = 0;
        for machine in Machine::all() {
            let path = std::path::Path::new(&folder).join(format!("occupancy_{}.tsv", machine.name));
            if let Ok(text) = std::fs::read_to_string(&path) {
                println!("{}: {:?}", machine.name, compare(machine.name, &text));
                tables += 1;
            }
        }
        assert_ne!(tables, 0, "no tables in {folder:?}");
    }

    /// The example of the CUDA Best Practices Guide: registers are rounded up. On a multiprocessor with 65,536 registers and 2,048 threads,
    /// blocks of 128 threads with 37 registers reach 75% with 12 blocks, and blocks of 320 threads with 37 registers reach 63% with 4
    /// blocks.
    #[test]
    fn occupancy_matches_the_best_practices_guide() {
        for (threads, blocks, percent) in [(128, 12, 75), (320, 4, 63)] {
            let occupancy = LaunchResources { threads, registers: 37, ..LaunchResources::default() }.occupancy(machine("sm_70")).unwrap();
            assert_eq!(occupancy.blocks, blocks);
            assert_eq!((occupancy.ratio() * 100.0).round() as u32, percent);
            assert_eq!(occupancy.limiting().collect::<Vec<_>>(), [Resource::Registers]);
        }
    }

    /// From the tuning guides: two blocks of 1,024 threads on Volta, one on Turing and on GA10x. 32 registers per thread fill a
    /// multiprocessor of 2,048 threads.
    #[test]
    fn occupancy_matches_the_tuning_guides() {
        for (name, resident) in [("sm_70", 2), ("sm_75", 1), ("sm_80", 2), ("sm_86", 1), ("sm_89", 1), ("sm_90", 2), ("sm_120", 1)] {
            assert_eq!(blocks(name, LaunchResources { threads: 1024, registers: 32, ..LaunchResources::default() }), resident, "{name}");
        }
        let two_full = LaunchResources { threads: 1024, registers: 32, ..LaunchResources::default() }.occupancy(machine("sm_90")).unwrap();
        assert_eq!(two_full.ratio(), 1.0);
        assert_eq!(two_full.limiting().collect::<Vec<_>>(), [Resource::Warps, Resource::Registers]);
    }

    #[test]
    fn reserved_shared_memory_is_counted() {
        let with = |bytes| LaunchResources { threads: 32, registers: 16, dynamic_shared: bytes, ..LaunchResources::default() };
        // 228 KiB hold two blocks of 113 KiB with 1 KiB reserved for each, but not two blocks of 114 KiB.
        assert_eq!(blocks("sm_90", with(113 << 10)), 2);
        assert_eq!(blocks("sm_90", with((113 << 10) + 1)), 1);
        // Turing reserves none: 64 KiB hold two blocks of 32 KiB.
        assert_eq!(blocks("sm_75", with(32 << 10)), 2);
    }

    #[test]
    fn impossible_launches_are_rejected() {
        let base = LaunchResources { threads: 32, registers: 16, ..LaunchResources::default() };
        let refusal = |launch: LaunchResources| launch.occupancy(machine("sm_90")).unwrap_err();
        assert_eq!(refusal(LaunchResources { threads: 0, ..base }), Refusal::NoThreads);
        assert_eq!(refusal(LaunchResources { threads: 1025, ..base }), Refusal::Threads { wanted: 1025, available: 1024 });
        assert_eq!(refusal(LaunchResources { registers: 256, ..base }), Refusal::Registers { wanted: 256, available: 255 });
        assert_eq!(refusal(LaunchResources { barriers: 17, ..base }), Refusal::Barriers { wanted: 17, available: 16 });
        let wanted = 2 * u64::from(u32::MAX);
        let huge = LaunchResources { static_shared: u32::MAX, dynamic_shared: u32::MAX, ..base };
        assert_eq!(refusal(huge), Refusal::SharedMemory { wanted, available: 227 << 10 });
        assert_eq!(refusal(huge).to_string(), "8589934590 bytes of shared memory in a block, 232448 are possible");
        assert_eq!(refusal(LaunchResources { carve_out: Some(101), ..base }), Refusal::CarveOut { percent: 101 });
    }

    /// 65,536 registers in four sub-partitions: each scheduler has one warp of every block of 4 warps.
    #[test]
    fn register_cliffs_of_a_block_of_four_warps() {
        let found = LaunchResources { threads: 128, ..LaunchResources::default() }.register_cliffs(machine("sm_90")).unwrap();
        let pairs: Vec<(u32, u32)> = found.iter().map(|cliff| (cliff.most, cliff.blocks)).collect();
        let expected = [(32, 16), (40, 12), (48, 10), (56, 9), (64, 8), (72, 7), (80, 6), (96, 5), (128, 4), (168, 3), (255, 2)];
        assert_eq!(pairs, expected);
        assert!(found.iter().all(|cliff| cliff.warps == 4 * cliff.blocks));
    }

    #[test]
    fn register_cliff_loses_a_block() {
        for machine in Machine::all() {
            for threads in [32, 96, 128, 256, 1000, 1024] {
                let launch = LaunchResources { threads, registers: 24, static_shared: 100, ..LaunchResources::default() };
                for cliff in launch.register_cliffs(machine).unwrap() {
                    assert_eq!(blocks(machine.name, LaunchResources { registers: cliff.most, ..launch }), cliff.blocks);
                    if cliff.most < machine.registers_per_thread {
                        assert!(blocks(machine.name, LaunchResources { registers: cliff.most + 1, ..launch }) < cliff.blocks);
                    }
                }
                let cliffs = launch.shared_cliffs(machine).unwrap();
                assert_eq!(cliffs.last().map(|cliff| cliff.most), Some(machine.shared_per_block_opt_in), "{} {threads}", machine.name);
                for cliff in cliffs {
                    let with = |bytes: u32| LaunchResources { dynamic_shared: bytes - 100, ..launch };
                    assert_eq!(blocks(machine.name, with(cliff.most)), cliff.blocks, "{} {cliff:?}", machine.name);
                    if cliff.most < machine.shared_per_block_opt_in {
                        assert!(blocks(machine.name, with(cliff.most + 1)) < cliff.blocks, "{} {cliff:?}", machine.name);
                    }
                }
            }
        }
    }
}
