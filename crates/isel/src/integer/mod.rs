//! Integer arithmetic.
//!
//! 16-bit numbers are computed with 32-bit instructions and extended first if the result depends on the upper half. 64-bit numbers are
//! pairs of words ([`crate::words`]).

mod add;
mod carry;
mod divide;
mod magic;
mod minmax;
mod multiply;

pub(crate) use add::{absolute, add, difference_sum, negate, subtract};
pub(crate) use carry::{add_carrying, multiply_add_carrying};
pub(crate) use divide::divide;
pub(crate) use minmax::{Packing, min_max, smaller_or_greater};
pub(crate) use multiply::{dot_product, multiply, multiply_24, multiply_add, multiply_add_24};
