//! Warp-synchronous operations: `shfl`, `vote`, `match`, `redux`, `elect`, `bar.warp.sync`.
//!
//! A thread waits until all live threads of its mask are at an operation of the same kind with the same mask, at the same or another
//! instruction. Then all of them execute it together.

use oriole_sem::float::{self, Extreme, ExtremeMode};
use oriole_sem::format::F32;
use oriole_sem::int::{S32, U32};
use oriole_sem::warp::shuffle;

use super::block::PtxBlock;
use super::warp::{ALL_LANES, LANES, PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{PtxAction, PtxProgram, ReduxOperation, SINK, WarpSyncKind, WarpSyncOperation};

impl PtxWarp {
    /// Registers threads at an operation, and executes it for those whose partners have all arrived.
    pub(crate) fn wait_together(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        together: &WarpSyncOperation,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        let Some(mask) = together.mask else {
            self.perform(machine, block, active);
            return Ok(());
        };
        for lane in lanes_of(active) {
            if machine.options.undefined_values && self.read_undefined(mask, lane) & u64::from(ALL_LANES) != 0 {
                machine.uninitialized(block, self, lane, line, "the member mask was never written");
            }
            let members = self.read(&machine.pool, mask, lane) as u32;
            if members >> lane & 1 == 0 {
                let message = format!("the executing thread is not in its member mask, {members:#x}");
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
            }
            self.together_masks[lane] = members;
        }
        self.at_together |= active;
        self.run_complete_syncs(machine, block)
    }

    /// Executes the operations whose threads have all arrived or exited.
    pub(crate) fn run_complete_syncs(&mut self, machine: &mut LaunchState<'_>, block: &mut PtxBlock) -> Result<(), Stop> {
        let mut candidates = self.at_together;
        while candidates != 0 {
            let first = candidates.trailing_zeros() as usize;
            let mask = self.together_masks[first];
            let members = mask & self.live;
            candidates &= !(1 << first);
            let kind = operation(machine.program, self.pc[first]).map(|together| together.kind);
            let fits = |lane: usize| {
                self.at_together >> lane & 1 == 1
                    && self.together_masks[lane] == mask
                    && operation(machine.program, self.pc[lane]).map(|together| together.kind) == kind
            };
            if lanes_of(members).all(fits) {
                self.at_together &= !members;
                candidates &= !members;
                self.perform(machine, block, members);
            }
        }
        Ok(())
    }

    /// Executes the operation at which each of these threads is, and advances their program counters.
    fn perform(&mut self, machine: &mut LaunchState<'_>, block: &mut PtxBlock, members: u32) {
        let program = machine.program;
        let pool = &machine.pool;
        let mut values = [[0_u64; 3]; LANES];
        let mut unknown = [0_u64; LANES];
        let mut kind = WarpSyncKind::Barrier;
        for lane in lanes_of(members) {
            let Some(together) = operation(program, self.pc[lane]) else { continue };
            kind = together.kind;
            values[lane] = together.sources.map(|source| self.read(pool, source, lane));
            let others = self.read_undefined(together.sources[1], lane) | self.read_undefined(together.sources[2], lane);
            unknown[lane] = if others != 0 { u64::MAX } else { self.read_undefined(together.sources[0], lane) };
        }
        // Votes, matches and reductions depend on every member, so one undefined input makes all results undefined.
        let any_unknown = lanes_of(members).any(|lane| unknown[lane] != 0);
        let all_undefined = if any_unknown { u64::MAX } else { 0 };
        let votes = lanes_of(members).filter(|&lane| values[lane][0] & 1 != 0).fold(0_u32, |mask, lane| mask | 1 << lane);
        if kind == WarpSyncKind::Barrier
            && let Some(races) = &mut block.races
        {
            let threads: Vec<u32> = lanes_of(members).map(|lane| self.thread(lane)).collect();
            races.synchronize(&threads, &threads);
        }
        for lane in lanes_of(members) {
            let Some(together) = operation(program, self.pc[lane]) else { continue };
            let value = values[lane][0];
            let equal =
                |bits: u64| lanes_of(members).filter(|&other| values[other][0] == bits).fold(0_u32, |mask, other| mask | 1 << other);
            let (first, second, taint) = match kind {
                WarpSyncKind::Barrier | WarpSyncKind::Converge => (0, 0, 0),
                WarpSyncKind::Shuffle(mode) => {
                    let (source, in_range) = shuffle(mode, lane as u32, values[lane][1] as u32, values[lane][2] as u32);
                    let source = source as usize & 31;
                    let taint = if members >> source & 1 == 0 || unknown[lane] == u64::MAX { u64::MAX } else { unknown[source] };
                    let in_group = if members >> source & 1 == 1 { source } else { lane };
                    (values[in_group][0] & u64::from(ALL_LANES), u64::from(in_range), taint)
                }
                WarpSyncKind::VoteAll => (u64::from(votes == members), 0, all_undefined),
                WarpSyncKind::VoteAny => (u64::from(votes != 0), 0, all_undefined),
                WarpSyncKind::VoteUni => (u64::from(votes == 0 || votes == members), 0, all_undefined),
                WarpSyncKind::Ballot => (u64::from(votes), 0, all_undefined),
                WarpSyncKind::MatchAny => (u64::from(equal(value)), 0, all_undefined),
                WarpSyncKind::MatchAll => {
                    let same = equal(value) == members;
                    (if same { u64::from(members) } else { 0 }, u64::from(same), all_undefined)
                }
                WarpSyncKind::Reduce(reduction) => {
                    let all: Vec<u64> = lanes_of(members).map(|other| values[other][0]).collect();
                    (reduced(reduction, &all), 0, all_undefined)
                }
                WarpSyncKind::Elect => {
                    let leader = members.trailing_zeros();
                    (u64::from(leader), u64::from(leader == lane as u32), 0)
                }
            };
            let in_range_taint = if matches!(kind, WarpSyncKind::Shuffle(_)) { 0 } else { taint };
            let [to, beside] = together.destinations;
            if beside != SINK {
                self.write_with(beside, lane, second, in_range_taint);
            }
            if to != SINK {
                self.write_with(to, lane, first, taint);
            }
        }
        for lane in lanes_of(members) {
            self.pc[lane] += 1;
        }
    }
}

/// Returns the operation at a program counter.
fn operation(program: &PtxProgram, pc: u32) -> Option<&WarpSyncOperation> {
    match &program.code[pc as usize].action {
        PtxAction::Together(together) => Some(together),
        _ => None,
    }
}

/// Reduces the values of all members to one 32-bit value.
fn reduced(reduction: ReduxOperation, values: &[u64]) -> u64 {
    let all = values.iter().map(|&value| value & u64::from(ALL_LANES));
    let result = match reduction {
        ReduxOperation::Add => all.reduce(|a, b| U32.add(a, b)),
        ReduxOperation::And => all.reduce(|a, b| a & b),
        ReduxOperation::Or => all.reduce(|a, b| a | b),
        ReduxOperation::Xor => all.reduce(|a, b| a ^ b),
        ReduxOperation::Min { signed } => all.reduce(|a, b| if signed { S32 } else { U32 }.min(a, b)),
        ReduxOperation::Max { signed } => all.reduce(|a, b| if signed { S32 } else { U32 }.max(a, b)),
        ReduxOperation::Float { is_max, absolute, nan } => {
            let mode = ExtremeMode { nan, ..ExtremeMode::default() };
            let which = if is_max { Extreme::Max } else { Extreme::Min };
            all.map(|value| if absolute { float::abs(F32, value, false) } else { value })
                .reduce(|a, b| float::min_max(F32, which, a, b, mode))
        }
    };
    result.unwrap_or(0)
}
