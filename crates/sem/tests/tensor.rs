//! Compares the dot products of tensor instructions with results measured on an H200 (`data/tensor_h200.txt`).

use std::collections::BTreeMap;

use oriole_sem::Mode;
use oriole_sem::float::fma;
use oriole_sem::format::{BF16, E4M3, E5M2, F16, F64, Format, TF32};
use oriole_sem::tensor::{Accumulator, EIGHT_BIT, HOPPER, eight_bit_by_halves};

const MEASURED: &str = include_str!("data/tensor_h200.txt");

/// One line of the file.
struct Measured<'t> {
    instruction: &'t str,
    types: [&'t str; 2],
    accumulator: &'t str,
    a: Vec<u64>,
    b: Vec<u64>,
    c: u64,
    result: u64,
}

fn parse(line: &str) -> Measured<'_> {
    let fields: Vec<&str> = line.split('|').map(str::trim).collect();
    let names: Vec<&str> = fields[0].split(' ').collect();
    let row = |text: &str| -> Vec<u64> { text.split(' ').map(|bits| u64::from_str_radix(bits, 16).unwrap()).collect() };
    Measured {
        instruction: names[0],
        types: [names[1], names[2]],
        accumulator: names[3],
        a: row(fields[1]),
        b: row(fields[2]),
        c: row(fields[3])[0],
        result: row(fields[4])[0],
    }
}

fn format(name: &str) -> Format {
    match name {
        "f16" => F16,
        "bf16" => BF16,
        "tf32" => TF32,
        "e4m3" => E4M3,
        "e5m2" => E5M2,
        "f64" => F64,
        _ => panic!("unknown type {name}"),
    }
}

fn computed(measured: &Measured<'_>) -> u64 {
    let formats = measured.types.map(format);
    // A register holds tf32 in its upper bits; the 13 lowest bits are ignored.
    let elements = |row: &[u64]| -> Vec<u64> { row.iter().map(|bits| if formats[0] == TF32 { bits >> 13 } else { *bits }).collect() };
    let (a, b) = (elements(&measured.a), elements(&measured.b));
    let is_eight_bit = formats[0].width() == 8;
    match (measured.instruction, measured.accumulator) {
        ("mma", "f64") => a.iter().zip(&b).fold(measured.c, |sum, (&a, &b)| fma(F64, a, b, sum, Mode::RN)),
        ("mma", accumulator) if is_eight_bit => {
            let accumulator = if accumulator == "f16" { Accumulator::Half } else { Accumulator::Single };
            eight_bit_by_halves(formats, &a, &b, measured.c, accumulator)
        }
        ("wgmma", accumulator) if is_eight_bit => {
            let accumulator = if accumulator == "f16" { Accumulator::Half } else { Accumulator::ShortSingle };
            EIGHT_BIT.dot(formats, 8, &a, &b, measured.c, accumulator)
        }
        (_, accumulator) => {
            let accumulator = if accumulator == "f16" { Accumulator::Half } else { Accumulator::Single };
            let bits = if formats[0] == TF32 { 32 } else { 16 };
            HOPPER.dot(formats, bits, &a, &b, measured.c, accumulator)
        }
    }
}

#[test]
fn measured_dot_products_are_computed_bit_for_bit() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for (number, line) in MEASURED.lines().enumerate().filter(|(_, line)| !line.starts_with('#')) {
        let measured = parse(line);
        let found = computed(&measured);
        // The payload of an f64 NaN is unspecified.
        let both_nan = measured.accumulator == "f64" && F64.is_nan(found) && F64.is_nan(measured.result);
        assert!(found == measured.result || both_nan, "line {}: {found:x}, measured {:x}\n{line}", number + 1, measured.result);
        *counts.entry(format!("{} {}", measured.instruction, measured.types[0])).or_default() += 1;
    }
    let kinds =
        ["mma bf16", "mma e4m3", "mma e5m2", "mma f16", "mma f64", "mma tf32", "wgmma bf16", "wgmma e4m3", "wgmma e5m2", "wgmma f16"];
    for kind in kinds {
        assert!(counts.get(kind).is_some_and(|&count| count >= 40), "{kind}: {counts:?}");
    }
}

#[test]
fn small_addends_are_cut_off_before_they_are_summed() {
    // f16: 1, -1, 2^-12, 2^-13 and 1.5 * 2^-13.
    let (one, minus_one, small, smaller, one_and_a_half) = (0x3c00, 0xbc00, 0x0c00, 0x0800, 0x0a00);
    let sum = |a: [u64; 4], b: [u64; 4]| f32::from_bits(HOPPER.dot([F16, F16], 16, &a, &b, 0, Accumulator::Single) as u32);
    // 1 + 0.75 * 2^-25 + 0.75 * 2^-25 - 1: the last place that is kept is 2^-25.
    assert_eq!(sum([one, one_and_a_half, one_and_a_half, minus_one], [one, smaller, smaller, one]), 0.0);
    // 1 + 2^-25 + 2^-25 - 1
    assert_eq!(sum([one, small, small, minus_one], [one, smaller, smaller, one]), 2.0_f32.powi(-24));
}
