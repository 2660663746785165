//! Generates tests of matrix products of a warpgroup (`wgmma`).
//!
//! A kernel of 128 threads copies random words to shared memory and multiplies the matrices that descriptors find there. Each thread stores
//! a hash of its accumulator registers. The expected results come from `oriole_sem::warpgroup`, whose layouts and arithmetic an H200
//! confirms when the tests run there.

mod forms;

use oriole_kernel_test::{Fill, Source};
use oriole_sem::format::{BF16, F16, Format, TF32};
use oriole_sem::int::Int;
use oriole_sem::sparse::SparseLayout;
use oriole_sem::warpgroup::{Arithmetic, Descriptor, Major, ROWS_PER_WARP, rows_from_registers};

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::B32;

const FAMILY: &str = "warpgroup";
const THREADS: usize = 128;
const LANES: usize = 32;
const ROWS: usize = 64;
/// Bytes that the copy loop moves in one iteration.
const COPIED_BYTES: usize = 16 * THREADS;
/// Shared memory of a kernel starts at this address, after the part that the system reserves.
const SHARED_START: u32 = 0x400;

/// The types of A, B and the accumulator, and the bits of random words that are kept and set so that floats are finite.
#[derive(Clone, Copy)]
struct Types {
    name: &'static str,
    arithmetic: Kind,
    depth: usize,
    mask: u32,
    base: u32,
}

#[derive(Clone, Copy)]
enum Kind {
    Float { formats: [Format; 2], bits: usize, unused: u32, is_single: bool },
    Integer { types: [Int; 2], clamps: bool },
    Bits,
}

const fn floats(name: &'static str, formats: [Format; 2], bits: usize, unused: u32, is_single: bool, mask: u32, base: u32) -> Types {
    Types { name, arithmetic: Kind::Float { formats, bits, unused, is_single }, depth: 256 / bits, mask, base }
}

const fn integers(name: &'static str, signs: [bool; 2], clamps: bool) -> Types {
    let types = [Int { bits: 8, signed: signs[0] }, Int { bits: 8, signed: signs[1] }];
    Types { name, arithmetic: Kind::Integer { types, clamps }, depth: 32, mask: !0, base: 0 }
}

const HALF: Types = floats("f32.f16.f16", [F16; 2], 16, 0, true, 0xbfff_bfff, 0);
const HALF_TO_HALF: Types = floats("f16.f16.f16", [F16; 2], 16, 0, false, 0xbfff_bfff, 0);
const BFLOAT: Types = floats("f32.bf16.bf16", [BF16; 2], 16, 0, true, 0x83ff_83ff, 0x3c00_3c00);
const TENSOR_FLOAT: Types = floats("f32.tf32.tf32", [TF32; 2], 32, 13, true, 0x81ff_ffff, 0x3e00_0000);
/// Random words include infinities and NaNs.
const SPECIAL: Types = Types { mask: !0, ..HALF };
const BITS: Types = Types { name: "s32.b1.b1", arithmetic: Kind::Bits, depth: 256, mask: !0, base: 0 };

const fn eight_bit(name: &'static str, formats: [Format; 2], is_single: bool) -> Types {
    floats(name, formats, 8, 0, is_single, 0xbfbf_bfbf, 0)
}

/// The layout of a matrix in shared memory.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Layout {
    /// Bytes of a swizzled row; 16 without swizzle.
    row_bytes: usize,
    major: Major,
}

const PLAIN: Layout = Layout { row_bytes: 16, major: Major::K };

impl Layout {
    /// Returns the leading and the stride byte offset of a matrix of `rows` rows (columns of B) without gaps. `parts` is the number of
    /// parts of 32 bytes along the depth: 2 for B if A is sparse, otherwise 1.
    fn offsets(self, rows: usize, parts: usize) -> (usize, usize) {
        match (self.major, self.row_bytes) {
            (Major::K, 16) => (128, 256 * parts),
            (Major::K, row) => (16, 8 * row),
            (Major::Mn, 16) => (128 * rows / 8, 128),
            (Major::Mn, row) => (16 * row * parts, 8 * row),
        }
    }

    /// Returns the bits of a descriptor without the start address.
    fn descriptor(self, rows: usize, parts: usize) -> u64 {
        let (leading, stride) = self.offsets(rows, parts);
        let swizzle: u64 = match self.row_bytes {
            128 => 1,
            64 => 2,
            32 => 3,
            _ => 0,
        };
        (leading as u64 >> 4) << 16 | (stride as u64 >> 4) << 32 | swizzle << 62
    }

    /// Returns the number of bytes of a matrix, rounded up to the alignment of a swizzle pattern.
    fn bytes(self, rows: usize, parts: usize) -> usize {
        let bytes = match self.major {
            Major::K => rows / 8 * (8 * self.row_bytes).max(256 * parts),
            Major::Mn => (2 * rows).div_ceil(self.row_bytes) * 16 * self.row_bytes * parts,
        };
        bytes.next_multiple_of(1024)
    }

    fn name(self) -> String {
        let major = if self.major == Major::K { "k" } else { "mn" };
        if self.row_bytes == 16 { major.to_owned() } else { format!("{major}{}", self.row_bytes) }
    }
}

/// How the accumulator enters the first product.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    Added,
    /// `scale-d` is the constant 0.
    Ignored,
    /// `scale-d` is a predicate.
    Predicate(bool),
}

/// The sequence of products.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sequence {
    One,
    /// Two products of one group; the second reads the next 32 bytes of each row.
    Chained,
    /// A loop of three groups, of which one may be pending.
    Loop,
    /// A loop that adds one to the accumulators after each product.
    Scaled,
    /// A loop of three products whose `scale-d` does not hold in the first iteration.
    Reset,
    /// Two accumulators with a group each; both are in flight at once.
    TwoGroups,
    /// A loop of three groups with a product for each of two accumulators; one group may be pending.
    TwoInLoop,
    /// A loop like that of `TwoInLoop`, whose `scale-d` does not hold in the first iteration, and which adds one to the accumulators in the
    /// second one.
    TwoInBranch,
}

impl Sequence {
    /// Returns the number of accumulators.
    fn accumulators(self) -> usize {
        if matches!(self, Sequence::TwoGroups | Sequence::TwoInLoop | Sequence::TwoInBranch) { 2 } else { 1 }
    }
}

#[derive(Clone, Copy)]
struct Form {
    types: Types,
    columns: usize,
    /// `None` if A is in registers.
    a: Option<Layout>,
    b: Layout,
    negated: [bool; 2],
    start: Start,
    sequence: Sequence,
    /// For a sparse matrix A: selects the threads that contribute metadata.
    selector: Option<usize>,
}

const fn form(types: Types, columns: usize, a: Option<Layout>, b: Layout) -> Form {
    Form { types, columns, a, b, negated: [false; 2], start: Start::Added, sequence: Sequence::One, selector: None }
}

impl Form {
    fn arithmetic(self) -> Arithmetic {
        match self.types.arithmetic {
            Kind::Float { formats, bits, unused, is_single } => {
                Arithmetic::floats(formats, bits, unused, is_single, self.negated[0] != self.negated[1])
            }
            Kind::Integer { types, clamps } => Arithmetic::Integer { types, clamps },
            Kind::Bits => Arithmetic::Bits,
        }
    }

    fn registers(self) -> usize {
        self.columns * self.arithmetic().result_bits() / 64
    }

    fn a_bytes(self) -> usize {
        self.a.map_or(0, |layout| layout.bytes(ROWS, 1))
    }

    /// Returns the number of parts of 32 bytes that a column of B consists of.
    fn b_parts(self) -> usize {
        if self.selector.is_some() { 2 } else { 1 }
    }

    /// Returns the depth of the product: half of a sparse row is stored.
    fn depth(self) -> usize {
        self.types.depth * self.b_parts()
    }

    /// Returns the form of a sparse matrix A.
    fn sparse_layout(self) -> Option<SparseLayout> {
        let element_bits = self.arithmetic().element_bits() as u32;
        self.selector.map(|selector| SparseLayout { element_bits, depth: self.depth(), selector })
    }

    fn shared_bytes(self) -> usize {
        // The second product of a chain reads 32 bytes further.
        (self.a_bytes() + self.b.bytes(self.columns, self.b_parts()) + 32).next_multiple_of(COPIED_BYTES)
    }

    fn name(self) -> String {
        let a = self.a.map_or("registers".to_owned(), Layout::name);
        let types = self.types.name.replace('.', "_");
        let sparse = self.selector.map_or(String::new(), |selector| format!("sp{selector}_"));
        let mut name = format!("wgmma_{sparse}n{}_{types}_{a}_{}", self.columns, self.b.name());
        if matches!(self.types.arithmetic, Kind::Integer { clamps: true, .. }) {
            name.push_str("_satfinite");
        }
        if self.types.mask == !0 && matches!(self.types.arithmetic, Kind::Float { .. }) {
            name.push_str("_special");
        }
        for (negated, matrix) in self.negated.into_iter().zip(["_nega", "_negb"]) {
            name.push_str(if negated { matrix } else { "" });
        }
        name.push_str(match self.start {
            Start::Added => "",
            Start::Ignored => "_zero",
            Start::Predicate(true) => "_true",
            Start::Predicate(false) => "_false",
        });
        name.push_str(match self.sequence {
            Sequence::One => "",
            Sequence::Chained => "_chained",
            Sequence::Loop => "_loop",
            Sequence::Scaled => "_scaled",
            Sequence::Reset => "_reset",
            Sequence::TwoGroups => "_groups",
            Sequence::TwoInLoop => "_two_in_loop",
            Sequence::TwoInBranch => "_two_in_branch",
        });
        name
    }

    /// Returns a product: accumulator registers `%c..`, descriptors `%rd2` (A) and `%rd3` (B).
    fn product(self, first: usize, scale: &str) -> String {
        let Form { types, columns, .. } = self;
        let braces = |stem: &str, first: usize, count: usize| {
            let names: Vec<String> = (first..first + count).map(|number| format!("%{stem}{number}")).collect();
            format!("{{{}}}", names.join(", "))
        };
        let a = if self.a.is_some() { "%rd2".to_owned() } else { braces("a", 0, 4) };
        let mut tail = String::new();
        let mut name = types.name.to_owned();
        match types.arithmetic {
            Kind::Float { bits, .. } => {
                for negated in self.negated {
                    tail.push_str(if negated { ", -1" } else { ", 1" });
                }
                let transposed = |layout: Layout| if layout.major == Major::Mn { ", 1" } else { ", 0" };
                if bits == 16 {
                    tail.push_str(self.a.map_or("", transposed));
                    tail.push_str(transposed(self.b));
                }
            }
            Kind::Integer { clamps, .. } => name.push_str(if clamps { ".satfinite" } else { "" }),
            Kind::Bits => name.push_str(".and.popc"),
        }
        let accumulator = braces("c", first, self.registers());
        let (sparse, metadata) = match self.selector {
            Some(selector) => (".sp", format!("%r30, {selector}, ")),
            None => ("", String::new()),
        };
        let depth = self.depth();
        format!("wgmma.mma_async{sparse}.sync.aligned.m64n{columns}k{depth}.{name} {accumulator}, {a}, %rd3, {metadata}{scale}{tail};")
    }

    fn code(self) -> String {
        const FENCE: &str = "wgmma.fence.sync.aligned;\n";
        const COMMIT: &str = "wgmma.commit_group.sync.aligned;\n";
        let wait = |left: usize| format!("wgmma.wait_group.sync.aligned {left};\n");
        let advance = "add.u64 %rd2, %rd2, 2;\nadd.u64 %rd3, %rd3, 2;\n";
        let scale = match self.start {
            Start::Added => "1",
            Start::Ignored => "0",
            Start::Predicate(_) => "%p1",
        };
        let again = "add.u32 %r10, %r10, 1;\nsetp.lt.u32 %p2, %r10, 3;\n@%p2 bra AGAIN;\n";
        let head = "mov.u32 %r10, 0;\nAGAIN:\n";
        match self.sequence {
            Sequence::One => format!("{FENCE}{}\n{COMMIT}{}", self.product(0, scale), wait(0)),
            Sequence::Chained => {
                format!("{FENCE}{}\n{advance}{}\n{COMMIT}{}", self.product(0, scale), self.product(0, "1"), wait(0))
            }
            Sequence::Loop => {
                format!("{head}{FENCE}{}\n{COMMIT}{advance}{}{again}{}", self.product(0, scale), wait(1), wait(0))
            }
            Sequence::Scaled => {
                let plus: String = (0..self.registers()).map(|number| format!("add.u32 %c{number}, %c{number}, 1;\n")).collect();
                format!("{head}{FENCE}{}\n{COMMIT}{advance}{}{plus}{again}", self.product(0, scale), wait(0))
            }
            Sequence::Reset => {
                let product = self.product(0, "%p3");
                format!("{head}setp.ne.u32 %p3, %r10, 0;\n{FENCE}{product}\n{COMMIT}{advance}{}{again}", wait(0))
            }
            Sequence::TwoInLoop => {
                let (one, two) = (self.product(0, scale), self.product(self.registers(), scale));
                format!("{head}{FENCE}{one}\n{two}\n{COMMIT}{advance}{}{again}{}{}", wait(1), wait(0), self.hash(0, 5))
            }
            Sequence::TwoInBranch => {
                let (one, two) = (self.product(0, "%p3"), self.product(self.registers(), "%p3"));
                let plus: String = (0..2 * self.registers()).map(|number| format!("add.u32 %c{number}, %c{number}, 1;\n")).collect();
                let branch = "setp.ne.u32 %p3, %r10, 1;\n@%p3 bra OTHER;\n";
                let start = "setp.ne.u32 %p3, %r10, 0;\n";
                let products = format!("{head}{start}{FENCE}{one}\n{two}\n{COMMIT}{advance}");
                format!("{products}{branch}{}{plus}OTHER:\n{again}{}{}", wait(0), wait(0), self.hash(0, 5))
            }
            Sequence::TwoGroups => {
                let (one, two) = (self.product(0, scale), self.product(self.registers(), scale));
                format!("{FENCE}{one}\n{COMMIT}{advance}{two}\n{COMMIT}{}{}{}", wait(1), self.hash(0, 5), wait(0))
            }
        }
    }

    /// Returns code that hashes the accumulator registers from `first` on into a register.
    fn hash(self, first: usize, into: usize) -> String {
        let mut code = format!("mov.u32 %r{into}, 0;\n");
        for number in first..first + self.registers() {
            code.push_str(&format!("mad.lo.u32 %r{into}, %r{into}, 31, %c{number};\n"));
        }
        code
    }
}

fn hash_of(registers: &[u32]) -> u64 {
    u64::from(registers.iter().fold(0u32, |hash, &register| hash.wrapping_mul(31).wrapping_add(register)))
}

/// The inputs of a kernel: shared memory, the registers of A, the accumulators.
struct Inputs {
    shared: Vec<u8>,
    a: Vec<u32>,
    c: Vec<u32>,
    /// The metadata of a sparse matrix A, for each thread.
    metadata: Vec<u32>,
}

fn random(seed: u32, count: usize) -> (Fill, Vec<u32>) {
    let fill = Fill::all(Source::Random { seed });
    let values = fill.values(B32.element, count).into_iter().map(|value| value as u32).collect();
    (fill, values)
}

/// Returns the accumulator registers of a thread after one product. The matrices start `advance` bytes after their usual start.
fn multiplied(form: Form, inputs: &Inputs, thread: usize, advance: usize, old: &[u32]) -> Vec<u32> {
    let (warp, lane) = (thread / LANES, thread % LANES);
    let arithmetic = form.arithmetic();
    let (depth, size) = (form.types.depth, arithmetic.element_bits());
    let read = |layout: Layout, rows: usize, parts: usize, start: usize, first: usize, count: usize| {
        let address = SHARED_START as usize + start + advance;
        let descriptor = Descriptor::decode(layout.descriptor(rows, parts) | address as u64 >> 4);
        let chunk = |address: u32| {
            let at = (address - SHARED_START) as usize;
            Ok::<[u8; 16], ()>(std::array::from_fn(|byte| inputs.shared[at + byte]))
        };
        descriptor.vectors(layout.major, first, count, depth * parts, size, chunk).unwrap_or_default()
    };
    let rows = match form.a {
        Some(layout) => read(layout, ROWS, 1, 0, warp * ROWS_PER_WARP, ROWS_PER_WARP),
        None => {
            let registers = std::array::from_fn(|number| std::array::from_fn(|lane| inputs.a[4 * (warp * LANES + lane) + number]));
            rows_from_registers(&registers, size)
        }
    };
    let columns = read(form.b, form.columns, form.b_parts(), form.a_bytes(), 0, form.columns);
    let positions = form.sparse_layout().map(|layout| layout.positions(|lane| inputs.metadata[warp * LANES + lane]));
    arithmetic.thread_results(lane, &rows, positions.as_ref(), &columns, old)
}

/// Returns the words that a thread stores.
fn stored(form: Form, inputs: &Inputs, thread: usize) -> Vec<u64> {
    let count = form.registers();
    let sets = form.sequence.accumulators();
    let initial = |set: usize| -> Vec<u32> {
        let keeps = matches!(form.start, Start::Added | Start::Predicate(true));
        (0..count).map(|number| if keeps { inputs.c[thread * count * sets + set * count + number] } else { 0 }).collect()
    };
    let steps: &[usize] = match form.sequence {
        Sequence::One | Sequence::TwoGroups => &[0],
        Sequence::Chained => &[0, 32],
        Sequence::Loop | Sequence::Scaled | Sequence::Reset | Sequence::TwoInLoop | Sequence::TwoInBranch => &[0, 32, 64],
    };
    let is_reset = matches!(form.sequence, Sequence::Reset | Sequence::TwoInBranch);
    let after_steps = |set: usize| {
        let mut registers = if is_reset { vec![0; count] } else { initial(set) };
        for (number, &advance) in steps.iter().enumerate() {
            registers = multiplied(form, inputs, thread, advance, &registers);
            if form.sequence == Sequence::Scaled || form.sequence == Sequence::TwoInBranch && number == 1 {
                registers.iter_mut().for_each(|register| *register = register.wrapping_add(1));
            }
        }
        hash_of(&registers)
    };
    match form.sequence {
        Sequence::TwoGroups => vec![after_steps(0), hash_of(&multiplied(form, inputs, thread, 32, &initial(1)))],
        _ => (0..sets).map(after_steps).collect(),
    }
}

/// Returns code that loads `count` registers `%stem..` of the thread from a buffer and restricts them.
fn load(stem: &str, count: usize, buffer: &str, mask: u32, base: u32) -> String {
    let mut code = format!("mad.wide.u32 %at, %i, {}, %{buffer};\n", 4 * count);
    for number in 0..count {
        code.push_str(&format!("ld.global.b32 %{stem}{number}, [%at+{}];\n", 4 * number));
        if mask != !0 {
            code.push_str(&format!("and.b32 %{stem}{number}, %{stem}{number}, {mask:#x};\n"));
        }
        if base != 0 {
            code.push_str(&format!("or.b32 %{stem}{number}, %{stem}{number}, {base:#x};\n"));
        }
    }
    code
}

/// Returns the metadata of a thread: for each group the ascending indices of two elements, or of the halves of a tf32 element.
fn metadata(form: Form, thread: usize) -> u32 {
    const PAIRS: [u32; 6] = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110];
    let group = |number: usize| {
        let choice = 5 * thread + 3 * number + thread / 7;
        let indices = if form.arithmetic().element_bits() == 32 { PAIRS[5 * (choice % 2)] } else { PAIRS[choice % 6] };
        indices << (4 * number)
    };
    (0..8).map(group).fold(0, |word, group| word | group)
}

fn test(form: Form) -> Generated {
    let Types { mask, base, .. } = form.types;
    let sets = form.sequence.accumulators();
    let (registers, bytes) = (form.registers() * sets, form.shared_bytes());
    let (c_mask, c_base) = match form.types.arithmetic {
        Kind::Float { is_single: true, .. } if mask != !0 => (0x81ff_ffff, 0x3e00_0000),
        Kind::Float { is_single: false, .. } => (0xbfff_bfff, 0),
        _ => (!0, 0),
    };
    let restricted = |words: Vec<u32>, mask: u32, base: u32| -> Vec<u32> { words.into_iter().map(|word| word & mask | base).collect() };
    let (m_fill, m) = random(41, bytes / 4);
    let (a_fill, a) = random(42, 4 * THREADS);
    let (c_fill, c) = random(43, registers * THREADS);
    let inputs = Inputs {
        shared: restricted(m, mask, base).iter().flat_map(|word| word.to_le_bytes()).collect(),
        a: restricted(a, mask, base),
        c: restricted(c, c_mask, c_base),
        metadata: (0..THREADS).map(|thread| metadata(form, thread)).collect(),
    };
    let expected: Vec<u64> = (0..THREADS).flat_map(|thread| stored(form, &inputs, thread)).collect();
    let descriptor = |register: &str, start: usize, bits: u64| {
        format!(
            "add.u32 %r6, %r1, {start};
             and.b32 %r6, %r6, 0x3ffff;
             shr.u32 %r6, %r6, 4;
             cvt.u64.u32 {register}, %r6;
             or.b64 {register}, {register}, {bits:#x};"
        )
    };
    let restrict: String =
        (20..24).map(|number| format!("and.b32 %r{number}, %r{number}, {mask:#x};\nor.b32 %r{number}, %r{number}, {base:#x};\n")).collect();
    let copy = format!(
        "mov.u32 %r1, area;
         mad.wide.u32 %rd1, %i, 16, %m;
         mad.lo.u32 %r2, %i, 16, %r1;
         mov.u32 %r3, 0;
         COPY:
         ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%rd1];
         {restrict}
         st.shared.v4.b32 [%r2], {{%r20, %r21, %r22, %r23}};
         add.u64 %rd1, %rd1, {COPIED_BYTES};
         add.u32 %r2, %r2, {COPIED_BYTES};
         add.u32 %r3, %r3, {COPIED_BYTES};
         setp.lt.u32 %p2, %r3, {bytes};
         @%p2 bra COPY;
         fence.proxy.async.shared::cta;
         bar.sync 0;"
    );
    let mut kernel = Kernel::new(FAMILY, form.name(), form.product(0, "1").split(' ').next().unwrap_or_default().to_owned())
        .platform("8.4", "sm_90a")
        .threads(THREADS)
        .module(&format!(".shared .align 1024 .b8 area[{bytes}];"))
        .registers(&format!(".reg .b32 %c<{registers}>;\n.reg .b32 %a<4>;\n"))
        .buffer("m", B32, bytes / 4, m_fill)
        .buffer("a", B32, 4 * THREADS, a_fill)
        .buffer("c", B32, registers * THREADS, c_fill)
        .scalar("holds", B32, u64::from(form.start == Start::Predicate(true)))
        .output("d", B32, bits(expected))
        .body(&copy)
        .body(&load("c", registers, "c", c_mask, c_base))
        .body(&descriptor("%rd3", form.a_bytes(), form.b.descriptor(form.columns, form.b_parts())))
        .body("setp.ne.u32 %p1, %holds, 0;");
    kernel = match form.a {
        Some(layout) => kernel.body(&descriptor("%rd2", 0, layout.descriptor(ROWS, 1))),
        None => kernel.body(&load("a", 4, "a", mask, base)).body("mov.u64 %rd2, 0;"),
    };
    if form.selector.is_some() {
        let words: Vec<(Source, usize)> = inputs.metadata.iter().map(|&word| (Source::Value(u64::from(word)), 1)).collect();
        kernel = kernel.buffer("e", B32, THREADS, Fill::of(&words)).body("mad.wide.u32 %at, %i, 4, %e;\nld.global.b32 %r30, [%at];");
    }
    kernel = kernel.body(&form.code());
    let hash = if sets == 2 { form.hash(form.registers(), 7) } else { form.hash(0, 5) };
    kernel = kernel.body(&hash).body(&format!("mad.wide.u32 %at, %i, {}, %d;\nst.global.b32 [%at], %r5;", 4 * sets));
    if sets == 2 {
        kernel = kernel.body("st.global.b32 [%at+4], %r7;");
    }
    kernel.finish()
}

pub fn tests() -> Vec<Generated> {
    let mut tests: Vec<Generated> = forms::all().map(test).collect();
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    tests.dedup_by(|a, b| a.name == b.name);
    tests
}
