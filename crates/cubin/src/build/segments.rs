//! Program headers of an executable file.

use object::elf;

use crate::section::Section;
use crate::segment::{Cover, Segment, access, is_loaded};
use crate::target::LayoutGeneration;

/// Returns the program headers: the table itself, and a segment for each run of sections with the same access rights. On Turing to Ada,
/// readable and executable sections share a segment, and the table comes last.
pub(super) fn segments(style: LayoutGeneration, sections: &[Section]) -> Vec<Segment> {
    let early = style == LayoutGeneration::Ampere;
    let widened = |section: &Section| match access(section) {
        elf::PF_R if early => elf::PF_R | elf::PF_X,
        flags => flags,
    };
    let segment =
        |segment_type, flags, covers| Segment { segment_type, flags, covers, virtual_address: 0, physical_address: 0, alignment: 8 };
    let mut runs: Vec<Segment> = Vec::new();
    for (index, section) in sections.iter().enumerate().filter(|(_, section)| is_loaded(section)) {
        let flags = widened(section);
        match runs.last_mut() {
            Some(Segment { flags: before, covers: Cover::Sections { last, .. }, .. }) if *before == flags => *last = index,
            _ => runs.push(segment(elf::PT_LOAD, flags, Cover::Sections { first: index, last: index })),
        }
    }
    let access = if early { elf::PF_R | elf::PF_X } else { elf::PF_R };
    let table = segment(elf::PT_LOAD, access, Cover::Table);
    let mut segments = vec![segment(elf::PT_PHDR, access, Cover::Table)];
    if early {
        segments.extend(runs);
        segments.push(table);
    } else {
        segments.push(table);
        segments.extend(runs);
    }
    segments
}
