//! Decodes changes of tensor maps: `tensormap.replace`, `tensormap.cp_fenceproxy`.

use oriole_ptx::table::{Modifier, Opcode};
use oriole_ptx::types::ScalarType;

use super::{Decode, FunctionDecoder, PtxInst};
use crate::ptx::program::{CopyMap, PtxAction, PtxSpace, ReplaceMapField};
use crate::tensor_map::MapField;

impl FunctionDecoder<'_> {
    pub(crate) fn tensor_map(&mut self, ptx: &PtxInst<'_>) -> Decode {
        if ptx.form.opcode == Opcode::TensormapCpFenceproxy {
            self.converge();
            let to = self.address(ptx.operand(0), PtxSpace::Global)?;
            let from = self.address(ptx.operand(1), PtxSpace::Shared)?;
            self.push(PtxAction::CopyMap(Box::new(CopyMap { to, from })));
            return Ok(());
        }
        let value = ptx.operand(ptx.operands.len() - 1);
        // Fields with a value for each dimension have its number before the value.
        let dimension = match ptx.operands.len() {
            3 => self.literal(ptx.operand(1), ScalarType::U32).and_then(|number| u8::try_from(number).ok()),
            _ => None,
        };
        let fields: [(Modifier, Option<MapField>); 11] = [
            (Modifier::GlobalAddress, Some(MapField::GlobalAddress)),
            (Modifier::Rank, Some(MapField::Rank)),
            (Modifier::BoxDim, dimension.map(MapField::BoxSize)),
            (Modifier::GlobalDim, dimension.map(MapField::Size)),
            (Modifier::GlobalStride, dimension.map(MapField::Stride)),
            (Modifier::ElementStride, dimension.map(MapField::ElementStride)),
            (Modifier::Elemtype, Some(MapField::ElementType)),
            (Modifier::InterleaveLayout, Some(MapField::Interleave)),
            (Modifier::SwizzleMode, Some(MapField::Swizzle)),
            (Modifier::SwizzleAtomicity, Some(MapField::SwizzleAtomicity)),
            (Modifier::FillMode, Some(MapField::FillMode)),
        ];
        let found = fields.into_iter().find(|(modifier, _)| ptx.has(*modifier)).and_then(|(_, field)| field);
        let Some(field) = found else { return self.unsupported(ptx) };
        let wide = matches!(field, MapField::GlobalAddress | MapField::Stride(_));
        let space = if ptx.has(Modifier::Global) { PtxSpace::Global } else { PtxSpace::Shared };
        let map = self.address(ptx.operand(0), space)?;
        let value = self.source(value, if wide { ScalarType::B64 } else { ScalarType::B32 })?;
        self.push(PtxAction::ReplaceMapField(Box::new(ReplaceMapField { map, field, value })));
        Ok(())
    }
}
