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
}

impl Controls {
    fn new(function: &Function) -> Controls {
        Controls { words: vec![Control::default(); function.insts.len()] }
    }

    /// The control word of an instruction.
    pub fn get(&self, inst: Inst) -> Control {
        self.words.get(inst.position()).copied().unwrap_or_default()
    }

    fn set(&mut self, inst: Inst, control: Control) {
        self.words[inst.position()] = control;
    }
}
