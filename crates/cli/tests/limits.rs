//! Tests limits of targets and of the language, at the limit and one beyond, and declared sizes that exceed any memory.
//!
//! The messages are those of ptxas 13.0.88. With `ORIOLE_ORACLES` the same calls are made with ptxas, and both must agree.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::common::{Outcome, folder, run};

const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");
const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

const ABORTED: &str = "ptxas fatal   : Ptx assembly aborted due to errors\n";

/// A program and ptxas' messages about it; empty if it compiles.
struct Case {
    name: &'static str,
    /// PTX version, and declarations at module scope from the fourth line on.
    version: &'static str,
    top: String,
    parameters: String,
    body: String,
    options: &'static [&'static str],
    says: String,
}

impl Case {
    fn new(name: &'static str) -> Case {
        let (top, parameters, body, says) = Default::default();
        Case { name, version: "8.0", top, parameters, body, options: &[], says }
    }

    fn top(self, top: impl Into<String>) -> Case {
        Case { top: top.into(), ..self }
    }

    fn parameters(self, parameters: impl Into<String>) -> Case {
        Case { parameters: parameters.into(), ..self }
    }

    fn body(self, body: impl Into<String>) -> Case {
        Case { body: body.into(), ..self }
    }

    fn version(self, version: &'static str) -> Case {
        Case { version, ..self }
    }

    fn options(self, options: &'static [&'static str]) -> Case {
        Case { options, ..self }
    }

    /// Adds an error without a position, after which ptxas prints nothing more.
    fn says(self, message: &str) -> Case {
        Case { says: format!("{}ptxas error   : {message}\n", self.says), ..self }
    }

    /// Adds errors at a line of the text.
    fn says_at(self, line: u32, messages: &[&str]) -> Case {
        let lines: String = messages.iter().map(|message| format!("ptxas k.ptx, line {line}; error   : {message}\n")).collect();
        Case { says: format!("{lines}{ABORTED}"), ..self }
    }

    /// Returns the text: parameters are on line 5, the body is on line 8, the last brace is on line 10.
    fn text(&self, target: &str) -> String {
        let Case { version, top, parameters, body, .. } = self;
        format!(
            ".version {version}\n.target {target}\n.address_size 64\n{top}\n.visible .entry k({parameters})\n{{\n\
             .reg .b32 %r<9>; .reg .b64 %rd<9>;\n{body}\nret;\n}}\n"
        )
    }

    fn expected(&self) -> Outcome {
        let code = if self.says.is_empty() { 0 } else { 255 };
        Outcome { code: Some(code), stdout: String::new(), stderr: self.says.clone() }
    }

    fn call(&self, program: &Path, folder: &Path, target: &str) -> Outcome {
        fs::write(folder.join("k.ptx"), self.text(target)).unwrap();
        let arch = format!("-arch={target}");
        let arguments: Vec<&str> = [&arch, "k.ptx", "-o", "k.cubin"].into_iter().chain(self.options.iter().copied()).collect();
        run(program, folder, &arguments, "")
    }
}

const STORE: &str = "st.shared.b8 [s], %r1;";

fn shared_cases() -> Vec<Case> {
    let too_much = "Entry function 'k' uses too much shared data (0xc001 bytes, 0xc000 max)";
    let function = ".func f() { .reg .b32 %r<3>; st.shared.b8 [s], %r1; ret; }";
    let two = ".func g() { .reg .b32 %r<3>; st.shared.b8 [t], %r1; ret; }";
    vec![
        Case::new("shared at the limit").top(".shared .b8 s[49152];").body(STORE),
        Case::new("shared beyond").top(".shared .b8 s[49153];").body(STORE).says(too_much),
        Case::new("shared beyond, -O0").top(".shared .b8 s[49153];").body(STORE).options(&["-O0"]).says(too_much),
        Case::new("shared beyond, relocatable").top(".shared .b8 s[49153];").body(STORE).options(&["-c"]),
        Case::new("shared unused").top(".shared .b8 s[49153];"),
        Case::new("shared of the kernel, unused").body(".shared .b8 s[49153];").says(too_much),
        Case::new("two shared variables")
            .top(".shared .b8 s[49152]; .shared .b8 q;")
            .body(format!("{STORE} st.shared.b8 [q], %r1;"))
            .says(too_much),
        Case::new("alignment counts")
            .top(".shared .b8 s; .shared .b32 q[12288];")
            .body(format!("{STORE} st.shared.b8 [q], %r1;"))
            .says("Entry function 'k' uses too much shared data (0xc004 bytes, 0xc000 max)"),
        Case::new("dynamic shared does not count")
            .top(".extern .shared .align 16 .b8 e[]; .shared .b8 s[49152];")
            .body(format!("{STORE} st.shared.b8 [e], %r1;")),
        Case::new("the start of dynamic shared counts")
            .top(".extern .shared .align 4 .b8 e[]; .shared .b8 s[49153];")
            .body(format!("{STORE} st.shared.b8 [e], %r1;"))
            .says("Entry function 'k' uses too much shared data (0xc010 bytes, 0xc000 max)"),
        Case::new("the alignment of dynamic shared counts")
            .top(".extern .shared .align 65536 .b8 e[]; .shared .b8 s[4];")
            .body(STORE)
            .says("Entry function 'k' uses too much shared data (0x10000 bytes, 0xc000 max)"),
        Case::new("shared of a callee").top(format!(".shared .b8 s[49153]; {function}")).body("call f;").says(too_much),
        Case::new("shared of a function that nothing calls").top(format!(".shared .b8 s[49153]; {function}")),
        Case::new("shared of a callee by pointer")
            .top(format!(".shared .b8 s[49153]; {function}"))
            .body("mov.u64 %rd1, f; pr: .callprototype _ (); call %rd1, (), pr;")
            .says(too_much),
        Case::new("each kernel has its own functions' variables")
            .top(format!(".shared .b8 s[30000]; .shared .b8 t[30000]; {function} {two} .entry z() {{ call f; ret; }}"))
            .body("call g;"),
        Case::new("shared of two callees")
            .top(format!(".shared .b8 s[30000]; .shared .b8 t[30000]; {function} {two}"))
            .body("call f; call g;")
            .says("Entry function 'k' uses too much shared data (0xea60 bytes, 0xc000 max)"),
        Case::new("two kernels, the last one first")
            .top(".shared .b8 s[49153]; .entry a() { .reg .b32 %r<3>; st.shared.b8 [s], %r1; ret; }")
            .body(STORE)
            .says(too_much)
            .says("Entry function 'a' uses too much shared data (0xc001 bytes, 0xc000 max)"),
    ]
}

fn constant_cases() -> Vec<Case> {
    let load = "ld.const.b8 %r1, [c]; st.shared.b8 [%r1], %r1;";
    let too_much = |bytes: &str| format!("File uses too much global constant data ({bytes} bytes, 0x10000 max)");
    vec![
        Case::new("constants at the limit").top(".const .b8 c[65536];").body(load),
        Case::new("constants beyond").top(".const .b8 c[65537];").body(load).says(&too_much("0x10001")),
        Case::new("constants beyond, relocatable").top(".const .b8 c[65537];").body(load).options(&["-c"]).says(&too_much("0x10001")),
        Case::new("constants unused").top(".const .b8 c[65537];").says(&too_much("0x10001")),
        Case::new("constants with alignment").top(".const .b8 c; .const .b32 b[16384];").says(&too_much("0x10004")),
        Case::new("constants in functions").body(".const .b8 c[40000]; .const .b8 b[40000];").says(&too_much("0x13880")),
        Case::new("constants beyond 32 bits").top(".const .b8 c[4294967297];").says(&too_much("0x100000001")),
        Case::new("two aligned constants").top(".const .align 65536 .b8 c[4]; .const .align 65536 .b8 b[4];").says(&too_much("0x10004")),
        Case::new("constants and shared")
            .top(".const .b8 c[65537]; .shared .b8 s[49153];")
            .body(STORE)
            .says("Entry function 'k' uses too much shared data (0xc001 bytes, 0xc000 max)")
            .says(&too_much("0x10001")),
    ]
}

fn parameter_cases() -> Vec<Case> {
    let old = "Feature 'Kernel parameter size larger than 4352 bytes' requires PTX ISA .version 8.1 or later";
    let too_much = |bytes: &str, most: &str| format!("Entry function 'k' uses too much parameter space ({bytes} bytes, {most} max).");
    vec![
        Case::new("parameters at the old limit").parameters(".param .b8 p[4352]"),
        Case::new("parameters beyond the old limit").parameters(".param .b8 p[4353]").says_at(10, &[&too_much("0x1101", "0x1100"), old]),
        Case::new("parameters with alignment")
            .parameters(".param .b8 p[4349], .param .b32 q")
            .says_at(10, &[&too_much("0x1104", "0x1100"), old]),
        Case::new("parameters at the limit").version("8.1").parameters(".param .b8 p[16382], .param .b8 q[16382]"),
        Case::new("parameters beyond").version("8.1").parameters(".param .b8 p[32765]").says_at(10, &[&too_much("0x7ffd", "0x7ffc")]),
        Case::new("barrier at the limit").body("bar.sync 15;"),
        Case::new("barrier beyond").body("bar.sync 16;").says_at(8, &["Barrier number '16' out of range, expected to be in range [0..15]"]),
        Case::new("barrier below zero")
            .body("bar.sync -1;")
            .says_at(8, &["Barrier number '18446744073709551615' out of range, expected to be in range [0..15]"]),
    ]
}

fn alignment_cases() -> Vec<Case> {
    const OVERFLOW: &str = "Constant overflow";
    const POWER: &str = "Alignment must be a power of two";
    let mut cases = Vec::new();
    for (align, messages) in [
        ("0", &[POWER][..]),
        ("3", &[POWER]),
        ("2147483649", &[POWER]),
        ("4294967296", &[OVERFLOW, POWER]),
        ("4294967300", &[OVERFLOW]),
        ("9223372036854775808", &[POWER]),
    ] {
        cases.push(Case::new("global").top(format!(".global .align {align} .b8 g[4];")).says_at(4, messages));
        cases.push(Case::new("shared").top(format!(".shared .align {align} .b8 g[4];")).says_at(4, messages));
        cases.push(Case::new("const").top(format!(".const .align {align} .b8 g[4];")).says_at(4, messages));
        cases.push(Case::new("extern").top(format!(".extern .shared .align {align} .b8 g[];")).says_at(4, messages));
        cases.push(Case::new("local").body(format!(".local .align {align} .b8 g[4];")).says_at(8, messages));
        cases.push(Case::new("register").body(format!(".reg .align {align} .b32 g;")).says_at(8, messages));
        cases.push(Case::new("parameter").parameters(format!(".param .align {align} .b8 g[4]")).says_at(5, messages));
        cases.push(Case::new("pointer").parameters(format!(".param .u64 .ptr .global .align {align} g")).says_at(5, messages));
        cases.push(Case::new("argument").top(format!(".func f(.param .align {align} .b8 g[4]) {{ ret; }}")).says_at(4, messages));
    }
    let abi = "Parameter 'g' has illegal alignment (must be aligned to 1, 2, 4, 8, 16, 32, 64, or 128 bytes)";
    cases.push(Case::new("argument beyond").top(".func f(.param .align 256 .b8 g[4]) { ret; }").says_at(4, &[abi]));
    cases.push(Case::new("result beyond").top(".func (.param .align 256 .b8 g[4]) f() { ret; }").says_at(4, &[abi]));
    cases.push(Case::new("variable of a call beyond").body(".param .align 256 .b8 g[4];").says_at(8, &[abi]));
    cases.push(Case::new("argument at the limit").top(".func f(.param .align 128 .b8 g[4]) { ret; }"));
    cases.push(Case::new("parameter at the limit").parameters(".param .align 2147483648 .b8 g[4]"));
    cases.push(Case::new("pointer at the limit").parameters(".param .u64 .ptr .global .align 2147483648 g"));
    cases.push(Case::new("register at the limit").body(".reg .align 2147483648 .b32 g;"));
    cases.push(Case::new("alloca at the limit").body("alloca.u64 %rd1, 16, 8388608;"));
    cases.push(Case::new("alloca beyond").body("alloca.u64 %rd1, 16, 16777216;").says_at(8, &["Alignment value too large, exceeds 2^23"]));
    cases.push(Case::new("alloca, no power").body("alloca.u64 %rd1, 16, 3;").says_at(8, &[POWER]));
    cases
}

fn all_cases() -> Vec<Case> {
    [shared_cases(), constant_cases(), parameter_cases(), alignment_cases()].into_iter().flatten().collect()
}

#[test]
fn limits_are_those_of_ptxas() {
    let folder = folder("limits");
    for case in all_cases() {
        let outcome = case.call(Path::new(PTXAS), &folder, "sm_90");
        assert_eq!(outcome, case.expected(), "{}:\n{}", case.name, case.text("sm_90"));
        let is_there = fs::remove_file(folder.join("k.cubin")).is_ok();
        assert_eq!(is_there, case.says.is_empty(), "{}", case.name);
    }
}

#[test]
fn limits_hold_on_every_target() {
    let folder = folder("limits-targets");
    for target in ["sm_75", "sm_80", "sm_86", "sm_89"] {
        for case in shared_cases().into_iter().chain(constant_cases()).take(2) {
            assert_eq!(case.call(Path::new(PTXAS), &folder, target), case.expected(), "{} {target}", case.name);
        }
    }
    for target in ["sm_100", "sm_103", "sm_120", "sm_121"] {
        for case in shared_cases().into_iter().take(2).map(|case| case.version("8.8")) {
            assert_eq!(case.call(Path::new(PTXAS), &folder, target), case.expected(), "{} {target}", case.name);
        }
    }
}

/// Kernels for targets with the suffix `a` may have as much static shared memory as a block can have.
fn arch_specific_cases() -> Vec<(&'static str, Case)> {
    let most =
        [("sm_90a", 0x38c00), ("sm_100a", 0x38c00), ("sm_103a", 0x38c00), ("sm_110a", 0x38c00), ("sm_120a", 0x18c00), ("sm_121a", 0x18c00)];
    let mut cases = Vec::new();
    for (target, most) in most {
        let case = |name, bytes: u32| Case::new(name).top(format!(".shared .b8 s[{bytes}];")).body(STORE).version("9.0");
        let beyond = most + 1;
        let message = format!("Entry function 'k' uses too much shared data ({beyond:#x} bytes, {most:#x} max)");
        cases.push((target, case("shared at the limit", most)));
        cases.push((target, case("shared beyond", beyond).says(&message)));
    }
    for target in ["sm_100f", "sm_120f"] {
        let message = "Entry function 'k' uses too much shared data (0xc001 bytes, 0xc000 max)";
        cases.push((target, Case::new("shared beyond").top(".shared .b8 s[49153];").body(STORE).version("9.0").says(message)));
    }
    cases
}

#[test]
fn arch_specific_targets_have_all_shared_memory() {
    let folder = folder("limits-arch-specific");
    let ptxas = oriole_oracles::tool("ptxas");
    for (target, case) in arch_specific_cases() {
        for program in [Some(Path::new(PTXAS)), ptxas.as_deref()].into_iter().flatten() {
            assert_eq!(case.call(program, &folder, target), case.expected(), "{} {target}: {}", case.name, program.display());
        }
    }
}

/// ptxas decides about every third case as recorded, or with `ORIOLE_REFRESH` about all of them.
#[test]
fn ptxas_says_the_same() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = folder("limits-oracle");
    for case in all_cases().into_iter().step_by(if oriole_oracles::compares_everything() { 1 } else { 3 }) {
        assert_eq!(case.call(&ptxas, &folder, "sm_90"), case.expected(), "{}:\n{}", case.name, case.text("sm_90"));
    }
}

/// Oriole's own messages, with a line and exit status 1.
#[test]
fn oriole_names_the_line() {
    let folder = folder("limits-oriole");
    for (case, line, words) in [
        (Case::new("shared").body(".shared .b8 s[49153];"), 8, "49153 bytes of static shared variables, where the target has 49152"),
        (Case::new("constant").top(".const .b8 c[65537];"), 4, "a module has at most 64 KiB of `.const` variables"),
        (Case::new("parameter").parameters(".param .b8 p[4353]"), 5, "the parameters take 4353 bytes; a kernel has 4352"),
        (Case::new("local").body(".local .b8 a[4294967297]; st.local.b8 [a], %r1;"), 8, "4294967297 bytes of local variables"),
        (Case::new("align").top(".global .align 4294967296 .b8 g;"), 4, "an alignment is at most 2147483648 bytes"),
        (Case::new("initial").top(".global .b8 x[8000000000] = {1};"), 4, "initial values take at most 536870912 bytes"),
        (Case::new("bytes").top(".global .b64 x[4294967296][4294967296];"), 4, "variables take less than 2^63 bytes"),
    ] {
        fs::write(folder.join("k.ptx"), case.text("sm_90")).unwrap();
        let outcome = run(ORIOLE, &folder, &["compile", "k.ptx", "-o", "k.cubin", "--arch", "sm_90"], "");
        assert_eq!(outcome.code, Some(1), "{}: {}", case.name, outcome.stderr);
        assert!(outcome.stderr.contains(words), "{}: {}", case.name, outcome.stderr);
        assert!(outcome.stderr.contains(&format!("k.ptx:{line}:")), "{}: {}", case.name, outcome.stderr);
        assert!(!folder.join("k.cubin").exists(), "{}", case.name);
    }
}

/// Runs a program with 2 GB of address space.
#[cfg(target_os = "linux")]
fn run_small(program: &str, folder: &Path, arguments: &[&str]) -> Outcome {
    let output = Command::new("sh")
        .args(["-c", "ulimit -v 2000000; exec \"$@\"", "sh", program])
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    Outcome { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
}

/// Memory use depends on what is used, not on what is declared.
#[cfg(target_os = "linux")]
#[test]
fn declared_sizes_take_no_memory() {
    let folder = folder("limits-memory");
    let large = "100000000";
    for case in [
        Case::new("registers").body(".reg .b32 %q<2000000000>; mov.u32 %q1999999999, 3;"),
        Case::new("global").top(".global .b8 x[8000000000];"),
        Case::new("global at the end of memory").top(".global .b8 x[9223372036854775800];"),
        Case::new("many variables").top(".global .b32 x<2000000000>;").body("ld.global.b32 %r1, [x1999999999];"),
        Case::new("aligned global").top(".global .align 2147483648 .b8 x[4];"),
        Case::new("aligned initial value").top(".global .align 2147483648 .b8 x[4] = {1};"),
        Case::new("aligned constant").top(".const .align 2147483648 .b8 x[4] = {1};"),
        Case::new("aligned shared").top(".shared .align 2147483648 .b8 s[4];").body(STORE),
        Case::new("aligned dynamic").top(".extern .shared .align 2147483648 .b8 s[];").body(STORE),
        Case::new("local").body(".local .b8 a[2000000000]; st.local.b8 [a+1999999999], %r1;"),
        Case::new("argument")
            .top(format!(
                ".func f(.param .b8 s[{large}]) {{ .reg .b32 %r<3>; ld.param.b8 %r1, [s+99999999]; st.shared.b8 [%r1], %r1; ret; }}"
            ))
            .body(format!("{{ .param .b8 s[{large}]; st.param.b8 [s+99999999], 3; call f, (s); }}")),
        Case::new("extern argument")
            .top(format!(".extern .func f(.param .b8 s[{large}]);"))
            .body(format!("{{ .param .b8 s[{large}]; call f, (s); }}"))
            .options(&["-c"]),
        Case::new("result")
            .top(format!(".func (.param .b8 s[{large}]) f() {{ ret; }}"))
            .body(format!("{{ .param .b8 s[{large}]; call (s), f; ld.param.b8 %r1, [s+5]; }}")),
        Case::new("shared").top(".shared .b8 s[49152];").body(STORE),
        Case::new("offsets").top(".global .b8 g[4]; .shared .b8 s[4];").body(
            "ld.global.b8 %r1, [g+9223372036854775807]; ld.global.b8 %r2, [g+-9223372036854775808]; st.shared.b8 [s+4294967295], %r1;",
        ),
    ] {
        fs::write(folder.join("k.ptx"), case.text("sm_90")).unwrap();
        let mut arguments = vec!["-arch=sm_90", "k.ptx", "-o", "k.cubin"];
        arguments.extend(case.options);
        let outcome = run_small(PTXAS, &folder, &arguments);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{}", case.name);
        let size = fs::metadata(folder.join("k.cubin")).unwrap().len();
        assert!(size < 20 << 20, "{}: a file of {size} bytes", case.name);
        let outcome = run_small(ORIOLE, &folder, &["disasm", "k.cubin"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{}", case.name);
    }
}

/// The number of threads in a block exceeds 64 bits. ptxas 13.0.88 crashes with a floating-point exception here.
#[test]
fn launch_bounds_beyond_all_numbers_are_ignored_with_a_warning() {
    let folder = folder("limits-bounds");
    let case = Case::new("launch bounds").body("}\n.entry z() .maxntid 4294967295, 4294967295, 4294967295 {");
    fs::write(folder.join("k.ptx"), case.text("sm_90")).unwrap();
    let outcome = run_small(PTXAS, &folder, &["-arch=sm_90", "k.ptx", "-o", "k.cubin"]);
    let warning = "ptxas warning : Value of threads per SM for entry z is out of range. .minnctapersm and .maxntid will be ignored\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), warning));
}

/// Objects that exceed any memory are errors that name the object.
#[cfg(target_os = "linux")]
#[test]
fn what_cannot_be_held_is_an_error() {
    let folder = folder("limits-errors");
    let shared = |bytes: &str| format!("ptxas error   : Entry function 'k' uses too much shared data ({bytes} bytes, 0xc000 max)");
    for (case, words) in [
        (Case::new("initial value").top(".global .b8 x[8000000000] = {1};"), "line 4; error   : initial values take"),
        (
            Case::new("many initial values").top(".global .b8 x[300000000] = {1}; .global .b8 y[300000000] = {1};"),
            "line 4; error   : initial",
        ),
        (
            Case::new("initial values far apart").top(".global .align 1073741824 .b8 x = 1; .global .align 1073741824 .b8 y = 1;"),
            "1073741825",
        ),
        (Case::new("shared").top(".shared .b8 s[4294967297];").body(STORE), &shared("0x100000001")),
        (Case::new("shared variables").top(".shared .b32 s<4294967295>;").body("st.shared.b8 [s1], %r1;"), &shared("0x3fffffffc")),
        (Case::new("local").body(".local .b8 a[4294967297]; st.local.b8 [a], %r1;"), "uses too much local data (0x100000001 bytes"),
        (Case::new("registers").body(".reg .b32 %q<4294967295>;"), "line 8; error   : a function has at most 2^32-1 registers"),
        (
            Case::new("argument").top(".func f(.param .b8 s[4294967297]) { ret; }").body("{ .param .b8 s[4294967297]; call f, (s); }"),
            "bytes",
        ),
    ] {
        fs::write(folder.join("k.ptx"), case.text("sm_90")).unwrap();
        let outcome = run_small(PTXAS, &folder, &["-arch=sm_90", "k.ptx", "-o", "k.cubin"]);
        assert_eq!(outcome.code, Some(255), "{}: {}", case.name, outcome.stderr);
        assert!(outcome.stderr.contains(words), "{}: {}", case.name, outcome.stderr);
        assert!(!outcome.stderr.contains("internal error"), "{}: {}", case.name, outcome.stderr);
        assert!(!folder.join("k.cubin").exists(), "{}", case.name);
    }
}

/// Nesting of any depth is accepted, or rejected with a line.
#[cfg(target_os = "linux")]
#[test]
fn depth_does_not_overflow_the_stack() {
    let folder = folder("limits-depth");
    let deep = |open: &str, close: &str| format!("{}1{}", open.repeat(100_000), close.repeat(100_000));
    for case in [
        Case::new("braces").top(format!(".global .b8 x[4] = {};", deep("{", "}"))),
        Case::new("dimensions").top(format!(".global .b8 x{} = {};", "[1]".repeat(100_000), deep("{", "}"))),
        Case::new("parentheses").top(format!(".global .b32 x = {};", deep("(", ")"))),
        Case::new("signs").top(format!(".global .b32 x = {};", deep("-", ""))),
        Case::new("conditions").top(format!(".global .b32 x = {};", deep("1 ? 1 : ", ""))),
    ] {
        fs::write(folder.join("k.ptx"), case.text("sm_90")).unwrap();
        let outcome = run_small(PTXAS, &folder, &["-arch=sm_90", "k.ptx", "-o", "k.cubin"]);
        assert_eq!(outcome.code, Some(255), "{}: {}", case.name, outcome.stderr);
        assert!(outcome.stderr.starts_with("ptxas k.ptx, line 4; error   : "), "{}: {}", case.name, outcome.stderr);
    }
    let chain: String = (0..2000).map(|number| format!("bra L{number};\nL{number}:\n{{\n")).collect();
    let case = Case::new("scopes and jumps").body(format!("{chain}{}", "}".repeat(2000)));
    fs::write(folder.join("k.ptx"), case.text("sm_90")).unwrap();
    let outcome = run_small(PTXAS, &folder, &["-arch=sm_90", "k.ptx", "-o", "k.cubin"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

/// Headers of kernel tests and variables that are too large for the engines.
#[cfg(target_os = "linux")]
#[test]
fn kernel_tests_of_any_size_end_in_words() {
    let folder = folder("limits-run");
    let text = |header: &str, top: &str, body: &str| {
        format!(
            "// kernel-test 1\n// kernel: k\n// grid: 1 1 1\n// block: 32 1 1\n// param d: u32[1] = zero\n{header}// expect d: exact = 0\n\
             .version 8.0\n.target sm_90\n.address_size 64\n{top}\n.visible .entry k(.param .u64 d)\n{{\n.reg .b32 %r<4>;\n{body}\nret;\n}}\n"
        )
    };
    let local = ".local .b8 a[2000000000]; st.local.b8 [a], %r1;";
    for (name, text) in [
        ("buffer", text("// param e: u8[100000000000] = zero\n", "", "")),
        ("grid", text("// grid: 4294967295 4294967295 4294967295\n", "", "")),
        ("large grid", text("// grid: 2147483647 65535 65535\n", "", "")),
        ("block", text("// block: 4294967295 4294967295 4294967295\n", "", "")),
        ("shared", text("// shared: 4294967295\n", "", "")),
        ("global", text("", ".global .b8 x[8000000000];", "")),
        ("some globals", text("", ".global .b8 x[4000000000]; .global .b8 y[4000000000];", "")),
        ("local", text("", "", local)),
    ] {
        fs::write(folder.join("k.ptx"), text).unwrap();
        for engine in ["ptx", "sass"] {
            let outcome = run_small(ORIOLE, &folder, &["run", "--engine", engine, "k.ptx"]);
            assert!(matches!(outcome.code, Some(1 | 2)), "{name} {engine}: {outcome:?}");
            let words = format!("{}{}", outcome.stdout, outcome.stderr);
            assert!(words.contains("k.ptx") && !words.contains("internal error"), "{name} {engine}: {words}");
        }
    }
}
