//! Bit operations without arithmetic meaning. Results have zero upper bits.

/// Computes `lop3`: each result bit is the bit of `table` at index `4a + 2b + c` of the operands' bits.
pub fn lop3(a: u64, b: u64, c: u64, table: u8) -> u64 {
    (0..32).fold(0, |result, i| {
        let index = (a >> i & 1) << 2 | (b >> i & 1) << 1 | c >> i & 1;
        result | u64::from(table >> index & 1) << i
    })
}

/// Computes `bfi`: inserts `length` bits of `a` into `b` at `position`; bits beyond `width` are dropped.
pub fn bfi(width: u32, a: u64, b: u64, position: u64, length: u64) -> u64 {
    let (position, length) = ((position & 0xff) as u32, (length & 0xff) as u32);
    (0..length).take_while(|i| position + i < width).fold(b, |result, i| {
        let place = position + i;
        result & !(1 << place) | (a >> i & 1) << place
    })
}

/// Computes `bmsk`: `b` ones starting at bit `a`; `.clamp` limits both to 32, `.wrap` takes them modulo 32.
pub fn bmsk(a: u64, b: u64, clamp: bool) -> u64 {
    let limit = |x: u64| if clamp { (x & 0xffff_ffff).min(32) } else { x & 31 };
    (limit(a)..limit(a) + limit(b)).take_while(|&i| i < 32).fold(0, |mask, i| mask | 1 << i)
}

/// Computes `fns`: the position of the `offset`-th set bit counted from `base` (upwards if positive, downwards if negative; 0 tests the
/// bit at `base` only); all ones if there is none.
pub fn fns(mask: u64, base: u64, offset: i64) -> u64 {
    let set = |i: i64| (0..32).contains(&i) && mask >> i & 1 == 1;
    let base = base as i64;
    if offset == 0 {
        return if set(base) { base as u64 } else { 0xffff_ffff };
    }
    let step = offset.signum();
    let mut left = offset.abs();
    let mut position = base;
    while (0..32).contains(&position) {
        left -= i64::from(set(position));
        if left == 0 {
            return position as u64;
        }
        position += step;
    }
    0xffff_ffff
}

/// The modes of `prmt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permute {
    Generic,
    Forward4,
    Backward4,
    Replicate8,
    EdgeClampLeft,
    EdgeClampRight,
    Replicate16,
}

/// Computes `prmt`: selects four bytes of `b:a`.
pub fn prmt(a: u64, b: u64, c: u64, mode: Permute) -> u64 {
    let bytes = (a & 0xffff_ffff) | b << 32;
    let pick = |selector: u64| {
        let byte = bytes >> (8 * (selector & 7)) & 0xff;
        match selector & 8 {
            0 => byte,
            _ => {
                if byte & 0x80 != 0 {
                    0xff
                } else {
                    0
                }
            }
        }
    };
    let s = c & 3;
    let selectors: [u64; 4] = match mode {
        Permute::Generic => std::array::from_fn(|i| c >> (4 * i) & 15),
        Permute::Forward4 => std::array::from_fn(|i| s + i as u64),
        Permute::Backward4 => std::array::from_fn(|i| (8 + s - i as u64) & 7),
        Permute::Replicate8 => [s; 4],
        Permute::EdgeClampLeft => std::array::from_fn(|i| (i as u64).max(s)),
        Permute::EdgeClampRight => std::array::from_fn(|i| (i as u64).min(s)),
        Permute::Replicate16 => std::array::from_fn(|i| (i as u64 & 1) + 2 * (s & 1)),
    };
    (0..4).fold(0, |result, i| result | pick(selectors[i]) << (8 * i))
}

/// Computes `shf`: shifts the 64 bits `b:a`; a left shift returns the upper half, a right shift the lower half.
pub fn shf(a: u64, b: u64, amount: u64, left: bool, clamp: bool) -> u64 {
    let amount = if clamp { (amount & 0xffff_ffff).min(32) } else { amount & 31 };
    let both = b << 32 | a & 0xffff_ffff;
    if left { both << amount >> 32 } else { both >> amount & 0xffff_ffff }
}

/// Computes `cnot`: 1 if all bits are zero, otherwise 0.
pub fn cnot(a: u64) -> u64 {
    u64::from(a == 0)
}

/// Computes `clz` for a number of `width` bits.
pub fn clz(width: u32, a: u64) -> u64 {
    u64::from(if a == 0 { width } else { a.leading_zeros() - (64 - width) })
}

/// Computes `brev` for a number of `width` bits.
pub fn brev(width: u32, a: u64) -> u64 {
    a.reverse_bits() >> (64 - width)
}
