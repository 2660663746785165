//! Loads and stores of one value per thread.

use oriole_isa::Opcode;

use super::AccessWidth;
use super::address::AddressSum;
use super::space::{self, MemoryPlace, Space};
use crate::sass::fault::Fault;
use crate::sass::site::{Operands, Site};
use crate::sass::step::{Built, UnsupportedInst, access};
use crate::sass::warp::{Destination, PredicateDestination, Source, lanes_of};
use crate::sass::world::WINDOW_BYTES;

/// Returns the memory space of an opcode.
pub fn space_of(opcode: Opcode) -> Space {
    match opcode {
        Opcode::LDG | Opcode::STG | Opcode::ATOMG | Opcode::RED | Opcode::REDG => Space::Global,
        Opcode::LDS | Opcode::STS | Opcode::ATOMS => Space::Shared,
        Opcode::LDL | Opcode::STL => Space::Local,
        _ => Space::Generic,
    }
}

/// Takes the predicate that some accesses can write; only `PT` is supported.
pub fn ignored_predicate(site: &Site<'_>, operands: &mut Operands<'_>) -> Result<(), UnsupportedInst> {
    if operands.next_is_predicate() && operands.predicate_destination()? != PredicateDestination::new(None, false) {
        return Err(site.unsupported("an access that writes a predicate"));
    }
    Ok(())
}

/// Builds `LD`, `LDG`, `LDL`, `LDS`. Threads whose predicate operand is false load zero.
pub fn load(site: &Site<'_>) -> Built {
    if site.has(".256") {
        return load_256(site);
    }
    let width = AccessWidth::of(site)?;
    let space = space_of(site.opcode());
    let is_wide = matches!(space, Space::Generic | Space::Global);
    let mut operands = site.operands();
    ignored_predicate(site, &mut operands)?;
    let d = operands.wide_destination(width.registers())?;
    let address = AddressSum::take(site, &mut operands, is_wide)?;
    let condition = operands.optional_predicate()?;
    let Destination::General(row) = d else {
        return Err(site.unsupported("a load to a uniform register"));
    };
    Ok(access(move |warp, world, mask| {
        let addresses = address.of(warp);
        let wanted = warp.read_predicate(condition);
        for lane in lanes_of(mask) {
            let mut bytes = [0; 16];
            if wanted >> lane & 1 == 1 {
                let place = space.locate(addresses[lane], world.map);
                space::read(warp, world, lane, place, &mut bytes[..width.bytes() as usize]).map_err(|what| Fault::of(lane, what))?;
            }
            let words = width.extend(&bytes);
            for register in 0..width.registers() {
                warp.write_lane(row.plus(register), lane, words[usize::from(register)]);
            }
        }
        Ok(())
    }))
}

/// Builds `ST`, `STG`, `STL`, `STS`.
pub fn store(site: &Site<'_>) -> Built {
    if site.has(".256") {
        return store_256(site);
    }
    let width = AccessWidth::of(site)?;
    let space = space_of(site.opcode());
    let is_wide = matches!(space, Space::Generic | Space::Global);
    let mut operands = site.operands();
    let address = AddressSum::take(site, &mut operands, is_wide)?;
    let row = operands.rows(width.registers())?;
    Ok(access(move |warp, world, mask| {
        let addresses = address.of(warp);
        for lane in lanes_of(mask) {
            let mut bytes = [0; 16];
            for register in 0..width.registers() {
                let at = 4 * usize::from(register);
                bytes[at..at + 4].copy_from_slice(&warp.row(row.plus(register))[lane].to_le_bytes());
            }
            let place = space.locate(addresses[lane], world.map);
            let count = width.bytes() as usize;
            let target = space::bytes_mut(warp, world, lane, place, count).map_err(|what| Fault::of(lane, what))?;
            target.copy_from_slice(&bytes[..count]);
        }
        Ok(())
    }))
}

/// Bytes of each half of a 256-bit access.
const HALF_BYTES: usize = 16;
/// Registers of each half of a 256-bit access.
const HALF_REGISTERS: u16 = 4;

/// `LDG.256 high, low, [address], words`: loads eight registers in two runs of four.
fn load_256(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let (Destination::General(high), Destination::General(low)) =
        (operands.wide_destination(HALF_REGISTERS)?, operands.wide_destination(HALF_REGISTERS)?)
    else {
        return Err(site.unsupported("a load to a uniform register"));
    };
    let address = AddressSum::take(site, &mut operands, true)?;
    all_words(site, &mut operands)?;
    let condition = operands.optional_predicate()?;
    Ok(access(move |warp, world, mask| {
        let addresses = address.of(warp);
        let wanted = warp.read_predicate(condition);
        for lane in lanes_of(mask) {
            let mut bytes = [0; 2 * HALF_BYTES];
            if wanted >> lane & 1 == 1 {
                let place = Space::Global.locate(addresses[lane], world.map);
                space::read(warp, world, lane, place, &mut bytes).map_err(|what| Fault::of(lane, what))?;
            }
            for (half, row) in bytes.chunks_exact(HALF_BYTES).zip([low, high]) {
                let words = AccessWidth::B128.extend(half);
                (0..HALF_REGISTERS).for_each(|at| warp.write_lane(row.plus(at), lane, words[usize::from(at)]));
            }
        }
        Ok(())
    }))
}

/// `STG.256 [address], low, high, words`: stores eight registers in two runs of four.
fn store_256(site: &Site<'_>) -> Built {
    let mut operands = site.operands();
    let address = AddressSum::take(site, &mut operands, true)?;
    let halves = [operands.rows(HALF_REGISTERS)?, operands.rows(HALF_REGISTERS)?];
    all_words(site, &mut operands)?;
    Ok(access(move |warp, world, mask| {
        let addresses = address.of(warp);
        for lane in lanes_of(mask) {
            let mut bytes = [0; 2 * HALF_BYTES];
            let rows = halves.iter().flat_map(|half| (0..HALF_REGISTERS).map(|at| half.plus(at)));
            for (word, row) in bytes.chunks_exact_mut(4).zip(rows) {
                word.copy_from_slice(&warp.row(row)[lane].to_le_bytes());
            }
            let place = Space::Global.locate(addresses[lane], world.map);
            space::bytes_mut(warp, world, lane, place, bytes.len()).map_err(|what| Fault::of(lane, what))?.copy_from_slice(&bytes);
        }
        Ok(())
    }))
}

/// Takes the mask of words to transfer; only "all" is supported.
fn all_words(site: &Site<'_>, operands: &mut Operands<'_>) -> Result<(), UnsupportedInst> {
    if operands.number()? == 0xff { Ok(()) } else { Err(site.unsupported("an access to some words of 256 bits")) }
}

/// `QSPC p, d, [address]`: tests whether a generic address is in a memory space.
pub fn query_space(site: &Site<'_>) -> Built {
    let wanted = site.one_of(&[(".S", 0), (".D", 1), (".L", 2), (".G", 3)]).ok_or_else(|| site.unsupported("this space"))?;
    let mut operands = site.operands();
    let p = operands.predicate_destination()?;
    let d = operands.destination()?;
    let address = AddressSum::take(site, &mut operands, true)?;
    Ok(access(move |warp, world, mask| {
        let addresses = address.of(warp);
        let (map, rank) = (world.map, u64::from(warp.identity.rank));
        let holds = |address: u64| {
            let place = Space::Generic.locate(address, map);
            match wanted {
                0 => matches!(place, MemoryPlace::Cluster(offset) if offset / WINDOW_BYTES == rank),
                1 => matches!(place, MemoryPlace::Cluster(_)),
                2 => matches!(place, MemoryPlace::Local(_)),
                _ => matches!(place, MemoryPlace::Global(_) | MemoryPlace::Constant(..)),
            }
        };
        let bits = (0..32).fold(0, |bits, lane| bits | u32::from(holds(addresses[lane])) << lane);
        warp.write_predicate(p, mask, bits);
        let lower = warp.read(Source::Immediate(0));
        let values = std::array::from_fn(|lane| if bits >> lane & 1 == 1 { addresses[lane] as u32 } else { lower[lane] });
        warp.write(d, mask, &values);
        Ok(())
    }))
}
