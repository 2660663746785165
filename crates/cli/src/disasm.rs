//! `oriole disasm`: prints machine code as text.

use std::process::ExitCode;

use clap::Args;
use oriole_cubin::{Cubin, Image, ImageKind};
use oriole_isa::{Control, Target, print_with};
use oriole_support::Suffix;

use crate::check::read_input;
use crate::print;
use crate::sass::control::ControlListing;
use crate::sass::json;
use crate::sass::labels::Labels;
use crate::sass::listing::Listing;
use crate::sass::program::{Program, SIZE, words_of};
use crate::sass::source_lines::SourceLines;
use crate::target_names;

/// Disassemble cubins, fatbins, host programs and raw code.
///
///   $ oriole disasm kernel.cubin
///   ...
///   .text.saxpy:
///           /*0000*/                   LDC R1, c[0x0][0x28] ;
///           /*0010*/                   S2R R0, SR_CTAID.X ;
///
/// The text is that of `nvdisasm -c`, names of labels and relocated operands included.
///
///   $ oriole disasm --kernel saxpy a.out       one kernel of a host program
///   $ oriole disasm --arch sm_90a lib.fatbin   images for one target only
///   $ oriole disasm --control kernel.cubin     with control words, for `oriole asm`
///   $ oriole disasm --control --why kernel.cubin  and the reasons of stalls, scoreboards and waits
///   $ oriole disasm --lines kernel.cubin       with the source and PTX lines of -lineinfo or -g
///   $ oriole disasm --json kernel.cubin        as data
///   $ oriole disasm --raw --arch sm_80 code    16-byte words without a file around them
///
/// Words that are not known print as `.raw 0x...`; a note says how many there were.
#[derive(Args)]
#[command(verbatim_doc_comment)]
pub struct DisasmArguments {
    /// Cubin, fatbin, object file, executable or library; `-` is standard input
    #[arg(value_name = "FILE")]
    file: String,
    /// Print this kernel or function only
    #[arg(long, value_name = "NAME")]
    kernel: Option<String>,
    /// Print control words, and all that `oriole asm` needs to rebuild the file
    #[arg(long)]
    control: bool,
    /// Print what each stall, scoreboard and wait is for, as Oriole sees it, and where Oriole would write another control word
    #[arg(long, requires = "control", conflicts_with = "raw")]
    why: bool,
    /// Print the lines of the source files and of the PTX text before their instructions
    #[arg(long, conflicts_with_all = ["control", "json", "raw"])]
    lines: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "control")]
    json: bool,
    /// The target of the images to print, or of raw code
    #[arg(long, value_name = "TARGET", value_parser = parse_target)]
    arch: Option<Target>,
    /// The file is code alone: a sequence of 16-byte words
    #[arg(long, requires = "arch", conflicts_with_all = ["json", "kernel"])]
    raw: bool,
}

fn parse_target(name: &str) -> Result<Target, String> {
    let known: Vec<String> = Target::all_with_machine_code().map(|target| target.to_string()).collect();
    Target::parse(name).ok_or_else(|| format!("targets are {}{}", known.join(", "), target_names::hint(name, &known)))
}

pub fn run(arguments: &DisasmArguments) -> ExitCode {
    let data = match read_input(&arguments.file) {
        Ok(data) => data,
        Err(error) => {
            errln!("error: {}: {error}", arguments.file);
            return ExitCode::from(2);
        }
    };
    let mut output = Output::default();
    let result = match (arguments.raw, arguments.arch) {
        (true, Some(target)) => output.raw(&data, target, arguments.control),
        _ => output.images(arguments, &data),
    };
    print::out(output.text.as_bytes());
    if output.unknown > 0 {
        errln!("note: {}: {} unknown instructions, printed as .raw", arguments.file, output.unknown);
    }
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            errln!("error: {}: {error}", arguments.file);
            ExitCode::FAILURE
        }
    }
}

/// The text printed so far.
#[derive(Default)]
struct Output {
    text: String,
    /// Number of words that no form of the table matches.
    unknown: usize,
}

impl Output {
    /// Prints all cubins of a file that match the options.
    fn images(&mut self, arguments: &DisasmArguments, data: &[u8]) -> Result<(), String> {
        let images = oriole_cubin::open(data).map_err(|error| error.to_string())?;
        let is_wanted = |image: &&Image| image.kind == ImageKind::Cubin && arguments.arch.is_none_or(|arch| fits(image, arch));
        let cubins: Vec<&Image> = images.iter().filter(is_wanted).collect();
        if cubins.is_empty() {
            return Err(nothing_found(&images, arguments.arch));
        }
        if arguments.control && cubins.len() > 1 {
            let targets: Vec<&str> = cubins.iter().map(|image| &image.target[..]).collect();
            return Err(format!("--control takes one cubin, and here are {}; --arch chooses one of {}", cubins.len(), targets.join(", ")));
        }
        let (mut files, mut kernel_found, mut has_code) = (Vec::new(), arguments.kernel.is_none(), false);
        // An image that cannot be read, such as one for a target without table, does not keep the others from being printed.
        let mut problems: Vec<String> = Vec::new();
        for (number, image) in cubins.iter().enumerate() {
            let cubin = match image.cubin() {
                Ok(cubin) => cubin,
                Err(error) => {
                    problems.push(error.to_string());
                    continue;
                }
            };
            kernel_found |= cubin.functions().any(|function| Some(function.name) == arguments.kernel.as_deref());
            has_code |= cubin.functions().next().is_some();
            if cubins.len() > 1 && !arguments.json {
                self.image_header(image, number, cubins.len());
            }
            match self.cubin(arguments, &cubin, image) {
                Ok(file) => files.extend(file),
                Err(problem) => problems.push(problem),
            }
        }
        problems.dedup();
        if arguments.json {
            self.text = serde_json::to_string(&files).map_err(|error| error.to_string())? + "\n";
        }
        match &arguments.kernel {
            _ if !problems.is_empty() => Err(problems.join("; ")),
            Some(kernel) if !kernel_found => Err(format!("there is no kernel or function {kernel}")),
            _ if has_code => Ok(()),
            _ => Err("there is no machine code in this file".to_owned()),
        }
    }

    fn image_header(&mut self, image: &Image, number: usize, count: usize) {
        let name = image.name.as_deref().map_or_else(String::new, |name| format!(", {name}"));
        self.text += &format!("//===================== image {} of {count}: {}{name}, at {:#x}\n", number + 1, image.target, image.offset);
    }

    /// Prints a cubin, or returns it if JSON is requested.
    fn cubin(&mut self, arguments: &DisasmArguments, cubin: &Cubin, image: &Image) -> Result<Option<json::File>, String> {
        let program = Program::new(cubin)?;
        let labels = Labels::new(&program);
        let is_wanted = |function: &str| arguments.kernel.as_deref().is_none_or(|kernel| kernel == function);
        if arguments.json {
            let (file, unknown) = json::file(&program, &labels, image.name.clone(), &is_wanted);
            self.unknown += unknown;
            return Ok(Some(file));
        }
        if arguments.control {
            let mut listing = ControlListing::new(&program, &labels, arguments.why);
            listing.file(&mut self.text, &is_wanted)?;
            self.unknown += listing.unknown;
            return Ok(None);
        }
        let mut lines = arguments.lines.then(|| SourceLines::new(cubin)).transpose()?;
        let mut listing = Listing::new(&program, &labels);
        listing.header(&mut self.text);
        for (position, section) in program.sections.iter().enumerate() {
            if is_wanted(section.function) {
                match &mut lines {
                    Some(lines) => listing.section_with_lines(&mut self.text, position, lines),
                    None => listing.section(&mut self.text, position),
                }
            }
        }
        self.unknown += listing.unknown;
        Ok(None)
    }

    /// Prints code without a surrounding file, as `nvdisasm -b` does. Branch targets are numbers.
    fn raw(&mut self, data: &[u8], target: Target, control: bool) -> Result<(), String> {
        let (words, tail) = words_of(data);
        for (index, &word) in words.iter().enumerate() {
            let address = index as u64 * SIZE;
            self.text += &format!("        /*{address:04x}*/  ");
            if control {
                self.text += &format!("[{}]  ", Control::of(word));
            }
            if !print_with(&mut self.text, word, target, address, &mut |_| None) {
                self.text += &format!(".raw {word:#034x}");
                self.unknown += 1;
            }
            self.text += " ;\n";
        }
        match tail.len() {
            0 => Ok(()),
            left => Err(format!("the file is no sequence of 16-byte words: {left} bytes are left at {:#x}", data.len() - left)),
        }
    }
}

/// Returns whether an image is for a target. A cubin does not distinguish `sm_100f` from `sm_100`.
fn fits(image: &Image, arch: Target) -> bool {
    let is_family = arch.suffix() == Suffix::FamilySpecific;
    image.target == arch.to_string() || is_family && arch.with_suffix(Suffix::Plain).is_some_and(|plain| image.target == plain.to_string())
}

/// Returns the error message for a file without a matching cubin.
fn nothing_found(images: &[Image], arch: Option<Target>) -> String {
    let cubins: Vec<&str> = images.iter().filter(|image| image.kind == ImageKind::Cubin).map(|image| &image.target[..]).collect();
    let has_ptx = images.iter().any(|image| image.kind == ImageKind::Ptx);
    match arch {
        Some(arch) if !cubins.is_empty() => format!("there is no cubin for {arch}, but for {}", cubins.join(", ")),
        _ if has_ptx => "there is PTX here, but no machine code".to_string(),
        _ => "there is no machine code here".to_string(),
    }
}
