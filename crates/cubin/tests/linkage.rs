//! Compares rebuilt modules that have functions, calls, addresses and linkage with ptxas' files.
//!
//! As in `rebuild.rs`, a cubin of ptxas is read and its semantic parts are given to the builder. Section headers and contents are compared
//! in file order, with every reference by name (`common/canonical.rs`). Differences that are allowed:
//!
//! - the order of symbols and of names in string tables, and therefore the indices of symbols;
//! - in relocatable files from Hopper on, the addends that point from an FDE to its CIE: ptxas computes them before it shortens the FDEs,
//!   so its own are wrong; nvlink accepts both;
//! - the position of `EIATTR_MERCURY_ISA_VERSION` in `.nv.info` of files without kernels: at -O0, ptxas mixes it into the functions;
//! - the position of `.nv.shared.reserved.0` in relocatable files for sm_110 without kernels;
//! - the position of the empty `.rela.nv.constant2.NAME` among the relocations;
//! - on Blackwell, rebuilt files have no Mercury capsules, and their header says so.

use std::fs;
use std::path::Path;

use crate::common::canonical::{canonical, differences, lines_of};
use crate::common::parts::parts;
use crate::common::{
    Scratch, compares_everything, compile, data_folder, files_in, oracle, retarget, root, run, targets_to_compare, traits_of,
};
use oriole_cubin::build::{CodePatch, CodeRelocation, Extern, Function, Home, Module, UNKNOWN_STACK, Variable};
use oriole_cubin::info::{AttributeCode, AttributeValue};
use oriole_cubin::{Cubin, CubinIndex, FileTraits, FileType};

/// Removes the lines about Mercury and the pointers to CIEs, and moves the lines without a fixed position to the end.
fn comparable(lines: Vec<String>) -> Vec<String> {
    let is_mercury = |line: &str| line.contains(".nv.merc.") || line.contains(".nv.capmerc.");
    let is_pointer = |line: &str| line.starts_with("  .rela.debug_frame:") && line.contains("section .debug_frame");
    let (last, mut lines): (Vec<_>, Vec<_>) = lines.into_iter().filter(|line| !is_mercury(line) && !is_pointer(line)).partition(|line| {
        line.starts_with("  .nv.info: EIATTR_MERCURY_ISA_VERSION")
            || line.starts_with("section .rela.nv.constant2.")
            || line.contains(".nv.shared.reserved.0 CUDA")
            || line.starts_with("  .nv.shared.reserved.0")
    });
    lines.extend(last);
    lines
}

/// Rebuilds a file, compares it with the original, and returns the rebuilt bytes.
fn check(name: &str, original: &[u8], traits: FileTraits, failures: &mut Vec<String>) -> Option<Vec<u8>> {
    let cubin = Cubin::read(original).unwrap();
    let rebuilt = match parts(&cubin, traits).and_then(|module| module.build()?.write()) {
        Ok(rebuilt) => rebuilt,
        Err(error) => {
            failures.push(format!("{name}: {error}"));
            return None;
        }
    };
    let found = differences(&comparable(lines_of(&rebuilt).unwrap()), &comparable(canonical(&cubin)));
    if !found.is_empty() {
        failures.push(format!("{name}:\n    {}", found.join("\n    ")));
    }
    Some(rebuilt)
}

fn report(what: &str, count: usize, failures: &[String]) {
    println!("{count} {what}, {} differ", failures.len());
    assert!(failures.is_empty(), "{} of {count} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn checked_in_files_say_the_same() {
    let mut failures = Vec::new();
    let files = files_in(&data_folder().join("linkage"), "cubin");
    for (name, original) in &files {
        check(name, original, FileTraits::of(Cubin::read(original).unwrap().target().unwrap()).unwrap(), &mut failures);
    }
    report("files", files.len(), &failures);
}

/// Returns the modules to compile: name, text, and the sets of options.
fn modules() -> Vec<(String, String, Vec<Vec<&'static str>>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/modules");
    let mut list = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let mut options = vec![vec!["-c"], vec!["-c", "-O0"]];
        if !name.contains(".relocatable.") && !["frames.ptx", "library.ptx"].contains(&name.as_str()) {
            options.extend([vec![], vec!["-O0"]]);
        }
        list.push((name, fs::read_to_string(&path).unwrap(), options));
    }
    list.sort();
    list
}

#[test]
fn fresh_files_say_the_same() {
    let Some(ptxas) = oracle("ptxas") else { return };
    let scratch = Scratch::new("linkage");
    let (mut count, mut failures) = (0, Vec::new());
    for traits in targets_to_compare() {
        let target = traits.target.to_string();
        for (name, text, options) in modules() {
            let ptx = scratch.path("in.ptx");
            fs::write(&ptx, retarget(&text, &target)).unwrap();
            for options in options {
                let label = format!("{name} {} {}", target, options.join(" "));
                let original = compile(&ptxas, &scratch, &ptx, &target, &options);
                check(&label, &original.unwrap_or_else(|| panic!("ptxas refuses {label}")), traits, &mut failures);
                count += 1;
            }
        }
    }
    report("files", count, &failures);
}

#[test]
fn the_corpus_says_the_same() {
    let Some(ptxas) = oracle("ptxas") else { return };
    let scratch = Scratch::new("corpus");
    let mut sources: Vec<_> = fs::read_dir(root().join("corpus")).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.retain(|path| path.extension().is_some_and(|extension| extension == "ptx"));
    sources.sort();
    let ways = [("sm_80", "-c"), ("sm_90a", "-c"), ("sm_90a", "-O3"), ("sm_120a", "-O3")];
    let (mut count, mut failures) = (0, Vec::new());
    for (number, ptx) in sources.iter().enumerate().filter(|(number, _)| compares_everything() || number % 2 == 0) {
        // In a sample of every other file, the variants take turns.
        for (_, (target, option)) in ways.iter().enumerate().filter(|(way, _)| compares_everything() || number / 2 % ways.len() == *way) {
            let traits = traits_of(target);
            let Some(original) = compile(&ptxas, &scratch, ptx, target, &[option]) else { continue };
            let label = format!("{} {} {option}", ptx.file_name().unwrap().display(), target);
            let has_debug = Cubin::read(&original).unwrap().sections().iter().any(|section| section.name.contains("debug_line"));
            if has_debug {
                continue;
            }
            check(&label, &original, traits, &mut failures);
            count += 1;
        }
    }
    assert!(count > 10, "ptxas compiles {count} files only");
    report("files", count, &failures);
}

/// An object that defines the external symbols of the modules.
const REST: &str = r"
.version 9.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 other = 11;
.visible .const .align 4 .u32 othc = 12;
.visible .func (.param .b32 r) extf (.param .b32 a) { .reg .b32 %r; ld.param.b32 %r,[a]; add.u32 %r,%r,1; st.param.b32 [r],%r; ret; }
";

/// Returns the lines about what is loaded: code, attributes, constants, data and their relocations. nvlink turns Blackwell objects without
/// Mercury code into an older kind of file.
fn loaded(lines: Vec<String>) -> Vec<String> {
    let kinds = [".text.", ".nv.info", ".nv.global", ".nv.constant", ".nv.callgraph", ".nv.prototype"];
    let is_loaded = |line: &String| {
        let name = line.trim_start();
        let name = name.strip_prefix(".rela").or(name.strip_prefix(".rel")).unwrap_or(name);
        line.starts_with("  ") && kinds.iter().any(|kind| name.starts_with(kind))
    };
    let mut lines: Vec<String> = lines.into_iter().filter(is_loaded).collect();
    // The two kinds of file differ in the order of sections and attributes.
    lines.sort();
    lines
}

/// Returns the lines that nvlink's files and ours have in common. nvlink keeps the frames of functions that it dropped, and an attribute.
fn linked_lines(data: &[u8]) -> Vec<String> {
    let lines = loaded(lines_of(data).unwrap());
    lines.into_iter().filter(|line| !line.starts_with("  .nv.info: EIATTR_MERCURY_ISA_VERSION")).collect()
}

/// nvlink produces the same file from ptxas' object and from ours. Its output, an executable file with functions in separate sections, can
/// be rebuilt too.
#[test]
fn nvlink_links_rebuilt_objects_alike() {
    let (Some(ptxas), Some(nvlink)) = (oracle("ptxas"), oracle("nvlink")) else { return };
    let scratch = Scratch::new("nvlink");
    let (mut count, mut failures) = (0, Vec::new());
    for traits in targets_to_compare() {
        let target = traits.target.to_string();
        let rest = scratch.path("rest.ptx");
        fs::write(&rest, retarget(REST, &target)).unwrap();
        fs::write(scratch.path("rest.o"), compile(&ptxas, &scratch, &rest, &target, &["-c"]).unwrap()).unwrap();
        for (name, text, _) in modules().into_iter().filter(|(name, ..)| !name.starts_with("frames")) {
            let ptx = scratch.path("in.ptx");
            fs::write(&ptx, retarget(&text, &target)).unwrap();
            let original = compile(&ptxas, &scratch, &ptx, &target, &["-c"]).unwrap();
            let rebuilt = parts(&Cubin::read(&original).unwrap(), traits).unwrap().build().unwrap().write().unwrap();
            let link = |object: &[u8]| {
                fs::write(scratch.path("module.o"), object).unwrap();
                let arch = format!("-arch={}", target);
                let linked = run(&nvlink, &[&arch, "module.o", "rest.o", "-o", "linked.cubin"], &scratch.0);
                linked.map(|_| fs::read(scratch.path("linked.cubin")).unwrap())
            };
            let (Some(theirs), Some(ours)) = (link(&original), link(&rebuilt)) else {
                failures.push(format!("{name} {}: nvlink fails", target));
                continue;
            };
            let lines = |data: &[u8]| {
                let lines = lines_of(data).unwrap();
                if traits.has_mercury() { loaded(lines) } else { lines }
            };
            let found = differences(&lines(&ours), &lines(&theirs));
            if !found.is_empty() {
                failures.push(format!("{name} {}:\n    {}", target, found.join("\n    ")));
            }
            let linked = Cubin::read(&theirs).unwrap();
            match parts(&linked, traits).and_then(|module| module.build()?.write()) {
                Ok(again) => {
                    let found = differences(&linked_lines(&again), &linked_lines(&theirs));
                    if !found.is_empty() {
                        failures.push(format!("linked {name} {}:\n    {}", target, found.join("\n    ")));
                    }
                }
                Err(error) => failures.push(format!("linked {name} {}: {error}", target)),
            }
            count += 1;
        }
    }
    report("linked files", count, &failures);
}

/// The targets whose files nvdisasm reads.
const DISASSEMBLED: [&str; 3] = ["sm_80", "sm_100a", "sm_120"];

/// nvdisasm prints the same code for ptxas' file and for ours, also without Mercury on Blackwell, and cuobjdump reads our file.
#[test]
fn rebuilt_files_disassemble_alike() {
    let (Some(ptxas), Some(nvdisasm), Some(cuobjdump)) = (oracle("ptxas"), oracle("nvdisasm"), oracle("cuobjdump")) else { return };
    let check = |turn: usize| {
        let target = DISASSEMBLED[turn];
        let scratch = Scratch::new(&format!("disassemble_{target}"));
        let (mut count, mut failures) = (0, Vec::new());
        let traits = traits_of(target);
        let target = traits.target.to_string();
        let modules = modules().into_iter().filter(|(name, ..)| !["frames.ptx", "library.ptx"].contains(&name.as_str()));
        for (number, (name, text, options)) in modules.enumerate() {
            let ptx = scratch.path("in.ptx");
            fs::write(&ptx, retarget(&text, &target)).unwrap();
            let optimized = options.into_iter().filter(|options| !options.contains(&"-O0")).enumerate();
            // In a sample, the targets take turns: nvdisasm takes long to start.
            let is_compared = |way: usize| compares_everything() || (number + way) % DISASSEMBLED.len() == turn;
            for (_, options) in optimized.filter(|&(way, _)| is_compared(way)) {
                let label = format!("{name} {} {}", target, options.join(" "));
                let original = compile(&ptxas, &scratch, &ptx, &target, &options).unwrap();
                let rebuilt = parts(&Cubin::read(&original).unwrap(), traits).unwrap().build().unwrap().write().unwrap();
                let print = |data: &[u8]| {
                    fs::write(scratch.path("print.cubin"), data).unwrap();
                    run(&cuobjdump, &["-elf", "print.cubin"], &scratch.0)?;
                    run(&nvdisasm, &["-c", "-hex", "print.cubin"], &scratch.0).map(|text| String::from_utf8(text).unwrap())
                };
                let (Some(theirs), Some(ours)) = (print(&original), print(&rebuilt)) else {
                    failures.push(format!("{label}: refused"));
                    continue;
                };
                let found = code_lines(&ours).zip(code_lines(&theirs)).find(|(ours, theirs)| ours != theirs);
                failures.extend(found.map(|(ours, theirs)| format!("{label}:\n    ours   {ours}\n    theirs {theirs}")));
                count += 1;
            }
        }
        (count, failures)
    };
    let checked: Vec<(usize, Vec<String>)> = std::thread::scope(|scope| {
        let threads = [0, 1, 2].map(|turn| scope.spawn(move || check(turn)));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let failures: Vec<String> = checked.iter().flat_map(|(_, failures)| failures.clone()).collect();
    report("listings", checked.iter().map(|(count, _)| count).sum(), &failures);
}

/// Returns the lines before the list of symbols, whose order may differ.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().take_while(|line| !line.contains("SYMBOLS"))
}

/// Returns registers, barriers and stack of each kernel.
fn costs(cubin: &Cubin) -> Vec<String> {
    let cost = |name: &str| {
        let value = |code| cubin.function_value(name, code);
        let barriers = cubin.attribute(&format!(".nv.info.{name}"), AttributeCode::NUM_BARRIERS);
        format!("{name} {:?} {:?} {barriers:?}", value(AttributeCode::REGCOUNT), value(AttributeCode::MIN_STACK_SIZE))
    };
    cubin.kernels().map(|kernel| cost(kernel.name)).collect()
}

#[test]
fn calls_cost_what_nvlink_says() {
    let (Some(ptxas), Some(nvlink)) = (oracle("ptxas"), oracle("nvlink")) else { return };
    let scratch = Scratch::new("costs");
    let (target, traits) = ("sm_90a", traits_of("sm_90a"));
    for (name, text, _) in modules().into_iter().filter(|(name, ..)| ["calls.ptx", "stack.ptx", "switch.ptx"].contains(&name.as_str())) {
        let ptx = scratch.path("in.ptx");
        fs::write(&ptx, retarget(&text, target)).unwrap();
        let object = compile(&ptxas, &scratch, &ptx, target, &["-c"]).unwrap();
        run(&nvlink, &["-arch=sm_90a", "out.cubin", "-o", "linked.cubin"], &scratch.0).unwrap();
        let linked = Cubin::read(&fs::read(scratch.path("linked.cubin")).unwrap()).unwrap();
        let mut module = parts(&Cubin::read(&object).unwrap(), traits).unwrap();
        module.file_type = FileType::Executable;
        for function in &mut module.functions {
            // Drop the relocations that only nvlink can fill in.
            let kinds = [CodePatch::AddressLow, CodePatch::AddressHigh, CodePatch::Call];
            function.relocations.retain(|relocation| kinds.contains(&relocation.kind));
        }
        module.settle_calls();
        assert_eq!(costs(&module.build().unwrap()), costs(&linked), "{name}");
    }
}

#[test]
fn recursion_and_pointers_make_the_stack_unknown() {
    let traits = traits_of("sm_90a");
    let leaf = |name: &str, size| Function { frame_size: size, registers: 30, ..Function::device(name) };
    let calling = |function: Function, callees: &[&str]| Function { calls: callees.iter().map(|&name| name.into()).collect(), ..function };
    let kernel = |callees: &[&str]| calling(Function { frame_size: 8, registers: 10, ..Function::kernel("k") }, callees);
    let settled = |functions: Vec<Function>| {
        let mut module = Module::new(traits, functions);
        module.settle_calls();
        (module.functions[0].min_stack_size, module.functions[0].registers)
    };
    // There are two call chains to the same function; the deeper one counts.
    let middle = calling(leaf("middle", 16), &["deep"]);
    assert_eq!(settled(vec![kernel(&["deep", "middle"]), middle, leaf("deep", 32)]), (56, 30));
    assert_eq!(settled(vec![kernel(&["loop"]), calling(leaf("loop", 16), &["loop"])]), (UNKNOWN_STACK, 30));
    assert_eq!(settled(vec![kernel(&[]), leaf("unused", 64)]), (8, 10));
    let through_pointer = Function { indirect_calls: vec!["#ii".into()], ..kernel(&[]) };
    let taken = |prototype: &str| Function { is_address_taken: true, prototype: Some(prototype.into()), ..leaf("taken", 64) };
    assert_eq!(settled(vec![through_pointer.clone(), taken("#ii")]), (UNKNOWN_STACK, 30));
    assert_eq!(settled(vec![through_pointer, taken("#il")]), (UNKNOWN_STACK, 10));
}

#[test]
fn a_name_that_is_missing_is_an_error() {
    let traits = traits_of("sm_90a");
    let call = CodeRelocation { offset: 0, kind: CodePatch::Call, symbol: "nowhere".into(), addend: 0 };
    let kernel = Function { code: vec![0; 128], relocations: vec![call], ..Function::kernel("k") };
    let error = Module::new(traits, vec![kernel]).build().unwrap_err();
    assert!(error.message.contains("`nowhere`"), "{error}");
}

/// An attribute holds 16,383 symbols, so a longer list takes several attributes. (ptxas 13.0 cuts it off.)
#[test]
fn long_lists_of_undefined_functions_are_split() {
    let names: Vec<String> = (0..20_000).map(|number| format!("f{number}")).collect();
    let kernel = Function { code: vec![0; 128], externs: names.clone(), ..Function::kernel("k") };
    let mut module = Module::new(traits_of("sm_90a"), vec![kernel]);
    module.file_type = FileType::Relocatable;
    module.externs = names.iter().map(Extern::function).collect();
    let cubin = Cubin::read(&module.build().unwrap().write().unwrap()).unwrap();
    let index = CubinIndex::new(&cubin);
    let lists: Vec<usize> = index
        .function_attributes("k")
        .iter()
        .filter_map(|attribute| match &attribute.value {
            AttributeValue::Symbols(list) if attribute.code == AttributeCode::EXTERNS => Some(list.len()),
            _ => None,
        })
        .collect();
    assert_eq!(lists, [16_383, 3_617]);
}

#[test]
fn what_needs_a_linker_is_refused_in_executable_files() {
    let traits = traits_of("sm_80");
    let mut module = Module::new(traits, vec![Function::kernel("k")]);
    module.variables.push(Variable::new("tentative", Home::Common, 4, 4));
    assert!(module.build().unwrap_err().message.contains("`tentative`"));
    module.file_type = FileType::Relocatable;
    assert!(module.build().is_ok());
    let offset = CodeRelocation { offset: 0x20, kind: CodePatch::ConstantOffset, symbol: "k".into(), addend: 0 };
    let mut module = Module::new(traits, vec![Function { relocations: vec![offset], ..Function::kernel("k") }]);
    assert!(module.build().unwrap_err().message.contains("ConstantOffset at 0x20 of `k`"));
    module.file_type = FileType::Relocatable;
    assert!(module.build().is_ok());
}

#[test]
fn variables_are_placed_by_alignment() {
    let traits = traits_of("sm_80");
    let mut module = Module::new(traits, Vec::new());
    let byte = Variable::new("byte", Home::Initialized(vec![1]), 1, 1);
    let wide = Variable::new("wide", Home::Initialized(vec![2; 16]), 16, 16);
    let zero = Variable::new("zero", Home::Zero, 4, 4);
    let word = Variable::new("word", Home::Initialized(vec![3; 4]), 4, 4);
    module.variables = vec![byte, wide, zero, word];
    module.place_variables();
    let offsets: Vec<u64> = module.variables.iter().map(|variable| variable.offset).collect();
    assert_eq!(offsets, [20, 0, 0, 16]);
}
