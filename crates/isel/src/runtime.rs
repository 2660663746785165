//! Runtime functions: functions that generated code calls although the PTX source does not define them.
//!
//! Their source is PTX: those for barriers and warp operations are in `runtime/`, and the build script cuts the slow paths of library functions off
//! (`library/`). The driver compiles those that a module calls into that module's file as weak functions, so that linked files share one
//! copy. They follow the calling convention for arguments, results and return address, but clobber few registers ([`RuntimeClobbers`]),
//! which makes a call cheap for the caller.

use std::sync::OnceLock;

use oriole_ir::{SLOW_PATH_PREFIX, WARP_OPERATION_PREFIX};
use oriole_ptx::ast::{FunctionId, Module};

use crate::convention::FIRST_REGISTER;

include!(concat!(env!("OUT_DIR"), "/runtime.rs"));

/// Common prefix of the names of the functions for barriers.
const BARRIER_PREFIX: &str = "__oriole_barrier_";

/// The registers that a runtime function clobbers, except for the return address. It uses no others.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RuntimeClobbers {
    /// The first general register.
    pub first: u16,
    /// Number of general registers, starting at `first`.
    pub count: u16,
    /// Number of predicate registers, starting at P0.
    pub predicates: u16,
    /// The first uniform register.
    pub first_uniform: u16,
    /// Number of uniform registers, starting at `first_uniform`. All functions clobber these, never those that kernels keep values in.
    pub uniform: u16,
}

impl RuntimeClobbers {
    /// Returns the registers that the runtime function of a name clobbers.
    pub fn of(name: &str) -> RuntimeClobbers {
        let (count, predicates) = match name {
            _ if !is_slow_path(name) => (4, 1),
            _ if name.ends_with("_f64") => (12, 4),
            _ => (8, 4),
        };
        let has_uniform_result = |operation: &str| operation.starts_with("redux") || operation == "elect";
        let uniform = u16::from(name.strip_prefix(WARP_OPERATION_PREFIX).is_some_and(has_uniform_result));
        let first = u16::from(FIRST_REGISTER);
        RuntimeClobbers { first, count, predicates, first_uniform: first, uniform }
    }
}

/// Returns the runtime function of this name, if there is one, and the module that contains it. Parses the module at the first call.
pub fn runtime_function(name: &str) -> Option<(&'static Module, FunctionId)> {
    static MODULES: [OnceLock<Module>; RUNTIME.len()] = [const { OnceLock::new() }; RUNTIME.len()];
    let number = RUNTIME.binary_search_by(|(known, _)| (*known).cmp(name)).ok()?;
    let module = MODULES[number].get_or_init(|| {
        let checked = oriole_ptx::check(RUNTIME[number].1.as_bytes(), &oriole_ptx::Options::default());
        assert!(checked.is_valid(), "the runtime function {name} is not valid: {:?}", checked.diagnostics);
        checked.module
    });
    module.functions.iter_enumerated().find(|(_, function)| module.name(function.name) == name).map(|(id, _)| (module, id))
}

/// Returns whether `name` is the name of a runtime function.
pub fn is_runtime(name: &str) -> bool {
    name.starts_with(BARRIER_PREFIX) || name.starts_with(WARP_OPERATION_PREFIX) || is_slow_path(name)
}

/// Returns whether `name` is the name of a runtime function for the slow path of an operation.
pub fn is_slow_path(name: &str) -> bool {
    name.starts_with(SLOW_PATH_PREFIX)
}

/// The runtime function for the slow path of a library function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SlowPath {
    /// The name of the runtime function.
    pub name: &'static str,
    /// The number of its PTX instructions.
    pub size: usize,
}

impl SlowPath {
    /// Returns the slow path of a library function, given by name without the prefix `__oriole_`; `None` if it has none.
    pub fn find(name: &str) -> Option<SlowPath> {
        let full_name = format!("{SLOW_PATH_PREFIX}{name}");
        let number = RUNTIME.binary_search_by(|(known, _)| (*known).cmp(&full_name)).ok()?;
        let (name, text) = RUNTIME[number];
        let size = text.lines().filter(|line| line.ends_with(';') && !line.starts_with('.')).count();
        Some(SlowPath { name, size })
    }

    /// Returns whether calls of the function take fewer instructions than copies of the slow path, for a number of uses.
    pub fn is_worth_calling(self, uses: usize) -> bool {
        /// Estimated number of instructions for one call: moves of arguments and result, and of values out of the function's registers.
        const CALL: usize = 24;
        /// Estimated number of instructions that only the function needs.
        const FRAME: usize = 20;
        uses.saturating_sub(1) * self.size > uses * CALL + FRAME
    }
}

/// Returns the name of the runtime function for a kind of barrier, with or without a thread count.
pub(crate) fn barrier_name(kind: &str, has_count: bool) -> String {
    format!("{BARRIER_PREFIX}{kind}{}", if has_count { "_count" } else { "" })
}

#[cfg(test)]
mod tests {
    use super::{RUNTIME, SlowPath, is_runtime, is_slow_path, runtime_function};

    #[test]
    fn every_function_is_valid_and_found_by_its_name() {
        assert!(RUNTIME.is_sorted_by_key(|(name, _)| *name));
        for (name, text) in RUNTIME {
            assert!(is_runtime(name), "{name}");
            let (module, id) = runtime_function(name).unwrap_or_else(|| panic!("{name} is not found"));
            assert_eq!(module.name(module.functions[id].name), *name);
            assert_eq!(module.functions.iter().count(), 1, "{text}");
        }
        assert!(runtime_function("__oriole_barrier_nothing").is_none());
    }

    #[test]
    fn operations_with_a_slow_path_have_a_function_for_it() {
        assert_eq!(SlowPath::find("div_rn_f64").map(|path| path.name), Some("__oriole_slow_div_rn_f64"));
        assert_eq!(SlowPath::find("div_full_f32"), None);
        // Four rounding modes: division and reciprocal of f32 with and without flushing, division, reciprocal and root of f64; rsqrt.
        assert_eq!(RUNTIME.iter().filter(|(name, _)| is_slow_path(name)).count(), 29);
    }

    #[test]
    fn short_slow_paths_are_copied_and_long_ones_called() {
        let is_called = |name: &str, uses: usize| SlowPath::find(name).is_some_and(|path| path.is_worth_calling(uses));
        assert!(!is_called("div_rn_f64", 1) && is_called("div_rn_f64", 2));
        assert!(!is_called("rcp_rn_f32", 2) && is_called("rcp_rn_f32", 4));
        assert!(!is_called("rsqrt_approx_f64", 100));
    }

    /// A slow path starts with nothing but its parameters: no register that the fast path assigned.
    #[test]
    fn a_slow_path_reads_only_what_it_wrote() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        for (name, text) in RUNTIME.iter().filter(|(name, _)| is_slow_path(name)) {
            let head = text.lines().find(|line| line.starts_with(".weak")).unwrap();
            let parameters = &head[head.rfind('(').unwrap()..];
            let declared = text.lines().filter(|line| line.starts_with(".reg"));
            let declared: Vec<&str> =
                declared.flat_map(|line| line.split(|c| !is_word(c)).filter(|word| !word.is_empty()).skip(2)).collect();
            let mut known: Vec<&str> = parameters.split(|c| !is_word(c)).collect();
            for line in
                text.lines().skip_while(|line| !line.starts_with('{')).filter(|line| line.ends_with(';') && !line.starts_with(".reg"))
            {
                // The word with a dot is the opcode.
                let words = line.split_whitespace().filter(|word| !word.contains('.')).flat_map(|word| word.split(|c| !is_word(c)));
                let words: Vec<&str> = words.filter(|word| declared.contains(word)).collect();
                let (guards, rest) = words.split_at(usize::from(line.starts_with('@')));
                // `mov.b64 {low, high}, x` writes two registers.
                let results = if line.contains(" {") && line.find('{') < line.find(',') { 2 } else { 1 }.min(rest.len());
                let results = if line.contains("bra ") { 0 } else { results };
                for read in guards.iter().chain(&rest[results..]) {
                    assert!(known.contains(read), "{name} reads {read} in `{line}`");
                }
                known.extend(&rest[..results]);
            }
        }
    }
}
