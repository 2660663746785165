//! Checks of options that ptxas makes after it has parsed the modules: it prints nothing of them if the PTX has errors.

use std::fs::File;

use oriole_ptx::ast::{FunctionKind, Module, Operand};
use oriole_ptx::table::Opcode;
use oriole_ptx::types::StateSpace;

use crate::command_line::CommandLine;
use crate::file_name::unescape;
use crate::messages::{MessageKind, Messages};
use crate::program::ParsedModule;
use crate::settings::Settings;

/// Checks the options against the modules. Errors go to `messages`; a returned error is fatal.
pub fn check(modules: &[ParsedModule], settings: &Settings, line: &CommandLine, messages: &mut Messages<'_>) -> Result<(), String> {
    if line.has("compile-as-tools-patch") {
        check_patch(modules, messages);
    }
    if !messages.has_errors() {
        warn_of_legacy_barriers(line, messages);
    }
    check_tensor_memory_options(modules, settings, line, messages);
    let is_whole_program = !line.has("compile-only") && !line.has("extensible-whole-program");
    match line.value("nv-host").filter(|_| settings.wants_code && is_whole_program) {
        Some(file) if File::open(unescape(file)).is_err() => Err(format!("Could not open input file '{file}'")),
        _ => Ok(()),
    }
}

/// Notes that the options about checks of tensor memory are not for this target, or warns that Oriole does not add such checks.
fn check_tensor_memory_options(modules: &[ParsedModule], settings: &Settings, line: &CommandLine, messages: &mut Messages<'_>) {
    let options = ["g-tensor-memory-access-check", "gno-tensor-memory-access-check"];
    if !options.iter().any(|option| line.has(option)) {
        return;
    }
    match modules.iter().map(|parsed| parsed.module.target).find(|target| !target.has_tensor_memory()) {
        Some(target) => {
            let names = options.map(|option| format!("--{option}")).join(" / ");
            let text = format!("Command line option '{names}' not supported for '.target {target}', will be ignored");
            messages.print(None, MessageKind::Info, &text);
        }
        None if line.has(options[0]) && settings.wants_code => {
            messages.warning(None, &format!("Option '--{}' is not supported by Oriole, will be ignored", options[0]));
        }
        None => {}
    }
}

fn warn_of_legacy_barriers(line: &CommandLine, messages: &mut Messages<'_>) {
    let option = "--legacy-bar-warp-wide-behavior";
    if !line.has(&option[2..]) {
        return;
    }
    let deprecated = "is a deprecated option, It will be removed in future release and is not recommended";
    messages.warning(None, &format!("'{option}' {deprecated}"));
    messages.warning(None, &format!("Command line option '{option}' not supported for '.target sm_70', will be ignored"));
    if line.has("compile-only") {
        let rest =
            "may not work as expected in separate compilation unless all modules participating in linking have this option specified.";
        messages.warning(None, &format!("Option '{option}' {rest}"));
    }
}

/// Returns whether a module has a call through a register.
fn has_indirect_calls(module: &Module) -> bool {
    let bodies = module.functions.iter().filter_map(|function| function.body.as_deref());
    bodies.into_iter().any(|body| {
        let calls = body.instructions.iter().filter(|instruction| module.forms[instruction.form].opcode == Opcode::Call);
        calls.into_iter().any(|call| body.operands_of(call).iter().any(|operand| matches!(operand, Operand::Register(_))))
    })
}

/// Checks that modules can be patches: they may not need memory of the program that is patched.
fn check_patch(modules: &[ParsedModule], messages: &mut Messages<'_>) {
    let has_variables = |space| {
        let mut variables = modules.iter().flat_map(|parsed| parsed.module.variables.iter());
        variables.any(|variable| variable.space == space)
    };
    let mut functions = modules.iter().flat_map(|parsed| parsed.module.functions.iter());
    let found = [
        (has_variables(StateSpace::Shared), "Allocating additional shared memory"),
        (has_variables(StateSpace::Const), "Allocating additional constants"),
        (functions.any(|function| function.kind == FunctionKind::Entry), "Entry function"),
        (modules.iter().any(|parsed| has_indirect_calls(&parsed.module)), "Using indirect function calls"),
    ];
    for (_, what) in found.iter().filter(|(is_found, _)| *is_found) {
        messages.error(None, &format!("{what} is not allowed when command line option '--compile-as-tools-patch' is specified "));
    }
}
