//! How many consecutive registers an operand stands for, by the rules of `data/widths.tbl`.
//!
//! An operand has a [`Role`]: the second source, the register of an address, a descriptor. The rules of an instruction are tried in
//! the order of the file; the first whose conditions hold and that names the role decides.

use smallvec::SmallVec;

use crate::instruction::{Instruction, Symbols, Value};
use crate::table::{File, Symbol, WIDTH_KINDS, WIDTH_RULES};

/// A line of the file, for one instruction.
#[derive(Debug)]
pub(crate) struct Rule {
    pub conditions: &'static [Condition],
    pub effects: &'static [(Role, Action)],
}

#[derive(Debug)]
pub(crate) enum Condition {
    /// One of these runs is among the modifiers, or none is.
    Modifiers { alternatives: &'static [&'static [Symbol]], present: bool },
    /// The operand itself has one of these suffixes.
    Own(&'static [Symbol]),
    /// One of these names is an operand.
    Named(&'static [Symbol]),
    /// An address that is no descriptor has a uniform register.
    UniformAddress,
}

/// What an operand is for, and which one of its kind; a rule without an index is for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role {
    pub kind: Kind,
    pub index: Option<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// A written register, predicates not counted.
    Destination,
    /// An operand that is not written, of any sort; by position among those.
    Source,
    /// A uniform register among them.
    UniformSource,
    /// A general register in the brackets of a source.
    Address,
    /// A uniform register there.
    UniformAddress,
    /// No operand: how many coordinates a texture is given, for widths that depend on it.
    Coordinates,
    /// No operand: how many other things it is given.
    Extras,
    /// `desc[UR]`
    Descriptor,
    /// `gdesc[UR]`
    MatrixDescriptor,
    /// `cx[UR]`
    ConstantBank,
    /// A register that is added inside of a constant bank; always single.
    ConstantOffset,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Action {
    Is(Width),
    Plus(u8),
    AlsoRead,
    AlsoWritten,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Width {
    Fixed(u8),
    /// N of a shape MxNxK among the modifiers, divided.
    ShapeColumns {
        divisor: u16,
    },
    /// The number of a modifier `.xN`, times this many registers.
    Repeats {
        each: u16,
    },
    /// What [`Kind::Coordinates`], [`Kind::Extras`] or half of both add up to.
    Coordinates,
    Extras,
    HalfOfBoth {
        round_up: u16,
    },
    /// Set bits in the lower or upper four of the mask.
    MaskLow,
    MaskHigh,
    /// Of the components that a texture's mask names: the first two, the others.
    ComponentsLower,
    ComponentsUpper,
}

/// What the rules say about one operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Extent {
    pub count: u16,
    pub also_read: bool,
    pub also_written: bool,
}

impl Extent {
    /// One register.
    pub(crate) const SINGLE: Extent = Extent { count: 1, also_read: false, also_written: false };
}

/// The extent of an operand that has any of these roles. `suffixes` are its own.
pub(crate) fn extent(instruction: &Instruction, roles: &[Role], suffixes: &Symbols) -> Extent {
    let named = WIDTH_KINDS[instruction.opcode as usize];
    if roles.iter().all(|role| named >> role.kind as u16 & 1 == 0) {
        return Extent::SINGLE;
    }
    let said = apply(instruction, roles, suffixes);
    Extent { count: (said.decided.unwrap_or(1) + said.more).max(1), also_read: said.also_read, also_written: said.also_written }
}

/// What the rules add up to for something that is no operand.
fn sum(instruction: &Instruction, kind: Kind) -> u16 {
    let said = apply(instruction, &[Role { kind, index: None }], &Symbols::new());
    said.decided.unwrap_or(0) + said.more
}

#[derive(Default)]
struct Said {
    decided: Option<u16>,
    more: u16,
    also_read: bool,
    also_written: bool,
}

fn apply(instruction: &Instruction, roles: &[Role], suffixes: &Symbols) -> Said {
    let mut said = Said::default();
    for rule in WIDTH_RULES[instruction.opcode as usize] {
        let mut actions = rule.effects.iter().filter(|(role, _)| roles.iter().any(|own| fits(role, own))).peekable();
        if actions.peek().is_none() || !rule.conditions.iter().all(|condition| holds(condition, instruction, suffixes)) {
            continue;
        }
        for &(_, action) in actions {
            match action {
                Action::Is(width) => said.decided = said.decided.or_else(|| Some(registers(width, instruction))),
                Action::Plus(number) => said.more += u16::from(number),
                Action::AlsoRead => said.also_read = true,
                Action::AlsoWritten => said.also_written = true,
            }
        }
    }
    said
}

fn fits(rule: &Role, operand: &Role) -> bool {
    rule.kind == operand.kind && (rule.index.is_none() || rule.index == operand.index)
}

fn holds(condition: &Condition, instruction: &Instruction, suffixes: &Symbols) -> bool {
    match condition {
        Condition::Modifiers { alternatives, present } => {
            let found = alternatives.iter().any(|run| instruction.modifiers.windows(run.len()).any(|window| window == *run));
            found == *present
        }
        Condition::Own(known) => suffixes.iter().any(|suffix| known.contains(suffix)),
        Condition::Named(names) => {
            instruction.operands.iter().any(|operand| matches!(&operand.value, Value::Name(name) if names.contains(name)))
        }
        Condition::UniformAddress => instruction.operands.iter().any(|operand| match &operand.value {
            Value::Address(address) if address.word.spelling().is_empty() => {
                address.parts.iter().flat_map(|part| &part.registers).any(|register| register.file == File::Uniform)
            }
            _ => false,
        }),
    }
}

fn registers(width: Width, instruction: &Instruction) -> u16 {
    match width {
        Width::Fixed(number) => u16::from(number),
        Width::ShapeColumns { divisor } => number_in_modifier(instruction, shape_columns).unwrap_or(1) / divisor,
        Width::Repeats { each } => number_in_modifier(instruction, repeats).unwrap_or(1) * each,
        Width::Coordinates => sum(instruction, Kind::Coordinates),
        Width::Extras => sum(instruction, Kind::Extras),
        Width::HalfOfBoth { round_up } => (sum(instruction, Kind::Coordinates) + sum(instruction, Kind::Extras) + round_up) / 2,
        Width::MaskLow => (mask(instruction) & 0xf).count_ones() as u16,
        Width::MaskHigh => (mask(instruction) >> 4 & 0xf).count_ones() as u16,
        Width::ComponentsLower => (mask(instruction) & 0xf).count_ones().min(2) as u16,
        Width::ComponentsUpper => (mask(instruction) & 0xf).count_ones().saturating_sub(2) as u16,
    }
}

fn number_in_modifier(instruction: &Instruction, read: fn(&str) -> Option<u16>) -> Option<u16> {
    instruction.modifiers.iter().find_map(|modifier| read(modifier.spelling()))
}

/// 64 in `.64x64x16`.
fn shape_columns(modifier: &str) -> Option<u16> {
    let mut numbers = modifier.strip_prefix('.')?.split('x');
    let (_rows, columns, _depth) = (numbers.next()?, numbers.next()?, numbers.next()?);
    columns.parse().ok()
}

/// 8 in `.x8`.
fn repeats(modifier: &str) -> Option<u16> {
    modifier.strip_prefix(".x")?.parse().ok()
}

/// The set of components or words, which is the last number unless a name or an address stands behind it; all if there is none.
fn mask(instruction: &Instruction) -> u64 {
    let last = instruction.operands.iter().rev().find(|operand| !matches!(operand.value, Value::Register(..)));
    match last.map(|operand| &operand.value) {
        Some(Value::Integer(number)) => *number as u64,
        _ => u64::MAX,
    }
}

/// The roles of a source by position.
pub(crate) fn source_roles(index: u8, file: File) -> SmallVec<[Role; 2]> {
    let mut roles: SmallVec<[Role; 2]> = SmallVec::new();
    if file == File::Uniform {
        roles.push(Role { kind: Kind::UniformSource, index: Some(index) });
    }
    roles.push(Role { kind: Kind::Source, index: Some(index) });
    roles
}
