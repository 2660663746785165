//! Parses the operands of a row.

use crate::model::{
    Arity, Base, ENTITIES, FLAGS, OperandRow, OperandSyntax, Range, SELECTORS, SPACES, SlotRow, SlotValue, TypeName, is_scalar_type,
};
use crate::parse::default_type;

type ParseResult<T> = Result<T, String>;

/// Parses a comma-separated list of operands. Each `{, x}` opens one more level of optional operands.
pub(crate) fn parse_operands(text: &str, slots: &[SlotRow]) -> ParseResult<Vec<OperandRow>> {
    let mut operands = Vec::new();
    for (level, item) in split_list(text)? {
        let shape = parse_shape(&item, slots).map_err(|message| format!("operand `{item}`: {message}"))?;
        operands.push(OperandRow { level, shape });
    }
    Ok(operands)
}

/// Splits a list at its top-level commas. Returns the optional level and the text of each operand: `=d, e{, f{, g}}` gives
/// `(0, "=d"), (0, "e"), (1, "f"), (2, "g")`.
fn split_list(text: &str) -> ParseResult<Vec<(u8, String)>> {
    let mut items: Vec<(u8, String)> = Vec::new();
    let mut current = String::new();
    let (mut depth, mut level, mut open_groups) = (0usize, 0u8, 0usize);
    let bytes: Vec<char> = text.chars().collect();
    let mut position = 0;
    let mut take = |current: &mut String, level: u8| {
        let item = std::mem::take(current);
        if !item.trim().is_empty() {
            items.push((level, item.trim().to_string()));
        }
    };
    while position < bytes.len() {
        let c = bytes[position];
        // A brace before a comma opens an optional group; any other brace belongs to a vector.
        let opens_group = c == '{' && depth == 0 && bytes[position + 1..].iter().find(|c| !c.is_whitespace()) == Some(&',');
        match c {
            _ if opens_group => {
                take(&mut current, level);
                level += 1;
                open_groups += 1;
                while bytes[position] != ',' {
                    position += 1;
                }
            }
            '}' if depth == 0 && open_groups > 0 => {
                take(&mut current, level);
                open_groups -= 1;
            }
            ',' if depth == 0 => take(&mut current, level),
            _ => {
                match c {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.checked_sub(1).ok_or("unbalanced brackets")?,
                    _ => {}
                }
                current.push(c);
            }
        }
        position += 1;
    }
    take(&mut current, level);
    if depth != 0 || open_groups != 0 {
        return Err(format!("unbalanced brackets in `{text}`"));
    }
    Ok(items)
}

/// Parses one operand: brackets, a pair, or a value.
fn parse_shape(item: &str, slots: &[SlotRow]) -> ParseResult<OperandSyntax> {
    let (item, unified) = item.strip_suffix("!unified").map_or((item, false), |rest| (rest, true));
    if let Some(inner) = item.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let parts = split_list(inner)?;
        let ((_, first), rest) = parts.split_first().ok_or("empty brackets")?;
        let rest = rest.iter().map(|(_, part)| parse_value(part, slots)).collect::<ParseResult<Vec<_>>>()?;
        return Ok(OperandSyntax::Bracket(parse_base(first, slots)?, rest, unified));
    }
    if let Some((first, second)) = item.strip_suffix(']').and_then(|rest| rest.split_once("[|")) {
        return Ok(OperandSyntax::Pair(parse_value(first, slots)?, parse_value(second, slots)?, true));
    }
    if let Some((first, second)) = item.split_once('|') {
        return Ok(OperandSyntax::Pair(parse_value(first, slots)?, parse_value(second, slots)?, false));
    }
    parse_value(item, slots).map(OperandSyntax::Value)
}

/// Parses the first element in brackets: a name with an optional state space, slot or reference kind after a colon.
fn parse_base(item: &str, slots: &[SlotRow]) -> ParseResult<Base> {
    let space = match item.split_once(':') {
        None => return Ok(Base::Generic),
        Some((_, space)) => space.split('!').next().unwrap_or_default(),
    };
    if matches!(space, "texref" | "samplerref" | "surfref") || is_scalar_type(space) {
        return parse_value(item, slots).map(Base::Reference);
    }
    if let Some(slot) = slots.iter().find(|slot| slot.name == space && !SPACES.contains(&space)) {
        return match slot.values.iter().find(|value| !SPACES.contains(&value.as_str())) {
            Some(value) => Err(format!("`.{value}` is not a state space")),
            None => Ok(Base::SlotSpace(space.to_string())),
        };
    }
    match space {
        "generic" => Ok(Base::Generic),
        _ if SPACES.contains(&space) => Ok(Base::Space(space.to_string())),
        _ => Err(format!("`{space}` is neither a state space nor a slot")),
    }
}

/// Parses a value: `[=+]name[:[~][{arity}]type][!flag...]`.
fn parse_value(item: &str, slots: &[SlotRow]) -> ParseResult<SlotValue> {
    let (writes, reads, rest) = match item.as_bytes().first() {
        Some(b'=') => (true, false, &item[1..]),
        Some(b'+') => (true, true, &item[1..]),
        _ => (false, true, item),
    };
    let (rest, flags) = rest.split_once('!').map_or((rest, ""), |(rest, flags)| (rest, flags));
    let (name, spec) = match rest.split_once(':') {
        Some((name, spec)) => (name, Some(spec)),
        None => (rest, None),
    };
    let mut value = SlotValue {
        name: name.to_string(),
        writes,
        reads,
        ty: TypeName::Scalar("b32".to_string()),
        wider: false,
        arity: Arity::Scalar,
        braces_optional: false,
        flags: Vec::new(),
        ranges: Vec::new(),
        selectors: None,
    };
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
        return Err(format!("`{name}` is not an operand name"));
    }
    let mut type_name = spec.unwrap_or_default();
    if let Some(rest) = type_name.strip_prefix('~') {
        value.wider = true;
        type_name = rest;
    }
    if let Some(rest) = type_name.strip_prefix('{') {
        let (arity, rest) = rest.split_once('}').ok_or("`{` without `}`")?;
        value.braces_optional = arity.ends_with('?');
        value.arity = parse_arity(arity.trim_end_matches('?'), slots)?;
        type_name = rest;
    }
    if let Some(rest) = type_name.strip_prefix('~') {
        value.wider = true;
        type_name = rest;
    }
    let type_name = match type_name {
        "" => default_type(slots).ok_or("it has no type, and the head has no single one")?,
        named => named.to_string(),
    };
    value.ty = parse_type(&type_name, slots)?;
    for flag in flags.split('!').filter(|flag| !flag.is_empty()) {
        parse_flag(flag, &mut value)?;
    }
    Ok(value)
}

/// Parses the number of elements: `4`, `slot`, `slot*2` or `slot/2`.
fn parse_arity(text: &str, slots: &[SlotRow]) -> ParseResult<Arity> {
    if let Ok(count) = text.parse() {
        return Ok(Arity::Fixed(count));
    }
    let split = text.find(['*', '/']).unwrap_or(text.len());
    let (slot, factor) = text.split_at(split);
    let number = |text: &str| text.parse::<u16>().map_err(|_| format!("`{text}` is not a number"));
    let (times, over) = match factor.chars().next() {
        None => (1, 1),
        Some('*') => (number(&factor[1..])?, 1),
        _ => (1, number(&factor[1..])?),
    };
    if !slots.iter().any(|known| known.name == slot) {
        return Err(format!("no slot `{slot}` for the number of elements"));
    }
    Ok(Arity::Slot(slot.to_string(), times, over))
}

/// Parses a type: a scalar type, an entity, a slot of types, or `wide(slot)`.
fn parse_type(name: &str, slots: &[SlotRow]) -> ParseResult<TypeName> {
    let slot_of_types = |name: &str| -> ParseResult<Option<String>> {
        let Some(slot) = slots.iter().find(|slot| slot.name == name) else { return Ok(None) };
        match slot.values.iter().find(|value| !is_scalar_type(value)) {
            Some(value) => Err(format!("`.{value}` in slot `{name}` is not a type")),
            None => Ok(Some(name.to_string())),
        }
    };
    if let Some(slot) = name.strip_prefix("wide(").and_then(|rest| rest.strip_suffix(')')) {
        return slot_of_types(slot)?.map(TypeName::WideSlot).ok_or_else(|| format!("no slot `{slot}`"));
    }
    if ENTITIES.contains(&name) {
        Ok(TypeName::Entity(name.to_string()))
    } else if is_scalar_type(name) {
        Ok(TypeName::Scalar(name.to_string()))
    } else {
        slot_of_types(name)?.map(TypeName::Slot).ok_or_else(|| format!("`{name}` is neither a type nor a slot"))
    }
}

/// Parses one flag without its `!`, such as `reg`, `imm(0..31)` or `sel(half)`.
fn parse_flag(flag: &str, value: &mut SlotValue) -> ParseResult<()> {
    let (name, range) = match flag.split_once('(') {
        Some((name, rest)) => (name, Some(rest.strip_suffix(')').ok_or("`(` without `)`")?)),
        None => (flag, None),
    };
    if !FLAGS.contains(&name) {
        return Err(format!("unknown flag `!{name}`"));
    }
    if name == "sel" {
        let kind = range.filter(|kind| SELECTORS.contains(kind)).ok_or("`!sel` names a kind of selector")?;
        value.selectors = Some(kind.to_string());
        return Ok(());
    }
    if let Some(range) = range {
        let number = |text: &str| text.trim().parse::<i64>().map_err(|_| format!("`{text}` is not a number"));
        for part in range.split('/') {
            value.ranges.push(match (part.split_once(".."), part.strip_prefix('*')) {
                (Some((first, last)), _) => Range::Between(number(first)?, number(last)?),
                (None, Some(factor)) => Range::MultipleOf(number(factor)?),
                (None, None) => Range::OneOf(part.split(',').map(number).collect::<ParseResult<Vec<_>>>()?),
            });
        }
    }
    value.flags.push(name.to_string());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn optional_groups_raise_the_level() {
        let items = split_list("=d, [a, c:{2}s32], e{, f{, g}}").unwrap();
        let levels: Vec<(u8, &str)> = items.iter().map(|(level, item)| (*level, item.as_str())).collect();
        assert_eq!(levels, [(0, "=d"), (0, "[a, c:{2}s32]"), (0, "e"), (1, "f"), (2, "g")]);
        assert!(split_list("a, {b").is_err());
    }

    #[test]
    fn values_carry_arity_width_and_ranges() {
        let shape = SlotRow { name: "shape".into(), values: vec!["m64n8k16".into()], group: 0 };
        let value = parse_value("+d:~{shape/2}f32!reg", std::slice::from_ref(&shape)).unwrap();
        assert!(value.reads && value.writes && value.wider);
        assert_eq!(value.arity, Arity::Slot("shape".into(), 1, 2));
        let value = parse_value("i:s32!imm(-1,1)", &[]).unwrap();
        assert_eq!(value.ranges, [Range::OneOf(vec![-1, 1])]);
        let value = parse_value("s:{2}u16!in(*2/0..1)", &[]).unwrap();
        assert_eq!(value.ranges, [Range::MultipleOf(2), Range::Between(0, 1)]);
        assert!(parse_value("i:s32!odd", &[]).is_err());
        assert!(parse_value("i:shape", &[shape]).unwrap_err().contains("not a type"));
    }
}
