//! What scheduling tells about itself: gathered on a function's way through the passes, completed when the file is known.
//!
//! Nothing is gathered that nobody asked for ([`Reports`]). Functions are compiled in parallel; each keeps its own account, and they come out in
//! the order of the source, so the text is the same every time.

use oriole_ctrl::Controls;
use oriole_cubin::Cubin;
use oriole_cubin::note::Note;
use oriole_cubin::section::{Content, Section, SectionType};
use oriole_hardware::occupancy::Launch;
use oriole_ir::Function;
use oriole_isa::Opcode;
use oriole_isel::Homes;
use oriole_ptx::ast::{self, FunctionKind};
use oriole_sched::backend::Stage;
use oriole_sched::function::Stats;
use oriole_sched::report::guidance::{self, PassSummary, Subject};
use oriole_sched::report::lines::{self, Case};
use oriole_sched::report::statistics::{Figure, Final, Gathered, Setting, gather};
use oriole_sched::report::target::RegisterTarget;
use oriole_sched::report::timeline::{Figures, Skeleton};
use oriole_sched::report::{latency, trace};
use oriole_sched::resource::Costs;

use crate::image::HIDDEN_REGISTERS;
use crate::passes::{Finished, Pass};
use crate::schedule::{Plan, figures};
use crate::{FunctionReport, Options, registers};

pub use oriole_sched::report::latency::{Category, Distances};
pub use oriole_sched::report::lines::Case as LatencyCase;
pub use oriole_sched::report::statistics::{Figure as StatisticsFigure, LoopMetrics};

/// Threads of a block where none are declared: one warp for each scheduler, so that registers alone decide.
const ASSUMED_THREADS: u32 = 128;

/// What to tell about scheduling.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reports {
    /// Gather figures of each function.
    pub figures: bool,
    /// Record why each instruction is picked.
    pub trace: bool,
    /// Of these functions only, if there are any.
    pub traced_functions: Vec<String>,
    /// Write a record of each function into the file.
    pub record: bool,
}

impl Reports {
    /// Whether the picks of a function are wanted.
    pub fn traces(&self, function: &str) -> bool {
        self.trace && (self.traced_functions.is_empty() || self.traced_functions.iter().any(|name| name == function))
    }
}

/// The account of one function.
#[derive(Clone, Default, Debug)]
pub struct Account {
    target: Option<RegisterTarget>,
    passes: Vec<PassSummary>,
    before: Option<Gathered>,
    skeleton: Option<Skeleton>,
    after: Option<Gathered>,
    variables_size: u32,
    trace: String,
}

impl Account {
    /// Notes what a pass of the scheduler did.
    pub(crate) fn note(&mut self, pass: Pass, function: &Function, stats: &Stats) {
        let &Stats { blocks, cycles_before, cycles_after, live_before, live_after, .. } = stats;
        self.passes.push(PassSummary { phase: pass.phase, blocks, cycles_before, cycles_after, live_before, live_after });
        self.target = self.target.or(stats.target);
        self.trace.push_str(&trace::text(function, pass.phase, &stats.attempts));
    }

    /// Notes that another attempt's order before allocation was dropped because it cost spills.
    pub(crate) fn note_dropped(&mut self, other: &Account) {
        self.target = other.target;
        if !other.trace.is_empty() {
            self.trace.insert_str(0, &format!("dropped, since allocation made it cost spills:\n{}taken instead:\n", other.trace));
        }
    }

    /// Gathers figures of a function on values.
    pub(crate) fn gather_values(&mut self, function: &Function, options: &Options) {
        self.variables_size = function.frame_bytes;
        if options.reports.figures {
            let (model, machine, rates) = figures(options);
            let costs = Costs::from_rates(rates, machine);
            self.before = Some(gather(function, Figures { model, costs: &costs }, None));
        }
    }

    /// Takes the shape of the function, before layout.
    pub(crate) fn take_shape(&mut self, function: &Function) {
        self.skeleton = self.before.as_ref().map(|before| Skeleton::new(function, &before.divergent));
    }

    /// Gathers figures of final code.
    pub(crate) fn gather_code(&mut self, function: &Function, controls: &Controls, options: &Options) {
        if let (Some(before), Some(skeleton)) = (&self.before, &self.skeleton) {
            let (model, machine, rates) = figures(options);
            let costs = Costs::from_rates(rates, machine);
            let controls = |inst| controls.get(inst);
            let final_code = Final { controls: &controls, skeleton, before };
            self.after = Some(gather(function, Figures { model, costs: &costs }, Some(final_code)));
        }
    }
}

/// What a block of a kernel needs besides registers, if the source declares its size.
pub(crate) fn declared_launch(function: &ast::Function, options: &Options, homes: &Homes, barriers: u32) -> Option<Launch> {
    let threads = registers::threads(&registers::bounds(&function.bounds, options))?;
    let is_kernel = function.kind == FunctionKind::Entry;
    is_kernel.then_some(Launch { threads, static_shared: homes.shared_bytes, barriers, ..Launch::default() })
}

/// What scheduling did with a function.
#[derive(Clone, Debug)]
pub struct SchedulingReport {
    /// The function.
    pub name: String,
    /// Who scheduled it, if somebody did.
    pub plan: Option<Plan>,
    /// Registers that cost no occupancy, if it was scheduled before allocation.
    pub target: Option<RegisterTarget>,
    /// What each pass did.
    pub passes: Vec<PassSummary>,
    /// Fields of the statistics before allocation; none if nobody asked.
    pub before: Vec<(String, Figure)>,
    /// The same afterwards.
    pub after: Vec<(String, Figure)>,
    /// Every pick, as text.
    pub trace: String,
    code: Option<Gathered>,
    has_uniform_registers: bool,
}

impl SchedulingReport {
    pub(crate) fn new(finished: &Finished, report: &FunctionReport, options: &Options) -> SchedulingReport {
        let account = &finished.account;
        let machine = figures(options).1;
        let before = account.before.as_ref();
        let launch = finished.launch.unwrap_or(Launch {
            threads: ASSUMED_THREADS,
            static_shared: report.shared_bytes,
            barriers: report.barriers,
            ..Launch::default()
        });
        let common = Setting {
            launch,
            variables_size: u64::from(account.variables_size),
            live_at_calls: before.map_or(0, Gathered::live_at_calls),
            divergent_branches: before.map_or(0, |before| before.divergent.len() as u64),
            ..Setting::default()
        };
        let on_values = before.map(|before| Setting {
            registers: before.registers_for_live(options.scheduling.knobs.register_gaps + HIDDEN_REGISTERS as i32),
            uniform_registers: before.live[1] as u32,
            program_bytes: (before.instructions * crate::emit::INSTRUCTION_BYTES) as u64,
            ..common
        });
        let final_code = Setting {
            registers: report.registers,
            uniform_registers: finished.allocation.uniform_used,
            spilled: (u64::from(report.spill_store_bytes), u64::from(report.spill_load_bytes)),
            spill_size: u64::from(finished.allocation.frame_bytes.saturating_sub(account.variables_size)),
            program_bytes: finished.code.bytes.len() as u64,
            ..common
        };
        SchedulingReport {
            name: report.name.clone(),
            plan: finished.plan,
            target: account.target,
            passes: account.passes.clone(),
            before: before.zip(on_values).map_or_else(Vec::new, |(before, setting)| before.figures(&setting, machine)),
            after: account.after.as_ref().map_or_else(Vec::new, |after| after.figures(&final_code, machine)),
            trace: account.trace.clone(),
            code: account.after.clone(),
            has_uniform_registers: options.target.has(Opcode::UMOV),
        }
    }

    /// The lines of statistics, before and after allocation, and what latencies are hidden.
    pub fn statistics(&self, case: Case) -> String {
        let mut text = format!("# {} before allocation\n", self.name);
        text.push_str(&lines::text(Stage::Pre, &self.before, self.has_uniform_registers, case));
        text.push_str(&format!("# {} after allocation\n", self.name));
        text.push_str(&lines::text(Stage::Post, &self.after, self.has_uniform_registers, case));
        text.push_str(&self.code.as_ref().map_or_else(String::new, |code| latency::lines(&code.hiding)));
        text
    }

    /// The guidance of a level.
    pub fn guidance(&self, level: u8) -> String {
        let scheduler = self.plan.map_or_else(
            || "nobody".to_owned(),
            |plan| {
                let after = if plan.before_allocation { "" } else { "; the new order before allocation cost spills and was dropped" };
                format!("{}, {}{after}", plan.backend.name(), plan.mode.name())
            },
        );
        let Some(code) = &self.code else { return String::new() };
        let subject = Subject { name: &self.name, scheduler: &scheduler, target: self.target.as_ref(), passes: &self.passes, code };
        guidance::text(&subject, level)
    }

    /// Distances between producers and consumers, by category.
    pub fn hiding(&self) -> impl Iterator<Item = (Category, Distances)> + '_ {
        self.code.iter().flat_map(|code| Category::ALL.into_iter().zip(code.hiding))
    }

    /// The loops of the final code.
    pub fn loops(&self) -> &[LoopMetrics] {
        self.code.as_ref().map_or(&[], |code| &code.loops)
    }
}

/// The type of a record that is a string.
const STRING_RECORD: u32 = 3;
/// Whose note it is.
const OWNER: &[u8] = b"Oriole\0";
/// The section of a function's record.
const RECORD_SECTION: &str = ".note.oriole.sched.";

/// Adds the record of a function: type, length and text in a note of its own section, which no loader looks at.
pub(crate) fn add_record(cubin: &mut Cubin, function: &FunctionReport) {
    let text = format!("instr/R-regs: {} instructions, {} R-regs", function.instructions, function.registers);
    let mut description = Vec::from(STRING_RECORD.to_le_bytes());
    description.extend((text.len() as u32).to_le_bytes());
    description.extend(text.bytes());
    let note = Note::Other { owner: OWNER.to_vec(), note_type: STRING_RECORD, description };
    let name = format!("{RECORD_SECTION}{}", function.name);
    cubin.push_section(Section::new(name, SectionType::NOTE, 0, 4, Content::Notes(vec![note])));
}
