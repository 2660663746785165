//! Hardware profiles as text files: everything the model knows about a target, which users can read, change and compile with.
//!
//! The format follows the table format of a published description of ptxas: typed records, one per line ([`record`]). The records are in
//! the order in which the description builds its tables: barriers, root, then sections with classes, scoreboard and wait times, facts of
//! the machine, weights, and last the dimensions, which are the rows of the latency grids. `docs/hw-profile.md` describes every
//! record.
//!
//! A file can change figures only. The classes, the ports of their registers and their units are part of the program. A file that differs
//! there belongs to another version and is rejected.
//!
//! Section headers and the root record have counts, so a lost or added line is detected. Nothing is repaired: [`Profile::from_text`]
//! returns a complete profile, or an error that names the record.

pub mod read;
pub mod record;
pub mod write;

use std::collections::HashSet;
use std::fmt;
use std::sync::{Mutex, OnceLock, PoisonError};

use oriole_isa::Target;

use crate::machine::{self, Machine};
use crate::model::Model;
use crate::units::{self, Rates};
pub use record::{Record, RecordType};

/// The first word of a profile file.
pub const MAGIC: &str = "oriole-hw-profile";
/// The version of the format, the second word.
pub const VERSION: u32 = 1;

/// All figures of a target.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// The target.
    pub target: Target,
    /// Latencies.
    pub model: Model,
    /// Limits of the multiprocessor.
    pub machine: Machine,
    /// Issue rates of the units.
    pub rates: Rates,
    /// Name and description of each source of the machine's facts.
    pub machine_sources: Vec<(String, String)>,
    /// Name and description of each source of the rates.
    pub rate_sources: Vec<(String, String)>,
}

impl Profile {
    /// Returns the built-in profile of a target.
    pub fn of(target: Target) -> Profile {
        let owned = |(name, text): (&str, &str)| (name.to_owned(), text.to_owned());
        Profile {
            target,
            model: Model::clone(Model::of(target)),
            machine: Machine::of(target).clone(),
            rates: Rates::of(target).clone(),
            machine_sources: machine::sources().map(owned).collect(),
            rate_sources: units::sources().map(owned).collect(),
        }
    }

    /// Formats the profile as the text of a file.
    pub fn to_text(&self) -> String {
        write::text(self)
    }

    /// Parses the text of a file. `name` is the file name, for errors.
    pub fn from_text(name: &str, text: &str) -> Result<Profile, ProfileError> {
        read::profile(name, text)
    }

    /// Checks that the profile is for `target`. `name` is the file name, for errors.
    pub fn check_target(&self, name: &str, target: Target) -> Result<(), ProfileError> {
        if self.target == target {
            return Ok(());
        }
        let fault = ProfileFault::OtherTarget { said: self.target, wanted: target };
        Err(ProfileError { file: name.to_owned(), line: 0, record: None, field: None, fault })
    }
}

/// An error in a profile file, with its location.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProfileError {
    /// The file name.
    pub file: String,
    /// Line number, from 1; 0 if the error concerns the whole file.
    pub line: usize,
    /// Number of the record, from 1, and its type if it could be parsed.
    pub record: Option<(usize, Option<RecordType>)>,
    /// Name of the field.
    pub field: Option<String>,
    /// The error.
    pub fault: ProfileFault,
}

/// The kind of an error in a profile file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ProfileFault {
    /// The file does not start like a profile.
    NotAProfile,
    /// The version of the format is not supported.
    Version(String),
    /// No record type has this code and name.
    UnknownType(String),
    /// The line is not a record; the text says why.
    Malformed(String),
    /// A field or record occurs twice.
    Duplicate,
    /// A required field is missing.
    MissingField,
    /// The record type has no such field.
    UnknownField,
    /// The value is invalid; the second text says what was expected.
    Value(String, &'static str),
    /// The record is not the expected one; the text names that one.
    Order(&'static str),
    /// The file ends where a record is required; the text names it.
    UnexpectedEnd(&'static str),
    /// A count is wrong.
    Count {
        /// The count in the record.
        said: usize,
        /// The actual count.
        found: usize,
    },
    /// A required record is missing; the text names it.
    MissingRecord(String),
    /// The file differs from the program in a part that a file cannot change.
    Structure {
        /// The value in the file.
        said: String,
        /// The value in the program.
        known: String,
    },
    /// The file changes a figure on which no decision depends.
    NotUsed {
        /// The value in the file.
        said: String,
        /// The built-in value.
        known: &'static str,
    },
    /// The profile is for another target.
    OtherTarget {
        /// The target of the profile.
        said: Target,
        /// The target that is compiled for.
        wanted: Target,
    },
    /// Figures contradict each other; the text says how.
    Contradiction(String),
}

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file)?;
        if self.line > 0 {
            write!(f, "{}:", self.line)?;
        }
        match self.record {
            Some((number, Some(kind))) => write!(f, " record {number} ({kind}):")?,
            Some((number, None)) => write!(f, " record {number}:")?,
            None => {}
        }
        if let Some(field) = &self.field {
            write!(f, " field `{field}`:")?;
        }
        write!(f, " {}", self.fault)
    }
}

impl fmt::Display for ProfileFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ProfileFault::NotAProfile => write!(f, "this is no hardware profile: the first line is not `{MAGIC} {VERSION}`"),
            ProfileFault::Version(said) => write!(f, "version `{said}` of the format; this program reads version {VERSION}"),
            ProfileFault::UnknownType(name) => write!(f, "no record is called `{name}`"),
            ProfileFault::Malformed(what) => write!(f, "{what}"),
            ProfileFault::Duplicate => write!(f, "it is there twice"),
            ProfileFault::MissingField => write!(f, "it is missing"),
            ProfileFault::UnknownField => write!(f, "a record of this type has no such field"),
            ProfileFault::Value(value, wanted) => write!(f, "`{value}` is not {wanted}"),
            ProfileFault::Order(wanted) => write!(f, "expected {wanted} here"),
            ProfileFault::UnexpectedEnd(wanted) => write!(f, "the file ends where {wanted} is expected"),
            ProfileFault::Count { said, found } => write!(f, "it says {said}, but there are {found}"),
            ProfileFault::MissingRecord(what) => write!(f, "{what} is missing"),
            ProfileFault::Structure { said, known } => {
                write!(f, "`{said}`, but in this version it is `{known}`; a profile changes figures, not how classes are made")
            }
            ProfileFault::NotUsed { said, known } => {
                write!(f, "`{said}` would have no effect: nothing in the compiler depends on this figure, which must stay `{known}`")
            }
            ProfileFault::OtherTarget { said, wanted } => write!(f, "the profile is for {said}, not for {wanted}"),
            ProfileFault::Contradiction(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for ProfileError {}

/// Returns a copy of the text that lives as long as the program. Facts hold `&'static str`, because nearly all of them are built in. Text
/// from files is interned, so equal texts are leaked only once.
fn intern(text: &str) -> &'static str {
    static INTERNED: OnceLock<Mutex<HashSet<&'static str>>> = OnceLock::new();
    let mut interned = INTERNED.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    match interned.get(text) {
        Some(&found) => found,
        None => {
            let new: &'static str = Box::leak(text.to_owned().into_boxed_str());
            interned.insert(new);
            new
        }
    }
}
