//! Which label a branch in nested scopes means.

use oriole_ptx::ast::{LabelId, Operand, Statement};
use oriole_ptx::{Options, check};

/// Returns the labels in definitions and in operands, both in the order of the text.
fn labels(body: &str) -> (Vec<LabelId>, Vec<LabelId>) {
    let text = format!(".version 9.0\n.target sm_90\n.entry k() {{ {body} ret; }}");
    let checked = check(text.as_bytes(), &Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics);
    let body = checked.module.functions.as_slice()[0].body.as_ref().unwrap();
    let defined = body.statements.iter().filter_map(|statement| match statement {
        Statement::Label(label) => Some(*label),
        _ => None,
    });
    let used = body.operands.iter().filter_map(|operand| match operand {
        Operand::Label(label) => Some(*label),
        _ => None,
    });
    (defined.collect(), used.collect())
}

#[test]
fn uses_in_inner_scopes_mean_the_label_outside() {
    let (defined, used) = labels("{ bra M; { bra M; { bra M; A: } bra M; B: { bra M; } } bra M; } { bra M; } M: { bra M; }");
    let end = defined[2];
    assert_eq!(used, [end; 8]);
}

#[test]
fn the_innermost_label_wins() {
    let (defined, used) = labels("L: { bra L; L: } bra L; { { bra L; } L: { bra L; } }");
    assert_eq!(used, [defined[1], defined[0], defined[2], defined[2]]);
}
