//! Prints programs as PTX text.
//!
//! Whatever the statements of a function use (addresses, thread numbers, masks, arrays) is declared and computed before them, and only
//! if the statements mention it.

use std::fmt::Write;

use crate::program::{
    CHANGED_REGISTERS, CLASSES, CONSTANT_WORDS, Condition, Edge, Function, GLOBAL_POINTERS, Line, LoopStyle, Op, OperandClass,
    PRIVATE_BYTES, Passed, Program, Stmt, Together, Token, Trips,
};
use crate::prologue::{THREAD_NUMBERS, arrays, function_extras, kernel_extras, names};

/// Returns the text of the module.
pub fn module(program: &Program) -> String {
    let mut text = format!(".version {}\n.target {}\n.address_size 64\n\n", program.version, program.target);
    text += &contents(program);
    text
}

/// Returns the text of the module without `.version`, `.target` and `.address_size`.
pub fn contents(program: &Program) -> String {
    let suffix = program.seed;
    let functions: Vec<String> = program.called().into_iter().map(|number| device_function(program, &program.functions[number])).collect();
    let kernel = kernel(program);
    let mut text = String::new();
    let all = functions.concat() + &kernel;
    let words = program.constants.iter().map(|word| format!("{word:#x}")).collect::<Vec<_>>().join(", ");
    for (name, space) in [("cst", "const"), ("gvar", "global")] {
        if all.contains(&format!("{name}{suffix}")) {
            let _ = writeln!(text, ".{space} .align 16 .b32 {name}{suffix}[{CONSTANT_WORDS}] = {{{words}}};");
        }
    }
    large_variables(&mut text, program, &all);
    text + &all
}

/// Prints the variables of optional features: the large constant, dynamic shared memory, many globals.
fn large_variables(text: &mut String, program: &Program, all: &str) {
    let suffix = program.seed;
    if all.contains(&format!("big{suffix}")) {
        let words = &program.large_constant;
        let values = words.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let initializer = if words.iter().all(|word| *word == 0) { String::new() } else { format!(" = {{{values}}}") };
        let _ = writeln!(text, ".const .align 16 .b32 big{suffix}[{}]{initializer};", words.len());
    }
    if all.contains(&format!("dyn{suffix}")) {
        let _ = writeln!(text, ".extern .shared .align 16 .b8 dyn{suffix}[];");
    }
    let with_table = all.contains(&format!("gp{suffix}"));
    let first_in_table = program.globals.len().saturating_sub(GLOBAL_POINTERS);
    for (number, global) in program.globals.iter().enumerate() {
        let name = format!("g{suffix}x{number}");
        if program.unused_globals || with_table && number >= first_in_table || names(all, &name) {
            let _ = writeln!(text, ".global .{} {name} = {};", global.kind, global.value);
        }
    }
    if with_table {
        let list = (first_in_table..program.globals.len()).map(|number| format!("g{suffix}x{number}")).collect::<Vec<_>>().join(", ");
        let _ = writeln!(text, ".global .u64 gp{suffix}[{GLOBAL_POINTERS}] = {{{list}}};");
    }
}

/// Returns the text of an instruction.
pub fn line(line: &Line) -> String {
    line.iter()
        .map(|token| match token {
            Token::Text(text) => text.as_str(),
            Token::Use { name, .. } | Token::Def { name, .. } => name.as_str(),
        })
        .collect()
}

/// Prints an operation; one with declarations gets its own scope.
fn op(text: &mut String, op: &Op) {
    let guard = op.guard.as_ref().map_or(String::new(), |guard| format!("{guard} "));
    let scoped = !op.declarations.is_empty();
    if scoped {
        text.push_str("{\n");
    }
    for declaration in &op.declarations {
        let _ = writeln!(text, "    {declaration}");
    }
    for instruction in &op.lines {
        let _ = writeln!(text, "    {guard}{};", line(instruction));
    }
    if scoped {
        text.push_str("}\n");
    }
}

/// Prints a conditional branch and the instructions that compute its condition.
fn branch(text: &mut String, condition: &Condition, negate: bool, label: &str) {
    for instruction in &condition.setup {
        let _ = writeln!(text, "    {};", line(instruction));
    }
    let not = if condition.negated != negate { "!" } else { "" };
    let _ = writeln!(text, "    @{not}{} bra {label};", condition.register);
}

fn statements(text: &mut String, list: &[Stmt]) {
    for statement in list {
        self::statement(text, statement);
    }
}

/// Prints a statement.
fn statement(text: &mut String, statement: &Stmt) {
    match statement {
        Stmt::Op(one) => op(text, one),
        Stmt::If { id, condition, gather, then, otherwise } => {
            print_if(text, *id, condition, gather.as_deref(), then, otherwise);
        }
        Stmt::Loop { id, style, trips, body } => print_loop(text, *id, *style, trips, body),
        Stmt::Break { id, condition } => branch(text, condition, false, &format!("END{id}")),
        Stmt::Continue { id, condition } => branch(text, condition, false, &format!("NEXT{id}")),
        Stmt::Irregular { id, entry, blocks, fuel } => print_irregular(text, *id, entry, blocks, *fuel),
        Stmt::Staged { parts, holes } => {
            text.push_str("{\n");
            for declaration in parts.iter().flat_map(|part| &part.declarations) {
                let _ = writeln!(text, "    {declaration}");
            }
            for (number, part) in parts.iter().enumerate() {
                for instruction in &part.lines {
                    let _ = writeln!(text, "    {};", line(instruction));
                }
                statements(text, holes.get(number).map_or(&[], Vec::as_slice));
            }
            text.push_str("}\n");
        }
        Stmt::Exit { condition, how } => {
            for instruction in &condition.setup {
                let _ = writeln!(text, "    {};", line(instruction));
            }
            let not = if condition.negated { "!" } else { "" };
            let _ = writeln!(text, "    @{not}{} {how};", condition.register);
        }
    }
}

/// Prints an `if`. With `gather`, first computes the masks of the threads that take each side.
fn print_if(text: &mut String, id: usize, condition: &Condition, gather: Option<&str>, then: &[Stmt], otherwise: &[Stmt]) {
    let mut condition = condition.clone();
    if let Some(mask) = gather {
        for instruction in condition.setup.drain(..) {
            let _ = writeln!(text, "    {};", line(&instruction));
        }
        let not = if condition.negated { "!" } else { "" };
        let _ = writeln!(text, "    vote.sync.ballot.b32 %m{id}, {not}{}, {mask};", condition.register);
        let _ = writeln!(text, "    xor.b32 %w{id}, %m{id}, {mask};");
    }
    let target = if otherwise.is_empty() { format!("END{id}") } else { format!("ELSE{id}") };
    branch(text, &condition, true, &target);
    statements(text, then);
    if !otherwise.is_empty() {
        let _ = writeln!(text, "    bra END{id};\nELSE{id}:");
        statements(text, otherwise);
    }
    let _ = writeln!(text, "END{id}:");
}

/// Prints a loop. `%n` holds the number of trips and `%c` the counter.
fn print_loop(text: &mut String, id: usize, style: LoopStyle, trips: &Trips, body: &[Stmt]) {
    match trips {
        Trips::Constant(count) => {
            let _ = writeln!(text, "    mov.u32 %n{id}, {count};");
        }
        Trips::Masked { register, mask } => {
            let _ = writeln!(text, "    and.b32 %n{id}, {register}, {mask};");
        }
    }
    match style {
        LoopStyle::DoUp => {
            let _ = writeln!(text, "    mov.u32 %c{id}, 0;\nTOP{id}:");
            statements(text, body);
            let _ = writeln!(text, "NEXT{id}:\n    add.u32 %c{id}, %c{id}, 1;");
            let _ = writeln!(text, "    setp.lt.u32 %k{id}, %c{id}, %n{id};\n    @%k{id} bra TOP{id};\nEND{id}:");
        }
        LoopStyle::WhileDown => {
            let _ = writeln!(text, "    mov.u32 %c{id}, %n{id};\nNEXT{id}:");
            let _ = writeln!(text, "    setp.eq.u32 %k{id}, %c{id}, 0;\n    @%k{id} bra END{id};\n    sub.u32 %c{id}, %c{id}, 1;");
            statements(text, body);
            let _ = writeln!(text, "    bra NEXT{id};\nEND{id}:");
        }
        LoopStyle::WideStride => {
            let _ = writeln!(text, "    mul.wide.u32 %D{id}, %n{id}, 3;\n    mov.u64 %C{id}, 0;\n    mov.u32 %c{id}, 7;\nTOP{id}:");
            let _ = writeln!(text, "    setp.ge.s64 %k{id}, %C{id}, %D{id};\n    @%k{id} bra END{id};");
            statements(text, body);
            let _ = writeln!(text, "NEXT{id}:\n    add.s64 %C{id}, %C{id}, 3;\n    bra TOP{id};\nEND{id}:");
        }
    }
}

/// Prints the end of a block of an irregular region; block `count` is the end of the region.
fn print_edge(text: &mut String, id: usize, number: usize, edge: &Edge, count: usize) {
    let label = |block: usize| if block < count { format!("B{id}x{block}") } else { format!("END{id}") };
    match edge {
        Edge::Fall => {}
        Edge::Goto(block) => {
            let _ = writeln!(text, "    bra {};", label(*block));
        }
        Edge::Branch(condition, block) => branch(text, condition, false, &label(*block)),
        Edge::Indexed { register, targets } => {
            let labels = targets.iter().map(|block| label(*block)).collect::<Vec<_>>().join(", ");
            let _ = writeln!(text, "TABLE{id}x{number}: .branchtargets {labels};");
            let _ = writeln!(text, "    and.b32 %n{id}, {register}, {};", targets.len() - 1);
            let _ = writeln!(text, "    brx.idx %n{id}, TABLE{id}x{number};");
        }
    }
}

/// Prints an irregular region. Each block consumes one unit of fuel, so that the region ends.
fn print_irregular(text: &mut String, id: usize, entry: &Edge, blocks: &[(Vec<Stmt>, Edge)], fuel: u32) {
    let count = blocks.len();
    let _ = writeln!(text, "    mov.u32 %c{id}, {fuel};");
    print_edge(text, id, count, entry, count);
    for (number, (body, edge)) in blocks.iter().enumerate() {
        let _ = writeln!(text, "B{id}x{number}:");
        let _ = writeln!(text, "    setp.eq.u32 %k{id}, %c{id}, 0;\n    @%k{id} bra END{id};\n    sub.u32 %c{id}, %c{id}, 1;");
        statements(text, body);
        print_edge(text, id, number, edge, count);
    }
    let _ = writeln!(text, "END{id}:");
}

/// Prints the declarations of the function's registers.
fn declared_pool(function: &Function) -> String {
    let mut text = String::new();
    for (class, &count) in CLASSES.iter().zip(&function.pool).filter(|(_, count)| **count > 0) {
        let _ = writeln!(text, "    .reg .{} %{}<{count}>;", class.register_type(), class.letter());
    }
    let ids = function.ids.max(1);
    let _ = writeln!(text, "    .reg .b32 %c<{ids}>, %n<{ids}>, %m<{ids}>, %w<{ids}>;");
    let _ = writeln!(text, "    .reg .b64 %C<{ids}>, %D<{ids}>;\n    .reg .pred %k<{ids}>;");
    text
}

/// Returns the initializations, the body and the end of a function.
fn inside(function: &Function) -> String {
    let mut text = String::new();
    for one in &function.inits {
        op(&mut text, one);
    }
    statements(&mut text, &function.body);
    text.push_str("DONE:\n");
    for one in &function.finish {
        op(&mut text, one);
    }
    text
}

/// Returns the declaration of a parameter.
pub fn declare(function: &Function, passed: &Passed, name: &str) -> String {
    match passed {
        Passed::Scalar(class) if function.by_register => format!(".reg .{} {name}", class.register_type()),
        Passed::Scalar(class) => format!(".param .{} {name}", parameter_type(*class)),
        Passed::Structure { bytes, .. } => format!(".param .align 8 .b8 {name}[{bytes}]"),
    }
}

/// Returns the type with which a class is passed.
pub fn parameter_type(class: OperandClass) -> &'static str {
    if class == OperandClass::Pred { "b32" } else { class.register_type() }
}

/// Prints a device function.
fn device_function(program: &Program, function: &Function) -> String {
    let results: Vec<String> =
        function.results.iter().enumerate().map(|(i, passed)| declare(function, passed, &format!("ret{i}"))).collect();
    let space = if function.by_register { "reg" } else { "param" };
    let mut parameters = vec![format!(".{space} .b64 pointer")];
    if function.recursive {
        parameters.push(format!(".{space} .b32 depth"));
    }
    if function.together == Together::Warp {
        parameters.push(format!(".{space} .b32 members"));
    }
    parameters.extend(function.parameters.iter().enumerate().map(|(i, passed)| declare(function, passed, &format!("par{i}"))));
    let results = if results.is_empty() { String::new() } else { format!("({}) ", results.join(", ")) };
    let body = inside(function);
    let mut text = format!(".func {results}{}({})\n{{\n", function.name, parameters.join(", "));
    text += &declared_pool(function);
    let from =
        |bits: u32, name: &str| if function.by_register { format!("mov.b{bits} %{name}") } else { format!("ld.param.b{bits} %{name}") };
    let source = |name: &str| if function.by_register { name.to_owned() } else { format!("[{name}]") };
    let _ = writeln!(text, "    .reg .b64 %priv;\n    {}, {};", from(64, "priv"), source("pointer"));
    if function.recursive {
        let _ = writeln!(text, "    .reg .b32 %depth;\n    {}, {};", from(32, "depth"), source("depth"));
    }
    if function.together == Together::Warp {
        let _ = writeln!(text, "    .reg .b32 %fm;\n    {}, {};", from(32, "fm"), source("members"));
    }
    arrays(&mut text, program, function, &body);
    function_extras(&mut text, program, &body);
    text + &body + "    ret;\n}\n\n"
}

/// Prints the kernel: parameters, thread indices, addresses, body.
fn kernel(program: &Program) -> String {
    let function = &program.kernel;
    let body = inside(function);
    let mut text =
        format!(".visible .entry {}(\n    .param .u64 input,\n    .param .u64 private,\n    .param .u64 cells,\n", function.name);
    text += "    .param .u32 n0,\n    .param .u32 n1,\n    .param .align 8 .b8 structure[";
    let bulk = if program.has_bulk_stores() { ",\n    .param .u64 bulk" } else { "" };
    let cluster = match program.cluster {
        1 => String::new(),
        blocks => format!(".reqnctapercluster {blocks}, 1, 1\n"),
    };
    let registers = if body.contains("setmaxnreg") { format!(".maxnreg {CHANGED_REGISTERS}\n") } else { String::new() };
    let _ = write!(text, "{}],\n    .param .u64 out{bulk}\n)\n{cluster}{registers}{{\n", program.structure.len());
    text += &declared_pool(function);
    text += "    .reg .b32 %lin, %nthr, %gtid, %pa, %pb;\n    .reg .b64 %in, %priv, %cells, %out, %qa;\n";
    text += THREAD_NUMBERS;
    text += "    mov.u32 %gtid, %ctaid.y;\n    mov.u32 %pa, %nctaid.x;\n    mov.u32 %pb, %ctaid.x;\n";
    text += "    mad.lo.u32 %gtid, %gtid, %pa, %pb;\n    mad.lo.u32 %gtid, %gtid, %nthr, %lin;\n";
    text += "    ld.param.u64 %in, [input];\n    cvta.to.global.u64 %in, %in;\n";
    let _ = writeln!(
        text,
        "    ld.param.u64 %priv, [private];\n    cvta.to.global.u64 %priv, %priv;\n    mad.wide.u32 %priv, %gtid, {PRIVATE_BYTES}, %priv;"
    );
    text += "    ld.param.u64 %cells, [cells];\n    cvta.to.global.u64 %cells, %cells;\n";
    let _ = writeln!(
        text,
        "    ld.param.u64 %out, [out];\n    cvta.to.global.u64 %out, %out;\n    mad.wide.u32 %out, %gtid, {}, %out;",
        program.slots * 8
    );
    kernel_extras(&mut text, program, &body);
    text + &body + "    ret;\n}\n"
}
