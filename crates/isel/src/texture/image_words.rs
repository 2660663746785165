//! The words of constant bank 0 for texture, sampler and surface references.

use oriole_isa::{SystemLayout, Target, TextureHandle};
use oriole_ptx::ast::{self, AddressBase, Body, Module, VariableId, VariableType};
use rustc_hash::FxHashMap;

use crate::variable_sizes::is_opaque;

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
    pub(crate) rest: Option<(usize, u32)>,
    /// The first word with a texture or surface, and the first word with a sampler.
    pub(crate) first: FxHashMap<VariableId, usize>,
    pub(crate) pairs: FxHashMap<ImageWord, usize>,
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

    pub(crate) fn insert(&mut self, word: ImageWord) {
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
    pub(crate) fn pair_offset(&self, texture: VariableId, sampler: VariableId) -> Option<u32> {
        self.pairs.get(&ImageWord { image: Some(texture), sampler: Some(sampler) }).map(|&place| self.place(place))
    }

    /// Returns the words with their offsets in constant bank 0.
    pub fn placed(&self) -> impl Iterator<Item = (u32, ImageWord)> + '_ {
        self.words.iter().enumerate().map(|(place, &word)| (self.place(place), word))
    }

    pub(crate) fn place(&self, place: usize) -> u32 {
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
pub(crate) fn uses_in(module: &Module, body: &Body) -> Vec<Vec<VariableId>> {
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
