//! How long calls take: what is known of callees, for the score of callers.
//!
//! A call is a wall: nothing moves past it. But the time that a callee takes hides what the caller has in flight, so results that only code
//! behind the call reads need not be waited for as if that code came next. [`CallCosts`] says how many cycles pass until a callee
//! returns, callees of callees included. Where functions call each other in a circle, each is counted once on the way.

use rustc_hash::FxHashMap;

/// Cycles until functions return, by name.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct CallCosts {
    cycles: FxHashMap<String, u32>,
}

/// A function as cost propagation sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Callee {
    /// Its name.
    pub name: String,
    /// Cycles of its own code, without those of the functions that it calls.
    pub own_cycles: u32,
    /// Whom it calls, once for each call.
    pub calls: Vec<String>,
}

impl CallCosts {
    /// Nothing is known of any function.
    pub fn new() -> CallCosts {
        CallCosts::default()
    }

    /// Says how long a function takes, with everything that it calls.
    pub fn insert(&mut self, name: impl Into<String>, cycles: u32) {
        self.cycles.insert(name.into(), cycles);
    }

    /// Cycles until a function returns, if that is known.
    pub fn cycles(&self, name: &str) -> Option<u32> {
        self.cycles.get(name).copied()
    }

    /// Adds up costs along calls. What is called and not among the functions counts nothing; what a function calls on a way that leads back to
    /// it counts once.
    pub fn propagate(functions: &[Callee]) -> CallCosts {
        let index: FxHashMap<&str, usize> =
            functions.iter().enumerate().map(|(number, function)| (function.name.as_str(), number)).collect();
        let mut states = vec![State::New; functions.len()];
        for start in 0..functions.len() {
            walk(functions, &index, start, &mut states);
        }
        let cycles = functions.iter().zip(&states).map(|(function, state)| match state {
            State::Done(cycles) => (function.name.clone(), *cycles),
            State::New | State::Open => (function.name.clone(), function.own_cycles),
        });
        CallCosts { cycles: cycles.collect() }
    }
}

#[derive(Clone, Copy)]
enum State {
    New,
    /// On the current way: a call of it closes a circle.
    Open,
    Done(u32),
}

/// Works out a function after those that it calls, without recursion: chains of calls may be long.
fn walk(functions: &[Callee], index: &FxHashMap<&str, usize>, start: usize, states: &mut [State]) {
    if !matches!(states[start], State::New) {
        return;
    }
    states[start] = State::Open;
    let mut way = vec![(start, 0_usize, functions[start].own_cycles)];
    while let Some((function, next, cycles)) = way.last_mut() {
        let Some(call) = functions[*function].calls.get(*next) else {
            let (function, cycles) = (*function, *cycles);
            states[function] = State::Done(cycles);
            way.pop();
            continue;
        };
        let Some(&callee) = index.get(call.as_str()) else {
            *next += 1;
            continue;
        };
        match states[callee] {
            State::Done(callee_cycles) => {
                *cycles = cycles.saturating_add(callee_cycles);
                *next += 1;
            }
            State::Open => *next += 1,
            State::New => {
                states[callee] = State::Open;
                way.push((callee, 0, functions[callee].own_cycles));
            }
        }
    }
}
