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
use oriole_isa::{Symbol, SystemLayout, Target, TextureHandle};
use oriole_ptx::ast::{self, AddressBase, Body, Module, VariableId, VariableType};
use rustc_hash::FxHashMap;

use super::handle::SAMPLER_SHIFT;
use crate::error::Unsupported;
use crate::layout::is_opaque;
use crate::select::Select;

/// Bit in the lower word of a handle that ptxas sets where a handle in a general register is made from a reference.
const REFERENCE_MARK: u32 = 1 << 31;

/// A word of constant bank 0: the number of a texture or surface, of a sampler, or of a texture and a sampler.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ImageWord {
    /// The texture or surface.
    pub image: Option<VariableId>,
    /// The sampler.
    pub sampler: Option<VariableId>,
}

/// The words for references of one function.
#[derive(Clone, Default, Debug)]
pub struct ImageWords {
    /// Offset of the first word in constant bank 0, in bytes.
    pub start: u32,
    /// The words, in the order of their offsets.
    pub words: Vec<ImageWord>,
    /// Words of device functions of other modules, which every kernel of the program has: number of the module, offset and word.
    pub foreign: Vec<(usize, u32, ImageWord)>,
    /// Number of the words from `start` on, and the offset of the words after these; `None` if there is no gap.
    rest: Option<(usize, u32)>,
    /// The first word with a texture or surface, and the first word with a sampler.
    first: FxHashMap<VariableId, usize>,
    pairs: FxHashMap<ImageWord, usize>,
}

impl ImageWords {
    /// Returns no words, from `start` on.
    pub(crate) fn at(start: u32) -> ImageWords {
        ImageWords { start, ..ImageWords::default() }
    }

    /// Adds the words that the code of some functions needs.
    pub(crate) fn add<'b>(&mut self, module: &Module, bodies: impl Iterator<Item = &'b Body> + Clone, target: Target) {
        let joins = SystemLayout::of(target).texture_handle == TextureHandle::General;
        let uses: Vec<Vec<VariableId>> = bodies.flat_map(|body| uses_in(module, body)).collect();
        let kind = |id: VariableId| module.variables[id].ty;
        // A pair of texture and sampler serves as a word for each of them, so pairs come first.
        for used in uses.iter().filter(|_| joins) {
            if let [texture, sampler] = used[..]
                && kind(texture) == VariableType::Texture
                && kind(sampler) == VariableType::Sampler
            {
                self.insert(ImageWord { image: Some(texture), sampler: Some(sampler) });
            }
        }
        let is_surface = |id: &VariableId| kind(*id) == VariableType::Surface;
        for surfaces in [false, true] {
            for &id in uses.iter().flatten().filter(|id| is_surface(id) == surfaces) {
                if !self.first.contains_key(&id) {
                    let is_sampler = kind(id) == VariableType::Sampler;
                    let (image, sampler) = if is_sampler { (None, Some(id)) } else { (Some(id), None) };
                    self.insert(ImageWord { image, sampler });
                }
            }
        }
    }

    fn insert(&mut self, word: ImageWord) {
        if self.pairs.contains_key(&word) {
            return;
        }
        let place = self.words.len();
        self.pairs.insert(word, place);
        for id in word.image.into_iter().chain(word.sampler) {
            self.first.entry(id).or_insert(place);
        }
        self.words.push(word);
    }

    /// Returns the offset in constant bank 0 of a word with a texture, sampler or surface.
    pub(crate) fn offset(&self, id: VariableId) -> Option<u32> {
        self.first.get(&id).map(|&place| self.place(place))
    }

    /// Returns the offset of the word with this texture and this sampler.
    fn pair_offset(&self, texture: VariableId, sampler: VariableId) -> Option<u32> {
        self.pairs.get(&ImageWord { image: Some(texture), sampler: Some(sampler) }).map(|&place| self.place(place))
    }

    /// Returns the words with their offsets in constant bank 0.
    pub fn placed(&self) -> impl Iterator<Item = (u32, ImageWord)> + '_ {
        self.words.iter().enumerate().map(|(place, &word)| (self.place(place), word))
    }

    fn place(&self, place: usize) -> u32 {
        let (first, start) = self.rest.filter(|&(first, _)| place >= first).unwrap_or((0, self.start));
        start + (place - first) as u32 * size_of::<u32>() as u32
    }

    /// Returns the offset of the first byte after the words from `start` on.
    pub(crate) fn end(&self) -> u32 {
        self.place(self.words.len())
    }

    /// Adds the words of device functions of other modules. Words that are added later have offsets from `end` on.
    pub(crate) fn with_foreign(mut self, foreign: Vec<(usize, u32, ImageWord)>, end: u32) -> ImageWords {
        self.rest = Some((self.words.len(), end));
        self.foreign = foreign;
        self
    }
}

/// Returns the references that each instruction of a function names.
fn uses_in(module: &Module, body: &Body) -> Vec<Vec<VariableId>> {
    let mut found = Vec::new();
    for instruction in body.instructions.iter() {
        let mut used = Vec::new();
        for &operand in body.operands_of(instruction) {
            match operand {
                ast::Operand::Vector(list) | ast::Operand::Bracket(list) => {
                    used.extend(body.list(list).iter().filter_map(|&operand| variable_of(body, operand)));
                }
                _ => used.extend(variable_of(body, operand)),
            }
        }
        used.retain(|&id| is_opaque(&module.variables[id]));
        if !used.is_empty() {
            found.push(used);
        }
    }
    found
}

/// Returns the variable that an operand names, in brackets or not.
pub(super) fn variable_of(body: &Body, operand: ast::Operand) -> Option<VariableId> {
    match operand {
        ast::Operand::Variable(id) => Some(id),
        ast::Operand::Address(position) | ast::Operand::AddressOf(position) => match body.addresses[position as usize].base {
            AddressBase::Variable(id) => Some(id),
            _ => None,
        },
        _ => None,
    }
}

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
