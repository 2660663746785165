//! Which functions of a module go into the file, and what the file says about those that are defined elsewhere.

use oriole_cubin::build::Extern;
use oriole_isel::prototype;
use oriole_ptx::ast::{AddressBase, Body, Function, FunctionId, FunctionKind, Initializer, Linkage, Module, Operand};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_sched::backend::tree::{CallCosts, Callee};
use oriole_support::Name;
use rustc_hash::{FxHashMap, FxHashSet};

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

/// The functions of a module by name. Names are interned, so comparing their numbers is enough.
pub struct Index<'m> {
    module: &'m Module,
    /// The first declaration or definition.
    declared: FxHashMap<&'m str, FunctionId>,
    defined: FxHashMap<Name, FunctionId>,
    /// What aliases stand for.
    aliases: FxHashMap<Name, Name>,
    /// Other names of functions that other files can see, in the order of the source.
    visible_aliases: FxHashMap<Name, Vec<Name>>,
}

impl<'m> Index<'m> {
    /// Looks through a module.
    pub fn of(module: &'m Module) -> Index<'m> {
        let mut index = Index {
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

    /// What a name stands for.
    fn resolved(&self, name: Name) -> Name {
        self.aliases.get(&name).copied().unwrap_or(name)
    }

    /// The definition of what a name stands for.
    fn definition(&self, name: Name) -> Option<FunctionId> {
        self.defined.get(&self.resolved(name)).copied()
    }

    /// Whether the module has a body for a function, under this name.
    pub fn is_defined(&self, name: &str) -> bool {
        self.declared.get(name).is_some_and(|&id| self.defined.contains_key(&self.module.functions[id].name))
    }

    /// Whether the module knows a function, not a kernel, of this name.
    pub fn has_function(&self, name: &str) -> bool {
        self.declared.get(name).is_some_and(|&id| self.module.functions[id].kind == FunctionKind::Function)
    }

    /// A function that is used here and defined elsewhere.
    pub fn external(&self, name: &str) -> Extern {
        let declared = self.declared.get(name).map(|&id| &self.module.functions[id]);
        let text = declared.map(|function| prototype(self.module, &function.returns, &function.parameters));
        let text = text.map(|text| if is_drivers(name) { format!("{text}{DRIVER_CONVENTION}{DRIVER_LOSES:064x}") } else { text });
        Extern { prototype: text, ..Extern::function(name) }
    }

    /// Other names of a function that other files can see.
    pub fn aliases(&self, function: Name) -> impl Iterator<Item = &'m str> {
        self.visible_aliases.get(&function).into_iter().flatten().map(|&alias| self.module.name(alias))
    }

    /// The functions whose addresses are among the first bytes of variables.
    pub fn taken_by_variables(&self) -> Vec<&'m str> {
        let names = in_initializers(self.module).into_iter().map(|name| self.module.name(self.resolved(name)));
        names.filter(|name| self.declared.contains_key(name)).collect()
    }
}

/// Returns the functions with a body that the cubin needs, in the order of the source: the roots and what these reach by calls or
/// addresses. Roots are kernels, functions in initializers and, if other files or other inputs may call them (`has_callers_elsewhere`),
/// functions with a linkage directive. Like ptxas, an executable cubin of one input drops a `.visible` function without a caller.
pub fn wanted(index: &Index<'_>, options: &Options, has_callers_elsewhere: bool) -> Vec<FunctionId> {
    let module = index.module;
    let entries: FxHashSet<&str> = options.entries.iter().map(String::as_str).collect();
    let is_root = |function: &Function| match function.kind {
        FunctionKind::Entry => entries.is_empty() || entries.contains(module.name(function.name)),
        FunctionKind::Function => has_callers_elsewhere && function.linkage != Linkage::Internal,
    };
    let mut work: Vec<FunctionId> =
        module.functions.iter_enumerated().filter(|(_, function)| is_root(function)).map(|(id, _)| id).collect();
    work.extend(in_initializers(module).into_iter().filter_map(|name| index.definition(name)));
    let mut found: FxHashSet<FunctionId> = FxHashSet::default();
    while let Some(id) = work.pop() {
        let function = &module.functions[id];
        if function.body.is_some() && found.insert(id) {
            work.extend(mentioned(function).filter_map(|id| index.definition(module.functions[id].name)));
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
    pub fn of(index: &Index<'_>) -> Facts {
        Facts { gathering: gathering(index), calls: call_costs(index) }
    }
}

/// Functions in which threads may wait for all others of their warp: at a `barrier` without `.aligned`, there or in what they call.
fn gathering(index: &Index<'_>) -> FxHashSet<String> {
    let module = index.module;
    let waits = |body: &Body| {
        body.instructions
            .iter()
            .map(|instruction| &module.forms[instruction.form])
            .any(|form| form.opcode == Opcode::Barrier && !form.modifiers.iter().any(|value| value.modifier == Modifier::Aligned))
    };
    let mut callers: FxHashMap<Name, Vec<Name>> = FxHashMap::default();
    let mut work = Vec::new();
    for function in &module.functions {
        let Some(body) = function.body.as_deref() else { continue };
        if waits(body) {
            work.push(function.name);
        }
        for callee in mentioned(function) {
            callers.entry(index.resolved(module.functions[callee].name)).or_default().push(function.name);
        }
    }
    let mut found: FxHashSet<Name> = FxHashSet::default();
    while let Some(name) = work.pop() {
        if found.insert(name) {
            work.extend(callers.get(&name).into_iter().flatten());
        }
    }
    found.into_iter().map(|name| module.name(name).to_owned()).collect()
}

/// Cycles that a statement of a callee takes, about: nobody has compiled it yet.
const CYCLES_OF_STATEMENT: u32 = 5;

/// About how long each function of a module takes, with all that it calls.
fn call_costs(index: &Index<'_>) -> CallCosts {
    let module = index.module;
    let callees = module.functions.iter().filter_map(|function| {
        let body = function.body.as_deref()?;
        let has_calls = has_calls(module, function);
        let own_cycles = CYCLES_OF_STATEMENT.saturating_mul(body.instructions.len() as u32);
        let calls = mentioned(function).filter(|_| has_calls).map(|id| index.resolved(module.functions[id].name));
        let calls = calls.map(|name| module.name(name).to_owned()).collect();
        Some(Callee { name: module.name(function.name).to_owned(), own_cycles, calls })
    });
    CallCosts::propagate(&callees.collect::<Vec<_>>())
}

/// The functions that a function's code names.
fn mentioned(function: &Function) -> impl Iterator<Item = FunctionId> + '_ {
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

/// The names whose addresses are among the first bytes of variables.
fn in_initializers(module: &Module) -> Vec<Name> {
    let mut names = Vec::new();
    for initializer in module.variables.iter().filter_map(|variable| variable.initializer.as_deref()) {
        addresses(initializer, &mut names);
    }
    names
}

fn addresses(initializer: &Initializer, names: &mut Vec<Name>) {
    match initializer {
        Initializer::Address { symbol, .. } => names.push(*symbol),
        Initializer::List(items) => items.iter().for_each(|item| addresses(item, names)),
        _ => {}
    }
}
