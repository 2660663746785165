//! Reads samples of a profiler, and puts them next to the prediction.
//!
//! Two formats are read. The first is the CSV that Nsight Compute prints for the machine code of a report
//! (`ncu --import REPORT --page source --print-source sass --csv`): a line `"Kernel Name",NAME` for each kernel, a line with the names of the
//! columns, and a line for each instruction. Addresses there are those of the GPU; the lowest one is the start of the kernel. The second is
//! text with tabs, for samples of other profilers such as CUPTI: `FUNCTION  OFFSET  SAMPLES  [REASON]` in each line, where OFFSET is
//! hexadecimal from the start of the function, and lines that start with `#` are comments.

use std::collections::BTreeMap;

use crate::model::{Explanation, Function, Measured, SampleReason};

/// The samples of a file: for each function the samples at its offsets.
pub type Samples = BTreeMap<String, BTreeMap<u64, Measured>>;

/// Column of Nsight Compute with all samples of an instruction.
const ALL_SAMPLES: &str = "Warp Stall Sampling (All Samples)";
/// Prefix of the columns with samples by reason, and suffix of those that count only cycles without an issue.
const REASON_PREFIX: &str = "stall_";
const NOT_ISSUED: &str = "_not_issued";

/// Reads a file. The error is a message with the number of the line.
pub fn read(text: &str) -> Result<Samples, String> {
    let samples = if text.lines().any(|line| line.contains(ALL_SAMPLES)) { read_csv(text)? } else { read_tabs(text)? };
    if samples.values().all(BTreeMap::is_empty) {
        return Err(format!("there are no samples: neither a column `{ALL_SAMPLES}` nor lines of function, offset and samples"));
    }
    Ok(samples)
}

/// Adds the samples to an explanation. Fails if the file has samples at addresses that are no instructions of the function, which means that
/// other code was measured.
pub fn overlay(explanation: &mut Explanation, samples: &Samples) -> Result<(), String> {
    let mut is_used = false;
    let only = if let [_] = explanation.functions.as_slice() { samples.get("") } else { None };
    for function in &mut explanation.functions {
        let named = || samples.iter().find(|(name, _)| is_mangled(&function.name, name)).map(|(_, found)| found);
        let Some(found) = samples.get(&function.name).or_else(named).or(only) else { continue };
        is_used = true;
        overlay_function(function, found)?;
    }
    if is_used {
        return Ok(());
    }
    let names: Vec<&str> = samples.keys().map(String::as_str).collect();
    Err(format!("the samples are of other functions: {}", names.join(", ")))
}

/// Returns whether a mangled C++ name contains a name as a profiler prints it, such as `_ZN1a4deepEPii` for `a::deep<int>`.
fn is_mangled(mangled: &str, name: &str) -> bool {
    let plain = name.split('<').next().unwrap_or_default();
    let plain = plain.rsplit([':', ' ']).next().unwrap_or_default();
    mangled.starts_with("_Z") && !plain.is_empty() && mangled.contains(&format!("{}{plain}", plain.len()))
}

fn overlay_function(function: &mut Function, found: &BTreeMap<u64, Measured>) -> Result<(), String> {
    for (&offset, measured) in found.iter().filter(|(_, measured)| measured.samples > 0) {
        let place = function.instructions.binary_search_by_key(&offset, |instruction| instruction.address);
        let Ok(place) = place else {
            return Err(format!("{} has no instruction at {offset:#x}: other code was measured", function.name));
        };
        function.instructions[place].measured = Some(measured.clone());
    }
    function.samples = Some(found.values().map(|measured| measured.samples).sum());
    Ok(())
}

/// Adds samples at an offset.
fn add(at: &mut Measured, samples: u64, reason: Option<&str>) {
    match reason {
        None => at.samples += samples,
        Some(reason) => match at.reasons.iter_mut().find(|known| known.reason == reason) {
            Some(known) => known.samples += samples,
            None => at.reasons.push(SampleReason { reason: reason.to_owned(), samples }),
        },
    }
}

/// Sorts the reasons of all samples, the most frequent first.
fn sort_reasons(samples: &mut Samples) {
    for measured in samples.values_mut().flat_map(BTreeMap::values_mut) {
        measured.reasons.sort_by(|one, two| two.samples.cmp(&one.samples).then_with(|| one.reason.cmp(&two.reason)));
    }
}

fn read_tabs(text: &str) -> Result<Samples, String> {
    let mut samples = Samples::new();
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    for (number, line) in lines {
        let wrong =
            || format!("line {}: expected FUNCTION, OFFSET (hexadecimal), SAMPLES and perhaps REASON with tabs between", number + 1);
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let (&[function, offset, count], reason) = (fields.first_chunk::<3>().ok_or_else(wrong)?, fields.get(3));
        let offset = u64::from_str_radix(offset.trim_start_matches("0x"), 16).map_err(|_| wrong())?;
        let count: u64 = count.parse().map_err(|_| wrong())?;
        let at = samples.entry(function.to_owned()).or_default().entry(offset).or_default();
        add(at, count, None);
        if let Some(reason) = reason.filter(|reason| !reason.is_empty()) {
            add(at, count, Some(reason));
        }
    }
    sort_reasons(&mut samples);
    Ok(samples)
}

/// The columns of a table of Nsight Compute.
struct Columns {
    address: usize,
    samples: usize,
    reasons: Vec<(usize, String)>,
}

impl Columns {
    fn of(names: &[String]) -> Option<Columns> {
        let find = |wanted: &str| names.iter().position(|name| name == wanted);
        let reason = |(number, name): (usize, &String)| {
            let reason = name.strip_prefix(REASON_PREFIX)?;
            (!reason.ends_with(NOT_ISSUED)).then(|| (number, reason.to_owned()))
        };
        Some(Columns {
            address: find("Address")?,
            samples: find(ALL_SAMPLES)?,
            reasons: names.iter().enumerate().filter_map(reason).collect(),
        })
    }
}

fn read_csv(text: &str) -> Result<Samples, String> {
    let mut samples = Samples::new();
    let (mut name, mut columns) = (String::new(), None);
    // Addresses of the GPU, which become offsets when the table ends.
    let mut table: BTreeMap<u64, Measured> = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let fields = fields(line);
        if fields.first().is_some_and(|first| first == "Kernel Name") && fields.len() >= 2 && Columns::of(&fields).is_none() {
            finish_table(&mut samples, &name, std::mem::take(&mut table));
            // Nsight Compute prints a C++ name with its parameters.
            name = fields[1].split('(').next().unwrap_or_default().trim().to_owned();
            columns = None;
        } else if let Some(found) = Columns::of(&fields) {
            finish_table(&mut samples, &name, std::mem::take(&mut table));
            columns = Some(found);
        } else if let Some(columns) = &columns {
            let field = |at: usize| fields.get(at).map_or("", String::as_str);
            let Some(address) = field(columns.address).strip_prefix("0x").and_then(|digits| u64::from_str_radix(digits, 16).ok()) else {
                continue;
            };
            let number_in = |at: usize| {
                let digits = field(at).replace(',', "");
                let value = if digits.is_empty() || digits == "-" { Ok(0.0) } else { digits.parse::<f64>() };
                value.map(|value| value as u64).map_err(|_| format!("line {}: `{}` is not a number", number + 1, field(at)))
            };
            let at = table.entry(address).or_default();
            add(at, number_in(columns.samples)?, None);
            for (column, reason) in &columns.reasons {
                let count = number_in(*column)?;
                if count > 0 {
                    add(at, count, Some(reason));
                }
            }
        }
    }
    finish_table(&mut samples, &name, table);
    sort_reasons(&mut samples);
    Ok(samples)
}

/// Adds the instructions of a table, whose first address is the start of the function.
fn finish_table(samples: &mut Samples, name: &str, table: BTreeMap<u64, Measured>) {
    let Some(&start) = table.keys().next() else { return };
    let function = samples.entry(name.to_owned()).or_default();
    for (address, measured) in table {
        let at = function.entry(address - start).or_default();
        add(at, measured.samples, None);
        measured.reasons.iter().for_each(|reason| add(at, reason.samples, Some(&reason.reason)));
    }
}

/// Returns the fields of a line of comma-separated values; quotes protect commas, and two quotes are a quote.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut is_quoted) = (vec![String::new()], false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        let Some(field) = fields.last_mut() else { break };
        match letter {
            '"' if is_quoted && letters.peek() == Some(&'"') => {
                letters.next();
                field.push('"');
            }
            '"' => is_quoted = !is_quoted,
            ',' if !is_quoted => fields.push(String::new()),
            letter => field.push(letter),
        }
    }
    fields
}
