//! Gives every assignment of a PTX register a machine instruction, for debuggers.
//!
//! Instruction selection ends an assignment with a `COPY` into the value of the PTX register; SSA construction deletes the copy. If the
//! same PTX statement computes the copied value, that computation marks the assignment. Otherwise (`mov.u32 %r1, %r5`, a parameter that
//! arrives in a register, the result of a call) no instruction would be left. A debugger could not stop at the statement, and could not
//! know the address after which the PTX register has its new value. [`run`] inserts moves there. ptxas does the same.
//!
//! A guarded assignment becomes a guarded move into a new value, tied to the old value of the PTX register, and a copy of the new value
//! without guard. The result of the move is the current value of the PTX register whether the guard holds or not:
//!
//! ```text
//! @%p %r = COPY %a, (else %r)          @%p %new = MOV %a, (else %r)
//!                                      %r = COPY %new
//! ```

use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, OperandKind, Part, Pseudo, RegFile, Role, Signs, Symbol, Value};
use oriole_isa::Symbols;
use oriole_ptx::ast::RegisterId;
use rustc_hash::{FxHashMap, FxHashSet};

/// The truth table of `PLOP3` for the conjunction of its sources. If two of them are `PT`, the result is the third one.
const PLOP3_AND_TABLE: i64 = 0x80;

/// Inserts a move for each assignment to a PTX register that would otherwise leave no machine instruction at which a debugger can stop, and
/// for each guarded assignment. `registers` maps each PTX register to its value in the IR. The function is not in SSA form yet.
pub fn run(function: &mut Function, registers: &FxHashMap<RegisterId, Value>) {
    let variables: FxHashSet<Value> = registers.values().copied().collect();
    let computed = find_computing_insts(function);
    for block in function.layout.clone() {
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut extended: Vec<Inst> = Vec::with_capacity(insts.len());
        for inst in insts {
            if let Some((variable, source)) = match_assignment(function, inst, &variables)
                && (function.insts[inst].guard.is_some() || !is_assignment_marked(function, &computed, block, inst, &source))
            {
                insert_moves(function, inst, variable, source, &mut extended);
            }
            extended.push(inst);
        }
        function.blocks[block].insts = extended;
    }
}

/// For each value: the block and the instruction that compute it; `None` for values with several definitions.
type ComputingInsts = FxHashMap<Value, Option<(Block, Inst)>>;

/// Returns, for each value of a function, the block and the instruction that compute it; `None` for values with several definitions.
fn find_computing_insts(function: &Function) -> ComputingInsts {
    let mut computed = ComputingInsts::default();
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            for part in function.results(inst).iter().filter_map(Operand::part) {
                computed.entry(part.value).and_modify(|site| *site = None).or_insert(Some((block, inst)));
            }
        }
    }
    computed
}

/// If `inst` is a copy into one of `variables`, returns that variable and the source of the copy; `None` for other instructions.
fn match_assignment(function: &Function, inst: Inst, variables: &FxHashSet<Value>) -> Option<(Value, Operand)> {
    let data = &function.insts[inst];
    let [result] = function.results(inst) else { return None };
    let variable = result.value().filter(|value| variables.contains(value))?;
    let source = match (function.sources(inst), data.guard) {
        ([source], None) => source,
        ([source, tied], Some(_)) if tied.role == Role::Tied(0) && tied.part() == result.part() => source,
        _ => return None,
    };
    data.is(Pseudo::Copy).then_some((variable, *source))
}

/// Returns whether the source of the copy `inst` is computed by machine instructions of the same block and the same PTX statement. A
/// debugger can then stop at these instructions, and the assignment needs no move.
fn is_assignment_marked(function: &Function, computed: &ComputingInsts, block: Block, inst: Inst, source: &Operand) -> bool {
    let is_here = |value: Value| match computed.get(&value) {
        Some(&Some((from, by))) => {
            let is_same = from == block && function.insts[by].location.statement == function.insts[inst].location.statement;
            Some(by).filter(|&by| is_same && function.insts[by].guard.is_none())
        }
        _ => None,
    };
    let Some(by) = source.value().and_then(is_here) else { return false };
    match function.insts[by].op {
        Op::Machine(_) => true,
        // Selection computes the sources of a pack by machine instructions, not by further packs, so it is enough to look at these sources.
        Op::Pseudo(Pseudo::Pack) => function.sources(by).iter().all(|part| {
            let word = part.value().and_then(is_here);
            word.is_some_and(|word| function.insts[word].op.machine().is_some())
        }),
        Op::Pseudo(_) => false,
    }
}

/// Appends a move of each 32-bit word of `source` to `extended`, and makes the instruction `copy`, which copies into `variable`, read the
/// results of the moves without a guard. Does nothing if no move can read the source.
fn insert_moves(function: &mut Function, copy: Inst, variable: Value, source: Operand, extended: &mut Vec<Inst>) {
    let class = function.values[variable];
    let is_plain = source.suffixes.iter().all(|&suffix| suffix == Symbol::NAME_);
    let words: Option<Vec<Operand>> = match source.kind {
        _ if !is_plain => None,
        OperandKind::Value(part) if part.count == class.width && function.values[part.value].file == class.file => {
            let signs = source.signs;
            let word = |number| Operand::from(Part { value: part.value, first: part.first + number, count: 1 }).with_signs(signs);
            Some((0..class.width).map(word).collect())
        }
        OperandKind::Integer(_) | OperandKind::Zero(_) if class.width == 1 => Some(vec![source]),
        _ => None,
    };
    let can_move = match class.file {
        RegFile::General => source.signs == Signs::NONE,
        RegFile::Predicate => matches!(source.kind, OperandKind::Value(_) | OperandKind::Zero(_)),
        _ => false,
    };
    let Some(words) = words.filter(|_| can_move) else { return };
    let (location, guard) = (function.insts[copy].location, function.insts[copy].guard);
    let mut moved: Vec<Operand> = Vec::with_capacity(words.len());
    for (word, number) in words.into_iter().zip(0..) {
        let result = function.new_value(oriole_ir::Class { width: 1, align: 1, ..class });
        let whole = Operand::from(function.whole(result));
        let tied = guard.map(|_| Operand::from(Part { value: variable, first: number, count: 1 }).with_role(Role::Tied(0)));
        let inst = if class.file == RegFile::Predicate {
            let modifiers: Symbols = Symbol::find(".LUT").into_iter().collect();
            let operands = [whole, Operand::PT, word, Operand::PT, Operand::PT, PLOP3_AND_TABLE.into(), (PLOP3_AND_TABLE >> 4).into()];
            let operands: Vec<Operand> = operands.into_iter().chain(tied).collect();
            function.new_inst(Op::Machine(Opcode::PLOP3), modifiers, guard, &operands, 2)
        } else {
            let operands: Vec<Operand> = [whole, word].into_iter().chain(tied).collect();
            function.new_inst(Op::Machine(Opcode::MOV), Symbols::new(), guard, &operands, 1)
        };
        function.insts[inst].location = location;
        extended.push(inst);
        moved.push(whole);
    }
    let source = match moved[..] {
        [only] => only,
        _ => {
            let whole = Operand::from({
                let packed = function.new_value(class);
                function.whole(packed)
            });
            moved.insert(0, whole);
            let pack = function.new_inst(Op::Pseudo(Pseudo::Pack), Symbols::new(), None, &moved, 1);
            function.insts[pack].location = location;
            extended.push(pack);
            whole
        }
    };
    let result = function.results(copy)[0];
    function.set_operands(copy, &[result, source], 1);
    function.insts[copy].guard = None;
}
