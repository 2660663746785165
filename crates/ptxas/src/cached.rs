//! Takes compiled programs from a cache, with the messages of their compilation.
//!
//! The front end runs in any case, so that its messages and errors are those of the input. What the compiler itself prints is stored with
//! the cubin. Messages that name a file are the exception: the names of files are not a part of the key, because many callers use
//! temporary files, so a program with such messages is not stored.

use crate::command_line::CommandLine;
use crate::generate;
use crate::messages::{MessageKind, Messages, Recorded};
use crate::program::ParsedModule;
use crate::settings::Settings;

/// A cache of compiled programs.
pub trait ProgramCache {
    /// Returns the stored result of a request. The request is a list of texts that contains all that the result depends on, except the
    /// version of the compiler.
    fn load(&self, request: &[&[u8]]) -> Option<Vec<u8>>;

    /// Stores the result of a request. A failure is not an error of the call.
    fn store(&self, request: &[&[u8]], contents: &[u8]);
}

/// Like [`generate::generate`], with a cache.
pub fn generate(
    modules: &[ParsedModule],
    settings: &Settings,
    line: &CommandLine,
    messages: &mut Messages<'_>,
    cache: &dyn ProgramCache,
) -> Result<Option<Vec<u8>>, String> {
    let options = line.code_options();
    let mut request = vec![options.as_bytes()];
    request.extend(modules.iter().map(|parsed| &parsed.text[..]));
    let found = cache.load(&request).and_then(|contents| read(&contents));
    if line.has("verbose") {
        let result = if found.is_some() { "hit" } else { "miss" };
        messages.print(None, MessageKind::Info, &format!("Oriole cache: {result}"));
    }
    if let Some((recorded, cubin)) = found {
        for message in recorded {
            messages.print(None, message.kind, &message.text);
        }
        return Ok(Some(cubin));
    }
    messages.record();
    let result = generate::generate(modules, settings, line, messages);
    let recorded = messages.take_recorded();
    let is_storable = !messages.has_errors() && !recorded.iter().any(|message| message.has_place);
    if let Ok(Some(cubin)) = &result
        && is_storable
    {
        cache.store(&request, &write(&recorded, cubin));
    }
    result
}

/// Returns messages and a cubin as bytes: for each message the kind, the length and the text; a zero; the cubin.
fn write(recorded: &[Recorded], cubin: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for message in recorded {
        bytes.push(if message.kind == MessageKind::Warning { b'w' } else { b'i' });
        bytes.extend_from_slice(&(message.text.len() as u64).to_le_bytes());
        bytes.extend_from_slice(message.text.as_bytes());
    }
    bytes.push(0);
    bytes.extend_from_slice(cubin);
    bytes
}

/// Reads what [`write`] returned.
fn read(mut bytes: &[u8]) -> Option<(Vec<Recorded>, Vec<u8>)> {
    let mut recorded = Vec::new();
    loop {
        let (&kind, rest) = bytes.split_first()?;
        let kind = match kind {
            0 => return Some((recorded, rest.to_vec())),
            b'w' => MessageKind::Warning,
            b'i' => MessageKind::Info,
            _ => return None,
        };
        let (length, rest) = rest.split_first_chunk()?;
        let (text, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        recorded.push(Recorded { has_place: false, kind, text: String::from_utf8(text.to_vec()).ok()? });
        bytes = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let message = |kind, text: &str| Recorded { has_place: false, kind, text: text.to_owned() };
        let recorded = vec![message(MessageKind::Info, "0 bytes gmem"), message(MessageKind::Warning, "")];
        let bytes = write(&recorded, b"\x7fELF");
        assert_eq!(read(&bytes), Some((recorded, b"\x7fELF".to_vec())));
        for length in 0..bytes.len() - 4 {
            assert_eq!(read(&bytes[..length]), None, "{length}");
        }
    }
}
