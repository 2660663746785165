//! Generates device functions and calls: scalars and structures by value, several results, recursion, calls through pointers.
//!
//! Every function also gets the address of the thread's private memory. A recursive function gets a counter that decreases.

use super::{Callee, Context, Generator, Level};
use crate::features::Feature;
use crate::print::{declare, parameter_type};
use crate::program::{Condition, Function, Op, OperandClass, Passed, Stmt, Together};

/// Classes of parameters and results; repeated ones are more frequent.
const PASSED: [OperandClass; 12] = [
    OperandClass::B8,
    OperandClass::B16,
    OperandClass::B32,
    OperandClass::B32,
    OperandClass::B64,
    OperandClass::F16,
    OperandClass::F16x2,
    OperandClass::Bf16,
    OperandClass::Bf16x2,
    OperandClass::F32,
    OperandClass::F32,
    OperandClass::F64,
];
/// Limit on the recursion depth; used as a mask.
const DEEPEST_CALL: usize = 3;

impl Generator {
    /// Generates the device functions; returns the size that is left for the kernel.
    pub(super) fn make_functions(&mut self, size: usize) -> usize {
        if size < 16 || self.rng.chance(45) {
            return size;
        }
        let count = self.rng.range(1, 3) as usize;
        let share = (size / 2 / count).clamp(3, 60);
        for number in 0..count {
            self.make_function(number, share);
        }
        size - share * count
    }

    /// Picks the type of a parameter or result.
    fn passed(&mut self) -> Passed {
        if self.rng.chance(80) {
            return Passed::Scalar(*self.rng.pick(&PASSED));
        }
        let mut fields = Vec::new();
        let mut at = 0_usize;
        for _ in 0..self.rng.range(1, 5) {
            let class = *self.rng.pick(&PASSED);
            at = at.next_multiple_of(class.bytes());
            fields.push((class, at));
            at += class.bytes();
            if self.features.has(Feature::LargeParameters) && self.rng.chance(50) {
                // Padding, which is passed but never read.
                at += self.rng.below(400);
            }
        }
        Passed::Structure { fields, bytes: at.next_multiple_of(8) }
    }

    fn choose_together(&mut self) -> Together {
        if !self.features.has(Feature::CollectiveFunctions) {
            return Together::Thread;
        }
        *self.rng.pick(&[Together::Thread, Together::Warp, Together::Block, Together::Block])
    }

    /// Generates one device function.
    fn make_function(&mut self, number: usize, size: usize) {
        let together = self.choose_together();
        let pool = self.choose_pool(together);
        self.begin(false, together, pool, 600);
        let like_the_one_before = number > 0 && self.rng.chance(40) && !self.functions[number - 1].recursive;
        let (by_register, parameters, results) = if like_the_one_before {
            let before = &self.functions[number - 1];
            (before.by_register, before.parameters.clone(), before.results.clone())
        } else if self.many_results || self.rng.chance(20) {
            let most_results = if self.many_results { 4 } else { 1 };
            let mut scalars = |most| (0..self.rng.range(0, most)).map(|_| Passed::Scalar(*self.rng.pick(&PASSED[1..]))).collect();
            (true, scalars(5), scalars(most_results))
        } else {
            let parameters = (0..self.rng.range(0, 4)).map(|_| self.passed()).collect();
            let results = (0..*self.rng.pick(&[0, 1, 1, 1, 1])).map(|_| self.passed()).collect();
            (false, parameters, results)
        };
        let recursive = together == Together::Thread && !like_the_one_before && !self.many_results && self.rng.chance(25);
        let inits = self.parameter_inits(&parameters, by_register);
        if recursive {
            self.readable.push("%depth".into());
        }
        let mut function = Function {
            name: format!("f{}x{number}", self.seed),
            parameters,
            results,
            pool,
            inits,
            body: Vec::new(),
            finish: Vec::new(),
            ids: 0,
            recursive,
            by_register,
            together,
            frame: self.frame(if recursive { 600 } else { 1500 }),
        };
        let level = match together {
            Together::Thread => Level::Thread,
            Together::Warp => Level::Warp("%fm".into()),
            Together::Block => Level::Block,
        };
        let cx = Context { level, weight: 1, executions: 1, depth: 1, exits: false };
        let first = if recursive { size / 2 } else { size };
        function.body = self.statements(&cx, first);
        if recursive {
            let again = self.self_call(&function, number);
            function.body.push(again);
            function.body.extend(self.statements(&cx, size - first));
        }
        function.finish = self.set_results(&function);
        function.ids = self.ids;
        let cost = (self.cost + 30) * if recursive { DEEPEST_CALL + 1 } else { 1 };
        self.functions.push(function);
        self.callees.push(Callee { function: number, cost });
    }

    /// Generates the initializations of all registers, with the parameters loaded into some of them.
    fn parameter_inits(&mut self, parameters: &[Passed], by_register: bool) -> Vec<Op> {
        let mut loads = Vec::new();
        let mut next = [0; 12];
        for (number, passed) in parameters.iter().enumerate() {
            let fields = match passed {
                Passed::Scalar(class) => vec![(*class, 0)],
                Passed::Structure { fields, .. } => fields.clone(),
            };
            for (class, at) in fields {
                let index = next[class as usize] % self.pool[class as usize];
                next[class as usize] += 1;
                let name = class.register(index);
                let load = if by_register {
                    format!("mov.{} {name}, par{number}", class.register_type())
                } else {
                    format!("ld.param.{} {name}, [par{number}+{at}]", parameter_type(class))
                };
                loads.push((name.clone(), self.plain(&load)));
            }
        }
        let mut inits = Vec::new();
        for (class, name) in self.registers(&self.pool.clone()) {
            if !loads.iter().any(|load| load.0 == name) {
                inits.push(self.constant_init(class, &name));
            }
        }
        inits.extend(loads.into_iter().map(|load| load.1));
        inits
    }

    fn set_results(&mut self, function: &Function) -> Vec<Op> {
        let stores: Vec<String> =
            function.results.iter().enumerate().flat_map(|(number, passed)| stores(function, passed, &format!("ret{number}"))).collect();
        stores.iter().map(|store| self.plain(store)).collect()
    }

    /// Generates the recursive call, guarded by the counter.
    fn self_call(&mut self, function: &Function, number: usize) -> Stmt {
        let id = self.id();
        let register = format!("%k{id}");
        let setup = self.plain(&format!("setp.ne.u32 {register}, %depth, 0")).lines;
        let text = call_text(function, "sub.u32 %td, %depth, 1", &function.name, "");
        let mut op = self.plain(&text);
        op.callees = vec![number];
        let condition = Condition { setup, register, negated: false };
        Stmt::If { id, condition, gather: None, then: vec![Stmt::Op(op)], otherwise: Vec::new() }
    }

    /// Generates a call of a function whose cost is within the limit, directly or through a pointer.
    pub(super) fn call(&mut self, cx: &Context) -> Option<Op> {
        let room = self.cost_limit.saturating_sub(self.cost) / cx.weight;
        let fits = |callee: &&Callee| callee.cost * 2 < room && cx.level.allows(self.functions[callee.function].together);
        let affordable: Vec<Callee> = self.callees.iter().filter(fits).cloned().collect();
        if affordable.is_empty() {
            return None;
        }
        let callee = self.rng.pick(&affordable).clone();
        self.cost += callee.cost * cx.weight;
        let function = self.functions[callee.function].clone();
        let mut callees = vec![callee.function];
        let depth = format!("and.b32 %td, $r, {DEEPEST_CALL}");
        let text = if !self.many_results && self.rng.chance(30) {
            let alike: Vec<usize> = affordable
                .iter()
                .map(|other| other.function)
                .filter(|&other| {
                    let other = &self.functions[other];
                    other.parameters == function.parameters
                        && other.results == function.results
                        && other.recursive == function.recursive
                        && other.by_register == function.by_register
                        && other.together == function.together
                })
                .collect();
            let other = *self.rng.pick(&alike);
            callees.push(other);
            self.cost += self.callees[other].cost * cx.weight;
            let id = self.id();
            // Threads that must stay together have to call the same function.
            let choice = match function.together {
                Together::Thread => "selp.b64 %tf, %tf, %tg, $p",
                _ if self.pool[OperandClass::Uniform as usize] > 0 => {
                    ".reg .pred %tu; setp.{eq/ne/lt}.u32 %tu, $u, $ui; selp.b64 %tf, %tf, %tg, %tu"
                }
                _ => "mov.b64 %tf, %tg",
            };
            let pointers = format!(
                "{depth}; .reg .b64 %tf, %tg; mov.u64 %tf, {}; mov.u64 %tg, {}; {choice}",
                function.name, self.functions[other].name
            );
            call_text(&function, &pointers, "%tf", &format!("PROTO{id}"))
        } else {
            call_text(&function, &depth, &function.name, "")
        };
        let mut op = self.expand(&text, &cx.level);
        op.callees = callees;
        Some(op)
    }

    /// Inserts a call of a collective function into the outermost statements of the kernel, where all threads are together.
    pub(super) fn call_collective(&mut self, cx: &Context, body: &mut Vec<Stmt>) {
        let is_collective = |function: &Function| function.together != Together::Thread;
        if !self.functions.iter().any(is_collective) {
            return;
        }
        for _ in 0..4 {
            let Some(op) = self.call(cx) else { return };
            if op.callees.iter().any(|&callee| is_collective(&self.functions[callee])) {
                body.insert(self.rng.below(body.len() + 1), Stmt::Op(op));
                return;
            }
        }
    }
}

impl Level {
    /// Returns whether threads at this level may call a function.
    fn allows(&self, together: Together) -> bool {
        match together {
            Together::Thread => true,
            Together::Warp => *self != Level::Thread,
            Together::Block => *self == Level::Block,
        }
    }
}

/// Returns the templates of the stores into a parameter or result.
fn stores(function: &Function, passed: &Passed, name: &str) -> Vec<String> {
    if function.by_register {
        return transfers(passed, |kind, class, _| format!("mov.{kind} {name}, ${class}"));
    }
    transfers(passed, |kind, class, at| format!("st.param.{kind} [{name}+{at}], ${class}"))
}

fn transfers(passed: &Passed, one: impl Fn(&str, char, usize) -> String) -> Vec<String> {
    match passed {
        Passed::Scalar(class) => vec![one(parameter_type(*class), class.letter(), 0)],
        Passed::Structure { fields, .. } => fields.iter().map(|(class, at)| one(parameter_type(*class), class.letter(), *at)).collect(),
    }
}

/// Returns the template of a call.
fn call_text(function: &Function, setup: &str, target: &str, prototype: &str) -> String {
    let mut parts = vec![".reg .b32 %td".to_owned(), setup.to_owned()];
    let (mut arguments, mut formal) = (Vec::new(), Vec::new());
    let own =
        [(true, "b64", "ap", "%priv"), (function.recursive, "b32", "ad", "%td"), (function.together == Together::Warp, "b32", "am", "$M")];
    for (_, kind, name, value) in own.into_iter().filter(|one| one.0) {
        if function.by_register {
            parts.extend([format!(".reg .{kind} {name}"), format!("mov.{kind} {name}, {value}")]);
            formal.push(format!(".reg .{kind} _"));
        } else {
            parts.extend([format!(".param .{kind} {name}"), format!("st.param.{kind} [{name}], {value}")]);
            formal.push(format!(".param .{kind} _"));
        }
        arguments.push(name.to_owned());
    }
    for (number, passed) in function.parameters.iter().enumerate() {
        let name = format!("a{number}");
        parts.push(declare(function, passed, &name));
        parts.extend(stores(function, passed, &name));
        formal.push(declare(function, passed, "_"));
        arguments.push(name);
    }
    let mut results = Vec::new();
    let mut formal_results = Vec::new();
    let mut loads = Vec::new();
    for (number, passed) in function.results.iter().enumerate() {
        let name = format!("r{number}");
        parts.push(declare(function, passed, &name));
        loads.extend(transfers(passed, |kind, class, at| {
            if function.by_register { format!("mov.{kind} $={class}, {name}") } else { format!("ld.param.{kind} $={class}, [{name}+{at}]") }
        }));
        formal_results.push(declare(function, passed, "_"));
        results.push(name);
    }
    let list = |names: &[String]| if names.is_empty() { String::new() } else { format!("({}), ", names.join(", ")) };
    let mut call = format!("call {}{target}, ({})", list(&results), arguments.join(", "));
    if !prototype.is_empty() {
        let results = if formal_results.is_empty() { String::new() } else { format!("({}) ", formal_results.join(", ")) };
        parts.push(format!("{prototype}: .callprototype {results}_ ({})", formal.join(", ")));
        call += &format!(", {prototype}");
    }
    parts.push(call);
    parts.extend(loads);
    parts.join("; ")
}
