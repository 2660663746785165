//! Runs `mma.m8n8k4` on f16 in the simulator and compares the results with products computed here, from the manual's tables of elements.
//!
//! All numbers are small integers, so every order of additions gives the same result.

use std::fmt::Write;

use oriole_driver::{Options, compile};
use oriole_isa::Target;
use oriole_sim::sass::kernel_test::run;
use oriole_sim::sass::{GridOptions as Limits, Silent};

const TARGETS: [&str; 7] = ["sm_70", "sm_72", "sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"];

/// Number of threads of a warp.
const LANES: usize = 32;

/// Limit on the number of instructions.
const LIMIT: Limits = Limits::limited(1 << 20);

/// Returns the product that a thread takes part in, its number modulo 4, and 4 in the upper half of the warp.
fn place(lane: usize) -> (usize, usize, usize) {
    (lane / 4 % 4, lane % 4, lane / 16 * 4)
}

/// Returns row and column of element `i` of A in a thread.
fn in_a(lane: usize, i: usize, is_by_rows: bool) -> (usize, usize) {
    let (_, thread, upper) = place(lane);
    if is_by_rows { (thread + upper, i) } else { (i + upper, thread) }
}

/// Returns row and column of element `i` of B in a thread.
fn in_b(lane: usize, i: usize, is_by_rows: bool) -> (usize, usize) {
    let (_, thread, upper) = place(lane);
    if is_by_rows { (thread, i + upper) } else { (i, thread + upper) }
}

/// Returns row and column of element `i` of C or D in a thread.
fn in_sum(lane: usize, i: usize, is_half: bool) -> (usize, usize) {
    let (_, thread, upper) = place(lane);
    if is_half { (thread + upper, i) } else { ((thread & 1) + (i & 2) + upper, (i & 4) + (thread & 2) + (i & 1)) }
}

/// The elements of the matrices of product `number`.
fn a(number: usize, row: usize, column: usize) -> i32 {
    (number * 5 + row * 3 + column * 7) as i32 % 11 - 5
}
fn b(number: usize, row: usize, column: usize) -> i32 {
    (number * 3 + row * 5 + column * 2) as i32 % 7 - 3
}
fn c(number: usize, row: usize, column: usize) -> i32 {
    (number + row * 9 + column * 4) as i32 % 13 - 6
}
fn d(number: usize, row: usize, column: usize) -> i32 {
    c(number, row, column) + (0..4).map(|k| a(number, row, k) * b(number, k, column)).sum::<i32>()
}

/// Returns the bits of an integer of at most 11 bits as f16.
fn half(number: i32) -> u32 {
    let magnitude = number.unsigned_abs();
    let sign = u32::from(number < 0) << 15;
    if magnitude == 0 {
        return 0;
    }
    let exponent = magnitude.ilog2();
    sign | (exponent + 15) << 10 | (magnitude << 10 >> exponent) & 0x3ff
}

/// Returns the words of a matrix with `count` elements in each thread.
fn words(count: usize, is_half: bool, element: impl Fn(usize, usize) -> i32) -> String {
    let mut text = String::new();
    for lane in 0..LANES {
        if is_half {
            for i in (0..count).step_by(2) {
                write!(text, " {:x}", half(element(lane, i)) | half(element(lane, i + 1)) << 16).unwrap();
            }
        } else {
            for i in 0..count {
                write!(text, " {:x}", (element(lane, i) as f32).to_bits()).unwrap();
            }
        }
    }
    text
}

/// Returns a list of registers.
fn registers(name: &str, count: usize) -> String {
    (0..count).map(|i| format!("%{name}{i}")).collect::<Vec<_>>().join(", ")
}

/// Returns a kernel test of one form.
fn kernel(a_is_by_rows: bool, b_is_by_rows: bool, d_is_half: bool, c_is_half: bool) -> String {
    let layout = |is_by_rows: bool| if is_by_rows { "row" } else { "col" };
    let ty = |is_half: bool| if is_half { "f16" } else { "f32" };
    let count = |is_half: bool| if is_half { 4 } else { 8 };
    let (c_count, d_count) = (count(c_is_half), count(d_is_half));
    let numbered =
        |lane: usize, (row, column): (usize, usize), element: fn(usize, usize, usize) -> i32| element(place(lane).0, row, column);
    let mut text = format!(
        "// kernel-test 1\n// kernel: k\n// grid: 1\n// block: 32\n// param a: u32[64] ={}\n// param b: u32[64] ={}\n// param c: u32[{}] ={}\n\
         // param d: u32[{}] = 0*{}\n// expect d: exact ={}\n",
        words(4, true, |lane, i| numbered(lane, in_a(lane, i, a_is_by_rows), a)),
        words(4, true, |lane, i| numbered(lane, in_b(lane, i, b_is_by_rows), b)),
        LANES * c_count,
        words(8, c_is_half, |lane, i| numbered(lane, in_sum(lane, i, c_is_half), c)),
        LANES * d_count,
        LANES * d_count,
        words(8, d_is_half, |lane, i| numbered(lane, in_sum(lane, i, d_is_half), d)),
    );
    let float = |name: &str, is_half: bool| format!("{} %{name}<8>", if is_half { ".b32" } else { ".f32" });
    write!(
        text,
        ".version 8.0\n.target sm_70\n.address_size 64\n\
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{{\n\
         .reg .b32 %t, %a<2>, %b<2>;\n.reg {};\n.reg {};\n.reg .b64 %p<4>, %o;\n\
         mov.u32 %t, %tid.x;\n",
        float("c", c_is_half),
        float("d", d_is_half),
    )
    .unwrap();
    for (number, (name, words)) in [("a", 2), ("b", 2), ("c", c_count), ("d", d_count)].into_iter().enumerate() {
        writeln!(text, "ld.param.u64 %p{number}, [{name}];\nmul.wide.u32 %o, %t, {};\nadd.u64 %p{number}, %p{number}, %o;", words * 4)
            .unwrap();
    }
    for (number, (name, words)) in [("a", 2), ("b", 2), ("c", c_count)].into_iter().enumerate() {
        (0..words).for_each(|i| writeln!(text, "ld.global.b32 %{name}{i}, [%p{number}+{}];", 4 * i).unwrap());
    }
    writeln!(
        text,
        "mma.sync.aligned.m8n8k4.{}.{}.{}.f16.f16.{} {{{}}}, {{%a0, %a1}}, {{%b0, %b1}}, {{{}}};",
        layout(a_is_by_rows),
        layout(b_is_by_rows),
        ty(d_is_half),
        ty(c_is_half),
        registers("d", d_count),
        registers("c", c_count)
    )
    .unwrap();
    (0..d_count).for_each(|i| writeln!(text, "st.global.b32 [%p3+{}], %d{i};", 4 * i).unwrap());
    text + "ret;\n}\n"
}

#[test]
fn products_of_eight_threads_are_those_of_the_manual() {
    for form in 0..12_u32 {
        let [a_is_by_rows, b_is_by_rows] = [form & 1 != 0, form & 2 != 0];
        let [d_is_half, c_is_half] = [[true, true], [false, true], [false, false]][form as usize / 4];
        let text = kernel(a_is_by_rows, b_is_by_rows, d_is_half, c_is_half);
        let test = oriole_kernel_test::parse(&text).unwrap_or_else(|why| panic!("{why:?}\n{text}"));
        let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
        assert!(checked.is_valid(), "{:?}\n{text}", checked.diagnostics.first());
        for name in TARGETS {
            for level in [0, 3] {
                let options = Options { level, verify: true, ..Options::new(Target::parse(name).unwrap()) };
                let compiled = compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{}", errors[0]));
                let result = run(&test, &compiled.cubin, &LIMIT, &mut Silent);
                assert!(result.is_ok(), "form {form}, {name} -O{level}: {}", result.err().map_or(String::new(), |why| why.to_string()));
            }
        }
    }
}

/// Rows of the first matrix whose products overflow, or are NaN or infinite. The second matrix is all ones, the third zero.
const FINITE: &str = "// kernel-test 1
// kernel: k
// grid: 1 1 1
// block: 32 1 1
// param o: f16[768] = 7bff*16 fbff*16 7e00*16 7c00*16 fc00*16 3c00*432 0*256
// expect o: exact = 7bff*16 fbff*16 0*16 7bff*16 fbff*16 4c00*176 3c00*256 0*256
.version 6.3
.target sm_70
.address_size 64
.visible .entry k(.param .u64 o)
{
    .reg .b32 %a<8>, %b<8>, %c<4>, %d<4>;
    .reg .b64 %o;
    ld.param.u64 %o, [o];
    wmma.load.a.sync.aligned.row.m16n16k16.global.f16 {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}, [%o];
    wmma.load.b.sync.aligned.row.m16n16k16.global.f16 {%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}, [%o+512];
    wmma.load.c.sync.aligned.row.m16n16k16.global.f16 {%c0, %c1, %c2, %c3}, [%o+1024];
    wmma.mma.sync.aligned.row.row.m16n16k16.f16.f16.satfinite {%d0, %d1, %d2, %d3}, {%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7},
        {%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}, {%c0, %c1, %c2, %c3};
    wmma.store.d.sync.aligned.row.m16n16k16.global.f16 [%o], {%d0, %d1, %d2, %d3};
    ret;
}
";

/// `.satfinite` makes infinities the greatest numbers and NaN zero. 16 products of ones are 16.
#[test]
fn products_are_made_finite() {
    let test = oriole_kernel_test::parse(FINITE).unwrap();
    let checked = oriole_ptx::check(FINITE.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
    for name in TARGETS {
        for level in [0, 3] {
            let options = Options { level, verify: true, ..Options::new(Target::parse(name).unwrap()) };
            let compiled = compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{}", errors[0]));
            run(&test, &compiled.cubin, &LIMIT, &mut Silent).unwrap_or_else(|why| panic!("{name} -O{level}: {why}"));
        }
    }
}
