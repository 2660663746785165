//! The options of a compilation, as Python passes them.

use std::sync::Arc;

use oriole_cubin::FileTraits;
use oriole_driver::{DebugInfo, DebugKind, Options};
use oriole_isa::Target;
use oriole_ptx::ast::{Function, FunctionKind, Module};
use pyo3::prelude::*;

use crate::Problem;

/// The options of a compilation. Numbers are checked by [`Settings::options`], so that a number out of range is a `ValueError`.
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
    /// Returns the options of the compiler for a module.
    pub fn options(&self, text: &[u8], module: &Module) -> Result<Options, Problem> {
        let own = module.target.to_string();
        let wanted = self.arch.as_deref().unwrap_or(&own);
        let unknown =
            || Problem::Value(format!("{wanted} is not a target that Oriole compiles for; there are {}", target_names().join(", ")));
        let target = Target::parse(wanted).ok_or_else(unknown)?;
        let level = u8::try_from(self.opt_level).ok().filter(|&level| level <= 3);
        let level = level.ok_or_else(|| Problem::Value(format!("opt_level must be 0, 1, 2 or 3, not {}", self.opt_level)))?;
        let limit = |count: i64| match u32::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(Problem::Value(format!("maxrregcount must be a positive number, not {count}"))),
        };
        self.check_entries(module)?;
        Ok(Options {
            level: if self.device_debug { 0 } else { level },
            contract: self.fmad,
            debug: self.debug_info(text),
            max_registers: self.maxrregcount.map(limit).transpose()?,
            relocatable: self.relocatable,
            entries: self.entries.clone(),
            verify: self.verify,
            ..Options::new(target)
        })
    }

    fn debug_info(&self, text: &[u8]) -> Option<DebugInfo> {
        let kind = match (self.device_debug, self.lineinfo) {
            (true, _) => DebugKind::Full,
            (false, true) => DebugKind::Lines,
            (false, false) => return None,
        };
        Some(DebugInfo { kind, texts: vec![Arc::from(text)] })
    }

    /// Checks that the module has all kernels that the settings name.
    fn check_entries(&self, module: &Module) -> Result<(), Problem> {
        let is_kernel = |function: &&Function| function.kind == FunctionKind::Entry && function.body.is_some();
        let kernels: Vec<&str> = module.functions.iter().filter(is_kernel).map(|function| module.name(function.name)).collect();
        match self.entries.iter().find(|entry| !kernels.contains(&entry.as_str())) {
            Some(missing) => Err(Problem::Value(format!("there is no kernel `{missing}`; the module has {}", kernels.join(", ")))),
            None => Ok(()),
        }
    }
}

/// Returns the names of all targets that Oriole compiles for.
pub fn target_names() -> Vec<String> {
    FileTraits::all().map(|traits| traits.target.to_string()).collect()
}
