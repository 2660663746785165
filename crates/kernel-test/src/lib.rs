//! Kernel tests: one PTX file whose comment header says how to run it and what must come out.
//!
//! The header's grammar is in `docs/kernel-tests.md`. This crate reads it ([`parse`]), writes it ([`KernelTest::header`]),
//! makes the inputs ([`fill`]) and judges the outputs ([`Expectation::compare`]). It launches nothing: a GPU harness, an
//! interpreter and a simulator all run the same [`KernelTest`].

mod compare;
mod element;
pub mod fill;
mod text;

pub use compare::{Difference, WrongElement};
pub use element::Element;
pub use fill::{Fill, Segment, Source};
pub use text::{FIRST_LINE, parse};

/// A launch and its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTest {
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Dynamic shared memory.
    pub shared_bytes: u32,
    /// In the order of the kernel's parameters.
    pub parameters: Vec<Parameter>,
    pub expectations: Vec<Expectation>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub value: Value,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// A pointer to memory of its own.
    Buffer {
        element: Element,
        count: usize,
        fill: Fill,
    },
    Scalar {
        element: Element,
        bits: u64,
    },
    /// A parameter passed by value, such as a structure.
    Bytes(Vec<u8>),
}

/// What a buffer must hold after the launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    pub parameter: String,
    pub tolerance: Tolerance,
    pub values: Vec<Expected>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    Exact,
    /// Right if close by any measure: units in the last place, absolutely, or relative to the expected value.
    Near {
        ulp: u64,
        absolute: f64,
        relative: f64,
    },
    /// The same elements in any order.
    AnyOrder,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    Bits(u64),
    /// One of two values.
    Either(u64, u64),
    /// Any NaN.
    Nan,
    /// Not specified.
    Any,
    /// What the PTX interpreter computes; to be replaced by that before outputs are judged ([`Expectation::resolve`]).
    Interpreter,
}

impl KernelTest {
    /// The bytes of a buffer before the launch.
    pub fn initial_bytes(element: Element, count: usize, fill: &Fill) -> Vec<u8> {
        let values = fill.values(element, count);
        values.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(element.bytes())).collect()
    }

    pub fn buffer(&self, name: &str) -> Option<(Element, usize)> {
        self.parameters.iter().find(|parameter| parameter.name == name).and_then(|parameter| match parameter.value {
            Value::Buffer { element, count, .. } => Some((element, count)),
            _ => None,
        })
    }

    /// Whether the interpreter must be asked before outputs can be judged.
    pub fn needs_interpreter(&self) -> bool {
        self.expectations.iter().any(|expectation| expectation.values.contains(&Expected::Interpreter))
    }
}
