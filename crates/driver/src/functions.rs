//! Determines which functions of a module go into the cubin, and describes the functions that are defined elsewhere.

use oriole_cubin::build::{Extern, ExternKind};
use oriole_isa::Target;
use oriole_isel::{GradientHelp, QuadFetch, prototype};
use oriole_ptx::ast::{AddressBase, Body, Form, Function, FunctionId, FunctionKind, Initializer, Linkage, Module, Operand};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_sched::calls::{CallCosts, CallNode};
use oriole_support::Name;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::convention;
use crate::options::Options;

/// Functions that the CUDA driver provides. An executable cubin may call them without a definition; ptxas 13.0.88 accepts the same names.
const DRIVER_FUNCTIONS: [&str; 31] = [
    "vprintf",
    "malloc",
    "free",
    "__assertfail",
    "__profile",
    "cudaGraphSetConditional",
    "cudaGraphLaunch",
    "cudaGraphKernelNodeUpdatesApply",
    "cudaGraphKernelNodeSetParam",
    "cudaGraphKernelNodeSetEnabled",
    "cudaGraphKernelNodeSetGridDim",
    "cnpGetParameterBuffer",
    "cnpGetParameterBufferV2",
    "cnpLaunchDevice",
    "cnpLaunchDeviceV2",
    "cnpEventCreate",
    "cnpEventDestroy",
    "cnpEventRecord",
    "cnpStreamCreate",
    "cnpStreamDestroy",
    "cnpStreamWaitEvent",
    "cnpCtxSynchronize",
    "cnpGetLastError",
    "cnpSetLastError",
    "cnpGetDevice",
    "cnpGetDeviceCount",
    "cnpDeviceGetAttribute",
    "cnpGetSharedMemConfig",
    "cnpFuncGetAttribute",
    "cnpGetCacheConfig",
    "cnpGetLimit",
];
/// Beginning of the names of the system calls, which the CUDA driver provides too.
const SYSTEM_CALL_PREFIX: &str = "__cuda_syscall";
/// Calling convention of [`DRIVER_FUNCTIONS`] in the notation of the linker: twelve parameter registers from R4 on (`12p4`), return address
/// in R20 (`r20`). The set of clobbered registers is appended.
const DRIVER_CALLING_CONVENTION: &str = "|12p4r20sRx";
/// The general registers that [`DRIVER_FUNCTIONS`] clobber, as a bit mask with bit n for register n: R0 and R3 to R15.
const DRIVER_CLOBBERS: u32 = 0xfff9;

/// Returns whether the CUDA driver provides a function.
pub fn is_driver_function(name: &str) -> bool {
    DRIVER_FUNCTIONS.contains(&name) || name.starts_with(SYSTEM_CALL_PREFIX) || oriole_isel::is_driver_gradient(name)
}

/// The functions of a module by name. A [`Name`] is interned: two names are the same text if they have the same number.
pub struct FunctionIndex<'m> {
    /// The module whose functions are indexed.
    module: &'m Module,
    /// For each name: the first declaration or definition of the function.
    declared: FxHashMap<&'m str, FunctionId>,
    /// For each name of a function with a body: its definition.
    defined: FxHashMap<Name, FunctionId>,
    /// For each alias: the function that it names.
    aliases: FxHashMap<Name, Name>,
    /// For each function: its aliases that are visible to other files, in source order.
    visible_aliases: FxHashMap<Name, Vec<Name>>,
}

impl<'m> FunctionIndex<'m> {
    /// Builds the index of the functions of a module.
    pub fn new(module: &'m Module) -> FunctionIndex<'m> {
        let mut index = FunctionIndex {
            module,
            declared: FxHashMap::default(),
            defined: FxHashMap::default(),
            aliases: FxHashMap::default(),
            visible_aliases: FxHashMap::default(),
        };
        for (id, function) in module.functions.iter_enumerated() {
            index.declared.entry(module.name(function.name)).or_insert(id);
            if function.body.is_some() {
                index.defined.entry(function.name).or_insert(id);
            }
        }
        for alias in oriole_isel::aliases(module) {
            index.aliases.entry(alias.name).or_insert(alias.target);
            let declared = index.declared.get(module.name(alias.name));
            if declared.is_some_and(|&id| module.functions[id].linkage == Linkage::Visible) {
                index.visible_aliases.entry(alias.target).or_default().push(alias.name);
            }
        }
        index
    }

    /// Returns the function that an alias names; any other name is returned unchanged.
    fn resolve_alias(&self, name: Name) -> Name {
        self.aliases.get(&name).copied().unwrap_or(name)
    }

    /// Returns the definition of a function, after resolving aliases; `None` if the module has no body for it.
    fn definition(&self, name: Name) -> Option<FunctionId> {
        self.defined.get(&self.resolve_alias(name)).copied()
    }

    /// Returns whether the module has a body for this name. Aliases are not resolved.
    pub fn is_defined(&self, name: &str) -> bool {
        self.declared.get(name).is_some_and(|&id| self.defined.contains_key(&self.module.functions[id].name))
    }

    /// Returns whether a name is that of a kernel or of another function; `None` if the module declares no function of this name.
    pub fn kind(&self, name: &str) -> Option<FunctionKind> {
        self.declared.get(name).map(|&id| self.module.functions[id].kind)
    }

    /// Returns the description of a function that this module uses and that is defined elsewhere.
    pub fn extern_function(&self, name: &str) -> Extern {
        let declared = self.declared.get(name).map(|&id| &self.module.functions[id]);
        if declared.is_some_and(|function| function.kind == FunctionKind::Entry) {
            return Extern::new(name, ExternKind::Kernel);
        }
        let text = declared.map(|function| prototype(self.module, &function.returns, &function.parameters));
        let text = text
            .map(|text| if is_driver_function(name) { format!("{text}{DRIVER_CALLING_CONVENTION}{DRIVER_CLOBBERS:064x}") } else { text });
        Extern { prototype: text, ..Extern::function(name) }
    }

    /// Returns the aliases of a function that are visible to other files, in source order.
    pub fn aliases(&self, function: Name) -> impl Iterator<Item = &'m str> {
        self.visible_aliases.get(&function).into_iter().flatten().map(|&alias| self.module.name(alias))
    }

    /// Returns the names of the functions whose addresses are in initial values of the variables whose addresses a function takes. As with
    /// ptxas, variables that it only accesses by name do not count.
    pub fn address_taken_through_variables(&self, function: &Function) -> Vec<&'m str> {
        let mut names = Vec::new();
        for operand in function.body.iter().flat_map(|body| &body.operands) {
            let Operand::Variable(id) = *operand else { continue };
            if let Some(initializer) = self.module.variables[id].initializer.as_deref() {
                collect_addressed_names(initializer, &mut names);
            }
        }
        let names = names.into_iter().map(|name| self.module.name(self.resolve_alias(name)));
        names.filter(|name| self.declared.contains_key(name)).collect()
    }

    /// Returns the names of the functions whose addresses appear in initial values of variables.
    pub fn address_taken_by_variables(&self) -> Vec<&'m str> {
        let names = names_in_initializers(self.module).into_iter().map(|name| self.module.name(self.resolve_alias(name)));
        names.filter(|name| self.declared.contains_key(name)).collect()
    }
}

/// Returns the functions with a body that the cubin needs, in source order: the roots, and the functions that they call or whose addresses
/// they take, directly or indirectly. Roots are kernels, functions in initializers and, if other files or other inputs may call them
/// (`has_callers_elsewhere`), functions with a linkage directive. In tools patches all functions are roots. As with ptxas, an executable
/// cubin of one input does not contain `.visible` functions without a caller.
pub fn reachable_functions(index: &FunctionIndex<'_>, options: &Options, has_callers_elsewhere: bool) -> Vec<FunctionId> {
    let module = index.module;
    let entries: FxHashSet<&str> = options.entries.iter().map(String::as_str).collect();
    let is_root = |function: &Function| match function.kind {
        FunctionKind::Entry => entries.is_empty() || entries.contains(module.name(function.name)),
        FunctionKind::Function => options.tools_patch || has_callers_elsewhere && function.linkage != Linkage::Internal,
    };
    let mut work: Vec<FunctionId> =
        module.functions.iter_enumerated().filter(|(_, function)| is_root(function)).map(|(id, _)| id).collect();
    work.extend(names_in_initializers(module).into_iter().filter_map(|name| index.definition(name)));
    let mut found: FxHashSet<FunctionId> = FxHashSet::default();
    while let Some(id) = work.pop() {
        let function = &module.functions[id];
        if function.body.is_some() && found.insert(id) {
            work.extend(referenced_functions(function).filter_map(|id| index.definition(module.functions[id].name)));
        }
    }
    let mut found: Vec<FunctionId> = found.into_iter().collect();
    found.sort_unstable();
    found
}

/// Returns the number of general registers that a function needs because its calls have operands in fixed registers; texture fetches that
/// become calls count as calls. Returns 0 for a kernel without calls.
pub fn min_registers_for_calls(module: &Module, function: &Function, target: Target) -> u32 {
    let fetches = |help: GradientHelp| {
        let forms = function.body.iter().flat_map(|body| &body.instructions).map(|instruction| &module.forms[instruction.form]);
        forms.into_iter().any(|form| oriole_isel::gradient_help(form, target) == Some(help))
    };
    if fetches(GradientHelp::Quad) {
        QuadFetch::REGISTERS.max(convention::MIN_ALLOCATABLE_REGISTERS)
    } else if fetches(GradientHelp::Driver) || may_call_by_address(function) {
        convention::MIN_ALLOCATABLE_REGISTERS
    } else if function.kind == FunctionKind::Function || has_calls(module, function) {
        convention::MIN_ABI_REGISTERS
    } else {
        0
    }
}

/// Returns whether the PTX code of a function contains calls.
pub fn has_calls(module: &Module, function: &Function) -> bool {
    let is_call = |body: &Body| body.instructions.iter().any(|instruction| module.forms[instruction.form].opcode == Opcode::Call);
    function.body.as_deref().is_some_and(is_call)
}

/// Returns whether a function declares what its calls by address may call: a prototype or a list of functions.
pub fn may_call_by_address(function: &Function) -> bool {
    function.body.as_deref().is_some_and(|body| !body.prototypes.is_empty() || !body.target_lists.is_empty())
}

/// Properties of the functions of a module that are known before the functions are compiled.
pub struct FunctionFacts {
    /// Names of the functions in which a thread may wait for all other threads of its warp.
    pub functions_waiting_for_warp: FxHashSet<String>,
    /// Names of the functions that are known to execute no warp operation.
    functions_without_warp_operations: FxHashSet<String>,
    /// Estimated execution time of a call of each function, in cycles.
    pub calls: CallCosts,
}

impl FunctionFacts {
    /// Computes these properties for the functions of a module.
    pub fn new(index: &FunctionIndex<'_>) -> FunctionFacts {
        let waits = |form: &Form| form.opcode == Opcode::Barrier && !form.modifiers.iter().any(|value| value.modifier == Modifier::Aligned);
        let functions_waiting_for_warp = names_of(index, &functions_reaching(index, waits, |_| false));
        FunctionFacts {
            functions_waiting_for_warp,
            functions_without_warp_operations: functions_without_warp_operations(index),
            calls: call_costs(index),
        }
    }

    /// Returns whether a function may execute operations such as shuffles, in which threads of a warp wait for each other.
    pub fn may_have_warp_operations(&self, name: &str) -> bool {
        !self.functions_without_warp_operations.contains(name) && !is_driver_function(name)
    }
}

/// Returns the names of the functions of a module that execute no warp operation and call no function that may do so. Only needed for
/// modules with calls.
fn functions_without_warp_operations(index: &FunctionIndex<'_>) -> FxHashSet<String> {
    let module = index.module;
    if !module.forms.iter().any(|form| form.opcode == Opcode::Call) {
        return FxHashSet::default();
    }
    let exchanges = |form: &Form| {
        matches!(
            form.opcode,
            Opcode::ShflSync | Opcode::VoteSync | Opcode::Match | Opcode::ReduxSync | Opcode::ElectSync | Opcode::BarWarpSync
        )
    };
    let is_unknown =
        |function: &Function| may_call_by_address(function) || function.body.is_none() && !is_driver_function(module.name(function.name));
    let may_exchange = functions_reaching(index, exchanges, is_unknown);
    let defined = module.functions.iter().map(|function| function.name);
    names_of(index, &defined.filter(|name| !may_exchange.contains(name)).collect())
}

/// Returns the functions that contain an instruction with a property or have a property themselves, and their direct and indirect callers.
fn functions_reaching(
    index: &FunctionIndex<'_>,
    has_property: impl Fn(&Form) -> bool,
    is_such_function: impl Fn(&Function) -> bool,
) -> FxHashSet<Name> {
    let module = index.module;
    // A form (opcode, modifiers and types) is stored once for all instructions of the module that have it. If no form has the property, no
    // function needs to be searched.
    let is_in_module = module.forms.iter().any(&has_property);
    let contains = |body: &Body| body.instructions.iter().any(|instruction| has_property(&module.forms[instruction.form]));
    let has = |function: &Function| is_such_function(function) || is_in_module && function.body.as_deref().is_some_and(contains);
    let mut work: Vec<Name> =
        module.functions.iter().filter(|function| has(function)).map(|function| index.resolve_alias(function.name)).collect();
    let mut found: FxHashSet<Name> = FxHashSet::default();
    if work.is_empty() {
        return found;
    }
    let mut callers: FxHashMap<Name, Vec<Name>> = FxHashMap::default();
    for function in &module.functions {
        for callee in referenced_functions(function) {
            callers.entry(index.resolve_alias(module.functions[callee].name)).or_default().push(function.name);
        }
    }
    while let Some(name) = work.pop() {
        if found.insert(name) {
            work.extend(callers.get(&name).into_iter().flatten());
        }
    }
    found
}

/// Returns the texts of names.
fn names_of(index: &FunctionIndex<'_>, names: &FxHashSet<Name>) -> FxHashSet<String> {
    names.iter().map(|&name| index.module.name(name).to_owned()).collect()
}

/// Assumed number of cycles for each PTX instruction of a called function, to estimate the cost of a call.
const ASSUMED_CYCLES_PER_PTX_INSTRUCTION: u32 = 5;

/// Returns the estimated execution time of each function of a module in cycles, including everything that it calls.
fn call_costs(index: &FunctionIndex<'_>) -> CallCosts {
    let module = index.module;
    // Instructions share their forms (opcode, modifiers and types), so a look at the forms of the module is enough to find modules without
    // calls.
    if !module.forms.iter().any(|form| form.opcode == Opcode::Call) {
        return CallCosts::default();
    }
    let callees = module.functions.iter().filter_map(|function| {
        let body = function.body.as_deref()?;
        let has_calls = has_calls(module, function);
        let own_cycles = ASSUMED_CYCLES_PER_PTX_INSTRUCTION.saturating_mul(body.instructions.len() as u32);
        let calls = referenced_functions(function).filter(|_| has_calls).map(|id| index.resolve_alias(module.functions[id].name));
        let calls = calls.map(|name| module.name(name).to_owned()).collect();
        Some(CallNode { name: module.name(function.name).to_owned(), own_cycles, calls })
    });
    CallCosts::propagate(&callees.collect::<Vec<_>>())
}

/// Returns the functions that the code of a function calls or whose addresses it takes.
fn referenced_functions(function: &Function) -> impl Iterator<Item = FunctionId> + '_ {
    let as_function = |operand: &Operand| if let Operand::Function(id) = *operand { Some(id) } else { None };
    function.body.as_deref().into_iter().flat_map(move |body| {
        let in_addresses = body.addresses.iter().filter_map(|address| match address.base {
            AddressBase::Function(id) => Some(id),
            _ => None,
        });
        let in_lists = body.target_lists.iter().flat_map(|list| &list.targets).filter_map(as_function);
        body.operands.iter().filter_map(as_function).chain(in_addresses).chain(in_lists)
    })
}

/// Returns the names whose addresses appear in initial values of the module's variables.
fn names_in_initializers(module: &Module) -> Vec<Name> {
    let mut names = Vec::new();
    for initializer in module.variables.iter().filter_map(|variable| variable.initializer.as_deref()) {
        collect_addressed_names(initializer, &mut names);
    }
    names
}

/// Appends to `names` the names whose addresses appear in an initial value.
fn collect_addressed_names(initializer: &Initializer, names: &mut Vec<Name>) {
    match initializer {
        Initializer::Address { symbol, .. } => names.push(*symbol),
        Initializer::List(items) => items.iter().for_each(|item| collect_addressed_names(item, names)),
        _ => {}
    }
}
