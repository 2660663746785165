//! Form selection: which encoding an instruction gets, and the error if it has none.
//!
//! Every word was disassembled with nvdisasm 13.2.51 (`nvdisasm -b SM90a` and so on); the text next to it is nvdisasm's output.

use oriole_isa::{Instruction, Target, accesses, decode, encode, parse, print, print_exact, settle};

fn target(name: &str) -> Target {
    Target::parse(name).expect("target")
}

fn try_encode(name: &str, text: &str) -> Result<u128, String> {
    let instruction = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    encode(&instruction, target(name)).map_err(|error| error.to_string())
}

/// Asserts the words of texts that nvdisasm prints identically.
fn expect_words(name: &str, cases: &[(u128, &str)]) {
    for &(word, text) in cases {
        assert_eq!(try_encode(name, text), Ok(word), "{text}");
        assert_eq!(print(word, target(name), 0).as_deref(), Some(text));
    }
}

/// Asserts the words of texts that nvdisasm prints as another text.
fn expect_as(name: &str, cases: &[(&str, u128, &str)]) {
    for &(given, word, text) in cases {
        assert_eq!(try_encode(name, given), Ok(word), "{given}");
        assert_eq!(print(word, target(name), 0).as_deref(), Some(text));
    }
}

/// Asserts that an instruction has no form, and that the message gives the reason and the closest form.
fn expect_none(name: &str, cases: &[(&str, &str)]) {
    for (text, reason) in cases {
        let mnemonic = text.split(['.', ' ']).next().expect("mnemonic");
        let message = try_encode(name, text).expect_err(text);
        let start = format!("no form of {mnemonic} on {name} takes this: {reason}");
        assert!(message.starts_with(&start), "{text}: {message}");
        assert!(message.contains(&format!("the nearest form, {mnemonic}")), "{text}: {message}");
    }
}

/// The words are those of ptxas 13.0.88 for sums with two subtrahends: it never puts signs on both of the first two sources, because
/// an H200 reports that as an illegal instruction.
#[test]
fn sums_have_at_most_one_sign_on_the_first_two_sources() {
    for legal in ["IADD3 R7, RZ, -R0, -R5", "IADD3 R9, -R5, R4, -R0", "IADD3 R13, -R0, 0x4d2, -R5", "IADD3.X R0, R1, ~R2, ~R3, P0, !PT"] {
        assert!(try_encode("sm_90a", legal).is_ok(), "{legal}");
    }
    let illegal = [
        "IADD3 R0, -R1, -R2, R3",
        "IADD3 R0, P0, -R1, -c[0x0][0x210], -R3",
        "IADD3.X R0, ~R1, ~R2, R3, P0, !PT",
        "UIADD3 UR4, -UR5, -UR6, URZ",
    ];
    for text in illegal {
        let message = try_encode("sm_90a", text).expect_err(text);
        assert!(message.contains("illegal instruction"), "{text}: {message}");
    }
    // A word from elsewhere can be decoded and written back.
    let word = 0x080fe20007fbe1608000009e74c97210;
    let decoded = decode(word, target("sm_90a")).expect("a word of the corpus");
    assert_eq!(decoded.operands.iter().filter(|operand| operand.negate).count(), 2);
    assert_eq!(encode(&decoded, target("sm_90a")), Ok(word));
}

#[test]
fn kind_of_the_second_source_decides() {
    expect_words(
        "sm_90a",
        &[
            (0x000fe200000000000000000201007221, "FADD R0, R1, R2"),
            (0x000fe200000000003fc0000001007421, "FADD R0, R1, 1.5"),
            (0x000fe200080000000000000401007e21, "FADD R0, R1, UR4"),
            (0x000fe20000000f000000000100007202, "MOV R0, R1"),
            (0x000fe20000000f000000007b00007802, "MOV R0, 0x7b"),
            (0x000fe20008000f000000000400007c02, "MOV R0, UR4"),
            (0x000fe20007ffe0030000000201007210, "IADD3 R0, R1, R2, R3"),
            (0x000fe20007ffe0030000007b01007810, "IADD3 R0, R1, 0x7b, R3"),
            (0x000fe2000fffe0030000000401007c10, "IADD3 R0, R1, UR4, R3"),
            (0x000fe200000000040000000002007229, "DADD R0, R2, R4"),
            (0x000fe200000000003ff0000002007429, "DADD R0, R2, 1"),
        ],
    );
}

#[test]
fn constants_where_the_target_has_them() {
    expect_words(
        "sm_80",
        &[
            (0x000fe200000000000000580001007621, "FADD R0, R1, c[0x0][0x160]"),
            (0x000fe200080000000000580401007621, "FADD R0, R1, cx[UR4][0x160]"),
            (0x000fe200000000030000580001007a23, "FFMA R0, R1, c[0x0][0x160], R3"),
            (0x000fe200078e02030000580001007a24, "IMAD R0, R1, c[0x0][0x160], R3"),
            (0x000fe200078e02020000580001007624, "IMAD R0, R1, R2, c[0x0][0x160]"),
        ],
    );
    expect_words("sm_90a", &[(0x000fe2000000080000008400ff007b82, "LDC R0, c[0x0][0x210]")]);
}

#[test]
fn place_of_the_odd_operand_decides() {
    expect_words(
        "sm_90a",
        &[
            (0x000fe200078e02030000000201007224, "IMAD R0, R1, R2, R3"),
            (0x000fe200078e02020000001001007424, "IMAD R0, R1, R2, 0x10"),
            (0x000fe2000f8e02030000000401007c24, "IMAD R0, R1, UR4, R3"),
            (0x000fe2000f8e02020000000401007e24, "IMAD R0, R1, R2, UR4"),
            (0x000fe200000000030000000201007223, "FFMA R0, R1, R2, R3"),
            (0x000fe200000000024000000001007423, "FFMA R0, R1, R2, 2"),
            (0x000fe200000000034000000001007823, "FFMA R0, R1, 2, R3"),
            (0x000fe200000e00030000000201007389, "SHFL.IDX PT, R0, R1, R2, R3"),
            (0x000fe200000e000000001f0201007589, "SHFL.IDX PT, R0, R1, R2, 0x1f"),
            (0x000fe200000e00030e00000001007989, "SHFL.BFLY PT, R0, R1, 0x10, R3"),
            (0x000fe200000e00000e001f0001007f89, "SHFL.BFLY PT, R0, R1, 0x10, 0x1f"),
        ],
    );
}

#[test]
fn modifiers_choose_the_form() {
    expect_words(
        "sm_90a",
        &[
            (0x000fe2000001e1004000000201007221, "FADD.FTZ.RZ.SAT R0, -R1, |R2|"),
            (0x000fe200007fe4030000000201007210, "IADD3.X R0, R1, R2, R3, P0, !PT"),
            (0x000fe200078e02040000000302007225, "IMAD.WIDE R0, R2, R3, R4"),
            (0x000fe20003f06070000000020100720c, "ISETP.GE.U32.AND P0, PT, R1, R2, PT"),
            (0x000fe20000f06070000000050100780c, "ISETP.GE.U32.AND P0, PT, R1, 0x5, P1"),
            (0x000fe20003f06120000000020100720c, "ISETP.GE.U32.AND.EX P0, PT, R1, R2, PT, P2"),
            (0x000fe200078e20ff0000000201007211, "LEA R0, R1, R2, 0x4"),
            (0x000fe200078f20030000000201007211, "LEA.HI R0, R1, R2, R3, 0x4"),
            (0x000fe200000f26ff0000000201007211, "LEA.HI.X.SX32 R0, R1, R2, 0x4, P0"),
        ],
    );
}

#[test]
fn optional_operands_present_and_absent() {
    expect_words(
        "sm_90a",
        &[
            (0x000fe20007a3e0050000000403007210, "IADD3 R0, P1, P2, R3, R4, R5"),
            (0x000fe200078200040000000302007225, "IMAD.WIDE.U32 R0, P1, R2, R3, R4"),
            (0x000fe2000c1e19000000100402007981, "LDG.E R0, desc[UR4][R2.64+0x10]"),
            (0x000fe2000c1e19040000000402007981, "LDG.E R0, desc[UR4][R2.64], P3"),
            (0x000fe20003800000000000000000794d, "EXIT"),
            (0x000fe20003800000000000000000a94d, "@!P2 EXIT"),
            (0x000fe20000800000000000000000094d, "@P0 EXIT P1"),
        ],
    );
}

#[test]
fn shape_of_the_address_decides() {
    expect_words(
        "sm_90a",
        &[
            (0x000fe2000c1e09000000100402007981, "LDG.E R0, [R2.64+UR4+0x10]"),
            (0x000fe200000008000000000001007984, "LDS R0, [R1]"),
            (0x000fe200080008000000200401007984, "LDS R0, [R1+UR4+0x20]"),
        ],
    );
}

#[test]
fn bare_mnemonics_and_uniform_guards() {
    expect_words(
        "sm_90a",
        &[
            (0x000fe200038000000000000100007801, "PMTRIG 0x1"),
            (0x000fe2000000000000000000000079b7, "UTMACMDFLUSH"),
            (0x000fe200000000000000007b00041882, "@UP1 UMOV UR4, 0x7b"),
        ],
    );
    let message = try_encode("sm_90a", "@P1 UMOV UR4, 0x7b").expect_err("a uniform instruction depends on a uniform predicate");
    assert!(message.starts_with("no form of UMOV on sm_90a takes this: its guard does not fit the nearest form, UMOV"), "{message}");
    let message = try_encode("sm_90a", "@UP1 MOV R4, 0x7b").expect_err("and no other does");
    assert!(message.starts_with("no form of MOV on sm_90a takes this: its guard does not fit the nearest form, MOV"), "{message}");
}

/// Two forms match this text on sm_80: one has a zero uniform register in the address, the other has none. ptxas uses the second, which is
/// more specific.
#[test]
fn most_specific_form_wins() {
    expect_words("sm_80", &[(0x000fe2000b9218440000000002077fae, "LDGSTS.E [R7], [R2.64]")]);
}

#[test]
fn swapping_reaches_a_form() {
    expect_as(
        "sm_90a",
        &[
            ("FADD R0, 1.5, R1", 0x000fe200000000003fc0000001007421, "FADD R0, R1, 1.5"),
            ("FMUL R0, UR4, R1", 0x000fe200084000000000000401007c20, "FMUL R0, R1, UR4"),
            ("FFMA R0, 2, R1, R3", 0x000fe200000000034000000001007823, "FFMA R0, R1, 2, R3"),
            ("DMUL R0, 1, R2", 0x000fe200000000003ff0000002007828, "DMUL R0, R2, 1"),
            ("VIADD R0, 0x7b, R1", 0x000fe200000000000000007b01007836, "VIADD R0, R1, 0x7b"),
        ],
    );
    expect_as("sm_80", &[("FADD R0, c[0x0][0x160], R1", 0x000fe200000000000000580001007621, "FADD R0, R1, c[0x0][0x160]")]);
}

#[test]
fn signs_travel_with_swapped_sources() {
    expect_as(
        "sm_90a",
        &[
            ("FADD R0, 1.5, -R1", 0x000fe200000001003fc0000001007421, "FADD R0, -R1, 1.5"),
            ("FADD R0, -UR4, |R1|", 0x000fe200080002008000000401007e21, "FADD R0, |R1|, -UR4"),
        ],
    );
}

/// Destinations do not shift the indices of the sources, whether or not the text shows them.
#[test]
fn sources_are_counted_behind_the_destinations() {
    expect_as(
        "sm_90a",
        &[
            ("IADD3 R0, 0x7b, R1, R3", 0x000fe20007ffe0030000007b01007810, "IADD3 R0, R1, 0x7b, R3"),
            ("IADD3 R0, P1, P2, UR4, R1, R3", 0x000fe2000fa3e0030000000401007c10, "IADD3 R0, P1, P2, R1, UR4, R3"),
            ("IMAD.WIDE R0, 0x10, R3, R4", 0x000fe200078e02040000001003007825, "IMAD.WIDE R0, R3, 0x10, R4"),
            ("IMAD.WIDE R0, PT, 0x10, R3, R4", 0x000fe200078e02040000001003007825, "IMAD.WIDE R0, R3, 0x10, R4"),
        ],
    );
}

#[test]
fn sources_that_may_not_change_places() {
    expect_none(
        "sm_90a",
        &[
            ("ISETP.GE.AND P0, PT, 0x5, R1, PT", "operand 3 does not fit"),
            ("FSETP.GT.AND P0, PT, 1, R1, PT", "operand 3 does not fit"),
            ("FMNMX R0, 1, R1, PT", "operand 2 does not fit"),
            ("SEL R0, 0x5, R1, P0", "operand 2 does not fit"),
            ("SHF.L.U32 R0, 0x5, R1, RZ", "operand 2 does not fit"),
            ("IADD3 R0, -R1, R2, -UR4", "operand 4 does not fit"),
        ],
    );
}

#[test]
fn two_odd_operands_are_one_too_many() {
    expect_none(
        "sm_90a",
        &[
            ("FADD R0, 1, 2", "operand 2 does not fit"),
            ("FADD R0, UR4, UR5", "operand 2 does not fit"),
            ("IMAD R0, 0x5, 0x6, R1", "operand 2 does not fit"),
        ],
    );
}

#[test]
fn wrong_register_file() {
    expect_none(
        "sm_90a",
        &[
            ("FADD UR0, R1, R2", "operand 1 does not fit"),
            ("FADD R0, P1, R2", "operand 2 does not fit"),
            ("ISETP.GE.AND R0, PT, R1, R2, PT", "operand 1 does not fit"),
            ("UIADD3 UR4, R1, UR2, UR3", "operand 2 does not fit"),
            ("LDG.E R0, desc[R4][R2.64]", "operand 2 does not fit"),
        ],
    );
}

#[test]
fn registers_that_do_not_exist() {
    expect_words("sm_90a", &[(0x000fe20000000f00000000ff00fe7202, "MOV R254, RZ"), (0x000fe200000e000000000000013e72ca, "R2UR UR62, R1")]);
    expect_words("sm_120", &[(0x000fe20008000000000000c801007e21, "FADD R0, R1, UR200")]);
    expect_none(
        "sm_90a",
        &[
            ("MOV R255, R1", "operand 1 does not fit"),
            ("MOV R0, R256", "operand 2 does not fit"),
            ("FADD R0, R1, UR63", "operand 3 does not fit"),
            ("FADD R0, R1, UR200", "operand 3 does not fit"),
            ("ISETP.GE.AND P7, PT, R1, R2, PT", "operand 1 does not fit"),
        ],
    );
}

#[test]
fn immediates_at_the_edge() {
    expect_words(
        "sm_90a",
        &[
            (0x000fe20007ffe003ffffffff01007810, "IADD3 R0, R1, -0x1, R3"),
            (0x000fe200000e00000fffff0001007f89, "SHFL.BFLY PT, R0, R1, 0x1f, 0x1fff"),
            (0x000fe2000c1e19007fffff0402007981, "LDG.E R0, desc[UR4][R2.64+0x7fffff]"),
            (0x000fe2000c1e19008000000402007981, "LDG.E R0, desc[UR4][R2.64+-0x800000]"),
            (0x000fe200000008007fffff0001007984, "LDS R0, [R1+0x7fffff]"),
        ],
    );
    expect_as(
        "sm_90a",
        &[
            ("IADD3 R0, R1, 0xffffffff, R3", 0x000fe20007ffe003ffffffff01007810, "IADD3 R0, R1, -0x1, R3"),
            ("MOV R0, -0x1", 0x000fe20000000f00ffffffff00007802, "MOV R0, 0xffffffff"),
        ],
    );
}

#[test]
fn immediates_past_the_edge() {
    expect_none(
        "sm_90a",
        &[
            ("IADD3 R0, R1, 0x100000000, R3", "operand 3 does not fit"),
            ("IADD3 R0, R1, -0x80000001, R3", "operand 3 does not fit"),
            ("SHFL.BFLY PT, R0, R1, 0x10, 0x2000", "operand 5 does not fit"),
            ("LEA R0, R1, R2, -0x1", "operand 4 does not fit"),
            ("LDG.E R0, desc[UR4][R2.64+0x800000]", "operand 2 does not fit"),
            ("LDG.E R0, desc[UR4][R2.64+0xffffff]", "operand 2 does not fit"),
            ("LDG.E R0, desc[UR4][R2.64+-0x800001]", "operand 2 does not fit"),
            ("LDS R0, [R1+0x800000]", "operand 2 does not fit"),
        ],
    );
}

#[test]
fn misaligned_offsets_and_banks() {
    expect_none(
        "sm_80",
        &[
            ("FADD R0, R1, c[0x0][0x162]", "operand 3 does not fit"),
            ("FADD R0, R1, c[0x20][0x160]", "operand 3 does not fit"),
            ("FADD R0, R1, c[0x0][0x10000]", "operand 3 does not fit"),
        ],
    );
}

#[test]
fn modifiers_that_no_form_has() {
    expect_none("sm_90a", &[("MOV.SAT R0, R1", ".SAT is no modifier of"), ("FADD.WIDE R0, R1, R2", ".WIDE is no modifier of")]);
    let message = try_encode("sm_90a", "FADD.SAT.FTZ R0, R1, R2").expect_err("order of modifiers");
    assert!(message.contains("these modifiers do not go together in the nearest form, FADD"), "{message}");
}

#[test]
fn wrong_number_of_operands() {
    expect_none("sm_90a", &[("FADD R0, R1", "its 2 operands are too few"), ("FADD R0, R1, R2, R3", "operand 4 does not fit")]);
}

#[test]
fn instruction_that_a_target_does_not_have() {
    assert_eq!(try_encode("sm_80", "VIADD R0, R1, R2"), Err("VIADD does not exist on sm_80".to_string()));
    assert_eq!(try_encode("sm_75", "LDGSTS.E [R7], [R2.64]"), Err("LDGSTS does not exist on sm_75".to_string()));
    assert_eq!(try_encode("sm_80", "IADD R0, R1, R2"), Err("IADD does not exist on sm_80".to_string()));
    expect_words("sm_120", &[(0x000fe200078e00000000000201007235, "IADD R0, R1, R2")]);
}

#[test]
fn form_that_a_target_does_not_have() {
    expect_none("sm_100", &[("FFMA R0, R1, c[0x0][0x160], R3", "operand 3 does not fit")]);
}

/// An instruction changed by [`settle`] agrees with its encoded word: the same accesses, through the same reuse-cache slots.
#[test]
fn settled_instructions_are_those_of_their_words() {
    let texts = [
        "IADD3 R4, R5, R6, R7",
        "IADD3 R4, P0, R5, R6, R7",
        "IADD3 R4, R5, 0x10, R7",
        "FFMA R4, R5, R6, R7",
        "FADD R4, 1, R6",
        "FMUL R4, c[0x0][0x160], R6",
        "LOP3.LUT R4, R5, R6, R7, 0x96, !PT",
        "@!P2 IMAD.WIDE.U32 R4, R6, R7, R8",
        "HFMA2.MMA R4, R5, R6, R7",
        "DFMA R4, R6, R8, R10",
        "SEL R4, R5, R6, P1",
        "ISETP.GT.AND P0, PT, R4, R5, PT",
        "LDG.E R4, desc[UR4][R2.64+0x10]",
    ];
    let slots = |instruction: &Instruction| -> Vec<_> {
        let slot = |access: &oriole_isa::Access| access.operand().and_then(|operand| instruction.reuse_slot(operand));
        accesses(instruction).iter().map(|access| (access.file, access.first, access.count, access.written, slot(access))).collect()
    };
    for name in ["sm_80", "sm_90a", "sm_120a"] {
        for text in texts {
            let Ok(word) = try_encode(name, text) else { continue };
            let mut settled = parse(text).expect(text);
            assert_eq!(settle(&mut settled, target(name)).ok(), Some(word), "{name} {text}");
            let decoded = decode(word, target(name)).expect(text);
            assert_eq!(slots(&settled), slots(&decoded), "{name} {text}");
        }
    }
    let mut wrong = parse("FADD R4, R5, 1").expect("an instruction");
    wrong.operands.clear();
    assert!(settle(&mut wrong, target("sm_90a")).is_err());
}

/// Fields as wide as a constant bank store its upper half as negative numbers. `LDCU` has one bit more.
#[test]
fn offsets_in_the_upper_half_of_a_bank() {
    let hopper = [
        (0x000f_e200_0000_0f00_00df_ff00_0000_7a02, "MOV R0, c[0x3][0x7ffc]"),
        (0x000f_e200_0000_0f00_00e0_0000_0000_7a02, "MOV R0, c[0x3][-0x8000]"),
        (0x000f_e200_0000_0800_00e0_0000_ff04_7b82, "LDC R4, c[0x3][-0x8000]"),
        (0x000f_e200_0000_0800_00df_ff00_0204_7b82, "LDC R4, c[0x3][R2+0x7ffc]"),
        (0x000f_e200_0800_0a00_00e0_0000_0806_7abb, "ULDC.64 UR6, c[0x3][UR8+-0x8000]"),
    ];
    expect_words("sm_90a", &hopper);
    expect_as(
        "sm_90a",
        &[
            ("MOV R0, c[0x3][0x8000]", hopper[1].0, hopper[1].1),
            ("LDC R4, c[0x3][0x8000]", hopper[2].0, hopper[2].1),
            ("LDC R4, c[0x3][RZ+0x8000]", hopper[2].0, hopper[2].1),
        ],
    );
    expect_words(
        "sm_100a",
        &[
            (0x000f_e200_0800_0800_00d0_0000_ff0c_77ac, "LDCU UR12, c[0x3][0x8000]"),
            (0x000f_e200_0800_0800_00f0_0000_0505_77ac, "LDCU UR5, c[0x3][UR5+-0x8000]"),
        ],
    );
    for text in ["MOV R0, c[0x3][0x10000]", "LDC R4, c[0x3][R2+0x8000]", "LDC R4, c[0x3][-0x8001]", "ULDC UR6, c[0x3][UR8+0x8000]"] {
        assert!(try_encode("sm_90a", text).is_err(), "{text}");
    }
    for text in ["LDCU UR5, c[0x3][0x10000]", "LDCU UR5, c[0x3][0x1fffc]"] {
        assert!(try_encode("sm_100a", text).is_err(), "{text}");
    }
}

/// The bits that ptxas writes for NaNs. nvdisasm prints no payload; the text with the payload parses to the same bits.
#[test]
fn nans_and_their_payloads() {
    expect_words(
        "sm_90a",
        &[
            (0x000f_e200_0000_1400_ffc0_0000_000f_7908, "MUFU.RSQ R15, -QNAN"),
            (0x000f_e200_0000_0000_7fff_ffff_0100_7421, "FADD R0, R1, +QNAN"),
            (0x000f_e200_0000_0000_7ff8_0000_0200_7429, "DADD R0, R2, +QNAN"),
            (0x000f_e200_0000_0000_fff8_0000_0200_7429, "DADD R0, R2, -QNAN"),
            (0x000f_e200_0000_0000_7f80_0000_0100_7421, "FADD R0, R1, +INF"),
            (0x000f_e200_0000_0000_fff0_0000_0200_7429, "DADD R0, R2, -INF"),
        ],
    );
    for (word, short, exact) in [
        (0x000f_e200_0400_0000_7ff0_0000_1503_7808, "FSEL R3, R21, +QNAN, !P0", "FSEL R3, R21, 0x7ff00000, !P0"),
        (0x000f_e200_0100_0000_fff0_0000_1917_7808, "FSEL R23, R25, -QNAN, P2", "FSEL R23, R25, 0xfff00000, P2"),
    ] {
        assert_eq!(print(word, target("sm_90a"), 0).as_deref(), Some(short));
        let mut text = String::new();
        assert!(print_exact(&mut text, word, target("sm_90a"), 0, &mut |_| None));
        assert_eq!(text, exact);
        assert_eq!(try_encode("sm_90a", exact), Ok(word));
    }
}
