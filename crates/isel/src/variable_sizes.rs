//! Sizes of variables, and the variables that a function or a state space has.

use oriole_ptx::ast::{AddressBase, Function, Module, Operand, Variable, VariableId, VariableType};
use oriole_ptx::types::StateSpace;
use oriole_support::Index;

/// Returns the next multiple of `align`, or `u64::MAX` on overflow.
pub(crate) fn aligned(end: u64, align: u64) -> u64 {
    end.checked_next_multiple_of(align.max(1)).unwrap_or(u64::MAX)
}

/// Converts an offset to 32 bits. An offset that does not fit belongs to a function that exceeds a limit and is not compiled.
pub(crate) fn narrow(offset: u64) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}

/// Returns the size in bytes of one variable; for a texture, sampler or surface that of its handle.
pub(crate) fn one_bytes(variable: &Variable) -> u64 {
    match variable.ty {
        VariableType::Scalar(_) => u64::try_from(variable.size_bytes().unwrap_or(0)).unwrap_or(u64::MAX),
        _ => 8,
    }
}

/// Returns whether a variable is a texture, sampler or surface.
pub(crate) fn is_opaque(variable: &Variable) -> bool {
    !matches!(variable.ty, VariableType::Scalar(_))
}

/// Returns the distance in bytes between the variables of a parameterized declaration.
pub(crate) fn stride(variable: &Variable) -> u64 {
    aligned(one_bytes(variable), variable.align_bytes())
}

/// Returns the size in bytes of all variables of a declaration.
pub(crate) fn total_bytes(variable: &Variable) -> u64 {
    match variable.count {
        Some(count) => stride(variable).saturating_mul(u64::from(count)),
        None => one_bytes(variable),
    }
}

/// Returns the variables in a state space, in order of declaration.
pub(crate) fn variables_in(module: &Module, space: StateSpace) -> impl Iterator<Item = VariableId> + '_ {
    let is_there = move |(position, variable): (usize, &Variable)| (variable.space == space).then(|| VariableId::new(position));
    module.variables.iter().enumerate().filter_map(is_there)
}

/// Returns the variables that a function's code refers to, in order of declaration.
pub fn referenced_variables(function: &Function) -> Vec<VariableId> {
    let Some(body) = function.body.as_deref() else { return Vec::new() };
    let in_operands = body.operands.iter().filter_map(|operand| if let Operand::Variable(id) = *operand { Some(id) } else { None });
    let in_addresses = body.addresses.iter().filter_map(|address| match address.base {
        AddressBase::Variable(id) | AddressBase::VariableMember(id, _) => Some(id),
        _ => None,
    });
    let mut found: Vec<VariableId> = in_operands.chain(in_addresses).collect();
    found.sort_unstable();
    found.dedup();
    found
}
