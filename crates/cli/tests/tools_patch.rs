//! `--compile-as-tools-patch`: functions that tools insert into other programs. What is expected was seen with ptxas 13.0.88; where it is
//! there, the same checks run on its files.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{folder, run};
use oriole_cubin::info::{AttributeCode, AttributeValue};
use oriole_cubin::{Cubin, FileType};

const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");
const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

const HEADER: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

/// A visible function with a call, a load, a store and an atomic operation; a function that it calls; one that nothing calls.
const PATCH: &str = "
.global .align 4 .b32 counter;
.func (.param .b32 r) hidden(.param .b32 a)
{
    .reg .b32 %r<4>;
    ld.param.u32 %r1, [a];
    mad.lo.s32 %r2, %r1, %r1, %r1;
    st.param.b32 [r], %r2;
    ret;
}
.visible .func (.param .b32 r) patch(.param .b32 a, .param .b64 p)
{
    .reg .b32 %r<8>; .reg .b64 %rd<3>;
    ld.param.u32 %r1, [a];
    ld.param.u64 %rd1, [p];
    ld.u32 %r2, [%rd1];
    ld.global.v2.u32 {%r5, %r6}, [%rd1+8];
    atom.global.add.u32 %r4, [counter], %r2;
    st.global.u32 [%rd1+16], %r5;
    { .param .b32 x; .param .b32 y; st.param.b32 [x], %r6; call.uni (y), hidden, (x); ld.param.b32 %r3, [y]; }
    add.u32 %r3, %r3, %r1;
    add.u32 %r3, %r3, %r4;
    st.param.b32 [r], %r3;
    ret;
}
.func lonely() { ret; }
";

/// Returns the programs to check: Oriole's ptxas, and NVIDIA's if it is there.
fn programs() -> Vec<PathBuf> {
    [Some(PathBuf::from(PTXAS)), oriole_oracles::tool("ptxas")].into_iter().flatten().collect()
}

#[test]
fn all_functions_are_written_without_uniform_registers() {
    let folder = folder("tools_patch");
    fs::write(folder.join("in.ptx"), format!("{HEADER}{PATCH}")).unwrap();
    for program in programs() {
        for target in ["sm_75", "sm_80", "sm_86", "sm_90a", "sm_100a", "sm_120a"] {
            for level in ["-O0", "-O3"] {
                let place = format!("{program:?} {target} {level}");
                let arguments = ["-arch", target, level, "-astoolspatch", "in.ptx", "-o", "out.cubin"];
                let outcome = run(&program, &folder, &arguments, "");
                assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{place}");
                let cubin = Cubin::read(&fs::read(folder.join("out.cubin")).unwrap()).unwrap();
                assert_eq!(cubin.header.file_type, FileType::Executable, "{place}");
                check_functions(&cubin, &place);
                let listing = run(Path::new(ORIOLE), &folder, &["disasm", "out.cubin"], "").stdout;
                assert!(listing.contains("CALL.ABS") && !listing.contains("desc["), "{place}: {listing}");
                let words = listing.split(|character: char| !character.is_ascii_alphanumeric());
                let is_uniform = |word: &str| word.strip_prefix("UR").is_some_and(|number| number.parse::<u32>().is_ok());
                assert_eq!(words.filter(|word| is_uniform(word)).count(), 0, "{place}: {listing}");
                if program == Path::new(PTXAS) {
                    let verified = run(Path::new(ORIOLE), &folder, &["verify", "out.cubin"], "");
                    assert_eq!(verified.code, Some(0), "{place}: {}", verified.stdout);
                }
            }
        }
    }
}

/// Checks that each function is marked as a patch, has 24 registers and no prototype, and that no shared memory is reserved.
fn check_functions(cubin: &Cubin, place: &str) {
    for name in ["patch", "hidden", "lonely"] {
        let section = cubin.find(&format!(".nv.info.{name}")).unwrap_or_else(|| panic!("{place}: no {name}"));
        let attributes = cubin.section(section).and_then(|section| section.attributes()).unwrap();
        let mark = attributes.iter().find(|attribute| attribute.code == AttributeCode::TOOLS_PATCH_FUNC);
        assert_eq!(mark.map(|mark| &mark.value), Some(&AttributeValue::Flag), "{place}: {name}");
    }
    let info = cubin.find(".nv.info").and_then(|index| cubin.section(index)?.attributes()).unwrap();
    let counts: Vec<String> = info
        .iter()
        .filter(|attribute| attribute.code == AttributeCode::REGCOUNT)
        .map(|attribute| format!("{:?}", attribute.value))
        .collect();
    assert!(counts.len() == 3 && counts.iter().all(|count| count.contains("24")), "{place}: {counts:?}");
    for absent in [".nv.prototype", ".nv.shared.reserved.0", ".nv.constant4"] {
        assert!(cubin.find(absent).is_none(), "{place}: {absent}");
    }
}

/// Patches (functions that tools insert into other programs) with features that are not allowed in them are refused with ptxas' messages.
/// ptxas prints some of these as fatal errors.
#[test]
fn messages_have_the_words_of_ptxas() {
    let folder = folder("tools_patch_messages");
    let not_allowed = "is not allowed when command line option '--compile-as-tools-patch' is specified";
    let in_module = [
        (".const .b32 c = 4; .visible .func p() { ret; }", format!("Allocating additional constants {not_allowed}")),
        (".extern .shared .b32 c[]; .visible .func p() { ret; }", format!("Allocating additional shared memory {not_allowed}")),
        (".visible .entry k() { ret; }", format!("Entry function {not_allowed}")),
        (".visible .func (.reg .b64 %o) p() { mov.u64 %o, p; ret; }", format!("Taking address of device functions {not_allowed}")),
        (
            ".visible .func p(.reg .b64 %o) { pr: .callprototype _ (); call %o, (), pr; ret; }",
            format!("Using indirect function calls {not_allowed}"),
        ),
        (".extern .func other(); .visible .func p() { call other; ret; }", "Unresolved extern function 'other'".to_owned()),
    ];
    let by_option = [
        ("-c", "Conflicting options '--compile-only' and --compile-as-tools-patch specified"),
        ("-ewp", "Conflicting options '--extensible-whole-program' and --compile-as-tools-patch specified"),
        ("-maxrregcount=32", "Invalid value '32' of 'maxrregcount' with option '--compile-as-tools-patch'"),
    ];
    let by_option = by_option.map(|(option, text)| (".visible .func p() { ret; }", option, text.to_owned()));
    let cases = in_module.into_iter().map(|(ptx, text)| (ptx, "-v", text)).chain(by_option);
    for (ptx, option, text) in cases {
        fs::write(folder.join("in.ptx"), format!("{HEADER}{ptx}")).unwrap();
        for program in programs() {
            let outcome = run(&program, &folder, &["-arch=sm_90", "-astoolspatch", option, "in.ptx", "-o", "out.cubin"], "");
            assert_eq!(outcome.code, Some(255), "{program:?} {ptx} {option}");
            assert!(outcome.stderr.contains(&text), "{program:?} {ptx} {option}: {}", outcome.stderr);
        }
    }
}

/// An instruction that has no form without uniform registers is refused.
#[test]
fn instructions_that_need_uniform_registers_are_refused() {
    let folder = folder("tools_patch_redux");
    let ptx = ".visible .func (.reg .b32 %o) p(.reg .b32 %i) { redux.sync.add.s32 %o, %i, -1; ret; }";
    fs::write(folder.join("in.ptx"), format!("{}{ptx}", HEADER.replace("sm_75", "sm_80"))).unwrap();
    for program in programs() {
        let outcome = run(&program, &folder, &["-arch=sm_90", "-astoolspatch", "in.ptx", "-o", "out.cubin"], "");
        assert_eq!(outcome.code, Some(255), "{program:?}");
        assert!(outcome.stderr.to_lowercase().contains("redux"), "{program:?}: {}", outcome.stderr);
    }
}
