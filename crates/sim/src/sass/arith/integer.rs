//! Integer arithmetic.

use crate::sass::site::{Input, Site};
use crate::sass::step::{Built, compute};
use crate::sass::warp::{Lanes, Mask, PredicateSource, Warp};

/// `IADD3 d, carry1, carry2, a, b, c [, carry-in1, carry-in2]`: the sum of three numbers and up to two carries; what it exceeds 32 bits by
/// is 0, 1 or 2 and goes to the carries in unary.
pub fn add3(site: &Site<'_>) -> Built {
    let extended = site.has(".X");
    let mut operands = site.operands();
    let d = operands.destination()?;
    let mut carries = [None; 2];
    for carry in &mut carries {
        if operands.next_is_predicate() {
            *carry = Some(operands.predicate_destination()?);
        }
    }
    let [a, b, c] = [operands.input()?, operands.input()?, operands.input()?];
    // Without `.X` the form has no carry-in, whatever its hidden bits say.
    let carry_in = if extended { [operands.optional_predicate()?, operands.optional_predicate()?] } else { [PredicateSource::TRUE; 2] };
    Ok(compute(move |warp, mask| {
        let [a, b, c] = [term(warp, a), term(warp, b), term(warp, c)];
        let [x, y] = carry_in.map(|carry| if extended { warp.read_predicate(carry) } else { 0 });
        let mut values: Lanes = [0; 32];
        let (mut one, mut two): (Mask, Mask) = (0, 0);
        for lane in 0..32 {
            let sum = a[lane].wrapping_add(b[lane]).wrapping_add(c[lane]).wrapping_add(u64::from((x >> lane & 1) + (y >> lane & 1)));
            values[lane] = sum as u32;
            one |= u32::from(sum >> 32 >= 1) << lane;
            two |= u32::from(sum >> 32 >= 2) << lane;
        }
        warp.write(d, mask, &values);
        for (carry, bits) in carries.iter().zip([one, two]) {
            if let Some(carry) = *carry {
                warp.write_predicate(carry, mask, bits);
            }
        }
    }))
}

/// The summand of each thread: `-x` counts as `2^32 - x`, `~x` as the complement.
fn term(warp: &Warp, input: Input) -> [u64; 32] {
    warp.read(input.source).map(|value| match (input.negate, input.invert) {
        (true, _) => (1 << 32) - u64::from(value),
        (_, true) => u64::from(!value),
        _ => u64::from(value),
    })
}
