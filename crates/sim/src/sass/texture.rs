//! Textures and surfaces: `TEX`, `TLD`, `TLD4`, `TXD`, `TXQ`, `SULD`, `SUST` and `SURED`, by the rules of `crate::sampling`.
//!
//! ```text
//! TEX.B.LL upper, lower, coordinates, handle and level, 2D, mask            handle in a general register
//! TEX.LL   upper, lower, coordinates, level, handle, 0x0, 2D, mask          handle in a uniform register
//! TEX.LL   upper, lower, coordinates, level, bank, word, 2D, mask           handle in a word of a constant bank
//! ```
//!
//! The index of textures with layers precedes the coordinates. `TXD` has the handle before the coordinates, and a word with the index in its
//! lower half after them; its second tuple has the derivatives. Offsets (`.AOFFI`) are one word after the level, with a field for each axis: four
//! bits, in `TLD4` six bits at a distance of eight. `TXD` has them above the index.
//!
//! The components of the mask go to `lower`, from the third on to `upper`.

use oriole_isa::{Opcode, OperandValue, RegFile};
use oriole_kernel_test::Arrangement;

use super::fault::Fault;
use super::memory::AccessWidth;
use super::site::Site;
use super::step::{Built, UnsupportedInst, access};
use super::warp::{PredicateDestination, Row, Warp, lanes_of};
use crate::image::{DeviceImage, OutsideAccess, SurfacePlace, SurfaceReduction, SurfaceUnit};
use crate::memory::GlobalMemory;
use crate::sampling::{Fetch, Geometry, Level};

/// Number of components in the second result.
const LOWER_COUNT: u16 = 2;

/// Builds the action of an instruction of this family; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::TEX | Opcode::TLD | Opcode::TLD4 | Opcode::TXD => fetch(site),
        Opcode::TXQ => query(site),
        Opcode::SULD => surface(site, SurfaceAccess::Load),
        Opcode::SUST => surface(site, SurfaceAccess::Store),
        Opcode::SURED => reduction_of(site).and_then(|access| surface(site, access)),
        _ => return None,
    })
}

/// Where the handle of an instruction is.
#[derive(Clone, Copy)]
enum Handle {
    General(Row),
    Uniform(Row),
    /// The handle, which was in a constant bank.
    Constant(u32),
}

impl Handle {
    fn read(self, warp: &Warp, lane: usize) -> u32 {
        match self {
            Handle::General(row) => warp.row(row)[lane],
            Handle::Uniform(row) => warp.uniform(row),
            Handle::Constant(handle) => handle,
        }
    }

    /// Returns the texture to fetch from. Its sampler is in the upper bits of the handle, or in the second uniform register.
    fn texture(self, warp: &Warp, memory: &GlobalMemory, lane: usize) -> Result<DeviceImage, String> {
        let sampler = if let Handle::Uniform(row) = self { warp.uniform(row.plus(1)) } else { 0 };
        let handle = self.read(warp, lane);
        if sampler == 0 { memory.image(handle) } else { memory.image_with_sampler(handle, sampler) }
    }

    /// Returns the handle that an instruction without a register for it takes from a constant bank, given the numbers among its operands: the
    /// bank, and a word in it.
    fn in_constant_bank(site: &Site<'_>, numbers: &[i64]) -> Option<Handle> {
        let &[bank, word] = numbers else { return None };
        let bytes = size_of::<u32>() as u32;
        Some(Handle::Constant(site.constants.read(bank as u32, word as u32 * bytes, bytes) as u32))
    }
}

/// The operands of a fetch or query, by kind.
struct Operands {
    /// General registers: two results, then sources.
    general: Vec<Option<u16>>,
    /// The handle, unless it is in a general register.
    handle: Option<Handle>,
    /// The predicate that says that some data is not resident, which is never so.
    absent: Option<u16>,
    /// The name, and the numbers after it.
    name: &'static str,
    numbers: Vec<i64>,
}

impl Operands {
    fn of(site: &Site<'_>) -> Result<Operands, UnsupportedInst> {
        let mut found = Operands { general: Vec::new(), handle: None, absent: None, name: "", numbers: Vec::new() };
        let mut before_name = Vec::new();
        for operand in &site.instruction.operands {
            match operand.value {
                OperandValue::Register(RegFile::General, number) => found.general.push(number),
                OperandValue::Register(RegFile::Uniform, number) => {
                    found.handle = found.handle.or(Some(Handle::Uniform(Row::source(number))));
                }
                OperandValue::Register(RegFile::Predicate, number) => found.absent = number,
                // Some forms have a name for a number that is always zero.
                OperandValue::Name(symbol) if symbol.spelling() == "0x0" => {}
                OperandValue::Name(symbol) => found.name = symbol.spelling(),
                OperandValue::Integer(number) if !found.name.is_empty() => found.numbers.push(number),
                OperandValue::Integer(number) => before_name.push(number),
                ref other => return Err(site.unsupported(format!("a texture operand {other:?}"))),
            }
        }
        // `TXQ` has the two numbers between the name and the mask.
        let place = if before_name.is_empty() { found.numbers.split_last().map_or(&[][..], |(_, place)| place) } else { &before_name };
        found.handle = found.handle.or_else(|| Handle::in_constant_bank(site, place));
        Ok(found)
    }

    /// Returns the rows of the results.
    fn results(&self, site: &Site<'_>) -> Result<[Row; 2], UnsupportedInst> {
        let &[upper, lower, ..] = self.general.as_slice() else { return Err(site.unsupported("a fetch without results")) };
        let count = self.mask().count_ones() as u16;
        let (upper, lower) = (site.checked(upper, count.saturating_sub(LOWER_COUNT))?, site.checked(lower, count.min(LOWER_COUNT))?);
        Ok([upper, lower].map(Row::destination))
    }

    /// Returns the row of the first of `count` source registers.
    fn source(&self, site: &Site<'_>, number: usize, count: u16) -> Result<Row, UnsupportedInst> {
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

/// Returns the kind of texture with a name.
fn geometry(name: &str) -> Option<Geometry> {
    let (dimensions, arrangement) = match name {
        "1D" => (1, Arrangement::Single),
        "2D" => (2, Arrangement::Single),
        "3D" => (3, Arrangement::Single),
        "ARRAY_1D" => (1, Arrangement::Layers),
        "ARRAY_2D" => (2, Arrangement::Layers),
        "CUBE" => (2, Arrangement::Cube),
        "ARRAY_CUBE" => (2, Arrangement::Cubes),
        _ => return None,
    };
    Some(Geometry::new(dimensions, arrangement))
}

/// The registers of a fetch.
#[derive(Clone, Copy)]
struct Registers {
    handle: Handle,
    index: Option<Row>,
    coordinates: Row,
    level: Option<Row>,
    /// The derivatives of each coordinate by x and by y.
    derivatives: Option<Row>,
    offsets: Option<Row>,
    sample: Option<Row>,
}

impl Registers {
    /// Takes the two tuples: the index and the coordinates, then the handle if it is in a general register, and the level.
    fn of(site: &Site<'_>, operands: &Operands, geometry: Geometry) -> Result<Registers, UnsupportedInst> {
        let (has_level, has_offsets) = (site.has(".LL"), site.has(".AOFFI"));
        let index_count = u16::from(geometry.has_index());
        let first = operands.source(site, 2, index_count + geometry.coordinates() as u16)?;
        let index = (index_count > 0).then_some(first);
        let coordinates = if index_count > 0 { first.plus(1) } else { first };
        let handle_count = u16::from(operands.handle.is_none());
        let last = handle_count + u16::from(has_level) + u16::from(has_offsets);
        // The value to compare with has no effect: see docs/textures.md.
        let count = last + u16::from(geometry.has_samples) + u16::from(site.has(".DC"));
        let second = if count > 0 { Some(operands.source(site, 3, count)?) } else { None };
        let level = second.filter(|_| has_level).map(|second| second.plus(handle_count));
        let offsets = second.filter(|_| has_offsets).map(|second| second.plus(handle_count + u16::from(has_level)));
        let handle = match (operands.handle, second) {
            (Some(handle), _) => handle,
            (None, Some(second)) => Handle::General(second),
            (None, None) => return Err(site.unsupported("a fetch without a handle")),
        };
        let sample = second.filter(|_| geometry.has_samples).map(|second| second.plus(last));
        Ok(Registers { handle, index, coordinates, level, derivatives: None, offsets, sample })
    }

    /// Takes the tuples of `TXD`.
    fn of_gradients(site: &Site<'_>, operands: &Operands, geometry: Geometry) -> Result<Registers, UnsupportedInst> {
        let (has_index, has_offsets) = (geometry.has_index(), site.has(".AOFFI"));
        let count = geometry.coordinates() as u16;
        let handle_count = u16::from(operands.handle.is_none());
        let first = operands.source(site, 2, handle_count + count + u16::from(has_index || has_offsets))?;
        let (handle, coordinates) = match operands.handle {
            Some(handle) => (handle, first),
            None => (Handle::General(first), first.plus(1)),
        };
        let word = coordinates.plus(count);
        let derivatives = Some(operands.source(site, 3, 2 * count)?);
        let [index, offsets] = [has_index, has_offsets].map(|has_field| has_field.then_some(word));
        Ok(Registers { handle, index, coordinates, level: None, derivatives, offsets, sample: None })
    }
}

/// Bits of an index.
const INDEX_MASK: u32 = 0xffff;

/// Where a word has the offsets: the first bit, the number of bits of each, and the distance between two.
#[derive(Clone, Copy)]
struct OffsetFields {
    first: u32,
    bits: u32,
    distance: u32,
}

impl OffsetFields {
    fn of(opcode: Opcode) -> OffsetFields {
        match opcode {
            Opcode::TLD4 => OffsetFields { first: 0, bits: 6, distance: 8 },
            Opcode::TXD => OffsetFields { first: 16, bits: 4, distance: 4 },
            _ => OffsetFields { first: 0, bits: 4, distance: 4 },
        }
    }

    /// Returns the offset along an axis.
    fn read(self, word: u32, axis: u32) -> i32 {
        let unused = u32::BITS - self.bits;
        (word >> (self.first + axis * self.distance) << unused) as i32 >> unused
    }
}

/// Builds `TEX`, `TLD`, `TLD4` and `TXD`.
fn fetch(site: &Site<'_>) -> Built {
    let missing = [".UAOFFI", ".PTP", ".LC", ".LB", ".NDV"];
    if let Some(modifier) = missing.iter().find(|modifier| site.has(modifier)) {
        return Err(site.unsupported(format!("a fetch with {modifier}")));
    }
    let operands = Operands::of(site)?;
    let named = geometry(operands.name).ok_or_else(|| site.unsupported(format!("textures of kind {}", operands.name)))?;
    let named = Geometry { has_samples: site.has(".MS"), ..named };
    let mask = operands.mask();
    let results = operands.results(site)?;
    let opcode = site.opcode();
    // The first modifier of `TLD4` names the component; `.B` after it says that the handle is in a general register.
    let component = site
        .instruction
        .modifiers
        .iter()
        .next()
        .and_then(|first| [".R", ".G", ".B", ".A"].iter().position(|name| *name == first.spelling()));
    let component = component.unwrap_or(0);
    let registers =
        if opcode == Opcode::TXD { Registers::of_gradients(site, &operands, named)? } else { Registers::of(site, &operands, named)? };
    let fields = OffsetFields::of(opcode);
    let absent = operands.absent.map(|number| PredicateDestination::new(Some(number as u8), false));
    Ok(access(move |warp, world, lanes| {
        for lane in lanes_of(lanes) {
            let fault = |what: String| Fault::of(lane, what);
            let image = registers.handle.texture(warp, world.memory, lane).map_err(fault)?;
            let mut offsets = [0; 3];
            if let Some(word) = registers.offsets.map(|word| warp.row(word)[lane]) {
                for (axis, offset) in (0..).zip(&mut offsets[..named.dimensions]) {
                    *offset = fields.read(word, axis);
                }
            }
            let mut coordinates = [0; 3];
            for (axis, place) in (0..).zip(&mut coordinates[..named.coordinates()]) {
                *place = warp.row(registers.coordinates.plus(axis))[lane];
            }
            let level = registers.level.map(|level| warp.row(level)[lane]);
            let level = match (registers.derivatives, level) {
                (Some(first), _) => {
                    let derivative = |axis, by| f32::from_bits(warp.row(first.plus(2 * axis + by))[lane]);
                    let count = named.coordinates() as u16;
                    Level::Gradient([0, 1].map(|by| [0, 1, 2].map(|axis| if axis < count { derivative(axis, by) } else { 0.0 })))
                }
                (_, None) => Level::Base,
                (_, Some(level)) if opcode == Opcode::TLD => Level::Integer(level as i32),
                (_, Some(level)) => Level::Float(f32::from_bits(level)),
            };
            let index = registers.index.map_or(0, |index| warp.row(index)[lane] & INDEX_MASK);
            // A texture of one dimension may be read as one of two.
            let is_line = named == Geometry::new(2, Arrangement::Single) && image.image.dimensions == 1;
            let geometry = if is_line { Geometry { dimensions: 1, ..named } } else { named };
            let sample = registers.sample.map_or(0, |sample| warp.row(sample)[lane]);
            let fetch = Fetch { geometry, level, index, sample, coordinates, offsets };
            let texel = match opcode {
                Opcode::TLD => world.memory.texel_at(&image, &fetch),
                Opcode::TLD4 => world.memory.gather(&image, &fetch, component),
                _ => world.memory.sample(&image, &fetch),
            };
            let texel = texel.map_err(fault)?;
            let wanted = (0..4).filter(|component| mask >> component & 1 != 0);
            for (number, component) in wanted.enumerate() {
                write_component(warp, results, number as u16, lane, texel[component].unwrap_or(0));
            }
        }
        if let Some(absent) = absent {
            warp.write_predicate(absent, lanes, 0);
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
    let handle = match operands.handle {
        Some(handle) => handle,
        None => Handle::General(operands.source(site, 2, 1)?),
    };
    Ok(access(move |warp, world, lanes| {
        for lane in lanes_of(lanes) {
            let image = world.memory.image(handle.read(warp, lane)).map_err(|what| Fault::of(lane, what))?;
            for (number, component) in (0..3).filter(|component| mask >> component & 1 != 0).enumerate() {
                write_component(warp, results, number as u16, lane, image.extent(component));
            }
        }
        Ok(())
    }))
}

/// What an instruction does with a surface.
#[derive(Clone, Copy)]
enum SurfaceAccess {
    Load,
    Store,
    Reduce(SurfaceReduction, AccessWidth),
}

/// Returns the access of `SURED`.
fn reduction_of(site: &Site<'_>) -> Result<SurfaceAccess, UnsupportedInst> {
    // `.SD32` and `.SD64` have the sign of the surface.
    let is_signed = site.one_of(&[(".S32", true), (".S64", true)]).unwrap_or(false);
    let wide = [".U64", ".S64", ".SD64"].map(|name| (name, AccessWidth::B64));
    let width = site.one_of(&wide).unwrap_or(AccessWidth::B32);
    let operations = [
        (".ADD", SurfaceReduction::Add),
        (".MIN", SurfaceReduction::Min { is_signed }),
        (".MAX", SurfaceReduction::Max { is_signed }),
        (".AND", SurfaceReduction::And),
        (".OR", SurfaceReduction::Or),
    ];
    let reduction = site.one_of(&operations).ok_or_else(|| site.unsupported("reductions of this kind"))?;
    Ok(SurfaceAccess::Reduce(reduction, width))
}

/// Builds `SULD`, `SUST` and `SURED` with coordinates in bytes (`.BA`) or samples. The index of surfaces with layers follows the coordinates.
fn surface(site: &Site<'_>, kind: SurfaceAccess) -> Built {
    let geometries = [
        (".1D", 1, Arrangement::Single),
        (".2D", 2, Arrangement::Single),
        (".3D", 3, Arrangement::Single),
        (".1D_ARRAY", 1, Arrangement::Layers),
        (".2D_ARRAY", 2, Arrangement::Layers),
    ];
    let geometry = site.one_of(&geometries.map(|(name, dimensions, arrangement)| (name, Geometry::new(dimensions, arrangement))));
    let unit = match (site.has(".D"), site.has(".BA"), kind) {
        (true, true, _) => SurfaceUnit::Bytes,
        (true, false, SurfaceAccess::Reduce(..)) | (false, false, SurfaceAccess::Store) => SurfaceUnit::Samples,
        _ => return Err(site.unsupported("surfaces of this kind")),
    };
    let Some(geometry) = geometry else { return Err(site.unsupported("surfaces of this kind")) };
    let (dimensions, has_index) = (geometry.dimensions, geometry.has_index());
    let outside = site.one_of(&[(".TRAP", OutsideAccess::Trap), (".IGN", OutsideAccess::Zero)]).unwrap_or(OutsideAccess::Clamp);
    let width = match (kind, unit) {
        (SurfaceAccess::Reduce(_, width), _) => width,
        (_, SurfaceUnit::Bytes) => AccessWidth::of(site)?,
        // The elements of a sample are words.
        (_, SurfaceUnit::Samples) => site.one_of(&[(".R", AccessWidth::B32), (".RG", AccessWidth::B64)]).unwrap_or(AccessWidth::B128),
    };
    let (mut general, mut numbers, mut uniform, mut coordinates) = (Vec::new(), Vec::new(), None, None);
    for operand in &site.instruction.operands {
        match &operand.value {
            OperandValue::Register(RegFile::General, number) => general.push(*number),
            OperandValue::Register(RegFile::Uniform, number) => uniform = uniform.or(Some(*number)),
            OperandValue::Register(RegFile::Predicate, None) => {}
            OperandValue::Integer(number) => numbers.push(*number),
            OperandValue::Address(address) => {
                let first = address.parts.iter().flat_map(|part| &part.registers).next();
                coordinates = first
                    .map(|register| site.checked(register.number, dimensions as u16 + u16::from(has_index)).map(Row::source))
                    .transpose()?;
            }
            other => return Err(site.unsupported(format!("a surface operand {other:?}"))),
        }
    }
    let (Some(coordinates), Some(&data)) = (coordinates, general.first()) else { return Err(site.unsupported("surfaces of this kind")) };
    let handle = match (uniform, general.get(1), Handle::in_constant_bank(site, &numbers)) {
        (Some(number), ..) => Handle::Uniform(Row::source(number)),
        (None, Some(&number), _) => Handle::General(Row::source(site.checked(number, 1)?)),
        (None, None, Some(handle)) => handle,
        (None, None, None) => return Err(site.unsupported("a surface without a handle")),
    };
    let data = site.checked(data, width.registers())?;
    let row = if matches!(kind, SurfaceAccess::Load) { Row::destination(data) } else { Row::source(data) };
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
            let layer = if has_index { warp.row(coordinates.plus(dimensions as u16))[lane] } else { 0 };
            let place = SurfacePlace { geometry, layer, place, unit, outside };
            let count = width.bytes() as usize;
            if let SurfaceAccess::Load = kind {
                let mut bytes = world.memory.read_surface(&image, &place, count).map_err(fault)?;
                bytes.resize(16, 0);
                let words = width.extend(&bytes);
                for register in 0..width.registers() {
                    warp.write_lane(row_of(register), lane, words[usize::from(register)]);
                }
                continue;
            }
            let words: Vec<u32> = (0..width.registers()).map(|register| warp.row(row_of(register))[lane]).collect();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).take(count).collect();
            let operand = || bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte));
            let memory = &mut world.memory;
            let done = match (kind, unit) {
                (SurfaceAccess::Reduce(reduction, _), SurfaceUnit::Bytes) => {
                    memory.reduce_surface(&image, &place, reduction, count, operand())
                }
                (SurfaceAccess::Reduce(reduction, _), SurfaceUnit::Samples) => {
                    memory.reduce_sample(&image, &place, reduction, count, operand())
                }
                (_, SurfaceUnit::Bytes) => memory.write_surface(&image, &place, &bytes),
                (_, SurfaceUnit::Samples) => memory.write_sample(&image, &place, &words),
            };
            done.map_err(fault)?;
        }
        Ok(())
    }))
}
