//! Instructions.

use oriole_isa::{Effect, Opcode, Symbols};

use crate::function::Location;
use crate::memory::MemoryId;
use crate::operand::Guard;

/// What an instruction does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A machine instruction.
    Machine(Opcode),
    /// Something that is no machine instruction, or not yet.
    Pseudo(Pseudo),
}

/// Operations that exist only before registers are allocated or code is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pseudo {
    /// `d = PHI a, bb1, b, bb2`: what the block it was entered from says.
    Phi,
    /// `d, e = COPY a, b`: all sources are read before any result is written. Sources may be immediates and constants.
    Copy,
    /// `d = PACK a, b`: one value from consecutive parts.
    Pack,
    /// `d, e = ENTRY`: values that are in registers when the function starts ([`crate::Role::Fixed`]).
    Entry,
    /// Keeps its operands alive up to here, for instance results in their registers ([`crate::Role::Fixed`]) when the function ends.
    Keep,
}

impl Pseudo {
    /// Every one.
    pub const ALL: [Pseudo; 5] = [Pseudo::Phi, Pseudo::Copy, Pseudo::Pack, Pseudo::Entry, Pseudo::Keep];

    /// Its text.
    pub fn mnemonic(self) -> &'static str {
        match self {
            Pseudo::Phi => "PHI",
            Pseudo::Copy => "COPY",
            Pseudo::Pack => "PACK",
            Pseudo::Entry => "ENTRY",
            Pseudo::Keep => "KEEP",
        }
    }
}

impl Op {
    /// Its text.
    pub fn mnemonic(self) -> &'static str {
        match self {
            Op::Machine(opcode) => opcode.mnemonic(),
            Op::Pseudo(pseudo) => pseudo.mnemonic(),
        }
    }

    /// The machine opcode, if it is one.
    pub fn machine(self) -> Option<Opcode> {
        if let Op::Machine(opcode) = self { Some(opcode) } else { None }
    }

    /// What it does beyond writing registers.
    pub fn effect(self) -> Effect {
        match self {
            Op::Machine(opcode) => opcode.properties().effect,
            Op::Pseudo(Pseudo::Keep | Pseudo::Entry) => Effect::Other,
            Op::Pseudo(_) => Effect::None,
        }
    }
}

/// An instruction; its operands are kept by the function ([`crate::Function::operands`]).
#[derive(Debug)]
pub struct Instruction {
    /// What it does.
    pub op: Op,
    /// Modifiers of the mnemonic.
    pub modifiers: Symbols,
    /// The predicate it depends on.
    pub guard: Option<Guard>,
    /// What its memory access means.
    pub memory: Option<MemoryId>,
    /// Where it comes from.
    pub location: Location,
    pub(crate) first_operand: u32,
    pub(crate) operand_count: u32,
    pub(crate) result_count: u16,
}

impl Clone for Instruction {
    fn clone(&self) -> Instruction {
        // Symbols are copied all at once, which the list's own clone does not do.
        Instruction { modifiers: Symbols::from_slice(&self.modifiers), ..*self }
    }
}

impl Instruction {
    /// How many of its operands, from the first on, are written.
    pub fn result_count(&self) -> usize {
        usize::from(self.result_count)
    }

    /// Whether it is this pseudo operation.
    pub fn is(&self, pseudo: Pseudo) -> bool {
        self.op == Op::Pseudo(pseudo)
    }

    /// Whether it is this machine instruction.
    pub fn is_machine(&self, opcode: Opcode) -> bool {
        self.op == Op::Machine(opcode)
    }
}
