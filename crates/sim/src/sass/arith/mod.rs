//! Arithmetic families: instructions that compute registers and predicates from registers, on both datapaths.
//!
//! | module | instructions |
//! |---|---|
//! | [`integer`] | sums, products and carries |
//! | [`packed`] | minima, maxima, packed sums, dot products |
//! | [`bits`] | logic, shifts, permutations, bit counts |
//! | [`compare`] | comparisons into predicates |
//! | [`select`] | selection, predicate logic |
//! | [`float`], [`double`], [`half`] | floating-point arithmetic |
//! | [`mufu`] | approximations |
//! | [`convert`], [`pack`] | conversions |
//!
//! Exact results come from `oriole_sem`; the host's arithmetic is used where it is bit-identical, because it is faster. Each builder lists
//! the modifiers it implements ([`operand::accept`]) and rejects all others.

mod bits;
mod compare;
mod convert;
mod double;
mod float;
mod half;
mod integer;
mod mufu;
mod operand;
mod pack;
mod packed;
mod select;
#[cfg(test)]
mod tests;

use oriole_isa::Opcode;

use super::site::Site;
use super::step::{Built, UnsupportedInst};

/// Builds the action of an arithmetic instruction; `None` for other opcodes.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::IADD3 | Opcode::UIADD3 => integer::add3(site),
        Opcode::IADD => integer::add(site),
        Opcode::IMAD | Opcode::UIMAD => integer::multiply_add(site),
        Opcode::LEA | Opcode::ULEA => integer::shift_add(site),
        Opcode::IABS => integer::absolute(site),
        Opcode::IMNMX | Opcode::UIMNMX => packed::min_max(site),
        Opcode::VIMNMX | Opcode::UVIMNMX => packed::video_min_max(site),
        Opcode::VIMNMX3 => packed::video_min_max3(site, false),
        Opcode::VIADDMNMX => packed::video_min_max3(site, true),
        Opcode::VIADD | Opcode::UVIADD => packed::video_add(site),
        Opcode::VABSDIFF => packed::difference(site),
        Opcode::VABSDIFF4 => packed::differences(site),
        Opcode::IDP => packed::dot(site),
        Opcode::LOP3 | Opcode::ULOP3 => bits::logic(site),
        Opcode::SHF | Opcode::USHF => bits::shift(site),
        Opcode::PRMT | Opcode::UPRMT => bits::permute(site),
        Opcode::POPC | Opcode::UPOPC => bits::count(site),
        Opcode::FLO | Opcode::UFLO => bits::leading(site),
        Opcode::BREV | Opcode::UBREV => bits::reverse(site),
        Opcode::BMSK | Opcode::UBMSK => bits::mask(site),
        Opcode::SGXT | Opcode::USGXT => bits::extend(site),
        Opcode::ISETP | Opcode::UISETP => compare::integers(site),
        Opcode::FSETP | Opcode::UFSETP => compare::singles(site),
        Opcode::FSET => compare::single_set(site),
        Opcode::DSETP => compare::doubles(site),
        Opcode::FCHK => compare::quotient_check(site),
        Opcode::SEL | Opcode::USEL => select::words(site),
        Opcode::FSEL | Opcode::UFSEL => select::singles(site),
        Opcode::PLOP3 | Opcode::UPLOP3 => select::predicates(site),
        Opcode::UP2UR => select::predicates_to_register(site),
        Opcode::UR2UP => select::register_to_predicates(site),
        Opcode::FADD | Opcode::UFADD => float::add(site),
        Opcode::FMUL | Opcode::UFMUL => float::multiply(site),
        Opcode::FFMA | Opcode::UFFMA => float::fused(site),
        Opcode::FMNMX => float::extreme(site),
        Opcode::FMNMX3 => float::extreme3(site),
        Opcode::FADD2 => float::pairs::<2, float::Add>(site),
        Opcode::FMUL2 => float::pairs::<2, float::Multiply>(site),
        Opcode::FFMA2 => float::pairs::<3, float::Fused>(site),
        Opcode::FHADD | Opcode::UFHADD => float::mixed(site, 1),
        Opcode::FHFMA | Opcode::UFHFMA => float::mixed(site, 2),
        Opcode::DADD => double::arithmetic(site, double::DoubleOperation::Add),
        Opcode::DMUL => double::arithmetic(site, double::DoubleOperation::Multiply),
        Opcode::DFMA => double::arithmetic(site, double::DoubleOperation::Fused),
        Opcode::HADD2 => half::arithmetic(site, half::HalfOperation::Add),
        Opcode::HMUL2 => half::arithmetic(site, half::HalfOperation::Multiply),
        Opcode::HFMA2 => half::arithmetic(site, half::HalfOperation::Fused),
        Opcode::HMNMX2 => half::extreme(site),
        Opcode::HSET2 => half::set(site),
        Opcode::HSETP2 => half::set_predicates(site),
        Opcode::MUFU => mufu::approximate(site),
        Opcode::F2F => convert::float_to_float_of(site),
        Opcode::F2I | Opcode::UF2I => convert::float_to_integer(site),
        Opcode::I2F | Opcode::I2FP | Opcode::UI2F | Opcode::UI2FP => convert::integer_to_float(site),
        Opcode::FRND | Opcode::UFRND => convert::round(site),
        Opcode::I2I => convert::integer_to_integer(site),
        Opcode::F2FP => pack::floats(site),
        Opcode::I2IP => pack::integers(site),
        Opcode::F2IP => pack::floats_to_integers(site),
        Opcode::FSWZADD | Opcode::IMUL => Err(UnsupportedInst(site.opcode().mnemonic().into())),
        _ => return None,
    })
}
