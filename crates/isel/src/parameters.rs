//! `.param` variables of functions and calls: not memory, but values.
//!
//! Each such variable is as many 32-bit variables as it has words; `st.param` and `ld.param` at fixed offsets assign and read them, and
//! SSA construction makes moves of it all. Only a parameter whose address a function takes is memory: it is stored into the frame
//! when the function starts.

use oriole_ir::{Class, MemoryAccess, Operand, Space, Value};
use oriole_ptx::ast::{self, AddressBase, Body, FunctionId, Module, Parameter, VariableId};
use oriole_ptx::table::Opcode;
use oriole_ptx::types::{ScalarType, StateSpace};
use rustc_hash::FxHashSet;

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

/// Bytes of a register.
const WORD: u32 = 4;

/// A variable and what of it an access means.
pub(crate) struct ParameterPlace {
    words: Vec<Value>,
    offset: u32,
}

/// Parameters whose address a function's code takes.
pub(crate) fn address_taken(module: &Module, id: FunctionId, body: &Body) -> Vec<VariableId> {
    let mut unseen: FxHashSet<VariableId> = module.functions[id].parameters.iter().filter_map(parameter_variable).collect();
    let mut found = Vec::new();
    for instruction in &body.instructions {
        if module.forms[instruction.form].opcode == Opcode::Call {
            continue;
        }
        for operand in body.operands_of(instruction) {
            let base = match *operand {
                ast::Operand::Variable(id) => Some(id),
                ast::Operand::AddressOf(position) => match body.addresses[position as usize].base {
                    AddressBase::Variable(id) => Some(id),
                    _ => None,
                },
                _ => None,
            };
            if let Some(id) = base.filter(|id| unseen.remove(id)) {
                found.push(id);
            }
        }
    }
    found
}

pub(crate) fn parameter_variable(parameter: &Parameter) -> Option<VariableId> {
    if let Parameter::Variable(id) = *parameter { Some(id) } else { None }
}

impl Select<'_> {
    /// The words of a `.param` variable.
    pub(crate) fn parameter_words(&mut self, id: VariableId) -> Result<Vec<Value>, Unsupported> {
        if let Some(words) = self.parameters.get(&id) {
            return Ok(words.clone());
        }
        let variable = &self.frame.module.variables[id];
        let bytes = variable.size_bytes().and_then(|bytes| u32::try_from(bytes).ok()).filter(|_| variable.count.is_none());
        let Some(bytes) = bytes else {
            let name = self.frame.module.name(variable.name);
            return Err(Unsupported::new(format!("accesses to the parameter {name}")));
        };
        let words: Vec<Value> = (0..bytes.div_ceil(WORD)).map(|_| self.b.value(Class::R)).collect();
        self.parameters.insert(id, words.clone());
        Ok(words)
    }

    /// The variable that an access with `.param` means, if it is a value and not memory.
    pub(crate) fn parameter_place(&mut self, operand: ast::Operand, bytes: u32) -> Result<Option<ParameterPlace>, Unsupported> {
        let ast::Operand::Address(position) = operand else { return Ok(None) };
        let address = self.frame.body.addresses[position as usize];
        let AddressBase::Variable(id) = address.base else { return Ok(None) };
        let variable = &self.frame.module.variables[id];
        if variable.space != StateSpace::Param || self.homes.get(id).is_some() || self.parameter_slots.contains_key(&id) {
            return Ok(None);
        }
        let words = self.parameter_words(id)?;
        let offset = u32::try_from(address.offset).ok().filter(|offset| offset + bytes <= WORD * words.len() as u32);
        match offset {
            Some(offset) if offset % bytes.min(WORD) == 0 => Ok(Some(ParameterPlace { words, offset })),
            _ => Err(Unsupported::new("an access to a parameter that is outside of it or not aligned")),
        }
    }

    /// Reads a parameter, as registers in the order of memory; narrow values are extended.
    pub(crate) fn read_parameter(&mut self, place: &ParameterPlace, bytes: u32, is_signed: bool) -> Vec<Operand> {
        let first = (place.offset / WORD) as usize;
        if bytes >= WORD {
            return (first..first + (bytes / WORD) as usize).map(|word| self.b.whole(place.words[word])).collect();
        }
        let word = self.b.whole(place.words[first]);
        vec![self.narrow_field(word, place.offset % WORD, bytes, is_signed)]
    }

    /// One or two bytes of a word, extended.
    fn narrow_field(&mut self, word: Operand, at: u32, bytes: u32, is_signed: bool) -> Operand {
        let last = at + bytes - 1;
        let fill = if is_signed { last | 8 } else { 7 };
        let second = if bytes == 1 { fill } else { last };
        let selector = at | second << 4 | fill << 8 | fill << 12;
        self.b.define(Class::R, "PRMT $, {}, {}, RZ", &[word, selector.into()])
    }

    /// Writes a parameter.
    pub(crate) fn write_parameter(&mut self, place: &ParameterPlace, bytes: u32, value: Operand) {
        let first = (place.offset / WORD) as usize;
        if bytes >= WORD {
            for number in 0..(bytes / WORD) as usize {
                let word = self.register_of(value, number as u8);
                self.assign_word(place.words[first + number], word);
            }
            return;
        }
        let old = self.b.whole(place.words[first]);
        let new = self.with_field(old, value, place.offset % WORD, bytes);
        self.assign_word(place.words[first], new);
    }

    /// A word with one or two of its bytes replaced by the lowest of another.
    fn with_field(&mut self, word: Operand, field: Operand, at: u32, bytes: u32) -> Operand {
        let selector = (0..WORD).fold(0_u32, |selector, byte| {
            let source = if (at..at + bytes).contains(&byte) { 4 + byte - at } else { byte };
            selector | source << (4 * byte)
        });
        let field = self.in_register(field);
        self.b.define(Class::R, "PRMT $, {}, {}, {}", &[word, selector.into(), field])
    }

    pub(crate) fn assign_word(&mut self, word: Value, value: Operand) {
        let value = if value.value().is_some() && value.signs.is_empty() { value } else { self.in_register(value) };
        self.b.assign(word, value);
    }

    /// Stores words to local memory; only the bytes that count are written.
    pub(crate) fn store_local(&mut self, words: &[Operand], bytes: u32, base: Operand, offset: i64) {
        for (at, size) in pieces(bytes, offset) {
            let word = self.in_register(words[(at / WORD) as usize]);
            let value = if at % WORD == 0 { word } else { self.narrow_field(word, at % WORD, size, false) };
            let modifier = size_modifier(size);
            self.b.emit(&format!("STL{modifier} [{{}}+{{}}], {{}}"), &[base, (offset + i64::from(at)).into(), value]);
            self.b.describe(MemoryAccess::weak(Space::Local, size as u8));
        }
    }

    /// Loads words from local memory. `place` makes the operand for an offset from where they start.
    pub(crate) fn load_local(&mut self, bytes: u32, base: Operand, offset: i64, place: impl Fn(i64) -> Operand) -> Vec<Operand> {
        let mut words: Vec<Operand> = Vec::new();
        for (at, size) in pieces(bytes, offset) {
            let modifier = size_modifier(size);
            let value = self.b.define(Class::R, &format!("LDL{modifier} $, [{{}}+{{}}]"), &[base, place(offset + i64::from(at))]);
            self.b.describe(MemoryAccess::weak(Space::Local, size as u8));
            match words.last_mut() {
                Some(last) if at % WORD != 0 => {
                    let old = *last;
                    let joined = self.with_field(old, value, at % WORD, size);
                    words.pop();
                    words.push(joined);
                }
                _ => words.push(value),
            }
        }
        words
    }

    /// The words of an operand of a type.
    pub(crate) fn operand_words(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<Vec<Operand>, Unsupported> {
        let value = self.any(operand, ty)?;
        Ok((0..(ty.bytes().div_ceil(WORD)) as u8).map(|word| self.register_of(value, word)).collect())
    }
}

/// Naturally aligned parts of some bytes that start at an offset: where each starts among the bytes, and its size.
fn pieces(bytes: u32, offset: i64) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < bytes {
        let fits = |size: u32| (offset + i64::from(at)) % i64::from(size) == 0 && at % size == 0 && at + size <= bytes;
        let size = if fits(4) {
            4
        } else if fits(2) {
            2
        } else {
            1
        };
        found.push((at, size));
        at += size;
    }
    found
}

fn size_modifier(size: u32) -> &'static str {
    match size {
        1 => ".U8",
        2 => ".U16",
        _ => "",
    }
}

/// `ld.param` in a function, or of a call's parameters: the registers in the order of memory.
pub(crate) fn load(select: &mut Select<'_>, ptx: &Ptx<'_>, bytes: u32, is_signed: bool) -> Result<Option<Vec<Operand>>, Unsupported> {
    let Some(place) = select.parameter_place(ptx.operand(1), bytes)? else { return Ok(None) };
    Ok(Some(select.read_parameter(&place, bytes, is_signed)))
}
