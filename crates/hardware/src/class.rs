//! Which scheduling class an instruction is of: decided by its mnemonic and modifiers alone, so that it can be asked before registers
//! are known, once for each instruction.

use std::sync::OnceLock;

use oriole_isa::{File, Instruction, Opcode, Symbol};

use crate::tables::{ClassRow, ClassTable, GUARD};

const TABLE: &str = include_str!("../data/classes.tbl");

/// A scheduling class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class(u8);

/// A place with its own timing where a register is written or read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Port(pub(crate) u8);

impl Port {
    /// Dense, from 0, among the ports of a file; less than 32.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Its name in the table, among those of a file.
    pub fn name(self, file: File) -> &'static str {
        file_index(file).and_then(|file| Classes::get().table.ports[file].get(usize::from(self.0))).map_or("?", String::as_str)
    }
}

/// All classes and the rules that lead to them.
#[derive(Debug)]
pub struct Classes {
    table: ClassTable,
    /// For each opcode, its rules in order; the last has no modifiers.
    rules: Vec<Vec<(Vec<Symbol>, Class)>>,
    /// Of predicates and of uniform predicates.
    guards: [Port; 2],
    /// For each class the group that finishes in order.
    orders: Vec<Option<u8>>,
    /// For each class the group that reads its sources in order.
    queues: Vec<Option<u8>>,
}

impl Classes {
    /// The classes of all targets.
    pub fn get() -> &'static Classes {
        static CLASSES: OnceLock<Classes> = OnceLock::new();
        CLASSES.get_or_init(|| {
            let table =
                ClassTable::parse("classes.tbl", TABLE).unwrap_or_else(|error| unreachable!("the build checked this table: {error}"));
            let mut rules = vec![Vec::new(); Opcode::all().count()];
            for rule in &table.rules {
                let symbols: Option<Vec<Symbol>> = rule.modifiers.iter().map(|name| Symbol::find(name)).collect();
                if let (Some(opcode), Some(symbols)) = (Opcode::find(&rule.mnemonic), symbols) {
                    rules[opcode as usize].push((symbols, Class(rule.class as u8)));
                }
            }
            let guard = |file: usize| Port(table.port(file, GUARD).unwrap_or_default());
            let guards = [guard(1), guard(3)];
            let (orders, queues) = (groups(&table, "order"), groups(&table, "queue"));
            Classes { table, rules, guards, orders, queues }
        })
    }

    /// The table they come from.
    pub fn table(&self) -> &ClassTable {
        &self.table
    }

    /// Every class.
    pub fn all(&self) -> impl Iterator<Item = Class> + use<> {
        (0..self.table.classes.len()).map(|index| Class(index as u8))
    }

    /// The class of a mnemonic with these modifiers.
    pub fn of(&self, opcode: Opcode, modifiers: &[Symbol]) -> Class {
        let rules = &self.rules[opcode as usize];
        match rules {
            rules if rules.len() == 1 => rules[0].1,
            rules => {
                rules.iter().find(|(needed, _)| needed.iter().all(|symbol| modifiers.contains(symbol))).map_or(rules[0].1, |rule| rule.1)
            }
        }
    }

    /// The port by which guards enter.
    pub fn guard_port(&self, uniform: bool) -> Port {
        self.guards[usize::from(uniform)]
    }

    /// The class of this name.
    pub fn find(&self, name: &str) -> Option<Class> {
        self.table.class_index(name).map(|index| Class(index as u8))
    }
}

impl Class {
    /// The class of an instruction.
    pub fn of(instruction: &Instruction) -> Class {
        Classes::get().of(instruction.opcode, &instruction.modifiers)
    }

    /// Dense, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        &self.row().name
    }

    /// Its row of the table.
    pub fn row(self) -> &'static ClassRow {
        &Classes::get().table.classes[self.index()]
    }

    /// An attribute of its row: `unit`, `rate`, `pipe` and so on.
    pub fn attribute(self, key: &str) -> Option<&'static str> {
        self.row().attributes.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    /// The group of instructions that finish in the order of issue.
    pub fn order(self) -> Option<u8> {
        Classes::get().orders[self.index()]
    }

    /// The group of instructions that read their sources in the order of issue.
    pub fn queue(self) -> Option<u8> {
        Classes::get().queues[self.index()]
    }

    /// The port by which register number `part` of a result leaves; none if the class writes no such file.
    pub fn write_port(self, file: File, part: usize) -> Option<Port> {
        let ports = &self.row().writes[file_index(file)?];
        ports.get(part).or(ports.last()).map(|&port| Port(port))
    }

    /// The port by which register number `part` of source number `slot` enters; none if the class reads no such file.
    pub fn read_port(self, file: File, slot: usize, part: usize) -> Option<Port> {
        let slots = &self.row().reads[file_index(file)?];
        let ports = slots.get(slot).or(slots.last())?;
        ports.get(part).or(ports.last()).map(|&port| Port(port))
    }
}

/// Numbers for the groups that the classes name by an attribute.
fn groups(table: &ClassTable, attribute: &str) -> Vec<Option<u8>> {
    let mut names: Vec<&str> = Vec::new();
    let group = |row: &ClassRow| row.attributes.iter().find(|(key, _)| key == attribute).map(|(_, name)| name.clone());
    let groups: Vec<Option<String>> = table.classes.iter().map(group).collect();
    let mut numbers = Vec::new();
    for name in &groups {
        numbers.push(name.as_deref().map(|name| {
            let known = names.iter().position(|other| *other == name);
            known.unwrap_or_else(|| {
                names.push(name);
                names.len() - 1
            }) as u8
        }));
    }
    numbers
}

/// The index of a file among those that have grids.
pub fn file_index(file: File) -> Option<usize> {
    match file {
        File::General => Some(0),
        File::Predicate => Some(1),
        File::Uniform => Some(2),
        File::UniformPredicate => Some(3),
        _ => None,
    }
}
