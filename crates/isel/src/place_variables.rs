//! Computes the memory layout of the variables of a module.
//!
//! **Sizes.** All sums are 64-bit and saturate. Offsets are valid only if the sums are within the limits of the target, which the driver
//! checks before it compiles functions. The memory that this module allocates does not depend on declared sizes.
//!
//! **Relocatable files.** Only parameters and frames get offsets here. The linker places the other variables, and their addresses are
//! relocations.

use std::sync::Arc;

use oriole_ir::Target;
use oriole_isa::{SMALL_PARAMETER_BYTES, SystemLayout};
use oriole_ptx::ast::{Function, FunctionId, FunctionKind, Linkage, Module, Statement, Variable, VariableId};
use oriole_ptx::types::StateSpace;
use oriole_support::Index;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::calls;
use crate::error::Unsupported;
use crate::initializer::initial_data;
use crate::layout::{Layout, Linking, Static};
use crate::parameter_words::parameter_variable;
use crate::select;
use crate::shared::{self, SharedPlan};
use crate::texture::{ImageWord, ImageWords};
use crate::variable_layout::{ModuleFacts, SymbolSpace, VariableLayout, VariableLocation};
use crate::variable_sizes::{aligned, is_opaque, narrow, referenced_variables, stride, total_bytes, variables_in};

/// If the constants exceed this number of bytes, their initial contents are not computed; no target has a larger bank.
pub(crate) const LARGEST_BANK: u64 = 0x10000;

/// Maximum number of addresses in constant bank 4. ptxas 13.0.88 does not use the last slot of the bank.
pub(crate) const MAX_ADDRESSES: usize = 0x10000 / 8 - 1;

impl Layout {
    /// Computes the layout of the variables of a module that is compiled alone.
    pub fn new(module: &Module, linking: Linking) -> Result<Layout, Unsupported> {
        Layout::after(None, module, linking)
    }

    /// Computes the layout of the variables of a module. In the constant banks it follows `previous`, the module before it in a program of
    /// several ones.
    pub fn after(previous: Option<&Layout>, module: &Module, linking: Linking) -> Result<Layout, Unsupported> {
        let start = previous.map_or(0, |previous| previous.constants_end);
        let mut layout = Layout {
            linking,
            constants: Vec::new(),
            constants_end: start,
            bank_bytes: start,
            earlier_addresses: previous.map_or(0, |previous| previous.earlier_addresses + previous.addresses.len()),
            globals: Vec::new(),
            externs: Vec::new(),
            addresses: Vec::new(),
            images: Vec::new(),
            image_functions: functions_with_images(module),
            common_images: None,
            shared: SharedPlan::default(),
            module_facts: Arc::default(),
            by_name: FxHashMap::default(),
            aliases: calls::aliases(module).map(|alias| (alias.name, alias.target)).rev().collect(),
            names: names_of(module),
        };
        for (position, variable) in module.variables.iter().enumerate() {
            layout.by_name.entry(variable.name).or_insert(VariableId::new(position));
        }
        layout.place_constants(module)?;
        let mut externs: FxHashSet<String> = layout.externs.iter().map(|(name, _)| name.clone()).collect();
        // If a module has more global variables than the table has slots, only variables that code refers to get a slot. The addresses of
        // the others are relocations in the code.
        let mentioned: Option<FxHashSet<VariableId>> = (variables_in(module, StateSpace::Global).count() > MAX_ADDRESSES)
            .then(|| module.functions.iter().flat_map(referenced_variables).collect());
        let has_slot = |id: VariableId| mentioned.as_ref().is_none_or(|mentioned| mentioned.contains(&id));
        let mut slots: FxHashMap<String, u32> = FxHashMap::default();
        let mut facts = ModuleFacts::default();
        for id in variables_in(module, StateSpace::Global) {
            let variable = &module.variables[id];
            let Some(name) = layout.names[id.position()].clone() else { continue };
            if is_opaque(variable) {
                layout.images.push(id);
                continue;
            }
            if variable.linkage == Linkage::Extern && variable.initializer.is_none() {
                if externs.insert(name.clone()) {
                    layout.externs.push((name.clone(), id));
                }
            } else {
                layout.globals.push(global(module, &layout, id, name.clone())?);
            }
            let home = match linking {
                Linking::Whole if slots.contains_key(&name) || has_slot(id) && layout.earlier_addresses + slots.len() < MAX_ADDRESSES => {
                    let next = (layout.earlier_addresses + layout.addresses.len()) as u32;
                    let slot = *slots.entry(name.clone()).or_insert_with(|| {
                        layout.addresses.push(name);
                        next
                    });
                    VariableLocation::AddressTableSlot(8 * slot)
                }
                _ => VariableLocation::Symbol { name, space: SymbolSpace::Global },
            };
            facts.statics.insert(id, home);
        }
        facts.statics.extend(layout.constants.iter().map(|constant| (constant.id, layout.of_static(constant, SymbolSpace::Constant))));
        if linking == Linking::Relocatable {
            let constants = layout.externs.iter().filter(|(_, id)| module.variables[*id].space == StateSpace::Const);
            let symbol = |name: &String| VariableLocation::Symbol { name: name.clone(), space: SymbolSpace::Constant };
            facts.statics.extend(constants.map(|(name, id)| (*id, symbol(name))));
        }
        for (position, variable) in module.variables.iter().enumerate().filter(|(_, variable)| variable.count.is_some()) {
            facts.strides.insert(VariableId::new(position), narrow(stride(variable)));
        }
        facts.aliases.clone_from(&layout.aliases);
        facts.forbids_unrolling =
            module.items.iter().any(|item| matches!(item, oriole_ptx::ast::Item::Pragma(strings) if select::forbid_unrolling(strings)));
        layout.module_facts = Arc::new(facts);
        if linking == Linking::Whole {
            layout.shared = shared::plan(module);
        }
        Ok(layout)
    }

    /// Gives the `.const` variables that the modules of an executable program only declare the offsets of their definitions in other
    /// modules. A variable that no module defines gets a place in the bank and the value zero, as with ptxas; one without a size gets no
    /// offset. Must be called once for all modules, after the layout of each.
    pub fn resolve_constants(layouts: &mut [Layout], modules: &[&Module]) {
        let is_whole = |layout: &Layout| layout.linking == Linking::Whole;
        let is_declared = |module: &Module, id: VariableId| module.variables[id].space == StateSpace::Const;
        let mut offsets: FxHashMap<String, u32> = FxHashMap::default();
        for (layout, module) in layouts.iter().zip(modules) {
            let defined = layout.constants.iter().filter(|constant| module.variables[constant.id].linkage != Linkage::Internal);
            offsets.extend(defined.map(|constant| (constant.name.clone(), constant.offset)));
        }
        let mut end = layouts.last().map_or(0, |layout| layout.constants_end);
        for (layout, module) in layouts.iter_mut().zip(modules).filter(|(layout, _)| is_whole(layout)) {
            let declared: Vec<_> = layout.externs.iter().filter(|(_, id)| is_declared(module, *id)).cloned().collect();
            for (name, id) in declared {
                let variable = &module.variables[id];
                let known = offsets.get(&name).copied();
                if known.is_none() && total_bytes(variable) == 0 {
                    continue;
                }
                let offset = known.unwrap_or_else(|| {
                    let (bytes, align) = (total_bytes(variable), variable.align_bytes().max(1));
                    let offset = narrow(aligned(end, align));
                    end = u64::from(offset).saturating_add(bytes);
                    layout.constants.push(Static { id, name: name.clone(), offset, bytes, align, initial: None });
                    offsets.insert(name.clone(), offset);
                    offset
                });
                Arc::make_mut(&mut layout.module_facts).statics.insert(id, VariableLocation::Constant(offset));
            }
        }
        if let Some(last) = layouts.last_mut() {
            last.constants_end = end;
        }
    }

    /// Assigns the offsets in constant bank 3 and computes the initial contents.
    fn place_constants(&mut self, module: &Module) -> Result<(), Unsupported> {
        let mut end = self.constants_end;
        let mut externs: FxHashSet<String> = self.externs.iter().map(|(name, _)| name.clone()).collect();
        for id in variables_in(module, StateSpace::Const) {
            let variable = &module.variables[id];
            let Some(name) = self.names[id.position()].clone() else { continue };
            if variable.linkage == Linkage::Extern {
                if externs.insert(name.clone()) {
                    self.externs.push((name, id));
                }
                continue;
            }
            let (bytes, align) = (total_bytes(variable), variable.align_bytes().max(1));
            end = aligned(end, align);
            self.constants.push(Static { id, name, offset: narrow(end), bytes, align, initial: None });
            end = end.saturating_add(bytes);
        }
        (self.constants_end, self.bank_bytes) = (end, end);
        if end > LARGEST_BANK {
            return Ok(());
        }
        for position in 0..self.constants.len() {
            let data = initial_data(module, self, self.constants[position].id)?;
            self.constants[position].initial = Some(data);
        }
        Ok(())
    }

    /// Returns the locations of all variables as the function `id` sees them.
    pub fn variables_of(&self, module: &Module, id: FunctionId, target: Target) -> VariableLayout {
        let function = &module.functions[id];
        let mut variables = VariableLayout::of(Arc::clone(&self.module_facts));
        (variables.shared_align, variables.frame_align, variables.constant_bytes) = (1, 4, self.bank_bytes);
        variables.parameters_start = SystemLayout::of(target).parameters_start(0);
        variables.is_relocatable = self.linking == Linking::Relocatable;
        if function.kind == FunctionKind::Entry {
            place_parameters(module, function, target, &mut variables);
        }
        if self.linking == Linking::Whole {
            variables.images = self.images_of(module, id, target, &variables);
        }
        let used = referenced_variables(function);
        place_frame(module, &used, &mut variables);
        self.place_shared(module, id, &used, &mut variables);
        variables
    }

    /// Assigns offsets in constant bank 0 to the references of device functions, the same in all kernels of a program: after the parameters
    /// of the kernel with the most, module by module. Must be called once for all modules, before [`Layout::variables_of`].
    pub fn place_common_images(layouts: &mut [Layout], modules: &[&Module], target: Target) {
        if layouts.iter().all(|layout| layout.linking != Linking::Whole || layout.image_functions.is_empty()) {
            return;
        }
        let starts = layouts.iter().zip(modules).flat_map(|(layout, module)| layout.image_starts(module, target));
        let mut end = starts.max().unwrap_or(0);
        let mut words = Vec::with_capacity(layouts.len());
        for (layout, module) in layouts.iter().zip(modules) {
            let mut own = ImageWords::at(end);
            own.add(module, layout.image_functions.iter().filter_map(|&id| module.functions[id].body.as_deref()), target);
            end = own.end();
            words.push(own);
        }
        let placed = words.iter().enumerate().flat_map(|(number, words)| words.placed().map(move |(offset, word)| (number, offset, word)));
        let placed: Vec<(usize, u32, ImageWord)> = placed.collect();
        for (number, (layout, own)) in layouts.iter_mut().zip(words).enumerate() {
            let foreign = placed.iter().copied().filter(|&(of, ..)| of != number).collect();
            layout.common_images = Some(own.with_foreign(foreign, end));
        }
    }

    /// Returns the words for references as a function sees them.
    fn images_of(&self, module: &Module, id: FunctionId, target: Target, variables: &VariableLayout) -> ImageWords {
        let function = &module.functions[id];
        let is_kernel = function.kind == FunctionKind::Entry;
        let mut words = self.common_images.clone().unwrap_or_else(|| ImageWords::at(image_start(variables, target)));
        if is_kernel {
            words.add(module, function.body.as_deref().into_iter(), target);
        }
        words
    }

    /// Returns, for each kernel, the offset of the first word after its parameters.
    fn image_starts(&self, module: &Module, target: Target) -> impl Iterator<Item = u32> {
        module.functions.iter().filter(|function| function.kind == FunctionKind::Entry).map(move |kernel| {
            let mut variables = VariableLayout::of(Arc::clone(&self.module_facts));
            place_parameters(module, kernel, target, &mut variables);
            image_start(&variables, target)
        })
    }

    /// Returns the location of a `.const` variable.
    fn of_static(&self, constant: &Static, space: SymbolSpace) -> VariableLocation {
        match self.linking {
            Linking::Whole => VariableLocation::Constant(constant.offset),
            Linking::Relocatable => VariableLocation::Symbol { name: constant.name.clone(), space },
        }
    }

    /// Adds the locations of the shared variables that a function uses.
    fn place_shared(&self, module: &Module, id: FunctionId, used: &[VariableId], variables: &mut VariableLayout) {
        if self.linking == Linking::Relocatable {
            for id in used.iter().copied().filter(|&id| module.variables[id].space == StateSpace::Shared) {
                let name = self.names[id.position()].clone().unwrap_or_default();
                variables.insert(id, VariableLocation::Symbol { name, space: SymbolSpace::Shared });
            }
            return;
        }
        let Some(shared) = self.shared.get(&id) else { return };
        for &(id, offset) in &shared.places {
            variables.insert(id, VariableLocation::Shared(narrow(offset)));
        }
        (variables.shared_bytes, variables.shared_align) = (shared.end, narrow(shared.align));
        variables.may_have_dynamic_shared = shared.may_be_dynamic;
        for &id in &shared.dynamic {
            variables.insert(id, VariableLocation::Shared(narrow(shared.end)));
        }
    }
}

/// Assigns the offsets of a kernel's parameters, counted from their start in constant bank 0. On most targets their places in the bank, not
/// the offsets, are aligned: on sm_90, where parameters start at 0x210, a first parameter with an alignment of 64 bytes has the offset 0x30.
///
/// The start depends on the size that the parameters have without such gaps. Where large parameters have a start of their own, the offsets
/// are aligned.
pub(crate) fn place_parameters(module: &Module, function: &Function, target: Target, variables: &mut VariableLayout) {
    let system = SystemLayout::of(target);
    let ids = function.parameters.iter().filter_map(parameter_variable).filter(|&id| !is_opaque(&module.variables[id]));
    let mut packed_bytes = 0;
    ids.clone().for_each(|id| _ = place(&module.variables[id], &mut packed_bytes));
    let start = system.parameters_start(packed_bytes);
    let is_aligned_in_bank = system.aligns_parameters_in_bank && start == system.parameters;
    let origin = if is_aligned_in_bank { u64::from(start) } else { 0 };
    let mut end = origin;
    for id in ids {
        let variable = &module.variables[id];
        let place = aligned(end, variable.align_bytes().min(LARGEST_BANK));
        end = place.saturating_add(total_bytes(variable));
        variables.insert(id, VariableLocation::Parameter(narrow(place - origin)));
    }
    variables.parameters_start = start;
    variables.has_large_parameters = packed_bytes > SMALL_PARAMETER_BYTES;
    variables.packed_parameter_bytes = packed_bytes;
    variables.parameter_bytes = end - origin;
}

/// Returns the offset in constant bank 0 of the first word for references: the next one after the parameters with the alignment that the
/// target requires.
pub(crate) fn image_start(variables: &VariableLayout, target: Target) -> u32 {
    let align = SystemLayout::of(target).image_word_alignment;
    variables.parameters_start.saturating_add(narrow(aligned(variables.parameter_bytes, align)))
}

/// Returns the device functions that use texture, sampler or surface references.
pub(crate) fn functions_with_images(module: &Module) -> Vec<FunctionId> {
    let uses_images = |function: &Function| referenced_variables(function).iter().any(|&id| is_opaque(&module.variables[id]));
    let ids = module.functions.iter().enumerate().filter(|(_, function)| function.kind != FunctionKind::Entry && uses_images(function));
    ids.map(|(position, _)| FunctionId::new(position)).collect()
}

/// Assigns the offsets of the local variables that a function uses.
pub(crate) fn place_frame(module: &Module, used: &[VariableId], variables: &mut VariableLayout) {
    let mut end = 0;
    for &id in used.iter().filter(|&&id| module.variables[id].space == StateSpace::Local) {
        let offset = place(&module.variables[id], &mut end);
        variables.frame_align = variables.frame_align.max(narrow(module.variables[id].align_bytes()));
        variables.insert(id, VariableLocation::Local(offset));
    }
    variables.frame_bytes = end;
}

/// Places a variable at the next aligned offset after `end` and advances `end`.
pub(crate) fn place(variable: &Variable, end: &mut u64) -> u32 {
    let offset = aligned(*end, variable.align_bytes());
    *end = offset.saturating_add(total_bytes(variable));
    narrow(offset)
}

/// Returns the name of each variable in the output file: unchanged at module scope, with the prefix `FUNCTION$` inside a function.
pub(crate) fn names_of(module: &Module) -> Vec<Option<String>> {
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

/// Creates the entry of a `.global` variable that the module defines.
pub(crate) fn global(module: &Module, layout: &Layout, id: VariableId, name: String) -> Result<Static, Unsupported> {
    let variable = &module.variables[id];
    let initial = match variable.initializer {
        Some(_) => Some(initial_data(module, layout, id)?),
        None => None,
    };
    Ok(Static { id, name, offset: 0, bytes: total_bytes(variable), align: variable.align_bytes().max(1), initial })
}
