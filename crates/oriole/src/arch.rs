//! Names of targets.

use oriole_cubin::FileTraits;
use oriole_isa::Target;

use crate::error::{Error, ErrorKind};

/// Returns the names of all targets that can be compiled for, such as `sm_90a`.
///
/// ```
/// assert!(oriole::targets().iter().any(|target| target == "sm_90a"));
/// ```
pub fn targets() -> Vec<String> {
    FileTraits::all().map(|traits| traits.target.to_string()).collect()
}

/// Parses the name of a target.
pub fn parse(name: &str) -> Result<Target, Error> {
    let targets = targets();
    // A name without a table of machine instructions parses too, but nothing can be compiled for it.
    let known = Target::parse(name).filter(|target| FileTraits::of(*target).is_some());
    known.ok_or_else(|| {
        let near = oriole_support::closest(name, targets.iter().map(String::as_str));
        let hint = near.map_or(String::new(), |near| format!("; did you mean {near}?"));
        let message = format!("{name} is not a target that Oriole compiles for; there are {}{hint}", targets.join(", "));
        Error::new(ErrorKind::InvalidArgument, message)
    })
}
