//! Making a cubin from its parts.
//!
//! [`Module::build`] arranges kernels the way ptxas 13.0.88 does for the target: which sections, in which order, with
//! which symbols, names, alignments, relocations and program headers. It makes executable files of kernels that call
//! nothing, with module variables on Turing to Hopper; `tests/rebuild.rs` compares with ptxas' own files.
//!
//! ```
//! use oriole_cubin::build::{Frame, Kernel, Module, kernel_attributes};
//! use oriole_cubin::info::{Attribute, Code};
//! use oriole_cubin::Target;
//!
//! let target = Target::named("sm_90").unwrap();
//! let exits = Attribute::words(Code::EXIT_INSTR_OFFSETS, [0x10]);
//! let kernel = Kernel {
//!     code: vec![0; 256], // the machine code
//!     registers: 4,
//!     attributes: kernel_attributes(target, &[], vec![exits]),
//!     frame: Frame::plain(256),
//!     ..Kernel::new("nothing")
//! };
//! let bytes = Module::new(target, vec![kernel]).build()?.write()?;
//! # assert_eq!(oriole_cubin::Cubin::read(&bytes)?.kernels().next().unwrap().name, "nothing");
//! # Ok::<(), oriole_cubin::Error>(())
//! ```

mod assemble;
mod attributes;
mod frame;
mod names;
mod roles;

pub use attributes::{API_VERSION, kernel_attributes};
pub use frame::{Frame, decode as decode_frames};

use crate::callgraph::{CallEdge, NO_CALLS};
use crate::cubin::Cubin;
use crate::error::Result;
use crate::info::Attribute;
use crate::note::ToolInfo;
use crate::relocation::Relocation;
use crate::target::Target;

/// All that goes into a cubin.
#[derive(Clone, Debug)]
pub struct Module {
    pub target: &'static Target,
    /// The SM in the PTX' `.target`.
    pub virtual_sm: u16,
    /// Ten times the version of the toolkit.
    pub toolkit: u32,
    pub tool: ToolInfo,
    /// In the order of the file, which for ptxas is the reverse of the source's.
    pub kernels: Vec<Kernel>,
    /// Those that other files can see come first.
    pub variables: Vec<Variable>,
    /// What constant bank 4 holds, eight bytes each: addresses of variables, by their index.
    pub addresses: Vec<usize>,
    pub call_graph: Vec<CallEdge>,
}

#[derive(Clone, Debug)]
pub struct Kernel {
    pub name: String,
    /// Binds weakly: one of several equal definitions.
    pub is_weak: bool,
    pub code: Vec<u8>,
    pub registers: u8,
    pub frame_size: u32,
    pub min_stack_size: u32,
    /// For `.nv.info.NAME`; see [`kernel_attributes`].
    pub attributes: Vec<Attribute>,
    /// Size of the parameters in constant bank 0.
    pub parameter_bytes: u16,
    pub shared: Option<Shared>,
    /// Relocations were applied to the code; their section remains, empty. Hopper and later.
    pub had_relocations: bool,
    pub frame: Frame,
    /// The Mercury form, on Blackwell. Without it in every kernel, the file has SASS only.
    pub capsule: Option<Capsule>,
}

/// Shared memory that a kernel declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shared {
    /// Without what the system reserves.
    pub size: u64,
    pub alignment: u64,
}

/// A variable of the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    pub name: String,
    pub home: Home,
    /// In its section.
    pub offset: u64,
    pub size: u64,
    pub alignment: u64,
    /// Other files, and the host, can find it.
    pub is_visible: bool,
    pub is_managed: bool,
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
    /// A module that says that it was made by Oriole.
    pub fn new(target: &'static Target, kernels: Vec<Kernel>) -> Module {
        Module {
            target,
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
            kernels,
            variables: Vec::new(),
            addresses: Vec::new(),
            call_graph: NO_CALLS.to_vec(),
        }
    }

    pub fn build(&self) -> Result<Cubin> {
        assemble::assemble(self)
    }
}

impl Kernel {
    pub fn new(name: impl Into<String>) -> Kernel {
        Kernel {
            name: name.into(),
            is_weak: false,
            code: Vec::new(),
            registers: 0,
            frame_size: 0,
            min_stack_size: 0,
            attributes: Vec::new(),
            parameter_bytes: 0,
            shared: None,
            had_relocations: false,
            frame: Frame::plain(0),
            capsule: None,
        }
    }
}
