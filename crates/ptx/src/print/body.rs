//! Prints the statements of a function body.

use super::BodyPrinter;
use crate::ast::{CallPrototype, GuardSource, InstructionId, LineLocation, Operand, RegisterDeclarationId, Statement};

/// Largest indentation in tabs. Scopes may nest a hundred thousand deep, and deeper indentation would make the output quadratic.
const DEEPEST_INDENT: usize = 8;

impl BodyPrinter<'_, '_> {
    pub(super) fn statements(mut self) {
        for &statement in &self.body.statements {
            self.statement(statement);
        }
    }

    fn indent(&mut self) {
        const TABS: &str = "\t\t\t\t\t\t\t\t";
        self.printer.put(&TABS[..self.depth.min(DEEPEST_INDENT)]);
    }

    /// Prints one statement. Labels are not indented.
    fn statement(&mut self, statement: Statement) {
        let body = self.body;
        if statement == Statement::CloseScope {
            self.depth -= 1;
        }
        if !matches!(statement, Statement::Label(_)) {
            self.indent();
        }
        match statement {
            Statement::Instruction(instruction) => self.instruction(instruction),
            Statement::Label(label) => {
                self.printer.name(body.labels[label].name);
                self.printer.put(":\n");
            }
            Statement::OpenScope => {
                self.printer.put("{\n");
                self.depth += 1;
            }
            Statement::CloseScope => self.printer.put("}\n"),
            Statement::Registers(declaration) => self.registers(declaration),
            Statement::Variable(variable) => self.printer.variable(variable),
            Statement::Location(index) => self.location(&body.locations[index as usize]),
            Statement::Pragma(index) => self.printer.pragma(std::slice::from_ref(&body.pragmas[index as usize])),
            Statement::BranchTargets(index) => self.targets(".branchtargets ", &body.target_lists[index as usize].targets),
            Statement::CallTargets(index) => self.targets(".calltargets ", &body.target_lists[index as usize].targets),
            Statement::CallPrototype(index) => self.prototype(&body.prototypes[index as usize]),
            Statement::Function(function) => self.printer.function(function),
            Statement::Alias(index) => self.printer.alias(&body.aliases[index as usize]),
        }
    }

    /// Prints an instruction with its guard.
    fn instruction(&mut self, id: InstructionId) {
        let body = self.body;
        let instruction = &body.instructions[id];
        if let Some(guard) = instruction.guard {
            self.printer.put(if guard.negated { "@!" } else { "@" });
            match guard.source {
                GuardSource::Register(register) => self.register(register),
                GuardSource::Special(register) => self.printer.value(register),
            }
            self.printer.put(" ");
        }
        self.head(instruction.form);
        let operands = body.operands_of(instruction);
        if !operands.is_empty() {
            self.printer.put(" ");
            self.operands(operands);
        }
        self.printer.put(";\n");
    }

    fn registers(&mut self, id: RegisterDeclarationId) {
        let declaration = &self.body.registers[id];
        let printer = &mut *self.printer;
        printer.put(".reg");
        if let Some(align) = declaration.align {
            printer.value(format_args!(" .align {align}"));
        }
        printer.vector_type(declaration.lanes, declaration.ty);
        printer.put(" ");
        printer.name(declaration.name);
        if let Some(count) = declaration.count {
            printer.value(format_args!("<{count}>"));
        }
        printer.put(";\n");
    }

    fn location(&mut self, location: &LineLocation) {
        let printer = &mut *self.printer;
        printer.value(format_args!(".loc {} {} {}", location.file, location.line, location.column));
        if let Some(inlined) = &location.inlined {
            let (function, offset, [file, line, column]) = **inlined;
            printer.put(", function_name ");
            printer.name(function);
            if offset != 0 {
                printer.value(format_args!("+{}", offset as u64));
            }
            printer.value(format_args!(", inlined_at {file} {line} {column}"));
        }
        printer.put("\n");
    }

    fn targets(&mut self, directive: &str, targets: &[Operand]) {
        self.printer.put(directive);
        self.operands(targets);
        self.printer.put(";\n");
    }

    fn prototype(&mut self, prototype: &CallPrototype) {
        let printer = &mut *self.printer;
        printer.put(".callprototype ");
        if !prototype.returns.is_empty() {
            printer.parameters(&prototype.returns);
            printer.put(" ");
        }
        printer.put("_ ");
        printer.parameters(&prototype.parameters);
        if prototype.noreturn {
            printer.put(" .noreturn");
        }
        let (preserve, control) = prototype.abi_preserve;
        if let Some(count) = preserve {
            printer.value(format_args!(" .abi_preserve {count}"));
        }
        if let Some(count) = control {
            printer.value(format_args!(" .abi_preserve_control {count}"));
        }
        printer.put(";\n");
    }
}
