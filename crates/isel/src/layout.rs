//! Places for the variables of a module.
//!
//! What is fixed for the whole module: constant bank 3, the global variables with their initial bytes, and the table of their
//! addresses in constant bank 4. What each function has for itself: its parameters, its frame, its shared memory.
//!
//! **Shared memory.** A kernel has what it mentions. Functions that are not kernels are compiled once for all kernels, so what they
//! mention has the same place in each: it comes first, in every kernel that calls something. Dynamic arrays all start where the static
//! variables end.
//!
//! **Relocatable files.** Only parameters and frames are placed; the linker does the rest, and addresses are references.

use std::collections::hash_map::Entry;
use std::sync::Arc;

use oriole_ptx::ast::{
    AddressBase, Body, Function, FunctionId, FunctionKind, Initializer, Linkage, Module, Operand, Parameter, Statement, Variable,
    VariableId, VariableType,
};
use oriole_ptx::table::Opcode;
use oriole_ptx::types::StateSpace;
use oriole_support::{Index, Name};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::calls;
use crate::error::Unsupported;
use crate::initializer::{Data, initial_data};
use crate::variables::{Home, Homes, ModuleHomes, SymbolSpace};

/// Whether addresses are known now or when files are linked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linking {
    /// The file is complete.
    Whole,
    /// The linker places variables.
    Relocatable,
}

/// A variable that outlives kernels.
#[derive(Clone, PartialEq, Debug)]
pub struct Static {
    /// The variable.
    pub id: VariableId,
    /// Its name in the file: that of a function's variable starts with the function's.
    pub name: String,
    /// Where it starts in constant bank 3; 0 for global variables.
    pub offset: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its alignment in bytes.
    pub align: u64,
    /// Its first bytes; none for a global variable that starts with zeros.
    pub initial: Option<Data>,
}

/// Where the variables of a module live.
#[derive(Clone, Debug)]
pub struct Layout {
    /// How addresses become known.
    pub linking: Linking,
    /// Variables in `.const`, in the order of constant bank 3.
    pub constants: Vec<Static>,
    /// Bytes of constant bank 3.
    pub constant_bytes: u32,
    /// Variables in `.global` that are defined here.
    pub globals: Vec<Static>,
    /// Names in `.global` that are not defined here.
    pub externs: Vec<String>,
    /// The names whose addresses constant bank 4 holds, eight bytes each.
    pub addresses: Vec<String>,
    /// Bytes of the shared variables that functions other than kernels mention.
    common_shared_bytes: u32,
    common_shared_align: u32,
    /// What all functions share.
    homes: Arc<ModuleHomes>,
    /// The first variable of each name.
    by_name: FxHashMap<Name, VariableId>,
    /// The name that each variable has in the file.
    names: Vec<Option<String>>,
}

const LARGEST_BANK: u64 = 0x10000;
/// Addresses that an instruction can name in constant bank 4.
const MOST_SLOTS: usize = 0x8000 / 8;

impl Layout {
    /// Places the variables of a module.
    pub fn new(module: &Module, linking: Linking) -> Result<Layout, Unsupported> {
        let mut layout = Layout {
            linking,
            constants: Vec::new(),
            constant_bytes: 0,
            globals: Vec::new(),
            externs: Vec::new(),
            addresses: Vec::new(),
            common_shared_bytes: 0,
            common_shared_align: 1,
            homes: Arc::default(),
            by_name: FxHashMap::default(),
            names: names_of(module),
        };
        for (position, variable) in module.variables.iter().enumerate() {
            layout.by_name.entry(variable.name).or_insert(VariableId::new(position));
        }
        layout.place_constants(module)?;
        let mut externs: FxHashSet<String> = layout.externs.iter().cloned().collect();
        // A table for all variables has no place in the bank of a large module; then it has those that code mentions, and the driver fills the
        // addresses of the others into the code.
        let mentioned: Option<FxHashSet<VariableId>> =
            (variables_in(module, StateSpace::Global).count() > MOST_SLOTS).then(|| module.functions.iter().flat_map(mentioned).collect());
        let has_slot = |id: VariableId| mentioned.as_ref().is_none_or(|mentioned| mentioned.contains(&id));
        let mut slots: FxHashMap<String, u32> = FxHashMap::default();
        let mut homes = ModuleHomes::default();
        for id in variables_in(module, StateSpace::Global) {
            let variable = &module.variables[id];
            let Some(name) = layout.names[id.position()].clone() else { continue };
            if variable.linkage == Linkage::Extern && variable.initializer.is_none() {
                if externs.insert(name.clone()) {
                    layout.externs.push(name.clone());
                }
            } else {
                layout.globals.push(global(module, &layout, id, name.clone())?);
            }
            let home = match linking {
                Linking::Whole if slots.contains_key(&name) || has_slot(id) && slots.len() < MOST_SLOTS => {
                    let next = layout.addresses.len() as u32;
                    let slot = *slots.entry(name.clone()).or_insert_with(|| {
                        layout.addresses.push(name);
                        next
                    });
                    Home::Table(8 * slot)
                }
                _ => Home::Symbol { name, space: SymbolSpace::Global },
            };
            homes.statics.insert(id, home);
        }
        homes.statics.extend(layout.constants.iter().map(|constant| (constant.id, layout.of_static(constant, SymbolSpace::Constant))));
        layout.place_common_shared(module, &mut homes);
        for (position, variable) in module.variables.iter().enumerate().filter(|(_, variable)| variable.count.is_some()) {
            homes.strides.insert(VariableId::new(position), stride(variable) as u32);
        }
        homes.aliases = calls::aliases(module).map(|alias| (alias.name, alias.target)).rev().collect();
        layout.homes = Arc::new(homes);
        Ok(layout)
    }

    fn place_constants(&mut self, module: &Module) -> Result<(), Unsupported> {
        let mut end = 0_u64;
        for id in variables_in(module, StateSpace::Const) {
            let variable = &module.variables[id];
            let Some(name) = self.names[id.position()].clone() else { continue };
            if variable.linkage == Linkage::Extern {
                self.externs.push(name);
                continue;
            }
            let (bytes, align) = (total_bytes(variable), variable.align_bytes().max(1));
            end = end.next_multiple_of(align);
            if end.saturating_add(bytes) > LARGEST_BANK {
                return Err(Unsupported::new("more than 64 KiB of variables in .const"));
            }
            self.constants.push(Static { id, name, offset: end as u32, bytes, align, initial: None });
            end += bytes;
        }
        self.constant_bytes = end as u32;
        for position in 0..self.constants.len() {
            let data = initial_data(module, self, self.constants[position].id)?;
            self.constants[position].initial = Some(data);
        }
        Ok(())
    }

    fn place_common_shared(&mut self, module: &Module, homes: &mut ModuleHomes) {
        let mut end = 0;
        for function in module.functions.iter().filter(|function| function.kind == FunctionKind::Function) {
            for id in mentioned(function).into_iter().filter(|&id| is_static_shared(module, id)) {
                if let Entry::Vacant(vacant) = homes.common_shared.entry(id) {
                    vacant.insert(Home::Shared(place(&module.variables[id], &mut end)));
                    self.common_shared_align = self.common_shared_align.max(module.variables[id].align_bytes() as u32);
                }
            }
        }
        self.common_shared_bytes = end;
    }

    /// The name of a variable in the file.
    pub fn name(&self, id: VariableId) -> Option<&str> {
        self.names[id.position()].as_deref()
    }

    /// The offset of a constant that is placed.
    pub(crate) fn constant_offset(&self, id: VariableId) -> Option<u32> {
        let position = self.constants.binary_search_by_key(&id, |constant| constant.id).ok()?;
        Some(self.constants[position].offset)
    }

    /// The first variable of a name.
    pub(crate) fn variable(&self, name: Name) -> Option<VariableId> {
        self.by_name.get(&name).copied()
    }

    /// Where a function finds its variables.
    pub fn homes(&self, module: &Module, id: FunctionId) -> Homes {
        let function = &module.functions[id];
        let mut homes = Homes::of(Arc::clone(&self.homes));
        (homes.shared_align, homes.frame_align, homes.constant_bytes) = (1, 4, self.constant_bytes);
        if function.kind == FunctionKind::Entry {
            place_parameters(module, function, &mut homes);
        }
        let used = mentioned(function);
        place_frame(module, &used, &mut homes);
        self.place_shared(module, function, &used, &mut homes);
        homes
    }

    fn of_static(&self, constant: &Static, space: SymbolSpace) -> Home {
        match self.linking {
            Linking::Whole => Home::Constant(constant.offset),
            Linking::Relocatable => Home::Symbol { name: constant.name.clone(), space },
        }
    }

    fn place_shared(&self, module: &Module, function: &Function, used: &[VariableId], homes: &mut Homes) {
        let shared = used.iter().copied().filter(|&id| module.variables[id].space == StateSpace::Shared);
        if self.linking == Linking::Relocatable {
            for id in shared {
                let name = self.names[id.position()].clone().unwrap_or_default();
                homes.insert(id, Home::Symbol { name, space: SymbolSpace::Shared });
            }
            return;
        }
        let mut end = 0;
        if function.kind == FunctionKind::Function || calls_something(module, function) {
            end = self.common_shared_bytes;
            homes.has_common_shared = self.linking == Linking::Whole;
            homes.shared_align = homes.shared_align.max(self.common_shared_align);
        }
        let mut dynamic = Vec::new();
        for id in shared {
            let variable = &module.variables[id];
            homes.shared_align = homes.shared_align.max(variable.align_bytes() as u32);
            if !is_static_shared(module, id) {
                dynamic.push(id);
            } else if homes.get(id).is_none() {
                let offset = place(variable, &mut end);
                homes.insert(id, Home::Shared(offset));
            }
        }
        homes.shared_bytes = end;
        homes.uses_dynamic_shared = !dynamic.is_empty();
        let align = dynamic.iter().map(|&id| module.variables[id].align_bytes() as u32).max().unwrap_or(1);
        for id in dynamic {
            homes.insert(id, Home::Shared(end.next_multiple_of(align.max(1))));
        }
    }
}

/// Offsets of a kernel's parameters from the first one.
fn place_parameters(module: &Module, function: &Function, homes: &mut Homes) {
    let mut end = 0;
    for parameter in &function.parameters {
        if let Parameter::Variable(id) = *parameter {
            let offset = place(&module.variables[id], &mut end);
            homes.insert(id, Home::Parameter(offset));
        }
    }
    homes.parameter_bytes = end;
}

fn place_frame(module: &Module, used: &[VariableId], homes: &mut Homes) {
    let mut end = 0;
    for &id in used.iter().filter(|&&id| module.variables[id].space == StateSpace::Local) {
        let offset = place(&module.variables[id], &mut end);
        homes.frame_align = homes.frame_align.max(module.variables[id].align_bytes() as u32);
        homes.insert(id, Home::Local(offset));
    }
    homes.frame_bytes = end;
}

fn place(variable: &Variable, end: &mut u32) -> u32 {
    let offset = end.next_multiple_of(variable.align_bytes().max(1) as u32);
    *end = offset.saturating_add(u32::try_from(total_bytes(variable)).unwrap_or(u32::MAX));
    offset
}

/// The size of one variable; of a texture or sampler that of its handle.
fn one_bytes(variable: &Variable) -> u64 {
    match variable.ty {
        VariableType::Scalar(_) => u64::try_from(variable.size_bytes().unwrap_or(0)).unwrap_or(u64::MAX),
        _ => 8,
    }
}

/// The distance between variables of a parameterized declaration.
fn stride(variable: &Variable) -> u64 {
    one_bytes(variable).next_multiple_of(variable.align_bytes().max(1))
}

/// The size of all variables of a declaration.
fn total_bytes(variable: &Variable) -> u64 {
    match variable.count {
        Some(count) => stride(variable).saturating_mul(u64::from(count)),
        None => one_bytes(variable),
    }
}

fn is_static_shared(module: &Module, id: VariableId) -> bool {
    let variable = &module.variables[id];
    variable.space == StateSpace::Shared && variable.linkage != Linkage::Extern && variable.size_bytes().is_some()
}

fn variables_in(module: &Module, space: StateSpace) -> impl Iterator<Item = VariableId> + '_ {
    let is_there = move |(position, variable): (usize, &Variable)| (variable.space == space).then(|| VariableId::new(position));
    module.variables.iter().enumerate().filter_map(is_there)
}

/// The variables that a function's code mentions, in order of declaration.
pub fn mentioned(function: &Function) -> Vec<VariableId> {
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

fn calls_something(module: &Module, function: &Function) -> bool {
    let calls = |body: &Body| body.instructions.iter().any(|instruction| module.forms[instruction.form].opcode == Opcode::Call);
    function.body.as_deref().is_some_and(calls)
}

/// Names for the file: those of module scope as they are, those of functions with the function's in front.
fn names_of(module: &Module) -> Vec<Option<String>> {
    let mut names: Vec<Option<String>> = module.variables.iter().map(|variable| Some(module.name(variable.name).to_owned())).collect();
    for function in &module.functions {
        let Some(body) = function.body.as_deref() else { continue };
        for statement in &body.statements {
            if let Statement::Variable(id) = *statement {
                let name = module.name(module.variables[id].name);
                names[id.position()] = Some(format!("{}${name}", module.name(function.name)));
            }
        }
    }
    names
}

fn global(module: &Module, layout: &Layout, id: VariableId, name: String) -> Result<Static, Unsupported> {
    let variable = &module.variables[id];
    if matches!(variable.initializer.as_deref(), Some(Initializer::Opaque(_))) {
        return Err(Unsupported::new(format!("the initial value of the texture or sampler {name}")));
    }
    let initial = match variable.initializer {
        Some(_) => Some(initial_data(module, layout, id)?),
        None => None,
    };
    Ok(Static { id, name, offset: 0, bytes: total_bytes(variable), align: variable.align_bytes().max(1), initial })
}
