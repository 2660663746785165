//! Messages in ptxas' shape. Programs read them, so words, blanks and order matter.

use super::print::error_line;

/// Prints messages and remembers whether there were errors.
pub struct Messages {
    warnings: Warnings,
    errors: bool,
}

/// What to do with warnings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Warnings {
    /// Print them.
    Shown,
    /// Drop them.
    Hidden,
    /// Print them as errors.
    Errors,
}

/// Where a message points.
#[derive(Clone, Copy)]
pub struct Place<'a> {
    /// The file as given.
    pub file: &'a str,
    /// Counted from one.
    pub line: u32,
}

impl Messages {
    /// Nothing printed yet.
    pub fn new(warnings: Warnings) -> Self {
        Messages { warnings, errors: false }
    }

    /// Whether an error was printed.
    pub fn has_errors(&self) -> bool {
        self.errors
    }

    /// An error.
    pub fn error(&mut self, place: Option<Place<'_>>, text: &str) {
        self.errors = true;
        print(place, "error", text);
    }

    /// A warning, or what the options make of it.
    pub fn warning(&mut self, place: Option<Place<'_>>, text: &str) {
        match self.warnings {
            Warnings::Shown => print(place, "warning", text),
            Warnings::Hidden => {}
            Warnings::Errors => self.error(place, text),
        }
    }

    /// An error after which nothing more happens with the command or a file.
    pub fn fatal(&mut self, text: &str) {
        self.errors = true;
        print(None, "fatal", text);
    }
}

/// Prints a message that no option changes.
pub fn print(place: Option<Place<'_>>, kind: &str, text: &str) {
    error_line(format_args!("{}", format_message(place, kind, text)));
}

fn format_message(place: Option<Place<'_>>, kind: &str, text: &str) -> String {
    match place {
        Some(Place { file, line }) => format!("ptxas {file}, line {line}; {kind:<7} : {text}"),
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
        assert_eq!(format_message(Some(Place { file: "a.ptx", line: 3 }), "error", "x"), "ptxas a.ptx, line 3; error   : x");
        assert_eq!(format_message(Some(Place { file: "a.ptx", line: 3 }), "warning", "x"), "ptxas a.ptx, line 3; warning : x");
    }
}
