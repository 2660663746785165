//! Functions that compiled code calls and no source has.
//!
//! `runtime/` has them in PTX. The driver compiles those that a file calls into that file, as weak functions, so that linked files share
//! them. They follow the calling convention for arguments, results and return address, but change few registers
//! ([`FIRST_LOST`], [`LOST`], [`LOST_PREDICATES`]), so that calling one costs its caller little.

use std::sync::OnceLock;

use oriole_ptx::ast::{FunctionId, Module};

include!(concat!(env!("OUT_DIR"), "/runtime.rs"));

/// What the name of each starts with.
const PREFIX: &str = "__oriole_barrier_";
/// The first general register that they change, the return address excepted.
pub const FIRST_LOST: u16 = 4;
/// How many general registers they change.
pub const LOST: u16 = 4;
/// How many predicates they change, from P0 on.
pub const LOST_PREDICATES: u16 = 1;

/// All of them.
pub fn runtime() -> &'static Module {
    static MODULE: OnceLock<Module> = OnceLock::new();
    MODULE.get_or_init(|| {
        let checked = oriole_ptx::check(include_bytes!("../runtime/barrier.ptx"), &oriole_ptx::Options::default());
        assert!(checked.is_valid(), "runtime/barrier.ptx is not valid: {:?}", checked.diagnostics);
        checked.module
    })
}

/// Whether a function is one of them, by name.
pub fn is_runtime(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// One of them by name.
pub fn runtime_function(name: &str) -> Option<FunctionId> {
    if !NAMES.contains(&name) {
        return None;
    }
    let module = runtime();
    module.functions.iter_enumerated().find(|(_, function)| module.name(function.name) == name).map(|(id, _)| id)
}

/// The names of all, known without reading them.
pub fn runtime_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied()
}

/// The name of the function for a kind of barrier.
pub(crate) fn barrier_name(kind: &str, has_count: bool) -> String {
    format!("{PREFIX}{kind}{}", if has_count { "_count" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::{is_runtime, runtime, runtime_function, runtime_names};

    #[test]
    fn the_names_known_beforehand_are_those_of_the_functions() {
        let module = runtime();
        let read: Vec<&str> = module.functions.iter().map(|function| module.name(function.name)).collect();
        assert_eq!(runtime_names().collect::<Vec<_>>(), read);
        assert!(read.iter().all(|name| is_runtime(name) && runtime_function(name).is_some()));
        assert!(runtime_function("__oriole_barrier_nothing").is_none());
    }
}
