//! Tests `oriole profile`, and the effect of a changed profile on code.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::run;
use oriole_cubin::Cubin;
use oriole_isa::{Control, Instruction, Opcode, Target, decode};
use serde_json::Value;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

const KERNEL: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 p)
{
    .reg .b64 %a;
    .reg .b32 %x, %y;
    ld.param.u64 %a, [p];
    ld.global.u32 %x, [%a];
    mad.lo.u32 %y, %x, %x, %x;
    st.global.u32 [%a], %y;
    ret;
}
";

fn folder(name: &str) -> PathBuf {
    let folder = crate::common::folder(&format!("profile-{name}"));
    fs::write(folder.join("k.ptx"), KERNEL).unwrap();
    folder
}

fn print(folder: &Path, arguments: &[&str]) -> String {
    let outcome = run(ORIOLE, folder, &[&["profile"], arguments].concat(), "");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    outcome.stdout
}

fn export(folder: &Path, target: &str) -> String {
    assert_eq!(print(folder, &["--arch", target, "--export", "p.hwp"]), "");
    fs::read_to_string(folder.join("p.hwp")).unwrap()
}

/// Compiles the kernel for Hopper with this text as the profile, without optimization, so that control words depend only on the classes.
fn compile(folder: &Path, profile: Option<&str>) -> Vec<u8> {
    compile_at("-O0", folder, profile)
}

fn compile_at(level: &str, folder: &Path, profile: Option<&str>) -> Vec<u8> {
    let mut arguments = vec!["compile", "k.ptx", "-o", "k.cubin", "--arch", "sm_90a", level];
    if let Some(text) = profile {
        fs::write(folder.join("changed.hwp"), text).unwrap();
        arguments.extend(["--hw-profile", "changed.hwp"]);
    }
    let outcome = run(ORIOLE, folder, &arguments, "");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    fs::read(folder.join("k.cubin")).unwrap()
}

fn instructions(cubin: &[u8]) -> Vec<Instruction> {
    let target = Target::parse("sm_90a").unwrap();
    let cubin = Cubin::read(cubin).unwrap();
    let code: Vec<u8> = cubin.functions().flat_map(|function| function.code.to_vec()).collect();
    code.as_chunks::<16>().0.iter().map(|word| decode(u128::from_le_bytes(*word), target).unwrap()).collect()
}

/// Returns the control words of an instruction and of the next one.
fn control_of(cubin: &[u8], opcode: Opcode) -> (Control, Control) {
    let all = instructions(cubin);
    let at = all.iter().position(|instruction| instruction.opcode == opcode).unwrap();
    (all[at].control, all[at + 1].control)
}

fn count(text: &str, before: &str) -> usize {
    let (_, rest) = text.split_once(before).unwrap();
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// Adds a barrier entry and updates the counts.
fn with_barrier_entry(text: &str, entry: &str) -> String {
    let (entries, records) = (count(text, "'-' barriers entries="), count(text, " records="));
    text.replacen("'E' barrier-entry", &format!("'E' barrier-entry {entry}\n'E' barrier-entry"), 1)
        .replacen(&format!("barriers entries={entries}"), &format!("barriers entries={}", entries + 1), 1)
        .replacen(&format!(" records={records}"), &format!(" records={}", records + 1), 1)
}

#[test]
fn every_target_is_printed() {
    let folder = folder("print");
    for target in Target::all_with_machine_code() {
        let name = target.to_string();
        let text = print(&folder, &["--arch", &name]);
        assert!(text.starts_with(&format!("{name}: ")), "{name}");
        for heading in ["Multiprocessor", "Units", "Rates", "Classes", "Times", "Grid raw R", "Grid waw UP", "Occupancy"] {
            assert!(text.contains(&format!("\n{heading}")), "{name} lacks {heading}");
        }
    }
}

#[test]
fn hopper_in_tables() {
    let text = print(&folder("hopper"), &["--arch", "sm_90a"]);
    let words = |start: &str| {
        let line = text.lines().find(|line| line.trim_start().starts_with(start)).unwrap_or_else(|| panic!("no line for {start}"));
        line.split_whitespace().map(str::to_owned).collect::<Vec<String>>()
    };
    assert_eq!(words("resident_warps")[..3], ["resident_warps", "64", "measured"]);
    assert_eq!(words("2  DFMA")[..], ["2", "DFMA", "fma64", "64", "2"]);
    assert!(words("load_global").contains(&"hot".to_owned()));
    // The CUDA driver's answer: 32 registers for each of 2048 threads, 64 for half of them.
    assert!(text.lines().any(|line| line.contains("1024  registers  32: 2 (100%)  64: 1 (50%)")), "{text}");
}

#[test]
fn json_has_everything() {
    let folder = folder("json");
    let value: Value = serde_json::from_str(&print(&folder, &["--arch", "sm_86", "--json"])).unwrap();
    assert_eq!(value["target"], "sm_86");
    assert_eq!(value["machine"]["resident_warps"]["value"], "48");
    assert_eq!(value["units"][2]["cycles_per_warp"], 64);
    assert_eq!(value["grids"].as_array().unwrap().len(), 12);
    let classes = value["classes"].as_array().unwrap();
    let load = classes.iter().find(|class| class["name"] == "load_global").unwrap();
    assert_eq!((&load["space"]["code"], &load["results_wait"], &load["long_latency"]), (&Value::from(16), &true.into(), &true.into()));
    assert!(classes.iter().all(Value::is_object));
    let cell = &value["grids"][0]["rows"]["alu"]["alu"];
    assert_eq!((&cell["cycles"], &cell["scoreboard"]), (&Value::from(4), &false.into()));
}

#[test]
fn sources_account_for_every_figure() {
    let folder = folder("sources");
    let value: Value = serde_json::from_str(&print(&folder, &["--arch", "sm_90", "--sources", "--json"])).unwrap();
    let model: Value = serde_json::from_str(&print(&folder, &["--arch", "sm_90", "--json"])).unwrap();
    let sum = |list: &str| value[list].as_array().unwrap().iter().map(|source| source["figures"].as_u64().unwrap()).sum::<u64>();
    let rows = model["grids"].as_array().unwrap().iter().flat_map(|grid| grid["rows"].as_object().unwrap().values());
    let cells: usize = rows.map(|row| row.as_object().unwrap().len()).sum();
    assert_eq!(sum("latencies"), (cells + model["times"].as_array().unwrap().len()) as u64);
    assert_eq!(sum("machine"), model["machine"].as_object().unwrap().len() as u64);
    assert_eq!(sum("rates"), model["rates"].as_object().unwrap().len() as u64);
    assert_eq!(value["classes"].as_object().unwrap().len(), model["classes"].as_array().unwrap().len());
    let text = print(&folder, &["--arch", "sm_90", "--sources"]);
    assert!(text.contains("\nLatencies and times: ") && text.contains("\nClasses: figures by source\n"), "{text}");
}

#[test]
fn wrong_calls_are_usage_errors() {
    let folder = folder("usage");
    for arguments in [&["profile"][..], &["profile", "--arch", "sm_91"], &["profile", "--arch", "sm_90", "--json", "--export", "x"]] {
        let outcome = run(ORIOLE, &folder, arguments, "");
        assert_eq!(outcome.code, Some(2), "{arguments:?}");
        assert!(outcome.stderr.starts_with("error: "), "{}", outcome.stderr);
    }
    let outcome = run(ORIOLE, &folder, &["profile", "--arch", "sm_91"], "");
    assert!(outcome.stderr.contains("sm_91") && outcome.stderr.contains("sm_90a"), "{}", outcome.stderr);
}

#[test]
fn an_unchanged_profile_changes_nothing() {
    let folder = folder("same");
    let text = export(&folder, "sm_90a");
    assert_eq!(print(&folder, &["--arch", "sm_90a", "--export", "-"]), text);
    assert_eq!(compile(&folder, Some(&text)), compile(&folder, None));
}

#[test]
fn a_class_that_is_marked_gets_a_scoreboard() {
    let folder = folder("scoreboard");
    let (before, _) = control_of(&compile(&folder, None), Opcode::IMAD);
    assert_eq!((before.write_barrier, before.read_barrier, before.stall), (None, None, 15));
    let text = with_barrier_entry(&export(&folder, "sm_90a"), "class=multiply results=yes sources=yes stall=3");
    let (after, next) = control_of(&compile(&folder, Some(&text)), Opcode::IMAD);
    assert_eq!((after.write_barrier, after.read_barrier, after.stall), (Some(0), Some(1), 3));
    assert_eq!(next.wait & 0b11, 0b11);
    // With a scoreboard for the results only, the sources are still covered by the longest stall.
    let text = with_barrier_entry(&export(&folder, "sm_90a"), "class=multiply results=yes sources=no stall=3");
    let (after, _) = control_of(&compile(&folder, Some(&text)), Opcode::IMAD);
    assert_eq!((after.write_barrier, after.read_barrier, after.stall), (Some(0), None, 15));
}

#[test]
fn a_latency_that_no_stall_covers_gets_a_scoreboard() {
    let folder = folder("long");
    let text = export(&folder, "sm_90a");
    let row = text.lines().find(|line| line.starts_with("'1' dimension kind=raw file=R first=fma ")).unwrap();
    let (start, rest) = row.split_once(" alu=").unwrap();
    let changed = text.replace(row, &format!("{start} alu=23{}", &rest[rest.find(char::is_alphabetic).unwrap()..]));
    let (after, _) = control_of(&compile(&folder, Some(&changed)), Opcode::IMAD);
    assert_eq!((after.write_barrier, after.read_barrier), (Some(0), Some(1)));
}

#[test]
fn a_longer_latency_makes_longer_stalls_in_optimized_code() {
    let folder = folder("longer");
    let text = export(&folder, "sm_90a");
    let changed: String = text
        .lines()
        .map(|line| {
            let is_row = line.starts_with("'1' dimension kind=raw file=R first=fma ");
            let cells = line.split(' ').map(|cell| match cell.split_once('=') {
                Some((port, figure)) if is_row && figure.len() == 2 && figure.starts_with(['4', '5']) => format!("{port}=11a"),
                _ => cell.to_owned(),
            });
            cells.collect::<Vec<_>>().join(" ") + "\n"
        })
        .collect();
    assert_ne!(changed, text);
    let stalls = |cubin: &[u8]| instructions(cubin).iter().map(|instruction| u32::from(instruction.control.stall)).sum::<u32>();
    let (before, after) = (compile_at("-O3", &folder, None), compile_at("-O3", &folder, Some(&changed)));
    assert!(stalls(&after) > stalls(&before), "{} and {}", stalls(&before), stalls(&after));
}

#[test]
fn the_longest_stall_is_that_of_the_profile() {
    let folder = folder("stall");
    let text = export(&folder, "sm_90a").replace("name=max_stall value=15", "name=max_stall value=14");
    // Latencies of 15 cycles have to be changed too, otherwise the profile is rejected.
    let text = ('a'..='z').fold(text, |text, source| text.replace(&format!("=15{source}"), &format!("=14{source}")));
    let fixed = |cubin: &[u8]| instructions(cubin).iter().map(|instruction| instruction.control.stall).max();
    assert_eq!((fixed(&compile(&folder, None)), fixed(&compile(&folder, Some(&text)))), (Some(15), Some(14)));
}

#[test]
fn bad_profiles_are_refused_by_record() {
    let folder = folder("bad");
    let text = export(&folder, "sm_90a");
    for (name, text, part) in [
        ("foreign.hwp", "something else\n".to_owned(), "foreign.hwp:1: this is no hardware profile"),
        ("half.hwp", text[..text.len() / 2].rsplit_once('\n').unwrap().0.to_owned(), "(1 root): field `records`: it says"),
        ("number.hwp", text.replacen("latency=", "latency=-", 1), "(23 class): field `latency`"),
        ("other.hwp", export(&folder, "sm_80"), "other.hwp: the profile is for sm_80, not for sm_90a"),
        ("grid.hwp", text.replacen("results=yes", "results=no", 1), "('E' barrier-entry): field `results`: the grids need a scoreboard"),
        ("stall.hwp", text.replace("name=max_stall value=15", "name=max_stall value=5"), "(',' sm-entry): field `value`: results of"),
    ] {
        fs::write(folder.join(name), text).unwrap();
        let outcome = run(ORIOLE, &folder, &["compile", "k.ptx", "-o", "out.cubin", "--arch", "sm_90a", "--hw-profile", name], "");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{name}");
        assert!(outcome.stderr.starts_with(&format!("error: {name}")) && outcome.stderr.contains(part), "{}", outcome.stderr);
        assert!(!folder.join("out.cubin").exists());
    }
    let outcome = run(ORIOLE, &folder, &["compile", "k.ptx", "-o", "out.cubin", "--arch", "sm_90a", "--hw-profile", "none.hwp"], "");
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.starts_with("error: none.hwp: "), "{}", outcome.stderr);
}
