//! The symbols of a file, in ptxas' order as far as it is known, and their fields.

use object::elf;

use super::assemble::Maker;
use super::roles::Role;
use super::{ExternKind, Home, Linkage, Module, ReservedVariable};
use crate::symbol::{STT_CUDA_OBJECT, Symbol, SymbolSection, other};
use crate::target::LayoutGeneration;

/// A symbol by its purpose. Numbers are indices of functions, variables and so on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum SymbolRole {
    Null,
    Section(Role),
    /// An entry of [`UNIFIED`].
    Unified(usize),
    ReservedOffset,
    ReservedAlias,
    /// An entry of [`Module::reserved_variables`].
    ReservedVariable(usize),
    /// End of the reserved shared memory. Files for Hopper that reserve it have an empty symbol instead.
    ReservedEnd,
    Function(usize),
    /// Function and index of the subroutine in it.
    Subroutine(usize, usize),
    SharedVariable(usize, usize),
    Constant(usize, usize),
    /// The parameters of a kernel, or the area before them if there are none; in relocatable files up to Ada.
    Parameters(usize),
    Variable(usize),
    Extern(usize),
    /// A texture, sampler or surface reference.
    Image(usize),
    /// A kernel, and the index of one of its image parameters.
    ImageParameter(usize, usize),
}

/// Tables of functions and data that the linker may create. Every relocatable file from Hopper on names them.
pub(super) const UNIFIED: [&str; 8] =
    ["__UDT_OFFSET", "__UFT_OFFSET", "__UFT_CANONICAL", "__UDT_CANONICAL", "__UFT", "__UDT", "__UFT_END", "__UDT_END"];

/// Alignment in bytes of the variable that every file of a target has in reserved shared memory.
const RESERVED_ALIGNMENT: u64 = 16;

impl Module {
    /// Returns the symbols of `.symtab`: local and weak symbols are listed with their code, global ones at the end. The Mercury table has
    /// the same symbols without those of parameters.
    pub(super) fn symbols(&self) -> Vec<SymbolRole> {
        use SymbolRole::{Function, Section};
        let early = self.traits.style == LayoutGeneration::Ampere;
        let mut list = vec![SymbolRole::Null];
        if !self.traits.has_old_format() {
            list.extend([Section(Role::ToolNote), Section(Role::CudaNote)]);
        }
        // The end of reserved memory is listed with the first function that uses shared memory.
        let outside = self.variables.iter().any(|variable| variable.home == Home::Shared);
        let dynamic = self.externs.iter().any(|external| external.kind == ExternKind::DynamicShared);
        let sharing = self.sharing().next().or((outside || dynamic).then_some(0));
        for k in self.indices() {
            let function = &self.functions[k];
            list.extend((function.linkage != Linkage::Global).then_some(Function(k)));
            list.push(Section(Role::Text(k)));
            let declares = function.shared.as_ref().is_some_and(|shared| shared.size > 0);
            list.extend(declares.then_some(Section(Role::Shared(k))));
            if k == 0 {
                list.extend(self.module_symbols());
            }
            list.extend((!early && sharing == Some(k)).then_some(SymbolRole::ReservedEnd));
            if let Some(shared) = function.shared.as_ref().filter(|_| self.is_relocatable()) {
                list.extend((0..shared.variables.len()).map(|i| SymbolRole::SharedVariable(k, i)));
            }
            if let Some(constants) = &function.constants {
                list.push(Section(Role::Constants(k)));
                list.extend((0..constants.symbols.len()).map(|i| SymbolRole::Constant(k, i)));
            }
            list.extend(self.subroutines(k, |linkage| linkage != Linkage::Global));
            list.extend((0..function.image_parameters.len()).map(|i| SymbolRole::ImageParameter(k, i)));
            if self.has_early_parameters(k) {
                list.push(Section(Role::Parameters(k)));
                list.extend((early && self.is_relocatable()).then_some(SymbolRole::Parameters(k)));
            }
        }
        if self.functions.is_empty() {
            list.extend(self.module_symbols());
        }
        list.extend((!self.functions.is_empty()).then_some(Section(Role::Frames)));
        list.extend((0..self.debug.len()).map(|i| Section(Role::Debug(i))));
        list.push(Section(Role::CallGraph));
        list.extend(self.prototyped().next().map(|_| Section(Role::Prototypes)));
        list.extend((early && !self.is_relocatable()).then_some(Section(Role::RelocationActions)));
        list.extend(self.visible());
        if !early {
            list.extend(self.kernels().filter(|&k| !self.has_early_parameters(k)).map(|k| Section(Role::Parameters(k))));
        }
        list
    }

    /// Returns the variables in reserved shared memory, with their offsets from its start.
    pub(super) fn reserved(&self) -> Vec<(u64, ReservedVariable)> {
        let own = self.traits.reserved_variable.map(|(name, size)| ReservedVariable { name, size, alignment: RESERVED_ALIGNMENT });
        let mut end = 0_u64;
        let mut place = |variable: ReservedVariable| {
            let offset = end.next_multiple_of(variable.alignment);
            end = offset + variable.size;
            (offset, variable)
        };
        own.into_iter().chain(self.reserved_variables.iter().copied()).map(&mut place).collect()
    }

    /// Returns the number of bytes of the variables in reserved shared memory.
    pub(super) fn reserved_size(&self) -> u64 {
        self.reserved().last().map_or(0, |(offset, variable)| offset + variable.size)
    }

    /// Returns the symbols that every file has and those of variables.
    fn module_symbols(&self) -> Vec<SymbolRole> {
        let mut list = Vec::new();
        if self.traits.style != LayoutGeneration::Ampere {
            list.extend(self.is_relocatable().then(|| (0..UNIFIED.len()).map(SymbolRole::Unified)).into_iter().flatten());
            list.push(SymbolRole::ReservedOffset);
        }
        if self.has_reserved_section() {
            let count = self.reserved().len();
            list.extend((count > 0).then_some(SymbolRole::Section(Role::ReservedShared)));
            list.extend((!self.is_relocatable()).then_some(SymbolRole::ReservedAlias));
            list.extend((0..count).map(SymbolRole::ReservedVariable));
        }
        list.extend(self.externs_where(|kind| kind == ExternKind::DriverNumber));
        list.extend(self.declarations());
        list
    }

    /// Returns the external symbols of some kinds.
    fn externs_where(&self, wanted: fn(ExternKind) -> bool) -> impl Iterator<Item = SymbolRole> {
        self.externs.iter().enumerate().filter(move |(_, external)| wanted(external.kind)).map(|(i, _)| SymbolRole::Extern(i))
    }

    /// Returns the subroutines of function `k` with the wanted linkage.
    fn subroutines(&self, k: usize, wanted: fn(Linkage) -> bool) -> impl Iterator<Item = SymbolRole> {
        let all = self.functions[k].subroutines.iter().enumerate();
        all.filter(move |(_, subroutine)| wanted(subroutine.linkage)).map(move |(i, _)| SymbolRole::Subroutine(k, i))
    }

    /// Returns the global symbols: functions, with the variables after the first of them, then external symbols.
    pub(super) fn visible(&self) -> Vec<SymbolRole> {
        let variables = self.variables.iter().enumerate().filter(|(_, variable)| variable.linkage == Linkage::Global);
        let mut variables = variables.map(|(v, _)| SymbolRole::Variable(v)).collect();
        let mut list = Vec::new();
        for k in self.indices() {
            list.extend((self.functions[k].linkage == Linkage::Global).then_some(SymbolRole::Function(k)));
            list.append(&mut variables);
        }
        list.append(&mut variables);
        list.extend(self.externs_where(|kind| kind != ExternKind::DriverNumber));
        list.extend((0..self.images.len()).map(SymbolRole::Image));
        list.extend(self.indices().flat_map(|k| self.subroutines(k, |linkage| linkage == Linkage::Global)));
        list
    }
}

impl Linkage {
    fn binding(self) -> u8 {
        match self {
            Linkage::Local => elf::STB_LOCAL,
            Linkage::Global => elf::STB_GLOBAL,
            Linkage::Weak => elf::STB_WEAK,
        }
    }
}

impl Maker<'_> {
    /// Returns the index of the last local symbol plus one.
    pub(super) fn locals(&self, symbols: &[SymbolRole]) -> u32 {
        let is_local = |&role: &SymbolRole| self.symbol(role).binding == elf::STB_LOCAL;
        symbols.iter().rposition(is_local).map_or(0, |last| last as u32 + 1)
    }

    /// Returns the symbol for a role.
    pub(super) fn symbol(&self, role: SymbolRole) -> Symbol {
        let style = self.module.traits.style;
        let defined = |role| SymbolSection::Section(self.index(role));
        let name = || self.module.symbol_name(role);
        let weak = |symbol_type, section| Symbol::new(name(), elf::STB_WEAK, symbol_type, section);
        let local = |section, memory| Symbol { other: memory, ..Symbol::new(name(), elf::STB_LOCAL, STT_CUDA_OBJECT, section) };
        match role {
            SymbolRole::Null => Symbol::new("", elf::STB_LOCAL, elf::STT_NOTYPE, SymbolSection::Undefined),
            SymbolRole::Section(section) => Symbol::for_section(name(), self.index(section)),
            SymbolRole::Unified(_) => Symbol { size: 8, ..weak(elf::STT_OBJECT, SymbolSection::Undefined) },
            SymbolRole::ReservedOffset => {
                Symbol { value: style.reserved_offset(), size: 4, ..weak(elf::STT_OBJECT, SymbolSection::Undefined) }
            }
            SymbolRole::ReservedAlias => {
                let symbol = weak(elf::STT_NOTYPE, defined(Role::ReservedShared));
                Symbol { value: style.reserved_offset(), other: other::RESERVED_SHARED, ..symbol }
            }
            SymbolRole::ReservedVariable(i) => {
                let (offset, ReservedVariable { size, alignment, .. }) = self.module.reserved()[i];
                if self.module.is_relocatable() {
                    let symbol = weak(STT_CUDA_OBJECT, defined(Role::ReservedShared));
                    Symbol { value: alignment, size, other: other::RESERVED_SHARED, ..symbol }
                } else {
                    let symbol = weak(elf::STT_OBJECT, defined(Role::ReservedShared));
                    Symbol { value: style.reserved_offset() + offset, size, ..symbol }
                }
            }
            SymbolRole::ReservedEnd if style == LayoutGeneration::Hopper && !self.module.without_shared_reservation => {
                let symbol = Symbol::new("", elf::STB_LOCAL, elf::STT_NOTYPE, SymbolSection::Undefined);
                Symbol { other: other::NULL_MARK, ..symbol }
            }
            SymbolRole::ReservedEnd => {
                Symbol { value: style.reserved_shared(), size: 4, ..weak(elf::STT_OBJECT, SymbolSection::Undefined) }
            }
            SymbolRole::Variable(v) => self.variable_symbol(v),
            SymbolRole::Extern(i) => self.extern_symbol(i),
            SymbolRole::Image(i) => {
                let kind = self.module.images[i].kind;
                Symbol::new(name(), elf::STB_GLOBAL, kind.symbol_type(), SymbolSection::Undefined)
            }
            SymbolRole::ImageParameter(k, i) => {
                let kind = self.module.functions[k].image_parameters[i].kind;
                Symbol::new(name(), elf::STB_LOCAL, kind.symbol_type(), defined(Role::Text(k)))
            }
            SymbolRole::Function(k) => {
                let function = &self.module.functions[k];
                let symbol = Symbol::new(name(), function.linkage.binding(), elf::STT_FUNC, defined(Role::Text(k)));
                Symbol { size: function.code.len() as u64, other: if function.is_kernel { other::ENTRY } else { 0 }, ..symbol }
            }
            SymbolRole::Subroutine(k, i) => {
                let subroutine = &self.module.functions[k].subroutines[i];
                let symbol = Symbol::new(name(), subroutine.linkage.binding(), elf::STT_FUNC, defined(Role::Text(k)));
                Symbol { value: subroutine.offset, size: subroutine.size, ..symbol }
            }
            SymbolRole::SharedVariable(k, i) => {
                let (size, alignment) = self.module.functions[k]
                    .shared
                    .as_ref()
                    .map_or((0, 1), |shared| (shared.variables[i].size, shared.variables[i].alignment));
                Symbol { value: alignment, size, ..local(defined(Role::Shared(k)), other::SHARED) }
            }
            SymbolRole::Constant(k, i) => {
                let (value, size) = self.module.functions[k]
                    .constants
                    .as_ref()
                    .map_or((0, 0), |constants| (constants.symbols[i].1, constants.symbols[i].2));
                Symbol { value, size, ..local(defined(Role::Constants(k)), other::CONSTANT | other::INTERNAL) }
            }
            SymbolRole::Parameters(k) => {
                let function = &self.module.functions[k];
                let (base, size) = (u64::from(style.parameter_base(function.has_large_parameters)), u64::from(function.parameter_bytes));
                let (value, size) = if size == 0 { (0, base) } else { (base, size) };
                Symbol { value, size, ..local(defined(Role::Parameters(k)), other::CONSTANT | other::INTERNAL) }
            }
        }
    }

    /// Returns the symbol of a variable. In relocatable files, the symbol type says that `st_other` holds the memory. The value of a
    /// variable that the linker places is its alignment.
    fn variable_symbol(&self, v: usize) -> Symbol {
        let variable = &self.module.variables[v];
        let section = match variable.home.role() {
            Some(role) => SymbolSection::Section(self.index(role)),
            None => SymbolSection::Reserved(elf::SHN_COMMON),
        };
        let memory = match variable.home {
            Home::Zero | Home::Initialized(_) | Home::Common => other::GLOBAL,
            Home::Constant(_) => other::CONSTANT,
            Home::Shared => other::SHARED,
        };
        let value = match variable.home {
            Home::Shared | Home::Common => variable.alignment,
            _ => variable.offset,
        };
        let managed = if variable.is_managed { other::MANAGED } else { 0 };
        let (symbol_type, memory) = self.object_type(memory);
        let symbol = Symbol::new(&variable.name, variable.linkage.binding(), symbol_type, section);
        Symbol { value, size: variable.size, other: memory | managed, ..symbol }
    }

    /// Returns the symbol of an external function or variable.
    fn extern_symbol(&self, i: usize) -> Symbol {
        let external = &self.module.externs[i];
        let (memory, size) = match external.kind {
            ExternKind::Function | ExternKind::Kernel => {
                let entry = if external.kind == ExternKind::Kernel { other::ENTRY } else { 0 };
                let symbol = Symbol::new(&external.name, elf::STB_GLOBAL, elf::STT_FUNC, SymbolSection::Undefined);
                return Symbol { other: entry, ..symbol };
            }
            ExternKind::Global(size) => (other::GLOBAL, size),
            ExternKind::Constant(size) => (other::CONSTANT, size),
            ExternKind::DynamicShared => (other::SHARED, 0),
            ExternKind::DriverNumber => {
                let symbol = Symbol::new(&external.name, elf::STB_WEAK, elf::STT_OBJECT, SymbolSection::Undefined);
                return Symbol { size: 4, ..symbol };
            }
        };
        let (symbol_type, other) = self.object_type(memory);
        Symbol { size, other, ..Symbol::new(&external.name, elf::STB_GLOBAL, symbol_type, SymbolSection::Undefined) }
    }

    /// Returns the type of a variable's symbol, and the bits of `st_other` for its memory.
    fn object_type(&self, memory: u8) -> (u8, u8) {
        if self.module.is_relocatable() { (STT_CUDA_OBJECT, memory) } else { (elf::STT_OBJECT, 0) }
    }

    /// Returns the symbols of the Mercury table.
    pub(super) fn mercury_symbols(&self) -> Vec<SymbolRole> {
        let in_both = |role: &&SymbolRole| !matches!(role, SymbolRole::Section(Role::Parameters(_)));
        self.symbols.iter().filter(in_both).copied().collect()
    }

    /// Returns the same symbol for the Mercury table: in the Mercury section, with value 0.
    pub(super) fn mercury_symbol(&self, role: SymbolRole) -> Symbol {
        let mut symbol = self.symbol(role);
        symbol.value = 0;
        let section = match role {
            SymbolRole::Section(section) => Some(section.mercury()),
            SymbolRole::ReservedAlias => Some(Role::MercuryReservedShared),
            SymbolRole::ReservedVariable(_) => {
                (symbol.symbol_type, symbol.other) = (STT_CUDA_OBJECT, other::RESERVED_SHARED);
                Some(Role::MercuryReservedShared)
            }
            SymbolRole::Function(k) => {
                symbol.size = self.module.functions[k].capsule.as_ref().map_or(0, |capsule| capsule.size);
                Some(Role::Capsule(k))
            }
            _ => None,
        };
        if let Some(section) = section {
            symbol.section = SymbolSection::Section(self.index(section));
        }
        symbol
    }
}
