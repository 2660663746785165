//! SIMD video instructions on two halves or four bytes.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use super::scalar::PrimaryOperation;
use super::{ByteRange, ExactNumber, VideoOperand, VideoWord, extracted, signedness};
use crate::context::Select;
use crate::error::Unsupported;
use crate::integer::{Packing, smaller_or_greater};
use crate::ptx::Ptx;

/// A SIMD instruction without its operands.
struct SimdForm {
    operation: PrimaryOperation,
    lanes: usize,
    /// Whether destination, first and second source are signed.
    signed: [bool; 3],
    /// Number of the element that each source reads in each lane. The elements of the first source word are counted before those of the
    /// second: halves are numbered 0 to 3, bytes 0 to 7.
    selected: [Vec<u32>; 2],
    saturates: bool,
    accumulates: bool,
    mask: Vec<bool>,
}

/// How absolute differences of four bytes are computed.
#[derive(Clone, Copy)]
enum ByteDifferences {
    /// By `VABSDIFF4`, which can also add them to a word.
    OneInstruction,
    /// As the differences between the greater and the smaller bytes.
    OfExtremes,
}

/// Returns whether the target computes minima and maxima of four bytes at once.
fn has_byte_extremes(select: &Select<'_>) -> bool {
    select.encodes("VIMNMX.U8x4 R0, R0, R0, PT")
}

/// Emits the smaller or the greater bytes of two words.
fn byte_extremes(select: &mut Select<'_>, is_signed: bool, is_max: bool, a: Operand, b: Operand) -> Operand {
    let (sign, which) = (if is_signed { 'S' } else { 'U' }, if is_max { "!PT" } else { "PT" });
    select.b.define(Class::R, &format!("VIMNMX.{sign}8x4 $, {{}}, {{}}, {which}"), &[a, b])
}

/// Returns the digits of a selector such as `h10` by lane. The last digit belongs to lane 0: `h10` gives `[0, 1]`.
fn digits(selector: &str) -> Vec<u32> {
    selector.chars().rev().filter_map(|digit| digit.to_digit(10)).collect()
}

impl SimdForm {
    fn read(ptx: &Ptx<'_>, operands: &[VideoOperand<'_>]) -> Result<SimdForm, Unsupported> {
        use Opcode::{Vabsdiff2, Vadd2, Vavrg2, Vmax2, Vmin2, Vset2, Vsub2};
        let is_halves = matches!(ptx.opcode(), Vadd2 | Vsub2 | Vavrg2 | Vabsdiff2 | Vmin2 | Vmax2 | Vset2);
        let (lanes, defaults) = if is_halves { (2, ["h10", "h10", "h32"]) } else { (4, ["b3210", "b3210", "b7654"]) };
        let name = |position: usize| operands[position].selector.unwrap_or(defaults[position]);
        let masked = digits(name(0));
        Ok(SimdForm {
            operation: PrimaryOperation::of(ptx)?,
            lanes,
            signed: signedness(ptx),
            selected: [digits(name(1)), digits(name(2))],
            saturates: ptx.has(Modifier::Sat),
            accumulates: ptx.has(Modifier::Add),
            mask: (0..lanes as u32).map(|lane| masked.contains(&lane)).collect(),
        })
    }

    fn bytes(&self) -> u32 {
        4 / self.lanes as u32
    }

    /// Emits the word with the selected elements of one source.
    fn gathered(&self, select: &mut Select<'_>, source: usize, words: [Operand; 2]) -> Operand {
        let elements = &self.selected[source];
        for (first, word) in [(0, words[0]), (self.lanes as u32, words[1])] {
            if elements.iter().copied().eq(first..first + self.lanes as u32) {
                return word;
            }
        }
        let bytes = self.bytes();
        let selector = (0..4).fold(0, |selector, byte| {
            let element = elements[(byte / bytes) as usize];
            selector | (element * bytes + byte % bytes) << (4 * byte)
        });
        select.b.define(Class::R, "PRMT $, {}, {}, {}", &[words[0], selector.into(), words[1]])
    }

    /// Returns how the target computes absolute differences of four bytes at once; `None` if it does not, or if the lanes are others.
    fn byte_differences(&self, select: &Select<'_>) -> Option<ByteDifferences> {
        let is_uniform = self.signed[1] == self.signed[2];
        if self.operation != PrimaryOperation::AbsoluteDifference || self.lanes != 4 || !is_uniform {
            return None;
        }
        if select.encodes("VABSDIFF4.U8 R0, R0, R0, RZ") {
            return Some(ByteDifferences::OneInstruction);
        }
        has_byte_extremes(select).then_some(ByteDifferences::OfExtremes)
    }

    /// Emits the absolute differences of the lanes of two words, as bytes without sign.
    fn absolute_differences(&self, select: &mut Select<'_>, how: ByteDifferences, [a, b]: [Operand; 2]) -> Operand {
        let is_signed = self.signed[1];
        match how {
            ByteDifferences::OneInstruction => {
                let sign = if is_signed { "" } else { ".U8" };
                select.b.define(Class::R, &format!("VABSDIFF4{sign} $, {{}}, {{}}, RZ"), &[a, b])
            }
            ByteDifferences::OfExtremes => {
                let [least, greatest] = [false, true].map(|is_max| byte_extremes(select, is_signed, is_max, a, b));
                select.b.define(Class::R, "VIADD.U8x4 $, {}, -{}", &[greatest, least])
            }
        }
    }

    /// Emits all lanes at once where a few instructions can do that.
    fn packed(&self, select: &mut Select<'_>, words: [Operand; 2]) -> Option<Operand> {
        let [_, a_is_signed, b_is_signed] = self.signed;
        let is_uniform = a_is_signed == b_is_signed;
        let keeps_range = is_uniform && (!self.saturates || self.signed[0] == a_is_signed);
        match self.operation {
            PrimaryOperation::Add | PrimaryOperation::Subtract if !self.saturates => {
                let [a, b] = [0, 1].map(|source| self.gathered(select, source, words));
                Some(self.sum_of_lanes(select, a, b))
            }
            PrimaryOperation::Minimum | PrimaryOperation::Maximum if keeps_range && self.lanes == 2 => {
                let [a, b] = [0, 1].map(|source| self.gathered(select, source, words));
                let packing = if a_is_signed { Packing::SignedHalves } else { Packing::UnsignedHalves };
                Some(smaller_or_greater(select, packing, self.operation == PrimaryOperation::Maximum, false, a, b))
            }
            PrimaryOperation::Minimum | PrimaryOperation::Maximum if keeps_range && has_byte_extremes(select) => {
                let [a, b] = [0, 1].map(|source| self.gathered(select, source, words));
                Some(byte_extremes(select, a_is_signed, self.operation == PrimaryOperation::Maximum, a, b))
            }
            PrimaryOperation::AbsoluteDifference if !(self.saturates && self.signed[0]) => {
                let how = self.byte_differences(select)?;
                let words = [0, 1].map(|source| self.gathered(select, source, words));
                Some(self.absolute_differences(select, how, words))
            }
            _ => None,
        }
    }

    /// Emits sums or differences of the lanes, without carries from lane to lane.
    fn sum_of_lanes(&self, select: &mut Select<'_>, a: Operand, b: Operand) -> Operand {
        let packed = if self.lanes == 2 { "VIADD.16x2" } else { "VIADD.U8x4" };
        if select.encodes(&format!("{packed} R0, R0, -R0")) {
            let [a, b] = [a, b].map(|word| select.in_register(word));
            let sign = if self.operation == PrimaryOperation::Add { "" } else { "-" };
            return select.b.define(Class::R, &format!("{packed} $, {{}}, {sign}{{}}"), &[a, b]);
        }
        let tops: u32 = if self.lanes == 2 { 0x8000_8000 } else { 0x8080_8080 };
        // The top bits of the lanes are added without carry, the bits below them with a zero, or for differences a one, above them.
        if self.operation == PrimaryOperation::Add {
            let (low_a, low_b) = (select.bitwise_and(a, (!tops).into()), select.bitwise_and(b, (!tops).into()));
            let sum = select.sum(low_a, low_b);
            let top = select.logic(0x28, a, b, tops.into());
            return select.logic(0x3c, sum, top, Operand::RZ);
        }
        let (raised, low_b) = (select.logic(0xfc, a, tops.into(), Operand::RZ), select.bitwise_and(b, (!tops).into()));
        let difference = select.difference(raised, low_b);
        let top = select.logic(0x82, a, b, tops.into());
        select.logic(0x3c, difference, top, Operand::RZ)
    }

    /// Emits one element of a source, extended.
    fn element(&self, select: &mut Select<'_>, source: usize, lane: usize, words: [Operand; 2]) -> VideoWord {
        let element = self.selected[source][lane];
        let (word, number) = if element < self.lanes as u32 { (words[0], element) } else { (words[1], element - self.lanes as u32) };
        let is_signed = self.signed[source + 1];
        let part = ByteRange { first_byte: number * self.bytes(), bytes: self.bytes() };
        let word = extracted(select, word, part, is_signed);
        VideoWord { word, fits_signed: true, fits_unsigned: !is_signed, is_narrow: true }
    }

    /// Emits the result of one lane.
    fn lane(&self, select: &mut Select<'_>, lane: usize, words: [Operand; 2]) -> Operand {
        let sources = [0, 1].map(|source| self.element(select, source, lane, words));
        let exact = self.operation.emit(select, sources, true);
        if !self.saturates {
            return exact.low_word();
        }
        ExactNumber::Signed(exact.low_word()).clamped(select, 8 * self.bytes(), self.signed[0])
    }

    /// Emits `word` with the lanes of the mask replaced by those of another word.
    fn merged(&self, select: &mut Select<'_>, lanes: Operand, word: Operand) -> Operand {
        if self.mask.iter().all(|&is_set| is_set) {
            return lanes;
        }
        let selector = (0..4).fold(0, |selector, byte| {
            let source = if self.mask[(byte / self.bytes()) as usize] { byte } else { 4 + byte };
            selector | source << (4 * byte)
        });
        select.b.define(Class::R, "PRMT $, {}, {}, {}", &[lanes, selector.into(), word])
    }

    /// Emits the lanes of the mask inserted into a word, one after the other.
    fn inserted(&self, select: &mut Select<'_>, words: [Operand; 2], into: Operand) -> Operand {
        let mut result = into;
        for lane in (0..self.lanes).filter(|&lane| self.mask[lane]) {
            let value = self.lane(select, lane, words);
            let part = ByteRange { first_byte: lane as u32 * self.bytes(), bytes: self.bytes() };
            result = super::inserted(select, value, part, result);
        }
        result
    }

    /// Emits the sum of the lanes of the mask and a word.
    fn accumulated(&self, select: &mut Select<'_>, words: [Operand; 2], addend: Operand) -> Operand {
        let takes_all = self.mask.iter().all(|&is_set| is_set);
        match self.byte_differences(select).filter(|_| !(self.saturates && self.signed[0])) {
            Some(ByteDifferences::OneInstruction) if takes_all => {
                let [a, b] = [0, 1].map(|source| self.gathered(select, source, words));
                let sign = if self.signed[1] { "" } else { ".U8" };
                return select.b.define(Class::R, &format!("VABSDIFF4{sign}.ACC $, {{}}, {{}}, {{}}"), &[a, b, addend]);
            }
            Some(how @ ByteDifferences::OfExtremes) => {
                let words = [0, 1].map(|source| self.gathered(select, source, words));
                let differences = self.absolute_differences(select, how, words);
                // The sum of the products with one for each lane of the mask and zero for the others.
                let ones = (0..4).filter(|&lane| self.mask[lane]).fold(0_u32, |ones, lane| ones | 1 << (8 * lane));
                return select.b.define(Class::R, "IDP.4A.U8.U8 $, {}, {}, {}", &[differences, ones.into(), addend]);
            }
            _ => {}
        }
        let values: Vec<Operand> = (0..self.lanes).filter(|&lane| self.mask[lane]).map(|lane| self.lane(select, lane, words)).collect();
        values.chunks(2).fold(addend, |sum, values| match *values {
            [first, second] => select.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, {}", &[first, second, sum]),
            _ => select.sum(values[0], sum),
        })
    }
}

/// Selects a SIMD instruction.
pub(crate) fn simd(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let operands: Vec<VideoOperand<'_>> = ptx.operands.iter().map(|&operand| VideoOperand::read(select, operand)).collect();
    let simd = SimdForm::read(ptx, &operands)?;
    let mut words = [Operand::RZ; 3];
    for (word, operand) in words.iter_mut().zip(&operands[1..]) {
        *word = select.source(operand.operand, ScalarType::U32)?;
    }
    let [a, b, c] = words;
    let result = if simd.accumulates {
        simd.accumulated(select, [a, b], c)
    } else if let Some(lanes) = simd.packed(select, [a, b]) {
        simd.merged(select, lanes, c)
    } else {
        simd.inserted(select, [a, b], c)
    };
    select.assign(operands[0].operand, result)
}
