//! What the pass knows about the functions that the code calls.

/// Properties of the functions that the code calls.
#[derive(Clone, Copy)]
pub struct CalleeFacts<'a> {
    /// Returns whether a call of the function with this name blocks until all other threads of the warp have called it too.
    pub waits_for_whole_warp: &'a dyn Fn(&str) -> bool,
    /// Returns whether the function with this name may execute operations such as shuffles, in which threads of a warp wait for each other.
    pub has_warp_operations: &'a dyn Fn(&str) -> bool,
    /// Whether calls of functions of the compiler may be inserted, in which threads of a diverged warp meet.
    pub may_meet: bool,
}
