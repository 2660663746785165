//! Finds for each wait the instructions that set the scoreboard, and for each scoreboard that is set the instructions that wait for it.
//!
//! A forward data-flow analysis on the control words in the file, so that it holds for code from any compiler. A scoreboard counts: after
//! two instructions have set it, a wait is for both.

use oriole_isa::RegFile;

use crate::code::DecodedFunction;

/// Number of scoreboards.
const SCOREBOARDS: usize = 6;
/// Largest number of instructions to follow for one scoreboard.
const MOST_SETTERS: usize = 8;

/// For each scoreboard the instructions that may have set it last, in ascending order.
type LastSetters = [Vec<u32>; SCOREBOARDS];

/// The instructions that wait for scoreboards, and those that set the scoreboards.
pub struct Scoreboards {
    /// For each instruction: the scoreboards that it waits for, with the instructions that set them.
    pub waits: Vec<Vec<(u8, Vec<u32>)>>,
    /// For each instruction: the scoreboards that it sets, with the instructions that wait for them.
    pub readers: Vec<Vec<(u8, u32)>>,
}

impl Scoreboards {
    /// Analyses the control words of a function.
    pub fn compute(code: &DecodedFunction<'_>) -> Scoreboards {
        let mut entry: Vec<Option<LastSetters>> = vec![None; code.blocks().len()];
        let mut pending: Vec<usize> = Vec::new();
        for &root in code.blocks().first().map_or(&[][..], |block| &block.successors) {
            entry[root] = Some(LastSetters::default());
            pending.push(root);
        }
        let mut is_pending = vec![false; code.blocks().len()];
        while let Some(block) = pending.pop() {
            is_pending[block] = false;
            let Some(mut state) = entry[block].clone() else { continue };
            for number in code.blocks()[block].range.clone() {
                step(code, number, &mut state, None);
            }
            for &next in &code.blocks()[block].successors {
                if merge(&mut entry[next], &state) && !std::mem::replace(&mut is_pending[next], true) {
                    pending.push(next);
                }
            }
        }
        let length = code.instructions().len();
        let mut found = Scoreboards { waits: vec![Vec::new(); length], readers: vec![Vec::new(); length] };
        for (block, state) in entry.into_iter().enumerate() {
            let mut state = state.unwrap_or_default();
            for number in code.blocks()[block].range.clone() {
                step(code, number, &mut state, Some(&mut found));
            }
        }
        found
    }
}

/// Updates the state at an instruction, and records what it waits for.
fn step(code: &DecodedFunction<'_>, number: usize, state: &mut LastSetters, mut found: Option<&mut Scoreboards>) {
    let control = code.controls[number];
    let mut wait = |board: usize, clears: bool| {
        let Some(setters) = state.get_mut(board) else { return };
        if let Some(found) = found.as_deref_mut() {
            for &setter in setters.iter() {
                found.readers[setter as usize].push((board as u8, number as u32));
            }
            found.waits[number].push((board as u8, setters.clone()));
        }
        if clears {
            setters.clear();
        }
    };
    (0..SCOREBOARDS).filter(|board| control.wait >> board & 1 == 1).for_each(|board| wait(board, true));
    // `DEPBAR` waits until a number of operations is left, so some of them stay in flight.
    for access in code.accesses[number].iter().filter(|access| access.file == RegFile::Scoreboard) {
        access.registers().for_each(|board| wait(usize::from(board), false));
    }
    for board in [control.write_barrier, control.read_barrier].into_iter().flatten() {
        if let Some(setters) = state.get_mut(usize::from(board)) {
            add(setters, number as u32);
        }
    }
}

/// Adds an instruction to a sorted list, unless the list is full.
fn add(setters: &mut Vec<u32>, number: u32) -> bool {
    match setters.binary_search(&number) {
        Err(place) if setters.len() < MOST_SETTERS => {
            setters.insert(place, number);
            true
        }
        _ => false,
    }
}

/// Adds a state to the one at the start of a block. Returns whether that changed.
fn merge(known: &mut Option<LastSetters>, other: &LastSetters) -> bool {
    let Some(known) = known else {
        *known = Some(other.clone());
        return true;
    };
    let mut is_changed = false;
    for (known, other) in known.iter_mut().zip(other) {
        for &number in other {
            is_changed |= add(known, number);
        }
    }
    is_changed
}
