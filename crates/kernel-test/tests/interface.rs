//! Tests of headers of kernel tests, initial values and comparisons.

use oriole_kernel_test::fill::boundary;
use oriole_kernel_test::{Element, Expectation, Expected, Fill, KernelTest, ParameterValue, Source, Tolerance, parse};

/// Maximum length of a line.
const WIDTH: usize = 116;

const SAMPLE: &str = "// kernel-test 1
// about: a sample
// kernel: k
// grid: 2 1 1
// block: 64 1 1
// shared: 128
// param a: f32[4] = 3f800000 zero*2 random:7
// param k: u16 = ffff
// param s: bytes[3] = 01 02 ff
// param out: f32[6] = boundary/3
// reference tex: texture u32 8 wrap normalized = index
// reference smp: sampler border
// expect out: ulp 2 abs 1e-6 rel 5e-1 = 1 2|3 nan*2 ? 0
.version 8.0
";

#[test]
fn headers_round_trip() {
    let test = parse(SAMPLE).expect("valid");
    assert_eq!(test.shared_bytes, 128);
    assert_eq!(test.expectations[0].values.len(), 6);
    assert_eq!(test.buffer("tex"), Some((Element::U32, 8)));
    assert_eq!(test.buffer("smp"), None);
    assert_eq!(test.header("a sample") + ".version 8.0\n", SAMPLE);
    assert_eq!(parse(&test.header("again")), Ok(test));
}

#[test]
fn long_values_are_wrapped_and_joined() {
    let mut test = parse(SAMPLE).expect("valid");
    test.parameters[3].value = ParameterValue::Buffer { element: Element::U32, count: 500, fill: Fill::zero() };
    test.expectations[0].values = (0..500).map(Expected::Bits).collect();
    let header = test.header("long");
    assert!(header.lines().all(|line| line.len() <= WIDTH));
    assert_eq!(parse(&header), Ok(test));
}

#[test]
fn a_value_for_all_the_rest_is_counted() {
    let mut test = parse(SAMPLE).expect("valid");
    test.parameters[0].value = ParameterValue::Buffer { element: Element::U8, count: 5, fill: Fill::all(Source::Value(255)) };
    let again = parse(&test.header("filled")).expect("valid");
    let ParameterValue::Buffer { element, count, fill } = &again.parameters[0].value else { panic!("a buffer") };
    assert_eq!(KernelTest::initial_bytes(*element, *count, fill), [255; 5]);
}

#[test]
fn the_interpreter_can_be_asked() {
    let all = SAMPLE.replace("ulp 2 abs 1e-6 rel 5e-1 = 1 2|3 nan*2 ? 0", "interpreter");
    let test = parse(&all).expect("valid");
    assert!(test.needs_interpreter() && !parse(SAMPLE).expect("valid").needs_interpreter());
    assert_eq!(test.expectations[0].values, [Expected::Interpreter; 6]);
    assert_eq!(test.header("a sample") + ".version 8.0\n", all);
    let some = SAMPLE.replace("nan*2", "interpreter*2");
    assert_eq!(parse(&some).expect("valid").header("a sample") + ".version 8.0\n", some);
}

#[test]
fn mistakes_are_named() {
    let wrong = SAMPLE.replace("nan*2", "nan*3");
    assert!(parse(&wrong).is_err_and(|message| message.starts_with("7 values or more expected of 6 elements")));
    let few = SAMPLE.replace("nan*2", "nan");
    assert!(parse(&few).is_err_and(|message| message.starts_with("5 values expected of 6 elements")));
    assert!(parse(&SAMPLE.replace("random:7", "rnd:7")).is_err());
    assert!(parse(".version 8.0").is_err());
    let number = SAMPLE.replace("reference smp: sampler border", "reference smp: u32 = 1");
    assert!(parse(&number).is_err_and(|message| message.starts_with("a reference is a texture, a surface or a sampler")));
}

/// Sizes above the limits are refused before any memory is allocated for them.
#[test]
fn sizes_that_no_test_needs_are_refused() {
    let refused = |old: &str, new: &str, why: &str| {
        let message = parse(&SAMPLE.replace(old, new)).expect_err(new);
        assert!(message.contains(why), "{message}");
    };
    refused("f32[4]", "f32[18446744073709551615]", "more than 67108864");
    refused("f32[4]", "f32[67108864]", "more than 67108864");
    refused("? 0", "?*18446744073709551615", "18446744073709551615 values or more");
    refused("grid: 2", "grid: 2147483648", "at most 2147483647");
    refused("block: 64 1 1", "block: 1024 1 65", "at most 64");
    refused("shared: 128", "shared: 4294967295", "more shared memory");
    let largest = SAMPLE.replace("f32[4]", "f32[16777210]").replace("grid: 2 1 1", "grid: 2147483647 65535 65535");
    assert!(parse(&largest).is_ok());
}

#[test]
fn numbers_are_readable() {
    assert_eq!(Element::S8.number(0xff), "-1");
    assert_eq!(Element::U8.number(0xff), "255");
    assert_eq!(Element::F16.number(0x3e00), "1.5");
    assert_eq!(Element::F32.number(0x3dcc_cccd), "0.1");
    assert_eq!(Element::F32.number(0x7fc0_0000), "NaN");
    assert_eq!(Element::Bf16.number(0xff80), "-inf");
}

#[test]
fn strides_make_all_pairs() {
    let n = boundary(Element::U32).len();
    let a = Fill::of(&[(Source::Boundary { stride: 1 }, n * n)]).values(Element::U32, n * n);
    let b = Fill::of(&[(Source::Boundary { stride: n }, n * n)]).values(Element::U32, n * n);
    let mut pairs: Vec<(u64, u64)> = a.into_iter().zip(b).collect();
    pairs.sort_unstable();
    pairs.dedup();
    assert_eq!(pairs.len(), n * n);
}

#[test]
fn sized_floats_lie_around_one() {
    for bits in Fill::all(Source::Sized { seed: 3 }).values(Element::F32, 1000) {
        let value = f32::from_bits(bits as u32).abs();
        assert!((0.0625..16.0).contains(&value), "{value}");
    }
}

fn expectation(tolerance: Tolerance, values: &[Expected]) -> Expectation {
    Expectation { parameter: "out".into(), tolerance, values: values.to_vec() }
}

#[test]
fn closeness_crosses_zero_but_not_nan() {
    let near = expectation(Tolerance::Near { ulp: 2, absolute: 0.0, relative: 0.0 }, &[Expected::Bits(1)]);
    assert_eq!(near.compare(Element::F32, &0x8000_0001u32.to_le_bytes()), None);
    assert!(near.compare(Element::F32, &0x8000_0002u32.to_le_bytes()).is_some());
    assert!(near.compare(Element::F32, &0x7fff_ffffu32.to_le_bytes()).is_some());
}

#[test]
fn order_may_be_ignored() {
    let set = expectation(Tolerance::AnyOrder, &[Expected::Bits(1), Expected::Bits(2)]);
    assert_eq!(set.compare(Element::U8, &[2, 1]), None);
    assert_eq!(set.compare(Element::U8, &[2, 2]).map(|d| d.got), Some(2));
    let loose = expectation(Tolerance::AnyOrder, &[Expected::Any, Expected::Either(1, 3), Expected::Bits(2)]);
    assert_eq!(loose.compare(Element::U8, &[2, 3, 9]), None);
    assert_eq!(loose.wrong_elements(Element::U8, &[9, 3, 8]).len(), 1, "2 is missing");
    assert_eq!(loose.wrong_elements(Element::U8, &[2, 9, 8]).len(), 1, "neither 1 nor 3 is there");
}

#[test]
fn nothing_is_right_before_the_interpreter_was_asked() {
    let mut open = expectation(Tolerance::Exact, &[Expected::Interpreter, Expected::Bits(2)]);
    assert_eq!(open.wrong_elements(Element::U8, &[1, 2]).len(), 1);
    open.resolve(Element::U8, &[1, 7]);
    assert_eq!(open.values, [Expected::Bits(1), Expected::Bits(2)]);
    assert_eq!(open.compare(Element::U8, &[1, 2]), None);
}

#[test]
fn the_first_difference_is_named() {
    let exact = expectation(Tolerance::Exact, &[Expected::Bits(1), Expected::Bits(2), Expected::Nan]);
    let text = exact.compare(Element::F16, &[1, 0, 3, 0, 4, 0]).map(|d| d.to_string());
    assert_eq!(text.as_deref(), Some("out[1]: expected 0002, got 0003 (2 of 3 elements wrong)"));
}
