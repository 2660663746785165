//! The model of a cubin.
//!
//! The model follows the file: sections in file order, each with its content decoded as far as the format is known. [`Cubin::read`] and
//! [`Cubin::write`] are inverse to each other, byte for byte. Everything that follows from other data (offsets, sizes, string offsets, the
//! spans of segments) is recomputed when the file is written, so that it fits after changes.

use object::elf;
use oriole_support::{Suffix, Target};

use crate::compat::{CompatCode, CompatValue};
use crate::error::{Error, Result};
use crate::info::Attribute;
use crate::note::Note;
use crate::runner::{Runner, run_in_order};
use crate::section::{Content, Section, SectionKind, SectionType};
use crate::segment::{FileRange, Segment};
use crate::symbol::Symbol;
use crate::target::Flags;

/// `e_machine` of a cubin.
pub const EM_CUDA: u16 = elf::EM_CUDA;

/// `EI_OSABI` of the files of CUDA 13.
pub const OS_ABI: u8 = 0x41;

/// `EI_OSABI` of the files of CUDA 12 and before.
pub const OLD_OS_ABI: u8 = 0x33;

/// The fields of the ELF header, except those that say where other parts of the file are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    pub file_type: FileType,
    pub os_abi: u8,
    pub flags: Flags,
    pub entry: u64,
    /// Index of `.shstrtab`.
    pub section_names: usize,
    /// Fields that matter only for writing back the same bytes: the padding that the standard requires to be zero, `e_version`, the size of
    /// a program header, and the offset of program headers in a file without any. ptxas sets the size to 0 in some files without program
    /// headers.
    pub(crate) ident_padding: [u8; 7],
    pub(crate) version: u32,
    pub(crate) program_header_size: u16,
    pub(crate) stray_program_header_offset: u64,
}

/// `e_type`
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileType {
    /// The output of `ptxas -c`, input for nvlink.
    Relocatable,
    /// Loadable by the driver.
    Executable,
    Other(u16),
}

impl FileType {
    pub(crate) fn of(number: u16) -> FileType {
        match number {
            elf::ET_REL => FileType::Relocatable,
            elf::ET_EXEC => FileType::Executable,
            _ => FileType::Other(number),
        }
    }

    pub(crate) fn number(self) -> u16 {
        match self {
            FileType::Relocatable => elf::ET_REL,
            FileType::Executable => elf::ET_EXEC,
            FileType::Other(number) => number,
        }
    }
}

/// A part of the file. A file is a list of parts in file order, each aligned; a gap holds bytes that alignment does not explain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Piece {
    Section(usize),
    SectionHeaders,
    ProgramHeaders,
    Gap(Vec<u8>),
}

/// A cubin file.
#[derive(Clone, Debug, PartialEq)]
pub struct Cubin {
    pub header: Header,
    pub segments: Vec<Segment>,
    pub(crate) sections: Vec<Section>,
    pub(crate) layout: Vec<Piece>,
}

/// A function with code: a kernel or a device function.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    pub name: &'a str,
    /// Index of the symbol.
    pub symbol: usize,
    /// Index of the section `.text.NAME`.
    pub section: usize,
    pub is_kernel: bool,
    pub code: &'a [u8],
}

impl Cubin {
    /// Reads a cubin. An error names the position in `data`.
    pub fn read(data: &[u8]) -> Result<Cubin> {
        crate::read::read(data)
    }

    /// Returns the bytes of the file.
    pub fn write(&self) -> Result<Vec<u8>> {
        self.write_with(&run_in_order)
    }

    /// Returns the bytes of the file. `runner` runs the encoding of each section; it may use several threads.
    pub fn write_with(&self, runner: &Runner<'_>) -> Result<Vec<u8>> {
        crate::write::write(self, runner)
    }

    /// Returns the offset and size of each section in the file that [`Cubin::write`] returns.
    pub fn places(&self) -> Result<Vec<FileRange>> {
        crate::write::places(self)
    }

    /// Returns all sections; the first is the null section of ELF.
    pub fn sections(&self) -> &[Section] {
        &self.sections
    }

    /// Returns the section at an index.
    pub fn section(&self, index: usize) -> Option<&Section> {
        self.sections.get(index)
    }

    pub fn section_mut(&mut self, index: usize) -> Option<&mut Section> {
        self.sections.get_mut(index)
    }

    /// Returns the index of the section with this name.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.sections.iter().position(|section| section.name == name)
    }

    /// Returns the section with this name.
    pub fn section_named(&self, name: &str) -> Option<&Section> {
        self.sections.iter().find(|section| section.name == name)
    }

    /// Returns the section with this name, or an error.
    pub(crate) fn require(&mut self, name: &str) -> Result<&mut Section> {
        let missing = || Error::new(format!("the cubin has no section `{name}`"));
        self.sections.iter_mut().find(|section| section.name == name).ok_or_else(missing)
    }

    /// Returns the bytes of a section, also if they are shared with another section.
    pub fn bytes_of(&self, index: usize) -> Option<&[u8]> {
        match &self.sections.get(index)?.content {
            Content::Bytes(bytes) => Some(bytes),
            Content::SameAs(other) => self.sections.get(*other)?.bytes(),
            _ => None,
        }
    }

    /// Returns the symbols of `.symtab`.
    pub fn symbols(&self) -> &[Symbol] {
        let table = self.sections.iter().find(|section| section.section_type == SectionType::SYMTAB);
        match table.map(|section| &section.content) {
            Some(Content::Symbols(symbols)) => symbols,
            _ => &[],
        }
    }

    /// Returns the symbols of `.symtab` for editing.
    pub fn symbols_mut(&mut self) -> Option<&mut Vec<Symbol>> {
        let table = self.sections.iter_mut().find(|section| section.section_type == SectionType::SYMTAB)?;
        match &mut table.content {
            Content::Symbols(symbols) => Some(symbols),
            _ => None,
        }
    }

    /// Returns the functions with a code section, in section order.
    pub fn functions(&self) -> impl Iterator<Item = Function<'_>> {
        let symbols = self.symbols();
        self.sections.iter().enumerate().filter_map(move |(index, section)| {
            let SectionKind::Text(name) = section.kind() else { return None };
            let symbol = section.text_info().symbol() as usize;
            let is_kernel = symbols.get(symbol).is_some_and(Symbol::is_kernel);
            Some(Function { name, symbol, section: index, is_kernel, code: self.bytes_of(index)? })
        })
    }

    /// Returns the kernels, in section order.
    pub fn kernels(&self) -> impl Iterator<Item = Function<'_>> {
        self.functions().filter(|function| function.is_kernel)
    }

    /// Returns the attributes of `.nv.info`.
    pub fn module_attributes(&self) -> &[Attribute] {
        self.section_named(".nv.info").and_then(Section::attributes).unwrap_or_default()
    }

    /// Returns the attributes of `.nv.info.NAME`.
    pub fn function_attributes(&self, name: &str) -> &[Attribute] {
        self.section_named(&format!(".nv.info.{name}")).and_then(Section::attributes).unwrap_or_default()
    }

    /// Returns all notes of the file.
    pub fn notes(&self) -> impl Iterator<Item = &Note> {
        self.sections.iter().flat_map(|section| match &section.content {
            Content::Notes(notes) => &notes[..],
            _ => &[],
        })
    }

    /// Returns the number of the SM, for example 90.
    pub fn sm(&self) -> u8 {
        self.header.flags.sm()
    }

    /// Returns whether the target of the file has the suffix `a`.
    pub fn is_specific(&self) -> bool {
        let compat = self.sections.iter().filter_map(|section| match &section.content {
            Content::Compat(attributes) => Some(attributes),
            _ => None,
        });
        let says_so = |value: &CompatValue| *value == CompatValue::Byte(1);
        self.header.flags.is_specific()
            || compat.flatten().any(|attribute| attribute.code == CompatCode::CUDA_ACCELERATOR_TARGET && says_so(&attribute.value))
    }

    /// Returns the target, if there is such a target with machine code. A file for `sm_100f` looks like one for `sm_100`.
    pub fn target(&self) -> Option<Target> {
        let suffix = if self.is_specific() { Suffix::ArchSpecific } else { Suffix::Plain };
        Target::new(self.sm().into(), suffix).filter(|target| target.has_machine_code())
    }

    /// Returns the name of the target, for example `sm_90a`, also if there is no such target.
    pub fn target_name(&self) -> String {
        format!("sm_{}{}", self.sm(), if self.is_specific() { "a" } else { "" })
    }
}
