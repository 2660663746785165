//! Runs `wmma` for Volta in the simulator: all shapes, types and layouts.
//!
//! The matrices of f16 are those of [`a`], [`b`] and [`c`]: small integers, so every order of additions gives the same result. The expected
//! values are computed here.

use std::fmt::Write;

use oriole_driver::{Options, compile};
use oriole_isa::Target;
use oriole_sim::sass::kernel_test::run;
use oriole_sim::sass::{GridOptions as Limits, Silent};

const TARGETS: [&str; 3] = ["sm_70", "sm_72", "sm_75"];

/// Length of the rows of A.
const DEPTH: usize = 16;
/// Distance between rows (or columns) in memory, in elements.
const STRIDE: usize = 40;

fn a(row: usize, column: usize) -> i32 {
    (row * 3 + column * 7) as i32 % 11 - 5
}
fn b(row: usize, column: usize) -> i32 {
    (row * 5 + column * 2) as i32 % 7 - 3
}
fn c(row: usize, column: usize) -> i32 {
    (row * 9 + column * 4) as i32 % 13 - 6
}
fn d(row: usize, column: usize) -> i32 {
    c(row, column) + (0..DEPTH).map(|k| a(row, k) * b(k, column)).sum::<i32>()
}

/// Returns the bits of an integer of at most 11 bits as f16, or of any integer as f32.
fn bits(number: i32, is_half: bool) -> u32 {
    if !is_half {
        return (number as f32).to_bits();
    }
    let magnitude = number.unsigned_abs();
    if magnitude == 0 {
        return 0;
    }
    let exponent = magnitude.ilog2();
    u32::from(number < 0) << 15 | (exponent + 15) << 10 | (magnitude << 10 >> exponent) & 0x3ff
}

/// Returns the elements of a matrix in memory. Elements between the rows are zero.
fn contents([rows, columns]: [usize; 2], is_by_rows: bool, is_half: bool, element: fn(usize, usize) -> i32) -> Vec<u32> {
    let lines = if is_by_rows { rows } else { columns };
    let mut memory = vec![0; lines * STRIDE];
    for row in 0..rows {
        for column in 0..columns {
            let place = if is_by_rows { row * STRIDE + column } else { column * STRIDE + row };
            memory[place] = bits(element(row, column), is_half);
        }
    }
    memory
}

/// Returns a list of registers.
fn registers(name: &str, count: usize) -> String {
    (0..count).map(|i| format!("%{name}{i}")).collect::<Vec<_>>().join(", ")
}

/// A form of the product.
#[derive(Clone, Copy, Debug)]
struct Form {
    shape: [usize; 2],
    /// Whether A, B, C and D are stored by rows.
    layouts: [bool; 4],
    c_is_half: bool,
    d_is_half: bool,
}

/// Returns a kernel test of a form.
fn kernel(form: Form) -> String {
    let Form { shape: [rows, columns], layouts, c_is_half, d_is_half } = form;
    let ty = |is_half: bool| if is_half { "f16" } else { "f32" };
    let register = |is_half: bool| if is_half { "b32" } else { "f32" };
    let count = |is_half: bool| if is_half { 4 } else { 8 };
    let layout = layouts.map(|is_by_rows| if is_by_rows { "row" } else { "col" });
    let sizes = [[rows, DEPTH], [DEPTH, columns], [rows, columns], [rows, columns]];
    let elements: [fn(usize, usize) -> i32; 4] = [a, b, c, d];
    let halves = [true, true, c_is_half, d_is_half];
    let mut text = "// kernel-test 1\n// kernel: k\n// grid: 1\n// block: 32\n".to_owned();
    for (number, name) in ["a", "b", "c", "d"].into_iter().enumerate() {
        let values = contents(sizes[number], layouts[number], halves[number], elements[number]);
        let list: String = values.iter().map(|value| format!(" {value:x}")).collect();
        let (ty, length) = (ty(halves[number]), values.len());
        if name == "d" {
            writeln!(text, "// param d: {ty}[{length}] = zero\n// expect d: exact ={list}").unwrap();
        } else {
            writeln!(text, "// param {name}: {ty}[{length}] ={list}").unwrap();
        }
    }
    let shape = format!("m{rows}n{columns}k{DEPTH}");
    let [a_list, b_list] = ["a", "b"].map(|name| registers(name, 8));
    let (c_list, d_list) = (registers("c", count(c_is_half)), registers("d", count(d_is_half)));
    let [a_layout, b_layout, c_layout, d_layout] = layout;
    write!(
        text,
        ".version 6.3\n.target sm_70\n.address_size 64\n\
         .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d)\n{{\n\
         .reg .b32 %a<8>, %b<8>, %s;\n.reg .{} %c<8>;\n.reg .{} %d<8>;\n.reg .b64 %p<4>;\n\
         ld.param.u64 %p0, [a];\nld.param.u64 %p1, [b];\nld.param.u64 %p2, [c];\nld.param.u64 %p3, [d];\nmov.u32 %s, {STRIDE};\n\
         wmma.load.a.sync.aligned.{a_layout}.{shape}.global.f16 {{{a_list}}}, [%p0], %s;\n\
         wmma.load.b.sync.aligned.{b_layout}.{shape}.f16 {{{b_list}}}, [%p1], %s;\n\
         wmma.load.c.sync.aligned.{c_layout}.{shape}.global.{} {{{c_list}}}, [%p2], %s;\n\
         wmma.mma.sync.aligned.{a_layout}.{b_layout}.{shape}.{}.{} {{{d_list}}}, {{{a_list}}}, {{{b_list}}}, {{{c_list}}};\n\
         wmma.store.d.sync.aligned.{d_layout}.{shape}.global.{} [%p3], {{{d_list}}}, %s;\nret;\n}}\n",
        register(c_is_half),
        register(d_is_half),
        ty(c_is_half),
        ty(d_is_half),
        ty(c_is_half),
        ty(d_is_half),
    )
    .unwrap();
    text
}

#[test]
fn products_of_fragments_are_those_of_the_matrices() {
    for number in 0..192_usize {
        let form = Form {
            shape: [[16, 16], [32, 8], [8, 32]][number / 64],
            layouts: [0, 1, 2, 3].map(|bit| number >> bit & 1 != 0),
            c_is_half: number >> 4 & 1 != 0,
            d_is_half: number >> 5 & 1 != 0,
        };
        let text = kernel(form);
        let test = oriole_kernel_test::parse(&text).unwrap_or_else(|why| panic!("{why:?}\n{text}"));
        let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
        assert!(checked.is_valid(), "{:?}\n{text}", checked.diagnostics.first());
        for (target, level) in [(TARGETS[number % 3], 0), (TARGETS[0], 3)] {
            let options = Options { level, verify: true, ..Options::new(Target::parse(target).unwrap()) };
            let compiled = compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{}", errors[0]));
            run(&test, &compiled.cubin, &Limits::limited(1 << 20), &mut Silent)
                .unwrap_or_else(|why| panic!("{form:?}, {target} -O{level}: {why}"));
        }
    }
}

/// The kernel tests of byte products, which sm_72 has. Their expected values are computed by `tools/kernel-gen`.
#[test]
fn products_of_bytes_on_sm_72_are_those_of_turing() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels/tensor");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !(name.starts_with("wmma_") && (name.contains("k16_s32_s8") || name.contains("k16_s32_u8"))) {
            continue;
        }
        count += 1;
        let text = std::fs::read_to_string(&path).unwrap().replace(".target sm_75", ".target sm_72");
        let test = oriole_kernel_test::parse(&text).unwrap_or_else(|why| panic!("{name}: {why:?}"));
        let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
        assert!(checked.is_valid(), "{name}: {:?}", checked.diagnostics.first());
        for level in [0, 3] {
            let options = Options { level, verify: true, ..Options::new(Target::parse("sm_72").unwrap()) };
            let compiled = compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{name}: {}", errors[0]));
            run(&test, &compiled.cubin, &Limits::limited(1 << 20), &mut Silent).unwrap_or_else(|why| panic!("{name}, -O{level}: {why}"));
        }
    }
    assert_eq!(count, 18, "kernel tests of byte products");
}
