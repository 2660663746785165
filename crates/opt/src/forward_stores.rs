//! Forwards stored words to loads, and removes loads and stores that repeat others.
//!
//! ```text
//! STS [%b+0x10], %1                      STS [%b+0x10], %1     (deleted: the last store overwrites it)
//! %2 = LDS [%b+0x10]       becomes       %2 = COPY %1
//! %3 = LDS [%b+0x14]                     %3 = LDS [%b+0x14]
//! %4 = LDS [%b+0x14]                     %4 = COPY %3
//! STS [%b+0x10], %2                      STS [%b+0x10], %2
//! ```
//!
//! Words are forwarded only between weak, unguarded accesses of whole words. Other threads may observe such an access only after a barrier,
//! a fence or an atomic operation of this thread; there the pass forgets all contents. Two accesses of one memory space do not alias if
//! they have the same base and disjoint bytes; with different bases they may alias. Accesses of global, shared and local memory do not
//! alias each other; generic ones may alias all.
//!
//! **Before** and **after**: SSA. The pass looks at one block at a time; the cost is n log n in the number of instructions of the block.
//! Copies are left to copy propagation.

use std::collections::BTreeMap;

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Order, Part, Pseudo, RegFile, Role, Space};
use oriole_isa::{Effect, Opcode, Symbols};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::definitions::Definitions;

/// Numbers of changes that the pass made to a function.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Number of loads that became copies.
    pub loads: usize,
    /// Number of stores that were deleted.
    pub stores: usize,
}

/// Maximum number of instructions between an access and a later load that becomes a copy of the words accessed. It limits how long the
/// register with these words stays live.
pub(crate) const MAX_FORWARDING_DISTANCE_INSTS: usize = 200;

/// Largest size of a memory access in bytes.
const MAX_ACCESS_BYTES: i64 = 16;

/// In a whole function, turns loads of words that are known to be in a register into copies, and deletes stores that are overwritten before
/// any read.
pub fn run(function: &mut Function) -> Stats {
    let mut stats = Stats::default();
    let is_access =
        |function: &Function, inst: Inst| function.insts[inst].op.machine().is_some_and(|opcode| classify_load_or_store(opcode).is_some());
    let has_two = |function: &Function, insts: &[Inst]| insts.iter().filter(|&&inst| is_access(function, inst)).nth(1).is_some();
    let mut definitions: Option<Definitions> = None;
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        if !has_two(function, &function.blocks[block].insts) {
            continue;
        }
        let definitions = definitions.get_or_insert_with(|| Definitions::compute(function));
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut memory = KnownMemory::default();
        for (position, &inst) in insts.iter().enumerate() {
            memory.forward_or_record_access(function, definitions, inst, position, &mut stats);
        }
        let mut dead = memory.dead_stores;
        dead.sort_unstable();
        stats.stores += dead.len();
        function.blocks[block].insts = insts.into_iter().filter(|inst| dead.binary_search(inst).is_err()).collect();
    }
    stats
}

/// Returns `Some(true)` for the store opcodes and `Some(false)` for the load opcodes that the pass handles; `None` for other opcodes.
fn classify_load_or_store(opcode: Opcode) -> Option<bool> {
    match opcode {
        Opcode::LDS | Opcode::LDL | Opcode::LDG => Some(false),
        Opcode::STS | Opcode::STL | Opcode::STG => Some(true),
        _ => None,
    }
}

/// The operands of an address, such as base registers, without its constant offset.
pub(crate) type AddressTerms = SmallVec<[Operand; 4]>;

/// A weak load or store of global, shared or local memory.
pub(crate) struct WordAccess {
    /// The memory space.
    pub(crate) space: Space,
    /// The operands of the address without its constant offset.
    pub(crate) base: AddressTerms,
    /// The constant offset of the address, in bytes.
    pub(crate) offset: i64,
    /// Size of the access in bytes.
    pub(crate) bytes: i64,
    /// The register operand that is loaded or stored; `None` if the access is guarded, or if the bytes accessed are not exactly the
    /// registers of the operand.
    pub(crate) words: Option<Operand>,
    /// Whether the access is a store.
    pub(crate) is_store: bool,
}

impl WordAccess {
    /// Returns the access of an instruction; `None` if the instruction is not a weak load or store, or has operands of another kind, such
    /// as tied ones.
    pub(crate) fn from_inst(function: &Function, definitions: &Definitions, inst: Inst) -> Option<WordAccess> {
        let data = &function.insts[inst];
        let is_store = classify_load_or_store(data.op.machine()?)?;
        let access = function.accesses[data.memory?];
        let is_plain = !access.volatile && access.order == Order::Weak && !access.constant && access.space != Space::Spill;
        if !is_plain || access.bytes == 0 {
            return None;
        }
        let (mut base, mut offset, mut plain) = (AddressTerms::new(), 0, SmallVec::<[Operand; 2]>::new());
        for &source in function.sources(inst) {
            match (source.role, source.kind) {
                (Role::Bracket(_), OperandKind::Integer(number)) => offset += number,
                (Role::Bracket(_), OperandKind::Value(part)) => {
                    let origin = definitions.origin_of_group(function, part);
                    base.push(Operand { kind: OperandKind::Value(origin), ..source });
                }
                (Role::Bracket(_), _) | (_, OperandKind::Address(_)) => base.push(source),
                (Role::Plain, _) => plain.push(source),
                _ => return None,
            }
        }
        let operand = match (is_store, function.results(inst), plain.as_slice()) {
            (true, [], &[stored]) => stored,
            (false, &[loaded], []) => loaded,
            _ => return None,
        };
        let is_words =
            |part: Part| 4 * i64::from(part.count) == i64::from(access.bytes) && function.values[part.value].file == RegFile::General;
        let is_known = match operand.kind {
            OperandKind::Value(part) => is_words(part) && (is_store || part == function.whole(part.value)),
            kind => kind == OperandKind::Zero(RegFile::General) && access.bytes == 4 && is_store,
        };
        let is_bare =
            operand.signs.is_empty() && operand.suffixes().next().is_none() && operand.role == Role::Plain && data.guard.is_none();
        let words = (is_known && is_bare).then_some(operand);
        Some(WordAccess { space: access.space, base, offset, bytes: i64::from(access.bytes), words, is_store })
    }
}

/// Consecutive bytes in memory whose content is also in registers.
#[derive(Clone, Copy)]
struct WordsInRegister {
    /// Number of consecutive bytes in memory.
    bytes: i64,
    /// The registers with the same content.
    words: Operand,
    /// Index in the block of the access that loaded or stored the words.
    position: usize,
}

/// Words in memory whose content is also in registers, by their byte offset from one base address.
type WordsByOffset = BTreeMap<i64, WordsInRegister>;

/// The known contents of one memory space, and the stores to it that may still turn out to be dead.
#[derive(Default)]
struct KnownSpaceContents {
    /// For each base, the words whose content is known.
    contents: FxHashMap<AddressTerms, WordsByOffset>,
    /// The base of the last store to the space.
    last_store_base: AddressTerms,
    /// The stores whose bytes no access may have read since the store. Maps the byte offset from `last_store_base` to the size of the store
    /// in bytes, and the store.
    pending_stores: BTreeMap<i64, (i64, Inst)>,
}

/// The contents of memory that are known at a point in a block, and the dead stores found so far.
#[derive(Default)]
struct KnownMemory {
    /// The known contents of each memory space, in the order of [`space_index`].
    spaces: [KnownSpaceContents; 3],
    /// Stores to delete, because a later store overwrites their bytes before any read.
    dead_stores: Vec<Inst>,
}

impl KnownMemory {
    /// Updates the known contents for one instruction, and replaces the instruction by a copy if it is a load of known words.
    fn forward_or_record_access(
        &mut self,
        function: &mut Function,
        definitions: &Definitions,
        inst: Inst,
        position: usize,
        stats: &mut Stats,
    ) {
        let effect = function.insts[inst].op.effect();
        match effect {
            Effect::None | Effect::State | Effect::Lanes => return,
            Effect::Reads | Effect::Writes => {}
            _ => return self.forget_contents(),
        }
        let access = WordAccess::from_inst(function, definitions, inst);
        match access.and_then(|access| Some((space_index(access.space)?, access))) {
            Some((space, access)) if access.is_store => self.record_store_contents(space, access, inst, position),
            Some((space, access)) => stats.loads += usize::from(self.forward_or_record_load(function, space, access, inst, position)),
            None if function.insts[inst].is_machine(Opcode::LDC) => {}
            None if effect == Effect::Reads => self.spaces.iter_mut().for_each(|known| known.pending_stores.clear()),
            None => self.forget_contents(),
        }
    }

    /// Forgets all known contents of memory and all stores that may still turn out to be dead.
    fn forget_contents(&mut self) {
        self.spaces = Default::default();
    }

    /// Updates the known contents for a store: forgets the contents that it may overwrite, and records those that it writes. If the store
    /// makes an earlier one dead, adds the earlier one to `dead_stores`.
    fn record_store_contents(&mut self, space: usize, access: WordAccess, inst: Inst, position: usize) {
        let known = &mut self.spaces[space];
        if known.last_store_base != access.base {
            known.pending_stores.clear();
            known.last_store_base = access.base.clone();
        }
        // The store may overwrite words that are known by other base addresses, so these are forgotten.
        let mut contents = known.contents.remove(&access.base).unwrap_or_default();
        known.contents.clear();
        if let Some(&(bytes, earlier)) = known.pending_stores.get(&access.offset)
            && bytes == access.bytes
            && access.words.is_some()
        {
            self.dead_stores.push(earlier);
        }
        // An earlier store that is overwritten only partly, or only by a guarded store, is not deleted.
        remove_overlapping_entries(&mut known.pending_stores, access.offset, access.bytes, |pending| pending.0);
        remove_overlapping_entries(&mut contents, access.offset, access.bytes, |content| content.bytes);
        if let Some(words) = access.words {
            known.pending_stores.insert(access.offset, (access.bytes, inst));
            contents.insert(access.offset, WordsInRegister { bytes: access.bytes, words, position });
        }
        known.contents.insert(access.base, contents);
    }

    /// Updates the known contents for a load. Returns whether the load was replaced by a copy.
    fn forward_or_record_load(&mut self, function: &mut Function, space: usize, access: WordAccess, inst: Inst, position: usize) -> bool {
        let known = &mut self.spaces[space];
        let is_stored = known.last_store_base == access.base;
        let contents = known.contents.entry(access.base).or_default();
        if let (Some(result), Some(content)) = (access.words, contents.get(&access.offset))
            && content.bytes == access.bytes
            && position - content.position <= MAX_FORWARDING_DISTANCE_INSTS
        {
            function.insts[inst].op = Op::Pseudo(Pseudo::Copy);
            function.insts[inst].modifiers = Symbols::new();
            function.insts[inst].memory = None;
            function.set_operands(inst, &[result, content.words], 1);
            return true;
        }
        if is_stored {
            remove_overlapping_entries(&mut known.pending_stores, access.offset, access.bytes, |pending| pending.0);
        } else {
            known.pending_stores.clear();
        }
        if let Some(words) = access.words {
            contents.insert(access.offset, WordsInRegister { bytes: access.bytes, words, position });
        }
        false
    }
}

/// Returns the index of a memory space in [`KnownMemory::spaces`]; `None` for spaces that may overlap others, such as generic memory.
fn space_index(space: Space) -> Option<usize> {
    match space {
        Space::Global => Some(0),
        Space::Shared => Some(1),
        Space::Local => Some(2),
        Space::Generic | Space::Constant | Space::Spill => None,
    }
}

/// `entries` is keyed by byte offset. Removes every entry that overlaps the range of `bytes` bytes at `offset`; `size` returns the size of
/// an entry in bytes.
fn remove_overlapping_entries<T>(entries: &mut BTreeMap<i64, T>, offset: i64, bytes: i64, size: impl Fn(&T) -> i64) {
    let near = entries.range(offset - MAX_ACCESS_BYTES + 1..offset + bytes);
    let overlapping: SmallVec<[i64; 4]> = near.filter(|(start, entry)| *start + size(entry) > offset).map(|(&start, _)| start).collect();
    overlapping.iter().for_each(|start| _ = entries.remove(start));
}
