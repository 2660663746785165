//! The machine instructions (SASS) of NVIDIA GPUs from Volta to Blackwell, described by one table.
//!
//! The files under `data/` describe every instruction once: mnemonic, property fields with their spellings, operands, and the
//! encodings (forms) with their bit layout and targets. The build script turns the files into constant data ([`table`]). Decoder, encoder,
//! printer and parser all interpret that data:
//!
//! - [`decode`](decode()) converts 128 bits to an [`Instruction`];
//! - [`encode`] converts an [`Instruction`] to 128 bits; of all forms that can hold it, the most specific one is used;
//! - [`print`](print()) converts 128 bits to the text that nvdisasm prints;
//! - [`parse`] converts such text to an [`Instruction`].
//!
//! An [`Instruction`] consists of mnemonic, modifiers, operands, guard and [`Control`]; it does not depend on a form or a target. Bits
//! that the text does not show are kept in [`Instruction::residue`], so that decoding and encoding a word returns the same word.
//!
//! ```
//! use oriole_isa::{Control, Target, encode, parse, print};
//!
//! let target = Target::parse("sm_90a").unwrap();
//! let instruction = parse("FADD.FTZ R4, -R2, |R3|").unwrap();
//! let word = encode(&instruction, target).unwrap();
//! assert_eq!(print(word, target, 0).as_deref(), Some("FADD.FTZ R4, -R2, |R3|"));
//! ```
#![deny(missing_docs)]

mod alias;
pub mod compat_class;
mod control;
mod decode;
mod encodings;
mod fill;
mod float;
mod footprint;
mod instruction;
mod launch;
mod layout;
mod print;
mod select;
pub mod table;
mod text;
mod widths;

pub use control::Control;
pub use decode::{decode, form_of};
pub use footprint::{Access, AccessPlace, Accesses, HIDDEN_REGISTERS, accesses, released_registers, requested_registers};
pub use instruction::{Address, AddressPart, AddressRegister, BranchNumber, InstGuard, Instruction, Operand, OperandValue, Symbols};
pub use launch::{ClusterLaunch, LaunchLayout, LaunchWord, ReservedShared};
pub use layout::{SMALL_PARAMETER_BYTES, SharedWindow, SystemLayout, TextureHandle};
pub use oriole_support::Target;
pub use print::{print, print_exact, print_with};
pub use select::{EncodeError, encode, find_form, has_conflicting_signs, select, settle};
pub use table::{Effect, Latency, Leading, Memory, NumberFormat, Opcode, Pipe, Properties, RegFile, Symbol};
pub use text::{InstParseError, parse, parse_at};

/// Size of an encoded instruction in bytes.
pub const INSTRUCTION_BYTES: usize = 16;
