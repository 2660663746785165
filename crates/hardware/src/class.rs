//! Which scheduling class an instruction is of: decided by its mnemonic and modifiers alone, so that it can be asked before registers
//! are known, once for each instruction.

use oriole_isa::{File, Instruction, Opcode, Symbol};

use crate::built_in;
use crate::rate::ThroughputClass;
use crate::tables::{ClassRow, ClassTable};
use crate::units::Unit;

/// A scheduling class.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Class(pub(crate) u8);

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
        file_index(file).and_then(|file| Classes::get().table.ports[file].get(usize::from(self.0))).map_or("?", |name| *name)
    }
}

/// A class and the modifiers that an instruction must have for it.
pub(crate) type OpcodeRule = (&'static [Symbol], Class);

/// All classes and the rules that lead to them: constants that the build makes of `data/classes.tbl`.
#[derive(Debug)]
pub struct Classes {
    pub(crate) table: ClassTable,
    /// For each opcode, its rules in order; the last has no modifiers.
    pub(crate) rules: &'static [&'static [OpcodeRule]],
    /// Of predicates and of uniform predicates.
    pub(crate) guards: [Port; 2],
    /// For each class the group that finishes in order.
    pub(crate) orders: &'static [Option<u8>],
    /// For each class the group that reads its sources in order.
    pub(crate) queues: &'static [Option<u8>],
    /// For each class the unit that it executes on.
    pub(crate) units: &'static [Unit],
    /// For each class the rate at which that unit takes it.
    pub(crate) rates: &'static [ThroughputClass],
}

impl Classes {
    /// The classes of all targets.
    pub fn get() -> &'static Classes {
        &built_in::CLASSES
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
        let rules = self.rules[opcode as usize];
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
        self.row().name
    }

    /// Its row of the table.
    pub fn row(self) -> &'static ClassRow {
        &Classes::get().table.classes[self.index()]
    }

    /// An attribute of its row: `unit`, `rate`, `pipe` and so on.
    pub fn attribute(self, key: &str) -> Option<&'static str> {
        self.row().attribute(key)
    }

    /// The unit that it executes on.
    #[inline]
    pub fn unit(self) -> Unit {
        Classes::get().units[self.index()]
    }

    /// The rate at which that unit takes it.
    #[inline]
    pub fn throughput(self) -> ThroughputClass {
        Classes::get().rates[self.index()]
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
