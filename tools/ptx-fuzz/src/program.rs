//! The generator's representation of a program: functions that consist of a tree of statements.
//!
//! Each function has a fixed pool of registers of every class ([`OperandClass`]). All of them are initialized before the body, statements read and
//! write them freely, and the pool is observed at the end. Therefore a program stays defined if any statements are removed, which the
//! reducer relies on. Registers that a construct needs for itself (loop counters, masks, fuel) are numbered by the construct and
//! belong to no class.

use oriole_kernel_test::{Element, Fill, KernelTest, Parameter, ParameterValue, Source};

/// Number of registers with which a program starts that changes it. It is enough for the accumulators of a warpgroup product.
pub const CHANGED_REGISTERS: u32 = 168;

/// The kind of values in a register. Some classes have the same width but must not be mixed: the payload of a NaN is not always defined, so
/// the bits of floats are observed only after canonicalization.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum OperandClass {
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
    /// 32 bits that are equal in all threads of a block.
    Uniform,
}

pub const CLASSES: [OperandClass; 12] = [
    OperandClass::B8,
    OperandClass::B16,
    OperandClass::B32,
    OperandClass::B64,
    OperandClass::F16,
    OperandClass::F16x2,
    OperandClass::Bf16,
    OperandClass::Bf16x2,
    OperandClass::F32,
    OperandClass::F64,
    OperandClass::Pred,
    OperandClass::Uniform,
];

impl OperandClass {
    /// Returns the letter of the class in templates and register names.
    pub fn letter(self) -> char {
        b"bhrdxXyYfepu"[self as usize] as char
    }

    pub fn from_letter(letter: char) -> Option<OperandClass> {
        CLASSES.into_iter().find(|class| class.letter() == letter)
    }

    /// Returns the type with which registers are declared and parameters are passed.
    pub fn register_type(self) -> &'static str {
        match self {
            OperandClass::B8 => "b8",
            OperandClass::B16 | OperandClass::F16 | OperandClass::Bf16 => "b16",
            OperandClass::B32 | OperandClass::F16x2 | OperandClass::Bf16x2 | OperandClass::Uniform => "b32",
            OperandClass::B64 => "b64",
            OperandClass::F32 => "f32",
            OperandClass::F64 => "f64",
            OperandClass::Pred => "pred",
        }
    }

    pub fn bytes(self) -> usize {
        match self {
            OperandClass::B8 => 1,
            OperandClass::B16 | OperandClass::F16 | OperandClass::Bf16 => 2,
            OperandClass::B32 | OperandClass::F16x2 | OperandClass::Bf16x2 | OperandClass::F32 | OperandClass::Uniform => 4,
            OperandClass::B64 | OperandClass::F64 => 8,
            OperandClass::Pred => 4,
        }
    }

    pub fn is_float(self) -> bool {
        matches!(
            self,
            OperandClass::F16 | OperandClass::F16x2 | OperandClass::Bf16 | OperandClass::Bf16x2 | OperandClass::F32 | OperandClass::F64
        )
    }

    pub fn register(self, number: usize) -> String {
        format!("%{}{number}", self.letter())
    }
}

/// A part of an instruction's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Token {
    Text(String),
    Use {
        class: OperandClass,
        name: String,
        /// Whether a constant may replace the register.
        constant: bool,
    },
    Def {
        class: OperandClass,
        name: String,
    },
}

/// An instruction without its semicolon.
pub type Line = Vec<Token>;

/// A sequence of instructions with their own registers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Op {
    /// Guard of every line: `@%p0` or `@!%p0`.
    pub guard: Option<String>,
    /// Declarations of registers and `.param` variables.
    pub declarations: Vec<String>,
    pub lines: Vec<Line>,
    /// Indices of the functions that may be called.
    pub callees: Vec<usize>,
}

/// A branch condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Instructions that compute the register.
    pub setup: Vec<Line>,
    pub register: String,
    pub negated: bool,
}

/// The number of iterations of a loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trips {
    Constant(u32),
    /// `register & mask`, which may differ between threads.
    Masked {
        register: String,
        mask: u32,
    },
}

/// The shape of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoopStyle {
    /// Counts up and tests at the end; runs at least once.
    DoUp,
    /// Counts down and tests at the start.
    WhileDown,
    /// Counts up in 64 bits with a stride and tests at the start.
    WideStride,
}

/// The successor of a block in an irregular region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The next block.
    Fall,
    Goto(usize),
    /// The block if the condition holds, otherwise the next block.
    Branch(Condition, usize),
    /// Selected by the low bits of a register; the number of targets is a power of two.
    Indexed {
        register: String,
        targets: Vec<usize>,
    },
}

/// A statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stmt {
    Op(Op),
    If {
        id: usize,
        condition: Condition,
        /// Mask among whose threads those with a true condition are collected in `%m{id}` and the others in `%w{id}`.
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
    /// Continues with the next iteration of the loop with this id.
    Continue {
        id: usize,
        condition: Condition,
    },
    /// Blocks with arbitrary jumps between them. Each execution of a block consumes one unit of `fuel`; the region ends when none is left.
    Irregular {
        id: usize,
        entry: Edge,
        blocks: Vec<(Vec<Stmt>, Edge)>,
        fuel: u32,
    },
    /// Parts of a construct with statements between them: first a part, then statements, and so on, and a part at the end. The parts
    /// share their registers and labels; statements must not leave the construct.
    Staged {
        parts: Vec<Op>,
        holes: Vec<Vec<Stmt>>,
    },
    /// Ends the thread or the function.
    Exit {
        condition: Condition,
        how: &'static str,
    },
}

/// A field of a structure passed by value: class and offset in bytes.
pub type Field = (OperandClass, usize);

/// The type of a parameter or result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    Scalar(OperandClass),
    Structure { fields: Vec<Field>, bytes: usize },
}

/// The array of a function in local memory: its size in bytes, and the offset of the bytes that the function uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    pub bytes: usize,
    pub window: usize,
}

impl Frame {
    pub const SMALL: Frame = Frame { bytes: PRIVATE_BYTES, window: 0 };
}

/// The threads that call a function together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Together {
    /// Any threads.
    Thread,
    /// The threads of a mask within the warp; the mask is a parameter.
    Warp,
    /// All threads of the block.
    Block,
}

/// A device function or the kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    pub name: String,
    pub parameters: Vec<Passed>,
    pub results: Vec<Passed>,
    /// Number of registers of each class, in the order of [`CLASSES`].
    pub pool: [usize; 12],
    /// Initializations, one per register of the pool.
    pub inits: Vec<Op>,
    pub body: Vec<Stmt>,
    /// Operations at the end, which store the registers or set the results.
    pub finish: Vec<Op>,
    /// Number of construct ids in use.
    pub ids: usize,
    /// Whether the function calls itself. The first parameter then is a counter that limits the depth.
    pub recursive: bool,
    /// Whether parameters and results are registers and not `.param` variables.
    pub by_register: bool,
    pub together: Together,
    pub frame: Frame,
}

/// A read-only global variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Global {
    /// The type: `b8` to `b64`.
    pub kind: &'static str,
    pub value: u32,
}

/// A random program with its launch and data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    pub seed: u64,
    pub version: &'static str,
    pub target: &'static str,
    /// Device functions. A function calls earlier ones, and itself.
    pub functions: Vec<Function>,
    pub kernel: Function,
    pub grid: [u32; 3],
    /// Number of blocks of a cluster along x.
    pub cluster: u32,
    pub block: [u32; 3],
    /// Values of the scalar kernel parameters.
    pub scalars: [u32; 2],
    /// The kernel parameter that is passed by value.
    pub structure: Vec<u8>,
    pub constants: Vec<u32>,
    /// Words of the large constant array, which has no initializer if all are zero.
    pub large_constant: Vec<u32>,
    pub globals: Vec<Global>,
    /// Whether global variables that no statement reads are declared too.
    pub unused_globals: bool,
    /// How the input is filled.
    pub fill: Source,
    /// Number of 8-byte slots per thread in the output.
    pub slots: usize,
}

/// Number of 4-byte elements in the input buffer.
pub const INPUT_WORDS: usize = 512;
/// Bytes of memory that each thread owns in each state space.
pub const PRIVATE_BYTES: usize = 64;
/// Number of cells that all threads modify, with commutative operations.
pub const SHARED_CELLS: usize = 16;
/// Number of cells after [`SHARED_CELLS`] for float additions.
pub const FLOAT_CELLS: usize = 8;
/// Number of global variables, counted from the last, whose addresses are in a table.
pub const GLOBAL_POINTERS: usize = 8;
/// Bytes that each thread owns in the buffer that bulk copies write.
pub const BULK_BYTES: usize = 64;
/// Number of words in the constant and in the global array.
pub const CONSTANT_WORDS: usize = 64;

impl Program {
    pub fn block_threads(&self) -> u32 {
        self.block.iter().product()
    }

    pub fn threads(&self) -> u32 {
        self.block_threads() * self.grid.iter().product::<u32>()
    }

    /// Returns the functions that are called, directly or indirectly, in ascending order.
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

    /// Returns the size of dynamic shared memory in bytes; 0 if no statement uses it.
    fn dynamic_shared_bytes(&self) -> u32 {
        let text = format!("{:?}{:?}", self.kernel.body, self.kernel.finish);
        let is_used = ["%dy", "%gdy", "%dynamic_smem_size"].iter().any(|name| text.contains(name));
        if is_used { self.block_threads() * PRIVATE_BYTES as u32 } else { 0 }
    }

    /// Returns whether statements copy to the buffer for bulk copies, which the kernel then has as a parameter.
    pub fn has_bulk_stores(&self) -> bool {
        format!("{:?}", self.kernel.body).contains("%blk")
    }

    /// Returns the kernel test without expectations.
    pub fn test(&self) -> KernelTest {
        let buffer =
            |name: &str, element, count, fill| Parameter { name: name.into(), value: ParameterValue::Buffer { element, count, fill } };
        let scalar = |name: &str, bits: u32| Parameter {
            name: name.into(),
            value: ParameterValue::Scalar { element: Element::U32, bits: u64::from(bits) },
        };
        let threads = self.threads() as usize;
        let cells = Fill::of(&[(Source::Random { seed: self.seed as u32 }, SHARED_CELLS), (Source::Value(0), FLOAT_CELLS)]);
        let bulk = buffer("bulk", Element::U32, threads * BULK_BYTES / 4, Fill::all(self.fill));
        let bulk = self.has_bulk_stores().then_some(bulk);
        KernelTest {
            kernel: self.kernel.name.clone(),
            grid: self.grid,
            block: self.block,
            cluster: None,
            shared_bytes: self.dynamic_shared_bytes(),
            parameters: vec![
                buffer("input", Element::U32, INPUT_WORDS, Fill::all(self.fill)),
                buffer("private", Element::U32, threads * PRIVATE_BYTES / 4, Fill::all(self.fill)),
                buffer("cells", Element::U64, SHARED_CELLS + FLOAT_CELLS, cells),
                scalar("n0", self.scalars[0]),
                scalar("n1", self.scalars[1]),
                Parameter { name: "structure".into(), value: ParameterValue::Bytes(self.structure.clone()) },
                buffer("out", Element::U64, threads * self.slots, Fill::zero()),
            ]
            .into_iter()
            .chain(bulk)
            .collect(),
            references: Vec::new(),
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
        Stmt::Staged { holes, .. } => holes.iter().flat_map(|hole| callees(hole)).collect(),
        _ => Vec::new(),
    });
    nested.collect()
}
