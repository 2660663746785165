//! Finds the values that are variables, with the blocks that define them and those that need them at their start.
//!
//! A value is a variable if it has several definitions, or if a path from the function's entry reaches a use without passing the
//! definition. A value with one definition that dominates its uses is in SSA form already; most values are, and the later steps of SSA
//! construction skip them.

use oriole_support::{BitSet, IndexVec};

use crate::analysis::{Dominators, Need};
use crate::function::Function;
use crate::ids::{Block, Value};

/// The variables of a function.
pub(super) struct Variables {
    /// The values that are variables.
    pub members: BitSet<Value>,
    /// The blocks that define each variable.
    pub definitions: Vec<(Value, Block)>,
    /// The blocks that read each variable before they define it.
    pub needs: Vec<(Value, Need)>,
}

/// The definitions of a value seen so far.
#[derive(Clone, Copy, PartialEq)]
enum Defined {
    Never,
    Once(Block),
    Often,
}

/// The state of a value during the scan over the blocks.
#[derive(Clone, Copy)]
struct Seen {
    defined: Defined,
    /// The last block seen that defines the value.
    last_definition: Option<Block>,
    /// The last block seen that reads the value before defining it.
    last_need: Option<Block>,
}

impl Variables {
    /// Scans all instructions. There must be no phis.
    pub fn find(function: &Function, dominators: &Dominators) -> Variables {
        let nothing = Seen { defined: Defined::Never, last_definition: None, last_need: None };
        let mut seen: IndexVec<Value, Seen> = IndexVec::filled(function.values.len(), nothing);
        let mut definitions: Vec<(Value, Block)> = Vec::new();
        let mut needs: Vec<(Value, Block)> = Vec::new();
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                for part in function.used(inst) {
                    let seen = &mut seen[part.value];
                    if seen.last_definition != Some(block) && seen.last_need != Some(block) {
                        seen.last_need = Some(block);
                        needs.push((part.value, block));
                    }
                }
                for value in function.defined(inst) {
                    let seen = &mut seen[value];
                    seen.defined = if seen.defined == Defined::Never { Defined::Once(block) } else { Defined::Often };
                    if seen.last_definition != Some(block) {
                        seen.last_definition = Some(block);
                        definitions.push((value, block));
                    }
                }
            }
        }
        let mut members = BitSet::new(function.values.len());
        for &(value, _) in &definitions {
            if seen[value].defined == Defined::Often {
                members.insert(value);
            }
        }
        for &(value, block) in &needs {
            let is_sure = matches!(seen[value].defined, Defined::Once(at) if at != block && dominators.dominates(at, block));
            if !is_sure {
                members.insert(value);
            }
        }
        definitions.retain(|&(value, _)| members.contains(value));
        let needs = needs.into_iter().filter(|&(value, _)| members.contains(value)).map(|(value, block)| (value, Need::Entry(block)));
        Variables { definitions, needs: needs.collect(), members }
    }
}
