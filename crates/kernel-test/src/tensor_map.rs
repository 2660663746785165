//! Tensor maps: descriptions of a buffer as a tensor, from which tensor copies (`cp.async.bulk.tensor`) take boxes.
//!
//! `tensormap u32 64x32 box 16x8 swizzle 64 = a` is the map of the buffer `a` with 32 dense rows of 64 elements.

use crate::Element;
use std::fmt::Write;

/// Maximum number of dimensions.
const MOST_DIMENSIONS: usize = 5;
/// Maximum size of a box in one dimension.
const MOST_BOX: u64 = 256;
/// Maximum step between elements in one dimension.
const MOST_STEP: u64 = 8;
/// Strides in bytes are multiples of this number.
const STRIDE_UNIT: u64 = 16;

/// A description of a buffer as a dense tensor. The first dimension is that of consecutive elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMap {
    pub element: Element,
    /// Number of elements in each dimension.
    pub sizes: Vec<u64>,
    /// Size of a box in each dimension.
    pub box_sizes: Vec<u32>,
    /// In each dimension the distance of the elements that are copied; that of the first must be 1.
    pub steps: Vec<u32>,
    /// Bytes of the pattern in which 16-byte pieces are permuted in shared memory: 32, 64 or 128; 0 for none.
    pub swizzle: u32,
    /// Name of the buffer.
    pub buffer: String,
}

impl TensorMap {
    /// Returns the distances in bytes of consecutive elements in each dimension but the first.
    pub fn strides(&self) -> Vec<u64> {
        let mut stride = self.element.bytes() as u64;
        let dimensions = self.sizes.iter().take(self.sizes.len() - 1);
        dimensions
            .map(|size| {
                stride *= size;
                stride
            })
            .collect()
    }

    /// Returns the number of elements of the tensor.
    pub fn count(&self) -> u64 {
        self.sizes.iter().fold(1, |count, &size| count.saturating_mul(size))
    }

    /// Parses the words before and the name after `=`.
    pub(crate) fn read(kind: &str, buffer: &str) -> Result<TensorMap, String> {
        let mut words = kind.split_whitespace().skip(1);
        let element = words.next().and_then(Element::from_name).ok_or("a tensor map without a type")?;
        let sizes = read_sizes(words.next().ok_or("a tensor map without sizes")?, u64::from(u32::MAX))?;
        let mut map =
            TensorMap { element, box_sizes: Vec::new(), steps: vec![1; sizes.len()], swizzle: 0, buffer: buffer.to_owned(), sizes };
        while let Some(word) = words.next() {
            let narrow = |sizes: Vec<u64>| sizes.into_iter().map(|size| size as u32).collect();
            match (word, words.next()) {
                ("box", Some(sizes)) => map.box_sizes = narrow(read_sizes(sizes, MOST_BOX)?),
                ("step", Some(sizes)) => map.steps = narrow(read_sizes(sizes, MOST_STEP)?),
                ("swizzle", Some(bytes @ ("32" | "64" | "128"))) => map.swizzle = bytes.parse().map_err(|_| "no swizzle")?,
                _ => return Err(format!("unknown word `{word}` of a tensor map")),
            }
        }
        if map.box_sizes.len() != map.sizes.len() || map.steps.len() != map.sizes.len() {
            return Err("a tensor map whose sizes, box and steps have different numbers of dimensions".into());
        }
        if map.strides().iter().any(|stride| !stride.is_multiple_of(STRIDE_UNIT)) {
            return Err(format!("a stride of a tensor map is no multiple of {STRIDE_UNIT} bytes"));
        }
        Ok(map)
    }

    /// Returns the text that [`TensorMap::read`] accepts, without the buffer.
    pub(crate) fn text(&self) -> String {
        fn joined<T: ToString>(sizes: &[T]) -> String {
            sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join("x")
        }
        let mut text = format!("tensormap {} {} box {}", self.element.name(), joined(&self.sizes), joined(&self.box_sizes));
        if self.steps.iter().any(|&step| step != 1) {
            let _ = write!(text, " step {}", joined(&self.steps));
        }
        if self.swizzle != 0 {
            let _ = write!(text, " swizzle {}", self.swizzle);
        }
        text
    }
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
