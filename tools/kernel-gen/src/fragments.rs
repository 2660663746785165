//! Generates tests of `wmma`: matrices are loaded from memory, multiplied and stored.
//!
//! Operands are random bits as in [`crate::tensor`]. The tests with floats first copy the matrices to shared memory and restrict them to
//! numbers whose sums are exact; the others read global memory, some through generic addresses.

use oriole_kernel_test::{Fill, Source};
use oriole_sem::Mode;
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::format::{F16, F32, Rounding};

use crate::kernel::{Generated, Kernel, bits};
use crate::tensor::{BFLOAT, DOUBLE, Element, FAMILY, HALF, LANES, Result, TENSOR_FLOAT, form, integer};
use crate::ty::{B32, B64};

/// Where the matrices are when they are loaded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Shared,
    Global,
    Generic,
}

/// The type of C or D.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sum {
    Half,
    Single,
    Double,
    Integer,
}

impl Sum {
    fn name(self) -> &'static str {
        match self {
            Sum::Half => "f16",
            Sum::Single => "f32",
            Sum::Double => "f64",
            Sum::Integer => "s32",
        }
    }

    fn size(self) -> usize {
        match self {
            Sum::Half => 16,
            Sum::Double => 64,
            Sum::Single | Sum::Integer => 32,
        }
    }
}

/// A test.
#[derive(Clone, Copy)]
struct Case {
    /// Rows of A, columns of B, and their length.
    shape: [usize; 3],
    a: Element,
    b: Element,
    c: Sum,
    d: Sum,
    result: Result,
    /// Whether A, B, C and D are stored by rows.
    by_rows: [bool; 4],
    space: Space,
    /// Whether rows are further apart than they are long.
    is_padded: bool,
    version: &'static str,
    target: &'static str,
}

/// A matrix in memory.
struct Stored {
    size: usize,
    by_rows: bool,
    stride: usize,
    /// All 32-bit or 64-bit words.
    words: Vec<u64>,
    fill: Fill,
    restriction: Option<(u64, u64)>,
}

impl Stored {
    fn new(seed: u32, [rows, columns]: [usize; 2], size: usize, by_rows: bool, is_padded: bool, restriction: Option<(u64, u64)>) -> Stored {
        let (lines, length) = if by_rows { (rows, columns) } else { (columns, rows) };
        // Rows are 16 bytes further apart.
        let stride = length + if is_padded { 128 / size } else { 0 };
        let word = size.max(32);
        let count = (lines * stride * size).div_ceil(word * LANES) * LANES;
        let fill = Fill::all(Source::Random { seed });
        let element = if word == 64 { B64.element } else { B32.element };
        let restrict = |value: u64| restriction.map_or(value, |(mask, base)| (value & mask | base) & element.mask());
        let words = fill.values(element, count).into_iter().map(restrict).collect();
        Stored { size, by_rows, stride, words, fill, restriction }
    }

    fn position(&self, row: usize, column: usize) -> (usize, usize) {
        let index = if self.by_rows { row * self.stride + column } else { column * self.stride + row };
        let word = self.size.max(32);
        (index * self.size / word, index * self.size % word)
    }

    fn get(&self, row: usize, column: usize) -> u64 {
        let (word, shift) = self.position(row, column);
        self.words[word] >> shift & (u64::MAX >> (64 - self.size))
    }

    fn put(&mut self, row: usize, column: usize, value: u64) {
        let (word, shift) = self.position(row, column);
        self.words[word] |= value << shift;
    }

    /// Returns code that copies the words from a buffer to shared memory at `first`, restricted.
    fn stage(&self, buffer: &str, first: usize) -> String {
        let size = self.size.max(32);
        let stem = if size == 64 { "rd" } else { "r" };
        let mut code = format!("mad.wide.u32 %at, %i, {}, %{buffer};\nmad.lo.u32 %r62, %i, {}, %r63;\n", size / 8, size / 8);
        for word in 0..self.words.len() / LANES {
            let offset = word * LANES * size / 8;
            code.push_str(&format!("ld.global.b{size} %{stem}0, [%at+{offset}];\n"));
            if let Some((mask, base)) = self.restriction {
                let all = u64::MAX >> (64 - size);
                code.push_str(&format!("and.b{size} %{stem}0, %{stem}0, {:#x};\n", mask & all));
                code.push_str(&format!("or.b{size} %{stem}0, %{stem}0, {:#x};\n", base & all));
            }
            code.push_str(&format!("st.shared.b{size} [%r62+{}], %{stem}0;\n", first + offset));
        }
        code
    }

    fn bytes(&self) -> usize {
        self.words.len() * self.size.max(32) / 8
    }
}

fn layout(by_rows: bool) -> &'static str {
    if by_rows { "row" } else { "col" }
}

/// Returns registers in braces; those of doubles have another name.
fn braces(size: usize, first: usize, count: usize) -> String {
    let stem = if size == 64 { "rd" } else { "r" };
    let names: Vec<String> = (first..first + count).map(|number| format!("%{stem}{number}")).collect();
    format!("{{{}}}", names.join(", "))
}

impl Case {
    fn shape_name(self) -> String {
        let [rows, columns, depth] = self.shape;
        format!("m{rows}n{columns}k{depth}")
    }

    /// Returns the number of PTX registers of A, B, C and D.
    fn registers(self) -> [usize; 4] {
        let [rows, columns, depth] = self.shape;
        let count = |elements: usize, size: usize| elements * size / (size.max(32) * LANES);
        // Fragments of f16 always have eight registers.
        let operand = |elements: usize, element: Element| if element.name() == "f16" { 8 } else { count(elements, element.size()) };
        let sum = |sum: Sum| count(rows * columns, sum.size());
        [operand(rows * depth, self.a), operand(columns * depth, self.b), sum(self.c), sum(self.d)]
    }

    fn instruction(self) -> String {
        let [a, b, ..] = self.by_rows.map(layout);
        let (d, c) = (self.d.name(), self.c.name());
        let shape = self.shape_name();
        match (self.result, self.a.name()) {
            (Result::And, _) => format!("wmma.mma.and.popc.sync.aligned.row.col.{shape}.s32.b1.b1.s32"),
            (Result::Xor, _) => format!("wmma.mma.xor.popc.sync.aligned.row.col.{shape}.s32.b1.b1.s32"),
            (_, "f16") => format!("wmma.mma.sync.aligned.{a}.{b}.{shape}.{d}.{c}"),
            (Result::Double(rounding), _) => {
                let rounding = match rounding {
                    Rounding::Zero => ".rz",
                    Rounding::Down => ".rm",
                    Rounding::Up => ".rp",
                    _ => "",
                };
                format!("wmma.mma.sync.aligned.{a}.{b}.{shape}{rounding}.f64.f64.f64.f64")
            }
            _ => {
                let clamp = if self.result == (Result::Integer { clamps: true }) { ".satfinite" } else { "" };
                format!("wmma.mma.sync.aligned.{a}.{b}.{shape}.{d}.{}.{}.{c}{clamp}", self.a.name(), self.b.name())
            }
        }
    }

    fn name(self) -> String {
        let space = match self.space {
            Space::Shared => "",
            Space::Global => "_global",
            Space::Generic => "_generic",
        };
        let layouts: String = self.by_rows.iter().map(|&by_rows| if by_rows { 'r' } else { 'c' }).collect();
        let dense = if self.is_padded { "" } else { "_dense" };
        let operation = self.instruction();
        let kind = ["and", "xor", "rz", "rm", "rp", "satfinite"].into_iter().find(|kind| operation.contains(&format!(".{kind}")));
        let kind = kind.map_or(String::new(), |kind| format!("_{kind}"));
        let types = format!("{}_{}_{}_{}", self.d.name(), self.a.name(), self.b.name(), self.c.name());
        format!("wmma_{}_{types}_{layouts}{kind}{dense}{space}", self.shape_name())
    }

    /// Returns one element of D.
    fn element(self, a: &[u64], b: &[u64], c: u64) -> u64 {
        let convert = |to, from, value| float_to_float(to, from, value, Mode::RN, Overflow::Ieee);
        let c = if self.c == Sum::Half && self.d == Sum::Single { convert(F32, F16, c) } else { c };
        let sum = form(16, self.shape[2], self.a, self.b, self.result, "", "").dot(a, b, c);
        if self.d == Sum::Half && self.c == Sum::Single { convert(F16, F32, sum) } else { sum }
    }

    fn multiply(self, a: &Stored, b: &Stored, c: &Stored) -> Stored {
        let [rows, columns, depth] = self.shape;
        let mut d = Stored::new(0, [rows, columns], self.d.size(), self.by_rows[3], self.is_padded, None);
        d.words.fill(0);
        for row in 0..rows {
            let a_row: Vec<u64> = (0..depth).map(|at| a.get(row, at)).collect();
            for column in 0..columns {
                let b_column: Vec<u64> = (0..depth).map(|at| b.get(at, column)).collect();
                d.put(row, column, self.element(&a_row, &b_column, c.get(row, column)));
            }
        }
        d
    }

    /// Returns the test.
    fn test(self) -> Generated {
        let [rows, columns, depth] = self.shape;
        let is_exact = self.space == Space::Shared;
        let of = |element: Element| if is_exact { element.restriction() } else { None };
        let sum_restriction = match self.c {
            _ if !is_exact => None,
            Sum::Single => Some((0x80c0_0000_80c0_0000, 0x3f00_0000_3f00_0000)),
            Sum::Half => HALF.restriction(),
            Sum::Double => DOUBLE.restriction(),
            Sum::Integer => None,
        };
        let stored = |seed, size: [usize; 2], bits, number: usize, restriction| {
            Stored::new(seed, size, bits, self.by_rows[number], self.is_padded, restriction)
        };
        let a = stored(41, [rows, depth], self.a.size(), 0, of(self.a));
        let b = stored(42, [depth, columns], self.b.size(), 1, of(self.b));
        let c = stored(43, [rows, columns], self.c.size(), 2, sum_restriction);
        let d = self.multiply(&a, &b, &c);
        let starts = [0, a.bytes(), a.bytes() + b.bytes()];
        let mut staging = String::from("mov.u32 %r63, area;\n");
        if is_exact {
            for (matrix, (buffer, first)) in [&a, &b, &c].into_iter().zip(["a", "b", "c"].into_iter().zip(starts)) {
                staging.push_str(&matrix.stage(buffer, first));
            }
            staging.push_str("bar.sync 0;\n");
        }
        let [a_count, b_count, c_count, d_count] = self.registers();
        let first = [0, a_count, a_count + b_count, a_count + b_count + c_count];
        let stride = |matrix: &Stored| if self.is_padded { format!(", {}", matrix.stride) } else { String::new() };
        let load = |name: &str, matrix: &Stored, number: usize, ty: &str, count: usize| {
            let (space, place) = match self.space {
                Space::Shared => (".shared", format!("%r63+{}", starts[number])),
                Space::Global => (".global", format!("%{name}")),
                Space::Generic => ("", format!("%g{name}")),
            };
            let registers = braces(matrix.size, first[number], count);
            let layout = layout(matrix.by_rows);
            format!("wmma.load.{name}.sync.aligned.{layout}.{}{space}.{ty} {registers}, [{place}]{};\n", self.shape_name(), stride(matrix))
        };
        let mut code = String::new();
        if self.space == Space::Generic {
            for name in ["a", "b", "c"] {
                code.push_str(&format!(".reg .u64 %g{name};\ncvta.global.u64 %g{name}, %{name};\n"));
            }
        }
        code.push_str(&load("a", &a, 0, self.a.name(), a_count));
        code.push_str(&load("b", &b, 1, self.b.name(), b_count));
        code.push_str(&load("c", &c, 2, self.c.name(), c_count));
        let [a_list, b_list] = [braces(self.a.size(), first[0], a_count), braces(self.b.size(), first[1], b_count)];
        let [c_list, d_list] = [braces(self.c.size(), first[2], c_count), braces(self.d.size(), first[3], d_count)];
        code.push_str(&format!("{} {d_list}, {a_list}, {b_list}, {c_list};\n", self.instruction()));
        let (shape, ty, layout) = (self.shape_name(), self.d.name(), layout(self.by_rows[3]));
        code.push_str(&format!("wmma.store.d.sync.aligned.{layout}.{shape}.global.{ty} [%d], {d_list}{};\n", stride(&d)));
        let ty = |matrix: &Stored| if matrix.size == 64 { B64 } else { B32 };
        Kernel::new(FAMILY, self.name(), self.instruction())
            .platform(self.version, self.target)
            .threads(LANES)
            .module(&format!(".shared .align 16 .b8 area[{}];", starts[2] + c.bytes()))
            .buffer("a", ty(&a), a.words.len(), a.fill.clone())
            .buffer("b", ty(&b), b.words.len(), b.fill.clone())
            .buffer("c", ty(&c), c.words.len(), c.fill.clone())
            .output("d", ty(&d), bits(d.words.clone()))
            .body(&staging)
            .body(&code)
            .finish()
    }
}

/// Returns the layouts of a test; the numbers go through all combinations.
fn layouts(number: usize) -> [bool; 4] {
    [0, 1, 2, 3].map(|bit| (number ^ number >> 2) >> bit & 1 == 0)
}

const SHAPES: [[usize; 3]; 3] = [[16, 16, 16], [32, 8, 16], [8, 32, 16]];

fn half_case(shape: [usize; 3], d: Sum, c: Sum, number: usize) -> Case {
    let result = if (d, c) == (Sum::Half, Sum::Half) { Result::Half } else { Result::Single };
    Case {
        shape,
        a: HALF,
        b: HALF,
        c,
        d,
        result,
        by_rows: layouts(number),
        space: Space::Shared,
        is_padded: true,
        version: "6.3",
        target: "sm_75",
    }
}

fn float_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let sums = [(Sum::Single, Sum::Single), (Sum::Half, Sum::Half), (Sum::Half, Sum::Single), (Sum::Single, Sum::Half)];
    for shape in SHAPES {
        for (d, c) in sums {
            for _ in 0..2 {
                cases.push(half_case(shape, d, c, cases.len()));
            }
        }
        for _ in 0..4 {
            let case = half_case(shape, Sum::Single, Sum::Single, cases.len());
            cases.push(Case { a: BFLOAT, b: BFLOAT, version: "7.0", target: "sm_80", ..case });
        }
    }
    for number in 0..4 {
        let case = half_case([16, 16, 8], Sum::Single, Sum::Single, number);
        cases.push(Case { a: TENSOR_FLOAT, b: TENSOR_FLOAT, version: "7.0", target: "sm_80", ..case });
    }
    let roundings = [Rounding::NearestEven, Rounding::NearestEven, Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up];
    for (number, rounding) in roundings.into_iter().enumerate() {
        let case = half_case([8, 8, 4], Sum::Double, Sum::Double, 3 * number);
        cases.push(Case { a: DOUBLE, b: DOUBLE, result: Result::Double(rounding), version: "7.0", target: "sm_80", ..case });
    }
    // Arbitrary numbers, whose sums depend on the arithmetic of the tensor cores.
    for (number, space) in [Space::Global, Space::Generic].into_iter().enumerate() {
        for (d, c) in sums {
            cases.push(Case { space, version: "8.0", target: "sm_90", ..half_case(SHAPES[number], d, c, 5 * number) });
        }
    }
    cases.push(Case { is_padded: false, ..half_case(SHAPES[0], Sum::Single, Sum::Single, 0) });
    cases.push(Case { is_padded: false, ..half_case(SHAPES[1], Sum::Half, Sum::Half, 15) });
    cases
}

fn integer_cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let bytes = [integer("s8", 8, true), integer("u8", 8, false)];
    let spaces = [Space::Global, Space::Shared, Space::Generic];
    let case = |shape, a, b, clamps, number: usize| Case {
        a,
        b,
        result: Result::Integer { clamps },
        space: spaces[number % 3],
        ..half_case(shape, Sum::Integer, Sum::Integer, number)
    };
    for shape in SHAPES {
        for (a, b) in [(0, 0), (0, 0), (0, 0), (1, 1), (1, 1), (1, 1)] {
            cases.push(case(shape, bytes[a], bytes[b], cases.len() % 2 == 1, cases.len()));
        }
    }
    let nibbles = [integer("s4", 4, true), integer("u4", 4, false)];
    for (number, element) in [nibbles[0], nibbles[1], nibbles[0]].into_iter().enumerate() {
        let case = case([8, 8, 32], element, element, number == 2, number);
        cases.push(Case { by_rows: [true, false, number % 2 == 0, number > 0], ..case });
    }
    for (result, version, target) in [(Result::Xor, "6.3", "sm_75"), (Result::And, "7.1", "sm_80")] {
        let case = case([8, 8, 128], Element::Bit, Element::Bit, false, 0);
        cases.push(Case { result, by_rows: [true, false, true, true], version, target, ..case });
    }
    cases
}

pub fn tests() -> Vec<Generated> {
    float_cases().into_iter().chain(integer_cases()).map(Case::test).collect()
}
