//! Profiles as files: everything that the model knows about a target, as text that people can read, change and compile with.
//!
//! The file follows the table format of a published description of ptxas: typed records, one a line ([`record`]), in the order in which
//! its tables are put together: barriers, root, named sections with standard entries, waits and scoreboards, facts of the machine,
//! variants, weights, and last the dimensions, which are the rows of the latency grids. `docs/hw-profile.md` describes every record.
//!
//! The file changes figures. Which classes there are, by which ports their registers go and on which units they execute is part of the
//! program; a file that says otherwise belongs to another version and is refused.
//!
//! Heads and the root count what they hold, so a file that lost or gained a line is noticed. Nothing is repaired: [`Profile::from_text`]
//! gives a whole profile or an error that names the record.

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

/// The first word of a file.
pub const MAGIC: &str = "oriole-hw-profile";
/// The version of the format, behind it.
pub const VERSION: u32 = 1;

/// Everything that is known about a target.
#[derive(Clone, PartialEq, Debug)]
pub struct Profile {
    /// What it is for.
    pub target: Target,
    /// Latencies.
    pub model: Model,
    /// Limits of the multiprocessor.
    pub machine: Machine,
    /// Issue rates.
    pub rates: Rates,
    /// Names and descriptions of the sources of the machine's facts.
    pub machine_sources: Vec<(String, String)>,
    /// The same for the rates.
    pub rate_sources: Vec<(String, String)>,
}

impl Profile {
    /// What Oriole knows about a target.
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

    /// The profile as the text of a file.
    pub fn to_text(&self) -> String {
        write::text(self)
    }

    /// The profile that the text of a file describes; `name` is the file's, for errors.
    pub fn from_text(name: &str, text: &str) -> Result<Profile, ProfileError> {
        read::profile(name, text)
    }

    /// Whether it is for this target.
    pub fn check_target(&self, name: &str, target: Target) -> Result<(), ProfileError> {
        if self.target == target {
            return Ok(());
        }
        let fault = Fault::OtherTarget { said: self.target, wanted: target };
        Err(ProfileError { file: name.to_owned(), line: 0, record: None, field: None, fault })
    }
}

/// What is wrong with a file, and where.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ProfileError {
    /// The file.
    pub file: String,
    /// Its line, from 1; 0 if it is about the file as a whole.
    pub line: usize,
    /// The record's number, from 1, and its type if that could be read.
    pub record: Option<(usize, Option<RecordType>)>,
    /// The field.
    pub field: Option<String>,
    /// What is wrong.
    pub fault: Fault,
}

/// What can be wrong with a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// It does not start like a profile.
    Foreign,
    /// Another version of the format.
    Version(String),
    /// No record has this code and name.
    UnknownType(String),
    /// A line that is no record, and why.
    Malformed(String),
    /// A field or record that is there twice.
    Twice,
    /// A field that is not there.
    Missing,
    /// A field that the record does not have.
    UnknownField,
    /// A value, and what it should be.
    Value(String, &'static str),
    /// A record where another must stand.
    Order(&'static str),
    /// The file ends where this must stand.
    End(&'static str),
    /// A count that is wrong.
    Count {
        /// What the record says.
        said: usize,
        /// What there is.
        found: usize,
    },
    /// Something that must be there and is not.
    Lacks(String),
    /// A part of the program that a file cannot change: what the file says, and what it is.
    Structure {
        /// What the file says.
        said: String,
        /// What it is.
        known: String,
    },
    /// A profile for another target.
    OtherTarget {
        /// The one it is for.
        said: Target,
        /// The one that it should be for.
        wanted: Target,
    },
    /// Figures that contradict each other.
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

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Fault::Foreign => write!(f, "this is no hardware profile: the first line is not `{MAGIC} {VERSION}`"),
            Fault::Version(said) => write!(f, "version `{said}` of the format; this program reads version {VERSION}"),
            Fault::UnknownType(name) => write!(f, "no record is called `{name}`"),
            Fault::Malformed(what) => write!(f, "{what}"),
            Fault::Twice => write!(f, "it is there twice"),
            Fault::Missing => write!(f, "it is missing"),
            Fault::UnknownField => write!(f, "a record of this type has no such field"),
            Fault::Value(value, wanted) => write!(f, "`{value}` is not {wanted}"),
            Fault::Order(wanted) => write!(f, "{wanted} must stand here"),
            Fault::End(wanted) => write!(f, "the file ends where {wanted} must stand"),
            Fault::Count { said, found } => write!(f, "it says {said}, but there are {found}"),
            Fault::Lacks(what) => write!(f, "{what} is missing"),
            Fault::Structure { said, known } => {
                write!(f, "`{said}`, but in this version it is `{known}`; a profile changes figures, not how classes are made")
            }
            Fault::OtherTarget { said, wanted } => write!(f, "the profile is for {said}, not for {wanted}"),
            Fault::Contradiction(what) => write!(f, "{what}"),
        }
    }
}

impl std::error::Error for ProfileError {}

/// Facts of machines point to text that lives as long as the program, because nearly all are built in. Text from files is kept once.
fn keep(text: &str) -> &'static str {
    static KEPT: OnceLock<Mutex<HashSet<&'static str>>> = OnceLock::new();
    let mut kept = KEPT.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
    match kept.get(text) {
        Some(&found) => found,
        None => {
            let new: &'static str = Box::leak(text.to_owned().into_boxed_str());
            kept.insert(new);
            new
        }
    }
}
