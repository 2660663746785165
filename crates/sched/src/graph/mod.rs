//! The dependency graph of a region: for each item, the items that must follow it, and after how many cycles.
//!
//! **Nodes.** Nodes `0..items` are the items of the region, by position. Further nodes are *joins*: nodes without an instruction that stand
//! for the completion of a set of accesses. A join replaces the edges from each of many loads to each of many stores ([`memory`]).
//!
//! **Edges** are found in one forward pass. For each register the builder keeps the last writer and the readers since that write. A read
//! adds an edge from the writer (RAW). A write adds edges from the writer (WAW) and from every reader (WAR), then replaces the writer and
//! clears the readers. So each reader is visited once, by the next write of the register, and the cost is linear in operands and edges.
//! Transitive WAW edges across an intermediate writer are never built.
//!
//! ```text
//! 0  FADD R0, R1, R2
//! 1  FADD R3, R0, R1    0 -> 1 RAW on R0, 4 cycles
//! 2  FADD R1, R4, R5    0 -> 2 and 1 -> 2 WAR on R1
//! 3  FADD R0, R6, R7    0 -> 3 WAW on R0, 1 -> 3 WAR on R0
//! ```
//!
//! **Latencies** come from the hardware model. An edge that needs a scoreboard has the usual latency of the first instruction.
//!
//! **Order.** [`Graph::order`] is a topological order of all nodes. A join is placed right before the item that made it necessary.

mod edges;
mod memory;
mod predecessors;
mod store_clusters;

use std::ops::Range;

use oriole_hardware::{DependenceKind as Kind, Model, Port};
use oriole_isa::{Opcode, RegFile};

use crate::code::{Item, OrderEffect, PortAccess, SchedCode};
pub use edges::{Edge, EdgeKind};
use edges::{IncomingEdges, NO_INDEX};
use memory::MemoryOrder;
pub(crate) use predecessors::Predecessors;
use store_clusters::StoreClusters;

/// Assumed latency, in cycles, of a variable-latency instruction for which the model has no latency.
pub(crate) const DEFAULT_VARIABLE_LATENCY_CYCLES: u16 = 200;
/// Assumed number of cycles from the issue of an instruction until its result can be read, if the model has no latency for the ports by
/// which the register is written and read.
const DEFAULT_READ_LATENCY_CYCLES: u16 = 6;

/// The dependency graph of one region.
#[derive(Clone, Default, Debug)]
pub struct Graph {
    /// Positions in the code of the region's items.
    pub region: Range<usize>,
    /// All nodes in a topological order: each node comes after its predecessors.
    pub order: Vec<u32>,
    /// For each node, the index in `edges` of its first outgoing edge; the last element is the number of edges.
    first_edge: Vec<u32>,
    /// Outgoing edges, sorted by source node.
    edges: Vec<Edge>,
    /// For each node, the number of incoming edges.
    predecessor_counts: Vec<u32>,
    /// For each item, the number of cycles from issue until its results are ready for code after the region; see [`Graph::tail`].
    tails: Vec<u16>,
    /// For each item, the number of cycles from issue until the scheduling barrier after the region can issue; see
    /// [`Graph::barrier_latency`].
    barrier_latencies: Vec<u16>,
    /// For each item, as `tails`, but for a typical reader instead of the slowest one; see [`Graph::typical_tail`].
    typical_tails: Vec<u16>,
    /// For each item, the first cycle in which its operands from before the region are available; see [`Graph::start_cycles`].
    operand_arrivals: Vec<u32>,
}

impl Graph {
    /// Converts the collected incoming edges into a graph with outgoing edges, by a counting sort on the source node.
    fn from_incoming(incoming: &IncomingEdges, region: Range<usize>) -> Graph {
        let nodes = (incoming.items + incoming.joins) as usize;
        let mut graph = Graph { region, order: Vec::with_capacity(nodes), ..Graph::default() };
        graph.predecessor_counts = vec![0; nodes];
        let mut first_edge = vec![0_u32; nodes + 1];
        for edge in &incoming.edges {
            first_edge[edge.node as usize + 1] += 1;
        }
        for node in 0..nodes {
            first_edge[node + 1] += first_edge[node];
        }
        graph.edges = vec![Edge::default(); incoming.edges.len()];
        let mut next = first_edge.clone();
        let mut start = 0;
        for &(node, end) in &incoming.runs {
            graph.order.push(node);
            graph.predecessor_counts[node as usize] = end - start;
            for edge in &incoming.edges[start as usize..end as usize] {
                let at = &mut next[edge.node as usize];
                graph.edges[*at as usize] = Edge { node, ..*edge };
                *at += 1;
            }
            start = end;
        }
        graph.first_edge = first_edge;
        graph
    }

    /// Returns the number of items. Nodes below this number are items; all others are joins, which stand for sets of memory accesses.
    pub fn items(&self) -> usize {
        self.region.len()
    }

    /// Returns the number of nodes, joins included.
    pub fn nodes(&self) -> usize {
        self.predecessor_counts.len()
    }

    /// Returns the number of edges.
    pub(crate) fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// Returns the edges to the nodes that depend on `node`.
    pub fn successors(&self, node: u32) -> &[Edge] {
        let node = node as usize;
        &self.edges[self.first_edge[node] as usize..self.first_edge[node + 1] as usize]
    }

    /// Returns, for each node, the number of incoming edges.
    pub fn predecessor_counts(&self) -> &[u32] {
        &self.predecessor_counts
    }

    /// Returns the number of cycles from an item's issue until its results are ready for code after the region. The slowest possible reader
    /// is assumed. If an item of the region reads one of the results, only the scheduling barrier after the region counts as a reader; the
    /// number is then that of [`Graph::barrier_latency`].
    pub fn tail(&self, node: u32) -> u32 {
        self.tails[node as usize].into()
    }

    /// Returns the number of cycles as [`Graph::tail`] does, but for a typical reader instead of the slowest one. The scheduling barrier
    /// after the region counts with its actual latency. Other readers are assumed to be of the same class as the item, because dependence
    /// chains mostly continue with the same kind of instruction.
    pub(crate) fn typical_tail(&self, node: u32) -> u32 {
        self.typical_tails[node as usize].into()
    }

    /// Returns the number of cycles from an item's issue until the scheduling barrier after the region can issue, for example a branch that
    /// reads a predicate or a call that reads an argument. Returns 0 if the scheduling barrier does not read the item's results.
    pub(crate) fn barrier_latency(&self, node: u32) -> u32 {
        self.barrier_latencies[node as usize].into()
    }

    /// Returns a copy of the graph with the timing of the loop's steady state. `starts` has, for each item, the first cycle in which its
    /// operands from the previous iteration are available, and replaces the graph's own start cycles. `tails` has, for each item, the
    /// cycles from its issue until the next iteration needs its results.
    pub(crate) fn with_loop_timing(&self, starts: &[u32], tails: &[u32]) -> Graph {
        let mut graph = self.clone();
        graph.operand_arrivals = starts.to_vec();
        for (tail, &carried) in graph.tails.iter_mut().zip(tails) {
            *tail = (*tail).max(carried.min(u16::MAX.into()) as u16);
        }
        graph
    }

    /// Returns, for each node, the first cycle in which its operands from before the region are available: 0, or more if such an operand
    /// is still in flight when the region starts.
    pub(crate) fn start_cycles(&self) -> Vec<u32> {
        let mut starts = self.operand_arrivals.clone();
        starts.resize(self.nodes(), 0);
        starts
    }

    /// Returns a copy of the graph in which dependences on the results of slow items (those for which `is_slow` returns true) have `factor`
    /// times their latency.
    pub(crate) fn with_longer_latencies(&self, factor: u32, is_slow: impl Fn(u32) -> bool) -> Graph {
        let mut graph = self.clone();
        for node in (0..self.items() as u32).filter(|&node| is_slow(node)) {
            let edges = self.first_edge[node as usize] as usize..self.first_edge[node as usize + 1] as usize;
            for edge in graph.edges[edges].iter_mut().filter(|edge| edge.kind == EdgeKind::Raw) {
                edge.latency = u16::try_from(u32::from(edge.latency) * factor).unwrap_or(u16::MAX);
            }
        }
        graph
    }

    /// Returns the height of each node, in cycles: the length of the longest path from its issue to the end of the region, tails included.
    pub fn heights(&self) -> Vec<u32> {
        let mut heights = vec![0; self.nodes()];
        for &node in self.order.iter().rev() {
            let below = self.successors(node).iter().map(|edge| heights[edge.node as usize] + u32::from(edge.latency));
            let tail = self.tails.get(node as usize).copied().unwrap_or_default();
            heights[node as usize] = below.max().unwrap_or(0).max(tail.into());
        }
        heights
    }

    /// Returns the depth of each node, in cycles: the length of the longest path from the start of the region to its issue. A path may
    /// start with the wait for an operand in flight.
    pub fn depths(&self) -> Vec<u32> {
        let mut depths = self.start_cycles();
        for &node in &self.order {
            let depth = depths[node as usize];
            for edge in self.successors(node) {
                let below: &mut u32 = &mut depths[edge.node as usize];
                *below = (*below).max(depth + u32::from(edge.latency));
            }
        }
        depths
    }
}

/// The last writer of a register and its readers since then, while the items of a region are processed in order.
#[derive(Clone, Copy)]
struct RegisterHistory {
    /// The region that this state belongs to ([`GraphBuilder::stamp`]). State of an earlier region counts as empty.
    stamp: u32,
    /// Node of the item that wrote the register last; [`NO_INDEX`] if no item of the region did.
    writer: u32,
    /// Port (index into the latency grids) by which the last writer writes.
    writer_port: Option<Port>,
    /// Head of the linked list of readers since the last write: an index into [`GraphBuilder::readers`], or [`NO_INDEX`].
    first_reader: u32,
}

/// An element of the linked list of readers of a register.
#[derive(Clone, Copy)]
struct ReaderNode {
    /// Node of the item that reads the register.
    node: u32,
    /// Port (index into the latency grids) by which the item reads; `None` if it has none.
    port: Option<Port>,
    /// Index of the next reader in [`GraphBuilder::readers`], or [`NO_INDEX`].
    next: u32,
}

/// Builds dependency graphs. The tables of a builder are reused from region to region.
pub struct GraphBuilder<'m> {
    /// The latencies of the target.
    model: &'m Model,
    /// Sequence number of the current region. The state of a register with another stamp is stale, so the table need not be cleared for
    /// each region.
    stamp: u32,
    /// For each register number, the last writer and the readers since that write.
    registers: Vec<RegisterHistory>,
    /// Elements of the linked lists of readers.
    readers: Vec<ReaderNode>,
    /// Memory accesses, fences and barriers of the region so far.
    memory: MemoryOrder,
    /// The edges of the region so far.
    incoming: IncomingEdges,
}

/// Assumed number of cycles from the issue of the scheduling barrier after a region, usually a branch, until an instruction after that
/// barrier can read a result of the region.
const BARRIER_TO_READER_CYCLES: u16 = 10;

impl<'m> GraphBuilder<'m> {
    /// Creates a builder for code with `registers` different registers.
    pub fn new(model: &'m Model, registers: usize) -> GraphBuilder<'m> {
        let blank = RegisterHistory { stamp: 0, writer: NO_INDEX, writer_port: None, first_reader: NO_INDEX };
        GraphBuilder {
            model,
            stamp: 0,
            registers: vec![blank; registers],
            readers: Vec::new(),
            memory: MemoryOrder::default(),
            incoming: IncomingEdges::default(),
        }
    }

    /// Builds the graph of a region, which must not contain scheduling barriers. Assumes that no operand is in flight when the region
    /// starts.
    pub fn build(&mut self, code: &SchedCode, region: Range<usize>) -> Graph {
        self.build_with_in_flight_results(code, region, &|_| 0)
    }

    /// Builds the graph of a region, which must not contain scheduling barriers. `cycles_until_result` returns for a register the number of
    /// cycles from the start of the region until its latest result, written before the region, arrives.
    pub(crate) fn build_with_in_flight_results(
        &mut self,
        code: &SchedCode,
        region: Range<usize>,
        cycles_until_result: &impl Fn(u32) -> u32,
    ) -> Graph {
        let mut starts = Vec::with_capacity(region.len());
        self.stamp += 1;
        self.readers.clear();
        self.memory.reset();
        self.incoming.start(region.len());
        let clusters = StoreClusters::find(code, &region);
        for position in region.clone() {
            let item = &code.items[position];
            let node = (position - region.start) as u32;
            self.add_order_edges(code, &region, item, node);
            let fresh =
                |register: &PortAccess| self.is_unwritten_in_region(register.register).then(|| cycles_until_result(register.register));
            starts.push(code.reads(item).iter().chain(code.writes(item)).filter_map(fresh).max().unwrap_or(0));
            self.add_register_edges(code, &region, item, node);
            self.add_cluster_edges(code, &region, node, &clusters);
            self.incoming.finish(node);
        }
        let mut graph = Graph::from_incoming(&self.incoming, region);
        graph.operand_arrivals = starts;
        graph.barrier_latencies = self.barrier_latencies(code, &graph.region);
        graph.tails = self.tails(code, &graph);
        graph.typical_tails = self.typical_tails(code, &graph);
        graph
    }

    /// Returns, for each item, the read-after-write latency from its issue to the scheduling barrier after the region, in cycles. 0 if the
    /// scheduling barrier does not read the item's results, or if no scheduling barrier follows.
    fn barrier_latencies(&self, code: &SchedCode, region: &Range<usize>) -> Vec<u16> {
        let mut latencies = vec![0; region.len()];
        let Some(barrier) = code.items.get(region.end).filter(|item| item.effect == OrderEffect::SchedBarrier) else { return latencies };
        for access in code.reads(barrier) {
            let state = &self.registers[access.register as usize];
            if state.stamp == self.stamp && state.writer != NO_INDEX {
                let first = &code.items[region.start + state.writer as usize];
                let found = &mut latencies[state.writer as usize];
                *found = latency(self.model, Kind::Raw, access.file, (first, state.writer_port), (barrier, access.port)).0.max(*found);
            }
        }
        latencies
    }

    /// Returns the tail of each item ([`Graph::tail`]), in cycles. A result that the scheduling barrier after the region reads must be
    /// ready when the scheduling barrier issues. Any other result that leaves the region must be ready [`BARRIER_TO_READER_CYCLES`] later,
    /// because control takes that long to reach a reader.
    fn tails(&self, code: &SchedCode, graph: &Graph) -> Vec<u16> {
        let has_barrier = code.items.get(graph.region.end).is_some_and(|item| item.effect == OrderEffect::SchedBarrier);
        let tail = |(node, item): (usize, &Item)| {
            let is_read = || graph.successors(node as u32).iter().any(|edge| edge.kind == EdgeKind::Raw);
            let leaves = item.opcode.is_some() && !code.writes(item).is_empty() && !is_read();
            let latency = if leaves { self.model.base_latency(item.class) } else { 0 };
            let later = if has_barrier { latency.saturating_sub(BARRIER_TO_READER_CYCLES) } else { latency };
            later.max(graph.barrier_latencies[node])
        };
        code.items[graph.region.clone()].iter().enumerate().map(tail).collect()
    }

    /// Returns the typical tail of each item ([`Graph::typical_tail`]), in cycles. For instructions of variable latency it is the same as
    /// the tail.
    fn typical_tails(&self, code: &SchedCode, graph: &Graph) -> Vec<u16> {
        let typical = |(node, item): (usize, &Item)| {
            let tail = graph.tails[node];
            if tail == 0 || self.model.time(item.class).is_some() {
                return tail;
            }
            let of_access = |access: &PortAccess| {
                let reader = item.class.read_port(access.file, 0, 0);
                let need = access.port.zip(reader).map(|(first, second)| self.model.need(Kind::Raw, access.file, first, second));
                need.map_or(DEFAULT_READ_LATENCY_CYCLES, |need| need.cycles.into())
            };
            code.writes(item).iter().map(of_access).max().unwrap_or(0).min(tail).max(graph.barrier_latencies[node])
        };
        code.items[graph.region.clone()].iter().enumerate().map(typical).collect()
    }

    /// Returns whether no item of the current region has written a register so far.
    fn is_unwritten_in_region(&self, register: u32) -> bool {
        let state = &self.registers[register as usize];
        state.stamp != self.stamp || state.writer == NO_INDEX
    }

    /// Returns the state of a register in the current region, cleared if the state is of an earlier region.
    fn register(&mut self, register: u32) -> &mut RegisterHistory {
        let state = &mut self.registers[register as usize];
        if state.stamp != self.stamp {
            *state = RegisterHistory { stamp: self.stamp, writer: NO_INDEX, writer_port: None, first_reader: NO_INDEX };
        }
        state
    }

    /// Adds the edges of an item that follow from its registers, and updates the state of these registers.
    fn add_register_edges(&mut self, code: &SchedCode, region: &Range<usize>, item: &Item, node: u32) {
        for access in code.reads(item) {
            let state = *self.register(access.register);
            if state.writer != NO_INDEX {
                let first = &code.items[region.start + state.writer as usize];
                let (latency, scoreboard) = latency(self.model, Kind::Raw, access.file, (first, state.writer_port), (item, access.port));
                self.incoming.add(state.writer, latency, EdgeKind::Raw, scoreboard);
            }
        }
        let (results, tied) = code.results_and_tied(item);
        for access in results {
            self.add_write_edges(code, region, item, node, access);
        }
        for access in tied {
            self.add_tied_edges(code, region, item, node, access);
        }
        self.add_ordered_register_edges(code, region, item, node);
        // Reads are recorded after the writes. A source that is also a result then needs no record, because later writers have a WAW edge
        // from the instruction.
        for access in code.reads(item) {
            let latest = self.readers.len() as u32;
            let state = self.register(access.register);
            if state.writer == node {
                continue;
            }
            let next = std::mem::replace(&mut state.first_reader, latest);
            self.readers.push(ReaderNode { node, port: access.port, next });
        }
    }

    /// Adds the edges by which a store waits for the operands of later stores to the same sector.
    fn add_cluster_edges(&mut self, code: &SchedCode, region: &Range<usize>, node: u32, clusters: &StoreClusters) {
        for (operand, store) in clusters.later_operands(code, region, node) {
            let state = *self.register(operand.register);
            if state.writer == NO_INDEX || state.writer == node {
                continue;
            }
            let first = &code.items[region.start + state.writer as usize];
            let readers = (&code.items[store], operand.port);
            let (latency, _) = latency(self.model, Kind::Raw, operand.file, (first, state.writer_port), readers);
            self.incoming.add(state.writer, latency, EdgeKind::Order, false);
        }
    }

    /// Adds the edges for the ordered registers of an item ([`SchedCode::ordered_registers`]), which the item does not access, but whose
    /// accesses must not move across it. The item counts as a reader, which follows the latest writer, and as a writer, which later readers
    /// follow.
    fn add_ordered_register_edges(&mut self, code: &SchedCode, region: &Range<usize>, item: &Item, node: u32) {
        for &register in code.ordered_registers(item) {
            let access = PortAccess { register, file: RegFile::General, port: None, slot: None };
            let state = *self.register(register);
            if state.writer != NO_INDEX && state.writer != node {
                let first = &code.items[region.start + state.writer as usize];
                // A fence, and a wait that leaves matrix products running, do not wait for the latest matrix product.
                let is_running = first.opcode.is_some_and(Opcode::is_warpgroup_product) && !item.drains_products;
                let (latency, scoreboard) = match is_running {
                    true => (1, false),
                    false => latency(self.model, Kind::Raw, access.file, (first, state.writer_port), (item, None)),
                };
                self.incoming.add(state.writer, latency.max(1), EdgeKind::Order, scoreboard);
            }
            self.add_write_edges(code, region, item, node, &access);
        }
    }

    /// Adds the WAW and WAR edges of one write, and makes `node` the last writer of the register.
    fn add_write_edges(&mut self, code: &SchedCode, region: &Range<usize>, item: &Item, node: u32, access: &PortAccess) {
        let state = *self.register(access.register);
        if state.writer != NO_INDEX && state.writer != node {
            let first = &code.items[region.start + state.writer as usize];
            let (latency, scoreboard) = latency(self.model, Kind::Waw, access.file, (first, state.writer_port), (item, access.port));
            self.incoming.add(state.writer, latency.max(1), EdgeKind::Waw, scoreboard);
        }
        self.add_reader_edges(code, region, item, node, access);
        let state = self.register(access.register);
        (state.writer, state.writer_port, state.first_reader) = (node, access.port, NO_INDEX);
    }

    /// Adds the edges of a tied operand, a value whose register the item overwrites with a result. The item follows the earlier readers of
    /// the value; if one of them came later, the allocator would have to copy the value. Later readers make it copy the value in any case,
    /// so they may move across the item: it does not become the writer of the register.
    fn add_tied_edges(&mut self, code: &SchedCode, region: &Range<usize>, item: &Item, node: u32, access: &PortAccess) {
        self.add_reader_edges(code, region, item, node, access);
        self.register(access.register).first_reader = NO_INDEX;
    }

    /// Adds WAR edges from all readers of a register since its last write.
    fn add_reader_edges(&mut self, code: &SchedCode, region: &Range<usize>, item: &Item, node: u32, access: &PortAccess) {
        let mut at = self.register(access.register).first_reader;
        while at != NO_INDEX {
            let reader = self.readers[at as usize];
            if reader.node != node {
                let first = &code.items[region.start + reader.node as usize];
                let (latency, scoreboard) = latency(self.model, Kind::War, access.file, (first, reader.port), (item, access.port));
                self.incoming.add(reader.node, latency, EdgeKind::War, scoreboard);
            }
            at = reader.next;
        }
    }

    /// Adds the edges of an item that do not follow from registers, such as those between memory accesses. Must run before
    /// [`GraphBuilder::add_register_edges`], for two reasons: the recorded last writers of the address registers must be those before the
    /// item, and joins must be created before other edges are added.
    fn add_order_edges(&mut self, code: &SchedCode, region: &Range<usize>, item: &Item, node: u32) {
        if item.effect == OrderEffect::None && !item.needs_convergence {
            return;
        }
        let base = match item.effect {
            OrderEffect::Access(access) => access.address.map(|address| {
                let stamp = self.stamp;
                let registers = code.address_registers(&address).iter().map(|&register| {
                    let state = &self.registers[register as usize];
                    (register, if state.stamp == stamp { state.writer } else { NO_INDEX })
                });
                self.memory.base(address.form, registers)
            }),
            _ => None,
        };
        // The latency of an edge from a fence or barrier: its usual latency if that is variable and later accesses wait for it, otherwise
        // one cycle.
        let after_order = |node: u32| {
            let item = &code.items[region.start + node as usize];
            let is_blocking = item.opcode.is_some_and(|opcode| opcode.properties().blocks_later_accesses);
            self.model.time(item.class).filter(|_| is_blocking).map_or(1, |time| time.usual)
        };
        self.memory.add_item_edges(item, node, base, &mut self.incoming, after_order);
    }
}

/// Returns the minimum number of cycles from the issue of `first` to that of `second`, which access the same register, and whether `second`
/// waits for a scoreboard. Each of the two is an item with the port by which it accesses the register. A pseudo operation as `first` takes
/// no cycles. If a port is unknown, the result depends only on the kind of dependence and the class of the first item.
pub(crate) fn latency(
    model: &Model,
    kind: Kind,
    file: RegFile,
    first: (&Item, Option<Port>),
    second: (&Item, Option<Port>),
) -> (u16, bool) {
    let ((first, first_port), (_, second_port)) = (first, second);
    if first.opcode.is_none() {
        return (0, false);
    }
    // Warp-group matrix products with the same accumulator are queued in the tensor unit, so they need not wait for each other.
    if [first, second.0].iter().all(|item| item.opcode.is_some_and(Opcode::is_warpgroup_product)) {
        return (1, false);
    }
    let time = model.time(first.class);
    let Some((first_port, second_port)) = first_port.zip(second_port) else {
        return match kind {
            Kind::Raw => (time.map_or(model.base_latency(first.class), |time| time.usual), model.results_need_scoreboard(first.class)),
            Kind::War => (0, model.sources_need_scoreboard(first.class)),
            Kind::Waw => (1, model.results_need_scoreboard(first.class)),
        };
    };
    let need = if first.guarded {
        model.need_guarded(kind, file, first_port, second_port)
    } else {
        model.need(kind, file, first_port, second_port)
    };
    if !need.scoreboard {
        return (need.cycles.into(), false);
    }
    let usual = match (time, kind) {
        (Some(time), Kind::War) => time.read,
        (Some(time), _) => time.usual,
        (None, _) => DEFAULT_VARIABLE_LATENCY_CYCLES,
    };
    (usual.max(need.cycles.into()), true)
}

#[cfg(test)]
mod tests;
