//! Locations and initial contents of variables, and control flow that the enumeration of forms does not cover.
//!
//! The expected locations follow from the sizes and alignments in the PTX manual. As in ptxas, dynamic shared memory starts after the
//! static variables, at its own alignment.

use crate::common::{Outcome, TARGETS, read, select};
use oriole_isa::{Opcode, Target};
use oriole_isel::{Layout, Linking, VariableLocation};
use oriole_ptx::ast::{FunctionId, Module, VariableId};
use oriole_support::Index;

const HEAD: &str = ".version 8.4\n.target sm_90\n.address_size 64\n";

fn module(text: &str) -> Module {
    let text = format!("{HEAD}{text}");
    read(&text).unwrap_or_else(|| panic!("not valid:\n{text}"))
}

fn target(name: &str) -> Target {
    Target::parse(name).unwrap()
}

fn variable(module: &Module, name: &str) -> VariableId {
    let position = module.variables.iter().position(|variable| module.name(variable.name) == name);
    VariableId::new(position.unwrap_or_else(|| panic!("no variable {name}")))
}

fn function(module: &Module, name: &str) -> FunctionId {
    let position = module.functions.iter().position(|function| module.name(function.name) == name && function.body.is_some());
    FunctionId::new(position.unwrap_or_else(|| panic!("no function {name}")))
}

#[test]
fn parameters_frame_and_shared_memory() {
    let module = module(
        ".shared .b8 bytes[5];\n.shared .align 16 .b8 wide[32];\n.shared .b32 unused;\n.extern .shared .align 16 .b8 dynamic[];\n\
         .entry k(.param .u8 a, .param .u64 b, .param .align 16 .b8 c[16], .param .align 8 .b8 d[12]) {\n\
         .local .b8 x[3];\n.local .b64 y;\n.reg .b32 %r<3>;\n.reg .b64 %d;\n\
         ld.shared.u8 %r0, [bytes];\nst.shared.u32 [wide+4], %r0;\nst.shared.u32 [dynamic], %r0;\n\
         st.local.u8 [x], %r0;\nld.local.u64 %d, [y];\nret;\n}\n",
    );
    let layout = Layout::new(&module, Linking::Whole).unwrap();
    let variables = layout.variables_of(&module, function(&module, "k"), target("sm_100"));
    let home = |name| variables.get(variable(&module, name)).cloned();
    assert_eq!(["a", "b", "c", "d"].map(home), [0, 8, 16, 32].map(|offset| Some(VariableLocation::Parameter(offset))));
    assert_eq!(variables.parameter_bytes, 44);
    assert_eq!([home("x"), home("y")], [Some(VariableLocation::Local(0)), Some(VariableLocation::Local(8))]);
    assert_eq!((variables.frame_bytes, variables.frame_align), (16, 8));
    assert_eq!([home("bytes"), home("wide")], [Some(VariableLocation::Shared(0)), Some(VariableLocation::Shared(16))]);
    assert_eq!(home("unused"), None);
    assert_eq!(home("dynamic"), Some(VariableLocation::Shared(48)));
    assert_eq!((variables.shared_bytes, variables.shared_align, variables.may_have_dynamic_shared), (48, 16, true));
}

#[test]
fn shared_variables_of_functions_have_one_place() {
    let module = module(
        ".shared .b32 own;\n.shared .b64 common;\n\
         .func f() {\n.reg .b64 %d;\nld.shared.u64 %d, [common];\nret;\n}\n\
         .entry calls() {\n.reg .b32 %r;\nld.shared.u32 %r, [own];\ncall f, ();\nret;\n}\n\
         .entry alone() {\n.reg .b32 %r;\nld.shared.u32 %r, [own];\nret;\n}\n",
    );
    let layout = Layout::new(&module, Linking::Whole).unwrap();
    let place = |name: &str, what: &str| {
        layout.variables_of(&module, function(&module, name), target("sm_90")).get(variable(&module, what)).cloned()
    };
    assert_eq!(place("f", "common"), Some(VariableLocation::Shared(0)));
    assert_eq!(layout.variables_of(&module, function(&module, "calls"), target("sm_90")).shared_bytes, 12);
    assert_eq!(layout.variables_of(&module, function(&module, "alone"), target("sm_90")).shared_bytes, 4);
    assert_eq!(place("calls", "own"), Some(VariableLocation::Shared(8)));
    assert_eq!(place("alone", "own"), Some(VariableLocation::Shared(0)));
}

/// ptxas 13.0.88 has the same offsets, sizes and alignments of the section.
#[test]
fn dynamic_shared_memory_starts_aligned_in_all_kernels_of_the_module() {
    for (declared, aligned_to, rounded) in [(1, 16, [0, 16, 32]), (4, 16, [0, 16, 32]), (16, 16, [0, 16, 32]), (64, 64, [0, 64, 64])] {
        let module = module(&format!(
            ".extern .shared .align {declared} .b8 dynamic[];\n.shared .b8 four[4];\n.shared .align 4 .b8 more[20];\n\
             .entry nothing() {{ ret; }}\n\
             .entry only() {{ .reg .b32 %r; ld.shared.u8 %r, [dynamic]; ret; }}\n\
             .entry small() {{ .reg .b32 %r; ld.shared.u8 %r, [four]; ld.shared.u8 %r, [dynamic]; ret; }}\n\
             .entry large() {{ .reg .b32 %r; ld.shared.u8 %r, [more]; ld.shared.u8 %r, [dynamic]; ret; }}\n"
        ));
        let layout = Layout::new(&module, Linking::Whole).unwrap();
        let [empty, small, large] = rounded;
        for (kernel, end) in [("nothing", empty), ("only", empty), ("small", small), ("large", large)] {
            let variables = layout.variables_of(&module, function(&module, kernel), target("sm_90"));
            let facts = (variables.shared_bytes, variables.shared_align, variables.may_have_dynamic_shared);
            assert_eq!(facts, (end, aligned_to, true), "{kernel} with an alignment of {declared}");
            let start = (kernel != "nothing").then_some(VariableLocation::Shared(end as u32));
            assert_eq!(variables.get(variable(&module, "dynamic")).cloned(), start, "{kernel} with an alignment of {declared}");
        }
    }
}

/// Kernels contain the variables of the device functions that they reach. Variables of device functions that no kernel reaches together
/// overlap.
#[test]
fn shared_variables_of_functions_that_no_kernel_reaches_together_overlap() {
    let function_with = |name: &str, variable: &str, calls: &str| {
        format!(".func {name}() {{\n.reg .b32 %r;\nld.shared.u32 %r, [{variable}];\n{calls}\nret;\n}}\n")
    };
    let kernel = |name: &str, body: &str| format!(".entry {name}() {{\n.reg .b32 %r;\n.reg .b64 %d;\n{body}\nret;\n}}\n");
    let text = format!(
        ".shared .b32 s[100];\n.shared .b32 t[100];\n.shared .b32 u[100];\n.shared .b32 own;\n.extern .shared .align 16 .b8 e[];\n{}{}{}{}{}{}{}{}",
        function_with("f", "s", ""),
        function_with("g", "t", ""),
        function_with("h", "u", "call f, ();"),
        function_with("dynamic", "e", ""),
        kernel("one", "call g, ();"),
        kernel("both", "call h, ();"),
        kernel("far", "call dynamic, ();\nld.shared.u32 %r, [own];"),
        kernel("further", "call dynamic, ();\ncall f, ();"),
    );
    let module = module(&text);
    let layout = Layout::new(&module, Linking::Whole).unwrap();
    let variables = |name: &str| layout.variables_of(&module, function(&module, name), target("sm_90"));
    let place = |name: &str, what: &str| variables(name).get(variable(&module, what)).cloned();
    assert_eq!(
        (place("f", "s"), place("g", "t"), place("h", "u")),
        (Some(VariableLocation::Shared(0)), Some(VariableLocation::Shared(0)), Some(VariableLocation::Shared(400)))
    );
    assert_eq!((variables("one").shared_bytes, variables("both").shared_bytes), (400, 800));
    // The dynamic array starts at the same offset in both kernels, after the static variables of each.
    assert_eq!(place("dynamic", "e"), Some(VariableLocation::Shared(400)));
    assert_eq!((variables("far").shared_bytes, variables("further").shared_bytes), (400, 400));
}

#[test]
fn first_bytes() {
    let module = module(
        ".global .align 8 .b32 table[2][3] = {{1, 2}, {-1, 0x10}};\n.global .v2 .f32 pair = {1.0, 0f40000000};\n\
         .const .b8 text[4] = {65, 66, 0};\n.const .u64 where = table+4;\n.global .u64 generic_where = generic(text);\n\
         .global .u64 offset = where;\n.global .u8 half[2] = {0xFF00(table), 0xFF(258)};\n.global .f64 zero[2];\n\
         .global .u8 bytes[3] = {0xFF(table), 0xFF000000(table), 0xFF00000000000000(table)};\n\
         .global .v2 .u32 pairs[2] = {{1, 0}, {2, 3}};\n.global .b128 wide = -3;\n",
    );
    let layout = Layout::new(&module, Linking::Whole).unwrap();
    let global = |name: &str| layout.globals.iter().find(|global| global.name == name).unwrap_or_else(|| panic!("no {name}"));
    let initial = |name: &str| global(name).initial.clone().unwrap();
    let words = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(initial("table").bytes, words(&[1, 2, 0, u32::MAX, 0x10]));
    assert_eq!(initial("pair").bytes, words(&[0x3f80_0000, 0x4000_0000]));
    assert_eq!(initial("offset").bytes, 8_u64.to_le_bytes());
    assert_eq!(initial("half").bytes, [0, 2]);
    assert_eq!(global("zero").initial, None);
    assert_eq!(global("zero").bytes, 16);

    let address = &initial("generic_where").addresses[0];
    assert_eq!((address.symbol.as_str(), address.addend, address.is_generic, address.bytes), ("text", 0, true, 8));
    let half = &initial("half").addresses[0];
    assert_eq!((half.symbol.as_str(), half.byte, half.bytes), ("table", Some(1), 1));
    let bytes = initial("bytes").addresses;
    assert_eq!(bytes.iter().map(|address| (address.offset, address.byte)).collect::<Vec<_>>(), [(0, Some(0)), (1, Some(3)), (2, Some(7))]);
    assert_eq!(initial("pairs").bytes, words(&[1, 0, 2, 3]));
    assert_eq!(initial("wide").bytes, words(&[u32::MAX - 2, u32::MAX, 0, 0]));

    assert_eq!(layout.constants_end, 16);
    let offsets: Vec<(&str, u32)> = layout.constants.iter().map(|constant| (constant.name.as_str(), constant.offset)).collect();
    assert_eq!(offsets, [("text", 0), ("where", 8)]);
    let data = layout.constants[1].initial.clone().unwrap();
    assert_eq!((data.bytes.as_slice(), data.addresses[0].addend), ([0_u8; 8].as_slice(), 4));
    assert_eq!(layout.addresses, ["table", "pair", "generic_where", "offset", "half", "zero", "bytes", "pairs", "wide"]);
}

/// Variables that another module defines get no location here.
#[test]
fn variables_of_other_modules() {
    let module = module(
        ".extern .global .b32 elsewhere;\n.global .b32 here;\n\
         .entry k() {\n.reg .b32 %r;\nld.global.u32 %r, [elsewhere];\nst.global.u32 [here], %r;\nret;\n}\n",
    );
    let layout = Layout::new(&module, Linking::Relocatable).unwrap();
    assert_eq!(layout.externs.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["elsewhere"]);
    let globals: Vec<(&str, u64)> = layout.globals.iter().map(|global| (global.name.as_str(), global.bytes)).collect();
    assert_eq!(globals, [("here", 4)]);
}

/// ptxas reserves no bytes for textures among variables and parameters. Words for the textures that the code uses come after the
/// parameters; those that device functions use have the same offsets in all kernels.
#[test]
fn textures_take_no_space_among_parameters() {
    let fetch = |name: &str| format!("tex.1d.v4.s32.s32 {{%a, %b, %c, %e}}, [{name}, {{%a}}];\n");
    let module = module(&format!(
        ".global .texref one;\n.global .texref two;\n.global .b32 word;\n\
         .func f() {{\n.reg .b32 %a, %b, %c, %e;\n{}ret;\n}}\n\
         .entry k(.param .texref image, .param .u32 p) {{\n.reg .b32 %a, %b, %c, %e;\n{}{}ret;\n}}\n\
         .entry l(.param .u64 p, .param .u8 q) {{\nret;\n}}\n",
        fetch("two"),
        fetch("image"),
        fetch("one"),
    ));
    let target = Target::parse("sm_90").unwrap();
    let mut layout = Layout::new(&module, Linking::Whole).unwrap();
    Layout::place_common_images(std::slice::from_mut(&mut layout), &[&module], target);
    assert_eq!(layout.addresses, ["word"]);
    let name = |id: VariableId| module.name(module.variables[id].name);
    let words = |function: usize| {
        let variables = layout.variables_of(&module, FunctionId::new(function), target);
        let words: Vec<(u32, &str)> = variables.images.placed().filter_map(|(offset, word)| Some((offset, name(word.image?)))).collect();
        (variables.parameter_bytes, words)
    };
    // Kernel l has nine bytes of parameters from 0x210 on.
    assert_eq!(words(0), (0, vec![(0x21c, "two")]));
    assert_eq!(words(1), (4, vec![(0x21c, "two"), (0x220, "image"), (0x224, "one")]));
    assert_eq!(words(2), (9, vec![(0x21c, "two")]));
    // In a relocatable file the linker places the words.
    let outcome = select(&module, 0, target, Linking::Relocatable);
    assert!(!matches!(&outcome, Outcome::Unsupported(_)), "{outcome:?}");
}

/// Local memory has no atomic operations. Without a state space, the variable's own space counts, so a generic access to its offset would
/// be wrong code. (ptxas 13.0 crashes on this module.)
#[test]
fn atomic_operations_on_local_variables_are_refused() {
    for instruction in ["atom.add.u32 %r, [l], 1;", "atom.add.u32 %r, [l+4], 1;", "red.add.u32 [l], 1;", "atom.cas.b32 %r, [l], 1, 2;"] {
        let module = module(&format!(".entry k() {{\n.local .align 4 .b32 l[2];\n.reg .b32 %r;\n{instruction}\nret;\n}}\n"));
        let outcome = select(&module, 0, Target::parse("sm_90").unwrap(), Linking::Whole);
        assert!(matches!(&outcome, Outcome::Unsupported(why) if why.contains("local memory")), "{instruction}: {outcome:?}");
    }
}

#[test]
fn variables_in_code_on_every_target() {
    let module = module(
        ".global .b32 g[4];\n.const .b32 c[4];\n.shared .b32 s[4];\n.shared .b32 many<4>;\n\
         .entry k(.param .u64 p) {\n.local .b32 l[4];\n.reg .b32 %r<9>;\n.reg .b64 %d<9>;\n\
         mov.u64 %d0, g;\nld.global.u32 %r0, [g+4];\nld.const.u32 %r1, [c+8];\nld.const.u32 %r2, [%d0];\nld.shared.u32 %r3, [s];\n\
         st.shared.u32 [many2], %r3;\ncvta.shared.u64 %d1, s;\ncvta.local.u64 %d2, l;\ncvta.const.u64 %d3, c;\nmov.u64 %d4, p;\n\
         ld.param.u32 %r4, [%d4+4];\nst.local.u32 [l+12], %r4;\nst.u64 [%d1+0x12345678], %d2;\nst.u64 [%d1], %d3;\nret;\n}\n",
    );
    for linking in [Linking::Whole, Linking::Relocatable] {
        for name in TARGETS {
            let outcome = select(&module, 0, Target::parse(name).unwrap(), linking);
            assert!(matches!(outcome, Outcome::Code(_)), "{name}: {outcome:?}");
        }
    }
}

#[test]
fn members_of_a_parameterized_variable_follow_one_another() {
    let module = module(".shared .align 8 .b32 many<3>;\n.entry k() {\n.reg .b32 %r;\nld.shared.u32 %r, [many2];\nret;\n}\n");
    let target = Target::parse("sm_80").unwrap();
    let Outcome::Code(code) = select(&module, 0, target, Linking::Whole) else { panic!("not selected") };
    let text = oriole_ir::text::print(&code);
    assert!(text.contains("LDS") && text.contains("0x10"), "{text}");
}

#[test]
fn branches_by_index_compare_once_for_each_level() {
    let labels: Vec<String> = (0..8).map(|number| format!("L{number}")).collect();
    let blocks: String = labels.iter().map(|label| format!("{label}:\nadd.u32 %r, %r, 1;\n")).collect();
    let module = module(&format!(
        ".entry k(.param .u32 p) {{\n.reg .b32 %r;\nld.param.u32 %r, [p];\nts: .branchtargets {};\nbrx.idx %r, ts;\n{blocks}ret;\n}}\n",
        labels.join(", ")
    ));
    for name in TARGETS {
        let Outcome::Code(code) = select(&module, 0, Target::parse(name).unwrap(), Linking::Whole) else { panic!("{name}: not selected") };
        let compares =
            code.layout.iter().flat_map(|&block| &code.blocks[block].insts).filter(|&&inst| code.insts[inst].is_machine(Opcode::ISETP));
        assert_eq!(compares.count(), 7, "{name}");
    }
}

#[test]
fn guarded_loops_are_branched_around() {
    let module = module(
        ".entry k(.param .u32 p) {\n.reg .b32 %r<3>;\n.reg .f32 %f<3>;\n.reg .pred %p;\nld.param.u32 %r0, [p];\nsetp.eq.u32 %p, %r0, 1;\n\
         @%p atom.shared.add.f32 %f0, [%r0], 0f3F800000;\n@!%p red.shared.add.f32 [%r0], %f0;\nst.shared.f32 [%r0], %f0;\nret;\n}\n",
    );
    for name in TARGETS {
        let outcome = select(&module, 0, Target::parse(name).unwrap(), Linking::Whole);
        let Outcome::Code(code) = outcome else { panic!("{name}: {outcome:?}") };
        let is_guarded_swap = |&&inst: &&oriole_ir::Inst| code.insts[inst].is_machine(Opcode::ATOMS) && code.insts[inst].guard.is_some();
        let guarded = code.layout.iter().flat_map(|&block| &code.blocks[block].insts).filter(is_guarded_swap);
        assert_eq!(guarded.count(), 0, "{name}");
    }
}
