//! Which values are variables, and where they are defined and needed.
//!
//! A variable has several definitions, or a path leads from the start of the function to a use without passing its definition. A value
//! with one definition that dominates its uses is in SSA form already; most are, and cost nothing from here on.

use oriole_support::{BitSet, IndexVec};

use crate::analysis::{Dominators, Need};
use crate::function::{Block, Function, Value};

/// The variables of a function.
pub(super) struct Variables {
    pub members: BitSet<Value>,
    /// Blocks that define each.
    pub definitions: Vec<(Value, Block)>,
    /// Blocks that read each before they define it.
    pub needs: Vec<(Value, Need)>,
}

/// What is known of a value's definitions.
#[derive(Clone, Copy, PartialEq)]
enum Defined {
    Never,
    Once(Block),
    Often,
}

/// What a walk over the blocks has seen of a value.
#[derive(Clone, Copy)]
struct Seen {
    defined: Defined,
    last_definition: Option<Block>,
    last_need: Option<Block>,
}

impl Variables {
    /// Looks at every instruction. There are no phis.
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
