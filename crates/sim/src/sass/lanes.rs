//! Stub
use super::site::Site;
use super::step::Built;
pub fn build(site: &Site<'_>) -> Option<Built> {
    let _ = site;
    None
}
