//! `.nv.callgraph` and `.nv.prototype`: what the linker and the driver know about calls.
//!
//! The call graph has four lists, each after its marker: direct calls (caller, callee); functions whose address is taken (function,
//! prototype); indirect calls (caller, prototype); and taken addresses (function that takes it, function whose address is taken). A
//! prototype is given by the offset of its text in `.strtab`, where all prototypes come first.

use std::collections::BTreeMap;

use super::{ExternKind, Linkage, Module};
use crate::callgraph::{CallEdge, NO_CALLS};

/// Offset in `.strtab` of the empty string. The list of functions whose address is taken has it as the prototype of a kernel.
const NO_PROTOTYPE: u32 = 0;

/// Offset of each prototype in `.strtab`.
pub(super) type Prototypes = BTreeMap<String, u32>;

impl Module {
    /// Returns all prototypes, in the order of the string table.
    pub(super) fn prototypes(&self) -> Vec<&str> {
        let mut list: Vec<&str> = self.functions.iter().filter_map(|function| function.prototype.as_deref()).collect();
        list.extend(self.functions.iter().flat_map(|function| function.indirect_calls.iter().map(String::as_str)));
        list.extend(self.externs.iter().filter_map(|external| external.prototype.as_deref()));
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Returns the offset of each prototype in `.strtab`.
    pub(super) fn prototype_offsets(&self) -> Prototypes {
        let mut at = 1;
        let place = |text: &str| {
            let here = at;
            at += text.len() as u32 + 1;
            (text.to_owned(), here)
        };
        self.prototypes().into_iter().map(place).collect()
    }

    /// Returns the functions that other files can call by name, with their prototypes.
    pub(super) fn prototyped(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.functions.iter().filter(|function| function.linkage != Linkage::Local && !function.is_address_taken);
        let own = own.filter_map(|function| Some((function.name.as_str(), function.prototype.as_deref()?)));
        let others = self.externs.iter().filter(|external| !external.is_address_taken);
        own.chain(others.filter_map(|external| Some((external.name.as_str(), external.prototype.as_deref()?))))
    }

    /// Returns the content of `.nv.callgraph`. `find` returns the index of a symbol.
    pub(super) fn call_graph<E>(&self, prototypes: &Prototypes, find: &impl Fn(&str) -> Result<u32, E>) -> Result<Vec<CallEdge>, E> {
        let mut lists: [Vec<CallEdge>; 4] = Default::default();
        let edge = |caller: &str, callee: u32| Ok(CallEdge { caller: find(caller)?, callee: callee.cast_signed() });
        let prototype = |text: &str| prototypes.get(text).copied().unwrap_or(0);
        for function in &self.functions {
            let name = &function.name;
            for callee in &function.calls {
                lists[0].push(edge(name, find(callee)?)?);
            }
            match function.prototype.as_deref() {
                Some(text) if function.is_address_taken => lists[1].push(edge(name, prototype(text))?),
                None if function.is_address_taken && function.is_kernel => lists[1].push(edge(name, NO_PROTOTYPE)?),
                _ => {}
            }
            for text in &function.indirect_calls {
                lists[2].push(edge(name, prototype(text))?);
            }
            for taken in &function.takes_address_of {
                lists[3].push(edge(name, find(taken)?)?);
            }
        }
        for external in self.externs.iter().filter(|external| external.is_address_taken) {
            match external.prototype.as_deref() {
                Some(text) => lists[1].push(edge(&external.name, prototype(text))?),
                None if external.kind == ExternKind::Kernel => lists[1].push(edge(&external.name, NO_PROTOTYPE)?),
                None => {}
            }
        }
        Ok(NO_CALLS.into_iter().zip(lists).flat_map(|(mark, list)| std::iter::once(mark).chain(list)).collect())
    }
}
