//! Generates Rust source with the table as constant data of the types in `oriole_isa::table`.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fmt::Write;

use crate::check::{identity, uses};
use crate::model::{
    Bits, BracketPart, Core, Form, GuardKind, Instruction, NumberFormat, Piece, Prefix, RegFile, Slot, TARGETS, Table, Term,
};
use crate::parse::MOST_RUNS;
use crate::properties::Properties;
use crate::widths::{WidthLine, rules_code};

/// Returns the Rust source of a table. Mnemonics and symbols are sorted for binary search; forms are sorted by decreasing priority.
pub fn generate(table: &Table, properties: &[Properties], widths: &[WidthLine]) -> Result<String, String> {
    let mut instructions: Vec<&Instruction> = table.instructions.iter().collect();
    instructions.sort_by(|a, b| a.mnemonic.cmp(&b.mnemonic));
    let symbols = symbols(table);
    let mut out = String::new();
    mnemonics(&mut out, &instructions);
    symbol_table(&mut out, &symbols);
    let mut writer = Writer { symbols: &symbols, first_field: 0 };
    let (mut fields, mut forms, mut filters, mut ranges) = (String::new(), String::new(), String::new(), String::new());
    let (mut field_count, mut form_count) = (0, 0);
    for (number, instruction) in instructions.iter().enumerate() {
        writer.first_field = field_count;
        for field in &instruction.fields {
            let spellings: Vec<String> = field
                .spellings
                .iter()
                .map(|spelling| match spelling {
                    None => "None".to_string(),
                    Some(pieces) => format!("Some(&[{}])", pieces.iter().map(|piece| writer.symbol(piece)).collect::<Vec<_>>().join(",")),
                })
                .collect();
            let nothing = field.spellings.iter().position(|spelling| spelling.as_ref().is_some_and(Vec::is_empty));
            let first_symbols = field.spellings.iter().flatten().filter_map(|pieces| pieces.first());
            let firsts = first_symbols.fold(0u64, |set, symbol| set | 1 << (writer.number(symbol) & 63));
            let _ = writeln!(
                fields,
                "FieldSpec{{name:{:?},bits:{},spellings:&[{}],nothing:{nothing:?},firsts:{firsts:#x}}},",
                field.name,
                bits(&field.bits),
                spellings.join(",")
            );
        }
        field_count += instruction.fields.len();
        let start = form_count;
        let mut by_priority: Vec<&Form> = instruction.forms.iter().collect();
        by_priority.sort_by_key(|form| Reverse(priority(form)));
        for form in by_priority {
            writer.form(&mut forms, number, instruction, form);
            writer.filter(&mut filters, instruction, form);
            form_count += 1;
        }
        let _ = writeln!(ranges, "({start},{form_count}),");
    }
    let _ = writeln!(out, "pub(crate) static FIELDS:[FieldSpec;{field_count}]=[\n{fields}];");
    let _ = writeln!(out, "pub(crate) static FORMS:[Form;{form_count}]=[\n{forms}];");
    let _ = writeln!(out, "pub(crate) static FORM_FILTERS:[FormFilter;{form_count}]=[\n{filters}];");
    let _ = writeln!(out, "pub(crate) static FORMS_OF:[(u16,u16);{}]=[\n{ranges}];", instructions.len());
    property_table(&mut out, &instructions, properties)?;
    let mnemonics: Vec<&str> = instructions.iter().map(|instruction| instruction.mnemonic.as_str()).collect();
    let symbol = |text: &str| symbols.binary_search_by(|symbol| symbol.as_str().cmp(text)).ok().map(|number| format!("Symbol({number})"));
    out.push_str(&rules_code(&mnemonics, widths, &symbol)?);
    Ok(out)
}

/// Writes the enum `Opcode` and the lists of mnemonics and opcodes.
fn mnemonics(out: &mut String, instructions: &[&Instruction]) {
    out.push_str("/// The mnemonic of a machine instruction.\n#[derive(Clone,Copy,PartialEq,Eq,Hash,PartialOrd,Ord,Debug)]\n");
    out.push_str("#[allow(clippy::upper_case_acronyms,non_camel_case_types,missing_docs)]\n#[repr(u16)]\npub enum Opcode{\n");
    for instruction in instructions {
        let _ = writeln!(out, "{},", instruction.mnemonic);
    }
    let names: Vec<String> = instructions.iter().map(|i| format!("{:?}", i.mnemonic)).collect();
    let values: Vec<String> = instructions.iter().map(|i| format!("Opcode::{}", i.mnemonic)).collect();
    let _ = writeln!(out, "}}\npub(crate) static MNEMONICS:[&str;{}]=[{}];", names.len(), names.join(","));
    let _ = writeln!(out, "pub(crate) static TABLE_TARGETS:[u16;{}]={TARGETS:?};", TARGETS.len());
    let _ = writeln!(out, "pub(crate) static OPCODES:[Opcode;{}]=[{}];", values.len(), values.join(","));
}

/// Returns all modifiers and names of the table, sorted.
fn symbols(table: &Table) -> Vec<String> {
    let mut found: BTreeSet<String> = crate::ALIAS_MODIFIERS.iter().map(ToString::to_string).collect();
    found.insert(".reuse".to_string());
    for spelling in table.instructions.iter().flat_map(|instruction| &instruction.fields).flat_map(|field| &field.spellings) {
        found.extend(spelling.iter().flatten().cloned());
    }
    let mut add = |piece: &Piece| match piece {
        Piece::Literal(text) | Piece::Flag { text, .. } => {
            found.insert(text.clone());
        }
        _ => {}
    };
    for instruction in &table.instructions {
        for form in &instruction.forms {
            form.modifiers.iter().for_each(&mut add);
            for slot in &form.operands {
                slot.suffixes.iter().for_each(&mut add);
                match &slot.core {
                    Core::Literal(name) => add(&Piece::Literal(name.clone())),
                    Core::Address(word, parts) => {
                        add(&Piece::Literal(word.clone()));
                        for part in parts {
                            part.suffixes.iter().for_each(&mut add);
                            for term in &part.terms {
                                if let Term::Register { suffixes, .. } = term {
                                    suffixes.iter().for_each(&mut add);
                                }
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the name of the Rust constant for a modifier (starts with a dot) or a name. If several spellings have the same constant name,
/// the constant stands for the first of them in sorted order.
pub fn symbol_constant(spelling: &str) -> String {
    let plain: String = spelling.trim_start_matches('.').chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    match plain {
        plain if !spelling.starts_with('.') => format!("NAME_{plain}"),
        plain if plain.starts_with(|c: char| c.is_ascii_digit()) => format!("_{plain}"),
        plain => plain,
    }
}

/// Writes the list of spellings and the constants of `Symbol`.
fn symbol_table(out: &mut String, symbols: &[String]) {
    let names: Vec<String> = symbols.iter().map(|symbol| format!("{symbol:?}")).collect();
    let _ = writeln!(out, "pub(crate) static SYMBOLS:[&str;{}]=[{}];", names.len(), names.join(","));
    out.push_str("/// Modifiers and names by their spelling.\n#[allow(missing_docs,non_upper_case_globals)]\nimpl Symbol{\n");
    let mut taken = BTreeSet::new();
    for (number, symbol) in symbols.iter().enumerate() {
        let name = symbol_constant(symbol);
        if taken.insert(name.clone()) {
            let _ = writeln!(out, "pub const {name}:Symbol=Symbol({number});");
        }
    }
    out.push_str("}\n");
}

/// Writes the properties of all instructions. Fails if an instruction has none or a line has no instruction.
fn property_table(out: &mut String, instructions: &[&Instruction], properties: &[Properties]) -> Result<(), String> {
    let _ = writeln!(out, "pub(crate) static PROPERTIES:[Properties;{}]=[", instructions.len());
    for instruction in instructions {
        let found = properties
            .iter()
            .find(|properties| properties.mnemonic == instruction.mnemonic)
            .ok_or_else(|| format!("{}: no properties for {}", instruction.place, instruction.mnemonic))?;
        let _ = writeln!(out, "{},", found.code());
    }
    out.push_str("];\n");
    match properties.iter().find(|p| !instructions.iter().any(|i| i.mnemonic == p.mnemonic)) {
        Some(unknown) => Err(format!("{}: properties for {}, which has no form", unknown.place, unknown.mnemonic)),
        None => Ok(()),
    }
}

/// Generates the code of forms.
struct Writer<'t> {
    symbols: &'t [String],
    /// Index of the current instruction's first field in the list of all fields.
    first_field: usize,
}

impl Writer<'_> {
    /// Returns the index of a symbol in the sorted list.
    fn number(&self, text: &str) -> usize {
        self.symbols.binary_search_by(|symbol| symbol.as_str().cmp(text)).unwrap_or(usize::MAX)
    }

    fn symbol(&self, text: &str) -> String {
        format!("Symbol({})", self.number(text))
    }

    /// Appends the Rust code of a form. `number` is the index of the instruction.
    fn form(&self, out: &mut String, number: usize, instruction: &Instruction, form: &Form) {
        let (mask, value) = identity(form);
        let default = form.with.iter().fold(value, |word, (bits, set)| word | bits.place(*set));
        let carried = uses(instruction, form).iter().fold(mask, |mask, usage| mask | usage.mask);
        let priority = priority(form);
        let guard = match form.guard {
            GuardKind::Predicate => "Predicate",
            GuardKind::Uniform => "Uniform",
            GuardKind::None => "None",
        };
        let operands: Vec<String> = form.operands.iter().map(|slot| self.slot(slot)).collect();
        let exclusion = |(bits, value): &(Bits, u64)| format!("({:#x},{:#x})", bits.mask(), bits.place(*value));
        let excluded: Vec<String> = form.excluded.iter().map(exclusion).collect();
        let excluded = excluded.join(",");
        let _ = writeln!(
            out,
            "Form{{opcode:OPCODES[{number}],targets:{:#x},mask:{mask:#x},value:{value:#x},default:{default:#x},carried:{carried:#x},excluded:&[{excluded}],guard:GuardKind::{guard},\
             sets_read_barrier:{},sets_write_barrier:{},priority:{priority},modifiers:{},operands:&[{}],place:{:?}}},",
            form.targets,
            !form.never_read_barrier,
            !form.never_write_barrier,
            self.pieces(&form.modifiers),
            operands.join(","),
            form.place
        );
    }

    /// Appends the Rust code of the filter that excludes a form for most instructions that do not fit it.
    fn filter(&self, out: &mut String, instruction: &Instruction, form: &Form) {
        let least = form.operands.iter().filter(|slot| slot.optional.is_none()).count();
        let kinds = form.operands.iter().take(FILTERED_OPERANDS).enumerate();
        let kinds = kinds.fold(0u64, |kinds, (place, slot)| kinds | operand_kind(&slot.core) << (4 * place));
        let _ = writeln!(
            out,
            "FormFilter{{printed:{:#x},required:{:#x},kinds:{kinds:#x},targets:{:#x},most_operands:{},least_operands:{least}}},",
            self.printed_modifiers(instruction, form),
            self.required_modifiers(form),
            form.targets,
            form.operands.len(),
        );
    }

    /// Returns the bit that stands for a symbol in a Bloom filter of 64 bits. Symbols whose numbers are equal modulo 64 share a bit.
    fn filter_bit(&self, text: &str) -> u64 {
        1 << (self.number(text) & 63)
    }

    /// Returns the filter of the modifiers that a form may have. All bits are set if some modifiers are derived from the operands.
    fn printed_modifiers(&self, instruction: &Instruction, form: &Form) -> u64 {
        let bits_of = |piece: &Piece| match piece {
            Piece::Literal(text) | Piece::Flag { text, .. } => self.filter_bit(text),
            Piece::Field(field) => {
                instruction.fields[*field].spellings.iter().flatten().flatten().fold(0, |set, text| set | self.filter_bit(text))
            }
            Piece::Reuse(_) => 0,
            Piece::Alias(_) => u64::MAX,
        };
        form.modifiers.iter().fold(0, |set, piece| set | bits_of(piece))
    }

    /// Returns the filter of the modifiers that every instruction of a form has.
    fn required_modifiers(&self, form: &Form) -> u64 {
        let literals = form.modifiers.iter().filter_map(|piece| if let Piece::Literal(text) = piece { Some(text) } else { None });
        literals.fold(0, |set, text| set | self.filter_bit(text))
    }

    fn pieces(&self, pieces: &[Piece]) -> String {
        let code: Vec<String> = pieces
            .iter()
            .map(|piece| match piece {
                Piece::Literal(text) => format!("Piece::Literal({})", self.symbol(text)),
                Piece::Field(field) => format!("Piece::Field(FieldId({}))", self.first_field + field),
                Piece::Flag { text, bit, when } => format!("Piece::Flag{{symbol:{},bit:{bit},when:{when}}}", self.symbol(text)),
                Piece::Reuse(bit) => format!("Piece::Reuse({bit})"),
                Piece::Alias(_) => "Piece::Alias".to_string(),
            })
            .collect();
        format!("&[{}]", code.join(","))
    }

    fn slot(&self, slot: &Slot) -> String {
        let optional = slot.optional.map_or("None".into(), |value| format!("Some({value})"));
        format!(
            "Slot{{negate:{},invert:{},not:{},absolute:{},core:{},suffixes:{},inside_bars:{},optional:{optional},hidden:{}}}",
            sign(&slot.prefixes, '-'),
            sign(&slot.prefixes, '~'),
            sign(&slot.prefixes, '!'),
            sign(&slot.prefixes, '|'),
            self.core(&slot.core),
            self.pieces(&slot.suffixes),
            slot.inside_bars,
            slot.hidden
        )
    }

    /// Returns the Rust code of an operand kind.
    fn core(&self, core: &Core) -> String {
        match core {
            Core::Register(file, place) => format!("Core::Register(RegFile::{},{})", file_name(*file), bits(place)),
            Core::Number(format, place) => format!("Core::Number(NumberFormat::{},{})", format_name(*format), bits(place)),
            Core::RegisterAndNumber(file, register, format, number) => format!(
                "Core::RegisterAndNumber(RegFile::{},{},NumberFormat::{},{})",
                file_name(*file),
                bits(register),
                format_name(*format),
                bits(number)
            ),
            Core::Literal(name) => format!("Core::Literal({})", self.symbol(name)),
            Core::Field(field) => format!("Core::Field(FieldId({}))", self.first_field + field),
            Core::Address(word, parts) => {
                let parts: Vec<String> = parts.iter().map(|part| self.part(part)).collect();
                format!("Core::Address({},&[{}])", self.symbol(word), parts.join(","))
            }
        }
    }

    /// Returns the Rust code of one pair of brackets.
    fn part(&self, part: &BracketPart) -> String {
        let terms: Vec<String> = part
            .terms
            .iter()
            .map(|term| match term {
                Term::Register { file, bits: place, suffixes, omit } => format!(
                    "Term::Register{{file:RegFile::{},bits:{},suffixes:{},omit:{omit}}}",
                    file_name(*file),
                    bits(place),
                    self.pieces(suffixes)
                ),
                Term::Number(format, place) => format!("Term::Number(NumberFormat::{},{})", format_name(*format), bits(place)),
            })
            .collect();
        format!("BracketPart{{terms:&[{}],suffixes:{}}}", terms.join(","), self.pieces(&part.suffixes))
    }
}

/// Number of operands whose kinds are in the filter of a form.
const FILTERED_OPERANDS: usize = 16;

/// Returns the code of an operand kind in the filter of a form: 0 if an operand of any kind may fit. `OperandValue::kind_code` in the crate
/// `oriole-isa` has the same codes.
fn operand_kind(core: &Core) -> u64 {
    match core {
        Core::Register(file, _) => match file {
            RegFile::General => 1,
            RegFile::Uniform => 2,
            RegFile::Predicate => 3,
            RegFile::UniformPredicate => 4,
            RegFile::Convergence => 5,
            RegFile::Scoreboard => 6,
        },
        Core::Number(..) => 7,
        Core::Address(_, parts) => 8 + parts.len().min(7) as u64,
        Core::RegisterAndNumber(..) | Core::Literal(_) | Core::Field(_) => 0,
    }
}

/// Returns a number that grows with the constraints of a form. Forms are sorted by it, so that the first match is the most specific.
fn priority(form: &Form) -> usize {
    let literals = form.modifiers.iter().filter(|piece| matches!(piece, Piece::Literal(_))).count();
    identity(form).0.count_ones() as usize + 2 * literals + form.operands.len()
}

fn sign(prefixes: &[Prefix], symbol: char) -> String {
    match prefixes.iter().find(|prefix| prefix.symbol == symbol) {
        None => "Sign::Never".into(),
        Some(Prefix { condition: None, .. }) => "Sign::Always".into(),
        Some(Prefix { condition: Some((bit, when)), .. }) => format!("Sign::When({bit},{when})"),
    }
}

fn bits(bits: &Bits) -> String {
    let mut runs = bits.runs.clone();
    runs.resize(MOST_RUNS, (0, 0));
    let runs: Vec<String> = runs.iter().map(|(low, width)| format!("({low},{width})")).collect();
    format!(
        "Bits{{runs:[{}],width:{},scale:{},complemented:{},bias:{},mask:{:#x}}}",
        runs.join(","),
        bits.width(),
        bits.scale,
        bits.complemented,
        bits.bias,
        bits.mask()
    )
}

fn file_name(file: RegFile) -> &'static str {
    match file {
        RegFile::General => "General",
        RegFile::Uniform => "Uniform",
        RegFile::Predicate => "Predicate",
        RegFile::UniformPredicate => "UniformPredicate",
        RegFile::Convergence => "Convergence",
        RegFile::Scoreboard => "Scoreboard",
    }
}

fn format_name(format: NumberFormat) -> &'static str {
    match format {
        NumberFormat::Unsigned => "Unsigned",
        NumberFormat::Signed => "Signed",
        NumberFormat::F32 => "F32",
        NumberFormat::F64High => "F64High",
        NumberFormat::F16 => "F16",
        NumberFormat::Bf16 => "Bf16",
        NumberFormat::Relative => "Relative",
        NumberFormat::Set => "Set",
        NumberFormat::SignedAlone => "SignedAlone",
        NumberFormat::Absolute => "Absolute",
    }
}
