//! Computes the new control words of a section.
//!
//! `ctrl` computes the words from register dependences. This module adds what registers do not show ([`kept_waits`]): scoreboards and waits
//! that the old words had for another reason, and the old stalls of instructions that order other operations. It also keeps a scoreboard
//! that a `DEPBAR` counts free of all other instructions.

use oriole_ctrl::flow::{MachineCode, assign};
use oriole_hardware::{Hardware, Model, SchedClass};
use oriole_isa::{Control, Instruction, Opcode};

use crate::graph::{FlowGraph, branches_to_itself};
use crate::kept_waits::{self, KeptWaits, ScoreboardEvent, Setter};

const SCOREBOARDS: usize = 6;
/// Mask of all scoreboards.
const ALL: u8 = (1 << SCOREBOARDS) - 1;
/// Stalls of at least this many cycles require that the scheduler may switch to another warp.
const YIELDING_STALL: u8 = 12;

/// Returns the control words of decoded instructions.
pub fn old_words(decoded: &[Instruction]) -> Vec<Control> {
    decoded.iter().map(|instruction| instruction.control).collect()
}

/// Returns new control words for instructions that carry their old ones. `kept` holds the waits to keep.
pub fn assign_words(decoded: &[Instruction], graph: &FlowGraph, kept: &KeptWaits, hardware: &Hardware<'_>) -> Vec<Control> {
    let model = hardware.model;
    let old = old_words(decoded);
    let mut bare: Vec<Instruction> = decoded.iter().map(without_control).collect();
    for (&(number, part), &index) in &kept.counted {
        // A fixed scoreboard in the input makes `assign` take it into account.
        *scoreboard_in(&mut bare[number].control, part) = Some(index);
    }
    let code = MachineCode { instructions: &bare, blocks: graph.blocks.clone() };
    let mut new = assign(&code, hardware);
    for (instruction, control) in decoded.iter().zip(&mut new) {
        if finishes_in_background(instruction.opcode) {
            (control.write_barrier, control.read_barrier) = (None, None);
        }
    }
    isolate_counted_scoreboards(&mut new, kept);
    keep_waits(&mut new, kept, decoded, model);
    for (number, control) in new.iter_mut().enumerate() {
        if graph.padding.contains(&number) {
            *control = old[number];
            continue;
        }
        if kept_waits::orders_operations(decoded[number].opcode) {
            keep_stall(control, old[number]);
        }
        // Decoding leaves only the reuse bits here that belong to no operand. They are part of the encoding.
        control.reuse |= old[number].reuse;
        // A warp in an endless loop must let other warps issue.
        control.stay &= !branches_to_itself(decoded, number);
    }
    lengthen_stalls_before_waits(&mut new, &code, model);
    new
}

/// Returns a copy of an instruction without its control word and reuse flags.
fn without_control(instruction: &Instruction) -> Instruction {
    let mut bare = instruction.clone();
    bare.control = Control::default();
    for operand in &mut bare.operands {
        operand.reuse = false;
    }
    bare
}

/// Returns whether an opcode is a warp-group matrix product. These signal completion on a counter of their own, for which
/// `WARPGROUP.DEPBAR` waits.
fn finishes_in_background(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::HGMMA | Opcode::IGMMA | Opcode::QGMMA | Opcode::BGMMA)
}

/// Moves all other instructions off the scoreboards that are counted, to the least-used scoreboard that is not.
fn isolate_counted_scoreboards(controls: &mut [Control], kept: &KeptWaits) {
    let taken = kept.counted.values().fold(kept.named, |mask, &index| mask | 1 << index);
    if taken == 0 || taken == ALL {
        return;
    }
    let mut times = [0; SCOREBOARDS];
    for (number, control) in controls.iter().enumerate() {
        for (part, index) in [(ScoreboardEvent::Results, control.write_barrier), (ScoreboardEvent::Reads, control.read_barrier)] {
            if let Some(index) = index.filter(|_| !kept.counted.contains_key(&(number, part))) {
                times[usize::from(index)] += 1;
            }
        }
    }
    let mut moved: [u8; SCOREBOARDS] = std::array::from_fn(|index| index as u8);
    for from in 0..SCOREBOARDS {
        if taken >> from & 1 == 0 || times[from] == 0 {
            continue;
        }
        let free = (0..SCOREBOARDS).filter(|&index| taken >> index & 1 == 0);
        let Some(to) = free.min_by_key(|&index| times[index]) else { return };
        times[to] += times[from];
        moved[from] = to as u8;
    }
    for control in controls {
        let place = |index: u8| moved[usize::from(index)];
        control.write_barrier = control.write_barrier.map(place);
        control.read_barrier = control.read_barrier.map(place);
        let waits = (0..SCOREBOARDS as u8).filter(|&index| control.wait >> index & 1 == 1);
        control.wait = waits.fold(0, |mask, index| mask | 1 << place(index));
    }
}

/// Adds the scoreboards and waits that registers do not explain.
fn keep_waits(controls: &mut [Control], kept: &KeptWaits, decoded: &[Instruction], model: &Model) {
    for (&setter, &index) in &kept.counted {
        set_scoreboard(controls, setter, index, decoded, model);
    }
    for &(setter, second) in &kept.pairs {
        let index = match scoreboard_of(controls, setter) {
            Some(index) => index,
            None => {
                set_scoreboard(controls, setter, kept.scoreboards[&setter], decoded, model);
                kept.scoreboards[&setter]
            }
        };
        controls[second].wait |= 1 << index;
    }
}

/// Returns the scoreboard that a setter sets.
fn scoreboard_of(controls: &[Control], (number, part): Setter) -> Option<u8> {
    let mut control = controls[number];
    *scoreboard_in(&mut control, part)
}

/// Makes a setter set scoreboard `index`, with the stall that its class needs for that unless it sets a scoreboard already.
fn set_scoreboard(controls: &mut [Control], (number, part): Setter, index: u8, decoded: &[Instruction], model: &Model) {
    let control = &mut controls[number];
    if scoreboard_in(control, part).replace(index).is_none() {
        control.stall = control.stall.max(model.waits(SchedClass::of(&decoded[number])).stall);
    }
}

/// Returns the field of a control word for an event.
fn scoreboard_in(control: &mut Control, part: ScoreboardEvent) -> &mut Option<u8> {
    match part {
        ScoreboardEvent::Results => &mut control.write_barrier,
        ScoreboardEvent::Reads => &mut control.read_barrier,
    }
}

/// Lengthens stalls before waits. A wait sees a scoreboard only some cycles after it was set, and a wait that was added or moved may
/// directly follow the setter.
fn lengthen_stalls_before_waits(controls: &mut [Control], code: &MachineCode<'_>, model: &Model) {
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); code.instructions.len()];
    for block in &code.blocks {
        for number in block.range.clone().skip(1) {
            before[number].push(number - 1);
        }
        let last = block.range.clone().last();
        for next in block.successors.iter().filter_map(|&next| code.blocks[next].range.clone().next()) {
            before[next].extend(last);
        }
    }
    for (second, firsts) in before.iter().enumerate() {
        for &first in firsts {
            let control = controls[first];
            let bit = |index: Option<u8>| index.map_or(0, |index| 1 << index);
            let is_waited_for = (bit(control.write_barrier) | bit(control.read_barrier)) & controls[second].wait != 0;
            if is_waited_for && control.stall != 0 {
                let seen = model.waits(SchedClass::of(&code.instructions[first])).stall;
                controls[first].stall = control.stall.max(seen);
            }
        }
    }
}

/// Keeps the stall of an instruction that orders other operations at least as long as before: registers do not show how long it delays the
/// next one. A stall of 0 together with permission to switch warps is a long stall.
fn keep_stall(control: &mut Control, old: Control) {
    if old.stall == 0 && control.stall <= 2 {
        (control.stall, control.stay) = (0, old.stay);
        return;
    }
    if old.stall > control.stall {
        control.stall = old.stall;
        control.stay = control.stay && old.stall < YIELDING_STALL;
    }
}
