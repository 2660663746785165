//! Tests `oriole disasm`, `asm` and `roundtrip` on the checked-in cubins: listings equal nvdisasm's, assembling a listing gives the same
//! file, and invalid input is an error with a position.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{folder, run};
use serde_json::Value;

const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");

fn cubins() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cubin/tests/data")
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|file| file.to_string_lossy().ends_with(ending));
    files.sort();
    assert!(!files.is_empty(), "no {ending} in {}", folder.display());
    files
}

fn oriole(arguments: &[&str]) -> crate::common::Outcome {
    run(ORIOLE, &cubins(), arguments, "")
}

/// Removes white space and empty lines.
fn lines(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect()).filter(|line: &String| !line.is_empty()).collect()
}

/// Returns whether a line starts the part that nvdisasm prints after the code: symbols that are defined elsewhere.
fn is_behind_the_code(line: &str) -> bool {
    line.starts_with("//---------------------SYMBOLS")
}

#[test]
fn listings_are_those_of_nvdisasm() {
    let (mut compared, mut unknown) = (0, 0);
    for golden in files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data"), ".nvdisasm.txt") {
        let name = golden.file_name().unwrap().to_string_lossy().replace(".nvdisasm.txt", ".cubin");
        let outcome = oriole(&["disasm", &name]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let theirs = lines(&fs::read_to_string(&golden).unwrap());
        let theirs: Vec<&String> = theirs.iter().take_while(|line| !is_behind_the_code(line)).collect();
        let ours = lines(&outcome.stdout);
        assert_eq!(ours.len(), theirs.len(), "{name}");
        for (ours, theirs) in ours.iter().zip(theirs) {
            compared += 1;
            if ours.contains(".raw0x") {
                unknown += 1;
                continue;
            }
            assert_eq!(ours, theirs, "{name}");
        }
    }
    assert!(compared > 1000, "{compared}");
    assert_eq!(unknown, 0);
}

#[test]
fn a_file_comes_back_from_its_listing() {
    let folder = folder("sass-rebuild");
    for cubin in files(&cubins(), ".cubin") {
        let listing = oriole(&["disasm", "--control", &cubin.to_string_lossy()]);
        assert_eq!(listing.code, Some(0), "{}", listing.stderr);
        let built = run(ORIOLE, &folder, &["asm", "-", "-o", "out.cubin"], &listing.stdout);
        assert_eq!((built.code, built.stderr.as_str()), (Some(0), ""), "{}", cubin.display());
        assert!(fs::read(folder.join("out.cubin")).unwrap() == fs::read(&cubin).unwrap(), "{} differs", cubin.display());
    }
}

#[test]
fn every_image_of_a_container_is_listed() {
    let all = oriole(&["disasm", "zstd.fatbin"]);
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    assert!(all.stdout.contains("image 1 of 2: sm_90a") && all.stdout.contains("image 2 of 2: sm_100a"));
    let one = oriole(&["disasm", "--arch", "sm_90a", "zstd.fatbin"]);
    assert_eq!(one.stdout, oriole(&["disasm", "plain_saxpy.sm_90a.cubin"]).stdout);
    let none = oriole(&["disasm", "--arch", "sm_75", "zstd.fatbin"]);
    assert_eq!((none.code, none.stderr.as_str()), (Some(1), "error: zstd.fatbin: there is no cubin for sm_75, but for sm_90a, sm_100a\n"));
    let several = oriole(&["disasm", "--control", "zstd.fatbin"]);
    assert!(several.code == Some(1) && several.stderr.contains("--arch chooses one of sm_90a, sm_100a"), "{}", several.stderr);
}

#[test]
fn one_kernel_can_be_chosen() {
    let all = oriole(&["disasm", "switch_table.sm_90.cubin"]).stdout;
    let one = oriole(&["disasm", "--kernel", "tiny_interpreter", "switch_table.sm_90.cubin"]).stdout;
    assert!(one.contains(".text.tiny_interpreter:") && !one.contains(".text.sparse_switch:"));
    let body = |text: &str| text.split(".text.tiny_interpreter:").nth(1).unwrap().to_string();
    assert!(body(&all).starts_with(&body(&one)));
    let missing = oriole(&["disasm", "--kernel", "nobody", "switch_table.sm_90.cubin"]);
    assert_eq!((missing.code, missing.stderr.contains("there is no kernel or function nobody")), (Some(1), true));
}

#[test]
fn json_has_every_instruction() {
    let outcome = oriole(&["disasm", "--json", "plain_saxpy.sm_90a.cubin"]);
    let value: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(value[0]["target"], "sm_90a");
    let function = &value[0]["functions"][0];
    assert_eq!(function["function-name"], "saxpy");
    let instructions = function["sass-instructions"].as_array().unwrap();
    assert_eq!(instructions.len() as u64 * 16, function["length"].as_u64().unwrap());
    for instruction in instructions {
        assert!(instruction["hex"].as_str().is_some_and(|hex| hex.len() == 34) && instruction["control"].is_string(), "{instruction}");
    }
    let opcodes: Vec<&str> = instructions.iter().filter_map(|instruction| instruction["opcode"].as_str()).collect();
    assert!(opcodes.contains(&"EXIT") && opcodes.contains(&"FFMA"), "{opcodes:?}");
}

#[test]
fn round_trips_end_with_the_sum() {
    let outcome = oriole(&["roundtrip", "plain_saxpy.sm_90a.cubin", "plain_block_sum.sm_80.cubin"]);
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    let numbers = |line: &str| -> Vec<usize> { line.split(' ').filter_map(|word| word.parse().ok()).collect() };
    let words = |file: &str| {
        let cubin = oriole_cubin::Cubin::read(&fs::read(cubins().join(file)).unwrap()).unwrap();
        cubin.functions().map(|function| function.code.len() / 16).sum::<usize>()
    };
    let (first, second) = (words("plain_saxpy.sm_90a.cubin"), words("plain_block_sum.sm_80.cubin"));
    // Every instruction of these files is unchanged, also through its text.
    for (line, file, count) in [(lines[0], "plain_saxpy.sm_90a.cubin", first), (lines[1], "plain_block_sum.sm_80.cubin", second)] {
        assert!(line.starts_with(&format!("{file}: ")), "{line}");
        assert_eq!(numbers(line), [count, count, 0, count], "{line}");
    }
    let sum = first + second;
    assert_eq!(lines[2..], [format!("{sum} instructions, {sum} identical, 0 unknown")]);
    assert_eq!(outcome.code, Some(0));
    // A word that no form matches is counted as unknown and not as identical.
    let folder = folder("sass-roundtrip");
    let mut damaged = fs::read(cubins().join("plain_saxpy.sm_90a.cubin")).unwrap();
    let code = oriole_cubin::Cubin::read(&damaged).unwrap().functions().next().unwrap().code.to_vec();
    let start = damaged.windows(code.len()).position(|window| window == code).unwrap();
    damaged[start..start + 16].fill(0xff);
    fs::write(folder.join("damaged.cubin"), damaged).unwrap();
    let outcome = run(ORIOLE, &folder, &["roundtrip", "damaged.cubin"], "");
    assert_eq!(outcome.stdout.lines().last(), Some(&*format!("{first} instructions, {} identical, 1 unknown", first - 1)));
    assert_eq!(outcome.code, Some(1));
    assert_eq!(oriole(&["roundtrip", "README.md"]).code, Some(1));
}

#[test]
fn raw_code_needs_no_file_around_it() {
    let folder = folder("sass-raw");
    let exit: u128 = 0x000f_ea00_0380_0000_0000_0000_0000_794d;
    fs::write(folder.join("code"), [exit.to_le_bytes(), exit.to_le_bytes()].concat()).unwrap();
    let outcome = run(ORIOLE, &folder, &["disasm", "--raw", "--arch", "sm_90a", "code"], "");
    assert_eq!(lines(&outcome.stdout), ["/*0000*/EXIT;", "/*0010*/EXIT;"]);
    assert_eq!(run(ORIOLE, &folder, &["disasm", "--raw", "code"], "").code, Some(2));
    fs::write(folder.join("odd"), [0; 20]).unwrap();
    let odd = run(ORIOLE, &folder, &["disasm", "--raw", "--arch", "sm_90a", "odd"], "");
    assert!(odd.code == Some(1) && odd.stderr.contains("4 bytes are left at 0x10"), "{}", odd.stderr);
}

fn saxpy() -> String {
    oriole(&["disasm", "--control", "plain_saxpy.sm_90a.cubin"]).stdout
}

#[test]
fn added_instructions_move_what_follows() {
    let folder = folder("sass-edit");
    let assemble = |text: &str| {
        let outcome = run(ORIOLE, &folder, &["asm", "-", "-o", "out.cubin"], text);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        run(ORIOLE, &folder, &["disasm", "--control", "out.cubin"], "").stdout
    };
    let text = saxpy();
    let first = text.lines().find(|line| line.contains("/*0000*/")).unwrap();
    let edited = text.replace(first, &format!("{first}\n  IADD3 R4, R4, 0x1, RZ ; // added\n  /* also */ MUFU.RCP R5, R4 ;\n\n"));
    let after = assemble(&edited);
    assert!(after.contains("/*0010*/  [B012345:R-:W-:Y:S15]  IADD3 R4, R4, 0x1, RZ ;"), "{after}");
    assert!(after.contains("/*0020*/  [B012345:R5:W5:Y:S15]  MUFU.RCP R5, R4 ;"), "{after}");
    assert!(after.lines().any(|line| line.contains("/*0030*/  [B") && line.as_bytes()[25] == b'5'), "waits for scoreboard 5\n{after}");
    // A raw word in between does not lose the wait: the next instruction has it.
    let nop = ".raw 0x000fc000000000000000000000007918 ;";
    let raw = assemble(&text.replace(first, &format!("{first}\n  /* add */ MUFU.RCP R5, R4 ;\n  {nop}\n")));
    assert!(raw.contains("/*0020*/  [B------:R-:W-:Y:S00]  NOP ;"), "{raw}");
    assert!(raw.lines().any(|line| line.contains("/*0030*/  [B") && line.as_bytes()[25] == b'5'), "waits for scoreboard 5\n{raw}");
    // Removing the lines gives the original file, including attributes and symbols.
    let is_added = |line: &&str| !line.contains("/*0010*/") && !line.contains("/*0020*/");
    let restored: Vec<String> =
        after.lines().filter(is_added).map(|line| line.replace("[B-----5:R-:W0:-:S01]  LDC", "[B------:R-:W0:-:S01]  LDC")).collect();
    let _ = assemble(&restored.join("\n"));
    let out = fs::read(folder.join("out.cubin")).unwrap();
    assert_eq!(out.len(), fs::read(cubins().join("plain_saxpy.sm_90a.cubin")).unwrap().len());
}

#[test]
fn nobody_waits_for_a_result_that_is_not_announced() {
    let folder = folder("sass-barrier");
    let text = saxpy();
    let first = text.lines().find(|line| line.contains("/*0000*/")).unwrap();
    let edited = text.replace(first, &format!("{first}\n  BMOV.32 B0, R4 ;\n  BMOV.32 R4, B0 ;\n"));
    assert_eq!(run(ORIOLE, &folder, &["asm", "-", "-o", "out.cubin"], &edited).code, Some(0));
    let after = run(ORIOLE, &folder, &["disasm", "--control", "out.cubin"], "").stdout;
    assert!(after.contains("[B012345:R5:W-:Y:S15]  BMOV.32 B0, R4 ;"), "{after}");
    // nvdisasm rejects a read barrier for this form.
    assert!(after.contains("[B012345:R-:W5:Y:S15]  BMOV.32 R4, B0 ;"), "{after}");
}

#[test]
fn labels_can_be_added() {
    let folder = folder("sass-labels");
    let text = saxpy();
    let exit = text.lines().find(|line| line.contains("EXIT") && !line.contains('@')).unwrap();
    let edited = text.replace(exit, &format!("my_loop: {exit}\n  [B------:R-:W-:Y:S05] BRA `(my_loop) ;"));
    let outcome = run(ORIOLE, &folder, &["asm", "-", "-o", "out.cubin"], &edited);
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let after = run(ORIOLE, &folder, &["disasm", "out.cubin"], "").stdout;
    let branch = after.lines().position(|line| line.contains("BRA")).unwrap();
    assert!(after.lines().nth(branch - 1).unwrap().contains("EXIT"), "{after}");
}

#[test]
fn what_is_wrong_has_a_place() {
    let folder = folder("sass-errors");
    let text = saxpy();
    let first = text.lines().position(|line| line.contains("/*0000*/")).unwrap();
    let with = |line: &str| {
        let mut lines: Vec<&str> = text.lines().collect();
        lines[first] = line;
        run(ORIOLE, &folder, &["asm", "-", "-o", "out.cubin"], &lines.join("\n"))
    };
    for (line, column, message) in [
        ("  IADD4 R0, R0, R0, RZ ;", 3, "unknown instruction IADD4"),
        ("  FADD.FTX R0, R0, R1 ;", 7, "unknown modifier .FTX; did you mean .FTZ?"),
        ("  [B-----:R-:W-:-:S01] EXIT ;", 4, "bad control word"),
        ("  [B------:R-:W-:-:S16] EXIT ;", 4, "bad control word"),
        ("  BRA `(nowhere) ;", 9, "unknown label nowhere"),
        ("  FADD R0, R1 ;", 3, "no form of FADD"),
        ("  EXIT ; extra", 10, "unexpected `extra`"),
        ("  .row 0x0", 3, "unknown directive .row; did you mean .raw?"),
        ("  .raw hello", 8, ".raw takes a word"),
        ("saxpy: saxpy:", 1, "label saxpy is there twice"),
    ] {
        let outcome = with(line);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""), "{line}: {}", outcome.stderr);
        let place = format!("error: <stdin>:{}:{column}: ", first + 1);
        assert!(outcome.stderr.starts_with(&place) && outcome.stderr.contains(message), "{line}: {}", outcome.stderr);
    }
    for text in ["// one\n  /* two", "// one\n  /*/ two", "/* one\n*//*/"] {
        let endless = run(ORIOLE, &folder, &["asm", "-", "-o", "out.cubin"], text);
        assert_eq!((endless.code, endless.stderr.as_str()), (Some(1), "error: <stdin>:2:3: this comment has no end\n"), "{text}");
    }
    assert!(!folder.join("out.cubin").exists());
    assert_eq!(oriole(&["asm", "-"]).code, Some(2));
    assert_eq!(oriole(&["asm", "missing.sass", "-o", "x"]).code, Some(2));
}

/// Code for one GPU must not be put into a file for another.
#[test]
fn the_skeleton_must_be_for_the_target() {
    let folder = folder("sass-target");
    let text = saxpy().replacen("sm_90a", "sm_80", 1);
    let outcome = run(ORIOLE, &folder, &["asm", "-", "-o", "out.cubin"], &text);
    let message = "error: <stdin>:1:1: the skeleton is a cubin for sm_90a, but .target says sm_80\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), message));
    assert!(!folder.join("out.cubin").exists());
}

#[test]
fn damage_is_no_panic() {
    let folder = folder("sass-damage");
    let original = fs::read(cubins().join("plain_saxpy.sm_90a.cubin")).unwrap();
    let mut state = 1_u32;
    for round in 0..60 {
        let mut bytes = original.clone();
        for _ in 0..=round % 7 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = state as usize % bytes.len();
            bytes[at] ^= (state >> 24) as u8;
        }
        bytes.truncate(if round % 3 == 0 { state as usize % bytes.len() } else { bytes.len() });
        fs::write(folder.join("damaged"), bytes).unwrap();
        for arguments in
            [&["disasm", "damaged"][..], &["disasm", "--control", "damaged"], &["disasm", "--json", "damaged"], &["roundtrip", "damaged"]]
        {
            let outcome = run(ORIOLE, &folder, arguments, "");
            assert!(matches!(outcome.code, Some(0 | 1)), "{arguments:?}: {outcome:?}");
            assert!(!outcome.stderr.contains("panicked"), "{}", outcome.stderr);
        }
    }
    let text = saxpy();
    let listing = text.as_bytes();
    for round in 0..60 {
        let mut bytes = listing.to_vec();
        for _ in 0..=round % 9 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = state as usize % bytes.len();
            bytes[at] = b" ;[]`(.:x0RU/*\n"[(state >> 20) as usize % 15];
        }
        let outcome = run(ORIOLE, &folder, &["asm", "-", "-o", "out.cubin"], &String::from_utf8(bytes).unwrap());
        assert!(matches!(outcome.code, Some(0 | 1)) && !outcome.stderr.contains("panicked"), "{outcome:?}");
    }
}
