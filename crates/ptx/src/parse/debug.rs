//! Parses debug information: `.file`, `.loc`, `.section`, `@@dwarf`.

use super::{Parse, Parser};
use crate::ast::{DwarfItem, DwarfSection, Item, LineLocation, Statement};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::lexer::{TokenKind, number};
use crate::source::Span;

impl Parser<'_> {
    /// Parses `.file 1 "name", time, size`.
    pub(super) fn parse_file(&mut self) -> Parse<()> {
        self.lexer.advance();
        let (index, span) = self.expect_u32("the number of the file")?;
        if self.lexer.token.kind != TokenKind::String {
            return self.unexpected("the name of the file as a string");
        }
        let name = self.lexer.text();
        let name = name.get(1..name.len().saturating_sub(1)).unwrap_or_default().into();
        self.lexer.advance();
        let mut stamp = None;
        let comma = self.span();
        if self.eat(b',') {
            self.require_version("the time stamp of a file", comma, 3, 2);
            let (time, _) = self.expect_integer("a time stamp")?;
            let size = if self.eat(b',') { self.expect_integer("a file size")?.0 } else { 0 };
            stamp = Some((time, size));
        }
        if let Some(before) = self.globals.files.insert(index, span) {
            let finding = Diagnostic::new(DiagnosticCode::DuplicateFileIndex, span, format!("file number {index} is already given"))
                .related(before, "given here");
            return Err(self.report(finding));
        }
        self.module.items.push(Item::File { index, name, stamp });
        Ok(())
    }

    /// Checks at the end of the module that every file number in a `.loc` has a `.file`, which may follow the `.loc`.
    pub(super) fn check_files(&mut self) {
        let mut unknown: Vec<(Span, u32)> = self
            .globals
            .used_files
            .iter()
            .filter(|(index, _)| !self.globals.files.contains_key(index))
            .map(|(&index, &span)| (span, index))
            .collect();
        unknown.sort_unstable();
        for (span, index) in unknown {
            self.report(Diagnostic::new(DiagnosticCode::UnknownFileIndex, span, format!("no `.file` has the number {index}")));
        }
    }

    /// Parses `.loc 1 20 3, function_name label, inlined_at 1 10 5`.
    pub(super) fn parse_loc(&mut self) -> Parse<()> {
        let start = self.span();
        self.lexer.advance();
        let file = self.span();
        let place = self.parse_place()?;
        self.globals.used_files.entry(place[0]).or_insert(file);
        let mut location = LineLocation { file: place[0], line: place[1], column: place[2], inlined: None };
        if self.eat(b',') {
            let word = self.span();
            self.expect_word("function_name")?;
            self.require_version("`function_name`", word, 7, 0);
            let label = self.span();
            let (name, offset) = self.parse_debug_label()?;
            self.globals.inlined_functions.push((name, label));
            self.expect(b',', "the name of the inlined function")?;
            self.expect_word("inlined_at")?;
            let at_span = self.span();
            let at = self.parse_place()?;
            self.check_inlined_at(at, Span::new(at_span.start, self.lexer.last_end));
            location.inlined = Some(Box::new((name, offset, at)));
        }
        self.globals.places.insert(place);
        self.function.body.locations.push(location);
        let index = self.function.body.locations.len() as u32 - 1;
        self.push_statement(Statement::Location(index), start);
        Ok(())
    }

    /// Checks that an earlier `.loc` has the position at which code is inlined.
    fn check_inlined_at(&mut self, at: [u32; 3], span: Span) {
        if self.globals.places.contains(&at) {
            return;
        }
        let [file, line, column] = at;
        let finding = Diagnostic::new(
            DiagnosticCode::BadDebugDirective,
            span,
            format!("no `.loc` before this one gives the place {file} {line} {column}"),
        )
        .help(format!("write `.loc {file} {line} {column}` where the inlined function is called"));
        self.report(finding);
    }

    /// Checks at the end of the module that the names of inlined functions are labels in debug sections, which usually are last.
    pub(super) fn check_inlined_functions(&mut self) {
        let names = std::mem::take(&mut self.globals.inlined_functions);
        for (name, span) in names {
            let text = self.module.names.resolve(name);
            if text == ".debug_str" || self.globals.section_labels.contains_key(&name) {
                continue;
            }
            let finding = Diagnostic::new(DiagnosticCode::BadDebugDirective, span, format!("no debug section has the label `{text}`"));
            self.report(finding);
            if self.diagnostics.is_full() {
                return;
            }
        }
    }

    /// Parses file, line and column.
    fn parse_place(&mut self) -> Parse<[u32; 3]> {
        let (file, _) = self.expect_u32("the number of a file")?;
        let (line, _) = self.expect_u32("a line")?;
        let (column, _) = self.expect_u32("a column")?;
        Ok([file, line, column])
    }

    fn expect_word(&mut self, word: &str) -> Parse<()> {
        if self.lexer.text() != word {
            return self.unexpected(&format!("`{word}`"));
        }
        self.lexer.advance();
        Ok(())
    }

    /// Parses a label or section with an optional offset.
    fn parse_debug_label(&mut self) -> Parse<(oriole_support::Name, i64)> {
        if !matches!(self.lexer.token.kind, TokenKind::Identifier | TokenKind::Directive) {
            return self.unexpected("a label");
        }
        let span = self.span();
        let name = self.intern(span);
        self.lexer.advance();
        if self.at(b'+') {
            self.require_version("an offset to a label in debug data", self.span(), 3, 2);
        }
        let offset = if self.eat(b'+') { self.expect_integer("an offset")?.0 as i64 } else { 0 };
        Ok((name, offset))
    }

    /// Parses `.section .debug_info { ... }`.
    pub(super) fn parse_section(&mut self) -> Parse<()> {
        let start = self.span();
        self.lexer.advance();
        self.require_version("`.section`", start, 2, 0);
        self.globals.has_debug_information = true;
        if self.lexer.token.kind != TokenKind::Directive {
            return self.unexpected("the name of a section, such as `.debug_info`");
        }
        let name_span = self.span();
        let name = self.lexer.text().into();
        let section_name = self.intern(name_span);
        self.globals.section_labels.entry(section_name).or_insert(name_span);
        self.lexer.advance();
        self.expect(b'{', "the name of the section")?;
        let mut section = DwarfSection { name, items: Vec::new(), data: Vec::new() };
        while !self.at(b'}') {
            if self.diagnostics.is_full() {
                return Err(super::Reported);
            }
            self.parse_dwarf_item(&mut section)?;
        }
        self.lexer.advance();
        section.data.shrink_to_fit();
        self.module.items.push(Item::Section(section));
        Ok(())
    }

    /// Parses a label or a line of data in a debug section.
    fn parse_dwarf_item(&mut self, section: &mut DwarfSection) -> Parse<()> {
        let span = self.span();
        match self.lexer.token.kind {
            TokenKind::Identifier => {
                let name = self.intern(span);
                self.lexer.advance();
                self.expect(b':', "a label")?;
                self.require_version("a label in debug data", span, 7, 0);
                if let Some(before) = self.globals.section_labels.insert(name, span) {
                    let text = self.module.names.resolve(name);
                    let finding = Diagnostic::new(
                        DiagnosticCode::DuplicateLabel,
                        span,
                        format!("label `{text}` is already defined in a debug section"),
                    );
                    self.report(finding.related(before, "first defined here"));
                }
                section.items.push(DwarfItem::Label(name));
                Ok(())
            }
            TokenKind::Directive => {
                let bytes = match self.lexer.slice(span) {
                    b".b8" => 1,
                    b".b16" => 2,
                    b".b32" => 4,
                    b".b64" => 8,
                    _ => {
                        let text = self.lexer.text();
                        return self.error(
                            DiagnosticCode::BadDebugDirective,
                            span,
                            format!("debug data is `.b8`, `.b16`, `.b32` or `.b64`, not `{text}`"),
                        );
                    }
                };
                self.lexer.advance();
                self.parse_dwarf_values(bytes, section)
            }
            _ => self.unexpected("debug data or a label"),
        }
    }

    /// Parses the values after `.b8` to `.b64`: a label, a difference of labels, or numbers.
    fn parse_dwarf_values(&mut self, bytes: u8, section: &mut DwarfSection) -> Parse<()> {
        if matches!(self.lexer.token.kind, TokenKind::Identifier | TokenKind::Directive) {
            if bytes < 4 {
                return self.error(DiagnosticCode::BadDebugDirective, self.span(), "labels are `.b32` or `.b64` values");
            }
            let (first, offset) = self.parse_debug_label()?;
            let minus = self.span();
            if self.eat(b'-') {
                self.require_version("the difference of two labels in debug data", minus, 7, 5);
                let span = self.expect_identifier("a label")?;
                section.items.push(DwarfItem::Difference(bytes, first, self.intern(span)));
            } else {
                section.items.push(DwarfItem::Label64(bytes, first, offset));
            }
            return Ok(());
        }
        loop {
            let span = self.span();
            let negative = self.eat(b'-');
            if self.lexer.token.kind != TokenKind::Integer {
                return self.unexpected("a number");
            }
            let value = number::integer(self.lexer.slice(self.span())).map_or(0, |integer| integer.value);
            let place = span.to(self.span());
            self.lexer.advance();
            self.check_dwarf_range(bytes, value, negative, place)?;
            let value = if negative { value.wrapping_neg() } else { value };
            section.data.extend_from_slice(&value.to_le_bytes()[..usize::from(bytes)]);
            match section.items.last_mut() {
                Some(DwarfItem::Integers(size, count)) if *size == bytes && *count < u32::MAX => *count += 1,
                _ => section.items.push(DwarfItem::Integers(bytes, 1)),
            }
            if !self.eat(b',') {
                return Ok(());
            }
        }
    }

    /// Checks that a number fits in 1 or 2 bytes; larger sizes accept any 64-bit number.
    fn check_dwarf_range(&mut self, bytes: u8, value: u64, negative: bool, span: Span) -> Parse<()> {
        let most = match bytes {
            1 => 0xFF,
            2 => 0xFFFF,
            _ => u64::MAX,
        };
        if negative {
            self.require_version("a negative number in debug data", span, 7, 5);
        }
        if value > most || negative && value > most / 2 + 1 {
            return self.error(
                DiagnosticCode::BadDebugDirective,
                span,
                format!("the number does not fit into {bytes} byte{}", if bytes == 1 { "" } else { "s" }),
            );
        }
        Ok(())
    }

    /// Parses `@@DWARF ...`, a line of debug information in PTX 1. The text up to the end of the line is kept.
    pub(super) fn parse_dwarf_line(&mut self) -> Parse<()> {
        let start = self.span();
        self.lexer.advance();
        let word = self.lexer.text();
        if !word.eq_ignore_ascii_case("dwarf") {
            return self.unexpected("`DWARF` after `@@`");
        }
        let source = self.lexer.source();
        let rest = &source[start.start as usize..];
        let end = start.start + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len()) as u32;
        let line = Span::new(start.start, end);
        if self.platform.version.major >= 2 {
            let finding =
                Diagnostic::new(DiagnosticCode::RemovedFeature, start.to(self.span()), "`@@DWARF` was removed in PTX version 2.0")
                    .help("write a `.section`");
            self.report(finding);
        }
        let text = self.lexer.str(line).trim_end().into();
        while !self.at_end() && self.span().start < end {
            self.lexer.advance();
        }
        self.module.items.push(Item::Dwarf(text));
        Ok(())
    }
}
