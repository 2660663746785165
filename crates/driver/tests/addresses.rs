//! Compares with ptxas what files say about addresses of kernels and functions: relocations of code and data, undefined symbols, call graph
//! and the attribute `EIATTR_EXTERNS`.

use std::fs;
use std::path::Path;
use std::process::Command;

use oriole_cubin::Cubin;
use oriole_cubin::info::{AttributeCode, AttributeValue};
use oriole_cubin::section::Content;
use oriole_cubin::symbol::SymbolSection;
use oriole_driver::{Options, compile};
use oriole_isa::Target;

/// A kernel that launches another one as nvcc's `-rdc` code does, and writes the addresses of kernels and functions of every linkage.
const LAUNCHES: &str = "
.version 9.0
.target sm_75
.address_size 64
.extern .func (.param .b64 r) cudaGetParameterBufferV2 (.param .b64 f, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s);
.extern .func (.param .b32 r) cudaLaunchDeviceV2 (.param .b64 p, .param .b64 s);
.extern .entry elsewhere(.param .u64 a);
.extern .entry unused(.param .u64 a);
.extern .func outside(.param .b32 a);
.visible .func seen(.param .b32 a) { ret; }
.weak .func replaced(.param .b32 a) { ret; }
.func hidden(.param .b32 a) { ret; }
.visible .entry child(.param .u64 a) { ret; }
.entry private(.param .u64 a) { ret; }
.weak .entry weak(.param .u64 a) { ret; }
.visible .entry parent(.param .u64 a, .param .u32 n)
{
    .reg .b64 %rd<9>; .reg .b32 %r<9>; .reg .pred %p<3>;
    ld.param.u64 %rd1, [a];
    ld.param.u32 %r5, [n];
    mov.u64 %rd2, child;
    mov.u32 %r1, 1;
    mov.u32 %r6, 0;
    {
        .param .b64 f; st.param.b64 [f], %rd2;
        .param .align 4 .b8 g[12]; st.param.b32 [g], %r1; st.param.b32 [g+4], %r1; st.param.b32 [g+8], %r1;
        .param .align 4 .b8 b[12]; st.param.b32 [b], %r5; st.param.b32 [b+4], %r1; st.param.b32 [b+8], %r1;
        .param .b32 s; st.param.b32 [s], %r6;
        .param .b64 r;
        call.uni (r), cudaGetParameterBufferV2, (f, g, b, s);
        ld.param.b64 %rd3, [r];
    }
    setp.eq.s64 %p1, %rd3, 0;
    @%p1 bra $end;
    st.u64 [%rd3], %rd1;
    mov.u64 %rd5, 0;
    {
        .param .b64 p; st.param.b64 [p], %rd3;
        .param .b64 s; st.param.b64 [s], %rd5;
        .param .b32 r;
        call.uni (r), cudaLaunchDeviceV2, (p, s);
        ld.param.b32 %r7, [r];
    }
    st.global.u32 [%rd1], %r7;
$end:
    mov.u64 %rd2, private;
    st.global.u64 [%rd1+8], %rd2;
    mov.u64 %rd2, weak;
    st.global.u64 [%rd1+16], %rd2;
    mov.u64 %rd2, elsewhere;
    st.global.u64 [%rd1+24], %rd2;
    mov.u64 %rd2, seen;
    st.global.u64 [%rd1+32], %rd2;
    mov.u64 %rd2, replaced;
    st.global.u64 [%rd1+40], %rd2;
    mov.u64 %rd2, hidden;
    st.global.u64 [%rd1+48], %rd2;
    mov.u64 %rd2, outside;
    st.global.u64 [%rd1+56], %rd2;
    ret;
}
";

/// Variables in global and in constant memory that are initialized with addresses, and with single bytes of addresses.
const TABLES: &str = "
.version 9.0
.target sm_75
.address_size 64
.extern .entry elsewhere(.param .u64 a);
.extern .func outside(.param .b32 a);
.visible .func seen(.param .b32 a) { ret; }
.weak .func replaced(.param .b32 a) { ret; }
.func hidden(.param .b32 a) { ret; }
.visible .entry child(.param .u64 a) { ret; }
.entry private(.param .u64 a) { ret; }
.weak .entry weak(.param .u64 a) { ret; }
.visible .global .align 4 .u32 value = 3;
.visible .global .align 8 .u64 kernels[4] = {child, private, weak, elsewhere};
.visible .global .align 8 .u64 functions[4] = {seen, replaced, hidden, outside};
.visible .const .align 8 .u64 constant_kernels[4] = {child, private, weak, elsewhere};
.visible .const .align 8 .u64 constant_functions[4] = {seen, replaced, hidden, outside};
.visible .global .align 8 .u64 addresses[3] = {generic(value), value, value+4};
.visible .global .u8 kernel_bytes[8] = {0xff(child), 0xff00(child), 0xff0000(child), 0xff000000(child), 0xff00000000(child),
    0xff0000000000(child), 0xff000000000000(child), 0xff00000000000000(child)};
.visible .global .u8 function_bytes[8] = {0xff(seen), 0xff00(seen), 0xff0000(seen), 0xff000000(seen), 0xff00000000(seen),
    0xff0000000000(seen), 0xff000000000000(seen), 0xff00000000000000(seen)};
.visible .global .u8 value_bytes[2] = {0xff(value), 0xff00(value)};
.extern .const .align 8 .u32 far_constants[3];
.extern .global .u32 far_values[5];
.visible .entry reads(.param .u64 a)
{
    .reg .b64 %rd<4>; .reg .b32 %r<3>;
    ld.param.u64 %rd1, [a];
    mov.u64 %rd2, functions;
    ld.global.u64 %rd2, [%rd2+8];
    st.global.u64 [%rd1], %rd2;
    ld.global.u64 %rd3, [kernels];
    st.global.u64 [%rd1+8], %rd3;
    ld.const.u32 %r1, [far_constants+4];
    ld.global.u32 %r2, [far_values];
    st.global.v2.u32 [%rd1+16], {%r1, %r2};
    ret;
}
";

const TARGETS: [&str; 5] = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120"];

/// Returns what a file says about addresses, sorted: positions in data by variable, and none in code, whose order is that of a compiler.
fn facts(bytes: &[u8]) -> Vec<String> {
    let cubin = Cubin::read(bytes).expect("a cubin");
    let name = |index: u32| cubin.symbols()[index as usize].name.as_str();
    let mut facts = Vec::new();
    for section in cubin.sections().iter().filter(|section| !section.name.contains(".merc.")) {
        match &section.content {
            Content::Relocations(list) if section.name.contains(".text.") => {
                let of_others = list.iter().filter(|one| !section.name.ends_with(&format!(".text.{}", name(one.symbol))));
                // ptxas refers to constants in the instruction that reads them, Oriole in a `MOV` of their offset.
                let of_others = of_others.filter(|one| !name(one.symbol).contains("constant"));
                facts.extend(of_others.map(|one| format!("{} {:?} {}", section.name, one.relocation_type, name(one.symbol))));
            }
            Content::Relocations(list) if section.name.contains(".nv.global") || section.name.contains(".nv.constant3") => {
                facts.extend(list.iter().map(|one| {
                    let addend = one.addend.unwrap_or(0);
                    format!("{} {:?} {} {addend}", place(&cubin, section.info, one.offset), one.relocation_type, name(one.symbol))
                }));
            }
            Content::CallGraph(edges) => {
                let mut list = 0;
                for edge in edges {
                    if edge.is_mark() {
                        list = -1 - edge.callee;
                    } else if [0, 3].contains(&list) {
                        facts.push(format!(
                            "{} {} {}",
                            ["calls", "takes"][list as usize / 3],
                            name(edge.caller),
                            name(edge.callee.cast_unsigned())
                        ));
                    } else {
                        facts.push(format!("list {list} {}", name(edge.caller)));
                    }
                }
            }
            Content::Info(list) if section.name == ".nv.info.parent" => {
                facts.extend(list.iter().filter(|attribute| attribute.code == AttributeCode::EXTERNS).flat_map(|attribute| {
                    let AttributeValue::Symbols(symbols) = &attribute.value else { panic!("EIATTR_EXTERNS without symbols") };
                    symbols.iter().map(|&symbol| format!("parent lists {}", name(symbol)))
                }));
            }
            _ => {}
        }
    }
    let is_listed = |symbol: &&oriole_cubin::symbol::Symbol| symbol.is_function() || symbol.name.starts_with("far_");
    let functions = cubin.symbols().iter().filter(is_listed);
    facts.extend(functions.map(|symbol| {
        let is_undefined = symbol.section == SymbolSection::Undefined;
        let size = if is_undefined { symbol.size } else { 0 };
        format!("symbol {} binding {} other {:#x} size {size} undefined {is_undefined}", symbol.name, symbol.binding, symbol.other)
    }));
    facts.sort();
    facts.dedup();
    facts
}

/// Returns the variable at an offset of a section, and the offset in it.
fn place(cubin: &Cubin, section: u32, offset: u64) -> String {
    let holds = |symbol: &&oriole_cubin::symbol::Symbol| {
        symbol.section == SymbolSection::Section(section) && (symbol.value..symbol.value + symbol.size).contains(&offset)
    };
    let variable = cubin.symbols().iter().find(holds).expect("a variable");
    format!("{}+{}", variable.name, offset - variable.value)
}

/// Compiles a module to a relocatable file.
fn compiled(text: &str, target: &str) -> Vec<u8> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
    let options = Options { relocatable: true, ..Options::new(Target::parse(target).unwrap()) };
    compile(&[&checked.module], &options).expect("the module compiles").cubin
}

/// Compiles a module with ptxas to a relocatable file.
fn compiled_by_ptxas(ptxas: &Path, folder: &Path, text: &str, target: &str) -> Vec<u8> {
    let (source, output) = (folder.join("in.ptx"), folder.join("out.o"));
    fs::write(&source, text).unwrap();
    let status = Command::new(ptxas).args(["-c", "-arch", target, "-o"]).args([&output, &source]).status().unwrap();
    assert!(status.success(), "ptxas for {target}");
    fs::read(output).unwrap()
}

/// Relocations and symbols that ptxas 13.0.88 writes for sm_90a, to compare with where ptxas is not installed.
const RECORDED: [(&str, &str); 26] = [
    (LAUNCHES, ".rela.text.parent R_CUDA_FUNC_DESC32_LO_32 child"),
    (LAUNCHES, ".rela.text.parent R_CUDA_FUNC_DESC32_HI_32 child"),
    (LAUNCHES, ".rela.text.parent R_CUDA_FUNC_DESC32_LO_32 private"),
    (LAUNCHES, ".rela.text.parent R_CUDA_FUNC_DESC32_LO_32 weak"),
    (LAUNCHES, ".rela.text.parent R_CUDA_FUNC_DESC32_LO_32 elsewhere"),
    (LAUNCHES, ".rela.text.parent R_CUDA_UNIFIED32_LO_32 outside"),
    (LAUNCHES, ".rela.text.parent R_CUDA_UNIFIED32_LO_32 seen"),
    (LAUNCHES, "symbol elsewhere binding 1 other 0x10 size 0 undefined true"),
    (LAUNCHES, "symbol outside binding 1 other 0x0 size 0 undefined true"),
    (LAUNCHES, "list 1 child"),
    (LAUNCHES, "list 1 elsewhere"),
    (LAUNCHES, "takes parent elsewhere"),
    (LAUNCHES, "parent lists child"),
    (LAUNCHES, "parent lists outside"),
    (TABLES, "kernels+0 R_CUDA_FUNC_DESC_64 child 0"),
    (TABLES, "kernels+24 R_CUDA_FUNC_DESC_64 elsewhere 0"),
    (TABLES, "functions+24 R_CUDA_UNIFIED outside 0"),
    (TABLES, "constant_kernels+8 R_CUDA_FUNC_DESC_64 private 0"),
    (TABLES, "constant_functions+8 R_CUDA_UNIFIED replaced 0"),
    (TABLES, "kernel_bytes+7 R_CUDA_FUNC_DESC_8_56 child 0"),
    (TABLES, "function_bytes+1 R_CUDA_UNIFIED_8_8 seen 0"),
    (TABLES, "value_bytes+1 R_CUDA_G8_8 value 0"),
    (TABLES, "takes reads outside"),
    (TABLES, "takes reads seen"),
    (TABLES, "symbol far_constants binding 1 other 0x80 size 12 undefined true"),
    (TABLES, "symbol far_values binding 1 other 0x20 size 20 undefined true"),
];

#[test]
fn the_file_has_what_ptxas_writes() {
    for module in [LAUNCHES, TABLES] {
        let facts = facts(&compiled(module, "sm_90a"));
        let missing: Vec<&str> =
            RECORDED.iter().filter(|(text, fact)| *text == module && !facts.iter().any(|own| own == fact)).map(|one| one.1).collect();
        assert!(missing.is_empty(), "{missing:?} are not in {facts:#?}");
    }
    assert!(!facts(&compiled(LAUNCHES, "sm_90a")).iter().any(|fact| fact.contains(" unused ")));
}

#[test]
fn files_agree_with_ptxas() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = tempfile::tempdir().unwrap();
    for module in [LAUNCHES, TABLES] {
        for target in TARGETS {
            let theirs = compiled_by_ptxas(Path::new(&ptxas), folder.path(), module, target);
            assert_eq!(facts(&compiled(module, target)), facts(&theirs), "{target}");
        }
    }
}

/// Definitions of what the two modules refer to.
const REST: &str = "
.version 9.0
.target sm_75
.address_size 64
.visible .func (.param .b64 r) cudaGetParameterBufferV2 (.param .b64 f, .param .align 4 .b8 g[12], .param .align 4 .b8 b[12], .param .b32 s) { ret; }
.visible .func (.param .b32 r) cudaLaunchDeviceV2 (.param .b64 p, .param .b64 s) { ret; }
.visible .entry elsewhere(.param .u64 a) { ret; }
.visible .func outside(.param .b32 a) { ret; }
.visible .const .align 8 .u32 far_constants[3] = {1, 2, 3};
.visible .global .u32 far_values[5];
";

/// nvlink resolves the addresses of our objects as those of ptxas, and an executable file of ours has the same relocations.
#[test]
fn nvlink_resolves_addresses_alike() {
    let (Some(ptxas), Some(nvlink)) = (oriole_oracles::tool("ptxas"), oriole_oracles::optional_tool("nvlink")) else { return };
    let folder = tempfile::tempdir().unwrap();
    for (module, target) in [(LAUNCHES, "sm_80"), (LAUNCHES, "sm_90a"), (TABLES, "sm_80"), (TABLES, "sm_90a")] {
        let by_ptxas = |text: &str| compiled_by_ptxas(Path::new(&ptxas), folder.path(), text, target);
        fs::write(folder.path().join("rest.o"), by_ptxas(REST)).unwrap();
        let link = |object: Vec<u8>| {
            fs::write(folder.path().join("module.o"), object).unwrap();
            let arguments = [&format!("-arch={target}"), "module.o", "rest.o", "-o", "linked.cubin"];
            let status = Command::new(&nvlink).args(arguments).current_dir(folder.path()).status().unwrap();
            assert!(status.success(), "nvlink for {target}");
            facts(&fs::read(folder.path().join("linked.cubin")).unwrap())
        };
        assert_eq!(link(compiled(module, target)), link(by_ptxas(module)), "{target}");
    }
    let modules = [LAUNCHES, REST].map(|text| oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()));
    let modules: Vec<_> = modules.iter().map(|checked| &checked.module).collect();
    let executable = compile(&modules, &Options::new(Target::parse("sm_90a").unwrap())).expect("the program compiles").cubin;
    let facts = facts(&executable);
    for kernel in ["child", "private", "weak", "elsewhere"] {
        assert!(facts.contains(&format!(".rela.text.parent R_CUDA_FUNC_DESC32_LO_32 {kernel}")), "{kernel}: {facts:#?}");
    }
}
