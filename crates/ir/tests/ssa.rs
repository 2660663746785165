//! SSA construction preserves the behaviour of a function and produces valid, pruned SSA form.

use std::collections::HashMap;
use std::time::Instant;

use crate::common::interpret::interpret;
use crate::common::{Random, random_function};
use oriole_ir::analysis::{ControlFlow, DefUse, Dominators};
use oriole_ir::{
    Block, Builder, Class, Function, FunctionKind, Guard, Op, Opcode, Operand, OperandKind, Part, Pseudo, Role, Value, construct_ssa,
    verify,
};

fn keep(builder: &mut Builder, operands: &[Operand]) {
    builder.append(Op::Pseudo(Pseudo::Keep), Default::default(), operands, 0);
}

/// Checks the SSA form by plain search; of the analyses it uses control flow, dominators and definition-use chains.
fn check_form(function: &Function) {
    assert!(function.is_ssa);
    let flow = ControlFlow::compute(function);
    let dominators = Dominators::compute(function, &flow);
    let mut places: HashMap<Value, (Block, usize)> = HashMap::new();
    for &block in &function.layout {
        assert!(flow.is_reachable(block));
        for (position, &inst) in function.blocks[block].insts.iter().enumerate() {
            for value in function.defined(inst) {
                assert!(places.insert(value, (block, position)).is_none(), "{value:?} is defined twice");
            }
        }
    }
    let def_use = DefUse::compute(function);
    for &block in &function.layout {
        for (position, &inst) in function.blocks[block].insts.iter().enumerate() {
            let data = &function.insts[inst];
            if data.is(Pseudo::Phi) {
                check_phi(function, &flow, &dominators, &places, block, inst);
                assert!(function.defined(inst).all(|value| !def_use.uses(value).is_empty()), "a dead phi");
                continue;
            }
            for part in function.used(inst) {
                let (home, at) = *places.get(&part.value).unwrap_or_else(|| panic!("{:?} is never defined", part.value));
                let is_before = if home == block { at < position } else { dominators.dominates(home, block) };
                assert!(is_before, "{:?} is used before it is defined", part.value);
                assert!(part.first + part.count <= function.values[part.value].width);
            }
            if data.is(Pseudo::Copy) && data.guard.is_none() {
                assert!(function.sources(inst).iter().all(|source| source.value().is_none()), "a copy was not forwarded");
            }
        }
    }
}

fn check_phi(
    function: &Function,
    flow: &ControlFlow,
    dominators: &Dominators,
    places: &HashMap<Value, (Block, usize)>,
    block: Block,
    phi: oriole_ir::Inst,
) {
    let mut from: Vec<Block> = Vec::new();
    let mut different: Vec<OperandKind> = Vec::new();
    for pair in function.sources(phi).chunks(2) {
        let OperandKind::Block(predecessor) = pair[1].kind else { panic!("a phi without block") };
        from.push(predecessor);
        if let Some(value) = pair[0].value() {
            assert!(dominators.dominates(places[&value].0, predecessor));
        }
        if pair[0].value() != function.defined(phi).next() && !different.contains(&pair[0].kind) {
            different.push(pair[0].kind);
        }
    }
    assert_eq!(from, flow.predecessors(block));
    assert!(different.len() > 1, "a phi of equals");
}

#[test]
fn random_functions_do_the_same_in_ssa_form() {
    let (mut phis, mut folded) = (0, 0);
    for seed in 0..3000 {
        let mut random = Random::new(seed);
        let blocks = 1 + random.below(14);
        let before = random_function(&mut random, blocks, 8, seed % 4 != 0);
        let mut after = before.clone();
        construct_ssa(&mut after);
        check_form(&after);
        for function in [&before, &after] {
            verify(function).unwrap_or_else(|errors| panic!("seed {seed}: {errors}"));
        }
        if seed % 4 == 0 {
            continue;
        }
        let limit = 60;
        let expected = interpret(&before, limit);
        let extra = usize::from(after.entry() != before.entry());
        let mut found = interpret(&after, limit + extra);
        found.path.drain(..extra);
        assert_eq!(found, expected, "seed {seed}");
        for &block in &after.layout {
            phis += after.phis(block).len();
            let is_folded = |inst: &&oriole_ir::Inst| after.insts[**inst].is_machine(Opcode::IADD3) && after.tied_to(**inst, 0).is_some();
            folded += after.blocks[block].insts.iter().filter(is_folded).count();
        }
    }
    assert!(phis > 5000 && folded > 500, "{phis} phis and {folded} folded copies are too few to mean anything");
}

#[test]
fn a_copied_part_is_read_in_place() {
    let mut builder = Builder::new(Function::new("parts", FunctionKind::Kernel));
    let quad = builder.value(Class::R4);
    let pair = builder.value(Class::R2);
    let odd = builder.value(Class::R2);
    let whole = builder.whole(quad);
    builder.append(Op::Pseudo(Pseudo::Entry), Default::default(), &[whole.with_role(Role::Fixed(4))], 1);
    let upper = builder.part(quad, 2, 2);
    builder.assign(pair, upper);
    let middle = builder.part(quad, 1, 2);
    builder.assign(odd, middle);
    let (high, low) = (builder.part(pair, 1, 1), builder.part(odd, 0, 1));
    keep(&mut builder, &[high, low]);
    builder.emit("EXIT", &[]);
    let mut function = builder.function;
    construct_ssa(&mut function);
    let insts = &function.blocks[function.entry()].insts;
    assert_eq!(insts.len(), 4, "the copy of an odd pair stays: registers 1 and 2 of a quad are no aligned pair");
    let kept: Vec<Option<Part>> = function.operands(insts[2]).iter().map(Operand::part).collect();
    assert_eq!(kept, [Some(Part { value: quad, first: 3, count: 1 }), Some(Part { value: odd, first: 0, count: 1 })]);
}

#[test]
fn a_guarded_copy_is_folded_only_where_the_old_value_is_there() {
    for is_old_late in [false, true] {
        let mut builder = Builder::new(Function::new("fold", FunctionKind::Kernel));
        let variable = builder.value(Class::R);
        let condition = builder.define(Class::P, "ISETP.LT.AND $, PT, {}, {}, PT", &[1.into(), 2.into()]);
        let guard = Some(Guard { kind: condition.kind, negated: false });
        if !is_old_late {
            builder.assign(variable, 7.into());
        }
        builder.guard = guard;
        let sum = builder.define(Class::R, "IADD3 $, {}, {}, RZ", &[1.into(), 2.into()]);
        if is_old_late {
            builder.guard = None;
            builder.assign(variable, 7.into());
            builder.guard = guard;
        }
        builder.assign(variable, sum);
        builder.guard = None;
        let whole = builder.whole(variable);
        keep(&mut builder, &[whole]);
        builder.emit("EXIT", &[]);
        let expected = interpret(&builder.function, 2);
        let mut function = builder.function;
        construct_ssa(&mut function);
        check_form(&function);
        assert_eq!(interpret(&function, 2), expected);
        let copies = function.blocks[function.entry()].insts.iter().filter(|&&inst| function.insts[inst].is(Pseudo::Copy)).count();
        assert_eq!(copies, if is_old_late { 2 } else { 1 });
    }
}

#[test]
fn an_unset_variable_reads_as_zero() {
    let mut builder = Builder::new(Function::new("unset", FunctionKind::Kernel));
    let variable = builder.value(Class::R);
    let whole = builder.whole(variable);
    keep(&mut builder, &[whole]);
    builder.emit("EXIT", &[]);
    let mut function = builder.function;
    construct_ssa(&mut function);
    assert_eq!(function.operands(function.blocks[function.entry()].insts[0])[0], Operand::RZ);
}

/// The limit is about thirty times the time of a release build.
#[test]
fn large_functions_take_linear_time() {
    let mut random = Random::new(42);
    let function = random_function(&mut random, 50_000, 8, true);
    assert!(function.inst_count() > 200_000);
    let start = Instant::now();
    let mut after = function.clone();
    construct_ssa(&mut after);
    let taken = start.elapsed();
    println!("{} instructions: {taken:?}", function.inst_count());
    assert!(taken.as_secs_f64() < 20.0, "{taken:?}");
    assert!(verify(&after).is_ok());
}
