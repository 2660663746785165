//! ptxas' words for common errors in PTX. People and programs search for them, so they come first; Oriole's explanation follows.

use oriole_ptx::ast::Module;
use oriole_ptx::diag::Diagnostic;

/// The words of ptxas for a finding, and whether ptxas stops after the message.
pub struct Wording {
    pub text: String,
    pub is_fatal: bool,
}

/// Returns ptxas' words for a finding of which only Oriole's are known (`ours`); `None` if ptxas has no fixed words for it. `line` is the
/// line of the message.
pub fn ptxas_words(finding: &Diagnostic, ours: &str, file: &str, line: u32, module: &Module) -> Option<Wording> {
    let mut quoted = finding.message.split('`').skip(1).step_by(2);
    let code = finding.code.name();
    let words = match code {
        "E0201" => format!("Missing .version directive at start of file '{file}'"),
        "E0203" => format!("Missing .target directive at start of file '{file}'"),
        "E0204" => format!("Unsupported .target '{}'", quoted.next()?),
        "E0205" => format!("PTX .version {} does not support .target {}", module.version, module.target),
        "E0102" => format!("Unexpected non-ASCII character encountered on line {line}"),
        "E0107" | "E0210" => {
            format!("Parsing error near '{}': syntax error", quoted.last().filter(|_| finding.message.ends_with(['`', 'e']))?)
        }
        "E0108" => "Parsing error near '': syntax error".to_owned(),
        "E0208" => " 32-Bit compilation is no longer supported".to_owned(),
        "E0301" => format!("Duplicate definition of variable '{}'", quoted.next()?),
        "E0501" => format!("Duplicate definition of function '{}'", quoted.next()?),
        "E0601" => format!("Duplicate definition of label '{}'", quoted.next()?),
        "E0602" | "E0807" => format!("Unknown symbol '{}'", quoted.next()?),
        "E0604" => "Predicate expression expected".to_owned(),
        "E0701" => format!("Not a name of any known instruction: '{}'", quoted.next()?),
        "E0702" => format!("Unknown modifier '{}'", quoted.next()?),
        "E0801" => format!("Arguments mismatch for instruction '{}'", quoted.next()?),
        "E0803" => format!("Arguments mismatch for instruction '{}'", quoted.nth(1)?),
        "E1003" | "E1005" => "Call has wrong number of parameters".to_owned(),
        "W0514" => format!("Pragma '{}' unsupported", quoted.next()?),
        _ => return None,
    };
    let is_fatal = matches!(code, "E0201" | "E0203" | "E0204" | "E0102" | "E0107" | "E0108" | "E0208" | "E0210");
    Some(Wording { text: format!("{words}: {ours}"), is_fatal })
}
