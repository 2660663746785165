//! The machine registers that debug information names hold the values of the PTX registers.
//!
//! Random kernels with nested loops and branches are compiled with `-g` and run in the SASS simulator. Before the first machine
//! instruction of each PTX statement, every PTX register that DWARF names is read from the machine register that
//! `.nv_debug_info_reg_sass` names at this address, or from the spill slot. Half of the kernels have so few registers that variables are
//! spilled. Some assignments have guards. The expected values come from the PTX interpreter: a second version of the kernel
//! stores the line and all PTX registers before each statement.

use std::collections::BTreeSet;
use std::sync::Arc;

use oriole_cubin::Cubin;
use oriole_cubin::debug::{DEBUG_LINE_SASS, read_lines};
use oriole_driver::{DebugInfo, DebugKind, Options, compile};
use oriole_isa::Target;
use oriole_ptx::ast::Module;
use oriole_sim::sass::warp::{PredicateSource, Row, Source, Warp};
use oriole_sim::sass::{Code, Issue, Observer};
use oriole_sim::{GlobalMemory, Launch};

/// The PTX registers that are variables: name and number of 32-bit words. After a word for the line, the 64-bit ones are at aligned
/// offsets. `%i0` to `%i2` are loop counters.
fn variables() -> Vec<(String, usize)> {
    let named = |prefix: &'static str, numbers: std::ops::RangeInclusive<usize>, words| {
        numbers.map(move |number| (format!("%{prefix}{number}"), words))
    };
    let all = named("i", 0..=0, 1).chain(named("rd", 1..=6, 2)).chain(named("r", 1..=12, 1)).chain(named("f", 1..=4, 1));
    all.chain(named("i", 1..=2, 1)).chain(named("p", 3..=10, 1)).collect()
}

/// Number of words of all variables.
const WORDS: usize = 39;
/// Number of statements that assign all variables for the first time.
const FIRST_ASSIGNMENTS: usize = 33;
const MOST_STATEMENTS: usize = 20_000;

/// Writes random kernels.
struct Generator {
    state: u64,
    labels: usize,
    /// The lines of the body: statements end with a semicolon, labels with a colon.
    lines: Vec<String>,
}

impl Generator {
    fn below(&mut self, bound: u64) -> u64 {
        self.state = self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % bound
    }

    fn register(&mut self, prefix: &str, count: u64) -> String {
        format!("%{prefix}{}", 1 + self.below(count))
    }

    fn label(&mut self) -> String {
        self.labels += 1;
        format!("$L{}", self.labels)
    }

    fn push(&mut self, line: String) {
        self.lines.push(line);
    }

    /// Writes an assignment: half of them are moves, and a third has a guard.
    fn assignment(&mut self) {
        let (a, b, c) = (self.register("r", 12), self.register("r", 12), self.register("r", 12));
        let (x, y, z) = (self.register("rd", 6), self.register("rd", 6), self.register("rd", 6));
        let (f, g) = (self.register("f", 4), self.register("f", 4));
        let (p, q) = (3 + self.below(8), 3 + self.below(8));
        let line = match self.below(14) {
            0 | 1 => format!("mov.u32 {a}, {b};"),
            2 => format!("mov.b64 {x}, {y};"),
            3 => format!("mov.f32 {f}, {g};"),
            4 => format!("mov.u32 {a}, {};", self.below(1000)),
            5 if a != b => format!("mov.b64 {{{a}, {b}}}, {x};"),
            6 => format!("mov.b64 {x}, {{{a}, {b}}};"),
            7 => format!("sub.s32 {a}, {b}, {c};"),
            8 => format!("add.s64 {x}, {y}, {z};"),
            9 => format!("cvt.s64.s32 {x}, {a};"),
            10 => format!("fma.rn.f32 {f}, {g}, 0f3FC00000, {f};"),
            11 => format!("setp.lt.s32 %p{p}, {a}, {b};"),
            12 => format!("not.pred %p{p}, %p{q};"),
            _ => format!("mad.lo.s32 {a}, {a}, {b}, {c};"),
        };
        let guard = match self.below(6) {
            0 => format!("@%p{} ", 3 + self.below(8)),
            1 => format!("@!%p{} ", 3 + self.below(8)),
            _ => String::new(),
        };
        self.push(guard + &line);
    }

    fn block(&mut self, depth: usize) {
        for _ in 0..2 + self.below(4) {
            match self.below(8) {
                0 if depth < 3 => {
                    let (head, counter) = (self.label(), format!("%i{depth}"));
                    let count = 1 + self.below(4);
                    self.push(format!("mov.u32 {counter}, {count};"));
                    self.push(format!("{head}:"));
                    self.block(depth + 1);
                    self.push(format!("sub.u32 {counter}, {counter}, 1;"));
                    self.push(format!("setp.ne.u32 %p1, {counter}, 0;"));
                    self.push(format!("@%p1 bra {head};"));
                }
                1 | 2 if depth < 3 => {
                    let (other, end) = (self.label(), self.label());
                    let (a, b) = (self.register("r", 4), self.register("r", 4));
                    self.push(format!("setp.lt.s32 %p2, {a}, {b};"));
                    self.push(format!("@%p2 bra {other};"));
                    self.block(depth + 1);
                    self.push(format!("bra.uni {end};"));
                    self.push(format!("{other}:"));
                    self.block(depth + 1);
                    self.push(format!("{end}:"));
                }
                _ => self.assignment(),
            }
        }
    }
}

/// Returns the lines of a random body. All variables are assigned first.
fn body(seed: u64) -> Vec<String> {
    let mut generator = Generator { state: seed, labels: 0, lines: Vec::new() };
    for (number, (name, words)) in variables().into_iter().enumerate() {
        let line = match (words, &name[..2]) {
            (_, "%p") => format!("setp.eq.u32 {name}, %i0, {};", if number % 2 == 0 { 1 } else { 5 }),
            (2, _) => format!("mov.u64 {name}, {};", 0x1_0000_0001_u64 * (number as u64 + 3)),
            (_, "%f") => format!("mov.f32 {name}, 0f3F{number:02X}0000;"),
            _ => format!("mov.u32 {name}, {};", 7 * number + 1),
        };
        generator.push(line);
    }
    (0..3).for_each(|_| generator.block(0));
    generator.push("st.global.u32 [%out], %r1;".into());
    generator.push("ret;".into());
    generator.lines
}

/// Returns the kernel with a body. Bodies start in line [`FIRST_LINE`].
fn kernel(lines: &[String]) -> String {
    let mut text = String::from(
        ".version 8.0\n.target sm_75\n.address_size 64\n.visible .entry k(.param .u64 out)\n{\n\
         .reg .pred %p<12>; .reg .b32 %r<16>; .reg .b32 %i<4>; .reg .f32 %f<8>; .reg .b64 %rd<8>; .reg .b64 %out;\n\
         $begin:\nld.param.u64 %out, [out];\n",
    );
    lines.iter().for_each(|line| text += &format!("{line}\n"));
    text += "}\n.section .debug_info\n{\n.b64 $begin\n";
    for (name, _) in variables() {
        let mut number = name.bytes().fold(0_u64, |number, byte| number << 8 | u64::from(byte));
        text += ".b8 144";
        while number >= 0x80 {
            text += &format!(",{}", number & 0x7f | 0x80);
            number >>= 7;
        }
        text += &format!(",{number}\n");
    }
    text + "}\n"
}

/// The line of the first statement of a body.
const FIRST_LINE: usize = 9;

/// Returns the body with stores of the line and all variables before each statement. The first word of the buffer is left to the kernel.
fn with_log(lines: &[String]) -> Vec<String> {
    let mut logged = vec!["add.u64 %rd7, %out, 8;".to_owned()];
    for (number, line) in lines.iter().enumerate() {
        // Before the first statements the variables have no values.
        if line.ends_with(';') && number >= FIRST_ASSIGNMENTS {
            logged.push(format!("st.global.u32 [%rd7], {};", FIRST_LINE + number));
            let mut offset = 4;
            for (name, words) in variables() {
                if name.starts_with("%p") {
                    logged.push(format!("selp.u32 %r15, 1, 0, {name};"));
                    logged.push(format!("st.global.u32 [%rd7+{offset}], %r15;"));
                } else {
                    logged.push(format!("st.global.b{} [%rd7+{offset}], {name};", 32 * words));
                }
                offset += 4 * words;
            }
            logged.push(format!("add.u64 %rd7, %rd7, {};", 4 * (1 + WORDS)));
        }
        logged.push(line.clone());
    }
    logged
}

fn checked(text: &str) -> Module {
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}\n{text}", checked.diagnostics);
    checked.module
}

fn launch(memory: &mut GlobalMemory, bytes: usize) -> (Launch, u64) {
    let buffer = memory.allocate("out", vec![0; bytes]);
    let arguments = vec![buffer.to_le_bytes().to_vec()];
    (Launch { kernel: "k".into(), grid: [1; 3], block: [1; 3], cluster: None, shared_bytes: 0, arguments }, buffer)
}

/// A visit of a statement: its line, and the words of all variables; `None` for a word that is in no register.
type Visit = (u32, Vec<Option<u32>>);

/// Returns the visits according to the PTX interpreter.
fn expected(lines: &[String]) -> Vec<Visit> {
    let text = kernel(&with_log(lines));
    let program = oriole_sim::ptx::PtxProgram::new(&checked(&text), text.as_bytes()).expect("a program");
    let mut memory = GlobalMemory::new();
    let (launch, buffer) = launch(&mut memory, 8 + MOST_STATEMENTS * 4 * (1 + WORDS));
    let options = oriole_sim::ptx::PtxOptions { undefined_values: false, ..Default::default() };
    program.load(&mut memory).run(&launch, &mut memory, &options).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let words = |visit: &[u8]| visit.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect::<Vec<u32>>();
    let visits = memory.contents(buffer).unwrap()[8..].chunks_exact(4 * (1 + WORDS)).map(words).take_while(|visit| visit[0] != 0);
    visits.map(|visit| (visit[0], visit[1..].iter().map(|&word| Some(word)).collect())).collect()
}

/// A range of `.nv_debug_info_reg_sass`: word and name of the PTX register, the place, and the addresses of the first and the last
/// instruction at which the place holds the word.
type Range = (u32, String, u32, u64, u64);

/// Returns the ranges of the only function of a cubin.
fn ranges(cubin: &Cubin) -> Vec<Range> {
    let section = cubin.find(".nv_debug_info_reg_sass").expect("a table of registers");
    let bytes = cubin.bytes_of(section).unwrap();
    let mut at = 0;
    let text = |at: &mut usize| {
        let end = *at + bytes[*at..].iter().position(|&byte| byte == 0).unwrap();
        let text = String::from_utf8(bytes[*at..end].to_vec()).unwrap();
        *at = end + 1;
        text
    };
    let word = |at: &mut usize| {
        *at += 4;
        u32::from_le_bytes(bytes[*at - 4..*at].try_into().unwrap())
    };
    assert_eq!(text(&mut at), "k");
    let count = word(&mut at);
    let mut one = || (word(&mut at), text(&mut at), word(&mut at), word(&mut at), word(&mut at));
    let all: Vec<_> = (0..count).map(|_| one()).collect();
    all.into_iter().map(|(word, name, place, start, end)| (word, name, place, start.into(), end.into())).collect()
}

/// Returns the value that the first thread of the warp has in `place`, an encoded location of the section `.nv_debug_info_reg_sass`. The
/// highest byte is the kind of location: 2 a predicate (value 0 or 1), 5 a general register, 7 local memory at a register (in the third
/// byte) plus an offset.
fn read_place(warp: &Warp, place: u32) -> u32 {
    let general = |number: u32| warp.read(Source::General(Row::source(Some(number as u16))))[0];
    match place >> 24 {
        2 => u32::from(warp.read_predicate(PredicateSource::new(Some(place as u8), false, false)) & 1 != 0),
        5 => general(place & 0xff_ffff),
        7 => {
            let at = (general(place >> 16 & 0xff) + (place & 0xffff)) as usize;
            u32::from_le_bytes(warp.local[at..at + 4].try_into().unwrap())
        }
        class => panic!("an unknown class: {class}"),
    }
}

/// Reads variables at the start of each statement.
struct Debugger {
    variables: Vec<(String, usize)>,
    /// The PTX line of each instruction.
    lines: Vec<u32>,
    ranges: Vec<Range>,
    last: (u32, u64),
    visits: Vec<Visit>,
}

impl Observer for Debugger {
    fn issue(&mut self, issue: &Issue<'_>, warp: &Warp) {
        let offset = issue.address - issue.function;
        let line = self.lines[offset as usize / 16];
        if line != self.last.0 || offset <= self.last.1 {
            let read = |name: &str, word: u32| {
                let fits = |range: &&Range| range.0 == word && range.1 == name && (range.3..=range.4).contains(&offset);
                let mut found = self.ranges.iter().filter(fits);
                let place = found.next()?.2;
                assert!(found.next().is_none(), "two places for {name} at {offset:#x}");
                Some(read_place(warp, place))
            };
            let words = self.variables.iter().flat_map(|(name, words)| (0..*words as u32).map(move |word| (name, word)));
            self.visits.push((line, words.map(|(name, word)| read(name, word)).collect()));
        }
        self.last = (line, offset);
    }
}

/// What a debugger sees in the simulator.
struct Session {
    visits: Vec<Visit>,
    /// The lines with code.
    with_code: BTreeSet<u32>,
    /// Number of ranges in spill slots.
    spilled: usize,
}

/// Compiles a kernel and returns what a debugger sees.
fn debugged(text: &str, target: &str, max_registers: Option<u32>) -> Session {
    let texts = vec![Arc::from(text.as_bytes())];
    let debug = Some(DebugInfo { kind: DebugKind::Full, texts });
    let options = Options { level: 0, debug, verify: true, max_registers, ..Options::new(Target::parse(target).unwrap()) };
    let compiled = compile(&[&checked(text)], &options).unwrap_or_else(|errors| panic!("{errors:?}\n{text}"));
    let bytes = compiled.cubin;
    let cubin = Cubin::read(&bytes).expect("a cubin");
    let table = read_lines(&cubin, DEBUG_LINE_SASS).expect("a line table");
    let section = cubin.find(".text.k").unwrap();
    let size = cubin.bytes_of(section).unwrap().len() as u64;
    let line_at = |offset| table.find(section, offset).map_or(0, |position| position.line as u32);
    let code_lines: Vec<u32> = (0..size).step_by(16).map(line_at).collect();
    let with_code = code_lines.iter().copied().collect();
    let mut debugger = Debugger { variables: variables(), lines: code_lines, ranges: ranges(&cubin), last: (0, 0), visits: Vec::new() };
    let spilled = debugger.ranges.iter().filter(|range| range.2 >> 24 == 7).count();
    let mut memory = GlobalMemory::new();
    let (launch, _) = launch(&mut memory, 8);
    let code = Code::load(&bytes).expect("code");
    let limit = oriole_sim::sass::GridOptions::limited(1 << 22);
    code.run(&launch, &mut memory, &limit, &mut debugger).unwrap_or_else(|error| panic!("{error}\n{text}"));
    Session { visits: debugger.visits, with_code, spilled }
}

#[test]
fn variables_have_their_values_at_every_statement() {
    let (mut compared, mut spilled) = (0, 0);
    for seed in 0..60 {
        let target = ["sm_75", "sm_80", "sm_90a", "sm_100a", "sm_120a"][seed as usize % 5];
        let lines = body(seed);
        let session = debugged(&kernel(&lines), target, (seed % 2 == 1).then_some(24));
        spilled += session.spilled;
        let mut expected = expected(&lines);
        assert!(expected.len() < MOST_STATEMENTS, "the buffer is too small");
        expected.retain(|visit| session.with_code.contains(&visit.0));
        let first = (FIRST_LINE + FIRST_ASSIGNMENTS) as u32;
        let found: Vec<Visit> = session.visits.into_iter().filter(|visit| visit.0 >= first).collect();
        let lines_of = |visits: &[Visit]| visits.iter().map(|visit| visit.0).collect::<Vec<_>>();
        let text = || kernel(&lines);
        assert_eq!(lines_of(&found), lines_of(&expected), "seed {seed}:\n{}", text());
        for (found, expected) in found.iter().zip(&expected) {
            assert_eq!(found, expected, "seed {seed}, line {}:\n{}", found.0, text());
            compared += WORDS;
        }
    }
    assert!(compared > 50_000, "only {compared} values were compared");
    assert!(spilled > 1000, "only {spilled} ranges are in spill slots");
}

/// A loop with `continue;`, in the form of nvcc's debug builds. `s` starts with 100; iterations with an even number add 7.
const CONTINUE: [&str; 21] = [
    "mov.u32 %r1, 0;",
    "mov.u32 %r2, 100;",
    "$t1:", // s is in %r2
    "$head:",
    "mov.u32 %r3, %r2;",
    "$t2:", // s is in %r3
    "and.b32 %r4, %r1, 1;",
    "setp.eq.u32 %p1, %r4, 0;",
    "@%p1 bra $more;",
    "mov.u32 %i0, %r3;",
    "$t3:", // s is in %i0
    "bra.uni $next;",
    "$more:",
    "add.u32 %i1, %r3, 7;",
    "$t4:", // s is in %i1
    "mov.u32 %i0, %i1;",
    "$next:",
    "mov.u32 %r2, %i0;",
    "add.u32 %r1, %r1, 1;",
    "setp.lt.u32 %p2, %r1, 6;",
    "@%p2 bra $head;",
];

/// Location lists go by address: at `$more` the list names `%i0`, which only the other path assigns. The debugger finds the value of `s`
/// nevertheless, which is in `%r3`.
#[test]
fn location_lists_follow_the_control_flow() {
    let mut lines: Vec<String> = CONTINUE.map(String::from).to_vec();
    lines.extend(["$end:".into(), "st.global.u32 [%out], %r2;".into(), "ret;".into()]);
    let text = kernel(&lines);
    let start = text.find(".section").unwrap();
    let location = |name: &str| {
        let number = name.bytes().fold(0_u32, |number, byte| number << 8 | u32::from(byte));
        let bytes = [number & 0x7f | 0x80, number >> 7 & 0x7f | 0x80, number >> 14 & 0x7f | 0x80, number >> 21];
        format!(".b8 5,0,144,{},{},{},{}", bytes[0], bytes[1], bytes[2], bytes[3])
    };
    let mut list = ".section .debug_loc\n{\n".to_owned();
    for (from, to, name) in [("$t1", "$t2", "%r2"), ("$t2", "$t3", "%r3"), ("$t3", "$t4", "%i0"), ("$t4", "$end", "%i1")] {
        list += &format!(".b64 {from}\n.b64 {to}\n{}\n", location(name));
    }
    list += ".b64 0\n.b64 0\n}\n";
    let visits = debugged(&(text[..start].to_owned() + &list), "sm_90a", None).visits;
    let variable = |name: &str| variables().iter().take_while(|variable| variable.0 != name).map(|variable| variable.1).sum::<usize>();
    let line_of = |text: &str| (FIRST_LINE + lines.iter().position(|line| line == text).unwrap()) as u32;
    let read = |line: u32, name: &str| -> Vec<Option<u32>> {
        visits.iter().filter(|visit| visit.0 == line).map(|visit| visit.1[variable(name)]).collect()
    };
    assert_eq!(read(line_of("and.b32 %r4, %r1, 1;"), "%r3"), [100, 107, 107, 114, 114, 121].map(Some));
    assert_eq!(read(line_of("bra.uni $next;"), "%i0"), [107, 114, 121].map(Some));
    assert_eq!(read(line_of("add.u32 %i1, %r3, 7;"), "%i0"), [100, 107, 114].map(Some));
    assert_eq!(read(line_of("mov.u32 %i0, %i1;"), "%i1"), [107, 114, 121].map(Some));
}
