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
use smallvec::SmallVec;

use super::narrow_results::{self, NarrowableInst, NewRegisters};

/// The component mask of a fetch that writes all four components. The instruction text omits this mask.
const ALL_COMPONENTS: u32 = 0xf;
/// Maximum number of components in the second result of a fetch; further components are in the first result.
const MAX_LOWER_COMPONENTS: u8 = 2;

/// A texture fetch whose results can be narrowed, with a record of the components that other instructions read.
struct PartlyReadFetch {
    /// The fetch instruction.
    inst: Inst,
    /// The first result: the third and fourth component written; `None` if at most two components are written.
    upper_result: Option<Value>,
    /// The second result: the first two components written.
    lower_result: Value,
    /// Bit set of the components that the fetch writes; bit 0 is x.
    mask: u32,
    /// Bit set of the components that some instruction reads; bit n is the n-th component written.
    read_components: u32,
    /// Whether a tied operand of another instruction reads a result. A tied operand must have as many registers as the result that it is
    /// tied to, so the fetch cannot be narrowed then.
    has_tied_reader: bool,
    /// For each operand that reads several registers of a result: the number of the first component read, and the number of components.
    read_ranges: SmallVec<[(u8, u8); 4]>,
}

/// Removes the components of texture fetches that no instruction reads. Returns the number of components removed.
pub(super) fn run(function: &mut Function, target: Target) -> usize {
    narrow_results::run::<PartlyReadFetch>(function, target)
}

impl NarrowableInst for PartlyReadFetch {
    /// Describes a texture fetch whose components can be chosen by a mask; `None` for other instructions. No component counts as read yet.
    fn match_inst(function: &Function, inst: Inst) -> Option<PartlyReadFetch> {
        let opcode = function.insts[inst].op.machine()?;
        if !matches!(opcode, Opcode::TEX | Opcode::TLD | Opcode::TLD4 | Opcode::TXD) {
            return None;
        }
        // A tied source has as many registers as the result, so the result cannot be narrowed.
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
            OperandKind::Name(_) => ALL_COMPONENTS,
            _ => return None,
        };
        Some(PartlyReadFetch {
            inst,
            upper_result: upper.value(),
            lower_result: lower.value()?,
            mask,
            read_components: 0,
            has_tied_reader: false,
            read_ranges: SmallVec::new(),
        })
    }

    /// Returns the results that hold components.
    fn results(&self) -> impl Iterator<Item = Value> {
        self.upper_result.into_iter().chain([self.lower_result])
    }

    /// Records that an operand with the given role reads `part`, some registers of a result.
    fn record_result_read(&mut self, part: Part, role: Role) {
        let first = if part.value == self.lower_result { part.first } else { MAX_LOWER_COMPONENTS + part.first };
        self.read_components |= ((1 << part.count) - 1) << first;
        self.has_tied_reader |= matches!(role, Role::Tied(_));
        if part.count > 1 {
            self.read_ranges.push((first, part.count));
        }
    }

    /// Restricts the fetch to the components that are read. Adds to `new_registers` where each remaining component now is. Returns the
    /// number of components removed.
    fn narrow_to_read_registers(&self, function: &mut Function, target: Target, new_registers: &mut NewRegisters) -> usize {
        let count = self.mask.count_ones() as u8;
        // The machine has no fetch without components, so at least the first one stays.
        let read = self.read_components.max(1);
        let wanted = read.count_ones() as u8;
        if wanted == count || self.has_tied_reader || !self.keeps_ranges_adjacent(read) {
            return 0;
        }
        let written: SmallVec<[u32; 4]> = (0..4).filter(|component| self.mask >> component & 1 != 0).collect();
        let mask = (0..count).filter(|&number| read >> number & 1 != 0).fold(0, |mask, number| mask | 1 << written[usize::from(number)]);
        let new_value = |function: &mut Function, width: u8| function.new_value(Class::new(RegFile::General, width));
        let lower = new_value(function, wanted.min(MAX_LOWER_COMPONENTS));
        let upper = (wanted > MAX_LOWER_COMPONENTS).then(|| new_value(function, wanted - MAX_LOWER_COMPONENTS));
        let old: SmallVec<[Operand; 12]> = function.operands(self.inst).iter().copied().collect();
        let results = function.insts[self.inst].result_count();
        let mut operands = old.clone();
        let whole = |value: Value| Operand::from(function.whole(value));
        operands[results - 2].kind = upper.map_or(OperandKind::Zero(RegFile::General), |upper| whole(upper).kind);
        operands[results - 1].kind = whole(lower).kind;
        if self.mask != ALL_COMPONENTS {
            operands.pop();
        }
        operands.push(mask.into());
        function.set_operands(self.inst, &operands, results);
        if !machine::is_encodable(function, self.inst, target) {
            function.set_operands(self.inst, &old, results);
            return 0;
        }
        for number in (0..count).filter(|&number| read >> number & 1 != 0) {
            let location = |number: u8, lower: Value, upper: Option<Value>| match number {
                0..MAX_LOWER_COMPONENTS => Some((lower, number)),
                _ => upper.map(|upper| (upper, number - MAX_LOWER_COMPONENTS)),
            };
            let old = location(number, self.lower_result, self.upper_result);
            let new = location(Self::component_index_after_narrowing(read, number), lower, upper);
            new_registers.extend(old.zip(new));
        }
        usize::from(count - wanted)
    }
}

impl PartlyReadFetch {
    /// Returns the index of component `number` after the fetch is narrowed to the components in the bit set `read`, which is the number of
    /// read components before it.
    fn component_index_after_narrowing(read: u32, number: u8) -> u8 {
        (read & ((1 << number) - 1)).count_ones() as u8
    }

    /// Returns whether registers that one operand reads together stay adjacent, and pairs stay aligned, if only the components in the bit
    /// set `read` remain.
    fn keeps_ranges_adjacent(&self, read: u32) -> bool {
        self.read_ranges.iter().all(|&(first, count)| {
            let new = Self::component_index_after_narrowing(read, first);
            let is_within_one = new >= MAX_LOWER_COMPONENTS || new + count <= MAX_LOWER_COMPONENTS;
            is_within_one && new % 2 == first % 2
        })
    }
}
