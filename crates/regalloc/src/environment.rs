//! What the allocator may use.

use oriole_ir::{File, Function, Inst, Target};

use crate::registers::RegisterSet;

/// The registers that functions may use, and what calls do to them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Environment {
    /// Whose code it is.
    pub target: Target,
    /// How many general registers a thread may have, 255 at most.
    pub max_registers: u32,
    /// How many uniform registers there are.
    pub uniform_registers: u32,
    /// How many predicates there are.
    pub predicates: u32,
    /// How many uniform predicates there are.
    pub uniform_predicates: u32,
    /// How many convergence barriers there are.
    pub barriers: u32,
    /// The general register that points to the stack; no value is put there.
    pub stack_pointer: u16,
    /// What a `CALL` leaves undefined.
    pub clobbers: Clobbers,
    /// Functions of which it is known better, by name.
    pub known: Vec<(String, Clobbers)>,
    /// Registers that no value is put into.
    pub reserved: Clobbers,
}

/// Registers that a called function may change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the register files")]
pub struct Clobbers {
    pub general: RegisterSet,
    pub uniform: RegisterSet,
    pub predicates: RegisterSet,
    pub uniform_predicates: RegisterSet,
    pub barriers: RegisterSet,
}

impl Clobbers {
    /// Everything.
    pub const ALL: Clobbers = Clobbers {
        general: RegisterSet::ALL,
        uniform: RegisterSet::ALL,
        predicates: RegisterSet::ALL,
        uniform_predicates: RegisterSet::ALL,
        barriers: RegisterSet::ALL,
    };

    /// Nothing.
    pub const NONE: Clobbers = Clobbers {
        general: RegisterSet::EMPTY,
        uniform: RegisterSet::EMPTY,
        predicates: RegisterSet::EMPTY,
        uniform_predicates: RegisterSet::EMPTY,
        barriers: RegisterSet::EMPTY,
    };

    fn of(&self, file: File) -> RegisterSet {
        match file {
            File::General => self.general,
            File::Uniform => self.uniform,
            File::Predicate => self.predicates,
            File::UniformPredicate => self.uniform_predicates,
            File::Convergence => self.barriers,
            File::Scoreboard => RegisterSet::EMPTY,
        }
    }
}

impl Environment {
    /// All registers a target has, up to a number of general registers; calls change everything.
    pub fn new(target: Target, max_registers: u32) -> Environment {
        Environment {
            target,
            max_registers: max_registers.min(255),
            uniform_registers: 63,
            predicates: 7,
            uniform_predicates: 7,
            barriers: 16,
            stack_pointer: 1,
            clobbers: Clobbers::ALL,
            known: Vec::new(),
            reserved: Clobbers::NONE,
        }
    }

    /// How many registers of a file there are.
    pub fn limit(&self, file: File) -> u32 {
        match file {
            File::General => self.max_registers,
            File::Uniform => self.uniform_registers,
            File::Predicate => self.predicates,
            File::UniformPredicate => self.uniform_predicates,
            File::Convergence => self.barriers,
            File::Scoreboard => 0,
        }
    }

    /// The registers of a file that values may be put into.
    pub(crate) fn usable(&self, file: File) -> RegisterSet {
        let mut set = RegisterSet::first(self.limit(file)).without(&self.reserved.of(file));
        if file == File::General {
            set.remove(self.stack_pointer, 1);
        }
        set
    }

    /// What a call changes in a file.
    pub(crate) fn clobbered(&self, function: &Function, call: Inst, file: File) -> RegisterSet {
        let callee = function.callee(call);
        let known = self.known.iter().find(|(name, _)| callee == Some(name.as_str()));
        known.map_or(&self.clobbers, |(_, clobbers)| clobbers).of(file)
    }
}
