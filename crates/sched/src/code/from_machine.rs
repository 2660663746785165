//! Builds scheduler items on physical registers from machine instructions, either decoded or about to be encoded.

use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

use oriole_hardware::{Classes, SchedClass};
use oriole_ir::{MemoryAccess, Order};
use oriole_isa::{AccessPlace, Accesses, Instruction, Opcode, OperandValue, RegFile, accesses};
use rustc_hash::FxHasher;
use smallvec::SmallVec;

use super::effect::{self, OpcodeOrder};
use super::{
    AccessAddress, AliasSpace, MemAccess, MemAccessKind, NewItem, OrderEffect, PortAccess, RegisterClass, RegisterGroup, SchedCode,
};

/// Register files in which the scheduler tracks dependences; their registers are numbered in this order.
const TRACKED_FILES: [RegFile; 5] =
    [RegFile::General, RegFile::Predicate, RegFile::Uniform, RegFile::UniformPredicate, RegFile::Convergence];
/// Number of consecutive register numbers that each register file occupies in the scheduler's numbering.
const REGISTERS_PER_FILE: u32 = 256;

/// Creates code without items for instructions on physical registers. Each register is a register group (live range) of its own.
pub fn empty() -> SchedCode {
    static GROUPS: LazyLock<Vec<RegisterGroup>> = LazyLock::new(|| {
        TRACKED_FILES
            .iter()
            .flat_map(|&file| (0..REGISTERS_PER_FILE).map(move |_| RegisterGroup { class: RegisterClass::of_file(file), weight: 1 }))
            .collect()
    });
    SchedCode::new(TRACKED_FILES.len() as u32 * REGISTERS_PER_FILE, &GROUPS[..])
}

/// Returns the index of a physical register in the scheduler's numbering of all register files; `None` if the scheduler tracks no
/// dependences through that file.
pub fn register(file: RegFile, number: u16) -> Option<u32> {
    let file = TRACKED_FILES.iter().position(|&other| other == file)?;
    Some(file as u32 * REGISTERS_PER_FILE + u32::from(number))
}

/// Returns the scheduler's items of decoded machine instructions. About memory accesses, only what the encoding says is known.
pub fn code(instructions: &[Instruction]) -> SchedCode {
    let mut code = empty();
    for instruction in instructions {
        push(&mut code, instruction, AccessKnowledge::Nothing);
    }
    code
}

/// Appends a decoded instruction of a binary from another compiler. The encoding does not contain all that the compiler knew about memory
/// accesses, so more instructions keep their order:
///
/// * A shared-memory access may be volatile or relaxed without a modifier, so all shared-memory accesses keep their order.
/// * A marked access (`.STRONG`, `.MMIO`, atomic) may be an acquire or a release, so it is a fence.
/// * ptxas places a `NOP` where an acquire must be waited for, so `NOP` is a fence.
/// * Code that reads a clock usually measures time, so a clock read is a scheduling barrier.
/// * The registers of a warp-group matrix product may be in flight until a wait in another block, so products, their fences and their waits
///   are scheduling barriers.
/// * Nothing that depends on the active threads moves across a barrier.
/// * Instructions with a relative address (such as `BSSY`), and those that make threads diverge or reconverge, are scheduling barriers.
///
/// `is_relocated` says that part of the address is filled in by a relocation, so the address must not be compared.
pub fn push_foreign_instruction(code: &mut SchedCode, instruction: &Instruction, is_relocated: bool) {
    push(code, instruction, AccessKnowledge::Nothing);
    let Some(item) = code.items.last_mut() else { return };
    let has_relative_address = instruction.operands.iter().any(|operand| matches!(operand.value, OperandValue::Relative(_)));
    let changes_active_threads =
        matches!(instruction.opcode, Opcode::BSSY | Opcode::BSYNC | Opcode::BREAK | Opcode::WARPSYNC | Opcode::YIELD | Opcode::EXIT);
    let orders_warpgroup_products = instruction.opcode.is_warpgroup_product() || instruction.opcode == Opcode::WARPGROUP;
    item.effect = match item.effect {
        _ if has_relative_address || changes_active_threads || orders_warpgroup_products => OrderEffect::SchedBarrier,
        OrderEffect::Clock => OrderEffect::SchedBarrier,
        OrderEffect::Barrier => OrderEffect::Sync,
        OrderEffect::None if instruction.opcode == Opcode::NOP => OrderEffect::Fence,
        OrderEffect::Access(access) if access.strong => OrderEffect::Fence,
        OrderEffect::Access(access) => OrderEffect::Access(MemAccess {
            strong: access.space == AliasSpace::Shared,
            address: access.address.filter(|_| !is_relocated),
            ..access
        }),
        other => other,
    };
}

/// The compiler's description of the memory access of an instruction, which the encoding does not contain.
#[derive(Clone, Copy, Debug)]
pub enum AccessKnowledge<'a> {
    /// There is no description: only what the encoding of the instruction says is known.
    Nothing,
    /// The compiler's description of the access.
    Access(&'a MemoryAccess),
    /// The compiler's description of the access; part of its address is filled in by a relocation.
    Relocated(&'a MemoryAccess),
}

/// Appends the item of a machine instruction. `known` is the compiler's description of its memory access.
pub fn push(code: &mut SchedCode, instruction: &Instruction, known: AccessKnowledge<'_>) {
    let class = SchedClass::of(instruction);
    let found = accesses(instruction);
    let (reads, writes) = reg_accesses(instruction, class, &found);
    let effect = order_effect_of(code, instruction, &found, known);
    let is_uniform = |access: &PortAccess| matches!(access.file, RegFile::Uniform | RegFile::UniformPredicate);
    let new = NewItem {
        class,
        opcode: Some(instruction.opcode),
        guarded: !instruction.guard.is_always(),
        exchanges_lanes: effect::depends_on_active_threads(instruction.opcode),
        needs_convergence: effect::depends_on_active_threads(instruction.opcode) || reads.iter().chain(&writes).any(is_uniform),
        effect,
        reads: &reads,
        writes: &writes,
        tied_writes: 0,
    };
    code.push(&new, |register| register);
}

/// The registers that an instruction reads or writes.
type RegAccesses = SmallVec<[PortAccess; 8]>;

/// Returns the register accesses of an instruction: the reads and the writes. `found` lists the accessed registers; `class` determines
/// their ports, which select a latency.
fn reg_accesses(instruction: &Instruction, class: SchedClass, found: &Accesses) -> (RegAccesses, RegAccesses) {
    let (mut reads, mut writes) = (RegAccesses::new(), RegAccesses::new());
    let written = instruction.written();
    // The slot of a source is the number of sources before it; results do not count.
    let slot_of = |operand: u8| written.iter().take(usize::from(operand)).filter(|&&written| !written).count();
    // Classes of pipe C (memory, system registers, exchange between lanes) and of pipe `all` (control flow) do not read the register banks
    // at issue.
    let uses_banks = !matches!(class.attribute("pipe"), Some("C" | "all"));
    for access in found {
        let slot = match access.place {
            AccessPlace::Plain(operand) if uses_banks && !access.written && access.file == RegFile::General => Some(slot_of(operand) as u8),
            _ => None,
        };
        for (part, number) in access.registers().enumerate() {
            let Some(register) = register(access.file, number) else { continue };
            let port = match (access.place, access.written) {
                (AccessPlace::Guard, _) => Some(Classes::get().guard_port(access.file == RegFile::UniformPredicate)),
                (_, true) => class.write_port(access.file, part),
                (AccessPlace::Plain(operand) | AccessPlace::Address(operand), false) => {
                    class.read_port(access.file, slot_of(operand), part)
                }
            };
            let list = if access.written { &mut writes } else { &mut reads };
            list.push(PortAccess { register, file: access.file, port, slot });
        }
    }
    (reads, writes)
}

/// Returns the ordering constraints of an instruction in addition to register dependences. `known` is the compiler's description of its
/// memory access.
fn order_effect_of(code: &mut SchedCode, instruction: &Instruction, found: &Accesses, known: AccessKnowledge<'_>) -> OrderEffect {
    let described = match known {
        AccessKnowledge::Nothing => None,
        AccessKnowledge::Access(access) | AccessKnowledge::Relocated(access) => Some(access),
    };
    match effect::opcode_order(instruction.opcode) {
        OpcodeOrder::Free => OrderEffect::None,
        OpcodeOrder::Order(OrderEffect::Sync) if instruction.opcode == Opcode::EXIT && instruction.guard.is_always() => {
            OrderEffect::SchedBarrier
        }
        OpcodeOrder::Order(effect) => effect,
        OpcodeOrder::SpecialRegister => {
            effect::special_register_effect(instruction.operands.iter().filter_map(|operand| match operand.value {
                OperandValue::Name(name) => Some(name),
                _ => None,
            }))
        }
        OpcodeOrder::Constant => {
            let is_indexed = found.iter().any(|access| matches!(access.place, AccessPlace::Address(_)));
            let read = MemAccess { kind: MemAccessKind::ReadConstant, space: AliasSpace::Global, strong: false, address: None };
            if is_indexed { OrderEffect::Access(read) } else { OrderEffect::None }
        }
        OpcodeOrder::UnknownAddress { space, writes } => {
            let strong = effect::is_atomic(instruction.opcode) || described.is_some_and(|access| access.volatile);
            OrderEffect::Access(MemAccess { kind: access_kind(writes, false), space, strong, address: None })
        }
        OpcodeOrder::Access { space, writes } => {
            let address = match known {
                AccessKnowledge::Relocated(_) => None,
                _ => address_of(code, instruction, found, described),
            };
            order_effect_of_access(instruction, space, writes, described, address)
        }
    }
}

/// Returns the kind of a memory access: `Write` if it writes, otherwise one of two kinds of reads, depending on whether the memory is
/// constant.
fn access_kind(writes: bool, is_constant: bool) -> MemAccessKind {
    match (writes, is_constant) {
        (true, _) => MemAccessKind::Write,
        (false, true) => MemAccessKind::ReadConstant,
        (false, false) => MemAccessKind::Read,
    }
}

/// Returns the ordering constraint of a memory access: from the compiler's description if there is one, otherwise from the modifiers of the
/// instruction.
fn order_effect_of_access(
    instruction: &Instruction,
    space: AliasSpace,
    writes: bool,
    described: Option<&MemoryAccess>,
    address: Option<AccessAddress>,
) -> OrderEffect {
    let is_atomic = effect::is_atomic(instruction.opcode);
    if let Some(described) = described {
        return order_effect_of_described_access(described, space, writes, is_atomic, address);
    }
    let has = |names: &[&str]| instruction.modifiers.iter().any(|modifier| names.contains(&modifier.spelling()));
    let strong = is_atomic || has(&[".STRONG", ".MMIO"]);
    let kind = access_kind(writes, has(&[".CONSTANT"]));
    OrderEffect::Access(MemAccess { kind, space, strong, address })
}

/// Returns the ordering constraint of a memory access that the compiler described. `space` is used if the description names no more
/// specific space.
pub(super) fn order_effect_of_described_access(
    described: &MemoryAccess,
    space: AliasSpace,
    writes: bool,
    is_atomic: bool,
    address: Option<AccessAddress>,
) -> OrderEffect {
    match described.order {
        Order::Weak | Order::Relaxed => {}
        Order::Acquire | Order::Release | Order::AcquireRelease | Order::SequentiallyConsistent => return OrderEffect::Fence,
    }
    let space = match described.space {
        oriole_ir::Space::Spill => AliasSpace::Spill,
        oriole_ir::Space::Local => AliasSpace::Local,
        oriole_ir::Space::Shared => AliasSpace::Shared,
        oriole_ir::Space::Global => AliasSpace::Global,
        oriole_ir::Space::Generic | oriole_ir::Space::Constant => space,
    };
    let strong = is_atomic || described.volatile || described.order == Order::Relaxed;
    let is_constant = !strong && (described.constant || described.space == oriole_ir::Space::Constant);
    OrderEffect::Access(MemAccess { kind: access_kind(writes, is_constant), space, strong, address })
}

/// Extends `form`, the hash of the parts of an address so far, by one more part, and returns the new hash. Equal hashes count as equal
/// address forms; collisions of 64 bits are neglected.
pub(super) fn extend_address_hash(form: u64, part: impl Hash) -> u64 {
    let mut hasher = FxHasher::default();
    (form, part).hash(&mut hasher);
    hasher.finish()
}

/// Returns the address of a memory access, or `None` if the instruction has no address operand or the access size is unknown. Appends the
/// base registers to [`SchedCode::address_registers`].
fn address_of(
    code: &mut SchedCode,
    instruction: &Instruction,
    found: &Accesses,
    described: Option<&MemoryAccess>,
) -> Option<AccessAddress> {
    let (number, address) = instruction.operands.iter().enumerate().find_map(|(number, operand)| match &operand.value {
        OperandValue::Address(address) => Some((number, address)),
        _ => None,
    })?;
    let bytes = match described {
        Some(described) => u16::from(described.bytes),
        None => accessed_bytes_of(instruction),
    };
    if bytes == 0 {
        return None;
    }
    let first_register = code.address_registers.len() as u32;
    for access in found.iter().filter(|access| access.place == AccessPlace::Address(number as u8)) {
        code.address_registers.extend(access.registers().filter_map(|number| register(access.file, number)));
    }
    // The form covers everything except the registers and the final offset, so two addresses with equal forms differ only in registers and
    // offset.
    let mut form = extend_address_hash(0, address.word);
    for part in &address.parts {
        let suffixes = part.registers.iter().flat_map(|register| &register.suffixes).chain(&part.suffixes);
        form = suffixes.fold(extend_address_hash(form, part.registers.len()), extend_address_hash);
    }
    let last = address.parts.last()?;
    Some(AccessAddress {
        first_register,
        register_count: (code.address_registers.len() - first_register as usize) as u16,
        bytes,
        form,
        offset: last.offset.unwrap_or_default(),
    })
}

/// Returns the number of bytes that each thread accesses, from the modifiers of the instruction. Without a size modifier it is 4.
fn accessed_bytes_of(instruction: &Instruction) -> u16 {
    let bytes = instruction.modifiers.iter().filter_map(|modifier| match modifier.spelling() {
        ".U8" | ".S8" => Some(1),
        ".U16" | ".S16" | ".F16" | ".BF16" => Some(2),
        ".64" => Some(8),
        ".128" => Some(16),
        ".ENL2.256" | ".256" => Some(32),
        _ => None,
    });
    bytes.max().unwrap_or(4)
}

#[cfg(test)]
mod tests {
    use oriole_isa::parse;

    use super::accessed_bytes_of;

    #[test]
    fn access_width_follows_the_modifiers() {
        let bytes = |text: &str| accessed_bytes_of(&parse(text).unwrap_or_else(|error| panic!("{text}: {error:?}")));
        assert_eq!(bytes("LDS.U8 R0, [R2]"), 1);
        assert_eq!(bytes("LDS.S16 R0, [R2]"), 2);
        assert_eq!(bytes("LDS R0, [R2]"), 4);
        assert_eq!(bytes("LDS.64 R0, [R2]"), 8);
        assert_eq!(bytes("LDS.128 R0, [R4]"), 16);
        assert_eq!(bytes("LDG.E.ENL2.256 R8, R4, desc[UR4][R2.64]"), 32);
    }
}
