//! Enumerates all legal forms of the table, mutants of them that may be illegal, and reorderings of their modifiers.
//!
//! A [`Case`] is one instruction with the platform it is compiled for. [`module_text`] puts cases into a module that declares everything
//! they use. The verdict tests compare the result of [`crate::check`] for each case with the recorded result of ptxas.
//!
//! The enumeration covers all modifiers and optional operands of a row. If a row has more combinations than the limit, every n-th is used.
//! Mutation is deterministic: the change depends on the text only.

mod mutate;
mod orders;
mod sample;
pub mod verdicts;

use std::fmt::Write;

use crate::ast::{Form, SlotValue};
use crate::table::{ROWS, Row, SlotSpec};
use crate::target::{Platform, PtxVersion, Suffix, Target};

pub use mutate::mutants;
pub use orders::orders;

/// A test case: one instruction.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The instruction, with its semicolon.
    pub text: String,
    /// The PTX version and target to compile for.
    pub platform: Platform,
    /// Whether it uses a sampler and therefore needs independent texture mode.
    pub independent_textures: bool,
}

/// Targets in order of preference; the first one that meets all requirements of a form is used.
const TARGETS: &[(u16, Suffix)] = &[
    (90, Suffix::ArchSpecific),
    (100, Suffix::ArchSpecific),
    (103, Suffix::ArchSpecific),
    (110, Suffix::ArchSpecific),
    (120, Suffix::ArchSpecific),
    (75, Suffix::Plain),
    (60, Suffix::Plain),
    (20, Suffix::Plain),
    (13, Suffix::Plain),
    (89, Suffix::Plain),
];

/// Versions in order of preference: the newest, then older ones for removed features.
const VERSIONS: &[(u8, u8)] = &[(9, 0), (8, 8), (6, 5), (6, 3), (6, 2), (6, 0), (4, 0), (3, 0), (2, 0), (1, 4)];

/// Returns the legal forms of a row. If there are more than `limit` combinations, samples them evenly.
pub fn legal_forms(row_index: usize, limit: usize) -> Vec<Case> {
    let row = &ROWS[row_index];
    let combinations = Combinations::new(row);
    let step = combinations.count().div_ceil(limit.max(1) as u64).max(1);
    let mut cases = Vec::new();
    let mut index = 0;
    while index < combinations.count() {
        if let Some(values) = combinations.get(index) {
            for form in crate::parse::forms_of(row_index as u16, &values) {
                cases.extend(case_of(&form));
            }
        }
        index += step;
    }
    cases
}

/// Returns the test case of a form; `None` if no platform meets its requirements.
fn case_of(form: &Form) -> Option<Case> {
    let platform = platform_for(form.row(), &form.modifiers)?;
    let operands = sample::operands(form);
    let independent_textures = operands.contains("smp") || sample::wants_sampler(form);
    let mut text = crate::parse::spell(form.row(), &form.modifiers);
    if !operands.is_empty() {
        text.push(' ');
        text.push_str(&operands);
    }
    text.push(';');
    Some(Case { text, platform, independent_textures })
}

/// Returns a version and target that meet all requirements of a form.
fn platform_for(row: &'static Row, values: &[SlotValue]) -> Option<Platform> {
    let targets = || TARGETS.iter().filter_map(|&(number, suffix)| Target::new(number, suffix));
    let candidates = VERSIONS.iter().flat_map(|&version| targets().map(move |target| (version, target)));
    candidates
        .map(|((major, minor), target)| Platform { version: PtxVersion::new(major, minor), target })
        .filter(|platform| platform.target.introduced() <= platform.version)
        .find(|platform| crate::parse::unmet(row, values, platform).is_none())
}

/// The Cartesian product of a row's optional groups and slot values, indexed by number.
struct Combinations {
    row: &'static Row,
    groups: Vec<u8>,
}

impl Combinations {
    fn new(row: &'static Row) -> Self {
        let mut groups: Vec<u8> = row.slots.iter().map(|slot| slot.group).filter(|&group| group > 0).collect();
        groups.dedup();
        Combinations { row, groups }
    }

    fn count(&self) -> u64 {
        let slots: u64 = self.row.slots.iter().map(|slot| slot.values.len() as u64).product();
        slots << self.groups.len()
    }

    /// Returns the combination with this number. Returns `None` if the row denies it, or if it duplicates another combination because a
    /// slot of an absent group has a value other than its first.
    fn get(&self, index: u64) -> Option<Vec<SlotValue>> {
        let present = index & ((1 << self.groups.len()) - 1);
        let mut rest = index >> self.groups.len();
        let mut values = Vec::new();
        for slot in self.row.slots {
            let choice = rest % slot.values.len() as u64;
            rest /= slot.values.len() as u64;
            if self.is_present(slot, present) {
                values.push(SlotValue { slot: slot.slot, modifier: slot.values[choice as usize] });
            } else if choice != 0 {
                return None;
            }
        }
        let denied = self.row.denials.iter().any(|denied| crate::ast::fulfils(&values, denied));
        (!denied).then_some(values)
    }

    fn is_present(&self, slot: &SlotSpec, present: u64) -> bool {
        slot.group == 0 || self.groups.iter().position(|&group| group == slot.group).is_some_and(|position| present >> position & 1 == 1)
    }
}

/// Returns a module with one kernel per instruction, and the line of each instruction, counted from 1. All cases must have the same
/// platform and texture mode.
pub fn module_text(cases: &[Case]) -> (String, Vec<u32>) {
    let Some(first) = cases.first() else { return (String::new(), Vec::new()) };
    let Platform { version, target } = first.platform;
    let mode = if first.independent_textures { ", texmode_independent" } else { "" };
    let mut text = format!(".version {version}\n.target {target}{mode}\n");
    if version >= PtxVersion::new(2, 3) {
        text.push_str(".address_size 64\n");
    }
    text.push_str(&sample::globals(first));
    let mut line = text.lines().count() as u32;
    let mut places = Vec::new();
    let registers = sample::registers(&first.platform);
    for (number, case) in cases.iter().enumerate() {
        let before = format!(".entry k{number}({})\n{{\n{registers}L:\n", sample::PARAMETERS);
        line += before.lines().count() as u32 + 1;
        places.push(line);
        let _ = write!(text, "{before}{}\nexit;\n}}\n", case.text);
        line += 2;
    }
    (text, places)
}
