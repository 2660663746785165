//! The attributes of a function, in the order in which ptxas writes them.

use crate::info::{Attribute, AttributeCode, AttributeValue, Parameter, ParameterBank, ParameterV2};
use crate::target::{FileTraits, LayoutGeneration, SMALL_PARAMETER_BYTES};

/// Order on Turing to Ada. No file of the corpus has two attributes in the opposite order.
const AMPERE: &[AttributeCode] = &[
    AttributeCode::SW_WAR,
    AttributeCode::CUDA_API_VERSION,
    AttributeCode::TOOLS_PATCH_FUNC,
    AttributeCode::SW2861232_WAR,
    AttributeCode::PARAM_CBANK,
    AttributeCode::CBANK_PARAM_SIZE,
    AttributeCode::KPARAM_INFO,
    AttributeCode::KPARAM_INFO_V2,
    AttributeCode::RESERVED_SMEM_USED,
    AttributeCode::WMMA_USED,
    AttributeCode::MAXREG_COUNT,
    AttributeCode::NUM_BARRIERS,
    AttributeCode::BINDLESS_SURFACE_BANK,
    AttributeCode::BINDLESS_TEXTURE_BANK,
    AttributeCode::EXTERNS,
    AttributeCode::ANNOTATIONS,
    AttributeCode::MERCURY_ISA_VERSION,
    AttributeCode::INT_WARP_WIDE_INSTR_OFFSETS,
    AttributeCode::INSTR_REG_MAP,
    AttributeCode::MBARRIER_INSTR_OFFSETS,
    AttributeCode::NUM_MBARRIERS,
    AttributeCode::UNUSED_LOAD_BYTE_OFFSET,
    AttributeCode::COOP_GROUP_MASK_REGIDS,
    AttributeCode::COOP_GROUP_INSTR_OFFSETS,
    AttributeCode::SYSCALL_OFFSETS,
    AttributeCode::EXIT_INSTR_OFFSETS,
    AttributeCode::CTAIDZ_USED,
    AttributeCode::MAX_THREADS,
    AttributeCode::REQNTID,
    AttributeCode::INDIRECT_BRANCH_TARGETS,
    AttributeCode::CRS_STACK_SIZE,
];

/// Order on Hopper and Blackwell.
const HOPPER: &[AttributeCode] = &[
    AttributeCode::CUDA_API_VERSION,
    AttributeCode::TOOLS_PATCH_FUNC,
    AttributeCode::KPARAM_INFO,
    AttributeCode::KPARAM_INFO_V2,
    AttributeCode::MAX_CLUSTER_RANK,
    AttributeCode::BLOCKS_ARE_CLUSTERS,
    AttributeCode::EXPLICIT_CLUSTER,
    AttributeCode::CTA_PER_CLUSTER,
    AttributeCode::AT_ENTRY_FRAGMENTS,
    AttributeCode::RESERVED_SMEM_USED,
    AttributeCode::SPARSE_MMA_MASK,
    AttributeCode::WMMA_USED,
    AttributeCode::TCGEN05_1CTA_USED,
    AttributeCode::TCGEN05_2CTA_USED,
    AttributeCode::MAXREG_COUNT,
    AttributeCode::NUM_BARRIERS,
    AttributeCode::EXTERNS,
    AttributeCode::ANNOTATIONS,
    AttributeCode::MERCURY_ISA_VERSION,
    AttributeCode::INT_WARP_WIDE_INSTR_OFFSETS,
    AttributeCode::UNUSED_LOAD_BYTE_OFFSET,
    AttributeCode::COOP_GROUP_MASK_REGIDS,
    AttributeCode::COOP_GROUP_INSTR_OFFSETS,
    AttributeCode::VRC_CTA_INIT_COUNT,
    AttributeCode::SYSCALL_OFFSETS,
    AttributeCode::REG_RECONFIG,
    AttributeCode::MBARRIER_INSTR_OFFSETS,
    AttributeCode::NUM_MBARRIERS,
    AttributeCode::EXIT_INSTR_OFFSETS,
    AttributeCode::MAX_THREADS,
    AttributeCode::REQNTID,
    AttributeCode::INDIRECT_BRANCH_TARGETS,
    AttributeCode::CRS_STACK_SIZE,
    AttributeCode::CBANK_PARAM_SIZE,
    AttributeCode::PARAM_CBANK,
    AttributeCode::SW_WAR,
    AttributeCode::BINDLESS_TEXTURE_BANK,
    AttributeCode::BINDLESS_SURFACE_BANK,
];

/// Returns the position of an attribute in the order of a target; unknown attributes come last.
pub(super) fn rank(traits: &FileTraits, code: AttributeCode) -> usize {
    let order = match traits.style {
        LayoutGeneration::Ampere => AMPERE,
        LayoutGeneration::Hopper | LayoutGeneration::Blackwell => HOPPER,
    };
    order.iter().position(|&other| other == code).unwrap_or(order.len())
}

/// Returns the attributes of a kernel, in ptxas' order: those that every kernel has, those that follow from its parameters, and `extra`.
///
/// `parameters` are in the order of declaration. An attribute in `extra` replaces the default one with the same code, for example
/// `EIATTR_MAXREG_COUNT` of a kernel with `.maxnreg`. The builder fills in the symbol of `EIATTR_PARAM_CBANK` and adds `EIATTR_EXTERNS`.
pub fn kernel_attributes(traits: &FileTraits, parameters: &[Parameter], extra: Vec<Attribute>) -> Vec<Attribute> {
    kernel_attributes_with(traits, parameters, end_of(parameters) > SMALL_PARAMETER_BYTES, extra)
}

/// Returns the offset of the end of the last parameter.
fn end_of(parameters: &[Parameter]) -> u16 {
    let in_bank = parameters.iter().filter(|parameter| !parameter.is_image());
    in_bank.map(|parameter| parameter.offset + parameter.size).max().unwrap_or(0)
}

/// Returns the attributes of a kernel as [`kernel_attributes`] does; `is_large` is [`super::Function::has_large_parameters`].
pub fn kernel_attributes_with(traits: &FileTraits, parameters: &[Parameter], is_large: bool, extra: Vec<Attribute>) -> Vec<Attribute> {
    let mut list = vec![Attribute::new(AttributeCode::MAXREG_COUNT, AttributeValue::Half(NO_LIMIT))];
    if traits.reserved_variable.is_some() {
        list.push(Attribute::new(AttributeCode::RESERVED_SMEM_USED, AttributeValue::Flag));
    }
    if !parameters.is_empty() {
        let size = end_of(parameters);
        let bank = ParameterBank { symbol: 0, offset: traits.style.parameter_base(is_large), size };
        list.push(Attribute::new(AttributeCode::PARAM_CBANK, AttributeValue::ParameterBank(bank)));
        if size > 0 {
            list.push(Attribute::new(AttributeCode::CBANK_PARAM_SIZE, AttributeValue::Half(size)));
        }
        // ptxas writes the last parameter first.
        list.extend(parameters.iter().rev().map(|parameter| parameter_attribute(parameter, is_large)));
    }
    function_attributes(traits, or_given(list, extra))
}

/// Returns the attribute of one parameter of a kernel. ptxas 13.0.88 uses the second form for all parameters of a kernel with more than
/// [`SMALL_PARAMETER_BYTES`], also for those whose size would fit the first form.
fn parameter_attribute(parameter: &Parameter, is_large: bool) -> Attribute {
    if is_large {
        return Attribute::new(AttributeCode::KPARAM_INFO_V2, AttributeValue::ParameterV2(ParameterV2::from(*parameter)));
    }
    Attribute::new(AttributeCode::KPARAM_INFO, AttributeValue::Parameter(*parameter))
}

/// `EIATTR_MAXREG_COUNT` of a kernel without a register limit.
const NO_LIMIT: u16 = 0xff;

/// Returns the given attributes, and those of the default ones whose code is not among them.
fn or_given(usual: Vec<Attribute>, given: Vec<Attribute>) -> Vec<Attribute> {
    let is_missing = |attribute: &Attribute| given.iter().all(|other| other.code != attribute.code);
    let mut list: Vec<Attribute> = usual.into_iter().filter(is_missing).collect();
    list.extend(given);
    list
}

/// Returns the attributes of any function, in ptxas' order: those that every function has, and `extra`.
pub fn function_attributes(traits: &FileTraits, extra: Vec<Attribute>) -> Vec<Attribute> {
    let mut list = vec![Attribute::words(AttributeCode::CUDA_API_VERSION, [traits.toolkit()])];
    if !traits.has_old_format() {
        list.push(Attribute::new(AttributeCode::MERCURY_ISA_VERSION, AttributeValue::Half(traits.style.mercury_version())));
    }
    if traits.has_workaround_2861232 {
        list.push(Attribute::new(AttributeCode::SW2861232_WAR, AttributeValue::Flag));
    }
    list.extend(traits.software_workarounds.map(|bits| Attribute::words(AttributeCode::SW_WAR, [bits])));
    if traits.has_mercury() {
        list.push(Attribute::new(AttributeCode::VRC_CTA_INIT_COUNT, AttributeValue::Byte(0)));
    }
    if traits.has_sparse_mma_mask() {
        list.push(Attribute::new(AttributeCode::SPARSE_MMA_MASK, AttributeValue::Half(0)));
    }
    let mut list = or_given(list, extra);
    list.sort_by_key(|attribute| rank(traits, attribute.code));
    list
}
