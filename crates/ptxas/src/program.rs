//! Reads the inputs of one call and checks them, one by one and against each other. Like ptxas, compiles all inputs as one program.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Read};

use oriole_ptx::ast::{Function, FunctionKind, Linkage, Module};
use oriole_ptx::diag::{self, DiagnosticCode, Severity};
use oriole_ptx::lexer::{Lexer, TokenKind};
use oriole_ptx::source::{LineIndex, Source};

use crate::arch::{Arch, ArchKind};
use crate::file_name::unescape;
use crate::memory_options::warn_of_doubles;
use crate::messages::{MessagePlace, Messages};
use crate::settings::Settings;
use crate::wording::ptxas_words;

/// Limit on the number of errors. ptxas has none; this one keeps memory bounded.
const ERROR_LIMIT: usize = 10_000;

/// An input of the call.
pub enum Input {
    /// A file; `-` is standard input.
    File(String),
    /// Text that is not in a file.
    Text(Vec<u8>),
}

impl Input {
    /// Returns the input of a text.
    pub fn text(text: &str) -> Input {
        Input::Text(text.as_bytes().to_vec())
    }

    /// Returns the name in messages.
    fn name(&self) -> &str {
        match self {
            Input::File(name) if name == "-" => "<stdin>",
            Input::File(name) => name,
            Input::Text(_) => "application ptx input",
        }
    }

    /// Reads the text; returns `None` if it cannot be read.
    fn read(&self) -> Option<Vec<u8>> {
        match self {
            Input::File(name) if name == "-" => {
                let mut text = Vec::new();
                io::stdin().lock().read_to_end(&mut text).ok()?;
                Some(text)
            }
            Input::File(name) => match fs::read(unescape(name)) {
                Ok(text) => Some(text),
                // ptxas treats a directory as an empty file.
                Err(error) if error.kind() == io::ErrorKind::IsADirectory => Some(Vec::new()),
                Err(_) => None,
            },
            Input::Text(text) => Some(text.clone()),
        }
    }
}

/// A parsed module.
pub struct ParsedModule {
    /// The name in messages.
    pub name: String,
    /// The text.
    pub text: Vec<u8>,
    /// The module.
    pub module: Module,
}

/// State over all modules read so far.
#[derive(Default)]
struct Program {
    modules: Vec<ParsedModule>,
    /// Defined functions and variables, and whether they are visible to other modules.
    definitions: BTreeMap<String, bool>,
    kernels: BTreeSet<String>,
    /// Functions that a module declares without `.extern` and does not define: number of the module, name, and the finding to report unless
    /// another module defines the function.
    undefined: Vec<(usize, String, diag::Diagnostic)>,
    /// The message for the first module that cannot be compiled for the architecture.
    refusal: Option<String>,
}

/// Checks all inputs and prints all findings. A returned error ends the call although the text is valid.
pub fn check(inputs: &[Input], settings: &Settings, messages: &mut Messages<'_>) -> Result<Vec<ParsedModule>, String> {
    let mut program = Program::default();
    for input in inputs {
        match input.read() {
            Some(text) => program.check_module(input.name(), text, settings, messages),
            None => messages.fatal(&format!("Input file '{}' could not be opened", input.name())),
        }
    }
    for (number, function, finding) in &program.undefined {
        // A declaration without `.extern` finds a function of another input if both are visible.
        let ParsedModule { name, text, module } = &program.modules[*number];
        let is_visible = |declared: &Function| module.name(declared.name) == function && declared.linkage == Linkage::Visible;
        let is_defined = program.definitions.get(function).copied().unwrap_or(false);
        if !(is_defined && module.functions.iter().any(is_visible)) {
            report(&Source::new(name, text), &LineIndex::new(text), finding, settings.arch, module, messages);
        }
    }
    if messages.has_errors() {
        return Ok(Vec::new());
    }
    if let Some(refusal) = program.refusal {
        return Err(refusal);
    }
    match settings.entries.iter().find(|entry| !program.kernels.contains(*entry)) {
        Some(missing) => Err(format!("Unknown function {missing}")),
        None => Ok(program.modules),
    }
}

impl Program {
    fn check_module(&mut self, name: &str, text: Vec<u8>, settings: &Settings, messages: &mut Messages<'_>) {
        let arch = settings.arch;
        let checked = oriole_driver::check(&text, &oriole_ptx::Options { error_limit: ERROR_LIMIT }, &settings.hooks.parallelism);
        let source = Source::new(name, &text);
        self.add_definitions(&checked.module, &source, messages);
        self.refusal = self.refusal.take().or_else(|| arch.refuse(checked.module.target));
        if !checked.diagnostics.is_empty() {
            let lines = LineIndex::new(&text);
            for finding in &checked.diagnostics {
                // Whether another input defines the function is known after all inputs.
                let name = text.get(finding.span.start as usize..finding.span.end as usize);
                match name.filter(|_| finding.code == DiagnosticCode::UndefinedFunction) {
                    Some(name) => self.undefined.push((self.modules.len(), String::from_utf8_lossy(name).into_owned(), finding.clone())),
                    None => report(&source, &lines, finding, arch, &checked.module, messages),
                }
            }
        }
        let parsed = ParsedModule { name: name.to_owned(), text, module: checked.module };
        if settings.warns_of_doubles {
            warn_of_doubles(&parsed, messages);
        }
        self.modules.push(parsed);
    }

    /// Records the definitions of a module and reports duplicates.
    fn add_definitions(&mut self, module: &Module, source: &Source<'_>, messages: &mut Messages<'_>) {
        let mut found = Vec::new();
        for function in module.functions.iter().filter(|function| function.body.is_some()) {
            let name = module.name(function.name).to_string();
            let is_kernel = function.kind == FunctionKind::Entry;
            if is_kernel {
                self.kernels.insert(name.clone());
            }
            found.push((name, "function", is_kernel || function.linkage != Linkage::Internal));
        }
        for variable in module.items.iter().filter_map(|item| match item {
            oriole_ptx::ast::Item::Variable(id) => Some(&module.variables[*id]),
            _ => None,
        }) {
            if variable.linkage != Linkage::Extern {
                found.push((module.name(variable.name).to_string(), "variable", variable.linkage != Linkage::Internal));
            }
        }
        // ptxas accepts a name again if it was private to the inputs before.
        let is_twice = |(name, _, _): &&(String, &str, bool)| self.definitions.get(name).is_some_and(|is_visible| *is_visible);
        let twice: Vec<_> = found.iter().filter(is_twice).collect();
        let lines = if twice.is_empty() { BTreeMap::new() } else { first_lines(source.text) };
        let line = |name: &String| lines.get(name).copied().unwrap_or(1);
        let mut twice: Vec<_> = twice.into_iter().map(|(name, kind, _)| (line(name), *kind, name)).collect();
        twice.sort_unstable();
        for (line, kind, name) in twice {
            let place = MessagePlace { file: source.name, line };
            messages.error(Some(place), &format!("Duplicate definition of {kind} '{name}'"));
        }
        for (name, _, visible) in found {
            *self.definitions.entry(name).or_default() |= visible;
        }
    }
}

/// Returns the line of the first mention of each name outside of function bodies.
fn first_lines(text: &[u8]) -> BTreeMap<String, u32> {
    let lines = LineIndex::new(text);
    let mut found = BTreeMap::new();
    let mut lexer = Lexer::new(text);
    let mut depth = 0_u32;
    loop {
        match lexer.token.kind {
            TokenKind::End => return found,
            TokenKind::Punctuation(b'{') => depth += 1,
            TokenKind::Punctuation(b'}') => depth = depth.saturating_sub(1),
            TokenKind::Identifier if depth == 0 => {
                found.entry(lexer.text().to_owned()).or_insert_with(|| lines.line_column(lexer.token.span.start).0);
            }
            _ => {}
        }
        lexer.advance();
    }
}

/// Prints a finding in ptxas' format.
fn report(source: &Source<'_>, lines: &LineIndex, finding: &diag::Diagnostic, arch: Arch, module: &Module, messages: &mut Messages<'_>) {
    for (span, ours) in diag::ptxas_messages(finding) {
        let line = lines.line_column(span.start).0;
        let place = Some(MessagePlace { file: source.name, line });
        let words = if finding.ptxas.is_none() { ptxas_words(finding, &ours, source.name, line, module) } else { None };
        // ptxas stops at an unknown version; it has fixed words for it.
        let is_fatal = words.as_ref().map_or(finding.code == DiagnosticCode::UnknownVersion, |words| words.is_fatal);
        let text = words.map_or(ours, |words| words.text);
        match (finding.code.severity(), finding.code) {
            // The driver counts constants during code generation, as ptxas does.
            (Severity::Error, DiagnosticCode::TooMuchConstantData) => {}
            (Severity::Error, code) => {
                messages.needs_later_ptx |= code == DiagnosticCode::UnknownVersion;
                if is_fatal {
                    messages.fatal_at(place, &text);
                } else {
                    messages.error(place, &text);
                }
            }
            // ptxas accepts any order without a warning, and checks pragmas only when it generates code. With -Werror these warnings
            // would reject inputs that ptxas accepts.
            (Severity::Warning, DiagnosticCode::ModifierOrder) => {}
            (Severity::Warning, DiagnosticCode::UnknownPragma) if arch.kind != ArchKind::Real => {}
            (Severity::Warning, _) => messages.warning(place, &text),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::first_lines;

    #[test]
    fn names_are_found_at_module_scope() {
        let text = b".version 8.0\n.target sm_80\n.func f() { call g; }\n// g\n.func g() { ret; }\n";
        let lines = first_lines(text);
        assert_eq!((lines.get("g"), lines.get("missing")), (Some(&5), None));
    }
}
