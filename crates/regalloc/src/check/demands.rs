//! The facts that the verifier propagates: the content that a register or spill slot must have.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use oriole_ir::{Operand, OperandKind, RegFile, Value};

use crate::registers::Reg;

/// An error that the verifier found in an allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CheckError {
    /// A description of the error for developers of the allocator.
    pub message: String,
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CheckError {}

/// Returns `Err` with a verification error with this message.
pub(super) fn error<T>(message: String) -> Result<T, CheckError> {
    Err(CheckError { message })
}

/// A register, or a word of a spill slot: a location whose content the verifier tracks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum TrackedLocation {
    /// A physical register.
    Register(RegFile, Reg),
    /// Byte offset of a 4-byte word in the frame.
    Slot(i64),
}

impl TrackedLocation {
    /// Returns the key by which locations are sorted: registers by file and number, then slots by offset.
    fn sort_key(self) -> (u8, i64) {
        match self {
            TrackedLocation::Register(file, register) => (file as u8, i64::from(register.number())),
            TrackedLocation::Slot(offset) => (u8::MAX, offset),
        }
    }
}

impl Ord for TrackedLocation {
    fn cmp(&self, other: &TrackedLocation) -> Ordering {
        self.sort_key().cmp(&other.sort_key())
    }
}

impl PartialOrd for TrackedLocation {
    fn partial_cmp(&self, other: &TrackedLocation) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The content that one register, or one word of a spill slot, has or must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum LocationContent {
    /// One register of an SSA value: the value, and the index of the register in the tuple, counted from 0.
    ValueRegister(Value, u8),
    /// A 32-bit integer, or a predicate as 0 or 1.
    Integer(u32),
    /// A 4-byte word of a constant bank, or an address that the linker resolves, as an operand of a move.
    ConstantOperand(OperandKind),
}

/// The demands at one point of the function: for each location, the content that it must have there for the code after the point to be
/// correct.
pub(super) type Demands = BTreeMap<TrackedLocation, LocationContent>;

/// Adds a demand that `location` holds `content`. Returns an error if there is already a demand for other content there. The error message
/// names the origin of the new demand, the text that `origin` returns.
pub(super) fn demand(
    demands: &mut Demands,
    location: TrackedLocation,
    content: LocationContent,
    origin: impl Fn() -> String,
) -> Result<(), CheckError> {
    match demands.insert(location, content) {
        Some(other) if other != content => error(format!("{location:?} should hold both {other:?} and {content:?}, {}", origin())),
        _ => Ok(()),
    }
}

/// Returns the content of register `register_index` (counted from 0) of a constant operand; `None` if the content is undefined.
pub(super) fn constant_content(operand: &Operand, register_index: u8) -> Option<LocationContent> {
    match operand.kind {
        OperandKind::Undefined => None,
        // An integer has 64 bits; the registers after the first two are zero.
        OperandKind::Integer(number) => {
            Some(LocationContent::Integer(number.checked_shr(32 * u32::from(register_index)).map_or(0, |bits| bits as u32)))
        }
        OperandKind::Zero(RegFile::General | RegFile::Uniform) => Some(LocationContent::Integer(0)),
        OperandKind::Zero(_) => Some(LocationContent::Integer(u32::from(operand.signs.is_empty()))),
        OperandKind::Constant { bank, offset } => {
            Some(LocationContent::ConstantOperand(OperandKind::Constant { bank, offset: offset + 4 * u32::from(register_index) }))
        }
        other => Some(LocationContent::ConstantOperand(other)),
    }
}

/// Returns whether an operand is the predicate that is always true.
pub(super) fn is_true_predicate(operand: &Operand) -> bool {
    matches!(operand.kind, OperandKind::Zero(RegFile::Predicate | RegFile::UniformPredicate)) && operand.signs.is_empty()
}

/// Returns whether an operand is the register that is always zero.
pub(super) fn is_zero_register_operand(operand: &Operand) -> bool {
    matches!(operand.kind, OperandKind::Zero(RegFile::General | RegFile::Uniform))
}
