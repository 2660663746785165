//! Logic and bit operations: `LOP3`, `SHF`, `PRMT`, `POPC`, `FLO`, `BREV`, `BMSK`, `SGXT`, and their uniform forms.

use oriole_sem::bits::{self, Permute};
use oriole_sem::int::{S32, U32};

use crate::sass::site::Site;
use crate::sass::step::{Action, Built, UnsupportedInst, compute, mask_of};
use crate::sass::warp::{Destination, Lanes};

use super::operand::{Integer, Typed, accept, binary, ternary, unary};

/// `LOP3.LUT [p,] d, a, b, c, table, q`: any bitwise function of three operands, given by its truth table. `p` is (result != 0) or `q`;
/// with `.PAND`, (result != 0) and `q`.
pub fn logic(site: &Site<'_>) -> Built {
    accept(site, &[".LUT", ".PAND"])?;
    let both = site.has(".PAND");
    let mut operands = site.operands();
    let [nonzero] = operands.carries::<1>()?;
    let d = operands.destination()?;
    let inputs = [operands.integer()?, operands.integer()?, operands.integer()?];
    let table = operands.number()? as u8;
    let other = operands.predicate()?;
    operands.end()?;
    let Some(nonzero) = nonzero else {
        return Ok(plain_logic(d, inputs, table));
    };
    Ok(compute(move |warp, mask| {
        let [a, b, c] = inputs.map(|input| input.read(warp));
        let values: Lanes = std::array::from_fn(|lane| table_logic(a[lane], b[lane], c[lane], table));
        let other = warp.read_predicate(other);
        let is_nonzero = mask_of(|lane| values[lane] != 0);
        warp.write(d, mask, &values);
        warp.write_predicate(nonzero, mask, if both { is_nonzero & other } else { is_nonzero | other });
    }))
}

/// Makes the action without a predicate result; frequent truth tables get a direct expression.
fn plain_logic(d: Destination, inputs: [Integer; 3], table: u8) -> Action {
    match table {
        0xc0 => ternary(d, inputs, |a, b, _| a & b),
        0xfc => ternary(d, inputs, |a, b, _| a | b),
        0x3c => ternary(d, inputs, |a, b, _| a ^ b),
        0x96 => ternary(d, inputs, |a, b, c| a ^ b ^ c),
        0x33 => ternary(d, inputs, |_, b, _| !b),
        0xf8 => ternary(d, inputs, |a, b, c| a | b & c),
        0x80 => ternary(d, inputs, |a, b, c| a & b & c),
        0xfe => ternary(d, inputs, |a, b, c| a | b | c),
        _ => ternary(d, inputs, move |a, b, c| table_logic(a, b, c, table)),
    }
}

/// Evaluates a truth table bitwise: bit `4a + 2b + c` of `table` is the result for these input bits.
#[inline]
fn table_logic(a: u32, b: u32, c: u32, table: u8) -> u32 {
    let term = |index: u8| {
        let on = if table >> index & 1 == 1 { !0 } else { 0 };
        let pick = |value: u32, bit: u8| if index >> bit & 1 == 1 { value } else { !value };
        on & pick(a, 2) & pick(b, 1) & pick(c, 0)
    };
    term(0) | term(1) | term(2) | term(3) | term(4) | term(5) | term(6) | term(7)
}

/// `SHF d, low, amount, high`: shifts the 64-bit pair `high:low` and returns its lower word, or the upper word with `.HI`. The type
/// determines the range of the amount (clamped to the width, or modulo the width with `.W`) and whether a right shift is arithmetic.
pub fn shift(site: &Site<'_>) -> Built {
    accept(site, &[".L", ".R", ".W", ".S64", ".U64", ".S32", ".U32", ".HI"])?;
    let (signed, width) =
        site.one_of(&[(".S64", (true, 64)), (".U64", (false, 64)), (".S32", (true, 32)), (".U32", (false, 32))]).unwrap_or((false, 32));
    let (right, wraps, high) = (site.has(".R"), site.has(".W"), site.has(".HI"));
    let mut operands = site.operands();
    let d = operands.destination()?;
    let inputs = [operands.integer()?, operands.integer()?, operands.integer()?];
    operands.end()?;
    Ok(ternary(d, inputs, move |low, amount, upper| {
        let pair = u64::from(upper) << 32 | u64::from(low);
        let amount = if wraps { amount & (width - 1) } else { amount.min(width) };
        let shifted = match (right, signed) {
            (false, _) => pair.checked_shl(amount).unwrap_or(0),
            (true, true) => (pair as i64 >> amount.min(63)) as u64,
            (true, false) => pair.checked_shr(amount).unwrap_or(0),
        };
        if high { (shifted >> 32) as u32 } else { shifted as u32 }
    }))
}

/// `PRMT d, a, selectors, b`: selects bytes of the pair `b:a`.
pub fn permute(site: &Site<'_>) -> Built {
    accept(site, &[".F4E", ".B4E", ".RC8", ".ECL", ".ECR", ".RC16"])?;
    let mode = site.one_of(&[
        (".F4E", Permute::Forward4),
        (".B4E", Permute::Backward4),
        (".RC8", Permute::Replicate8),
        (".ECL", Permute::EdgeClampLeft),
        (".ECR", Permute::EdgeClampRight),
        (".RC16", Permute::Replicate16),
    ]);
    let mut operands = site.operands();
    let d = operands.destination()?;
    let inputs = [operands.integer()?, operands.integer()?, operands.integer()?];
    operands.end()?;
    Ok(match mode {
        Some(mode) => ternary(d, inputs, move |a, selector, b| bits::prmt(a.into(), b.into(), selector.into(), mode) as u32),
        None => ternary(d, inputs, bytes),
    })
}

/// Applies four 4-bit selectors: bits 0 to 2 select a byte, bit 3 replaces it by eight copies of its sign.
#[inline]
fn bytes(a: u32, selectors: u32, b: u32) -> u32 {
    let pair = u64::from(b) << 32 | u64::from(a);
    (0..4).fold(0, |result, index| {
        let selector = selectors >> (4 * index);
        let byte = (pair >> (8 * (selector & 7))) as u8;
        let byte = if selector & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 };
        result | u32::from(byte) << (8 * index)
    })
}

/// `POPC d, a`: number of ones.
pub fn count(site: &Site<'_>) -> Built {
    accept(site, &[])?;
    let mut operands = site.operands();
    let d = operands.destination()?;
    let a = operands.integer()?;
    operands.end()?;
    Ok(unary(d, a, u32::count_ones))
}

/// `FLO d, a`: position of the leading one (signed: of the highest bit that differs from the sign); with `.SH` its distance from bit 31.
pub fn leading(site: &Site<'_>) -> Built {
    accept(site, &[".U32", ".SH"])?;
    let (kind, distance) = (if site.has(".U32") { U32 } else { S32 }, site.has(".SH"));
    let mut operands = site.operands();
    let d = operands.destination()?;
    operands.unused_predicates(1)?;
    let a = operands.integer()?;
    operands.end()?;
    Ok(unary(d, a, move |a| kind.bfind(a.into(), distance) as u32))
}

/// `BREV d, a`: reverses the bits.
pub fn reverse(site: &Site<'_>) -> Built {
    accept(site, &[])?;
    let mut operands = site.operands();
    let d = operands.destination()?;
    let a = operands.integer()?;
    operands.end()?;
    Ok(unary(d, a, u32::reverse_bits))
}

/// `BMSK d, position, length`: a mask of `length` ones from `position` on.
pub fn mask(site: &Site<'_>) -> Built {
    accept(site, &[".W"])?;
    let clamps = !site.has(".W");
    let (d, a, b) = two(site)?;
    Ok(binary(d, a, b, move |a, b| bits::bmsk(a.into(), b.into(), clamps) as u32))
}

/// `SGXT d, a, bits`: sign-extends the lowest bits, or zero-extends them with `.U32`.
pub fn extend(site: &Site<'_>) -> Built {
    accept(site, &[".W", ".U32"])?;
    let (kind, clamps) = (if site.has(".U32") { U32 } else { S32 }, !site.has(".W"));
    let (d, a, b) = two(site)?;
    Ok(binary(d, a, b, move |a, b| kind.szext(a.into(), b.into(), clamps) as u32))
}

/// Takes a destination and two integer operands.
fn two(site: &Site<'_>) -> Result<(Destination, Integer, Integer), UnsupportedInst> {
    let mut operands = site.operands();
    let result = (operands.destination()?, operands.integer()?, operands.integer()?);
    operands.end()?;
    Ok(result)
}
