//! Host ELF files: objects, executables and shared libraries with fatbins in special sections.

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, SectionHeader64};

use super::{Image, fatbin};
use crate::bytes::Bytes;
use crate::error::{Error, Result};

/// Names of the sections with fatbins: linked and relocatable device code.
const SECTIONS: [&str; 2] = [".nv_fatbin", "__nv_relfatbin"];

/// Returns the images in all fatbin sections.
pub(super) fn images(file: Bytes<'_>) -> Result<Vec<Image>> {
    let header: &FileHeader64<LE> = file.record(0, "an ELF header")?;
    if header.e_ident.class != elf::ELFCLASS64 || header.e_ident.data != elf::ELFDATA2LSB {
        return Err(Error::at(file.place(4), "only 64-bit little-endian ELF files are read"));
    }
    let headers = section_headers(file, header)?;
    let names = match headers.get(name_table(header, &headers)) {
        Some(names) => file.window(names.sh_offset.get(LE), names.sh_size.get(LE), "the table of section names")?,
        None => return Ok(Vec::new()),
    };
    let mut images = Vec::new();
    for section in headers {
        let name = names.text(u64::from(section.sh_name.get(LE)), "the name of a section")?;
        if SECTIONS.contains(&name) && section.sh_type.get(LE) != elf::SHT_NOBITS {
            let data = file.window(section.sh_offset.get(LE), section.sh_size.get(LE), &format!("section `{name}`"))?;
            images.extend(fatbin::images(data)?);
        }
    }
    Ok(images)
}

fn section_headers<'a>(file: Bytes<'a>, header: &FileHeader64<LE>) -> Result<Vec<&'a SectionHeader64<LE>>> {
    let size = size_of::<SectionHeader64<LE>>() as u64;
    let offset = header.e_shoff.get(LE);
    if offset == 0 {
        return Ok(Vec::new());
    }
    if u64::from(header.e_shentsize.get(LE)) != size {
        return Err(Error::at(file.place(58), format!("section headers have {} bytes instead of {size}", header.e_shentsize.get(LE))));
    }
    let first: &SectionHeader64<LE> = file.record(offset, "a section header")?;
    // With more than 65279 sections, the number is in the first section header.
    let count = match header.e_shnum.get(LE) {
        0 => first.sh_size.get(LE),
        count => u64::from(count),
    };
    let table = file.window(offset, count.saturating_mul(size), "the table of section headers")?;
    (0..count).map(|index| table.record(index * size, "a section header")).collect()
}

/// Returns the index of the section with the section names.
fn name_table(header: &FileHeader64<LE>, headers: &[&SectionHeader64<LE>]) -> usize {
    match header.e_shstrndx.get(LE) {
        elf::SHN_XINDEX => headers.first().map_or(0, |first| first.sh_link.get(LE) as usize),
        index => usize::from(index),
    }
}
