//! Formats code as JSON, like `nvdisasm -json` with additional fields.
//!
//! `docs/disasm.md` describes the fields.

use oriole_isa::{Control, Effect, decode};
use serde::Serialize;

use super::labels::Labels;
use super::listing::Listing;
use super::program::{Program, SIZE};

/// A cubin.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct File {
    target: String,
    /// Name of the source or of the library member, if the container has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    functions: Vec<Function>,
}

/// A function with its instructions.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Function {
    function_name: String,
    section: String,
    is_kernel: bool,
    start: u64,
    length: u64,
    sass_instructions: Vec<Line>,
}

/// One instruction.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Line {
    address: u64,
    /// The label at this address.
    #[serde(skip_serializing_if = "Option::is_none")]
    label: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    predicate: Option<String>,
    opcode: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    operands: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra_attributes: Option<Extra>,
    hex: String,
    control: String,
    stall: u8,
    #[serde(rename = "yield")]
    yields: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    write_barrier: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read_barrier: Option<u8>,
    wait_mask: u8,
}

/// Additional attributes of an instruction.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
struct Extra {
    /// As in nvdisasm: `"True"` for branches, calls and exits.
    #[serde(skip_serializing_if = "Option::is_none")]
    control_flow: Option<&'static str>,
    /// `"True"` if no form of the table matches the word.
    #[serde(skip_serializing_if = "Option::is_none")]
    unknown: Option<&'static str>,
}

/// Converts the functions that `wanted` selects; also returns the number of words that no form of the table matches.
pub fn file(program: &Program<'_>, labels: &Labels, name: Option<String>, wanted: &dyn Fn(&str) -> bool) -> (File, usize) {
    let listing = Listing::new(program, labels);
    let mut unknown = 0;
    let mut functions = Vec::new();
    for (position, section) in program.sections.iter().enumerate().filter(|(_, section)| wanted(section.function)) {
        let mut lines = Vec::with_capacity(section.words.len());
        for (index, &word) in section.words.iter().enumerate() {
            let address = index as u64 * SIZE;
            let mut text = String::new();
            let known = listing.instruction(&mut text, position, address, word);
            unknown += usize::from(!known);
            let label = labels.of_section(position).name(address);
            lines.push(line(program, word, address, label, &text, known));
        }
        let is_kernel = section.is_kernel;
        functions.push(Function {
            function_name: section.function.to_string(),
            section: section.name.to_string(),
            is_kernel,
            start: 0,
            length: section.length(),
            sass_instructions: lines,
        });
    }
    (File { target: program.target.to_string(), name, functions }, unknown)
}

/// Converts one instruction. Splits the printed text into guard, opcode and operands.
fn line(program: &Program<'_>, word: u128, address: u64, label: Option<String>, text: &str, known: bool) -> Line {
    let (predicate, rest) = match text.starts_with('@') {
        true => text.split_once(' ').map_or((None, text), |(guard, rest)| (Some(guard.to_string()), rest)),
        false => (None, text),
    };
    let (opcode, operands) = rest.split_once(' ').map_or((rest, None), |(opcode, operands)| (opcode, Some(operands.replace(", ", ","))));
    let effect = decode(word, program.target).map(|instruction| instruction.opcode.properties().effect);
    let control_flow = (effect == Some(Effect::Control)).then_some("True");
    let unknown = (!known).then_some("True");
    let control = Control::of(word);
    Line {
        address,
        label,
        predicate,
        opcode: opcode.to_string(),
        operands,
        extra_attributes: (control_flow.is_some() || unknown.is_some()).then_some(Extra { control_flow, unknown }),
        hex: format!("{word:#034x}"),
        control: control.to_string(),
        stall: control.stall,
        yields: !control.stay,
        write_barrier: control.write_barrier,
        read_barrier: control.read_barrier,
        wait_mask: control.wait,
    }
}
