//! How many blocks of a kernel fit on a multiprocessor.
//!
//! A block is resident with all it needs or not at all, so each resource allows a number of blocks and the least of these is the answer:
//!
//! - *warps*: those of the block, from the slots of the multiprocessor;
//! - *blocks*: a limit of its own;
//! - *registers*: a warp gets a multiple of the allocation unit and lives in one sub-partition, so what is left over in one sub-partition
//!   does not help another. A block must also fit as if its warps were a multiple of the number of sub-partitions, or it never starts;
//! - *shared memory*: static, dynamic and the system's own part together, in allocation units, from the part of the first-level cache that
//!   is given to it. Without a preference that is all there can be; a preference is a share in percent, rounded up to a division that the
//!   hardware has, and gives way where not even one block would fit;
//! - *barriers*: where the machine counts them.
//!
//! The rules were checked against the CUDA driver of an H200: `data/measured/occupancy_sm_90.tsv` has its answers, and a test compares all.
//!
//! A *cliff* is the largest amount of a resource with which a number of blocks still fits: one more, and a block less is resident.

use std::fmt;

use crate::machine::Machine;

/// What a kernel needs, and how it is launched.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Launch {
    /// Threads of a block.
    pub threads: u32,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory that the kernel declares.
    pub static_shared: u32,
    /// Bytes of shared memory that the launch adds.
    pub dynamic_shared: u32,
    /// Named barriers.
    pub barriers: u32,
    /// The preferred share of shared memory in percent of the most there can be.
    pub carve_out: Option<u32>,
}

/// What limits the blocks on a multiprocessor.
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
    /// All of them.
    pub const ALL: [Resource; 5] = [Resource::Warps, Resource::Registers, Resource::SharedMemory, Resource::Blocks, Resource::Barriers];

    /// Its name for people.
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

/// How full a multiprocessor gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Occupancy {
    /// Resident blocks. None fit where the registers of a single block are too many.
    pub blocks: u32,
    /// Resident warps.
    pub warps: u32,
    /// Most warps that the machine can hold.
    pub warp_slots: u32,
    /// Blocks that each resource allows, by [`Resource`]; none where it does not limit.
    limits: [Option<u32>; Resource::ALL.len()],
}

impl Occupancy {
    /// Resident warps as a share of the most there can be.
    pub fn ratio(&self) -> f64 {
        f64::from(self.warps) / f64::from(self.warp_slots)
    }

    /// Blocks that a resource allows; none where it does not limit.
    pub fn limit(&self, resource: Resource) -> Option<u32> {
        self.limits[resource as usize]
    }

    /// The resources that allow no more blocks than are resident.
    pub fn limiting(&self) -> impl Iterator<Item = Resource> {
        Resource::ALL.into_iter().filter(|resource| self.limit(*resource) == Some(self.blocks))
    }
}

/// A launch that the machine never accepts.
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
    /// Registers of a thread, or bytes of shared memory of a block.
    pub most: u32,
    /// Blocks that are resident with it.
    pub blocks: u32,
    /// Their warps.
    pub warps: u32,
}

impl Launch {
    /// Bytes of shared memory that the kernel and the launch ask for.
    fn shared(&self) -> u64 {
        u64::from(self.static_shared) + u64::from(self.dynamic_shared)
    }

    fn warps(&self, machine: &Machine) -> u32 {
        self.threads.div_ceil(machine.threads_per_warp)
    }

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

    /// How full a multiprocessor gets.
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

    fn blocks_by_registers(&self, machine: &Machine) -> Option<u32> {
        let warps = self.warps(machine);
        let per_warp = (self.registers * machine.threads_per_warp).next_multiple_of(machine.register_unit);
        let per_scheduler = machine.registers_per_scheduler().checked_div(per_warp)?;
        if per_warp * warps.next_multiple_of(machine.warp_unit) > machine.registers_per_block {
            return Some(0);
        }
        Some(per_scheduler * machine.schedulers / warps)
    }

    fn blocks_by_shared(&self, machine: &Machine) -> Option<u32> {
        let wanted = self.static_shared + self.dynamic_shared + machine.shared_reserved;
        let per_block = wanted.next_multiple_of(machine.shared_unit);
        let division = |bytes| machine.carve_outs.iter().copied().find(|carve_out| *carve_out >= bytes).unwrap_or(machine.shared_per_sm);
        let preferred = self.carve_out.map_or(machine.shared_per_sm, |percent| division(percent * machine.shared_per_sm / 100));
        let given = if preferred >= per_block { preferred } else { division(per_block) };
        given.checked_div(per_block)
    }

    /// Where more registers cost a block, from the fewest to the most registers. The launch's own number of registers does not matter.
    pub fn register_cliffs(&self, machine: &Machine) -> Result<Vec<Cliff>, Refusal> {
        let step = machine.register_unit / machine.threads_per_warp;
        let amounts = (1..=machine.registers_per_thread.div_ceil(step)).map(|units| (units * step).min(machine.registers_per_thread));
        cliffs(machine, amounts, |registers| Launch { registers, ..*self })
    }

    /// Where more shared memory costs a block, from the least to the most bytes, static and dynamic together. The launch's own dynamic
    /// shared memory does not matter.
    pub fn shared_cliffs(&self, machine: &Machine) -> Result<Vec<Cliff>, Refusal> {
        Launch { dynamic_shared: 0, ..*self }.check(machine)?;
        let (unit, reserved) = (machine.shared_unit, machine.shared_reserved);
        let full_units = reserved.div_ceil(unit)..=(machine.shared_per_block_opt_in + reserved) / unit;
        let amounts = full_units.map(|units| units * unit - reserved).filter(|bytes| *bytes >= self.static_shared);
        cliffs(machine, amounts, |bytes| Launch { dynamic_shared: bytes - self.static_shared, ..*self })
    }
}

/// The last of ascending amounts for each number of resident blocks.
fn cliffs(machine: &Machine, amounts: impl Iterator<Item = u32>, launch: impl Fn(u32) -> Launch) -> Result<Vec<Cliff>, Refusal> {
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

    fn blocks(name: &str, launch: Launch) -> u32 {
        launch.occupancy(machine(name)).unwrap().blocks
    }

    /// Compares every line and column of a table of answers: static, barriers, registers, dynamic, carve-out, then the blocks for each
    /// block size. Returns how many were compared, and how many of them were refusals.
    fn compare(name: &str, text: &str) -> (usize, usize) {
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let sizes: Vec<u32> = lines.next().unwrap().split('\t').skip(5).map(|size| size.parse().unwrap()).collect();
        let (mut compared, mut refused) = (0, 0);
        for line in lines {
            let cells: Vec<&str> = line.split('\t').collect();
            assert_eq!(cells.len(), 5 + sizes.len(), "{line}");
            let number = |column: usize| cells[column].parse::<i64>().unwrap();
            for (&threads, answer) in sizes.iter().zip(&cells[5..]) {
                let launch = Launch {
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
    fn the_driver_of_an_h200_agrees() {
        assert_eq!(compare("sm_90", include_str!("../data/measured/occupancy_sm_90.tsv")), (44_075, 1_505));
    }

    /// The tables that `tools/occupancy/calculator.c` writes.
    #[test]
    fn the_calculator_of_cuda_agrees() {
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

    /// The CUDA Best Practices Guide's example: registers round up, so on a multiprocessor of 65,536 registers and 2,048 threads blocks of
    /// 128 threads with 37 registers reach 75% with 12 blocks, and blocks of 320 threads with 37 registers reach 63% with 4 blocks.
    #[test]
    fn best_practices_example() {
        for (threads, blocks, percent) in [(128, 12, 75), (320, 4, 63)] {
            let occupancy = Launch { threads, registers: 37, ..Launch::default() }.occupancy(machine("sm_70")).unwrap();
            assert_eq!(occupancy.blocks, blocks);
            assert_eq!((occupancy.ratio() * 100.0).round() as u32, percent);
            assert_eq!(occupancy.limiting().collect::<Vec<_>>(), [Resource::Registers]);
        }
    }

    /// Tuning guides: two blocks of 1024 threads on Volta, one on Turing and on GA10x; 32 registers a thread fill a multiprocessor of 2048.
    #[test]
    fn tuning_guides() {
        for (name, resident) in [("sm_70", 2), ("sm_75", 1), ("sm_80", 2), ("sm_86", 1), ("sm_89", 1), ("sm_90", 2), ("sm_120", 1)] {
            assert_eq!(blocks(name, Launch { threads: 1024, registers: 32, ..Launch::default() }), resident, "{name}");
        }
        let two_full = Launch { threads: 1024, registers: 32, ..Launch::default() }.occupancy(machine("sm_90")).unwrap();
        assert_eq!(two_full.ratio(), 1.0);
        assert_eq!(two_full.limiting().collect::<Vec<_>>(), [Resource::Warps, Resource::Registers]);
    }

    #[test]
    fn shared_memory_has_a_part_of_the_system() {
        let with = |bytes| Launch { threads: 32, registers: 16, dynamic_shared: bytes, ..Launch::default() };
        // 228 KiB hold two blocks of 113 KiB and their 1 KiB each, not two of 114 KiB.
        assert_eq!(blocks("sm_90", with(113 << 10)), 2);
        assert_eq!(blocks("sm_90", with((113 << 10) + 1)), 1);
        // Turing has none: 64 KiB hold two blocks of 32 KiB.
        assert_eq!(blocks("sm_75", with(32 << 10)), 2);
    }

    #[test]
    fn what_never_starts_is_refused() {
        let base = Launch { threads: 32, registers: 16, ..Launch::default() };
        let refusal = |launch: Launch| launch.occupancy(machine("sm_90")).unwrap_err();
        assert_eq!(refusal(Launch { threads: 0, ..base }), Refusal::NoThreads);
        assert_eq!(refusal(Launch { threads: 1025, ..base }), Refusal::Threads { wanted: 1025, available: 1024 });
        assert_eq!(refusal(Launch { registers: 256, ..base }), Refusal::Registers { wanted: 256, available: 255 });
        assert_eq!(refusal(Launch { barriers: 17, ..base }), Refusal::Barriers { wanted: 17, available: 16 });
        let wanted = 2 * u64::from(u32::MAX);
        let huge = Launch { static_shared: u32::MAX, dynamic_shared: u32::MAX, ..base };
        assert_eq!(refusal(huge), Refusal::SharedMemory { wanted, available: 227 << 10 });
        assert_eq!(refusal(huge).to_string(), "8589934590 bytes of shared memory in a block, 232448 are possible");
        assert_eq!(refusal(Launch { carve_out: Some(101), ..base }), Refusal::CarveOut { percent: 101 });
    }

    /// 65,536 registers in four parts: with blocks of 4 warps, each scheduler has one warp of each block.
    #[test]
    fn register_cliffs_of_a_block_of_four_warps() {
        let found = Launch { threads: 128, ..Launch::default() }.register_cliffs(machine("sm_90")).unwrap();
        let pairs: Vec<(u32, u32)> = found.iter().map(|cliff| (cliff.most, cliff.blocks)).collect();
        let expected = [(32, 16), (40, 12), (48, 10), (56, 9), (64, 8), (72, 7), (80, 6), (96, 5), (128, 4), (168, 3), (255, 2)];
        assert_eq!(pairs, expected);
        assert!(found.iter().all(|cliff| cliff.warps == 4 * cliff.blocks));
    }

    #[test]
    fn a_cliff_is_where_a_block_is_lost() {
        for machine in Machine::all() {
            for threads in [32, 96, 128, 256, 1000, 1024] {
                let launch = Launch { threads, registers: 24, static_shared: 100, ..Launch::default() };
                for cliff in launch.register_cliffs(machine).unwrap() {
                    assert_eq!(blocks(machine.name, Launch { registers: cliff.most, ..launch }), cliff.blocks);
                    if cliff.most < machine.registers_per_thread {
                        assert!(blocks(machine.name, Launch { registers: cliff.most + 1, ..launch }) < cliff.blocks);
                    }
                }
                let cliffs = launch.shared_cliffs(machine).unwrap();
                assert_eq!(cliffs.last().map(|cliff| cliff.most), Some(machine.shared_per_block_opt_in), "{} {threads}", machine.name);
                for cliff in cliffs {
                    let with = |bytes: u32| Launch { dynamic_shared: bytes - 100, ..launch };
                    assert_eq!(blocks(machine.name, with(cliff.most)), cliff.blocks, "{} {cliff:?}", machine.name);
                    if cliff.most < machine.shared_per_block_opt_in {
                        assert!(blocks(machine.name, with(cliff.most + 1)) < cliff.blocks, "{} {cliff:?}", machine.name);
                    }
                }
            }
        }
    }
}
