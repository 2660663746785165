//! `oriole compile`: compiles PTX to a cubin.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use oriole_ptx::diag::Style;
use oriole_ptxas::file_name::unescape;

use crate::batch;
use crate::cache::{self, Cache};
use crate::check::read_input;
use crate::compile_file::{self, Job, Settings, USAGE};
use crate::console::refuse_overwriting;
use crate::pass_options::{self, PassArguments};
use crate::print;
use crate::progress::ProgressLine;
use crate::sched_choice::SchedulingChoice;
use crate::sched_output::SchedulingOutput;

/// Compile PTX to a cubin that the CUDA driver loads.
///
///   $ oriole compile kernel.ptx -o kernel.cubin --arch sm_90a -v
///   kernel.ptx: saxpy: 10 registers, 0 barriers, 0 bytes stack, 0 bytes shared, 28 instructions
///
/// Errors are reported with their source location, for all kernels at once. Nothing is written then.
///
/// Several files are compiled in parallel, each to a cubin of its own. A file with errors does not stop the others:
///
///   $ oriole compile kernels/*.ptx --out-dir build --arch sm_90a
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct CompileArguments {
    /// PTX files; `-` is standard input
    #[arg(value_name = "FILE", required_unless_present_any = ["list_passes", "sched_strategy", "sched_options"])]
    files: Vec<String>,
    /// Where the cubin of a single file goes; `-` is standard output
    #[arg(short, long, value_name = "OUT", required_unless_present_any = ["list_passes", "stop_after", "out_dir", "sched_strategy", "sched_options"])]
    output: Option<String>,
    /// Folder for the cubins: FILE.ptx becomes DIR/FILE.cubin; created if it does not exist
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    out_dir: Option<PathBuf>,
    /// The GPU, such as sm_90a; without it, the module's own target
    #[arg(long, value_name = "SM")]
    pub arch: Option<String>,
    /// Optimization level
    #[arg(short = 'O', long, default_value_t = 3, value_name = "LEVEL", value_parser = clap::value_parser!(u8).range(0..=3))]
    pub opt_level: u8,
    /// Whether a floating-point `mul` and an `add` or `sub` without a rounding modifier become one `fma`; needs -O1 or higher
    #[arg(long, value_name = "true|false", default_value_t = true, action = clap::ArgAction::Set)]
    pub fmad: bool,
    /// Registers for each thread at most
    #[arg(long, value_name = "N")]
    pub maxrregcount: Option<u32>,
    /// Make a relocatable object for nvlink
    #[arg(short = 'c', long)]
    pub compile_only: bool,
    /// Write line tables for debuggers and profilers: source lines from `.loc`, PTX lines, and the PTX text
    #[arg(long, visible_alias = "generate-line-info")]
    pub lineinfo: bool,
    /// Write line tables and the debug sections of the PTX, and compile without optimization
    #[arg(short = 'g', long, conflicts_with = "opt_level")]
    pub device_debug: bool,
    /// Hardware profile to use instead of the built-in one; `oriole profile --export` writes such a file
    #[arg(long, value_name = "FILE")]
    hw_profile: Option<String>,
    #[command(flatten)]
    sched_choice: SchedulingChoice,
    #[command(flatten)]
    pub sched_output: SchedulingOutput,
    /// Compile these kernels only
    #[arg(long, value_name = "KERNEL")]
    pub entry: Vec<String>,
    /// Folder of a cache of compiled files; a file that was compiled before with the same options is taken from there. Not used with
    /// reports about passes and scheduling
    #[arg(long, value_name = "DIR", env = cache::VARIABLE)]
    cache: Option<PathBuf>,
    /// Print what each function needs, and whether it comes from the cache
    #[arg(short, long)]
    pub verbose: bool,
    /// Print what each function needs as JSON, one object a line, and errors and warnings of PTX as `oriole check --json` does
    #[arg(long)]
    pub json: bool,
    /// Check the code after every pass
    #[arg(long)]
    pub verify: bool,
    #[command(flatten)]
    pub passes: PassArguments,
}

pub fn run(arguments: &CompileArguments, style: Style) -> ExitCode {
    if arguments.passes.wants_list() {
        print::out(pass_options::list().as_bytes());
        return ExitCode::SUCCESS;
    }
    if let Some(text) = arguments.sched_choice.help() {
        print::out(text.as_bytes());
        return ExitCode::SUCCESS;
    }
    let prepared = settings(arguments, style).and_then(|settings| Ok((settings, jobs(arguments)?)));
    let (settings, jobs) = match prepared {
        Ok(prepared) => prepared,
        Err(message) => {
            errln!("error: {message}");
            return ExitCode::from(USAGE);
        }
    };
    let status = match jobs.as_slice() {
        [job] => compile_file::run(&settings, job),
        _ => {
            let sizes: Vec<u64> = jobs.iter().map(|job| fs::metadata(unescape(job.file)).map_or(0, |found| found.len())).collect();
            let line = ProgressLine::start_for_files(&sizes);
            let run = |number: usize| compile_file::run(&settings, &jobs[number]);
            batch::run(&sizes, line.as_ref(), run).into_iter().max().unwrap_or(0)
        }
    };
    ExitCode::from(status)
}

/// Number of registers below which `--maxrregcount` gives a warning. ptxas raises smaller limits to it.
const LEAST_REGISTERS: u32 = 24;

/// Returns the settings that hold for all files.
fn settings(arguments: &CompileArguments, style: Style) -> Result<Settings<'_>, String> {
    let profile = match arguments.hw_profile.as_deref() {
        Some(file) => {
            let text = read_input(file).map_err(|error| format!("{file}: {error}"))?;
            Some((if file == "-" { "<stdin>" } else { file }, text))
        }
        None => None,
    };
    if let Some(count) = arguments.maxrregcount.filter(|&count| count < LEAST_REGISTERS) {
        errln!("warning: --maxrregcount {count} is less than {LEAST_REGISTERS}, the minimum for calls; functions that need more get more");
    }
    let (scheduling, passes) = (arguments.sched_choice.scheduling()?, arguments.passes.options()?);
    // Several files have a line of their own; the messages of bisection come while the compiler works.
    let shows_progress = arguments.files.len() == 1 && passes.bisect.is_none();
    Ok(Settings { arguments, style, scheduling, passes, profile, shows_progress, cache: open_cache(arguments)? })
}

/// Opens the cache, unless the options request reports that only a compilation gives.
fn open_cache(arguments: &CompileArguments) -> Result<Option<Cache>, String> {
    let Some(folder) = arguments.cache.as_deref().filter(|folder| !folder.as_os_str().is_empty()) else { return Ok(None) };
    if !arguments.passes.is_cacheable() || arguments.sched_output.wants_report() {
        if arguments.verbose {
            errln!("note: the cache is not used with options that print reports about passes or scheduling, or leave out passes");
        }
        return Ok(None);
    }
    Cache::open(Path::new(&unescape(&folder.to_string_lossy())))
        .map(Some)
        .map_err(|error| format!("{}: the cache cannot be opened: {error}", folder.display()))
}

/// Returns the files to compile and where each cubin goes.
fn jobs(arguments: &CompileArguments) -> Result<Vec<Job<'_>>, String> {
    let files = &arguments.files;
    // The options that print a list instead of compiling need neither a file nor an output, so the parser cannot require them.
    if files.is_empty() {
        return Err("there is no file to compile".to_owned());
    }
    let has_output = arguments.output.is_some() || arguments.out_dir.is_some() || arguments.passes.stop_after.is_some();
    if !has_output {
        return Err("-o says where the cubin goes".to_owned());
    }
    if files.len() > 1 {
        if arguments.output.is_some() {
            return Err(format!("-o is for one file, and there are {}; --out-dir writes a cubin for each of them", files.len()));
        }
        if let Some(option) = arguments.passes.single_file_option().or_else(|| arguments.sched_output.single_file_option()) {
            return Err(format!("{option} is for one file, and there are {}", files.len()));
        }
    }
    let jobs: Vec<Job<'_>> = match &arguments.out_dir {
        Some(folder) => {
            fs::create_dir_all(unescape(&folder.to_string_lossy())).map_err(|error| format!("{}: {error}", folder.display()))?;
            jobs_in_folder(files, folder)?
        }
        None => files.iter().map(|file| Job { file, output: arguments.output.clone() }).collect(),
    };
    let inputs = files.iter().chain(&arguments.hw_profile).map(String::as_str);
    let outputs = jobs.iter().filter_map(|job| job.output.as_deref()).chain(arguments.sched_output.trace_file());
    refuse_overwriting(inputs, outputs)?;
    Ok(jobs)
}

/// Returns a job for each file with its output in a folder. Two files with the same output are an error.
fn jobs_in_folder<'a>(files: &'a [String], folder: &Path) -> Result<Vec<Job<'a>>, String> {
    let mut jobs = Vec::new();
    let mut earlier: BTreeMap<String, &str> = BTreeMap::new();
    for file in files {
        let stem = match Path::new(file).file_stem() {
            Some(stem) if file != "-" => stem,
            _ => return Err(format!("{file}: there is no name for a cubin in {}; use -o", folder.display())),
        };
        let output = folder.join(format!("{}.cubin", stem.to_string_lossy())).to_string_lossy().into_owned();
        if let Some(other) = earlier.insert(output.clone(), file) {
            return Err(format!("{other} and {file} would both be compiled to {output}"));
        }
        jobs.push(Job { file, output: Some(output) });
    }
    Ok(jobs)
}
