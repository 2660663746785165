//! Computes the resources of kernels including their callees.
//!
//! In an executable file, the registers, barriers and stack of a kernel include everything that it may call. nvlink computes this for
//! relocatable files; for an executable file, call [`Module::settle_calls`]. The strongly connected components of the call graph are
//! visited in reverse topological order, so the cost is linear in the size of the call graph.
//!
//! For example, a kernel with a frame of 8 bytes calls `middle` (16 bytes) and `deep` (32 bytes), and `middle` calls `deep`. The stack of
//! the kernel is 8 + 16 + 32 = 56 bytes.

use std::collections::HashMap;

use oriole_support::strongly_connected;

use super::attributes::rank;
use super::{Function, Module, UNKNOWN_STACK};
use crate::info::{Attribute, AttributeCode, AttributeValue};

impl Module {
    /// Gives each kernel the maximum registers and barriers of all functions that it may call, and the stack of the deepest call chain:
    /// [`UNKNOWN_STACK`] if there is recursion or an indirect call.
    ///
    /// An indirect call may reach every function whose address is taken and whose prototype matches; a function without prototype always
    /// matches. Functions that are defined elsewhere count as nothing, as with nvlink.
    pub fn settle_calls(&mut self) {
        let costs = Graph::new(&self.functions).costs(&self.functions);
        for (function, cost) in self.functions.iter_mut().zip(costs).filter(|(function, _)| function.is_kernel) {
            function.registers = cost.registers;
            function.min_stack_size = cost.stack.unwrap_or(UNKNOWN_STACK);
            function.set_barriers(cost.barriers);
            function.set_tensor_memory(cost.tensor_memory);
            if cost.uses_reserved_shared {
                function.set_reserved_shared();
            }
            let traits = &self.traits;
            function.attributes.sort_by_key(|attribute| rank(traits, attribute.code));
        }
    }
}

impl Function {
    /// Returns the number of named barriers according to the attributes.
    pub fn barriers(&self) -> u8 {
        let number = |attribute: &Attribute| match (attribute.code, &attribute.value) {
            (AttributeCode::NUM_BARRIERS, AttributeValue::Byte(number)) => Some(*number),
            _ => None,
        };
        self.attributes.iter().find_map(number).unwrap_or(0)
    }

    /// Sets the number of named barriers in the attributes.
    fn set_barriers(&mut self, number: u8) {
        let wanted = Attribute::new(AttributeCode::NUM_BARRIERS, AttributeValue::Byte(number));
        match self.attributes.iter_mut().find(|attribute| attribute.code == AttributeCode::NUM_BARRIERS) {
            Some(attribute) => *attribute = wanted,
            None if number == 0 => {}
            None => {
                let place = self.attributes.iter().position(|attribute| attribute.code == AttributeCode::MAXREG_COUNT);
                self.attributes.insert(place.map_or(self.attributes.len(), |place| place + 1), wanted);
            }
        }
    }
}

impl Function {
    /// Returns the use of tensor memory according to the attributes.
    pub fn tensor_memory(&self) -> TensorMemory {
        let has = |code: AttributeCode| self.attributes.iter().any(|attribute| attribute.code == code);
        let count = |attribute: &Attribute| match (attribute.code, &attribute.value) {
            (AttributeCode::VRC_CTA_INIT_COUNT, AttributeValue::Byte(number)) => Some(*number),
            _ => None,
        };
        TensorMemory {
            groups: [AttributeCode::TCGEN05_1CTA_USED, AttributeCode::TCGEN05_2CTA_USED].map(has),
            allocates: has(AttributeCode::AT_ENTRY_FRAGMENTS),
            count: self.attributes.iter().find_map(count).unwrap_or(0),
        }
    }

    /// Replaces the attributes that declare the use of tensor memory.
    fn set_tensor_memory(&mut self, wanted: TensorMemory) {
        let own = self.tensor_memory();
        if own == wanted {
            return;
        }
        let added = wanted.attributes().into_iter().filter(|added| self.attributes.iter().all(|own| own.code != added.code));
        let mut added: Vec<Attribute> = added.collect();
        for attribute in &mut self.attributes {
            match &mut attribute.value {
                AttributeValue::Byte(number) if attribute.code == AttributeCode::VRC_CTA_INIT_COUNT => *number = wanted.count,
                _ => {}
            }
        }
        self.attributes.append(&mut added);
    }

    /// Returns whether the attributes say that the function uses reserved shared memory.
    fn uses_reserved_shared(&self) -> bool {
        self.attributes.iter().any(|attribute| attribute.code == AttributeCode::RESERVED_SMEM_USED)
    }

    /// Adds the attribute which says that the function uses reserved shared memory.
    fn set_reserved_shared(&mut self) {
        if !self.uses_reserved_shared() {
            self.attributes.push(Attribute::new(AttributeCode::RESERVED_SMEM_USED, AttributeValue::Flag));
        }
    }
}

/// The use of tensor memory of a function, as its attributes declare it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TensorMemory {
    /// Whether instructions work for one block, and for two.
    pub groups: [bool; 2],
    /// Whether columns are allocated or freed.
    pub allocates: bool,
    /// Value of `EIATTR_VRC_CTA_INIT_COUNT`.
    pub count: u8,
}

impl TensorMemory {
    /// Returns the attributes that declare the use.
    pub fn attributes(self) -> Vec<Attribute> {
        let codes = [AttributeCode::TCGEN05_1CTA_USED, AttributeCode::TCGEN05_2CTA_USED].into_iter().zip(self.groups);
        let mut list: Vec<Attribute> =
            codes.filter(|(_, is_used)| *is_used).map(|(code, _)| Attribute::new(code, AttributeValue::Flag)).collect();
        if self.allocates {
            // AT_ENTRY_FRAGMENT_TMEM_CTA1_V2 and AT_ENTRY_FRAGMENT_TMEM_CTA2_V2.
            list.push(Attribute::words(AttributeCode::AT_ENTRY_FRAGMENTS, [if self.groups[1] { 7 } else { 6 }]));
            list.push(Attribute::new(AttributeCode::RESERVED_SMEM_USED, AttributeValue::Flag));
        }
        if self.count > 0 {
            list.push(Attribute::new(AttributeCode::VRC_CTA_INIT_COUNT, AttributeValue::Byte(self.count)));
        }
        list
    }

    /// Combines the uses of two functions.
    fn both(self, other: TensorMemory) -> TensorMemory {
        TensorMemory {
            groups: [self.groups[0] | other.groups[0], self.groups[1] | other.groups[1]],
            allocates: self.allocates | other.allocates,
            count: self.count.max(other.count),
        }
    }
}

/// The resources of a function with everything that it calls.
#[derive(Clone, Copy)]
struct Cost {
    registers: u8,
    barriers: u8,
    /// Stack size in bytes; `None` if it is unknown at compile time.
    stack: Option<u32>,
    tensor_memory: TensorMemory,
    uses_reserved_shared: bool,
}

impl Cost {
    const NOTHING: Cost = Cost {
        registers: 0,
        barriers: 0,
        stack: Some(0),
        tensor_memory: TensorMemory { groups: [false; 2], allocates: false, count: 0 },
        uses_reserved_shared: false,
    };

    /// Returns the resources of a function without its callees. The stack is unknown if it has indirect calls.
    fn of(function: &Function) -> Cost {
        let stack = function.indirect_calls.is_empty().then_some(function.frame_size);
        Cost {
            registers: function.registers,
            barriers: function.barriers(),
            stack,
            tensor_memory: function.tensor_memory(),
            uses_reserved_shared: function.uses_reserved_shared(),
        }
    }

    /// Combines two functions of which either may run: the maximum of each resource.
    fn either(self, other: Cost) -> Cost {
        Cost {
            registers: self.registers.max(other.registers),
            barriers: self.barriers.max(other.barriers),
            stack: self.stack.zip(other.stack).map(|(own, other)| own.max(other)),
            tensor_memory: self.tensor_memory.both(other.tensor_memory),
            uses_reserved_shared: self.uses_reserved_shared | other.uses_reserved_shared,
        }
    }

    /// Combines a caller and a callee: the stacks add up.
    fn calling(self, callee: Cost) -> Cost {
        let stack = self.stack.zip(callee.stack).map(|(own, callee)| own.saturating_add(callee));
        Cost { stack, ..self.either(callee) }
    }
}

/// The call graph, by index. Nodes after the functions stand for the possible targets of indirect calls: one node for each prototype, and
/// one for the functions without prototype. The graph therefore grows linearly with the program, however many functions have their address
/// taken.
struct Graph {
    callees: Vec<Vec<usize>>,
}

impl Graph {
    /// Builds the call graph.
    fn new(functions: &[Function]) -> Graph {
        let by_name: HashMap<&str, usize> = functions.iter().enumerate().map(|(k, function)| (function.name.as_str(), k)).collect();
        let of_unknown = functions.len();
        let mut by_prototype: HashMap<&str, usize> = HashMap::new();
        for prototype in functions.iter().flat_map(|function| &function.indirect_calls) {
            let next = of_unknown + 1 + by_prototype.len();
            by_prototype.entry(prototype).or_insert(next);
        }
        let mut callees = vec![Vec::new(); of_unknown + 1 + by_prototype.len()];
        for (k, function) in functions.iter().enumerate() {
            callees[k].extend(function.calls.iter().filter_map(|name| by_name.get(name.as_str()).copied()));
            callees[k].extend(function.indirect_calls.iter().map(|prototype| by_prototype[prototype.as_str()]));
            // A kernel whose address is taken is launched, not called.
            if function.is_address_taken && !function.is_kernel {
                match &function.prototype {
                    Some(prototype) => by_prototype.get(prototype.as_str()).into_iter().for_each(|&node| callees[node].push(k)),
                    None => callees[of_unknown].push(k),
                }
            }
        }
        for &node in by_prototype.values() {
            callees[node].push(of_unknown);
        }
        Graph { callees }
    }

    /// Returns the resources of each function with everything that it may call. Mutually recursive functions share one result, computed
    /// after all functions that they call; their stack size is unknown.
    fn costs(&self, functions: &[Function]) -> Vec<Cost> {
        let mut costs = vec![Cost::NOTHING; self.callees.len()];
        for group in strongly_connected(&self.callees) {
            let mut cost = Cost::NOTHING;
            // The costs of callees inside the component are still `NOTHING` here.
            for &node in &group {
                let callees = self.callees[node].iter().fold(Cost::NOTHING, |sum, &callee| sum.either(costs[callee]));
                cost = cost.either(functions.get(node).map_or(callees, |function| Cost::of(function).calling(callees)));
            }
            if group.len() > 1 || self.callees[group[0]].contains(&group[0]) {
                cost.stack = None;
            }
            group.into_iter().for_each(|node| costs[node] = cost);
        }
        costs.truncate(functions.len());
        costs
    }
}
