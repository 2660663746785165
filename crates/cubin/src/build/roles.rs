//! Which sections and symbols a file has, in ptxas' order, before any of them has a number.

use super::{Home, Module};
use crate::section::SectionType;
use crate::section::flags;
use crate::target::Style;

/// A section by its duty; numbers are indices of kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Null,
    SectionNames,
    Strings,
    Symbols,
    Frames,
    ToolNote,
    CudaNote,
    Info,
    Compat,
    KernelInfo(usize),
    CallGraph,
    RelocationActions,
    TextRelocations(usize),
    FrameRelocations,
    Constants(usize),
    Text(usize),
    Shared(usize),
    ReservedShared,
    ZeroVariables,
    InitializedVariables,
    ConstantVariables,
    Addresses,
    AddressRelocations,
    Capsule(usize),
    MercuryFrames,
    MercuryInfo,
    MercuryKernelInfo(usize),
    MercuryTextRelocations(usize),
    MercuryFrameRelocations,
    MercuryReservedShared,
    MercurySymbols,
}

/// A symbol by its duty.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SymbolRole {
    Null,
    Section(Role),
    ReservedOffset,
    ReservedAlias,
    ReservedVariable,
    /// End of the reserved shared memory. Hopper's files have an empty entry in its place.
    ReservedEnd,
    Function(usize),
    Variable(usize),
}

impl Module {
    pub(super) fn has_mercury(&self) -> bool {
        self.target.has_mercury() && self.kernels.iter().all(|kernel| kernel.capsule.is_some())
    }

    fn indices(&self) -> std::ops::Range<usize> {
        0..self.kernels.len()
    }

    fn sharing(&self) -> impl Iterator<Item = usize> {
        self.indices().filter(|&k| self.kernels[k].shared.is_some())
    }

    pub(super) fn sections(&self) -> Vec<Role> {
        use Role::{CallGraph, Compat, Constants, CudaNote, FrameRelocations, Frames, Info, KernelInfo, Null, RelocationActions};
        use Role::{SectionNames, Shared, Strings, Symbols, Text, TextRelocations, ToolNote};
        let early = self.target.style == Style::Ampere;
        let mut list = vec![Null, SectionNames, Strings, Symbols, Frames, ToolNote, CudaNote, Info];
        list.extend((!early).then_some(Compat));
        list.extend(self.indices().map(KernelInfo));
        list.push(CallGraph);
        let homes = self.homes();
        let has = |role| homes.contains(&role).then_some(role);
        let banks = || homes.iter().copied().filter(|role| [Role::Addresses, Role::ConstantVariables].contains(role));
        let relocated = has(Role::Addresses).map(|_| Role::AddressRelocations);
        if early {
            list.push(RelocationActions);
            list.extend(relocated);
            list.push(FrameRelocations);
            list.extend(banks());
            list.extend(self.indices().map(Constants));
            list.extend(self.indices().map(Text));
            list.extend(has(Role::InitializedVariables));
            list.extend(self.sharing().map(Shared));
            list.extend(has(Role::ZeroVariables));
            return list;
        }
        list.extend(self.indices().filter(|&k| self.kernels[k].had_relocations).map(TextRelocations));
        list.extend(relocated);
        list.push(FrameRelocations);
        list.extend(banks());
        list.extend(self.indices().map(Text));
        list.extend(has(Role::InitializedVariables));
        // Reserved shared memory belongs to the first kernel and comes behind its own.
        list.extend(self.sharing().filter(|&k| k == 0).map(Shared));
        list.push(Role::ReservedShared);
        list.extend(self.sharing().filter(|&k| k != 0).map(Shared));
        list.extend(has(Role::ZeroVariables));
        list.extend(self.indices().map(Constants));
        if self.has_mercury() {
            list.extend(self.mercury_sections());
        }
        list
    }

    /// What the declarations of variables bring into being, in order: sections, and symbols that stay in the file.
    pub(super) fn declarations(&self) -> Vec<SymbolRole> {
        let mut list = Vec::new();
        for (v, variable) in self.variables.iter().enumerate() {
            let home = SymbolRole::Section(variable.home.role());
            if !list.contains(&home) {
                list.push(home);
            }
            list.extend((!variable.is_visible).then_some(SymbolRole::Variable(v)));
            // The table of addresses comes with the first variable in global memory.
            let table = SymbolRole::Section(Role::Addresses);
            let in_global = variable.home.role() != Role::ConstantVariables;
            if in_global && !self.addresses.is_empty() && !list.contains(&table) {
                list.push(table);
            }
        }
        list
    }

    fn homes(&self) -> Vec<Role> {
        let home = |role| match role {
            SymbolRole::Section(role) => Some(role),
            _ => None,
        };
        self.declarations().into_iter().filter_map(home).collect()
    }

    /// Functions that are not weak, with the visible variables behind the first kernel.
    pub(super) fn visible(&self) -> Vec<SymbolRole> {
        let mut list = Vec::new();
        for k in self.indices() {
            list.extend((!self.kernels[k].is_weak).then_some(SymbolRole::Function(k)));
            if k == 0 {
                let variables = self.variables.iter().enumerate().filter(|(_, variable)| variable.is_visible);
                list.extend(variables.map(|(v, _)| SymbolRole::Variable(v)));
            }
        }
        list
    }

    fn mercury_sections(&self) -> Vec<Role> {
        let relocated = |k: &usize| self.kernels[*k].capsule.as_ref().is_some_and(|capsule| !capsule.relocations.is_empty());
        let mut list: Vec<Role> = self.indices().map(Role::Capsule).collect();
        list.extend([Role::MercuryFrames, Role::MercuryInfo]);
        list.extend(self.indices().map(Role::MercuryKernelInfo));
        list.extend(self.indices().filter(relocated).map(Role::MercuryTextRelocations));
        list.extend([Role::MercuryFrameRelocations, Role::MercuryReservedShared, Role::MercurySymbols]);
        list
    }

    /// The symbols of `.symtab`, where a weak kernel comes with its code and others at the end. The Mercury table has the same without those of constants.
    pub(super) fn symbols(&self) -> Vec<SymbolRole> {
        use SymbolRole::{Function, Section};
        let early = self.target.style == Style::Ampere;
        let mut list = vec![SymbolRole::Null, Section(Role::ToolNote), Section(Role::CudaNote)];
        let first_sharing = self.sharing().next();
        for k in self.indices() {
            list.extend(self.kernels[k].is_weak.then_some(Function(k)));
            list.push(Section(Role::Text(k)));
            list.extend(self.kernels[k].shared.map(|_| Section(Role::Shared(k))));
            if early {
                list.extend(if k == 0 { self.declarations() } else { Vec::new() });
                list.push(Section(Role::Constants(k)));
                continue;
            }
            if k == 0 {
                let variable = self.target.reserved_variable.map(|_| SymbolRole::ReservedVariable);
                list.push(SymbolRole::ReservedOffset);
                list.extend(variable.map(|_| Section(Role::ReservedShared)));
                list.push(SymbolRole::ReservedAlias);
                list.extend(variable);
                list.extend(self.declarations());
            }
            list.extend((first_sharing == Some(k)).then_some(SymbolRole::ReservedEnd));
        }
        list.extend([Section(Role::Frames), Section(Role::CallGraph)]);
        list.extend(early.then_some(Section(Role::RelocationActions)));
        list.extend(self.visible());
        if !early {
            list.extend(self.indices().map(|k| Section(Role::Constants(k))));
        }
        list
    }
}

impl Home {
    pub(super) fn role(&self) -> Role {
        match self {
            Home::Zero => Role::ZeroVariables,
            Home::Initialized(_) => Role::InitializedVariables,
            Home::Constant(_) => Role::ConstantVariables,
        }
    }
}

/// What of a section's header depends on its duty only.
pub(super) struct Shape {
    pub section_type: SectionType,
    pub flags: u64,
    pub alignment: u64,
    pub entry_size: u64,
}

impl Role {
    pub fn shape(self, style: Style) -> Shape {
        let early = style == Style::Ampere;
        let (section_type, flags, alignment, entry_size) = match self {
            Role::Null => (SectionType::NULL, 0, 0, 0),
            Role::SectionNames | Role::Strings => (SectionType::STRTAB, 0, 1, 0),
            Role::Symbols => (SectionType::SYMTAB, 0, 8, 24),
            Role::Frames => (SectionType::PROGBITS, 0, 1, 0),
            Role::ToolNote => (SectionType::NOTE, flags::TKINFO, 4, 0),
            Role::CudaNote => (SectionType::NOTE, flags::CUINFO | if early { 0 } else { flags::INFO_LINK }, 4, 0),
            Role::Info => (SectionType::CUDA_INFO, 0, 4, 0),
            Role::Compat => (SectionType::CUDA_COMPAT_INFO, 0, 4, 0),
            Role::KernelInfo(_) => (SectionType::CUDA_INFO, flags::INFO_LINK, 4, 0),
            Role::CallGraph => (SectionType::CUDA_CALLGRAPH, 0, 4, 8),
            Role::RelocationActions => (SectionType::CUDA_RELOCINFO, 0, 8, 8),
            Role::FrameRelocations | Role::AddressRelocations if early => (SectionType::REL, flags::INFO_LINK, 8, 16),
            Role::TextRelocations(_) | Role::FrameRelocations | Role::AddressRelocations => (SectionType::RELA, flags::INFO_LINK, 8, 24),
            Role::Constants(_) => (SectionType::PROGBITS, flags::ALLOC | flags::INFO_LINK, 4, 0),
            Role::Text(_) => (SectionType::PROGBITS, flags::ALLOC | flags::EXECINSTR, 128, 0),
            Role::Shared(_) => (SectionType::NOBITS, flags::WRITE | flags::ALLOC | flags::INFO_LINK, 1, 0),
            Role::ReservedShared => (SectionType::NOBITS, flags::WRITE | flags::ALLOC, 1, 0),
            Role::ZeroVariables => (SectionType::NOBITS, flags::WRITE | flags::ALLOC, 1, 0),
            Role::InitializedVariables => (SectionType::PROGBITS, flags::WRITE | flags::ALLOC, 1, 0),
            Role::ConstantVariables => (SectionType::PROGBITS, flags::ALLOC, 1, 0),
            Role::Addresses => (SectionType::PROGBITS, flags::ALLOC, 8, 0),
            Role::Capsule(_) => (SectionType::CUDA_CAPMERC, flags::MERCURY, 16, 0),
            Role::MercuryFrames => (SectionType::PROGBITS, flags::MERCURY, 1, 0),
            Role::MercuryInfo => (SectionType::MERCURY_INFO, flags::MERCURY, 4, 0),
            Role::MercuryKernelInfo(_) => (SectionType::MERCURY_INFO, flags::MERCURY | flags::INFO_LINK, 4, 0),
            Role::MercuryTextRelocations(_) | Role::MercuryFrameRelocations => {
                (SectionType::MERCURY_RELA, flags::MERCURY | flags::INFO_LINK, 8, 24)
            }
            Role::MercuryReservedShared => (SectionType::CUDA_RESERVED_SHARED, flags::MERCURY | flags::WRITE | flags::ALLOC, 1, 0),
            Role::MercurySymbols => (SectionType::MERCURY_SYMTAB, flags::MERCURY, 8, 24),
        };
        Shape { section_type, flags, alignment, entry_size }
    }

    /// The twin that stands for this section in the Mercury symbol table.
    pub fn mercury(self) -> Role {
        match self {
            Role::Text(k) => Role::Capsule(k),
            Role::Frames => Role::MercuryFrames,
            Role::ReservedShared => Role::MercuryReservedShared,
            other => other,
        }
    }
}
