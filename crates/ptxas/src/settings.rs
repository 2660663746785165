//! Interprets the options together: conflicts, ranges, and the resulting settings.

use std::sync::Arc;
use std::time::Instant;

use oriole_cubin::FileTraits;
use oriole_cubin::target::LayoutGeneration;
use oriole_driver::{Hooks, LaunchOptions, Parallelism};
use oriole_support::{available_threads, run_jobs};

use crate::arch::{Arch, ArchKind};
use crate::command_line::CommandLine;
use crate::memory_options::CacheOperators;
use crate::messages::Messages;

// Limits of `-maxrregcount`.
const LEAST_REGISTERS: i64 = 24;
const MOST_REGISTERS: i64 = 255;
/// The number of registers that `archmin` stands for on every architecture.
const ARCHMIN: i64 = 32;

/// The settings of one call.
pub struct Settings {
    /// The architecture.
    pub arch: Arch,
    /// Whether code is generated and written to a file.
    pub wants_code: bool,
    /// Kernels that `-e` names, which must exist.
    pub entries: Vec<String>,
    /// Limit on the registers per thread.
    pub max_registers: Option<u32>,
    /// Limit on the registers per thread of device functions in relocatable files.
    pub max_function_registers: Option<u32>,
    /// Cache operators for accesses of global memory.
    pub cache_operators: CacheOperators,
    /// Whether to warn of instructions with double precision.
    pub warns_of_doubles: bool,
    /// Limit on the number of threads; `None` for one per processor.
    pub threads: Option<usize>,
    /// Launch bounds for all kernels.
    pub launch: LaunchOptions,
    /// What the compiler calls while it runs.
    pub hooks: Hooks,
    /// When the call started.
    pub started: Instant,
}

impl Settings {
    /// Checks the options in ptxas' order. Errors go to `messages`; a returned error is fatal.
    pub fn new(line: &CommandLine, messages: &mut Messages<'_>) -> Result<Settings, String> {
        let started = Instant::now();
        let arch = line.value("gpu-name").and_then(Arch::parse).unwrap_or_default();
        check_levels(line, messages)?;
        refuse_unsupported(line, arch, messages)?;
        check_cache_modifiers(line, messages);
        let max_registers = check_registers(line, arch, messages)?;
        let max_function_registers = check_function_registers(line, arch, messages)?;
        let launch = check_launch_bounds(line, arch, messages);
        check_debug_options(line, messages);
        let generates = arch.kind == ArchKind::Real && !line.has("dry-run");
        let entries = if generates { line.values("entry").to_vec() } else { Vec::new() };
        Ok(Settings {
            arch,
            wants_code: generates,
            entries,
            max_registers,
            max_function_registers,
            cache_operators: CacheOperators::new(line),
            warns_of_doubles: line.has("warn-on-double-precision-use"),
            threads: line.number("split-compile").and_then(|threads| usize::try_from(threads).ok()).filter(|&threads| threads > 0),
            launch,
            hooks: Hooks::default(),
            started,
        })
    }

    /// Returns the kernels to compile; empty for all. A relocatable object always has all kernels, as that of ptxas.
    pub fn entries_to_compile(&self, line: &CommandLine) -> &[String] {
        if line.has("compile-only") { &[] } else { &self.entries }
    }

    /// Returns the settings with the hooks of the caller. `-split-compile` limits the threads that the compiler starts itself.
    pub fn with_hooks(self, hooks: Hooks) -> Settings {
        let parallelism = match (self.threads, hooks.parallelism) {
            (Some(1), Parallelism::Threads) => Parallelism::Sequential,
            (Some(threads), Parallelism::Threads) => Parallelism::Executor(Arc::new(move |count: usize, task: &(dyn Fn(usize) + Sync)| {
                let order: Vec<usize> = (0..count).collect();
                run_jobs(available_threads(threads.min(count)), &order, task);
            })),
            (_, other) => other,
        };
        Settings { hooks: Hooks { parallelism, ..hooks }, ..self }
    }
}

fn check_levels(line: &CommandLine, messages: &mut Messages<'_>) -> Result<(), String> {
    if let Some(level) = line.value("Ofast-compile").filter(|level| !matches!(*level, "0" | "min" | "mid" | "max")) {
        return Err(format!("Invalid value for --Ofast-compile/-Ofc ({level}), is not 'max', 'mid', 'min', or '0'"));
    }
    if let Some(threads) = line.number("split-compile").filter(|&threads| threads < 0) {
        return Err(format!("Invalid value '{threads}' for option '--split-compile'"));
    }
    for option in ["force-externals", "link-info"].into_iter().filter(|option| line.has(option)) {
        messages.warning(None, &format!("option '{option}' has been deprecated"));
    }
    if line.has("device-debug") && line.number("opt-level").is_some_and(|level| level > 0) {
        return Err("Optimized debugging not supported".to_string());
    }
    check_conflicts(line, messages)?;
    if line.value("cuda-api-version").is_some_and(|version| !is_release(version)) {
        let version = line.value("cuda-api-version").unwrap_or_default();
        return Err(format!("Invalid value '{version}' for option '--cuda-api-version'"));
    }
    if line.has("ptx-length") {
        messages.warning(None, "'--ptx-length' option is ignored unless '--okey' option is specified");
    }
    if let Some(level) = line.number("register-usage-level").filter(|level| !(0..=10).contains(level)) {
        messages.warning(None, &format!("Value of RegUsageLevel ({level}) is out of valid range {{0..10}}, option will be ignored"));
    }
    Ok(())
}

/// Checks that options do not contradict each other. Of the values of `-cloning`, ptxas takes all but `no` for `yes`.
fn check_conflicts(line: &CommandLine, messages: &mut Messages<'_>) -> Result<(), String> {
    if line.value("cloning").is_some_and(|value| value != "no") {
        if let Some(level) = line.value("Ofast-compile").filter(|level| *level != "0") {
            return Err(format!("Conflicting options -cloning=yes and --Ofast-compile={level} specified"));
        }
        if line.has("device-debug") {
            return Err("Conflicting options -cloning=yes and -g specified".to_owned());
        }
    }
    if line.has("membermask-overlap") && line.has("no-membermask-overlap") {
        return Err("Conflicting options -no-membermask-overlap and -membermask-overlap specified".to_owned());
    }
    if line.has("register-usage-level") {
        let option = "--register-usage-level";
        let conflicting = [("-O0", line.number("opt-level") == Some(0)), ("--device-debug", line.has("device-debug"))];
        for (other, _) in conflicting.into_iter().filter(|(_, is_given)| *is_given) {
            messages.warning(None, &format!("Conflicting options '{other}' and '{option}' specified, ignoring '{option}' option"));
        }
    }
    if line.has("nv-host") && (line.has("compile-only") || line.has("extensible-whole-program")) {
        let options = "--extensible-whole-program or --compile-only";
        messages.warning(None, &format!("Command line option '--nv-host' not supported for '{options}', will be ignored"));
    }
    Ok(())
}

/// Returns whether a text is the number of the release, as in `13.0`.
fn is_release(text: &str) -> bool {
    let number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    text.split_once('.').is_some_and(|(major, minor)| (number(major), number(minor)) == (Some(crate::RELEASE.0), Some(crate::RELEASE.1)))
}

/// Refuses options that would change the meaning or the limits of the code, and that Oriole does not implement. Warns of options that add
/// checks to the code, or information for other programs to the file, if Oriole does not implement them.
fn refuse_unsupported(line: &CommandLine, arch: Arch, messages: &mut Messages<'_>) -> Result<(), String> {
    for (strong, weak) in [("compile-only", "extensible-whole-program"), ("extensible-whole-program", "position-independent-code")] {
        if line.has(strong) && line.has(weak) {
            // ptxas names the option that it ignores last in one message and first in the other.
            let (first, second) = if strong == "compile-only" { (strong, weak) } else { (weak, strong) };
            let text = format!("Conflicting options '--{first}' and '--{second}' specified, ignoring '--{weak}' option");
            messages.warning(None, &text);
        }
    }
    let conflicting = ["compile-only", "extensible-whole-program"].into_iter().find(|option| line.has(option));
    if let Some(option) = conflicting.filter(|_| line.has("compile-as-tools-patch")) {
        return Err(format!("Conflicting options '--{option}' and --compile-as-tools-patch specified"));
    }
    let is_true = |option: &str| line.value(option) == Some("true");
    // ptxas ignores these on GPUs without clusters.
    let has_clusters = FileTraits::of(arch.target).is_some_and(|traits| traits.style != LayoutGeneration::Ampere);
    if line.has("disable-smem-reservation") && !has_clusters {
        let text = format!("Option 'disable-smem-reservation' not supported for gpu architecture '{arch}', will be ignored");
        messages.warning(None, &text);
    }
    if is_true("blocks-are-clusters") && !has_clusters {
        messages.warning(None, &format!("Command line option '--blocks-are-clusters' not supported for '{arch}', will be ignored"));
    }
    let options: [&str; 3] = ["apply-controls", "okey", "query-controls"];
    if let Some(option) = options.iter().find(|option| line.has(option)) {
        return Err(format!("Option '--{option}' is not supported by Oriole"));
    }
    if line.has("preserve-relocs") && has_clusters {
        let text = format!("'--preserve-relocs' option is not fully implemented for '{arch}' and may not work as expected");
        messages.warning(None, &text);
    }
    let preserved: &[&str] = if has_clusters { &[] } else { &["preserve-relocs"] };
    let ignored = ["device-stack-protector", "sanitize", "sp-bounds-check"].iter().chain(preserved).copied();
    for option in ignored.filter(|option| line.has(option) && line.value(option) != Some("false")) {
        if arch.kind == ArchKind::Real {
            messages.warning(None, &format!("Option '--{option}' is not supported by Oriole, will be ignored"));
        }
    }
    Ok(())
}

fn check_cache_modifiers(line: &CommandLine, messages: &mut Messages<'_>) {
    let checks = [
        ("def-load-cache", "load", &["ca", "cg", "cs", "lu", "cv"][..]),
        ("force-load-cache", "load", &["ca", "cg", "cs", "lu", "cv"]),
        ("def-store-cache", "store", &["wb", "cg", "cs", "wt"]),
        ("force-store-cache", "store", &["wb", "cg", "cs", "wt"]),
    ];
    for (force, default) in [("force-load-cache", "def-load-cache"), ("force-store-cache", "def-store-cache")] {
        if line.has(force) && line.has(default) {
            messages.warning(None, &format!("Conflicting options {force} and {default} specified, ignoring {default} option"));
        }
    }
    for (option, access, allowed) in checks {
        if let Some(modifier) = line.value(option).filter(|modifier| !allowed.contains(modifier)) {
            messages.error(None, &format!("Invalid default cache modifier on {access} specified: {modifier}"));
        }
    }
}

/// Checks the limit on registers; returns it. Patches have the smallest number that the calling convention allows.
fn check_registers(line: &CommandLine, arch: Arch, messages: &mut Messages<'_>) -> Result<Option<u32>, String> {
    let count = register_count(line, "maxrregcount")?;
    if !line.has("compile-as-tools-patch") {
        return Ok(accepted_count(line, "maxrregcount", count, arch, messages));
    }
    let given = count.or_else(|| line.has("maxrregcount").then_some(MOST_REGISTERS));
    match given.filter(|&given| given > LEAST_REGISTERS) {
        Some(given) => messages.error(None, &format!("Invalid value '{given}' of 'maxrregcount' with option '--compile-as-tools-patch'")),
        None => {
            accepted_count(line, "maxrregcount", count, arch, messages);
        }
    }
    Ok(Some(LEAST_REGISTERS as u32))
}

/// Checks the limit on the registers of device functions, which only relocatable files have; returns it.
fn check_function_registers(line: &CommandLine, arch: Arch, messages: &mut Messages<'_>) -> Result<Option<u32>, String> {
    let name = "device-function-maxrregcount";
    if line.has(name) && !line.has("compile-only") {
        messages.warning(None, &format!("Command line option '{name}' not supported for 'whole program compilation', will be ignored"));
        return Ok(None);
    }
    Ok(accepted_count(line, name, register_count(line, name)?, arch, messages))
}

/// Returns the number of registers of an option in the range of the architecture; `None` if it is too big. Warns if the number is changed or
/// ignored.
fn accepted_count(line: &CommandLine, option: &str, count: Option<i64>, arch: Arch, messages: &mut Messages<'_>) -> Option<u32> {
    let limit = count.filter(|count| (0..=MOST_REGISTERS).contains(count)).map(|count| count.max(LEAST_REGISTERS) as u32);
    if let Some(count) = count {
        // On a virtual architecture ptxas ignores every number, as if it were too large, and `archmin` in silence.
        let is_ignored = arch.kind != ArchKind::Real && line.value(option) != Some("archmin");
        if is_ignored || !(0..=MOST_REGISTERS).contains(&count) {
            messages.warning(None, &format!("Too big maxrregcount value specified {count}, will be ignored"));
        } else if count < LEAST_REGISTERS {
            let text = format!("For profile {arch} adjusting per thread register count of {count} to lower bound of {LEAST_REGISTERS}");
            messages.warning(None, &text);
        }
    }
    limit
}

/// Parses a number of registers; returns `None` for `archmax`.
fn register_count(line: &CommandLine, option: &str) -> Result<Option<i64>, String> {
    match line.value(option) {
        None | Some("archmax") => Ok(None),
        Some("archmin") => Ok(Some(ARCHMIN)),
        Some("") => Ok(Some(0)),
        Some(text) => text.parse().map(Some).map_err(|_| format!("Invalid value '{text}' for option '{option}'")),
    }
}

/// Returns the effective launch bounds. A register limit, even an ignored one, overrides them; virtual architectures have neither.
fn check_launch_bounds(line: &CommandLine, arch: Arch, messages: &mut Messages<'_>) -> LaunchOptions {
    let has_clusters = FileTraits::of(arch.target).is_some_and(|traits| traits.style != LayoutGeneration::Ampere);
    let others = LaunchOptions {
        override_directives: line.has("override-directive-values"),
        blocks_are_clusters: has_clusters && line.value("blocks-are-clusters") == Some("true"),
        ..LaunchOptions::default()
    };
    let limited = line.has("maxrregcount") && arch.kind == ArchKind::Real;
    for option in ["minnctapersm", "maxntid"] {
        if limited && line.has(option) {
            messages.warning(None, &format!("Conflicting options -maxrregcount and -{option} specified, ignoring -{option} option"));
        }
    }
    let sizes = line.values("maxntid");
    if sizes.len() > 3 {
        messages.warning(None, "Too many values specified for option '-maxntid', option will be ignored");
    }
    if limited {
        return others;
    }
    let size = |axis: usize| sizes.get(axis).map_or(1, |text| leading_number(text));
    let max_threads = (1..=3).contains(&sizes.len()).then(|| [0, 1, 2].map(size)).filter(|sizes| sizes[0] != 0);
    // ptxas reads a negative number as a large unsigned one.
    let min_blocks_per_sm = line.number("minnctapersm").filter(|&blocks| blocks != 0).map(|blocks| blocks as u32);
    LaunchOptions { max_threads, min_blocks_per_sm, ..others }
}

/// Parses the number at the start of a text like C's `atoi`; 0 if there is none. ptxas accepts any value of `-maxntid`.
fn leading_number(text: &str) -> u32 {
    let text = text.trim_start();
    let (sign, digits) = match text.as_bytes().first() {
        Some(b'-') => (-1, &text[1..]),
        Some(b'+') => (1, &text[1..]),
        _ => (1, text),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let magnitude = digits[..end].bytes().fold(0_i64, |number, digit| number.saturating_mul(10).saturating_add(i64::from(digit - b'0')));
    (sign * magnitude) as u32
}

fn check_debug_options(line: &CommandLine, messages: &mut Messages<'_>) {
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
    use crate::messages::{Message, Warnings};

    fn settings(arguments: &[&str]) -> Result<(Settings, bool), String> {
        let line = CommandLine::parse(arguments.iter().map(ToString::to_string))?;
        let mut ignore = |_: &Message<'_>| {};
        let mut messages = Messages::new(Warnings::Errors, &mut ignore);
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
            &["-arch=sm_90", "-maxntid=1", "-maxrregcount=32"],
            &["-arch=sm_90", "-maxntid=1", "-maxrregcount=archmax"],
            &["-arch=sm_90", "-minnctapersm=1", "-maxrregcount=32"],
            &["-func-maxrregcount=32"],
            &["-dlcm=wt"],
        ] {
            assert!(settings(arguments).unwrap().1, "{arguments:?}");
        }
    }

    /// The expected values are those that ptxas 13.0.88 writes as EIATTR_MAX_THREADS for the same options.
    #[test]
    fn sizes_of_blocks_are_read_as_ptxas_reads_them() {
        let threads = |values: &[&str]| settings(values).unwrap().0.launch.max_threads;
        for (value, sizes) in [
            ("1024", [1024, 1, 1]),
            ("16,16,4", [16, 16, 4]),
            ("0200", [200, 1, 1]),
            ("512abc", [512, 1, 1]),
            ("+512", [512, 1, 1]),
            ("1,,512", [1, 512, 1]),
            ("64,0", [64, 0, 1]),
            ("32,x", [32, 0, 1]),
            ("512,-1", [512, 0xffff_ffff, 1]),
            ("99999999999", [0x4876_e7ff, 1, 1]),
        ] {
            assert_eq!(threads(&[&format!("-maxntid={value}")]), Some(sizes), "{value}");
        }
        assert_eq!(threads(&["-maxntid=32", "-maxntid", "32"]), Some([32, 32, 1]));
        for value in ["x", "0", "", "0x200"] {
            assert_eq!(threads(&[&format!("-maxntid={value}")]), None, "{value}");
        }
        assert_eq!(settings(&["-maxrregcount=archmin"]).unwrap().0.max_registers, Some(32));
        assert_eq!(settings(&["-maxrregcount=archmax"]).unwrap().0.max_registers, None);
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
