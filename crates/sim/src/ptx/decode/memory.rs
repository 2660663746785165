//! Decodes loads, stores, address conversions and matrix loads and stores.

use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode, Slot as FormSlot};
use oriole_ptx::types::{AddressSpace, ScalarType};

use super::{Decode, Decoder, Missing, Ptx};
use crate::ptx::program::{
    Action, CONSTANT_WINDOW, LOCAL_WINDOW, Load, Matrix, MatrixKind, Ordering, PARAMETER_WINDOW, RANK_BYTES, SHARED_WINDOW, Space, Store,
    WINDOW_BYTES,
};
use crate::ptx::program::{Address, SINK, Source};

/// Returns the number of elements that a vector modifier names.
fn vector_lanes(ptx: &Ptx<'_>) -> usize {
    [(Modifier::V2, 2), (Modifier::V4, 4), (Modifier::V8, 8)].iter().find(|(modifier, _)| ptx.has(*modifier)).map_or(1, |&(_, lanes)| lanes)
}

/// Returns the memory-ordering semantics of an access.
pub(crate) fn ordering(ptx: &Ptx<'_>) -> Ordering {
    let acquire = ptx.has(Modifier::Acquire) || ptx.has(Modifier::AcqRel);
    let release = ptx.has(Modifier::Release) || ptx.has(Modifier::AcqRel);
    let strong =
        acquire || release || [Modifier::Relaxed, Modifier::Volatile, Modifier::Mmio].into_iter().any(|modifier| ptx.has(modifier));
    Ordering { strong, acquire, release }
}

/// Returns the start of a space's window in the generic address space.
fn window(space: Space) -> u64 {
    match space {
        Space::Shared | Space::SharedCluster => SHARED_WINDOW,
        Space::Local => LOCAL_WINDOW,
        Space::Constant => CONSTANT_WINDOW,
        Space::Parameter => PARAMETER_WINDOW,
        Space::Global | Space::Generic => 0,
    }
}

impl Decoder<'_> {
    /// Returns the space that the modifiers name.
    pub(crate) fn space(&self, ptx: &Ptx<'_>) -> Space {
        let named = ptx.form.modifiers.iter().find_map(|value| value.modifier.space());
        match named {
            Some(AddressSpace::Global) => Space::Global,
            Some(AddressSpace::Shared | AddressSpace::SharedCta) => Space::Shared,
            Some(AddressSpace::SharedCluster) => Space::SharedCluster,
            Some(AddressSpace::Local | AddressSpace::ParamFunc) => Space::Local,
            Some(AddressSpace::Const) => Space::Constant,
            Some(AddressSpace::ParamEntry) => Space::Parameter,
            Some(AddressSpace::Param) if self.is_kernel => Space::Parameter,
            Some(AddressSpace::Param) => Space::Local,
            _ => Space::Generic,
        }
    }

    /// Decodes `ld` and `ldu`.
    pub(crate) fn load(&mut self, ptx: &Ptx<'_>) -> Decode {
        let ty = ptx.ty();
        let elements = self.elements(ptx.operand(0), vector_lanes(ptx));
        let address = self.address(ptx.operand(1), self.space(ptx))?;
        let mut destinations = Vec::new();
        let mut sign_bits = 0;
        for element in elements {
            let destination = self.destination(element)?;
            destinations.push((destination != SINK).then_some(destination));
            if ty.is_signed() && self.width(element) > ty.bits() {
                sign_bits = self.width(element) as u8;
            }
        }
        let load = Load { address, element_bytes: ty.bytes() as u8, sign_bits, destinations: destinations.into(), ordering: ordering(ptx) };
        self.push(Action::Load(Box::new(load)));
        Ok(())
    }

    /// Decodes `st`.
    pub(crate) fn store(&mut self, ptx: &Ptx<'_>) -> Decode {
        let ty = ptx.ty();
        let address = self.address(ptx.operand(0), self.space(ptx))?;
        let (mut values, mut upper) = (Vec::new(), Vec::new());
        for element in self.elements(ptx.operand(1), vector_lanes(ptx)) {
            if element == ast::Operand::Sink {
                values.push(None);
                upper.push(self.zero());
                continue;
            }
            let halves = if ty.bits() == 128 { self.halves(element, ty)? } else { [self.source(element, ty)?, self.zero()] };
            values.push(Some(halves[0]));
            upper.push(halves[1]);
        }
        let ordering = ordering(ptx);
        let store = Store { address, element_bytes: ty.bytes() as u8, values: values.into(), upper: upper.into(), ordering };
        self.push(Action::Store(Box::new(store)));
        Ok(())
    }

    /// Decodes `cvta`: adds or subtracts the start of the space's window.
    pub(crate) fn cvta(&mut self, ptx: &Ptx<'_>) -> Decode {
        let operand = ptx.operand(1);
        let space = self.space_of_variable(operand).unwrap_or_else(|| self.space(ptx));
        let window = window(space);
        let a = self.source(operand, ScalarType::U64)?;
        let d = self.destination(ptx.operand(0))?;
        if ptx.has(Modifier::To) {
            self.compute1(d, a, move |a| a.wrapping_sub(window));
        } else {
            self.compute1(d, a, move |a| a.wrapping_add(window));
        }
        Ok(())
    }

    /// Decodes `isspacep`. A generic address is global unless it is in another space's window.
    pub(crate) fn isspacep(&mut self, ptx: &Ptx<'_>) -> Decode {
        let space = self.space(ptx);
        let a = self.source(ptx.operand(1), ScalarType::U64)?;
        let d = self.destination(ptx.operand(0))?;
        let is_in = |space: Space, address: u64| (window(space)..window(space) + WINDOW_BYTES).contains(&address);
        if space == Space::Shared {
            let own = self.shared_address(SHARED_WINDOW);
            self.compute2(d, [a, own], |address, own| u64::from((own..own + RANK_BYTES).contains(&address)));
            return Ok(());
        }
        self.compute1(d, a, move |address| {
            let others = [Space::Shared, Space::Local, Space::Constant];
            u64::from(match space {
                Space::Global | Space::Generic => !others.into_iter().any(|other| is_in(other, address)),
                _ => is_in(space, address),
            })
        });
        Ok(())
    }

    /// Decodes `createpolicy`. Policies are hints, so any value will do.
    pub(crate) fn create_policy(&mut self, ptx: &Ptx<'_>) -> Decode {
        let d = self.destination(ptx.operand(0))?;
        let source = if ptx.has(Modifier::Cvt) { self.source(ptx.operand(1), ScalarType::U64)? } else { self.zero() };
        self.copy(d, source);
        Ok(())
    }

    /// Decodes `ldmatrix`, `stmatrix`, `movmatrix` of 8 × 8 matrices of 16-bit elements.
    pub(crate) fn matrix(&mut self, ptx: &Ptx<'_>) -> Decode {
        if !ptx.has(Modifier::M8n8) || !ptx.has(Modifier::B16) {
            return self.unsupported(ptx);
        }
        let kind = match ptx.form.opcode {
            Opcode::Ldmatrix => MatrixKind::Load,
            Opcode::Stmatrix => MatrixKind::Store,
            _ => MatrixKind::Move,
        };
        let count = match ptx.get(FormSlot::Num) {
            Some(Modifier::X2) => 2,
            Some(Modifier::X4) => 4,
            _ => 1,
        };
        let nowhere = Address { space: Space::Shared, base: self.zero(), offset: 0, in_frame: false };
        let (address, registers, results) = match kind {
            MatrixKind::Load => (self.address_in_shared(ptx.operand(1), self.space(ptx))?, None, Some(ptx.operand(0))),
            MatrixKind::Store => (self.address_in_shared(ptx.operand(0), self.space(ptx))?, Some(ptx.operand(1)), None),
            MatrixKind::Move => (nowhere, Some(ptx.operand(1)), Some(ptx.operand(0))),
        };
        let mut sources: Vec<Source> = Vec::new();
        for element in registers.map(|operand| self.elements(operand, count)).unwrap_or_default() {
            sources.push(self.source(element, ScalarType::B32)?);
        }
        let mut destinations = Vec::new();
        for element in results.map(|operand| self.elements(operand, count)).unwrap_or_default() {
            destinations.push(self.destination(element)?);
        }
        if sources.len().max(destinations.len()) != count {
            return Err(Missing::new(format!("{} with this many registers", ptx.spelling())));
        }
        let transposed = ptx.has(Modifier::Trans);
        let matrix = Matrix { kind, transposed, address, registers: sources.into(), destinations: destinations.into() };
        self.push(Action::Matrix(Box::new(matrix)));
        Ok(())
    }
}
