//! Runs a plan on the GPU.
//!
//! Only one worker process runs experiments at a time, so that times are not disturbed. A kernel that faults ends its process, and a
//! worker whose kernel hangs is killed; the next experiment gets a new worker.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use oriole_gpu::driver::{Driver, Error, LaunchShape};
use serde::{Deserialize, Serialize};

use crate::analyze;
use crate::environment::{self, LANES};
use crate::plan::{Experiment, PLAN_FILE, Plan, Question};
use crate::timing::{ROUNDS, Timing, WARP_BYTES};

const STARTUP_LIMIT: Duration = Duration::from_secs(60);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// Limit on the number of lost workers in a run; each costs seconds.
const MOST_LOSSES: usize = 60;
/// Number of faults of pairs with an instruction after which no more of its pairs are tried.
const MOST_FAULTS: usize = 3;
/// Size in bytes of the pointer chain that exceeds all caches, and the distance in bytes between its links.
const FAR_BYTES: usize = 256 << 20;
const FAR_STRIDE: usize = 0x10080;
const READY: &str = "ready";

/// The result of one experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExperimentResult {
    pub question: Question,
    pub answer: Answer,
}

/// The answer of an experiment.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    Distances {
        verdicts: Vec<String>,
        problem: Option<String>,
    },
    /// Cycles of few and of many copies, per round.
    Cycles {
        few: Vec<u32>,
        many: Vec<u32>,
    },
    Failed(String),
}

/// The machine that ran the experiments; the first line of a file of results.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub device: String,
    pub architecture: u32,
    pub cuda_version: u32,
    pub target: String,
}

pub fn read_plan(folder: &Path) -> Result<Plan, String> {
    let path = folder.join(PLAN_FILE);
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
}

/// Runs all experiments of a plan with worker processes and writes the results.
pub fn run(folder: &Path, results: &Path, program: &Path) -> Result<(), String> {
    let plan = read_plan(folder)?;
    let mut file = std::io::BufWriter::new(std::fs::File::create(results).map_err(|error| format!("{}: {error}", results.display()))?);
    let (mut worker, machine) = Worker::start(program, folder)?;
    let mut put = |text: &str| writeln!(file, "{text}").map_err(|error| format!("{}: {error}", results.display()));
    put(&machine)?;
    let mut losses = 0;
    let mut faults: HashMap<String, usize> = HashMap::new();
    for (number, experiment) in plan.experiments.iter().enumerate() {
        let sides = experiment.question.sides();
        let is_hopeless = sides.iter().any(|side| faults.get(side).is_some_and(|&count| count >= MOST_FAULTS));
        let asked = if is_hopeless { None } else { Some(worker.ask(number)) };
        let failure = |why: String| {
            let outcome = ExperimentResult { question: experiment.question.clone(), answer: Answer::Failed(why) };
            serde_json::to_string(&outcome).map_err(|error| error.to_string())
        };
        let answer = match asked.unwrap_or_else(|| Ok(String::new())) {
            Ok(answer) if answer.is_empty() => failure("left out: an instruction of it faulted before".into())?,
            Ok(answer) => answer,
            Err(why) => {
                losses += 1;
                eprintln!("{}: {why}", experiment.question.name());
                if losses > MOST_LOSSES {
                    return Err(format!("{losses} workers lost; stopped at experiment {number} of {}", plan.experiments.len()));
                }
                for side in sides {
                    *faults.entry(side).or_default() += 1;
                }
                (worker, _) = Worker::start(program, folder)?;
                failure(why)?
            }
        };
        put(&answer)?;
    }
    eprintln!("{} experiments, {losses} workers lost", plan.experiments.len());
    Ok(())
}

/// A worker process.
struct Worker {
    process: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Worker {
    /// Starts a worker; also returns its description of the machine.
    fn start(program: &Path, folder: &Path) -> Result<(Worker, String), String> {
        let mut process = Command::new(program)
            .arg("work")
            .arg(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let input = process.stdin.take().ok_or("the worker has no input")?;
        let output = process.stdout.take().ok_or("the worker has no output")?;
        let (sender, answers) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let worker = Worker { process, input, answers };
        let line = worker.answers.recv_timeout(STARTUP_LIMIT).map_err(|_| "the worker does not start".to_owned())?;
        let machine = line.strip_prefix(READY).ok_or(line.clone())?;
        Ok((worker, machine.trim().to_owned()))
    }

    /// Runs an experiment in the worker. The error means that the worker is lost.
    fn ask(&mut self, number: usize) -> Result<String, String> {
        writeln!(self.input, "{number}").and_then(|()| self.input.flush()).map_err(|error| error.to_string())?;
        let line = self.answers.recv_timeout(ANSWER_LIMIT).map_err(|error| format!("no answer: {error}"))?;
        match line.strip_prefix("fault ") {
            Some(why) => Err(why.to_owned()),
            None => Ok(line),
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // The worker may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Runs as a worker: reads numbers of experiments until the input ends or a kernel faults.
pub fn work(folder: &Path) -> Result<(), String> {
    let plan = read_plan(folder)?;
    let text = |error: Error| error.to_string();
    let driver = Driver::load().map_err(text)?;
    let machine = Machine {
        device: driver.device_name().map_err(text)?,
        architecture: driver.architecture,
        cuda_version: driver.driver_version().map_err(text)?,
        target: plan.target.clone(),
    };
    println!("{READY} {}", serde_json::to_string(&machine).map_err(|error| error.to_string())?);
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let experiment: &Experiment =
            line.parse().ok().and_then(|number: usize| plan.experiments.get(number)).ok_or("no such experiment")?;
        let answer = match one(&driver, folder, experiment) {
            Ok(answer) => answer,
            Err(error) if error.sticky => {
                println!("fault {error}");
                break;
            }
            Err(error) => Answer::Failed(error.message),
        };
        let outcome = ExperimentResult { question: experiment.question.clone(), answer };
        println!("{}", serde_json::to_string(&outcome).map_err(|error| error.to_string())?);
    }
    Ok(())
}

/// Runs one experiment.
fn one(driver: &Driver, folder: &Path, experiment: &Experiment) -> Result<Answer, Error> {
    let path: PathBuf = folder.join(&experiment.cubin);
    let image = std::fs::read(&path).map_err(|error| Error { message: format!("{}: {error}", path.display()), sticky: false })?;
    match &experiment.question {
        Question::Distance { hazard, longest_cycles, load, needs_two_ends, .. } => {
            let memory = if *needs_two_ends { Memory::TwoEnds } else { Memory::Pattern };
            let results = launch(driver, &image, load.warps(), analyze::result_words(*longest_cycles, *load) * 4, memory)?;
            let found = analyze::distances(*hazard, *longest_cycles, *load, &results);
            Ok(Answer::Distances { verdicts: found.verdicts, problem: found.problem })
        }
        Question::Time(timing) => {
            let memory = if timing.far_memory { Memory::Chain } else { Memory::Pattern };
            let results = launch(driver, &image, timing.warps, timing.warps as usize * WARP_BYTES, memory)?;
            Ok(cycles(timing, &results))
        }
    }
}

/// Computes the cycles from the first start to the last end over all warps, per round.
fn cycles(timing: &Timing, results: &[u32]) -> Answer {
    let clock = |warp: usize, round: usize, index: usize| results[(warp * ROUNDS * 4 + round * 4 + index) * LANES];
    let elapsed = |round: usize, slot: usize| {
        let first = clock(0, round, 2 * slot);
        let warps = 0..timing.warps as usize;
        let since = |value: u32| i64::from(value.wrapping_sub(first) as i32);
        let start = warps.clone().map(|warp| since(clock(warp, round, 2 * slot))).min().unwrap_or(0);
        let end = warps.map(|warp| since(clock(warp, round, 2 * slot + 1))).max().unwrap_or(0);
        (end - start) as u32
    };
    Answer::Cycles { few: (0..ROUNDS).map(|round| elapsed(round, 0)).collect(), many: (0..ROUNDS).map(|round| elapsed(round, 1)).collect() }
}

/// The contents of global memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Memory {
    /// The pattern of [`environment::pattern`].
    Pattern,
    /// The pattern, and other bytes 4 GiB after it.
    TwoEnds,
    /// A chain of pointers that exceeds all caches.
    Chain,
}

impl Memory {
    fn bytes(self) -> usize {
        match self {
            Memory::Pattern => environment::SCRATCH_BYTES,
            Memory::TwoEnds => environment::FAR_END_OFFSET as usize + environment::SCRATCH_BYTES,
            Memory::Chain => FAR_BYTES,
        }
    }
}

/// Launches the kernel of a cubin with one block and returns its results.
fn launch(driver: &Driver, image: &[u8], warps: u32, result_bytes: usize, memory: Memory) -> Result<Vec<u32>, Error> {
    let module = driver.load_module(image)?;
    let scratch = driver.allocate(memory.bytes())?;
    let output = driver.allocate(result_bytes)?;
    output.write(&vec![0xee; result_bytes])?;
    match memory {
        Memory::Chain => scratch.write(&chain(scratch.address))?,
        Memory::Pattern | Memory::TwoEnds => {
            scratch.write(&(0..environment::SCRATCH_BYTES as u32).map(environment::pattern).collect::<Vec<u8>>())?;
        }
    }
    if memory == Memory::TwoEnds {
        scratch.write_at(environment::FAR_END_OFFSET, &[environment::FAR_END_BYTE; 64])?;
    }
    let pool = driver.allocate(LANES * environment::POOL_BYTES)?;
    let mut rows = vec![0u8; LANES * environment::POOL_BYTES];
    for (lane, row) in rows.chunks_mut(environment::POOL_BYTES).enumerate() {
        let registers = environment::pool(lane as u32, scratch.address, output.address);
        for (bytes, value) in row.chunks_mut(4).zip(registers) {
            bytes.copy_from_slice(&value.to_le_bytes());
        }
    }
    pool.write(&rows)?;
    let shape = LaunchShape { grid: [1, 1, 1], block: [LANES as u32 * warps, 1, 1], cluster: None, shared_bytes: 0 };
    module.launch("kernel", shape, &mut [environment::parameters(pool.address)])?;
    driver.synchronize()?;
    let bytes = output.read()?;
    Ok(bytes.chunks_exact(4).map(|word| u32::from_le_bytes([word[0], word[1], word[2], word[3]])).collect())
}

/// Returns a cyclic chain: each link holds the address of the next.
fn chain(address: u64) -> Vec<u8> {
    let mut bytes = vec![0; FAR_BYTES];
    let links = (FAR_BYTES - 8) / FAR_STRIDE;
    for link in 0..links {
        let next = address + ((link + 1) % links * FAR_STRIDE) as u64;
        bytes[link * FAR_STRIDE..link * FAR_STRIDE + 8].copy_from_slice(&next.to_le_bytes());
    }
    bytes
}
