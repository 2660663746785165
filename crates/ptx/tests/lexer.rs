//! Tokens, numbers, and the lines of a text.

use oriole_ptx::lexer::{BadToken, Lexer, TokenKind, number};
use oriole_ptx::source::LineIndex;
use oriole_ptx::{Options, check};

fn kinds(text: &str) -> Vec<(TokenKind, String)> {
    let mut lexer = Lexer::new(text.as_bytes());
    let mut all = Vec::new();
    while lexer.token.kind != TokenKind::End {
        all.push((lexer.token.kind, lexer.text().to_string()));
        lexer.advance();
        assert!(all.len() < 1000);
    }
    all
}

#[test]
fn names_numbers_and_punctuation() {
    use TokenKind::*;
    let all = kinds("%r1, $L_2: 0x1FU 0f3F800000 1.5e3 @!p /* c */ .shared::cta // end");
    let expected = [
        (Identifier, "%r1"),
        (Punctuation(b','), ","),
        (Identifier, "$L_2"),
        (Punctuation(b':'), ":"),
        (Integer, "0x1FU"),
        (Float, "0f3F800000"),
        (Float, "1.5e3"),
        (Punctuation(b'@'), "@"),
        (Punctuation(b'!'), "!"),
        (Identifier, "p"),
        (Directive, ".shared::cta"),
    ];
    assert_eq!(all, expected.map(|(kind, text)| (kind, text.to_string())));
}

#[test]
fn a_label_is_not_a_qualified_name() {
    let all = kinds("a:b .x::y:");
    assert_eq!(all.len(), 5);
    assert_eq!(all[3], (TokenKind::Directive, ".x::y".to_string()));
}

#[test]
fn line_markers_are_blanks() {
    assert!(kinds("# 1 \"a.cu\"\n#line 2 \"b.cu\" 3 4\r\n  # line 5 \"\"").is_empty());
    for wrong in ["# 5", "#", "# pragma", "# \"a.cu\"", "# 1 \"a.cu", "# 1 \"a.cu\" x"] {
        assert_eq!(kinds(wrong)[0].0, TokenKind::Bad(BadToken::Character), "{wrong}");
    }
}

#[test]
fn comments_end_where_they_should() {
    assert_eq!(kinds("/**/ a /***/ b /*/*/ c /* / * // */ d").len(), 4);
    // A label and its colon with comments in between.
    let text = b".version 8.0\n.target sm_80\n.address_size 64\n.entry k() {\nL /* : */ // :\n : bra L; }\n";
    assert!(check(text, &Options::default()).is_valid());
}

#[test]
fn bad_tokens_are_marked_and_lexing_goes_on() {
    let text = b"0f12 09 1x 4.b32 \x00 \xc3\xa9 \"\xe9\" \"abc\n/* open";
    let mut lexer = Lexer::new(text);
    let mut bad = Vec::new();
    while lexer.token.kind != TokenKind::End && bad.len() < 20 {
        if let TokenKind::Bad(reason) = lexer.token.kind {
            bad.push(reason);
            if reason == BadToken::Comment {
                lexer.finish();
                continue;
            }
        }
        lexer.advance();
    }
    use BadToken::*;
    assert_eq!(bad, [Number, Number, Number, Number, Character, NonAscii, NonAscii, String, Comment]);
}

#[test]
fn integers_in_every_base() {
    let value = |text: &str| number::integer(text.as_bytes()).map(|integer| integer.value);
    assert_eq!(value("0x10"), Some(16));
    assert_eq!(value("010"), Some(8));
    assert_eq!(value("0b101U"), Some(5));
    assert_eq!(value("0"), Some(0));
    assert_eq!(value("08"), None);
    assert!(number::integer(b"18446744073709551616").unwrap().overflow);
}

#[test]
fn lines_and_columns() {
    let text = b"ab\r\ncd\n\nx";
    let lines = LineIndex::new(text);
    assert_eq!(lines.line_column(0), (1, 1));
    assert_eq!(lines.line_column(5), (2, 2));
    assert_eq!(lines.line_column(8), (4, 1));
    assert_eq!(lines.line_text(text, 0), b"ab");
    assert_eq!(lines.line_text(text, 2), b"");
    assert_eq!(lines.line_text(text, 3), b"x");
}
