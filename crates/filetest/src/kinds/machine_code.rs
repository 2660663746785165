//! `encode`, `ctrl` of PTX, and `verify` of assembler text: machine code.

use oriole_cubin::Cubin;
use oriole_cubin::FileTraits;
use oriole_cubin::build::{FrameInfo, Function, Module, Shared, kernel_attributes};
use oriole_cubin::info::{Attribute, AttributeCode, Parameter};
use oriole_isa::{Control, Target, decode, encode, parse, print};
use oriole_kernel_test::{KernelTest, ParameterValue};
use oriole_sim::verify::{Verifier, verify_cubin};

use super::{Lines, module, required};
use crate::file::{TestFile, TestKind};
use crate::listing::{INSTRUCTION_BYTES, Listing};
use crate::pipeline;

/// Number of instructions that the size of code is a multiple of.
const CODE_ALIGNMENT: usize = 8;
/// Registers that an assembled kernel declares.
const REGISTERS: u8 = 64;
/// Static shared memory of an assembled kernel, in bytes.
const SHARED_BYTES: u64 = 4096;

/// Lists the machine code of PTX with control words.
pub fn ctrl(file: &TestFile, target: Option<Target>, _: &TestKind) -> Lines {
    machine_code(file, required(target), |word, text| format!("[{}] {text}", Control::of(word)))
}

/// Lists the machine code of PTX with control words and the 128 bits of each instruction.
pub fn encode_ptx(file: &TestFile, target: Option<Target>, _: &TestKind) -> Lines {
    machine_code(file, required(target), |word, text| format!("{word:032x} [{}] {text}", Control::of(word)))
}

/// Compiles PTX and lists its instructions, without the padding after the last one.
fn machine_code(file: &TestFile, target: Target, line: fn(u128, &str) -> String) -> Lines {
    let compiled = pipeline::compiled(&module(file)?, &file.options, target)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    let cubin = Cubin::read(&compiled.cubin).map_err(|error| error.to_string())?;
    let mut lines = Vec::new();
    for report in &compiled.functions {
        let function = cubin.functions().find(|function| function.name == report.name);
        let code = function.ok_or_else(|| format!("{} has no code", report.name))?.code;
        lines.push(format!("{}:", report.name));
        for (number, bytes) in code.chunks_exact(INSTRUCTION_BYTES as usize).take(report.instructions).enumerate() {
            let word = u128::from_le_bytes(bytes.try_into().map_err(|_| "a part of an instruction")?);
            let address = number as u64 * INSTRUCTION_BYTES;
            let text = print(word, target, address).ok_or_else(|| format!("{word:#034x} has no text"))?;
            lines.push(format!("{address:04x} {}", line(word, &text)));
        }
    }
    Ok(lines)
}

/// Lists the encoding of each instruction of assembler text, or why it has none.
pub fn encode_sass(file: &TestFile, target: Option<Target>, _: &TestKind) -> Lines {
    let target = required(target);
    let listing = Listing::read(&file.source())?;
    let line = |(found, text): (Result<u128, String>, &str)| match found {
        Ok(word) => format!("{word:032x} {}", print(word, target, 0).unwrap_or_else(|| text.to_owned())),
        Err(error) => format!("error: {error}"),
    };
    Ok(listing.encodings(target).into_iter().zip(listing.texts()).map(line).collect())
}

/// Lists the findings of the seven verifiers on assembler text.
pub fn verify(file: &TestFile, target: Option<Target>, _: &TestKind) -> Lines {
    let cubin = assembled(file, required(target), None)?;
    let report = verify_cubin(&cubin, &Verifier::ALL)?;
    Ok(report.all().map(|(_, finding)| format!("{} {finding}", finding.kind)).collect())
}

/// Assembles a file into a cubin with one kernel, whose parameters are those of the test.
pub fn assembled(file: &TestFile, target: Target, test: Option<&KernelTest>) -> Result<Vec<u8>, String> {
    let mut words = Listing::read(&file.source())?.words(target)?;
    let is_exit = |word: u128| decode(word, target).is_some_and(|instruction| instruction.opcode.mnemonic() == "EXIT");
    let numbers = words.iter().enumerate().filter(|(_, word)| is_exit(**word));
    let exits = numbers.map(|(number, _)| number as u32 * INSTRUCTION_BYTES as u32).collect::<Vec<u32>>();
    // Padding after the last instruction, because the hardware fetches beyond it.
    let nop = encode(&parse("NOP").map_err(|error| error.to_string())?, target).map_err(|error| error.to_string())?;
    let idle = Control { stall: 15, stay: false, write_barrier: None, read_barrier: None, wait: 0, reuse: 0 };
    let nop = nop & !Control::MASK | idle.bits();
    words.push(nop);
    while !words.len().is_multiple_of(CODE_ALIGNMENT) {
        words.push(nop);
    }
    let traits = FileTraits::of(target).ok_or("no cubin can be written for the target")?;
    let (parameters, parameter_bytes) = parameters(test);
    let code: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let kernel = Function {
        registers: file.options.initial_registers.and_then(|count| count.try_into().ok()).unwrap_or(REGISTERS),
        attributes: kernel_attributes(&traits, &parameters, vec![Attribute::words(AttributeCode::EXIT_INSTR_OFFSETS, exits)]),
        parameter_bytes,
        shared: Some(Shared { size: SHARED_BYTES, alignment: 16, variables: Vec::new() }),
        frame: FrameInfo::plain(code.len() as u64),
        code,
        ..Function::kernel(test.map_or("kernel", |test| &test.kernel))
    };
    Module::new(traits, vec![kernel]).build().and_then(|cubin| cubin.write()).map_err(|error| error.to_string())
}

/// Returns the parameters of a test with their places, and the size of all.
fn parameters(test: Option<&KernelTest>) -> (Vec<Parameter>, u16) {
    let mut parameters = Vec::new();
    let mut end = 0;
    for (ordinal, parameter) in test.into_iter().flat_map(|test| &test.parameters).enumerate() {
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
    (parameters, end)
}
