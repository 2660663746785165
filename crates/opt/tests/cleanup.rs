//! Tests of constant folding, copy propagation, common subexpressions and dead-code elimination on small functions.

use oriole_ir::{Builder, Class, Function, FunctionKind, Op, Operand, Pseudo, Target, machine};
use oriole_isa::{encode, print};
use oriole_opt::{dead, fold, forward, fuse, legalize, merge};

fn target(name: &str) -> Target {
    Target::parse(name).unwrap()
}

/// A function under construction.
struct Test {
    builder: Builder,
    inputs: Vec<Operand>,
}

impl Test {
    fn new() -> Test {
        let mut function = Function::new("test", FunctionKind::Kernel);
        function.is_ssa = true;
        Test { builder: Builder::new(function), inputs: Vec::new() }
    }

    /// Returns a new value with unknown content.
    fn input(&mut self, class: Class) -> Operand {
        let value = self.builder.value(class);
        let whole = self.builder.whole(value);
        self.inputs.push(whole);
        whole
    }

    /// Returns the first register of a pair.
    fn low(&self, pair: Operand) -> Operand {
        self.builder.part(pair.value().unwrap(), 0, 1)
    }

    /// Returns the second register of a pair.
    fn high(&self, pair: Operand) -> Operand {
        self.builder.part(pair.value().unwrap(), 1, 1)
    }

    /// Returns the machine text of the function after all passes. Values print as example registers.
    fn optimized(mut self, name: &str) -> Vec<String> {
        self.builder.emit("EXIT", &[]);
        let mut function = self.builder.function;
        let target = target(name);
        fuse::run(&mut function, target);
        legalize::run(&mut function, target).unwrap();
        for _ in 0..2 {
            forward::run(&mut function, target);
            merge::run(&mut function, target);
            fold::run(&mut function, target);
            forward::run(&mut function, target);
            dead::run(&mut function, target);
        }
        let mut texts = Vec::new();
        for &inst in &function.blocks[function.entry()].insts {
            texts.push(match function.insts[inst].op.machine() {
                None => machine::describe(&function, inst),
                Some(_) => {
                    let instruction = machine::machine_instruction(&function, inst, &|_| 0);
                    let word = encode(&instruction, target).unwrap_or_else(|error| panic!("{target}: {error}"));
                    print(word, target, 0).unwrap()
                }
            });
        }
        assert_eq!(texts.pop().as_deref(), Some("EXIT"));
        texts
    }
}

/// Loads a 64-bit kernel parameter, with the instructions that selection emits.
fn parameter(test: &mut Test, offset: u32) -> Operand {
    let b = &mut test.builder;
    let low = b.define(Class::R, "MOV $, c[0x0][{}]", &[offset.into()]);
    let high = b.define(Class::R, "MOV $, c[0x0][{}]", &[(offset + 4).into()]);
    b.pack(Class::R2, &[low, high])
}

/// Stores a value to global memory.
fn store(test: &mut Test, address: Operand, value: Operand) {
    let descriptor = test.input(Class::UR2);
    test.builder.emit("STG.E desc[{}][{}.64], {}", &[descriptor, address, value]);
}

#[test]
fn parameters_become_operands() {
    let mut test = Test::new();
    let address = test.input(Class::R2);
    let x = test.input(Class::R);
    let y = test.builder.define(Class::R, "MOV $, c[0x0][{}]", &[0x210.into()]);
    let k = test.builder.define(Class::R, "MOV $, {}", &[0x40_i64.into()]);
    let sum = test.builder.define(Class::R, "IADD3 $, {}, {}, RZ", &[y, x]);
    let product = test.builder.define(Class::R, "IMAD $, {}, {}, {}", &[k, x, sum]);
    store(&mut test, address, product);
    assert_eq!(test.optimized("sm_90"), ["IADD3 R8, R8, c[0x0][0x210], RZ", "IMAD R8, R8, 0x40, R8", "STG.E desc[UR8][R8.64], R8"]);
}

#[test]
fn wide_addends_and_doubles_come_from_the_constant_bank() {
    let mut test = Test::new();
    let x = test.input(Class::R);
    let d = test.input(Class::R2);
    let base = parameter(&mut test, 0x210);
    let scale = parameter(&mut test, 0x218);
    let four = test.builder.define(Class::R, "MOV $, {}", &[4.into()]);
    let address = test.builder.define(Class::R2, "IMAD.WIDE $, {}, {}, {}", &[x, four, base]);
    let product = test.builder.define(Class::R2, "DMUL $, {}, {}", &[scale, d]);
    let descriptor = test.input(Class::UR2);
    test.builder.emit("STG.E.64 desc[{}][{}.64], {}", &[descriptor, address, product]);
    // At most one operand of the multiply-add can be a non-register.
    let texts = test.optimized("sm_80");
    assert_eq!(texts.last().unwrap(), "STG.E.64 [R8.64], R8");
    assert!(texts.contains(&"DMUL R8, R8, c[0x0][0x218]".to_owned()), "{texts:?}");
    assert_eq!(texts.len(), 4, "{texts:?}");
}

#[test]
fn array_accesses_are_one_multiply_add() {
    let mut test = Test::new();
    let index = test.input(Class::R);
    let pointer = test.input(Class::R2);
    let base = parameter(&mut test, 0x210);
    let descriptor = test.input(Class::UR2);
    let add = |test: &mut Test, x: Operand, y: Operand| {
        let (x_low, x_high, y_low, y_high) = (test.low(x), test.high(x), test.low(y), test.high(y));
        let (low, carry) = test.builder.define_two([Class::R, Class::P], "IADD3 $, $, PT, {}, {}, RZ", &[x_low, y_low]);
        let high = test.builder.define(Class::R, "IADD3.X $, PT, PT, {}, {}, RZ, {}, !PT", &[x_high, y_high, carry]);
        test.builder.pack(Class::R2, &[low, high])
    };
    let offset = test.builder.define(Class::R2, "IMAD.WIDE $, {}, {}, RZ", &[index, 4.into()]);
    let first = add(&mut test, base, offset);
    let second = add(&mut test, offset, pointer);
    let loaded = test.builder.define(Class::R, "LDG.E $, desc[{}][{}.64]", &[descriptor, first]);
    test.builder.emit("STG.E desc[{}][{}.64], {}", &[descriptor, second, loaded]);
    assert_eq!(
        test.optimized("sm_90"),
        [
            "MOV R8, 0x4",
            "IMAD.WIDE R8, R8, R8, c[0x0][0x210]",
            "IMAD.WIDE R8, R8, 0x4, R8",
            "LDG.E R8, desc[UR8][R8.64]",
            "STG.E desc[UR8][R8.64], R8"
        ]
    );
}

#[test]
fn exact_sums_are_folded_into_offsets() {
    let mut test = Test::new();
    let base = test.input(Class::R2);
    let (low, high) = (test.low(base), test.high(base));
    let b = &mut test.builder;
    let (sum, carry) = b.define_two([Class::R, Class::P], "IADD3 $, $, {}, {}, RZ", &[low, 0xffff_fff0_u32.into()]);
    let upper = b.define(Class::R, "IADD3.X $, {}, {}, RZ, {}, !PT", &[high, 0xffff_ffff_u32.into(), carry]);
    let address = b.pack(Class::R2, &[sum, upper]);
    let descriptor = test.input(Class::UR2);
    let loaded = test.builder.define(Class::R, "LDG.E $, desc[{}][{}.64+{}]", &[descriptor, address, 4.into()]);
    test.builder.emit("STG.E desc[{}][{}.64], {}", &[descriptor, base, loaded]);
    assert_eq!(test.optimized("sm_90"), ["LDG.E R8, desc[UR8][R8.64+-0xc]", "STG.E desc[UR8][R8.64], R8"]);
}

/// Without a carry into the upper half, the sum of the lower half is not a 64-bit sum and must not become an offset.
#[test]
fn a_lower_sum_that_may_wrap_stays() {
    let mut test = Test::new();
    let base = test.input(Class::R2);
    let (low, high) = (test.low(base), test.high(base));
    let sum = test.builder.define(Class::R, "IADD3 $, {}, {}, RZ", &[low, 16.into()]);
    let address = test.builder.pack(Class::R2, &[sum, high]);
    store(&mut test, address, Operand::RZ);
    let texts = test.optimized("sm_90");
    assert_eq!(texts.len(), 3, "{texts:?}");
    assert_eq!(texts[0], "IADD3 R8, R8, 0x10, RZ");
}

#[test]
fn shared_addresses_and_chains_of_sums() {
    let mut test = Test::new();
    let x = test.input(Class::R);
    let b = &mut test.builder;
    let first = b.define(Class::R, "IADD3 $, {}, {}, RZ", &[x, 8.into()]);
    let second = b.define(Class::R, "IADD3 $, {}, {}, RZ", &[first, 4.into()]);
    let third = b.define(Class::R, "MOV $, {}", &[0x100.into()]);
    b.emit("STS [{}+{}], {}", &[second, 0x10.into(), x]);
    b.emit("STS [{}], {}", &[third, second]);
    assert_eq!(test.optimized("sm_90"), ["IADD3 R8, R8, 0xc, RZ", "STS [R8+0x1c], R8", "STS [0x100], R8"]);
}

#[test]
fn an_address_without_an_offset_gets_one() {
    let mut test = Test::new();
    let x = test.input(Class::R);
    let sum = test.builder.define(Class::R, "IADD3 $, {}, {}, RZ", &[x, 8.into()]);
    test.builder.emit("STS [{}], {}", &[sum, x]);
    assert_eq!(test.optimized("sm_90"), ["STS [R8+0x8], R8"]);
}

#[test]
fn packs_of_all_parts_are_the_value() {
    let mut test = Test::new();
    let pair = test.input(Class::R2);
    let (low, high) = (test.low(pair), test.high(pair));
    let again = test.builder.pack(Class::R2, &[low, high]);
    let swapped = test.builder.pack(Class::R2, &[high, low]);
    let descriptor = test.input(Class::UR2);
    test.builder.emit("STG.E.64 desc[{}][{}.64], {}", &[descriptor, again, swapped]);
    let texts = test.optimized("sm_90");
    assert_eq!(texts, ["PACK R%2[0:2], R%0[1:1], R%0[0:1]", "STG.E.64 desc[UR8][R8.64], R8"]);
}

#[test]
fn equal_computations_are_merged_but_clock_reads_are_not() {
    let mut test = Test::new();
    let address = test.input(Class::R2);
    let b = &mut test.builder;
    let a = b.define(Class::R, "S2R $, SR_TID.X", &[]);
    let c = b.define(Class::R, "S2R $, SR_TID.X", &[]);
    let sum = b.define(Class::R, "IADD3 $, {}, {}, RZ", &[a, a]);
    let same = b.define(Class::R, "IADD3 $, {}, {}, RZ", &[c, a]);
    let product = b.define(Class::R, "IMAD $, {}, {}, RZ", &[sum, same]);
    let early = b.define(Class::R, "CS2R.32 $, SR_CLOCKLO", &[]);
    let late = b.define(Class::R, "CS2R.32 $, SR_CLOCKLO", &[]);
    let time = b.define(Class::R, "IADD3 $, {}, -{}, {}", &[late, early, product]);
    store(&mut test, address, time);
    assert_eq!(
        test.optimized("sm_90"),
        [
            "S2R R8, SR_TID.X",
            "IADD3 R8, R8, R8, RZ",
            "IMAD R8, R8, R8, RZ",
            "CS2R.32 R8, SR_CLOCKLO",
            "CS2R.32 R8, SR_CLOCKLO",
            "IADD3 R8, R8, -R8, R8",
            "STG.E desc[UR8][R8.64], R8"
        ]
    );
}

#[test]
fn unused_results_and_dead_loads_are_deleted() {
    let mut test = Test::new();
    let address = test.input(Class::R2);
    let x = test.input(Class::R);
    let descriptor = test.input(Class::UR2);
    let b = &mut test.builder;
    b.define(Class::R, "LDG.E $, desc[{}][{}.64]", &[descriptor, address]);
    b.define(Class::R, "ATOMG.E.ADD.STRONG.GPU PT, $, desc[{}][{}.64], {}", &[descriptor, address, x]);
    let (sum, _) = b.define_two([Class::R, Class::P], "IADD3 $, $, {}, {}, RZ", &[x, x]);
    b.emit("STG.E desc[{}][{}.64], {}", &[descriptor, address, sum]);
    assert_eq!(
        test.optimized("sm_90"),
        ["ATOMG.E.ADD.STRONG.GPU PT, RZ, desc[UR8][R8.64], R8", "IADD3 R8, R8, R8, RZ", "STG.E desc[UR8][R8.64], R8"]
    );
}

/// `x - 0` writes a carry of 1 and `x + 0` a carry of 0, so the sign of the zero must stay.
#[test]
fn subtracting_zero_still_carries() {
    let mut test = Test::new();
    let pair = test.input(Class::R2);
    let (low, high) = (test.low(pair), test.high(pair));
    let b = &mut test.builder;
    let zero = b.define(Class::R, "MOV $, {}", &[0.into()]);
    let (difference, carry) = b.define_two([Class::R, Class::P], "IADD3 $, $, {}, -{}, RZ", &[low, zero]);
    let (given, other) = b.define_two([Class::R, Class::P], "IADD3 $, $, {}, -{}, RZ", &[low, 0.into()]);
    let upper = b.define(Class::R, "IADD3.X $, {}, ~{}, RZ, {}, !PT", &[high, difference, carry]);
    let second = b.define(Class::R, "IADD3.X $, {}, ~{}, RZ, {}, !PT", &[upper, given, other]);
    store(&mut test, pair, second);
    let texts = test.optimized("sm_90");
    assert_eq!(texts[0], "IADD3 R8, P1, R8, -RZ, RZ", "{texts:?}");
    assert_eq!(texts.iter().filter(|text| text.contains("-RZ")).count(), texts.iter().filter(|text| text.starts_with("IADD3 ")).count());
}

#[test]
fn fused_products_are_counted() {
    let mut test = Test::new();
    let index = test.input(Class::R);
    let base = test.input(Class::R2);
    let offset = test.builder.define(Class::R2, "IMAD.WIDE $, {}, {}, RZ", &[index, 4.into()]);
    let (base_low, base_high, low, high) = (test.low(base), test.high(base), test.low(offset), test.high(offset));
    let (low, carry) = test.builder.define_two([Class::R, Class::P], "IADD3 $, $, PT, {}, {}, RZ", &[base_low, low]);
    let high = test.builder.define(Class::R, "IADD3.X $, PT, PT, {}, {}, RZ, {}, !PT", &[base_high, high, carry]);
    let address = test.builder.pack(Class::R2, &[low, high]);
    store(&mut test, address, index);
    let mut function = test.builder.function;
    assert_eq!(fuse::run(&mut function, target("sm_90")).fused, 1);
    assert_eq!(fuse::run(&mut function, target("sm_90")).fused, 0, "nothing is left to fuse");
}

/// In a 64-bit copy of a number or of a constant-bank pair, each 32-bit word is known.
#[test]
fn each_word_of_a_wide_copy_is_known() {
    let mut test = Test::new();
    let address = test.input(Class::R2);
    let x = test.input(Class::R);
    let copy = |test: &mut Test, source: Operand| {
        let pair = test.builder.value(Class::R2);
        let pair = test.builder.whole(pair);
        test.builder.append(Op::Pseudo(Pseudo::Copy), Default::default(), &[pair, source], 1);
        pair
    };
    let number = copy(&mut test, 0x1_0000_0007_i64.into());
    let bank = copy(&mut test, Operand::constant(0, 0x210));
    for word in [test.low(number), test.high(number), test.low(bank), test.high(bank)] {
        let sum = test.builder.define(Class::R, "IADD3 $, {}, {}, RZ", &[x, word]);
        store(&mut test, address, sum);
    }
    let sums: Vec<String> = test.optimized("sm_90").into_iter().filter(|text| text.starts_with("IADD3")).collect();
    let expected = ["0x7", "0x1", "c[0x0][0x210]", "c[0x0][0x214]"].map(|word| format!("IADD3 R8, R8, {word}, RZ"));
    assert_eq!(sums, expected);
}

/// -2^31 has no negative in 32 bits, so the saturating difference `x - -2^31` must not become the sum `x + -2^31`.
#[test]
fn a_saturated_difference_with_the_least_number_stays_a_difference() {
    for (number, expected) in [(0x8000_0000_u32, "VIADD.S32.ISAT R8, R8, -R8"), (5, "VIADD.S32.ISAT R8, R8, 0xfffffffb")] {
        let mut test = Test::new();
        let address = test.input(Class::R2);
        let x = test.input(Class::R);
        let k = test.builder.define(Class::R, "MOV $, {}", &[number.into()]);
        let difference = test.builder.define(Class::R, "VIADD.S32.ISAT $, {}, -{}", &[x, k]);
        store(&mut test, address, difference);
        let texts = test.optimized("sm_120");
        assert!(texts.iter().any(|text| text == expected), "{texts:?}");
    }
}

#[test]
fn unread_results_of_a_parallel_copy_are_deleted() {
    let mut function = oriole_ir::text::parse(
        "func kernel @copies ssa {
bb0:
    %0:R, %1:R = ENTRY
    %2:R, %3:R = COPY %0, %1
    STS [RZ], %3 !shared.4
    EXIT
}",
    )
    .unwrap()
    .remove(0);
    let stats = dead::run(&mut function, target("sm_90"));
    assert_eq!((stats.removed, stats.unwanted_results), (0, 1));
    let copy = function.blocks[function.entry()].insts[1];
    let entry = function.blocks[function.entry()].insts[0];
    assert_eq!(function.results(copy).len(), 1);
    assert_eq!(function.sources(copy)[0].value(), function.results(entry)[1].value(), "the copy of %1 stays");
}
