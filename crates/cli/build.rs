//! Executables at a fixed address, and `ptxas` without shared libraries.
//!
//! The tables of PTX and of machine instructions are full of pointers. In a position-independent executable the loader has to fill in
//! 37,000 of them before `main`, which touches every page of the tables and took longer than compiling a small kernel.
//!
//! Build tools start one `ptxas` for each file. The loader of shared libraries takes 0.4 ms of each process, almost as much as all passes for
//! a kernel of 20 lines, so `ptxas` contains the C library where its static form is installed. `oriole` loads the CUDA driver at run time,
//! which needs the shared C library.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// The libraries that the standard library of Rust asks for, and the static library that contains the same functions.
const STATIC_LIBRARIES: [(&str, &str); 7] =
    [("c", "c"), ("m", "m"), ("pthread", "pthread"), ("dl", "dl"), ("rt", "rt"), ("util", "util"), ("gcc_s", "gcc_eh")];

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=ORIOLE_SHARED_LIBC");
    if env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
        if may_be_static()
            && let Some(folder) = write_library_scripts()
        {
            println!("cargo::rustc-link-arg-bin=ptxas=-static");
            println!("cargo::rustc-link-arg-bin=ptxas=-L{}", folder.display());
        }
    }
}

/// Returns whether `ptxas` may be linked statically here: for GNU/Linux on x86-64, unless Rust does so anyway (`+crt-static`), a sanitizer
/// needs the shared C library, the program is for another machine, or the user set `ORIOLE_SHARED_LIBC`.
fn may_be_static() -> bool {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    is("CARGO_CFG_TARGET_ENV", "gnu")
        && is("CARGO_CFG_TARGET_ARCH", "x86_64")
        && env::var_os("CARGO_CFG_SANITIZE").is_none()
        && env::var_os("ORIOLE_SHARED_LIBC").is_none()
        && !env::var("CARGO_CFG_TARGET_FEATURE").is_ok_and(|features| features.split(',').any(|feature| feature == "crt-static"))
        && env::var_os("HOST") == env::var_os("TARGET")
}

/// Writes a folder with a linker script for each library of the C compiler that names its static form. `rustc` asks for shared libraries, and
/// the linker takes a script of the same name if its folder is searched first. Returns the folder; `None` if a static library is missing.
fn write_library_scripts() -> Option<PathBuf> {
    let folder = Path::new(&env::var_os("OUT_DIR")?).join("static");
    fs::create_dir_all(&folder).ok()?;
    for (name, static_name) in STATIC_LIBRARIES {
        let file = static_library(static_name)?;
        fs::write(folder.join(format!("lib{name}.a")), format!("INPUT(\"{}\")\n", file.display())).ok()?;
    }
    Some(folder)
}

/// Returns the path of a static library; `None` if the C compiler, which links Rust programs, does not find it.
fn static_library(name: &str) -> Option<PathBuf> {
    let linker = env::var_os("RUSTC_LINKER").unwrap_or_else(|| "cc".into());
    let output = Command::new(linker).arg(format!("-print-file-name=lib{name}.a")).output().ok()?;
    // A compiler that does not find the file prints the name alone.
    let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim());
    (path.is_absolute() && path.is_file()).then_some(path)
}
