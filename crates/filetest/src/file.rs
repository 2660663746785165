//! The format of test files: header, program, expectations.

use std::path::Path;

use oriole_isa::Target;
use oriole_sched::backend::{Backend, ScheduleMode};

/// The language of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Syntax {
    /// PTX.
    Ptx,
    /// Ori in its text form.
    Ori,
    /// Assembler text, one instruction with its control word a line.
    Sass,
}

impl Syntax {
    /// Returns the language of a file by its extension.
    pub fn of(path: &Path) -> Option<Syntax> {
        match path.extension()?.to_str()? {
            "ptx" => Some(Syntax::Ptx),
            "oir" => Some(Syntax::Ori),
            "sass" => Some(Syntax::Sass),
            _ => None,
        }
    }

    /// Returns what starts a comment.
    fn comment(self) -> &'static str {
        if self == Syntax::Ori { ";" } else { "//" }
    }

    /// Returns what starts a header line. Header lines of PTX and assembler files are comments, so that other tools can read the files.
    fn header(self) -> &'static str {
        if self == Syntax::Ori { "" } else { "//@ " }
    }
}

/// A line `test KIND ARGUMENT`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TestKind {
    /// Name of the kind.
    pub name: String,
    /// What follows the name, such as the name of a pass.
    pub argument: Option<String>,
}

/// The options of a header.
#[derive(Clone, Default, Debug)]
pub struct Options {
    /// `target`: the targets to run for; at least one unless the kind needs none.
    pub targets: Vec<Target>,
    /// `level`: the optimization level.
    pub level: Option<u8>,
    /// `register_limit`: number of general registers.
    pub register_limit: Option<u32>,
    /// `initial_registers`: number of registers where the function starts, with the hidden ones, if the function changes it.
    pub initial_registers: Option<u32>,
    /// `backend`: the scheduler backend.
    pub backend: Option<Backend>,
    /// `mode`: the scheduling mode.
    pub mode: Option<ScheduleMode>,
    /// `form`: the form of messages.
    pub form: Option<Form>,
    /// The option words of the header, in order.
    pub given: Vec<String>,
}

/// The form of messages.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// One line, as ptxas writes it.
    Ptxas,
    /// With the line of the source and marks below it, for people.
    Human,
}

/// Words that start a header line, besides `test`.
const OPTIONS: [&str; 7] = ["target", "level", "register_limit", "initial_registers", "backend", "mode", "form"];

/// A test file, split into its parts.
#[derive(Clone, Debug)]
pub struct TestFile {
    /// The language of the program.
    pub syntax: Syntax,
    /// The kinds of test, in order.
    pub kinds: Vec<TestKind>,
    /// The options.
    pub options: Options,
    /// The lines of the header, comments included.
    header: Vec<String>,
    /// The lines of the program. Kinds with expectations inside the program replace them.
    pub code: Vec<String>,
    /// The actual results, without the start of the comment.
    pub outcome: Vec<String>,
    /// Whether the file has expectations at its end.
    has_expectations: bool,
}

/// The expectation of a pass that must not change anything.
pub(crate) const UNCHANGED: &str = "unchanged";

impl TestFile {
    /// Splits a file.
    pub fn read(text: &str, syntax: Syntax) -> Result<TestFile, String> {
        let is_header = |line: &&str| {
            let is_option = |word: &str| word == "test" || OPTIONS.contains(&word);
            let starts_with_option = line.split(' ').next().is_some_and(is_option);
            // In Ori, anything before the first function belongs to the header, so that a misspelt word is found.
            let is_ori_header = syntax == Syntax::Ori && !line.starts_with("func ");
            line.is_empty() || line.starts_with(syntax.comment()) || starts_with_option || is_ori_header
        };
        let header: Vec<String> = text.lines().take_while(is_header).map(str::to_owned).collect();
        let body = text.lines().skip(header.len());
        let code: Vec<String> = body.filter(|line| !is_expectation(line, syntax)).map(str::to_owned).collect();
        let has_expectations = text.lines().any(|line| is_expectation(line, syntax));
        let mut file =
            TestFile { syntax, kinds: Vec::new(), options: Options::default(), header, code, outcome: Vec::new(), has_expectations };
        file.read_header()?;
        Ok(file)
    }

    fn read_header(&mut self) -> Result<(), String> {
        for (number, line) in self.header.iter().enumerate() {
            let wrong = |message: String| format!("line {}: {message}", number + 1);
            let Some(directive) = directive(line, self.syntax) else { continue };
            let mut words = directive.split_whitespace();
            let word = words.next().unwrap_or_default();
            let rest: Vec<&str> = words.collect();
            if word == "test" {
                let name = rest.first().ok_or_else(|| wrong("`test` needs a kind".to_owned()))?;
                let argument = (rest.len() > 1).then(|| rest[1..].join(" "));
                self.kinds.push(TestKind { name: (*name).to_owned(), argument });
            } else {
                self.options.set(word, &rest).map_err(wrong)?;
            }
        }
        let has_comment = self.header.iter().any(|line| is_comment(line, self.syntax));
        match (self.kinds.is_empty(), has_comment) {
            (true, _) => Err("no header line `test KIND`".to_owned()),
            (_, false) => Err("no comment that says what is tested and why the result is right".to_owned()),
            _ => Ok(()),
        }
    }

    /// Returns the program with empty lines for the header, so that positions in it are positions in the file.
    pub fn source(&self) -> String {
        let keeps_header = self.syntax != Syntax::Ori;
        let header = self.header.iter().map(|line| if keeps_header { line.as_str() } else { "" });
        let lines: Vec<&str> = header.chain(self.code.iter().map(String::as_str)).collect();
        lines.join("\n") + "\n"
    }

    /// Returns the text of the file with the actual results as expectations.
    pub fn write(&self) -> String {
        let mut lines: Vec<String> = self.header.iter().chain(&self.code).cloned().collect();
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        let comment = self.syntax.comment();
        if self.outcome == [UNCHANGED] {
            lines.push(format!("{comment} {UNCHANGED}"));
        } else {
            lines.extend(self.outcome.iter().map(|line| format!("{comment} expect: {line}").trim_end().to_owned()));
        }
        lines.join("\n") + "\n"
    }

    /// Returns whether the file has expectations at its end.
    pub(crate) fn has_expectations(&self) -> bool {
        self.has_expectations
    }
}

/// Returns the text of a header line; `None` for comments and empty lines.
fn directive(line: &str, syntax: Syntax) -> Option<&str> {
    if syntax == Syntax::Ori {
        return (!line.is_empty() && !line.starts_with(syntax.comment())).then_some(line);
    }
    line.strip_prefix(syntax.header().trim_end()).map(str::trim)
}

/// Returns whether a header line is a comment for readers.
fn is_comment(line: &str, syntax: Syntax) -> bool {
    line.starts_with(syntax.comment()) && directive(line, syntax).is_none() && !is_expectation(line, syntax)
}

fn is_expectation(line: &str, syntax: Syntax) -> bool {
    let Some(comment) = line.strip_prefix(syntax.comment()) else { return false };
    comment.starts_with(" expect:") || comment.trim() == UNCHANGED
}

impl Options {
    /// Reads an option line.
    fn set(&mut self, word: &str, arguments: &[&str]) -> Result<(), String> {
        if !OPTIONS.contains(&word) {
            return Err(format!("unknown header word `{word}`"));
        }
        if self.given.iter().any(|given| given == word) {
            return Err(format!("`{word}` is given twice"));
        }
        let all = arguments.join(" ");
        let wrong = || format!("`{all}` is no {word}");
        let [one, ..] = arguments else { return Err(format!("`{word}` needs a value")) };
        if arguments.len() > 1 && word != "target" {
            return Err(wrong());
        }
        match word {
            "target" => {
                let targets = arguments.iter().map(|name| Target::parse(name).ok_or_else(|| format!("`{name}` is no target")));
                self.targets = targets.collect::<Result<_, _>>()?;
            }
            "level" => self.level = Some(one.parse().ok().filter(|&level| level <= 3).ok_or_else(wrong)?),
            "register_limit" => self.register_limit = Some(one.parse().map_err(|_| wrong())?),
            "initial_registers" => self.initial_registers = Some(one.parse().map_err(|_| wrong())?),
            "backend" => self.backend = Some(Backend::parse(one).ok_or_else(wrong)?),
            "mode" => self.mode = Some(ScheduleMode::parse(one).ok_or_else(wrong)?),
            _ => {
                let forms = [("ptxas", Form::Ptxas), ("human", Form::Human)];
                self.form = Some(forms.into_iter().find(|(name, _)| name == one).ok_or_else(wrong)?.1);
            }
        }
        self.given.push(word.to_owned());
        Ok(())
    }
}
