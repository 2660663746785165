//! Data for the scheduling reports: collected while a function goes through the passes, completed when the file is known.
//!
//! Only data that was requested is collected ([`Reports`]). Functions are compiled in parallel. Each function has its own data, and reports
//! are printed in source order, so the text is deterministic.

use oriole_ctrl::Controls;
use oriole_cubin::Cubin;
use oriole_cubin::note::Note;
use oriole_cubin::section::{Content, Section, SectionType};
use oriole_hardware::occupancy::Launch;
use oriole_ir::Function;
use oriole_isa::Opcode;
use oriole_isel::VariableLayout;
use oriole_ptx::ast::{self, FunctionKind};
use oriole_sched::backend::Stage;
use oriole_sched::function::Stats;
use oriole_sched::report::guidance::{self, PassSummary, Subject};
use oriole_sched::report::lines::{self, Case};
use oriole_sched::report::statistics::{Figure, Final, Gathered, LinkFacts, gather};
use oriole_sched::report::target::RegisterTarget;
use oriole_sched::report::timeline::{FlowSummary, HardwareFigures};
use oriole_sched::report::{latency_hiding, trace};
use oriole_sched::resource::Costs;

use crate::image::HIDDEN_REGISTERS;
use crate::passes::{Finished, Pass};
use crate::schedule::{Plan, hardware_model};
use crate::{FunctionReport, Options, registers};

pub use oriole_sched::report::latency_hiding::{Category, Distances};
pub use oriole_sched::report::lines::Case as LatencyCase;
pub use oriole_sched::report::statistics::{Figure as StatisticsFigure, LoopMetrics};

/// Threads per block if the kernel does not declare a number: one warp per scheduler, so that only the registers determine the occupancy.
const ASSUMED_THREADS: u32 = 128;

/// What to report about scheduling.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Reports {
    /// Collect statistics of each function.
    pub figures: bool,
    /// Record the reason for each pick of the scheduler.
    pub trace: bool,
    /// Names of the functions to trace; all functions if the list is empty.
    pub traced_functions: Vec<String>,
    /// Write a note section with a record of each function into the file.
    pub record: bool,
}

impl Reports {
    /// Returns whether the picks for a function are to be recorded.
    pub fn traces(&self, function: &str) -> bool {
        self.trace && (self.traced_functions.is_empty() || self.traced_functions.iter().any(|name| name == function))
    }
}

/// The data collected for one function.
#[derive(Clone, Default, Debug)]
pub struct ReportData {
    target: Option<RegisterTarget>,
    passes: Vec<PassSummary>,
    /// Statistics before register allocation.
    before: Option<Gathered>,
    /// Control flow of the final code before layout.
    flow_summary: Option<FlowSummary>,
    /// Statistics of the final code.
    after: Option<Gathered>,
    /// Bytes of the stack frame before allocation, which are all variables.
    variables_size: u32,
    trace: String,
}

impl ReportData {
    /// Records the result of a scheduling pass.
    pub(crate) fn note(&mut self, pass: Pass, function: &Function, stats: &Stats) {
        let &Stats { blocks, cycles_before, cycles_after, live_before, live_after, .. } = stats;
        self.passes.push(PassSummary { phase: pass.phase, blocks, cycles_before, cycles_after, live_before, live_after });
        self.target = self.target.or(stats.target);
        self.trace.push_str(&trace::text(function, pass.phase, &stats.attempts));
    }

    /// Records that another attempt was dropped because its order before allocation caused spills.
    pub(crate) fn note_dropped(&mut self, other: &ReportData) {
        self.target = other.target;
        if !other.trace.is_empty() {
            self.trace.insert_str(0, &format!("dropped, since allocation made it cost spills:\n{}taken instead:\n", other.trace));
        }
    }

    /// Collects statistics of the function before register allocation.
    pub(crate) fn gather_values(&mut self, function: &Function, options: &Options) {
        self.variables_size = function.frame_bytes;
        if options.reports.figures {
            let (model, machine, rates) = hardware_model(options);
            let costs = Costs::from_rates(rates, machine);
            self.before = Some(gather(function, HardwareFigures { model, costs: &costs }, None));
        }
    }

    /// Records the control flow of the function before layout makes fall-through implicit.
    pub(crate) fn record_control_flow(&mut self, function: &Function) {
        self.flow_summary = self.before.as_ref().map(|before| FlowSummary::new(function, &before.divergent));
    }

    /// Collects statistics of the final code.
    pub(crate) fn gather_code(&mut self, function: &Function, controls: &Controls, options: &Options) {
        if let (Some(before), Some(flow_summary)) = (&self.before, &self.flow_summary) {
            let (model, machine, rates) = hardware_model(options);
            let costs = Costs::from_rates(rates, machine);
            let controls = |inst| controls.get(inst);
            let final_code = Final { controls: &controls, flow_summary, before };
            self.after = Some(gather(function, HardwareFigures { model, costs: &costs }, Some(final_code)));
        }
    }
}

/// Returns the resources that a block of a kernel needs besides registers, or `None` if the block size is not declared.
pub(crate) fn declared_launch(function: &ast::Function, options: &Options, variables: &VariableLayout, barriers: u32) -> Option<Launch> {
    let threads = registers::threads(&registers::bounds(&function.bounds, options))?;
    let is_kernel = function.kind == FunctionKind::Entry;
    is_kernel.then_some(Launch { threads, static_shared: variables.shared_bytes as u32, barriers, ..Launch::default() })
}

/// The scheduling report of a function.
#[derive(Clone, Debug)]
pub struct SchedulingReport {
    /// Name of the function.
    pub name: String,
    /// The scheduling plan used; `None` if the function was not scheduled.
    pub plan: Option<Plan>,
    /// The register target that keeps the occupancy; `None` if the function was not scheduled before allocation.
    pub target: Option<RegisterTarget>,
    /// Results of the scheduling passes.
    pub passes: Vec<PassSummary>,
    /// Statistics before register allocation by name; empty if not requested.
    pub before: Vec<(String, Figure)>,
    /// Statistics after register allocation by name; empty if not requested.
    pub after: Vec<(String, Figure)>,
    /// The reason for each pick, as text.
    pub trace: String,
    /// Statistics of the final code.
    code: Option<Gathered>,
    has_uniform_registers: bool,
}

impl SchedulingReport {
    /// Completes the report of a compiled function.
    pub(crate) fn new(finished: &Finished, report: &FunctionReport, options: &Options) -> SchedulingReport {
        let data = &finished.report_data;
        let machine = hardware_model(options).1;
        let before = data.before.as_ref();
        let launch = finished.launch.unwrap_or(Launch {
            threads: ASSUMED_THREADS,
            static_shared: report.shared_bytes,
            barriers: report.barriers,
            ..Launch::default()
        });
        let common = LinkFacts {
            launch,
            variables_size: u64::from(data.variables_size),
            live_at_calls: before.map_or(0, Gathered::live_at_calls),
            divergent_branches: before.map_or(0, |before| before.divergent.len() as u64),
            ..LinkFacts::default()
        };
        let on_values = before.map(|before| LinkFacts {
            registers: before.registers_for_live(options.scheduling.knobs.register_gaps + HIDDEN_REGISTERS as i32),
            uniform_registers: before.live[1] as u32,
            program_bytes: (before.instructions * crate::emit::INSTRUCTION_BYTES) as u64,
            ..common
        });
        let final_code = LinkFacts {
            registers: report.registers,
            uniform_registers: finished.allocation.uniform_used,
            spilled: (u64::from(report.spill_store_bytes), u64::from(report.spill_load_bytes)),
            spill_size: u64::from(finished.allocation.frame_bytes.saturating_sub(data.variables_size)),
            program_bytes: finished.code.bytes.len() as u64,
            ..common
        };
        SchedulingReport {
            name: report.name.clone(),
            plan: finished.plan,
            target: data.target,
            passes: data.passes.clone(),
            before: before.zip(on_values).map_or_else(Vec::new, |(before, setting)| before.figures(&setting, machine)),
            after: data.after.as_ref().map_or_else(Vec::new, |after| after.figures(&final_code, machine)),
            trace: data.trace.clone(),
            code: data.after.clone(),
            has_uniform_registers: Opcode::UMOV.exists_on(options.target),
        }
    }

    /// Returns the statistics before and after allocation as lines of text, and how well latencies are hidden.
    pub fn statistics(&self, case: Case) -> String {
        let mut text = format!("# {} before allocation\n", self.name);
        text.push_str(&lines::text(Stage::Pre, &self.before, self.has_uniform_registers, case));
        text.push_str(&format!("# {} after allocation\n", self.name));
        text.push_str(&lines::text(Stage::Post, &self.after, self.has_uniform_registers, case));
        text.push_str(&self.code.as_ref().map_or_else(String::new, |code| latency_hiding::lines(&code.hiding)));
        text
    }

    /// Returns the guidance text for a level of detail.
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

    /// Returns the distances between producers and consumers, by category.
    pub fn hiding(&self) -> impl Iterator<Item = (Category, Distances)> + '_ {
        self.code.iter().flat_map(|code| Category::ALL.into_iter().zip(code.hiding))
    }

    /// Returns the metrics of the loops of the final code.
    pub fn loops(&self) -> &[LoopMetrics] {
        self.code.as_ref().map_or(&[], |code| &code.loops)
    }
}

/// Record type of a string.
const STRING_RECORD: u32 = 3;
/// Owner name of the note.
const OWNER: &[u8] = b"Oriole\0";
/// Prefix of the names of the sections with records.
const RECORD_SECTION: &str = ".note.oriole.sched.";

/// Adds the record of a function (type, length, text) as a note in a section of its own, which loaders ignore.
pub(crate) fn add_record(cubin: &mut Cubin, function: &FunctionReport) {
    let text = format!("instr/R-regs: {} instructions, {} R-regs", function.instructions, function.registers);
    let mut description = Vec::from(STRING_RECORD.to_le_bytes());
    description.extend((text.len() as u32).to_le_bytes());
    description.extend(text.bytes());
    let note = Note::Other { owner: OWNER.to_vec(), note_type: STRING_RECORD, description };
    let name = format!("{RECORD_SECTION}{}", function.name);
    cubin.push_section(Section::new(name, SectionType::NOTE, 0, 4, Content::Notes(vec![note])));
}
