//! Generic addresses: `cvta`, `isspacep`.

use oriole_ir::{Class, Operand};
use oriole_isa::{SharedWindow, SystemLayout};
use oriole_ptx::ast;
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use super::modifiers::{AccessSpace, has_clusters, space_of};
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::variable_sizes::is_opaque;

/// Selects `cvta`.
pub(crate) fn cvta(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if ptx.ty().bits() != 64 {
        return select.unsupported(ptx);
    }
    let space = space_of(ptx);
    let source = match ptx.operand(1) {
        operand @ (ast::Operand::Variable(_) | ast::Operand::AddressOf(_)) => select.address_value(operand)?,
        operand => select.wide_source(operand, ScalarType::U64)?,
    };
    let is_from_generic = ptx.has(Modifier::To);
    let halves = [select.low(source), select.high(source)];
    let value = match space {
        AccessSpace::Generic | AccessSpace::Global => source,
        AccessSpace::Shared | AccessSpace::Cluster if has_clusters(select.target) => {
            let high = if is_from_generic { Operand::RZ } else { select.shared_window_high() };
            let low = select.in_register(halves[0]);
            select.b.pack(Class::R2, &[low, high])
        }
        _ => {
            let window = select.window(ptx, space)?;
            if is_from_generic { select.subtract_pairs(halves, window) } else { select.add_pairs(halves, window) }
        }
    };
    select.assign(ptx.operand(0), value)
}

/// Selects `isspacep`.
pub(crate) fn isspacep(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let space = space_of(ptx);
    let address = select.wide_source(ptx.operand(1), ScalarType::U64)?;
    let result = match space {
        AccessSpace::Global => {
            let is_global = select.query_space("G", address);
            let bytes = select.variables.constant_bytes as u32;
            let is_constant = select.is_in_window(ptx, AccessSpace::Constant, address, bytes)?;
            select.b.define(Class::P, "PLOP3.LUT $, PT, {}, {}, PT, 0x20, 0x0", &[is_global, is_constant])
        }
        AccessSpace::Shared => select.query_space("S", address),
        AccessSpace::Cluster => select.query_space("D", address),
        AccessSpace::Local => select.query_space("L", address),
        AccessSpace::Constant => {
            let bytes = select.variables.constant_bytes as u32;
            select.is_in_window(ptx, AccessSpace::Constant, address, bytes)?
        }
        AccessSpace::Parameter => {
            let bytes = select.variables.parameter_bytes as u32;
            select.is_in_window(ptx, AccessSpace::Parameter, address, bytes)?
        }
        AccessSpace::Generic => return select.unsupported(ptx),
    };
    select.assign(ptx.operand(0), result)
}

impl Select<'_> {
    /// Emits a test whether a generic address is in a memory space, given by letter: `G` global, `L` local, `S` shared, `D` distributed
    /// shared.
    pub(crate) fn query_space(&mut self, letter: &str, address: Operand) -> Operand {
        self.b.define(Class::P, &format!("QSPC.E.{letter} $, RZ, [{{}}+0x0]"), &[address])
    }

    /// Returns the 64-bit generic address at which the window of a memory space starts.
    pub(crate) fn window(&mut self, ptx: &Ptx<'_>, space: AccessSpace) -> Result<[Operand; 2], Unsupported> {
        let profile = SystemLayout::of(self.target);
        let offset = match (space, profile.shared_window) {
            (AccessSpace::Local, _) => profile.local_window,
            (AccessSpace::Constant, _) => profile.constant_window,
            (AccessSpace::Parameter, _) => profile.parameter_window,
            (AccessSpace::Shared, SharedWindow::Constant(offset)) => offset,
            _ => return self.unsupported(ptx),
        };
        let halves = [Operand::constant(0, offset), Operand::constant(0, offset + 4)];
        let parameters_start = profile.parameters_in_window(self.variables.parameters_start);
        if space == AccessSpace::Parameter && parameters_start != 0 {
            let start = self.add_pairs(halves, [parameters_start.into(), Operand::RZ]);
            return Ok([self.low(start), self.high(start)]);
        }
        Ok(halves)
    }

    /// Returns the address in shared memory for a generic one, on targets where the window of shared memory can be anywhere.
    pub(crate) fn shared_from_generic(&mut self, ptx: &Ptx<'_>, generic: Operand) -> Result<Operand, Unsupported> {
        let window = self.window(ptx, AccessSpace::Shared)?;
        let low = self.low(generic);
        Ok(self.difference(low, window[0]))
    }

    /// Emits a test whether a generic address is among the first `bytes` bytes of a window.
    fn is_in_window(&mut self, ptx: &Ptx<'_>, space: AccessSpace, address: Operand, bytes: u32) -> Result<Operand, Unsupported> {
        let window = self.window(ptx, space)?;
        let distance = self.subtract_pairs([self.low(address), self.high(address)], window);
        let (low, high) = (self.low(distance), self.high(distance));
        let is_near = self.b.define(Class::P, "ISETP.LT.U32.AND $, PT, {}, {}, PT", &[low, bytes.into()]);
        Ok(self.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, RZ, {}", &[high, is_near]))
    }
}

/// Selects `istypep` of a handle in a register: bits 61 to 63 of a handle tell its kind.
pub(crate) fn istypep(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let kinds = [(Modifier::Texref, 1_u32 << 29), (Modifier::Samplerref, 1 << 30), (Modifier::Surfref, 1 << 31)];
    let Some(&(_, bit)) = kinds.iter().find(|(modifier, _)| ptx.has(*modifier)) else { return select.unsupported(ptx) };
    let is_reference = matches!(ptx.operand(1), ast::Operand::Variable(id) if is_opaque(&select.frame.module.variables[id]));
    if !is_reference && !matches!(ptx.operand(1), ast::Operand::Register(_) | ast::Operand::Element(..)) {
        return select.unsupported(ptx);
    }
    let [_, high] = select.halves(ptx.operand(1), ScalarType::U64)?;
    let masked = select.bitwise_and(high, bit.into());
    let holds = select.compare_words("NE", false, masked, Operand::RZ);
    select.assign(ptx.operand(0), holds)
}
