//! Compares the places of kernel parameters with ptxas: offsets and sizes in the attributes, and the size of constant bank 0.

use std::fmt::Write as _;
use std::fs;
use std::process::Command;

use oriole_cubin::Cubin;
use oriole_cubin::info::AttributeValue;
use oriole_cubin::section::Content;
use oriole_driver::{Options, compile};
use oriole_isa::Target;

const TARGETS: [&str; 8] = ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100a", "sm_120a"];

/// Kinds of parameters: alignment in bytes, and a size in bytes.
const KINDS: [(u32, u32); 12] =
    [(1, 1), (2, 2), (4, 4), (8, 8), (16, 16), (32, 40), (64, 128), (128, 128), (128, 1), (64, 3), (8, 100), (1, 7)];

/// Kernels whose parameters are near the size at which another layout applies: alignment and size of each parameter.
const LARGE: [&[(u32, u32)]; 14] = [
    &[(64, 4320)],
    &[(64, 4340)],
    &[(64, 4352)],
    &[(64, 4353)],
    &[(128, 5000)],
    &[(4, 4), (64, 4352)],
    &[(4, 4), (128, 4250)],
    &[(64, 128), (64, 4352)],
    &[(4, 4), (128, 4200), (16, 4)],
    &[(256, 4)],
    &[(256, 5000)],
    &[(4, 4), (256, 4), (128, 4)],
    &[(4096, 4)],
    &[(64, 32764)],
];

/// Returns the parameters of each kernel: all pairs of kinds, mixes of several, and large ones.
fn kernels() -> Vec<Vec<(u32, u32)>> {
    let mut kernels: Vec<Vec<(u32, u32)>> = KINDS.iter().map(|&kind| vec![kind]).collect();
    for first in KINDS {
        kernels.extend(KINDS.iter().map(|&second| vec![first, second]));
    }
    kernels.extend((0..60_usize).map(|seed| (0..3 + seed % 6).map(|place| KINDS[(seed * 7 + place * (seed + 5)) % KINDS.len()]).collect()));
    kernels.extend(LARGE.map(<[(u32, u32)]>::to_vec));
    kernels
}

/// Returns a module with one empty kernel for each list of parameters.
fn module(target: &str) -> String {
    let mut text = format!(".version 9.0\n.target {target}\n.address_size 64\n");
    for (number, parameters) in kernels().iter().enumerate() {
        let list: Vec<String> =
            parameters.iter().enumerate().map(|(place, (align, size))| format!(".param .align {align} .b8 p{place}[{size}]")).collect();
        writeln!(text, ".visible .entry k{number}({}) {{ ret; }}", list.join(", ")).unwrap();
    }
    text
}

/// Describes the places of the parameters of a kernel in a cubin.
fn places(cubin: &Cubin, kernel: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for attribute in cubin.function_attributes(kernel) {
        lines.extend(match &attribute.value {
            AttributeValue::Parameter(parameter) => {
                Some(format!("{} at {:#x}, {} bytes", parameter.ordinal, parameter.offset, parameter.size))
            }
            AttributeValue::ParameterV2(parameter) => {
                Some(format!("{} at {:#x}, {} bytes, V2", parameter.ordinal, parameter.offset, parameter.size))
            }
            AttributeValue::ParameterBank(bank) => Some(format!("bank {:#x}, {} bytes", bank.offset, bank.size)),
            _ => None,
        });
    }
    lines.sort();
    match cubin.section_named(&format!(".nv.constant0.{kernel}")).map(|section| &section.content) {
        Some(Content::Bytes(bytes)) => lines.push(format!("{} bytes in the file", bytes.len())),
        other => panic!("{kernel} has no constant bank: {other:?}"),
    }
    lines
}

fn compiled(text: &str, target: Target) -> Cubin {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    let compiled = compile(&[&checked.module], &Options::new(target)).unwrap_or_else(|errors| panic!("{target}: {}", errors[0]));
    Cubin::read(&compiled.cubin).unwrap()
}

#[test]
fn parameters_have_the_places_of_ptxas() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = tempfile::tempdir().unwrap();
    let [input, output] = ["input.ptx", "output.cubin"].map(|name| folder.path().join(name));
    for name in TARGETS {
        let text = module(name);
        fs::write(&input, &text).unwrap();
        let run = Command::new(&ptxas).arg(format!("-arch={name}")).arg(&input).arg("-o").arg(&output).output().unwrap();
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let theirs = Cubin::read(&fs::read(&output).unwrap()).unwrap();
        let ours = compiled(&text, Target::parse(name).unwrap());
        for (number, parameters) in kernels().iter().enumerate() {
            let kernel = format!("k{number}");
            assert_eq!(places(&ours, &kernel), places(&theirs, &kernel), "{name}: {parameters:?}");
        }
    }
}

/// Returns the space and the logarithm of the alignment that the attributes of a kernel give for the targets of its parameters.
fn pointers(cubin: &Cubin, kernel: &str) -> Vec<(u16, u8, u8)> {
    let attributes = cubin.function_attributes(kernel);
    let parameters = attributes.iter().filter_map(|attribute| match &attribute.value {
        AttributeValue::Parameter(parameter) => Some((parameter.ordinal, parameter.space, parameter.log_alignment)),
        AttributeValue::ParameterV2(parameter) => Some((parameter.ordinal, parameter.space, parameter.log_alignment)),
        _ => None,
    });
    let mut list: Vec<_> = parameters.collect();
    list.sort_unstable();
    list
}

/// The expected values are those of ptxas 13.0.88.
#[test]
fn attributes_describe_what_pointers_point_to() {
    let spaces = ["", ".global", ".const", ".local", ".shared", ".texref", ".surfref", ".samplerref"];
    let mut parameters = vec![".param .u64 p".to_string()];
    parameters.extend(spaces.iter().enumerate().map(|(i, space)| format!(".param .u64 .ptr {space} .align {} p{i}", 1 << i)));
    parameters.push(".param .b64 .ptr q".to_string());
    for (name, constant) in [("sm_75", 3), ("sm_89", 3), ("sm_90a", 4), ("sm_120", 4)] {
        for rest in ["", ", .param .align 8 .b8 rest[5000]"] {
            let text =
                format!(".version 9.0\n.target {name}\n.address_size 64\n.visible .entry k({}{rest}) {{ ret; }}\n", parameters.join(", "));
            let cubin = compiled(&text, Target::parse(name).unwrap());
            let mut expected =
                vec![(0, 0, 0), (1, 5, 0), (2, 4, 1), (3, constant, 2), (4, 1, 3), (5, 2, 4), (6, 6, 5), (7, 7, 6), (8, 8, 7), (9, 5, 0)];
            if !rest.is_empty() {
                expected.push((10, 0, 0));
            }
            assert_eq!(pointers(&cubin, "k"), expected, "{name} {rest}");
        }
    }
}

/// The alignment is that of the place in constant bank 0, where parameters start at 0x160, 0x210 or 0x380.
#[test]
fn a_tensor_map_is_aligned_in_the_constant_bank() {
    for (name, offset) in [("sm_80", 0x20), ("sm_90a", 0x30), ("sm_100a", 0)] {
        let text = format!(
            ".version 9.0\n.target {name}\n.address_size 64\n.visible .entry k(.param .align 64 .b8 map[128], .param .u32 n) {{ ret; }}\n"
        );
        let cubin = compiled(&text, Target::parse(name).unwrap());
        let expected = [format!("0 at {offset:#x}, 128 bytes"), format!("1 at {:#x}, 4 bytes", offset + 128)];
        assert_eq!(places(&cubin, "k")[..2], expected, "{name}");
    }
}
