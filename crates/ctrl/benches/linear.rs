//! Measures how the time of phase 115 grows with the length of the code: `cargo bench -p oriole-ctrl --bench linear`.
//!
//! Prints the nanoseconds per instruction for six shapes of code from 1,000 to 200,000 instructions; a constant number means linear time.
//! Fails if the number grows too much. Processor time is measured where the system provides it, so that other processes do not matter, and
//! the best of several measurements counts.

use std::hint::black_box;
use std::time::Instant;
use std::{env, fs};

use oriole_ctrl::flow::{MachineBlock, MachineCode, assign};
use oriole_hardware::Hardware;
use oriole_isa::{Instruction, Target, decode, encode, parse};

const SIZES: [usize; 5] = [1_000, 10_000, 50_000, 100_000, 200_000];
/// Index of the first size that exceeds the processor caches.
const LARGE: usize = 2;
/// Maximum factor by which the time per instruction may grow from that size to the largest one.
const MOST_GROWTH: f64 = 2.0;

struct Shape {
    name: &'static str,
    make: fn(usize) -> (Vec<usize>, Vec<MachineBlock>),
}

const SHAPES: [Shape; 6] = [
    Shape { name: "one block, arithmetic", make: arithmetic },
    Shape { name: "one block, loads", make: loads },
    Shape { name: "200 loads in flight", make: many_in_flight },
    Shape { name: "diamonds", make: diamonds },
    Shape { name: "nested loops", make: nested_loops },
    Shape { name: "one loop", make: one_loop },
];

/// Number of different arithmetic instructions that the shapes consist of.
const ARITHMETIC: usize = 16;
/// Number of different loads, each with its own destination register.
const LOADS: usize = 200;

/// Returns the instructions that the shapes consist of: arithmetic, loads, one branch. Shapes refer to them by index.
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

fn single(kinds: Vec<usize>) -> (Vec<usize>, Vec<MachineBlock>) {
    let blocks = vec![MachineBlock { range: 0..kinds.len(), successors: Vec::new() }];
    (kinds, blocks)
}

fn arithmetic(size: usize) -> (Vec<usize>, Vec<MachineBlock>) {
    single((0..size).map(|at| at % ARITHMETIC).collect())
}

fn loads(size: usize) -> (Vec<usize>, Vec<MachineBlock>) {
    single((0..size).map(|at| if at % 3 == 0 { ARITHMETIC + at / 3 % LOADS } else { at % ARITHMETIC }).collect())
}

fn many_in_flight(size: usize) -> (Vec<usize>, Vec<MachineBlock>) {
    single((0..size).map(|at| ARITHMETIC + at % LOADS).collect())
}

/// Returns blocks of eight instructions, each with the next two blocks as successors. A quarter of the instructions are loads.
fn diamonds(size: usize) -> (Vec<usize>, Vec<MachineBlock>) {
    const LENGTH: usize = 8;
    let count = size / LENGTH;
    let kind = |at: usize| match at % LENGTH {
        7 => BRANCH,
        1 | 4 => ARITHMETIC + at % LOADS,
        _ => at % ARITHMETIC,
    };
    let block = |number: usize| {
        let next = |step: usize| Some(number + step).filter(|&next| next < count);
        MachineBlock { range: number * LENGTH..(number + 1) * LENGTH, successors: next(1).into_iter().chain(next(2)).collect() }
    };
    ((0..count * LENGTH).map(kind).collect(), (0..count).map(block).collect())
}

/// Returns a sequence of loop nests, each with three nested loops.
fn nested_loops(size: usize) -> (Vec<usize>, Vec<MachineBlock>) {
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
        MachineBlock { range: number * LENGTH..(number + 1) * LENGTH, successors }
    };
    ((0..count * LENGTH).map(kind).collect(), (0..count).map(block).collect())
}

fn one_loop(size: usize) -> (Vec<usize>, Vec<MachineBlock>) {
    let (kinds, _) = loads(size);
    let blocks = vec![MachineBlock { range: 0..kinds.len(), successors: vec![0] }];
    (kinds, blocks)
}

fn main() {
    let is_measured = env::args().any(|argument| argument == "--bench");
    let target = Target::parse("sm_90a").expect("a target of the table");
    let hardware = &Hardware::built_in(target);
    let kinds = kinds(target);
    let sizes = if is_measured { &SIZES[..] } else { &SIZES[..1] };
    println!("ns for an instruction       {}", sizes.iter().map(|size| format!("{size:>8}")).collect::<String>());
    for shape in &SHAPES {
        let times: Vec<f64> = sizes.iter().map(|&size| each(shape, size, &kinds, hardware, if is_measured { 2 } else { 1 })).collect();
        println!("{:<27} {}", shape.name, times.iter().map(|time| format!("{time:>8.0}")).collect::<String>());
        let growth = times[times.len() - 1] / times[LARGE.min(times.len() - 1)];
        assert!(!is_measured || growth < MOST_GROWTH, "{}: an instruction takes {growth:.1} times as long in long code", shape.name);
    }
}

/// Returns the nanoseconds per instruction for a shape of a size.
fn each(shape: &Shape, size: usize, kinds: &[Instruction], hardware: &Hardware<'_>, rounds: usize) -> f64 {
    let (numbers, blocks) = (shape.make)(size);
    let instructions: Vec<Instruction> = numbers.iter().map(|&number| kinds[number].clone()).collect();
    let code = MachineCode { instructions: &instructions, blocks };
    // The system counts processor time in timer ticks, so short code is processed many times.
    let times = if rounds > 1 { SIZES[SIZES.len() - 1] / size } else { 1 };
    let timed = || {
        let start = processor_time();
        for _ in 0..times {
            black_box(assign(black_box(&code), hardware));
        }
        (processor_time() - start) as f64 / times as f64
    };
    let best = (0..rounds).map(|_| timed()).fold(f64::INFINITY, f64::min);
    best / instructions.len() as f64
}

/// Returns the processor time of this thread in nanoseconds; the wall-clock time where the system does not provide it.
fn processor_time() -> u64 {
    let told = fs::read_to_string("/proc/thread-self/schedstat").ok();
    let told = told.and_then(|text| text.split_whitespace().next()?.parse().ok());
    told.unwrap_or_else(|| {
        thread_local!(static START: Instant = Instant::now());
        START.with(|start| start.elapsed().as_nanos() as u64)
    })
}
