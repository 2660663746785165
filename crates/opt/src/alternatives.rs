//! Forms of an instruction that a pass considered and rejected, and why.
//!
//! Recorded for `oriole explain` on request only; otherwise [`Alternatives::reject`] does nothing and formats nothing.

use oriole_ir::{Function, Inst};

/// A form of an instruction that a pass considered and rejected.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RejectedAlternative {
    /// Name of the pass in the pass table.
    pub pass: &'static str,
    /// The instruction whose form was rejected.
    pub inst: Inst,
    /// The rejected form, such as `FFMA`.
    pub form: String,
    /// Why it was rejected; completes the sentence "not FFMA, because ...".
    pub reason: String,
}

/// The rejected forms of the instructions of one function; none are recorded unless requested.
#[derive(Clone, Default, Debug)]
pub struct Alternatives {
    /// The rejected forms in the order of rejection; `None` if they were not requested.
    list: Option<Vec<RejectedAlternative>>,
}

impl Alternatives {
    /// Returns an empty list that records rejected forms.
    pub fn recording() -> Alternatives {
        Alternatives { list: Some(Vec::new()) }
    }

    /// Returns whether rejected forms are to be recorded.
    pub fn is_recording(&self) -> bool {
        self.list.is_some()
    }

    /// Records that a pass rejected a form of an instruction. `describe` returns the form and the reason.
    pub fn reject(&mut self, pass: &'static str, inst: Inst, describe: impl FnOnce() -> (String, String)) {
        if let Some(list) = &mut self.list {
            let (form, reason) = describe();
            list.push(RejectedAlternative { pass, inst, form, reason });
        }
    }

    /// Returns the rejected forms in the order in which they were rejected.
    pub fn list(&self) -> &[RejectedAlternative] {
        self.list.as_deref().unwrap_or_default()
    }
}

/// Returns the mnemonic of an instruction with its modifiers.
pub(crate) fn mnemonic_with_modifiers(function: &Function, inst: Inst) -> String {
    let data = &function.insts[inst];
    data.modifiers.iter().fold(data.op.mnemonic().to_owned(), |text, modifier| text + modifier.spelling())
}
