//! Interprets the few operations that random functions consist of. A predicate that was never assigned reads as false, also after SSA
//! construction has replaced it by `PT`.

use std::collections::HashMap;
use std::ops::Range;

use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, OperandKind, Pseudo, Role, Value};

/// The result of a run: the values that `KEEP` instructions read, and the blocks executed, in order.
#[derive(PartialEq, Debug)]
pub struct Outcome {
    pub kept: Vec<i32>,
    pub path: Vec<Block>,
}

/// An event of the execution of a thread.
pub enum Event<'a> {
    /// A block is entered.
    Enters(Block),
    /// An executed instruction reads or writes a value; `operand` is the position among all operands.
    Has { inst: Inst, operand: usize, value: Value, words: &'a [i32] },
}

struct Machine<'a> {
    function: &'a Function,
    values: HashMap<Value, Vec<i32>>,
    thread: i32,
}

impl Machine<'_> {
    fn read(&self, operand: &Operand) -> Vec<i32> {
        self.read_kind(operand.kind)
    }

    fn read_kind(&self, kind: OperandKind) -> Vec<i32> {
        match kind {
            OperandKind::Value(part) => {
                let registers = self.values.get(&part.value);
                (part.first..part.first + part.count).map(|at| registers.map_or(0, |words| words[usize::from(at)])).collect()
            }
            OperandKind::Integer(number) => vec![number as i32],
            OperandKind::Zero(oriole_ir::RegFile::General) | OperandKind::Undefined => vec![0; 8],
            OperandKind::Zero(oriole_ir::RegFile::Predicate) => vec![0],
            other => panic!("the interpreter cannot read {other:?}"),
        }
    }

    fn write(&mut self, operand: &Operand, words: &[i32]) {
        let part = operand.part().expect("results are values");
        assert_eq!((part.first, part.count), (0, self.function.values[part.value].width));
        self.values.insert(part.value, words[..usize::from(part.count)].to_vec());
    }
}

/// Runs a function for at most `block_limit` blocks. Unassigned predicates and words are zero.
pub fn interpret(function: &Function, block_limit: usize) -> Outcome {
    interpret_thread(function, block_limit, 0, &mut |_| {})
}

/// Runs a function as the thread with number `thread`; calls `observe` for each event.
pub fn interpret_thread(function: &Function, block_limit: usize, thread: i32, observe: &mut dyn FnMut(Event<'_>)) -> Outcome {
    let mut machine = Machine { function, values: HashMap::new(), thread };
    let mut outcome = Outcome { kept: Vec::new(), path: Vec::new() };
    let mut from = None;
    let mut block = function.entry();
    'blocks: while outcome.path.len() < block_limit {
        outcome.path.push(block);
        observe(Event::Enters(block));
        enter(&mut machine, block, from);
        for &phi in function.phis(block) {
            tell(&machine, phi, 0..1, observe);
        }
        for &inst in &function.blocks[block].insts[function.phis(block).len()..] {
            let data = &function.insts[inst];
            let holds = data.guard.is_none_or(|guard| (machine.read_kind(guard.kind)[0] != 0) != guard.negated);
            let results = data.result_count();
            if holds {
                tell(&machine, inst, results..function.operands(inst).len(), observe);
            }
            let sources = function.sources(inst);
            let plain: Vec<&Operand> = sources.iter().filter(|operand| operand.role == Role::Plain).collect();
            match data.op {
                Op::Machine(Opcode::EXIT) if holds => break 'blocks,
                Op::Machine(Opcode::BRA) if holds => {
                    let OperandKind::Block(target) = sources[0].kind else { panic!("a branch to no block") };
                    from = Some(block);
                    block = target;
                    continue 'blocks;
                }
                Op::Machine(Opcode::BRA | Opcode::EXIT) => {}
                Op::Pseudo(Pseudo::Keep) => outcome.kept.extend(plain.iter().map(|operand| machine.read(operand)[0])),
                _ if !holds => {
                    for number in 0..data.result_count() {
                        if let (Some(tied), Some(_)) = (function.tied_to(inst, number), function.results(inst)[number].part()) {
                            let old = machine.read(tied);
                            machine.write(&function.results(inst)[number], &old);
                        }
                    }
                }
                op => execute(&mut machine, op, function.results(inst), &plain),
            }
            tell(&machine, inst, 0..results, observe);
        }
        panic!("{block:?} has no end");
    }
    outcome
}

/// Reports the contents of the values among some operands of an instruction.
fn tell(machine: &Machine<'_>, inst: Inst, operands: Range<usize>, observe: &mut dyn FnMut(Event<'_>)) {
    for number in operands {
        let operand = machine.function.operands(inst)[number];
        if let Some(value) = operand.value().filter(|value| machine.values.contains_key(value)) {
            observe(Event::Has { inst, operand: number, value, words: &machine.read(&operand) });
        }
    }
}

/// Executes the phis of a block, all at once.
fn enter(machine: &mut Machine<'_>, block: Block, from: Option<Block>) {
    let function = machine.function;
    let incoming: Vec<(Operand, Vec<i32>)> = function
        .phis(block)
        .iter()
        .map(|&phi| {
            let pair = function.sources(phi).chunks(2).find(|pair| from.is_some_and(|from| pair[1].kind == OperandKind::Block(from)));
            (function.results(phi)[0], machine.read(&pair.expect("the phi knows its predecessor")[0]))
        })
        .collect();
    for (result, words) in incoming {
        machine.write(&result, &words);
    }
}

fn execute(machine: &mut Machine<'_>, op: Op, results: &[Operand], sources: &[&Operand]) {
    let is_value = |operand: &&&Operand| !matches!(operand.kind, OperandKind::Name(_));
    let read: Vec<Vec<i32>> = sources.iter().filter(is_value).map(|operand| machine.read(operand)).collect();
    match op {
        Op::Pseudo(Pseudo::Copy) => {
            for (result, words) in results.iter().zip(&read) {
                machine.write(result, words);
            }
        }
        Op::Pseudo(Pseudo::Pack) => {
            let packed: Vec<i32> = sources
                .iter()
                .zip(&read)
                .flat_map(|(source, words)| words[..source.part().map_or(1, |part| usize::from(part.count))].to_vec())
                .collect();
            machine.write(&results[0], &packed);
        }
        Op::Machine(Opcode::IADD3) => {
            machine.write(&results[0], &[read.iter().fold(0i32, |sum, words| sum.wrapping_add(words[0]))]);
        }
        Op::Machine(Opcode::S2R) => machine.write(&results[0], &[machine.thread]),
        Op::Machine(Opcode::ISETP) => machine.write(&results[0], &[i32::from(read[0][0] < read[1][0])]),
        other => panic!("the interpreter does not know {}", other.mnemonic()),
    }
}
