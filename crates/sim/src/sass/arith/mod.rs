//! Arithmetic families: instructions that compute registers and predicates from registers, of both datapaths.
//!
//! | module | instructions |
//! |---|---|
//! | [`integer`] | sums, products and their carries |
//! | [`packed`] | minima, maxima, packed sums, dot products |
//! | [`bits`] | logic, shifts, permutations, counts |
//! | [`compare`] | comparisons into predicates |
//! | [`select`] | choices, logic of predicates |
//!
//! Exact results come from `oriole_sem`; the host's arithmetic is used where it is the same. Each builder names the modifiers that it
//! knows ([`operand::accept`]) and refuses the rest.

mod bits;
mod compare;
mod integer;
mod operand;
mod packed;
mod select;
#[cfg(test)]
mod tests;

use oriole_isa::Opcode;

use super::site::Site;
use super::step::Built;

/// What an arithmetic instruction does; none if the opcode belongs to no family here.
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
        _ => return None,
    })
}
