//! Names of sections and symbols, and the string tables.
//!
//! ptxas' tables list names in the order in which its linker found them, including the names of sections that stayed empty and were
//! dropped. In files for Hopper, the space for the names of Mercury capsules remains as zeros. This is reproduced for executable files of
//! kernels without calls. Other files get only the names that they need, in the order of use, after the prototypes, which other sections
//! refer to by offset.

use super::roles::{Addends, Role};
use super::symbols::{SymbolRole, UNIFIED};
use super::{Function, Linkage, Module, Variable};
use crate::strings::StringTable;
use crate::target::LayoutGeneration;

/// Names of the symbols for reserved shared memory.
const RESERVED_OFFSET: &str = ".nv.reservedSmem.offset0";
const RESERVED_ALIAS: &str = "__nv_reservedSMEM_offset_0_alias";
const RESERVED_END: &str = ".nv.reservedSmem.cap";

/// The first names of both tables.
const HEAD: [&str; 7] = [".shstrtab", ".strtab", ".symtab", ".symtab_shndx", ".note.nv.tkinfo", ".note.nv.cuinfo", ".nv.info"];
/// The names after those of the functions.
const TAIL: [&str; 5] = [".debug_frame", ".rel.debug_frame", ".rela.debug_frame", ".nv.callgraph", ".nv.prototype"];

impl Module {
    /// Returns the name of a section.
    pub(super) fn section_name(&self, role: Role) -> String {
        let function = |k: usize| &self.functions[k].name;
        let fixed = match role {
            Role::Null => "",
            Role::SectionNames => ".shstrtab",
            Role::Strings => ".strtab",
            Role::Symbols => ".symtab",
            Role::Frames => ".debug_frame",
            Role::Debug(i) => return self.debug[i].name.clone(),
            Role::ToolNote => ".note.nv.tkinfo",
            Role::CudaNote => ".note.nv.cuinfo",
            Role::Info => ".nv.info",
            Role::Compat => ".nv.compat",
            Role::CallGraph => ".nv.callgraph",
            Role::RelocationActions => ".nv.rel.action",
            Role::Prototypes => ".nv.prototype",
            Role::SharedVariables => ".nv_debug.shared",
            Role::Relocations(patched, Addends::Zero) => return format!(".rel{}", self.section_name(patched.role())),
            Role::Relocations(patched, Addends::Explicit) => return format!(".rela{}", self.section_name(patched.role())),
            Role::ReservedShared => ".nv.shared.reserved.0",
            Role::ZeroVariables => ".nv.global",
            Role::InitializedVariables => ".nv.global.init",
            Role::ConstantVariables => ".nv.constant3",
            Role::Addresses => ".nv.constant4",
            Role::MercuryFrames => ".nv.merc.debug_frame",
            Role::MercuryInfo => ".nv.merc.nv.info",
            Role::MercuryFrameRelocations => ".nv.merc.rela.debug_frame",
            Role::MercuryReservedShared => ".nv.merc.nv.shared.reserved.0",
            Role::MercurySymbols => ".nv.merc.symtab",
            Role::FunctionInfo(k) => return format!(".nv.info.{}", function(k)),
            Role::Parameters(k) => return format!(".nv.constant0.{}", function(k)),
            Role::Constants(k) => return format!(".nv.constant2.{}", function(k)),
            Role::Text(k) => return format!(".text.{}", function(k)),
            Role::Shared(k) => return format!(".nv.shared.{}", function(k)),
            Role::Capsule(k) => return format!(".nv.capmerc.text.{}", function(k)),
            Role::MercuryFunctionInfo(k) => return format!(".nv.merc.nv.info.{}", function(k)),
            Role::MercuryTextRelocations(k) => return format!(".nv.merc.rela.text.{}", function(k)),
        };
        fixed.to_owned()
    }

    /// Returns the name of a symbol.
    pub(super) fn symbol_name(&self, role: SymbolRole) -> String {
        match role {
            SymbolRole::Null => String::new(),
            SymbolRole::Section(role) => self.section_name(role),
            SymbolRole::ReservedOffset => RESERVED_OFFSET.into(),
            SymbolRole::ReservedAlias => RESERVED_ALIAS.into(),
            SymbolRole::ReservedVariable(i) => self.reserved()[i].1.name.into(),
            SymbolRole::ReservedEnd if self.traits.style == LayoutGeneration::Hopper => String::new(),
            SymbolRole::ReservedEnd => RESERVED_END.into(),
            SymbolRole::Unified(i) => UNIFIED[i].into(),
            SymbolRole::Function(k) => self.functions[k].name.clone(),
            SymbolRole::Subroutine(k, i) => self.functions[k].subroutines[i].name.clone(),
            SymbolRole::SharedVariable(k, i) => {
                self.functions[k].shared.as_ref().map_or(String::new(), |shared| shared.variables[i].name.clone())
            }
            SymbolRole::Constant(k, i) => {
                self.functions[k].constants.as_ref().map_or(String::new(), |constants| constants.symbols[i].0.clone())
            }
            SymbolRole::Parameters(k) if self.functions[k].parameter_bytes == 0 => "_SREG".into(),
            SymbolRole::Parameters(_) => "_param".into(),
            SymbolRole::Variable(v) => self.variables[v].name.clone(),
            SymbolRole::Extern(i) => self.externs[i].name.clone(),
            SymbolRole::Image(i) => self.images[i].name.clone(),
            SymbolRole::ImageParameter(k, i) => self.functions[k].image_parameters[i].name.clone(),
        }
    }

    /// Returns whether the file has only kernels without calls, and variables, so that the order of ptxas' names is known.
    fn is_plain(&self) -> bool {
        let only_kernel = |function: &Function| {
            let nothing_called = function.calls.is_empty() && function.subroutines.is_empty() && function.indirect_calls.is_empty();
            function.is_kernel && nothing_called && function.relocations.is_empty() && function.constants.is_none()
        };
        let plain = |variable: &Variable| variable.relocations.is_empty() && variable.linkage != Linkage::Weak;
        let nothing_else = self.externs.is_empty() && self.debug.is_empty() && self.images.is_empty() && !self.has_image_words();
        !self.is_relocatable() && nothing_else && self.functions.iter().all(only_kernel) && self.variables.iter().all(plain)
    }

    /// Returns a string table with the prototypes.
    fn prototype_table(&self) -> StringTable {
        let mut table = StringTable::new();
        self.prototypes().into_iter().for_each(|text| table.push(text));
        table
    }

    /// Returns the content of `.shstrtab`.
    pub(super) fn section_names(&self, sections: &[Role]) -> StringTable {
        if !self.is_plain() {
            return StringTable::new();
        }
        let mut table = self.table(Table::Sections);
        if self.traits.style != LayoutGeneration::Ampere {
            self.push_all(&mut table, Role::Parameters);
        }
        if self.has_mercury() {
            for &role in sections {
                let shape = role.shape(self.traits.style, self.is_relocatable());
                if shape.flags & crate::section::flags::MERCURY != 0 {
                    table.push(&self.section_name(role));
                }
            }
        }
        table
    }

    /// Returns the content of `.strtab`.
    pub(super) fn strings(&self) -> StringTable {
        if !self.is_plain() {
            return self.prototype_table();
        }
        let mut table = self.table(Table::Symbols);
        for role in self.visible() {
            table.push(&self.symbol_name(role));
        }
        if self.traits.style != LayoutGeneration::Ampere {
            self.push_all(&mut table, Role::Parameters);
        }
        table
    }

    /// Appends the names of one section of every function.
    fn push_all(&self, table: &mut StringTable, role: fn(usize) -> Role) {
        for k in 0..self.functions.len() {
            table.push(&self.section_name(role(k)));
        }
    }

    /// Returns the common part of both tables, in ptxas' order.
    fn table(&self, kind: Table) -> StringTable {
        let mut table = StringTable::new();
        let early = self.traits.style == LayoutGeneration::Ampere;
        let mut push = |name: &str| table.push(name);
        let has_notes = !self.traits.has_old_format();
        HEAD.into_iter().filter(|name| has_notes || !name.starts_with(".note")).for_each(&mut push);
        if !early {
            push(".nv.compat");
        }
        let first_sharing = self.functions.iter().position(|kernel| kernel.shared.is_some());
        for (k, kernel) in self.functions.iter().enumerate() {
            let name = &kernel.name;
            if kernel.linkage == Linkage::Weak && kind == Table::Symbols {
                push(name);
            }
            [Role::Text(k), Role::FunctionInfo(k), Role::Shared(k)].into_iter().for_each(|role| push(&self.section_name(role)));
            if early {
                if k == 0 {
                    self.declared_names(kind, &mut push);
                }
                let names = [format!(".nv.constant0.{name}"), format!(".rel.nv.constant0.{name}")];
                match kind {
                    Table::Sections => names.iter().for_each(|name| push(name)),
                    Table::Symbols => names.iter().rev().for_each(|name| push(name)),
                }
                continue;
            }
            if k == 0 {
                self.reserved_names(kind, &mut push);
                self.declared_names(kind, &mut push);
            }
            if first_sharing == Some(k) && kind == Table::Symbols {
                match self.traits.style {
                    LayoutGeneration::Hopper if !self.without_shared_reservation => push(&"\0".repeat(RESERVED_END.len())),
                    _ => push(RESERVED_END),
                }
            }
            if kernel.had_relocations {
                push(&format!(".rel.text.{name}"));
                push(&format!(".rela.text.{name}"));
            }
        }
        for name in TAIL {
            push(name);
            if name == ".debug_frame" && !self.addresses.is_empty() {
                self.address_names(kind, &mut push);
            }
        }
        if early {
            push(".nv.rel.action");
        }
        table
    }

    /// Appends the names for reserved shared memory.
    fn reserved_names(&self, kind: Table, push: &mut impl FnMut(&str)) {
        if kind == Table::Sections {
            return push(".nv.shared.reserved.0");
        }
        push(RESERVED_OFFSET);
        push(".nv.shared.reserved.0");
        push(RESERVED_ALIAS);
        self.reserved().iter().for_each(|(_, variable)| push(variable.name));
    }

    /// Appends the names of sections and symbols of variables. From Hopper on, the names of numbered banks overwrite longer names of an
    /// earlier stage.
    fn declared_names(&self, kind: Table, push: &mut impl FnMut(&str)) {
        let late = self.traits.style != LayoutGeneration::Ampere;
        for role in self.declarations() {
            let name = self.symbol_name(role);
            match role {
                SymbolRole::Section(Role::Addresses) if late => push(&over(".nv.constant.pic", &name)),
                SymbolRole::Section(Role::ConstantVariables) if late => push(&over(".nv.constant.user", &name)),
                SymbolRole::Section(_) => push(&name),
                _ if kind == Table::Symbols => push(&name),
                _ => {}
            }
        }
    }

    /// Appends the names of the relocation sections for constant bank 4.
    fn address_names(&self, kind: Table, push: &mut impl FnMut(&str)) {
        if self.traits.style == LayoutGeneration::Ampere {
            return push(".rel.nv.constant4");
        }
        push(".rel.nv.constant.pic");
        match kind {
            Table::Sections => push(&over(".rela.nv.constant.pic", ".rela.nv.constant4")),
            Table::Symbols => push(".rela.nv.constant.pic"),
        }
    }

    /// Returns the number of zero bytes after `.shstrtab`.
    pub(super) fn room_for_names(&self) -> usize {
        match self.traits.style {
            _ if !self.is_plain() => 0,
            LayoutGeneration::Ampere => 0,
            LayoutGeneration::Hopper => {
                14 + self.functions.iter().map(|kernel| ".nv.capmerc.text.".len() + kernel.name.len() + 1).sum::<usize>()
            }
            LayoutGeneration::Blackwell => 36,
        }
    }
}

/// Returns a name padded with zeros to the length of the longer name that it overwrites.
fn over(longer: &str, name: &str) -> String {
    format!("{name}{}", "\0".repeat(longer.len().saturating_sub(name.len())))
}

/// One of the two string tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Sections,
    Symbols,
}
