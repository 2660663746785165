//! Writes a [`Cubin`] as bytes.
//!
//! The steps are: encode names and contents, assign file offsets in the order of the layout, write everything with headers that hold these
//! offsets.

use std::borrow::Cow;
use std::collections::BTreeMap;

use object::LittleEndian as LE;
use object::elf::{self, FileHeader64, Ident, SectionHeader64};
use object::pod::bytes_of;

use crate::bytes::{align_up, file_alignment};
use crate::cubin::{Cubin, EM_CUDA, Piece};
use crate::error::{Error, Result};
use crate::read::{HEADER_SIZE, PROGRAM_HEADER_SIZE, SECTION_HEADER_SIZE, TABLE_ALIGNMENT};
use crate::runner::{Runner, map_with, run_in_order};
use crate::section::{Content, Section, SectionType};
use crate::segment::{self, Cover, FileRange, HeaderExtent};
use crate::strings::{Names, StringTable};
use crate::{callgraph, compat, info, note, relocation, symbol};

/// Returns the bytes of a file.
pub(crate) fn write(cubin: &Cubin, runner: &Runner<'_>) -> Result<Vec<u8>> {
    let encoded = Encoded::new(cubin, runner)?;
    let plan = Plan::new(cubin, &encoded)?;
    let mut out = file_header(cubin, &plan)?;
    out.reserve_exact(plan.file_size as usize);
    for piece in &cubin.layout {
        match piece {
            Piece::Gap(bytes) => out.extend(bytes),
            Piece::Section(index) => {
                if !cubin.sections[*index].is_elsewhere() {
                    out.resize(plan.places[*index].offset as usize, 0);
                }
                if let Some(bytes) = &encoded.contents[*index] {
                    out.extend_from_slice(bytes);
                }
            }
            Piece::SectionHeaders => {
                out.resize(plan.section_headers as usize, 0);
                for index in 0..cubin.sections.len() {
                    out.extend_from_slice(bytes_of(&section_header(cubin, &encoded, &plan, index)));
                }
            }
            Piece::ProgramHeaders => {
                out.resize(plan.program_headers as usize, 0);
                for segment in &cubin.segments {
                    out.extend(segment::encode(segment, plan.span(cubin, segment.covers)?));
                }
            }
        }
    }
    Ok(out)
}

/// Returns the offset and size of each section in the written file.
pub(crate) fn places(cubin: &Cubin) -> Result<Vec<FileRange>> {
    Ok(Plan::new(cubin, &Encoded::new(cubin, &run_in_order)?)?.places)
}

/// The encoded contents, and the offsets of the section names.
struct Encoded<'a> {
    /// `None` for a section without bytes of its own in the file.
    contents: Vec<Option<Cow<'a, [u8]>>>,
    names: Vec<u32>,
}

impl<'a> Encoded<'a> {
    fn new(cubin: &'a Cubin, runner: &Runner<'_>) -> Result<Encoded<'a>> {
        let mut tables: BTreeMap<usize, Names> = BTreeMap::new();
        let mut contents = Vec::with_capacity(cubin.sections.len());
        let simple = map_with(runner, &cubin.sections, encode_simple);
        for (section, simple) in cubin.sections.iter().zip(simple) {
            contents.push(match &section.content {
                Content::NoBits(_) | Content::SameAs(_) | Content::Strings(_) => None,
                Content::Symbols(symbols) => {
                    if symbol::need_indices(symbols) && !has_indices(cubin, contents.len()) {
                        return Err(Error::new(format!("`{}` needs a section for large section indices", section.name)));
                    }
                    let names = names(cubin, &mut tables, section.link as usize, &section.name)?;
                    Some(Cow::Owned(symbol::encode(symbols, names)))
                }
                Content::SymbolSections(words) => match cubin.sections.get(section.link as usize).map(|table| &table.content) {
                    Some(Content::Symbols(symbols)) => Some(Cow::Owned(symbol::encode_indices(symbols, words))),
                    _ => return Err(Error::new(format!("section `{}` does not link to a symbol table", section.name))),
                },
                _ => simple?,
            });
        }
        let table = names(cubin, &mut tables, cubin.header.section_names, "the ELF header")?;
        let names = cubin.sections.iter().map(|section| table.offset(&section.name, section.name_offset)).collect();
        for (index, section) in cubin.sections.iter().enumerate() {
            if let Content::Strings(table) = &section.content {
                contents[index] = Some(match tables.remove(&index) {
                    Some(names) => Cow::Owned(names.into_table().bytes().to_vec()),
                    None => Cow::Borrowed(table.bytes()),
                });
            }
        }
        Ok(Encoded { contents, names })
    }
}

/// Returns the bytes of a section that depend on nothing else; `None` for other sections.
fn encode_simple(section: &Section) -> Result<Option<Cow<'_, [u8]>>> {
    Ok(Some(match &section.content {
        Content::Bytes(bytes) => Cow::Borrowed(&bytes[..]),
        Content::Info(attributes) => Cow::Owned(info::encode(attributes)?),
        Content::Compat(attributes) => Cow::Owned(compat::encode(attributes)?),
        Content::CallGraph(edges) => Cow::Owned(callgraph::encode(edges)),
        Content::Relocations(list) => Cow::Owned(relocation::encode(list, section.section_type != SectionType::REL)?),
        Content::Notes(notes) => Cow::Owned(note::encode(notes)?),
        Content::NoBits(_) | Content::SameAs(_) | Content::Strings(_) | Content::Symbols(_) | Content::SymbolSections(_) => {
            return Ok(None);
        }
    }))
}

/// Returns whether there is a `.symtab_shndx` for the symbol table with index `table`.
fn has_indices(cubin: &Cubin, table: usize) -> bool {
    cubin.sections.iter().any(|section| section.section_type == SectionType::SYMTAB_SHNDX && section.link as usize == table)
}

/// Returns the names of the string table at `index`. `user` is what refers to it, for the error message.
fn names<'t>(cubin: &Cubin, tables: &'t mut BTreeMap<usize, Names>, index: usize, user: &str) -> Result<&'t mut Names> {
    let table: &StringTable = match cubin.sections.get(index).map(|section| &section.content) {
        Some(Content::Strings(table)) => table,
        _ => return Err(Error::new(format!("section {index}, which `{user}` refers to, is not a string table"))),
    };
    Ok(tables.entry(index).or_insert_with(|| Names::new(table.clone())))
}

/// File offsets of all parts.
struct Plan {
    places: Vec<FileRange>,
    section_headers: u64,
    program_headers: u64,
    file_size: u64,
}

impl Plan {
    fn new(cubin: &Cubin, encoded: &Encoded<'_>) -> Result<Plan> {
        let mut plan =
            Plan { places: vec![FileRange::default(); cubin.sections.len()], section_headers: 0, program_headers: 0, file_size: 0 };
        let mut cursor = HEADER_SIZE;
        for piece in &cubin.layout {
            match piece {
                Piece::Gap(bytes) => cursor += bytes.len() as u64,
                Piece::Section(index) => {
                    let section = &cubin.sections[*index];
                    let usual = align_up(cursor, file_alignment(section.alignment));
                    plan.places[*index] = match (&section.content, &encoded.contents[*index]) {
                        (Content::NoBits(size), _) => {
                            cursor = if section.is_elsewhere() { cursor } else { usual };
                            FileRange { offset: section.fixed_offset.unwrap_or(usual), size: *size }
                        }
                        (_, Some(bytes)) => {
                            cursor = usual + bytes.len() as u64;
                            FileRange { offset: usual, size: bytes.len() as u64 }
                        }
                        (_, None) => FileRange { offset: usual, size: 0 },
                    };
                }
                Piece::SectionHeaders => {
                    plan.section_headers = align_up(cursor, TABLE_ALIGNMENT);
                    cursor = plan.section_headers + cubin.sections.len() as u64 * SECTION_HEADER_SIZE;
                }
                Piece::ProgramHeaders => {
                    plan.program_headers = align_up(cursor, TABLE_ALIGNMENT);
                    cursor = plan.program_headers + cubin.segments.len() as u64 * PROGRAM_HEADER_SIZE;
                }
            }
        }
        plan.file_size = cursor;
        for (index, section) in cubin.sections.iter().enumerate() {
            if let Content::SameAs(other) = section.content {
                let missing = || Error::new(format!("section `{}` has the bytes of section {other}, which has none", section.name));
                plan.places[index] = plan.places.get(other).copied().ok_or_else(missing)?;
            }
        }
        Ok(plan)
    }

    /// Returns the offset and sizes of a segment.
    fn span(&self, cubin: &Cubin, covers: Cover) -> Result<HeaderExtent> {
        match covers {
            Cover::Fixed(span) => Ok(span),
            Cover::Table => {
                let size = cubin.segments.len() as u64 * PROGRAM_HEADER_SIZE;
                Ok(HeaderExtent { offset: self.program_headers, file_size: size, memory_size: size })
            }
            Cover::Sections { first, last } => match (cubin.sections.get(first..=last), self.places.get(first..=last)) {
                (Some(sections), Some(places)) => Ok(segment::span(sections, places)),
                _ => Err(Error::new(format!("a segment covers sections {first} to {last}, which do not exist"))),
            },
        }
    }
}

/// Returns whether a number does not fit into a field for a section index.
fn is_large(number: usize) -> bool {
    number >= usize::from(elf::SHN_LORESERVE)
}

fn file_header(cubin: &Cubin, plan: &Plan) -> Result<Vec<u8>> {
    let header = &cubin.header;
    // Numbers that are too large are stored in the null section.
    let or_elsewhere = |number: usize, elsewhere: u16| if is_large(number) { elsewhere } else { number as u16 };
    let segments = u16::try_from(cubin.segments.len()).ok().filter(|&number| number < elf::PN_XNUM);
    let segments = segments.ok_or_else(|| Error::new("the cubin has too many segments"))?;
    let record: FileHeader64<LE> = FileHeader64 {
        e_ident: Ident {
            magic: elf::ELFMAG,
            class: elf::ELFCLASS64,
            data: elf::ELFDATA2LSB,
            version: elf::EV_CURRENT,
            os_abi: header.os_abi,
            abi_version: header.flags.abi_version,
            padding: header.ident_padding,
        },
        e_type: object::U16::new(LE, header.file_type.number()),
        e_machine: object::U16::new(LE, EM_CUDA),
        e_version: object::U32::new(LE, header.version),
        e_entry: object::U64::new(LE, header.entry),
        e_phoff: object::U64::new(LE, if cubin.segments.is_empty() { header.stray_program_header_offset } else { plan.program_headers }),
        e_shoff: object::U64::new(LE, plan.section_headers),
        e_flags: object::U32::new(LE, header.flags.bits),
        e_ehsize: object::U16::new(LE, HEADER_SIZE as u16),
        e_phentsize: object::U16::new(LE, header.program_header_size),
        e_phnum: object::U16::new(LE, segments),
        e_shentsize: object::U16::new(LE, SECTION_HEADER_SIZE as u16),
        e_shnum: object::U16::new(LE, or_elsewhere(cubin.sections.len(), 0)),
        e_shstrndx: object::U16::new(LE, or_elsewhere(header.section_names, elf::SHN_XINDEX)),
    };
    Ok(bytes_of(&record).to_vec())
}

fn section_header(cubin: &Cubin, encoded: &Encoded<'_>, plan: &Plan, index: usize) -> SectionHeader64<LE> {
    let (section, mut place, mut link) = (&cubin.sections[index], plan.places[index], cubin.sections[index].link);
    if index == 0 {
        let elsewhere = |number: usize| if is_large(number) { number } else { 0 };
        place.size = elsewhere(cubin.sections.len()) as u64;
        link = elsewhere(cubin.header.section_names) as u32;
    }
    SectionHeader64 {
        sh_name: object::U32::new(LE, encoded.names[index]),
        sh_type: object::U32::new(LE, section.section_type.0),
        sh_flags: object::U64::new(LE, section.flags),
        sh_addr: object::U64::new(LE, section.address),
        sh_offset: object::U64::new(LE, place.offset),
        sh_size: object::U64::new(LE, place.size),
        sh_link: object::U32::new(LE, link),
        sh_info: object::U32::new(LE, section.info),
        sh_addralign: object::U64::new(LE, section.alignment),
        sh_entsize: object::U64::new(LE, section.entry_size),
    }
}
