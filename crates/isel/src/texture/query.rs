//! Queries of textures and surfaces: `txq` and `suq`.
//!
//! Width, height and depth come from the texture header, with `TXQ`.

use oriole_ir::{Class, Operand};
use oriole_ptx::table::{Modifier, Slot};
use oriole_ptx::types::ScalarType;

use super::handle::HandleOperand;
use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

/// Selects `txq` and `suq`.
pub(crate) fn query(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let component = match ptx.get(Slot::Query) {
        Some(Modifier::Width) => 0x1,
        Some(Modifier::Height) => 0x2,
        Some(Modifier::Depth) => 0x4,
        _ => return select.unsupported(ptx),
    };
    let handle = select.handle(select.elements(ptx.operand(1))[0], None)?;
    let level = if ptx.has(Modifier::Level) { select.source(ptx.operand(2), ScalarType::S32)? } else { Operand::RZ };
    let level = select.in_register(level);
    select.with_handle(&handle, |select, operand| {
        let value = match operand {
            HandleOperand::General(word) => {
                let place = select.tuple(&[word, level]);
                select.b.define(Class::R, &format!("TXQ.B RZ, $, {{}}, TEX_HEADER_DIMENSION, {component:#x}"), &[place])
            }
            HandleOperand::Uniform(words) => {
                let pair = HandleOperand::pair(select, words);
                let template = format!("TXQ RZ, $, {{}}, TEX_HEADER_DIMENSION, {{}}, 0x0, {component:#x}");
                select.b.define(Class::R, &template, &[level, pair])
            }
        };
        select.assign(ptx.operand(0), value)
    })
}
