//! Counts and prints the sources of the figures in the hardware model.

use std::collections::BTreeMap;

use oriole_hardware::tables::{FILES, KINDS};
use oriole_hardware::{Classes, Profile, SchedClass};
use oriole_sched::space::estimated_latency;

use super::columns::Columns;

/// A source of figures.
pub struct Source {
    /// The letter or name.
    pub name: String,
    /// The description.
    pub description: String,
    /// Number of figures from this source.
    pub figures: usize,
}

/// The sources of each part of the model.
pub struct Sources {
    /// Sources of the latency grids and times, by letter.
    pub latencies: Vec<Source>,
    /// Sources of the machine limits, by name.
    pub machine: Vec<Source>,
    /// Sources of the rates, by name.
    pub rates: Vec<Source>,
    /// For each class, the number of figures per source letter.
    pub classes: Vec<(SchedClass, BTreeMap<char, usize>)>,
}

/// Counts the figures of a profile by source.
pub fn count(profile: &Profile) -> Sources {
    let table = profile.model.table();
    let cells = table.grids.iter().flatten().flat_map(|grid| grid.iter().map(|(_, cell)| cell.letter()));
    let letters: Vec<String> = cells.chain(table.times.iter().map(|row| row.source)).map(String::from).collect();
    let latencies: Vec<(String, String)> = table.sources.iter().map(|(letter, text)| (letter.to_string(), (*text).to_owned())).collect();
    let names = |fields: Vec<&str>| fields.into_iter().map(str::to_owned).collect::<Vec<_>>();
    Sources {
        latencies: tally(&latencies, &letters),
        machine: tally(&profile.machine_sources, &names(profile.machine.fields().map(|field| field.source).collect())),
        rates: tally(&profile.rate_sources, &names(profile.rates.fields().map(|field| field.source).collect())),
        classes: Classes::get().all().map(|class| (class, of_class(profile, class))).collect(),
    }
}

fn tally(sources: &[(String, String)], used: &[String]) -> Vec<Source> {
    let count = |name: &str| used.iter().filter(|other| *other == name).count();
    sources.iter().map(|(name, text)| Source { name: name.clone(), description: text.clone(), figures: count(name) }).collect()
}

/// Counts the figures in which the class is the first instruction of a dependence: those for its results, its sources, and its time.
fn of_class(profile: &Profile, class: SchedClass) -> BTreeMap<char, usize> {
    let table = profile.model.table();
    let row = class.row();
    let mut letters = BTreeMap::new();
    for (kind, kind_name) in KINDS.iter().enumerate() {
        for file in 0..FILES.len() {
            let is_war = *kind_name == "war";
            let ports: Vec<u8> = if is_war { row.reads[file].concat() } else { row.writes[file].to_vec() };
            let own = table.grids[kind][file].iter().filter(|((first, _), _)| ports.contains(first));
            own.for_each(|(_, cell)| *letters.entry(cell.letter()).or_default() += 1);
        }
    }
    if let Some(time) = table.times.iter().find(|time| time.class == class.name()) {
        *letters.entry(time.source).or_default() += 1;
    }
    letters
}

/// Returns the sources as text.
pub fn text(profile: &Profile) -> String {
    let sources = count(profile);
    let mut text = format!("{}: sources\n", profile.target);
    for (heading, list) in [("Latencies and times", &sources.latencies), ("Multiprocessor", &sources.machine), ("Rates", &sources.rates)] {
        text.push_str(&format!("\n{heading}: {} figures\n", list.iter().map(|source| source.figures).sum::<usize>()));
        let mut columns = Columns::new(["source", "figures", "what it is"]);
        for source in list {
            columns.row([source.name.clone(), source.figures.to_string(), source.description.clone()]);
        }
        columns.print(&mut text);
    }
    text.push_str("\nClasses: figures by source\n");
    let mut columns = Columns::new(["class", "latency", "sources"]);
    for (class, letters) in &sources.classes {
        let list: Vec<String> = letters.iter().map(|(letter, figures)| format!("{letter} {figures}")).collect();
        let list = if list.is_empty() { "nothing is written or read late".to_owned() } else { list.join(", ") };
        let latency = estimated_latency(&profile.model, *class).map_or("?".to_owned(), |cycles| cycles.to_string());
        columns.row([class.name().to_owned(), latency, list]);
    }
    columns.print(&mut text);
    text
}
