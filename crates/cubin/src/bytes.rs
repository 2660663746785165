//! Bounds-checked reading.
//!
//! A [`Bytes`] is a window of a file that knows its position in the file, so that errors can name the position. All reading in this crate
//! goes through it: no slice is indexed with a number from a file.

use object::pod::{Pod, from_bytes};

use crate::error::{Error, Result};

/// A window of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a> {
    data: &'a [u8],
    /// Offset of `data[0]` in the file.
    base: u64,
}

impl<'a> Bytes<'a> {
    /// Returns a window on a whole file.
    pub fn new(data: &'a [u8]) -> Self {
        Bytes { data, base: 0 }
    }

    pub fn data(self) -> &'a [u8] {
        self.data
    }

    pub fn len(self) -> u64 {
        self.data.len() as u64
    }

    /// Returns the position in the file of the byte at `offset` of this window.
    pub fn place(self, offset: u64) -> u64 {
        self.base.saturating_add(offset)
    }

    /// Returns the window of `size` bytes at `offset`. `what` is the subject of the error message.
    pub fn window(self, offset: u64, size: u64, what: &str) -> Result<Bytes<'a>> {
        let range = usize::try_from(offset).ok().zip(offset.checked_add(size).and_then(|end| usize::try_from(end).ok()));
        match range.and_then(|(start, end)| self.data.get(start..end)) {
            Some(data) => Ok(Bytes { data, base: self.place(offset) }),
            None => {
                let message = format!("{what} needs {size:#x} bytes from here, but the data ends at {:#x}", self.place(self.len()));
                Err(Error::at(self.place(offset), message))
            }
        }
    }

    /// Returns the window from `offset` to the end.
    pub fn rest(self, offset: u64, what: &str) -> Result<Bytes<'a>> {
        let size = self.len().checked_sub(offset).ok_or_else(|| {
            Error::at(self.place(offset), format!("{what} starts here, but the data ends at {:#x}", self.place(self.len())))
        })?;
        self.window(offset, size, what)
    }

    /// Returns a record with a fixed layout.
    pub fn record<T: Pod>(self, offset: u64, what: &str) -> Result<&'a T> {
        let window = self.window(offset, size_of::<T>() as u64, what)?;
        let place = window.base;
        from_bytes(window.data).map(|(record, _)| record).map_err(|()| Error::at(place, format!("{what} cannot be read")))
    }

    fn array<const N: usize>(self, offset: u64, what: &str) -> Result<[u8; N]> {
        let window = self.window(offset, N as u64, what)?;
        window.data.try_into().map_err(|_| Error::at(window.base, format!("{what} cannot be read")))
    }

    pub fn u8(self, offset: u64, what: &str) -> Result<u8> {
        self.array(offset, what).map(u8::from_le_bytes)
    }

    pub fn u16(self, offset: u64, what: &str) -> Result<u16> {
        self.array(offset, what).map(u16::from_le_bytes)
    }

    pub fn u32(self, offset: u64, what: &str) -> Result<u32> {
        self.array(offset, what).map(u32::from_le_bytes)
    }

    pub fn u64(self, offset: u64, what: &str) -> Result<u64> {
        self.array(offset, what).map(u64::from_le_bytes)
    }

    /// Returns the text from `offset` up to the next zero byte.
    pub fn text(self, offset: u64, what: &str) -> Result<&'a str> {
        let rest = self.rest(offset, what)?;
        let Some(end) = rest.data.iter().position(|&byte| byte == 0) else {
            return Err(Error::at(rest.base, format!("{what} has no end")));
        };
        let text = rest.data.get(..end).unwrap_or_default();
        std::str::from_utf8(text).map_err(|_| Error::at(rest.base, format!("{what} is not UTF-8")))
    }
}

/// Returns the next multiple of `alignment`, which need not be a power of two; 0 and 1 mean no alignment.
pub(crate) fn align_up(value: u64, alignment: u64) -> u64 {
    value.checked_next_multiple_of(alignment.max(1)).unwrap_or(value)
}

/// Returns the alignment of a section in the file. Sections start at multiples of their alignment, as in ptxas' files. A very large
/// alignment applies in memory only, so that it does not inflate the file.
pub(crate) fn file_alignment(alignment: u64) -> u64 {
    alignment.min(1 << 24)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_know_their_place() {
        let bytes = Bytes::new(b"abc\0def");
        let inner = bytes.window(4, 3, "inner").unwrap();
        assert_eq!((inner.data(), inner.place(1)), (&b"def"[..], 5));
        assert_eq!(
            inner.window(2, 2, "pair").unwrap_err().to_string(),
            "at byte 0x6: pair needs 0x2 bytes from here, but the data ends at 0x7"
        );
        assert_eq!(bytes.window(u64::MAX, 2, "far").unwrap_err().offset, Some(u64::MAX));
        assert_eq!(bytes.text(0, "name").unwrap(), "abc");
        assert_eq!(inner.text(0, "name").unwrap_err().to_string(), "at byte 0x4: name has no end");
    }
}
