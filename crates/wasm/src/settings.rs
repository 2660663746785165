//! The settings of a call.

use std::sync::Arc;

use oriole_cubin::FileTraits;
use oriole_driver::{DebugInfo, DebugKind, Options};
use oriole_isa::Target;
use serde::Deserialize;

/// The format of an explanation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    Text,
    Summary,
    #[default]
    Html,
    Json,
}

/// What a caller may choose. Settings that a function does not use have no effect on it.
#[derive(Clone, Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Name of the input in messages.
    pub name: String,
    /// The GPU; without it, the module's own target.
    pub arch: Option<String>,
    /// Optimization level, 0 to 3.
    pub opt_level: u8,
    /// Whether products and sums of floating-point numbers may be contracted.
    pub fmad: bool,
    /// Maximum number of registers of a thread.
    pub maxrregcount: Option<u32>,
    /// Whether the cubin gets line tables.
    pub lineinfo: bool,
    /// Whether a listing has control words.
    pub control: bool,
    /// Format of an explanation.
    pub format: Format,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            name: "input.ptx".to_owned(),
            arch: None,
            opt_level: 3,
            fmad: true,
            maxrregcount: None,
            lineinfo: false,
            control: false,
            format: Format::default(),
        }
    }
}

impl Settings {
    /// Reads settings from JSON; an empty text stands for the defaults. The error is a message for the caller.
    pub fn parse(json: &[u8]) -> Result<Settings, String> {
        if json.is_empty() {
            return Ok(Settings::default());
        }
        serde_json::from_slice(json).map_err(|error| format!("the settings cannot be read: {error}"))
    }

    /// Returns the options of the compiler for a module with this text and this target of its own.
    pub(crate) fn options(&self, ptx: &[u8], own: impl ToString) -> Result<Options, String> {
        let wanted = self.arch.clone().unwrap_or_else(|| own.to_string());
        let target = Target::parse(&wanted).filter(|&target| FileTraits::all().any(|traits| traits.target == target));
        let target = target.ok_or_else(|| format!("{wanted} is not a target that Oriole compiles for"))?;
        if self.opt_level > 3 {
            return Err(format!("the optimization level must be 0, 1, 2 or 3, not {}", self.opt_level));
        }
        if self.maxrregcount == Some(0) {
            return Err("the maximum number of registers must be positive".to_owned());
        }
        let debug = self.lineinfo.then(|| DebugInfo { kind: DebugKind::Lines, texts: vec![Arc::from(ptx)] });
        Ok(Options { level: self.opt_level, contract: self.fmad, max_registers: self.maxrregcount, debug, ..Options::new(target) })
    }
}
