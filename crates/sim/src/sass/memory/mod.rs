//! Stub
use crate::sass::site::Site;
use crate::sass::step::Built;
pub fn build(site: &Site<'_>) -> Option<Built> {
    let _ = site;
    None
}
