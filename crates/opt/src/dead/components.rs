//! Removes components of texture fetches that no instruction reads.
//!
//! A fetch writes the components of its mask to two results: the first two of them to the second result, the others to the first. For
//! example, only y and w of this fetch are read:
//!
//! ```text
//! %1.2, %2.2 = TEX.LL %3.4, %4, UR4, 2D               z and w in %1, x and y in %2
//! STG [...], %2[1]
//! STG [...], %1[1]
//! ```
//!
//! becomes
//!
//! ```text
//! RZ, %5.2 = TEX.LL %3.4, %4, UR4, 2D, 0xa            y and w in %5
//! STG [...], %5[0]
//! STG [...], %5[1]
//! ```
//!
//! The cost is linear in the size of the function.

use oriole_ir::{Class, Function, Inst, Opcode, Operand, OperandKind, Part, RegFile, Role, Target, Value, machine};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// The mask of a fetch that writes all four components; the instruction does not show it.
const ALL: u32 = 0xf;
/// Number of components in the second result.
const LOWER_COUNT: u8 = 2;

/// The new places of registers: value and number of the register, by those that they replace.
pub(super) type Places = FxHashMap<(Value, u8), (Value, u8)>;

/// A texture fetch that writes a component which no instruction reads.
struct Fetch {
    /// The fetch instruction.
    inst: Inst,
    /// The first result: the third and fourth component written; `None` if at most two components are written.
    upper: Option<Value>,
    /// The second result: the first two components written.
    lower: Value,
    /// Bit set of the components that the fetch writes; bit 0 is x.
    mask: u32,
    /// Bit set of the components that are read; bit n is the n-th component written.
    read: u32,
    /// Whether some reader prevents any change, such as a tied operand.
    is_fixed: bool,
    /// For each read of several registers of a result: the number of its first component, and the number of components.
    ranges: SmallVec<[(u8, u8); 4]>,
}

/// Removes unread components of the fetches of a function. Returns the number of components removed.
pub(super) fn run(function: &mut Function, target: Target) -> usize {
    let mut fetches: Vec<Fetch> = Vec::new();
    let mut owners: FxHashMap<Value, usize> = FxHashMap::default();
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            let Some(fetch) = Fetch::read(function, inst) else { continue };
            owners.extend(fetch.upper.into_iter().chain([fetch.lower]).map(|value| (value, fetches.len())));
            fetches.push(fetch);
        }
    }
    if fetches.is_empty() {
        return 0;
    }
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            for source in function.sources(inst) {
                let Some(part) = source.part() else { continue };
                if let Some(&owner) = owners.get(&part.value) {
                    fetches[owner].note_use(part, source.role);
                }
            }
        }
    }
    let mut places = Places::default();
    let removed = fetches.iter().map(|fetch| fetch.narrow(function, target, &mut places)).sum();
    if !places.is_empty() {
        rewrite(function, &places);
    }
    removed
}

impl Fetch {
    /// Returns the description of a texture fetch whose components can be chosen; `None` for other instructions.
    fn read(function: &Function, inst: Inst) -> Option<Fetch> {
        let opcode = function.insts[inst].op.machine()?;
        if !matches!(opcode, Opcode::TEX | Opcode::TLD | Opcode::TLD4 | Opcode::TXD) {
            return None;
        }
        // A tied operand has the width of its result.
        let sources = function.sources(inst);
        if sources.iter().any(|source| matches!(source.role, Role::Tied(_))) {
            return None;
        }
        let is_predicate = |operand: &&Operand| match operand.kind {
            OperandKind::Value(part) => function.values[part.value].file == RegFile::Predicate,
            kind => kind == OperandKind::Zero(RegFile::Predicate),
        };
        let results: SmallVec<[&Operand; 3]> = function.results(inst).iter().filter(|result| !is_predicate(result)).collect();
        let &[upper, lower] = results.as_slice() else { return None };
        let mask = match sources.last()?.kind {
            OperandKind::Integer(mask) => u32::try_from(mask).ok()?,
            OperandKind::Name(_) => ALL,
            _ => return None,
        };
        Some(Fetch { inst, upper: upper.value(), lower: lower.value()?, mask, read: 0, is_fixed: false, ranges: SmallVec::new() })
    }

    /// Records that an instruction reads a part of a result.
    fn note_use(&mut self, part: Part, role: Role) {
        let first = if part.value == self.lower { part.first } else { LOWER_COUNT + part.first };
        self.read |= ((1 << part.count) - 1) << first;
        self.is_fixed |= matches!(role, Role::Tied(_));
        if part.count > 1 {
            self.ranges.push((first, part.count));
        }
    }

    /// Returns the new number of a component: the number of components below it that are read.
    fn new_number(read: u32, number: u8) -> u8 {
        (read & ((1 << number) - 1)).count_ones() as u8
    }

    /// Returns whether registers that one operand reads together stay adjacent, and pairs stay aligned, if only the components `read`
    /// remain.
    fn keeps_together(&self, read: u32) -> bool {
        self.ranges.iter().all(|&(first, count)| {
            let new = Self::new_number(read, first);
            let is_within_one = new >= LOWER_COUNT || new + count <= LOWER_COUNT;
            is_within_one && new % 2 == first % 2
        })
    }

    /// Restricts the fetch to the components that are read. Adds the new value and register index of each remaining component to `places`.
    /// Returns the number of components removed.
    fn narrow(&self, function: &mut Function, target: Target, places: &mut Places) -> usize {
        let count = self.mask.count_ones() as u8;
        // The machine has no fetch without components, so at least x stays.
        let read = self.read.max(1);
        let wanted = read.count_ones() as u8;
        if wanted == count || self.is_fixed || !self.keeps_together(read) {
            return 0;
        }
        let written: SmallVec<[u32; 4]> = (0..4).filter(|component| self.mask >> component & 1 != 0).collect();
        let mask = (0..count).filter(|&number| read >> number & 1 != 0).fold(0, |mask, number| mask | 1 << written[usize::from(number)]);
        let new_value = |function: &mut Function, width: u8| function.new_value(Class::new(RegFile::General, width));
        let lower = new_value(function, wanted.min(LOWER_COUNT));
        let upper = (wanted > LOWER_COUNT).then(|| new_value(function, wanted - LOWER_COUNT));
        let old: SmallVec<[Operand; 12]> = function.operands(self.inst).iter().copied().collect();
        let results = function.insts[self.inst].result_count();
        let mut operands = old.clone();
        let whole = |value: Value| Operand::from(function.whole(value));
        operands[results - 2].kind = upper.map_or(OperandKind::Zero(RegFile::General), |upper| whole(upper).kind);
        operands[results - 1].kind = whole(lower).kind;
        if self.mask != ALL {
            operands.pop();
        }
        operands.push(mask.into());
        function.set_operands(self.inst, &operands, results);
        if !machine::is_encodable(function, self.inst, target) {
            function.set_operands(self.inst, &old, results);
            return 0;
        }
        for number in (0..count).filter(|&number| read >> number & 1 != 0) {
            let place = |number: u8, lower: Value, upper: Option<Value>| match number {
                0..LOWER_COUNT => Some((lower, number)),
                _ => upper.map(|upper| (upper, number - LOWER_COUNT)),
            };
            let old = place(number, self.lower, self.upper);
            let new = place(Self::new_number(read, number), lower, upper);
            places.extend(old.zip(new));
        }
        usize::from(count - wanted)
    }
}

/// Replaces reads of registers by reads of their new places.
pub(super) fn rewrite(function: &mut Function, places: &Places) {
    for at in 0..function.layout.len() {
        let block = function.layout[at];
        for position in 0..function.blocks[block].insts.len() {
            let inst = function.blocks[block].insts[position];
            for source in function.sources_mut(inst) {
                if let OperandKind::Value(part) = &mut source.kind
                    && let Some(&(value, first)) = places.get(&(part.value, part.first))
                {
                    (part.value, part.first) = (value, first);
                }
            }
        }
    }
}
