//! Prints functions: header, parameters, launch bounds and other directives.

use super::{Printer, module::linkage_text};
use crate::ast::{FunctionId, FunctionKind, LaunchBounds, Parameter};

impl<'m> Printer<'m> {
    /// Prints a function with its body, or a declaration with its `;`.
    pub(super) fn function(&mut self, id: FunctionId) {
        let module = self.module;
        let function = &module.functions[id];
        self.put(linkage_text(function.linkage));
        self.put(match function.kind {
            FunctionKind::Entry => ".entry",
            FunctionKind::Function => ".func",
        });
        self.attributes(&function.attributes);
        self.put(" ");
        if !function.returns.is_empty() {
            self.parameters(&function.returns);
            self.put(" ");
        }
        self.name(function.name);
        if function.has_parameter_list {
            self.parameters(&function.parameters);
        }
        self.bounds(&function.bounds);
        match &function.body {
            Some(body) => {
                self.put("\n{\n");
                self.in_body(body).statements();
                self.put("}\n");
            }
            None => self.put(";\n"),
        }
    }

    /// Prints a parameter list: `(.param .u64 a, .reg .u32 b)`.
    pub(super) fn parameters(&mut self, parameters: &[Parameter]) {
        let module = self.module;
        let on_lines = parameters.len() > 1;
        self.put("(");
        for (position, parameter) in parameters.iter().enumerate() {
            self.put(if position > 0 { "," } else { "" });
            self.put(if on_lines { "\n\t" } else { "" });
            match parameter {
                Parameter::Variable(variable) => self.declaration(&module.variables[*variable]),
                Parameter::Register { name, ty, lanes, .. } => {
                    self.put(".reg");
                    self.vector_type(*lanes, *ty);
                    self.put(" ");
                    self.name(*name);
                }
            }
        }
        self.put(if on_lines { "\n)" } else { ")" });
    }

    /// Prints the directives between header and body, one per line.
    fn bounds(&mut self, bounds: &LaunchBounds) {
        // Destructures all fields, so that the compiler reports a new field that is not printed.
        let LaunchBounds {
            max_threads,
            required_threads,
            min_blocks_per_sm,
            max_blocks_per_sm,
            max_registers,
            noreturn,
            explicit_cluster,
            required_cluster,
            max_cluster_rank,
            blocks_are_clusters,
            abi_preserve,
            abi_preserve_control,
            pragmas,
        } = bounds;
        self.flag(".noreturn", *noreturn);
        self.extent(".maxntid", max_threads.as_deref());
        self.extent(".reqntid", required_threads.as_deref());
        self.extent(".minnctapersm", min_blocks_per_sm.as_ref().map(std::slice::from_ref));
        self.extent(".maxnctapersm", max_blocks_per_sm.as_ref().map(std::slice::from_ref));
        self.extent(".maxnreg", max_registers.as_ref().map(std::slice::from_ref));
        self.flag(".explicitcluster", *explicit_cluster);
        self.extent(".reqnctapercluster", required_cluster.as_deref());
        self.extent(".maxclusterrank", max_cluster_rank.as_ref().map(std::slice::from_ref));
        self.flag(".blocksareclusters", *blocks_are_clusters);
        self.extent(".abi_preserve", abi_preserve.as_ref().map(std::slice::from_ref));
        self.extent(".abi_preserve_control", abi_preserve_control.as_ref().map(std::slice::from_ref));
        for pragma in pragmas {
            self.value(format_args!("\n.pragma \"{pragma}\";"));
        }
    }

    fn flag(&mut self, directive: &str, is_set: bool) {
        if is_set {
            self.value(format_args!("\n{directive}"));
        }
    }

    fn extent(&mut self, directive: &str, numbers: Option<&[u32]>) {
        if let Some(numbers) = numbers {
            self.value(format_args!("\n{directive} "));
            self.commas(numbers, Self::value);
        }
    }
}
