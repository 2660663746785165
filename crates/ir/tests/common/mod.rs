//! Random functions for property tests.
#![allow(dead_code, reason = "each test file uses its part")]

pub mod interpret;

use oriole_ir::{Block, Builder, Class, Function, FunctionKind, Guard, Operand, OperandKind, Value};

/// A small deterministic random number generator (xorshift).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len())]
    }
}

/// The variables that a random function assigns.
struct Variables {
    words: Vec<Value>,
    pairs: Vec<Value>,
    predicates: Vec<Value>,
}

/// Returns a function with this number of blocks in which variables are assigned in many places, with and without guards. The values that
/// `KEEP` reads are its result. Unless `is_initialized`, some paths read variables that were never assigned, whose content is undefined.
pub fn random_function(random: &mut Random, blocks: usize, size: usize, is_initialized: bool) -> Function {
    let mut builder = Builder::new(Function::new("random", FunctionKind::Kernel));
    let mut fresh = |class: Class, count: usize| -> Vec<Value> { (0..count).map(|_| builder.value(class)).collect() };
    let variables = Variables { words: fresh(Class::R, 4), pairs: fresh(Class::R2, 2), predicates: fresh(Class::P, 2) };
    let mut targets: Vec<Block> = vec![builder.block()];
    targets.extend((1..blocks).map(|_| builder.new_block()));
    for at in 0..blocks {
        if at > 0 {
            builder.start(targets[at]);
        }
        if at == 0 && is_initialized {
            for &word in &variables.words {
                builder.assign(word, (random.below(10) as i64 - 4).into());
            }
            for &pair in &variables.pairs {
                let numbers = [random.below(10) as i64, random.below(10) as i64].map(Operand::from);
                let packed = builder.pack(Class::R2, &numbers);
                builder.assign(pair, packed);
            }
            for &predicate in &variables.predicates {
                let numbers = [random.below(3) as i64, 1].map(Operand::from);
                let test = builder.define(Class::P, "ISETP.LT.AND $, PT, {}, {}, PT", &numbers);
                builder.assign(predicate, test);
            }
        }
        for _ in 0..random.below(size + 1) {
            random_step(random, &mut builder, &variables);
        }
        end_block(random, &mut builder, &variables, &targets, at);
    }
    builder.function
}

/// Emits the branches at the end of a block.
fn end_block(random: &mut Random, builder: &mut Builder, variables: &Variables, targets: &[Block], at: usize) {
    let near = |random: &mut Random| {
        if random.chance(60) { targets[(at + 1 + random.below(3)) % targets.len()] } else { targets[random.below(targets.len())] }
    };
    if targets.len() == 1 || random.chance(8) {
        builder.emit("EXIT", &[]);
        return;
    }
    if random.chance(65) {
        let condition = Guard { kind: builder.whole(random.pick(&variables.predicates)).kind, negated: random.chance(50) };
        let target = near(random);
        builder.branch(Some(condition), target);
    }
    if random.chance(12) {
        builder.emit("EXIT", &[]);
    } else {
        let target = near(random);
        builder.branch(None, target);
    }
}

fn word(random: &mut Random, builder: &Builder, variables: &Variables) -> Operand {
    match random.below(4) {
        0 => Operand::from(random.below(10) as i64),
        1 => builder.part(random.pick(&variables.pairs), random.below(2) as u8, 1),
        _ => builder.whole(random.pick(&variables.words)),
    }
}

/// Emits a random instruction, possibly guarded.
fn random_step(random: &mut Random, builder: &mut Builder, variables: &Variables) {
    if random.chance(30) {
        let predicate = random.pick(&variables.predicates);
        builder.guard = Some(Guard { kind: builder.whole(predicate).kind, negated: random.chance(50) });
    }
    let [a, b, c] = [(); 3].map(|()| word(random, builder, variables));
    let destination = random.pick(&variables.words);
    match random.below(9) {
        0 | 1 => {
            builder.assign(destination, a);
        }
        2 | 3 => {
            let sum = builder.define(Class::R, "IADD3 $, {}, {}, {}", &[a, b, c]);
            builder.assign(destination, sum);
        }
        4 => {
            let whole = builder.whole(destination);
            builder.emit("IADD3 {}, {}, {}, RZ", &[whole, a, b]);
        }
        5 => {
            let test = builder.define(Class::P, "ISETP.LT.AND $, PT, {}, {}, PT", &[a, b]);
            builder.assign(random.pick(&variables.predicates), test);
        }
        6 => {
            let packed = builder.pack(Class::R2, &[a, b]);
            builder.assign(random.pick(&variables.pairs), packed);
        }
        7 => {
            let source = builder.whole(random.pick(&variables.pairs));
            builder.assign(random.pick(&variables.pairs), source);
        }
        _ => {
            builder.guard = None;
            let is_word = a.part().is_some();
            let kept = if is_word { a } else { builder.whole(destination) };
            builder.append(oriole_ir::Op::Pseudo(oriole_ir::Pseudo::Keep), Default::default(), &[kept], 0);
        }
    }
    builder.guard = None;
}

/// Returns a function whose blocks contain only branches. `far_percent` is the percentage of branches to arbitrary blocks.
pub fn random_graph(random: &mut Random, blocks: usize, far_percent: usize) -> Function {
    let mut builder = Builder::new(Function::new("graph", FunctionKind::Kernel));
    let mut targets = vec![builder.block()];
    targets.extend((1..blocks).map(|_| builder.new_block()));
    for at in 0..blocks {
        if at > 0 {
            builder.start(targets[at]);
        }
        let target = |random: &mut Random| {
            let to = if random.chance(far_percent) { random.below(blocks) } else { (at + 1 + random.below(4)) % blocks };
            targets[to.max(1).min(blocks - 1)]
        };
        if random.chance(70) && blocks > 1 {
            let always = Guard { kind: OperandKind::Zero(oriole_ir::RegFile::Predicate), negated: false };
            let to = target(random);
            builder.branch(Some(always), to);
        }
        if random.chance(10) || blocks == 1 {
            builder.emit("EXIT", &[]);
        } else {
            let to = target(random);
            builder.branch(None, to);
        }
    }
    builder.function
}
