//! The attributes of a function, in the order in which ptxas writes them.

use crate::info::{Attribute, Code, Parameter, ParameterBank, ParameterV2, Value};
use crate::target::{FileTraits, LayoutGeneration, SMALL_PARAMETER_BYTES};

/// Order on Turing to Ada. No file of the corpus has two attributes in the opposite order.
const AMPERE: &[Code] = &[
    Code::SW_WAR,
    Code::CUDA_API_VERSION,
    Code::TOOLS_PATCH_FUNC,
    Code::SW2861232_WAR,
    Code::PARAM_CBANK,
    Code::CBANK_PARAM_SIZE,
    Code::KPARAM_INFO,
    Code::KPARAM_INFO_V2,
    Code::WMMA_USED,
    Code::MAXREG_COUNT,
    Code::NUM_BARRIERS,
    Code::BINDLESS_SURFACE_BANK,
    Code::BINDLESS_TEXTURE_BANK,
    Code::EXTERNS,
    Code::ANNOTATIONS,
    Code::MERCURY_ISA_VERSION,
    Code::INT_WARP_WIDE_INSTR_OFFSETS,
    Code::INSTR_REG_MAP,
    Code::MBARRIER_INSTR_OFFSETS,
    Code::NUM_MBARRIERS,
    Code::UNUSED_LOAD_BYTE_OFFSET,
    Code::COOP_GROUP_MASK_REGIDS,
    Code::COOP_GROUP_INSTR_OFFSETS,
    Code::SYSCALL_OFFSETS,
    Code::EXIT_INSTR_OFFSETS,
    Code::CTAIDZ_USED,
    Code::MAX_THREADS,
    Code::REQNTID,
    Code::INDIRECT_BRANCH_TARGETS,
    Code::CRS_STACK_SIZE,
];

/// Order on Hopper and Blackwell.
const HOPPER: &[Code] = &[
    Code::CUDA_API_VERSION,
    Code::TOOLS_PATCH_FUNC,
    Code::KPARAM_INFO,
    Code::KPARAM_INFO_V2,
    Code::MAX_CLUSTER_RANK,
    Code::BLOCKS_ARE_CLUSTERS,
    Code::EXPLICIT_CLUSTER,
    Code::CTA_PER_CLUSTER,
    Code::AT_ENTRY_FRAGMENTS,
    Code::RESERVED_SMEM_USED,
    Code::SPARSE_MMA_MASK,
    Code::WMMA_USED,
    Code::TCGEN05_1CTA_USED,
    Code::TCGEN05_2CTA_USED,
    Code::MAXREG_COUNT,
    Code::NUM_BARRIERS,
    Code::EXTERNS,
    Code::ANNOTATIONS,
    Code::MERCURY_ISA_VERSION,
    Code::INT_WARP_WIDE_INSTR_OFFSETS,
    Code::UNUSED_LOAD_BYTE_OFFSET,
    Code::COOP_GROUP_MASK_REGIDS,
    Code::COOP_GROUP_INSTR_OFFSETS,
    Code::VRC_CTA_INIT_COUNT,
    Code::SYSCALL_OFFSETS,
    Code::REG_RECONFIG,
    Code::MBARRIER_INSTR_OFFSETS,
    Code::NUM_MBARRIERS,
    Code::EXIT_INSTR_OFFSETS,
    Code::MAX_THREADS,
    Code::REQNTID,
    Code::INDIRECT_BRANCH_TARGETS,
    Code::CRS_STACK_SIZE,
    Code::CBANK_PARAM_SIZE,
    Code::PARAM_CBANK,
    Code::SW_WAR,
    Code::BINDLESS_TEXTURE_BANK,
    Code::BINDLESS_SURFACE_BANK,
];

/// Returns the position of an attribute in the order of a target; unknown attributes come last.
pub(super) fn rank(traits: &FileTraits, code: Code) -> usize {
    let order = match traits.style {
        LayoutGeneration::Ampere => AMPERE,
        LayoutGeneration::Hopper | LayoutGeneration::Blackwell => HOPPER,
    };
    order.iter().position(|&other| other == code).unwrap_or(order.len())
}

/// Returns the position of an attribute in the order of Hopper and Blackwell.
pub(super) fn hopper_rank(code: Code) -> usize {
    HOPPER.iter().position(|&other| other == code).unwrap_or(HOPPER.len())
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
    let mut list = vec![Attribute::new(Code::MAXREG_COUNT, Value::Half(NO_LIMIT))];
    if traits.reserved_variable.is_some() {
        list.push(Attribute::new(Code::RESERVED_SMEM_USED, Value::Flag));
    }
    if traits.has_mercury() {
        list.push(Attribute::new(Code::VRC_CTA_INIT_COUNT, Value::Byte(0)));
    }
    if !parameters.is_empty() {
        let size = end_of(parameters);
        let bank = ParameterBank { symbol: 0, offset: traits.style.parameter_base(is_large), size };
        list.push(Attribute::new(Code::PARAM_CBANK, Value::ParameterBank(bank)));
        if size > 0 {
            list.push(Attribute::new(Code::CBANK_PARAM_SIZE, Value::Half(size)));
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
        return Attribute::new(Code::KPARAM_INFO_V2, Value::ParameterV2(ParameterV2::from(*parameter)));
    }
    Attribute::new(Code::KPARAM_INFO, Value::Parameter(*parameter))
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
    let mut list = vec![Attribute::words(Code::CUDA_API_VERSION, [traits.toolkit()])];
    if !traits.has_old_format() {
        list.push(Attribute::new(Code::MERCURY_ISA_VERSION, Value::Half(traits.style.mercury_version())));
    }
    if traits.has_workaround_2861232 {
        list.push(Attribute::new(Code::SW2861232_WAR, Value::Flag));
    }
    list.extend(traits.software_workarounds.map(|bits| Attribute::words(Code::SW_WAR, [bits])));
    if traits.has_sparse_mma_mask() {
        list.push(Attribute::new(Code::SPARSE_MMA_MASK, Value::Half(0)));
    }
    let mut list = or_given(list, extra);
    list.sort_by_key(|attribute| rank(traits, attribute.code));
    list
}
