//! Textures and surfaces of a launch.
//!
//! `texture f32x4 8x4 wrap normalized = FILL` is a two-dimensional texture of 8 by 4 texels of four floats, `surface u32 16 = FILL` a
//! one-dimensional surface. The contents are listed texel by texel, rows and layers one after another.
//!
//! `layers:3` makes an array. Further words describe textures: `linear` filters, `cube` a cube map with six layers, `cubes:2` an array of cube
//! maps, and `levels:2` adds levels of half the size, whose contents follow those of the first level, and `linear-levels` interpolates between them.
//!
//! `samples:4` makes a texture with four samples in each texel, which follow each other in the contents.
//!
//! `sampler wrap normalized linear` is a separate sampler, for modules with `.target texmode_independent`.

use crate::{Element, Fill};

/// What a coordinate outside of a texture reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressMode {
    /// The nearest texel.
    Clamp,
    /// The texel of the repeated texture; needs normalized coordinates.
    Wrap,
    /// As `Wrap`, with every other copy reversed.
    Mirror,
    /// Zero.
    Border,
}

/// Names of the modes in headers.
const MODES: [(&str, AddressMode); 4] =
    [("clamp", AddressMode::Clamp), ("wrap", AddressMode::Wrap), ("mirror", AddressMode::Mirror), ("border", AddressMode::Border)];

/// Limit on the size in each dimension.
const MOST_TEXELS: u32 = 1 << 15;
/// Limit on the number of layers or levels.
const MOST_LAYERS: u32 = 1 << 11;

/// Limit on the number of samples of a texel.
const MOST_SAMPLES: u32 = 16;

/// How the layers of a texture are selected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrangement {
    /// One layer.
    Single,
    /// By an index.
    Layers,
    /// By the direction of the coordinates: one of six.
    Cube,
    /// By an index and the direction.
    Cubes,
}

/// Number of layers of a cube map.
pub const FACES: u32 = 6;

/// The settings of a sampler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampler {
    pub mode: AddressMode,
    /// Whether the coordinates of texels are from 0 to 1.
    pub is_normalized: bool,
    /// Whether a fetch interpolates between the texels around its coordinates. Otherwise it reads the nearest texel.
    pub is_linear: bool,
    /// Whether a fetch with a fractional level interpolates between the two levels around it. Otherwise it reads the nearest level.
    pub interpolates_levels: bool,
}

impl Default for Sampler {
    fn default() -> Sampler {
        Sampler { mode: AddressMode::Clamp, is_normalized: false, is_linear: false, interpolates_levels: false }
    }
}

impl Sampler {
    /// Applies one word of a description, such as `wrap`. Returns false if the word does not describe a sampler.
    fn set(&mut self, word: &str) -> bool {
        match MODES.iter().find(|(mode, _)| *mode == word) {
            Some(&(_, mode)) => self.mode = mode,
            None if word == "normalized" => self.is_normalized = true,
            None if word == "linear" => self.is_linear = true,
            None if word == "linear-levels" => self.interpolates_levels = true,
            None => return false,
        }
        true
    }

    /// Checks the combination of settings. Returns a message if they contradict each other.
    fn mistake(self) -> Option<&'static str> {
        let repeats = matches!(self.mode, AddressMode::Wrap | AddressMode::Mirror);
        (repeats && !self.is_normalized).then_some("wrap and mirror need normalized coordinates")
    }

    /// Parses the description of a separate sampler.
    pub(crate) fn read(text: &str) -> Result<Sampler, String> {
        let mut sampler = Sampler::default();
        let unknown = text.split_whitespace().skip(1).find(|word| !sampler.set(word));
        match (unknown, sampler.mistake()) {
            (Some(word), _) => Err(format!("unknown word `{word}`")),
            (None, Some(mistake)) => Err(mistake.into()),
            (None, None) => Ok(sampler),
        }
    }

    /// Returns the words that describe the sampler, each after a space.
    pub(crate) fn words(self) -> String {
        let mode = MODES.iter().find(|(_, mode)| *mode == self.mode).map_or("", |(name, _)| *name);
        let flags = [(self.is_normalized, " normalized"), (self.is_linear, " linear"), (self.interpolates_levels, " linear-levels")];
        let flags: String = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, word)| *word).collect();
        format!(" {mode}{flags}")
    }
}

/// A texture or surface.
#[derive(Clone, Debug, PartialEq)]
pub struct Image {
    pub is_surface: bool,
    pub element: Element,
    /// Number of elements of a texel: 1, 2 or 4.
    pub channels: u32,
    /// Width, height and depth; 1 where it has no such dimension.
    pub size: [u32; 3],
    /// Number of dimensions.
    pub dimensions: usize,
    pub sampler: Sampler,
    pub arrangement: Arrangement,
    /// Number of layers; of cube maps, six for each.
    pub layers: u32,
    /// Number of levels, each half as large as the one before.
    pub levels: u32,
    /// Number of samples of a texel.
    pub samples: u32,
    pub fill: Fill,
}

impl Image {
    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        (0..self.levels).map(|level| self.texels_of_level(level)).sum::<usize>() * (self.samples * self.channels) as usize
    }

    /// Returns the number of texels of a level, in all layers; those with several samples count once.
    pub fn texels_of_level(&self, level: u32) -> usize {
        self.size_of_level(level).iter().map(|&size| size as usize).product::<usize>() * self.layers as usize
    }

    /// Returns width, height and depth of a level.
    pub fn size_of_level(&self, level: u32) -> [u32; 3] {
        self.size.map(|size| (size >> level).max(1))
    }

    /// Checks the combination of settings. Returns a message if they contradict each other.
    fn mistake(&self) -> Option<&'static str> {
        let sampler = self.sampler;
        let is_filtered = sampler.is_linear || sampler.interpolates_levels;
        let is_plain = !is_filtered && self.levels == 1 && matches!(self.arrangement, Arrangement::Single | Arrangement::Layers);
        let is_cube = matches!(self.arrangement, Arrangement::Cube | Arrangement::Cubes);
        let [width, height, _] = self.size;
        match () {
            () if self.is_surface && !is_plain => Some("a surface has no filter, no cube maps and no levels"),
            () if sampler.mistake().is_some() => sampler.mistake(),
            () if is_filtered && !matches!(self.element, Element::F32 | Element::F16) => Some("only floats are filtered"),
            () if self.samples > 1 && (!is_plain || self.dimensions != 2 || self.is_surface) => {
                Some("samples are those of two-dimensional textures without filter and levels")
            }
            () if is_cube && (self.dimensions != 2 || width != height) => Some("a cube map has two equal sizes"),
            () if self.arrangement == Arrangement::Layers && self.dimensions > 2 => Some("layers have one or two dimensions"),
            () if self.levels > 1 && !sampler.is_normalized => Some("levels need normalized coordinates"),
            () if self.levels == 1 && sampler.interpolates_levels => Some("linear-levels needs several levels"),
            () if self.levels > 1 && self.size.iter().all(|&size| size >> (self.levels - 1) == 0) => Some("too many levels"),
            () => None,
        }
    }

    /// Parses the description before `=`.
    pub(crate) fn read(text: &str, fill: Fill) -> Result<Image, String> {
        let mut words = text.split_whitespace();
        let is_surface = match words.next() {
            Some("texture") => false,
            Some("surface") => true,
            _ => return Err("neither a texture nor a surface".into()),
        };
        let texel = words.next().ok_or("no type of texels")?;
        let (name, channels) = texel.split_once('x').unwrap_or((texel, "1"));
        let element = Element::from_name(name).filter(|element| element.bytes() <= 4).ok_or("unknown type of texels")?;
        let channels = channels.parse().ok().filter(|count| [1, 2, 4].contains(count)).ok_or("a texel has 1, 2 or 4 elements")?;
        let sizes: Vec<&str> = words.next().ok_or("no size")?.split('x').collect();
        let mut size = [1; 3];
        if sizes.len() > size.len() {
            return Err("more than three sizes".into());
        }
        for (to, word) in size.iter_mut().zip(&sizes) {
            *to = word.parse().ok().filter(|size| (1..=MOST_TEXELS).contains(size)).ok_or("a size is no number, or too large")?;
        }
        let mut image = Image {
            is_surface,
            element,
            channels,
            size,
            dimensions: sizes.len(),
            sampler: Sampler::default(),
            arrangement: Arrangement::Single,
            layers: 1,
            levels: 1,
            samples: 1,
            fill,
        };
        for word in words {
            let (name, number) = word.split_once(':').unwrap_or((word, "1"));
            let number = number.parse().ok().filter(|number| (1..=MOST_LAYERS).contains(number)).ok_or("a number is wrong or too large")?;
            match name {
                _ if image.sampler.set(word) => {}
                _ if word == "cube" => (image.arrangement, image.layers) = (Arrangement::Cube, FACES),
                "layers" => (image.arrangement, image.layers) = (Arrangement::Layers, number),
                "cubes" => (image.arrangement, image.layers) = (Arrangement::Cubes, FACES * number),
                "levels" => image.levels = number.min(MOST_TEXELS.ilog2() + 1),
                "samples" => image.samples = number.min(MOST_SAMPLES),
                _ => return Err(format!("unknown word `{word}`")),
            }
        }
        image.mistake().map_or(Ok(image), |mistake| Err(mistake.into()))
    }

    /// Returns the description before `=`.
    pub(crate) fn text(&self) -> String {
        let kind = if self.is_surface { "surface" } else { "texture" };
        let channels = if self.channels > 1 { format!("x{}", self.channels) } else { String::new() };
        let size: Vec<String> = self.size[..self.dimensions].iter().map(ToString::to_string).collect();
        let sampler = if self.is_surface { String::new() } else { self.sampler.words() };
        let layers = match self.arrangement {
            Arrangement::Single => String::new(),
            Arrangement::Layers => format!(" layers:{}", self.layers),
            Arrangement::Cube => " cube".into(),
            Arrangement::Cubes => format!(" cubes:{}", self.layers / FACES),
        };
        let levels = if self.levels > 1 { format!(" levels:{}", self.levels) } else { String::new() };
        let samples = if self.samples > 1 { format!(" samples:{}", self.samples) } else { String::new() };
        format!("{kind} {}{channels} {}{sampler}{layers}{levels}{samples}", self.element.name(), size.join("x"))
    }
}
