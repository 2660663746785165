//! Builds scheduler items from Ori: on SSA values before register allocation, on physical registers afterwards.
//!
//! [`push_ssa_inst`] uses the register numbers of [`ValueNumbers`]. [`push_allocated_inst`] converts the instruction to its machine form,
//! from which [`from_machine`] builds the item.

use oriole_hardware::{Classes, SchedClass};
use oriole_ir::machine::machine_instruction;
use oriole_ir::{Function, Inst, MemoryAccess, Op, Operand, OperandKind, Part, Pseudo, Role, Signs};
use oriole_isa::{Opcode, RegFile, Symbol};
use smallvec::SmallVec;

use super::effect::{self, OpcodeOrder};
use super::from_machine::{self, AccessKnowledge, extend_address_hash, order_effect_of_described_access};
use super::products::ProductRegisters;
pub use super::value_numbers::ValueNumbers;
use super::{AccessAddress, AliasSpace, MemAccess, MemAccessKind, NewItem, OrderEffect, PortAccess, SchedCode};

/// Returns the scheduling class that items of pseudo operations have. Pseudo operations take no cycles, so the class is never used for
/// timing.
fn class_of_pseudo_operations() -> SchedClass {
    Classes::get().of(Opcode::MOV, &[])
}

/// Appends the item of an instruction whose operands are physical registers.
pub(crate) fn push_allocated_inst(code: &mut SchedCode, function: &Function, products: &ProductRegisters, inst: Inst) {
    let data = &function.insts[inst];
    if data.op.machine().is_none() {
        return push_sched_barrier(code);
    }
    let instruction = machine_instruction(function, inst, &|_| 0);
    let is_relocated = function.operands(inst).iter().any(|operand| matches!(operand.kind, OperandKind::Reference(_)));
    let known = match data.memory {
        None => AccessKnowledge::Nothing,
        Some(id) if is_relocated => AccessKnowledge::Relocated(&function.accesses[id]),
        Some(id) => AccessKnowledge::Access(&function.accesses[id]),
    };
    from_machine::push(code, &instruction, known);
    products.add_to_last_item(code, inst);
}

/// Appends the item of an instruction whose operands are SSA values.
pub fn push_ssa_inst(code: &mut SchedCode, numbers: &ValueNumbers, function: &Function, products: &ProductRegisters, inst: Inst) {
    let data = &function.insts[inst];
    let (opcode, effect) = match data.op {
        Op::Machine(opcode) => (Some(opcode), order_effect_of(code, numbers, function, inst, opcode)),
        Op::Pseudo(Pseudo::Copy | Pseudo::Pack) => (None, OrderEffect::None),
        Op::Pseudo(Pseudo::Entry | Pseudo::Keep) => (None, OrderEffect::SchedBarrier),
        // A phi reads its operands in the predecessors, and its result is available when its block starts. So its item is a scheduling
        // barrier without register accesses.
        Op::Pseudo(Pseudo::Phi) => return push_sched_barrier(code),
    };
    let class = opcode.map_or_else(class_of_pseudo_operations, |opcode| Classes::get().of(opcode, &data.modifiers));
    let reg_accesses = ValueAccesses::collect(numbers, function, inst, opcode.is_some().then_some(class));
    let is_uniform = |access: &PortAccess| matches!(access.file, RegFile::Uniform | RegFile::UniformPredicate);
    let new = NewItem {
        class,
        opcode,
        guarded: data.guard.is_some(),
        exchanges_lanes: opcode.is_some_and(effect::depends_on_active_threads),
        needs_convergence: opcode.is_some_and(effect::depends_on_active_threads)
            || reg_accesses.reads.iter().chain(&reg_accesses.writes).any(is_uniform),
        effect,
        reads: &reg_accesses.reads,
        writes: &reg_accesses.writes,
        tied_writes: reg_accesses.tied_writes,
    };
    code.push(&new, |register| numbers.group_of(register));
    products.add_to_last_item(code, inst);
}

/// Appends a scheduling barrier that accesses no registers.
fn push_sched_barrier(code: &mut SchedCode) {
    let new = NewItem {
        class: class_of_pseudo_operations(),
        opcode: None,
        guarded: false,
        needs_convergence: false,
        exchanges_lanes: false,
        effect: OrderEffect::SchedBarrier,
        reads: &[],
        writes: &[],
        tied_writes: 0,
    };
    code.push(&new, |_| 0);
}

#[derive(Default)]
/// The register accesses of one instruction whose operands are SSA values.
struct ValueAccesses {
    /// Registers that the instruction reads.
    reads: SmallVec<[PortAccess; 8]>,
    /// The results, followed by the tied operands.
    writes: SmallVec<[PortAccess; 8]>,
    /// Number of elements at the end of `writes` that are registers of tied operands.
    tied_writes: usize,
}

impl ValueAccesses {
    /// Collects the registers that an instruction reads and writes. The class determines the port ([`PortAccess::port`]) of each access;
    /// pseudo operations have no class, so their accesses have no ports.
    fn collect(numbers: &ValueNumbers, function: &Function, inst: Inst, class: Option<SchedClass>) -> ValueAccesses {
        let mut reg_accesses = ValueAccesses::default();
        let data = &function.insts[inst];
        if let Some(Part { value, first, count }) = data.guard.and_then(|guard| Operand::new(guard.kind).part()) {
            let file = function.values[value].file;
            let port = class.map(|_| Classes::get().guard_port(file == RegFile::UniformPredicate));
            reg_accesses.reads.extend(numbers.registers(Part { value, first, count }).map(|register| PortAccess {
                register,
                file,
                port,
                slot: None,
            }));
        }
        for part in function.results(inst).iter().filter_map(Operand::part) {
            let file = function.values[part.value].file;
            for (number, register) in numbers.registers(part).enumerate() {
                let port = class.and_then(|class| class.write_port(file, number));
                reg_accesses.writes.push(PortAccess { register, file, port, slot: None });
            }
        }
        let mut slots = 0;
        // Only plain operands start a new slot: the other operands of an address share the slot of the operand before them.
        for operand in function.sources(inst) {
            slots += usize::from(operand.role == Role::Plain);
            reg_accesses.add_source(numbers, function, operand, class, slots.saturating_sub(1));
        }
        reg_accesses
    }

    /// Adds the registers of one source operand. `slot` is the index of the operand slot, from 0.
    fn add_source(&mut self, numbers: &ValueNumbers, function: &Function, operand: &Operand, class: Option<SchedClass>, slot: usize) {
        let Some(part) = operand.part() else { return };
        let file = function.values[part.value].file;
        let is_tied = matches!(operand.role, Role::Tied(_));
        for (number, register) in numbers.registers(part).enumerate() {
            let port = class.filter(|_| !is_tied).and_then(|class| class.read_port(file, slot, number));
            self.reads.push(PortAccess { register, file, port, slot: None });
            if is_tied {
                // A tied operand shares its register with the result, so the instruction overwrites it.
                self.writes.push(PortAccess { register, file, port: None, slot: None });
                self.tied_writes += 1;
            }
        }
    }
}

/// Returns the ordering constraints, in addition to register dependences, of a machine instruction whose operands are SSA values.
fn order_effect_of(code: &mut SchedCode, numbers: &ValueNumbers, function: &Function, inst: Inst, opcode: Opcode) -> OrderEffect {
    let data = &function.insts[inst];
    let names = || {
        function.operands(inst).iter().filter_map(|operand| match operand.kind {
            OperandKind::Name(name) => Some(name),
            _ => None,
        })
    };
    // `PR` and `UPR` stand for all predicate registers, which are not in the operand list, so the instruction is a scheduling barrier.
    if names().any(|name| matches!(name.spelling(), "PR" | "UPR")) {
        return OrderEffect::SchedBarrier;
    }
    let described = data.memory.map(|id| &function.accesses[id]);
    match effect::opcode_order(opcode) {
        OpcodeOrder::Free => OrderEffect::None,
        // An `EXIT` without a guard ends the block, so nothing may move past it.
        OpcodeOrder::Order(OrderEffect::Sync) if opcode == Opcode::EXIT && data.guard.is_none() => OrderEffect::SchedBarrier,
        // A prefetch that the compiler inserted may be executed anywhere; a prefetch of the PTX program is described as volatile.
        OpcodeOrder::Order(OrderEffect::Fence)
            if data.modifiers.contains(&Symbol::PF1) && opcode == Opcode::CCTL && described.is_some_and(|access| !access.volatile) =>
        {
            OrderEffect::None
        }
        OpcodeOrder::Order(effect) => effect,
        OpcodeOrder::SpecialRegister => effect::special_register_effect(names()),
        OpcodeOrder::Constant => {
            let is_indexed = function.sources(inst).iter().any(|operand| operand.part().is_some());
            let read = MemAccess { kind: MemAccessKind::ReadConstant, space: AliasSpace::Global, strong: false, address: None };
            if is_indexed { OrderEffect::Access(read) } else { OrderEffect::None }
        }
        OpcodeOrder::UnknownAddress { space, writes } => {
            let strong = effect::is_atomic(opcode) || described.is_some_and(|access| access.volatile);
            let kind = if writes { MemAccessKind::Write } else { MemAccessKind::Read };
            OrderEffect::Access(MemAccess { kind, space, strong, address: None })
        }
        OpcodeOrder::Access { space, writes } => {
            let Some(described) = described else {
                let kind = if writes { MemAccessKind::Write } else { MemAccessKind::Read };
                // Nothing is known about the access: it may alias every access of its space, and keeps its order with strong accesses.
                return OrderEffect::Access(MemAccess { kind, space, strong: true, address: None });
            };
            let address = address_of(code, numbers, function, inst, described);
            order_effect_of_described_access(described, space, writes, effect::is_atomic(opcode), address)
        }
    }
}

/// Returns the address of a memory access, or `None` if the access size or the form of the address is unknown. Appends the base registers
/// to [`SchedCode::address_registers`].
fn address_of(
    code: &mut SchedCode,
    numbers: &ValueNumbers,
    function: &Function,
    inst: Inst,
    described: &MemoryAccess,
) -> Option<AccessAddress> {
    if described.bytes == 0 {
        return None;
    }
    let operands = function.operands(inst);
    let opening = operands.iter().position(|operand| matches!(operand.kind, OperandKind::Address(_)))?;
    let first_register = code.address_registers.len() as u32;
    let (mut form, mut offset) = (0, 0_i64);
    // An address starts with an operand of kind `Address`. The operands after it belong to the address until the next plain operand.
    for operand in operands[opening..].iter().take_while(|operand| operand.role != Role::Plain || operand == &&operands[opening]) {
        match operand.kind {
            OperandKind::Address(word) => form = extend_address_hash(form, word),
            OperandKind::Value(part) => {
                let suffixes = operand.suffixes.iter().filter(|&&suffix| suffix != Symbol::NAME_);
                form = suffixes.fold(extend_address_hash(form, 1_u8), extend_address_hash);
                code.address_registers.extend(numbers.registers(part));
            }
            OperandKind::Integer(number) => {
                offset += if operand.signs.has(Signs::NEGATE) { number.wrapping_neg() } else { number };
            }
            OperandKind::Zero(_) => form = extend_address_hash(form, 2_u8),
            OperandKind::Reference(reference) => {
                form = extend_address_hash(form, (3_u8, reference.symbol));
                offset += i64::from(reference.offset);
            }
            _ => return None,
        }
    }
    Some(AccessAddress {
        first_register,
        register_count: (code.address_registers.len() - first_register as usize) as u16,
        bytes: described.bytes.into(),
        form,
        offset,
    })
}
