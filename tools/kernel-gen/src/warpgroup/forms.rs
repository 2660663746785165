//! The forms of `wgmma` that are tested: types and sizes, layouts, sequences of products, and sparse matrices.

use oriole_sem::format::{E4M3, E5M2};
use oriole_sem::warpgroup::Major;

use super::{
    BFLOAT, BITS, Form, HALF, HALF_TO_HALF, Layout, PLAIN, SPECIAL, Sequence, Start, TENSOR_FLOAT, Types, eight_bit, form, integers,
};

/// Returns all forms. Some occur more than once.
pub(super) fn all() -> impl Iterator<Item = Form> {
    types().into_iter().chain(layouts()).chain(sequences()).chain(sparse())
}

/// Returns a K-major layout.
const fn k(row_bytes: usize) -> Layout {
    Layout { row_bytes, major: Major::K }
}

/// Returns an MN-major layout.
const fn mn(row_bytes: usize) -> Layout {
    Layout { row_bytes, major: Major::Mn }
}

/// Forms of each type, in several sizes.
fn types() -> Vec<Form> {
    let mut forms = Vec::new();
    for columns in [8, 24, 64, 256] {
        forms.push(form(HALF, columns, Some(PLAIN), PLAIN));
    }
    for columns in [8, 16, 128] {
        forms.push(form(HALF_TO_HALF, columns, Some(PLAIN), k(128)));
    }
    forms.push(form(SPECIAL, 16, Some(PLAIN), PLAIN));
    forms.push(form(BFLOAT, 32, Some(k(128)), k(128)));
    forms.push(form(TENSOR_FLOAT, 16, Some(k(64)), k(128)));
    for types in [
        eight_bit("f32.e4m3.e4m3", [E4M3, E4M3], true),
        eight_bit("f32.e5m2.e4m3", [E5M2, E4M3], true),
        eight_bit("f16.e4m3.e5m2", [E4M3, E5M2], false),
        eight_bit("f16.e5m2.e5m2", [E5M2, E5M2], false),
        integers("s32.s8.s8", [true, true], false),
        integers("s32.u8.s8", [false, true], true),
        integers("s32.s8.u8", [true, false], false),
        integers("s32.u8.u8", [false, false], true),
    ] {
        forms.push(form(types, 32, Some(k(32)), k(128)));
        forms.push(form(types, 16, None, k(64)));
    }
    forms.push(form(BITS, 16, Some(PLAIN), PLAIN));
    forms.push(form(BITS, 64, None, k(128)));
    for types in [HALF, HALF_TO_HALF, BFLOAT, TENSOR_FLOAT] {
        forms.push(form(types, 24, None, k(32)));
    }
    forms
}

/// Every layout of A and of B.
fn layouts() -> Vec<Form> {
    let mut forms = Vec::new();
    for row_bytes in [16, 32, 64, 128] {
        for layout in [k(row_bytes), mn(row_bytes)] {
            forms.push(form(HALF, 16, Some(layout), k(128)));
            forms.push(form(HALF, 64, Some(k(128)), layout));
        }
    }
    forms.push(form(BFLOAT, 128, Some(mn(64)), mn(32)));
    forms.push(form(BFLOAT, 96, None, mn(64)));
    forms
}

/// Scales, starts and sequences.
fn sequences() -> Vec<Form> {
    let plain = form(HALF, 32, Some(k(128)), k(128));
    let mut forms = Vec::new();
    for negated in [[true, false], [false, true], [true, true]] {
        forms.push(Form { negated, ..plain });
    }
    forms.push(Form { negated: [true, false], ..form(BFLOAT, 16, None, mn(128)) });
    forms.push(Form { negated: [true, false], ..form(HALF, 16, Some(mn(128)), mn(32)) });
    forms.push(Form { negated: [true, false], ..form(eight_bit("f32.e4m3.e4m3", [E4M3, E4M3], true), 16, Some(k(32)), k(32)) });
    forms.push(Form { negated: [false, true], ..form(TENSOR_FLOAT, 8, None, k(128)) });
    for start in [Start::Ignored, Start::Predicate(false), Start::Predicate(true)] {
        forms.push(Form { start, ..plain });
    }
    forms.push(Form { start: Start::Ignored, ..form(integers("s32.s8.s8", [true, true], false), 8, None, k(128)) });
    for sequence in [Sequence::Chained, Sequence::Loop, Sequence::Scaled, Sequence::Reset, Sequence::TwoGroups] {
        forms.push(Form { sequence, ..plain });
        forms.push(Form { sequence, ..form(HALF, 32, None, k(128)) });
    }
    forms.push(Form { sequence: Sequence::Chained, ..form(HALF, 256, Some(k(128)), k(128)) });
    forms.push(Form { sequence: Sequence::Loop, ..form(HALF, 128, Some(k(128)), k(128)) });
    forms.push(Form { sequence: Sequence::Loop, ..form(HALF, 256, Some(k(128)), k(128)) });
    forms.push(Form { sequence: Sequence::TwoGroups, ..form(HALF, 128, Some(k(128)), k(128)) });
    // 256 registers of accumulators: they do not fit into the registers of a thread.
    forms.push(Form { sequence: Sequence::TwoInLoop, ..form(HALF, 256, Some(k(128)), k(128)) });
    forms.push(Form { sequence: Sequence::TwoInLoop, ..form(HALF, 128, None, k(128)) });
    forms.push(Form { sequence: Sequence::TwoInBranch, ..form(HALF, 256, Some(k(128)), k(128)) });
    forms
}

/// Floats whose sums are exact, so that they depend on no order.
const EXACT_HALF: Types = Types { mask: 0x8600_8600, base: 0x3800_3800, ..HALF };
const EXACT_HALF_TO_HALF: Types = Types { mask: 0x8600_8600, base: 0x3800_3800, ..HALF_TO_HALF };
const EXACT_BFLOAT: Types = Types { mask: 0x80c0_80c0, base: 0x3f00_3f00, ..BFLOAT };
const EXACT_TENSOR_FLOAT: Types = Types { mask: 0x80c0_1fff, base: 0x3f00_0000, ..TENSOR_FLOAT };

/// Sparse matrices A: every type, layout and selector.
fn sparse() -> Vec<Form> {
    let mut forms = Vec::new();
    let mut push = |form: Form, selector: usize| forms.push(Form { selector: Some(selector), ..form });
    for types in [EXACT_HALF, EXACT_HALF_TO_HALF, EXACT_BFLOAT, EXACT_TENSOR_FLOAT] {
        for selector in [0, 1] {
            push(Form { start: Start::Ignored, ..form(types, 16, Some(PLAIN), PLAIN) }, selector);
            push(Form { start: Start::Ignored, ..form(types, 32, None, k(128)) }, selector);
        }
    }
    for (name, formats, is_single) in
        [("f32.e4m3.e4m3", [E4M3, E4M3], true), ("f32.e5m2.e4m3", [E5M2, E4M3], true), ("f16.e4m3.e5m2", [E4M3, E5M2], false)]
    {
        let types = Types { mask: 0x8484_8484, base: 0x3838_3838, ..eight_bit(name, formats, is_single) };
        push(Form { start: Start::Ignored, ..form(types, 16, Some(k(32)), k(64)) }, 0);
        push(Form { start: Start::Ignored, ..form(types, 24, None, k(128)) }, 0);
    }
    for (name, signs, clamps) in [
        ("s32.s8.s8", [true, true], false),
        ("s32.u8.s8", [false, true], true),
        ("s32.s8.u8", [true, false], false),
        ("s32.u8.u8", [false, false], true),
    ] {
        push(form(integers(name, signs, clamps), 32, Some(PLAIN), k(64)), 0);
        push(form(integers(name, signs, clamps), 16, None, PLAIN), 0);
    }
    // Layouts.
    for (a, b) in [(mn(128), k(64)), (k(64), mn(64)), (mn(16), mn(32))] {
        push(Form { start: Start::Ignored, ..form(EXACT_HALF, 64, Some(a), b) }, 1);
    }
    let chained = Form { start: Start::Ignored, sequence: Sequence::Chained, ..form(EXACT_HALF, 32, Some(k(128)), k(128)) };
    push(chained, 0);
    push(Form { negated: [true, false], ..chained }, 1);
    forms
}
