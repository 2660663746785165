//! The settings of a call.

use oriole::Compiler;
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

    /// Returns the compiler with these settings. It uses the calling thread only, as there are no others in WebAssembly.
    pub(crate) fn compiler(&self) -> Result<Compiler, String> {
        if self.opt_level > 3 {
            return Err(format!("the optimization level must be 0, 1, 2 or 3, not {}", self.opt_level));
        }
        if self.maxrregcount == Some(0) {
            return Err("the maximum number of registers must be positive".to_owned());
        }
        let mut compiler = Compiler::new().sequential().source_name(&*self.name).opt_level(self.opt_level).fmad(self.fmad);
        compiler = compiler.line_info(self.lineinfo);
        if let Some(arch) = &self.arch {
            compiler = compiler.arch(arch).map_err(|error| error.to_string())?;
        }
        if let Some(registers) = self.maxrregcount {
            compiler = compiler.max_registers(registers);
        }
        Ok(compiler)
    }
}
