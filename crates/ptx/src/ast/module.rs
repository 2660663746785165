//! Modules: directives, variables and functions.

use oriole_support::{IndexVec, Interner, Name, define_index};

use super::body::{Body, Constant, RegisterDeclarationId};
use super::form::{Form, FormId};
use crate::target::{PtxVersion, Target};
use crate::types::{ScalarType, StateSpace};

define_index!(
    /// A variable at module scope or in a function, or a parameter.
    pub struct VariableId,
    "var"
);
define_index!(
    /// A declaration or definition of a function.
    pub struct FunctionId,
    "func"
);

/// A PTX module.
#[derive(Clone)]
pub struct Module {
    /// The version in `.version`.
    pub version: PtxVersion,
    /// The target in `.target`.
    pub target: Target,
    /// The options after the target in `.target`.
    pub options: TargetOptions,
    /// The size in `.address_size`; `None` if the directive is absent.
    pub address_size: Option<u8>,
    /// The interner of all names.
    pub names: Interner,
    /// The distinct instruction forms.
    pub forms: IndexVec<FormId, Form>,
    /// All variables.
    pub variables: IndexVec<VariableId, Variable>,
    /// All functions, one entry per declaration and definition.
    pub functions: IndexVec<FunctionId, Function>,
    /// The declarations and directives at module scope, in order.
    pub items: Vec<Item>,
}

/// Options of `.target`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TargetOptions {
    /// `texmode_unified` or `texmode_independent`.
    pub texture_mode: Option<TextureMode>,
    /// `debug`.
    pub debug: bool,
    /// `map_f64_to_f32`.
    pub map_f64_to_f32: bool,
}

/// Whether textures and samplers are separate objects.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextureMode {
    /// A texture reference includes its sampler.
    Unified,
    /// Samplers are separate.
    Independent,
}

/// A declaration or directive at module scope.
#[derive(Clone, PartialEq, Debug)]
pub enum Item {
    /// A variable.
    Variable(VariableId),
    /// A function.
    Function(FunctionId),
    /// `.alias`.
    Alias(Alias),
    /// `.file`.
    File {
        /// The number by which `.loc` refers to the file.
        index: u32,
        /// The name of the file.
        name: Box<str>,
        /// Time stamp and size, if they are given.
        stamp: Option<(u64, u64)>,
    },
    /// `.section`.
    Section(DwarfSection),
    /// `@@dwarf`, as text.
    Dwarf(Box<str>),
    /// `.pragma`.
    Pragma(Vec<Box<str>>),
}

/// `.alias name, aliasee`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alias {
    /// The new name.
    pub name: Name,
    /// The function that the name refers to.
    pub target: Name,
}

/// `.section .debug_info { ... }`.
#[derive(Clone, PartialEq, Debug)]
pub struct DwarfSection {
    /// The name of the section, with its dot.
    pub name: Box<str>,
    /// The contents, in order.
    pub items: Vec<DwarfItem>,
    /// The numbers of all [`DwarfItem::Integers`], concatenated, little-endian.
    pub data: Vec<u8>,
}

/// A part of a DWARF section.
#[derive(Clone, PartialEq, Debug)]
pub enum DwarfItem {
    /// `label:`.
    Label(Name),
    /// `.b8 1, 2, 3`: size of each number in bytes and number of numbers, over any number of lines. Debug information consists mostly of
    /// these, so the numbers are stored as bytes in [`DwarfSection::data`].
    Integers(u8, u32),
    /// `.b32 label` or `.b64 label+offset`: size in bytes, label, offset.
    Label64(u8, Name, i64),
    /// `.b32 a-b`: size in bytes and two labels.
    Difference(u8, Name, Name),
}

/// The linkage of a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Linkage {
    Internal,
    Extern,
    Visible,
    Weak,
    Common,
}

/// The element type of a variable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum VariableType {
    /// A value.
    Scalar(ScalarType),
    /// `.texref`.
    Texture,
    /// `.samplerref`.
    Sampler,
    /// `.surfref`.
    Surface,
}

/// `.attribute(...)`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attribute {
    /// `.managed`.
    Managed,
    /// `.unified(upper, lower)`.
    Unified(u64, u64),
}

/// A variable.
#[derive(Clone, PartialEq, Debug)]
pub struct Variable {
    /// The name.
    pub name: Name,
    /// The state space.
    pub space: StateSpace,
    /// The type of an element.
    pub ty: VariableType,
    /// Number of elements of the vector type: 1, 2 or 4.
    pub lanes: u8,
    /// Array dimensions; `None` for `[]`.
    pub dimensions: Vec<Option<u64>>,
    /// The alignment in `.align`, in bytes.
    pub align: Option<u64>,
    /// The linkage.
    pub linkage: Linkage,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// The number of variables in a parameterized declaration; `None` for a single variable.
    pub count: Option<u32>,
    /// The initial value.
    pub initializer: Option<Box<Initializer>>,
    /// The `.ptr` attribute of a kernel parameter.
    pub pointer: Option<PointerAttribute>,
}

impl Variable {
    /// Returns the size in bytes; `None` for an array of unknown length and for textures, samplers and surfaces, whose size the driver
    /// knows.
    pub fn size_bytes(&self) -> Option<u128> {
        let VariableType::Scalar(ty) = self.ty else { return None };
        let element = u128::from(ty.bytes()) * u128::from(self.lanes);
        self.dimensions.iter().try_fold(element, |size, &dimension| Some(size.saturating_mul(u128::from(dimension?))))
    }

    /// Returns the alignment in bytes: the one in `.align`, or that of an element.
    pub fn align_bytes(&self) -> u64 {
        let natural = match self.ty {
            VariableType::Scalar(ty) => u64::from(ty.bytes()) * u64::from(self.lanes),
            _ => 8,
        };
        self.align.unwrap_or(natural)
    }
}

/// The object that a `.ptr` parameter points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PointerTarget {
    /// Memory of this state space.
    Space(StateSpace),
    /// A texture, sampler or surface.
    Opaque(VariableType),
}

/// `.ptr .global .align 16` of a kernel parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointerAttribute {
    /// The object that the parameter points to, if given.
    pub target: Option<PointerTarget>,
    /// The alignment of that object in bytes.
    pub align: Option<u64>,
}

/// An initial value.
#[derive(Clone, PartialEq, Debug)]
pub enum Initializer {
    /// A number.
    Constant(Constant),
    /// `{...}`.
    List(Vec<Initializer>),
    /// The address of a variable or function, optionally converted to a generic address, optionally one byte of it.
    Address {
        /// The symbol.
        symbol: Name,
        /// Number of bytes added to the address.
        offset: i64,
        /// Whether `generic()` is written.
        generic: bool,
        /// The mask of `0xFF00(symbol)`, which selects a byte.
        mask: Option<u64>,
    },
    /// One byte of a number: `0xFF(n)`.
    MaskedNumber {
        /// The mask.
        mask: u64,
        /// The number.
        value: i64,
    },
    /// Fields of a texture, sampler or surface.
    Opaque(Vec<OpaqueField>),
}

/// A field of a texture, sampler or surface initializer.
#[derive(Clone, PartialEq, Debug)]
pub struct OpaqueField {
    /// The name of the field.
    pub name: Name,
    /// The value: a number or a name.
    pub value: Result<i64, Name>,
}

/// A kernel or a device function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FunctionKind {
    /// `.entry`.
    Entry,
    /// `.func`.
    Function,
}

/// A parameter.
#[derive(Clone, PartialEq, Debug)]
pub enum Parameter {
    /// `.param`.
    Variable(VariableId),
    /// `.reg`, in a function with a body or in a prototype.
    Register {
        /// The name.
        name: Name,
        /// The type.
        ty: ScalarType,
        /// Number of vector elements.
        lanes: u8,
        /// The declaration in the body; `None` in a prototype.
        declaration: Option<RegisterDeclarationId>,
    },
}

/// A function.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// The name.
    pub name: Name,
    /// `.entry` or `.func`.
    pub kind: FunctionKind,
    /// The linkage.
    pub linkage: Linkage,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// Return parameters.
    pub returns: Vec<Parameter>,
    /// Parameters.
    pub parameters: Vec<Parameter>,
    /// Whether the header has a parameter list, which may be empty.
    pub has_parameter_list: bool,
    /// Launch bounds and other directives of the header.
    pub bounds: LaunchBounds,
    /// The body; `None` for a declaration.
    pub body: Option<Box<Body>>,
}

/// Performance-tuning and cluster directives.
#[derive(Clone, Default, PartialEq, Debug)]
pub struct LaunchBounds {
    /// `.maxntid`.
    pub max_threads: Option<Vec<u32>>,
    /// `.reqntid`.
    pub required_threads: Option<Vec<u32>>,
    /// `.minnctapersm`.
    pub min_blocks_per_sm: Option<u32>,
    /// `.maxnctapersm`.
    pub max_blocks_per_sm: Option<u32>,
    /// `.maxnreg`.
    pub max_registers: Option<u32>,
    /// `.noreturn`.
    pub noreturn: bool,
    /// `.explicitcluster`.
    pub explicit_cluster: bool,
    /// `.reqnctapercluster`.
    pub required_cluster: Option<Vec<u32>>,
    /// `.maxclusterrank`.
    pub max_cluster_rank: Option<u32>,
    /// `.blocksareclusters`.
    pub blocks_are_clusters: bool,
    /// `.abi_preserve`.
    pub abi_preserve: Option<u32>,
    /// `.abi_preserve_control`.
    pub abi_preserve_control: Option<u32>,
    /// `.pragma` strings between the header and the body.
    pub pragmas: Vec<Box<str>>,
}

impl Module {
    /// Returns the text of a name.
    pub fn name(&self, name: Name) -> &str {
        self.names.resolve(name)
    }
}
