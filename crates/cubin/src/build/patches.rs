//! Relocations by meaning: what the linker or the driver has to fill in.
//!
//! The same meaning has different relocation types on different targets: a call is `ABS47_34` up to Ada and `ABS55_16_34` from Hopper on.
//! In relocatable files from Hopper on, addresses of functions go through a table of unified functions. The address of a kernel is that of
//! a descriptor that the driver keeps for the kernel, in all files.
//!
//! In executable files, the driver fills in addresses and calls. Offsets in shared and constant memory are filled in by the linker; the
//! builder of an executable file knows these offsets and must put them into the code.

use crate::cubin::FileType;
use crate::relocation::RelocationType;
use crate::target::{FileTraits, LayoutGeneration};

/// A relocation of code: a field of the instruction at `offset` gets the address of `symbol` plus `addend`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CodeRelocation {
    /// Offset of the instruction in the function, in bytes.
    pub offset: u64,
    pub kind: CodePatch,
    /// Name of a function, a variable, an external symbol, or a part of the function's constants.
    pub symbol: String,
    pub addend: i64,
}

/// The field of an instruction, and the part of the address that it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodePatch {
    /// Low half of an address, in a 32-bit immediate.
    AddressLow,
    /// High half of an address.
    AddressHigh,
    /// Low half of the address of a function, for an indirect call.
    FunctionLow,
    FunctionHigh,
    /// Low half of the address of a kernel's descriptor, for a launch by a kernel.
    KernelLow,
    KernelHigh,
    /// Target of `CALL.ABS`.
    Call,
    /// Immediate of `CALL.ABS R`, for the symbol `__UFT_OFFSET`, in relocatable files from Hopper on. Executable files have 0 there, and no
    /// relocation.
    IndirectCall,
    /// Offset of a variable in shared memory, in a 32-bit immediate.
    SharedOffset,
    /// The same in the offset field of `LDS` and `STS`.
    SharedField,
    /// Offset in constant bank 3, in a 32-bit immediate.
    ConstantOffset,
    /// Bank and offset as an operand of an instruction.
    ConstantOperand,
    /// Bank and offset in `LDC` and `ULDC`.
    ConstantLoad,
    /// Bank and offset in `LDCU`.
    UniformConstantLoad,
    /// A number that the CUDA driver knows, in a 32-bit immediate.
    DriverNumber,
    Other(RelocationType),
}

/// A relocation of the initial value of a variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataRelocation {
    /// Offset in the variable, in bytes.
    pub offset: u64,
    pub kind: DataPatch,
    pub symbol: String,
    pub addend: i64,
}

/// What a relocated part of an initial value gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataPatch {
    /// 64-bit generic address of a variable. For global memory it equals the address; ptxas uses this type for both.
    Generic,
    /// 64-bit address.
    Address,
    /// 64-bit address of a function.
    Function,
    /// 64-bit address of a kernel's descriptor.
    Kernel,
    /// One byte of the generic address, 0 for the lowest: `0xff00(x)` in PTX.
    GenericByte(u8),
    /// One byte of the address of a function.
    FunctionByte(u8),
    /// One byte of the address of a kernel's descriptor.
    KernelByte(u8),
    Other(RelocationType),
}

impl CodePatch {
    /// Returns the relocation type, or `None` if no relocation is needed.
    pub(super) fn relocation_type(self, traits: &FileTraits, file_type: FileType) -> Option<RelocationType> {
        let early = traits.style == LayoutGeneration::Ampere;
        let unified = !early && file_type == FileType::Relocatable;
        Some(match self {
            CodePatch::FunctionLow if unified => RelocationType::R_CUDA_UNIFIED32_LO_32,
            CodePatch::FunctionHigh if unified => RelocationType::R_CUDA_UNIFIED32_HI_32,
            CodePatch::KernelLow => RelocationType::R_CUDA_FUNC_DESC32_LO_32,
            CodePatch::KernelHigh => RelocationType::R_CUDA_FUNC_DESC32_HI_32,
            CodePatch::AddressLow | CodePatch::FunctionLow => RelocationType::R_CUDA_ABS32_LO_32,
            CodePatch::AddressHigh | CodePatch::FunctionHigh => RelocationType::R_CUDA_ABS32_HI_32,
            CodePatch::Call if early => RelocationType::R_CUDA_ABS47_34,
            CodePatch::Call => RelocationType::R_CUDA_ABS55_16_34,
            CodePatch::IndirectCall if unified => RelocationType::R_CUDA_ABS56_16_34,
            CodePatch::IndirectCall => return None,
            CodePatch::SharedOffset | CodePatch::DriverNumber => RelocationType::R_CUDA_ABS32_32,
            CodePatch::SharedField => RelocationType::R_CUDA_ABS24_40,
            CodePatch::ConstantOffset => RelocationType::R_CUDA_ABS16_32,
            CodePatch::ConstantOperand => RelocationType::R_CUDA_CONST_FIELD19_40,
            CodePatch::ConstantLoad => RelocationType::R_CUDA_CONST_FIELD21_38,
            CodePatch::UniformConstantLoad => RelocationType::R_CUDA_CONST_FIELD22_37,
            CodePatch::Other(other) => other,
        })
    }

    /// Returns whether only a linker can fill in this relocation.
    pub(super) fn needs_linker(self) -> bool {
        matches!(
            self,
            CodePatch::SharedOffset
                | CodePatch::SharedField
                | CodePatch::ConstantOffset
                | CodePatch::ConstantOperand
                | CodePatch::ConstantLoad
                | CodePatch::UniformConstantLoad
        )
    }

    /// Returns the meaning of a relocation type in code.
    pub fn of(relocation_type: RelocationType) -> CodePatch {
        match relocation_type {
            RelocationType::R_CUDA_UNIFIED32_LO_32 => CodePatch::FunctionLow,
            RelocationType::R_CUDA_UNIFIED32_HI_32 => CodePatch::FunctionHigh,
            RelocationType::R_CUDA_FUNC_DESC32_LO_32 => CodePatch::KernelLow,
            RelocationType::R_CUDA_FUNC_DESC32_HI_32 => CodePatch::KernelHigh,
            RelocationType::R_CUDA_ABS32_LO_32 => CodePatch::AddressLow,
            RelocationType::R_CUDA_ABS32_HI_32 => CodePatch::AddressHigh,
            RelocationType::R_CUDA_ABS47_34 | RelocationType::R_CUDA_ABS55_16_34 => CodePatch::Call,
            RelocationType::R_CUDA_ABS56_16_34 => CodePatch::IndirectCall,
            RelocationType::R_CUDA_ABS32_32 => CodePatch::SharedOffset,
            RelocationType::R_CUDA_ABS24_40 => CodePatch::SharedField,
            RelocationType::R_CUDA_ABS16_32 => CodePatch::ConstantOffset,
            RelocationType::R_CUDA_CONST_FIELD19_40 => CodePatch::ConstantOperand,
            RelocationType::R_CUDA_CONST_FIELD21_38 => CodePatch::ConstantLoad,
            RelocationType::R_CUDA_CONST_FIELD22_37 => CodePatch::UniformConstantLoad,
            other => CodePatch::Other(other),
        }
    }
}

impl DataPatch {
    /// Returns the relocation type.
    pub(super) fn relocation_type(self, traits: &FileTraits, file_type: FileType) -> RelocationType {
        let unified = traits.style != LayoutGeneration::Ampere && file_type == FileType::Relocatable;
        match self {
            DataPatch::Function if unified => RelocationType::R_CUDA_UNIFIED,
            DataPatch::FunctionByte(index) if unified => byte_type(RelocationType::R_CUDA_UNIFIED_8_0, index),
            DataPatch::Address | DataPatch::Function => RelocationType::R_CUDA_64,
            DataPatch::Kernel => RelocationType::R_CUDA_FUNC_DESC_64,
            DataPatch::Generic => RelocationType::R_CUDA_G64,
            DataPatch::GenericByte(index) => byte_type(RelocationType::R_CUDA_G8_0, index),
            DataPatch::FunctionByte(index) => byte_type(RelocationType::R_CUDA_8_0, index),
            DataPatch::KernelByte(index) => byte_type(RelocationType::R_CUDA_FUNC_DESC_8_0, index),
            DataPatch::Other(other) => other,
        }
    }

    /// Returns the meaning of a relocation type in data.
    pub fn of(relocation_type: RelocationType) -> DataPatch {
        let byte = |first: RelocationType| relocation_type.0.checked_sub(first.0).filter(|&index| index < 8).map(|index| index as u8);
        match relocation_type {
            RelocationType::R_CUDA_UNIFIED => DataPatch::Function,
            RelocationType::R_CUDA_64 => DataPatch::Address,
            RelocationType::R_CUDA_FUNC_DESC_64 => DataPatch::Kernel,
            RelocationType::R_CUDA_G64 => DataPatch::Generic,
            other => None
                .or(byte(RelocationType::R_CUDA_G8_0).map(DataPatch::GenericByte))
                .or(byte(RelocationType::R_CUDA_8_0).map(DataPatch::FunctionByte))
                .or(byte(RelocationType::R_CUDA_UNIFIED_8_0).map(DataPatch::FunctionByte))
                .or(byte(RelocationType::R_CUDA_FUNC_DESC_8_0).map(DataPatch::KernelByte))
                .unwrap_or(DataPatch::Other(other)),
        }
    }
}

/// Returns the relocation type for byte `index` of an address, given that for its lowest byte.
fn byte_type(first: RelocationType, index: u8) -> RelocationType {
    RelocationType(first.0 + u32::from(index & 7))
}
