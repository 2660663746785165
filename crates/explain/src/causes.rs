//! The causes of each stall, so that their cycles add up to the stall in the file, and the reasons of waits.
//!
//! `ctrl` records what each cycle that it adds to a stall is for. If the file has another stall, because another compiler wrote it or the
//! code was compiled without optimization, the difference has a cause of its own: cycles that no dependence needs, or causes that the file
//! covers with fewer cycles.

use oriole_ctrl::flow::reasons::{describe_stall, describe_wait, stall_origin};
use oriole_ctrl::flow::stalls::{StallCause as FlowCause, StallPart};
use oriole_ctrl::flow::waits::Wait as FlowWait;

use crate::code::{DecodedFunction, SIZE};
use crate::model::{ScoreboardSet, StallCause, Wait};
use crate::scoreboards::Scoreboards;

/// The reasons of the control words of a function.
pub struct Causes<'a> {
    code: &'a DecodedFunction<'a>,
    scoreboards: Scoreboards,
    /// For each instruction, the waits that it makes according to `ctrl`.
    waits: Vec<Vec<FlowWait>>,
    /// What cycles are for that no dependence needs.
    extra: &'static str,
}

impl<'a> Causes<'a> {
    /// Finds the reasons. `is_serial` says that the code was compiled without optimization.
    pub fn new(code: &'a DecodedFunction<'a>, is_serial: bool) -> Causes<'a> {
        let extra = match is_serial {
            true => "at -O0 each instruction waits until the previous one is complete",
            false => "no dependence that Oriole knows needs these cycles",
        };
        let waits = code.analysis.reasons.waits_by_waiting_inst(code.instructions().len());
        Causes { code, scoreboards: Scoreboards::compute(code), waits, extra }
    }

    /// Returns the parts of the stall after an instruction. Their cycles add up to the stall.
    pub fn of_stall(&self, number: usize) -> Vec<StallCause> {
        let stall = self.code.controls[number].stall;
        let mut left = stall;
        let mut causes = Vec::new();
        for part in self.code.analysis.reasons.stalls.get(number).into_iter().flatten() {
            let cycles = part.cycles.min(left);
            left -= cycles;
            if cycles > 0 {
                causes.push(self.cause(number, part, cycles));
            }
        }
        if left > 0 {
            causes.push(StallCause { cycles: left, kind: "extra".to_owned(), text: self.extra.to_owned(), first: None, second: None });
        }
        causes
    }

    fn cause(&self, number: usize, part: &StallPart, cycles: u8) -> StallCause {
        let kind = match part.cause {
            FlowCause::MinimumStall => "minimum",
            FlowCause::Register { .. } => "register",
            FlowCause::Scoreboard { .. } => "scoreboard",
            FlowCause::Barrier { .. } => "barrier",
            FlowCause::Unit { .. } => "unit",
            FlowCause::ControlTransfer { .. } => "transfer",
        };
        let own = part.cause == FlowCause::MinimumStall;
        let (first, second) = (stall_origin(part.cause), part.second as usize);
        let text = if own {
            "the least stall of this instruction".to_owned()
        } else {
            let second_name = if second == number + 1 { "the next instruction".to_owned() } else { self.code.place(second) };
            let first_name = first.map_or_else(String::new, |first| match first == number {
                true => "this instruction".to_owned(),
                false => self.code.place(first),
            });
            describe_stall(part.cause, self.code.instructions().get(second), &second_name, &first_name)
        };
        let address = |number: usize| (number * SIZE) as u64;
        StallCause { cycles, kind: kind.to_owned(), text, first: first.map(address), second: (!own).then(|| address(second)) }
    }

    /// Returns the scoreboards that an instruction waits for.
    pub fn of_wait(&self, number: usize) -> Vec<Wait> {
        let describe = |(board, producers): &(u8, Vec<u32>)| Wait {
            scoreboard: *board,
            producers: producers.iter().map(|&producer| u64::from(producer) * SIZE as u64).collect(),
            text: self.describe_wait(number, producers),
        };
        self.scoreboards.waits[number].iter().map(describe).collect()
    }

    /// Describes why an instruction waits for a scoreboard.
    fn describe_wait(&self, number: usize, producers: &[u32]) -> String {
        let known: Vec<String> = self.waits[number]
            .iter()
            .filter(|wait| producers.contains(&wait.first))
            .map(|wait| describe_wait(wait, &self.code.instructions()[number], &self.code.place(wait.first as usize)))
            .collect();
        match (known.is_empty(), producers) {
            (false, _) => known.join("; "),
            (true, []) => "no instruction of this function sets it before".to_owned(),
            (true, producers) => self.describe_access(number, producers[producers.len() - 1] as usize),
        }
    }

    /// Describes a wait that `ctrl` would not make here, by the registers of both instructions.
    fn describe_access(&self, number: usize, producer: usize) -> String {
        let code = self.code;
        let place = code.place(producer);
        let shared = |verb: &str, registers: crate::code::RegisterSet| {
            registers.iter().next().map(|register| format!("{verb} R{register} of {place}"))
        };
        let read = shared("reads", code.reads(number).intersection(code.writes(producer)));
        let overwritten = || shared("overwrites", code.writes(number).intersection(code.reads(producer).union(code.writes(producer))));
        read.or_else(overwritten).unwrap_or_else(|| format!("waits for {place}; a later instruction may need it"))
    }

    /// Returns the scoreboards that an instruction sets.
    pub fn of_sets(&self, number: usize) -> Vec<ScoreboardSet> {
        let control = self.code.controls[number];
        let events = [(control.write_barrier, "results"), (control.read_barrier, "reads")];
        let set = |(board, event): (Option<u8>, &str)| {
            let board = board?;
            let mut readers: Vec<u64> = self.scoreboards.readers[number]
                .iter()
                .filter(|(other, _)| *other == board)
                .map(|&(_, reader)| u64::from(reader) * SIZE as u64)
                .collect();
            readers.sort_unstable();
            readers.dedup();
            Some(ScoreboardSet { scoreboard: board, event: event.to_owned(), readers })
        };
        events.into_iter().filter_map(set).collect()
    }
}
