//! `oriole profile`: prints the hardware model of a target.

mod columns;
mod json;
mod sources;
mod tables;

use std::process::ExitCode;

use clap::Args;
use oriole_hardware::Profile;
use oriole_isa::Target;

use crate::console::write_output;
use crate::print;
use crate::target_names;

/// Print what Oriole knows about a GPU: limits, units, latencies, occupancy.
///
///   $ oriole profile --arch sm_90a                        everything, in tables
///   $ oriole profile --arch sm_90a --sources              where the figures come from
///   $ oriole profile --arch sm_90a --json                 as data
///   $ oriole profile --arch sm_90a --export hopper.hwp    as a file that can be changed
///   $ oriole compile kernel.ptx -o kernel.cubin --arch sm_90a --hw-profile hopper.hwp
///
/// There is one grid of latencies for each register file (R, P, UR, UP) and each kind of dependence: raw (the second instruction reads what
/// the first wrote), war (it overwrites what the first read), waw (both write). Rows are first instructions, columns second ones;
/// `5n` is five cycles from source n, `3+2n` two more if the first has a guard, `sbn` a scoreboard that has to be waited for.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct ProfileArguments {
    /// The GPU, such as sm_90a
    #[arg(long, value_name = "SM", value_parser = parse_target)]
    arch: Target,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print where the figures come from
    #[arg(long)]
    sources: bool,
    /// Write the profile to a file, for `oriole compile --hw-profile`; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "sources"])]
    export: Option<String>,
}

fn parse_target(name: &str) -> Result<Target, String> {
    let known: Vec<String> = Target::all_with_machine_code().map(|target| target.to_string()).collect();
    Target::parse(name).ok_or_else(|| format!("targets are {}{}", known.join(", "), target_names::hint(name, &known)))
}

pub fn run(arguments: &ProfileArguments) -> ExitCode {
    let profile = Profile::of(arguments.arch);
    let text = match (&arguments.export, arguments.sources, arguments.json) {
        (Some(file), ..) => return export(&profile, file),
        (None, true, false) => sources::text(&profile),
        (None, true, true) => json::sources(&profile),
        (None, false, true) => json::profile(&profile),
        (None, false, false) => tables::text(&profile),
    };
    print::out(text.as_bytes());
    ExitCode::SUCCESS
}

fn export(profile: &Profile, file: &str) -> ExitCode {
    match write_output(file, profile.to_text().as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("error: {file}: {error}");
            ExitCode::from(2)
        }
    }
}
