//! The texts of `--help`, `--version` and `--list-version`.

use std::fmt::Write;

use oriole_ptx::target::PtxVersion;

use crate::table::{OPTIONS, OptionKind, Spec};

/// Number of columns of a line of the help text.
const HELP_WIDTH: usize = 88;

/// Returns the text of `--version`.
///
/// Callers search it for `release 13.0` (Triton, LLVM) and `V13.0.88` (XLA) to determine the supported PTX versions and options.
/// Therefore it names the version that Oriole is compatible with.
pub fn version() -> String {
    format!(
        "ptxas: Oriole {}, an open PTX assembler\n\
         Not a product of NVIDIA.\n\
         Compatible with Cuda compilation tools, release 13.0, V13.0.88\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// Returns the text of `--list-version`: all PTX versions, one per line.
pub fn list_versions() -> String {
    let all = (1..=9).flat_map(|major| (0..=9).map(move |minor| PtxVersion::new(major, minor)));
    all.filter(|version| version.exists()).map(|version| format!("{version}\n")).collect()
}

/// Returns the text of `--help`.
pub fn help() -> String {
    let mut text = String::from(
        "\nUsage  : ptxas [options] <ptx file>,...\n\n\
         Oriole's stand-in for ptxas 13.0: the same options, messages and exit codes.\n\
         Compiles PTX to a cubin: FILE of -o, or elf.o. With -arch=compute_NN it checks\n\
         only and writes no file. Errors in PTX or in options, and PTX that Oriole does not\n\
         compile yet, give exit code 255 and no file. `-` is standard input.\n\n\
         Options\n=======\n\n",
    );
    let (working, ignored): (Vec<&Spec>, Vec<&Spec>) = OPTIONS.iter().partition(|spec| !spec.help.is_empty());
    for spec in working {
        let _ = writeln!(text, "{}\n        {}", spelling(spec), spec.help);
        if spec.kind == OptionKind::Arch {
            text += &allowed_names();
        }
        text.push('\n');
    }
    text += "Accepted and checked, without effect\n";
    text += "====================================\n\n";
    for spec in ignored {
        let _ = writeln!(text, "{}", spelling(spec));
    }
    text
}

/// Returns the list of architectures in ptxas' form. LLVM's tests search it for `'sm_NN'`.
fn allowed_names() -> String {
    let mut text = String::from("        Allowed values for this option:  ");
    let mut column = text.len();
    let names: Vec<String> = super::arch::names().collect();
    for (number, name) in names.iter().enumerate() {
        let item = format!("'{name}'{}", if number + 1 == names.len() { "." } else { "," });
        if column + item.len() > HELP_WIDTH {
            text += "\n        ";
            column = 8;
        }
        column += item.len();
        text += &item;
    }
    text.push('\n');
    text
}

fn spelling(spec: &Spec) -> String {
    let value = if spec.kind == OptionKind::Flag { String::new() } else { format!(" <{}>", spec.value) };
    let long = format!("--{}{value}", spec.long);
    if spec.short.is_empty() { long } else { format!("{long:<52}(-{})", spec.short) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_option() {
        let help = help();
        for spec in OPTIONS {
            let has_short = spec.short.is_empty() || help.contains(&format!("(-{})", spec.short));
            assert!(help.contains(&format!("--{}", spec.long)) && has_short, "{}", spec.long);
        }
    }

    #[test]
    fn help_lists_every_architecture_in_quotes() {
        let help = help();
        for name in ["'sm_75'", "'sm_90a'", "'sm_121f'", "'compute_100f'", "'lto_90'"] {
            assert!(help.contains(name), "{name}");
        }
        assert!(help.lines().filter(|line| line.contains("'sm_")).all(|line| line.len() <= HELP_WIDTH), "{help}");
    }

    #[test]
    fn versions_run_from_first_to_newest() {
        let versions = list_versions();
        assert!(versions.starts_with("1.0\n1.1\n") && versions.ends_with("8.8\n9.0\n"));
    }
}
