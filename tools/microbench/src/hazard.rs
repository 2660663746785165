//! Two instructions at a chosen distance, many times: does the second see what the first wrote, or spoil it?
//!
//! A kernel tries all distances from one cycle up, at several alignments of the code. Each variant is a loop, because the
//! first pass through code waits for the instruction cache and would hide a hazard. Every pass restores the old values, waits
//! long, runs the pair, waits long, and stores what R20 shows. Two variants give the measure: with the pair very far apart,
//! and with the first instruction left out. No expected values are needed: a distance is long enough if it gives what the
//! longest one gives.

use crate::assembler::{Assembler, Line, Needs};
use crate::environment::{self, expand, global, pause, safe};
use crate::table::{Access, File, Place};
use oriole_isa::Control;
use serde::{Deserialize, Serialize};

pub const ITERATIONS: usize = 8;
/// The distance that is surely long enough.
pub const FAR_CYCLES: u32 = 150;
/// Instructions by which the code is shifted.
pub const SHIFTS: u32 = 4;
/// Longer distances are made of several instructions.
const LONGEST_PIECE: u32 = 10;
const REGISTERS: u8 = 64;
/// Those that instructions of variable latency release.
const BOTH_SCOREBOARDS: u8 = 0b11;

/// What is asked of a pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hazard {
    /// Read after write.
    Raw,
    /// Write after write.
    Waw,
    /// Write after read.
    War,
    /// Read after a write of variable latency, with its scoreboard waited for.
    Scoreboard,
}

/// One variant in a kernel, in the order of its results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Variant {
    /// Far apart.
    Far,
    /// Without the first instruction.
    Absent,
    /// So many cycles apart, the code shifted by so many instructions.
    Near(u32, u32),
}

/// A pair of instructions.
#[derive(Clone, Debug)]
pub struct Pair {
    pub hazard: Hazard,
    pub first: Access,
    pub second: Access,
    /// The word of the first one's result that the second touches.
    pub word: u32,
    pub longest_cycles: u32,
}

/// All variants of an experiment.
pub fn variants(longest_cycles: u32) -> Vec<Variant> {
    let near = (0..SHIFTS).flat_map(|shift| (1..=longest_cycles).map(move |distance| Variant::Near(distance, shift)));
    [Variant::Far, Variant::Absent].into_iter().chain(near).collect()
}

/// The kernel of a pair.
pub fn kernel(assembler: &mut Assembler, pair: &Pair) -> Result<Vec<u8>, String> {
    let texts = Texts::new(assembler, pair);
    // Fail early, with the text that the target lacks.
    assembler.word(&without_label(&texts.first))?;
    assembler.word(&without_label(&texts.second))?;
    let uses_shared = [&texts.first, &texts.second].iter().any(|text| ["LDS", "STS", "ATOMS"].iter().any(|word| text.contains(word)));
    let mut lines = environment::prologue(assembler, uses_shared);
    for (index, variant) in variants(pair.longest_cycles).into_iter().enumerate() {
        texts.variant(assembler, &mut lines, index, variant);
    }
    lines.push(safe(assembler, "EXIT"));
    let needs = Needs {
        registers: REGISTERS,
        shared_bytes: environment::SHARED_BYTES,
        local_bytes: 0,
        parameter_bytes: environment::PARAMETER_BYTES as u16,
        barriers: 1,
    };
    assembler.cubin("kernel", &lines, needs)
}

/// Branch targets are not known when a text is tried.
fn without_label(text: &str) -> String {
    text.split_once('`').map_or_else(|| text.to_owned(), |(before, _)| format!("{before}0x0"))
}

/// The texts of a pair with everything put in but labels.
struct Texts {
    restore: Vec<String>,
    first: String,
    second: String,
    /// Scoreboards that the second waits for.
    wait: u8,
    after: Vec<String>,
    store: String,
}

impl Texts {
    fn new(assembler: &Assembler, pair: &Pair) -> Texts {
        let has_descriptor = assembler.target.profile().descriptor.is_some();
        let fill = |text: &str| {
            let word = if matches!(pair.hazard, Hazard::Raw | Hazard::Scoreboard) { pair.word } else { 0 };
            let text = expand(assembler, &text.replace("{D}", &pair.second.place.file.result(word)));
            if has_descriptor { text } else { text.replace("desc[UR16]", "") }
        };
        let file = pair.first.place.file;
        let mut restore = restore(pair.first.place, pair.second.place);
        if file != File::General {
            restore.extend(["MOV R20, R37".into(), "UMOV UR22, 0x0".into()]);
        }
        let after = match pair.hazard {
            Hazard::Waw => capture(file, pair.word),
            Hazard::Raw | Hazard::Scoreboard => pair.second.after.iter().map(|text| fill(text)).collect(),
            Hazard::War => pair.first.after.iter().map(|text| fill(text)).collect(),
        };
        let store = format!("STG.E {}, R20", global(assembler, "R34.64"));
        let wait = if pair.hazard == Hazard::Scoreboard { BOTH_SCOREBOARDS } else { 0 };
        Texts { restore, first: fill(pair.first.text), second: fill(pair.second.text), wait, after, store }
    }

    fn variant(&self, assembler: &Assembler, lines: &mut Vec<Line>, index: usize, variant: Variant) {
        let (distance, shift) = match variant {
            Variant::Far | Variant::Absent => (FAR_CYCLES, 0),
            Variant::Near(distance, shift) => (distance, shift),
        };
        let over = format!("over{index}");
        lines.push(safe(assembler, format!("MOV R32, {ITERATIONS:#x}")));
        while !lines.len().is_multiple_of(CODE_LINE_INSTRUCTIONS) {
            lines.push(safe(assembler, "NOP"));
        }
        lines.extend((0..shift).map(|_| safe(assembler, "NOP")));
        let start = lines.len();
        lines.extend(self.restore.iter().map(|text| safe(assembler, text)));
        pause(lines, 3);
        let first = if variant == Variant::Absent { "NOP" } else { &self.first };
        apart(assembler, lines, first, distance);
        let second = self.second.replace("{over}", &over);
        lines.push(Line { label: None, control: Control { wait: self.wait, ..assembler.scoreboards(&second) }, text: second });
        pause(lines, 8);
        for text in &self.after {
            let (label, text) = match text.split_once("{over}: ") {
                Some((_, rest)) => (Some(over.clone()), rest.to_owned()),
                None => (None, text.clone()),
            };
            lines.push(Line { label, ..safe(assembler, text) });
        }
        pause(lines, 1);
        for text in [self.store.as_str(), "IADD3 R34, P6, R34, 0x80, RZ", "IADD3.X R35, R35, RZ, RZ, P6, !PT", "IADD3 R32, R32, -0x1, RZ", "ISETP.NE.AND P6, PT, R32, RZ, PT"] {
            lines.push(safe(assembler, text));
        }
        lines.push(safe(assembler, format!("@P6 BRA `(loop{index})")));
        lines[start].label = Some(format!("loop{index}"));
    }
}

/// Shifts of the code are counted from here.
const CODE_LINE_INSTRUCTIONS: usize = 8;

/// The first instruction, and nothing else until `distance` cycles after it.
fn apart(assembler: &Assembler, lines: &mut Vec<Line>, text: &str, distance: u32) {
    let stall = distance.min(LONGEST_PIECE);
    lines.push(Line { label: None, control: Control { stall: stall as u8, ..assembler.scoreboards(text) }, text: text.to_owned() });
    let mut left = distance - stall;
    while left > 0 {
        let stall = left.min(LONGEST_PIECE);
        lines.push(Line { label: None, control: Control { stall: stall as u8, ..Control::default() }, text: "NOP".into() });
        left -= stall;
    }
}

/// Instructions that bring the old value back.
fn restore(first: Place, second: Place) -> Vec<String> {
    let mut texts: Vec<String> = match first.file {
        File::General => (0..4).map(|word| format!("MOV R{}, R{}", 4 + word, 36 + word)).collect(),
        File::Uniform => (0..2).map(|word| format!("UMOV UR{}, {:#x}", 4 + word, environment::OLD_UNIFORM)).collect(),
        File::Predicate => vec!["ISETP.NE.AND P0, PT, RZ, RZ, PT".into()],
        File::UniformPredicate => vec!["UISETP.NE.U32.AND UP0, UPT, URZ, URZ, UPT".into()],
    };
    if second.is_address {
        texts.push(if first.file == File::General { "MOV R5, RZ".into() } else { "UMOV UR5, 0x0".into() });
    }
    texts
}

/// Instructions that bring a result into R20.
fn capture(file: File, word: u32) -> Vec<String> {
    match file {
        File::General => vec![format!("MOV R20, {}", file.result(word))],
        File::Uniform => vec![format!("MOV R20, {}", file.result(word))],
        File::Predicate => vec!["SEL R20, R30, RZ, P0".into()],
        File::UniformPredicate => vec!["USEL UR22, UR13, URZ, UP0".into(), "MOV R20, UR22".into()],
    }
}
