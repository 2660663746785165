//! Puts the explanation of one function together.

use oriole_driver::Decisions;
use oriole_hardware::{Hardware, SchedClass};
use oriole_isa::{Control, print};
use oriole_rescore::analysis::{Analysis, analyze};
use oriole_sched::code::from_machine;
use oriole_sched::graph::GraphBuilder;
use oriole_sched::report::timeline::IssueDelay;
use oriole_sched::resource::ResourceCosts;

use crate::calls;
use crate::causes::Causes;
use crate::code::{DecodedFunction, SIZE};
use crate::dependences::critical_path;
use crate::live::Liveness;
use crate::loops;
use crate::model::{Block, CriticalPath, Function, Instruction, Origin, Remark, Spills, StallCause, Waiting};
use crate::origin::LineTables;
use crate::resources::Site;
use crate::time::Times;
use crate::warnings;
use crate::why;

/// What a function is explained from.
pub struct Input<'a> {
    /// The function in its file.
    pub site: Site<'a>,
    /// The hardware model.
    pub hardware: &'a Hardware<'a>,
    /// The line tables of the file.
    pub lines: &'a LineTables,
    /// Whether the code was compiled without optimization.
    pub is_serial: bool,
    /// What passes did.
    pub remarks: Vec<Remark>,
}

/// Explains a function.
pub fn explain(input: Input<'_>) -> Function {
    let words: Vec<u128> = input.site.function.code.as_chunks::<SIZE>().0.iter().map(|word| u128::from_le_bytes(*word)).collect();
    match analyze(input.site.index, input.site.function, input.hardware) {
        Ok(analysis) => explain_analysed(input, &words, &analysis),
        Err(obstacle) => explain_listing(input, &words, obstacle.to_string()),
    }
}

/// Returns a function without any analysis of its code.
fn empty(input: &Input<'_>) -> Function {
    let Site { function, decisions, .. } = &input.site;
    Function {
        name: function.name.to_owned(),
        is_kernel: function.is_kernel,
        obstacle: None,
        registers: input.site.registers(input.hardware.machine),
        occupancy: input.site.occupancy(input.hardware.machine),
        memory: input.site.memory(),
        spills: Spills { is_exact: decisions.is_some(), ..Spills::default() },
        cycles: 0.0,
        blocks: Vec::new(),
        loops: Vec::new(),
        calls: Vec::new(),
        remarks: input.remarks.clone(),
        passes: Vec::new(),
        schedule: Vec::new(),
        warnings: Vec::new(),
        unknown: if decisions.is_some() { Vec::new() } else { why::UNKNOWN_IN_A_CUBIN.map(str::to_owned).to_vec() },
        samples: None,
        instructions: Vec::new(),
    }
}

/// Explains a function whose code cannot be analysed: lists the instructions with the control words of the file.
fn explain_listing(input: Input<'_>, words: &[u128], obstacle: String) -> Function {
    let target = input.hardware.target;
    let instruction = |(number, &word): (usize, &u128)| {
        let (address, control) = ((number * SIZE) as u64, Control::of(word));
        let unknown = StallCause {
            cycles: control.stall,
            kind: "unknown".to_owned(),
            text: "the code could not be analysed".to_owned(),
            first: None,
            second: None,
        };
        Instruction {
            address,
            block: None,
            text: print(word, target, address).unwrap_or_else(|| format!(".raw {word:#034x}")),
            control: control.to_string(),
            origin: input.lines.origin(input.site.function.section, address),
            unit: String::new(),
            issue_cycle: 0,
            stall: control.stall,
            stall_causes: if control.stall > 0 { vec![unknown] } else { Vec::new() },
            waits: Vec::new(),
            sets: Vec::new(),
            waiting: Waiting::default(),
            live: 0,
            place: None,
            form: None,
            measured: None,
        }
    };
    let instructions = words.iter().enumerate().map(instruction).collect();
    Function { obstacle: Some(obstacle), instructions, ..empty(&input) }
}

fn explain_analysed(input: Input<'_>, words: &[u128], analysis: &Analysis) -> Function {
    let hardware = input.hardware;
    let code = DecodedFunction::new(analysis, words, hardware);
    let costs = ResourceCosts::from_rates(hardware.rates, hardware.machine);
    let items = from_machine::code(code.instructions());
    let times = Times::compute(&code, &items, &costs);
    let live = Liveness::compute(&code);
    let origins: Vec<Origin> =
        (0..words.len()).map(|number| input.lines.origin(input.site.function.section, (number * SIZE) as u64)).collect();
    let ptx_lines: Vec<Option<u32>> = origins.iter().map(|origin| origin.ptx_line).collect();
    let mut function = empty(&input);
    function.registers = input.site.registers_with_peak(&code, &live, &ptx_lines, hardware.machine);
    function.spills = input.site.spills(&code, &ptx_lines);
    function.blocks = blocks(&code, &times, &items);
    function.loops = loops::find(&code, &times, &costs, function.occupancy.as_ref());
    function.cycles = function.blocks.iter().map(|block| block.executions * f64::from(block.cycles)).sum();
    let causes = Causes::new(&code, input.is_serial);
    function.instructions = instructions(&code, words, &times, &live, &causes, origins);
    let history = input.site.decisions.map_or(&[][..], |decisions| &decisions.history);
    let name = |offset: u32| code.place(offset as usize / SIZE);
    for (instruction, history) in function.instructions.iter_mut().zip(history) {
        instruction.place = Some(why::place(history, instruction.address as u32, &name));
        instruction.form = Some(why::form(history));
    }
    function.calls = calls::find(&input.site, &code, &function.blocks, &mut function.instructions);
    function.warnings = warnings(&code, &function, &ptx_lines, &costs);
    function
}

/// Describes the blocks.
fn blocks(code: &DecodedFunction<'_>, times: &Times, items: &oriole_sched::code::SchedCode) -> Vec<Block> {
    let mut builder = GraphBuilder::new(code.hardware.model, items.registers());
    let describe = |number: usize| {
        let block = &code.blocks()[number];
        let (cycles, chain) = critical_path(&mut builder, items, &block.range);
        let addresses = chain.into_iter().map(|number| (number * SIZE) as u64).collect();
        Block {
            name: code.block_name(number),
            start: (block.range.start * SIZE) as u64,
            end: (block.range.end * SIZE) as u64,
            successors: block.successors.iter().map(|&next| code.block_name(next)).collect(),
            in_loop: code.loop_of[number],
            depth: code.depth(number),
            executions: code.executions(number),
            cycles: times.blocks[number].cycles,
            waited: times.blocks[number].idle_cycles,
            critical_path: CriticalPath { cycles, addresses },
        }
    };
    code.real_blocks().map(describe).collect()
}

/// Describes the instructions.
fn instructions(
    code: &DecodedFunction<'_>,
    words: &[u128],
    times: &Times,
    live: &Liveness,
    causes: &Causes<'_>,
    origins: Vec<Origin>,
) -> Vec<Instruction> {
    let mut described = Vec::with_capacity(code.length);
    let mut origins = origins.into_iter();
    for (position, block) in code.real_blocks().enumerate() {
        let timing = &times.blocks[block];
        let range = code.blocks()[block].range.clone();
        for (place, number) in range.clone().enumerate().filter(|(_, number)| *number < code.length) {
            let control = code.controls[number];
            let unit = SchedClass::of(&code.instructions()[number]).unit();
            let delay = timing.delays.get(place).copied().unwrap_or_default();
            let reason = match delay {
                IssueDelay::None => String::new(),
                IssueDelay::Scoreboard { board, .. } => format!("scoreboard {board}"),
                IssueDelay::Unit { .. } => format!("{} unit", unit.name()),
            };
            described.push(Instruction {
                address: (number * SIZE) as u64,
                block: Some(position),
                text: code.text(number, words[number]),
                control: control.to_string(),
                origin: origins.next().unwrap_or_default(),
                unit: unit.name().to_owned(),
                issue_cycle: timing.issue_cycles.get(place).copied().unwrap_or(0),
                stall: control.stall,
                stall_causes: causes.of_stall(number),
                waits: causes.of_wait(number),
                sets: causes.of_sets(number),
                waiting: Waiting { cycles: delay.cycles(), reason },
                live: live.before[number].len(),
                place: None,
                form: None,
                measured: None,
            });
        }
    }
    described
}

/// Returns the warnings about a function.
fn warnings(
    code: &DecodedFunction<'_>,
    function: &Function,
    ptx_lines: &[Option<u32>],
    costs: &ResourceCosts,
) -> Vec<crate::model::Warning> {
    let waiting: Vec<u32> = function.instructions.iter().map(|instruction| instruction.waiting.cycles).collect();
    let readers = |number: usize| -> Vec<usize> {
        let sets = function.instructions.get(number).map_or(&[][..], |instruction| &instruction.sets);
        sets.iter().flat_map(|set| &set.readers).map(|&address| address as usize / SIZE).filter(|&reader| reader < waiting.len()).collect()
    };
    warnings::find(&warnings::Input {
        code,
        waiting: &waiting,
        readers: &readers,
        ptx_lines,
        spills: &function.spills,
        remarks: &function.remarks,
        busy: &|class| f64::from(costs.cycles(class).max(1)),
    })
}

/// Returns the remarks of the compiler about a function. `line_of` returns the line of a byte offset in the PTX.
pub fn remarks(decisions: &Decisions, line_of: &dyn Fn(u32) -> u32) -> Vec<Remark> {
    let remark = |remark: &oriole_driver::DecisionRemark| Remark {
        pass: remark.pass.to_owned(),
        ptx_line: remark.offset.map(line_of),
        is_done: remark.is_applied,
        text: remark.text.clone(),
    };
    decisions.remarks.iter().map(remark).collect()
}
