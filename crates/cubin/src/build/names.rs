//! Names of sections and symbols, and the string tables.
//!
//! ptxas' tables list names in the order in which its linker came across them, also of sections that stayed empty and
//! were left out. Names of capsules that Hopper's files do not have leave their room behind, as zeros.

use super::Module;
use super::roles::{Role, SymbolRole};
use crate::strings::StringTable;
use crate::target::Style;

/// Names of the symbols for reserved shared memory.
const RESERVED_OFFSET: &str = ".nv.reservedSmem.offset0";
const RESERVED_ALIAS: &str = "__nv_reservedSMEM_offset_0_alias";
const RESERVED_END: &str = ".nv.reservedSmem.cap";

/// What both tables start and go on with.
const HEAD: [&str; 7] = [".shstrtab", ".strtab", ".symtab", ".symtab_shndx", ".note.nv.tkinfo", ".note.nv.cuinfo", ".nv.info"];
const TAIL: [&str; 5] = [".debug_frame", ".rel.debug_frame", ".rela.debug_frame", ".nv.callgraph", ".nv.prototype"];

impl Module {
    pub(super) fn section_name(&self, role: Role) -> String {
        let kernel = |k: usize| &self.kernels[k].name;
        let fixed = match role {
            Role::Null => "",
            Role::SectionNames => ".shstrtab",
            Role::Strings => ".strtab",
            Role::Symbols => ".symtab",
            Role::Frames => ".debug_frame",
            Role::ToolNote => ".note.nv.tkinfo",
            Role::CudaNote => ".note.nv.cuinfo",
            Role::Info => ".nv.info",
            Role::Compat => ".nv.compat",
            Role::CallGraph => ".nv.callgraph",
            Role::RelocationActions => ".nv.rel.action",
            Role::FrameRelocations if self.target.style == Style::Ampere => ".rel.debug_frame",
            Role::FrameRelocations => ".rela.debug_frame",
            Role::ReservedShared => ".nv.shared.reserved.0",
            Role::ZeroVariables => ".nv.global",
            Role::InitializedVariables => ".nv.global.init",
            Role::ConstantVariables => ".nv.constant3",
            Role::Addresses => ".nv.constant4",
            Role::AddressRelocations if self.target.style == Style::Ampere => ".rel.nv.constant4",
            Role::AddressRelocations => ".rela.nv.constant4",
            Role::MercuryFrames => ".nv.merc.debug_frame",
            Role::MercuryInfo => ".nv.merc.nv.info",
            Role::MercuryFrameRelocations => ".nv.merc.rela.debug_frame",
            Role::MercuryReservedShared => ".nv.merc.nv.shared.reserved.0",
            Role::MercurySymbols => ".nv.merc.symtab",
            Role::KernelInfo(k) => return format!(".nv.info.{}", kernel(k)),
            Role::TextRelocations(k) => return format!(".rela.text.{}", kernel(k)),
            Role::Constants(k) => return format!(".nv.constant0.{}", kernel(k)),
            Role::Text(k) => return format!(".text.{}", kernel(k)),
            Role::Shared(k) => return format!(".nv.shared.{}", kernel(k)),
            Role::Capsule(k) => return format!(".nv.capmerc.text.{}", kernel(k)),
            Role::MercuryKernelInfo(k) => return format!(".nv.merc.nv.info.{}", kernel(k)),
            Role::MercuryTextRelocations(k) => return format!(".nv.merc.rela.text.{}", kernel(k)),
        };
        fixed.to_owned()
    }

    pub(super) fn symbol_name(&self, role: SymbolRole) -> String {
        match role {
            SymbolRole::Null => String::new(),
            SymbolRole::Section(role) => self.section_name(role),
            SymbolRole::ReservedOffset => RESERVED_OFFSET.into(),
            SymbolRole::ReservedAlias => RESERVED_ALIAS.into(),
            SymbolRole::ReservedVariable => self.target.reserved_variable.map_or("", |(name, _)| name).into(),
            SymbolRole::ReservedEnd if self.target.style == Style::Hopper => String::new(),
            SymbolRole::ReservedEnd => RESERVED_END.into(),
            SymbolRole::Function(k) => self.kernels[k].name.clone(),
            SymbolRole::Variable(v) => self.variables[v].name.clone(),
        }
    }

    /// `.shstrtab`
    pub(super) fn section_names(&self) -> StringTable {
        let mut table = self.table(Table::Sections);
        if self.target.style != Style::Ampere {
            self.push_all(&mut table, Role::Constants);
        }
        if self.has_mercury() {
            for role in self.sections() {
                let shape = role.shape(self.target.style);
                if shape.flags & crate::section::flags::MERCURY != 0 {
                    table.push(&self.section_name(role));
                }
            }
        }
        table
    }

    /// `.strtab`
    pub(super) fn strings(&self) -> StringTable {
        let mut table = self.table(Table::Symbols);
        for role in self.visible() {
            table.push(&self.symbol_name(role));
        }
        if self.target.style != Style::Ampere {
            self.push_all(&mut table, Role::Constants);
        }
        table
    }

    fn push_all(&self, table: &mut StringTable, role: fn(usize) -> Role) {
        for k in 0..self.kernels.len() {
            table.push(&self.section_name(role(k)));
        }
    }

    fn table(&self, kind: Table) -> StringTable {
        let mut table = StringTable::new();
        let early = self.target.style == Style::Ampere;
        let mut push = |name: &str| table.push(name);
        HEAD.into_iter().for_each(&mut push);
        if !early {
            push(".nv.compat");
        }
        let first_sharing = self.kernels.iter().position(|kernel| kernel.shared.is_some());
        for (k, kernel) in self.kernels.iter().enumerate() {
            let name = &kernel.name;
            if kernel.is_weak && kind == Table::Symbols {
                push(name);
            }
            [Role::Text(k), Role::KernelInfo(k), Role::Shared(k)].into_iter().for_each(|role| push(&self.section_name(role)));
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
                match self.target.style {
                    Style::Hopper => push(&"\0".repeat(RESERVED_END.len())),
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

    fn reserved_names(&self, kind: Table, push: &mut impl FnMut(&str)) {
        if kind == Table::Sections {
            return push(".nv.shared.reserved.0");
        }
        push(RESERVED_OFFSET);
        push(".nv.shared.reserved.0");
        push(RESERVED_ALIAS);
        if let Some((name, _)) = self.target.reserved_variable {
            push(name);
        }
    }

    /// Sections and symbols of variables. On Hopper the numbered banks stand over longer names of an earlier stage.
    fn declared_names(&self, kind: Table, push: &mut impl FnMut(&str)) {
        let late = self.target.style != Style::Ampere;
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

    fn address_names(&self, kind: Table, push: &mut impl FnMut(&str)) {
        if self.target.style == Style::Ampere {
            return push(".rel.nv.constant4");
        }
        push(".rel.nv.constant.pic");
        match kind {
            Table::Sections => push(&over(".rela.nv.constant.pic", ".rela.nv.constant4")),
            Table::Symbols => push(".rela.nv.constant.pic"),
        }
    }

    /// Zeros behind `.shstrtab`.
    pub(super) fn room_for_names(&self) -> usize {
        match self.target.style {
            Style::Ampere => 0,
            Style::Hopper => 14 + self.kernels.iter().map(|kernel| ".nv.capmerc.text.".len() + kernel.name.len() + 1).sum::<usize>(),
            Style::Blackwell => 36,
        }
    }
}

/// A shorter name in the place of a longer one.
fn over(longer: &str, name: &str) -> String {
    format!("{name}{}", "\0".repeat(longer.len().saturating_sub(name.len())))
}

/// Which of the two tables.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Table {
    Sections,
    Symbols,
}
