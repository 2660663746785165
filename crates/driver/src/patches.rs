//! Checks of tools patches: code that tools insert into other programs (`ptxas --compile-as-tools-patch`).
//!
//! A tool such as compute-sanitizer calls these functions from instructions of a program that was compiled without them, and saves the
//! registers that the calling convention lets a function change. It does not save uniform registers, so the code must not use them. The
//! passes that compute in uniform registers do not run ([`PASSES_DISABLED_IN_PATCHES`]), and accesses to memory have no descriptor.
//! [`check`] rejects functions that need a uniform register nevertheless, and functions that need more general registers than the smallest
//! program provides ([`convention::MIN_ABI_REGISTERS`]).

use oriole_ir::{Function, OperandKind, RegFile};
use oriole_ptx::source::Span;

use crate::convention;
use crate::error::{ErrorCause, FunctionError};
use crate::state::Selection;

/// The optional passes that may use uniform registers in device functions. They do not run on tools patches (code that tools insert into
/// other programs).
const PASSES_DISABLED_IN_PATCHES: [&str; 3] = ["uniform", "aggregate", "sync-diverged"];

/// Returns whether an optional pass may run on tools patches (code that tools insert into other programs).
pub fn allows_pass(pass: &str) -> bool {
    !PASSES_DISABLED_IN_PATCHES.contains(&pass)
}

/// The end of error messages about code that a tools patch may not contain, in ptxas' words.
const NOT_ALLOWED_IN_PATCH_TEXT: &str = "is not allowed when command line option '--compile-as-tools-patch' is specified";

/// Returns an error for the first instruction of a tools patch (code that tools insert into other programs) that uses a uniform register,
/// or a general register above the limit. The function must have physical registers.
pub fn check(function: &Function) -> Result<(), FunctionError> {
    for &block in &function.layout {
        for &inst in &function.blocks[block].insts {
            let Some(registers) = function.operands(inst).iter().find_map(|operand| forbidden_registers(operand.kind)) else {
                continue;
            };
            let opcode = function.insts[inst].op.machine().map_or("code", |opcode| opcode.mnemonic());
            let start = function.insts[inst].location.statement.checked_sub(1);
            return Err(FunctionError {
                span: start.map(|start| Span::new(start, start)),
                fault: ErrorCause::Unsupported(format!("{opcode} with --compile-as-tools-patch, because it needs {registers},")),
            });
        }
    }
    Ok(())
}

/// Returns a description, for an error message, of the registers of an operand that tools patches may not use; `None` if they may use all
/// registers of the operand.
fn forbidden_registers(operand: OperandKind) -> Option<&'static str> {
    let OperandKind::Register { file, first, count } = operand else { return None };
    match file {
        RegFile::Uniform | RegFile::UniformPredicate => Some("uniform registers"),
        RegFile::General if u32::from(first) + u32::from(count) > convention::MIN_ABI_REGISTERS => Some("more registers"),
        _ => None,
    }
}

/// Returns an error, as ptxas does, if a function of a tools patch calls through a pointer or takes the address of a function.
pub fn check_patch_calls<'a>(functions: impl Iterator<Item = &'a Selection>) -> Result<(), ErrorCause> {
    for selection in functions {
        if !selection.indirect_calls.is_empty() {
            return Err(ErrorCause::Limit(format!("Using indirect function calls {NOT_ALLOWED_IN_PATCH_TEXT}")));
        }
        if !selection.taken_functions.is_empty() {
            return Err(ErrorCause::Limit(format!("Taking address of device functions {NOT_ALLOWED_IN_PATCH_TEXT}")));
        }
    }
    Ok(())
}
