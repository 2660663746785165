//! Loads a cubin like the driver's loader: assigns addresses to functions and variables, resolves relocations, decodes words.
//!
//! Addresses are fixed: functions follow each other from [`CODE_START`], variables from [`GLOBALS_START`]. So everything except the
//! parameters is known before a launch. Functions of the driver (such as `vprintf`) get addresses after the last function.

use oriole_cubin::info::{Attribute, AttributeCode, AttributeValue};
use oriole_cubin::section::{Content, SectionKind};
use oriole_cubin::symbol::SymbolSection;
use oriole_cubin::{Cubin, CubinIndex};
use oriole_isa::{Instruction, SystemLayout, Target, decode};
use rustc_hash::FxHashMap;

use super::fault::{ErrorKind, SassError};
use super::link::{self, ReferenceField};
use super::world::{CODE_START, GLOBALS_START};

/// Size of an instruction in bytes.
pub const INSTRUCTION: u64 = 16;
/// Number of steps of a driver function: its action and the return.
const EXTERNAL_STEPS: u64 = 2;
/// Alignment of functions in bytes.
const FUNCTION_ALIGNMENT: u64 = 128;
/// Stack size, in bytes, of kernels whose stack depth is unknown (recursion, calls through pointers).
const OPEN_STACK: u32 = 0x4000;
/// Value of the stack attribute for an unknown depth.
const UNKNOWN_STACK: u32 = u32::MAX;

/// Machine code, loaded and ready for launches.
pub struct Code {
    pub(super) target: Target,
    pub(super) functions: Vec<LoadedFunction>,
    pub(super) kernels: FxHashMap<String, Kernel>,
    /// Constant banks: (number, kernel, bytes); `None` as the kernel means all kernels.
    pub(super) banks: Vec<(u8, Option<String>, Vec<u8>)>,
    pub(super) variables: Vec<VariableSection>,
    /// Names of the driver functions that the code refers to.
    pub(super) externals: Vec<String>,
    /// The words of constant banks that references fill in; the sections are indices into `banks`.
    pub(super) references: Vec<ReferenceWord>,
}

/// A word that a texture, sampler or surface reference fills in when a kernel is launched.
pub(super) struct ReferenceWord {
    /// Index of the section that has the word.
    pub section: usize,
    /// Offset of the word in bytes.
    pub offset: u64,
    /// Name of the reference.
    pub name: String,
    pub field: ReferenceField,
}

/// A code section.
pub(super) struct LoadedFunction {
    pub name: String,
    pub is_kernel: bool,
    /// Address in the code space.
    pub address: u64,
    pub words: Vec<u128>,
    /// Decoded words; `None` for a word that the instruction table does not know.
    pub instructions: Vec<Option<Instruction>>,
}

/// A section of variables in global memory.
pub(super) struct VariableSection {
    pub name: String,
    pub address: u64,
    pub bytes: Vec<u8>,
}

/// Attributes of a kernel.
#[derive(Clone, Debug, Default)]
pub(super) struct Kernel {
    /// Index into [`Code::functions`].
    pub function: usize,
    pub registers: u16,
    /// Offset of the parameters in constant bank 0.
    pub parameters_start: u32,
    /// Offset from there and size of each parameter in bytes, in declaration order.
    pub parameters: Vec<(u32, u32)>,
    /// Bytes of stack per thread.
    pub stack: u32,
    /// Bytes of static shared memory.
    pub shared: u32,
    /// Blocks per cluster; `None` if not declared.
    pub cluster: Option<[u32; 3]>,
    /// Required block size (`.reqntid`); `None` if not declared.
    pub required_block: Option<[u32; 3]>,
}

/// The location assigned to a section or symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AssignedLocation {
    /// An address in the code space or in global memory.
    At(u64),
    /// An offset in constant bank 3.
    Constant(u64),
    /// An offset in shared memory.
    Shared(u64),
    /// Not loaded.
    Nowhere,
}

impl Code {
    /// Reads a cubin and resolves its relocations.
    pub fn load(bytes: &[u8]) -> Result<Code, SassError> {
        let cubin = Cubin::read(bytes).map_err(|error| SassError::new(ErrorKind::Load, error.to_string()))?;
        let unknown = || SassError::new(ErrorKind::Load, format!("code for {} is not known", cubin.target_name()));
        let target = cubin.target().ok_or_else(unknown)?;
        let mut sections = Sections::of(&cubin)?;
        link::apply(&cubin, &mut sections)?;
        let functions: Vec<LoadedFunction> = sections.functions(&cubin, target);
        let kernels = kernels(&cubin, &functions, target);
        let mut banks = Vec::new();
        let mut variables = Vec::new();
        let mut bank_of_section = vec![None; cubin.sections().len()];
        for (index, section) in cubin.sections().iter().enumerate() {
            let Some(bytes) = sections.bytes[index].take() else { continue };
            match (section.kind(), sections.located[index]) {
                (SectionKind::Constant(bank, name), _) => {
                    bank_of_section[index] = Some(banks.len());
                    banks.push((bank, name.map(str::to_owned), bytes));
                }
                (SectionKind::Global, AssignedLocation::At(address)) => {
                    variables.push(VariableSection { name: section.name.clone(), address, bytes });
                }
                _ => {}
            }
        }
        let of_bank = |word: ReferenceWord| Some(ReferenceWord { section: bank_of_section[word.section]?, ..word });
        let references = sections.references.into_iter().filter_map(of_bank).collect();
        Ok(Code { target, functions, kernels, banks, variables, externals: sections.externals, references })
    }

    /// Returns the target of the code.
    pub fn target(&self) -> Target {
        self.target
    }

    /// Returns the number of registers per thread and of bytes of static shared memory of a kernel.
    pub fn needs(&self, kernel: &str) -> Option<(u32, u32)> {
        self.kernels.get(kernel).map(|kernel| (u32::from(kernel.registers), kernel.shared))
    }

    /// Returns the names of the kernels, in no particular order.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }
}

/// Maximum size, in bytes, of a section without file contents.
const MOST_ZEROS: u64 = 256 << 20;

/// Makes the contents of a section without bytes in the file.
fn zeros(name: &str, size: u64) -> Result<Vec<u8>, SassError> {
    if size > MOST_ZEROS {
        return Err(SassError::new(ErrorKind::Load, format!("{name} has {size} bytes; the simulator holds at most {MOST_ZEROS}")));
    }
    Ok(vec![0; size as usize])
}

/// Sections while they are placed and patched, by section index.
pub(super) struct Sections {
    pub located: Vec<AssignedLocation>,
    /// Contents; `None` for sections that are not loaded.
    pub bytes: Vec<Option<Vec<u8>>>,
    pub externals: Vec<String>,
    /// Address of the first driver function.
    pub externals_start: u64,
    /// The words that references fill in.
    pub references: Vec<ReferenceWord>,
}

impl Sections {
    /// Assigns a location to each section and copies its contents.
    fn of(cubin: &Cubin) -> Result<Sections, SassError> {
        let count = cubin.sections().len();
        let mut sections = Sections {
            located: vec![AssignedLocation::Nowhere; count],
            bytes: vec![None; count],
            externals: Vec::new(),
            externals_start: 0,
            references: Vec::new(),
        };
        let (mut code, mut data) = (CODE_START, GLOBALS_START);
        for (index, section) in cubin.sections().iter().enumerate() {
            let bytes = match &section.content {
                // Shared memory is allocated per block and is not part of the image.
                Content::NoBits(_) if matches!(section.kind(), SectionKind::Shared(_)) => Some(Vec::new()),
                Content::NoBits(size) => Some(zeros(&section.name, *size)?),
                _ => cubin.bytes_of(index).map(<[u8]>::to_vec),
            };
            let Some(bytes) = bytes else { continue };
            match section.kind() {
                SectionKind::Text(name) => {
                    if !(bytes.len() as u64).is_multiple_of(INSTRUCTION) {
                        return Err(SassError::new(ErrorKind::Load, format!("the code of {name} is no whole number of instructions")));
                    }
                    sections.located[index] = AssignedLocation::At(code);
                    code = (code + bytes.len() as u64).next_multiple_of(FUNCTION_ALIGNMENT);
                }
                SectionKind::Global => {
                    data = data.next_multiple_of(section.alignment.max(256));
                    sections.located[index] = AssignedLocation::At(data);
                    // Leave unmapped addresses after each section to catch out-of-bounds accesses.
                    data += bytes.len() as u64 + 0x1_0000;
                }
                SectionKind::Constant(..) => sections.located[index] = AssignedLocation::Constant(0),
                SectionKind::Shared(_) => {
                    sections.located[index] = AssignedLocation::Shared(0);
                    continue;
                }
                _ => continue,
            }
            sections.bytes[index] = Some(bytes);
        }
        sections.externals_start = code;
        Ok(sections)
    }

    /// Decodes the code sections; returns them sorted by address.
    fn functions(&mut self, cubin: &Cubin, target: Target) -> Vec<LoadedFunction> {
        let mut functions = Vec::new();
        for function in cubin.functions() {
            let (Some(bytes), AssignedLocation::At(address)) = (self.bytes[function.section].take(), self.located[function.section]) else {
                continue;
            };
            let word = |chunk: &[u8]| chunk.iter().rev().fold(0, |word, &byte| word << 8 | u128::from(byte));
            let words: Vec<u128> = bytes.chunks_exact(INSTRUCTION as usize).map(word).collect();
            let instructions = words.iter().map(|&word| decode(word, target)).collect();
            functions.push(LoadedFunction { name: function.name.to_owned(), is_kernel: function.is_kernel, address, words, instructions });
        }
        functions.sort_by_key(|function| function.address);
        functions
    }

    /// Returns the location of a symbol. An undefined symbol is a driver function and gets an address on first use.
    pub fn symbol(&mut self, cubin: &Cubin, index: usize) -> Result<AssignedLocation, SassError> {
        let symbol = cubin.symbols().get(index).ok_or_else(|| SassError::new(ErrorKind::Load, format!("there is no symbol {index}")))?;
        Ok(match symbol.section {
            SymbolSection::Section(section) => match self.located.get(section as usize) {
                Some(AssignedLocation::At(start)) => AssignedLocation::At(start + symbol.value),
                Some(AssignedLocation::Constant(start)) => AssignedLocation::Constant(start + symbol.value),
                Some(AssignedLocation::Shared(start)) => AssignedLocation::Shared(start + symbol.value),
                _ => AssignedLocation::Nowhere,
            },
            SymbolSection::Undefined if symbol.name.is_empty() => AssignedLocation::At(0),
            SymbolSection::Undefined => {
                let position = self.externals.iter().position(|name| *name == symbol.name).unwrap_or_else(|| {
                    self.externals.push(symbol.name.clone());
                    self.externals.len() - 1
                });
                AssignedLocation::At(self.externals_start + EXTERNAL_STEPS * INSTRUCTION * position as u64)
            }
            SymbolSection::Reserved(_) => AssignedLocation::Nowhere,
        })
    }
}

/// Collects the attributes of each kernel.
fn kernels(cubin: &Cubin, functions: &[LoadedFunction], target: Target) -> FxHashMap<String, Kernel> {
    let mut kernels = FxHashMap::default();
    let known = CubinIndex::new(cubin);
    let mut by_name: FxHashMap<&str, usize> = FxHashMap::default();
    for (index, function) in functions.iter().enumerate() {
        by_name.entry(&function.name).or_insert(index);
    }
    for function in cubin.kernels() {
        let Some(&index) = by_name.get(function.name) else { continue };
        let of_symbol = |code: AttributeCode| known.function_value(function.symbol, code);
        let attributes = known.function_attributes(function.name);
        let stack = match of_symbol(AttributeCode::MIN_STACK_SIZE).or(of_symbol(AttributeCode::FRAME_SIZE)) {
            Some(UNKNOWN_STACK) => OPEN_STACK,
            size => size.unwrap_or(0),
        };
        let shared = known.section_named(&format!(".nv.shared.{}", function.name)).map_or(0, |section| match section.content {
            Content::NoBits(size) => size as u32,
            _ => 0,
        });
        let triple = |code| {
            attributes.iter().find(|attribute| attribute.code == code).and_then(|attribute| match &attribute.value {
                AttributeValue::Words(words) => <[u32; 3]>::try_from(&words[..]).ok(),
                _ => None,
            })
        };
        kernels.insert(
            function.name.to_owned(),
            Kernel {
                function: index,
                registers: of_symbol(AttributeCode::REGCOUNT).map_or(255, |count| count.min(255) as u16),
                parameters_start: parameters_start(attributes).unwrap_or(SystemLayout::of(target).parameters),
                parameters: parameters(attributes),
                stack,
                shared,
                cluster: triple(AttributeCode::CTA_PER_CLUSTER),
                required_block: triple(AttributeCode::REQNTID),
            },
        );
    }
    kernels
}

/// Returns the offset of the parameters in constant bank 0; `None` for a kernel without parameters.
fn parameters_start(attributes: &[Attribute]) -> Option<u32> {
    attributes.iter().find_map(|attribute| match attribute.value {
        AttributeValue::ParameterBank(bank) => Some(u32::from(bank.offset)),
        _ => None,
    })
}

/// Returns offset and size of each parameter, in declaration order.
fn parameters(attributes: &[Attribute]) -> Vec<(u32, u32)> {
    let mut parameters: Vec<(u16, u32, u32)> = attributes
        .iter()
        .filter_map(|attribute| match attribute.value {
            AttributeValue::Parameter(parameter) => Some((parameter.ordinal, u32::from(parameter.offset), u32::from(parameter.size))),
            AttributeValue::ParameterV2(parameter) => Some((parameter.ordinal, u32::from(parameter.offset), u32::from(parameter.size))),
            _ => None,
        })
        .collect();
    parameters.sort_unstable();
    parameters.into_iter().map(|(_, offset, size)| (offset, size)).collect()
}
