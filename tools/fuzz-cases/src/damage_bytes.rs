//! Damages a binary file: bits, numbers of all widths, ranges, truncation.

use crate::numbers::Numbers;

/// Values at the limits of sizes, offsets and counts.
const ODD_VALUES: &[u64] = &[
    0,
    1,
    2,
    7,
    8,
    15,
    16,
    24,
    63,
    64,
    0x7f,
    0xff,
    0x100,
    0x7fff,
    0xffff,
    0x10000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fff0,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0xffff_ffff_ffff_fff0,
    0xffff_ffff_ffff_ffff,
];

/// Number of bytes at the end of a file that contain the section and segment tables.
const TABLES: usize = 2000;
/// Size of the file header in bytes.
const HEADER: usize = 64;

/// Damages a file in one to four places.
pub fn damage_bytes(data: &mut Vec<u8>, numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        damage_once(data, numbers);
    }
}

fn damage_once(data: &mut Vec<u8>, numbers: &mut Numbers) {
    if data.is_empty() {
        data.push(numbers.next() as u8);
        return;
    }
    let place = place(data.len(), numbers);
    match numbers.below(20) {
        0 => data.truncate(place),
        1 => data.extend(std::iter::repeat_n(0, 1 + numbers.below(64))),
        2 => drop(data.drain(place..(place + 1 + numbers.below(32)).min(data.len()))),
        3..5 => copy_range(data, place, numbers),
        5..12 => data[place] ^= 1 << numbers.below(8),
        12 => data[place] = numbers.next() as u8,
        _ => {
            let width = 1 << numbers.below(4);
            let aligned = place / width * width;
            let value = number(data, numbers).to_le_bytes();
            data[aligned..].iter_mut().zip(&value[..width]).for_each(|(byte, new)| *byte = *new);
        }
    }
}

/// Picks an offset anywhere, or in the header or the tables, where damage has the most effect.
fn place(length: usize, numbers: &mut Numbers) -> usize {
    let tables = length.saturating_sub(TABLES);
    match numbers.below(4) {
        0 => numbers.below(length.min(HEADER)),
        1 => tables + numbers.below(length - tables),
        _ => numbers.below(length),
    }
}

/// Picks a value at a limit, or a size or offset near the length of the file.
fn number(data: &[u8], numbers: &mut Numbers) -> u64 {
    match numbers.below(4) {
        0 => (data.len() as u64).wrapping_add(numbers.below(33) as u64).wrapping_sub(16),
        1 => numbers.below(data.len()) as u64,
        _ => *numbers.pick(ODD_VALUES),
    }
}

/// Copies up to 64 bytes, aligned to instructions, over other bytes.
fn copy_range(data: &mut [u8], place: usize, numbers: &mut Numbers) {
    let (source, target) = (place / 16 * 16, numbers.below(data.len()) / 16 * 16);
    let copy = data[source..(source + 16 * (1 + numbers.below(4))).min(data.len())].to_vec();
    data[target..].iter_mut().zip(copy).for_each(|(byte, new)| *byte = new);
}
