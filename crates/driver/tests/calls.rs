//! Tests of functions and calls: every module with calls compiles for every target, and the code follows the calling convention.
//!
//! Checked on the decoded code: a return address is that of the instruction after a call; a function preserves every callee-saved register;
//! R1 is decremented and incremented by the same amount. The options request verification, so the allocation checker runs too. If nvlink is
//! available, the two halves of a program link, no matter which of the two compilers made each half.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use oriole_cubin::Cubin;
use oriole_cubin::relocation::RelocationType;
use oriole_cubin::section::Content;
use oriole_cubin::symbol::SymbolSection;
use oriole_driver::{ErrorCause, Options, compile};
use oriole_isa::Target;
use oriole_ptx::ast::Module;

const TARGETS: [&str; 6] = ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a", "sm_120a"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn checked(text: &str) -> Module {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics);
    checked.module
}

fn read(path: &Path) -> Module {
    checked(&fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())))
}

fn options(target: &str, level: u8, relocatable: bool) -> Options {
    Options { level, relocatable, verify: true, ..Options::new(Target::parse(target).unwrap()) }
}

/// Returns the instructions of a function as text.
fn lines(code: &[u8], target: Target) -> Vec<String> {
    let words = code.chunks_exact(16).map(|word| u128::from_le_bytes(word.try_into().unwrap()));
    words.enumerate().map(|(number, word)| oriole_isa::print(word, target, 16 * number as u64).unwrap_or_default()).collect()
}

/// Returns whether a register is callee-saved, according to docs/abi.md.
fn is_callee_saved(register: u32) -> bool {
    register == 2 || (16..32).contains(&register) || (register >= 32 && register % 8 >= 4)
}

/// Returns the general register in the first operand, which is the destination of most instructions.
fn written(line: &str) -> Option<u32> {
    let rest = line.split_once(' ')?.1;
    let is_store = ["ST", "CALL", "RET", "BRA", "ISETP", "EXIT"].iter().any(|opcode| line.starts_with(opcode));
    let number = rest.strip_prefix('R')?.split(|letter: char| !letter.is_ascii_digit()).next()?;
    (!is_store).then(|| number.parse().ok())?
}

/// Checks the calling convention in every function of a cubin.
fn check_convention(name: &str, bytes: &[u8], target: Target) {
    let cubin = Cubin::read(bytes).unwrap();
    for function in cubin.functions() {
        let lines = lines(function.code, target);
        check_return_addresses(name, &cubin, function.name, &lines);
        if !function.is_kernel {
            check_registers(&format!("{name}, {}", function.name), &lines);
        }
    }
}

fn check_return_addresses(name: &str, cubin: &Cubin, function: &str, lines: &[String]) {
    let calls: Vec<usize> = (0..lines.len()).filter(|&at| lines[at].starts_with("CALL")).collect();
    let section = [".rela.text.", ".rel.text."].iter().find_map(|prefix| cubin.section_named(&format!("{prefix}{function}")));
    let mut returns: Vec<usize> = Vec::new();
    if let Some(Content::Relocations(list)) = section.map(|section| &section.content) {
        for relocation in list.iter().filter(|relocation| relocation.relocation_type == RelocationType::R_CUDA_ABS32_LO_32) {
            if cubin.symbols()[relocation.symbol as usize].name == function && lines[relocation.offset as usize / 16].contains(" R20,") {
                returns.push(relocation.addend.unwrap_or(0) as usize / 16 - 1);
            }
        }
    }
    returns.sort_unstable();
    assert_eq!(returns, calls, "{name}, {function}: return addresses are behind the calls");
}

fn check_registers(name: &str, lines: &[String]) {
    let end = lines.iter().position(|line| line.starts_with("RET")).unwrap_or(lines.len());
    let is_address = |register: &u32| (20..22).contains(register);
    let changed: BTreeSet<u32> = lines[..end]
        .iter()
        .filter_map(|line| written(line))
        .filter(|&register| is_callee_saved(register))
        .filter(|register| !is_address(register))
        .collect();
    for register in changed {
        let slot = lines.iter().find_map(|line| line.strip_prefix("STL [").and_then(|rest| rest.strip_suffix(&format!("], R{register}"))));
        let slot = slot.unwrap_or_else(|| panic!("{name} changes R{register} and does not save it"));
        let restored = format!("LDL R{register}, [{slot}]");
        assert!(lines[..end].iter().rev().take(48).any(|line| *line == restored), "{name} does not restore R{register}");
    }
    let moves: Vec<i64> = lines
        .iter()
        .filter_map(|line| line.strip_prefix("IADD3 R1, R1, ").or_else(|| line.strip_prefix("IADD3 R1, PT, PT, R1, ")))
        .filter_map(|rest| rest.strip_suffix(", RZ"))
        .map(|amount| match amount.strip_prefix('-') {
            Some(down) => -i64::from_str_radix(down.trim_start_matches("0x"), 16).unwrap(),
            None => i64::from_str_radix(amount.trim_start_matches("0x"), 16).unwrap(),
        })
        .collect();
    assert_eq!(moves.iter().sum::<i64>(), 0, "{name}: the stack pointer comes back");
}

#[test]
fn kernel_tests_with_calls_keep_the_convention() {
    let mut count = 0;
    for entry in fs::read_dir(root().join("tests/kernels/calls")).unwrap() {
        let path = entry.unwrap().path();
        let module = read(&path);
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        for target in TARGETS {
            for (level, relocatable) in [(0, false), (3, false), (3, true)] {
                let options = options(target, level, relocatable);
                let compiled = compile(&[&module], &options).unwrap_or_else(|errors| panic!("{name} for {target}: {errors:?}"));
                check_convention(&format!("{name} for {target} at -O{level}"), &compiled.cubin, options.target);
                count += 1;
            }
        }
    }
    assert!(count >= 24 * TARGETS.len() * 3, "{count} files");
}

/// Returns the two modules of one program.
fn halves() -> [Module; 2] {
    ["main", "library"].map(|name| read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/modules/{name}.ptx"))))
}

#[test]
fn halves_of_a_program_keep_the_convention() {
    for module in &halves() {
        for target in TARGETS {
            for level in [0, 3] {
                let options = options(target, level, true);
                let compiled = compile(&[module], &options).unwrap_or_else(|errors| panic!("{target}: {errors:?}"));
                check_convention(&format!("{target} at -O{level}"), &compiled.cubin, options.target);
            }
        }
    }
}

#[test]
fn nvlink_joins_halves_of_either_compiler() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let Some(nvlink) = oriole_oracles::optional_tool("nvlink") else { return };
    let folder = std::env::temp_dir().join(format!("oriole-calls-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let run = |command: &mut Command| {
        let output = command.output().unwrap();
        assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    };
    for target in ["sm_80", "sm_90a"] {
        for (module, name) in halves().iter().zip(["main", "library"]) {
            let compiled = compile(&[module], &options(target, 3, true)).unwrap();
            fs::write(folder.join(format!("{name}.oriole.o")), compiled.cubin).unwrap();
            let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/modules/{name}.ptx"));
            run(Command::new(&ptxas).args(["-c", "-arch", target, "-o"]).arg(folder.join(format!("{name}.ptxas.o"))).arg(source));
        }
        for (main, library) in [("oriole", "oriole"), ("oriole", "ptxas"), ("ptxas", "oriole")] {
            let linked = folder.join("linked.cubin");
            let parts = [folder.join(format!("main.{main}.o")), folder.join(format!("library.{library}.o"))];
            run(Command::new(&nvlink).args(["-arch", target, "-o"]).arg(&linked).args(parts));
            let cubin = Cubin::read(&fs::read(&linked).unwrap()).unwrap();
            assert_eq!(cubin.kernels().count(), 1);
            assert_eq!(cubin.functions().count(), 15, "all functions of both halves");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

const HEADER: &str = ".version 8.0\n.target sm_75\n.address_size 64\n";

#[test]
fn a_function_without_definition_is_an_error_in_a_complete_file() {
    let module = checked(&format!("{HEADER}.extern .func missing();\n.entry k() {{ call missing; ret; }}"));
    let errors = compile(&[&module], &options("sm_90a", 3, false)).unwrap_err();
    assert_eq!(errors[0].fault, ErrorCause::Unresolved("missing".into()));
    assert!(compile(&[&module], &options("sm_90a", 3, true)).is_ok());
}

/// The driver provides some functions, which a complete file may call without a definition: ptxas accepts the same names.
#[test]
fn functions_of_the_driver_need_no_definition() {
    let accepted =
        ["cudaGraphSetConditional", "cudaGraphLaunch", "cnpGetParameterBufferV2", "cnpGetLimit", "__profile", "__cuda_syscall_x"];
    let refused = ["cudaGetParameterBufferV2", "cudaGraphConditional", "cnpMalloc", "memcpy", "printf"];
    let folder = tempfile::tempdir().unwrap();
    let ptxas = oriole_oracles::tool("ptxas");
    for (name, is_accepted) in accepted.map(|name| (name, true)).into_iter().chain(refused.map(|name| (name, false))) {
        let text = format!(
            "{HEADER}.extern .func (.param .b32 r) {name}(.param .b64 a);\n.visible .entry k(.param .u64 p) {{ .reg .b64 %a; .reg .b32 %r;\n\
             ld.param.u64 %a, [p]; {{ .param .b32 r; .param .b64 a; st.param.b64 [a], %a; call.uni (r), {name}, (a); ld.param.b32 %r, [r]; }}\n\
             st.global.u32 [%a], %r; ret; }}"
        );
        let module = checked(&text);
        let compiled = compile(&[&module], &options("sm_90a", 3, false));
        assert_eq!(
            compiled.map(|_| ()).map_err(|errors| errors[0].fault.clone()),
            if is_accepted { Ok(()) } else { Err(ErrorCause::Unresolved(name.into())) }
        );
        if let Some(ptxas) = &ptxas {
            let input = folder.path().join("input.ptx");
            fs::write(&input, text).unwrap();
            let status = Command::new(ptxas)
                .args(["-arch", "sm_90a", "-o"])
                .arg(folder.path().join("output.cubin"))
                .arg(&input)
                .output()
                .unwrap()
                .status;
            assert_eq!(status.success(), is_accepted, "{name}");
        }
    }
}

#[test]
fn a_kernel_has_the_registers_and_barriers_of_what_it_calls() {
    let sums: String = (1..40).map(|n| format!("ld.global.u32 %r{n}, [%rd1+{}];\n", 4 * n)).collect();
    let uses: String = (1..40).map(|n| format!("add.u32 %r0, %r0, %r{n};\n")).collect();
    let module = checked(&format!(
        "{HEADER}.func (.param .b32 r) sum(.param .b64 p) {{ .reg .b32 %r<41>; .reg .b64 %rd<2>; ld.param.b64 %rd1, [p];\n{sums}\
         mov.u32 %r0, 0;\nbar.sync 5;\n{uses} st.param.b32 [r], %r0; ret; }}\n\
         .entry k(.param .u64 p) {{ .reg .b64 %rd<2>; .reg .b32 %r<2>; ld.param.u64 %rd1, [p];\n\
         {{ .param .b64 a; .param .b32 b; st.param.b64 [a], %rd1; call (b), sum, (a); ld.param.b32 %r1, [b]; }}\n\
         st.global.u32 [%rd1], %r1; ret; }}"
    ));
    let compiled = compile(&[&module], &options("sm_90a", 3, false)).unwrap();
    let [sum, k] = &compiled.functions[..] else { panic!("two functions") };
    assert!(sum.registers > 24, "many loaded values are live at once: {}", sum.registers);
    assert_eq!((k.registers, k.barriers), (sum.registers, 6));
}

/// An executable cubin has the functions that a kernel can reach, as ptxas 13.0 writes it; an object also has those that other files may
/// call.
/// With a limit of 24 registers, which is the lowest one, functions and kernels with calls need no more, as with ptxas 13.0.88; nvlink refuses
/// files that do. Calls by address need 26.
#[test]
fn functions_and_callers_keep_the_lowest_register_limit() {
    let body: String = (2..20).map(|n| format!("fma.rn.f64 %x{n}, %x{}, %x{}, %x0;\n", n - 1, n - 2)).collect();
    let sums: String = (2..19).map(|n| format!("add.f64 %x19, %x19, %x{n};\n")).collect();
    let text = format!(
        "{HEADER}.visible .func (.param .b64 r) callee(.param .b64 a, .param .b64 b) {{ .reg .f64 %x<20>;
ld.param.f64 %x0, [a]; ld.param.f64 %x1, [b]; {body}{sums} st.param.f64 [r], %x19; ret; }}
.visible .entry caller(.param .u64 p) {{ .reg .b64 %p; .reg .f64 %d<3>;
ld.param.u64 %p, [p]; ld.global.f64 %d0, [%p]; ld.global.f64 %d1, [%p+8];
{{ .param .b64 a; .param .b64 b; .param .b64 r; st.param.f64 [a], %d0; st.param.f64 [b], %d1;
call (r), callee, (a, b); ld.param.f64 %d2, [r]; }}
st.global.f64 [%p], %d2; ret; }}"
    );
    let module = checked(&text);
    for target in TARGETS {
        for level in [0, 3] {
            let limit = Options { max_registers: Some(24), max_function_registers: Some(24), ..options(target, level, true) };
            let compiled = compile(&[&module], &limit).unwrap();
            let registers: Vec<(&str, u32)> =
                compiled.functions.iter().map(|function| (function.name.as_str(), function.registers)).collect();
            assert!(registers.len() == 2 && registers.iter().all(|&(_, count)| count <= 24), "{target} -O{level}: {registers:?}");
        }
    }
}

#[test]
fn functions_without_callers_are_dropped_from_executables() {
    let function = |head: &str, name: &str| {
        format!(
            "{head} .func (.param .b32 r) {name}(.param .b32 a)\n{{ .reg .b32 %r; ld.param.b32 %r, [a]; st.param.b32 [r], %r; ret; }}\n"
        )
    };
    let text = [
        ".version 8.7\n.target sm_90a\n.address_size 64\n".to_owned(),
        function(".visible", "visible_unused"),
        function(".weak", "weak_unused"),
        function("", "static_unused"),
        function("", "in_table"),
        function(".visible", "called"),
        ".visible .global .align 8 .u64 table[1] = { in_table };\n".to_owned(),
        ".visible .entry k()\n{ .reg .b32 %r; mov.b32 %r, 1;\n".to_owned(),
        "{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r; call (y), called, (x); }\nret; }\n".to_owned(),
    ]
    .concat();
    let module = checked(&text);
    let names = |relocatable| {
        let compiled = compile(&[&module], &options("sm_90a", 3, relocatable)).unwrap();
        compiled.functions.into_iter().map(|function| function.name).collect::<BTreeSet<String>>()
    };
    let set = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<BTreeSet<String>>();
    assert_eq!(names(false), set(&["k", "called", "in_table"]));
    assert_eq!(names(true), set(&["k", "called", "in_table", "visible_unused", "weak_unused"]));
}

/// ptxas has an undefined symbol for each variable that another file defines, also for one that no code reads.
#[test]
fn variables_of_other_files_are_undefined_symbols() {
    let text = ".version 8.0
.target sm_80
.address_size 64
.extern .const .align 4 .b32 table[4];
.extern .global .align 4 .b32 counts[4];
.visible .entry k(.param .u64 out)
{
    ret;
}";
    let compiled = compile(&[&checked(text)], &options("sm_80", 3, true)).unwrap();
    let cubin = Cubin::read(&compiled.cubin).unwrap();
    for name in ["table", "counts"] {
        let symbol = cubin.symbols().iter().find(|symbol| symbol.name == name);
        assert!(symbol.is_some_and(|symbol| symbol.section == SymbolSection::Undefined), "{name}: {symbol:?}");
    }
}

/// Returns a module with a kernel that performs `count` divisions of f64.
fn divisions(count: usize) -> Module {
    let body: String = (0..count)
        .map(|number| format!("ld.global.f64 b, [p+{}];\ndiv.rn.f64 c, a, b;\nst.global.f64 [p+{}], c;\n", 8 * number, 8 * number))
        .collect();
    let head = ".reg .b64 p;\n.reg .f64 a, b, c;\nld.param.u64 p, [d];\nld.global.f64 a, [p+800];\n";
    checked(&format!(".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry k(.param .u64 d)\n{{\n{head}{body}ret;\n}}\n"))
}

#[test]
fn repeated_operations_call_one_function_for_their_slow_path() {
    const SLOW: &str = "__oriole_slow_div_rn_f64";
    for target in TARGETS {
        for (count, level, calls) in [(1, 3, 0), (2, 0, 0), (2, 1, 2), (5, 3, 5)] {
            let compiled = compile(&[&divisions(count)], &options(target, level, false)).unwrap();
            let target = Target::parse(target).unwrap();
            check_convention("divisions", &compiled.cubin, target);
            let cubin = Cubin::read(&compiled.cubin).unwrap();
            let kernel = cubin.functions().find(|function| function.name == "k").unwrap();
            let found = lines(kernel.code, target).iter().filter(|line| line.starts_with("CALL")).count();
            assert_eq!(found, calls, "{count} divisions for {target} at -O{level}");
            let slow = cubin.functions().find(|function| function.name == SLOW);
            assert_eq!(slow.is_some(), calls > 0, "{count} divisions for {target} at -O{level}");
            // docs/abi.md: R4 to R15 and the return address.
            let code = slow.map(|slow| lines(slow.code, target)).unwrap_or_default();
            let other = code.iter().find(|line| written(line).is_some_and(|register| !(4..16).contains(&register)));
            assert_eq!(other, None, "{SLOW} for {target}");
        }
    }
}
