//! Lists the instructions that operate on barriers in shared memory, for the attribute `EIATTR_MBARRIER_INSTR_OFFSETS`, which debugging
//! tools read.
//!
//! A PTX instruction of the family `mbarrier` may become several machine instructions. The list has the one that performs the operation,
//! with the address that it accesses: `mbarrier.arrive` on sm_80 is a fence, which is not listed, and `ATOMS.ARRIVE.64`, which is.
//! As in ptxas' files, `mbarrier.arrive.expect_tx` is not listed.

use oriole_cubin::info::{Mbarrier, MbarrierKind};
use oriole_ir::machine::machine_instruction;
use oriole_ir::{Block, Function, Inst, Opcode};
use oriole_isa::{AddressPart, INSTRUCTION_BYTES, OperandValue, RegFile, Symbol};
use oriole_ptx::ast::{Form, FunctionId, Module, Statement};
use oriole_ptx::table::{Modifier, Opcode as PtxOpcode};
use rustc_hash::{FxHashMap, FxHashSet};

/// The operation on a barrier of each PTX statement, by the number of the statement ([`oriole_ir::Location::statement`]).
pub type BarrierStatements = FxHashMap<u32, MbarrierKind>;

/// Returns the operations on barriers in a function.
pub fn statements(module: &Module, id: FunctionId) -> BarrierStatements {
    let mut found = BarrierStatements::default();
    // Instructions share their forms, so a look at the forms of the module is enough for most modules.
    if !module.forms.iter().any(|form| kind(form).is_some()) {
        return found;
    }
    let Some(body) = module.functions[id].body.as_deref() else { return found };
    for (number, statement) in body.statements.iter().enumerate() {
        let Statement::Instruction(instruction) = *statement else { continue };
        let kind = kind(&module.forms[body.instructions[instruction].form]);
        found.extend(body.position(number).zip(kind).map(|(span, kind)| (span.start + 1, kind)));
    }
    found
}

/// Returns the kind of a PTX instruction in the attribute; `None` for instructions that are not listed.
fn kind(form: &Form) -> Option<MbarrierKind> {
    let has = |modifier: Modifier| form.modifiers.iter().any(|value| value.modifier == modifier);
    Some(match form.opcode {
        PtxOpcode::MbarrierInit => MbarrierKind::INIT,
        PtxOpcode::MbarrierArrive | PtxOpcode::MbarrierArriveDrop if has(Modifier::ExpectTx) => return None,
        PtxOpcode::MbarrierArrive if has(Modifier::NoComplete) => MbarrierKind::ARRIVE_NOCOMPLETE,
        PtxOpcode::MbarrierArrive => MbarrierKind::ARRIVE,
        PtxOpcode::MbarrierArriveDrop if has(Modifier::NoComplete) => MbarrierKind::ARRIVE_DROP_NOCOMPLETE,
        PtxOpcode::MbarrierArriveDrop => MbarrierKind::ARRIVE_DROP,
        PtxOpcode::MbarrierTestWait if has(Modifier::Parity) => MbarrierKind::TEST_WAIT_PARITY,
        PtxOpcode::MbarrierTestWait => MbarrierKind::TEST_WAIT,
        PtxOpcode::CpAsyncMbarrierArrive => MbarrierKind::CP_ASYNC_ARRIVE,
        PtxOpcode::MbarrierInval => MbarrierKind::INVAL,
        PtxOpcode::MbarrierTryWait if has(Modifier::Parity) => MbarrierKind::TRY_WAIT_PARITY,
        PtxOpcode::MbarrierTryWait => MbarrierKind::TRY_WAIT,
        PtxOpcode::MbarrierExpectTx => MbarrierKind::EXPECT_TX,
        PtxOpcode::MbarrierCompleteTx => MbarrierKind::COMPLETE_TX,
        _ => return None,
    })
}

/// Returns the list for the final code of a function, in the order of the code.
pub fn run(function: &Function, statements: &BarrierStatements) -> Vec<Mbarrier> {
    if statements.is_empty() {
        return Vec::new();
    }
    let last_atomics: FxHashSet<Inst> = function.layout.iter().flat_map(|&block| last_atomics(function, block)).collect();
    let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
    let site = |(number, &inst): (usize, &Inst)| {
        let kind = *statements.get(&function.insts[inst].location.statement)?;
        if !performs(function, inst, kind, last_atomics.contains(&inst)) {
            return None;
        }
        let machine = machine_instruction(function, inst, &|_| 0);
        let address = machine.operands.iter().find_map(|operand| match &operand.value {
            OperandValue::Address(address) => address.parts.last(),
            _ => None,
        })?;
        Some(Mbarrier { instruction: (number * INSTRUCTION_BYTES) as u32, kind, ..accessed(address) })
    };
    insts.enumerate().filter_map(site).collect()
}

/// Returns whether a machine instruction is the one of its PTX instruction that performs the operation on the barrier. On targets without
/// `SYNCS`, initializations are stores, tests are loads, and arrivals without completion are additions to the upper word.
///
/// `is_last_atomic` tells whether the instruction is in [`last_atomics`].
fn performs(function: &Function, inst: Inst, kind: MbarrierKind, is_last_atomic: bool) -> bool {
    let data = &function.insts[inst];
    let is_arrival_by_atomics = || match kind {
        MbarrierKind::ARRIVE | MbarrierKind::ARRIVE_DROP => data.modifiers.contains(&Symbol::ARRIVE),
        // `mbarrier.arrive_drop` first changes the lower word, with `.POPC.INC` or another addition without a result.
        MbarrierKind::ARRIVE_NOCOMPLETE | MbarrierKind::ARRIVE_DROP_NOCOMPLETE => is_last_atomic,
        _ => false,
    };
    match data.op.machine() {
        Some(Opcode::SYNCS) => kind != MbarrierKind::CP_ASYNC_ARRIVE,
        Some(Opcode::ARRIVES) => kind == MbarrierKind::CP_ASYNC_ARRIVE,
        Some(Opcode::ATOMS) => is_arrival_by_atomics(),
        Some(Opcode::STS) => kind == MbarrierKind::INIT,
        Some(Opcode::LDS) => [MbarrierKind::TEST_WAIT, MbarrierKind::TEST_WAIT_PARITY].contains(&kind),
        _ => false,
    }
}

/// Returns, for each PTX statement with atomic instructions on shared memory in a block, the last of these instructions. For a statement on
/// a barrier, it is the instruction that changes the upper word.
fn last_atomics(function: &Function, block: Block) -> impl Iterator<Item = Inst> {
    let mut last: FxHashMap<u32, Inst> = FxHashMap::default();
    let is_atomic = |inst: &Inst| function.insts[*inst].is_machine(Opcode::ATOMS);
    last.extend(function.blocks[block].insts.iter().copied().filter(is_atomic).map(|inst| (function.insts[inst].location.statement, inst)));
    last.into_values()
}

/// Returns the address of an access in the form of the attribute.
fn accessed(address: &AddressPart) -> Mbarrier {
    let register = |file| address.registers.iter().find(|register| register.file == file);
    let number = |file| register(file).and_then(|register| register.number);
    let general = register(RegFile::General);
    let scale = |spelling: &str| general.is_some_and(|register| register.suffixes.iter().any(|suffix| suffix.spelling() == spelling));
    let stride = [".X4", ".X8", ".X16"].into_iter().position(scale).map_or(0, |position| position as u8 + 1);
    Mbarrier {
        instruction: 0,
        register: number(RegFile::General).map_or(Mbarrier::NO_REGISTER, u32::from),
        offset: address.offset.unwrap_or(0) as u32,
        kind: MbarrierKind::INIT,
        stride,
        reserved: 1,
        uniform_register: number(RegFile::Uniform).map_or(Mbarrier::NO_UNIFORM_REGISTER, |number| number as u8),
        reserved_high: 0,
    }
}
