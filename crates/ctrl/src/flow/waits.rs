//! Who has to wait for whom.
//!
//! Forward over all paths: an instruction of variable latency is in flight from its issue on; the first on a path that reads or
//! overwrites its result waits for it, and from there on nobody on that path has to. The same holds for late reads and those who
//! overwrite the sources. Where paths meet, what may be in flight is what is in flight on either.

use std::collections::{BTreeMap, BTreeSet};

use oriole_hardware::{Kind, Model};

use super::Code;
use super::touch::{REGISTERS, Register, Touch, Touches, need};

/// What has to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Results,
    Reads,
}

/// All waits of a function: who is waited for, by whom.
#[derive(Clone, Debug, Default)]
pub struct Waits {
    pub waits: BTreeMap<(usize, Part), BTreeSet<usize>>,
}

/// What is in flight: for each instruction, whether results and reads are outstanding.
type State = BTreeMap<usize, Open>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Open {
    results: bool,
    reads: bool,
}

/// Finds all waits.
pub fn find(code: &Code<'_>, touches: &[Touches], model: &Model) -> Waits {
    let mut found = Waits::default();
    let mut entry: Vec<Option<State>> = vec![None; code.blocks.len()];
    if let Some(first) = entry.first_mut() {
        *first = Some(State::new());
    }
    let mut todo: BTreeSet<usize> = (0..code.blocks.len().min(1)).collect();
    let mut walker = Walker {
        touches,
        model,
        found: &mut found,
        writers: vec![Vec::new(); REGISTERS],
        readers: vec![Vec::new(); REGISTERS],
        used: Vec::new(),
        fences: Vec::new(),
        open: State::new(),
    };
    while let Some(block) = todo.pop_first() {
        let Some(state) = entry[block].clone() else { continue };
        let left = walker.walk(state, code.blocks[block].range.clone());
        for &next in &code.blocks[block].successors {
            let changed = match &mut entry[next] {
                slot @ None => {
                    *slot = Some(left.clone());
                    true
                }
                Some(old) => merge(old, &left),
            };
            if changed {
                todo.insert(next);
            }
        }
    }
    found
}

fn merge(into: &mut State, from: &State) -> bool {
    let mut changed = false;
    for (&number, open) in from {
        let old = into.entry(number).or_insert(Open { results: false, reads: false });
        let new = Open { results: old.results || open.results, reads: old.reads || open.reads };
        changed |= new != *old;
        *old = new;
    }
    changed
}

struct Walker<'a> {
    touches: &'a [Touches],
    model: &'a Model,
    found: &'a mut Waits,
    /// For each register whose result in it is outstanding, and who is still to read it.
    writers: Vec<Vec<(usize, Touch)>>,
    readers: Vec<Vec<(usize, Touch)>>,
    used: Vec<Register>,
    /// Those that the next instruction has to wait for.
    fences: Vec<usize>,
    open: State,
}

impl Walker<'_> {
    fn walk(&mut self, state: State, range: std::ops::Range<usize>) -> State {
        self.open = State::new();
        self.fences.clear();
        for register in self.used.drain(..) {
            self.writers[usize::from(register)].clear();
            self.readers[usize::from(register)].clear();
        }
        for (number, open) in state {
            self.launch(number, open, false);
        }
        for number in range {
            self.issue(number);
        }
        self.drop_superseded();
        std::mem::take(&mut self.open)
    }

    /// Puts an instruction in flight. Those of one queue read in order, so the newest reader of a register stands for the older ones.
    fn launch(&mut self, number: usize, open: Open, is_newest: bool) {
        if !open.results && !open.reads {
            return;
        }
        let touches = &self.touches[number];
        for &touch in touches.writes.iter().filter(|_| open.results) {
            self.writers[usize::from(touch.register)].push((number, touch));
            self.used.push(touch.register);
        }
        for &touch in touches.reads.iter().filter(|_| open.reads) {
            let readers = &mut self.readers[usize::from(touch.register)];
            if let Some(queue) = touches.class.queue().filter(|_| is_newest) {
                readers.retain(|&(other, _)| self.touches[other].class.queue() != Some(queue));
            }
            readers.push((number, touch));
            self.used.push(touch.register);
        }
        self.fences.extend(touches.is_fence.then_some(number));
        self.open.insert(number, open);
    }

    /// Reads that a newer one stands for are no longer open.
    fn drop_superseded(&mut self) {
        let alive: BTreeSet<usize> =
            self.used.iter().flat_map(|&register| self.readers[usize::from(register)].iter().map(|&(number, _)| number)).collect();
        self.open.retain(|number, open| {
            open.reads &= alive.contains(number) || self.touches[*number].is_fence;
            open.results || open.reads
        });
    }

    fn issue(&mut self, number: usize) {
        let touches = &self.touches[number];
        if touches.settles_all {
            for (first, open) in self.open.clone() {
                self.wait(first, if open.results { Part::Results } else { Part::Reads }, number);
            }
        }
        for fence in std::mem::take(&mut self.fences) {
            self.wait(fence, Part::Results, number);
            self.wait(fence, Part::Reads, number);
        }
        for touch in &touches.reads {
            self.meet(number, *touch, Kind::Raw);
        }
        for touch in &touches.writes {
            self.meet(number, *touch, Kind::Waw);
            self.meet(number, *touch, Kind::War);
        }
        self.launch(number, Open { results: touches.announces_results(), reads: touches.announces_reads() }, true);
    }

    /// Holds an access against those in flight that touch its register.
    fn meet(&mut self, number: usize, touch: Touch, kind: Kind) {
        let at = usize::from(touch.register);
        let list = std::mem::take(if kind == Kind::War { &mut self.readers[at] } else { &mut self.writers[at] });
        let mut kept = Vec::new();
        for (first, other) in list {
            let open = self.open.get(&first).is_some_and(|open| if kind == Kind::War { open.reads } else { open.results });
            if !open {
                continue;
            }
            if self.has_to_wait(first, number, kind, touch.register, other, touch) {
                self.wait(first, if kind == Kind::War { Part::Reads } else { Part::Results }, number);
            } else if kind == Kind::Raw {
                kept.push((first, other));
            }
        }
        *(if kind == Kind::War { &mut self.readers[at] } else { &mut self.writers[at] }) = kept;
    }

    fn has_to_wait(&self, first: usize, second: usize, kind: Kind, register: Register, one: Touch, two: Touch) -> bool {
        let (before, after) = (&self.touches[first], &self.touches[second]);
        let in_order = match kind {
            Kind::Waw => before.class.order().is_some() && before.class.order() == after.class.order(),
            Kind::War => before.class.queue().is_some() && before.class.queue() == after.class.queue(),
            Kind::Raw => false,
        };
        !in_order && need(self.model, kind, register, one.port, two.port, before.guarded).scoreboard
    }

    /// The second waits for a part of the first.
    fn wait(&mut self, first: usize, part: Part, second: usize) {
        let Some(open) = self.open.get_mut(&first) else { return };
        match part {
            Part::Results if open.results => *open = Open { results: false, reads: false },
            Part::Reads if open.reads => open.reads = false,
            _ => return,
        }
        if !open.results && !open.reads {
            self.open.remove(&first);
        }
        self.found.waits.entry((first, part)).or_default().insert(second);
    }
}
