//! Arithmetic families: instructions that compute registers and predicates from registers, of both datapaths.

mod integer;

use oriole_isa::Opcode;

use super::site::Site;
use super::step::Built;

/// What an arithmetic instruction does; none if the opcode belongs to no family here.
pub fn build(site: &Site<'_>) -> Option<Built> {
    Some(match site.opcode() {
        Opcode::IADD3 | Opcode::UIADD3 => integer::add3(site),
        _ => return None,
    })
}
