//! Parses and checks `call` and `brx.idx`, whose operands have a grammar of their own.

use oriole_support::{Index, Name};
use rustc_hash::FxHashSet;
use smallvec::SmallVec;

use super::head::HeadId;
use super::labels::LabelKind;
use super::operand::{OperandFacts, ParsedOperand};
use super::symbols::Symbol;
use super::{Parse, Parser};
use crate::ast::{FunctionId, FunctionKind, Instruction, Operand, Parameter, VariableId, VariableType};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::lexer::TokenKind;
use crate::source::Span;
use crate::types::{ScalarType, StateSpace, TypeClass};

/// The return values and parameters that a call is checked against.
struct Signature {
    returns: Vec<Parameter>,
    parameters: Vec<Parameter>,
    name: String,
}

/// The properties of a parameter or an argument that must agree.
struct Formal {
    name: Name,
    class: TypeClass,
    /// Whether it is an array.
    is_array: bool,
    /// Size in bytes; `None` for an array of any length.
    bytes: Option<u128>,
    /// Alignment in bytes.
    align: u64,
}

impl Formal {
    fn key(&self) -> FormalKey {
        (self.class, self.is_array, self.bytes, self.align)
    }
}

/// The properties of [`Formal`] without its name, for comparing signatures.
type FormalKey = (TypeClass, bool, Option<u128>, u64);

/// Return values and parameters of a function, as far as calls are checked against them.
pub(crate) type SignatureKey = (Vec<FormalKey>, Vec<FormalKey>);

/// Returns whether an argument and a parameter of these classes are incompatible: integer and float, or predicate and anything else.
fn classes_clash(actual: TypeClass, formal: TypeClass) -> bool {
    let either = |class| actual == class || formal == class;
    actual != formal && (either(TypeClass::Predicate) || either(TypeClass::Integer) && either(TypeClass::Float))
}

fn class_name(class: TypeClass) -> &'static str {
    match class {
        TypeClass::Predicate => "a predicate",
        TypeClass::Integer => "an integer",
        TypeClass::Float => "a float",
        TypeClass::Bits | TypeClass::Packed => "of untyped bits",
    }
}

type Arguments = SmallVec<[ParsedOperand; 8]>;

impl Parser<'_> {
    /// Parses `call (returns), callee, (arguments), prototype`. The operands of the instruction are the return values as a list, the
    /// callee, the arguments as a list, and the prototype if there is one.
    pub(super) fn parse_call(&mut self, head: HeadId, head_span: Span) -> Parse<Instruction> {
        self.scratch.clear();
        self.check_needs(head, 0, head_span);
        let mut returns = Arguments::new();
        let mut has_returns = false;
        if self.at(b'(') {
            has_returns = true;
            returns = self.parse_arguments()?;
            self.expect(b',', "the return values")?;
        }
        let callee_span = self.span();
        if self.lexer.token.kind != TokenKind::Identifier {
            return self.unexpected("the function to call");
        }
        let callee = self.parse_operand()?;
        if self.at(b'(') {
            return self.unexpected("`,` after the function to call");
        }
        let mut arguments = Arguments::new();
        let mut prototype = None;
        let mut has_arguments = false;
        if self.eat(b',') {
            if self.at(b'(') {
                has_arguments = true;
                arguments = self.parse_arguments()?;
                if self.eat(b',') {
                    prototype = Some(self.parse_call_prototype()?);
                }
            } else {
                prototype = Some(self.parse_call_prototype()?);
            }
        }
        let signatures = self.call_signatures(callee, callee_span, prototype)?;
        for signature in &signatures {
            self.check_call(signature, &returns, &arguments, callee_span)?;
        }
        let form = self.heads.number(head, 0, &mut self.module.forms);
        let mut operands: SmallVec<[Operand; 4]> = SmallVec::new();
        if has_returns {
            let list: SmallVec<[Operand; 8]> = returns.iter().map(|&value| self.commit(value)).collect();
            operands.push(Operand::Arguments(self.commit_list(&list)));
        }
        operands.push(self.commit(callee));
        if has_arguments {
            let list: SmallVec<[Operand; 8]> = arguments.iter().map(|&value| self.commit(value)).collect();
            operands.push(Operand::Arguments(self.commit_list(&list)));
        }
        operands.extend(prototype.map(|(operand, _)| operand));
        Ok(self.finish_instruction(form, &operands))
    }

    /// Appends the operands to the body and returns the instruction without a guard.
    fn finish_instruction(&mut self, form: crate::ast::FormId, operands: &[Operand]) -> Instruction {
        let body = &mut self.function.body;
        let first_operand = body.operands.len() as u32;
        body.operands.extend_from_slice(operands);
        Instruction { form, first_operand, operand_count: operands.len() as u16, guard: None }
    }

    /// Parses the list `(a, b)` of a call: plain operands, no vectors or addresses.
    fn parse_arguments(&mut self) -> Parse<Arguments> {
        self.lexer.advance();
        let mut arguments = Arguments::new();
        if self.eat(b')') {
            return Ok(arguments);
        }
        loop {
            if self.at(b'{') || self.at(b'[') || self.at(b'(') {
                return self.unexpected("a variable, a register or a constant");
            }
            let argument = self.parse_operand()?;
            if let OperandFacts::Unknown(_) = argument.facts {
                let finding = self.unknown_name(argument.span);
                return Err(self.report(finding));
            }
            arguments.push(argument);
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b')', "the arguments")?;
        Ok(arguments)
    }

    /// Parses the name after the arguments: a prototype, a list of call targets, or a table of functions.
    fn parse_call_prototype(&mut self) -> Parse<(Operand, Span)> {
        let span = self.expect_identifier("a prototype or a list of targets")?;
        let name = self.intern(span);
        if let Some(label) = self.find_label(name) {
            return Ok((Operand::Label(label), span));
        }
        match self.symbols.find(&self.module.names, name).map(|entry| entry.symbol) {
            Some(Symbol::Variable(variable)) => Ok((Operand::Variable(variable), span)),
            _ => {
                let text = self.lexer.str(span);
                let finding = Diagnostic::new(
                    DiagnosticCode::BadPrototype,
                    span,
                    format!("`{text}` is not a prototype or list of targets defined before this call"),
                );
                Err(self.report(finding))
            }
        }
    }

    /// Returns the signatures that the call must match: one for a direct call, one per distinct target signature for an indirect call.
    fn call_signatures(&mut self, callee: ParsedOperand, span: Span, prototype: Option<(Operand, Span)>) -> Parse<Vec<Signature>> {
        match callee.facts {
            OperandFacts::Function { function, offset: None } => {
                let function = &self.module.functions[function];
                if function.kind == FunctionKind::Entry {
                    return self.error(DiagnosticCode::CallOfEntry, span, "a kernel cannot be called");
                }
                if let Some((_, place)) = prototype {
                    return self.error(DiagnosticCode::BadPrototype, place, "a direct call takes no prototype");
                }
                let name = self.module.names.resolve(function.name).to_string();
                Ok(vec![Signature { returns: function.returns.clone(), parameters: function.parameters.clone(), name }])
            }
            OperandFacts::Register { ty, lanes: 1, negated: false, .. } => {
                if !(matches!(ty.class(), TypeClass::Integer | TypeClass::Bits) && matches!(ty.bits(), 32 | 64)) {
                    let label = self.describe(callee);
                    let finding =
                        Diagnostic::new(DiagnosticCode::NotAFunction, span, "an indirect call needs an address in a 64-bit register")
                            .label(label);
                    return Err(self.report(finding));
                }
                self.require_version("an indirect call", span, 2, 1);
                self.indirect_signatures(span, prototype)
            }
            OperandFacts::Unknown(_) => {
                let text = self.lexer.str(span);
                let known = self.module.functions.as_slice().iter().rev().take(500).map(|function| self.module.name(function.name));
                let near = oriole_support::closest(text, known).map(|near| format!("did you mean `{near}`?"));
                let finding =
                    Diagnostic::new(DiagnosticCode::UnknownName, span, format!("the function `{text}` is not declared before this call"))
                        .help("declare it before its first use, with `.extern` if another module defines it")
                        .maybe_help(near);
                Err(self.report(finding))
            }
            _ => {
                let label = self.describe(callee);
                let finding = Diagnostic::new(DiagnosticCode::NotAFunction, span, "only functions can be called").label(label);
                Err(self.report(finding))
            }
        }
    }

    /// Returns the signatures of an indirect call. A table of functions has none that could be checked.
    fn indirect_signatures(&mut self, span: Span, prototype: Option<(Operand, Span)>) -> Parse<Vec<Signature>> {
        let Some((operand, place)) = prototype else {
            let finding =
                Diagnostic::new(DiagnosticCode::MissingPrototype, span, "an indirect call needs a prototype or a list of targets")
                    .help("add the label of a `.callprototype` or `.calltargets` after the arguments");
            return Err(self.report(finding));
        };
        match operand {
            Operand::Label(label) => match self.function.labels.kinds.get(&label) {
                Some(&LabelKind::Prototype(index)) => {
                    let prototype = &self.function.body.prototypes[index as usize];
                    let name = self.lexer.str(place).to_string();
                    Ok(vec![Signature { returns: prototype.returns.clone(), parameters: prototype.parameters.clone(), name }])
                }
                Some(&LabelKind::CallTargets(index)) => Ok(self.target_signatures(index)),
                _ => self.error(DiagnosticCode::BadPrototype, place, "this label is neither a prototype nor a list of call targets"),
            },
            Operand::Variable(variable) => {
                let table = &self.module.variables[variable];
                let fits = matches!(table.ty, VariableType::Scalar(ScalarType::U64 | ScalarType::U32));
                if !fits {
                    return self.error(DiagnosticCode::BadPrototype, place, "a table of functions is an array of `.u64`");
                }
                Ok(Vec::new())
            }
            _ => Ok(Vec::new()),
        }
    }

    fn target_signatures(&self, index: u32) -> Vec<Signature> {
        let functions = self.function.labels.call_targets.get(&index).map_or(&[][..], Vec::as_slice);
        functions
            .iter()
            .map(|&function| &self.module.functions[function])
            .map(|function| Signature {
                returns: function.returns.clone(),
                parameters: function.parameters.clone(),
                name: self.module.names.resolve(function.name).to_string(),
            })
            .collect()
    }

    /// Returns one function per distinct signature in a list of call targets, so that a call is not checked against equal ones repeatedly.
    pub(super) fn distinct_signatures(&mut self, targets: &[Operand]) -> Vec<FunctionId> {
        let mut seen = FxHashSet::default();
        let mut functions = Vec::new();
        for target in targets {
            let Operand::Function(function) = *target else { continue };
            if seen.insert(self.signature_number(function)) {
                functions.push(function);
            }
        }
        functions
    }

    /// Returns a number that is equal for functions with equal signatures.
    fn signature_number(&mut self, id: FunctionId) -> u32 {
        if let Some(&number) = self.globals.signature_numbers.get(&id) {
            return number;
        }
        let function = &self.module.functions[id];
        let keys = |parameters: &[Parameter]| parameters.iter().map(|parameter| self.formal(parameter).key()).collect();
        let key: SignatureKey = (keys(&function.returns), keys(&function.parameters));
        let next = self.globals.signatures.len() as u32;
        let number = *self.globals.signatures.entry(key).or_insert(next);
        self.globals.signature_numbers.insert(id, number);
        number
    }

    /// Checks the return values and arguments of a call against a signature.
    fn check_call(&mut self, signature: &Signature, returns: &Arguments, arguments: &Arguments, span: Span) -> Parse<()> {
        let name = &signature.name;
        if returns.len() != signature.returns.len() {
            let message = format!(
                "`{name}` returns {} value{}, and the call takes {}",
                signature.returns.len(),
                if signature.returns.len() == 1 { "" } else { "s" },
                returns.len()
            );
            return self.error(DiagnosticCode::ReturnCount, span, message);
        }
        if arguments.len() != signature.parameters.len() {
            let message = format!(
                "`{name}` has {} parameter{}, and the call gives {}",
                signature.parameters.len(),
                if signature.parameters.len() == 1 { "" } else { "s" },
                arguments.len()
            );
            return self.error(DiagnosticCode::ArgumentCount, span, message);
        }
        for (given, wanted) in returns.iter().zip(&signature.returns) {
            self.check_argument(*given, wanted, true)?;
        }
        for (given, wanted) in arguments.iter().zip(&signature.parameters) {
            self.check_argument(*given, wanted, false)?;
        }
        Ok(())
    }

    /// Checks one argument or return value: size and alignment must agree, and floats and integers must not mix. `.b32` and the like
    /// match both.
    fn check_argument(&mut self, given: ParsedOperand, wanted: &Parameter, is_return: bool) -> Parse<()> {
        let (code, article, what) =
            if is_return { (DiagnosticCode::ReturnType, "a", "return value") } else { (DiagnosticCode::ArgumentType, "an", "argument") };
        let formal = self.formal(wanted);
        let finding = match given.facts {
            OperandFacts::Variable { variable, member: _, offset: None } => self.refuse_variable(variable, &formal, what),
            OperandFacts::Register { ty, lanes, negated: false, .. } => {
                let bytes = u128::from(ty.bytes()) * u128::from(lanes);
                let actual = Formal { name: formal.name, class: ty.class(), is_array: false, bytes: Some(bytes), align: bytes as u64 };
                self.refuse_value(&actual, &formal, what)
            }
            OperandFacts::Sink if is_return => None,
            OperandFacts::Sink => Some("`_` is allowed for return values only".to_string()),
            OperandFacts::Integer { .. } | OperandFacts::WarpSize if !is_return => {
                self.refuse_constant(&formal, TypeClass::Integer, "an integer")
            }
            OperandFacts::Float(_) if !is_return => self.refuse_constant(&formal, TypeClass::Float, "a float"),
            _ => Some(format!(
                "{article} {what} is a `.param` variable{}",
                if is_return { " or a register" } else { ", a register or a constant" }
            )),
        };
        match finding {
            Some(message) => {
                let label = self.describe(given);
                Err(self.report(Diagnostic::new(code, given.span, message).label(label)))
            }
            None => Ok(()),
        }
    }

    fn formal(&self, parameter: &Parameter) -> Formal {
        match parameter {
            Parameter::Variable(variable) => self.formal_of_variable(*variable),
            Parameter::Register { name, ty, lanes, .. } => {
                let bytes = u64::from(ty.bytes()) * u64::from(*lanes);
                Formal { name: *name, class: ty.class(), is_array: false, bytes: Some(u128::from(bytes)), align: bytes }
            }
        }
    }

    fn formal_of_variable(&self, variable: VariableId) -> Formal {
        let variable = &self.module.variables[variable];
        let class = match variable.ty {
            VariableType::Scalar(ty) => ty.class(),
            _ => TypeClass::Bits,
        };
        let (bytes, align) = (variable.size_bytes(), variable.align_bytes());
        Formal { name: variable.name, class, is_array: !variable.dimensions.is_empty(), bytes, align }
    }

    fn refuse_variable(&self, variable: VariableId, formal: &Formal, what: &str) -> Option<String> {
        let space = self.module.variables[variable].space;
        if space != StateSpace::Param {
            return Some(format!(
                "`{}` variables cannot be passed; the {what} must be a `.param` variable or a register",
                space.spelling()
            ));
        }
        if self.is_own_parameter(variable) {
            return Some(
                "a parameter of the function itself cannot be passed on; copy it into a `.param` variable of the body first".to_string(),
            );
        }
        self.refuse_value(&self.formal_of_variable(variable), formal, what)
    }

    /// Returns the reason why a value does not match a parameter; `None` if it does.
    fn refuse_value(&self, actual: &Formal, formal: &Formal, what: &str) -> Option<String> {
        let name = self.module.names.resolve(formal.name);
        let array = |is_array| if is_array { "an array" } else { "a single value" };
        if actual.is_array != formal.is_array {
            return Some(format!("this {what} is {}, and `{name}` is {}", array(actual.is_array), array(formal.is_array)));
        }
        if formal.bytes.is_some() && actual.bytes != formal.bytes {
            return Some(format!("this {what} has {} bytes, and `{name}` has {}", actual.bytes.unwrap_or(0), formal.bytes.unwrap_or(0)));
        }
        if actual.align != formal.align {
            return Some(format!("this {what} is aligned to {} bytes, and `{name}` to {}", actual.align, formal.align));
        }
        if classes_clash(actual.class, formal.class) {
            return Some(format!("this {what} is {}, and `{name}` is {}", class_name(actual.class), class_name(formal.class)));
        }
        None
    }

    fn refuse_constant(&self, formal: &Formal, class: TypeClass, constant: &str) -> Option<String> {
        let name = self.module.names.resolve(formal.name);
        if formal.is_array {
            return Some(format!("`{name}` is an array, and this argument is {constant}"));
        }
        classes_clash(class, formal.class).then(|| format!("`{name}` is {}, and this argument is {constant}", class_name(formal.class)))
    }

    fn is_own_parameter(&self, variable: VariableId) -> bool {
        self.function.parameters.contains(&variable.position())
    }

    /// Parses `brx.idx index, table`.
    pub(super) fn parse_indexed_branch(&mut self, head: HeadId, head_span: Span) -> Parse<Instruction> {
        self.scratch.clear();
        self.check_needs(head, 0, head_span);
        let index = self.parse_operand()?;
        let fits = match index.facts {
            OperandFacts::Register { ty, lanes: 1, negated: false, .. } => {
                ty.bits() == 32 && matches!(ty.class(), TypeClass::Integer | TypeClass::Bits)
            }
            OperandFacts::Integer { .. } => true,
            _ => false,
        };
        if !fits {
            let label = self.describe(index);
            let finding =
                Diagnostic::new(DiagnosticCode::OperandType, index.span, "the index of `brx.idx` is a 32-bit integer").label(label);
            return Err(self.report(finding));
        }
        self.expect(b',', "the index")?;
        let span = self.expect_identifier("the label of a `.branchtargets` list")?;
        let name = self.intern(span);
        let known = self.find_label(name).and_then(|label| self.function.labels.kinds.get(&label).map(|&kind| (label, kind)));
        let Some((label, LabelKind::BranchTargets(_))) = known else {
            let text = self.lexer.str(span);
            let finding = Diagnostic::new(
                DiagnosticCode::BadTargetList,
                span,
                format!("`{text}` is not a `.branchtargets` list defined before this branch"),
            );
            return Err(self.report(finding));
        };
        let form = self.heads.number(head, 0, &mut self.module.forms);
        let index = self.commit(index);
        Ok(self.finish_instruction(form, &[index, Operand::Label(label)]))
    }
}
