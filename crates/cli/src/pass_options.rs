//! Options of `oriole compile` about the pass table: listing, printing, stopping, measuring and bisecting.

use std::fmt::Write as _;

use clap::{Args, ValueEnum};
use oriole_driver::{BisectOptions, IrObjectCounts, PASSES, Pass, PassLevels, PassLog, PassOptions, PassRun, PassSelection};
use serde_json::{Value, json};

#[derive(Args)]
pub struct PassArguments {
    /// List the passes in their order: phase number, name, optimization levels, what the pass does; compiles nothing
    #[arg(long)]
    pub list_passes: bool,
    /// Print each function before this pass, to standard output; may be repeated or be a list with commas; `all` is every pass
    #[arg(long, value_name = "PASS", value_delimiter = ',')]
    print_before: Vec<String>,
    /// Print each function after this pass, to standard output; may be repeated or be a list with commas; `all` is every pass
    #[arg(long, value_name = "PASS", value_delimiter = ',')]
    print_after: Vec<String>,
    /// Stop after this pass and print each function to standard output; writes no cubin and needs no `-o`
    #[arg(long, value_name = "PASS")]
    pub stop_after: Option<String>,
    /// Leave out this optimization; may be repeated or be a list with commas. Passes that correct code needs cannot be left out
    #[arg(long, value_name = "PASS", value_delimiter = ',')]
    disable_pass: Vec<String>,
    /// Measure the passes: time, runs, instructions before and after, instructions, values and blocks that they allocate; as a table on
    /// standard error, or with `=json` on standard output
    #[arg(long, value_name = "FORMAT", value_enum, num_args = 0..=1, require_equals = true, default_missing_value = "text")]
    time_passes: Option<TimeFormat>,
    /// Run optional passes this often at most, counted over all functions, and print each decision to standard error; -1 runs all of them.
    /// The first N with a wrong result names the pass that breaks the program
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = clap::value_parser!(i64).range(-1..))]
    opt_bisect_limit: Option<i64>,
}

/// The format of the measurements.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum TimeFormat {
    Text,
    Json,
}

impl PassArguments {
    /// Returns whether the user asked for the list of passes.
    pub fn wants_list(&self) -> bool {
        self.list_passes || self.print_after.iter().chain(&self.print_before).any(|name| name == "help")
    }

    /// Returns the options in the form that the compiler takes, or a message about a pass that does not exist.
    pub fn options(&self) -> Result<PassOptions, String> {
        let find = |name: &str| Pass::find(name).map_err(|message| format!("{message}; `--list-passes` lists them"));
        let check = |name: &str| find(name).map(|_| ());
        let check_optional = |name: &str| match find(name)? {
            pass if pass.is_optional => Ok(()),
            pass => Err(format!("the pass `{}` cannot be left out: code would be wrong without it", pass.name)),
        };
        let selection = |names: &[String]| {
            if names.iter().any(|name| name == "all") {
                return Ok(PassSelection::All);
            }
            names.iter().try_for_each(|name| check(name)).map(|()| PassSelection::These(names.to_vec()))
        };
        self.stop_after.as_deref().map_or(Ok(()), check)?;
        self.disable_pass.iter().try_for_each(|name| check_optional(name))?;
        Ok(PassOptions {
            print_before: selection(&self.print_before)?,
            print_after: selection(&self.print_after)?,
            stop_after: self.stop_after.clone(),
            disabled: self.disable_pass.clone(),
            measure: self.time_passes.is_some(),
            bisect: self
                .opt_bisect_limit
                .map(|limit| BisectOptions { limit: u64::try_from(limit).ok(), report: |decision| errln!("{decision}") }),
        })
    }

    /// Returns a note for each pass whose name was given and that does not run at an optimization level.
    pub fn notes(&self, level: u8) -> Vec<String> {
        let named = self.print_before.iter().chain(&self.print_after).chain(&self.stop_after).chain(&self.disable_pass);
        let skipped = named.filter_map(|name| Pass::find(name).ok()).filter(|pass| match pass.levels {
            PassLevels::All | PassLevels::Scheduled => false,
            PassLevels::AtLeast(least) => level < least,
            PassLevels::Only(only) => level != only,
        });
        skipped.map(|pass| format!("the pass `{}` does not run at -O{level}, only at {}", pass.name, pass.levels)).collect()
    }

    /// Returns whether the compiled file may come from a cache: without output about passes, and with all passes of the optimization level.
    pub fn is_cacheable(&self) -> bool {
        let prints = !self.print_before.is_empty() || !self.print_after.is_empty();
        let is_shortened = self.stop_after.is_some() || self.opt_bisect_limit.is_some() || !self.disable_pass.is_empty();
        !prints && !is_shortened && self.time_passes.is_none()
    }

    /// Returns the name of a given option that makes sense for a single file only.
    pub fn single_file_option(&self) -> Option<&'static str> {
        self.opt_bisect_limit.map(|_| "--opt-bisect-limit")
    }

    /// Prints what was recorded about the passes.
    pub fn print(&self, log: &PassLog) {
        for dump in &log.dumps {
            outln!("{dump}");
        }
        match self.time_passes {
            Some(TimeFormat::Text) => errln!("{}", times_text(&log.runs).trim_end()),
            Some(TimeFormat::Json) => outln!("{}", times_json(&log.runs)),
            None => {}
        }
    }
}

/// Returns the table of passes as text.
pub fn list() -> String {
    let mut text = String::new();
    for pass in PASSES {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:>3} {:<16}  {:<27}  {}", pass.phase, pass.name, pass.levels.to_string(), pass.description);
    }
    text
}

/// The sums over all executions of a pass.
#[derive(Default)]
struct PassTotals {
    runs: usize,
    seconds: f64,
    before: usize,
    after: usize,
    allocated: IrObjectCounts,
}

impl PassTotals {
    fn of<'a>(runs: impl Iterator<Item = &'a PassRun>) -> PassTotals {
        runs.fold(PassTotals::default(), |total, run| PassTotals {
            runs: total.runs + 1,
            seconds: total.seconds + run.time.as_secs_f64(),
            before: total.before + run.instructions_before,
            after: total.after + run.instructions_after,
            allocated: IrObjectCounts {
                instructions: total.allocated.instructions + run.allocated.instructions,
                values: total.allocated.values + run.allocated.values,
                blocks: total.allocated.blocks + run.allocated.blocks,
            },
        })
    }
}

/// Returns the passes that ran, in the order of the table, with their sums.
fn totals<'a>(runs: &'a [PassRun]) -> impl Iterator<Item = (&'static Pass, PassTotals)> + 'a {
    let of_pass = |pass: &'static Pass| (pass, PassTotals::of(runs.iter().filter(move |run| run.pass == pass.name)));
    PASSES.iter().map(of_pass).filter(|(_, total)| total.runs > 0)
}

/// Returns the measurements as a table. Functions are compiled in parallel, so the sum of the times may exceed the elapsed time.
fn times_text(runs: &[PassRun]) -> String {
    let all = PassTotals::of(runs.iter());
    let mut text = String::from(
        "                                            instructions           allocated
phase pass                runs        ms     %    before     after    insts   values   blocks
",
    );
    let mut row = |phase: &str, name: &str, total: &PassTotals, flow: [String; 2]| {
        let percent = if all.seconds > 0.0 { 100.0 * total.seconds / all.seconds } else { 0.0 };
        let (PassTotals { runs, seconds, allocated, .. }, [before, after]) = (total, flow);
        let IrObjectCounts { instructions, values, blocks } = allocated;
        let milliseconds = seconds * 1e3;
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "{phase:>5} {name:<16} {runs:>7} {milliseconds:>9.3} {percent:>5.1} {before:>9} {after:>9} {instructions:>8} {values:>8} {blocks:>8}"
        );
    };
    for (pass, total) in totals(runs) {
        row(&pass.phase.to_string(), pass.name, &total, [total.before, total.after].map(|count| count.to_string()));
    }
    row("", "total", &all, Default::default());
    text
}

/// Returns the measurements of the passes that ran as JSON objects.
fn passes_json(runs: &[PassRun]) -> Vec<Value> {
    let object = |(pass, total): (&Pass, PassTotals)| {
        json!({
            "phase": pass.phase,
            "pass": pass.name,
            "runs": total.runs,
            "seconds": total.seconds,
            "instructions_before": total.before,
            "instructions_after": total.after,
            "allocated_instructions": total.allocated.instructions,
            "allocated_values": total.allocated.values,
            "allocated_blocks": total.allocated.blocks,
        })
    };
    totals(runs).map(object).collect()
}

/// Returns the measurements as a JSON object: the sums over all functions, and those of each function.
fn times_json(runs: &[PassRun]) -> Value {
    // The runs of a function are next to each other.
    let functions = runs.chunk_by(|one, next| one.function == next.function);
    let functions = functions.map(|runs| json!({ "function": runs[0].function, "passes": passes_json(runs) }));
    json!({ "passes": passes_json(runs), "functions": functions.collect::<Vec<Value>>() })
}
