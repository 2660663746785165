//! Control flow.

use super::site::Site;
use super::step::Built;

/// What changes where threads go or makes them wait.
#[derive(Clone, Debug)]
pub enum Flow {
    Exit,
}

/// What a control-flow instruction does; none if the opcode belongs to no family here.
pub fn build(site: &Site<'_>) -> Option<Built> {
    let _ = site;
    None
}
