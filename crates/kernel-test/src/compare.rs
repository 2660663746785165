//! Comparison of the outputs of a kernel with the expected values.

use crate::{Element, Expectation, Expected, Tolerance};
use oriole_sem::Format;
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::float::{Mode, order_key};
use oriole_sem::format::F64;
use std::cmp::Ordering;
use std::fmt;

/// The first wrong element of a buffer, and the number of wrong ones.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Name of the buffer.
    pub parameter: String,
    /// Position of the element; among the sorted elements if the order does not matter.
    pub index: usize,
    pub expected: Option<Expected>,
    /// The bits found.
    pub got: u64,
    pub wrong_elements: usize,
    pub elements: usize,
    element: Element,
}

/// An element that does not have its expected value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WrongElement {
    /// Position of the element; among the sorted elements if the order does not matter.
    pub index: usize,
    pub expected: Expected,
    pub got: u64,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.element.bytes() * 2;
        write!(f, "{}[{}]: expected ", self.parameter, self.index)?;
        match self.expected {
            Some(Expected::Bits(bits)) => write!(f, "{bits:0digits$x}")?,
            Some(Expected::Either(a, b)) => write!(f, "{a:0digits$x} or {b:0digits$x}")?,
            Some(Expected::Nan) => write!(f, "NaN")?,
            Some(Expected::Interpreter) => write!(f, "what the interpreter says")?,
            Some(Expected::Any) | None => write!(f, "nothing")?,
        }
        write!(f, ", got {:0digits$x} ({} of {} elements wrong)", self.got, self.wrong_elements, self.elements)
    }
}

impl Expectation {
    /// Compares the bytes of a buffer after the launch; `None` if all elements are as expected.
    pub fn compare(&self, element: Element, bytes: &[u8]) -> Option<Difference> {
        let wrong = self.wrong_elements(element, bytes);
        let first = wrong.first()?;
        Some(Difference {
            parameter: self.parameter.clone(),
            index: first.index,
            expected: Some(first.expected),
            got: first.got,
            wrong_elements: wrong.len(),
            elements: self.values.len(),
            element,
        })
    }

    /// Returns all wrong elements of a buffer, given its bytes after the launch.
    pub fn wrong_elements(&self, element: Element, bytes: &[u8]) -> Vec<WrongElement> {
        let got = element.values_of(bytes);
        if self.tolerance == Tolerance::AnyOrder {
            return self.wrong_in_any_order(element, got);
        }
        let pairs = self.values.iter().zip(got).enumerate().filter(|&(_, (&expected, got))| !self.accepts(element, expected, got));
        pairs.map(|(index, (&expected, got))| WrongElement { index, expected, got }).collect()
    }

    /// Compares as multisets. Elements are matched with single values first; looser expectations (`nan`, `?`, `a|b`) take what is left.
    /// Indices of wrong elements count the values without a match.
    fn wrong_in_any_order(&self, element: Element, got: Vec<u64>) -> Vec<WrongElement> {
        let mut single: Vec<u64> = self.values.iter().filter_map(|expected| expected.bits()).collect();
        let mut found = got;
        single.sort_unstable();
        found.sort_unstable();
        let (mut missing, mut left) = (Vec::new(), Vec::new());
        let (mut single, mut found) = (single.into_iter().peekable(), found.into_iter().peekable());
        while let (Some(&wanted), Some(&value)) = (single.peek(), found.peek()) {
            match wanted.cmp(&value) {
                Ordering::Equal => (single.next(), found.next()),
                Ordering::Less => (single.next().inspect(|_| missing.push(Expected::Bits(wanted))), None),
                Ordering::Greater => (None, found.next().inspect(|_| left.push(value))),
            };
        }
        missing.extend(single.map(Expected::Bits));
        left.extend(found);
        // An element that anything may match goes last, so that it does not take what another expectation needs.
        let mut loose: Vec<Expected> = self.values.iter().copied().filter(|expected| expected.bits().is_none()).collect();
        loose.sort_by_key(|expected| *expected == Expected::Any);
        for expected in loose {
            match left.iter().position(|&value| self.accepts(element, expected, value)) {
                Some(at) => drop(left.swap_remove(at)),
                None => missing.push(expected),
            }
        }
        missing.into_iter().zip(left).enumerate().map(|(index, (expected, got))| WrongElement { index, expected, got }).collect()
    }

    /// Returns whether an element has its expected value, within the tolerance.
    fn accepts(&self, element: Element, expected: Expected, got: u64) -> bool {
        match expected {
            Expected::Any => true,
            Expected::Interpreter => false,
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

impl Expectation {
    /// Replaces [`Expected::Interpreter`] by the values that the interpreter left in the buffer.
    pub fn resolve(&mut self, element: Element, bytes: &[u8]) {
        for (expected, got) in self.values.iter_mut().zip(element.values_of(bytes)) {
            if *expected == Expected::Interpreter {
                *expected = Expected::Bits(got);
            }
        }
    }
}

impl Expected {
    /// Returns the expected bits; `None` if the expectation is not a single value.
    fn bits(self) -> Option<u64> {
        match self {
            Expected::Bits(bits) => Some(bits),
            _ => None,
        }
    }
}

/// Returns whether two numbers are close by at least one of the three measures. NaN is close to nothing.
fn is_near(format: Format, expected: u64, got: u64, ulp: u64, absolute: f64, relative: f64) -> bool {
    if format.is_nan(expected) || format.is_nan(got) {
        return false;
    }
    // Maps both zeros to 0, so that the difference of two keys is the distance in units in the last place.
    let steps = |bits: u64| {
        let key = order_key(format, bits);
        if key < 0 { key + 1 } else { key }
    };
    let value = |bits: u64| f64::from_bits(float_to_float(F64, format, bits, Mode::RN, Overflow::Ieee));
    let error = (value(expected) - value(got)).abs();
    steps(expected).abs_diff(steps(got)) <= ulp || error <= absolute || error <= relative * value(expected).abs()
}
