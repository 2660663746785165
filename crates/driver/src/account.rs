//! Builds the scheduling reports from the data that the passes collected about a function, and from its resource usage in the cubin.
//!
//! Functions are compiled in parallel, but reports are printed in source order, so the text is deterministic.

use oriole_cubin::Cubin;
use oriole_cubin::note::Note;
use oriole_cubin::section::{Content, Section, SectionType};
use oriole_hardware::Hardware;
use oriole_hardware::occupancy::LaunchResources;
use oriole_isa::Opcode;
use oriole_sched::backend::AllocationStage;
use oriole_sched::report::guidance::{self, GuidanceInput, PassSummary};
use oriole_sched::report::latency_hiding;
use oriole_sched::report::lines::{self, ExtraLatency};
use oriole_sched::report::statistics::{FunctionStatistics, LinkFacts};
use oriole_sched::report::target::RegisterTarget;

use crate::compile_function::FinishedFunction;
use crate::function_report::FunctionReport;
use crate::options::Options;
use crate::registers::HIDDEN_REGISTERS;
use crate::schedule::SchedulePlan;

pub use oriole_sched::report::latency_hiding::{DistanceKind, DistanceStatistics};
pub use oriole_sched::report::lines::ExtraLatency as LatencyCase;
pub use oriole_sched::report::statistics::{LoopMetrics, StatisticsFigure};

/// Assumed number of threads per block if the kernel does not declare it: one warp for each of the four warp schedulers, so that the block
/// size does not limit the occupancy.
const ASSUMED_BLOCK_THREADS: u32 = 128;

/// The data of the scheduling report of one function.
#[derive(Clone, Debug)]
pub struct SchedulingReport {
    /// Name of the function.
    pub name: String,
    /// The scheduling plan (backend, mode, occupancy) that was used; `None` if the function was not scheduled.
    pub plan: Option<SchedulePlan>,
    /// The number of registers that the scheduler may use without lowering the occupancy; `None` if the function was not scheduled before
    /// allocation.
    pub target: Option<RegisterTarget>,
    /// A summary of each scheduling pass, in the order in which the passes ran.
    pub passes: Vec<PassSummary>,
    /// Statistics of the code before register allocation, as pairs of name and value; empty unless requested.
    pub before: Vec<(String, StatisticsFigure)>,
    /// Statistics of the code after register allocation, as pairs of name and value; empty unless requested.
    pub after: Vec<(String, StatisticsFigure)>,
    /// The reason why the scheduler picked each instruction, as text; empty unless requested.
    pub trace: String,
    /// Statistics of the final code, for example of its loops; `None` unless requested.
    code: Option<FunctionStatistics>,
    /// Whether the target has uniform registers.
    has_uniform_registers: bool,
}

impl SchedulingReport {
    /// Creates the report of a compiled function; `report` has its resource usage in the cubin.
    pub(crate) fn new(
        finished: &FinishedFunction,
        report: &FunctionReport,
        options: &Options,
        hardware: &Hardware<'_>,
    ) -> SchedulingReport {
        let data = &finished.report_data;
        let machine = hardware.machine;
        let before = data.before.as_ref();
        let launch = finished.launch.unwrap_or(LaunchResources {
            threads: ASSUMED_BLOCK_THREADS,
            static_shared: report.shared_bytes,
            barriers: report.barriers,
            ..LaunchResources::default()
        });
        let common = LinkFacts {
            launch,
            variables_size: u64::from(data.variables_size),
            live_at_calls: before.map_or(0, FunctionStatistics::live_at_calls),
            divergent_branches: before.map_or(0, |before| before.divergent_blocks.len() as u64),
            ..LinkFacts::default()
        };
        let on_values = before.map(|before| LinkFacts {
            registers: before.registers_for_live(options.scheduling.knobs.register_gaps + HIDDEN_REGISTERS as i32),
            uniform_registers: before.live[1] as u32,
            program_bytes: (before.instructions * oriole_isa::INSTRUCTION_BYTES) as u64,
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
            has_uniform_registers: Opcode::UMOV.exists_on(hardware.target),
        }
    }

    /// Returns the statistics of the code before and after register allocation, and how well latencies are hidden, as lines of text. `case`
    /// is the additional latency that is assumed.
    pub fn statistics(&self, case: ExtraLatency) -> String {
        let mut text = format!("# {} before allocation\n", self.name);
        text.push_str(&lines::text(AllocationStage::Pre, &self.before, self.has_uniform_registers, case));
        text.push_str(&format!("# {} after allocation\n", self.name));
        text.push_str(&lines::text(AllocationStage::Post, &self.after, self.has_uniform_registers, case));
        text.push_str(&self.code.as_ref().map_or_else(String::new, |code| latency_hiding::lines(&code.latency_distances)));
        text
    }

    /// Returns the text of the report after `SCHEDULING GUIDANCE:`; a higher `level` gives more detail.
    pub fn guidance(&self, level: u8) -> String {
        let scheduler = self.plan.map_or_else(
            || "nobody".to_owned(),
            |plan| {
                let after = if plan.before_allocation { "" } else { "; the new order before allocation cost spills and was dropped" };
                format!("{}, {}{after}", plan.backend.name(), plan.mode.name())
            },
        );
        let Some(code) = &self.code else { return String::new() };
        let subject = GuidanceInput { name: &self.name, scheduler: &scheduler, target: self.target.as_ref(), passes: &self.passes, code };
        guidance::text(&subject, level)
    }

    /// Returns, for each category of instructions, the distances in cycles from the instructions to the first uses of their results.
    pub fn latency_distances(&self) -> impl Iterator<Item = (DistanceKind, DistanceStatistics)> + '_ {
        self.code.iter().flat_map(|code| DistanceKind::ALL.into_iter().zip(code.latency_distances))
    }

    /// Returns the metrics of each loop of the final code.
    pub fn loops(&self) -> &[LoopMetrics] {
        self.code.as_ref().map_or(&[], |code| &code.loops)
    }
}

/// Type of an ELF note whose content is a string.
const STRING_NOTE_TYPE: u32 = 3;
/// Owner name in the ELF notes of scheduling records, with its terminating zero byte.
const NOTE_OWNER: &[u8] = b"Oriole\0";
/// Prefix of the names of the note sections with scheduling records; the function name follows.
const NOTE_SECTION_PREFIX: &str = ".note.oriole.sched.";

/// Adds a scheduling record of a function to the cubin, as an ELF note in a section of its own, which loaders ignore.
pub(crate) fn add_scheduling_note(cubin: &mut Cubin, function: &FunctionReport) {
    let text = format!("instr/R-regs: {} instructions, {} R-regs", function.instructions, function.registers);
    let mut description = Vec::from(STRING_NOTE_TYPE.to_le_bytes());
    description.extend((text.len() as u32).to_le_bytes());
    description.extend(text.bytes());
    let note = Note::Other { owner: NOTE_OWNER.to_vec(), note_type: STRING_NOTE_TYPE, description };
    let name = format!("{NOTE_SECTION_PREFIX}{}", function.name);
    cubin.push_section(Section::new(name, SectionType::NOTE, 0, 4, Content::Notes(vec![note])));
}
