//! Where the values are that callee-saved registers and the return address had at the entry of a device function: the rules of
//! `.debug_frame` with which a debugger finds the callers and their registers.
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

use crate::convention::{self, STACK_POINTER};

/// The places of the value that one register had at the entry. A value may be in several of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Places {
    in_itself: bool,
    in_register: Option<u16>,
    /// Distance from the stack pointer in bytes.
    in_frame: Option<i64>,
}

impl Places {
    const AT_ENTRY: Places = Places { in_itself: true, in_register: None, in_frame: None };

    /// Returns the places that two paths have in common.
    fn meet(self, other: Places) -> Places {
        Places {
            in_itself: self.in_itself && other.in_itself,
            in_register: self.in_register.filter(|_| self.in_register == other.in_register),
            in_frame: self.in_frame.filter(|_| self.in_frame == other.in_frame),
        }
    }
}

/// The places of all tracked registers.
type State = Vec<(u16, Places)>;

/// Returns the rules by offset in bytes, in ascending order. Kernels have no caller, so they have no rules.
pub fn rules(function: &Function) -> Vec<SavedRule> {
    if function.kind == FunctionKind::Kernel {
        return Vec::new();
    }
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    let written = insts.flat_map(|&inst| registers_of(function, inst));
    let mut tracked: Vec<u16> =
        written.filter(|&register| convention::is_callee_saved(register) || convention::is_return_address(register)).collect();
    tracked.sort_unstable();
    tracked.dedup();
    if tracked.is_empty() {
        return Vec::new();
    }
    let entry: State = tracked.into_iter().map(|register| (register, Places::AT_ENTRY)).collect();
    describe(function, &states(function, entry))
}

/// Returns the state at the start of each block, by block index; `None` for blocks that are not reached.
fn states(function: &Function, entry: State) -> Vec<Option<State>> {
    let mut states: Vec<Option<State>> = vec![None; function.blocks.len()];
    let Some(&first) = function.layout.first() else { return states };
    states[first.position()] = Some(entry);
    let mut position_of = vec![0; function.blocks.len()];
    function.layout.iter().enumerate().for_each(|(position, block)| position_of[block.position()] = position);
    // Positions in the layout. A state only loses places, so that the iteration ends.
    let mut pending = vec![0];
    while let Some(position) = pending.pop() {
        let block = function.layout[position];
        let Some(mut state) = states[block.position()].clone() else { continue };
        function.blocks[block].insts.iter().for_each(|&inst| step(function, inst, &mut state));
        for next in successors(function, position) {
            let known = &mut states[next.position()];
            let met = match known {
                Some(known) => known.iter().zip(&state).map(|(one, two)| (one.0, one.1.meet(two.1))).collect(),
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
fn registers_of(function: &Function, inst: Inst) -> impl Iterator<Item = u16> + '_ {
    function.results(inst).iter().flat_map(|operand| match operand.kind {
        OperandKind::Register { file: RegFile::General, first, count } => first..first + u16::from(count),
        _ => 0..0,
    })
}

/// Returns the distance from the stack pointer of an access to the frame.
pub fn frame_offset(function: &Function, inst: Inst) -> Option<i64> {
    let operands = function.operands(inst);
    let at = operands.iter().position(|operand| matches!(operand.kind, OperandKind::Address(_)))?;
    let [base, offset] = operands.get(at + 1..at + 3)? else { return None };
    let is_stack_pointer = OperandKind::Register { file: RegFile::General, first: u16::from(STACK_POINTER), count: 1 } == base.kind;
    match offset.kind {
        OperandKind::Integer(offset) if is_stack_pointer => Some(offset),
        _ => None,
    }
}

/// Updates the places after an instruction.
fn step(function: &Function, inst: Inst, state: &mut State) {
    let data = &function.insts[inst];
    let single = |kind: OperandKind| match kind {
        OperandKind::Register { file: RegFile::General, first, count: 1 } => Some(first),
        _ => None,
    };
    // The last source of a copy or a store is the value.
    let source = function.sources(inst).iter().rev().find_map(|operand| single(operand.kind));
    let is_certain = data.guard.is_none();
    let holds = |places: &Places, register: u16, read: u16| register == read && places.in_itself || places.in_register == Some(read);
    match data.op.machine() {
        Some(Opcode::STL) => {
            let Some(offset) = frame_offset(function, inst) else { return };
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
                    write(places, *register, written);
                    if is_copied {
                        receive(places, *register, written);
                    }
                }
                return;
            }
        }
        Some(Opcode::LDL) if is_certain => {
            let written = function.results(inst).first().and_then(|operand| single(operand.kind));
            if let (Some(written), Some(offset)) = (written, frame_offset(function, inst)) {
                for (register, places) in state.iter_mut() {
                    write(places, *register, written);
                    if places.in_frame == Some(offset) {
                        receive(places, *register, written);
                    }
                }
                return;
            }
        }
        _ => {}
    }
    for written in registers_of(function, inst) {
        state.iter_mut().for_each(|(register, places)| write(places, *register, written));
    }
}

/// Forgets what was in a register that is written.
fn write(places: &mut Places, register: u16, written: u16) {
    places.in_itself &= register != written;
    places.in_register = places.in_register.filter(|&holder| holder != written);
}

/// Records that a register has the value.
fn receive(places: &mut Places, register: u16, written: u16) {
    match register == written {
        true => places.in_itself = true,
        false => places.in_register = Some(written),
    }
}

/// Returns the changes of the rules along the code.
fn describe(function: &Function, states: &[Option<State>]) -> Vec<SavedRule> {
    let mut rules = Vec::new();
    let mut current: Vec<SavedPlace> = Vec::new();
    let mut offset = 0;
    let place_of = |places: &Places| match *places {
        Places { in_itself: true, .. } => SavedPlace::Same,
        Places { in_frame: Some(at), .. } => SavedPlace::Below((i64::from(function.frame_bytes) - at) as u32),
        Places { in_register: Some(holder), .. } => SavedPlace::Register(holder),
        _ => SavedPlace::Lost,
    };
    for &block in &function.layout {
        let mut state = states[block.position()].clone();
        for &inst in &function.blocks[block].insts {
            // The rules apply before the instruction; code that is not reached keeps those before it.
            if let Some(state) = &mut state {
                current.resize(state.len(), SavedPlace::Same);
                for ((register, places), known) in state.iter().zip(&mut current) {
                    let place = place_of(places);
                    if place != *known {
                        rules.push(SavedRule { offset, register: *register, place });
                        *known = place;
                    }
                }
                step(function, inst, state);
            }
            offset += INSTRUCTION_BYTES as u32;
        }
    }
    rules
}
