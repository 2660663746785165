//! Locations of variables, and the amount of memory that they take.

use std::sync::Arc;

use oriole_ptx::ast::VariableId;
use oriole_support::Name;
use rustc_hash::FxHashMap;

use crate::texture::ImageWords;

/// The constant bank that holds the addresses of global variables.
pub const ADDRESS_BANK: u8 = 4;

/// The constant bank that holds the `.const` variables.
pub const CONSTANT_BANK: u8 = 3;

/// The location of a variable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum VariableLocation {
    /// A kernel parameter: byte offset from the first parameter.
    Parameter(u32),
    /// In the frame: byte offset from the start of the local variables.
    Local(u32),
    /// In shared memory: byte offset from the end of the part that the system reserves.
    Shared(u32),
    /// In constant bank 3: byte offset.
    Constant(u32),
    /// In global memory: byte offset in constant bank 4 of the slot that holds the address.
    AddressTableSlot(u32),
    /// At an address that the linker or loader resolves.
    Symbol {
        /// The symbol name.
        name: String,
        /// The memory space, which decides the kind of address.
        space: SymbolSpace,
    },
}

/// The memory space of a variable that is addressed by symbol.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolSpace {
    /// 64-bit address in global memory.
    Global,
    /// Offset in shared memory, from the end of the part that the system reserves.
    Shared,
    /// Offset in constant bank 3.
    Constant,
}

/// Facts that are the same for all functions of a module. They are found once and shared: a copy or a search per function would make
/// compile time proportional to the product of the numbers of functions and variables.
#[derive(Clone, Default, Debug)]
pub(crate) struct ModuleFacts {
    /// Locations of the `.const` and `.global` variables.
    pub(crate) statics: FxHashMap<VariableId, VariableLocation>,
    /// Distance in bytes between the variables of a parameterized declaration (`.shared .b32 v<4>`).
    pub(crate) strides: FxHashMap<VariableId, u32>,
    /// The target of each `.alias`.
    pub(crate) aliases: FxHashMap<Name, Name>,
    /// Whether the module has the pragma `nounroll`, which concerns all loops.
    pub(crate) forbids_unrolling: bool,
}

/// Locations of all variables as seen by one function, and the amount of memory that they take.
#[derive(Clone, Default, Debug)]
pub struct VariableLayout {
    /// Locations of this function's parameters, local and shared variables.
    pub(crate) locations: FxHashMap<VariableId, VariableLocation>,
    /// Facts shared by all functions of the module.
    pub(crate) module: Arc<ModuleFacts>,
    /// Offset of the kernel parameters in constant bank 0.
    pub parameters_start: u32,
    /// Whether the kernel parameters have the layout for more than [`oriole_isa::SMALL_PARAMETER_BYTES`].
    pub has_large_parameters: bool,
    /// Size of the kernel parameters in bytes.
    pub parameter_bytes: u64,
    /// Size that the kernel parameters have if the first one is at a multiple of every alignment, in bytes. Limits apply to this size.
    pub packed_parameter_bytes: u64,
    /// The words of constant bank 0 for textures, samplers and surfaces by reference.
    pub images: ImageWords,
    /// Size of static shared memory in bytes, without the part that the system reserves.
    pub shared_bytes: u64,
    /// Largest alignment in shared memory in bytes, dynamic arrays included.
    pub shared_align: u32,
    /// Whether the function is a kernel of a module that declares dynamic shared arrays.
    pub may_have_dynamic_shared: bool,
    /// Size of the local variables in the frame, in bytes.
    pub frame_bytes: u64,
    /// Largest alignment of the local variables, in bytes.
    pub frame_align: u32,
    /// Size of constant bank 3 in bytes.
    pub constant_bytes: u64,
    /// Whether the file will be linked, so that addresses are unknown.
    pub is_relocatable: bool,
}

impl VariableLayout {
    /// Creates a table that knows the locations of module-scope variables only.
    pub(crate) fn of(module: Arc<ModuleFacts>) -> VariableLayout {
        VariableLayout { module, ..VariableLayout::default() }
    }

    /// Records the location of a variable.
    pub fn insert(&mut self, variable: VariableId, home: VariableLocation) {
        self.locations.insert(variable, home);
    }

    /// Returns the distance in bytes between the variables of a parameterized declaration; `None` for an ordinary one.
    pub(crate) fn stride(&self, variable: VariableId) -> Option<u32> {
        self.module.strides.get(&variable).copied()
    }

    /// Returns the location of a variable, if it has one.
    pub fn get(&self, variable: VariableId) -> Option<&VariableLocation> {
        self.locations.get(&variable).or_else(|| self.module.statics.get(&variable))
    }
}
