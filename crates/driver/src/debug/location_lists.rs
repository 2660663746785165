//! Finds the statements at which the location list of a variable names the wrong PTX register, by following the control flow.
//!
//! nvcc's location lists go by address: from the label after an assignment on, a variable is in the PTX register that was assigned, up to
//! the next label at which it is assigned. Code after a branch that leaves a loop iteration is not reached from the statement before it:
//!
//! ```text
//!     mov.u32 %r3, %r2;    $t1: the variable is in %r3
//!     @%p1 bra $more;
//!     mov.u32 %r5, %r3;    $t2: the variable is in %r5
//!     bra $next;           (`continue;`)
//! $more:                   the list says %r5, but only %r3 holds the variable here
//!     add.u32 %r6, %r3, 7; $t3: the variable is in %r6
//! ```
//!
//! The lists themselves are copied to the cubin unchanged. [`find_register_aliases`] finds the statements at which a list names another PTX
//! register than the one that holds the variable on all paths. There the table of registers lists the named register with the machine
//! register of the holder.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function};
use oriole_ptx::ast::RegisterId;
use oriole_support::Index;
use rustc_hash::FxHashMap;

/// An entry of a location list: the variable is in a PTX register from one statement up to another one. Statements are numbered as in
/// [`Location::statement`](oriole_ir::Location::statement).
#[derive(Clone, Copy, Debug)]
pub struct LocationListEntry<R> {
    /// The PTX register that holds the variable.
    pub register: R,
    /// The first PTX statement of the range.
    pub start: u32,
    /// The first PTX statement after the range.
    pub end: u32,
}

/// A PTX statement at which a location list names one PTX register although another one holds the variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterAlias {
    /// The number of the PTX statement.
    pub statement: u32,
    /// The PTX register that the location list names.
    pub named: RegisterId,
    /// The PTX register that holds the variable.
    pub holder: RegisterId,
}

/// For each location list, the PTX register that holds the variable on all paths to a point; `None` if there is none or several.
type VariableBindings = Vec<Option<RegisterId>>;

/// Returns the statements at which location lists name a PTX register that does not hold the variable, sorted by statement. The function is
/// not in SSA form yet.
pub fn find_register_aliases(function: &Function, flow: &ControlFlow, lists: &[Vec<LocationListEntry<RegisterId>>]) -> Vec<RegisterAlias> {
    let mut assignments: FxHashMap<u32, Vec<(usize, RegisterId)>> = FxHashMap::default();
    for (list, entries) in lists.iter().enumerate() {
        for entry in entries {
            assignments.entry(entry.start).or_default().push((list, entry.register));
        }
    }
    let starts = bindings_at_block_starts(function, flow, &assignments, lists.len());
    // For each statement and each register that the debug information names for a variable: the register that holds the variable at that
    // statement; `None` if two variables that share the named register are in different registers.
    let mut found: FxHashMap<(u32, RegisterId), Option<RegisterId>> = FxHashMap::default();
    for &block in flow.reverse_post_order() {
        let Some(mut bindings) = starts[block.position()].clone() else { continue };
        for_each_statement(function, block, &assignments, &mut bindings, |statement, bindings| {
            for (entries, &holder) in lists.iter().zip(bindings) {
                let at = entries.partition_point(|entry| entry.start <= statement);
                let entry = at.checked_sub(1).map(|at| entries[at]).filter(|entry| statement < entry.end);
                let (Some(entry), Some(holder)) = (entry, holder) else { continue };
                let known = found.entry((statement, entry.register)).or_insert(Some(holder));
                *known = known.filter(|&known| known == holder);
            }
        });
    }
    let differs = |((statement, named), holder): ((u32, RegisterId), Option<RegisterId>)| {
        holder.filter(|&holder| holder != named).map(|holder| RegisterAlias { statement, named, holder })
    };
    let mut list: Vec<RegisterAlias> = found.into_iter().filter_map(differs).collect();
    list.sort_unstable_by_key(|alias| (alias.statement, alias.named.position()));
    list
}

/// Calls `visit` for each statement of a block, with the PTX registers that hold the variables at the start of the statement.
fn for_each_statement(
    function: &Function,
    block: Block,
    assignments: &FxHashMap<u32, Vec<(usize, RegisterId)>>,
    bindings: &mut VariableBindings,
    mut visit: impl FnMut(u32, &VariableBindings),
) {
    let mut last = 0;
    for &inst in &function.blocks[block].insts {
        let statement = function.insts[inst].location.statement;
        if statement == 0 || statement == last {
            continue;
        }
        last = statement;
        for &(list, register) in assignments.get(&statement).into_iter().flatten() {
            bindings[list] = Some(register);
        }
        visit(statement, bindings);
    }
}

/// Returns, for the start of each block, the PTX registers that hold the variables; `None` for unreachable blocks.
fn bindings_at_block_starts(
    function: &Function,
    flow: &ControlFlow,
    assignments: &FxHashMap<u32, Vec<(usize, RegisterId)>>,
    lists: usize,
) -> Vec<Option<VariableBindings>> {
    let mut starts: Vec<Option<VariableBindings>> = vec![None; function.blocks.len()];
    starts[function.entry().position()] = Some(vec![None; lists]);
    let mut is_stable = false;
    while !is_stable {
        is_stable = true;
        for &block in flow.reverse_post_order() {
            let Some(mut bindings) = starts[block.position()].clone() else { continue };
            for_each_statement(function, block, assignments, &mut bindings, |_, _| {});
            for next in flow.successors(block) {
                match &mut starts[next.position()] {
                    Some(known) => {
                        for (known, other) in known.iter_mut().zip(&bindings) {
                            if known.is_some() && known != other {
                                *known = None;
                                is_stable = false;
                            }
                        }
                    }
                    empty => {
                        *empty = Some(bindings.clone());
                        is_stable = false;
                    }
                }
            }
        }
    }
    starts
}
