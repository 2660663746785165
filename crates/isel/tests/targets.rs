//! Checks that targets refuse what they cannot do, and the source lines of instructions. `filetests/isel` has the selected code of small
//! programs.

use crate::common::{Outcome, read, select};
use oriole_ir::{Function, Inst, Opcode};
use oriole_isa::Target;
use oriole_isel::Linking;
use oriole_ptx::ast::Module;

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

/// Returns all instructions with an opcode.
fn all(code: &Function, opcode: Opcode) -> Vec<Inst> {
    let insts = code.layout.iter().flat_map(|&block| &code.blocks[block].insts);
    insts.copied().filter(|&inst| code.insts[inst].is_machine(opcode)).collect()
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
