//! Decodes `mov`, including packing and unpacking.

use oriole_ptx::ast;
use oriole_ptx::table::Slot as FormSlot;
use oriole_ptx::types::ScalarType;

use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{PtxSource, Pure, RegisterSlot, SINK, Taint};
use crate::ptx::variables::low_bits;

impl FunctionDecoder<'_> {
    /// Decodes `mov`.
    pub(crate) fn mov(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let ty = ptx.ty();
        let (to, from) = (ptx.operand(0), ptx.operand(1));
        if let Some(vector) = ptx.get(FormSlot::Vec) {
            let count = usize::from(vector.number().unwrap_or(1));
            return self.move_vector(to, from, ty, count);
        }
        let (destinations, sources) = (self.elements(to, self.lanes(to)), self.elements(from, self.lanes(from)));
        match (&destinations[..], &sources[..]) {
            (&[to], &[from]) if ty == ScalarType::B128 => {
                let destination = self.destination(to)?;
                let [low, high] = self.halves(from, ty)?;
                self.copy(destination, low);
                self.copy(destination + 1, high);
                Ok(())
            }
            (&[to], &[from]) => {
                let source = self.source(from, ty)?;
                let destination = self.destination(to)?;
                self.copy_cut(destination, source, ty.bits());
                Ok(())
            }
            (&[to], elements) => self.pack(to, elements, ty),
            (elements, _) => self.unpack(elements, from, ty),
        }
    }

    /// Emits a copy of the lowest bits of a value.
    fn copy_cut(&mut self, destination: RegisterSlot, source: PtxSource, bits: u32) {
        let mask = low_bits(bits);
        self.compute(destination, &[source], Pure::One(Box::new(move |a| a & mask)), Taint::Follow);
    }

    /// Emits a vector move; all elements are read before the first is written, because source and destination may overlap.
    fn move_vector(&mut self, to: ast::Operand, from: ast::Operand, ty: ScalarType, count: usize) -> Decode {
        let mut values = Vec::new();
        for element in self.elements(from, count) {
            let source = self.source(element, ty)?;
            let copy = self.temporary();
            self.copy_cut(copy, source, ty.bits());
            values.push(copy);
        }
        for (element, value) in self.elements(to, count).into_iter().zip(values) {
            let destination = self.destination(element)?;
            self.copy(destination, PtxSource::register(value));
        }
        Ok(())
    }

    /// Decodes `mov d, {a, b, ...}`.
    fn pack(&mut self, to: ast::Operand, elements: &[ast::Operand], ty: ScalarType) -> Decode {
        let bits = ty.bits() / elements.len() as u32;
        let element_type = bits_type(bits)?;
        let mut sources = Vec::new();
        for &element in elements {
            sources.push(self.source(element, element_type)?);
        }
        let destination = self.destination(to)?;
        if ty == ScalarType::B128 {
            let halves: Vec<RegisterSlot> = sources.chunks(sources.len() / 2).map(|half| self.packed(half, bits)).collect();
            self.copy(destination, PtxSource::register(halves[0]));
            self.copy(destination + 1, PtxSource::register(halves[1]));
            return Ok(());
        }
        let whole = self.packed(&sources, bits);
        self.copy(destination, PtxSource::register(whole));
        Ok(())
    }

    /// Emits code that packs elements into up to 64 bits, lowest first; returns the slot of the result.
    fn packed(&mut self, sources: &[PtxSource], bits: u32) -> RegisterSlot {
        let whole = self.temporary();
        let mask = low_bits(bits);
        self.compute(whole, &[sources[0]], Pure::One(Box::new(move |a| a & mask)), Taint::Follow);
        for (number, &source) in sources.iter().enumerate().skip(1) {
            let shift = number as u32 * bits;
            let shifted = self.temporary();
            self.compute(shifted, &[source], Pure::One(Box::new(move |a| (a & mask) << shift)), Taint::Follow);
            let both = [PtxSource::register(whole), PtxSource::register(shifted)];
            self.compute(whole, &both, Pure::Two(Box::new(|a, b| a | b)), Taint::Bits);
        }
        whole
    }

    /// Decodes `mov {a, b, ...}, s`.
    fn unpack(&mut self, elements: &[ast::Operand], from: ast::Operand, ty: ScalarType) -> Decode {
        let bits = ty.bits() / elements.len() as u32;
        let mask = low_bits(bits);
        let halves = if ty == ScalarType::B128 { self.halves(from, ty)? } else { [self.source(from, ty)?, self.zero()] };
        let mut parts = Vec::new();
        for number in 0..elements.len() as u32 {
            let first_bit = number * bits;
            let (half, shift) = (halves[(first_bit / 64) as usize], first_bit % 64);
            let part = self.temporary();
            self.compute(part, &[half], Pure::One(Box::new(move |a| a >> shift & mask)), Taint::Follow);
            parts.push(part);
        }
        for (&element, part) in elements.iter().zip(parts) {
            let destination = self.destination(element)?;
            if destination != SINK {
                self.copy(destination, PtxSource::register(part));
            }
        }
        Ok(())
    }
}

fn bits_type(bits: u32) -> Decode<ScalarType> {
    Ok(match bits {
        8 => ScalarType::B8,
        16 => ScalarType::B16,
        32 => ScalarType::B32,
        64 => ScalarType::B64,
        _ => return Err(Missing::new("elements of this size")),
    })
}
