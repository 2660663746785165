//! Records about a compiled function for `oriole explain`: remarks of passes, the machine registers that hold PTX registers, the spill
//! code, and the history of each instruction.
//!
//! Recorded only if [`Reports::decisions`](crate::Reports::decisions) is set.

use oriole_ir::RegFile;
use oriole_opt::remarks::PassRemark;
use oriole_ptx::ast::{Body, Module};

use crate::compile_function::FinishedFunction;
use crate::debug::register_contents::MachinePlace;
use crate::debug::registers::{RegisterRange, register_name};
use crate::function_report::FunctionReport;
use crate::history::InstHistory;
use crate::job::FunctionJob;

/// The records about one function for `oriole explain`.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Decisions {
    /// Remarks about changes to the code of PTX instructions that passes made, or that they rejected, with the reason; in the order of the
    /// passes.
    pub remarks: Vec<DecisionRemark>,
    /// The machine registers that hold PTX registers, sorted by machine register and address.
    pub registers: Vec<PtxRegisterLocation>,
    /// Offsets in bytes of the instructions that store or load spilled registers, in ascending order.
    pub spill_code: Vec<u32>,
    /// Size of the local variables in the stack frame, in bytes.
    pub variable_bytes: u32,
    /// For each instruction, in the order of the code and without padding: the passes and decisions that determined its form and position.
    pub history: Vec<InstHistory>,
}

/// A remark that a pass changed the code for a PTX instruction, or why it did not.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DecisionRemark {
    /// Name of the pass in the pass table.
    pub pass: &'static str,
    /// Byte offset of the PTX instruction in the source; `None` if unknown.
    pub offset: Option<u32>,
    /// Whether the pass made the change.
    pub is_applied: bool,
    /// Description of the change, or the reason why there was none.
    pub text: String,
}

/// A range of addresses in which a machine register holds a 32-bit word of a PTX register.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PtxRegisterLocation {
    /// Name of the machine register, such as `R4`.
    pub register: String,
    /// Start of the range in bytes from the start of the function.
    pub start: u32,
    /// End of the range in bytes from the start of the function, exclusive.
    pub end: u32,
    /// Name of the PTX register, such as `%f3`.
    pub name: String,
    /// Index of the 32-bit word of the PTX register that is held; 0 for the lowest.
    pub word: u8,
}

/// Name of the pass that inserts waits and fences for asynchronous matrix products. Its remarks are recorded separately.
const SETTLE_PRODUCTS_PASS: &str = "settle-products";

impl PtxRegisterLocation {
    /// Returns the record of an address range, with the names of both registers; `None` for a range in a spill slot.
    fn new(range: &RegisterRange, module: &Module, body: &Body) -> Option<PtxRegisterLocation> {
        let RegisterRange { register, word, place, start, end } = *range;
        let machine_register = match place {
            MachinePlace::General(number) => format!("{}{number}", RegFile::General.prefix()),
            MachinePlace::Predicate(number) => format!("{}{number}", RegFile::Predicate.prefix()),
            MachinePlace::Slot(_) => return None,
        };
        Some(PtxRegisterLocation { register: machine_register, start, end, name: register_name(module, body, register), word })
    }
}

impl Decisions {
    /// Collects the records about a compiled function for `oriole explain`.
    pub(crate) fn new(job: &FunctionJob<'_>, finished: &FinishedFunction, report: &FunctionReport) -> Decisions {
        let of_pass = |remark: &PassRemark| DecisionRemark {
            pass: remark.pass,
            offset: remark.location.statement.checked_sub(1),
            is_applied: remark.is_applied,
            text: remark.text.clone(),
        };
        let mut remarks: Vec<DecisionRemark> = Vec::new();
        for remark in finished.pass_remarks.list().iter().map(of_pass) {
            if !remarks.contains(&remark) {
                remarks.push(remark);
            }
        }
        remarks.extend(report.remarks.iter().map(|remark| DecisionRemark {
            pass: SETTLE_PRODUCTS_PASS,
            offset: remark.offset,
            is_applied: true,
            text: remark.text.to_owned(),
        }));
        let mut registers: Vec<PtxRegisterLocation> = match job.function().body.as_deref() {
            Some(body) => {
                finished.code.register_ranges.iter().filter_map(|range| PtxRegisterLocation::new(range, job.module, body)).collect()
            }
            None => Vec::new(),
        };
        registers.sort_unstable();
        Decisions {
            remarks,
            registers,
            spill_code: finished.code.spill_code.clone(),
            variable_bytes: finished.report_data.variables_size,
            history: finished.code.history.clone(),
        }
    }
}
