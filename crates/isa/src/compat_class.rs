//! The class of each instruction in the attribute `ISA_CLASS` of `.nv.compat`, which a file has from Hopper on.
//!
//! Found by compiling every form of the PTX table with ptxas 13.0.88 for sm_90a and sm_120a and comparing the attribute with the machine
//! code.

use crate::{Opcode, Symbol};

/// Class of the instructions that all GPUs from Hopper on have.
pub const LOWEST_CLASS: u8 = 1;

/// A class above [`LOWEST_CLASS`], and the instructions that it is for.
struct CompatClassRow {
    opcode: Opcode,
    /// The modifiers that the instruction must have.
    modifiers: &'static [Symbol],
    class: u8,
}

const fn row(opcode: Opcode, modifiers: &'static [Symbol], class: u8) -> CompatClassRow {
    CompatClassRow { opcode, modifiers, class }
}

/// Of the rows that an instruction matches, the first counts.
const CLASSES: &[CompatClassRow] = &[
    row(Opcode::UTMALDG, &[], 2),
    row(Opcode::UTMASTG, &[], 2),
    row(Opcode::UTMAREDG, &[], 2),
    row(Opcode::UTMAPF, &[], 2),
    row(Opcode::UTMACCTL, &[], 2),
    row(Opcode::UBLKCP, &[Symbol::S, Symbol::G], 2),
    row(Opcode::SUST, &[], 2),
    row(Opcode::SURED, &[], 2),
    row(Opcode::F2FP, &[Symbol::UNPACK_B], 2),
    row(Opcode::QMMA, &[], 2),
    row(Opcode::OMMA, &[Symbol::SP], 3),
    row(Opcode::OMMA, &[], 2),
    row(Opcode::HGMMA, &[], 4),
    row(Opcode::IGMMA, &[], 4),
    row(Opcode::QGMMA, &[], 4),
    row(Opcode::BGMMA, &[], 4),
    row(Opcode::WARPGROUP, &[], 4),
];

/// Returns the class of an instruction.
pub fn class_of(opcode: Opcode, modifiers: &[Symbol]) -> u8 {
    let matches = |row: &&CompatClassRow| row.opcode == opcode && row.modifiers.iter().all(|modifier| modifiers.contains(modifier));
    CLASSES.iter().find(matches).map_or(LOWEST_CLASS, |row| row.class)
}
