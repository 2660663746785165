//! Tables for people, and one line per figure for programs.

use std::fmt::Write;
use std::path::Path;

use crate::analyze::{is_ragged, slope, smallest};
use crate::plan::Question;
use crate::run::{Answer, Machine, Outcome};
use crate::timing::Timing;

/// Reads results, prints a summary, and writes the figures if a path is given.
pub fn report(results: &Path, tsv: Option<&Path>) -> Result<(), String> {
    let text = std::fs::read_to_string(results).map_err(|error| format!("{}: {error}", results.display()))?;
    let (machine, outcomes) = read(&text)?;
    let lines = figures(&machine, &outcomes);
    if let Some(path) = tsv {
        std::fs::write(path, &lines).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    print!("{}", summary(&outcomes));
    Ok(())
}

/// The machine and the outcomes in a file of results.
pub fn read(text: &str) -> Result<(Machine, Vec<Outcome>), String> {
    let mut lines = text.lines();
    let machine = serde_json::from_str(lines.next().ok_or("the file is empty")?).map_err(|error| format!("line 1: {error}"))?;
    let outcome = |(index, line): (usize, &str)| serde_json::from_str(line).map_err(|error| format!("line {}: {error}", index + 2));
    Ok((machine, lines.enumerate().map(outcome).collect::<Result<_, _>>()?))
}

/// One line per figure, columns separated by tabs.
pub fn figures(machine: &Machine, outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    let Machine { device, architecture, cuda_version, target } = machine;
    let _ = writeln!(out, "# Measured by tools/microbench on {device} (sm_{architecture}), code for {target}, driver for CUDA {}.{}.", cuda_version / 1000, cuda_version % 1000 / 10);
    out.push_str("# raw, waw, war, scoreboard: kind, load (quiet: one warp; busy: others use all pipes), register file, first instruction, second instruction, word of the result, fewest cycles\n");
    out.push_str("#   between the two that gave the right result (1: always right; -: not even the longest tried), remark. The remark\n");
    out.push_str("#   `ragged` comes with what each distance gave at four places of the code: . right, x wrong, ~ wrong at times.\n");
    out.push_str("# time: kind, group, name, warps, instructions counted, cycles of one copy of the body (best round), cycles in all rounds.\n");
    for outcome in outcomes {
        match (&outcome.question, &outcome.answer) {
            (Question::Distance { hazard, file, first, second, word, load, .. }, answer) => {
                let (figure, remark) = distance(answer);
                let kind = format!("{hazard:?}\t{load:?}").to_lowercase();
                let _ = writeln!(out, "{kind}\t{file}\t{first}\t{second}\t{word}\t{figure}\t{remark}");
            }
            (Question::Time(timing), answer) => {
                let (figure, remark) = match answer {
                    Answer::Cycles { few, many } => (format!("{:.3}", per_copy(timing, few, many)), format!("{few:?} {many:?}")),
                    Answer::Failed(why) => ("-".into(), why.clone()),
                    Answer::Distances { .. } => ("-".into(), "not a time".into()),
                };
                let Timing { group, name, warps, counted, .. } = timing;
                let _ = writeln!(out, "time\t{group}\t{name}\t{warps}\t{counted}\t{figure}\t{remark}");
            }
        }
    }
    out
}

/// The figure of a pair, and what is to be said about it.
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

/// Cycles of one copy in the best round; the first round fills the caches.
fn per_copy(timing: &Timing, few: &[u32], many: &[u32]) -> f64 {
    let best = |cycles: &[u32]| f64::from(cycles.iter().skip(1).copied().min().unwrap_or(0));
    slope((timing.few, best(few)), (timing.many, best(many)))
}

/// What a person wants to see first.
fn summary(outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    let mut unknown = 0;
    for outcome in outcomes {
        if let Question::Distance { hazard, file, first, second, word, load, .. } = &outcome.question {
            let (figure, remark) = distance(&outcome.answer);
            if figure == "?" {
                unknown += 1;
            }
            let _ = writeln!(out, "{:<17}{file:<3} {first:<20} {second:<14} {word} {figure:>3}  {remark}", format!("{load:?} {hazard:?}").to_lowercase());
        } else if let (Question::Time(timing), Answer::Cycles { few, many }) = (&outcome.question, &outcome.answer) {
            let cycles = per_copy(timing, few, many);
            let rate = f64::from(timing.counted * timing.warps) / cycles;
            let Timing { group, name, warps, .. } = timing;
            let _ = writeln!(out, "time {group:<10} {name:<24} {warps:>2} warps {cycles:>9.2} cycles, {rate:.3} instructions per cycle");
        }
    }
    let _ = writeln!(out, "{} results, {unknown} of them without a figure", outcomes.len());
    out
}
