//! Matches an opcode and its modifiers with rows of the table, and computes the operands of the resulting forms.
//!
//! Example with two rows of `add`:
//!
//! ```text
//! row                          add.rn.ftz.f32       add.ftz.rn.f32                                   add.rn.f64
//! add{.rnd}{.ftz}{.sat}.f32    matches in order     matches out of order: accepted with a warning    .f64 fits no slot
//! add{.rnd}.f64                .ftz fits no slot    .ftz fits no slot                                matches in order
//! ```

use smallvec::SmallVec;

use crate::ast::{Form, FormBase, FormOperand, FormShape, FormValue, SlotValue, ValueType};
use crate::table::{Arity, Atom, Base, Modifier, OperandSpec, OperandSyntax, ROWS, Row, Slot, SlotSpec, TypeSpec, ValueSpec};
use crate::target::{Platform, Unmet};
use crate::types::AddressSpace;

/// A row with a modifier in each filled slot.
pub(crate) struct Filled {
    pub values: SmallVec<[SlotValue; 8]>,
    /// Whether the modifiers were written in the order of the row.
    pub in_order: bool,
}

/// The reason why modifiers do not match a row. Later variants are closer to a match.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Misfit {
    /// The modifier at this index fits no slot of the row.
    NotAllowed(usize),
    /// The slot for the modifier at this index is already filled.
    Duplicate(usize),
    /// The slot at this index is required and empty.
    Missing(usize),
    /// The row denies this combination.
    Denied(&'static [Atom]),
}

impl Misfit {
    /// Returns how close this is to a match; the row with the largest value gives the best explanation.
    pub fn nearness(self) -> usize {
        match self {
            Misfit::NotAllowed(position) => position,
            Misfit::Duplicate(position) => 32 + position,
            Misfit::Missing(slot) => 96 + slot,
            Misfit::Denied(_) => 256,
        }
    }
}

/// Assigns modifiers to the slots of a row: in the order of the row if possible, otherwise each to the first free slot that accepts it.
pub(crate) fn fill(row: &Row, modifiers: &[Modifier]) -> Result<Filled, Misfit> {
    let mut places: SmallVec<[usize; 12]> = SmallVec::new();
    let in_order = place_in_order(row.slots, modifiers, 0, &mut places);
    if !in_order {
        // Reordering must not move the components of the opcode itself, except the last one in rows marked `movable`.
        let components = row.opcode.spelling().matches('.').count() - usize::from(row.movable);
        let displaced = |&position: &usize| modifiers.get(position) != Some(&row.slots[position].values[0]);
        if let Some(position) = (0..components).find(displaced) {
            return Err(if position < modifiers.len() { Misfit::NotAllowed(position) } else { Misfit::Missing(position) });
        }
        places = place_anywhere(row.slots, modifiers)?;
    }
    if let Some(missing) = missing_slot(row.slots, &places) {
        return Err(Misfit::Missing(missing));
    }
    let mut order: SmallVec<[usize; 12]> = (0..modifiers.len()).collect();
    order.sort_by_key(|&modifier| places[modifier]);
    let values: SmallVec<[SlotValue; 8]> =
        order.iter().map(|&modifier| SlotValue { slot: row.slots[places[modifier]].slot, modifier: modifiers[modifier] }).collect();
    match row.denials.iter().find(|denied| crate::ast::fulfils(&values, denied)) {
        Some(denied) => Err(Misfit::Denied(denied)),
        None => Ok(Filled { values, in_order }),
    }
}

/// Assigns each modifier to a slot after that of the previous one, by backtracking, so that no required slot is skipped.
fn place_in_order(slots: &[SlotSpec], modifiers: &[Modifier], from: usize, places: &mut SmallVec<[usize; 12]>) -> bool {
    let Some((&first, rest)) = modifiers.split_first() else {
        return missing_slot(slots, places).is_none();
    };
    for slot in from..slots.len() {
        if slots[slot].values.contains(&first) {
            places.push(slot);
            if place_in_order(slots, rest, slot + 1, places) {
                return true;
            }
            places.pop();
        }
        if slots[slot].group == 0 {
            return false;
        }
    }
    false
}

/// Assigns each modifier to the first free slot that accepts it. Modifiers of the same kind keep their order, so that `cvt.f16.f32` is not
/// read as `cvt.f32.f16`.
fn place_anywhere(slots: &[SlotSpec], modifiers: &[Modifier]) -> Result<SmallVec<[usize; 12]>, Misfit> {
    let mut places: SmallVec<[usize; 12]> = SmallVec::new();
    for (position, &modifier) in modifiers.iter().enumerate() {
        let fits = |slot: &usize| slots[*slot].values.contains(&modifier);
        let kind = Kind::of(modifier);
        let earlier = modifiers[..position].iter().zip(&places).filter(|(other, _)| kind.is_some() && Kind::of(**other) == kind);
        let least = earlier.map(|(_, &place)| place + 1).max().unwrap_or(0);
        match (least..slots.len()).filter(fits).find(|slot| !places.contains(slot)) {
            Some(slot) => places.push(slot),
            None if (0..slots.len()).any(|slot| fits(&slot) && places.contains(&slot)) => return Err(Misfit::Duplicate(position)),
            None => return Err(Misfit::NotAllowed(position)),
        }
    }
    Ok(places)
}

/// A kind of modifier whose relative order has a meaning.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Type,
    Space,
    Layout,
}

impl Kind {
    fn of(modifier: Modifier) -> Option<Kind> {
        if modifier.scalar_type().is_some() {
            Some(Kind::Type)
        } else if modifier.space().is_some() {
            Some(Kind::Space)
        } else if matches!(modifier, Modifier::Row | Modifier::Col) {
            Some(Kind::Layout)
        } else {
            None
        }
    }
}

/// Returns a required slot that is empty, or an empty slot of an optional group that is partly filled.
fn missing_slot(slots: &[SlotSpec], places: &[usize]) -> Option<usize> {
    let filled = |slot: usize| places.contains(&slot);
    (0..slots.len()).find(|&slot| {
        let group = slots[slot].group;
        let wanted = group == 0 || (0..slots.len()).any(|other| slots[other].group == group && filled(other));
        wanted && !filled(slot)
    })
}

/// Returns the forms of a row with filled slots: one for each number of optional operands.
pub(crate) fn forms_of(row_index: u16, values: &[SlotValue]) -> impl Iterator<Item = Form> {
    let row = &ROWS[usize::from(row_index)];
    let levels = row.operands.iter().map(|operand| operand.level).max().unwrap_or(0);
    (0..=levels).map(move |level| Form {
        opcode: row.opcode,
        row: row_index,
        level,
        operands: row.operands.iter().filter(|operand| operand.level <= level).map(|operand| resolve(operand, values)).collect(),
        modifiers: values.into(),
    })
}

fn slot_value(values: &[SlotValue], slot: Slot) -> Option<Modifier> {
    values.iter().find(|value| value.slot == slot).map(|value| value.modifier)
}

/// Computes the types and sizes of an operand for the modifiers of a form.
fn resolve(operand: &'static OperandSpec, values: &[SlotValue]) -> FormOperand {
    let shape = match &operand.shape {
        OperandSyntax::Value(value) => FormShape::Value(resolve_value(value, values)),
        OperandSyntax::Pair { first, second, optional } => {
            FormShape::Pair { first: resolve_value(first, values), second: resolve_value(second, values), optional: *optional }
        }
        OperandSyntax::Bracket { base, rest, unified } => FormShape::Bracket {
            unified: *unified,
            base: match base {
                Base::Generic => FormBase::Address(AddressSpace::Generic),
                Base::Space(space) => FormBase::Address(*space),
                Base::SlotSpace(slot) => {
                    FormBase::Address(slot_value(values, *slot).and_then(Modifier::space).unwrap_or(AddressSpace::Generic))
                }
                Base::Reference(value) => FormBase::Reference(resolve_value(value, values)),
            },
            rest: rest.iter().map(|value| resolve_value(value, values)).collect(),
        },
    };
    FormOperand { shape }
}

/// Computes type and number of elements of a value for the modifiers of a form.
fn resolve_value(spec: &'static ValueSpec, values: &[SlotValue]) -> FormValue {
    use crate::types::ScalarType;
    let of_slot = |slot| slot_value(values, slot).and_then(Modifier::scalar_type).unwrap_or(ScalarType::B32);
    let ty = match spec.ty {
        TypeSpec::Scalar(ty) => ValueType::Scalar(ty),
        TypeSpec::OfSlot(slot) => ValueType::Scalar(of_slot(slot)),
        TypeSpec::WideOfSlot(slot) => ValueType::Scalar(of_slot(slot).widened().unwrap_or(ScalarType::B64)),
        TypeSpec::Entity(entity) => ValueType::Entity(entity),
    };
    let lanes = match spec.arity {
        Arity::Scalar => None,
        Arity::Fixed(count) => Some(count),
        Arity::OfSlot { slot, times, over } => slot_value(values, slot).and_then(Modifier::number).map(|number| number * times / over),
    };
    FormValue { spec, ty, lanes }
}

/// Returns the requirement that a row does not meet on a platform, and the modifier that causes it, if one does.
pub(crate) fn unmet(row: &'static Row, values: &[SlotValue], platform: &Platform) -> Option<(Unmet, Option<Modifier>)> {
    let culprit = |condition: &[Atom]| {
        condition.iter().find_map(|atom| match *atom {
            Atom::Has(modifier) => Some(modifier),
            Atom::SlotIs(slot, _) | Atom::Filled(slot) => slot_value(values, slot),
            _ => None,
        })
    };
    let missing = row.requirements.iter().filter(|need| crate::ast::fulfils(values, need.condition));
    for need in missing {
        if let Some(unmet) = platform.missing(&need.requirement) {
            return Some((unmet, culprit(need.condition)));
        }
    }
    let removed = row.removals.iter().filter(|removal| crate::ast::fulfils(values, removal.condition));
    removed
        .filter(|removal| platform.has_reached(&removal.requirement))
        .map(|removal| (Unmet::Removed(&removal.requirement), culprit(removal.condition)))
        .next()
}
