//! Debug information: line tables of `-lineinfo`, and the debug sections of `-g`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{folder, run};
use oriole_cubin::Cubin;
use oriole_cubin::debug::{DEBUG_LINE, DEBUG_LINE_SASS, LineTable, SourcePosition, ptx_text, read_lines};
use oriole_cubin::section::Content;

const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");
const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

/// A kernel in which every `.loc` has one instruction with code of its own.
const STRAIGHT: &str = r#".version 8.0
.target sm_75
.address_size 64
.file 1 "/source/straight.cu"
.file 2 "/source/include/helper.h", 1700000000, 512
.visible .entry straight(.param .u64 out)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<3>;
    .loc 1 10 5
    ld.param.u64 %rd1, [out];
    .loc 1 11 5
    mov.u32 %r1, %tid.x;
    .loc 1 12 9
    mov.u32 %r2, %ctaid.x;
    .loc 2 100 3, function_name $names, inlined_at 1 12 9
    xor.b32 %r3, %r1, %r2;
    .loc 2 7 1, function_name $names+7, inlined_at 2 100 3
    mul.lo.u32 %r4, %r3, %r1;
    .loc 1 14 5
    st.global.u32 [%rd1], %r4;
    .loc 1 15 1
    ret;
}
.section .debug_str
{
$names:
.b8 104,101,108,112,101,114,0,109,117,108,0
}
"#;

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus")
}

/// Compiles a file with a program that takes ptxas' options.
fn compile(program: &Path, folder: &Path, arguments: &[&str], ptx: &str) -> Cubin {
    fs::write(folder.join("in.ptx"), ptx).unwrap();
    let outcome = run(program, folder, &[arguments, &["in.ptx", "-o", "out.cubin"]].concat(), "");
    assert_eq!(outcome.code, Some(0), "{arguments:?}: {}", outcome.stderr);
    Cubin::read(&fs::read(folder.join("out.cubin")).unwrap()).unwrap()
}

/// Compiles a file with Oriole's ptxas.
fn compile_ours(folder: &Path, arguments: &[&str], ptx: &str) -> Cubin {
    compile(Path::new(PTXAS), folder, arguments, ptx)
}

/// A position as text: file, line, and the names and calls of inlined functions.
fn describe(lines: &LineTable, position: &SourcePosition) -> String {
    let one = |position: &SourcePosition| {
        let function = lines.function_name(position).map_or(String::new(), |name| format!(" in {name}"));
        format!("{}:{}{function}", lines.file_name(position), position.line)
    };
    lines.call_chain(position).map(one).collect::<Vec<_>>().join(" at ")
}

/// Returns the positions of the instructions of each function. Instructions after the last exit are padding.
fn positions(cubin: &Cubin, table: &str) -> Vec<(String, Vec<Option<String>>)> {
    let lines = read_lines(cubin, table).unwrap();
    let of_function = |function: oriole_cubin::Function<'_>| {
        let section = cubin.find(&format!(".text.{}", function.name)).unwrap();
        let addresses = (0..function.code.len() as u64).step_by(16);
        let list = addresses.map(|address| lines.find(section, address).map(|position| describe(&lines, position))).collect();
        (function.name.to_owned(), list)
    };
    cubin.functions().map(of_function).collect()
}

/// Removes repetitions of neighbours.
fn without_repetitions(list: &[Option<String>]) -> Vec<String> {
    let mut list: Vec<String> = list.iter().flatten().cloned().collect();
    list.dedup();
    list
}

#[test]
fn every_instruction_of_a_straight_kernel_has_its_line() {
    let folder = folder("debug_straight");
    let expected = [
        "/source/straight.cu:10",
        "/source/straight.cu:11",
        "/source/straight.cu:12",
        "/source/include/helper.h:100 in helper at /source/straight.cu:12",
        "/source/include/helper.h:7 in mul at /source/include/helper.h:100 in helper at /source/straight.cu:12",
        "/source/straight.cu:14",
        "/source/straight.cu:15",
    ];
    let oracle = oriole_oracles::tool("ptxas");
    for arch in ["-arch=sm_75", "-arch=sm_80", "-arch=sm_90a", "-arch=sm_100a", "-arch=sm_120"] {
        let programs = [Some(PathBuf::from(PTXAS)), oracle.clone()];
        for (program, mode) in programs.iter().flatten().flat_map(|program| [(program, "-lineinfo"), (program, "-c")]) {
            let cubin = compile(program, &folder, &[arch, "-O0", "-lineinfo", mode], STRAIGHT);
            let [(name, list)] = &positions(&cubin, DEBUG_LINE)[..] else { panic!("one function") };
            assert_eq!(name, "straight");
            assert_eq!(without_repetitions(list), expected, "{program:?} {arch} {mode}");
            assert!(list.iter().all(Option::is_some), "{program:?} {arch} {mode}");
        }
    }
}

#[test]
fn the_ptx_text_and_its_lines_are_those_of_ptxas() {
    let folder = folder("debug_ptx_lines");
    let cubin = compile_ours(&folder, &["-arch=sm_90a", "-O0", "-lineinfo"], STRAIGHT);
    let lines = read_lines(&cubin, DEBUG_LINE_SASS).unwrap();
    let text = ptx_text(&cubin);
    let section = cubin.find(".text.straight").unwrap();
    let mut shown: Vec<&str> = Vec::new();
    for address in lines.addresses(section).collect::<BTreeSet<u64>>() {
        shown.extend(lines.find(section, address).map(|position| text[position.line as usize - 1].as_str()));
    }
    // The first row, for code that no instruction asks for, is the opening brace.
    shown.retain(|line| *line != "{");
    let expected = [
        "ld.param.u64 %rd1, [out];",
        "mov.u32 %r1, %tid.x;",
        "mov.u32 %r2, %ctaid.x;",
        "xor.b32 %r3, %r1, %r2;",
        "mul.lo.u32 %r4, %r3, %r1;",
        "st.global.u32 [%rd1], %r4;",
        "ret;",
    ];
    assert_eq!(shown, expected);
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    for ptx in [STRAIGHT.to_owned(), fs::read_to_string(corpus().join("clusters.lineinfo.ptx")).unwrap()] {
        let ours = compile_ours(&folder, &["-arch=sm_90a", "-O0", "-lineinfo"], &ptx);
        let theirs = compile(&ptxas, &folder, &["-arch=sm_90a", "-O0", "-lineinfo"], &ptx);
        assert_eq!(ptx_text(&ours), ptx_text(&theirs));
    }
}

/// Optimized code of a module has lines of the PTX only, on every instruction, and most lines that ptxas has. A kernel without stack has no code for
/// the line of its opening brace.
#[test]
fn optimized_code_keeps_its_lines() {
    let folder = folder("debug_optimized");
    let ptxas = oriole_oracles::tool("ptxas");
    for file in ["vector_basic", "clusters", "softmax_layernorm", "runtime_calls"] {
        let ptx = fs::read_to_string(corpus().join(format!("{file}.lineinfo.ptx"))).unwrap();
        let declared: BTreeSet<u64> =
            ptx.lines().filter_map(|line| line.trim().strip_prefix(".loc")?.split_whitespace().nth(1)?.parse().ok()).collect();
        for level in ["-O0", "-O1", "-O2", "-O3"] {
            let arguments = ["-arch=sm_90a", level, "-lineinfo"];
            let ours = positions(&compile_ours(&folder, &arguments, &ptx), DEBUG_LINE);
            // Runtime functions of the compiler have no lines.
            for (name, list) in ours.iter().filter(|(name, _)| !name.starts_with("__oriole_")) {
                let line = |text: &String| text.split_whitespace().next().unwrap().rsplit(':').next().unwrap().parse().unwrap();
                assert!(list.iter().flatten().all(|text| declared.contains(&line(text))), "{file} {name} {level}");
                assert!(list.iter().all(Option::is_some), "{file} {name} {level}: an instruction has no line");
            }
            let Some(ptxas) = &ptxas else { continue };
            let theirs = positions(&compile(ptxas, &folder, &arguments, &ptx), DEBUG_LINE);
            let (mut common, mut all) = (0, 0);
            for (name, list) in &theirs {
                let Some((_, other)) = ours.iter().find(|(other, _)| other == name) else { continue };
                let (theirs, ours): (BTreeSet<_>, BTreeSet<_>) = (list.iter().collect(), other.iter().collect());
                assert!(level != "-O0" || theirs == ours, "{file} {name}: {theirs:?} is not {ours:?}");
                common += theirs.intersection(&ours).count();
                all += theirs.len();
            }
            assert!(common * 5 >= all * 4, "{file} {level}: {common} of {all} lines");
        }
    }
}

/// Debug information does not change the code, is the same in every run, and can be left out. PTX with `.loc` gets line tables without an
/// option, as with ptxas.
#[test]
fn debug_information_does_not_change_the_code() {
    let folder = folder("debug_same_code");
    let ptx = fs::read_to_string(corpus().join("softmax_layernorm.lineinfo.ptx")).unwrap();
    let debug_sections = |cubin: &Cubin| -> Vec<String> {
        let is_debug = |name: &str| name.contains("debug") && !name.contains("debug_frame");
        cubin.sections().iter().map(|section| section.name.clone()).filter(|name| is_debug(name)).collect()
    };
    let code = |cubin: &Cubin| -> Vec<(String, Vec<u8>)> {
        cubin.functions().map(|function| (function.name.to_owned(), function.code.to_vec())).collect()
    };
    let implied = compile_ours(&folder, &["-arch=sm_90a"], &ptx);
    let lines = compile_ours(&folder, &["-arch=sm_90a", "-lineinfo"], &ptx);
    let again = compile_ours(&folder, &["-arch=sm_90a", "-lineinfo"], &ptx);
    let none = compile_ours(&folder, &["-arch=sm_90a", "-lineinfo", "-suppress-debug-info"], &ptx);
    assert_eq!(code(&none), code(&lines));
    assert_eq!(code(&implied), code(&lines));
    assert_eq!(lines.write().unwrap(), again.write().unwrap());
    assert!(debug_sections(&none).is_empty());
    assert_eq!(debug_sections(&implied), debug_sections(&lines));
    let expected =
        [".debug_line", ".nv_debug_line_sass", ".nv_debug_ptx_txt", ".debug_str", ".rela.debug_line", ".rela.nv_debug_line_sass"];
    assert_eq!(debug_sections(&lines), expected);
}

/// `-g` carries the debug sections of the PTX over, with the same relocations as ptxas.
#[test]
fn debug_sections_are_carried_over() {
    let folder = folder("debug_full");
    let ptxas = oriole_oracles::tool("ptxas");
    for (file, mode) in [("vector_basic", "-g"), ("calls", "-g"), ("vector_basic", "-c"), ("calls", "-c")] {
        let ptx = fs::read_to_string(corpus().join(format!("{file}.debug.ptx"))).unwrap();
        let arguments = ["-arch=sm_90a", "-g", mode];
        let ours = compile_ours(&folder, &arguments, &ptx);
        let info = ours.section_named(".debug_info").expect("debug information");
        assert!(matches!(&info.content, Content::Bytes(bytes) if bytes.len() > 100));
        let Some(ptxas) = &ptxas else { continue };
        let theirs = compile(ptxas, &folder, &arguments, &ptx);
        let bytes = |cubin: &Cubin, name: &str| cubin.find(name).and_then(|index| cubin.bytes_of(index).map(<[u8]>::to_vec));
        for name in [".debug_abbrev", ".debug_str", ".debug_macinfo"] {
            assert_eq!(bytes(&ours, name), bytes(&theirs, name), "{file} {name}");
        }
        // Variables on the stack: DW_OP_fbreg with an offset of at most two bytes and DW_OP_nop.
        let on_stack = |bytes: &[u8]| -> Vec<usize> {
            bytes.windows(8).enumerate().filter(|(_, at)| at[0] == 0x91 && at[3..] == [0x96; 5]).map(|(offset, _)| offset).collect()
        };
        let stack_variables = bytes(&ours, ".debug_info").map(|info| on_stack(&info));
        assert_eq!(stack_variables, bytes(&theirs, ".debug_info").map(|info| on_stack(&info)), "{file} {mode}");
        assert!(file != "calls" || stack_variables.is_some_and(|list| !list.is_empty()));
        for name in [".debug_info", ".debug_loc", ".debug_ranges"] {
            assert_eq!(bytes(&ours, name).map(|b| b.len()), bytes(&theirs, name).map(|b| b.len()), "{file} {name}");
            assert_eq!(relocations(&ours, name), relocations(&theirs, name), "{file} {name} {mode}");
        }
    }
}

/// Returns the offsets of the relocated fields of a section, with the names of the symbols.
fn relocations(cubin: &Cubin, name: &str) -> BTreeSet<(u64, String)> {
    let symbols = cubin.symbols();
    let table = cubin.section_named(&format!(".rela{name}"));
    let Some(Content::Relocations(list)) = table.map(|section| &section.content) else { return BTreeSet::new() };
    list.iter().map(|relocation| (relocation.offset, symbols[relocation.symbol as usize].name.clone())).collect()
}

#[test]
fn nvdisasm_shows_the_lines() {
    let Some(nvdisasm) = oriole_oracles::tool("nvdisasm") else { return };
    let folder = folder("debug_nvdisasm");
    compile_ours(&folder, &["-arch=sm_90a", "-O0", "-lineinfo"], STRAIGHT);
    let show = |option: &str| run(&nvdisasm, &folder, &[option, "-c", "out.cubin"], "").stdout;
    assert!(show("-g").contains("//## File \"/source/straight.cu\", line 14"), "{}", show("-g"));
    let inlined = "line 7 inlined at \"/source/include/helper.h\", line 100";
    assert!(show("-gi").contains(inlined), "{}", show("-gi"));
    assert!(show("-gp").contains("//## File \".nv_debug_ptx_txt\", line 21"), "{}", show("-gp"));
}

#[test]
fn disasm_prints_source_and_ptx_lines() {
    let folder = folder("debug_disasm");
    fs::write(folder.join("near.cu"), "one\ntwo\n    int v = threadIdx.x; // three\n").unwrap();
    let ptx = STRAIGHT.replace("/source/straight.cu", "near.cu").replace(".loc 1 11 5", ".loc 1 3 5");
    compile_ours(&folder, &["-arch=sm_90a", "-O0", "-lineinfo"], &ptx);
    let outcome = run(ORIOLE, &folder, &["disasm", "--lines", "out.cubin"], "");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let expected = "\t//## File \"near.cu\", line 3: int v = threadIdx.x; // three\n\t//## PTX line 13: mov.u32 %r1, %tid.x;\n        /*";
    assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("\t//## inlined at File \"near.cu\", line 12\n"), "{}", outcome.stdout);
    compile_ours(&folder, &["-arch=sm_90a", "-lineinfo", "-suppress-debug-info"], &ptx);
    let outcome = run(ORIOLE, &folder, &["disasm", "--lines", "out.cubin"], "");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stderr.contains("no line tables"), "{}", outcome.stderr);
}

/// A kernel in which some lines have only a move or a branch, two of them to the next statement.
const BRANCHES: &str = r#".version 8.0
.target sm_75
.address_size 64
.file 1 "/source/branches.cu"
.visible .entry branches(.param .u64 out, .param .u32 n)
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<3>;
    .reg .pred %p<2>;
    .loc 1 10 1
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    .loc 1 11 1
    mov.u32 %r2, %r1;
    .loc 1 12 1
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra $else;
    .loc 1 13 1
    bra.uni $join;
$else:
    .loc 1 14 1
    mov.u32 %r2, 7;
    .loc 1 15 1
    bra.uni $join;
$join:
    .loc 1 16 1
    mov.u32 %r3, %r2;
    .loc 1 17 1
    bra.uni $end;
$end:
    .loc 1 18 1
    st.global.u32 [%rd1], %r3;
    .loc 1 19 1
    ret;
}
"#;

/// With `-g` every line with a statement has code, as in ptxas' output.
#[test]
fn every_line_of_a_debug_build_has_code() {
    let folder = folder("debug_branches");
    let lines = |cubin: &Cubin| -> BTreeSet<String> {
        let [(_, list)] = &positions(cubin, DEBUG_LINE)[..] else { panic!("one function") };
        list.iter().flatten().cloned().collect()
    };
    let expected: BTreeSet<String> = (10..=19).map(|line| format!("/source/branches.cu:{line}")).collect();
    assert_eq!(lines(&compile_ours(&folder, &["-arch=sm_90a", "-g"], BRANCHES)), expected);
    if let Some(ptxas) = oriole_oracles::tool("ptxas") {
        assert_eq!(lines(&compile(&ptxas, &folder, &["-arch=sm_90a", "-g"], BRANCHES)), expected);
    }
}

/// A range of `.nv_debug_info_reg_sass`: word and name of the PTX register, the machine register, and the addresses of
/// the first and the last instruction.
type RegisterRange = (u32, String, u32, u32, u32);

/// Reads `.nv_debug_info_reg_sass`: for each function its name, the number of ranges, and the ranges.
fn register_ranges(cubin: &Cubin) -> Vec<(String, Vec<RegisterRange>)> {
    let section = cubin.find(".nv_debug_info_reg_sass").expect("a table of registers");
    let mut rest = cubin.bytes_of(section).unwrap();
    fn word(rest: &mut &[u8]) -> u32 {
        let (now, later) = rest.split_at(4);
        *rest = later;
        u32::from_le_bytes(now.try_into().unwrap())
    }
    fn text(rest: &mut &[u8]) -> String {
        let end = rest.iter().position(|&byte| byte == 0).unwrap();
        let found = String::from_utf8(rest[..end].to_vec()).unwrap();
        *rest = &rest[end + 1..];
        found
    }
    let mut functions = Vec::new();
    while !rest.is_empty() {
        let (name, count) = (text(&mut rest), word(&mut rest));
        let mut one = || (word(&mut rest), text(&mut rest), word(&mut rest), word(&mut rest), word(&mut rest));
        let ranges = (0..count).map(|_| one()).collect();
        functions.push((name, ranges));
    }
    functions
}

/// The operands of a store are in the registers that the table names for the PTX registers at its address.
#[test]
fn the_table_of_registers_agrees_with_the_code() {
    let folder = folder("debug_registers");
    let cubin = compile_ours(&folder, &["-arch=sm_90a", "-g"], STRAIGHT);
    let [(name, ranges)] = &register_ranges(&cubin)[..] else { panic!("one function") };
    assert_eq!(name, "straight");
    let listing = run(ORIOLE, &folder, &["disasm", "out.cubin"], "").stdout;
    let line = listing.lines().find(|line| line.contains("STG")).unwrap();
    let address = u32::from_str_radix(&line[line.find("/*").unwrap() + 2..line.find("*/").unwrap()], 16).unwrap();
    let at = |ptx: &str, part: u32| -> u32 {
        let fits = |range: &&RegisterRange| range.0 == part && range.1 == ptx && (range.3..=range.4).contains(&address);
        let range = ranges.iter().find(fits).unwrap_or_else(|| panic!("{ptx} is nowhere: {ranges:?}\n{listing}"));
        assert_eq!(range.2 >> 24, 5, "the class of general registers");
        range.2 & 0xff_ffff
    };
    let (data, low, high) = (at("%r4", 0), at("%rd1", 0), at("%rd1", 1));
    assert_eq!(high, low + 1);
    assert!(line.contains(&format!("[R{low}.64], R{data} ;")), "{line}: {ranges:?}");
    // A register that a later instruction overwrites is not named any more.
    for (number, (_, one, register, start, end)) in ranges.iter().enumerate() {
        let overlaps = |other: &RegisterRange| other.2 == *register && other.3 <= *end && *start <= other.4;
        let other = ranges[number + 1..].iter().find(|other| overlaps(other));
        assert!(other.is_none(), "{one} and {other:?} are in one register: {ranges:?}");
    }
    let types = cubin.find(".nv_debug_info_reg_type").and_then(|index| cubin.bytes_of(index)).unwrap();
    assert_eq!(types.len(), "straight".len() + 1 + 4 + ranges.len());
}

/// A kernel with a parameter, a shared and a local variable, and DWARF with their addresses.
const VARIABLES: &str = r#".version 8.0
.target sm_75, debug
.address_size 64
.file 1 "/source/variables.cu"
.visible .global .align 4 .b32 counter;
.visible .entry variables(.param .u64 first, .param .u32 second)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    .shared .align 4 .b8 tile[64];
    .local .align 8 .b8 frame[24];
    .loc 1 3 1
    ld.param.u32 %r1, [second];
    ld.param.u64 %rd1, [first];
    st.shared.u32 [tile], %r1;
    mov.u64 %rd2, frame;
    add.u64 %rd2, %rd2, %rd1;
    st.local.u32 [%rd2], %r1;
    st.global.u32 [counter], %r1;
    ret;
}
.section .debug_abbrev
{
.b8 1,17,1,3,8,0,0
.b8 2,52,0,3,8,2,10,51,11,0,0
.b8 0
}
.section .debug_info
{
.b32 83
.b8 2,0
.b32 .debug_abbrev
.b8 8
.b8 1,97,0
.b8 2,98,0,9,3
.b64 first
.b8 7
.b8 2,98,0,9,3
.b64 second
.b8 7
.b8 2,98,0,9,3
.b64 tile
.b8 8
.b8 2,98,0,9,3
.b64 counter
.b8 5
.b8 2,98,0,11,3
.b64 frame
.b8 35,8
.b8 6
.b8 0
}
"#;

/// Addresses of variables in debug sections: offsets in constant bank 0 and in shared memory, a relocation, a place on the stack.
#[test]
fn debug_sections_have_the_addresses_of_variables() {
    let folder = folder("debug_variables");
    let programs = [Some(PathBuf::from(PTXAS)), oriole_oracles::tool("ptxas")];
    // The header of the unit has 11 bytes, the entry of the unit 3, that of a variable 14 or 16; an expression starts 4 bytes after the
    // start of its entry. The parameters start at 0x210 of constant bank 0, the shared variables after 1024 bytes. The frame is 24 bytes,
    // so that its start is 24 bytes below the address of the frame.
    let expected: [(usize, &[u8]); 4] = [
        (18, &[3, 0x10, 2, 0, 0, 0, 0, 0, 0]),
        (32, &[3, 0x18, 2, 0, 0, 0, 0, 0, 0]),
        (46, &[3, 0, 4, 0, 0, 0, 0, 0, 0]),
        (74, &[0x91, 0x68, 0x96, 0x96, 0x96, 0x96, 0x96, 0x96, 0x96, 35, 8]),
    ];
    for program in programs.iter().flatten() {
        let cubin = compile(program, &folder, &["-arch=sm_90a", "-g"], VARIABLES);
        let info = cubin.find(".debug_info").and_then(|index| cubin.bytes_of(index)).unwrap();
        // ptxas resolves variables on the stack only inside the entry of a function.
        let count = if program == Path::new(PTXAS) { 4 } else { 3 };
        for &(start, bytes) in &expected[..count] {
            assert_eq!(&info[start..start + bytes.len()], bytes, "{program:?}: {info:x?}");
        }
        let counter = relocations(&cubin, ".debug_info").into_iter().map(|(_, name)| name).collect::<Vec<_>>();
        assert_eq!(counter, ["counter"], "{program:?}");
    }
}
