//! Runtime functions: functions that generated code calls although the PTX source does not define them.
//!
//! Their source is PTX in `runtime/`. The driver compiles those that a module calls into that module's file as weak functions, so that
//! linked files share one copy. They follow the calling convention for arguments, results and return address, but clobber few registers
//! ([`FIRST_CLOBBERED`], [`CLOBBERED_COUNT`], [`CLOBBERED_PREDICATES`]), which makes a call cheap for the caller.

use std::sync::OnceLock;

use oriole_ptx::ast::{FunctionId, Module};

include!(concat!(env!("OUT_DIR"), "/runtime.rs"));

/// Common prefix of the names of all runtime functions.
const PREFIX: &str = "__oriole_barrier_";
/// The first general register that a runtime function clobbers; it also clobbers the return address.
pub const FIRST_CLOBBERED: u16 = 4;
/// Number of general registers clobbered, starting at [`FIRST_CLOBBERED`].
pub const CLOBBERED_COUNT: u16 = 4;
/// Number of predicate registers clobbered, starting at P0.
pub const CLOBBERED_PREDICATES: u16 = 1;

/// Returns the module with all runtime functions. Parses the module at the first call.
pub fn runtime() -> &'static Module {
    static MODULE: OnceLock<Module> = OnceLock::new();
    MODULE.get_or_init(|| {
        let checked = oriole_ptx::check(include_bytes!("../runtime/barrier.ptx"), &oriole_ptx::Options::default());
        assert!(checked.is_valid(), "runtime/barrier.ptx is not valid: {:?}", checked.diagnostics);
        checked.module
    })
}

/// Returns whether `name` is the name of a runtime function.
pub fn is_runtime(name: &str) -> bool {
    name.starts_with(PREFIX)
}

/// Returns the runtime function of this name in the module [`runtime`], if there is one.
pub fn runtime_function(name: &str) -> Option<FunctionId> {
    if !NAMES.contains(&name) {
        return None;
    }
    let module = runtime();
    module.functions.iter_enumerated().find(|(_, function)| module.name(function.name) == name).map(|(id, _)| id)
}

/// Returns the names of all runtime functions without parsing the module.
pub fn runtime_names() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied()
}

/// Returns the name of the runtime function for a kind of barrier, with or without a thread count.
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
