//! Textures, samplers and surfaces by reference: variables and kernel parameters of type `.texref`, `.samplerref` and `.surfref`.
//!
//! A kernel that uses references has words after its parameters in constant bank 0, which the driver fills with the numbers of texture
//! headers and samplers:
//!
//! | targets | `[texture, {...}]` | `[texture, sampler, {...}]` |
//! |---|---|---|
//! | sm_75 to sm_89 | one word | one word, with the sampler in the upper 12 bits |
//! | sm_90 and later | one word | a word for the texture and a word for the sampler |
//!
//! Textures and samplers come first, in the order of their first use, then surfaces. A device function runs in several kernels, so the
//! words of all device functions have the same places in all kernels of the module: after the parameters of the kernel with the most.

use oriole_ir::{Class, Operand, OperandKind, Reference, ReferenceKind, Role};
use oriole_isa::{Symbol, SystemLayout, TextureHandle};
use oriole_ptx::ast::{self, VariableId, VariableType};

use super::handle::SAMPLER_SHIFT;
use crate::context::Select;
use crate::error::Unsupported;
use crate::texture::image_words::variable_of;
use crate::variable_sizes::is_opaque;

/// Bit in the lower word of a handle that ptxas sets where a handle in a general register is made from a reference.
const REFERENCE_MARK: u32 = 1 << 31;

impl Select<'_> {
    /// Returns the reference that an operand names, if it names one.
    pub(super) fn reference(&self, operand: ast::Operand) -> Option<VariableId> {
        variable_of(self.frame.body, operand).filter(|&id| is_opaque(&self.frame.module.variables[id]))
    }

    /// Returns the word of constant bank 0 with the number of a reference, as an operand.
    pub(super) fn reference_word(&mut self, id: VariableId) -> Result<Operand, Unsupported> {
        match self.variables.images.offset(id) {
            Some(offset) => Ok(Operand::constant(0, offset)),
            None if self.variables.is_relocatable => Ok(self.linked_word(id)),
            None => Err(self.no_word(id)),
        }
    }

    /// Loads the word for a reference from the place in the constant banks that the linker chooses.
    fn linked_word(&mut self, id: VariableId) -> Operand {
        let module = self.frame.module;
        let symbol = self.b.symbol(module.name(module.variables[id].name));
        let word = self.b.define(Class::R, "LDC $, c[0x0][{}]", &[0_u32.into()]);
        let reference = Operand::from(Reference { symbol, offset: 0, kind: ReferenceKind::ImageWord });
        let place = Operand::new(OperandKind::Address(Symbol::NAME_c));
        let operands = [word, place, Operand::from(0_u32).with_role(Role::Bracket(0)), reference.with_role(Role::Bracket(1))];
        if let Some(&inst) = self.b.function.blocks[self.b.block()].insts.last() {
            self.b.function.set_operands(inst, &operands, 1);
        }
        word
    }

    /// Returns the offset in constant bank 0 of the word that a texture instruction can name: that of a reference, or of a texture and a
    /// sampler.
    pub(super) fn bound_word(&self, texture: VariableId, sampler: Option<VariableId>) -> Result<u32, Unsupported> {
        let images = &self.variables.images;
        let offset = sampler.map_or_else(|| images.offset(texture), |sampler| images.pair_offset(texture, sampler));
        offset.ok_or_else(|| self.no_word(texture))
    }

    fn no_word(&self, id: VariableId) -> Unsupported {
        let name = self.frame.module.name(self.frame.module.variables[id].name);
        Unsupported::new(format!("the texture, sampler or surface reference {name} in this place (use a 64-bit handle instead)"))
    }

    /// Returns the number of a separate sampler in the lower bits of a word.
    ///
    /// Where instructions take the number from a word of its own, the driver fills that word with the number alone
    /// (`R_CUDA_SAMP_HEADER_INDEX_0`). But nvlink 13.0 requests the number in the upper 12 bits (`R_CUDA_SAMP_HEADER_INDEX`) in files without
    /// Mercury code. All other bits are zero, so code that nvlink places joins both fields.
    pub(super) fn sampler_number(&mut self, word: Operand) -> Operand {
        let is_uniform = SystemLayout::of(self.target).texture_handle == TextureHandle::Uniform;
        if is_uniform && !self.variables.is_relocatable {
            return word;
        }
        let word = self.in_register(word);
        let upper = self.shift_right(word, SAMPLER_SHIFT.into(), false);
        if !is_uniform {
            return upper;
        }
        let lower = Operand::from((1_u32 << SAMPLER_SHIFT) - 1);
        self.b.define(Class::R, "LOP3.LUT $, {}, {}, {}, 0xf8, !PT", &[upper, word, lower])
    }

    /// Returns a reference as a 64-bit handle; `istypep` tests the highest bits.
    pub(crate) fn reference_handle(&mut self, id: VariableId) -> Result<Operand, Unsupported> {
        let word = self.reference_word(id)?;
        let (number, kind) = match self.frame.module.variables[id].ty {
            VariableType::Sampler => (self.sampler_number(word), 1_u32 << 30),
            VariableType::Surface => (word, 1 << 31),
            _ => (word, 1 << 29),
        };
        let number = self.in_register(number);
        let low = match SystemLayout::of(self.target).texture_handle {
            TextureHandle::General => self.logic(0xfc, number, REFERENCE_MARK.into(), Operand::RZ),
            TextureHandle::Uniform => number,
        };
        let high = self.in_register(kind.into());
        Ok(self.b.pack(Class::R2, &[low, high]))
    }
}
