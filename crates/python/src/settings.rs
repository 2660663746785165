//! The options of a compilation, as Python passes them.

use oriole::Compiler;
use pyo3::prelude::*;

use crate::Problem;

/// The options of a compilation. Numbers are checked by [`Settings::compiler`], so that a number out of range is a `ValueError`.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub struct Settings {
    arch: Option<String>,
    opt_level: i64,
    fmad: bool,
    maxrregcount: Option<i64>,
    relocatable: bool,
    lineinfo: bool,
    device_debug: bool,
    entries: Vec<String>,
    verify: bool,
}

impl Settings {
    /// Returns the compiler with these settings, for an input with this name.
    pub fn compiler(&self, name: &str) -> Result<Compiler, Problem> {
        let level = u8::try_from(self.opt_level).ok().filter(|&level| level <= 3);
        let level = level.ok_or_else(|| Problem::Value(format!("opt_level must be 0, 1, 2 or 3, not {}", self.opt_level)))?;
        let mut compiler = Compiler::new().source_name(name).opt_level(level).fmad(self.fmad).relocatable(self.relocatable);
        compiler = compiler.self_check(self.verify);
        if let Some(arch) = &self.arch {
            compiler = compiler.arch(arch).map_err(Problem::from)?;
        }
        if let Some(count) = self.maxrregcount {
            let wrong = || Problem::Value(format!("maxrregcount must be a positive number, not {count}"));
            compiler = compiler.max_registers(u32::try_from(count).ok().filter(|&count| count > 0).ok_or_else(wrong)?);
        }
        // `device_debug` includes line tables.
        if self.device_debug {
            compiler = compiler.device_debug(true);
        } else if self.lineinfo {
            compiler = compiler.line_info(true);
        }
        Ok(self.entries.iter().fold(compiler, |compiler, entry| compiler.entry(entry)))
    }
}
