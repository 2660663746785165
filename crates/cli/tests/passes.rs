//! Options of `oriole compile` that come from the pass table: listing, printing, stopping, measuring, bisecting.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{files, run};
use serde_json::Value;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

/// Creates a folder with a kernel that has a multiply-add in its only block.
fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("passes-{name}"));
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/saxpy.ptx");
    fs::copy(example, folder.join("saxpy.ptx")).unwrap();
    folder
}

/// Returns the names of the passes, as `--list-passes` prints them.
fn names(folder: &Path) -> Vec<String> {
    let list = run(ORIOLE, folder, &["compile", "--list-passes"], "");
    assert_eq!((list.code, list.stderr.as_str()), (Some(0), ""));
    list.stdout.lines().map(|line| line.split_whitespace().nth(1).unwrap().to_owned()).collect()
}

/// The only pass that runs at -O0 alone.
fn level_of(pass: &str) -> &'static str {
    if pass == "serial-control" { "-O0" } else { "-O3" }
}

#[test]
fn the_list_has_phase_name_levels_and_description() {
    let folder = folder("list");
    let list = run(ORIOLE, &folder, &["compile", "--list-passes"], "").stdout;
    let line = |name: &str| list.lines().find(|line| line.split_whitespace().nth(1) == Some(name)).unwrap();
    assert_eq!(
        line("fold"),
        " 30 fold              -O1 to -O3                   folds constants into instructions, and constant additions into address offsets"
    );
    assert!(line("serial-control").contains(" -O0  "), "{list}");
    assert!(line("pre-schedule").contains("-O2 to -O3, or --sched-mode"), "{list}");
    let help = run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "x", "--print-after", "help"], "");
    assert_eq!((help.code, &help.stdout, files(&folder)), (Some(0), &list, vec!["saxpy.ptx".to_owned()]));
}

#[test]
fn code_is_printed_before_and_after_each_pass() {
    let folder = folder("print");
    for name in names(&folder) {
        let arguments = ["compile", "saxpy.ptx", "-o", "x", level_of(&name), "--verify", "--print-before", &name, "--print-after", &name];
        let outcome = run(ORIOLE, &folder, &arguments, "");
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
        let (before, after) = outcome.stdout.split_once(&format!("; saxpy after {name}\n")).unwrap();
        let (header, text) = if name == "select" { ("// saxpy before", "fma.rn.f32") } else { ("; saxpy before", "FFMA") };
        assert!(before.starts_with(&format!("{header} {name}\n")) && before.contains(text), "before {name}:\n{before}");
        assert!(after.contains("FFMA"), "after {name}:\n{after}");
    }
}

#[test]
fn several_passes_are_printed_in_their_order() {
    let folder = folder("several");
    let headers = |arguments: &[&str]| {
        let outcome = run(ORIOLE, &folder, &[&["compile", "saxpy.ptx", "-o", "x"], arguments].concat(), "");
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        outcome.stdout.lines().filter(|line| line.starts_with("; saxpy")).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        headers(&["--print-after", "allocate,fold", "--print-after", "select"]),
        ["; saxpy after select", "; saxpy after fold", "; saxpy after allocate"]
    );
    let all: Vec<String> =
        names(&folder).into_iter().filter(|name| name != "serial-control").map(|name| format!("; saxpy after {name}")).collect();
    assert_eq!(headers(&["--print-after", "all"]), all);
}

/// A stop prints what `--print-after` prints, and writes nothing.
#[test]
fn compilation_stops_after_each_pass() {
    let folder = folder("stop");
    let all = names(&folder);
    for (position, name) in all.iter().enumerate() {
        let level = level_of(name);
        let printed = run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "printed", level, "--print-after", name], "").stdout;
        let outcome = run(ORIOLE, &folder, &["compile", "saxpy.ptx", level, "-o", "x", "--stop-after", name, "--time-passes=json"], "");
        assert_eq!((outcome.code, outcome.stderr.as_str(), folder.join("x").exists()), (Some(0), "", false), "{name}");
        let (text, times) = outcome.stdout.trim_end().rsplit_once('\n').unwrap();
        assert_eq!(text.trim_end(), printed.trim_end(), "{name}");
        let times: Value = serde_json::from_str(times).unwrap();
        let ran: Vec<&str> = times["passes"].as_array().unwrap().iter().map(|pass| pass["pass"].as_str().unwrap()).collect();
        // The search over schedules always finishes.
        let is_searched = all[..=position].contains(&"pre-schedule".to_owned()) && !all[..position].contains(&"post-schedule".to_owned());
        let last = if is_searched { "post-schedule" } else { name };
        assert_eq!(ran.last(), Some(&last));
    }
    let without_output = run(ORIOLE, &folder, &["compile", "saxpy.ptx", "--stop-after", "fold"], "");
    assert!(without_output.code == Some(0) && without_output.stdout.starts_with("; saxpy after fold\n"), "{without_output:?}");
}

#[test]
fn a_pass_that_does_not_run_is_noted() {
    let folder = folder("note");
    let outcome = run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "x", "-O0", "--print-after", "fold"], "");
    let note = "note: the pass `fold` does not run at -O0, only at -O1 to -O3\n";
    assert_eq!((outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str()), (Some(0), "", note));
}

#[test]
fn misspelt_passes_get_a_suggestion() {
    let folder = folder("misspelt");
    for option in ["--print-before", "--print-after", "--stop-after"] {
        let outcome = run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "x", option, "alocate"], "");
        let message = "error: no pass is called `alocate`; did you mean `allocate`?; `--list-passes` lists them\n";
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), message));
    }
}

#[test]
fn every_pass_that_ran_is_measured() {
    let folder = folder("time");
    let expected: Vec<String> = names(&folder).into_iter().filter(|name| name != "serial-control").collect();
    let outcome = run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "x", "--time-passes=json"], "");
    let times: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let passes = times["passes"].as_array().unwrap();
    assert_eq!(passes.iter().map(|pass| pass["pass"].as_str().unwrap()).collect::<Vec<_>>(), expected);
    let select = &passes[0];
    assert_eq!((&select["runs"], &select["instructions_before"]), (&Value::from(1), &Value::from(0)));
    assert_eq!(select["instructions_after"], passes[1]["instructions_before"]);
    assert!(select["allocated_instructions"].as_u64() >= select["instructions_after"].as_u64(), "{select}");
    assert!(passes.iter().filter_map(|pass| pass["seconds"].as_f64()).sum::<f64>() > 0.0, "{passes:?}");
    assert_eq!((&times["functions"][0]["function"], &times["functions"][0]["passes"]), (&Value::from("saxpy"), &times["passes"]));

    let outcome = run(ORIOLE, &folder, &["compile", "saxpy.ptx", "-o", "x", "--time-passes"], "");
    let table: Vec<&str> = outcome.stderr.lines().skip(2).map(|line| line.split_whitespace().nth(1).unwrap()).collect();
    assert_eq!(table[..expected.len()], expected);
    assert_eq!(outcome.stdout, "");
}

/// The file has many functions, so without bisection they are compiled in parallel.
#[test]
fn bisection_numbers_are_stable() {
    let folder = folder("bisect");
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n");
    for number in 0..12 {
        text.push_str(&format!(".visible .entry k{number}(.param .u64 p)\n{{\n.reg .b64 %a;\n.reg .b32 %v<3>;\nld.param.u64 %a, [p];\n"));
        (0..40).for_each(|at| text.push_str(&format!("ld.global.u32 %v0, [%a+{}];\nst.global.u32 [%a+{}], %v0;\n", 4 * at, 8 * at)));
        text.push_str("ret;\n}\n");
    }
    fs::write(folder.join("many.ptx"), text).unwrap();
    let bisect = |limit: &str| {
        let _ = fs::remove_file(folder.join("x"));
        let outcome = run(ORIOLE, &folder, &["compile", "many.ptx", "-o", "x", "--opt-bisect-limit", limit], "");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""));
        (outcome.stderr, fs::read(folder.join("x")).unwrap())
    };
    let (all, code) = bisect("-1");
    let lines: Vec<&str> = all.lines().collect();
    assert_eq!(lines[0], "BISECT: running pass (1) uniform-handles on function k0");
    assert!(lines.iter().enumerate().all(|(at, line)| line.starts_with(&format!("BISECT: running pass ({}) ", at + 1))), "{all}");
    let functions: Vec<&str> = lines.iter().map(|line| line.rsplit_once(' ').unwrap().1).collect();
    let in_order: Vec<&str> = functions.chunk_by(|one, next| one == next).map(|run| run[0]).collect();
    assert_eq!(in_order, (0..12).map(|number| format!("k{number}")).collect::<Vec<_>>());
    assert_eq!(bisect("-1"), (all.clone(), code.clone()));
    assert_eq!(bisect("100000"), (all.clone(), code.clone()));
    run(ORIOLE, &folder, &["compile", "many.ptx", "-o", "x"], "");
    assert!(fs::read(folder.join("x")).unwrap() == code, "a limit that is not reached changes nothing");

    let (some, _) = bisect("7");
    let expected = all.lines().take(7).collect::<Vec<_>>();
    let some: Vec<&str> = some.lines().collect();
    assert_eq!(some[..7], expected);
    assert!(some[7].starts_with("BISECT: NOT running pass (8) ") && some[7..].iter().all(|line| line.starts_with("BISECT: NOT ")));
}

/// `saxpy` has a product and a sum without rounding modifier.
#[test]
fn disabled_passes_do_not_run() {
    let folder = folder("disabled");
    let compile =
        |options: &[&str]| run(ORIOLE, &folder, &[&["compile", "saxpy.ptx", "-o", "x", "--time-passes=json"], options].concat(), "");
    let passes = |options: &[&str]| {
        let outcome = compile(options);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let times: Value = serde_json::from_str(&outcome.stdout).unwrap();
        times["passes"].as_array().unwrap().iter().map(|pass| pass["pass"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let all = passes(&[]);
    for name in ["fold", "pre-schedule", "contract"] {
        assert!(all.iter().any(|pass| pass == name), "{name}");
    }
    let without = passes(&["--disable-pass", "fold,pre-schedule", "--disable-pass", "contract"]);
    let expected: Vec<String> = all.into_iter().filter(|pass| !["fold", "pre-schedule", "contract"].contains(&pass.as_str())).collect();
    assert_eq!(without, expected);

    let necessary = compile(&["--disable-pass", "allocate"]);
    assert_eq!(necessary.code, Some(2));
    assert!(necessary.stderr.contains("the pass `allocate` cannot be left out: code would be wrong without it"), "{}", necessary.stderr);
    let unknown = compile(&["--disable-pass", "folding"]);
    assert!(unknown.code == Some(2) && unknown.stderr.contains("`--list-passes` lists them"), "{}", unknown.stderr);
}
