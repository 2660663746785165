//! Parser of the text form, line by line.

mod cursor;
mod operand;

use std::fmt;

use oriole_isa::{Opcode, Symbols};
use oriole_support::{BitSet, Index, IndexVec};

use super::{CONTRACT, ORDERS, SCOPES, SPACES, member};
use crate::function::{Function, FunctionKind};
use crate::ids::{Block, Inst, Location, Value};
use crate::instruction::{Op, Pseudo};
use crate::memory::{MemoryAccess, Order, Scope};
use crate::operand::{Class, Guard, Operand, OperandKind};
use crate::template::read_modifiers;
use cursor::{Cursor, Read};

/// A syntax error in the text form.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ParseError {
    /// Line number, counted from 1.
    pub line: usize,
    /// Description of the error.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Parses all functions of a text. Skips empty lines and comments.
pub fn parse(text: &str) -> Result<Vec<Function>, ParseError> {
    let mut functions = Vec::new();
    let mut open: Option<FunctionParser> = None;
    let mut last = 0;
    for (number, line) in text.lines().enumerate() {
        let at = |message: String| ParseError { line: number + 1, message };
        let (code, location) = split_comment(line);
        last = number + 1;
        if code.is_empty() {
            continue;
        }
        match &mut open {
            None => open = Some(FunctionParser::start(code).map_err(at)?),
            Some(reader) if code == "}" => {
                functions.push(reader.finish().map_err(at)?);
                open = None;
            }
            Some(reader) => reader.line(code, location).map_err(at)?,
        }
    }
    match open {
        Some(reader) => Err(ParseError { line: last, message: format!("@{} has no end", reader.function.name) }),
        None => Ok(functions),
    }
}

/// Splits a line into code and the source position that its comment contains.
fn split_comment(line: &str) -> (&str, Location) {
    let (code, comment) = line.split_once(';').unwrap_or((line, ""));
    let place = comment.split(';').next().and_then(|place| place.trim().strip_prefix('@')?.split_once(':'));
    let location = place.and_then(|(statement, line)| Some(Location { statement: statement.parse().ok()?, line: line.parse().ok()? }));
    (code.trim(), location.unwrap_or_default())
}

/// Upper limit of value and block numbers; each number needs an entry in a dense array.
const NUMBER_LIMIT: usize = 1 << 26;

/// The state of parsing one function.
struct FunctionParser {
    function: Function,
    /// The current block; `None` before the first label.
    block: Option<Block>,
    /// The blocks that have appeared.
    placed: BitSet<Block>,
    /// The class of each value; `None` until the definition or declaration has been read.
    classes: IndexVec<Value, Option<Class>>,
}

impl FunctionParser {
    /// Parses `func kernel @name ssa frame 16 align 8 {`.
    fn start(line: &str) -> Read<FunctionParser> {
        let mut words = line.split_whitespace();
        let (Some("func"), kind, name) = (words.next(), words.next(), words.next()) else {
            return Err(format!("a function starts with `func`, not with `{line}`"));
        };
        let kind = match kind {
            Some("kernel") => FunctionKind::Kernel,
            Some("device") => FunctionKind::Device,
            _ => return Err("a function is a kernel or a device function".to_owned()),
        };
        let Some(name) = name.and_then(|name| name.strip_prefix('@')) else {
            return Err("the name of a function starts with @".to_owned());
        };
        let mut function = Function::new(name, kind);
        loop {
            let number = |word: Option<&str>| word.and_then(|word| word.parse().ok()).ok_or("a number is missing");
            match words.next() {
                Some("ssa") => function.is_ssa = true,
                Some("frame") => function.frame_bytes = number(words.next())?,
                Some("align") => function.frame_align = number(words.next())?,
                Some("{") => break,
                Some(word) => return Err(format!("`{word}` says nothing about a function")),
                None => return Err("a function's blocks follow after {".to_owned()),
            }
        }
        Ok(FunctionParser { function, block: None, placed: BitSet::new(0), classes: IndexVec::new() })
    }

    /// Parses a line of a function.
    fn line(&mut self, line: &str, location: Location) -> Read<()> {
        if let Some(symbol) = line.strip_prefix("symbol ") {
            self.function.symbols.push(symbol.trim().to_owned());
            return Ok(());
        }
        if let Some(declared) = line.strip_prefix("value ") {
            let mut cursor = Cursor::new(declared.trim());
            self.declared_value(&mut cursor)?;
            return cursor.end();
        }
        if let Some(label) = line.strip_suffix(':') {
            let (name, is_marked) = label.strip_suffix(" nounroll").map_or((label, false), |name| (name, true));
            let block = self.block_called(name)?;
            self.function.blocks[block].no_unroll = is_marked;
            if !self.placed.insert(block) {
                return Err(format!("{label} is there twice"));
            }
            self.function.layout.push(block);
            self.block = Some(block);
            return Ok(());
        }
        let inst = self.instruction(line)?;
        self.function.insts[inst].location = location;
        let Some(block) = self.block else { return Err("an instruction before the first block".to_owned()) };
        self.function.blocks[block].insts.push(inst);
        Ok(())
    }

    /// Fills in the widths of values that were used before their class was known, and returns the function.
    fn finish(&mut self) -> Read<Function> {
        for (value, class) in self.classes.iter_enumerated() {
            self.function.values[value] = class.unwrap_or(Class::R);
        }
        for inst in self.function.insts.indices() {
            for number in 0..self.function.operands(inst).len() {
                let kind = self.function.operands(inst)[number].kind;
                self.function.operands_mut(inst)[number].kind = self.completed(kind)?;
            }
            if let Some(guard) = self.function.insts[inst].guard {
                let kind = self.completed(guard.kind)?;
                self.function.insts[inst].guard = Some(Guard { kind, ..guard });
            }
        }
        Ok(std::mem::replace(&mut self.function, Function::new("", FunctionKind::Device)))
    }

    /// Completes an operand. A whole value is parsed with 0 registers, until its class is known.
    fn completed(&self, kind: OperandKind) -> Read<OperandKind> {
        let OperandKind::Value(mut part) = kind else { return Ok(kind) };
        let Some(class) = self.classes[part.value] else {
            return Err(format!("{:?} is never written: a line `value` gives its class", part.value));
        };
        if part.count == 0 {
            part.count = class.width;
        }
        Ok(OperandKind::Value(part))
    }

    /// Returns the block of a name such as `bb3`; creates it, and all with lower numbers, if needed.
    fn block_called(&mut self, name: &str) -> Read<Block> {
        let number = name.strip_prefix("bb").and_then(|digits| digits.parse::<usize>().ok()).filter(|&number| number < NUMBER_LIMIT);
        let Some(number) = number else { return Err(format!("`{name}` is no block")) };
        while self.function.blocks.len() <= number {
            self.function.new_block();
        }
        Ok(Block::new(number))
    }

    /// Returns the value of a number; creates it, and all with lower numbers, if needed.
    fn value_numbered(&mut self, number: usize) -> Read<Value> {
        if number >= NUMBER_LIMIT {
            return Err(format!("%{number} is too high a number"));
        }
        while self.function.values.len() <= number {
            self.function.new_value(Class::R);
            self.classes.push(None);
        }
        Ok(Value::new(number))
    }

    /// Parses a value with its class, such as `%7:R2@1`.
    fn declared_value(&mut self, cursor: &mut Cursor<'_>) -> Read<Value> {
        cursor.expect('%')?;
        let value = cursor.number()?;
        let value = self.value_numbered(value)?;
        cursor.expect(':')?;
        let class = cursor.class()?;
        match self.classes[value] {
            Some(known) if known != class => Err(format!("{value:?} has another class elsewhere")),
            _ => {
                self.classes[value] = Some(class);
                Ok(value)
            }
        }
    }

    /// Parses an instruction.
    fn instruction(&mut self, line: &str) -> Read<Inst> {
        let (line, may_contract) = line.strip_suffix(CONTRACT).map_or((line, false), |line| (line, true));
        let mut cursor = Cursor::new(line);
        let guard = if cursor.eat("@") {
            let negated = cursor.eat("!");
            let kind = self.kind(&mut cursor)?;
            cursor.spaces();
            Some(Guard { kind, negated })
        } else {
            None
        };
        let mut operands: Vec<Operand> = Vec::new();
        if let Some(end) = cursor.rest().find(" = ") {
            let mut results = Cursor::new(&cursor.rest()[..end]);
            self.operand_list(&mut results, &mut operands, true)?;
            results.end()?;
            cursor.skip(end + 3);
        }
        let result_count = operands.len();
        let head = cursor.until(' ');
        let mnemonic = head.split('.').next().unwrap_or_default();
        let op = match Pseudo::ALL.iter().find(|pseudo| pseudo.mnemonic() == mnemonic) {
            Some(&pseudo) => Op::Pseudo(pseudo),
            None => Op::Machine(Opcode::find(mnemonic).ok_or_else(|| format!("no instruction is called `{mnemonic}`"))?),
        };
        let modifiers: Symbols = read_modifiers(&head[mnemonic.len()..]).map_err(|error| error.message)?;
        cursor.spaces();
        if !cursor.is_at_end() && !cursor.is_at_access() {
            self.operand_list(&mut cursor, &mut operands, false)?;
        }
        cursor.spaces();
        let access = if cursor.is_at_access() { Some(read_access(cursor.until(' '))?) } else { None };
        cursor.end()?;
        let inst = self.function.new_inst(op, modifiers, guard, &operands, result_count);
        self.function.insts[inst].may_contract = may_contract;
        self.function.insts[inst].memory = access.map(|access| self.function.accesses.push(access));
        Ok(inst)
    }
}

/// Parses the description of a memory access, such as `!global.relaxed.gpu.4.volatile`.
fn read_access(text: &str) -> Read<MemoryAccess> {
    let mut words = text.trim_start_matches('!').split('.');
    let space = words.next().and_then(|word| member(&SPACES, word)).ok_or_else(|| format!("`{text}` names no memory"))?;
    let mut access = MemoryAccess { order: Order::Weak, scope: Scope::Thread, ..MemoryAccess::weak(space, 0) };
    for word in words {
        if let Some(order) = member(&ORDERS, word) {
            access.order = order;
        } else if let Some(scope) = member(&SCOPES, word) {
            access.scope = scope;
        } else if let Ok(bytes) = word.parse() {
            access.bytes = bytes;
        } else {
            match word {
                "volatile" => access.volatile = true,
                "constant" => access.constant = true,
                _ => return Err(format!("`{word}` says nothing about a memory access")),
            }
        }
    }
    Ok(access)
}
