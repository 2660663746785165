//! Matrices in shared memory (`LDSM`, `STSM`) and copies from global to shared memory (`LDGSTS`).
//!
//! A matrix has 8 × 8 elements of 16 bits, stored as 8 rows of 16 bytes. Eight threads provide the row addresses: threads 0 to 7 for the
//! first matrix, 8 to 15 for the second, and so on. Thread `t` holds row `t / 4`, columns `2 (t % 4)` and the next one; with `.MT88`, these
//! elements of the transposed matrix.

use super::address::AddressSum;
use super::space::{self, Space};
use crate::sass::fault::Fault;
use crate::sass::site::Site;
use crate::sass::step::{Built, UnsupportedInst, access};
use crate::sass::warp::{Destination, LANES, Lanes, Mask, Row, Warp, lanes_of};
use crate::sass::world::World;

/// Bytes of a row.
const ROW: usize = 16;
/// Rows of a matrix.
const ROWS: usize = 8;

/// Returns (row, column) of the two elements that a thread holds.
pub(crate) fn cell(thread: usize, transposed: bool) -> [(usize, usize); 2] {
    let (outer, inner) = (thread / 4, 2 * (thread % 4));
    if transposed { [(inner, outer), (inner + 1, outer)] } else { [(outer, inner), (outer, inner + 1)] }
}

/// Operands of a matrix instruction.
struct MatrixAccess {
    matrices: u16,
    transposed: bool,
}

/// Decodes the number of matrices and the layout.
fn shape(site: &Site<'_>) -> Result<MatrixAccess, UnsupportedInst> {
    if !site.has(".16") || !(site.has(".M88") || site.has(".MT88")) {
        return Err(site.unsupported("matrices of this shape"));
    }
    Ok(MatrixAccess { matrices: site.one_of(&[(".2", 2), (".4", 4)]).unwrap_or(1), transposed: site.has(".MT88") })
}

/// Reports an error unless all 32 threads are active.
pub(crate) fn whole_warp(warp: &Warp, mask: Mask) -> Result<(), Fault> {
    if mask == warp.identity.threads && mask == !0 {
        return Ok(());
    }
    Err(Fault::of_warp("a matrix instruction needs all threads of the warp"))
}

/// Builds `LDSM d, [address]`.
pub fn load(site: &Site<'_>) -> Built {
    let MatrixAccess { matrices, transposed } = shape(site)?;
    let mut operands = site.operands();
    let d = operands.wide_destination(matrices)?;
    let address = AddressSum::take(site, &mut operands, false)?;
    Ok(access(move |warp, world, mask| {
        whole_warp(warp, mask)?;
        let addresses = address.of(warp);
        for matrix in 0..matrices {
            let mut rows = [[0u8; ROW]; ROWS];
            for (row, bytes) in rows.iter_mut().enumerate() {
                let lane = usize::from(matrix) * ROWS + row;
                let place = Space::Shared.locate(addresses[lane], world.map);
                space::read(warp, world, lane, place, bytes).map_err(|what| Fault::of(lane, what))?;
            }
            let values: Lanes = std::array::from_fn(|lane| {
                let half =
                    |(row, column): (usize, usize)| u32::from(u16::from_le_bytes([rows[row][2 * column], rows[row][2 * column + 1]]));
                let [low, high] = cell(lane, transposed).map(half);
                low | high << 16
            });
            warp.write(d.plus(matrix), mask, &values);
        }
        Ok(())
    }))
}

/// Builds `STSM [address], a`.
pub fn store(site: &Site<'_>) -> Built {
    let MatrixAccess { matrices, transposed } = shape(site)?;
    let mut operands = site.operands();
    let address = AddressSum::take(site, &mut operands, false)?;
    let first: Row = operands.rows(matrices)?;
    Ok(access(move |warp, world, mask| {
        whole_warp(warp, mask)?;
        let addresses = address.of(warp);
        for matrix in 0..matrices {
            let values = *warp.row(first.plus(matrix));
            let mut rows = [[0u8; ROW]; ROWS];
            for (lane, value) in values.iter().enumerate() {
                for ((row, column), half) in cell(lane, transposed).into_iter().zip([*value as u16, (value >> 16) as u16]) {
                    rows[row][2 * column..2 * column + 2].copy_from_slice(&half.to_le_bytes());
                }
            }
            for (row, bytes) in rows.iter().enumerate() {
                let lane = usize::from(matrix) * ROWS + row;
                let place = Space::Shared.locate(addresses[lane], world.map);
                space::bytes_mut(warp, world, lane, place, ROW).map_err(|what| Fault::of(lane, what))?.copy_from_slice(bytes);
            }
        }
        Ok(())
    }))
}

/// `LDGSTS [shared], [global], p`: copies bytes, or writes zeros where the predicate is false. With `.ZFILL`, the lowest bits of the global
/// address are the number of bytes at the end that are replaced by zeros. The copy completes at once.
pub fn copy(site: &Site<'_>) -> Built {
    let bytes: usize = site.one_of(&[(".64", 8), (".128", 16)]).unwrap_or(4);
    let fills = site.has(".ZFILL");
    let mut operands = site.operands();
    let to = AddressSum::take(site, &mut operands, false)?;
    let from = AddressSum::take(site, &mut operands, true)?;
    let condition = operands.optional_predicate()?;
    Ok(access(move |warp: &mut Warp, world: &mut World<'_>, mask| {
        let (to, from) = (to.of(warp), from.of(warp));
        let wanted = warp.read_predicate(condition);
        for lane in lanes_of(mask) {
            let mut buffer = [0; 16];
            let fail = |what| Fault::of(lane, what);
            if wanted >> lane & 1 == 1 {
                let missing = if fills { from[lane] % bytes as u64 } else { 0 };
                let place = Space::Global.locate(from[lane] - missing, world.map);
                space::read(warp, world, lane, place, &mut buffer[..bytes - missing as usize]).map_err(fail)?;
            }
            let place = Space::Shared.locate(to[lane], world.map);
            space::bytes_mut(warp, world, lane, place, bytes).map_err(fail)?.copy_from_slice(&buffer[..bytes]);
        }
        Ok(())
    }))
}

/// `MOVM.16.MT88 d, a`: transposes a matrix held in registers.
pub fn transpose(site: &Site<'_>) -> Built {
    if !site.has(".16") || !site.has(".MT88") {
        return Err(site.unsupported("moving matrices of this shape"));
    }
    let mut operands = site.operands();
    let d: Destination = operands.destination()?;
    let a = operands.input()?.source;
    Ok(access(move |warp, _, mask| {
        whole_warp(warp, mask)?;
        let held = warp.read(a);
        let half = |(row, column): (usize, usize)| held[row * 4 + column / 2] >> (16 * (column % 2)) & 0xffff;
        let values: [u32; LANES] = std::array::from_fn(|lane| {
            let [low, high] = cell(lane, true).map(half);
            low | high << 16
        });
        warp.write(d, mask, &values);
        Ok(())
    }))
}
