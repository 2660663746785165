//! What the driver puts into constant bank 0 at a launch, beside the parameters: sizes of grid, block and cluster, shared memory,
//! environment registers. Offsets were read from what ptxas 13.0.88 makes of every special register, for each target.

use crate::target::Target;

/// Where a word of the launch is in constant bank 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LaunchWord {
    /// At a fixed offset.
    At(u32),
    /// At an offset less `step` times what `SR_CgaSize` says.
    PerClusterSize {
        /// The offset.
        offset: u32,
        /// What is subtracted for each unit of the special register.
        step: u32,
    },
}

impl LaunchWord {
    /// The word some bytes further on.
    #[must_use]
    pub fn plus(self, bytes: u32) -> LaunchWord {
        match self {
            LaunchWord::At(offset) => LaunchWord::At(offset + bytes),
            LaunchWord::PerClusterSize { offset, step } => LaunchWord::PerClusterSize { offset: offset + bytes, step },
        }
    }
}

/// The layout of a launch in constant bank 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Launch {
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
    /// Bytes of shared memory that the system reserves, to be subtracted from `SR_SMEMSZ`; none where nothing is.
    pub reserved_shared_size: Option<u32>,
    /// Where the system's part of shared memory is; none where there is none.
    pub reserved_shared: Option<ReservedShared>,
    /// `%envreg0` and those after it, up to [`Launch::LATE_ENVIRONMENT`].
    environment: LaunchWord,
    /// The environment registers from there on, as if the first were here.
    late_environment: u32,
    /// `%nwarpid` where it is fixed; elsewhere `SR_VIRTCFG` tells.
    pub warps: Option<u32>,
    /// Words about clusters; none where there are no clusters.
    pub cluster: Option<ClusterLaunch>,
}

/// The system's part of shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReservedShared {
    /// Behind what the block uses.
    AtEnd {
        /// `%reserved_smem_offset_end`.
        end: u32,
        /// `%reserved_smem_offset_1`.
        second: u32,
    },
    /// In front of what the block uses.
    AtStart {
        /// `%reserved_smem_offset_0`, a fixed number.
        first: u32,
        /// `%reserved_smem_offset_cap`, a fixed number.
        capacity: u32,
        /// `%reserved_smem_offset_end`.
        end: LaunchWord,
        /// `%reserved_smem_offset_1`.
        second: LaunchWord,
    },
}

impl ReservedShared {
    /// `%reserved_smem_offset_end`.
    pub fn end(self) -> LaunchWord {
        match self {
            ReservedShared::AtEnd { end, .. } => LaunchWord::At(end),
            ReservedShared::AtStart { end, .. } => end,
        }
    }

    /// `%reserved_smem_offset_1`.
    pub fn second(self) -> LaunchWord {
        match self {
            ReservedShared::AtEnd { second, .. } => LaunchWord::At(second),
            ReservedShared::AtStart { second, .. } => second,
        }
    }
}

/// Words about clusters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterLaunch {
    /// 1 if the launch names a size of clusters.
    pub is_explicit: u32,
    /// `%cluster_nctaid`: three words.
    pub size: LaunchWord,
    /// One over each of them, as f32.
    pub reciprocal_size: LaunchWord,
    /// `%nclusterid`: three words.
    pub grid_size: LaunchWord,
    /// `%cluster_nctarank`.
    pub block_count: LaunchWord,
    /// The most that `%aggr_smem_size` is.
    pub aggregate_shared: LaunchWord,
}

impl Launch {
    const LATE_ENVIRONMENT: u32 = 16;

    /// `%envreg` of a number.
    pub fn environment(&self, number: u32) -> LaunchWord {
        if number < Launch::LATE_ENVIRONMENT {
            return self.environment.plus(4 * number);
        }
        LaunchWord::At(self.late_environment + 4 * number)
    }
}

const TURING: Launch = Launch {
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

const VOLTA: Launch = Launch { warps: Some(64), ..TURING };

const AMPERE: Launch = Launch {
    graph: 0x130,
    reserved_shared_size: Some(0x114),
    reserved_shared: Some(ReservedShared::AtEnd { end: 0x120, second: 0x124 }),
    warps: Some(64),
    ..TURING
};

const SMALL_AMPERE: Launch = Launch { warps: Some(48), ..AMPERE };

const HOPPER: Launch = Launch {
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

const fn moving(offset: u32) -> LaunchWord {
    LaunchWord::PerClusterSize { offset, step: 0xa0 }
}

const BLACKWELL: Launch = Launch {
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

impl Target {
    /// What the driver puts into constant bank 0 at a launch.
    pub fn launch(self) -> &'static Launch {
        match self.number() {
            ..75 => &VOLTA,
            75..80 => &TURING,
            80..86 => &AMPERE,
            86..90 => &SMALL_AMPERE,
            90..100 => &HOPPER,
            _ => &BLACKWELL,
        }
    }
}
