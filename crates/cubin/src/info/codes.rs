//! The table of attribute codes.
//!
//! Codes and names are those that cuobjdump 13.2 prints (with the prefix `EIATTR_`) for a cubin in which the code of an attribute was set
//! to each of the 256 values; values that are missing here have no name there. The third column is the layout of the value in the sized
//! format. Offsets of instructions have the layout `Words`.

use super::AttributeCode;
use super::value::ValueLayout::{
    self, BranchTargets, Bytes, Mbarriers, Pairs, Parameter, ParameterBank, ParameterV2, PerSymbol, Symbols, Words,
};

/// Code, name, layout of the value.
pub(super) const ROWS: &[(u8, &str, ValueLayout)] = &[
    (0x00, "ERROR", Words),
    (0x01, "PAD", Words),
    (0x02, "IMAGE_SLOT", Words),
    (0x03, "JUMPTABLE_RELOCS", Words),
    (0x04, "CTAIDZ_USED", Words),
    (0x05, "MAX_THREADS", Words),
    (0x06, "IMAGE_OFFSET", Words),
    (0x07, "IMAGE_SIZE", Words),
    (0x08, "TEXTURE_NORMALIZED", Words),
    (0x09, "SAMPLER_INIT", Words),
    (0x0a, "PARAM_CBANK", ParameterBank),
    (0x0b, "SMEM_PARAM_OFFSETS", Words),
    (0x0c, "CBANK_PARAM_OFFSETS", Words),
    (0x0d, "SYNC_STACK", Words),
    (0x0e, "TEXID_SAMPID_MAP", Words),
    (0x0f, "EXTERNS", Symbols),
    (0x10, "REQNTID", Words),
    (0x11, "FRAME_SIZE", PerSymbol),
    (0x12, "MIN_STACK_SIZE", PerSymbol),
    (0x13, "SAMPLER_FORCE_UNNORMALIZED", Words),
    (0x14, "BINDLESS_IMAGE_OFFSETS", Words),
    (0x15, "BINDLESS_TEXTURE_BANK", Words),
    (0x16, "BINDLESS_SURFACE_BANK", Words),
    (0x17, "KPARAM_INFO", Parameter),
    (0x18, "SMEM_PARAM_SIZE", Words),
    (0x19, "CBANK_PARAM_SIZE", Words),
    (0x1a, "QUERY_NUMATTRIB", Words),
    (0x1b, "MAXREG_COUNT", Words),
    (0x1c, "EXIT_INSTR_OFFSETS", Words),
    (0x1d, "S2RCTAID_INSTR_OFFSETS", Words),
    (0x1e, "CRS_STACK_SIZE", Words),
    (0x1f, "NEED_CNP_WRAPPER", Words),
    (0x20, "NEED_CNP_PATCH", Words),
    (0x21, "EXPLICIT_CACHING", Words),
    (0x22, "ISTYPEP_USED", Words),
    (0x23, "MAX_STACK_SIZE", PerSymbol),
    (0x24, "SUQ_USED", Words),
    (0x25, "LD_CACHEMOD_INSTR_OFFSETS", Words),
    (0x26, "LOAD_CACHE_REQUEST", PerSymbol),
    (0x27, "ATOM_SYS_INSTR_OFFSETS", Words),
    (0x28, "COOP_GROUP_INSTR_OFFSETS", Words),
    (0x29, "COOP_GROUP_MASK_REGIDS", Words),
    (0x2a, "SW1850030_WAR", Words),
    (0x2b, "WMMA_USED", Words),
    (0x2c, "HAS_PRE_V10_OBJECT", Words),
    (0x2d, "ATOMF16_EMUL_INSTR_OFFSETS", Words),
    (0x2e, "ATOM16_EMUL_INSTR_REG_MAP", Pairs),
    (0x2f, "REGCOUNT", PerSymbol),
    (0x30, "SW2393858_WAR", Words),
    (0x31, "INT_WARP_WIDE_INSTR_OFFSETS", Words),
    (0x32, "SHARED_SCRATCH", Words),
    (0x33, "STATISTICS", Bytes),
    (0x34, "INDIRECT_BRANCH_TARGETS", BranchTargets),
    (0x35, "SW2861232_WAR", Words),
    (0x36, "SW_WAR", Words),
    (0x37, "CUDA_API_VERSION", Words),
    (0x38, "NUM_MBARRIERS", Words),
    (0x39, "MBARRIER_INSTR_OFFSETS", Mbarriers),
    (0x3a, "COROUTINE_RESUME_ID_OFFSETS", Pairs),
    (0x3b, "SAM_REGION_STACK_SIZE", PerSymbol),
    (0x3c, "PER_REG_TARGET_PERF_STATS", Bytes),
    (0x3d, "CTA_PER_CLUSTER", Words),
    (0x3e, "EXPLICIT_CLUSTER", Words),
    (0x3f, "MAX_CLUSTER_RANK", Words),
    (0x40, "INSTR_REG_MAP", Words),
    (0x41, "RESERVED_SMEM_USED", Words),
    (0x42, "RESERVED_SMEM_0_SIZE", Words),
    (0x43, "UCODE_SECTION_DATA", Bytes),
    (0x44, "UNUSED_LOAD_BYTE_OFFSET", Words),
    (0x45, "KPARAM_INFO_V2", ParameterV2),
    (0x46, "SYSCALL_OFFSETS", Words),
    (0x47, "SW_WAR_MEMBAR_SYS_INSTR_OFFSETS", Words),
    (0x48, "GRAPHICS_GLOBAL_CBANK", Words),
    (0x49, "SHADER_TYPE", Words),
    (0x4a, "VRC_CTA_INIT_COUNT", Words),
    (0x4b, "TOOLS_PATCH_FUNC", Words),
    (0x4c, "NUM_BARRIERS", Words),
    (0x4d, "TEXMODE_INDEPENDENT", Words),
    (0x4e, "PERF_STATISTICS", Bytes),
    (0x4f, "AT_ENTRY_FRAGMENTS", Words),
    (0x50, "SPARSE_MMA_MASK", Words),
    (0x51, "TCGEN05_1CTA_USED", Words),
    (0x52, "TCGEN05_2CTA_USED", Words),
    (0x53, "GEN_ERRBAR_AT_EXIT", Words),
    (0x54, "REG_RECONFIG", Words),
    (0x55, "ANNOTATIONS", Bytes),
    (0x57, "STACK_CANARY_TRAP_OFFSETS", Words),
    (0x58, "STUB_FUNCTION_KIND", Words),
    (0x59, "LOCAL_CTA_ASYNC_STORE_OFFSETS", Words),
    (0x5a, "MERCURY_FINALIZER_OPTIONS", Bytes),
    (0x5b, "BLOCKS_ARE_CLUSTERS", Words),
    (0x5c, "SANITIZE", Words),
    (0x5d, "SYSCALLS_FALLBACK", Symbols),
    (0x5e, "CUDA_REQ", Words),
    (0x5f, "MERCURY_ISA_VERSION", Words),
    (0x61, "RTCORE_ENTRY", Words),
    (0x62, "CLUSTER_LAUNCH_CONTROL_USED", Words),
    (0x64, "MIN_PER_CTA_MEMORY_SIZE", Words),
    (0x65, "IGNOREOOB_CP_ASYNC_BULK_INSTR_OFFSETS", Words),
    (0x66, "LANGUAGE", Words),
];

impl AttributeCode {
    pub const CTAIDZ_USED: AttributeCode = AttributeCode(0x04);
    pub const MAX_THREADS: AttributeCode = AttributeCode(0x05);
    pub const SAMPLER_INIT: AttributeCode = AttributeCode(0x09);
    pub const PARAM_CBANK: AttributeCode = AttributeCode(0x0a);
    pub const EXTERNS: AttributeCode = AttributeCode(0x0f);
    pub const REQNTID: AttributeCode = AttributeCode(0x10);
    pub const FRAME_SIZE: AttributeCode = AttributeCode(0x11);
    pub const MIN_STACK_SIZE: AttributeCode = AttributeCode(0x12);
    pub const SAMPLER_FORCE_UNNORMALIZED: AttributeCode = AttributeCode(0x13);
    pub const BINDLESS_TEXTURE_BANK: AttributeCode = AttributeCode(0x15);
    pub const BINDLESS_SURFACE_BANK: AttributeCode = AttributeCode(0x16);
    pub const KPARAM_INFO: AttributeCode = AttributeCode(0x17);
    pub const KPARAM_INFO_V2: AttributeCode = AttributeCode(0x45);
    pub const CBANK_PARAM_SIZE: AttributeCode = AttributeCode(0x19);
    pub const MAXREG_COUNT: AttributeCode = AttributeCode(0x1b);
    pub const EXIT_INSTR_OFFSETS: AttributeCode = AttributeCode(0x1c);
    pub const S2RCTAID_INSTR_OFFSETS: AttributeCode = AttributeCode(0x1d);
    pub const CRS_STACK_SIZE: AttributeCode = AttributeCode(0x1e);
    pub const ISTYPEP_USED: AttributeCode = AttributeCode(0x22);
    pub const MAX_STACK_SIZE: AttributeCode = AttributeCode(0x23);
    pub const ATOM_SYS_INSTR_OFFSETS: AttributeCode = AttributeCode(0x27);
    pub const COOP_GROUP_INSTR_OFFSETS: AttributeCode = AttributeCode(0x28);
    pub const COOP_GROUP_MASK_REGIDS: AttributeCode = AttributeCode(0x29);
    pub const WMMA_USED: AttributeCode = AttributeCode(0x2b);
    pub const REGCOUNT: AttributeCode = AttributeCode(0x2f);
    pub const INT_WARP_WIDE_INSTR_OFFSETS: AttributeCode = AttributeCode(0x31);
    pub const INDIRECT_BRANCH_TARGETS: AttributeCode = AttributeCode(0x34);
    pub const SW2861232_WAR: AttributeCode = AttributeCode(0x35);
    pub const SW_WAR: AttributeCode = AttributeCode(0x36);
    pub const CUDA_API_VERSION: AttributeCode = AttributeCode(0x37);
    pub const NUM_MBARRIERS: AttributeCode = AttributeCode(0x38);
    pub const MBARRIER_INSTR_OFFSETS: AttributeCode = AttributeCode(0x39);
    pub const CTA_PER_CLUSTER: AttributeCode = AttributeCode(0x3d);
    pub const EXPLICIT_CLUSTER: AttributeCode = AttributeCode(0x3e);
    pub const MAX_CLUSTER_RANK: AttributeCode = AttributeCode(0x3f);
    pub const INSTR_REG_MAP: AttributeCode = AttributeCode(0x40);
    pub const RESERVED_SMEM_USED: AttributeCode = AttributeCode(0x41);
    pub const UNUSED_LOAD_BYTE_OFFSET: AttributeCode = AttributeCode(0x44);
    pub const SYSCALL_OFFSETS: AttributeCode = AttributeCode(0x46);
    pub const VRC_CTA_INIT_COUNT: AttributeCode = AttributeCode(0x4a);
    pub const TOOLS_PATCH_FUNC: AttributeCode = AttributeCode(0x4b);
    pub const NUM_BARRIERS: AttributeCode = AttributeCode(0x4c);
    pub const TEXMODE_INDEPENDENT: AttributeCode = AttributeCode(0x4d);
    pub const AT_ENTRY_FRAGMENTS: AttributeCode = AttributeCode(0x4f);
    pub const SPARSE_MMA_MASK: AttributeCode = AttributeCode(0x50);
    pub const TCGEN05_1CTA_USED: AttributeCode = AttributeCode(0x51);
    pub const TCGEN05_2CTA_USED: AttributeCode = AttributeCode(0x52);
    pub const GEN_ERRBAR_AT_EXIT: AttributeCode = AttributeCode(0x53);
    pub const REG_RECONFIG: AttributeCode = AttributeCode(0x54);
    pub const ANNOTATIONS: AttributeCode = AttributeCode(0x55);
    pub const MERCURY_FINALIZER_OPTIONS: AttributeCode = AttributeCode(0x5a);
    pub const BLOCKS_ARE_CLUSTERS: AttributeCode = AttributeCode(0x5b);
    pub const MERCURY_ISA_VERSION: AttributeCode = AttributeCode(0x5f);
}
