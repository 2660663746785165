//! A small interpreter of selected code, before register allocation: integer and logic instructions.
//!
//! It is written from the known behaviour of the machine, independently of selection, so that a wrong carry, a wrong truth table or a lost
//! half of a value leads to a wrong result.

use oriole_ir::{Function, Inst, Op, Opcode, Operand, OperandKind, Part, Pseudo, RegFile, Role, Signs};
use oriole_sem::format::{BF16, F16, F32, F64};
use oriole_sem::{Comparison, compare};
use rustc_hash::FxHashMap;

/// Runs a function on the words of constant bank 0, by byte offset. Returns the words that it stores to memory, in order.
pub fn run(function: &Function, constants: &FxHashMap<u32, u32>) -> Vec<u32> {
    let mut machine = Machine { function, constants, words: FxHashMap::default(), stored: Vec::new() };
    let mut block = function.entry();
    for _ in 0..10_000 {
        match machine.block(block) {
            Some(next) => block = next,
            None => return machine.stored,
        }
    }
    panic!("the code does not end");
}

/// The state of the interpreter.
struct Machine<'a> {
    function: &'a Function,
    constants: &'a FxHashMap<u32, u32>,
    /// The registers of each value, by value and register number; a predicate is 0 or 1.
    words: FxHashMap<(oriole_ir::Value, u8), u32>,
    /// The words stored so far.
    stored: Vec<u32>,
}

impl Machine<'_> {
    /// Executes a block. Returns the next block, or `None` at the end.
    fn block(&mut self, block: oriole_ir::Block) -> Option<oriole_ir::Block> {
        for &inst in &self.function.blocks[block].insts {
            let data = &self.function.insts[inst];
            if let Some(guard) = data.guard
                && (self.predicate(Operand::new(guard.kind)) == guard.negated)
            {
                continue;
            }
            match data.op {
                Op::Machine(Opcode::EXIT) => return None,
                Op::Machine(Opcode::BRA) => {
                    let target = self.function.operands(inst).iter().find_map(|operand| match operand.kind {
                        OperandKind::Block(target) => Some(target),
                        _ => None,
                    });
                    return target;
                }
                Op::Machine(opcode) => self.instruction(inst, opcode),
                Op::Pseudo(Pseudo::Copy | Pseudo::Pack) => {
                    let sources: Vec<u32> = self.sources(inst).iter().flat_map(|&operand| self.all_words(operand)).collect();
                    let mut sources = sources.into_iter();
                    for &result in self.function.results(inst) {
                        for word in 0..count(result) {
                            self.set(result, word, sources.next().unwrap_or(0));
                        }
                    }
                }
                Op::Pseudo(other) => panic!("{} in selected code", other.mnemonic()),
            }
        }
        panic!("a block without end");
    }

    /// Returns the sources of an instruction, without tied operands.
    fn sources(&self, inst: Inst) -> Vec<Operand> {
        self.function.sources(inst).iter().copied().filter(|operand| !matches!(operand.role, Role::Tied(_))).collect()
    }

    fn set(&mut self, result: Operand, word: u8, value: u32) {
        match result.kind {
            OperandKind::Value(part) => {
                self.words.insert((part.value, part.first + word), value);
            }
            OperandKind::Zero(_) => {}
            _ => panic!("a result that is no value"),
        }
    }

    /// Returns a register of an operand without applying signs; a fixed pattern if it is undefined.
    fn raw(&self, operand: Operand, word: u8) -> u32 {
        match operand.kind {
            OperandKind::Value(Part { value, first, .. }) => self.words.get(&(value, first + word)).copied().unwrap_or(0xdead_beef),
            OperandKind::Zero(RegFile::General) => 0,
            OperandKind::Zero(_) => 1,
            OperandKind::Integer(number) => (number as u64 >> (32 * u32::from(word))) as u32,
            OperandKind::Constant { bank: 0, offset } => {
                self.constants.get(&(offset + 4 * u32::from(word))).copied().unwrap_or(0xdead_beef)
            }
            _ => panic!("an operand of a kind that is not interpreted"),
        }
    }

    fn all_words(&self, operand: Operand) -> Vec<u32> {
        assert!(operand.signs.is_empty(), "a copy with a sign");
        (0..count(operand)).map(|word| self.raw(operand, word)).collect()
    }

    /// Returns the first register of an operand with its signs applied.
    fn word(&self, operand: Operand) -> u32 {
        let mut value = self.raw(operand, 0);
        if operand.signs.has(Signs::ABSOLUTE) {
            value = (value as i32).unsigned_abs();
        }
        if operand.signs.has(Signs::INVERT) {
            value = !value;
        }
        if operand.signs.has(Signs::NEGATE) {
            value = value.wrapping_neg();
        }
        value
    }

    fn wide(&self, operand: Operand) -> u64 {
        assert!(operand.signs.is_empty(), "a pair with a sign");
        match operand.kind {
            OperandKind::Zero(_) => 0,
            _ => u64::from(self.raw(operand, 0)) | u64::from(self.raw(operand, 1)) << 32,
        }
    }

    fn predicate(&self, operand: Operand) -> bool {
        (self.raw(operand, 0) & 1 == 1) != operand.signs.has(Signs::NOT)
    }

    fn instruction(&mut self, inst: Inst, opcode: Opcode) {
        let modifiers: Vec<&str> = self.function.insts[inst].modifiers.iter().map(|symbol| symbol.spelling()).collect();
        let has = |name: &str| modifiers.contains(&name);
        let is_unsigned = has(".U32");
        let s = self.sources(inst);
        let results: Vec<Operand> = self.function.results(inst).to_vec();
        let mut values: Vec<u64> = Vec::new();
        match opcode.mnemonic() {
            "MOV" => values.push(self.word(s[0]).into()),
            "STG" => {
                let value = *s.last().unwrap();
                self.stored.push(self.word(value));
            }
            "ULDC" => values.push(0),
            "IADD3" => {
                let mut sum = 0_u64;
                for &operand in &s[..3] {
                    let negated = operand.signs.has(Signs::NEGATE);
                    assert!(!(negated && has(".X")), "a negated operand of an addition with carry");
                    // In an addition with carry-out the machine computes `-b` as `~b + 1`, which carries for `b = 0`.
                    let carries = results.iter().skip(1).any(|result| matches!(result.kind, OperandKind::Value(_)));
                    sum += if negated && carries { u64::from(!self.raw(operand, 0)) + 1 } else { self.word(operand).into() };
                }
                sum += s[3..].iter().map(|&carry| u64::from(self.predicate(carry))).sum::<u64>();
                values.extend([sum & 0xffff_ffff, u64::from(sum >> 32 != 0), u64::from(sum >> 33 != 0)]);
            }
            "IMAD" => self.multiply(&s, &has, &mut values),
            "LOP3" => {
                let result =
                    oriole_sem::bits::lop3(self.word(s[0]).into(), self.word(s[1]).into(), self.word(s[2]).into(), self.word(s[3]) as u8);
                let with = self.predicate(s[4]);
                let is_set = if has(".PAND") { result != 0 && with } else { result != 0 || with };
                if results.len() == 2 {
                    values.push(is_set.into());
                }
                values.push(result);
            }
            "SHF" => values.push(self.shift(&s, &has).into()),
            "PRMT" => {
                use oriole_sem::bits::Permute;
                let modes = [
                    (".F4E", Permute::Forward4),
                    (".B4E", Permute::Backward4),
                    (".RC8", Permute::Replicate8),
                    (".ECL", Permute::EdgeClampLeft),
                    (".ECR", Permute::EdgeClampRight),
                    (".RC16", Permute::Replicate16),
                ];
                let mode = modes.into_iter().find(|(name, _)| has(name)).map_or(Permute::Generic, |(_, mode)| mode);
                let [a, bytes, b] = [0, 1, 2].map(|number| u64::from(self.word(s[number])));
                values.push(oriole_sem::bits::prmt(a, b, bytes, mode));
            }
            "SEL" => values.push(self.word(if self.predicate(s[2]) { s[0] } else { s[1] }).into()),
            "ISETP" => {
                let kind = oriole_sem::Int { bits: 32, signed: !is_unsigned };
                let order = kind.value(self.word(s[0]).into()).cmp(&kind.value(self.word(s[1]).into()));
                let relation = relation(modifiers[0]);
                // With `.EX`, the result for the lower words decides if the upper words are equal.
                let equal_is = has(".EX").then(|| self.predicate(s[3]));
                let mut holds = relation.holds(Some(order));
                if let (Some(below), true) = (equal_is, order.is_eq()) {
                    holds = below;
                }
                values.push(combine(&modifiers, holds, self.predicate(s[2])).into());
            }
            "FSETP" | "DSETP" | "HSETP2" | "HSET2" => self.compare_floats(opcode.mnemonic(), &s, &modifiers, &mut values),
            "PLOP3" => {
                let index = s[..3].iter().fold(0_u32, |index, &operand| {
                    let is_sign = operand.suffixes().any(|suffix| suffix.spelling() == ".SIGN");
                    let bit = if is_sign { self.word(operand) >> 31 == 1 } else { self.predicate(operand) };
                    index << 1 | u32::from(bit)
                });
                values.extend([self.word(s[3]) >> index & 1, self.word(s[4]) >> index & 1].map(u64::from));
            }
            "FLO" => {
                let word = self.word(s[0]);
                let kind = oriole_sem::Int { bits: 32, signed: !is_unsigned };
                values.push(kind.bfind(word.into(), has(".SH")));
            }
            "POPC" => values.push(self.word(s[0]).count_ones().into()),
            "BREV" => values.push(self.word(s[0]).reverse_bits().into()),
            "SGXT" => {
                let kind = oriole_sem::Int { bits: 32, signed: !is_unsigned };
                values.push(kind.szext(self.word(s[0]).into(), self.word(s[1]).into(), !has(".W")));
            }
            "BMSK" => values.push(oriole_sem::bits::bmsk(self.word(s[0]).into(), self.word(s[1]).into(), !has(".W"))),
            "FADD" => {
                assert!(modifiers.is_empty() && s.iter().all(|operand| operand.signs.is_empty()), "a sum in another mode");
                values.push(oriole_sem::float::add(F32, self.word(s[0]).into(), self.word(s[1]).into(), oriole_sem::Mode::RN));
            }
            "IABS" => values.push((self.word(s[0]) as i32).unsigned_abs().into()),
            "IMNMX" | "VIMNMX" => self.extremum(&s, &modifiers, results.len(), &mut values),
            "VIADD" if has(".16x2") => {
                let (a, b) = (self.word(s[0]), self.word(s[1]));
                values.push((a.wrapping_add(b) & 0xffff | (a & 0xffff_0000).wrapping_add(b & 0xffff_0000)).into());
            }
            "VIADD" => {
                let (a, b) = (i64::from(self.raw(s[0], 0) as i32), i64::from(self.raw(s[1], 0) as i32));
                let sum = if s[1].signs.has(Signs::NEGATE) { a - b } else { a + b };
                assert!(has(".ISAT"), "an addition that does not saturate");
                values.push((sum.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as u32).into());
            }
            "VABSDIFF" => {
                let kind = oriole_sem::Int { bits: 32, signed: !is_unsigned };
                values.push(kind.sad(self.word(s[0]).into(), self.word(s[1]).into(), self.word(s[2]).into()));
            }
            "IDP" => {
                let types: Vec<&&str> = modifiers.iter().filter(|name| name.ends_with('8') || name.ends_with("16")).collect();
                let int = |name: &str| oriole_sem::Int { bits: 32, signed: name.contains('S') };
                let (a_type, b_type) = (int(types[0]), int(types[1]));
                let [a, b, c] = [0, 1, 2].map(|number| u64::from(self.word(s[number])));
                let is_4a = modifiers.iter().any(|name| name.contains("4A"));
                let is_high = modifiers.iter().any(|name| name.contains("HI"));
                values.push(if is_4a { a_type.dp4a(b_type, a, b, c) } else { a_type.dp2a(b_type, a, b, c, is_high) });
            }
            other => panic!("{other} is not interpreted"),
        }
        for (result, value) in results.into_iter().zip(values) {
            for word in 0..count(result) {
                self.set(result, word, (value >> (32 * u32::from(word))) as u32);
            }
        }
    }

    fn multiply(&self, s: &[Operand], has: &dyn Fn(&str) -> bool, values: &mut Vec<u64>) {
        let extend = |word: u32| if has(".U32") { i128::from(word) } else { i128::from(word as i32) };
        let product = extend(self.word(s[0])).wrapping_mul(extend(self.word(s[1])));
        let carry = if has(".X") { i128::from(self.predicate(s[3])) } else { 0 };
        if has(".WIDE") {
            let sum = u128::from(product as u64) + u128::from(self.wide(s[2])) + carry as u128;
            values.extend([sum as u64, u64::from(sum >> 64 != 0)]);
        } else if has(".HI") {
            assert!(matches!(s[2].kind, OperandKind::Zero(_)), "an upper half with an addend");
            values.push((product >> 32) as u32 as u64);
        } else {
            values.push((product as u32).wrapping_add(self.word(s[2])).into());
        }
    }

    fn shift(&self, s: &[Operand], has: &dyn Fn(&str) -> bool) -> u32 {
        let is_wide = has(".U64") || has(".S64");
        let limit = if is_wide { 64 } else { 32 };
        let amount = self.word(s[1]);
        let amount = if has(".W") { amount % limit } else { amount.min(limit) };
        let both = u64::from(self.word(s[0])) | u64::from(self.word(s[2])) << 32;
        let shifted = if has(".L") {
            (u128::from(both) << amount) as u64
        } else if has(".S64") || has(".S32") {
            (i128::from(both as i64) >> amount) as u64
        } else {
            (u128::from(both) >> amount) as u64
        };
        if has(".HI") { (shifted >> 32) as u32 } else { shifted as u32 }
    }

    fn compare_floats(&self, mnemonic: &str, s: &[Operand], modifiers: &[&str], values: &mut Vec<u64>) {
        let flush = modifiers.contains(&".FTZ");
        let relation = modifiers.iter().copied().filter(|name| *name != ".BF" && *name != ".BF16_V2").map(relation).next().unwrap();
        let with = self.predicate(s[2]);
        let answer = |format, a, b| combine(modifiers, compare::float(format, relation, a, b, flush), with);
        let half = if modifiers.contains(&".BF16_V2") { BF16 } else { F16 };
        let halves = |operand: Operand| {
            let word = u64::from(self.word(operand));
            let is_low = operand.suffixes().any(|suffix| suffix.spelling() == ".H0_H0");
            [word & 0xffff, if is_low { word & 0xffff } else { word >> 16 }]
        };
        match mnemonic {
            "FSETP" => values.push(answer(F32, self.word(s[0]).into(), self.word(s[1]).into()).into()),
            "DSETP" => values.push(answer(F64, self.wide(s[0]), self.wide(s[1])).into()),
            _ => {
                let (a, b) = (halves(s[0]), halves(s[1]));
                let answers = [0, 1].map(|number| answer(half, a[number], b[number]));
                if mnemonic == "HSETP2" {
                    values.extend(answers.map(u64::from));
                    return;
                }
                let one: u64 = match (modifiers.contains(&".BF"), half == F16) {
                    (true, true) => 0x3c00,
                    (true, false) => 0x3f80,
                    _ => 0xffff,
                };
                values.push((u64::from(answers[0]) | u64::from(answers[1]) << 16) * one);
            }
        }
    }

    fn extremum(&self, s: &[Operand], modifiers: &[&str], result_count: usize, values: &mut Vec<u64>) {
        let is_min = self.predicate(s[2]);
        let relu = modifiers.contains(&".RELU");
        let is_unsigned = modifiers.iter().any(|name| name.starts_with(".U"));
        let has_halves = modifiers.iter().any(|name| name.ends_with("16x2"));
        let kind = oriole_sem::Int { bits: if has_halves { 16 } else { 32 }, signed: !is_unsigned };
        let chosen = |a: u64, b: u64| {
            let chosen = if is_min { kind.min(a, b) } else { kind.max(a, b) };
            if relu { kind.max(chosen, 0) } else { chosen }
        };
        let (a, b) = (u64::from(self.word(s[0])), u64::from(self.word(s[1])));
        values.push(if has_halves { chosen(a, b) | chosen(a >> 16, b >> 16) << 16 } else { chosen(a, b) });
        values.resize(result_count, 0);
    }
}

fn count(operand: Operand) -> u8 {
    operand.part().map_or(1, |part| part.count)
}

fn relation(name: &str) -> Comparison {
    match name {
        ".EQ" => Comparison::Eq,
        ".NE" => Comparison::Ne,
        ".LT" => Comparison::Lt,
        ".LE" => Comparison::Le,
        ".GT" => Comparison::Gt,
        ".GE" => Comparison::Ge,
        ".EQU" => Comparison::Equ,
        ".NEU" => Comparison::Neu,
        ".LTU" => Comparison::Ltu,
        ".LEU" => Comparison::Leu,
        ".GTU" => Comparison::Gtu,
        ".GEU" => Comparison::Geu,
        ".NUM" => Comparison::Num,
        ".NAN" => Comparison::Nan,
        other => panic!("{other} is no relation"),
    }
}

fn combine(modifiers: &[&str], holds: bool, with: bool) -> bool {
    if modifiers.contains(&".OR") {
        holds || with
    } else if modifiers.contains(&".XOR") {
        holds != with
    } else {
        holds && with
    }
}
