//! Computes control words: the stall of each instruction, the scoreboards that it sets and waits for, yields and register reuse.
//!
//! These GPUs have no interlocks for registers, so the compiler has to ensure that no instruction reads or overwrites a register too early.
//! [`flow`] computes stalls and waits over all paths that are no longer than necessary; [`control_words`] does that for a function of the
//! compiler, and inserts `NOP`s where a stall would be too long. [`serial`] is for -O0: slow and correct by construction, because each
//! instruction waits until all earlier ones are done. See docs/control.md.

pub mod control_words;
pub mod flow;
pub mod serial;

use oriole_ir::{Function, Inst};
use oriole_isa::Control;
use oriole_support::Index;

/// The control words of a function.
#[derive(Clone, Default, Debug)]
pub struct Controls {
    /// By instruction.
    words: Vec<Control>,
    /// By instruction: its encoding without the control word, as far as it is known; see [`Controls::encoded`].
    encoded: Vec<Option<u128>>,
}

impl Controls {
    fn new(function: &Function) -> Controls {
        Controls { words: vec![Control::default(); function.insts.len()], encoded: Vec::new() }
    }

    /// Returns the control word of an instruction; the default one for an instruction that has none.
    pub fn get(&self, inst: Inst) -> Control {
        self.words.get(inst.position()).copied().unwrap_or_default()
    }

    /// Returns the complete 128-bit encoding of an instruction; `None` if it was not encoded here or depends on addresses of code.
    pub fn encoded(&self, inst: Inst) -> Option<u128> {
        let word = self.encoded.get(inst.position()).copied().flatten()?;
        Some(word | self.get(inst).bits())
    }

    fn set(&mut self, inst: Inst, control: Control) {
        self.words[inst.position()] = control;
    }
}
