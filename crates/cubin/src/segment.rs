//! Program headers.
//!
//! A segment is stored as the range of sections that it covers instead of as numbers, so that it stays right when sections grow. ptxas
//! writes the table of program headers itself as a `PHDR` and a `LOAD`, and one `LOAD` for each run of sections with the same access
//! rights.

use object::LittleEndian as LE;
use object::elf::{self, ProgramHeader64};
use object::pod::bytes_of;

use crate::bytes::align_up;
use crate::section::{Content, Section, flags};

/// A program header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// `PT_LOAD`, `PT_PHDR`
    pub segment_type: u32,
    /// `PF_R`, `PF_W`, `PF_X`
    pub flags: u32,
    /// What the segment covers, which determines its offset and sizes.
    pub covers: Cover,
    pub virtual_address: u64,
    pub physical_address: u64,
    pub alignment: u64,
}

/// What a segment covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cover {
    /// The table of program headers.
    Table,
    /// A range of sections, including the last.
    Sections { first: usize, last: usize },
    /// Numbers that no range of sections explains.
    Fixed(HeaderExtent),
}

/// The three numbers of a program header that depend on the rest of the file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HeaderExtent {
    pub offset: u64,
    pub file_size: u64,
    pub memory_size: u64,
}

/// Offset and size of a section in the file, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileRange {
    pub offset: u64,
    pub size: u64,
}

/// Returns the access rights (`PF_*`) that the flags of a section ask for.
pub(crate) fn access(section: &Section) -> u32 {
    let write = if section.flags & flags::WRITE != 0 { elf::PF_W } else { 0 };
    let execute = if section.flags & flags::EXECINSTR != 0 { elf::PF_X } else { 0 };
    elf::PF_R | write | execute
}

/// Returns whether a section belongs to a loadable segment.
pub(crate) fn is_loaded(section: &Section) -> bool {
    section.flags & flags::ALLOC != 0 && section.flags & flags::MERCURY == 0
}

/// A span to which sections are added one by one. The bytes of the file come first, then the sections that exist in memory only, each
/// aligned.
#[derive(Default)]
struct Growing {
    span: HeaderExtent,
    /// Alignment and size of the sections without bytes so far. They are placed again whenever the bytes before them grow.
    memory: Vec<(u64, u64)>,
}

impl Growing {
    fn starting_at(offset: u64) -> Growing {
        Growing { span: HeaderExtent { offset, ..HeaderExtent::default() }, memory: Vec::new() }
    }

    /// Extends the span by a section.
    fn add(&mut self, section: &Section, place: FileRange) {
        let has_bytes = !matches!(section.content, Content::NoBits(_));
        let end = place.offset.saturating_add(if has_bytes { place.size } else { 0 });
        let file_size = end.saturating_sub(self.span.offset).max(self.span.file_size);
        if !has_bytes {
            self.memory.push((section.alignment, place.size));
        }
        if file_size == self.span.file_size && !has_bytes {
            self.span.memory_size = align_up(self.span.memory_size, section.alignment).saturating_add(place.size);
        } else if file_size != self.span.file_size {
            self.span.file_size = file_size;
            let grow = |size, &(alignment, more): &(u64, u64)| align_up(size, alignment).saturating_add(more);
            self.span.memory_size = self.memory.iter().fold(file_size, grow);
        }
    }
}

/// Returns the span of a range of sections.
pub(crate) fn span(sections: &[Section], places: &[FileRange]) -> HeaderExtent {
    let mut growing = Growing::starting_at(places.first().map_or(0, |place| place.offset));
    for (section, place) in sections.iter().zip(places) {
        growing.add(section, *place);
    }
    growing.span
}

/// Maximum number of start sections to try for a segment; only a damaged file has more.
const TRIES: usize = 64;

/// Finds the range of sections that a segment covers. The access rights of every section must be a subset of the segment's, and a section
/// must be writable exactly if the segment is.
pub(crate) fn infer(wanted: HeaderExtent, segment_access: u32, sections: &[Section], places: &[FileRange]) -> Cover {
    let fits = |index: usize| {
        let access = access(&sections[index]);
        is_loaded(&sections[index]) && access & !segment_access == 0 && (access ^ segment_access) & elf::PF_W == 0
    };
    let starts = (0..sections.len()).filter(|&i| places[i].offset == wanted.offset && fits(i)).take(TRIES);
    for first in starts {
        let mut growing = Growing::starting_at(wanted.offset);
        let mut found = None;
        let run = (first..sections.len()).take_while(|&last| fits(last));
        for last in run {
            growing.add(&sections[last], places[last]);
            if growing.span == wanted {
                found = Some(last);
            }
            if growing.span.file_size > wanted.file_size || growing.memory.len() > LONGEST {
                break;
            }
        }
        if let Some(last) = found {
            return Cover::Sections { first, last };
        }
    }
    Cover::Fixed(wanted)
}

/// Maximum number of sections without bytes in one segment; each kernel has at most one.
const LONGEST: usize = 1 << 15;

pub(crate) fn encode(segment: &Segment, span: HeaderExtent) -> Vec<u8> {
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
