//! Checks the instructions and symbols of gradients that `TXD` cannot express, and of references in relocatable files. The expected
//! names and counts are those of the code that ptxas 13.0.88 generates for the same modules.

use oriole_cubin::Cubin;
use oriole_cubin::section::Content;
use oriole_driver::{Options, compile};
use oriole_isa::{Instruction, Opcode, OperandValue, Target, decode};

/// Returns a module with one fetch; `%t` is a texture, `%s` a sampler.
fn module(options: &str, fetch: &str) -> String {
    format!(
        ".version 8.0\n.target sm_75{options}\n.address_size 64\n.visible .entry k(.param .u64 out, .param .u64 t, .param .u64 s)\n{{\n\
         .reg .b64 %d, %t, %s; .reg .f32 %f<12>; .reg .b32 %r<4>; .reg .pred %p; .reg .b16 %h<4>;\n\
         ld.param.u64 %d, [out]; ld.param.u64 %t, [t]; ld.param.u64 %s, [s];\n\
         mov.u32 %r0, %tid.x; mov.b32 %f4, %r0; mov.b32 %f5, %r0; mov.b32 %f6, %r0;\n{fetch}\n\
         st.global.v4.f32 [%d], {{%f0, %f1, %f2, %f3}};\nret;\n}}\n"
    )
}

fn compiled(text: &str, target: &str, relocatable: bool, level: u8) -> Cubin {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}\n{text}", checked.diagnostics.first());
    let options = Options { relocatable, level, verify: true, ..Options::new(Target::parse(target).unwrap()) };
    let compiled = compile(&[&checked.module], &options).unwrap_or_else(|errors| panic!("{target}: {errors:?}\n{text}"));
    Cubin::read(&compiled.cubin).unwrap()
}

/// Returns the instructions of kernel `k`.
fn code(cubin: &Cubin, target: &str) -> Vec<Instruction> {
    let target = Target::parse(target).unwrap();
    let section = cubin.sections().iter().find(|section| section.name == ".text.k").unwrap();
    let Content::Bytes(bytes) = &section.content else { panic!("no code") };
    let words = bytes.chunks_exact(16).map(|chunk| u128::from_le_bytes(chunk.try_into().unwrap()));
    words.map(|word| decode(word, target).unwrap()).collect()
}

fn has(instruction: &Instruction, opcode: Opcode, modifier: &str) -> bool {
    instruction.opcode == opcode && instruction.modifiers.iter().any(|one| one.spelling() == modifier)
}

const RESULT: &str = "{%f0, %f1, %f2, %f3}";
const PLACE: &str = "{%f4, %f5, %f6, %f6}";
const SIDES: &str = "{%f4, %f5, %f6, %f6}, {%f5, %f6, %f4, %f4}";

/// Fetches, with the function of the CUDA driver that ptxas calls since Hopper, and with the words after the handle before.
fn gradients() -> Vec<(String, &'static str, &'static str, u32)> {
    let deep = |head: &str, rest: &str| format!("tex.grad.{head} {RESULT}, [%t, {PLACE}], {SIDES}{rest};");
    let indexed = format!("tex.grad.acube.v4.f32.f32 {RESULT}, [%t, {{%r0, %f4, %f5, %f6}}], {SIDES}, %f4;");
    let flat = format!("tex.grad.2d.v4.f32.f32 {RESULT}|%p, [%t, %s, {{%f4, %f5}}], {{%f4, %f5}}, {{%f5, %f4}}, {{%r0, 3}}, %f6;");
    vec![
        (deep("3d.v4.f32.f32", ""), "", "3d_v4_f32_f32", 0),
        (deep("3d.v4.f32.f32", ", {%r0, %r0, 3, 0}"), "", "3d_v4_f32_f32_offset", 1),
        (deep("cube.v4.f32.f32", ""), "", "cube_v4_f32_f32", 0),
        (indexed, "", "acube_v4_f32_f32_depth_compare", 1),
        (flat, ", texmode_independent", "pred_2d_v4_f32_f32_texmode_independent_offset_depth_compare", 2),
    ]
}

#[test]
fn since_hopper_gradients_call_the_driver() {
    for (fetch, options, name, _) in gradients() {
        for target in ["sm_90", "sm_90a", "sm_100a", "sm_120"] {
            let text = module(options, &fetch);
            for level in [0, 3] {
                let cubin = compiled(&text, target, false, level);
                let wanted = format!("__cuda_syscall_tex_grad_{name}");
                assert!(cubin.symbols().iter().any(|symbol| symbol.name == wanted), "{target}: {wanted}");
                let calls = code(&cubin, target).iter().filter(|one| one.opcode == Opcode::CALL).count();
                assert_eq!(calls, 1, "{target}: {fetch}");
            }
        }
    }
}

#[test]
fn before_hopper_quads_fetch_four_times() {
    for (fetch, options, _, words) in gradients() {
        for target in ["sm_75", "sm_80", "sm_89"] {
            for level in [0, 1, 3] {
                let text = module(options, &fetch);
                let code = code(&compiled(&text, target, false, level), target);
                let fetches: Vec<&Instruction> = code.iter().filter(|one| has(one, Opcode::TEX, ".NDV")).collect();
                assert_eq!(fetches.len(), 4, "{target}: {fetch}");
                let modifiers = [".AOFFI", ".DC"].iter().filter(|modifier| has(fetches[0], Opcode::TEX, modifier)).count();
                assert_eq!(modifiers as u32, words, "{target}: {fetch}");
                // Whole quads are active between the second of these and the last change of the active threads.
                let quads = code.iter().filter(|one| has(one, Opcode::BMOV, ".PQUAD")).count();
                assert_eq!(quads, 2, "{target}: {fetch}");
                // What is saved is restored, in threads that do not take part, except the mark.
                let count = |opcode| code.iter().filter(|one| one.opcode == opcode).count();
                assert_eq!((count(Opcode::STL), count(Opcode::LDL)), (18, 18), "{target}: {fetch}");
                assert_eq!(count(Opcode::CALL), 0);
            }
        }
    }
}

#[test]
fn relocatable_files_leave_the_words_of_references_to_the_linker() {
    let text = ".version 8.0\n.target sm_75\n.address_size 64\n.global .texref image;\n.visible .entry k(.param .u64 out)\n{\n\
                .reg .b64 %d; .reg .f32 %f<4>;\nld.param.u64 %d, [out];\nld.global.f32 %f0, [%d];\n\
                tex.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [image, {%f0, %f0}];\nst.global.f32 [%d], %f2;\nret;\n}\n";
    for target in ["sm_75", "sm_80", "sm_90", "sm_100a"] {
        let cubin = compiled(text, target, true, 3);
        let image = cubin.symbols().iter().position(|symbol| symbol.name == "image").unwrap();
        // Type 10 is that of textures; the symbol has no section.
        assert_eq!((cubin.symbols()[image].symbol_type, cubin.symbols()[image].binding), (10, 1), "{target}");
        let relocations = cubin
            .sections()
            .iter()
            .filter(|section| section.name.ends_with(".text.k"))
            .filter_map(|section| if let Content::Relocations(list) = &section.content { Some(list) } else { None });
        let of_image: Vec<String> =
            relocations.flatten().filter(|one| one.symbol as usize == image).map(|one| format!("{:?}", one.relocation_type)).collect();
        assert_eq!(of_image, ["R_CUDA_CONST_FIELD21_38"], "{target}");
        // Only z is read.
        let code = code(&cubin, target);
        let fetch = code.iter().find(|one| one.opcode == Opcode::TEX).unwrap();
        assert_eq!(fetch.operands.last().map(|operand| format!("{:?}", operand.value)), Some("Integer(4)".into()), "{target}");
    }
}

/// A thread that fetches for others keeps its registers in the 80 bytes below its stack pointer, also while it is elsewhere in the program.
/// Memory of `alloca` must therefore start below them.
#[test]
fn dynamic_memory_leaves_room_for_the_registers_of_quads() {
    let fetch = format!(
        "cvt.u64.u32 %s, %r0; alloca.u64 %s, %s; st.local.u32 [%s], %r0;\ntex.grad.3d.v4.f32.f32 {RESULT}, [%t, {PLACE}], {SIDES};"
    );
    for target in ["sm_75", "sm_89"] {
        let instructions = code(&compiled(&module("", &fetch), target, false, 0), target);
        assert!(instructions.iter().any(|one| has(one, Opcode::TEX, ".NDV")), "{target}: {instructions:#?}");
        // R1 - 0x50 - size, in one instruction or in two.
        let is_number = |value: &OperandValue| matches!(value, OperandValue::Integer(number) if *number as u32 == 0x50_u32.wrapping_neg());
        let lowers = |one: &&Instruction| one.opcode == Opcode::IADD3 && one.operands.iter().any(|operand| is_number(&operand.value));
        assert_eq!(instructions.iter().filter(lowers).count(), 1, "{target}: {instructions:#?}");
    }
}
