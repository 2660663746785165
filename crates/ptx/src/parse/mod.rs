//! The parser: reads, resolves and checks a module in one pass.
//!
//! PTX declares names before it uses them (except labels), so an untyped tree is not needed. Each file of this module handles one part
//! of the grammar as methods of [`Parser`]. After an error the parser reports it, skips to a point where it can continue, and continues
//! until the limit of errors is reached. The parser does not recurse on the nesting of the input, except in constant expressions, whose
//! depth is limited.

mod call;
mod constant;
mod debug;
mod declare;
mod forms;
mod function;
mod head;
mod initializer;
mod instruction;
mod labels;
mod launch_bounds;
mod matching;
mod mismatch;
mod module;
mod operand;
mod pragma;
mod specifiers;
mod split;
mod statement;
mod symbols;

use oriole_support::{IndexVec, Interner, Name};

use crate::ast::{Module, TargetOptions};
use crate::diag::{Diagnostic, DiagnosticCode, Diagnostics, Severity};
use crate::lexer::{BadToken, Lexer, TokenKind, number};
use crate::source::Span;
use crate::target::{Platform, PtxVersion, Requirement, Target, Unmet};
pub(crate) use forms::{forms_of, unmet};
use function::FunctionState;
use head::Heads;
pub(crate) use head::spell;
use operand::OperandScratch;
pub use split::{NumberedModule, NumberedPart, ParsedPart, SplitModule};
use symbols::Symbols;

/// Options of the checker.
#[derive(Clone, Debug)]
pub struct Options {
    /// Number of errors after which the checker stops.
    pub error_limit: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { error_limit: 100 }
    }
}

/// The result of [`check`].
pub struct Checked {
    /// The module; incomplete if there are errors.
    pub module: Module,
    /// Errors and warnings, sorted by position.
    pub diagnostics: Vec<Diagnostic>,
}

impl Checked {
    /// Returns whether the module has no errors.
    pub fn is_valid(&self) -> bool {
        self.diagnostics.iter().all(|finding| finding.code.severity() != Severity::Error)
    }
}

/// Parses and checks a PTX module.
pub fn check(text: &[u8], options: &Options) -> Checked {
    if u32::try_from(text.len()).is_err() {
        let finding = Diagnostic::new(DiagnosticCode::FileTooLarge, Span::default(), "the file is larger than 4 GiB")
            .help("split the module into several files");
        return Checked { module: empty_module(), diagnostics: vec![finding] };
    }
    let mut parser = Parser::new(text, options);
    parser.parse_module();
    Checked { module: parser.module, diagnostics: parser.diagnostics.finish() }
}

fn empty_module() -> Module {
    Module {
        version: PtxVersion::NEWEST,
        target: Target::plain(90),
        options: TargetOptions::default(),
        address_size: None,
        names: Interner::new(),
        forms: IndexVec::new(),
        variables: IndexVec::new(),
        functions: IndexVec::new(),
        items: Vec::new(),
    }
}

/// An error that has been reported. The caller skips to a point where parsing can continue.
pub(crate) struct Reported;

/// The result of a parsing function; an error has already been reported.
type Parse<T> = Result<T, Reported>;

/// State of the parser.
pub(crate) struct Parser<'s> {
    lexer: Lexer<'s>,
    diagnostics: Diagnostics,
    module: Module,
    platform: Platform,
    symbols: Symbols,
    heads: Heads,
    function: FunctionState,
    scratch: OperandScratch,
    globals: module::Globals,
}

impl<'s> Parser<'s> {
    fn new(text: &'s [u8], options: &Options) -> Self {
        Parser {
            lexer: Lexer::new(text),
            diagnostics: Diagnostics::new(options.error_limit),
            module: empty_module(),
            platform: Platform { version: PtxVersion::NEWEST, target: Target::plain(90) },
            symbols: Symbols::default(),
            heads: Heads::default(),
            function: FunctionState::default(),
            scratch: OperandScratch::default(),
            globals: module::Globals::default(),
        }
    }

    fn report(&mut self, finding: Diagnostic) -> Reported {
        self.diagnostics.push(finding);
        Reported
    }

    fn error<T>(&mut self, code: DiagnosticCode, span: Span, message: impl Into<String>) -> Parse<T> {
        Err(self.report(Diagnostic::new(code, span, message)))
    }

    fn span(&self) -> Span {
        self.lexer.token.span
    }

    /// Interns the text of a span.
    fn intern(&mut self, span: Span) -> Name {
        self.module.names.intern(self.lexer.str(span))
    }

    /// Returns whether the current token is this punctuation.
    fn at(&self, byte: u8) -> bool {
        self.lexer.token.kind == TokenKind::Punctuation(byte)
    }

    fn at_end(&self) -> bool {
        self.lexer.token.kind == TokenKind::End
    }

    fn at_directive(&self, name: &str) -> bool {
        self.lexer.token.kind == TokenKind::Directive && self.lexer.text() == name
    }

    /// Skips the current token if it is this punctuation; returns whether it is.
    fn eat(&mut self, byte: u8) -> bool {
        let found = self.at(byte);
        if found {
            self.lexer.advance();
        }
        found
    }

    fn eat_directive(&mut self, name: &str) -> bool {
        let found = self.at_directive(name);
        if found {
            self.lexer.advance();
        }
        found
    }

    /// Skips a punctuation character, or reports that it is missing; `after` names what comes before it.
    fn expect(&mut self, byte: u8, after: &str) -> Parse<()> {
        if self.eat(byte) {
            return Ok(());
        }
        let wanted = char::from(byte);
        if byte == b';' {
            // Mark the end of the statement, where the `;` is missing, and not the start of the next one.
            let end = self.lexer.last_end;
            let finding = Diagnostic::new(DiagnosticCode::Expected, Span::new(end, end), format!("expected `;` after {after}"));
            return match self.bad_token() {
                Some(bad) => Err(self.report(bad)),
                None => Err(self.report(finding)),
            };
        }
        self.unexpected(&format!("`{wanted}` after {after}"))
    }

    /// Reports that the current token is not the expected one.
    fn unexpected<T>(&mut self, wanted: &str) -> Parse<T> {
        if let Some(bad) = self.bad_token() {
            return Err(self.report(bad));
        }
        let span = self.span();
        if self.at_end() {
            return self.error(DiagnosticCode::UnexpectedEnd, span, format!("the file ends where {wanted} was expected"));
        }
        let found = self.describe_token();
        self.error(DiagnosticCode::Expected, span, format!("expected {wanted}, found {found}"))
    }

    fn describe_token(&self) -> String {
        let text = self.lexer.text();
        let short: String = text.chars().take(40).collect();
        format!("`{short}`")
    }

    /// Returns the finding for a token that is not valid PTX.
    fn bad_token(&self) -> Option<Diagnostic> {
        let TokenKind::Bad(bad) = self.lexer.token.kind else { return None };
        let span = self.span();
        Some(match bad {
            BadToken::Character => {
                let byte = self.lexer.slice(span)[0];
                let shown = if byte == b'`' {
                    "a backquote".to_string()
                } else if byte.is_ascii_graphic() {
                    format!("`{}`", char::from(byte))
                } else {
                    format!("byte 0x{byte:02x}")
                };
                Diagnostic::new(DiagnosticCode::BadCharacter, span, format!("{shown} has no meaning in PTX"))
            }
            BadToken::NonAscii => Diagnostic::new(DiagnosticCode::NonAscii, span, "PTX is ASCII outside of comments"),
            BadToken::Comment => {
                let place = Span::new(span.start, span.start + 2);
                Diagnostic::new(DiagnosticCode::UnterminatedComment, place, "this comment does not end")
                    .help("close it with `*/`; comments do not nest")
            }
            BadToken::String => {
                Diagnostic::new(DiagnosticCode::UnterminatedString, span, "this string does not end").help("close it with `\"`")
            }
            BadToken::Number => {
                let text = self.lexer.text();
                let finding = Diagnostic::new(DiagnosticCode::BadNumber, span, format!("`{text}` is not a number"));
                match text.as_bytes() {
                    [b'0', b'f' | b'F', ..] => finding.help("a 32-bit float is written `0f` and exactly 8 hexadecimal digits"),
                    [b'0', b'd' | b'D', ..] => finding.help("a 64-bit float is written `0d` and exactly 16 hexadecimal digits"),
                    [b'0', b'0'..=b'9', ..] => finding.help("a leading 0 makes a number octal"),
                    [.., b'u'] => finding.help("the suffix of unsigned numbers is a capital `U`"),
                    [.., b'f' | b'F'] if text.contains('.') => finding.help("PTX floats have no suffix"),
                    _ => match text.split_once('.') {
                        Some((_, word)) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                            finding.help(format!("write a blank before `.{word}`"))
                        }
                        _ => finding,
                    },
                }
            }
        })
    }

    fn expect_identifier(&mut self, what: &str) -> Parse<Span> {
        if self.lexer.token.kind != TokenKind::Identifier {
            return self.unexpected(what);
        }
        let span = self.span();
        self.lexer.advance();
        Ok(span)
    }

    /// Reads an integer literal, as in array sizes and directives.
    fn expect_integer(&mut self, what: &str) -> Parse<(u64, Span)> {
        if self.lexer.token.kind != TokenKind::Integer {
            return self.unexpected(what);
        }
        let span = self.span();
        let integer = number::integer(self.lexer.slice(span));
        self.lexer.advance();
        match integer {
            Some(integer) if !integer.overflow => Ok((integer.value, span)),
            _ => self.error(DiagnosticCode::IntegerOverflow, span, "the integer does not fit into 64 bits"),
        }
    }

    /// Reads an integer literal that fits in 32 bits.
    fn expect_u32(&mut self, what: &str) -> Parse<(u32, Span)> {
        let (value, span) = self.expect_integer(what)?;
        match u32::try_from(value) {
            Ok(value) => Ok((value, span)),
            Err(_) => self.error(DiagnosticCode::IntegerOverflow, span, format!("{value} does not fit into 32 bits")),
        }
    }

    /// Reports that `what` at `span` has a requirement that the platform does not meet.
    fn require(&mut self, what: &str, span: Span, requirement: &Requirement) {
        if let Some(unmet) = self.platform.missing(requirement) {
            let finding = self.unmet(what, span, unmet);
            self.report(finding);
        }
    }

    fn require_version(&mut self, what: &str, span: Span, major: u8, minor: u8) {
        self.require(what, span, &Requirement { version: PtxVersion::new(major, minor), targets: &[] });
    }

    /// Builds the finding for an unmet requirement of `what`.
    fn unmet(&self, what: &str, span: Span, unmet: Unmet) -> Diagnostic {
        let Platform { version, target } = self.platform;
        match unmet {
            Unmet::Version(least) => {
                Diagnostic::new(DiagnosticCode::NeedsVersion, span, format!("{what} needs PTX version {least} or later"))
                    .label(format!("this module says `.version {version}`"))
                    .help(format!("write `.version {least}` or later at the top of the module"))
            }
            Unmet::Target(needs) => {
                let list: Vec<String> = needs.iter().map(ToString::to_string).collect();
                let first = &needs[0];
                let suffix = first.to_string();
                let name = suffix.split(' ').next().unwrap_or_default().to_string();
                Diagnostic::new(DiagnosticCode::NeedsTarget, span, format!("{what} needs target {}", list.join(", or ")))
                    .label(format!("this module is for {target}"))
                    .help(format!("write `.target {name}`"))
            }
            Unmet::Removed(since) => {
                let from = since.targets.first().map(|need| format!(" on {need}")).unwrap_or_default();
                Diagnostic::new(DiagnosticCode::Removed, span, format!("{what} was removed in PTX version {}{from}", since.version))
                    .label(format!("this module says `.version {version}`, `.target {target}`"))
            }
        }
    }

    /// Skips a block from its `{` to after its `}`.
    fn skip_block(&mut self) {
        let mut depth = 0usize;
        while !self.at_end() && !matches!(self.lexer.token.kind, TokenKind::Bad(BadToken::Comment)) {
            depth += usize::from(self.at(b'{'));
            let closes = self.at(b'}');
            self.lexer.advance();
            depth -= usize::from(closes);
            if depth == 0 {
                return;
            }
        }
    }
}
