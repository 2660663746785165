//! What instruction selection remembers from one function to the next. It makes selection faster and does not change its result.

use oriole_ir::{Target, TemplateCache};
use rustc_hash::FxHashMap;

use crate::recording::RecordingState;

/// Answers that were computed for earlier functions of one target.
pub struct SelectCaches {
    pub(crate) target: Target,
    /// Parsed templates of machine instructions.
    pub(crate) templates: TemplateCache,
    /// Whether the target has an encoding, by the text of the instruction. Handlers ask about a small, fixed set of instructions.
    encodings: FxHashMap<String, bool>,
    /// What is known about each library function that was used, by its number in the library.
    recordings: FxHashMap<usize, RecordingState>,
}

impl SelectCaches {
    /// Returns empty caches for a target.
    pub fn new(target: Target) -> SelectCaches {
        SelectCaches { target, templates: TemplateCache::default(), encodings: FxHashMap::default(), recordings: FxHashMap::default() }
    }

    /// Returns whether the target has an encoding for an instruction, given in the syntax of nvdisasm.
    pub(crate) fn encodes(&mut self, text: &str) -> bool {
        if let Some(&known) = self.encodings.get(text) {
            return known;
        }
        let answer = oriole_isa::parse(text).is_ok_and(|instruction| oriole_isa::encode(&instruction, self.target).is_ok());
        self.encodings.insert(text.to_owned(), answer);
        answer
    }

    /// Returns how a library function, given by its number in the library, has been used so far, with its code if that was recorded.
    pub(crate) fn recording(&self, number: usize) -> RecordingState {
        self.recordings.get(&number).cloned().unwrap_or(RecordingState::Nothing)
    }

    /// Notes the use of a library function, or its recorded code.
    pub(crate) fn set_recording(&mut self, number: usize, state: RecordingState) {
        self.recordings.insert(number, state);
    }
}
