//! Emulates the functions of the CUDA driver that copy global memory into shared memory of the blocks of a cluster. On sm_120 and sm_121
//! compiled code calls them for `cp.async.bulk` and `cp.async.bulk.tensor`. Each thread performs its own copy. Arguments:
//!
//! ```text
//! __cuda_syscall_cp_async_bulk_          R4 place   R6, R7 source   R8 bytes             R9 blocks    R10 barrier
//! __cuda_syscall_cp_async_bulk_tensor_   R4 place   R6, R7 map      R8 ... coordinates   R13 blocks   R14 barrier   [R1] offsets
//! ```
//!
//! `unicast` or `multicast` at the end of the name says whether there is a set of blocks; only `im2col` has offsets. The cache policy has
//! no effect here.

use std::sync::Arc;

use super::bulk::{BulkCopy, CompletionSignal, CopiedPart, CopyEnd, UNIT, issue, issue_to_blocks, read_map};
use super::fault::Fault;
use super::memory::space::{self, Space};
use super::step::{Action, access};
use super::warp::{Row, Warp, WideSource, lanes_of};
use super::world::World;

/// Common prefix of the names of these functions.
const PREFIX: &str = "__cuda_syscall_cp_async_bulk_";
const STACK_POINTER: u16 = 1;
const PLACE: u16 = 4;
const SOURCE: u16 = 6;
const SIZE_OR_COORDINATES: u16 = 8;

/// The kind of copy, which the name of the function tells.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct CopyCall {
    /// The number of dimensions of a tensor; `None` for a copy of bytes.
    dimensions: Option<u16>,
    /// Whether the copy has offsets in an image.
    is_columns: bool,
    is_multicast: bool,
}

impl CopyCall {
    /// Parses the name of a function. Returns `None` if it is not one of these functions.
    fn parse(name: &str) -> Option<CopyCall> {
        let rest = name.strip_prefix(PREFIX)?;
        let (shape, blocks) = rest.rsplit_once('_').unwrap_or(("", rest));
        let is_multicast = match blocks {
            "unicast" => false,
            "multicast" => true,
            _ => return None,
        };
        if shape.is_empty() {
            return Some(CopyCall { dimensions: None, is_columns: false, is_multicast });
        }
        let (dimensions, mode) = shape.strip_prefix("tensor_")?.split_once("d_")?;
        let dimensions: u16 = dimensions.parse().ok().filter(|dimensions| (1..=5).contains(dimensions))?;
        let is_columns = match mode {
            "tile" => false,
            "im2col" if dimensions > 2 => true,
            _ => return None,
        };
        Some(CopyCall { dimensions: Some(dimensions), is_columns, is_multicast })
    }

    /// Issues the copy of one thread.
    fn execute(self, warp: &mut Warp, world: &mut World<'_>, lane: usize) -> Result<(), String> {
        let register = |warp: &Warp, number: u16| warp.row(Row::source(Some(number)))[lane];
        let (blocks, barrier) = if self.dimensions.is_some() { (13, 14) } else { (9, 10) };
        let blocks = register(warp, blocks) & 0xffff;
        let (place, barrier) = (register(warp, PLACE), register(warp, barrier));
        let source = warp.read_wide(WideSource::General(Row::source(Some(SOURCE))))[lane];
        let (bytes, tile) = match self.dimensions {
            None => (register(warp, SIZE_OR_COORDINATES) as usize / UNIT * UNIT, None),
            Some(dimensions) => {
                let map = read_map(warp, world, lane, source)?;
                let coordinates: Vec<i32> =
                    (0..dimensions).map(|dimension| register(warp, SIZE_OR_COORDINATES + dimension) as i32).collect();
                map.check(&coordinates, self.is_columns, true)?;
                let offsets = if self.is_columns { offsets_on_stack(warp, world, lane, dimensions - 2)? } else { Vec::new() };
                let bytes = map.box_bytes() as usize;
                (bytes, Some(Arc::new(CopiedPart { map, coordinates, offsets, operation: None })))
            }
        };
        let identity = &warp.identity;
        let shared = |address: u32| space::in_cluster(identity, u64::from(address));
        let ((slot, offset), (barrier_slot, barrier)) = (shared(place)?, shared(barrier)?);
        let target = (CopyEnd::Shared(slot, offset), CompletionSignal::Barrier(barrier_slot, barrier));
        let copy = |to, signal| {
            let from = if tile.is_some() { to } else { CopyEnd::Global(source) };
            BulkCopy { from, to, bytes, signal, reduction: None, tile: tile.clone() }
        };
        match self.is_multicast {
            true => issue_to_blocks(identity, world, blocks, target, copy),
            false => issue(world, copy(target.0, target.1)),
        }
    }
}

/// Reads the offsets in an image, which are halves at the start of the stack.
fn offsets_on_stack(warp: &mut Warp, world: &mut World<'_>, lane: usize, count: u16) -> Result<Vec<u32>, String> {
    let stack = u64::from(warp.row(Row::source(Some(STACK_POINTER)))[lane]);
    let offset = |number: u16| {
        let mut half = [0; size_of::<u16>()];
        let place = Space::Local.locate(stack + u64::from(number) * size_of::<u16>() as u64, world.map);
        space::read(warp, world, lane, place, &mut half)?;
        Ok(u32::from(u16::from_le_bytes(half)))
    };
    (0..count).map(offset).collect()
}

/// Builds the simulator's action for a call of one of these functions. Returns `None` for the names of other functions.
pub(super) fn build(name: &str) -> Option<Action> {
    let call = CopyCall::parse(name)?;
    Some(access(move |warp, world, mask| {
        lanes_of(mask).try_for_each(|lane| call.execute(warp, world, lane).map_err(|what| Fault::of(lane, what)))
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_copied() {
        let of = |name: &str| CopyCall::parse(&format!("{PREFIX}{name}"));
        let call = |dimensions, is_columns, is_multicast| Some(CopyCall { dimensions, is_columns, is_multicast });
        assert_eq!(of("unicast"), call(None, false, false));
        assert_eq!(of("multicast"), call(None, false, true));
        assert_eq!(of("tensor_2d_tile_unicast"), call(Some(2), false, false));
        assert_eq!(of("tensor_5d_im2col_multicast"), call(Some(5), true, true));
        assert_eq!(of("tensor_2d_im2col_unicast"), None);
        assert_eq!(of("tensor_6d_tile_unicast"), None);
        assert_eq!(of("tensor_2d_tile"), None);
        assert_eq!(CopyCall::parse("vprintf"), None);
    }
}
