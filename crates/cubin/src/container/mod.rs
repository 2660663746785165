//! Finds cubins and PTX in container files.
//!
//! [`open`] accepts any of these files and returns the images inside, decompressed:
//!
//! - a cubin, or PTX text, by itself;
//! - a fatbin, or several one after the other (`fatbinary`, `nvcc -fatbin`);
//! - a host object, executable or shared library, whose sections `.nv_fatbin` (linked code) and `__nv_relfatbin` (relocatable code) hold
//!   fatbins;
//! - a static library of such objects.

mod archive;
mod compress;
pub mod fatbin;
mod host;

use crate::bytes::Bytes;
use crate::cubin::{Cubin, EM_CUDA};
use crate::error::{Error, Result};

pub use compress::Compression;
use fatbin::{FatbinEntry, MAGIC};

/// A cubin or PTX text that was found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub kind: ImageKind,
    /// Name of the target, for example `sm_90a`; for PTX, the value of `.target`.
    pub target: String,
    /// Name of the source if the container has it, preceded by the member of the library.
    pub name: Option<String>,
    /// Offset of the image, compressed or not, in the opened file.
    pub offset: u64,
    pub compression: Compression,
    /// The entry header, if the image is from a fatbin.
    pub entry: Option<FatbinEntry>,
    /// The decompressed image.
    pub bytes: Vec<u8>,
}

/// The kind of an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    Cubin,
    Ptx,
    /// Another kind of entry in a fatbin, by its number.
    Other(u16),
}

impl Image {
    /// Reads the image as a cubin. Positions in errors refer to `bytes`.
    pub fn cubin(&self) -> Result<Cubin> {
        Cubin::read(&self.bytes)
    }

    /// Returns a file name in the form that cuobjdump uses: `NAME.sm_90.cubin`. `stem` replaces a missing name.
    pub fn file_name(&self, stem: &str) -> String {
        let name = self.name.as_deref().unwrap_or(stem);
        let base = name.rsplit(['/', '\\', ':']).next().unwrap_or(name);
        let base = base.rsplit_once('.').map_or(base, |(before, _)| before);
        let extension = match self.kind {
            ImageKind::Cubin => "cubin",
            ImageKind::Ptx => "ptx",
            ImageKind::Other(_) => "bin",
        };
        format!("{base}.{}.{extension}", self.target)
    }
}

/// Returns the images in a file. The list is empty for a host file without device code.
pub fn open(data: &[u8]) -> Result<Vec<Image>> {
    let file = Bytes::new(data);
    if data.starts_with(&object::elf::ELFMAG) || data.starts_with(&MAGIC.to_le_bytes()) {
        return images(file);
    }
    if data.starts_with(archive::MAGIC) {
        return archive::images(file);
    }
    match ptx_target(data) {
        Some(target) => Ok(vec![plain(ImageKind::Ptx, target, file)]),
        None => Err(Error::at(0, "this is no cubin, fatbin, ELF file, library or PTX text")),
    }
}

/// Returns the images of a cubin, a fatbin or a host ELF file.
fn images(file: Bytes<'_>) -> Result<Vec<Image>> {
    if !file.data().starts_with(&object::elf::ELFMAG) {
        return fatbin::images(file);
    }
    if file.u16(18, "an ELF header")? == EM_CUDA {
        let target = Cubin::read(file.data())?.target_name();
        return Ok(vec![plain(ImageKind::Cubin, target, file)]);
    }
    host::images(file)
}

/// Returns a whole file as an image.
fn plain(kind: ImageKind, target: String, file: Bytes<'_>) -> Image {
    let bytes = file.data().to_vec();
    Image { kind, target, name: None, offset: file.place(0), compression: Compression::None, entry: None, bytes }
}

/// Returns the target in the header of PTX text, or `None` if the data is not PTX.
fn ptx_target(data: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(data).ok()?;
    let mut lines = text.lines().map(str::trim);
    lines.find(|line| line.starts_with(".version"))?;
    let target = lines.find_map(|line| line.strip_prefix(".target"))?;
    let name = target.trim().split([',', ' ', '\t']).next()?;
    name.starts_with("sm_").then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_text_is_an_image() {
        let text = b"// comment\n.version 8.0\n.target sm_90a, debug\n.address_size 64\n";
        let images = open(text).unwrap();
        assert_eq!((images.len(), images[0].kind, &images[0].target[..]), (1, ImageKind::Ptx, "sm_90a"));
        assert_eq!(images[0].file_name("a"), "a.sm_90a.ptx");
    }

    #[test]
    fn other_files_are_refused() {
        assert_eq!(open(b"hello").unwrap_err().to_string(), "at byte 0x0: this is no cubin, fatbin, ELF file, library or PTX text");
        assert!(open(b"").is_err());
    }
}
