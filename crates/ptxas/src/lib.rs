//! `ptxas` as a library: its options, messages and results.
//!
//! [`run`] does what one call of ptxas does, except that messages go to the caller and the compiled program is returned instead of
//! written. The program `ptxas` and the C library share it. Other programs parse the messages, so wording, spaces and order follow ptxas
//! 13.0.88, even where it is odd.
//!
//! ```
//! use oriole_ptxas::{CallOutcome, Input, run};
//!
//! let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }";
//! let mut log = Vec::new();
//! let outcome = run(["-arch=sm_90".to_string()], vec![Input::text(ptx)], &mut |message| log.push(message.to_string()));
//! let CallOutcome::Compiled { cubin, .. } = outcome else { panic!("{log:?}") };
//! assert_eq!(&cubin[..4], b"\x7fELF");
//! assert!(log.is_empty());
//! ```

mod after_parsing;
mod arch;
mod cached;
mod command_line;
pub mod file_name;
mod generate;
mod help;
mod memory_options;
mod messages;
pub mod missing;
mod program;
mod settings;
mod table;
mod time_trace;
mod wording;

pub use cached::ProgramCache;
use command_line::CommandLine;
pub use messages::{Message, MessageKind, TOOL};
use messages::{Messages, Sink, Warnings};
pub use oriole_driver::Hooks;
pub use program::Input;
use settings::Settings;

/// The default output file of ptxas.
const DEFAULT_OUTPUT: &str = "elf.o";

/// The message after errors in the input.
const ABORTED: &str = "Ptx assembly aborted due to errors";

/// The result of a call.
#[derive(Debug, PartialEq, Eq)]
pub enum CallOutcome {
    /// The options request a text for standard output, such as that of `--help`.
    Text(String),
    /// The input is valid, and the options do not request code.
    Checked,
    /// The input is compiled.
    Compiled {
        /// The program.
        cubin: Vec<u8>,
        /// The name of the output file: that of `-o`, or the default.
        output_file: String,
        /// The name in messages: that of `--tool-name`, or `ptxas`.
        tool: String,
    },
    /// There were errors.
    Failed {
        /// Whether a module needs a later version of PTX.
        needs_later_ptx: bool,
    },
}

/// The release of ptxas that the options, messages and results follow: major and minor number.
pub const RELEASE: (u32, u32) = (13, 0);

/// Performs one call with the given arguments, without the program's name. The inputs are `inputs`, or, if there are
/// none, the files that the arguments name.
pub fn run(arguments: impl IntoIterator<Item = String>, inputs: Vec<Input>, sink: Sink<'_>) -> CallOutcome {
    perform(arguments, inputs, sink, None, Hooks::default())
}

/// Like [`run`], with functions to call while the compiler runs. A call that is cancelled fails.
pub fn run_with_hooks(arguments: impl IntoIterator<Item = String>, inputs: Vec<Input>, sink: Sink<'_>, hooks: Hooks) -> CallOutcome {
    perform(arguments, inputs, sink, None, hooks)
}

/// Like [`run`], with a cache of compiled programs.
pub fn run_with_cache(
    arguments: impl IntoIterator<Item = String>,
    inputs: Vec<Input>,
    sink: Sink<'_>,
    cache: Option<&dyn ProgramCache>,
) -> CallOutcome {
    perform(arguments, inputs, sink, cache, Hooks::default())
}

fn perform(
    arguments: impl IntoIterator<Item = String>,
    inputs: Vec<Input>,
    sink: Sink<'_>,
    cache: Option<&dyn ProgramCache>,
    hooks: Hooks,
) -> CallOutcome {
    let line = match CommandLine::parse(arguments) {
        Ok(line) => line,
        Err(text) => return fail(&mut Messages::new(Warnings::Shown, sink), &text),
    };
    let warnings = match (line.has("warning-as-error"), line.has("disable-warnings")) {
        (_, true) => Warnings::Hidden,
        (true, false) => Warnings::Errors,
        (false, false) => Warnings::Shown,
    };
    let mut messages = Messages::new(warnings, sink);
    for warning in &line.warnings {
        messages.print(None, MessageKind::Warning, warning);
    }
    if let Some(name) = line.value("tool-name") {
        messages.name_tool(name);
    }
    if !inputs.is_empty() && !line.files.is_empty() {
        return fail(&mut messages, "Input files cannot be combined with a program in memory");
    }
    let files = line.files.iter().cloned().map(Input::File);
    let texts = line.values("input-as-string").iter().map(|text| Input::text(text));
    let inputs: Vec<Input> = inputs.into_iter().chain(files).chain(texts).collect();
    if line.has("help") {
        CallOutcome::Text(help::help())
    } else if line.has("version") {
        CallOutcome::Text(help::version())
    } else if line.has("list-version") {
        CallOutcome::Text(help::list_versions())
    } else if inputs.is_empty() {
        CallOutcome::Text(help::help())
    } else {
        compile(&line, &inputs, &mut messages, cache, hooks)
    }
}

/// Checks the inputs and generates code if the options request it.
fn compile(
    line: &CommandLine,
    inputs: &[Input],
    messages: &mut Messages<'_>,
    cache: Option<&dyn ProgramCache>,
    hooks: Hooks,
) -> CallOutcome {
    if line.has("verbose") {
        for option in line.without_effect() {
            messages.print(None, MessageKind::Info, &format!("Option '--{option}' has no effect in Oriole"));
        }
    }
    let settings = match Settings::new(line, messages) {
        Ok(settings) => settings.with_hooks(hooks),
        Err(text) => return fail(messages, &text),
    };
    let mut modules = match program::check(inputs, &settings, messages) {
        Ok(modules) => modules,
        Err(text) => return fail(messages, &text),
    };
    if messages.has_errors() {
        return fail(messages, ABORTED);
    }
    if let Err(text) = after_parsing::check(&modules, &settings, line, messages) {
        return fail(messages, &text);
    }
    if messages.has_errors() {
        return fail(messages, ABORTED);
    }
    if !settings.wants_code {
        return CallOutcome::Checked;
    }
    for parsed in &mut modules {
        settings.cache_operators.apply(&mut parsed.module);
    }
    let generated = match cache {
        // A trace has the times of a compilation, so nothing is taken from the cache.
        Some(cache) if !line.has("fdevice-time-trace") => cached::generate(&modules, &settings, line, messages, cache),
        _ => generate::generate(&modules, &settings, line, messages),
    };
    match generated {
        Ok(_) if messages.is_aborted() => fail(messages, ABORTED),
        Ok(Some(cubin)) if !messages.has_errors() => {
            let output_file = line.value("output-file").unwrap_or(DEFAULT_OUTPUT).to_owned();
            CallOutcome::Compiled { cubin, output_file, tool: messages.tool().to_owned() }
        }
        Ok(_) => failure(messages),
        Err(text) => fail(messages, &text),
    }
}

fn fail(messages: &mut Messages<'_>, text: &str) -> CallOutcome {
    messages.print(None, MessageKind::Fatal, text);
    failure(messages)
}

fn failure(messages: &Messages<'_>) -> CallOutcome {
    CallOutcome::Failed { needs_later_ptx: messages.needs_later_ptx }
}
