//! How the time of phase 115 grows with the length of the code: `cargo bench -p oriole-ctrl --bench linear`.
//!
//! Six shapes in sizes from a thousand to two hundred thousand instructions. A line has the nanoseconds for an instruction; where they
//! stay the same, the pass is linear. Time is that of the processor where the system tells it, so a busy machine does not matter, and the
//! best of several rounds counts.

use std::hint::black_box;
use std::time::Instant;
use std::{env, fs};

use oriole_ctrl::flow::{Block, Code, assign};
use oriole_hardware::Model;
use oriole_isa::{Instruction, Target, decode, encode, parse};

const SIZES: [usize; 5] = [1_000, 10_000, 50_000, 100_000, 200_000];
/// The size from which on caches are full.
const LARGE: usize = 2;
/// From there to the largest size the time for an instruction may grow by this factor.
const MOST_GROWTH: f64 = 2.0;

struct Shape {
    name: &'static str,
    make: fn(usize) -> (Vec<usize>, Vec<Block>),
}

const SHAPES: [Shape; 6] = [
    Shape { name: "one block, arithmetic", make: arithmetic },
    Shape { name: "one block, loads", make: loads },
    Shape { name: "200 loads in flight", make: many_in_flight },
    Shape { name: "diamonds", make: diamonds },
    Shape { name: "nested loops", make: nested_loops },
    Shape { name: "one loop", make: one_loop },
];

/// The instructions that the shapes are made of.
const ARITHMETIC: usize = 16;
const LOADS: usize = 200;

fn kinds(target: Target) -> Vec<Instruction> {
    let mut texts: Vec<String> = Vec::new();
    for number in 0..ARITHMETIC {
        let (a, b, c) = (number % 13 + 1, number % 7 + 8, number % 5 + 2);
        texts.push(match number % 4 {
            0 => format!("IADD3 R{a}, R{b}, R{c}, RZ"),
            1 => format!("FFMA R{a}, R{b}, R{c}, R{a}"),
            2 => format!("LOP3.LUT R{a}, R{b}, R{c}, RZ, 0xc0, !PT"),
            _ => format!("IMAD R{a}, R{b}, R{c}, R{a}"),
        });
    }
    texts.extend((0..LOADS).map(|number| format!("LDG.E R{}, desc[UR4][R2.64+{:#x}]", 20 + number, 4 * number)));
    texts.push("@P0 BRA 0x10".to_owned());
    let read = |text: String| {
        let word = encode(&parse(&text).expect("an instruction"), target).expect("a form for it");
        decode(word, target).expect("what was encoded can be decoded")
    };
    texts.into_iter().map(read).collect()
}

const BRANCH: usize = ARITHMETIC + LOADS;

fn single(kinds: Vec<usize>) -> (Vec<usize>, Vec<Block>) {
    let blocks = vec![Block { range: 0..kinds.len(), successors: Vec::new() }];
    (kinds, blocks)
}

fn arithmetic(size: usize) -> (Vec<usize>, Vec<Block>) {
    single((0..size).map(|at| at % ARITHMETIC).collect())
}

fn loads(size: usize) -> (Vec<usize>, Vec<Block>) {
    single((0..size).map(|at| if at % 3 == 0 { ARITHMETIC + at / 3 % LOADS } else { at % ARITHMETIC }).collect())
}

fn many_in_flight(size: usize) -> (Vec<usize>, Vec<Block>) {
    single((0..size).map(|at| ARITHMETIC + at % LOADS).collect())
}

/// Blocks of eight; each goes to the next or skips one. A third of all load.
fn diamonds(size: usize) -> (Vec<usize>, Vec<Block>) {
    const LENGTH: usize = 8;
    let count = size / LENGTH;
    let kind = |at: usize| match at % LENGTH {
        7 => BRANCH,
        1 | 4 => ARITHMETIC + at % LOADS,
        _ => at % ARITHMETIC,
    };
    let block = |number: usize| {
        let next = |step: usize| Some(number + step).filter(|&next| next < count);
        Block { range: number * LENGTH..(number + 1) * LENGTH, successors: next(1).into_iter().chain(next(2)).collect() }
    };
    ((0..count * LENGTH).map(kind).collect(), (0..count).map(block).collect())
}

/// Groups of three loops, one in the other, one group after the other.
fn nested_loops(size: usize) -> (Vec<usize>, Vec<Block>) {
    const LENGTH: usize = 8;
    const GROUP: usize = 6;
    let count = size / (LENGTH * GROUP) * GROUP;
    let kind = |at: usize| match at % LENGTH {
        7 => BRANCH,
        2 | 5 => ARITHMETIC + at % LOADS,
        _ => at % ARITHMETIC,
    };
    let block = |number: usize| {
        let back = match number % GROUP {
            3 => Some(number - 1),
            4 => Some(number - 3),
            5 => Some(number - 5),
            _ => None,
        };
        let successors = back.into_iter().chain(Some(number + 1).filter(|&next| next < count)).collect();
        Block { range: number * LENGTH..(number + 1) * LENGTH, successors }
    };
    ((0..count * LENGTH).map(kind).collect(), (0..count).map(block).collect())
}

fn one_loop(size: usize) -> (Vec<usize>, Vec<Block>) {
    let (kinds, _) = loads(size);
    let blocks = vec![Block { range: 0..kinds.len(), successors: vec![0] }];
    (kinds, blocks)
}

fn main() {
    let is_measured = env::args().any(|argument| argument == "--bench");
    let target = Target::parse("sm_90a").expect("a target of the table");
    let model = Model::of(target);
    let kinds = kinds(target);
    let sizes = if is_measured { &SIZES[..] } else { &SIZES[..1] };
    println!("ns for an instruction       {}", sizes.iter().map(|size| format!("{size:>8}")).collect::<String>());
    for shape in &SHAPES {
        let times: Vec<f64> = sizes.iter().map(|&size| each(shape, size, &kinds, model, if is_measured { 2 } else { 1 })).collect();
        println!("{:<27} {}", shape.name, times.iter().map(|time| format!("{time:>8.0}")).collect::<String>());
        let growth = times[times.len() - 1] / times[LARGE.min(times.len() - 1)];
        assert!(!is_measured || growth < MOST_GROWTH, "{}: an instruction takes {growth:.1} times as long in long code", shape.name);
    }
}

/// Nanoseconds for an instruction of a shape.
fn each(shape: &Shape, size: usize, kinds: &[Instruction], model: &Model, rounds: usize) -> f64 {
    let (numbers, blocks) = (shape.make)(size);
    let instructions: Vec<Instruction> = numbers.iter().map(|&number| kinds[number].clone()).collect();
    let code = Code { instructions: &instructions, blocks };
    // What the system counts has the grain of a timer tick, so short code is done many times.
    let times = if rounds > 1 { SIZES[SIZES.len() - 1] / size } else { 1 };
    let timed = || {
        let start = processor_time();
        for _ in 0..times {
            black_box(assign(black_box(&code), model));
        }
        (processor_time() - start) as f64 / times as f64
    };
    let best = (0..rounds).map(|_| timed()).fold(f64::INFINITY, f64::min);
    best / instructions.len() as f64
}

/// Nanoseconds that this thread has had of a processor; of the clock, where the system does not tell.
fn processor_time() -> u64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    told.unwrap_or_else(|| {
        thread_local!(static START: Instant = Instant::now());
        START.with(|start| start.elapsed().as_nanos() as u64)
    })
}
