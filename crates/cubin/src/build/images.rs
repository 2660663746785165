//! Texture, sampler and surface references.
//!
//! A reference is a symbol without a section, which the application binds to a texture or surface by name. A kernel that uses references
//! has words after its parameters in constant bank 0. Relocations ask the driver to write the numbers of headers and samplers there.
//! `tests/linkage.rs` of the driver and the corpus compare the files with those of ptxas 13.0.88.

use super::assemble::Maker;
use super::relocations::Patch;
use super::symbols::SymbolRole;
use super::{Function, Module};
use crate::info::{Attribute, AttributeCode, AttributeValue};
use crate::relocation::RelocationType;
use crate::symbol::{STT_CUDA_SAMPLER, STT_CUDA_SURFACE, STT_CUDA_TEXTURE};
use crate::target::LayoutGeneration;

/// What a reference refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    Texture,
    Sampler,
    Surface,
}

/// A reference at module scope.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Image {
    pub name: String,
    pub kind: ImageKind,
    /// Initial value of a sampler for `EIATTR_SAMPLER_INIT`: address modes of x, y and z and the filter mode, one byte each, 0xff if not
    /// given. ptxas writes the attribute for every sampler.
    pub sampler: Option<u32>,
    /// Value of `force_unnormalized_coords`, if the sampler has one.
    pub unnormalized: Option<u32>,
}

/// A word of constant bank 0 that the driver fills in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageWord {
    /// Offset in the bank, in bytes.
    pub offset: u32,
    /// The references whose numbers the word holds: one, or a texture and a sampler.
    pub parts: Vec<(ImageKind, String)>,
}

/// A kernel parameter that is a reference.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageParameter {
    pub name: String,
    pub kind: ImageKind,
    /// Position among all parameters of the kernel.
    pub ordinal: u16,
}

impl ImageKind {
    /// Returns the symbol type of a reference.
    pub(super) fn symbol_type(self) -> u8 {
        match self {
            ImageKind::Texture => STT_CUDA_TEXTURE,
            ImageKind::Sampler => STT_CUDA_SAMPLER,
            ImageKind::Surface => STT_CUDA_SURFACE,
        }
    }

    /// Returns the relocation type of a word. Up to Ada the number of a sampler is in the upper 12 bits of a word, from Hopper on in the
    /// lower 12 bits of a word of its own.
    fn relocation_type(self, style: LayoutGeneration) -> RelocationType {
        match self {
            ImageKind::Texture => RelocationType::R_CUDA_TEX_HEADER_INDEX,
            ImageKind::Sampler if style == LayoutGeneration::Ampere => RelocationType::R_CUDA_SAMP_HEADER_INDEX,
            ImageKind::Sampler => RelocationType::R_CUDA_SAMP_HEADER_INDEX_0,
            ImageKind::Surface => RelocationType::R_CUDA_SURF_HEADER_INDEX,
        }
    }

    /// Returns the state space of `EIATTR_KPARAM_INFO`.
    pub fn parameter_space(self) -> u8 {
        match self {
            ImageKind::Texture => 6,
            ImageKind::Surface => 7,
            ImageKind::Sampler => 8,
        }
    }
}

impl Function {
    /// Returns the end of the words for references in constant bank 0; 0 if there are none.
    pub(super) fn image_words_end(&self) -> usize {
        self.image_words.iter().map(|word| word.offset as usize + size_of::<u32>()).max().unwrap_or(0)
    }
}

impl Module {
    /// Returns whether some function has words for references.
    pub(super) fn has_image_words(&self) -> bool {
        self.functions.iter().any(|function| !function.image_words.is_empty())
    }

    /// Returns the relocations of constant bank 0 of function `k`.
    pub(super) fn image_patches(&self, k: usize) -> Vec<Patch> {
        let function = &self.functions[k];
        let mut list = Vec::new();
        for word in &function.image_words {
            list.extend(word.parts.iter().map(|(kind, name)| {
                let parameter = function.image_parameters.iter().position(|parameter| parameter.name == *name);
                let symbol = parameter.map_or_else(|| Err(name.clone()), |i| Ok(SymbolRole::ImageParameter(k, i)));
                Patch { offset: u64::from(word.offset), relocation_type: kind.relocation_type(self.traits.style), symbol, addend: 0 }
            }));
        }
        list
    }
}

impl Maker<'_> {
    /// Returns the attributes of `.nv.info` with the initial values of samplers.
    pub(super) fn sampler_attributes(&self) -> Vec<Attribute> {
        let words = |code, value: fn(&super::Image) -> Option<u32>| {
            let images = self.module.images.iter().enumerate();
            images.filter_map(move |(i, image)| Some(Attribute::words(code, [self.symbol_index(SymbolRole::Image(i)), value(image)?])))
        };
        let forced = words(AttributeCode::SAMPLER_FORCE_UNNORMALIZED, |image| image.unnormalized);
        forced.chain(words(AttributeCode::SAMPLER_INIT, |image| image.sampler)).collect()
    }

    /// Sets the symbol of a parameter of kernel `k` that is a reference.
    pub(super) fn set_image_index(&self, k: usize, value: &mut AttributeValue) {
        let parameters = &self.module.functions[k].image_parameters;
        let symbol = |ordinal: u16| {
            let i = parameters.iter().position(|parameter| parameter.ordinal == ordinal)?;
            Some(self.symbol_index(SymbolRole::ImageParameter(k, i)))
        };
        match value {
            AttributeValue::Parameter(parameter) => parameter.index = symbol(parameter.ordinal).unwrap_or(parameter.index),
            AttributeValue::ParameterV2(parameter) => parameter.index = symbol(parameter.ordinal).unwrap_or(parameter.index),
            _ => {}
        }
    }
}
