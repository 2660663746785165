//! Modules: directives, variables and functions.

use oriole_support::{IndexVec, Interner, Name, define_index};

use super::body::{Body, Constant, RegisterDeclarationId};
use super::form::{Form, FormId};
use crate::target::{PtxVersion, Target};
use crate::types::{ScalarType, StateSpace};

define_index!(
    /// A variable: at module scope, in a function, or a parameter.
    pub struct VariableId,
    "var"
);
define_index!(
    /// A function, declared or defined.
    pub struct FunctionId,
    "func"
);

/// A PTX module.
#[derive(Clone)]
pub struct Module {
    /// From `.version`.
    pub version: PtxVersion,
    /// From `.target`.
    pub target: Target,
    /// The other names after `.target`.
    pub options: TargetOptions,
    /// From `.address_size`, if it is written.
    pub address_size: Option<u8>,
    /// All names.
    pub names: Interner,
    /// All instruction forms.
    pub forms: IndexVec<FormId, Form>,
    /// All variables.
    pub variables: IndexVec<VariableId, Variable>,
    /// All functions, one for each declaration and definition.
    pub functions: IndexVec<FunctionId, Function>,
    /// What stands at module scope, in order.
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

/// How textures and samplers relate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextureMode {
    /// A texture reference holds its sampler.
    Unified,
    /// Samplers are separate.
    Independent,
}

/// Something at module scope.
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
        /// The index that `.loc` uses.
        index: u32,
        /// The file's name.
        name: Box<str>,
        /// Time stamp and size, if they are written.
        stamp: Option<(u64, u64)>,
    },
    /// `.section`.
    Section(DwarfSection),
    /// `@@dwarf`, kept as text.
    Dwarf(Box<str>),
    /// `.pragma`.
    Pragma(Vec<Box<str>>),
}

/// `.alias name, aliasee`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alias {
    /// The new name.
    pub name: Name,
    /// The function it stands for.
    pub target: Name,
}

/// `.section .debug_info { ... }`.
#[derive(Clone, PartialEq, Debug)]
pub struct DwarfSection {
    /// The section's name with its dot.
    pub name: Box<str>,
    /// What is in it.
    pub items: Vec<DwarfItem>,
    /// The numbers of all [`DwarfItem::Integers`] one after the other, little-endian.
    pub data: Vec<u8>,
}

/// A part of a DWARF section.
#[derive(Clone, PartialEq, Debug)]
pub enum DwarfItem {
    /// `label:`.
    Label(Name),
    /// `.b8 1, 2, 3`: size of each number in bytes and how many there are, over any number of lines. Debug information is
    /// mostly this, so the numbers themselves are kept as the bytes they stand for.
    Integers(u8, u32),
    /// `.b32 label` or `.b64 label+offset`: size in bytes, label, offset.
    Label64(u8, Name, i64),
    /// `.b32 a-b`: size in bytes and two labels.
    Difference(u8, Name, Name),
}

/// Who sees a symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Linkage {
    Internal,
    Extern,
    Visible,
    Weak,
    Common,
}

/// A variable's type.
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
    /// Its name.
    pub name: Name,
    /// Where it lives.
    pub space: StateSpace,
    /// Its element's type.
    pub ty: VariableType,
    /// Number of elements of its vector type: 1, 2 or 4.
    pub lanes: u8,
    /// Array dimensions; `[]` is none.
    pub dimensions: Vec<Option<u64>>,
    /// From `.align`.
    pub align: Option<u64>,
    /// Who sees it.
    pub linkage: Linkage,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// The count of a parameterized declaration.
    pub count: Option<u32>,
    /// Its initial value.
    pub initializer: Option<Box<Initializer>>,
    /// `.ptr` of a kernel parameter.
    pub pointer: Option<PointerAttribute>,
}

impl Variable {
    /// The size in bytes; none for an array of unknown length and for textures, whose size is the driver's matter.
    pub fn size_bytes(&self) -> Option<u128> {
        let VariableType::Scalar(ty) = self.ty else { return None };
        let element = u128::from(ty.bytes()) * u128::from(self.lanes);
        self.dimensions.iter().try_fold(element, |size, &dimension| Some(size.saturating_mul(u128::from(dimension?))))
    }

    /// The alignment: as written, else that of the element.
    pub fn align_bytes(&self) -> u64 {
        let natural = match self.ty {
            VariableType::Scalar(ty) => u64::from(ty.bytes()) * u64::from(self.lanes),
            _ => 8,
        };
        self.align.unwrap_or(natural)
    }
}

/// What a `.ptr` parameter points to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PointerTarget {
    /// Memory of a space.
    Space(StateSpace),
    /// A texture, sampler or surface.
    Opaque(VariableType),
}

/// `.ptr .global .align 16` of a kernel parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PointerAttribute {
    /// What it points to, if written.
    pub target: Option<PointerTarget>,
    /// The alignment of what it points to.
    pub align: Option<u64>,
}

/// An initial value.
#[derive(Clone, PartialEq, Debug)]
pub enum Initializer {
    /// A number.
    Constant(Constant),
    /// `{...}`.
    List(Vec<Initializer>),
    /// The address of a variable or function, possibly as a generic address, possibly one byte of it.
    Address {
        /// The symbol.
        symbol: Name,
        /// Added to the address.
        offset: i64,
        /// Whether `generic()` is written.
        generic: bool,
        /// The mask of `0xFF00(symbol)`.
        mask: Option<u64>,
    },
    /// A byte of a number: `0xFF(n)`.
    MaskedNumber {
        /// The mask.
        mask: u64,
        /// The number.
        value: i64,
    },
    /// Fields of a texture or sampler.
    Opaque(Vec<OpaqueField>),
}

/// A field of a texture, sampler or surface initializer.
#[derive(Clone, PartialEq, Debug)]
pub struct OpaqueField {
    /// The field's name.
    pub name: Name,
    /// Its value: a number or a name.
    pub value: Result<i64, Name>,
}

/// Kernel or device function.
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
    /// `.reg` of a function with a body or of a prototype: name, type, vector elements, and the declaration in the body.
    Register {
        /// Its name.
        name: Name,
        /// Its type.
        ty: ScalarType,
        /// Number of vector elements.
        lanes: u8,
        /// The declaration in the body.
        declaration: Option<RegisterDeclarationId>,
    },
}

/// A function.
#[derive(Clone, PartialEq, Debug)]
pub struct Function {
    /// Its name.
    pub name: Name,
    /// `.entry` or `.func`.
    pub kind: FunctionKind,
    /// Who sees it.
    pub linkage: Linkage,
    /// Attributes.
    pub attributes: Vec<Attribute>,
    /// Return parameters.
    pub returns: Vec<Parameter>,
    /// Parameters.
    pub parameters: Vec<Parameter>,
    /// Whether a parameter list is written at all.
    pub has_parameter_list: bool,
    /// Launch bounds and other directives of the header.
    pub bounds: LaunchBounds,
    /// The body; none for a declaration.
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
    /// `.pragma` strings between header and body.
    pub pragmas: Vec<Box<str>>,
}

impl Module {
    /// The text of a name.
    pub fn name(&self, name: Name) -> &str {
        self.names.resolve(name)
    }
}
