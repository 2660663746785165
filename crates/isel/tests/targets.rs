//! Checks the code of instructions that the interpreter in `machine` does not support, and errors for unsupported input.
//!
//! The expected machine instructions are those in the listings of ptxas 13.0 for the same PTX.

mod common;

use common::{Outcome, read, select};
use oriole_ir::{Function, Inst, Op, Opcode, Operand, OperandKind};
use oriole_isa::{SystemLayout, Target};
use oriole_isel::{Layout, Linking, select_function};
use oriole_ptx::ast::{FunctionId, Module};
use oriole_support::Index;

/// Returns a module with a kernel that has the parameters p (64 bits), a, b and c (32 bits each), each loaded into a register of the same
/// name.
fn kernel(target: &str, body: &str) -> Module {
    let text = format!(
        ".version 9.0\n.target {target}\n.address_size 64\n\
         .entry k(.param .u64 p, .param .b32 a, .param .b32 b, .param .b32 c)\n{{\n.reg .b64 %p, %d<9>;\n.reg .b32 %a, %b, %c, %r<9>;\n\
         .reg .b16 %h<9>;\nld.param.u64 %p, [p];\nld.param.b32 %a, [a];\nld.param.b32 %b, [b];\nld.param.b32 %c, [c];\n{body}\n}}\n"
    );
    read(&text).unwrap_or_else(|| panic!("not valid:\n{text}"))
}

/// Selects a kernel with this body.
fn code(target: &str, body: &str) -> Function {
    match select(&kernel(target, body), 0, Target::parse(target).unwrap(), Linking::Whole) {
        Outcome::Code(code) => *code,
        other => panic!("{target}: {body}: {other:?}"),
    }
}

/// Returns all instructions with an opcode.
fn all(code: &Function, opcode: Opcode) -> Vec<Inst> {
    let insts = code.layout.iter().flat_map(|&block| &code.blocks[block].insts);
    insts.copied().filter(|&inst| code.insts[inst].is_machine(opcode)).collect()
}

/// Returns the only instruction with an opcode.
fn only(code: &Function, opcode: Opcode) -> Inst {
    let found = all(code, opcode);
    assert_eq!(found.len(), 1, "{}", oriole_ir::text::print(code));
    found[0]
}

/// Returns the offset in constant bank 0 from which a source was loaded, following copies.
fn origin(code: &Function, operand: Operand) -> Option<u32> {
    let part = match operand.kind {
        OperandKind::Constant { bank: 0, offset } => return Some(offset),
        OperandKind::Value(part) => part,
        _ => return None,
    };
    let defines = |inst: &Inst| {
        code.results(*inst).iter().any(|result| matches!(result.kind, OperandKind::Value(other) if other.value == part.value))
    };
    let inst = code.layout.iter().flat_map(|&block| &code.blocks[block].insts).copied().find(defines)?;
    let is_copy = matches!(code.insts[inst].op, Op::Pseudo(_)) || matches!(code.insts[inst].op, Op::Machine(Opcode::MOV | Opcode::LDC));
    is_copy.then(|| code.sources(inst).iter().find_map(|&source| origin(code, source)))?
}

/// `F2FP.F16.F32.PACK_AB.RS R6, R8, R9, R6`: the numbers in the order of PTX, then the random bits.
#[test]
fn stochastic_rounding_takes_its_sources_in_order() {
    for ty in ["f16x2", "bf16x2"] {
        let code = code("sm_100a", &format!("cvt.rs.{ty}.f32 %r0, %a, %b, %c;\nst.global.b32 [%p], %r0;\nret;"));
        let inst = only(&code, Opcode::F2FP);
        let origins: Vec<Option<u32>> = code.sources(inst).iter().map(|&source| origin(&code, source)).collect();
        let first = SystemLayout::of(Target::parse("sm_100a").unwrap()).parameters;
        assert_eq!(origins, [8, 12, 16].map(|offset| Some(first + offset)), "{}", oriole_ir::text::print(&code));
    }
}

/// ptxas emits `FHFMA R19, R17, R17, R8` and `FHFMA.BF16 R17, R17, R17, R8`.
#[test]
fn mixed_precision_has_the_format_of_its_factors() {
    for (ty, expected) in [("f16", None), ("bf16", Some(".BF16"))] {
        let body = format!("mov.b32 {{%h0, %h1}}, %a;\nfma.rn.f32.{ty} %r0, %h0, %h1, %b;\nst.global.b32 [%p], %r0;\nret;");
        let code = code("sm_100a", &body);
        let inst = only(&code, Opcode::FHFMA);
        let format = code.insts[inst].modifiers.iter().map(|symbol| symbol.spelling()).find(|name| name.ends_with("16"));
        assert_eq!(format, expected, "{ty}");
    }
}

/// ptxas emits `LDG.E.ENL2.256 RZ, R4, desc[UR14][R2.64], 0xc` to load the second of four elements: the mask has a bit for each word.
#[test]
fn wide_loads_name_the_words_that_are_wanted() {
    let masks = [("v4.b64 {_, %d1, _, _}", 0x0c), ("v4.b64 {_, _, %d1, %d2}", 0xf0), ("v8.b32 {_, %r1, _, _, _, _, %r2, _}", 0x42)];
    for (load, mask) in masks {
        let (ty, list) = load.split_once(' ').unwrap();
        let code = code("sm_100a", &format!("ld.global.{ty} {list}, [%p];\nst.global.b64 [%p], %d1;\nret;"));
        let found = code.sources(only(&code, Opcode::LDG)).last().unwrap().integer();
        assert_eq!(found, Some(mask), "{load}");
    }
}

/// Without `.aligned`, threads of a warp may arrive at `barrier.sync` separately. At the start of a kernel the warp is still converged, so
/// the code is the same as with `.aligned`: one instruction (`BAR.SYNC.DEFER_BLOCKING 0x0`).
#[test]
fn barriers_at_entry_find_the_warp_converged() {
    let opcodes = |body: &str| {
        let code = code("sm_90", body);
        let insts: Vec<Op> = code.layout.iter().flat_map(|&block| &code.blocks[block].insts).map(|&inst| code.insts[inst].op).collect();
        insts
    };
    let aligned = opcodes("barrier.sync.aligned 0;\nret;");
    assert_eq!(aligned.iter().filter(|op| **op == Op::Machine(Opcode::BAR)).count(), 1);
    assert_eq!(opcodes("barrier.sync 0;\nret;"), aligned);
    let branch = "{\n.reg .pred %q;\nsetp.eq.u32 %q, %a, 1;\n@%q bra L;\nst.global.b32 [%p], %a;\nL:\n";
    assert_ne!(opcodes(&format!("{branch}barrier.sync 0;\nret;\n}}")), opcodes(&format!("{branch}barrier.sync.aligned 0;\nret;\n}}")));
}

/// The end of a device function's body returns (`RET.ABS.NODEC R20 0x0`), that of a kernel's body exits.
#[test]
fn bodies_without_ret_end() {
    let module = module_without_ret();
    let layout = Layout::new(&module, Linking::Whole).unwrap();
    let selected = |number: usize| {
        let id = FunctionId::new(number);
        select_function(&module, id, Target::parse("sm_90").unwrap(), &layout.variables_of(&module, id))
            .unwrap_or_else(|errors| panic!("{}", errors[0]))
    };
    let ends = |code: &Function| [Opcode::RET, Opcode::EXIT].map(|opcode| all(code, opcode).len());
    assert_eq!(ends(&selected(0).function), [1, 0]);
    assert_eq!(ends(&selected(1).function), [0, 1]);
}

fn module_without_ret() -> Module {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.global .b32 g;\n\
                .visible .func f()\n{\nst.global.b32 [g], 7;\n}\n.entry k()\n{\nst.global.b32 [g], 8;\n}\n";
    read(text).unwrap_or_else(|| panic!("not valid"))
}

/// Matrix shapes that PTX has and Oriole does not support give an error, not the code of another shape.
#[test]
fn unsupported_shapes_of_matrices_are_refused() {
    let forms = [
        "ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {%r0, %r1}, [%a];",
        "ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {%r0}, [%a];",
        "stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%a], {%b};",
    ];
    for form in forms {
        let outcome = select(&kernel("sm_100a", &format!("{form}\nret;")), 0, Target::parse("sm_100a").unwrap(), Linking::Whole);
        assert!(matches!(&outcome, Outcome::Unsupported(why) if why.contains("matrix")), "{form}: {outcome:?}");
    }
}

/// Cache policies are memory descriptors, which sm_75 does not have.
#[test]
fn cache_policies_need_descriptors() {
    let body =
        "createpolicy.fractional.L2::evict_last.b64 %d0;\nld.global.L2::cache_hint.b32 %r0, [%p], %d0;\nst.global.b32 [%p], %r0;\nret;";
    let module = kernel("sm_80", body);
    let outcome = |name: &str| select(&module, 0, Target::parse(name).unwrap(), Linking::Whole);
    assert!(matches!(outcome("sm_80"), Outcome::Code(_)));
    assert!(matches!(&outcome("sm_75"), Outcome::Unsupported(why) if why.contains("cache_hint")), "{:?}", outcome("sm_75"));
}

/// The line of an instruction is the number of the preceding `.loc` directive in its body, counted from 1; 0 if there is none.
#[test]
fn instructions_have_the_line_of_the_directive_before_them() {
    let text = ".version 8.0\n.target sm_90\n.address_size 64\n.file 1 \"a.cu\"\n.global .b32 g[3];\n.entry k()\n{\n\
                st.global.b32 [g], 1;\n.loc 1 30 0\nst.global.b32 [g+4], 2;\n.loc 1 10 0\nst.global.b32 [g+8], 3;\nret;\n}\n";
    let module = read(text).unwrap_or_else(|| panic!("not valid"));
    let Outcome::Code(code) = select(&module, 0, Target::parse("sm_90").unwrap(), Linking::Whole) else { panic!("not selected") };
    let lines: Vec<u32> = all(&code, Opcode::STG).into_iter().map(|inst| code.insts[inst].location.line).collect();
    assert_eq!(lines, [0, 1, 2]);
}
