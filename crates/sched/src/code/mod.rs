//! The scheduler's view of code: items with register accesses, ordering constraints and a timing class.
//!
//! [`SchedCode`] is the input of the dependency graph, the checker and the scheduling backends; none of them sees any other form of the
//! program. It is built from SSA values before register allocation and from physical registers afterwards ([`from_ir`]), and from decoded
//! machine code ([`from_machine`]).
//!
//! **Registers** are dense numbers. A *register group* is a set of registers with one live range: all registers of an SSA value, or one
//! physical register. Register pressure is counted by register group.
//!
//! **Scheduling barriers** ([`OrderEffect::SchedBarrier`]) are never moved, and no item moves across one. Calls, branches and every
//! instruction that passes registers outside its operand list are scheduling barriers. Scheduling barriers cut a block into regions
//! ([`SchedCode::regions`]); each region is scheduled separately.
//!
//! **Ordered registers** ([`SchedCode::ordered_registers`]) are registers that an item neither reads nor writes, but whose accesses must
//! not move across it. Fences and waits of asynchronous matrix products have them.

mod effect;
pub mod from_ir;
pub mod from_machine;
pub mod products;
mod value_numbers;

use std::borrow::Cow;
use std::ops::Range;

use oriole_hardware::{Port, SchedClass};
use oriole_isa::{Opcode, RegFile};

/// One access of an item to one register. The port says in which way the instruction accesses the register; latencies depend on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PortAccess {
    /// The register number; registers are numbered from 0 without gaps.
    pub register: u32,
    /// The register file that the register belongs to.
    pub file: RegFile,
    /// The way in which the instruction accesses the register: the row or column of this access in the latency tables. `None` for pseudo
    /// operations and for register files without latencies.
    pub port: Option<Port>,
    /// The operand slot (0 for the first source) if the register is read from its bank at issue. `None` for results, for virtual registers,
    /// for address registers, and for memory instructions, which read their sources later.
    pub slot: Option<u8>,
}

/// Memory space of an access, for alias analysis.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AliasSpace {
    /// Global, shared or local memory, not known which.
    Generic,
    /// Global memory, textures and surfaces included.
    Global,
    /// Shared memory.
    Shared,
    /// Local memory that holds variables.
    Local,
    /// Spill slots. No pointer can reach them, so they alias no other space.
    Spill,
}

/// Whether a memory access reads, writes, or reads memory that does not change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum MemAccessKind {
    /// Reads memory that may be written while the kernel runs.
    Read,
    /// Writes, or reads and writes.
    Write,
    /// Reads memory that is constant while the kernel runs.
    ReadConstant,
}

/// The memory access of an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemAccess {
    /// Whether the access reads, writes, or reads memory that does not change.
    pub kind: MemAccessKind,
    /// The memory space that is accessed.
    pub space: AliasSpace,
    /// Whether the access is relaxed, volatile or atomic. Strong accesses keep their order among each other.
    pub strong: bool,
    /// The address. `None` if it is unknown; the access then may alias every access of its space.
    pub address: Option<AccessAddress>,
}

/// The address of a memory access: a base (registers and the other parts that [`AccessAddress::form`] covers) plus a constant offset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AccessAddress {
    /// Index of the first base register in [`SchedCode::address_registers`].
    pub first_register: u32,
    /// Number of base registers.
    pub register_count: u16,
    /// Number of bytes accessed by each thread.
    pub bytes: u16,
    /// Hash of the address form: the parts of the base other than registers, such as symbols, and how each register is extended.
    pub form: u64,
    /// Constant offset from the base, in bytes.
    pub offset: i64,
}

/// The ordering constraint of an item in addition to register dependences.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OrderEffect {
    /// No constraint: only register dependences order the item.
    None,
    /// A memory access. Keeps its order with accesses that may alias it, if one of the two writes.
    Access(MemAccess),
    /// A read of a clock or counter. Keeps its order with other clock reads, strong accesses and fences.
    Clock,
    /// A fence. No memory access moves across it.
    Fence,
    /// A barrier between threads. No memory access and no item with [`Item::exchanges_lanes`] moves across it.
    Barrier,
    /// A point where threads may diverge or reconverge. No memory access and no item with [`Item::needs_convergence`] moves across it.
    Sync,
    /// A scheduling barrier. No item moves across it.
    SchedBarrier,
}

/// One instruction, as the scheduler sees it. Its register accesses are in the [`SchedCode`] that contains it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Item {
    /// The scheduling class: instructions of one class have the same timing in the hardware model.
    pub class: SchedClass,
    /// The machine opcode. `None` for a pseudo operation, which takes no cycles.
    pub opcode: Option<Opcode>,
    /// Whether the item has a guard. Where the guard is false, the results keep their old values.
    pub guarded: bool,
    /// Whether the result depends on which threads of the warp execute the item together. True for shuffles and votes, and for every access
    /// of a uniform register, because diverged threads share uniform registers.
    pub needs_convergence: bool,
    /// Whether the item exchanges data between the threads of the warp (shuffles, votes, warp-wide products). Implies `needs_convergence`.
    pub exchanges_lanes: bool,
    /// Ordering constraints in addition to register dependences, such as those of memory accesses and fences.
    pub effect: OrderEffect,
    /// Index in [`SchedCode::reg_accesses`] of the first read. The reads are followed by the writes.
    first_access: u32,
    /// Number of registers read.
    read_count: u16,
    /// Number of registers written, tied operands included.
    write_count: u16,
    /// Number of elements at the end of [`SchedCode::writes`] that are tied operands.
    tied_write_count: u16,
    /// Index in [`SchedCode::item_groups`] of the first register group (set of registers with one live range) that the item reads. The
    /// groups that are read are followed by those that are written.
    first_group: u32,
    /// Number of register groups (sets of registers with one live range) that the item reads.
    read_group_count: u16,
    /// Number of register groups (sets of registers with one live range) that the item writes.
    written_group_count: u16,
    /// Index in [`SchedCode::ordered`] of the item's first ordered register (a register that the item does not access, but whose accesses
    /// must not move across it).
    first_ordered_register: u32,
    /// Number of ordered registers of the item (registers that it does not access, but whose accesses must not move across it).
    ordered_register_count: u16,
    /// Whether the item waits until all earlier asynchronous matrix products are complete.
    pub drains_products: bool,
}

/// A kind of register whose number is limited; the variants are in the order in which schedulers compare register pressure.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RegisterClass {
    /// General registers (R).
    General,
    /// Predicate registers (P).
    Predicate,
    /// Uniform predicate registers (UP). In the published description of ptxas, the third class has the address registers, which no target
    /// since sm_70 has.
    UniformPredicate,
    /// Uniform registers (UR).
    Uniform,
}

/// Number of [`RegisterClass`]es.
pub(crate) const REGISTER_CLASS_COUNT: usize = 4;

impl RegisterClass {
    /// Returns the register class of a register file, or `None` if the registers of that file do not count for register pressure.
    pub fn of_file(file: RegFile) -> Option<RegisterClass> {
        match file {
            RegFile::General => Some(RegisterClass::General),
            RegFile::Predicate => Some(RegisterClass::Predicate),
            RegFile::UniformPredicate => Some(RegisterClass::UniformPredicate),
            RegFile::Uniform => Some(RegisterClass::Uniform),
            _ => None,
        }
    }
}

/// A register group: a set of registers with one live range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RegisterGroup {
    /// The register class. `None` if these registers do not count for register pressure.
    pub class: Option<RegisterClass>,
    /// Number of registers in the group.
    pub weight: u8,
}

/// Instructions of one block or of several, in program order, in the form that the scheduler works on.
#[derive(Clone, Default, Debug)]
pub struct SchedCode {
    /// The items in program order.
    pub items: Vec<Item>,
    /// Base registers of all addresses; see [`AccessAddress::first_register`].
    pub address_registers: Vec<u32>,
    /// Calls of known duration as pairs of item position and cycles until the call returns, sorted by position.
    pub calls: Vec<(u32, u32)>,
    /// Register accesses of all items, contiguous per item: first the reads, then the writes.
    reg_accesses: Vec<PortAccess>,
    /// Indices of the register groups of all items, contiguous per item: first those read, then those written.
    item_groups: Vec<u32>,
    /// Ordered registers of all items, contiguous per item.
    ordered: Vec<u32>,
    /// All register groups (sets of registers with one live range). `item_groups` has indices into this list.
    groups: Cow<'static, [RegisterGroup]>,
    /// Number of registers. All register numbers are smaller.
    registers: u32,
}

/// Number of registers that a typical instruction reads and writes.
const TYPICAL_REG_ACCESSES: usize = 4;

/// An item to append with [`SchedCode::push`], with its register accesses.
#[derive(Clone, Debug)]
pub struct NewItem<'a> {
    /// The scheduling class: instructions of one class have the same timing.
    pub class: SchedClass,
    /// The machine opcode. `None` for a pseudo operation.
    pub opcode: Option<Opcode>,
    /// Whether the item has a guard; see [`Item::guarded`].
    pub guarded: bool,
    /// Whether the result depends on which threads execute the item together; see [`Item::needs_convergence`].
    pub needs_convergence: bool,
    /// Whether the item exchanges data between threads; see [`Item::exchanges_lanes`].
    pub exchanges_lanes: bool,
    /// Ordering constraints in addition to register dependences.
    pub effect: OrderEffect,
    /// Registers that the item reads.
    pub reads: &'a [PortAccess],
    /// Registers that the item writes.
    pub writes: &'a [PortAccess],
    /// Number of elements at the end of `writes` that are tied operands: source registers that the item overwrites with a result. The
    /// result is a separate element of `writes`, so tied operands are not counted as results for register pressure.
    pub tied_writes: usize,
}

impl SchedCode {
    /// Creates code without items. `registers` is the number of different registers; `groups` lists all register groups (sets of registers
    /// with one live range).
    pub fn new(registers: u32, groups: impl Into<Cow<'static, [RegisterGroup]>>) -> SchedCode {
        SchedCode { registers, groups: groups.into(), ..SchedCode::default() }
    }

    /// Reserves memory for this number of items with a typical number of register accesses.
    pub(crate) fn reserve(&mut self, items: usize) {
        self.items.reserve(items);
        self.reg_accesses.reserve(TYPICAL_REG_ACCESSES * items);
        self.item_groups.reserve(TYPICAL_REG_ACCESSES * items);
    }

    /// Removes all items; their memory is kept for others.
    pub(crate) fn clear(&mut self) {
        let SchedCode { items, address_registers, calls, reg_accesses, item_groups, ordered, groups: _, registers: _ } = self;
        items.clear();
        calls.clear();
        reg_accesses.clear();
        [address_registers, item_groups, ordered].into_iter().for_each(Vec::clear);
    }

    /// Returns the number of different registers, which is one more than the largest register number.
    pub fn registers(&self) -> usize {
        self.registers as usize
    }

    /// Returns all register groups (sets of registers with one live range), in the order of their indices.
    pub fn groups(&self) -> &[RegisterGroup] {
        &self.groups
    }

    /// Appends an item. `group_of` maps a register number to the index of its register group.
    pub fn push(&mut self, new: &NewItem<'_>, group_of: impl Fn(u32) -> u32) {
        let first_access = self.reg_accesses.len() as u32;
        self.reg_accesses.extend_from_slice(new.reads);
        self.reg_accesses.extend_from_slice(new.writes);
        let first_group = self.item_groups.len();
        let read_group_count = self.add_groups(new.reads, &group_of);
        let written_group_count = self.add_groups(&new.writes[..new.writes.len() - new.tied_writes], &group_of);
        self.items.push(Item {
            class: new.class,
            opcode: new.opcode,
            guarded: new.guarded,
            needs_convergence: new.needs_convergence,
            exchanges_lanes: new.exchanges_lanes,
            effect: new.effect,
            first_access,
            read_count: new.reads.len() as u16,
            write_count: new.writes.len() as u16,
            tied_write_count: new.tied_writes as u16,
            first_group: first_group as u32,
            read_group_count,
            written_group_count,
            first_ordered_register: self.ordered.len() as u32,
            ordered_register_count: 0,
            drains_products: false,
        });
    }

    /// Makes `registers` the ordered registers of the last item: no access to one of them may move across the item.
    pub(crate) fn set_ordered_registers_of_last(&mut self, registers: impl IntoIterator<Item = u32>) {
        let Some(item) = self.items.last_mut() else { return };
        self.ordered.truncate(item.first_ordered_register as usize);
        self.ordered.extend(registers);
        item.ordered_register_count = (self.ordered.len() - item.first_ordered_register as usize) as u16;
    }

    /// Returns the registers that an item does not access itself, but whose accesses must not move across the item.
    pub(crate) fn ordered_registers(&self, item: &Item) -> &[u32] {
        let start = item.first_ordered_register as usize;
        &self.ordered[start..start + usize::from(item.ordered_register_count)]
    }

    /// Appends the register groups of `reg_accesses`, each once, to [`SchedCode::item_groups`]. Returns the number of groups appended.
    fn add_groups(&mut self, reg_accesses: &[PortAccess], group_of: &impl Fn(u32) -> u32) -> u16 {
        let start = self.item_groups.len();
        for access in reg_accesses {
            let group = group_of(access.register);
            if !self.item_groups[start..].contains(&group) {
                self.item_groups.push(group);
            }
        }
        (self.item_groups.len() - start) as u16
    }

    /// Returns the registers that an item reads.
    pub fn reads(&self, item: &Item) -> &[PortAccess] {
        let start = item.first_access as usize;
        &self.reg_accesses[start..start + usize::from(item.read_count)]
    }

    /// Returns the registers that an item writes.
    pub fn writes(&self, item: &Item) -> &[PortAccess] {
        let start = item.first_access as usize + usize::from(item.read_count);
        &self.reg_accesses[start..start + usize::from(item.write_count)]
    }

    /// Returns the registers whose new values an item makes visible to later readers: those that it writes without its tied operands, of
    /// which later readers see the old values. Tied operands of asynchronous matrix products count, because the products change them until
    /// a wait.
    pub(crate) fn results(&self, item: &Item) -> &[PortAccess] {
        self.results_and_tied(item).0
    }

    /// Returns [`SchedCode::results`], and the registers that an item only overwrites.
    pub(crate) fn results_and_tied(&self, item: &Item) -> (&[PortAccess], &[PortAccess]) {
        let writes = self.writes(item);
        let is_product = item.opcode.is_some_and(Opcode::is_warpgroup_product);
        writes.split_at(writes.len() - if is_product { 0 } else { usize::from(item.tied_write_count) })
    }

    /// Returns the indices of the register groups that an item reads, each once.
    pub fn read_groups(&self, item: &Item) -> &[u32] {
        let start = item.first_group as usize;
        &self.item_groups[start..start + usize::from(item.read_group_count)]
    }

    /// Returns the indices of the register groups that an item writes, each once.
    pub(crate) fn written_groups(&self, item: &Item) -> &[u32] {
        let start = item.first_group as usize + usize::from(item.read_group_count);
        &self.item_groups[start..start + usize::from(item.written_group_count)]
    }

    /// Returns the base registers of an address.
    pub fn address_registers(&self, address: &AccessAddress) -> &[u32] {
        let start = address.first_register as usize;
        &self.address_registers[start..start + usize::from(address.register_count)]
    }

    /// Returns whether `item` writes a register that the item `reader` reads.
    pub(crate) fn writes_operand_of(&self, item: &Item, reader: &Item) -> bool {
        let reads = self.reads(reader);
        self.writes(item).iter().any(|write| reads.iter().any(|read| read.register == write.register))
    }

    /// Returns the number of cycles until the call at `position` returns, or `None` if that is unknown or the item is not a call.
    pub(crate) fn call_cycles(&self, position: usize) -> Option<u32> {
        let found = self.calls.binary_search_by_key(&(position as u32), |call| call.0).ok()?;
        Some(self.calls[found].1)
    }

    /// Puts the items of `range` into a new order, given as the old positions of the items.
    pub(crate) fn reorder(&mut self, range: Range<usize>, order: &[usize]) {
        let old = self.items[range.clone()].to_vec();
        for (item, position) in self.items[range.clone()].iter_mut().zip(order) {
            *item = old[position - range.start];
        }
    }

    /// Returns the regions of `within`: maximal runs of items between scheduling barriers, cut into pieces of at most `longest` items. With
    /// scheduling barriers at 1 and 5 and `longest` 2, the range `0..6` has the regions `0..1`, `2..4` and `4..5`.
    pub fn regions(&self, within: Range<usize>, longest: usize) -> Vec<Range<usize>> {
        let mut regions = Vec::new();
        let mut start = within.start;
        for position in within.clone() {
            let is_barrier = self.items[position].effect == OrderEffect::SchedBarrier;
            if is_barrier || position - start == longest {
                if position > start {
                    regions.push(start..position);
                }
                start = if is_barrier { position + 1 } else { position };
            }
        }
        if within.end > start {
            regions.push(start..within.end);
        }
        regions
    }
}
