//! Running a kernel: the blocks of a grid, and what they share.
//!
//! Blocks run one after the other. One that reads memory over and over and is not finished after a while may wait for another block, so
//! the next one starts beside it, and from then on all of them take turns. Everything happens in one thread of the host and in a fixed order: the same launch gives
//! the same result.

mod access;
mod block;
mod calls;
mod copy;
mod mma;
mod print;
mod races;
mod together;
mod warp;

use std::collections::VecDeque;

use rustc_hash::FxHashSet;

use super::finding::{Error, Finding, FindingKind};
use super::program::{Action, Callee, Program, Target};
use super::variables::Image;
use super::{Options, Report};
use crate::Launch;
use crate::memory::Memory;
use block::{Block, Resident};
use calls::MOST_LOCAL;
use warp::Warp;

/// Rounds over the warps of a block before other blocks get their turn.
const ROUNDS: u32 = 64;
/// Such turns of a block that does nothing by which it could wait for another one.
const TURNS: u32 = 64;
/// Bytes of shared memory that a module may have; its kernels share one layout, so this is more than a block has on hardware.
const MOST_SHARED: u32 = 64 << 20;
/// Blocks that run beside each other, as many as a large GPU holds.
const MOST_RESIDENT: usize = 4096;
/// Findings of one kind in one line are reported once, and not more than this many in all.
const MOST_FINDINGS: usize = 100;

/// A fault that ends the run.
pub(crate) type Stop = Box<Finding>;

/// What all blocks of a launch share.
pub(crate) struct Machine<'a> {
    pub(crate) program: &'a Program,
    pub(crate) pool: Vec<u64>,
    pub(crate) constants: &'a [u8],
    /// The kernel's parameters as bytes.
    pub(crate) parameters: Vec<u8>,
    pub(crate) memory: &'a mut Memory,
    pub(crate) options: &'a Options,
    pub(crate) launch: &'a Launch,
    pub(crate) cluster: Option<[u32; 3]>,
    /// Instructions, each counted for every thread that executed it.
    pub(crate) instructions: u64,
    /// Steps of warps.
    pub(crate) clock: u64,
    /// Accesses by which a thread may wait for another one.
    pub(crate) polls: u64,
    pub(crate) output: String,
    pub(crate) heap: FxHashSet<u64>,
    pub(crate) heap_used: u64,
    findings: Vec<Finding>,
    seen: FxHashSet<(FindingKind, u32, u64)>,
}

/// Runs a kernel.
pub(crate) fn run(program: &Program, image: &Image, launch: &Launch, memory: &mut Memory, options: &Options) -> Result<Report, Error> {
    let unknown = || Error::Launch(format!("there is no kernel {}", launch.kernel));
    let &number = program.kernels.get(&launch.kernel).ok_or_else(unknown)?;
    check_callees(program, number)?;
    let Target::Code(function) = &program.functions[number as usize] else { return Err(unknown()) };
    let Some(kernel) = &function.kernel else { return Err(unknown()) };
    let (threads, blocks) = (launch.threads(), launch.blocks());
    let is_refused =
        kernel.required_block.is_some_and(|size| size != launch.block) || kernel.most_threads.is_some_and(|most| threads > most);
    if !(1..=1024).contains(&threads) || blocks == 0 || is_refused {
        let Launch { kernel, grid, block, .. } = launch;
        return Err(Error::Launch(format!("{kernel} cannot be launched with a grid of {grid:?} blocks of {block:?} threads")));
    }
    if launch.is_too_large() {
        return Err(Error::Launch(format!("a grid of {:?} blocks is too large for the interpreter", launch.grid)));
    }
    let shared_bytes = program.variables.shared_bytes.saturating_add(launch.shared_bytes);
    if u64::from(function.frame_bytes) >= MOST_LOCAL || shared_bytes > MOST_SHARED {
        let (local, kernel) = (function.frame_bytes, &launch.kernel);
        return Err(Error::Launch(format!("{kernel} has {local} bytes of local and {shared_bytes} of shared memory, which is too much")));
    }
    let mut parameters = vec![0; kernel.parameter_bytes as usize];
    if launch.arguments.len() != kernel.parameters.len() {
        let (given, wanted) = (launch.arguments.len(), kernel.parameters.len());
        return Err(Error::Launch(format!("{} takes {wanted} parameters, {given} are given", launch.kernel)));
    }
    for (argument, &(start, bytes)) in launch.arguments.iter().zip(&kernel.parameters) {
        if argument.len() != bytes as usize {
            let given = argument.len();
            return Err(Error::Launch(format!("a parameter of {} has {bytes} bytes, {given} are given", launch.kernel)));
        }
        parameters[start as usize..(start + bytes) as usize].copy_from_slice(argument);
    }
    let mut pool = program.pool.clone();
    for &(entry, variable, offset) in &program.global_addresses {
        pool[entry as usize] = image.globals[variable as usize].wrapping_add_signed(offset);
    }
    let mut machine = Machine {
        program,
        pool,
        constants: &image.constants,
        parameters,
        memory,
        options,
        launch,
        cluster: kernel.cluster,
        instructions: 0,
        clock: 0,
        polls: 0,
        output: String::new(),
        heap: FxHashSet::default(),
        heap_used: 0,
        findings: Vec::new(),
        seen: FxHashSet::default(),
    };
    let mut waiting = (0..blocks).map(|number| {
        let [x, y, _] = launch.grid.map(u64::from);
        [(number % x) as u32, (number / x % y) as u32, (number / x / y) as u32]
    });
    let mut resident: VecDeque<Resident> = VecDeque::new();
    let mut all_started = false;
    loop {
        if !all_started && resident.len() < MOST_RESIDENT {
            match waiting.next() {
                Some(index) => resident.push_back(Resident::new(&machine, index, function, shared_bytes)),
                None => all_started = true,
            }
        }
        // The newest first: it is alone if all before it are finished.
        let next = if all_started { resident.pop_front() } else { resident.pop_back() };
        let Some(mut current) = next else { break };
        let outcome = take_turn(&mut machine, &mut current).and_then(|()| {
            if current.is_finished() {
                return Ok(());
            }
            resident.push_back(current);
            // Those who wait get their turn before one more starts.
            let Some(mut oldest) = resident.pop_front() else { return Ok(()) };
            take_turn(&mut machine, &mut oldest)?;
            if !oldest.is_finished() {
                resident.push_back(oldest);
            }
            Ok(())
        });
        if let Err(fault) = outcome {
            return Err(Error::Fault { fault: *fault, earlier: machine.findings });
        }
    }
    Ok(Report { findings: machine.findings, instructions: machine.instructions, output: machine.output })
}

/// Runs a block until it is finished, or has been polling memory for a while.
fn take_turn(machine: &mut Machine<'_>, block: &mut Resident) -> Result<(), Stop> {
    for _ in 0..TURNS {
        let polls = machine.polls;
        block.run(machine, ROUNDS)?;
        if block.is_finished() || machine.polls != polls {
            break;
        }
    }
    Ok(())
}

/// Finds whatever a kernel calls by name and the interpreter does not support.
fn check_callees(program: &Program, kernel: u32) -> Result<(), Error> {
    let mut seen = FxHashSet::from_iter([kernel]);
    let mut open = vec![kernel];
    while let Some(number) = open.pop() {
        let code = match &program.functions[number as usize] {
            Target::Code(code) => code,
            Target::Refused { error, .. } => return Err(error.clone()),
            Target::Builtin(_) | Target::Missing(_) => continue,
        };
        for op in &program.code[code.entry as usize..code.end as usize] {
            if let Action::Call(call) = &op.action
                && let Callee::Function(callee) = call.callee
                && seen.insert(callee)
            {
                open.push(callee);
            }
        }
    }
    Ok(())
}

impl Machine<'_> {
    /// Threads of a block.
    pub(crate) fn threads(&self) -> u32 {
        self.launch.block.iter().product()
    }

    /// The coordinates of a thread.
    pub(crate) fn thread_index(&self, thread: u32) -> [u32; 3] {
        let [x, y, _] = self.launch.block;
        [thread % x, thread / x % y, thread / x / y]
    }

    fn finding(&self, kind: FindingKind, block: &Block, thread: u32, line: u32, message: String) -> Finding {
        let thread = self.thread_index(thread);
        Finding { kind, kernel: self.launch.kernel.clone(), line, block: block.index, thread, message }
    }

    /// A fault that ends the run.
    pub(crate) fn stop(&mut self, kind: FindingKind, block: &Block, warp: &Warp, lane: usize, line: u32, message: String) -> Stop {
        Box::new(self.finding(kind, block, warp.thread(lane), line, message))
    }

    /// Something to report after which the run goes on; `detail` tells apart what is reported once each.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn report(&mut self, kind: FindingKind, block: &Block, warp: &Warp, lane: usize, line: u32, detail: u64, message: String) {
        if self.findings.len() < MOST_FINDINGS && self.seen.insert((kind, line, detail)) {
            let finding = self.finding(kind, block, warp.thread(lane), line, message);
            self.findings.push(finding);
        }
    }

    /// A value that was never written decides something.
    pub(crate) fn uninitialized(&mut self, block: &Block, warp: &Warp, lane: usize, line: u32, message: &str) {
        if self.options.undefined_values {
            self.report(FindingKind::Uninitialized, block, warp, lane, line, message.len() as u64, message.to_owned());
        }
    }

    pub(crate) fn check_steps(&mut self, block: &Block, warp: &Warp) -> Result<(), Stop> {
        if self.clock <= self.options.most_steps {
            return Ok(());
        }
        let lane = warp.live.trailing_zeros() as usize & 31;
        let line = self.program.code[warp.pc[lane] as usize].line;
        let message = format!("the run was stopped after {} steps", self.clock);
        Err(self.stop(FindingKind::TooManySteps, block, warp, lane, line, message))
    }
}
