//! Finds the waits in the original control words that register dependences do not explain.
//!
//! Most scoreboards signal that registers were written or read, and `ctrl` recomputes those. Some signal more: that a group of asynchronous
//! copies has arrived (`LDGDEPBAR`), that an atomic operation without a result was performed before a cache is invalidated, or that a
//! barrier in shared memory has been initialized. No register shows which instruction must wait for these. So the original waits are read:
//! a forward data-flow analysis finds, along all paths, pairs of an instruction that sets a scoreboard and an instruction that waits for
//! it. Pairs that registers explain are dropped; the others must also hold in the new control words.
//!
//! ```text
//! [W0] LDG R8 ; [waits 0] FADD R9, R8, R8          dropped: R8 explains the wait
//! [W0] SYNCS.EXCH.64 URZ ; [waits 0] BAR.SYNC 0    kept: no register connects the two
//! [W0] LDS R8 ; [waits 0] NOP                      kept: the NOP of an acquiring load only waits
//! ```
//!
//! `DEPBAR.LE SB0, 0x2` waits until at most two instructions that set scoreboard 0 are outstanding. It names the scoreboard, so the counted
//! instructions without register results must keep setting this one. Another instruction that sets the scoreboard can only make the wait
//! longer, never shorter.

use std::collections::{BTreeMap, BTreeSet};

use oriole_ctrl::flow::MachineBlock;
use oriole_isa::{Control, Instruction, Opcode, OperandValue, RegFile, accesses};

use crate::UnchangedReason;

/// The event that a scoreboard signals.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ScoreboardEvent {
    /// The results are written (write barrier).
    Results,
    /// The operands are read (read barrier).
    Reads,
}

/// An instruction that sets a scoreboard: its number and the event.
pub type Setter = (usize, ScoreboardEvent);

/// The waits that the new control words must keep.
#[derive(Debug, Default)]
pub struct KeptWaits {
    /// Pairs of a setter and the instruction that waits for it.
    pub pairs: BTreeSet<(Setter, usize)>,
    /// Setters that must keep their scoreboard because a `DEPBAR` counts it.
    pub counted: BTreeMap<Setter, u8>,
    /// Scoreboards that some `DEPBAR` counts, one bit each. Includes those on which only instructions with register results are
    /// outstanding.
    pub named: u8,
    /// The original scoreboard of each setter in `pairs`.
    pub scoreboards: BTreeMap<Setter, u8>,
}

impl KeptWaits {
    /// Returns the same waits after instructions moved; `places` holds the new number of each instruction.
    pub fn renumbered(&self, places: &[usize]) -> KeptWaits {
        let setter = |(number, part): Setter| (places[number], part);
        KeptWaits {
            pairs: self.pairs.iter().map(|&(first, second)| (setter(first), places[second])).collect(),
            counted: self.counted.iter().map(|(&first, &index)| (setter(first), index)).collect(),
            named: self.named,
            scoreboards: self.scoreboards.iter().map(|(&first, &index)| (setter(first), index)).collect(),
        }
    }
}

const SCOREBOARDS: usize = 6;

/// Data-flow state: for each scoreboard, the setters that may be outstanding.
type SetterState = [BTreeSet<Setter>; SCOREBOARDS];

/// Finds the waits to keep by iterating over the blocks until the states no longer change.
pub fn find_kept_waits(instructions: &[Instruction], controls: &[Control], blocks: &[MachineBlock]) -> Result<KeptWaits, UnchangedReason> {
    let roles: Vec<WaitRole> = instructions.iter().map(WaitRole::of).collect();
    let mut analysis = WaitAnalysis { controls, roles: &roles, kept: KeptWaits::default() };
    let mut entry: Vec<Option<SetterState>> = vec![None; blocks.len()];
    entry[0] = Some(SetterState::default());
    let mut todo: BTreeSet<usize> = [0].into();
    while let Some(block) = todo.pop_first() {
        let Some(mut state) = entry[block].clone() else { continue };
        for number in blocks[block].range.clone() {
            analysis.issue(number, &mut state)?;
        }
        for &next in &blocks[block].successors {
            if merge(&mut entry[next], &state) {
                todo.insert(next);
            }
        }
    }
    Ok(analysis.kept)
}

/// Adds a state at the end of a block to the entry state of a successor. Returns whether the entry state changed.
fn merge(into: &mut Option<SetterState>, from: &SetterState) -> bool {
    let Some(state) = into else {
        *into = Some(from.clone());
        return true;
    };
    let mut changed = false;
    for (old, new) in state.iter_mut().zip(from) {
        let before = old.len();
        old.extend(new);
        changed |= old.len() != before;
    }
    changed
}

/// The properties of an instruction that matter for waits.
struct WaitRole {
    /// Whether it writes registers.
    writes: bool,
    /// Whether it reads registers other than its guard.
    reads: bool,
    /// Whether other threads may observe when it happens. All waits for it are kept.
    is_seen: bool,
    /// Whether it orders other operations. All of its waits are kept.
    orders: bool,
    /// For a counting `DEPBAR`: the scoreboard, and the number of setters that may remain outstanding.
    counts: Option<(usize, u64)>,
    /// Scoreboards that it waits for through an operand instead of the wait mask, one bit each.
    drains: u8,
}

impl WaitRole {
    fn of(instruction: &Instruction) -> WaitRole {
        let has_hazards =
            |file: RegFile| matches!(file, RegFile::General | RegFile::Predicate | RegFile::Uniform | RegFile::UniformPredicate);
        let touched = accesses(instruction);
        let touches =
            |written: bool| touched.iter().any(|access| access.written == written && has_hazards(access.file) && !access.is_guard());
        let (counts, drains) = counted(instruction);
        WaitRole {
            writes: touches(true),
            reads: touches(false),
            is_seen: is_seen(instruction),
            // After an acquiring load there is a `NOP` whose only purpose is to wait.
            orders: orders_operations(instruction.opcode) || instruction.opcode == Opcode::NOP,
            counts,
            drains,
        }
    }
}

/// Returns the scoreboard and count that a `DEPBAR` names, and the set of scoreboards that it drains.
fn counted(instruction: &Instruction) -> (Option<(usize, u64)>, u8) {
    if instruction.opcode != Opcode::DEPBAR {
        return (None, 0);
    }
    let (mut scoreboard, mut left, mut drains) = (None, 0, 0);
    for operand in &instruction.operands {
        match operand.value {
            OperandValue::Register(RegFile::Scoreboard, number) => scoreboard = number.map(usize::from),
            OperandValue::Integer(number) => left = number as u64,
            OperandValue::Set(set) => drains |= set as u8,
            _ => {}
        }
    }
    (scoreboard.filter(|&index| index < SCOREBOARDS).map(|index| (index, left)), drains)
}

/// Returns whether other threads may observe the order of an access.
fn is_seen(instruction: &Instruction) -> bool {
    let strong = |spelling: &str| spelling.contains(".STRONG") || spelling.contains(".MMIO");
    let atomic = matches!(
        instruction.opcode,
        Opcode::ATOM | Opcode::ATOMG | Opcode::ATOMS | Opcode::RED | Opcode::REDG | Opcode::REDAS | Opcode::SYNCS
    );
    atomic || instruction.modifiers.iter().any(|modifier| strong(modifier.spelling()))
}

/// Returns whether an opcode orders other operations: barriers, fences, asynchronous copies, and waits for them.
pub fn orders_operations(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::CCTL
            | Opcode::CCTLL
            | Opcode::MEMBAR
            | Opcode::FENCE
            | Opcode::ERRBAR
            | Opcode::CGAERRBAR
            | Opcode::DEPBAR
            | Opcode::LDGDEPBAR
            | Opcode::ARRIVES
            | Opcode::SYNCS
            | Opcode::BAR
            | Opcode::UCGABAR_ARV
            | Opcode::UCGABAR_WAIT
            | Opcode::ACQBULK
            | Opcode::PREEXIT
            | Opcode::USETMAXREG
            | Opcode::ENDCOLLECTIVE
            | Opcode::WARPGROUP
            | Opcode::UTMACMDFLUSH
            | Opcode::UTMACCTL
            | Opcode::UTMALDG
            | Opcode::UTMASTG
            | Opcode::UTMAREDG
            | Opcode::UTMAPF
            | Opcode::UBLKCP
            | Opcode::UBLKPF
            | Opcode::UBLKRED
            | Opcode::UMEMSETS
            | Opcode::UTCBAR
            | Opcode::UTCATOMSWS
            | Opcode::UTCCP
            | Opcode::UTCSHIFT
            | Opcode::UTCHMMA
            | Opcode::UTCIMMA
            | Opcode::UTCOMMA
            | Opcode::UTCQMMA
            | Opcode::UVIRTCOUNT
            | Opcode::UGETNEXTWORKID
    )
}

/// The state of the data-flow analysis.
struct WaitAnalysis<'a> {
    controls: &'a [Control],
    roles: &'a [WaitRole],
    kept: KeptWaits,
}

impl WaitAnalysis<'_> {
    /// Updates the state for one instruction and records the pairs to keep.
    fn issue(&mut self, number: usize, state: &mut SetterState) -> Result<(), UnchangedReason> {
        let (control, role) = (self.controls[number], &self.roles[number]);
        if let Some((scoreboard, left)) = role.counts {
            self.count(number, scoreboard, left, &mut state[scoreboard])?;
        }
        for scoreboard in (0..SCOREBOARDS).filter(|&index| (control.wait | role.drains) >> index & 1 == 1) {
            for setter in std::mem::take(&mut state[scoreboard]) {
                if !self.is_explained(setter, number) {
                    self.kept.pairs.insert((setter, number));
                    self.kept.scoreboards.insert(setter, scoreboard as u8);
                }
            }
        }
        for (part, barrier) in [(ScoreboardEvent::Results, control.write_barrier), (ScoreboardEvent::Reads, control.read_barrier)] {
            if let Some(set) = barrier.and_then(|index| state.get_mut(usize::from(index))) {
                set.insert((number, part));
            }
        }
        Ok(())
    }

    /// Handles a `DEPBAR` that leaves `left` setters outstanding. It is meant for setters without registers, which are recorded as counted.
    fn count(&mut self, number: usize, scoreboard: usize, left: u64, outstanding: &mut BTreeSet<Setter>) -> Result<(), UnchangedReason> {
        let (with, without): (Vec<Setter>, Vec<Setter>) = outstanding.iter().copied().partition(|&setter| self.has_registers(setter));
        if left > 0 && !with.is_empty() && !without.is_empty() {
            return Err(UnchangedReason::MixedCount { at: number as u64 });
        }
        if left > 0 {
            self.kept.named |= 1 << scoreboard;
        }
        self.kept.counted.extend(without.into_iter().map(|setter| (setter, scoreboard as u8)));
        if left == 0 {
            outstanding.clear();
        }
        Ok(())
    }

    /// Returns whether the event of a setter concerns registers, so that `ctrl` recomputes its waits.
    fn has_registers(&self, (number, part): Setter) -> bool {
        match part {
            ScoreboardEvent::Results => self.roles[number].writes,
            ScoreboardEvent::Reads => self.roles[number].reads,
        }
    }

    /// Returns whether register dependences alone determine that `second` waits for the setter.
    fn is_explained(&self, setter: Setter, second: usize) -> bool {
        self.has_registers(setter) && !self.roles[setter.0].is_seen && !self.roles[second].orders
    }
}
