//! Selection of calls, and of the entry and exit code of device functions.
//!
//! The arguments and results of a `CALL` are operands fixed to the registers of the calling convention. The register allocator moves them
//! there and keeps other values out of the registers that the call clobbers. The return address is not an operand: it is only known once
//! code is laid out, and a later pass puts it into its register.
//!
//! A device function starts with the pseudo-instruction `ENTRY`, which defines the values that the caller passes in registers. Every `ret`
//! jumps to one exit block, which keeps the results in their registers and returns.

use std::rc::Rc;

use oriole_ir::{Class, Op, Operand, OperandKind, Pseudo, Reference, ReferenceKind, RegFile, Role, Value};
use oriole_isa::Symbols;
use oriole_ptx::ast::{self, Body, FunctionId, Initializer, LabelId, Module, Parameter, Statement, VariableId};
use oriole_ptx::table::Opcode;
use oriole_ptx::types::StateSpace;

use crate::bulk_remote;
use crate::context::Select;
use crate::convention::{self, CALL_ADDRESS, DYNAMIC_STACK, FIRST_REGISTER, ParameterLocation, ParameterShape, RETURN_ADDRESS, Signature};
use crate::error::Unsupported;
use crate::parameter_words::{TouchedWords, Words, address_taken, parameter_variable};
use crate::ptx::Ptx;
use crate::texture;
use crate::variable_sizes::aligned;

/// A PTX `call`, split into its parts.
struct CallParts<'m> {
    /// The operands that receive the results.
    returns: &'m [ast::Operand],
    /// The function, or the register that holds its address.
    callee: ast::Operand,
    /// The arguments.
    arguments: &'m [ast::Operand],
    /// The results in the declaration of the callee or in the prototype.
    formal_returns: &'m [Parameter],
    /// The parameters in the declaration of the callee or in the prototype.
    formal_parameters: &'m [Parameter],
}

impl<'m> CallParts<'m> {
    /// Splits the operands of a `call`. Returns `None` if the signature of the callee is not known.
    fn read(module: &'m Module, body: &'m Body, operands: &[ast::Operand]) -> Option<CallParts<'m>> {
        let list = |operand: Option<&ast::Operand>| match operand {
            Some(ast::Operand::Arguments(list)) => Some(body.list(*list)),
            _ => None,
        };
        let (returns, rest) = match list(operands.first()) {
            Some(returns) => (returns, &operands[1..]),
            None => (&[][..], operands),
        };
        let (callee, rest) = rest.split_first()?;
        let (arguments, rest) = match list(rest.first()) {
            Some(arguments) => (arguments, &rest[1..]),
            None => (&[][..], rest),
        };
        let (formal_returns, formal_parameters) = match (callee, rest.first()) {
            (ast::Operand::Function(id), _) => of_function(module, *id),
            (_, Some(ast::Operand::Label(label))) => of_label(module, body, *label)?,
            (_, Some(ast::Operand::Variable(table))) => of_table(module, *table)?,
            _ => return None,
        };
        Some(CallParts { returns, callee: *callee, arguments, formal_returns, formal_parameters })
    }

    /// Returns the locations of all arguments and results. The size of a variable-arguments parameter is the size of the actual argument.
    fn signature(&self, module: &Module) -> Result<Signature, Unsupported> {
        let mut signature = Signature::new(module, self.formal_returns, self.formal_parameters)?;
        if let (Some((shape, ParameterLocation::Stack(at))), Some(ast::Operand::Variable(id))) =
            (signature.parameters.last_mut(), self.arguments.last())
            && shape.is_variadic
        {
            let bytes = module.variables[*id].size_bytes().unwrap_or(0);
            shape.bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
            signature.stack_bytes = at.saturating_add(shape.bytes);
        }
        Ok(signature)
    }
}

/// Declared results and parameters, in this order.
type Formals<'m> = (&'m [Parameter], &'m [Parameter]);

/// Returns the declared signature of a function.
fn of_function(module: &Module, id: FunctionId) -> Formals<'_> {
    (&module.functions[id].returns, &module.functions[id].parameters)
}

/// Returns the signature given by a label of a `.callprototype`, or of a `.calltargets` list (that of its first function).
fn of_label<'m>(module: &'m Module, body: &'m Body, name: LabelId) -> Option<Formals<'m>> {
    body.statements.windows(2).find_map(|pair| match *pair {
        [Statement::Label(label), Statement::CallPrototype(number)] if label == name => {
            let prototype = &body.prototypes[number as usize];
            Some((prototype.returns.as_slice(), prototype.parameters.as_slice()))
        }
        [Statement::Label(label), Statement::CallTargets(number)] if label == name => {
            body.target_lists[number as usize].targets.iter().find_map(|target| match *target {
                ast::Operand::Function(id) => Some(of_function(module, id)),
                _ => None,
            })
        }
        _ => None,
    })
}

/// Returns the signature of the functions in a table of function addresses: that of the first entry.
fn of_table(module: &Module, table: VariableId) -> Option<Formals<'_>> {
    fn first(initializer: &Initializer) -> Option<oriole_support::Name> {
        match initializer {
            Initializer::Address { symbol, .. } => Some(*symbol),
            Initializer::List(items) => items.iter().find_map(first),
            _ => None,
        }
    }
    let name = first(module.variables[table].initializer.as_deref()?)?;
    let (id, _) = module.functions.iter_enumerated().find(|(_, function)| function.name == name)?;
    Some(of_function(module, id))
}

/// Selects `call`.
pub(crate) fn call(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(call) = CallParts::read(select.frame.module, select.frame.body, ptx.operands) else { return select.unsupported(ptx) };
    select.branch_around(|select| select.call(&call))
}

/// Upper limit of frame offsets from the stack pointer, in bytes, so that a sum of an offset and a size fits into 32 bits. The limits of
/// the targets are smaller.
const FRAME_END: u64 = 1 << 31;

/// A stack parameter that ends within this number of bytes from the stack pointer is loaded with an immediate offset. Spilled and saved
/// registers still increase the distance later, and the offset field of a load has 24 bits including the sign.
const NEAR_BYTES: i64 = 1 << 22;

/// Computes the layout of the fixed part of the frame.
///
/// ```text
/// stack pointer + 0              arguments that the function's calls pass on the stack
///               + result_buffer  buffer for a result that a call returns in memory
///               + locals_start   local variables
///               + ...            parameters whose address is taken
/// ```
pub(crate) fn prepare(select: &mut Select<'_>, id: FunctionId) -> Result<(), Unsupported> {
    let (module, body) = (select.frame.module, select.frame.body);
    let (mut stack, mut result) = (0, 0);
    let mut calls = Vec::new();
    for instruction in &body.instructions {
        match module.forms[instruction.form].opcode {
            Opcode::Call => {}
            Opcode::Alloca | Opcode::Stacksave | Opcode::Stackrestore => {
                select.has_dynamic_stack = true;
                continue;
            }
            Opcode::Tex => {
                stack = stack.max(u64::from(texture::driver_stack_bytes(&module.forms[instruction.form], select.target)));
                continue;
            }
            Opcode::CpAsyncBulkTensor => {
                stack = stack.max(u64::from(bulk_remote::driver_stack_bytes(&module.forms[instruction.form], select.target)));
                continue;
            }
            _ => continue,
        }
        let Some(call) = CallParts::read(module, body, body.operands_of(instruction)) else { continue };
        if let Ok(signature) = call.signature(module) {
            stack = stack.max(u64::from(signature.stack_bytes));
            result = result.max(u64::from(signature.result_bytes()));
        }
        calls.push((call.returns, call.arguments));
    }
    select.touched_words = TouchedWords::of(module, id, body, calls.into_iter());
    let align = u64::from(select.variables.frame_align.max(16));
    let result_buffer = stack.next_multiple_of(16);
    let locals_start = aligned(result_buffer + result, align);
    let mut end = locals_start.saturating_add(select.variables.frame_bytes);
    let mut frame_align = if locals_start > 0 { align } else { u64::from(select.variables.frame_align.max(4)) };
    let mut slots = Vec::new();
    if !select.is_kernel {
        for id in address_taken(module, id, body) {
            let variable = &module.variables[id];
            let Some(bytes) = variable.size_bytes() else { continue };
            let align = variable.align_bytes().max(4);
            end = aligned(end, align);
            slots.push((id, end));
            end = end.saturating_add(u64::try_from(bytes).unwrap_or(u64::MAX));
            frame_align = frame_align.max(align);
        }
    }
    if end >= FRAME_END {
        return Err(Unsupported::new(format!("a frame of {end} bytes")));
    }
    // All of these numbers are below the end of the frame, which fits into 32 bits.
    (select.result_buffer, select.locals_start) = (result_buffer as u32, locals_start as u32);
    select.parameter_slots.extend(slots.into_iter().map(|(id, slot)| (id, slot as u32)));
    (select.b.function.frame_bytes, select.b.function.frame_align) = (end as u32, frame_align as u32);
    if let Ok(signature) = Signature::new(module, &module.functions[id].returns, &module.functions[id].parameters)
        && let (Some((shape, ParameterLocation::Stack(at))), Some(Parameter::Variable(id))) =
            (signature.parameters.last(), module.functions[id].parameters.last())
        && shape.is_variadic
    {
        select.variadic_parameter = Some((*id, *at));
    }
    Ok(())
}

/// Marks an operand as fixed to a register (of its own register file).
pub(crate) fn fixed(operand: Operand, register: u8) -> Operand {
    operand.with_role(Role::Fixed(register))
}

/// Returns `count` consecutive general registers, starting at `first`, as an operand.
fn physical(first: u8, count: u8) -> Operand {
    Operand::new(OperandKind::Register { file: RegFile::General, first: u16::from(first), count })
}

impl<'m> Select<'m> {
    /// Emits a call without guard.
    fn call(&mut self, call: &CallParts<'m>) -> Result<(), Unsupported> {
        let module = self.frame.module;
        let signature = call.signature(module)?;
        let mut sources: Vec<Operand> = Vec::new();
        if signature.result_in_memory {
            let at = Operand::from(self.result_buffer);
            let end = self.stack_end();
            let address = self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[end, at]);
            sources.push(fixed(address, FIRST_REGISTER));
        }
        for (&argument, &(shape, location)) in call.arguments.iter().zip(&signature.parameters) {
            let words = self.argument(argument, shape)?;
            match location {
                ParameterLocation::Register(first) => {
                    for (number, word) in words {
                        let word = self.in_register(word);
                        sources.push(fixed(word, first + number as u8));
                    }
                }
                ParameterLocation::Stack(at) => {
                    let base = self.stack_end();
                    self.store_local(&words, shape.bytes, base, i64::from(at));
                }
            }
        }
        let mut target = self.call_target(call, &mut sources)?;
        if self.has_dynamic_stack {
            sources.push(fixed(self.stack_end(), DYNAMIC_STACK));
        }
        let mut results: Vec<Vec<Operand>> = Vec::new();
        let mut operands: Vec<Operand> = Vec::new();
        if !signature.result_in_memory {
            for &(shape, location) in &signature.results {
                let ParameterLocation::Register(first) = location else { continue };
                let words: Vec<Operand> = (0..shape.words()).map(|_| self.new_word()).collect();
                operands.extend(words.iter().enumerate().map(|(number, &word)| fixed(word, first + number as u8)));
                results.push(words);
            }
        }
        // The machine's operand of `CALL` is the target. The Ori instruction has the results before it and the arguments after it.
        let result_count = operands.len();
        operands.append(&mut target);
        operands.extend(sources);
        let inst = self.b.emit("CALL.ABS.NOINC {}", &[operands[result_count]]);
        self.b.function.set_operands(inst, &operands, result_count);
        if signature.result_in_memory {
            let (base, at) = (self.stack_end(), i64::from(self.result_buffer));
            let numbers = self.received_words(call.returns, &signature)?;
            let words = self.load_local(&numbers, signature.result_bytes(), base, at, Operand::from);
            results.push(words);
        }
        for (&destination, words) in call.returns.iter().zip(results) {
            self.receive(destination, &words)?;
        }
        Ok(())
    }

    /// Emits a call of a function that PTX does not declare, with words in registers, and returns its results. `is_function` says whether
    /// there is a function of this name; otherwise a later pass replaces the call.
    pub(crate) fn call_by_name(&mut self, name: &str, is_function: bool, arguments: &[(u8, Operand)], results: &[u8]) -> Vec<Operand> {
        let mut sources: Vec<Operand> = arguments.iter().map(|&(register, word)| fixed(self.in_register(word), register)).collect();
        if is_function {
            self.callees.add(name.to_owned());
            if self.has_dynamic_stack {
                sources.push(fixed(self.stack_end(), DYNAMIC_STACK));
            }
        }
        let words: Vec<Operand> = results.iter().map(|_| self.new_word()).collect();
        let symbol = self.b.symbol(name);
        let target = Operand::from(Reference { symbol, offset: 0, kind: ReferenceKind::Call });
        let mut operands: Vec<Operand> = words.iter().zip(results).map(|(&word, &register)| fixed(word, register)).collect();
        operands.push(target);
        operands.extend(sources);
        let inst = self.b.emit("CALL.ABS.NOINC {}", &[target]);
        self.b.function.set_operands(inst, &operands, results.len());
        words
    }

    /// Stores words of an argument on the stack of the next call; `at` is in bytes from its start.
    pub(crate) fn store_argument(&mut self, words: &[Operand], at: u32) {
        let base = self.stack_end();
        let numbered: Vec<(u32, Operand)> = (0..).zip(words.iter().copied()).collect();
        self.store_local(&numbered, 4 * words.len() as u32, base, i64::from(at));
    }

    /// Creates a new 32-bit value.
    fn new_word(&mut self) -> Operand {
        let value = self.b.value(Class::R);
        self.b.whole(value)
    }

    /// Returns the address at which the stack arguments of the next call start: the stack pointer, or the dynamic stack after `alloca`.
    fn stack_end(&mut self) -> Operand {
        match self.has_dynamic_stack {
            true => self.dynamic_stack(),
            false => self.stack_pointer(),
        }
    }

    /// Returns the operands of a call that name the target. For an indirect call, adds the address to `sources`.
    fn call_target(&mut self, call: &CallParts<'m>, sources: &mut Vec<Operand>) -> Result<Vec<Operand>, Unsupported> {
        if let ast::Operand::Function(id) = call.callee {
            let name = self.callee_name(id);
            let symbol = self.b.symbol(&name);
            self.callees.add(name);
            return Ok(vec![Reference { symbol, offset: 0, kind: ReferenceKind::Call }.into()]);
        }
        let address = self.wide_source(call.callee, oriole_ptx::types::ScalarType::U64)?;
        for half in 0..2 {
            sources.push(fixed(self.register_of(address, half), CALL_ADDRESS + half));
        }
        let text = convention::prototype(self.frame.module, call.formal_returns, call.formal_parameters);
        self.indirect_calls.add(text);
        Ok(vec![physical(CALL_ADDRESS, 2), Operand::from(0)])
    }

    /// Returns the name of a function in the output file; for an alias, the name of the function that it stands for.
    pub(crate) fn callee_name(&mut self, id: FunctionId) -> String {
        let module = self.frame.module;
        let own = module.functions[id].name;
        module.name(self.variables.module.aliases.get(&own).copied().unwrap_or(own)).to_owned()
    }

    /// Returns the address of a function plus `offset` as a 64-bit value.
    pub(crate) fn function_address(&mut self, id: FunctionId, offset: i64) -> Operand {
        let name = self.callee_name(id);
        let symbol = self.b.symbol(&name);
        self.taken_functions.add(name);
        let halves = [ReferenceKind::FunctionLow, ReferenceKind::FunctionHigh].map(|kind| {
            let reference = Reference { symbol, offset: 0, kind };
            self.b.define(Class::R, "MOV $, {}", &[reference.into()])
        });
        let pair = self.b.pack(Class::R2, &halves);
        self.add_to_pair(pair, offset)
    }

    /// Returns the numbers of the words of a memory result that the caller reads.
    fn received_words(&mut self, returns: &[ast::Operand], signature: &Signature) -> Result<Vec<u32>, Unsupported> {
        match returns.first() {
            Some(&ast::Operand::Variable(id)) => Ok(self.parameter_words(id)?.numbers()),
            Some(_) => Ok((0..signature.result_bytes().div_ceil(4)).collect()),
            None => Ok(Vec::new()),
        }
    }

    /// Returns the words of an argument with their numbers.
    fn argument(&mut self, argument: ast::Operand, shape: ParameterShape) -> Result<Vec<(u32, Operand)>, Unsupported> {
        let words = match argument {
            ast::Operand::Variable(id) if self.frame.module.variables[id].space == StateSpace::Param => {
                if self.frame.module.variables[id].size_bytes().is_none()
                    || self.variables.get(id).is_some()
                    || self.parameter_slots.contains_key(&id)
                {
                    return Err(Unsupported::new("this parameter as an argument"));
                }
                let words = self.parameter_words(id)?;
                words.iter().map(|(number, word)| (number, self.b.whole(word))).collect()
            }
            ast::Operand::Register(register) if self.frame.body.declaration_of(register).lanes > 1 => {
                (0..).zip(self.register_words(register)?).collect()
            }
            _ => match shape.scalar {
                Some(ty) => (0..).zip(self.operand_words(argument, ty)?).collect::<Vec<_>>(),
                None => return Err(Unsupported::new("this argument for an array")),
            },
        };
        Ok(words)
    }

    /// Assigns the result of a call to its destination.
    fn receive(&mut self, destination: ast::Operand, words: &[Operand]) -> Result<(), Unsupported> {
        if let ast::Operand::Variable(id) = destination {
            let variables = self.parameter_words(id)?;
            for ((_, variable), &word) in variables.iter().zip(words) {
                self.b.assign(variable, word);
            }
            return Ok(());
        }
        if let ast::Operand::Register(register) = destination
            && !words.is_empty()
        {
            self.assign_register_words(register, words);
            return Ok(());
        }
        let value = match *words {
            [] => return Ok(()),
            [word] => word,
            _ => self.b.pack(Class::new(RegFile::General, words.len() as u8), words),
        };
        self.assign(destination, value)
    }

    /// Returns the block that `ret` jumps to in a device function. Creates the block at the first use.
    pub(crate) fn return_block(&mut self) -> oriole_ir::Block {
        match self.return_block {
            Some(block) => block,
            None => *self.return_block.insert(self.b.new_block()),
        }
    }

    /// Emits the entry and exit code of a device function, after its body has been selected.
    pub(crate) fn write_ends(&mut self, id: FunctionId) -> Result<(), Unsupported> {
        let function = &self.frame.module.functions[id];
        let signature = Signature::new(self.frame.module, &function.returns, &function.parameters)?;
        let return_address = self.b.value(Class::R2);
        let result_address = self.b.value(Class::R);
        if let Some(block) = self.return_block {
            self.start(block);
            self.write_return(&function.returns, &signature, return_address, result_address)?;
        }
        let parameters: Vec<(Rc<Words>, ParameterShape, ParameterLocation, Option<u32>)> = function
            .parameters
            .iter()
            .zip(&signature.parameters)
            .filter(|(_, (shape, _))| !shape.is_variadic)
            .map(|(parameter, &(shape, location))| {
                let slot = parameter_variable(parameter).and_then(|id| self.parameter_slots.get(&id).copied());
                Ok((self.own_words(parameter)?, shape, location, slot))
            })
            .collect::<Result<_, Unsupported>>()?;
        // The entry code must precede the instructions that are already in the entry block.
        let entry = self.b.function.entry();
        let existing = std::mem::take(&mut self.b.function.blocks[entry].insts);
        let block = self.b.swap_block(entry);
        self.write_entry(&parameters, signature.result_in_memory, return_address, result_address);
        for (register, words) in self.own_registers(&function.parameters) {
            let words: Vec<Operand> = words.into_iter().map(|word| self.b.whole(word)).collect();
            self.assign_register_words(register, &words);
        }
        self.b.swap_block(block);
        self.b.function.blocks[entry].insts.extend(existing);
        Ok(())
    }

    /// Returns the words of a parameter of this function. Creates the words of a `.reg` parameter at the first use.
    fn own_words(&mut self, parameter: &Parameter) -> Result<Rc<Words>, Unsupported> {
        match *parameter {
            Parameter::Variable(id) => self.parameter_words(id),
            Parameter::Register { declaration: Some(declaration), .. } => {
                if let Some(words) = self.register_words.get(&declaration) {
                    return Ok(Rc::new(Words::new(words.iter().copied())));
                }
                let words =
                    (0..ParameterShape::of(self.frame.module, parameter)?.words()).map(|_| self.b.value(Class::R)).collect::<Vec<_>>();
                self.register_words.insert(declaration, words.clone());
                Ok(Rc::new(Words::new(words)))
            }
            Parameter::Register { .. } => Err(Unsupported::new("this parameter")),
        }
    }

    /// Returns the `.reg` parameters in a list, with their words.
    fn own_registers(&self, parameters: &[Parameter]) -> Vec<(ast::RegisterId, Vec<Value>)> {
        let found = parameters.iter().filter_map(|parameter| match *parameter {
            Parameter::Register { declaration: Some(declaration), .. } => {
                Some((self.frame.body.registers[declaration].first, self.register_words.get(&declaration)?.clone()))
            }
            _ => None,
        });
        found.collect()
    }

    /// Emits `ENTRY` for the parameters in registers, loads the parameters that are on the caller's stack, and stores the parameters whose
    /// address is taken into the frame.
    fn write_entry(
        &mut self,
        parameters: &[(Rc<Words>, ParameterShape, ParameterLocation, Option<u32>)],
        result_in_memory: bool,
        return_address: Value,
        result_address: Value,
    ) {
        let mut results = Vec::new();
        if result_in_memory {
            results.push(fixed(self.b.whole(result_address), FIRST_REGISTER));
        }
        let mut assigned: Vec<(Value, Operand)> = Vec::new();
        for (words, _, location, _) in parameters {
            let ParameterLocation::Register(first) = *location else { continue };
            for (number, word) in words.iter() {
                let value = self.b.value(Class::R);
                let whole = self.b.whole(value);
                results.push(fixed(whole, first + number as u8));
                assigned.push((word, whole));
            }
        }
        // The last result: functions that keep the return address in their frame remove it.
        results.push(fixed(self.b.whole(return_address), RETURN_ADDRESS));
        let count = results.len();
        self.b.append(Op::Pseudo(Pseudo::Entry), Symbols::new(), &results, count);
        for (word, value) in assigned {
            self.b.assign(word, value);
        }
        let stack_pointer = self.stack_pointer();
        let own = self.b.function.name.clone();
        let symbol = self.b.symbol(&own);
        for (words, shape, location, _) in parameters {
            let ParameterLocation::Stack(at) = *location else { continue };
            let incoming = |offset: i64| Operand::from(Reference { symbol, offset: offset as i32, kind: ReferenceKind::Incoming });
            let (numbers, at) = (words.numbers(), i64::from(at));
            let is_far = i64::from(self.b.function.frame_bytes) + at + i64::from(shape.bytes) > NEAR_BYTES;
            let values = if is_far && !numbers.is_empty() {
                let base = self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[stack_pointer, incoming(at)]);
                self.load_local(&numbers, shape.bytes, base, at, |offset| Operand::from(offset - at))
            } else {
                self.load_local(&numbers, shape.bytes, stack_pointer, at, incoming)
            };
            for ((_, word), value) in words.iter().zip(values) {
                self.b.assign(word, value);
            }
        }
        for (words, shape, _, slot) in parameters {
            if let Some(slot) = *slot {
                let words: Vec<(u32, Operand)> = words.iter().map(|(number, word)| (number, self.b.whole(word))).collect();
                self.store_local(&words, shape.bytes, stack_pointer, i64::from(slot));
            }
        }
    }

    /// Emits the exit block: stores a result that is returned in memory, keeps the results that are returned in registers, and returns.
    fn write_return(
        &mut self,
        returns: &[Parameter],
        signature: &Signature,
        return_address: Value,
        result_address: Value,
    ) -> Result<(), Unsupported> {
        let mut kept = Vec::new();
        for (result, &(shape, location)) in returns.iter().zip(&signature.results) {
            let words = self.result_words(result)?;
            match location {
                ParameterLocation::Register(first) => {
                    for (number, word) in words {
                        kept.push(fixed(word, first + number as u8));
                    }
                }
                ParameterLocation::Stack(_) => {
                    let base = self.b.whole(result_address);
                    self.store_local(&words, shape.bytes, base, 0);
                }
            }
        }
        kept.push(fixed(self.b.whole(return_address), RETURN_ADDRESS));
        self.b.append(Op::Pseudo(Pseudo::Keep), Symbols::new(), &kept, 0);
        let inst = self.b.emit("RET.ABS.NODEC {}", &[physical(RETURN_ADDRESS, 2)]);
        self.b.function.set_operands(inst, &[physical(RETURN_ADDRESS, 2), Operand::from(0)], 0);
        self.end_block();
        Ok(())
    }

    /// Returns the final value of the words of a result, with their numbers.
    fn result_words(&mut self, result: &Parameter) -> Result<Vec<(u32, Operand)>, Unsupported> {
        match *result {
            Parameter::Variable(id) => Ok(self.parameter_words(id)?.iter().map(|(number, word)| (number, self.b.whole(word))).collect()),
            Parameter::Register { declaration: Some(declaration), .. } => {
                let register = self.frame.body.registers[declaration].first;
                Ok((0..).zip(self.register_words(register)?).collect())
            }
            Parameter::Register { .. } => Err(Unsupported::new("this result")),
        }
    }
}

/// Returns the aliases of a module in source order.
pub fn aliases(module: &Module) -> impl DoubleEndedIterator<Item = &ast::Alias> {
    module.items.iter().filter_map(|item| if let ast::Item::Alias(alias) = item { Some(alias) } else { None })
}
