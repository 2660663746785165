//! Tests the shell completions and manual pages that `oriole` generates from its own command line.

use std::fs;
use std::process::{Command, Stdio};

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

fn output_of(arguments: &[&str]) -> String {
    let output = Command::new(ORIOLE).args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the commands that `oriole --help` lists.
fn commands() -> Vec<String> {
    let help = output_of(&["--help"]);
    let list = help.split("Commands:").nth(1).unwrap().split("Options:").next().unwrap();
    list.lines().filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help").map(String::from).collect()
}

#[test]
fn every_shell_completes_every_command() {
    let commands = commands();
    assert!(commands.len() >= 12, "{commands:?}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = output_of(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell}: {command}");
        }
        assert!(script.contains("opt-bisect-limit"), "{shell}: options of compile");
    }
}

#[cfg(unix)]
#[test]
fn bash_completes_an_option() {
    let script = output_of(&["completions", "bash"]);
    let question =
        "\nCOMP_WORDS=(oriole roundtrip --te); COMP_CWORD=2; _oriole oriole --te roundtrip; printf '%s\\n' \"${COMPREPLY[@]}\"\n";
    let Ok(output) = Command::new("bash").args(["-c", &format!("{script}{question}")]).stdin(Stdio::null()).output() else {
        println!("skipped: there is no bash");
        return;
    };
    assert_eq!(String::from_utf8_lossy(&output.stdout), "--text\n", "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn every_command_has_a_manual_page_and_the_bytes_repeat() {
    let folder = crate::common::folder("manual");
    let pages = |name: &str| {
        let target = folder.join(name);
        output_of(&["man", target.to_str().unwrap()]);
        let mut pages: Vec<(String, String)> = fs::read_dir(target)
            .unwrap()
            .map(|entry| entry.unwrap())
            .map(|entry| (entry.file_name().into_string().unwrap(), fs::read_to_string(entry.path()).unwrap()))
            .collect();
        pages.sort();
        pages
    };
    let first = pages("first");
    assert_eq!(first, pages("second"));
    let mut expected: Vec<String> = commands().iter().map(|command| format!("oriole-{command}.1")).collect();
    expected.push("oriole.1".into());
    expected.sort();
    assert_eq!(first.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>(), expected);
    for (name, page) in &first {
        assert!(page.contains(&format!(".TH {} 1", name.trim_end_matches(".1"))), "{name}: {page}");
    }
    let page_of = |name: &str| &first.iter().find(|page| page.0 == name).unwrap().1;
    assert!(page_of("oriole-roundtrip.1").contains("\\-\\-text"));
}

#[test]
fn a_folder_that_cannot_be_made_is_an_error() {
    let folder = crate::common::folder("manual-file");
    fs::write(folder.join("file"), "").unwrap();
    let output = Command::new(ORIOLE).arg("man").arg(folder.join("file")).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("error: "));
}
