//! Comparisons into predicates and registers: `ISETP`, `FSETP`, `DSETP`, `FSET`, and their uniform forms.
//!
//! Each combines the result of the comparison with a third predicate (`.AND`, `.OR`, `.XOR`). The second destination predicate gets the
//! negated comparison, combined with the same predicate.

use std::cmp::Ordering;

use oriole_sem::compare::{self, Comparison, float_order};
use oriole_sem::float::order_key;
use oriole_sem::format::{F32, F64};

use crate::sass::site::Site;
use crate::sass::step::{Built, UnsupportedInst, compute, mask_of};
use crate::sass::warp::{Mask, PredicateDestination, PredicateSource, Warp};

use super::operand::{Typed, accept};

/// A relation, or a constant in its place (`.F`, `.T`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    Never,
    Always,
    Holds(Comparison),
}

impl Relation {
    /// Returns whether the relation is true for this order; `None` means that an operand is NaN.
    #[inline]
    pub fn of_order(self, order: Option<Ordering>) -> bool {
        match self {
            Relation::Never => false,
            Relation::Always => true,
            Relation::Holds(comparison) => comparison.holds(order),
        }
    }
}

/// Relations by their modifiers.
pub const RELATIONS: [(&str, Relation); 16] = [
    (".F", Relation::Never),
    (".LT", Relation::Holds(Comparison::Lt)),
    (".EQ", Relation::Holds(Comparison::Eq)),
    (".LE", Relation::Holds(Comparison::Le)),
    (".GT", Relation::Holds(Comparison::Gt)),
    (".NE", Relation::Holds(Comparison::Ne)),
    (".GE", Relation::Holds(Comparison::Ge)),
    (".NUM", Relation::Holds(Comparison::Num)),
    (".NAN", Relation::Holds(Comparison::Nan)),
    (".LTU", Relation::Holds(Comparison::Ltu)),
    (".EQU", Relation::Holds(Comparison::Equ)),
    (".LEU", Relation::Holds(Comparison::Leu)),
    (".GTU", Relation::Holds(Comparison::Gtu)),
    (".NEU", Relation::Holds(Comparison::Neu)),
    (".GEU", Relation::Holds(Comparison::Geu)),
    (".T", Relation::Always),
];

/// How the comparison is combined with the third predicate.
#[derive(Clone, Copy)]
pub enum Join {
    And,
    Or,
    Xor,
}

const JOINS: [(&str, Join); 3] = [(".AND", Join::And), (".OR", Join::Or), (".XOR", Join::Xor)];

impl Join {
    /// Combines a comparison with the third predicate.
    #[inline]
    pub fn of(self, result: Mask, other: Mask) -> Mask {
        match self {
            Join::And => result & other,
            Join::Or => result | other,
            Join::Xor => result ^ other,
        }
    }
}

/// Rejects modifiers that are neither relations nor combinations nor in `others`.
pub fn accept_comparison(site: &Site<'_>, others: &[&str]) -> Result<(), UnsupportedInst> {
    let mut known: Vec<&str> = RELATIONS.iter().map(|&(spelling, _)| spelling).collect();
    known.extend(JOINS.iter().map(|&(spelling, _)| spelling));
    known.extend(others);
    super::operand::accept_with(site, &known, &[".H0_H0", ".H1_H1"])
}

/// Decodes the relation and the combination.
pub fn relation(site: &Site<'_>) -> Result<(Relation, Join), UnsupportedInst> {
    let missing = |what: &str| UnsupportedInst(format!("a comparison without {what}"));
    Ok((site.one_of(&RELATIONS).ok_or_else(|| missing("relation"))?, site.one_of(&JOINS).ok_or_else(|| missing("join"))?))
}

/// The destinations of a comparison, and the predicate it is combined with.
#[derive(Clone, Copy)]
pub struct ComparisonResult {
    pub places: [PredicateDestination; 2],
    pub join: Join,
    pub other: PredicateSource,
}

impl ComparisonResult {
    /// Writes a comparison and its negation.
    #[inline]
    pub fn write(self, warp: &mut Warp, mask: Mask, result: Mask) {
        self.write_both(warp, mask, [result, !result]);
    }

    /// Writes two separate results.
    #[inline]
    pub fn write_both(self, warp: &mut Warp, mask: Mask, results: [Mask; 2]) {
        let other = warp.read_predicate(self.other);
        for (place, result) in self.places.into_iter().zip(results) {
            warp.write_predicate(place, mask, self.join.of(result, other));
        }
    }
}

/// `ISETP p, q, a, b, r [, lower]`: with `.EX`, if the (upper) words are equal, the result is `lower`, the comparison of the lower words.
pub fn integers(site: &Site<'_>) -> Built {
    accept_comparison(site, &[".U32", ".U64", ".S64", ".EX"])?;
    let (relation, join) = relation(site)?;
    let extended = site.has(".EX");
    let mut operands = site.operands();
    let places = [operands.predicate_destination()?, operands.predicate_destination()?];
    if let Some(signed) = site.one_of(&[(".U64", false), (".S64", true)]) {
        let (a, b) = (operands.wide_integer()?, operands.wide_integer()?);
        let outcome = ComparisonResult { places, join, other: operands.predicate()? };
        if extended {
            return Err(UnsupportedInst("an extended comparison of 64 bits".into()));
        }
        return Ok(compute(move |warp, mask| {
            let (a, b) = (a.read(warp), b.read(warp));
            let order = |lane: usize| if signed { (a[lane] as i64).cmp(&(b[lane] as i64)) } else { a[lane].cmp(&b[lane]) };
            outcome.write(warp, mask, mask_of(|lane| relation.of_order(Some(order(lane)))));
        }));
    }
    let (a, b) = (operands.integer()?, operands.integer()?);
    let outcome = ComparisonResult { places, join, other: operands.predicate()? };
    let lower = if extended { Some(operands.predicate()?) } else { None };
    // Flipping the sign bit maps the signed order to the unsigned order.
    let flip = if site.has(".U32") { 0 } else { 1 << 31 };
    let Relation::Holds(comparison) = relation else {
        let result = if relation == Relation::Always { !0 } else { 0 };
        return Ok(compute(move |warp, mask| outcome.write(warp, mask, result)));
    };
    let (on_less, on_equal, on_greater) =
        (comparison.holds(Some(Ordering::Less)), comparison.holds(Some(Ordering::Equal)), comparison.holds(Some(Ordering::Greater)));
    Ok(compute(move |warp, mask| {
        let (a, b) = (a.read(warp).map(|value| value ^ flip), b.read(warp).map(|value| value ^ flip));
        let less = mask_of(|lane| a[lane] < b[lane]);
        let equal = mask_of(|lane| a[lane] == b[lane]);
        let pick = |on: bool, which: Mask| if on { which } else { 0 };
        let when_equal = match lower {
            Some(lower) => warp.read_predicate(lower) & equal,
            None => pick(on_equal, equal),
        };
        let result = pick(on_less, less) | when_equal | pick(on_greater, !(less | equal));
        outcome.write(warp, mask, result);
    }))
}

/// Compares two singles, with subnormals flushed to zero if `FTZ`.
#[inline]
fn single_order<const FTZ: bool>(a: u32, b: u32) -> Option<Ordering> {
    let flush = |x: u32| if FTZ && x & 0x7f80_0000 == 0 { x & 0x8000_0000 } else { x };
    f32::from_bits(flush(a)).partial_cmp(&f32::from_bits(flush(b)))
}

/// `FSETP p, q, a, b, r`
pub fn singles(site: &Site<'_>) -> Built {
    accept_comparison(site, &[".FTZ"])?;
    let (relation, join) = relation(site)?;
    let mut operands = site.operands();
    let places = [operands.predicate_destination()?, operands.predicate_destination()?];
    let (a, b) = (operands.single()?, operands.single()?);
    let outcome = ComparisonResult { places, join, other: operands.predicate()? };
    operands.end()?;
    let ftz = site.has(".FTZ");
    Ok(compute(move |warp, mask| {
        let (a, b) = (a.read(warp), b.read(warp));
        let result = if ftz {
            mask_of(|lane| relation.of_order(single_order::<true>(a[lane], b[lane])))
        } else {
            mask_of(|lane| relation.of_order(single_order::<false>(a[lane], b[lane])))
        };
        outcome.write(warp, mask, result);
    }))
}

/// `FSET.BF d, a, b, r`: writes 1.0 or 0.0.
pub fn single_set(site: &Site<'_>) -> Built {
    accept_comparison(site, &[".FTZ", ".BF"])?;
    let (relation, join) = relation(site)?;
    let ftz = site.has(".FTZ");
    let mut operands = site.operands();
    let d = operands.destination()?;
    let (a, b) = (operands.single()?, operands.single()?);
    let other = operands.predicate()?;
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let (a, b) = (a.read(warp), b.read(warp));
        let result = mask_of(|lane| relation.of_order(float_order(F32, a[lane].into(), b[lane].into(), ftz)));
        let result = join.of(result, warp.read_predicate(other));
        let values: [u32; 32] = std::array::from_fn(|lane| if result >> lane & 1 == 1 { F32.one() as u32 } else { 0 });
        warp.write(d, mask, &values);
    }))
}

/// `DSETP p, q, a, b, r`. With `.MIN` and `.MAX`, `p` is whether the result is `a`, and `q` whether both operands are NaN.
pub fn doubles(site: &Site<'_>) -> Built {
    accept_comparison(site, &[".MIN", ".MAX"])?;
    let mut operands = site.operands();
    let places = [operands.predicate_destination()?, operands.predicate_destination()?];
    let (a, b) = (operands.double()?, operands.double()?);
    let other = operands.predicate()?;
    operands.end()?;
    if let Some(is_min) = site.one_of(&[(".MIN", true), (".MAX", false)]) {
        if !other.is_always() || !site.has(".AND") {
            return Err(UnsupportedInst("a minimum of doubles joined with a predicate".into()));
        }
        let outcome = ComparisonResult { places, join: Join::And, other };
        return Ok(compute(move |warp, mask| {
            let (a, b) = (a.read(warp), b.read(warp));
            let takes_first = mask_of(|lane| match (F64.is_nan(a[lane]), F64.is_nan(b[lane])) {
                (true, _) => false,
                (false, true) => true,
                (false, false) => (order_key(F64, a[lane]) <= order_key(F64, b[lane])) == is_min,
            });
            let both_nan = mask_of(|lane| F64.is_nan(a[lane]) && F64.is_nan(b[lane]));
            outcome.write_both(warp, mask, [takes_first, both_nan]);
        }));
    }
    let (relation, join) = relation(site)?;
    let outcome = ComparisonResult { places, join, other };
    Ok(compute(move |warp, mask| {
        let (a, b) = (a.read(warp), b.read(warp));
        let result = mask_of(|lane| relation.of_order(f64::from_bits(a[lane]).partial_cmp(&f64::from_bits(b[lane]))));
        outcome.write(warp, mask, result);
    }))
}

/// `FCHK p, a, b`: whether the quotient `a / b` needs the slow path instead of a reciprocal with two corrections. Conservative: also true
/// for operands that are not normal, and for quotients and remainders near the ends of the exponent range.
pub fn quotient_check(site: &Site<'_>) -> Built {
    accept(site, &[])?;
    let mut operands = site.operands();
    let place = operands.predicate_destination()?;
    let (a, b) = (operands.single()?, operands.single()?);
    operands.end()?;
    let exponent = |x: u32| (x >> 23 & 0xff) as i32;
    Ok(compute(move |warp, mask| {
        let (a, b) = (a.read(warp), b.read(warp));
        let is_hard = mask_of(|lane| {
            let (of_a, of_b) = (exponent(a[lane]), exponent(b[lane]));
            !(28..=252).contains(&of_a) || !(2..=252).contains(&of_b) || (of_a - of_b).abs() > 120
        });
        warp.write_predicate(place, mask, is_hard);
    }))
}

/// Returns whether a floating-point relation is true, with the reference.
pub fn holds(relation: Relation, format: oriole_sem::Format, a: u64, b: u64, ftz: bool) -> bool {
    relation.of_order(compare::float_order(format, a, b, ftz))
}
