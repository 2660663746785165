//! `oriole-ptx-fuzz`: generates programs, compares the results of interpreter and simulator, and reduces failing programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use clap::{Args, Parser, Subcommand};
use oriole_isa::Target;
use oriole_ptx_fuzz::contractions::{self, Comparison};
use oriole_ptx_fuzz::features::{Feature, Features};
use oriole_ptx_fuzz::generate::{Options, generate_with};
use oriole_ptx_fuzz::judge::{self, Configuration, Failure, FailureKind};
use oriole_ptx_fuzz::print;
use oriole_ptx_fuzz::program::Program;
use oriole_ptx_fuzz::reduce::lines::reduce_lines;
use oriole_ptx_fuzz::reduce::{Case, reduce};

#[derive(Parser)]
#[command(about = "Random PTX programs: the interpreter against the compiler's code in the simulator")]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Generates, compiles, runs and compares; reduces what fails.
    Run(Run),
    /// Writes kernel tests with the interpreter's results and cubins, for a GPU.
    Emit(Emit),
    /// Asks the checker, and ptxas if it is there, whether they accept what is generated.
    Check(Check),
    /// Prints a program.
    Show(Show),
    /// Compares which products and sums ptxas and this compiler round together.
    Contract(Contract),
}

#[derive(Args)]
struct Contract {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many programs.
    #[arg(long, default_value_t = 100)]
    count: u64,
    /// The other compiler.
    #[arg(long)]
    ptxas: PathBuf,
    /// A program to compare in place of this compiler, such as the `ptxas` of another version.
    #[arg(long)]
    own: Option<PathBuf>,
    #[arg(long, default_value = "sm_90a")]
    target: String,
    #[arg(long, default_value_t = 3)]
    level: u8,
    /// Where reduced programs go.
    #[arg(long, default_value = "fuzz-findings")]
    out: PathBuf,
    /// Candidates that the reducer tries for each difference; 0 does not reduce.
    #[arg(long, default_value_t = 0)]
    tries: usize,
}

#[derive(Args)]
struct Seeds {
    /// The first seed.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How many programs.
    #[arg(long, default_value_t = 100)]
    count: u64,
    #[command(flatten)]
    kind: Kind,
}

#[derive(Args)]
struct Kind {
    /// About how many instructions; random if not given.
    #[arg(long)]
    size: Option<usize>,
    /// Features that no program has, such as `b128` or `large-constants`. With this option a seed is another program.
    #[arg(long, value_delimiter = ',', value_parser = feature)]
    without: Vec<Feature>,
    /// Only programs for tensor cores and asynchronous copies, which otherwise are one in ten.
    #[arg(long)]
    tensor: bool,
}

impl Kind {
    fn program(&self, seed: u64) -> Program {
        let without: Features = self.without.iter().copied().collect();
        generate_with(seed, &Options { size: self.size, without, tensor: self.tensor })
    }
}

fn feature(name: &str) -> Result<Feature, String> {
    let names = || Feature::ALL.map(Feature::name).join(", ");
    Feature::from_name(name).ok_or_else(|| format!("no feature {name}; there are {}", names()))
}

#[derive(Args)]
struct Run {
    #[command(flatten)]
    seeds: Seeds,
    /// Stops after that time.
    #[arg(long)]
    seconds: Option<u64>,
    #[arg(long, value_delimiter = ',', default_value = "0,3")]
    levels: Vec<u8>,
    #[arg(long, value_delimiter = ',', default_value = "sm_75,sm_80,sm_90a,sm_100a,sm_120a")]
    targets: Vec<String>,
    /// Also with every backend and mode of the scheduler, from -O1 on.
    #[arg(long)]
    schedulers: bool,
    /// Only with these scheduling strategies, from -O1 on.
    #[arg(long, value_delimiter = ',')]
    strategies: Vec<String>,
    /// Compiles each program for that many of the levels and targets, in turn; for all if not given.
    #[arg(long)]
    each: Option<usize>,
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Where reduced programs go.
    #[arg(long, default_value = "fuzz-findings")]
    out: PathBuf,
    /// Candidates that the reducer tries for each failure; 0 does not reduce.
    #[arg(long, default_value_t = 1500)]
    tries: usize,
    /// Seconds that the reducer has for each failure.
    #[arg(long, default_value_t = 120)]
    reduce_seconds: u64,
    /// Programs that are reduced at most of each kind of failure.
    #[arg(long, default_value_t = 3)]
    alike: usize,
}

#[derive(Args)]
struct Emit {
    #[command(flatten)]
    seeds: Seeds,
    #[arg(long)]
    out: PathBuf,
    #[arg(long, default_value = "sm_90a")]
    target: String,
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// ptxas, for a rival's cubin.
    #[arg(long)]
    ptxas: Option<PathBuf>,
}

#[derive(Args)]
struct Check {
    #[command(flatten)]
    seeds: Seeds,
    #[arg(long)]
    ptxas: Option<PathBuf>,
    #[arg(long, default_value = "sm_90a")]
    target: String,
}

#[derive(Args)]
struct Show {
    seed: u64,
    #[command(flatten)]
    kind: Kind,
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Subcommands::Run(options) => run(&options),
        Subcommands::Emit(options) => emit(&options),
        Subcommands::Check(options) => check(&options),
        Subcommands::Contract(options) => contract(&options),
        Subcommands::Show(options) => {
            print!("{}", case_text(&Case::of(&options.kind.program(options.seed))));
            Ok(true)
        }
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(message) => {
            eprintln!("oriole-ptx-fuzz: {message}");
            ExitCode::from(2)
        }
    }
}

fn target(name: &str) -> Result<Target, String> {
    Target::parse(name).ok_or_else(|| format!("no target {name}"))
}

/// Returns the text of a kernel test. Without expectations the header only says how to run the kernel.
fn case_text(case: &Case) -> String {
    format!("{}\n{}", case.test.header("a random program"), case.text)
}

/// Reports failures and reduces failing programs.
struct Findings<'a> {
    options: &'a Run,
    /// One failure of each kind, and the number of failures of that kind.
    kinds: Mutex<Vec<(Failure, usize)>>,
}

impl Findings<'_> {
    /// Counts a failure; returns the number of earlier failures of the same kind.
    fn count(&self, failure: &Failure) -> usize {
        let mut kinds = self.kinds.lock().expect("no panic while locked");
        match kinds.iter_mut().find(|kind| kind.0.is_like(failure)) {
            Some(kind) => {
                kind.1 += 1;
                kind.1 - 1
            }
            None => {
                kinds.push((failure.clone(), 1));
                0
            }
        }
    }

    /// Reports a failure, reduces the program, and writes the reduced program to a file.
    fn report(&self, program: &Program, failure: &Failure) {
        println!("seed {}: {failure}", program.seed);
        let before = self.count(failure);
        if self.options.tries == 0 || before >= self.options.alike {
            return;
        }
        let configurations: Vec<Configuration> = failure.configuration.into_iter().collect();
        let (start, limit) = (Instant::now(), Duration::from_secs(self.options.reduce_seconds));
        // After the time limit every candidate counts as passing, so the reducer keeps its best result.
        let mut fails =
            |case: &Case| start.elapsed() < limit && judge::judge(case, &configurations).is_err_and(|other| other.is_like(failure));
        let reduced = Case::of(&reduce(program, self.options.tries, &mut fails));
        // Removing lines makes programs undefined in other ways, so a program that fails as undefined is reduced only as a tree.
        let text = if failure.kind == FailureKind::Undefined {
            reduced.text.clone()
        } else {
            let mut fails = |text: &str| fails(&Case { test: reduced.test.clone(), text: text.to_owned() });
            reduce_lines(&reduced.text, self.options.tries, &mut fails)
        };
        let case = Case { text, ..reduced };
        let message = judge::judge(&case, &configurations).err().map_or_else(String::new, |failure| failure.to_string());
        let path = self.options.out.join(format!("{:?}-{}.ptx", failure.kind, program.seed).to_lowercase());
        let about = format!("seed {}: {message}", program.seed).replace('\n', " ");
        let written =
            fs::create_dir_all(&self.options.out).and_then(|()| fs::write(&path, format!("{}\n{}", case.test.header(&about), case.text)));
        match written {
            Ok(()) => println!("seed {}: reduced to {} lines, {}", program.seed, case.text.lines().count(), path.display()),
            Err(error) => println!("seed {}: cannot write {}: {error}", program.seed, path.display()),
        }
    }
}

fn run(options: &Run) -> Result<bool, String> {
    std::panic::set_hook(Box::new(|_| {}));
    let mut configurations = Vec::new();
    for name in &options.targets {
        let target = target(name)?;
        for &level in &options.levels {
            let scheduled = |scheduler| Configuration { scheduler: Some(scheduler), ..Configuration::new(target, level) };
            if !options.strategies.is_empty() && level > 0 {
                for name in &options.strategies {
                    let found: Vec<judge::Scheduler> =
                        judge::schedulers().into_iter().filter(|(backend, _)| backend.name() == name).collect();
                    if found.is_empty() {
                        return Err(format!("no strategy {name}"));
                    }
                    configurations.extend(found.into_iter().map(scheduled));
                }
                continue;
            }
            configurations.push(Configuration::new(target, level));
            if options.schedulers && level > 0 {
                configurations.extend(judge::schedulers().into_iter().map(scheduled));
            }
        }
    }
    let findings = Findings { options, kinds: Mutex::new(Vec::new()) };
    let (next, compared, failed) = (AtomicU64::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
    let start = Instant::now();
    let limit = options.seconds.map(Duration::from_secs);
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                while limit.is_none_or(|limit| start.elapsed() < limit) {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.seeds.count {
                        break;
                    }
                    let program = options.seeds.kind.program(options.seeds.seed + number);
                    let mut turn = configurations.clone();
                    let each = options.each.unwrap_or(turn.len());
                    let first = (program.seed as usize).wrapping_mul(each) % turn.len().max(1);
                    turn.rotate_left(first);
                    match judge::judge_some(&Case::of(&program), &turn, each) {
                        Ok(count) => {
                            compared.fetch_add(count, Ordering::Relaxed);
                        }
                        Err(failure) => {
                            failed.fetch_add(1, Ordering::Relaxed);
                            findings.report(&program, &failure);
                        }
                    }
                }
            });
        }
    });
    let programs = next.load(Ordering::Relaxed).min(options.seeds.count);
    let seconds = start.elapsed().as_secs_f64();
    let failed = failed.load(Ordering::Relaxed);
    for (failure, count) in findings.kinds.lock().expect("no panic while locked").iter() {
        println!("{count} times: {failure}");
    }
    println!(
        "{programs} programs, {} comparisons, {failed} failures, {seconds:.1} s, {:.1} programs a second",
        compared.load(Ordering::Relaxed),
        programs as f64 / seconds
    );
    Ok(failed == 0)
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), String> {
    let folder = path.parent().ok_or("no folder")?;
    fs::create_dir_all(folder).and_then(|()| fs::write(path, bytes)).map_err(|error| format!("{}: {error}", path.display()))
}

fn emit(options: &Emit) -> Result<bool, String> {
    std::panic::set_hook(Box::new(|_| {}));
    let target = target(&options.target)?;
    let (next, failed) = (AtomicU64::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= options.seeds.count {
                        break;
                    }
                    let seed = options.seeds.seed + number;
                    if let Err(message) = emit_one(options, target, seed) {
                        println!("seed {seed}: {message}");
                        failed.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let failed = failed.load(Ordering::Relaxed);
    println!("{} programs, {failed} failed", options.seeds.count);
    println!(
        "oriole-gpu-tests --tests DIR/tests --cubins DIR/O3    # and DIR/O0, DIR/scheduled (a backend and mode by seed), DIR/ptxas, or --ptx-jit"
    );
    Ok(failed == 0)
}

/// Writes a kernel test and its cubins.
fn emit_one(options: &Emit, target: Target, seed: u64) -> Result<(), String> {
    let case = Case::of(&options.seeds.kind.program(seed));
    let test = judge::with_expectations(&case).map_err(|failure| failure.to_string())?;
    let file = options.out.join(format!("tests/fuzz/{seed}.ptx"));
    write(&file, format!("{}\n{}", test.header(&format!("random program {seed}")), case.text).as_bytes())?;
    let schedulers = judge::schedulers();
    let scheduler = Some(schedulers[seed as usize % schedulers.len()]);
    let sets = [
        ("O0", Configuration::new(target, 0)),
        ("O3", Configuration::new(target, 3)),
        ("scheduled", Configuration { scheduler, ..Configuration::new(target, 3) }),
    ];
    for (set, configuration) in sets {
        let cubin = judge::compiled(&case.text, configuration).map_err(|failure| failure.to_string())?;
        write(&options.out.join(format!("{set}/fuzz/{seed}.cubin")), &cubin)?;
    }
    let Some(ptxas) = &options.ptxas else { return Ok(()) };
    let rival = options.out.join(format!("ptxas/fuzz/{seed}.cubin"));
    fs::create_dir_all(options.out.join("ptxas/fuzz")).map_err(|error| error.to_string())?;
    let output = Command::new(ptxas).arg(format!("-arch={}", options.target)).arg(&file).arg("-o").arg(&rival).output();
    let output = output.map_err(|error| error.to_string())?;
    if output.status.success() { Ok(()) } else { Err(format!("ptxas: {}", String::from_utf8_lossy(&output.stderr))) }
}

/// Compares the results of both compilers, and reduces the programs whose results differ.
fn contract(options: &Contract) -> Result<bool, String> {
    std::panic::set_hook(Box::new(|_| {}));
    let configuration = Configuration::new(target(&options.target)?, options.level);
    let comparison = Comparison { rival: options.ptxas.clone(), own: options.own.clone(), configuration };
    let (mut different, mut failed) = (0, 0);
    for seed in options.seed..options.seed + options.count {
        let case = contractions::program(seed);
        match comparison.difference(&case) {
            Ok(None) => {}
            Ok(Some(message)) => {
                different += 1;
                println!("seed {seed}: {message}");
                if options.tries > 0 {
                    let mut differs = |text: &str| comparison.differs(&Case { test: case.test.clone(), text: text.to_owned() });
                    let text = reduce_lines(&case.text, options.tries, &mut differs);
                    let path = options.out.join(format!("contract-{seed}.ptx"));
                    write(&path, format!("{}\n{text}", case.test.header(&format!("seed {seed}: {message}"))).as_bytes())?;
                }
            }
            Err(failure) => {
                failed += 1;
                println!("seed {seed}: {failure}");
            }
        }
    }
    println!("{} programs, {different} with other results, {failed} failures", options.count);
    Ok(different + failed == 0)
}

/// The key by which programs are put into one module for ptxas.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    version: &'static str,
    target: &'static str,
    /// Whether a function has several results. ptxas compiles such modules differently.
    many_results: bool,
    /// The seed, for a program with a large constant. Constants of a module are limited to 64 KB, so such a program gets its own module.
    alone: Option<u64>,
    /// Number of the part; limits a module to about 20 programs.
    part: u64,
}

impl Group {
    fn of(program: &Program) -> Group {
        Group {
            version: program.version,
            target: program.target,
            many_results: program.functions.iter().any(|function| function.results.len() > 1),
            alone: (!program.large_constant.is_empty()).then_some(program.seed),
            part: program.seed / 200,
        }
    }
}

fn check(options: &Check) -> Result<bool, String> {
    let mut refused = 0;
    let mut groups: BTreeMap<Group, Vec<u64>> = BTreeMap::new();
    for seed in options.seeds.seed..options.seeds.seed + options.seeds.count {
        let program = options.seeds.kind.program(seed);
        let text = print::module(&program);
        let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
        if !checked.is_valid() {
            refused += 1;
            println!("seed {seed}: {}", checked.diagnostics.first().map_or("", |first| &first.message));
        }
        groups.entry(Group::of(&program)).or_default().push(seed);
    }
    let Some(ptxas) = &options.ptxas else { return Ok(refused == 0) };
    let folder = std::env::temp_dir().join(format!("oriole-ptx-fuzz-{}", std::process::id()));
    let accepts = |group: &Group, seeds: &[u64]| -> Result<Option<String>, String> {
        let path = folder.join("group.ptx");
        let contents: String = seeds.iter().map(|&seed| print::contents(&options.seeds.kind.program(seed))).collect();
        write(&path, format!(".version {}\n.target {}\n.address_size 64\n\n{contents}", group.version, group.target).as_bytes())?;
        let output = Command::new(ptxas).args(["-O0", "-arch", &options.target]).arg(&path).args(["-o", "/dev/null"]).output();
        let output = output.map_err(|error| error.to_string())?;
        let words = || String::from_utf8_lossy(&output.stderr).lines().take(5).collect::<Vec<_>>().join("\n");
        Ok((!output.status.success()).then(|| format!("ptxas, {}: {}", output.status, words())))
    };
    for (group, seeds) in groups {
        let Some(message) = accepts(&group, &seeds)? else { continue };
        let mut refused_alone = 0;
        for seed in &seeds {
            if let Some(message) = accepts(&group, &[*seed])? {
                refused_alone += 1;
                println!("seed {seed}: {message}");
            }
        }
        refused += refused_alone;
        if refused_alone == 0 {
            // ptxas fails on long modules, not on one of the programs.
            println!("seeds {seeds:?} in one module: {message}; alone, ptxas accepts each");
        }
    }
    let _ = fs::remove_dir_all(folder);
    println!("{} programs, {refused} refusals", options.seeds.count);
    Ok(refused == 0)
}
