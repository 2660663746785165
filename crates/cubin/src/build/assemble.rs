//! From the parts of a module to a [`Cubin`].

use std::collections::HashMap;
use std::hash::Hash;

use object::elf;

use super::frame::{self, MERCURY_UNIT, SASS_UNIT};
use super::roles::{Role, SymbolRole};
use super::{Frame, Home, Module, Variable};
use crate::compat::{CompatAttribute, CompatCode, CompatValue};
use crate::cubin::{Cubin, FileType, Header, OS_ABI, Piece};
use crate::error::{Error, Result};
use crate::info::{Attribute, Code, Value};
use crate::note::{CudaInfo, Note};
use crate::relocation::{Relocation, RelocationType};
use crate::section::{Content, Section, TextInfo};
use crate::segment::{Cover, Segment, access, is_loaded};
use crate::symbol::{Symbol, SymbolSection, other};
use crate::target::{Flags, Style, Variant};

/// `.nv.rel.action` of every file for Turing to Ada.
const RELOCATION_ACTIONS: [u8; 16] = [0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x25, 0, 0x05, 0x36];

/// What relocates the start of an FDE in a Mercury twin, seen in every file.
const MERCURY_FRAME_RELOCATION: RelocationType = RelocationType(0x1003d);

pub(super) fn assemble(module: &Module) -> Result<Cubin> {
    if !module.variables.is_empty() && (module.has_mercury() || module.kernels.is_empty()) {
        return Err(Error::new("module variables are built only beside a kernel, and without Mercury capsules"));
    }
    let maker = Maker::new(module);
    let mut sections = Vec::with_capacity(maker.roles.len());
    for &role in &maker.roles {
        sections.push(maker.section(role)?);
    }
    let cuinfo = maker.index(Role::CudaNote);
    let header = Header {
        file_type: FileType::Executable,
        os_abi: OS_ABI,
        flags: Flags::for_target(module.target, cuinfo as u8),
        entry: 0,
        section_names: maker.index(Role::SectionNames) as usize,
        ident_padding: [0; 7],
        version: u32::from(elf::EV_CURRENT),
        program_header_size: crate::read::PROGRAM_HEADER_SIZE as u16,
        stray_program_header_offset: 0,
    };
    let segments = segments(module.target.style, &sections);
    Ok(Cubin { header, segments, layout: maker.layout(), sections })
}

struct Maker<'a> {
    module: &'a Module,
    roles: Vec<Role>,
    symbols: Vec<SymbolRole>,
    section_indices: HashMap<Role, u32>,
    symbol_indices: HashMap<SymbolRole, u32>,
}

/// The index of each role, for lookup.
fn numbered<R: Copy + Eq + Hash>(roles: &[R]) -> HashMap<R, u32> {
    roles.iter().zip(0..).map(|(&role, index)| (role, index)).collect()
}

impl Maker<'_> {
    fn new(module: &Module) -> Maker<'_> {
        let (roles, symbols) = (module.sections(), module.symbols());
        let (section_indices, symbol_indices) = (numbered(&roles), numbered(&symbols));
        Maker { module, roles, symbols, section_indices, symbol_indices }
    }

    /// Index of a section; 0 if the file does not have it.
    fn index(&self, role: Role) -> u32 {
        self.section_indices.get(&role).copied().unwrap_or(0)
    }

    fn symbol_index(&self, role: SymbolRole) -> u32 {
        self.symbol_indices.get(&role).copied().unwrap_or(0)
    }

    fn function(&self, k: usize) -> u32 {
        self.symbol_index(SymbolRole::Function(k))
    }

    fn section(&self, role: Role) -> Result<Section> {
        let shape = role.shape(self.module.target.style);
        let alignment = match role {
            Role::Shared(k) => self.module.kernels[k].shared.map_or(1, |shared| shared.alignment),
            Role::ZeroVariables | Role::InitializedVariables | Role::ConstantVariables => self.variable_alignment(role),
            Role::ReservedShared | Role::MercuryReservedShared if self.module.target.reserved_variable.is_some() => 16,
            _ => shape.alignment,
        };
        let mut section = Section::new(self.module.section_name(role), shape.section_type, shape.flags, alignment, self.content(role)?);
        section.entry_size = shape.entry_size;
        (section.link, section.info) = self.link_and_info(role);
        Ok(section)
    }

    fn link_and_info(&self, role: Role) -> (u32, u32) {
        let symbols = self.index(Role::Symbols);
        let mercury = self.index(Role::MercurySymbols);
        match role {
            Role::Symbols => (self.index(Role::Strings), self.locals(&self.symbols)),
            Role::CudaNote => (self.index(Role::ToolNote), self.index(Role::Compat)),
            Role::Info | Role::CallGraph => (symbols, 0),
            Role::KernelInfo(k) | Role::TextRelocations(k) => (symbols, self.index(Role::Text(k))),
            Role::FrameRelocations => (symbols, self.index(Role::Frames)),
            Role::AddressRelocations => (symbols, self.index(Role::Addresses)),
            Role::Text(k) => {
                let early = self.module.target.style == Style::Ampere;
                let registers = if early { self.module.kernels[k].registers } else { 0 };
                (symbols, TextInfo::new(self.function(k), registers).0)
            }
            Role::Constants(k) | Role::Shared(k) => (0, self.index(Role::Text(k))),
            Role::Capsule(k) => (mercury, self.function(k)),
            Role::MercuryInfo => (mercury, 0),
            Role::MercuryKernelInfo(k) | Role::MercuryTextRelocations(k) => (mercury, self.index(Role::Capsule(k))),
            Role::MercuryFrameRelocations => (mercury, self.index(Role::MercuryFrames)),
            Role::MercurySymbols => (self.index(Role::Strings), self.locals(&self.mercury_symbols())),
            _ => (0, 0),
        }
    }

    /// One more than the index of the last local symbol.
    fn locals(&self, symbols: &[SymbolRole]) -> u32 {
        let is_local = |role: &SymbolRole| match role {
            SymbolRole::Null | SymbolRole::Section(_) => true,
            SymbolRole::Variable(v) => !self.module.variables[*v].is_visible,
            SymbolRole::ReservedEnd => self.module.target.style == Style::Hopper,
            _ => false,
        };
        symbols.iter().rposition(is_local).map_or(0, |last| last as u32 + 1)
    }

    fn mercury_symbols(&self) -> Vec<SymbolRole> {
        let in_both = |role: &&SymbolRole| !matches!(role, SymbolRole::Section(Role::Constants(_)));
        self.symbols.iter().filter(in_both).copied().collect()
    }

    fn content(&self, role: Role) -> Result<Content> {
        let module = self.module;
        let style = module.target.style;
        let capsule = |k: usize| {
            let missing = || Error::new(format!("kernel `{}` has no capsule", module.kernels[k].name));
            module.kernels[k].capsule.as_ref().ok_or_else(missing)
        };
        Ok(match role {
            Role::Null => Content::NoBits(0),
            Role::SectionNames => Content::Strings(module.section_names()),
            Role::Strings => Content::Strings(module.strings()),
            Role::Symbols => Content::Symbols(self.symbols.iter().map(|&role| self.symbol(role)).collect()),
            Role::Frames => Content::Bytes(frame::encode(&self.frames(), SASS_UNIT).0),
            Role::ToolNote => Content::Notes(vec![Note::Tool(module.tool.clone())]),
            Role::CudaNote => {
                let info = CudaInfo { version: 2, virtual_sm: module.virtual_sm, toolkit: module.toolkit };
                Content::Notes(vec![Note::Cuda(info)])
            }
            Role::Info | Role::MercuryInfo => Content::Info(self.module_attributes()),
            Role::Compat => Content::Compat(self.compat()),
            Role::KernelInfo(k) => Content::Info(self.kernel_attributes(k)),
            Role::CallGraph => Content::CallGraph(module.call_graph.clone()),
            Role::RelocationActions => Content::Bytes(RELOCATION_ACTIONS.to_vec()),
            Role::TextRelocations(_) => Content::Relocations(Vec::new()),
            Role::FrameRelocations => {
                let (_, places) = frame::encode(&self.frames(), SASS_UNIT);
                let addend = (style != Style::Ampere).then_some(0);
                Content::Relocations(self.frame_relocations(&places, RelocationType::R_CUDA_64, addend))
            }
            Role::Constants(k) => {
                let size = usize::from(style.parameter_base()) + usize::from(module.kernels[k].parameter_bytes);
                Content::Bytes(vec![0; size])
            }
            Role::Text(k) => Content::Bytes(module.kernels[k].code.clone()),
            Role::Shared(k) => {
                let size = module.kernels[k].shared.map_or(0, |shared| shared.size);
                Content::NoBits(style.reserved_shared() + size)
            }
            Role::ReservedShared => Content::NoBits(style.reserved_offset() + self.reserved_variable_size()),
            Role::ZeroVariables => Content::NoBits(self.variables(role).map(|variable| variable.offset + variable.size).max().unwrap_or(0)),
            Role::InitializedVariables | Role::ConstantVariables => Content::Bytes(self.initial_values(role)?),
            Role::Addresses => Content::Bytes(vec![0; module.addresses.len() * 8]),
            Role::AddressRelocations => Content::Relocations(self.address_relocations()?),
            Role::Capsule(k) => Content::Bytes(capsule(k)?.bytes.clone()),
            Role::MercuryFrames => Content::Bytes(frame::encode(&self.mercury_frames(), MERCURY_UNIT).0),
            Role::MercuryKernelInfo(k) => Content::Info(capsule(k)?.attributes.clone()),
            Role::MercuryTextRelocations(k) => Content::Relocations(capsule(k)?.relocations.clone()),
            Role::MercuryFrameRelocations => {
                let (_, places) = frame::encode(&self.mercury_frames(), MERCURY_UNIT);
                Content::Relocations(self.frame_relocations(&places, MERCURY_FRAME_RELOCATION, Some(0)))
            }
            Role::MercuryReservedShared => Content::Bytes(vec![0; self.reserved_variable_size() as usize]),
            Role::MercurySymbols => Content::Symbols(self.mercury_symbols().into_iter().map(|role| self.mercury_symbol(role)).collect()),
        })
    }

    /// The variables of a section.
    fn variables(&self, role: Role) -> impl Iterator<Item = &Variable> {
        self.module.variables.iter().filter(move |variable| variable.home.role() == role)
    }

    fn variable_alignment(&self, role: Role) -> u64 {
        self.variables(role).map(|variable| variable.alignment).max().unwrap_or(1)
    }

    fn initial_values(&self, role: Role) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for variable in self.variables(role) {
            let (Home::Initialized(bytes) | Home::Constant(bytes)) = &variable.home else { continue };
            let too_large = || Error::new(format!("`{}` does not fit into 4 GiB", variable.name));
            let (Ok(start), Ok(size)) = (u32::try_from(variable.offset), u32::try_from(variable.size)) else { return Err(too_large()) };
            let start = start as usize;
            let end = start + (size as usize).max(bytes.len());
            if out.len() < end {
                out.resize(end, 0);
            }
            out[start..start + bytes.len()].copy_from_slice(bytes);
        }
        Ok(out)
    }

    /// Last entry first.
    fn address_relocations(&self) -> Result<Vec<Relocation>> {
        let addend = (self.module.target.style != Style::Ampere).then_some(0);
        let relocation = |(slot, &v): (usize, &usize)| {
            if v >= self.module.variables.len() {
                return Err(Error::new(format!("entry {slot} of the address table is variable {v}, which does not exist")));
            }
            let symbol = self.symbol_index(SymbolRole::Variable(v));
            Ok(Relocation { offset: slot as u64 * 8, relocation_type: RelocationType::R_CUDA_64, symbol, addend })
        };
        self.module.addresses.iter().enumerate().rev().map(relocation).collect()
    }

    fn reserved_variable_size(&self) -> u64 {
        self.module.target.reserved_variable.map_or(0, |(_, size)| size)
    }

    fn frames(&self) -> Vec<&Frame> {
        self.module.kernels.iter().map(|kernel| &kernel.frame).collect()
    }

    fn mercury_frames(&self) -> Vec<&Frame> {
        self.module.kernels.iter().filter_map(|kernel| kernel.capsule.as_ref()).map(|capsule| &capsule.frame).collect()
    }

    /// Last function first.
    fn frame_relocations(&self, places: &[u64], relocation_type: RelocationType, addend: Option<i64>) -> Vec<Relocation> {
        let relocation = |(k, &offset): (usize, &u64)| Relocation { offset, relocation_type, symbol: self.function(k), addend };
        places.iter().enumerate().rev().map(relocation).collect()
    }

    /// Registers and frames of the last kernel first, then stacks of the first kernel first.
    fn module_attributes(&self) -> Vec<Attribute> {
        let kernels = || self.module.kernels.iter().enumerate();
        let sizes = kernels().rev().flat_map(|(k, kernel)| {
            let symbol = self.function(k);
            let registers = Attribute::per_symbol(Code::REGCOUNT, symbol, u32::from(kernel.registers));
            [registers, Attribute::per_symbol(Code::FRAME_SIZE, symbol, kernel.frame_size)]
        });
        let stacks = kernels().map(|(k, kernel)| Attribute::per_symbol(Code::MIN_STACK_SIZE, self.function(k), kernel.min_stack_size));
        sizes.chain(stacks).collect()
    }

    fn kernel_attributes(&self, k: usize) -> Vec<Attribute> {
        let mut attributes = self.module.kernels[k].attributes.clone();
        for attribute in &mut attributes {
            if let Value::ParameterBank(bank) = &mut attribute.value {
                bank.symbol = self.symbol_index(SymbolRole::Section(Role::Constants(k)));
            }
        }
        attributes
    }

    fn compat(&self) -> Vec<CompatAttribute> {
        let target = self.module.target;
        let words: Vec<u8> = [target.fastpath_finalize, 0].into_iter().flat_map(u32::to_le_bytes).collect();
        let is_specific = u8::from(target.variant == Variant::Specific);
        [
            (CompatCode::CUDA_ACCELERATOR_TARGET, CompatValue::Byte(is_specific)),
            (CompatCode::ISA_CLASS, CompatValue::Byte(1)),
            (CompatCode::INST_TCGEN05_MMA, CompatValue::Byte(5)),
            (CompatCode::MERCURY_ISA_MAJOR_MINOR_VERSION, CompatValue::Half(target.style.mercury_version())),
            (CompatCode::INST_TENSORMAP_V1, CompatValue::Byte(0)),
            (CompatCode::ENABLE_OPPORTUNISTIC_FINALIZATION, CompatValue::Byte(1)),
            (CompatCode::CAN_FASTPATH_FINALIZE, CompatValue::Bytes(words)),
        ]
        .map(|(code, value)| CompatAttribute::new(code, value))
        .into()
    }

    fn symbol(&self, role: SymbolRole) -> Symbol {
        let style = self.module.target.style;
        let defined = |role| SymbolSection::Section(self.index(role));
        let weak = |symbol_type, section| Symbol::new(self.module.symbol_name(role), elf::STB_WEAK, symbol_type, section);
        match role {
            SymbolRole::Null => Symbol::new("", elf::STB_LOCAL, elf::STT_NOTYPE, SymbolSection::Undefined),
            SymbolRole::Section(section) => Symbol::for_section(self.module.symbol_name(role), self.index(section)),
            SymbolRole::ReservedOffset => {
                Symbol { value: style.reserved_offset(), size: 4, ..weak(elf::STT_OBJECT, SymbolSection::Undefined) }
            }
            SymbolRole::ReservedAlias => {
                let symbol = weak(elf::STT_NOTYPE, defined(Role::ReservedShared));
                Symbol { value: style.reserved_offset(), other: other::RESERVED_SHARED, ..symbol }
            }
            SymbolRole::ReservedVariable => {
                let symbol = weak(elf::STT_OBJECT, defined(Role::ReservedShared));
                Symbol { value: style.reserved_offset(), size: self.reserved_variable_size(), ..symbol }
            }
            SymbolRole::ReservedEnd if style == Style::Hopper => {
                let symbol = Symbol::new("", elf::STB_LOCAL, elf::STT_NOTYPE, SymbolSection::Undefined);
                Symbol { other: other::NULL_MARK, ..symbol }
            }
            SymbolRole::ReservedEnd => {
                Symbol { value: style.reserved_shared(), size: 4, ..weak(elf::STT_OBJECT, SymbolSection::Undefined) }
            }
            SymbolRole::Variable(v) => {
                let variable = &self.module.variables[v];
                let binding = if variable.is_visible { elf::STB_GLOBAL } else { elf::STB_LOCAL };
                let symbol = Symbol::new(&variable.name, binding, elf::STT_OBJECT, defined(variable.home.role()));
                let other = if variable.is_managed { other::MANAGED } else { 0 };
                Symbol { value: variable.offset, size: variable.size, other, ..symbol }
            }
            SymbolRole::Function(k) => {
                let kernel = &self.module.kernels[k];
                let binding = if kernel.is_weak { elf::STB_WEAK } else { elf::STB_GLOBAL };
                let symbol = Symbol::new(&kernel.name, binding, elf::STT_FUNC, defined(Role::Text(k)));
                Symbol { size: kernel.code.len() as u64, other: other::ENTRY, ..symbol }
            }
        }
    }

    /// The same symbol in the Mercury table: with the twin's section, and no values yet.
    fn mercury_symbol(&self, role: SymbolRole) -> Symbol {
        let mut symbol = self.symbol(role);
        symbol.value = 0;
        let section = match role {
            SymbolRole::Section(section) => Some(section.mercury()),
            SymbolRole::ReservedAlias => Some(Role::MercuryReservedShared),
            SymbolRole::ReservedVariable => {
                (symbol.symbol_type, symbol.other) = (crate::symbol::STT_CUDA_OBJECT, other::RESERVED_SHARED);
                Some(Role::MercuryReservedShared)
            }
            SymbolRole::Function(k) => {
                symbol.size = self.module.kernels[k].capsule.as_ref().map_or(0, |capsule| capsule.size);
                Some(Role::Capsule(k))
            }
            SymbolRole::Null | SymbolRole::ReservedOffset | SymbolRole::ReservedEnd | SymbolRole::Variable(_) => None,
        };
        if let Some(section) = section {
            symbol.section = SymbolSection::Section(self.index(section));
        }
        symbol
    }

    fn layout(&self) -> Vec<Piece> {
        let names = self.index(Role::SectionNames) as usize;
        let room = self.module.room_for_names();
        let mut layout = Vec::new();
        for index in 1..self.roles.len() {
            layout.push(Piece::Section(index));
            if index == names && room > 0 {
                layout.push(Piece::Gap(vec![0; room]));
            }
        }
        layout.extend([Piece::SectionHeaders, Piece::ProgramHeaders]);
        layout
    }
}

/// The table, and a segment for each run of sections with the same access. On Turing to Ada, what is read and what is
/// executed go together, and the table comes last.
fn segments(style: Style, sections: &[Section]) -> Vec<Segment> {
    let early = style == Style::Ampere;
    let widened = |section: &Section| match access(section) {
        elf::PF_R if early => elf::PF_R | elf::PF_X,
        flags => flags,
    };
    let segment =
        |segment_type, flags, covers| Segment { segment_type, flags, covers, virtual_address: 0, physical_address: 0, alignment: 8 };
    let mut runs: Vec<Segment> = Vec::new();
    for (index, section) in sections.iter().enumerate().filter(|(_, section)| is_loaded(section)) {
        let flags = widened(section);
        match runs.last_mut() {
            Some(Segment { flags: before, covers: Cover::Sections { last, .. }, .. }) if *before == flags => *last = index,
            _ => runs.push(segment(elf::PT_LOAD, flags, Cover::Sections { first: index, last: index })),
        }
    }
    let access = if early { elf::PF_R | elf::PF_X } else { elf::PF_R };
    let table = segment(elf::PT_LOAD, access, Cover::Table);
    let mut segments = vec![segment(elf::PT_PHDR, access, Cover::Table)];
    if early {
        segments.extend(runs);
        segments.push(table);
    } else {
        segments.push(table);
        segments.extend(runs);
    }
    segments
}
