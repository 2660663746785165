//! A canonical text of a cubin that does not depend on the order of symbols and strings.

use oriole_cubin::build::decode_frames;
use oriole_cubin::info::{Attribute, AttributeValue};
use oriole_cubin::section::{Content, Section};
use oriole_cubin::segment::Cover;
use oriole_cubin::symbol::{Symbol, SymbolSection};
use oriole_cubin::{Cubin, Error};

use super::parts::{prototype_pairs, string};

/// Returns the canonical lines of a file: header, segments, sections in file order with their headers and contents, all references by name.
///
/// Left out: string tables, the note with the command line, and the order of symbols, relocations and calls.
pub fn canonical(cubin: &Cubin) -> Vec<String> {
    let mut lines = vec![format!("file {:?} sm_{}", cubin.header.file_type, cubin.header.flags.sm())];
    for segment in &cubin.segments {
        let covers = match segment.covers {
            Cover::Sections { first, last } => format!("{} to {}", section_name(cubin, first as u32), section_name(cubin, last as u32)),
            other => format!("{other:?}"),
        };
        lines.push(format!("segment {} {} {covers}", segment.segment_type, segment.flags));
    }
    for section in cubin.sections() {
        if section.name.starts_with(".note.nv.tkinfo") || section.name.ends_with("strtab") {
            continue;
        }
        lines.push(section_line(cubin, section));
        lines.extend(content(cubin, section).into_iter().map(|line| format!("  {}: {line}", section.name)));
    }
    lines
}

fn section_name(cubin: &Cubin, index: u32) -> String {
    cubin.section(index as usize).map_or("none".into(), |section| format!("[{}]", section.name))
}

fn symbol_name(cubin: &Cubin, index: u32) -> String {
    let symbol = &cubin.symbols()[index as usize];
    if symbol.symbol_type == 3 { format!("section {}", symbol.name) } else { symbol.name.clone() }
}

fn section_line(cubin: &Cubin, section: &Section) -> String {
    let info = match section.name.as_str() {
        ".symtab" => String::new(),
        name if name.starts_with(".text.") => {
            format!("{} {}", symbol_name(cubin, section.text_info().symbol()), section.text_info().registers())
        }
        _ => section_name(cubin, section.info),
    };
    format!(
        "section {} {:?} flags {:#x} align {} entry {} link {} info {info}",
        section.name,
        section.section_type,
        section.flags,
        section.alignment,
        section.entry_size,
        section_name(cubin, section.link),
    )
}

fn content(cubin: &Cubin, section: &Section) -> Vec<String> {
    let sorted = |mut lines: Vec<String>| {
        lines.sort();
        lines
    };
    match &section.content {
        Content::Bytes(_) if section.name == ".nv.prototype" => {
            let pairs = prototype_pairs(cubin).into_iter();
            sorted(pairs.map(|(symbol, text)| format!("{} {}", symbol_name(cubin, symbol), string(cubin, text))).collect())
        }
        // Frames by function; the position of a CIE in the section does not matter.
        Content::Bytes(bytes) if section.name == ".debug_frame" => {
            decode_frames(bytes).unwrap().iter().map(|placed| format!("{:#x} {:?}", placed.offset, placed.frame)).collect()
        }
        Content::Bytes(bytes) => bytes.chunks(16).enumerate().map(|(row, chunk)| format!("{:#06x} {chunk:02x?}", row * 16)).collect(),
        Content::Symbols(symbols) => sorted(symbols.iter().map(|symbol| symbol_line(cubin, symbol)).collect()),
        Content::Info(attributes) => attributes.iter().map(|attribute| attribute_line(cubin, attribute)).collect(),
        Content::CallGraph(_) => sorted(calls(cubin, section)),
        Content::Relocations(list) => sorted(
            list.iter()
                .map(|r| format!("{:#06x} {:?} {} {:?}", r.offset, r.relocation_type, symbol_name(cubin, r.symbol), r.addend))
                .collect(),
        ),
        other => vec![format!("{other:?}")],
    }
}

fn calls(cubin: &Cubin, section: &Section) -> Vec<String> {
    let Content::CallGraph(edges) = &section.content else { return Vec::new() };
    let mut mark = 0;
    let mut lines = Vec::new();
    for edge in edges {
        if edge.is_mark() {
            mark = edge.callee;
            lines.push(format!("{mark}"));
            continue;
        }
        let callee = edge.callee.cast_unsigned();
        let callee = if [-2, -3].contains(&mark) { string(cubin, callee) } else { symbol_name(cubin, callee) };
        lines.push(format!("{mark} {} {callee}", symbol_name(cubin, edge.caller)));
    }
    lines
}

fn symbol_line(cubin: &Cubin, symbol: &Symbol) -> String {
    let section = match symbol.section {
        SymbolSection::Section(index) => section_name(cubin, index),
        other => format!("{other:?}"),
    };
    let Symbol { name, value, size, binding, symbol_type, other, .. } = symbol;
    format!("{name} value {value:#x} size {size:#x} binding {binding} type {symbol_type} other {other:#x} in {section}")
}

fn attribute_line(cubin: &Cubin, attribute: &Attribute) -> String {
    let value = match &attribute.value {
        AttributeValue::PerSymbol { symbol, value } => format!("{} {value:#x}", symbol_name(cubin, *symbol)),
        AttributeValue::Symbols(symbols) => symbols.iter().map(|&symbol| symbol_name(cubin, symbol)).collect::<Vec<_>>().join(" "),
        AttributeValue::ParameterBank(bank) => format!("{} {:#x} {:#x}", symbol_name(cubin, bank.symbol), bank.offset, bank.size),
        other => format!("{other:?}"),
    };
    format!("{:?} {value}", attribute.code)
}

/// Returns the lines that only one of two files has, or the first line with a different position.
pub fn differences(ours: &[String], theirs: &[String]) -> Vec<String> {
    if ours == theirs {
        return Vec::new();
    }
    let without = |mark: &str, list: &[String], other: &[String]| -> Vec<String> {
        list.iter().filter(|line| !other.contains(line)).map(|line| format!("{mark} {line}")).collect()
    };
    let mut lines = without("ours  ", ours, theirs);
    lines.extend(without("theirs", theirs, ours));
    if lines.is_empty() {
        let place = ours.iter().zip(theirs).position(|(a, b)| a != b).unwrap_or(ours.len().min(theirs.len()));
        lines.push(format!("order at line {place}: ours {:?}, theirs {:?}", ours.get(place), theirs.get(place)));
    }
    lines
}

/// Reads a file and returns its canonical lines.
pub fn lines_of(data: &[u8]) -> Result<Vec<String>, Error> {
    Ok(canonical(&Cubin::read(data)?))
}
