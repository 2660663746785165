//! Decides for each kernel whether its code follows `setmaxnreg`, which moves registers between the warps of a block.
//!
//! A kernel that follows it has as many registers as its launch bounds allow where it starts, and in each region the number of the last
//! `setmaxnreg` ([`oriole_ir::analysis::RegisterCounts`]). The PTX manual leaves the instruction without effect unless the number at the
//! start is known at compile time, from `.maxnreg`, from `-maxrregcount`, or from `.maxntid` or `.reqntid` together with `.minnctapersm`.
//!
//! Example: `.maxntid 384` and `.minnctapersm 1` allow 168 registers on sm_90. After `setmaxnreg.dec 40` in one warpgroup and
//! `setmaxnreg.inc 232` in the other two, the block has 128 * 40 + 256 * 232 = 64,512 registers, as before.

use oriole_ptx::ast::{Function, LaunchBounds, Module, Operand};
use oriole_ptx::table::Opcode;

use crate::functions;
use crate::options::Options;
use crate::registers::{RegisterLimit, max_block_threads};

/// How a function treats its `setmaxnreg` instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RegisterCountChanges {
    /// The instructions change the number of registers.
    Followed(FollowedCounts),
    /// The function has no such instruction, or its instructions have no effect for this reason.
    Ignored(IgnoredBecause),
}

/// The numbers of registers of a kernel that follows `setmaxnreg`, including the hidden ones
/// ([`HIDDEN_REGISTERS`](crate::registers::HIDDEN_REGISTERS)).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FollowedCounts {
    /// The number with which the kernel starts.
    pub initial: u32,
    /// The smallest number in any part of the kernel.
    pub least: u32,
    /// The largest number in any part of the kernel.
    pub most: u32,
}

/// The reason for which `setmaxnreg` is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IgnoredBecause {
    /// The number of registers with which the kernel starts is not known at compile time.
    UnknownStart,
    /// Debuggers need the same number of registers everywhere.
    Debugging,
    /// The kernel calls functions that may need more registers than one of its parts has.
    Calls,
    /// The function is no kernel, so its callers determine the number of registers.
    Function,
}

impl IgnoredBecause {
    /// Returns the remark for the user.
    pub fn text(self) -> &'static str {
        match self {
            IgnoredBecause::UnknownStart => {
                "setmaxnreg: the instruction is ignored, because the number of registers at the start of the kernel is unknown; \
                 add .maxnreg, or .minnctapersm to .maxntid or .reqntid"
            }
            IgnoredBecause::Debugging => "setmaxnreg: the instruction is ignored, because the code is for debuggers",
            IgnoredBecause::Calls => {
                "setmaxnreg: the instruction is ignored, because the kernel calls functions that may need more registers than the warp has"
            }
            IgnoredBecause::Function => "setmaxnreg: the instruction is ignored, because it is in a function that kernels call",
        }
    }
}

impl RegisterCountChanges {
    /// Returns the numbers of registers if the function follows `setmaxnreg`.
    pub fn followed(self) -> Option<FollowedCounts> {
        match self {
            RegisterCountChanges::Followed(counts) => Some(counts),
            RegisterCountChanges::Ignored(_) => None,
        }
    }
}

/// Returns the smallest and the largest number of registers that the `setmaxnreg` instructions of a function ask for; `None` if it has none.
fn requested_counts(module: &Module, function: &Function) -> Option<(u32, u32)> {
    let body = function.body.as_deref()?;
    let changes = body.instructions.iter().filter(|instruction| module.forms[instruction.form].opcode == Opcode::Setmaxnreg);
    let counts = changes.filter_map(|instruction| match body.operands[instruction.first_operand as usize] {
        Operand::Integer(count) => u32::try_from(count).ok(),
        Operand::WarpSize => Some(32),
        _ => None,
    });
    counts.fold(None, |range, count| {
        let (least, most) = range.unwrap_or((count, count));
        Some((count.min(least), count.max(most)))
    })
}

/// Decides whether a kernel follows its `setmaxnreg` instructions. `limit` is the register limit by its launch bounds, which must already be
/// completed from the command line. Whether its callees can do with so few registers is not checked here.
pub fn decide_for_kernel(
    module: &Module,
    function: &Function,
    bounds: &LaunchBounds,
    limit: &RegisterLimit,
    options: &Options,
) -> RegisterCountChanges {
    let Some((least, most)) = requested_counts(module, function) else {
        return RegisterCountChanges::Ignored(IgnoredBecause::Function);
    };
    if options.keeps_variables() {
        return RegisterCountChanges::Ignored(IgnoredBecause::Debugging);
    }
    let is_called_code_known = !options.relocatable && !options.tools_patch && !functions::may_call_by_address(function);
    if functions::has_calls(module, function) && !is_called_code_known {
        return RegisterCountChanges::Ignored(IgnoredBecause::Calls);
    }
    let has_threads = max_block_threads(bounds).is_some() && bounds.min_blocks_per_sm.is_some();
    // `-maxrregcount` has no effect on a kernel with `.maxntid` or `.reqntid`, unless it overrides directives.
    let is_option_used = options.launch.override_directives || max_block_threads(bounds).is_none();
    let is_start_known = has_threads || bounds.max_registers.is_some() || options.max_registers.is_some() && is_option_used;
    // A warning says that a bound was ignored.
    if !is_start_known || !limit.warnings.is_empty() {
        return RegisterCountChanges::Ignored(IgnoredBecause::UnknownStart);
    }
    let initial = limit.registers.min(most);
    RegisterCountChanges::Followed(FollowedCounts { initial, least: least.min(initial), most: most.max(initial) })
}
