//! `.nv.compat`: what a cubin requires from the SM and the driver that finalize it. Written for Hopper and later.
//!
//! The record format is that of `.nv.info`, with different codes.

use std::fmt;

use crate::bytes::Bytes;
use crate::error::{Error, Result};
use crate::info::{ValueFormat, records};

/// The code of an attribute in `.nv.compat`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CompatCode(pub u8);

/// The names that cuobjdump 13.2 prints, without `EICOMPAT_ATTR_`.
const NAMES: [&str; 13] = [
    "ERROR",
    "PAD",
    "ISA_CLASS",
    "INST_TENSORMAP_V1",
    "INST_TCGEN05_MMA_DEPRECATED",
    "INST_TCGEN05_MMA",
    "ENABLE_OPPORTUNISTIC_FINALIZATION",
    "MERCURY_ISA_MAJOR_MINOR_VERSION",
    "MERCURY_ISA_PATCH_VERSION",
    "CUDA_ACCELERATOR_TARGET",
    "CUDA_DRIVER_VERSION",
    "CAN_FASTPATH_FINALIZE",
    "ERROR_LAST",
];

impl CompatCode {
    pub const ISA_CLASS: Self = Self(2);
    pub const INST_TENSORMAP_V1: Self = Self(3);
    pub const INST_TCGEN05_MMA: Self = Self(5);
    pub const ENABLE_OPPORTUNISTIC_FINALIZATION: Self = Self(6);
    pub const MERCURY_ISA_MAJOR_MINOR_VERSION: Self = Self(7);
    /// 1 for a target with the suffix `a`.
    pub const CUDA_ACCELERATOR_TARGET: Self = Self(9);
    pub const CAN_FASTPATH_FINALIZE: Self = Self(11);

    /// Returns the name without `EICOMPAT_ATTR_`, if the code has one.
    pub fn name(self) -> Option<&'static str> {
        NAMES.get(usize::from(self.0)).copied()
    }
}

impl fmt::Debug for CompatCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => write!(f, "EICOMPAT_ATTR_{name}"),
            None => write!(f, "EICOMPAT_ATTR {:#x}", self.0),
        }
    }
}

/// An attribute of `.nv.compat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompatAttribute {
    pub code: CompatCode,
    pub value: CompatValue,
}

/// The value of an attribute of `.nv.compat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompatValue {
    Flag,
    Byte(u8),
    Half(u16),
    Bytes(Vec<u8>),
}

impl CompatAttribute {
    pub fn new(code: CompatCode, value: CompatValue) -> Self {
        CompatAttribute { code, value }
    }
}

pub(crate) fn decode(data: Bytes<'_>) -> Result<Vec<CompatAttribute>> {
    let attributes = records(data)?.into_iter().map(|record| CompatAttribute {
        code: CompatCode(record.code),
        value: match record.format {
            ValueFormat::None => CompatValue::Flag,
            ValueFormat::Byte => CompatValue::Byte(record.half.to_le_bytes()[0]),
            ValueFormat::Half => CompatValue::Half(record.half),
            ValueFormat::Sized => CompatValue::Bytes(record.bytes.to_vec()),
        },
    });
    Ok(attributes.collect())
}

pub(crate) fn encode(attributes: &[CompatAttribute]) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for attribute in attributes {
        let (format, half, bytes) = match &attribute.value {
            CompatValue::Flag => (ValueFormat::None, 0, &[][..]),
            CompatValue::Byte(byte) => (ValueFormat::Byte, u16::from(*byte), &[][..]),
            CompatValue::Half(half) => (ValueFormat::Half, *half, &[][..]),
            CompatValue::Bytes(bytes) => {
                let size = u16::try_from(bytes.len()).map_err(|_| Error::new(format!("{:?} has more than 65535 bytes", attribute.code)))?;
                (ValueFormat::Sized, size, &bytes[..])
            }
        };
        out.extend([format as u8, attribute.code.0]);
        out.extend(half.to_le_bytes());
        out.extend(bytes);
    }
    Ok(out)
}
