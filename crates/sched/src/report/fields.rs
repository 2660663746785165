//! Maps each instruction to the field of the statistics lines that it counts for.
//!
//! The field names are those of a published description of ptxas. Before register allocation the fields are kinds of work, afterwards they
//! are hardware pipes. Where the description does not say what belongs to a pipe, NVIDIA's Nsight Compute guide does ("Hardware Model",
//! pipelines): constant loads and block barriers belong to the address divergence unit, conversions to the transcendental unit.
//!
//! Instructions for warp-group matrix products and tensor memory are newer than the names and have no field. They count only in the total.

use oriole_hardware::SchedClass;
use oriole_isa::{Opcode, Symbol};

use crate::backend::AllocationStage;

/// For each scheduling class, the field of the statistics lines that counts its instructions: before register allocation, and after it. `-`
/// means no field; `mma` means that [`FIELDS_OF_MATRIX_OPCODES`] has the field.
const FIELDS_OF_CLASSES: &[(&str, &str, &str)] = &[
    ("alu", "fp", "alu"),
    ("compare", "fp", "alu"),
    ("select", "fp", "alu"),
    ("fast_convert", "fp", "alu"),
    ("alu64", "fp", "alu"),
    ("small_add", "fp", "fma"),
    ("vote", "fp", "alu"),
    ("to_all_predicates", "fp", "alu"),
    ("wide_move", "fp", "alu"),
    ("fma", "fp", "fma"),
    ("multiply", "fp", "fma"),
    ("wide_multiply", "fp", "fma"),
    ("high_multiply", "fp", "fma"),
    ("swizzle_add", "fp", "fma"),
    ("half", "half", "half"),
    ("half_compare", "half", "half"),
    ("half_wide", "half", "half"),
    ("half_tensor", "half", "half"),
    ("double", "fp", "fma64"),
    ("mma_small", "-", "mma"),
    ("mma_one", "-", "mma"),
    ("mma_two", "-", "mma"),
    ("mma_half", "-", "mma"),
    ("imma_one", "-", "mma"),
    ("imma_two", "-", "mma"),
    ("mma_double", "-", "mma"),
    ("mma_double_wide", "-", "mma"),
    ("mma_group", "-", "-"),
    ("tensor_sync", "-", "-"),
    ("tensor_memory", "-", "-"),
    ("tensor_product", "-", "-"),
    ("tensor_allocation", "-", "-"),
    ("special", "trancedental", "trancedental"),
    ("convert", "trancedental", "trancedental"),
    ("special64", "trancedental", "trancedental"),
    ("lanes", "shared", "lsu"),
    ("redux", "-", "redux"),
    ("system", "loadStore", "lsu"),
    ("barrier_result", "loadStore", "lsu"),
    ("query", "loadStore", "lsu"),
    ("load_global", "loadStore", "lsu"),
    ("load_generic", "loadStore", "lsu"),
    ("load_local", "loadStore", "lsu"),
    ("load_shared", "shared", "lsu"),
    ("load_constant", "loadStore", "adu"),
    ("store_global", "loadStore", "lsu"),
    ("store_generic", "loadStore", "lsu"),
    ("store_local", "loadStore", "lsu"),
    ("store_shared", "shared", "lsu"),
    ("copy", "loadStore", "lsu"),
    ("atomic_global", "loadStore", "lsu"),
    ("atomic_shared", "shared", "lsu"),
    ("cache", "loadStore", "lsu"),
    ("fence", "loadStore", "lsu"),
    ("order", "controlFlow", "schedDisp"),
    ("texture", "tex", "tex"),
    ("surface", "tex", "tex"),
    ("bulk", "loadStore", "lsu"),
    ("barrier", "controlFlow", "adu"),
    ("sync", "shared", "lsu"),
    ("sync_exchange", "shared", "lsu"),
    ("branch", "controlFlow", "cbu"),
    ("converge", "controlFlow", "cbu"),
    ("barrier_move", "controlFlow", "cbu"),
    ("warp_sync", "controlFlow", "cbu"),
    ("nothing", "controlFlow", "schedDisp"),
    ("yield", "controlFlow", "schedDisp"),
    ("uniform", "-", "udp"),
    ("uniform_constant", "-", "udp"),
    ("uniform_load", "-", "udp"),
    ("uniform_move", "-", "udp"),
    ("uniform_vote", "-", "udp"),
    ("to_uniform", "fp", "alu"),
    ("system_uniform", "loadStore", "lsu"),
    ("uniform_far", "-", "udp"),
    ("clock_uniform", "-", "udp"),
];

/// Fields of the statistics lines that count matrix-multiply instructions after register allocation, as (opcode, required modifiers,
/// field). The first matching row applies.
const FIELDS_OF_MATRIX_OPCODES: &[(Opcode, &[&str], &str)] = &[
    (Opcode::DMMA, &[], "dmma"),
    (Opcode::IMMA, &[".SP", ".16832"], "immaSp16832"),
    (Opcode::IMMA, &[".SP", ".16864"], "immaSp16832"),
    (Opcode::IMMA, &[".SP"], "immaSp8832"),
    (Opcode::IMMA, &[".16832"], "imma16832"),
    (Opcode::IMMA, &[".16864"], "imma16832"),
    (Opcode::IMMA, &[], "imma16816"),
    (Opcode::HMMA, &[".SP", ".F16"], "hmmaSp1688f16"),
    (Opcode::HMMA, &[".SP"], "hmmaSp1688"),
    (Opcode::HMMA, &[".16816", ".F16"], "hmma16816f16"),
    (Opcode::HMMA, &[".16816"], "hmma16816"),
    (Opcode::HMMA, &[".F16"], "hmma1688f16"),
    (Opcode::HMMA, &[], "hmma1688"),
];

/// Opcodes of packed single-precision operations, which occupy both halves of the multiply-add pipe (field `fma2x`).
const PACKED_SINGLE_OPCODES: [Opcode; 3] = [Opcode::FADD2, Opcode::FFMA2, Opcode::FMUL2];

/// Names of the fields that count instructions before register allocation, in the order in which the statistics lines print them.
pub(crate) const FIELDS_BEFORE_ALLOCATION: [&str; 8] = ["fp", "half", "trancedental", "ipa", "shared", "controlFlow", "loadStore", "tex"];
/// Names of the fields that count instructions after register allocation, in the order in which the statistics lines print them.
pub(crate) const FIELDS_AFTER_ALLOCATION: [&str; 26] = [
    "adu",
    "alu",
    "cbu",
    "fma2x",
    "fma",
    "half",
    "trancedental",
    "ipa",
    "lsu",
    "redux",
    "schedDisp",
    "tex",
    "ttu",
    "udp",
    "imma16816",
    "imma16832",
    "immaSp8832",
    "immaSp16832",
    "dmma",
    "fma64",
    "hmma16816",
    "hmma16816f16",
    "hmma1688",
    "hmma1688f16",
    "hmmaSp1688",
    "hmmaSp1688f16",
];

/// Returns the names of the fields that count instructions before or after register allocation, in the order in which the statistics lines
/// print them.
pub(crate) fn fields_of_stage(stage: AllocationStage) -> &'static [&'static str] {
    match stage {
        AllocationStage::Pre => &FIELDS_BEFORE_ALLOCATION,
        AllocationStage::Post => &FIELDS_AFTER_ALLOCATION,
    }
}

/// Returns the index in [`fields_of_stage`] of the statistics field that counts an instruction, or `None` if no field counts it.
pub(crate) fn statistics_field_index(stage: AllocationStage, class: SchedClass, opcode: Opcode, modifiers: &[Symbol]) -> Option<usize> {
    let row = FIELDS_OF_CLASSES.iter().find(|row| row.0 == class.name())?;
    let name = match stage {
        AllocationStage::Pre => row.1,
        AllocationStage::Post if PACKED_SINGLE_OPCODES.contains(&opcode) => "fma2x",
        AllocationStage::Post if row.2 == "mma" => matrix_field(opcode, modifiers)?,
        AllocationStage::Post => row.2,
    };
    fields_of_stage(stage).iter().position(|field| *field == name)
}

/// Returns the statistics field that counts a matrix-multiply instruction after register allocation; `None` if no field counts it.
fn matrix_field(opcode: Opcode, modifiers: &[Symbol]) -> Option<&'static str> {
    let has = |name: &&str| modifiers.iter().any(|modifier| modifier.spelling() == *name);
    FIELDS_OF_MATRIX_OPCODES.iter().find(|row| row.0 == opcode && row.1.iter().all(has)).map(|row| row.2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_hardware::Classes;
    use oriole_hardware::units::STATISTICS_PIPES;
    use oriole_isa::parse;

    #[test]
    fn every_class_has_one_row_and_every_name_is_known() {
        for class in Classes::get().all() {
            assert_eq!(FIELDS_OF_CLASSES.iter().filter(|row| row.0 == class.name()).count(), 1, "{}", class.name());
        }
        for (class, before, after) in FIELDS_OF_CLASSES {
            assert!(Classes::get().find(class).is_some(), "{class}");
            assert!(*before == "-" || FIELDS_BEFORE_ALLOCATION.contains(before), "{before}");
            assert!(["-", "mma"].contains(after) || FIELDS_AFTER_ALLOCATION.contains(after), "{after}");
        }
        for (opcode, modifiers, field) in FIELDS_OF_MATRIX_OPCODES {
            assert!(FIELDS_AFTER_ALLOCATION.contains(field), "{opcode:?} {field}");
            assert!(modifiers.iter().all(|modifier| Symbol::find(modifier).is_some()), "{opcode:?} {modifiers:?}");
        }
        let pipes: Vec<&str> = STATISTICS_PIPES.iter().map(|pipe| pipe.name).collect();
        assert_eq!(pipes, FIELDS_AFTER_ALLOCATION, "the hardware model lists the same pipes");
    }

    #[test]
    fn instructions_have_the_fields_of_the_description() {
        for (text, before, after) in [
            ("FFMA R0, R1, R2, R3", Some("fp"), Some("fma")),
            ("IADD3 R0, R1, R2, R3", Some("fp"), Some("alu")),
            ("DADD R0, R2, R4", Some("fp"), Some("fma64")),
            ("HADD2 R0, R1, R2", Some("half"), Some("half")),
            ("MUFU.RCP R0, R1", Some("trancedental"), Some("trancedental")),
            ("LDS R0, [R1]", Some("shared"), Some("lsu")),
            ("LDG.E R0, desc[UR4][R2.64]", Some("loadStore"), Some("lsu")),
            ("BAR.SYNC.DEFER_BLOCKING 0x0", Some("controlFlow"), Some("adu")),
            ("EXIT", Some("controlFlow"), Some("cbu")),
            ("UIADD3 UR4, UR5, UR6, URZ", None, Some("udp")),
            ("HMMA.16816.F32 R4, R8, R12, R4", None, Some("hmma16816")),
            ("HMMA.16816.F16 R4, R8, R12, R4", None, Some("hmma16816f16")),
        ] {
            let instruction = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            let class = SchedClass::of(&instruction);
            let field = |stage| {
                statistics_field_index(stage, class, instruction.opcode, &instruction.modifiers).map(|field| fields_of_stage(stage)[field])
            };
            assert_eq!((field(AllocationStage::Pre), field(AllocationStage::Post)), (before, after), "{text}");
        }
    }
}
