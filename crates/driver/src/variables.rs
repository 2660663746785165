//! Adds the variables of a PTX module to the description of the cubin.

use oriole_cubin::FileType;
use oriole_cubin::build::{self, DataPatch, DataRelocation, Extern, ExternKind, Home, ImageKind, SharedVariable, Variable};
use oriole_cubin::target::FileTraits;
use oriole_isel::{Data, DataAddress, Layout, Static};
use oriole_ptx::ast::{
    Attribute, Function, FunctionKind, Linkage, Module, PointerAttribute, PointerTarget, Statement, VariableId, VariableType,
};
use oriole_ptx::types::StateSpace;
use oriole_support::Index as _;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::error::ErrorCause;
use crate::functions::FunctionIndex;

/// Maximum size in bytes of the cubin section with initialized variables, including alignment gaps.
const MAX_INITIALIZED_SECTION_BYTES: u64 = 1 << 29;

/// Returns the kind of object (texture, sampler or surface) that a variable of this type refers to; `None` for ordinary types.
pub fn image_kind(ty: VariableType) -> Option<ImageKind> {
    match ty {
        VariableType::Scalar(_) => None,
        VariableType::Texture => Some(ImageKind::Texture),
        VariableType::Sampler => Some(ImageKind::Sampler),
        VariableType::Surface => Some(ImageKind::Surface),
    }
}

/// Returns the code of the state space that a kernel parameter with `.ptr` points to, as `EIATTR_KPARAM_INFO` has it.
pub fn pointer_space(pointer: PointerAttribute, traits: FileTraits) -> u8 {
    const GENERIC: u8 = 5;
    match pointer.target {
        Some(PointerTarget::Space(StateSpace::Local)) => 1,
        Some(PointerTarget::Space(StateSpace::Shared)) => 2,
        Some(PointerTarget::Space(StateSpace::Const)) => traits.style.constant_pointer_space(),
        Some(PointerTarget::Space(StateSpace::Global)) => 4,
        Some(PointerTarget::Opaque(ty)) => image_kind(ty).map_or(GENERIC, ImageKind::parameter_space),
        Some(PointerTarget::Space(_)) | None => GENERIC,
    }
}

/// Adds the global and constant variables that a module defines, and the external variables that it refers to. Returns an error if the
/// section of initialized variables would become too large.
pub fn add_variables(file: &mut build::Module, module: &Module, index: &FunctionIndex<'_>, layout: &Layout) -> Result<(), ErrorCause> {
    let mut variables: Vec<Variable> = Vec::new();
    for global in &layout.globals {
        let home = match &global.initial {
            Some(data) if data.bytes.iter().any(|&byte| byte != 0) || !data.addresses.is_empty() => Home::Initialized(data.bytes.clone()),
            // A `.common` variable stays common only in a relocatable file, where a linker joins its definitions.
            _ if module.variables[global.id].linkage == Linkage::Common && file.file_type == FileType::Relocatable => Home::Common,
            _ => Home::Zero,
        };
        variables.push(to_build_variable(module, index, global, home));
    }
    for constant in &layout.constants {
        let bytes = constant.initial.as_ref().map_or_else(|| vec![0; constant.bytes as usize], |data| data.bytes.clone());
        variables
            .push(Variable { offset: u64::from(constant.offset), ..to_build_variable(module, index, constant, Home::Constant(bytes)) });
    }
    // Variables that are visible to other files come first in the cubin.
    variables.sort_by_key(|variable| variable.linkage != build::Linkage::Global);
    file.variables.extend(variables);
    file.addresses.extend(layout.addresses.iter().cloned());
    for (name, id) in &layout.externs {
        let variable = &module.variables[*id];
        let bytes = variable.size_bytes().and_then(|bytes| u64::try_from(bytes).ok()).unwrap_or(0);
        let kind = if variable.space == StateSpace::Const { ExternKind::Constant(bytes) } else { ExternKind::Global(bytes) };
        file.externs.push(Extern::new(name.clone(), kind));
    }
    assign_global_offsets(file);
    let initialized = file.variables.iter().filter(|variable| matches!(variable.home, Home::Initialized(_)));
    let end = initialized.map(|variable| variable.offset.saturating_add(variable.size)).max().unwrap_or(0);
    if end > MAX_INITIALIZED_SECTION_BYTES {
        let what = format!(
            "initialized variables with their alignments take {end} bytes, more than the {MAX_INITIALIZED_SECTION_BYTES} that files hold"
        );
        return Err(ErrorCause::Limit(what));
    }
    Ok(())
}

/// Defines the external global variables of an executable file that no module of the program defines, with the value zero, as ptxas does.
/// Returns an error if the declaration has no size.
pub fn define_unresolved_variables(file: &mut build::Module, modules: &[&Module]) -> Result<(), ErrorCause> {
    // Constants with a size have their place in the bank already.
    let is_variable = |external: &Extern| matches!(external.kind, ExternKind::Global(_) | ExternKind::Constant(_));
    let (unresolved, others): (Vec<Extern>, Vec<Extern>) = std::mem::take(&mut file.externs).into_iter().partition(is_variable);
    file.externs = others;
    if unresolved.is_empty() {
        return Ok(());
    }
    // The first declaration of a name counts.
    let mut alignments: FxHashMap<&str, u64> = FxHashMap::default();
    for module in modules {
        for variable in &module.variables {
            alignments.entry(module.name(variable.name)).or_insert_with(|| variable.align_bytes());
        }
    }
    for external in unresolved {
        let (ExternKind::Global(bytes) | ExternKind::Constant(bytes)) = external.kind else { continue };
        if bytes == 0 {
            return Err(ErrorCause::Limit(format!("Unresolved extern variable '{}'", external.name)));
        }
        let alignment = alignments.get(external.name.as_str()).copied().unwrap_or(1).max(1);
        file.variables.push(Variable::new(external.name, Home::Zero, bytes, alignment));
    }
    file.variables.sort_by_key(|variable| variable.linkage != build::Linkage::Global);
    assign_global_offsets(file);
    Ok(())
}

/// Adds to a relocatable object the shared variables that functions of a module use and no kernel declares in its body. The linker assigns
/// their addresses.
pub fn add_shared_variables(file: &mut build::Module, module: &Module, layout: &Layout) {
    let referenced: FxHashSet<VariableId> = module.functions.iter().flat_map(oriole_isel::referenced_variables).collect();
    let of_kernels: FxHashSet<VariableId> = module
        .functions
        .iter()
        .filter(|function| function.kind == FunctionKind::Entry)
        .flat_map(|kernel| declared_and_used_shared(module, kernel))
        .collect();
    let mut externs: FxHashSet<String> = file.externs.iter().map(|known| known.name.clone()).collect();
    for (position, variable) in module.variables.iter().enumerate() {
        let id = VariableId::new(position);
        let (StateSpace::Shared, Some(name)) = (variable.space, layout.name(id)) else { continue };
        if !referenced.contains(&id) || of_kernels.contains(&id) {
            continue;
        }
        match shared_bytes(variable) {
            Some(bytes) if variable.linkage != Linkage::Extern => file.variables.push(Variable {
                linkage: linkage(variable.linkage),
                ..Variable::new(name, Home::Shared, bytes, variable.align_bytes().max(1))
            }),
            _ if !externs.insert(name.to_owned()) => {}
            _ => file.externs.push(Extern::new(name, ExternKind::DynamicShared)),
        }
    }
}

/// Returns the shared variables that a kernel declares in its body and uses.
pub fn kernel_shared_variables(module: &Module, layout: &Layout, kernel: &Function) -> Vec<SharedVariable> {
    let ids = declared_and_used_shared(module, kernel).into_iter();
    ids.filter_map(|id| {
        let variable = &module.variables[id];
        let (name, size) = (layout.name(id)?.to_owned(), shared_bytes(variable)?);
        Some(SharedVariable { name, size, alignment: variable.align_bytes().max(1) })
    })
    .collect()
}

/// Returns the static shared variables that a function both declares and uses.
fn declared_and_used_shared(module: &Module, function: &Function) -> Vec<VariableId> {
    let statements = function.body.as_deref().map_or(&[][..], |body| &body.statements);
    let declared = statements.iter().filter_map(|statement| if let Statement::Variable(id) = *statement { Some(id) } else { None });
    let is_static = |id: &VariableId| module.variables[*id].space == StateSpace::Shared && module.variables[*id].linkage != Linkage::Extern;
    // `referenced` is sorted, so a binary search finds a variable in it.
    let referenced = oriole_isel::referenced_variables(function);
    declared.filter(is_static).filter(|id| referenced.binary_search(id).is_ok()).collect()
}

/// Returns the size in bytes of a shared variable, or `None` if it is an array of unknown size.
fn shared_bytes(variable: &oriole_ptx::ast::Variable) -> Option<u64> {
    let bytes = u64::try_from(variable.size_bytes()?).ok()?;
    Some(bytes.saturating_mul(u64::from(variable.count.unwrap_or(1))))
}

/// Returns the linkage of a symbol in the cubin for a PTX linkage directive. A kernel without `.visible` is local too: the driver finds it
/// by its name, and the linker accepts another one of that name.
pub fn linkage(linkage: Linkage) -> build::Linkage {
    match linkage {
        Linkage::Weak => build::Linkage::Weak,
        Linkage::Visible | Linkage::Extern | Linkage::Common => build::Linkage::Global,
        Linkage::Internal => build::Linkage::Local,
    }
}

/// Converts a global or constant variable to the form in which the cubin builder takes variables.
fn to_build_variable(module: &Module, index: &FunctionIndex<'_>, found: &Static, home: Home) -> Variable {
    let source = &module.variables[found.id];
    Variable {
        linkage: linkage(source.linkage),
        is_managed: source.attributes.contains(&Attribute::Managed),
        relocations: found.initial.as_ref().map(|data| relocations(index, data)).unwrap_or_default(),
        ..Variable::new(found.name.clone(), home, found.bytes, found.align)
    }
}

/// Returns the relocations for the addresses in the initial value of a variable.
fn relocations(index: &FunctionIndex<'_>, data: &Data) -> Vec<DataRelocation> {
    data.addresses.iter().map(|address| relocation(index, address)).collect()
}

/// Returns the relocation for one address in an initial value.
fn relocation(index: &FunctionIndex<'_>, address: &DataAddress) -> DataRelocation {
    let kind = match (index.kind(&address.symbol), address.byte) {
        (Some(FunctionKind::Entry), Some(byte)) => DataPatch::KernelByte(byte),
        (Some(FunctionKind::Entry), None) => DataPatch::Kernel,
        (Some(FunctionKind::Function), Some(byte)) => DataPatch::FunctionByte(byte),
        (Some(FunctionKind::Function), None) => DataPatch::Function,
        (None, Some(byte)) => DataPatch::GenericByte(byte),
        (None, None) => DataPatch::Generic,
    };
    DataRelocation { offset: address.offset, kind, symbol: address.symbol.clone(), addend: address.addend }
}

/// Assigns offsets in their sections to global variables. The offsets of constant variables are already assigned.
fn assign_global_offsets(file: &mut build::Module) {
    let is_constant = |variable: &Variable| matches!(variable.home, Home::Constant(_));
    let fixed: Vec<u64> = file.variables.iter().filter(|variable| is_constant(variable)).map(|variable| variable.offset).collect();
    file.place_variables();
    for (variable, offset) in file.variables.iter_mut().filter(|variable| is_constant(variable)).zip(fixed) {
        variable.offset = offset;
    }
}
