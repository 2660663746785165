//! Why an instruction was picked.

/// The comparison that decides, in the order in which they are made.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// Nobody else was ready.
    OnlyOne,
    /// The other would need more registers than there are.
    PressureOverflow,
    /// It continues a batch.
    Batch,
    /// It leaves more registers free.
    Registers,
    /// Bit 4.
    HotCounts,
    /// Bit 6.
    YieldFlag,
    /// Bit 1.
    Critical,
    /// Bit 2.
    StallFree,
    /// Bit 5.
    Hot,
    /// It waits for an older scoreboard.
    BarrierGroup,
    /// Its operands come sooner.
    LatencyCounter,
    /// Bit 7, where shared memory is accessed.
    YieldRelated,
    /// Its unit is less busy, scoreboards are left, registers suffice.
    Contention,
    /// It waits less.
    Cost,
    /// It can be issued earlier.
    EarliestCycle,
    /// More cycles depend on it.
    DependencyCycle,
    /// It must be issued earlier.
    Deadline,
    /// It changes the number of live registers for the better.
    RegisterDelta,
    /// B: what it does for registers gave it the higher score.
    WeightedRegisters,
    /// B: what it does for parallelism did.
    WeightedParallelism,
    /// B: its place in the forward order did.
    WeightedForward,
    /// It comes first in the source.
    Position,
    /// The first key of the tree: its priority is higher.
    Priority,
    /// The second key of the tree: its result takes longer.
    ResultLatency,
    /// The other was rejected: it would have to wait.
    RejectedForWait,
    /// The other was rejected: it would take registers that are scarce.
    RejectedForRegisters,
    /// The other was rejected: it writes what the instruction before writes.
    RejectedForWrite,
    /// All were rejected; it costs least.
    LeastCost,
    /// More of its operands are in the reuse cache, or fewer of them share a bank.
    Ports,
    /// No other order of the region scored better than that of the source.
    SourceOrder,
    /// A region that looks the same was ordered like this.
    Remembered,
}

impl Reason {
    /// What it means, in a few words that complete "it goes first because".
    pub fn text(self) -> &'static str {
        match self {
            Reason::OnlyOne => "nothing else was ready",
            Reason::PressureOverflow => "the other would need more registers than there are",
            Reason::Batch => "it continues a batch of matrix products",
            Reason::Registers => "it leaves more registers free",
            Reason::HotCounts => "it starts a long way to memory",
            Reason::YieldFlag => "others of the multiprocessor may have their turn behind it",
            Reason::Critical => "it belongs to those who wait for a scoreboard that is released",
            Reason::StallFree => "it can be issued without a stall",
            Reason::Hot => "it reads far memory",
            Reason::BarrierGroup => "it waits for an older scoreboard",
            Reason::LatencyCounter => "its operands are there sooner",
            Reason::YieldRelated => "it lets others have their turn",
            Reason::Contention => "its unit is less busy, or scoreboards and registers are left",
            Reason::Cost => "it waits less",
            Reason::EarliestCycle => "it can be issued earlier",
            Reason::DependencyCycle => "more cycles depend on it",
            Reason::Deadline => "it must be issued earlier",
            Reason::RegisterDelta => "it changes the number of live registers for the better",
            Reason::WeightedRegisters => "registers weigh in its favour",
            Reason::WeightedParallelism => "parallelism weighs in its favour",
            Reason::WeightedForward => "the forward pass speaks for it",
            Reason::Position => "it comes first in the source",
            Reason::Priority => "its priority is higher",
            Reason::ResultLatency => "its result takes longer",
            Reason::RejectedForWait => "the other was rejected: it would have to wait",
            Reason::RejectedForRegisters => "the other was rejected: it takes registers that are scarce",
            Reason::RejectedForWrite => "the other was rejected: it writes the register that was written just before",
            Reason::LeastCost => "all were rejected, and it costs least",
            Reason::Ports => "more of its operands are in the reuse cache, or fewer share a bank",
            Reason::SourceOrder => "no other order scored better than that of the source",
            Reason::Remembered => "a region that looks the same was ordered like this",
        }
    }
}
