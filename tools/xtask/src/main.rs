//! Development tasks: `cargo run --release -p xtask -- TASK`.

mod advisories;
mod dependencies;
mod file_cycles;
mod gpu_bundle;
mod kernel_tests;
mod modules;
mod oracle;
mod sass;
#[cfg(test)]
mod test_targets;
mod type_names;
mod verdicts;

use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo run --release -p xtask -- TASK

  verdicts [NAME]     ask ptxas about every enumerated form and mutant of all rows, or of one family or opcode; print where
                      Oriole differs; record the answers of whole families under crates/ptx/tests/verdicts
  forms OPCODE        print the legal forms of an opcode
  modules TARGET DIR  write modules with every legal form the target takes, one kernel a form
  kernel-tests [DIR]  write the kernel tests (default folder tests/kernels); files that no generator makes any more are removed
  gpu-bundle OUT.tar.gz [--arch SM] [--rivals] [--filter TEXT]
                      pack the kernel tests, their cubins at -O0 and -O3 (with --rivals also those of ptxas) and the runner;
                      on a machine with a GPU, unpack it and call oriole-gpu-bundle/run.sh
  dependencies        check that dependencies are used, point down the table of docs/architecture.md, and have accepted licences
  advisories DIR      compare the packages with a copy of the RustSec database of advisories
  file-cycles [DIR]   print the groups of files that use each other, with the uses, for each crate of a folder (default crates)
  type-names          print the names of types that several files of the stages of the compiler define
  sass FILE           compare the isa crate with texts of nvdisasm, lines `target hex text`
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["dependencies"] => dependencies::check(),
        ["advisories", folder] => advisories::check(folder),
        ["file-cycles"] => file_cycles::print("crates"),
        ["file-cycles", folder] => file_cycles::print(folder),
        ["type-names"] => type_names::print(),
        ["verdicts"] => verdicts::record("all"),
        ["verdicts", name] => verdicts::record(name),
        ["modules", target, folder] => modules::write(target, folder),
        ["kernel-tests"] => kernel_tests::write("tests/kernels"),
        ["kernel-tests", folder] => kernel_tests::write(folder),
        ["gpu-bundle", rest @ ..] => gpu_bundle::write(rest),
        ["sass", path] => sass::compare(path),
        ["forms", name] => verdicts::list(name),
        _ => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}
