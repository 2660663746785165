//! Tests operands that are constant expressions.

use oriole_ptx::ast::Operand;
use oriole_ptx::{Options, check};

/// Returns the operands of `instruction` in a kernel.
fn operands(instruction: &str) -> Vec<Operand> {
    let text =
        format!(".version 9.0\n.target sm_90a\n.address_size 64\n.entry k() {{ .reg .b32 %r; .reg .pred %p; {instruction} ret; }}\n");
    let checked = check(text.as_bytes(), &Options::default());
    assert!(checked.is_valid(), "{instruction}: {:?}", checked.diagnostics);
    let body = checked.module.functions.as_slice()[0].body.as_ref().unwrap();
    body.operands.to_vec()
}

/// The values are those in the code of ptxas 13.0.88.
#[test]
fn a_logical_negation_is_an_integer() {
    for (expression, value) in [
        ("!0", 1),
        ("!5", 0),
        ("!5+2", 2),
        ("!0+5", 6),
        ("!5==0", 1),
        ("!!7", 1),
        ("!-1", 0),
        ("!(3)", 0),
        ("!0*4", 4),
        ("!0?3:9", 3),
        ("-!0", -1),
    ] {
        assert_eq!(operands(&format!("mov.b32 %r, {expression};")), operands(&format!("mov.b32 %r, {value};")), "{expression}");
    }
    assert_eq!(operands("mov.b32 %r, !WARP_SZ;"), operands("mov.b32 %r, 0;"));
    assert_eq!(operands("mov.pred %p, !3;"), operands("mov.pred %p, 0;"));
    assert_ne!(operands("and.pred %p, %p, !%p;"), operands("and.pred %p, %p, %p;"));
}
