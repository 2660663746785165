//! Whether messages on standard error are coloured.

use std::env;
use std::io::{self, IsTerminal};

use clap::ValueEnum;
use oriole_ptx::diag::Style;

/// The environment variable that turns colours off if it is set and not empty (<https://no-color.org>).
const NO_COLOR: &str = "NO_COLOR";

/// When messages are coloured.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Colour {
    /// On a terminal, unless `NO_COLOR` is set.
    Auto,
    Always,
    Never,
}

impl Colour {
    /// Returns the style of messages on standard error.
    pub fn style(self) -> Style {
        let is_coloured = match self {
            Colour::Auto => io::stderr().is_terminal() && env::var_os(NO_COLOR).is_none_or(|value| value.is_empty()),
            Colour::Always => true,
            Colour::Never => false,
        };
        if is_coloured { Style::Coloured } else { Style::Plain }
    }
}
