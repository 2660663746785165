//! Prints the hardware model as JSON.

use oriole_hardware::ThroughputClass;
use oriole_hardware::machine::MachineFact;
use oriole_hardware::occupancy::{Cliff, LaunchResources};
use oriole_hardware::tables::{Cell, FILES, KINDS};
use oriole_hardware::units::Unit;
use oriole_hardware::{Classes, Profile, SchedClass};
use oriole_sched::SchedDescriptor;
use oriole_sched::space::{estimated_latency, is_long_latency};
use serde_json::{Map, Value, json};

use super::sources::{Source, count};
use super::tables::{BLOCK_SIZES, members};

/// Returns the model of a target as JSON.
pub fn profile(profile: &Profile) -> String {
    let times: Vec<Value> = profile
        .model
        .table()
        .times
        .iter()
        .map(|row| {
            json!({ "class": row.class, "least": row.least, "usual": row.usual, "most": row.most, "read": row.read,
                    "source": row.source.to_string() })
        })
        .collect();
    let value = json!({
        "target": profile.target.to_string(),
        "machine": facts(profile.machine.fields()),
        "rates": facts(profile.rates.fields()),
        "units": Unit::ALL.map(|unit| json!({
            "index": unit.index(),
            "name": unit.name(),
            "pipe": unit.statistics_pipe(),
            "lanes_per_clock": profile.rates.lanes(unit),
            "cycles_per_warp": profile.rates.cycles(&profile.machine, unit),
        })),
        "classes": Classes::get().all().map(|class| class_value(profile, class)).collect::<Vec<_>>(),
        "times": times,
        "grids": grids(profile),
        "occupancy": BLOCK_SIZES.map(|threads| cliffs(profile, threads)),
    });
    format!("{value:#}\n")
}

/// Returns the sources of the figures as JSON.
pub fn sources(profile: &Profile) -> String {
    let found = count(profile);
    let list = |sources: &[Source]| -> Vec<Value> {
        let value = |source: &Source| json!({ "source": source.name, "figures": source.figures, "description": source.description });
        sources.iter().map(value).collect()
    };
    let classes: Map<String, Value> = found
        .classes
        .iter()
        .map(|(class, letters)| {
            let letters: Map<String, Value> = letters.iter().map(|(letter, figures)| (letter.to_string(), json!(figures))).collect();
            (class.name().to_owned(), Value::Object(letters))
        })
        .collect();
    let value = json!({
        "target": profile.target.to_string(),
        "latencies": list(&found.latencies),
        "machine": list(&found.machine),
        "rates": list(&found.rates),
        "classes": classes,
    });
    format!("{value:#}\n")
}

fn facts(fields: impl Iterator<Item = MachineFact>) -> Map<String, Value> {
    fields.map(|field| (field.key.to_owned(), json!({ "value": field.value, "source": field.source, "meaning": field.meaning }))).collect()
}

/// Returns an instruction class as JSON.
fn class_value(profile: &Profile, class: SchedClass) -> Value {
    let waits = profile.model.waits(class);
    let Ok(descriptor) = SchedDescriptor::of_class(class) else { return Value::Null };
    json!({
        "name": class.name(),
        "number": descriptor.class_number,
        "latency_index": descriptor.latency_index,
        "pipe": descriptor.pipe.name(),
        "sub_class": descriptor.sub_class.name(),
        "flags": descriptor.flags.name(),
        "descriptor": format!("{:#013x}", descriptor.pack().0),
        "unit": descriptor.unit.name(),
        "rate": descriptor.throughput.name(),
        "busy_cycles": ThroughputClass::of(class).cycles(&profile.rates, &profile.machine),
        "space": descriptor.space.map(|space| json!({ "name": space.name(), "code": space.code(),
            "hot": space.has_long_latency(), "cold": space.has_short_latency() })),
        "latency": estimated_latency(&profile.model, class),
        "long_latency": is_long_latency(&profile.model, class),
        "results_wait": waits.results,
        "sources_wait": waits.sources,
        "instructions": members(class),
    })
}

/// Returns all latency grids as JSON.
fn grids(profile: &Profile) -> Vec<Value> {
    let table = Classes::get().table();
    let mut grids = Vec::new();
    for (kind, kind_name) in KINDS.iter().enumerate() {
        for (file, file_name) in FILES.iter().enumerate() {
            let cells: Vec<_> = profile.model.table().grids[kind][file].iter().collect();
            let name = |port: u8| table.ports[file][usize::from(port)].to_owned();
            let row = |row: &[((u8, u8), Cell)]| -> Map<String, Value> {
                let cell = |&((_, second), cell): &((u8, u8), Cell)| {
                    let value = json!({ "cycles": cell.cycles, "guarded": cell.guarded, "scoreboard": cell.scoreboard,
                        "source": cell.letter().to_string() });
                    (name(second), value)
                };
                row.iter().map(cell).collect()
            };
            let rows: Map<String, Value> =
                cells.chunk_by(|a, b| a.0.0 == b.0.0).map(|cells| (name(cells[0].0.0), Value::Object(row(cells)))).collect();
            grids.push(json!({ "kind": kind_name, "file": file_name, "rows": rows }));
        }
    }
    grids
}

fn cliffs(profile: &Profile, threads: u32) -> Value {
    let launch = LaunchResources { threads, ..LaunchResources::default() };
    let list = |cliffs: Vec<Cliff>| -> Vec<Value> {
        cliffs.iter().map(|cliff| json!({ "most": cliff.most, "blocks": cliff.blocks, "warps": cliff.warps })).collect()
    };
    json!({
        "threads": threads,
        "registers": launch.register_cliffs(&profile.machine).map(list).unwrap_or_default(),
        "shared": launch.shared_cliffs(&profile.machine).map(list).unwrap_or_default(),
    })
}
