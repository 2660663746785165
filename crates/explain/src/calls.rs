//! The calls of a function: the callee, and what its execution costs.

use std::collections::HashMap;

use oriole_cubin::symbol::SymbolSection;

use crate::code::{DecodedFunction, SIZE};
use crate::model::{Block, Call, Explanation, Function, Instruction};
use crate::resources::Site;

/// Maximum number of nodes of a call tree that are listed.
const MOST_NODES: usize = 200;

/// Returns the calls of a function in address order, and names the callees in the texts of the instructions. The costs are set later.
pub fn find(site: &Site<'_>, code: &DecodedFunction<'_>, blocks: &[Block], instructions: &mut [Instruction]) -> Vec<Call> {
    let section = site.function.section;
    let symbols = site.index.cubin().symbols();
    let relocated: HashMap<u64, &str> = (site.index.relocations(section).iter())
        .filter_map(|relocation| Some((relocation.offset & !(SIZE as u64 - 1), symbols.get(relocation.symbol as usize)?.name.as_str())))
        .collect();
    let local = |address: u64| {
        let is_here = |symbol: &&oriole_cubin::symbol::Symbol| {
            symbol.is_function() && symbol.section == SymbolSection::Section(section as u32) && symbol.value == address
        };
        symbols.iter().find(is_here).map(|symbol| symbol.name.as_str())
    };
    let mut calls = Vec::new();
    for number in (0..code.length).filter(|&number| code.is_call(number)) {
        let instruction = &mut instructions[number];
        // `CALL.REL.NOINC R14 `(kernel)` adds the address of the kernel to a register.
        let is_register =
            |word: &str| word.strip_prefix('R').is_some_and(|number| number.starts_with(|letter: char| letter.is_ascii_digit()));
        let is_indirect = instruction.text.split_whitespace().any(is_register);
        let to_block = || {
            let (_, name) = instruction.text.strip_suffix(')')?.rsplit_once("`(")?;
            local(blocks.iter().find(|block| block.name == name)?.start)
        };
        let callee = if is_indirect { None } else { relocated.get(&instruction.address).copied().or_else(to_block) };
        if let (Some(callee), Some((start, _))) = (callee, instruction.text.rsplit_once(' ')) {
            instruction.text = format!("{start} `({callee})");
        }
        calls.push(Call {
            address: instruction.address,
            callee: callee.map(str::to_owned),
            executions: code.executions_of_inst(number),
            callee_cycles: None,
        });
    }
    calls
}

/// Sets the predicted cycles of the callees of all functions.
pub fn set_costs(functions: &mut [Function]) {
    let by_name: HashMap<String, usize> = functions.iter().enumerate().map(|(number, function)| (function.name.clone(), number)).collect();
    let mut totals = CycleTotals { functions, by_name: &by_name, known: vec![CycleState::Unknown; functions.len()] };
    (0..functions.len()).for_each(|number| {
        totals.of(number);
    });
    let known = totals.known;
    for call in functions.iter_mut().flat_map(|function| &mut function.calls) {
        let callee = call.callee.as_ref().and_then(|name| by_name.get(name));
        call.callee_cycles = callee.and_then(|&callee| match known[callee] {
            CycleState::Done(cycles) => cycles,
            _ => None,
        });
    }
}

/// What is known about the cycles of a function with all functions that it calls.
#[derive(Clone, Copy)]
enum CycleState {
    Unknown,
    InProgress,
    /// `None` for recursive functions and those with a callee whose cycles are not known.
    Done(Option<f64>),
}

struct CycleTotals<'a> {
    functions: &'a [Function],
    by_name: &'a HashMap<String, usize>,
    known: Vec<CycleState>,
}

impl CycleTotals<'_> {
    fn of(&mut self, number: usize) -> Option<f64> {
        match self.known[number] {
            CycleState::Done(cycles) => return cycles,
            CycleState::InProgress => return None,
            CycleState::Unknown => self.known[number] = CycleState::InProgress,
        }
        let function = &self.functions[number];
        let mut total = Some(function.cycles).filter(|_| function.obstacle.is_none());
        for call in &function.calls {
            let callee = call.callee.as_ref().and_then(|name| self.by_name.get(name)).copied();
            let cycles = callee.and_then(|callee| self.of(callee));
            total = total.zip(cycles).map(|(total, cycles)| total + call.executions * cycles);
        }
        self.known[number] = CycleState::Done(total);
        total
    }
}

/// A call in the tree of a function.
pub struct Node<'a> {
    /// Number of calls around it, from 0.
    pub depth: usize,
    /// The call.
    pub call: &'a Call,
    /// Whether the callee is a function whose calls are listed around the node.
    pub is_recursive: bool,
}

/// Returns the calls of a function, each followed by those of its callee; at most [`MOST_NODES`].
pub fn tree<'a>(explanation: &'a Explanation, function: &'a Function) -> Vec<Node<'a>> {
    let mut nodes = Vec::new();
    let mut path: Vec<&str> = vec![&function.name];
    add(explanation, function, &mut path, &mut nodes);
    nodes
}

fn add<'a>(explanation: &'a Explanation, function: &'a Function, path: &mut Vec<&'a str>, nodes: &mut Vec<Node<'a>>) {
    for call in &function.calls {
        if nodes.len() >= MOST_NODES {
            return;
        }
        let callee = call.callee.as_ref().and_then(|name| explanation.functions.iter().find(|function| function.name == *name));
        let is_recursive = callee.is_some_and(|callee| path.contains(&callee.name.as_str()));
        nodes.push(Node { depth: path.len() - 1, call, is_recursive });
        if let Some(callee) = callee.filter(|_| !is_recursive) {
            path.push(&callee.name);
            add(explanation, callee, path, nodes);
            path.pop();
        }
    }
}

impl Node<'_> {
    /// Describes the call in words, without its address.
    pub fn text(&self) -> String {
        let name = self.call.callee.as_deref().unwrap_or("a function through a pointer");
        let cost = match self.call.callee_cycles {
            _ if self.is_recursive => "recursive".to_owned(),
            Some(cycles) => format!("{} cycles each", crate::text::cycles(cycles)),
            None => "cycles not known".to_owned(),
        };
        format!("{name}: executed {} times, {cost}", crate::text::cycles(self.call.executions))
    }
}
