//! Parses the directives between the parameters of a function and its body: launch bounds of kernels, such as `.maxntid 128`, and
//! `.noreturn` and `.abi_preserve` of other functions.

use super::pragma::PragmaPlace;
use super::specifiers::{at_least, needs};
use super::{Parse, Parser};
use crate::ast::{LaunchBounds, Parameter};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::lexer::TokenKind;
use crate::source::Span;
use crate::target::{PtxVersion, Requirement};

static CLUSTER: Requirement = needs(7, 8, &[at_least(90)]);
static NORETURN: Requirement = needs(6, 4, &[at_least(30)]);
static ABI_PRESERVE: Requirement = needs(9, 0, &[at_least(80)]);

impl Parser<'_> {
    /// Parses the directives between the parameters of a kernel and its body.
    pub(super) fn parse_launch_bounds(&mut self) -> Parse<LaunchBounds> {
        let mut bounds = LaunchBounds::default();
        let start = self.span();
        while self.lexer.token.kind == TokenKind::Directive {
            let span = self.span();
            let directive = self.lexer.text();
            match directive {
                ".maxntid" => bounds.max_threads = Some(self.parse_extent(directive, 1)?),
                ".reqntid" => bounds.required_threads = Some(self.parse_extent(directive, 1)?),
                ".minnctapersm" => bounds.min_blocks_per_sm = Some(self.parse_extent_of_one(directive)?),
                ".maxnctapersm" if self.platform.version < PtxVersion::new(2, 1) => {
                    bounds.max_blocks_per_sm = Some(self.parse_extent_of_one(directive)?);
                }
                ".maxnctapersm" => {
                    let finding = Diagnostic::new(DiagnosticCode::RemovedFeature, span, "`.maxnctapersm` was removed in PTX version 2.1")
                        .help("write `.minnctapersm`");
                    return Err(self.report(finding));
                }
                ".maxnreg" => bounds.max_registers = Some(self.parse_extent_of_one(directive)?),
                ".explicitcluster" => {
                    self.lexer.advance();
                    self.require("`.explicitcluster`", span, &CLUSTER);
                    bounds.explicit_cluster = true;
                }
                ".reqnctapercluster" => {
                    self.require("`.reqnctapercluster`", span, &CLUSTER);
                    bounds.required_cluster = Some(self.parse_extent(directive, 0)?);
                }
                ".maxclusterrank" => {
                    self.require("`.maxclusterrank`", span, &CLUSTER);
                    self.lexer.advance();
                    bounds.max_cluster_rank = Some(self.expect_u32("the largest rank of a cluster")?.0);
                }
                ".blocksareclusters" => {
                    self.lexer.advance();
                    self.require_version("`.blocksareclusters`", span, 9, 0);
                    bounds.blocks_are_clusters = true;
                }
                ".pragma" => {
                    let strings = self.parse_pragma(PragmaPlace::Entry)?;
                    bounds.pragmas.extend(strings);
                }
                ".noreturn" | ".abi_preserve" | ".abi_preserve_control" => {
                    return self.error(DiagnosticCode::MisplacedDirective, span, format!("`{directive}` describes functions, not kernels"));
                }
                _ => return self.unexpected("`{` or a launch bound such as `.maxntid`"),
            }
        }
        self.check_launch_bounds(&bounds, Span::new(start.start, self.lexer.last_end.max(start.start)));
        Ok(bounds)
    }

    /// Reports launch bounds that conflict with each other or need another one.
    fn check_launch_bounds(&mut self, bounds: &LaunchBounds, span: Span) {
        if bounds.max_threads.is_some() && bounds.required_threads.is_some() {
            self.report(Diagnostic::new(DiagnosticCode::ConflictingDirectives, span, "`.maxntid` and `.reqntid` exclude each other"));
        }
        if bounds.required_cluster.is_some() && bounds.max_cluster_rank.is_some() {
            self.report(Diagnostic::new(
                DiagnosticCode::ConflictingDirectives,
                span,
                "`.reqnctapercluster` and `.maxclusterrank` exclude each other",
            ));
        }
        if bounds.blocks_are_clusters && (bounds.required_threads.is_none() || bounds.required_cluster.is_none()) {
            let finding = Diagnostic::new(
                DiagnosticCode::MissingCompanionDirective,
                span,
                "`.blocksareclusters` needs `.reqntid` and `.reqnctapercluster`",
            );
            self.report(finding);
        }
    }

    /// Parses one to three numbers, each at least `least`.
    fn parse_extent(&mut self, directive: &str, least: u32) -> Parse<Vec<u32>> {
        let place = self.span();
        self.lexer.advance();
        match directive {
            ".reqntid" => self.require_version("`.reqntid`", place, 2, 1),
            ".maxntid" => self.require_version("`.maxntid`", place, 1, 3),
            _ => {}
        }
        let mut extent = Vec::new();
        loop {
            let (value, span) = self.expect_u32("a number")?;
            if value < least {
                return self.error(DiagnosticCode::BadLaunchBound, span, format!("`{directive}` takes positive numbers"));
            }
            extent.push(value);
            if !self.eat(b',') {
                return Ok(extent);
            }
            if extent.len() == 3 {
                return self.error(DiagnosticCode::BadLaunchBound, place, format!("`{directive}` takes at most three numbers"));
            }
        }
    }

    fn parse_extent_of_one(&mut self, directive: &str) -> Parse<u32> {
        let place = self.span();
        self.lexer.advance();
        match directive {
            ".maxnreg" => self.require_version("`.maxnreg`", place, 1, 3),
            ".minnctapersm" => self.require_version("`.minnctapersm`", place, 2, 0),
            _ => {}
        }
        let (value, span) = self.expect_u32("a number")?;
        if value == 0 {
            return self.error(DiagnosticCode::BadLaunchBound, span, format!("`{directive}` takes a positive number"));
        }
        Ok(value)
    }

    /// Parses `.noreturn`, `.abi_preserve` and `.abi_preserve_control` of a function.
    pub(super) fn parse_function_directives(&mut self, returns: &[Parameter]) -> Parse<LaunchBounds> {
        let mut bounds = LaunchBounds::default();
        let span = self.span();
        if self.eat_directive(".noreturn") {
            self.require("`.noreturn`", span, &NORETURN);
            if !returns.is_empty() {
                return self.error(DiagnosticCode::BadNoReturn, span, "a function that returns values cannot be `.noreturn`");
            }
            bounds.noreturn = true;
        }
        loop {
            let span = self.span();
            let control = self.at_directive(".abi_preserve_control");
            if !control && !self.at_directive(".abi_preserve") {
                break;
            }
            self.require("`.abi_preserve`", span, &ABI_PRESERVE);
            self.lexer.advance();
            let (count, _) = self.expect_u32("a number of registers")?;
            let place = if control { &mut bounds.abi_preserve_control } else { &mut bounds.abi_preserve };
            if place.replace(count).is_some() {
                return self.error(DiagnosticCode::ConflictingDirectives, span, "the directive is written twice");
            }
            if count > 255 {
                return self.error(DiagnosticCode::BadLaunchBound, span, "a thread has at most 255 registers to preserve");
            }
        }
        if self.lexer.token.kind == TokenKind::Directive
            && matches!(self.lexer.text(), ".maxntid" | ".reqntid" | ".minnctapersm" | ".maxnreg" | ".maxnctapersm")
        {
            let text = self.lexer.text();
            return self.error(DiagnosticCode::MisplacedDirective, self.span(), format!("`{text}` describes kernels, not functions"));
        }
        Ok(bounds)
    }
}
