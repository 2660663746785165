//! Generates tests of products of sparse matrices (`mma.sp`).
//!
//! A kernel loads the stored elements of A and the metadata, which say where in the row they are. The expected results come from the dense
//! matrix that they describe. All sums are exact, so that they depend on no order.

use oriole_kernel_test::{Fill, Source};

use crate::kernel::{Generated, Kernel, bits};
use crate::tensor::{
    BFLOAT, E4, E5, Element, FAMILY, Form, HALF, LANES, Matrix, Result, TENSOR_FLOAT, braces, form, integer, load_matrix, repeated,
    store_result,
};
use crate::ty::B32;

/// The pairs of positions that two stored elements of a group can have, in ascending order.
const POSITIONS: [[usize; 2]; 6] = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]];

/// A form of the instruction.
#[derive(Clone, Copy)]
struct Sparse {
    /// The product of the dense matrices.
    dense: Form,
    /// The threads of each quad that contribute metadata.
    selector: usize,
    /// Whether the positions in a group ascend.
    is_ordered: bool,
}

/// Threads of a quad that contribute metadata: one, two or all four.
fn contributors(form: Form) -> usize {
    let stored_bits = form.depth / 2 * form.a.size();
    match (form.a.size(), stored_bits) {
        (16.., 128) => 1,
        (16.., _) | (_, 128) => 2,
        _ => 4,
    }
}

impl Sparse {
    /// Returns the form of the stored elements of A.
    fn stored(self) -> Form {
        Form { depth: self.dense.depth / 2, ..self.dense }
    }

    /// Returns the positions of the two stored units of a group of four units: elements, pairs of 4-bit elements, halves of tf32.
    fn positions(self, row: usize, group: usize) -> [usize; 2] {
        let choice = 5 * row + 3 * group + row / 3;
        if self.dense.a.size() == 32 {
            return POSITIONS[5 * (choice % 2)];
        }
        let [first, second] = POSITIONS[choice % 6];
        if self.is_ordered || choice % 4 < 2 { [first, second] } else { [second, first] }
    }

    /// Returns the row and the group that four bits of the metadata of a thread describe; `None` if the thread does not contribute.
    ///
    /// With 16 bits or more per element, the lower half of a register describes row `quad` and the upper half row `quad + 8`, and further
    /// threads continue along the row. With fewer bits, a register describes one row, the next thread the row eight further.
    fn described(self, thread: usize, nibble: usize) -> Option<(usize, usize)> {
        let (quad, position) = (thread / 4, thread % 4);
        let count = contributors(self.dense);
        let number = position.checked_sub(count * self.selector % 4).filter(|&number| number < count)?;
        Some(if self.dense.a.size() >= 16 {
            (quad + 8 * (nibble / 4), 4 * number + nibble % 4)
        } else {
            (quad + 8 * (number % 2), 8 * (number / 2) + nibble)
        })
    }

    /// Returns the metadata register of a thread. Threads that do not contribute have arbitrary bits.
    fn metadata(self, thread: usize) -> u64 {
        (0..8).fold(0, |word, nibble| {
            let indices = match self.described(thread, nibble) {
                Some((row, group)) => self.positions(row, group),
                None => [thread % 4, nibble % 4],
            };
            word | ((indices[0] | (indices[1] << 2)) as u64) << (4 * nibble)
        })
    }

    /// Returns a dense row, given its stored elements.
    fn dense_row(self, row: usize, stored: &[u64]) -> Vec<u64> {
        let size = self.dense.a.size();
        let mut dense = vec![0; self.dense.depth];
        for (number, &element) in stored.iter().enumerate() {
            let column = match size {
                32 => 2 * number + self.positions(row, number)[0] / 2,
                4 => 8 * (number / 4) + 2 * self.positions(row, number / 4)[number % 4 / 2] + number % 2,
                _ => 4 * (number / 2) + self.positions(row, number / 2)[number % 2],
            };
            dense[column] = element;
        }
        dense
    }

    fn instruction(self) -> String {
        let variant = if self.is_ordered { "mma.sp::ordered_metadata." } else { "mma.sp." };
        self.dense.instruction().replacen("mma.", variant, 1)
    }

    fn name(self) -> String {
        let order = if self.is_ordered { "" } else { "_unordered" };
        let selector = if contributors(self.dense) == 4 { String::new() } else { format!("_{}", self.selector) };
        format!("{}{selector}{order}", self.dense.name().replacen("mma_", "mma_sp_", 1))
    }
}

fn test(sparse: Sparse, steps: usize) -> Generated {
    let (dense, stored) = (sparse.dense, sparse.stored());
    let [a_count, ..] = stored.registers();
    let [_, b_count, c_count] = dense.registers();
    let c_restriction = match dense.result {
        Result::Single => Some((0x80c0_0000, 0x3f00_0000)),
        Result::Half => HALF.restriction(),
        _ => None,
    };
    let a = Matrix::new(stored, 51, a_count, dense.a.restriction());
    let b = Matrix::new(dense, 52, b_count, dense.b.restriction());
    let c = Matrix::new(dense, 53, c_count, c_restriction);
    let metadata: Vec<u64> = (0..LANES).map(|thread| sparse.metadata(thread)).collect();
    let rows = stored.vectors(&a.values, dense.a, a_count, 2);
    let rows: Vec<Vec<u64>> = rows.iter().enumerate().map(|(row, stored)| sparse.dense_row(row, stored)).collect();
    let columns = dense.vectors(&b.values, dense.b, b_count, 1);
    let d = (0..steps).fold(c.values.clone(), |sum, _| dense.multiply_vectors(&rows, &columns, &sum));
    let (b_first, c_first) = (a_count, a_count + b_count);
    let c_names = braces(dense, c_first, c_count);
    let multiply = format!(
        "{} {c_names}, {}, {}, {c_names}, %r50, {};",
        sparse.instruction(),
        braces(dense, 0, a_count),
        braces(dense, b_first, b_count),
        sparse.selector
    );
    let name = if steps == 1 { sparse.name() } else { format!("{}_loop", sparse.name()) };
    let metadata = Fill::of(&metadata.iter().map(|&word| (Source::Value(word), 1)).collect::<Vec<_>>());
    Kernel::new(FAMILY, name, format!("{}, {steps} times", sparse.instruction()))
        .platform(dense.version, dense.target)
        .threads(LANES)
        .buffer("a", B32, LANES * a_count, a.fill.clone())
        .buffer("b", B32, LANES * b_count, b.fill.clone())
        .buffer("c", B32, LANES * c_count, c.fill.clone())
        .buffer("e", B32, LANES, metadata)
        .output("d", B32, bits(d))
        .body(&load_matrix(stored, &a, "a", 0, a_count))
        .body(&load_matrix(dense, &b, "b", b_first, b_count))
        .body(&load_matrix(dense, &c, "c", c_first, c_count))
        .body("mad.wide.u32 %at, %i, 4, %e;\nld.global.b32 %r50, [%at];")
        .body(&repeated(multiply, steps))
        .body(&store_result(dense, c_first, c_count))
        .finish()
}

/// Returns the dense forms: version and target are those of `mma.sp::ordered_metadata`, which is newer than `mma.sp`.
fn forms() -> Vec<Form> {
    const VERSION: &str = "8.5";
    let mut forms = Vec::new();
    for depth in [16, 32] {
        for result in [Result::Single, Result::Half] {
            forms.push(form(16, depth, HALF, HALF, result, VERSION, "sm_80"));
        }
        forms.push(form(16, depth, BFLOAT, BFLOAT, Result::Single, VERSION, "sm_80"));
        forms.push(form(16, depth / 2, TENSOR_FLOAT, TENSOR_FLOAT, Result::Single, VERSION, "sm_80"));
    }
    for (a, b) in [(E4, E4), (E4, E5), (E5, E4), (E5, E5)] {
        forms.push(form(16, 64, a, b, Result::Single, VERSION, "sm_89"));
    }
    let bytes: [Element; 2] = [integer("s8", 8, true), integer("u8", 8, false)];
    let nibbles: [Element; 2] = [integer("s4", 4, true), integer("u4", 4, false)];
    for (types, unit) in [(bytes, 32), (nibbles, 64)] {
        for (a, b) in types.into_iter().flat_map(|a| types.map(|b| (a, b))) {
            for (depth, clamps) in [(unit, false), (2 * unit, false), (unit, true), (2 * unit, true)] {
                forms.push(form(16, depth, a, b, Result::Integer { clamps }, VERSION, "sm_80"));
            }
        }
    }
    forms
}

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (number, dense) in forms().into_iter().enumerate() {
        let selectors = 4 / contributors(dense);
        for selector in 0..selectors {
            tests.push(test(Sparse { dense, selector, is_ordered: true }, 1));
        }
        // The indices of tf32 always ascend.
        if dense.a.size() != 32 {
            tests.push(test(Sparse { dense, selector: number % selectors, is_ordered: false }, 1));
        }
    }
    // Accumulators that live in a loop.
    let half = form(16, 32, HALF, HALF, Result::Single, "8.5", "sm_80");
    tests.push(test(Sparse { dense: half, selector: 1, is_ordered: true }, 3));
    tests
}
