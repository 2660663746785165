//! The list of all errors and warnings. Codes are stable: scripts may depend on them. The doc comment of a code is its summary for users.

/// The severity of a finding.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Severity {
    /// The module is not valid.
    Error,
    /// The module is valid, but part of it is questionable.
    Warning,
}

macro_rules! codes {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// The kind of a finding.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum DiagnosticCode {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl DiagnosticCode {
            /// All codes.
            pub const ALL: &'static [DiagnosticCode] = &[$(DiagnosticCode::$variant,)+];

            /// Returns the stable name: `E0101` or `W0001`.
            pub fn name(self) -> &'static str {
                match self {
                    $(DiagnosticCode::$variant => $name,)+
                }
            }

            /// Returns the description of the code.
            pub fn summary(self) -> &'static str {
                match self {
                    $(DiagnosticCode::$variant => concat!($($doc),+).trim_ascii(),)+
                }
            }
        }
    };
}

codes! {
    // Text.
    /// A byte that PTX does not use.
    BadCharacter = "E0101",
    /// A byte outside ASCII, outside of comments.
    NonAscii = "E0102",
    /// A comment that does not end.
    UnterminatedComment = "E0103",
    /// A string that does not end.
    UnterminatedString = "E0104",
    /// Digits that are no number.
    BadNumber = "E0105",
    /// A number that is out of range.
    IntegerOverflow = "E0106",
    /// Something else was expected here.
    Expected = "E0107",
    /// The file ends in the middle of something.
    UnexpectedEnd = "E0108",
    /// The file is larger than Oriole can address.
    FileTooLarge = "E0109",
    // Module header.
    /// The module does not start with `.version`.
    MissingVersion = "E0201",
    /// The version is not known.
    UnknownVersion = "E0202",
    /// The module has no `.target` after `.version`.
    MissingTarget = "E0203",
    /// The target is not known.
    UnknownTarget = "E0204",
    /// The target needs a later PTX version.
    TargetNeedsVersion = "E0205",
    /// A target option contradicts another or the target.
    ConflictingTargetOption = "E0206",
    /// `.address_size` is neither 32 nor 64.
    BadAddressSize = "E0207",
    /// 32-bit addressing is gone.
    AddressSize32 = "E0208",
    /// A directive stands where it is not allowed.
    MisplacedDirective = "E0209",
    /// A directive that PTX does not have.
    UnknownDirective = "E0210",
    /// An instruction outside a function.
    InstructionOutsideFunction = "E0211",
    /// `.target debug` without debug information.
    MissingDebugInformation = "E0212",
    /// A deprecated feature that this version no longer has.
    RemovedFeature = "E0213",
    // Declarations.
    /// The name is already declared in this scope.
    DuplicateName = "E0301",
    /// The type cannot be declared.
    UndeclarableType = "E0302",
    /// A declaration without a type.
    MissingType = "E0303",
    /// The alignment is not a power of two, or out of range.
    BadAlignment = "E0304",
    /// The state space is not allowed here.
    MisplacedStateSpace = "E0305",
    /// A predicate outside a scalar register.
    BadPredicateDeclaration = "E0306",
    /// A vector type that is too wide, or not possible here.
    BadVectorType = "E0307",
    /// Registers cannot be arrays.
    RegisterArray = "E0308",
    /// Array dimensions that are not possible.
    BadArray = "E0309",
    /// The array has no length and nothing that gives it one.
    IncompleteArray = "E0310",
    /// A texture, sampler or surface that cannot be declared like this.
    BadOpaqueDeclaration = "E0311",
    /// The declaration contradicts an earlier one.
    InconsistentDeclaration = "E0312",
    /// The linking directive is not allowed here.
    BadLinkage = "E0313",
    /// A name that cannot be used here.
    BadName = "E0314",
    /// The number of parameterized names is out of range.
    BadNameCount = "E0315",
    /// Too much constant memory.
    TooMuchConstantData = "E0316",
    /// An attribute that is unknown or not allowed here.
    BadAttribute = "E0317",
    // Initial values and constant expressions.
    /// This variable cannot have an initial value.
    InitializerNotAllowed = "E0401",
    /// More values than the variable has elements.
    TooManyInitializers = "E0402",
    /// The value does not fit the variable's type.
    InitializerTypeMismatch = "E0403",
    /// A vector needs exactly as many values as it has elements.
    InitializerVectorLength = "E0404",
    /// The symbol cannot be used as an initial value.
    BadInitializerSymbol = "E0405",
    /// The byte mask is not one of the allowed ones.
    BadInitializerMask = "E0406",
    /// Unknown field or value of a texture, sampler or surface.
    BadOpaqueInitializer = "E0407",
    /// Integers and floats do not mix in constant expressions.
    ConstantTypeMismatch = "E0408",
    /// Division by zero in a constant expression.
    ConstantDivisionByZero = "E0409",
    /// The constant expression is nested too deeply.
    ConstantTooDeep = "E0410",
    /// A name in a constant expression.
    NotConstant = "E0411",
    // Functions.
    /// The function is already defined.
    DuplicateFunction = "E0501",
    /// The declaration does not agree with an earlier one.
    InconsistentPrototype = "E0502",
    /// The function is declared and never defined.
    UndefinedFunction = "E0503",
    /// A parameter in the wrong state space.
    BadParameterSpace = "E0504",
    /// Return parameters that are not possible.
    BadReturnParameters = "E0505",
    /// The parameters take more space than there is.
    TooManyParameters = "E0506",
    /// A launch bound that is zero or malformed.
    BadLaunchBound = "E0507",
    /// Directives that contradict each other.
    ConflictingDirectives = "E0508",
    /// A directive that needs another one.
    MissingCompanionDirective = "E0509",
    /// `.ptr` where it is not allowed.
    BadPointerAttribute = "E0510",
    /// `.noreturn` where it is not allowed.
    BadNoReturn = "E0511",
    /// `.alias` that is not possible.
    BadAlias = "E0512",
    /// `.extern` function with a body.
    ExternWithBody = "E0513",
    /// An unknown `.pragma` string.
    UnknownPragma = "W0514",
    /// A launch bound without the one that it needs to have an effect.
    IgnoredLaunchBound = "W0515",
    // Statements, scopes, labels.
    /// The label is already defined in this scope.
    DuplicateLabel = "E0601",
    /// The label is not defined.
    UndefinedLabel = "E0602",
    /// A closing brace without an opening one.
    UnbalancedBrace = "E0603",
    /// The guard is not a predicate.
    BadGuard = "E0604",
    /// Something that cannot be guarded.
    GuardNotAllowed = "E0605",
    /// A list of targets that is not possible.
    BadTargetList = "E0606",
    /// Scopes nested beyond the limit.
    ScopesTooDeep = "E0607",
    // Heads of instructions.
    /// No instruction has this name.
    UnknownInstruction = "E0701",
    /// No instruction has this modifier.
    UnknownModifier = "E0702",
    /// This instruction does not have this modifier.
    ModifierNotAllowed = "E0703",
    /// A modifier is written twice, or two of the same kind.
    DuplicateModifier = "E0704",
    /// A modifier that must be there is not.
    MissingModifier = "E0705",
    /// These modifiers do not go together.
    ModifierConflict = "E0706",
    /// Modifiers are not in the manual's order.
    ModifierOrder = "W0707",
    /// A form that ptxas takes and the manual does not have.
    Undocumented = "W0708",
    /// A modifier that is written twice without harm.
    RepeatedModifier = "W0709",
    // Operands.
    /// Too few or too many operands.
    OperandCount = "E0801",
    /// The operand is of the wrong kind.
    OperandKind = "E0802",
    /// The register's type does not fit.
    OperandType = "E0803",
    /// The immediate's type does not fit.
    ImmediateType = "E0804",
    /// The immediate is out of range.
    ImmediateRange = "E0805",
    /// The vector has the wrong number of elements.
    VectorLength = "E0806",
    /// The name is not declared.
    UnknownName = "E0807",
    /// `_` where a value is needed.
    SinkNotAllowed = "E0808",
    /// A special register where it is not allowed.
    SpecialRegisterNotAllowed = "E0809",
    /// An address in the wrong state space.
    AddressSpaceMismatch = "E0810",
    /// An address of a form that is not possible.
    BadAddress = "E0811",
    /// The address register has the wrong width.
    AddressRegisterType = "E0812",
    /// An absolute address in a space that has none.
    ImmediateAddress = "E0813",
    /// A predicate that cannot be negated here.
    NegationNotAllowed = "E0814",
    /// A selector that this operand does not have.
    BadSelector = "E0815",
    /// A component that the register does not have.
    BadComponent = "E0816",
    /// A pair `d|p` where there is none.
    PairNotAllowed = "E0817",
    /// An operand that must be an immediate.
    ImmediateRequired = "E0818",
    /// An operand that must be a register.
    RegisterRequired = "E0819",
    /// A parameter that is only written or only read here.
    BadParameterAccess = "E0820",
    // Versions and targets.
    /// The feature needs a later PTX version.
    NeedsVersion = "E0901",
    /// The feature needs another target.
    NeedsTarget = "E0902",
    /// The feature is gone in this version on this target.
    Removed = "E0903",
    /// The texture mode does not allow this.
    TextureModeConflict = "E0904",
    // Calls.
    /// The callee is not a function.
    NotAFunction = "E1001",
    /// A kernel cannot be called.
    CallOfEntry = "E1002",
    /// Wrong number of arguments.
    ArgumentCount = "E1003",
    /// An argument does not fit its parameter.
    ArgumentType = "E1004",
    /// Wrong number of return values.
    ReturnCount = "E1005",
    /// The return value does not fit.
    ReturnType = "E1006",
    /// An indirect call without prototype or target list.
    MissingPrototype = "E1007",
    /// Not a prototype or list of call targets.
    BadPrototype = "E1008",
    // Debug information.
    /// A `.loc` that refers to no `.file`.
    UnknownFileIndex = "W1101",
    /// A malformed debug directive.
    BadDebugDirective = "E1102",
    /// A `.file` index used twice for different files.
    DuplicateFileIndex = "E1103",
    // Code generation.
    /// A feature of PTX that Oriole cannot compile yet.
    Unsupported = "E1201",
    /// Something that the machine or the options do not have enough of.
    ResourceLimit = "E1202",
    /// A mistake in Oriole itself; please report it.
    InternalError = "E1203",
}

impl DiagnosticCode {
    /// Returns the severity of findings with this code.
    pub fn severity(self) -> Severity {
        if self.name().starts_with('W') { Severity::Warning } else { Severity::Error }
    }
}
