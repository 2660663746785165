//! The layout of the launch data that the CUDA driver stores in constant bank 0, besides the parameters: grid, block and cluster sizes,
//! shared memory sizes, environment registers. Offsets are in bytes. They were found by compiling a read of every special register
//! with ptxas 13.0.88 for each target.

use oriole_support::{Architecture, Target};

use crate::layout::no_machine_code;

/// Offset in constant bank 0 of one word of the launch data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchWord {
    /// A fixed offset.
    At(u32),
    /// `offset - step * SR_CgaSize`: the offset depends on the special register `SR_CgaSize`.
    PerClusterSize {
        /// The offset for `SR_CgaSize` 0.
        offset: u32,
        /// Bytes subtracted per unit of `SR_CgaSize`.
        step: u32,
    },
}

impl LaunchWord {
    /// Returns the location `bytes` bytes further on.
    #[must_use]
    pub fn plus(self, bytes: u32) -> LaunchWord {
        match self {
            LaunchWord::At(offset) => LaunchWord::At(offset + bytes),
            LaunchWord::PerClusterSize { offset, step } => LaunchWord::PerClusterSize { offset: offset + bytes, step },
        }
    }
}

/// The layout of the launch data in constant bank 0. Plain numbers are byte offsets unless a field says otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LaunchLayout {
    /// `%ntid`: three words.
    pub block_size: u32,
    /// `%nctaid`: three words.
    pub grid_size: u32,
    /// `%gridid`: 64 bits.
    pub grid_id: u32,
    /// `%current_graph_exec`: 64 bits.
    pub graph: u32,
    /// `%nsmid`.
    pub processor_count: u32,
    /// `%dynamic_smem_size`.
    pub dynamic_shared: LaunchWord,
    /// The number of bytes of shared memory that the system reserves, which is subtracted from `SR_SMEMSZ`; `None` if nothing is reserved.
    pub reserved_shared_size: Option<u32>,
    /// The location of the shared memory that the system reserves; `None` if nothing is reserved.
    pub reserved_shared: Option<ReservedShared>,
    /// `%envreg0` and the following registers, below [`LaunchLayout::LATE_ENVIRONMENT`].
    environment: LaunchWord,
    /// Base offset of the other environment registers: `%envregN` is at this offset plus `4 * N`.
    late_environment: u32,
    /// The value of `%nwarpid` if it is fixed; `None` if it is read from `SR_VIRTCFG`.
    pub warps: Option<u32>,
    /// The cluster data; `None` on targets without clusters.
    pub cluster: Option<ClusterLaunch>,
}

/// The location of the shared memory that the system reserves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReservedShared {
    /// After the shared memory of the block.
    AtEnd {
        /// `%reserved_smem_offset_end`.
        end: u32,
        /// `%reserved_smem_offset_1`.
        second: u32,
    },
    /// Before the shared memory of the block.
    AtStart {
        /// The value of `%reserved_smem_offset_0`.
        first: u32,
        /// The value of `%reserved_smem_offset_cap`.
        capacity: u32,
        /// `%reserved_smem_offset_end`.
        end: LaunchWord,
        /// `%reserved_smem_offset_1`.
        second: LaunchWord,
    },
}

impl ReservedShared {
    /// Returns the location of `%reserved_smem_offset_end`.
    pub fn end(self) -> LaunchWord {
        match self {
            ReservedShared::AtEnd { end, .. } => LaunchWord::At(end),
            ReservedShared::AtStart { end, .. } => end,
        }
    }

    /// Returns the location of `%reserved_smem_offset_1`.
    pub fn second(self) -> LaunchWord {
        match self {
            ReservedShared::AtEnd { second, .. } => LaunchWord::At(second),
            ReservedShared::AtStart { second, .. } => second,
        }
    }
}

/// Locations of the cluster data in constant bank 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterLaunch {
    /// A word that is 1 if the launch specifies a cluster size.
    pub is_explicit: u32,
    /// `%cluster_nctaid`: three words.
    pub size: LaunchWord,
    /// The reciprocals of the three words of `size`, as f32.
    pub reciprocal_size: LaunchWord,
    /// `%nclusterid`: three words.
    pub grid_size: LaunchWord,
    /// `%cluster_nctarank`.
    pub block_count: LaunchWord,
    /// The upper bound of `%aggr_smem_size`.
    pub aggregate_shared: LaunchWord,
}

impl LaunchLayout {
    /// Number of the first environment register at [`LaunchLayout::late_environment`].
    const LATE_ENVIRONMENT: u32 = 16;

    /// Returns the layout of the launch data in constant bank 0.
    ///
    /// # Panics
    ///
    /// If the target has no machine code ([`Target::has_machine_code`]).
    pub fn of(target: Target) -> &'static LaunchLayout {
        match target.architecture() {
            Architecture::Tesla | Architecture::Fermi | Architecture::Kepler | Architecture::Maxwell | Architecture::Pascal => {
                no_machine_code(target)
            }
            Architecture::Volta => &VOLTA,
            Architecture::Turing => &TURING,
            Architecture::Ampere if target.number() == 80 => &AMPERE,
            Architecture::Ampere | Architecture::Ada => &SMALL_AMPERE,
            Architecture::Hopper => &HOPPER,
            Architecture::Blackwell => &BLACKWELL,
        }
    }

    /// Returns the location of `%envreg<number>`.
    pub fn environment(&self, number: u32) -> LaunchWord {
        if number < LaunchLayout::LATE_ENVIRONMENT {
            return self.environment.plus(4 * number);
        }
        LaunchWord::At(self.late_environment + 4 * number)
    }
}

const TURING: LaunchLayout = LaunchLayout {
    block_size: 0x0,
    grid_size: 0xc,
    grid_id: 0x30,
    graph: 0x120,
    processor_count: 0x10c,
    dynamic_shared: LaunchWord::At(0x2c),
    reserved_shared_size: None,
    reserved_shared: None,
    environment: LaunchWord::At(0x88),
    late_environment: 0x88,
    warps: Some(32),
    cluster: None,
};

const VOLTA: LaunchLayout = LaunchLayout { warps: Some(64), ..TURING };

const AMPERE: LaunchLayout = LaunchLayout {
    graph: 0x130,
    reserved_shared_size: Some(0x114),
    reserved_shared: Some(ReservedShared::AtEnd { end: 0x120, second: 0x124 }),
    warps: Some(64),
    ..TURING
};

const SMALL_AMPERE: LaunchLayout = LaunchLayout { warps: Some(48), ..AMPERE };

const HOPPER: LaunchLayout = LaunchLayout {
    graph: 0x190,
    environment: LaunchWord::At(0x40),
    late_environment: 0x40,
    reserved_shared: Some(ReservedShared::AtStart { first: 0, capacity: 0x400, end: LaunchWord::At(0x68), second: LaunchWord::At(0x6c) }),
    warps: None,
    cluster: Some(ClusterLaunch {
        is_explicit: 0x140,
        size: LaunchWord::At(0x144),
        reciprocal_size: LaunchWord::At(0x150),
        grid_size: LaunchWord::At(0x15c),
        block_count: LaunchWord::At(0x188),
        aggregate_shared: LaunchWord::At(0x13c),
    }),
    ..AMPERE
};

/// A location that depends on the cluster size.
const fn moving(offset: u32) -> LaunchWord {
    LaunchWord::PerClusterSize { offset, step: 0xa0 }
}

const BLACKWELL: LaunchLayout = LaunchLayout {
    block_size: 0x360,
    grid_size: 0x370,
    grid_id: 0x140,
    graph: 0x2e8,
    processor_count: 0x2d0,
    dynamic_shared: moving(0x2ac),
    reserved_shared_size: Some(0x16c),
    reserved_shared: Some(ReservedShared::AtStart { first: 0x40, capacity: 0x400, end: moving(0x278), second: moving(0x27c) }),
    environment: moving(0x250),
    late_environment: 0x90,
    warps: None,
    cluster: Some(ClusterLaunch {
        is_explicit: 0x36c,
        size: moving(0x2a0),
        reciprocal_size: moving(0x2b0),
        grid_size: moving(0x2c0),
        block_count: moving(0x2cc),
        aggregate_shared: moving(0x2bc),
    }),
};
