//! Instruction selection: translates checked PTX (`oriole_ptx::ast`) into Ori, the intermediate representation, not yet in SSA form.
//!
//! The `dispatch` module passes each PTX instruction to the handler of its family. A handler emits one or more machine instructions. The
//! handler reads its operands through the `Select` context as values, numbers or predicates, writes instructions as
//! templates in the syntax of nvdisasm, and assigns its results to PTX registers. Selection is one pass over the statements of a function.
//! Handlers do not have to deal with:
//!
//! - **SSA.** A PTX register becomes a variable that may be assigned many times; SSA construction renames the variables afterwards.
//! - **Guards.** Every instruction emitted for a guarded PTX instruction carries the guard of that PTX instruction. An assignment keeps
//!   the old value where the guard is false. A temporary is undefined there, but no instruction reads it under another guard.
//! - **Operand limits.** Any operand may be an immediate or a constant and may have a sign. The legalization pass moves operands that no
//!   encoding accepts into registers. The folding pass puts constants back where an encoding accepts them.
//! - **Targets.** A global access always names its memory descriptor. Where targets differ in capabilities, handlers test for the
//!   instruction itself (`Opcode::VIMNMX.exists_on(target)`) or read the [`oriole_isa::SystemLayout`].
//!
//! Longer expansions (division, square roots) are PTX functions in `library/` that `Select::expand` inlines at each use.
//!
//! Example: `@%p1 add.u64 %rd1, %rd2, 8;` with the PTX registers in the variables `%0` (`%p1`), `%1` (`%rd1`) and `%2` (`%rd2`):
//!
//! ```text
//! @%0 %3:R, %4:P, PT = IADD3 %2[0], 0x8, RZ
//! @%0 %5:R, PT, PT = IADD3.X %2[1], 0x0, RZ, %4, !PT
//! @%0 %6:R2 = PACK %3, %5
//! @%0 %1:R2 = COPY %6, (else %1)
//! ```
//!
//! **Order.** A source operand is a variable, not a copy of its value, and a destination may be the same PTX register as a source. So a
//! handler must compute everything that depends on the sources before it assigns its first destination.
//!
//! **Representation.** A PTX register of up to 32 bits is one R register. In a type narrower than 32 bits only the low bits are
//! significant and the upper bits are unspecified; a handler that depends on the upper bits extends the value first. A 64-bit register is
//! an aligned pair of R registers, a 128-bit register a quad. A predicate is a P value.

mod caches;
mod context;
mod dispatch;
mod each_thread;
mod elected;
mod error;
mod float_modifiers;
mod initializer;
mod layout;
mod library;
mod operands;
mod parameter_words;
mod place_variables;
mod ptx;
mod recording;
mod runtime;
mod select;
mod shared;
mod static_data;
mod variable_layout;
mod variable_sizes;
mod variables;
mod words;

mod atomics;
mod barrier;
mod bits;
mod bulk;
mod bulk_remote;
mod bulk_tensor;
mod calls;
mod cluster;
mod compare;
mod control;
mod convention;
mod convert;
mod fence;
mod float;
mod half;
mod integer;
mod launch_control;
mod logic;
mod mbarrier;
mod memory;
mod moves;
mod multimem;
mod parameters;
mod special;
mod stack;
mod tensor;
mod tensormap;
mod texture;
mod video;
mod warp;

pub use caches::SelectCaches;
pub use calls::aliases;
pub use context::SelectOptions;
pub use convention::{DYNAMIC_STACK, RETURN_ADDRESS, SAVED_STACK_POINTER, prototype};
pub use error::Unsupported;
pub use layout::{Layout, Linking, Static};
pub use runtime::{RuntimeClobbers, is_runtime, is_slow_path, runtime_function};
pub use select::{Selected, select_function, select_function_with};
pub use static_data::{Data, DataAddress};
pub use tensor::{TENSOR_MEMORY_RECORD, TensorMemoryUse};
pub use texture::{GradientHelp, ImageWord, ImageWords, QuadFetch, gradient_help, is_driver_gradient};
pub use variable_layout::{ADDRESS_BANK, CONSTANT_BANK, SymbolSpace, VariableLayout, VariableLocation};
pub use variable_sizes::referenced_variables;
