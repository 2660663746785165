//! `oriole completions` and `oriole man`: files that a package installs, generated from the definitions of the command line.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, ValueEnum};
use clap_complete::Shell;
use clap_mangen::Man;

use crate::print;

/// Print a script that completes the commands and options of `oriole` in a shell.
///
///   $ oriole completions bash > ~/.local/share/bash-completion/completions/oriole
///   $ oriole completions zsh > ~/.zfunc/_oriole
///   $ oriole completions fish > ~/.config/fish/completions/oriole.fish
///   PS> oriole completions powershell | Out-String | Invoke-Expression
///
/// For zsh, the folder must be in `fpath` before `compinit` runs.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct CompletionsArguments {
    /// The shell
    #[arg(value_enum)]
    shell: CompletedShell,
}

/// Shells for which there are completions.
#[derive(Clone, Copy, ValueEnum)]
enum CompletedShell {
    Bash,
    Zsh,
    Fish,
    #[value(name = "powershell")]
    PowerShell,
    Elvish,
}

/// Write the manual pages of `oriole` and its commands to a folder.
///
///   $ oriole man share/man/man1
///   $ man -l share/man/man1/oriole-compile.1
///
/// One page for `oriole`, one for each command. The folder is created if it does not exist.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct ManArguments {
    /// The folder
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,
}

pub fn print_completions(arguments: &CompletionsArguments, mut command: Command) -> ExitCode {
    let shell = match arguments.shell {
        CompletedShell::Bash => Shell::Bash,
        CompletedShell::Zsh => Shell::Zsh,
        CompletedShell::Fish => Shell::Fish,
        CompletedShell::PowerShell => Shell::PowerShell,
        CompletedShell::Elvish => Shell::Elvish,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "oriole", &mut script);
    print::out(&script);
    ExitCode::SUCCESS
}

pub fn write_manual(arguments: &ManArguments, command: Command) -> ExitCode {
    match write_pages(&arguments.folder, command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("error: {}: {error}", arguments.folder.display());
            ExitCode::FAILURE
        }
    }
}

/// Writes a page for the command and one for each of its visible subcommands.
fn write_pages(folder: &Path, mut command: Command) -> io::Result<()> {
    command.build();
    fs::create_dir_all(folder)?;
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set() && subcommand.get_name() != "help") {
        write_page(folder, subcommand.clone())?;
    }
    write_page(folder, command.disable_help_subcommand(true))
}

fn write_page(folder: &Path, command: Command) -> io::Result<()> {
    // After `build`, the display name of a subcommand is `oriole-NAME`.
    let name = format!("{}.1", command.get_display_name().unwrap_or("oriole"));
    let mut page = Vec::new();
    // The date is left out, so that the same version gives the same bytes.
    Man::new(command).date("").render(&mut page)?;
    fs::write(folder.join(name), page)
}
