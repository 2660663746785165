//! Generates Rust code from the table: enums of opcodes, modifiers and slots, and the rows as static data.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

use crate::model::{
    Arity, Atom, Base, ENTITIES, OperandRow, OperandSyntax, Range, Requirement, Row, SCALAR_TYPES, SPACES, SlotRow, SlotValue, Table,
    TypeName,
};
use crate::special::SpecialRegister;

/// Generates the module that `oriole-ptx` includes. Fails if two spellings map to the same Rust identifier.
pub fn generate(table: &Table, special: &[SpecialRegister]) -> Result<String, String> {
    let mut out = String::from("// Generated from crates/ptx/data by oriole-ptx-table.\n\n");
    let opcodes: BTreeSet<&str> = table.rows.iter().map(|row| row.opcode.as_str()).collect();
    let slots = table.rows.iter().flat_map(|row| &row.slots);
    // Declarations may use every type, so every type is a modifier even if no instruction has it.
    let mut modifiers: BTreeSet<&str> = SCALAR_TYPES.iter().map(|&(name, _)| name).chain(SPACES.iter().copied()).collect();
    modifiers.extend(slots.clone().flat_map(|slot| slot.values.iter().map(String::as_str)));
    let slot_names: BTreeSet<&str> = slots.filter(|slot| !is_literal(slot)).map(|slot| slot.name.as_str()).collect();
    spelled_enum(&mut out, "Opcode", "A PTX opcode, all its components.", "u16", &opcodes)?;
    spelled_enum(&mut out, "Modifier", "A modifier of an instruction: what follows a dot.", "u16", &modifiers)?;
    let mut names = slot_names;
    names.insert("fixed");
    spelled_enum(&mut out, "Slot", "A place for a modifier in an instruction's head.", "u8", &names)?;
    modifier_facts(&mut out, &modifiers);
    rows(&mut out, table);
    families(&mut out, table);
    special_registers(&mut out, special);
    Ok(out)
}

/// Returns whether the slot is a literal modifier, which has itself as its only value.
fn is_literal(slot: &SlotRow) -> bool {
    slot.values.len() == 1 && slot.values[0] == slot.name
}

/// Returns the Rust identifier of a spelling: `L2::cache_hint` becomes `L2CacheHint`, and a leading digit gets the prefix `N`.
fn identifier(spelling: &str) -> String {
    let mut name = String::new();
    for part in spelling.split([':', '_', '.']) {
        let mut chars = part.chars();
        if let Some(first) = chars.next() {
            name.extend(first.to_uppercase());
            name.push_str(chars.as_str());
        }
    }
    if name.starts_with(|c: char| c.is_ascii_digit()) { format!("N{name}") } else { name }
}

/// Writes an enum with one variant per spelling, and functions that convert between the two.
fn spelled_enum(out: &mut String, name: &str, doc: &str, repr: &str, spellings: &BTreeSet<&str>) -> Result<(), String> {
    let mut seen: BTreeMap<String, &str> = BTreeMap::new();
    for &spelling in spellings {
        if let Some(other) = seen.insert(identifier(spelling), spelling) {
            return Err(format!("`{other}` and `{spelling}` have the same identifier"));
        }
    }
    let _ = writeln!(
        out,
        "/// {doc}\n#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]\n#[repr({repr})]\n#[allow(missing_docs)]\npub enum {name} {{"
    );
    for &spelling in spellings {
        let _ = writeln!(out, "    {},", identifier(spelling));
    }
    let count = spellings.len();
    let _ = writeln!(out, "}}\n\nimpl {name} {{\n    /// Every value, sorted by spelling.\n    pub const ALL: [{name}; {count}] = [");
    for &spelling in spellings {
        let _ = writeln!(out, "        {name}::{},", identifier(spelling));
    }
    let _ = writeln!(out, "    ];\n    const SPELLINGS: [&'static str; {count}] = [");
    for &spelling in spellings {
        let _ = writeln!(out, "        {spelling:?},");
    }
    let _ = writeln!(
        out,
        "    ];\n\n    /// How it is written, without a leading dot.\n    pub fn spelling(self) -> &'static str {{\n        Self::SPELLINGS[self as usize]\n    }}\n\n    /// The value with this spelling.\n    pub fn from_spelling(spelling: &str) -> Option<Self> {{\n        static KEYS: [u128; {count}] = lookup::keys(&{name}::SPELLINGS);\n        lookup::position(&KEYS, &Self::SPELLINGS, spelling).map(|position| Self::ALL[position])\n    }}\n}}\n"
    );
    Ok(())
}

/// Writes the functions of `Modifier`: the type, the state space and the number that a modifier stands for.
fn modifier_facts(out: &mut String, modifiers: &BTreeSet<&str>) {
    let _ = writeln!(
        out,
        "impl Modifier {{\n    /// The scalar type it names.\n    pub fn scalar_type(self) -> Option<ScalarType> {{\n        Some(match self {{"
    );
    for (name, _) in SCALAR_TYPES {
        let _ = writeln!(out, "            Modifier::{0} => ScalarType::{0},", identifier(name));
    }
    let _ = writeln!(
        out,
        "            _ => return None,\n        }})\n    }}\n\n    /// The state space it names.\n    pub fn space(self) -> Option<AddressSpace> {{\n        Some(match self {{"
    );
    for name in SPACES {
        let _ = writeln!(out, "            Modifier::{0} => AddressSpace::{0},", identifier(name));
    }
    let _ = writeln!(
        out,
        "            _ => return None,\n        }})\n    }}\n\n    /// The number a modifier stands for: the N of `.m64nNk16`, of `.xN`, of `.vN` and of `.Nd`.\n    pub fn number(self) -> Option<u16> {{\n        Some(match self {{"
    );
    for modifier in modifiers {
        if let Some(number) = number_of(modifier) {
            let _ = writeln!(out, "            Modifier::{} => {number},", identifier(modifier));
        }
    }
    let _ = writeln!(out, "            _ => return None,\n        }})\n    }}\n}}\n");
}

/// Returns the number in a modifier: N of `.m64nNk16`, `.xN`, `.vN` and `.Nd`.
fn number_of(modifier: &str) -> Option<u16> {
    let digits = |text: &str| {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        (end > 0).then(|| text[..end].parse().ok()).flatten()
    };
    if modifier.starts_with('m') && modifier.contains('k') {
        let position = modifier.find('n')?;
        return digits(&modifier[position + 1..]);
    }
    if let Some(dimensions) = modifier.strip_suffix('d') {
        return dimensions.parse().ok();
    }
    let rest = modifier.strip_prefix(['x', 'v'])?;
    digits(rest).filter(|_| rest.chars().all(|c| c.is_ascii_digit()))
}

fn modifier_list(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("Modifier::{}", identifier(value))).collect();
    format!("&[{}]", values.join(", "))
}

/// Returns the Rust name of a slot; all literal modifiers share `Slot::Fixed`.
fn slot_name(row: &Row, name: &str) -> String {
    let slot = row.slots.iter().find(|slot| slot.name == name);
    match slot {
        Some(slot) if is_literal(slot) => "Slot::Fixed".to_string(),
        _ => format!("Slot::{}", identifier(name)),
    }
}

/// Writes the static array of rows.
fn rows(out: &mut String, table: &Table) {
    let _ = writeln!(out, "/// Every row of the table.\npub static ROWS: [Row; {}] = [", table.rows.len());
    for row in &table.rows {
        let _ = writeln!(
            out,
            "    Row {{ opcode: Opcode::{}, family: {:?}, section: {:?}, line: {},",
            identifier(&row.opcode),
            row.file,
            row.section,
            row.line
        );
        let slots: Vec<String> = row.slots.iter().map(|slot| slot_spec(row, slot)).collect();
        let operands: Vec<String> = row.operands.iter().map(|operand| operand_spec(row, operand)).collect();
        let needs: Vec<String> = row.requirements.iter().map(|(condition, needs)| conditional(row, condition, needs)).collect();
        let removals: Vec<String> = row.removals.iter().map(|(condition, needs)| conditional(row, condition, needs)).collect();
        let denials: Vec<String> = row.denials.iter().map(|condition| condition_list(row, condition)).collect();
        let _ = writeln!(out, "        slots: &[{}],", slots.join(", "));
        let _ = writeln!(out, "        operands: &[{}],", operands.join(", "));
        let _ = writeln!(out, "        requirements: &[{}],", needs.join(", "));
        let _ = writeln!(out, "        removals: &[{}],", removals.join(", "));
        let undocumented: Vec<String> = row.undocumented.iter().map(|condition| condition_list(row, condition)).collect();
        let _ = writeln!(out, "        undocumented: &[{}],", undocumented.join(", "));
        let _ = writeln!(out, "        movable: {},", row.movable);
        let _ = writeln!(out, "        denials: &[{}] }},", denials.join(", "));
    }
    let _ = writeln!(out, "];\n");
}

fn slot_spec(row: &Row, slot: &SlotRow) -> String {
    format!("SlotSpec {{ slot: {}, values: {}, group: {} }}", slot_name(row, &slot.name), modifier_list(&slot.values), slot.group)
}

fn condition_list(row: &Row, condition: &[Atom]) -> String {
    let atoms: Vec<String> = condition
        .iter()
        .map(|atom| match atom {
            Atom::Has(value) => format!("Atom::Has(Modifier::{})", identifier(value)),
            Atom::Lacks(value) => format!("Atom::Lacks(Modifier::{})", identifier(value)),
            Atom::SlotIs(slot, values) => format!("Atom::SlotIs({}, {})", slot_name(row, slot), modifier_list(values)),
            Atom::SlotIsNot(slot, values) => format!("Atom::SlotIsNot({}, {})", slot_name(row, slot), modifier_list(values)),
            Atom::Filled(slot) => filled(row, slot, "Filled", "Has"),
            Atom::Empty(slot) => filled(row, slot, "Empty", "Lacks"),
        })
        .collect();
    format!("&[{}]", atoms.join(", "))
}

/// Returns the atom for a filled or empty slot. For a literal modifier that is its presence or absence.
fn filled(row: &Row, slot: &str, as_slot: &str, as_literal: &str) -> String {
    match slot_name(row, slot).as_str() {
        "Slot::Fixed" => format!("Atom::{as_literal}(Modifier::{})", identifier(slot)),
        name => format!("Atom::{as_slot}({name})"),
    }
}

fn version(version: Option<(u8, u8)>) -> String {
    let (major, minor) = version.unwrap_or((1, 0));
    format!("PtxVersion::new({major}, {minor})")
}

fn requirement(needs: &Requirement) -> String {
    let targets: Vec<String> = needs
        .targets
        .iter()
        .map(|target| {
            let suffix = match target.suffix {
                None => "Plain",
                Some('a') => "ArchSpecific",
                Some(_) => "FamilySpecific",
            };
            format!("TargetNeed {{ number: {}, suffix: Suffix::{suffix}, version: {} }}", target.number, version(target.version))
        })
        .collect();
    format!("Requirement {{ version: {}, targets: &[{}] }}", version(needs.version), targets.join(", "))
}

fn conditional(row: &Row, condition: &[Atom], needs: &Requirement) -> String {
    format!("ConditionalRequirement {{ condition: {}, requirement: {} }}", condition_list(row, condition), requirement(needs))
}

/// Returns the Rust code of an operand.
fn operand_spec(row: &Row, operand: &OperandRow) -> String {
    let shape = match &operand.shape {
        OperandSyntax::Value(value) => format!("OperandSyntax::Value({})", value_spec(row, value)),
        OperandSyntax::Pair(first, second, optional) => {
            format!(
                "OperandSyntax::Pair {{ first: {}, second: {}, optional: {optional} }}",
                value_spec(row, first),
                value_spec(row, second)
            )
        }
        OperandSyntax::Bracket(base, rest, unified) => {
            let base = match base {
                Base::Generic => "Base::Generic".to_string(),
                Base::Space(space) => format!("Base::Space(AddressSpace::{})", identifier(space)),
                Base::SlotSpace(slot) => format!("Base::SlotSpace({})", slot_name(row, slot)),
                Base::Reference(value) => format!("Base::Reference({})", value_spec(row, value)),
            };
            let rest: Vec<String> = rest.iter().map(|value| value_spec(row, value)).collect();
            format!("OperandSyntax::Bracket {{ base: {base}, rest: &[{}], unified: {unified} }}", rest.join(", "))
        }
    };
    format!("OperandSpec {{ level: {}, shape: {shape} }}", operand.level)
}

/// Returns the Rust code of a value operand.
fn value_spec(row: &Row, value: &SlotValue) -> String {
    let ty = match &value.ty {
        TypeName::Scalar(name) => format!("TypeSpec::Scalar(ScalarType::{})", identifier(name)),
        TypeName::Slot(slot) => format!("TypeSpec::OfSlot({})", slot_name(row, slot)),
        TypeName::WideSlot(slot) => format!("TypeSpec::WideOfSlot({})", slot_name(row, slot)),
        TypeName::Entity(name) => {
            debug_assert!(ENTITIES.contains(&name.as_str()));
            format!("TypeSpec::Entity(Entity::{})", identifier(name))
        }
    };
    let arity = match &value.arity {
        Arity::Scalar => "Arity::Scalar".to_string(),
        Arity::Fixed(count) => format!("Arity::Fixed({count})"),
        Arity::Slot(slot, times, over) => {
            format!("Arity::OfSlot {{ slot: {}, times: {times}, over: {over} }}", slot_name(row, slot))
        }
    };
    let range = |range: &Range| match range {
        Range::Between(first, last) => format!("ImmediateRange::Between({first}, {last})"),
        Range::OneOf(values) => format!("ImmediateRange::OneOf(&{values:?})"),
        Range::MultipleOf(factor) => format!("ImmediateRange::MultipleOf({factor})"),
    };
    let ranges: Vec<String> = value.ranges.iter().map(range).collect();
    let ranges = ranges.join(", ");
    let selectors = value.selectors.as_ref().map_or("None".to_string(), |kind| identifier(kind));
    let mut flags: Vec<String> = vec!["Flags::NONE".to_string()];
    flags.extend(value.flags.iter().filter(|flag| *flag != "in").map(|flag| format!("Flags::{}", flag.to_uppercase())));
    let flags = flags.iter().skip(1).fold(flags[0].clone(), |all, flag| format!("{all}.with({flag})"));
    format!(
        "ValueSpec {{ name: {:?}, reads: {}, writes: {}, ty: {ty}, wider: {}, arity: {arity}, braces_optional: {}, flags: {flags}, ranges: &[{ranges}], selectors: Selectors::{selectors} }}",
        value.name, value.reads, value.writes, value.wider, value.braces_optional
    )
}

/// Writes the index from the first component of an opcode to its rows, sorted for binary search.
fn families(out: &mut String, table: &Table) {
    let mut families: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, row) in table.rows.iter().enumerate() {
        families.entry(row.opcode.split('.').next().unwrap_or_default()).or_default().push(index);
    }
    let count = families.len();
    let _ = writeln!(out, "/// The first components of all opcodes, sorted.\npub static FAMILY_NAMES: [&str; {count}] = [");
    for name in families.keys() {
        let _ = writeln!(out, "    {name:?},");
    }
    let _ = writeln!(
        out,
        "];\n\n/// The rows of each first opcode component, in the order of [`FAMILY_NAMES`].\npub static FAMILIES: [&[u16]; {count}] = ["
    );
    for rows in families.values() {
        let _ = writeln!(out, "    &{rows:?},");
    }
    let _ = writeln!(out, "];\n");
}

/// Writes the static array of special registers.
fn special_registers(out: &mut String, special: &[SpecialRegister]) {
    let _ = writeln!(
        out,
        "/// Every special register, sorted by name.\npub static SPECIAL_REGISTERS: [SpecialRegisterRow; {}] = [",
        special.len()
    );
    for register in special {
        let _ = writeln!(
            out,
            "    SpecialRegisterRow {{ name: {:?}, ty: ScalarType::{}, vector: {}, narrower: &{:?}, requirement: {} }},",
            register.name,
            identifier(&register.ty),
            register.vector,
            register.narrower_bits,
            requirement(&register.requirement)
        );
    }
    let _ = writeln!(out, "];");
    let names: BTreeSet<&str> = special.iter().map(|register| register.name.as_str()).collect();
    debug_assert_eq!(names.len(), special.len());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_rust_names() {
        assert_eq!(identifier("L2::cache_hint"), "L2CacheHint");
        assert_eq!(identifier("1d"), "N1d");
        assert_eq!(identifier("cp.async.bulk"), "CpAsyncBulk");
    }

    #[test]
    fn numbers_come_from_shapes_and_counts() {
        assert_eq!(number_of("m64n128k16"), Some(128));
        assert_eq!(number_of("x32"), Some(32));
        assert_eq!(number_of("v4"), Some(4));
        assert_eq!(number_of("3d"), Some(3));
        assert_eq!(number_of("xor"), None);
        assert_eq!(number_of("max"), None);
    }

    #[test]
    fn generated_code_mentions_every_row() {
        let mut table = Table::default();
        table
            .parse("t.tbl", "## 1 add\nadd{.sat}.type =d, a, b!in(0..3) | type = .u32 .s32 | ptx 7.0 | sm 90a | deny .sat & type=.u32\n")
            .unwrap();
        let code = generate(&table, &[]).unwrap();
        assert!(code.contains("Slot::Type") && code.contains("Modifier::Sat") && code.contains("ImmediateRange::Between(0, 3)"));
        assert!(code.contains("Suffix::ArchSpecific"));
    }
}
