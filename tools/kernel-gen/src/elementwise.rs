//! Generates tests of one instruction applied to each element of its input buffers.
//!
//! [`Op::plain`] runs the instruction on boundary and random values with all operands in registers. [`Op::shapes`] runs it with immediates
//! and kernel parameters in every operand position, with only constant operands, and guarded by a predicate.

use crate::kernel::{Generated, Kernel, load, store};
use crate::ty::Ty;
use oriole_kernel_test::{Expected, Fill, Segment, Source, Tolerance, fill};
use std::rc::Rc;

pub type Meaning = Rc<dyn Fn(&[u64]) -> Vec<Expected>>;

#[derive(Clone)]
pub struct Op {
    pub family: &'static str,
    pub name: String,
    /// The instruction, with `{a}`, `{b}`, `{c}`, `{e}` for inputs and `{d}`, `{f}` for outputs.
    pub template: String,
    pub inputs: Vec<Ty>,
    pub outputs: Vec<Ty>,
    pub tolerance: Tolerance,
    pub version: &'static str,
    pub target: &'static str,
    /// Register declarations that the template needs.
    pub registers: String,
    /// Computes one value for each element of each output.
    pub meaning: Meaning,
    fills: Vec<Option<Fill>>,
    constants: Vec<[u64; 2]>,
    threads: Option<usize>,
}

const INPUT_NAMES: [&str; 4] = ["a", "b", "c", "e"];
const OUTPUT_NAMES: [&str; 2] = ["d", "f"];
/// If there are more pairs of boundary values than this, random pairs are used.
const MOST_PAIRS: usize = 500;
/// Number of random pairs or triples of boundary values.
const RANDOM_PICKS: usize = 176;
const SHAPE_THREADS: usize = 32;

pub fn one(bits: u64) -> Vec<Expected> {
    vec![Expected::Bits(bits)]
}

/// Returns the expected float result. The manual does not specify the payload of f64 NaNs.
pub fn float_result(ty: Ty, bits: u64) -> Expected {
    if ty.bits() == 64 && ty.format().is_nan(bits) { Expected::Nan } else { Expected::Bits(bits) }
}

/// Returns a fill segment with one explicit element.
pub fn value(bits: u64) -> Segment {
    Segment { source: Source::Value(bits), count: Some(1) }
}

/// Returns a seed derived from the test's name (FNV-1a), which does not change when other tests are added.
pub fn seed_of(name: &str) -> u32 {
    name.bytes().fold(0x811c_9dc5, |hash: u32, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)) % 100_000
}

impl Op {
    pub fn new(
        family: &'static str,
        name: impl Into<String>,
        template: impl Into<String>,
        inputs: &[Ty],
        output: Ty,
        meaning: impl Fn(&[u64]) -> Vec<Expected> + 'static,
    ) -> Op {
        Op {
            family,
            name: name.into(),
            template: template.into(),
            inputs: inputs.to_vec(),
            outputs: vec![output],
            tolerance: Tolerance::Exact,
            version: "8.0",
            target: "sm_75",
            registers: String::new(),
            meaning: Rc::new(meaning),
            fills: vec![None; inputs.len()],
            constants: inputs.iter().map(|ty| typical_constants(*ty)).collect(),
            threads: None,
        }
    }

    pub fn platform(mut self, version: &'static str, target: &'static str) -> Op {
        self.version = version;
        self.target = target;
        self
    }

    pub fn near(mut self, ulp: u64, absolute: f64, relative: f64) -> Op {
        self.tolerance = Tolerance::Near { ulp, absolute, relative };
        self
    }

    pub fn second_output(mut self, ty: Ty) -> Op {
        self.outputs.push(ty);
        self
    }

    pub fn registers(mut self, text: &str) -> Op {
        self.registers = text.into();
        self
    }

    /// Sets the values of one input.
    pub fn fill(mut self, input: usize, fill: Fill) -> Op {
        self.fills[input] = Some(fill);
        self
    }

    /// Sets the constants of one input.
    pub fn constants(mut self, input: usize, constants: [u64; 2]) -> Op {
        self.constants[input] = constants;
        self
    }

    pub fn threads(mut self, threads: usize) -> Op {
        self.threads = Some(threads);
        self
    }

    /// Returns the number of threads and the inputs: boundary values first, then random ones.
    fn plan(&self) -> (usize, Vec<Fill>) {
        let seed = seed_of(&self.name);
        let sizes: Vec<usize> = self.inputs.iter().map(|ty| fill::boundary(ty.element).len()).collect();
        let lanes = self.inputs.iter().map(|ty| ty.lanes).max().unwrap_or(1);
        let pairs: usize = sizes.iter().product();
        let directed = if pairs <= MOST_PAIRS { pairs } else { RANDOM_PICKS };
        let threads = match self.inputs.len() {
            1 => 256,
            _ if pairs <= MOST_PAIRS => 640,
            _ => 256,
        };
        let threads = self.threads.unwrap_or(threads);
        let directed = directed.min(threads);
        let mut stride = 1;
        let mut fills = Vec::new();
        for (k, ty) in self.inputs.iter().enumerate() {
            let seed = seed + k as u32;
            let cross = pairs <= MOST_PAIRS && lanes == 1;
            let source = if cross { Source::Boundary { stride } } else { Source::Pick { seed } };
            let directed = directed * ty.lanes;
            let rest = threads * ty.lanes - directed;
            let random = [(source, directed), (Source::Sized { seed }, rest / 2), (Source::Random { seed }, rest - rest / 2)];
            fills.push(self.fills[k].clone().unwrap_or_else(|| Fill::of(&random)));
            stride *= sizes[k];
        }
        (threads, fills)
    }

    /// Returns the register values of each input.
    fn columns(&self, threads: usize, fills: &[Fill]) -> Vec<Vec<u64>> {
        self.inputs
            .iter()
            .zip(fills)
            .map(|(ty, fill)| fill.values(ty.element, threads * ty.lanes).chunks(ty.lanes).map(|lanes| ty.join(lanes)).collect())
            .collect()
    }

    fn kernel(&self, name: String, about: String) -> Kernel {
        let mut registers = self.registers.clone();
        for (ty, name) in self.inputs.iter().zip(INPUT_NAMES) {
            registers.push_str(&format!("\n.reg .{} %val_{name};", ty.register));
        }
        for (ty, name) in self.outputs.iter().zip(OUTPUT_NAMES) {
            registers.push_str(&format!("\n.reg .{} %res_{name};", ty.register));
        }
        Kernel::new(self.family, name, about).platform(self.version, self.target).registers(&registers)
    }

    fn instruction(&self, operands: &[String]) -> String {
        let mut text = self.template.clone();
        for (name, operand) in INPUT_NAMES.iter().zip(operands) {
            text = text.replace(&format!("{{{name}}}"), operand);
        }
        for name in OUTPUT_NAMES {
            text = text.replace(&format!("{{{name}}}"), &format!("%res_{name}"));
        }
        text
    }

    fn in_registers(&self) -> Vec<String> {
        INPUT_NAMES[..self.inputs.len()].iter().map(|name| format!("%val_{name}")).collect()
    }

    fn about(&self) -> String {
        let mut text = self.template.replace('\n', " ");
        for name in INPUT_NAMES.iter().chain(&OUTPUT_NAMES) {
            text = text.replace(&format!("{{{name}}}"), name);
        }
        text
    }

    /// Generates the test with all operands in registers.
    pub fn plain(&self) -> Generated {
        let (threads, fills) = self.plan();
        let columns = self.columns(threads, &fills);
        let mut expected: Vec<Vec<Expected>> = vec![Vec::new(); self.outputs.len()];
        for row in 0..threads {
            let inputs: Vec<u64> = columns.iter().map(|column| column[row]).collect();
            let mut results = (self.meaning)(&inputs).into_iter();
            for (ty, values) in self.outputs.iter().zip(&mut expected) {
                values.extend(results.by_ref().take(ty.lanes));
            }
        }
        let mut kernel = self.kernel(self.name.clone(), self.about()).threads(threads);
        let mut body = String::new();
        for ((ty, name), fill) in self.inputs.iter().zip(INPUT_NAMES).zip(fills) {
            kernel = kernel.buffer(name, *ty, threads, fill);
            body.push_str(&load(*ty, &format!("%val_{name}"), name));
        }
        body.push_str(&self.instruction(&self.in_registers()));
        body.push('\n');
        for ((ty, name), values) in self.outputs.iter().zip(OUTPUT_NAMES).zip(expected) {
            kernel = kernel.output_near(name, *ty, self.tolerance, values);
            body.push_str(&store(*ty, &format!("%res_{name}"), name));
        }
        kernel.body(&body).finish()
    }

    /// Generates the test with immediates and kernel parameters in each position, constants only, and guards. `immediates` lists the
    /// positions in which PTX allows immediates.
    pub fn shapes(&self, immediates: &[usize]) -> Generated {
        assert!(self.outputs.len() == 1, "{}: shapes have one output", self.name);
        let threads = SHAPE_THREADS;
        let output = self.outputs[0];
        let seed = seed_of(&self.name);
        let fills: Vec<Fill> = (0..self.inputs.len())
            .map(|k| {
                let seed = seed + 100 + k as u32;
                let lanes = self.inputs[k].lanes;
                let mixed = Fill::of(&[(Source::Pick { seed }, threads * lanes / 2), (Source::Sized { seed }, threads * lanes / 2)]);
                self.fills[k].clone().unwrap_or(mixed)
            })
            .collect();
        let columns = self.columns(threads, &fills);
        let mut kernel = self.kernel(format!("{}_shapes", self.name), format!("{} with other kinds of operands", self.about()));
        kernel = kernel.threads(threads);
        let mut body = String::from("and.b32 %r0, %i, 1;\nsetp.ne.u32 %p0, %r0, 0;\n");
        for ((ty, name), fill) in self.inputs.iter().zip(INPUT_NAMES).zip(fills) {
            kernel = kernel.buffer(name, *ty, threads, fill);
            body.push_str(&load(*ty, &format!("%val_{name}"), name));
        }
        for (k, ty) in self.inputs.iter().enumerate() {
            kernel = kernel.scalar(&format!("k{}", INPUT_NAMES[k]), *ty, self.constants[k][1]);
        }
        let mut variants: Vec<Variant> = Vec::new();
        for (k, ty) in self.inputs.iter().enumerate() {
            let fixed = |operand: String, bits: u64| Variant { operands: vec![(k, operand, bits)], guard: None };
            if immediates.contains(&k) {
                variants.extend(self.constants[k].map(|bits| fixed(ty.literal(bits), bits)));
            }
            variants.push(fixed(format!("%k{}", INPUT_NAMES[k]), self.constants[k][1]));
        }
        if immediates.len() == self.inputs.len() {
            let constant = |(k, ty): (usize, &Ty)| (k, ty.literal(self.constants[k][k & 1]), self.constants[k][k & 1]);
            variants.push(Variant { operands: self.inputs.iter().enumerate().map(constant).collect(), guard: None });
        }
        variants.push(Variant { operands: Vec::new(), guard: Some(true) });
        variants.push(Variant { operands: Vec::new(), guard: Some(false) });
        for (number, variant) in variants.iter().enumerate() {
            let name = format!("out{number}");
            body.push_str(&self.variant_text(variant));
            body.push_str(&store(output, "%res_d", &name));
            let values = (0..threads).flat_map(|row| self.variant_meaning(variant, &columns, row)).collect();
            kernel = kernel.output_near(&name, output, self.tolerance, values);
        }
        kernel.body(&body).finish()
    }

    fn variant_text(&self, variant: &Variant) -> String {
        let mut operands = self.in_registers();
        for (k, text, _) in &variant.operands {
            operands[*k].clone_from(text);
        }
        let instruction = self.instruction(&operands);
        match variant.guard {
            None => format!("{instruction}\n"),
            Some(sense) => {
                let zero = if self.outputs[0].register.starts_with('f') { self.outputs[0].literal(0) } else { "0".into() };
                let guard = if sense { "@%p0" } else { "@!%p0" };
                let guarded: Vec<String> = instruction.lines().map(|line| format!("{guard} {line}")).collect();
                format!("mov.{} %res_d, {zero};\n{}\n", self.outputs[0].register, guarded.join("\n"))
            }
        }
    }

    fn variant_meaning(&self, variant: &Variant, columns: &[Vec<u64>], row: usize) -> Vec<Expected> {
        if variant.guard.is_some_and(|sense| sense != (row & 1 == 1)) {
            return vec![Expected::Bits(0); self.outputs[0].lanes];
        }
        let mut inputs: Vec<u64> = columns.iter().map(|column| column[row]).collect();
        for (k, _, bits) in &variant.operands {
            inputs[*k] = *bits;
        }
        (self.meaning)(&inputs)
    }
}

/// Returns the default constants of a type.
fn typical_constants(ty: Ty) -> [u64; 2] {
    if ty.is_float() {
        let format = ty.format();
        [format.one() + format.one() / 64, format.one() | format.sign_bit()].map(|bits| ty.join(&vec![bits; ty.lanes]))
    } else {
        [0x1234_5678_9abc_def3 & ty.mask() >> 1, 5u64.wrapping_neg() & ty.mask()]
    }
}

struct Variant {
    /// Index, text and value of each operand that is not in a register.
    operands: Vec<(usize, String, u64)>,
    guard: Option<bool>,
}

/// Generates both tests of an instruction: [`Op::plain`] and [`Op::shapes`].
pub fn both(op: &Op, immediates: &[usize]) -> [Generated; 2] {
    [op.plain(), op.shapes(immediates)]
}
