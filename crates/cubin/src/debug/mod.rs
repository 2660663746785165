//! Line tables, in both directions.
//!
//! A cubin has two of them in DWARF 2: `.debug_line` from machine code to the source files, and `.nv_debug_line_sass` from machine code to
//! lines of the PTX text, which `.nv_debug_ptx_txt` holds. Each function has one sequence of rows; its start address is relocated. Both
//! differ from standard DWARF in one extended opcode for inlined code, [`DW_LNE_INLINED_CALL`], see `docs/debugging.md`.

mod line_editor;
mod line_reader;
mod line_writer;
mod location;

pub use line_editor::{MovedCode, reorder_lines};
pub use line_reader::{LineRow, LineTable, SourcePosition, ptx_text, read_lines};
pub use line_writer::{EncodedLines, LineProgram, Row, Sequence, SourceFile};
pub use location::frame_location;

/// Section with the line table of the source files.
pub const DEBUG_LINE: &str = ".debug_line";
/// Section with the names of inlined functions and other strings.
pub const DEBUG_STR: &str = ".debug_str";
/// Section with the line table of the PTX text.
pub const DEBUG_LINE_SASS: &str = ".nv_debug_line_sass";
/// Section with the PTX text. In relocatable files a number follows, which distinguishes the texts of several files.
pub const DEBUG_PTX_TEXT: &str = ".nv_debug_ptx_txt";

/// Extended opcode before the first row of inlined code, and before the first row after it. Operands, both ULEB128: the number of the row of
/// the call in its sequence, from 1, or 0 for code that is not inlined; and the offset in `.debug_str` of the name of the function.
pub const DW_LNE_INLINED_CALL: u8 = 0x90;
