//! Tests of legalization: expected text as ptxas 13.0.88 writes it on each target, and many shapes that must get an encoding form.

use oriole_ir::{Builder, Class, Function, FunctionKind, Operand, Target, machine};
use oriole_isa::{encode, print};
use oriole_opt::legalize::{self, EncodabilityCache};

fn target(name: &str) -> Target {
    Target::parse(name).unwrap()
}

fn function() -> Builder {
    Builder::new(Function::new("test", FunctionKind::Kernel))
}

/// Returns the machine text of all instructions. Values without a register print as the example registers.
fn texts(function: &Function, target: Target) -> Vec<String> {
    let mut texts = Vec::new();
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            if function.insts[inst].op.machine().is_none() {
                texts.push(function.insts[inst].op.mnemonic().to_owned());
                continue;
            }
            let instruction = machine::machine_instruction(function, inst, &|_| 0);
            let word = encode(&instruction, target).unwrap_or_else(|error| panic!("{target}: {error}"));
            texts.push(print(word, target, 0).unwrap());
        }
    }
    texts
}

/// Returns the machine text of the instructions that `write` builds, after legalization.
fn legalized(target: Target, write: impl Fn(&mut Builder)) -> Vec<String> {
    let mut builder = function();
    write(&mut builder);
    let mut function = builder.function;
    legalize::run(&mut function, &mut EncodabilityCache::new(target)).unwrap_or_else(|error| panic!("{target}: {error}"));
    texts(&function, target)
}

/// Values of each kind to use as operands.
struct Inputs {
    r: Operand,
    s: Operand,
    pair: Operand,
    descriptor: Operand,
    uniform: Operand,
}

fn inputs(builder: &mut Builder) -> Inputs {
    let mut value = |class| {
        let value = builder.value(class);
        builder.whole(value)
    };
    Inputs { r: value(Class::R), s: value(Class::R), pair: value(Class::R2), descriptor: value(Class::UR2), uniform: value(Class::UR) }
}

#[test]
fn global_accesses_have_the_descriptor_of_the_target() {
    let load = |name: &str| {
        legalized(target(name), |b| {
            let i = inputs(b);
            b.define(Class::R, "LDG.E $, desc[{}][{}.64+{}]", &[i.descriptor, i.pair, 0x20.into()]);
        })
    };
    assert_eq!(load("sm_75"), ["LDG.E.SYS R8, [R8+0x20]"]);
    for name in ["sm_80", "sm_86", "sm_89"] {
        assert_eq!(load(name), ["LDG.E R8, [R8.64+0x20]"], "{name}");
    }
    for name in ["sm_90", "sm_90a", "sm_100", "sm_120"] {
        assert_eq!(load(name), ["LDG.E R8, desc[UR8][R8.64+0x20]"], "{name}");
    }
}

#[test]
fn hidden_descriptors_are_encoded() {
    let mut b = function();
    let i = inputs(&mut b);
    b.define(Class::R, "LDG.E $, desc[{}][{}.64+{}]", &[i.descriptor, i.pair, 0x20.into()]);
    let mut function = b.function;
    legalize::run(&mut function, &mut EncodabilityCache::new(target("sm_80"))).unwrap();
    let inst = function.blocks[function.entry()].insts[0];
    let word = encode(&machine::machine_instruction(&function, inst, &|_| 0), target("sm_80")).unwrap();
    assert_eq!(word >> 32 & 0x3f, 8, "UR8 is the descriptor");
}

#[test]
fn cache_policies_keep_their_descriptor() {
    let load = |name: &str| {
        legalized(target(name), |b| {
            let i = inputs(b);
            b.define(Class::R, "LDG.E $, desc[{}.64][{}.64+{}]", &[i.descriptor, i.pair, 0.into()]);
        })
    };
    for name in ["sm_80", "sm_89", "sm_90", "sm_100"] {
        assert_eq!(load(name), ["LDG.E R8, desc[UR8][R8.64]"], "{name}");
    }
}

#[test]
fn stores_atomics_and_reductions() {
    let write = |b: &mut Builder| {
        let i = inputs(b);
        b.emit("STG.E desc[{}][{}.64+{}], {}", &[i.descriptor, i.pair, 0x14.into(), i.r]);
        b.emit("ST.E desc[{}][{}.64+{}], {}", &[i.descriptor, i.pair, 0x18.into(), i.r]);
        b.define(Class::R, "ATOMG.E.ADD.STRONG.GPU PT, $, desc[{}][{}.64], {}", &[i.descriptor, i.pair, i.r]);
        b.define(Class::R, "ATOM.E.ADD.STRONG.GPU PT, $, desc[{}][{}.64], {}", &[i.descriptor, i.pair, i.r]);
        b.define(Class::R, "ATOMG.E.CAS.STRONG.GPU PT, $, desc[{}][{}.64], {}, {}", &[i.descriptor, i.pair, i.r, i.s]);
        b.emit("REDG.E.ADD.STRONG.GPU desc[{}][{}.64+{}], {}", &[i.descriptor, i.pair, 8.into(), i.r]);
        b.emit("CCTL.E.PF2 desc[{}][{}.64]", &[i.descriptor, i.pair]);
    };
    assert_eq!(
        legalized(target("sm_75"), write),
        [
            "STG.E.SYS [R8+0x14], R8",
            "ST.E.SYS [R8+0x18], R8",
            "ATOMG.E.ADD.STRONG.GPU PT, R8, [R8], R8",
            "ATOM.E.ADD.STRONG.GPU PT, R8, [R8], R8",
            "ATOMG.E.CAS.STRONG.GPU PT, R8, [R8], R8, R8",
            "RED.E.ADD.STRONG.GPU [R8+0x8], R8",
            "CCTL.E.PF2 [R8]",
        ]
    );
    for name in ["sm_80", "sm_86", "sm_89"] {
        assert_eq!(
            legalized(target(name), write),
            [
                "STG.E [R8.64+0x14], R8",
                "ST.E [R8.64+0x18], R8",
                "ATOMG.E.ADD.STRONG.GPU PT, R8, [R8.64], R8",
                "ATOM.E.ADD.STRONG.GPU PT, R8, [R8.64], R8",
                "ATOMG.E.CAS.STRONG.GPU PT, R8, [R8], R8, R8",
                "RED.E.ADD.STRONG.GPU [R8.64+0x8], R8",
                "CCTL.E.PF2 [R8]",
            ],
            "{name}"
        );
    }
    for name in ["sm_90", "sm_100", "sm_120"] {
        assert_eq!(
            legalized(target(name), write),
            [
                "STG.E desc[UR8][R8.64+0x14], R8",
                "ST.E desc[UR8][R8.64+0x18], R8",
                "ATOMG.E.ADD.STRONG.GPU PT, R8, desc[UR8][R8.64], R8",
                "ATOM.E.ADD.STRONG.GPU PT, R8, desc[UR8][R8.64], R8",
                "ATOMG.E.CAS.STRONG.GPU PT, R8, [R8], R8, R8",
                "REDG.E.ADD.STRONG.GPU desc[UR8][R8.64+0x8], R8",
                "CCTL.E.PF2 [R8]",
            ],
            "{name}"
        );
    }
}

/// The shapes that instruction selection emits, with every kind of operand in every position.
#[test]
fn every_operand_shape_becomes_legal_on_every_target() {
    let templates = [
        "IADD3 $, {}, {}, {}",
        "IADD3 $, -{}, {}, {}",
        "IADD3.X $, {}, {}, {}, PT, !PT",
        "IMAD $, {}, {}, {}",
        "IMAD.HI.U32 $, {}, {}, {}",
        "LOP3.LUT $, {}, {}, {}, 0x96, !PT",
        "SHF.L.U32 $, {}, {}, {}",
        "SHF.R.S32.HI $, {}, {}, {}",
        "PRMT $, {}, {}, {}",
        "FFMA $, {}, -{}, {}",
        "FFMA.FTZ.RZ $, -{}, {}, -{}",
        "FSEL $, {}, {}, PT",
        "FMUL $, {}, |{}|",
        "FADD $, -{}, {}",
        "FMNMX $, {}, {}, PT",
        "SEL $, {}, {}, !PT",
        "LEA $, {}, {}, 0x3",
        "HADD2 $, {}, {}",
        "HFMA2 $, {}, {}, {}",
        "POPC $, {}",
        "I2F $, {}",
        "F2I $, |{}|",
        "MUFU.RCP $, -{}",
        "MOV $, {}",
        "IABS $, {}",
        "BREV $, {}",
    ];
    // Volta has no uniform registers.
    for target in Target::all_with_machine_code().filter(|target| target.number() >= 75) {
        let mut count = 0;
        for template in templates {
            let holes = template.matches("{}").count();
            for kinds in 0..4_usize.pow(holes as u32) {
                let mut b = function();
                let i = inputs(&mut b);
                let arguments: Vec<Operand> = (0..holes)
                    .map(|hole| match kinds / 4_usize.pow(hole as u32) % 4 {
                        0 => i.r,
                        1 => 0x3f80_1234_u32.into(),
                        2 => Operand::constant(0, 0x168),
                        _ => i.uniform,
                    })
                    .collect();
                b.define(Class::R, template, &arguments);
                let mut function = b.function;
                legalize::run(&mut function, &mut EncodabilityCache::new(target))
                    .unwrap_or_else(|error| panic!("{target}: {template} {arguments:?}: {error}"));
                for text in texts(&function, target) {
                    assert!(!text.is_empty());
                    count += 1;
                }
                assert_eq!(legalize::run(&mut function, &mut EncodabilityCache::new(target)).unwrap().repaired, 0, "{target}: {template}");
            }
        }
        assert!(count > 1000, "{target}: {count}");
    }
}
