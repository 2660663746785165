//! Creates the list of experiments, which is stored as a file next to their cubins.

use std::path::Path;

use oriole_isa::{Latency, Pipe, Target, parse};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use crate::assembler::Assembler;
use crate::hazard::{self, Hazard, Load, Pair};
use crate::table::{self, PairMember, RegFile};
use crate::timing::{self, Timing};

pub const PLAN_FILE: &str = "plan.json";

/// All experiments of a run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Plan {
    pub target: String,
    pub experiments: Vec<Experiment>,
    /// Experiments that the target cannot encode, with the reason.
    pub skipped: Vec<String>,
}

/// One kernel, and the question it answers.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Experiment {
    pub cubin: String,
    pub question: Question,
}

/// The question of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Question {
    /// From which distance on does a pair of instructions give the correct result?
    Distance {
        hazard: Hazard,
        file: String,
        first: String,
        second: String,
        word: u32,
        load: Load,
        longest_cycles: u32,
        needs_two_ends: bool,
    },
    /// How many cycles does a sequence take?
    Time(Timing),
}

/// A kernel before it is assembled.
enum Job {
    Pair(Pair),
    Timing(Timing),
}

/// Returns all pairs that make sense on any target.
pub fn pairs() -> Vec<Pair> {
    let producers = table::producers();
    let mut pairs = Vec::new();
    for first in &producers {
        for second in table::consumers() {
            pairs.extend(words_of(first, &second).into_iter().map(|word| pair(Hazard::Raw, first, &second, word)));
        }
        for second in table::second_writers().into_iter().filter(|second| {
            second.place.file == first.place.file && first.place.pointer_word.is_none() && first.place.group_word.is_none()
        }) {
            pairs.push(pair(Hazard::Waw, first, &second, 0));
        }
    }
    for first in table::readers() {
        for second in table::second_writers().into_iter().filter(|second| second.place.file == first.place.file) {
            pairs.push(pair(Hazard::War, &first, &second, 0));
        }
    }
    for first in table::scoreboard_setters() {
        for second in
            table::consumers().into_iter().filter(|second| WAITERS.contains(&second.name) && second.place.file == first.place.file)
        {
            pairs.push(pair(Hazard::Scoreboard, &first, &second, 0));
        }
    }
    let busy: Vec<Pair> = pairs
        .iter()
        .filter(|pair| !NEEDS_QUIET.contains(&pair.second.name))
        .map(|pair| Pair { load: Load::Busy, ..pair.clone() })
        .collect();
    pairs.extend(busy);
    pairs
}

/// Consumers in which all warps of the block would have to take part.
const NEEDS_QUIET: [&str; 1] = ["BAR.RED"];

/// Consumers that are tried with scoreboards.
const WAITERS: [&str; 10] = ["IADD3.a", "IMAD.a", "FADD.a", "HADD2.a", "STG.data", "SHFL.data", "UR.MOV", "UIADD3.a", "SEL.p", "guard.MOV"];

/// Returns the words of a result that a consumer is tried with: the first, and the last of a longer result.
fn words_of(first: &PairMember, second: &PairMember) -> Vec<u32> {
    let (written, read) = (first.place, second.place);
    if let Some(word) = written.group_word {
        return if read.file == written.file && read.words > word { vec![0] } else { Vec::new() };
    }
    let is_misfit = (read.is_address && written.words > 1) || (written.is_large && second.name.contains(".addr"));
    if written.file != read.file || is_misfit || written.pointer_word != read.pointer_word {
        return Vec::new();
    }
    let last = written.words - 1;
    if read.words == 1 && last > 0 { vec![0, last] } else { vec![0] }
}

fn pair(hazard: Hazard, first: &PairMember, second: &PairMember, word: u32) -> Pair {
    Pair { hazard, first: first.clone(), second: second.clone(), word, longest_cycles: longest_cycles(first), load: Load::Quiet }
}

/// Returns the longest distance in cycles to try after an instruction.
fn longest_cycles(first: &PairMember) -> u32 {
    let pipe = parse(&hazard::last_part(first.text).replace("{new}", "0x0").replace("{pattern}", "0x0").replace("{D}", "R4"))
        .map(|instruction| instruction.opcode.properties().pipe);
    match (first.place.file, pipe) {
        (_, Ok(Pipe::Tensor)) => 48,
        (_, Ok(Pipe::Double | Pipe::Lsu | Pipe::Xu)) => 40,
        (RegFile::General, _) => 20,
        _ => 26,
    }
}

/// Writes all cubins and the plan.
pub fn generate(target: Target, folder: &Path, filter: Option<&str>) -> Result<Plan, String> {
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut jobs: Vec<Job> = timing::all(target).into_iter().map(Job::Timing).collect();
    jobs.extend(pairs().into_iter().map(Job::Pair));
    let wanted = |job: &Job| filter.is_none_or(|words| words.split(',').any(|word| question(job).name().contains(word)));
    let jobs: Vec<Job> = jobs.into_iter().filter(wanted).collect();
    let outcomes: Vec<Result<Experiment, String>> = jobs
        .par_iter()
        .enumerate()
        .map_init(|| Assembler::new(target), |assembler, (number, job)| build(assembler, folder, number, job))
        .collect();
    let mut plan = Plan { target: target.to_string(), experiments: Vec::new(), skipped: Vec::new() };
    for outcome in outcomes {
        match outcome {
            Ok(experiment) => plan.experiments.push(experiment),
            Err(why) => plan.skipped.push(why),
        }
    }
    plan.skipped.sort();
    plan.skipped.dedup();
    let text = serde_json::to_string(&plan).map_err(|error| error.to_string())?;
    let path = folder.join(PLAN_FILE);
    std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(plan)
}

fn question(job: &Job) -> Question {
    match job {
        Job::Pair(pair) => Question::Distance {
            hazard: pair.hazard,
            file: pair.first.place.file.to_string(),
            first: pair.first.name.into(),
            second: pair.second.name.into(),
            word: pair.word,
            load: pair.load,
            longest_cycles: pair.longest_cycles,
            needs_two_ends: pair.first.place.pointer_word.is_some(),
        },
        Job::Timing(timing) => Question::Time(timing.clone()),
    }
}

impl Question {
    /// Returns the names of the instructions.
    pub fn sides(&self) -> Vec<String> {
        match self {
            Question::Distance { hazard, first, second, .. } => {
                vec![format!("{hazard:?} first {first}"), format!("{hazard:?} second {second}")]
            }
            Question::Time(timing) => vec![timing.full_name()],
        }
    }

    /// Returns a text that identifies the question.
    pub fn name(&self) -> String {
        match self {
            Question::Distance { hazard, file, first, second, word, load, .. } => {
                format!("{load:?} {hazard:?} {file} {first} {second} {word}").to_lowercase()
            }
            Question::Time(timing) => timing.full_name(),
        }
    }
}

fn build(assembler: &mut Assembler, folder: &Path, number: usize, job: &Job) -> Result<Experiment, String> {
    let bytes = match job {
        Job::Pair(pair) => {
            check_latency(assembler.target, pair)?;
            hazard::kernel(assembler, pair)?
        }
        Job::Timing(timing) => timing::kernel(assembler, timing)?,
    };
    let cubin = format!("{number:05}.cubin");
    let path = folder.join(&cubin);
    std::fs::write(&path, bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(Experiment { cubin, question: question(job) })
}

/// Rejects pairs whose result needs a scoreboard on the target, because distance alone cannot cover it.
fn check_latency(target: Target, pair: &Pair) -> Result<(), String> {
    if matches!(pair.hazard, Hazard::War | Hazard::Scoreboard) {
        return Ok(());
    }
    let text = hazard::last_part(pair.first.text).replace("{new}", "0x0");
    let instruction = parse(&text).map_err(|error| format!("{text}: {error}"))?;
    if instruction.opcode.properties().latency(target) == Latency::Variable {
        return Err(format!("{}: variable latency on {target}", pair.first.name));
    }
    Ok(())
}
