//! Making a cubin from its parts.
//!
//! [`Module::build`] arranges functions and variables the way ptxas 13.0.88 does for the target: which sections, in which
//! order, with which symbols, names, alignments, relocations and program headers. `tests/rebuild.rs` and
//! `tests/linkage.rs` compare with ptxas' own files, `docs/abi.md` says what the code inside has to look like.
//!
//! Everything refers to everything else by name, as PTX does; names are resolved when the module is built, and one that
//! is missing is an error.
//!
//! A kernel that exits:
//!
//! ```
//! use oriole_cubin::build::{Frame, Function, Module, kernel_attributes};
//! use oriole_cubin::info::{Attribute, Code};
//! use oriole_cubin::Target;
//!
//! let target = Target::named("sm_90").unwrap();
//! let exits = Attribute::words(Code::EXIT_INSTR_OFFSETS, [0x10]);
//! let kernel = Function {
//!     code: vec![0; 256], // the machine code
//!     registers: 4,
//!     attributes: kernel_attributes(target, &[], vec![exits]),
//!     frame: Frame::plain(256),
//!     ..Function::kernel("nothing")
//! };
//! let bytes = Module::new(target, vec![kernel]).build()?.write()?;
//! # assert_eq!(oriole_cubin::Cubin::read(&bytes)?.kernels().next().unwrap().name, "nothing");
//! # Ok::<(), oriole_cubin::Error>(())
//! ```
//!
//! A kernel that calls a function and the driver's `vprintf`, with a format string in global memory. The driver fills in
//! addresses when it loads the file; for an object that nvlink takes, set `file_type` to `Relocatable` and give the
//! functions their prototypes.
//!
//! ```
//! use oriole_cubin::build::{CodePatch, CodeRelocation, Extern, Frame, Function, Home, Linkage, Module, Variable};
//! use oriole_cubin::build::{function_attributes, kernel_attributes};
//! use oriole_cubin::Target;
//!
//! let target = Target::named("sm_90a").unwrap();
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
//!     attributes: kernel_attributes(target, &[], vec![]),
//!     frame: Frame::plain(512),
//!     ..Function::kernel("main")
//! };
//! let function = Function {
//!     code: vec![0; 128],
//!     registers: 24,
//!     attributes: function_attributes(target, vec![]),
//!     frame: Frame::function(128),
//!     ..Function::device("square")
//! };
//! let mut module = Module::new(target, vec![function, kernel]);
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
mod frame;
mod names;
mod patches;
mod relocations;
mod roles;
mod segments;
mod settle;
mod symbols;

pub use attributes::{API_VERSION, function_attributes, kernel_attributes};
pub use frame::{Cie, Frame, PlacedFrame, decode as decode_frames};
pub use patches::{CodePatch, CodeRelocation, DataPatch, DataRelocation};

use crate::bytes::align_up;
use crate::compat::CompatAttribute;
use crate::cubin::{Cubin, FileType};
use crate::error::Result;
use crate::info::Attribute;
use crate::note::ToolInfo;
use crate::relocation::Relocation;
use crate::target::Target;

/// All that goes into a cubin.
#[derive(Clone, Debug)]
pub struct Module {
    pub target: &'static Target,
    /// Ready to load, or for nvlink.
    pub file_type: FileType,
    /// The SM in the PTX' `.target`.
    pub virtual_sm: u16,
    /// Ten times the version of the toolkit.
    pub toolkit: u32,
    pub tool: ToolInfo,
    /// In the order of the file, which for ptxas is the reverse of the source's.
    pub functions: Vec<Function>,
    /// In any order; ptxas has those with [`Linkage::Global`] first.
    pub variables: Vec<Variable>,
    /// Functions and variables that are used here and defined elsewhere.
    pub externs: Vec<Extern>,
    /// For `.nv.compat`, in place of the usual: which newer instructions the code uses. From Hopper on.
    pub compat: Vec<CompatAttribute>,
    /// What constant bank 4 holds, eight bytes each: addresses of variables and functions.
    pub addresses: Vec<String>,
}

/// Who can see a symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linkage {
    /// This module only.
    Local,
    /// `.visible`
    Global,
    /// `.weak`: one of several equal definitions.
    Weak,
}

/// A kernel, or a function with a code section of its own.
#[derive(Clone, Debug)]
pub struct Function {
    pub name: String,
    pub is_kernel: bool,
    pub linkage: Linkage,
    pub code: Vec<u8>,
    pub registers: u8,
    pub frame_size: u32,
    /// Stack with everything that is called, of kernels in executable files; [`UNKNOWN_STACK`] if calls are recursive or
    /// indirect.
    pub min_stack_size: u32,
    /// For `.nv.info.NAME`; see [`kernel_attributes`] and [`function_attributes`].
    pub attributes: Vec<Attribute>,
    /// Functions without definition that it calls, for `EIATTR_EXTERNS`.
    pub externs: Vec<String>,
    /// Size of the parameters in constant bank 0; kernels only.
    pub parameter_bytes: u16,
    pub shared: Option<Shared>,
    /// Constant bank 2: tables of branch targets.
    pub constants: Option<Constants>,
    pub relocations: Vec<CodeRelocation>,
    /// Relocations were applied to the code; their section remains, empty. Hopper and later.
    pub had_relocations: bool,
    /// Functions within the code of this one.
    pub subroutines: Vec<Subroutine>,
    /// Functions that it calls by name.
    pub calls: Vec<String>,
    /// Prototypes of the functions that it calls through pointers.
    pub indirect_calls: Vec<String>,
    /// Functions whose addresses it takes, in code or through variables that it uses.
    pub takes_address_of: Vec<String>,
    /// For the linker: `#` and letters for result and parameters, see `docs/abi.md`.
    pub prototype: Option<String>,
    /// Something holds its address.
    pub is_address_taken: bool,
    pub frame: Frame,
    /// The Mercury form, on Blackwell. Without it in every kernel, the file has SASS only.
    pub capsule: Option<Capsule>,
}

/// `min_stack_size` of a kernel whose stack nobody knows.
pub const UNKNOWN_STACK: u32 = u32::MAX;

/// A function in the code section of a kernel: ptxas puts a copy of each into every kernel that calls it.
#[derive(Clone, Debug)]
pub struct Subroutine {
    /// As a symbol: `$KERNEL$NAME`.
    pub name: String,
    pub linkage: Linkage,
    pub offset: u64,
    pub size: u64,
    /// For `EIATTR_FRAME_SIZE`.
    pub frame_size: Option<u32>,
    pub frame: Option<Frame>,
}

/// Shared memory that a function declares.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Without what the system reserves.
    ///
    /// A kernel with dynamic shared memory only has a `Shared` of size 0, in executable files.
    pub size: u64,
    pub alignment: u64,
    /// In relocatable files, where the linker places them.
    pub variables: Vec<SharedVariable>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedVariable {
    pub name: String,
    pub size: u64,
    pub alignment: u64,
}

/// Constants of the compiler's own for one function, in bank 2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Constants {
    pub bytes: Vec<u8>,
    pub alignment: u64,
    /// Parts of it that code refers to: name, offset, size.
    pub symbols: Vec<(String, u64, u64)>,
    /// An empty section for its relocations remains. Hopper and later.
    pub had_relocations: bool,
}

/// A variable of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub home: Home,
    /// In its section; see [`Module::place_variables`].
    pub offset: u64,
    pub size: u64,
    pub alignment: u64,
    pub linkage: Linkage,
    pub is_managed: bool,
    /// Addresses among its first bytes.
    pub relocations: Vec<DataRelocation>,
}

/// The section that a variable lives in, with its first bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Home {
    /// `.nv.global`: zero at the start.
    Zero,
    /// `.nv.global.init`
    Initialized(Vec<u8>),
    /// `.nv.constant3`
    Constant(Vec<u8>),
    /// Shared memory outside any function, which functions of a relocatable file use.
    Shared,
    /// `.common`: the linker picks the largest of all definitions and places it.
    Common,
}

/// A function or variable that another file, or the driver, defines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extern {
    pub name: String,
    pub kind: ExternKind,
    /// Of a function.
    pub prototype: Option<String>,
    /// Of a function: something holds its address.
    pub is_address_taken: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExternKind {
    Function,
    /// In global memory, with its size.
    Global(u64),
    /// In constant bank 3, with its size.
    Constant(u64),
    /// Shared memory whose size the launch gives: `.extern .shared`.
    DynamicShared,
}

/// The Mercury form of a kernel. Its meaning is not public; it is carried.
#[derive(Clone, Debug)]
pub struct Capsule {
    pub bytes: Vec<u8>,
    /// Of the function in Mercury terms; not the size of `bytes`.
    pub size: u64,
    pub attributes: Vec<Attribute>,
    /// With indices in the Mercury symbol table.
    pub relocations: Vec<Relocation>,
    pub frame: Frame,
}

impl Module {
    /// An executable module that says that it was made by Oriole.
    pub fn new(target: &'static Target, functions: Vec<Function>) -> Module {
        Module {
            target,
            file_type: FileType::Executable,
            virtual_sm: u16::from(target.sm),
            toolkit: API_VERSION,
            tool: ToolInfo {
                version: 2,
                object: String::new(),
                tool: "oriole".into(),
                tool_version: format!("Oriole {}", env!("CARGO_PKG_VERSION")),
                branch: String::new(),
                arguments: format!("-arch {} ", target.name),
            },
            functions,
            variables: Vec::new(),
            externs: Vec::new(),
            compat: Vec::new(),
            addresses: Vec::new(),
        }
    }

    /// Gives each variable an offset in its section, those with the largest alignment first.
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

    pub fn build(&self) -> Result<Cubin> {
        assemble::assemble(self)
    }

    pub(crate) fn is_relocatable(&self) -> bool {
        self.file_type == FileType::Relocatable
    }
}

impl Function {
    /// A visible kernel without code.
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
            shared: None,
            constants: None,
            relocations: Vec::new(),
            had_relocations: false,
            subroutines: Vec::new(),
            calls: Vec::new(),
            indirect_calls: Vec::new(),
            takes_address_of: Vec::new(),
            prototype: None,
            is_address_taken: false,
            frame: Frame::plain(0),
            capsule: None,
        }
    }

    /// A visible function that is called, without code.
    pub fn device(name: impl Into<String>) -> Function {
        Function { is_kernel: false, frame: Frame::function(0), ..Function::kernel(name) }
    }
}

impl Variable {
    /// A visible variable.
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

    pub fn function(name: impl Into<String>) -> Extern {
        Extern::new(name, ExternKind::Function)
    }
}
