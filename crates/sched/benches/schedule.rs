//! Measures the speed of graph construction, scheduling and checking: `cargo bench -p oriole-sched --bench schedule`.
//!
//! The code is synthetic and in one block. *mixed* repeats a load, a chain of arithmetic, and a store. *wide* has stores to different
//! offsets that are all ready at once.

use std::env;
use std::time::{Duration, Instant};

use oriole_hardware::{Model, Profile};
use oriole_isa::{Instruction, Target, parse};
use oriole_sched::backend::{AllocationStage, Backend, Budget, Knobs, Region, ScheduleMode, Settings};
use oriole_sched::check;
use oriole_sched::code::from_machine;
use oriole_sched::graph::GraphBuilder;
use oriole_sched::pressure::{BlockLiveness, PressureTracker};
use oriole_sched::resource::ResourceCosts;

fn instructions(count: usize) -> Vec<Instruction> {
    let mut code = Vec::with_capacity(count);
    for at in 0.. {
        let (a, b) = (20 + 4 * (at % 40), 200 + at % 40);
        let lines = [
            format!("LDG.E R{a}, desc[UR4][R2.64+{:#x}]", 4 * (at % 1000)),
            format!("FFMA R{}, R{a}, R{b}, R{a}", a + 1),
            format!("FADD R{}, R{}, R{b}", a + 2, a + 1),
            format!("IADD3 R{}, R{}, {at:#x}, RZ", a + 3, a + 2),
            format!("STG.E desc[UR4][R4.64+{:#x}], R{}", 4 * (at % 1000), a + 3),
        ];
        for line in lines {
            if code.len() == count {
                return code;
            }
            code.push(parse(&line).expect("an instruction"));
        }
    }
    code
}

fn wide(count: usize) -> Vec<Instruction> {
    (0..count).map(|at| parse(&format!("STG.E desc[UR4][R4.64+{:#x}], R6", 4 * (at % 200_000))).expect("an instruction")).collect()
}

fn measure(backend: Backend, instructions: &[Instruction], costs: &ResourceCosts, model: &Model) -> (Duration, Duration, Duration) {
    let count = instructions.len();
    let start = Instant::now();
    let code = from_machine::code(instructions);
    let building = start.elapsed();
    let start = Instant::now();
    let mut builder = GraphBuilder::new(model, code.registers());
    let mut tracker = PressureTracker::new(code.groups().len());
    tracker.enter_block(&code, 0..count, BlockLiveness { live_in: &[], live_out: &[] });
    let settings = Settings {
        mode: ScheduleMode::Ilp,
        stage: AllocationStage::Post,
        budget: Budget::UNLIMITED,
        knobs: Knobs::default(),
        warps_in_step: 1,
        trace: false,
    };
    let mut scheduler = backend.strategy().scheduler();
    let mut order = Vec::with_capacity(count);
    for region in code.regions(0..count, backend.strategy().max_region_instructions()) {
        let graph = builder.build(&code, region);
        order.extend(scheduler(&Region { code: &code, graph: &graph, costs, settings: &settings, carried: &[] }, &mut tracker).order);
    }
    let scheduling = start.elapsed();
    let start = Instant::now();
    check::check(&code, 0..count, &order).expect("an order that keeps all dependences");
    (building, scheduling, start.elapsed())
}

fn main() {
    let is_measured = env::args().any(|argument| argument == "--bench");
    let target = Target::parse("sm_90a").expect("a target");
    let profile = Profile::of(target);
    let costs = ResourceCosts::new(&profile);
    let sizes: &[usize] = if is_measured { &[1_000, 15_000, 200_000] } else { &[1_000] };
    for &size in sizes {
        for (name, code) in [("mixed", instructions(size)), ("wide", wide(size))] {
            for backend in Backend::ALL {
                let (building, scheduling, checking) = measure(backend, &code, &costs, &profile.model);
                let each = scheduling.as_nanos() / size as u128;
                let by = backend.name();
                println!("{size} {name}, {by}: items {building:?}, graph and schedule {scheduling:?} ({each} ns each), check {checking:?}");
            }
        }
    }
}
