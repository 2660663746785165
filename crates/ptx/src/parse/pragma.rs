//! Parses and checks pragmas: `.pragma "nounroll";`.

use super::specifiers::{at_least, needs};
use super::{Parse, Parser};
use crate::ast::FunctionKind;
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::lexer::TokenKind;
use crate::source::Span;
use crate::target::Requirement;

static SHARED_MEMORY_SPILLING: Requirement = needs(8, 7, &[at_least(75)]);

/// The place of a pragma.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PragmaPlace {
    Module,
    Entry,
    Body,
}

impl Parser<'_> {
    /// Parses `.pragma "a", "b";`.
    pub(super) fn parse_pragma(&mut self, place: PragmaPlace) -> Parse<Vec<Box<str>>> {
        let start = self.span();
        self.lexer.advance();
        self.require_version("`.pragma`", start, 2, 0);
        let mut strings = Vec::new();
        loop {
            let span = self.span();
            if self.lexer.token.kind != TokenKind::String {
                return self.unexpected("a string");
            }
            let text = self.lexer.str(span).trim_matches('"');
            self.lexer.advance();
            self.check_pragma(text, span, place);
            strings.push(text.into());
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';', "`.pragma`")?;
        Ok(strings)
    }

    /// Checks one pragma: its name, its place and its argument.
    fn check_pragma(&mut self, text: &str, span: Span, place: PragmaPlace) {
        let text = text.trim();
        let word = text.split_whitespace().next().unwrap_or_default();
        let what = format!("pragma `{word}`");
        match word {
            "nounroll" => return,
            "used_bytes_mask" => self.require_version(&what, span, 8, 3),
            "frequency" => self.require_version(&what, span, 9, 0),
            "enable_smem_spilling" => self.require(&what, span, &SHARED_MEMORY_SPILLING),
            _ => {
                let finding =
                    Diagnostic::new(DiagnosticCode::UnknownPragma, span, format!("`{text}` is not a pragma of PTX and has no effect"));
                let finding = finding.maybe_help(
                    oriole_support::closest(word, ["nounroll", "used_bytes_mask", "frequency", "enable_smem_spilling"])
                        .map(|near| format!("did you mean `{near}`?")),
                );
                if place == PragmaPlace::Module {
                    self.report(Diagnostic { code: DiagnosticCode::MisplacedDirective, ..finding });
                } else {
                    self.report(finding);
                }
                return;
            }
        }
        if place != PragmaPlace::Body {
            self.report(Diagnostic::new(DiagnosticCode::MisplacedDirective, span, format!("pragma `{word}` belongs inside a function")));
        }
        let argument = text[word.len()..].trim();
        if word != "enable_smem_spilling" && argument.is_empty() {
            self.report(Diagnostic::new(DiagnosticCode::BadNumber, span, format!("pragma `{word}` needs a number")));
        } else if word != "enable_smem_spilling" && crate::lexer::number::integer(argument.as_bytes()).is_none() {
            self.report(Diagnostic::new(DiagnosticCode::BadNumber, span, format!("`{argument}` is not a number for pragma `{word}`")));
        } else if word == "enable_smem_spilling" && self.function.kind == Some(FunctionKind::Function) {
            self.report(Diagnostic::new(DiagnosticCode::MisplacedDirective, span, "pragma `enable_smem_spilling` is for kernels only"));
        }
    }
}
