//! Numeric scheduling parameters ("knobs") that users can set by name, in a file or on the command line.
//!
//! An options file has one line `name = value` per parameter that differs from its default; `#` starts a comment. `oriole compile
//! --sched-options FILE` reads such a file, `--sched-option NAME=VALUE` sets one parameter, and `--sched-options help` prints a file with
//! all parameters.

use std::fmt::Write as _;

/// A type of parameter values, which can be converted to text and back.
trait KnobValue: Sized {
    /// Parses the text form; `None` if the text is not a valid value.
    fn parse(text: &str) -> Option<Self>;
    /// Returns the text form, which [`KnobValue::parse`] accepts.
    fn to_text(&self) -> String;
}

macro_rules! plain_values {
    ($($type:ty),*) => {
        $(impl KnobValue for $type {
            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn to_text(&self) -> String {
                self.to_string()
            }
        })*
    };
}

plain_values!(u32, i32, usize);

impl KnobValue for f64 {
    fn parse(text: &str) -> Option<f64> {
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }

    fn to_text(&self) -> String {
        format!("{self:?}")
    }
}

/// The value of an optional parameter. `None` has the text form `auto`: the scheduler computes the value.
impl<T: KnobValue> KnobValue for Option<T> {
    fn parse(text: &str) -> Option<Option<T>> {
        if text == "auto" { Some(None) } else { T::parse(text).map(Some) }
    }

    fn to_text(&self) -> String {
        self.as_ref().map_or_else(|| "auto".to_owned(), KnobValue::to_text)
    }
}

macro_rules! knobs {
    ($($name:literal $field:ident: $type:ty = $default:expr, $text:literal;)*) => {
        /// The values of all scheduling parameters that users can set.
        #[derive(Clone, Copy, PartialEq, Debug)]
        pub struct Knobs {
            $(#[doc = $text] pub $field: $type,)*
        }

        impl Default for Knobs {
            fn default() -> Knobs {
                Knobs { $($field: $default,)* }
            }
        }

        impl Knobs {
            /// Name and description of each parameter.
            pub const NAMES_AND_DESCRIPTIONS: &'static [(&'static str, &'static str)] = &[$(($name, $text)),*];

            /// Sets a parameter by name. Returns an error message if the name is unknown or the value does not parse.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
                match name {
                    $($name => self.$field = KnobValue::parse(value).ok_or_else(|| format!("`{value}` is no value of {name}"))?,)*
                    _ => return Err(format!("there is no scheduling option `{name}`")),
                }
                Ok(())
            }

            /// Returns the value of a parameter as text; `None` if the name is unknown.
            pub fn get(&self, name: &str) -> Option<String> {
                match name {
                    $($name => Some(self.$field.to_text()),)*
                    _ => None,
                }
            }
        }
    };
}

knobs! {
    "auto-budget" auto_budget: usize = 10_000, "auto: maximum number of instructions scheduled in all trials of a function together; the first trial is not counted.";
    "post-schedule" post_schedule: Option<u32> = None, "all: whether the scheduler runs again after register allocation (phase 110): 1 yes, 0 no; auto: yes; by-target: only on targets for which the published description has it.";
    "register-target" register_target: Option<i32> = None, "all: general registers that may be live; auto: as many as cost no resident warps.";
    "register-gaps" register_gaps: i32 = 0, "all: registers that allocation may need beyond those that are live, because tuples leave gaps.";
    // This knob changes no order yet: it sets bit 1 of the priority for all candidates of a step equally. Strategies of the published
    // description that select candidates by bit 1 are not implemented.
    "queue-depth" queue_depth: usize = 4, "A: no effect yet. Ready readers of in-flight results from which on the critical bit is set (knob 770).";
    "tighten-by" tighten_by: Option<i32> = None, "A: registers by which reduce-reg reduces the register budget; auto: an eighth of the budget plus three.";
    "scarce-by" scarce_by: Option<i32> = None, "A: registers count as scarce when at most this many of the budget are free (knob 760); auto: a sixteenth of the budget.";
    "hot-cold-budget" hot_cold_budget: u32 = 64, "A: number of near memory accesses of a region after which their distance is ignored.";
    "batch" batch: u32 = 16, "A, C: matrix products that dyn-batch keeps together.";
    "pressure-weight" pressure_weight: f64 = 1.8, "B: weight of registers; the weight of parallelism is the absolute value of one minus it.";
    "forward-weight" forward_weight: f64 = 3.2, "B: what the forward order counts in the backward pass; waiting counts one minus it.";
    "tree-alternatives" tree_alternatives: usize = 8, "C: orders that are tried for a region, at most.";
    "tree-work" tree_work: usize = 24_000, "C: instructions that may be placed for a region, all alternatives together; one is always tried.";
    "tree-rejections" tree_rejections: usize = 8, "C: candidates of a step that may be rejected before the least bad one is taken.";
    "tree-register-cycles" tree_register_cycles: f64 = 16.0, "C: cycles that a register is worth where registers are scarce.";
    "tree-conflict-cycles" tree_conflict_cycles: f64 = 0.125, "C: cycles that a bank conflict is worth beyond those that its warp waits: other warps wait too.";
    "tree-reuse-slack" tree_reuse_slack: i32 = 2, "C: cycles of priority that are given up for an operand in the reuse cache.";
    "search-steps" search_steps: usize = 400_000, "permutation, backtracking, combined: steps of all searches of a function together.";
    "search-milliseconds" search_milliseconds: Option<u32> = None, "permutation, backtracking, combined: time of all searches of a function, as --sched-budget; auto: no limit.";
    "permutation-size" permutation_size: usize = 24, "permutation: items of the largest region that is searched, 32 at most.";
    "permutation-steps" permutation_steps: usize = 20_000, "permutation: partial orders that are looked at for a region.";
    "backtrack-stall" backtrack_stall: u32 = 3, "backtracking: stall cycles above which decisions are taken back.";
    "backtrack-depth" backtrack_depth: usize = 8, "backtracking: decisions that may be taken back at once.";
    "backtrack-tries" backtrack_tries: usize = 256, "backtracking: other decisions that are tried in a region.";
    "depth-stall" depth_stall: u32 = 6, "depth-first: stall cycles for which a chain is not left.";
    "loop-rounds" loop_rounds: usize = 4, "loop-aware: number of times that a loop body is scheduled, each time after the instructions that the previous order leaves in flight.";
    "tensor-spacing" tensor_spacing: u32 = 2, "tensor: matrix products between two loads that are ready.";
    "scoreboard-limit" scoreboard_limit: Option<usize> = None, "scoreboard: results in flight above which no further one is started; auto: the scoreboards of the machine.";
    "pairing-window" pairing_window: usize = 16, "pairing: instructions among which a partner is looked for.";
    "global-registers" global_registers: usize = 16, "global: registers of results that may move to the end of one block.";
    "global-loads" global_loads: usize = 8, "global: loads that may move out of one block.";
    "pipeline-registers" pipeline_registers: usize = 16, "software-pipelining: registers that the loads of the next iteration may take.";
    "pipeline-gain" pipeline_gain: u32 = 12, "software-pipelining: cycles of an iteration that must be saved.";
    "pipeline-address" pipeline_address: usize = 12, "software-pipelining, prefetch: maximum number of instructions that compute the addresses of the next iteration.";
    "prefetch-distance" prefetch_distance: u32 = 4, "prefetch: iterations ahead, at most.";
    "prefetch-lines" prefetch_lines: usize = 4, "prefetch: lines that an iteration prefetches, at most.";
    "tree-solutions" tree_solutions: usize = 4_096, "C: solutions that are kept for regions that look alike.";
}

impl Knobs {
    /// Sets the parameters that the text of an options file lists and keeps all others. An error message names the line.
    pub fn read(&mut self, text: &str) -> Result<(), String> {
        for (number, line) in text.lines().enumerate() {
            let line = line.split('#').next().unwrap_or_default().trim();
            if line.is_empty() {
                continue;
            }
            let at = |what: String| format!("line {}: {what}", number + 1);
            let (name, value) = line.split_once('=').ok_or_else(|| at("expected `name = value`".to_owned()))?;
            self.set(name.trim(), value.trim()).map_err(at)?;
        }
        Ok(())
    }

    /// Returns the text of an options file with all parameters, each preceded by its description as a comment.
    pub fn write(&self) -> String {
        let mut text = String::new();
        for (name, what) in Knobs::NAMES_AND_DESCRIPTIONS {
            let value = self.get(name).unwrap_or_default();
            writeln!(text, "# {what}\n{name} = {value}").unwrap_or_default();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_file_round_trips() {
        let mut knobs = Knobs { queue_depth: 7, scarce_by: Some(3), ..Knobs::default() };
        let text = knobs.write();
        assert!(text.contains("queue-depth = 7") && text.contains("tighten-by = auto"), "{text}");
        let mut read = Knobs::default();
        assert_eq!(read.read(&text), Ok(()));
        assert_eq!(read, knobs);
        knobs.set("queue-depth", "4").unwrap();
        assert_ne!(read, knobs);
    }

    #[test]
    fn errors_name_the_line() {
        let mut knobs = Knobs::default();
        assert_eq!(knobs.read("# nothing\n\nbatch = 3 # three\n"), Ok(()));
        assert_eq!(knobs.batch, 3);
        assert_eq!(knobs.read("batch = 3\nbath = 4"), Err("line 2: there is no scheduling option `bath`".to_owned()));
        assert_eq!(knobs.read("batch = many"), Err("line 1: `many` is no value of batch".to_owned()));
        assert_eq!(knobs.read("batch"), Err("line 1: expected `name = value`".to_owned()));
    }
}
