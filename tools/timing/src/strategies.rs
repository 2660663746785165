//! Compares scheduling strategies: predicted cycles of whole kernels, and distance from the shortest order on small regions.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use oriole_driver::{
    BackendChoice, DumpMoment, Options, PassOptions, PassSelection, ScheduleBackend, ScheduleKnobs, ScheduleMode, Scheduling, compile,
    compile_with_log,
};
use oriole_hardware::Model;
use oriole_hardware::machine::Machine;
use oriole_hardware::units::Rates;
use oriole_ir::Function;
use oriole_isa::Target;
use oriole_kernel_test::KernelTest;
use oriole_sched::backend::{AllocationStage, Budget, Region, SearchOutcome, Settings, estimate};
use oriole_sched::code::from_ir::{ValueNumbers, push_ssa_inst};
use oriole_sched::code::products::ProductRegisters;
use oriole_sched::graph::GraphBuilder;
use oriole_sched::pressure::{BlockLiveness, PressureTracker};
use oriole_sched::resource::ResourceCosts;
use oriole_sim::timing::Effort;

use crate::predict;

/// Largest region whose shortest order is searched.
pub const LARGEST: usize = 24;

/// Effort for one kernel: one multiprocessor, because strategies are compared with each other and not with a measurement.
const EFFORT: Effort = Effort { multiprocessors: 1, instructions: 200_000, limit: 20_000_000 };

/// Returns the names that `--sched-strategy` takes.
pub fn names() -> Vec<&'static str> {
    ScheduleBackend::ALL.iter().map(|strategy| strategy.name()).chain(["auto"]).collect()
}

/// What a strategy makes of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Outcome {
    /// Predicted cycles of the launch.
    pub cycles: u64,
    pub registers: u32,
}

/// Compiles a kernel test with a strategy and predicts its time.
pub fn outcome(test: &KernelTest, text: &str, target: Target, strategy: &str) -> Result<Outcome, String> {
    let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
    let backend = BackendChoice::parse_strategy(strategy).ok_or_else(|| format!("there is no strategy {strategy}"))?;
    let options = Options { scheduling: Scheduling { backend, ..Scheduling::default() }, verify: true, ..Options::new(target) };
    let compiled = compile(&[&module], &options).map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let registers = compiled.functions.iter().map(|function| function.registers).max().unwrap_or(0);
    Ok(Outcome { cycles: predict(test, &compiled.cubin, &EFFORT)?.kernel, registers })
}

/// How far a strategy is from the shortest orders.
#[derive(Clone, Copy, Default, Debug)]
pub struct Distance {
    /// Number of regions with the shortest length.
    pub shortest: usize,
    /// Cycles of all regions.
    pub cycles: u64,
    /// Largest number of cycles by which a region is longer, and the shortest length of that region.
    pub worst: (u64, u64),
}

/// Distances of all strategies from the shortest orders on the small regions of some modules.
#[derive(Default)]
pub struct Distances {
    /// Number of regions whose shortest order is proved.
    pub proved: usize,
    /// Number of regions whose search ended without a proof; they do not count.
    pub open: usize,
    /// Number of regions with more than [`LARGEST`] items.
    pub large: usize,
    /// Cycles of the shortest orders.
    pub shortest: u64,
    /// The distance of each strategy, and of the original order.
    pub of: BTreeMap<&'static str, Distance>,
}

impl Distances {
    /// Adds the regions of a module, as they are before register allocation. Registers are not limited and not counted.
    pub fn add(&mut self, text: &str, target: Target) -> Result<(), String> {
        let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
        let print_before = PassSelection::These(vec!["pre-schedule".to_owned()]);
        let options = Options { passes: PassOptions { print_before, ..PassOptions::default() }, ..Options::new(target) };
        let (compiled, log) = compile_with_log(&[&module], &options);
        compiled.map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
        for dump in log.dumps.iter().filter(|dump| dump.moment == DumpMoment::Before) {
            let functions = oriole_ir::text::parse(&dump.text).map_err(|error| format!("{}: {error:?}", dump.function))?;
            functions.iter().for_each(|function| self.add_function(function, target));
        }
        Ok(())
    }

    fn add_function(&mut self, function: &Function, target: Target) {
        let costs = ResourceCosts::from_rates(Rates::of(target), Machine::of(target));
        let knobs =
            ScheduleKnobs { search_steps: usize::MAX, permutation_size: LARGEST, permutation_steps: 200_000, ..ScheduleKnobs::default() };
        let settings = Settings {
            mode: ScheduleMode::Ilp,
            stage: AllocationStage::Post,
            budget: Budget::UNLIMITED,
            knobs,
            warps_in_step: 1,
            trace: false,
        };
        let numbers = ValueNumbers::new(function);
        let products = ProductRegisters::find_in_ssa_code(function, &numbers);
        let mut code = numbers.empty();
        let mut blocks = Vec::new();
        for &block in &function.layout {
            let start = code.items.len();
            function.blocks[block].insts.iter().for_each(|&inst| push_ssa_inst(&mut code, &numbers, function, &products, inst));
            blocks.push(start..code.items.len());
        }
        let mut builder = GraphBuilder::new(Model::of(target), code.registers());
        let mut tracker = PressureTracker::new(code.groups().len());
        for block in blocks {
            for range in code.regions(block.clone(), usize::MAX).into_iter().filter(|range| range.len() > 1) {
                if range.len() > LARGEST {
                    self.large += 1;
                    continue;
                }
                let graph = builder.build(&code, range.clone());
                let region = Region { code: &code, graph: &graph, costs: &costs, settings: &settings, carried: &[] };
                let mut length_by = |strategy: ScheduleBackend| {
                    tracker.enter_block(&code, range.clone(), BlockLiveness { live_in: &[], live_out: &[] });
                    let schedule = strategy.strategy().scheduler()(&region, &mut tracker);
                    (u64::from(schedule.length.issued + schedule.length.done), schedule.search)
                };
                let source = estimate(&code, &graph, &costs, range.clone());
                let source = u64::from(source.issued + source.done);
                let lengths: Vec<(&'static str, u64, SearchOutcome)> = ScheduleBackend::ALL
                    .into_iter()
                    .map(|strategy| {
                        let (length, search) = length_by(strategy);
                        // As in the compiler: an order that is not shorter than the original one is not used.
                        (strategy.name(), length.min(source), search)
                    })
                    .collect();
                self.add_region(source, &lengths);
            }
        }
    }

    fn add_region(&mut self, source: u64, lengths: &[(&'static str, u64, SearchOutcome)]) {
        let proved = lengths.iter().find(|(name, ..)| *name == "permutation").filter(|(.., search)| *search == SearchOutcome::Optimal);
        let Some(&(_, shortest, _)) = proved else {
            self.open += 1;
            return;
        };
        self.proved += 1;
        self.shortest += shortest;
        let all = lengths.iter().map(|&(name, length, _)| (name, length)).chain([("(original order)", source)]);
        for (name, length) in all {
            let found = self.of.entry(name).or_default();
            found.shortest += usize::from(length == shortest);
            found.cycles += length;
            if length - shortest > found.worst.0 {
                found.worst = (length - shortest, shortest);
            }
        }
    }

    /// Returns a table in Markdown, the strategy with the fewest cycles first.
    pub fn table(&self) -> String {
        let mut rows: Vec<(&str, &Distance)> = self.of.iter().map(|(name, distance)| (*name, distance)).collect();
        rows.sort_by_key(|(name, distance)| (distance.cycles, *name));
        let mut text = format!(
            "{} regions of 2 to {LARGEST} instructions with a proved shortest order, {} without, {} larger ones left out\n\n",
            self.proved, self.open, self.large
        );
        text.push_str("| strategy | shortest order found | cycles above the shortest | worst region |\n|---|---|---|---|\n");
        for (name, distance) in rows {
            let share = 100.0 * distance.shortest as f64 / self.proved.max(1) as f64;
            let above = 100.0 * (distance.cycles as f64 / self.shortest.max(1) as f64 - 1.0);
            let (more, of) = distance.worst;
            let worst = if more == 0 { "-".to_owned() } else { format!("{} instead of {of}", of + more) };
            let _ = writeln!(text, "| {name} | {} ({share:.1}%) | {above:.2}% | {worst} |", distance.shortest);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_has_one_order() {
        let text = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k(.param .u64 p) {\n.reg .b64 %rd<3>;\n.reg .f32 %f<9>;\nld.param.u64 %rd1, [p];\nld.global.f32 %f1, [%rd1];\nadd.f32 %f2, %f1, 0f3F800000;\nld.global.f32 %f3, [%rd1+4];\nadd.f32 %f4, %f3, 0f3F800000;\nadd.f32 %f5, %f2, %f4;\nst.global.f32 [%rd1+8], %f5;\nret;\n}\n";
        let mut distances = Distances::default();
        distances.add(text, Target::parse("sm_90a").expect("a target")).expect("a module that compiles");
        assert_eq!((distances.open, distances.large), (0, 0));
        assert!(distances.proved > 0);
        let of = |name: &str| distances.of[name];
        // The two loads overlap in the shortest order, so the original order is not the shortest.
        assert!(of("(original order)").cycles > distances.shortest);
        assert_eq!(of("permutation").cycles, distances.shortest);
        assert!(of("b").cycles >= distances.shortest);
    }
}
