//! Combines a tree of logic operations into one `LOP3`, which has a truth table of three inputs.

use oriole_ir::{Function, Inst, Op, Operand, OperandKind, Pseudo, RegFile};
use oriole_isa::{Opcode, Symbol, Symbols};
use smallvec::SmallVec;

use super::{CombineRule, Combiner, new_draft};

/// Maximum number of distinct leaves of a tree of logic operations: the root has three sources, each of which may have three sources.
const MAX_LOGIC_TREE_LEAVES: usize = 9;

/// All permutations of the three sources of a `LOP3`.
const LOP3_SOURCE_ORDERS: [[usize; 3]; 6] = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];

/// An input of the `LOP3` at the root of a tree of logic operations.
#[derive(Clone, Copy)]
enum LogicInput {
    /// A constant: all bits 0, or all bits 1.
    Constant(bool),
    /// The leaf with this index in [`LogicTreeLeaves`].
    Leaf(usize),
    /// Another logic operation: its truth table and its inputs, which are leaves.
    Inner(u8, [LeafInput; 3]),
}

/// An input of an inner `LOP3`. The tree has two levels, so the input is a leaf even if another `LOP3` computes it.
#[derive(Clone, Copy)]
enum LeafInput {
    /// A constant: all bits 0, or all bits 1.
    Constant(bool),
    /// The leaf with this index in [`LogicTreeLeaves`].
    Leaf(usize),
}

/// Returns the output of a truth table for three inputs: bit `4a + 2b + c` of the table for the inputs a, b and c.
pub(super) fn truth_table_output(table: u8, inputs: [bool; 3]) -> bool {
    let [a, b, c] = inputs.map(usize::from);
    table >> (4 * a + 2 * b + c) & 1 != 0
}

impl LeafInput {
    /// Evaluates the input for one bit of each leaf: bit `n` of `leaves` is that of leaf `n`.
    fn value(self, leaves: u32) -> bool {
        match self {
            LeafInput::Constant(bit) => bit,
            LeafInput::Leaf(number) => leaves >> number & 1 != 0,
        }
    }
}

impl LogicInput {
    /// Evaluates the input for one bit of each leaf: bit `n` of `leaves` is that of leaf `n`.
    fn value(self, leaves: u32) -> bool {
        match self {
            LogicInput::Constant(bit) => bit,
            LogicInput::Leaf(number) => leaves >> number & 1 != 0,
            LogicInput::Inner(table, inputs) => truth_table_output(table, inputs.map(|input| input.value(leaves))),
        }
    }
}

/// The distinct operands at the leaves of a tree of logic operations.
#[derive(Default)]
struct LogicTreeLeaves {
    /// The operands, without duplicates, in order of discovery.
    operands: SmallVec<[Operand; MAX_LOGIC_TREE_LEAVES]>,
}

impl LogicTreeLeaves {
    /// Returns the input for an operand: a constant, or a leaf, which is added if the operand is new.
    fn find_or_add_leaf(&mut self, operand: Operand) -> LeafInput {
        match operand.kind {
            OperandKind::Zero(RegFile::General) => return LeafInput::Constant(false),
            OperandKind::Integer(number) if number as u32 == 0 => return LeafInput::Constant(false),
            OperandKind::Integer(number) if number as u32 == u32::MAX => return LeafInput::Constant(true),
            _ => {}
        }
        let known = self.operands.iter().position(|leaf| leaf.kind == operand.kind);
        LeafInput::Leaf(known.unwrap_or_else(|| {
            self.operands.push(operand);
            self.operands.len() - 1
        }))
    }
}

/// Returns the three sources and the truth table of a `LOP3`; `None` if it has predicate operands, operand modifiers or tied operands.
fn lop3_sources_and_table(function: &Function, inst: Inst) -> Option<([Operand; 3], u8)> {
    let ([_], [a, b, c, table, predicate]) = (function.results(inst), function.sources(inst)) else { return None };
    let is_plain = |operand: &Operand| operand.signs.is_empty() && operand.suffixes().next().is_none();
    let is_simple = *predicate == Operand::PT.inverted_predicate() && [a, b, c].into_iter().all(is_plain);
    let table = u8::try_from(table.integer()?).ok()?;
    (is_simple && function.insts[inst].modifiers.as_slice() == [Symbol::LUT]).then_some(([*a, *b, *c], table))
}

impl Combiner {
    /// Replaces the root of a tree of logic operations by one `LOP3` of the leaves, if there are at most three distinct leaves. Returns the
    /// rule that was applied; `None` if nothing changed.
    pub(super) fn combine_logic(&mut self, function: &mut Function, inst: Inst) -> Option<CombineRule> {
        if function.insts[inst].guard.is_some() {
            return None;
        }
        let (sources, table) = lop3_sources_and_table(function, inst)?;
        let sources = sources.map(|source| self.resolve_copies(function, &source));
        let inner = sources.map(|source| {
            let inner = self.absorbable_inst(function, inst, &source, Opcode::LOP3, &[Symbol::LUT])?;
            Some((inner, lop3_sources_and_table(function, inner)?))
        });
        // Bit n of a subset says whether source n of the root is absorbed. Larger subsets are tried first.
        let mut subsets: SmallVec<[u32; 8]> = (0..8_u32).filter(|set| (0..3).all(|at| set >> at & 1 == 0 || inner[at].is_some())).collect();
        subsets.sort_by_key(|set| std::cmp::Reverse(set.count_ones()));
        for set in subsets {
            let mut leaves = LogicTreeLeaves::default();
            let inputs = [0, 1, 2].map(|at| match inner[at].filter(|_| set >> at & 1 != 0) {
                Some((_, (sources, table))) => {
                    LogicInput::Inner(table, sources.map(|source| leaves.find_or_add_leaf(self.resolve_copies(function, &source))))
                }
                None => match leaves.find_or_add_leaf(sources[at]) {
                    LeafInput::Constant(bit) => LogicInput::Constant(bit),
                    LeafInput::Leaf(number) => LogicInput::Leaf(number),
                },
            });
            let absorbed: SmallVec<[Inst; 3]> =
                (0..3).filter(|at| set >> at & 1 != 0).filter_map(|at| inner[at].map(|found| found.0)).collect();
            if let Some(rule) = self.replace_by_logic_function(function, inst, table, inputs, &leaves, &absorbed) {
                return Some(rule);
            }
        }
        None
    }

    /// Overwrites an instruction with the logic function `table` of `inputs`. Returns the rule that was applied. Returns `None` and changes
    /// nothing if the function needs more than three sources or cannot be encoded, or if it is not trivial and nothing is absorbed.
    fn replace_by_logic_function(
        &mut self,
        function: &mut Function,
        inst: Inst,
        table: u8,
        inputs: [LogicInput; 3],
        leaves: &LogicTreeLeaves,
        absorbed: &[Inst],
    ) -> Option<CombineRule> {
        let value = |leaves: u32| truth_table_output(table, inputs.map(|input| input.value(leaves)));
        let all = 1_u32 << leaves.operands.len();
        let is_needed = |leaf: usize| (0..all).any(|bits| value(bits) != value(bits ^ 1 << leaf));
        let mut needed: SmallVec<[usize; 3]> = (0..leaves.operands.len()).filter(|&leaf| is_needed(leaf)).collect();
        // Registers come first: an immediate is then the last of the needed sources.
        needed.sort_by_key(|&leaf| leaves.operands[leaf].part().is_none());
        let result = function.results(inst)[0];
        match needed.as_slice() {
            [] => {
                let number = if value(0) { u32::MAX } else { 0 };
                let source = if number == 0 { Operand::RZ } else { Operand::from(number) };
                let constant = new_draft(Opcode::MOV, &[], result, &[source]);
                let constant = self.first_encodable_draft(function, inst, [constant])?;
                self.replace_inst(function, inst, constant, absorbed);
                return Some(CombineRule::TrivialLogic);
            }
            [leaf] if value(1 << leaf) && leaves.operands[*leaf].part().is_some() => {
                let copied = Operand::new(leaves.operands[*leaf].kind);
                self.adjust_read_counts(function, inst, -1);
                function.insts[inst].op = Op::Pseudo(Pseudo::Copy);
                function.insts[inst].modifiers = Symbols::new();
                function.set_operands(inst, &[result, copied], 1);
                return Some(CombineRule::TrivialLogic);
            }
            [_] | [_, _] | [_, _, _] if !absorbed.is_empty() => {}
            _ => return None,
        }
        let drafts = LOP3_SOURCE_ORDERS.into_iter().map(|order| {
            // For each source, the leaf that it reads; `order[i]` is the source that reads leaf `needed[i]`.
            let mut places: [Option<usize>; 3] = [None; 3];
            for (leaf, place) in needed.iter().zip(order) {
                places[place] = Some(*leaf);
            }
            let bit = |leaf: Option<usize>, input: bool| leaf.map_or(0, |leaf| u32::from(input) << leaf);
            let table = (0..8_u8).fold(0_u8, |table, index| {
                let inputs = [index & 4 != 0, index & 2 != 0, index & 1 != 0];
                let bits = (0..3).fold(0, |bits, at| bits | bit(places[at], inputs[at]));
                table | u8::from(value(bits)) << index
            });
            let [a, b, c] = places.map(|leaf| leaf.map_or(Operand::RZ, |leaf| Operand::new(leaves.operands[leaf].kind)));
            let never = Operand::PT.inverted_predicate();
            new_draft(Opcode::LOP3, &[Symbol::LUT], result, &[a, b, c, Operand::from(u32::from(table)), never])
        });
        let found = self.first_encodable_draft(function, inst, drafts)?;
        self.replace_inst(function, inst, found, absorbed);
        Some(CombineRule::Logic)
    }
}

#[cfg(test)]
mod tests {
    use super::truth_table_output;

    /// A truth table that selects one of the three inputs returns that input.
    #[test]
    fn truth_table_of_an_input_returns_the_input() {
        for (at, table) in [0xf0, 0xcc, 0xaa].into_iter().enumerate() {
            for index in 0..8_u8 {
                let inputs = [index & 4 != 0, index & 2 != 0, index & 1 != 0];
                assert_eq!(truth_table_output(table, inputs), inputs[at]);
            }
        }
    }
}
