//! `.param` variables of device functions and calls, which are kept in registers, not in memory.
//!
//! Each 32-bit word of such a variable is a variable of its own. `st.param` and `ld.param` at constant offsets assign and read these
//! words, and SSA construction turns them into plain moves. Of a large variable only the words that the function accesses exist, because
//! storing or loading the others would move undefined values. Only a parameter whose address is taken lives in memory: it is stored into
//! the frame at function entry.
//!
//! Example: for `.param .align 8 .b8 p[16]`, `st.param.b64 [p+8], %rd1` assigns words 2 and 3 of `p`, and `ld.param.b32 %r1, [p+12]` reads
//! word 3.

use std::rc::Rc;

use oriole_ir::{Class, MemoryAccess, Operand, RegFile, Space, Value};
use oriole_ptx::ast::{self, AddressBase, RegisterId, VariableId};
use oriole_ptx::types::{ScalarType, StateSpace};

use crate::context::Select;
use crate::error::Unsupported;
use crate::parameter_words::{WORD, Words};
use crate::ptx::Ptx;

/// A `.param` variable, and the byte offset at which an access starts; the offset may be outside of the variable.
pub(crate) struct ParameterPlace {
    words: Rc<Words>,
    offset: i64,
}

impl ParameterPlace {
    /// Returns the number of the word that contains byte `byte` of the access, and the position of the byte in that word.
    fn locate(&self, byte: u32) -> (i64, u32) {
        let at = self.offset.saturating_add(i64::from(byte));
        (at.div_euclid(i64::from(WORD)), at.rem_euclid(i64::from(WORD)) as u32)
    }

    /// Returns the word with a number, if it exists.
    fn word(&self, number: i64) -> Option<Value> {
        u32::try_from(number).ok().and_then(|number| self.words.get(number))
    }
}

impl Select<'_> {
    /// Returns the words of a `.param` variable. Creates them at the first use.
    pub(crate) fn parameter_words(&mut self, id: VariableId) -> Result<Rc<Words>, Unsupported> {
        if let Some(words) = self.parameters.get(&id) {
            return Ok(words.clone());
        }
        let variable = &self.frame.module.variables[id];
        let name = self.frame.module.name(variable.name);
        let bytes = variable.size_bytes().and_then(|bytes| u32::try_from(bytes).ok()).filter(|_| variable.count.is_none());
        let Some(bytes) = bytes else {
            return Err(Unsupported::new(format!("accesses to the parameter {name}")));
        };
        let Some(numbers) = self.touched_words.of_variable(id, bytes) else {
            let feature = format!("the parameter {name} of {bytes} bytes, which is passed on or whose address is taken,");
            return Err(Unsupported::new(feature));
        };
        let words = Rc::new(Words(numbers.into_iter().map(|number| (number, self.b.value(Class::R))).collect()));
        self.parameters.insert(id, words.clone());
        Ok(words)
    }

    /// Returns the variable and offset that a `.param` access refers to; `None` if the variable is in memory.
    ///
    /// As in ptxas, an access may extend beyond the variable: bytes outside read as zero, and writes to them have no effect.
    pub(crate) fn parameter_place(&mut self, operand: ast::Operand) -> Result<Option<ParameterPlace>, Unsupported> {
        let ast::Operand::Address(position) = operand else { return Ok(None) };
        let address = self.frame.body.addresses[position as usize];
        let AddressBase::Variable(id) = address.base else { return Ok(None) };
        let variable = &self.frame.module.variables[id];
        let is_variadic = self.variadic_parameter.is_some_and(|(open, _)| open == id);
        if variable.space != StateSpace::Param || self.variables.get(id).is_some() || self.parameter_slots.contains_key(&id) || is_variadic
        {
            return Ok(None);
        }
        let words = self.parameter_words(id)?;
        Ok(Some(ParameterPlace { words, offset: address.offset }))
    }

    /// Reads `bytes` bytes of a parameter, as registers in memory order; a value narrower than a word is extended.
    pub(crate) fn read_parameter(&mut self, place: &ParameterPlace, bytes: u32, is_signed: bool) -> Vec<Operand> {
        if bytes >= WORD {
            return (0..bytes / WORD).map(|word| self.read_word(place, WORD * word)).collect();
        }
        let (number, at) = place.locate(0);
        let (word, at) = if at + bytes <= WORD { (self.word_or_zero(place, number), at) } else { (self.read_word(place, 0), 0) };
        vec![self.narrow_field(word, at, bytes, is_signed)]
    }

    /// Reads four bytes of a parameter that may start at any byte.
    fn read_word(&mut self, place: &ParameterPlace, byte: u32) -> Operand {
        let (number, at) = place.locate(byte);
        let low = self.word_or_zero(place, number);
        if at == 0 {
            return low;
        }
        let high = self.word_or_zero(place, number + 1);
        let selector = (0..WORD).fold(0, |selector, byte| selector | (at + byte) << (4 * byte));
        self.b.define(Class::R, "PRMT $, {}, {}, {}", &[low, selector.into(), high])
    }

    /// Returns the word with a number; a register with zero if the word does not exist.
    fn word_or_zero(&mut self, place: &ParameterPlace, number: i64) -> Operand {
        match place.word(number) {
            Some(word) => self.b.whole(word),
            None => self.in_register(Operand::RZ),
        }
    }

    /// Extracts one or two bytes of a word and extends them to 32 bits.
    fn narrow_field(&mut self, word: Operand, at: u32, bytes: u32, is_signed: bool) -> Operand {
        let last = at + bytes - 1;
        let fill = if is_signed { last | 8 } else { 7 };
        let second = if bytes == 1 { fill } else { last };
        let selector = at | second << 4 | fill << 8 | fill << 12;
        self.b.define(Class::R, "PRMT $, {}, {}, RZ", &[word, selector.into()])
    }

    /// Writes `bytes` bytes of a value to a parameter.
    pub(crate) fn write_parameter(&mut self, place: &ParameterPlace, bytes: u32, value: Operand) {
        for start in (0..bytes).step_by(WORD as usize) {
            let word = self.register_of(value, (start / WORD) as u8);
            let count = (bytes - start).min(WORD);
            let (number, at) = place.locate(start);
            let fitting = count.min(WORD - at);
            self.write_field(place.word(number), word, 0, at, fitting);
            if fitting < count {
                self.write_field(place.word(number + 1), word, fitting, 0, count - fitting);
            }
        }
    }

    /// Replaces bytes of a word, starting at `at`, by bytes of `field`, starting at `first`; does nothing if the word does not exist.
    fn write_field(&mut self, word: Option<Value>, field: Operand, first: u32, at: u32, bytes: u32) {
        let Some(word) = word else { return };
        if bytes == WORD {
            return self.assign_word(word, field);
        }
        let old = self.b.whole(word);
        let new = self.with_field(old, field, first, at, bytes);
        self.assign_word(word, new);
    }

    /// Returns `word` with some bytes, starting at `at`, replaced by those of `field`, starting at `first`.
    fn with_field(&mut self, word: Operand, field: Operand, first: u32, at: u32, bytes: u32) -> Operand {
        let selector = (0..WORD).fold(0_u32, |selector, byte| {
            let source = if (at..at + bytes).contains(&byte) { WORD + first + byte - at } else { byte };
            selector | source << (4 * byte)
        });
        let field = self.in_register(field);
        self.b.define(Class::R, "PRMT $, {}, {}, {}", &[word, selector.into(), field])
    }

    /// Assigns a value to a word; an immediate is moved to a register first.
    pub(crate) fn assign_word(&mut self, word: Value, value: Operand) {
        let value = if value.value().is_some() && value.signs.is_empty() { value } else { self.in_register(value) };
        self.b.assign(word, value);
    }

    /// Emits stores of words of an object to local memory at `base + offset`. The object has `bytes` bytes; nothing beyond them is
    /// written.
    pub(crate) fn store_local(&mut self, words: &[(u32, Operand)], bytes: u32, base: Operand, offset: i64) {
        for &(number, word) in words {
            let word = self.in_register(word);
            for (at, size) in pieces(number, bytes, offset) {
                let value = if at % WORD == 0 { word } else { self.narrow_field(word, at % WORD, size, false) };
                let modifier = size_modifier(size);
                self.b.emit(&format!("STL{modifier} [{{}}+{{}}], {{}}"), &[base, (offset + i64::from(at)).into(), value]);
                self.b.describe(MemoryAccess::weak(Space::Local, size as u8));
            }
        }
    }

    /// Emits loads of words of an object of `bytes` bytes from local memory. `place` converts an offset into the operand added to `base`.
    pub(crate) fn load_local(
        &mut self,
        numbers: &[u32],
        bytes: u32,
        base: Operand,
        offset: i64,
        place: impl Fn(i64) -> Operand,
    ) -> Vec<Operand> {
        let mut words: Vec<Operand> = Vec::new();
        for &number in numbers {
            let mut word = None;
            for (at, size) in pieces(number, bytes, offset) {
                let modifier = size_modifier(size);
                let value = self.b.define(Class::R, &format!("LDL{modifier} $, [{{}}+{{}}]"), &[base, place(offset + i64::from(at))]);
                self.b.describe(MemoryAccess::weak(Space::Local, size as u8));
                word = Some(match word {
                    Some(old) => self.with_field(old, value, 0, at % WORD, size),
                    None => value,
                });
            }
            words.push(word.unwrap_or(Operand::RZ));
        }
        words
    }

    /// Returns the words of an operand as a call passes them; a predicate is passed as 0 or 1.
    pub(crate) fn operand_words(&mut self, operand: ast::Operand, ty: ScalarType) -> Result<Vec<Operand>, Unsupported> {
        if ty == ScalarType::Pred {
            let predicate = self.predicate(operand)?;
            return Ok(vec![self.select_by_predicate(predicate, Operand::from(1), Operand::RZ)]);
        }
        let value = self.source_of_any_width(operand, ty)?;
        Ok((0..(ty.bytes().div_ceil(WORD)) as u8).map(|word| self.register_of(value, word)).collect())
    }

    /// Returns the words of a register as a call passes them; the elements of a vector are packed as in memory.
    pub(crate) fn register_words(&mut self, register: RegisterId) -> Result<Vec<Operand>, Unsupported> {
        let declaration = self.frame.body.declaration_of(register);
        let (ty, lanes) = (declaration.ty, u32::from(declaration.lanes.max(1)));
        if lanes == 1 {
            return self.operand_words(ast::Operand::Register(register), ty);
        }
        let elements = self.elements(ast::Operand::Register(register));
        let value = self.joined(&elements, ty)?;
        Ok((0..(lanes * ty.bytes()).div_ceil(WORD) as u8).map(|word| self.register_of(value, word)).collect())
    }

    /// Assigns the words that a call passed to a register.
    pub(crate) fn assign_register_words(&mut self, register: RegisterId, words: &[Operand]) {
        let declaration = self.frame.body.declaration_of(register);
        let (ty, lanes) = (declaration.ty, declaration.lanes.max(1));
        for lane in 0..lanes {
            let value = match (ty, lanes) {
                (ScalarType::Pred, _) => self.compare_words("NE", false, words[0], Operand::RZ),
                // The upper bits of narrow registers are unspecified.
                (_, 1) if words.len() == 1 => words[0],
                _ => self.element_of_words(words, ty.bytes(), u32::from(lane) * ty.bytes()),
            };
            let variable = self.variable(register, lane);
            self.b.assign(variable, value);
        }
    }

    /// Extracts an element of `bytes` bytes that starts at byte `at` of the words.
    fn element_of_words(&mut self, words: &[Operand], bytes: u32, at: u32) -> Operand {
        let first = (at / WORD) as usize;
        if bytes < WORD {
            return self.narrow_field(words[first], at % WORD, bytes, false);
        }
        match words[first..][..(bytes / WORD) as usize] {
            [word] => word,
            ref parts => self.b.pack(Class::new(RegFile::General, parts.len() as u8), parts),
        }
    }
}

/// Splits word `number` of an object into naturally aligned parts: start of each part in the object, and its size, in bytes. The object
/// starts at `offset` from an aligned base.
fn pieces(number: u32, bytes: u32, offset: i64) -> Vec<(u32, u32)> {
    let mut found = Vec::new();
    let (mut at, end) = (number * WORD, bytes.min(number.saturating_add(1).saturating_mul(WORD)));
    while at < end {
        let fits = |size: u32| (offset + i64::from(at)) % i64::from(size) == 0 && at % size == 0 && end - at >= size;
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

/// Returns the modifier of a local load or store of this size in bytes.
fn size_modifier(size: u32) -> &'static str {
    match size {
        1 => ".U8",
        2 => ".U16",
        _ => "",
    }
}

/// Selects `ld.param` of a variable kept in registers; returns the registers in memory order, or `None` if the variable is in memory.
pub(crate) fn load(select: &mut Select<'_>, ptx: &Ptx<'_>, bytes: u32, is_signed: bool) -> Result<Option<Vec<Operand>>, Unsupported> {
    let Some(place) = select.parameter_place(ptx.operand(1))? else { return Ok(None) };
    Ok(Some(select.read_parameter(&place, bytes, is_signed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected parts are worked out by hand: each starts at a multiple of its size, in the object and in memory, and ends inside the
    /// object.
    #[test]
    fn parts_of_words_are_aligned() {
        assert_eq!(pieces(0, 8, 0), [(0, 4)]);
        assert_eq!(pieces(1, 8, 4), [(4, 4)]);
        assert_eq!(pieces(0, 4, 2), [(0, 2), (2, 2)]);
        assert_eq!(pieces(1, 8, 6), [(4, 2), (6, 2)]);
        assert_eq!(pieces(0, 4, 1), [(0, 1), (1, 1), (2, 1), (3, 1)]);
        assert_eq!(pieces(0, 3, 0), [(0, 2), (2, 1)]);
        assert_eq!(pieces(1, 7, 8), [(4, 2), (6, 1)]);
        assert_eq!(pieces(1, 4, 0), []);
    }
}
