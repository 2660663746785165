//! The generator's own form of a program: functions made of a tree of statements.
//!
//! Each function has a fixed pool of registers of every class ([`Class`]). All of them are initialized before the body, statements read and
//! write them at will, and what is observed in the end is the pool. So a program stays defined whatever statements are taken away,
//! which is what the reducer lives on. Registers that a construct needs for itself (loop counters, masks, fuel) are numbered
//! by the construct and belong to no class.

use oriole_kernel_test::{Element, Fill, KernelTest, Parameter, Source, Value};

/// What registers hold. Two classes of the same width are kept apart where bits must not flow freely: the payload of a NaN is
/// not defined everywhere, so bits of floats are only seen through canonicalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Class {
    B8,
    B16,
    B32,
    B64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    F32,
    F64,
    Pred,
    /// 32 bits that all threads of a block agree on.
    Uniform,
}

pub const CLASSES: [Class; 12] = [
    Class::B8,
    Class::B16,
    Class::B32,
    Class::B64,
    Class::F16,
    Class::F16x2,
    Class::Bf16,
    Class::Bf16x2,
    Class::F32,
    Class::F64,
    Class::Pred,
    Class::Uniform,
];

impl Class {
    /// The letter that stands for it in templates and register names.
    pub fn letter(self) -> char {
        b"bhrdxXyYfepu"[self as usize] as char
    }

    pub fn from_letter(letter: char) -> Option<Class> {
        CLASSES.into_iter().find(|class| class.letter() == letter)
    }

    /// The type its registers are declared with and parameters are passed as.
    pub fn register_type(self) -> &'static str {
        match self {
            Class::B8 => "b8",
            Class::B16 | Class::F16 | Class::Bf16 => "b16",
            Class::B32 | Class::F16x2 | Class::Bf16x2 | Class::Uniform => "b32",
            Class::B64 => "b64",
            Class::F32 => "f32",
            Class::F64 => "f64",
            Class::Pred => "pred",
        }
    }

    pub fn bytes(self) -> usize {
        match self {
            Class::B8 => 1,
            Class::B16 | Class::F16 | Class::Bf16 => 2,
            Class::B32 | Class::F16x2 | Class::Bf16x2 | Class::F32 | Class::Uniform => 4,
            Class::B64 | Class::F64 => 8,
            Class::Pred => 4,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(self, Class::F16 | Class::F16x2 | Class::Bf16 | Class::Bf16x2 | Class::F32 | Class::F64)
    }

    pub fn register(self, number: usize) -> String {
        format!("%{}{number}", self.letter())
    }
}

/// A piece of an instruction's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Text(String),
    Use {
        class: Class,
        name: String,
        /// A constant may stand here instead.
        constant: bool,
    },
    Def {
        class: Class,
        name: String,
    },
}

pub type Line = Vec<Token>;

/// Instructions that belong together, with registers of their own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Op {
    /// `@%p0` or `@!%p0`, on every line.
    pub guard: Option<String>,
    /// Declarations of registers and `.param` variables.
    pub declarations: Vec<String>,
    pub lines: Vec<Line>,
    /// The function that is called, if one is.
    pub callees: Vec<usize>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Instructions that compute it.
    pub setup: Vec<Line>,
    pub register: String,
    pub negated: bool,
}

/// How often a loop runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trips {
    Constant(u32),
    /// `register & mask`, which may differ between threads.
    Masked {
        register: String,
        mask: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopStyle {
    /// Counts up, tests at the end; runs at least once.
    DoUp,
    /// Counts down, tests at the top.
    WhileDown,
    /// Counts up in 64 bits with a stride, tests at the top.
    WideStride,
}

/// Where a block of an irregular region goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edge {
    /// To the next block.
    Fall,
    Goto(usize),
    /// To the block if the condition holds, else to the next.
    Branch(Condition, usize),
    /// By the low bits of a register; as many targets as a power of two.
    Indexed {
        register: String,
        targets: Vec<usize>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stmt {
    Op(Op),
    If {
        id: usize,
        condition: Condition,
        /// The threads that hold the condition are gathered into `%m{id}`, the others into `%w{id}`, among those in this mask.
        gather: Option<String>,
        then: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    Loop {
        id: usize,
        style: LoopStyle,
        trips: Trips,
        body: Vec<Stmt>,
    },
    /// Leaves the loop with this id.
    Break {
        id: usize,
        condition: Condition,
    },
    /// Goes to the next round of the loop with this id.
    Continue {
        id: usize,
        condition: Condition,
    },
    /// Blocks with jumps between them; at most `fuel` blocks are executed if there are jumps backwards.
    Irregular {
        id: usize,
        entry: Edge,
        blocks: Vec<(Vec<Stmt>, Edge)>,
        fuel: u32,
    },
    /// Ends the thread.
    Exit {
        condition: Condition,
        how: &'static str,
    },
}

/// A field of a structure passed by value.
pub type Field = (Class, usize);

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    Scalar(Class),
    Structure { fields: Vec<Field>, bytes: usize },
}

/// The array of a function in local memory: its size, and where in it the bytes are that the function uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub bytes: usize,
    pub window: usize,
}

impl Frame {
    pub const SMALL: Frame = Frame { bytes: PRIVATE_BYTES, window: 0 };
}

/// Which threads call a function at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// Any.
    Thread,
    /// Those of a mask of the warp, which is a parameter.
    Warp,
    /// All of the block.
    Block,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub parameters: Vec<Passed>,
    pub results: Vec<Passed>,
    /// How many registers of each class there are, in the order of [`CLASSES`].
    pub pool: [usize; 12],
    /// One for each register of the pool.
    pub inits: Vec<Op>,
    pub body: Vec<Stmt>,
    /// What is done at the end: observes registers, or sets results.
    pub finish: Vec<Op>,
    /// Numbers of constructs are below.
    pub ids: usize,
    /// A first parameter that counts down.
    pub recursive: bool,
    /// Parameters and results are registers, not memory.
    pub by_register: bool,
    pub together: Together,
    pub frame: Frame,
}

/// A global variable that nobody writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// `b8` to `b64`.
    pub kind: &'static str,
    pub value: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub seed: u64,
    pub version: &'static str,
    pub target: &'static str,
    /// Functions call those before them, and themselves.
    pub functions: Vec<Function>,
    pub kernel: Function,
    pub grid: [u32; 3],
    pub block: [u32; 3],
    /// Values of the scalar parameters.
    pub scalars: [u32; 2],
    /// The parameter passed by value.
    pub structure: Vec<u8>,
    pub constants: Vec<u32>,
    /// Words of the large constant array; without an initializer if all are zero.
    pub large_constant: Vec<u32>,
    pub globals: Vec<Global>,
    /// Global variables that no statement reads are there too.
    pub unused_globals: bool,
    /// How the input is filled.
    pub fill: Source,
    /// Slots of 8 bytes that each thread has in the output.
    pub slots: usize,
}

/// Elements of the input buffer, of 4 bytes.
pub const INPUT_WORDS: usize = 512;
/// Bytes of memory that each thread has for itself in each space.
pub const PRIVATE_BYTES: usize = 64;
/// Cells that all threads change, with operations in any order.
pub const SHARED_CELLS: usize = 16;
/// Cells after those, for additions of floats.
pub const FLOAT_CELLS: usize = 8;
/// The last global variables whose addresses are in a table.
pub const GLOBAL_POINTERS: usize = 8;
/// Words of the constant and of the global variable.
pub const CONSTANT_WORDS: usize = 64;

impl Program {
    pub fn block_threads(&self) -> u32 {
        self.block.iter().product()
    }

    pub fn threads(&self) -> u32 {
        self.block_threads() * self.grid.iter().product::<u32>()
    }

    /// The functions that are called, directly or by others, in order.
    pub fn called(&self) -> Vec<usize> {
        let mut called = Vec::new();
        let mut open = vec![&self.kernel];
        while let Some(function) = open.pop() {
            for number in callees(&function.body) {
                if !called.contains(&number) {
                    called.push(number);
                    open.push(&self.functions[number]);
                }
            }
        }
        called.sort_unstable();
        called
    }

    /// Dynamic shared memory of a launch, in bytes: none if no statement uses it.
    fn dynamic_shared_bytes(&self) -> u32 {
        let text = format!("{:?}{:?}", self.kernel.body, self.kernel.finish);
        let is_used = ["%dy", "%gdy", "%dynamic_smem_size"].iter().any(|name| text.contains(name));
        if is_used { self.block_threads() * PRIVATE_BYTES as u32 } else { 0 }
    }

    /// How to run it; nothing is expected yet.
    pub fn test(&self) -> KernelTest {
        let buffer = |name: &str, element, count, fill| Parameter { name: name.into(), value: Value::Buffer { element, count, fill } };
        let scalar =
            |name: &str, bits: u32| Parameter { name: name.into(), value: Value::Scalar { element: Element::U32, bits: u64::from(bits) } };
        let threads = self.threads() as usize;
        let cells = Fill::of(&[(Source::Random { seed: self.seed as u32 }, SHARED_CELLS), (Source::Value(0), FLOAT_CELLS)]);
        KernelTest {
            kernel: self.kernel.name.clone(),
            grid: self.grid,
            block: self.block,
            shared_bytes: self.dynamic_shared_bytes(),
            parameters: vec![
                buffer("input", Element::U32, INPUT_WORDS, Fill::all(self.fill)),
                buffer("private", Element::U32, threads * PRIVATE_BYTES / 4, Fill::all(self.fill)),
                buffer("cells", Element::U64, SHARED_CELLS + FLOAT_CELLS, cells),
                scalar("n0", self.scalars[0]),
                scalar("n1", self.scalars[1]),
                Parameter { name: "structure".into(), value: Value::Bytes(self.structure.clone()) },
                buffer("out", Element::U64, threads * self.slots, Fill::zero()),
            ],
            expectations: Vec::new(),
        }
    }
}

fn callees(list: &[Stmt]) -> Vec<usize> {
    let nested = list.iter().flat_map(|statement| match statement {
        Stmt::Op(op) => op.callees.clone(),
        Stmt::If { then, otherwise, .. } => [callees(then), callees(otherwise)].concat(),
        Stmt::Loop { body, .. } => callees(body),
        Stmt::Irregular { blocks, .. } => blocks.iter().flat_map(|block| callees(&block.0)).collect(),
        _ => Vec::new(),
    });
    nested.collect()
}
