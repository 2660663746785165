//! Instructions and their operations.

use oriole_isa::{Effect, Opcode, Symbols};

use crate::ids::Location;
use crate::memory::MemoryId;
use crate::operand::Guard;

/// The operation of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    /// A machine instruction.
    Machine(Opcode),
    /// An operation that the machine does not have.
    Pseudo(Pseudo),
}

/// Operations that exist only until registers are allocated or code is laid out.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pseudo {
    /// `d = PHI a, bb1, b, bb2`: `a` if the block was entered from `bb1`, `b` if it was entered from `bb2`.
    Phi,
    /// `d, e = COPY a, b`: a parallel copy; all sources are read before any result is written. Sources may be immediates and constants.
    Copy,
    /// `d = PACK a, b`: joins the sources, in order, into the consecutive registers of one value.
    Pack,
    /// `d, e = ENTRY`: defines the values that are in registers ([`crate::Role::Fixed`]) when the function starts.
    Entry,
    /// `KEEP a, b`: keeps its operands live up to this point, for example results in their registers ([`crate::Role::Fixed`]) at the end
    /// of a function.
    Keep,
}

impl Pseudo {
    /// All pseudo operations.
    pub const ALL: [Pseudo; 5] = [Pseudo::Phi, Pseudo::Copy, Pseudo::Pack, Pseudo::Entry, Pseudo::Keep];

    /// Returns the mnemonic.
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
    /// Returns the mnemonic.
    pub fn mnemonic(self) -> &'static str {
        match self {
            Op::Machine(opcode) => opcode.mnemonic(),
            Op::Pseudo(pseudo) => pseudo.mnemonic(),
        }
    }

    /// Returns the machine opcode; `None` for a pseudo operation.
    pub fn machine(self) -> Option<Opcode> {
        if let Op::Machine(opcode) = self { Some(opcode) } else { None }
    }

    /// Returns the effect beyond writing registers.
    pub fn effect(self) -> Effect {
        match self {
            Op::Machine(opcode) => opcode.properties().effect,
            Op::Pseudo(Pseudo::Keep | Pseudo::Entry) => Effect::Other,
            Op::Pseudo(_) => Effect::None,
        }
    }
}

/// An instruction; the function holds its operands ([`crate::Function::operands`]).
#[derive(Debug)]
pub struct Instruction {
    /// The operation.
    pub op: Op,
    /// Modifiers of the mnemonic.
    pub modifiers: Symbols,
    /// The predicate under which it executes; `None` for always.
    pub guard: Option<Guard>,
    /// The description of its memory access; `None` if it has none.
    pub memory: Option<MemoryId>,
    /// The source position that it was selected for.
    pub location: Location,
    /// Position of its first operand in the function's operand list.
    pub(crate) first_operand: u32,
    /// Number of operands.
    pub(crate) operand_count: u32,
    /// Number of operands that are written; these come first.
    pub(crate) result_count: u16,
    /// Whether a product and a sum may be rounded once, together: they are a floating-point `mul` and `add` or `sub` without a rounding
    /// modifier. Both instructions must allow it.
    pub may_contract: bool,
}

impl Clone for Instruction {
    fn clone(&self) -> Instruction {
        // `from_slice` copies the symbols in one block, which is faster than the clone of the list type.
        Instruction { modifiers: Symbols::from_slice(&self.modifiers), ..*self }
    }
}

impl Instruction {
    /// Returns the number of leading operands that it writes.
    pub fn result_count(&self) -> usize {
        usize::from(self.result_count)
    }

    /// Returns whether it is the given pseudo operation.
    pub fn is(&self, pseudo: Pseudo) -> bool {
        self.op == Op::Pseudo(pseudo)
    }

    /// Returns whether it is the given machine instruction.
    pub fn is_machine(&self, opcode: Opcode) -> bool {
        self.op == Op::Machine(opcode)
    }
}
