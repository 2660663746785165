//! Generates operands for enumerated forms: a register, vector, address or number that fits.

use crate::ast::{Form, FormBase, FormShape, FormValue, ValueType};
use crate::enumerate::Case;
use crate::table::{Entity, Flags, ImmediateRange};
use crate::target::{Platform, PtxVersion};
use crate::types::{AddressSpace, ScalarType, TypeClass};

/// Parameters of every generated kernel.
pub(super) const PARAMETERS: &str = ".param .align 16 .b8 prm[64]";

/// Register types declared in every kernel, each as `%type_<300>`, with the lowest PTX version and target number that have the type.
const DECLARED: &[(&str, (u8, u8), u16)] = &[
    ("pred", (1, 0), 10),
    ("b8", (1, 0), 10),
    ("u8", (1, 0), 10),
    ("s8", (1, 0), 10),
    ("b16", (1, 0), 10),
    ("u16", (1, 0), 10),
    ("s16", (1, 0), 10),
    ("f16", (4, 2), 53),
    ("b32", (1, 0), 10),
    ("u32", (1, 0), 10),
    ("s32", (1, 0), 10),
    ("f32", (1, 0), 10),
    ("f16x2", (4, 2), 53),
    ("b64", (1, 0), 10),
    ("u64", (1, 0), 10),
    ("s64", (1, 0), 10),
    ("f64", (1, 0), 13),
    ("b128", (8, 3), 70),
];

pub(super) fn registers(platform: &Platform) -> String {
    let has = |&&(_, (major, minor), target): &&(&str, (u8, u8), u16)| {
        platform.version >= PtxVersion::new(major, minor) && platform.target.number() >= target
    };
    let mut text: String = DECLARED.iter().filter(has).map(|(ty, ..)| format!(".reg .{ty} %{ty}_<300>;\n")).collect();
    text.push_str(".reg .v2 .b32 %pair; .reg .v4 .b32 %quad;\n.local .align 16 .b8 loc[64];\n");
    text
}

/// Returns the variables that every module declares.
pub(super) fn globals(case: &Case) -> String {
    let mut text = String::from(".global .align 128 .b8 glb[512];\n.const .align 128 .b8 cst[512];\n.shared .align 128 .b8 shr[512];\n");
    if case.platform.version >= PtxVersion::new(1, 5) {
        text.push_str(".global .texref tex;\n.global .surfref srf;\n");
        if case.independent_textures {
            text.push_str(".global .samplerref smp;\n");
        }
    }
    text.push_str(".func fun() { ret; }\n");
    text
}

/// Returns whether a form has a sampler operand and therefore needs independent texture mode.
pub(super) fn wants_sampler(form: &Form) -> bool {
    let entity = |value: &FormValue| value.ty == ValueType::Entity(Entity::Samplerref);
    form.operands.iter().any(|operand| match &operand.shape {
        FormShape::Bracket { base, rest, .. } => matches!(base, FormBase::Reference(value) if entity(value)) || rest.iter().any(entity),
        FormShape::Value(value) => entity(value),
        FormShape::Pair { .. } => false,
    })
}

/// Returns the operands of a form as text.
pub(super) fn operands(form: &Form) -> String {
    let mut number = 0;
    let texts: Vec<String> = form.operands.iter().map(|operand| shape(form, &operand.shape, &mut number)).collect();
    texts.join(", ")
}

fn shape(form: &Form, shape: &FormShape, number: &mut u32) -> String {
    match shape {
        FormShape::Value(value) => value_text(value, number),
        FormShape::Pair { first, second, .. } => format!("{}|{}", value_text(first, number), value_text(second, number)),
        FormShape::Bracket { base, rest, .. } => {
            let base = match base {
                FormBase::Address(space) => address(form, *space).to_string(),
                FormBase::Reference(value) => value_text(value, number),
            };
            let rest: String = rest.iter().map(|value| format!(", {}", value_text(value, number))).collect();
            format!("[{base}{rest}]")
        }
    }
}

fn address(form: &Form, space: AddressSpace) -> &'static str {
    match space {
        AddressSpace::Generic | AddressSpace::Any => "%b64_9",
        AddressSpace::Const => "cst",
        AddressSpace::Global => "glb",
        AddressSpace::Local => "loc",
        AddressSpace::Param | AddressSpace::ParamEntry | AddressSpace::ParamFunc => "prm",
        // `st.bulk` is the only instruction that does not accept a variable here.
        AddressSpace::Shared | AddressSpace::SharedCta if form.opcode == crate::table::Opcode::StBulk => "%b64_9",
        AddressSpace::Shared | AddressSpace::SharedCta => "shr",
        AddressSpace::SharedCluster | AddressSpace::Tmem => "%b32_9",
    }
}

/// Returns a register, vector, immediate or name that fits a value. `number` distinguishes the registers of the operands.
fn value_text(value: &FormValue, number: &mut u32) -> String {
    *number += 10;
    let ty = match value.ty {
        ValueType::Entity(entity) => return entity_text(entity).to_string(),
        ValueType::Scalar(ty) => ty,
    };
    if value.spec.flags.has(Flags::IMM) {
        return match value.spec.ranges.first() {
            Some(ImmediateRange::Between(first, _)) => first.to_string(),
            Some(ImmediateRange::OneOf(values)) => values[0].to_string(),
            Some(ImmediateRange::MultipleOf(factor)) => factor.to_string(),
            None => "0".to_string(),
        };
    }
    if value.spec.flags.has(Flags::SINKONLY) {
        return "_".to_string();
    }
    match value.lanes {
        None => register(ty, *number),
        Some(lanes) => {
            let elements: Vec<String> = (0..u32::from(lanes)).map(|lane| register(ty, *number + lane)).collect();
            format!("{{{}}}", elements.join(", "))
        }
    }
}

fn entity_text(entity: Entity) -> &'static str {
    match entity {
        Entity::Label => "L",
        Entity::Func | Entity::Calllist => "fun",
        Entity::Texref => "tex",
        Entity::Samplerref => "smp",
        Entity::Surfref => "srf",
        Entity::Branchlist => "0, L",
    }
}

/// Returns a register whose type matches exactly.
pub(super) fn register(ty: ScalarType, number: u32) -> String {
    let number = number % 300;
    let name = format!("{ty:?}").to_ascii_lowercase();
    match ty.class() {
        TypeClass::Packed if ty != ScalarType::F16x2 => format!("%b{}_{number}", ty.bits().next_power_of_two().max(8)),
        TypeClass::Bits | TypeClass::Integer if ty.bits() < 8 => format!("%b32_{number}"),
        _ => format!("%{name}_{number}"),
    }
}
