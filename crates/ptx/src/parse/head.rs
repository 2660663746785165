//! Parses instruction heads such as `ld.global.v4.f32` as a whole.
//!
//! A program repeats a few hundred heads. Each distinct head is analysed once: it is split into modifiers, matched with the rows of the
//! table, and checked against version and target. The result is cached by the text of the head, so the second `ld.global.v4.f32` costs
//! one hash lookup. A head that matches no row is cached too, with the reason.

use oriole_support::{Index, closest, define_index};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::forms::{self, Misfit};
use super::{Parse, Parser};
use crate::ast::{Form, FormId, SlotValue};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::source::Span;
use crate::table::{Atom, FAMILY_NAMES, Modifier, ModifierSet, ROWS, Row, Slot, SlotSpec, may_fit, rows_of};
use crate::target::{Platform, Unmet};

define_index!(
    /// A distinct instruction head.
    pub struct HeadId,
    "head"
);

/// The result of analysing a distinct head.
pub(crate) struct Head {
    /// The possible forms; those that the platform supports and the manual documents are first.
    pub forms: Vec<HeadForm>,
    /// The reason why there is no form.
    problem: Option<Problem>,
    /// Whether the modifiers are in the order of some matching row.
    in_order: bool,
    /// A modifier that is repeated although once suffices.
    repeated: Option<Modifier>,
}

/// A form that a head may have.
pub(crate) struct HeadForm {
    pub form: Form,
    /// The index in the module, assigned at the first use.
    pub id: Option<FormId>,
    /// The requirement that the platform does not meet, and the modifier that causes it.
    pub unmet: Option<(Unmet, Option<Modifier>)>,
    /// Whether ptxas accepts the form although the manual does not document it.
    pub undocumented: bool,
}

/// The reason why a head has no form.
#[derive(Clone)]
enum Problem {
    UnknownOpcode,
    /// No instruction has the component at this index after the opcode.
    UnknownModifier(usize),
    /// The modifiers match no row; the closest row and the mismatch.
    Misfit(u16, Misfit),
}

/// Modifiers that ptxas accepts twice.
const REPEATABLE: &[Modifier] = &[Modifier::Approx, Modifier::Relu, Modifier::Sat, Modifier::Sync, Modifier::Uni];

/// The identity of a form: row, number of optional operands, modifiers.
type FormKey = (u16, u8, SmallVec<[(Slot, Modifier); 8]>);

/// Cache of analysed heads, and the numbers of forms in the module.
#[derive(Default)]
pub(crate) struct Heads {
    by_text: FxHashMap<Box<[u8]>, HeadId>,
    heads: Vec<Head>,
    numbers: FxHashMap<FormKey, FormId>,
}

impl Heads {
    pub fn get(&self, id: HeadId) -> &Head {
        &self.heads[id.position()]
    }

    /// Splits a head into modifiers and matches it with the rows of its opcode.
    fn analyse(text: &str, platform: &Platform) -> Head {
        let mut components = text.split('.');
        let opcode = components.next().unwrap_or_default();
        let failed = |problem| Head { forms: Vec::new(), problem: Some(problem), in_order: true, repeated: None };
        let Some(rows) = rows_of(opcode) else { return failed(Problem::UnknownOpcode) };
        let mut modifiers: SmallVec<[Modifier; 12]> = SmallVec::new();
        let mut written = ModifierSet::EMPTY;
        let mut repeated = None;
        for (position, component) in components.enumerate() {
            match Modifier::from_spelling(component) {
                Some(modifier) if REPEATABLE.contains(&modifier) && modifiers.contains(&modifier) => repeated = Some(modifier),
                Some(modifier) => {
                    modifiers.push(modifier);
                    written = written.with(modifier);
                }
                None => return failed(Problem::UnknownModifier(position)),
            }
        }
        let mut head = Head { forms: Vec::new(), problem: None, in_order: false, repeated };
        // The bit sets of `may_fit` reject most rows before the exact and slower match.
        for &row_index in rows.iter().filter(|&&row| may_fit(row, written)) {
            let row = &ROWS[usize::from(row_index)];
            let Ok(filled) = forms::fill(row, &modifiers) else { continue };
            head.in_order |= filled.in_order;
            let unmet = forms::unmet(row, &filled.values, platform);
            let undocumented = row.undocumented.iter().any(|condition| crate::ast::fulfils(&filled.values, condition));
            head.forms.extend(forms::forms_of(row_index, &filled.values).map(|form| HeadForm { form, id: None, unmet, undocumented }));
        }
        if head.forms.is_empty() {
            head.problem = nearest_misfit(rows, &modifiers).map(|(row, misfit)| Problem::Misfit(row, misfit));
        }
        // The parser takes the first form that matches the operands, so forms without an error or warning are first.
        head.forms.sort_by_key(|form| (form.unmet.is_some(), form.undocumented));
        head
    }

    /// Returns the index of a form in the module; adds the form to the module at its first use.
    pub fn number(&mut self, head: HeadId, index: usize, module_forms: &mut oriole_support::IndexVec<FormId, Form>) -> FormId {
        let entry = &mut self.heads[head.position()].forms[index];
        if let Some(id) = entry.id {
            return id;
        }
        let id = *self.numbers.entry(key_of(&entry.form)).or_insert_with(|| module_forms.push(entry.form.clone()));
        entry.id = Some(id);
        id
    }

    /// Returns the index of a form of another module in the module; adds the form if it is new.
    pub fn number_of(&mut self, form: &Form, module_forms: &mut oriole_support::IndexVec<FormId, Form>) -> FormId {
        *self.numbers.entry(key_of(form)).or_insert_with(|| module_forms.push(form.clone()))
    }
}

fn key_of(form: &Form) -> FormKey {
    (form.row, form.level, form.modifiers.iter().map(|value| (value.slot, value.modifier)).collect())
}

/// Returns the row that is closest to a match, if no row matches.
fn nearest_misfit(rows: &[u16], modifiers: &[Modifier]) -> Option<(u16, Misfit)> {
    let mut nearest: Option<(u16, Misfit)> = None;
    for &row in rows {
        match forms::fill(&ROWS[usize::from(row)], modifiers) {
            Err(misfit) if nearest.is_none_or(|(_, best)| misfit.nearness() > best.nearness()) => nearest = Some((row, misfit)),
            _ => {}
        }
    }
    nearest
}

impl Parser<'_> {
    /// Reads the head that starts at the current identifier and looks it up. Reports an error if it matches no row.
    pub(super) fn parse_head(&mut self) -> Parse<(HeadId, Span)> {
        self.lexer.extend_head();
        let mut span = self.span();
        self.lexer.advance();
        let id = if self.lexer.token.kind == crate::lexer::TokenKind::Directive {
            // The head contains blanks: `add .s32`.
            let mut text = self.lexer.slice(span).to_vec();
            while self.lexer.token.kind == crate::lexer::TokenKind::Directive {
                text.extend_from_slice(self.lexer.slice(self.span()));
                span = span.to(self.span());
                self.lexer.advance();
            }
            self.head_id(&text)
        } else {
            self.head_id(self.lexer.slice(span))
        };
        if self.at(b'.') {
            return self.error(DiagnosticCode::Expected, self.span(), "a modifier must follow the `.`");
        }
        let head = self.heads.get(id);
        match head.problem.clone() {
            Some(problem) => {
                let finding = self.explain_head(span, &problem);
                Err(self.report(finding))
            }
            None => {
                let (in_order, repeated) = (head.in_order, head.repeated);
                if !in_order {
                    self.warn_order(id, span);
                }
                if let Some(modifier) = repeated {
                    let message = format!("`.{}` is written twice", modifier.spelling());
                    let last = self.lexer.str(span).split('.').filter(|part| part.trim_end() == modifier.spelling()).count();
                    let place = self.nth_modifier_span(span, modifier, last.saturating_sub(1));
                    self.report(Diagnostic::new(DiagnosticCode::RepeatedModifier, place, message));
                }
                Ok((id, span))
            }
        }
    }

    /// Returns the cached head with this text; analyses it at the first use.
    fn head_id(&mut self, text: &[u8]) -> HeadId {
        if let Some(&id) = self.heads.by_text.get(text) {
            return id;
        }
        let head = Heads::analyse(std::str::from_utf8(text).unwrap_or_default(), &self.platform);
        let id = HeadId::new(self.heads.heads.len());
        self.heads.heads.push(head);
        self.heads.by_text.insert(text.into(), id);
        id
    }

    fn warn_order(&mut self, id: HeadId, span: Span) {
        let form = &self.heads.get(id).forms[0].form;
        let usual = spell(form.row(), &form.modifiers);
        let finding = Diagnostic::new(DiagnosticCode::ModifierOrder, span, "the modifiers are not in the manual's order")
            .help(format!("the usual spelling is `{usual}`"));
        self.report(finding);
    }

    /// Returns the span of a component of a head; component 0 is the opcode.
    pub(super) fn component_span(&self, head: Span, position: usize) -> Span {
        let text = self.lexer.slice(head);
        let mut start = 0;
        for (index, part) in text.split(|&byte| byte == b'.').enumerate() {
            let end = start + part.len();
            if index == position {
                let dot = usize::from(index > 0);
                let length = part.trim_ascii_end().len();
                return Span::new(head.start + (start - dot) as u32, head.start + (start + length) as u32);
            }
            start = end + 1;
        }
        head
    }

    /// Returns the span of a modifier in a head; the whole head if the modifier is not found.
    pub(super) fn modifier_span(&self, head: Span, modifier: Modifier) -> Span {
        self.nth_modifier_span(head, modifier, 0)
    }

    fn nth_modifier_span(&self, head: Span, modifier: Modifier, nth: usize) -> Span {
        let text = self.lexer.str(head);
        let mut places = text.split('.').enumerate().filter(|(_, part)| part.trim_end() == modifier.spelling());
        match places.nth(nth) {
            Some((position, _)) => self.component_span(head, position),
            None => head,
        }
    }

    /// Builds the finding for a head without a form.
    fn explain_head(&self, span: Span, problem: &Problem) -> Diagnostic {
        let text = self.lexer.str(span);
        let opcode = text.split('.').next().unwrap_or_default().trim_end();
        match *problem {
            Problem::UnknownOpcode => {
                let near = closest(&opcode.to_ascii_lowercase(), FAMILY_NAMES.iter().copied());
                let finding = Diagnostic::new(
                    DiagnosticCode::UnknownInstruction,
                    self.component_span(span, 0),
                    format!("no instruction is called `{opcode}`"),
                );
                finding.maybe_help(near.map(|near| format!("did you mean `{near}`?")))
            }
            Problem::UnknownModifier(position) => {
                let place = self.component_span(span, position + 1);
                let word = self.lexer.str(place).trim_start_matches('.');
                let near = closest(word, legal_modifiers(opcode)).or_else(|| closest(word, Modifier::ALL.iter().map(|m| m.spelling())));
                Diagnostic::new(DiagnosticCode::UnknownModifier, place, format!("no instruction has a modifier `.{word}`"))
                    .maybe_help(near.map(|near| format!("did you mean `.{near}`?")))
            }
            Problem::Misfit(row, misfit) => self.explain_misfit(span, opcode, &ROWS[usize::from(row)], misfit),
        }
    }

    /// Builds the finding for modifiers that match no row; `row` is the closest one.
    fn explain_misfit(&self, span: Span, opcode: &str, row: &'static Row, misfit: Misfit) -> Diagnostic {
        let shape = format!("the manual's form is `{}` (section {})", shape_of(row), row.section);
        match misfit {
            Misfit::NotAllowed(position) => {
                let place = self.component_span(span, position + 1);
                let word = self.lexer.str(place).trim_start_matches('.');
                let near = closest(word, legal_modifiers(opcode).filter(|&legal| legal != word));
                let legal_elsewhere = legal_modifiers(opcode).any(|legal| legal == word);
                let message = if legal_elsewhere {
                    format!("`.{word}` does not go with the other modifiers of this `{opcode}`")
                } else {
                    format!("`{opcode}` has no modifier `.{word}`")
                };
                Diagnostic::new(DiagnosticCode::ModifierNotAllowed, place, message)
                    .note(shape)
                    .maybe_help(near.filter(|_| !legal_elsewhere).map(|near| format!("did you mean `.{near}`?")))
            }
            Misfit::Duplicate(position) => {
                let place = self.component_span(span, position + 1);
                let word = self.lexer.str(place);
                Diagnostic::new(DiagnosticCode::DuplicateModifier, place, format!("`{word}` repeats a modifier of the same kind"))
                    .note(shape)
            }
            Misfit::Missing(_) => self.explain_missing(span, opcode, shape),
            Misfit::Denied(condition) => {
                let names: Vec<String> = condition.iter().filter_map(|atom| self.describe_atom(span, atom)).collect();
                let absent: Vec<String> = condition.iter().filter_map(describe_absent).collect();
                let place = condition.iter().rev().find_map(present).map_or(span, |modifier| self.modifier_span(span, modifier));
                let message = match &absent[..] {
                    [needed] if names.len() > 1 => {
                        let there = condition.iter().filter(|atom| describe_absent(atom).is_none());
                        let there: Vec<String> = there.filter_map(|atom| self.describe_atom(span, atom)).collect();
                        format!("{} in `{opcode}` needs {needed}", there.join(" with "))
                    }
                    _ => format!("{} cannot go together in `{opcode}`", names.join(" and ")),
                };
                Diagnostic::new(DiagnosticCode::ModifierConflict, place, message).note(shape)
            }
        }
    }

    /// Explains a missing modifier. Rows differ in the modifier they miss, so the suggestions come from all rows that miss only one.
    fn explain_missing(&self, span: Span, opcode: &str, shape: String) -> Diagnostic {
        let modifiers: Vec<Modifier> =
            self.lexer.str(span).split('.').skip(1).filter_map(|part| Modifier::from_spelling(part.trim_end())).collect();
        let rows = rows_of(opcode).unwrap_or(&[]).iter().map(|&row| &ROWS[usize::from(row)]);
        let lacking: Vec<&SlotSpec> = rows
            .filter_map(|row| match forms::fill(row, &modifiers) {
                Err(Misfit::Missing(slot)) => Some(&row.slots[slot]),
                _ => None,
            })
            .collect();
        let mut values: Vec<Modifier> = Vec::new();
        for &value in lacking.iter().flat_map(|slot| slot.values) {
            if !values.contains(&value) {
                values.push(value);
            }
        }
        if let [only] = values[..] {
            return Diagnostic::new(DiagnosticCode::MissingModifier, span, format!("`{opcode}` lacks the modifier `.{}`", only.spelling()))
                .note(shape);
        }
        let of_one_kind = lacking.iter().all(|slot| slot.slot == lacking[0].slot && slot.slot != Slot::Fixed);
        let finding = match lacking.first() {
            Some(slot) if of_one_kind => {
                let message = format!("`{opcode}` lacks its `.{}` modifier", slot.slot.spelling());
                Diagnostic::new(DiagnosticCode::MissingModifier, span, message).note(shape)
            }
            _ => Diagnostic::new(DiagnosticCode::MissingModifier, span, format!("`{opcode}` lacks a modifier")),
        };
        finding.help(format!("add one of {}", list_values(&values)))
    }

    /// Describes one test of a denied combination; `None` never occurs for the existing variants.
    fn describe_atom(&self, span: Span, atom: &Atom) -> Option<String> {
        let text = self.lexer.str(span);
        let written =
            |values: &[Modifier]| values.iter().find(|value| text.split('.').any(|part| part.trim_end() == value.spelling())).copied();
        Some(match *atom {
            Atom::Has(modifier) => format!("`.{}`", modifier.spelling()),
            Atom::Lacks(modifier) => format!("a missing `.{}`", modifier.spelling()),
            Atom::SlotIs(_, values) => format!("`.{}`", written(values).unwrap_or(values[0]).spelling()),
            Atom::SlotIsNot(_, values) => {
                let list: Vec<String> = values.iter().map(|value| format!("`.{}`", value.spelling())).collect();
                format!("anything but {}", list.join(", "))
            }
            Atom::Filled(slot) => format!("a `.{}` modifier", slot.spelling()),
            Atom::Empty(slot) => format!("a missing `.{}` modifier", slot.spelling()),
        })
    }
}

/// Returns the modifiers that would make a negative test false: the missing modifier or one of the other values.
fn describe_absent(atom: &Atom) -> Option<String> {
    match *atom {
        Atom::Lacks(modifier) => Some(format!("`.{}`", modifier.spelling())),
        Atom::SlotIsNot(_, values) => {
            let list: Vec<String> = values.iter().map(|value| format!("`.{}`", value.spelling())).collect();
            Some(list.join(" or "))
        }
        Atom::Empty(slot) => Some(format!("a `.{}` modifier", slot.spelling())),
        _ => None,
    }
}

/// Returns the modifier whose presence a test requires, if there is exactly one.
fn present(atom: &Atom) -> Option<Modifier> {
    match *atom {
        Atom::Has(modifier) => Some(modifier),
        Atom::SlotIs(_, [only]) => Some(*only),
        _ => None,
    }
}

/// Returns all modifiers in the rows of an opcode.
fn legal_modifiers(opcode: &str) -> impl Iterator<Item = &'static str> {
    let rows = rows_of(opcode).unwrap_or(&[]);
    rows.iter().flat_map(|&row| ROWS[usize::from(row)].slots).flat_map(|slot| slot.values).map(|modifier| modifier.spelling())
}

fn list_values(values: &[Modifier]) -> String {
    const SHOWN: usize = 16;
    let mut list: Vec<String> = values.iter().take(SHOWN).map(|value| format!("`.{}`", value.spelling())).collect();
    if values.len() > SHOWN {
        list.push(format!("and {} more", values.len() - SHOWN));
    }
    list.join(", ")
}

/// Returns the head of a row in the notation of the manual.
pub(crate) fn shape_of(row: &Row) -> String {
    let first = row.opcode.spelling().split('.').next().unwrap_or_default();
    let mut text = String::from(first);
    let mut group = 0;
    for slot in row.slots {
        if slot.group != group {
            text.push_str(if group != 0 { "}" } else { "" });
            text.push_str(if slot.group != 0 { "{" } else { "" });
            group = slot.group;
        }
        text.push('.');
        text.push_str(match slot.slot {
            Slot::Fixed => slot.values[0].spelling(),
            named => named.spelling(),
        });
    }
    if group != 0 {
        text.push('}');
    }
    text
}

/// Returns a head with its modifiers in the order of the manual.
pub(crate) fn spell(row: &Row, modifiers: &[SlotValue]) -> String {
    let first = row.opcode.spelling().split('.').next().unwrap_or_default();
    modifiers.iter().fold(String::from(first), |text, value| text + "." + value.modifier.spelling())
}
