//! Prints the module header, variables, initial values and debug sections.

use super::{Printer, operand::constant_text};
use crate::ast::{
    Attribute, DwarfItem, DwarfSection, Initializer, Item, Linkage, PointerTarget, TextureMode, Variable, VariableId, VariableType,
};
use crate::target::PtxVersion;
use crate::types::{ScalarType, StateSpace};

/// Returns a linking directive followed by a space; empty for internal linkage.
pub(super) fn linkage_text(linkage: Linkage) -> &'static str {
    match linkage {
        Linkage::Internal => "",
        Linkage::Extern => ".extern ",
        Linkage::Visible => ".visible ",
        Linkage::Weak => ".weak ",
        Linkage::Common => ".common ",
    }
}

/// Returns the type of a texture, sampler or surface preceded by a space; empty for other types.
fn opaque_spelling(ty: VariableType) -> &'static str {
    match ty {
        VariableType::Texture => " .texref",
        VariableType::Sampler => " .samplerref",
        VariableType::Surface => " .surfref",
        VariableType::Scalar(_) => "",
    }
}

impl<'m> Printer<'m> {
    pub(super) fn header(&mut self) {
        let module = self.module;
        self.value(format_args!(".version {}\n.target {}", module.version, module.target));
        let options = module.options;
        match options.texture_mode {
            Some(TextureMode::Unified) => self.put(", texmode_unified"),
            Some(TextureMode::Independent) => self.put(", texmode_independent"),
            None => {}
        }
        if options.debug {
            self.put(", debug");
        }
        if options.map_f64_to_f32 {
            self.put(", map_f64_to_f32");
        }
        self.put("\n");
        if let Some(size) = module.address_size {
            self.value(format_args!(".address_size {size}\n"));
        }
    }

    /// Prints all items at module scope.
    pub(super) fn items(&mut self) {
        let module = self.module;
        for item in &module.items {
            match item {
                Item::Variable(variable) => self.variable(*variable),
                Item::Function(function) => {
                    self.put("\n");
                    self.function(*function);
                }
                Item::Alias(alias) => self.alias(alias),
                Item::File { index, name, stamp } => {
                    self.value(format_args!(".file {index} \"{name}\""));
                    if let Some((time, size)) = stamp {
                        self.value(format_args!(", {time}, {size}"));
                    }
                    self.put("\n");
                }
                Item::Section(section) => self.section(section),
                Item::Dwarf(line) => {
                    self.put(line);
                    self.put("\n");
                }
                Item::Pragma(strings) => self.pragma(strings),
            }
        }
    }

    pub(super) fn pragma(&mut self, strings: &[Box<str>]) {
        self.put(".pragma ");
        self.commas(strings, |printer, string| printer.value(format_args!("\"{string}\"")));
        self.put(";\n");
    }

    pub(super) fn alias(&mut self, alias: &crate::ast::Alias) {
        self.put(".alias ");
        self.name(alias.name);
        self.put(", ");
        self.name(alias.target);
        self.put(";\n");
    }

    /// Prints the declaration of a variable as a statement, with its initial value.
    pub(super) fn variable(&mut self, id: VariableId) {
        let module = self.module;
        let variable = &module.variables[id];
        self.declaration(variable);
        if let Some(initializer) = &variable.initializer {
            self.put(" = ");
            self.initializer(initializer);
        }
        self.put(";\n");
    }

    /// Prints the declaration of a variable or parameter, without initial value and `;`.
    pub(super) fn declaration(&mut self, variable: &Variable) {
        self.put(linkage_text(variable.linkage));
        // The types of textures came with PTX 1.5.
        let is_old_texture = variable.ty == VariableType::Texture && self.module.version < PtxVersion::new(1, 5);
        self.put(if is_old_texture { StateSpace::Tex } else { variable.space }.spelling());
        self.attributes(&variable.attributes);
        if let Some(align) = variable.align {
            self.value(format_args!(" .align {align}"));
        }
        match variable.ty {
            VariableType::Scalar(ty) => self.vector_type(variable.lanes, ty),
            _ if is_old_texture => self.put(" .u64"),
            opaque => self.put(opaque_spelling(opaque)),
        }
        if let Some(pointer) = variable.pointer {
            self.put(" .ptr");
            match pointer.target {
                Some(PointerTarget::Space(space)) => self.value(format_args!(" {}", space.spelling())),
                Some(PointerTarget::Opaque(ty)) => self.put(opaque_spelling(ty)),
                None => {}
            }
            if let Some(align) = pointer.align {
                self.value(format_args!(" .align {align}"));
            }
        }
        self.put(" ");
        self.name(variable.name);
        if let Some(count) = variable.count {
            self.value(format_args!("<{count}>"));
        }
        for dimension in &variable.dimensions {
            match dimension {
                Some(size) => self.value(format_args!("[{size}]")),
                None => self.put("[]"),
            }
        }
    }

    /// Prints a type such as ` .v2 .f32`, with a leading space.
    pub(super) fn vector_type(&mut self, lanes: u8, ty: ScalarType) {
        if lanes > 1 {
            self.value(format_args!(" .v{lanes}"));
        }
        self.value(format_args!(" .{}", ty.spelling()));
    }

    /// Prints ` .attribute(.managed)`, with a leading space; nothing if there are no attributes.
    pub(super) fn attributes(&mut self, attributes: &[Attribute]) {
        if attributes.is_empty() {
            return;
        }
        self.put(" .attribute(");
        self.commas(attributes, |printer, attribute| match attribute {
            Attribute::Managed => printer.put(".managed"),
            Attribute::Unified(upper, lower) => printer.value(format_args!(".unified({upper}, {lower})")),
        });
        self.put(")");
    }

    /// Prints an initial value.
    fn initializer(&mut self, initializer: &Initializer) {
        match initializer {
            Initializer::Constant(constant) => self.put(&constant_text(*constant)),
            Initializer::List(values) => {
                self.put("{");
                self.commas(values, Self::initializer);
                self.put("}");
            }
            Initializer::Address { symbol, offset, generic, mask } => {
                if let Some(mask) = mask {
                    self.value(format_args!("{mask:#x}("));
                }
                self.put(if *generic { "generic(" } else { "" });
                self.name(*symbol);
                self.put(if *generic { ")" } else { "" });
                if *offset != 0 {
                    self.value(format_args!("+{offset}"));
                }
                self.put(if mask.is_some() { ")" } else { "" });
            }
            Initializer::MaskedNumber { mask, value } => self.value(format_args!("{mask:#x}({value})")),
            Initializer::Opaque(fields) => {
                self.put("{");
                self.commas(fields, |printer, field| {
                    printer.name(field.name);
                    printer.put(" = ");
                    match field.value {
                        Ok(number) => printer.value(number),
                        Err(name) => printer.name(name),
                    }
                });
                self.put("}");
            }
        }
    }

    fn section(&mut self, section: &DwarfSection) {
        self.value(format_args!(".section {}\n{{\n", section.name));
        let mut data = section.data.as_slice();
        for item in &section.items {
            if let DwarfItem::Integers(bytes, count) = item {
                let (numbers, rest) = data.split_at(usize::from(*bytes) * *count as usize);
                self.dwarf_numbers(usize::from(*bytes), numbers);
                data = rest;
                continue;
            }
            self.dwarf_item(item);
            self.put("\n");
        }
        self.put("}\n");
    }

    /// Prints numbers of `bytes` bytes each, sixteen per line.
    fn dwarf_numbers(&mut self, bytes: usize, numbers: &[u8]) {
        const PER_LINE: usize = 16;
        for line in numbers.chunks(bytes * PER_LINE) {
            self.value(format_args!("\t.b{} ", bytes * 8));
            let values: Vec<u64> =
                line.chunks(bytes).map(|number| number.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))).collect();
            self.commas(&values, Printer::value);
            self.put("\n");
        }
    }

    fn dwarf_item(&mut self, item: &DwarfItem) {
        match item {
            DwarfItem::Label(name) => {
                self.name(*name);
                self.put(":");
            }
            DwarfItem::Integers(..) => {}
            DwarfItem::Label64(bytes, name, offset) => {
                self.value(format_args!("\t.b{} ", bytes * 8));
                self.name(*name);
                if *offset != 0 {
                    self.value(format_args!("+{}", *offset as u64));
                }
            }
            DwarfItem::Difference(bytes, first, second) => {
                self.value(format_args!("\t.b{} ", bytes * 8));
                self.name(*first);
                self.put("-");
                self.name(*second);
            }
        }
    }
}
