//! The meaning of operations: bits in, bits out.
//!
//! Everything here is computed from first principles with wide integers. A floating-point number is taken apart into
//! sign, exponent and significand ([`exact`]), the operation is done without loss on 128-bit integers ([`float`]), and one
//! function rounds the outcome into a [`Format`]. No native float arithmetic decides a result, so every rounding mode,
//! every format and every flag (`.ftz`, `.sat`, `.relu`, `.satfinite`) follows the same path.
//!
//! Values travel as `u64` with the bits right-aligned; unused upper bits are zero in results and ignored in operands.
//!
//! NaN. The manual promises the canonical NaN `0x7fffffff` for f32 results and `0x7fff` for f16 and bf16 results. For f64
//! it promises no payload: [`Format::canonical_nan`] gives `0x7ff8000000000000`, and whoever compares f64 results should
//! accept any NaN.

pub mod approx;
pub mod bits;
pub mod compare;
pub mod convert;
pub mod exact;
pub mod float;
pub mod format;
pub mod int;
pub mod warp;

pub use compare::Comparison;
pub use float::Mode;
pub use format::{Format, Rounding};
pub use int::Int;
