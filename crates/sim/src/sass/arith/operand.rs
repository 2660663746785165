//! Shared by the arithmetic families: checks of modifiers, operands with their sign modifiers applied, and loops over lanes.
//!
//! A builder first calls [`accept`] with every modifier it implements; any other modifier is rejected, so that none is silently ignored.
//! Sign modifiers become masks, so that reading an operand costs one operation per lane and no branch.

use oriole_isa::OperandValue;
use oriole_sem::float::Mode;
use oriole_sem::format::{F64, Rounding};

use crate::sass::site::{self, Input, Operands, Site, WideInput};
use crate::sass::step::{Action, UnsupportedInst, compute};
use crate::sass::warp::{Destination, Lanes, Mask, PredicateDestination, PredicateSource, Source, Warp, WideLanes, WideSource, lanes_of};

/// Rejects modifiers that the builder does not implement, and all operand suffixes.
pub fn accept(site: &Site<'_>, modifiers: &[&str]) -> Result<(), UnsupportedInst> {
    accept_with(site, modifiers, &[])
}

/// Rejects modifiers and operand suffixes that the builder does not implement.
pub fn accept_with(site: &Site<'_>, modifiers: &[&str], suffixes: &[&str]) -> Result<(), UnsupportedInst> {
    for symbol in &site.instruction.modifiers {
        if !modifiers.contains(&symbol.spelling()) {
            return Err(UnsupportedInst(format!("modifier `{}` of {}", symbol.spelling(), site.opcode().mnemonic())));
        }
    }
    for suffix in site.instruction.operands.iter().flat_map(site::suffixes) {
        if !suffixes.contains(&suffix) {
            return Err(UnsupportedInst(format!("suffix `{suffix}` of an operand of {}", site.opcode().mnemonic())));
        }
    }
    Ok(())
}

/// Decodes the rounding mode; to nearest if none is named.
pub fn rounding(site: &Site<'_>) -> Rounding {
    let choices =
        [(".RM", Rounding::Down), (".RP", Rounding::Up), (".RZ", Rounding::Zero), (".FLOOR", Rounding::Down), (".CEIL", Rounding::Up)];
    let truncation = [(".TRUNC", Rounding::Zero)];
    site.one_of(&choices).or(site.one_of(&truncation)).unwrap_or(Rounding::NearestEven)
}

/// Decodes rounding mode, `.FTZ`, `.SAT` and `.RELU`.
pub fn float_mode(site: &Site<'_>) -> Mode {
    Mode::new(rounding(site)).ftz(site.has(".FTZ")).sat(site.has(".SAT")).relu(site.has(".RELU"))
}

/// A 32-bit integer operand with `-x` or `~x` applied.
#[derive(Clone, Copy)]
pub struct Integer {
    source: Source,
    /// Bits to flip: all for `-x` and `~x`.
    flip: u32,
    /// Number to add after flipping: 1 for `-x`.
    add: u32,
}

impl Integer {
    /// Makes the operand; `|x|` is not supported on integers.
    pub fn of(input: Input) -> Result<Integer, UnsupportedInst> {
        if input.absolute {
            return Err(UnsupportedInst("magnitude of an integer".into()));
        }
        let inverted = input.negate || input.invert;
        Ok(Integer { source: input.source, flip: if inverted { !0 } else { 0 }, add: u32::from(input.negate) })
    }

    #[inline]
    pub fn read(self, warp: &Warp) -> Lanes {
        warp.read(self.source).map(|value| (value ^ self.flip).wrapping_add(self.add))
    }
}

/// A 64-bit integer operand with `-x` or `~x` applied.
#[derive(Clone, Copy)]
pub struct WideInteger {
    source: WideSource,
    flip: u64,
    add: u64,
}

impl WideInteger {
    pub fn of(input: WideInput) -> Result<WideInteger, UnsupportedInst> {
        if input.absolute {
            return Err(UnsupportedInst("magnitude of an integer".into()));
        }
        let inverted = input.negate || input.invert;
        Ok(WideInteger { source: input.source, flip: if inverted { !0 } else { 0 }, add: u64::from(input.negate) })
    }

    #[inline]
    pub fn read(self, warp: &Warp) -> WideLanes {
        warp.read_wide(self.source).map(|value| (value ^ self.flip).wrapping_add(self.add))
    }

    /// Returns the value as a term for carry computation, where `-x` counts as `2^64 - x` (so `-0` is `2^64`).
    #[inline]
    pub fn term(self, warp: &Warp) -> [u128; 32] {
        warp.read_wide(self.source).map(|value| u128::from(value ^ self.flip) + u128::from(self.add))
    }
}

/// A single-precision operand with `|x|` and `-x` applied to its sign bit.
#[derive(Clone, Copy)]
pub struct Single {
    source: Source,
    /// Bits to keep: all but the sign for `|x|`.
    keep: u32,
    /// Bits to flip: the sign for `-x`.
    flip: u32,
}

const SIGN: u32 = 1 << 31;

impl Single {
    /// Makes the operand; `~x` is not supported on floats.
    pub fn of(input: Input) -> Result<Single, UnsupportedInst> {
        if input.invert {
            return Err(UnsupportedInst("complement of a floating-point number".into()));
        }
        let keep = if input.absolute { !SIGN } else { !0 };
        Ok(Single { source: input.source, keep, flip: if input.negate { SIGN } else { 0 } })
    }

    #[inline]
    pub fn read(self, warp: &Warp) -> Lanes {
        warp.read(self.source).map(|value| (value & self.keep) ^ self.flip)
    }
}

/// A double-precision operand with `|x|` and `-x` applied to its sign bit. The sign of a NaN is not changed, as on an H200.
#[derive(Clone, Copy)]
pub struct Double {
    source: WideSource,
    keep: u64,
    flip: u64,
}

const WIDE_SIGN: u64 = 1 << 63;

impl Double {
    pub fn of(input: WideInput) -> Result<Double, UnsupportedInst> {
        if input.invert {
            return Err(UnsupportedInst("complement of a floating-point number".into()));
        }
        let keep = if input.absolute { !WIDE_SIGN } else { !0 };
        Ok(Double { source: input.source, keep, flip: if input.negate { WIDE_SIGN } else { 0 } })
    }

    #[inline]
    pub fn read(self, warp: &Warp) -> WideLanes {
        let changed = |value: u64| (value & self.keep) ^ self.flip;
        warp.read_wide(self.source).map(|value| if F64.is_nan(value) { value } else { changed(value) })
    }
}

/// Takes operands by their type.
pub trait Typed {
    fn integer(&mut self) -> Result<Integer, UnsupportedInst>;
    fn wide_integer(&mut self) -> Result<WideInteger, UnsupportedInst>;
    fn single(&mut self) -> Result<Single, UnsupportedInst>;
    fn double(&mut self) -> Result<Double, UnsupportedInst>;
    /// Takes up to `N` destination predicates if predicates are next; omitted ones and `PT` are `None`.
    fn carries<const N: usize>(&mut self) -> Result<[Option<PredicateDestination>; N], UnsupportedInst>;
    /// Takes destination predicates whose meaning is not implemented; they must be `PT`.
    fn unused_predicates(&mut self, count: usize) -> Result<(), UnsupportedInst>;
    /// Checks that no operand is left.
    fn end(&self) -> Result<(), UnsupportedInst>;
}

impl Typed for Operands<'_> {
    fn integer(&mut self) -> Result<Integer, UnsupportedInst> {
        Integer::of(self.input()?)
    }

    fn wide_integer(&mut self) -> Result<WideInteger, UnsupportedInst> {
        WideInteger::of(self.wide_input()?)
    }

    fn single(&mut self) -> Result<Single, UnsupportedInst> {
        Single::of(self.input()?)
    }

    fn double(&mut self) -> Result<Double, UnsupportedInst> {
        Double::of(self.wide_input()?)
    }

    fn carries<const N: usize>(&mut self) -> Result<[Option<PredicateDestination>; N], UnsupportedInst> {
        let mut carries = [None; N];
        for carry in &mut carries {
            if self.next_is_predicate() {
                let is_constant = matches!(self.peek().map(|operand| &operand.value), Some(OperandValue::Register(_, None)));
                let place = self.predicate_destination()?;
                *carry = (!is_constant).then_some(place);
            }
        }
        Ok(carries)
    }

    fn unused_predicates(&mut self, count: usize) -> Result<(), UnsupportedInst> {
        for _ in 0..count {
            if self.next_is_predicate() && !self.predicate()?.is_always() {
                return Err(UnsupportedInst("a predicate that says which source was taken or what overflowed".into()));
            }
        }
        Ok(())
    }

    fn end(&self) -> Result<(), UnsupportedInst> {
        if self.left() == 0 { Ok(()) } else { Err(UnsupportedInst("more operands than expected".into())) }
    }
}

/// Writes `d = f(lane)` for the active threads only; for functions too expensive to evaluate for inactive lanes.
#[inline]
pub fn for_active(warp: &mut Warp, mask: Mask, d: Destination, f: impl Fn(usize) -> u32) {
    let mut values: Lanes = [0; 32];
    for lane in lanes_of(mask) {
        values[lane] = f(lane);
    }
    warp.write(d, mask, &values);
}

/// Like [`for_active`], with 64-bit results.
#[inline]
pub fn for_active_wide(warp: &mut Warp, mask: Mask, d: Destination, f: impl Fn(usize) -> u64) {
    let mut values: WideLanes = [0; 32];
    for lane in lanes_of(mask) {
        values[lane] = f(lane);
    }
    warp.write_wide(d, mask, &values);
}

/// Makes the action `d = f(a)` on integers.
pub fn unary(d: Destination, a: Integer, f: impl Fn(u32) -> u32 + Send + Sync + 'static) -> Action {
    compute(move |warp, mask| {
        let values = a.read(warp).map(&f);
        warp.write(d, mask, &values);
    })
}

/// Makes the action `d = f(a, b)` on integers.
pub fn binary(d: Destination, a: Integer, b: Integer, f: impl Fn(u32, u32) -> u32 + Send + Sync + 'static) -> Action {
    compute(move |warp, mask| {
        let (a, b) = (a.read(warp), b.read(warp));
        let values: Lanes = std::array::from_fn(|lane| f(a[lane], b[lane]));
        warp.write(d, mask, &values);
    })
}

/// Makes the action `d = f(a, b, c)` on integers.
pub fn ternary(d: Destination, [a, b, c]: [Integer; 3], f: impl Fn(u32, u32, u32) -> u32 + Send + Sync + 'static) -> Action {
    compute(move |warp, mask| {
        let (a, b, c) = (a.read(warp), b.read(warp), c.read(warp));
        let values: Lanes = std::array::from_fn(|lane| f(a[lane], b[lane], c[lane]));
        warp.write(d, mask, &values);
    })
}

/// Makes the action `d = first ? f(a, b) : g(a, b)`; faster if the predicate is the constant true.
pub fn chosen(
    d: Destination,
    a: Integer,
    b: Integer,
    first: PredicateSource,
    f: impl Fn(u32, u32) -> u32 + Send + Sync + 'static,
    g: impl Fn(u32, u32) -> u32 + Send + Sync + 'static,
) -> Action {
    if first.is_always() {
        return binary(d, a, b, f);
    }
    compute(move |warp, mask| {
        let (a, b, first) = (a.read(warp), b.read(warp), warp.read_predicate(first));
        let values: Lanes = std::array::from_fn(|lane| if first >> lane & 1 == 1 { f(a[lane], b[lane]) } else { g(a[lane], b[lane]) });
        warp.write(d, mask, &values);
    })
}
