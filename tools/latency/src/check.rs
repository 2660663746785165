//! Compares the hardware model with the distances between dependent instructions in ptxas' code.
//!
//! For every dependence without a scoreboard two questions are checked. (1) Does the model require more cycles than ptxas leaves? Then
//! the model's latency is too high, or the pair has a faster path. (2) If the dependence determines the stall before the instruction,
//! because it requires more than any other: is the stall exactly as long as the model says? If the stall is always longer, the model's
//! latency is too low, and code that follows the model may read a register too early.

use std::collections::BTreeMap;

use oriole_hardware::{Classes, DependenceKind, LatencyRequirement, Model, Port, SchedClass};
use oriole_isa::{AccessPlace, RegFile, Target};

use crate::code::{Run, Step};
use crate::dependence::{self, Dependence, End};
use crate::mine::kind_name;
use crate::signature::{place, signature};

/// The result of comparing the code of one target with the model.
pub struct Check {
    target: Target,
    model: &'static Model,
    pairs: u64,
    /// Number of stalls determined by one dependence, and number of those that are as long as the model says. Index 0 is for dependences on
    /// the previous instruction, 1 for others.
    decided: [u64; 2],
    decided_equal: [u64; 2],
    /// Number of longer stalls that a busy unit may explain; these are not counted above.
    crowded: [u64; 2],
    crowded_kinds: BTreeMap<String, Finding>,
    /// Dependences closer than the model requires, by description.
    too_high: BTreeMap<String, Finding>,
    unequal: BTreeMap<String, Finding>,
    /// All stalls determined by one dependence, by the classes of both instructions.
    by_class: BTreeMap<String, Finding>,
    without_scoreboard: BTreeMap<String, Finding>,
    without_port: BTreeMap<String, Finding>,
}

/// Statistics of one kind of dependence: number, histogram of distances in cycles, and the latency of the model.
#[derive(Default)]
struct Finding {
    count: u64,
    distances: BTreeMap<u32, u64>,
    need: u8,
}

impl Check {
    pub fn new(target: Target) -> Check {
        Check {
            target,
            model: Model::of(target),
            pairs: 0,
            decided: [0; 2],
            decided_equal: [0; 2],
            crowded: [0; 2],
            crowded_kinds: BTreeMap::new(),
            too_high: BTreeMap::new(),
            unequal: BTreeMap::new(),
            by_class: BTreeMap::new(),
            without_scoreboard: BTreeMap::new(),
            without_port: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, run: &Run) {
        dependence::each(run, |second, all| self.judge(all, crowded(run, second)));
    }

    /// Checks all dependences of one instruction.
    fn judge(&mut self, all: &[Dependence<'_>], crowded: bool) {
        let mut deciding: Option<(i64, &Dependence<'_>)> = None;
        let mut rivals = false;
        for found in all.iter().filter(|found| !found.barrier) {
            self.pairs += 1;
            let Some(need) = self.need(found) else {
                note(&mut self.without_port, found, 0);
                continue;
            };
            if need.scoreboard {
                note(&mut self.without_scoreboard, found, need.cycles);
                continue;
            }
            if found.cycles < u32::from(need.cycles) {
                note(&mut self.too_high, found, need.cycles);
            }
            // The required stall of the previous instruction, given the stalls before it.
            let stall = i64::from(need.cycles) - i64::from(found.cycles - found.last_stall);
            match deciding {
                Some((most, _)) if stall < most => {}
                Some((most, best)) if stall == most => rivals |= !std::ptr::eq(best.first, found.first),
                _ => (deciding, rivals) = (Some((stall, found)), false),
            }
        }
        if let Some((stall, found)) = deciding
            && stall > 1
            && !rivals
            && found.second.waits == 0
        {
            if crowded && i64::from(found.last_stall) > stall {
                self.crowded[usize::from(!found.adjacent)] += 1;
                let need = stall + i64::from(found.cycles - found.last_stall);
                note(&mut self.crowded_kinds, found, need as u8);
            } else {
                self.compare(stall, found);
            }
        }
    }

    /// Compares the stall that one dependence determines with the model.
    fn compare(&mut self, stall: i64, found: &Dependence<'_>) {
        let column = usize::from(!found.adjacent);
        self.decided[column] += 1;
        let need = stall + i64::from(found.cycles - found.last_stall);
        count(&mut self.by_class, classes(found), found.cycles, need as u8);
        if i64::from(found.last_stall) == stall {
            self.decided_equal[column] += 1;
        } else {
            note(&mut self.unequal, found, need as u8);
        }
    }

    /// Returns the latency that the model requires; `None` if the model has no port for an access.
    fn need(&self, found: &Dependence<'_>) -> Option<LatencyRequirement> {
        let file = found.first_end.access.file;
        let first = port(found.first, &found.first_end, file)?;
        let second = port(found.second, &found.second_end, file)?;
        let guarded = !found.first.instruction.guard.is_always();
        Some(match guarded {
            true => self.model.need_guarded(found.kind, file, first, second),
            false => self.model.need(found.kind, file, first, second),
        })
    }

    /// Prints the results; returns whether the model agrees with the code.
    pub fn report(&self, list: usize, least_percent: f64) -> bool {
        let share = |column: usize| 100.0 * self.decided_equal[column] as f64 / self.decided[column].max(1) as f64;
        let contradicted: u64 = self.too_high.values().map(|finding| finding.count).sum();
        println!(
            "{}: {} pairs, {contradicted} closer than the model asks for; as far apart as it says: {} of {} neighbours ({:.1}%), {} of {} others ({:.1}%)",
            self.target,
            self.pairs,
            self.decided_equal[0],
            self.decided[0],
            share(0),
            self.decided_equal[1],
            self.decided[1],
            share(1)
        );
        let all = |column: usize| 100.0 * self.decided_equal[column] as f64 / (self.decided[column] + self.crowded[column]).max(1) as f64;
        println!(
            "  left out, longer stalls with another instruction of a slow unit at most {CROWD_CYCLES} cycles before: {} and {}; with them {:.1}% and {:.1}%",
            self.crowded[0],
            self.crowded[1],
            all(0),
            all(1)
        );
        let too_low: BTreeMap<&String, &Finding> = self.by_class.iter().filter(|(_, finding)| finding.is_never_so_close()).collect();
        println!("  always farther apart than the model asks for, perhaps too low: {} kinds", too_low.len());
        for (key, finding) in too_low {
            println!("    {:6} {key}: asks for {}, found {}", finding.count, finding.need, finding.histogram());
        }
        print("too high", &self.too_high, list);
        print("decided by one dependence, but not so long", &self.unequal, list);
        print("left out for a busy unit", &self.crowded_kinds, list);
        print("the model asks for a scoreboard, none is set", &self.without_scoreboard, list);
        print("no port", &self.without_port, list);
        contradicted == 0 && share(0) >= least_percent
    }
}

/// Units that accept an instruction of a warp only every few cycles. Units with the same group name share a queue.
const SLOW_UNITS: &[(&str, &str)] =
    &[("lsu", "queue"), ("smem", "queue"), ("tex", "queue"), ("sfu", "queue"), ("mma", "mma"), ("fp64", "fp64"), ("udp", "udp")];
/// Rates of slow instructions on units that are otherwise fast.
const SLOW_RATES: &[&str] = &["imad_wide", "half_alu", "half", "r2ur", "imad"];
/// Within this number of cycles an earlier instruction may keep a unit busy.
const CROWD_CYCLES: u32 = 8;

/// Returns the slow unit or queue that an instruction uses.
fn slow_unit(step: &Step) -> Option<&'static str> {
    let class = SchedClass::of(&step.instruction);
    let unit = class.attribute("unit")?;
    let rate = class.attribute("rate")?;
    let slow = SLOW_UNITS.iter().find(|(name, _)| *name == unit).map(|(_, group)| *group);
    slow.or_else(|| SLOW_RATES.contains(&rate).then_some(unit))
}

/// Returns whether an instruction may have to wait for its unit because another instruction used the unit shortly before.
fn crowded(run: &Run, second: usize) -> bool {
    let Some(unit) = slow_unit(&run.steps[second]) else { return false };
    let mut cycles = 0;
    for step in run.steps[..second].iter().rev() {
        cycles += u32::from(step.instruction.control.stall);
        if cycles > CROWD_CYCLES {
            return false;
        }
        if slow_unit(step) == Some(unit) {
            return true;
        }
    }
    false
}

/// Returns the port of an access in the hardware model.
fn port(step: &Step, end: &End, file: RegFile) -> Option<Port> {
    let class = SchedClass::of(&step.instruction);
    let slot = usize::from(step.slot(&end.access).unwrap_or_default());
    match end.access.place {
        AccessPlace::Guard => Some(Classes::get().guard_port(file == RegFile::UniformPredicate)),
        _ if end.access.written => class.write_port(file, usize::from(end.part)),
        _ => class.read_port(file, slot, usize::from(end.part)),
    }
}

fn note(findings: &mut BTreeMap<String, Finding>, found: &Dependence<'_>, need: u8) {
    let guarded = if found.kind != DependenceKind::War && !found.first.instruction.guard.is_always() { "@" } else { "" };
    let key = format!(
        "{} {} {guarded}{} {} -> {} {}",
        kind_name(found.kind),
        found.first_end.access.file.prefix(),
        signature(&found.first.instruction),
        place(found.first, &found.first_end),
        signature(&found.second.instruction),
        place(found.second, &found.second_end)
    );
    count(findings, key, found.cycles, need);
}

fn count(findings: &mut BTreeMap<String, Finding>, key: String, cycles: u32, need: u8) {
    let finding = findings.entry(key).or_default();
    finding.count += 1;
    finding.need = need;
    *finding.distances.entry(cycles).or_default() += 1;
}

/// Returns a description of a dependence by kind, register file, and class and port of both ends.
fn classes(found: &Dependence<'_>) -> String {
    let file = found.first_end.access.file;
    let end = |step: &Step, end: &End| {
        let class = SchedClass::of(&step.instruction).name();
        match end.access.place {
            AccessPlace::Guard => format!("{class} guard"),
            _ if end.access.written => format!("{class} d.{}", end.part.min(1)),
            _ => format!("{class} s{}.{}", step.slot(&end.access).unwrap_or_default(), end.part.min(1)),
        }
    };
    let (first, second) = (end(found.first, &found.first_end), end(found.second, &found.second_end));
    format!("{} {} {first} -> {second}", kind_name(found.kind), file.prefix())
}

/// Lowest number of stalls from which on it is no coincidence that all are longer than required.
const NO_CHANCE: u64 = 8;

impl Finding {
    fn is_never_so_close(&self) -> bool {
        let least = self.distances.keys().next().copied().unwrap_or_default();
        self.count >= NO_CHANCE && least > u32::from(self.need)
    }

    fn histogram(&self) -> String {
        let entries: Vec<String> = self.distances.iter().take(6).map(|(cycles, count)| format!("{cycles}:{count}")).collect();
        entries.join(" ")
    }
}

fn print(title: &str, findings: &BTreeMap<String, Finding>, list: usize) {
    let total: u64 = findings.values().map(|finding| finding.count).sum();
    println!("  {title}: {total} in {} kinds", findings.len());
    let mut sorted: Vec<(&String, &Finding)> = findings.iter().collect();
    sorted.sort_by_key(|(key, finding)| (std::cmp::Reverse(finding.count), key.as_str()));
    for (key, finding) in sorted.into_iter().take(list) {
        println!("    {:6} {key}: asks for {}, found {}", finding.count, finding.need, finding.histogram());
    }
}
