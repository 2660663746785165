//! Stalls: cycles for everything that has a fixed latency, counted along every path.
//!
//! What lies between two instructions is the sum of the stalls on the way. Where that is too little, the stall right in front of the
//! second grows; at the start of a block it is the last of each block before. Stalls only grow, so going round until nothing changes
//! ends.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use oriole_hardware::{Kind, Model};
use oriole_isa::{Control, Opcode};

use super::touch::{REGISTERS, Touch, Touches, need};
use super::{Code, LONGEST_STALL};

/// After as many cycles nothing of fixed latency is outstanding.
const LONGEST: u32 = 40;
/// Between setting a scoreboard and waiting for it.
const SCOREBOARD_STALL: u8 = 2;

/// What was issued a short while ago: how many cycles, at least.
type State = BTreeMap<usize, u32>;

/// Lengthens stalls until all fixed latencies are kept.
pub fn settle(code: &Code<'_>, touches: &[Touches], model: &Model, controls: &mut [Control]) {
    for (control, touched) in controls.iter_mut().zip(touches) {
        control.stall = least_stall(touched, control);
    }
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); code.blocks.len()];
    for (number, block) in code.blocks.iter().enumerate() {
        for &next in &block.successors {
            before[next].push(number);
        }
    }
    let mut walker = Walker { code, touches, model, controls, before, at: vec![Vec::new(); REGISTERS], used: Vec::new() };
    let mut left: Vec<Option<State>> = vec![None; code.blocks.len()];
    let mut todo: BTreeSet<usize> = (0..code.blocks.len().min(1)).collect();
    while let Some(block) = todo.pop_first() {
        let mut entry = State::new();
        for state in walker.before[block].iter().filter_map(|&before| left[before].as_ref()) {
            merge(&mut entry, state);
        }
        let (state, grown) = walker.walk(block, &entry);
        todo.extend(grown.into_iter().filter(|&other| other == block || left[other].is_some()));
        if left[block].as_ref() != Some(&state) {
            left[block] = Some(state);
            todo.extend(&code.blocks[block].successors);
        }
    }
}

/// The least age on either path.
fn merge(into: &mut State, from: &State) {
    for (&number, &age) in from {
        let old = into.entry(number).or_insert(age);
        *old = age.min(*old);
    }
}

/// What an instruction takes whatever comes behind it.
fn least_stall(touches: &Touches, control: &Control) -> u8 {
    match touches.opcode {
        Opcode::BMOV => LONGEST_STALL,
        Opcode::BRA
        | Opcode::BRX
        | Opcode::EXIT
        | Opcode::CALL
        | Opcode::RET
        | Opcode::BSYNC
        | Opcode::BREAK
        | Opcode::WARPSYNC
        | Opcode::BPT => 5,
        Opcode::BAR | Opcode::NANOSLEEP | Opcode::YIELD => 6,
        _ if control.write_barrier.is_some() || control.read_barrier.is_some() => SCOREBOARD_STALL,
        _ => 1,
    }
}

struct Walker<'a> {
    code: &'a Code<'a>,
    touches: &'a [Touches],
    model: &'a Model,
    controls: &'a mut [Control],
    before: Vec<Vec<usize>>,
    /// For each register who touched it lately: number, touch, whether it writes, when.
    at: Vec<Vec<(usize, Touch, bool, i64)>>,
    used: Vec<u16>,
}

impl Walker<'_> {
    /// Goes through a block; what is outstanding at its end, and blocks that have to be gone through again because stalls grew.
    fn walk(&mut self, block: usize, state: &State) -> (State, Vec<usize>) {
        for register in self.used.drain(..) {
            self.at[usize::from(register)].clear();
        }
        let mut recent: BTreeMap<usize, i64> = BTreeMap::new();
        for (&number, &age) in state {
            self.launch(number, -i64::from(age));
            recent.insert(number, -i64::from(age));
        }
        let range = self.code.blocks[block].range.clone();
        let mut now: i64 = 0;
        let mut grown = Vec::new();
        for number in range.clone() {
            let (missing, first) = self.missing(number, now).max((self.unsettled(number, now, &recent), range.start));
            if missing > 0 {
                let from = if (range.start..number).contains(&first) { first } else { range.start };
                let (added, in_front) = self.lengthen(from..number, missing);
                now += added;
                grown.extend((added > in_front).then_some(block));
                if from == range.start && added < missing {
                    grown.extend(self.lengthen_before(block, missing - added));
                }
            }
            self.launch(number, now);
            recent.insert(number, now);
            now += i64::from(self.controls[number].stall);
        }
        let age = |issued: i64| (now - issued).max(0) as u32;
        let left = recent.into_iter().map(|(number, issued)| (number, age(issued))).filter(|&(_, age)| age < LONGEST).collect();
        (left, grown)
    }

    fn launch(&mut self, number: usize, issued: i64) {
        let touches = &self.touches[number];
        for (list, write) in [(&touches.reads[..], false), (&touches.writes[..], true)] {
            for &touch in list {
                self.at[usize::from(touch.register)].push((number, touch, write, issued));
                self.used.push(touch.register);
            }
        }
    }

    /// Lengthens stalls from the last of these instructions backward, as one stall may be too short; what they and what the last alone
    /// grew by.
    fn lengthen(&mut self, range: Range<usize>, missing: i64) -> (i64, i64) {
        let (mut added, mut in_front) = (0, 0);
        for number in range.clone().rev() {
            let stall = &mut self.controls[number].stall;
            let longer = (i64::from(*stall) + missing - added).min(LONGEST_STALL.into());
            added += longer - i64::from(*stall);
            *stall = longer as u8;
            if number + 1 == range.end {
                in_front = added;
            }
            if added >= missing {
                break;
            }
        }
        (added, in_front)
    }

    /// Cycles that are missing in front of an instruction, and behind which one.
    fn missing(&self, number: usize, now: i64) -> (i64, usize) {
        let touches = &self.touches[number];
        let mut missing = (0, number);
        for (list, write) in [(&touches.reads[..], false), (&touches.writes[..], true)] {
            for touch in list {
                for &(first, other, other_writes, issued) in self.at[usize::from(touch.register)].iter().rev() {
                    let elapsed = now - issued;
                    if elapsed >= i64::from(LONGEST) {
                        // Those of this block stand in the order of issue, behind those that were carried into it.
                        if issued >= 0 {
                            break;
                        }
                        continue;
                    }
                    let kind = match (other_writes, write) {
                        (true, false) => Kind::Raw,
                        (false, true) => Kind::War,
                        (true, true) => Kind::Waw,
                        (false, false) => continue,
                    };
                    let need = need(self.model, kind, touch.register, other.port, touch.port, self.touches[first].guarded);
                    missing = missing.max((i64::from(need.cycles) - elapsed, first));
                }
            }
        }
        missing
    }

    /// Cycles that are missing until everything of fixed latency is done, if what follows knows nothing of it.
    fn unsettled(&self, number: usize, now: i64, recent: &BTreeMap<usize, i64>) -> i64 {
        if !self.touches[number].settles_all {
            return 0;
        }
        let after = i64::from(self.controls[number].stall);
        let missing = |(&first, &issued): (&usize, &i64)| {
            let touches = &self.touches[first];
            if touches.writes.is_empty() { 0 } else { i64::from(self.model.longest_need(touches.class)) - after - (now - issued) }
        };
        recent.iter().rev().take(3 * LONGEST as usize).map(missing).max().unwrap_or(0)
    }

    /// Lengthens stalls at the end of every block before; those blocks.
    fn lengthen_before(&mut self, block: usize, missing: i64) -> Vec<usize> {
        let mut before = self.before[block].clone();
        before.retain(|&other| self.lengthen(self.code.blocks[other].range.clone(), missing).0 > 0);
        before
    }
}
