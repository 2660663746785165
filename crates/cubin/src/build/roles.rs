//! The sections of a file in ptxas' order, before they have indices.

use super::symbols::SymbolRole;
use super::{Home, Linkage, Module};
use crate::section::SectionType;
use crate::section::flags;
use crate::target::LayoutGeneration;

/// A section by its purpose. Numbers are indices of functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Role {
    Null,
    SectionNames,
    Strings,
    Symbols,
    Frames,
    /// An entry of [`Module::debug`].
    Debug(usize),
    ToolNote,
    CudaNote,
    Info,
    Compat,
    FunctionInfo(usize),
    CallGraph,
    Prototypes,
    RelocationActions,
    Relocations(Patched, Addends),
    /// Bank 0.
    Parameters(usize),
    /// Bank 2.
    Constants(usize),
    Text(usize),
    Shared(usize),
    ReservedShared,
    ZeroVariables,
    InitializedVariables,
    ConstantVariables,
    /// `.nv_debug.shared`: shared variables outside any function.
    SharedVariables,
    Addresses,
    Capsule(usize),
    MercuryFrames,
    MercuryInfo,
    MercuryFunctionInfo(usize),
    MercuryTextRelocations(usize),
    MercuryFrameRelocations,
    MercuryReservedShared,
    MercurySymbols,
}

/// The section that relocations apply to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Patched {
    Text(usize),
    Constants(usize),
    /// Bank 0, for texture, sampler and surface references.
    Parameters(usize),
    Addresses,
    InitializedVariables,
    ConstantVariables,
    Frames,
    Debug(usize),
}

/// Turing to Ada keep relocations whose addend is 0 in `REL` sections; all others are in `RELA` sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Addends {
    Zero,
    Explicit,
}

impl Patched {
    pub fn role(self) -> Role {
        match self {
            Patched::Text(k) => Role::Text(k),
            Patched::Constants(k) => Role::Constants(k),
            Patched::Parameters(k) => Role::Parameters(k),
            Patched::Addresses => Role::Addresses,
            Patched::InitializedVariables => Role::InitializedVariables,
            Patched::ConstantVariables => Role::ConstantVariables,
            Patched::Frames => Role::Frames,
            Patched::Debug(i) => Role::Debug(i),
        }
    }
}

impl Module {
    /// Returns whether the file has Mercury sections.
    pub(super) fn has_mercury(&self) -> bool {
        self.traits.has_mercury() && self.functions.iter().all(|function| function.capsule.is_some())
    }

    pub(super) fn indices(&self) -> std::ops::Range<usize> {
        0..self.functions.len()
    }

    /// Returns the indices of the kernels.
    pub(super) fn kernels(&self) -> impl Iterator<Item = usize> {
        self.indices().filter(|&k| self.functions[k].is_kernel)
    }

    /// Returns whether the section for constant bank 0 of function `k` comes before the code.
    pub(super) fn has_early_parameters(&self, k: usize) -> bool {
        let function = &self.functions[k];
        function.is_kernel && (self.traits.style == LayoutGeneration::Ampere || !function.image_words.is_empty())
    }

    /// Returns the functions with shared memory.
    pub(super) fn sharing(&self) -> impl Iterator<Item = usize> {
        self.indices().filter(|&k| self.functions[k].shared.is_some())
    }

    /// Returns all sections in file order. `relocated` are the relocation sections, in order.
    pub(super) fn sections(&self, relocated: &[Role]) -> Vec<Role> {
        use Role::{CallGraph, Compat, Constants, CudaNote, Frames, FunctionInfo, Info, Null, Parameters, RelocationActions};
        use Role::{SectionNames, Shared, Strings, Symbols, Text, ToolNote};
        let early = self.traits.style == LayoutGeneration::Ampere;
        let mut list = vec![Null, SectionNames, Strings, Symbols, Frames];
        list.extend((0..self.debug.len()).map(Role::Debug));
        if !self.traits.has_old_format() {
            list.extend([ToolNote, CudaNote]);
        }
        list.push(Info);
        list.extend((!early).then_some(Compat));
        list.extend(self.indices().map(FunctionInfo));
        list.push(CallGraph);
        list.extend(self.prototyped().next().map(|_| Role::Prototypes));
        list.extend((early && !self.is_relocatable()).then_some(RelocationActions));
        list.extend(relocated);
        let homes = self.homes();
        let having = |wanted: &'static [Role]| homes.iter().copied().filter(|role| wanted.contains(role));
        list.extend(having(&[Role::Addresses, Role::ConstantVariables]));
        for (k, function) in self.functions.iter().enumerate() {
            list.extend(function.constants.as_ref().map(|_| Constants(k)));
            list.extend(self.has_early_parameters(k).then_some(Parameters(k)));
        }
        list.extend(self.indices().map(Text));
        list.extend(having(&[Role::InitializedVariables]));
        // Reserved shared memory and variables belong to the first function and come after its own shared memory.
        list.extend(self.sharing().filter(|&k| k == 0).map(Shared));
        list.extend(self.has_reserved_section().then_some(Role::ReservedShared));
        list.extend(having(&[Role::SharedVariables, Role::ZeroVariables]));
        list.extend(self.sharing().filter(|&k| k != 0).map(Shared));
        if !early {
            list.extend(self.kernels().filter(|&k| !self.has_early_parameters(k)).map(Parameters));
        }
        if self.has_mercury() {
            list.extend(self.mercury_sections());
        }
        list
    }

    /// Returns whether the file has a section for the shared memory that the system reserves. Executable files from Hopper on always have
    /// it, relocatable files only if there is a variable in it. Patches of tools do not have it: they reserve no memory.
    pub(super) fn has_reserved_section(&self) -> bool {
        self.traits.style != LayoutGeneration::Ampere && (!self.is_relocatable() && !self.is_patch() || !self.reserved().is_empty())
    }

    /// Returns what the declarations of variables create, in order: sections, and the symbols that are not listed at the end.
    pub(super) fn declarations(&self) -> Vec<SymbolRole> {
        let mut list = Vec::new();
        // Sections that are in the list already; there are only a few.
        let mut sections: Vec<Role> = Vec::new();
        let mut add_section = |list: &mut Vec<SymbolRole>, section: Role| {
            if !sections.contains(&section) {
                sections.push(section);
                list.push(SymbolRole::Section(section));
            }
        };
        for (v, variable) in self.variables.iter().enumerate() {
            let Some(home) = variable.home.role() else { continue };
            add_section(&mut list, home);
            list.extend((variable.linkage != Linkage::Global).then_some(SymbolRole::Variable(v)));
            // The address table is listed with the first variable in global memory.
            let in_global = [Role::ZeroVariables, Role::InitializedVariables].contains(&home);
            if in_global && !self.addresses.is_empty() {
                add_section(&mut list, Role::Addresses);
            }
        }
        if !self.addresses.is_empty() {
            add_section(&mut list, Role::Addresses);
        }
        list
    }

    /// Returns the sections of variables, in order.
    fn homes(&self) -> Vec<Role> {
        let home = |role| match role {
            SymbolRole::Section(role) => Some(role),
            _ => None,
        };
        self.declarations().into_iter().filter_map(home).collect()
    }

    /// Returns the Mercury sections in file order.
    fn mercury_sections(&self) -> Vec<Role> {
        let relocated = |k: &usize| self.functions[*k].capsule.as_ref().is_some_and(|capsule| !capsule.relocations.is_empty());
        let mut list: Vec<Role> = self.indices().map(Role::Capsule).collect();
        list.extend([Role::MercuryFrames, Role::MercuryInfo]);
        list.extend(self.indices().map(Role::MercuryFunctionInfo));
        list.extend(self.indices().filter(relocated).map(Role::MercuryTextRelocations));
        list.extend([Role::MercuryFrameRelocations, Role::MercuryReservedShared, Role::MercurySymbols]);
        list
    }
}

impl Home {
    /// Returns the section of the variable; `None` if the linker places it.
    pub(super) fn role(&self) -> Option<Role> {
        match self {
            Home::Zero => Some(Role::ZeroVariables),
            Home::Initialized(_) => Some(Role::InitializedVariables),
            Home::Constant(_) => Some(Role::ConstantVariables),
            Home::Shared => Some(Role::SharedVariables),
            Home::Common => None,
        }
    }
}

/// The fields of a section header that depend on the role only.
pub(super) struct SectionShape {
    pub section_type: SectionType,
    pub flags: u64,
    pub alignment: u64,
    pub entry_size: u64,
}

impl Role {
    /// Returns the header fields of a section with this role.
    pub fn shape(self, style: LayoutGeneration, is_relocatable: bool) -> SectionShape {
        let early = style == LayoutGeneration::Ampere;
        // In relocatable files, the section type tells the linker which memory a section is for.
        let typed = |for_linker, plain| if is_relocatable { for_linker } else { plain };
        let bank = |number: u32| typed(SectionType(SectionType::CUDA_CONSTANT_B0.0 + number), SectionType::PROGBITS);
        let (section_type, flags, alignment, entry_size) = match self {
            Role::Null => (SectionType::NULL, 0, 0, 0),
            Role::SectionNames | Role::Strings => (SectionType::STRTAB, 0, 1, 0),
            Role::Symbols => (SectionType::SYMTAB, 0, 8, 24),
            Role::Frames | Role::Debug(_) => (SectionType::PROGBITS, 0, 1, 0),
            Role::ToolNote => (SectionType::NOTE, flags::TKINFO, 4, 0),
            Role::CudaNote => (SectionType::NOTE, flags::CUINFO | if early { 0 } else { flags::INFO_LINK }, 4, 0),
            Role::Info => (SectionType::CUDA_INFO, 0, 4, 0),
            Role::Compat => (SectionType::CUDA_COMPAT_INFO, 0, 4, 0),
            Role::FunctionInfo(_) => (SectionType::CUDA_INFO, flags::INFO_LINK, 4, 0),
            Role::CallGraph => (SectionType::CUDA_CALLGRAPH, 0, 4, 8),
            Role::Prototypes => (SectionType::CUDA_PROTOTYPE, 0, 4, 8),
            Role::RelocationActions => (SectionType::CUDA_RELOCINFO, 0, 8, 8),
            Role::Relocations(_, Addends::Zero) => (SectionType::REL, flags::INFO_LINK, 8, 16),
            Role::Relocations(_, Addends::Explicit) => (SectionType::RELA, flags::INFO_LINK, 8, 24),
            Role::Parameters(_) => (bank(0), flags::ALLOC | flags::INFO_LINK, 4, 0),
            Role::Constants(_) => (bank(2), flags::ALLOC | flags::INFO_LINK, 4, 0),
            Role::Text(_) => (SectionType::PROGBITS, flags::ALLOC | flags::EXECINSTR, 128, 0),
            Role::Shared(_) => (typed(SectionType::CUDA_SHARED, SectionType::NOBITS), flags::WRITE | flags::ALLOC | flags::INFO_LINK, 1, 0),
            Role::SharedVariables => (typed(SectionType::CUDA_SHARED, SectionType::NOBITS), flags::WRITE | flags::ALLOC, 1, 0),
            Role::ReservedShared => (typed(SectionType::CUDA_RESERVED_SHARED, SectionType::NOBITS), flags::WRITE | flags::ALLOC, 1, 0),
            Role::ZeroVariables => (typed(SectionType::CUDA_GLOBAL, SectionType::NOBITS), flags::WRITE | flags::ALLOC, 1, 0),
            Role::InitializedVariables => (typed(SectionType::CUDA_GLOBAL_INIT, SectionType::PROGBITS), flags::WRITE | flags::ALLOC, 1, 0),
            Role::ConstantVariables => (bank(3), flags::ALLOC, 1, 0),
            Role::Addresses => (bank(4), flags::ALLOC, 8, 0),
            Role::Capsule(_) => (SectionType::CUDA_CAPMERC, flags::MERCURY, 16, 0),
            Role::MercuryFrames => (SectionType::PROGBITS, flags::MERCURY, 1, 0),
            Role::MercuryInfo => (SectionType::MERCURY_INFO, flags::MERCURY, 4, 0),
            Role::MercuryFunctionInfo(_) => (SectionType::MERCURY_INFO, flags::MERCURY | flags::INFO_LINK, 4, 0),
            Role::MercuryTextRelocations(_) | Role::MercuryFrameRelocations => {
                (SectionType::MERCURY_RELA, flags::MERCURY | flags::INFO_LINK, 8, 24)
            }
            Role::MercuryReservedShared => (SectionType::CUDA_RESERVED_SHARED, flags::MERCURY | flags::WRITE | flags::ALLOC, 1, 0),
            Role::MercurySymbols => (SectionType::MERCURY_SYMTAB, flags::MERCURY, 8, 24),
        };
        SectionShape { section_type, flags, alignment, entry_size }
    }

    /// Returns the Mercury counterpart that represents this section in the Mercury symbol table.
    pub fn mercury(self) -> Role {
        match self {
            Role::Text(k) => Role::Capsule(k),
            Role::Frames => Role::MercuryFrames,
            Role::ReservedShared => Role::MercuryReservedShared,
            other => other,
        }
    }
}
