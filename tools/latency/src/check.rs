//! The hardware model against the distances in code of ptxas.
//!
//! Two questions for every dependence that no scoreboard settles. Does the model ask for more cycles than ptxas leaves? Then its figure
//! is too high, or the pair has a path of its own. And where nothing but this dependence explains a stall: is it exactly what the model
//! asks for?

use std::collections::BTreeMap;

use oriole_hardware::{Class, Classes, Kind, Model, Need, Port};
use oriole_isa::{AccessPlace, File, Target};

use crate::code::{Run, Step};
use crate::dependence::{self, Dependence, End};
use crate::mine::kind_name;
use crate::signature::{place, signature};

pub struct Check {
    target: Target,
    model: &'static Model,
    pairs: u64,
    tight: u64,
    tight_equal: u64,
    /// By description: how often, the least distance, what the model asks for.
    too_high: BTreeMap<String, Finding>,
    unequal: BTreeMap<String, Finding>,
    without_scoreboard: BTreeMap<String, Finding>,
    without_port: BTreeMap<String, Finding>,
}

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
            tight: 0,
            tight_equal: 0,
            too_high: BTreeMap::new(),
            unequal: BTreeMap::new(),
            without_scoreboard: BTreeMap::new(),
            without_port: BTreeMap::new(),
        }
    }

    pub fn add(&mut self, run: &Run) {
        dependence::each(run, |found| self.judge(found));
    }

    fn judge(&mut self, found: &Dependence<'_>) {
        if found.barrier {
            return;
        }
        self.pairs += 1;
        let Some(need) = self.need(found) else {
            note(&mut self.without_port, found, 0);
            return;
        };
        if need.scoreboard {
            note(&mut self.without_scoreboard, found, need.cycles);
            return;
        }
        if found.cycles < u32::from(need.cycles) {
            note(&mut self.too_high, found, need.cycles);
        }
        if found.tight {
            self.tight += 1;
            if found.cycles == u32::from(need.cycles) {
                self.tight_equal += 1;
            } else {
                note(&mut self.unequal, found, need.cycles);
            }
        }
    }

    fn need(&self, found: &Dependence<'_>) -> Option<Need> {
        let file = found.first_end.access.file;
        let first = port(found.first, &found.first_end, file)?;
        let second = port(found.second, &found.second_end, file)?;
        let guarded = !found.first.instruction.guard.is_always();
        Some(match guarded {
            true => self.model.need_guarded(found.kind, file, first, second),
            false => self.model.need(found.kind, file, first, second),
        })
    }

    /// Prints what was found; whether the model holds.
    pub fn report(&self, list: usize, least_percent: f64) -> bool {
        let share = 100.0 * self.tight_equal as f64 / self.tight.max(1) as f64;
        let contradicted: u64 = self.too_high.values().map(|finding| finding.count).sum();
        println!(
            "{}: {} pairs, {contradicted} closer than the model asks for; {} tight, {} as far apart as it says ({share:.1}%)",
            self.target, self.pairs, self.tight, self.tight_equal
        );
        print("too high", &self.too_high, list);
        print("tight but unequal", &self.unequal, list);
        print("the model asks for a scoreboard, none is set", &self.without_scoreboard, list);
        print("no port", &self.without_port, list);
        contradicted == 0 && share >= least_percent
    }
}

fn port(step: &Step, end: &End, file: File) -> Option<Port> {
    let class = Class::of(&step.instruction);
    let slot = usize::from(step.slot(&end.access).unwrap_or_default());
    match end.access.place {
        AccessPlace::Guard => Some(Classes::get().guard_port(file == File::UniformPredicate)),
        _ if end.access.written => class.write_port(file, usize::from(end.part)),
        _ => class.read_port(file, slot, usize::from(end.part)),
    }
}

fn note(findings: &mut BTreeMap<String, Finding>, found: &Dependence<'_>, need: u8) {
    let guarded = if found.kind != Kind::War && !found.first.instruction.guard.is_always() { "@" } else { "" };
    let key = format!(
        "{} {} {guarded}{} {} -> {} {}",
        kind_name(found.kind),
        found.first_end.access.file.prefix(),
        signature(&found.first.instruction),
        place(found.first, &found.first_end),
        signature(&found.second.instruction),
        place(found.second, &found.second_end)
    );
    let finding = findings.entry(key).or_default();
    finding.count += 1;
    finding.need = need;
    *finding.distances.entry(found.cycles).or_default() += 1;
}

fn print(title: &str, findings: &BTreeMap<String, Finding>, list: usize) {
    let total: u64 = findings.values().map(|finding| finding.count).sum();
    println!("  {title}: {total} in {} kinds", findings.len());
    let mut sorted: Vec<(&String, &Finding)> = findings.iter().collect();
    sorted.sort_by_key(|(key, finding)| (std::cmp::Reverse(finding.count), key.as_str()));
    for (key, finding) in sorted.into_iter().take(list) {
        let distances: Vec<String> = finding.distances.iter().take(6).map(|(cycles, count)| format!("{cycles}:{count}")).collect();
        println!("    {:6} {key}: asks for {}, found {}", finding.count, finding.need, distances.join(" "));
    }
}
