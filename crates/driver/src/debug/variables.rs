//! Finds the PTX registers that hold source variables according to DWARF, and keeps them readable for debuggers.
//!
//! A debugger shows a variable as long as a machine register holds its value. After the last use of the value its register is reused, so
//! the variable would disappear in the middle of its scope. With full debug information, [`keep_variables_readable`] extends the live
//! ranges of the PTX registers to the statements for which DWARF names them.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, OperandKind, Pseudo, Value};
use oriole_isa::Symbols;
use oriole_ptx::ast::{Body, DwarfItem, FunctionId, Item, Module, RegisterId, Statement};
use oriole_support::{BitSet, Index, Name, define_index};
use rustc_hash::{FxHashMap, FxHashSet};

use super::location_lists::{self, LocationListEntry, RegisterAlias};
use super::registers::register_name;

/// The DWARF operator of a location in a register.
const DW_OP_REGX: u8 = 0x90;

/// The part of a function in which DWARF names a PTX register as the location of a variable. Statements are numbered as in
/// [`Location::statement`](oriole_ir::Location::statement).
#[derive(Clone, Default, Debug)]
pub struct VariableScope {
    /// Whether DWARF names the PTX register for the whole function.
    is_whole: bool,
    /// Ranges of statements for which DWARF names the PTX register, as (first statement, first statement after the range).
    ranges: Vec<(u32, u32)>,
    /// Further statements at which the PTX register holds a variable, although a location list names another register.
    statements: FxHashSet<u32>,
}

/// The PTX registers of a function that DWARF names as locations of variables.
#[derive(Clone, Default, Debug)]
pub struct FunctionVariables {
    /// For each name of a PTX register, the part of the function in which it is the location of a variable.
    scopes: FxHashMap<String, VariableScope>,
    /// For each variable with a location list: the entries of the list, which name PTX registers.
    lists: Vec<Vec<LocationListEntry<String>>>,
}

/// For each function: the PTX registers that DWARF names as locations of variables.
pub type VariableRegisters = FxHashMap<FunctionId, FunctionVariables>;

/// Size of an address in bytes.
const ADDRESS_BYTES: usize = 8;

/// Name of the section with location lists.
const LOCATION_LISTS_SECTION: &str = ".debug_loc";

/// Collects the PTX registers that the debug sections of a module name as locations of variables.
///
/// The sections are not parsed: every `DW_OP_regx` byte that is followed by a register name counts. A byte that has this value by chance
/// only extends a live range. A location belongs to the function of the last code label before it, since the DWARF entry of a function
/// starts with the label of its first instruction. In location lists, the two labels before a location are its range.
pub fn variable_registers(module: &Module) -> VariableRegisters {
    let mut labels: FxHashMap<Name, (FunctionId, u32)> = FxHashMap::default();
    for (id, function) in module.functions.iter_enumerated() {
        for (label, statement) in function.body.iter().flat_map(|body| label_statements(body)) {
            labels.entry(label).or_insert((id, statement));
        }
    }
    let mut found = VariableRegisters::default();
    for item in &module.items {
        let Item::Section(section) = item else { continue };
        let has_ranges = &*section.name == LOCATION_LISTS_SECTION;
        let mut data = &section.data[..];
        let (mut previous, mut last) = (None, None);
        let mut list: Vec<LocationListEntry<String>> = Vec::new();
        for item in &section.items {
            match *item {
                DwarfItem::Label64(_, name, _) => {
                    if let Some(&label) = labels.get(&name) {
                        (previous, last) = (last, Some(label));
                    }
                }
                DwarfItem::Integers(bytes, count) => {
                    let (now, rest) = data.split_at((usize::from(bytes) * count as usize).min(data.len()));
                    data = rest;
                    let Some((id, end)) = last else { continue };
                    let variables = found.entry(id).or_default();
                    for register in register_locations(now) {
                        let scope = variables.scopes.entry(register.clone()).or_default();
                        match previous {
                            Some((other, start)) if has_ranges && other == id => {
                                scope.ranges.push((start, end));
                                list.push(LocationListEntry { register, start, end });
                            }
                            _ => scope.is_whole = true,
                        }
                    }
                    // Two addresses of 0 end a location list.
                    if has_ranges && usize::from(bytes) == ADDRESS_BYTES && !list.is_empty() {
                        variables.lists.push(std::mem::take(&mut list));
                    }
                }
                DwarfItem::Label(_) | DwarfItem::Difference(..) => {}
            }
        }
    }
    found
}

/// Returns each label of a function body with the number of the next statement that has an instruction.
fn label_statements(body: &Body) -> Vec<(Name, u32)> {
    let mut found = Vec::new();
    let mut next = u32::MAX;
    for (number, statement) in body.statements.iter().enumerate().rev() {
        match *statement {
            Statement::Instruction(_) => next = body.position(number).map_or(next, |span| span.start + 1),
            Statement::Label(label) => found.push((body.labels[label].name, next)),
            _ => {}
        }
    }
    found
}

impl FunctionVariables {
    /// Returns whether no PTX register is the location of a variable.
    pub fn is_empty(&self) -> bool {
        self.scopes.is_empty()
    }

    /// Returns the location lists with register ids instead of names, each sorted by statement. `named` maps the names of the function's
    /// PTX registers to their ids. Lists with a register that the function does not have are left out.
    fn resolved_location_lists(&self, named: &FxHashMap<String, RegisterId>) -> Vec<Vec<LocationListEntry<RegisterId>>> {
        let resolve = |list: &Vec<LocationListEntry<String>>| {
            let entry = |entry: &LocationListEntry<String>| {
                Some(LocationListEntry { register: *named.get(&entry.register)?, start: entry.start, end: entry.end })
            };
            let mut entries: Vec<LocationListEntry<RegisterId>> = list.iter().map(entry).collect::<Option<_>>()?;
            entries.sort_by_key(|entry| entry.start);
            Some(entries)
        };
        self.lists.iter().filter_map(resolve).collect()
    }
}

impl VariableScope {
    /// Returns whether the register is the location of a variable at a statement.
    fn contains(&self, statement: u32) -> bool {
        self.is_whole
            || self.statements.contains(&statement)
            || self.ranges.iter().any(|&(start, end)| start <= statement && statement < end)
    }
}

/// Returns the names of PTX registers that follow `DW_OP_regx` bytes.
fn register_locations(bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    let operators = bytes.iter().enumerate().filter(|&(_, &byte)| byte == DW_OP_REGX);
    operators.filter_map(|(at, _)| decode_register_name(&bytes[at + 1..]))
}

/// Decodes a register number: an unsigned LEB128 number whose bytes, highest first, are the characters of the register's name. Returns
/// `None` if the bytes are not a name.
fn decode_register_name(bytes: &[u8]) -> Option<String> {
    let mut number = 0_u128;
    for (position, &byte) in bytes.iter().enumerate() {
        let shift = 7 * position as u32;
        if shift > u128::BITS - 7 {
            return None;
        }
        number |= u128::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let name: Vec<u8> = number.to_be_bytes().into_iter().skip_while(|&byte| byte == 0).collect();
    let is_name = name.len() > 1 && name.iter().all(u8::is_ascii_graphic);
    is_name.then(|| String::from_utf8(name).ok()).flatten()
}

/// Inserts pseudo operations that extend the live ranges of variables to all statements of their scopes. `registers` has the value of each
/// PTX register, `variables` are the registers that hold variables. The function is not in SSA form yet.
///
/// A variable is kept only where it has been assigned on all paths, because elsewhere it has no value. Returns the statements at which
/// location lists name a register that does not hold the variable.
pub fn keep_variables_readable(
    function: &mut Function,
    module: &Module,
    id: FunctionId,
    registers: &FxHashMap<RegisterId, Value>,
    variables: &FunctionVariables,
) -> Vec<RegisterAlias> {
    let Some(body) = module.functions[id].body.as_deref() else { return Vec::new() };
    let named: FxHashMap<String, RegisterId> =
        registers.keys().map(|&register| (register_name(module, body, register), register)).collect();
    let flow = ControlFlow::compute(function);
    let aliases = location_lists::find_register_aliases(function, &flow, &variables.resolved_location_lists(&named));
    let scope = |(name, register): (&String, &RegisterId)| Some((*register, variables.scopes.get(name)?.clone()));
    let mut scopes: FxHashMap<RegisterId, VariableScope> = named.iter().filter_map(scope).collect();
    for alias in &aliases {
        scopes.entry(alias.holder).or_default().statements.insert(alias.statement);
    }
    let mut kept: Vec<(RegisterId, Value, &VariableScope)> =
        registers.iter().filter_map(|(&register, &value)| Some((register, value, scopes.get(&register)?))).collect();
    kept.sort_unstable_by_key(|(register, ..)| register.position());
    let variables: Vec<(Value, &VariableScope)> = kept.into_iter().map(|(_, value, scope)| (value, scope)).collect();
    let keeper = KeepFinder::new(function, &flow, &variables);
    for &block in flow.reverse_post_order() {
        let inserted = keeper.keep_points(function, &flow, block);
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut extended: Vec<Inst> = Vec::with_capacity(insts.len() + inserted.len());
        let mut inserted = inserted.into_iter().peekable();
        for (position, inst) in insts.into_iter().enumerate() {
            while let Some((_, variable)) = inserted.next_if(|(before, _)| *before == position) {
                // Each value gets its own `KEEP` (a pseudo operation that extends live ranges), so that the values need not be in registers
                // at the same time.
                let operand = Operand::new(OperandKind::Value(function.whole(variables[variable.position()].0)));
                let keep = function.new_inst(Op::Pseudo(Pseudo::Keep), Symbols::new(), None, &[operand], 0);
                function.insts[keep].location = function.insts[inst].location;
                extended.push(keep);
            }
            extended.push(inst);
        }
        function.blocks[block].insts = extended;
    }
    aliases
}

define_index!(
    /// The number of a variable: its index in the list of variables of [`KeepFinder`].
    pub struct DebugVariableId,
    "v"
);

/// Finds the points at which a `KEEP` (a pseudo operation that reads a value) has to be inserted, so that variables stay in registers to
/// the end of their scopes.
struct KeepFinder<'a> {
    /// The variables, each with the value of its PTX register and the statements for which DWARF names it.
    variables: &'a [(Value, &'a VariableScope)],
    /// For the value of each variable's PTX register: the number of the variable.
    numbers: FxHashMap<Value, DebugVariableId>,
    /// For each block: the variables that are assigned on all paths to its start.
    assigned: Vec<BitSet<DebugVariableId>>,
    /// For each block: the number of its first statement; 0 if it has none.
    first_statements: Vec<u32>,
}

impl<'a> KeepFinder<'a> {
    /// Numbers the variables, and computes for each block the variables that are assigned on all paths to its start.
    fn new(function: &Function, flow: &ControlFlow, variables: &'a [(Value, &'a VariableScope)]) -> KeepFinder<'a> {
        let numbers: FxHashMap<Value, DebugVariableId> =
            variables.iter().enumerate().map(|(number, &(value, _))| (value, DebugVariableId::new(number))).collect();
        let statement = |inst: &Inst| Some(function.insts[*inst].location.statement).filter(|&statement| statement != 0);
        let first_statements = function.blocks.iter().map(|block| block.insts.iter().find_map(statement).unwrap_or(0)).collect();
        let mut keeper = KeepFinder { variables, numbers, assigned: Vec::new(), first_statements };
        keeper.assigned = keeper.assigned_at_block_starts(function, flow);
        keeper
    }

    /// Returns, for each block, the variables that are assigned on all paths to its start.
    fn assigned_at_block_starts(&self, function: &Function, flow: &ControlFlow) -> Vec<BitSet<DebugVariableId>> {
        let none = BitSet::new(self.variables.len());
        let mut all = none.clone();
        (0..self.variables.len()).for_each(|number| {
            all.insert(DebugVariableId::new(number));
        });
        let mut starts = vec![all.clone(); function.blocks.len()];
        let mut ends = vec![all; function.blocks.len()];
        let mut is_stable = false;
        while !is_stable {
            is_stable = true;
            for &block in flow.reverse_post_order() {
                let mut start = if block == function.entry() { none.clone() } else { starts[block.position()].clone() };
                for &from in flow.predecessors(block) {
                    let lost: Vec<DebugVariableId> = start.iter().filter(|&number| !ends[from.position()].contains(number)).collect();
                    lost.into_iter().for_each(|number| {
                        start.remove(number);
                    });
                }
                let mut end = start.clone();
                function.blocks[block].insts.iter().for_each(|&inst| self.add_assigned(function, inst, &mut end));
                is_stable &= end.count() == ends[block.position()].count();
                (starts[block.position()], ends[block.position()]) = (start, end);
            }
        }
        starts
    }

    /// Adds to the set `assigned` the variables that an instruction assigns, unless it has a guard.
    fn add_assigned(&self, function: &Function, inst: Inst, assigned: &mut BitSet<DebugVariableId>) {
        // With a guard, some threads may not execute the assignment.
        if function.insts[inst].guard.is_none() {
            self.assigned_variables(function, inst).for_each(|number| {
                assigned.insert(number);
            });
        }
    }

    /// Returns the variables that an instruction assigns.
    fn assigned_variables(&self, function: &Function, inst: Inst) -> impl Iterator<Item = DebugVariableId> {
        function.results(inst).iter().filter_map(|operand| self.numbers.get(&operand.value()?).copied())
    }

    /// Returns the points of a block at which a `KEEP` (a pseudo operation that reads a value) is needed: pairs of a position, before which
    /// it is inserted, and a variable; sorted by position.
    fn keep_points(&self, function: &Function, flow: &ControlFlow, block: Block) -> Vec<(usize, DebugVariableId)> {
        let insts = &function.blocks[block].insts;
        let terminators = insts.len() - function.terminators(block).len();
        let end = position_of_final_keep(function, insts);
        let mut found = Vec::new();
        let mut assigned = self.assigned[block.position()].clone();
        let named_at = |statement: u32, assigned: &BitSet<DebugVariableId>| -> Vec<DebugVariableId> {
            assigned.iter().filter(|number| self.variables[number.position()].1.contains(statement)).collect()
        };
        // `statement` is that of the previous instruction, and `named` has the variables that DWARF names at it. Before the first statement
        // of the block, `named` has the variables of the first statement.
        let (mut statement, mut named) = (0, named_at(self.first_statements[block.position()], &assigned));
        for (position, &inst) in insts.iter().enumerate() {
            let here = function.insts[inst].location.statement;
            if here != 0 && here != statement {
                // A new statement starts. Variables that it assigns, or whose scope ends before it, stay live up to here.
                let of_statement =
                    insts[position..].iter().take_while(|&&inst| [0, here].contains(&function.insts[inst].location.statement));
                let changed: FxHashSet<DebugVariableId> = of_statement.flat_map(|&inst| self.assigned_variables(function, inst)).collect();
                let is_last = |number: &DebugVariableId| changed.contains(number) || !self.variables[number.position()].1.contains(here);
                found.extend(named.iter().filter(|number| is_last(number)).map(|&number| (position, number)));
                statement = here;
                named = named_at(here, &assigned);
            }
            if Some(position) == end || function.insts[inst].is_machine(Opcode::EXIT) {
                found.extend(named.iter().map(|&number| (position, number)));
            } else if position == terminators && end.is_none() {
                let leaves = |number: DebugVariableId, next: &Block| {
                    let first = self.first_statements[next.position()];
                    !self.assigned[next.position()].contains(number) || (first != 0 && !self.variables[number.position()].1.contains(first))
                };
                let is_left = |number: &&DebugVariableId| flow.successors(block).iter().any(|next| leaves(**number, next));
                found.extend(named.iter().filter(is_left).map(|&number| (position, number)));
            }
            self.add_assigned(function, inst, &mut assigned);
            if self.assigned_variables(function, inst).next().is_some() {
                named = named_at(statement, &assigned);
            }
        }
        found.sort_unstable();
        found.dedup();
        found
    }
}

/// Returns the position before which variables are kept in a block that returns: that of the `KEEP` (a pseudo operation) that reads the
/// function's results, because it must stay next to the return, or that of the return if there is no such `KEEP`. `None` for other blocks.
fn position_of_final_keep(function: &Function, insts: &[Inst]) -> Option<usize> {
    let at = insts.iter().position(|&inst| function.insts[inst].is_machine(Opcode::RET))?;
    let has_results = at > 0 && function.insts[insts[at - 1]].is(Pseudo::Keep);
    Some(if has_results { at - 1 } else { at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded() {
        // The name `%r1` as a number is 0x257231, which is 0xb1 0xe4 0x95 0x01 in LEB128.
        assert_eq!(decode_register_name(&[0xb1, 0xe4, 0x95, 0x01, 7]).as_deref(), Some("%r1"));
        assert_eq!(decode_register_name(&[0x01]), None);
        assert_eq!(decode_register_name(&[]), None);
        assert_eq!(decode_register_name(&[0xff; 40]), None);
        assert_eq!(register_locations(&[1, 0x90, 0xb2, 0xe4, 0x95, 0x01, 0x90]).collect::<Vec<_>>(), ["%r2"]);
    }
}
