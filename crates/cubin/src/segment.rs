//! Program headers.
//!
//! A segment is kept as what it covers, not as numbers, so that it follows when sections grow. ptxas writes the table
//! itself as a `PHDR` and a `LOAD`, and one `LOAD` for each run of sections with the same access.

use object::LittleEndian as LE;
use object::elf::{self, ProgramHeader64};
use object::pod::bytes_of;

use crate::bytes::align_up;
use crate::section::{Content, Section, flags};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `PT_LOAD`, `PT_PHDR`
    pub segment_type: u32,
    /// `PF_R`, `PF_W`, `PF_X`
    pub flags: u32,
    pub covers: Cover,
    pub virtual_address: u64,
    pub physical_address: u64,
    pub alignment: u64,
}

/// What a segment spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// The table of program headers.
    Table,
    /// Sections, from the first to the last.
    Sections { first: usize, last: usize },
    /// Numbers of which nothing is known.
    Fixed(Span),
}

/// The three numbers of a program header that depend on the rest of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub offset: u64,
    pub file_size: u64,
    pub memory_size: u64,
}

/// Where a section lies in the file, and how big it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Place {
    pub offset: u64,
    pub size: u64,
}

/// `PF_*` for the access that the flags of a section ask for.
pub(crate) fn access(section: &Section) -> u32 {
    let write = if section.flags & flags::WRITE != 0 { elf::PF_W } else { 0 };
    let execute = if section.flags & flags::EXECINSTR != 0 { elf::PF_X } else { 0 };
    elf::PF_R | write | execute
}

/// Belongs to a loadable segment.
pub(crate) fn is_loaded(section: &Section) -> bool {
    section.flags & flags::ALLOC != 0 && section.flags & flags::MERCURY == 0
}

/// Bytes of the file come first, then what has a place in memory only, each with its alignment.
pub(crate) fn span(sections: &[Section], places: &[Place]) -> Span {
    let offset = places.first().map_or(0, |place| place.offset);
    let in_file = |section: &Section| !matches!(section.content, Content::NoBits(_));
    let ends =
        sections.iter().zip(places).map(|(section, place)| place.offset.saturating_add(if in_file(section) { place.size } else { 0 }));
    let file_size = ends.max().map_or(0, |end| end.saturating_sub(offset));
    let memory = sections.iter().zip(places).filter(|(section, _)| !in_file(section));
    let memory_size = memory.fold(file_size, |size, (section, place)| align_up(size, section.alignment).saturating_add(place.size));
    Span { offset, file_size, memory_size }
}

/// How many places for the start of a segment are tried; only a damaged file has more.
const TRIES: usize = 64;

/// Finds the run of sections that a segment spans.
pub(crate) fn infer(wanted: Span, sections: &[Section], places: &[Place]) -> Cover {
    let starts = (0..sections.len()).filter(|&i| is_loaded(&sections[i]) && places[i].offset == wanted.offset).take(TRIES);
    for first in starts {
        let mut last = first;
        let mut found = None;
        while last < sections.len() && is_loaded(&sections[last]) && last - first < TRIES * TRIES {
            let run = span(&sections[first..=last], &places[first..=last]);
            if run == wanted {
                found = Some(last);
            }
            if run.file_size > wanted.file_size || run.memory_size > wanted.memory_size {
                break;
            }
            last += 1;
        }
        if let Some(last) = found {
            return Cover::Sections { first, last };
        }
    }
    Cover::Fixed(wanted)
}

pub(crate) fn encode(segment: &Segment, span: Span) -> Vec<u8> {
    let record: ProgramHeader64<LE> = ProgramHeader64 {
        p_type: object::U32::new(LE, segment.segment_type),
        p_flags: object::U32::new(LE, segment.flags),
        p_offset: object::U64::new(LE, span.offset),
        p_vaddr: object::U64::new(LE, segment.virtual_address),
        p_paddr: object::U64::new(LE, segment.physical_address),
        p_filesz: object::U64::new(LE, span.file_size),
        p_memsz: object::U64::new(LE, span.memory_size),
        p_align: object::U64::new(LE, segment.alignment),
    };
    bytes_of(&record).to_vec()
}
