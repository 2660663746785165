//! Parses declarations of registers and variables: `.reg .b32 %r<10>;`, `.shared .align 16 .b8 tile[256];`.

use oriole_support::{Index, Name};

use super::specifiers::{DeclaredPlace, Specifiers};
use super::symbols::{RegisterSymbol, Symbol};
use super::{Parse, Parser};
use crate::ast::{Linkage, RegisterDeclaration, RegisterId, Statement, TextureMode, Variable, VariableId, VariableType};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::source::Span;
use crate::types::{ScalarType, StateSpace};

/// Limit on the bytes of initial values in a module, which bounds the size of the output file.
const MOST_INITIAL_BYTES: u128 = 512 << 20;
/// Limit on the bytes of variables of a module: addresses have 64 bits, and differences of addresses are signed.
pub(super) const MOST_BYTES: u128 = 1 << 63;

/// A declared name with its count (`%r<10>`) or array dimensions.
pub(super) struct Declarator {
    pub name: Name,
    pub span: Span,
    pub count: Option<u32>,
    pub dimensions: Vec<Option<u64>>,
}

impl Parser<'_> {
    /// Parses a declaration up to and including the `;`, at module scope or in a function.
    pub(super) fn parse_declaration(&mut self, linkage: Linkage) -> Parse<()> {
        let start = self.span();
        let specifiers = self.parse_specifiers(linkage)?;
        self.require_linkage(linkage, start);
        self.check_place(&specifiers);
        if self.eat(b';') {
            return Ok(());
        }
        loop {
            let declarator = self.parse_declarator()?;
            match specifiers.space {
                Some(DeclaredPlace::Register) => self.declare_register(&specifiers, declarator)?,
                _ => self.declare_variable(&specifiers, declarator)?,
            }
            if !self.eat(b',') {
                break;
            }
        }
        self.expect(b';', "the declaration")
    }

    /// Checks that the PTX version has the linking directive.
    pub(super) fn require_linkage(&mut self, linkage: Linkage, span: Span) {
        match linkage {
            Linkage::Weak => self.require_version("`.weak`", span, 3, 1),
            Linkage::Common => self.require_version("`.common`", span, 5, 0),
            Linkage::Internal | Linkage::Extern | Linkage::Visible => {}
        }
    }

    /// Parses a name with its count or array dimensions.
    pub(super) fn parse_declarator(&mut self) -> Parse<Declarator> {
        let span = self.expect_identifier("a name")?;
        self.check_name(span)?;
        let name = self.intern(span);
        let mut declarator = Declarator { name, span, count: None, dimensions: Vec::new() };
        if self.eat(b'<') {
            let (count, count_span) = self.expect_integer("the number of names")?;
            declarator.count = match u32::try_from(count) {
                Ok(count) => Some(count),
                Err(_) => return self.error(DiagnosticCode::BadNameCount, count_span, "at most 2^32-1 names can be declared at once"),
            };
            self.expect(b'>', "the number of names")?;
            if self.at(b'[') {
                return self.error(DiagnosticCode::BadArray, self.span(), "names declared with `<N>` cannot be arrays");
            }
            if self.at(b'=') {
                return self.error(
                    DiagnosticCode::InitializerNotAllowed,
                    self.span(),
                    "variables declared with `<N>` have no initial value",
                );
            }
        }
        while self.at(b'[') {
            let open = self.span();
            self.lexer.advance();
            if self.at(b']') {
                if !declarator.dimensions.is_empty() {
                    return self.error(
                        DiagnosticCode::BadArray,
                        open.to(self.span()),
                        "only the first dimension of an array may be left out",
                    );
                }
                declarator.dimensions.push(None);
            } else {
                let (size, _) = self.expect_integer("the size of the array")?;
                declarator.dimensions.push(Some(size).filter(|&size| size > 0));
            }
            self.expect(b']', "the size of the array")?;
        }
        Ok(declarator)
    }

    /// Rejects names that cannot be declared: `_`, `%` and `$` alone, the constant `WARP_SZ`, and the keywords of `.loc`.
    pub(super) fn check_name(&mut self, span: Span) -> Parse<()> {
        let text = self.lexer.str(span);
        if matches!(text, "_" | "%" | "$" | "WARP_SZ" | "function_name" | "inlined_at") {
            let finding =
                Diagnostic::new(DiagnosticCode::BadName, span, format!("`{text}` cannot be declared")).help("choose another name");
            return Err(self.report(finding));
        }
        Ok(())
    }

    /// Declares the registers of one name.
    fn declare_register(&mut self, specifiers: &Specifiers, declarator: Declarator) -> Parse<()> {
        if !declarator.dimensions.is_empty() {
            let finding = Diagnostic::new(DiagnosticCode::RegisterArray, declarator.span, "registers cannot be arrays")
                .help("declare `name<8>` for eight registers, or an array in `.local` memory");
            return Err(self.report(finding));
        }
        let VariableType::Scalar(ty) = specifiers.ty else {
            return self.error(
                DiagnosticCode::BadOpaqueDeclaration,
                specifiers.type_span,
                "textures, samplers and surfaces cannot be registers",
            );
        };
        if self.at(b'=') {
            return self.error(DiagnosticCode::InitializerNotAllowed, self.span(), "registers have no initial value");
        }
        let declaration =
            self.add_register(declarator.name, declarator.span, ty, specifiers.lanes, declarator.count, specifiers.align, false);
        if let Some(declaration) = declaration {
            self.push_statement(Statement::Registers(declaration), specifiers.span);
        }
        Ok(())
    }

    /// Adds registers to the body and the symbol table. Returns `None` if the name is already declared or there are too many registers.
    #[allow(clippy::too_many_arguments, reason = "the parts of one declaration")]
    pub(super) fn add_register(
        &mut self,
        name: Name,
        span: Span,
        ty: ScalarType,
        lanes: u8,
        count: Option<u32>,
        align: Option<u64>,
        is_parameter: bool,
    ) -> Option<crate::ast::RegisterDeclarationId> {
        let first = RegisterId::new(self.function.body.register_count as usize);
        let Some(total) = self.function.body.register_count.checked_add(count.unwrap_or(1)) else {
            self.report(Diagnostic::new(DiagnosticCode::BadNameCount, span, "a function has at most 2^32-1 registers"));
            return None;
        };
        if self.clashes_with_label(name, count, span) {
            return None;
        }
        let symbol = Symbol::Register(RegisterSymbol { register: first, ty, lanes });
        let declared = match count {
            Some(count) => self.symbols.declare_range(&self.module.names, name, symbol, count, span),
            None => self.symbols.declare(&self.module.names, name, symbol, span),
        };
        if let Err(before) = declared {
            self.report_duplicate(name, span, before);
            return None;
        }
        self.function.body.register_count = total;
        let declaration = RegisterDeclaration { name, ty, lanes, align, count, first, is_parameter };
        Some(self.function.body.registers.push(declaration))
    }

    /// Reports an error and returns true if a label of this scope has the name. Parameterized names do not conflict with labels.
    fn clashes_with_label(&mut self, name: Name, count: Option<u32>, span: Span) -> bool {
        let label = self.function.labels.defined_here(name).filter(|_| count.is_none());
        if let Some(before) = label {
            self.report_duplicate(name, span, before);
        }
        label.is_some()
    }

    pub(super) fn report_duplicate(&mut self, name: Name, span: Span, before: Span) {
        let text = self.module.names.resolve(name);
        let finding = Diagnostic::new(DiagnosticCode::DuplicateName, span, format!("`{text}` is already declared in this scope"))
            .related(before, "declared here first");
        self.report(finding);
    }

    /// Declares a variable and parses its initial value.
    fn declare_variable(&mut self, specifiers: &Specifiers, declarator: Declarator) -> Parse<()> {
        let Some(DeclaredPlace::Memory(space)) = specifiers.space else { return Ok(()) };
        self.check_variable(specifiers, space, &declarator);
        // Before PTX 1.5, `.tex .u32 t` declared what `.global .texref t` declares today.
        let (space, ty) = match space {
            StateSpace::Tex => (StateSpace::Global, VariableType::Texture),
            _ => (space, specifiers.ty),
        };
        let mut variable = Variable {
            name: declarator.name,
            space,
            ty,
            lanes: specifiers.lanes,
            dimensions: declarator.dimensions,
            align: specifiers.align,
            linkage: specifiers.linkage,
            attributes: specifiers.attributes.clone(),
            count: declarator.count,
            initializer: None,
            pointer: None,
        };
        if self.at(b'=') {
            self.parse_initializer(&mut variable, declarator.span)?;
        }
        self.check_completeness(&variable, declarator.span);
        self.add_variable(variable, declarator.span, specifiers.span);
        Ok(())
    }

    /// Adds a variable to the module and the symbol table.
    fn add_variable(&mut self, variable: Variable, span: Span, statement: Span) {
        let (name, count) = (variable.name, variable.count);
        if self.clashes_with_label(name, count, span) {
            return;
        }
        let id = VariableId::new(self.module.variables.len());
        let symbol = Symbol::Variable(id);
        let declared = match count {
            Some(count) => self.symbols.declare_range(&self.module.names, name, symbol, count, span),
            None => self.symbols.declare(&self.module.names, name, symbol, span),
        };
        if let Err(before) = declared {
            if !self.merge_declarations(&variable, span, before) {
                return;
            }
            self.symbols.replace(name, symbol, span);
        }
        self.count_constants(&variable, span);
        self.count_bytes(&variable, span);
        let id = self.module.variables.push(variable);
        if self.function.active {
            self.push_statement(Statement::Variable(id), statement);
        } else {
            self.module.items.push(crate::ast::Item::Variable(id));
        }
    }

    /// Adds the size of a `.const` variable to the total, and reports an error when the total exceeds 64 KiB.
    fn count_constants(&mut self, variable: &Variable, span: Span) {
        const MOST: u128 = 64 * 1024;
        if variable.space != StateSpace::Const {
            return;
        }
        let before = self.globals.constant_bytes;
        let start = before.next_multiple_of(u128::from(variable.align_bytes().max(1)));
        let total = start.saturating_add(declared_bytes(variable)).min(MOST_BYTES);
        self.globals.constant_bytes = total;
        if before <= MOST && total > MOST {
            let message = format!("a module has at most 64 KiB of `.const` variables; with this one it has {total} bytes");
            self.report(Diagnostic::new(DiagnosticCode::TooMuchConstantData, span, message));
        }
    }

    /// Adds the size of a variable to the totals, and reports an error when 64-bit arithmetic or the output file could overflow.
    fn count_bytes(&mut self, variable: &Variable, span: Span) {
        let bytes = declared_bytes(variable);
        let total = self.globals.variable_bytes.saturating_add(bytes).saturating_add(u128::from(variable.align_bytes().saturating_sub(1)));
        if self.globals.variable_bytes < MOST_BYTES && total >= MOST_BYTES {
            let message = format!("variables take less than 2^63 bytes; with this one they take {total}");
            self.report(Diagnostic::new(DiagnosticCode::BadArray, span, message));
        }
        self.globals.variable_bytes = total;
        if variable.initializer.is_none() {
            return;
        }
        let before = self.globals.initial_bytes;
        let total = before.saturating_add(bytes);
        self.globals.initial_bytes = total;
        if before <= MOST_INITIAL_BYTES && total > MOST_INITIAL_BYTES {
            let message = format!("initial values take at most {MOST_INITIAL_BYTES} bytes; with this one they take {total}");
            let finding = Diagnostic::new(DiagnosticCode::BadArray, span, message)
                .help("declare the variable without an initial value, and set its elements when the program starts");
            self.report(finding);
        }
    }

    /// Checks a second declaration of a variable at module scope against the first. An `.extern` variable may be declared repeatedly and
    /// then defined. Returns false if the second declaration must be dropped.
    fn merge_declarations(&mut self, variable: &Variable, span: Span, before_span: Span) -> bool {
        let before = self.symbols.plain(variable.name).map(|entry| entry.symbol);
        let Some(Symbol::Variable(before)) = before.filter(|_| !self.function.active) else {
            self.report_duplicate(variable.name, span, before_span);
            return false;
        };
        let before = &self.module.variables[before];
        let text = self.module.names.resolve(variable.name);
        let is_extern = |variable: &Variable| variable.linkage == Linkage::Extern;
        if !is_extern(before) && !is_extern(variable) {
            self.report_duplicate(variable.name, span, before_span);
            return false;
        }
        let same_length = before.dimensions.len() == variable.dimensions.len()
            && before.dimensions.iter().zip(&variable.dimensions).all(|(a, b)| a.is_none() || b.is_none() || a == b);
        let finding = if (before.ty, before.lanes) != (variable.ty, variable.lanes) || !same_length {
            Diagnostic::new(DiagnosticCode::InconsistentDeclaration, span, format!("`{text}` was declared with another type"))
        } else if [before.linkage, variable.linkage].contains(&Linkage::Internal) {
            Diagnostic::new(
                DiagnosticCode::InconsistentDeclaration,
                span,
                format!("an `.extern` variable cannot be resolved by `{text}`, which has no linkage"),
            )
            .help("declare it `.visible` or `.weak`")
        } else {
            return true;
        };
        let finding = finding.related(before_span, "declared here first");
        self.report(finding);
        true
    }

    /// Checks type, attributes, linkage and alignment of a variable against its state space.
    fn check_variable(&mut self, specifiers: &Specifiers, space: StateSpace, declarator: &Declarator) {
        let span = declarator.span;
        let finding = match specifiers.ty {
            VariableType::Scalar(ScalarType::U32 | ScalarType::U64) if space == StateSpace::Tex && declarator.dimensions.is_empty() => None,
            _ if space == StateSpace::Tex => Some(Diagnostic::new(
                DiagnosticCode::BadOpaqueDeclaration,
                specifiers.type_span,
                "`.tex` variables are single values of `.u32` or `.u64`",
            )),
            VariableType::Scalar(ScalarType::Pred) => {
                Some(Diagnostic::new(DiagnosticCode::BadPredicateDeclaration, specifiers.type_span, "predicates live in registers only"))
            }
            VariableType::Scalar(_) if specifiers.lanes > 1 && space == StateSpace::Param => Some(
                Diagnostic::new(DiagnosticCode::BadVectorType, specifiers.type_span, "`.param` variables cannot be vectors")
                    .help("declare an aligned array of `.b8`"),
            ),
            VariableType::Scalar(ScalarType::F16x2) if space == StateSpace::Param => Some(
                Diagnostic::new(DiagnosticCode::UndeclarableType, specifiers.type_span, "`.param` variables cannot be `.f16x2`")
                    .help("declare it as `.b32`"),
            ),
            VariableType::Scalar(_) => None,
            _ if space != StateSpace::Global => Some(Diagnostic::new(
                DiagnosticCode::BadOpaqueDeclaration,
                specifiers.type_span,
                "textures, samplers and surfaces are `.global` variables or kernel parameters",
            )),
            _ if self.function.active => Some(Diagnostic::new(
                DiagnosticCode::BadOpaqueDeclaration,
                specifiers.type_span,
                "textures, samplers and surfaces are declared at module scope",
            )),
            VariableType::Sampler if self.module.options.texture_mode != Some(TextureMode::Independent) => {
                Some(self.sampler_in_unified_mode(specifiers.type_span))
            }
            _ => None,
        };
        if let Some(finding) = finding {
            self.report(finding);
        }
        if !specifiers.attributes.is_empty() && space != StateSpace::Global {
            self.report(Diagnostic::new(DiagnosticCode::BadAttribute, span, "only `.global` variables can be `.managed` or `.unified`"));
        }
        if specifiers.linkage == Linkage::Common && space != StateSpace::Global {
            self.report(Diagnostic::new(DiagnosticCode::BadLinkage, span, "only `.global` variables can be `.common`"));
        } else if specifiers.linkage == Linkage::Common && !matches!(specifiers.ty, VariableType::Scalar(_)) {
            self.report(Diagnostic::new(DiagnosticCode::BadLinkage, span, "textures, samplers and surfaces cannot be `.common`"));
        }
        if let Some(align) = specifiers.align.filter(|&align| align > 128 && space == StateSpace::Param) {
            let message = format!("`.param` variables of a function are aligned to at most 128 bytes, not {align}");
            let words = illegal_alignment(self.module.names.resolve(declarator.name));
            self.report(Diagnostic::new(DiagnosticCode::BadAlignment, specifiers.span, message).ptxas(specifiers.span, [words]));
        }
    }

    pub(super) fn sampler_in_unified_mode(&self, span: Span) -> Diagnostic {
        Diagnostic::new(DiagnosticCode::TextureModeConflict, span, "samplers exist in independent texture mode only")
            .help("write `.target ..., texmode_independent`, or use the sampler inside the texture")
    }

    fn check_completeness(&mut self, variable: &Variable, span: Span) {
        let incomplete = variable.dimensions.first().is_some_and(Option::is_none);
        let inner = variable.dimensions.iter().skip(1).any(Option::is_none);
        let text = self.module.names.resolve(variable.name).to_string();
        if inner {
            self.report(Diagnostic::new(DiagnosticCode::BadArray, span, format!("only the first dimension of `{text}` may be left out")));
        } else if incomplete && variable.linkage != Linkage::Extern && variable.initializer.is_none() {
            let finding = Diagnostic::new(DiagnosticCode::IncompleteArray, span, format!("the array `{text}` has no length"))
                .help("give it a length or an initial value, or declare it `.extern`");
            self.report(finding);
        }
    }

    /// Declares a parameter in the current scope and adds it to the module.
    pub(super) fn declare_parameter_variable(&mut self, variable: Variable, span: Span) -> Parse<VariableId> {
        let name = variable.name;
        let id = VariableId::new(self.module.variables.len());
        if let Err(before) = self.symbols.declare(&self.module.names, name, Symbol::Variable(id), span) {
            self.report_duplicate(name, span, before);
        }
        Ok(self.module.variables.push(variable))
    }
}

/// Returns the number of bytes of all variables in a declaration.
fn declared_bytes(variable: &Variable) -> u128 {
    variable.size_bytes().unwrap_or(0).saturating_mul(u128::from(variable.count.unwrap_or(1)))
}

/// Returns ptxas' message for a parameter with an alignment that the ABI does not allow.
pub(super) fn illegal_alignment(name: &str) -> String {
    format!("Parameter '{name}' has illegal alignment (must be aligned to 1, 2, 4, 8, 16, 32, 64, or 128 bytes)")
}
