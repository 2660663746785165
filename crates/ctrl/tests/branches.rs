//! Control words of small functions in the IR: blocks that end in two branches, and latencies that need an inserted `NOP`.

use oriole_ctrl::control_words;
use oriole_hardware::Hardware;
use oriole_ir::Function;
use oriole_isa::{Control, Opcode, Target};

/// Returns the opcode and the control word of each instruction of a function on sm_75; `None` for opcodes that the test does not expect.
fn words(text: &str) -> Vec<(Option<Opcode>, Control)> {
    let target = Target::parse("sm_75").expect("a target");
    let mut functions = oriole_ir::text::parse(text).unwrap_or_else(|error| panic!("{error:?}"));
    let function: &mut Function = &mut functions[0];
    let controls = control_words::run(function, &Hardware::built_in(target));
    let insts = function.layout.iter().flat_map(|&block| function.blocks[block].insts.iter());
    let opcodes = [Opcode::IADD3, Opcode::BRA, Opcode::MOV, Opcode::LDL, Opcode::EXIT];
    insts.map(|&inst| (opcodes.into_iter().find(|&opcode| function.insts[inst].is_machine(opcode)), controls.get(inst))).collect()
}

/// The path from the sum to the load that overwrites it has the first branch and the move, but not the second branch. On sm_75 a load may
/// overwrite a sum after 8 cycles.
#[test]
fn second_branch_adds_no_cycles_to_the_path_of_the_first() {
    let words = words(
        "func kernel @two_branches {
bb0:
    R2 = IADD3 R3, R4, RZ
    @P0 BRA bb2
    BRA bb1
bb1:
    EXIT
bb2:
    R5 = MOV R6
    R2 = LDL [R1+0x40] !local.4
    EXIT
}
",
    );
    let opcodes: Vec<Option<Opcode>> = words.iter().map(|word| word.0).collect();
    let expected = [Opcode::IADD3, Opcode::BRA, Opcode::BRA, Opcode::EXIT, Opcode::MOV, Opcode::LDL, Opcode::EXIT];
    assert_eq!(opcodes, expected.map(Some), "nothing is added");
    let stall = |number: usize| u32::from(words[number].1.stall);
    assert!(stall(0) + stall(1) + stall(4) >= 8, "{words:?}");
    assert!(stall(0) + stall(1) + stall(4) < 8 + 5, "the second branch does not count: {words:?}");
}

/// The result of the matrix product is available after 24 cycles (docs/latency.md), and a stall is at most 15: a `NOP` is inserted that
/// stalls for the rest. The block is not the first one, so its position in the code has to be computed.
#[test]
fn nop_covers_a_latency_beyond_the_longest_stall() {
    let text = "func kernel @far {
bb0:
    BRA bb1
bb1:
    R8:R11 = HMMA.16816.F32 R0:R3, R4:R5, R8:R11
    R12 = IADD3 R8, R9, RZ
    EXIT
}
";
    let target = Target::parse("sm_90a").unwrap();
    let mut function = oriole_ir::text::parse(text).unwrap().remove(0);
    let controls = control_words::run(&mut function, &Hardware::built_in(target));
    let insts = &function.blocks[function.layout[1]].insts;
    let opcodes: Vec<Option<Opcode>> = insts.iter().map(|&inst| function.insts[inst].op.machine()).collect();
    assert_eq!(opcodes, [Opcode::HMMA, Opcode::NOP, Opcode::IADD3, Opcode::EXIT].map(Some));
    assert_eq!(controls.get(insts[0]).stall + controls.get(insts[1]).stall, 24);
}
