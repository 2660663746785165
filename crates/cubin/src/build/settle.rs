//! What calls cost a kernel: in an executable file, registers, barriers and stack of a kernel are those of everything that it
//! may call. nvlink works this out for relocatable files; whoever builds an executable file calls [`Module::settle_calls`].

use std::collections::HashMap;

use super::{Function, Module, UNKNOWN_STACK};
use crate::info::{Attribute, Code, Value};

impl Module {
    /// Gives each kernel the registers and barriers of the most demanding function that it may call, and the stack of the
    /// deepest chain of calls: [`UNKNOWN_STACK`] if there is recursion or a call through a pointer.
    ///
    /// A call through a pointer may reach every function whose address is taken and whose prototype fits; one without
    /// prototype fits always. Functions that are defined elsewhere count for nothing, as with nvlink.
    pub fn settle_calls(&mut self) {
        let costs = Graph::new(&self.functions).costs(&self.functions);
        for (function, cost) in self.functions.iter_mut().zip(costs).filter(|(function, _)| function.is_kernel) {
            function.registers = cost.registers;
            function.min_stack_size = cost.stack.unwrap_or(UNKNOWN_STACK);
            function.set_barriers(cost.barriers);
        }
    }
}

impl Function {
    /// Named barriers, as its attributes say.
    pub fn barriers(&self) -> u8 {
        let number = |attribute: &Attribute| match (attribute.code, &attribute.value) {
            (Code::NUM_BARRIERS, Value::Byte(number)) => Some(*number),
            _ => None,
        };
        self.attributes.iter().find_map(number).unwrap_or(0)
    }

    fn set_barriers(&mut self, number: u8) {
        let wanted = Attribute::new(Code::NUM_BARRIERS, Value::Byte(number));
        match self.attributes.iter_mut().find(|attribute| attribute.code == Code::NUM_BARRIERS) {
            Some(attribute) => *attribute = wanted,
            None if number == 0 => {}
            None => {
                let place = self.attributes.iter().position(|attribute| attribute.code == Code::MAXREG_COUNT);
                self.attributes.insert(place.map_or(self.attributes.len(), |place| place + 1), wanted);
            }
        }
    }
}

/// Of a function with all that it calls.
#[derive(Clone, Copy)]
struct Cost {
    registers: u8,
    barriers: u8,
    /// None if it is not known before the program runs.
    stack: Option<u32>,
}

impl Cost {
    const NOTHING: Cost = Cost { registers: 0, barriers: 0, stack: Some(0) };

    fn of(function: &Function) -> Cost {
        let stack = function.indirect_calls.is_empty().then_some(function.frame_size);
        Cost { registers: function.registers, barriers: function.barriers(), stack }
    }

    /// What two functions need of which one or the other runs.
    fn either(self, other: Cost) -> Cost {
        Cost {
            registers: self.registers.max(other.registers),
            barriers: self.barriers.max(other.barriers),
            stack: self.stack.zip(other.stack).map(|(own, other)| own.max(other)),
        }
    }

    /// What a function needs that calls another.
    fn calling(self, callee: Cost) -> Cost {
        let stack = self.stack.zip(callee.stack).map(|(own, callee)| own.saturating_add(callee));
        Cost { stack, ..self.either(callee) }
    }
}

/// The call graph, by index. Nodes after the functions stand for what a call through a pointer may reach: one for each prototype, and one for
/// the functions without prototype. So its size is that of the program, however many functions have their addresses taken.
struct Graph {
    callees: Vec<Vec<usize>>,
}

impl Graph {
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
            if function.is_address_taken {
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

    /// The cost of each function with everything that it may call. Tarjan's algorithm finds the groups of functions that call each other;
    /// each group is settled once, after all groups that it calls.
    fn costs(&self, functions: &[Function]) -> Vec<Cost> {
        let mut walk = Walk {
            graph: self,
            functions,
            numbers: vec![0; self.callees.len()],
            reached: 0,
            open: Vec::new(),
            costs: vec![None; self.callees.len()],
        };
        for start in 0..functions.len() {
            if walk.numbers[start] == 0 {
                walk.from(start);
            }
        }
        walk.costs.into_iter().take(functions.len()).map(|cost| cost.unwrap_or(Cost::NOTHING)).collect()
    }
}

/// A depth-first walk over the call graph.
struct Walk<'a> {
    graph: &'a Graph,
    functions: &'a [Function],
    /// When each node was reached first, from 1; 0 if it was not.
    numbers: Vec<usize>,
    reached: usize,
    /// Nodes whose group is not complete yet.
    open: Vec<usize>,
    /// Of the nodes whose group is complete.
    costs: Vec<Option<Cost>>,
}

/// A node on the current path.
struct Step {
    node: usize,
    next: usize,
    /// The least number of an open node that is reached from here.
    least: usize,
    calls_itself: bool,
}

impl Walk<'_> {
    fn enter(&mut self, node: usize) -> Step {
        self.reached += 1;
        self.numbers[node] = self.reached;
        self.open.push(node);
        Step { node, next: 0, least: self.reached, calls_itself: false }
    }

    fn from(&mut self, start: usize) {
        let mut path = vec![self.enter(start)];
        while let Some(step) = path.last_mut() {
            if let Some(&callee) = self.graph.callees[step.node].get(step.next) {
                step.next += 1;
                step.calls_itself |= callee == step.node;
                if self.numbers[callee] == 0 {
                    let entered = self.enter(callee);
                    path.push(entered);
                } else if self.costs[callee].is_none() {
                    step.least = step.least.min(self.numbers[callee]);
                }
                continue;
            }
            let Some(done) = path.pop() else { break };
            if done.least == self.numbers[done.node] {
                self.close(done.node, done.calls_itself);
            } else if let Some(caller) = path.last_mut() {
                caller.least = caller.least.min(done.least);
            }
        }
    }

    /// Settles the group whose first node is `first`.
    fn close(&mut self, first: usize, calls_itself: bool) {
        let start = self.open.iter().rposition(|&node| node == first).unwrap_or(0);
        let group = self.open.split_off(start);
        let mut cost = Cost::NOTHING;
        for &node in &group {
            let callees = self.graph.callees[node].iter().filter_map(|&callee| self.costs[callee]);
            let callees = callees.fold(Cost::NOTHING, Cost::either);
            cost = cost.either(self.functions.get(node).map_or(callees, |function| Cost::of(function).calling(callees)));
        }
        if group.len() > 1 || calls_itself {
            cost.stack = None;
        }
        group.into_iter().for_each(|node| self.costs[node] = Some(cost));
    }
}
