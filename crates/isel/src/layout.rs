//! Memory layout of the variables of a module.
//!
//! Common to the whole module: constant bank 3, the global variables with their initial contents, and the table of their addresses in
//! constant bank 4. Separate for each function: its parameters, its frame, its shared memory. [`crate::place_variables`] computes the layout.

use std::sync::Arc;

use oriole_ptx::ast::{FunctionId, VariableId};
use oriole_support::{Index, Name};
use rustc_hash::FxHashMap;

use crate::shared::SharedPlan;
use crate::static_data::Data;
use crate::texture::ImageWords;
use crate::variable_layout::ModuleFacts;

/// Whether addresses are assigned now or by the linker.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Linking {
    /// The output is a complete program (the default of ptxas).
    Whole,
    /// The output will be linked (`ptxas -c`); the linker places variables.
    Relocatable,
}

/// A variable with static storage: `.const` or `.global`.
#[derive(Clone, PartialEq, Debug)]
pub struct Static {
    /// The variable.
    pub id: VariableId,
    /// Its name in the output file; a variable declared in a function has the function's name and `$` as a prefix.
    pub name: String,
    /// Byte offset in constant bank 3; 0 for global variables.
    pub offset: u32,
    /// Its size in bytes.
    pub bytes: u64,
    /// Its alignment in bytes.
    pub align: u64,
    /// Its initial contents; `None` for a global variable that starts with zeros.
    pub initial: Option<Data>,
}

/// The memory layout of the variables of a module.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Whether addresses are assigned now or by the linker.
    pub linking: Linking,
    /// The `.const` variables, in the order of their offsets in constant bank 3.
    pub constants: Vec<Static>,
    /// End of the module's part of constant bank 3, in bytes from the start of the bank.
    pub constants_end: u64,
    /// Size of constant bank 3 in bytes, with the constants of modules that follow.
    pub bank_bytes: u64,
    /// The `.global` variables that the module defines.
    pub globals: Vec<Static>,
    /// The `.global` and `.const` variables that the module only declares, with their names; each name once.
    pub externs: Vec<(String, VariableId)>,
    /// The names whose addresses are in constant bank 4, eight bytes each, after those of modules before this one.
    pub addresses: Vec<String>,
    /// Number of addresses of modules before this one.
    pub(crate) earlier_addresses: usize,
    /// The texture, sampler and surface references of the module, in the order of declaration.
    pub images: Vec<VariableId>,
    /// The device functions that use references.
    pub(crate) image_functions: Vec<FunctionId>,
    /// The words for references of the device functions, which have the same offsets in all kernels of the program. `None` if no device
    /// function uses references.
    pub(crate) common_images: Option<ImageWords>,
    /// The shared memory of each function; empty for relocatable files.
    pub(crate) shared: SharedPlan,
    /// The facts that all functions share.
    pub(crate) module_facts: Arc<ModuleFacts>,
    /// The first variable of each name.
    pub(crate) by_name: FxHashMap<Name, VariableId>,
    /// The function that each alias names.
    pub(crate) aliases: FxHashMap<Name, Name>,
    /// The name of each variable in the output file.
    pub(crate) names: Vec<Option<String>>,
}

impl Layout {
    /// Returns the name of a variable in the output file.
    pub fn name(&self, id: VariableId) -> Option<&str> {
        self.names[id.position()].as_deref()
    }

    /// Returns the byte offset of a `.const` variable in bank 3, if it has one.
    pub(crate) fn constant_offset(&self, id: VariableId) -> Option<u32> {
        let position = self.constants.binary_search_by_key(&id, |constant| constant.id).ok()?;
        Some(self.constants[position].offset)
    }

    /// Returns the first variable of a name.
    pub(crate) fn variable(&self, name: Name) -> Option<VariableId> {
        self.by_name.get(&name).copied()
    }

    /// Returns the function that an alias names; any other name is returned unchanged.
    pub(crate) fn resolve_alias(&self, name: Name) -> Name {
        self.aliases.get(&name).copied().unwrap_or(name)
    }
}
