//! Computes the number of consecutive registers that an operand names, by the rules of `data/widths.tbl`.
//!
//! An operand has one or two [`OperandRole`]s, such as second source, register of an address, or descriptor. The rules of an instruction
//! are evaluated in the order of the file. The first rule whose conditions hold and that gives the role a width decides the width;
//! increments and the "also read" and "also written" marks of all matching rules add up. Without a rule the width is one register.
//!
//! Example: the rule `STG | .128 | s1=4` gives the stored value (source 1) of `STG.E.128 [R2], R4` four registers, R4 to R7.

use smallvec::SmallVec;

use crate::instruction::{Instruction, OperandValue, Symbols};
use crate::table::{RegFile, Symbol, WIDTH_KINDS, WIDTH_RULES};

/// A rule: one line of the file, for one instruction.
#[derive(Debug)]
pub(crate) struct WidthRule {
    pub conditions: &'static [Condition],
    pub effects: &'static [(OperandRole, WidthAction)],
}

/// A condition of a rule on the instruction or the operand.
#[derive(Debug)]
pub(crate) enum Condition {
    /// One of the alternatives, each a sequence of modifiers, occurs among the modifiers (`present`), or none does.
    Modifiers { alternatives: &'static [&'static [Symbol]], present: bool },
    /// The operand has one of these suffixes.
    Own(&'static [Symbol]),
    /// One of these names is an operand of the instruction.
    Named(&'static [Symbol]),
    /// An address without a word before the brackets contains a uniform register.
    UniformAddress,
}

/// The purpose of an operand, and its index among the operands with that purpose. A rule without an index applies to all of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OperandRole {
    pub kind: OperandPurpose,
    pub index: Option<u8>,
}

/// The purpose of an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OperandPurpose {
    /// A register that is written, not counting predicates.
    Destination,
    /// An operand that is not written, of any kind; the index counts these operands.
    Source,
    /// A source that is a uniform register; the index is that of [`OperandPurpose::Source`].
    UniformSource,
    /// A general register in the brackets of a source.
    Address,
    /// A uniform register in the brackets of a source.
    UniformAddress,
    /// Not an operand: the number of texture coordinates, for widths that depend on it.
    Coordinates,
    /// Not an operand: the number of other texture arguments.
    Extras,
    /// The uniform register of `desc[UR]`.
    Descriptor,
    /// The uniform register of `gdesc[UR]`.
    MatrixDescriptor,
    /// The uniform register of `cx[UR]`.
    ConstantBank,
    /// A register in the offset of a constant bank; always a single register.
    ConstantOffset,
}

/// What a rule says about a role.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WidthAction {
    /// The width, unless an earlier rule decided it.
    Is(Width),
    /// A number of registers to add to the width.
    Plus(u8),
    /// The destination is read as well.
    AlsoRead,
    /// The source is written as well.
    AlsoWritten,
}

/// A width in registers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Fixed(u8),
    /// N of a modifier of the shape `.MxNxK`, divided by `divisor`.
    ShapeColumns {
        divisor: u16,
    },
    /// N of a modifier `.xN`, times `each`.
    Repeats {
        each: u16,
    },
    /// The sum for [`OperandPurpose::Coordinates`].
    Coordinates,
    /// The sum for [`OperandPurpose::Extras`].
    Extras,
    /// Half of the sum of both; `round_up` is 1 to round up and 0 to round down.
    HalfOfBoth {
        round_up: u16,
    },
    /// Number of set bits among the lowest four bits of the mask operand.
    MaskLow,
    /// Number of set bits among bits 4 to 7 of the mask operand.
    MaskHigh,
    /// Number of components in a texture's mask, at most two: those in the first destination.
    ComponentsLower,
    /// Number of components in a texture's mask beyond the first two: those in the second destination.
    ComponentsUpper,
}

/// The registers that an operand names.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    /// Number of consecutive registers.
    pub count: u16,
    /// Whether a destination is read as well.
    pub also_read: bool,
    /// Whether a source is written as well.
    pub also_written: bool,
}

impl Extent {
    /// A single register.
    pub(crate) const SINGLE: Extent = Extent { count: 1, also_read: false, also_written: false };
}

/// Computes the registers that an operand with these roles names. `suffixes` are the modifiers of the operand itself.
pub(crate) fn extent(instruction: &Instruction, roles: &[OperandRole], suffixes: &Symbols) -> Extent {
    let named = WIDTH_KINDS[instruction.opcode as usize];
    // Most instructions have no rule for the role; the precomputed set of kinds avoids walking the rules.
    if roles.iter().all(|role| named >> role.kind as u16 & 1 == 0) {
        return Extent::SINGLE;
    }
    let said = apply(instruction, roles, suffixes);
    Extent { count: (said.decided.unwrap_or(1) + said.more).max(1), also_read: said.also_read, also_written: said.also_written }
}

/// Returns the number that the rules give for a kind that is not an operand.
fn sum(instruction: &Instruction, kind: OperandPurpose) -> u16 {
    let said = apply(instruction, &[OperandRole { kind, index: None }], &Symbols::new());
    said.decided.unwrap_or(0) + said.more
}

/// Accumulated result of the rules for one operand.
#[derive(Default)]
struct Said {
    /// The width given by the first matching rule.
    decided: Option<u16>,
    /// Sum of the increments.
    more: u16,
    also_read: bool,
    also_written: bool,
}

/// Evaluates the rules of an instruction for an operand with these roles.
fn apply(instruction: &Instruction, roles: &[OperandRole], suffixes: &Symbols) -> Said {
    let mut said = Said::default();
    for rule in WIDTH_RULES[instruction.opcode as usize] {
        let mut actions = rule.effects.iter().filter(|(role, _)| roles.iter().any(|own| fits(role, own))).peekable();
        if actions.peek().is_none() || !rule.conditions.iter().all(|condition| holds(condition, instruction, suffixes)) {
            continue;
        }
        for &(_, action) in actions {
            match action {
                WidthAction::Is(width) => said.decided = said.decided.or_else(|| Some(registers(width, instruction))),
                WidthAction::Plus(number) => said.more += u16::from(number),
                WidthAction::AlsoRead => said.also_read = true,
                WidthAction::AlsoWritten => said.also_written = true,
            }
        }
    }
    said
}

/// Returns whether a rule for the role `rule` applies to an operand with the role `operand`.
fn fits(rule: &OperandRole, operand: &OperandRole) -> bool {
    rule.kind == operand.kind && (rule.index.is_none() || rule.index == operand.index)
}

/// Returns whether a condition holds for an operand with these suffixes.
fn holds(condition: &Condition, instruction: &Instruction, suffixes: &Symbols) -> bool {
    match condition {
        Condition::Modifiers { alternatives, present } => {
            let found = alternatives.iter().any(|run| instruction.modifiers.windows(run.len()).any(|window| window == *run));
            found == *present
        }
        Condition::Own(known) => suffixes.iter().any(|suffix| known.contains(suffix)),
        Condition::Named(names) => {
            instruction.operands.iter().any(|operand| matches!(&operand.value, OperandValue::Name(name) if names.contains(name)))
        }
        Condition::UniformAddress => instruction.operands.iter().any(|operand| match &operand.value {
            OperandValue::Address(address) if address.word.spelling().is_empty() => {
                address.parts.iter().flat_map(|part| &part.registers).any(|register| register.file == RegFile::Uniform)
            }
            _ => false,
        }),
    }
}

/// Returns the number of registers that a width stands for in an instruction.
fn registers(width: Width, instruction: &Instruction) -> u16 {
    match width {
        Width::Fixed(number) => u16::from(number),
        Width::ShapeColumns { divisor } => number_in_modifier(instruction, shape_columns).unwrap_or(1) / divisor,
        Width::Repeats { each } => number_in_modifier(instruction, repeats).unwrap_or(1) * each,
        Width::Coordinates => sum(instruction, OperandPurpose::Coordinates),
        Width::Extras => sum(instruction, OperandPurpose::Extras),
        Width::HalfOfBoth { round_up } => {
            (sum(instruction, OperandPurpose::Coordinates) + sum(instruction, OperandPurpose::Extras) + round_up) / 2
        }
        Width::MaskLow => (mask(instruction) & 0xf).count_ones() as u16,
        Width::MaskHigh => (mask(instruction) >> 4 & 0xf).count_ones() as u16,
        Width::ComponentsLower => (mask(instruction) & 0xf).count_ones().min(2) as u16,
        Width::ComponentsUpper => (mask(instruction) & 0xf).count_ones().saturating_sub(2) as u16,
    }
}

/// Returns the number that `read` finds in the first modifier that has one.
fn number_in_modifier(instruction: &Instruction, read: fn(&str) -> Option<u16>) -> Option<u16> {
    instruction.modifiers.iter().find_map(|modifier| read(modifier.spelling()))
}

/// Returns N of a modifier `.MxNxK`.
fn shape_columns(modifier: &str) -> Option<u16> {
    let mut numbers = modifier.strip_prefix('.')?.split('x');
    let (_rows, columns, _depth) = (numbers.next()?, numbers.next()?, numbers.next()?);
    columns.parse().ok()
}

/// Returns N of a modifier `.xN`.
fn repeats(modifier: &str) -> Option<u16> {
    modifier.strip_prefix(".x")?.parse().ok()
}

/// Returns the mask of components or words: the last operand that is not a register, if it is an integer; otherwise all ones.
fn mask(instruction: &Instruction) -> u64 {
    let last = instruction.operands.iter().rev().find(|operand| !matches!(operand.value, OperandValue::Register(..)));
    match last.map(|operand| &operand.value) {
        Some(OperandValue::Integer(number)) => *number as u64,
        _ => u64::MAX,
    }
}

/// Returns the roles of the source with this index.
pub(crate) fn source_roles(index: u8, file: RegFile) -> SmallVec<[OperandRole; 2]> {
    let mut roles: SmallVec<[OperandRole; 2]> = SmallVec::new();
    if file == RegFile::Uniform {
        roles.push(OperandRole { kind: OperandPurpose::UniformSource, index: Some(index) });
    }
    roles.push(OperandRole { kind: OperandPurpose::Source, index: Some(index) });
    roles
}
