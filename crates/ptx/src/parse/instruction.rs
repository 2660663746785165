//! Parses instructions: guard, head and operands, and selects the form that matches the operands.

use smallvec::SmallVec;

use super::head::HeadId;
use super::matching::{MatchContext, match_form};
use super::operand::OperandFacts;
use super::{Parse, Parser};
use crate::ast::{FormShape, Function, GuardSource, Instruction, Operand, Parameter, PtxGuard, Statement, ValueType};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::lexer::TokenKind;
use crate::source::Span;
use crate::table::{Entity, Modifier, Opcode};
use crate::target::Unmet;
use crate::types::{ScalarType, StateSpace};

impl Parser<'_> {
    /// Parses an instruction with its guard, up to and including the `;`.
    pub(super) fn parse_instruction(&mut self) -> Parse<()> {
        let start = self.span();
        let guard = if self.at(b'@') { Some(self.parse_guard()?) } else { None };
        if guard.is_some() && (self.at(b'{') || self.lexer.token.kind == TokenKind::Directive) {
            // Parsing continues as if there were no guard.
            self.report(Diagnostic::new(DiagnosticCode::GuardNotAllowed, start.to(self.guard_end()), "only instructions can be guarded"));
            return Ok(());
        }
        if self.lexer.token.kind != TokenKind::Identifier {
            return self.unexpected("an instruction");
        }
        let (head, head_span) = self.parse_head()?;
        let instruction = match self.special_syntax(head) {
            Some(Entity::Calllist) => self.parse_call(head, head_span)?,
            Some(Entity::Branchlist) => self.parse_indexed_branch(head, head_span)?,
            _ => {
                self.parse_operands()?;
                self.expect_operands_end()?;
                let instruction = self.match_operands(head, head_span)?;
                if guard.is_some() {
                    self.check_guarded_parameter_access(instruction);
                }
                instruction
            }
        };
        let id = self.function.body.instructions.push(Instruction { guard, ..instruction });
        self.push_statement(Statement::Instruction(id), start);
        self.expect(b';', "the instruction")
    }

    fn guard_end(&self) -> Span {
        Span::new(self.lexer.last_end, self.lexer.last_end)
    }

    /// Reports trailing text on the same line before the operands are matched, because it is the more likely mistake.
    fn expect_operands_end(&mut self) -> Parse<()> {
        let gap = self.lexer.last_end as usize..self.span().start as usize;
        if self.at(b';') || self.at_end() || self.lexer.source()[gap].contains(&b'\n') {
            return Ok(());
        }
        if let (Some(last), true) =
            (self.scratch.operands.last(), self.lexer.is_adjacent() && self.lexer.token.kind == TokenKind::Directive)
        {
            // `threadIdx.x`: report the unknown name, not the text after it.
            if matches!(last.facts, OperandFacts::Unknown(_)) {
                let finding = self.unknown_name(last.span);
                return Err(self.report(finding));
            }
        }
        self.unexpected(if self.scratch.operands.is_empty() { "an operand or `;`" } else { "`,` or `;` after an operand" })
    }

    /// Parses `@p` or `@!p`.
    fn parse_guard(&mut self) -> Parse<PtxGuard> {
        self.lexer.advance();
        let negated = self.eat(b'!');
        let span = self.span();
        if self.lexer.token.kind != TokenKind::Identifier {
            return self.unexpected("a predicate");
        }
        let parsed = self.parse_operand()?;
        match parsed.facts {
            OperandFacts::Register { register, ty: ScalarType::Pred, negated: false, .. } => {
                Ok(PtxGuard { source: GuardSource::Register(register), negated })
            }
            OperandFacts::Special { register, negated: false } if register.row().ty == ScalarType::Pred => {
                Ok(PtxGuard { source: GuardSource::Special(register), negated })
            }
            OperandFacts::Unknown(_) => {
                let finding = self.unknown_name(span);
                Err(self.report(finding))
            }
            _ => {
                let label = self.describe(parsed);
                let finding = Diagnostic::new(DiagnosticCode::BadGuard, parsed.span, "a guard must be a predicate register").label(label);
                Err(self.report(finding.help("make a predicate with `setp`, for example `setp.ne.b32 %p1, %r1, 0`")))
            }
        }
    }

    /// Returns whether the head is `call` or `brx.idx`, whose operands have a grammar of their own.
    fn special_syntax(&self, head: HeadId) -> Option<Entity> {
        let form = &self.heads.get(head).forms.first()?.form;
        match &form.operands.first()?.shape {
            FormShape::Value(value) => match value.ty {
                ValueType::Entity(entity @ (Entity::Calllist | Entity::Branchlist)) => Some(entity),
                _ => None,
            },
            _ => None,
        }
    }

    /// Selects the form that matches the parsed operands, checks its requirements, and appends the operands to the body.
    pub(super) fn match_operands(&mut self, head: HeadId, head_span: Span) -> Parse<Instruction> {
        let count = self.scratch.operands.len();
        let forms = &self.heads.get(head).forms;
        let cx = MatchContext { scratch: &self.scratch, module: &self.module, names: &self.module.names };
        let found = forms.iter().position(|form| form.form.operands.len() == count && match_form(&form.form, &cx).is_ok());
        let Some(index) = found else {
            return Err(self.report_mismatch(head, head_span));
        };
        self.check_needs(head, index, head_span);
        self.check_parameter_access(head, index)?;
        let form = self.heads.number(head, index, &mut self.module.forms);
        self.heads_check_labels(head, index);
        let mut operands: SmallVec<[Operand; 8]> = SmallVec::new();
        for position in 0..count {
            let parsed = self.scratch.operands[position];
            operands.push(self.commit(parsed));
        }
        let body = &mut self.function.body;
        let first_operand = body.operands.len() as u32;
        body.operands.extend_from_slice(&operands);
        Ok(Instruction { form, first_operand, operand_count: operands.len() as u16, guard: None })
    }

    /// Checks that a function does not write its parameters or read its return value.
    fn check_parameter_access(&mut self, head: HeadId, index: usize) -> Parse<()> {
        let opcode = self.heads.get(head).forms[index].form.opcode;
        let address = match opcode {
            Opcode::Ld => self.scratch.operands[1],
            Opcode::St => self.scratch.operands[0],
            _ => return Ok(()),
        };
        let OperandFacts::Bracket { list, .. } = address.facts else { return Ok(()) };
        let OperandFacts::Variable { variable, .. } = self.scratch.list(list)[0].facts else { return Ok(()) };
        if self.module.variables[variable].space != StateSpace::Param {
            return Ok(());
        }
        let Some(function) = self.module.functions.as_slice().last() else { return Ok(()) };
        let listed = |parameters: &[Parameter]| parameters.contains(&Parameter::Variable(variable));
        if opcode == Opcode::St && listed(&function.parameters) {
            return self.error(DiagnosticCode::BadParameterAccess, address.span, "a function cannot write its own parameters");
        }
        if opcode == Opcode::Ld && listed(&function.returns) {
            return self.error(DiagnosticCode::BadParameterAccess, address.span, "a function cannot read its own return value");
        }
        Ok(())
    }

    /// Checks that an access to an argument or a result of a call has no guard: these accesses are a part of the call.
    fn check_guarded_parameter_access(&mut self, instruction: Instruction) {
        let opcode = self.module.forms[instruction.form].opcode;
        let address = match opcode {
            Opcode::Ld => self.scratch.operands[1],
            Opcode::St => self.scratch.operands[0],
            _ => return,
        };
        let OperandFacts::Bracket { list, .. } = address.facts else { return };
        let OperandFacts::Variable { variable, .. } = self.scratch.list(list)[0].facts else { return };
        let is_own = |function: &Function| {
            let own = Parameter::Variable(variable);
            function.parameters.contains(&own) || function.returns.contains(&own)
        };
        if self.module.variables[variable].space != StateSpace::Param || self.module.functions.as_slice().last().is_some_and(is_own) {
            return;
        }
        let name = self.module.name(self.module.variables[variable].name);
        let text = format!("`{}.param` of `{name}`, an argument or result of a call, cannot be guarded", opcode.spelling());
        let finding = Diagnostic::new(DiagnosticCode::GuardNotAllowed, address.span, text);
        self.report(finding.help("move the value with the guard, to or from a register, and access the parameter without one"));
    }

    /// Turns operands at label positions into label names. Labels may have the same name as variables and functions.
    fn heads_check_labels(&mut self, head: HeadId, index: usize) {
        let form = &self.heads.get(head).forms[index].form;
        for (position, operand) in form.operands.iter().enumerate() {
            let FormShape::Value(value) = &operand.shape else { continue };
            if value.ty != ValueType::Entity(Entity::Label) {
                continue;
            }
            let given = self.scratch.operands[position];
            let name = match given.facts {
                OperandFacts::Variable { variable, .. } => self.module.variables[variable].name,
                OperandFacts::Function { function, .. } => self.module.functions[function].name,
                _ => continue,
            };
            self.scratch.operands[position].facts = OperandFacts::Unknown(name);
        }
    }

    /// Reports the requirements of a form that the module does not meet.
    pub(super) fn check_needs(&mut self, head: HeadId, index: usize, head_span: Span) {
        let entry = &self.heads.get(head).forms[index];
        let opcode = entry.form.opcode.spelling();
        if entry.undocumented {
            let finding = Diagnostic::new(
                DiagnosticCode::Undocumented,
                head_span,
                format!("the manual does not have this form of `{opcode}`; ptxas takes it"),
            )
            .help(format!("the manual's form is `{}`", super::head::shape_of(entry.form.row()).replace(['{', '}'], "")));
            self.report(finding);
        }
        let entry = &self.heads.get(head).forms[index];
        let Some((unmet, culprit)) = entry.unmet else { return };
        let finding = self.explain_need(opcode, unmet, culprit, head_span);
        self.report(finding);
    }

    /// Builds the finding for an unmet requirement; names the modifier that causes it.
    fn explain_need(&self, opcode: &str, unmet: Unmet, culprit: Option<Modifier>, head_span: Span) -> Diagnostic {
        match culprit {
            Some(modifier) => {
                let span = self.modifier_span(head_span, modifier);
                self.unmet(&format!("`{opcode}` with `.{}`", modifier.spelling()), span, unmet)
            }
            None => {
                let finding = self.unmet(&format!("this form of `{opcode}`"), head_span, unmet);
                let replacement = format!("{opcode}.sync");
                let has_sync = crate::table::FAMILIES
                    .iter()
                    .any(|rows| rows.iter().any(|&row| crate::table::ROWS[usize::from(row)].opcode.spelling() == replacement));
                match unmet {
                    Unmet::Removed(_) if has_sync => finding.help(format!("write `{replacement}`, which names the threads that take part")),
                    _ => finding,
                }
            }
        }
    }
}
