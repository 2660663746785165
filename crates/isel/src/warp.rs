//! Warp-level operations: `shfl`, `vote`, `match`, `redux`, `elect`, `activemask`, `bar.warp.sync`.
//!
//! The machine's instructions operate on the threads that are active together. PTX names the participating threads by a mask, even if they
//! have diverged, so `WARPSYNC` reconverges these threads first. The pass `opt::converge` deletes the `WARPSYNC` where the whole warp is
//! still converged. Threads that are not in the mask may be active at the same time. Votes and matches mask their result to ignore such
//! threads; reductions and elections need `WARPSYNC.EXCLUSIVE`, which excludes them.
//!
//! A guard becomes a branch: a guarded `WARPSYNC` waits for threads that may be at an operation with the opposite guard.

use oriole_ir::{Class, MemoryAccess, Operand, Order, Scope, Space};
use oriole_isa::Opcode;
use oriole_ptx::ast;
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::has_clusters;
use crate::ptx::Ptx;

/// The mask of all threads of a warp.
const FULL_MASK: i64 = 0xffff_ffff;

/// The threads that participate.
#[derive(Clone, Copy)]
enum Members {
    /// All threads of the warp, known at compile time.
    All,
    /// The threads in a mask.
    Mask(Operand),
}

/// Reads the operand that is the mask of the participating threads.
fn members(select: &mut Select<'_>, operand: ast::Operand) -> Result<Members, Unsupported> {
    let mask = select.source(operand, ScalarType::U32)?;
    Ok(if mask.integer() == Some(FULL_MASK) { Members::All } else { Members::Mask(mask) })
}

impl Select<'_> {
    /// Returns whether the warp cannot have diverged yet: this is the entry block of a kernel, without guard or call so far.
    pub(crate) fn is_warp_converged(&self) -> bool {
        let has_called = !self.callees.is_empty() || !self.indirect_calls.is_empty();
        self.b.block() == self.b.function.entry() && self.b.guard.is_none() && self.is_kernel && !has_called
    }

    /// Emits a reconvergence of the whole warp.
    pub(crate) fn reconverge_warp(&mut self) {
        self.synchronize(Members::All, false);
    }

    /// Emits a reconvergence of the participating threads; with `exclusive` no other threads are active afterwards.
    fn synchronize(&mut self, members: Members, exclusive: bool) {
        match members {
            Members::All if has_clusters(self.target) => {
                self.b.emit("WARPSYNC.ALL", &[]);
            }
            Members::All => {
                self.b.emit("WARPSYNC {}", &[FULL_MASK.into()]);
            }
            Members::Mask(mask) => {
                let mask = self.in_register(mask);
                self.b.emit(if exclusive { "WARPSYNC.EXCLUSIVE {}" } else { "WARPSYNC {}" }, &[mask]);
            }
        }
    }

    /// Emits a ballot: the mask of the active threads in which a predicate holds.
    fn ballot(&mut self, predicate: Operand) -> Operand {
        self.b.define(Class::R, "VOTE.ANY $, PT, {}", &[predicate])
    }

    /// Emits `bits & mask`.
    fn masked(&mut self, bits: Operand, mask: Operand) -> Operand {
        self.b.define(Class::R, "LOP3.LUT $, {}, {}, RZ, 0xc0, !PT", &[bits, mask])
    }
}

/// Selects `bar.warp.sync`. The barrier also orders memory accesses, so it is kept even if the warp is already converged.
pub(crate) fn warp_barrier(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    select.branch_around(|select| select_warp_barrier(select, ptx))
}

/// Selects `bar.warp.sync` without guard.
fn select_warp_barrier(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let members = members(select, ptx.operand(0))?;
    select.synchronize(members, false);
    let order = MemoryAccess { order: Order::AcquireRelease, scope: Scope::Block, volatile: true, ..MemoryAccess::weak(Space::Generic, 0) };
    select.b.describe(order);
    Ok(())
}

/// Selects `shfl`.
pub(crate) fn shuffle(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    select.branch_around(|select| select_shuffle(select, ptx))
}

/// Selects `shfl` without guard.
fn select_shuffle(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let mode = match () {
        () if ptx.has(Modifier::Up) => "UP",
        () if ptx.has(Modifier::Down) => "DOWN",
        () if ptx.has(Modifier::Bfly) => "BFLY",
        () => "IDX",
    };
    let (destination, in_range) = select.split_pair(ptx.operand(0));
    let value = select.source(ptx.operand(1), ScalarType::B32)?;
    let value = select.in_register(value);
    let lane = lane_operand(select, ptx.operand(2), 0x1f)?;
    let segment = lane_operand(select, ptx.operand(3), 0x1fff)?;
    if let Some(&mask) = ptx.operands.get(4) {
        let members = members(select, mask)?;
        select.synchronize(members, false);
    }
    let template = format!("SHFL.{mode} $, $, {{}}, {{}}, {{}}");
    let (is_valid, result) = select.b.define_two([Class::P, Class::R], &template, &[value, lane, segment]);
    select.assign(destination, result)?;
    select.assign(in_range, is_valid)
}

/// Returns the lane or segment operand of a shuffle. Constants are reduced to the bits that the machine reads.
fn lane_operand(select: &mut Select<'_>, operand: ast::Operand, bits: i64) -> Result<Operand, Unsupported> {
    let value = select.source(operand, ScalarType::B32)?;
    Ok(value.integer().map_or(value, |number| (number & bits).into()))
}

/// Selects `vote`.
pub(crate) fn vote(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    select.branch_around(|select| select_vote(select, ptx))
}

/// Selects `vote` without guard.
fn select_vote(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let predicate = select.predicate(ptx.operand(1))?;
    let members = match ptx.operands.get(2) {
        Some(&mask) => members(select, mask)?,
        None => Members::All,
    };
    if ptx.operands.len() > 2 {
        select.synchronize(members, false);
    }
    let Members::Mask(mask) = members else {
        let result = match () {
            () if ptx.has(Modifier::Ballot) => select.ballot(predicate),
            () if ptx.has(Modifier::All) => select.b.define(Class::P, "VOTE.ALL RZ, $, {}", &[predicate]),
            () if ptx.has(Modifier::Any) => select.b.define(Class::P, "VOTE.ANY RZ, $, {}", &[predicate]),
            () => select.b.define(Class::P, "VOTE.EQ RZ, $, {}", &[predicate]),
        };
        return select.assign(ptx.operand(0), result);
    };
    if ptx.has(Modifier::Ballot) {
        let votes = select.ballot(predicate);
        let result = select.masked(votes, mask);
        return select.assign(ptx.operand(0), result);
    }
    let result = if ptx.has(Modifier::Any) {
        let votes = select.ballot(predicate);
        let votes = select.masked(votes, mask);
        select.b.define(Class::P, "ISETP.NE.U32.AND $, PT, {}, RZ, PT", &[votes])
    } else {
        let against = select.ballot(predicate.inverted_predicate());
        let against = select.masked(against, mask);
        let is_unanimous = select.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, RZ, PT", &[against]);
        if ptx.has(Modifier::All) {
            is_unanimous
        } else {
            let votes = select.ballot(predicate);
            let votes = select.masked(votes, mask);
            select.b.define(Class::P, "ISETP.EQ.U32.OR $, PT, {}, RZ, {}", &[votes, is_unanimous])
        }
    };
    select.assign(ptx.operand(0), result)
}

/// Selects `activemask`.
pub(crate) fn activemask(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let mask = select.ballot(Operand::PT);
    select.assign(ptx.operand(0), mask)
}

/// Selects `match`.
pub(crate) fn matching(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    select.branch_around(|select| select_matching(select, ptx))
}

/// Selects `match` without guard.
fn select_matching(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let value = select.source_of_any_width(ptx.operand(1), ty)?;
    let (value, size) = if ty.bits() == 64 { (value, ".U64") } else { (select.in_register(value), "") };
    let members = members(select, ptx.operand(2))?;
    select.synchronize(members, false);
    let (destination, same) = select.split_pair(ptx.operand(0));
    match (ptx.has(Modifier::Any), members) {
        (false, Members::All) => {
            let template = format!("MATCH.ALL{size} $, $, {{}}");
            let (is_same, mask) = select.b.define_two([Class::P, Class::R], &template, &[value]);
            select.assign(destination, mask)?;
            select.assign(same, is_same)
        }
        (is_any, members) => {
            let mut equal = select.b.define(Class::R, &format!("MATCH.ANY{size} $, {{}}"), &[value]);
            let Members::Mask(mask) = members else { return select.assign(destination, equal) };
            equal = select.masked(equal, mask);
            if is_any {
                return select.assign(destination, equal);
            }
            let active = select.ballot(Operand::PT);
            let active = select.masked(active, mask);
            let is_same = select.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, {}, PT", &[equal, active]);
            let all = select.b.define(Class::R, "SEL $, {}, RZ, {}", &[active, is_same]);
            select.assign(destination, all)?;
            select.assign(same, is_same)
        }
    }
}

/// Selects `redux`.
pub(crate) fn reduction(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    select.branch_around(|select| select_reduction(select, ptx))
}

/// Selects `redux` without guard.
fn select_reduction(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ty = ptx.ty();
    let value = select.source(ptx.operand(1), ty)?;
    let value = select.in_register(value);
    let members = members(select, ptx.operand(2))?;
    let sign = if ty == ScalarType::S32 { ".S32" } else { "" };
    let name = match () {
        () if ptx.has(Modifier::Min) => "MIN",
        () if ptx.has(Modifier::Max) => "MAX",
        () if ptx.has(Modifier::Add) => "SUM",
        () if ptx.has(Modifier::Or) => "OR",
        () if ptx.has(Modifier::Xor) => "XOR",
        () => "",
    };
    let template = match ty {
        ScalarType::F32 if Opcode::CREDUX.exists_on(select.target) => {
            let absolute = if ptx.has(Modifier::Abs) { "ABS" } else { "" };
            let nan = if ptx.has(Modifier::NaN) { ".NAN" } else { "" };
            format!("CREDUX.{name}{absolute}.F32{nan} $, {{}}")
        }
        ScalarType::F32 => return select.unsupported(ptx),
        _ if !Opcode::REDUX.exists_on(select.target) => return select.unsupported(ptx),
        // Like ptxas, uses the newer instruction for minima and maxima on targets that have it.
        _ if matches!(name, "MIN" | "MAX") && Opcode::CREDUX.exists_on(select.target) => format!("CREDUX.{name}{sign} $, {{}}"),
        _ if name.is_empty() => "REDUX $, {}".to_owned(),
        _ => format!("REDUX.{name}{sign} $, {{}}"),
    };
    select.synchronize(members, true);
    let uniform = select.b.define(Class::UR, &template, &[value]);
    let result = select.b.define(Class::R, "MOV $, {}", &[uniform]);
    select.assign(ptx.operand(0), result)
}

/// Selects `elect`.
pub(crate) fn elect(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    select.branch_around(|select| select_elect(select, ptx))
}

/// Selects `elect` without guard.
fn select_elect(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if !Opcode::ELECT.exists_on(select.target) {
        return select.unsupported(ptx);
    }
    let (leader, is_elected) = select.split_pair(ptx.operand(0));
    let members = members(select, ptx.operand(1))?;
    select.synchronize(members, true);
    let (elected, lane) = select.b.define_two([Class::P, Class::UR], "ELECT $, $, PT", &[]);
    if leader != ast::Operand::Sink {
        let lane = select.b.define(Class::R, "MOV $, {}", &[lane]);
        select.assign(leader, lane)?;
    }
    select.assign(is_elected, elected)
}
