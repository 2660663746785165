//! Labels and their scopes.
//!
//! A label belongs to the scope it is written in and is seen from there and from scopes inside it, before its definition
//! too. A reference therefore stays open until a scope that defines the name closes: each scope has the labels
//! it defines and the references still open. When a scope closes, its open references move to the scope around it.

use oriole_support::{Index, Name};
use rustc_hash::FxHashMap;

use super::Parser;
use crate::ast::{Label, LabelId, Operand};
use crate::diag::{Code, Diagnostic};
use crate::source::Span;
use oriole_support::closest;

#[derive(Default)]
pub(crate) struct LabelScope {
    defined: FxHashMap<Name, (LabelId, Span)>,
    open: FxHashMap<Name, (LabelId, Span)>,
}

#[derive(Default)]
pub(crate) struct Labels {
    scopes: Vec<LabelScope>,
    /// References that turned out to mean a label made earlier.
    aliases: Vec<(LabelId, LabelId)>,
    /// What a label stands for besides a place in the code.
    pub kinds: FxHashMap<LabelId, LabelKind>,
}

/// A label may name a directive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LabelKind {
    BranchTargets(u32),
    CallTargets(u32),
    Prototype(u32),
}

impl Labels {
    pub fn open_scope(&mut self) {
        self.scopes.push(LabelScope::default());
    }
}

impl Parser<'_> {
    /// The label a name stands for at a reference, which may come before the definition.
    pub(super) fn reference_label(&mut self, name: Name, span: Span) -> LabelId {
        let labels = &mut self.function.labels;
        let Some(scope) = labels.scopes.last_mut() else { return LabelId::new(0) };
        if let Some(&(label, _)) = scope.defined.get(&name).or_else(|| scope.open.get(&name)) {
            return label;
        }
        let label = self.function.body.labels.push(Label { name });
        scope.open.insert(name, (label, span));
        label
    }

    /// The label a name already stands for, in this scope or around it.
    pub(super) fn find_label(&self, name: Name) -> Option<LabelId> {
        self.function.labels.scopes.iter().rev().take(64).find_map(|scope| scope.defined.get(&name).map(|&(label, _)| label))
    }

    pub(super) fn define_label(&mut self, name: Name, span: Span) -> LabelId {
        let scope = match self.function.labels.scopes.last_mut() {
            Some(scope) => scope,
            None => return LabelId::new(0),
        };
        if let Some(&(label, before)) = scope.defined.get(&name) {
            let text = self.module.names.resolve(name).to_string();
            let finding = Diagnostic::new(Code::DuplicateLabel, span, format!("label `{text}` is already defined in this scope"))
                .related(before, "first defined here");
            self.report(finding);
            return label;
        }
        let label = match scope.open.remove(&name) {
            Some((label, _)) => label,
            None => self.function.body.labels.push(Label { name }),
        };
        scope.defined.insert(name, (label, span));
        label
    }

    pub(super) fn close_label_scope(&mut self) {
        let labels = &mut self.function.labels;
        let Some(mut closing) = labels.scopes.pop() else { return };
        let Some(outer) = labels.scopes.last_mut() else {
            self.report_undefined(closing);
            return;
        };
        if outer.defined.is_empty() && outer.open.is_empty() {
            outer.open = closing.open;
            return;
        }
        if closing.open.len() > outer.open.len() && outer.defined.is_empty() {
            std::mem::swap(&mut closing.open, &mut outer.open);
        }
        for (name, (label, span)) in closing.open {
            match outer.defined.get(&name).or_else(|| outer.open.get(&name)) {
                Some(&(known, _)) => labels.aliases.push((label, known)),
                None => {
                    outer.open.insert(name, (label, span));
                }
            }
        }
    }

    fn report_undefined(&mut self, scope: LabelScope) {
        let mut open: Vec<(Name, Span)> = scope.open.into_iter().map(|(name, (_, span))| (name, span)).collect();
        open.sort_by_key(|&(_, span)| span);
        for (name, span) in open {
            let text = self.module.names.resolve(name);
            let known = scope.defined.keys().map(|&name| self.module.names.resolve(name));
            let mut near: Vec<&str> = known.collect();
            near.sort_unstable();
            let near = closest(text, near.iter().copied().take(1000)).map(|near| format!("did you mean `{near}`?"));
            let finding = Diagnostic::new(Code::UndefinedLabel, span, format!("label `{text}` is not defined in this scope or around it")).maybe_help(near);
            self.report(finding);
        }
    }

    /// Replaces references that were made under a second number.
    pub(super) fn settle_labels(&mut self) {
        let mut aliases = std::mem::take(&mut self.function.labels.aliases);
        if aliases.is_empty() {
            return;
        }
        // An alias may point to a label that became an alias later: follow from the newest to the oldest.
        let mut target: FxHashMap<LabelId, LabelId> = FxHashMap::default();
        while let Some((from, to)) = aliases.pop() {
            let to = target.get(&to).copied().unwrap_or(to);
            target.insert(from, to);
        }
        let settle = |operand: &mut Operand| {
            if let Operand::Label(label) = operand {
                if let Some(&known) = target.get(label) {
                    *operand = Operand::Label(known);
                }
            }
        };
        self.function.body.operands.iter_mut().for_each(settle);
        self.function.body.target_lists.iter_mut().flat_map(|list| &mut list.targets).for_each(settle);
    }
}
