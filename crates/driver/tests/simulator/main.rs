//! Tests of the simulator and the verifiers on compiled code. They are in this package because they call the compiler, which is above the
//! simulator; they are one program because each program links the whole compiler.

#[path = "../../../sim/tests/support/faults.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod faults;
mod hazard_kernels;
mod hazard_mutants;
mod kernel_tests_sass;
mod kernels;
mod large_banks;
mod partial_masks;
mod verifier_faults;
mod verifier_mutants;
