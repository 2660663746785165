//! Translates an IR instruction into a machine instruction, operand by operand.
//!
//! IR operands are already in the order of the machine's assembly text, so this module makes no choices. A value that has no physical
//! register yet is given a fixed example register of its class; that is enough to find out which encoding form can hold the instruction.
//! Operands that only the register allocator needs (tied and fixed ones) are left out; the tied accumulator of a warpgroup matrix product is
//! the register of the result. A reference to a symbol becomes 0; its relocation
//! fills in the address.
//!
//! **Indirect branches.** Some machine operands are a register followed by a number (`BRX`, `RET`, and `CALL` through a register). In the
//! IR these are two operands. `BRX` may omit the number: its block operands then list the possible targets, and its register holds the
//! target's distance in bytes from the function's first instruction.

use oriole_isa::{
    self as isa, Address, AddressPart, AddressRegister, BranchNumber, Control, Opcode, OperandValue, RegFile, Symbol, Symbols, Target,
};
use smallvec::SmallVec;

use crate::{Block, Function, Guard, Inst, Operand, OperandKind, Part, Role, Signs};

/// Returns the machine instruction for an IR instruction. `distance` gives the number of bytes from the end of the instruction to a block.
///
/// # Panics
///
/// Panics on pseudo operations, which have no machine instruction.
pub fn machine_instruction(function: &Function, inst: Inst, distance: &dyn Fn(Block) -> i64) -> isa::Instruction {
    let data = &function.insts[inst];
    let Some(opcode) = data.op.machine() else { panic!("{} is no machine instruction", data.op.mnemonic()) };
    translate(function, opcode, &data.modifiers, data.guard, function.operands(inst), distance)
}

/// Returns whether the encoding of an instruction depends on the addresses of the instruction and of other blocks.
pub fn depends_on_place(function: &Function, inst: Inst) -> bool {
    let names_block = |operand: &Operand| matches!(operand.kind, OperandKind::Block(_));
    function.insts[inst].is_machine(Opcode::BRX) || function.operands(inst).iter().any(names_block)
}

/// Returns whether the target has an encoding form for an instruction. Pseudo operations always fit.
pub fn is_encodable(function: &Function, inst: Inst, target: Target) -> bool {
    let data = &function.insts[inst];
    let Some(opcode) = data.op.machine() else { return true };
    operands_fit(function, opcode, &data.modifiers, data.guard, function.operands(inst), target)
}

/// Returns whether the target has an encoding form for an instruction with these modifiers, guard and operands.
pub fn operands_fit(
    function: &Function,
    opcode: Opcode,
    modifiers: &Symbols,
    guard: Option<Guard>,
    operands: &[Operand],
    target: Target,
) -> bool {
    let instruction = translate(function, opcode, modifiers, guard, operands, &|_| 0);
    isa::find_form(&instruction, target).is_some()
}

/// Returns the text of an instruction for error messages.
pub fn describe(function: &Function, inst: Inst) -> String {
    let data = &function.insts[inst];
    let mut text = data.op.mnemonic().to_owned();
    for modifier in &data.modifiers {
        text.push_str(modifier.spelling());
    }
    for (number, operand) in function.operands(inst).iter().enumerate() {
        text.push_str(if number == 0 { " " } else { ", " });
        text.push_str(&describe_operand(function, operand));
    }
    text
}

fn describe_operand(function: &Function, operand: &Operand) -> String {
    let mut text = String::new();
    for (sign, letter) in [(Signs::NOT, '!'), (Signs::INVERT, '~'), (Signs::NEGATE, '-'), (Signs::ABSOLUTE, '|')] {
        if operand.signs.has(sign) {
            text.push(letter);
        }
    }
    text.push_str(&match operand.kind {
        OperandKind::Value(part) => {
            let class = function.values[part.value];
            format!("{}{:?}[{}:{}]", class.file.prefix(), part.value, part.first, part.count)
        }
        OperandKind::Register { file, first, .. } => format!("{}{first}", file.prefix()),
        OperandKind::Zero(file) => format!("{}{}", file.prefix(), file.constant_letter().unwrap_or('?')),
        OperandKind::Integer(number) => format!("{number:#x}"),
        OperandKind::Constant { bank, offset } => format!("c[{bank:#x}][{offset:#x}]"),
        OperandKind::Name(name) => name.spelling().to_owned(),
        OperandKind::Set(members) => format!("{{{members:b}}}"),
        OperandKind::Block(block) => format!("{block:?}"),
        OperandKind::Reference(reference) => {
            format!("{}+{:#x}", function.symbols.get(reference.symbol as usize).map_or("?", String::as_str), reference.offset)
        }
        OperandKind::Address(word) => format!("{}[]", word.spelling()),
        OperandKind::Undefined => "undefined".to_owned(),
    });
    if operand.signs.has(Signs::ABSOLUTE) {
        text.push('|');
    }
    for suffix in operand.suffixes() {
        text.push_str(suffix.spelling());
    }
    match operand.role {
        Role::Plain => {}
        Role::Bracket(number) => text.push_str(&format!(" in [{number}]")),
        Role::Tied(result) => text.push_str(&format!(" tied to {result}")),
        Role::Fixed(register) => text.push_str(&format!(" in {register}")),
    }
    text
}

/// Builds the machine instruction. Operands inside brackets are added to the address operand before them.
fn translate(
    function: &Function,
    opcode: Opcode,
    modifiers: &Symbols,
    guard: Option<Guard>,
    operands: &[Operand],
    distance: &dyn Fn(Block) -> i64,
) -> isa::Instruction {
    let mut translated: SmallVec<[isa::Operand; 6]> = SmallVec::new();
    let mut is_branch_by_register = false;
    for operand in operands {
        match operand.role {
            // The accumulator of a warpgroup matrix product is updated in place, and its encoding names the register twice.
            Role::Tied(result) if opcode.is_warpgroup_product() => {
                translated.push(plain(function, &operands[usize::from(result)], distance));
            }
            Role::Tied(_) | Role::Fixed(_) => {}
            Role::Bracket(number) => add_to_address(function, &mut translated, usize::from(number), operand),
            Role::Plain if opcode == Opcode::BRX && matches!(operand.kind, OperandKind::Block(_)) => is_branch_by_register = true,
            Role::Plain => translated.push(plain(function, operand, distance)),
        }
    }
    if is_branch_by_register && matches!(translated.last(), Some(isa::Operand { value: OperandValue::Register(..), .. })) {
        translated.push(OperandValue::Relative(distance(function.entry())).into());
    }
    for operand in &mut translated {
        move_suffixes_to_last_bracket(operand);
    }
    join_register_and_number(opcode, &mut translated);
    complete_descriptor(&mut translated);
    isa::Instruction {
        opcode,
        guard: guard.map_or(isa::InstGuard::ALWAYS, |guard| translated_guard(function, guard)),
        modifiers: modifiers.clone(),
        operands: translated,
        control: Control::default(),
        form: None,
        residue: 0,
    }
}

/// Returns the register file and number of an operand, `None` as the number for the zero register. A value gets an example register.
fn register(function: &Function, kind: OperandKind) -> Option<(RegFile, Option<u16>)> {
    match kind {
        OperandKind::Value(Part { value, first, .. }) => {
            let class = function.values[value];
            Some((class.file, Some(example(class.file) + u16::from(first))))
        }
        OperandKind::Register { file, first, .. } => Some((file, Some(first))),
        OperandKind::Zero(file) => Some((file, None)),
        _ => None,
    }
}

/// Returns the number of an example register, aligned for every width that a value may have.
fn example(file: RegFile) -> u16 {
    match file {
        RegFile::General | RegFile::Uniform => 8,
        RegFile::Predicate | RegFile::UniformPredicate | RegFile::Convergence | RegFile::Scoreboard => 1,
    }
}

fn translated_guard(function: &Function, guard: Guard) -> isa::InstGuard {
    match register(function, guard.kind) {
        Some((file, Some(number))) => {
            isa::InstGuard { predicate: number as u8, negated: guard.negated, uniform: file == RegFile::UniformPredicate }
        }
        Some((file, None)) if guard.negated => {
            isa::InstGuard { negated: true, uniform: file == RegFile::UniformPredicate, ..isa::InstGuard::ALWAYS }
        }
        _ => isa::InstGuard::ALWAYS,
    }
}

/// Translates an operand outside brackets.
fn plain(function: &Function, operand: &Operand, distance: &dyn Fn(Block) -> i64) -> isa::Operand {
    let value = match operand.kind {
        OperandKind::Value(_) | OperandKind::Register { .. } | OperandKind::Zero(_) => {
            let (file, number) = register(function, operand.kind).unwrap_or((RegFile::General, None));
            OperandValue::Register(file, number)
        }
        OperandKind::Integer(number) => OperandValue::Integer(number),
        OperandKind::Constant { bank, offset } => {
            let part = |number| AddressPart { offset: Some(number), ..AddressPart::default() };
            let parts = [part(i64::from(bank)), part(i64::from(offset))].into_iter().collect();
            OperandValue::Address(Box::new(Address { word: Symbol::NAME_c, parts }))
        }
        OperandKind::Name(name) => OperandValue::Name(name),
        OperandKind::Set(members) => OperandValue::Set(members),
        OperandKind::Block(block) => OperandValue::Relative(distance(block)),
        OperandKind::Reference(_) => OperandValue::Place(BranchNumber { number: 0, distance: 0 }),
        OperandKind::Address(word) => OperandValue::Address(Box::new(Address { word, parts: SmallVec::new() })),
        OperandKind::Undefined => OperandValue::Register(RegFile::General, None),
    };
    isa::Operand {
        value,
        negate: operand.signs.has(Signs::NEGATE),
        invert: operand.signs.has(Signs::INVERT),
        not: operand.signs.has(Signs::NOT),
        absolute: operand.signs.has(Signs::ABSOLUTE),
        reuse: false,
        suffixes: operand.suffixes().collect(),
    }
}

/// Adds a register or an offset to bracket number `bracket` of the last translated operand, which is an address.
fn add_to_address(function: &Function, translated: &mut [isa::Operand], bracket: usize, operand: &Operand) {
    let Some(isa::Operand { value: OperandValue::Address(address), .. }) = translated.last_mut() else { return };
    while address.parts.len() <= bracket {
        address.parts.push(AddressPart::default());
    }
    let part = &mut address.parts[bracket];
    if let Some((file, number)) = register(function, operand.kind) {
        part.registers.push(AddressRegister { file, number, suffixes: operand.suffixes().collect() });
        return;
    }
    let number = match operand.kind {
        OperandKind::Integer(number) if operand.signs.has(Signs::NEGATE) => number.wrapping_neg(),
        OperandKind::Integer(number) => number,
        _ => 0,
    };
    part.offset = Some(part.offset.unwrap_or_default().wrapping_add(number));
}

/// Moves the modifiers of an address to its last bracket, which is where the machine's text prints them.
fn move_suffixes_to_last_bracket(operand: &mut isa::Operand) {
    if let isa::Operand { value: OperandValue::Address(address), suffixes, .. } = operand
        && let Some(last) = address.parts.last_mut()
    {
        last.suffixes = std::mem::take(suffixes);
    }
}

/// Fills in the register of an instruction descriptor `idesc[URZ]`: the second register of the pair before it. The pair is one operand, so
/// that its registers stay consecutive.
fn complete_descriptor(operands: &mut [isa::Operand]) {
    let register = |operand: &isa::Operand| match &operand.value {
        OperandValue::Address(address) => {
            address.parts.first().and_then(|part| part.registers.first()).and_then(|register| register.number)
        }
        _ => None,
    };
    for at in 1..operands.len() {
        let first = register(&operands[at - 1]);
        let OperandValue::Address(address) = &mut operands[at].value else { continue };
        if address.word == Symbol::NAME_idesc
            && let Some(own) = address.parts.first_mut().and_then(|part| part.registers.first_mut())
        {
            own.number = own.number.or(first.map(|first| first + 1));
        }
    }
}

/// Joins a register and the number after it into one operand, for the opcodes that have such operands.
fn join_register_and_number(opcode: Opcode, operands: &mut SmallVec<[isa::Operand; 6]>) {
    if !matches!(opcode, Opcode::BRX | Opcode::RET | Opcode::CALL) {
        return;
    }
    for at in 1..operands.len() {
        let place = match operands[at].value {
            OperandValue::Integer(number) => BranchNumber { number, distance: number },
            OperandValue::Relative(distance) => BranchNumber { number: distance, distance },
            OperandValue::Place(place) => place,
            _ => continue,
        };
        if let OperandValue::Register(file @ (RegFile::General | RegFile::Uniform), number) = operands[at - 1].value {
            operands[at - 1].value = OperandValue::RegisterAndNumber(file, number, place);
            operands.remove(at);
            return;
        }
    }
}
