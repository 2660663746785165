//! Formats results as tables for people, and as one line per figure for programs.

use std::collections::HashMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::analyze::{is_ragged, slope, smallest};
use crate::hazard::{Hazard, Load};
use crate::plan::Question;
use crate::run::{Answer, ExperimentResult, Machine};
use crate::timing::Timing;

/// Reads results, prints tables, and writes the figures if a path is given. Later files override earlier ones.
pub fn report(results: &[PathBuf], tsv: Option<&Path>) -> Result<(), String> {
    let mut machine = None;
    let mut outcomes: Vec<ExperimentResult> = Vec::new();
    let mut places: HashMap<String, usize> = HashMap::new();
    for path in results {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let (this_machine, more) = read(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        machine.get_or_insert(this_machine);
        for outcome in more {
            let place = *places.entry(outcome.question.name()).or_insert(outcomes.len());
            if place == outcomes.len() { outcomes.push(outcome) } else { outcomes[place] = outcome }
        }
    }
    let machine = machine.ok_or("no results")?;
    let figures = Figures::new(&outcomes);
    if let Some(path) = tsv {
        std::fs::write(path, figures.tsv(&machine)).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    print!("{}", figures.tables());
    Ok(())
}

/// Parses a file of results into the machine and the outcomes.
pub fn read(text: &str) -> Result<(Machine, Vec<ExperimentResult>), String> {
    let mut lines = text.lines();
    let machine = serde_json::from_str(lines.next().ok_or("the file is empty")?).map_err(|error| format!("line 1: {error}"))?;
    let outcome = |(index, line): (usize, &str)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 2));
    Ok((machine, lines.enumerate().map(outcome).collect::<Result<_, _>>()?))
}

/// The figures of a pair of instructions.
#[derive(Clone, Debug, PartialEq)]
pub struct PairFigure {
    pub hazard: Hazard,
    pub file: String,
    pub first: String,
    pub second: String,
    pub word: u32,
    /// On an idle and on a busy multiprocessor: a number of cycles, `-` if no distance was enough, `?` if unknown, empty if not tried.
    pub quiet: String,
    pub busy: String,
    pub remark: String,
}

/// The figures of a sequence.
#[derive(Clone, Debug, PartialEq)]
pub struct TimeFigure {
    pub group: String,
    pub name: String,
    pub warps: u32,
    pub counted: u32,
    /// Cycles of one copy of the body; `None` if the experiment failed.
    pub cycles: Option<f64>,
    pub remark: String,
}

/// All figures, in the order of the plan.
#[derive(Default)]
pub struct Figures {
    pub pairs: Vec<PairFigure>,
    pub times: Vec<TimeFigure>,
}

impl Figures {
    pub fn new(outcomes: &[ExperimentResult]) -> Figures {
        let mut figures = Figures::default();
        let mut places: HashMap<(Hazard, &str, &str, &str, u32), usize> = HashMap::new();
        for outcome in outcomes {
            match &outcome.question {
                Question::Distance { hazard, file, first, second, word, load, .. } => {
                    let place = *places.entry((*hazard, file, first, second, *word)).or_insert(figures.pairs.len());
                    if place == figures.pairs.len() {
                        figures.pairs.push(PairFigure {
                            hazard: *hazard,
                            file: file.clone(),
                            first: first.clone(),
                            second: second.clone(),
                            word: *word,
                            quiet: String::new(),
                            busy: String::new(),
                            remark: String::new(),
                        });
                    }
                    figures.pairs[place].add(*load, &outcome.answer);
                }
                Question::Time(timing) => figures.times.push(time_figure(timing, &outcome.answer)),
            }
        }
        figures
    }

    /// Returns one line per figure, columns separated by tabs.
    pub fn tsv(&self, machine: &Machine) -> String {
        let Machine { device, architecture, cuda_version, target } = machine;
        let (major, minor) = (cuda_version / 1000, cuda_version % 1000 / 10);
        let mut out = format!(
            "# Measured by tools/microbench on {device} (sm_{architecture}), code for {target}, driver for CUDA {major}.{minor}.\n"
        );
        out.push_str(HEADER);
        for figure in &self.pairs {
            let PairFigure { hazard, file, first, second, word, quiet, busy, remark } = figure;
            let kind = kind(*hazard);
            let _ = writeln!(out, "{kind}\t{file}\t{first}\t{second}\t{word}\t{quiet}\t{busy}\t{remark}");
        }
        for figure in &self.times {
            let TimeFigure { group, name, warps, counted, cycles, remark } = figure;
            let cycles = cycles.map_or("?".into(), |cycles| format!("{cycles:.3}"));
            let _ = writeln!(out, "time\t{group}\t{name}\t{warps}\t{counted}\t{cycles}\t{remark}");
        }
        out
    }

    /// Returns grids of distances, with instructions that behave alike in one row or column, and a table of times.
    pub fn tables(&self) -> String {
        let mut out = String::new();
        for hazard in [Hazard::Raw, Hazard::Waw, Hazard::War, Hazard::Scoreboard] {
            for file in ["R", "P", "UR", "UP"] {
                let pairs: Vec<&PairFigure> = self.pairs.iter().filter(|pair| pair.hazard == hazard && pair.file == file).collect();
                if !pairs.is_empty() {
                    let _ =
                        writeln!(out, "\n{} {file}: fewest cycles from the first (columns) to the second instruction (rows)", kind(hazard));
                    out.push_str(&grid(&pairs));
                }
            }
        }
        out.push_str("\ncycles of one copy, and instructions per cycle of the multiprocessor\n");
        for TimeFigure { group, name, warps, counted, cycles, remark } in &self.times {
            let _ = match cycles {
                Some(cycles) => {
                    let rate = f64::from(counted * warps) / cycles;
                    writeln!(out, "{group:<10} {name:<24} {warps:>2} warps {cycles:>9.2} {rate:>7.3}")
                }
                None => writeln!(out, "{group:<10} {name:<24} {warps:>2} warps: {remark}"),
            };
        }
        let unknown = self.pairs.iter().filter(|pair| pair.quiet == "?").count();
        let _ = writeln!(out, "{} pairs, {unknown} of them without a figure; {} times", self.pairs.len(), self.times.len());
        out
    }
}

const HEADER: &str = "\
# raw, waw, war, scoreboard: kind, register file, first instruction, second instruction, word of the result, fewest cycles between
#   the two from which on all longer distances gave the right result, the same while other warps kept all pipes busy, remark.
#   1: right at any distance; -: not even the longest distance tried; ?: nothing could be seen, the remark says why.
#   `ragged` comes with what each distance gave at four places of the code: . right, x wrong, ~ wrong at times.
#   The instructions behind the names are in tools/microbench/data.
# time: kind, group, name, warps, instructions counted in the body, cycles of one copy of the body (best round), or why there is none.
";

fn kind(hazard: Hazard) -> String {
    format!("{hazard:?}").to_lowercase()
}

impl PairFigure {
    fn add(&mut self, load: Load, answer: &Answer) {
        let (figure, remark) = distance(answer);
        match load {
            Load::Quiet => (self.quiet, self.remark) = (figure, remark),
            Load::Busy => {
                let longer = matches!((figure.parse::<u32>(), self.quiet.parse::<u32>()), (Ok(busy), Ok(quiet)) if busy > quiet);
                if longer && self.remark.is_empty() {
                    self.remark = format!("busy {remark}");
                }
                self.busy = figure;
            }
        }
    }
}

/// Returns the figure of a pair and a remark.
fn distance(answer: &Answer) -> (String, String) {
    match answer {
        Answer::Distances { problem: Some(problem), .. } => ("?".into(), problem.clone()),
        Answer::Distances { verdicts, problem: None } => {
            let figure = smallest(verdicts).map_or("-".into(), |cycles| cycles.to_string());
            let remark = if is_ragged(verdicts) { format!("ragged {}", verdicts.join(" ")) } else { String::new() };
            (figure, remark)
        }
        Answer::Failed(why) => ("?".into(), why.clone()),
        Answer::Cycles { .. } => ("?".into(), "not a distance".into()),
    }
}

fn time_figure(timing: &Timing, answer: &Answer) -> TimeFigure {
    let (cycles, remark) = match answer {
        Answer::Cycles { few, many } => (Some(per_copy(timing, few, many)), String::new()),
        Answer::Failed(why) => (None, why.clone()),
        Answer::Distances { .. } => (None, "not a time".into()),
    };
    let Timing { group, name, warps, counted, .. } = timing;
    TimeFigure { group: group.clone(), name: name.clone(), warps: *warps, counted: *counted, cycles, remark }
}

/// Returns the cycles of one copy in the best round. The first round is ignored because it fills the caches.
fn per_copy(timing: &Timing, few: &[u32], many: &[u32]) -> f64 {
    let best = |cycles: &[u32]| f64::from(cycles.iter().skip(1).copied().min().unwrap_or(0));
    slope((timing.few, best(few)), (timing.many, best(many)))
}

/// Returns a table of the figures on an idle multiprocessor; instructions with equal figures share a column or a row.
fn grid(pairs: &[&PairFigure]) -> String {
    let mut firsts: Vec<String> = Vec::new();
    let mut seconds: Vec<&str> = Vec::new();
    let mut cells: HashMap<(String, &str), &str> = HashMap::new();
    for pair in pairs {
        let first = if pair.word == 0 { pair.first.clone() } else { format!("{}#{}", pair.first, pair.word) };
        if !firsts.contains(&first) {
            firsts.push(first.clone());
        }
        if !seconds.contains(&pair.second.as_str()) {
            seconds.push(&pair.second);
        }
        cells.insert((first, &pair.second), &pair.quiet);
    }
    let cell = |first: &String, second: &str| cells.get(&(first.clone(), second)).copied().unwrap_or("");
    let columns = group(&firsts, |first| seconds.iter().map(|second| cell(first, second)).collect::<Vec<_>>());
    let row = |second: &&str| columns.iter().map(|names| cell(&names[0], second)).collect::<Vec<_>>();
    let mut out = String::new();
    for (index, names) in columns.iter().enumerate() {
        let _ = writeln!(out, "  {index}: {}", names.join(" "));
    }
    let numbers: Vec<String> = (0..columns.len()).map(|index| format!("{index:>4}")).collect();
    let _ = writeln!(out, "{}", numbers.concat());
    for names in group(&seconds, row) {
        let figures: Vec<String> = row(&names[0]).iter().map(|figure| format!("{figure:>4}")).collect();
        let _ = writeln!(out, "{}  {}", figures.concat(), names.join(" "));
    }
    out
}

/// Groups items with equal keys, in the order in which keys first occur.
fn group<T: Clone, K: PartialEq>(items: &[T], key: impl Fn(&T) -> K) -> Vec<Vec<T>> {
    let mut groups: Vec<(K, Vec<T>)> = Vec::new();
    for item in items {
        let this = key(item);
        match groups.iter_mut().find(|(known, _)| *known == this) {
            Some((_, members)) => members.push(item.clone()),
            None => groups.push((this, vec![item.clone()])),
        }
    }
    groups.into_iter().map(|(_, members)| members).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(first: &str, second: &str, load: Load, row: &str) -> ExperimentResult {
        let question = Question::Distance {
            hazard: Hazard::Raw,
            file: "R".into(),
            first: first.into(),
            second: second.into(),
            word: 0,
            load,
            longest_cycles: row.len() as u32,
            needs_two_ends: false,
        };
        ExperimentResult { question, answer: Answer::Distances { verdicts: vec![row.into(); 4], problem: None } }
    }

    #[test]
    fn quiet_and_busy_share_a_line() {
        let outcomes = [outcome("MOV", "FADD", Load::Quiet, "xxxx.."), outcome("MOV", "FADD", Load::Busy, "xxxxx.")];
        let figures = Figures::new(&outcomes);
        assert_eq!(figures.pairs.len(), 1);
        assert_eq!((figures.pairs[0].quiet.as_str(), figures.pairs[0].busy.as_str()), ("5", "6"));
        let machine = Machine { device: "GPU".into(), architecture: 90, cuda_version: 13020, target: "sm_90a".into() };
        let tsv = figures.tsv(&machine);
        assert!(tsv.starts_with("# Measured by tools/microbench on GPU (sm_90), code for sm_90a, driver for CUDA 13.2.\n"));
        assert_eq!(tsv.lines().last(), Some("raw\tR\tMOV\tFADD\t0\t5\t6\tbusy "));
    }

    #[test]
    fn alike_instructions_share_a_column_and_a_row() {
        let rows = [("MOV", "FADD", "xx."), ("SEL", "FADD", "xx."), ("MOV", "FMUL", "xx."), ("SEL", "FMUL", "xx."), ("MOV", "LDS", "x..")];
        let outcomes: Vec<ExperimentResult> = rows.map(|(first, second, row)| outcome(first, second, Load::Quiet, row)).to_vec();
        let text = Figures::new(&outcomes).tables();
        assert!(text.contains("   3   3  FADD FMUL\n"), "{text}");
        assert!(text.contains("   2      LDS\n"), "{text}");
    }

    #[test]
    fn times_come_from_the_best_round_but_the_first() {
        let timing = Timing {
            group: "rate".into(),
            name: "FFMA".into(),
            warps: 4,
            few: 32,
            many: 128,
            counted: 1,
            setup: Vec::new(),
            body: Vec::new(),
            far_memory: false,
        };
        let answer = Answer::Cycles { few: vec![10, 50, 48, 49], many: vec![900, 240, 250, 245] };
        assert_eq!(time_figure(&timing, &answer).cycles, Some(2.0));
    }
}
