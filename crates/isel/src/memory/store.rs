//! Handler of `st`.

use oriole_ir::{Class, Operand, RegFile};
use oriole_ptx::ast;
use oriole_ptx::types::ScalarType;

use super::address::OffsetRange;
use super::load::{size_modifier, word_mask};
use super::modifiers::{AccessProperties, AccessSpace};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// Selects `st`.
pub(crate) fn store(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let access = select.access(ptx, ptx.operand(0));
    store_at(select, ptx, access)
}

/// Emits the store of an instruction with the operands of `st`.
pub(crate) fn store_at(select: &mut Select<'_>, ptx: &Ptx<'_>, access: AccessProperties) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let lanes = select.lanes(ptx.operand(1), ptx.vector_lanes());
    let bytes = ty.bytes() * lanes.len() as u32;
    if access.space == AccessSpace::Constant {
        return select.unsupported(ptx);
    }
    if access.space == AccessSpace::Parameter {
        let Some(place) = select.parameter_place(ptx.operand(0))? else { return select.unsupported(ptx) };
        let value = select.joined(&lanes, ty)?;
        select.write_parameter(&place, bytes, value);
        return Ok(());
    }
    if bytes == 32 {
        return store_256(select, ptx, &access, &lanes, ty);
    }
    let address = select.address(ptx.operand(0), access.space, OffsetRange::ACCESS)?;
    let value = select.joined(&lanes, ty)?;
    select.fence_before(&access);
    let size = size_modifier(bytes, false);
    let place = [address.base, address.offset.into(), value];
    match access.space {
        AccessSpace::Shared => {
            select.b.emit(&format!("STS{size} [{{}}+{{}}], {{}}"), &place);
        }
        AccessSpace::Local => {
            select.b.emit(&format!("STL{size} [{{}}+{{}}], {{}}"), &place);
        }
        _ => {
            let opcode = if access.space == AccessSpace::Global { "STG" } else { "ST" };
            let modifiers = access.modifiers(select.target, size);
            if access.is_mmio || access.space == AccessSpace::Cluster {
                select.b.emit(&format!("{opcode}{modifiers} [{{}}+{{}}], {{}}"), &place);
            } else {
                let descriptor = select.access_descriptor(ptx, 2)?;
                let template = format!("{opcode}{modifiers} desc[{{}}][{{}}.64+{{}}], {{}}");
                select.b.emit(&template, &[descriptor, address.base, address.offset.into(), value]);
            }
        }
    }
    select.b.describe(access.describe(bytes));
    Ok(())
}

/// Emits a 256-bit store.
fn store_256(
    select: &mut Select<'_>,
    ptx: &Ptx<'_>,
    access: &AccessProperties,
    lanes: &[ast::Operand],
    ty: ScalarType,
) -> Result<(), Unsupported> {
    if !matches!(access.space, AccessSpace::Global | AccessSpace::Generic) {
        return select.unsupported(ptx);
    }
    let address = select.address(ptx.operand(0), access.space, OffsetRange::WIDE)?;
    let descriptor = select.access_descriptor(ptx, 2)?;
    let (first, second) = lanes.split_at(lanes.len() / 2);
    let (low, high) = (select.joined(first, ty)?, select.joined(second, ty)?);
    select.fence_before(access);
    let template = format!("STG{} desc[{{}}][{{}}.64+{{}}], {{}}, {{}}, {{}}", access.modifiers(select.target, ".256"));
    select.b.emit(&template, &[descriptor, address.base, address.offset.into(), low, high, word_mask(lanes).into()]);
    select.b.describe(access.describe(32));
    Ok(())
}

impl Select<'_> {
    /// Packs elements into consecutive registers, in the order and layout of memory.
    pub(crate) fn joined(&mut self, lanes: &[ast::Operand], ty: ScalarType) -> Result<Operand, Unsupported> {
        let mut words: Vec<Operand> = Vec::new();
        match ty.bytes() {
            1 | 2 => {
                for group in lanes.chunks(4 / ty.bytes() as usize) {
                    let narrow = group.iter().map(|&lane| self.lane_source(lane, ty)).collect::<Result<Vec<_>, _>>()?;
                    words.push(self.packed(&narrow, ty.bytes()));
                }
            }
            4 => {
                for &lane in lanes {
                    words.push(self.lane_source(lane, ty)?);
                }
            }
            bytes => {
                for &lane in lanes {
                    let value = if lane == ast::Operand::Sink { Operand::RZ } else { self.wide_source(lane, ty)? };
                    if lanes.len() == 1 {
                        return Ok(value);
                    }
                    words.extend((0..bytes as u8 / 4).map(|word| self.register_of(value, word)));
                }
            }
        }
        if let [only] = words[..] {
            return Ok(only);
        }
        let words: Vec<Operand> = words.into_iter().map(|word| if word == Operand::RZ { word } else { self.in_register(word) }).collect();
        Ok(self.b.pack(Class::new(RegFile::General, words.len() as u8), &words))
    }

    /// Returns an element of up to 32 bits; for `_` any value will do.
    fn lane_source(&mut self, lane: ast::Operand, ty: ScalarType) -> Result<Operand, Unsupported> {
        if lane == ast::Operand::Sink { Ok(Operand::RZ) } else { self.source(lane, ty) }
    }

    /// Packs values of `bytes` bytes into one register, the first lowest.
    fn packed(&mut self, values: &[Operand], bytes: u32) -> Operand {
        let pair = if bytes == 1 { 0x3340_u32 } else { 0x5410 };
        let mut join = |a: Operand, b: Operand, selector: u32| {
            let first = if a == Operand::RZ { a } else { self.in_register(a) };
            self.b.define(Class::R, "PRMT $, {}, {}, {}", &[first, selector.into(), b])
        };
        match *values {
            [a, b] => join(a, b, pair),
            [a, b, c, d] => {
                let (low, high) = (join(a, b, pair), join(c, d, pair));
                join(low, high, 0x5410)
            }
            _ => values[0],
        }
    }
}
