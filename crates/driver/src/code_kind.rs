//! Chooses scheduling strategies for a function by its loops, its blocks, its instruction mix and the optimization level (`--sched-strategy
//! auto`).
//!
//! The choice names the strategies that may be better than the default for this kind of code, the most likely one last. Each of them is
//! compiled through register allocation and phase 110, and the best [`score`](oriole_sched::score) wins; if scores are equal, the earlier
//! strategy wins. So a poor choice costs compile time, but never a worse estimated result.
//!
//! | code | strategies |
//! |---|---|
//! | -O0 and -O1 (if a scheduling mode is given); more than [`MAX_INSTRUCTIONS_TO_TRY_STRATEGIES`] instructions | the default |
//! | every other function | the default, `c`, `critical-path`, `combined` |
//! | with several blocks | also `global` |
//! | with a loop of one block | also `software-pipelining`, `loop-aware` |
//! | with matrix products | also `tensor` |
//!
//! At -O2 only the default and the last of the list are tried.

use oriole_hardware::Classes;
use oriole_hardware::units::Unit;
use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Function, Op};
use oriole_sched::backend::Backend;

/// The default backend of code without warp-group matrix products: the one whose code was fastest in measurements on a GPU
/// (docs/scheduling.md).
pub(crate) const DEFAULT_BACKEND: Backend = Backend::B;

/// Maximum number of instructions of a function for which scheduling strategies other than the default are tried.
const MAX_INSTRUCTIONS_TO_TRY_STRATEGIES: usize = 4_000;

/// Properties of a function that decide which scheduling strategies may suit it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CodeKind {
    /// Number of instructions of the function.
    instructions: usize,
    /// Number of basic blocks of the function.
    blocks: usize,
    /// Number of matrix-multiply instructions (matrix products).
    products: usize,
    /// Number of asynchronous matrix products of a warpgroup, which are also counted in `products`.
    warpgroup_products: usize,
    /// Number of loops of one block: blocks that are their own successors.
    one_block_loops: usize,
}

impl CodeKind {
    /// Determines the properties of a function.
    pub fn of_function(function: &Function) -> CodeKind {
        let flow = ControlFlow::compute(function);
        let mut kind = CodeKind { instructions: 0, blocks: function.layout.len(), products: 0, warpgroup_products: 0, one_block_loops: 0 };
        for &block in &function.layout {
            kind.one_block_loops += usize::from(flow.successors(block).contains(&block));
            for &inst in &function.blocks[block].insts {
                kind.instructions += 1;
                let data = &function.insts[inst];
                if let Op::Machine(opcode) = data.op {
                    let unit = Classes::get().of(opcode, &data.modifiers).unit();
                    kind.products += usize::from(unit == Unit::Tensor);
                    kind.warpgroup_products += usize::from(opcode.is_warpgroup_product());
                }
            }
        }
        kind
    }

    /// Returns the scheduling strategy that is used unless the options name one: the one that was fastest in measurements for this kind of
    /// code (docs/scheduling-strategies.md).
    pub fn default_strategy(self, level: u8) -> Backend {
        let is_searched = level >= 2 && self.instructions <= MAX_INSTRUCTIONS_TO_TRY_STRATEGIES;
        if self.warpgroup_products > 0 && is_searched { Backend::COMBINED } else { DEFAULT_BACKEND }
    }

    /// Returns the scheduling strategies to try at an optimization level, the default first.
    pub fn strategies(self, level: u8) -> Vec<Backend> {
        let mut found = vec![DEFAULT_BACKEND];
        if level < 2 || self.instructions > MAX_INSTRUCTIONS_TO_TRY_STRATEGIES {
            return found;
        }
        found.extend([Backend::C, Backend::CRITICAL_PATH, Backend::COMBINED]);
        if self.blocks > 1 {
            found.push(Backend::GLOBAL);
        }
        if self.one_block_loops > 0 {
            found.extend([Backend::SOFTWARE_PIPELINING, Backend::LOOP_AWARE]);
        }
        if self.products > 0 {
            found.push(Backend::TENSOR);
        }
        if level == 2
            && let Some(last) = found.pop()
        {
            found.truncate(1);
            found.push(last);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the scheduling strategies to try for a function, which is given in the text form of the IR.
    fn names(text: &str, level: u8) -> Vec<&'static str> {
        let function = oriole_ir::text::parse(text).expect("a function").remove(0);
        CodeKind::of_function(&function).strategies(level).into_iter().map(Backend::name).collect()
    }

    const STRAIGHT_LINE_FUNCTION: &str = "func kernel @f {\nbb0:\n    R0 = FADD R1, R2\n    EXIT\n}";
    const LOOP_FUNCTION: &str = "func kernel @f {\nbb0:\n    R0 = FADD R0, R2\n    @P0 BRA bb0\n    BRA bb1\nbb1:\n    EXIT\n}";
    const MATRIX_PRODUCT_FUNCTION: &str = "func kernel @f {\nbb0:\n    R4:R7 = HMMA.16816.F32 R20:R23, R24:R25, R4:R7\n    EXIT\n}";

    #[test]
    fn strategies_depend_on_loops_and_matrix_products() {
        assert_eq!(names(STRAIGHT_LINE_FUNCTION, 3), ["b", "c", "critical-path", "combined"]);
        assert_eq!(names(LOOP_FUNCTION, 3), ["b", "c", "critical-path", "combined", "global", "software-pipelining", "loop-aware"]);
        assert_eq!(names(MATRIX_PRODUCT_FUNCTION, 3), ["b", "c", "critical-path", "combined", "tensor"]);
    }

    #[test]
    fn low_levels_and_large_functions_try_fewer_strategies() {
        assert_eq!(names(LOOP_FUNCTION, 1), ["b"]);
        assert_eq!(names(LOOP_FUNCTION, 2), ["b", "loop-aware"]);
        let mut large = "func kernel @f {\nbb0:\n".to_owned();
        (0..=MAX_INSTRUCTIONS_TO_TRY_STRATEGIES).for_each(|_| large.push_str("    R0 = FADD R1, R2\n"));
        assert_eq!(names(&(large + "    EXIT\n}"), 3), ["b"]);
    }
}
