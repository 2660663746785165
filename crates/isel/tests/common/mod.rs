//! Selects instructions for a target and checks that the result can be encoded.
#![allow(dead_code, reason = "each test program uses a part")]

use oriole_ir::{Function, construct_ssa};
use oriole_isa::Target;
use oriole_isel::{Layout, Linking, select_function};
use oriole_opt::legalize::{self, EncodabilityCache};
use oriole_ptx::ast::Module;
use oriole_ptx::enumerate::{Case, legal_forms, module_text};
use oriole_ptx::table::ROWS;
use oriole_ptx::target as ptx;
use oriole_support::Index;

/// One target per encoding table, with all features of its family.
pub const TARGETS: &[&str] =
    &["sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90a", "sm_100a", "sm_103a", "sm_110a", "sm_120a", "sm_121a"];

/// The result of selecting an instruction.
#[derive(Debug)]
pub enum Outcome {
    /// The PTX is not valid for the target.
    Invalid,
    /// Selection reports it as unsupported.
    Unsupported(String),
    /// The selected code has no encoding.
    Wrong(String),
    /// The legalized code.
    Code(Box<Function>),
}

/// Parses a module; `None` if it is not valid.
pub fn read(text: &str) -> Option<Module> {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    checked.is_valid().then_some(checked.module)
}

/// Selects and legalizes kernel number `kernel` of a module.
pub fn select(module: &Module, kernel: usize, target: Target, linking: Linking) -> Outcome {
    let kernels = module.functions.iter().enumerate().filter(|(_, function)| function.kind == oriole_ptx::ast::FunctionKind::Entry);
    let Some((position, _)) = kernels.clone().nth(kernel) else { return Outcome::Invalid };
    let id = oriole_ptx::ast::FunctionId::new(position);
    let layout = match Layout::new(module, linking) {
        Ok(layout) => layout,
        Err(error) => return Outcome::Unsupported(error.to_string()),
    };
    let variables = layout.variables_of(module, id, target);
    let mut function = match select_function(module, id, target, &variables) {
        Ok(selected) => selected.function,
        Err(errors) => return Outcome::Unsupported(errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")),
    };
    construct_ssa(&mut function);
    match legalize::run(&mut function, &mut EncodabilityCache::new(target)) {
        Ok(_) => Outcome::Code(Box::new(function)),
        Err(error) => Outcome::Wrong(error.to_string()),
    }
}

/// Tries every form of some opcodes, at most `limit` per table row, on every target. Returns the number of forms selected, and the errors.
/// `refused` tells the forms that are known to be unsupported.
pub fn try_forms(opcodes: &[&str], limit: usize, refused: impl Fn(&str) -> bool) -> (usize, Vec<String>) {
    let mut selected = 0;
    let mut problems = Vec::new();
    for (row, _) in ROWS.iter().enumerate().filter(|(_, row)| opcodes.contains(&row.opcode.spelling())) {
        for case in legal_forms(row, limit) {
            for name in TARGETS {
                match try_case(&case, name) {
                    Outcome::Invalid => {}
                    Outcome::Unsupported(why) if refused(&case.text) => drop(why),
                    Outcome::Unsupported(why) | Outcome::Wrong(why) => problems.push(format!("{name}: {}: {why}", case.text)),
                    Outcome::Code(_) if refused(&case.text) => problems.push(format!("{name}: {}: is supported after all", case.text)),
                    Outcome::Code(_) => selected += 1,
                }
            }
        }
    }
    (selected, problems)
}

fn try_case(case: &Case, name: &str) -> Outcome {
    let target = Target::parse(name).expect("a known target");
    let mut case = case.clone();
    let Some(platform) = platform(name, case.platform.version) else { return Outcome::Invalid };
    case.platform = platform;
    let (text, _) = module_text(std::slice::from_ref(&case));
    let Some(module) = read(&text) else { return Outcome::Invalid };
    select(&module, 0, target, Linking::Whole)
}

/// Returns the platform for a target: in the PTX version of the form, or in the first version that supports the target.
fn platform(name: &str, version: ptx::PtxVersion) -> Option<ptx::Platform> {
    let target = ptx::Target::parse(name)?;
    let version = version.max(target.introduced());
    Some(ptx::Platform { version, target })
}
