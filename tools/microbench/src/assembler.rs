//! Assembles lines of machine code into a cubin with one kernel.
//!
//! A line is the text of an instruction, its control word and an optional label. Encoding a text requires form selection, and experiments
//! repeat few texts thousands of times, so encoded words are cached. Lines that refer to a label are encoded each time, because
//! their bits depend on the address.

use std::collections::HashMap;

use oriole_cubin::FileTraits;
use oriole_cubin::build::{FrameInfo, Function, Module, Shared, kernel_attributes};
use oriole_cubin::info::{Attribute, AttributeCode, AttributeValue, Parameter};
use oriole_isa::{Control, Effect, Latency, RegFile, Target, encode, parse, parse_at};

const INSTRUCTION_BYTES: usize = 16;
const CODE_ALIGN_BYTES: usize = 128;
const ALL_SCOREBOARDS: u8 = 0b11_1111;
/// Write barrier of instructions with variable latency.
const RESULT_SCOREBOARD: u8 = 0;
/// Read barrier of instructions with variable latency.
const READ_SCOREBOARD: u8 = 1;
const LONGEST_STALL: u8 = 15;
/// All reuse flags and nothing else.
const ONLY_REUSE: Control = Control { stall: 0, stay: false, write_barrier: Some(0), read_barrier: Some(0), wait: 0, reuse: 15 };

/// One instruction of a kernel.
#[derive(Clone, Debug)]
pub struct Line {
    pub label: Option<String>,
    pub control: Control,
    pub text: String,
}

/// The resources of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Needs {
    pub registers: u8,
    pub shared_bytes: u32,
    pub local_bytes: u32,
    pub parameter_bytes: u16,
    pub barriers: u8,
}

/// Encodes text for one target.
pub struct Assembler {
    pub target: Target,
    words: HashMap<String, u128>,
}

impl Assembler {
    pub fn new(target: Target) -> Assembler {
        Assembler { target, words: HashMap::new() }
    }

    /// Returns the encoding of an instruction without its control word.
    pub fn word(&mut self, text: &str) -> Result<u128, String> {
        if let Some(&word) = self.words.get(text) {
            return Ok(word);
        }
        let first_error = match encoded(text, self.target) {
            Ok(word) => return Ok(self.remember(text, word)),
            Err(error) => error,
        };
        match spellings(text).iter().find_map(|other| encoded(other, self.target).ok()) {
            Some(word) => Ok(self.remember(text, word)),
            None => Err(format!("{text}: {first_error}")),
        }
    }

    fn remember(&mut self, text: &str, word: u128) -> u128 {
        // Reuse flags stay, because they belong to operands.
        let word = word & (!Control::MASK | ONLY_REUSE.bits());
        self.words.insert(text.to_owned(), word);
        word
    }

    /// Returns a control word with which an instruction neither affects nor depends on its neighbours.
    pub fn safe_control(&self, text: &str) -> Control {
        let barriers = self.scoreboards(text);
        Control { stall: LONGEST_STALL, stay: false, wait: ALL_SCOREBOARDS, ..barriers }
    }

    /// Returns a control word that sets scoreboards if the latency is variable, and waits for none.
    pub fn scoreboards(&self, text: &str) -> Control {
        // Long stalls require yield: the combination with `stay` is undefined.
        let plain = Control { stall: LONGEST_STALL, stay: false, ..Control::default() };
        let Ok(instruction) = parse(text) else { return plain };
        let properties = instruction.opcode.properties();
        let is_waited_for = properties.latency(self.target) == Latency::Variable
            && !matches!(properties.effect, Effect::Control | Effect::Barrier | Effect::Fence);
        let writes = properties.leading.iter().any(|operand| operand.written);
        Control {
            write_barrier: (is_waited_for && writes).then_some(RESULT_SCOREBOARD),
            read_barrier: is_waited_for.then_some(READ_SCOREBOARD),
            ..plain
        }
    }

    /// Encodes all lines.
    pub fn words(&mut self, lines: &[Line]) -> Result<Vec<u128>, String> {
        let labels: HashMap<&str, u64> = lines
            .iter()
            .enumerate()
            .filter_map(|(index, line)| Some((line.label.as_deref()?, (index * INSTRUCTION_BYTES) as u64)))
            .collect();
        let mut words = Vec::with_capacity(lines.len());
        for (index, line) in lines.iter().enumerate() {
            let bare = if line.text.contains('`') {
                let address = (index * INSTRUCTION_BYTES) as u64;
                let instruction =
                    parse_at(&line.text, address, &|name| labels.get(name).copied()).map_err(|error| format!("{}: {error}", line.text))?;
                let word = encode(&instruction, self.target).map_err(|error| format!("{}: {error}", line.text))?;
                word & !Control::MASK
            } else {
                self.word(&line.text)?
            };
            words.push(bare | line.control.bits());
        }
        Ok(words)
    }

    /// Returns a cubin with one kernel of this name. Its parameters are one block of bytes.
    pub fn cubin(&mut self, name: &str, lines: &[Line], needs: Needs) -> Result<Vec<u8>, String> {
        let traits = FileTraits::of(self.target).ok_or_else(|| format!("no cubin can be written for {}", self.target))?;
        let mut words = self.words(lines)?;
        let nop = self.word("NOP")? | Control::default().bits();
        // The hardware prefetches past the last instruction.
        words.push(nop);
        while !(words.len() * INSTRUCTION_BYTES).is_multiple_of(CODE_ALIGN_BYTES) {
            words.push(nop);
        }
        let exits =
            lines.iter().enumerate().filter(|(_, line)| line.text.contains("EXIT")).map(|(index, _)| (index * INSTRUCTION_BYTES) as u32);
        let mut extra = vec![Attribute::words(AttributeCode::EXIT_INSTR_OFFSETS, exits.collect::<Vec<_>>())];
        if needs.barriers > 0 {
            extra.push(Attribute::new(AttributeCode::NUM_BARRIERS, AttributeValue::Byte(needs.barriers)));
        }
        let block = Parameter::plain(0, 0, needs.parameter_bytes);
        let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let kernel = Function {
            registers: needs.registers,
            frame_size: needs.local_bytes,
            min_stack_size: needs.local_bytes,
            attributes: kernel_attributes(&traits, &[block], extra),
            parameter_bytes: needs.parameter_bytes,
            shared: (needs.shared_bytes > 0).then(|| Shared { size: u64::from(needs.shared_bytes), alignment: 16, variables: Vec::new() }),
            frame: FrameInfo::plain(code.len() as u64),
            code,
            ..Function::kernel(name)
        };
        let cubin = Module::new(traits, vec![kernel]).build().map_err(|error| error.to_string())?;
        cubin.write().map_err(|error| error.to_string())
    }
}

fn encoded(text: &str, target: Target) -> Result<u128, String> {
    let instruction = parse(text).map_err(|error| error.to_string())?;
    encode(&instruction, target).map_err(|error| error.to_string())
}

/// Returns other spellings of an instruction: newer targets require unused predicate results and types in the text.
fn spellings(text: &str) -> Vec<String> {
    let typed = text.replacen("VIMNMX ", "VIMNMX.S32 ", 1);
    let mut list = vec![typed.clone()];
    list.extend([text, &typed].into_iter().filter_map(with_all_results));
    list
}

/// Returns the text with `PT` or `UPT` for every predicate result that is omitted; `None` if none is.
pub fn with_all_results(text: &str) -> Option<String> {
    let properties = parse(text).ok()?.opcode.properties();
    let (head, operands) = text.split_once(' ').filter(|(head, _)| !head.starts_with('@'))?;
    let mut operands: Vec<&str> = operands.split(", ").collect();
    let is_predicate = |operand: &str| operand.starts_with('P') || operand.starts_with("UP");
    let wanted = properties.leading.iter().skip(1).filter(|operand| operand.files.iter().any(|file| is_predicate_file(*file))).count();
    let present = operands.iter().skip(1).take_while(|operand| is_predicate(operand)).count();
    let unused = if head.starts_with('U') { "UPT" } else { "PT" };
    for _ in present..wanted {
        operands.insert(1 + present, unused);
    }
    (present < wanted).then(|| format!("{head} {}", operands.join(", ")))
}

fn is_predicate_file(file: RegFile) -> bool {
    matches!(file, RegFile::Predicate | RegFile::UniformPredicate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_that_are_left_out_can_be_spelled_out() {
        assert_eq!(with_all_results("IADD3 R4, R8, R16, RZ").as_deref(), Some("IADD3 R4, PT, PT, R8, R16, RZ"));
        assert_eq!(with_all_results("IADD3 R4, P6, R8, R16, RZ").as_deref(), Some("IADD3 R4, P6, PT, R8, R16, RZ"));
        assert_eq!(with_all_results("UIADD3 UR4, UR8, UR12, URZ").as_deref(), Some("UIADD3 UR4, UPT, UPT, UR8, UR12, URZ"));
        assert_eq!(with_all_results("MOV R4, R8"), None);
    }

    #[test]
    fn long_stalls_leave_the_scheduler_free() {
        // nvdisasm calls a stall of 12 or more without yield undefined, and the hardware ignores it.
        let assembler = Assembler::new(Target::parse("sm_90a").unwrap());
        for text in ["NOP", "LDS R4, [R8]", "STG.E desc[UR16][R48.64], R8"] {
            let control = assembler.safe_control(text);
            assert!(control.stall < 12 || !control.stay, "{text}: {control}");
        }
        assert_eq!(assembler.scoreboards("LDS R4, [R8]").write_barrier, Some(RESULT_SCOREBOARD));
        assert_eq!(assembler.scoreboards("STG.E desc[UR16][R48.64], R8").write_barrier, None);
        assert_eq!(assembler.scoreboards("IADD3 R4, R8, R16, RZ").read_barrier, None);
    }
}
