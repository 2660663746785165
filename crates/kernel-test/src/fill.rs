//! Initial contents of buffers: explicit values, sets of boundary values, seeded random values.
//!
//! A fill is a list of consecutive segments. Every value is a function of the element type, the seed and the position in the segment, so a
//! header of a few words describes thousands of values.

use crate::Element;
use oriole_sem::Format;

/// The initial contents of a buffer. Elements after the last segment are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fill(pub Vec<Segment>);

/// A run of elements from one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    pub source: Source,
    /// Number of elements; `None` for all remaining ones.
    pub count: Option<usize>,
}

/// The source of the values of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Value(u64),
    /// The position in the buffer.
    Index,
    /// The boundary values of the type, cyclically, each repeated `stride` times. Two buffers with strides 1 and n (the number of values)
    /// contain all pairs.
    Boundary {
        stride: usize,
    },
    /// Random boundary values.
    Pick {
        seed: u32,
    },
    /// Random bits.
    Random {
        seed: u32,
    },
    /// Integers of random bit length; floats with magnitudes between 1/16 and 16 and random sign.
    Sized {
        seed: u32,
    },
}

impl Fill {
    /// Returns a fill with zeros.
    pub fn zero() -> Fill {
        Fill(vec![Segment { source: Source::Value(0), count: None }])
    }

    /// Returns a fill from sources with element counts.
    pub fn of(segments: &[(Source, usize)]) -> Fill {
        Fill(segments.iter().map(|&(source, count)| Segment { source, count: Some(count) }).collect())
    }

    /// Returns a fill from one source.
    pub fn all(source: Source) -> Fill {
        Fill(vec![Segment { source, count: None }])
    }

    /// Returns the elements of a buffer of `count` elements, as bits.
    pub fn values(&self, element: Element, count: usize) -> Vec<u64> {
        let set = boundary(element);
        let mut values = Vec::with_capacity(count);
        for segment in &self.0 {
            let length = segment.count.unwrap_or(usize::MAX).min(count - values.len());
            for i in 0..length {
                let value = match segment.source {
                    Source::Value(bits) => bits,
                    Source::Index => values.len() as u64,
                    Source::Boundary { stride } => set[i / stride % set.len()],
                    Source::Pick { seed } => set[(random(seed, i) % set.len() as u64) as usize],
                    Source::Random { seed } => random(seed, i),
                    Source::Sized { seed } => sized(element, seed, i),
                };
                values.push(value & element.mask());
            }
        }
        values.resize(count, 0);
        values
    }
}

/// Returns a random number: SplitMix64 of seed and position.
pub fn random(seed: u32, position: usize) -> u64 {
    let mut z = (u64::from(seed) << 32 | position as u64).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

/// Returns a random integer of random bit length, or a random float with magnitude between 1/16 and 16.
fn sized(element: Element, seed: u32, position: usize) -> u64 {
    let bits = random(seed, position);
    let choice = random(!seed, position);
    match element.format() {
        Some(format) => {
            let lowest = format.one() - (4 << format.fraction_bits);
            let magnitude = lowest + bits % (8 << format.fraction_bits);
            if choice & 1 == 1 { magnitude | format.sign_bit() } else { magnitude }
        }
        None => {
            let magnitude = (bits & element.mask()) >> (choice % u64::from(element.bits()));
            if element.is_signed() && choice & 0x8000 != 0 { magnitude.wrapping_neg() } else { magnitude }
        }
    }
}

/// Returns the boundary values of a type: zeros, ones, ends of the range, values next to them, bit patterns, NaNs.
pub fn boundary(element: Element) -> Vec<u64> {
    let values = match element.format() {
        Some(format) => float_boundary(format),
        None => integer_boundary(element),
    };
    values.into_iter().map(|bits| bits & element.mask()).collect()
}

fn integer_boundary(element: Element) -> Vec<u64> {
    let (bits, top) = (element.bits(), 1u64 << (element.bits() - 1));
    let half = 1u64 << (bits / 2);
    let mut values = vec![0, 1, 2, 3, 7, 10, 31, half - 1, half, half + 1, top - 1, top, top + 1];
    values.extend([1u64, 2, 3, 7, 10, half - 1, half].map(u64::wrapping_neg));
    values.extend([0x5555_5555_5555_5555, 0x1234_5678_9abc_def1]);
    values
}

fn float_boundary(format: Format) -> Vec<u64> {
    let (one, ulp) = (format.one(), 1u64);
    let exponent = 1u64 << format.fraction_bits;
    let infinity = format.largest(false) + 1;
    let magnitudes = [
        0,
        ulp,
        exponent - 1,
        exponent,
        exponent + 1,
        one - ulp,
        one,
        one + ulp,
        one + exponent / 2,
        one + exponent,
        one - exponent,
        one + u64::from(format.fraction_bits) * exponent,
        infinity - 1,
        infinity,
    ];
    let mut values: Vec<u64> = magnitudes.iter().flat_map(|&x| [x, x | format.sign_bit()]).collect();
    values.push(infinity | (exponent / 2));
    values.push(infinity | 1 | format.sign_bit());
    values
}
