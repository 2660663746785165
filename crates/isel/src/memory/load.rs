//! `ld`, `ldu`

use oriole_ir::{Class, File, MemoryAccess, Operand, Space};
use oriole_ptx::ast;
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use super::address::{Address, Reach};
use super::modifiers::{Access, AccessSpace, shared_load};
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;
use crate::variables::CONSTANT_BANK;

/// Offsets that are added to a register end here: they have 16 bits with a sign.
const LARGEST_INDEXED: i64 = 0x8000;

/// `ld`, `ldu`
pub(crate) fn load(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let access = Access::of(ptx);
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
                let start = select.target.profile().parameters_start(select.homes.parameter_bytes);
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
    /// The number of elements that a vector modifier asks for.
    pub(crate) fn vector_lanes(&self) -> usize {
        [(Modifier::V2, 2), (Modifier::V4, 4), (Modifier::V8, 8)]
            .iter()
            .find(|(modifier, _)| self.has(*modifier))
            .map_or(1, |&(_, lanes)| lanes)
    }
}

/// The size modifier of an access to general memory, whose value is extended to 32 bits if it is narrower.
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
    /// The elements of a vector operand: a list, a vector register, or a scalar.
    pub(crate) fn lanes(&self, operand: ast::Operand, count: usize) -> Vec<ast::Operand> {
        use oriole_ptx::table::Component::{W, X, Y, Z};
        match operand {
            ast::Operand::Register(register) if count > 1 && self.frame.body.declaration_of(register).lanes > 1 => {
                [X, Y, Z, W][..count.min(4)].iter().map(|&component| ast::Operand::Element(register, component)).collect()
            }
            ast::Operand::Sink => vec![ast::Operand::Sink; count],
            _ => self.elements(operand),
        }
    }

    /// Loads bytes from general memory, as the registers they fill.
    fn load_words(
        &mut self,
        ptx: &Ptx<'_>,
        access: &Access,
        bytes: u32,
        is_signed: bool,
        lanes: &[ast::Operand],
    ) -> Result<Vec<Operand>, Unsupported> {
        if bytes == 32 {
            return self.load_256(ptx, access, lanes);
        }
        let width = bytes.div_ceil(4) as u8;
        let class = Class::new(File::General, width);
        let size = size_modifier(bytes, is_signed);
        let address = self.address(ptx.operand(1), access.space, Reach::ACCESS)?;
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

    fn load_long(&mut self, ptx: &Ptx<'_>, access: &Access, class: Class, size: &str, address: Address) -> Result<Operand, Unsupported> {
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

    /// The descriptor of an access: its cache policy if it has one.
    pub(crate) fn access_descriptor(&mut self, ptx: &Ptx<'_>, policy: usize) -> Result<Operand, Unsupported> {
        if ptx.has(Modifier::L2CacheHint) { self.policy_descriptor(ptx, policy) } else { Ok(self.descriptor()) }
    }

    /// Loads 256 bits: two groups of four registers, the upper one named first. A mask leaves out what is not wanted. There is no such
    /// access by generic address: like ptxas, take it for a global one.
    fn load_256(&mut self, ptx: &Ptx<'_>, access: &Access, lanes: &[ast::Operand]) -> Result<Vec<Operand>, Unsupported> {
        let address = self.address(ptx.operand(1), access.space, Reach::WIDE)?;
        let descriptor = self.access_descriptor(ptx, 2)?;
        let template = format!("LDG{} $, $, desc[{{}}][{{}}.64+{{}}], {{}}", access.modifiers(self.target, ".256"));
        let mask = word_mask(lanes);
        let arguments = [descriptor, address.base, address.offset.into(), mask.into()];
        let (high, low) = self.b.define_two([Class::R4, Class::R4], &template, &arguments);
        self.b.describe(access.describe(32));
        Ok((0..8).map(|word| if word < 4 { self.register_of(low, word) } else { self.register_of(high, word - 4) }).collect())
    }

    /// Loads bytes from a constant bank, as the registers they fill.
    fn load_bank(&mut self, ptx: &Ptx<'_>, bank: u8, start: u32, bytes: u32, is_signed: bool) -> Result<Vec<Operand>, Unsupported> {
        let place = self.bracket(ptx.operand(1))?;
        let Some(base) = place.base else {
            let offset = (i64::from(start) + place.offset) as u32;
            return Ok(self.load_fixed(bank, offset, bytes, is_signed));
        };
        let mut base = self.low(base);
        let mut offset = i64::from(start) + place.offset;
        if offset < 0 || offset + i64::from(bytes) > LARGEST_INDEXED {
            base = self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[base, Operand::from(place.offset as u32)]);
            offset = i64::from(start);
        }
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

    fn load_fixed(&mut self, bank: u8, offset: u32, bytes: u32, is_signed: bool) -> Vec<Operand> {
        if bytes < 4 || !offset.is_multiple_of(4) {
            let template = format!("LDC{} $, {{}}", size_modifier(bytes.min(4), is_signed));
            let load = |at: u32| {
                let value = self.b.define(Class::R, &template, &[Operand::constant(bank, at)]);
                self.b.describe(MemoryAccess { constant: true, ..MemoryAccess::weak(Space::Constant, bytes.min(4) as u8) });
                value
            };
            return (0..bytes.div_ceil(4)).map(|word| offset + 4 * word).map(load).collect();
        }
        let word = |word: u32| self.b.define(Class::R, "MOV $, {}", &[Operand::constant(bank, offset + 4 * word)]);
        (0..bytes / 4).map(word).collect()
    }

    /// One element out of the registers that were loaded, extended to the width of its destination.
    fn lane_of(&mut self, words: &[Operand], ty: ScalarType, lane: usize, destination: ast::Operand, count: usize) -> Option<Operand> {
        if destination == ast::Operand::Sink {
            return None;
        }
        let bytes = ty.bytes() as usize;
        let is_signed = matches!(ty, ScalarType::S8 | ScalarType::S16 | ScalarType::S32 | ScalarType::S64);
        let value = if bytes >= 4 {
            let first = lane * bytes / 4;
            let own = &words[first..first + bytes / 4];
            if own.len() == 1 { own[0] } else { self.b.pack(Class::new(File::General, own.len() as u8), own) }
        } else if count == 1 {
            words[0]
        } else {
            let at = lane * bytes;
            let selector = narrow_selector(bytes, at % 4, is_signed);
            self.b.define(Class::R, "PRMT $, {}, {}, RZ", &[words[at / 4], selector.into()])
        };
        Some(if is_signed { self.sign_extended(value, destination) } else { value })
    }

    /// A signed value with as many registers as its destination.
    fn sign_extended(&mut self, value: Operand, destination: ast::Operand) -> Operand {
        let (ast::Operand::Register(register) | ast::Operand::Element(register, _)) = destination else { return value };
        let width = crate::select::class_of(self.frame.body.declaration_of(register).ty).width;
        let own = self.register_count(value);
        if width <= own {
            return value;
        }
        let top = self.register_of(value, own - 1);
        let sign = self.b.define(Class::R, "SHF.R.S32.HI $, RZ, 0x1f, {}", &[top]);
        let mut parts: Vec<Operand> = (0..own).map(|word| self.register_of(value, word)).collect();
        parts.resize(usize::from(width), sign);
        self.b.pack(Class::new(File::General, width), &parts)
    }
}

/// The selector of `PRMT` that takes one or two bytes and extends them.
fn narrow_selector(bytes: usize, at: usize, is_signed: bool) -> u32 {
    let at = at as u32;
    let last = at + bytes as u32 - 1;
    let fill = if is_signed { last | 8 } else { 7 };
    let low = if bytes == 1 { at | fill << 4 } else { at | last << 4 };
    low | fill << 8 | fill << 12
}

/// Which of eight 32-bit words are wanted.
pub(crate) fn word_mask(lanes: &[ast::Operand]) -> u32 {
    let words_each = 8 / lanes.len();
    let each = (1_u32 << words_each) - 1;
    let wanted = lanes.iter().enumerate().filter(|(_, lane)| **lane != ast::Operand::Sink);
    wanted.fold(0, |mask, (number, _)| mask | each << (number * words_each))
}
