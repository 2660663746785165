//! Control words: how long an instruction waits, which scoreboards it sets, which it waits for.
//!
//! On these machines the compiler is the hazard logic. [`flow`] works out what has to be waited for, and no more ([`opex`] does that for a
//! function of the compiler); [`serial`] is right by construction and slow, for -O0: nothing is in flight when an instruction issues that
//! it could depend on. docs/control.md tells all about it.

pub mod flow;
pub mod opex;
pub mod serial;

use oriole_ir::{Function, Inst};
use oriole_isa::Control;
use oriole_support::Index;

/// The control word of each instruction of a function.
#[derive(Clone, Default, Debug)]
pub struct Controls {
    words: Vec<Control>,
    encoded: Vec<Option<u128>>,
}

impl Controls {
    fn new(function: &Function) -> Controls {
        Controls { words: vec![Control::default(); function.insts.len()], encoded: Vec::new() }
    }

    /// The control word of an instruction.
    pub fn get(&self, inst: Inst) -> Control {
        self.words.get(inst.position()).copied().unwrap_or_default()
    }

    /// The whole word of an instruction, if it was encoded on the way and does not depend on where code stands.
    pub fn encoded(&self, inst: Inst) -> Option<u128> {
        let word = self.encoded.get(inst.position()).copied().flatten()?;
        Some(word | self.get(inst).bits())
    }

    fn set(&mut self, inst: Inst, control: Control) {
        self.words[inst.position()] = control;
    }
}
