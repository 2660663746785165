//! Bulk copies of tensor tiles: `cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`, `cp.async.bulk.prefetch.tensor`,
//! `prefetch.tensormap`.
//!
//! The address of the tensor map is in a pair of uniform registers. One tuple of uniform registers has the place in shared memory, the
//! barrier to signal (loads only) and the coordinates. A further register has the offsets of `.im2col` in its lower half and the set of
//! blocks of a multicast in its upper half.

use oriole_ir::{Class, Operand};
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::bulk::reduction_name;
use crate::bulk_remote::{CopyOperands, may_call_driver};
use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::{AccessSpace, OffsetRange};
use crate::ptx::Ptx;

/// Bits of one offset in the register with offsets, by the number of offsets; a single offset has 16 bits.
const OFFSET_BITS: [i64; 4] = [0, 16, 8, 5];

/// Bits of the first of the two offsets of `.im2col::w`.
const WIDE_OFFSET_BITS: i64 = 11;

/// Selects copies of tensor tiles.
pub(crate) fn tensor_copy(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(shape) = shape(ptx) else { return select.unsupported(ptx) };
    let is_load = ptx.has(Modifier::MbarrierCompleteTxBytes);
    let is_prefetch = ptx.opcode() == Opcode::CpAsyncBulkPrefetchTensor;
    // Operands: loads have place, map, barrier; stores have map, place; prefetches have only the map.
    let map_position = usize::from(is_load);
    let (map, coordinates) = tensor(select, ptx.operand(map_position))?;
    let mut tuple = Vec::new();
    let mut next = map_position + 1;
    if is_load {
        tuple.push(select.place_in_shared(ptx.operand(0))?);
        tuple.push(select.place_in_shared(ptx.operand(2))?);
        next = 3;
    } else if !is_prefetch {
        tuple.push(select.place_in_shared(ptx.operand(1))?);
        next = 2;
    }
    tuple.extend(coordinates);
    let policy = select.cache_policy(ptx, |operands| operands)?;
    if may_call_driver(ptx.form, select.target) {
        return copy_into_cluster(select, ptx, (&shape, &tuple, &map), policy);
    }
    let has_blocks = ptx.has(Modifier::MulticastCluster);
    let extra = extra_register(select, ptx, next, has_blocks)?;
    let opcode = match ptx.opcode() {
        Opcode::CpReduceAsyncBulkTensor => {
            let Some(operation) = reduction_name(ptx) else { return select.unsupported(ptx) };
            format!("UTMAREDG{shape}{operation}")
        }
        Opcode::CpAsyncBulkPrefetchTensor => format!("UTMAPF.L2{shape}"),
        _ if is_load => format!("UTMALDG{shape}"),
        _ => format!("UTMASTG{shape}"),
    };
    copy_by_engine(select, &opcode, (&tuple, &map), extra, policy)
}

/// Selects a load into shared memory of a cluster, where the driver copies into other blocks; `tuple` has the place, the barrier and the
/// coordinates.
fn copy_into_cluster(
    select: &mut Select<'_>,
    ptx: &Ptx<'_>,
    (shape, tuple, map): (&str, &[Operand], &[Operand]),
    policy: Option<Operand>,
) -> Result<(), Unsupported> {
    /// Position of the operand after place, map and barrier.
    const AFTER_BARRIER: usize = 3;
    let mut offsets = Vec::new();
    if ptx.has(Modifier::Im2col) {
        for offset in select.elements(ptx.operand(AFTER_BARRIER)) {
            offsets.push(select.source(offset, ScalarType::U16)?);
        }
    }
    let blocks = match ptx.has(Modifier::MulticastCluster) {
        true => Some(select.source(ptx.operand(AFTER_BARRIER + usize::from(!offsets.is_empty())), ScalarType::U16)?),
        false => None,
    };
    let extra = extra_register(select, ptx, AFTER_BARRIER, false)?;
    let opcode = format!("UTMALDG{}", shape.replace(".MULTICAST", ""));
    let operands = CopyOperands {
        place: tuple[0],
        barrier: tuple[1],
        source: map,
        size_or_coordinates: &tuple[2..],
        offsets: &offsets,
        blocks,
        policy,
    };
    select.copy_or_call_driver(ptx, &operands, |select| copy_by_engine(select, &opcode, (tuple, map), extra, policy))
}

/// Emits the instruction of a copy, once for each active thread, stores and prefetches once for each set of operands.
fn copy_by_engine(
    select: &mut Select<'_>,
    opcode: &str,
    (tuple, map): (&[Operand], &[Operand]),
    extra: Option<Operand>,
    policy: Option<Operand>,
) -> Result<(), Unsupported> {
    let mut words = [tuple, map].concat();
    words.extend(extra);
    words.extend(select.policy_words(policy));
    let is_repeatable = opcode.starts_with("UTMASTG") || opcode.starts_with("UTMAPF");
    select.for_each_copy(is_repeatable, &words, |select, words| {
        let (tuple, rest) = words.split_at(tuple.len());
        let (map, rest) = rest.split_at(map.len());
        let (extra, policy) = rest.split_at(usize::from(extra.is_some()));
        let mut arguments = vec![select.pack_uniforms(tuple), select.pack_uniforms(map)];
        let mut template = format!("{opcode} [{{}}], [{{}}]");
        if let [extra] = extra {
            arguments.push(*extra);
            template += ", {}";
        }
        select.emit_bulk(&template, &arguments, policy);
        Ok(())
    })
}

/// Returns the modifiers for dimensions, mode and multicast.
fn shape(ptx: &Ptx<'_>) -> Option<String> {
    let dimensions =
        [(Modifier::N1d, ".1D"), (Modifier::N2d, ".2D"), (Modifier::N3d, ".3D"), (Modifier::N4d, ".4D"), (Modifier::N5d, ".5D")];
    let modes = [
        (Modifier::Im2col, ".IM2COL"),
        (Modifier::Im2colNoOffs, ".IM2COL"),
        (Modifier::Im2colW, ".W"),
        (Modifier::Im2colW128, ".W128"),
        (Modifier::TileGather4, ".GATHER4"),
        (Modifier::TileScatter4, ".SCATTER4"),
    ];
    let named = |names: &[(Modifier, &'static str)]| names.iter().find(|(modifier, _)| ptx.has(*modifier)).map(|&(_, name)| name);
    let multicast = if ptx.has(Modifier::MulticastCluster) { ".MULTICAST" } else { "" };
    let pair = if ptx.has(Modifier::CtaGroup2) { ".2CTA" } else { "" };
    Some(format!("{}{}{multicast}{pair}", named(&dimensions)?, named(&modes).unwrap_or("")))
}

/// Returns the two words of the address of a tensor map, and the coordinates.
fn tensor(select: &mut Select<'_>, operand: ast::Operand) -> Result<(Vec<Operand>, Vec<Operand>), Unsupported> {
    let parts = select.elements(operand);
    let [map, coordinates] = parts[..] else { return Err(Unsupported::new("this tensor operand")) };
    let map = match map {
        ast::Operand::Address(_) | ast::Operand::UnifiedAddress(_) => select.place_in_global(map)?,
        _ => select.halves(map, ScalarType::U64)?.to_vec(),
    };
    let coordinates = select.elements(coordinates);
    let coordinates: Result<Vec<Operand>, Unsupported> =
        coordinates.into_iter().map(|coordinate| select.source(coordinate, ScalarType::S32)).collect();
    Ok((map, coordinates?))
}

/// Returns the register with the offsets of `.im2col` and, with `has_blocks`, the set of blocks of a multicast, whose operands start at
/// `next`.
fn extra_register(select: &mut Select<'_>, ptx: &Ptx<'_>, next: usize, has_blocks: bool) -> Result<Option<Operand>, Unsupported> {
    let has_offsets = [Modifier::Im2col, Modifier::Im2colW, Modifier::Im2colW128].iter().any(|&mode| ptx.has(mode));
    let mut position = next;
    let mut word = None;
    if has_offsets {
        let offsets = select.elements(ptx.operand(position));
        position += 1;
        let bits = if ptx.has(Modifier::Im2col) { OFFSET_BITS[offsets.len().min(3)] } else { WIDE_OFFSET_BITS };
        for (number, offset) in offsets.into_iter().enumerate() {
            let offset = select.source(offset, ScalarType::U16)?;
            let offset = select.bitwise_and_any(offset, (1 << bits) - 1);
            let shift = number as i64 * bits;
            word = Some(match word {
                None => offset,
                Some(lower) => {
                    let shifted = select.b.define(Class::R, "SHF.L.U32 $, {}, {}, RZ", &[offset, shift.into()]);
                    select.b.define(Class::R, "LOP3.LUT $, {}, {}, RZ, 0xfc, !PT", &[shifted, lower])
                }
            });
        }
    }
    if has_blocks {
        let mask = select.source(ptx.operand(position), ScalarType::U16)?;
        let mask = select.in_register(mask);
        let lower = word.unwrap_or(Operand::RZ);
        word = Some(select.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &[lower, mask]));
    }
    Ok(word)
}

impl Select<'_> {
    /// Emits `operand & mask` in a register, also if the operand is a constant.
    fn bitwise_and_any(&mut self, operand: Operand, mask: i64) -> Operand {
        match operand.integer() {
            Some(number) => self.in_register(Operand::from(number & mask)),
            None => self.bitwise_and(operand, Operand::from(mask)),
        }
    }
}

/// Selects `prefetch.tensormap`.
pub(crate) fn prefetch_map(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let map = map_address(select, ptx, ptx.operand(0))?;
    select.for_each_value(&map, |select, map| {
        select.emit_bulk("UTMACCTL.PF [{}]", &[map], &[]);
        Ok(())
    })
}

/// Returns the two words of the generic address of a tensor map.
pub(crate) fn map_address(select: &mut Select<'_>, ptx: &Ptx<'_>, operand: ast::Operand) -> Result<Vec<Operand>, Unsupported> {
    let space = select.access_space(ptx, operand);
    let address = match space {
        AccessSpace::Constant | AccessSpace::Parameter => {
            let address = select.address(operand, AccessSpace::Generic, OffsetRange::NONE)?;
            let halves = [select.low(address.base), select.high(address.base)];
            let window = select.window(ptx, space)?;
            select.add_pairs(halves, window)
        }
        _ => select.address(operand, AccessSpace::Generic, OffsetRange::NONE)?.base,
    };
    Ok(vec![select.low(address), select.high(address)])
}
