//! Matches operands with a form.
//!
//! [`match_form`] is the inner loop of the checker: it compares the facts about each operand with the requirements of the form and returns
//! the first [`Mismatch`]. It builds no text; `mismatch.rs` produces the messages.

use super::operand::{OperandFacts, OperandScratch, ParsedOperand};
use crate::ast::{Constant, Form, FormBase, FormShape, FormValue, Module, TextureMode, ValueType, VariableType};
use crate::table::{Arity, Component, Entity, Flags, Selectors, SpecialRegister};
use crate::types::{AddressSpace, ScalarType, StateSpace, TypeClass};

/// The first operand that does not match a form.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mismatch {
    /// Index of the operand.
    pub operand: usize,
    /// The element of a list that does not match, or the whole operand.
    pub part: ParsedOperand,
    pub reason: Reason,
}

/// The reason why an operand does not match.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Reason {
    /// Another kind of operand is required, which the text describes.
    Kind(&'static str),
    /// The register does not match the required type.
    Type(ScalarType),
    /// The immediate does not match the required type.
    ImmediateType(ScalarType),
    ImmediateRange(crate::table::ImmediateRange),
    ImmediateRequired,
    RegisterRequired,
    /// The vector must have this number of elements.
    VectorLength(u16),
    VectorNotAllowed,
    /// The number of elements in brackets differs.
    BracketCount,
    Sink,
    Special,
    Negation,
    Selector,
    Component,
    Pair,
    PairMissing,
    Space(AddressSpace),
    AddressRegister(AddressSpace),
    AddressNumber,
    SymbolNotAllowed,
    UnknownName,
    TextureMode,
    Unified,
    NarrowAddress,
    FunctionOffset,
    MixedVector,
    /// A vector has a number and a component of a vector register.
    NumberNextToComponent,
}

impl Reason {
    /// Returns how close this is to a match. Reasons found late in the comparison explain better than early ones.
    pub fn nearness(self) -> usize {
        match self {
            Reason::BracketCount => 0,
            Reason::Kind(_) | Reason::Pair | Reason::PairMissing | Reason::VectorNotAllowed => 1,
            Reason::VectorLength(_) => 2,
            _ => 3,
        }
    }
}

/// The data that the comparison needs besides the form.
pub(crate) struct MatchContext<'a> {
    pub scratch: &'a OperandScratch,
    pub module: &'a Module,
    pub names: &'a oriole_support::Interner,
}

/// Matches the operands with a form; the caller has checked their number.
pub(crate) fn match_form(form: &Form, cx: &MatchContext<'_>) -> Result<(), Mismatch> {
    for (position, (wanted, given)) in form.operands.iter().zip(&cx.scratch.operands).enumerate() {
        match_operand(form, &wanted.shape, *given, cx).map_err(|(part, reason)| Mismatch { operand: position, part, reason })?;
    }
    Ok(())
}

/// Success, or the part that does not match and the reason.
type Fit = Result<(), (ParsedOperand, Reason)>;

/// Matches one operand with the syntax that the form requires.
fn match_operand(form: &Form, wanted: &FormShape, given: ParsedOperand, cx: &MatchContext<'_>) -> Fit {
    match wanted {
        FormShape::Value(value) => match given.facts {
            OperandFacts::Pair(_) => Err((given, Reason::Pair)),
            _ => match_value(value, given, cx),
        },
        FormShape::Pair { first, second, optional } => match given.facts {
            OperandFacts::Pair(list) => {
                let parts = cx.scratch.list(list);
                if parts.iter().all(|part| matches!(part.facts, OperandFacts::Sink)) {
                    return Err((given, Reason::Sink));
                }
                match_value(first, parts[0], cx)?;
                match_value(second, parts[1], cx)
            }
            _ if *optional => match_value(first, given, cx),
            _ => Err((given, Reason::PairMissing)),
        },
        FormShape::Bracket { base, rest, unified } => {
            let OperandFacts::Bracket { list, unified: marked } = given.facts else {
                return Err((given, Reason::Kind("an address in brackets")));
            };
            let parts = cx.scratch.list(list);
            if parts.len() != rest.len() + 1 {
                let one_wanted = Reason::Kind("a single address in brackets");
                return Err((given, if rest.is_empty() { one_wanted } else { Reason::BracketCount }));
            }
            if marked && !unified {
                return Err((given, Reason::Unified));
            }
            match_texture_mode(base, rest, parts[0], cx)?;
            match base {
                FormBase::Address(space) => match_address(form, *space, parts[0], cx)?,
                FormBase::Reference(value) => match_value(value, plain_reference(parts[0]), cx)?,
            }
            rest.iter().zip(&parts[1..]).try_for_each(|(value, &part)| match_value(value, part, cx))
        }
    }
}

/// Checks the texture mode: a texture needs a sampler in independent mode and has none in unified mode.
fn match_texture_mode(base: &FormBase, rest: &[FormValue], given: ParsedOperand, cx: &MatchContext<'_>) -> Fit {
    let FormBase::Reference(reference) = base else { return Ok(()) };
    if !matches!(given.facts, OperandFacts::Variable { .. }) {
        // A handle in a register is valid in both modes.
        return Ok(());
    }
    let is_sampler = |value: &FormValue| value.ty == ValueType::Entity(Entity::Samplerref);
    let with_sampler = is_sampler(reference) || rest.iter().any(is_sampler);
    let plain_texture = reference.ty == ValueType::Entity(Entity::Texref) && !with_sampler && !rest.is_empty();
    let independent = cx.module.options.texture_mode == Some(TextureMode::Independent);
    if with_sampler && !independent || plain_texture && independent { Err((given, Reason::TextureMode)) } else { Ok(()) }
}

/// Converts an address base that is a plain register back to a register operand.
fn plain_reference(part: ParsedOperand) -> ParsedOperand {
    match part.facts {
        OperandFacts::AddressRegister { register, component: Component::Whole, ty, offset: None | Some(0) } => {
            ParsedOperand { facts: OperandFacts::Register { register, ty, lanes: 1, negated: false }, ..part }
        }
        _ => part,
    }
}

/// Matches a scalar, vector or name with a value of the form.
fn match_value(wanted: &FormValue, given: ParsedOperand, cx: &MatchContext<'_>) -> Fit {
    let ty = match wanted.ty {
        ValueType::Entity(entity) => return match_entity(entity, given, cx),
        ValueType::Scalar(ty) => ty,
    };
    match (wanted.lanes, given.facts) {
        (None, OperandFacts::Vector(list)) => match cx.scratch.list(list) {
            // Where the form allows vectors, a scalar may be written as a vector with one element.
            &[only] if matches!(wanted.spec.arity, Arity::OfSlot { .. }) => match_scalar(wanted, ty, only, cx),
            _ => Err((given, Reason::VectorNotAllowed)),
        },
        (None, OperandFacts::Sink) if matches!(wanted.spec.arity, Arity::OfSlot { .. }) && !wanted.spec.flags.has(Flags::SINKONLY) => {
            Err((given, Reason::Sink))
        }
        (None, _) => match_scalar(wanted, ty, given, cx),
        // `_` for a whole vector, as in the result of a vector `atom`, needs the flag; `_` for elements is handled per element.
        (Some(_), OperandFacts::Sink) => {
            if wanted.spec.flags.has(Flags::DISCARD) {
                Ok(())
            } else {
                Err((given, Reason::Sink))
            }
        }
        // A whole special vector register, such as `mov.v4.u32 v, %tid`.
        (Some(4), OperandFacts::Special { register, negated: false })
            if register.is_whole_vector() && wanted.spec.flags.has(Flags::SREG) =>
        {
            if register.row().fits(ty) {
                Ok(())
            } else {
                Err((given, Reason::Type(ty)))
            }
        }
        (Some(lanes), OperandFacts::Vector(list)) => {
            let parts = cx.scratch.list(list);
            if parts.len() != usize::from(lanes) {
                return Err((given, Reason::VectorLength(lanes)));
            }
            let has_bits =
                parts.iter().any(|part| matches!(part.facts, OperandFacts::Register { ty, .. } if ty.class() == TypeClass::Bits));
            // A vector with only discarded elements is rejected.
            if parts.iter().all(|part| matches!(part.facts, OperandFacts::Sink)) {
                return Err((given, Reason::Sink));
            }
            if let Some(&odd) = parts.iter().find(|part| mixes_badly(part, &parts[0], has_bits)) {
                return Err((odd, Reason::MixedVector));
            }
            // ptxas rejects a number next to a component of a vector register.
            let has_component = parts.iter().any(|part| is_component(part.facts));
            let is_number = |part: &&ParsedOperand| {
                matches!(part.facts, OperandFacts::Integer { .. } | OperandFacts::WarpSize | OperandFacts::Float(_))
            };
            if let Some(&number) = parts.iter().find(is_number).filter(|_| has_component) {
                return Err((number, Reason::NumberNextToComponent));
            }
            parts.iter().enumerate().try_for_each(|(lane, &part)| match_vector_element(wanted, ty, part, (lane, has_bits), cx))
        }
        // A vector register without braces.
        (Some(lanes), OperandFacts::Register { ty: given_ty, lanes: given_lanes, negated: false, .. }) if given_lanes > 1 => {
            if u16::from(given_lanes) != lanes {
                return Err((given, Reason::VectorLength(lanes)));
            }
            if register_fits(ty, given_ty, wanted) { Ok(()) } else { Err((given, Reason::Type(ty))) }
        }
        (Some(1), OperandFacts::Special { .. }) => Err((given, Reason::Special)),
        (Some(1), _) if wanted.spec.braces_optional => match_scalar(wanted, ty, given, cx),
        (Some(lanes), _) => Err((given, Reason::VectorLength(lanes))),
    }
}

/// Returns whether an operand is a component of a vector register, such as `%v.x` and `%tid.x`.
fn is_component(facts: OperandFacts) -> bool {
    match facts {
        OperandFacts::Element { .. } => true,
        OperandFacts::Special { register, .. } => register.row().vector && !register.is_whole_vector(),
        _ => false,
    }
}

/// Returns whether an element of a vector is incompatible with the first: another width, or a float next to an integer.
fn mixes_badly(part: &ParsedOperand, first: &ParsedOperand, has_bits: bool) -> bool {
    let (OperandFacts::Register { ty, .. }, OperandFacts::Register { ty: first, .. }) = (part.facts, first.facts) else { return false };
    ty.bits() != first.bits() || !has_bits && ty.class() != first.class()
}

/// Matches an element of a vector. If a vector contains untyped registers, ptxas checks only widths, so a number next to one counts as
/// bits.
fn match_vector_element(
    wanted: &FormValue,
    ty: ScalarType,
    part: ParsedOperand,
    (lane, has_bits): (usize, bool),
    cx: &MatchContext<'_>,
) -> Fit {
    match part.facts {
        OperandFacts::Sink if wanted.spec.flags.has(Flags::SINK) => Ok(()),
        OperandFacts::Register { ty: given, lanes: 1, negated: false, .. }
            if has_bits
                && given.bits() == ty.bits()
                && given != ScalarType::Pred
                && !matches!(ty, ScalarType::Bf16x2 | ScalarType::Tf32) =>
        {
            Ok(())
        }
        OperandFacts::Special { .. } if wanted.spec.reads && !wanted.spec.writes => Ok(()),
        OperandFacts::Integer { .. } if has_bits && ty.class() == TypeClass::Packed => Ok(()),
        OperandFacts::Integer { .. } | OperandFacts::WarpSize | OperandFacts::Float(_) => match_immediate(wanted, ty, part, lane),
        _ => match_scalar(wanted, ty, part, cx),
    }
}

/// Matches a scalar with a value of the form: kind, type and flags.
fn match_scalar(wanted: &FormValue, ty: ScalarType, given: ParsedOperand, cx: &MatchContext<'_>) -> Fit {
    let spec = wanted.spec;
    let flags = spec.flags;
    let no = |reason| Err((given, reason));
    match given.facts {
        OperandFacts::Register { ty: given_ty, lanes, negated, .. } => {
            if flags.has(Flags::IMM) {
                return no(Reason::ImmediateRequired);
            }
            if flags.has(Flags::SINKONLY) {
                return no(Reason::Kind("`_`, since nothing is returned here"));
            }
            if lanes > 1 {
                return no(Reason::VectorNotAllowed);
            }
            if negated && (given_ty != ScalarType::Pred || spec.writes || flags.has(Flags::NONNEG)) {
                return no(Reason::Negation);
            }
            if register_fits(ty, given_ty, wanted) { Ok(()) } else { no(Reason::Type(ty)) }
        }
        OperandFacts::Element { ty: given_ty, .. } => {
            if flags.has(Flags::IMM) {
                return no(Reason::ImmediateRequired);
            }
            if spec.selectors != Selectors::None {
                return no(Reason::Selector);
            }
            if register_fits(ty, given_ty, wanted) { Ok(()) } else { no(Reason::Type(ty)) }
        }
        OperandFacts::Selected { ty: given_ty, selector, minus, .. } => {
            if selector.is_some_and(|name| !spec.selectors.contains(cx.names.resolve(name))) {
                return no(Reason::Selector);
            }
            if minus && !flags.has(Flags::NEG) {
                return no(Reason::Negation);
            }
            if register_fits(ty, given_ty, wanted) { Ok(()) } else { no(Reason::Type(ty)) }
        }
        OperandFacts::Special { register, negated } => {
            if !flags.has(Flags::SREG) {
                return no(Reason::Special);
            }
            if negated && ty != ScalarType::Pred { no(Reason::Negation) } else { special_fits(ty, register, given) }
        }
        OperandFacts::Integer { .. } | OperandFacts::WarpSize | OperandFacts::Float(_) => match_immediate(wanted, ty, given, 0),
        OperandFacts::Sink if flags.has(Flags::SINK) || flags.has(Flags::SINKONLY) => Ok(()),
        OperandFacts::Sink => no(Reason::Sink),
        OperandFacts::Variable { .. } | OperandFacts::Function { .. } if !flags.has(Flags::ADDR) => no(Reason::SymbolNotAllowed),
        OperandFacts::Variable { variable, .. } => {
            let narrow = ty.bits() < 64 && cx.module.variables[variable].space == StateSpace::Global;
            if narrow { no(Reason::NarrowAddress) } else { Ok(()) }
        }
        OperandFacts::Function { offset, .. } => {
            if offset.is_some() {
                no(Reason::FunctionOffset)
            } else {
                Ok(())
            }
        }
        OperandFacts::Unknown(_) => no(Reason::UnknownName),
        OperandFacts::Vector(_) => no(Reason::VectorNotAllowed),
        OperandFacts::Pair(_) => no(Reason::Pair),
        // `reg+4` without brackets.
        OperandFacts::AddressRegister { ty: given_ty, .. } if !spec.writes && !flags.has(Flags::IMM) => {
            if register_fits(ty, given_ty, wanted) { Ok(()) } else { no(Reason::Type(ty)) }
        }
        OperandFacts::Bracket { .. } | OperandFacts::AddressRegister { .. } | OperandFacts::AddressNumber(_) => no(Reason::Kind("a value")),
    }
}

/// Matches an immediate: type and range. `lane` is the index in a vector.
fn match_immediate(wanted: &FormValue, ty: ScalarType, given: ParsedOperand, lane: usize) -> Fit {
    let no = |reason| Err((given, reason));
    let spec = wanted.spec;
    if spec.writes || spec.flags.has(Flags::REG) {
        return no(Reason::RegisterRequired);
    }
    let (value, fits) = match given.facts {
        OperandFacts::Integer { value, .. } => {
            (Some(value), matches!(ty.class(), TypeClass::Integer | TypeClass::Bits | TypeClass::Predicate))
        }
        OperandFacts::WarpSize => (Some(32), matches!(ty.class(), TypeClass::Integer | TypeClass::Bits | TypeClass::Predicate)),
        OperandFacts::Float(constant) => (None, float_fits(ty, constant) || spec.flags.has(Flags::FLOAT)),
        _ => return Ok(()),
    };
    if !fits {
        return no(Reason::ImmediateType(ty));
    }
    match (spec.ranges.get(lane).or(spec.ranges.first()).copied(), value) {
        (Some(range), Some(value)) if !range.contains(value) => no(Reason::ImmediateRange(range)),
        _ => Ok(()),
    }
}

/// Returns whether a float immediate is allowed for a type: floats, and untyped registers with exactly its size.
fn float_fits(ty: ScalarType, constant: Constant) -> bool {
    match ty {
        ScalarType::F32 | ScalarType::F64 => true,
        ScalarType::B32 => matches!(constant, Constant::Single(_)),
        ScalarType::B64 => matches!(constant, Constant::Double(_) | Constant::Decimal(_)),
        _ => false,
    }
}

fn special_fits(ty: ScalarType, register: SpecialRegister, given: ParsedOperand) -> Fit {
    if register.is_whole_vector() {
        return Err((given, Reason::Component));
    }
    let row = register.row();
    let fits = if row.ty == ScalarType::Pred { ty == ScalarType::Pred } else { row.fits(ty) };
    if fits { Ok(()) } else { Err((given, Reason::Type(ty))) }
}

/// Returns whether a register may be used for an operand of a type.
///
/// The widths must be equal, and one of these must hold: either type is untyped bits, both are integers, or both are the same float
/// type. The relaxed rule of loads, stores and conversions also allows wider integer and untyped registers for integers and bits, and
/// wider untyped registers for floats. Packed formats use untyped registers of their width.
pub(crate) fn register_fits(wanted: ScalarType, given: ScalarType, value: &FormValue) -> bool {
    if value.spec.flags.has(Flags::BITS) && given.class() != TypeClass::Bits {
        return false;
    }
    if wanted == given {
        return true;
    }
    let (wanted_class, given_class) = (wanted.class(), given.class());
    if wanted_class == TypeClass::Predicate || given_class == TypeClass::Predicate {
        return false;
    }
    if value.spec.wider && given.bits() > wanted.bits() {
        return match wanted_class {
            TypeClass::Bits => true,
            TypeClass::Integer => matches!(given_class, TypeClass::Integer | TypeClass::Bits) || given == ScalarType::F16x2,
            _ => given_class == TypeClass::Bits,
        };
    }
    if wanted.bits() != given.bits() {
        return false;
    }
    match (wanted_class, given_class) {
        (TypeClass::Bits, _) | (_, TypeClass::Bits) => true,
        (TypeClass::Integer, TypeClass::Integer) => true,
        // An `.f16x2` register counts as untyped, except where the operand's type is fixed.
        (TypeClass::Integer | TypeClass::Packed, TypeClass::Packed) => {
            given == ScalarType::F16x2
                && !matches!(wanted, ScalarType::Bf16x2 | ScalarType::Tf32)
                && (wanted_class == TypeClass::Packed || value.spec.follows_slot())
        }
        _ => false,
    }
}

/// Matches a name with the kind of entity that the form requires.
fn match_entity(entity: Entity, given: ParsedOperand, cx: &MatchContext<'_>) -> Fit {
    let no = |wanted| Err((given, Reason::Kind(wanted)));
    match entity {
        Entity::Label => match given.facts {
            OperandFacts::Unknown(_) => Ok(()),
            // A label may have the name of a variable or function; labels are looked up by name only.
            OperandFacts::Variable { offset: None, .. } | OperandFacts::Function { offset: None, .. } => Ok(()),
            _ => no("a label"),
        },
        Entity::Func => match given.facts {
            OperandFacts::Function { offset: None, .. } => Ok(()),
            OperandFacts::Unknown(_) => Err((given, Reason::UnknownName)),
            _ => no("a function"),
        },
        Entity::Texref => match_opaque(VariableType::Texture, "a texture", given, cx),
        Entity::Samplerref => match_opaque(VariableType::Sampler, "a sampler", given, cx),
        Entity::Surfref => match_opaque(VariableType::Surface, "a surface", given, cx),
        Entity::Calllist | Entity::Branchlist => Ok(()),
    }
}

/// Matches a texture, sampler or surface: its name, or a 64-bit handle in a register.
fn match_opaque(wanted: VariableType, text: &'static str, given: ParsedOperand, cx: &MatchContext<'_>) -> Fit {
    match given.facts {
        OperandFacts::Variable { variable, member: None, offset: None | Some(0) } => {
            let variable = &cx.module.variables[variable];
            let handle = matches!(variable.ty, VariableType::Scalar(ty) if ty.bits() == 64 && variable.space == StateSpace::Param);
            if variable.ty == wanted || handle { Ok(()) } else { Err((given, Reason::Kind(text))) }
        }
        OperandFacts::Register { ty, lanes: 1, negated: false, .. } | OperandFacts::AddressRegister { ty, offset: None | Some(0), .. } => {
            let fits = ty.bits() == 64 && matches!(ty.class(), TypeClass::Integer | TypeClass::Bits);
            if fits { Ok(()) } else { Err((given, Reason::Type(ScalarType::U64))) }
        }
        OperandFacts::Unknown(_) => Err((given, Reason::UnknownName)),
        _ => Err((given, Reason::Kind(text))),
    }
}

/// Matches the base of an address with a state space: width of a register, or space of a variable.
fn match_address(form: &Form, space: AddressSpace, given: ParsedOperand, cx: &MatchContext<'_>) -> Fit {
    let no = |reason| Err((given, reason));
    match given.facts {
        OperandFacts::AddressRegister { ty, .. } => {
            let holds = matches!(ty.class(), TypeClass::Integer | TypeClass::Bits);
            let width = match ty.bits() {
                64 => space != AddressSpace::Tmem,
                32 => space.takes_32_bit_addresses() || form.zero_extends_addresses(),
                _ => false,
            };
            if holds && width { Ok(()) } else { no(Reason::AddressRegister(space)) }
        }
        OperandFacts::Variable { variable, .. } => {
            let declared = cx.module.variables[variable].space;
            if space.holds(declared) { Ok(()) } else { no(Reason::Space(space)) }
        }
        OperandFacts::Function { .. } if space == AddressSpace::Generic => Ok(()),
        OperandFacts::Function { .. } => no(Reason::Space(space)),
        OperandFacts::AddressNumber(_) => {
            if matches!(space, AddressSpace::Local | AddressSpace::Tmem) {
                Ok(())
            } else {
                no(Reason::AddressNumber)
            }
        }
        OperandFacts::Unknown(_) => no(Reason::UnknownName),
        _ => no(Reason::Kind("an address")),
    }
}
