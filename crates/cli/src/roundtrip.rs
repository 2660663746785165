//! `oriole roundtrip`: checks that every instruction decodes and encodes to the same bits.

use std::fmt::Write as _;
use std::process::ExitCode;

use clap::Args;
use oriole_cubin::ImageKind;
use oriole_isa::{Control, Target, decode, encode, parse_at, print_exact};

use crate::each_file::for_each_file;
use crate::print;
use crate::sass::program::{Program, SIZE, outcome_of_file};

/// Decode every instruction of files and encode it again.
///
///   $ oriole roundtrip kernel.cubin
///   kernel.cubin: sm_90a: 1184 instructions, 1184 identical, 0 unknown; through text 1184
///   1184 instructions, 1184 identical, 0 unknown
///
/// An instruction is decoded to its parts and encoded again; it is identical if all 128 bits come
/// out the same. Words that the table does not know are counted as unknown. `--text` also demands
/// that the printed text, read and encoded again, gives the same bits. The first differences of each
/// file are shown. Exit status 0 only if all instructions are identical; a file without machine code
/// is an error.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct RoundtripArguments {
    /// Cubins, fatbins, object files, executables or libraries; `-` is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    /// Demand identity through the text, too
    #[arg(long)]
    text: bool,
    /// Differences to show for each file
    #[arg(long, default_value_t = 5, value_name = "N")]
    show: usize,
}

/// Counts of instructions.
#[derive(Clone, Copy, Default)]
struct Counts {
    instructions: usize,
    identical: usize,
    unknown: usize,
    through_text: usize,
}

impl Counts {
    fn add(&mut self, other: Counts) {
        self.instructions += other.instructions;
        self.identical += other.identical;
        self.unknown += other.unknown;
        self.through_text += other.through_text;
    }
}

pub fn run(arguments: &RoundtripArguments) -> ExitCode {
    let mut total = Counts::default();
    let errors = for_each_file(&arguments.files, |file, data| check_file(arguments, file, data, &mut total));
    outln!("{} instructions, {} identical, {} unknown", total.instructions, total.identical, total.unknown);
    let text_fits = !arguments.text || total.through_text == total.instructions;
    match errors.unreadable {
        true => ExitCode::from(2),
        false if !errors.failed && total.identical == total.instructions && text_fits => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Checks all cubins of a file, prints the results, and adds the counts to `total`.
fn check_file(arguments: &RoundtripArguments, file: &str, data: &[u8], total: &mut Counts) -> Result<(), String> {
    let images = oriole_cubin::open(data).map_err(|error| error.to_string())?;
    let mut problems = Vec::new();
    let before = total.instructions;
    for image in images.iter().filter(|image| image.kind == ImageKind::Cubin) {
        let cubin = image.cubin().map_err(|error| error.to_string())?;
        let program = match Program::new(&cubin) {
            Ok(program) => program,
            Err(problem) => {
                problems.push(problem);
                continue;
            }
        };
        let mut differences = Vec::new();
        let mut counts = Counts::default();
        for section in &program.sections {
            for (index, &word) in section.words.iter().enumerate() {
                let address = index as u64 * SIZE;
                if let Some(difference) = check_word(word, program.target, address, &mut counts) {
                    differences.push(format!("  {} {address:#06x}: {difference}", section.name));
                }
            }
        }
        let Counts { instructions, identical, unknown, through_text } = counts;
        let mut out = format!(
            "{file}: {}: {instructions} instructions, {identical} identical, {unknown} unknown; through text {through_text}\n",
            program.target
        );
        for difference in differences.iter().take(arguments.show) {
            let _ = writeln!(out, "{difference}");
        }
        if differences.len() > arguments.show {
            let _ = writeln!(out, "  and {} more", differences.len() - arguments.show);
        }
        print::out(out.as_bytes());
        total.add(counts);
    }
    outcome_of_file(problems, total.instructions - before)
}

/// Counts a word; returns a description of the difference if the word does not survive.
fn check_word(word: u128, target: Target, address: u64, counts: &mut Counts) -> Option<String> {
    counts.instructions += 1;
    let Some(instruction) = decode(word, target) else {
        counts.unknown += 1;
        return Some(format!("unknown {word:#034x}"));
    };
    match encode(&instruction, target) {
        Ok(same) if same == word => counts.identical += 1,
        Ok(other) => return Some(format!("{word:#034x} comes out as {other:#034x}: {}", instruction.opcode.mnemonic())),
        Err(error) => return Some(format!("{word:#034x}: {error}")),
    }
    let mut text = String::new();
    print_exact(&mut text, word, target, address, &mut |_| None);
    let again = parse_at(&text, address, &|_| None).map_err(|error| error.to_string()).and_then(|mut instruction| {
        instruction.control = Control { reuse: 0, ..Control::of(word) };
        encode(&instruction, target).map_err(|error| error.to_string())
    });
    match again {
        Ok(same) if same == word => {
            counts.through_text += 1;
            None
        }
        Ok(other) => Some(format!("{text} becomes {other:#034x}, not {word:#034x}")),
        Err(error) => Some(format!("{text}: {error}")),
    }
}
