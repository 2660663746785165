//! `oriole rescore`: generates new control words for existing machine code.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, ValueEnum};
use oriole_cubin::Cubin;
use oriole_hardware::{Model, Profile};
use oriole_isa::{Instruction, decode};
use oriole_rescore::{ReorderCondition, RescoreOptions, Rescored, RewrittenSection, ScoreboardEvent, Tally, rescore};
use oriole_sim::hazard::{Dependence, HazardFinding, HazardSeverity, Problem, check_function};
use oriole_sim::verify::{Verifier, verify_cubin};

use crate::check::read_input;
use crate::console::{refuse_overwriting, write_output};
use crate::print;
use crate::sass::program::{CodeSection, Program, SIZE};

/// Give machine code new control words, and a new order with --schedule.
///
///   $ oriole rescore kernel.cubin -o faster.cubin --stats
///   function  instructions        stalls         waits   scoreboards       reuse       yields
///   saxpy               24      55 →  51       6 →   6       6 →   5      0 → 0       12 → 0
///
/// Keeps every instruction, register and address, and computes stalls, yields, scoreboards and waits anew,
/// over all paths of each function, by the hardware model. Works on cubins of any compiler; nothing else
/// in the file changes. The result is checked as by `oriole verify`. A function that cannot be analyzed
/// (an unknown instruction, an indirect branch with unknown targets) or whose new words have findings
/// keeps its old ones; it is named, and the exit status is 1. The file is written in any case.
///
///   $ oriole rescore kernel.cubin -o faster.cubin --schedule
///   saxpy: 1 of 2 blocks in a new order, 9 instructions moved, predicted cycles 655 → 629
///
/// --schedule also moves instructions inside their blocks, on the registers that they have. A block gets a new order
/// only where that is predicted to be faster, with its new control words, for one warp alone and for as many as can be
/// resident. What the file says about places of instructions follows. A function for which that cannot be done (it has
/// debug information of variables, say) keeps its order and gets new control words only; it is named.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct RescoreArguments {
    /// Cubin; `-` is standard input
    #[arg(value_name = "CUBIN")]
    file: String,
    /// Where the new cubin goes; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<String>,
    /// Change these functions only
    #[arg(long, value_name = "NAME")]
    function: Vec<String>,
    /// Move instructions inside their blocks as well, where that is predicted to be faster; `always`, to test it,
    /// wherever there is another order
    #[arg(long, value_name = "WHEN", num_args = 0..=1, require_equals = true, default_missing_value = "faster")]
    schedule: Option<WhenArgument>,
    /// Print what control words add up to, before and after
    #[arg(long)]
    stats: bool,
    /// Print the same as JSON, one object for each function
    #[arg(long)]
    json: bool,
    /// Check the outcome on all paths; this is the default
    #[arg(long, overrides_with = "no_check")]
    check: bool,
    /// Do not check the outcome
    #[arg(long)]
    no_check: bool,
    /// Hardware profile to use instead of the built-in one; `oriole profile --export` writes such a file
    #[arg(long, value_name = "FILE")]
    hw_profile: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum WhenArgument {
    Faster,
    Always,
}

impl From<WhenArgument> for ReorderCondition {
    fn from(argument: WhenArgument) -> ReorderCondition {
        match argument {
            WhenArgument::Faster => ReorderCondition::Faster,
            WhenArgument::Always => ReorderCondition::Always,
        }
    }
}

pub fn run(arguments: &RescoreArguments) -> ExitCode {
    match rescore_file(arguments) {
        Ok(is_whole) => ExitCode::from(u8::from(!is_whole)),
        Err(Failure { message, status }) => {
            errln!("error: {message}");
            ExitCode::from(status)
        }
    }
}

/// The reason why a file is not rescored, and the exit status.
struct Failure {
    message: String,
    status: u8,
}

/// A mistake in the command line, or a file that cannot be read or written.
impl From<String> for Failure {
    fn from(message: String) -> Failure {
        Failure { message, status: 2 }
    }
}

/// Rescores a file; returns whether all functions have new control words.
fn rescore_file(arguments: &RescoreArguments) -> Result<bool, Failure> {
    if arguments.output.is_none() && !arguments.stats && !arguments.json {
        return Err("there is nothing to do without -o, --stats or --json".to_owned().into());
    }
    if let Some(output) = &arguments.output {
        refuse_overwriting([arguments.file.as_str()], [output.as_str()])?;
    }
    let of_file = |error: String| format!("{}: {error}", arguments.file);
    let data = read_input(&arguments.file).map_err(|error| of_file(error.to_string()))?;
    let profile = arguments.hw_profile.as_deref().map(read_profile).transpose()?.map(Arc::new);
    let options =
        RescoreOptions { functions: arguments.function.clone(), schedule: arguments.schedule.map(ReorderCondition::from), profile };
    // A file that is no cubin has errors, as in the other commands.
    let is_cubin = Cubin::read(&data).is_ok();
    let failed = |error: String| Failure { message: of_file(error), status: if is_cubin { 2 } else { 1 } };
    let mut rescored = rescore(&data, &options).map_err(failed)?;
    if arguments.check || !arguments.no_check {
        let model = options.profile.as_deref().map_or(&**Model::of(rescored.target), |profile| &profile.model);
        check(&data, &mut rescored, model)?;
        if options.profile.is_none() {
            verify(&mut rescored)?;
        }
    }
    if let Some(output) = &arguments.output {
        let bytes = rescored.bytes();
        write_output(output, &bytes).map_err(|error| format!("{output}: {error}"))?;
    }
    let report = if arguments.json { json(&rescored) } else { String::new() };
    let report = if arguments.stats && !arguments.json { table(&rescored) } else { report };
    let report = if arguments.schedule.is_some() && !arguments.json && arguments.output.as_deref() != Some("-") {
        report + &schedules(&rescored)
    } else {
        report
    };
    print::out(report.as_bytes());
    for section in &rescored.sections {
        if let Some(obstacle) = &section.obstacle {
            errln!("error: {}: {} stays as it is: {obstacle}", arguments.file, section.function);
        }
    }
    Ok(rescored.sections.iter().all(|section| section.obstacle.is_none()))
}

fn read_profile(file: &str) -> Result<Profile, String> {
    let bytes = read_input(file).map_err(|error| format!("{file}: {error}"))?;
    let name = if file == "-" { "<stdin>" } else { file };
    Profile::from_text(name, &String::from_utf8_lossy(&bytes)).map_err(|error| error.to_string())
}

/// Limit on the rounds of checking and adding waits.
const ROUNDS: usize = 8;

/// Checks the new control words and restores the old ones where hazards remain. At control-flow joins the checker forgets the issue order
/// of instructions and reports waits as missing that are not needed; such waits are added.
fn check(data: &[u8], rescored: &mut Rescored, model: &Model) -> Result<(), String> {
    let cubin = Cubin::read(data).map_err(|error| error.to_string())?;
    let program = Program::new(&cubin)?;
    for section in rescored.sections.iter_mut().filter(|section| section.obstacle.is_none()) {
        let Some(code) = program.position(section.index).map(|position| &program.sections[position]) else { continue };
        let mut round = 0;
        loop {
            let hazards = hazards(&program, code, section, model);
            let Some(first) = hazards.first() else { break };
            let missing: Vec<_> = hazards.iter().filter_map(missing_wait).collect();
            if round >= ROUNDS || missing.len() < hazards.len() {
                let at = first.second as u64 * SIZE;
                let reason = format!("the new words have {} hazards; the first: {at:#06x} {}", hazards.len(), first.problem);
                if section.restore_order(reason.clone()) {
                    round = 0;
                    continue;
                }
                section.refuse(reason);
                break;
            }
            round += 1;
            for (before, after, part) in missing {
                section.wait_for(before, after, part);
            }
        }
    }
    Ok(())
}

/// Restores the old control words of functions in which a verifier of `oriole verify` has a finding.
fn verify(rescored: &mut Rescored) -> Result<(), String> {
    loop {
        let report = verify_cubin(&rescored.bytes(), &Verifier::ALL)?;
        let mut first_findings: HashMap<&str, String> = HashMap::new();
        for (section, finding) in report.findings() {
            first_findings.entry(&section.name).or_insert_with(|| finding.to_string());
        }
        let mut has_old_order = false;
        for section in rescored.sections.iter_mut().filter(|section| section.obstacle.is_none()) {
            let name = format!(".text.{}", section.function);
            let Some(finding) = first_findings.get(name.as_str()) else { continue };
            let reason = format!("a verifier does not like the new words: {finding}");
            if section.restore_order(reason.clone()) {
                has_old_order = true;
            } else {
                section.refuse(reason);
            }
        }
        // The control words for the restored order have not been verified yet.
        if !has_old_order {
            return Ok(());
        }
    }
}

/// Returns the hazards in a section with its new control words.
fn hazards(program: &Program<'_>, code: &CodeSection<'_>, section: &RewrittenSection, model: &Model) -> Vec<HazardFinding> {
    let new: Vec<Instruction> = section.new.iter().filter_map(|&word| decode(word, program.target)).collect();
    findings_of(program, code, &new, model).into_iter().filter(|finding| finding.problem.severity() == HazardSeverity::Hazard).collect()
}

/// Returns the wait whose absence caused a finding: first instruction, second instruction, and whether it is for reads or results.
fn missing_wait(finding: &HazardFinding) -> Option<(usize, usize, ScoreboardEvent)> {
    let (Problem::NotWaited { kind, .. } | Problem::NoScoreboardSet { kind, .. }) = finding.problem else { return None };
    let part = if kind == Dependence::WriteAfterRead { ScoreboardEvent::Reads } else { ScoreboardEvent::Results };
    Some((finding.first, finding.second, part))
}

/// Returns names and values of a tally.
fn figures(tally: &Tally) -> [(&'static str, u64); 5] {
    [
        ("stalls", tally.stalls),
        ("waits", tally.waits),
        ("scoreboards", tally.scoreboards),
        ("reuse", tally.reuses),
        ("yields", tally.yields),
    ]
}

/// Formats the tallies before and after as a table.
fn table(rescored: &Rescored) -> String {
    let total = |pick: fn(&(Tally, Tally)) -> Tally| rescored.sections.iter().map(|section| pick(&section.tallies())).sum();
    let mut lines: Vec<(&str, Tally, Tally)> = rescored.sections.iter().map(line).collect();
    if lines.len() > 1 {
        lines.push(("total", total(|tallies| tallies.0), total(|tallies| tallies.1)));
    }
    let width = lines.iter().map(|(name, ..)| name.chars().count()).chain(["function".len()]).max().unwrap_or(0);
    let mut text = format!("{:width$}  instructions", "function");
    for (name, _) in figures(&Tally::default()) {
        let _ = write!(text, "  {name:>17}");
    }
    text.push('\n');
    for (name, old, new) in lines {
        let _ = write!(text, "{name:width$}  {:>12}", old.instructions);
        for ((_, before), (_, after)) in figures(&old).into_iter().zip(figures(&new)) {
            let _ = write!(text, "  {before:>7} → {after:>7}");
        }
        text.push('\n');
    }
    text
}

/// Describes the new order of each function.
fn schedules(rescored: &Rescored) -> String {
    let mut text = String::new();
    for (section, schedule) in rescored.sections.iter().filter_map(|section| Some((section, section.schedule.as_ref()?))) {
        let _ = write!(text, "{}: ", section.function);
        if schedule.reordered > 0 {
            let _ = write!(text, "{} of {} blocks in a new order, ", schedule.reordered, schedule.blocks);
            let _ = write!(text, "{} instructions moved, ", schedule.moved);
            let _ = write!(text, "predicted cycles {} → {}", schedule.cycles_before, schedule.cycles_after);
        } else {
            text.push_str("the order stays");
        }
        if let Some(reason) = &schedule.kept {
            let _ = write!(text, "; {reason}");
        } else if schedule.reordered == 0 {
            let _ = write!(text, "; none of {} blocks is predicted to be faster in another", schedule.blocks);
        }
        text.push('\n');
    }
    text
}

fn line(section: &RewrittenSection) -> (&str, Tally, Tally) {
    let (old, new) = section.tallies();
    (&section.function, old, new)
}

/// Formats the tallies and schedules as JSON, one object per function.
fn json(rescored: &Rescored) -> String {
    let mut text = String::new();
    for section in &rescored.sections {
        let (old, new) = section.tallies();
        let object = |tally: &Tally| serde_json::Map::from_iter(figures(tally).map(|(name, figure)| (name.to_owned(), figure.into())));
        let line = serde_json::json!({
            "function": section.function,
            "target": rescored.target.to_string(),
            "instructions": old.instructions,
            "changed": section.obstacle.is_none(),
            "added_waits": section.added_waits,
            "obstacle": section.obstacle.as_ref().map(ToString::to_string),
            "before": object(&old),
            "after": object(&new),
            "schedule": section.schedule.as_ref().map(|schedule| serde_json::json!({
                "blocks": schedule.blocks,
                "blocks_reordered": schedule.reordered,
                "instructions_moved": schedule.moved,
                "predicted_cycles_before": schedule.cycles_before,
                "predicted_cycles_after": schedule.cycles_after,
                "kept": schedule.kept,
            })),
        });
        let _ = writeln!(text, "{line}");
    }
    text
}

/// Returns the findings of the hazard checker for a section with these instructions, with the latencies of `model`.
fn findings_of(program: &Program<'_>, section: &CodeSection<'_>, code: &[Instruction], model: &Model) -> Vec<HazardFinding> {
    let number = |address: u64| (address / SIZE) as usize;
    let entries: Vec<usize> = section.symbols.iter().map(|&symbol| number(program.cubin.symbols()[symbol].value)).collect();
    let indirect = |branch: usize| {
        let targets = section.branch_targets_at(branch as u64 * SIZE).unwrap_or_default();
        targets.iter().map(|&target| number(target.into())).collect()
    };
    check_function(code, &entries, &indirect, model)
}
