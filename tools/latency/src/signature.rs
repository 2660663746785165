//! Identifies instructions as far as timing is concerned: mnemonic and modifiers, without modifiers that cannot matter.

use oriole_isa::{AccessPlace, Instruction};

use crate::code::Step;
use crate::dependence::End;

/// Modifiers that do not change the timing: rounding, comparison, caching, memory order.
const IMMATERIAL: &[&str] = &[
    ".FTZ",
    ".FMZ",
    ".RM",
    ".RP",
    ".RZ",
    ".RN",
    ".SAT",
    ".LT",
    ".LE",
    ".GT",
    ".GE",
    ".EQ",
    ".NE",
    ".LTU",
    ".LEU",
    ".GTU",
    ".GEU",
    ".EQU",
    ".NEU",
    ".NUM",
    ".NAN",
    ".T",
    ".F",
    ".AND",
    ".OR",
    ".XOR",
    ".LUT",
    ".E",
    ".EF",
    ".EL",
    ".LU",
    ".EU",
    ".NA",
    ".STRONG",
    ".WEAK",
    ".CONSTANT",
    ".MMIO",
    ".CTA",
    ".SM",
    ".GPU",
    ".SYS",
    ".VC",
    ".PRIVATE",
    ".LTC64B",
    ".LTC128B",
    ".LTC256B",
    ".RELU",
    ".NTZ",
    ".FLOOR",
    ".CEIL",
    ".TRUNC",
    ".MIN",
    ".MAX",
    ".ADD",
    ".INC",
    ".DEC",
    ".EXCH",
    ".BYPASS",
    ".ZFILL",
    ".DEFER_BLOCKING",
    ".NODEC",
    ".NOINC",
];

/// Returns the mnemonic and the modifiers that may matter.
pub fn signature(instruction: &Instruction) -> String {
    let mut text = instruction.opcode.mnemonic().to_string();
    for modifier in &instruction.modifiers {
        if !IMMATERIAL.contains(&modifier.spelling()) {
            text.push_str(modifier.spelling());
        }
    }
    text
}

/// Returns the position of a register in an instruction: `d0.1`, `s2.0`, `a1.0` inside brackets, `guard`.
pub fn place(step: &Step, end: &End) -> String {
    let slot = step.slot(&end.access).unwrap_or_default();
    let letter = match end.access.place {
        AccessPlace::Guard => return "guard".to_string(),
        AccessPlace::Plain(_) if end.access.written => 'd',
        AccessPlace::Plain(_) => 's',
        AccessPlace::Address(_) => 'a',
    };
    // Registers of large matrix fragments are not distinguished.
    if end.access.count <= 4 { format!("{letter}{slot}.{}", end.part) } else { format!("{letter}{slot}.*") }
}
