//! The resource usage of a compiled function, and remarks about it.

use oriole_ir::Location;
use oriole_opt::settle_products::{ProductSyncReason, ProductSyncRemark};

use crate::register_counts::IgnoredBecause;
use crate::schedule::SchedulePlan;

/// Resource usage of one function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionReport {
    /// Name of the function.
    pub name: String,
    /// Whether the function is a kernel.
    pub is_kernel: bool,
    /// Number of registers per thread, including two that the hardware allocates in addition to those that instructions name.
    pub registers: u32,
    /// Number of named barriers (`barrier`, `bar`) that the function uses.
    pub barriers: u32,
    /// Size in bytes of the stack frame in local memory, including spill slots.
    pub stack_bytes: u32,
    /// Sum of the sizes in bytes of all spill stores in the code.
    pub spill_store_bytes: u32,
    /// Sum of the sizes in bytes of all spill loads in the code.
    pub spill_load_bytes: u32,
    /// Size in bytes of static shared memory, without the part that the system reserves.
    pub shared_bytes: u32,
    /// Number of bytes of constant bank 0 that the kernel uses, up to the end of the last parameter or of the handles of textures and
    /// surfaces; 0 for a function that is not a kernel.
    pub constant_bytes: u32,
    /// Number of machine instructions, without padding.
    pub instructions: usize,
    /// The scheduling plan (backend, mode, occupancy) that was used; `None` if the function was not scheduled.
    pub plan: Option<SchedulePlan>,
    /// Warnings for the user in ptxas' words, for example about ignored launch bounds.
    pub warnings: Vec<String>,
    /// Remarks about `setmaxnreg` instructions that were ignored, then about waits and fences that were inserted. At -O0, inserted waits
    /// are not reported.
    pub remarks: Vec<PerformanceRemark>,
}

/// A remark about a PTX instruction that has no effect, or for which the compiler had to insert a wait or fence that costs time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PerformanceRemark {
    /// Index of the module among those compiled together.
    pub module_number: usize,
    /// Byte offset of the PTX instruction in the source of the module; `None` if unknown.
    pub offset: Option<u32>,
    /// Description of the inserted wait or fence and the reason for it, or of the instruction that has no effect.
    pub text: &'static str,
}

impl PerformanceRemark {
    /// Creates the remark about a wait or fence that was inserted for asynchronous matrix products.
    pub(crate) fn new(module_number: usize, remark: &ProductSyncRemark) -> PerformanceRemark {
        let text = match remark.reason {
            ProductSyncReason::Access => {
                "wgmma: a wait was inserted because this instruction accesses a register of a product that is still running"
            }
            ProductSyncReason::OtherShape => {
                "wgmma: a wait was inserted because this product uses registers of a running product in another shape or role"
            }
            ProductSyncReason::ControlTransfer => {
                "wgmma: a wait was inserted because a product is still running at a call, a return or the end"
            }
            ProductSyncReason::Fence => "wgmma: a fence was inserted because registers of this product were accessed since the last fence",
        };
        PerformanceRemark::remark_at_location(module_number, remark.location, text)
    }

    /// Returns the remark that the PTX instruction `setmaxnreg` at a location has no effect, with the reason.
    pub(crate) fn ignored_setmaxnreg_remark(module_number: usize, location: Location, reason: IgnoredBecause) -> PerformanceRemark {
        PerformanceRemark::remark_at_location(module_number, location, reason.text())
    }

    /// Creates a remark about the PTX instruction at a source location.
    fn remark_at_location(module_number: usize, location: Location, text: &'static str) -> PerformanceRemark {
        PerformanceRemark { module_number, offset: location.statement.checked_sub(1), text }
    }
}
