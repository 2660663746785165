//! Handler of `ld` and `ldu`.

use oriole_ir::{Class, MemoryAccess, Operand, RegFile, Space};
use oriole_ptx::ast;
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use super::address::{AddressOperands, OffsetRange};
use super::modifiers::{AccessProperties, AccessSpace, shared_load};
use crate::context;
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::variable_layout::CONSTANT_BANK;

/// Size of a constant bank in bytes.
const BANK_BYTES: i64 = 1 << 16;
/// End of the offsets that can be added to a register in a constant access: they have 16 bits including the sign.
const LARGEST_INDEXED: i64 = 0x8000;

/// Selects `ld`, `ldu`.
pub(crate) fn load(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let access = select.access(ptx, ptx.operand(1));
    let ty = ptx.ty();
    let lanes = select.lanes(ptx.operand(0), ptx.vector_lanes());
    let bytes = ty.bytes() * lanes.len() as u32;
    let is_signed = matches!(ty, ScalarType::S8 | ScalarType::S16);
    let words = match access.space {
        AccessSpace::Constant => select.load_bank(ptx, CONSTANT_BANK, 0, bytes, is_signed && lanes.len() == 1)?,
        AccessSpace::Parameter => {
            let is_signed = is_signed && lanes.len() == 1;
            if let Some(words) = crate::parameters::load(select, ptx, bytes, is_signed)? {
                words
            } else if select.is_kernel || ptx.has(Modifier::ParamEntry) {
                let start = select.variables.parameters_start;
                select.load_bank(ptx, 0, start, bytes, is_signed)?
            } else {
                let mut local = access;
                local.space = AccessSpace::Local;
                select.load_words(ptx, &local, bytes, is_signed, &lanes)?
            }
        }
        _ => select.load_words(ptx, &access, bytes, is_signed && lanes.len() == 1, &lanes)?,
    };
    select.fence_after(&access);
    let values: Vec<Option<Operand>> = (0..lanes.len()).map(|lane| select.lane_of(&words, ty, lane, lanes[lane], lanes.len())).collect();
    for (destination, value) in lanes.iter().zip(values) {
        if let Some(value) = value {
            select.assign(*destination, value)?;
        }
    }
    Ok(())
}

impl Ptx<'_> {
    /// Returns the number of elements that a vector modifier specifies; 1 without one.
    pub(crate) fn vector_lanes(&self) -> usize {
        [(Modifier::V2, 2), (Modifier::V4, 4), (Modifier::V8, 8)]
            .iter()
            .find(|(modifier, _)| self.has(*modifier))
            .map_or(1, |&(_, lanes)| lanes)
    }
}

/// Returns the size modifier of an access. Loads extend values narrower than 32 bits to 32 bits.
pub(crate) fn size_modifier(bytes: u32, is_signed: bool) -> &'static str {
    match (bytes, is_signed) {
        (1, false) => ".U8",
        (1, true) => ".S8",
        (2, false) => ".U16",
        (2, true) => ".S16",
        (4, _) => "",
        (8, _) => ".64",
        (16, _) => ".128",
        _ => ".256",
    }
}

impl Select<'_> {
    /// Returns the elements of a vector operand (list, vector register or scalar); for `_`, `count` times `_`.
    pub(crate) fn lanes(&self, operand: ast::Operand, count: usize) -> Vec<ast::Operand> {
        match operand {
            ast::Operand::Sink => vec![ast::Operand::Sink; count],
            _ => self.elements(operand),
        }
    }

    /// Emits a load from shared, local, global or generic memory; returns the loaded registers.
    fn load_words(
        &mut self,
        ptx: &Ptx<'_>,
        access: &AccessProperties,
        bytes: u32,
        is_signed: bool,
        lanes: &[ast::Operand],
    ) -> Result<Vec<Operand>, Unsupported> {
        if bytes == 32 {
            return self.load_256(ptx, access, lanes);
        }
        let width = bytes.div_ceil(4) as u8;
        let class = Class::new(RegFile::General, width);
        let size = size_modifier(bytes, is_signed);
        let address = self.address(ptx.operand(1), access.space, OffsetRange::ACCESS)?;
        let value = match access.space {
            AccessSpace::Shared => {
                let template = format!("{}{size} $, [{{}}+{{}}]", shared_load(self.target));
                self.b.define(class, &template, &[address.base, address.offset.into()])
            }
            AccessSpace::Local => {
                let template = format!("LDL{size} $, [{{}}+{{}}]");
                self.b.define(class, &template, &[address.base, address.offset.into()])
            }
            _ => self.load_long(ptx, access, class, size, address)?,
        };
        self.b.describe(access.describe(bytes));
        Ok((0..width).map(|word| self.register_of(value, word)).collect())
    }

    /// Emits a load with a 64-bit address.
    fn load_long(
        &mut self,
        ptx: &Ptx<'_>,
        access: &AccessProperties,
        class: Class,
        size: &str,
        address: AddressOperands,
    ) -> Result<Operand, Unsupported> {
        let opcode = if access.space == AccessSpace::Global { "LDG" } else { "LD" };
        let modifiers = access.modifiers(self.target, size);
        if access.is_mmio || access.space == AccessSpace::Cluster {
            let template = format!("{opcode}{modifiers} $, [{{}}+{{}}]");
            return Ok(self.b.define(class, &template, &[address.base, address.offset.into()]));
        }
        let descriptor = self.access_descriptor(ptx, 2)?;
        let template = format!("{opcode}{modifiers} $, desc[{{}}][{{}}.64+{{}}]");
        Ok(self.b.define(class, &template, &[descriptor, address.base, address.offset.into()]))
    }

    /// Returns the memory descriptor of an access: its cache policy if it has one. `policy` is the operand number of the policy.
    pub(crate) fn access_descriptor(&mut self, ptx: &Ptx<'_>, policy: usize) -> Result<Operand, Unsupported> {
        if ptx.has(Modifier::L2CacheHint) { self.policy_descriptor(ptx, policy) } else { Ok(self.descriptor()) }
    }

    /// Emits a 256-bit load. The instruction writes two groups of four registers and names the upper group first; a mask excludes words
    /// that are discarded. Such a load does not exist for generic addresses; like ptxas, emits a global one.
    fn load_256(&mut self, ptx: &Ptx<'_>, access: &AccessProperties, lanes: &[ast::Operand]) -> Result<Vec<Operand>, Unsupported> {
        if !matches!(access.space, AccessSpace::Global | AccessSpace::Generic) {
            return self.unsupported(ptx);
        }
        let address = self.address(ptx.operand(1), access.space, OffsetRange::WIDE)?;
        let descriptor = self.access_descriptor(ptx, 2)?;
        let template = format!("LDG{} $, $, desc[{{}}][{{}}.64+{{}}], {{}}", access.modifiers(self.target, ".256"));
        let mask = word_mask(lanes);
        let arguments = [descriptor, address.base, address.offset.into(), mask.into()];
        let (high, low) = self.b.define_two([Class::R4, Class::R4], &template, &arguments);
        self.b.describe(access.describe(32));
        Ok((0..8).map(|word| if word < 4 { self.register_of(low, word) } else { self.register_of(high, word - 4) }).collect())
    }

    /// Emits a load from a constant bank; returns the loaded registers.
    fn load_bank(&mut self, ptx: &Ptx<'_>, bank: u8, start: u32, bytes: u32, is_signed: bool) -> Result<Vec<Operand>, Unsupported> {
        let place = self.bracket(ptx.operand(1))?;
        let mut offset = i64::from(start).wrapping_add(place.offset);
        let base = match place.base {
            None if (0..=BANK_BYTES - i64::from(bytes)).contains(&offset) => {
                return Ok(self.load_fixed(bank, offset as u32, bytes, is_signed));
            }
            // The offset does not fit into an instruction. Like ptxas, emits the access with the address in a register.
            None => {
                let base = self.in_register(Operand::from(offset as u32));
                offset = 0;
                base
            }
            Some(base) if (0..=LARGEST_INDEXED - i64::from(bytes)).contains(&offset) => self.low(base),
            Some(base) => {
                offset = i64::from(start);
                self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[self.low(base), Operand::from(place.offset as u32)])
            }
        };
        let load = |select: &mut Self, class, size: &str, at: i64| {
            let template = format!("LDC{size} $, c[{bank:#x}][{{}}+{{}}]");
            let value = select.b.define(class, &template, &[base, at.into()]);
            select.b.describe(MemoryAccess { constant: true, ..MemoryAccess::weak(Space::Constant, bytes.min(4) as u8) });
            value
        };
        if bytes < 4 {
            return Ok(vec![load(self, Class::R, size_modifier(bytes, is_signed), offset)]);
        }
        Ok((0..i64::from(bytes / 4)).map(|word| load(self, Class::R, "", offset + 4 * word)).collect())
    }

    /// Emits a load from a constant bank at a constant offset. Aligned words are read by `MOV`, whose operand later passes can fold.
    fn load_fixed(&mut self, bank: u8, offset: u32, bytes: u32, is_signed: bool) -> Vec<Operand> {
        if bytes < 4 || !offset.is_multiple_of(4) {
            let template = format!("LDC{} $, {{}}", size_modifier(bytes.min(4), is_signed));
            let load = |at: u32| {
                let value = self.b.define(Class::R, &template, &[Operand::constant(bank, at)]);
                self.b.describe(MemoryAccess { constant: true, ..MemoryAccess::weak(Space::Constant, bytes.min(4) as u8) });
                value
            };
            return (0..bytes.div_ceil(4)).map(|word| offset.wrapping_add(4 * word)).map(load).collect();
        }
        let word = |word: u32| self.b.define(Class::R, "MOV $, {}", &[Operand::constant(bank, offset.wrapping_add(4 * word))]);
        (0..bytes / 4).map(word).collect()
    }

    /// Returns one element of the loaded registers, extended to the width of its destination; `None` if it is discarded.
    pub(crate) fn lane_of(
        &mut self,
        words: &[Operand],
        ty: ScalarType,
        lane: usize,
        destination: ast::Operand,
        count: usize,
    ) -> Option<Operand> {
        if destination == ast::Operand::Sink {
            return None;
        }
        let bytes = ty.bytes() as usize;
        let is_signed = matches!(ty, ScalarType::S8 | ScalarType::S16 | ScalarType::S32 | ScalarType::S64);
        let value = if bytes >= 4 {
            let first = lane * bytes / 4;
            let own = &words[first..first + bytes / 4];
            if own.len() == 1 { own[0] } else { self.b.pack(Class::new(RegFile::General, own.len() as u8), own) }
        } else if count == 1 {
            words[0]
        } else {
            let at = lane * bytes;
            let selector = narrow_selector(bytes, at % 4, is_signed);
            self.b.define(Class::R, "PRMT $, {}, {}, RZ", &[words[at / 4], selector.into()])
        };
        Some(if is_signed { self.sign_extended(value, destination) } else { value })
    }

    /// Sign-extends a value to the number of registers of its destination.
    fn sign_extended(&mut self, value: Operand, destination: ast::Operand) -> Operand {
        let (ast::Operand::Register(register) | ast::Operand::Element(register, _)) = destination else { return value };
        let width = context::class_of(self.frame.body.declaration_of(register).ty).width;
        let own = self.register_count(value);
        if width <= own {
            return value;
        }
        let top = self.register_of(value, own - 1);
        let sign = self.b.define(Class::R, "SHF.R.S32.HI $, RZ, 0x1f, {}", &[top]);
        let mut parts: Vec<Operand> = (0..own).map(|word| self.register_of(value, word)).collect();
        parts.resize(usize::from(width), sign);
        self.b.pack(Class::new(RegFile::General, width), &parts)
    }
}

/// Returns the selector of `PRMT` that extracts one or two bytes and extends them.
fn narrow_selector(bytes: usize, at: usize, is_signed: bool) -> u32 {
    let at = at as u32;
    let last = at + bytes as u32 - 1;
    let fill = if is_signed { last | 8 } else { 7 };
    let low = if bytes == 1 { at | fill << 4 } else { at | last << 4 };
    low | fill << 8 | fill << 12
}

/// Returns a mask of the 32-bit words, out of eight, that are not discarded.
pub(crate) fn word_mask(lanes: &[ast::Operand]) -> u32 {
    let words_each = 8 / lanes.len();
    let each = (1_u32 << words_each) - 1;
    let wanted = lanes.iter().enumerate().filter(|(_, lane)| **lane != ast::Operand::Sink);
    wanted.fold(0, |mask, (number, _)| mask | each << (number * words_each))
}
