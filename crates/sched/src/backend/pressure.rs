//! Strategy `pressure`: places each definition as close to its uses as possible.
//!
//! The region is scheduled from its end to its start. An item is ready when all items that depend on it are placed. Placing an item ends
//! the live ranges of its results and starts those of its operands, as seen from the end. The item that lowers the number of live registers
//! most wins. Of equal items, the one whose reader was placed most recently wins, so that a definition comes directly before its use, and
//! then the later item of the original order. A backward pass knows the last reader of a value when it places that reader; a forward pass
//! does not. O(n log n) for *n* items.
//!
//! The order is used if it needs fewer live registers than the original order, or as many in fewer cycles. After register allocation an
//! order cannot save registers, and the strategy schedules by the critical path.
//!
//! Example: the loads `L1` to `L4` come first, and each of `A1` to `A4` adds one loaded value to a sum.
//!
//! ```text
//! original   L1 L2 L3 L4 A1 A2 A3 A4     5 live registers
//! pressure   L1 A1 L2 A2 L3 A3 L4 A4     2 live registers
//! ```
//!
//! | topic | description of ptxas | here | why |
//! |---|---|---|---|
//! | direction | not given | backward | a definition that goes directly before its use needs a use that is placed already |
//! | cycles | ignored | break ties | of two orders with the same number of registers, the shorter one is better |

use std::collections::BTreeSet;

use super::critical_path::ByCriticalPath;
use super::depth_first::choose_fewer_registers;
use super::engine::{ProposedOrder, RegionAnalysis, engine_reasons, enter_region, run};
use super::reason::Reason;
use super::schedule::{Schedule, ScheduleDecision, SearchOutcome};
use super::strategy::{Region, RegionScheduler, Strategy};
use super::weighted::registers::{BudgetedGroups, KnownChanges, LiveRegisterCounter};
use super::weighted::view::Direction;
use crate::graph::Predecessors;
use crate::pressure::PressureTracker;

/// Numbers of ready items to compare per step: those whose reader was placed most recently, and those that are last in the original order.
const COMPARED_ITEMS_PER_QUEUE: (usize, usize) = (24, 8);

/// Places each definition as close to its uses as possible; the strategy `pressure` of the command line.
pub(super) struct PressureScheduling;

impl Strategy for PressureScheduling {
    /// Returns the name of the strategy on the command line.
    fn name(&self) -> &'static str {
        "pressure"
    }

    /// Returns the one-line description for help texts.
    fn description(&self) -> &'static str {
        "places each definition next to its uses: the fewest live registers"
    }

    /// Returns the reasons that a trace of this strategy may give for a decision.
    fn reasons(&self) -> &'static [Reason] {
        engine_reasons![Cost, DependencyCycle, MakesReady, RegisterDelta, Chain, SourceOrder]
    }

    /// Returns a function that orders the items of one region.
    fn scheduler(&self) -> RegionScheduler {
        Box::new(schedule)
    }

    /// Returns true: the strategy itself returns the original order where it finds no better one.
    fn falls_back_to_original(&self) -> bool {
        true
    }
}

/// Schedules a region by the strategy `pressure`. The tracker of live registers must be at the start of the region, and is at its end
/// afterwards.
fn schedule(region: &Region<'_>, tracker: &mut PressureTracker) -> Schedule {
    let groups = enter_region(region, tracker);
    let source = ProposedOrder::original(region, groups.as_ref(), Reason::SourceOrder);
    let new = match &groups {
        Some(groups) => backward_order(region, groups),
        None => run(&RegionAnalysis::new(region), None, &mut ByCriticalPath),
    };
    choose_fewer_registers(region, new, source).into_schedule(region, tracker, SearchOutcome::None)
}

/// Schedules a region from its end to its start, so that each definition comes close to its uses. Returns the order.
pub(super) fn backward_order(region: &Region<'_>, groups: &BudgetedGroups) -> ProposedOrder {
    let graph = region.graph;
    let nodes = graph.nodes();
    let predecessors = Predecessors::new(graph);
    let mut left: Vec<u32> = (0..nodes as u32).map(|node| graph.successors(node).len() as u32).collect();
    let mut live = LiveRegisterCounter::new(groups, Direction::Backward);
    let mut changes = KnownChanges::new(nodes);
    // Ready items, each with the step at which one of its readers was placed last. The greatest entries are compared.
    let mut by_reader: BTreeSet<(u32, u32)> = BTreeSet::new();
    let mut by_position: BTreeSet<u32> = BTreeSet::new();
    let mut reader_step = vec![0_u32; nodes];
    let mut open: Vec<u32> = (0..nodes as u32).filter(|&node| left[node as usize] == 0).collect();
    let (mut order, mut picks) = (Vec::with_capacity(graph.items()), Vec::new());
    let mut step = 0;
    loop {
        while let Some(node) = open.pop() {
            if (node as usize) < graph.items() {
                by_reader.insert((reader_step[node as usize], node));
                by_position.insert(node);
            } else {
                // A join takes no issue slot: it is placed at once, and its predecessors become ready with it.
                for &before in predecessors.of(node) {
                    reader_step[before as usize] = reader_step[before as usize].max(reader_step[node as usize]);
                    left[before as usize] -= 1;
                    if left[before as usize] == 0 {
                        open.push(before);
                    }
                }
            }
        }
        let recent = by_reader.iter().rev().take(COMPARED_ITEMS_PER_QUEUE.0).map(|&(_, node)| node);
        let late = by_position.iter().rev().take(COMPARED_ITEMS_PER_QUEUE.1).copied();
        let key = |node: u32| (-changes.of(node, &live)[0], reader_step[node as usize], node);
        let mut keys: Vec<(i32, u32, u32)> = recent.chain(late).map(key).collect();
        keys.sort_unstable();
        keys.dedup();
        let Some(&best) = keys.last() else { break };
        let node = best.2;
        if region.settings.trace {
            let second = keys.len().checked_sub(2).map(|at| keys[at]);
            let reason = match second {
                None => Reason::OnlyOne,
                Some(second) if second.0 != best.0 => Reason::RegisterDelta,
                Some(second) if second.1 != best.1 => Reason::Chain,
                Some(_) => Reason::Position,
            };
            let position = |node: u32| graph.region.start + node as usize;
            picks.push(ScheduleDecision { picked: position(node), runner_up: second.map(|second| position(second.2)), reason, cycle: 0 });
        }
        step += 1;
        by_reader.remove(&(reader_step[node as usize], node));
        by_position.remove(&node);
        changes.step(node, &mut live);
        order.push(node);
        for &before in predecessors.of(node) {
            reader_step[before as usize] = step;
            left[before as usize] -= 1;
            if left[before as usize] == 0 {
                open.push(before);
            }
        }
    }
    order.reverse();
    picks.reverse();
    let mut proposal = ProposedOrder::new(region, Some(groups), order, Reason::Position);
    for (pick, timed) in picks.iter_mut().zip(&proposal.picks) {
        pick.cycle = timed.cycle;
    }
    proposal.picks = picks;
    proposal
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::TestRegion;
    use super::super::settings::AllocationStage;
    use super::*;

    #[test]
    fn loads_move_down_to_their_readers() {
        let loads: Vec<String> = (0..6).map(|at| format!("LDS R{}, [R1+{:#x}]", 10 + at, 4 * at)).collect();
        let sums: Vec<String> = (0..6).map(|at| format!("FADD R0, R0, R{}", 10 + at)).collect();
        let lines: Vec<&str> = loads.iter().chain(&sums).map(String::as_str).collect();
        let bench = TestRegion::new(&lines);
        let (schedule, peak) = bench.run(&PressureScheduling, &[0, 1], &[0]);
        assert_eq!(schedule.order, [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11]);
        // Three registers are live: R0, R1 and one loaded value. The original order has six loaded values live.
        assert_eq!(peak, 3);
    }

    #[test]
    fn an_order_with_the_fewest_registers_is_kept() {
        let lines = ["LDS R10, [R1]", "FADD R0, R0, R10", "LDS R11, [R1+0x4]", "FADD R0, R0, R11"];
        let (schedule, _) = TestRegion::new(&lines).run(&PressureScheduling, &[0, 1], &[0]);
        assert_eq!(schedule.order, [0, 1, 2, 3]);
        assert!(schedule.picks.iter().all(|pick| pick.reason == Reason::SourceOrder));
    }

    #[test]
    fn after_allocation_the_order_minimizes_cycles() {
        let mut bench = TestRegion::new(&["LDS R10, [R1]", "FADD R0, R0, R10", "LDS R11, [R1+0x4]", "FADD R2, R2, R11"]);
        bench.settings.stage = AllocationStage::Post;
        let (schedule, _) = bench.run(&PressureScheduling, &[0, 1, 2], &[0, 2]);
        assert_eq!(schedule.order, [0, 2, 1, 3]);
    }
}
