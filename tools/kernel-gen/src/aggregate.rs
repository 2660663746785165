//! Generates tests of atomic operations in which all threads of a warp access one address, so that a compiler may let one thread act for
//! all: with equal and different operands, under guards, in branches and loops, and with a last warp that is not full.

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::{B32, S32, Ty, U32, U64};
use oriole_kernel_test::{Fill, Source, Tolerance};
use oriole_sem::Int;

const FAMILY: &str = "atomics";

/// Two warps and a half.
const THREADS: u64 = 80;

/// Number of iterations of the loop around the operation.
const ROUNDS: u64 = 2;

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    type Fold = fn(u64, u64) -> u64;
    let rows: [(&'static str, Ty, u64, Fold); 9] = [
        ("add", U32, 7, |a, b| (a + b) & 0xffff_ffff),
        ("add", U64, 7, u64::wrapping_add),
        ("and", B32, 0xffff_f0ff, |a, b| a & b),
        ("or", B32, 1, |a, b| a | b),
        ("xor", B32, 0xff, |a, b| a ^ b),
        ("min", S32, 0x7fff_ffff, |a, b| Int { bits: 32, signed: true }.min(a, b)),
        ("max", S32, 0x8000_0000, |a, b| Int { bits: 32, signed: true }.max(a, b)),
        ("min", U32, 0xffff_ffff, u64::min),
        ("max", U32, 0, u64::max),
    ];
    for (name, ty, start, fold) in rows {
        for flow in [Flow::Guard, Flow::Branch] {
            tests.push(reduction(name, ty, start, fold, "global", flow, Addend::Each));
        }
        tests.push(reduction(name, ty, start, fold, "global", Flow::Guard, Addend::Same));
        tests.push(reduction(name, ty, start, fold, "shared", Flow::Guard, Addend::Each));
    }
    tests.push(reduction("add", U32, 7, |a, b| (a + b) & 0xffff_ffff, "generic", Flow::All, Addend::Same));
    tests.push(reduction("max", S32, 0x8000_0000, |a, b| Int { bits: 32, signed: true }.max(a, b), "global", Flow::All, Addend::Each));
    tests.push(reduction("add", U32, 0, |a, b| a + b, "shared", Flow::Branch, Addend::One));
    tests.push(reduction("add", U32, 0, |a, b| a + b, "global", Flow::Guard, Addend::One));
    for flow in Flow::ALL {
        for (space, ty, operand) in [
            ("global", U32, Addend::One),
            ("global", U32, Addend::Same),
            ("global", U32, Addend::Each),
            ("global", U64, Addend::Same),
            ("shared", U32, Addend::One),
            ("shared", U32, Addend::Each),
            ("generic", U32, Addend::Same),
        ] {
            tests.push(intervals(space, ty, flow, operand));
        }
    }
    tests
}

/// The threads that perform the operation.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flow {
    All,
    /// Three of four threads, by a guard.
    Guard,
    /// Three of four threads, by a branch around a loop.
    Branch,
}

impl Flow {
    const ALL: [Flow; 3] = [Flow::All, Flow::Guard, Flow::Branch];

    fn name(self) -> &'static str {
        match self {
            Flow::All => "all",
            Flow::Guard => "guard",
            Flow::Branch => "branch",
        }
    }

    fn includes(self, thread: u64) -> bool {
        self == Flow::All || thread % 4 < 3
    }

    fn rounds(self) -> u64 {
        if self == Flow::Branch { ROUNDS } else { 1 }
    }

    /// Returns code that executes `operation` in the threads of this kind; `then` follows each time.
    fn around(self, operation: &str, then: &str) -> String {
        let test = "and.b32 %r8, %i, 3;\nsetp.lt.u32 %p1, %r8, 3;";
        match self {
            Flow::All => format!("{operation}\n{then}"),
            Flow::Guard => format!("{test}\n@%p1 {operation}\n@!%p1 bra SKIP;\n{then}\nSKIP:"),
            Flow::Branch => format!(
                "{test}\n@!%p1 bra SKIP;\nmov.u32 %r7, 0;\nAGAIN:\n{operation}\n{then}\nadd.u32 %r7, %r7, 1;\n\
                 setp.lt.u32 %p2, %r7, %rounds;\n@%p2 bra AGAIN;\nSKIP:"
            ),
        }
    }
}

/// The operands of the threads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Addend {
    One,
    Same,
    Each,
}

impl Addend {
    fn name(self) -> &'static str {
        match self {
            Addend::One => "one",
            Addend::Same => "same",
            Addend::Each => "each",
        }
    }
}

/// The variable in shared memory, and code around the operation: `%place` is its address.
fn place(space: &str, ty: Ty, start: u64) -> (String, String) {
    let bytes = ty.bytes();
    match space {
        "shared" => {
            let word = if bytes == 8 { "u64" } else { "u32" };
            let register = if bytes == 8 { "%rd9" } else { "%r9" };
            (
                format!(
                    "mov.u32 %place, counter;\nmov.{word} {register}, {start:#x};\nsetp.eq.u32 %p3, %i, 0;\n\
                     @%p3 st.shared.{word} [%place], {register};\nbar.sync 0;"
                ),
                format!("bar.sync 0;\n@!%p3 bra DONE;\nld.shared.{word} {register}, [%place];\nst.global.{word} [%d], {register};\nDONE:"),
            )
        }
        "generic" => ("cvta.global.u64 %place, %d;".to_owned(), String::new()),
        _ => ("mov.u64 %place, %d;".to_owned(), String::new()),
    }
}

/// Starts a kernel with the buffer `d` of one number.
fn kernel(name: String, about: &str, space: &str, ty: Ty, start: u64, end: u64) -> Kernel {
    let address = if space == "shared" { "u32" } else { "u64" };
    let mut kernel = Kernel::new(FAMILY, name, about)
        .shape([1, 1, 1], [THREADS as u32, 1, 1])
        .registers(&format!(".reg .{address} %place;"))
        .buffer("d", ty, 1, Fill::all(Source::Value(start)))
        .expect("d", Tolerance::Exact, bits([end]))
        .scalar("rounds", U32, ROUNDS);
    if space == "shared" {
        kernel = kernel.module(".shared .align 8 .b8 counter[8];");
    }
    kernel
}

/// Returns the start of an instruction on a space.
fn mnemonic(instruction: &str, space: &str, operation: &str, ty: Ty) -> String {
    let space = if space == "generic" { String::new() } else { format!(".{space}") };
    format!("{instruction}{space}.{operation}.{}", ty.name)
}

/// Generates a test of `red`.
fn reduction(
    operation: &'static str,
    ty: Ty,
    start: u64,
    fold: fn(u64, u64) -> u64,
    space: &str,
    flow: Flow,
    operand: Addend,
) -> Generated {
    let wide = ty.bits() == 64;
    let same = if wide { 0x1_2345_6789 } else { 0x8123_4567 };
    let value = |thread: u64| match operand {
        Addend::One => 1,
        Addend::Same => same,
        Addend::Each => (thread * 0x9e35_9e35) & 0xffff_ffff ^ 0x155,
    };
    let threads = (0..THREADS).filter(|&thread| flow.includes(thread));
    let end = (0..flow.rounds()).flat_map(|_| threads.clone()).map(value).fold(start, fold);
    let source = match (operand, wide) {
        (Addend::One, _) => "1",
        (Addend::Same, _) => "%same",
        (Addend::Each, true) => "%rd1",
        (Addend::Each, false) => "%r1",
    };
    let name = format!("uniform_red_{operation}_{}_{space}_{}_{}", ty.name, operand.name(), flow.name());
    let (before, after) = place(space, ty, start);
    let instruction = format!("{} [%place], {source};", mnemonic("red", space, operation, ty));
    kernel(name, "all threads access one address", space, ty, start, end)
        .scalar("same", if wide { U64 } else { U32 }, same)
        .body("mul.lo.u32 %r1, %i, 0x9e359e35;\nxor.b32 %r1, %r1, 0x155;\ncvt.u64.u32 %rd1, %r1;")
        .body(&before)
        .body(&flow.around(&instruction, ""))
        .body(&after)
        .finish()
}

/// Generates a test of `atom.add` that reads the old value: each thread reserves an interval of cells and counts in each of its cells. In
/// the end each cell was counted once. A thread that does not take part keeps its register.
fn intervals(space: &str, ty: Ty, flow: Flow, operand: Addend) -> Generated {
    let wide = ty.bits() == 64;
    let size = |thread: u64| match operand {
        Addend::One => 1,
        Addend::Same => 3,
        Addend::Each => thread % 5 + 1,
    };
    let total = flow.rounds() * (0..THREADS).filter(|&thread| flow.includes(thread)).map(size).sum::<u64>();
    let name = format!("uniform_atom_add_{}_{space}_{}_{}", ty.name, operand.name(), flow.name());
    let (before, after) = place(space, ty, 0);
    let (source, old) = match (operand, wide) {
        (Addend::One, _) => ("1", "%r2"),
        (Addend::Same, false) => ("%same", "%r2"),
        (Addend::Same, true) => ("%same", "%rd2"),
        (Addend::Each, _) => ("%r1", "%r2"),
    };
    let instruction = format!("{} {old}, [%place], {source};", mnemonic("atom", space, "add", ty));
    let narrow = if wide { "cvt.u32.u64 %r2, %rd2;" } else { "" };
    let count = format!(
        "{narrow}\nmov.u32 %r3, 0;\nCELL:\nadd.u32 %r4, %r2, %r3;\nmad.wide.u32 %at, %r4, 4, %cells;\nred.global.add.u32 [%at], 1;\n\
         add.u32 %r3, %r3, 1;\nsetp.lt.u32 %p4, %r3, %r1;\n@%p4 bra CELL;"
    );
    let sizes = match operand {
        Addend::One => "mov.u32 %r1, 1;".to_owned(),
        Addend::Same => "mov.u32 %r1, 3;".to_owned(),
        Addend::Each => "rem.u32 %r1, %i, 5;\nadd.u32 %r1, %r1, 1;".to_owned(),
    };
    kernel(name, "all threads add to one address and read the old value", space, ty, 0, total)
        .scalar("same", ty, 3)
        .buffer("cells", U32, total as usize, Fill::all(Source::Value(0)))
        .expect("cells", Tolerance::Exact, bits((0..total).map(|_| 1)))
        .output("kept", U32, bits((0..THREADS).map(|thread| u64::from(!flow.includes(thread)))))
        .body(&sizes)
        .body("mov.u32 %r2, 0xffffffff;\nmov.u64 %rd2, 0xffffffff;")
        .body(&before)
        .body(&flow.around(&instruction, &count))
        .body(if wide { "cvt.u32.u64 %r2, %rd2;" } else { "" })
        .body("setp.eq.u32 %p5, %r2, 0xffffffff;\nselp.u32 %r6, 1, 0, %p5;\nmad.wide.u32 %at, %i, 4, %kept;\nst.global.u32 [%at], %r6;")
        .body(&after)
        .finish()
}
