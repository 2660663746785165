//! Parses the part of a declaration before the names: state space, alignment, attributes, vector and type.

use super::{Parse, Parser};
use crate::ast::{Attribute, FunctionKind, Linkage, VariableType};
use crate::diag::{Diagnostic, DiagnosticCode};
use crate::lexer::TokenKind;
use crate::source::Span;
use crate::table::Modifier;
use crate::target::{PtxVersion, Requirement, Suffix, TargetNeed};
use crate::types::{ScalarType, StateSpace};

/// The largest alignment of a variable, in bytes.
const LARGEST_ALIGNMENT: u64 = 1 << 31;

/// The part of a declaration before the names.
pub(super) struct Specifiers {
    pub linkage: Linkage,
    /// `.reg` or a state space; `None` if it is missing.
    pub space: Option<DeclaredPlace>,
    pub align: Option<u64>,
    pub attributes: Vec<Attribute>,
    /// Number of elements of the vector type; 1 for a scalar.
    pub lanes: u8,
    pub ty: VariableType,
    /// Position of the first word.
    pub span: Span,
    /// Position of the type.
    pub type_span: Span,
}

/// The place of a declared object: a register or a state space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum DeclaredPlace {
    Register,
    Memory(StateSpace),
}

/// Returns the place that a directive names; `None` if it names none.
pub(super) fn place_of(directive: &str) -> Option<DeclaredPlace> {
    Some(match directive {
        ".reg" => DeclaredPlace::Register,
        ".const" => DeclaredPlace::Memory(StateSpace::Const),
        ".global" => DeclaredPlace::Memory(StateSpace::Global),
        ".local" => DeclaredPlace::Memory(StateSpace::Local),
        ".param" => DeclaredPlace::Memory(StateSpace::Param),
        ".shared" => DeclaredPlace::Memory(StateSpace::Shared),
        ".tex" => DeclaredPlace::Memory(StateSpace::Tex),
        _ => return None,
    })
}

/// Returns the texture, sampler or surface type that a directive names.
pub(super) fn opaque_type(directive: &str) -> Option<VariableType> {
    match directive {
        ".texref" => Some(VariableType::Texture),
        ".samplerref" => Some(VariableType::Sampler),
        ".surfref" => Some(VariableType::Surface),
        _ => None,
    }
}

impl Parser<'_> {
    /// Parses state space, alignment, attributes, vector size and type.
    pub(super) fn parse_specifiers(&mut self, linkage: Linkage) -> Parse<Specifiers> {
        let span = self.span();
        let (mut space, mut align, mut attributes) = (None, None, Vec::new());
        loop {
            if self.eat_directive(".align") {
                align = Some(self.parse_alignment()?);
            } else if self.at_directive(".attribute") {
                self.parse_attributes(&mut attributes)?;
            } else if self.lexer.token.kind == TokenKind::Directive {
                match place_of(self.lexer.text()) {
                    Some(place) if space.is_none() => {
                        space = Some(place);
                        self.lexer.advance();
                        self.refuse_constant_bank(place)?;
                    }
                    Some(_) => {
                        return self.error(DiagnosticCode::MisplacedStateSpace, self.span(), "a declaration has only one state space");
                    }
                    None => break,
                }
            } else {
                break;
            }
        }
        if space.is_none() {
            return self.unexpected("a state space such as `.param`, `.global` or `.reg`");
        }
        let lanes = self.parse_vector_specifier()?;
        let type_span = self.span();
        let ty = self.parse_declared_type()?;
        let specifiers = Specifiers { linkage, space, align, attributes, lanes, ty, span, type_span };
        self.check_vector(&specifiers)?;
        Ok(specifiers)
    }

    fn refuse_constant_bank(&mut self, place: DeclaredPlace) -> Parse<()> {
        if place != DeclaredPlace::Memory(StateSpace::Const) || !self.at(b'[') {
            return Ok(());
        }
        let finding = Diagnostic::new(
            DiagnosticCode::RemovedFeature,
            self.span(),
            "constant banks are not supported; PTX version 2.2 took them away",
        )
        .help("declare the variable in `.const` without a bank");
        Err(self.report(finding))
    }

    /// Parses the number after `.align`: a power of two up to 2^31. ptxas uses the low 32 bits of the number, and its messages depend on
    /// them.
    pub(super) fn parse_alignment(&mut self) -> Parse<u64> {
        let (align, span) = self.expect_integer("an alignment")?;
        if align.is_power_of_two() && align <= LARGEST_ALIGNMENT {
            return Ok(align);
        }
        let message = match align.is_power_of_two() {
            true => format!("an alignment is at most {LARGEST_ALIGNMENT} bytes; {align} is more"),
            false => format!("an alignment is a power of two; {align} is not"),
        };
        let overflows = (u64::from(u32::MAX) + 1..=i64::MAX as u64).contains(&align);
        let is_odd = !(align as u32).is_power_of_two() || !overflows;
        let words = [overflows.then_some("Constant overflow"), is_odd.then_some("Alignment must be a power of two")];
        let finding =
            Diagnostic::new(DiagnosticCode::BadAlignment, span, message).ptxas(span, words.into_iter().flatten().map(str::to_owned));
        Err(self.report(finding))
    }

    /// Parses `.attribute(...)`.
    fn parse_attributes(&mut self, attributes: &mut Vec<Attribute>) -> Parse<()> {
        self.lexer.advance();
        self.expect(b'(', "`.attribute`")?;
        loop {
            let span = self.span();
            if self.eat_directive(".managed") {
                self.require("`.managed`", span, &MANAGED);
                attributes.push(Attribute::Managed);
            } else if self.eat_directive(".unified") {
                self.require("`.unified`", span, &UNIFIED);
                self.expect(b'(', "`.unified`")?;
                let (upper, _) = self.expect_integer("the upper half of a UUID")?;
                self.expect(b',', "the upper half of a UUID")?;
                let (lower, _) = self.expect_integer("the lower half of a UUID")?;
                self.expect(b')', "the halves of a UUID")?;
                attributes.push(Attribute::Unified(upper, lower));
            } else {
                return self.error(DiagnosticCode::BadAttribute, span, "the attributes are `.managed` and `.unified`");
            }
            if !self.eat(b',') {
                return self.expect(b')', "the attributes");
            }
        }
    }

    /// Parses the attributes of a function header.
    pub(super) fn parse_function_attributes(&mut self) -> Parse<Vec<Attribute>> {
        let mut attributes = Vec::new();
        let span = self.span();
        while self.at_directive(".attribute") {
            self.parse_attributes(&mut attributes)?;
        }
        if attributes.contains(&Attribute::Managed) {
            return self.error(DiagnosticCode::BadAttribute, span, "functions cannot be `.managed`");
        }
        Ok(attributes)
    }

    /// Parses `.v2` or `.v4`; returns the number of elements, 1 if there is no specifier.
    pub(super) fn parse_vector_specifier(&mut self) -> Parse<u8> {
        let span = self.span();
        let lanes = match self.lexer.token.kind {
            TokenKind::Directive => match self.lexer.text() {
                ".v2" => 2,
                ".v4" => 4,
                ".v3" | ".v8" => {
                    return self.error(
                        DiagnosticCode::BadVectorType,
                        span,
                        "variables are vectors of two (`.v2`) or four (`.v4`) elements",
                    );
                }
                _ => return Ok(1),
            },
            _ => return Ok(1),
        };
        self.lexer.advance();
        Ok(lanes)
    }

    /// Parses a type that variables and registers can have.
    pub(super) fn parse_declared_type(&mut self) -> Parse<VariableType> {
        let span = self.span();
        if self.lexer.token.kind != TokenKind::Directive {
            let found = self.describe_token();
            return match self.bad_token() {
                Some(bad) => Err(self.report(bad)),
                None => self.error(DiagnosticCode::MissingType, span, format!("expected a type such as `.b32`, found {found}")),
            };
        }
        let text = self.lexer.text();
        let ty = match opaque_type(text) {
            Some(opaque) => opaque,
            None => match Modifier::from_spelling(&text[1..]).and_then(Modifier::scalar_type) {
                Some(ty) if ty.is_declarable() => VariableType::Scalar(ty),
                Some(ty) => {
                    let finding = Diagnostic::new(
                        DiagnosticCode::UndeclarableType,
                        span,
                        format!("`{text}` is the type of an instruction, not of a variable"),
                    )
                    .help(format!("declare it as `.b{}`", ty.bits().max(8).next_power_of_two()));
                    return Err(self.report(finding));
                }
                None => {
                    let types =
                        Modifier::ALL.iter().filter(|m| m.scalar_type().is_some_and(ScalarType::is_declarable)).map(|m| m.spelling());
                    let near = oriole_support::closest(&text[1..], types).map(|near| format!("did you mean `.{near}`?"));
                    let finding = Diagnostic::new(DiagnosticCode::MissingType, span, format!("`{text}` is not a type")).maybe_help(near);
                    return Err(self.report(finding));
                }
            },
        };
        self.lexer.advance();
        match ty {
            VariableType::Scalar(ScalarType::B128) => self.require("`.b128`", span, &B128),
            VariableType::Scalar(ScalarType::F16x2) => self.require("`.f16x2`", span, &F16X2),
            VariableType::Scalar(_) => {}
            VariableType::Texture | VariableType::Sampler | VariableType::Surface => self.require_version(&format!("`{text}`"), span, 1, 5),
        }
        Ok(ty)
    }

    /// Checks that a vector type is allowed and has at most 128 bits.
    pub(super) fn check_vector(&mut self, specifiers: &Specifiers) -> Parse<()> {
        if specifiers.lanes == 1 {
            return Ok(());
        }
        let span = specifiers.type_span;
        match specifiers.ty {
            VariableType::Scalar(ScalarType::Pred) => {
                self.error(DiagnosticCode::BadPredicateDeclaration, span, "predicates are scalar registers; there are no vectors of them")
            }
            VariableType::Scalar(ty) if ty.bits() * u32::from(specifiers.lanes) > 128 => self.error(
                DiagnosticCode::BadVectorType,
                span,
                format!("a vector has at most 128 bits; this one has {}", ty.bits() * u32::from(specifiers.lanes)),
            ),
            VariableType::Scalar(_) => Ok(()),
            _ => self.error(DiagnosticCode::BadVectorType, span, "there are no vectors of textures, samplers or surfaces"),
        }
    }

    /// Checks that the state space is allowed here, at module scope or in a function.
    pub(super) fn check_place(&mut self, specifiers: &Specifiers) {
        let span = specifiers.span;
        let in_function = self.function.active;
        let version = self.platform.version;
        let old = version.major < 3;
        let finding = match (specifiers.space, in_function) {
            (Some(DeclaredPlace::Register | DeclaredPlace::Memory(StateSpace::Local)), false) if !old => {
                Diagnostic::new(DiagnosticCode::MisplacedStateSpace, span, "registers and local memory belong to functions, not to modules")
                    .help("move the declaration into the function that uses it")
            }
            (Some(DeclaredPlace::Memory(StateSpace::Param)), false) => {
                Diagnostic::new(DiagnosticCode::MisplacedStateSpace, span, "`.param` variables belong to functions, not to modules")
            }
            (Some(DeclaredPlace::Memory(StateSpace::Param)), true) if version.major < 2 => match self.function.kind {
                Some(FunctionKind::Entry) if version < PtxVersion::new(1, 4) => return,
                _ => Diagnostic::new(
                    DiagnosticCode::MisplacedStateSpace,
                    span,
                    "before PTX version 2.0 `.param` variables are parameters of kernels only",
                )
                .help("declare it in the parameter list of the kernel"),
            },
            (Some(DeclaredPlace::Memory(StateSpace::Tex)), false) if version < PtxVersion::new(1, 5) => return,
            (Some(DeclaredPlace::Memory(StateSpace::Tex)), true) if version < PtxVersion::new(1, 5) => {
                Diagnostic::new(DiagnosticCode::MisplacedStateSpace, span, "textures are declared at module scope")
            }
            (Some(DeclaredPlace::Memory(StateSpace::Tex)), _) => {
                Diagnostic::new(DiagnosticCode::RemovedFeature, span, "the `.tex` space was removed in PTX version 1.5")
                    .help("declare a `.global .texref`")
            }
            _ => return,
        };
        self.report(finding);
    }
}

pub(super) const fn needs(major: u8, minor: u8, targets: &'static [TargetNeed]) -> Requirement {
    Requirement { version: PtxVersion::new(major, minor), targets }
}

pub(super) const fn at_least(number: u16) -> TargetNeed {
    TargetNeed { number, suffix: Suffix::Plain, version: PtxVersion::new(1, 0) }
}

static MANAGED: Requirement = needs(4, 0, &[at_least(30)]);
static UNIFIED: Requirement = needs(8, 0, &[at_least(90)]);
static B128: Requirement = needs(8, 3, &[at_least(70)]);
static F16X2: Requirement = needs(4, 2, &[at_least(53)]);
