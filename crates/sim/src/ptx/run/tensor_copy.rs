//! Copies and reductions of parts of tensors (`cp.async.bulk.tensor`, `cp.reduce.async.bulk.tensor`). The tensor map is read when the copy is
//! issued; the data are copied as late as allowed, like bulk copies.

use std::rc::Rc;

use super::access::{Bytes, MemoryLocation};
use super::block::PtxBlock;
use super::mbarrier::{CopyData, PendingBulkCopy, TensorPart};
use super::warp::{PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{PtxSpace, RANK_BYTES, TensorCopy};
use crate::tensor_map::{MAP_BYTES, TensorMap};

/// Bytes that are read at once from a tensor map, which is aligned to more.
const PIECE: usize = 16;
/// Alignment of a box in shared memory, in bytes.
const BOX_ALIGNMENT: u64 = 128;

impl PtxWarp {
    /// Issues a copy of a box for each active thread.
    pub(crate) fn start_tensor_copy(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        copy: &TensorCopy,
        active: u32,
        line: u32,
        index: usize,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let place = self.place(machine, block, lane, &copy.map, line);
            let mut bytes = Vec::with_capacity(MAP_BYTES);
            for offset in (0..MAP_BYTES).step_by(PIECE) {
                let at = MemoryLocation { address: place.address + offset as u64, ..place };
                bytes.extend_from_slice(&self.peek(machine, block, lane, at, PIECE, line)?.0);
            }
            let map = match TensorMap::decode(&bytes) {
                Ok(map) => map,
                Err(message) => return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message)),
            };
            if copy.coordinates.iter().any(|&source| self.read_undefined(source, lane) & 0xffff_ffff != 0) {
                machine.uninitialized(block, self, lane, line, "a coordinate of this copy was never written");
            }
            let coordinates: Vec<i32> = copy.coordinates.iter().map(|&source| self.read(&machine.pool, source, lane) as i32).collect();
            if let Err(message) = map.check(&coordinates, copy.is_columns, copy.barrier.is_some()) {
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
            }
            let offsets = copy.offsets.iter().map(|&source| self.read(&machine.pool, source, lane) as u32).collect();
            let to = self.place(machine, block, lane, &copy.shared, line);
            if !to.address.is_multiple_of(BOX_ALIGNMENT) {
                let message = format!("the box at {:#x} in shared memory is not aligned to {BOX_ALIGNMENT} bytes", to.address);
                return Err(machine.stop(FindingKind::Misaligned, block, self, lane, line, message));
            }
            let barrier = copy.barrier.as_ref().map(|address| self.place(machine, block, lane, address, line).address);
            let bytes = map.box_bytes() as usize;
            let part = TensorPart { map, coordinates, offsets, operation: copy.operation };
            let issuer = self.issuer(machine, block, lane);
            let issued = PendingBulkCopy { from: CopyData::Tensor(Rc::new(part)), to, bytes, barrier, lane, line, index, issuer };
            match barrier {
                Some(_) => self.start_load(machine, block, &issued, copy.blocks)?,
                None => self.start_grouped(machine, block, issued),
            }
        }
        Ok(())
    }

    /// Copies a part of a tensor: to shared memory if a barrier is signaled, else from there.
    pub(super) fn copy_part(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        copy: &PendingBulkCopy,
        part: &TensorPart,
    ) -> Result<(), Stop> {
        let map = &part.map;
        let size = map.piece_bytes();
        let (lane, line) = (copy.lane, copy.line);
        // The rank of the block is no part of the address that a swizzle changes.
        let rank = copy.to.address & !(RANK_BYTES - 1);
        map.visit(&part.coordinates, &part.offsets, copy.to.address - rank, |shared, global| {
            let shared = MemoryLocation { address: rank + shared, ..copy.to };
            let global = global.map(|address| MemoryLocation { space: PtxSpace::Global, address });
            let (from, to) = if copy.barrier.is_some() { (global, Some(shared)) } else { (Some(shared), global) };
            let Some(to) = to else { return Ok(()) };
            let (mut value, undefined) = match from {
                Some(from) => self.peek(machine, block, lane, from, size, line)?,
                None => (Bytes::from_slice(&map.outside()[..size]), smallvec::smallvec![0; size]),
            };
            if copy.barrier.is_none() && undefined.iter().any(|&bits| bits != 0) {
                machine.uninitialized(block, self, lane, line, "an element that is stored was never written");
            }
            if copy.barrier.is_some() && from.is_some() {
                map.convert(&mut value);
            }
            if let Some(operation) = part.operation {
                let (mut old, _) = self.peek(machine, block, lane, to, size, line)?;
                if let Err(message) = map.reduce(operation, &mut old, &value) {
                    return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
                }
                value = old;
            }
            self.poke(machine, block, lane, to, size, line, |byte| Some((value[byte], undefined[byte])))
        })
    }
}
