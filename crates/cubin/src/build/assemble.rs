//! Assembles a [`Cubin`] from the parts of a module.
//!
//! Sections and symbols are first listed as roles, in ptxas' order. Then every role has an index, and headers and contents are generated
//! with these indices.

use std::hash::Hash;

use object::elf;
use rustc_hash::FxHashMap;

use super::attributes::rank;
use super::calls::Prototypes;
use super::frame::{self, MERCURY_UNIT, SASS_UNIT};
use super::relocations::{Group, groups};
use super::roles::{Addends, Patched, Role};
use super::segments::segments;
use super::symbols::SymbolRole;
use super::{FrameInfo, Home, Module, Variable};
use crate::compat::{CompatAttribute, CompatCode, CompatValue};
use crate::cubin::{Cubin, FileType, Header, OLD_OS_ABI, OS_ABI, Piece};
use crate::error::{Error, Result};
use crate::info::{Attribute, AttributeCode, AttributeValue};
use crate::note::{CudaInfo, Note};
use crate::relocation::{Relocation, RelocationType};
use crate::runner::{Runner, map_with};
use crate::section::{Content, Section, TextInfo, flags};
use crate::target::{Flags, LayoutGeneration};

/// Maximum number of symbols in one attribute: the size of an attribute is a 16-bit number of bytes.
const MAX_SYMBOLS: usize = u16::MAX as usize / size_of::<u32>();

/// Content of `.nv.rel.action` in every executable file for Turing to Ada.
const RELOCATION_ACTIONS: [u8; 16] = [0x73, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x11, 0x25, 0, 0x05, 0x36];

/// Relocation type of the start address of an FDE in a Mercury section; the same in every file seen.
const MERCURY_FRAME_RELOCATION: RelocationType = RelocationType(0x1003d);

/// Builds the file.
pub(super) fn assemble(module: &Module, runner: &Runner<'_>) -> Result<Cubin> {
    module.check()?;
    let maker = Maker::new(module);
    let sections: Vec<Section> = map_with(runner, &maker.roles, |&role| maker.section(role)).into_iter().collect::<Result<_>>()?;
    let cuinfo = maker.index(Role::CudaNote);
    let traits = &module.traits;
    let (os_abi, flags, version) = if traits.has_old_format() {
        (OLD_OS_ABI, Flags::old(traits.target, module.virtual_sm), module.toolkit)
    } else {
        (OS_ABI, Flags::new(traits.target, module.has_mercury(), cuinfo as u8), u32::from(elf::EV_CURRENT))
    };
    let header = Header {
        file_type: module.file_type,
        os_abi,
        flags,
        entry: 0,
        section_names: maker.index(Role::SectionNames) as usize,
        ident_padding: [0; 7],
        version,
        program_header_size: crate::read::PROGRAM_HEADER_SIZE as u16,
        stray_program_header_offset: 0,
    };
    let segments = if module.is_relocatable() { Vec::new() } else { segments(module.traits.style, &sections) };
    Ok(Cubin { header, segments, layout: maker.layout(), sections })
}

impl Module {
    /// Rejects modules that cannot be built.
    fn check(&self) -> Result<()> {
        if matches!(self.file_type, FileType::Other(_)) {
            return Err(Error::new("only executable and relocatable files are built"));
        }
        let calls = self.functions.iter().any(|function| {
            !function.is_kernel || !function.relocations.is_empty() || !function.subroutines.is_empty() || function.constants.is_some()
        });
        let more = calls || self.is_relocatable() || !self.variables.is_empty() || !self.externs.is_empty();
        if more && self.traits.has_mercury() && self.functions.iter().any(|function| function.capsule.is_some()) {
            return Err(Error::new("Mercury capsules are built only for executable files of kernels without calls and variables"));
        }
        if !self.is_relocatable() {
            let placed_later = |variable: &&Variable| matches!(variable.home, Home::Shared | Home::Common);
            if let Some(variable) = self.variables.iter().find(placed_later) {
                return Err(Error::new(format!("`{}` needs a linker to be placed; the file is executable", variable.name)));
            }
            for function in &self.functions {
                if let Some(relocation) = function.relocations.iter().find(|relocation| relocation.kind.needs_linker()) {
                    let (kind, name, at) = (relocation.kind, &function.name, relocation.offset);
                    return Err(Error::new(format!("{kind:?} at {at:#x} of `{name}` needs a linker; the file is executable")));
                }
            }
        }
        match self.functions.iter().find(|function| !function.is_kernel && function.parameter_bytes > 0) {
            Some(function) => Err(Error::new(format!("`{}` is no kernel, but has parameters in constant memory", function.name))),
            None => Ok(()),
        }
    }
}

/// The indices of all sections and symbols of the file under construction.
pub(super) struct Maker<'a> {
    pub module: &'a Module,
    pub symbols: Vec<SymbolRole>,
    /// Sections in file order.
    roles: Vec<Role>,
    /// Relocation sections.
    groups: Vec<Group>,
    group_indices: FxHashMap<(Patched, Addends), usize>,
    prototypes: Prototypes,
    section_indices: FxHashMap<Role, u32>,
    symbol_indices: FxHashMap<SymbolRole, u32>,
    /// Indices of the symbols by name.
    named: FxHashMap<String, u32>,
}

/// Returns the index of each role.
fn numbered<R: Copy + Eq + Hash>(roles: &[R]) -> FxHashMap<R, u32> {
    roles.iter().zip(0..).map(|(&role, index)| (role, index)).collect()
}

impl Maker<'_> {
    fn new(module: &Module) -> Maker<'_> {
        let groups = groups(module);
        let relocated: Vec<Role> = groups.iter().map(|group| Role::Relocations(group.patched, group.addends)).collect();
        let (roles, symbols) = (module.sections(&relocated), module.symbols());
        let mut named = FxHashMap::default();
        for (&role, index) in symbols.iter().zip(0..) {
            if !matches!(role, SymbolRole::Null | SymbolRole::Section(_)) {
                named.entry(module.symbol_name(role)).or_insert(index);
            }
        }
        let (section_indices, symbol_indices) = (numbered(&roles), numbered(&symbols));
        let prototypes = module.prototype_offsets();
        let group_indices = groups.iter().enumerate().map(|(index, group)| ((group.patched, group.addends), index)).collect();
        Maker { module, symbols, roles, groups, group_indices, prototypes, section_indices, symbol_indices, named }
    }

    /// Returns the index of a section; 0 if the file does not have it.
    pub(super) fn index(&self, role: Role) -> u32 {
        self.section_indices.get(&role).copied().unwrap_or(0)
    }

    /// Returns the index of a symbol; 0 if the file does not have it.
    pub(super) fn symbol_index(&self, role: SymbolRole) -> u32 {
        self.symbol_indices.get(&role).copied().unwrap_or(0)
    }

    /// Returns the index of the symbol with this name. The empty name stands for no symbol, which some relocations need.
    pub(super) fn find(&self, name: &str) -> Result<u32> {
        if name.is_empty() {
            return Ok(0);
        }
        let missing = || Error::new(format!("something refers to `{name}`, which the module neither defines nor declares as external"));
        self.named.get(name).copied().ok_or_else(missing)
    }

    /// Returns the index of the symbol of function `k`.
    fn function(&self, k: usize) -> u32 {
        self.symbol_index(SymbolRole::Function(k))
    }

    /// Returns a section with header and content.
    fn section(&self, role: Role) -> Result<Section> {
        let shape = role.shape(self.module.traits.style, self.module.is_relocatable());
        let alignment = match role {
            Role::Shared(k) => self.module.functions[k].shared.as_ref().map_or(1, |shared| shared.alignment),
            Role::Constants(k) => self.module.functions[k].constants.as_ref().map_or(4, |constants| constants.alignment),
            Role::ZeroVariables | Role::InitializedVariables | Role::ConstantVariables | Role::SharedVariables => {
                self.variable_alignment(role)
            }
            Role::ReservedShared | Role::MercuryReservedShared => {
                self.module.reserved().iter().map(|(_, variable)| variable.alignment).max().unwrap_or(shape.alignment)
            }
            _ => shape.alignment,
        };
        let mut section = Section::new(self.module.section_name(role), shape.section_type, shape.flags, alignment, self.content(role)?);
        section.entry_size = shape.entry_size;
        if let Role::Text(k) = role
            && self.module.traits.has_old_format()
        {
            section.flags |= u64::from(self.module.functions[k].barriers()) << flags::BARRIERS.trailing_zeros();
        }
        (section.link, section.info) = self.link_and_info(role);
        Ok(section)
    }

    /// Returns `sh_link` and `sh_info` of a section.
    fn link_and_info(&self, role: Role) -> (u32, u32) {
        let symbols = self.index(Role::Symbols);
        let mercury = self.index(Role::MercurySymbols);
        match role {
            Role::Symbols => (self.index(Role::Strings), self.locals(&self.symbols)),
            Role::CudaNote => (self.index(Role::ToolNote), self.index(Role::Compat)),
            Role::Info | Role::CallGraph | Role::Prototypes => (symbols, 0),
            Role::FunctionInfo(k) => (symbols, self.index(Role::Text(k))),
            Role::Relocations(patched, _) => (symbols, self.index(patched.role())),
            Role::Text(k) => {
                let early = self.module.traits.style == LayoutGeneration::Ampere;
                let registers = if early { self.module.functions[k].registers } else { 0 };
                (symbols, TextInfo::new(self.function(k), registers).0)
            }
            Role::Parameters(k) | Role::Constants(k) | Role::Shared(k) => (0, self.index(Role::Text(k))),
            Role::Capsule(k) => (mercury, self.function(k)),
            Role::MercuryInfo => (mercury, 0),
            Role::MercuryFunctionInfo(k) | Role::MercuryTextRelocations(k) => (mercury, self.index(Role::Capsule(k))),
            Role::MercuryFrameRelocations => (mercury, self.index(Role::MercuryFrames)),
            Role::MercurySymbols => (self.index(Role::Strings), self.locals(&self.mercury_symbols())),
            _ => (0, 0),
        }
    }

    /// Returns the content of a section.
    fn content(&self, role: Role) -> Result<Content> {
        let module = self.module;
        let style = module.traits.style;
        let capsule = |k: usize| {
            let missing = || Error::new(format!("kernel `{}` has no capsule", module.functions[k].name));
            module.functions[k].capsule.as_ref().ok_or_else(missing)
        };
        Ok(match role {
            Role::Null => Content::NoBits(0),
            Role::SectionNames => Content::Strings(module.section_names(&self.roles)),
            Role::Strings => Content::Strings(module.strings()),
            Role::Symbols => Content::Symbols(self.symbols.iter().map(|&role| self.symbol(role)).collect()),
            Role::Frames => Content::Bytes(module.encode_frames().bytes),
            Role::Debug(i) => Content::Bytes(module.debug_bytes(i)),
            Role::ToolNote => Content::Notes(vec![Note::Tool(module.tool.clone())]),
            Role::CudaNote => {
                let info = CudaInfo { version: 2, virtual_sm: module.virtual_sm, toolkit: module.toolkit };
                Content::Notes(vec![Note::Cuda(info)])
            }
            Role::Info | Role::MercuryInfo => Content::Info(self.module_attributes()),
            Role::Compat => Content::Compat(self.compat()),
            Role::FunctionInfo(k) => Content::Info(self.function_attributes(k)?),
            Role::CallGraph => Content::CallGraph(module.call_graph(&self.prototypes, &|name: &str| self.find(name))?),
            Role::Prototypes => Content::Bytes(self.prototype_pairs()?),
            Role::RelocationActions => Content::Bytes(RELOCATION_ACTIONS.to_vec()),
            Role::Relocations(patched, addends) => {
                let group = self.group_indices.get(&(patched, addends));
                Content::Relocations(group.map_or(Ok(Vec::new()), |&group| self.resolve(&self.groups[group]))?)
            }
            Role::Parameters(k) => {
                let function = &module.functions[k];
                let size = usize::from(style.parameter_base(function.has_large_parameters)) + usize::from(function.parameter_bytes);
                Content::Bytes(vec![0; size.max(function.image_words_end())])
            }
            Role::Constants(k) => {
                Content::Bytes(module.functions[k].constants.as_ref().map_or(Vec::new(), |constants| constants.bytes.clone()))
            }
            Role::Text(k) => Content::Bytes(module.functions[k].code.clone()),
            Role::Shared(k) => {
                let size = module.functions[k].shared.as_ref().map_or(0, |shared| shared.size);
                Content::NoBits(size.saturating_add(if module.is_relocatable() { 0 } else { module.reserved_shared() }))
            }
            Role::ReservedShared if module.is_relocatable() => Content::NoBits(self.module.reserved_size()),
            Role::ReservedShared => Content::NoBits(style.reserved_offset() + self.module.reserved_size()),
            Role::ZeroVariables | Role::SharedVariables => {
                Content::NoBits(self.variables(role).map(|variable| variable.offset.saturating_add(variable.size)).max().unwrap_or(0))
            }
            Role::InitializedVariables | Role::ConstantVariables => Content::Bytes(self.initial_values(role)?),
            Role::Addresses => Content::Bytes(vec![0; module.addresses.len() * 8]),
            Role::Capsule(k) => Content::Bytes(capsule(k)?.bytes.clone()),
            Role::MercuryFrames => Content::Bytes(self.mercury_frames().bytes),
            Role::MercuryFunctionInfo(k) => Content::Info(capsule(k)?.attributes.clone()),
            Role::MercuryTextRelocations(k) => Content::Relocations(capsule(k)?.relocations.clone()),
            Role::MercuryFrameRelocations => Content::Relocations(self.mercury_frame_relocations()),
            Role::MercuryReservedShared => Content::Bytes(vec![0; self.module.reserved_size() as usize]),
            Role::MercurySymbols => Content::Symbols(self.mercury_symbols().into_iter().map(|role| self.mercury_symbol(role)).collect()),
        })
    }

    /// Returns the variables of a section.
    fn variables(&self, role: Role) -> impl Iterator<Item = &Variable> {
        self.module.variables.iter().filter(move |variable| variable.home.role() == Some(role))
    }

    fn variable_alignment(&self, role: Role) -> u64 {
        self.variables(role).map(|variable| variable.alignment).max().unwrap_or(1)
    }

    /// Returns the initial values of all variables of a section.
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

    fn mercury_frames(&self) -> frame::Encoded {
        let capsules = self.module.functions.iter().filter_map(|function| function.capsule.as_ref());
        frame::encode(capsules.map(|capsule| (0, &capsule.frame)), MERCURY_UNIT, false)
    }

    /// Returns the relocations of the Mercury frames, last function first.
    fn mercury_frame_relocations(&self) -> Vec<Relocation> {
        let relocation = |(k, places): (usize, frame::Places)| Relocation {
            offset: places.address,
            relocation_type: MERCURY_FRAME_RELOCATION,
            symbol: self.function(k),
            addend: Some(0),
        };
        self.mercury_frames().places.into_iter().enumerate().rev().map(relocation).collect()
    }

    /// Returns the relocations of a group with symbols as indices, the last one first.
    fn resolve(&self, group: &Group) -> Result<Vec<Relocation>> {
        let mut list = Vec::with_capacity(group.patches.len());
        for patch in group.patches.iter().rev() {
            let symbol = match &patch.symbol {
                Ok(role) => self.symbol_index(*role),
                Err(name) => self.find(name)?,
            };
            let addend = (group.addends == Addends::Explicit).then_some(patch.addend);
            list.push(Relocation { offset: patch.offset, relocation_type: patch.relocation_type, symbol, addend });
        }
        Ok(list)
    }

    /// Returns the attributes of `.nv.info`: registers and frames from the last function to the first, then stacks from the first kernel to
    /// the last. In relocatable files the linker computes the stacks.
    fn module_attributes(&self) -> Vec<Attribute> {
        let module = self.module;
        let mut list = Vec::new();
        list.extend(module.asks_image_types.then(|| Attribute::new(AttributeCode::ISTYPEP_USED, AttributeValue::Flag)));
        for (k, function) in module.functions.iter().enumerate().rev() {
            let symbol = self.function(k);
            list.push(Attribute::per_symbol(AttributeCode::REGCOUNT, symbol, u32::from(function.registers)));
            if k + 1 == module.functions.len() {
                list.extend(self.sampler_attributes());
            }
            list.extend(module.is_relocatable().then(|| Attribute::per_symbol(AttributeCode::MAX_STACK_SIZE, symbol, 0)));
            for (i, subroutine) in function.subroutines.iter().enumerate().rev() {
                let symbol = self.symbol_index(SymbolRole::Subroutine(k, i));
                list.extend(subroutine.frame_size.map(|size| Attribute::per_symbol(AttributeCode::FRAME_SIZE, symbol, size)));
            }
            list.push(Attribute::per_symbol(AttributeCode::FRAME_SIZE, symbol, function.frame_size));
            list.extend(module.waits_for_errors_at_exit.then(|| Attribute::new(AttributeCode::GEN_ERRBAR_AT_EXIT, AttributeValue::Flag)));
        }
        if !module.is_relocatable() {
            let stack =
                |k: usize| Attribute::per_symbol(AttributeCode::MIN_STACK_SIZE, self.function(k), module.functions[k].min_stack_size);
            list.extend(module.kernels().map(stack));
        }
        if module.has_independent_samplers {
            list.push(Attribute::new(AttributeCode::TEXMODE_INDEPENDENT, AttributeValue::Flag));
        }
        if module.kernels().next().is_none() && !module.traits.has_old_format() {
            list.push(Attribute::new(AttributeCode::MERCURY_ISA_VERSION, AttributeValue::Half(module.traits.style.mercury_version())));
        }
        list
    }

    /// Returns the attributes of a function, with symbol indices filled in.
    fn function_attributes(&self, k: usize) -> Result<Vec<Attribute>> {
        let function = &self.module.functions[k];
        let mut attributes = function.attributes.clone();
        if self.module.traits.has_old_format() {
            attributes.retain(|attribute| attribute.code != AttributeCode::NUM_BARRIERS);
        }
        for attribute in &mut attributes {
            if let AttributeValue::ParameterBank(bank) = &mut attribute.value {
                bank.symbol = self.symbol_index(SymbolRole::Section(Role::Parameters(k)));
            }
            self.set_image_index(k, &mut attribute.value);
        }
        if !function.externs.is_empty() {
            let symbols = function.externs.iter().map(|name| self.find(name)).collect::<Result<Vec<u32>>>()?;
            let own = rank(&self.module.traits, AttributeCode::EXTERNS);
            let place = attributes.iter().position(|attribute| rank(&self.module.traits, attribute.code) > own);
            let place = place.unwrap_or(attributes.len());
            let lists =
                symbols.chunks(MAX_SYMBOLS).map(|list| Attribute::new(AttributeCode::EXTERNS, AttributeValue::Symbols(list.to_vec())));
            attributes.splice(place..place, lists);
        }
        Ok(attributes)
    }

    /// Returns the content of `.nv.prototype`: pairs of a symbol and the offset of a prototype in `.strtab`.
    fn prototype_pairs(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        for (name, text) in self.module.prototyped() {
            out.extend(self.find(name)?.to_le_bytes());
            out.extend(self.prototypes.get(text).copied().unwrap_or(0).to_le_bytes());
        }
        Ok(out)
    }

    /// Returns the attributes of `.nv.compat`.
    fn compat(&self) -> Vec<CompatAttribute> {
        let traits = self.module.traits;
        let words: Vec<u8> = [traits.fastpath_finalize, 0].into_iter().flat_map(u32::to_le_bytes).collect();
        let is_specific = u8::from(traits.is_specific());
        [
            (CompatCode::CUDA_ACCELERATOR_TARGET, CompatValue::Byte(is_specific)),
            (CompatCode::ISA_CLASS, CompatValue::Byte(1)),
            (CompatCode::INST_TCGEN05_MMA, CompatValue::Byte(5)),
            (CompatCode::MERCURY_ISA_MAJOR_MINOR_VERSION, CompatValue::Half(traits.style.mercury_version())),
            (CompatCode::INST_TENSORMAP_V1, CompatValue::Byte(0)),
            (CompatCode::ENABLE_OPPORTUNISTIC_FINALIZATION, CompatValue::Byte(1)),
            (CompatCode::CAN_FASTPATH_FINALIZE, CompatValue::Bytes(words)),
        ]
        .map(|(code, usual)| {
            let given = self.module.compat.iter().find(|attribute| attribute.code == code);
            given.cloned().unwrap_or_else(|| CompatAttribute::new(code, usual))
        })
        .into()
    }

    /// Returns the order of the parts in the file.
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
        layout.push(Piece::SectionHeaders);
        layout.extend((!self.module.is_relocatable()).then_some(Piece::ProgramHeaders));
        layout
    }
}

impl Module {
    /// Returns the frames of all functions, each followed by those of its subroutines: function, offset in its code, frame.
    pub(super) fn frames(&self) -> Vec<(usize, u64, &FrameInfo)> {
        let mut list = Vec::new();
        for (k, function) in self.functions.iter().enumerate() {
            list.push((k, 0, &function.frame));
            let inner = function.subroutines.iter().filter_map(|subroutine| Some((subroutine.offset, subroutine.frame.as_ref()?)));
            list.extend(inner.map(|(offset, frame)| (k, offset, frame)));
        }
        list
    }

    /// Encodes `.debug_frame`.
    pub(super) fn encode_frames(&self) -> frame::Encoded {
        frame::encode(self.frames().into_iter().map(|(_, offset, frame)| (offset, frame)), SASS_UNIT, self.is_relocatable())
    }
}
