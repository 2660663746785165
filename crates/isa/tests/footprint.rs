//! Compares the registers that instructions read and write with nvdisasm's life ranges for the same words.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use oriole_isa::{Access, AccessPlace, Instruction, RegFile, Target, accesses, decode, parse};

/// Registers by prefix and number, and whether they are written.
type Marks = BTreeSet<(String, u16, bool)>;

/// A register and whether it is written.
type Touch = (RegFile, u16, bool);

fn touches(instruction: &Instruction) -> Marks {
    let all = accesses(instruction);
    let registers = all.iter().filter(|access| access.file != RegFile::Convergence);
    registers.flat_map(|access| access.registers().map(|number| (access.file.prefix().to_string(), number, access.written))).collect()
}

/// Parses `R16-17^ P0v`.
fn read_touches(text: &str) -> Marks {
    let mut all = BTreeSet::new();
    for word in text.split_whitespace() {
        let written = word.ends_with('^');
        let digits = word.find(|c: char| c.is_ascii_digit()).expect("number");
        let numbers = &word[digits..word.len() - 1];
        let (first, last) = numbers.split_once('-').unwrap_or((numbers, numbers));
        for number in first.parse().expect("number")..=last.parse::<u16>().expect("number") {
            all.insert((word[..digits].to_string(), number, written));
        }
    }
    all
}

#[test]
fn recorded_footprints() {
    let text = std::fs::read_to_string(crate::support::folder().join("footprints.txt")).expect("recorded footprints");
    let mut wrong = Vec::new();
    let mut count = 0;
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let columns: Vec<&str> = line.split(" | ").collect();
        let [target, hex, text, registers] = columns.as_slice() else { panic!("four columns: {line}") };
        let target = Target::parse(target).expect("target");
        let word = u128::from_str_radix(hex, 16).expect("hex");
        let instruction = decode(word, target).unwrap_or_else(|| panic!("unknown word: {line}"));
        let (found, expected) = (touches(&instruction), read_touches(registers));
        if found != expected {
            wrong.push(format!("{target} {text}: {found:?}"));
        }
        count += 1;
    }
    assert!(count > 1800, "{count} lines");
    assert!(wrong.is_empty(), "{} of {count} differ: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

fn of(text: &str) -> Vec<(Touch, u16, AccessPlace)> {
    let instruction = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let listed = |access: &Access| ((access.file, access.first, access.written), access.count, access.place);
    accesses(&instruction).iter().map(listed).collect()
}

#[test]
fn guard_address_and_plain_operands_are_told_apart() {
    let guard = ((RegFile::Predicate, 3, false), 1, AccessPlace::Guard);
    let written = ((RegFile::General, 4, true), 4, AccessPlace::Plain(0));
    let descriptor = ((RegFile::Uniform, 6, false), 2, AccessPlace::Address(1));
    let address = ((RegFile::General, 2, false), 2, AccessPlace::Address(1));
    assert_eq!(of("@!P3 LDG.E.128 R4, desc[UR6][R2.64+0x10]"), [guard, written, descriptor, address]);
}

#[test]
fn constant_registers_are_no_accesses() {
    assert_eq!(of("@PT IADD3 RZ, RZ, RZ, RZ"), []);
    assert_eq!(of("ISETP.GE.AND PT, PT, RZ, 0x1, PT"), []);
}

/// nvdisasm marks no predicates for these instructions; the meaning of the mask was found in ptxas' code.
#[test]
fn sets_of_predicates_follow_the_mask() {
    let predicates = |text: &str, written: bool| -> Vec<u16> {
        let all = of(text);
        let chosen = all.iter().filter(|((file, _, direction), ..)| *file == RegFile::Predicate && *direction == written);
        chosen.map(|((_, number, _), ..)| *number).collect()
    };
    assert_eq!(predicates("R2P PR, R0, 0x5", true), [0, 2]);
    assert_eq!(predicates("P2R R0, PR, RZ, 0x7f", false), [0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(predicates("R2P PR, R0, R1", true), [0, 1, 2, 3, 4, 5, 6]);
}

#[test]
fn convergence_registers_read_and_written() {
    let both = |text: &str| -> Vec<bool> {
        let all = of(text);
        all.iter().filter(|((file, ..), ..)| *file == RegFile::Convergence).map(|((_, _, written), ..)| *written).collect()
    };
    assert_eq!(both("BSSY B0, 0x100"), [true]);
    assert_eq!(both("BSYNC B0"), [false]);
    assert_eq!(both("BREAK P0, B0"), [false, true]);
    assert_eq!(both("BMOV.32.CLEAR R0, B0"), [false, true]);
}

/// Compares with nvdisasm's life ranges for the code that ptxas generates for our examples. Each example is compared for one target, the
/// largest for two, or with `ORIOLE_REFRESH` for all: nvdisasm takes long to compute the ranges.
#[test]
fn code_of_ptxas() {
    let (Some(ptxas), Some(nvdisasm)) = (oriole_oracles::tool("ptxas"), oriole_oracles::tool("nvdisasm")) else { return };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let scratch = std::env::temp_dir().join(format!("oriole-footprint-{}", std::process::id()));
    std::fs::create_dir_all(&scratch).expect("scratch folder");
    let (mut compared, mut wrong) = (0, Vec::new());
    let sources: [(&str, &[&str]); 5] = [
        ("corpus/attention.ptx", &["sm_80", "sm_120a"]),
        ("corpus/wide_integers.ptx", &["sm_120a"]),
        ("corpus/mma_sync.ptx", &["sm_90a"]),
        ("corpus/textures.ptx", &["sm_90a"]),
        ("examples/block_sum.ptx", &["sm_80"]),
    ];
    for (source, sample) in sources {
        for name in oriole_oracles::targets_to_compare(&["sm_80", "sm_90a", "sm_120a"], sample) {
            let cubin = scratch.join("code.cubin");
            let made = Command::new(&ptxas).arg(format!("-arch={name}")).arg(root.join(source)).arg("-o").arg(&cubin).output();
            if !made.expect("ptxas runs").status.success() {
                continue;
            }
            let listing = Command::new(&nvdisasm).args(["-hex", "-lrm", "narrow", "-c"]).arg(&cubin).output();
            let listing = String::from_utf8(listing.expect("nvdisasm runs").stdout).expect("text");
            let target = Target::parse(name).expect("target");
            for (word, text, expected) in life_ranges(&listing) {
                let Some(instruction) = decode(word, target) else { panic!("{name}: {text} is unknown") };
                compared += 1;
                if explained(&instruction, target) {
                    continue;
                }
                let found: BTreeSet<_> = touches(&instruction).into_iter().filter(|touch| !untracked(touch)).collect();
                let expected: BTreeSet<_> = expected.into_iter().filter(|touch| !untracked(touch)).collect();
                if found != expected {
                    wrong.push(format!("{source} {name} {text}: ours {found:?}"));
                }
            }
        }
    }
    std::fs::remove_dir_all(&scratch).expect("scratch folder removed");
    assert!(compared > 1000, "{compared} instructions");
    assert!(wrong.is_empty(), "{} of {compared} differ: {:#?}", wrong.len(), &wrong[..wrong.len().min(20)]);
}

/// Returns whether a difference is expected. nvdisasm marks the registers of the callee at a call, and no predicates that a mask names;
/// `footprints.txt` covers the others.
fn explained(instruction: &Instruction, target: Target) -> bool {
    match instruction.opcode.mnemonic() {
        "CALL" | "P2R" | "R2P" | "UP2UR" | "UR2UP" | "LD" | "LDG" | "LDGSTS" => true,
        "TEX" | "TLD" | "TLD4" | "TXD" | "TXQ" => target.number() >= 100,
        _ => false,
    }
}

/// Returns whether nvdisasm does not mark a register: it never marks the first four uniform registers.
fn untracked(touch: &(String, u16, bool)) -> bool {
    touch.0 == "UR" && touch.1 < 4
}

/// Returns word, text and marked registers of each instruction of a listing with hexadecimal words. Each instruction takes two lines; the
/// marks are at the end of the second.
fn life_ranges(listing: &str) -> Vec<(u128, String, Marks)> {
    let mut columns: Vec<(&str, usize, usize)> = Vec::new();
    let mut names: Vec<(&str, usize, usize)> = Vec::new();
    let mut first: Option<(u128, String)> = None;
    let mut all = Vec::new();
    for line in listing.lines() {
        let Some((left, right)) = line.rsplit_once("// ").filter(|(_, right)| right.starts_with('|')) else { continue };
        if right.contains("GPR") {
            names = fields(right);
        } else if right.contains('#') {
            let numbered = |&(name, start, end): &(_, usize, usize)| right.get(start..end)?.find('#').map(|at| (name, start + at + 2, end));
            columns = names.iter().filter_map(numbered).collect();
        } else if let Some(word) = hex_of(left) {
            match first.take() {
                None => first = Some((word, text_of(left).to_string())),
                Some((low, text)) => all.push((low | word << 64, text, marks(right, &columns))),
            }
        }
    }
    all
}

/// Returns the text of the instruction after its address.
fn text_of(line: &str) -> &str {
    line.split("*/").nth(1).and_then(|rest| rest.split(';').next()).unwrap_or_default().trim()
}

/// Returns the columns between bars, with the register file that the heading names.
fn fields(headline: &str) -> Vec<(&'static str, usize, usize)> {
    let bars: Vec<usize> = headline.match_indices('|').map(|(at, _)| at).collect();
    let prefix = |title: &str| match title.trim() {
        "GPR" => "R",
        "PRED" => "P",
        "UGPR" => "UR",
        _ => "UP",
    };
    bars.windows(2).map(|pair| (prefix(&headline[pair[0] + 1..pair[1]]), pair[0] + 1, pair[1])).collect()
}

/// Returns the 64-bit word in the last comment of a line.
fn hex_of(line: &str) -> Option<u128> {
    let digits = line.rsplit_once("/* 0x")?.1.split(' ').next()?;
    u128::from_str_radix(digits, 16).ok()
}

fn marks(text: &str, columns: &[(&str, usize, usize)]) -> Marks {
    let mut all = BTreeSet::new();
    for &(file, start, end) in columns {
        for (number, mark) in text.get(start..end).unwrap_or_default().chars().enumerate() {
            if matches!(mark, 'v' | 'x') {
                all.insert((file.to_string(), number as u16, false));
            }
            if matches!(mark, '^' | 'x') {
                all.insert((file.to_string(), number as u16, true));
            }
        }
    }
    all
}
