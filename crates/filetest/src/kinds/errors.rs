//! `error`: the messages about PTX that is wrong or not supported.

use oriole_driver::CompileError;
use oriole_isa::Target;
use oriole_ptx::Checked;
use oriole_ptx::diag::{Style, ptxas_lines, render};
use oriole_ptx::source::{LineIndex, Source};

use super::Lines;
use crate::file::{Form, TestFile, TestKind};
use crate::pipeline;

/// Name of the file in messages.
const NAME: &str = "test.ptx";

/// Lists the messages of the front end; if it accepts the program and there is a target, those of the compiler.
pub fn run(file: &TestFile, target: Option<Target>, _: &TestKind) -> Lines {
    let text = file.source();
    let (source, lines) = (Source::new(NAME, text.as_bytes()), LineIndex::new(text.as_bytes()));
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    let mut found = front_end(file, &checked, &source, &lines);
    if checked.is_valid() {
        let target = target.ok_or("the front end accepts the program; a `target` is needed to compile it")?;
        match pipeline::compiled(&checked.module, &file.options, target) {
            Ok(_) if found.is_empty() => return Err("the program compiles without a message".to_owned()),
            Ok(_) => {}
            Err(errors) => found.extend(errors.iter().map(|error| back_end(error, &lines))),
        }
    }
    Ok(found)
}

fn front_end(file: &TestFile, checked: &Checked, source: &Source<'_>, lines: &LineIndex) -> Vec<String> {
    let text = |finding| match file.options.form.unwrap_or(Form::Ptxas) {
        Form::Ptxas => ptxas_lines(source, lines, finding),
        Form::Human => render(source, lines, finding, Style::Plain),
    };
    checked.diagnostics.iter().flat_map(|finding| text(finding).lines().map(str::to_owned).collect::<Vec<_>>()).collect()
}

fn back_end(error: &CompileError, lines: &LineIndex) -> String {
    let place = error.span.map(|span| lines.line_column(span.start));
    place.map_or(format!("error: {error}"), |(line, column)| format!("line {line}, column {column}: error: {error}"))
}
