//! Names of targets on the command line.

use oriole_cubin::FileTraits;
use oriole_isa::Target;

/// Parses the name of a target to compile for. The error lists all of them and names the nearest.
pub fn parse(name: &str) -> Result<Target, String> {
    let names: Vec<String> = FileTraits::all().map(|traits| traits.target.to_string()).collect();
    Target::parse(name)
        .ok_or_else(|| format!("{name} is not a target that Oriole compiles for; there are {}{}", names.join(", "), hint(name, &names)))
}

/// Returns a question that names the nearest target, empty if none is near.
pub fn hint(name: &str, known: &[String]) -> String {
    let near = oriole_support::closest(name, known.iter().map(String::as_str));
    near.map_or(String::new(), |near| format!("; did you mean {near}?"))
}
