//! The dependency graph of a region: who must come before whom, and how many cycles before.
//!
//! **Nodes** are the items of the region, by position, and *joins*: nodes without an instruction that stand for "all of these". A join
//! takes the place of the edges between every one of many loads and every one of many stores ([`memory`]).
//!
//! **Edges** are found in one walk. For each register the builder keeps the last writer and those who read since: a reader depends on the
//! writer, a writer on both, and forgets them. So a reader is looked at once by each register's next writer, and the whole costs time in
//! proportion to operands and edges. Latencies are those of the hardware model: what is waited for by scoreboard counts with its
//! usual time.
//!
//! **Order of nodes.** [`Graph::order`] lists all nodes so that every edge leads forward; joins come right before the item that made them
//! necessary.

mod memory;

use std::ops::Range;

use oriole_hardware::{Kind, Model, Port};
use oriole_isa::File;

use crate::code::{Code, Effect, Item, Touch};
use memory::MemoryOrder;

/// Why one node must come before another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum EdgeKind {
    /// The second reads what the first writes.
    Raw,
    /// The second overwrites what the first reads.
    War,
    /// Both write it.
    Waw,
    /// They may meet in memory.
    Memory,
    /// A fence, a barrier, a clock.
    Order,
}

/// An edge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Edge {
    /// The node at the other end.
    pub node: u32,
    /// Cycles from issue to issue.
    pub latency: u16,
    /// Why.
    pub kind: EdgeKind,
    /// Whether the second waits for a scoreboard.
    pub scoreboard: bool,
}

/// Cycles for what takes a time that nobody knows.
pub(crate) const UNKNOWN_CYCLES: u16 = 200;
/// Cycles until results are there for a reader of whom nothing is known.
const UNKNOWN_READER: u16 = 6;
/// No node.
const NONE: u32 = u32::MAX;

/// A dependency graph.
#[derive(Clone, Default, Debug)]
pub struct Graph {
    /// The region.
    pub region: Range<usize>,
    /// All nodes, each behind those it depends on.
    pub order: Vec<u32>,
    first: Vec<u32>,
    edges: Vec<Edge>,
    dependences: Vec<u32>,
    /// Cycles until results that nobody in the region reads are there.
    tails: Vec<u16>,
    /// Cycles until the wall behind the region can be issued, where it waits for the item.
    exits: Vec<u16>,
    /// As the tails, if those behind the region are like the items themselves.
    typical_tails: Vec<u16>,
}

impl Graph {
    /// How many items there are: the nodes below this number.
    pub fn items(&self) -> usize {
        self.region.len()
    }

    /// How many nodes there are, joins included.
    pub fn nodes(&self) -> usize {
        self.dependences.len()
    }

    /// How many edges there are.
    pub fn edge_count(&self) -> usize {
        self.edges.len()
    }

    /// Who depends on a node.
    pub fn successors(&self, node: u32) -> &[Edge] {
        let node = node as usize;
        &self.edges[self.first[node] as usize..self.first[node + 1] as usize]
    }

    /// On how many nodes each node depends.
    pub fn dependences(&self) -> &[u32] {
        &self.dependences
    }

    /// Cycles from an item's issue until its results are there, if they are for somebody behind the region.
    pub fn tail(&self, node: u32) -> u32 {
        self.tails[node as usize].into()
    }

    /// As [`Graph::tail`], which reckons with the slowest reader that there could be. Here the wall behind the region is itself, and others
    /// are taken to read as the item does: chains mostly go on as they are.
    pub fn typical_tail(&self, node: u32) -> u32 {
        self.typical_tails[node as usize].into()
    }

    /// Cycles from an item's issue until the wall behind the region can be issued: the branch that reads a predicate, the call that reads an
    /// argument. 0 if it does not read the item's results.
    pub fn exit(&self, node: u32) -> u32 {
        self.exits[node as usize].into()
    }

    /// For each node the most cycles that must pass from its issue until the last that depends on it has issued, and results that
    /// leave the region are there.
    pub fn heights(&self) -> Vec<u32> {
        let mut heights = vec![0; self.nodes()];
        for &node in self.order.iter().rev() {
            let below = self.successors(node).iter().map(|edge| heights[edge.node as usize] + u32::from(edge.latency));
            let tail = self.tails.get(node as usize).copied().unwrap_or_default();
            heights[node as usize] = below.max().unwrap_or(0).max(tail.into());
        }
        heights
    }

    /// For each node the most cycles that must pass before it can issue.
    pub fn depths(&self) -> Vec<u32> {
        let mut depths = vec![0; self.nodes()];
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

/// What is known of a register on the way through a region.
#[derive(Clone, Copy)]
struct Register {
    /// The walk that this is of.
    stamp: u32,
    writer: u32,
    writer_port: Option<Port>,
    /// The latest reader since, in [`Builder::readers`].
    reader: u32,
}

#[derive(Clone, Copy)]
struct Reader {
    node: u32,
    port: Option<Port>,
    next: u32,
}

/// Builds graphs; keeps its tables between regions.
pub struct Builder<'m> {
    model: &'m Model,
    stamp: u32,
    registers: Vec<Register>,
    readers: Vec<Reader>,
    memory: MemoryOrder,
    incoming: Incoming,
}

/// Edges that lead to nodes, in the order of the nodes' creation.
#[derive(Default)]
pub(crate) struct Incoming {
    /// `node` is where the edge comes from.
    edges: Vec<Edge>,
    /// The node that each run of edges leads to, and where the run ends.
    runs: Vec<(u32, u32)>,
    /// For each node, where in the current run an edge from it is.
    place: Vec<u32>,
    items: u32,
    joins: u32,
}

impl Incoming {
    fn start(&mut self, items: usize) {
        self.edges.clear();
        self.runs.clear();
        self.place.clear();
        self.place.resize(items, NONE);
        (self.items, self.joins) = (items as u32, 0);
    }

    fn run_start(&self) -> usize {
        self.runs.last().map_or(0, |run| run.1 as usize)
    }

    /// Adds an edge to the node that comes next; of two edges from one node the longer latency stays.
    pub(crate) fn add(&mut self, from: u32, latency: u16, kind: EdgeKind, scoreboard: bool) {
        let place = self.place[from as usize] as usize;
        if place >= self.run_start() && place < self.edges.len() && self.edges[place].node == from {
            let edge = &mut self.edges[place];
            if latency > edge.latency {
                *edge = Edge { node: from, latency, kind, scoreboard: edge.scoreboard || scoreboard };
            }
            edge.scoreboard |= scoreboard;
            return;
        }
        self.place[from as usize] = self.edges.len() as u32;
        self.edges.push(Edge { node: from, latency, kind, scoreboard });
    }

    /// A node for all of these; if there is one only, that one. Must be asked for before the edges of an item are added.
    pub(crate) fn join(&mut self, nodes: &[u32], before: Option<u32>) -> Option<u32> {
        if nodes.is_empty() {
            return before;
        }
        if let ([only], None) = (nodes, before) {
            return Some(*only);
        }
        let join = self.items + self.joins;
        self.joins += 1;
        self.place.push(NONE);
        for &node in nodes.iter().chain(&before) {
            self.add(node, 0, EdgeKind::Memory, false);
        }
        self.finish(join);
        Some(join)
    }

    fn finish(&mut self, node: u32) {
        self.runs.push((node, self.edges.len() as u32));
    }

    /// Turns the edges around.
    fn graph(&self, region: Range<usize>) -> Graph {
        let nodes = (self.items + self.joins) as usize;
        let mut graph = Graph { region, order: Vec::with_capacity(nodes), ..Graph::default() };
        graph.dependences = vec![0; nodes];
        let mut first = vec![0_u32; nodes + 1];
        for edge in &self.edges {
            first[edge.node as usize + 1] += 1;
        }
        for node in 0..nodes {
            first[node + 1] += first[node];
        }
        let blank = Edge { node: 0, latency: 0, kind: EdgeKind::Order, scoreboard: false };
        graph.edges = vec![blank; self.edges.len()];
        let mut next = first.clone();
        let mut start = 0;
        for &(node, end) in &self.runs {
            graph.order.push(node);
            graph.dependences[node as usize] = end - start;
            for edge in &self.edges[start as usize..end as usize] {
                let at = &mut next[edge.node as usize];
                graph.edges[*at as usize] = Edge { node, ..*edge };
                *at += 1;
            }
            start = end;
        }
        graph.first = first;
        graph
    }
}

/// Cycles that pass behind a wall, most often a branch, before what follows can want a result.
const WALL_CYCLES: u16 = 10;

impl<'m> Builder<'m> {
    /// A builder for code on so many registers.
    pub fn new(model: &'m Model, registers: usize) -> Builder<'m> {
        let blank = Register { stamp: 0, writer: NONE, writer_port: None, reader: NONE };
        Builder {
            model,
            stamp: 0,
            registers: vec![blank; registers],
            readers: Vec::new(),
            memory: MemoryOrder::default(),
            incoming: Incoming::default(),
        }
    }

    /// The graph of a region, which has no walls.
    pub fn build(&mut self, code: &Code, region: Range<usize>) -> Graph {
        self.stamp += 1;
        self.readers.clear();
        self.memory.start();
        self.incoming.start(region.len());
        for position in region.clone() {
            let item = &code.items[position];
            let node = (position - region.start) as u32;
            self.order(code, &region, item, node);
            self.touch(code, &region, item, node);
            self.incoming.finish(node);
        }
        let mut graph = self.incoming.graph(region);
        graph.exits = self.exits(code, &graph.region);
        graph.tails = self.tails(code, &graph);
        graph.typical_tails = self.typical_tails(code, &graph);
        graph
    }

    fn exits(&self, code: &Code, region: &Range<usize>) -> Vec<u16> {
        let mut exits = vec![0; region.len()];
        let Some(wall) = code.items.get(region.end).filter(|item| item.effect == Effect::Wall) else { return exits };
        for touch in code.reads(wall) {
            let state = &self.registers[touch.register as usize];
            if state.stamp == self.stamp && state.writer != NONE {
                let first = &code.items[region.start + state.writer as usize];
                let exit = &mut exits[state.writer as usize];
                *exit = latency(self.model, Kind::Raw, touch.file, (first, state.writer_port), (wall, touch.port)).0.max(*exit);
            }
        }
        exits
    }

    /// Results that leave the region: what the wall behind it reads, most often a branch, is wanted when that is issued, all else
    /// [`WALL_CYCLES`] later.
    fn tails(&self, code: &Code, graph: &Graph) -> Vec<u16> {
        let has_wall = code.items.get(graph.region.end).is_some_and(|item| item.effect == Effect::Wall);
        let tail = |(node, item): (usize, &Item)| {
            let is_read = || graph.successors(node as u32).iter().any(|edge| edge.kind == EdgeKind::Raw);
            let leaves = item.opcode.is_some() && !code.writes(item).is_empty() && !is_read();
            let latency = if leaves { self.model.base_latency(item.class) } else { 0 };
            let later = if has_wall { latency.saturating_sub(WALL_CYCLES) } else { latency };
            later.max(graph.exits[node])
        };
        code.items[graph.region.clone()].iter().enumerate().map(tail).collect()
    }

    fn typical_tails(&self, code: &Code, graph: &Graph) -> Vec<u16> {
        let typical = |(node, item): (usize, &Item)| {
            let tail = graph.tails[node];
            if tail == 0 || self.model.time(item.class).is_some() {
                return tail;
            }
            let of_touch = |touch: &Touch| {
                let reader = item.class.read_port(touch.file, 0, 0);
                let need = touch.port.zip(reader).map(|(first, second)| self.model.need(Kind::Raw, touch.file, first, second));
                need.map_or(UNKNOWN_READER, |need| need.cycles.into())
            };
            code.writes(item).iter().map(of_touch).max().unwrap_or(0).min(tail).max(graph.exits[node])
        };
        code.items[graph.region.clone()].iter().enumerate().map(typical).collect()
    }

    fn register(&mut self, register: u32) -> &mut Register {
        let state = &mut self.registers[register as usize];
        if state.stamp != self.stamp {
            *state = Register { stamp: self.stamp, writer: NONE, writer_port: None, reader: NONE };
        }
        state
    }

    fn touch(&mut self, code: &Code, region: &Range<usize>, item: &Item, node: u32) {
        for touch in code.reads(item) {
            let state = *self.register(touch.register);
            if state.writer != NONE {
                let first = &code.items[region.start + state.writer as usize];
                let (latency, scoreboard) = latency(self.model, Kind::Raw, touch.file, (first, state.writer_port), (item, touch.port));
                self.incoming.add(state.writer, latency, EdgeKind::Raw, scoreboard);
            }
        }
        for touch in code.writes(item) {
            self.overwrite(code, region, item, node, touch);
        }
        // Only now: an instruction reads before it writes.
        for touch in code.reads(item) {
            let latest = self.readers.len() as u32;
            let state = self.register(touch.register);
            if state.writer == node {
                continue;
            }
            let next = std::mem::replace(&mut state.reader, latest);
            self.readers.push(Reader { node, port: touch.port, next });
        }
    }

    fn overwrite(&mut self, code: &Code, region: &Range<usize>, item: &Item, node: u32, touch: &Touch) {
        let state = *self.register(touch.register);
        if state.writer != NONE && state.writer != node {
            let first = &code.items[region.start + state.writer as usize];
            let (latency, scoreboard) = latency(self.model, Kind::Waw, touch.file, (first, state.writer_port), (item, touch.port));
            self.incoming.add(state.writer, latency.max(1), EdgeKind::Waw, scoreboard);
        }
        let mut at = state.reader;
        while at != NONE {
            let reader = self.readers[at as usize];
            if reader.node != node {
                let first = &code.items[region.start + reader.node as usize];
                let (latency, scoreboard) = latency(self.model, Kind::War, touch.file, (first, reader.port), (item, touch.port));
                self.incoming.add(reader.node, latency, EdgeKind::War, scoreboard);
            }
            at = reader.next;
        }
        let state = self.register(touch.register);
        (state.writer, state.writer_port, state.reader) = (node, touch.port, NONE);
    }

    /// Edges beyond registers. Runs first, while the versions of address registers are those that the item reads and joins may be made.
    fn order(&mut self, code: &Code, region: &Range<usize>, item: &Item, node: u32) {
        if item.effect == Effect::None && !item.converged {
            return;
        }
        let base = match item.effect {
            Effect::Access(access) => access.address.map(|address| {
                let stamp = self.stamp;
                let registers = code.address_registers(&address).iter().map(|&register| {
                    let state = &self.registers[register as usize];
                    (register, if state.stamp == stamp { state.writer } else { NONE })
                });
                self.memory.base(address.form, registers)
            }),
            _ => None,
        };
        let after_order = |node: u32| {
            let class = code.items[region.start + node as usize].class;
            self.model.time(class).map_or(1, |time| time.usual)
        };
        self.memory.place(item, node, base, &mut self.incoming, after_order);
    }
}

/// Cycles between two items that meet in a register, and whether the second waits for a scoreboard.
pub(crate) fn latency(model: &Model, kind: Kind, file: File, first: (&Item, Option<Port>), second: (&Item, Option<Port>)) -> (u16, bool) {
    let ((first, first_port), (_, second_port)) = (first, second);
    if first.opcode.is_none() {
        return (0, false);
    }
    let time = model.time(first.class);
    let Some((first_port, second_port)) = first_port.zip(second_port) else {
        return match kind {
            Kind::Raw => (time.map_or(model.base_latency(first.class), |time| time.usual), model.results_wait(first.class)),
            Kind::War => (0, model.sources_wait(first.class)),
            Kind::Waw => (1, model.results_wait(first.class)),
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
        (None, _) => UNKNOWN_CYCLES,
    };
    (usual.max(need.cycles.into()), true)
}

#[cfg(test)]
mod tests;
