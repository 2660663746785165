//! Compares the model of a cubin with cuobjdump's listing.
//!
//! `cuobjdump -elf` prints headers, sections, symbols, attributes, relocations and the call graph. Its text is converted to one line per
//! fact, and the same lines are generated from the model. For some files of `tests/data` the listings are recorded. If the tools are
//! available, fresh cubins of the corpus and of every target are compared too.

use std::fs;

use crate::common::{Scratch, compares_everything, compile, data_file, data_folder, oracle, retarget, root, run};
use oriole_cubin::compat::{CompatCode, CompatValue};
use oriole_cubin::info::{Attribute, AttributeCode, AttributeValue, SPARSE_MMA};
use oriole_cubin::section::{Content, SectionType};
use oriole_cubin::symbol::{Symbol, SymbolSection};
use oriole_cubin::{Cubin, FileType};

/// Replaces each run of white space by one space.
fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the facts in cuobjdump's text.
fn theirs(text: &str) -> Vec<String> {
    let mut facts = Vec::new();
    let mut section = String::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let Some(rest) = line.strip_prefix("64-bit ELF: ") {
            facts.push(format!("elf {rest}"));
        } else if line.starts_with("Sections:") {
            section = "sections".into();
        } else if let Some(name) = line.strip_prefix(".section ") {
            section = name.split_whitespace().next().unwrap_or_default().to_owned();
        } else if line.starts_with(".nv") || line.starts_with(".text") {
            section = line.trim().to_owned();
        } else if words.is_empty() {
            continue;
        } else if section == "sections" && words.len() == 10 && words[0] != "Index" {
            facts.push(format!("section {}", squeeze(line)));
        } else if section == ".symtab" && words.len() >= 6 && words[0] != "index" {
            facts.push(format!("symbol {}", squeeze(line)));
        } else if section.starts_with(".nv.info") || section == ".nv.compat" {
            attribute_line(&section, line, &mut facts);
        } else if section == ".nv.callgraph" && words[0].starts_with('<') {
            facts.push(format!("call {}", words[0]));
        } else if section.starts_with(".rel") && words[0].starts_with("0x") {
            facts.push(format!("{section} {}", squeeze(line)));
        }
    }
    facts
}

fn attribute_line(section: &str, line: &str, facts: &mut Vec<String>) {
    let line = squeeze(line);
    if let Some(name) = line.strip_prefix("Attribute: ") {
        facts.push(format!("{section} {name}"));
    } else if !line.starts_with('<') {
        let rest = line.strip_prefix("Format: ").or(line.strip_prefix("Value:")).unwrap_or(&line).trim();
        if let Some(fact) = facts.last_mut().filter(|_| !rest.is_empty()) {
            fact.push(' ');
            fact.push_str(rest);
        }
    }
}

/// Returns the same facts from the model.
fn ours(cubin: &Cubin) -> Vec<String> {
    let mut facts = vec![header(cubin)];
    facts.extend(sections(cubin));
    facts.extend(cubin.symbols().iter().enumerate().map(|(index, symbol)| symbol_line(index, symbol)));
    for section in cubin.sections() {
        match &section.content {
            Content::Info(list) if section.section_type == SectionType::CUDA_INFO => {
                facts.extend(list.iter().map(|attribute| format!("{} {}", section.name, attribute_text(cubin, attribute))));
            }
            Content::Compat(list) => {
                facts.extend(list.iter().map(|attribute| {
                    squeeze(&format!(".nv.compat {:?} {}", attribute.code, compat_text(attribute.code, &attribute.value)))
                }));
            }
            Content::CallGraph(edges) => facts.extend(edges.iter().map(|edge| format!("call <{},{}>", edge.caller, edge.callee))),
            Content::Relocations(list) if section.section_type != SectionType::MERCURY_RELA => {
                facts.extend(list.iter().map(|relocation| {
                    let symbol = &cubin.symbols()[relocation.symbol as usize].name;
                    let addend = relocation.addend.map(|addend| format!(" {addend:#x}")).unwrap_or_default();
                    squeeze(&format!("{} {:#x} {symbol} {:?}{addend}", section.name, relocation.offset, relocation.relocation_type))
                }));
            }
            _ => {}
        }
    }
    facts
}

fn header(cubin: &Cubin) -> String {
    let file_type = match cubin.header.file_type {
        FileType::Relocatable => "ET_REL",
        FileType::Executable => "ET_EXEC",
        FileType::Other(_) => "?",
    };
    let sm = cubin.target().unwrap().digits();
    let toolkit = cubin.notes().find_map(|note| match note {
        oriole_cubin::note::Note::Cuda(info) => Some(format!("{}.{}", info.toolkit / 10, info.toolkit % 10)),
        _ => None,
    });
    let flags = cubin.header.flags;
    format!("elf type={file_type}, ABI={}, sm={sm}, toolkit={}, flags={:#x}", flags.abi_version, toolkit.unwrap(), flags.bits)
}

fn sections(cubin: &Cubin) -> Vec<String> {
    let places = cubin.places().unwrap();
    let line = |(index, section): (usize, &oriole_cubin::section::Section)| {
        // cuobjdump prints Mercury's variants of these types under the original names.
        let name = match section.section_type {
            SectionType::MERCURY_RELA => SectionType::RELA.name(),
            SectionType::MERCURY_INFO => SectionType::CUDA_INFO.name(),
            SectionType::MERCURY_SYMTAB => SectionType::SYMTAB.name(),
            other => other.name(),
        };
        let place = places[index];
        format!(
            "section {index:x} {:x} {:x} {:x} {:x} {} {:x} {:x} {:x} {}",
            place.offset,
            place.size,
            section.entry_size,
            section.alignment,
            name.unwrap(),
            section.flags,
            section.link,
            section.info,
            section.name
        )
    };
    cubin.sections().iter().enumerate().skip(1).map(line).collect()
}

/// Formats a number as cuobjdump does, which prints `0x0` as `0`.
fn hex(number: u64) -> String {
    if number == 0 { "0".into() } else { format!("{number:#x}") }
}

fn symbol_line(index: usize, symbol: &Symbol) -> String {
    let section = match symbol.section {
        SymbolSection::Undefined => 0,
        SymbolSection::Section(index) => u64::from(index),
        SymbolSection::Reserved(index) => u64::from(index),
    };
    let info = u64::from(symbol.binding << 4 | symbol.symbol_type);
    let name = if symbol.name.is_empty() { "(null)" } else { &symbol.name };
    let numbers = [index as u64, symbol.value, symbol.size, info, u64::from(symbol.other), section].map(hex);
    squeeze(&format!("symbol {} {name}", numbers.join(" ")))
}

fn compat_text(code: CompatCode, value: &CompatValue) -> String {
    match value {
        CompatValue::Flag => "EIFMT_NVAL".into(),
        CompatValue::Byte(byte) => format!("EIFMT_BVAL {byte:#x}"),
        CompatValue::Half(half) if code == CompatCode::MERCURY_ISA_MAJOR_MINOR_VERSION => {
            format!("EIFMT_HVAL {}.{}", half >> 8, half & 0xff)
        }
        CompatValue::Half(half) => format!("EIFMT_HVAL {half:#x}"),
        CompatValue::Bytes(bytes) => {
            let words: Vec<String> = bytes.chunks(4).map(|word| format!("{:#x}", u32::from_le_bytes(word.try_into().unwrap()))).collect();
            format!("EIFMT_SVAL {}", words.join(" "))
        }
    }
}

fn attribute_text(cubin: &Cubin, attribute: &Attribute) -> String {
    let value = value_text(cubin, attribute.code, &attribute.value);
    squeeze(&format!("{:?} {} {value}", attribute.code, attribute.value.format().name()))
}

fn value_text(cubin: &Cubin, code: AttributeCode, value: &AttributeValue) -> String {
    let name = |symbol: u32| format!("{}({symbol:#x})", cubin.symbols()[symbol as usize].name);
    let words = |words: &[u32]| words.iter().map(|word| format!("{word:#x} ")).collect::<String>();
    match value {
        AttributeValue::Flag => String::new(),
        AttributeValue::Byte(byte) => format!("{byte:#x}"),
        AttributeValue::Half(half) if code == AttributeCode::MERCURY_ISA_VERSION => format!("{}.{}", half >> 8, half & 0xff),
        AttributeValue::Half(mask) if code == AttributeCode::SPARSE_MMA_MASK && *mask != 0 => {
            let used = SPARSE_MMA.iter().enumerate().filter(|(bit, _)| mask >> bit & 1 != 0);
            format!("Used Sparse Variants : {}", used.map(|(_, name)| format!("{name} ")).collect::<String>())
        }
        AttributeValue::Half(half) => format!("{half:#x}"),
        AttributeValue::Words(list) => words(list),
        AttributeValue::Symbols(list) => format!("externs: {}", list.iter().map(|&symbol| name(symbol) + " ").collect::<String>()),
        AttributeValue::PerSymbol { symbol, value } => match code {
            AttributeCode::REGCOUNT => format!("function: {} register count: {value}", name(*symbol)),
            AttributeCode::FRAME_SIZE => format!("function: {} frame size: {value:#x}", name(*symbol)),
            AttributeCode::MIN_STACK_SIZE => format!("function: {} min stack size: {value:#x}", name(*symbol)),
            _ => words(&[*symbol, *value]),
        },
        AttributeValue::Parameter(parameter) => format!(
            "Index : {:#x} Ordinal : {:#x} Offset : {:#x} Size : {:#x} Pointee's logAlignment : {:#x} Space : {:#x} cbank : {:#x} Parameter Space : {}",
            parameter.index,
            parameter.ordinal,
            parameter.offset,
            parameter.size,
            parameter.log_alignment,
            parameter.space,
            parameter.bank,
            if parameter.in_shared { "SMEM" } else { "CBANK" }
        ),
        AttributeValue::ParameterBank(bank) => words(&[bank.symbol, u32::from(bank.size) << 16 | u32::from(bank.offset)]),
        AttributeValue::BranchTargets(list) => {
            let one = |targets: &oriole_cubin::info::BranchTargets| {
                let count = targets.targets.len();
                format!("Offset of Indirect Branch: {:#x} Number of targets: {count} Targets: {} ", targets.branch, words(&targets.targets))
            };
            list.iter().map(one).collect()
        }
        AttributeValue::Mbarriers(list) => list.iter().map(mbarrier_text).collect(),
        AttributeValue::ParameterV2(_) | AttributeValue::Pairs(_) | AttributeValue::Bytes(_) | AttributeValue::Odd { .. } => "?".into(),
    }
}

fn mbarrier_text(mbarrier: &oriole_cubin::info::Mbarrier) -> String {
    let offset = if mbarrier.offset == 0 { String::new() } else { format!(" + {}", mbarrier.offset) };
    let kind = mbarrier.kind.name().map_or("Unknown Instruction".to_owned(), |name| format!("MBARRIER_{name}"));
    format!(
        "{:#x} : Instruction Kind : {kind} (R{} + UR{}{offset}) Stride : MBARRIER_STRIDE_X{} ",
        mbarrier.instruction,
        mbarrier.register,
        mbarrier.uniform_register,
        4 << mbarrier.stride
    )
}

/// Compares the facts of both sides and records those that only one side has. Attributes that the model keeps as bytes are left out.
fn compare(name: &str, cubin: &Cubin, text: &str, failures: &mut Vec<String>) -> usize {
    let (ours, theirs) = (ours(cubin), theirs(text));
    let known = |fact: &&String| !fact.contains("EIATTR_ANNOTATIONS") && !fact.contains("EIATTR_AT_ENTRY_FRAGMENTS");
    let mut ours_sorted: Vec<&String> = ours.iter().filter(known).collect();
    let mut theirs_sorted: Vec<&String> = theirs.iter().filter(known).collect();
    ours_sorted.sort();
    theirs_sorted.sort();
    if ours_sorted != theirs_sorted {
        let only =
            |a: &[&String], b: &[&String]| a.iter().filter(|fact| !b.contains(fact)).take(4).map(ToString::to_string).collect::<Vec<_>>();
        let (a, b) = (only(&ours_sorted, &theirs_sorted), only(&theirs_sorted, &ours_sorted));
        failures.push(format!("{name}\n  ours only   {}\n  theirs only {}", a.join("\n              "), b.join("\n              ")));
    }
    theirs_sorted.len()
}

fn report(files: usize, facts: usize, failures: &[String]) {
    println!("{files} cubins, {facts} facts of cuobjdump");
    assert!(failures.is_empty(), "{} of {files} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn recorded_listings_agree() {
    let (mut files, mut facts, mut failures) = (0, 0, Vec::new());
    for (name, text) in crate::common::data_files("txt") {
        let Some(stem) = name.strip_suffix(".elf.txt") else { continue };
        let cubin = Cubin::read(&data_file(&format!("{stem}.cubin"))).unwrap();
        facts += compare(stem, &cubin, &String::from_utf8(text).unwrap(), &mut failures);
        files += 1;
    }
    assert!(files >= 4, "only {files} recorded listings in {}", data_folder().display());
    report(files, facts, &failures);
}

#[test]
fn every_target_is_named_as_cuobjdump_does() {
    let (Some(ptxas), Some(cuobjdump)) = (oracle("ptxas"), oracle("cuobjdump")) else { return };
    let scratch = Scratch::new("targets");
    let source = fs::read_to_string(root().join("examples/saxpy.ptx")).unwrap();
    let (mut facts, mut failures) = (0, Vec::new());
    for traits in crate::common::targets_of_ptxas() {
        let target = traits.target.to_string();
        let ptx = scratch.path("in.ptx");
        fs::write(&ptx, retarget(&source, &target)).unwrap();
        let cubin = Cubin::read(&compile(&ptxas, &scratch, &ptx, &target, &[]).unwrap()).unwrap();
        let text = run(&cuobjdump, &["-elf", "out.cubin"], &scratch.0).unwrap();
        facts += compare(&target, &cubin, &String::from_utf8_lossy(&text), &mut failures);
        assert_eq!(cubin.header.flags, oriole_cubin::target::Flags::new(traits.target, traits.has_mercury(), 6), "{}", target);
    }
    report(crate::common::targets_of_ptxas().count(), facts, &failures);
}

#[test]
fn the_corpus_is_read_as_cuobjdump_does() {
    let (Some(ptxas), Some(cuobjdump)) = (oracle("ptxas"), oracle("cuobjdump")) else { return };
    let scratch = Scratch::new("listing");
    let mut sources: Vec<_> = fs::read_dir(root().join("corpus")).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    sources.sort();
    let (mut files, mut facts, mut failures) = (0, 0, Vec::new());
    for (number, ptx) in sources.iter().enumerate().filter(|(number, _)| compares_everything() || number % 2 == 1) {
        let options: &[&str] = [&[][..], &["-c"], &["-g"]][number % 3];
        let targets = ["sm_80", "sm_90a", "sm_100a", "sm_120a"];
        // In a sample of every other file, the targets take turns.
        for (_, target) in targets.iter().enumerate().filter(|(place, _)| compares_everything() || number / 6 % targets.len() == *place) {
            let Some(original) = compile(&ptxas, &scratch, ptx, target, options) else { continue };
            let Some(text) = run(&cuobjdump, &["-elf", "out.cubin"], &scratch.0) else { continue };
            let name = format!("{} {target} {}", ptx.file_name().unwrap().display(), options.join(" "));
            facts += compare(&name, &Cubin::read(&original).unwrap(), &String::from_utf8_lossy(&text), &mut failures);
            files += 1;
        }
    }
    assert!(files > 10, "ptxas made only {files} cubins");
    report(files, facts, &failures);
}
