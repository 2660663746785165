//! Names in scopes: plain names, ranges such as `%r<5>`, and labels. The verdicts are those of ptxas 13.0.88.

use oriole_ptx::diag::DiagnosticCode;
use oriole_ptx::{Options, check};

/// Returns the code of the first finding about the body of a kernel; `None` if there is none.
fn finding(body: &str) -> Option<DiagnosticCode> {
    let text = format!(".version 9.0\n.target sm_90a\n.address_size 64\n.entry k()\n{{\n{body}\nret;\n}}\n");
    check(text.as_bytes(), &Options::default()).diagnostics.first().map(|finding| finding.code)
}

/// Names with one meaning have another type than those with the other meaning, so that types tell which one was found.
const WRONG_TYPE: Option<DiagnosticCode> = Some(DiagnosticCode::OperandType);
const DUPLICATE: Option<DiagnosticCode> = Some(DiagnosticCode::DuplicateName);
const UNKNOWN: Option<DiagnosticCode> = Some(DiagnosticCode::UnknownName);

#[test]
fn inner_scopes_shadow_and_restore() {
    assert_eq!(finding(".reg .b32 a; { .reg .pred a; setp.eq.u32 a, 1, 2; } mov.b32 a, 1;"), None);
    assert_eq!(finding(".reg .b32 a; { .reg .pred a; mov.b32 a, 1; }"), WRONG_TYPE);
    assert_eq!(finding(".reg .b32 a; { .reg .pred a; } setp.eq.u32 a, 1, 2;"), WRONG_TYPE);
    assert_eq!(finding(".reg .b32 a; { .reg .b32 a; .reg .b32 a; }"), DUPLICATE);
}

#[test]
fn ranges_have_members_and_clash_with_plain_names() {
    assert_eq!(finding(".reg .b32 %q<5>; mov.b32 %q3, 1;"), None);
    assert_eq!(finding(".reg .b32 %q<5>; mov.b32 %q5, 1;"), UNKNOWN);
    assert_eq!(finding(".reg .b32 %q<5>; .reg .b32 %q4;"), DUPLICATE);
    assert_eq!(finding(".reg .b32 %q<5>; .reg .pred %q9; mov.b32 %q3, 1; mov.b32 %q4, 2; setp.eq.u32 %q9, 1, 2;"), None);
    assert_eq!(finding("{ .reg .b32 %q<5>; } mov.b32 %q4, 1;"), UNKNOWN);
}

#[test]
fn a_range_clashes_with_a_plain_name_of_its_scope_only() {
    assert_eq!(finding(".reg .b32 a5; .reg .b32 a<6>;"), DUPLICATE);
    assert_eq!(finding(".reg .b32 a5; { .reg .pred a<6>; setp.eq.u32 a5, 1, 2; } mov.b32 a5, 1;"), None);
    assert_eq!(finding(".reg .b32 a5; { .reg .pred a<6>; } .reg .pred a<5>; mov.b32 a5, 1; setp.eq.u32 a4, 1, 2;"), None);
}

#[test]
fn a_short_range_hides_part_of_a_longer_one() {
    let inner = ".reg .b64 a<6>; mov.b64 a3, 1; mov.b64 a5, 1; mov.b32 a7, 1;";
    let middle = "setp.eq.u32 a3, 1, 2; mov.b32 a7, 1; mov.b32 a5, 1;";
    assert_eq!(finding(&format!(".reg .b32 a<10>; {{ .reg .pred a<5>; {{ {inner} }} {middle} }} mov.b32 a3, 1;")), None);
    assert_eq!(finding(".reg .b32 a<10>; { .reg .pred a<5>; mov.b32 a4, 1; }"), WRONG_TYPE);
}

#[test]
fn labels_hide_what_is_outside() {
    assert_eq!(finding(".reg .b32 x; { x: mov.b32 x, 1; }"), UNKNOWN);
    assert_eq!(finding(".reg .b32 x; { x: bra x; } mov.b32 x, 1;"), None);
    assert_eq!(finding(".reg .b32 %q<5>; { %q1: mov.b32 %q1, 1; }"), UNKNOWN);
    assert_eq!(finding(".reg .b32 %q<5>; { %q1: bra %q1; } mov.b32 %q1, 1;"), None);
    assert_eq!(finding(".reg .b32 %q<5>; %q1: mov.b32 %q1, 1;"), None, "a register of the same scope stays");
}
