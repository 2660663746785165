//! Lexer: splits PTX text into tokens.
//!
//! The lexer is a cursor that holds one token as a kind and a byte range. It only delimits numbers; [`number`] computes their value on
//! demand. [`Lexer::extend_head`] reads a whole instruction head (`ld.global.v4.f32`) as one token, because the parser looks up heads as
//! a whole.

use crate::source::Span;

/// The kind of a token.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TokenKind {
    /// A name: `add`, `%r1`, `$L__BB0_1`, `_`.
    Identifier,
    /// A dot followed by a name: `.reg`, `.shared::cta`.
    Directive,
    /// An integer literal.
    Integer,
    /// A float literal: decimal, `0f...` or `0d...`.
    Float,
    /// A quoted string.
    String,
    /// One character of punctuation.
    Punctuation(u8),
    /// Two characters, by a code: the first character for `<<`, `>>`, `==`, `&&`, `||` and `@@`; `l` for `<=`, `g` for `>=`, `!` for `!=`.
    Double(u8),
    /// Text that is not PTX.
    Bad(BadToken),
    /// The end of the text.
    End,
}

/// The reason why a token is invalid.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadToken {
    /// A byte that PTX does not use.
    Character,
    /// A byte outside ASCII.
    NonAscii,
    /// A comment without an end.
    Comment,
    /// A string without an end.
    String,
    /// Digits that do not form a number.
    Number,
}

/// A token: its kind and position.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token {
    /// The kind.
    pub kind: TokenKind,
    /// The position.
    pub span: Span,
}

// Character classes, one bit each: white space, characters of names, decimal digits, first characters of names.
const SPACE: u8 = 1;
const NAME: u8 = 2;
const DIGIT: u8 = 4;
const NAME_START: u8 = 8;

const FORM_FEED: u8 = 0x0c;
/// End-of-file character of old DOS editors. ptxas treats it as white space.
const DOS_END_OF_FILE: u8 = 0x1a;

/// Builds the table of character classes.
const fn classes() -> [u8; 256] {
    let mut table = [0u8; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        let mut class = 0;
        if matches!(b, b' ' | b'\t' | b'\n' | b'\r' | FORM_FEED | DOS_END_OF_FILE) {
            class |= SPACE;
        }
        if b.is_ascii_alphanumeric() || b == b'_' || b == b'$' {
            class |= NAME;
        }
        if b.is_ascii_digit() {
            class |= DIGIT;
        }
        if b.is_ascii_alphabetic() || b == b'_' || b == b'$' || b == b'%' {
            class |= NAME_START;
        }
        table[byte] = class;
        byte += 1;
    }
    table
}

static CLASS: [u8; 256] = classes();

fn is(byte: u8, class: u8) -> bool {
    CLASS[usize::from(byte)] & class != 0
}

/// Returns the number of leading bytes of `text` that are in `class`.
fn class_length(text: &[u8], class: u8) -> usize {
    let mut length = 0;
    while length < text.len() && is(text[length], class) {
        length += 1;
    }
    length
}

/// Cursor over the tokens of a text.
#[derive(Clone)]
pub struct Lexer<'a> {
    text: &'a [u8],
    /// The text as a string, if all of it is UTF-8. Slices of it need no check.
    string: Option<&'a str>,
    /// Offset of the first byte after the current token.
    position: usize,
    /// The current token.
    pub token: Token,
    /// Offset of the end of the previous token.
    pub last_end: u32,
}

impl<'a> Lexer<'a> {
    /// Creates a lexer whose current token is the first token of the text.
    pub fn new(text: &'a [u8]) -> Self {
        let token = Token { kind: TokenKind::End, span: Span::default() };
        let mut lexer = Lexer { text, string: std::str::from_utf8(text).ok(), position: 0, token, last_end: 0 };
        lexer.advance();
        lexer
    }

    /// Moves to the first token at or after an offset, which must not be inside of a token or comment.
    pub(crate) fn seek(&mut self, position: usize) {
        self.position = position;
        self.advance();
    }

    /// Returns the bytes of a span.
    pub fn slice(&self, span: Span) -> &'a [u8] {
        &self.text[span.start as usize..span.end as usize]
    }

    /// Returns the text of the current token; empty if the token is not UTF-8. Tokens whose text is used are always ASCII.
    pub fn text(&self) -> &'a str {
        self.str(self.token.span)
    }

    /// Returns the text of a span; empty if it is not UTF-8.
    pub fn str(&self, span: Span) -> &'a str {
        match self.string {
            Some(string) => string.get(span.start as usize..span.end as usize).unwrap_or(""),
            None => std::str::from_utf8(self.slice(span)).unwrap_or(""),
        }
    }

    /// Returns the whole text.
    pub fn source(&self) -> &'a [u8] {
        self.text
    }

    /// Returns the byte at a position; 0 after the end.
    fn byte(&self, position: usize) -> u8 {
        self.text.get(position).copied().unwrap_or(0)
    }

    /// Moves to the next token.
    pub fn advance(&mut self) {
        self.last_end = self.token.span.end;
        let unterminated = self.skip_blanks();
        let start = self.position;
        let kind = match unterminated {
            Some(bad) => TokenKind::Bad(bad),
            None => self.scan(),
        };
        self.token = Token { kind, span: Span::new(start as u32, self.position as u32) };
    }

    /// Skips white space, comments and line markers. A comment without an end becomes an invalid token that covers the rest of the text.
    fn skip_blanks(&mut self) -> Option<BadToken> {
        self.skip_class(SPACE);
        if !matches!(self.byte(self.position), b'/' | b'#') {
            return None;
        }
        let (position, bad) = self.after_blanks(self.position);
        self.position = position;
        bad
    }

    /// Returns the offset of the next token after `position`, and an error if a comment does not end.
    fn after_blanks(&self, mut position: usize) -> (usize, Option<BadToken>) {
        loop {
            position += class_length(&self.text[position..], SPACE);
            let first = self.byte(position);
            if first != b'/' && first != b'#' {
                return (position, None);
            }
            match (first, self.byte(position + 1)) {
                (b'/', b'/') => position = self.line_end(position),
                (b'/', b'*') => match find_comment_end(&self.text[position + 2..]) {
                    Some(length) => position += 2 + length,
                    None => return (position, Some(BadToken::Comment)),
                },
                (b'#', _) => match line_marker(&self.text[position..]) {
                    Some(length) => position += length,
                    None => return (position, None),
                },
                _ => return (position, None),
            }
        }
    }

    fn line_end(&self, position: usize) -> usize {
        let rest = &self.text[position..];
        position + rest.iter().position(|&byte| byte == b'\n').unwrap_or(rest.len())
    }

    fn skip_class(&mut self, class: u8) {
        self.position += class_length(&self.text[self.position..], class);
    }

    /// Reads the token at the current position and returns its kind.
    fn scan(&mut self) -> TokenKind {
        let Some(&first) = self.text.get(self.position) else { return TokenKind::End };
        if is(first, NAME_START) {
            self.position += 1;
            self.skip_class(NAME);
            return TokenKind::Identifier;
        }
        if is(first, DIGIT) {
            return self.scan_number();
        }
        self.position += 1;
        match first {
            b'.' if is(self.byte(self.position), NAME) => {
                self.skip_name_with_colons();
                TokenKind::Directive
            }
            b'"' => self.scan_string(),
            b'<' | b'>' | b'=' | b'!' | b'&' | b'|' | b'@' => {
                let second = self.byte(self.position);
                let double = second == first && first != b'!' || second == b'=' && matches!(first, b'<' | b'>' | b'!');
                if double && second == b'=' && first != b'=' {
                    self.position += 1;
                    // `<=`, `>=` and `!=` get codes of their own, because `<<` and `>>` start with the same characters.
                    return TokenKind::Double(match first {
                        b'<' => b'l',
                        b'>' => b'g',
                        _ => b'!',
                    });
                }
                if double {
                    self.position += 1;
                    return TokenKind::Double(first);
                }
                TokenKind::Punctuation(first)
            }
            b'{' | b'}' | b'[' | b']' | b'(' | b')' | b',' | b';' | b':' | b'+' | b'-' | b'*' | b'/' | b'%' | b'~' | b'^' | b'?' | b'.' => {
                TokenKind::Punctuation(first)
            }
            0x80.. => {
                while self.byte(self.position) >= 0x80 {
                    self.position += 1;
                }
                TokenKind::Bad(BadToken::NonAscii)
            }
            _ => TokenKind::Bad(BadToken::Character),
        }
    }

    /// Skips a name that may contain `::`, such as `shared::cta`.
    fn skip_name_with_colons(&mut self) {
        loop {
            self.skip_class(NAME);
            let colons = self.byte(self.position) == b':' && self.byte(self.position + 1) == b':';
            if !(colons && is(self.byte(self.position + 2), NAME)) {
                return;
            }
            self.position += 2;
        }
    }

    fn scan_string(&mut self) -> TokenKind {
        let rest = &self.text[self.position..];
        let Some(end) = rest.iter().position(|&byte| byte == b'"') else {
            // Lexing continues in the next line.
            self.position = self.line_end(self.position);
            return TokenKind::Bad(BadToken::String);
        };
        self.position += end + 1;
        if rest[..end].is_ascii() { TokenKind::String } else { TokenKind::Bad(BadToken::NonAscii) }
    }

    /// Reads an integer or float literal. Letters that follow directly make it an invalid number.
    fn scan_number(&mut self) -> TokenKind {
        let start = self.position;
        self.skip_class(DIGIT);
        let next = self.byte(self.position);
        let plain = self.text[start] != b'0' || self.position == start + 1;
        // The common case, a decimal integer, needs no further checks.
        if plain && !is(next, NAME) && next != b'.' {
            return TokenKind::Integer;
        }
        self.position = start;
        let second = self.byte(start + 1);
        if self.text[start] == b'0' && matches!(second, b'f' | b'F' | b'd' | b'D') {
            self.skip_class(NAME);
            let digits = if matches!(second, b'f' | b'F') { 8 } else { 16 };
            let body = &self.text[start + 2..self.position];
            let good = body.len() == digits && body.iter().all(u8::is_ascii_hexdigit);
            return if good { TokenKind::Float } else { TokenKind::Bad(BadToken::Number) };
        }
        if self.text[start] == b'0' && matches!(second, b'x' | b'X' | b'b' | b'B') {
            self.skip_class(NAME);
            return integer_or_bad(&self.text[start..self.position]);
        }
        self.skip_class(DIGIT);
        let mut float = false;
        // Numbers extend as far as possible, as in ptxas: `4.b32` starts with the float `4.`.
        if self.byte(self.position) == b'.' {
            float = true;
            self.position += 1;
            self.skip_class(DIGIT);
        }
        if matches!(self.byte(self.position), b'e' | b'E') {
            let sign = usize::from(matches!(self.byte(self.position + 1), b'+' | b'-'));
            if is(self.byte(self.position + 1 + sign), DIGIT) {
                float = true;
                self.position += 1 + sign;
                self.skip_class(DIGIT);
            }
        }
        if float {
            let digits_end = self.position;
            self.skip_class(NAME);
            return if self.position == digits_end { TokenKind::Float } else { TokenKind::Bad(BadToken::Number) };
        }
        self.skip_class(NAME);
        integer_or_bad(&self.text[start..self.position])
    }

    /// Extends the current identifier over the modifiers that follow it directly: `ld` becomes `ld.global.f32`.
    pub(crate) fn extend_head(&mut self) {
        let next = |lexer: &Self| lexer.byte(lexer.position) == b'.' && is(lexer.byte(lexer.position + 1), NAME);
        // Valid only if the identifier is the current token, because there is no look-ahead beyond it.
        while next(self) {
            self.position += 1;
            self.skip_name_with_colons();
        }
        self.token.span.end = self.position as u32;
    }

    /// Returns whether nothing is between the previous token and the current one.
    pub(crate) fn is_adjacent(&self) -> bool {
        self.last_end == self.token.span.start
    }

    /// Returns whether `byte` directly follows the current token.
    pub(crate) fn followed_by(&self, byte: u8) -> bool {
        self.byte(self.position) == byte
    }

    /// Returns the first byte of the token after the current one; 0 at the end.
    pub(crate) fn next_significant_byte(&self) -> u8 {
        // Fast path: most tokens are followed by punctuation or one blank.
        let next = self.byte(self.position);
        if !is(next, SPACE) && !matches!(next, b'/' | b'#') {
            return next;
        }
        self.byte(self.after_blanks(self.position).0)
    }

    /// Skips to the end of the text, after an error that makes further parsing useless.
    pub fn finish(&mut self) {
        self.position = self.text.len();
        self.advance();
    }
}

/// Returns the length of the rest of a comment, including `*/`; `None` if the comment does not end.
fn find_comment_end(rest: &[u8]) -> Option<usize> {
    let mut position = 0;
    loop {
        position += rest[position..].iter().position(|&byte| byte == b'/')? + 1;
        if position >= 2 && rest[position - 2] == b'*' {
            return Some(position);
        }
    }
}

/// Returns the length of a line marker `# 1 "file.cu" 2 3` or `#line 1 "file.cu"` at the start of `text`. Preprocessors leave such lines;
/// they have no meaning. Stops at the first byte that does not fit, so that a line of many `#` takes linear time.
fn line_marker(text: &[u8]) -> Option<usize> {
    let skip = |from: usize, fits: fn(u8) -> bool| from + text[from..].iter().take_while(|&&byte| fits(byte)).count();
    let blank = |byte| matches!(byte, b' ' | b'\t' | b'\r');
    let mut position = skip(1, blank);
    if text[position..].starts_with(b"line") {
        position = skip(position + 4, blank);
    }
    let number_end = skip(position, |byte| byte.is_ascii_digit());
    let quote = skip(number_end, blank);
    if number_end == position || quote == number_end || text.get(quote) != Some(&b'"') {
        return None;
    }
    let close = skip(quote + 1, |byte| !matches!(byte, b'"' | b'\n'));
    if text.get(close) != Some(&b'"') {
        return None;
    }
    let end = skip(close + 1, |byte| byte.is_ascii_digit() || matches!(byte, b' ' | b'\t' | b'\r'));
    (end == text.len() || text[end] == b'\n').then_some(end)
}

fn integer_or_bad(text: &[u8]) -> TokenKind {
    if number::integer(text).is_some() { TokenKind::Integer } else { TokenKind::Bad(BadToken::Number) }
}

/// Computes the values of number tokens.
pub mod number {
    /// The value of an integer literal.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Integer {
        /// The value modulo 2^64.
        pub value: u64,
        /// Whether it has the suffix `U`.
        pub unsigned: bool,
        /// Whether the value needs more than 64 bits.
        pub overflow: bool,
    }

    /// Parses a decimal, octal (leading 0), hexadecimal or binary integer with an optional suffix `U`.
    pub fn integer(text: &[u8]) -> Option<Integer> {
        if let Some(value) = short_decimal(text) {
            return Some(Integer { value, unsigned: false, overflow: false });
        }
        let (body, unsigned) = match text {
            [body @ .., b'U'] => (body, true),
            _ => (text, false),
        };
        let (digits, radix) = match body {
            [b'0', b'x' | b'X', digits @ ..] => (digits, 16),
            [b'0', b'b' | b'B', digits @ ..] => (digits, 2),
            [b'0', digits @ ..] if !digits.is_empty() => (digits, 8),
            digits => (digits, 10),
        };
        if digits.is_empty() {
            return None;
        }
        let (mut value, mut overflow) = (0u64, false);
        for &digit in digits {
            let digit = u64::from(char::from(digit).to_digit(radix)?);
            let wide = u128::from(value) * u128::from(radix) + u128::from(digit);
            overflow |= wide > u128::from(u64::MAX);
            value = wide as u64;
        }
        Some(Integer { value, unsigned, overflow })
    }

    /// Parses the common case: at most nine decimal digits and nothing else.
    fn short_decimal(text: &[u8]) -> Option<u64> {
        let plain = text.len() <= 9 && (text.len() == 1 || text.first() != Some(&b'0'));
        if !plain || text.is_empty() {
            return None;
        }
        text.iter().try_fold(0, |value, digit| digit.is_ascii_digit().then(|| value * 10 + u64::from(digit - b'0')))
    }

    /// The value of a float literal.
    #[derive(Clone, Copy, PartialEq, Debug)]
    pub enum Float {
        /// `0fXXXXXXXX`: the encoding of a single-precision number.
        Single(u32),
        /// `0dXXXXXXXXXXXXXXXX`: the encoding of a double-precision number.
        Double(u64),
        /// A decimal number, as double precision.
        Decimal(f64),
    }

    /// Parses a float literal.
    pub fn float(text: &str) -> Option<Float> {
        match text.as_bytes() {
            [b'0', b'f' | b'F', ..] => u32::from_str_radix(&text[2..], 16).ok().map(Float::Single),
            [b'0', b'd' | b'D', ..] => u64::from_str_radix(&text[2..], 16).ok().map(Float::Double),
            _ => text.parse().ok().map(Float::Decimal),
        }
    }
}
