//! `verify` on Ori: the verifier reports exactly the errors that the lines of the program announce.
//!
//! A line announces an error with `; error: TEXT`, at the same instruction, label or `func` line; TEXT is a part of the message.

use oriole_ir::{Block, Function, Inst, RegisterLimits, verify, verify_allocated};

use super::functions;
use crate::file::{TestFile, TestKind};

const ERROR: &str = "; error: ";
const LIMITS: RegisterLimits =
    RegisterLimits { general: 255, uniform: 63, predicate: 7, uniform_predicate: 7, convergence: 16, scoreboard: 6 };

/// Rewrites the program with the errors that the verifier reports.
pub fn run(file: &mut TestFile, kind: &TestKind) -> Result<(), String> {
    let is_allocated = match kind.argument.as_deref() {
        None => false,
        Some("allocated") => true,
        Some(other) => return Err(format!("`verify {other}` is no kind of test")),
    };
    if !file.code.iter().any(|line| line.contains(ERROR)) {
        return Err("no line announces an error with `; error: TEXT`".to_owned());
    }
    file.code = with_errors(&file.code, &functions(file)?, is_allocated);
    Ok(())
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
fn line_of(plain: &[String], start: usize, function: &Function, block: Option<Block>, inst: Option<Inst>) -> usize {
    let Some(block) = block else { return start };
    let label = format!("{block:?}:");
    let at = (start..plain.len()).find(|&line| plain[line] == label).unwrap_or(start);
    let position = inst.and_then(|inst| function.blocks[block].insts.iter().position(|&other| other == inst));
    let is_code = |&line: &usize| !plain[line].trim().is_empty() && !plain[line].trim().starts_with(';');
    position.and_then(|position| (at + 1..plain.len()).filter(is_code).nth(position)).unwrap_or(at)
}
