//! Correct allocations into which one fault is inserted by hand: the checker must reject each.

use oriole_ir::text::parse;
use oriole_ir::{Block, Function, Inst, Op, Opcode, Operand, OperandKind, RegFile, Symbol, Target};
use oriole_regalloc::check::check;
use oriole_regalloc::{Allocation, AllocationEnvironment, allocate};

struct Case {
    before: Function,
    after: Function,
    env: AllocationEnvironment,
    allocation: Allocation,
}

impl Case {
    fn new(text: &str, limit: u32) -> Case {
        let before = parse(text).unwrap().remove(0);
        let mut after = before.clone();
        let env = AllocationEnvironment::new(Target::parse("sm_90").unwrap(), limit);
        let allocation = allocate(&mut after, &env).unwrap();
        let case = Case { before, after, env, allocation };
        case.verdict().expect("the allocation is correct before it is changed");
        case
    }

    fn verdict(&self) -> Result<(), String> {
        check(&self.before, &self.after, &self.env, &self.allocation).map_err(|error| error.message)
    }

    /// Returns the instructions with an opcode, and their blocks, in layout order.
    fn find(&self, opcode: Opcode) -> Vec<(Block, Inst)> {
        let all = self.after.layout.iter().flat_map(|&block| self.after.blocks[block].insts.iter().map(move |&inst| (block, inst)));
        all.filter(|&(_, inst)| self.after.insts[inst].is_machine(opcode)).collect()
    }

    /// Inserts an instruction with one result before another instruction.
    fn insert_before(&mut self, (block, next): (Block, Inst), opcode: Opcode, operands: &[Operand]) {
        let inst = self.after.new_inst(Op::Machine(opcode), Default::default(), None, operands, 1);
        let insts = &mut self.after.blocks[block].insts;
        let at = insts.iter().position(|&inst| inst == next).unwrap();
        insts.insert(at, inst);
    }
}

fn general(first: u16) -> Operand {
    Operand::new(OperandKind::Register { file: RegFile::General, first, count: 1 })
}

#[test]
fn each_word_of_a_wide_constant_counts() {
    let text = "func kernel @constants ssa {
bb0:
    %0:R2 = COPY 0x100000002
    %1:R2 = COPY c[0x0][0x210]
    STS.64 [RZ], %0 !shared.8
    STS.64 [RZ], %1 !shared.8
    EXIT
}";
    let case = Case::new(text, 255);
    let moves = case.find(Opcode::MOV);
    let sources: Vec<OperandKind> = moves.iter().map(|&(_, inst)| case.after.operands(inst)[1].kind).collect();
    let constant = |offset| OperandKind::Constant { bank: 0, offset };
    assert_eq!(sources, [OperandKind::Integer(2), OperandKind::Integer(1), constant(0x210), constant(0x214)]);
    for (number, wrong) in [OperandKind::Integer(3), OperandKind::Integer(2), constant(0x214), constant(0x210)].into_iter().enumerate() {
        let mut case = Case::new(text, 255);
        case.after.operands_mut(moves[number].1)[1].kind = wrong;
        let message = case.verdict().expect_err("a word of a constant is wrong");
        assert!(message.contains("where") && message.contains("is wanted"), "{message}");
        // With a modifier the instruction moves a part of the constant.
        let mut case = Case::new(text, 255);
        case.after.insts[moves[number].1].modifiers.push(Symbol::U8);
        case.verdict().expect_err("the move has a modifier");
    }
}

/// Returns a function with fifteen phis around a loop, for fifteen usable registers. Two of the phis exchange values on the back edge.
fn swap_in_a_loop() -> String {
    let mut text = String::from("func kernel @swap ssa {\nbb0:\n");
    (0..15).for_each(|number| text += &format!("    %{number}:R = S2R SR_TID.X\n"));
    text += "    %60:P, PT = ISETP.NE.AND %0, RZ, PT\n    BRA bb1\nbb1:\n";
    for number in 0..15 {
        let back = [1, 0].get(number).copied().unwrap_or(number);
        text += &format!("    %{}:R = PHI %{number}, bb0, %{}, bb1\n", 20 + number, 20 + back);
    }
    text += "    @%60 BRA bb1\n    BRA bb2\nbb2:\n";
    (20..35).for_each(|number| text += &format!("    STS [RZ], %{number} !shared.4\n"));
    text += "    EXIT\n}\n";
    text
}

/// The back edge is split: the phis are read after the loop in their old registers, so the exchange must not happen on the loop exit.
#[test]
fn the_moves_of_phis_on_a_split_edge_count() {
    let mut case = Case::new(&swap_in_a_loop(), 16);
    let (block, _) = case.find(Opcode::LOP3)[0];
    assert!(!case.before.layout.contains(&block), "the edge is split");
    let exchange: Vec<Inst> = case.find(Opcode::LOP3).into_iter().map(|(_, inst)| inst).collect();
    case.after.blocks[block].insts.retain(|inst| !exchange.contains(inst));
    case.verdict().expect_err("nothing changes places");
}

const GUARDED: &str = "func kernel @guarded ssa {
bb0:
    %0:R@R4, %1:R@R5 = ENTRY
    %2:P, PT = ISETP.NE.AND %0, RZ, PT
    @%2 %3:R = COPY %1, (else %0)
    STS [RZ], %3 !shared.4
    EXIT
}";

/// The error message names the copy, and not the start of the function, where the unsatisfied demand would end up.
#[test]
fn a_guarded_copy_to_another_register_than_the_one_read_is_named() {
    let mut case = Case::new(GUARDED, 255);
    let (_, store) = case.find(Opcode::STS)[0];
    let at = case.after.operands(store).len() - 1;
    assert_ne!(case.after.operands(store)[at].kind, general(9).kind);
    case.after.operands_mut(store)[at].kind = general(9).kind;
    let message = case.verdict().expect_err("R9 does not hold the copy");
    assert!(message.contains("defines it elsewhere"), "{message}");
}

/// An inserted instruction with constant operands recomputes a value only if the value's definition has the same opcode, modifiers and
/// operands.
#[test]
fn constant_does_not_match_a_computed_value() {
    let second_result = "func kernel @second ssa {
bb0:
    %0:R@R4, %1:R@R5 = ENTRY
    STS [%0], %1 !shared.4
    EXIT
}";
    let other_opcode = "func kernel @opcode ssa {
bb0:
    %1:R@R5 = POPC 0x7
    STS [RZ], %1 !shared.4
    EXIT
}";
    let other_modifiers = "func kernel @modifiers ssa {
bb0:
    %1:R@R5 = LDC.U8 c[0x0][0x210]
    STS [RZ], %1 !shared.4
    EXIT
}";
    let other_source = "func kernel @source ssa {
bb0:
    %1:R@R5 = MOV 0x7
    STS [RZ], %1 !shared.4
    EXIT
}";
    let word = Operand::constant(0, 0x210);
    let faults = [
        (second_result, Opcode::MOV, 7.into()),
        (other_opcode, Opcode::MOV, 7.into()),
        (other_modifiers, Opcode::LDC, word),
        (other_source, Opcode::MOV, 8.into()),
    ];
    for (text, opcode, source) in faults {
        let mut case = Case::new(text, 255);
        let store = case.find(Opcode::STS)[0];
        assert_eq!(case.after.operands(store.1).last().unwrap().kind, general(5).kind);
        case.insert_before(store, opcode, &[general(5), source]);
        let message = case.verdict().expect_err(text);
        assert!(message.contains("puts"), "{message}");
    }
    // The same instruction as the definition is rematerialization, which is allowed.
    let mut case = Case::new(other_source, 255);
    let store = case.find(Opcode::STS)[0];
    case.insert_before(store, Opcode::MOV, &[general(5), 7.into()]);
    case.verdict().expect("the value is computed again");
}

/// Two phis are exchanged by three exclusive ors, each of which must write the register of its first source.
#[test]
fn an_exchange_that_writes_a_third_register_is_refused() {
    for number in 0..3 {
        let mut case = Case::new(&swap_in_a_loop(), 16);
        let exchange = case.find(Opcode::LOP3);
        assert_eq!(exchange.len(), 3);
        let inst = exchange[number].1;
        let read = [case.after.operands(inst)[1].kind, case.after.operands(inst)[2].kind];
        let third = (2..16).map(|register| general(register).kind).find(|kind| !read.contains(kind)).unwrap();
        case.after.operands_mut(inst)[0].kind = third;
        let message = case.verdict().expect_err("one of the three writes elsewhere");
        assert!(message.contains("is no move"), "{message}");
    }
}

/// A guarded copy writes the register of its other source where the guard is false. The register must not be needed for that source later.
#[test]
fn a_guarded_copy_over_a_value_that_is_still_needed_is_refused() {
    let text = "func kernel @guarded ssa {
bb0:
    %0:R@R4, %1:R@R5, %4:R@R6 = ENTRY
    %2:P, PT = ISETP.NE.AND %0, RZ, PT
    @%2 %3:R = COPY %1, (else %4)
    STS [RZ], %4 !shared.4
    EXIT
}";
    let mut case = Case::new(text, 255);
    let (_, store) = case.find(Opcode::STS)[0];
    let stored = case.after.operands(store)[case.after.operands(store).len() - 1].kind;
    let moves = case.find(Opcode::MOV);
    let guarded: Vec<Inst> = moves.iter().map(|&(_, inst)| inst).filter(|&inst| case.after.insts[inst].guard.is_some()).collect();
    assert_eq!(guarded.len(), 1, "the copy is one guarded move");
    case.after.operands_mut(guarded[0])[0].kind = stored;
    let message = case.verdict().expect_err("the copy overwrites what is stored");
    assert!(message.contains("overwrites"), "{message}");
}

/// An instruction that was put in must be a plain move: `BMOV` with another modifier also clears its source, or moves another width.
#[test]
fn a_move_of_a_barrier_with_other_modifiers_is_refused() {
    let barrier = Operand::new(OperandKind::Register { file: RegFile::Convergence, first: 0, count: 1 });
    for (modifiers, is_move) in [(&[".32"][..], true), (&[], false), (&[".32", ".CLEAR"], false), (&[".64"], false)] {
        let mut case = Case::new(GUARDED, 255);
        let store = case.find(Opcode::STS)[0];
        case.insert_before(store, Opcode::BMOV, &[general(9), barrier]);
        let (_, inst) = case.find(Opcode::BMOV)[0];
        case.after.insts[inst].modifiers = modifiers.iter().filter_map(|name| Symbol::find(name)).collect();
        assert_eq!(case.after.insts[inst].modifiers.len(), modifiers.len());
        let verdict = case.verdict();
        assert_eq!(verdict.is_ok(), is_move, "{modifiers:?}: {verdict:?}");
        assert!(is_move || verdict.is_err_and(|message| message.contains("is no move")));
    }
}

/// Only a guarded branch to the same block as the branch after it may disappear.
#[test]
fn a_deleted_branch_to_another_block_is_refused() {
    let text = |target: &str| {
        format!(
            "func kernel @branch ssa {{
bb0:
    %0:R@R4 = ENTRY
    %1:P, PT = ISETP.NE.AND %0, RZ, PT
    @%1 BRA {target}
    BRA bb1
bb1:
    STS [RZ], %0 !shared.4
    BRA bb2
bb2:
    EXIT
}}"
        )
    };
    let delete = |case: &mut Case| {
        let guarded = case.find(Opcode::BRA).into_iter().find(|&(_, inst)| case.after.insts[inst].guard.is_some());
        if let Some((block, inst)) = guarded {
            case.after.blocks[block].insts.retain(|&other| other != inst);
        }
        guarded.is_some()
    };
    let mut case = Case::new(&text("bb2"), 255);
    assert!(delete(&mut case));
    let message = case.verdict().expect_err("bb2 is no longer reached from bb0");
    assert!(message.contains("instructions are missing"), "{message}");
    let mut case = Case::new(&text("bb1"), 255);
    delete(&mut case);
    case.verdict().expect("both branches have the same target");
}
