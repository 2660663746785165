//! C programs compile, link with both forms of the library and run: one that is written against the interface of nvPTXCompiler, and the
//! example of the library's own interface, against an installation.
#![cfg(target_os = "linux")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{env, fs};

/// Returns the folder with the libraries that Cargo built with this test.
fn library_folder() -> PathBuf {
    // The test is in `deps`.
    let test = env::current_exe().unwrap();
    test.parent().unwrap().to_owned()
}

/// Returns a folder for the files of a test.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns whether a program can be started; says if not.
fn has(program: &str) -> bool {
    let is_there = Command::new(program).arg("--version").output().is_ok();
    if !is_there {
        println!("skipped: there is no {program}");
    }
    is_there
}

fn output_of(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

/// Runs a command; returns its standard output.
fn run(command: &mut Command) -> String {
    let output = output_of(command);
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Compiles a C program.
fn build(source: &Path, program: &Path, arguments: &[String]) {
    let flags = ["-std=c99", "-Wall", "-Wextra", "-Werror"];
    run(Command::new("cc").args(flags).arg(source).args(arguments).arg("-o").arg(program));
}

/// Builds the program for nvPTXCompiler with one form of the library, runs it, and returns its cubin.
fn flow(name: &str, link: &[&str]) -> Vec<u8> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (program, cubin) = (folder("flow").join(name), folder("flow").join(format!("{name}.cubin")));
    let include = format!("-I{}", sources.join("include").display());
    let arguments: Vec<String> = [include.as_str()].iter().chain(link).map(ToString::to_string).collect();
    build(&sources.join("tests/flow.c"), &program, &arguments);
    // Cargo's own search path has a folder where an older build may have left the library.
    let log = run(Command::new(&program).arg(&cubin).env("LD_LIBRARY_PATH", library_folder()));
    assert!(log.contains("ptxas info    : Compiling entry function 'simpleVectorAdd' for 'sm_90'\n"), "{log}");
    assert!(log.contains("ptxas info    : Used "), "{log}");
    fs::read(cubin).unwrap()
}

/// Both forms of the library give the same bytes.
#[test]
fn shared_and_static_library_compile_a_program() {
    if !has("cc") {
        return;
    }
    let folder = library_folder().display().to_string();
    let shared = flow("flow_shared", &[&format!("-L{folder}"), "-loriole_c", &format!("-Wl,-rpath,{folder}")]);
    let is_static = format!("{folder}/liboriole_c.a");
    let fixed = flow("flow_static", &[&is_static, "-lpthread", "-ldl", "-lm"]);
    assert_eq!(&shared[..4], b"\x7fELF");
    assert_eq!(shared, fixed);
}

const PTX: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p) {\n\
    .reg .b64 %a; .reg .b32 %i;\nld.param.u64 %a, [p];\nmov.u32 %i, %tid.x;\nst.global.u32 [%a], %i;\nret;\n}\n";

/// The installed library has versioned symbols and works with pkg-config and CMake; the example runs with both of its forms.
#[test]
fn the_installed_library_runs_the_example() {
    if !has("cc") {
        return;
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let prefix = folder("prefix");
    run(Command::new(root.join("tools/install-c-library.sh")).arg("--prefix").arg(&prefix).arg("--from").arg(library_folder()));
    let version = env!("CARGO_PKG_VERSION");
    let library = prefix.join(format!("lib/liboriole.so.{version}"));
    let symbols = run(Command::new("nm").arg("-D").arg("--defined-only").arg(&library));
    for symbol in ["oriole_compile@@ORIOLE_0.1", "nvPTXCompilerCreate@@NVPTXCOMPILER_13.0"] {
        assert!(symbols.contains(symbol), "{symbol}\n{symbols}");
    }
    assert!(symbols.lines().all(|line| line.contains("@@") || line.contains(" A ")), "{symbols}");

    let lib = prefix.join("lib");
    let mut shared = vec![format!("-I{}", prefix.join("include/oriole").display()), format!("-L{}", lib.display()), "-loriole".to_owned()];
    if has("pkg-config") {
        let mut query = Command::new("pkg-config");
        let flags = run(query.args(["--cflags", "--libs", "oriole"]).env("PKG_CONFIG_PATH", lib.join("pkgconfig")));
        let flags: Vec<String> = flags.split_whitespace().map(str::to_owned).collect();
        assert_eq!(flags, shared);
        assert_eq!(run(query.args(["--modversion"]).env("PKG_CONFIG_PATH", lib.join("pkgconfig"))).lines().last(), Some(version));
    }
    shared.push(format!("-Wl,-rpath,{}", lib.display()));
    let fixed = [shared[0].clone(), lib.join("liboriole.a").display().to_string()];
    let fixed: Vec<String> = fixed.into_iter().chain(["-lpthread", "-ldl", "-lm"].map(str::to_owned)).collect();
    let source = root.join("examples/c/compile.c");
    let cubins = [("shared", &shared), ("static", &fixed)].map(|(name, flags)| {
        let program = folder("example").join(name);
        build(&source, &program, flags);
        example(&program)
    });
    assert_eq!(cubins[0], cubins[1]);
    assert_eq!(cubins[0], oriole::Compiler::new().arch("sm_90a").unwrap().compile(PTX).unwrap().into_bytes());
    cmake(&root, &prefix);
}

/// Runs the example: a program, one with an error, and one that is cancelled. Returns the cubin.
fn example(program: &Path) -> Vec<u8> {
    let folder = folder("example");
    let (input, cubin) = (folder.join("k.ptx"), folder.join("k.cubin"));
    let call = |text: &str, more: &[&str]| {
        fs::write(&input, text).unwrap();
        let output = output_of(Command::new(program).arg(&input).arg(&cubin).args(more));
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = call(PTX, &["sm_90a"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.starts_with("k: 1 of 1 functions\n") && text.ends_with("with machine code, hazards: [], explanation: {\"schema\"\n"),
        "{text}"
    );
    let bytes = fs::read(&cubin).unwrap();

    let (code, text) = call(&PTX.replace("tid", "tdi"), &["sm_90a"]);
    assert_eq!(code, Some(1));
    assert!(text.starts_with("error E0") && text.contains(", line 7, column 13: ") && text.contains("status 1: "), "{text}");
    let (code, text) = call(PTX, &["sm_9"]);
    assert_eq!((code, text.contains("status 5: sm_9 is not a target")), (Some(1), true), "{text}");
    for passes in ["0", "4"] {
        let (code, text) = call(PTX, &["sm_90a", passes]);
        assert_eq!((code, text.contains("status 7: the compilation was cancelled")), (Some(1), true), "{text}");
    }
    bytes
}

/// Builds the example with CMake and the installed package, if there is CMake.
fn cmake(root: &Path, prefix: &Path) {
    if !has("cmake") {
        return;
    }
    let (source, build) = (folder("cmake"), folder("cmake/build"));
    let text = format!(
        "cmake_minimum_required(VERSION 3.10)\nproject(example C)\nfind_package(Oriole {} REQUIRED)\n\
         add_executable(example {})\ntarget_link_libraries(example Oriole::oriole)\n",
        env!("CARGO_PKG_VERSION"),
        root.join("examples/c/compile.c").display()
    );
    fs::write(source.join("CMakeLists.txt"), text).unwrap();
    let prefix = format!("-DCMAKE_PREFIX_PATH={}", prefix.display());
    run(Command::new("cmake").arg("-S").arg(&source).arg("-B").arg(&build).arg(prefix));
    run(Command::new("cmake").arg("--build").arg(&build));
    example(&build.join("example"));
}
