//! Generates kernels that measure how many cycles a sequence takes, with the clock of the multiprocessor.
//!
//! A kernel runs the body a few times and many times, each between two reads of the clock; the difference excludes the overhead.
//! Everything is repeated, so that later rounds find the code in the caches. With several warps a barrier makes them start together, and
//! the time is that from the first start to the last end.

use oriole_isa::{Control, SystemLayout, Target};
use serde::{Deserialize, Serialize};

use crate::assembler::{Assembler, Line, Needs};
use crate::environment::{self, expand, global, pause, safe};
use crate::table::rows;

pub const ROUNDS: usize = 4;
/// Bytes of results per warp: two clock values for each number of copies in each round, one word per lane.
pub const WARP_BYTES: usize = ROUNDS * ROUND_BYTES;
const ROUND_BYTES: usize = 4 * CLOCK_BYTES;
const CLOCK_BYTES: usize = 128;
/// The largest number of registers with which 32 warps fit.
const REGISTERS: u8 = 64;
const LOCAL_BYTES: u32 = 0x1000;

/// One sequence with one number of warps.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Timing {
    pub group: String,
    pub name: String,
    pub warps: u32,
    pub few: u32,
    pub many: u32,
    /// Number of instructions of the body that count for rates.
    pub counted: u32,
    /// Instructions that run once before each measurement.
    pub setup: Vec<String>,
    /// The measured instructions.
    pub body: Vec<String>,
    /// Whether the host creates a long chain of pointers in a large buffer, with its start in R50.
    pub far_memory: bool,
}

impl Timing {
    pub fn full_name(&self) -> String {
        format!("time {} {} {}", self.group, self.name, self.warps)
    }
}

/// Returns all sequences, each with every number of warps in its row.
///
/// Rows: group | name | options | setup | body. Options are words: `warps=1,4`, `copies=8,40`, `count=2`, `far`.
pub fn all(_target: Target) -> Vec<Timing> {
    let mut list = Vec::new();
    for (number, columns) in rows(include_str!("../data/timings.tbl")) {
        let [group, name, options, setup, body] = columns.as_slice() else { panic!("timings.tbl:{number}: five columns expected") };
        let lines = |text: &str| text.split(';').map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect::<Vec<_>>();
        let body = lines(body);
        let mut timing = Timing {
            group: (*group).into(),
            name: (*name).into(),
            warps: 1,
            few: 8,
            many: 40,
            counted: body.len() as u32,
            setup: lines(setup),
            body,
            far_memory: false,
        };
        let mut warps = vec![1];
        for option in options.split_whitespace() {
            let (key, value) = option.split_once('=').unwrap_or((option, ""));
            let numbers: Vec<u32> = value.split(',').filter_map(|word| word.parse().ok()).collect();
            match (key, numbers.as_slice()) {
                ("warps", _) => warps.clone_from(&numbers),
                ("copies", &[few, many]) => (timing.few, timing.many) = (few, many),
                ("count", &[count]) => timing.counted = count,
                ("far", []) => timing.far_memory = true,
                _ => panic!("timings.tbl:{number}: bad option {option}"),
            }
        }
        list.extend(warps.into_iter().map(|warps| Timing { warps, ..timing.clone() }));
    }
    list
}

/// Returns the cubin for a sequence.
pub fn kernel(assembler: &mut Assembler, timing: &Timing) -> Result<Vec<u8>, String> {
    let mut lines = environment::prologue(assembler, true);
    let warp_offset = format!("IMAD.WIDE.U32 R34, R1, {WARP_BYTES:#x}, R34");
    let texts = ["S2R R1, SR_TID.X", "SHF.R.U32.HI R1, RZ, 0x5, R1", &warp_offset];
    lines.extend(texts.map(|text| safe(assembler, text)));
    lines.push(safe(assembler, format!("MOV R32, {ROUNDS:#x}")));
    lines.push(Line { label: Some("round".into()), ..safe(assembler, "NOP") });
    for (slot, copies) in [timing.few, timing.many].into_iter().enumerate() {
        measure(assembler, &mut lines, timing, slot, copies)?;
    }
    let step = format!("IADD3 R34, P6, R34, {ROUND_BYTES:#x}, RZ");
    for text in [
        step.as_str(),
        "IADD3.X R35, R35, RZ, RZ, P6, !PT",
        "IADD3 R32, R32, -0x1, RZ",
        "ISETP.NE.AND P6, PT, R32, RZ, PT",
        "@P6 BRA `(round)",
        "EXIT",
    ] {
        lines.push(safe(assembler, text));
    }
    let needs = Needs {
        registers: REGISTERS,
        shared_bytes: environment::SHARED_BYTES,
        local_bytes: LOCAL_BYTES,
        parameter_bytes: environment::PARAMETER_BYTES as u16,
        barriers: 1,
    };
    assembler.cubin("kernel", &lines, needs)
}

/// Appends the measurement of a number of copies.
fn measure(assembler: &mut Assembler, lines: &mut Vec<Line>, timing: &Timing, slot: usize, copies: u32) -> Result<(), String> {
    for text in &timing.setup {
        lines.push(line(assembler, text, slot as u32, 0)?);
    }
    pause(lines, 4);
    if timing.warps > 1 {
        lines.push(safe(assembler, "BAR.SYNC.DEFER_BLOCKING 0x0"));
        pause(lines, 2);
    }
    let clock = |register: u32, stall: u8| Line {
        label: None,
        control: Control { stall, stay: false, wait: 0b11_1111, ..Control::default() },
        text: format!("CS2R.32 R{register}, SR_CLOCKLO"),
    };
    lines.push(clock(2, 8));
    for copy in 0..copies {
        for text in &timing.body {
            lines.push(line(assembler, text, slot as u32, copy)?);
        }
    }
    lines.push(clock(3, 15));
    pause(lines, 8);
    for (index, register) in [(0, 2), (1, 3)] {
        let offset = (2 * slot + index) * CLOCK_BYTES;
        lines.push(safe(assembler, format!("STG.E {}, R{register}", global(assembler, &format!("R34.64+{offset:#x}")))));
    }
    Ok(())
}

/// Replaces the placeholders of a line and parses its control word, if it has one.
///
/// `{d}` is a register that rotates, `{e}` the next register, `{k}` the number of the copy, `{here}` a label for the copy.
fn line(assembler: &Assembler, text: &str, slot: u32, copy: u32) -> Result<Line, String> {
    let here = format!("at{slot}_{copy}");
    let turns = |text: String| {
        let d = [36, 44, 52, 56][copy as usize % 4];
        text.replace("{d}", &format!("R{d}"))
            .replace("{e}", &format!("R{}", d + 1))
            .replace("{k}", &copy.to_string())
            .replace("{here}", &here)
    };
    let mut text = expand(assembler, &turns(text.to_owned()));
    if SystemLayout::of(assembler.target).descriptor.is_none() {
        text = text.replace("desc[UR16]", "");
    }
    let mut label = None;
    if let Some((name, rest)) = text.split_once(": ").filter(|(name, _)| name.starts_with("at")) {
        (label, text) = (Some(name.to_owned()), rest.to_owned());
    }
    match text.strip_prefix('[').filter(|rest| rest.starts_with('B')).and_then(|rest| rest.split_once("] ")) {
        Some((word, rest)) => {
            let control = Control::parse(word).ok_or_else(|| format!("bad control word {word}"))?;
            Ok(Line { label, control, text: rest.trim().to_owned() })
        }
        None => Ok(Line { label, ..safe(assembler, text) }),
    }
}
