//! Judging outputs.

use crate::{Element, Expectation, Expected, Tolerance};
use oriole_sem::Format;
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::{Mode, order_key};
use oriole_sem::format::F64;
use std::fmt;

/// The first element that is wrong, and how many are.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    pub parameter: String,
    pub index: usize,
    pub expected: Option<Expected>,
    pub got: u64,
    pub wrong_elements: usize,
    pub elements: usize,
    element: Element,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.element.bytes() * 2;
        write!(f, "{}[{}]: expected ", self.parameter, self.index)?;
        match self.expected {
            Some(Expected::Bits(bits)) => write!(f, "{bits:0digits$x}")?,
            Some(Expected::Either(a, b)) => write!(f, "{a:0digits$x} or {b:0digits$x}")?,
            Some(Expected::Nan) => write!(f, "NaN")?,
            Some(Expected::Any) | None => write!(f, "nothing")?,
        }
        write!(f, ", got {:0digits$x} ({} of {} elements wrong)", self.got, self.wrong_elements, self.elements)
    }
}

impl Expectation {
    /// Compares a buffer's bytes after the launch; `None` if all is well.
    pub fn compare(&self, element: Element, bytes: &[u8]) -> Option<Difference> {
        let got: Vec<u64> = bytes
            .chunks_exact(element.bytes())
            .map(|chunk| chunk.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
            .collect();
        let difference = |index: usize, expected, got, wrong_elements| Difference {
            parameter: self.parameter.clone(),
            index,
            expected,
            got,
            wrong_elements,
            elements: self.values.len(),
            element,
        };
        if self.tolerance == Tolerance::AnyOrder {
            let (wanted, found) = (sorted(self.values.iter().filter_map(|e| e.bits())), sorted(got.into_iter()));
            let wrong = wanted.iter().zip(&found).filter(|(a, b)| a != b).count();
            let first = wanted.iter().zip(&found).position(|(a, b)| a != b)?;
            return Some(difference(first, Some(Expected::Bits(wanted[first])), found[first], wrong));
        }
        let wrong: Vec<usize> = (0..self.values.len().min(got.len())).filter(|&i| !self.accepts(element, self.values[i], got[i])).collect();
        let &first = wrong.first()?;
        Some(difference(first, Some(self.values[first]), got[first], wrong.len()))
    }

    fn accepts(&self, element: Element, expected: Expected, got: u64) -> bool {
        match expected {
            Expected::Any => true,
            Expected::Nan => element.format().is_some_and(|format| format.is_nan(got)),
            Expected::Either(a, b) => got == a || got == b,
            Expected::Bits(bits) if bits == got => true,
            Expected::Bits(bits) => match (self.tolerance, element.format()) {
                (Tolerance::Near { ulp, absolute, relative }, Some(format)) => is_near(format, bits, got, ulp, absolute, relative),
                _ => false,
            },
        }
    }
}

impl Expected {
    fn bits(self) -> Option<u64> {
        match self {
            Expected::Bits(bits) => Some(bits),
            _ => None,
        }
    }
}

fn sorted(values: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut values: Vec<u64> = values.collect();
    values.sort_unstable();
    values
}

fn is_near(format: Format, expected: u64, got: u64, ulp: u64, absolute: f64, relative: f64) -> bool {
    if format.is_nan(expected) || format.is_nan(got) {
        return false;
    }
    let steps = |bits: u64| {
        let key = order_key(format, bits);
        if key < 0 { key + 1 } else { key }
    };
    let value = |bits: u64| f64::from_bits(float_to_float(F64, format, bits, Mode::RN, Overflow::Ieee));
    let error = (value(expected) - value(got)).abs();
    steps(expected).abs_diff(steps(got)) <= ulp || error <= absolute || error <= relative * value(expected).abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expectation(tolerance: Tolerance, values: &[Expected]) -> Expectation {
        Expectation { parameter: "out".into(), tolerance, values: values.to_vec() }
    }

    #[test]
    fn closeness_crosses_zero_but_not_nan() {
        let near = expectation(Tolerance::Near { ulp: 2, absolute: 0.0, relative: 0.0 }, &[Expected::Bits(1)]);
        assert_eq!(near.compare(Element::F32, &0x8000_0001u32.to_le_bytes()), None);
        assert!(near.compare(Element::F32, &0x8000_0002u32.to_le_bytes()).is_some());
        assert!(near.compare(Element::F32, &0x7fff_ffffu32.to_le_bytes()).is_some());
    }

    #[test]
    fn order_may_be_ignored() {
        let set = expectation(Tolerance::AnyOrder, &[Expected::Bits(1), Expected::Bits(2)]);
        assert_eq!(set.compare(Element::U8, &[2, 1]), None);
        assert_eq!(set.compare(Element::U8, &[2, 2]).map(|d| d.got), Some(2));
    }

    #[test]
    fn the_first_difference_is_named() {
        let exact = expectation(Tolerance::Exact, &[Expected::Bits(1), Expected::Bits(2), Expected::Nan]);
        let text = exact.compare(Element::F16, &[1, 0, 3, 0, 4, 0]).map(|d| d.to_string());
        assert_eq!(text.as_deref(), Some("out[1]: expected 0002, got 0003 (2 of 3 elements wrong)"));
    }
}
