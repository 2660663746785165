//! `clusterlaunchcontrol`: a running block asks for the position of a block that was not launched yet, and does its work.
//!
//! The request, `UGETNEXTWORKID`, names two consecutive uniform registers: the place of the response in shared memory, and the barrier to
//! signal. The response has 128 bits:
//!
//! | bits | content |
//! |---|---|
//! | 0 to 31 | x of the first block of the cluster |
//! | 32 to 47 | y |
//! | 48 to 63 | z |
//! | 64 | whether a launch was canceled, so that the position is valid |

use oriole_ir::{Class, MemoryAccess, Operand, Order, Scope, Space};
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// Mask of y in the second word of a response, and position of z.
const Y_MASK: u32 = 0xffff;
const Z_SHIFT: u32 = 16;

/// Selects `clusterlaunchcontrol.try_cancel.async`.
pub(crate) fn try_cancel(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let [place, barrier] = [0, 1].map(|position| select.place_in_shared(ptx.operand(position)));
    let words = [select.low(place?), select.low(barrier?)];
    let receiver = if ptx.has(Modifier::MulticastClusterAll) { ".BROADCAST" } else { ".SELFCAST" };
    select.for_each_thread(|select| {
        let pair = select.in_uniforms(&words);
        let words = [select.low(pair), select.high(pair)];
        select.b.emit(&format!("UGETNEXTWORKID{receiver} [{{}}], [{{}}]"), &words);
        let access = MemoryAccess { order: Order::Relaxed, scope: Scope::Cluster, volatile: true, ..MemoryAccess::weak(Space::Shared, 16) };
        select.b.describe(access);
        Ok(())
    })
}

/// Selects `clusterlaunchcontrol.query_cancel`.
pub(crate) fn query_cancel(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let response = select.wide_source(ptx.operand(1), ScalarType::B128)?;
    let word = |select: &mut Select<'_>, number: u8| {
        let word = select.register_of(response, number);
        select.in_register(word)
    };
    if ptx.has(Modifier::IsCanceled) {
        let flags = word(select, 2);
        let flag = select.bitwise_and(flags, 1_u32.into());
        let holds = select.compare_words("NE", false, flag, Operand::RZ);
        return select.assign(ptx.operand(0), holds);
    }
    let part = |select: &mut Select<'_>, dimension: usize| match dimension {
        0 => word(select, 0),
        1 => {
            let high = word(select, 1);
            select.bitwise_and(high, Y_MASK.into())
        }
        2 => {
            let high = word(select, 1);
            select.shift_right(high, Z_SHIFT.into(), false)
        }
        // The fourth element is unspecified.
        _ => Operand::RZ,
    };
    match ptx.get(Slot::Dim) {
        Some(Modifier::GetFirstCtaidX) => assign(select, ptx, 0, part),
        Some(Modifier::GetFirstCtaidY) => assign(select, ptx, 1, part),
        Some(Modifier::GetFirstCtaidZ) => assign(select, ptx, 2, part),
        _ => {
            for (dimension, destination) in select.elements(ptx.operand(0)).into_iter().enumerate() {
                if destination != oriole_ptx::ast::Operand::Sink {
                    let value = part(select, dimension);
                    let value = select.b.define(Class::R, "MOV $, {}", &[value]);
                    select.assign(destination, value)?;
                }
            }
            Ok(())
        }
    }
}

/// Assigns one coordinate to the destination.
fn assign(
    select: &mut Select<'_>,
    ptx: &Ptx<'_>,
    dimension: usize,
    part: impl Fn(&mut Select<'_>, usize) -> Operand,
) -> Result<(), Unsupported> {
    if ptx.operand(0) == oriole_ptx::ast::Operand::Sink {
        return Ok(());
    }
    let value = part(select, dimension);
    select.assign(ptx.operand(0), value)
}
