//! The environment of every kernel: registers, parameters, memory.
//!
//! The host fills a table with one row of [`POOL_REGISTERS`] words per lane, and the prologue loads each row into the registers with the
//! same numbers. Therefore experiments can use any constants, including addresses, without extra instructions.

use crate::assembler::{Assembler, Line};
use oriole_isa::{Control, Opcode, SystemLayout};

pub const LANES: usize = 32;
/// Number of registers that are loaded: R0 to R59, of which the prologue uses R0 to R3. Limited so that 32 warps fit.
pub const POOL_REGISTERS: usize = 60;
/// Bytes of the pool per lane.
pub const POOL_BYTES: usize = 256;
/// Size of the parameters in bytes: address of the pool, the new and the old uniform value, then a pattern for loads from constant memory.
pub const PARAMETER_BYTES: usize = 4096 - 64;
pub const NEW_PARAMETER: usize = 8;
pub const OLD_PARAMETER: usize = 16;
pub const PATTERN_PARAMETER: usize = 64;
/// Bytes of global memory: a pattern for loads, then a slot per lane.
pub const SCRATCH_BYTES: usize = 1 << 16;
/// Offset of the second part of global memory, for pairs that change the upper half of an address, and the byte it is filled with.
pub const FAR_END_OFFSET: u64 = 1 << 32;
pub const FAR_END_BYTE: u8 = 0x5a;
const SLOT_OFFSET: u64 = 0x8000;
const SLOT_BYTES: u64 = 16;
pub const SHARED_BYTES: u32 = 0x2000;
const SHARED_SLOT: u32 = 0x1c00;
const PATTERN_BYTES: u32 = 0x1400;
pub const NEW_UNIFORM: u32 = 0x104;
pub const OLD_UNIFORM: u32 = 0xe0c;

/// Returns the byte of the pattern at an offset. The pattern is the same in global, shared and constant memory.
pub fn pattern(offset: u32) -> u8 {
    (offset.wrapping_mul(0x9e37_79b1) >> 24) as u8
}

/// Returns the registers of a lane before an experiment.
pub fn pool(lane: u32, scratch: u64, output: u64) -> [u32; POOL_REGISTERS] {
    let mut registers = [0; POOL_REGISTERS];
    let new = NEW_UNIFORM + 8 * lane;
    let old = OLD_UNIFORM + 8 * lane;
    let slot = scratch + SLOT_OFFSET + SLOT_BYTES * u64::from(lane);
    let out = output + 4 * u64::from(lane);
    let mut put = |first: usize, values: &[u32]| registers[first..first + values.len()].copy_from_slice(values);
    put(4, &[old; 4]);
    put(8, &[new; 4]);
    put(12, &[1f32.to_bits(), 1]);
    put(14, &halves(1f64.to_bits()));
    put(16, &[0; 4]);
    put(20, &[old; 4]);
    put(24, &[(f64::from(new) * 2f64.powi(-24)) as f32].map(f32::to_bits));
    put(25, &[0x3c00_3c00, 0x3f80_3f80, (scratch >> 32) as u32 + 1]);
    put(28, &[NEW_UNIFORM, OLD_UNIFORM, u32::MAX, lane]);
    put(34, &halves(out));
    put(36, &[old; 4]);
    put(40, &[u32::from((8..12).contains(&lane)), lane & 1, SHARED_SLOT + 4 * lane, 0x800]);
    put(44, &[0x304 + 8 * lane; 4]);
    put(48, &halves(slot));
    put(50, &halves(scratch));
    put(52, &[0x3c00_3c00; 4]);
    put(56, &[0x0101_0101; 4]);
    registers
}

fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}

/// Returns the parameter block.
pub fn parameters(pool: u64) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..PARAMETER_BYTES as u32).map(pattern).collect();
    let mut put = |offset: usize, value: &[u8]| bytes[offset..offset + value.len()].copy_from_slice(value);
    put(0, &pool.to_le_bytes());
    put(NEW_PARAMETER, &[NEW_UNIFORM.to_le_bytes(), NEW_UNIFORM.to_le_bytes()].concat());
    put(OLD_PARAMETER, &[OLD_UNIFORM.to_le_bytes(), OLD_UNIFORM.to_le_bytes()].concat());
    bytes
}

/// Replaces placeholders by constants of the target: `{new}`, `{old}`, `{pattern}` and `{stack}` are offsets in constant bank 0.
pub fn expand(assembler: &Assembler, text: &str) -> String {
    let base = SystemLayout::of(assembler.target).parameters as usize;
    let offset = |parameter: usize| format!("{:#x}", base + parameter);
    text.replace("{new}", &offset(NEW_PARAMETER))
        .replace("{old}", &offset(OLD_PARAMETER))
        .replace("{pattern}", &offset(PATTERN_PARAMETER))
        .replace("{stack}", &format!("{:#x}", SystemLayout::of(assembler.target).stack_pointer))
}

/// Returns an instruction that waits for all previous ones.
pub fn safe(assembler: &Assembler, text: impl Into<String>) -> Line {
    let text = text.into();
    Line { label: None, control: assembler.safe_control(&text), text }
}

/// Appends a long pause that waits for all scoreboards.
pub fn pause(lines: &mut Vec<Line>, times: usize) {
    let control = Control { stall: 15, stay: false, wait: 0b11_1111, ..Control::default() };
    lines.extend((0..times).map(|_| Line { label: None, control, text: "NOP".into() }));
}

/// Returns the code that loads the pool, the uniform registers and, if requested, the pattern in shared memory.
pub fn prologue(assembler: &Assembler, with_shared: bool) -> Vec<Line> {
    let target = assembler.target;
    let profile = SystemLayout::of(target);
    let base = profile.parameters;
    let mut texts: Vec<String> = vec![
        "S2R R0, SR_TID.X".into(),
        "LOP3.LUT R0, R0, 0x1f, RZ, 0xc0, !PT".into(),
        format!("LDC R2, c[0x0][{base:#x}]"),
        format!("LDC R3, c[0x0][{:#x}]", base + 4),
        format!("MOV R1, {:#x}", POOL_BYTES),
        "IMAD.WIDE.U32 R2, R0, R1, R2".into(),
    ];
    if let Some(descriptor) = profile.descriptor {
        let load = if Opcode::ULDC.exists_on(target) { "ULDC" } else { "LDCU" };
        texts.push(format!("{load}.64 UR16, c[0x0][{descriptor:#x}]"));
    }
    texts.extend(
        (1..POOL_REGISTERS / 4).map(|quad| format!("LDG.E.128 R{}, {}", quad * 4, global(assembler, &format!("R2.64+{:#x}", quad * 16)))),
    );
    texts.extend(["R2UR UR20, R50".into(), "R2UR UR21, R51".into()]);
    for (register, value) in [
        (8, NEW_UNIFORM),
        (9, NEW_UNIFORM),
        (10, 0),
        (11, 0),
        (12, 0),
        (13, 1),
        (14, u32::MAX),
        (15, 0x800),
        (18, 0),
        (19, 0),
        (22, 0),
        (23, 0),
    ] {
        texts.push(format!("UMOV UR{register}, {value:#x}"));
    }
    texts.push("ISETP.NE.AND P2, PT, R40, RZ, PT".into());
    texts.push("ISETP.NE.AND P3, PT, R13, RZ, PT".into());
    texts.push("UISETP.NE.U32.AND UP1, UPT, UR13, URZ, UPT".into());
    let mut lines: Vec<Line> = texts.into_iter().map(|text| safe(assembler, text)).collect();
    pause(&mut lines, 2);
    if with_shared {
        fill_shared(assembler, &mut lines);
    }
    lines
}

/// Returns the text of a global memory address, with a descriptor on targets that need one.
pub fn global(assembler: &Assembler, address: &str) -> String {
    match SystemLayout::of(assembler.target).descriptor {
        Some(_) => format!("desc[UR16][{address}]"),
        None => format!("[{address}]"),
    }
}

/// Appends code that copies the pattern from global to shared memory, after the bytes that the system reserves.
fn fill_shared(assembler: &Assembler, lines: &mut Vec<Line>) {
    lines.extend(["SHF.L.U32 R32, R31, 0x2, RZ", "NOP"].map(|text| safe(assembler, text)));
    let start = lines.len();
    let load = format!("LDG.E R33, {}", global(assembler, "R2.64"));
    let bound = format!("ISETP.LT.AND P6, PT, R32, {PATTERN_BYTES:#x}, PT");
    let address = ["IADD3 R2, P6, R50, R32, RZ", "IADD3.X R3, R51, RZ, RZ, P6, !PT"];
    for text in address.into_iter().chain([load.as_str(), "STS [R32+0x400], R33", "IADD3 R32, R32, 0x80, RZ", &bound]) {
        lines.push(safe(assembler, text));
    }
    lines.push(safe(assembler, "@P6 BRA `(fill)"));
    lines[start].label = Some("fill".into());
    pause(lines, 2);
}
