//! Reference semantics of operations: bits in, bits out.
//!
//! All results are computed from first principles with wide integers. A floating-point number is decoded into sign, exponent and
//! significand ([`exact`]), the operation is performed without loss on 128-bit integers ([`float`]), and one function rounds the result to
//! a [`Format`]. No native float arithmetic is involved (except in [`approx`]), so every rounding mode, format and flag (`.ftz`, `.sat`,
//! `.relu`, `.satfinite`) uses the same code.
//!
//! Values are `u64` with the bits right-aligned. Unused upper bits are zero in results and ignored in operands.
//!
//! NaN: the PTX manual specifies the canonical NaN `0x7fffffff` for f32 results and `0x7fff` for f16 and bf16 results. For f64 it
//! specifies no payload: [`Format::canonical_nan`] is `0x7ff8000000000000`, and comparisons of f64 results should accept any NaN.

pub mod approx;
pub mod bits;
pub mod compare;
pub mod convert;
pub mod exact;
pub mod float;
pub mod format;
pub mod int;
pub mod sparse;
pub mod tensor;
pub mod video;
pub mod warp;
pub mod warpgroup;

pub use compare::Comparison;
pub use float::Mode;
pub use format::{Format, Rounding};
pub use int::Int;
