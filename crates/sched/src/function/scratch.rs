//! The working state with which blocks are scheduled.

use crate::backend::{CarriedEdge, RegionScheduler};
use crate::graph::GraphBuilder;
use crate::in_flight::InFlightResults;
use crate::pressure::PressureTracker;

/// Working state that is reused from block to block, to avoid allocations.
pub(super) struct BlockScratch<'a, 'm> {
    /// Builds the dependency graph of each region.
    pub(super) builder: GraphBuilder<'m>,
    /// Counts live registers while regions are scheduled.
    pub(super) tracker: PressureTracker,
    /// Schedules one region; the function that the backend provides.
    pub(super) scheduler: RegionScheduler,
    /// The results that are in flight at the current position.
    pub(super) in_flight: &'a mut InFlightResults<'m>,
    /// If the current block is a loop with a single region: its dependences on the previous iteration. Otherwise empty.
    pub(super) carried_edges: Vec<CarriedEdge>,
}
