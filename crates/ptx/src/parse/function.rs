//! Parses functions: `.visible .entry name(params) .maxntid 128` and `.func (ret) name(params)`, with their bodies.

use oriole_support::Index;

use super::labels::Labels;
use super::specifiers::{DeclaredPlace, at_least, needs, opaque_type, place_of};
use super::symbols::Symbol;
use super::{Parse, Parser};
use crate::ast::{
    Body, Function, FunctionId, FunctionKind, LaunchBounds, Linkage, Parameter, PointerAttribute, PointerTarget, TextureMode, Variable,
    VariableType,
};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::source::Span;
use crate::target::Requirement;
use crate::types::{ScalarType, StateSpace};

/// State of the function being parsed.
#[derive(Default)]
pub(crate) struct FunctionState {
    /// Whether a body is being parsed.
    pub active: bool,
    pub kind: Option<FunctionKind>,
    pub body: Body,
    pub labels: Labels,
    /// Number of branch targets given as `A<N>`.
    pub counted_targets: u32,
    /// Indices of the variables that are parameters of this function.
    pub parameters: std::ops::Range<usize>,
}

static FUNCTION_PARAMETERS: Requirement = needs(2, 0, &[at_least(20)]);
// ptxas accepts this from 5.1 on; the manual says 6.0.
static UNSIZED_PARAMETERS: Requirement = needs(5, 1, &[at_least(30)]);

/// Limit on the parameters of a kernel in bytes, from PTX 8.1 on and before.
const PARAMETER_BYTES: u128 = 32764;
const OLD_PARAMETER_BYTES: u128 = 4352;

impl Parser<'_> {
    /// Parses a function from `.entry` or `.func` on, including its body if it has one.
    pub(super) fn parse_function(&mut self, linkage: Linkage) -> Parse<()> {
        let start = self.span();
        let kind = if self.at_directive(".entry") { FunctionKind::Entry } else { FunctionKind::Function };
        self.lexer.advance();
        // A declaration inside a body must not change the state of the enclosing function.
        let outer = std::mem::take(&mut self.function);
        let result = self.parse_function_parts(linkage, kind, start, outer.active);
        if !outer.active {
            self.function = FunctionState::default();
        } else {
            self.function = outer;
        }
        let Some(id) = result? else { return Ok(()) };
        if self.function.active {
            self.push_statement(crate::ast::Statement::Function(id), start);
        } else {
            self.module.items.push(crate::ast::Item::Function(id));
        }
        Ok(())
    }

    /// Parses header and body. Returns `None` for a definition inside another function, which is an error.
    fn parse_function_parts(&mut self, linkage: Linkage, kind: FunctionKind, start: Span, nested: bool) -> Parse<Option<FunctionId>> {
        let depth = self.symbols.depth();
        self.symbols.open();
        let first = self.module.variables.len();
        let header = self.parse_header(linkage, kind, start);
        self.function.parameters = first..self.module.variables.len();
        let (function, name_span) = match header {
            Ok(header) => header,
            Err(reported) => {
                self.symbols.close();
                return Err(reported);
            }
        };
        let has_body = self.at(b'{');
        if has_body && nested {
            self.symbols.close();
            self.skip_block();
            self.report(Diagnostic::new(DiagnosticCode::MisplacedDirective, name_span, "functions cannot be defined inside functions"));
            return Ok(None);
        }
        self.check_linkage(&function, name_span, has_body);
        // The function's name belongs to the scope that contains the declaration, not to that of the parameters.
        let id = FunctionId::new(self.module.functions.len());
        self.declare_function(&function, id, name_span, has_body, depth);
        self.module.functions.push(function);
        let mut end = name_span;
        if has_body {
            self.function.active = true;
            self.function.kind = Some(kind);
            end = self.parse_body();
            let mut body = std::mem::take(&mut self.function.body);
            body.shrink_to_fit();
            self.module.functions[id].body = Some(Box::new(body));
        } else {
            self.symbols.close();
            self.eat(b';');
        }
        if kind == FunctionKind::Entry {
            self.check_parameter_space(id, name_span, end);
            self.check_min_blocks(id, name_span, end);
        }
        Ok(Some(id))
    }

    /// Parses a function header; also returns the position of the name.
    fn parse_header(&mut self, linkage: Linkage, kind: FunctionKind, start: Span) -> Parse<(Function, Span)> {
        if linkage == Linkage::Common {
            return self.error(DiagnosticCode::BadLinkage, start, "functions cannot be `.common`");
        }
        self.require_linkage(linkage, start);
        let attributes = match kind {
            FunctionKind::Function => self.parse_function_attributes()?,
            FunctionKind::Entry => Vec::new(),
        };
        let mut returns = Vec::new();
        if kind == FunctionKind::Function && self.at(b'(') {
            let span = self.span();
            returns = self.parse_parameters(kind, false)?;
            self.check_returns(&returns, span);
        }
        let name_span = self.expect_identifier("the name of the function")?;
        self.check_name(name_span)?;
        let name = self.intern(name_span);
        let has_parameter_list = self.at(b'(');
        let parameters = if has_parameter_list { self.parse_parameters(kind, false)? } else { Vec::new() };
        let bounds = match kind {
            FunctionKind::Entry => self.parse_launch_bounds()?,
            FunctionKind::Function => self.parse_function_directives(&returns)?,
        };
        if bounds != LaunchBounds::default() && kind == FunctionKind::Entry && !self.at(b'{') {
            return self.unexpected("`{`, since only definitions have launch bounds");
        }
        Ok((Function { name, kind, linkage, attributes, returns, parameters, has_parameter_list, bounds, body: None }, name_span))
    }

    fn check_returns(&mut self, returns: &[Parameter], span: Span) {
        let memory = returns.iter().any(|parameter| matches!(parameter, Parameter::Variable(_)));
        if memory && returns.len() > 1 {
            let finding = Diagnostic::new(
                DiagnosticCode::BadReturnParameters,
                span,
                "a function returns one `.param` variable, or several `.reg` ones",
            )
            .help("return a `.b8` array that holds all values");
            self.report(finding);
        }
    }

    /// Checks that the parameters of a kernel fit. ptxas reports this at the end of the function.
    fn check_parameter_space(&mut self, id: FunctionId, name: Span, end: Span) {
        let function = &self.module.functions[id];
        let sizes = function.parameters.iter().map(|parameter| match parameter {
            Parameter::Variable(variable) => {
                let variable = &self.module.variables[*variable];
                (variable.size_bytes().unwrap_or(8), u128::from(variable.align_bytes().max(1)))
            }
            Parameter::Register { ty, .. } => (u128::from(ty.bytes()), u128::from(ty.bytes())),
        });
        let total = sizes.fold(0u128, |offset, (size, align)| offset.div_ceil(align).saturating_mul(align).saturating_add(size));
        let large = self.platform.has_large_parameter_space();
        let most = if large { PARAMETER_BYTES } else { OLD_PARAMETER_BYTES };
        if total > most {
            let text = self.module.names.resolve(function.name);
            let mut words = vec![format!("Entry function '{text}' uses too much parameter space ({total:#x} bytes, {most:#x} max).")];
            if !large {
                words.push(format!("Feature 'Kernel parameter size larger than {most} bytes' requires PTX ISA .version 8.1 or later"));
            }
            let finding =
                Diagnostic::new(DiagnosticCode::TooManyParameters, name, format!("the parameters take {total} bytes; a kernel has {most}"))
                    .help("pass a pointer to a larger structure")
                    .ptxas(end, words);
            self.report(finding);
        }
    }

    /// Warns of a `.minnctapersm` that has no effect. ptxas names the line where the kernel ends.
    fn check_min_blocks(&mut self, id: FunctionId, name: Span, end: Span) {
        let bounds = &self.module.functions[id].bounds;
        if bounds.min_blocks_per_sm.is_none() || bounds.max_threads.is_some() || bounds.required_threads.is_some() {
            return;
        }
        let finding =
            Diagnostic::new(DiagnosticCode::IgnoredLaunchBound, name, "`.minnctapersm` has no effect without `.maxntid` or `.reqntid`")
                .help("add `.maxntid` with the largest block that is launched")
                .ptxas(end, [".minnctapersm is ignored when neither .maxntid nor .reqntid is specified.".to_owned()]);
        self.report(finding);
    }

    /// Parses `(.param .u64 a, .reg .u32 b)`. In a prototype, `_` may replace a name.
    pub(super) fn parse_parameters(&mut self, kind: FunctionKind, prototype: bool) -> Parse<Vec<Parameter>> {
        self.expect(b'(', "the name")?;
        let mut parameters = Vec::new();
        if self.eat(b')') {
            return Ok(parameters);
        }
        loop {
            parameters.push(self.parse_parameter(kind, prototype)?);
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b')', "the parameters")?;
        Ok(parameters)
    }

    /// Parses one parameter. In a prototype it is not added to the symbol table.
    fn parse_parameter(&mut self, kind: FunctionKind, prototype: bool) -> Parse<Parameter> {
        let start = self.span();
        let specifiers = self.parse_specifiers(Linkage::Internal)?;
        let pointer = if self.at_directive(".ptr") { Some(self.parse_pointer(kind)?) } else { None };
        let name_span = self.span();
        let anonymous = prototype && self.lexer.text() == "_";
        if !prototype {
            self.check_name(name_span)?;
        }
        let declarator = if anonymous {
            let name = self.intern(name_span);
            self.lexer.advance();
            let mut declarator = super::declare::Declarator { name, span: name_span, count: None, dimensions: Vec::new() };
            while self.eat(b'[') {
                let size = if self.at(b']') { None } else { Some(self.expect_integer("the size of the array")?.0) };
                declarator.dimensions.push(size);
                self.expect(b']', "the size of the array")?;
            }
            declarator
        } else {
            self.parse_declarator()?
        };
        if declarator.count.is_some() {
            return self.error(DiagnosticCode::BadName, name_span, "parameters cannot be declared with `<N>`");
        }
        if declarator.dimensions.len() > 1 {
            return self.error(DiagnosticCode::BadArray, name_span, "parameters have at most one dimension");
        }
        match specifiers.space {
            Some(DeclaredPlace::Register) if kind == FunctionKind::Function => {
                let VariableType::Scalar(ty) = specifiers.ty else {
                    return self.error(
                        DiagnosticCode::BadOpaqueDeclaration,
                        specifiers.type_span,
                        "textures, samplers and surfaces cannot be registers",
                    );
                };
                if !declarator.dimensions.is_empty() {
                    return self.error(DiagnosticCode::RegisterArray, name_span, "registers cannot be arrays");
                }
                let (name, lanes) = (declarator.name, specifiers.lanes);
                let declaration = if prototype { None } else { self.add_register(name, name_span, ty, lanes, None, None, true) };
                Ok(Parameter::Register { name, ty, lanes, declaration })
            }
            Some(DeclaredPlace::Memory(StateSpace::Param)) => {
                self.check_parameter(&specifiers, kind, &declarator, name_span)?;
                let variable = Variable {
                    name: declarator.name,
                    space: StateSpace::Param,
                    ty: specifiers.ty,
                    lanes: specifiers.lanes,
                    dimensions: declarator.dimensions,
                    align: specifiers.align,
                    linkage: Linkage::Internal,
                    attributes: Vec::new(),
                    count: None,
                    initializer: None,
                    pointer,
                };
                if prototype {
                    return Ok(Parameter::Variable(self.module.variables.push(variable)));
                }
                self.declare_parameter_variable(variable, name_span).map(Parameter::Variable)
            }
            _ => {
                let message = match kind {
                    FunctionKind::Entry => "parameters of a kernel are in `.param`",
                    FunctionKind::Function => "parameters are in `.param` or `.reg`",
                };
                self.error(DiagnosticCode::BadParameterSpace, start, message)
            }
        }
    }

    /// Checks type and alignment of a `.param` parameter.
    fn check_parameter(
        &mut self,
        specifiers: &super::specifiers::Specifiers,
        kind: FunctionKind,
        declarator: &super::declare::Declarator,
        name: Span,
    ) -> Parse<()> {
        let span = specifiers.type_span;
        let array_without_length = declarator.dimensions.first().is_some_and(Option::is_none);
        if kind == FunctionKind::Function {
            self.require("a `.param` parameter of a function", specifiers.span, &FUNCTION_PARAMETERS);
            if array_without_length {
                self.require("an array parameter without a length", name, &UNSIZED_PARAMETERS);
            }
        }
        match specifiers.ty {
            VariableType::Scalar(ScalarType::Pred) => {
                self.error(DiagnosticCode::BadPredicateDeclaration, span, "predicates live in registers only")
            }
            VariableType::Scalar(_) if specifiers.lanes > 1 => {
                self.error(DiagnosticCode::BadVectorType, span, "`.param` parameters cannot be vectors")
            }
            VariableType::Scalar(ScalarType::F16x2) => {
                let finding = Diagnostic::new(DiagnosticCode::UndeclarableType, span, "`.param` parameters cannot be `.f16x2`")
                    .help("declare it as `.b32`");
                Err(self.report(finding))
            }
            VariableType::Scalar(_) if array_without_length && kind == FunctionKind::Entry => {
                self.error(DiagnosticCode::IncompleteArray, name, "an array parameter of a kernel needs a length")
            }
            VariableType::Scalar(_) => match specifiers.align {
                Some(align) if align > 128 && kind == FunctionKind::Function => {
                    let message = format!("parameters of functions are aligned to at most 128 bytes, not {align}");
                    let words = super::declare::illegal_alignment(self.module.names.resolve(declarator.name));
                    Err(self
                        .report(Diagnostic::new(DiagnosticCode::BadAlignment, specifiers.span, message).ptxas(specifiers.span, [words])))
                }
                _ => Ok(()),
            },
            _ if kind == FunctionKind::Function => {
                self.error(DiagnosticCode::BadOpaqueDeclaration, span, "textures, samplers and surfaces can be parameters of kernels only")
            }
            VariableType::Sampler if self.module.options.texture_mode != Some(TextureMode::Independent) => {
                let finding = self.sampler_in_unified_mode(span);
                Err(self.report(finding))
            }
            _ => Ok(()),
        }
    }

    /// Parses `.ptr .global .align 16`.
    fn parse_pointer(&mut self, kind: FunctionKind) -> Parse<PointerAttribute> {
        let span = self.span();
        self.lexer.advance();
        if kind == FunctionKind::Function {
            self.report(Diagnostic::new(DiagnosticCode::BadPointerAttribute, span, "`.ptr` describes parameters of kernels only"));
        }
        self.require_version("`.ptr`", span, 2, 2);
        let mut pointer = PointerAttribute { target: None, align: None };
        if let Some(opaque) = opaque_type(self.lexer.text()) {
            self.require_version("a kernel's pointer to a texture, sampler or surface", self.span(), 4, 3);
            pointer.target = Some(PointerTarget::Opaque(opaque));
            self.lexer.advance();
        } else if let Some(DeclaredPlace::Memory(space)) = place_of(self.lexer.text()) {
            if !matches!(space, StateSpace::Const | StateSpace::Global | StateSpace::Local | StateSpace::Shared) {
                return self.error(
                    DiagnosticCode::BadPointerAttribute,
                    self.span(),
                    "a kernel's pointer points into `.global`, `.const`, `.shared` or `.local`",
                );
            }
            pointer.target = Some(PointerTarget::Space(space));
            self.lexer.advance();
        }
        if self.eat_directive(".align") {
            pointer.align = Some(self.parse_alignment()?);
        }
        Ok(pointer)
    }

    fn check_linkage(&mut self, function: &Function, span: Span, has_body: bool) {
        if function.linkage == Linkage::Extern && has_body {
            let text = self.module.names.resolve(function.name).to_string();
            let finding = Diagnostic::new(DiagnosticCode::ExternWithBody, span, format!("`{text}` is `.extern` and has a body"))
                .help("`.extern` is for functions of other modules; `.visible` makes this one known to them");
            self.report(finding);
        }
    }

    /// Adds a function to the scope at `depth` and compares it with earlier declarations.
    fn declare_function(&mut self, function: &Function, id: FunctionId, span: Span, has_body: bool, depth: u32) {
        let name = function.name;
        let text = self.module.names.resolve(name).to_string();
        match self.globals.functions.get(&name).copied() {
            None => {
                // A parameter may have the function's name and hides it, so only module scope is searched.
                let global = self.symbols.plain(name).filter(|entry| entry.depth == 0);
                if let Some(before) = global.filter(|entry| matches!(entry.symbol, Symbol::Variable(_))) {
                    let finding = Diagnostic::new(DiagnosticCode::InconsistentDeclaration, span, format!("`{text}` is already a variable"))
                        .related(before.span, "declared here");
                    self.report(finding);
                    return;
                }
                self.globals.functions.insert(
                    name,
                    super::module::KnownFunction { id, span, defined: has_body, first_extern: function.linkage == Linkage::Extern },
                );
                self.globals.function_order.push(name);
            }
            Some(known) => {
                let before = &self.module.functions[known.id];
                if known.defined {
                    let finding = Diagnostic::new(DiagnosticCode::DuplicateFunction, span, format!("`{text}` is already defined"))
                        .related(known.span, "defined here");
                    self.report(finding);
                    return;
                }
                if let Some(difference) = self.prototype_difference(before, function) {
                    let finding = Diagnostic::new(
                        DiagnosticCode::InconsistentPrototype,
                        span,
                        format!("`{text}` was declared differently: {difference}"),
                    )
                    .related(known.span, "declared here");
                    self.report(finding);
                }
                let known = self.globals.functions.entry(name).or_insert(known);
                known.defined |= has_body;
                if has_body {
                    known.id = id;
                    known.span = span;
                }
            }
        }
        self.symbols.replace_at(name, Symbol::Function(id), span, depth);
    }

    /// Returns a description of the first difference between two declarations of a function.
    fn prototype_difference(&self, before: &Function, now: &Function) -> Option<&'static str> {
        if before.kind != now.kind {
            return Some("one is a kernel, the other is not");
        }
        let linkage_fits = before.linkage == now.linkage || before.linkage == Linkage::Visible && now.linkage == Linkage::Internal;
        if !linkage_fits {
            return Some("the linkage differs");
        }
        if before.bounds.noreturn != now.bounds.noreturn {
            return Some("only one is `.noreturn`");
        }
        if (before.bounds.abi_preserve, before.bounds.abi_preserve_control) != (now.bounds.abi_preserve, now.bounds.abi_preserve_control) {
            return Some("the preserved registers differ");
        }
        self.signature_difference((&before.returns, &before.parameters), (&now.returns, &now.parameters))
    }

    /// Returns a description of the first difference between two signatures, each a pair of return values and parameters.
    pub(super) fn signature_difference(
        &self,
        before: (&[Parameter], &[Parameter]),
        now: (&[Parameter], &[Parameter]),
    ) -> Option<&'static str> {
        if before.0.len() != now.0.len() || before.1.len() != now.1.len() {
            return Some("the number of parameters differs");
        }
        let pairs = before.0.iter().zip(now.0).chain(before.1.iter().zip(now.1));
        pairs.filter_map(|(before, now)| self.parameter_difference(before, now)).next()
    }

    /// Returns a description of the difference between two parameters.
    fn parameter_difference(&self, before: &Parameter, now: &Parameter) -> Option<&'static str> {
        match (before, now) {
            (Parameter::Register { ty: a, lanes: m, .. }, Parameter::Register { ty: b, lanes: n, .. }) => {
                ((a, m) != (b, n)).then_some("parameter types differ")
            }
            (Parameter::Variable(a), Parameter::Variable(b)) => {
                let (a, b) = (&self.module.variables[*a], &self.module.variables[*b]);
                if (a.ty, a.lanes, &a.dimensions) != (b.ty, b.lanes, &b.dimensions) {
                    Some("parameter types differ")
                } else if a.align_bytes() != b.align_bytes() {
                    Some("parameter alignments differ")
                } else {
                    None
                }
            }
            _ => Some("parameter state spaces differ"),
        }
    }
}
