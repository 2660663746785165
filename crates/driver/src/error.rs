//! Compilation errors, classified by cause: unsupported input, limits of the machine, unresolved names, cancellation, internal errors.

use std::fmt;

use oriole_ptx::source::Span;

/// An error that stops the compilation of a module or of one of its functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CompileError {
    /// Index of the module in the list given to [`compile`](crate::compile).
    pub module: usize,
    /// Name of the function; `None` if the error concerns the whole module.
    pub function: Option<String>,
    /// Source position of the PTX statement that caused the error; `None` if there is none.
    pub span: Option<Span>,
    /// The cause of the error.
    pub fault: ErrorCause,
}

impl CompileError {
    /// Returns an error of a module as a whole.
    pub fn in_module(module: usize, fault: ErrorCause) -> CompileError {
        CompileError { module, function: None, span: None, fault }
    }

    /// Returns an error of the whole program, which is reported as one of its first module.
    pub fn in_program(fault: ErrorCause) -> CompileError {
        CompileError::in_module(0, fault)
    }

    /// Returns an error in a function of a module.
    pub fn in_function(module: usize, function: &str, failure: FunctionError) -> CompileError {
        let FunctionError { span, fault } = failure;
        CompileError { module, function: Some(function.to_owned()), span, fault }
    }
}

/// The cause of a compilation error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ErrorCause {
    /// A PTX feature that is not implemented; holds its name.
    Unsupported(String),
    /// The code needs more of a resource, such as registers, than the target or the options allow; holds the message.
    Limit(String),
    /// The program uses more bytes of a memory space than the target has.
    TooMuch(MemoryExcess),
    /// A call of a function that is not defined; holds the function's name.
    Unresolved(String),
    /// The caller cancelled the compilation ([`Hooks::cancel`](crate::Hooks::cancel)).
    Cancelled,
    /// A bug in Oriole; holds the message.
    Internal(String),
}

/// An error in a function that is being compiled, and the PTX statement that caused it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FunctionError {
    /// Source position of the PTX statement; `None` if there is none.
    pub span: Option<Span>,
    /// The cause of the error.
    pub fault: ErrorCause,
}

impl From<ErrorCause> for FunctionError {
    fn from(fault: ErrorCause) -> FunctionError {
        FunctionError { span: None, fault }
    }
}

/// A memory space of which a program uses more than the target has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryExcess {
    /// The memory space of which too much is used.
    pub memory: LimitedMemory,
    /// Number of bytes of this memory space that the program or function uses.
    pub used: u64,
    /// Maximum number of bytes of this memory space on the target.
    pub most: u64,
    /// Whether the function that uses the memory is a kernel.
    pub is_kernel: bool,
}

/// A memory space of limited size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LimitedMemory {
    /// Static shared memory.
    Shared,
    /// `.const` variables of the whole program.
    Constant,
    /// Parameters of a kernel.
    Parameter,
    /// The stack frame of a function in local memory.
    Local,
}

impl MemoryExcess {
    /// Returns the excess if `used` is greater than `most`, both in bytes; otherwise `None`.
    pub fn find(memory: LimitedMemory, used: u64, most: u64, is_kernel: bool) -> Option<MemoryExcess> {
        (used > most).then_some(MemoryExcess { memory, used, most, is_kernel })
    }

    /// Returns the error message in ptxas' words; `function` is the name of the function.
    pub fn ptxas_text(&self, function: &str) -> String {
        let MemoryExcess { used, most, .. } = self;
        let user = if self.is_kernel { "Entry function" } else { "Function" };
        match self.memory {
            LimitedMemory::Shared => format!("{user} '{function}' uses too much shared data ({used:#x} bytes, {most:#x} max)"),
            LimitedMemory::Constant => format!("File uses too much global constant data ({used:#x} bytes, {most:#x} max)"),
            LimitedMemory::Parameter => format!("{user} '{function}' uses too much parameter space ({used:#x} bytes, {most:#x} max)."),
            LimitedMemory::Local => format!("{user} '{function}' uses too much local data ({used:#x} bytes, {most:#x} max)"),
        }
    }
}

impl fmt::Display for MemoryExcess {
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
            ErrorCause::Unsupported(feature) => write!(f, "{feature} is not supported yet")?,
            ErrorCause::Limit(what) => f.write_str(what)?,
            ErrorCause::TooMuch(excess) => excess.fmt(f)?,
            ErrorCause::Unresolved(name) => write!(f, "unresolved extern function `{name}`")?,
            ErrorCause::Cancelled => f.write_str("the compilation was cancelled")?,
            ErrorCause::Internal(what) => write!(f, "internal error: {what}")?,
        }
        self.function.as_ref().map_or(Ok(()), |function| write!(f, " (in {function})"))
    }
}

impl std::error::Error for CompileError {}
