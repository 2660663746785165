//! The reasons for which a scheduler prefers one candidate to another.

/// The comparison that decided between the scheduled instruction (the *winner*) and the second-best candidate (the *runner-up*).
///
/// Each comment starts with the backends or strategies that compare this way. Backend A is `list`, B is `weighted`, C is `tree`; the
/// priority of backend A has eight bits ([`super::list::priority`]). The variants up to `RegisterDelta`, and then `Position`, are in the
/// order in which backend A compares.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Reason {
    /// All backends: there was no other candidate.
    OnlyOne,
    /// Backends A and B, and the strategies with their own priority functions: the runner-up exceeds the register budget, or exceeds it by
    /// more.
    PressureOverflow,
    /// Backends A and C: the winner continues a batch of matrix products. Strategy `tensor`: the winner is a matrix product.
    Batch,
    /// Backend A and the strategies with their own priority functions: registers are scarce or the mode is `reduce-reg`, and the winner
    /// leaves more registers free.
    Registers,
    /// Backend A, bit 4 of the priority: the winner reads long-latency memory, and no earlier item of the region has won by this criterion.
    HotCounts,
    /// Backend A, bit 6 of the priority: the winner is control flow or a barrier, and an instruction has stalled since the previous control
    /// flow or barrier.
    YieldFlag,
    /// Backend A, bit 1 of the priority: readers of in-flight results are being drained; the winner is one that can issue without a stall
    /// and takes no register.
    Critical,
    /// Backend A, bit 2 of the priority: the winner can issue without a stall.
    StallFree,
    /// Backend A, bit 5 of the priority: the winner reads long-latency memory.
    Hot,
    /// Backend A: both candidates wait for a scoreboard, and the scoreboard of the winner was set earlier.
    BarrierGroup,
    /// Backend A: the operands of the winner are available sooner.
    LatencyCounter,
    /// Backend A, bit 7 of the priority: the winner is a `YIELD`. Compared only while some candidate accesses shared memory.
    YieldRelated,
    /// Backend A: the winner has less contention for its unit, for scoreboards and for registers.
    Contention,
    /// Backend A and the strategies with their own priority functions: the winner stalls for fewer cycles.
    Cost,
    /// Backend A: the winner has the lower earliest issue cycle.
    EarliestCycle,
    /// Backend A and the strategies with their own priority functions: the winner has the longer critical path to the end of the region.
    DependencyCycle,
    /// Backend A: the winner has the earlier deadline, the latest issue cycle that does not lengthen the region.
    Deadline,
    /// Backend A and strategy `pressure`: the winner frees more registers or takes fewer.
    RegisterDelta,
    /// Backend B: the part of the score for live registers contributed most to the winner's advantage.
    WeightedRegisters,
    /// Backend B: the part of the score for parallelism (critical path, stalls) contributed most to the winner's advantage.
    WeightedParallelism,
    /// Backend B: the part of the score for the order of the forward pass contributed most to the winner's advantage.
    WeightedForward,
    /// All backends: everything else is equal, and the winner comes first in the original order.
    Position,
    /// Backend C: the winner has the higher priority, the first key of the ordered tree.
    Priority,
    /// Backend C: the winner has the longer result latency, the second key of the ordered tree.
    ResultLatency,
    /// Backend C: the runner-up was rejected because it would stall.
    RejectedForWait,
    /// Backend C: the runner-up was rejected because it takes registers that are scarce.
    RejectedForRegisters,
    /// Backend C: the runner-up was rejected because it writes the same register as the previous instruction.
    RejectedForWrite,
    /// Backend C: all candidates were rejected, and the winner has the lowest cost.
    LeastCost,
    /// Backend C: the winner has more operands in the operand reuse cache, or fewer operands in the same register bank.
    Ports,
    /// Backend C and other strategies: no order of the region was better than the original one.
    SourceOrder,
    /// Strategy `near-source`: the order is near the original one, with the same or fewer live registers, or fewer stalls.
    NearSource,
    /// Backend C: an identical region was scheduled before, and its order was used again.
    Remembered,
    /// Strategy `busy-unit`: the order keeps the slowest unit of the region busy.
    BusyUnit,
    /// Strategies `critical-path` and `dual-issue`; after register allocation also `pressure` and `near-source`: more items become ready
    /// when the winner issues.
    MakesReady,
    /// Strategies `depth-first` and `pressure`: the neighbour of the winner in its dependency chain was placed more recently than that of
    /// the runner-up.
    Chain,
    /// Strategy `latency`: the winner has the longer memory path (sum of long latencies on a path from it to the end of the region).
    MemoryPath,
    /// Strategy `latency`: the operands of the winner are older, so another chain continues.
    Interleaved,
    /// Strategy `permutation`: the order was proved to be the shortest.
    Optimal,
    /// Strategy `permutation`: the order is the best that was found before the budget ended.
    SearchEnded,
    /// Strategy `permutation`: the region is too large to be searched.
    TooLarge,
    /// Strategy `backtracking`: the runner-up issued here at first and was taken back, because the winner led to a better order.
    TakenBack,
    /// Strategy `loop-aware`: the order has the fewest cycles per iteration in the steady state.
    LoopCarried,
    /// Strategy `tensor`: the winner accumulates into other registers than the matrix product before it.
    OtherAccumulator,
    /// Strategy `tensor`: loads are spread between the matrix products, and it is the winner's turn: a load after enough matrix products,
    /// otherwise a matrix product.
    LoadSpacing,
    /// Strategy `scoreboard`: as many results are in flight as there are scoreboards, and the runner-up would start one more.
    FewerScoreboards,
    /// Strategy `scoreboard`: the winner reads a result in flight, which frees its scoreboard.
    FreesScoreboard,
    /// Strategies `dual-issue` and `pairing`: the winner issues in the cycle of the previous instruction.
    DualIssue,
}

impl Reason {
    /// All reasons, in the order of the variants.
    #[cfg(test)]
    pub(super) const ALL: [Reason; 47] = [
        Reason::OnlyOne,
        Reason::PressureOverflow,
        Reason::Batch,
        Reason::Registers,
        Reason::HotCounts,
        Reason::YieldFlag,
        Reason::Critical,
        Reason::StallFree,
        Reason::Hot,
        Reason::BarrierGroup,
        Reason::LatencyCounter,
        Reason::YieldRelated,
        Reason::Contention,
        Reason::Cost,
        Reason::EarliestCycle,
        Reason::DependencyCycle,
        Reason::Deadline,
        Reason::RegisterDelta,
        Reason::WeightedRegisters,
        Reason::WeightedParallelism,
        Reason::WeightedForward,
        Reason::Position,
        Reason::Priority,
        Reason::ResultLatency,
        Reason::RejectedForWait,
        Reason::RejectedForRegisters,
        Reason::RejectedForWrite,
        Reason::LeastCost,
        Reason::Ports,
        Reason::SourceOrder,
        Reason::NearSource,
        Reason::Remembered,
        Reason::BusyUnit,
        Reason::MakesReady,
        Reason::Chain,
        Reason::MemoryPath,
        Reason::Interleaved,
        Reason::Optimal,
        Reason::SearchEnded,
        Reason::TooLarge,
        Reason::TakenBack,
        Reason::LoopCarried,
        Reason::OtherAccumulator,
        Reason::LoadSpacing,
        Reason::FewerScoreboards,
        Reason::FreesScoreboard,
        Reason::DualIssue,
    ];

    /// Returns the reason as text that completes the sentence "it goes first because ...".
    pub fn text(self) -> &'static str {
        match self {
            Reason::OnlyOne => "nothing else was ready",
            Reason::PressureOverflow => "the other would need more registers than there are",
            Reason::Batch => "it continues a batch of matrix products",
            Reason::Registers => "it leaves more registers free",
            Reason::HotCounts => "it starts a long way to memory",
            Reason::YieldFlag => "another warp may issue after it",
            Reason::Critical => "its scoreboard is released and it takes no register",
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
            Reason::WeightedForward => "the forward pass issued it later",
            Reason::Position => "it comes first in the source",
            Reason::Priority => "its priority is higher",
            Reason::ResultLatency => "its result takes longer",
            Reason::RejectedForWait => "the other was rejected: it would have to wait",
            Reason::RejectedForRegisters => "the other was rejected: it takes registers that are scarce",
            Reason::RejectedForWrite => "the other was rejected: it writes the register that was written just before",
            Reason::LeastCost => "all were rejected, and it costs least",
            Reason::Ports => "more of its operands are in the reuse cache, or fewer share a bank",
            Reason::SourceOrder => "no other order scored better than that of the source",
            Reason::NearSource => "this order near that of the source has few live registers or few stalls",
            Reason::Remembered => "a region that looks the same was ordered like this",
            Reason::BusyUnit => "the order keeps the slowest unit busy",
            Reason::MakesReady => "more becomes ready after it",
            Reason::Chain => "it continues the chain that was placed last",
            Reason::MemoryPath => "more memory latency depends on it",
            Reason::Interleaved => "its operands are older: the chains alternate",
            Reason::Optimal => "the search proved that no order is shorter",
            Reason::SearchEnded => "it is the best order that was found before the budget ended",
            Reason::TooLarge => "the region is too large for the search; a list schedule was used",
            Reason::TakenBack => "the other was taken back: it led to a stall",
            Reason::LoopCarried => "this order takes fewer cycles per iteration",
            Reason::OtherAccumulator => "it accumulates into other registers than the product before",
            Reason::LoadSpacing => "loads and matrix products alternate",
            Reason::FewerScoreboards => "the other would need one more scoreboard",
            Reason::FreesScoreboard => "it frees a scoreboard",
            Reason::DualIssue => "it issues together with the instruction before",
        }
    }
}
