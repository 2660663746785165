//! Prints the hardware model as tables.

use std::fmt::Write;

use oriole_hardware::ThroughputClass;
use oriole_hardware::occupancy::{Cliff, LaunchResources};
use oriole_hardware::tables::{FILES, KINDS};
use oriole_hardware::units::Unit;
use oriole_hardware::{Classes, Profile, SchedClass};
use oriole_sched::space::{estimated_latency, is_long_latency};
use oriole_sched::{SchedDescriptor, SchedSpace};

use super::columns::Columns;

/// Block sizes in threads for which occupancy is printed.
pub const BLOCK_SIZES: [u32; 4] = [128, 256, 512, 1024];

/// Returns all tables of a target.
pub fn text(profile: &Profile) -> String {
    let mut text = format!("{}: {}\n", profile.target, profile.machine.architecture);
    machine(&mut text, profile);
    units(&mut text, profile);
    classes(&mut text, profile);
    times(&mut text, profile);
    grids(&mut text, profile);
    occupancy(&mut text, profile);
    let _ = writeln!(text, "\nSources: `oriole profile --arch {} --sources`", profile.target);
    text
}

fn machine(text: &mut String, profile: &Profile) {
    text.push_str("\nMultiprocessor\n");
    let mut columns = Columns::new(["limit", "value", "source", "meaning"]);
    for field in profile.machine.fields() {
        columns.row([field.key, field.value, field.source, field.meaning].map(str::to_owned));
    }
    columns.print(text);
}

fn units(text: &mut String, profile: &Profile) {
    text.push_str("\nUnits: the resource vector\n");
    let mut columns = Columns::new(["index", "unit", "pipe", "lanes per clock", "cycles per warp"]);
    let or_unknown = |number: Option<u32>| number.map_or("?".to_owned(), |number| number.to_string());
    for unit in Unit::ALL {
        columns.row([
            unit.index().to_string(),
            unit.name().to_owned(),
            unit.statistics_pipe().to_owned(),
            or_unknown(profile.rates.lanes(unit)),
            or_unknown(profile.rates.cycles(&profile.machine, unit)),
        ]);
    }
    columns.print(text);
    text.push_str("\nRates: lanes per clock of a multiprocessor\n");
    let mut columns = Columns::new(["work", "lanes", "source", "meaning"]);
    for field in profile.rates.fields() {
        columns.row([field.key, field.value, field.source, field.meaning].map(str::to_owned));
    }
    columns.print(text);
}

/// Returns the mnemonics of a class, with the modifiers that select it.
pub fn members(class: SchedClass) -> Vec<String> {
    let rules = Classes::get().table().rules.iter().filter(|rule| rule.class == class.index());
    rules.map(|rule| format!("{}{}", rule.mnemonic, rule.modifiers.concat())).collect()
}

/// Returns which operands of a class need scoreboards, in one word.
pub fn waits_text(profile: &Profile, class: SchedClass) -> &'static str {
    let waits = profile.model.waits(class);
    match (waits.results, waits.sources) {
        (true, true) => "both",
        (true, false) => "results",
        (false, true) => "sources",
        (false, false) => "no",
    }
}

fn classes(text: &mut String, profile: &Profile) {
    text.push_str("\nClasses: number and latency index, pipe, cycles on the unit, cycles to the result, scoreboards\n");
    let headings =
        ["class", "number", "index", "pipe", "part", "flags", "unit", "rate", "busy", "space", "latency", "long", "waits", "instructions"];
    let mut columns = Columns::new(headings);
    for class in Classes::get().all() {
        let Ok(descriptor) = SchedDescriptor::of_class(class) else { continue };
        let busy = ThroughputClass::of(class).cycles(&profile.rates, &profile.machine);
        columns.row([
            class.name().to_owned(),
            descriptor.class_number.to_string(),
            descriptor.latency_index.to_string(),
            descriptor.pipe.name().to_owned(),
            descriptor.sub_class.name().to_owned(),
            descriptor.flags.name().to_owned(),
            descriptor.unit.name().to_owned(),
            descriptor.throughput.name().to_owned(),
            busy.map_or("?".to_owned(), |cycles| cycles.to_string()),
            descriptor.space.map_or("-".to_owned(), space_name),
            estimated_latency(&profile.model, class).map_or("?".to_owned(), |cycles| cycles.to_string()),
            if is_long_latency(&profile.model, class) { "yes" } else { "no" }.to_owned(),
            waits_text(profile, class).to_owned(),
            members(class).join(" "),
        ]);
    }
    columns.print(text);
}

/// Returns the name of a memory space and whether it is hot or cold.
pub fn space_name(space: SchedSpace) -> String {
    let name = space.name();
    match (space.has_long_latency(), space.has_short_latency()) {
        (true, _) => format!("{name}, hot"),
        (_, true) => format!("{name}, cold"),
        _ => name.to_owned(),
    }
}

fn times(text: &mut String, profile: &Profile) {
    text.push_str("\nTimes of variable latencies, in cycles\n");
    let rows = &profile.model.table().times;
    if rows.is_empty() {
        text.push_str("  no figures\n");
        return;
    }
    let mut columns = Columns::new(["class", "least", "usual", "most", "sources read", "source"]);
    for row in rows.iter() {
        let figures = [row.least, row.usual, row.most, row.read].map(|figure| figure.to_string());
        columns.row([row.class.to_owned()].into_iter().chain(figures).chain([row.source.to_string()]));
    }
    columns.print(text);
}

fn grids(text: &mut String, profile: &Profile) {
    let table = Classes::get().table();
    for (kind, kind_name) in KINDS.iter().enumerate() {
        for (file, file_name) in FILES.iter().enumerate() {
            let grid = &profile.model.table().grids[kind][file];
            let (mut firsts, mut seconds): (Vec<u8>, Vec<u8>) = grid.iter().map(|(place, _)| place).unzip();
            firsts.dedup();
            seconds.sort_unstable();
            seconds.dedup();
            let _ = writeln!(text, "\nGrid {kind_name} {file_name}: cycles from row to column");
            let name = |port: u8| table.ports[file][usize::from(port)].to_owned();
            let mut columns = Columns::new([String::new()].into_iter().chain(seconds.iter().map(|&port| name(port))));
            for first in firsts {
                let figures = seconds.iter().map(|&second| grid.get(first, second).map_or("-".to_owned(), |cell| cell.to_string()));
                columns.row([name(first)].into_iter().chain(figures));
            }
            columns.print(text);
        }
    }
}

fn occupancy(text: &mut String, profile: &Profile) {
    text.push_str("\nOccupancy: the most registers of a thread, and bytes of shared memory of a block, for a number of resident blocks\n");
    let mut columns = Columns::new(["threads", "resource", "most: blocks (share of warps)"]);
    for threads in BLOCK_SIZES {
        let launch = LaunchResources { threads, ..LaunchResources::default() };
        for (resource, cliffs) in
            [("registers", launch.register_cliffs(&profile.machine)), ("shared", launch.shared_cliffs(&profile.machine))]
        {
            let line = match cliffs {
                Ok(cliffs) => cliffs.iter().map(|cliff| cliff_text(profile, *cliff)).collect::<Vec<_>>().join("  "),
                Err(refusal) => refusal.to_string(),
            };
            columns.row([threads.to_string(), resource.to_owned(), line]);
        }
    }
    columns.print(text);
}

fn cliff_text(profile: &Profile, cliff: Cliff) -> String {
    format!("{}: {} ({}%)", cliff.most, cliff.blocks, 100 * cliff.warps / profile.machine.resident_warps)
}
