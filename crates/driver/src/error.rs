//! Why a module could not be compiled, and whose problem that is.

use std::fmt;

use oriole_ptx::source::Span;

/// Why a function could not be compiled.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileError {
    /// Number of the module among those given.
    pub module: usize,
    /// The function; empty if it is the module as a whole.
    pub function: String,
    /// The PTX statement, where it is one.
    pub span: Option<Span>,
    /// What is wrong.
    pub fault: Fault,
}

/// What is wrong, by whose problem it is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A feature of PTX that is not there yet.
    Unsupported(String),
    /// Something that the machine, or the options, do not have enough of.
    Limit(String),
    /// A function that is called and defined nowhere.
    Unresolved(String),
    /// A mistake in Oriole.
    Internal(String),
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Fault::Unsupported(feature) if self.function.is_empty() => write!(f, "{feature} is not supported yet"),
            Fault::Unsupported(feature) => write!(f, "{feature} is not supported yet (in {})", self.function),
            Fault::Limit(what) if self.function.is_empty() => f.write_str(what),
            Fault::Limit(what) => write!(f, "{what} (in {})", self.function),
            Fault::Unresolved(name) => write!(f, "unresolved extern function `{name}` (in {})", self.function),
            Fault::Internal(what) => write!(f, "internal error in {}: {what}", self.function),
        }
    }
}

impl std::error::Error for CompileError {}
