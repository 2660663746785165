//! Decompression of images: a bare LZ4 block or a zstd frame.

use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// The compression of an image in a fatbin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    /// `fatbinary --compress-mode=speed`, and every toolkit up to 12.x
    Lz4,
    /// `--compress-mode=default`, `balance` and `size`
    Zstd,
}

/// Maximum expansion factor of LZ4: one byte becomes at most 255 bytes.
const LZ4_LIMIT: u64 = 255;

/// Number of bytes of a zstd frame to decode at a time.
const STEP: usize = 1 << 20;

/// Maximum size in bytes of a decompressed image, larger than any cubin.
const MOST_BYTES: u64 = 256 << 20;

/// Decompresses an image to exactly `size` bytes, or fails. Memory is bounded by the actual output, not by what the file claims.
pub(super) fn decompress(method: Compression, data: Bytes<'_>, size: u64) -> Result<Vec<u8>> {
    if method != Compression::None && size > MOST_BYTES {
        return Err(Error::at(data.place(0), format!("the image has {size:#x} bytes when decompressed, more than {MOST_BYTES:#x}")));
    }
    let out = match method {
        Compression::None => data.data().to_vec(),
        Compression::Lz4 => lz4(data, size)?,
        Compression::Zstd => zstd(data, size)?,
    };
    if out.len() as u64 != size {
        return Err(Error::at(data.place(0), format!("the image has {:#x} bytes when decompressed instead of {size:#x}", out.len())));
    }
    Ok(out)
}

fn lz4(data: Bytes<'_>, size: u64) -> Result<Vec<u8>> {
    let broken = |what: String| Error::at(data.place(0), format!("the LZ4 data is damaged: {what}"));
    if size > data.len().saturating_mul(LZ4_LIMIT).saturating_add(LZ4_LIMIT) {
        return Err(broken(format!("{:#x} bytes cannot become {size:#x}", data.len())));
    }
    let mut out = vec![0; usize::try_from(size).map_err(|_| broken("it is too large".into()))?];
    let written = lz4_flex::block::decompress_into(data.data(), &mut out).map_err(|error| broken(error.to_string()))?;
    out.truncate(written);
    Ok(out)
}

fn zstd(data: Bytes<'_>, size: u64) -> Result<Vec<u8>> {
    let broken = |what: String| Error::at(data.place(0), format!("the zstd data is damaged: {what}"));
    let mut source = data.data();
    let mut decoder = FrameDecoder::new();
    decoder.init(&mut source).map_err(|error| broken(error.to_string()))?;
    let mut out = Vec::new();
    while !decoder.is_finished() {
        let step = BlockDecodingStrategy::UptoBytes(STEP);
        decoder.decode_blocks(&mut source, step).map_err(|error| broken(error.to_string()))?;
        out.extend(decoder.collect().unwrap_or_default());
        if out.len() as u64 > size {
            return Err(broken(format!("more than {size:#x} bytes come out")));
        }
    }
    out.extend(decoder.collect().unwrap_or_default());
    Ok(out)
}
