//! Ordering constraints of machine instructions beyond their registers, derived from the opcode.
//!
//! The PTX memory model orders two weak accesses of one thread only if they overlap. So weak accesses that may alias stay in order, and
//! others may be reordered. This compiler orders more than the model requires in two cases, which costs little:
//!
//! * Relaxed, volatile and atomic accesses keep their order among each other, even at different addresses.
//! * An acquire or a release is a fence in both directions: no access moves across it.
//!
//! Instructions that make threads diverge or reconverge also keep their order with instructions whose result depends on the set of active
//! threads. These are shuffles, votes, and instructions that access uniform registers: a diverged warp would execute an access to a uniform
//! register once for each set of converged threads. Barriers do not change the set of active threads. They keep their order with shuffles
//! and votes, which costs little, but not with uniform registers.
//!
//! Asynchronous copies other than `LDGSTS` are ordered like barriers. Warp-group matrix products (`wgmma`) are ordered like fences; the
//! registers that they access after they issue are ordered by [`super::products`]. Tensor memory instructions are scheduling barriers.

use oriole_isa::{Effect, Memory, Opcode, Symbol};

use super::{AliasSpace, OrderEffect};

/// The ordering constraint that an opcode alone implies, before the operands of the instruction are known.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum OpcodeOrder {
    /// No constraint: only register dependences order the instruction.
    Free,
    /// A memory access at the address in its operands.
    Access { space: AliasSpace, writes: bool },
    /// A memory access whose address is unknown, for example because the instruction accesses several addresses, or acts for several
    /// threads. It aliases every access of its space.
    UnknownAddress { space: AliasSpace, writes: bool },
    /// A read of a constant bank. It counts as a memory access only if a register is part of the address.
    Constant,
    /// A read of a special register. The constraint depends on the register; see [`special_register_effect`].
    SpecialRegister,
    /// A constraint that does not depend on the operands.
    Order(OrderEffect),
}

/// Returns the ordering constraint that an opcode implies, in addition to register dependences. For some opcodes the constraint also
/// depends on the operands.
pub(super) fn opcode_order(opcode: Opcode) -> OpcodeOrder {
    let properties = opcode.properties();
    // Opcodes whose constraints are stricter or weaker than their properties in the instruction table imply.
    match opcode {
        // Arithmetic may move across a guarded `EXIT`. An `EXIT` without a guard is made a scheduling barrier later, when its guard is
        // known.
        Opcode::EXIT | Opcode::BSSY | Opcode::BSYNC | Opcode::BREAK => return OpcodeOrder::Order(OrderEffect::Sync),
        Opcode::LDSM | Opcode::STSM | Opcode::LDGSTS => {}
        // `R2P` and `UR2UP` write predicate registers only, so register dependences order them.
        Opcode::R2P | Opcode::UR2UP => return OpcodeOrder::Free,
        Opcode::BMOV | Opcode::USETMAXREG | Opcode::RPCMOV | Opcode::LEPC => {
            return OpcodeOrder::Order(OrderEffect::SchedBarrier);
        }
        _ => {}
    }
    let space = match properties.memory {
        Memory::Global | Memory::Texture | Memory::Surface => Some(AliasSpace::Global),
        Memory::Shared => Some(AliasSpace::Shared),
        Memory::Local => Some(AliasSpace::Local),
        Memory::Generic => Some(AliasSpace::Generic),
        Memory::Constant | Memory::Attribute | Memory::None | Memory::Tensor => None,
    };
    match (properties.effect, space) {
        (Effect::None | Effect::Lanes, _) => OpcodeOrder::Free,
        (Effect::State, _) => OpcodeOrder::SpecialRegister,
        (Effect::Control, _) => OpcodeOrder::Order(OrderEffect::SchedBarrier),
        (Effect::Fence, _) if opcode == Opcode::DEPBAR => OpcodeOrder::Order(OrderEffect::Barrier),
        (Effect::Fence, _) => OpcodeOrder::Order(OrderEffect::Fence),
        (Effect::Barrier | Effect::Other, _) if properties.keeps_active_threads => OpcodeOrder::Order(OrderEffect::Barrier),
        (Effect::Barrier | Effect::Other, _) => OpcodeOrder::Order(OrderEffect::Sync),
        (Effect::Reads, None) if properties.memory == Memory::Constant => OpcodeOrder::Constant,
        // Tensor and attribute memory: no alias information.
        (Effect::Reads | Effect::Writes | Effect::Updates, None) => OpcodeOrder::Order(OrderEffect::SchedBarrier),
        (effect, Some(space)) => access_order(opcode, effect, space, properties.memory),
    }
}

/// Returns the ordering constraint of an opcode that accesses memory. `space` is the space for alias analysis, `memory` the one in the
/// instruction table.
fn access_order(opcode: Opcode, effect: Effect, space: AliasSpace, memory: Memory) -> OpcodeOrder {
    let writes = effect != Effect::Reads;
    match opcode {
        Opcode::LD | Opcode::LDG | Opcode::LDL | Opcode::LDS => OpcodeOrder::Access { space, writes },
        Opcode::ST | Opcode::STG | Opcode::STL | Opcode::STS => OpcodeOrder::Access { space, writes },
        Opcode::ATOM | Opcode::ATOMG | Opcode::ATOMS | Opcode::RED | Opcode::REDG => OpcodeOrder::Access { space, writes },
        Opcode::LDSM | Opcode::STSM | Opcode::LDGSTS => OpcodeOrder::UnknownAddress { space, writes },
        _ if opcode.is_warpgroup_product() => OpcodeOrder::Order(OrderEffect::Fence),
        _ if matches!(memory, Memory::Texture | Memory::Surface) => OpcodeOrder::UnknownAddress { space, writes },
        _ => OpcodeOrder::Order(OrderEffect::Barrier),
    }
}

/// Returns whether an opcode is an atomic operation, reductions without a result included.
pub(super) fn is_atomic(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::ATOM | Opcode::ATOMG | Opcode::ATOMS | Opcode::RED | Opcode::REDG | Opcode::SURED)
}

/// Returns whether an opcode reads data of other threads of the warp or acts for the whole warp, such as a shuffle or a vote.
pub(super) fn depends_on_active_threads(opcode: Opcode) -> bool {
    opcode.properties().effect == Effect::Lanes
}

/// Returns the ordering constraint of an instruction that reads special registers. `names` are its symbolic operands; those that start with
/// `SR` are special registers. There is no constraint if at least one is given and all have a constant value for a thread; otherwise the
/// instruction is ordered like a clock read.
pub(super) fn special_register_effect(names: impl Iterator<Item = Symbol>) -> OrderEffect {
    let mut names = names.filter(|name| name.spelling().starts_with("SR")).peekable();
    if names.peek().is_some() && names.all(Symbol::is_invariant_special_register) { OrderEffect::None } else { OrderEffect::Clock }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only texture and surface instructions and `LDSM`, `STSM`, `LDGSTS` may be accesses at unknown addresses. All other instructions
    /// without a plain address, such as bulk copies, must keep their order with all accesses.
    #[test]
    fn only_known_opcodes_access_unknown_addresses() {
        let is_known = |opcode: Opcode| {
            let memory = opcode.properties().memory;
            matches!(opcode, Opcode::LDSM | Opcode::STSM | Opcode::LDGSTS) || matches!(memory, Memory::Texture | Memory::Surface)
        };
        for opcode in Opcode::all().filter(|&opcode| matches!(opcode_order(opcode), OpcodeOrder::UnknownAddress { .. })) {
            assert!(is_known(opcode), "{}", opcode.mnemonic());
        }
        let textures = Opcode::all().filter(|&opcode| matches!(opcode_order(opcode), OpcodeOrder::UnknownAddress { .. })).count();
        assert!(textures > 3, "{textures}");
    }
}
