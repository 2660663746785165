//! Which functions of a module go into the file, and what the file says about those that are defined elsewhere.

use oriole_cubin::build::Extern;
use oriole_isel::{prototype, resolved_name};
use oriole_ptx::ast::{AddressBase, Alias, Body, Function, FunctionId, FunctionKind, Initializer, Item, Linkage, Module, Operand};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_sched::backend::tree::{CallCosts, Callee};
use rustc_hash::FxHashSet;

use crate::Options;

/// Functions of the driver's own, which an executable file may call without a definition.
const DRIVER_FUNCTIONS: [&str; 4] = ["vprintf", "malloc", "free", "__assertfail"];
/// What the linker knows of them beyond their types: twelve parameter registers from R4 on, return address in R20, and which
/// registers they change: R0 and R3 to R15.
const DRIVER_CONVENTION: &str = "|12p4r20sRx";
const DRIVER_LOSES: u32 = 0xfff9;

/// Whether the driver defines a function.
pub fn is_drivers(name: &str) -> bool {
    DRIVER_FUNCTIONS.contains(&name)
}

/// A function that is used here and defined elsewhere.
pub fn external(module: &Module, name: &str) -> Extern {
    let declared = module.functions.iter().find(|function| module.name(function.name) == name);
    let text = declared.map(|function| prototype(module, &function.returns, &function.parameters));
    let text = text.map(|text| if is_drivers(name) { format!("{text}{DRIVER_CONVENTION}{DRIVER_LOSES:064x}") } else { text });
    Extern { prototype: text, ..Extern::function(name) }
}

/// The functions with a body that the file needs, in the order of the source: kernels, what others can see, and what these reach by
/// calls or addresses.
pub fn wanted(module: &Module, options: &Options) -> Vec<FunctionId> {
    let is_root = |function: &Function| match function.kind {
        FunctionKind::Entry => options.entries.is_empty() || options.entries.iter().any(|entry| entry == module.name(function.name)),
        FunctionKind::Function => function.linkage != Linkage::Internal,
    };
    let mut work: Vec<FunctionId> =
        module.functions.iter_enumerated().filter(|(_, function)| is_root(function)).map(|(id, _)| id).collect();
    let mut in_variables = Vec::new();
    for variable in &module.variables {
        if let Some(initializer) = variable.initializer.as_deref() {
            addresses(module, initializer, &mut in_variables);
        }
    }
    work.extend(in_variables.iter().flat_map(|name| defined(module, name)));
    let mut found: FxHashSet<FunctionId> = FxHashSet::default();
    while let Some(id) = work.pop() {
        let function = &module.functions[id];
        if function.body.is_some() && found.insert(id) {
            work.extend(mentioned(module, function).iter().flat_map(|name| defined(module, name)));
        }
    }
    let mut found: Vec<FunctionId> = found.into_iter().collect();
    found.sort_unstable();
    found
}

/// Whether a function's code has calls.
pub fn has_calls(module: &Module, function: &Function) -> bool {
    let is_call = |body: &Body| body.instructions.iter().any(|instruction| module.forms[instruction.form].opcode == Opcode::Call);
    function.body.as_deref().is_some_and(is_call)
}

/// What is known of a module's functions before they are compiled.
pub struct Facts {
    /// Names of those in which threads may wait for all others of their warp.
    pub gathering: FxHashSet<String>,
    /// How long they take, about.
    pub calls: CallCosts,
}

impl Facts {
    /// Looks through a module.
    pub fn of(module: &Module) -> Facts {
        Facts { gathering: gathering(module), calls: call_costs(module) }
    }
}

/// Functions in which threads may wait for all others of their warp: at a `barrier` without `.aligned`, there or in what they call.
fn gathering(module: &Module) -> FxHashSet<String> {
    let waits = |body: &Body| {
        body.instructions
            .iter()
            .map(|instruction| &module.forms[instruction.form])
            .any(|form| form.opcode == Opcode::Barrier && !form.modifiers.iter().any(|value| value.modifier == Modifier::Aligned))
    };
    let mut found: FxHashSet<String> = FxHashSet::default();
    let name = |function: &Function| module.name(function.name).to_owned();
    let with_body = || module.functions.iter().filter_map(|function| Some((function, function.body.as_deref()?)));
    found.extend(with_body().filter(|(_, body)| waits(body)).map(|(function, _)| name(function)));
    let mut known = 0;
    while known < found.len() {
        known = found.len();
        let callers: Vec<String> = with_body()
            .filter(|(function, _)| mentioned(module, function).iter().any(|callee| found.contains(resolved_name(module, callee))))
            .map(|(function, _)| name(function))
            .collect();
        found.extend(callers);
    }
    found
}

/// Cycles that a statement of a callee takes, about: nobody has compiled it yet.
const CYCLES_OF_STATEMENT: u32 = 5;

/// About how long each function of a module takes, with all that it calls.
fn call_costs(module: &Module) -> CallCosts {
    let callees = module.functions.iter().filter_map(|function| {
        let body = function.body.as_deref()?;
        let own_cycles = CYCLES_OF_STATEMENT.saturating_mul(body.instructions.len() as u32);
        let calls = if has_calls(module, function) { mentioned(module, function) } else { Vec::new() };
        let calls = calls.iter().map(|name| resolved_name(module, name).to_owned()).collect();
        Some(Callee { name: module.name(function.name).to_owned(), own_cycles, calls })
    });
    CallCosts::propagate(&callees.collect::<Vec<_>>())
}

/// Other names of a function that other files can see.
pub fn aliases(module: &Module, name: &str) -> Vec<String> {
    let aliases = module.items.iter().filter_map(|item| if let Item::Alias(alias) = item { Some(alias) } else { None });
    let is_visible = |alias: &&Alias| {
        let declared = module.functions.iter().find(|function| function.name == alias.name);
        declared.is_some_and(|function| function.linkage == Linkage::Visible)
    };
    aliases.filter(|alias| module.name(alias.target) == name).filter(is_visible).map(|alias| module.name(alias.name).to_owned()).collect()
}

/// The definition of a function by name.
fn defined(module: &Module, name: &str) -> Option<FunctionId> {
    let name = resolved_name(module, name);
    module.functions.iter_enumerated().find(|(_, function)| function.body.is_some() && module.name(function.name) == name).map(|(id, _)| id)
}

/// The functions that a function's code names.
fn mentioned(module: &Module, function: &Function) -> Vec<String> {
    let Some(body) = function.body.as_deref() else { return Vec::new() };
    let in_operands = body.operands.iter().filter_map(|operand| if let Operand::Function(id) = *operand { Some(id) } else { None });
    let in_addresses = body.addresses.iter().filter_map(|address| match address.base {
        AddressBase::Function(id) => Some(id),
        _ => None,
    });
    let in_lists = body.target_lists.iter().flat_map(|list| &list.targets);
    let in_lists = in_lists.filter_map(|operand| if let Operand::Function(id) = *operand { Some(id) } else { None });
    let ids = in_operands.chain(in_addresses).chain(in_lists);
    ids.map(|id| module.name(module.functions[id].name).to_owned()).collect()
}

/// The functions whose addresses are among the first bytes of variables.
pub fn taken_by_variables(module: &Module) -> Vec<String> {
    let mut names = Vec::new();
    for variable in &module.variables {
        if let Some(initializer) = variable.initializer.as_deref() {
            addresses(module, initializer, &mut names);
        }
    }
    names.retain(|name| module.functions.iter().any(|function| module.name(function.name) == *name));
    names
}

fn addresses(module: &Module, initializer: &Initializer, names: &mut Vec<String>) {
    match initializer {
        Initializer::Address { symbol, .. } => names.push(resolved_name(module, module.name(*symbol)).to_owned()),
        Initializer::List(items) => items.iter().for_each(|item| addresses(module, item, names)),
        _ => {}
    }
}
