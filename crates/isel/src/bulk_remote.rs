//! Bulk copies from global memory into shared memory of other blocks of a cluster, by functions of the CUDA driver.
//!
//! On sm_120 and sm_121 the copy engine writes shared memory of its own block only. There ptxas has the instruction behind a test, and calls a
//! function of the driver for other destinations:
//!
//! | copy | the instruction is executed |
//! |---|---|
//! | to one block | if the destination is in this block: the upper byte of an address in `.shared::cluster` is the rank of the block |
//! | multicast | without the set of blocks, if the kernel was not launched in clusters and the set is this block |
//!
//! The name is `__cuda_syscall_cp_async_bulk_`, `tensor_3d_tile_` or `tensor_3d_im2col_` with the number of dimensions for tensors, and
//! `unicast` or `multicast`. The functions follow the calling convention. Their arguments, found in ptxas' code for each form:
//!
//! | argument | `cp.async.bulk` | `cp.async.bulk.tensor` |
//! |---|---|---|
//! | destination | R4, R5 (0) | R4, R5 (0) |
//! | address of the data or of the tensor map | R6, R7 | R6, R7 |
//! | size in bytes; up to five coordinates | R8 | R8 to R12 |
//! | set of blocks | R9 | R13 |
//! | barrier | R10, R11 (0) | R14, R15 (0) |
//! | offsets of `.im2col`, 16 bits each | | stack, 8 bytes |
//! | cache policy, or 0 | R12, R13 | stack, 8 bytes |

use oriole_ir::{Class, Operand};
use oriole_isa::{LaunchLayout, SystemLayout, Target};
use oriole_ptx::ast::Form;
use oriole_ptx::table::{Modifier, Opcode};

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// Beginning of the names of the functions.
const DRIVER_PREFIX: &str = "__cuda_syscall_cp_async_bulk_";
/// Size of the set of offsets of `.im2col`, and of the cache policy, on the stack.
const STACK_SLOT_BYTES: u32 = 8;
/// Registers of the first argument, the address, and the size or first coordinate.
const PLACE: u8 = 4;
const SOURCE: u8 = 6;
const SIZE_OR_COORDINATES: u8 = 8;
/// Lowest bit of the rank of a block in an address in `.shared::cluster`.
const RANK_SHIFT: i64 = 24;

/// The operands of a copy.
pub(crate) struct CopyOperands<'a> {
    /// The address in shared memory.
    pub(crate) place: Operand,
    /// The address of the barrier.
    pub(crate) barrier: Operand,
    /// The two words of the address of the data or of the tensor map.
    pub(crate) source: &'a [Operand],
    /// The size in bytes, or the coordinates.
    pub(crate) size_or_coordinates: &'a [Operand],
    /// The offsets of `.im2col`.
    pub(crate) offsets: &'a [Operand],
    /// The set of blocks of a multicast.
    pub(crate) blocks: Option<Operand>,
    /// The cache policy.
    pub(crate) policy: Option<Operand>,
}

/// Returns whether a form copies into shared memory of a cluster, and the driver does so for other blocks than the own one.
pub(crate) fn may_call_driver(form: &Form, target: Target) -> bool {
    let has = |modifier| form.modifiers.iter().any(|value| value.modifier == modifier);
    matches!(form.opcode, Opcode::CpAsyncBulk | Opcode::CpAsyncBulkTensor)
        && [Modifier::SharedCluster, Modifier::Global, Modifier::MbarrierCompleteTxBytes].into_iter().all(has)
        && SystemLayout::of(target).driver_copies_to_blocks
}

/// Returns the stack that the call for a form needs, in bytes.
pub(crate) fn driver_stack_bytes(form: &Form, target: Target) -> u32 {
    match form.opcode {
        Opcode::CpAsyncBulkTensor if may_call_driver(form, target) => 2 * STACK_SLOT_BYTES,
        _ => 0,
    }
}

/// Returns the name of the function for a copy.
fn driver_name(ptx: &Ptx<'_>) -> Option<String> {
    let blocks = if ptx.has(Modifier::MulticastCluster) { "multicast" } else { "unicast" };
    if ptx.opcode() == Opcode::CpAsyncBulk {
        return Some(format!("{DRIVER_PREFIX}{blocks}"));
    }
    let dimensions = [Modifier::N1d, Modifier::N2d, Modifier::N3d, Modifier::N4d, Modifier::N5d];
    let dimensions = 1 + dimensions.iter().position(|&modifier| ptx.has(modifier))?;
    let other_modes = [Modifier::Im2colW, Modifier::Im2colW128, Modifier::TileGather4];
    let mode = match () {
        () if other_modes.iter().any(|&mode| ptx.has(mode)) => return None,
        () if ptx.has(Modifier::Im2col) => "im2col",
        () => "tile",
    };
    Some(format!("{DRIVER_PREFIX}tensor_{dimensions}d_{mode}_{blocks}"))
}

impl Select<'_> {
    /// Emits a copy into shared memory of a cluster: `write` emits the instruction for the own block; for other blocks calls the driver.
    pub(crate) fn copy_or_call_driver(
        &mut self,
        ptx: &Ptx<'_>,
        operands: &CopyOperands<'_>,
        write: impl FnOnce(&mut Self) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let Some(name) = driver_name(ptx) else { return self.unsupported(ptx) };
        self.branch_around(|select| {
            let is_own = match operands.blocks {
                None => select.is_place_in_own_block(operands.place),
                Some(blocks) => select.is_own_block_alone(ptx, blocks)?,
            };
            let [call, instruction, after] = [(); 3].map(|()| select.b.new_block());
            let condition = select.condition(is_own);
            select.b.branch(Some(condition), instruction);
            select.b.branch(None, call);
            select.start(call);
            select.call_copy(&name, ptx.opcode() == Opcode::CpAsyncBulkTensor, operands);
            select.b.branch(None, after);
            select.start(instruction);
            write(select)?;
            select.b.branch(None, after);
            select.start(after);
            Ok(())
        })
    }

    /// Returns whether an address in `.shared::cluster` is in the own block, as a predicate.
    fn is_place_in_own_block(&mut self, place: Operand) -> Operand {
        let place = self.in_register(place);
        let rank = self.b.define(Class::R, "SHF.R.U32.HI $, RZ, {}, {}", &[RANK_SHIFT.into(), place]);
        let own = self.b.define(Class::R, "S2R $, SR_CgaCtaId", &[]);
        self.compare_words("EQ", false, rank, own)
    }

    /// Returns whether the kernel was not launched in clusters, and a set of blocks has the first block only, as a predicate.
    fn is_own_block_alone(&mut self, ptx: &Ptx<'_>, blocks: Operand) -> Result<Operand, Unsupported> {
        let Some(cluster) = LaunchLayout::of(self.target).cluster else { return self.unsupported(ptx) };
        let word = self.constant_word(cluster.is_explicit);
        let is_single = self.compare_words("NE", false, word, 1.into());
        let blocks = self.in_register(blocks);
        let blocks = self.bitwise_and(blocks, 0xffff.into());
        Ok(self.compare_words_and("EQ", false, blocks, 1.into(), "AND", is_single))
    }

    /// Emits the call of the function with this name.
    fn call_copy(&mut self, name: &str, is_tensor: bool, operands: &CopyOperands<'_>) {
        let policy = operands.policy.map_or([Operand::RZ; 2], |policy| [self.low(policy), self.high(policy)]);
        let mut registers = vec![(PLACE, operands.place), (PLACE + 1, Operand::RZ)];
        registers.extend((SOURCE..).zip(operands.source.iter().copied()));
        registers.extend((SIZE_OR_COORDINATES..).zip(operands.size_or_coordinates.iter().copied()));
        let (blocks, barrier) = if is_tensor { (13, 14) } else { (9, 10) };
        registers.extend(operands.blocks.map(|mask| (blocks, mask)));
        registers.extend([(barrier, operands.barrier), (barrier + 1, Operand::RZ)]);
        match (is_tensor, operands.offsets) {
            (false, _) => registers.extend((barrier + 2..).zip(policy)),
            (true, []) => self.store_argument(&policy, 0),
            (true, offsets) => {
                let offset = |at: usize| offsets.get(at).copied().unwrap_or(Operand::RZ);
                let [first, second] = [offset(0), offset(1)].map(|word| self.in_register(word));
                let packed = self.b.define(Class::R, "PRMT $, {}, 0x5410, {}", &[first, second]);
                let third = self.in_register(offset(2));
                self.store_argument(&[packed, third], 0);
                self.store_argument(&policy, STACK_SLOT_BYTES);
            }
        }
        self.call_by_name(name, true, &registers, &[]);
    }
}
