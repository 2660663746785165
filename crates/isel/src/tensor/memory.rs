//! `wmma.load` and `wmma.store`: move matrices between memory and fragments.
//!
//! Every access is at `start + (x * stride + y + i * stride + j) * size`, where x and y depend on the thread, i and j on the element. Where
//! the elements of a unit are not adjacent in memory, 16-bit elements are moved as a transposed matrix, which MOVM turns; others are moved
//! one by one.

use oriole_ir::{Class, Operand};
use oriole_ptx::types::ScalarType;

use super::fragment::{Fragment, FragmentUnit, Shape};
use super::quad_fragments;
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::tensor::product;
use crate::tensor::quad;
use crate::tensor::tile::{ElementAccess, FragmentAccesses, joined_bytes, read_form, tile};

/// Selects `wmma.load`.
pub(crate) fn load_fragment(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if quad::are_used(select, ptx) {
        return quad_fragments::load(select, ptx);
    }
    let (fragment, way, mut tile) = open(select, ptx, 1)?;
    let bytes = fragment.unit_bytes();
    let mut registers = Vec::new();
    for &unit in &fragment.units {
        match way {
            ElementAccess::Units => registers.extend(tile.load(select, unit.across, unit.along, bytes)),
            ElementAccess::Transposed => {
                let words = tile.load(select, unit.along, unit.across, bytes);
                registers.push(select.b.define(Class::R, "MOVM.16.MT88 $, {}", &words));
            }
            ElementAccess::Elements => {
                let mut elements = Vec::new();
                for element in 0..fragment.run {
                    elements.extend(tile.load(select, unit.along + element, unit.across, fragment.element_bits / 8));
                }
                registers.extend(if fragment.element_bits == 8 { vec![joined_bytes(select, &elements)] } else { elements });
            }
        }
    }
    // A list of f16 registers may be longer than the fragment; it repeats.
    let ty = ptx.ty();
    let count = select.elements(ptx.operand(0)).len() * if ty == ScalarType::F64 { 2 } else { 1 };
    let registers: Vec<Operand> = registers.iter().copied().cycle().take(count).collect();
    product::assign(select, ptx.operand(0), ty, &registers)
}

/// Selects `wmma.store`.
pub(crate) fn store_fragment(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if quad::are_used(select, ptx) {
        return quad_fragments::store(select, ptx);
    }
    let (fragment, way, mut tile) = open(select, ptx, 0)?;
    let registers = product::fragment(select, ptx.operand(1), ptx.ty())?;
    let registers: Vec<Operand> = registers.into_iter().map(|register| select.in_register(register)).collect();
    let bytes = fragment.unit_bytes();
    for (unit, words) in fragment.units.iter().zip(registers.chunks(bytes as usize / 4)) {
        let &FragmentUnit { across, along } = unit;
        match way {
            ElementAccess::Units => tile.store(select, across, along, words),
            ElementAccess::Transposed => {
                let turned = select.b.define(Class::R, "MOVM.16.MT88 $, {}", words);
                tile.store(select, along, across, &[turned]);
            }
            ElementAccess::Elements => {
                for (element, words) in words.chunks(words.len() / fragment.run as usize).enumerate() {
                    tile.store(select, along + element as u32, across, words);
                }
            }
        }
    }
    Ok(())
}

/// Reads the form of a load or store: the distribution of the matrix, how it is moved, and where it is.
fn open(select: &mut Select<'_>, ptx: &Ptx<'_>, address: usize) -> Result<(Fragment, ElementAccess, FragmentAccesses), Unsupported> {
    let Some([rows, columns, depth]) = ptx.matrix_shape() else { return select.unsupported(ptx) };
    let shape = Shape { rows, columns, depth };
    let (matrix, is_row_major, stride) = read_form(select, ptx, shape)?;
    let fragment = Fragment::of(matrix, shape, ptx.ty());
    let way = match fragment.element_bits {
        _ if is_row_major == fragment.lines_are_rows => ElementAccess::Units,
        16 => ElementAccess::Transposed,
        _ => ElementAccess::Elements,
    };
    let lane = select.b.define(Class::R, "S2R $, SR_LANEID", &[]);
    let group = select.shift_right(lane, Operand::from(2_i64), false);
    let position = select.bitwise_and(lane, Operand::from(3_i64));
    let first = select.b.define(Class::R, "IMAD $, {}, {}, RZ", &[position, Operand::from(fragment.run)]);
    let xy = if way == ElementAccess::Elements { [first, group] } else { [group, first] };
    let tile = tile(select, ptx, address, stride, fragment.element_bits, xy)?;
    Ok((fragment, way, tile))
}
