//! Kernel tests: PTX files whose comment header specifies a launch and the expected results.
//!
//! The grammar of the header is in `docs/kernel-tests.md`. This crate parses it ([`parse`]), writes it ([`KernelTest::header`]), generates
//! the inputs ([`fill`]) and compares the outputs ([`Expectation::compare`]). It launches nothing: a GPU harness, an interpreter and a
//! simulator all run the same [`KernelTest`].

mod compare;
mod element;
pub mod fill;
mod image;
mod tensor_map;
mod text;

pub use compare::{Difference, WrongElement};
pub use element::Element;
pub use fill::{Fill, Segment, Source};
pub use image::{AddressMode, Arrangement, FACES, Image, Sampler};
pub use tensor_map::{Conversion, Region, TensorMap};
pub use text::{FIRST_LINE, parse};

/// A kernel launch and its expected results.
#[derive(Clone, Debug, PartialEq)]
pub struct KernelTest {
    pub kernel: String,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Number of blocks of a cluster along x, y, z, if the launch specifies it.
    pub cluster: Option<[u32; 3]>,
    /// Size of dynamic shared memory in bytes.
    pub shared_bytes: u32,
    /// The arguments, in the order of the kernel's parameters.
    pub parameters: Vec<Parameter>,
    /// What the texture, sampler and surface references of the module refer to.
    pub references: Vec<Reference>,
    pub expectations: Vec<Expectation>,
}

/// A reference of the module (`.texref`, `.samplerref` or `.surfref`), by its name, and what is bound to it before the launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Reference {
    pub name: String,
    pub value: ReferenceValue,
}

/// What a reference refers to.
#[derive(Clone, Debug, PartialEq)]
pub enum ReferenceValue {
    Image(Image),
    Sampler(Sampler),
}

/// An argument of the launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    pub name: String,
    pub value: ParameterValue,
}

/// The value of an argument.
#[derive(Clone, Debug, PartialEq)]
pub enum ParameterValue {
    /// A pointer to a buffer that is allocated for this argument.
    Buffer {
        element: Element,
        count: usize,
        fill: Fill,
    },
    Scalar {
        element: Element,
        bits: u64,
    },
    /// A parameter passed by value that is not a scalar, such as a structure.
    Bytes(Vec<u8>),
    /// The 64-bit handle of a texture or surface that is created for this argument.
    Image(Image),
    /// The 64-bit handle of a sampler.
    Sampler(Sampler),
    /// A tensor map of a buffer, passed by value.
    TensorMap(TensorMap),
}

/// The expected contents of a buffer after the launch.
#[derive(Clone, Debug, PartialEq)]
pub struct Expectation {
    pub parameter: String,
    pub tolerance: Tolerance,
    pub values: Vec<Expected>,
}

/// How exactly the expected values must be met.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    Exact,
    /// Accepted if close by at least one measure: units in the last place, absolute error, or error relative to the expected value.
    Near {
        ulp: u64,
        absolute: f64,
        relative: f64,
    },
    /// The same elements in any order.
    AnyOrder,
}

/// The expected value of an element.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Expected {
    Bits(u64),
    /// One of two values.
    Either(u64, u64),
    /// Any NaN.
    Nan,
    /// Not specified: any value is accepted.
    Any,
    /// The value that the PTX interpreter computes; must be replaced by it before outputs are compared ([`Expectation::resolve`]).
    Interpreter,
}

impl KernelTest {
    /// Returns the bytes of a buffer before the launch.
    pub fn initial_bytes(element: Element, count: usize, fill: &Fill) -> Vec<u8> {
        let values = fill.values(element, count);
        values.iter().flat_map(|bits| bits.to_le_bytes().into_iter().take(element.bytes())).collect()
    }

    /// Returns the element type and the number of elements of a buffer, texture or surface.
    pub fn buffer(&self, name: &str) -> Option<(Element, usize)> {
        let of_parameter = self.parameters.iter().find(|parameter| parameter.name == name).and_then(|parameter| match parameter.value {
            ParameterValue::Buffer { element, count, .. } => Some((element, count)),
            ParameterValue::Image(ref image) => Some((image.element, image.count())),
            _ => None,
        });
        let of_reference = || self.references.iter().find(|reference| reference.name == name);
        of_parameter.or_else(|| match of_reference()?.value {
            ReferenceValue::Image(ref image) => Some((image.element, image.count())),
            ReferenceValue::Sampler(_) => None,
        })
    }

    /// Returns whether the interpreter must run before outputs can be compared.
    pub fn needs_interpreter(&self) -> bool {
        self.expectations.iter().any(|expectation| expectation.values.contains(&Expected::Interpreter))
    }
}
