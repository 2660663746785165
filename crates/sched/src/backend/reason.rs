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
        }
    }
}
