//! Collects the relocations of a file into groups, one for each relocation section.

use rustc_hash::FxHashSet;

use super::Module;
use super::roles::{Addends, Patched, Role};
use super::symbols::SymbolRole;
use crate::relocation::RelocationType;
use crate::target::LayoutGeneration;

/// A relocation section.
pub(super) struct Group {
    pub patched: Patched,
    pub addends: Addends,
    /// The relocations, sorted by offset.
    pub patches: Vec<Patch>,
}

/// A relocation whose symbol has no index yet.
#[derive(Clone)]
pub(super) struct Patch {
    pub offset: u64,
    pub relocation_type: RelocationType,
    /// A symbol role, or a name that is resolved later.
    pub symbol: Result<SymbolRole, String>,
    pub addend: i64,
}

/// Returns all relocation sections in file order, including the empty ones that ptxas keeps.
pub(super) fn groups(module: &Module) -> Vec<Group> {
    let mut list = Vec::new();
    let mut of_constants = Vec::new();
    for (k, function) in module.functions.iter().enumerate() {
        list.extend(split(module, Patched::Text(k), module.code_patches(k), function.had_relocations));
        let is_there = function.constants.as_ref().is_some_and(|constants| constants.had_relocations);
        of_constants.extend(split(module, Patched::Constants(k), Vec::new(), is_there));
        list.extend(split(module, Patched::Parameters(k), module.image_patches(k), false));
        if module.is_relocatable() {
            list.append(&mut of_constants);
        }
    }
    list.append(&mut of_constants);
    list.extend(split(module, Patched::Addresses, module.address_patches(), false));
    for patched in [Patched::InitializedVariables, Patched::ConstantVariables] {
        list.extend(split(module, patched, module.data_patches(patched.role()), false));
    }
    for i in 0..module.debug.len() {
        list.extend(split(module, Patched::Debug(i), module.debug_patches(i), false));
    }
    list.extend(split(module, Patched::Frames, module.frame_patches(), false));
    list
}

/// Splits the relocations of a section into groups. From Hopper on there is one group. Before, there is one group for each kind of addend;
/// the kind of the first relocation comes first. `is_there` asks for a group even if it is empty.
fn split(module: &Module, patched: Patched, patches: Vec<Patch>, is_there: bool) -> Vec<Group> {
    let early = module.traits.style == LayoutGeneration::Ampere;
    if !early {
        let wanted = is_there || !patches.is_empty();
        return wanted.then_some(Group { patched, addends: Addends::Explicit, patches }).into_iter().collect();
    }
    let mut groups: Vec<Group> = Vec::new();
    for patch in patches {
        let is_cleared = patch.relocation_type == RelocationType::R_CUDA_UNUSED_CLEAR64;
        let addends = if patch.addend == 0 && !is_cleared { Addends::Zero } else { Addends::Explicit };
        match groups.iter_mut().find(|group| group.addends == addends) {
            Some(group) => group.patches.push(patch),
            None => groups.push(Group { patched, addends, patches: vec![patch] }),
        }
    }
    groups
}

impl Module {
    /// Returns the relocations of the code of function `k`.
    fn code_patches(&self, k: usize) -> Vec<Patch> {
        let patch = |relocation: &super::CodeRelocation| {
            let relocation_type = relocation.kind.relocation_type(&self.traits, self.file_type)?;
            Some(Patch { offset: relocation.offset, relocation_type, symbol: Err(relocation.symbol.clone()), addend: relocation.addend })
        };
        let mut list: Vec<Patch> = self.functions[k].relocations.iter().filter_map(patch).collect();
        list.sort_by_key(|patch| patch.offset);
        list
    }

    /// Returns the relocations of the address table in constant bank 4.
    fn address_patches(&self) -> Vec<Patch> {
        let of_kernels = self.functions.iter().filter(|function| function.is_kernel).map(|function| function.name.as_str());
        let kernels: FxHashSet<&str> = if self.addresses.is_empty() { FxHashSet::default() } else { of_kernels.collect() };
        let patch = |(slot, name): (usize, &String)| Patch {
            offset: slot as u64 * 8,
            relocation_type: if kernels.contains(name.as_str()) { RelocationType::R_CUDA_FUNC_DESC_64 } else { RelocationType::R_CUDA_64 },
            symbol: Err(name.clone()),
            addend: 0,
        };
        self.addresses.iter().enumerate().map(patch).collect()
    }

    /// Returns the relocations of the initial values in a section of variables.
    fn data_patches(&self, role: Role) -> Vec<Patch> {
        let mut list = Vec::new();
        for variable in self.variables.iter().filter(|variable| variable.home.role() == Some(role)) {
            list.extend(variable.relocations.iter().map(|relocation| Patch {
                offset: variable.offset + relocation.offset,
                relocation_type: relocation.kind.relocation_type(&self.traits, self.file_type),
                symbol: Err(relocation.symbol.clone()),
                addend: relocation.addend,
            }));
        }
        list.sort_by_key(|patch| patch.offset);
        list
    }

    /// Returns the relocations of `.debug_frame`: for each function the addresses in its CIEs, then those in its FDEs.
    fn frame_patches(&self) -> Vec<Patch> {
        let early = self.traits.style == LayoutGeneration::Ampere;
        let (mut list, mut starts) = (Vec::new(), Vec::new());
        let frames = self.frames();
        for (i, (&(k, offset, _), places)) in frames.iter().zip(self.encode_frames().places).enumerate() {
            let patch = |offset, relocation_type, symbol, addend| Patch { offset, relocation_type, symbol: Ok(symbol), addend };
            let function = SymbolRole::Function(k);
            list.extend(places.cie_address.map(|at| patch(at, RelocationType::R_CUDA_64, function, 0)));
            if self.is_relocatable() {
                let section = SymbolRole::Section(Role::Frames);
                starts.push(patch(places.cie_pointer, RelocationType::R_CUDA_64, section, places.cie.cast_signed()));
            }
            // A relocation without addend adds to the value in the section, which is the offset.
            let addend = if early { 0 } else { offset.cast_signed() };
            starts.push(patch(places.address, RelocationType::R_CUDA_64, function, addend));
            if self.is_relocatable() {
                starts.push(patch(places.range, RelocationType::R_CUDA_UNUSED_CLEAR64, function, 0));
            }
            if frames.get(i + 1).is_none_or(|(next, _, _)| *next != k) {
                list.append(&mut starts);
            }
        }
        list
    }
}
