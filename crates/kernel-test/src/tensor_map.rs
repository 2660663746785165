//! Tensor maps: descriptions of a buffer as a tensor, from which tensor copies (`cp.async.bulk.tensor`) take boxes or columns of pixels.
//!
//! `tensormap u32 64x32 box 16x8 swizzle 64 = a` is the map of the buffer `a` with 32 dense rows of 64 elements.
//! `tensormap u32 16x6x5x2 columns 16x9 from -1,-1 to -1,-1 = a` is a map for `.im2col`: two images of 6 x 5 pixels with 16 channels, of
//! which a copy takes 16 channels of nine pixels.

use crate::Element;
use std::fmt::Write;

/// Maximum number of dimensions.
const MOST_DIMENSIONS: usize = 5;
/// Maximum size of a box in one dimension, and maximum number of channels of a column.
const MOST_BOX: u64 = 256;
/// Maximum number of pixels of a column.
const MOST_PIXELS: u64 = 1024;
/// Maximum step between elements in one dimension.
const MOST_STEP: u64 = 8;
/// Strides in bytes are multiples of this number.
const STRIDE_UNIT: u64 = 16;

/// A description of a buffer as a dense tensor. The first dimension is that of consecutive elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    pub element: Element,
    /// What a copy changes in `f32` elements.
    pub conversion: Conversion,
    /// Number of elements in each dimension; for an interleaved layout the first dimension counts slices of one pixel.
    pub sizes: Vec<u64>,
    pub region: Region,
    /// In each dimension the distance of the elements that are copied; that of the first is ignored unless the layout is interleaved.
    pub steps: Vec<u32>,
    /// Bytes of the pattern in which 16-byte pieces are permuted in shared memory: 32, 64 or 128; 0 for none.
    pub swizzle: u32,
    /// Bytes of the slices of channels of an interleaved layout: 16 or 32; 0 for none.
    pub interleave: u32,
    /// Whether elements outside of the tensor are NaN instead of zero.
    pub fills_with_nan: bool,
    /// Name of the buffer.
    pub buffer: String,
}

/// The part of a tensor that a copy moves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Region {
    /// A box with these sizes.
    Box(Vec<u32>),
    /// Some channels of consecutive pixels in a part of the images (`.im2col`).
    Columns {
        channels: u32,
        pixels: u32,
        /// First coordinate of the part in each dimension of an image.
        lower: Vec<i32>,
        /// Last coordinate of the part in each dimension of an image, relative to the last one of the image.
        upper: Vec<i32>,
    },
}

/// A change of `f32` elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Conversion {
    #[default]
    None,
    /// Reductions flush subnormal numbers.
    Flush,
    /// Loads round to `tf32`.
    Tf32,
    /// Loads round to `tf32`, reductions flush subnormal numbers.
    Tf32Flush,
}

impl Conversion {
    /// The words of a header.
    const NAMES: [(&str, Conversion); 3] = [("ftz", Conversion::Flush), ("tf32", Conversion::Tf32), ("tf32-ftz", Conversion::Tf32Flush)];
}

impl TensorMap {
    /// Returns the map of boxes with some sizes, with step 1, and neither swizzle nor interleaved layout.
    pub fn of_boxes(element: Element, sizes: &[u64], box_sizes: &[u32], buffer: &str) -> TensorMap {
        TensorMap {
            element,
            conversion: Conversion::None,
            steps: vec![1; sizes.len()],
            sizes: sizes.to_vec(),
            region: Region::Box(box_sizes.to_vec()),
            swizzle: 0,
            interleave: 0,
            fills_with_nan: false,
            buffer: buffer.to_owned(),
        }
    }

    /// Returns the distances in bytes of consecutive elements in each dimension but the first.
    pub fn strides(&self) -> Vec<u64> {
        let mut stride = self.unit_bytes();
        let dimensions = self.sizes.iter().take(self.sizes.len() - 1);
        dimensions
            .map(|size| {
                stride *= size;
                stride
            })
            .collect()
    }

    /// Returns the bytes of the tensor.
    pub fn bytes(&self) -> u64 {
        self.sizes.iter().fold(self.unit_bytes(), |bytes, &size| bytes.saturating_mul(size))
    }

    /// Returns the distance in bytes of consecutive elements, or of the slices of consecutive pixels of an interleaved layout.
    fn unit_bytes(&self) -> u64 {
        match self.interleave {
            0 => self.element.bytes() as u64,
            bytes => u64::from(bytes),
        }
    }

    /// Parses the words before and the name after `=`.
    pub(crate) fn read(kind: &str, buffer: &str) -> Result<TensorMap, String> {
        let mut words = kind.split_whitespace().skip(1);
        let element = words.next().and_then(Element::from_name).ok_or("a tensor map without a type")?;
        let sizes = read_sizes(words.next().ok_or("a tensor map without sizes")?, u64::from(u32::MAX))?;
        let mut map = TensorMap::of_boxes(element, &sizes, &[], buffer);
        let narrow = |sizes: Vec<u64>| sizes.into_iter().map(|size| size as u32).collect::<Vec<u32>>();
        while let Some(word) = words.next() {
            match (word, words.next()) {
                ("box", Some(sizes)) => map.region = Region::Box(narrow(read_sizes(sizes, MOST_BOX)?)),
                ("columns", Some(sizes)) => map.region = read_columns(sizes, &mut words)?,
                ("step", Some(sizes)) => map.steps = narrow(read_sizes(sizes, MOST_STEP)?),
                ("swizzle", Some(bytes @ ("32" | "64" | "128"))) => map.swizzle = bytes.parse().map_err(|_| "no swizzle")?,
                ("interleave", Some(bytes @ ("16" | "32"))) => map.interleave = bytes.parse().map_err(|_| "no interleaved layout")?,
                ("fill", Some("nan")) => map.fills_with_nan = true,
                ("convert", Some(name)) => {
                    let known = Conversion::NAMES.iter().find(|(known, _)| *known == name);
                    map.conversion = known.ok_or("an unknown conversion of a tensor map")?.1;
                }
                _ => return Err(format!("unknown word `{word}` of a tensor map")),
            }
        }
        map.check()?;
        Ok(map)
    }

    /// Fails if parts of the map contradict each other.
    fn check(&self) -> Result<(), String> {
        let rank = self.sizes.len();
        let has_dimensions = match &self.region {
            Region::Box(sizes) => sizes.len() == rank,
            Region::Columns { lower, upper, .. } => rank >= 3 && lower.len() == rank - 2 && upper.len() == rank - 2,
        };
        if !has_dimensions || self.steps.len() != rank {
            return Err("a tensor map whose sizes, box or columns, and steps have different numbers of dimensions".into());
        }
        if self.interleave != 0 && rank < 3 {
            return Err("an interleaved tensor map with less than three dimensions".into());
        }
        if self.conversion != Conversion::None && self.element != Element::F32 {
            return Err("a conversion of elements that are not f32".into());
        }
        if self.strides().iter().any(|stride| !stride.is_multiple_of(STRIDE_UNIT)) {
            return Err(format!("a stride of a tensor map is no multiple of {STRIDE_UNIT} bytes"));
        }
        Ok(())
    }

    /// Returns the text that [`TensorMap::read`] accepts, without the buffer.
    pub(crate) fn text(&self) -> String {
        fn joined<T: ToString>(sizes: &[T], separator: &str) -> String {
            sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(separator)
        }
        let mut text = format!("tensormap {} {}", self.element.name(), joined(&self.sizes, "x"));
        let _ = match &self.region {
            Region::Box(sizes) => write!(text, " box {}", joined(sizes, "x")),
            Region::Columns { channels, pixels, lower, upper } => {
                write!(text, " columns {channels}x{pixels} from {} to {}", joined(lower, ","), joined(upper, ","))
            }
        };
        if self.steps.iter().any(|&step| step != 1) {
            let _ = write!(text, " step {}", joined(&self.steps, "x"));
        }
        if self.swizzle != 0 {
            let _ = write!(text, " swizzle {}", self.swizzle);
        }
        if self.interleave != 0 {
            let _ = write!(text, " interleave {}", self.interleave);
        }
        if self.fills_with_nan {
            text += " fill nan";
        }
        if let Some((name, _)) = Conversion::NAMES.iter().find(|(_, conversion)| *conversion == self.conversion) {
            let _ = write!(text, " convert {name}");
        }
        text
    }
}

/// Parses columns such as `16x9 from -1,-1 to 0,0`, of which the first word is `sizes`.
fn read_columns<'t>(sizes: &str, words: &mut impl Iterator<Item = &'t str>) -> Result<Region, String> {
    let (channels, pixels) = sizes.split_once('x').ok_or("columns without channels and pixels")?;
    let number = |text: &str, most: u64| text.parse::<u32>().ok().filter(|&size| (1..=most).contains(&u64::from(size)));
    let channels = number(channels, MOST_BOX).ok_or("a wrong number of channels")?;
    let pixels = number(pixels, MOST_PIXELS).ok_or("a wrong number of pixels")?;
    let mut corner = |name: &str| {
        let numbers = words.next().filter(|&word| word == name).and_then(|_| words.next());
        let numbers = numbers.ok_or_else(|| format!("columns of a tensor map without `{name}`"))?;
        let numbers: Result<Vec<i32>, _> = numbers.split(',').map(|number| number.parse::<i16>().map(i32::from)).collect();
        numbers.map_err(|_| "a corner of a tensor map is no number".to_owned())
    };
    let (lower, upper) = (corner("from")?, corner("to")?);
    Ok(Region::Columns { channels, pixels, lower, upper })
}

/// Parses sizes such as `64x32`.
fn read_sizes(text: &str, most: u64) -> Result<Vec<u64>, String> {
    let sizes: Result<Vec<u64>, _> = text.split('x').map(str::parse).collect();
    let sizes = sizes.map_err(|_| "a size of a tensor map is no number")?;
    match sizes.len() <= MOST_DIMENSIONS && sizes.iter().all(|size| (1..=most).contains(size)) {
        true => Ok(sizes),
        false => Err(format!("a tensor map has at most {MOST_DIMENSIONS} dimensions, and these sizes from 1 to {most}")),
    }
}
