//! Selection and predicate logic: `SEL`, `FSEL`, `PLOP3`, `UP2UR`, `UR2UP`.

use oriole_isa::OperandValue;

use crate::sass::site::{Operands, Site, suffixes};
use crate::sass::step::{Built, UnsupportedInst, compute, mask_of};
use crate::sass::warp::{Lanes, Mask, PredicateDestination, PredicateSource, Warp, WideLanes};

use super::operand::{Integer, Typed, accept, accept_with};

/// `SEL d, a, b, p`: `a` where `p` is true, else `b`.
pub fn words(site: &Site<'_>) -> Built {
    accept(site, &[".64"])?;
    let mut operands = site.operands();
    if site.has(".64") {
        let d = operands.wide_destination(2)?;
        let (a, b, first) = (operands.wide_integer()?, operands.wide_integer()?, operands.predicate()?);
        operands.end()?;
        return Ok(compute(move |warp, mask| {
            let (a, b, first) = (a.read(warp), b.read(warp), warp.read_predicate(first));
            let values: WideLanes = std::array::from_fn(|lane| if first >> lane & 1 == 1 { a[lane] } else { b[lane] });
            warp.write_wide(d, mask, &values);
        }));
    }
    let d = operands.destination()?;
    let (a, b, first) = (operands.integer()?, operands.integer()?, operands.predicate()?);
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let (a, b, first) = (a.read(warp), b.read(warp), warp.read_predicate(first));
        let values: Lanes = std::array::from_fn(|lane| if first >> lane & 1 == 1 { a[lane] } else { b[lane] });
        warp.write(d, mask, &values);
    }))
}

/// `FSEL d, a, b, p`: like `SEL` with sign modifiers; NaN payloads are kept.
pub fn singles(site: &Site<'_>) -> Built {
    accept(site, &[".FTZ"])?;
    let ftz = site.has(".FTZ");
    let mut operands = site.operands();
    let d = operands.destination()?;
    let (a, b, first) = (operands.single()?, operands.single()?, operands.predicate()?);
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let (a, b, first) = (a.read(warp), b.read(warp), warp.read_predicate(first));
        let values: Lanes = std::array::from_fn(|lane| {
            let value = if first >> lane & 1 == 1 { a[lane] } else { b[lane] };
            if ftz && value & 0x7f80_0000 == 0 { value & 0x8000_0000 } else { value }
        });
        warp.write(d, mask, &values);
    }))
}

/// A predicate operand, or the sign bit of a register (`.SIGN`).
#[derive(Clone, Copy)]
enum SelectCondition {
    Predicate(PredicateSource),
    Sign(Integer),
}

impl SelectCondition {
    fn of(operands: &mut Operands<'_>) -> Result<SelectCondition, UnsupportedInst> {
        if operands.next_is_predicate() {
            return Ok(SelectCondition::Predicate(operands.predicate()?));
        }
        let register = operands.integer()?;
        if operands.last_has(".SIGN") {
            Ok(SelectCondition::Sign(register))
        } else {
            Err(UnsupportedInst("a register as a predicate".into()))
        }
    }

    fn read(self, warp: &Warp) -> Mask {
        match self {
            SelectCondition::Predicate(predicate) => warp.read_predicate(predicate),
            SelectCondition::Sign(register) => {
                let values = register.read(warp);
                mask_of(|lane| values[lane] >> 31 == 1)
            }
        }
    }
}

/// `PLOP3.LUT p, q, a, b, c, table, table`: two functions, given by truth tables, of the same three predicates or register signs.
pub fn predicates(site: &Site<'_>) -> Built {
    accept_with(site, &[".LUT"], &[".SIGN"])?;
    let mut operands = site.operands();
    let places = [operands.predicate_destination()?, operands.predicate_destination()?];
    let inputs = [SelectCondition::of(&mut operands)?, SelectCondition::of(&mut operands)?, SelectCondition::of(&mut operands)?];
    let tables = [operands.number()? as u8, operands.number()? as u8];
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let [a, b, c] = inputs.map(|input| input.read(warp));
        for (place, table) in places.into_iter().zip(tables) {
            let bits: Mask = (0..8).filter(|index| table >> index & 1 == 1).fold(0, |bits, index| {
                let pick = |value: Mask, bit: u32| if index >> bit & 1 == 1 { value } else { !value };
                bits | pick(a, 2) & pick(b, 1) & pick(c, 0)
            });
            warp.write_predicate(place, mask, bits);
        }
    }))
}

/// Number of writable uniform predicates.
const UNIFORM_PREDICATES: u8 = 7;

/// Returns the bit offset of the byte that a suffix selects.
fn byte(spellings: impl Iterator<Item = &'static str>) -> u32 {
    spellings.filter_map(|spelling| [".B0", ".B1", ".B2", ".B3"].iter().position(|&name| name == spelling)).max().unwrap_or(0) as u32 * 8
}

/// `UP2UR d, UPR, a, mask`: replaces the bits in the mask of one byte of `a` by predicates.
pub fn predicates_to_register(site: &Site<'_>) -> Built {
    accept(site, &[".B1", ".B2", ".B3"])?;
    let at = byte(site.instruction.modifiers.iter().map(|symbol| symbol.spelling()));
    let mut operands = site.operands();
    let d = operands.destination()?;
    all_predicates(operands.take()?)?;
    let (a, wanted) = (operands.integer()?, operands.integer()?);
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let lane = crate::sass::warp::first(mask);
        let predicates = (0..UNIFORM_PREDICATES)
            .fold(0, |bits, number| bits | (warp.read_predicate(PredicateSource::new(Some(number), true, false)) >> lane & 1) << number);
        let wanted = wanted.read(warp)[lane] & 0xff;
        let value = a.read(warp)[lane] & !(wanted << at) | (predicates & wanted) << at;
        warp.write(d, mask, &[value; 32]);
    }))
}

/// `UR2UP UPR, a, mask`: sets the predicates in the mask from one byte of `a`.
pub fn register_to_predicates(site: &Site<'_>) -> Built {
    accept_with(site, &[], &[".B1", ".B2", ".B3"])?;
    let at = byte(site.instruction.operands.iter().flat_map(suffixes));
    let mut operands = site.operands();
    all_predicates(operands.take()?)?;
    let (a, wanted) = (operands.integer()?, operands.integer()?);
    operands.end()?;
    Ok(compute(move |warp, mask| {
        let lane = crate::sass::warp::first(mask);
        let (bits, wanted) = (a.read(warp)[lane] >> at, wanted.read(warp)[lane]);
        for number in (0..UNIFORM_PREDICATES).filter(|number| wanted >> number & 1 == 1) {
            let value = if bits >> number & 1 == 1 { !0 } else { 0 };
            warp.write_predicate(PredicateDestination::new(Some(number), true), mask, value);
        }
    }))
}

/// Checks that the operand is `UPR`.
fn all_predicates(operand: &oriole_isa::Operand) -> Result<(), UnsupportedInst> {
    match &operand.value {
        OperandValue::Name(name) if name.spelling() == "UPR" => Ok(()),
        other => Err(UnsupportedInst(format!("expected the uniform predicates, found {other:?}"))),
    }
}
