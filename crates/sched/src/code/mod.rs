//! What a scheduler sees of code: items that touch registers, keep an order among themselves, and execute on a unit.
//!
//! This is the neutral form between those who have code and those who order it. Builders make it from Ori before register allocation
//! ([`from_ir`], values), from Ori afterwards, and from decoded machine code ([`from_machine`], physical registers). Graph, checker and
//! backends know nothing else.
//!
//! **Registers** are dense numbers. A *group* is what lives and dies together: a value of four registers, or one physical register.
//!
//! **Walls** ([`Effect::Wall`]) are never moved and nothing moves past them: calls, branches, whatever hands over registers that are not
//! among its operands. They cut a block into regions, and only regions are scheduled.

mod effect;
pub mod from_ir;
pub mod from_machine;

use std::borrow::Cow;
use std::ops::Range;

use oriole_hardware::{Class, Port};
use oriole_isa::{File, Opcode};

pub use effect::special_register_is_fixed;

/// A register that an item reads or writes, and by which port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Touch {
    /// The register.
    pub register: u32,
    /// Its file.
    pub file: File,
    /// The port; none for what is no machine instruction, or where the file has no latencies.
    pub port: Option<Port>,
    /// The source through which a physical register comes from its bank at issue; none for what is written, for values that have no
    /// place yet, for addresses and for what memory instructions read later.
    pub slot: Option<u8>,
}

/// What two accesses of memory may have in common.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Space {
    /// Any of global, shared and local memory.
    Generic,
    /// Global memory; textures and surfaces lie there too.
    Global,
    /// Shared memory.
    Shared,
    /// Variables in local memory.
    Local,
    /// What the allocator spilled: no pointer leads there.
    Spill,
}

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AccessKind {
    /// Reads.
    Read,
    /// Writes, or reads and writes.
    Write,
    /// Reads what nobody writes while the kernel runs.
    ReadConstant,
}

/// An access of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// What it does.
    pub kind: AccessKind,
    /// Where.
    pub space: Space,
    /// Relaxed, volatile or atomic: keeps its order with others of this kind.
    pub strong: bool,
    /// The address, where it is known.
    pub address: Option<Address>,
}

/// An address: registers, and what is added to them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Address {
    /// Registers of the address: the first of [`Code::address_registers`] and how many.
    pub first_register: u32,
    /// How many registers.
    pub register_count: u16,
    /// Bytes that are accessed.
    pub bytes: u16,
    /// What else belongs to the base: symbols, how registers are extended.
    pub form: u64,
    /// Bytes from the base.
    pub offset: i64,
}

/// How an item is ordered beyond registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Not at all.
    None,
    /// As the accesses of memory that may meet it.
    Access(Access),
    /// Reads a clock or a counter: in order with others and with strong accesses.
    Clock,
    /// All accesses of memory stay on their side.
    Fence,
    /// All accesses of memory and all that needs the threads of the warp stay on their side.
    Sync,
    /// Nothing moves past it.
    Wall,
}

/// One instruction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// Its class in the hardware model.
    pub class: Class,
    /// The machine instruction; none for a pseudo operation, which takes no time.
    pub opcode: Option<Opcode>,
    /// Where a guard does not hold, results keep what they had.
    pub guarded: bool,
    /// Which threads execute it together matters: shuffles, votes, whatever touches uniform registers, which diverged threads share.
    pub converged: bool,
    /// Its order beyond registers.
    pub effect: Effect,
    first_touch: u32,
    reads: u16,
    writes: u16,
    first_group: u32,
    read_groups: u16,
    written_groups: u16,
}

/// Kinds of registers whose number is limited, in the order in which schedulers compare them.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RegisterClass {
    /// R.
    General,
    /// P.
    Predicate,
    /// UP. The description has address registers here, which no machine since sm_70 has.
    UniformPredicate,
    /// UR.
    Uniform,
}

/// Number of [`RegisterClass`]es.
pub const REGISTER_CLASSES: usize = 4;

impl RegisterClass {
    /// That of a file.
    pub fn of(file: File) -> Option<RegisterClass> {
        match file {
            File::General => Some(RegisterClass::General),
            File::Predicate => Some(RegisterClass::Predicate),
            File::UniformPredicate => Some(RegisterClass::UniformPredicate),
            File::Uniform => Some(RegisterClass::Uniform),
            _ => None,
        }
    }
}

/// Registers that live and die together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Their kind; none if they are not counted.
    pub class: Option<RegisterClass>,
    /// How many.
    pub weight: u8,
}

/// Code in its order: a block, or many.
#[derive(Clone, Default, Debug)]
pub struct Code {
    /// The items.
    pub items: Vec<Item>,
    /// Registers of addresses.
    pub address_registers: Vec<u32>,
    /// Calls whose time is known: position and cycles until they return, by position.
    pub calls: Vec<(u32, u32)>,
    touches: Vec<Touch>,
    item_groups: Vec<u32>,
    groups: Cow<'static, [Group]>,
    registers: u32,
}

/// What is known of an item before it is part of the code.
#[derive(Clone, Debug)]
pub struct NewItem<'a> {
    /// Its class.
    pub class: Class,
    /// The machine instruction, if it is one.
    pub opcode: Option<Opcode>,
    /// Whether results keep what they had where a guard does not hold.
    pub guarded: bool,
    /// Whether it matters who executes it together.
    pub converged: bool,
    /// Its order beyond registers.
    pub effect: Effect,
    /// What it reads.
    pub reads: &'a [Touch],
    /// What it writes.
    pub writes: &'a [Touch],
}

impl Code {
    /// No code yet, on so many registers; `group_of` is asked for each register by [`Code::push`].
    pub fn new(registers: u32, groups: impl Into<Cow<'static, [Group]>>) -> Code {
        Code { registers, groups: groups.into(), ..Code::default() }
    }

    /// How many registers there are.
    pub fn registers(&self) -> usize {
        self.registers as usize
    }

    /// All groups.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// Adds an item. `group_of` says which group a register is of.
    pub fn push(&mut self, new: &NewItem<'_>, group_of: impl Fn(u32) -> u32) {
        let first_touch = self.touches.len() as u32;
        self.touches.extend_from_slice(new.reads);
        self.touches.extend_from_slice(new.writes);
        let first_group = self.item_groups.len();
        let read_groups = self.add_groups(new.reads, &group_of);
        let written_groups = self.add_groups(new.writes, &group_of);
        self.items.push(Item {
            class: new.class,
            opcode: new.opcode,
            guarded: new.guarded,
            converged: new.converged,
            effect: new.effect,
            first_touch,
            reads: new.reads.len() as u16,
            writes: new.writes.len() as u16,
            first_group: first_group as u32,
            read_groups,
            written_groups,
        });
    }

    fn add_groups(&mut self, touches: &[Touch], group_of: &impl Fn(u32) -> u32) -> u16 {
        let start = self.item_groups.len();
        for touch in touches {
            let group = group_of(touch.register);
            if !self.item_groups[start..].contains(&group) {
                self.item_groups.push(group);
            }
        }
        (self.item_groups.len() - start) as u16
    }

    /// What an item reads.
    pub fn reads(&self, item: &Item) -> &[Touch] {
        let start = item.first_touch as usize;
        &self.touches[start..start + usize::from(item.reads)]
    }

    /// What an item writes.
    pub fn writes(&self, item: &Item) -> &[Touch] {
        let start = item.first_touch as usize + usize::from(item.reads);
        &self.touches[start..start + usize::from(item.writes)]
    }

    /// The groups that an item reads, each once.
    pub fn read_groups(&self, item: &Item) -> &[u32] {
        let start = item.first_group as usize;
        &self.item_groups[start..start + usize::from(item.read_groups)]
    }

    /// The groups that an item writes, each once.
    pub fn written_groups(&self, item: &Item) -> &[u32] {
        let start = item.first_group as usize + usize::from(item.read_groups);
        &self.item_groups[start..start + usize::from(item.written_groups)]
    }

    /// The registers of an address.
    pub fn address_registers(&self, address: &Address) -> &[u32] {
        let start = address.first_register as usize;
        &self.address_registers[start..start + usize::from(address.register_count)]
    }

    /// Whether an item writes what another reads.
    pub fn writes_for(&self, item: &Item, reader: &Item) -> bool {
        let reads = self.reads(reader);
        self.writes(item).iter().any(|write| reads.iter().any(|read| read.register == write.register))
    }

    /// Cycles until the call at a position returns; none if nothing is known, or it is no call.
    pub fn call_cycles(&self, position: usize) -> Option<u32> {
        let found = self.calls.binary_search_by_key(&(position as u32), |call| call.0).ok()?;
        Some(self.calls[found].1)
    }

    /// Runs of items between walls, none longer than `longest`.
    pub fn regions(&self, within: Range<usize>, longest: usize) -> Vec<Range<usize>> {
        let mut regions = Vec::new();
        let mut start = within.start;
        for position in within.clone() {
            let is_wall = self.items[position].effect == Effect::Wall;
            if is_wall || position - start == longest {
                if position > start {
                    regions.push(start..position);
                }
                start = if is_wall { position + 1 } else { position };
            }
        }
        if within.end > start {
            regions.push(start..within.end);
        }
        regions
    }
}
