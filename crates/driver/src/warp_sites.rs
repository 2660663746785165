//! Lists the instructions that threads of a warp execute together, for the attributes `EIATTR_COOP_GROUP_INSTR_OFFSETS`,
//! `EIATTR_COOP_GROUP_MASK_REGIDS` and `EIATTR_INT_WARP_WIDE_INSTR_OFFSETS`, which debugging tools read.
//!
//! The first attribute has the shuffles, votes, matches, reductions and barriers of the program, the last one those that the compiler
//! inserted, for example to combine the atomic operations of a warp. Elections, `activemask` and barriers for all threads of a block are in
//! neither.

use oriole_ir::{Function, Inst, Opcode};
use oriole_isa::INSTRUCTION_BYTES;
use oriole_ptx::ast::{Form, FunctionId, Module, Statement};
use oriole_ptx::table::{Modifier, Opcode as PtxOpcode};
use rustc_hash::FxHashMap;

/// Places of the instructions of a function that threads of a warp execute together, in bytes from its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WarpSites {
    /// Those of the program.
    pub of_program: Vec<u32>,
    /// Those that the compiler inserted.
    pub of_compiler: Vec<u32>,
}

/// What a PTX instruction says about the machine instructions that it becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WarpStatement {
    /// A shuffle, vote, match or reduction.
    Exchange,
    /// A barrier that not all threads of a warp need to reach together.
    BlockBarrier,
    WarpBarrier,
    /// An instruction that neither attribute lists, although it is executed by a warp together.
    Unlisted,
}

/// Returns the instructions of a function, given its final code.
pub fn run(function: &Function, module: &Module, id: FunctionId) -> WarpSites {
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    let candidates: Vec<(u32, Inst)> = insts
        .enumerate()
        .filter(|&(_, &inst)| is_exchange(function, inst) || is_barrier(function, inst))
        .map(|(number, &inst)| ((number * INSTRUCTION_BYTES) as u32, inst))
        .collect();
    let mut sites = WarpSites::default();
    if candidates.is_empty() {
        return sites;
    }
    let statements = statements(module, id);
    for (place, inst) in candidates {
        let opcode = function.insts[inst].op.machine();
        match statements.get(&function.insts[inst].location.statement) {
            Some(WarpStatement::Exchange) if is_exchange(function, inst) => sites.of_program.push(place),
            Some(WarpStatement::BlockBarrier) if opcode == Some(Opcode::BAR) => sites.of_program.push(place),
            Some(WarpStatement::WarpBarrier) if opcode == Some(Opcode::WARPSYNC) => sites.of_program.push(place),
            None if is_exchange(function, inst) => sites.of_compiler.push(place),
            _ => {}
        }
    }
    sites
}

/// Returns whether an instruction passes values between the threads of a warp.
fn is_exchange(function: &Function, inst: Inst) -> bool {
    let exchanges = [Opcode::SHFL, Opcode::VOTE, Opcode::VOTEU, Opcode::MATCH, Opcode::REDUX, Opcode::CREDUX];
    function.insts[inst].op.machine().is_some_and(|opcode| exchanges.contains(&opcode))
}

/// Returns whether an instruction waits for other threads.
fn is_barrier(function: &Function, inst: Inst) -> bool {
    function.insts[inst].op.machine().is_some_and(|opcode| [Opcode::BAR, Opcode::WARPSYNC].contains(&opcode))
}

/// Returns the PTX statements of a function that the attributes distinguish, by the number of the statement
/// ([`oriole_ir::Location::statement`]).
fn statements(module: &Module, id: FunctionId) -> FxHashMap<u32, WarpStatement> {
    let Some(body) = module.functions[id].body.as_deref() else { return FxHashMap::default() };
    let kind_of = |(number, statement): (usize, &Statement)| {
        let Statement::Instruction(instruction) = *statement else { return None };
        let kind = kind(&module.forms[body.instructions[instruction].form])?;
        body.position(number).map(|span| (span.start + 1, kind))
    };
    body.statements.iter().enumerate().filter_map(kind_of).collect()
}

/// Returns what a PTX instruction says; `None` for those that a warp does not execute together.
fn kind(form: &Form) -> Option<WarpStatement> {
    let has = |modifier: Modifier| form.modifiers.iter().any(|value| value.modifier == modifier);
    Some(match form.opcode {
        PtxOpcode::Shfl | PtxOpcode::ShflSync | PtxOpcode::Vote | PtxOpcode::VoteSync | PtxOpcode::Match | PtxOpcode::ReduxSync => {
            WarpStatement::Exchange
        }
        PtxOpcode::Barrier if has(Modifier::Sync) && !has(Modifier::Aligned) => WarpStatement::BlockBarrier,
        PtxOpcode::BarWarpSync => WarpStatement::WarpBarrier,
        PtxOpcode::Activemask | PtxOpcode::ElectSync | PtxOpcode::Bar | PtxOpcode::Barrier => WarpStatement::Unlisted,
        _ => return None,
    })
}
