//! Executables at a fixed address.
//!
//! The tables of PTX and of machine instructions are full of pointers. In a position-independent executable the loader has to fill in
//! 37,000 of them before `main`, which touches every page of the tables and took longer than compiling a small kernel.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
