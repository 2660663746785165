//! Runs the tests with each mutant and writes the table of results.
//!
//! For each mutant, runs the units that reach it, the fastest first, and then the kernels that reach it in batches of growing size,
//! until one fails. All mutants pass the fast units before any mutant runs a slow one, so that little is lost if the time runs out.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Instant;

use crate::process::{self, End};
use crate::reach::{self, Extent, Reach};

/// Sizes of the first batches of kernels; the last batch contains the rest.
const BATCHES: [usize; 2] = [30, 300];
/// Time limit of a step: this multiple of its usual time, and at least `PATIENCE_SECONDS`.
const SLOWER: f64 = 6.0;
const PATIENCE_SECONDS: f64 = 10.0;

/// Part of the name of the units that run last.
const LAST: &str = "::quality";
/// Sort key from which the units that run last start.
const LAST_ORDER: u64 = u64::MAX / 2;

/// The options of `run`.
pub struct Request {
    pub copy: PathBuf,
    pub out: PathBuf,
    pub extent: Extent,
    pub limit_seconds: f64,
    /// The mutants to run; all if empty.
    pub only: BTreeSet<usize>,
}

/// The result of a mutant.
#[derive(Clone, Debug, PartialEq)]
enum State {
    Killed(String),
    Timeout(String),
    Survived,
    NotReached,
    NotFinished,
}

/// One step in the test of a mutant: a unit, or a batch of kernels.
#[derive(Clone, Debug)]
enum Step {
    Unit(usize),
    Batch(Vec<usize>),
}

/// A line of `mutants.tsv`.
struct Row {
    number: usize,
    fields: Vec<String>,
}

/// Measures the tests, runs them with each mutant, and writes the table and the summary.
pub fn run(request: &Request) {
    let start = Instant::now();
    let scratch = std::env::temp_dir().join(format!("oriole-mutants-{}", std::process::id()));
    fs::create_dir_all(&scratch).expect("a folder for scratch files");
    fs::create_dir_all(&request.out).expect("a folder for results");
    let rows = rows(&request.copy, &request.only);
    let reach = reach::measure(&request.copy, &scratch, &request.extent);
    println!(
        "{} mutants, {} units, {} kernel jobs, measured in {:.0} s",
        rows.len(),
        reach.units.len(),
        reach.jobs.len(),
        start.elapsed().as_secs_f64()
    );
    fs::write(request.out.join("units.txt"), describe(&reach)).expect("units.txt");
    let queue = Queue::new(&rows, &reach);
    let queue = Mutex::new(queue);
    std::thread::scope(|scope| {
        for worker in 0..request.extent.threads {
            let (queue, reach, folder) = (&queue, &reach, scratch.join(format!("worker-{worker}")));
            scope.spawn(move || work(queue, reach, &folder, start, request.limit_seconds));
        }
    });
    let states = queue.into_inner().expect("no worker panics").states;
    fs::write(request.out.join("table.tsv"), table(&rows, &states)).expect("table.tsv");
    let summary = summary(&rows, &states);
    fs::write(request.out.join("summary.txt"), &summary).expect("summary.txt");
    println!("{summary}{:.0} s", start.elapsed().as_secs_f64());
    let _ = fs::remove_dir_all(&scratch);
}

fn rows(copy: &Path, only: &BTreeSet<usize>) -> Vec<Row> {
    let text = fs::read_to_string(copy.join("mutants.tsv")).expect("mutants.tsv");
    let rows = text.lines().filter(|line| line.ends_with("\tbuilt")).map(|line| {
        let fields: Vec<String> = line.split('\t').map(str::to_string).collect();
        Row { number: fields[0].parse().expect("a number"), fields }
    });
    rows.filter(|row| only.is_empty() || only.contains(&row.number)).collect()
}

/// The steps of all mutants that remain, and the results so far.
struct Queue {
    /// Estimated time of the next step in microseconds, and the mutant; the fastest step is taken first.
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    /// Remaining steps of each mutant, the next one last.
    steps: BTreeMap<usize, Vec<Step>>,
    states: BTreeMap<usize, State>,
}

impl Queue {
    fn new(rows: &[Row], reach: &Reach) -> Queue {
        let mut queue = Queue { heap: BinaryHeap::new(), steps: BTreeMap::new(), states: BTreeMap::new() };
        for row in rows {
            let mut steps = steps(row.number, reach);
            steps.sort_by_key(|step| Reverse(order(step, reach)));
            queue.states.insert(row.number, if steps.is_empty() { State::NotReached } else { State::NotFinished });
            queue.steps.insert(row.number, steps);
            queue.push(row.number, reach);
        }
        queue
    }

    /// Queues the next step of a mutant, or records that it survived all steps.
    fn push(&mut self, mutant: usize, reach: &Reach) {
        match self.steps[&mutant].last() {
            Some(step) => self.heap.push(Reverse((order(step, reach), mutant))),
            None if self.states[&mutant] == State::NotFinished => {
                self.states.insert(mutant, State::Survived);
            }
            None => {}
        }
    }
}

/// Returns all steps of a mutant.
fn steps(mutant: usize, reach: &Reach) -> Vec<Step> {
    let units = (0..reach.units.len()).filter(|&unit| reach.units[unit].reached.contains(&mutant));
    let mut steps: Vec<Step> = units.map(Step::Unit).collect();
    let mut jobs: Vec<usize> = (0..reach.jobs.len()).filter(|&job| reach.jobs[job].reached.contains(&mutant)).collect();
    // Neighbours in the list are similar. A pseudorandom order covers different kernels early.
    jobs.sort_by_key(|&job| (job as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20);
    for size in BATCHES.into_iter().chain([usize::MAX]) {
        let batch: Vec<usize> = jobs.drain(..size.min(jobs.len())).collect();
        if !batch.is_empty() {
            steps.push(Step::Batch(batch));
        }
    }
    steps
}

/// Returns the sort key of a step: its time. Baselines of code quality come after everything else.
fn order(step: &Step, reach: &Reach) -> u64 {
    match step {
        Step::Unit(unit) if reach.units[*unit].name.contains(LAST) => LAST_ORDER + cost(step, reach),
        _ => cost(step, reach),
    }
}

/// Returns the usual time of a step in microseconds.
fn cost(step: &Step, reach: &Reach) -> u64 {
    match step {
        Step::Unit(unit) => (reach.units[*unit].seconds * 1e6) as u64,
        Step::Batch(jobs) => jobs.iter().map(|&job| reach.jobs[job].micros).sum::<u64>() + 20_000,
    }
}

/// Executes steps from the queue until it is empty.
fn work(queue: &Mutex<Queue>, reach: &Reach, folder: &Path, start: Instant, limit_seconds: f64) {
    loop {
        let left_seconds = limit_seconds - start.elapsed().as_secs_f64();
        let (mutant, step) = {
            let mut queue = queue.lock().expect("no worker panics");
            let Some(Reverse((_, mutant))) = queue.heap.pop() else { return };
            let step = queue.steps.get_mut(&mutant).and_then(Vec::pop).expect("a step");
            (mutant, step)
        };
        let patience_seconds = (cost(&step, reach) as f64 * 1e-6 * SLOWER).max(PATIENCE_SECONDS);
        if left_seconds < 1.0 {
            continue;
        }
        let (name, outcome) = execute(mutant, &step, reach, folder, patience_seconds.min(left_seconds));
        let mut queue = queue.lock().expect("no worker panics");
        match outcome {
            End::Success => queue.push(mutant, reach),
            End::Failure(why) => {
                queue.states.insert(mutant, State::Killed(format!("{name}: {why}")));
            }
            // A run that the overall time limit cut short gives no information.
            End::Timeout if patience_seconds > left_seconds => {}
            End::Timeout => {
                queue.states.insert(mutant, State::Timeout(name));
            }
        }
    }
}

/// Runs one step with a mutant active; returns the name of the unit and the result.
fn execute(mutant: usize, step: &Step, reach: &Reach, folder: &Path, limit_seconds: f64) -> (String, End) {
    let log = folder.with_extension("log");
    let mut environment = vec![("ORIOLE_MUTANT", mutant.to_string())];
    match step {
        Step::Unit(unit) => {
            let unit = &reach.units[*unit];
            (unit.name.clone(), process::run(&unit.program, &unit.arguments(), &unit.folder, &environment, limit_seconds, &log).end)
        }
        Step::Batch(batch) => {
            let lines =
                |field: fn(&reach::Job) -> &str| batch.iter().map(|&job| format!("{}\n", field(&reach.jobs[job]))).collect::<String>();
            let (jobs, digests) = (folder.with_extension("jobs"), folder.with_extension("digests"));
            fs::write(&jobs, lines(|job| &job.text)).expect("a list of jobs");
            fs::write(&digests, lines(|job| &job.digest)).expect("a list of digests");
            environment.push(("ORIOLE_MUTANT_JOBS", jobs.display().to_string()));
            environment.push(("ORIOLE_MUTANT_DIGESTS", digests.display().to_string()));
            let unit = &reach.kernels;
            ("kernels".to_string(), process::run(&unit.program, &unit.arguments(), &unit.folder, &environment, limit_seconds, &log).end)
        }
    }
}

fn describe(reach: &Reach) -> String {
    let mut text = String::new();
    for unit in &reach.units {
        writeln!(text, "{:8.3} s  {:5} mutants  {}", unit.seconds, unit.reached.len(), unit.name).expect("writing to a string");
    }
    let micros: u64 = reach.jobs.iter().map(|job| job.micros).sum();
    writeln!(text, "{:8.3} s  {} kernel jobs", micros as f64 * 1e-6, reach.jobs.len()).expect("writing to a string");
    text
}

fn words(state: &State) -> (&'static str, &str) {
    match state {
        State::Killed(by) => ("killed", by),
        State::Timeout(by) => ("timeout", by),
        State::Survived => ("SURVIVED", ""),
        State::NotReached => ("NOT REACHED", ""),
        State::NotFinished => ("NOT FINISHED", ""),
    }
}

fn table(rows: &[Row], states: &BTreeMap<usize, State>) -> String {
    let mut text = "mutant\tcrate\tplace\tkind\tbefore\tafter\tstate\tby\n".to_string();
    for row in rows {
        let (state, by) = words(&states[&row.number]);
        writeln!(text, "{}\t{state}\t{by}", row.fields[..6].join("\t")).expect("writing to a string");
    }
    text
}

/// Counts the results by crate and by kind.
fn summary(rows: &[Row], states: &BTreeMap<usize, State>) -> String {
    let mut counts: BTreeMap<(usize, &str), BTreeMap<&str, usize>> = BTreeMap::new();
    for row in rows {
        let state = words(&states[&row.number]).0;
        for group in [(0, "all"), (1, row.fields[1].as_str()), (2, row.fields[3].as_str())] {
            *counts.entry(group).or_default().entry(state).or_default() += 1;
        }
    }
    let mut text = String::new();
    for ((_, name), states) in counts {
        let total: usize = states.values().sum();
        let count = |state: &str| states.get(state).copied().unwrap_or(0);
        let alive = count("SURVIVED") + count("NOT REACHED");
        let percent = 100.0 * alive as f64 / total as f64;
        let (killed, timeout, unfinished) = (count("killed"), count("timeout"), count("NOT FINISHED"));
        let (survived, not_reached) = (count("SURVIVED"), count("NOT REACHED"));
        writeln!(text, "{name:12} {total:4}: {killed} killed, {timeout} by time, {survived} survived, {not_reached} not reached, {unfinished} not finished; {percent:.1} % alive").expect("writing to a string");
    }
    text
}
