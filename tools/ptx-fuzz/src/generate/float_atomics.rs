//! Generates atomic float additions by all threads, in any order.
//!
//! Float addition is not associative, so every sum must be exact. The cells start at zero, all addends are small integers, and
//! [`EXACT_UP_TO`] bounds the sum of the absolute values over all threads and executions. Therefore no order of additions rounds.

use super::{Context, Generator};
use crate::program::{Op, SHARED_CELLS};

/// Offset in bytes of the cells for floats.
const BASE: usize = SHARED_CELLS * 8;

/// Largest integers up to which f32, f64, f16 and bf16 represent all integers exactly.
pub const EXACT_UP_TO: [usize; 4] = [1 << 24, 1 << 53, 1 << 11, 1 << 8];

/// The format of a float addition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    F32,
    F64,
    F16,
    Bf16,
}

/// One form of atomic addition.
struct Form {
    kind: Kind,
    least_sm: u32,
    global_only: bool,
    /// Offsets in bytes from the first cell for floats.
    offsets: &'static [usize],
    /// The operation with its types.
    operation: &'static str,
    elements: usize,
}

const fn form(kind: Kind, least_sm: u32, global_only: bool, offsets: &'static [usize], operation: &'static str, elements: usize) -> Form {
    Form { kind, least_sm, global_only, offsets, operation, elements }
}

const FORMS: [Form; 11] = [
    form(Kind::F32, 75, false, &[0, 4, 8, 12], "add.f32", 1),
    form(Kind::F32, 75, false, &[0, 4, 8, 12], "add.f32", 1),
    form(Kind::F32, 90, true, &[0, 8], "add.v2.f32", 2),
    form(Kind::F32, 90, true, &[0], "add.v4.f32", 4),
    form(Kind::F64, 75, false, &[16, 24], "add.f64", 1),
    form(Kind::F16, 75, false, &[32, 36], "add.noftz.f16x2", 1),
    form(Kind::F16, 75, false, &[32, 34, 36, 38], "add.noftz.f16", 1),
    form(Kind::F16, 90, true, &[32], "add.noftz.v2.f16x2", 2),
    form(Kind::Bf16, 90, false, &[40, 44], "add.noftz.bf16x2", 1),
    form(Kind::Bf16, 90, false, &[40, 42, 44, 46], "add.noftz.bf16", 1),
    form(Kind::Bf16, 90, true, &[40], "add.noftz.v2.bf16x2", 2),
];

/// For additions of halves, one thread of this number adds a value other than zero.
const SPARSE: usize = 8;

impl Generator {
    /// Generates an addition on one of the cells for floats; `None` if the sums might not stay exact.
    pub(super) fn float_atomic(&mut self, cx: &Context) -> Option<Op> {
        let fitting: Vec<&Form> = FORMS.iter().filter(|form| form.least_sm <= self.sm).collect();
        let form = *self.rng.pick(&fitting);
        let executions = cx.executions * self.threads;
        let most = match form.kind {
            Kind::F32 | Kind::F64 => 4 * executions,
            Kind::F16 | Kind::Bf16 => executions.div_ceil(SPARSE) + cx.executions,
        };
        let left = &mut self.sums_left[form.kind as usize];
        *left = left.checked_sub(most)?;
        let shared = self.shared_cells && !form.global_only && self.rng.chance(50);
        let (base, space) = if shared { ("%scell", "shared") } else { ("%cells", "global") };
        let at = format!("[{base}+{}]", BASE + self.rng.pick(form.offsets));
        let (setup, value, register) = addend(form);
        let list = |name: &str| if form.elements == 1 { name.to_owned() } else { format!("<{}>", vec![name; form.elements].join(", ")) };
        let operation = form.operation;
        let text = if self.rng.chance(60) {
            format!("{setup}; red{{/.relaxed.gpu}}.{space}.{operation} {at}, {}", list(value))
        } else {
            // The old value differs between threads with the order of execution, so it is not observed.
            let results: Vec<String> = (0..form.elements).map(|number| format!("%tr{number}")).collect();
            let target = if form.elements == 1 { results[0].clone() } else { format!("<{}>", results.join(", ")) };
            let declared = format!(".reg .{register} {}", results.join(", "));
            format!("{setup}; {declared}; atom{{/.relaxed.gpu}}.{space}.{operation} {target}, {at}, {}", list(value))
        };
        Some(self.plain(&text))
    }
}

/// Returns instructions that compute a small integer as a float, the register that holds it, and the type of the register.
fn addend(form: &Form) -> (String, &'static str, &'static str) {
    let integer = ".reg .b32 %ta; and.b32 %ta, $r, 7; sub.u32 %ta, %ta, 3";
    // One or minus one in both halves in one thread of eight, and zero in the others.
    let ones = |bits: &str| {
        format!(
            ".reg .b32 %ta, %tb; .reg .pred %tp; and.b32 %ta, %gtid, {}; setp.eq.u32 %tp, %ta, #0..7; and.b32 %tb, $r, 0x80008000; or.b32 %tb, %tb, {bits}; selp.b32 %tb, %tb, 0, %tp",
            SPARSE - 1
        )
    };
    let halves = |bits: &str| {
        if form.operation.ends_with("x2") {
            (ones(bits), "%tb", "b32")
        } else {
            (format!("{}; .reg .b16 %th, %tl; mov.b32 <%tl, %th>, %tb", ones(bits)), "%th", "b16")
        }
    };
    match form.kind {
        Kind::F32 => (format!("{integer}; .reg .f32 %tv; cvt.rn.f32.s32 %tv, %ta"), "%tv", "f32"),
        Kind::F64 => (format!("{integer}; .reg .f64 %tv; cvt.rn.f64.s32 %tv, %ta"), "%tv", "f64"),
        Kind::F16 => halves("0x3C003C00"),
        Kind::Bf16 => halves("0x3F803F80"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_of_different_kinds_are_apart() {
        let width = |form: &Form| {
            let element = match form.operation {
                operation if operation.ends_with("f64") => 8,
                operation if operation.ends_with("f32") || operation.ends_with("x2") => 4,
                _ => 2,
            };
            form.elements * element
        };
        for one in &FORMS {
            for other in FORMS.iter().filter(|other| other.kind != one.kind) {
                for &at in one.offsets {
                    let overlaps = other.offsets.iter().any(|&start| start < at + width(one) && at < start + width(other));
                    assert!(!overlaps, "{} and {}", one.operation, other.operation);
                }
            }
        }
        assert!(FORMS.iter().all(|form| form.offsets.iter().all(|at| at + width(form) <= crate::program::FLOAT_CELLS * 8)));
    }
}
