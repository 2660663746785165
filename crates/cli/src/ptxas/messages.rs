//! Prints messages in ptxas' format. Programs parse them, so wording, spaces and order matter.

use super::print::error_line;

/// Prints messages and records whether there were errors.
pub struct Messages {
    warnings: Warnings,
    errors: bool,
    /// Whether there were errors after which ptxas prints that it aborted.
    is_aborted: bool,
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

/// The position of a message.
#[derive(Clone, Copy)]
pub struct MessagePlace<'a> {
    /// The name of the file, as given.
    pub file: &'a str,
    /// The line, counted from 1.
    pub line: u32,
}

impl Messages {
    /// Creates a printer that has printed nothing yet.
    pub fn new(warnings: Warnings) -> Self {
        Messages { warnings, errors: false, is_aborted: false }
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
        print(None, "error", text);
    }

    /// Prints an error.
    pub fn error(&mut self, place: Option<MessagePlace<'_>>, text: &str) {
        (self.errors, self.is_aborted) = (true, true);
        print(place, "error", text);
    }

    /// Prints a warning, as the options request.
    pub fn warning(&mut self, place: Option<MessagePlace<'_>>, text: &str) {
        match self.warnings {
            Warnings::Shown => print(place, "warning", text),
            Warnings::Hidden => {}
            Warnings::Errors => self.error(place, text),
        }
    }

    /// Prints an error that ends the processing of the command or of a file.
    pub fn fatal(&mut self, text: &str) {
        (self.errors, self.is_aborted) = (true, true);
        print(None, "fatal", text);
    }
}

/// Prints a message independent of the options.
pub fn print(place: Option<MessagePlace<'_>>, kind: &str, text: &str) {
    error_line(format_args!("{}", format_message(place, kind, text)));
}

fn format_message(place: Option<MessagePlace<'_>>, kind: &str, text: &str) -> String {
    match place {
        Some(MessagePlace { file, line }) => format!("ptxas {file}, line {line}; {kind:<7} : {text}"),
        None => format!("ptxas {kind:<7} : {text}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_padded() {
        assert_eq!(format_message(None, "fatal", "x"), "ptxas fatal   : x");
        assert_eq!(format_message(None, "info", "x"), "ptxas info    : x");
        assert_eq!(format_message(Some(MessagePlace { file: "a.ptx", line: 3 }), "error", "x"), "ptxas a.ptx, line 3; error   : x");
        assert_eq!(format_message(Some(MessagePlace { file: "a.ptx", line: 3 }), "warning", "x"), "ptxas a.ptx, line 3; warning : x");
    }
}
