//! Finds the registers of a tuple that are read for the last time while other registers of the tuple are still needed.
//!
//! A value is live as a whole until its last use. The registers of a wide tuple, such as the accumulator of a matrix product, are mostly
//! read one by one, and each of them could be reused after its own last read. [`DeadTupleParts`] lists these registers by the instruction
//! that reads them last; the allocator then frees them there, and results of the instruction may get them:
//!
//! ```text
//! %1:R32 = HGMMA ..               R24 to R55
//! %2:R = FMUL %1[0], %s           last read of %1[0]: %2 may get R24, although %1 stays live in R25 to R55
//! %3:R = FMUL %1[1], %s           %3 may get R25
//! ```
//!
//! Together with the coalescing hints ([`crate::hints`]) an accumulator is scaled in place and needs no copy.
//!
//! Only tuples that are not live at the end of the block are considered: at the borders of blocks all registers of a value are occupied.

use oriole_ir::{Block, Function, Inst, Part, RegFile, Value};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use crate::liveness::{FileLiveness, MIN_SPLIT_TUPLE_WIDTH, RegisterFileInst};
use crate::operands::part_in_file;
use crate::registers::{Reg, RegisterSet};

/// The single registers of tuples that are read for the last time while other registers of the tuple are still needed.
#[derive(Clone, Default)]
pub(crate) struct DeadTupleParts {
    /// For each instruction: the single registers of tuples that it reads for the last time.
    parts: FxHashMap<Inst, SmallVec<[Part; 2]>>,
}

impl DeadTupleParts {
    /// Finds, in the blocks of a function, the last reads of single registers of tuples in a register file.
    pub fn compute(&mut self, function: &Function, blocks: &[Block], liveness: &FileLiveness, file: RegFile) {
        self.parts.clear();
        if !function.values.iter().any(|class| class.file == file && class.width >= MIN_SPLIT_TUPLE_WIDTH) {
            return;
        }
        // For each tuple: the registers that are read later, numbered from 0 at the first register of the tuple.
        let mut needed: FxHashMap<Value, RegisterSet> = FxHashMap::default();
        for &block in blocks {
            needed.clear();
            for &file_inst in liveness.file_insts_of(block).iter().rev() {
                self.record_last_reads(function, liveness, file_inst, file, &mut needed);
            }
        }
    }

    /// Records the single registers of tuples that an instruction reads for the last time. The instructions of a block are visited in
    /// reverse order; `needed` has, for each tuple, the registers of it that later instructions read.
    fn record_last_reads(
        &mut self,
        function: &Function,
        liveness: &FileLiveness,
        file_inst: RegisterFileInst,
        file: RegFile,
        needed: &mut FxHashMap<Value, RegisterSet>,
    ) {
        let is_tuple = |value: Value| function.values[value].width >= MIN_SPLIT_TUPLE_WIDTH;
        let reads = liveness.reads(file_inst);
        if !reads.iter().any(|read| is_tuple(read.value)) {
            return;
        }
        for read in reads.iter().filter(|read| is_tuple(read.value)) {
            // Instructions are visited in reverse, so the first visit to a tuple is its last read in the block.
            needed.entry(read.value).or_insert(if read.next_use.is_never() { RegisterSet::EMPTY } else { RegisterSet::ALL });
        }
        let dies = |value: Value| reads.iter().any(|read| read.value == value && read.next_use.is_never());
        for part in function.sources(file_inst.inst).iter().filter_map(|source| part_in_file(function, source, file)) {
            let Some(later) = needed.get_mut(&part.value) else { continue };
            for first in part.first..part.first + part.count {
                // A tuple that dies here is freed as a whole.
                if !later.has(Reg::from(first)) && !dies(part.value) {
                    self.parts.entry(file_inst.inst).or_default().push(Part { first, count: 1, ..part });
                }
                later.insert(Reg::from(first), 1);
            }
        }
    }

    /// Returns the single registers of tuples that an instruction reads for the last time while other registers of the tuples are still
    /// needed.
    pub fn parts_read_last_by(&self, inst: Inst) -> &[Part] {
        self.parts.get(&inst).map_or(&[], |parts| parts)
    }
}
