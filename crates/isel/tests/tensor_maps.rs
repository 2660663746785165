//! The bits of tensor maps that `tensormap.replace` changes.

use crate::common::{Outcome, read, select};
use oriole_isa::Target;
use oriole_isel::Linking;

/// A target, a field, its new value, and the bits that change: a mask and their value.
type Case = (&'static str, &'static str, i64, &'static [(u32, u32)]);

/// The numbers that the code of ptxas 13.0.88 stores in the word of a tensor map that has the modes: bits to change and their value.
#[test]
fn modes_of_tensor_maps() {
    let cases: [Case; 12] = [
        ("sm_90a", "rank", 3, &[(0x70, 0x30)]),
        ("sm_90a", "elemtype", 10, &[(0x780, 0x500)]),
        ("sm_90a", "elemtype", 11, &[(0x10000, 0x10000), (0x780, 0x380)]),
        ("sm_90a", "elemtype", 12, &[(0x10000, 0x10000), (0x780, 0x400)]),
        ("sm_100a", "elemtype", 13, &[(0x780, 0x580)]),
        ("sm_100a", "elemtype", 14, &[(0x780, 0x600)]),
        ("sm_100a", "elemtype", 15, &[(0x780, 0x680)]),
        ("sm_90a", "interleave_layout", 2, &[(0x1800, 0x1000)]),
        ("sm_90a", "swizzle_mode", 3, &[(0x6000, 0x6000), (0x40_0000, 0)]),
        ("sm_103a", "swizzle_mode", 4, &[(0x6000, 0), (0x40_0000, 0x40_0000)]),
        ("sm_90a", "fill_mode", 1, &[(0x8000, 0x8000)]),
        ("sm_100a", "swizzle_atomicity", 2, &[(0x38_0000, 0x10_0000)]),
    ];
    for (target, field, value, changes) in cases {
        let text = format!(
            ".version 9.0\n.target {target}\n.address_size 64\n.entry k(.param .u64 p) {{\n.reg .b64 %d;\nld.param.u64 %d, [p];\n\
             tensormap.replace.tile.{field}.global.b1024.b32 [%d], {value};\nret;\n}}\n"
        );
        let module = read(&text).unwrap_or_else(|| panic!("not valid:\n{text}"));
        let Outcome::Code(code) = select(&module, 0, Target::parse(target).unwrap(), Linking::Whole) else { panic!("{field} {value}") };
        let code = oriole_ir::text::print(&code);
        assert_eq!(replaced_bits(&code), changes, "{target} {field} {value}:\n{code}");
    }
}

/// Returns the mask and the value of each replacement of a bit field in the text of a function: `LOP3.LUT ..., 0xb8`, whose value is a
/// constant that was moved to a register.
fn replaced_bits(code: &str) -> Vec<(u32, u32)> {
    let number = |text: &str| u32::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let operands = |line: &str| line.split([' ', ',']).filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let lines: Vec<Vec<String>> = code.lines().map(|line| operands(line.split(';').next().unwrap_or_default())).collect();
    let name = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    let constant = |register: &str| match register {
        "RZ" => Some(0),
        _ => lines.iter().find(|line| line.first().is_some_and(|first| name(first) == register)).and_then(|line| number(line.last()?)),
    };
    let fields = lines.iter().filter(|line| line.iter().any(|part| part == "LOP3.LUT") && line.iter().any(|part| part == "0xb8"));
    fields.map(|line| (number(&line[4]).unwrap(), constant(&line[5]).unwrap())).collect()
}
