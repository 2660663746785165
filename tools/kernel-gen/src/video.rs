//! Generates tests of the video instructions: every operation with every combination of types, with selectors, saturation, secondary
//! operations, merges, masks and immediates taken in turn.

use crate::elementwise::seed_of;
use crate::kernel::{Generated, Kernel, load, store};
use crate::ty::U32;
use oriole_kernel_test::{Expected, Fill, Segment, Source};
use oriole_sem::Comparison;
use oriole_sem::video::{BitRange, MultiplyAdd, Operation, Scalar, Secondary, Simd};

const FAMILY: &str = "video";
const THREADS: usize = 32;
/// An immediate operand that is negative as a signed number.
const IMMEDIATE: u64 = 0xffff_ff85;

/// One instruction of a file and its meaning.
struct Form {
    text: String,
    meaning: Box<dyn Fn(u64, u64, u64) -> u64>,
}

pub fn tests() -> Vec<Generated> {
    let mut tests = vec![file("vmad", products())];
    let wrap = |wrap| [Operation::ShiftLeft { wrap }, Operation::ShiftRight { wrap }];
    let [shl_clamp, shr_clamp] = wrap(false);
    let [shl_wrap, shr_wrap] = wrap(true);
    let scalar: [(&str, &str, Operation); 9] = [
        ("vadd", "", Operation::Add),
        ("vsub", "", Operation::Subtract),
        ("vabsdiff", "", Operation::AbsoluteDifference),
        ("vmin", "", Operation::Minimum),
        ("vmax", "", Operation::Maximum),
        ("vshl", ".clamp", shl_clamp),
        ("vshl", ".wrap", shl_wrap),
        ("vshr", ".clamp", shr_clamp),
        ("vshr", ".wrap", shr_wrap),
    ];
    for (name, mode, operation) in scalar {
        tests.push(file(&format!("{name}{}", mode.replace('.', "_")), scalar_forms(name, mode, operation)));
    }
    tests.push(file("vset", comparisons(compared_scalars)));
    let simd: [(&str, Operation); 6] = [
        ("vadd", Operation::Add),
        ("vsub", Operation::Subtract),
        ("vavrg", Operation::Average),
        ("vabsdiff", Operation::AbsoluteDifference),
        ("vmin", Operation::Minimum),
        ("vmax", Operation::Maximum),
    ];
    for lanes in [2, 4] {
        for (name, operation) in simd {
            tests.push(file(&format!("{name}{lanes}"), simd_forms(name, lanes, operation)));
        }
        tests.push(file(&format!("vset{lanes}"), comparisons(|name, comparison| compared_lanes(name, lanes, comparison))));
    }
    tests
}

/// Returns the input values: boundary values and random ones.
fn fill(name: &str, buffer: u32) -> Fill {
    let seed = seed_of(name) + buffer;
    let mut fill = Fill::of(&[(Source::Pick { seed }, THREADS / 2), (Source::Sized { seed }, THREADS / 4)]);
    fill.0.push(Segment { source: Source::Random { seed }, count: None });
    fill
}

/// Returns a file with one output per form.
fn file(name: &str, forms: Vec<Form>) -> Generated {
    let about = format!("{name}: types, selectors, saturation and secondary operations");
    let fills: Vec<Fill> = (0..3).map(|buffer| fill(name, buffer)).collect();
    let values: Vec<Vec<u64>> = fills.iter().map(|fill| fill.values(U32.element, THREADS)).collect();
    let mut kernel = Kernel::new(FAMILY, name, about).threads(THREADS);
    let mut body = String::new();
    for (buffer, fill) in ["a", "b", "c"].into_iter().zip(fills) {
        kernel = kernel.buffer(buffer, U32, THREADS, fill);
        body.push_str(&load(U32, &format!("%v{buffer}"), buffer));
    }
    for (number, form) in forms.iter().enumerate() {
        let expected = (0..THREADS).map(|i| Expected::Bits((form.meaning)(values[0][i], values[1][i], values[2][i]))).collect();
        kernel = kernel.output(&format!("o{number}"), U32, expected);
        body.push_str(&format!("{}\n", form.text));
        body.push_str(&store(U32, "%vd", &format!("o{number}")));
    }
    kernel.registers(".reg .u32 %va, %vb, %vc, %vd;").body(&body).finish()
}

fn type_name(signed: bool) -> &'static str {
    if signed { "s32" } else { "u32" }
}

/// Returns bit `number` of a counter.
fn bit(counter: usize, number: u32) -> bool {
    counter >> number & 1 == 1
}

const PARTS: [&str; 7] = ["", "b0", "h1", "b3", "h0", "b1", "b2"];

/// Returns the text of an operand with a selector, and the part of the word.
fn selected(register: &str, selector: &str) -> (String, BitRange) {
    match BitRange::of_selector(selector) {
        Some(part) => (format!("{register}.{selector}"), part),
        None => (register.to_owned(), BitRange::WORD),
    }
}

/// Returns the modifier of a secondary operation, the destination, the end of the operands, and the meaning. `number` chooses one.
fn secondary(number: usize) -> (&'static str, String, &'static str, Secondary) {
    let selector = PARTS[1 + number / 5 % 6];
    match number % 5 {
        0 => ("", "%vd".into(), "", Secondary::None),
        1 => (".add", "%vd".into(), ", %vc", Secondary::Add),
        2 => (".min", "%vd".into(), ", %vc", Secondary::Minimum),
        3 => (".max", "%vd".into(), ", %vc", Secondary::Maximum),
        _ => {
            let (text, part) = selected("%vd", selector);
            ("", text, ", %vc", Secondary::Merge(part))
        }
    }
}

/// Returns the forms of a scalar instruction: all types with and without saturation, on whole words and on parts.
fn scalar_forms(name: &str, mode: &str, operation: Operation) -> Vec<Form> {
    let is_shift = !mode.is_empty();
    let mut forms = Vec::new();
    for counter in 0..32 {
        let (saturate, has_parts) = (bit(counter, 3), bit(counter, 4));
        let signed = [bit(counter, 0), bit(counter, 1), bit(counter, 2) && !is_shift];
        if is_shift && bit(counter, 2) && !has_parts {
            continue;
        }
        let step = forms.len();
        let choose = |offset: usize| if has_parts { PARTS[(step + offset) % PARTS.len()] } else { "" };
        let ((a, a_part), (mut b, b_part)) = (selected("%va", choose(1)), selected("%vb", choose(3)));
        let has_immediate = b_part == BitRange::WORD && has_parts;
        if has_immediate {
            b = if is_shift { "19".into() } else { format!("{}", IMMEDIATE as u32 as i32) };
        }
        let immediate = has_immediate.then_some(if is_shift { 19 } else { IMMEDIATE });
        let (op2, d, end, secondary) = secondary(step + usize::from(saturate));
        let sat = if saturate { ".sat" } else { "" };
        let [dt, at, bt] = signed.map(type_name);
        let text = format!("{name}.{dt}.{at}.{bt}{sat}{mode}{op2} {d}, {a}, {b}{end};");
        let scalar = Scalar { operation, signed, parts: [a_part, b_part], saturate, secondary };
        forms.push(Form { text, meaning: Box::new(move |a, b, c| scalar.apply(a, immediate.unwrap_or(b), c)) });
    }
    forms
}

/// Returns the forms of all comparisons.
fn comparisons(forms: impl Fn(&str, Comparison) -> Vec<Form>) -> Vec<Form> {
    use Comparison::{Eq, Ge, Gt, Le, Lt, Ne};
    let all = [("eq", Eq), ("ne", Ne), ("lt", Lt), ("le", Le), ("gt", Gt), ("ge", Ge)];
    all.into_iter().flat_map(|(name, comparison)| forms(name, comparison)).collect()
}

/// Returns scalar forms of a comparison with all types.
fn compared_scalars(name: &str, comparison: Comparison) -> Vec<Form> {
    let mut forms = Vec::new();
    for counter in 0..8 {
        let signed = [false, bit(counter, 0), bit(counter, 1)];
        let step = counter + name.len() + name.as_bytes()[0] as usize;
        let choose = |offset: usize| if bit(counter, 2) { PARTS[(step + offset) % PARTS.len()] } else { "" };
        let ((a, a_part), (b, b_part)) = (selected("%va", choose(0)), selected("%vb", choose(2)));
        let (op2, d, end, secondary) = secondary(step);
        let text = format!("vset.{}.{}.{name}{op2} {d}, {a}, {b}{end};", type_name(signed[1]), type_name(signed[2]));
        let operation = Operation::Compare(comparison);
        let scalar = Scalar { operation, signed, parts: [a_part, b_part], saturate: false, secondary };
        forms.push(Form { text, meaning: Box::new(move |a, b, c| scalar.apply(a, b, c)) });
    }
    forms
}

/// Returns forms of `vmad`: signs of the factors, negations, `.po`, scales and saturation.
fn products() -> Vec<Form> {
    let mut forms = Vec::new();
    for counter in 0..40 {
        let signed = [bit(counter, 0), bit(counter, 1)];
        let saturate = bit(counter, 2);
        let step = forms.len();
        let (a_sign, b_sign, c_sign, po) = match counter / 8 {
            0 => ("", "", "", ""),
            1 => ("-", "", "", ""),
            2 => ("", "", "-", ""),
            3 => ("-", "-", "-", ""),
            _ => ("", "", "", ".po"),
        };
        let (scale, shift) = [("", 0), (".shr7", 7), (".shr15", 15)][step % 3];
        let selector = |offset: usize| if step % 4 == 3 { PARTS[(step + offset) % PARTS.len()] } else { "" };
        let ((a, a_part), (b, b_part)) = (selected("%va", selector(1)), selected("%vb", selector(2)));
        let sat = if saturate { ".sat" } else { "" };
        let types = format!("{}.{}.{}", type_name(bit(counter, 3)), type_name(signed[0]), type_name(signed[1]));
        let text = format!("vmad.{types}{po}{sat}{scale} %vd, {a_sign}{a}, {b_sign}{b}, {c_sign}%vc;");
        let product = MultiplyAdd {
            signed,
            parts: [a_part, b_part],
            negate_product: a_sign != b_sign,
            negate_addend: !c_sign.is_empty(),
            plus_one: !po.is_empty(),
            shift,
            saturate,
        };
        forms.push(Form { text, meaning: Box::new(move |a, b, c| product.apply(a, b, c)) });
    }
    forms
}

const HALF_SELECTORS: [[&str; 2]; 4] = [["h10", "h32"], ["h01", "h20"], ["h33", "h10"], ["h12", "h03"]];
const BYTE_SELECTORS: [[&str; 2]; 4] = [["b3210", "b7654"], ["b0123", "b4567"], ["b7351", "b0246"], ["b7777", "b3210"]];
const HALF_MASKS: [&str; 3] = ["h10", "h0", "h1"];
const BYTE_MASKS: [&str; 5] = ["b3210", "b0", "b31", "b210", "b32"];

/// Returns the text of the operands of a SIMD instruction, its mask and the elements of its sources. `step` chooses them; the defaults are
/// not written.
fn lane_operands(lanes: usize, step: usize) -> (String, [bool; 4], [[u32; 4]; 2]) {
    let [a, b] = if lanes == 2 { HALF_SELECTORS[step % 4] } else { BYTE_SELECTORS[step % 4] };
    let mask = if lanes == 2 { HALF_MASKS[step % 3] } else { BYTE_MASKS[step % 5] };
    let dotted = |text: &str, is_default: bool| if is_default { String::new() } else { format!(".{text}") };
    let is_default = step.is_multiple_of(4);
    let text = format!("%vd{}, %va{}, %vb{}, %vc", dotted(mask, mask.len() == lanes + 1), dotted(a, is_default), dotted(b, is_default));
    (text, Simd::lanes_of(mask), [Simd::elements(a), Simd::elements(b)])
}

/// Returns forms of a SIMD instruction: all types, each plain, saturated and accumulated.
fn simd_forms(name: &str, lanes: usize, operation: Operation) -> Vec<Form> {
    let mut forms = Vec::new();
    for counter in 0..24 {
        let signed = [bit(counter, 0), bit(counter, 1), bit(counter, 2)];
        let (saturate, accumulate) = (counter / 8 == 1, counter / 8 == 2);
        let (operands, mask, selected) = lane_operands(lanes, counter + counter / 8);
        let end = if saturate {
            ".sat"
        } else if accumulate {
            ".add"
        } else {
            ""
        };
        let [dt, at, bt] = signed.map(type_name);
        let text = format!("{name}{lanes}.{dt}.{at}.{bt}{end} {operands};");
        let simd = Simd { operation, lanes, signed, selected, saturate, accumulate, mask };
        forms.push(Form { text, meaning: Box::new(move |a, b, c| simd.apply(a, b, c)) });
    }
    forms
}

/// Returns SIMD forms of a comparison with all types.
fn compared_lanes(name: &str, lanes: usize, comparison: Comparison) -> Vec<Form> {
    let mut forms = Vec::new();
    for counter in 0..4 {
        let signed = [false, bit(counter, 0), bit(counter, 1)];
        let step = counter + name.as_bytes()[0] as usize;
        let accumulate = bit(step, 0);
        let (operands, mask, selected) = lane_operands(lanes, step);
        let end = if accumulate { ".add" } else { "" };
        let text = format!("vset{lanes}.{}.{}.{name}{end} {operands};", type_name(signed[1]), type_name(signed[2]));
        let simd = Simd { operation: Operation::Compare(comparison), lanes, signed, selected, saturate: false, accumulate, mask };
        forms.push(Form { text, meaning: Box::new(move |a, b, c| simd.apply(a, b, c)) });
    }
    forms
}
