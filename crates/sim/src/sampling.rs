//! How coordinates select and filter the texels of a texture, by the rules of the CUDA programming guide ("Texture Fetching").
//!
//! Coordinates are in texels: a normalized coordinate is multiplied by the size N of its axis first.
//!
//! ```text
//! nearest     T[floor(x)]
//! linear      (1 - a) T[i] + a T[i + 1]      with x' = x - 0.5, i = floor(x'), a = x' - i in fixed point with 8 fraction bits;
//!                                            in two and three dimensions the weights of the axes are multiplied
//! clamp       the nearest texel              wrap      x - floor(x) instead of x (normalized)
//! border      zero outside of the texture    mirror    x - floor(x) if floor(x) is even, otherwise 1 - (x - floor(x))
//! cube map    the axis with the largest magnitude m selects the layer, the others are divided by m: (s / m + 1) / 2, (t / m + 1) / 2
//! layers      the index is clamped           offsets   whole texels, added before the mode applies: T[floor(x) + offset]
//! levels      the nearest one, or (1 - f) L[i] + f L[i + 1] with i = floor(level), f = level - i
//! ```
//!
//! Example of linear filtering in one dimension: at x = 1.75 between T[1] = 10 and T[2] = 20, x' = 1.25, so the result is 0.75 * 10 + 0.25 *
//! 20 = 12.5.
//!
//! The guide does not say how weights, sums and coordinates are rounded. [`crate::filter`] has the rules of an H200 for weights and sums. Those for
//! coordinates were found in the same way:
//!
//! - A normalized coordinate is rounded down to 21 fraction bits and multiplied by N exactly.
//! - For linear filtering and `tld4`, a coordinate in texels is rounded to a multiple of 1/256, with ties up.
//! - A level is rounded down to a multiple of 1/256. Of two equally near levels, the one with the higher number is the nearest.
//! - NaN and subnormal coordinates are zero. Infinite coordinates are zero with wrap and mirror.
//! - Of the axes of a cube map direction with equal magnitudes, z is selected before y, and y before x.
//! - The filter of a cube map does not cross the edges of a layer.
//! - [`crate::gradient`] has the rule for the level that derivatives give. For cube maps it is not known, so derivatives on cube maps with
//!   several levels are errors.

use oriole_kernel_test::{AddressMode, Arrangement, Element, FACES, Image};

use crate::filter::{FULL_WEIGHT, SumFormat, WEIGHT_BITS, slice_weights, split, split_slices};
use crate::gradient;
use crate::image::{DeviceImage, Texel};
use crate::memory::GlobalMemory;

/// One, as a normalized coordinate in fixed point with 21 fraction bits.
const ONE: f64 = (1 << 21) as f64;

/// The level that a fetch reads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Level {
    /// Level 0.
    Base,
    Float(f32),
    Integer(i32),
    /// The level computed from the derivatives of the coordinates.
    Gradient([[f32; 3]; 2]),
}

/// The kind of a texture as an instruction names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Number of dimensions; 2 for cube maps.
    pub(crate) dimensions: usize,
    pub(crate) arrangement: Arrangement,
    /// Whether texels have several samples.
    pub(crate) has_samples: bool,
}

impl Geometry {
    /// Returns a kind of texture whose texels have one sample.
    pub(crate) fn new(dimensions: usize, arrangement: Arrangement) -> Geometry {
        Geometry { dimensions, arrangement, has_samples: false }
    }

    /// Returns the kind of an image.
    pub(crate) fn of(image: &Image) -> Geometry {
        Geometry { has_samples: image.samples > 1, ..Geometry::new(image.dimensions, image.arrangement) }
    }

    /// Returns the number of coordinates, without the index.
    pub(crate) fn coordinates(self) -> usize {
        if self.is_cube() { 3 } else { self.dimensions }
    }

    /// Returns whether an index precedes the coordinates.
    pub(crate) fn has_index(self) -> bool {
        matches!(self.arrangement, Arrangement::Layers | Arrangement::Cubes)
    }

    fn is_cube(self) -> bool {
        matches!(self.arrangement, Arrangement::Cube | Arrangement::Cubes)
    }
}

/// A fetch from a texture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fetch {
    pub(crate) geometry: Geometry,
    pub(crate) level: Level,
    /// The index; 0 if there is none.
    pub(crate) index: u32,
    /// The number of the sample; 0 if there is none.
    pub(crate) sample: u32,
    /// The bits of the coordinates.
    pub(crate) coordinates: [u32; 3],
    /// Numbers of texels to add along each axis, before the address mode applies.
    pub(crate) offsets: [i32; 3],
}

/// Two neighbouring texels along an axis, `None` beyond a border, and the weight of the second in 256ths.
type Neighbours = ([Option<u32>; 2], u32);

/// The texels of a slice with their weights.
type Slice = Vec<(Option<Texel>, u32)>;

impl GlobalMemory {
    /// Returns the components at float coordinates.
    pub(crate) fn sample(&self, image: &DeviceImage, fetch: &Fetch) -> Result<[Option<u32>; 4], String> {
        check_geometry(image, fetch.geometry)?;
        if image.sampler.is_linear && !matches!(image.image.element, Element::F32 | Element::F16) {
            return Err("a texture of integers is read with a linear filter".into());
        }
        let choice = LevelChoice::of(image, fetch)?;
        let place = TexelPosition::of(image, fetch, choice.first)?;
        if !image.sampler.is_linear && choice.weight == 0 {
            return Ok(self.texel(image, place.nearest(image)));
        }
        let [first, second] = split(FULL_WEIGHT, choice.weight);
        let mut slices = place.slices(image, first);
        if second > 0 {
            slices.extend(TexelPosition::of(image, fetch, choice.first + 1)?.slices(image, second));
        }
        let read = |slice: &Slice| slice.iter().map(|&(texel, weight)| (self.texel(image, texel), weight)).collect();
        let slices: Vec<Vec<([Option<u32>; 4], u32)>> = slices.iter().map(read).collect();
        let format = SumFormat::of(image.image.element);
        Ok(std::array::from_fn(|component| {
            let of_component = |slice: &Vec<([Option<u32>; 4], u32)>| {
                slice.iter().map(|&(texel, weight)| texel[component].map(|texel| (texel, weight))).collect::<Option<Vec<_>>>()
            };
            slices.iter().map(of_component).collect::<Option<Vec<_>>>().map(|slices| format.sum(&slices))
        }))
    }

    /// Returns one component of the four texels that linear filtering reads, in the order of `tld4`: counter-clockwise from the lower left, where
    /// y grows downwards.
    pub(crate) fn gather(&self, image: &DeviceImage, fetch: &Fetch, component: usize) -> Result<[Option<u32>; 4], String> {
        let place = TexelPosition::of(image, fetch, level_number(image, fetch)?)?;
        let [(columns, _), (rows, _)] = place.neighbours(image)[..] else { return Err("four texels of a texture without rows".into()) };
        Ok([(0, 1), (1, 1), (1, 0), (0, 0)].map(|(column, row): (usize, usize)| {
            let texel = columns[column].zip(rows[row]).map(|(x, y)| place.texel([x, y, 0]));
            self.texel(image, texel)[component]
        }))
    }

    /// Returns the components at integer coordinates. An error outside of the texture, which the manual does not define.
    pub(crate) fn texel_at(&self, image: &DeviceImage, fetch: &Fetch) -> Result<[Option<u32>; 4], String> {
        check_geometry(image, fetch.geometry)?;
        let level = level_number(image, fetch)?;
        let count = fetch.geometry.coordinates();
        let mut place = [0; 3];
        let sizes = image.image.size_of_level(level);
        for (axis, (place, size)) in place.iter_mut().zip(sizes).take(count).enumerate() {
            let texel = i64::from(fetch.coordinates[axis] as i32) + i64::from(fetch.offsets[axis]);
            let inside = u32::try_from(texel).ok().filter(|&texel| texel < size);
            *place = inside.ok_or_else(|| {
                let (place, offsets) = (fetch.coordinates.map(|place| place as i32), fetch.offsets);
                format!("the texel {place:?} with the offsets {offsets:?} is outside of the texture")
            })?;
        }
        if fetch.sample >= image.image.samples {
            return Err(format!("sample {} of a texture with {} samples", fetch.sample, image.image.samples));
        }
        Ok(self.texel(image, Some(Texel { level, layer: fetch.index.min(image.image.layers - 1), place, sample: fetch.sample })))
    }
}

/// Checks that an instruction reads the kind of texture or surface that this one is.
pub(crate) fn check_geometry(image: &DeviceImage, geometry: Geometry) -> Result<(), String> {
    let own = Geometry::of(&image.image);
    match () {
        () if own.arrangement != geometry.arrangement => {
            Err(format!("an image ({:?}) is read as one with another arrangement ({:?})", own.arrangement, geometry.arrangement))
        }
        () if own.dimensions != geometry.dimensions => {
            Err(format!("an image of {} dimensions is read with {}", own.dimensions, geometry.dimensions))
        }
        () if own.has_samples != geometry.has_samples => {
            let kind = if geometry.has_samples { "a multisampled one" } else { "one with a single sample" };
            Err(format!("an image with {} samples is read as {kind}", image.image.samples))
        }
        () => Ok(()),
    }
}

/// The level that a fetch with float coordinates reads, or the first of two.
struct LevelChoice {
    first: u32,
    /// Weight of the next level in 256ths.
    weight: u32,
}

impl LevelChoice {
    /// Returns the levels to read.
    fn of(image: &DeviceImage, fetch: &Fetch) -> Result<LevelChoice, String> {
        let last = image.image.levels - 1;
        let fixed = match fetch.level {
            Level::Float(level) => level_in_256ths(level, last),
            Level::Gradient(derivatives) if last > 0 => {
                gradient_level(image, fetch.geometry, derivatives)?.clamp(0, (last << WEIGHT_BITS) as i32) as u32
            }
            _ => return Ok(LevelChoice { first: level_number(image, fetch)?, weight: 0 }),
        };
        if image.sampler.interpolates_levels {
            Ok(LevelChoice { first: fixed >> WEIGHT_BITS, weight: fixed & (FULL_WEIGHT - 1) })
        } else {
            Ok(LevelChoice { first: (fixed + FULL_WEIGHT / 2) >> WEIGHT_BITS, weight: 0 })
        }
    }
}

/// Returns the level, in 256ths, that derivatives give.
fn gradient_level(image: &DeviceImage, geometry: Geometry, derivatives: [[f32; 3]; 2]) -> Result<i32, String> {
    if geometry.is_cube() {
        return Err("derivatives of the direction of a cube map with several levels".into());
    }
    Ok(gradient::level(
        derivatives.map(|by| std::array::from_fn(|axis| if axis < geometry.dimensions { by[axis] } else { 0.0 })),
        image.image.size,
    ))
}

/// Returns the number of the level that a fetch at integer coordinates or `tld4` reads, or one without a level that is no integer.
fn level_number(image: &DeviceImage, fetch: &Fetch) -> Result<u32, String> {
    let last = image.image.levels - 1;
    match fetch.level {
        Level::Base | Level::Gradient(_) => Ok(0),
        Level::Float(level) => Ok((level_in_256ths(level, last) + FULL_WEIGHT / 2) >> WEIGHT_BITS),
        Level::Integer(level) => {
            let number = u32::try_from(level).ok().filter(|&level| level <= last);
            number.ok_or_else(|| format!("level {level} of a texture with {} levels", last + 1))
        }
    }
}

/// Returns a level between 0 and `last` in 256ths, rounded down. NaN is zero.
fn level_in_256ths(level: f32, last: u32) -> u32 {
    (level.max(0.0).min(last as f32) * FULL_WEIGHT as f32) as u32
}

/// A place in one layer of one level.
struct TexelPosition {
    level: u32,
    layer: u32,
    dimensions: usize,
    coordinates: [f64; 3],
    offsets: [i32; 3],
    is_normalized: bool,
}

impl TexelPosition {
    /// Returns the place that a fetch reads in a level.
    fn of(image: &DeviceImage, fetch: &Fetch, level: u32) -> Result<TexelPosition, String> {
        check_geometry(image, fetch.geometry)?;
        let mut coordinates = fetch.coordinates.map(|bits| f64::from(flushed(f32::from_bits(bits))));
        let mut layer = fetch.index;
        let mut is_normalized = image.sampler.is_normalized;
        if fetch.geometry.is_cube() {
            let (face, [s, t]) = face(coordinates);
            layer = fetch.index.min(image.image.layers / FACES - 1) * FACES + face;
            coordinates = [s, t, 0.0];
            is_normalized = true;
        }
        let layer = layer.min(image.image.layers - 1);
        Ok(TexelPosition { level, layer, dimensions: fetch.geometry.dimensions, coordinates, offsets: fetch.offsets, is_normalized })
    }

    fn texel(&self, place: [u32; 3]) -> Texel {
        Texel { level: self.level, layer: self.layer, place, sample: 0 }
    }

    /// Returns the nearest texel; `None` beyond a border.
    fn nearest(&self, image: &DeviceImage) -> Option<Texel> {
        let mut place = [0; 3];
        let sizes = image.image.size_of_level(self.level);
        for (axis, (place, size)) in place.iter_mut().zip(sizes).take(self.dimensions).enumerate() {
            let texel = (self.in_texels(axis, size, image.sampler.mode).floor() as i64).saturating_add(self.offsets[axis].into());
            *place = inside(texel, size, image.sampler.mode)?;
        }
        Some(self.texel(place))
    }

    /// Returns the coordinate of an axis in texels.
    fn in_texels(&self, axis: usize, size: u32, mode: AddressMode) -> f64 {
        let x = self.coordinates[axis];
        if !self.is_normalized {
            return x;
        }
        // All steps are exact: a coordinate is a single, and has no more than 24 significant bits.
        let mut fixed = (x * ONE).floor();
        if matches!(mode, AddressMode::Wrap | AddressMode::Mirror) {
            // Both repeat after two textures.
            fixed = if fixed.is_finite() { fixed % (2.0 * ONE) } else { 0.0 };
        }
        fixed / ONE * f64::from(size)
    }

    /// Returns the texels around the place with their weights, which have this total, or the nearest texel. Texels of a slice have the same z.
    fn slices(&self, image: &DeviceImage, total: u32) -> Vec<Slice> {
        if !image.sampler.is_linear {
            return vec![vec![(self.nearest(image), total)]];
        }
        let axes = self.neighbours(image);
        let along = |axis: usize| axes.get(axis).copied().unwrap_or(([Some(0); 2], 0));
        let [(columns, x), (rows, y), (layers, z)] = [0, 1, 2].map(along);
        let slice = |(layer, total): (Option<u32>, u32)| {
            let weights = slice_weights(total, [x, y]);
            let corners = [0, 1].into_iter().flat_map(|row| [0, 1].map(|column: usize| (row, column)));
            let taps = corners.map(|(row, column): (usize, usize)| {
                let place = columns[column].zip(rows[row]).zip(layer).map(|((x, y), z)| [x, y, z]);
                (place.map(|place| self.texel(place)), weights[row][column])
            });
            taps.filter(|(_, weight)| *weight > 0).collect()
        };
        layers.into_iter().zip(split_slices(total, z)).filter(|(_, total)| *total > 0).map(slice).collect()
    }

    /// Returns the texels around the place, along each axis.
    fn neighbours(&self, image: &DeviceImage) -> Vec<Neighbours> {
        let sizes = image.image.size_of_level(self.level);
        (0..self.dimensions).map(|axis| self.neighbours_along(axis, sizes[axis], image.sampler.mode)).collect()
    }

    fn neighbours_along(&self, axis: usize, size: u32, mode: AddressMode) -> Neighbours {
        // The conversion takes infinities to the ends of the range.
        let rounded = (self.in_texels(axis, size, mode) * f64::from(FULL_WEIGHT) + 0.5).floor() as i64;
        let fixed = rounded.clamp(i64::MIN / 2, i64::MAX / 2) - i64::from(FULL_WEIGHT / 2);
        let first = (fixed >> WEIGHT_BITS) + i64::from(self.offsets[axis]);
        let texels = [first, first + 1].map(|texel| inside(texel, size, mode));
        // Beyond the outermost texels of a clamped texture there is no weight to round.
        let is_clamped = mode == AddressMode::Clamp && texels[0] == texels[1];
        let weight = if is_clamped { 0 } else { (fixed & i64::from(FULL_WEIGHT - 1)) as u32 };
        (texels, weight)
    }
}

/// Returns a coordinate as the texture unit reads it: NaN and subnormal numbers are zero.
fn flushed(x: f32) -> f32 {
    if x.is_nan() || x.is_subnormal() { 0.0 } else { x }
}

/// Returns the number of a texel along an axis; `None` beyond a border.
fn inside(texel: i64, size: u32, mode: AddressMode) -> Option<u32> {
    let size = i64::from(size);
    let found = match mode {
        AddressMode::Clamp => texel.clamp(0, size - 1),
        AddressMode::Wrap => texel.rem_euclid(size),
        AddressMode::Mirror => {
            let place = texel.rem_euclid(2 * size);
            if place < size { place } else { 2 * size - 1 - place }
        }
        AddressMode::Border if (0..size).contains(&texel) => texel,
        AddressMode::Border => return None,
    };
    Some(found as u32)
}

/// Returns the layer of a cube map that a direction selects, and the normalized coordinates in it. Without a direction, this is the centre of the
/// layer of +z.
fn face([x, y, z]: [f64; 3]) -> (u32, [f64; 2]) {
    let (face, m, s, t) = match () {
        () if x.abs() > y.abs() && x.abs() > z.abs() => {
            if x >= 0.0 {
                (0, x, -z, -y)
            } else {
                (1, -x, z, -y)
            }
        }
        () if y.abs() > z.abs() => {
            if y >= 0.0 {
                (2, y, x, z)
            } else {
                (3, -y, x, -z)
            }
        }
        () if z >= 0.0 => (4, z, x, -y),
        () => (5, -z, -x, -y),
    };
    let divided = |place: f64| if m == 0.0 { 0.0 } else { place / m };
    (face, [s, t].map(|place| (divided(place) + 1.0) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::tests::image;

    fn fetch(dimensions: usize, arrangement: Arrangement, index: u32, coordinates: [f32; 3]) -> Fetch {
        let geometry = Geometry::new(dimensions, arrangement);
        Fetch { geometry, level: Level::Base, index, sample: 0, coordinates: coordinates.map(f32::to_bits), offsets: [0; 3] }
    }

    fn plain(dimensions: usize, coordinates: [f32; 3]) -> Fetch {
        fetch(dimensions, Arrangement::Single, 0, coordinates)
    }

    fn first(result: Result<[Option<u32>; 4], String>) -> f32 {
        f32::from_bits(result.unwrap()[0].unwrap())
    }

    /// The CUDA programming guide's rules, by hand, for four texels.
    #[test]
    fn coordinates_outside_follow_the_mode() {
        let modes = [
            ("clamp", [(-0.1, 0), (0.26, 1), (1.3, 3)]),
            ("wrap normalized", [(-0.1, 3), (0.26, 1), (1.3, 1)]),
            ("mirror normalized", [(-0.1, 0), (0.26, 1), (1.3, 2)]),
        ];
        for (mode, cases) in modes {
            let (memory, image) = image(&format!("texture u32 4 {mode} = index"));
            for (x, texel) in cases {
                let x = if image.sampler.is_normalized { x } else { x * 4.0 };
                assert_eq!(memory.sample(&image, &plain(1, [x, 0.0, 0.0])), Ok([Some(texel), None, None, None]), "{mode} {x}");
            }
        }
        let (memory, image) = image("texture s8x2 4x2 border = ff*16");
        assert_eq!(memory.sample(&image, &plain(2, [3.5, 1.5, 0.0])), Ok([Some(u32::MAX), Some(u32::MAX), None, None]));
        assert_eq!(memory.sample(&image, &plain(2, [3.5, 2.0, 0.0])), Ok([Some(0), Some(0), None, None]));
    }

    /// Four texels 0, 1, 2, 3 (or 0, 16, 32, 48 with a filter), at the centre of texel 1 with offsets. The mode applies to the texel with its
    /// offset: -1 - 1 is texel 3 of a wrapped texture and texel 0 of a mirrored one.
    #[test]
    fn offsets_count_texels() {
        let modes = [
            ("clamp", [(-2, 0), (-1, 0), (1, 2), (7, 3)]),
            ("wrap normalized", [(-2, 3), (-1, 0), (1, 2), (7, 0)]),
            ("mirror normalized", [(-2, 0), (-1, 0), (1, 2), (4, 2)]),
        ];
        for (mode, cases) in modes {
            let (memory, plain_image) = image(&format!("texture u32 4 {mode} = index"));
            let (filtered, linear_image) = image(&format!("texture f32 4 {mode} linear = 0 41800000 42000000 42400000"));
            for (offset, texel) in cases {
                let x = if plain_image.sampler.is_normalized { 0.375 } else { 1.5 };
                let fetch = Fetch { offsets: [offset, 0, 0], ..plain(1, [x, 0.0, 0.0]) };
                assert_eq!(memory.sample(&plain_image, &fetch), Ok([Some(texel), None, None, None]), "{mode} {offset}");
                assert_eq!(first(filtered.sample(&linear_image, &fetch)), 16.0 * texel as f32, "{mode} {offset}");
            }
        }
        let (memory, image) = image("texture u32 4x2 = index");
        let at = |x: u32, y: u32, offsets: [i32; 3]| Fetch { coordinates: [x, y, 0], offsets, ..plain(2, [0.0; 3]) };
        assert_eq!(memory.texel_at(&image, &at(1, 0, [2, 1, 0])), Ok([Some(7), None, None, None]));
        assert!(memory.texel_at(&image, &at(1, 0, [-2, 0, 0])).is_err());
    }

    /// Four texels 0, 16, 32 and 48. With a weight of 64 / 256 for the second texel, the results are a quarter of the way.
    #[test]
    fn linear_filtering_interpolates() {
        let contents = "= 0 41800000 42000000 42400000";
        let cases = [
            ("clamp", [(0.5, 0.0), (1.75, 20.0), (0.25, 0.0), (3.75, 48.0), (-9.0, 0.0), (1.501, 16.0)]),
            ("border", [(0.5, 0.0), (1.75, 20.0), (4.0, 24.0), (3.75, 36.0), (-9.0, 0.0), (4.5, 0.0)]),
            ("wrap normalized", [(0.125, 0.0), (0.4375, 20.0), (0.0, 24.0), (1.4375, 20.0), (-0.0625, 36.0), (0.9375, 36.0)]),
            ("mirror normalized", [(0.125, 0.0), (0.4375, 20.0), (0.0, 0.0), (1.5625, 20.0), (-0.4375, 20.0), (1.0, 48.0)]),
        ];
        for (mode, cases) in cases {
            let (memory, image) = image(&format!("texture f32 4 {mode} linear {contents}"));
            for (x, value) in cases {
                assert_eq!(first(memory.sample(&image, &plain(1, [x, 0.0, 0.0]))), value, "{mode} {x}");
            }
        }
        // Two by two texels 0, 16 / 32, 48: the middle is their mean, 24. A quarter to the right and half way down: 4 + 16.
        let (memory, image) = image(&format!("texture f32 2x2 linear {contents}"));
        assert_eq!(first(memory.sample(&image, &plain(2, [1.0, 1.0, 0.0]))), 24.0);
        assert_eq!(first(memory.sample(&image, &plain(2, [0.75, 1.0, 0.0]))), 20.0);
        let gathered = memory.gather(&image, &plain(2, [1.0, 1.0, 0.0]), 0).unwrap();
        assert_eq!(gathered.map(|texel| f32::from_bits(texel.unwrap())), [32.0, 48.0, 16.0, 0.0]);
    }

    #[test]
    fn layers_faces_and_levels_are_selected() {
        let (memory, layers) = image("texture u32 2x2 layers:3 = index");
        let at = |index| memory.sample(&layers, &fetch(2, Arrangement::Layers, index, [1.5, 0.5, 0.0])).unwrap()[0];
        assert_eq!([at(0), at(2), at(9)], [Some(1), Some(9), Some(9)]);
        // The directions of the six layers, in the guide's order.
        let (memory, cube) = image("texture u32 1x1 cube = index");
        let directions = [[2.0, 1.0, 0.0], [-2.0, 1.0, 1.0], [1.0, 3.0, 0.0], [1.0, -3.0, 0.0], [0.0, 1.0, 2.0], [0.0, 1.0, -2.0]];
        for (layer, direction) in (0..).zip(directions) {
            assert_eq!(memory.sample(&cube, &fetch(2, Arrangement::Cube, 0, direction)).unwrap()[0], Some(layer), "{direction:?}");
        }
        // The +x layer: s = -z, t = -y. z = -1, y = -1 is at (0.75, 0.75) of two by two texels, which is the last one.
        let (memory, cube) = image("texture u32 2x2 cube = index");
        assert_eq!(memory.sample(&cube, &fetch(2, Arrangement::Cube, 0, [2.0, -1.0, -1.0])).unwrap()[0], Some(3));
        assert!(memory.sample(&cube, &plain(2, [0.5; 3])).is_err());
        let (memory, levels) = image("texture u32 4x2 normalized levels:3 = index");
        let mut fetch = plain(2, [0.9, 0.9, 0.0]);
        for (level, texel) in
            [(Level::Base, 7), (Level::Float(1.0), 9), (Level::Float(2.0), 10), (Level::Float(7.5), 10), (Level::Float(-32.0), 7)]
        {
            fetch.level = level;
            assert_eq!(memory.sample(&levels, &fetch).unwrap()[0], Some(texel), "{level:?}");
        }
        // The nearest level.
        for (level, texel) in [(0.25, 7), (0.499, 7), (0.5, 9), (0.75, 9), (1.375, 9), (1.625, 10)] {
            fetch.level = Level::Float(level);
            assert_eq!(memory.sample(&levels, &fetch).unwrap()[0], Some(texel), "{level}");
        }
        // A derivative of half a texture is two texels of level 0, which is level 1.
        for (derivatives, texel) in
            [([[0.25, 0.0, 0.0]; 2], 7), ([[0.0; 3], [0.5, 0.0, 0.0]], 9), ([[0.0, -1.0, 0.0], [0.0; 3]], 9), ([[8.0; 3]; 2], 10)]
        {
            fetch.level = Level::Gradient(derivatives);
            assert_eq!(memory.sample(&levels, &fetch).unwrap()[0], Some(texel), "{derivatives:?}");
        }
    }

    #[test]
    fn levels_are_interpolated() {
        // The levels are 0 1 2 3, 4 5 and 6. At 0.1 the nearest texels are 0, 4 and 6; at 0.5 linear filtering gives 1.5, 4.5 and 6.
        for (description, x, expected) in [
            ("texture f32 4 normalized levels:3 linear-levels", 0.1, [0.0, 1.0, 2.0, 4.0, 4.5, 6.0, 6.0]),
            ("texture f32 4 normalized linear levels:3 linear-levels", 0.5, [1.5, 2.25, 3.0, 4.5, 4.875, 6.0, 6.0]),
        ] {
            let (memory, image) = image(&format!("{description} = 0 3f800000 40000000 40400000 40800000 40a00000 40c00000"));
            let mut fetch = plain(1, [x, 0.0, 0.0]);
            for (level, expected) in [-1.0, 0.25, 0.5, 1.0, 1.25, 2.0, 7.5].into_iter().zip(expected) {
                fetch.level = Level::Float(level);
                assert_eq!(memory.sample(&image, &fetch).unwrap()[0], Some(f32::to_bits(expected)), "{description}, level {level}");
            }
        }
    }

    /// Results of an H200 (`tools/textures/probe.py`): textures, and for each some fetches.
    const PROBES: &str = include_str!("../tests/data/texture_probes.txt");

    /// The words of a line of bits.
    fn words(text: &str) -> Vec<u32> {
        text.split_whitespace().map(|word| u32::from_str_radix(word, 16).unwrap()).collect()
    }

    #[test]
    fn results_are_those_of_a_gpu() {
        let mut texture = None;
        let mut count = 0;
        for line in PROBES.lines().filter(|line| !line.starts_with('#')) {
            if line.starts_with("texture") {
                texture = Some((line, image(line)));
                continue;
            }
            let (name, (memory, image)) = texture.as_ref().unwrap();
            let (kind, rest) = line.split_once(' ').unwrap();
            let (place, expected) = rest.split_once(':').unwrap();
            let (place, expected) = (words(place), words(expected));
            let geometry = Geometry::of(&image.image);
            let mut coordinates = [0; 3];
            coordinates.copy_from_slice(&place[..3]);
            let derivatives = |by: usize| [0, 1, 2].map(|axis| f32::from_bits(place[3 + 3 * by + axis]));
            let level = match kind {
                "level" => Level::Float(f32::from_bits(place[3])),
                "gradient" => Level::Gradient([derivatives(0), derivatives(1)]),
                _ => Level::Base,
            };
            let fetch = Fetch { geometry, level, index: 0, sample: 0, coordinates, offsets: [0; 3] };
            let found = if kind == "gather" { memory.gather(image, &fetch, 0) } else { memory.sample(image, &fetch) };
            let found: Vec<u32> = found.unwrap().into_iter().flatten().collect();
            assert_eq!(found, expected, "{name}\n{line}");
            count += 1;
        }
        assert!(count > 8000, "{count} fetches");
    }
}
