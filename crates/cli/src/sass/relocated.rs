//! Operands that the linker fills in, as nvdisasm prints them: by the name of what will stand there.
//!
//! The name of a relocation's type says which bits it patches and what is put there: `R_CUDA_ABS32_LO_32` is the lower
//! half of an address in 32 bits from bit 32 on, `R_CUDA_CONST_FIELD19_40` a place in a constant bank in 19 bits from bit
//! 40 on, `R_CUDA_ABS55_16_34` an address whose lowest eight bits are at 16 and the other 47 at 34. To find the operand that has those bits, the word is printed with a number in them that stands out, and the
//! text of that number is replaced.

use oriole_cubin::relocation::Relocation;
use oriole_isa::{Target, print_with};

use super::labels::{Labels, section_of};
use super::program::Program;

/// Which bits a relocation patches, and with what.
struct Patch<'n> {
    /// The lowest eight bits stand apart, from this bit on.
    apart: Option<u32>,
    low: u32,
    width: u32,
    kind: Kind<'n>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind<'n> {
    /// All of an address.
    Whole,
    /// `lo` or `hi`: half of an address.
    Half(&'n str),
    /// A bank and a place in it.
    Constant,
}

/// Bits of the number of a constant bank.
const BANK_WIDTH: u32 = 5;

/// Bits that stand apart in the longest addresses.
const APART_WIDTH: u32 = 8;

/// Reads a type's name without `R_CUDA_`: what, width, perhaps a half, lowest bit.
fn patch(name: &str) -> Option<(Patch<'_>, &str)> {
    let parts: Vec<&str> = name.split('_').collect();
    let low = parts.last()?.parse().ok()?;
    let first = if parts[0] == "CONST" || parts[0] == "FUNC" { parts.get(1)? } else { parts.first()? };
    let start = first.find(|c: char| c.is_ascii_digit())?;
    let (what, width) = (&first[..start], first[start..].parse().ok()?);
    let apart = match parts[..] {
        [_, apart, _] => apart.parse().ok(),
        _ => None,
    };
    let kind = match what {
        "FIELD" => return Some((Patch { apart: None, low, width: u32::checked_sub(width, BANK_WIDTH)?, kind: Kind::Constant }, what)),
        _ if parts.contains(&"LO") => Kind::Half("lo"),
        _ if parts.contains(&"HI") => Kind::Half("hi"),
        _ => Kind::Whole,
    };
    let width = if apart.is_some() { u32::checked_sub(width, APART_WIDTH)? } else { width };
    Some((Patch { apart, low, width, kind }, what))
}

/// The place in code that a relocation refers to by more than a function's name: position of the section, and address.
pub fn code_target(program: &Program<'_>, relocation: &Relocation) -> Option<(usize, u64)> {
    let symbol = program.cubin.symbols().get(relocation.symbol as usize)?;
    let addend = relocation.addend.filter(|&addend| addend != 0)?;
    let position = section_of(program, symbol)?;
    Some((position, symbol.value.wrapping_add_signed(addend)))
}

/// What a relocation puts in place: `table`, `(table + 0x8)`, `(kernel + .L_x_3@srel)`.
fn expression(program: &Program<'_>, labels: &Labels, relocation: &Relocation) -> Option<String> {
    let symbol = program.cubin.symbols().get(relocation.symbol as usize)?;
    let name = &symbol.name;
    let addend = relocation.addend.unwrap_or(0);
    if let Some((position, address)) = code_target(program, relocation) {
        let label = labels.of_section(position).name(address)?;
        return Some(format!("({name} + {label}@srel)"));
    }
    Some(match addend {
        0 => name.clone(),
        1.. => format!("({name} + {addend:#x})"),
        _ => format!("({name} + -{:#x})", addend.unsigned_abs()),
    })
}

/// The text of a word with the operand that a relocation fills in; none if the operand cannot be found.
pub fn print(program: &Program<'_>, labels: &Labels, word: u128, address: u64, relocation: &Relocation) -> Option<String> {
    let (patch, what) = patch(relocation.relocation_type.name()?)?;
    let mut expression = expression(program, labels, relocation)?;
    match what {
        "UNIFIED" => expression = format!("fun@unified({expression})"),
        "DESC" => expression = format!("fun@fdesc({expression})"),
        _ => {}
    }
    let operand = match patch.kind {
        Kind::Half(half) => format!("32@{half}({expression})"),
        Kind::Whole | Kind::Constant => format!("`({expression})"),
    };
    let (text, number) = with_sentinel(word, program.target, address, &patch)?;
    let at = text.find(&number)?;
    let (mut before, after) = (text[..at].to_string(), &text[at + number.len()..]);
    if patch.kind == Kind::Constant {
        // The bank is part of the place: `c[0x3][R2+0x8]` becomes `c[R2+…]`.
        let inner = before.rfind("][")?;
        let outer = before[..inner].rfind('[')?;
        before.replace_range(outer..=inner, "");
        // What will stand there is not known, so the instruction is not called a move.
        before = before.replacen("IMAD.MOV.", "IMAD.", 1);
    }
    Some(before + &operand + after)
}

/// What stands behind an instruction whose opcode the linker may replace.
pub fn opcode_note(relocation: &Relocation) -> Option<String> {
    let mnemonic = relocation.relocation_type.name()?.strip_suffix("_OPCODE9_0")?;
    Some(format!("(*\"RELOCATOR OPCODE,{mnemonic},{}\"*)", relocation.addend.unwrap_or(0)))
}

/// Prints a word with a number that stands out in the patched bits: the text, and how the number looks in it.
fn with_sentinel(word: u128, target: Target, address: u64, patch: &Patch<'_>) -> Option<(String, String)> {
    const DIGITS: u64 = 0x1a2b_3c4d_5e6f_7180;
    if patch.width == 0 || patch.width > 64 || patch.low + patch.width > u128::BITS {
        return None;
    }
    let mask = (u128::MAX >> (u128::BITS - patch.width)) << patch.low;
    // Leading zeros keep it positive; a multiple of 16 keeps it a place of an instruction.
    let sentinel = (DIGITS >> (64 - patch.width)) & !0xf;
    let mut text = String::new();
    let changed = word & !mask | u128::from(sentinel) << patch.low;
    let known = print_with(&mut text, changed, target, address, &mut |_| None);
    let shift = if patch.apart.is_some() { APART_WIDTH } else { 0 };
    let mut scales = [1, 4, 2, 8, 16].into_iter().map(|scale| format!("{:#x}", (u128::from(sentinel) << shift) * scale));
    let number = scales.find(|number| text.contains(number.as_str()))?;
    known.then_some((text, number))
}
