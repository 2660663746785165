//! The variables of a module in the file.

use oriole_cubin::build::{self, DataPatch, DataRelocation, Extern, ExternKind, Home, Variable};
use oriole_isel::{Data, DataAddress, Layout, Static};
use oriole_ptx::ast::{Attribute, FunctionKind, Linkage, Module};

/// Adds what a module defines and refers to.
pub fn add(file: &mut build::Module, module: &Module, layout: &Layout) {
    let mut variables: Vec<Variable> = Vec::new();
    for global in &layout.globals {
        let home = match &global.initial {
            Some(data) if data.bytes.iter().any(|&byte| byte != 0) || !data.addresses.is_empty() => Home::Initialized(data.bytes.clone()),
            _ => Home::Zero,
        };
        variables.push(variable(module, global, home));
    }
    for constant in &layout.constants {
        let bytes = constant.initial.as_ref().map_or_else(|| vec![0; constant.bytes as usize], |data| data.bytes.clone());
        variables.push(Variable { offset: u64::from(constant.offset), ..variable(module, constant, Home::Constant(bytes)) });
    }
    // Those that other files can see come first.
    variables.sort_by_key(|variable| variable.linkage != build::Linkage::Global);
    file.variables.extend(variables);
    file.addresses.extend(layout.addresses.iter().cloned());
    for name in &layout.externs {
        file.externs.push(Extern::new(name.clone(), ExternKind::Global(0)));
    }
    place_globals(file);
}

/// Who can see a symbol in the file. Kernels are always visible.
pub fn linkage(linkage: Linkage, is_kernel: bool) -> build::Linkage {
    match linkage {
        Linkage::Weak | Linkage::Common => build::Linkage::Weak,
        Linkage::Visible | Linkage::Extern => build::Linkage::Global,
        Linkage::Internal if is_kernel => build::Linkage::Global,
        Linkage::Internal => build::Linkage::Local,
    }
}

fn variable(module: &Module, found: &Static, home: Home) -> Variable {
    let source = &module.variables[found.id];
    Variable {
        linkage: linkage(source.linkage, false),
        is_managed: source.attributes.contains(&Attribute::Managed),
        relocations: found.initial.as_ref().map(|data| relocations(module, data)).unwrap_or_default(),
        ..Variable::new(found.name.clone(), home, found.bytes, found.align)
    }
}

fn relocations(module: &Module, data: &Data) -> Vec<DataRelocation> {
    data.addresses.iter().map(|address| relocation(module, address)).collect()
}

fn relocation(module: &Module, address: &DataAddress) -> DataRelocation {
    let is_function =
        module.functions.iter().any(|function| function.kind == FunctionKind::Function && module.name(function.name) == address.symbol);
    let kind = match address.byte {
        Some(byte) => DataPatch::GenericByte(byte),
        None if is_function => DataPatch::Function,
        None => DataPatch::Generic,
    };
    DataRelocation { offset: address.offset, kind, symbol: address.symbol.clone(), addend: address.addend }
}

/// Offsets of global variables in their sections; those of constants are fixed already.
fn place_globals(file: &mut build::Module) {
    let fixed: Vec<(String, u64)> = file
        .variables
        .iter()
        .filter(|variable| matches!(variable.home, Home::Constant(_)))
        .map(|variable| (variable.name.clone(), variable.offset))
        .collect();
    file.place_variables();
    for (name, offset) in fixed {
        if let Some(variable) = file.variables.iter_mut().find(|variable| variable.name == name) {
            variable.offset = offset;
        }
    }
}
