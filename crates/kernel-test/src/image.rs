//! Textures and surfaces of a launch.
//!
//! `texture f32x4 8x4 wrap normalized = FILL` is a two-dimensional texture of 8 by 4 texels of four floats, `surface u32 16 = FILL` a
//! one-dimensional surface. The contents are listed texel by texel, rows and layers one after another.

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

/// A texture or surface. Textures are read without filtering.
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
    pub mode: AddressMode,
    /// Whether the coordinates of texels are from 0 to 1.
    pub is_normalized: bool,
    pub fill: Fill,
}

impl Image {
    /// Returns the number of elements.
    pub fn count(&self) -> usize {
        self.size.iter().map(|&size| size as usize).product::<usize>() * self.channels as usize
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
        let mut image =
            Image { is_surface, element, channels, size, dimensions: sizes.len(), mode: AddressMode::Clamp, is_normalized: false, fill };
        for word in words {
            match MODES.iter().find(|(name, _)| *name == word) {
                Some(&(_, mode)) => image.mode = mode,
                None if word == "normalized" => image.is_normalized = true,
                None => return Err(format!("unknown word `{word}`")),
            }
        }
        if matches!(image.mode, AddressMode::Wrap | AddressMode::Mirror) && !image.is_normalized {
            return Err("wrap and mirror need normalized coordinates".into());
        }
        Ok(image)
    }

    /// Returns the description before `=`.
    pub(crate) fn text(&self) -> String {
        let kind = if self.is_surface { "surface" } else { "texture" };
        let channels = if self.channels > 1 { format!("x{}", self.channels) } else { String::new() };
        let size: Vec<String> = self.size[..self.dimensions].iter().map(ToString::to_string).collect();
        let mode =
            MODES.iter().find(|(_, mode)| *mode == self.mode && !self.is_surface).map_or(String::new(), |(name, _)| format!(" {name}"));
        let normalized = if self.is_normalized { " normalized" } else { "" };
        format!("{kind} {}{channels} {}{mode}{normalized}", self.element.name(), size.join("x"))
    }
}
