//! Reduces failing programs.
//!
//! [`reduce`] works on the generator's tree, where every step gives a defined program: it removes statements in runs of decreasing
//! length (delta debugging, after Zeller and Hildebrandt's ddmin), replaces constructs by their contents and operands by constants, and
//! makes the launch small. [`lines()`](lines::reduce_lines) continues on the text and keeps only what the checker accepts. There the
//! predicate must reject programs with undefined behaviour.

pub(crate) mod edits;
pub mod lines;

use oriole_kernel_test::{KernelTest, Source};

use crate::print;
use crate::program::Program;

/// A module and how to run it.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    pub test: KernelTest,
    pub text: String,
}

impl Case {
    pub fn of(program: &Program) -> Case {
        Case { test: program.test(), text: print::module(program) }
    }
}

/// Returns a program that still fails and that cannot be reduced further, or the best program after `tries` attempts.
pub fn reduce(program: &Program, tries: usize, fails: &mut dyn FnMut(&Case) -> bool) -> Program {
    let mut reducer = Reducer { best: program.clone(), tries, fails };
    loop {
        let before = reducer.best.clone();
        reducer.shrink_launch();
        reducer.remove_in_runs(edits::count_statements, edits::keep_statements);
        reducer.remove_in_runs(edits::count_finish, edits::keep_finish);
        for edit in [edits::unwrap_construct, edits::simplify_construct, edits::drop_guard, edits::zero_init, edits::constant_operand] {
            reducer.one_by_one(edit);
        }
        if reducer.best == before || reducer.tries == 0 {
            return reducer.best;
        }
    }
}

/// State of the reducer.
struct Reducer<'a> {
    best: Program,
    tries: usize,
    fails: &'a mut dyn FnMut(&Case) -> bool,
}

impl Reducer<'_> {
    /// Tries a candidate; keeps it if it still fails.
    fn accepts(&mut self, candidate: Program) -> bool {
        if self.tries == 0 || candidate == self.best {
            return false;
        }
        self.tries -= 1;
        let fails = (self.fails)(&Case::of(&candidate));
        if fails {
            self.best = candidate;
        }
        fails
    }

    /// Tries smaller launches and simpler data.
    fn shrink_launch(&mut self) {
        let candidate = Program { grid: [self.best.cluster, 1, 1], ..self.best.clone() };
        self.accepts(candidate);
        let threads = self.best.block_threads();
        // Shuffles of full warps are defined only if warps stay full.
        let blocks: &[u32] = if threads.is_multiple_of(32) { &[32, 64] } else { &[1, 2, 5, 33] };
        for &size in blocks.iter().filter(|&&size| size < threads) {
            let candidate = Program { block: [size, 1, 1], ..self.best.clone() };
            if self.accepts(candidate) {
                break;
            }
        }
        for fill in [Source::Value(0), Source::Value(1), Source::Index] {
            let candidate = Program { fill, ..self.best.clone() };
            if self.best.fill == fill || self.accepts(candidate) {
                break;
            }
        }
        let candidate = Program {
            scalars: [0, 1],
            structure: vec![0; self.best.structure.len()],
            constants: vec![0; self.best.constants.len()],
            ..self.best.clone()
        };
        self.accepts(candidate);
        self.shrink_variables();
    }

    /// Shrinks the variables of optional features, as far as statements do not use them.
    fn shrink_variables(&mut self) {
        let candidate = Program { unused_globals: false, ..self.best.clone() };
        self.accepts(candidate);
        let candidate = Program { large_constant: vec![0; self.best.large_constant.len()], ..self.best.clone() };
        self.accepts(candidate);
        let mut candidate = self.best.clone();
        edits::small_frames(&mut candidate);
        self.accepts(candidate);
        if self.best.structure.len() > 32 && !format!("{:?}", self.best.kernel.body).contains("structure") {
            let candidate = Program { structure: self.best.structure[..32].to_vec(), ..self.best.clone() };
            self.accepts(candidate);
        }
    }

    /// Removes runs of numbered items, long runs first.
    fn remove_in_runs(&mut self, count: fn(&Program) -> usize, keep: fn(&mut Program, &dyn Fn(usize) -> bool)) {
        let mut run = count(&self.best).next_power_of_two();
        while run > 0 {
            let mut start = 0;
            while start < count(&self.best) {
                let mut candidate = self.best.clone();
                keep(&mut candidate, &|number| !(start..start + run).contains(&number));
                if !self.accepts(candidate) {
                    start += run;
                }
            }
            run /= 2;
        }
    }

    /// Tries an edit at every place.
    fn one_by_one(&mut self, edit: fn(&mut Program, usize) -> bool) {
        let mut number = 0;
        loop {
            let mut candidate = self.best.clone();
            if !edit(&mut candidate, number) {
                return;
            }
            if !self.accepts(candidate) {
                number += 1;
            }
            if self.tries == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::generate;

    fn is_valid(case: &Case) -> bool {
        oriole_ptx::check(case.text.as_bytes(), &oriole_ptx::Options::default()).is_valid()
    }

    fn instructions(text: &str) -> usize {
        text.lines().filter(|line| line.ends_with(';') && !line.trim_start().starts_with('.')).count()
    }

    /// Reduces with a predicate on the text, and checks that every candidate is valid.
    fn shrink(seed: u64, wanted: &dyn Fn(&str) -> bool) -> Option<(Program, String)> {
        let program = generate(seed, Some(150));
        wanted(&Case::of(&program).text).then(|| {
            let reduced = reduce(&program, 5000, &mut |case| {
                assert!(is_valid(case), "seed {seed} leaves the language:\n{}", case.text);
                wanted(&case.text)
            });
            let text = Case::of(&reduced).text;
            (reduced, text)
        })
    }

    #[test]
    fn a_shuffle_and_a_division_remain() {
        let wanted = |text: &str| text.contains("shfl.sync") && text.contains("div.");
        let mut reduced = 0;
        for seed in 0..40 {
            let Some((program, text)) = shrink(seed, &wanted) else { continue };
            assert!(wanted(&text));
            // Both instructions, and possibly the branch that computes the shuffle's mask and a call of the function with the division.
            assert!(edits::count_statements(&program) <= 4, "seed {seed}:\n{text}");
            assert!(program.grid == [program.cluster, 1, 1], "seed {seed}");
            reduced += 1;
            if reduced == 5 {
                return;
            }
        }
        panic!("only {reduced} programs have both");
    }

    #[test]
    fn control_flow_is_unwrapped() {
        let wanted = |text: &str| text.contains("brx.idx") && text.contains("fma.rn");
        let mut reduced = 0;
        for seed in 0..40 {
            let Some((program, text)) = shrink(seed, &wanted) else { continue };
            // Each instruction may be in a function that another function calls.
            assert!(edits::count_statements(&program) <= 6, "seed {seed}:\n{text}");
            reduced += 1;
            if reduced == 2 {
                return;
            }
        }
        panic!("only {reduced} programs have both");
    }

    #[test]
    fn calls_remain_with_the_function() {
        let wanted = |text: &str| text.contains("    call ");
        let (_, text) = (0..40).find_map(|seed| shrink(seed, &wanted)).expect("a program with a call");
        assert!(text.contains(".func "));
        assert!(instructions(&text) < 80, "{text}");
    }

    #[test]
    fn lines_go_further() {
        let wanted = |text: &str| text.contains("setp.") && text.contains("mad.lo");
        let text = Case::of(&generate(3, Some(40))).text;
        let reduced = lines::reduce_lines(&text, 3000, &mut |text| wanted(text));
        assert!(wanted(&reduced));
        assert!(instructions(&reduced) <= 4, "{reduced}");
    }
}
