//! The options for cache operators (`-dlcm`, `-flcm`, `-dscm`, `-fscm`), and the warnings of `-warn-double-usage`.

use oriole_ptx::ast::{Form, Module, SlotValue, Statement};
use oriole_ptx::source::LineIndex;
use oriole_ptx::table::{Modifier, Opcode, Slot};
use oriole_ptx::types::ScalarType;

use crate::command_line::CommandLine;
use crate::messages::{MessagePlace, Messages};
use crate::program::ParsedModule;

/// The cache operators that the options request for loads and stores of global memory.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct CacheOperators {
    load: Option<Request>,
    store: Option<Request>,
}

/// A requested cache operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Request {
    operator: Modifier,
    /// Whether the operator replaces one in the PTX.
    replaces: bool,
}

impl CacheOperators {
    /// Returns what the options request. Their values have been checked.
    pub fn new(line: &CommandLine) -> CacheOperators {
        let request = |force: &str, default: &str| {
            let (option, replaces) = if line.has(force) { (force, true) } else { (default, false) };
            let operator = operator(line.value(option)?)?;
            Some(Request { operator, replaces })
        };
        CacheOperators { load: request("force-load-cache", "def-load-cache"), store: request("force-store-cache", "def-store-cache") }
    }

    /// Changes the instructions of a module.
    pub fn apply(self, module: &mut Module) {
        for form in module.forms.iter_mut() {
            let request = match form.opcode {
                Opcode::Ld | Opcode::Ldu => self.load,
                Opcode::St => self.store,
                _ => None,
            };
            if let Some(request) = request.filter(|request| request.concerns(form)) {
                let others = form.modifiers.iter().copied().filter(|value| value.slot != Slot::Cop);
                form.modifiers = others.chain([SlotValue { slot: Slot::Cop, modifier: request.operator }]).collect();
            }
        }
    }
}

impl Request {
    /// Returns whether the operator applies to an instruction: a weak access of global or generic memory without an L1 eviction priority.
    /// Of loads through the read-only cache, ptxas changes the eviction only.
    fn concerns(self, form: &Form) -> bool {
        let other_spaces = [Modifier::Shared, Modifier::SharedCta, Modifier::SharedCluster, Modifier::Local, Modifier::Const];
        let parameters = [Modifier::Param, Modifier::ParamEntry, Modifier::ParamFunc];
        let strong = [Modifier::Volatile, Modifier::Relaxed, Modifier::Acquire, Modifier::Release, Modifier::Async, Modifier::Bulk];
        let priorities = [Modifier::L1EvictUnchanged, Modifier::L1EvictFirst, Modifier::L1EvictLast, Modifier::L1NoAllocate];
        let excluded = [&other_spaces[..], &parameters, &strong, &priorities];
        !excluded.iter().any(|modifiers| modifiers.iter().any(|&modifier| form.has(modifier)))
            && (self.replaces || form.get(Slot::Cop).is_none())
            && (!form.has(Modifier::Nc) || self.operator == Modifier::Cs)
    }
}

/// Returns the cache operator of an option's value.
fn operator(text: &str) -> Option<Modifier> {
    Some(match text {
        "ca" => Modifier::Ca,
        "cg" => Modifier::Cg,
        "cs" => Modifier::Cs,
        "lu" => Modifier::Lu,
        "cv" => Modifier::Cv,
        "wb" => Modifier::Wb,
        "wt" => Modifier::Wt,
        _ => return None,
    })
}

/// Warns of each instruction with a type of double precision. ptxas also repeats the warning for instructions into which it expands one.
pub fn warn_of_doubles(parsed: &ParsedModule, messages: &mut Messages<'_>) {
    let module = &parsed.module;
    let is_double = |form: &Form| form.modifiers.iter().any(|value| value.modifier.scalar_type() == Some(ScalarType::F64));
    let lines = LineIndex::new(&parsed.text);
    for body in module.functions.iter().filter_map(|function| function.body.as_deref()) {
        for (number, statement) in body.statements.iter().enumerate() {
            let Statement::Instruction(id) = *statement else { continue };
            if is_double(&module.forms[body.instructions[id].form]) {
                let place = body.position(number).map(|span| MessagePlace { file: &parsed.name, line: lines.line_column(span.start).0 });
                messages.warning(place, "Program is doing double precision computations.");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the text of the instruction after the options have been applied. The expected texts follow from ptxas' machine code.
    fn changed(instruction: &str, options: &[&str]) -> Option<Modifier> {
        let text = format!(
            ".version 8.7\n.target sm_90\n.address_size 64\n.entry k() {{ .reg .u64 %rd<3>; .reg .u32 %r<3>; .shared .u32 s; {instruction}; }}"
        );
        let mut module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options { error_limit: 1 }).module;
        let line = CommandLine::parse(options.iter().map(ToString::to_string)).unwrap();
        CacheOperators::new(&line).apply(&mut module);
        module.forms.iter().next().unwrap().get(Slot::Cop)
    }

    #[test]
    fn defaults_complete_and_forced_operators_replace() {
        let load = "ld.global.u32 %r1, [%rd1]";
        assert_eq!(changed(load, &[]), None);
        assert_eq!(changed(load, &["-dlcm=cg"]), Some(Modifier::Cg));
        assert_eq!(changed(load, &["-dscm=cg"]), None);
        assert_eq!(changed("ld.u32 %r1, [%rd1]", &["-dlcm=ca"]), Some(Modifier::Ca));
        assert_eq!(changed("ldu.global.u32 %r1, [%rd1]", &["-dlcm=ca"]), Some(Modifier::Ca));
        assert_eq!(changed("ld.global.cs.u32 %r1, [%rd1]", &["-dlcm=cg"]), Some(Modifier::Cs));
        assert_eq!(changed("ld.global.cs.u32 %r1, [%rd1]", &["-flcm=cg", "-dlcm=cv"]), Some(Modifier::Cg));
        assert_eq!(changed("st.global.u32 [%rd1], %r1", &["-dscm=wt"]), Some(Modifier::Wt));
        assert_eq!(changed("st.global.wb.u32 [%rd1], %r1", &["-fscm=cs"]), Some(Modifier::Cs));
    }

    #[test]
    fn other_accesses_stay() {
        for instruction in [
            "ld.shared.u32 %r1, [s]",
            "ld.volatile.global.u32 %r1, [%rd1]",
            "ld.relaxed.gpu.global.u32 %r1, [%rd1]",
            "ld.global.L1::evict_last.u32 %r1, [%rd1]",
            "ld.global.nc.u32 %r1, [%rd1]",
            "st.volatile.global.u32 [%rd1], %r1",
        ] {
            assert_eq!(changed(instruction, &["-flcm=cg", "-fscm=cg"]), None, "{instruction}");
        }
        assert_eq!(changed("ld.global.nc.u32 %r1, [%rd1]", &["-dlcm=cs"]), Some(Modifier::Cs));
    }
}
