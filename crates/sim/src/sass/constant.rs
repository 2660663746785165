//! Loads from constant banks: `LDC`, `ULDC`, `LDCU`. Those without an address register become moves of an immediate.

use oriole_isa::{AddressPart, AddressRegister, Opcode, OperandValue, RegFile};

use super::constants::ConstantBanks;
use super::fault::Fault;
use super::memory::AccessWidth;
use super::site::Site;
use super::step::{Built, access, compute};
use super::warp::{Destination, LANES, Row, lanes_of};

/// Builds the action of a load from a constant bank; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::LDC | Opcode::ULDC | Opcode::LDCU => load(site),
        _ => return None,
    })
}

/// The register that is added to the offset.
#[derive(Clone, Copy)]
enum ConstantIndex {
    None,
    General(Row),
    Uniform(Row),
}

/// Decodes the index register of an address.
fn index(site: &Site<'_>, part: &AddressPart) -> Result<ConstantIndex, super::step::UnsupportedInst> {
    match &part.registers[..] {
        [] => Ok(ConstantIndex::None),
        [AddressRegister { number: None, .. }] => Ok(ConstantIndex::None),
        [AddressRegister { file: RegFile::General, number, .. }] => Ok(ConstantIndex::General(Row::source(site.checked(*number, 1)?))),
        [AddressRegister { file: RegFile::Uniform, number, .. }] => Ok(ConstantIndex::Uniform(Row::source(*number))),
        _ => Err(site.unsupported("an address of constants with several registers")),
    }
}

/// Builds `LDC d, c[bank][register + offset]`.
fn load(site: &Site<'_>) -> Built {
    let width = AccessWidth::of(site)?;
    if site.has(".IL") || site.has(".IS") || site.has(".ISL") || site.has(".256") {
        return Err(site.unsupported("this way to find constants"));
    }
    let mut operands = site.operands();
    let d = operands.wide_destination(width.registers())?;
    let OperandValue::Address(address) = &operands.take()?.value else {
        return Err(site.unsupported("constants without an address"));
    };
    let ("c", [bank, place]) = (address.word.spelling(), &address.parts[..]) else {
        return Err(site.unsupported(format!("constants by `{}`", address.word.spelling())));
    };
    let bank = bank.offset.unwrap_or(0) as u32;
    let offset = place.offset.unwrap_or(0) as u32;
    match index(site, place)? {
        ConstantIndex::None => {
            let start = ConstantBanks::fixed_offset(place.offset.unwrap_or(0));
            let values = words(width, |at| site.constants.byte(bank, start.wrapping_add(at)));
            Ok(compute(move |warp, mask| write(warp, d, mask, width, &values)))
        }
        ConstantIndex::Uniform(row) => Ok(access(move |warp, world, mask| {
            let start = warp.uniform(row).wrapping_add(offset);
            check(start, width, None)?;
            let values = words(width, |at| world.constants.byte(bank, start.wrapping_add(at)));
            write(warp, d, mask, width, &values);
            Ok(())
        })),
        ConstantIndex::General(row) => Ok(access(move |warp, world, mask| {
            let starts = *warp.row(row);
            for lane in lanes_of(mask) {
                let start = starts[lane].wrapping_add(offset);
                check(start, width, Some(lane))?;
                let values = words(width, |at| world.constants.byte(bank, start.wrapping_add(at)));
                write(warp, d, 1 << lane, width, &values);
            }
            Ok(())
        })),
    }
}

/// Checks the alignment of an indexed load.
fn check(start: u32, width: AccessWidth, lane: Option<usize>) -> Result<(), Fault> {
    match start % width.bytes() {
        0 => Ok(()),
        _ => Err(Fault { lane, what: format!("a load of {} bytes of constants at {start:#x}, which is not aligned", width.bytes()) }),
    }
}

/// Returns the register values that a load writes.
fn words(width: AccessWidth, byte: impl Fn(u32) -> u8) -> [u32; 4] {
    let bytes: [u8; 16] = std::array::from_fn(|at| if (at as u32) < width.bytes() { byte(at as u32) } else { 0 });
    width.extend(&bytes)
}

/// Writes the same values for all threads of the mask.
fn write(warp: &mut super::warp::Warp, d: Destination, mask: u32, width: AccessWidth, values: &[u32; 4]) {
    for register in 0..width.registers() {
        warp.write(d.plus(register), mask, &[values[usize::from(register)]; LANES]);
    }
}
