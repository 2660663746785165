//! Resolves labels in nested scopes.
//!
//! A label belongs to the scope that contains it. It is visible in that scope and in inner scopes, also before its definition. A
//! reference therefore stays unresolved until a scope that defines the name closes. Each scope holds the labels it defines and the
//! unresolved references. When a scope closes, its unresolved references are merged into those of the enclosing scope, the smaller map into
//! the larger ("small to large"), so that deep nesting costs O(n log n) in the number of references.
//!
//! Example: three references to `M` before its definition.
//!
//! ```text
//! {  bra M;           creates the provisional label 0 in this scope
//!    {  bra M;  }     creates label 1; at the `}` it becomes an alias of 0
//! }                   M is not defined here: label 0 moves to the enclosing scope
//! bra M;              finds label 0
//! M:                  defines label 0; afterwards operands with label 1 are replaced by 0
//! ```
//!
//! A label may also name a list of targets or a prototype. Such a label is not a branch target.

use oriole_support::{Index, Name};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::Parser;
use crate::ast::{FunctionId, Label, LabelId, Operand};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::source::Span;
use oriole_support::closest;

/// The labels of one open scope.
#[derive(Default)]
pub(crate) struct LabelScope {
    /// Labels defined in this scope, with their position.
    defined: FxHashMap<Name, (LabelId, Span)>,
    /// Unresolved references, with the position of the first one.
    open: FxHashMap<Name, (LabelId, Span)>,
}

/// The labels of the function being parsed.
#[derive(Default)]
pub(crate) struct Labels {
    scopes: Vec<LabelScope>,
    /// The visible labels of each name, the innermost last.
    visible: FxHashMap<Name, SmallVec<[LabelId; 2]>>,
    /// Pairs of a provisional label and the label it turned out to be.
    aliases: Vec<(LabelId, LabelId)>,
    /// The directive that a label names, for labels that are not branch targets.
    pub kinds: FxHashMap<LabelId, LabelKind>,
    /// For each list of call targets, one function per distinct signature in the list.
    pub call_targets: FxHashMap<u32, Vec<FunctionId>>,
}

/// The directive that a label names, as an index into the body's lists.
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

    /// Returns the position of the label with this name in the current scope.
    pub fn defined_here(&self, name: Name) -> Option<Span> {
        self.scopes.last()?.defined.get(&name).map(|&(_, span)| span)
    }
}

impl Parser<'_> {
    /// Returns the label for a reference, which may precede the definition.
    pub(super) fn reference_label(&mut self, name: Name, span: Span) -> LabelId {
        if self.find_label(name).is_some_and(|label| self.function.labels.kinds.contains_key(&label)) {
            let finding = self.not_a_place(name, span);
            self.report(finding);
        }
        let labels = &mut self.function.labels;
        let Some(scope) = labels.scopes.last_mut() else { return LabelId::new(0) };
        if let Some(&(label, _)) = scope.defined.get(&name).or_else(|| scope.open.get(&name)) {
            return label;
        }
        let label = self.function.body.labels.push(Label { name });
        scope.open.insert(name, (label, span));
        label
    }

    /// Returns the visible label that is already defined, in this or an enclosing scope.
    pub(super) fn find_label(&self, name: Name) -> Option<LabelId> {
        self.function.labels.visible.get(&name)?.last().copied()
    }

    fn not_a_place(&self, name: Name, span: Span) -> Diagnostic {
        let text = self.module.names.resolve(name);
        Diagnostic::new(
            DiagnosticCode::BadTargetList,
            span,
            format!("`{text}` names a list of targets or a prototype, not a place in the code"),
        )
    }

    /// Records that a label just defined names a directive. Reports an error if an earlier branch refers to the label.
    pub(super) fn name_table(&mut self, label: LabelId, kind: LabelKind, earlier_use: Option<Span>) {
        if let Some(span) = earlier_use {
            let finding = self.not_a_place(self.function.body.labels[label].name, span);
            self.report(finding.help("lists of targets and prototypes must precede their first use"));
        }
        self.function.labels.kinds.insert(label, kind);
    }

    /// Defines a label in the current scope. Also returns the position of an earlier reference, if there is one.
    pub(super) fn define_label(&mut self, name: Name, span: Span) -> (LabelId, Option<Span>) {
        let scope = match self.function.labels.scopes.last_mut() {
            Some(scope) => scope,
            None => return (LabelId::new(0), None),
        };
        if let Some(&(label, before)) = scope.defined.get(&name) {
            let text = self.module.names.resolve(name).to_string();
            let finding = Diagnostic::new(DiagnosticCode::DuplicateLabel, span, format!("label `{text}` is already defined in this scope"))
                .related(before, "first defined here");
            self.report(finding);
            return (label, None);
        }
        // An earlier reference in this scope has already created the label.
        let (label, used) = match scope.open.remove(&name) {
            Some((label, span)) => (label, Some(span)),
            None => (self.function.body.labels.push(Label { name }), None),
        };
        scope.defined.insert(name, (label, span));
        self.function.labels.visible.entry(name).or_default().push(label);
        (label, used)
    }

    /// Closes a scope and passes its unresolved references to the enclosing scope.
    pub(super) fn close_label_scope(&mut self) {
        let labels = &mut self.function.labels;
        let Some(mut closing) = labels.scopes.pop() else { return };
        for name in closing.defined.keys() {
            labels.visible.get_mut(name).map(SmallVec::pop);
        }
        let Some(outer) = labels.scopes.last_mut() else {
            self.report_undefined(closing);
            return;
        };
        let settled = settle_defined(&mut closing.open, &outer.defined);
        labels.aliases.extend(settled);
        // Merge the smaller map into the larger one.
        if closing.open.len() > outer.open.len() {
            std::mem::swap(&mut closing.open, &mut outer.open);
        }
        for (name, (label, span)) in closing.open {
            match outer.open.get(&name) {
                Some(&(known, _)) => labels.aliases.push((label, known)),
                None => {
                    outer.open.insert(name, (label, span));
                }
            }
        }
    }

    /// Reports references that no enclosing scope resolves.
    fn report_undefined(&mut self, scope: LabelScope) {
        let mut open: Vec<(Name, Span)> = scope.open.into_iter().map(|(name, (_, span))| (name, span)).collect();
        if open.is_empty() {
            return;
        }
        open.sort_by_key(|&(_, span)| span);
        let mut known: Vec<Name> = scope.defined.keys().copied().collect();
        known.sort_by_key(|&name| self.module.names.resolve(name));
        known.truncate(1000);
        for (name, span) in open {
            if self.diagnostics.is_full() {
                return;
            }
            let text = self.module.names.resolve(name);
            let near =
                closest(text, known.iter().map(|&name| self.module.names.resolve(name))).map(|near| format!("did you mean `{near}`?"));
            let finding =
                Diagnostic::new(DiagnosticCode::UndefinedLabel, span, format!("label `{text}` is not defined in this scope or around it"))
                    .maybe_help(near);
            self.report(finding);
        }
    }

    /// Replaces provisional labels in operands by the labels they turned out to be.
    pub(super) fn settle_labels(&mut self) {
        let mut aliases = std::mem::take(&mut self.function.labels.aliases);
        if aliases.is_empty() {
            return;
        }
        // The target of an alias may have become an alias later, so process the newest first.
        let mut target: FxHashMap<LabelId, LabelId> = FxHashMap::default();
        while let Some((from, to)) = aliases.pop() {
            let to = target.get(&to).copied().unwrap_or(to);
            target.insert(from, to);
        }
        let settle = |operand: &mut Operand| {
            let Operand::Label(label) = operand else { return };
            if let Some(&known) = target.get(label) {
                *label = known;
            }
        };
        self.function.body.operands.iter_mut().for_each(settle);
        self.function.body.target_lists.iter_mut().flat_map(|list| &mut list.targets).for_each(settle);
    }
}

/// Removes the references that a scope defines and returns the pairs of provisional and defined label. Iterates over the smaller map.
fn settle_defined(open: &mut FxHashMap<Name, (LabelId, Span)>, defined: &FxHashMap<Name, (LabelId, Span)>) -> Vec<(LabelId, LabelId)> {
    if defined.len() < open.len() {
        let met = defined.iter().filter_map(|(name, &(known, _))| open.remove(name).map(|(label, _)| (label, known)));
        return met.collect();
    }
    let mut met = Vec::new();
    open.retain(|name, &mut (label, _)| match defined.get(name) {
        Some(&(known, _)) => {
            met.push((label, known));
            false
        }
        None => true,
    });
    met
}
