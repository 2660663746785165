//! The kinds of tests: each takes the program of a file and returns its result as lines.

mod analyses;
mod back_end;
mod errors;
mod machine_code;
mod passes;
mod round_trip;
mod simulate;
mod verify_ir;

use oriole_isa::Target;
use oriole_ptx::ast::Module;

use crate::file::{Options, Syntax, TestFile, TestKind, UNCHANGED};

/// Result of a kind for one target: lines, or what is wrong with the file.
type Lines = Result<Vec<String>, String>;

/// The lines of a kind that found nothing to list; a result without lines could not be told from a missing expectation.
const NOTHING: &str = "nothing";

/// How a kind handles its result.
enum Action {
    /// The result for each target is listed at the end of the file.
    List { run: fn(&TestFile, Option<Target>, &TestKind) -> Lines, needs_target: bool },
    /// The expectations are part of the program.
    Inline(fn(&mut TestFile, &TestKind) -> Result<(), String>),
}

/// Returns the action of a kind for a language, and the options that it reads besides `target`.
fn action(kind: &TestKind, syntax: Syntax) -> Option<(Action, &'static [&'static str])> {
    let list = |run, needs_target| Action::List { run, needs_target };
    Some(match (kind.name.as_str(), syntax) {
        ("roundtrip", Syntax::Ori) => (Action::Inline(round_trip::ori), &[]),
        ("roundtrip", Syntax::Ptx) => (list(round_trip::ptx, false), &[]),
        ("roundtrip", Syntax::Sass) => (list(round_trip::sass, true), &[]),
        ("verify", Syntax::Ori) => (Action::Inline(verify_ir::run), &[]),
        ("verify", Syntax::Sass) => (list(machine_code::verify, true), &["initial_registers"]),
        ("ssa" | "control_flow" | "loops" | "liveness" | "uniformity" | "uniformity_in_one_dimension", Syntax::Ori) => {
            (list(analyses::run, false), &[])
        }
        ("isel", Syntax::Ptx) => (list(passes::isel, true), &["level"]),
        ("opt", Syntax::Ori) => (list(passes::opt_ori, true), &["register_limit", "initial_registers"]),
        ("opt", Syntax::Ptx) => (list(passes::opt_ptx, true), &["level", "register_limit", "backend", "mode"]),
        ("sched", Syntax::Ori) => (list(back_end::sched, true), &["register_limit", "backend", "mode"]),
        ("register_counts", Syntax::Ori) => (list(analyses::register_counts, false), &["initial_registers"]),
        ("regalloc", Syntax::Ori) => (list(back_end::regalloc, true), &["register_limit", "initial_registers"]),
        ("ctrl", Syntax::Ori) => (list(back_end::ctrl, true), &["level"]),
        ("ctrl", Syntax::Ptx) => (list(machine_code::ctrl, true), &["level", "register_limit", "backend", "mode"]),
        ("encode", Syntax::Ptx) => (list(machine_code::encode_ptx, true), &["level", "register_limit"]),
        ("encode", Syntax::Sass) => (list(machine_code::encode_sass, true), &[]),
        ("run", Syntax::Ptx | Syntax::Sass) => (Action::Inline(simulate::run), &["level", "register_limit", "backend", "mode"]),
        ("error", Syntax::Ptx) => (list(errors::run, false), &["level", "register_limit", "form"]),
        _ => return None,
    })
}

/// Runs all kinds of a file and stores the results in it.
///
/// # Errors
///
/// Returns a message if the file is wrong or expects nothing.
pub fn run(file: &mut TestFile) -> Result<(), String> {
    let mut allowed = Vec::new();
    for kind in file.kinds.clone() {
        let (action, options) = action(&kind, file.syntax).ok_or_else(|| format!("no test of kind `{}` for this language", kind.name))?;
        allowed.extend_from_slice(options);
        match action {
            Action::Inline(run) => {
                allowed.push("target");
                run(file, &kind)?;
            }
            Action::List { run, needs_target } => {
                allowed.push("target");
                let lines = for_targets(file, &kind, run, needs_target)?;
                file.outcome.extend(lines);
            }
        }
    }
    if let Some(unread) = file.options.given.iter().find(|given| !allowed.contains(&given.as_str())) {
        return Err(format!("the option `{unread}` means nothing for this kind of test"));
    }
    match file.outcome.is_empty() && file.has_expectations() {
        true => Err("the expectations at the end are not compared with anything".to_owned()),
        false => Ok(()),
    }
}

/// Runs a kind for every target. Targets with the same result share a heading; there is none for a single target.
fn for_targets(file: &TestFile, kind: &TestKind, run: fn(&TestFile, Option<Target>, &TestKind) -> Lines, needs_target: bool) -> Lines {
    let checked = |target| {
        let lines = run(file, target, kind)?;
        Ok(if lines.is_empty() { vec![NOTHING.to_owned()] } else { lines })
    };
    match file.options.targets.as_slice() {
        [] if needs_target => Err(format!("a test of kind `{}` needs a header line `target`", kind.name)),
        [] => checked(None),
        [only] => checked(Some(*only)),
        several => {
            let mut groups: Vec<(Vec<String>, Vec<String>)> = Vec::new();
            for &target in several {
                let lines = checked(Some(target))?;
                match groups.iter_mut().find(|group| group.1 == lines) {
                    Some(group) => group.0.push(target.to_string()),
                    None => groups.push((vec![target.to_string()], lines)),
                }
            }
            let is_unchanged = groups.len() == 1 && groups[0].1 == [UNCHANGED];
            let text = |(names, lines): (Vec<String>, Vec<String>)| {
                let heading = (!is_unchanged).then(|| format!("--- {}", names.join(" ")));
                heading.into_iter().chain(lines)
            };
            Ok(groups.into_iter().flat_map(text).collect())
        }
    }
}

/// Parses the program of a PTX file, which must be valid.
fn module(file: &TestFile) -> Result<Module, String> {
    let text = file.source();
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    if checked.is_valid() {
        return Ok(checked.module);
    }
    let lines = oriole_ptx::source::LineIndex::new(text.as_bytes());
    let errors = checked.diagnostics.iter().map(|found| format!("line {}: {}", lines.line_column(found.span.start).0, found.message));
    Err(errors.collect::<Vec<_>>().join("\n"))
}

/// Parses the functions of an Ori file.
fn functions(file: &TestFile) -> Result<Vec<oriole_ir::Function>, String> {
    let functions = oriole_ir::text::parse(&file.source()).map_err(|error| error.to_string())?;
    if functions.is_empty() { Err("the file has no function".to_owned()) } else { Ok(functions) }
}

/// Returns the target of a kind that needs one.
fn required(target: Option<Target>) -> Target {
    target.expect("the kind was declared to need a target")
}

/// Returns the register limit of a file: that of its header, or all registers.
fn register_limit(options: &Options) -> u32 {
    options.register_limit.unwrap_or(255)
}
