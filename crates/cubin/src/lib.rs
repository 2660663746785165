//! Reads, writes, edits and builds NVIDIA cubins.
//!
//! A cubin is an ELF file for machine 190 with NVIDIA-specific sections. This crate reads a cubin into a model, writes the model back byte
//! for byte, edits it, builds a cubin from its parts as ptxas does, and finds cubins in container files. The crate knows nothing about
//! instructions: code is bytes. `docs/cubin.md` describes the format as observed.
//!
//! | to | use |
//! |---|---|
//! | find the images in a file of any kind | [`open`], [`Image`] |
//! | read and write a cubin | [`Cubin::read`], [`Cubin::write`] |
//! | list kernels and their code | [`Cubin::kernels`], [`Cubin::functions`] |
//! | look up data of many functions | [`CubinIndex`] |
//! | get the target | [`Cubin::target`], [`target`] |
//! | read or change attributes | [`Cubin::function_attributes`], [`Cubin::set_attribute`], [`info`] |
//! | replace code | [`Cubin::replace_code`], [`Cubin::set_register_count`] |
//! | make a cubin | [`build`] |
//! | read and write line tables | [`debug`] |
//!
//! ```no_run
//! let data = std::fs::read("a.out").unwrap();
//! for image in oriole_cubin::open(&data)? {
//!     println!("{:?} for {} at {:#x}", image.kind, image.target, image.offset);
//!     if image.kind == oriole_cubin::ImageKind::Cubin {
//!         let mut cubin = image.cubin()?;
//!         for kernel in cubin.kernels() {
//!             println!("  {}: {} bytes, {:?} registers", kernel.name, kernel.code.len(), cubin.register_count(kernel.name));
//!         }
//!         cubin.replace_code("saxpy", vec![0; 128])?;
//!         std::fs::write(image.file_name("a"), cubin.write()?).unwrap();
//!     }
//! }
//! # Ok::<(), oriole_cubin::Error>(())
//! ```
//!
//! Input files are not trusted. For any bytes, reading ends with a model or with an [`Error`] that says what is wrong at which byte. Time
//! and memory are bounded by the size of the file and of its decompressed content.

pub mod build;
mod bytes;
pub mod callgraph;
pub mod compat;
pub mod container;
mod cubin;
pub mod debug;
mod dwarf_bytes;
mod edit;
mod error;
mod index;
pub mod info;
pub mod note;
mod read;
pub mod relocation;
mod runner;
pub mod section;
pub mod segment;
mod strings;
pub mod symbol;
pub mod target;
mod write;

pub use container::{Compression, Image, ImageKind, open};
pub use cubin::{Cubin, EM_CUDA, FileType, Function, Header, OS_ABI};
pub use error::{Error, Result};
pub use index::CubinIndex;
pub use runner::{Runner, run_in_order};
pub use strings::StringTable;
pub use target::FileTraits;
