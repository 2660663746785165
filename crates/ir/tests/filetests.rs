//! Runs the files under `filetests/ir`.
//!
//! A file starts with lines `test KIND`, followed by functions in text form. Kinds:
//!
//! - `roundtrip`: printing the parsed functions gives the text of the file;
//! - `verify`, `verify allocated`: the verifier reports exactly the errors that lines announce with `; error: TEXT`, at the same
//!   instruction, label or `func` line; TEXT is a part of the message;
//! - `ssa`, `control_flow`, `loops`, `liveness`, `uniformity`: the result is equal to the lines `; expect: TEXT`.
//!
//! With `ORIOLE_BLESS=1` the expectations are rewritten; review the difference before you commit it.

use std::fs;
use std::path::{Path, PathBuf};

use oriole_ir::analysis::{ControlFlow, Dominators, Liveness, Loops, PostDominators, Uniformity};
use oriole_ir::text::{parse, print, print_inst};
use oriole_ir::{Block, Function, RegisterLimits, Value, construct_ssa, verify, verify_allocated};

const EXPECT: &str = "; expect: ";
const ERROR: &str = "; error: ";
const LIMITS: RegisterLimits =
    RegisterLimits { general: 255, uniform: 63, predicate: 7, uniform_predicate: 7, convergence: 16, scoreboard: 6 };

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../filetests/ir");
    let mut files: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

#[test]
fn files_say_what_happens() {
    let is_blessed = std::env::var_os("ORIOLE_BLESS").is_some();
    let mut differences = String::new();
    let files = files();
    assert!(files.len() >= 7, "{} files", files.len());
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let expected = rewrite(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if text == expected {
            continue;
        }
        if is_blessed {
            fs::write(&path, &expected).unwrap();
        } else {
            differences.push_str(&format!("--- {}\n{}", path.display(), difference(&text, &expected)));
        }
    }
    assert!(differences.is_empty(), "{differences}");
}

/// Returns the lines between the first and the last difference.
fn difference(file: &str, found: &str) -> String {
    let (file, found): (Vec<&str>, Vec<&str>) = (file.lines().collect(), found.lines().collect());
    let same_start = file.iter().zip(&found).take_while(|(one, other)| one == other).count();
    let same_end = file[same_start..].iter().rev().zip(found[same_start..].iter().rev()).take_while(|(one, other)| one == other).count();
    let list = |lines: &[&str], sign: char| {
        lines[same_start..lines.len() - same_end].iter().map(|line| format!("{sign} {line}\n")).collect::<String>()
    };
    format!("from line {} on\n{}{}", same_start + 1, list(&file, '-'), list(&found, '+'))
}

/// Returns the text of a file with the actual results as expectations.
fn rewrite(text: &str) -> Result<String, String> {
    let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("test ") || line.starts_with(';') || line.is_empty()).collect();
    let kinds: Vec<&str> = header.iter().filter_map(|line| line.strip_prefix("test ")).collect();
    let body: Vec<&str> = text.lines().skip(header.len()).collect();
    let code: Vec<&str> = body.iter().copied().filter(|line| !line.starts_with(EXPECT)).collect();
    let functions = parse(&code.join("\n")).map_err(|error| format!("in the code, {error}"))?;
    let mut code: Vec<String> = code.into_iter().map(str::to_owned).collect();
    let mut outcome: Vec<String> = Vec::new();
    for kind in &kinds {
        match *kind {
            "roundtrip" => {
                let printed: Vec<String> = functions.iter().map(print).collect();
                code = printed.join("\n").lines().map(str::to_owned).collect();
            }
            "verify" | "verify allocated" => code = with_errors(&code, &functions, *kind == "verify allocated"),
            _ => {
                for function in &functions {
                    outcome.extend(outcome_of(kind, function)?);
                }
            }
        }
    }
    if kinds.is_empty() {
        return Err("no line `test KIND`".to_owned());
    }
    while code.last().is_some_and(String::is_empty) {
        code.pop();
    }
    let header = header.iter().map(|line| (*line).to_owned());
    let lines: Vec<String> = header.chain(code).chain(outcome.iter().map(|line| format!("{EXPECT}{line}"))).collect();
    Ok(lines.join("\n") + "\n")
}

/// Returns the result of a test kind for a function, as lines.
fn outcome_of(kind: &str, function: &Function) -> Result<Vec<String>, String> {
    let flow = ControlFlow::compute(function);
    Ok(match kind {
        "ssa" => {
            let mut function = function.clone();
            construct_ssa(&mut function);
            verify(&function).map_err(|errors| errors.to_string())?;
            print(&function).lines().map(str::to_owned).collect()
        }
        "control_flow" => control_flow(function, &flow),
        "loops" => {
            let loops = Loops::compute(function, &flow);
            let describe = |id| {
                let info = loops.get(id);
                let shape = if info.is_irreducible { "irreducible " } else { "" };
                format!("{shape}loop at {:?} depth {}: {}", info.header, info.depth, blocks(loops.blocks(id)))
            };
            loops.iter().map(describe).collect()
        }
        "liveness" => {
            let liveness = Liveness::compute(function, &flow);
            let line =
                |&block: &Block| format!("{block:?}: in {} out {}", values(liveness.live_in(block)), values(liveness.live_out(block)));
            function.layout.iter().map(line).collect()
        }
        "uniformity" => {
            let uniformity = Uniformity::compute(function, &flow);
            let divergent: Vec<Value> = function.values.indices().filter(|&value| uniformity.is_divergent(value)).collect();
            let branches = uniformity.divergent_branches().iter().map(|&inst| format!("threads part at {}", print_inst(function, inst)));
            std::iter::once(format!("divergent: {}", values(&divergent))).chain(branches).collect()
        }
        other => return Err(format!("`{other}` is no kind of test")),
    })
}

fn control_flow(function: &Function, flow: &ControlFlow) -> Vec<String> {
    let dominators = Dominators::compute(function, flow);
    let post_dominators = PostDominators::compute(function, flow);
    let name = |block: Option<Block>| block.map_or("none".to_owned(), |block| format!("{block:?}"));
    let line = |&block: &Block| {
        let (above, below) = (name(dominators.immediate(block)), name(post_dominators.immediate(block)));
        format!("{block:?}: from {}, dominator {above}, post-dominator {below}", blocks(flow.predecessors(block)))
    };
    let order = format!("order {}", blocks(flow.reverse_post_order()));
    std::iter::once(order).chain(function.layout.iter().map(line)).collect()
}

fn blocks(list: &[Block]) -> String {
    list.iter().map(|block| format!("{block:?}")).collect::<Vec<_>>().join(" ")
}

fn values(list: &[Value]) -> String {
    format!("[{}]", list.iter().map(|value| format!("{value:?}")).collect::<Vec<_>>().join(" "))
}

/// Returns the code with the verifier's errors on their lines. A shorter text that a line already has is kept if the message contains it.
fn with_errors(code: &[String], functions: &[Function], is_allocated: bool) -> Vec<String> {
    let plain: Vec<String> = code.iter().map(|line| line.split(ERROR).next().unwrap_or_default().trim_end().to_owned()).collect();
    let mut messages: Vec<Vec<String>> = vec![Vec::new(); code.len()];
    let mut start = 0;
    for function in functions {
        let found = if is_allocated { verify_allocated(function, &LIMITS) } else { verify(function) };
        start = (start..).find(|&line| plain[line].starts_with("func ")).unwrap_or(start);
        for error in found.err().map(|found| found.errors).unwrap_or_default() {
            messages[line_of(&plain, start, function, error.block, error.inst)].push(error.message);
        }
        start += 1;
    }
    let line = |number: usize| {
        let announced: Vec<&str> = code[number].split(ERROR).skip(1).map(str::trim).collect();
        let found = &messages[number];
        let is_same = announced.len() == found.len() && announced.iter().zip(found).all(|(text, message)| message.contains(text));
        if is_same {
            return code[number].clone();
        }
        found.iter().fold(plain[number].clone(), |line, message| format!("{line} {ERROR}{message}"))
    };
    (0..code.len()).map(line).collect()
}

/// Returns the line of a block or instruction. Instructions are numbered in the order of the text, so the line is found by counting.
fn line_of(plain: &[String], start: usize, function: &Function, block: Option<Block>, inst: Option<oriole_ir::Inst>) -> usize {
    let Some(block) = block else { return start };
    let label = format!("{block:?}:");
    let at = (start..plain.len()).find(|&line| plain[line] == label).unwrap_or(start);
    let position = inst.and_then(|inst| function.blocks[block].insts.iter().position(|&other| other == inst));
    let is_code = |&line: &usize| !plain[line].trim().is_empty() && !plain[line].trim().starts_with(';');
    position.and_then(|position| (at + 1..plain.len()).filter(is_code).nth(position)).unwrap_or(at)
}
