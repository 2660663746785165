//! Queries of textures, samplers and surfaces: `txq` and `suq`.
//!
//! Width, height and depth come from the texture header, with `TXQ`. Everything else is in tables of the CUDA driver, one for textures,
//! one for samplers and one for surfaces. Their addresses are in constant bank 0; the driver fills in the size of an entry:
//!
//! ```text
//! R0 = handle & 0xfffff
//! R1 = MOV .nv.unified.texrefDescSize     a relocation
//! R2 = IMAD R0, R1, 0x24                  the offset of the channel order
//! R4 = LDG [table + R2]
//! ```
//!
//! ptxas 13.0.88 does not remove the upper bits of a handle on sm_90 and later, where they are the number of the sampler.

use oriole_ir::{Class, MemoryAccess, Operand, Order, Reference, ReferenceKind, Scope, Space};
use oriole_isa::SystemLayout;
use oriole_ptx::ast::TextureMode;
use oriole_ptx::table::{Modifier, Opcode, Slot};
use oriole_ptx::types::ScalarType;

use super::handle::HandleOperand;
use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::constant_load;
use crate::ptx::Ptx;

/// Bits of a handle with the number of a texture or surface, and of a sampler handle with the number of the sampler.
const IMAGE_MASK: u32 = 0xf_ffff;
const SAMPLER_MASK: u32 = 0xfff;

/// A table of the CUDA driver.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DriverTable {
    /// Textures that include their samplers.
    Unified,
    /// Textures with separate samplers.
    Independent,
    Samplers,
    Surfaces,
}

impl DriverTable {
    /// Returns the position of its address among those in constant bank 0, and the name of the size of an entry.
    fn place(self) -> (u32, &'static str) {
        match self {
            DriverTable::Unified => (0, ".nv.unified.texrefDescSize"),
            DriverTable::Independent => (0, ".nv.independent.texrefDescSize"),
            DriverTable::Samplers => (1, ".nv.independent.samplerrefDescSize"),
            DriverTable::Surfaces => (2, ".nv.surfrefDescSize"),
        }
    }

    /// Returns the offset of a property in an entry, in bytes.
    fn property(self, query: Modifier) -> Option<u32> {
        let properties: &[(Modifier, u32)] = match self {
            DriverTable::Unified => &[
                (Modifier::AddrMode0, 0x0c),
                (Modifier::AddrMode1, 0x10),
                (Modifier::AddrMode2, 0x14),
                (Modifier::FilterMode, 0x18),
                (Modifier::NormalizedCoords, 0x1c),
                (Modifier::ChannelDataType, 0x20),
                (Modifier::ChannelOrder, 0x24),
                (Modifier::ArraySize, 0x28),
                (Modifier::NumMipmapLevels, 0x2c),
                (Modifier::NumSamples, 0x30),
            ],
            DriverTable::Independent => &[
                (Modifier::NormalizedCoords, 0x0c),
                (Modifier::ChannelDataType, 0x10),
                (Modifier::ChannelOrder, 0x14),
                (Modifier::ArraySize, 0x18),
                (Modifier::NumMipmapLevels, 0x1c),
                (Modifier::NumSamples, 0x20),
            ],
            DriverTable::Samplers => &[
                (Modifier::AddrMode0, 0x00),
                (Modifier::AddrMode1, 0x04),
                (Modifier::AddrMode2, 0x08),
                (Modifier::FilterMode, 0x0c),
                (Modifier::ForceUnnormalizedCoords, 0x10),
            ],
            DriverTable::Surfaces => &[
                (Modifier::ChannelDataType, 0x0c),
                (Modifier::ChannelOrder, 0x10),
                (Modifier::MemoryLayout, 0x14),
                (Modifier::ArraySize, 0x1c),
            ],
        };
        properties.iter().find(|(property, _)| *property == query).map(|&(_, offset)| offset)
    }
}

/// Selects `txq` and `suq`.
pub(crate) fn query(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let component = match ptx.get(Slot::Query) {
        Some(Modifier::Width) => 0x1,
        Some(Modifier::Height) => 0x2,
        Some(Modifier::Depth) => 0x4,
        Some(query) => return table_query(select, ptx, query),
        None => return select.unsupported(ptx),
    };
    let handle = select.handle(select.elements(ptx.operand(1))[0], None)?;
    let level = if ptx.has(Modifier::Level) { select.source(ptx.operand(2), ScalarType::S32)? } else { Operand::RZ };
    let level = select.in_register(level);
    let access = |select: &mut Select<'_>, operand| match operand {
        HandleOperand::General(word) => {
            let place = select.tuple(&[word, level]);
            select.b.define(Class::R, &format!("TXQ.B RZ, $, {{}}, TEX_HEADER_DIMENSION, {component:#x}"), &[place])
        }
        HandleOperand::Uniform(words) => {
            let pair = HandleOperand::pair(select, words);
            let template = format!("TXQ RZ, $, {{}}, TEX_HEADER_DIMENSION, {{}}, 0x0, {component:#x}");
            select.b.define(Class::R, &template, &[level, pair])
        }
        HandleOperand::Bound(word) => {
            let template = format!("TXQ RZ, $, {{}}, TEX_HEADER_DIMENSION, 0x0, {word:#x}, {component:#x}");
            select.b.define(Class::R, &template, &[level])
        }
    };
    select.with_handle(&handle, access, |select, value| select.assign(ptx.operand(0), value))
}

/// Selects a query that reads a table of the driver.
fn table_query(select: &mut Select<'_>, ptx: &Ptx<'_>, query: Modifier) -> Result<(), Unsupported> {
    let is_independent = select.frame.module.options.texture_mode == Some(TextureMode::Independent);
    let tables: &[DriverTable] = match ptx.opcode() {
        Opcode::Suq => &[DriverTable::Surfaces],
        _ if is_independent => &[DriverTable::Independent, DriverTable::Samplers],
        _ => &[DriverTable::Unified],
    };
    let found = tables.iter().find_map(|&table| Some((table, table.property(query)?)));
    let Some((table, property)) = found else { return select.unsupported(ptx) };
    let operand = select.elements(ptx.operand(1))[0];
    let is_sampler = table == DriverTable::Samplers;
    let number = match select.reference(operand) {
        Some(id) => {
            let word = select.reference_word(id)?;
            if is_sampler { select.sampler_number(word) } else { word }
        }
        None => {
            let register = select.base_of(operand);
            select.halves(register, ScalarType::U64)?[0]
        }
    };
    let number = select.in_register(number);
    let number = select.bitwise_and(number, if is_sampler { SAMPLER_MASK } else { IMAGE_MASK }.into());
    let (position, name) = table.place();
    let symbol = select.b.symbol(name);
    let size = Reference { symbol, offset: 0, kind: ReferenceKind::DriverNumber };
    let size = select.b.define(Class::R, "MOV $, {}", &[size.into()]);
    let offset = select.b.define(Class::R, "IMAD $, {}, {}, {}", &[number, size, property.into()]);
    let start = SystemLayout::of(select.target).image_tables + position * size_of::<u64>() as u32;
    let start = [start, start + 4].map(|at| select.b.define(Class::R, "MOV $, {}", &[Operand::constant(0, at)]));
    let address = select.pair_sum(start, [offset, Operand::RZ]);
    let address = select.b.pack(Class::R2, &address);
    let descriptor = select.descriptor();
    let template = format!("{} $, desc[{{}}][{{}}.64+{{}}]", constant_load(select.target));
    let value = select.b.define(Class::R, &template, &[descriptor, address, 0_u32.into()]);
    select.b.describe(MemoryAccess {
        space: Space::Global,
        bytes: 4,
        scope: Scope::Thread,
        order: Order::Weak,
        volatile: false,
        constant: true,
    });
    select.assign(ptx.operand(0), value)
}
