//! Comparisons and classification of numbers.

use crate::exact::Number;
use crate::float::order_key;
use crate::format::Format;
use crate::int::Int;
use std::cmp::Ordering;

/// The comparison operators of `set` and `setp`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    /// `lo`, `ls`, `hi`, `hs`: unsigned lower, lower or same, higher, higher or same.
    Lo,
    Ls,
    Hi,
    Hs,
    /// `equ` to `geu`: unordered comparisons, which also hold if an operand is NaN.
    Equ,
    Neu,
    Ltu,
    Leu,
    Gtu,
    Geu,
    /// Both operands are numbers (not NaN).
    Num,
    /// At least one operand is NaN.
    Nan,
}

impl Comparison {
    /// Returns whether the relation holds for operands in this order; `None` means unordered (NaN).
    pub fn holds(self, order: Option<Ordering>) -> bool {
        use Comparison as C;
        let Some(order) = order else {
            return matches!(self, C::Equ | C::Neu | C::Ltu | C::Leu | C::Gtu | C::Geu | C::Nan);
        };
        match self {
            C::Eq | C::Equ => order.is_eq(),
            C::Ne | C::Neu => order.is_ne(),
            C::Lt | C::Ltu | C::Lo => order.is_lt(),
            C::Le | C::Leu | C::Ls => order.is_le(),
            C::Gt | C::Gtu | C::Hi => order.is_gt(),
            C::Ge | C::Geu | C::Hs => order.is_ge(),
            C::Num => true,
            C::Nan => false,
        }
    }
}

/// Compares two floats.
pub fn float(format: Format, comparison: Comparison, a: u64, b: u64, ftz: bool) -> bool {
    comparison.holds(float_order(format, a, b, ftz))
}

/// Returns the order of two floats; the two zeros are equal, and NaN has no order.
pub fn float_order(format: Format, a: u64, b: u64, ftz: bool) -> Option<Ordering> {
    let prepare = |x: u64| if ftz { format.flush(x) } else { x & format.mask() };
    let (a, b) = (prepare(a), prepare(b));
    match (Number::unpack(format, a), Number::unpack(format, b)) {
        (Number::Nan, _) | (_, Number::Nan) => None,
        (Number::Zero { .. }, Number::Zero { .. }) => Some(Ordering::Equal),
        _ => Some(order_key(format, a).cmp(&order_key(format, b))),
    }
}

/// Compares two integers.
pub fn int(kind: Int, comparison: Comparison, a: u64, b: u64) -> bool {
    comparison.holds(Some(kind.value(a).cmp(&kind.value(b))))
}

/// The properties that `testp` tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    Finite,
    Infinite,
    Number,
    NotANumber,
    Normal,
    Subnormal,
}

/// Tests a property of a float.
pub fn test(format: Format, property: Property, a: u64) -> bool {
    let (nan, infinite) = (format.is_nan(a), format.is_infinite(a));
    match property {
        Property::Finite => !nan && !infinite,
        Property::Infinite => infinite,
        Property::Number => !nan,
        Property::NotANumber => nan,
        // The PTX manual counts zeros as normal.
        Property::Normal => !nan && !infinite && !format.is_subnormal(a),
        Property::Subnormal => format.is_subnormal(a),
    }
}
