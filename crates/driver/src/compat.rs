//! Derives the attributes of `.nv.compat` that depend on the code: the class of the newest instruction, and the use of tensor maps.

use oriole_cubin::compat::{CompatAttribute, CompatCode, CompatValue};
use oriole_ir::Function;
use oriole_isa::compat_class::{LOWEST_CLASS, class_of};
use oriole_ptx::ast::{FunctionId, Module};
use oriole_ptx::table::Opcode as PtxOpcode;

/// Bit of `INST_TENSORMAP_V1` for copies that use a tensor map.
const COPIES: u8 = 1;
/// Bit of `INST_TENSORMAP_V1` for changes of a tensor map.
const REPLACES: u8 = 2;

/// What the attributes of `.nv.compat` say about code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodeRequirements {
    /// The highest class of an instruction.
    isa_class: u8,
    /// [`COPIES`] and [`REPLACES`].
    tensor_maps: u8,
}

impl Default for CodeRequirements {
    fn default() -> Self {
        CodeRequirements { isa_class: LOWEST_CLASS, tensor_maps: 0 }
    }
}

impl CodeRequirements {
    /// Returns what the final code of a function requires.
    pub fn of(function: &Function, module: &Module, id: FunctionId) -> CodeRequirements {
        let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts).map(|&inst| &function.insts[inst]);
        let classes = insts.filter_map(|data| Some(class_of(data.op.machine()?, &data.modifiers)));
        CodeRequirements { isa_class: classes.max().unwrap_or(LOWEST_CLASS), tensor_maps: tensor_map_use(module, id) }
    }

    /// Returns what two pieces of code require together.
    pub fn both(self, other: CodeRequirements) -> CodeRequirements {
        CodeRequirements { isa_class: self.isa_class.max(other.isa_class), tensor_maps: self.tensor_maps | other.tensor_maps }
    }

    /// Returns the attributes of a file whose code requires this.
    pub fn attributes(self) -> Vec<CompatAttribute> {
        vec![
            CompatAttribute::new(CompatCode::ISA_CLASS, CompatValue::Byte(self.isa_class)),
            CompatAttribute::new(CompatCode::INST_TENSORMAP_V1, CompatValue::Byte(self.tensor_maps)),
        ]
    }
}

/// Returns the bits of `INST_TENSORMAP_V1` for a function.
fn tensor_map_use(module: &Module, id: FunctionId) -> u8 {
    let bit = |opcode: PtxOpcode| match opcode {
        PtxOpcode::CpAsyncBulkTensor | PtxOpcode::CpReduceAsyncBulkTensor | PtxOpcode::CpAsyncBulkPrefetchTensor => COPIES,
        PtxOpcode::TensormapReplace => REPLACES,
        _ => 0,
    };
    // Instructions share their forms, so a look at the forms of the module is enough for most modules.
    if module.forms.iter().all(|form| bit(form.opcode) == 0) {
        return 0;
    }
    let body = module.functions[id].body.as_deref();
    let instructions = body.into_iter().flat_map(|body| &body.instructions);
    instructions.fold(0, |bits, instruction| bits | bit(module.forms[instruction.form].opcode))
}
