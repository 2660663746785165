//! The texts of `--help`, `--version` and `--list-version`.

use std::fmt::Write;

use oriole_ptx::target::PtxVersion;

use super::table::{OPTIONS, OptionKind, Spec};

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
        let _ = writeln!(text, "{}\n        {}\n", spelling(spec), spec.help);
    }
    text += "Accepted and checked, without effect\n";
    text += "====================================\n\n";
    for spec in ignored {
        let _ = writeln!(text, "{}", spelling(spec));
    }
    text
}

fn spelling(spec: &Spec) -> String {
    let value = if spec.kind == OptionKind::Flag { String::new() } else { format!(" <{}>", spec.value) };
    format!("{:<52}(-{})", format!("--{}{value}", spec.long), spec.short)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_names_every_option() {
        let help = help();
        for spec in OPTIONS {
            assert!(help.contains(&format!("--{}", spec.long)) && help.contains(&format!("(-{})", spec.short)), "{}", spec.long);
        }
    }

    #[test]
    fn versions_run_from_first_to_newest() {
        let versions = list_versions();
        assert!(versions.starts_with("1.0\n1.1\n") && versions.ends_with("8.8\n9.0\n"));
    }
}
