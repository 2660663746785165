//! Edits of a cubin.
//!
//! Contents can be changed freely through [`Cubin::section_mut`], [`Cubin::symbols_mut`] and the functions of this module; file offsets,
//! sizes and name offsets are recomputed when the file is written. Not updated, because only the producer of the code knows them:
//! instruction offsets in attributes, relocations and debug data when code moves.

use crate::cubin::{Cubin, Piece};
use crate::error::{Error, Result};
use crate::info::{Attribute, AttributeCode, AttributeValue};
use crate::section::{Content, Section, TextInfo};
use crate::symbol::SymbolSection;
use crate::target::{FileTraits, LayoutGeneration};

impl Cubin {
    /// Replaces the code of a function. If the length changes, the size of the function's symbol is updated.
    pub fn replace_code(&mut self, function: &str, code: Vec<u8>) -> Result<()> {
        let index = self.text_section(function)?;
        self.replace_bytes(index, code)
    }

    /// Replaces the bytes of a section that is kept as raw bytes, and updates the size of symbols that span all of it.
    pub fn replace_bytes(&mut self, index: usize, bytes: Vec<u8>) -> Result<()> {
        let new = bytes.len() as u64;
        let section = self.sections.get_mut(index).ok_or_else(|| Error::new(format!("the cubin has no section {index}")))?;
        let Content::Bytes(old) = &mut section.content else {
            return Err(Error::new(format!("section `{}` is not carried as bytes", section.name)));
        };
        let before = old.len() as u64;
        *old = bytes;
        for symbol in self.symbols_mut().into_iter().flatten() {
            let inside = matches!(symbol.section, SymbolSection::Section(section) if section as usize == index);
            if inside && symbol.value == 0 && symbol.size == before {
                symbol.size = new;
            }
        }
        Ok(())
    }

    /// Returns the index of the code section of a function.
    fn text_section(&self, function: &str) -> Result<usize> {
        let name = format!(".text.{function}");
        self.find(&name).ok_or_else(|| Error::new(format!("the cubin has no function `{function}`")))
    }

    /// Returns the attributes of a section such as `.nv.info` or `.nv.info.NAME` for editing.
    pub fn attributes_mut(&mut self, section: &str) -> Result<&mut Vec<Attribute>> {
        match &mut self.require(section)?.content {
            Content::Info(attributes) => Ok(attributes),
            _ => Err(Error::new(format!("section `{section}` does not hold attributes"))),
        }
    }

    /// Returns the value of the first attribute with this code in a section.
    pub fn attribute(&self, section: &str, code: AttributeCode) -> Option<&AttributeValue> {
        let attributes = self.section_named(section).and_then(Section::attributes)?;
        attributes.iter().find(|attribute| attribute.code == code).map(|attribute| &attribute.value)
    }

    /// Sets the value of the first attribute with this code, or adds one at the end.
    pub fn set_attribute(&mut self, section: &str, code: AttributeCode, value: AttributeValue) -> Result<()> {
        let attributes = self.attributes_mut(section)?;
        match attributes.iter_mut().find(|attribute| attribute.code == code) {
            Some(attribute) => attribute.value = value,
            None => attributes.push(Attribute { code, value }),
        }
        Ok(())
    }

    /// Returns the number that `.nv.info` holds for a function: registers, frame size or stack size.
    pub fn function_value(&self, function: &str, code: AttributeCode) -> Option<u32> {
        let wanted = self.functions().find(|other| other.name == function)?.symbol;
        self.module_attributes().iter().find_map(|attribute| match attribute.value {
            AttributeValue::PerSymbol { symbol, value } if attribute.code == code && symbol as usize == wanted => Some(value),
            _ => None,
        })
    }

    /// Sets the number that `.nv.info` holds for a function; adds the attribute if it is missing.
    pub(crate) fn set_function_value(&mut self, function: &str, code: AttributeCode, number: u32) -> Result<()> {
        let text = self.text_section(function)?;
        let wanted = self.sections[text].text_info().symbol();
        let attributes = self.attributes_mut(".nv.info")?;
        let found = attributes.iter_mut().find_map(|attribute| match &mut attribute.value {
            AttributeValue::PerSymbol { symbol, value } if attribute.code == code && *symbol == wanted => Some(value),
            _ => None,
        });
        match found {
            Some(value) => *value = number,
            None => attributes.push(Attribute::per_symbol(code, wanted, number)),
        }
        Ok(())
    }

    /// Returns the number of registers per thread of a function.
    pub fn register_count(&self, function: &str) -> Option<u32> {
        self.function_value(function, AttributeCode::REGCOUNT)
    }

    /// Returns the number of named barriers of a function: `EIATTR_NUM_BARRIERS`, or in files of CUDA 12 and before the flags of its code
    /// section.
    pub fn barrier_count(&self, function: &str) -> u32 {
        let section = self.text_section(function).map(|index| &self.sections[index]);
        section.map_or(0, |section| section.barrier_count(self.function_attributes(function)))
    }

    /// Sets the number of registers everywhere the file stores it.
    pub fn set_register_count(&mut self, function: &str, registers: u8) -> Result<()> {
        self.set_function_value(function, AttributeCode::REGCOUNT, u32::from(registers))?;
        let index = self.text_section(function)?;
        if self.target().and_then(FileTraits::of).is_some_and(|traits| traits.style == LayoutGeneration::Ampere) {
            let section = &mut self.sections[index];
            section.info = TextInfo::new(section.text_info().symbol(), registers).0;
        }
        Ok(())
    }

    /// Adds a section after all others and returns its index.
    pub fn push_section(&mut self, section: Section) -> usize {
        let index = self.sections.len();
        self.sections.push(section);
        let end = self.layout.iter().rposition(|piece| matches!(piece, Piece::SectionHeaders)).unwrap_or(self.layout.len());
        self.layout.insert(end, Piece::Section(index));
        index
    }
}
