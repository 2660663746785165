//! Tests of the order that staggered warpgroup products get, and of the cases in which they stay together.

use oriole_ir::{Function, Inst, text};
use oriole_opt::stagger_products::run;
use oriole_support::Index;

/// Returns a function with a step: two products, `%2` and `%3`, the code `between`, arithmetic on the results, and two products that
/// read it.
fn function_with_step(between: &str) -> Function {
    let program = format!(
        "func kernel @f ssa {{
bb0:
    %0:R = S2R SR_TID.X
    %1:UR4 = PACK URZ, URZ, URZ, URZ
    WARPGROUP.ARRIVE
    %2:R4 = HGMMA.64x8x16.F32 gdesc[%1], RZ, !UPT !shared.0
    %3:R4 = HGMMA.64x8x16.F32 gdesc[%1], RZ, !UPT !shared.0
    RZ = HGMMA.64x8x16.F16 gdesc[URZ], RZ, !UPT, gsb0 !shared.0.volatile
    WARPGROUP.DEPBAR.LE gsb0, 0x0
{between}    %4:R = MUFU.EX2 %3[0]
    %5:R = MUFU.EX2 %2[0]
    WARPGROUP.ARRIVE
    %6:R4 = PACK %5, %5, %5, %5
    %7:R4 = HGMMA.64x8x16.F32 %6, gdesc[%1], RZ, !UPT !shared.0
    %8:R4 = PACK %4, %4, %4, %4
    %9:R4 = HGMMA.64x8x16.F32 %8, gdesc[%1], RZ, !UPT !shared.0
    RZ = HGMMA.64x8x16.F16 gdesc[URZ], RZ, !UPT, gsb0 !shared.0.volatile
    WARPGROUP.DEPBAR.LE gsb0, 0x0
    STS [%0], %7[0] !shared.4
    STS [%0], %9[0] !shared.4
    EXIT
}}"
    );
    text::parse(&program).unwrap().remove(0)
}

/// Returns one word for each instruction of the first block: the number of its first result, or what it does (`end` of a group,
/// `arrive`, `wait`).
fn summarize_insts(function: &Function) -> String {
    let word = |&inst: &Inst| {
        let text = text::print_inst(function, inst);
        match text.trim() {
            text if text.contains("HGMMA") && text.contains(", gsb0") => "end".to_owned(),
            "WARPGROUP.ARRIVE" => "arrive".to_owned(),
            text if text.starts_with("WARPGROUP.DEPBAR") => format!("wait{}", text.rsplit_once("0x").expect("a number of groups").1),
            _ => function.defined(inst).next().map_or("-".to_owned(), |value| value.position().to_string()),
        }
    };
    function.blocks[function.entry()].insts.iter().map(word).collect::<Vec<_>>().join(" ")
}

#[test]
fn products_run_during_the_arithmetic_on_the_others() {
    let mut function = function_with_step("");
    assert_eq!(run(&mut function, 253), 1);
    assert_eq!(summarize_insts(&function), "0 1 arrive 2 end 3 end wait1 5 arrive 6 7 end wait1 4 arrive 8 9 end wait0 - - -");
}

#[test]
fn the_second_accumulator_waits_for_registers() {
    let mut function = function_with_step("");
    // At the wait the two accumulators and `%0` are live, 9 registers. The pass keeps 8 registers free; 16 are one too few.
    assert_eq!(run(&mut function, 9 + 8 - 1), 1);
    assert_eq!(summarize_insts(&function), "0 1 arrive 2 end wait0 5 arrive 3 end arrive 6 7 end wait1 4 arrive 8 9 end wait0 - - -");
}

#[test]
fn code_that_may_not_move_keeps_the_step_whole() {
    // A store after the wait may overwrite an operand that the products read from shared memory.
    let mut function = function_with_step("    STS [%0], %0 !shared.4\n");
    assert_eq!(run(&mut function, 253), 0);
    // This program waits until one group is pending; with more groups, that wait would mean something else.
    let mut function = function_with_step("    WARPGROUP.DEPBAR.LE gsb0, 0x1\n");
    assert_eq!(run(&mut function, 253), 0);
}
