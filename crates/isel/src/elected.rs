//! Finds the code that at most one thread of a warp executes at a time, because it is guarded by `elect.sync`.
//!
//! ```text
//! elect.sync _|%p1, -1;
//! @!%p1 bra done;
//! cp.async.bulk ...        one thread
//! done:                    all threads
//! ```
//!
//! `elect.sync` with all threads as members gives a predicate that holds in one thread of the warp; so does the conjunction of such a
//! predicate and any other. A block is executed by one thread if each edge to it comes from such a block, or is a branch that is taken only
//! where such a predicate holds. This is a forward data-flow problem over the basic blocks of the PTX code, solved by iteration from the
//! assumption that all blocks but the first are executed by one thread. Cost: the number of blocks times the depth of loops.

use oriole_ptx::ast::{Body, GuardSource, Instruction, LabelId, Module, Operand, RegisterId, Statement};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;
use rustc_hash::{FxHashMap, FxHashSet};

/// The statements that at most one thread of a warp executes at a time.
#[derive(Default)]
pub(crate) struct Elected {
    /// Predicates that hold in at most one thread of a warp.
    predicates: FxHashSet<RegisterId>,
    /// Whether one thread executes a statement; empty if no predicate is elected.
    statements: Vec<bool>,
}

impl Elected {
    /// Analyses a function body.
    pub(crate) fn of(module: &Module, body: &Body) -> Elected {
        let predicates = elected_predicates(module, body);
        if predicates.is_empty() {
            return Elected::default();
        }
        let statements = BlockGraph::new(module, body, &predicates).solve();
        Elected { predicates, statements }
    }

    /// Returns whether at most one thread of a warp executes the instruction of a statement.
    pub(crate) fn holds(&self, statement: usize, instruction: &Instruction) -> bool {
        self.statements.get(statement).is_some_and(|&is_elected| is_elected)
            || positive_guard(instruction).is_some_and(|register| self.predicates.contains(&register))
    }
}

/// Returns the predicate register where an instruction is executed if it holds.
fn positive_guard(instruction: &Instruction) -> Option<RegisterId> {
    match instruction.guard {
        Some(guard) if !guard.negated => guard_register(guard.source),
        _ => None,
    }
}

fn guard_register(source: GuardSource) -> Option<RegisterId> {
    if let GuardSource::Register(register) = source { Some(register) } else { None }
}

/// Returns the registers that an instruction may write, as far as predicates are concerned: those among its first operand.
fn destinations(body: &Body, instruction: &Instruction) -> Vec<RegisterId> {
    let is_predicate = |register: &RegisterId| body.declaration_of(*register).ty == ScalarType::Pred;
    let mut found = Vec::new();
    if let Some(&first) = body.operands_of(instruction).first() {
        collect(body, first, &mut found);
    }
    found.retain(is_predicate);
    found
}

/// Adds the registers in an operand to a list.
fn collect(body: &Body, operand: Operand, found: &mut Vec<RegisterId>) {
    match operand {
        Operand::Register(register) => found.push(register),
        Operand::Pair(list) | Operand::Vector(list) | Operand::Arguments(list) => {
            body.list(list).iter().for_each(|&part| collect(body, part, found));
        }
        _ => {}
    }
}

/// Returns the predicates that hold in at most one thread of a warp. They have only one definition.
fn elected_predicates(module: &Module, body: &Body) -> FxHashSet<RegisterId> {
    let opcode = |instruction: &Instruction| module.forms[instruction.form].opcode;
    if !body.instructions.iter().any(|instruction| opcode(instruction) == Opcode::ElectSync) {
        return FxHashSet::default();
    }
    let mut definitions: FxHashMap<RegisterId, usize> = FxHashMap::default();
    for instruction in body.instructions.iter() {
        for register in destinations(body, instruction) {
            *definitions.entry(register).or_default() += 1;
        }
    }
    let mut elected = FxHashSet::default();
    for instruction in body.instructions.iter() {
        let form = &module.forms[instruction.form];
        let operands = body.operands_of(instruction);
        let is_elected = |operand: &Operand| matches!(operand, Operand::Register(register) if elected.contains(register));
        let holds = match form.opcode {
            Opcode::ElectSync => instruction.guard.is_none() && matches!(operands.last(), Some(Operand::Integer(-1))),
            Opcode::And if form.has(Modifier::Pred) => instruction.guard.is_none() && operands[1..].iter().any(is_elected),
            _ => false,
        };
        if holds {
            elected.extend(destinations(body, instruction).into_iter().filter(|register| definitions[register] == 1));
        }
    }
    elected
}

/// The control flow between basic blocks.
struct BlockGraph {
    /// First statement of each block, in order; each block ends where the next starts.
    starts: Vec<usize>,
    statements: usize,
    /// Edges from one block to another, and whether they are taken by one thread in any case.
    edges: Vec<(usize, usize, bool)>,
    /// Blocks that other code may jump to.
    open: Vec<usize>,
}

impl BlockGraph {
    fn new(module: &Module, body: &Body, predicates: &FxHashSet<RegisterId>) -> BlockGraph {
        let mut starts = vec![0];
        let mut labels: FxHashMap<LabelId, usize> = FxHashMap::default();
        for (number, statement) in body.statements.iter().enumerate() {
            match *statement {
                Statement::Label(label) => {
                    starts.push(number);
                    labels.insert(label, number);
                }
                Statement::Instruction(id) if ends_block(module.forms[body.instructions[id].form].opcode) => starts.push(number + 1),
                _ => {}
            }
        }
        starts.sort_unstable();
        starts.dedup();
        let block_at = |statement: usize| starts.partition_point(|&start| start <= statement) - 1;
        let mut flow = BlockGraph { statements: body.statements.len(), edges: Vec::new(), open: vec![0], starts: Vec::new() };
        for (block, &start) in starts.iter().enumerate() {
            let end = starts.get(block + 1).copied().unwrap_or(flow.statements);
            let last = body.statements[start..end.max(start)].last();
            let Some(&Statement::Instruction(id)) = last else {
                flow.edges.push((block, block + 1, false));
                continue;
            };
            let instruction = &body.instructions[id];
            let guard = instruction.guard.and_then(|guard| Some((guard_register(guard.source)?, guard.negated)));
            let elected = guard.filter(|(register, _)| predicates.contains(register)).map(|(_, negated)| negated);
            match module.forms[instruction.form].opcode {
                Opcode::Bra => {
                    if let Some(Operand::Label(label)) = body.operands_of(instruction).first()
                        && let Some(&target) = labels.get(label)
                    {
                        flow.edges.push((block, block_at(target), elected == Some(false)));
                    }
                    if instruction.guard.is_some() {
                        flow.edges.push((block, block + 1, elected == Some(true)));
                    }
                }
                Opcode::BrxIdx => flow.open.extend(labels.values().map(|&statement| block_at(statement))),
                Opcode::Ret | Opcode::Exit if instruction.guard.is_none() => {}
                Opcode::Ret | Opcode::Exit => flow.edges.push((block, block + 1, elected == Some(true))),
                _ => flow.edges.push((block, block + 1, false)),
            }
        }
        flow.starts = starts;
        flow
    }

    /// Returns for each statement whether one thread executes it.
    fn solve(&self) -> Vec<bool> {
        let mut is_elected = vec![true; self.starts.len()];
        self.open.iter().for_each(|&block| is_elected[block] = false);
        loop {
            let mut changed = false;
            for &(from, to, by_one) in &self.edges {
                if !by_one && !is_elected[from] && is_elected.get(to).copied().unwrap_or(false) {
                    is_elected[to] = false;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let block_at = |statement: usize| self.starts.partition_point(|&start| start <= statement) - 1;
        (0..self.statements).map(|statement| is_elected[block_at(statement)]).collect()
    }
}

/// Returns whether control may leave a block after an instruction.
fn ends_block(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Bra | Opcode::BrxIdx | Opcode::Ret | Opcode::Exit)
}
