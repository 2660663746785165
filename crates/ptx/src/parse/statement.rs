//! Parses function bodies: declarations, labels, scopes and instructions.

use super::labels::LabelKind;
use super::pragma::PragmaPlace;
use super::specifiers::{at_least, needs, place_of};
use super::{Parse, Parser, Reported};
use crate::ast::{CallPrototype, FunctionKind, LabelList, Linkage, Operand, Statement};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::lexer::{BadToken, TokenKind};
use crate::source::Span;
use crate::target::Requirement;

/// Limit on the nesting of scopes.
const DEEPEST_SCOPE: u32 = 100_000;

/// Limit on the number of labels that `A<N>` in lists of targets stands for in one function.
const MOST_COUNTED_TARGETS: u32 = 1 << 20;

// ptxas accepts these from 5.1 on; the manual says 6.0. The same is true of everything that 6.0 introduced.
static BRANCH_TARGETS: Requirement = needs(5, 1, &[at_least(30)]);
static INDIRECT_CALLS: Requirement = needs(2, 1, &[at_least(20)]);

impl Parser<'_> {
    pub(super) fn push_statement(&mut self, statement: Statement, start: Span) {
        let body = &mut self.function.body;
        body.statements.push(statement);
        body.positions.0.push(start.start);
    }

    /// Parses a body from its `{` to its `}` and returns the position of the `}`. The scope of the parameters, already open, is that of
    /// the body.
    pub(super) fn parse_body(&mut self) -> Span {
        let open = self.span();
        let mut close = open;
        self.lexer.advance();
        self.function.labels.open_scope();
        let mut scopes: Vec<Span> = Vec::new();
        loop {
            if self.diagnostics.is_full() {
                self.lexer.finish();
            }
            match self.lexer.token.kind {
                TokenKind::End => {
                    let innermost = scopes.last().copied().unwrap_or(open);
                    if !self.diagnostics.is_full() && !self.diagnostics.explains_end() {
                        let end = self.span();
                        let finding = Diagnostic::new(DiagnosticCode::UnexpectedEnd, end, "the file ends inside a function")
                            .related(innermost, "this `{` is not closed");
                        self.report(finding);
                    }
                    for _ in 0..=scopes.len() {
                        self.leave_scope();
                    }
                    break;
                }
                TokenKind::Punctuation(b'{') => {
                    let span = self.span();
                    if self.symbols.depth() > DEEPEST_SCOPE {
                        self.report(Diagnostic::new(
                            DiagnosticCode::ScopesTooDeep,
                            span,
                            format!("scopes nest at most {DEEPEST_SCOPE} deep"),
                        ));
                        self.lexer.finish();
                        continue;
                    }
                    scopes.push(span);
                    self.push_statement(Statement::OpenScope, span);
                    self.symbols.open();
                    self.function.labels.open_scope();
                    self.lexer.advance();
                }
                TokenKind::Punctuation(b'}') => {
                    let span = self.span();
                    self.lexer.advance();
                    self.leave_scope();
                    close = span;
                    if scopes.pop().is_none() {
                        break;
                    }
                    self.push_statement(Statement::CloseScope, span);
                }
                _ => self.parse_statement(),
            }
        }
        self.settle_labels();
        close
    }

    fn leave_scope(&mut self) {
        self.close_label_scope();
        self.symbols.close();
    }

    /// Parses one statement. After an error, continues after the next `;`.
    fn parse_statement(&mut self) {
        let start = self.span();
        let result = match self.lexer.token.kind {
            TokenKind::Identifier if self.lexer.next_significant_byte() == b':' => self.parse_label(),
            TokenKind::Identifier | TokenKind::Punctuation(b'@') => self.parse_instruction(),
            TokenKind::Directive => self.parse_body_directive(),
            TokenKind::Double(b'@') => self.parse_dwarf_line(),
            TokenKind::Punctuation(b';') => {
                let finding = Diagnostic::new(DiagnosticCode::Expected, start, "a `;` alone is not a statement").help("remove it");
                self.lexer.advance();
                self.report(finding);
                return;
            }
            _ => self.unexpected("a statement"),
        };
        if let Err(Reported) = result {
            self.recover(start);
        }
    }

    /// Continues after an invalid statement. Skips nothing if the `;` seems to be missing, that is, if the next line starts like a
    /// statement.
    fn recover(&mut self, start: Span) {
        let missing_semicolon = {
            let gap = self.lexer.last_end.max(start.start) as usize..self.span().start.max(self.lexer.last_end.max(start.start)) as usize;
            let new_line = self.lexer.source()[gap].contains(&b'\n');
            let starts = matches!(self.lexer.token.kind, TokenKind::Identifier | TokenKind::Directive | TokenKind::Punctuation(b'@'));
            new_line && starts && self.span().start > start.start
        };
        if missing_semicolon {
            return;
        }
        if matches!(self.lexer.token.kind, TokenKind::Bad(BadToken::Comment)) {
            self.lexer.finish();
            return;
        }
        if self.lexer.last_end > 0 && self.lexer.source()[self.lexer.last_end as usize - 1] == b';' && self.lexer.last_end > start.start {
            // The statement was parsed to its end.
            return;
        }
        self.skip_operand_braces();
    }

    /// Skips to after the `;`, including the braces of vector operands: a `}` that closes a vector must not close the scope.
    fn skip_operand_braces(&mut self) {
        let mut depth = 0usize;
        loop {
            match self.lexer.token.kind {
                TokenKind::Punctuation(b'{') => depth += 1,
                TokenKind::Punctuation(b'}')
                    if depth == 0 && self.lexer.next_significant_byte() != b';' && self.lexer.next_significant_byte() != b',' =>
                {
                    return;
                }
                TokenKind::Punctuation(b'}') => depth = depth.saturating_sub(1),
                TokenKind::Punctuation(b';') => {
                    self.lexer.advance();
                    return;
                }
                TokenKind::End => return,
                TokenKind::Bad(BadToken::Comment) => {
                    self.lexer.finish();
                    return;
                }
                _ => {}
            }
            self.lexer.advance();
        }
    }

    /// Parses a label, and the directive that it names if one follows.
    fn parse_label(&mut self) -> Parse<()> {
        let span = self.span();
        self.check_name(span)?;
        let name = self.intern(span);
        self.lexer.advance();
        self.lexer.advance();
        let taken = self.symbols.plain(name).filter(|entry| entry.depth == self.symbols.depth());
        if let Some(entry) = taken {
            self.report_duplicate(name, span, entry.span);
        }
        let (label, used) = self.define_label(name, span);
        self.symbols.hide_by_label(&self.module.names, name);
        self.push_statement(Statement::Label(label), span);
        let directive = self.span();
        if self.at_directive(".branchtargets") {
            let index = self.parse_target_list(true)?;
            self.name_table(label, LabelKind::BranchTargets(index), used);
            self.push_statement(Statement::BranchTargets(index), directive);
        } else if self.at_directive(".calltargets") {
            let index = self.parse_target_list(false)?;
            self.name_table(label, LabelKind::CallTargets(index), used);
            self.push_statement(Statement::CallTargets(index), directive);
        } else if self.at_directive(".callprototype") {
            let index = self.parse_prototype()?;
            self.name_table(label, LabelKind::Prototype(index), used);
            self.push_statement(Statement::CallPrototype(index), directive);
        }
        Ok(())
    }

    /// Parses a directive inside a function.
    fn parse_body_directive(&mut self) -> Parse<()> {
        let span = self.span();
        let text = self.lexer.text();
        match text {
            ".loc" => self.parse_loc(),
            ".pragma" => {
                for string in self.parse_pragma(PragmaPlace::Body)? {
                    self.function.body.pragmas.push(string);
                    let index = self.function.body.pragmas.len() as u32 - 1;
                    self.push_statement(Statement::Pragma(index), span);
                }
                Ok(())
            }
            ".branchtargets" | ".calltargets" | ".callprototype" => {
                let finding = Diagnostic::new(DiagnosticCode::BadTargetList, span, format!("`{text}` needs a label"))
                    .help(format!("write `name: {text} ...;`"));
                Err(self.report(finding))
            }
            ".func" | ".entry" => self.parse_function(Linkage::Internal),
            ".extern" | ".visible" | ".weak" => {
                self.lexer.advance();
                let linkage = super::module::linkage_of(text);
                if self.at_directive(".func") || self.at_directive(".entry") {
                    return self.parse_function(linkage);
                }
                self.error(DiagnosticCode::BadLinkage, span, format!("`{text}` is for module scope"))
            }
            ".alias" => self.parse_alias(),
            ".align" | ".attribute" => self.parse_declaration(Linkage::Internal),
            _ if place_of(text).is_some() => self.parse_declaration(Linkage::Internal),
            ".version" | ".target" | ".address_size" | ".file" | ".section" | ".maxntid" | ".reqntid" | ".minnctapersm"
            | ".maxnctapersm" | ".maxnreg" | ".noreturn" | ".explicitcluster" | ".reqnctapercluster" | ".maxclusterrank"
            | ".blocksareclusters" => {
                self.error(DiagnosticCode::MisplacedDirective, span, format!("`{text}` is not allowed inside a function"))
            }
            _ => {
                let near = oriole_support::closest(text, BODY_DIRECTIVES.iter().copied());
                let finding = Diagnostic::new(DiagnosticCode::UnknownDirective, span, format!("`{text}` is not a directive"))
                    .maybe_help(near.map(|near| format!("did you mean `{near}`?")));
                Err(self.report(finding))
            }
        }
    }

    /// Parses `.branchtargets A, B<3>;` or `.calltargets f, g;` and returns the index of the list.
    fn parse_target_list(&mut self, branches: bool) -> Parse<u32> {
        let directive = self.span();
        self.lexer.advance();
        if branches {
            self.require("`.branchtargets`", directive, &BRANCH_TARGETS);
        } else {
            self.require("`.calltargets`", directive, &INDIRECT_CALLS);
        }
        let mut targets = Vec::new();
        loop {
            let span = self.expect_identifier("a name")?;
            let name = self.intern(span);
            if branches {
                self.parse_branch_target(name, span, &mut targets)?;
            } else {
                targets.push(self.resolve_call_target(name, span)?);
            }
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';', "the list of targets")?;
        let index = self.function.body.target_lists.len() as u32;
        if !branches {
            let functions = self.distinct_signatures(&targets);
            self.function.labels.call_targets.insert(index, functions);
        }
        self.function.body.target_lists.push(LabelList { targets });
        Ok(index)
    }

    /// Parses a label, or `A<N>` as the labels `A0` to `A(N-1)`.
    fn parse_branch_target(&mut self, name: oriole_support::Name, span: Span, targets: &mut Vec<Operand>) -> Parse<()> {
        if let Some(super::symbols::Symbol::Function(_)) = self.symbols.find(&self.module.names, name).map(|entry| entry.symbol) {
            return self.error(DiagnosticCode::BadTargetList, span, "a branch goes to a label, not to a function");
        }
        if !self.eat(b'<') {
            let label = self.reference_label(name, span);
            targets.push(Operand::Label(label));
            return Ok(());
        }
        let (count, count_span) = self.expect_u32("the number of labels")?;
        self.expect(b'>', "the number of labels")?;
        self.function.counted_targets = self.function.counted_targets.saturating_add(count);
        if self.function.counted_targets > MOST_COUNTED_TARGETS {
            return self.error(
                DiagnosticCode::BadNameCount,
                count_span,
                "the lists of a function have at most 2^20 targets given by a count",
            );
        }
        let stem = self.lexer.str(span);
        for number in 0..count {
            let member = self.module.names.intern(&format!("{stem}{number}"));
            let label = self.reference_label(member, span);
            targets.push(Operand::Label(label));
        }
        Ok(())
    }

    fn resolve_call_target(&mut self, name: oriole_support::Name, span: Span) -> Parse<Operand> {
        match self.symbols.find(&self.module.names, name).map(|entry| entry.symbol) {
            Some(super::symbols::Symbol::Function(function)) if self.module.functions[function].kind == FunctionKind::Function => {
                Ok(Operand::Function(function))
            }
            Some(super::symbols::Symbol::Function(_)) => self.error(DiagnosticCode::CallOfEntry, span, "a kernel cannot be called"),
            Some(_) => self.error(DiagnosticCode::BadTargetList, span, "a call goes to a function"),
            None => {
                let finding = self.unknown_name(span);
                Err(self.report(finding))
            }
        }
    }

    /// Parses `.callprototype (ret) _ (params) .noreturn;` and returns its index.
    fn parse_prototype(&mut self) -> Parse<u32> {
        let span = self.span();
        self.lexer.advance();
        self.require("`.callprototype`", span, &INDIRECT_CALLS);
        let returns = if self.at(b'(') { self.parse_parameters(FunctionKind::Function, true)? } else { Vec::new() };
        if self.lexer.text() != "_" {
            return self.unexpected("`_` in place of the function's name");
        }
        self.lexer.advance();
        let parameters = if self.at(b'(') { self.parse_parameters(FunctionKind::Function, true)? } else { Vec::new() };
        let bounds = self.parse_function_directives(&returns)?;
        self.expect(b';', "the prototype")?;
        let abi_preserve = (bounds.abi_preserve, bounds.abi_preserve_control);
        self.function.body.prototypes.push(CallPrototype { returns, parameters, noreturn: bounds.noreturn, abi_preserve });
        Ok(self.function.body.prototypes.len() as u32 - 1)
    }
}

const BODY_DIRECTIVES: &[&str] = &[
    ".reg",
    ".local",
    ".shared",
    ".param",
    ".global",
    ".const",
    ".loc",
    ".pragma",
    ".branchtargets",
    ".calltargets",
    ".callprototype",
    ".align",
];
