//! Offsets of shared variables, for files that are not relocatable.
//!
//! A device function is compiled once for all kernels, so a shared variable that a device function refers to must have the same offset in
//! every kernel that reaches this function. Variables that no kernel uses together may overlap. The variables of device functions are
//! placed first, greedily in module order: each starts at the largest end of shared memory so far over the kernels that use it. For
//! example, kernel `a` calls `f`, kernel `b` calls `g`, and each of the two functions has an array: both arrays start at offset 0.
//!
//! The other variables of each kernel follow. In a module with dynamic arrays, the end of a kernel's static variables is rounded up to the
//! largest alignment of a dynamic array, and to 16 bytes as ptxas does: programs access dynamic memory as vectors, whatever alignment the
//! array declares. All dynamic arrays start there. All kernels that reach a device function with a dynamic array use the same start: the
//! largest end of their static variables.
//!
//! Cost: one pass over the call graph's strongly connected components, and one over pairs of kernel and reached function.

use std::rc::Rc;

use oriole_ptx::ast::{Body, Function, FunctionId, FunctionKind, Linkage, Module, Operand, Statement, VariableId};
use oriole_ptx::table::Opcode;
use oriole_ptx::types::StateSpace;
use oriole_support::{Index, Name, strongly_connected};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::calls::aliases;
use crate::variable_sizes::{aligned, referenced_variables, total_bytes};

/// The shared memory as one function sees it.
#[derive(Clone, Default, Debug)]
pub(crate) struct FunctionShared {
    /// Static variables with their byte offsets.
    pub places: Vec<(VariableId, u64)>,
    /// Dynamic arrays (`.extern .shared v[]`).
    pub dynamic: Vec<VariableId>,
    /// The end of static memory, where dynamic arrays start, in bytes.
    pub end: u64,
    /// The largest alignment of a variable, in bytes.
    pub align: u64,
    /// Whether this is a kernel of a module that declares dynamic arrays. Its shared memory has a section, even without static variables.
    pub may_be_dynamic: bool,
}

/// The smallest alignment of the start of dynamic arrays, in bytes.
const DYNAMIC_ALIGN: u64 = 16;

/// The shared memory of all functions of a module that use any.
pub(crate) type SharedPlan = FxHashMap<FunctionId, FunctionShared>;

/// Assigns offsets to the shared variables of a module.
pub(crate) fn plan(module: &Module) -> SharedPlan {
    let uses: FxHashMap<FunctionId, Vec<VariableId>> = module
        .functions
        .iter_enumerated()
        .map(|(id, function)| (id, shared_variables(module, function)))
        .filter(|(_, variables)| !variables.is_empty())
        .collect();
    let dynamic_align = dynamic_align(module);
    if uses.is_empty() && dynamic_align.is_none() {
        return SharedPlan::default();
    }
    Planner::new(module, &uses, dynamic_align).run()
}

/// The state of the computation.
struct Planner<'m> {
    module: &'m Module,
    /// The shared variables that each function refers to; for a kernel also those that it only declares.
    uses: &'m FxHashMap<FunctionId, Vec<VariableId>>,
    /// For each kernel, the device functions with shared variables that it reaches.
    reachable_functions: Vec<(FunctionId, Rc<[FunctionId]>)>,
    /// Byte offsets of the variables that device functions refer to.
    common: FxHashMap<VariableId, u64>,
    /// For each kernel, the end of shared memory so far, in bytes.
    ends: FxHashMap<FunctionId, u64>,
    /// The alignment of the start of dynamic arrays; `None` if the module declares none.
    dynamic_align: Option<u64>,
}

impl<'m> Planner<'m> {
    fn new(module: &'m Module, uses: &'m FxHashMap<FunctionId, Vec<VariableId>>, dynamic_align: Option<u64>) -> Planner<'m> {
        Planner {
            module,
            uses,
            dynamic_align,
            reachable_functions: reached_by_kernels(module, uses),
            common: FxHashMap::default(),
            ends: FxHashMap::default(),
        }
    }

    /// Computes the layout of all functions.
    fn run(mut self) -> SharedPlan {
        self.place_common();
        let mut plan = SharedPlan::default();
        for (&id, variables) in self.uses.iter().filter(|(id, _)| self.module.functions[**id].kind == FunctionKind::Function) {
            plan.insert(id, self.of_function(variables));
        }
        for (kernel, reachable_functions) in std::mem::take(&mut self.reachable_functions) {
            let shared = self.of_kernel(kernel, &reachable_functions);
            if shared.end > 0 || shared.may_be_dynamic || !reachable_functions.is_empty() {
                plan.insert(kernel, shared);
            }
            self.reachable_functions.push((kernel, reachable_functions));
        }
        self.unify_dynamic_start(&mut plan);
        plan
    }

    /// Places the variables that device functions refer to, in the order of the functions in the module.
    fn place_common(&mut self) {
        let mut kernels_of: FxHashMap<VariableId, Vec<FunctionId>> = FxHashMap::default();
        for (kernel, reachable_functions) in &self.reachable_functions {
            for function in reachable_functions.iter().chain([kernel]) {
                for &variable in self.uses.get(function).into_iter().flatten() {
                    kernels_of.entry(variable).or_default().push(*kernel);
                }
            }
        }
        for (id, _) in self.module.functions.iter_enumerated().filter(|(_, function)| function.kind == FunctionKind::Function) {
            for &variable in self.uses.get(&id).into_iter().flatten().filter(|&&variable| is_static(self.module, variable)) {
                if self.common.contains_key(&variable) {
                    continue;
                }
                let kernels = kernels_of.get(&variable).map_or(&[][..], Vec::as_slice);
                let start = kernels.iter().filter_map(|kernel| self.ends.get(kernel)).copied().max().unwrap_or(0);
                let (offset, end) = place(self.module, variable, start);
                self.common.insert(variable, offset);
                self.ends.extend(kernels.iter().map(|&kernel| (kernel, end)));
            }
        }
    }

    /// Returns the shared memory of a device function.
    fn of_function(&self, variables: &[VariableId]) -> FunctionShared {
        let places = variables.iter().filter_map(|&variable| Some((variable, *self.common.get(&variable)?))).collect();
        self.shared(variables, places, 0)
    }

    /// Places the remaining variables of a kernel and returns its shared memory.
    fn of_kernel(&self, kernel: FunctionId, reachable_functions: &[FunctionId]) -> FunctionShared {
        let own = self.uses.get(&kernel).map_or(&[][..], Vec::as_slice);
        let mut end = self.ends.get(&kernel).copied().unwrap_or(0);
        let mut places = Vec::new();
        for &variable in own.iter().filter(|&&variable| is_static(self.module, variable)) {
            let offset = self.common.get(&variable).copied().unwrap_or_else(|| {
                let (offset, after) = place(self.module, variable, end);
                end = after;
                offset
            });
            places.push((variable, offset));
        }
        let mut shared = self.shared(own, places, aligned(end, self.dynamic_align.unwrap_or(1)));
        let of_reached = reachable_functions.iter().flat_map(|function| &self.uses[function]);
        let aligns = of_reached.map(|&variable| self.module.variables[variable].align_bytes()).chain(self.dynamic_align);
        shared.align = aligns.fold(shared.align, u64::max);
        shared.may_be_dynamic = self.dynamic_align.is_some();
        shared
    }

    /// Builds the result for a function from its variables, the offsets of the static ones, and the end of static memory.
    fn shared(&self, variables: &[VariableId], places: Vec<(VariableId, u64)>, end: u64) -> FunctionShared {
        let dynamic = variables.iter().copied().filter(|&variable| !is_static(self.module, variable)).collect();
        let align = variables.iter().map(|&variable| self.module.variables[variable].align_bytes()).fold(1, u64::max);
        FunctionShared { places, dynamic, end, align, may_be_dynamic: false }
    }

    /// Gives the dynamic arrays of device functions the same start in all kernels that reach these functions.
    fn unify_dynamic_start(&self, plan: &mut SharedPlan) {
        let has_dynamic = |plan: &SharedPlan, id: &FunctionId| plan.get(id).is_some_and(|shared| !shared.dynamic.is_empty());
        let functions: FxHashSet<FunctionId> = self
            .reachable_functions
            .iter()
            .flat_map(|(_, reachable_functions)| reachable_functions.iter())
            .copied()
            .filter(|id| has_dynamic(plan, id))
            .collect();
        let reaches = |reachable_functions: &[FunctionId]| reachable_functions.iter().any(|id| functions.contains(id));
        let kernels: Vec<FunctionId> = self
            .reachable_functions
            .iter()
            .filter(|(_, reachable_functions)| reaches(reachable_functions))
            .map(|(kernel, _)| *kernel)
            .collect();
        let end = kernels.iter().filter_map(|id| plan.get(id)).map(|shared| shared.end).max().unwrap_or(0);
        for id in kernels.iter().chain(&functions) {
            if let Some(shared) = plan.get_mut(id) {
                shared.end = end;
            }
        }
    }
}

/// Returns the offset of a variable placed after `end`, and its own end, in bytes.
fn place(module: &Module, variable: VariableId, end: u64) -> (u64, u64) {
    let variable = &module.variables[variable];
    let offset = aligned(end, variable.align_bytes());
    (offset, offset.saturating_add(total_bytes(variable)))
}

/// Returns whether the size of a variable is known at compile time; otherwise it is a dynamic array.
fn is_static(module: &Module, id: VariableId) -> bool {
    let variable = &module.variables[id];
    variable.linkage != Linkage::Extern && variable.size_bytes().is_some()
}

/// Returns the alignment in bytes of the start of dynamic arrays; `None` if the module declares none.
fn dynamic_align(module: &Module) -> Option<u64> {
    let arrays =
        module.variables.iter_enumerated().filter(|&(id, variable)| variable.space == StateSpace::Shared && !is_static(module, id));
    arrays.map(|(_, variable)| variable.align_bytes().max(DYNAMIC_ALIGN)).max()
}

/// Returns the shared variables that a function refers to, for a kernel also those that it declares, in order of declaration.
fn shared_variables(module: &Module, function: &Function) -> Vec<VariableId> {
    let Some(body) = function.body.as_deref() else { return Vec::new() };
    let mut found = referenced_variables(function);
    if function.kind == FunctionKind::Entry {
        found.extend(body.statements.iter().filter_map(|statement| match *statement {
            Statement::Variable(id) if module.variables[id].linkage != Linkage::Extern => Some(id),
            _ => None,
        }));
    }
    found.retain(|&id| module.variables[id].space == StateSpace::Shared);
    found.sort_unstable();
    found.dedup();
    found
}

/// Returns, for each kernel, the device functions with shared variables that it reaches, in module order.
///
/// The sets are built once per strongly connected component of the call graph, callees first. A component that adds nothing to the only
/// set of its callees shares that set, so a long chain of calls to one function with shared variables copies nothing.
fn reached_by_kernels(module: &Module, uses: &FxHashMap<FunctionId, Vec<VariableId>>) -> Vec<(FunctionId, Rc<[FunctionId]>)> {
    let is_sharer = |id: FunctionId| uses.contains_key(&id) && module.functions[id].kind == FunctionKind::Function;
    let kernels = module.functions.iter_enumerated().filter(|(_, function)| function.kind == FunctionKind::Entry);
    let nothing: Rc<[FunctionId]> = Rc::from([]);
    if !uses.keys().any(|&id| is_sharer(id)) {
        return kernels.map(|(kernel, _)| (kernel, Rc::clone(&nothing))).collect();
    }
    let callees = callees(module);
    let mut sets = vec![Rc::clone(&nothing); callees.len()];
    for group in strongly_connected(&callees) {
        let members = group.iter().filter(|&&node| node < module.functions.len()).map(|&node| FunctionId::new(node));
        let own: Vec<FunctionId> = members.filter(|&id| is_sharer(id)).collect();
        let reachable_functions = group.iter().flat_map(|&node| &callees[node]).map(|&callee| &sets[callee]).filter(|set| !set.is_empty());
        let set = union(own, reachable_functions.cloned().collect());
        group.into_iter().for_each(|node| sets[node] = Rc::clone(&set));
    }
    kernels.map(|(kernel, _)| (kernel, Rc::clone(&sets[kernel.position()]))).collect()
}

/// Returns the sorted union of a component's own functions and the sets that its callees reach.
fn union(own: Vec<FunctionId>, mut reachable_functions: Vec<Rc<[FunctionId]>>) -> Rc<[FunctionId]> {
    reachable_functions.dedup_by(|left, right| Rc::ptr_eq(left, right));
    if let ([], [only]) = (own.as_slice(), reachable_functions.as_slice()) {
        return Rc::clone(only);
    }
    let mut all = own;
    all.extend(reachable_functions.iter().flat_map(|set| set.iter().copied()));
    all.sort_unstable();
    all.dedup();
    Rc::from(all)
}

/// Returns the functions that each function may call, by position. One extra node after the functions represents all device functions; an
/// indirect call may reach each of them.
fn callees(module: &Module) -> Vec<Vec<usize>> {
    let is_callable = |function: &Function| function.body.is_some() && function.kind == FunctionKind::Function;
    let callable = module.functions.iter_enumerated().filter(|(_, function)| is_callable(function));
    let by_name: FxHashMap<Name, usize> = callable.map(|(id, function)| (function.name, id.position())).collect();
    let aliases: FxHashMap<Name, Name> = aliases(module).map(|alias| (alias.name, alias.target)).rev().collect();
    let target = |id: FunctionId| {
        let name = module.functions[id].name;
        by_name.get(aliases.get(&name).unwrap_or(&name)).copied()
    };
    let any_function = module.functions.len();
    let of_body = |body: &Body| {
        if calls_by_pointer(module, body) {
            return vec![any_function];
        }
        let named = body.operands.iter().filter_map(|operand| if let Operand::Function(id) = *operand { target(id) } else { None });
        let mut found: Vec<usize> = named.collect();
        found.sort_unstable();
        found.dedup();
        found
    };
    let mut callees: Vec<Vec<usize>> =
        module.functions.iter().map(|function| function.body.as_deref().map(of_body).unwrap_or_default()).collect();
    let mut all: Vec<usize> = by_name.into_values().collect();
    all.sort_unstable();
    callees.push(all);
    callees
}

/// Returns whether a body contains an indirect call.
fn calls_by_pointer(module: &Module, body: &Body) -> bool {
    body.instructions.iter().filter(|instruction| module.forms[instruction.form].opcode == Opcode::Call).any(|call| {
        let callee = body.operands_of(call).iter().find(|operand| !matches!(operand, Operand::Arguments(_)));
        !matches!(callee, Some(Operand::Function(_)))
    })
}
