//! Clusters of thread blocks: `barrier.cluster`, `mapa`, `getctarank`, `st.async`, `red.async`.
//!
//! The upper eight bits of an address in shared memory are the rank of the block in its cluster.

use oriole_ir::{Class, MemoryAccess, Operand, Order, Scope, Space};
use oriole_isa::LaunchLayout;
use oriole_ptx::ast;
use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use crate::barrier::{branch_if_diverged, call_runtime};
use crate::bulk::reduction_name;
use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::runtime::barrier_name;

/// An operation of the barrier of a cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClusterBarrierOperation {
    Arrive,
    ArriveRelaxed,
    Wait,
}

impl ClusterBarrierOperation {
    /// Returns the name of the operation in that of its runtime function.
    fn name(self) -> &'static str {
        match self {
            ClusterBarrierOperation::Arrive => "cluster_arrive",
            ClusterBarrierOperation::ArriveRelaxed => "cluster_arrive_relaxed",
            ClusterBarrierOperation::Wait => "cluster_wait",
        }
    }
}

/// Selects `barrier.cluster.arrive` and `barrier.cluster.wait`.
///
/// The hardware counts warps. Without `.aligned`, threads of one warp may execute different instructions; a diverged warp calls a runtime
/// function in which its threads meet.
pub(crate) fn barrier(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(cluster) = LaunchLayout::of(select.target).cluster else { return select.unsupported(ptx) };
    let operation = match () {
        () if ptx.has(Modifier::Wait) => ClusterBarrierOperation::Wait,
        () if ptx.has(Modifier::Relaxed) => ClusterBarrierOperation::ArriveRelaxed,
        () => ClusterBarrierOperation::Arrive,
    };
    select.barriers = select.barriers.max(1);
    if ptx.has(Modifier::Aligned) || select.is_warp_converged() {
        select.reconverge_warp();
        select.branch_around(|select| converged_barrier(select, cluster.is_explicit, operation));
        return Ok(());
    }
    select.branch_around(|select| {
        let [together, apart, after] = [(); 3].map(|()| select.b.new_block());
        branch_if_diverged(select, apart);
        select.b.branch(None, together);

        select.start(apart);
        call_runtime(select, barrier_name(operation.name(), false));
        select.b.branch(None, after);
        select.unlikely.push(apart);

        select.start(together);
        converged_barrier(select, cluster.is_explicit, operation);
        select.b.branch(None, after);
        select.start(after);
    });
    Ok(())
}

/// Emits an operation of the barrier for a converged warp. `is_explicit` is the place of the constant that says whether the launch has
/// clusters.
///
/// A kernel launched without clusters has no cluster barrier. There every block is a cluster of its own, so that a barrier of the block
/// does the same: as in ptxas' code, the arrival does nothing then and the wait is `BAR.SYNC`.
fn converged_barrier(select: &mut Select<'_>, is_explicit: u32, operation: ClusterBarrierOperation) {
    let word = select.constant_word(is_explicit);
    let is_explicit = select.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, 0x1, PT", &[word]);
    let [inside, outside, after] = [(); 3].map(|()| select.b.new_block());
    let condition = select.condition(is_explicit);
    select.b.branch(Some(condition), inside);
    select.b.branch(None, outside);

    select.start(outside);
    if operation == ClusterBarrierOperation::Wait {
        select.b.emit("BAR.SYNC.DEFER_BLOCKING 0x0, 0x0", &[]);
    }
    select.b.branch(None, after);
    select.unlikely.push(outside);

    select.start(inside);
    if operation == ClusterBarrierOperation::Wait {
        select.b.emit("UCGABAR_WAIT", &[]);
        select.fence(Order::Acquire, Scope::Cluster);
    } else {
        if operation == ClusterBarrierOperation::Arrive {
            select.fence(Order::Release, Scope::Cluster);
        }
        select.b.emit("UCGABAR_ARV", &[]);
    }
    select.b.branch(None, after);
    select.start(after);
}

/// Selects `mapa`.
pub(crate) fn map_address(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let rank = select.source(ptx.operand(2), ScalarType::U32)?;
    let rank = select.in_register(rank);
    let address = address_operand(select, ptx)?;
    let low = select.low(address);
    let low = select.in_register(low);
    // Replaces the highest byte by the rank.
    let mapped = select.b.define(Class::R, "PRMT $, {}, 0x654, {}", &[rank, low]);
    if ptx.ty().bits() == 32 {
        return select.assign(ptx.operand(0), mapped);
    }
    let high = select.high(address);
    select.assign_halves(ptx.operand(0), mapped, high)
}

/// Selects `getctarank`.
pub(crate) fn rank_of_address(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let address = address_operand(select, ptx)?;
    let low = select.low(address);
    let low = select.in_register(low);
    let rank = select.b.define(Class::R, "SHF.R.U32.HI $, RZ, 0x18, {}", &[low]);
    select.assign(ptx.operand(0), rank)
}

/// Returns the address operand of `mapa` and `getctarank`. A variable without a state space modifier is a generic address.
fn address_operand(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<Operand, Unsupported> {
    let operand = ptx.operand(1);
    let is_variable = matches!(operand, ast::Operand::Variable(_) | ast::Operand::AddressOf(_));
    let address = match is_variable {
        true => select.address_value(operand)?,
        false if ptx.ty().bits() == 64 => select.wide_source(operand, ScalarType::U64)?,
        false => select.source(operand, ScalarType::U32)?,
    };
    if ptx.ty().bits() == 64 && is_variable && !ptx.has(Modifier::SharedCluster) {
        let high = select.shared_window_high();
        let low = select.low(address);
        let low = select.in_register(low);
        return Ok(select.b.pack(Class::R2, &[low, high]));
    }
    Ok(address)
}

/// Selects `st.async` and `red.async` to the shared memory of a cluster. A pair of registers has the place and the barrier to signal.
pub(crate) fn store_async(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if !ptx.has(Modifier::MbarrierCompleteTxBytes) {
        return select.unsupported(ptx);
    }
    let place = select.place_in_shared(ptx.operand(0))?;
    let barrier = select.place_in_shared(ptx.operand(2))?;
    let words = [place, barrier].map(|word| select.in_register(word));
    let pair = select.b.pack(Class::R2, &words);
    let bits = ptx.ty().bits();
    if ptx.opcode() == Opcode::RedAsync {
        let Some(operation) = reduction_name(ptx) else { return select.unsupported(ptx) };
        let size = match bits {
            64 => ".64",
            _ if ptx.ty() == ScalarType::S32 => ".S32",
            _ => "",
        };
        let value = select.source_of_any_width(ptx.operand(1), ptx.ty())?;
        let value = if bits == 64 { value } else { select.in_register(value) };
        select.b.emit(&format!("REDAS{operation}{size} [{{}}.64], {{}}"), &[pair, value]);
    } else {
        let mut registers = Vec::new();
        for element in select.elements(ptx.operand(1)) {
            match bits {
                64 => registers.extend(select.halves(element, ptx.ty())?),
                _ => registers.push(select.source(element, ptx.ty())?),
            }
        }
        let registers: Vec<Operand> = registers.into_iter().map(|word| select.in_register(word)).collect();
        let size = match registers.len() {
            1 => "",
            2 => ".64",
            4 => ".128",
            _ => return select.unsupported(ptx),
        };
        let value = match registers[..] {
            [single] => single,
            _ => select.b.pack(Class::new(oriole_ir::RegFile::General, registers.len() as u8), &registers),
        };
        select.b.emit(&format!("STAS{size} [{{}}.64], {{}}"), &[pair, value]);
    }
    let access = MemoryAccess { order: Order::Relaxed, scope: Scope::Cluster, volatile: true, ..MemoryAccess::weak(Space::Generic, 0) };
    select.b.describe(access);
    Ok(())
}
