//! Checks that the observed results of approximate functions do not depend on the error that PTX allows.

use std::collections::HashMap;

use oriole_ptx_fuzz::rng::Rng;
use oriole_ptx_fuzz::table;
use oriole_ptx_fuzz::template::choose;

/// Returns the exact value of a function and the error bound of the manual.
fn function(name: &str, a: f64, b: f64) -> Option<(f64, f64)> {
    let value = match name.split('.').next()? {
        "rcp" => 1.0 / a,
        "sqrt" => a.sqrt(),
        "rsqrt" => 1.0 / a.sqrt(),
        "lg2" => a.log2(),
        "ex2" => a.exp2(),
        "sin" => a.sin(),
        "cos" => a.cos(),
        "tanh" => a.tanh(),
        "div" => a / b,
        _ => return None,
    };
    let size = value.abs().max(1.0);
    let error = match name.rsplit('.').next()? {
        "f32" | "f64" if name.starts_with("tanh") => size * 2.0_f64.powi(-11),
        "f32" | "f64" => size * 2.0_f64.powi(-20),
        "f16" | "f16x2" => size * 2.0_f64.powf(-9.9),
        "bf16" | "bf16x2" => size * 2.0_f64.powi(-7),
        other => panic!("type {other}"),
    };
    Some((value, error))
}

fn number(text: &str) -> Option<f64> {
    if let Some(hex) = text.strip_prefix("0f") {
        return u32::from_str_radix(hex, 16).ok().map(|bits| f64::from(f32::from_bits(bits)));
    }
    let hex = text.strip_prefix("0d")?;
    u64::from_str_radix(hex, 16).ok().map(f64::from_bits)
}

/// Runs a row in exact arithmetic with these operands of its `and` instructions; returns the value before rounding and its error.
fn run(row: &str, inputs: [u32; 2]) -> Option<(f64, f64)> {
    let mut registers: HashMap<String, f64> = HashMap::new();
    let mut inputs = inputs.into_iter();
    let mut error = 0.0;
    for part in row.split(';').map(str::trim).filter(|part| !part.starts_with(".reg")) {
        let (name, operands) = part.split_once(' ')?;
        let operands: Vec<&str> = operands.split(',').map(|text| text.trim().trim_matches(['<', '>'])).collect();
        let get = |at: usize| -> Option<f64> { number(operands[at]).or_else(|| registers.get(operands[at]).copied()) };
        let value = match name {
            "and.b32" => f64::from(inputs.next()? & operands[2].parse::<u32>().ok()?),
            "cvt.rni.s32.f32" | "cvt.rni.s32.f64" => return Some((get(1)?, error)),
            _ if name.starts_with("cvt.") => get(1)?,
            _ if name.starts_with("add.rn") => get(1)? + get(2)?,
            _ if name.starts_with("fma.rn") => get(1)? * get(2)? + get(3)?,
            _ if name.starts_with("mul.rn") => {
                error *= get(2)?.abs();
                get(1)? * get(2)?
            }
            // Packing and unpacking: the other half of a pair is ignored.
            "mov.b32" if part.starts_with("mov.b32 <") => get(2)?,
            "mov.b32" => operands.iter().skip(1).find_map(|name| registers.get(*name).copied())?,
            _ => {
                let (value, bound) = function(name, get(1)?, operands.get(2).and_then(|_| get(2)).unwrap_or(1.0))?;
                error = bound;
                value
            }
        };
        let written = if part.starts_with("mov.b32 <") { 2 } else { 1 };
        for name in &operands[..written] {
            registers.insert((*name).to_owned(), value);
        }
    }
    None
}

#[test]
fn approximate_rows_are_far_from_rounding_boundaries() {
    let mut rng = Rng::new(1);
    let mut rows = 0;
    for (_, _, template) in table::all().filter(|row| row.0 == "approximate" && row.2.contains("cvt.rni.s32")) {
        for _ in 0..4 {
            let row = choose(&mut rng, template);
            for (a, b) in (0..16).flat_map(|a| (0..16).map(move |b| (a, b))) {
                let (value, error) = run(&row, [a, b]).unwrap_or_else(|| panic!("`{row}` is not understood"));
                let distance = (value.rem_euclid(1.0) - 0.5).abs();
                assert!(distance > 1.5 * error, "{a}, {b}: {value} may be off by {error} in `{row}`");
            }
        }
        rows += 1;
    }
    assert!(rows >= 15, "only {rows}");
}
