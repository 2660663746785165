//! Tests of moving additions and shifts from the integer unit to the multiply unit.

use oriole_hardware::Hardware;
use oriole_ir::{Builder, Class, Function, FunctionKind, Operand, Target, machine};
use oriole_isa::{encode, print};
use oriole_opt::balance;

/// Builds a block of the given instructions on unknown values and returns the mnemonics after balancing.
fn balanced(target: &str, lines: &[&str]) -> Vec<String> {
    let target = Target::parse(target).unwrap();
    let mut function = Function::new("test", FunctionKind::Kernel);
    function.is_ssa = true;
    let mut builder = Builder::new(function);
    let values = [builder.value(Class::R), builder.value(Class::R)];
    let inputs: Vec<Operand> = values.into_iter().map(|value| builder.whole(value)).collect();
    for line in lines {
        let used: Vec<Operand> = inputs.iter().copied().take(line.matches("{}").count()).collect();
        if line.contains("$, $") {
            builder.define_two([Class::R, Class::P], line, &used);
        } else {
            builder.define(Class::R, line, &used);
        }
    }
    let mut function = builder.function;
    balance::run(&mut function, &Hardware::built_in(target));
    let insts = &function.blocks[function.entry()].insts;
    let text = insts.iter().map(|&inst| {
        let instruction = machine::machine_instruction(&function, inst, &|_| 0);
        let text = print(encode(&instruction, target).unwrap(), target, 0).unwrap();
        text.split_whitespace().next().unwrap_or_default().trim_end_matches(';').to_owned()
    });
    text.collect()
}

const LOGIC: &str = "LOP3.LUT $, {}, {}, RZ, 0x3c, !PT";
const SUM: &str = "IADD3 $, PT, PT, {}, {}, RZ";
const SUM_WITH_NUMBER: &str = "IADD3 $, PT, PT, {}, 0x7, RZ";
const SHIFT: &str = "SHF.L.U32 $, {}, 0x5, RZ";

#[test]
fn half_of_the_additions_move_to_the_multiply_unit() {
    assert_eq!(balanced("sm_90a", &[LOGIC, SUM, LOGIC, SUM]), ["LOP3.LUT", "VIADD", "LOP3.LUT", "VIADD"]);
    assert_eq!(balanced("sm_80", &[LOGIC, SUM, LOGIC, SUM]), ["LOP3.LUT", "IMAD.IADD", "LOP3.LUT", "IMAD.IADD"]);
    assert_eq!(balanced("sm_90a", &[SUM_WITH_NUMBER, LOGIC]), ["VIADD", "LOP3.LUT"]);
    assert_eq!(balanced("sm_90a", &[SHIFT, LOGIC]), ["IMAD.SHL.U32", "LOP3.LUT"]);
    // Moving two of four sums balances the units; the moved ones are spread evenly.
    assert_eq!(balanced("sm_90a", &[SUM; 4]), ["IADD3", "VIADD", "IADD3", "VIADD"]);
}

#[test]
fn instructions_without_a_useful_multiply_form_stay() {
    let products = "IMAD $, {}, {}, RZ";
    assert_eq!(balanced("sm_90a", &[SUM, products]), ["IADD3", "IMAD"]);
    let with_carry = "IADD3 $, $, PT, {}, {}, RZ";
    let three = "IADD3 $, PT, PT, {}, 0x7, {}";
    assert_eq!(balanced("sm_90a", &[with_carry, LOGIC, three, LOGIC]), ["IADD3", "LOP3.LUT", "IADD3", "LOP3.LUT"]);
    let right = "SHF.R.U32.HI $, RZ, 0x5, {}";
    assert_eq!(balanced("sm_90a", &[right, LOGIC]), ["SHF.R.U32.HI", "LOP3.LUT"]);
    // `IMAD` takes one immediate, and the factor 1 needs it.
    assert_eq!(balanced("sm_80", &[SUM_WITH_NUMBER, LOGIC]), ["IADD3", "LOP3.LUT"]);
    // On this target both units add, so nothing moves.
    assert_eq!(balanced("sm_120a", &[LOGIC, SUM]), ["LOP3.LUT", "IADD3"]);
}
