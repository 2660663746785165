//! Messages in ptxas' format. Programs parse them, so wording, spaces and order matter.

use std::fmt;

/// The name that messages start with, unless `--tool-name` gives another one.
pub const TOOL: &str = "ptxas";

/// Receives messages in the order of their creation.
pub type Sink<'a> = &'a mut dyn FnMut(&Message<'_>);

/// The kind of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MessageKind {
    Info,
    Warning,
    Error,
    /// An error that ends the processing of the command or of a file.
    Fatal,
}

impl MessageKind {
    /// Returns the word in the text of a message.
    fn word(self) -> &'static str {
        match self {
            MessageKind::Info => "info",
            MessageKind::Warning => "warning",
            MessageKind::Error => "error",
            MessageKind::Fatal => "fatal",
        }
    }
}

/// A message; displayed as the line that ptxas prints, without the end of the line.
#[derive(Clone, Copy)]
pub struct Message<'a> {
    /// The name that the message starts with.
    pub tool: &'a str,
    pub place: Option<MessagePlace<'a>>,
    pub kind: MessageKind,
    pub text: &'a str,
}

/// The position of a message.
#[derive(Clone, Copy)]
pub struct MessagePlace<'a> {
    /// The name of the file, as given.
    pub file: &'a str,
    /// The line, counted from 1.
    pub line: u32,
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (tool, kind) = (self.tool, self.kind.word());
        match self.place {
            Some(MessagePlace { file, line }) => write!(f, "{tool} {file}, line {line}; {kind:<7} : {}", self.text),
            None => write!(f, "{tool} {kind:<7} : {}", self.text),
        }
    }
}

/// How warnings are handled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warnings {
    /// Printed.
    Shown,
    /// Not printed.
    Hidden,
    /// Printed as errors.
    Errors,
}

/// Passes messages on and records whether there were errors.
pub struct Messages<'a> {
    warnings: Warnings,
    sink: Sink<'a>,
    /// The name that messages start with.
    tool: String,
    errors: bool,
    /// Whether there were errors after which ptxas prints that it aborted.
    is_aborted: bool,
    /// Whether a module needs a later version of PTX.
    pub needs_later_ptx: bool,
    /// The messages since [`Messages::record`] was called.
    recorded: Option<Vec<Recorded>>,
}

/// A message that was printed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recorded {
    pub has_place: bool,
    pub kind: MessageKind,
    pub text: String,
}

impl<'a> Messages<'a> {
    /// Creates messages of which none has been printed yet.
    pub fn new(warnings: Warnings, sink: Sink<'a>) -> Self {
        Messages { warnings, sink, tool: TOOL.to_owned(), errors: false, is_aborted: false, needs_later_ptx: false, recorded: None }
    }

    /// Lets the messages from now on start with a name.
    pub fn name_tool(&mut self, name: &str) {
        name.clone_into(&mut self.tool);
    }

    /// Returns the name that messages start with.
    pub fn tool(&self) -> &str {
        &self.tool
    }

    /// Returns whether an error was printed.
    pub fn has_errors(&self) -> bool {
        self.errors
    }

    /// Returns whether ptxas ends with a message that it aborted because of errors.
    pub fn is_aborted(&self) -> bool {
        self.is_aborted
    }

    /// Prints an error about a memory limit. ptxas detects these after compiling everything and does not print that it aborted.
    pub fn too_much(&mut self, text: &str) {
        self.errors = true;
        self.print(None, MessageKind::Error, text);
    }

    /// Prints that a called function is not defined. ptxas does not print that it aborted.
    pub fn unresolved(&mut self, name: &str) {
        self.errors = true;
        self.print(None, MessageKind::Fatal, &format!("Unresolved extern function '{name}'"));
    }

    /// Prints an error.
    pub fn error(&mut self, place: Option<MessagePlace<'_>>, text: &str) {
        (self.errors, self.is_aborted) = (true, true);
        self.print(place, MessageKind::Error, text);
    }

    /// Prints a warning, as the options request.
    pub fn warning(&mut self, place: Option<MessagePlace<'_>>, text: &str) {
        match self.warnings {
            Warnings::Shown => self.print(place, MessageKind::Warning, text),
            Warnings::Hidden => {}
            Warnings::Errors => self.error(place, text),
        }
    }

    /// Prints a warning about the resources of a compiled function. If it is an error, ptxas does not print that it aborted.
    pub fn usage_warning(&mut self, text: &str) {
        match self.warnings {
            Warnings::Errors => self.too_much(text),
            Warnings::Shown | Warnings::Hidden => self.warning(None, text),
        }
    }

    /// Prints an error that ends the processing of the command or of a file.
    pub fn fatal(&mut self, text: &str) {
        self.fatal_at(None, text);
    }

    /// Like [`Messages::fatal`], with a position.
    pub fn fatal_at(&mut self, place: Option<MessagePlace<'_>>, text: &str) {
        (self.errors, self.is_aborted) = (true, true);
        self.print(place, MessageKind::Fatal, text);
    }

    /// Starts to record messages.
    pub fn record(&mut self) {
        self.recorded = Some(Vec::new());
    }

    /// Stops recording, and returns the messages since its start.
    pub fn take_recorded(&mut self) -> Vec<Recorded> {
        self.recorded.take().unwrap_or_default()
    }

    /// Prints a message independent of the options.
    pub fn print(&mut self, place: Option<MessagePlace<'_>>, kind: MessageKind, text: &str) {
        if let Some(recorded) = &mut self.recorded {
            recorded.push(Recorded { has_place: place.is_some(), kind, text: text.to_owned() });
        }
        (self.sink)(&Message { tool: &self.tool, place, kind, text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With `-Werror -warn-lmem-usage`, ptxas 13.0.88 prints the error alone; after other warnings it prints that it aborted.
    #[test]
    fn warnings_become_errors() {
        let mut lines = Vec::new();
        let mut sink = |message: &Message<'_>| lines.push(message.to_string());
        let mut messages = Messages::new(Warnings::Errors, &mut sink);
        messages.usage_warning("a");
        assert_eq!((messages.has_errors(), messages.is_aborted()), (true, false));
        messages.warning(None, "b");
        assert_eq!((messages.has_errors(), messages.is_aborted()), (true, true));
        let mut sink = |message: &Message<'_>| lines.push(message.to_string());
        let mut messages = Messages::new(Warnings::Shown, &mut sink);
        messages.usage_warning("c");
        assert!(!messages.has_errors());
        assert_eq!(lines, ["ptxas error   : a", "ptxas error   : b", "ptxas warning : c"]);
    }

    #[test]
    fn kinds_are_padded() {
        let place = Some(MessagePlace { file: "a.ptx", line: 3 });
        let line = |place, kind| Message { tool: TOOL, place, kind, text: "x" }.to_string();
        assert_eq!(line(None, MessageKind::Fatal), "ptxas fatal   : x");
        assert_eq!(line(None, MessageKind::Info), "ptxas info    : x");
        assert_eq!(line(place, MessageKind::Error), "ptxas a.ptx, line 3; error   : x");
        assert_eq!(line(place, MessageKind::Warning), "ptxas a.ptx, line 3; warning : x");
        let named = Message { tool: "nvcc", place, kind: MessageKind::Warning, text: "x" };
        assert_eq!(named.to_string(), "nvcc a.ptx, line 3; warning : x");
    }
}
