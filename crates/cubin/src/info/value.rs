//! Values of attributes and their layouts.

use super::{Record, ValueFormat};
use crate::error::{Error, Result};

/// The layout of a value in the sized format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueLayout {
    Bytes,
    Words,
    Symbols,
    PerSymbol,
    Pairs,
    Parameter,
    ParameterV2,
    ParameterBank,
    BranchTargets,
    Mbarriers,
}

/// A decoded value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributeValue {
    /// No value: the presence of the attribute is the information.
    Flag,
    Byte(u8),
    Half(u16),
    /// Offsets of instructions, sizes, dimensions.
    Words(Vec<u32>),
    /// Indices of symbols.
    Symbols(Vec<u32>),
    /// A number for one function.
    PerSymbol {
        symbol: u32,
        value: u32,
    },
    Pairs(Vec<(u32, u32)>),
    Parameter(Parameter),
    ParameterV2(ParameterV2),
    ParameterBank(ParameterBank),
    BranchTargets(Vec<BranchTargets>),
    Mbarriers(Vec<Mbarrier>),
    /// A sized value of unknown layout.
    Bytes(Vec<u8>),
    /// A value of the format without value or of the byte format, with nonzero bits in bytes that should be zero.
    Odd {
        format: u8,
        half: u16,
    },
}

/// `EIATTR_KPARAM_INFO`: a kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub index: u32,
    /// Position among the parameters.
    pub ordinal: u16,
    /// Offset from the first parameter, in bytes.
    pub offset: u16,
    /// Size in bytes; 14 bits.
    pub size: u16,
    /// Binary logarithm of the alignment of the memory that a pointer parameter points to.
    pub log_alignment: u8,
    /// State space that a pointer parameter points to, 4 bits: 4 is global, 0 is unknown.
    pub space: u8,
    /// Constant bank, 5 bits; 0x1f is the default.
    pub bank: u8,
    /// Whether the parameter is in shared memory instead of a constant bank.
    pub in_shared: bool,
}

/// Offset of a parameter that is a texture, sampler or surface and takes no space among the parameters.
const NO_OFFSET: u16 = 0xffff;

impl Parameter {
    /// Returns a parameter that is a texture, sampler or surface. `space` is 6 for a texture, 7 for a surface and 8 for a sampler. The
    /// builder sets the index to that of the parameter's symbol.
    pub fn image(ordinal: u16, space: u8) -> Parameter {
        Parameter { space, ..Parameter::plain(ordinal, NO_OFFSET, 0) }
    }

    /// Returns whether the parameter is a texture, sampler or surface.
    pub fn is_image(&self) -> bool {
        self.offset == NO_OFFSET && self.size == 0
    }

    /// Returns a parameter without information about alignment and space.
    pub fn plain(ordinal: u16, offset: u16, size: u16) -> Parameter {
        Parameter { index: 0, ordinal, offset, size, log_alignment: 0, space: 0, bank: 0x1f, in_shared: false }
    }
}

/// `EIATTR_KPARAM_INFO_V2`: a kernel parameter with a 16-bit size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterV2 {
    pub index: u32,
    pub ordinal: u16,
    pub offset: u16,
    pub size: u16,
    pub log_alignment: u8,
    pub space: u8,
}

impl From<Parameter> for ParameterV2 {
    /// Drops the bank, which the second form does not have: such parameters are always in the default bank.
    fn from(parameter: Parameter) -> ParameterV2 {
        let Parameter { index, ordinal, offset, size, log_alignment, space, .. } = parameter;
        ParameterV2 { index, ordinal, offset, size, log_alignment, space }
    }
}

/// `EIATTR_PARAM_CBANK`: offset and size in bytes of a kernel's parameters in their constant bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParameterBank {
    /// Symbol of the section with the bank, `.nv.constant0.NAME`.
    pub symbol: u32,
    pub offset: u16,
    pub size: u16,
}

/// `EIATTR_INDIRECT_BRANCH_TARGETS`: the possible targets of one indirect branch, as byte offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BranchTargets {
    /// Offset of the branch.
    pub branch: u32,
    /// 0 in all files seen so far.
    pub reserved: u32,
    pub targets: Vec<u32>,
}

/// `EIATTR_MBARRIER_INSTR_OFFSETS`: an instruction that accesses an mbarrier at `[R + UR + offset]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mbarrier {
    /// Offset of the instruction.
    pub instruction: u32,
    /// Number of the register; 255 means none.
    pub register: u32,
    pub offset: u32,
    pub kind: MbarrierKind,
    /// Four bits. Without a scale 0, otherwise 1, 2, 3 for `.X4`, `.X8`, `.X16`, for which cuobjdump prints the next larger scale.
    pub stride: u8,
    /// 1 in all files seen so far.
    pub reserved: u8,
    /// Number of the uniform register; 63 means none.
    pub uniform_register: u8,
    /// 0 in all files seen so far.
    pub reserved_high: u8,
}

/// The operation on the mbarrier: four bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MbarrierKind(pub u8);

impl Mbarrier {
    /// [`Mbarrier::register`] of an address without a register.
    pub const NO_REGISTER: u32 = 255;
    /// [`Mbarrier::uniform_register`] of an address without a uniform register.
    pub const NO_UNIFORM_REGISTER: u8 = 63;
}

impl MbarrierKind {
    pub const INIT: Self = Self(0);
    pub const ARRIVE: Self = Self(1);
    pub const ARRIVE_NOCOMPLETE: Self = Self(2);
    pub const ARRIVE_DROP: Self = Self(3);
    pub const ARRIVE_DROP_NOCOMPLETE: Self = Self(4);
    pub const TEST_WAIT: Self = Self(5);
    pub const TEST_WAIT_PARITY: Self = Self(6);
    pub const CP_ASYNC_ARRIVE: Self = Self(7);
    pub const INVAL: Self = Self(8);
    pub const TRY_WAIT: Self = Self(9);
    pub const TRY_WAIT_PARITY: Self = Self(10);
    /// cuobjdump has no names for the last two.
    pub const EXPECT_TX: Self = Self(11);
    pub const COMPLETE_TX: Self = Self(12);

    /// Returns the name that cuobjdump prints, without `MBARRIER_`.
    pub fn name(self) -> Option<&'static str> {
        const NAMES: [&str; 11] = [
            "INIT",
            "ARRIVE",
            "ARRIVE_NOCOMPLETE",
            "ARRIVE_DROP",
            "ARRIVE_DROP_NOCOMPLETE",
            "TEST_WAIT",
            "TEST_WAIT_PARITY",
            "CP_ASYNC_ARRIVE",
            "INVAL",
            "TRY_WAIT",
            "TRY_WAIT_PARITY",
        ];
        NAMES.get(usize::from(self.0)).copied()
    }
}

/// Returns little-endian words, or `None` if the length is not a multiple of four.
fn words(bytes: &[u8]) -> Option<Vec<u32>> {
    let chunks = bytes.chunks_exact(4);
    if !chunks.remainder().is_empty() {
        return None;
    }
    Some(chunks.filter_map(|chunk| chunk.try_into().ok()).map(u32::from_le_bytes).collect())
}

/// Returns the low and the high half of a word.
fn halves(word: u32) -> (u16, u16) {
    (word as u16, (word >> 16) as u16)
}

fn join(low: u16, high: u16) -> u32 {
    u32::from(low) | u32::from(high) << 16
}

impl Parameter {
    fn decode(words: &[u32]) -> Option<Parameter> {
        let &[index, place, kind] = words else { return None };
        let (ordinal, offset) = halves(place);
        Some(Parameter {
            index,
            ordinal,
            offset,
            size: (kind >> 18) as u16,
            log_alignment: kind as u8,
            space: (kind >> 8 & 0xf) as u8,
            bank: (kind >> 12 & 0x1f) as u8,
            in_shared: kind >> 17 & 1 != 0,
        })
    }

    fn encode(&self) -> Result<[u32; 3]> {
        if self.size >= 1 << 14 || self.space >= 1 << 4 || self.bank >= 1 << 5 {
            return Err(Error::new(format!("parameter {} has a size, space or bank that EIATTR_KPARAM_INFO cannot hold", self.ordinal)));
        }
        let kind = u32::from(self.log_alignment)
            | u32::from(self.space) << 8
            | u32::from(self.bank) << 12
            | u32::from(self.in_shared) << 17
            | u32::from(self.size) << 18;
        Ok([self.index, join(self.ordinal, self.offset), kind])
    }
}

impl ParameterV2 {
    fn decode(words: &[u32]) -> Option<ParameterV2> {
        let &[index, place, kind] = words else { return None };
        let (ordinal, offset) = halves(place);
        let [_, _, log_alignment, space] = kind.to_le_bytes();
        Some(ParameterV2 { index, ordinal, offset, size: kind as u16, log_alignment, space })
    }

    fn encode(&self) -> [u32; 3] {
        let kind = u32::from(self.size) | u32::from(self.log_alignment) << 16 | u32::from(self.space) << 24;
        [self.index, join(self.ordinal, self.offset), kind]
    }
}

impl BranchTargets {
    fn decode(mut words: &[u32]) -> Option<Vec<BranchTargets>> {
        let mut list = Vec::new();
        while let Some((&[branch, reserved, count], rest)) = words.split_first_chunk() {
            let (targets, rest) = rest.split_at_checked(usize::try_from(count).ok()?)?;
            list.push(BranchTargets { branch, reserved, targets: targets.to_vec() });
            words = rest;
        }
        words.is_empty().then_some(list)
    }

    fn encode(&self) -> impl Iterator<Item = u32> {
        [self.branch, self.reserved, self.targets.len() as u32].into_iter().chain(self.targets.iter().copied())
    }
}

impl Mbarrier {
    fn decode(words: &[u32]) -> Option<Vec<Mbarrier>> {
        let chunks = words.chunks_exact(4);
        if !chunks.remainder().is_empty() {
            return None;
        }
        let one = |chunk: &[u32]| {
            let &[instruction, register, offset, kind] = chunk else { return None };
            let [low, reserved, uniform_register, reserved_high] = kind.to_le_bytes();
            let (kind, stride) = (MbarrierKind(low & 0xf), low >> 4);
            Some(Mbarrier { instruction, register, offset, kind, stride, reserved, uniform_register, reserved_high })
        };
        chunks.map(one).collect()
    }

    fn encode(&self) -> [u32; 4] {
        let low = self.kind.0 & 0xf | self.stride << 4;
        let kind = u32::from_le_bytes([low, self.reserved, self.uniform_register, self.reserved_high]);
        [self.instruction, self.register, self.offset, kind]
    }
}

impl AttributeValue {
    /// Returns the format in which the value is stored.
    pub fn format(&self) -> ValueFormat {
        match self {
            AttributeValue::Flag | AttributeValue::Odd { format: 1, .. } => ValueFormat::None,
            AttributeValue::Byte(_) | AttributeValue::Odd { .. } => ValueFormat::Byte,
            AttributeValue::Half(_) => ValueFormat::Half,
            _ => ValueFormat::Sized,
        }
    }

    pub(super) fn decode(shape: ValueLayout, record: &Record<'_>) -> AttributeValue {
        let [low, high] = record.half.to_le_bytes();
        match record.format {
            ValueFormat::None if record.half == 0 => AttributeValue::Flag,
            ValueFormat::Byte if high == 0 => AttributeValue::Byte(low),
            ValueFormat::None | ValueFormat::Byte => AttributeValue::Odd { format: record.format as u8, half: record.half },
            ValueFormat::Half => AttributeValue::Half(record.half),
            ValueFormat::Sized => {
                AttributeValue::sized(shape, record.bytes).unwrap_or_else(|| AttributeValue::Bytes(record.bytes.to_vec()))
            }
        }
    }

    /// Decodes a sized value; `None` if it does not fit the layout.
    fn sized(shape: ValueLayout, bytes: &[u8]) -> Option<AttributeValue> {
        let words = words(bytes)?;
        match shape {
            ValueLayout::Bytes => None,
            ValueLayout::Words => Some(AttributeValue::Words(words)),
            ValueLayout::Symbols => Some(AttributeValue::Symbols(words)),
            ValueLayout::PerSymbol => match words[..] {
                [symbol, value] => Some(AttributeValue::PerSymbol { symbol, value }),
                _ => None,
            },
            ValueLayout::Pairs => {
                let (pairs, rest) = words.as_chunks();
                rest.is_empty().then(|| AttributeValue::Pairs(pairs.iter().map(|&[first, second]| (first, second)).collect()))
            }
            ValueLayout::Parameter => Parameter::decode(&words).map(AttributeValue::Parameter),
            ValueLayout::ParameterV2 => ParameterV2::decode(&words).map(AttributeValue::ParameterV2),
            ValueLayout::ParameterBank => match words[..] {
                [symbol, place] => {
                    let (offset, size) = halves(place);
                    Some(AttributeValue::ParameterBank(ParameterBank { symbol, offset, size }))
                }
                _ => None,
            },
            ValueLayout::BranchTargets => BranchTargets::decode(&words).map(AttributeValue::BranchTargets),
            ValueLayout::Mbarriers => Mbarrier::decode(&words).map(AttributeValue::Mbarriers),
        }
    }

    pub(super) fn encode(&self, code: u8, out: &mut Vec<u8>) -> Result<()> {
        let unsized_record = |format: ValueFormat, half: u16, out: &mut Vec<u8>| {
            out.extend([format as u8, code]);
            out.extend(half.to_le_bytes());
        };
        match self {
            AttributeValue::Flag => unsized_record(ValueFormat::None, 0, out),
            AttributeValue::Byte(byte) => unsized_record(ValueFormat::Byte, u16::from(*byte), out),
            AttributeValue::Half(half) => unsized_record(ValueFormat::Half, *half, out),
            AttributeValue::Odd { half, .. } => unsized_record(self.format(), *half, out),
            _ => {
                let bytes = self.sized_bytes()?;
                let Ok(size) = u16::try_from(bytes.len()) else {
                    return Err(Error::new(format!("attribute {code:#x} has {} bytes; 65535 is the limit", bytes.len())));
                };
                unsized_record(ValueFormat::Sized, size, out);
                out.extend(bytes);
            }
        }
        Ok(())
    }

    /// Returns the bytes of a sized value.
    fn sized_bytes(&self) -> Result<Vec<u8>> {
        let words: Vec<u32> = match self {
            AttributeValue::Bytes(bytes) => return Ok(bytes.clone()),
            AttributeValue::Flag | AttributeValue::Byte(_) | AttributeValue::Half(_) | AttributeValue::Odd { .. } => Vec::new(),
            AttributeValue::Words(words) | AttributeValue::Symbols(words) => words.clone(),
            AttributeValue::PerSymbol { symbol, value } => vec![*symbol, *value],
            AttributeValue::Pairs(pairs) => pairs.iter().flat_map(|&(first, second)| [first, second]).collect(),
            AttributeValue::Parameter(parameter) => parameter.encode()?.to_vec(),
            AttributeValue::ParameterV2(parameter) => parameter.encode().to_vec(),
            AttributeValue::ParameterBank(bank) => vec![bank.symbol, join(bank.offset, bank.size)],
            AttributeValue::BranchTargets(list) => list.iter().flat_map(BranchTargets::encode).collect(),
            AttributeValue::Mbarriers(list) => list.iter().flat_map(Mbarrier::encode).collect(),
        };
        Ok(words.into_iter().flat_map(u32::to_le_bytes).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The words are from ptxas 13.0.88, the fields are those that cuobjdump prints for them.
    #[test]
    fn a_parameter_is_taken_apart_as_cuobjdump_does() {
        let words = [0, 0x0010_0002, 0x0021_f402];
        let parameter = Parameter::decode(&words).unwrap();
        assert_eq!((parameter.ordinal, parameter.offset, parameter.size), (2, 0x10, 8));
        assert_eq!((parameter.log_alignment, parameter.space, parameter.bank, parameter.in_shared), (2, 4, 0x1f, false));
        assert_eq!(parameter.encode().unwrap(), words);
        assert!(Parameter { size: 1 << 14, ..parameter }.encode().is_err());
    }

    #[test]
    fn a_value_that_does_not_fit_its_layout_stays_bytes() {
        assert_eq!(AttributeValue::sized(ValueLayout::Parameter, &[0; 8]), None);
        assert_eq!(AttributeValue::sized(ValueLayout::Words, &[0; 3]), None);
        assert_eq!(BranchTargets::decode(&[0x10, 0, u32::MAX, 1]), None);
    }
}
