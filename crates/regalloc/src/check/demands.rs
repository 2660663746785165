//! The facts that the verifier propagates: which content a location must have.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use oriole_ir::{Operand, OperandKind, RegFile, Value};

use crate::registers::Reg;

/// An error in an allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckError {
    /// A description for people who debug the allocator.
    pub message: String,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CheckError {}

pub(super) fn error<T>(message: String) -> Result<T, CheckError> {
    Err(CheckError { message })
}

/// A location that holds one register's worth of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Location {
    Register(RegFile, Reg),
    /// Byte offset of a 4-byte word in the frame.
    Slot(i64),
}

impl Location {
    /// Returns a key for the order: registers by file, then slots.
    fn key(self) -> (u8, i64) {
        match self {
            Location::Register(file, register) => (file as u8, i64::from(register.number())),
            Location::Slot(offset) => (u8::MAX, offset),
        }
    }
}

impl Ord for Location {
    fn cmp(&self, other: &Location) -> Ordering {
        self.key().cmp(&other.key())
    }
}

impl PartialOrd for Location {
    fn partial_cmp(&self, other: &Location) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// One register's worth of data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// One register of an SSA value: the value, and the index of the register in it.
    Unit(Value, u8),
    /// A 32-bit integer, or a predicate as 0 or 1.
    Number(u32),
    /// A word of a constant bank, or an address known to the linker.
    Known(OperandKind),
}

/// The content that each location must have at one point of the function.
pub(super) type Demands = BTreeMap<Location, Content>;

/// Adds a demand; an error if the location already has a different one. `by` describes the origin of the demand, for the message.
pub(super) fn demand(demands: &mut Demands, at: Location, content: Content, by: impl Fn() -> String) -> Result<(), CheckError> {
    match demands.insert(at, content) {
        Some(other) if other != content => error(format!("{at:?} should hold both {other:?} and {content:?}, {}", by())),
        _ => Ok(()),
    }
}

/// Returns one register of a constant operand; `None` if it is undefined.
pub(super) fn constant(operand: &Operand, unit: u8) -> Option<Content> {
    match operand.kind {
        OperandKind::Undefined => None,
        OperandKind::Integer(number) => Some(Content::Number((number >> (32 * u32::from(unit.min(1)))) as u32)),
        OperandKind::Zero(RegFile::General | RegFile::Uniform) => Some(Content::Number(0)),
        OperandKind::Zero(_) => Some(Content::Number(u32::from(operand.signs.is_empty()))),
        OperandKind::Constant { bank, offset } => {
            Some(Content::Known(OperandKind::Constant { bank, offset: offset + 4 * u32::from(unit) }))
        }
        other => Some(Content::Known(other)),
    }
}

/// Returns whether an operand is the predicate that is always true.
pub(super) fn is_true(operand: &Operand) -> bool {
    matches!(operand.kind, OperandKind::Zero(RegFile::Predicate | RegFile::UniformPredicate)) && operand.signs.is_empty()
}

/// Returns whether an operand is the register that is always zero.
pub(super) fn is_zero(operand: &Operand) -> bool {
    matches!(operand.kind, OperandKind::Zero(RegFile::General | RegFile::Uniform))
}
