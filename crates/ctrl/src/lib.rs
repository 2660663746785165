//! Computes control words: the stall of each instruction, the scoreboards that it sets and waits for, yields and register reuse.
//!
//! These GPUs have no interlocks for registers, so the compiler has to ensure that no instruction reads or overwrites a register too early.
//! [`flow`] computes the shortest sufficient stalls and waits over all control-flow paths; [`control_words`] applies it to a function in
//! the IR, and inserts `NOP`s where the longest stall is too short. [`serial`] is for -O0: slow and correct by construction, because each
//! instruction waits until all earlier ones are done. See docs/control.md.

pub mod control_words;
pub mod flow;
pub mod serial;
pub mod tune_yields;

use oriole_ir::{Function, Inst};
use oriole_isa::Control;
use oriole_support::Index;

/// The control words of a function, one for each instruction.
#[derive(Clone, Default, Debug)]
pub struct ControlWords {
    /// The control word of each instruction.
    words: Vec<Control>,
    /// For each instruction: its encoding with a zero control word; `None` if it was not encoded. See [`ControlWords::encoded`].
    encoded: Vec<Option<u128>>,
}

impl ControlWords {
    /// Returns the control words of a function before any is computed: the default one for each instruction.
    fn new(function: &Function) -> ControlWords {
        ControlWords { words: vec![Control::default(); function.insts.len()], encoded: Vec::new() }
    }

    /// Returns the control word of an instruction; the default control word if none was set.
    pub fn get(&self, inst: Inst) -> Control {
        self.words.get(inst.position()).copied().unwrap_or_default()
    }

    /// Returns the 128-bit encoding of an instruction, control word included. `None` if this crate has not encoded it, or if the encoding
    /// depends on code addresses.
    pub fn encoded(&self, inst: Inst) -> Option<u128> {
        let word = self.encoded.get(inst.position()).copied().flatten()?;
        Some(word | self.get(inst).bits())
    }

    /// Sets the control word of an instruction.
    fn set(&mut self, inst: Inst, control: Control) {
        self.words[inst.position()] = control;
    }
}
