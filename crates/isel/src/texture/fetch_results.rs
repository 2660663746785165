//! The operands at the end of a fetch, and the conversion of its results.

use oriole_ir::{Class, Opcode as Machine, Operand, RegFile};
use oriole_ptx::ast::{self, FormShape, ValueType};
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::operands::Geometry;
use crate::context::Select;
use crate::ptx::Ptx;

/// The operands after the brackets.
pub(super) struct Tail {
    /// The level, or the two vectors of derivatives.
    pub(super) before: Vec<ast::Operand>,
    pub(super) offsets: Option<ast::Operand>,
    pub(super) compare: Option<ast::Operand>,
}

impl Tail {
    pub(super) fn of(ptx: &Ptx<'_>) -> Tail {
        let before = if ptx.has(Modifier::Level) {
            1
        } else if ptx.has(Modifier::Grad) {
            2
        } else {
            0
        };
        let mut tail = Tail { before: ptx.operands[2..2 + before].to_vec(), offsets: None, compare: None };
        for (operand, form) in ptx.operands.iter().zip(&ptx.form.operands).skip(2 + before) {
            let is_float = matches!(&form.shape, FormShape::Value(value) if value.ty == ValueType::Scalar(ScalarType::F32));
            *(if is_float { &mut tail.compare } else { &mut tail.offsets }) = Some(*operand);
        }
        tail
    }
}

/// Makes a one-dimensional geometry two-dimensional; returns its name.
pub(super) fn as_plane(geometry: Geometry, coordinates: &mut Vec<Operand>) -> &'static str {
    if geometry.dimensions > 1 || geometry.is_array {
        return geometry.name;
    }
    coordinates.push(Operand::RZ);
    "2D"
}

/// Converts the components to the type of the destinations.
pub(super) fn converted(select: &mut Select<'_>, ptx: &Ptx<'_>, components: &[Operand], count: usize) -> Vec<Operand> {
    match ptx.form.scalar_type(Slot::Dtype) {
        Some(ScalarType::F16) => components.iter().map(|&component| halves(select, component, Operand::RZ)).collect(),
        Some(ScalarType::F16x2) => components.chunks(2).map(|pair| halves(select, pair[0], pair[1])).collect(),
        _ => components[..count].to_vec(),
    }
}

/// Returns the two halves of a word, each as a word of its own.
pub(super) fn halves_of(select: &mut Select<'_>, word: Operand) -> [Operand; 2] {
    let low = select.b.define(Class::R, "LOP3.LUT $, {}, 0xffff, RZ, 0xc0, !PT", &[word]);
    let high = select.b.define(Class::R, "SHF.R.U32.HI $, RZ, 0x10, {}", &[word]);
    [low, high]
}

/// Emits the instruction; returns the four components, zero where not fetched, and the predicate that says whether some data
/// was not resident.
pub(super) fn define(
    select: &mut Select<'_>,
    head: &str,
    tail: &str,
    mask: u32,
    has_predicate: bool,
    arguments: &[Operand],
) -> (Vec<Operand>, Option<Operand>) {
    let count = mask.count_ones() as u8;
    let mut classes = Vec::new();
    let mut results = String::new();
    if has_predicate {
        classes.push(Class::P);
        results += "$, ";
    }
    // The first two components are in the second result, the others in the first.
    let upper = count.saturating_sub(2);
    results += if upper > 0 { "$, " } else { "RZ, " };
    if upper > 0 {
        classes.push(Class::new(RegFile::General, upper));
    }
    let lower = count.min(2);
    classes.push(Class::new(RegFile::General, lower));
    let mask_text = if mask == 0xf { String::new() } else { format!(", {mask:#x}") };
    let defined = select.b.define_all(&classes, &format!("{head} {results}$, {tail}{mask_text}"), arguments);
    let mut defined = defined.into_iter();
    let predicate = if has_predicate { defined.next() } else { None };
    let first = if upper > 0 { defined.next() } else { None };
    let second = defined.next();
    let mut words = Vec::new();
    for (value, width) in [(second, lower), (first, upper)] {
        words.extend(value.into_iter().flat_map(|value| (0..width).map(move |word| (value, word))));
    }
    let mut words = words.into_iter();
    let components = (0..4).map(|component| match mask >> component & 1 {
        1 => words.next().map_or(Operand::RZ, |(value, word)| select.register_of(value, word)),
        _ => Operand::RZ,
    });
    (components.collect(), predicate)
}

/// Returns two singles as halves in one word.
pub(super) fn halves(select: &mut Select<'_>, low: Operand, high: Operand) -> Operand {
    if low == Operand::RZ && high == Operand::RZ {
        return Operand::RZ;
    }
    if Machine::F2FP.exists_on(select.target) {
        let names_both = select.encodes("F2FP.F16.F32.PACK_AB R0, R1, R2");
        let name = if names_both { "F2FP.F16.F32.PACK_AB" } else { "F2FP.PACK_AB" };
        return select.b.define(Class::R, &format!("{name} $, {{}}, {{}}"), &[high, low]);
    }
    let low = select.b.define(Class::R, "F2F.F16.F32 $, {}", &[low]);
    if high == Operand::RZ {
        return low;
    }
    let high = select.b.define(Class::R, "F2F.F16.F32 $, {}", &[high]);
    select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &[low, high])
}
