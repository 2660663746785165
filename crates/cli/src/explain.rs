//! `oriole explain`: why the code came out as it did.

use std::process::ExitCode;

use clap::Args;
use oriole_cubin::ImageKind;
use oriole_explain::text::Detail;
use oriole_explain::{Explanation, Failure, Options, compare, explain_cubin, explain_module, html, measured, text};
use oriole_isa::Target;
use oriole_ptx::diag::Style;
use oriole_ptx::source::Source;

use crate::check::read_input;
use crate::compile_file::{diagnostics, show};
use crate::console::{refuse_overwriting, write_output};
use crate::print;
use crate::target_names;

/// Explain why machine code came out as it did.
///
///   $ oriole explain kernel.ptx --arch sm_90a             compile, and explain the result as text
///   $ oriole explain kernel.ptx --summary                 without the instructions
///   $ oriole explain kernel.ptx --html kernel.html        as one page that needs no network
///   $ oriole explain kernel.cubin --json                  code of any compiler, as data
///   $ oriole explain kernel.ptx ptxas.cubin               compared line by line; with --html as a page
///   $ oriole explain kernel.cubin --measured ncu.csv      with the samples of a profiler
///
/// For each function: its registers and the values that are live where most are live, the occupancy and what limits it, spills, predicted
/// cycles of blocks and loops, what bounds each loop, what passes did and did not do, and warnings ranked by predicted cycles. For each
/// instruction: the PTX and source line, why it is here and has this form, why it stalls, which instruction it waits for and how long, and
/// which one waits for it.
///
/// Cycles are predictions of the hardware model (`oriole profile`) for one warp alone. Samples are shown only if --measured names a file.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct ExplainArguments {
    /// PTX, or a cubin, fatbin or host program; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// A second file to compare with, as --against
    #[arg(value_name = "OTHER", conflicts_with_all = ["against", "summary", "measured"])]
    other: Option<String>,
    /// The GPU to compile PTX for, or the target of the image to explain
    #[arg(long, value_name = "SM")]
    arch: Option<String>,
    /// Optimization level for PTX
    #[arg(short = 'O', long, default_value_t = 3, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    opt_level: u8,
    /// Registers for each thread at most, for PTX
    #[arg(long, value_name = "N")]
    maxrregcount: Option<u32>,
    /// Explain this kernel or function only; may be repeated
    #[arg(long, value_name = "NAME")]
    kernel: Vec<String>,
    /// Leave out the instructions
    #[arg(long, conflicts_with_all = ["json", "html"])]
    summary: bool,
    /// Print JSON; docs/explain.md describes it
    #[arg(long)]
    json: bool,
    /// Write a page with everything, for a browser; `-` is standard output
    #[arg(long, value_name = "OUT", conflicts_with = "json")]
    html: Option<String>,
    /// Compare with another file: PTX, or a cubin of any compiler
    #[arg(long, value_name = "FILE", conflicts_with = "summary")]
    against: Option<String>,
    /// Samples of a profiler, to show next to the prediction: CSV of `ncu --page source --print-source sass --csv`, or text with tabs as in
    /// docs/explain.md
    #[arg(long, value_name = "FILE", conflicts_with = "against")]
    measured: Option<String>,
}

/// Exit codes of a call without output.
const INPUT_ERROR: u8 = 1;
const USAGE_ERROR: u8 = 2;

pub fn run(arguments: &ExplainArguments, style: Style) -> ExitCode {
    match respond(arguments, style) {
        Ok(()) => ExitCode::SUCCESS,
        Err(code) => ExitCode::from(code),
    }
}

/// Prints a message and returns the exit code.
fn fail(message: &str, code: u8) -> u8 {
    errln!("error: {message}");
    code
}

fn respond(arguments: &ExplainArguments, style: Style) -> Result<(), u8> {
    let inputs = [Some(&arguments.file), arguments.other.as_ref(), arguments.against.as_ref(), arguments.measured.as_ref()];
    let (inputs, page) = (inputs.into_iter().flatten().map(String::as_str), arguments.html.as_deref());
    refuse_overwriting(inputs, page).map_err(|message| fail(&message, USAGE_ERROR))?;
    let mut first = explain(arguments, &arguments.file, style)?;
    if let Some(path) = &arguments.measured {
        let data = read_input(path).map_err(|error| fail(&format!("{path}: {error}"), USAGE_ERROR))?;
        let samples = measured::read(&String::from_utf8_lossy(&data));
        let wrong = |message: String| fail(&format!("{path}: {message}"), INPUT_ERROR);
        measured::overlay(&mut first, &samples.map_err(wrong)?).map_err(wrong)?;
    }
    let write_page =
        |path: &str, page: &str| write_output(path, page.as_bytes()).map_err(|error| fail(&format!("{path}: {error}"), USAGE_ERROR));
    let json = |text: serde_json::Result<String>| text.map_err(|error| fail(&error.to_string(), INPUT_ERROR));
    let output = match arguments.against.as_ref().or(arguments.other.as_ref()) {
        Some(other) => {
            let second = explain(arguments, other, style)?;
            let comparison = compare::compare(&first, &second);
            if let Some(path) = &arguments.html {
                return write_page(path, &html::comparison::write(&first, &second, &comparison));
            }
            if arguments.json { json(serde_json::to_string(&comparison))? + "\n" } else { compare::write(&comparison) }
        }
        None if arguments.json => json(serde_json::to_string(&first))? + "\n",
        None => match &arguments.html {
            Some(path) => return write_page(path, &html::write(&first)),
            None => text::write(&first, if arguments.summary { Detail::Summary } else { Detail::Full }),
        },
    };
    print::out(output.as_bytes());
    Ok(())
}

/// Explains one input.
fn explain(arguments: &ExplainArguments, file: &str, style: Style) -> Result<Explanation, u8> {
    let data = read_input(file).map_err(|error| fail(&format!("{file}: {error}"), USAGE_ERROR))?;
    let name = if file == "-" { "<stdin>" } else { file };
    if is_machine_code(&data) { explain_image(arguments, name, &data) } else { explain_text(arguments, name, &data, style) }
}

/// Returns whether a file is a cubin or a container of cubins. PTX is text without control characters.
fn is_machine_code(data: &[u8]) -> bool {
    data.starts_with(b"\x7fELF") || data.iter().take(64).any(|&byte| byte == 0) || data.starts_with(b"!<arch>")
}

/// Returns the options for a target.
fn options(arguments: &ExplainArguments, target: Target) -> Options {
    let mut options = Options::new(target);
    options.compiler.level = arguments.opt_level;
    options.compiler.max_registers = arguments.maxrregcount;
    options.functions.clone_from(&arguments.kernel);
    options.with_sources = true;
    options
}

fn explain_text(arguments: &ExplainArguments, name: &str, data: &[u8], style: Style) -> Result<Explanation, u8> {
    let source = Source::new(name, data);
    let checked = oriole_ptx::check(data, &oriole_ptx::Options::default());
    show(&source, &checked.diagnostics, style);
    if !checked.is_valid() {
        return Err(INPUT_ERROR);
    }
    let own = checked.module.target.to_string();
    let wanted = arguments.arch.as_deref().unwrap_or(&own);
    let target = target_names::parse(wanted).map_err(|message| fail(&message, USAGE_ERROR))?;
    explain_module(name, data, &checked.module, &options(arguments, target)).map_err(|failure| match failure {
        Failure::Invalid(findings) => {
            show(&source, &findings, style);
            INPUT_ERROR
        }
        Failure::Compile(errors) => {
            show(&source, &diagnostics(&errors), style);
            INPUT_ERROR
        }
        Failure::File(message) => fail(&format!("{name}: {message}"), INPUT_ERROR),
    })
}

fn explain_image(arguments: &ExplainArguments, name: &str, data: &[u8]) -> Result<Explanation, u8> {
    let wrong = |message: String| fail(&format!("{name}: {message}"), INPUT_ERROR);
    let images = oriole_cubin::open(data).map_err(|error| wrong(error.to_string()))?;
    let is_wanted = |target: &str| arguments.arch.as_deref().is_none_or(|arch| arch == target);
    let cubins: Vec<_> = images.iter().filter(|image| image.kind == ImageKind::Cubin && is_wanted(&image.target)).collect();
    let cubin = match cubins.as_slice() {
        [one] => one.cubin().map_err(|error| wrong(error.to_string()))?,
        [] => return Err(wrong("there is no machine code for this target here".to_owned())),
        several => {
            let targets: Vec<&str> = several.iter().map(|image| &image.target[..]).collect();
            return Err(wrong(format!("there are {} cubins; --arch chooses one of {}", several.len(), targets.join(", "))));
        }
    };
    let target = cubin.target().ok_or_else(|| wrong(format!("there is no table of instructions for {}", cubin.target_name())))?;
    let bytes = cubin.write().map_err(|error| wrong(error.to_string()))?;
    explain_cubin(name, &bytes, Some(&options(arguments, target))).map_err(wrong)
}
