//! Checks that edited cubins differ in what was edited and nothing else, and that the vendor's tools read them.

use std::fs;

use crate::common::{Scratch, data_file, data_files, oracle, run};
use oriole_cubin::Cubin;
use oriole_cubin::info::{AttributeCode, AttributeValue};
use oriole_cubin::section::{Content, Section, SectionType};
use oriole_cubin::symbol::SymbolSection;

const SAXPY: &str = "plain_saxpy.sm_90a.cubin";
/// Size of one instruction.
const INSTRUCTION_BYTES: usize = 16;

fn read(name: &str) -> Cubin {
    Cubin::read(&data_file(name)).unwrap()
}

/// Writes a cubin and reads it again.
fn again(cubin: &Cubin) -> Cubin {
    Cubin::read(&cubin.write().unwrap()).unwrap()
}

/// Checks that all sections except `changed` are unchanged.
fn assert_rest_unchanged(before: &Cubin, after: &Cubin, changed: &[&str]) {
    assert_eq!(before.sections().len(), after.sections().len());
    for (a, b) in before.sections().iter().zip(after.sections()) {
        assert!(a.content == b.content || changed.contains(&&a.name[..]), "{} has changed", a.name);
    }
}

#[test]
fn code_of_the_same_length_changes_in_place() {
    let original = data_file(SAXPY);
    let mut cubin = Cubin::read(&original).unwrap();
    let mut code = cubin.kernels().next().unwrap().code.to_vec();
    code[5] ^= 0x40;
    cubin.replace_code("saxpy", code).unwrap();
    let changed = cubin.write().unwrap();
    let differing: Vec<usize> = (0..original.len()).filter(|&at| original[at] != changed[at]).collect();
    let text = cubin.places().unwrap()[cubin.find(".text.saxpy").unwrap()];
    assert_eq!((changed.len(), differing), (original.len(), vec![text.offset as usize + 5]));
}

#[test]
fn longer_and_shorter_code_moves_what_follows() {
    for (name, original) in data_files("cubin") {
        let before = Cubin::read(&original).unwrap();
        for change in [-128_i64, 128, 1280] {
            let mut cubin = before.clone();
            let Some(function) = before.kernels().next() else { continue };
            let section = format!(".text.{}", function.name);
            let length = (function.code.len() as i64 + change).max(16) as usize;
            let mut code = function.code.to_vec();
            code.resize(length, 0x11);
            cubin.replace_code(function.name, code.clone()).unwrap();
            let after = again(&cubin);
            let tables = [&section[..], ".symtab"];
            assert_rest_unchanged(&before, &after, &tables);
            let edited = after.functions().find(|other| other.name == function.name).unwrap();
            assert_eq!(edited.code, code, "{name}");
            assert_eq!(after.symbols()[edited.symbol].size, length as u64, "{name}");
            assert_eq!(after.segments, before.segments, "{name}: segments follow");
            for (place, section) in after.places().unwrap().iter().zip(after.sections()).skip(1) {
                assert!(place.offset.is_multiple_of(section.alignment.max(1)), "{name}: {} is misaligned", section.name);
            }
        }
    }
}

#[test]
fn taking_an_edit_back_gives_the_file_back() {
    for (name, original) in data_files("cubin") {
        let mut cubin = Cubin::read(&original).unwrap();
        let Some(function) = cubin.kernels().next() else { continue };
        let (function, code) = (function.name.to_owned(), function.code.to_vec());
        cubin.replace_code(&function, vec![0; 4096]).unwrap();
        let mut cubin = again(&cubin);
        cubin.replace_code(&function, code).unwrap();
        assert!(cubin.write().unwrap() == original, "{name}");
    }
}

#[test]
fn registers_change_in_every_place() {
    for (name, places) in [("plain_saxpy.sm_89.cubin", true), (SAXPY, false)] {
        let mut cubin = read(name);
        cubin.set_register_count("saxpy", 77).unwrap();
        let cubin = again(&cubin);
        assert_eq!(cubin.register_count("saxpy"), Some(77));
        let in_header = cubin.section_named(".text.saxpy").unwrap().text_info().registers();
        assert_eq!(in_header, if places { 77 } else { 0 }, "{name}");
    }
}

#[test]
fn attributes_can_be_set_and_added() {
    let mut cubin = read(SAXPY);
    let offsets = AttributeValue::Words(vec![0x10, 0x20, 0x30]);
    cubin.set_attribute(".nv.info.saxpy", AttributeCode::EXIT_INSTR_OFFSETS, offsets.clone()).unwrap();
    cubin.set_attribute(".nv.info.saxpy", AttributeCode::NUM_BARRIERS, AttributeValue::Byte(2)).unwrap();
    let cubin = again(&cubin);
    assert_eq!(cubin.attribute(".nv.info.saxpy", AttributeCode::EXIT_INSTR_OFFSETS), Some(&offsets));
    assert_eq!(cubin.attribute(".nv.info.saxpy", AttributeCode::NUM_BARRIERS), Some(&AttributeValue::Byte(2)));
    assert_rest_unchanged(&read(SAXPY), &cubin, &[".nv.info.saxpy"]);
}

#[test]
fn a_new_section_and_new_names_find_their_place() {
    let mut cubin = read(SAXPY);
    let index = cubin.push_section(Section::new(".note.oriole", SectionType::PROGBITS, 0, 4, Content::Bytes(b"hello".to_vec())));
    cubin.symbols_mut().unwrap()[8].name = "renamed_kernel".into();
    let cubin = again(&cubin);
    assert_eq!(cubin.section(index).unwrap().bytes(), Some(&b"hello"[..]));
    assert_eq!(cubin.section(index).unwrap().name, ".note.oriole");
    assert_eq!(cubin.symbols()[8].name, "renamed_kernel");
}

#[test]
fn impossible_edits_are_refused_by_name() {
    let mut cubin = read(SAXPY);
    assert_eq!(cubin.replace_code("nope", vec![]).unwrap_err().to_string(), "the cubin has no function `nope`");
    let error = cubin.attributes_mut(".text.saxpy").unwrap_err();
    assert_eq!(error.to_string(), "section `.text.saxpy` does not hold attributes");
    cubin.set_attribute(".nv.info.saxpy", AttributeCode::ANNOTATIONS, AttributeValue::Bytes(vec![0; 70_000])).unwrap();
    assert_eq!(cubin.write().unwrap_err().to_string(), "attribute 0x55 has 70000 bytes; 65535 is the limit");
}

/// For a file whose code was doubled, nvdisasm prints all instructions of the new code.
#[test]
fn nvdisasm_reads_edited_files() {
    let Some(nvdisasm) = oracle("nvdisasm") else { return };
    let scratch = Scratch::new("edit");
    let instructions = |bytes: Vec<u8>| {
        fs::write(scratch.path("in.cubin"), bytes).unwrap();
        let text = run(&nvdisasm, &["-c", "in.cubin"], &scratch.0).expect("nvdisasm reads the file");
        String::from_utf8(text).unwrap().lines().filter(|line| line.trim_start().starts_with("/*")).count()
    };
    for name in [SAXPY, "plain_saxpy.sm_75.cubin", "plain_block_sum.sm_80.cubin", "plain_saxpy.sm_121.cubin", "debug_saxpy.sm_90.cubin"] {
        let mut cubin = read(name);
        let function = cubin.kernels().next().unwrap();
        let (function, code) = (function.name.to_owned(), function.code.repeat(2));
        let count = code.len() / INSTRUCTION_BYTES;
        cubin.replace_code(&function, code).unwrap();
        assert_eq!(instructions(cubin.write().unwrap()), count, "{name}");
    }
}

/// ELF stores section numbers from 0xff00 on in other fields; ptxas does so for a module of 22500 kernels.
#[test]
fn very_many_sections_are_numbered_elsewhere() {
    let mut cubin = read(SAXPY);
    let mut last = 0;
    for _ in 0..0xff20 {
        last = cubin.push_section(Section::new(".text.empty", SectionType::PROGBITS, 0, 1, Content::Bytes(Vec::new())));
    }
    cubin.symbols_mut().unwrap()[8].section = SymbolSection::Section(last as u32);
    assert_eq!(cubin.write().unwrap_err().to_string(), "`.symtab` needs a section for large section indices");
    let mut indices = Section::new(".symtab_shndx", SectionType::SYMTAB_SHNDX, 0, 4, Content::SymbolSections(Vec::new()));
    indices.link = cubin.find(".symtab").unwrap() as u32;
    cubin.push_section(indices);
    let bytes = cubin.write().unwrap();
    // e_shnum is 0, and the number of sections is in the size of section 0.
    assert_eq!(bytes[60..62], [0, 0]);
    let cubin = Cubin::read(&bytes).unwrap();
    assert_eq!((cubin.sections().len(), cubin.symbols()[8].section), (last + 2, SymbolSection::Section(last as u32)));
    assert!(cubin.write().unwrap() == bytes);
}

/// CUDA 12 and before store the number of named barriers in the flags of the code section, CUDA 13 stores it in an attribute. The kernels
/// in `cuda12/barriers.ptx` use barriers 0 and 1, no barrier, and a barrier whose number is known at run time only.
#[test]
fn the_number_of_barriers_is_read_from_both_layouts() {
    for name in ["cuda12/barriers.sm_80.cubin", "cuda12/barriers.sm_90a.cubin"] {
        let cubin = read(name);
        assert_eq!(["two", "none", "all"].map(|kernel| cubin.barrier_count(kernel)), [2, 0, 16], "{name}");
        assert_eq!(cubin.write().unwrap(), data_file(name), "{name}");
    }
    let later = read("plain_block_sum.sm_80.cubin");
    let kernel = later.kernels().next().unwrap().name.to_owned();
    assert_eq!(later.barrier_count(&kernel), 1);
    assert!(later.function_attributes(&kernel).iter().any(|attribute| attribute.code == AttributeCode::NUM_BARRIERS));
}
