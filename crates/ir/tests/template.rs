//! Templates of instructions: what their parts become, and the reasons why a text is none.

use oriole_ir::{Builder, Class, Function, FunctionKind, Operand, Signs, Template, text};

/// Returns the text of the instruction that a template makes of an argument for each hole, with one result.
fn instance(template: &str, arguments: &[Class]) -> String {
    let mut builder = Builder::new(Function::new("k", FunctionKind::Kernel));
    let values = arguments.iter().map(|&class| builder.value(class)).collect::<Vec<_>>();
    let arguments: Vec<Operand> = values.into_iter().map(|value| builder.whole(value)).collect();
    builder.define(Class::R, template, &arguments);
    let function = builder.function;
    let inst = *function.blocks[function.entry()].insts.last().unwrap();
    text::print_inst(&function, inst).trim().to_owned()
}

#[test]
fn reads_signs_holes_and_addresses() {
    let load = instance("LDG.E.64 $, desc[{}][{}.64+0x10]", &[Class::UR2, Class::R2]);
    assert_eq!(load, "%2:R = LDG.E.64 desc[%0][%1.64+0x10]");
    assert_eq!(instance("FADD $, -|{}|, c[0x0][0x160]", &[Class::R]), "%1:R = FADD -|%0|, c[0x0][0x160]");
    // Signs of the template and of the argument are combined.
    let mut builder = Builder::new(Function::new("k", FunctionKind::Kernel));
    let value = builder.value(Class::R);
    let argument = builder.whole(value).with_signs(Signs::NEGATE);
    builder.define(Class::R, "FADD $, -{}, RZ", &[argument]);
    let inst = *builder.function.blocks[builder.function.entry()].insts.last().unwrap();
    assert_eq!(text::print_inst(&builder.function, inst).trim(), "%1:R = FADD %0, RZ");
}

#[test]
fn says_what_is_wrong() {
    assert!(Template::parse("FADDD $, {}").unwrap_err().message.contains("FADDD"));
    assert!(Template::parse("FADD.QQ $, {}").unwrap_err().message.contains(".QQ"));
    assert!(Template::parse("FADD $, desc[{}").unwrap_err().message.contains("bracket"));
}
