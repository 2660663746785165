//! Creates mutants: legal cases with one change.

use super::Case;
use crate::table::{Modifier, rows_of};
use crate::target::{Platform, PtxVersion, Suffix, Target};

/// Operands that replace a correct one.
const OPERANDS: &[&str] = &[
    "%b16_3",
    "%b32_3",
    "%b64_3",
    "%f32_3",
    "%f64_3",
    "%u32_3",
    "%s64_3",
    "%pred_3",
    "!%pred_3",
    "5",
    "-1",
    "1.5",
    "0f3F800000",
    "_",
    "%tid.x",
    "glb",
    "[%b64_3]",
    "{%b32_3, %b32_4}",
    "{%f32_3, %f32_4, %f32_5, %f32_6}",
    "%quad",
    "undeclared",
    "%pair.x",
    "%u16_3",
    "%b128_3",
    "%f16_3",
    "%f16x2_3",
];

/// Modifiers that are common but illegal in most combinations.
const FOREIGN: &[&str] =
    &["ftz", "sat", "rn", "volatile", "uni", "cc", "approx", "wide", "global", "v2", "relu", "f16", "b64", "aligned", "sync", "gpu"];

/// Returns variants of a case with one change each: a modifier, an operand, or the platform. The changes depend on the text only.
pub fn mutants(case: &Case) -> Vec<Case> {
    let mut dice = Dice::new(&case.text);
    let (head, operands) = split(&case.text);
    let parts: Vec<&str> = head.split('.').collect();
    let with_text = |text: String| Case { text, ..case.clone() };
    let join = |parts: &[&str], operands: &[String]| format!("{} {};", parts.join("."), operands.join(", ")).replace(" ;", ";");
    let mut cases = Vec::new();
    if parts.len() > 1 {
        let position = 1 + dice.below(parts.len() - 1);
        cases.push(with_text(match dice.below(3) {
            0 => join(&[&parts[..position], &parts[position + 1..]].concat(), &operands),
            1 => {
                let other = neighbour(parts[0], parts[position], &mut dice);
                join(&[&parts[..position], &[other], &parts[position + 1..]].concat(), &operands)
            }
            _ => {
                let foreign = FOREIGN[dice.below(FOREIGN.len())];
                join(&[&parts[..position], &[foreign], &parts[position..]].concat(), &operands)
            }
        }));
    }
    if !operands.is_empty() && dice.below(2) == 0 {
        let position = dice.below(operands.len());
        let mut changed = operands.clone();
        match dice.below(8) {
            0 => {
                changed.remove(position);
            }
            1 => changed.push(operands[position].clone()),
            // For the address of these instructions ptxas accepts anything or does not terminate.
            _ if head.contains("bulk.tensor") && changed[position].starts_with('[') => {
                changed.pop();
            }
            _ => changed[position] = OPERANDS[dice.below(OPERANDS.len())].to_string(),
        }
        cases.push(with_text(join(&parts, &changed)));
    }
    if dice.below(4) == 0 {
        cases.push(Case { platform: lower_platform(&case.platform, &mut dice), ..case.clone() });
    }
    cases
}

/// Splits an instruction into its head and its operands.
fn split(text: &str) -> (&str, Vec<String>) {
    let text = text.trim_end_matches(';');
    let (head, rest) = text.split_once(' ').unwrap_or((text, ""));
    let mut operands = Vec::new();
    let (mut depth, mut current) = (0usize, String::new());
    for c in rest.chars() {
        match c {
            '[' | '{' | '(' => depth += 1,
            ']' | '}' | ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if c == ',' && depth == 0 {
            operands.push(std::mem::take(&mut current).trim().to_string());
        } else {
            current.push(c);
        }
    }
    if !current.trim().is_empty() {
        operands.push(current.trim().to_string());
    }
    (head, operands)
}

/// Returns another modifier than `before`: with probability 2/3 one of the same opcode, otherwise any.
fn neighbour(opcode: &str, before: &str, dice: &mut Dice) -> &'static str {
    let rows = rows_of(opcode).unwrap_or(&[]);
    let own: Vec<Modifier> =
        rows.iter().flat_map(|&row| super::ROWS[usize::from(row)].slots).flat_map(|slot| slot.values).copied().collect();
    for _ in 0..8 {
        let modifier =
            if !own.is_empty() && dice.below(3) > 0 { own[dice.below(own.len())] } else { Modifier::ALL[dice.below(Modifier::ALL.len())] };
        if modifier.spelling() != before {
            return modifier.spelling();
        }
    }
    "foo"
}

/// Returns a platform with an older version or an earlier target; the same platform if there is none.
fn lower_platform(platform: &Platform, dice: &mut Dice) -> Platform {
    const VERSIONS: &[(u8, u8)] =
        &[(8, 8), (8, 7), (8, 6), (8, 3), (8, 1), (8, 0), (7, 8), (7, 4), (7, 1), (7, 0), (6, 5), (6, 3), (6, 0), (5, 0), (4, 2), (3, 2)];
    const TARGETS: &[(u16, Suffix)] = &[
        (120, Suffix::FamilySpecific),
        (120, Suffix::Plain),
        (110, Suffix::FamilySpecific),
        (103, Suffix::FamilySpecific),
        (100, Suffix::FamilySpecific),
        (100, Suffix::Plain),
        (90, Suffix::Plain),
        (89, Suffix::Plain),
        (86, Suffix::Plain),
        (80, Suffix::Plain),
        (75, Suffix::Plain),
        (70, Suffix::Plain),
        (60, Suffix::Plain),
        (52, Suffix::Plain),
        (30, Suffix::Plain),
    ];
    let lower: Vec<Platform> = if dice.below(2) == 0 {
        VERSIONS.iter().map(|&(major, minor)| Platform { version: PtxVersion::new(major, minor), ..*platform }).collect()
    } else {
        let targets = TARGETS.iter().filter_map(|&(number, suffix)| Target::new(number, suffix));
        targets.map(|target| Platform { target, ..*platform }).collect()
    };
    let possible: Vec<Platform> =
        lower.into_iter().filter(|lower| lower.version <= platform.version && lower.target.introduced() <= lower.version).collect();
    if possible.is_empty() { *platform } else { possible[dice.below(possible.len())] }
}

/// A pseudorandom number generator (xorshift) seeded with a hash of the text, so that a text always has the same mutants.
struct Dice(u64);

impl Dice {
    fn new(text: &str) -> Self {
        Dice(text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)))
    }

    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % limit
    }
}
