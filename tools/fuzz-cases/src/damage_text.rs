//! Damages a text. Most changes leave it grammatical: a token is replaced by another one of its kind, or a line is moved.

use std::ops::Range;

use crate::numbers::Numbers;

/// Bytes that change the meaning of the text around them.
const ODD_BYTES: &[u8] = b"{}();,.<>[]|!@%\"\0\xff0x/*\n";

/// Numbers at the limits of types, field widths and formats.
const ODD_NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "2",
    "3",
    "7",
    "15",
    "16",
    "31",
    "32",
    "33",
    "63",
    "64",
    "127",
    "-128",
    "255",
    "256",
    "4095",
    "32767",
    "-32768",
    "65535",
    "65536",
    "0x7fffff",
    "0xffffff",
    "0x7fffffff",
    "0x80000000",
    "2147483648",
    "-2147483648",
    "4294967296",
    "99999999999",
    "0xffffffff",
    "0x100000000",
    "0x7fffffffffffffff",
    "0xffffffffffffffff",
    "18446744073709551616",
    "0f00000000",
    "0f7fc00000",
    "0f80000001",
    "0d7ff0000000000000",
    "1.5",
    "-0.0",
    "1e39",
];

/// The kind of a token. A token is mostly replaced by one of its own kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// `%r1`.
    Register,
    /// `0x10`, `1.5`.
    Number,
    /// `.s32`.
    Modifier,
    /// `R4`, `loop2`.
    NumberedWord,
    /// `add`.
    Word,
    /// Any other byte except white space.
    Sign,
}

/// Damages a text in one to three places, mostly in one. `pool` is another text of the same kind, from which lines and tokens are taken.
pub fn damage_text(text: &mut Vec<u8>, pool: &[u8], numbers: &mut Numbers) {
    for _ in 0..=[0, 0, 0, 1, 1, 2][numbers.below(6)] {
        damage_once(text, pool, numbers);
    }
}

/// Replaces a number by another one, close to it or at the limit of a type.
pub fn damage_number(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let Some(token) = find_token(text, Kind::Number, numbers) else { return };
    let old = std::str::from_utf8(&text[token.clone()]).ok().and_then(|digits| digits.parse::<u64>().ok());
    let new = match (old, numbers.below(4)) {
        (Some(old), 0) => old.wrapping_add(1).to_string(),
        (Some(old), 1) => old.wrapping_sub(1).to_string(),
        (Some(old), 2) => old.wrapping_mul(1 + numbers.below(40) as u64).to_string(),
        _ => numbers.pick(ODD_NUMBERS).to_string(),
    };
    text.splice(token, new.into_bytes());
}

fn damage_once(text: &mut Vec<u8>, pool: &[u8], numbers: &mut Numbers) {
    if text.is_empty() {
        text.extend(line_of(pool, numbers));
        return;
    }
    match numbers.below(100) {
        0..40 => replace_operand(text, numbers),
        40..60 => replace_token(text, pool, numbers),
        60..68 => remove_token(text, numbers),
        68..94 => damage_lines(text, pool, numbers),
        _ => damage_bytes_of_text(text, numbers),
    }
}

fn damage_lines(text: &mut Vec<u8>, pool: &[u8], numbers: &mut Numbers) {
    let place = numbers.below(text.len());
    let line = line_around(text, place);
    match numbers.below(5) {
        0 => drop(text.drain(line)),
        1 => {
            let copy = text[line].to_vec();
            let target = line_around(text, numbers.below(text.len())).start;
            text.splice(target..target, copy);
        }
        2 => {
            let moved: Vec<u8> = text.drain(line).collect();
            let target = line_around(text, numbers.below(text.len())).start;
            text.splice(target..target, moved);
        }
        3 => {
            let other = line_of(text, numbers);
            text.splice(line, other);
        }
        _ => {
            let other = line_of(pool, numbers);
            text.splice(line.start..line.start, other);
        }
    }
}

fn damage_bytes_of_text(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let place = numbers.below(text.len());
    match numbers.below(4) {
        0 => text.truncate(place),
        1 => drop(text.drain(place..(place + 1 + numbers.below(40)).min(text.len()))),
        2 => text[place] = numbers.next() as u8,
        _ => text[place] = *numbers.pick(ODD_BYTES),
    }
}

/// Replaces a register by another register of the text, or a number by another number.
fn replace_operand(text: &mut Vec<u8>, numbers: &mut Numbers) {
    let kind = *numbers.pick(&[Kind::Register, Kind::Register, Kind::NumberedWord, Kind::Number]);
    if kind == Kind::Number {
        return damage_number(text, numbers);
    }
    let Some((token, other)) = find_token(text, kind, numbers).zip(find_token(text, kind, numbers)) else { return };
    let other = text[other].to_vec();
    text.splice(token, other);
}

fn replace_token(text: &mut Vec<u8>, pool: &[u8], numbers: &mut Numbers) {
    let Some((kind, token)) = token_at(text, numbers.below(text.len())) else { return };
    let replacement = if kind == Kind::Number && numbers.chance(60) {
        numbers.pick(ODD_NUMBERS).as_bytes().to_vec()
    } else {
        let source: &[u8] = if numbers.chance(75) { text } else { pool };
        match find_token(source, kind, numbers) {
            Some(other) => source[other].to_vec(),
            None => return,
        }
    };
    text.splice(token, replacement);
}

fn remove_token(text: &mut Vec<u8>, numbers: &mut Numbers) {
    if let Some((_, token)) = token_at(text, numbers.below(text.len())) {
        text.drain(token);
    }
}

/// Finds a token of a kind at or after a random offset.
fn find_token(text: &[u8], kind: Kind, numbers: &mut Numbers) -> Option<Range<usize>> {
    let mut place = numbers.below(text.len());
    for _ in 0..64 {
        let (found, token) = token_at(text, place)?;
        if found == kind {
            return Some(token);
        }
        place = token.end;
    }
    None
}

/// Returns the token at or after an offset, and its kind.
fn token_at(text: &[u8], place: usize) -> Option<(Kind, Range<usize>)> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$';
    let mut start = place + text.get(place..)?.iter().position(|byte| !byte.is_ascii_whitespace())?;
    // Move back to the start of the word that contains the offset.
    while start > 0 && is_word(text[start]) && is_word(text[start - 1]) {
        start -= 1;
    }
    if start > 0 && is_word(text[start]) && matches!(text[start - 1], b'%' | b'.') {
        start -= 1;
    }
    let first = text[start];
    let has_prefix = matches!(first, b'%' | b'.') && text.get(start + 1).is_some_and(|&byte| is_word(byte));
    if !has_prefix && !is_word(first) {
        return Some((Kind::Sign, start..start + 1));
    }
    let end = start + 1 + text[start + 1..].iter().position(|&byte| !is_word(byte)).unwrap_or(text.len() - start - 1);
    let kind = match first {
        b'%' => Kind::Register,
        b'.' => Kind::Modifier,
        b'0'..=b'9' => Kind::Number,
        _ if text[end - 1].is_ascii_digit() => Kind::NumberedWord,
        _ => Kind::Word,
    };
    Some((kind, start..end))
}

/// Returns the line that contains an offset, including its line break.
fn line_around(text: &[u8], place: usize) -> Range<usize> {
    let place = place.min(text.len());
    let start = text[..place].iter().rposition(|&byte| byte == b'\n').map_or(0, |position| position + 1);
    let end = text[place..].iter().position(|&byte| byte == b'\n').map_or(text.len(), |position| place + position + 1);
    start..end
}

/// Returns a copy of a random line.
fn line_of(text: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    text[line_around(text, numbers.below(text.len()))].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_have_kinds() {
        let text = b"add.s32 %r1, R4, 0x10;";
        let kinds = [(1, Kind::Word, "add"), (4, Kind::Modifier, ".s32"), (9, Kind::Register, "%r1"), (11, Kind::Sign, ",")];
        for (place, kind, token) in kinds.into_iter().chain([(13, Kind::NumberedWord, "R4"), (18, Kind::Number, "0x10")]) {
            let (found, range) = token_at(text, place).expect("a token");
            assert_eq!((found, &text[range]), (kind, token.as_bytes()));
        }
    }

    #[test]
    fn any_text_can_be_damaged() {
        let mut numbers = Numbers::new(1);
        for seed in 0..2000 {
            let mut text = b"a.b %c\n1;".to_vec();
            text.truncate(seed % 10);
            for _ in 0..20 {
                damage_text(&mut text, b"x", &mut numbers);
            }
        }
    }
}
