//! Places of shared variables in a file that is complete.
//!
//! A function that is not a kernel is compiled once for all kernels, so a variable that such a function mentions has the same
//! offset in every kernel that reaches the function. Variables that no kernel uses together may overlap: each variable starts
//! where the variables before it end in the kernels that use it. For example, kernel `a` calls `f`, kernel `b` calls `g`, and
//! each function has an array of its own: both arrays start at offset 0.
//!
//! A kernel's other variables follow. Dynamic arrays start where a kernel's static variables end. Kernels that reach a function
//! with a dynamic array agree on its start: their static parts are as large as the largest of them.

use std::rc::Rc;

use oriole_ptx::ast::{Body, Function, FunctionId, FunctionKind, Linkage, Module, Operand, Statement, VariableId};
use oriole_ptx::table::Opcode;
use oriole_ptx::types::StateSpace;
use oriole_support::{Index, Name, strongly_connected};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::calls::aliases;
use crate::layout::{aligned, mentioned, total_bytes};

/// Shared memory as one function sees it.
#[derive(Clone, Default, Debug)]
pub(crate) struct FunctionShared {
    /// Static variables and their offsets.
    pub places: Vec<(VariableId, u64)>,
    /// Dynamic arrays.
    pub dynamic: Vec<VariableId>,
    /// The offset at which dynamic arrays start, before it is aligned.
    pub end: u64,
    /// The largest alignment of a variable, in bytes.
    pub align: u64,
}

/// Shared memory of all functions of a module that use it.
pub(crate) type SharedPlan = FxHashMap<FunctionId, FunctionShared>;

/// Places the shared variables of a module.
pub(crate) fn plan(module: &Module) -> SharedPlan {
    let uses: FxHashMap<FunctionId, Vec<VariableId>> = module
        .functions
        .iter_enumerated()
        .map(|(id, function)| (id, shared_variables(module, function)))
        .filter(|(_, variables)| !variables.is_empty())
        .collect();
    if uses.is_empty() {
        return SharedPlan::default();
    }
    Planner::new(module, &uses).run()
}

struct Planner<'m> {
    module: &'m Module,
    /// Variables that each function mentions; a kernel also has those that it only declares.
    uses: &'m FxHashMap<FunctionId, Vec<VariableId>>,
    /// For each kernel, the functions with shared variables that it reaches, the kernel itself excluded.
    reached: Vec<(FunctionId, Rc<[FunctionId]>)>,
    /// Offsets of variables that functions mention.
    common: FxHashMap<VariableId, u64>,
    /// Where shared memory ends so far, by kernel.
    ends: FxHashMap<FunctionId, u64>,
}

impl<'m> Planner<'m> {
    fn new(module: &'m Module, uses: &'m FxHashMap<FunctionId, Vec<VariableId>>) -> Planner<'m> {
        Planner { module, uses, reached: reached_by_kernels(module, uses), common: FxHashMap::default(), ends: FxHashMap::default() }
    }

    fn run(mut self) -> SharedPlan {
        self.place_common();
        let mut plan = SharedPlan::default();
        for (&id, variables) in self.uses.iter().filter(|(id, _)| self.module.functions[**id].kind == FunctionKind::Function) {
            plan.insert(id, self.of_function(variables));
        }
        for (kernel, reached) in std::mem::take(&mut self.reached) {
            let shared = self.of_kernel(kernel, &reached);
            if shared.end > 0 || !shared.dynamic.is_empty() || !reached.is_empty() {
                plan.insert(kernel, shared);
            }
            self.reached.push((kernel, reached));
        }
        self.agree_on_dynamic_start(&mut plan);
        plan
    }

    /// Places the variables that functions mention, in the order of the functions.
    fn place_common(&mut self) {
        let mut kernels_of: FxHashMap<VariableId, Vec<FunctionId>> = FxHashMap::default();
        for (kernel, reached) in &self.reached {
            for function in reached.iter().chain([kernel]) {
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

    fn of_function(&self, variables: &[VariableId]) -> FunctionShared {
        let places = variables.iter().filter_map(|&variable| Some((variable, *self.common.get(&variable)?))).collect();
        self.shared(variables, places, 0)
    }

    fn of_kernel(&self, kernel: FunctionId, reached: &[FunctionId]) -> FunctionShared {
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
        let mut shared = self.shared(own, places, end);
        let of_reached = reached.iter().flat_map(|function| &self.uses[function]);
        shared.align = of_reached.map(|&variable| self.module.variables[variable].align_bytes()).fold(shared.align, u64::max);
        shared
    }

    fn shared(&self, variables: &[VariableId], places: Vec<(VariableId, u64)>, end: u64) -> FunctionShared {
        let dynamic = variables.iter().copied().filter(|&variable| !is_static(self.module, variable)).collect();
        let align = variables.iter().map(|&variable| self.module.variables[variable].align_bytes()).fold(1, u64::max);
        FunctionShared { places, dynamic, end, align }
    }

    /// Gives dynamic arrays of functions one start in all kernels that reach those functions.
    fn agree_on_dynamic_start(&self, plan: &mut SharedPlan) {
        let has_dynamic = |plan: &SharedPlan, id: &FunctionId| plan.get(id).is_some_and(|shared| !shared.dynamic.is_empty());
        let functions: FxHashSet<FunctionId> =
            self.reached.iter().flat_map(|(_, reached)| reached.iter()).copied().filter(|id| has_dynamic(plan, id)).collect();
        let reaches = |reached: &[FunctionId]| reached.iter().any(|id| functions.contains(id));
        let kernels: Vec<FunctionId> = self.reached.iter().filter(|(_, reached)| reaches(reached)).map(|(kernel, _)| *kernel).collect();
        let members = || kernels.iter().chain(&functions).filter_map(|id| plan.get(id));
        let arrays = members().flat_map(|shared| &shared.dynamic);
        let align = arrays.map(|&variable| self.module.variables[variable].align_bytes()).max().unwrap_or(1);
        let end = aligned(members().map(|shared| shared.end).max().unwrap_or(0), align);
        for id in kernels.iter().chain(&functions) {
            if let Some(shared) = plan.get_mut(id) {
                shared.end = end;
            }
        }
    }
}

/// The offset of a variable that is placed after others, and where it ends.
fn place(module: &Module, variable: VariableId, end: u64) -> (u64, u64) {
    let variable = &module.variables[variable];
    let offset = aligned(end, variable.align_bytes());
    (offset, offset.saturating_add(total_bytes(variable)))
}

fn is_static(module: &Module, id: VariableId) -> bool {
    let variable = &module.variables[id];
    variable.linkage != Linkage::Extern && variable.size_bytes().is_some()
}

/// The shared variables that a function mentions, and those that a kernel declares, in order of declaration.
fn shared_variables(module: &Module, function: &Function) -> Vec<VariableId> {
    let Some(body) = function.body.as_deref() else { return Vec::new() };
    let mut found = mentioned(function);
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

/// Returns, for each kernel, the functions with shared variables that it reaches, in the order of the module.
///
/// Sets are built once for each group of functions that call each other, callees first. A group that adds nothing to the set of
/// its callees shares that set, so a long chain of calls before one function with shared variables costs no copies.
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
        let reached = group.iter().flat_map(|&node| &callees[node]).map(|&callee| &sets[callee]).filter(|set| !set.is_empty());
        let set = union(own, reached.cloned().collect());
        group.into_iter().for_each(|node| sets[node] = Rc::clone(&set));
    }
    kernels.map(|(kernel, _)| (kernel, Rc::clone(&sets[kernel.position()]))).collect()
}

/// Returns the sorted union of a group's own functions and the sets that its callees reach.
fn union(own: Vec<FunctionId>, mut reached: Vec<Rc<[FunctionId]>>) -> Rc<[FunctionId]> {
    reached.dedup_by(|left, right| Rc::ptr_eq(left, right));
    if let ([], [only]) = (own.as_slice(), reached.as_slice()) {
        return Rc::clone(only);
    }
    let mut all = own;
    all.extend(reached.iter().flat_map(|set| set.iter().copied()));
    all.sort_unstable();
    all.dedup();
    Rc::from(all)
}

/// Returns the functions that each function may call, by position. One more node after the functions stands for all functions that
/// are not kernels; a call through a pointer may reach each of them.
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

fn calls_by_pointer(module: &Module, body: &Body) -> bool {
    body.instructions.iter().filter(|instruction| module.forms[instruction.form].opcode == Opcode::Call).any(|call| {
        let callee = body.operands_of(call).iter().find(|operand| !matches!(operand, Operand::Arguments(_)));
        !matches!(callee, Some(Operand::Function(_)))
    })
}
