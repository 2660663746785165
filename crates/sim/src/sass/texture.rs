//! Textures and surfaces: `TEX`, `TLD`, `TXQ`, `SULD` and `SUST` of one to three dimensions, without levels, offsets and comparisons.
//!
//! ```text
//! TEX.B.LL upper, lower, coordinates, handle and level, 2D, mask            handle in a general register
//! TEX.LL   upper, lower, coordinates, level, handle, 0x0, 2D, mask          handle in a uniform register
//! ```
//!
//! The components of the mask go to `lower`, from the third on to `upper`.

use oriole_isa::{Opcode, RegFile, Value};

use super::fault::Fault;
use super::memory::Width;
use super::site::Site;
use super::step::{Built, Unsupported, access};
use super::warp::{Row, Warp, lanes_of};
use crate::image::Outside;

/// Number of components in the second result.
const LOWER_COUNT: u16 = 2;

/// Builds the action of an instruction of this family; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::TEX | Opcode::TLD => fetch(site),
        Opcode::TXQ => query(site),
        Opcode::SULD => surface(site, true),
        Opcode::SUST => surface(site, false),
        _ => return None,
    })
}

/// Where the handle of an instruction is.
#[derive(Clone, Copy)]
enum Handle {
    General(Row),
    Uniform(Row),
}

impl Handle {
    fn read(self, warp: &Warp, lane: usize) -> u32 {
        match self {
            Handle::General(row) => warp.row(row)[lane],
            Handle::Uniform(row) => warp.uniform(row),
        }
    }
}

/// The operands of a fetch or query, by kind.
struct Operands {
    /// General registers: two results, then sources.
    general: Vec<Option<u16>>,
    uniform: Option<Option<u16>>,
    /// The name, and the numbers after it.
    name: &'static str,
    numbers: Vec<i64>,
}

impl Operands {
    fn of(site: &Site<'_>) -> Result<Operands, Unsupported> {
        let mut found = Operands { general: Vec::new(), uniform: None, name: "", numbers: Vec::new() };
        for operand in &site.instruction.operands {
            match operand.value {
                Value::Register(RegFile::General, number) => found.general.push(number),
                Value::Register(RegFile::Uniform, number) => found.uniform = found.uniform.or(Some(number)),
                Value::Register(RegFile::Predicate, None) => {}
                Value::Register(RegFile::Predicate, Some(_)) => return Err(site.unsupported("whether texture data is resident")),
                // Some forms have a name for a number that is always zero.
                Value::Name(symbol) if symbol.spelling() == "0x0" => {}
                Value::Name(symbol) => found.name = symbol.spelling(),
                Value::Integer(number) if !found.name.is_empty() => found.numbers.push(number),
                Value::Integer(_) => {}
                ref other => return Err(site.unsupported(format!("a texture operand {other:?}"))),
            }
        }
        Ok(found)
    }

    /// Returns the rows of the results.
    fn results(&self, site: &Site<'_>) -> Result<[Row; 2], Unsupported> {
        let &[upper, lower, ..] = self.general.as_slice() else { return Err(site.unsupported("a fetch without results")) };
        let count = self.mask().count_ones() as u16;
        let (upper, lower) = (site.checked(upper, count.saturating_sub(LOWER_COUNT))?, site.checked(lower, count.min(LOWER_COUNT))?);
        Ok([upper, lower].map(Row::destination))
    }

    /// Returns the row of the first of `count` source registers.
    fn source(&self, site: &Site<'_>, number: usize, count: u16) -> Result<Row, Unsupported> {
        let Some(&register) = self.general.get(number) else { return Err(site.unsupported("a fetch with too few operands")) };
        site.checked(register, count).map(Row::source)
    }

    /// Returns the components that are wanted, as a bit set.
    fn mask(&self) -> u32 {
        self.numbers.last().map_or(0xf, |&mask| mask as u32 & 0xf)
    }
}

/// Writes a component that is the `number`th of those that are wanted.
fn write_component(warp: &mut Warp, [upper, lower]: [Row; 2], number: u16, lane: usize, value: u32) {
    let row = if number < LOWER_COUNT { lower.plus(number) } else { upper.plus(number - LOWER_COUNT) };
    warp.write_lane(row, lane, value);
}

/// Builds `TEX` and `TLD`.
fn fetch(site: &Site<'_>) -> Built {
    let missing = [".AOFFI", ".DC", ".MS", ".CL", ".LC", ".LB", ".NDV"];
    if let Some(modifier) = missing.iter().find(|modifier| site.has(modifier)) {
        return Err(site.unsupported(format!("a fetch with {modifier}")));
    }
    let operands = Operands::of(site)?;
    let dimensions = match operands.name {
        "1D" => 1,
        "2D" => 2,
        "3D" => 3,
        name => return Err(site.unsupported(format!("textures of kind {name}"))),
    };
    let mask = operands.mask();
    let results = operands.results(site)?;
    let coordinates = operands.source(site, 2, dimensions as u16)?;
    let is_float = site.opcode() == Opcode::TEX;
    let has_level = site.has(".LL");
    // The second tuple: handle and level, or the level alone.
    let (handle, level) = match operands.uniform {
        Some(number) => (Handle::Uniform(Row::source(number)), has_level.then(|| operands.source(site, 3, 1)).transpose()?),
        None => {
            let second = operands.source(site, 3, 1 + u16::from(has_level))?;
            (Handle::General(second), has_level.then(|| second.plus(1)))
        }
    };
    Ok(access(move |warp, world, lanes| {
        for lane in lanes_of(lanes) {
            let fault = |what: String| Fault::of(lane, what);
            let image = world.memory.image(handle.read(warp, lane)).map_err(fault)?;
            let mut places = [0; 3];
            for (axis, place) in (0..).zip(&mut places[..dimensions]) {
                *place = warp.row(coordinates.plus(axis))[lane];
            }
            // All textures have one level.
            if level.is_some_and(|level| f32::from_bits(warp.row(level)[lane]) > 0.0) {
                return Err(fault("a fetch from a level above the first".into()));
            }
            let texel = match is_float {
                true => image.at(places.map(f32::from_bits), dimensions),
                false => Some(image.at_integers(places.map(|place| place as i32), dimensions).map_err(fault)?),
            };
            let texel = world.memory.texel(&image, texel);
            let wanted = (0..4).filter(|component| mask >> component & 1 != 0);
            for (number, component) in wanted.enumerate() {
                write_component(warp, results, number as u16, lane, texel[component].unwrap_or(0));
            }
        }
        Ok(())
    }))
}

/// Builds `TXQ` of the sizes.
fn query(site: &Site<'_>) -> Built {
    let operands = Operands::of(site)?;
    if operands.name != "TEX_HEADER_DIMENSION" {
        return Err(site.unsupported(format!("the query {}", operands.name)));
    }
    let results = operands.results(site)?;
    let mask = operands.mask();
    let handle = match operands.uniform {
        Some(number) => Handle::Uniform(Row::source(number)),
        None => Handle::General(operands.source(site, 2, 1)?),
    };
    Ok(access(move |warp, world, lanes| {
        for lane in lanes_of(lanes) {
            let image = world.memory.image(handle.read(warp, lane)).map_err(|what| Fault::of(lane, what))?;
            for (number, component) in (0..3).filter(|component| mask >> component & 1 != 0).enumerate() {
                write_component(warp, results, number as u16, lane, image.image.size[component]);
            }
        }
        Ok(())
    }))
}

/// Builds `SULD` and `SUST` with coordinates in bytes.
fn surface(site: &Site<'_>, is_load: bool) -> Built {
    let dimensions = site.one_of(&[(".1D", 1), (".2D", 2), (".3D", 3)]);
    let (Some(dimensions), true) = (dimensions, site.has(".D") && site.has(".BA")) else {
        return Err(site.unsupported("surfaces of this kind"));
    };
    let outside = site.one_of(&[(".TRAP", Outside::Trap), (".IGN", Outside::Zero)]).unwrap_or(Outside::Clamp);
    let width = Width::of(site)?;
    let (mut general, mut uniform, mut coordinates) = (Vec::new(), None, None);
    for operand in &site.instruction.operands {
        match &operand.value {
            Value::Register(RegFile::General, number) => general.push(*number),
            Value::Register(RegFile::Uniform, number) => uniform = uniform.or(Some(*number)),
            Value::Register(RegFile::Predicate, None) | Value::Integer(_) => {}
            Value::Address(address) => {
                let first = address.parts.iter().flat_map(|part| &part.registers).next();
                coordinates = first.map(|register| site.checked(register.number, dimensions as u16).map(Row::source)).transpose()?;
            }
            other => return Err(site.unsupported(format!("a surface operand {other:?}"))),
        }
    }
    let (Some(coordinates), Some(&data)) = (coordinates, general.first()) else { return Err(site.unsupported("surfaces of this kind")) };
    let handle = match (uniform, general.get(1)) {
        (Some(number), _) => Handle::Uniform(Row::source(number)),
        (None, Some(&number)) => Handle::General(Row::source(site.checked(number, 1)?)),
        (None, None) => return Err(site.unsupported("a surface without a handle")),
    };
    let data = site.checked(data, width.registers())?;
    let row = if is_load { Row::destination(data) } else { Row::source(data) };
    // The zero register is one row; stores of it repeat it.
    let row_of = move |register: u16| if data.is_none() { row } else { row.plus(register) };
    Ok(access(move |warp, world, lanes| {
        for lane in lanes_of(lanes) {
            let fault = |what: String| Fault::of(lane, what);
            let image = world.memory.image(handle.read(warp, lane)).map_err(fault)?;
            let mut place = [0; 3];
            for (axis, place) in (0..).zip(&mut place[..dimensions]) {
                *place = warp.row(coordinates.plus(axis))[lane] as i32;
            }
            let count = width.bytes() as usize;
            if is_load {
                let mut bytes = world.memory.read_surface(&image, place, count, outside).map_err(fault)?;
                bytes.resize(16, 0);
                let words = width.extend(&bytes);
                for register in 0..width.registers() {
                    warp.write_lane(row_of(register), lane, words[usize::from(register)]);
                }
            } else {
                let words = (0..width.registers()).flat_map(|register| warp.row(row_of(register))[lane].to_le_bytes());
                let bytes: Vec<u8> = words.take(count).collect();
                world.memory.write_surface(&image, place, &bytes, outside).map_err(fault)?;
            }
        }
        Ok(())
    }))
}
