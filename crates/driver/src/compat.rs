//! Derives the attributes of `.nv.compat` that depend on the code: the class of the newest instruction, and the use of tensor maps.
//!
//! Found by compiling every form of the PTX table with ptxas 13.0.88 for sm_90a and sm_120a and comparing the attribute with the machine
//! code. Class 1 is the code that all GPUs from Hopper on have.

use oriole_cubin::compat::{CompatAttribute, CompatCode, CompatValue};
use oriole_ir::{Function, Inst, Opcode};
use oriole_ptx::ast::{FunctionId, Module};
use oriole_ptx::table::Opcode as PtxOpcode;

/// The instructions with a class above 1: mnemonic, modifiers that it must have, class.
const CLASSES: &[(Opcode, &[&str], u8)] = &[
    (Opcode::UTMALDG, &[], 2),
    (Opcode::UTMASTG, &[], 2),
    (Opcode::UTMAREDG, &[], 2),
    (Opcode::UTMAPF, &[], 2),
    (Opcode::UTMACCTL, &[], 2),
    (Opcode::UBLKCP, &[".S", ".G"], 2),
    (Opcode::SUST, &[], 2),
    (Opcode::SURED, &[], 2),
    (Opcode::F2FP, &[".UNPACK_B"], 2),
    (Opcode::QMMA, &[], 2),
    (Opcode::OMMA, &[".SP"], 3),
    (Opcode::OMMA, &[], 2),
    (Opcode::HGMMA, &[], 4),
    (Opcode::IGMMA, &[], 4),
    (Opcode::QGMMA, &[], 4),
    (Opcode::BGMMA, &[], 4),
    (Opcode::WARPGROUP, &[], 4),
];

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
        CodeRequirements { isa_class: 1, tensor_maps: 0 }
    }
}

impl CodeRequirements {
    /// Returns what the final code of a function requires.
    pub fn of(function: &Function, module: &Module, id: FunctionId) -> CodeRequirements {
        let insts = function.layout.iter().flat_map(|&block| &function.blocks[block].insts);
        CodeRequirements {
            isa_class: insts.map(|&inst| isa_class(function, inst)).max().unwrap_or(1).max(1),
            tensor_maps: tensor_map_use(module, id),
        }
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

/// Returns the class of an instruction.
fn isa_class(function: &Function, inst: Inst) -> u8 {
    let data = &function.insts[inst];
    let has = |spelling: &&str| data.modifiers.iter().any(|modifier| modifier.spelling() == *spelling);
    let row = CLASSES.iter().find(|(opcode, modifiers, _)| data.is_machine(*opcode) && modifiers.iter().all(has));
    row.map_or(1, |row| row.2)
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
