//! Decodes `tex`, `txq`, `suld.b`, `sust.b` and `suq` with handles in registers: one, two and three dimensions, one level, no filter.

use oriole_ptx::ast::{self, AddressBase};
use oriole_ptx::table::{Opcode, Slot as FormSlot};
use oriole_ptx::types::ScalarType;

use super::{Decode, Decoder, Missing, Ptx};
use crate::image::Outside;
use crate::ptx::program::{Action, ImageAccess, ImageAccessKind, Slot, Source};

/// Returns the number of dimensions that a modifier names; `None` for arrays, cube maps and multisampled textures.
fn dimensions(ptx: &Ptx<'_>) -> Option<usize> {
    match ptx.get(FormSlot::Geom)?.spelling() {
        "1d" => Some(1),
        "2d" => Some(2),
        "3d" => Some(3),
        _ => None,
    }
}

/// Returns whether an instruction has one of these modifiers.
fn names(ptx: &Ptx<'_>, spellings: &[&str]) -> bool {
    ptx.form.modifiers.iter().any(|value| spellings.contains(&value.modifier.spelling()))
}

impl Decoder<'_> {
    pub(crate) fn texture(&mut self, ptx: &Ptx<'_>) -> Decode {
        let access = match ptx.form.opcode {
            Opcode::Tex => self.fetch(ptx)?,
            Opcode::Suld | Opcode::Sust => self.surface(ptx)?,
            _ => self.query(ptx)?,
        };
        self.push(Action::Image(Box::new(access)));
        Ok(())
    }

    /// Decodes a handle in a register.
    fn handle(&mut self, operand: ast::Operand) -> Decode<Source> {
        match operand {
            ast::Operand::Register(_) => self.source(operand, ScalarType::U64),
            ast::Operand::Bracket(list) => self.handle(self.body.list(list)[0]),
            ast::Operand::Address(position) | ast::Operand::AddressOf(position) => match self.body.addresses[position as usize].base {
                AddressBase::Register(register) => self.source(ast::Operand::Register(register), ScalarType::U64),
                _ => Err(Missing::new("a texture, sampler or surface reference")),
            },
            _ => Err(Missing::new("a texture, sampler or surface reference")),
        }
    }

    /// Decodes `[handle, {x, y, z}]`.
    fn image_place(&mut self, ptx: &Ptx<'_>, operand: ast::Operand, ty: ScalarType) -> Decode<(Source, Vec<Source>)> {
        let (Some(count), ast::Operand::Bracket(list)) = (dimensions(ptx), operand) else { return self.unsupported(ptx) };
        let &[handle, vector] = self.body.list(list) else { return Err(Missing::new("a separate sampler")) };
        let handle = self.handle(handle)?;
        let coordinates = self.elements(vector, count);
        let coordinates = coordinates[..count.min(coordinates.len())].iter().map(|&place| self.source(place, ty)).collect::<Decode<_>>()?;
        Ok((handle, coordinates))
    }

    /// Returns the registers of a vector that are written; `None` for `_`.
    fn written(&self, operand: ast::Operand, count: usize) -> Decode<Box<[Option<Slot>]>> {
        let slot = |element: ast::Operand| match element {
            ast::Operand::Sink => Ok(None),
            _ => self.destination(element).map(Some),
        };
        self.elements(operand, count).into_iter().map(slot).collect()
    }

    fn fetch(&mut self, ptx: &Ptx<'_>) -> Decode<ImageAccess> {
        let &[to, from] = ptx.types().as_slice() else { return self.unsupported(ptx) };
        let is_plain = ptx.operands.len() == 2 && !names(ptx, &["base", "level", "grad"]) && to.bits() == 32;
        if !is_plain || matches!(ptx.operand(0), ast::Operand::Pair(_)) {
            return self.unsupported(ptx);
        }
        let (handle, coordinates) = self.image_place(ptx, ptx.operand(1), from)?;
        let destinations = self.written(ptx.operand(0), 4)?;
        let kind = if from == ScalarType::F32 { ImageAccessKind::Fetch } else { ImageAccessKind::FetchTexel };
        Ok(ImageAccess { kind, handle, coordinates: coordinates.into(), destinations, values: Box::default() })
    }

    fn surface(&mut self, ptx: &Ptx<'_>) -> Decode<ImageAccess> {
        let outside = match () {
            () if names(ptx, &["trap"]) => Outside::Trap,
            () if names(ptx, &["clamp"]) => Outside::Clamp,
            () if names(ptx, &["zero"]) => Outside::Zero,
            () => return self.unsupported(ptx),
        };
        if !names(ptx, &["b"]) {
            return self.unsupported(ptx);
        }
        let ty = ptx.ty();
        let element_bytes = ty.bytes() as u8;
        let is_load = ptx.form.opcode == Opcode::Suld;
        let (place, vector) = if is_load { (ptx.operand(1), ptx.operand(0)) } else { (ptx.operand(0), ptx.operand(1)) };
        let (handle, coordinates) = self.image_place(ptx, place, ScalarType::S32)?;
        let count = self.lanes(vector);
        let (mut destinations, mut values): (Box<[Option<Slot>]>, Box<[Source]>) = Default::default();
        if is_load {
            destinations = self.written(vector, count)?;
        } else {
            values = self.elements(vector, count).into_iter().map(|value| self.source(value, ty)).collect::<Decode<_>>()?;
        }
        let kind = ImageAccessKind::Surface { element_bytes, outside };
        Ok(ImageAccess { kind, handle, coordinates: coordinates.into(), destinations, values })
    }

    fn query(&mut self, ptx: &Ptx<'_>) -> Decode<ImageAccess> {
        let axes = ["width", "height", "depth"];
        let axis = axes.iter().position(|axis| names(ptx, &[axis]));
        let (Some(axis), 2) = (axis, ptx.operands.len()) else { return self.unsupported(ptx) };
        let handle = self.handle(ptx.operand(1))?;
        let destinations = self.written(ptx.operand(0), 1)?;
        Ok(ImageAccess { kind: ImageAccessKind::Size(axis), handle, coordinates: Box::default(), destinations, values: Box::default() })
    }
}
