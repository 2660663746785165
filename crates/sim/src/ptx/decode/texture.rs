//! Decodes `tex`, `tld4`, `txq`, `suld`, `sust`, `sured` and `suq`.

use oriole_kernel_test::Arrangement;
use oriole_ptx::ast::{self, AddressBase, FormShape, ValueType, VariableId};
use oriole_ptx::table::{Opcode, Slot as FormSlot};
use oriole_ptx::types::{ScalarType, StateSpace};

use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::image::{OutsideAccess, SurfaceReduction, SurfaceUnit};
use crate::ptx::program::{ImageAccess, ImageAccessKind, ImageHandle, ImageResults, PtxAction, PtxSource, RegisterSlot};
use crate::sampling::Geometry;

/// The destinations of the elements of an access; `None` for `_`.
type Destinations = Box<[Option<RegisterSlot>]>;

/// The operands that name a texture or surface and the position in it.
struct ImagePlace {
    handle: ImageHandle,
    sampler: Option<ImageHandle>,
    coordinates: Vec<PtxSource>,
}

/// Returns the kind of texture that a modifier names.
fn geometry(ptx: &PtxInst<'_>) -> Option<Geometry> {
    let (dimensions, arrangement) = match ptx.get(FormSlot::Geom)?.spelling() {
        "1d" => (1, Arrangement::Single),
        "2d" | "2dms" => (2, Arrangement::Single),
        "3d" => (3, Arrangement::Single),
        "a1d" => (1, Arrangement::Layers),
        "a2d" | "a2dms" => (2, Arrangement::Layers),
        "cube" => (2, Arrangement::Cube),
        "acube" => (2, Arrangement::Cubes),
        _ => return None,
    };
    Some(Geometry { has_samples: names(ptx, &["2dms", "a2dms"]), ..Geometry::new(dimensions, arrangement) })
}

/// Returns whether an instruction has one of these modifiers.
fn names(ptx: &PtxInst<'_>, spellings: &[&str]) -> bool {
    ptx.form.modifiers.iter().any(|value| spellings.contains(&value.modifier.spelling()))
}

impl FunctionDecoder<'_> {
    pub(crate) fn texture(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let access = match ptx.form.opcode {
            Opcode::Tex => self.fetch(ptx)?,
            Opcode::Tld4 => self.gather(ptx)?,
            Opcode::Suld | Opcode::Sust => self.surface(ptx)?,
            Opcode::Sured => self.reduction(ptx)?,
            _ => self.query(ptx)?,
        };
        self.push(PtxAction::Image(Box::new(access)));
        Ok(())
    }

    /// Decodes a handle in a register, or a reference.
    fn handle(&mut self, operand: ast::Operand) -> Decode<ImageHandle> {
        match operand {
            ast::Operand::Register(_) => self.source(operand, ScalarType::U64).map(ImageHandle::Register),
            ast::Operand::Variable(id) => self.reference(id),
            ast::Operand::Bracket(list) => self.handle(self.body.list(list)[0]),
            ast::Operand::Address(position) | ast::Operand::AddressOf(position) => match self.body.addresses[position as usize].base {
                AddressBase::Register(register) => self.handle(ast::Operand::Register(register)),
                AddressBase::Variable(id) => self.reference(id),
                _ => Err(Missing::new("an element of an array of references")),
            },
            _ => Err(Missing::new("this kind of reference")),
        }
    }

    /// Returns the reference that a variable is.
    fn reference(&self, id: VariableId) -> Decode<ImageHandle> {
        let variable = &self.module.variables[id];
        if variable.space == StateSpace::Param {
            return Err(Missing::new("a parameter that is a texture, sampler or surface reference"));
        }
        Ok(ImageHandle::Reference(self.module.name(variable.name).into()))
    }

    /// Decodes `[handle, {x, y, z}]`, or `[handle, {sample, index, x, y}]`, either one with a sampler after the handle. The coordinates
    /// have type `ty`.
    fn image_place(&mut self, ptx: &PtxInst<'_>, operand: ast::Operand, ty: ScalarType, geometry: Geometry) -> Decode<ImagePlace> {
        let ast::Operand::Bracket(list) = operand else { return self.unsupported(ptx) };
        let (handle, sampler, vector) = match *self.body.list(list) {
            [handle, vector] => (handle, None, vector),
            [handle, sampler, vector] => (handle, Some(sampler), vector),
            _ => return self.unsupported(ptx),
        };
        let handle = self.handle(handle)?;
        let sampler = sampler.map(|sampler| self.handle(sampler)).transpose()?;
        let integers = usize::from(geometry.has_samples) + usize::from(geometry.has_index());
        let count = integers + geometry.coordinates();
        let mut coordinates = Vec::new();
        for (number, place) in self.elements(vector, count).into_iter().take(count).enumerate() {
            coordinates.push(self.source(place, if number < integers { ScalarType::U32 } else { ty })?);
        }
        Ok(ImagePlace { handle, sampler, coordinates })
    }

    /// Returns the registers of a vector that are written; `None` for `_`.
    fn written(&self, operand: ast::Operand, count: usize) -> Decode<Destinations> {
        let slot = |element: ast::Operand| match element {
            ast::Operand::Sink => Ok(None),
            _ => self.destination(element).map(Some),
        };
        self.elements(operand, count).into_iter().map(slot).collect()
    }

    /// Decodes the first operand of a fetch: the results, and the predicate that says whether data is resident.
    fn results(&self, operand: ast::Operand, count: usize) -> Decode<(Destinations, Option<RegisterSlot>)> {
        let ast::Operand::Pair(list) = operand else { return Ok((self.written(operand, count)?, None)) };
        let &[vector, resident] = self.body.list(list) else { return Err(Missing::new("a pair of results")) };
        let resident = if resident == ast::Operand::Sink { None } else { Some(self.destination(resident)?) };
        Ok((self.written(vector, count)?, resident))
    }

    /// Decodes the optional operands from position `first` on, a vector of offsets and a reference value, and returns the offsets. The reference
    /// value is compared with the texels of depth textures, which neither CUDA nor kernel tests can create. For other textures an H200 ignores it,
    /// and so does the interpreter.
    fn offsets(&mut self, ptx: &PtxInst<'_>, first: usize, dimensions: usize) -> Decode<Box<[PtxSource]>> {
        let Some(&operand) = ptx.operands.get(first) else { return Ok(Box::default()) };
        let is_float = |shape: &FormShape| matches!(shape, FormShape::Value(value) if value.ty == ValueType::Scalar(ScalarType::F32));
        match ptx.form.operands.get(first) {
            Some(form) if is_float(&form.shape) => return Ok(Box::default()),
            Some(_) => {}
            None => return self.unsupported(ptx),
        }
        let elements = self.elements(operand, dimensions).into_iter().take(dimensions);
        elements.map(|offset| self.source(offset, ScalarType::S32)).collect()
    }

    fn fetch(&mut self, ptx: &PtxInst<'_>) -> Decode<ImageAccess> {
        let (&[to, from], Some(geometry)) = (ptx.types().as_slice(), geometry(ptx)) else { return self.unsupported(ptx) };
        let [has_level, has_gradient] = ["level", "grad"].map(|name| names(ptx, &[name]));
        // The level is one operand, derivatives are two; offsets and comparisons follow.
        let count = 2 + usize::from(has_level) + 2 * usize::from(has_gradient);
        let (form, elements) = match to {
            ScalarType::F16 => (ImageResults::Halves, 4),
            ScalarType::F16x2 => (ImageResults::PairsOfHalves, 2),
            _ => (ImageResults::Words, 4),
        };
        let is_float = from == ScalarType::F32;
        if has_gradient && !is_float {
            return self.unsupported(ptx);
        }
        let place = self.image_place(ptx, ptx.operand(1), from, geometry)?;
        let (destinations, resident) = self.results(ptx.operand(0), elements)?;
        let level = if has_level { Some(self.source(ptx.operand(2), from)?) } else { None };
        let mut derivatives = Vec::new();
        for operand in ptx.operands.iter().copied().skip(2).take(2 * usize::from(has_gradient)) {
            for element in self.elements(operand, geometry.coordinates()).into_iter().take(geometry.coordinates()) {
                derivatives.push(self.source(element, ScalarType::F32)?);
            }
        }
        let kind = if is_float { ImageAccessKind::Fetch(geometry) } else { ImageAccessKind::FetchTexel(geometry) };
        let offsets = self.offsets(ptx, count, geometry.dimensions)?;
        let access = ImageAccess::new(kind, place);
        Ok(ImageAccess { level, derivatives: derivatives.into(), offsets, destinations, results: form, resident, ..access })
    }

    fn gather(&mut self, ptx: &PtxInst<'_>) -> Decode<ImageAccess> {
        let Some(geometry) = geometry(ptx) else { return self.unsupported(ptx) };
        let component = ["r", "g", "b", "a"].iter().position(|name| ptx.get(FormSlot::Comp).is_some_and(|found| found.spelling() == *name));
        let Some(component) = component else { return self.unsupported(ptx) };
        let place = self.image_place(ptx, ptx.operand(1), ScalarType::F32, geometry)?;
        let (destinations, resident) = self.results(ptx.operand(0), 4)?;
        let offsets = self.offsets(ptx, 2, geometry.dimensions)?;
        Ok(ImageAccess { offsets, destinations, resident, ..ImageAccess::new(ImageAccessKind::Gather(geometry, component), place) })
    }

    /// Returns the kind of surface that an instruction accesses, the unit of its first coordinate, and its behaviour outside of the surface.
    fn surface_kind(&self, ptx: &PtxInst<'_>) -> Decode<(Geometry, SurfaceUnit, OutsideAccess)> {
        let outside = match () {
            () if names(ptx, &["trap"]) => OutsideAccess::Trap,
            () if names(ptx, &["clamp"]) => OutsideAccess::Clamp,
            () if names(ptx, &["zero"]) => OutsideAccess::Zero,
            () => return self.unsupported(ptx),
        };
        match geometry(ptx) {
            Some(geometry) if names(ptx, &["b"]) => Ok((geometry, SurfaceUnit::Bytes, outside)),
            Some(geometry) => Ok((geometry, SurfaceUnit::Samples, outside)),
            None => self.unsupported(ptx),
        }
    }

    fn surface(&mut self, ptx: &PtxInst<'_>) -> Decode<ImageAccess> {
        let (geometry, unit, outside) = self.surface_kind(ptx)?;
        let ty = ptx.ty();
        let element_bytes = ty.bytes() as u8;
        let is_load = ptx.form.opcode == Opcode::Suld;
        let (place, vector) = if is_load { (ptx.operand(1), ptx.operand(0)) } else { (ptx.operand(0), ptx.operand(1)) };
        let place = self.image_place(ptx, place, ScalarType::S32, geometry)?;
        let count = self.lanes(vector);
        let (mut destinations, mut values): (Destinations, Box<[PtxSource]>) = Default::default();
        if is_load {
            destinations = self.written(vector, count)?;
        } else {
            values = self.elements(vector, count).into_iter().map(|value| self.source(value, ty)).collect::<Decode<_>>()?;
        }
        let kind = ImageAccessKind::Surface { geometry, element_bytes, unit, outside };
        Ok(ImageAccess { destinations, values, ..ImageAccess::new(kind, place) })
    }

    fn reduction(&mut self, ptx: &PtxInst<'_>) -> Decode<ImageAccess> {
        let (geometry, unit, outside) = self.surface_kind(ptx)?;
        let ty = ptx.ty();
        let is_signed = matches!(ty, ScalarType::S32 | ScalarType::S64);
        let reduction = match () {
            () if names(ptx, &["add"]) => SurfaceReduction::Add,
            () if names(ptx, &["min"]) => SurfaceReduction::Min { is_signed },
            () if names(ptx, &["max"]) => SurfaceReduction::Max { is_signed },
            () if names(ptx, &["and"]) => SurfaceReduction::And,
            () if names(ptx, &["or"]) => SurfaceReduction::Or,
            () => return self.unsupported(ptx),
        };
        let place = self.image_place(ptx, ptx.operand(0), ScalarType::S32, geometry)?;
        let values = Box::new([self.source(ptx.operand(1), ty)?]);
        let kind = ImageAccessKind::Reduction { geometry, reduction, bytes: ty.bytes() as u8, unit, outside };
        Ok(ImageAccess { values, ..ImageAccess::new(kind, place) })
    }

    fn query(&mut self, ptx: &PtxInst<'_>) -> Decode<ImageAccess> {
        let axes = ["width", "height", "depth"];
        let axis = axes.iter().position(|axis| names(ptx, &[axis]));
        let (Some(axis), 2) = (axis, ptx.operands.len()) else { return self.unsupported(ptx) };
        let handle = self.handle(ptx.operand(1))?;
        let destinations = self.written(ptx.operand(0), 1)?;
        let place = ImagePlace { handle, sampler: None, coordinates: Vec::new() };
        Ok(ImageAccess { destinations, ..ImageAccess::new(ImageAccessKind::Size(axis), place) })
    }
}

impl ImageAccess {
    /// Returns an access without level, derivatives, offsets, destinations and values.
    fn new(kind: ImageAccessKind, place: ImagePlace) -> ImageAccess {
        ImageAccess {
            kind,
            handle: place.handle,
            sampler: place.sampler,
            coordinates: place.coordinates.into(),
            level: None,
            derivatives: Box::default(),
            offsets: Box::default(),
            destinations: Box::default(),
            results: ImageResults::Words,
            resident: None,
            values: Box::default(),
        }
    }
}
