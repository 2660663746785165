//! Points of the command line that hold for many commands: file names of any bytes, outputs that would overwrite inputs, hints, examples
//! of error codes, and one message for each missing feature.

use std::fs;
use std::path::Path;

use crate::common::{folder, run};

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");
const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");

const VALID: &str = ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry k() { ret; }\n";

/// Both programs read and write files whose names are not UTF-8, and print these names as they are.
#[cfg(unix)]
#[test]
fn file_names_can_be_any_bytes() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::process::Command;

    let folder = folder("any_bytes");
    let name = |bytes: &'static [u8]| OsStr::from_bytes(bytes);
    fs::write(folder.join(name(b"in\xff.ptx")), VALID).unwrap();
    let call = |program: &str, arguments: &[&OsStr]| {
        let output = Command::new(program).args(arguments).current_dir(&folder).output().unwrap();
        (output.status.code(), output.stderr)
    };
    let plain = OsStr::new;
    let outputs: [&[u8]; 2] = [b"a\xfe.cubin", b"b\xc3.cubin"];
    let compile = [plain("compile"), name(b"in\xff.ptx"), plain("-o"), name(outputs[0])];
    assert_eq!(call(ORIOLE, &compile), (Some(0), Vec::new()));
    let assemble = [plain("-arch=sm_90a"), name(b"in\xff.ptx"), plain("-o"), name(outputs[1])];
    assert_eq!(call(PTXAS, &assemble), (Some(0), Vec::new()));
    for output in outputs {
        assert!(fs::read(folder.join(name(output))).unwrap().starts_with(b"\x7fELF"));
        for command in ["disasm", "verify", "roundtrip", "explain"] {
            assert_eq!(call(ORIOLE, &[plain(command), name(output)]).0, Some(0), "{command}");
        }
    }
    let both = [plain("compile"), name(b"in\xff.ptx"), plain("--out-dir"), name(b"d\xff")];
    assert_eq!(call(ORIOLE, &both).0, Some(0));
    assert!(folder.join(name(b"d\xff/in\xff.cubin")).exists());
    let contains = |text: &[u8], part: &[u8]| text.windows(part.len()).any(|window| window == part);
    let missing = call(PTXAS, &[plain("-arch=sm_90a"), name(b"no\xff.ptx")]);
    assert!(missing.0 == Some(255) && contains(&missing.1, b"Input file 'no\xff.ptx' could not be opened"), "{missing:?}");
    let missing = call(ORIOLE, &[plain("check"), name(b"no\xff.ptx")]);
    assert!(missing.0 == Some(2) && contains(&missing.1, b"no\xff.ptx: "), "{missing:?}");
}

#[test]
fn outputs_do_not_overwrite_inputs() {
    let folder = folder("overwrite");
    fs::write(folder.join("k.ptx"), VALID).unwrap();
    assert_eq!(run(ORIOLE, &folder, &["compile", "k.ptx", "-o", "k.cubin"], "").code, Some(0));
    let listing = run(ORIOLE, &folder, &["disasm", "--control", "k.cubin"], "").stdout;
    fs::write(folder.join("k.sass"), &listing).unwrap();
    let before = fs::read(folder.join("k.cubin")).unwrap();
    for arguments in [["compile", "k.ptx", "-o", "./k.ptx"], ["asm", "k.sass", "-o", "./k.sass"], ["rescore", "k.cubin", "-o", "./k.cubin"]]
    {
        let outcome = run(ORIOLE, &folder, &arguments, "");
        assert_eq!(outcome.code, Some(2), "{arguments:?}");
        assert_eq!(outcome.stderr, format!("error: {}: the output would overwrite the input\n", arguments[3]));
    }
    // Other names of the same file, outputs that are no cubins, and a standard input that is a file.
    fs::hard_link(folder.join("k.ptx"), folder.join("hard.ptx")).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink("hard.ptx", folder.join("soft.ptx")).unwrap();
    #[cfg(not(unix))]
    fs::copy(folder.join("k.ptx"), folder.join("soft.ptx")).unwrap();
    fs::write(folder.join("sm_90.profile"), run(ORIOLE, &folder, &["profile", "--arch", "sm_90", "--export", "-"], "").stdout).unwrap();
    let mut calls = vec![
        ["explain", "k.ptx", "--html", "k.ptx", "--arch", "sm_90"],
        ["explain", "k.ptx", "k.cubin", "--html", "./k.cubin", "-O3"],
        ["compile", "k.ptx", "--hw-profile", "sm_90.profile", "-o", "sm_90.profile"],
        ["compile", "k.ptx", "-o", "k.cubin", "--sched-trace=k.ptx", "-O3"],
    ];
    if cfg!(unix) {
        calls.push(["compile", "k.ptx", "-o", "hard.ptx", "--arch", "sm_90"]);
        calls.push(["compile", "soft.ptx", "-o", "hard.ptx", "--arch", "sm_90"]);
        calls.push(["compile", "hard.ptx", "-o", "soft.ptx", "--arch", "sm_90"]);
    }
    for arguments in calls {
        let outcome = run(ORIOLE, &folder, &arguments, "");
        assert_eq!(outcome.code, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.ends_with(": the output would overwrite the input\n"), "{arguments:?}: {}", outcome.stderr);
    }
    #[cfg(target_os = "linux")]
    {
        let input = fs::File::open(folder.join("k.ptx")).unwrap();
        let mut command = std::process::Command::new(ORIOLE);
        let output = command.args(["compile", "-", "-o", "k.ptx"]).current_dir(&folder).stdin(input).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*errors), (Some(2), "error: k.ptx: the output would overwrite the input\n"));
    }
    let read = |name: &str| fs::read(folder.join(name)).unwrap();
    assert_eq!((read("k.ptx"), read("k.sass"), read("k.cubin")), (VALID.into(), listing.into(), before));
}

#[test]
fn a_file_that_cannot_be_read_is_status_2_everywhere() {
    let folder = folder("unreadable");
    for command in ["check", "disasm", "explain", "verify", "roundtrip"] {
        let outcome = run(ORIOLE, &folder, &[command, "missing"], "");
        assert_eq!((outcome.code, outcome.stderr.contains("error: missing: ")), (Some(2), true), "{command}: {}", outcome.stderr);
    }
    for command in ["compile", "asm", "rescore"] {
        let outcome = run(ORIOLE, &folder, &[command, "missing", "-o", "out"], "");
        assert_eq!((outcome.code, outcome.stderr.contains("error: missing: ")), (Some(2), true), "{command}: {}", outcome.stderr);
    }
    assert!(!folder.join("out").exists());
}

#[test]
fn unknown_targets_get_the_nearest_name() {
    let folder = folder("hints");
    fs::write(folder.join("k.ptx"), VALID).unwrap();
    for arguments in [
        &["compile", "k.ptx", "-o", "k.cubin", "--arch", "sm90a"][..],
        &["explain", "k.ptx", "--arch", "sm90a"],
        &["run", "k.ptx", "--arch", "sm90a"],
        &["disasm", "k.ptx", "--arch", "sm90a"],
        &["profile", "--arch", "sm90a"],
    ] {
        let outcome = run(ORIOLE, &folder, arguments, "");
        assert_eq!(outcome.code, Some(2), "{arguments:?}");
        assert!(outcome.stderr.contains("; did you mean sm_90a?"), "{arguments:?}: {}", outcome.stderr);
    }
}

#[test]
fn a_code_is_explained_with_an_example() {
    let folder = folder("codes");
    let outcome = run(ORIOLE, &folder, &["codes", "e0702"], "");
    assert_eq!(outcome.code, Some(0));
    assert!(outcome.stdout.starts_with("E0702  No instruction has this modifier.\n\nExample:\n\nerror[E0702]: "), "{}", outcome.stdout);
    assert!(outcome.stdout.contains(" --> example.ptx:"), "{}", outcome.stdout);
    let outcome = run(ORIOLE, &folder, &["codes", "E0720"], "");
    assert_eq!((outcome.code, outcome.stderr.contains("there is no code E0720; did you mean E07")), (Some(2), true), "{}", outcome.stderr);
}

/// Writes a module in which three instructions use one missing feature, and one another.
fn with_missing_features(folder: &Path) {
    // ptxas 13.0.88 crashes on both.
    let (first, second) = ("atom.add.f32 %f0, [l], %f1;\n", "atom.add.v2.f32 {%f0, %f1}, [s], {%f2, %f3};\n");
    let text = format!(
        ".version 8.1\n.target sm_90a\n.address_size 64\n.visible .entry k() {{\n.reg .f32 %f<4>; .local .align 4 .b32 l;\n\
         .shared .align 8 .b8 s[8];\n{first}{second}{first}{first}ret;\n}}\n"
    );
    fs::write(folder.join("k.ptx"), text).unwrap();
}

#[test]
fn a_missing_feature_is_reported_once_with_a_count() {
    let folder = folder("missing");
    with_missing_features(&folder);
    let outcome = run(ORIOLE, &folder, &["compile", "k.ptx", "-o", "k.cubin"], "");
    assert_eq!(outcome.code, Some(1), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("error[E1201]").count(), 2, "{}", outcome.stderr);
    assert_eq!(outcome.stderr.matches("this is the first of 3 places that use it").count(), 1, "{}", outcome.stderr);
    let outcome = run(PTXAS, &folder, &["-arch=sm_90a", "k.ptx"], "");
    let lines: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("is not supported by Oriole yet")).collect();
    assert_eq!(lines.len(), 2, "{}", outcome.stderr);
    assert!(lines[0].contains("line 7;") && lines[0].ends_with("is not supported by Oriole yet (3 places)"), "{}", outcome.stderr);
    // As data, every place is an object.
    let outcome = run(ORIOLE, &folder, &["compile", "--json", "k.ptx", "-o", "k.cubin"], "");
    assert_eq!(outcome.stdout.matches("\"E1201\"").count(), 4, "{}", outcome.stdout);
}
