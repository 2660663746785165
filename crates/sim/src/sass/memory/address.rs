//! Memory addresses in brackets: decoding and evaluation.
//!
//! `[R2.64+UR4+0x10]`, `[R2.X4+0x8]`, `desc[UR4][R2.64]`: the sum of a general register or pair, a uniform register or pair, and a
//! constant. Addresses of shared and local memory are 32-bit sums; those of global and generic memory have 64 bits. In the latter, a
//! general register is a pair if it has the suffix `.64`, or if the instruction has `.E` and the register does not have `.U32`.

use oriole_isa::{AddressPart, AddressRegister, OperandValue, RegFile};

use crate::sass::site::{Operands, Site};
use crate::sass::step::UnsupportedInst;
use crate::sass::warp::{LANES, Row, Source, Warp, WideLanes, WideSource};

/// A memory address as a sum of registers and a constant.
#[derive(Clone, Copy, Debug)]
pub struct AddressSum {
    base: Base,
    uniform: Uniform,
    offset: i64,
    is_wide: bool,
}

/// The general register.
#[derive(Clone, Copy, Debug)]
enum Base {
    None,
    /// A register and the factor it is multiplied with.
    Narrow(Row, u32),
    /// A register pair.
    Wide(Row),
}

/// The uniform register or pair.
#[derive(Clone, Copy, Debug)]
enum Uniform {
    None,
    Narrow(Row),
    Wide(Row),
}

/// Returns whether the register of a 64-bit address is a pair.
fn is_pair(register: &AddressRegister, is_extended: bool) -> bool {
    let says = |spelling: &str| register.suffixes.iter().any(|symbol| symbol.spelling() == spelling);
    says(".64") || is_extended && !says(".U32")
}

impl AddressSum {
    /// Takes the next operand as an address; `is_wide` for global and generic addresses.
    pub fn take(site: &Site<'_>, operands: &mut Operands<'_>, is_wide: bool) -> Result<AddressSum, UnsupportedInst> {
        let OperandValue::Address(address) = &operands.take()?.value else {
            return Err(site.unsupported("an access without an address"));
        };
        let part = match (address.word.spelling(), &address.parts[..]) {
            ("", [part]) | ("desc", [_, part]) => part,
            (word, _) => return Err(site.unsupported(format!("an address by `{word}`"))),
        };
        for register in part.registers.iter().filter(|register| register.file == RegFile::General) {
            site.checked(register.number, if is_wide && is_pair(register, site.has(".E")) { 2 } else { 1 })?;
        }
        AddressSum::of_part(part, is_wide, site.has(".E")).ok_or_else(|| site.unsupported("an address with a register of this file"))
    }

    /// Decodes the sum inside brackets; `None` if a register of another file occurs in it.
    pub fn of_part(part: &AddressPart, is_wide: bool, is_extended: bool) -> Option<AddressSum> {
        let mut sum = AddressSum { base: Base::None, uniform: Uniform::None, offset: part.offset.unwrap_or(0), is_wide };
        for register in &part.registers {
            let says = |spelling: &str| register.suffixes.iter().any(|symbol| symbol.spelling() == spelling);
            let row = Row::source(register.number);
            match register {
                AddressRegister { number: None, .. } => {}
                AddressRegister { file: RegFile::General, .. } => {
                    let scale = [(".X4", 4), (".X8", 8), (".X16", 16)].iter().find(|(name, _)| says(name)).map_or(1, |&(_, scale)| scale);
                    sum.base = if is_wide && is_pair(register, is_extended) { Base::Wide(row) } else { Base::Narrow(row, scale) };
                }
                AddressRegister { file: RegFile::Uniform, .. } if is_wide => sum.uniform = Uniform::Wide(row),
                AddressRegister { file: RegFile::Uniform, .. } => sum.uniform = Uniform::Narrow(row),
                _ => return None,
            }
        }
        Some(sum)
    }

    /// Returns the address of each thread.
    #[inline]
    pub fn of(&self, warp: &Warp) -> WideLanes {
        let uniform = match self.uniform {
            Uniform::None => 0,
            Uniform::Narrow(row) => u64::from(warp.uniform(row)),
            Uniform::Wide(row) => warp.uniform_wide(row),
        };
        let rest = uniform.wrapping_add_signed(self.offset);
        let sums: WideLanes = match self.base {
            Base::None => [rest; LANES],
            Base::Narrow(row, scale) => {
                warp.read(Source::General(row)).map(|value| u64::from(value).wrapping_mul(u64::from(scale)).wrapping_add(rest))
            }
            Base::Wide(row) => warp.read_wide(WideSource::General(row)).map(|value| value.wrapping_add(rest)),
        };
        if self.is_wide { sums } else { sums.map(|sum| sum & 0xffff_ffff) }
    }
}
