//! Finds, for each point of a device function, the location of the values that the callee-saved registers and the return address had at its
//! entry. These locations are the rules of `.debug_frame` with which a debugger finds the callers and their registers.
//!
//! A forward data-flow analysis on the final code follows copies, stores to the frame and loads from it:
//!
//! ```text
//! STL [R1+0x4], R17      R17 of the caller is also in the frame
//! STL [R1+0x8], R20      the lower half of the return address is also in the frame
//! MOV R17, R4            R17 of the caller is only in the frame
//! MOV R20, ...           the return address is only in the frame
//! LDL R17, [R1+0x4]      R17 of the caller is in its register again
//! ```

use oriole_cubin::build::{SavedPlace, SavedRule};
use oriole_ir::{Block, Function, FunctionKind, Inst, Opcode, OperandKind, RegFile};
use oriole_isa::INSTRUCTION_BYTES;
use oriole_support::Index;

use crate::convention::{self, STACK_POINTER_REGISTER};

/// The locations of the value that one register had at the entry of the function. The value may be in several locations at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct ValueLocations {
    /// Whether the register itself still holds the value.
    in_itself: bool,
    /// Number of another general register that holds the value; `None` if none is known.
    in_register: Option<u16>,
    /// Offset in the frame, in bytes from the stack pointer, at which the value is stored; `None` if none is known.
    in_frame: Option<i64>,
}

impl ValueLocations {
    /// The locations at the entry of the function: each value is in its own register only.
    const AT_ENTRY: ValueLocations = ValueLocations { in_itself: true, in_register: None, in_frame: None };

    /// Returns the locations that hold the value on both of two joining paths.
    fn intersect(self, other: ValueLocations) -> ValueLocations {
        ValueLocations {
            in_itself: self.in_itself && other.in_itself,
            in_register: self.in_register.filter(|_| self.in_register == other.in_register),
            in_frame: self.in_frame.filter(|_| self.in_frame == other.in_frame),
        }
    }
}

/// For each tracked register, by number: the locations of the value that it had at the entry of the function.
type EntryValueLocations = Vec<(u16, ValueLocations)>;

/// Returns the rules with which a debugger finds the values of the caller's registers, sorted by the byte offset from which they apply.
/// Kernels have no caller, so they have no rules.
pub fn caller_register_rules(function: &Function) -> Vec<SavedRule> {
    if function.kind == FunctionKind::Kernel {
        return Vec::new();
    }
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    let written = insts.flat_map(|&inst| written_registers(function, inst));
    let mut tracked: Vec<u16> =
        written.filter(|&register| convention::is_callee_saved(register) || convention::is_return_address(register)).collect();
    tracked.sort_unstable();
    tracked.dedup();
    if tracked.is_empty() {
        return Vec::new();
    }
    let entry: EntryValueLocations = tracked.into_iter().map(|register| (register, ValueLocations::AT_ENTRY)).collect();
    rules_from_states(function, &states_at_block_starts(function, entry))
}

/// Returns, for the start of each block, the locations of the values that registers had at the entry of the function; `None` for blocks
/// that are not reached. The result is indexed by block.
fn states_at_block_starts(function: &Function, entry: EntryValueLocations) -> Vec<Option<EntryValueLocations>> {
    let mut states: Vec<Option<EntryValueLocations>> = vec![None; function.blocks.len()];
    let Some(&first) = function.layout.first() else { return states };
    states[first.position()] = Some(entry);
    let mut position_of = vec![0; function.blocks.len()];
    function.layout.iter().enumerate().for_each(|(position, block)| position_of[block.position()] = position);
    // A worklist of blocks, as indices in the layout. A state only loses locations, so the iteration ends.
    let mut pending = vec![0];
    while let Some(position) = pending.pop() {
        let block = function.layout[position];
        let Some(mut state) = states[block.position()].clone() else { continue };
        function.blocks[block].insts.iter().for_each(|&inst| apply_inst(function, inst, &mut state));
        for next in successors(function, position) {
            let known = &mut states[next.position()];
            let met = match known {
                Some(known) => known.iter().zip(&state).map(|(one, two)| (one.0, one.1.intersect(two.1))).collect(),
                None => state.clone(),
            };
            if known.as_ref() != Some(&met) {
                *known = Some(met);
                pending.push(position_of[next.position()]);
            }
        }
    }
    states
}

/// Returns the successors of a block in the final layout, in which blocks without a branch continue with the next one.
fn successors(function: &Function, position: usize) -> Vec<Block> {
    let block = function.layout[position];
    let mut all: Vec<Block> = function.successors(block).to_vec();
    let ends = |inst: &Inst| {
        let data = &function.insts[*inst];
        let opcode = data.op.machine();
        data.guard.is_none() && matches!(opcode, Some(Opcode::BRA | Opcode::RET | Opcode::EXIT | Opcode::BRX))
    };
    if !function.blocks[block].insts.last().is_some_and(ends) {
        all.extend(function.layout.get(position + 1));
    }
    all
}

/// Returns the general registers that an instruction writes.
fn written_registers(function: &Function, inst: Inst) -> impl Iterator<Item = u16> + '_ {
    function.results(inst).iter().flat_map(|operand| match operand.kind {
        OperandKind::Register { file: RegFile::General, first, count } => first..first + u16::from(count),
        _ => 0..0,
    })
}

/// Returns the distance, in bytes, from the stack pointer to the address of an access to the frame; `None` for other instructions.
pub fn frame_access_offset(function: &Function, inst: Inst) -> Option<i64> {
    let operands = function.operands(inst);
    let at = operands.iter().position(|operand| matches!(operand.kind, OperandKind::Address(_)))?;
    let [base, offset] = operands.get(at + 1..at + 3)? else { return None };
    let is_stack_pointer =
        OperandKind::Register { file: RegFile::General, first: u16::from(STACK_POINTER_REGISTER), count: 1 } == base.kind;
    match offset.kind {
        OperandKind::Integer(offset) if is_stack_pointer => Some(offset),
        _ => None,
    }
}

/// Applies the effect of an instruction to `state`, the locations of the values that registers had at the entry of the function.
fn apply_inst(function: &Function, inst: Inst, state: &mut EntryValueLocations) {
    let data = &function.insts[inst];
    let single = |kind: OperandKind| match kind {
        OperandKind::Register { file: RegFile::General, first, count: 1 } => Some(first),
        _ => None,
    };
    // The last register source of a copy or store is the register whose content is copied or stored.
    let source = function.sources(inst).iter().rev().find_map(|operand| single(operand.kind));
    let is_certain = data.guard.is_none();
    let holds =
        |places: &ValueLocations, register: u16, read: u16| register == read && places.in_itself || places.in_register == Some(read);
    match data.op.machine() {
        Some(Opcode::STL) => {
            let Some(offset) = frame_access_offset(function, inst) else { return };
            for (register, places) in state.iter_mut() {
                let is_stored = is_certain && source.is_some_and(|read| holds(places, *register, read));
                places.in_frame = if is_stored { Some(offset) } else { places.in_frame.filter(|&known| known != offset) };
            }
            return;
        }
        Some(Opcode::MOV) if is_certain => {
            let written = function.results(inst).first().and_then(|operand| single(operand.kind));
            if let (Some(written), Some(read)) = (written, source) {
                for (register, places) in state.iter_mut() {
                    let is_copied = holds(places, *register, read);
                    remove_location(places, *register, written);
                    if is_copied {
                        add_location(places, *register, written);
                    }
                }
                return;
            }
        }
        Some(Opcode::LDL) if is_certain => {
            let written = function.results(inst).first().and_then(|operand| single(operand.kind));
            if let (Some(written), Some(offset)) = (written, frame_access_offset(function, inst)) {
                for (register, places) in state.iter_mut() {
                    remove_location(places, *register, written);
                    if places.in_frame == Some(offset) {
                        add_location(places, *register, written);
                    }
                }
                return;
            }
        }
        _ => {}
    }
    for written in written_registers(function, inst) {
        state.iter_mut().for_each(|(register, places)| remove_location(places, *register, written));
    }
}

/// Removes the register `written`, which an instruction overwrites, from the locations of the value that `register` had at the function's
/// entry.
fn remove_location(places: &mut ValueLocations, register: u16, written: u16) {
    places.in_itself &= register != written;
    places.in_register = places.in_register.filter(|&holder| holder != written);
}

/// Adds the register `written` to the locations of the value that `register` had at the function's entry.
fn add_location(places: &mut ValueLocations, register: u16, written: u16) {
    match register == written {
        true => places.in_itself = true,
        false => places.in_register = Some(written),
    }
}

/// Returns a rule for each point of the code at which a value of the caller moves to another location. `states` has the locations at block
/// starts.
fn rules_from_states(function: &Function, states: &[Option<EntryValueLocations>]) -> Vec<SavedRule> {
    let mut rules = Vec::new();
    let mut current: Vec<SavedPlace> = Vec::new();
    let mut offset = 0;
    let place_of = |places: &ValueLocations| match *places {
        ValueLocations { in_itself: true, .. } => SavedPlace::Same,
        ValueLocations { in_frame: Some(at), .. } => SavedPlace::Below((i64::from(function.frame_bytes) - at) as u32),
        ValueLocations { in_register: Some(holder), .. } => SavedPlace::Register(holder),
        _ => SavedPlace::Lost,
    };
    for &block in &function.layout {
        let mut state = states[block.position()].clone();
        for &inst in &function.blocks[block].insts {
            // The rules apply to the point before the instruction. In unreachable code the rules of the code before it stay in force.
            if let Some(state) = &mut state {
                current.resize(state.len(), SavedPlace::Same);
                for ((register, places), known) in state.iter().zip(&mut current) {
                    let place = place_of(places);
                    if place != *known {
                        rules.push(SavedRule { offset, register: *register, place });
                        *known = place;
                    }
                }
                apply_inst(function, inst, state);
            }
            offset += INSTRUCTION_BYTES as u32;
        }
    }
    rules
}
