//! Maps instructions to scheduling classes.
//!
//! A class is a set of instructions with the same timing. The mnemonic and the modifiers alone determine it, so the class is known before
//! registers are allocated and is looked up once per instruction.

use oriole_isa::{Instruction, Opcode, RegFile, Symbol};

use crate::built_in;
use crate::rate::ThroughputClass;
use crate::tables::{ClassRow, ClassTable};
use crate::units::Unit;

/// A scheduling class, as an index into the class table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SchedClass(pub(crate) u8);

/// A port: a point with its own timing at which a register is read or written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Port(pub(crate) u8);

impl Port {
    /// Returns the dense index among the ports of a register file, from 0, less than 32.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the name in the class table, for a port of the register file `file`.
    pub fn name(self, file: RegFile) -> &'static str {
        file_index(file).and_then(|file| Classes::get().table.ports[file].get(usize::from(self.0))).map_or("?", |name| *name)
    }
}

/// The modifiers that an instruction must have, and its class.
pub(crate) type OpcodeRule = (&'static [Symbol], SchedClass);

/// All classes, and the rules that map instructions to them. The build script makes these constants from `data/classes.tbl`.
#[derive(Debug)]
pub struct Classes {
    pub(crate) table: ClassTable,
    /// For each opcode, its rules in order. The last rule requires no modifiers.
    pub(crate) rules: &'static [&'static [OpcodeRule]],
    /// Ports of guards: for predicates, and for uniform predicates.
    pub(crate) guards: [Port; 2],
    /// For each class, the group whose instructions finish in issue order; see [`SchedClass::order`].
    pub(crate) orders: &'static [Option<u8>],
    /// For each class, the group whose instructions read their sources in issue order; see [`SchedClass::queue`].
    pub(crate) queues: &'static [Option<u8>],
    /// For each class, the unit that executes it.
    pub(crate) units: &'static [Unit],
    /// For each class, its issue rate.
    pub(crate) rates: &'static [ThroughputClass],
}

impl Classes {
    /// Returns the classes, which are the same for all targets.
    pub fn get() -> &'static Classes {
        &built_in::CLASSES
    }

    /// Returns the class table.
    pub fn table(&self) -> &ClassTable {
        &self.table
    }

    /// Returns all classes.
    pub fn all(&self) -> impl Iterator<Item = SchedClass> + use<> {
        (0..self.table.classes.len()).map(|index| SchedClass(index as u8))
    }

    /// Returns the class of an opcode with these modifiers: that of the first rule whose modifiers are all present.
    #[inline]
    pub fn of(&self, opcode: Opcode, modifiers: &[Symbol]) -> SchedClass {
        let rules = self.rules[opcode as usize];
        match rules {
            rules if rules.len() == 1 => rules[0].1,
            rules => {
                rules.iter().find(|(needed, _)| needed.iter().all(|symbol| modifiers.contains(symbol))).map_or(rules[0].1, |rule| rule.1)
            }
        }
    }

    /// Returns the port by which guards are read.
    pub fn guard_port(&self, uniform: bool) -> Port {
        self.guards[usize::from(uniform)]
    }

    /// Returns the class with a name.
    pub fn find(&self, name: &str) -> Option<SchedClass> {
        self.table.class_index(name).map(|index| SchedClass(index as u8))
    }
}

impl SchedClass {
    /// Returns the class of an instruction.
    #[inline]
    pub fn of(instruction: &Instruction) -> SchedClass {
        Classes::get().of(instruction.opcode, &instruction.modifiers)
    }

    /// Returns the dense index, from 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// Returns the name in the class table.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Returns the row of the class table.
    #[inline]
    pub fn row(self) -> &'static ClassRow {
        &Classes::get().table.classes[self.index()]
    }

    /// Returns the value of a column of the class table: `unit`, `rate`, `pipe` and so on.
    pub fn attribute(self, key: &str) -> Option<&'static str> {
        self.row().attribute(key)
    }

    /// Returns the unit that executes the class.
    #[inline]
    pub fn unit(self) -> Unit {
        Classes::get().units[self.index()]
    }

    /// Returns the issue rate.
    #[inline]
    pub fn throughput(self) -> ThroughputClass {
        Classes::get().rates[self.index()]
    }

    /// Returns the group of classes whose instructions finish in issue order, or `None`. Within a group, waiting for one instruction
    /// implies that all earlier ones are done.
    pub fn order(self) -> Option<u8> {
        Classes::get().orders[self.index()]
    }

    /// Returns the group of classes whose instructions read their sources in issue order, or `None`. Within a group, a later instruction
    /// may overwrite a source of an earlier one without waiting.
    pub fn queue(self) -> Option<u8> {
        Classes::get().queues[self.index()]
    }

    /// Returns the port by which register number `part` of a result is written, or `None` if the class writes no register of this file.
    #[inline]
    pub fn write_port(self, file: RegFile, part: usize) -> Option<Port> {
        let ports = &self.row().writes[file_index(file)?];
        ports.get(part).or(ports.last()).map(|&port| Port(port))
    }

    /// Returns the port by which register number `part` of source number `slot` is read, or `None` if the class reads no register of this
    /// file.
    #[inline]
    pub fn read_port(self, file: RegFile, slot: usize, part: usize) -> Option<Port> {
        let slots = &self.row().reads[file_index(file)?];
        let ports = slots.get(slot).or(slots.last())?;
        ports.get(part).or(ports.last()).map(|&port| Port(port))
    }
}

/// Returns the index of a register file among those that have latency grids.
#[inline]
pub fn file_index(file: RegFile) -> Option<usize> {
    match file {
        RegFile::General => Some(0),
        RegFile::Predicate => Some(1),
        RegFile::Uniform => Some(2),
        RegFile::UniformPredicate => Some(3),
        _ => None,
    }
}
