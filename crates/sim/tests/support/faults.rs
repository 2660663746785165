//! Kernels in assembler text with lists of faults: `tests/faults/*.sass`.
//!
//! ```text
//! // kernel-test 1                        the header of a kernel test (docs/kernel-tests.md)
//! // …
//! [B------:R-:W-:-:S04] IADD3 R4, R0, R11, RZ ; // @sum
//! …
//! // fault short: @sum S04 -> S03 = too-soon @sum @use | H200 wrong
//! ```
//!
//! A fault replaces the first text by the second in the line with the mark. It names the problem, the pair of lines, and whether an H200
//! computes wrong results (`not run`: not tried yet). `{label}` in an instruction is replaced by the address of a label.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use oriole_cubin::build::{FrameInfo, Function, Module, Shared, kernel_attributes};
use oriole_cubin::info::{Attribute, AttributeCode, Parameter};
use oriole_isa::{Control, Instruction, Target, decode, encode, parse_at};
use oriole_kernel_test::{KernelTest, ParameterValue};
use oriole_sim::hazard::{Dependence, Problem};

const INSTRUCTION_BYTES: u64 = 16;
const CODE_ALIGNMENT: usize = 8;
const REGISTERS: u8 = 64;
const SHARED_BYTES: u64 = 4096;
const STUB: &str = "\n.version 8.0\n.target sm_90a\n.address_size 64\n";

/// A correct kernel and a list of faults.
pub struct Kernel {
    pub name: String,
    /// The test's header and a stub module with only the target; sufficient to run the test on a cubin.
    #[allow(dead_code, reason = "the bundle for GPUs uses it")]
    pub test_text: String,
    pub test: KernelTest,
    lines: Vec<Line>,
    pub faults: Vec<Fault>,
}

#[derive(Clone)]
struct Line {
    label: Option<String>,
    mark: Option<String>,
    control: String,
    text: String,
}

/// A change of one line that introduces a hazard.
pub struct Fault {
    pub name: String,
    mark: String,
    old: String,
    new: String,
    /// The problem that must be found, as [`kind_of`] writes it.
    pub kind: String,
    /// Indices of the first and second instruction of the hazard.
    pub first: usize,
    pub second: usize,
    /// Whether an H200 computes wrong results.
    pub breaks_h200: bool,
}

/// The machine code of a kernel.
pub struct Assembled {
    pub instructions: Vec<Instruction>,
    pub cubin: Vec<u8>,
}

pub fn target() -> Target {
    Target::parse("sm_90a").expect("a target")
}

pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/faults")
}

/// Reads all kernels, sorted by name.
pub fn kernels() -> Vec<Kernel> {
    let mut paths: Vec<PathBuf> = std::fs::read_dir(folder()).expect("the faults").flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "sass"));
    paths.sort();
    paths.iter().map(|path| Kernel::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))).collect()
}

impl Kernel {
    fn read(path: &Path) -> Result<Kernel, String> {
        let text = std::fs::read_to_string(path).map_err(|error| error.to_string())?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let header: Vec<&str> = text.lines().take_while(|line| line.starts_with("//")).collect();
        let test_text = header.join("\n") + STUB;
        let test = oriole_kernel_test::parse(&test_text)?;
        let mut lines: Vec<Line> = Vec::new();
        let mut label = None;
        let mut faults = Vec::new();
        for line in text.lines().skip(header.len()).map(str::trim).filter(|line| !line.is_empty()) {
            if let Some(fault) = line.strip_prefix("// fault ") {
                faults.push(fault);
            } else if let Some(name) = line.strip_suffix(':') {
                label = Some(name.to_owned());
            } else {
                lines.push(Line::read(line, label.take()).ok_or_else(|| format!("cannot read `{line}`"))?);
            }
        }
        let number = |mark: &str| lines.iter().position(|line| line.mark.as_deref() == Some(mark));
        let fault = |text: &&str| Fault::read(text, &number).ok_or_else(|| format!("cannot read the fault `{text}`"));
        let faults = faults.iter().map(fault).collect::<Result<Vec<_>, _>>()?;
        Ok(Kernel { name, test_text, test, lines, faults })
    }

    /// Assembles the kernel, with a fault if one is given.
    pub fn assemble(&self, fault: Option<&Fault>) -> Result<Assembled, String> {
        let mut lines = self.lines.clone();
        if let Some(fault) = fault {
            let line = lines.iter_mut().find(|line| line.mark.as_deref() == Some(&fault.mark)).ok_or("no such line")?;
            let whole = format!("[{}] {}", line.control, line.text);
            if whole.matches(&fault.old).count() != 1 {
                return Err(format!("`{}` is not once in `{whole}`", fault.old));
            }
            let changed = whole.replace(&fault.old, &fault.new);
            *line = Line { label: line.label.clone(), ..Line::read(&changed, None).ok_or("the change cannot be read")? };
        }
        let words = words(&lines)?;
        let instructions = words.iter().map(|&word| decode(word, target()).ok_or("a word that cannot be decoded".to_owned()));
        let instructions = instructions.collect::<Result<Vec<_>, _>>()?;
        Ok(Assembled { instructions, cubin: self.cubin(&words)? })
    }

    fn cubin(&self, words: &[u128]) -> Result<Vec<u8>, String> {
        let traits = oriole_cubin::FileTraits::of(target()).ok_or("no cubin can be written")?;
        let mut parameters = Vec::new();
        let mut end = 0;
        for (ordinal, parameter) in self.test.parameters.iter().enumerate() {
            let (size, alignment) = match &parameter.value {
                ParameterValue::Buffer { .. } | ParameterValue::Image(_) | ParameterValue::Sampler(_) => (8, 8),
                ParameterValue::TensorMap(_) => (128, 64),
                ParameterValue::Scalar { element, .. } => (element.bytes() as u16, element.bytes() as u16),
                ParameterValue::Bytes(bytes) => (bytes.len() as u16, 4),
            };
            let offset = u16::next_multiple_of(end, alignment);
            parameters.push(Parameter::plain(ordinal as u16, offset, size));
            end = offset + size;
        }
        let is_exit = |line: &&(usize, &Line)| line.1.text.contains("EXIT");
        let exits: Vec<u32> =
            self.lines.iter().enumerate().collect::<Vec<_>>().iter().filter(is_exit).map(|line| line.0 as u32 * 16).collect();
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let kernel = Function {
            registers: REGISTERS,
            attributes: kernel_attributes(&traits, &parameters, vec![Attribute::words(AttributeCode::EXIT_INSTR_OFFSETS, exits)]),
            parameter_bytes: end,
            shared: Some(Shared { size: SHARED_BYTES, alignment: 16, variables: Vec::new() }),
            frame: FrameInfo::plain(code.len() as u64),
            code,
            ..Function::kernel(&self.test.kernel)
        };
        Module::new(traits, vec![kernel]).build().and_then(|cubin| cubin.write()).map_err(|error| error.to_string())
    }
}

impl Line {
    fn read(line: &str, label: Option<String>) -> Option<Line> {
        let (code, comment) = line.split_once("//").unwrap_or((line, ""));
        let (control, text) = code.trim().strip_prefix('[')?.split_once(']')?;
        let mark = comment.trim().strip_prefix('@').map(str::to_owned);
        Some(Line { label, mark, control: control.into(), text: text.trim().trim_end_matches(';').trim().into() })
    }
}

impl Fault {
    fn read(text: &str, number: &dyn Fn(&str) -> Option<usize>) -> Option<Fault> {
        let (name, rest) = text.split_once(": @")?;
        let (change, rest) = rest.split_once(" = ")?;
        let (mark, change) = change.split_once(' ')?;
        let (old, new) = change.split_once(" -> ")?;
        let (found, h200) = rest.split_once(" | H200 ")?;
        let mut words = found.split(" @");
        let kind = words.next()?.to_owned();
        let first = number(words.next()?)?;
        let second = words.next().map_or(Some(first), number)?;
        let breaks_h200 = match h200 {
            "wrong" => true,
            "right" | "not run" => false,
            _ => return None,
        };
        Some(Fault { name: name.into(), mark: mark.into(), old: old.into(), new: new.into(), kind, first, second, breaks_h200 })
    }
}

/// Returns the name of a problem in fault lists.
pub fn kind_of(problem: &Problem) -> String {
    let order = |kind: &Dependence| match kind {
        Dependence::ReadAfterWrite => "raw",
        Dependence::WriteAfterRead => "war",
        Dependence::WriteAfterWrite => "waw",
    };
    match problem {
        Problem::TooSoon { kind, register, .. } => format!("too-soon {} {register}", order(kind)),
        Problem::NotWaited { kind, register, .. } => format!("not-waited {} {register}", order(kind)),
        Problem::NoScoreboardSet { kind, register } => format!("not-announced {} {register}", order(kind)),
        Problem::NeverSet { scoreboard } => format!("never-set {scoreboard}"),
        Problem::WaitTooSoon { scoreboard, .. } => format!("too-fresh {scoreboard}"),
        Problem::StaleReuse { register } => format!("stale-reuse {register}"),
        Problem::CountOutOfOrder { scoreboard } => format!("count-out-of-order {scoreboard}"),
        Problem::PendingAtExit { register } => format!("not-settled {register}"),
        Problem::OpenAtFence { register } => format!("not-fenced {register}"),
        Problem::ReleasedInFlight { kind, register } => format!("released-in-flight {} {register}", order(kind)),
        Problem::StallIgnored { stall } => format!("stall-ignored {stall}"),
    }
}

fn words(lines: &[Line]) -> Result<Vec<u128>, String> {
    let address = |number: usize| number as u64 * INSTRUCTION_BYTES;
    let labels: HashMap<&str, u64> =
        lines.iter().enumerate().filter_map(|(number, line)| Some((line.label.as_deref()?, address(number)))).collect();
    let word = |(number, line): (usize, &Line)| {
        let wrong = |error: &dyn std::fmt::Display| format!("[{}] {}: {error}", line.control, line.text);
        let mut text = line.text.clone();
        for (label, at) in &labels {
            text = text.replace(&format!("{{{label}}}"), &format!("{at:#x}"));
        }
        let instruction = parse_at(&text, address(number), &|name| labels.get(name).copied()).map_err(|error| wrong(&error))?;
        let control: Control = Control::parse(&line.control).ok_or_else(|| wrong(&"no control word"))?;
        let instruction = Instruction { control, ..instruction };
        encode(&instruction, target()).map_err(|error| wrong(&error))
    };
    let mut words: Vec<u128> = lines.iter().enumerate().map(word).collect::<Result<_, _>>()?;
    let nop = Line { label: None, mark: None, control: "B------:R-:W-:Y:S15".into(), text: "NOP".into() };
    // Padding after the last instruction, because the hardware prefetches beyond it.
    words.push(word((words.len(), &nop))?);
    while !words.len().is_multiple_of(CODE_ALIGNMENT) {
        words.push(word((words.len(), &nop))?);
    }
    Ok(words)
}
