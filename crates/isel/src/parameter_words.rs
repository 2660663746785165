//! The 32-bit words of parameters that are kept in registers.

use std::collections::BTreeSet;

use oriole_ir::Value;
use oriole_ptx::ast::{self, AddressBase, Body, FunctionId, Module, Parameter, VariableId};
use oriole_ptx::table::Opcode;
use oriole_ptx::types::StateSpace;
use rustc_hash::{FxHashMap, FxHashSet};

/// Size of a register in bytes.
pub(crate) const WORD: u32 = 4;

/// A variable with at most this number of words has variables for all its words, since it may be passed in registers.
pub(crate) const SMALL_WORDS: u32 = 16;

/// Maximum number of words of a variable that a function passes on as a whole or keeps in its frame.
pub(crate) const WHOLE_WORDS: u32 = 1 << 14;

/// Number of bytes of the widest access.
pub(crate) const WIDEST_ACCESS: i64 = 32;

/// The words of a `.param` variable that exist, each with its number, in ascending order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Words(pub(crate) Vec<(u32, Value)>);

impl Words {
    /// Numbers the words from zero.
    pub(crate) fn new(values: impl IntoIterator<Item = Value>) -> Words {
        Words((0..).zip(values).collect())
    }

    /// Returns the words with their numbers, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, Value)> + '_ {
        self.0.iter().copied()
    }

    /// Returns the numbers of the words.
    pub(crate) fn numbers(&self) -> Vec<u32> {
        self.0.iter().map(|(number, _)| *number).collect()
    }

    /// Returns the word with a number, if it exists.
    pub(crate) fn get(&self, number: u32) -> Option<Value> {
        self.0.binary_search_by_key(&number, |(number, _)| *number).ok().map(|position| self.0[position].1)
    }
}

/// The words of each `.param` variable of a function that need to exist.
#[derive(Default)]
pub(crate) struct TouchedWords {
    /// The words that accesses touch, or may touch.
    pub(crate) accessed: FxHashMap<VariableId, BTreeSet<u32>>,
    /// Variables that the function receives and passes on, or keeps in its frame, so that all words are needed.
    pub(crate) whole: FxHashSet<VariableId>,
}

impl TouchedWords {
    /// Collects the words that a function accesses. `calls` yields the results and the arguments of each call.
    pub(crate) fn of<'m>(
        module: &Module,
        id: FunctionId,
        body: &Body,
        calls: impl Iterator<Item = (&'m [ast::Operand], &'m [ast::Operand])>,
    ) -> TouchedWords {
        let function = &module.functions[id];
        let mut incoming: FxHashSet<VariableId> = function.parameters.iter().filter_map(parameter_variable).collect();
        let mut outgoing: FxHashSet<VariableId> = function.returns.iter().filter_map(parameter_variable).collect();
        let variable = |operand: &ast::Operand| if let ast::Operand::Variable(id) = *operand { Some(id) } else { None };
        for (results, arguments) in calls {
            incoming.extend(results.iter().filter_map(variable));
            outgoing.extend(arguments.iter().filter_map(variable));
        }
        let mut whole: FxHashSet<VariableId> = incoming.intersection(&outgoing).copied().collect();
        whole.extend(address_taken(module, id, body));
        let mut accessed: FxHashMap<VariableId, BTreeSet<u32>> = FxHashMap::default();
        for address in &body.addresses {
            let AddressBase::Variable(id) = address.base else { continue };
            // The width of the access is not known here; the widest one is assumed.
            let end = address.offset.saturating_add(WIDEST_ACCESS - 1);
            if module.variables[id].space == StateSpace::Param && (0..i64::from(u32::MAX)).contains(&end) {
                let words = address.offset.max(0) / i64::from(WORD)..=end / i64::from(WORD);
                accessed.entry(id).or_default().extend(words.map(|word| word as u32));
            }
        }
        TouchedWords { accessed, whole }
    }

    /// Returns the numbers of the words of a variable that exist; `None` if there would be too many.
    pub(crate) fn of_variable(&self, id: VariableId, bytes: u32) -> Option<Vec<u32>> {
        let count = bytes.div_ceil(WORD);
        match self.whole.contains(&id) || count <= SMALL_WORDS {
            true if count > WHOLE_WORDS => None,
            true => Some((0..count).collect()),
            false => Some(self.accessed.get(&id).map_or_else(Vec::new, |words| words.range(..count).copied().collect())),
        }
    }
}

/// Returns the parameters whose address a function takes.
pub(crate) fn address_taken(module: &Module, id: FunctionId, body: &Body) -> Vec<VariableId> {
    let mut unseen: FxHashSet<VariableId> = module.functions[id].parameters.iter().filter_map(parameter_variable).collect();
    let mut found = Vec::new();
    for instruction in &body.instructions {
        if module.forms[instruction.form].opcode == Opcode::Call {
            continue;
        }
        for operand in body.operands_of(instruction) {
            let base = match *operand {
                ast::Operand::Variable(id) => Some(id),
                ast::Operand::AddressOf(position) => match body.addresses[position as usize].base {
                    AddressBase::Variable(id) => Some(id),
                    _ => None,
                },
                _ => None,
            };
            if let Some(id) = base.filter(|id| unseen.remove(id)) {
                found.push(id);
            }
        }
    }
    found
}

/// Returns the variable of a `.param` parameter; `None` for a `.reg` parameter.
pub(crate) fn parameter_variable(parameter: &Parameter) -> Option<VariableId> {
    if let Parameter::Variable(id) = *parameter { Some(id) } else { None }
}
