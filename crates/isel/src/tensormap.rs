//! Changes of tensor maps: `tensormap.replace`, `tensormap.cp_fenceproxy`.
//!
//! A tensor map is an object of 128 bytes whose layout the manual does not define; [`WordField`] has the positions that ptxas' code for
//! `tensormap.replace` writes. `docs/tensor-maps.md` has the whole layout.

use oriole_ir::{Class, MemoryAccess, Operand, Order, Scope, Space};
use oriole_ptx::ast;
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::memory::{AccessSpace, AddressOperands, OffsetRange, scope_of, strong};
use crate::ptx::Ptx;

/// Bytes between two words of a tensor map.
const WORD_BYTES: i64 = 4;
/// Offset of the word with rank, element type, interleaving, swizzling and fill mode.
const MODES: i64 = 0x8;
/// Offset of the word with the element strides.
const ELEMENT_STRIDES: i64 = 0x34;
/// Offset of the first word with sizes of the box.
const BOX_SIZES: i64 = 0x34;
/// Offset of the word with the upper bits of the strides.
const UPPER_STRIDES: i64 = 0x1c;

/// A bit field of a 32-bit word in a tensor map.
#[derive(Clone, Copy)]
struct WordField {
    /// Offset of the word in bytes.
    offset: i64,
    /// The lowest bit.
    shift: i64,
    /// The number of bits.
    bits: i64,
}

impl WordField {
    /// Returns the bits of the field in its word.
    fn mask(self) -> u32 {
        (((1_u64 << self.bits) - 1) << self.shift) as u32
    }
}

/// Selects `tensormap.replace`.
pub(crate) fn replace(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let space = select.access_space(ptx, ptx.operand(0));
    let map = select.address(ptx.operand(0), space, OffsetRange::NONE)?;
    let target = TensorMapAddress { space, address: map };
    let value = ptx.operand(ptx.operands.len() - 1);
    let ordinal = match ptx.operands.len() {
        3 => select.literal(ptx.operand(1), ScalarType::U32).unwrap_or(0) as i64,
        _ => 0,
    };
    match () {
        () if ptx.has(Modifier::GlobalAddress) => {
            let [low, high] = select.halves(value, ScalarType::B64)?;
            target.store(select, ptx, 0, low)?;
            target.store(select, ptx, WORD_BYTES, high)
        }
        () if ptx.has(Modifier::GlobalStride) => replace_stride(select, ptx, target, ordinal, value),
        () if ptx.has(Modifier::GlobalDim) => {
            let size = less_one(select, value)?;
            target.store(select, ptx, 0x20 + WORD_BYTES * ordinal, size)
        }
        () if ptx.has(Modifier::BoxDim) => {
            let size = less_one(select, value)?;
            // The first size is in the highest byte of the word before the others.
            let position = ordinal + 3;
            let field = WordField { offset: BOX_SIZES + WORD_BYTES * (position / 4), shift: 8 * (position % 4), bits: 8 };
            target.insert(select, ptx, field, size)
        }
        () if ptx.has(Modifier::ElementStride) => {
            let stride = less_one(select, value)?;
            target.insert(select, ptx, WordField { offset: ELEMENT_STRIDES, shift: 3 * ordinal, bits: 3 }, stride)
        }
        () => {
            let value = select.source(value, ScalarType::B32)?;
            let (field, value) = match (value.integer(), ptx) {
                (_, ptx) if ptx.has(Modifier::Rank) => (modes(4, 3), value),
                (Some(number), ptx) if ptx.has(Modifier::Elemtype) => return replace_type(select, ptx, target, number),
                (_, ptx) if ptx.has(Modifier::InterleaveLayout) => (modes(11, 2), value),
                (Some(number), ptx) if ptx.has(Modifier::SwizzleMode) => return replace_swizzle(select, ptx, target, number),
                (_, ptx) if ptx.has(Modifier::FillMode) => (modes(15, 1), value),
                (_, ptx) if ptx.has(Modifier::SwizzleAtomicity) => (modes(19, 3), value),
                _ => return select.unsupported(ptx),
            };
            target.insert(select, ptx, field, value)
        }
    }
}

/// Returns a field of the word with modes.
fn modes(shift: i64, bits: i64) -> WordField {
    WordField { offset: MODES, shift, bits }
}

/// Replaces the element type. The types of `.tf32` are stored as `.f32` with a bit of their own; the numbers of the types after them are
/// smaller by two than those of the operand. As in ptxas' code, the bit is never cleared.
fn replace_type(select: &mut Select<'_>, ptx: &Ptx<'_>, map: TensorMapAddress, number: i64) -> Result<(), Unsupported> {
    const TF32: [i64; 2] = [11, 12];
    const F32: i64 = 7;
    let stored = match number {
        _ if TF32.contains(&number) => {
            map.insert(select, ptx, modes(16, 1), Operand::from(1))?;
            number - TF32[0] + F32
        }
        _ if number > TF32[1] => number - TF32.len() as i64,
        _ => number,
    };
    map.insert(select, ptx, modes(7, 4), Operand::from(stored))
}

/// Replaces the swizzle mode. The mode after the first four has a bit of its own.
fn replace_swizzle(select: &mut Select<'_>, ptx: &Ptx<'_>, map: TensorMapAddress, number: i64) -> Result<(), Unsupported> {
    map.insert(select, ptx, modes(13, 2), Operand::from(number & 3))?;
    map.insert(select, ptx, modes(22, 1), Operand::from(number >> 2))
}

/// Returns an operand minus one.
fn less_one(select: &mut Select<'_>, value: ast::Operand) -> Result<Operand, Unsupported> {
    let value = select.source(value, ScalarType::B32)?;
    Ok(match value.integer() {
        Some(number) => Operand::from(i64::from((number as u32).wrapping_sub(1))),
        None => select.b.define(Class::R, "IADD3 $, PT, PT, {}, -0x1, RZ", &[value]),
    })
}

/// Replaces a stride, which is stored in units of 16 bytes: 32 bits in a word of its own and four bits in a word for all strides.
fn replace_stride(
    select: &mut Select<'_>,
    ptx: &Ptx<'_>,
    map: TensorMapAddress,
    ordinal: i64,
    value: ast::Operand,
) -> Result<(), Unsupported> {
    let pair = select.wide_source(value, ScalarType::B64)?;
    let (low, high) = (select.low(pair), select.high(pair));
    let lower = select.b.define(Class::R, "SHF.R.U64 $, {}, 0x4, {}", &[low, high]);
    let upper = select.b.define(Class::R, "SHF.R.U32.HI $, RZ, 0x4, {}", &[high]);
    if ordinal > 3 {
        return select.unsupported(ptx);
    }
    map.store(select, ptx, 0xc + WORD_BYTES * ordinal, lower)?;
    map.insert(select, ptx, WordField { offset: UPPER_STRIDES, shift: 4 * ordinal, bits: 4 }, upper)
}

/// The place of a tensor map.
#[derive(Clone, Copy)]
struct TensorMapAddress {
    space: AccessSpace,
    address: AddressOperands,
}

impl TensorMapAddress {
    /// Returns the opcode suffix, the address template and the arguments of an access to a word.
    fn access(
        self,
        select: &mut Select<'_>,
        ptx: &Ptx<'_>,
        offset: i64,
    ) -> Result<(&'static str, &'static str, Vec<Operand>), Unsupported> {
        let offset = Operand::from(self.address.offset + offset);
        Ok(match self.space {
            AccessSpace::Shared => ("S", "[{}+{}]", vec![self.address.base, offset]),
            AccessSpace::Global => ("G.E", "desc[{}][{}.64+{}]", vec![select.descriptor(), self.address.base, offset]),
            AccessSpace::Generic => (".E", "desc[{}][{}.64+{}]", vec![select.descriptor(), self.address.base, offset]),
            _ => return select.unsupported(ptx),
        })
    }

    fn describe(self, select: &mut Select<'_>) {
        let space = match self.space {
            AccessSpace::Shared => Space::Shared,
            AccessSpace::Global => Space::Global,
            _ => Space::Generic,
        };
        select.b.describe(MemoryAccess::weak(space, 4));
    }

    /// Emits a store of one word.
    fn store(self, select: &mut Select<'_>, ptx: &Ptx<'_>, offset: i64, value: Operand) -> Result<(), Unsupported> {
        let value = select.in_register(value);
        let (suffix, address, mut arguments) = self.access(select, ptx, offset)?;
        arguments.push(value);
        select.b.emit(&format!("ST{suffix} {address}, {{}}"), &arguments);
        self.describe(select);
        Ok(())
    }

    /// Emits a replacement of a bit field.
    fn insert(self, select: &mut Select<'_>, ptx: &Ptx<'_>, field: WordField, value: Operand) -> Result<(), Unsupported> {
        let (suffix, address, arguments) = self.access(select, ptx, field.offset)?;
        let old = select.b.define(Class::R, &format!("LD{suffix} $, {address}"), &arguments);
        self.describe(select);
        let value = match value.integer() {
            Some(number) => select.in_register(Operand::from(i64::from((number << field.shift) as u32))),
            None => select.b.define(Class::R, "SHF.L.U32 $, {}, {}, RZ", &[value, field.shift.into()]),
        };
        // old & ~mask | value & mask
        let new = select.b.define(Class::R, "LOP3.LUT $, {}, {}, {}, 0xb8, !PT", &[old, field.mask().into(), value]);
        self.store(select, ptx, field.offset, new)
    }
}

/// Selects `tensormap.cp_fenceproxy`: each thread of the warp copies one word, with atomic exchanges that the tensor map's users see.
pub(crate) fn copy_and_fence(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let to = select.address(ptx.operand(0), AccessSpace::Global, OffsetRange::NONE)?;
    let from = select.address(ptx.operand(1), AccessSpace::Shared, OffsetRange::NONE)?;
    select.reconverge_warp();
    let lane = select.b.define(Class::R, "S2R $, SR_LANEID", &[]);
    let offset = select.b.define(Class::R, "SHF.L.U32 $, {}, 0x2, RZ", &[lane]);
    let from = select.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[from.base, offset]);
    let word = select.b.define(Class::R, "LDS $, [{}+0x0]", &[from]);
    select.b.describe(MemoryAccess::weak(Space::Shared, 4));
    let halves = [select.low(to.base), select.high(to.base)];
    let to = select.add_pairs(halves, [offset, Operand::RZ]);
    // The release orders the copied words, which the exchanges do; it needs no fence for other accesses (ptxas emits none either).
    let scope = scope_of(ptx).unwrap_or(Scope::System);
    let descriptor = select.descriptor();
    let far = strong(select.target, scope.max(Scope::Gpu));
    let template = format!("ATOMG.E.EXCH{far} PT, $, desc[{{}}][{{}}.64+{{}}], {{}}");
    select.b.define(Class::R, &template, &[descriptor, to, Operand::from(0), word]);
    let access = MemoryAccess { order: Order::Relaxed, scope, volatile: true, ..MemoryAccess::weak(Space::Global, 4) };
    select.b.describe(access);
    Ok(())
}
