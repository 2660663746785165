//! The text form of functions. Printing and parsing are inverse to each other.
//!
//! ```text
//! func kernel @scale ssa frame 16 align 8 {
//!     symbol table
//! bb0:
//!     %0:R = S2R SR_TID.X ;@12:3
//!     %1:R2 = IMAD.WIDE.U32 %0, 0x4, c[0x0][0x210]
//!     %2:R = LDG.E desc[URZ][%1.64+0x10] !global.relaxed.gpu.4
//!     %3:P, PT = ISETP.LT.AND %2, RZ, PT
//!     @!%3 %4:R = IADD3 %2, -%1[1], lo(table+4), (else %2)
//!     @%3 BRA bb1
//!     BRA bb1
//! bb1:
//!     EXIT
//! }
//! ```
//!
//! - A result shows its class: register file, number of registers if not one, `@` and the alignment if it is not the default. The classes
//!   of values that are read but never written are declared in lines `value %7:R2` at the top.
//! - A part of a value is written `%1[1]` or `%1[0:1]`, physical registers `R4` and `R4:R5`, no value `undef`.
//! - `(else x)` is the operand tied to the first result, `(else1 x)` to the second; `@R4` after an operand fixes its register.
//! - `!space.order.scope.bytes` describes a memory access; `weak` and `thread` are omitted, `volatile` and `constant` may follow.
//! - `lo`, `hi`, `function_lo`, `function_hi`, `call` and the like, with a name and an offset in parentheses, are references.
//! - `bb1 nounroll:` is the label of a block that heads a loop which must not be unrolled.
//! - `contract` after the operands of a floating-point product or sum says that it may be rounded together with another one.
//! - `;@12:3` is the source position; any other `;` starts a comment.
//!
//! Everything else is written as in nvdisasm's output. Blocks and values keep their numbers.

mod parse;
mod print;

pub use parse::{ParseError, parse};
pub use print::{print, print_inst};

use crate::memory::{Order, Scope, Space};
use crate::operand::ReferenceKind;

/// The mark of an instruction that may be contracted.
const CONTRACT: &str = " contract";

/// Names of memory spaces in the text form.
const SPACES: [(Space, &str); 6] = [
    (Space::Generic, "generic"),
    (Space::Global, "global"),
    (Space::Shared, "shared"),
    (Space::Local, "local"),
    (Space::Constant, "const"),
    (Space::Spill, "spill"),
];

/// Names of scopes in the text form.
const SCOPES: [(Scope, &str); 5] =
    [(Scope::Thread, "thread"), (Scope::Block, "cta"), (Scope::Cluster, "cluster"), (Scope::Gpu, "gpu"), (Scope::System, "sys")];

/// Names of memory orders in the text form.
const ORDERS: [(Order, &str); 6] = [
    (Order::Weak, "weak"),
    (Order::Relaxed, "relaxed"),
    (Order::Acquire, "acquire"),
    (Order::Release, "release"),
    (Order::AcquireRelease, "acq_rel"),
    (Order::SequentiallyConsistent, "sc"),
];

/// Names of reference kinds in the text form.
const REFERENCES: [(ReferenceKind, &str); 12] = [
    (ReferenceKind::Low, "lo"),
    (ReferenceKind::High, "hi"),
    (ReferenceKind::FunctionLow, "function_lo"),
    (ReferenceKind::FunctionHigh, "function_hi"),
    (ReferenceKind::Call, "call"),
    (ReferenceKind::ReturnLow, "return_lo"),
    (ReferenceKind::ReturnHigh, "return_hi"),
    (ReferenceKind::Incoming, "incoming"),
    (ReferenceKind::SharedOffset, "shared"),
    (ReferenceKind::ConstantOffset, "constant"),
    (ReferenceKind::DriverNumber, "number"),
    (ReferenceKind::ImageWord, "image"),
];

/// Returns the name of a member of a table.
fn word<T: PartialEq + Copy>(table: &[(T, &'static str)], member: T) -> &'static str {
    table.iter().find(|(known, _)| *known == member).map_or("", |(_, word)| word)
}

/// Returns the member of a table with a name.
fn member<T: Copy>(table: &[(T, &'static str)], word: &str) -> Option<T> {
    table.iter().find(|(_, known)| *known == word).map(|(member, _)| *member)
}
