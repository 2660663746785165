//! Compares measured distances with the hardware model.
//!
//! If a pair needs more cycles on the GPU than the model requires, generated code may have hazards: the model must be changed. If a pair
//! needs fewer, the difference is a safety margin, which ptxas also keeps in some cases.

use std::collections::BTreeMap;

use oriole_hardware::{DependenceKind, Model};
use oriole_isa::{Control, Target, parse};
use oriole_sim::hazard::{HazardRegister, HazardStep};

use crate::table::{self, PairMember};

/// A pair of instructions with both figures in cycles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compared {
    pub pair: String,
    /// The ports of both instructions, by which results are grouped.
    pub ports: String,
    pub measured: u32,
    pub model: u32,
}

/// Returns every pair in a file of figures for which both the file and the model have a number.
pub fn compare(figures: &str, target: Target) -> Vec<Compared> {
    let model = Model::of(target);
    let sides = Sides::new();
    figures.lines().filter(|line| !line.starts_with('#')).filter_map(|line| compare_line(line, model, &sides)).collect()
}

/// The instructions of the tables, by name.
struct Sides {
    producers: BTreeMap<&'static str, PairMember>,
    consumers: BTreeMap<&'static str, PairMember>,
    seconds: BTreeMap<(String, &'static str), PairMember>,
    readers: BTreeMap<&'static str, PairMember>,
}

impl Sides {
    fn new() -> Self {
        let by_name = |list: Vec<PairMember>| list.into_iter().map(|access| (access.name, access)).collect();
        Sides {
            producers: by_name(table::producers()),
            consumers: by_name(table::consumers()),
            seconds: table::second_writers().into_iter().map(|access| ((access.place.file.to_string(), access.name), access)).collect(),
            readers: by_name(table::readers()),
        }
    }
}

/// Compares one line of the file.
fn compare_line(line: &str, model: &Model, sides: &Sides) -> Option<Compared> {
    let columns: Vec<&str> = line.split('\t').collect();
    let [kind, file, first, second, word, quiet, busy, ..] = columns[..] else { return None };
    let measured = quiet.parse::<u32>().ok()?.max(busy.parse().unwrap_or(0));
    let word: u32 = word.parse().ok()?;
    let (kind, first_side, second_side) = match kind {
        "raw" => (DependenceKind::Raw, sides.producers.get(first)?, sides.consumers.get(second)?),
        "waw" => (DependenceKind::Waw, sides.producers.get(first)?, sides.seconds.get(&(file.to_owned(), second))?),
        "war" => (DependenceKind::War, sides.readers.get(first)?, sides.seconds.get(&(file.to_owned(), second))?),
        _ => return None,
    };
    let place = first_side.place;
    let word = place.group_word.or(place.pointer_word).unwrap_or(word);
    let name = place.file.result(word);
    let register = register_of(&name)?;
    let first_step = step(first_side.text, &place.file.result(0), model)?;
    let seconds = [place.file.result(0), name].into_iter().filter_map(|name| step(second_side.text, &name, model));
    let (from, to) = (touches(&first_step, kind != DependenceKind::War), kind != DependenceKind::Raw);
    for second_step in seconds {
        let pairs = from.iter().filter(|touch| touch.0 == register).flat_map(|one| {
            touches(&second_step, to).into_iter().filter(|touch| touch.0 == register).map(move |two| (one.1, two.1)).collect::<Vec<_>>()
        });
        let needs = pairs.map(|(one, two)| (model.need(kind, register.file(), one, two), one, two));
        if let Some((need, one, two)) = needs.max_by_key(|(need, ..)| need.cycles) {
            if need.scoreboard {
                return None;
            }
            let port = |port: oriole_hardware::Port| port.name(register.file()).to_owned();
            return Some(Compared {
                pair: format!("{} {first} -> {second} word {word}", columns[..2].join(" ")),
                ports: format!("{} {} -> {}", columns[..2].join(" "), port(one), port(two)),
                measured,
                model: need.cycles.into(),
            });
        }
    }
    None
}

/// Returns the registers that an instruction writes or reads, with their ports.
fn touches(step: &HazardStep, written: bool) -> Vec<(HazardRegister, oriole_hardware::Port)> {
    let list = if written { step.writes.iter() } else { step.reads.iter() };
    list.map(|touch| (touch.register, touch.port)).collect()
}

/// Parses the last instruction of a row's text, with `register` for the placeholder.
fn step(text: &str, register: &str, model: &Model) -> Option<HazardStep> {
    let text = text.rsplit("&&").next()?.trim().replace("{D}", register);
    let text = ["{old}", "{new}"].iter().fold(text, |text, name| text.replace(name, "0x10"));
    let mut instruction = parse(&text).ok()?;
    instruction.control = Control::default();
    Some(HazardStep::new(&instruction, model))
}

fn register_of(name: &str) -> Option<HazardRegister> {
    use oriole_isa::RegFile;
    let files = [("UR", RegFile::Uniform), ("UP", RegFile::UniformPredicate), ("R", RegFile::General), ("P", RegFile::Predicate)];
    let (prefix, file) = files.iter().find(|(prefix, _)| name.starts_with(prefix))?;
    HazardRegister::new(*file, name[prefix.len()..].parse().ok()?)
}

/// Returns a table that compares the figures of each pair of ports.
pub fn summary(compared: &[Compared]) -> String {
    let mut by_ports: BTreeMap<&str, (u32, u32, u32, usize)> = BTreeMap::new();
    for one in compared {
        let entry = by_ports.entry(&one.ports).or_insert((one.model, u32::MAX, 0, 0));
        entry.1 = entry.1.min(one.measured);
        entry.2 = entry.2.max(one.measured);
        entry.3 += 1;
    }
    let mut text = String::from("ports                                model  measured    pairs\n");
    for (ports, (model, least, most, count)) in by_ports {
        let range = if least == most { format!("{least}") } else { format!("{least} to {most}") };
        let sign = if most > model { "  MORE THAN THE MODEL" } else { "" };
        text.push_str(&format!("{ports:<36} {model:>5}  {range:<10} {count:>6}{sign}\n"));
    }
    text
}
