//! Parses the module scope: the header, then variables, functions and debug information in any order.

use std::cmp::Reverse;

use oriole_support::Name;
use rustc_hash::{FxHashMap, FxHashSet};

use super::call::SignatureKey;
use super::pragma::PragmaPlace;
use super::specifiers::{at_least, needs, place_of};
use super::symbols::Symbol;
use super::{Parse, Parser, Reported};
use crate::ast::{Alias, FunctionId, FunctionKind, Item, Linkage, Statement, TextureMode};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::lexer::{BadToken, TokenKind};
use crate::source::Span;
use crate::target::{PtxVersion, Requirement, Suffix, Target};

/// State of the module as a whole.
#[derive(Clone, Default)]
pub(crate) struct Globals {
    pub functions: FxHashMap<Name, KnownFunction>,
    /// Function names in the order of their first declaration.
    pub function_order: Vec<Name>,
    /// Aliases, with the function they refer to and their position.
    pub aliases: FxHashMap<Name, (Name, Span)>,
    /// A number for each distinct signature, and the signature numbers of functions in lists of call targets.
    pub signatures: FxHashMap<SignatureKey, u32>,
    pub signature_numbers: FxHashMap<FunctionId, u32>,
    /// Bytes of `.const` variables.
    pub constant_bytes: u128,
    /// Bytes of all variables, and of those with initial values.
    pub variable_bytes: u128,
    pub initial_bytes: u128,
    /// Numbers declared by `.file`, with their position.
    pub files: FxHashMap<u32, Span>,
    /// File numbers in `.loc` directives, with the position of the first use.
    pub used_files: FxHashMap<u32, Span>,
    /// Whether the module has a `.section`.
    pub has_debug_information: bool,
    /// Names of debug sections and of labels in them.
    pub section_labels: FxHashMap<Name, Span>,
    /// File, line and column of all `.loc` directives so far.
    pub places: FxHashSet<[u32; 3]>,
    /// Names of inlined functions in `.loc` directives.
    pub inlined_functions: Vec<(Name, Span)>,
}

/// The definition of a function, or its first declaration if it is not defined yet.
#[derive(Clone, Copy)]
pub(crate) struct KnownFunction {
    pub id: FunctionId,
    pub span: Span,
    pub defined: bool,
    /// Whether the first declaration is `.extern`.
    pub first_extern: bool,
}

static ALIAS: Requirement = needs(6, 3, &[at_least(30)]);

pub(super) fn linkage_of(directive: &str) -> Linkage {
    match directive {
        ".extern" => Linkage::Extern,
        ".visible" => Linkage::Visible,
        ".weak" => Linkage::Weak,
        ".common" => Linkage::Common,
        _ => Linkage::Internal,
    }
}

impl Parser<'_> {
    /// Parses a whole module.
    pub(super) fn parse_module(&mut self) {
        if self.parse_module_header().is_ok() {
            self.parse_items();
        }
    }

    /// Parses the items up to the end of the text, and then makes the checks that need the whole module.
    pub(super) fn parse_items(&mut self) {
        while !self.at_end() && !self.diagnostics.is_full() {
            let start = self.span();
            if self.parse_item().is_err() {
                self.skip_to_item(start);
            }
        }
        if !self.diagnostics.is_full() {
            self.check_functions();
            self.check_inlined_functions();
            self.check_files();
        }
        if self.module.options.debug && !self.globals.has_debug_information && self.diagnostics.error_count() == 0 {
            let end = self.span();
            let finding = Diagnostic::new(
                DiagnosticCode::MissingDebugInformation,
                end,
                "`.target debug` promises debug sections, and there are none",
            );
            self.report(finding.help("remove `debug` from `.target`"));
        }
    }

    /// Parses `.version`, `.target` and `.address_size`. Without a valid header nothing else can be checked.
    pub(super) fn parse_module_header(&mut self) -> Parse<()> {
        self.parse_version()?;
        if !self.at_directive(".target") {
            let span = self.span();
            let finding = Diagnostic::new(DiagnosticCode::MissingTarget, span, "`.target` must follow `.version`")
                .help("write, for example, `.target sm_90`");
            return Err(self.report(finding));
        }
        while self.eat_directive(".target") {
            self.parse_target()?;
        }
        if self.at_directive(".address_size") {
            self.parse_address_size()?;
        }
        Ok(())
    }

    /// Parses `.version MAJOR.MINOR`.
    fn parse_version(&mut self) -> Parse<()> {
        let span = self.span();
        if !self.at_directive(".version") {
            if let Some(bad) = self.bad_token() {
                return Err(self.report(bad));
            }
            let finding = Diagnostic::new(DiagnosticCode::MissingVersion, span, "a PTX module starts with `.version`")
                .help(format!("write, for example, `.version {}`", PtxVersion::NEWEST));
            return Err(self.report(finding));
        }
        self.lexer.advance();
        let number = self.span();
        let text = self.lexer.text();
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse::<u8>().ok()).flatten();
        let version = text.split_once('.').and_then(|(major, minor)| Some(PtxVersion::new(digits(major)?, digits(minor)?)));
        match version {
            Some(version) if version.exists() => {
                self.module.version = version;
                self.platform.version = version;
                self.lexer.advance();
                Ok(())
            }
            Some(version) => {
                let newest = PtxVersion::NEWEST;
                self.report(
                    Diagnostic::new(DiagnosticCode::UnknownVersion, number, format!("there is no PTX version {version}"))
                        .help(format!("the newest version known here is {newest}"))
                        .ptxas(number, [format!("Unsupported .version {version}; current version is '{newest}'")]),
                );
                Err(Reported)
            }
            None => self.unexpected("a version number such as `9.0`"),
        }
    }

    /// Parses the target and the options after `.target`.
    fn parse_target(&mut self) -> Parse<()> {
        let mut first = true;
        loop {
            let span = self.expect_identifier("a target such as `sm_90`")?;
            let text = self.lexer.str(span);
            if let Some(target) = Target::parse_ptx(text) {
                self.set_target(target, span);
            } else if first {
                return self.unknown_target(text, span);
            } else {
                self.parse_target_option(text, span)?;
            }
            first = false;
            if !self.eat(b',') {
                return Ok(());
            }
        }
    }

    fn unknown_target(&mut self, text: &str, span: Span) -> Parse<()> {
        // Newer targets and the suffix `a` first, because ties go to the first.
        let mut targets: Vec<Target> = Target::all().collect();
        targets.sort_by_key(|target| (Reverse(target.number()), target.suffix() != Suffix::ArchSpecific));
        let names: Vec<String> = targets.iter().map(Target::to_string).collect();
        let near = oriole_support::closest(text, names.iter().map(String::as_str)).map(|near| format!("did you mean `{near}`?"));
        let finding = Diagnostic::new(DiagnosticCode::UnknownTarget, span, format!("there is no target `{text}`")).maybe_help(near);
        Err(self.report(finding))
    }

    fn set_target(&mut self, target: Target, span: Span) {
        self.module.target = target;
        self.platform.target = target;
        let introduced = target.introduced();
        if self.platform.version < introduced {
            let finding =
                Diagnostic::new(DiagnosticCode::TargetNeedsVersion, span, format!("{target} needs PTX version {introduced} or later"))
                    .label(format!("this module says `.version {}`", self.platform.version))
                    .help(format!("write `.version {introduced}` or later"));
            self.report(finding);
        }
    }

    /// Parses one option of `.target`.
    fn parse_target_option(&mut self, text: &str, span: Span) -> Parse<()> {
        let options = &mut self.module.options;
        match text {
            "texmode_unified" | "texmode_independent" => {
                let mode = if text == "texmode_unified" { TextureMode::Unified } else { TextureMode::Independent };
                let before = options.texture_mode.replace(mode);
                if mode == TextureMode::Independent {
                    self.require_version("`texmode_independent`", span, 1, 5);
                }
                if before.is_some_and(|before| before != mode) {
                    self.report(Diagnostic::new(DiagnosticCode::ConflictingTargetOption, span, "a module has only one texture mode"));
                }
                Ok(())
            }
            "debug" => {
                options.debug = true;
                self.require_version("`debug`", span, 3, 0);
                Ok(())
            }
            "map_f64_to_f32" => {
                options.map_f64_to_f32 = true;
                if self.platform.target.has_double_precision() {
                    self.report(Diagnostic::new(
                        DiagnosticCode::ConflictingTargetOption,
                        span,
                        "`map_f64_to_f32` is for targets without double precision, below sm_13",
                    ));
                }
                Ok(())
            }
            _ => {
                let near = oriole_support::closest(text, ["texmode_unified", "texmode_independent", "debug", "map_f64_to_f32"]);
                let finding =
                    Diagnostic::new(DiagnosticCode::UnknownTarget, span, format!("`{text}` is neither a target nor a target option"))
                        .maybe_help(near.map(|near| format!("did you mean `{near}`?")));
                Err(self.report(finding))
            }
        }
    }

    /// Parses `.address_size`.
    fn parse_address_size(&mut self) -> Parse<()> {
        let directive = self.span();
        self.lexer.advance();
        self.require_version("`.address_size`", directive, 2, 3);
        let (size, span) = self.expect_integer("32 or 64")?;
        match size {
            64 => self.module.address_size = Some(64),
            32 => {
                self.module.address_size = Some(32);
                let finding = Diagnostic::new(DiagnosticCode::AddressSize32, span, "32-bit addressing is not supported any more")
                    .help("write `.address_size 64` and use 64-bit registers for addresses");
                self.report(finding);
            }
            _ => {
                self.report(Diagnostic::new(DiagnosticCode::BadAddressSize, span, format!("addresses have 32 or 64 bits, not {size}")));
            }
        }
        Ok(())
    }

    /// Parses one item at module scope.
    pub(super) fn parse_item(&mut self) -> Parse<()> {
        let span = self.span();
        match self.lexer.token.kind {
            TokenKind::Directive => self.parse_module_directive(),
            TokenKind::Double(b'@') => self.parse_dwarf_line(),
            TokenKind::Punctuation(b'}') => {
                self.lexer.advance();
                self.error(DiagnosticCode::UnbalancedBrace, span, "this `}` closes nothing")
            }
            TokenKind::Identifier => {
                let text = self.lexer.text();
                let finding = Diagnostic::new(DiagnosticCode::InstructionOutsideFunction, span, format!("`{text}` is outside a function"))
                    .help("instructions and labels belong into the body of an `.entry` or `.func`");
                Err(self.report(finding))
            }
            _ => self.unexpected("a directive"),
        }
    }

    /// Parses a directive at module scope.
    fn parse_module_directive(&mut self) -> Parse<()> {
        let span = self.span();
        let text = self.lexer.text();
        match text {
            ".extern" | ".visible" | ".weak" | ".common" => {
                self.lexer.advance();
                let linkage = linkage_of(text);
                if self.at_directive(".entry") || self.at_directive(".func") {
                    return self.parse_function(linkage);
                }
                if self.lexer.token.kind == TokenKind::Directive && linkage_of(self.lexer.text()) != Linkage::Internal {
                    return self.error(DiagnosticCode::BadLinkage, self.span(), "a symbol has only one linking directive");
                }
                self.parse_declaration(linkage)
            }
            ".entry" | ".func" => self.parse_function(Linkage::Internal),
            ".alias" => self.parse_alias(),
            ".file" => self.parse_file(),
            ".section" => self.parse_section(),
            ".pragma" => {
                let strings = self.parse_pragma(PragmaPlace::Module)?;
                self.module.items.push(Item::Pragma(strings));
                Ok(())
            }
            ".align" | ".attribute" => self.parse_declaration(Linkage::Internal),
            _ if place_of(text).is_some() => self.parse_declaration(Linkage::Internal),
            ".version" | ".target" | ".address_size" => {
                let finding =
                    Diagnostic::new(DiagnosticCode::MisplacedDirective, span, format!("`{text}` belongs to the top of the module"))
                        .help("the order is `.version`, `.target`, `.address_size`");
                Err(self.report(finding))
            }
            ".loc" | ".branchtargets" | ".calltargets" | ".callprototype" | ".maxntid" | ".reqntid" | ".minnctapersm" | ".maxnreg" => {
                self.error(DiagnosticCode::MisplacedDirective, span, format!("`{text}` is not allowed at module scope"))
            }
            _ => {
                let near = oriole_support::closest(text, MODULE_DIRECTIVES.iter().copied()).map(|near| format!("did you mean `{near}`?"));
                let finding =
                    Diagnostic::new(DiagnosticCode::UnknownDirective, span, format!("`{text}` is not a directive")).maybe_help(near);
                Err(self.report(finding))
            }
        }
    }

    /// Parses `.alias name, aliasee;`.
    pub(super) fn parse_alias(&mut self) -> Parse<()> {
        let span = self.span();
        self.lexer.advance();
        self.require("`.alias`", span, &ALIAS);
        let name_span = self.expect_identifier("the alias")?;
        self.expect(b',', "the alias")?;
        let target_span = self.expect_identifier("the function it stands for")?;
        self.expect(b';', "`.alias`")?;
        let (name, target) = (self.intern(name_span), self.intern(target_span));
        if name == target {
            return self.error(DiagnosticCode::BadAlias, target_span, "a function cannot be an alias of itself");
        }
        if let Some(&(_, before)) = self.globals.aliases.get(&name) {
            let finding =
                Diagnostic::new(DiagnosticCode::BadAlias, name_span, "this alias is already defined").related(before, "defined here");
            return Err(self.report(finding));
        }
        // Recorded even if the alias is invalid, so that the missing body is not reported as well.
        self.globals.aliases.insert(name, (target, name_span));
        let alias = self.alias_part(name, name_span)?;
        let function = self.alias_part(target, target_span)?;
        if self.module.functions[function].linkage == Linkage::Weak || self.module.functions[function].linkage == Linkage::Extern {
            return self.error(DiagnosticCode::BadAlias, target_span, "`.weak` and `.extern` functions cannot have aliases");
        }
        if self.globals.functions.get(&name).is_some_and(|known| known.defined) {
            return self.error(DiagnosticCode::BadAlias, name_span, "a function with a body cannot be an alias");
        }
        let (a, b) = (&self.module.functions[alias], &self.module.functions[function]);
        if let Some(difference) = self.signature_difference((&a.returns, &a.parameters), (&b.returns, &b.parameters)) {
            return self.error(
                DiagnosticCode::BadAlias,
                name_span.to(target_span),
                format!("an alias has the parameters of its function: {difference}"),
            );
        }
        let alias = Alias { name, target };
        if self.function.active {
            self.function.body.aliases.push(alias);
            let index = self.function.body.aliases.len() as u32 - 1;
            self.push_statement(Statement::Alias(index), span);
        } else {
            self.module.items.push(Item::Alias(alias));
        }
        Ok(())
    }

    fn alias_part(&mut self, name: Name, span: Span) -> Parse<FunctionId> {
        match self.symbols.plain(name).map(|entry| entry.symbol) {
            Some(Symbol::Function(function)) if self.module.functions[function].kind == FunctionKind::Entry => {
                self.error(DiagnosticCode::BadAlias, span, "kernels cannot have aliases")
            }
            Some(Symbol::Function(function)) => Ok(function),
            Some(_) => self.error(DiagnosticCode::BadAlias, span, "only functions can have aliases"),
            None => {
                let finding = self.unknown_name(span);
                Err(self.report(finding))
            }
        }
    }

    /// Checks that functions declared without `.extern` are defined, by a body or an alias.
    fn check_functions(&mut self) {
        let order = std::mem::take(&mut self.globals.function_order);
        for name in order {
            let Some(&known) = self.globals.functions.get(&name) else { continue };
            if known.defined || known.first_extern || self.globals.aliases.contains_key(&name) {
                continue;
            }
            let text = self.module.names.resolve(name).to_string();
            if self.diagnostics.is_full() {
                return;
            }
            let finding = Diagnostic::new(DiagnosticCode::UndefinedFunction, known.span, format!("`{text}` is declared and never defined"))
                .help("declare it `.extern` if another module defines it");
            self.report(finding);
        }
    }

    /// Skips to the start of the next item: after a `;`, after a body, or before a directive that starts an item.
    fn skip_to_item(&mut self, start: Span) {
        let mut depth = 0usize;
        loop {
            match self.lexer.token.kind {
                TokenKind::End => return,
                TokenKind::Bad(BadToken::Comment) => {
                    self.lexer.finish();
                    return;
                }
                TokenKind::Punctuation(b'{') => depth += 1,
                TokenKind::Punctuation(b'}') => {
                    depth = depth.saturating_sub(1);
                    // A brace inside an initial value is followed by more values, another brace, or `;`.
                    let inside_value = matches!(self.lexer.next_significant_byte(), b',' | b';' | b'}');
                    if depth == 0 && !inside_value {
                        self.lexer.advance();
                        return;
                    }
                }
                TokenKind::Punctuation(b';') if depth == 0 => {
                    self.lexer.advance();
                    return;
                }
                TokenKind::Directive if depth == 0 && self.span().start > start.start && ITEM_STARTS.contains(&self.lexer.text()) => return,
                _ => {}
            }
            self.lexer.advance();
        }
    }
}

const MODULE_DIRECTIVES: &[&str] = &[
    ".extern",
    ".visible",
    ".weak",
    ".common",
    ".entry",
    ".func",
    ".alias",
    ".file",
    ".section",
    ".pragma",
    ".align",
    ".attribute",
    ".global",
    ".const",
    ".shared",
];

const ITEM_STARTS: &[&str] =
    &[".extern", ".visible", ".weak", ".common", ".entry", ".func", ".alias", ".file", ".section", ".global", ".const"];
