//! Generates kernels that run two instructions at a chosen distance, to find out whether the second one sees the effect of the first.
//!
//! A kernel tries all distances from one cycle on, at several alignments of the code. Each variant is a loop, because the first pass waits
//! for the instruction cache, which would hide a hazard. Every pass restores the old values, waits, runs the pair, waits, and stores R20.
//! Two variants serve as references: one with the pair very far apart, and one without the first instruction. No expected values are
//! needed: a distance is long enough if its result equals that of the longest distance.
//!
//! An idle multiprocessor delays nothing, so each pair is also tried while other warps keep all pipes busy.

use crate::assembler::{Assembler, Line, Needs};
use crate::environment::{self, expand, global, pause, safe};
use crate::table::{PairMember, RegFile, ResultLocation};
use oriole_isa::{Control, SystemLayout};
use serde::{Deserialize, Serialize};

/// A distance in cycles that is certainly long enough.
pub const FAR_CYCLES: u32 = 150;
/// Number of alignments; the code is shifted by up to this number of instructions, exclusive.
pub const SHIFTS: u32 = 4;
/// Longest stall in cycles of one instruction; longer distances use several instructions.
const LONGEST_PIECE: u32 = 10;
const REGISTERS: u8 = 64;
/// Scoreboards that instructions of variable latency set.
const BOTH_SCOREBOARDS: u8 = 0b11;

/// The load on the multiprocessor.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// One warp runs alone.
    Quiet,
    /// Other warps keep the pipes busy.
    Busy,
}

impl Load {
    /// Returns the number of passes per variant.
    pub fn passes(self) -> usize {
        match self {
            Load::Quiet => 8,
            Load::Busy => 24,
        }
    }

    pub fn warps(self) -> u32 {
        match self {
            Load::Quiet => 1,
            Load::Busy => 16,
        }
    }
}

/// The kind of dependence to measure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Hazard {
    /// Read after write.
    Raw,
    /// Write after write.
    Waw,
    /// Write after read.
    War,
    /// Read after a write of variable latency; the second instruction waits for the scoreboard.
    Scoreboard,
}

/// One variant of the pair in a kernel. Results are in the order of the variants.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Variant {
    /// Far apart.
    Far,
    /// The first instruction is omitted.
    Absent,
    /// The distance in cycles, and the number of instructions by which the code is shifted.
    Near(u32, u32),
}

/// A pair of instructions to measure.
#[derive(Clone, Debug)]
pub struct Pair {
    pub hazard: Hazard,
    pub first: PairMember,
    pub second: PairMember,
    /// Index of the word of the first instruction's result that the second accesses.
    pub word: u32,
    pub longest_cycles: u32,
    pub load: Load,
}

/// Returns all variants of an experiment.
pub fn variants(longest_cycles: u32) -> Vec<Variant> {
    let near = (0..SHIFTS).flat_map(|shift| (1..=longest_cycles).map(move |distance| Variant::Near(distance, shift)));
    [Variant::Far, Variant::Absent].into_iter().chain(near).collect()
}

/// Returns the cubin for a pair.
pub fn kernel(assembler: &mut Assembler, pair: &Pair) -> Result<Vec<u8>, String> {
    let texts = Texts::new(assembler, pair);
    // Fail early, with the text that the target cannot encode.
    for part in texts.first.split(THEN) {
        assembler.word(&without_label(part))?;
    }
    assembler.word(&without_label(&texts.second))?;
    let uses_shared = [&texts.first, &texts.second].iter().any(|text| ["LDS", "STS", "ATOMS"].iter().any(|word| text.contains(word)));
    let mut lines = environment::prologue(assembler, uses_shared || pair.load == Load::Busy);
    if pair.load == Load::Busy {
        part_warps(assembler, &mut lines);
    }
    for (index, variant) in variants(pair.longest_cycles).into_iter().enumerate() {
        texts.variant(assembler, &mut lines, index, variant);
    }
    if pair.load == Load::Busy {
        lines.extend(["STS [R1], R30", "EXIT"].map(|text| safe(assembler, text)));
        let own = if pair.hazard == Hazard::War { "NOP" } else { last_part(&texts.first) };
        keep_busy(assembler, &mut lines, own);
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

/// Separator between the last instruction of a text and the instructions that it needs before it.
const THEN: &str = " && ";

/// Returns the last instruction of a text, which is the one that is measured.
pub fn last_part(text: &str) -> &str {
    text.rsplit(THEN).next().unwrap_or(text)
}

/// Replaces a label by a number, because branch targets are not known when a text is tested.
fn without_label(text: &str) -> String {
    text.split_once('`').map_or_else(|| text.to_owned(), |(before, _)| format!("{before}0x0"))
}

/// The instructions of a pair with all placeholders replaced except labels.
struct Texts {
    restore: Vec<String>,
    first: String,
    second: String,
    /// Scoreboards that the second instruction waits for.
    wait: u8,
    after: Vec<String>,
    store: String,
    passes: usize,
}

impl Texts {
    fn new(assembler: &Assembler, pair: &Pair) -> Texts {
        let has_descriptor = SystemLayout::of(assembler.target).descriptor.is_some();
        let fill = |text: &str| {
            let word = if matches!(pair.hazard, Hazard::Raw | Hazard::Scoreboard) { pair.word } else { 0 };
            let text = expand(assembler, &text.replace("{D}", &pair.second.place.file.result(word)));
            if has_descriptor { text } else { text.replace("desc[UR16]", "") }
        };
        let file = pair.first.place.file;
        let mut restore = restore(pair.first.place, pair.second.place);
        if file != RegFile::General {
            restore.extend(["MOV R20, R37".into(), "UMOV UR22, 0x0".into()]);
        }
        let after = match pair.hazard {
            Hazard::Waw => capture(file, pair.word),
            Hazard::Raw | Hazard::Scoreboard => pair.second.after.iter().map(|text| fill(text)).collect(),
            Hazard::War => pair.first.after.iter().map(|text| fill(text)).collect(),
        };
        let store = format!("STG.E {}, R20", global(assembler, "R34.64"));
        let wait = if pair.hazard == Hazard::Scoreboard { BOTH_SCOREBOARDS } else { 0 };
        Texts { restore, first: fill(pair.first.text), second: fill(pair.second.text), wait, after, store, passes: pair.load.passes() }
    }

    /// Appends the loop of one variant.
    fn variant(&self, assembler: &Assembler, lines: &mut Vec<Line>, index: usize, variant: Variant) {
        let (distance, shift) = match variant {
            Variant::Far | Variant::Absent => (FAR_CYCLES, 0),
            Variant::Near(distance, shift) => (distance, shift),
        };
        let over = format!("over{index}");
        lines.push(safe(assembler, format!("MOV R32, {:#x}", self.passes)));
        while !lines.len().is_multiple_of(CODE_LINE_INSTRUCTIONS) {
            lines.push(safe(assembler, "NOP"));
        }
        lines.extend((0..shift).map(|_| safe(assembler, "NOP")));
        let start = lines.len();
        lines.extend(self.restore.iter().map(|text| safe(assembler, text)));
        pause(lines, 3);
        let first = if variant == Variant::Absent { "NOP" } else { &self.first };
        let (before, first) = first.rsplit_once(THEN).map_or(("", first), |(before, last)| (before, last));
        for text in before.split(THEN).filter(|text| !text.is_empty()) {
            lines.push(Line { label: None, control: Control { stall: 1, ..Control::default() }, text: text.to_owned() });
        }
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
        for text in [
            self.store.as_str(),
            "IADD3 R34, P6, R34, 0x80, RZ",
            "IADD3.X R35, R35, RZ, RZ, P6, !PT",
            "IADD3 R32, R32, -0x1, RZ",
            "ISETP.NE.AND P6, PT, R32, RZ, PT",
        ] {
            lines.push(safe(assembler, text));
        }
        lines.push(safe(assembler, format!("@P6 BRA `(loop{index})")));
        lines[start].label = Some(format!("loop{index}"));
    }
}

/// Offset in shared memory of the flag with which the measuring warp signals that it is done.
const DONE_FLAG: u32 = 0x23f0;

/// Appends a branch that sends all warps except the first to the busy loop.
fn part_warps(assembler: &Assembler, lines: &mut Vec<Line>) {
    let flag = format!("MOV R1, {DONE_FLAG:#x}");
    let texts =
        [&flag, "STS [R1], RZ", "S2R R0, SR_TID.X", "BAR.SYNC.DEFER_BLOCKING 0x0", "ISETP.GE.AND P6, PT, R0, 0x20, PT", "@P6 BRA `(busy)"];
    lines.extend(texts.map(|text| safe(assembler, text)));
    pause(lines, 1);
}

/// The instructions of the busy loop: some for every pipe; results are not stored.
const BUSY_WORK: [&str; 20] = [
    "HMMA.16816.F32 R20, R16, R18, R8",
    "FFMA R24, R8, R12, R16",
    "DFMA R36, R8, R14, R16",
    "IADD3 R25, R8, R12, R16",
    "LDS.128 R44, [R1]",
    "DFMA R38, R8, R14, R16",
    "IMAD.WIDE.U32 R26, R8, R12, R16",
    "MUFU.RCP R28, R12",
    "HFMA2.MMA R29, R8, R12, R16",
    "SHFL.BFLY PT, R29, R8, 0x1, 0x1f",
    "HMMA.16816.F32 R20, R16, R18, R8",
    "LOP3.LUT R25, R8, R12, R16, 0x96, !PT",
    "DFMA R36, R8, R14, R16",
    "UIADD3 UR22, UR8, UR12, URZ",
    "FFMA R24, R9, R12, R17",
    "R2UR UR23, R16",
    "HFMA2 R29, R8, R12, R16",
    "CS2R R26, SRZ",
    "ISETP.LT.AND P5, PT, R8, R12, PT",
    "IADD3 R25, R9, R13, R17",
];

/// Appends the busy loop, which runs until the flag is set and contains the first instruction of the pair.
fn keep_busy(assembler: &mut Assembler, lines: &mut Vec<Line>, own: &str) {
    let start = lines.len();
    let back_to_back = |text: &str| Line { label: None, control: Control { stall: 1, ..Control::default() }, text: text.to_owned() };
    for (index, text) in BUSY_WORK.into_iter().enumerate() {
        if assembler.word(text).is_ok() {
            lines.push(back_to_back(text));
        }
        if index % 2 == 0 {
            lines.push(back_to_back(own));
        }
    }
    for text in ["LDS R33, [R1]", "ISETP.EQ.AND P6, PT, R33, RZ, PT", "@P6 BRA `(busy)"] {
        lines.push(safe(assembler, text));
    }
    lines[start].label = Some("busy".into());
}

/// Alignment, in instructions, from which shifts of the code are counted.
const CODE_LINE_INSTRUCTIONS: usize = 8;

/// Appends the first instruction and pauses until `distance` cycles after it.
fn apart(assembler: &Assembler, lines: &mut Vec<Line>, text: &str, distance: u32) {
    let stall = distance.min(LONGEST_PIECE);
    lines.push(Line {
        label: None,
        control: Control { stall: stall as u8, stay: true, ..assembler.scoreboards(text) },
        text: text.to_owned(),
    });
    let mut left = distance - stall;
    while left > 0 {
        let stall = left.min(LONGEST_PIECE);
        lines.push(Line { label: None, control: Control { stall: stall as u8, ..Control::default() }, text: "NOP".into() });
        left -= stall;
    }
}

/// Returns the instructions that restore the old value.
fn restore(first: ResultLocation, second: ResultLocation) -> Vec<String> {
    if first.pointer_word.is_some() {
        return vec!["MOV R4, R50".into(), "MOV R5, R51".into(), "MOV R20, R37".into()];
    }
    let mut texts: Vec<String> = match first.file {
        RegFile::General => (0..4).map(|word| format!("MOV R{}, R{}", 4 + word, 36 + word)).collect(),
        RegFile::Uniform => (0..2).map(|word| format!("UMOV UR{}, {:#x}", 4 + word, environment::OLD_UNIFORM)).collect(),
        RegFile::Predicate => vec!["ISETP.NE.AND P0, PT, RZ, RZ, PT".into()],
        RegFile::UniformPredicate => vec!["UISETP.NE.U32.AND UP0, UPT, URZ, URZ, UPT".into()],
    };
    if second.is_address {
        texts.push(if first.file == RegFile::General { "MOV R5, RZ".into() } else { "UMOV UR5, 0x0".into() });
    }
    texts
}

/// Returns the instructions that copy a result to R20.
fn capture(file: RegFile, word: u32) -> Vec<String> {
    match file {
        RegFile::General => vec![format!("MOV R20, {}", file.result(word))],
        RegFile::Uniform => vec![format!("MOV R20, {}", file.result(word))],
        RegFile::Predicate => vec!["SEL R20, R30, RZ, P0".into()],
        RegFile::UniformPredicate => vec!["USEL UR22, UR13, URZ, UP0".into(), "MOV R20, UR22".into()],
    }
}
