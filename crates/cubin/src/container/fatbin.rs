//! Fatbins: images for several targets in one block.
//!
//! A fatbin is a header followed by entries. Each entry is a header and a payload padded to eight bytes. All numbers are little-endian.
//!
//! ```text
//! fatbin   0  u32  magic 0xba55ed50        entry   0  u16  kind: 1 PTX, 2 cubin
//!          4  u16  version 1                       2  u16  version 0x101
//!          6  u16  size of this header             4  u32  size of this header and the data that belongs to it
//!          8  u64  size of the entries             8  u64  size of the payload with padding
//!                                                 16  u32  size of the payload when compressed, else 0
//!                                                 20  u32  offset of the options (see below), or 0
//!                                                 24  u16  minor version, u16 major: of PTX, or 1.8 for a cubin
//!                                                 28  u32  SM
//!                                                 32  u32  offset of the name, u32 its length; or 0
//!                                                 40  u64  flags
//!                                                 48  u64  0
//!                                                 56  u64  size of the image when compressed, else 0
//! ```
//!
//! Offsets are relative to the entry's header. At the offset of the options there is another offset and a length, those of the text: for
//! PTX the command line for ptxas, for a cubin a copy of its `.nv.compat`.

use super::compress::{Compression, decompress};
use super::{Image, ImageKind};
use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// The first word of a fatbin.
pub const MAGIC: u32 = 0xba55_ed50;

/// Minimum size in bytes of an entry header.
const ENTRY_SIZE: u64 = 64;

/// Flags of an entry, found by running `fatbinary` with one option at a time.
pub mod flags {
    pub const DEBUG: u64 = 0x2;
    pub const LZ4: u64 = 0x2000;
    pub const ZSTD: u64 = 0x8000;
    /// The suffix `a` of the target.
    pub const SPECIFIC: u64 = 0x10_0000;
    /// The suffix `f` of the target.
    pub const FAMILY: u64 = 0x20_0000;
    /// A cubin with Mercury code.
    pub const MERCURY: u64 = 0x100_0000;
}

/// The header of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatbinEntry {
    pub kind: u16,
    /// Major and minor version.
    pub version: (u16, u16),
    pub sm: u32,
    pub flags: u64,
    pub name: Option<String>,
    /// Options for ptxas (PTX) or attributes (cubin).
    pub options: Vec<u8>,
}

impl FatbinEntry {
    /// Returns the compression of the payload.
    pub fn compression(&self) -> Compression {
        match (self.flags & flags::ZSTD != 0, self.flags & flags::LZ4 != 0) {
            (true, _) => Compression::Zstd,
            (false, true) => Compression::Lz4,
            (false, false) => Compression::None,
        }
    }

    /// Returns the name of the target, for example `sm_90a`.
    pub fn target(&self) -> String {
        let letter = match (self.flags & flags::SPECIFIC != 0, self.flags & flags::FAMILY != 0) {
            (true, _) => "a",
            (false, true) => "f",
            (false, false) => "",
        };
        format!("sm_{}{letter}", self.sm)
    }

    fn kind(&self) -> ImageKind {
        match self.kind {
            1 => ImageKind::Ptx,
            2 => ImageKind::Cubin,
            other => ImageKind::Other(other),
        }
    }
}

/// Returns all images of one fatbin, or of several in a row with zeros between them.
pub(super) fn images(data: Bytes<'_>) -> Result<Vec<Image>> {
    let mut images = Vec::new();
    let mut at = 0;
    let mut budget = data.len().saturating_mul(MOST_GROWTH).max(LEAST_BUDGET);
    while at < data.len() {
        let magic = data.rest(at, "a fatbin")?;
        if magic.data().iter().take(8).all(|&byte| byte == 0) {
            at += 8;
            continue;
        }
        let head = data.window(at, 16, "the header of a fatbin")?;
        if head.u32(0, "the magic number")? != MAGIC {
            return Err(Error::at(head.place(0), format!("a fatbin must start here, with {MAGIC:#x}")));
        }
        if head.u16(4, "the version")? != 1 {
            return Err(Error::at(head.place(4), format!("the fatbin has version {}, not 1", head.u16(4, "the version")?)));
        }
        let header_size = u64::from(head.u16(6, "a size")?);
        if header_size < 16 {
            return Err(Error::at(head.place(6), format!("the header of the fatbin has {header_size} bytes instead of 16")));
        }
        let size = head.u64(8, "a size")?;
        entries(data.window(at.saturating_add(header_size), size, "the entries of a fatbin")?, &mut images, &mut budget)?;
        at = at.saturating_add(header_size).saturating_add(size);
    }
    Ok(images)
}

/// Maximum total size of the decompressed images per byte of the file. Machine code compresses to a third at best, so no compiler's output
/// exceeds this.
const MOST_GROWTH: u64 = 32;
/// The limit in bytes for small files, for which the factor above would be too low.
const LEAST_BUDGET: u64 = 512 << 20;

/// Appends the images of one fatbin. `budget` is the number of decompressed bytes that are still allowed.
fn entries(data: Bytes<'_>, images: &mut Vec<Image>, budget: &mut u64) -> Result<()> {
    let mut at = 0;
    while at < data.len() {
        let head = data.window(at, ENTRY_SIZE, "the header of an image")?;
        let header_size = u64::from(head.u32(4, "a size")?);
        let size = head.u64(8, "a size")?;
        if header_size < ENTRY_SIZE {
            return Err(Error::at(
                head.place(4),
                format!("the header of the image has {header_size} bytes instead of {ENTRY_SIZE} or more"),
            ));
        }
        let head = data.window(at, header_size, "the header of an image")?;
        let payload = data.window(at.saturating_add(header_size), size, "an image")?;
        let image = image(entry(head)?, head, payload)?;
        *budget = budget
            .checked_sub(image.bytes.len() as u64)
            .ok_or_else(|| Error::at(head.place(0), "the images of this file have more bytes when decompressed than Oriole holds"))?;
        images.push(image);
        at = (at + header_size).saturating_add(size);
    }
    Ok(())
}

/// Decodes the header of an entry.
fn entry(head: Bytes<'_>) -> Result<FatbinEntry> {
    let text = |at: u64, length: u64, what: &str| head.window(at, length, what).map(Bytes::data);
    let name = match (head.u32(32, "the name of an image")?, head.u32(36, "the name of an image")?) {
        (0, _) | (_, 0) => None,
        (at, length) => {
            let bytes = text(u64::from(at), u64::from(length), "the name of an image")?;
            Some(String::from_utf8_lossy(bytes).trim_end_matches('\0').to_owned())
        }
    };
    let options = match u64::from(head.u32(20, "the options of an image")?) {
        0 => Vec::new(),
        at => {
            let place = u64::from(head.u32(at, "the options of an image")?);
            text(place, u64::from(head.u32(at + 4, "the options of an image")?), "the options of an image")?.to_vec()
        }
    };
    Ok(FatbinEntry {
        kind: head.u16(0, "the kind of an image")?,
        version: (head.u16(26, "a version")?, head.u16(24, "a version")?),
        sm: head.u32(28, "the SM of an image")?,
        flags: head.u64(40, "the flags of an image")?,
        name,
        options,
    })
}

/// Returns the decompressed image of an entry.
fn image(entry: FatbinEntry, head: Bytes<'_>, payload: Bytes<'_>) -> Result<Image> {
    let compression = entry.compression();
    let bytes = match compression {
        Compression::None if entry.kind() == ImageKind::Ptx => without_padding(payload.data()).to_vec(),
        Compression::None => payload.data().to_vec(),
        _ => {
            let compressed = u64::from(head.u32(16, "a size")?);
            decompress(compression, payload.window(0, compressed, "a compressed image")?, head.u64(56, "a size")?)?
        }
    };
    let bytes = if entry.kind() == ImageKind::Ptx { without_padding(&bytes).to_vec() } else { bytes };
    let offset = payload.place(0);
    Ok(Image { kind: entry.kind(), target: entry.target(), name: entry.name.clone(), offset, compression, entry: Some(entry), bytes })
}

/// Returns PTX text without the zeros after it.
fn without_padding(text: &[u8]) -> &[u8] {
    let end = text.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    text.get(..end).unwrap_or_default()
}
