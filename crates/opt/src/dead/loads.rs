//! Narrows vector loads to the registers that some instruction reads.
//!
//! ```text
//! %1:R4 = LDG.E.128 [%2.64+0x10]               %5:R2 = LDG.E.64 [%2.64+0x18]
//! STG [...], %1[2]                becomes      STG [...], %5[0]
//! STG [...], %1[3]                             STG [...], %5[1]
//! ```
//!
//! The new load has one register, or an aligned half of four registers; a load of which three registers are read stays a load of four. In
//! the memory model of PTX the elements of a vector are separate accesses, so a weak load need not read elements that are not used. The
//! cost is linear in the size of the function.

use oriole_ir::{
    Class, Function, Inst, MemoryAccess, Opcode, Operand, OperandKind, Order, Part, RegFile, Role, Symbol, Target, Value, machine,
};
use oriole_isa::Symbols;
use smallvec::SmallVec;

use super::narrow_results::{self, NarrowableInst, NewRegisters};

/// A weak load of two or four registers, with a record of the registers that other instructions read.
struct VectorLoad {
    /// The load instruction.
    inst: Inst,
    /// The result of the load.
    value: Value,
    /// Number of registers of the result.
    width: u8,
    /// Bit set of the registers of the result that some instruction reads; bit n is register n.
    read_registers: u32,
    /// Whether a tied operand of another instruction reads the result. A tied operand must have as many registers as the result that it is
    /// tied to, so the load cannot be narrowed then.
    has_tied_reader: bool,
}

/// Narrows the vector loads of a function. Returns the number of registers that are no longer loaded.
pub(super) fn run(function: &mut Function, target: Target) -> usize {
    narrow_results::run::<VectorLoad>(function, target)
}

/// Returns the modifier of a load of two or four registers: `.64` or `.128`. `None` for other widths; a load of one register has no
/// modifier.
fn load_width_modifier(width: u8) -> Option<Symbol> {
    match width {
        2 => Some(Symbol::_64),
        4 => Some(Symbol::_128),
        _ => None,
    }
}

impl NarrowableInst for VectorLoad {
    /// Describes an unguarded weak load of two or four registers; `None` for other instructions. No register counts as read yet.
    fn match_inst(function: &Function, inst: Inst) -> Option<VectorLoad> {
        let data = &function.insts[inst];
        if !matches!(data.op.machine()?, Opcode::LD | Opcode::LDG | Opcode::LDS | Opcode::LDL) || data.guard.is_some() {
            return None;
        }
        let access = function.accesses[data.memory?];
        if access.volatile || access.order != Order::Weak {
            return None;
        }
        let [result] = function.results(inst) else { return None };
        let value = result.value()?;
        let width = function.values[value].width;
        let modifier = load_width_modifier(width)?;
        let is_plain = result.part() == Some(function.whole(value)) && data.modifiers.contains(&modifier);
        let is_tied = function.sources(inst).iter().any(|source| matches!(source.role, Role::Tied(_)));
        (is_plain && !is_tied && access.bytes == 4 * width).then_some(VectorLoad {
            inst,
            value,
            width,
            read_registers: 0,
            has_tied_reader: false,
        })
    }

    /// Returns the result of the load.
    fn results(&self) -> impl Iterator<Item = Value> {
        std::iter::once(self.value)
    }

    /// Records that an operand with the given role reads `part`, some registers of the result.
    fn record_result_read(&mut self, part: Part, role: Role) {
        self.read_registers |= ((1 << part.count) - 1) << part.first;
        self.has_tied_reader |= matches!(role, Role::Tied(_));
    }

    /// Restricts the load to the registers that are read. Adds to `new_registers` where each remaining register now is. Returns the number
    /// of registers removed.
    fn narrow_to_read_registers(&self, function: &mut Function, target: Target, new_registers: &mut NewRegisters) -> usize {
        let Some((first, count)) = self.smallest_loadable_range() else { return 0 };
        let (old_modifiers, old_memory) = (function.insts[self.inst].modifiers.clone(), function.insts[self.inst].memory);
        let (Some(old_width), Some(memory)) = (load_width_modifier(self.width), old_memory) else { return 0 };
        let old: SmallVec<[Operand; 8]> = function.operands(self.inst).iter().copied().collect();
        let mut operands = old.clone();
        if first > 0 {
            let is_offset = |operand: &&mut Operand| matches!(operand.role, Role::Bracket(_)) && operand.integer().is_some();
            let Some(offset) = operands.iter_mut().rev().find(is_offset) else { return 0 };
            let Some(sum) = offset.integer().and_then(|number| number.checked_add(4 * i64::from(first))) else { return 0 };
            offset.kind = OperandKind::Integer(sum);
        }
        let value = function.new_value(Class::new(RegFile::General, count));
        operands[0].kind = Operand::from(function.whole(value)).kind;
        let modifiers: Symbols =
            old_modifiers.iter().filter_map(|&one| if one == old_width { load_width_modifier(count) } else { Some(one) }).collect();
        function.set_operands(self.inst, &operands, 1);
        function.insts[self.inst].modifiers = modifiers;
        let access = MemoryAccess { bytes: 4 * count, ..function.accesses[memory] };
        function.insts[self.inst].memory = Some(function.accesses.push(access));
        if !machine::is_encodable(function, self.inst, target) {
            function.set_operands(self.inst, &old, 1);
            function.insts[self.inst].modifiers = old_modifiers;
            function.insts[self.inst].memory = old_memory;
            return 0;
        }
        let read = (first..first + count).filter(|number| self.read_registers >> number & 1 != 0);
        new_registers.extend(read.map(|number| ((self.value, number), (value, number - first))));
        usize::from(self.width - count)
    }
}

impl VectorLoad {
    /// Returns the smallest range of registers that contains all registers that are read and that one narrower load can load, as its first
    /// register and its number of registers. `None` if the load cannot be narrowed.
    fn smallest_loadable_range(&self) -> Option<(u8, u8)> {
        let ranges = (0..self.width).map(|first| (first, 1)).chain((0..self.width).step_by(2).map(|first| (first, 2)));
        let mut narrower = ranges.filter(|&(_, count)| count < self.width);
        narrower
            .find(|&(first, count)| self.read_registers & !(((1 << count) - 1) << first) == 0)
            .filter(|_| self.read_registers != 0 && !self.has_tied_reader)
    }
}
