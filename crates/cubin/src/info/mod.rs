//! Attributes: `.nv.info`, `.nv.info.NAME` and their Mercury counterparts.
//!
//! They hold what the driver must know about a function besides its code: registers, stack, parameters, offsets of the instructions that it
//! patches. A section is a list of records, each at a multiple of four bytes:
//!
//! ```text
//! byte 0   format: 1 no value, 2 a byte, 3 a half word, 4 sized
//! byte 1   code
//! byte 2-3 the value, or for the sized format the number of bytes that follow
//! ```
//!
//! [`AttributeValue`] is the decoded value. The layout of a sized value is given by the table in `codes.rs`. A value that does not fit its layout is
//! kept as bytes, so that writing reproduces what was read.

mod codes;
mod value;

use std::fmt;

pub use value::{AttributeValue, BranchTargets, Mbarrier, MbarrierKind, Parameter, ParameterBank, ParameterV2};

use crate::bytes::Bytes;
use crate::error::{Error, Result};
use value::ValueLayout;

/// The code of an attribute.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttributeCode(pub u8);

impl AttributeCode {
    /// Returns the name without `EIATTR_`, if the code has one.
    pub fn name(self) -> Option<&'static str> {
        self.row().map(|(_, name, _)| *name)
    }

    /// Returns the code with this name, with or without `EIATTR_`.
    pub fn named(name: &str) -> Option<AttributeCode> {
        let name = name.strip_prefix("EIATTR_").unwrap_or(name);
        codes::ROWS.iter().find(|(_, row, _)| *row == name).map(|(code, _, _)| AttributeCode(*code))
    }

    fn row(self) -> Option<&'static (u8, &'static str, ValueLayout)> {
        codes::ROWS.iter().find(|(code, _, _)| *code == self.0)
    }

    /// Returns the layout of a sized value.
    fn shape(self) -> ValueLayout {
        self.row().map_or(ValueLayout::Bytes, |(_, _, shape)| *shape)
    }
}

impl fmt::Debug for AttributeCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "EIATTR_{name}"),
            None => write!(f, "EIATTR {:#x}", self.0),
        }
    }
}

/// An attribute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attribute {
    pub code: AttributeCode,
    pub value: AttributeValue,
}

/// How a value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ValueFormat {
    /// `EIFMT_NVAL`
    None = 1,
    /// `EIFMT_BVAL`
    Byte = 2,
    /// `EIFMT_HVAL`
    Half = 3,
    /// `EIFMT_SVAL`
    Sized = 4,
}

impl ValueFormat {
    pub fn name(self) -> &'static str {
        match self {
            ValueFormat::None => "EIFMT_NVAL",
            ValueFormat::Byte => "EIFMT_BVAL",
            ValueFormat::Half => "EIFMT_HVAL",
            ValueFormat::Sized => "EIFMT_SVAL",
        }
    }

    pub(crate) fn of(number: u8) -> Option<ValueFormat> {
        [ValueFormat::None, ValueFormat::Byte, ValueFormat::Half, ValueFormat::Sized].into_iter().find(|format| *format as u8 == number)
    }
}

/// A record whose value is not decoded; `.nv.compat` has the same record format.
pub(crate) struct Record<'a> {
    pub format: ValueFormat,
    pub code: u8,
    /// Bytes 2 and 3.
    pub half: u16,
    /// The bytes after the record header, for the sized format.
    pub bytes: &'a [u8],
}

/// Splits a section into records.
pub(crate) fn records(data: Bytes<'_>) -> Result<Vec<Record<'_>>> {
    let mut records = Vec::new();
    let mut at = 0;
    while at < data.len() {
        let head = data.window(at, 4, "an attribute")?;
        let (number, code, half) = (head.u8(0, "format")?, head.u8(1, "code")?, head.u16(2, "value")?);
        let Some(format) = ValueFormat::of(number) else {
            return Err(Error::at(head.place(0), format!("an attribute has format {number}; formats are 1 to 4")));
        };
        at += 4;
        let size = if format == ValueFormat::Sized { u64::from(half) } else { 0 };
        let bytes = data.window(at, size, "the value of an attribute")?.data();
        at += size;
        records.push(Record { format, code, half, bytes });
    }
    Ok(records)
}

pub(crate) fn decode(data: Bytes<'_>) -> Result<Vec<Attribute>> {
    let decode = |record: Record<'_>| {
        let code = AttributeCode(record.code);
        Attribute { code, value: AttributeValue::decode(code.shape(), &record) }
    };
    Ok(records(data)?.into_iter().map(decode).collect())
}

pub(crate) fn encode(attributes: &[Attribute]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for attribute in attributes {
        attribute.value.encode(attribute.code.0, &mut out)?;
    }
    Ok(out)
}

/// Names of the bits of `EIATTR_SPARSE_MMA_MASK`: the sparse instructions that a function uses.
pub const SPARSE_MMA: [&str; 8] = ["QGMMA.SP", "HGMMA.SP", "IGMMA.SP", "QMMA.SP", "HMMA.SP", "IMMA.SP", "UTC*MMASparse", "OMMA.SP"];

impl Attribute {
    pub fn new(code: AttributeCode, value: AttributeValue) -> Attribute {
        Attribute { code, value }
    }

    /// Returns an attribute that holds a number for a function.
    pub fn per_symbol(code: AttributeCode, symbol: u32, value: u32) -> Attribute {
        Attribute { code, value: AttributeValue::PerSymbol { symbol, value } }
    }

    /// Returns an attribute that holds a list of words.
    pub fn words(code: AttributeCode, words: impl Into<Vec<u32>>) -> Attribute {
        Attribute { code, value: AttributeValue::Words(words.into()) }
    }
}
