//! Checks that invalid tables are rejected with file, line and reason.

use oriole_isa_table::{Table, check, generate, parse_properties, parse_widths};

const PROPERTIES: &str = "FOO | R | none | none | alu | fixed |\n";

/// Runs all steps of the build on a table.
fn build(table_text: &str, properties_text: &str) -> Result<String, String> {
    build_with_widths(table_text, properties_text, "")
}

fn build_with_widths(table_text: &str, properties_text: &str, widths_text: &str) -> Result<String, String> {
    let mut table = Table::default();
    table.parse("foo.sass", table_text).map_err(|error| error.to_string())?;
    check(&table).map_err(|error| error.to_string())?;
    let properties = parse_properties("foo.tbl", properties_text).map_err(|error| error.to_string())?;
    let widths = parse_widths("widths.tbl", widths_text).map_err(|error| error.to_string())?;
    generate(&table, &properties, &widths)
}

/// Asserts that a table is rejected with a message that starts with a position followed by a reason.
#[track_caller]
fn refused(table_text: &str, place: &str, reason: &str) {
    expect_error(build(table_text, PROPERTIES), place, reason);
}

#[track_caller]
fn expect_error(built: Result<String, String>, place: &str, reason: &str) {
    let message = built.expect_err("refused");
    assert_eq!(message, format!("{place}: {reason}"));
}

/// Returns a table with one instruction that has one form.
fn form(line: &str, template: &str) -> String {
    format!("FOO\n  {line}\n    {template}\n")
}

#[test]
fn correct_table_is_built() {
    build(&form("form 221 on 75..121 fix 91=0 with 81:3=7", " R(16), R(24).reuse(122)"), PROPERTIES).expect("built");
}

#[test]
fn overlapping_operands() {
    refused(&form("form 221 on 75", " R(16), R(23)"), "foo.sass:2", "FOO: bit 23 has two meanings");
    refused(&form("form 221 on 75", " R(16), UR(16:6)"), "foo.sass:2", "FOO: bit 16 has two meanings");
}

#[test]
fn operand_over_fixed_bit() {
    refused(&form("form 221 on 75 fix 30=1", " R(24)"), "foo.sass:2", "FOO: bit 30 has two meanings");
}

#[test]
fn sign_over_operand() {
    refused(&form("form 221 on 75", " -(24)R(24)"), "foo.sass:2", "FOO: bit 24 has two meanings");
}

#[test]
fn modifier_over_operand() {
    refused(&form("form 221 on 75", ".SAT(31) R(24)"), "foo.sass:2", "FOO: bit 31 has two meanings");
}

#[test]
fn field_that_overlaps_a_register_in_part() {
    let text = "FOO\n  field a 22:3 - .A .B .C .D .E .F .G\n  form 221 on 75\n    {a} R(16)\n";
    refused(text, "foo.sass:3", "FOO: bit 22 has two meanings");
}

#[test]
fn fixed_bits_that_overlap() {
    refused(&form("form 221 on 75 fix 80:2=1 81=1", " R(16)"), "foo.sass:2", "FOO: bit 81 has two meanings");
}

#[test]
fn bit_twice_in_one_number() {
    refused(&form("form 221 on 75", " u(32:8+36:8)"), "foo.sass:3", "a bit twice in 32:8+36:8");
}

#[test]
fn bits_of_the_opcode() {
    refused(&form("form 221 on 75", " R(8)"), "foo.sass:2", "FOO: bits 0xff00 belong to the opcode, guard or control");
}

#[test]
fn bits_of_the_guard() {
    refused(&form("form 221 on 75", " P(12)"), "foo.sass:2", "FOO: bits 0x7000 belong to the opcode, guard or control");
    build(&form("form 221 on 75 guard none", " P(12)"), PROPERTIES).expect("a form without guard has the bits for itself");
}

#[test]
fn bits_of_the_control_word() {
    refused(
        &form("form 221 on 75 fix 105=1", " R(16)"),
        "foo.sass:2",
        "FOO: bits 0x200000000000000000000000000 belong to the opcode, guard or control",
    );
}

#[test]
fn reuse_bits_for_something_else() {
    let reason = "FOO: bits 0x4000000000000000000000000000000 belong to the opcode, guard or control";
    refused(&form("form 221 on 75", ".SAT(122) R(16)"), "foo.sass:2", reason);
}

#[test]
fn default_for_bits_in_use() {
    refused(&form("form 221 on 75 with 24:8=255", " R(24)"), "foo.sass:2", "FOO: a default for bit 24, which is not free");
    refused(&form("form 221 on 75 fix 91=1 with 90:2=3", " R(24)"), "foo.sass:2", "FOO: a default for bit 91, which is not free");
    refused(&form("form 221 on 75 with 105=1", " R(24)"), "foo.sass:2", "FOO: a default for bit 105, which is not free");
    refused(&form("form 221 on 75 with 80:2=3 81=1", " R(24)"), "foo.sass:2", "FOO: a default for bit 81, which is not free");
}

#[test]
fn two_forms_for_one_word() {
    let text = "FOO\n  form 221 on 75..89\n     R(16)\n  form 221 on 86..121\n     R(24)\n";
    refused(text, "foo.sass:4", "FOO and FOO (foo.sass:2) decode the same word on sm_86");
}

#[test]
fn two_instructions_for_one_word() {
    let text = "FOO\n  form 221 on 90 fix 91=0\n     R(16)\nBAR\n  form 221 on 90 fix 92=1\n     R(24)\n";
    refused(text, "foo.sass:5", "BAR and FOO (foo.sass:2) decode the same word on sm_90");
}

#[test]
fn same_opcode_told_apart_is_no_contradiction() {
    let by_bit = "FOO\n  form 221 on 90 fix 91=0\n     R(16)\n  form 221 on 90 fix 91=1\n     R(24)\n";
    build(by_bit, PROPERTIES).expect("a fixed bit tells them apart");
    let by_target = "FOO\n  form 221 on 75..89\n     R(16)\n  form 221 on 90..121\n     R(24)\n";
    build(by_target, PROPERTIES).expect("no target has both");
    let excluded = |value: u32| format!("FOO\n  form 221 on 90 fix 81:3=7\n     R(16)\n  form 221 on 90 not 81:3={value}\n     R(24)\n");
    build(&excluded(7), PROPERTIES).expect("one form excludes what the other requires");
    refused(&excluded(6), "foo.sass:4", "FOO and FOO (foo.sass:2) decode the same word on sm_90");
}

#[test]
fn field_that_no_form_uses() {
    refused("FOO\n  field a 72 - .A\n  form 221 on 75\n     R(16)\n", "foo.sass:1", "FOO: field a is not used by any form");
}

#[test]
fn field_without_a_value() {
    refused("FOO\n  field a 72 ? ?\n  form 221 on 75\n    {a} R(16)\n", "foo.sass:1", "FOO: field a has no value");
}

#[test]
fn field_with_more_values_than_room() {
    refused("FOO\n  field a 72 - .A .B\n", "foo.sass:2", "field a has 3 values but room for 2");
}

#[test]
fn sparse_value_outside_its_bits() {
    refused("FOO\n  field a 72:8 0=SR_A 256=SR_B\n", "foo.sass:2", "value outside its bits in 256=SR_B");
    refused("FOO\n  field a 72:8 99999999999999999999=SR_B\n", "foo.sass:2", "value outside its bits in 99999999999999999999=SR_B");
}

#[test]
fn field_lines_that_are_incomplete_or_too_wide() {
    refused("FOO\n  field\n", "foo.sass:2", "field without name");
    refused("FOO\n  field a\n", "foo.sass:2", "field without bits");
    refused("FOO\n  field a 72:17 - .A\n", "foo.sass:2", "field a has more than 16 bits");
}

#[test]
fn fixed_value_outside_its_bits() {
    refused(&form("form 221 on 75 fix 91=2", " R(16)"), "foo.sass:2", "value outside its bits in 91=2");
    refused(&form("form 221 on 75 with 81:3=0x8", " R(16)"), "foo.sass:2", "value outside its bits in 81:3=0x8");
    refused(&form("form 221 on 75 fix 91=x", " R(16)"), "foo.sass:2", "bad value in 91=x");
}

#[test]
fn bits_outside_the_instruction() {
    refused(&form("form 221 on 75", " R(121)"), "foo.sass:3", "bits 121 do not fit into an instruction");
    refused(&form("form 221 on 75", " u(120:9)"), "foo.sass:3", "bits 120:9 do not fit into an instruction");
    refused(&form("form 221 on 75", " u(24:65)"), "foo.sass:3", "bits 24:65 do not fit into an instruction");
    refused(&form("form 221 on 75", " u(24:0)"), "foo.sass:3", "bits 24:0 do not fit into an instruction");
    refused(&form("form 221 on 75", ".SAT(128) R(16)"), "foo.sass:3", "bad bit 128");
    refused(&form("form 221 on 75", " u(16:40+60:40)"), "foo.sass:3", "more than 64 bits in 16:40+60:40");
    refused(&form("form 221 on 75", " u(16+18+20+22+24)"), "foo.sass:3", "more than 4 runs in 16+18+20+22+24");
}

#[test]
fn targets_missing_or_unknown() {
    refused(&form("form 221", " R(16)"), "foo.sass:2", "form without targets");
    refused(&form("form 221 on", " R(16)"), "foo.sass:2", "`on` without targets");
    refused(&form("form 221 on 71", " R(16)"), "foo.sass:2", "unknown target 71");
    refused(&form("form 221 on 75..91", " R(16)"), "foo.sass:2", "unknown target 91");
    refused(&form("form 221 on sm_75", " R(16)"), "foo.sass:2", "bad target sm_75");
    refused(&form("form 221 on 89..80", " R(16)"), "foo.sass:2", "form without targets");
}

#[test]
fn form_lines_with_other_faults() {
    refused(&form("form on 75", " R(16)"), "foo.sass:2", "form without opcode");
    refused(&form("form 1000 on 75", " R(16)"), "foo.sass:2", "form without opcode");
    refused(&form("form 221 on 75 guard P", " R(16)"), "foo.sass:2", "guard is UP or none");
    refused(&form("form 221 on 75 never", " R(16)"), "foo.sass:2", "never is R, W or RW");
    refused(&form("form 221 on 75 plus 91=0", " R(16)"), "foo.sass:2", "unexpected plus");
}

#[test]
fn template_missing() {
    refused("FOO\n  form 221 on 75\n", "foo.sass:2", "form without template");
    refused("FOO\n  form 221 on 75\n\nBAR\n", "foo.sass:2", "form without template");
    refused("FOO\n  form 221 on 75\nBAR\n", "foo.sass:2", "form without template");
    refused("FOO\n  form 221 on 75\n  form 222 on 75\n    R(16)\n", "foo.sass:2", "form without template");
}

#[test]
fn template_garbage() {
    let template = |text: &str, reason: &str| refused(&form("form 221 on 75", text), "foo.sass:3", reason);
    template("{ftz} R(16)", "unknown field ftz");
    template(" R(16), {sr}", "unknown field sr");
    template("{ftz R(16)", "`}` missing after `ftz R(16)`");
    template(" R(16) R(24)", "cannot read the template from ` R(24)`");
    template(" R(16),R(24)", "cannot read the template from `,R(24)`");
    template(" R(16), ", "cannot read the template from `,`");
    template(" R(16", "`)` missing after `16`");
    template(" R(x)", "bad bit in x");
    template(" q(16)", "unknown operand kind `q`");
    template(" UR(16)", "width missing in (16)");
    template(" |(73)R(24)", "`|` expected at ``");
    template(" -(x)R(24)", "bad bit x");
    template(" [R(24)s(32:24)]", "`+` expected at `s(32:24)]`");
    template(" [R(24)", "`+` expected at ``");
    template(" gsb0?", "only registers are optional without a value");
    template(" R(24)?x", "bad default x");
    template(" UR(24:6@x)", "bad bias in 24:6@x");
    template(" u(32:8)*x", "bad scale before ``");
}

#[test]
fn lines_outside_of_everything() {
    refused("  field a 72 - .A\n", "foo.sass:1", "line outside an instruction");
    refused("FOO\n  fields a 72 - .A\n", "foo.sass:2", "unknown line fields");
}

#[test]
fn mnemonic_twice() {
    let text = "FOO\n  form 221 on 75\n     R(16)\n\nFOO\n  form 222 on 75\n     R(16)\n";
    refused(text, "foo.sass:5", "FOO is described twice, also in foo.sass:1");
}

#[test]
fn mnemonic_without_properties() {
    let text = "FOO\n  form 221 on 75\n     R(16)\nBAR\n  form 222 on 75\n     R(16)\n";
    refused(text, "foo.sass:4", "no properties for BAR");
}

#[test]
fn properties_without_forms() {
    let table = form("form 221 on 75", " R(16)");
    let properties = format!("# a comment\n{PROPERTIES}BAR | | none | none | alu | fixed |\n");
    expect_error(build(&table, &properties), "foo.tbl:3", "properties for BAR, which has no form");
}

#[test]
fn properties_with_faults() {
    let table = form("form 221 on 75", " R(16)");
    let line = |text: &str, reason: &str| expect_error(build(&table, text), "foo.tbl:1", reason);
    line("FOO | R | none | none | alu | fixed", "seven columns expected, 6 found");
    line("FOO | X | none | none | alu | fixed |", "`X` is none of R, UR, P, UP, B, SB");
    line("FOO | R/X | none | none | alu | fixed |", "`X` is none of R, UR, P, UP, B, SB");
    line("FOO | (P | none | none | alu | fixed |", "`(P` is none of R, UR, P, UP, B, SB");
    line(
        "FOO | R | writes | none | alu | fixed |",
        "`writes` is none of none, read, write, update, control, barrier, fence, lanes, state, other",
    );
    line(
        "FOO | R | none | ram | alu | fixed |",
        "`ram` is none of none, generic, global, shared, local, constant, texture, surface, tensor, attribute",
    );
    line(
        "FOO | R | none | none | fp32 | fixed |",
        "`fp32` is none of alu, fma, half, double, xu, lsu, tex, tensor, uniform, branch, async, none",
    );
    line("FOO | R | none | none | alu | slow |", "`slow` is none of fixed, variable, fixed on TARGETS");
    line("FOO | R | none | none | alu | fixed on 91 |", "unknown target 91");
    line("FOO | R | none | none | alu | fixed | 1", "operand numbers of the last column come in pairs");
    line("FOO | R | none | none | alu | fixed | a b", "bad operand numbers in the last column");
}

#[test]
fn properties_twice() {
    let table = form("form 221 on 75", " R(16)");
    expect_error(build(&table, &PROPERTIES.repeat(2)), "foo.tbl:2", "FOO is described twice");
}

#[test]
fn widths_with_faults() {
    let table = form("form 221 on 75", ".X R(16)");
    let line = |text: &str, reason: &str| expect_error(build_with_widths(&table, PROPERTIES, text), "widths.tbl:1", reason);
    line("FOO | .X", "three columns expected, 2 found");
    line("FOO | .X |", "a line that says nothing");
    line("BAR | | d0=2", "BAR has no form");
    line("FOO | .Y | d0=2", "no form has `.Y`");
    line("FOO | !2D | d0=2", "`!2D`: only modifiers can be excluded");
    line("FOO | | d0", "`d0` is none of ROLE=WIDTH, ROLE+NUMBER, ROLE:r, ROLE:w");
    line("FOO | | x0=2", "`x0` is no role");
    line("FOO | | d0=many", "`many` is no width");
    line("FOO | | d0:x", "`x` after a colon is neither r nor w");
    assert!(build_with_widths(&table, PROPERTIES, "FOO | .X | d0=2").is_ok());
}
