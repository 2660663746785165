//! NVIDIA cubins, in and out.
pub mod build;
mod bytes;
pub mod callgraph;
pub mod compat;
pub mod container;
mod cubin;
mod edit;
mod error;
pub mod info;
pub mod note;
mod read;
pub mod relocation;
pub mod section;
pub mod segment;
mod strings;
pub mod symbol;
pub mod target;
mod write;

pub use container::{Compression, Image, ImageKind, open};
pub use cubin::{Cubin, EM_CUDA, FileType, Function, Header, OS_ABI};
pub use error::{Error, Result};
pub use strings::StringTable;
pub use target::Target;
