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
    /// More bytes of a memory than the target has.
    TooMuch(Excess),
    /// A function that is called and defined nowhere.
    Unresolved(String),
    /// A mistake in Oriole.
    Internal(String),
}

/// A memory that a program uses too much of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Excess {
    /// The memory.
    pub memory: LimitedMemory,
    /// Bytes that the program uses.
    pub used: u64,
    /// Bytes that there are.
    pub most: u64,
    /// Whether the function that uses it is a kernel.
    pub is_kernel: bool,
}

/// A memory of limited size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitedMemory {
    /// Static shared memory.
    Shared,
    /// `.const` variables of the whole program.
    Constant,
    /// Parameters of a kernel.
    Parameter,
    /// The frame of a function in local memory.
    Local,
}

impl Excess {
    /// The excess, if there is one.
    pub fn find(memory: LimitedMemory, used: u64, most: u64, is_kernel: bool) -> Option<Excess> {
        (used > most).then_some(Excess { memory, used, most, is_kernel })
    }

    /// The message in ptxas' words.
    pub fn ptxas_text(&self, function: &str) -> String {
        let Excess { used, most, .. } = self;
        let user = if self.is_kernel { "Entry function" } else { "Function" };
        match self.memory {
            LimitedMemory::Shared => format!("{user} '{function}' uses too much shared data ({used:#x} bytes, {most:#x} max)"),
            LimitedMemory::Constant => format!("File uses too much global constant data ({used:#x} bytes, {most:#x} max)"),
            LimitedMemory::Parameter => format!("{user} '{function}' uses too much parameter space ({used:#x} bytes, {most:#x} max)."),
            LimitedMemory::Local => format!("{user} '{function}' uses too much local data ({used:#x} bytes, {most:#x} max)"),
        }
    }
}

impl fmt::Display for Excess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.memory {
            LimitedMemory::Shared => "static shared variables",
            LimitedMemory::Constant => "`.const` variables",
            LimitedMemory::Parameter => "parameters",
            LimitedMemory::Local => "local variables and spilled registers",
        };
        write!(f, "{} bytes of {what}, where the target has {}", self.used, self.most)
    }
}

impl fmt::Display for CompileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.fault {
            Fault::Unsupported(feature) if self.function.is_empty() => write!(f, "{feature} is not supported yet"),
            Fault::Unsupported(feature) => write!(f, "{feature} is not supported yet (in {})", self.function),
            Fault::Limit(what) if self.function.is_empty() => f.write_str(what),
            Fault::Limit(what) => write!(f, "{what} (in {})", self.function),
            Fault::TooMuch(excess) if self.function.is_empty() => excess.fmt(f),
            Fault::TooMuch(excess) => write!(f, "{excess} (in {})", self.function),
            Fault::Unresolved(name) => write!(f, "unresolved extern function `{name}` (in {})", self.function),
            Fault::Internal(what) => write!(f, "internal error in {}: {what}", self.function),
        }
    }
}

impl std::error::Error for CompileError {}
