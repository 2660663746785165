//! Builds a cubin from its parts.
//!
//! [`Module::build`] arranges functions and variables as ptxas 13.0.88 does for the target: the sections, their order, symbols, names,
//! alignments, relocations and program headers. `tests/rebuild.rs` and `tests/linkage.rs` compare the result with ptxas' files.
//! `docs/abi.md` describes the conventions for the code inside.
//!
//! Parts refer to each other by name, as in PTX. Names are resolved when the module is built; an unknown name is an error.
//!
//! A kernel that exits:
//!
//! ```
//! use oriole_cubin::build::{FrameInfo, Function, Module, kernel_attributes};
//! use oriole_cubin::info::{Attribute, AttributeCode};
//! use oriole_cubin::FileTraits;
//! use oriole_support::Target;
//!
//! let traits = FileTraits::of(Target::parse("sm_90").unwrap()).unwrap();
//! let exits = Attribute::words(AttributeCode::EXIT_INSTR_OFFSETS, [0x10]);
//! let kernel = Function {
//!     code: vec![0; 256], // the machine code
//!     registers: 4,
//!     attributes: kernel_attributes(&traits, &[], vec![exits]),
//!     frame: FrameInfo::plain(256),
//!     ..Function::kernel("nothing")
//! };
//! let bytes = Module::new(traits, vec![kernel]).build()?.write()?;
//! # assert_eq!(oriole_cubin::Cubin::read(&bytes)?.kernels().next().unwrap().name, "nothing");
//! # Ok::<(), oriole_cubin::Error>(())
//! ```
//!
//! A kernel that calls a function and the driver's `vprintf`, with a format string in global memory. The driver fills in
//! addresses when it loads the file; for an object that nvlink takes, set `file_type` to `Relocatable` and give the
//! functions their prototypes.
//!
//! ```
//! use oriole_cubin::build::{CodePatch, CodeRelocation, Extern, FrameInfo, Function, Home, Linkage, Module, Variable};
//! use oriole_cubin::build::{function_attributes, kernel_attributes};
//! use oriole_cubin::FileTraits;
//! use oriole_support::Target;
//!
//! let traits = FileTraits::of(Target::parse("sm_90a").unwrap()).unwrap();
//! let patch = |offset, kind, symbol: &str, addend| CodeRelocation { offset, kind, symbol: symbol.into(), addend };
//! let kernel = Function {
//!     code: vec![0; 512],
//!     registers: 24,
//!     relocations: vec![
//!         patch(0x10, CodePatch::AddressLow, "main", 0x40), // MOV R20, the return address
//!         patch(0x20, CodePatch::AddressHigh, "main", 0x40), // MOV R21
//!         patch(0x30, CodePatch::Call, "square", 0), // CALL.ABS.NOINC
//!         patch(0x40, CodePatch::AddressLow, "format", 0),
//!         patch(0x50, CodePatch::AddressHigh, "format", 0),
//!         patch(0x80, CodePatch::Call, "vprintf", 0),
//!     ],
//!     calls: vec!["square".into(), "vprintf".into()],
//!     externs: vec!["vprintf".into()],
//!     attributes: kernel_attributes(&traits, &[], vec![]),
//!     frame: FrameInfo::plain(512),
//!     ..Function::kernel("main")
//! };
//! let function = Function {
//!     code: vec![0; 128],
//!     registers: 24,
//!     attributes: function_attributes(&traits, vec![]),
//!     frame: FrameInfo::function(128),
//!     ..Function::device("square")
//! };
//! let mut module = Module::new(traits, vec![function, kernel]);
//! module.variables.push(Variable { linkage: Linkage::Local, ..Variable::new("format", Home::Initialized(b"%d\n\0".to_vec()), 4, 1) });
//! module.externs.push(Extern::function("vprintf"));
//! module.place_variables();
//! module.settle_calls();
//! let bytes = module.build()?.write()?;
//! # assert_eq!(oriole_cubin::Cubin::read(&bytes)?.functions().count(), 2);
//! # Ok::<(), oriole_cubin::Error>(())
//! ```

mod assemble;
mod attributes;
mod calls;
mod debug;
mod frame;
mod images;
mod names;
mod patches;
mod relocations;
mod roles;
mod segments;
mod settle;
mod symbols;

pub use attributes::{function_attributes, kernel_attributes, kernel_attributes_with};
pub use debug::{DebugRelocation, DebugSection, DebugSymbol};
pub use frame::{Cie, FrameInfo, PlacedFrame, SavedPlace, SavedRule, decode as decode_frames};
pub use images::{Image, ImageKind, ImageParameter, ImageWord};
pub use patches::{CodePatch, CodeRelocation, DataPatch, DataRelocation};
pub use settle::TensorMemory;

use crate::bytes::align_up;
use crate::compat::CompatAttribute;
use crate::cubin::{Cubin, FileType};
use crate::error::Result;
use crate::info::{Attribute, AttributeCode};
use crate::note::ToolInfo;
use crate::relocation::Relocation;
use crate::runner::{Runner, run_in_order};
use crate::target::FileTraits;

/// The parts of a cubin.
#[derive(Clone, Debug)]
pub struct Module {
    pub traits: FileTraits,
    /// Executable, or relocatable for nvlink.
    pub file_type: FileType,
    /// The SM in the `.target` of the PTX source.
    pub virtual_sm: u16,
    /// Ten times the toolkit version.
    pub toolkit: u32,
    pub tool: ToolInfo,
    /// Functions in file order, which for ptxas is the reverse of the source order.
    pub functions: Vec<Function>,
    /// Variables in any order; ptxas has those with [`Linkage::Global`] first.
    pub variables: Vec<Variable>,
    /// Functions and variables that are used here and defined elsewhere.
    pub externs: Vec<Extern>,
    /// Attributes of `.nv.compat` that replace the default ones: the newer instructions that the code uses. Hopper and later.
    pub compat: Vec<CompatAttribute>,
    /// Names of the variables and functions whose addresses constant bank 4 holds, eight bytes each.
    pub addresses: Vec<String>,
    /// Texture, sampler and surface references, in the order of their symbols.
    pub images: Vec<Image>,
    /// Whether samplers are separate from textures: `texmode_independent`.
    pub has_independent_samplers: bool,
    /// Whether the code asks at run time whether a handle is that of a texture, a sampler or a surface (`istypep`).
    pub asks_image_types: bool,
    /// Whether exits wait for errors of memory accesses, which each function then has an attribute for.
    pub waits_for_errors_at_exit: bool,
    /// Whether the shared memory of kernels starts at address 0, without a part that the system reserves.
    pub without_shared_reservation: bool,
    /// Debug sections besides `.debug_frame`, in file order.
    pub debug: Vec<DebugSection>,
    /// Variables in reserved shared memory, besides the one that every file of the target has.
    pub reserved_variables: Vec<ReservedVariable>,
}

/// A variable in the shared memory that the system reserves; sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedVariable {
    pub name: &'static str,
    pub size: u64,
    pub alignment: u64,
}

/// The visibility of a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// Visible in this module only.
    Local,
    /// `.visible`
    Global,
    /// `.weak`: the linker keeps one of several equal definitions.
    Weak,
}

/// A kernel, or a device function with its own code section.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub is_kernel: bool,
    pub linkage: Linkage,
    pub code: Vec<u8>,
    pub registers: u8,
    pub frame_size: u32,
    /// Stack size of a kernel in an executable file, including everything that it calls; [`UNKNOWN_STACK`] if calls are recursive or
    /// indirect.
    pub min_stack_size: u32,
    /// Content of `.nv.info.NAME`; see [`kernel_attributes`] and [`function_attributes`].
    pub attributes: Vec<Attribute>,
    /// Names of the undefined functions that it calls, for `EIATTR_EXTERNS`.
    pub externs: Vec<String>,
    /// Size in bytes of the parameters in constant bank 0; kernels only.
    pub parameter_bytes: u16,
    /// Whether the parameters have the layout for more than [`crate::target::SMALL_PARAMETER_BYTES`]. Gaps that alignment causes only because
    /// of the offset of the parameters in the bank do not count.
    pub has_large_parameters: bool,
    pub shared: Option<Shared>,
    /// Words of constant bank 0 after the parameters that the driver fills with the numbers of textures, samplers and surfaces.
    pub image_words: Vec<ImageWord>,
    /// The parameters that are textures, samplers or surfaces.
    pub image_parameters: Vec<ImageParameter>,
    /// Content of constant bank 2: tables of branch targets.
    pub constants: Option<Constants>,
    pub relocations: Vec<CodeRelocation>,
    /// Whether relocations were already applied to the code, so that an empty relocation section remains. Hopper and later.
    pub had_relocations: bool,
    /// Functions inside the code of this one.
    pub subroutines: Vec<Subroutine>,
    /// Names of the functions that it calls directly.
    pub calls: Vec<String>,
    /// Prototypes of the functions that it calls through pointers.
    pub indirect_calls: Vec<String>,
    /// Names of the functions whose addresses it takes, in code or through variables that it uses.
    pub takes_address_of: Vec<String>,
    /// Prototype for the linker: `#` and letters for result and parameters, see `docs/abi.md`.
    pub prototype: Option<String>,
    /// Whether its address is taken.
    pub is_address_taken: bool,
    pub frame: FrameInfo,
    /// The Mercury form, on Blackwell. The file has SASS only unless every kernel has a capsule.
    pub capsule: Option<Capsule>,
}

/// `min_stack_size` of a kernel whose stack size is unknown.
pub const UNKNOWN_STACK: u32 = u32::MAX;

/// A function inside the code section of a kernel: ptxas puts a copy of each function into every kernel that calls it.
#[derive(Clone, Debug)]
pub struct Subroutine {
    /// Name of the symbol: `$KERNEL$NAME`.
    pub name: String,
    pub linkage: Linkage,
    pub offset: u64,
    pub size: u64,
    /// Value of `EIATTR_FRAME_SIZE`.
    pub frame_size: Option<u32>,
    pub frame: Option<FrameInfo>,
}

/// The shared memory that a function declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Size in bytes, without the part that the system reserves.
    ///
    /// In executable files, a kernel with dynamic shared memory only has a `Shared` of size 0.
    pub size: u64,
    pub alignment: u64,
    /// The variables, in relocatable files, where the linker assigns their addresses.
    pub variables: Vec<SharedVariable>,
}

/// A variable in the shared memory of a function; sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVariable {
    pub name: String,
    pub size: u64,
    pub alignment: u64,
}

/// Compiler-generated constants of one function, in constant bank 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constants {
    pub bytes: Vec<u8>,
    pub alignment: u64,
    /// Parts that the code refers to: name, offset, size.
    pub symbols: Vec<(String, u64, u64)>,
    /// Whether an empty section for relocations remains. Hopper and later.
    pub had_relocations: bool,
}

/// A variable of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub home: Home,
    /// Offset in its section; see [`Module::place_variables`].
    pub offset: u64,
    pub size: u64,
    pub alignment: u64,
    pub linkage: Linkage,
    pub is_managed: bool,
    /// Addresses in its initial value.
    pub relocations: Vec<DataRelocation>,
}

/// The section of a variable, with its initial value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// `.nv.global`: initialized to zero.
    Zero,
    /// `.nv.global.init`
    Initialized(Vec<u8>),
    /// `.nv.constant3`
    Constant(Vec<u8>),
    /// Shared memory outside any function, used by functions of a relocatable file.
    Shared,
    /// `.common`: the linker keeps the largest of all definitions and assigns its address.
    Common,
}

/// A function or variable that is defined in another file or by the driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extern {
    pub name: String,
    pub kind: ExternKind,
    /// Prototype of a function.
    pub prototype: Option<String>,
    /// Whether the address of a function is taken.
    pub is_address_taken: bool,
}

/// The kind of an external symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternKind {
    Function,
    /// A kernel: `.extern .entry`.
    Kernel,
    /// A variable in global memory, with its size in bytes.
    Global(u64),
    /// A variable in constant bank 3, with its size in bytes.
    Constant(u64),
    /// Shared memory whose size is given at launch: `.extern .shared`.
    DynamicShared,
    /// A 32-bit number that the CUDA driver knows by this name.
    DriverNumber,
}

/// The Mercury form of a kernel. Its format is not public; it is copied unchanged.
#[derive(Clone, Debug)]
pub struct Capsule {
    pub bytes: Vec<u8>,
    /// Size of the function in the Mercury symbol table; not the size of `bytes`.
    pub size: u64,
    pub attributes: Vec<Attribute>,
    /// Relocations, with indices of the Mercury symbol table.
    pub relocations: Vec<Relocation>,
    pub frame: FrameInfo,
}

impl Module {
    /// Returns an executable module that names Oriole as its producer.
    pub fn new(traits: FileTraits, functions: Vec<Function>) -> Module {
        Module {
            traits,
            file_type: FileType::Executable,
            virtual_sm: traits.target.number(),
            toolkit: traits.toolkit(),
            tool: ToolInfo {
                version: 2,
                object: String::new(),
                tool: "oriole".into(),
                tool_version: format!("Oriole {}", env!("CARGO_PKG_VERSION")),
                branch: String::new(),
                arguments: format!("-arch {} ", traits.target),
            },
            functions,
            variables: Vec::new(),
            externs: Vec::new(),
            compat: Vec::new(),
            addresses: Vec::new(),
            images: Vec::new(),
            has_independent_samplers: false,
            asks_image_types: false,
            waits_for_errors_at_exit: false,
            without_shared_reservation: false,
            debug: Vec::new(),
            reserved_variables: Vec::new(),
        }
    }

    /// Returns the number of bytes of shared memory before the variables of a kernel, which the system reserves.
    pub fn reserved_shared(&self) -> u64 {
        if self.without_shared_reservation { 0 } else { self.traits.style.reserved_shared() }
    }

    /// Assigns each variable an offset in its section, those with the largest alignment first.
    pub fn place_variables(&mut self) {
        let mut order: Vec<usize> = (0..self.variables.len()).collect();
        order.sort_by_key(|&v| std::cmp::Reverse(self.variables[v].alignment));
        let mut ends: Vec<(roles::Role, u64)> = Vec::new();
        for v in order {
            let Some(home) = self.variables[v].home.role() else { continue };
            let known = ends.iter().position(|(role, _)| *role == home).unwrap_or_else(|| {
                ends.push((home, 0));
                ends.len() - 1
            });
            let variable = &mut self.variables[v];
            variable.offset = align_up(ends[known].1, variable.alignment);
            ends[known].1 = variable.offset.saturating_add(variable.size);
        }
    }

    /// Builds the file.
    pub fn build(&self) -> Result<Cubin> {
        self.build_with(&run_in_order)
    }

    /// Builds the file. `runner` runs the jobs that build the sections; it may use several threads.
    pub fn build_with(&self, runner: &Runner<'_>) -> Result<Cubin> {
        assemble::assemble(self, runner)
    }

    /// Returns whether the file is relocatable.
    pub fn is_relocatable(&self) -> bool {
        self.file_type == FileType::Relocatable
    }

    /// Returns whether the functions are patches, which tools insert into other programs.
    pub(crate) fn is_patch(&self) -> bool {
        let is_mark = |attribute: &Attribute| attribute.code == AttributeCode::TOOLS_PATCH_FUNC;
        self.functions.iter().any(|function| function.attributes.iter().any(is_mark))
    }
}

impl Function {
    /// Returns a visible kernel without code.
    pub fn kernel(name: impl Into<String>) -> Function {
        Function {
            name: name.into(),
            is_kernel: true,
            linkage: Linkage::Global,
            code: Vec::new(),
            registers: 0,
            frame_size: 0,
            min_stack_size: 0,
            attributes: Vec::new(),
            externs: Vec::new(),
            parameter_bytes: 0,
            has_large_parameters: false,
            shared: None,
            image_words: Vec::new(),
            image_parameters: Vec::new(),
            constants: None,
            relocations: Vec::new(),
            had_relocations: false,
            subroutines: Vec::new(),
            calls: Vec::new(),
            indirect_calls: Vec::new(),
            takes_address_of: Vec::new(),
            prototype: None,
            is_address_taken: false,
            frame: FrameInfo::plain(0),
            capsule: None,
        }
    }

    /// Returns a visible device function without code.
    pub fn device(name: impl Into<String>) -> Function {
        Function { is_kernel: false, frame: FrameInfo::function(0), ..Function::kernel(name) }
    }
}

impl Variable {
    /// Returns a visible variable.
    pub fn new(name: impl Into<String>, home: Home, size: u64, alignment: u64) -> Variable {
        Variable {
            name: name.into(),
            home,
            offset: 0,
            size,
            alignment,
            linkage: Linkage::Global,
            is_managed: false,
            relocations: Vec::new(),
        }
    }
}

impl Extern {
    pub fn new(name: impl Into<String>, kind: ExternKind) -> Extern {
        Extern { name: name.into(), kind, prototype: None, is_address_taken: false }
    }

    /// Returns an external function without a prototype.
    pub fn function(name: impl Into<String>) -> Extern {
        Extern::new(name, ExternKind::Function)
    }
}
