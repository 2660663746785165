//! Estimated execution time of called functions, for the scheduling of their callers.
//!
//! A call is a scheduling barrier: no instruction moves across it. But while the callee runs, in-flight results of the caller arrive.
//! Results that are read only after the call are therefore less urgent, by the execution time of the callee in cycles. [`CallCosts`] has
//! this time for each function, including the functions that it calls.
//!
//! [`CallCosts::propagate`] sums the cycles over the call graph, depth first, in time linear in functions and calls. Example:
//!
//! ```text
//! function  own cycles  calls         total cycles
//! leaf        7         -               7
//! outer     100         leaf, leaf    114
//! kernel     10         outer, leaf   131
//! ```

use rustc_hash::FxHashMap;

/// The estimated execution times of functions, as seen by their callers.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CallCosts {
    /// For each function name, the number of cycles from a call to the return.
    cycles: FxHashMap<String, u32>,
}

/// A function of the call graph, with the functions that it calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallNode {
    /// Name of the function.
    pub name: String,
    /// Estimated cycles of the function's own code, without the functions that it calls.
    pub own_cycles: u32,
    /// Name of the called function, for each call instruction.
    pub calls: Vec<String>,
}

impl CallCosts {
    /// Creates a table without functions.
    pub fn new() -> CallCosts {
        CallCosts::default()
    }

    /// Sets the execution time of a function in cycles, including the functions that it calls.
    pub fn insert(&mut self, name: impl Into<String>, cycles: u32) {
        self.cycles.insert(name.into(), cycles);
    }

    /// Returns the estimated number of cycles until a function returns; `None` if it is unknown.
    pub fn cycles(&self, name: &str) -> Option<u32> {
        self.cycles.get(name).copied()
    }

    /// Computes the execution times of all functions, including the functions that they call.
    ///
    /// Calls of functions that are not in `functions` count 0 cycles. So do calls that close a cycle of the call graph (recursion); the
    /// totals inside such a cycle depend on which of its functions comes first in `functions`.
    pub fn propagate(functions: &[CallNode]) -> CallCosts {
        let index: FxHashMap<&str, usize> =
            functions.iter().enumerate().map(|(number, function)| (function.name.as_str(), number)).collect();
        let mut states = vec![VisitState::New; functions.len()];
        for start in 0..functions.len() {
            sum_call_graph_cycles(functions, &index, start, &mut states);
        }
        let cycles = functions.iter().zip(&states).map(|(function, state)| match state {
            VisitState::Done(cycles) => (function.name.clone(), *cycles),
            VisitState::New | VisitState::Open => (function.name.clone(), function.own_cycles),
        });
        CallCosts { cycles: cycles.collect() }
    }
}

/// State of a function in the depth-first search of the call graph.
#[derive(Clone, Copy)]
enum VisitState {
    /// The search has not reached the function yet.
    New,
    /// On the current path of the search: a call of this function closes a cycle.
    Open,
    /// The search has finished the function; the number is its total cycles.
    Done(u32),
}

/// Computes the total cycles of `start` and of all functions that it reaches.
///
/// Uses an explicit stack, because call chains may be deeper than the thread's stack allows. A stack entry holds the function, the index
/// of its next call and the cycles summed so far.
fn sum_call_graph_cycles(functions: &[CallNode], index: &FxHashMap<&str, usize>, start: usize, states: &mut [VisitState]) {
    if !matches!(states[start], VisitState::New) {
        return;
    }
    states[start] = VisitState::Open;
    let mut stack = vec![(start, 0_usize, functions[start].own_cycles)];
    while let Some((function, next, cycles)) = stack.last_mut() {
        let Some(call) = functions[*function].calls.get(*next) else {
            let (function, cycles) = (*function, *cycles);
            states[function] = VisitState::Done(cycles);
            stack.pop();
            continue;
        };
        let Some(&callee) = index.get(call.as_str()) else {
            *next += 1;
            continue;
        };
        match states[callee] {
            VisitState::Done(callee_cycles) => {
                *cycles = cycles.saturating_add(callee_cycles);
                *next += 1;
            }
            VisitState::Open => *next += 1,
            // `next` is not advanced: the same call is evaluated again when the callee is finished.
            VisitState::New => {
                states[callee] = VisitState::Open;
                stack.push((callee, 0, functions[callee].own_cycles));
            }
        }
    }
}
