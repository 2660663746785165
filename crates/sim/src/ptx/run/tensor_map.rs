//! Changes of tensor maps in memory: `tensormap.replace`, `tensormap.cp_fenceproxy`.

use super::access::{Bytes, MemoryLocation, little};
use super::block::PtxBlock;
use super::races::SharedAccess;
use super::warp::{PtxWarp, lanes_of};
use super::{LaunchState, Stop};
use crate::ptx::finding::FindingKind;
use crate::ptx::program::{CopyMap, ReplaceMapField};
use crate::tensor_map::MAP_BYTES;

/// Bytes of the words of a tensor map.
const WORD_BYTES: usize = 4;
/// Bytes that are copied at once.
const PIECE: usize = 16;
/// Alignment of a tensor map in bytes.
const ALIGNMENT: u64 = 128;

impl PtxWarp {
    /// Replaces a field of a tensor map for each active thread.
    pub(crate) fn replace_map_field(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        replace: &ReplaceMapField,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        for lane in lanes_of(active) {
            let map = self.place(machine, block, lane, &replace.map, line);
            self.require_map_alignment(machine, block, lane, map, line)?;
            if self.read_undefined(replace.value, lane) != 0 {
                machine.uninitialized(block, self, lane, line, "the new value of this field was never written");
            }
            for (offset, mask, value) in replace.field.changes(self.read(&machine.pool, replace.value, lane)) {
                let at = MemoryLocation { address: map.address + offset as u64, ..map };
                let (old, undefined) = self.peek(machine, block, lane, at, WORD_BYTES, line)?;
                let new = (little(&old) as u32 & !mask | value).to_le_bytes();
                let kept = (!mask).to_le_bytes();
                self.check_map_access(machine, block, lane, at, line, (true, &new));
                self.poke(machine, block, lane, at, WORD_BYTES, line, |byte| Some((new[byte], undefined[byte] & kept[byte])))?;
            }
        }
        Ok(())
    }

    /// Copies a tensor map from shared to global memory. The threads of the warp do it together, so they must have the same addresses.
    pub(crate) fn copy_map(
        &mut self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        copy: &CopyMap,
        active: u32,
        line: u32,
    ) -> Result<(), Stop> {
        self.require_all_lanes(machine, block, active, line)?;
        let places = |warp: &PtxWarp, machine: &mut LaunchState<'_>, block: &PtxBlock, lane: usize| {
            [&copy.to, &copy.from].map(|address| warp.place(machine, block, lane, address, line))
        };
        let [to, from] = places(self, machine, block, 0);
        for lane in 1..super::warp::LANES {
            if places(self, machine, block, lane) != [to, from] {
                let message = "the threads of the warp copy different tensor maps".to_owned();
                return Err(machine.stop(FindingKind::BadOperand, block, self, lane, line, message));
            }
        }
        for place in [to, from] {
            self.require_map_alignment(machine, block, 0, place, line)?;
        }
        for offset in (0..MAP_BYTES).step_by(PIECE) {
            let at = |place: MemoryLocation| MemoryLocation { address: place.address + offset as u64, ..place };
            let (bytes, undefined) = self.peek(machine, block, 0, at(from), PIECE, line)?;
            self.check_map_access(machine, block, 0, at(from), line, (false, &bytes));
            if undefined.iter().any(|&bits| bits != 0) {
                machine.uninitialized(block, self, 0, line, "a part of this tensor map was never written");
            }
            let bytes: Bytes = bytes;
            self.poke(machine, block, 0, at(to), PIECE, line, |byte| Some((bytes[byte], 0)))?;
        }
        Ok(())
    }

    /// Stops the run if a tensor map is not aligned.
    fn require_map_alignment(
        &self,
        machine: &mut LaunchState<'_>,
        block: &PtxBlock,
        lane: usize,
        map: MemoryLocation,
        line: u32,
    ) -> Result<(), Stop> {
        if map.address.is_multiple_of(ALIGNMENT) {
            return Ok(());
        }
        let message = format!("the tensor map at {:#x} is not aligned to {ALIGNMENT} bytes", map.address);
        Err(machine.stop(FindingKind::Misaligned, block, self, lane, line, message))
    }

    /// Checks the order of an access to a part of a tensor map in shared memory.
    fn check_map_access(
        &self,
        machine: &mut LaunchState<'_>,
        block: &mut PtxBlock,
        lane: usize,
        place: MemoryLocation,
        line: u32,
        (is_write, contents): (bool, &[u8]),
    ) {
        let access = SharedAccess { thread: self.thread(lane), line, strong: false, is_write };
        self.check_race(machine, block, lane, place, access, contents);
    }
}
