//! How machine instructions keep their order, beyond the registers they touch.
//!
//! The PTX memory model asks little of one thread's weak accesses: those that may meet in memory stay in order, others need not. Accesses
//! that are relaxed, volatile or atomic keep their order among each other. What acquires or releases, and every fence, keeps all accesses
//! on their sides; that is more than the model asks of a single acquire or release, and costs little. Barriers and whatever changes which threads run
//! together also hold those that depend on it: shuffles, votes, and writers of uniform registers, which a warp in parts would execute
//! once for each part.
//!
//! Copies in the background other than `LDGSTS` are ordered like barriers. Matrix products of warp groups and tensor memory touch registers long
//! after their issue and are walls.

use oriole_isa::{Effect as Property, Memory, Opcode, Symbol};

use super::{Effect, Space};

/// The kind of order, before operands are looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// None.
    Free,
    /// An access of memory with an address.
    Access { space: Space, writes: bool },
    /// An access of memory by many threads, or without a known address.
    Blurred { space: Space, writes: bool },
    /// A constant bank.
    Constant,
    /// A special register: what it is decides.
    State,
    /// One of the simple ones.
    Order(Effect),
}

/// How instructions with an opcode keep their order.
pub(super) fn kind(opcode: Opcode) -> Kind {
    let properties = opcode.properties();
    match opcode {
        Opcode::EXIT | Opcode::BSSY | Opcode::BSYNC | Opcode::BREAK => return Kind::Order(Effect::Sync),
        Opcode::LDSM | Opcode::STSM | Opcode::LDGSTS => {}
        Opcode::R2P | Opcode::UR2UP => return Kind::Free,
        Opcode::BMOV | Opcode::USETMAXREG | Opcode::RPCMOV | Opcode::LEPC | Opcode::WARPGROUP => return Kind::Order(Effect::Wall),
        _ => {}
    }
    let space = match properties.memory {
        Memory::Global | Memory::Texture | Memory::Surface => Some(Space::Global),
        Memory::Shared => Some(Space::Shared),
        Memory::Local => Some(Space::Local),
        Memory::Generic => Some(Space::Generic),
        Memory::Constant | Memory::Attribute | Memory::None | Memory::Tensor => None,
    };
    match (properties.effect, space) {
        (Property::None | Property::Lanes, _) => Kind::Free,
        (Property::State, _) => Kind::State,
        (Property::Control, _) => Kind::Order(Effect::Wall),
        (Property::Fence, _) if opcode == Opcode::DEPBAR => Kind::Order(Effect::Sync),
        (Property::Fence, _) => Kind::Order(Effect::Fence),
        (Property::Barrier | Property::Other, _) => Kind::Order(Effect::Sync),
        (Property::Reads, None) if properties.memory == Memory::Constant => Kind::Constant,
        (Property::Reads | Property::Writes | Property::Updates, None) => Kind::Order(Effect::Wall),
        (effect, Some(space)) => access(opcode, effect, space, properties.memory),
    }
}

fn access(opcode: Opcode, effect: Property, space: Space, memory: Memory) -> Kind {
    let writes = effect != Property::Reads;
    match opcode {
        Opcode::LD | Opcode::LDG | Opcode::LDL | Opcode::LDS => Kind::Access { space, writes },
        Opcode::ST | Opcode::STG | Opcode::STL | Opcode::STS => Kind::Access { space, writes },
        Opcode::ATOM | Opcode::ATOMG | Opcode::ATOMS | Opcode::RED | Opcode::REDG => Kind::Access { space, writes },
        Opcode::LDSM | Opcode::STSM | Opcode::LDGSTS => Kind::Blurred { space, writes },
        Opcode::BGMMA | Opcode::HGMMA | Opcode::IGMMA | Opcode::QGMMA => Kind::Order(Effect::Wall),
        _ if matches!(memory, Memory::Texture | Memory::Surface) => Kind::Blurred { space, writes },
        _ => Kind::Order(Effect::Sync),
    }
}

/// Whether an opcode is atomic.
pub(super) fn is_atomic(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::ATOM | Opcode::ATOMG | Opcode::ATOMS | Opcode::RED | Opcode::REDG | Opcode::SURED)
}

/// Whether an opcode takes operands from other threads or acts for all of them.
pub(super) fn needs_lanes(opcode: Opcode) -> bool {
    opcode.properties().effect == Property::Lanes
}

/// Whether a special register has one value as long as a thread lives. Clocks, counters and places on the chip do not.
pub fn special_register_is_fixed(name: Symbol) -> bool {
    const FIXED: [&str; 18] = [
        "SR_LANEID",
        "SR_TID",
        "SR_TID.X",
        "SR_TID.Y",
        "SR_TID.Z",
        "SR_CTAID.X",
        "SR_CTAID.Y",
        "SR_CTAID.Z",
        "SR_NTID",
        "SR_EQMASK",
        "SR_LTMASK",
        "SR_LEMASK",
        "SR_GTMASK",
        "SR_GEMASK",
        "SR_SWINHI",
        "SR_LWINHI",
        "SR_CgaCtaId",
        "SRZ",
    ];
    FIXED.contains(&name.spelling())
}

/// What a special register means for the order.
pub(super) fn state(names: impl Iterator<Item = Symbol>) -> Effect {
    let mut names = names.filter(|name| name.spelling().starts_with("SR")).peekable();
    if names.peek().is_some() && names.all(special_register_is_fixed) { Effect::None } else { Effect::Clock }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An access whose address says nothing about the memory it meets is one of textures and surfaces or one of three others; what else
    /// touches memory, as bulk copies do, keeps its order with all accesses.
    #[test]
    fn only_known_opcodes_access_memory_at_unknown_places() {
        let is_known = |opcode: Opcode| {
            let memory = opcode.properties().memory;
            matches!(opcode, Opcode::LDSM | Opcode::STSM | Opcode::LDGSTS) || matches!(memory, Memory::Texture | Memory::Surface)
        };
        for opcode in Opcode::all().filter(|&opcode| matches!(kind(opcode), Kind::Blurred { .. })) {
            assert!(is_known(opcode), "{}", opcode.mnemonic());
        }
        let textures = Opcode::all().filter(|&opcode| matches!(kind(opcode), Kind::Blurred { .. })).count();
        assert!(textures > 3, "{textures}");
    }
}
