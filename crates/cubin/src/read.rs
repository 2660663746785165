//! Reads a [`Cubin`] from bytes.
//!
//! The steps are: header, section headers, contents, layout, segments. Each step relies on the checks of the steps before. No number of the
//! file is trusted: every access goes through [`Bytes`], and the work is bounded by the size of the file.

use std::collections::HashMap;

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, ProgramHeader64, SectionHeader64};
use object::pod::bytes_of;

use crate::bytes::{Bytes, align_up, file_alignment};
use crate::cubin::{Cubin, EM_CUDA, FileType, Header, OS_ABI, Piece};
use crate::error::{Error, Result};
use crate::section::{Content, Section, SectionType};
use crate::segment::{Cover, FileRange, HeaderExtent, Segment, infer};
use crate::strings::StringTable;
use crate::target::Flags;
use crate::{callgraph, compat, info, note, relocation, symbol};

pub(crate) const HEADER_SIZE: u64 = size_of::<FileHeader64<LE>>() as u64;
pub(crate) const SECTION_HEADER_SIZE: u64 = size_of::<SectionHeader64<LE>>() as u64;
pub(crate) const PROGRAM_HEADER_SIZE: u64 = size_of::<ProgramHeader64<LE>>() as u64;
pub(crate) const TABLE_ALIGNMENT: u64 = 8;

/// Maximum number of segments for which the covered sections are inferred; ptxas writes at most six. Others keep their numbers.
const EXPLAINED_SEGMENTS: u64 = 32;

/// Offset of `e_shnum` in the ELF header.
const NUMBER_OF_SECTIONS: u64 = 60;

type RawHeader = FileHeader64<LE>;
type RawSection = SectionHeader64<LE>;

/// Reads a cubin.
pub(crate) fn read(data: &[u8]) -> Result<Cubin> {
    let file = Bytes::new(data);
    let raw = header_of(file)?;
    let headers = section_headers(file, raw)?;
    let header = header(raw, headers[0]);
    let names = table_of(file, &headers, header.section_names, "the table of section names")?;
    let mut budget = NameBudget::new(file);
    let mut sections = outline(file, &headers, names, &mut budget)?;
    let places: Vec<FileRange> = headers.iter().map(|raw| FileRange { offset: raw.sh_offset.get(LE), size: raw.sh_size.get(LE) }).collect();
    // The layout finds overlaps, so checking it before contents are copied ensures that no byte is copied twice.
    let layout = layout(file, raw, &mut sections, &places)?;
    let indices = index_sections(&headers);
    for (index, section) in sections.iter_mut().enumerate().filter(|(_, section)| matches!(section.content, Content::Bytes(_))) {
        let indices = indices.get(&index).map(|&at| window_of(file, &headers, at, "the section indices of symbols")).transpose()?;
        section.content = content(file, &headers, index, &section.name, indices, &mut budget)?;
    }
    carry_stray_indices(&indices, &mut sections);
    let segments = segments(file, raw, &sections, &places)?;
    Ok(Cubin { header, segments, sections, layout })
}

/// Limits the total length of the names of a file. In ptxas' files each name is stored once. In a damaged file, all sections and symbols
/// may share one long string.
pub(crate) struct NameBudget {
    /// Bytes that further names may have.
    left: u64,
}

impl NameBudget {
    fn new(file: Bytes<'_>) -> NameBudget {
        NameBudget { left: file.len().saturating_mul(16) }
    }

    /// Returns the name at an offset, and fails when the budget is exhausted.
    pub fn name<'a>(&mut self, strings: Bytes<'a>, offset: u32, what: &str) -> Result<&'a str> {
        let name = strings.text(u64::from(offset), what)?;
        let too_long = || Error::at(strings.place(u64::from(offset)), format!("{what} and those before it are too long for this file"));
        self.left = self.left.checked_sub(name.len() as u64).ok_or_else(too_long)?;
        Ok(name)
    }
}

/// Returns the sections with their names; contents with bytes of their own are still empty.
fn outline(file: Bytes<'_>, headers: &[&RawSection], names: Bytes<'_>, budget: &mut NameBudget) -> Result<Vec<Section>> {
    let mut sections = Vec::with_capacity(headers.len());
    let mut seen = HashMap::new();
    for (index, raw) in headers.iter().enumerate() {
        let name_offset = raw.sh_name.get(LE);
        let name = budget.name(names, name_offset, "the name of a section")?;
        let size = raw.sh_size.get(LE);
        let may_be_twin = size > 0 && has_bytes(raw) && raw.sh_type.get(LE) != SectionType::STRTAB.0;
        let twin = if may_be_twin { *seen.entry((raw.sh_offset.get(LE), size)).or_insert(index) } else { index };
        let content = match has_bytes(raw) {
            false => Content::NoBits(size),
            true if twin != index => Content::SameAs(twin),
            true => {
                window_of(file, headers, index, &format!("section `{name}`"))?;
                Content::Bytes(Vec::new())
            }
        };
        sections.push(section(raw, name, name_offset, content));
    }
    Ok(sections)
}

/// Reads the ELF header and checks that the file is a 64-bit little-endian cubin.
fn header_of(file: Bytes<'_>) -> Result<&RawHeader> {
    let raw: &RawHeader = file.record(0, "an ELF header")?;
    let ident = &raw.e_ident;
    let wrong = |offset, message: String| Err(Error::at(offset, message));
    if ident.magic != elf::ELFMAG {
        return wrong(0, "this is not an ELF file".into());
    }
    if ident.class != elf::ELFCLASS64 {
        return wrong(4, "this is not a 64-bit ELF file".into());
    }
    if ident.data != elf::ELFDATA2LSB || ident.version != elf::EV_CURRENT {
        return wrong(5, "this is not a little-endian ELF file of version 1".into());
    }
    if raw.e_machine.get(LE) != EM_CUDA {
        return wrong(18, format!("this ELF file is for machine {}, not for CUDA ({EM_CUDA})", raw.e_machine.get(LE)));
    }
    if u64::from(raw.e_ehsize.get(LE)) != HEADER_SIZE {
        return wrong(52, format!("the ELF header says that it has {} bytes instead of {HEADER_SIZE}", raw.e_ehsize.get(LE)));
    }
    if u64::from(raw.e_shentsize.get(LE)) != SECTION_HEADER_SIZE {
        return wrong(58, format!("section headers have {} bytes instead of {SECTION_HEADER_SIZE}", raw.e_shentsize.get(LE)));
    }
    if raw.e_phnum.get(LE) > 0 && u64::from(raw.e_phentsize.get(LE)) != PROGRAM_HEADER_SIZE {
        return wrong(54, format!("program headers have {} bytes instead of {PROGRAM_HEADER_SIZE}", raw.e_phentsize.get(LE)));
    }
    if raw.e_shnum.get(LE) >= elf::SHN_LORESERVE {
        return wrong(NUMBER_OF_SECTIONS, format!("{} sections are said in another way", raw.e_shnum.get(LE)));
    }
    Ok(raw)
}

/// Returns the index of `.shstrtab`. An index that is too large for its field is in the null section.
fn section_names(raw: &RawHeader, null: &RawSection) -> usize {
    match raw.e_shstrndx.get(LE) {
        elf::SHN_XINDEX => null.sh_link.get(LE) as usize,
        index => usize::from(index),
    }
}

fn header(raw: &RawHeader, null: &RawSection) -> Header {
    let no_segments = raw.e_phnum.get(LE) == 0;
    Header {
        file_type: FileType::of(raw.e_type.get(LE)),
        os_abi: raw.e_ident.os_abi,
        flags: Flags { bits: raw.e_flags.get(LE), abi_version: raw.e_ident.abi_version, is_current: raw.e_ident.os_abi == OS_ABI },
        entry: raw.e_entry.get(LE),
        section_names: section_names(raw, null),
        ident_padding: raw.e_ident.padding,
        version: raw.e_version.get(LE),
        program_header_size: raw.e_phentsize.get(LE),
        stray_program_header_offset: if no_segments { raw.e_phoff.get(LE) } else { 0 },
    }
}

/// Returns the section headers, at least one: the null section, which holds numbers that are too large for the ELF header and is zero
/// otherwise.
fn section_headers<'a>(file: Bytes<'a>, raw: &RawHeader) -> Result<Vec<&'a RawSection>> {
    let offset = raw.e_shoff.get(LE);
    let null: &RawSection = file.record(offset, "the table of section headers")?;
    let large = u64::from(elf::SHN_LORESERVE);
    let count = match raw.e_shnum.get(LE) {
        0 if null.sh_size.get(LE) < large => return Err(Error::at(NUMBER_OF_SECTIONS, "the file has no sections")),
        0 => null.sh_size.get(LE),
        count => u64::from(count),
    };
    let names = section_names(raw, null);
    let mut expected = zero_header();
    if raw.e_shnum.get(LE) == 0 {
        expected.sh_size = object::U64::new(LE, count);
    }
    if raw.e_shstrndx.get(LE) == elf::SHN_XINDEX && names >= usize::from(elf::SHN_LORESERVE) {
        expected.sh_link = object::U32::new(LE, names as u32);
    }
    if bytes_of(null) != bytes_of(&expected) {
        return Err(Error::at(offset, "section 0 must be empty"));
    }
    if names as u64 >= count {
        return Err(Error::at(62, format!("the table of section names is section {names}, which does not exist")));
    }
    let table = file.window(offset, count.saturating_mul(SECTION_HEADER_SIZE), "the table of section headers")?;
    (0..count).map(|index| table.record(index * SECTION_HEADER_SIZE, "a section header")).collect()
}

/// Returns a section header of zeros.
fn zero_header() -> RawSection {
    let (word, long) = (object::U32::new(LE, 0), object::U64::new(LE, 0));
    SectionHeader64 {
        sh_name: word,
        sh_type: word,
        sh_flags: long,
        sh_addr: long,
        sh_offset: long,
        sh_size: long,
        sh_link: word,
        sh_info: word,
        sh_addralign: long,
        sh_entsize: long,
    }
}

/// Returns whether a section has bytes in the file.
fn has_bytes(raw: &RawSection) -> bool {
    let section_type = SectionType(raw.sh_type.get(LE));
    section_type != SectionType::NULL && !section_type.occupies_no_file(raw.sh_flags.get(LE))
}

/// Returns the bytes of a section.
fn window_of<'a>(file: Bytes<'a>, headers: &[&RawSection], index: usize, what: &str) -> Result<Bytes<'a>> {
    let Some(raw) = headers.get(index) else {
        return Err(Error::at(NUMBER_OF_SECTIONS, format!("{what} is section {index}, which does not exist")));
    };
    if !has_bytes(raw) {
        return Err(Error::at(raw.sh_offset.get(LE), format!("{what} has no bytes in the file")));
    }
    file.window(raw.sh_offset.get(LE), raw.sh_size.get(LE), what)
}

/// Returns the bytes of a string table.
fn table_of<'a>(file: Bytes<'a>, headers: &[&RawSection], index: usize, what: &str) -> Result<Bytes<'a>> {
    let data = window_of(file, headers, index, what)?;
    match headers.get(index).map(|raw| SectionType(raw.sh_type.get(LE))) {
        Some(SectionType::STRTAB) => Ok(data),
        _ => Err(Error::at(data.place(0), format!("{what} is section {index}, which is not a string table"))),
    }
}

fn section(raw: &RawSection, name: &str, name_offset: u32, content: Content) -> Section {
    Section {
        name: name.to_owned(),
        section_type: SectionType(raw.sh_type.get(LE)),
        flags: raw.sh_flags.get(LE),
        address: raw.sh_addr.get(LE),
        link: raw.sh_link.get(LE),
        info: raw.sh_info.get(LE),
        alignment: raw.sh_addralign.get(LE),
        entry_size: raw.sh_entsize.get(LE),
        content,
        name_offset: Some(name_offset),
        fixed_offset: None,
    }
}

/// Decodes the content of a section.
fn content(
    file: Bytes<'_>,
    headers: &[&RawSection],
    index: usize,
    name: &str,
    indices: Option<Bytes<'_>>,
    budget: &mut NameBudget,
) -> Result<Content> {
    let raw = headers[index];
    let section_type = SectionType(raw.sh_type.get(LE));
    let data = window_of(file, headers, index, &format!("section `{name}`"))?;
    let linked = || table_of(file, headers, raw.sh_link.get(LE) as usize, &format!("the string table of section `{name}`"));
    let (decoded, again) = match section_type {
        SectionType::STRTAB => return Ok(Content::Strings(StringTable::from_bytes(data.data()))),
        SectionType::SYMTAB | SectionType::MERCURY_SYMTAB => {
            return Ok(Content::Symbols(symbol::decode(data, linked()?, indices, budget)?));
        }
        SectionType::SYMTAB_SHNDX => return Ok(Content::SymbolSections(symbol::decode_indices(data)?)),
        SectionType::CUDA_INFO | SectionType::MERCURY_INFO => {
            let attributes = info::decode(data)?;
            let again = info::encode(&attributes)?;
            (Content::Info(attributes), again)
        }
        SectionType::CUDA_COMPAT_INFO => {
            let attributes = compat::decode(data)?;
            let again = compat::encode(&attributes)?;
            (Content::Compat(attributes), again)
        }
        SectionType::CUDA_CALLGRAPH => return Ok(Content::CallGraph(callgraph::decode(data)?)),
        SectionType::RELA | SectionType::MERCURY_RELA => return Ok(Content::Relocations(relocation::decode(data, true)?)),
        SectionType::REL => return Ok(Content::Relocations(relocation::decode(data, false)?)),
        SectionType::NOTE => {
            let notes = note::decode(data)?;
            let again = note::encode(&notes)?;
            (Content::Notes(notes), again)
        }
        _ => return Ok(Content::Bytes(data.data().to_vec())),
    };
    // A content that does not encode to the same bytes is kept as raw bytes.
    Ok(if again == data.data() { decoded } else { Content::Bytes(data.data().to_vec()) })
}

/// Returns for each symbol table the `.symtab_shndx` section that belongs to it.
fn index_sections(headers: &[&RawSection]) -> HashMap<usize, usize> {
    let mut sections = HashMap::new();
    for (index, raw) in headers.iter().enumerate().filter(|(_, raw)| raw.sh_type.get(LE) == SectionType::SYMTAB_SHNDX.0) {
        sections.entry(raw.sh_link.get(LE) as usize).or_insert(index);
    }
    sections
}

/// Turns a table of section indices that belongs to no symbol table into raw bytes.
fn carry_stray_indices(indices: &HashMap<usize, usize>, sections: &mut [Section]) {
    for index in 0..sections.len() {
        let link = sections[index].link as usize;
        let Content::SymbolSections(words) = &sections[index].content else { continue };
        let belongs = match sections.get(link).map(|table| &table.content) {
            Some(Content::Symbols(symbols)) => symbols.len() == words.len() && indices.get(&link) == Some(&index),
            _ => false,
        };
        if !belongs {
            let bytes = words.iter().copied().flat_map(u32::to_le_bytes).collect();
            sections[index].content = Content::Bytes(bytes);
        }
    }
}

/// Sort key of a part: its offset, whether it has bytes, then the order in the section table. A section without bytes sorts after the
/// section before it in the table.
type Key = (u64, bool, usize, usize);

/// A part of the file, with its position, size and alignment in bytes.
struct FilePart {
    key: Key,
    piece: Piece,
    offset: u64,
    size: u64,
    alignment: u64,
}

/// Sorts all parts into file order and records the gaps between them that alignment does not explain.
fn layout(file: Bytes<'_>, raw: &RawHeader, sections: &mut [Section], places: &[FileRange]) -> Result<Vec<Piece>> {
    let mut parts = parts(raw, sections, places);
    parts.sort_by_key(|part| part.key);
    let mut layout = Vec::with_capacity(parts.len());
    let mut cursor = HEADER_SIZE;
    let following = following_offsets(&parts, sections);
    for (part, &next) in parts.iter().zip(&following) {
        let usual = align_up(cursor, part.alignment);
        if let Piece::Section(index) = part.piece
            && matches!(sections[index].content, Content::NoBits(_))
        {
            // The alignment of a section without bytes moves the following parts, unless the next part with bytes starts earlier.
            let fits = part.offset == usual && next >= usual;
            sections[index].fixed_offset = (!fits).then_some(part.offset);
            if fits {
                layout.extend(odd_gap(file, cursor, usual, usual)?);
                cursor = usual;
            }
            layout.push(part.piece.clone());
            continue;
        }
        if part.offset < cursor {
            let message = format!("{} starts here, but what is before it ends at {cursor:#x}", describe(&part.piece, sections));
            return Err(Error::at(part.offset, message));
        }
        if align_up(part.offset, part.alignment) != part.offset {
            let message = format!("{} is not aligned to {:#x} bytes", describe(&part.piece, sections), part.alignment);
            return Err(Error::at(part.offset, message));
        }
        layout.extend(odd_gap(file, cursor, part.offset, usual)?);
        cursor = part.offset + part.size;
        layout.push(part.piece.clone());
    }
    let tail = file.rest(cursor, "the end of the file")?.data();
    if !tail.is_empty() {
        layout.push(Piece::Gap(tail.to_vec()));
    }
    Ok(layout)
}

/// Returns for each part the offset of the next part that has bytes.
fn following_offsets(parts: &[FilePart], sections: &[Section]) -> Vec<u64> {
    let mut next = u64::MAX;
    let mut offsets: Vec<u64> = Vec::with_capacity(parts.len());
    for part in parts.iter().rev() {
        offsets.push(next);
        if !matches!(part.piece, Piece::Section(index) if matches!(sections[index].content, Content::NoBits(_))) {
            next = part.offset;
        }
    }
    offsets.reverse();
    offsets
}

/// Returns the bytes between two parts, unless they are the zeros that alignment requires.
fn odd_gap(file: Bytes<'_>, start: u64, end: u64, usual_end: u64) -> Result<Option<Piece>> {
    let gap = file.window(start, end - start, "the space between two sections")?.data();
    let odd = end != usual_end || gap.iter().any(|&byte| byte != 0);
    Ok(odd.then(|| Piece::Gap(gap.to_vec())))
}

/// Returns all parts of the file: sections with a position of their own and the two header tables.
fn parts(raw: &RawHeader, sections: &[Section], places: &[FileRange]) -> Vec<FilePart> {
    let mut parts = Vec::with_capacity(sections.len() + 2);
    let mut before: Key = (0, false, 0, 0);
    for (index, (section, place)) in sections.iter().zip(places).enumerate().skip(1) {
        let key = match section.content {
            Content::SameAs(_) => continue,
            Content::NoBits(_) => (before.0, before.1, before.2, index),
            _ => (place.offset, place.size > 0, index, 0),
        };
        before = key;
        parts.push(FilePart {
            key,
            piece: Piece::Section(index),
            offset: place.offset,
            size: place.size,
            alignment: file_alignment(section.alignment),
        });
    }
    let mut table = |piece, offset, size| {
        parts.push(FilePart { key: (offset, true, usize::MAX, 0), piece, offset, size, alignment: TABLE_ALIGNMENT });
    };
    table(Piece::SectionHeaders, raw.e_shoff.get(LE), sections.len() as u64 * SECTION_HEADER_SIZE);
    if raw.e_phnum.get(LE) > 0 {
        table(Piece::ProgramHeaders, raw.e_phoff.get(LE), u64::from(raw.e_phnum.get(LE)) * PROGRAM_HEADER_SIZE);
    }
    parts
}

/// Returns the name of a part for error messages.
fn describe(piece: &Piece, sections: &[Section]) -> String {
    match piece {
        Piece::Section(index) => format!("section `{}`", sections[*index].name),
        Piece::SectionHeaders => "the table of section headers".into(),
        Piece::ProgramHeaders => "the table of program headers".into(),
        Piece::Gap(_) => "a gap".into(),
    }
}

/// Reads the program headers.
fn segments(file: Bytes<'_>, raw: &RawHeader, sections: &[Section], places: &[FileRange]) -> Result<Vec<Segment>> {
    let count = u64::from(raw.e_phnum.get(LE));
    if count == 0 {
        return Ok(Vec::new());
    }
    let offset = raw.e_phoff.get(LE);
    let table = HeaderExtent { offset, file_size: count * PROGRAM_HEADER_SIZE, memory_size: count * PROGRAM_HEADER_SIZE };
    let segment = |index| {
        let raw: &ProgramHeader64<LE> = file.record(offset + index * PROGRAM_HEADER_SIZE, "a program header")?;
        let span = HeaderExtent { offset: raw.p_offset.get(LE), file_size: raw.p_filesz.get(LE), memory_size: raw.p_memsz.get(LE) };
        Ok(Segment {
            segment_type: raw.p_type.get(LE),
            flags: raw.p_flags.get(LE),
            covers: match span {
                _ if span == table => Cover::Table,
                _ if index < EXPLAINED_SEGMENTS => infer(span, raw.p_flags.get(LE), sections, places),
                _ => Cover::Fixed(span),
            },
            virtual_address: raw.p_vaddr.get(LE),
            physical_address: raw.p_paddr.get(LE),
            alignment: raw.p_align.get(LE),
        })
    };
    (0..count).map(segment).collect()
}
