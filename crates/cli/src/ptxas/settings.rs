//! What the options mean together: conflicts, ranges, and what is left to do.

use super::arch::{Arch, Kind};
use super::command_line::CommandLine;
use super::messages::Messages;

const LEAST_REGISTERS: i64 = 24;
const MOST_REGISTERS: i64 = 255;

/// What to do.
pub struct Settings {
    /// The architecture.
    pub arch: Arch,
    /// Whether a file with code is to be made.
    pub wants_code: bool,
    /// Kernels that must be there.
    pub entries: Vec<String>,
}

impl Settings {
    /// Checks the options in ptxas' order. Errors go to `messages`; what comes back as an error is fatal.
    pub fn new(line: &CommandLine, messages: &mut Messages) -> Result<Settings, String> {
        let arch = line.value("gpu-name").and_then(Arch::parse).unwrap_or_default();
        check_levels(line, messages)?;
        check_cache_modifiers(line, messages);
        let limited = check_registers(line, arch, messages)?;
        check_launch_bounds(line, limited, messages);
        check_debug_options(line, messages);
        let generates = arch.kind == Kind::Real && !line.has("dry-run");
        Ok(Settings { arch, wants_code: generates, entries: if generates { line.values("entry").to_vec() } else { Vec::new() } })
    }
}

fn check_levels(line: &CommandLine, messages: &mut Messages) -> Result<(), String> {
    if let Some(level) = line.value("Ofast-compile").filter(|level| !matches!(*level, "0" | "min" | "mid" | "max")) {
        return Err(format!("Invalid value for --Ofast-compile/-Ofc ({level}), is not 'max', 'mid', 'min', or '0'"));
    }
    if let Some(threads) = line.number("split-compile").filter(|&threads| threads < 0) {
        return Err(format!("Invalid value '{threads}' for option '--split-compile'"));
    }
    if line.has("device-debug") && line.number("opt-level").is_some_and(|level| level > 0) {
        return Err("Optimized debugging not supported".to_string());
    }
    if let Some(level) = line.number("register-usage-level").filter(|level| !(0..=10).contains(level)) {
        messages.warning(None, &format!("Value of RegUsageLevel ({level}) is out of valid range {{0..10}}, option will be ignored"));
    }
    Ok(())
}

fn check_cache_modifiers(line: &CommandLine, messages: &mut Messages) {
    let checks = [
        ("def-load-cache", "load", ["", "ca", "cg", "cs", "lu", "cv"]),
        ("force-load-cache", "load", ["", "ca", "cg", "cs", "lu", "cv"]),
        ("def-store-cache", "store", ["", "", "wb", "cg", "cs", "wt"]),
        ("force-store-cache", "store", ["", "", "wb", "cg", "cs", "wt"]),
    ];
    for (option, access, allowed) in checks {
        if let Some(modifier) = line.value(option).filter(|modifier| !allowed.contains(modifier)) {
            messages.error(None, &format!("Invalid default cache modifier on {access} specified: {modifier}"));
        }
    }
}

/// Whether a limit of registers is in force.
fn check_registers(line: &CommandLine, arch: Arch, messages: &mut Messages) -> Result<bool, String> {
    let mut limited = line.has("maxrregcount");
    if let Some(count) = register_count(line, "maxrregcount")? {
        // A virtual architecture has no registers at all, so every number is too big for it.
        if arch.kind != Kind::Real || !(0..=MOST_REGISTERS).contains(&count) {
            limited = false;
            messages.warning(None, &format!("Too big maxrregcount value specified {count}, will be ignored"));
        } else if count < LEAST_REGISTERS {
            let text = format!("For profile {arch} adjusting per thread register count of {count} to lower bound of {LEAST_REGISTERS}");
            messages.warning(None, &text);
        }
    }
    if line.has("device-function-maxrregcount") && !line.has("compile-only") {
        let name = "device-function-maxrregcount";
        messages.warning(None, &format!("Command line option '{name}' not supported for 'whole program compilation', will be ignored"));
    } else {
        register_count(line, "device-function-maxrregcount")?;
    }
    Ok(limited)
}

/// A number of registers; none for `archmax` and `archmin`, which always fit.
fn register_count(line: &CommandLine, option: &str) -> Result<Option<i64>, String> {
    match line.value(option) {
        None | Some("archmax" | "archmin") => Ok(None),
        Some(text) => text.parse().map(Some).map_err(|_| format!("Invalid value '{text}' for option '{option}'")),
    }
}

fn check_launch_bounds(line: &CommandLine, limited: bool, messages: &mut Messages) {
    for option in ["minnctapersm", "maxntid"] {
        if limited && line.has(option) {
            messages.warning(None, &format!("Conflicting options -maxrregcount and -{option} specified, ignoring -{option} option"));
        }
    }
    if line.values("maxntid").len() > 3 {
        messages.warning(None, "Too many values specified for option '-maxntid', option will be ignored");
    }
}

fn check_debug_options(line: &CommandLine, messages: &mut Messages) {
    let (debug, lines) = (line.has("device-debug"), line.has("generate-line-info"));
    if debug && lines {
        let text = "Conflicting options --device-debug and --generate-line-info specified, ignoring --generate-line-info option";
        messages.warning(None, text);
    }
    if line.has("suppress-debug-info") && !debug && !lines {
        let text = "Option suppress-debug-info requires option device-debug or lineinfo; ignoring since latter is not specified";
        messages.warning(None, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::Warnings;

    fn settings(arguments: &[&str]) -> Result<(Settings, bool), String> {
        let line = CommandLine::parse(arguments.iter().map(ToString::to_string))?;
        let mut messages = Messages::new(Warnings::Errors);
        let settings = Settings::new(&line, &mut messages)?;
        Ok((settings, messages.has_errors()))
    }

    #[test]
    fn code_is_wanted_for_real_architectures() {
        assert!(settings(&["-arch=sm_90", "-o", "x"]).unwrap().0.wants_code);
        assert!(settings(&["-arch=sm_90"]).unwrap().0.wants_code);
        for arguments in [&["-arch=compute_90"][..], &["-arch=compute_90", "-o", "x"], &["-o", "x", "--dry-run"]] {
            assert!(!settings(arguments).unwrap().0.wants_code, "{arguments:?}");
        }
        assert_eq!(settings(&[]).unwrap().0.arch.to_string(), "sm_75");
    }

    #[test]
    fn what_callers_pass_is_taken_in_silence() {
        for arguments in [
            &["-lineinfo", "-v", "--gpu-name=sm_90a"][..],
            &["-lineinfo", "-suppress-debug-info", "--fmad=false", "--opt-level", "0"],
            &["-arch=sm_90", "-m64"],
            &["-arch=sm_90a", "--warn-on-spills", "-v", "-O0"],
            &["--generate-line-info", "--verbose", "--gpu-name", "sm_80", "-maxrregcount=128"],
            &["-g", "-O0", "-dlcm=ca", "-dscm=wt", "-Ofc", "mid"],
        ] {
            assert!(!settings(arguments).unwrap().1, "{arguments:?}");
        }
    }

    #[test]
    fn oddities_are_noted() {
        for arguments in [
            &["-arch=sm_90", "-maxrregcount=10"][..],
            &["-maxrregcount=256"],
            &["-regUsageLevel=11"],
            &["-g", "-lineinfo"],
            &["-suppress-debug-info"],
            &["-maxntid=1,2,3,4"],
            &["-maxntid=1", "-maxrregcount=32"],
            &["-func-maxrregcount=32"],
            &["-dlcm=wt"],
        ] {
            assert!(settings(arguments).unwrap().1, "{arguments:?}");
        }
    }

    #[test]
    fn impossible_combinations_are_fatal() {
        let fatal = |arguments: &[&str]| settings(arguments).err().expect("accepted");
        assert_eq!(fatal(&["-g", "-O2"]), "Optimized debugging not supported");
        assert_eq!(fatal(&["-maxrregcount=abc"]), "Invalid value 'abc' for option 'maxrregcount'");
        assert_eq!(fatal(&["-split-compile=-1"]), "Invalid value '-1' for option '--split-compile'");
        assert!(fatal(&["-Ofc=fast"]).starts_with("Invalid value for --Ofast-compile/-Ofc (fast)"));
    }
}
