//! Allocation of tensor memory: `tcgen05.alloc`, `tcgen05.dealloc` and `tcgen05.relinquish_alloc_permit`.
//!
//! Tensor memory has 512 columns, which the hardware allocates in units of 32: `UTCATOMSWS.FIND_AND_SET` finds a number of free units of the
//! multiprocessor and marks them, `UTCATOMSWS.AND` frees units. Each block keeps a record of its units in reserved shared memory, which the
//! CUDA driver prepares before the kernel starts and reads after its end. The fields are those of the code that ptxas 13.0.88 generates:
//!
//! | offset | bytes | contents |
//! |---|---|---|
//! | 0x08 | 8 | mbarrier on which two blocks of a pair wait for each other |
//! | 0x10 | 4 | parity of the next phase of this barrier |
//! | 0x14 | 4 | the units that the block has, one bit for each |
//! | 0x18 | 4 | the first unit of each allocation |
//! | 0x1c | 1 | 1 if the block has given up the right to allocate |
//!
//! ```text
//!         trap if the byte at 0x1c is set
//!         one thread of the warp:
//! head:   UP0, UR4 = UTCATOMSWS.FIND_AND_SET.ALIGN units
//!         sleep and go to head unless UP0                   other blocks have to free units first
//!         set the bits of the units; store 32 * UR4, the first column
//! ```
//!
//! With `.cta_group::2` both blocks of a pair execute the instruction and get the same columns. The block with the even rank allocates for
//! both and sends the number of the first unit to the destination of the other block, whose barrier counts the four bytes.
//!
//! ptxas calls a function to report an error; here the trap is inline.

use oriole_ir::{Class, Guard, Operand, OperandKind, Reference, ReferenceKind, RegFile};
use oriole_isa::SystemLayout;
use oriole_ptx::ast;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::OffsetRange;
use crate::ptx::Ptx;
use crate::tensor::groups::{group, keep_order};

/// Name of the record in reserved shared memory.
pub const TENSOR_MEMORY_RECORD: &str = "__nv_reservedSMEM_tcgen05_partition";

/// Offset of the barrier of a pair of blocks.
const BARRIER: i64 = 0x8;
/// Offset of the parity of the next phase of the barrier.
const PARITY: i64 = 0x10;
/// Offset of the mask of units.
const UNITS: i64 = 0x14;
/// Offset of the mask of first units.
const FIRST_UNITS: i64 = 0x18;
/// Offset of the byte that forbids allocations.
const RELINQUISHED: i64 = 0x1c;

/// log2 of the number of columns of a unit.
const UNIT_SHIFT: i64 = 5;
/// The columns in an address of tensor memory; the upper half is the lane.
const COLUMNS: i64 = 0xffff;
/// Nanoseconds to sleep before the next attempt.
const PAUSE: i64 = 0x64;
/// Value of the scoreboard up to which ptxas waits before it accesses the table of units.
const OPERATIONS_IN_FLIGHT: i64 = 0x36;

/// Selects `tcgen05.alloc`.
pub(super) fn allocate(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    select.tensor_memory.allocates = true;
    let destination = select.shared_address(ptx, ptx.operand(0), OffsetRange::NONE)?;
    let destination = select.low(destination.base);
    let units = units(select, ptx.operand(1))?;
    let is_pair = !group(ptx).is_empty();
    select.branch_around(|select| {
        let (block, record) = record(select);
        let [trap, after] = [(); 2].map(|()| select.b.new_block());
        let is_forbidden = load(select, "LDS.U8", record, RELINQUISHED);
        let is_forbidden = select.compare_words("NE", false, is_forbidden, Operand::RZ);
        select.jump_if(select.condition(is_forbidden), trap);
        if is_pair {
            allocate_for_pair(select, [block, record, destination], units, after);
        } else {
            jump_unless_elected(select, after);
            let first = find(select, "", units);
            let column = select.shift_left(first, UNIT_SHIFT.into());
            note(select, record, units, first);
            store(select, destination, column);
            select.jump(after);
        }
        select.unlikely.push(trap);
        select.start(trap);
        let invalid = select.in_register(Operand::from(i64::from(u32::MAX)));
        store(select, destination, invalid);
        select.b.emit("BPT.TRAP 0x1", &[]);
        select.jump(after);
        select.start(after);
        select.reconverge_warp();
        Ok(())
    })
}

/// Emits the allocation for two blocks after the check; control continues at `after`.
fn allocate_for_pair(select: &mut Select<'_>, [block, record, destination]: [Operand; 3], units: Operand, after: oriole_ir::Block) {
    let odd = select.b.new_block();
    let rank = select.bitwise_and(block, Operand::from(1_u32));
    let other = select.logic(0x3c, block, Operand::from(1_u32), Operand::RZ);
    let other = select.in_register(other);
    let barrier = select.sum(record, BARRIER.into());
    // The same place in the shared memory of the other block: the upper byte of an address is the rank of the block.
    let in_other = |select: &mut Select<'_>, place: Operand| select.b.define(Class::R, "PRMT $, {}, 0x654, {}", &[other, place]);
    let other_barrier = in_other(select, barrier);
    let is_odd = select.compare_words("NE", false, rank, Operand::RZ);
    select.jump_if(select.condition(is_odd), odd);

    jump_unless_elected(select, after);
    let first = find(select, ".2CTA", units);
    wait_for_other(select, record);
    let four = select.in_register(Operand::from(4_u32));
    select.b.emit("SYNCS.ARRIVE.TRANS64.RED RZ, [{}+URZ], {}", &[other_barrier, four]);
    keep_order(select);
    let column = select.shift_left(first, UNIT_SHIFT.into());
    store(select, destination, column);
    let other_destination = in_other(select, destination);
    let pair = select.b.pack(Class::R2, &[other_destination, other_barrier]);
    select.b.emit("STAS [{}.64], {}", &[pair, first]);
    keep_order(select);
    note(select, record, units, first);
    update(select, "XOR", record, PARITY, Operand::from(1_u32));
    select.jump(after);

    select.start(odd);
    select.reconverge_warp();
    jump_unless_elected(select, after);
    wait_for_other(select, record);
    let first = load(select, "LDS", destination, 0);
    let column = select.shift_left(first, UNIT_SHIFT.into());
    store(select, destination, column);
    note(select, record, units, first);
    select.b.emit("SYNCS.ARRIVE.TRANS64.RED.A1T0 RZ, [{}+URZ], RZ", &[other_barrier]);
    keep_order(select);
    update(select, "XOR", record, PARITY, Operand::from(1_u32));
    select.jump(after);
}

/// Selects `tcgen05.dealloc`.
pub(super) fn free(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    select.tensor_memory.allocates = true;
    let address = select.source(ptx.operand(0), ScalarType::U32)?;
    let units = units(select, ptx.operand(1))?;
    select.branch_around(|select| {
        let (_, record) = record(select);
        let [trap, after] = [(); 2].map(|()| select.b.new_block());
        let column = select.bitwise_and(address, COLUMNS.into());
        let first = select.shift_right(column, UNIT_SHIFT.into(), false);
        let bits = [unit_bits(select, units, first), first_bit(select, first)];
        for (bits, offset) in bits.into_iter().zip([UNITS, FIRST_UNITS]) {
            let owned = load(select, "LDS", record, offset);
            let owned = select.bitwise_and(owned, bits);
            let is_foreign = select.compare_words("NE", false, owned, bits);
            select.jump_if(select.condition(is_foreign), trap);
        }
        jump_unless_elected(select, after);
        let [units, firsts] = bits.map(|bits| select.logic(0x0f, bits, Operand::RZ, Operand::RZ));
        let freed = select.in_uniform(units);
        select.b.emit("UTCATOMSWS.AND URZ, {}", &[freed]);
        keep_order(select);
        update(select, "AND", record, UNITS, units);
        update(select, "AND", record, FIRST_UNITS, firsts);
        select.jump(after);
        select.unlikely.push(trap);
        select.start(trap);
        select.b.emit("BPT.TRAP 0x1", &[]);
        select.jump(after);
        select.start(after);
        select.reconverge_warp();
        Ok(())
    })
}

/// Selects `tcgen05.relinquish_alloc_permit`.
pub(super) fn relinquish(select: &mut Select<'_>, _: &Ptx<'_>) -> Result<(), Unsupported> {
    select.tensor_memory.allocates = true;
    select.branch_around(|select| {
        let (_, record) = record(select);
        let after = select.b.new_block();
        jump_unless_elected(select, after);
        select.b.emit("UVIRTCOUNT.DEALLOC.SMPOOL 0x80", &[]);
        keep_order(select);
        let one = select.in_register(Operand::from(1_u32));
        select.b.emit("STS.U8 [{}+{}], {}", &[record, RELINQUISHED.into(), one]);
        keep_order(select);
        select.jump(after);
        select.start(after);
        select.reconverge_warp();
        Ok(())
    })
}

/// Returns the number of units of an operand that counts columns.
fn units(select: &mut Select<'_>, columns: ast::Operand) -> Result<Operand, Unsupported> {
    let columns = select.source(columns, ScalarType::U32)?;
    Ok(match columns.integer() {
        Some(columns) => Operand::from(columns >> UNIT_SHIFT),
        None => select.shift_right(columns, UNIT_SHIFT.into(), true),
    })
}

/// Returns the rank of the block in its cluster, and the address of its record in shared memory.
fn record(select: &mut Select<'_>) -> (Operand, Operand) {
    let offset = if select.variables.is_relocatable {
        let symbol = select.b.symbol(TENSOR_MEMORY_RECORD);
        let reference = Reference { symbol, offset: 0, kind: ReferenceKind::SharedOffset };
        select.b.define(Class::R, "MOV $, {}", &[reference.into()])
    } else {
        SystemLayout::of(select.target).tensor_memory_record.into()
    };
    let block = select.b.define(Class::R, "S2R $, SR_CgaCtaId", &[]);
    (block, select.b.define(Class::R, "LEA $, PT, {}, {}, 0x18", &[block, offset]))
}

/// Emits a jump to `target` in all threads of the warp but one.
fn jump_unless_elected(select: &mut Select<'_>, target: oriole_ir::Block) {
    let elected = select.elect_one();
    select.jump_if(select.condition(elected.inverted_predicate()), target);
}

/// Emits the loop that marks free units; returns the number of the first one.
fn find(select: &mut Select<'_>, group: &str, units: Operand) -> Operand {
    let [head, pause, found] = [(); 3].map(|()| select.b.new_block());
    let first = select.b.value(Class::R);
    select.jump(head);
    select.start(head);
    let units = select.in_uniform(units);
    let scoreboard = Operand::new(OperandKind::Register { file: RegFile::Scoreboard, first: 0, count: 1 });
    select.b.emit("DEPBAR.LE {}, {}", &[scoreboard, OPERATIONS_IN_FLIGHT.into()]);
    let template = format!("UTCATOMSWS{group}.FIND_AND_SET.ALIGN $, $, {{}}");
    let (is_found, unit) = select.b.define_two([Class::UP, Class::UR], &template, &[units]);
    keep_order(select);
    let unit = select.b.define(Class::R, "MOV $, {}", &[unit]);
    select.b.assign(first, unit);
    let is_found = select.b.define(Class::P, "PLOP3.LUT $, PT, PT, PT, {}, 0x80, 0x8", &[is_found]);
    let Guard { kind, .. } = select.condition(is_found);
    select.jump_if(Guard { kind, negated: true }, pause);
    select.jump(found);
    select.start(pause);
    select.b.emit("NANOSLEEP {}", &[PAUSE.into()]);
    select.jump(head);
    select.start(found);
    select.b.whole(first)
}

/// Emits the loop that waits until the other block of a pair has arrived at the barrier of this one.
fn wait_for_other(select: &mut Select<'_>, record: Operand) {
    let [head, done] = [(); 2].map(|()| select.b.new_block());
    let parity = load(select, "LDS", record, PARITY);
    let phase = select.shift_left(parity, Operand::from(31_u32));
    select.jump(head);
    select.start(head);
    let arguments = [record, BARRIER.into(), phase];
    let is_complete = select.b.define(Class::P, "SYNCS.PHASECHK.TRANS64.TRYWAIT $, [{}+URZ+{}], {}", &arguments);
    keep_order(select);
    select.jump_if(select.condition(is_complete.inverted_predicate()), head);
    select.jump(done);
    select.start(done);
}

/// Emits the entries of an allocation in the record of the block.
fn note(select: &mut Select<'_>, record: Operand, units: Operand, first: Operand) {
    let bits = unit_bits(select, units, first);
    update(select, "OR", record, UNITS, bits);
    let bit = first_bit(select, first);
    update(select, "OR", record, FIRST_UNITS, bit);
}

/// Returns a mask of `units` bits that starts at bit `first`.
fn unit_bits(select: &mut Select<'_>, units: Operand, first: Operand) -> Operand {
    let ones = match units.integer() {
        Some(units) => Operand::from(i64::from(!(u32::MAX.checked_shl(units as u32).unwrap_or(0)))),
        None => {
            let all = select.in_register(Operand::from(i64::from(u32::MAX)));
            let upper = select.shift_left(all, units);
            select.logic(0x0f, upper, Operand::RZ, Operand::RZ)
        }
    };
    let ones = select.in_register(ones);
    select.shift_left(ones, first)
}

/// Returns a mask with bit `first`.
fn first_bit(select: &mut Select<'_>, first: Operand) -> Operand {
    let one = select.in_register(Operand::from(1_u32));
    select.shift_left(one, first)
}

/// Emits a load from shared memory.
fn load(select: &mut Select<'_>, name: &str, base: Operand, offset: i64) -> Operand {
    let loaded = select.b.define(Class::R, &format!("{name} $, [{{}}+{{}}]"), &[base, offset.into()]);
    keep_order(select);
    loaded
}

/// Emits a store to shared memory.
fn store(select: &mut Select<'_>, place: Operand, value: Operand) {
    select.b.emit("STS [{}+{}], {}", &[place, 0_u32.into(), value]);
    keep_order(select);
}

/// Emits an atomic operation on a word of a record.
fn update(select: &mut Select<'_>, operation: &str, record: Operand, offset: i64, value: Operand) {
    let value = select.in_register(value);
    select.b.emit(&format!("ATOMS.{operation} RZ, [{{}}+{{}}], {{}}"), &[record, offset.into(), value]);
    keep_order(select);
}
