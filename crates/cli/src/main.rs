//! `oriole`: the command line tool.

#[macro_use]
mod console;

mod asm;
mod batch;
mod cache;
mod check;
mod codes;
mod colour;
mod compile;
mod compile_file;
mod disasm;
mod each_file;
mod explain;
mod guard;
mod install_files;
mod output;
mod pass_options;
mod print;
mod product;
mod profile;
mod progress;
mod rescore;
mod roundtrip;
mod run;
mod sched_choice;
mod sched_output;
mod target_names;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use colour::Colour;
use oriole_cli::sass;
use oriole_ptx::diag::Style;
use oriole_ptxas::file_name;

/// An open PTX assembler for NVIDIA GPUs.
///
/// Exit status: 0 if all is well, 1 if the input has errors, 2 if the command line is wrong or a file cannot be read or written, 70 if Oriole itself is at
/// fault.
#[derive(Parser)]
#[command(name = "oriole", version, max_term_width = 100)]
struct Arguments {
    /// When messages are coloured; `auto` is on a terminal, unless NO_COLOR is set
    #[arg(long, global = true, value_enum, default_value_t = Colour::Auto, value_name = "WHEN")]
    color: Colour,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Check(check::CheckArguments),
    Codes(codes::CodesArguments),
    Compile(Box<compile::CompileArguments>),
    Disasm(disasm::DisasmArguments),
    Explain(explain::ExplainArguments),
    Asm(asm::AsmArguments),
    Roundtrip(roundtrip::RoundtripArguments),
    Verify(verify::VerifyArguments),
    Rescore(rescore::RescoreArguments),
    Profile(profile::ProfileArguments),
    Run(run::RunArguments),
    Completions(install_files::CompletionsArguments),
    Man(install_files::ManArguments),
    #[command(hide = true)]
    GpuWorker(run::WorkerArguments),
}

/// How bugs of the compiler itself are reported. The exit status 70 is `EX_SOFTWARE`.
const PROGRAM: guard::Program = guard::Program { name: "oriole", prefix: "error: ", status: 70 };
/// Exit status if output could not be written or the command line is wrong.
const FAILURE: u8 = 2;

fn main() -> ExitCode {
    guard::run(&PROGRAM, || {
        guard::provoke();
        call()
    })
}

fn call() -> ExitCode {
    let code = match Arguments::try_parse_from(std::env::args_os().map(|argument| file_name::escape(&argument))) {
        Ok(arguments) => run_command(arguments.command, arguments.color.style()),
        Err(error) if error.use_stderr() => {
            let _ = error.print();
            ExitCode::from(FAILURE)
        }
        Err(help) => {
            print::note_output(help.print());
            ExitCode::SUCCESS
        }
    };
    print::finish(code, FAILURE)
}

fn run_command(command: Command, style: Style) -> ExitCode {
    match command {
        Command::Check(arguments) => check::run(&arguments, style),
        Command::Codes(arguments) => codes::run(&arguments),
        Command::Compile(arguments) => compile::run(&arguments, style),
        Command::Disasm(arguments) => disasm::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments, style),
        Command::Asm(arguments) => asm::run(&arguments),
        Command::Roundtrip(arguments) => roundtrip::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Rescore(arguments) => rescore::run(&arguments),
        Command::Profile(arguments) => profile::run(&arguments),
        Command::Run(arguments) => run::run(&arguments),
        Command::Completions(arguments) => install_files::print_completions(&arguments, Arguments::command()),
        Command::Man(arguments) => install_files::write_manual(&arguments, Arguments::command()),
        Command::GpuWorker(arguments) => run::work(&arguments),
    }
}
