//! Narrows vector loads to the registers that some instruction reads.
//!
//! ```text
//! %1:R4 = LDG.E.128 [%2.64+0x10]               %5:R2 = LDG.E.64 [%2.64+0x18]
//! STG [...], %1[2]                becomes      STG [...], %5[0]
//! STG [...], %1[3]                             STG [...], %5[1]
//! ```
//!
//! The new load has one register, or an aligned half of four registers; three registers of four stay a load of four. Elements of a vector
//! are separate accesses in the memory model of PTX, so a weak load need not read the others. The cost is linear in the size of the
//! function.

use oriole_ir::{
    Class, Function, Inst, MemoryAccess, Opcode, Operand, OperandKind, Order, Part, RegFile, Role, Symbol, Target, Value, machine,
};
use oriole_isa::Symbols;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::components::{Places, rewrite};

/// A weak load of two or four registers.
struct Load {
    inst: Inst,
    /// The result, and its number of registers.
    value: Value,
    width: u8,
    /// The registers that are read, one bit each.
    read: u32,
    /// Whether a use prevents any change.
    is_fixed: bool,
}

/// Narrows the loads. Returns the number of registers that are not loaded any more.
pub(super) fn run(function: &mut Function, target: Target) -> usize {
    let mut loads: Vec<Load> = Vec::new();
    let mut owners: FxHashMap<Value, usize> = FxHashMap::default();
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            let Some(load) = Load::read(function, inst) else { continue };
            owners.insert(load.value, loads.len());
            loads.push(load);
        }
    }
    if loads.is_empty() {
        return 0;
    }
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            for source in function.sources(inst) {
                let Some(part) = source.part() else { continue };
                if let Some(&owner) = owners.get(&part.value) {
                    loads[owner].note_use(part, source.role);
                }
            }
        }
    }
    let mut places = Places::default();
    let removed = loads.iter().map(|load| load.narrow(function, target, &mut places)).sum();
    if !places.is_empty() {
        rewrite(function, &places);
    }
    removed
}

/// Returns the modifier of a load of several registers.
fn width_modifier(width: u8) -> Option<Symbol> {
    match width {
        2 => Some(Symbol::_64),
        4 => Some(Symbol::_128),
        _ => None,
    }
}

impl Load {
    /// Returns the load that an instruction is, if it may be narrowed.
    fn read(function: &Function, inst: Inst) -> Option<Load> {
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
        let modifier = width_modifier(width)?;
        let is_plain = result.part() == Some(function.whole(value)) && data.modifiers.contains(&modifier);
        let is_tied = function.sources(inst).iter().any(|source| matches!(source.role, Role::Tied(_)));
        (is_plain && !is_tied && access.bytes == 4 * width).then_some(Load { inst, value, width, read: 0, is_fixed: false })
    }

    /// Notes that a part of the result is read.
    fn note_use(&mut self, part: Part, role: Role) {
        self.read |= ((1 << part.count) - 1) << part.first;
        self.is_fixed |= matches!(role, Role::Tied(_));
    }

    /// Returns the first register and the number of registers to load; `None` if all of them are needed.
    fn wanted(&self) -> Option<(u8, u8)> {
        let ranges = (0..self.width).map(|first| (first, 1)).chain((0..self.width).step_by(2).map(|first| (first, 2)));
        let mut narrower = ranges.filter(|&(_, count)| count < self.width);
        narrower.find(|&(first, count)| self.read & !(((1 << count) - 1) << first) == 0).filter(|_| self.read != 0 && !self.is_fixed)
    }

    /// Restricts the load to the registers that are read, and notes the new places of these. Returns the number of registers removed.
    fn narrow(&self, function: &mut Function, target: Target, places: &mut Places) -> usize {
        let Some((first, count)) = self.wanted() else { return 0 };
        let (old_modifiers, old_memory) = (function.insts[self.inst].modifiers.clone(), function.insts[self.inst].memory);
        let (Some(old_width), Some(memory)) = (width_modifier(self.width), old_memory) else { return 0 };
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
            old_modifiers.iter().filter_map(|&one| if one == old_width { width_modifier(count) } else { Some(one) }).collect();
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
        let read = (first..first + count).filter(|number| self.read >> number & 1 != 0);
        places.extend(read.map(|number| ((self.value, number), (value, number - first))));
        usize::from(self.width - count)
    }
}
