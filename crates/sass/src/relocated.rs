//! Prints operands that the linker fills in by the name of the symbol, as nvdisasm does.
//!
//! The name of a relocation type gives the bits it patches and the value: `R_CUDA_ABS32_LO_32` is the lower half of an address in 32
//! bits from bit 32 on, `R_CUDA_CONST_FIELD19_40` a constant bank and offset in 19 bits from bit 40 on, `R_CUDA_ABS55_16_34` an address
//! whose lowest 8 bits are at bit 16 and whose other 47 bits are at bit 34. To find the operand with those bits, the word is printed
//! with a distinctive number (a sentinel) in the bits, and the text of that number is replaced.
//!
//! ```text
//! MOV R2, 0x0              the word; R_CUDA_ABS32_LO_32 patches it with the symbol `table`
//! MOV R2, 0x1a2b3c40       printed with the sentinel in bits 32 to 63
//! MOV R2, 32@lo(table)     the sentinel replaced
//! ```

use oriole_cubin::relocation::Relocation;
use oriole_isa::{Target, print_with};

use super::labels::{Labels, section_of};
use super::program::Program;

/// The bits that a relocation patches, and the kind of value.
struct Patch<'n> {
    /// First bit of the lowest eight bits, if they are separate from the rest.
    apart: Option<u32>,
    low: u32,
    width: u32,
    kind: RelocatedValue<'n>,
}

/// The kind of value that a relocation stores.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RelocatedValue<'n> {
    /// A whole address.
    Whole,
    /// Half of an address: `lo` or `hi`.
    Half(&'n str),
    /// A constant bank and an offset in it.
    Constant,
}

/// Number of bits of a constant bank index.
const BANK_WIDTH: u32 = 5;

/// Number of low bits that are separate in the longest addresses.
const APART_WIDTH: u32 = 8;

/// Parses the name of a relocation type without `R_CUDA_`: value, width, optionally a half, lowest bit. Also returns the value's name.
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
        "FIELD" => {
            return Some((Patch { apart: None, low, width: u32::checked_sub(width, BANK_WIDTH)?, kind: RelocatedValue::Constant }, what));
        }
        _ if parts.contains(&"LO") => RelocatedValue::Half("lo"),
        _ if parts.contains(&"HI") => RelocatedValue::Half("hi"),
        _ => RelocatedValue::Whole,
    };
    let width = if apart.is_some() { u32::checked_sub(width, APART_WIDTH)? } else { width };
    Some((Patch { apart, low, width, kind }, what))
}

/// Returns section position and address of a code reference with an addend; `None` for references by a function's name alone.
pub(crate) fn code_target(program: &Program<'_>, relocation: &Relocation) -> Option<(usize, u64)> {
    let symbol = program.cubin.symbols().get(relocation.symbol as usize)?;
    let addend = relocation.addend.filter(|&addend| addend != 0)?;
    let position = section_of(program, symbol)?;
    Some((position, symbol.value.wrapping_add_signed(addend)))
}

/// Returns the expression that a relocation stores: `table`, `(table + 0x8)`, `(kernel + .L_x_3@srel)`.
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

/// Returns the text of a word with the operand of a relocation replaced by its expression; `None` if the operand cannot be found.
pub fn print(program: &Program<'_>, labels: &Labels, word: u128, address: u64, relocation: &Relocation) -> Option<String> {
    let (patch, what) = patch(relocation.relocation_type.name()?)?;
    let mut expression = expression(program, labels, relocation)?;
    match what {
        "UNIFIED" => expression = format!("fun@unified({expression})"),
        "DESC" => expression = format!("fun@fdesc({expression})"),
        _ => {}
    }
    let operand = match patch.kind {
        RelocatedValue::Half(half) => format!("32@{half}({expression})"),
        RelocatedValue::Whole | RelocatedValue::Constant => format!("`({expression})"),
    };
    let (text, number) = with_sentinel(word, program.target, address, &patch)?;
    let at = text.find(&number)?;
    let (mut before, after) = (text[..at].to_string(), &text[at + number.len()..]);
    if patch.kind == RelocatedValue::Constant {
        // The expression includes the bank: `c[0x3][R2+0x8]` becomes `c[R2+…]`.
        let inner = before.rfind("][")?;
        let outer = before[..inner].rfind('[')?;
        before.replace_range(outer..=inner, "");
        // The value of the operand is not known, so the derived modifier `.MOV` is not printed.
        before = before.replacen("IMAD.MOV.", "IMAD.", 1);
    }
    Some(before + &operand + after)
}

/// Returns the note after an instruction whose opcode the linker may replace.
pub(crate) fn opcode_note(relocation: &Relocation) -> Option<String> {
    let mnemonic = relocation.relocation_type.name()?.strip_suffix("_OPCODE9_0")?;
    Some(format!("(*\"RELOCATOR OPCODE,{mnemonic},{}\"*)", relocation.addend.unwrap_or(0)))
}

/// Prints a word with a sentinel in the patched bits; returns the text and the spelling of the sentinel in it.
fn with_sentinel(word: u128, target: Target, address: u64, patch: &Patch<'_>) -> Option<(String, String)> {
    const DIGITS: u64 = 0x1a2b_3c4d_5e6f_7180;
    if patch.width == 0 || patch.width > 64 || patch.low + patch.width > u128::BITS {
        return None;
    }
    let mask = (u128::MAX >> (u128::BITS - patch.width)) << patch.low;
    // The clear top bits keep the number positive; a multiple of 16 is a valid instruction address.
    let sentinel = (DIGITS >> (64 - patch.width)) & !0xf;
    let mut text = String::new();
    let changed = word & !mask | u128::from(sentinel) << patch.low;
    let known = print_with(&mut text, changed, target, address, &mut |_| None);
    let shift = if patch.apart.is_some() { APART_WIDTH } else { 0 };
    let mut scales = [1, 4, 2, 8, 16].into_iter().map(|scale| format!("{:#x}", (u128::from(sentinel) << shift) * scale));
    let number = scales.find(|number| text.contains(number.as_str()))?;
    known.then_some((text, number))
}
