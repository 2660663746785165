//! The steps of the reducer. An edit changes the n-th place to which it applies, and returns false if there is none.

use crate::program::{Edge, Frame, Function, Op, OperandClass, Program, Stmt, Token, Trips};

fn functions(program: &mut Program) -> impl Iterator<Item = &mut Function> {
    program.functions.iter_mut().chain(std::iter::once(&mut program.kernel))
}

/// Returns the lists directly inside a statement.
fn inner(statement: &mut Stmt) -> Vec<&mut Vec<Stmt>> {
    match statement {
        Stmt::If { then, otherwise, .. } => vec![then, otherwise],
        Stmt::Loop { body, .. } => vec![body],
        Stmt::Irregular { blocks, .. } => blocks.iter_mut().map(|block| &mut block.0).collect(),
        Stmt::Staged { holes, .. } => holes.iter_mut().collect(),
        _ => Vec::new(),
    }
}

fn count_in(list: &[Stmt]) -> usize {
    list.iter()
        .map(|statement| {
            1 + match statement {
                Stmt::If { then, otherwise, .. } => count_in(then) + count_in(otherwise),
                Stmt::Loop { body, .. } => count_in(body),
                Stmt::Irregular { blocks, .. } => blocks.iter().map(|block| count_in(&block.0)).sum(),
                Stmt::Staged { holes, .. } => holes.iter().map(|hole| count_in(hole)).sum(),
                _ => 0,
            }
        })
        .sum()
}

pub fn count_statements(program: &Program) -> usize {
    program.functions.iter().chain(std::iter::once(&program.kernel)).map(|function| count_in(&function.body)).sum()
}

/// Keeps the statements whose numbers `keep` accepts. A construct is removed with everything in it.
pub fn keep_statements(program: &mut Program, keep: &dyn Fn(usize) -> bool) {
    fn walk(list: &mut Vec<Stmt>, next: &mut usize, keep: &dyn Fn(usize) -> bool) {
        let old = std::mem::take(list);
        for mut statement in old {
            let number = *next;
            *next += 1;
            for nested in inner(&mut statement) {
                walk(nested, next, keep);
            }
            if keep(number) {
                list.push(statement);
            }
        }
    }
    let mut next = 0;
    for function in functions(program) {
        walk(&mut function.body, &mut next, keep);
    }
    prune(program);
}

pub fn count_finish(program: &Program) -> usize {
    program.kernel.finish.len()
}

pub fn keep_finish(program: &mut Program, keep: &dyn Fn(usize) -> bool) {
    let mut number = 0;
    program.kernel.finish.retain(|_| {
        number += 1;
        keep(number - 1)
    });
    prune(program);
}

/// Sets the local arrays of all functions to the smallest size.
pub fn small_frames(program: &mut Program) {
    for function in functions(program) {
        function.frame = Frame::SMALL;
    }
}

/// Removes the initializations of registers that no statement reads.
pub fn prune(program: &mut Program) {
    for function in functions(program) {
        let body = format!("{:?}{:?}", function.body, function.finish);
        function.inits.retain(|init| init_register(init).is_none_or(|name| mentions(&body, &name)));
    }
}

/// Returns the register that an initialization writes: the first operand of its last line.
fn init_register(init: &Op) -> Option<String> {
    let line = crate::print::line(init.lines.last()?);
    let operand = line.split_once(' ')?.1.split(',').next()?.trim().to_owned();
    operand.starts_with('%').then_some(operand)
}

/// Returns whether a text mentions a register.
pub fn mentions(text: &str, register: &str) -> bool {
    text.match_indices(register).any(|(at, _)| !text[at + register.len()..].starts_with(|c: char| c.is_ascii_digit()))
}

/// Visits all lists of statements, outer ones first, until the visitor returns true.
fn visit_lists(program: &mut Program, visit: &mut dyn FnMut(&mut Vec<Stmt>) -> bool) -> bool {
    fn walk(list: &mut Vec<Stmt>, visit: &mut dyn FnMut(&mut Vec<Stmt>) -> bool) -> bool {
        visit(list) || list.iter_mut().any(|statement| inner(statement).into_iter().any(|nested| walk(nested, visit)))
    }
    functions(program).any(|function| walk(&mut function.body, visit))
}

/// Visits all statements until the visitor returns true.
fn visit_statements(program: &mut Program, visit: &mut dyn FnMut(&mut Stmt) -> bool) -> bool {
    visit_lists(program, &mut |list| list.iter_mut().any(&mut *visit))
}

fn visit_ops(program: &mut Program, visit: &mut dyn FnMut(&mut Op) -> bool) -> bool {
    visit_statements(program, &mut |statement| if let Stmt::Op(op) = statement { visit(op) } else { false })
}

/// Replaces a construct by its contents.
pub fn unwrap_construct(program: &mut Program, wanted: usize) -> bool {
    let mut number = 0;
    visit_lists(program, &mut |list| {
        for at in 0..list.len() {
            for choice in 0..choices(&list[at]) {
                if number == wanted {
                    let statement = list.remove(at);
                    let replacement = unwrapped(statement, choice);
                    list.splice(at..at, replacement);
                    return true;
                }
                number += 1;
            }
        }
        false
    })
}

/// Returns the number of ways in which a statement can be unwrapped.
fn choices(statement: &Stmt) -> usize {
    match statement {
        // If the contents use the mask of the construct, it cannot be unwrapped.
        Stmt::If { id, gather: Some(_), then, otherwise, .. } => {
            let text = format!("{then:?}{otherwise:?}");
            if mentions(&text, &format!("%m{id}")) || mentions(&text, &format!("%w{id}")) { 0 } else { 2 }
        }
        Stmt::If { .. } => 2,
        Stmt::Loop { .. } | Stmt::Irregular { .. } | Stmt::Staged { .. } => 1,
        _ => 0,
    }
}

/// Returns the contents of a construct; `choice` selects the side of an `if`. Jumps of a removed loop are removed.
fn unwrapped(statement: Stmt, choice: usize) -> Vec<Stmt> {
    match statement {
        Stmt::If { then, otherwise, .. } => {
            if choice == 0 {
                then
            } else {
                otherwise
            }
        }
        Stmt::Loop { id, mut body, .. } => {
            drop_jumps(&mut body, id);
            if mentions(&format!("{body:?}"), &format!("%c{id}")) {
                let counter = Op { lines: vec![vec![Token::Text(format!("mov.u32 %c{id}, 0"))]], ..Op::default() };
                body.insert(0, Stmt::Op(counter));
            }
            body
        }
        Stmt::Irregular { blocks, .. } => blocks.into_iter().flat_map(|block| block.0).collect(),
        Stmt::Staged { holes, .. } => holes.concat(),
        other => vec![other],
    }
}

/// Removes jumps that leave or continue a removed loop.
fn drop_jumps(list: &mut Vec<Stmt>, id: usize) {
    list.retain(|statement| !matches!(statement, Stmt::Break { id: target, .. } | Stmt::Continue { id: target, .. } if *target == id));
    for statement in list {
        for nested in inner(statement) {
            drop_jumps(nested, id);
        }
    }
}

/// Simplifies a construct: fewer iterations, fewer jumps.
pub fn simplify_construct(program: &mut Program, wanted: usize) -> bool {
    let mut number = 0;
    let mut is_wanted = || {
        number += 1;
        number - 1 == wanted
    };
    visit_statements(program, &mut |statement| match statement {
        Stmt::Loop { trips, .. } => {
            for count in [1, 2] {
                if is_wanted() {
                    *trips = Trips::Constant(count);
                    return true;
                }
            }
            false
        }
        Stmt::Irregular { entry, blocks, fuel, .. } => {
            if is_wanted() {
                *fuel = (*fuel / 2).max(1);
                return true;
            }
            for edge in std::iter::once(entry).chain(blocks.iter_mut().map(|block| &mut block.1)) {
                if is_wanted() {
                    *edge = Edge::Fall;
                    return true;
                }
            }
            if is_wanted() {
                // The last block serves only as a jump target.
                if blocks.len() > 1 && blocks.last().is_some_and(|block| block.0.is_empty()) {
                    blocks.pop();
                }
                return true;
            }
            false
        }
        _ => false,
    })
}

pub fn drop_guard(program: &mut Program, wanted: usize) -> bool {
    let mut number = 0;
    visit_ops(program, &mut |op| {
        if op.guard.is_none() {
            return false;
        }
        number += 1;
        if number - 1 == wanted {
            op.guard = None;
        }
        number - 1 == wanted
    })
}

/// Replaces an initial value by zero.
pub fn zero_init(program: &mut Program, wanted: usize) -> bool {
    let mut number = 0;
    for function in functions(program) {
        for init in &mut function.inits {
            if number == wanted {
                if let Some(name) = init_register(init) {
                    *init = zero(&name).unwrap_or_else(|| init.clone());
                }
                return true;
            }
            number += 1;
        }
    }
    false
}

fn zero(name: &str) -> Option<Op> {
    let class = OperandClass::from_letter(name.chars().nth(1)?)?;
    let text = match class {
        OperandClass::B8 => format!("cvt.u8.u32 {name}, 0"),
        OperandClass::F32 => format!("mov.f32 {name}, 0f00000000"),
        OperandClass::F64 => format!("mov.f64 {name}, 0d0000000000000000"),
        OperandClass::Pred => format!("setp.ne.u32 {name}, 0, 0"),
        _ => format!("mov.{} {name}, 0", class.register_type()),
    };
    Some(Op { lines: vec![vec![Token::Text(text)]], ..Op::default() })
}

/// Replaces an operand by 0 or 1, where a constant is allowed.
pub fn constant_operand(program: &mut Program, wanted: usize) -> bool {
    let mut number = 0;
    visit_ops(program, &mut |op| {
        for token in op.lines.iter_mut().flatten() {
            let Token::Use { class, constant: true, .. } = token else { continue };
            for value in 0..2 {
                if number == wanted {
                    let text = match (*class, value) {
                        (OperandClass::F32, 0) => "0f00000000",
                        (OperandClass::F32, _) => "0f3F800000",
                        (OperandClass::F64, 0) => "0d0000000000000000",
                        (OperandClass::F64, _) => "0d3FF0000000000000",
                        (_, 0) => "0",
                        _ => "1",
                    };
                    *token = Token::Text(text.to_owned());
                    return true;
                }
                number += 1;
            }
        }
        false
    })
}
