//! Explains why operands do not match. This is the cold path of `matching.rs`.

use super::head::{HeadId, shape_of};
use super::matching::{MatchContext, Mismatch, Reason, match_form};
use super::operand::{OperandFacts, ParsedOperand};
use super::{Parser, Reported};
use crate::ast::{Form, FormShape, FormValue, TextureMode, ValueType, VariableType};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::source::Span;
use crate::table::{ImmediateRange, Opcode, SPECIAL_REGISTERS, Selectors};
use crate::types::{AddressSpace, ScalarType};
use oriole_support::closest;

impl Parser<'_> {
    /// Reports why no form of a head accepts the parsed operands. The explanation follows the form that matched longest.
    pub(super) fn report_mismatch(&mut self, head: HeadId, head_span: Span) -> Reported {
        let given = self.scratch.operands.len();
        let forms = &self.heads.get(head).forms;
        let counts: Vec<usize> = {
            let mut counts: Vec<usize> = forms.iter().map(|form| form.form.operands.len()).collect();
            counts.sort_unstable();
            counts.dedup();
            counts
        };
        if !counts.contains(&given) {
            let form = forms[0].form.clone();
            let finding = self.wrong_count(head_span, &form, &counts);
            return self.report(finding);
        }
        let cx = MatchContext { scratch: &self.scratch, module: &self.module, names: &self.module.names };
        let candidates = forms.iter().filter(|form| form.form.operands.len() == given);
        let nearest = candidates
            .filter_map(|form| match_form(&form.form, &cx).err().map(|mismatch| (&form.form, mismatch)))
            .max_by_key(|(_, mismatch)| (mismatch.operand, mismatch.reason.nearness()));
        match nearest.map(|(form, mismatch)| (form.clone(), mismatch)) {
            Some((form, mismatch)) => {
                let finding = match mismatch.reason {
                    Reason::VectorLength(_) => self.wrong_length(head, &form, mismatch),
                    Reason::ImmediateRange(ImmediateRange::OneOf(_)) => self.wrong_constant(head, &form, mismatch),
                    _ => self.explain_mismatch(&form, mismatch),
                };
                self.report(finding)
            }
            None => Reported,
        }
    }

    fn wrong_count(&self, head: Span, form: &Form, counts: &[usize]) -> Diagnostic {
        let opcode = form.opcode.spelling();
        let given = self.scratch.operands.len();
        let list: Vec<String> = counts.iter().map(ToString::to_string).collect();
        let plural = if counts == [1] { "" } else { "s" };
        let place = match (counts.last(), self.scratch.operands.last()) {
            (Some(&most), Some(last)) if given > most => self.scratch.operands[most].span.to(last.span),
            _ => head,
        };
        Diagnostic::new(
            DiagnosticCode::OperandCount,
            place,
            format!("`{opcode}` takes {} operand{plural}, found {given}", list.join(" or ")),
        )
        .help(format!("its form is `{}`", written_form(form)))
    }

    /// Returns the reasons for which the forms with the same number of operands reject the operand at `position`.
    fn reasons_at(&self, head: HeadId, form: &Form, position: usize) -> Vec<Reason> {
        let forms = &self.heads.get(head).forms;
        let cx = MatchContext { scratch: &self.scratch, module: &self.module, names: &self.module.names };
        let same_count = forms.iter().filter(|other| other.form.operands.len() == form.operands.len());
        let refusals = same_count.filter_map(|other| match_form(&other.form, &cx).err());
        refusals.filter(|refusal| refusal.operand == position).map(|refusal| refusal.reason).collect()
    }

    /// Reports a constant that is not allowed, and lists the values that any form of the head allows.
    fn wrong_constant(&self, head: HeadId, form: &Form, mismatch: Mismatch) -> Diagnostic {
        let mut values: Vec<i64> = Vec::new();
        for reason in self.reasons_at(head, form, mismatch.operand) {
            if let Reason::ImmediateRange(ImmediateRange::OneOf(more)) = reason {
                values.extend(more.iter().copied());
            }
        }
        values.sort_unstable();
        values.dedup();
        let what = format!("operand {} of `{}`", operand_name(form, mismatch.operand), form.opcode.spelling());
        let list: Vec<String> = values.iter().map(ToString::to_string).collect();
        let finding = Diagnostic::new(DiagnosticCode::ImmediateRange, mismatch.part.span, format!("{what} must be {}", list.join(" or ")));
        in_ptxas_words(finding, form.opcode, mismatch)
    }

    /// Reports a vector of the wrong length, and lists the lengths that any form of the head allows.
    fn wrong_length(&self, head: HeadId, form: &Form, mismatch: Mismatch) -> Diagnostic {
        let length = |reason| match reason {
            Reason::VectorLength(length) => Some(length),
            _ => None,
        };
        let mut lengths: Vec<u16> = self.reasons_at(head, form, mismatch.operand).into_iter().filter_map(length).collect();
        lengths.sort_unstable();
        lengths.dedup();
        let plural = if lengths == [1] { "" } else { "s" };
        let list: Vec<String> = lengths.iter().map(ToString::to_string).collect();
        let what = format!("operand {} of `{}`", operand_name(form, mismatch.operand), form.opcode.spelling());
        let given = self.lanes_of(mismatch.part);
        let message = format!("{what} must be a vector of {} element{plural}, found {given}", list.join(" or "));
        Diagnostic::new(DiagnosticCode::VectorLength, mismatch.part.span, message)
    }

    /// Builds the finding for the first operand that does not match a form.
    fn explain_mismatch(&self, form: &Form, mismatch: Mismatch) -> Diagnostic {
        let Mismatch { operand, part, reason } = mismatch;
        let opcode = form.opcode.spelling();
        let name = operand_name(form, operand);
        let span = part.span;
        let what = format!("operand {name} of `{opcode}`");
        let new = |code, message: String| Diagnostic::new(code, span, message);
        match reason {
            Reason::Kind(wanted) => new(DiagnosticCode::OperandKind, format!("{what} must be {wanted}")).label(self.describe(part)),
            Reason::Type(wanted) => self.wrong_type(&what, part, wanted),
            Reason::BracketCount => new(DiagnosticCode::OperandKind, format!("{what} has too few or too many parts inside the brackets"))
                .help(format!("its form is `{}`", written_form(form))),
            Reason::ImmediateType(wanted) => self.wrong_immediate_type(&what, part, wanted),
            Reason::ImmediateRange(range) => in_ptxas_words(
                new(DiagnosticCode::ImmediateRange, format!("{what} must be {}", describe_range(range))),
                form.opcode,
                mismatch,
            ),
            Reason::ImmediateRequired => {
                new(DiagnosticCode::ImmediateRequired, format!("{what} must be a constant")).label(self.describe(part))
            }
            Reason::RegisterRequired if writes(form, operand) => {
                new(DiagnosticCode::RegisterRequired, format!("{what} must be a register, since it takes the result"))
                    .label(self.describe(part))
            }
            Reason::RegisterRequired => new(DiagnosticCode::RegisterRequired, format!("{what} must be a register"))
                .label(self.describe(part))
                .help("move the constant into a register first"),
            Reason::NumberNextToComponent => new(
                DiagnosticCode::RegisterRequired,
                format!("a vector for {what} cannot have both a number and a component of a vector register"),
            )
            .label(self.describe(part))
            .help("move the constant into a register first"),
            Reason::VectorLength(wanted) => new(DiagnosticCode::VectorLength, format!("{what} must be a vector of {wanted}")),
            Reason::VectorNotAllowed => new(DiagnosticCode::OperandKind, format!("{what} must be a scalar"))
                .label(self.describe(part))
                .help("name one element, such as `.x`, or a scalar register"),
            Reason::Sink => new(DiagnosticCode::SinkNotAllowed, format!("{what} cannot be `_`")),
            Reason::Special if writes(form, operand) => {
                new(DiagnosticCode::SpecialRegisterNotAllowed, format!("{what} cannot be a special register, since they are only read"))
            }
            Reason::Special => new(DiagnosticCode::SpecialRegisterNotAllowed, format!("{what} cannot be a special register"))
                .help("read the special register with `mov` first"),
            Reason::Negation => new(DiagnosticCode::NegationNotAllowed, format!("{what} cannot be negated")),
            Reason::Selector => self.wrong_selector(&what, form, operand, span),
            Reason::Component => new(DiagnosticCode::BadComponent, format!("{what} must be one component of the special register"))
                .help("add `.x`, `.y` or `.z`"),
            Reason::Pair => new(DiagnosticCode::PairNotAllowed, format!("{what} must be a single register, not a pair `a|b`")),
            Reason::PairMissing => new(DiagnosticCode::OperandKind, format!("{what} must be a pair `a|b`")),
            Reason::Space(space) => {
                let declared = match part.facts {
                    OperandFacts::Variable { variable, .. } => {
                        let variable = &self.module.variables[variable];
                        format!("`{}` is in `{}`", self.module.name(variable.name), variable.space.spelling())
                    }
                    _ => self.describe(part),
                };
                new(DiagnosticCode::AddressSpaceMismatch, format!("{what} must be an address in {}", space_name(space))).label(declared)
            }
            Reason::AddressRegister(space) => {
                let widths = address_register_widths(space);
                new(DiagnosticCode::AddressRegisterType, format!("an address in {} needs a {widths} integer register", space_name(space)))
                    .label(self.describe(part))
            }
            Reason::AddressNumber => {
                new(DiagnosticCode::ImmediateAddress, format!("{what} cannot be a number: only local memory has absolute addresses"))
            }
            Reason::SymbolNotAllowed => new(DiagnosticCode::OperandKind, format!("{what} cannot be the name of a variable or function"))
                .help("take its address with `mov` first"),
            Reason::UnknownName => self.unknown_name(span),
            Reason::TextureMode if self.module.options.texture_mode == Some(TextureMode::Independent) => {
                new(DiagnosticCode::TextureModeConflict, format!("`{opcode}` names a sampler in independent texture mode"))
                    .help("write `[texture, sampler, coordinates]`")
            }
            Reason::TextureMode => new(DiagnosticCode::TextureModeConflict, format!("`{opcode}` names no sampler in unified texture mode"))
                .help("leave the sampler out, or write `.target ..., texmode_independent`"),
            Reason::NarrowAddress => {
                new(DiagnosticCode::AddressRegisterType, "the address of a `.global` variable has 64 bits".to_string())
                    .help("write `mov.u64` and a 64-bit register")
            }
            Reason::MixedVector => new(DiagnosticCode::OperandType, format!("the elements of {what} do not go together"))
                .label(self.describe(part))
                .help("all registers of a vector have the same width and kind"),
            Reason::FunctionOffset => new(DiagnosticCode::BadAddress, "the address of a function takes no offset".to_string()),
            Reason::Unified => new(DiagnosticCode::BadAddress, format!("{what} cannot be marked `.unified`")),
        }
    }

    /// Returns the finding for an undeclared name, with the closest declared name as a suggestion.
    pub(super) fn unknown_name(&self, span: Span) -> Diagnostic {
        let text = self.lexer.str(span);
        let text = text.split(['+', '[']).next().unwrap_or(text).trim();
        let span = Span::new(span.start, span.start + text.len() as u32);
        let finding = Diagnostic::new(DiagnosticCode::UnknownName, span, format!("`{text}` is not declared"));
        let stem = text.trim_end_matches(|c: char| c.is_ascii_digit());
        let body = &self.function.body;
        let range = body.registers.iter().rev().find(|declared| declared.count.is_some() && self.module.name(declared.name) == stem);
        if let Some(count) = range.and_then(|declared| declared.count) {
            return finding.help(match count {
                0 => format!("`{stem}<0>` declares no register"),
                _ => format!("`{stem}<{count}>` declares `{stem}0` to `{stem}{}`", count - 1),
            });
        }
        if let Some((_, special)) = CUDA_NAMES.iter().find(|(name, _)| *name == text) {
            return finding.help(format!("PTX calls it `{special}`"));
        }
        // Suggestions for short names are useless: almost any two of them are close.
        if text.trim_start_matches('%').len() < 3 {
            return finding;
        }
        let registers = body
            .registers
            .iter()
            .rev()
            .take(200)
            .filter(|declared| declared.count.is_none())
            .map(|declared| self.module.name(declared.name));
        let variables = self.module.variables.as_slice().iter().rev().take(500).map(|variable| self.module.name(variable.name));
        let functions = self.module.functions.as_slice().iter().rev().take(500).map(|function| self.module.name(function.name));
        let special = SPECIAL_REGISTERS.iter().map(|row| row.name).filter(|_| text.starts_with('%'));
        let near = closest(text, registers.chain(variables).chain(functions).chain(special).filter(|&name| name != text));
        finding.maybe_help(near.map(|near| format!("did you mean `{near}`?")))
    }

    /// Builds the finding for a constant of the wrong type, with a suggestion how to write it.
    fn wrong_immediate_type(&self, what: &str, part: ParsedOperand, wanted: ScalarType) -> Diagnostic {
        let message = format!("{what} must have type `.{}`", spelling(wanted));
        let finding = Diagnostic::new(DiagnosticCode::ImmediateType, part.span, message).label(self.describe(part));
        match (part.facts, wanted) {
            (OperandFacts::Integer { value, .. }, ScalarType::F32) => {
                finding.help(format!("write it as a float: `{value}.0` or `0f{:08X}`", (value as f32).to_bits()))
            }
            (OperandFacts::Integer { value, .. }, ScalarType::F64) => {
                finding.help(format!("write it as a float: `{value}.0` or `0d{:016X}`", (value as f64).to_bits()))
            }
            (OperandFacts::Float(_), ScalarType::B32) => finding.help("write the bits as `0f` and 8 hexadecimal digits"),
            (OperandFacts::Float(_), _) => finding.help("an integer constant is needed here"),
            _ => finding.help("put it into a register first"),
        }
    }

    fn wrong_selector(&self, what: &str, form: &Form, operand: usize, span: Span) -> Diagnostic {
        let text = self.lexer.str(span);
        let (name, word) = text.split_once('.').unwrap_or((text, ""));
        let has_selectors = matches!(&form.operands[operand].shape, FormShape::Value(value) if value.spec.selectors != Selectors::None);
        if has_selectors {
            return Diagnostic::new(DiagnosticCode::BadSelector, span, format!("{what} has no selector `.{word}`"));
        }
        let finding = Diagnostic::new(DiagnosticCode::BadSelector, span, format!("{what} must be a whole register, not a part of one"));
        match word {
            "x" | "y" | "z" | "w" => finding.help(format!("`{name}` is not a vector")),
            _ => finding.help("only the video instructions, such as `vadd`, can select bytes and half words"),
        }
    }

    /// Builds the finding for a register of the wrong type, with a suggestion.
    fn wrong_type(&self, what: &str, part: ParsedOperand, wanted: ScalarType) -> Diagnostic {
        let finding = Diagnostic::new(DiagnosticCode::OperandType, part.span, format!("{what} must have type `.{}`", spelling(wanted)))
            .label(self.describe(part));
        let given = match part.facts {
            OperandFacts::Register { ty, .. }
            | OperandFacts::Element { ty, .. }
            | OperandFacts::Selected { ty, .. }
            | OperandFacts::AddressRegister { ty, .. } => ty,
            _ => return finding,
        };
        if given == ScalarType::Pred || wanted == ScalarType::Pred {
            finding
        } else if given.bits() != wanted.bits() {
            finding.help(format!("use a register of {} bits instead of {}, or convert the value with `cvt`", wanted.bits(), given.bits()))
        } else {
            finding.help(format!(
                "declare the register as `.b{0}`, which fits every type of {0} bits, or move the value with `mov.b{0}`",
                wanted.bits()
            ))
        }
    }

    fn lanes_of(&self, part: ParsedOperand) -> String {
        match part.facts {
            OperandFacts::Vector(list) => self.scratch.list(list).len().to_string(),
            OperandFacts::Register { lanes, .. } if lanes > 1 => lanes.to_string(),
            _ => "a scalar".to_string(),
        }
    }

    /// Describes an operand in words.
    pub(super) fn describe(&self, part: ParsedOperand) -> String {
        match part.facts {
            OperandFacts::Register { ty, lanes: 1, .. }
            | OperandFacts::Element { ty, .. }
            | OperandFacts::Selected { ty, .. }
            | OperandFacts::AddressRegister { ty, .. } => {
                format!("this is a `.{}` register", spelling(ty))
            }
            OperandFacts::Register { ty, lanes, .. } => format!("this is a `.v{lanes} .{}` register", spelling(ty)),
            OperandFacts::Special { register, .. } => {
                format!("`{}` is a `.{}` special register", register.row().name, spelling(register.row().ty))
            }
            OperandFacts::Integer { .. } | OperandFacts::WarpSize | OperandFacts::AddressNumber(_) => {
                "this is an integer constant".to_string()
            }
            OperandFacts::Float(_) => "this is a float constant".to_string(),
            OperandFacts::Sink => "this discards the result".to_string(),
            OperandFacts::Variable { variable, offset, .. } => {
                let kind = match self.module.variables[variable].ty {
                    VariableType::Texture => "texture",
                    VariableType::Sampler => "sampler",
                    VariableType::Surface => "surface",
                    VariableType::Scalar(_) => return "this is a variable".to_string(),
                };
                format!("this is a {kind}{}", if matches!(offset, None | Some(0)) { "" } else { " with an offset" })
            }
            OperandFacts::Function { .. } => "this is a function".to_string(),
            OperandFacts::Unknown(_) => "this name is not declared".to_string(),
            OperandFacts::Vector(list) => format!("this is a vector of {}", self.scratch.list(list).len()),
            OperandFacts::Pair(_) => "this is a pair".to_string(),
            OperandFacts::Bracket { .. } => "this is an address".to_string(),
        }
    }
}

pub(super) fn spelling(ty: ScalarType) -> String {
    format!("{ty:?}").to_ascii_lowercase()
}

fn space_name(space: AddressSpace) -> String {
    match space {
        AddressSpace::Generic | AddressSpace::Any => "generic space".to_string(),
        AddressSpace::ParamEntry => "`.param::entry`".to_string(),
        AddressSpace::ParamFunc => "`.param::func`".to_string(),
        AddressSpace::SharedCta => "`.shared::cta`".to_string(),
        AddressSpace::SharedCluster => "`.shared::cluster`".to_string(),
        AddressSpace::Tmem => "tensor memory".to_string(),
        other => format!("`.{}`", format!("{other:?}").to_ascii_lowercase()),
    }
}

fn describe_range(range: ImmediateRange) -> String {
    match range {
        ImmediateRange::Between(first, last) => format!("between {first} and {last}"),
        ImmediateRange::OneOf(values) => {
            let list: Vec<String> = values.iter().map(ToString::to_string).collect();
            list.join(" or ")
        }
        ImmediateRange::MultipleOf(factor) => format!("a multiple of {factor}"),
    }
}

/// CUDA's names of special registers.
const CUDA_NAMES: &[(&str, &str)] =
    &[("threadIdx", "%tid"), ("blockIdx", "%ctaid"), ("blockDim", "%ntid"), ("gridDim", "%nctaid"), ("warpSize", "WARP_SZ")];

fn writes(form: &Form, position: usize) -> bool {
    match &form.operands[position].shape {
        FormShape::Value(value) => value.spec.writes,
        FormShape::Pair { first, .. } => first.spec.writes,
        FormShape::Bracket { .. } => false,
    }
}

/// Returns a form in the notation of the manual.
fn written_form(form: &Form) -> String {
    format!("{} {}", shape_of(form.row()), operand_names(form)).trim_end().to_string()
}

/// Returns the manual's name of an operand, or its number.
fn operand_name(form: &Form, position: usize) -> String {
    match form.operands.get(position).map(|operand| &operand.shape) {
        Some(FormShape::Value(value)) => format!("`{}`", value.spec.name),
        Some(FormShape::Pair { first, second, .. }) => format!("`{}|{}`", first.spec.name, second.spec.name),
        Some(FormShape::Bracket { .. }) | None => format!("{}", position + 1),
    }
}

/// Returns the operands of a form in the notation of the manual.
pub(super) fn operand_names(form: &Form) -> String {
    let value = |value: &FormValue| match (value.lanes, value.ty) {
        (Some(lanes), ValueType::Scalar(_)) => format!("{{{} x {lanes}}}", value.spec.name),
        _ => value.spec.name.to_string(),
    };
    let names: Vec<String> = form
        .operands
        .iter()
        .map(|operand| match &operand.shape {
            FormShape::Value(one) => value(one),
            FormShape::Pair { first, second, optional: true } => format!("{}[|{}]", value(first), value(second)),
            FormShape::Pair { first, second, .. } => format!("{}|{}", value(first), value(second)),
            FormShape::Bracket { rest, .. } => {
                let rest: String = rest.iter().map(|part| format!(", {}", value(part))).collect();
                format!("[a{rest}]")
            }
        })
        .collect();
    names.join(", ")
}

/// Adds ptxas' message for a constant that exceeds a hardware limit.
fn in_ptxas_words(finding: Diagnostic, opcode: Opcode, mismatch: Mismatch) -> Diagnostic {
    let OperandFacts::Integer { value, .. } = mismatch.part.facts else { return finding };
    let value = value as u64;
    let words = match (opcode, mismatch.operand) {
        (Opcode::Bar | Opcode::Barrier, 0) => format!("Barrier number '{value}' out of range, expected to be in range [0..15]"),
        (Opcode::Alloca, 2) if (value as u32).is_power_of_two() => "Alignment value too large, exceeds 2^23".to_owned(),
        (Opcode::Alloca, 2) => "Alignment must be a power of two".to_owned(),
        _ => return finding,
    };
    let span = finding.span;
    finding.ptxas(span, [words])
}

/// Returns the widths, in words, that a register with an address in the space may have.
fn address_register_widths(space: AddressSpace) -> &'static str {
    if space == AddressSpace::Tmem {
        "32-bit"
    } else if space.takes_32_bit_addresses() {
        "32-bit or 64-bit"
    } else {
        "64-bit"
    }
}
