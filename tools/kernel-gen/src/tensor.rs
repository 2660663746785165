//! Generates tests of matrix products (`mma.sync`).
//!
//! Operands are random bits. For floats, most tests restrict them to a few numbers whose sums are exact in any order, so that the results
//! do not depend on the generation of the tensor cores: a mask keeps some bits and a base sets others. The tests of rounding use arbitrary
//! numbers and are for Hopper, whose arithmetic `oriole_sem::tensor` has from measurements.

use oriole_kernel_test::{Fill, Source};
use oriole_sem::Mode;
use oriole_sem::float::fma;
use oriole_sem::format::{BF16, E4M3, E5M2, F16, F64, Format, Rounding, TF32};
use oriole_sem::int::{Int, S32, U32 as UNSIGNED_32};
use oriole_sem::tensor::{Accumulator, HOPPER, eight_bit_by_halves};

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::{B32, B64, Ty};

pub(crate) const FAMILY: &str = "tensor";
pub(crate) const LANES: usize = 32;
/// Columns of B.
const COLUMNS: usize = 8;

/// The element type of A or B.
#[derive(Clone, Copy)]
pub(crate) enum Element {
    Float {
        name: &'static str,
        format: Format,
        /// Bits of an element in a register, and how many of the lowest ones are ignored.
        size: usize,
        unused: u32,
        /// The bits of a random element that are kept, and those that are set.
        mask: u64,
        base: u64,
    },
    Integer {
        name: &'static str,
        int: Int,
    },
    Bit,
}

pub(crate) const HALF: Element = float("f16", F16, 16, 0, 0x8600, 0x3800);
pub(crate) const BFLOAT: Element = float("bf16", BF16, 16, 0, 0x80c0, 0x3f00);
pub(crate) const TENSOR_FLOAT: Element = float("tf32", TF32, 32, 13, 0x80c0_1fff, 0x3f00_0000);
pub(crate) const E4: Element = float("e4m3", E4M3, 8, 0, 0x8c, 0x30);
pub(crate) const E5: Element = float("e5m2", E5M2, 8, 0, 0x86, 0x38);
pub(crate) const DOUBLE: Element = float("f64", F64, 64, 0, u64::MAX >> 12 | 1 << 63, 0x3ff0_0000_0000_0000);

const fn float(name: &'static str, format: Format, size: usize, unused: u32, mask: u64, base: u64) -> Element {
    Element::Float { name, format, size, unused, mask, base }
}

pub(crate) const fn integer(name: &'static str, bits: u32, signed: bool) -> Element {
    Element::Integer { name, int: Int { bits, signed } }
}

impl Element {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Element::Float { name, .. } | Element::Integer { name, .. } => name,
            Element::Bit => "b1",
        }
    }

    pub(crate) fn size(self) -> usize {
        match self {
            Element::Float { size, .. } => size,
            Element::Integer { int, .. } => int.bits as usize,
            Element::Bit => 1,
        }
    }

    /// Returns mask and base of a register.
    pub(crate) fn restriction(self) -> Option<(u64, u64)> {
        let Element::Float { size, mask, base, .. } = self else { return None };
        let repeat = |bits: u64| (0..64 / size).fold(0, |all, number| all | bits.checked_shl((number * size) as u32).unwrap_or(0));
        Some((repeat(mask), repeat(base)))
    }
}

/// The accumulator.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Result {
    Single,
    Half,
    Double(Rounding),
    Integer { clamps: bool },
    And,
    Xor,
}

/// A form of the instruction.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) rows: usize,
    pub(crate) depth: usize,
    pub(crate) a: Element,
    pub(crate) b: Element,
    pub(crate) result: Result,
    pub(crate) version: &'static str,
    pub(crate) target: &'static str,
    /// Whether operands are arbitrary numbers, so that the result is rounded.
    pub(crate) rounds: bool,
}

impl Form {
    fn result_size(self) -> usize {
        match self.result {
            Result::Half => 16,
            Result::Double(_) => 64,
            _ => 32,
        }
    }

    /// Returns the size of a register in bits.
    fn register(self) -> usize {
        if self.result_size() == 64 { 64 } else { 32 }
    }

    /// Returns the number of registers per thread of A, B and C.
    pub(crate) fn registers(self) -> [usize; 3] {
        let count = |elements: usize, size: usize| elements * size / (self.register() * LANES);
        [
            count(self.rows * self.depth, self.a.size()),
            count(COLUMNS * self.depth, self.b.size()),
            count(self.rows * COLUMNS, self.result_size()),
        ]
    }

    pub(crate) fn instruction(self) -> String {
        let Form { rows, depth, a, b, .. } = self;
        let (clamp, result, tail) = match self.result {
            Result::Single => ("", "f32", ""),
            Result::Half => ("", "f16", ""),
            Result::Double(Rounding::Zero) => ("", "f64", ".rz"),
            Result::Double(Rounding::Down) => ("", "f64", ".rm"),
            Result::Double(Rounding::Up) => ("", "f64", ".rp"),
            Result::Double(_) => ("", "f64", ""),
            Result::Integer { clamps } => (if clamps { ".satfinite" } else { "" }, "s32", ""),
            Result::And => ("", "s32", ".and.popc"),
            Result::Xor => ("", "s32", ".xor.popc"),
        };
        format!("mma.sync.aligned.m{rows}n8k{depth}.row.col{clamp}.{result}.{}.{}.{result}{tail}", a.name(), b.name())
    }

    pub(crate) fn name(self) -> String {
        let suffix = match self.result {
            Result::Integer { clamps: true } => "_satfinite",
            Result::Half => "_f16",
            Result::Double(Rounding::Zero) => "_rz",
            Result::Double(Rounding::Down) => "_rm",
            Result::Double(Rounding::Up) => "_rp",
            Result::And => "_and",
            Result::Xor => "_xor",
            _ => "",
        };
        let rounds = if self.rounds { "_rounding" } else { "" };
        format!("mma_m{}n8k{}_{}_{}{suffix}{rounds}", self.rows, self.depth, self.a.name(), self.b.name())
    }

    /// Returns the rows of A, or the columns of B, from the registers of all threads.
    ///
    /// Register `r` of thread `t` holds consecutive elements of row `t / 4 + 8 * (r % tall)`, in part `t % 4 + 4 * (r / tall)`.
    pub(crate) fn vectors(self, registers: &[u64], element: Element, count: usize, tall: usize) -> Vec<Vec<u64>> {
        let size = element.size();
        let per_register = self.register() / size;
        let mask = u64::MAX >> (64 - size);
        let mut vectors = vec![vec![0; self.depth]; 8 * tall];
        for thread in 0..LANES {
            for register in 0..count {
                let value = registers[thread * count + register];
                for number in 0..per_register {
                    let column = per_register * (thread % 4 + 4 * (register / tall)) + number;
                    vectors[thread / 4 + 8 * (register % tall)][column] = value >> (number * size) & mask;
                }
            }
        }
        vectors
    }

    /// Returns one element of the result.
    pub(crate) fn dot(self, a: &[u64], b: &[u64], c: u64) -> u64 {
        let pairs = || a.iter().zip(b);
        match (self.result, self.a, self.b) {
            (Result::Integer { clamps }, Element::Integer { int: a_int, .. }, Element::Integer { int: b_int, .. }) => {
                let sum = pairs().fold(S32.value(c), |sum, (&a, &b)| sum + a_int.value(a) * b_int.value(b));
                if clamps { S32.clamp(sum) } else { S32.wrap(sum) }
            }
            (Result::And, ..) => UNSIGNED_32.add(c, pairs().map(|(a, b)| a & b).sum()),
            (Result::Xor, ..) => UNSIGNED_32.add(c, pairs().map(|(a, b)| a ^ b).sum()),
            (Result::Double(rounding), ..) => pairs().fold(c, |sum, (&a, &b)| fma(F64, a, b, sum, Mode::new(rounding))),
            (_, Element::Float { format: a_format, size, unused, .. }, Element::Float { format: b_format, .. }) => {
                let accumulator = if self.result == Result::Half { Accumulator::Half } else { Accumulator::Single };
                let cut = |row: &[u64]| -> Vec<u64> { row.iter().map(|element| element >> unused).collect() };
                let (a, b) = (cut(a), cut(b));
                if size == 8 {
                    eight_bit_by_halves([a_format, b_format], &a, &b, c, accumulator)
                } else {
                    HOPPER.dot([a_format, b_format], size as u32, &a, &b, c, accumulator)
                }
            }
            _ => unreachable!("the types fit together"),
        }
    }

    /// Returns the registers of D of all threads.
    fn multiply(self, a: &[u64], b: &[u64], c: &[u64]) -> Vec<u64> {
        let [a_count, b_count, _] = self.registers();
        self.multiply_vectors(&self.vectors(a, self.a, a_count, self.rows / 8), &self.vectors(b, self.b, b_count, 1), c)
    }

    /// Returns the registers of D of all threads, given the rows of A, the columns of B and the registers of C.
    pub(crate) fn multiply_vectors(self, rows: &[Vec<u64>], columns: &[Vec<u64>], c: &[u64]) -> Vec<u64> {
        let [.., c_count] = self.registers();
        let size = self.result_size();
        let per_register = self.register() / size;
        let mask = u64::MAX >> (64 - size);
        let mut d = vec![0; c.len()];
        for thread in 0..LANES {
            for element in 0..c_count * per_register {
                let (index, shift) = (thread * c_count + element / per_register, element % per_register * size);
                let (row, column) = (thread / 4 + 8 * (element / 2), 2 * (thread % 4) + element % 2);
                d[index] |= self.dot(&rows[row], &columns[column], c[index] >> shift & mask) << shift;
            }
        }
        d
    }
}

/// One operand of a test: its registers in memory and after the restriction.
pub(crate) struct Matrix {
    pub(crate) fill: Fill,
    pub(crate) values: Vec<u64>,
    restriction: Option<(u64, u64)>,
}

impl Matrix {
    pub(crate) fn new(form: Form, seed: u32, count: usize, restriction: Option<(u64, u64)>) -> Matrix {
        let fill = Fill::all(Source::Random { seed });
        let element = register_type(form).element;
        let restrict = |value: u64| restriction.map_or(value, |(mask, base)| (value & mask | base) & element.mask());
        let values = fill.values(element, LANES * count).into_iter().map(restrict).collect();
        Matrix { fill, values, restriction }
    }
}

fn register_type(form: Form) -> Ty {
    if form.register() == 64 { B64 } else { B32 }
}

/// Returns code that loads the registers of a matrix, from `first` on, and restricts them.
pub(crate) fn load_matrix(form: Form, matrix: &Matrix, buffer: &str, first: usize, count: usize) -> String {
    let (stem, size) = if form.register() == 64 { ("rd", 64) } else { ("r", 32) };
    let mut code = format!("mad.wide.u32 %at, %i, {}, %{buffer};\n", count * size / 8);
    for register in 0..count {
        let name = format!("%{stem}{}", first + register);
        code.push_str(&format!("ld.global.b{size} {name}, [%at+{}];\n", register * size / 8));
        if let Some((mask, base)) = matrix.restriction {
            let (mask, base) = if size == 32 { (mask & 0xffff_ffff, base & 0xffff_ffff) } else { (mask, base) };
            code.push_str(&format!("and.b{size} {name}, {name}, {mask:#x};\nor.b{size} {name}, {name}, {base:#x};\n"));
        }
    }
    code
}

/// Returns registers in braces.
pub(crate) fn braces(form: Form, first: usize, count: usize) -> String {
    let stem = if form.register() == 64 { "rd" } else { "r" };
    let names: Vec<String> = (first..first + count).map(|number| format!("%{stem}{number}")).collect();
    format!("{{{}}}", names.join(", "))
}

/// Returns code that executes an instruction `steps` times, in a loop if there are several.
pub(crate) fn repeated(instruction: String, steps: usize) -> String {
    if steps == 1 {
        return instruction;
    }
    format!("mov.u32 %r60, 0;\nAGAIN:\n{instruction}\nadd.u32 %r60, %r60, 1;\nsetp.lt.u32 %p1, %r60, {steps};\n@%p1 bra AGAIN;")
}

/// Returns code that stores the registers of the result, from `first` on, to the buffer `d`.
pub(crate) fn store_result(form: Form, first: usize, count: usize) -> String {
    let size = form.register() / 8;
    let stem = if form.register() == 64 { "rd" } else { "r" };
    let mut code = format!("mad.wide.u32 %at, %i, {}, %d;\n", count * size);
    for register in 0..count {
        code.push_str(&format!("st.global.b{} [%at+{}], %{stem}{};\n", 8 * size, register * size, first + register));
    }
    code
}

/// Returns the test of a form. `steps` products are accumulated, in a loop if there are several.
fn test(form: Form, steps: usize) -> Generated {
    let [a_count, b_count, c_count] = form.registers();
    let result_restriction = match form.result {
        _ if form.rounds => None,
        Result::Single => Some((0x80c0_0000, 0x3f00_0000)),
        Result::Half => HALF.restriction(),
        Result::Double(_) => DOUBLE.restriction(),
        _ => None,
    };
    let of = |element: Element| if form.rounds && form.register() == 32 { None } else { element.restriction() };
    let a = Matrix::new(form, 31, a_count, of(form.a));
    let b = Matrix::new(form, 32, b_count, of(form.b));
    let c = Matrix::new(form, 33, c_count, result_restriction);
    let d = (0..steps).fold(c.values.clone(), |sum, _| form.multiply(&a.values, &b.values, &sum));
    let (b_first, c_first) = (a_count, a_count + b_count);
    let c_names = braces(form, c_first, c_count);
    let multiply =
        format!("{} {c_names}, {}, {}, {c_names};", form.instruction(), braces(form, 0, a_count), braces(form, b_first, b_count));
    let name = if steps == 1 { form.name() } else { format!("{}_loop", form.name()) };
    let ty = register_type(form);
    Kernel::new(FAMILY, name, format!("{}, {steps} times", form.instruction()))
        .platform(form.version, form.target)
        .threads(LANES)
        .buffer("a", ty, LANES * a_count, a.fill.clone())
        .buffer("b", ty, LANES * b_count, b.fill.clone())
        .buffer("c", ty, LANES * c_count, c.fill.clone())
        .output("d", ty, bits(d))
        .body(&load_matrix(form, &a, "a", 0, a_count))
        .body(&load_matrix(form, &b, "b", b_first, b_count))
        .body(&load_matrix(form, &c, "c", c_first, c_count))
        .body(&repeated(multiply, steps))
        .body(&store_result(form, c_first, c_count))
        .finish()
}

pub(crate) fn form(rows: usize, depth: usize, a: Element, b: Element, result: Result, version: &'static str, target: &'static str) -> Form {
    Form { rows, depth, a, b, result, version, target, rounds: false }
}

fn float_forms() -> Vec<Form> {
    let mut forms = Vec::new();
    for result in [Result::Single, Result::Half] {
        forms.push(form(16, 8, HALF, HALF, result, "6.5", "sm_75"));
        forms.push(form(16, 16, HALF, HALF, result, "7.0", "sm_80"));
        for (a, b) in [(E4, E4), (E4, E5), (E5, E4), (E5, E5)] {
            forms.push(form(16, 16, a, b, result, "8.7", "sm_89"));
            forms.push(form(16, 32, a, b, result, "8.7", "sm_89"));
        }
    }
    for (element, depth) in [(BFLOAT, 8), (BFLOAT, 16), (TENSOR_FLOAT, 4), (TENSOR_FLOAT, 8)] {
        forms.push(form(16, depth, element, element, Result::Single, "7.0", "sm_80"));
    }
    let roundings = [Rounding::NearestEven, Rounding::Zero, Rounding::Down, Rounding::Up];
    for result in roundings.map(Result::Double) {
        forms.push(form(8, 4, DOUBLE, DOUBLE, result, "7.0", "sm_80"));
        for depth in [4, 8, 16] {
            forms.push(form(16, depth, DOUBLE, DOUBLE, result, "7.8", "sm_90"));
        }
    }
    forms
}

fn integer_forms() -> Vec<Form> {
    let bytes = [integer("s8", 8, true), integer("u8", 8, false)];
    let nibbles = [integer("s4", 4, true), integer("u4", 4, false)];
    let mut forms = Vec::new();
    for (types, unit) in [(bytes, 16), (nibbles, 32)] {
        for a in types {
            for b in types {
                for clamps in [false, true] {
                    let result = Result::Integer { clamps };
                    forms.push(form(8, unit, a, b, result, "6.5", "sm_75"));
                    forms.push(form(16, unit, a, b, result, "7.0", "sm_80"));
                    forms.push(form(16, 2 * unit, a, b, result, "7.0", "sm_80"));
                }
            }
        }
    }
    forms.push(form(8, 128, Element::Bit, Element::Bit, Result::Xor, "7.0", "sm_75"));
    forms.push(form(8, 128, Element::Bit, Element::Bit, Result::And, "7.1", "sm_80"));
    for depth in [128, 256] {
        forms.push(form(16, depth, Element::Bit, Element::Bit, Result::Xor, "7.0", "sm_80"));
        forms.push(form(16, depth, Element::Bit, Element::Bit, Result::And, "7.1", "sm_80"));
    }
    forms
}

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for form in float_forms().into_iter().chain(integer_forms()) {
        tests.push(test(form, 1));
    }
    // Accumulators that live in a loop.
    tests.push(test(form(16, 16, HALF, HALF, Result::Single, "7.0", "sm_80"), 3));
    tests.push(test(form(16, 16, HALF, HALF, Result::Half, "7.0", "sm_80"), 2));
    tests.push(test(form(16, 8, TENSOR_FLOAT, TENSOR_FLOAT, Result::Single, "7.0", "sm_80"), 3));
    tests.push(test(form(8, 4, DOUBLE, DOUBLE, Result::Double(Rounding::NearestEven), "7.0", "sm_80"), 3));
    tests.push(test(form(16, 32, integer("s8", 8, true), integer("u8", 8, false), Result::Integer { clamps: true }, "7.0", "sm_80"), 3));
    // Arbitrary numbers.
    let rounding = [
        form(16, 8, HALF, HALF, Result::Single, "8.0", "sm_90"),
        form(16, 16, HALF, HALF, Result::Single, "8.0", "sm_90"),
        form(16, 16, HALF, HALF, Result::Half, "8.0", "sm_90"),
        form(16, 16, BFLOAT, BFLOAT, Result::Single, "8.0", "sm_90"),
        form(16, 4, TENSOR_FLOAT, TENSOR_FLOAT, Result::Single, "8.0", "sm_90"),
        form(16, 8, TENSOR_FLOAT, TENSOR_FLOAT, Result::Single, "8.0", "sm_90"),
    ];
    tests.extend(rounding.map(|form| test(Form { rounds: true, ..form }, 1)));
    tests
}
