//! File names that are not UTF-8, in programs whose arguments are UTF-8.
//!
//! Unix file names are bytes. [`escape`] turns an argument into text from which [`unescape`] restores the exact bytes: a byte that does not
//! belong to a UTF-8 character becomes one of 256 private characters, and so do the bytes of these private characters themselves.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};

/// The private character that stands for byte 0; those of the other bytes follow. At the end of the last plane.
const FIRST: u32 = 0x10_FE00;

fn of_byte(byte: u8) -> char {
    char::from_u32(FIRST + u32::from(byte)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn to_byte(character: char) -> Option<u8> {
    u8::try_from(u32::from(character).checked_sub(FIRST)?).ok()
}

/// Returns an argument as text. Text that is UTF-8 stays as it is.
pub fn escape(argument: &OsStr) -> String {
    let mut text = String::new();
    for part in argument.as_encoded_bytes().utf8_chunks() {
        for character in part.valid().chars() {
            match to_byte(character) {
                Some(_) => text.extend(character.encode_utf8(&mut [0; 4]).bytes().map(of_byte)),
                None => text.push(character),
            }
        }
        text.extend(part.invalid().iter().copied().map(of_byte));
    }
    text
}

/// Returns the bytes of a text in which arguments were escaped.
pub fn unescape_bytes(text: &[u8]) -> Cow<'_, [u8]> {
    // All private characters start with this byte in UTF-8, and hardly anything else does.
    const LEAD: u8 = 0xF4;
    if !text.contains(&LEAD) {
        return Cow::Borrowed(text);
    }
    let mut bytes = Vec::with_capacity(text.len());
    for part in text.utf8_chunks() {
        for character in part.valid().chars() {
            match to_byte(character) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        bytes.extend_from_slice(part.invalid());
    }
    Cow::Owned(bytes)
}

/// Returns the file name of an escaped argument.
#[cfg(unix)]
pub fn unescape(name: &str) -> OsString {
    use std::os::unix::ffi::OsStringExt;
    OsString::from_vec(unescape_bytes(name.as_bytes()).into_owned())
}

/// Returns the file name of an escaped argument. On systems with file names of characters, those that are no text are not restored.
#[cfg(not(unix))]
pub fn unescape(name: &str) -> OsString {
    name.into()
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn every_name_is_restored() {
        for name in [&b"plain.ptx"[..], "gr\u{fc}n".as_bytes(), b"x\xff.ptx", b"\xf4\x8f", "a\u{10FEFF}b".as_bytes(), b"\x80\xfe\xff", b""]
        {
            let text = escape(OsStr::from_bytes(name));
            assert_eq!(unescape(&text).as_bytes(), name, "{text:?}");
        }
        assert_eq!(escape(OsStr::new("a b.ptx")), "a b.ptx");
    }
}
