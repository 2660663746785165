//! Measures the time of the seven verifiers for large functions of several shapes: `verify_speed [INSTRUCTIONS]`. The time per instruction
//! must not grow with the number of instructions.

use std::time::Instant;

use oriole_cubin::build::{FrameInfo, Function, Module, kernel_attributes};
use oriole_cubin::info::{Attribute, AttributeCode};
use oriole_isa::{Control, Instruction, Target, encode, parse_at};
use oriole_sim::verify::{Verifier, verify_cubin};

const INSTRUCTION_BYTES: usize = 16;
/// Instructions per line; code sections are padded to whole lines.
const LINE: usize = 8;

/// A code fragment that is repeated. `{next}` is the address of the next fragment, `{this}` its own, `{end}` that of the exit, `{function}`
/// that of a function.
const SHAPES: [(&str, &[&str]); 7] = [
    ("straight", &["B------:R-:W-:-:S05 IADD3 R4, R4, R5, RZ", "B------:R-:W-:-:S05 IMAD R5, R4, R4, RZ"]),
    (
        "loads",
        &[
            "B------:R-:W0:-:S02 LDG.E R8, desc[UR4][R2.64]",
            "B------:R-:W-:-:S04 IADD3 R4, R4, R5, RZ",
            "B0-----:R-:W-:-:S04 IADD3 R5, R8, R4, RZ",
        ],
    ),
    ("stores", &["B------:R-:W-:-:S02 STG.E desc[UR4][R2.64], R9", "B------:R-:W-:-:S05 @P0 BRA {next}"]),
    ("diamonds", &["B------:R-:W-:-:S05 @P0 BRA {next}", "B------:R-:W-:-:S04 IADD3 R4, R4, R5, RZ", "B------:R-:W-:-:S05 BRA {next}"]),
    ("loops", &["B------:R-:W-:-:S04 IADD3 R4, R4, R5, RZ", "B------:R-:W-:-:S05 @P0 BRA {this}"]),
    (
        "calls",
        &[
            "B------:R-:W0:-:S02 LDG.E R8, desc[UR4][R2.64]",
            "B------:R-:W-:-:S05 CALL.REL.NOINC {function}",
            "B0-----:R-:W-:-:S04 MOV R9, R8",
        ],
    ),
    ("exits", &["B------:R-:W-:-:S05 @P0 BRA {end}", "B------:R-:W1:-:S02 S2R R4, SR_TID.X", "B-1----:R-:W-:-:S04 IADD3 R5, R4, R5, RZ"]),
];

fn main() {
    let most: usize = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(200_000);
    println!("shape        instructions   seconds   microseconds each");
    for (name, lines) in SHAPES {
        for count in [most / 4, most / 2, most] {
            let cubin = cubin(lines, count);
            let start = Instant::now();
            let report = verify_cubin(&cubin, &Verifier::ALL).expect("it can be verified");
            let seconds = start.elapsed().as_secs_f64();
            assert_eq!(report.complaint(3), None, "{name}");
            println!("{name:<12} {count:>12} {seconds:>9.2} {:>10.2}", seconds * 1e6 / count as f64);
        }
    }
}

fn cubin(lines: &[&str], count: usize) -> Vec<u8> {
    let target = Target::parse("sm_90a").expect("a target");
    let pieces = count / lines.len();
    let end = pieces * lines.len();
    let word = |number: usize, line: &str, piece: usize| {
        let (control, text) = line.split_once(' ').expect("a control word");
        let address = |piece: usize| format!("{:#x}", piece * lines.len() * INSTRUCTION_BYTES);
        let text = text.replace("{next}", &address(piece + 1)).replace("{this}", &address(piece)).replace("{end}", &address(pieces));
        let text = text.replace("{function}", &format!("{:#x}", (end + 1) * INSTRUCTION_BYTES));
        let instruction = parse_at(&text, (number * INSTRUCTION_BYTES) as u64, &|_| None).expect("an instruction");
        encode(&Instruction { control: Control::parse(control).expect("a control word"), ..instruction }, target).expect("a word")
    };
    let mut words: Vec<u128> = (0..end).map(|number| word(number, lines[number % lines.len()], number / lines.len())).collect();
    words.push(word(end, "B012345:R-:W-:-:S05 EXIT", pieces));
    words.push(word(end + 1, "B------:R-:W-:-:S05 RET.REL.NODEC R20 0x0", pieces));
    while !words.len().is_multiple_of(LINE) {
        words.push(word(words.len(), "B------:R-:W-:Y:S00 NOP", pieces));
    }
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let traits = oriole_cubin::FileTraits::of(target).expect("a target of cubins");
    let exits = Attribute::words(AttributeCode::EXIT_INSTR_OFFSETS, [(end * INSTRUCTION_BYTES) as u32]);
    let kernel = Function {
        registers: 32,
        attributes: kernel_attributes(&traits, &[], vec![exits]),
        frame: FrameInfo::plain(code.len() as u64),
        code,
        ..Function::kernel("large")
    };
    Module::new(traits, vec![kernel]).build().and_then(|cubin| cubin.write()).expect("a cubin")
}
