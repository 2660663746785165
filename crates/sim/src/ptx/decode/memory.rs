//! Decodes loads, stores, address conversions and matrix loads and stores.

use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode, Slot as FormSlot};
use oriole_ptx::types::{AddressSpace, ScalarType};

use super::{Decode, FunctionDecoder, Missing, PtxInst};
use crate::ptx::program::{
    CONSTANT_WINDOW, LOCAL_WINDOW, Load, MatrixKind, MatrixTransfer, Ordering, PARAMETER_WINDOW, PtxAction, PtxSpace, RANK_BYTES,
    SHARED_WINDOW, Store, WINDOW_BYTES,
};
use crate::ptx::program::{PtxAddress, PtxSource, SINK};

/// Returns the number of elements that a vector modifier names.
fn vector_lanes(ptx: &PtxInst<'_>) -> usize {
    [(Modifier::V2, 2), (Modifier::V4, 4), (Modifier::V8, 8)].iter().find(|(modifier, _)| ptx.has(*modifier)).map_or(1, |&(_, lanes)| lanes)
}

/// Returns the memory-ordering semantics of an access.
pub(crate) fn ordering(ptx: &PtxInst<'_>) -> Ordering {
    let acquire = ptx.has(Modifier::Acquire) || ptx.has(Modifier::AcqRel);
    let release = ptx.has(Modifier::Release) || ptx.has(Modifier::AcqRel);
    let strong =
        acquire || release || [Modifier::Relaxed, Modifier::Volatile, Modifier::Mmio].into_iter().any(|modifier| ptx.has(modifier));
    Ordering { strong, acquire, release }
}

/// Returns the start of a space's window in the generic address space.
fn window(space: PtxSpace) -> u64 {
    match space {
        PtxSpace::Shared | PtxSpace::SharedCluster => SHARED_WINDOW,
        PtxSpace::Local => LOCAL_WINDOW,
        PtxSpace::Constant => CONSTANT_WINDOW,
        PtxSpace::Parameter => PARAMETER_WINDOW,
        PtxSpace::Global | PtxSpace::Generic => 0,
    }
}

impl FunctionDecoder<'_> {
    /// Returns the space that the modifiers name.
    pub(crate) fn space(&self, ptx: &PtxInst<'_>) -> PtxSpace {
        let named = ptx.form.modifiers.iter().find_map(|value| value.modifier.space());
        match named {
            Some(AddressSpace::Global) => PtxSpace::Global,
            Some(AddressSpace::Shared | AddressSpace::SharedCta) => PtxSpace::Shared,
            Some(AddressSpace::SharedCluster) => PtxSpace::SharedCluster,
            Some(AddressSpace::Local | AddressSpace::ParamFunc) => PtxSpace::Local,
            Some(AddressSpace::Const) => PtxSpace::Constant,
            Some(AddressSpace::ParamEntry) => PtxSpace::Parameter,
            Some(AddressSpace::Param) if self.is_kernel => PtxSpace::Parameter,
            Some(AddressSpace::Param) => PtxSpace::Local,
            _ => PtxSpace::Generic,
        }
    }

    /// Decodes `ld` and `ldu`.
    pub(crate) fn load(&mut self, ptx: &PtxInst<'_>) -> Decode {
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
        self.push(PtxAction::Load(Box::new(load)));
        Ok(())
    }

    /// Decodes `st`.
    pub(crate) fn store(&mut self, ptx: &PtxInst<'_>) -> Decode {
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
        self.push(PtxAction::Store(Box::new(store)));
        Ok(())
    }

    /// Decodes `cvta`: adds or subtracts the start of the space's window.
    pub(crate) fn cvta(&mut self, ptx: &PtxInst<'_>) -> Decode {
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
    pub(crate) fn isspacep(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let space = self.space(ptx);
        let a = self.source(ptx.operand(1), ScalarType::U64)?;
        let d = self.destination(ptx.operand(0))?;
        let is_in = |space: PtxSpace, address: u64| (window(space)..window(space) + WINDOW_BYTES).contains(&address);
        if space == PtxSpace::Shared {
            let own = self.shared_address(SHARED_WINDOW);
            self.compute2(d, [a, own], |address, own| u64::from((own..own + RANK_BYTES).contains(&address)));
            return Ok(());
        }
        self.compute1(d, a, move |address| {
            let others = [PtxSpace::Shared, PtxSpace::Local, PtxSpace::Constant];
            u64::from(match space {
                PtxSpace::Global | PtxSpace::Generic => !others.into_iter().any(|other| is_in(other, address)),
                _ => is_in(space, address),
            })
        });
        Ok(())
    }

    /// Decodes `createpolicy`. Policies are hints, so any value will do.
    pub(crate) fn create_policy(&mut self, ptx: &PtxInst<'_>) -> Decode {
        let d = self.destination(ptx.operand(0))?;
        let source = if ptx.has(Modifier::Cvt) { self.source(ptx.operand(1), ScalarType::U64)? } else { self.zero() };
        self.copy(d, source);
        Ok(())
    }

    /// Decodes `ldmatrix`, `stmatrix`, `movmatrix` of 8 × 8 matrices of 16-bit elements.
    pub(crate) fn matrix(&mut self, ptx: &PtxInst<'_>) -> Decode {
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
        let nowhere = PtxAddress { space: PtxSpace::Shared, base: self.zero(), offset: 0, in_frame: false };
        let (address, registers, results) = match kind {
            MatrixKind::Load => (self.address_in_shared(ptx.operand(1), self.space(ptx))?, None, Some(ptx.operand(0))),
            MatrixKind::Store => (self.address_in_shared(ptx.operand(0), self.space(ptx))?, Some(ptx.operand(1)), None),
            MatrixKind::Move => (nowhere, Some(ptx.operand(1)), Some(ptx.operand(0))),
        };
        let mut sources: Vec<PtxSource> = Vec::new();
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
        let matrix = MatrixTransfer { kind, transposed, address, registers: sources.into(), destinations: destinations.into() };
        self.push(PtxAction::Matrix(Box::new(matrix)));
        Ok(())
    }
}
