//! Source variables in PTX registers: which registers DWARF names, and how they stay readable until their function ends.
//!
//! A debugger shows a variable as long as a machine register holds its value. After the last use of the value its register is reused, so the
//! variable would disappear in the middle of the function. With full debug information, [`keep_to_end`] extends the live ranges of the
//! variables to all ends of the function.

use oriole_ir::analysis::{ControlFlow, Dominators};
use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, OperandKind, Pseudo, Value};
use oriole_isa::Symbols;
use oriole_ptx::ast::{DwarfItem, FunctionId, Item, Module, RegisterId};
use oriole_support::{Index, Name};
use rustc_hash::{FxHashMap, FxHashSet};

use super::registers::register_name;

/// The DWARF operator of a location in a register.
const DW_OP_REGX: u8 = 0x90;

/// Names of PTX registers that are locations of variables, by function.
pub type VariableRegisters = FxHashMap<FunctionId, FxHashSet<String>>;

/// Collects the names of the PTX registers that the debug sections of a module use as locations.
///
/// The sections are not parsed: every `DW_OP_regx` byte that is followed by a name counts. A byte that is something else by chance only
/// extends a live range. A location belongs to the function of the last code label before it, since the entry of a function starts with
/// the label of its first instruction.
pub fn variable_registers(module: &Module) -> VariableRegisters {
    let mut functions: FxHashMap<Name, FunctionId> = FxHashMap::default();
    for (id, function) in module.functions.iter_enumerated() {
        for label in function.body.iter().flat_map(|body| body.labels.iter()) {
            functions.entry(label.name).or_insert(id);
        }
    }
    let mut found = VariableRegisters::default();
    for item in &module.items {
        let Item::Section(section) = item else { continue };
        let mut data = &section.data[..];
        let mut current = None;
        for item in &section.items {
            match *item {
                DwarfItem::Label64(_, name, _) => current = functions.get(&name).copied().or(current),
                DwarfItem::Integers(bytes, count) => {
                    let (now, rest) = data.split_at((usize::from(bytes) * count as usize).min(data.len()));
                    data = rest;
                    if let Some(id) = current {
                        found.entry(id).or_default().extend(register_locations(now));
                    }
                }
                DwarfItem::Label(_) | DwarfItem::Difference(..) => {}
            }
        }
    }
    found
}

/// Returns the register names after all `DW_OP_regx` bytes.
fn register_locations(bytes: &[u8]) -> impl Iterator<Item = String> + '_ {
    let operators = bytes.iter().enumerate().filter(|&(_, &byte)| byte == DW_OP_REGX);
    operators.filter_map(|(at, _)| decode_name(&bytes[at + 1..]))
}

/// Decodes a register number: an unsigned LEB128 number whose bytes, highest first, are the characters of the register's name. Returns
/// `None` if the bytes are not a name.
fn decode_name(bytes: &[u8]) -> Option<String> {
    let mut number = 0_u128;
    for (position, &byte) in bytes.iter().enumerate() {
        let shift = 7 * position as u32;
        if shift > u128::BITS - 7 {
            return None;
        }
        number |= u128::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let name: Vec<u8> = number.to_be_bytes().into_iter().skip_while(|&byte| byte == 0).collect();
    let is_name = name.len() > 1 && name.iter().all(u8::is_ascii_graphic);
    is_name.then(|| String::from_utf8(name).ok()).flatten()
}

/// Extends the live ranges of variables to the ends of a function. `registers` has the value of each PTX register, `names` are the registers
/// that hold variables. The function is not in SSA form yet.
///
/// Only values with one assignment are kept, and only at ends that the assignment dominates: elsewhere the variable has no value.
pub fn keep_to_end(
    function: &mut Function,
    module: &Module,
    id: FunctionId,
    registers: &FxHashMap<RegisterId, Value>,
    names: &FxHashSet<String>,
) {
    let Some(body) = module.functions[id].body.as_deref() else { return };
    let is_variable = |register: RegisterId| names.contains(&register_name(module, body, register));
    let mut kept: Vec<(RegisterId, Value)> =
        registers.iter().filter(|(register, _)| is_variable(**register)).map(|(&register, &value)| (register, value)).collect();
    kept.sort_unstable_by_key(|(register, _)| register.position());
    let assignments = single_assignments(function, &kept);
    let dominators = Dominators::compute(function, &ControlFlow::compute(function));
    for block in function.layout.clone() {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut extended: Vec<Inst> = Vec::with_capacity(insts.len());
        let end = end_of_function(function, &insts);
        for (position, inst) in insts.into_iter().enumerate() {
            if Some(position) == end || function.insts[inst].is_machine(Opcode::EXIT) {
                for &(value, (from, at)) in &assignments {
                    let is_before = if from == block { at < position } else { dominators.dominates(from, block) };
                    if is_before {
                        // One instruction for each value, so that they need not be in registers at the same time.
                        let operand = Operand::new(OperandKind::Value(function.whole(value)));
                        let keep = function.new_inst(Op::Pseudo(Pseudo::Keep), Symbols::new(), None, &[operand], 0);
                        function.insts[keep].location = function.insts[inst].location;
                        extended.push(keep);
                    }
                }
            }
            extended.push(inst);
        }
        function.blocks[block].insts = extended;
    }
}

/// Returns the block and position of the assignment of each value that has exactly one.
fn single_assignments(function: &Function, kept: &[(RegisterId, Value)]) -> Vec<(Value, (Block, usize))> {
    let mut sites: FxHashMap<Value, Option<(Block, usize)>> = FxHashMap::default();
    for &block in &function.layout {
        for (position, &inst) in function.blocks[block].insts.iter().enumerate() {
            for part in function.results(inst).iter().filter_map(Operand::part) {
                // A guard may prevent the assignment.
                let site = function.insts[inst].guard.is_none().then_some((block, position));
                sites.entry(part.value).and_modify(|site| *site = None).or_insert(site);
            }
        }
    }
    kept.iter().filter_map(|&(_, value)| Some((value, (*sites.get(&value)?)?))).collect()
}

/// Returns the position before which values are kept in a block that returns: that of the `KEEP` of the results, which must stay next to the
/// return.
fn end_of_function(function: &Function, insts: &[Inst]) -> Option<usize> {
    let at = insts.iter().position(|&inst| function.insts[inst].is_machine(Opcode::RET))?;
    let has_results = at > 0 && function.insts[insts[at - 1]].is(Pseudo::Keep);
    Some(if has_results { at - 1 } else { at })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded() {
        // `%r1` is 0x257231, in LEB128 0xb1 0xe4 0x95 0x01.
        assert_eq!(decode_name(&[0xb1, 0xe4, 0x95, 0x01, 7]).as_deref(), Some("%r1"));
        assert_eq!(decode_name(&[0x01]), None);
        assert_eq!(decode_name(&[]), None);
        assert_eq!(decode_name(&[0xff; 40]), None);
        assert_eq!(register_locations(&[1, 0x90, 0xb2, 0xe4, 0x95, 0x01, 0x90]).collect::<Vec<_>>(), ["%r2"]);
    }
}
