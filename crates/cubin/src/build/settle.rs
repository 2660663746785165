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
        let graph = Graph::new(&self.functions);
        let costs: Vec<Cost> = (0..self.functions.len()).map(|k| graph.cost(&self.functions, k)).collect();
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
struct Cost {
    registers: u8,
    barriers: u8,
    /// None if nobody knows.
    stack: Option<u32>,
}

/// Who may call whom, by index.
struct Graph {
    callees: Vec<Vec<usize>>,
    calls_pointers: Vec<bool>,
}

impl Graph {
    fn new(functions: &[Function]) -> Graph {
        let by_name: HashMap<&str, usize> = functions.iter().enumerate().map(|(k, function)| (function.name.as_str(), k)).collect();
        let callees = |function: &Function| {
            let mut list: Vec<usize> = function.calls.iter().filter_map(|name| by_name.get(name.as_str()).copied()).collect();
            for (k, other) in functions.iter().enumerate().filter(|(_, other)| other.is_address_taken) {
                let fits = |prototype: &String| other.prototype.as_ref().is_none_or(|own| own == prototype);
                list.extend(function.indirect_calls.iter().any(fits).then_some(k));
            }
            list
        };
        Graph {
            callees: functions.iter().map(callees).collect(),
            calls_pointers: functions.iter().map(|function| !function.indirect_calls.is_empty()).collect(),
        }
    }

    /// Visits everything that can be reached, callees before their callers.
    fn cost(&self, functions: &[Function], start: usize) -> Cost {
        let mut state = vec![State::New; functions.len()];
        let mut stack_bytes = vec![0u32; functions.len()];
        let mut cost = Cost { registers: 0, barriers: 0, stack: Some(0) };
        let mut path = vec![(start, 0)];
        let mut is_known = true;
        while let Some((k, next)) = path.last_mut() {
            let k = *k;
            if *next == 0 {
                state[k] = State::Open;
                cost.registers = cost.registers.max(functions[k].registers);
                cost.barriers = cost.barriers.max(functions[k].barriers());
                is_known &= !self.calls_pointers[k];
            }
            match self.callees[k].get(*next) {
                Some(&callee) => {
                    *next += 1;
                    match state[callee] {
                        State::New => path.push((callee, 0)),
                        State::Open => is_known = false,
                        State::Done => {}
                    }
                }
                None => {
                    let deepest = self.callees[k].iter().map(|&callee| stack_bytes[callee]).max().unwrap_or(0);
                    stack_bytes[k] = functions[k].frame_size.saturating_add(deepest);
                    state[k] = State::Done;
                    path.pop();
                }
            }
        }
        cost.stack = is_known.then_some(stack_bytes[start]);
        cost
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// On the path: calling it again is recursion.
    Open,
    Done,
}
