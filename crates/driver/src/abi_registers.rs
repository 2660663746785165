//! The general registers to which the calling convention gives a fixed role in every function.

/// Number of the general register that holds the stack pointer.
pub const STACK_POINTER_REGISTER: u8 = 1;
