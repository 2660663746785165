//! Random programs of floating-point products and sums that a compiler may round together, and a comparison of two compilers.
//!
//! PTX lets a compiler join `mul` and `add` or `sub` without a rounding modifier, so these programs have no single right result. They show
//! whether two compilers join the same ones: both files run in the simulator, and all memory is compared bit by bit. Products and
//! sums are in one block, in different ones and in loops; factors are registers, numbers and kernel parameters.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs, process};

use oriole_kernel_test::KernelTest;

use crate::judge::{self, Configuration, Failure, FailureKind};
use crate::reduce::Case;
use crate::rng::Rng;

/// Number of registers that the statements read and write.
const VALUES: usize = 8;
/// Number of registers for products that a later sum reads.
const PRODUCTS: usize = 6;
/// Number of elements that a thread can store.
const SLOTS: usize = 24;
/// Maximum depth of nested branches and loops.
const MAX_DEPTH: usize = 3;

/// The type of the numbers of a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Format {
    F32,
    F64,
    F16,
    Bf16,
    F16x2,
}

impl Format {
    /// Returns the type in arithmetic instructions.
    fn name(self) -> &'static str {
        match self {
            Format::F32 => "f32",
            Format::F64 => "f64",
            Format::F16 => "f16",
            Format::Bf16 => "bf16",
            Format::F16x2 => "f16x2",
        }
    }

    /// Returns the type of registers, loads and stores.
    fn storage(self) -> &'static str {
        match self {
            Format::F32 => "f32",
            Format::F64 => "f64",
            Format::F16 | Format::Bf16 => "b16",
            Format::F16x2 => "b32",
        }
    }

    /// Returns the element type of the buffers, and the number of elements of a register.
    fn elements(self) -> (&'static str, usize) {
        if self == Format::F16x2 { ("f16", 2) } else { (self.name(), 1) }
    }

    /// Returns the size of a register in bytes.
    fn bytes(self) -> usize {
        match self {
            Format::F32 | Format::F16x2 => 4,
            Format::F64 => 8,
            Format::F16 | Format::Bf16 => 2,
        }
    }

    /// Returns the bits of a number in hexadecimal digits.
    fn bits(self, number: f32) -> String {
        // The numbers of these programs are exact in all formats, apart from cut digits.
        let single = number.to_bits();
        let half = || (single >> 16 & 0x8000) | (((single >> 23 & 0xff) as i32 - 112).clamp(1, 30) as u32) << 10 | (single >> 13 & 0x3ff);
        match self {
            Format::F32 => format!("{single:08x}"),
            Format::F64 => format!("{:016x}", f64::from(number).to_bits()),
            Format::F16 => format!("{:04x}", half()),
            Format::Bf16 => format!("{:04x}", single >> 16),
            Format::F16x2 => format!("{:04x}{0:04x}", half()),
        }
    }

    /// Returns a number as an operand of an instruction, or of `mov` for formats without literals.
    fn literal(self, number: f32) -> String {
        match self {
            Format::F32 => format!("0f{}", self.bits(number)),
            Format::F64 => format!("0d{}", self.bits(number)),
            Format::F16 | Format::Bf16 | Format::F16x2 => format!("0x{}", self.bits(number)),
        }
    }
}

/// Returns the program of a seed.
pub fn program(seed: u64) -> Case {
    let mut rng = Rng::new(seed ^ 0xc0_7ac7);
    let format = match rng.below(10) {
        0..=4 => Format::F32,
        5 | 6 => Format::F64,
        7 => Format::F16,
        8 => Format::F16x2,
        _ => Format::Bf16,
    };
    let flushing = if format == Format::F32 { [0, 0, 100, 50][rng.below(4)] } else { 0 };
    let divides = rng.chance(30);
    let has_loops = rng.chance(60);
    let statements = 4 + rng.below(24);
    let mut writer =
        Writer { rng, format, flushing, divides, has_loops, text: String::new(), labels: 0, left: statements, waiting: Vec::new() };
    writer.statements(0);
    let body = writer.text;
    let text = module(format, &body);
    let test = header(format, &mut Rng::new(seed));
    Case { test, text }
}

/// Returns how the programs of a format are launched.
fn header(format: Format, rng: &mut Rng) -> KernelTest {
    let (element, count) = format.elements();
    let number = |rng: &mut Rng| format.bits([0.75, -1.5, 1.1, 3.0][rng.below(4)]);
    let (x, y) = (number(rng), number(rng));
    let scalar = match format {
        Format::F16x2 => "u32",
        Format::F16 | Format::Bf16 => "u16",
        _ => element,
    };
    let lines = format!(
        "// kernel-test 1\n// kernel: contract\n// grid: 1 1 1\n// block: 32 1 1\n\
         // param in: {element}[{}] = sized:{}\n// param out: {element}[{}] = zero\n// param control: u32[64] = random:{}\n\
         // param x: {scalar} = {x}\n// param y: {scalar} = {y}\n// expect out: exact = ?*{}\n",
        32 * VALUES * count,
        rng.below(1 << 20),
        32 * SLOTS * count,
        rng.below(1 << 20),
        32 * SLOTS * count,
    );
    oriole_kernel_test::parse(&lines).expect("the header is valid")
}

/// Returns the module around the statements of a program.
fn module(format: Format, body: &str) -> String {
    let storage = format.storage();
    let bytes = format.bytes();
    let mut text = format!(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry contract(.param .u64 in, .param .u64 out, .param .u64 control, \
         .param .{storage} x, .param .{storage} y)\n{{\n.reg .{storage} %v<{VALUES}>;\n.reg .{storage} %m<{PRODUCTS}>;\n.reg .{storage} %x, %y, %k;\n.reg .pred %p;\n\
         .reg .u32 %thread, %bits, %bit, %count, %i<{}>;\n.reg .u64 %in, %out, %control;\n\
         ld.param.u64 %in, [in];\nld.param.u64 %out, [out];\nld.param.u64 %control, [control];\n\
         ld.param.{storage} %x, [x];\nld.param.{storage} %y, [y];\nmov.u32 %thread, %tid.x;\n\
         mad.wide.u32 %in, %thread, {}, %in;\nmad.wide.u32 %out, %thread, {}, %out;\nmad.wide.u32 %control, %thread, 8, %control;\n\
         ld.global.u32 %bits, [%control];\nld.global.u32 %count, [%control+4];\nand.b32 %count, %count, 7;\n",
        MAX_DEPTH + 1,
        VALUES * bytes,
        SLOTS * bytes,
    );
    for value in 0..VALUES {
        let _ = writeln!(text, "ld.global.{storage} %v{value}, [%in+{}];", value * bytes);
    }
    for product in 0..PRODUCTS {
        let _ = writeln!(text, "mov.{storage} %m{product}, %v{product};");
    }
    text.push_str(body);
    for value in 0..VALUES {
        let _ = writeln!(text, "st.global.{storage} [%out+{}], %v{value};", value * bytes);
    }
    text.push_str("ret;\n}\n");
    text
}

/// Writes the statements of a program.
struct Writer {
    rng: Rng,
    format: Format,
    /// Percentage of instructions with `.ftz`.
    flushing: usize,
    /// Whether there are divisions and reciprocals.
    divides: bool,
    has_loops: bool,
    text: String,
    labels: usize,
    /// Number of statements that may still be written.
    left: usize,
    /// The registers with products that a later sum is to read.
    waiting: Vec<usize>,
}

impl Writer {
    fn line(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    /// Writes a list of statements; at depth 0 until none is left.
    fn statements(&mut self, depth: usize) {
        let count = if depth == 0 { usize::MAX } else { 1 + self.rng.below(7) };
        for _ in 0..count {
            if self.left == 0 {
                return;
            }
            self.left -= 1;
            match self.rng.below(100) {
                0..=9 if depth < MAX_DEPTH => self.branch(depth),
                10..=17 if depth < MAX_DEPTH && self.has_loops => self.counted_loop(depth),
                18..=25 => self.store(),
                26..=47 => self.product(),
                48..=72 if !self.waiting.is_empty() => self.sum_of_product(),
                _ => self.arithmetic(),
            }
        }
    }

    /// Writes a store of a register.
    fn store(&mut self) {
        let (value, slot) = (self.rng.below(VALUES), VALUES + self.rng.below(SLOTS - VALUES));
        self.line(&format!("st.global.{} [%out+{}], %v{value};", self.format.storage(), slot * self.format.bytes()));
    }

    /// Writes a product into a register of its own, for a later sum. Most of these products have a single reader, perhaps in another block.
    fn product(&mut self) {
        let ftz = if self.rng.chance(self.flushing) { ".ftz" } else { "" };
        let number = self.rng.below(PRODUCTS);
        let operation = match self.rng.below(20) {
            0 if self.divides && self.format == Format::F32 => "div.approx",
            1 if self.divides && self.format == Format::F32 => "div.full",
            2 => "mul.rn",
            _ => "mul",
        };
        let (first, second) = (self.operand(false), self.operand(true));
        self.line(&format!("{operation}{ftz}.{} %m{number}, {first}, {second};", self.format.name()));
        if !self.waiting.contains(&number) {
            self.waiting.push(number);
        }
    }

    /// Writes a sum that reads a product, or two of them.
    fn sum_of_product(&mut self) {
        let ftz = if self.rng.chance(self.flushing) { ".ftz" } else { "" };
        let at = self.rng.below(self.waiting.len());
        let number = self.waiting[at];
        if self.rng.chance(75) {
            self.waiting.swap_remove(at);
        }
        let result = self.rng.below(VALUES);
        let other = if self.rng.chance(25) { format!("%m{}", self.rng.below(PRODUCTS)) } else { self.operand(true) };
        let mut sources = [format!("%m{number}"), other];
        if self.rng.chance(50) {
            sources.swap(0, 1);
        }
        let operation = *self.rng.pick(&["add", "add", "sub"]);
        self.line(&format!("{operation}{ftz}.{} %v{result}, {}, {};", self.format.name(), sources[0], sources[1]));
    }

    /// Writes a branch around statements, or with statements on both sides.
    fn branch(&mut self, depth: usize) {
        let label = self.labels;
        self.labels += 1;
        self.predicate();
        self.line(&format!("@%p bra ELSE{label};"));
        // Compilers delete a branch around code without an effect, and merge the blocks around it.
        self.store();
        self.statements(depth + 1);
        let has_else = self.rng.chance(50);
        if has_else {
            self.line(&format!("bra END{label};"));
        }
        self.line(&format!("ELSE{label}:"));
        if has_else {
            self.statements(depth + 1);
            self.line(&format!("END{label}:"));
        }
    }

    /// Writes a loop with up to eight iterations.
    fn counted_loop(&mut self, depth: usize) {
        let label = self.labels;
        self.labels += 1;
        let is_joined = self.rng.chance(40);
        let constant = self.rng.chance(25).then(|| 1 + self.rng.below(9));
        self.line(&format!("mov.u32 %i{depth}, 0; LOOP{label}:"));
        if !is_joined {
            self.line(".pragma \"nounroll\";");
        }
        self.statements(depth + 1);
        // Compilers delete a loop whose iterations all compute the same, and merge the blocks around it.
        self.store();
        let limit = constant.map_or("%count".to_owned(), |count| count.to_string());
        // One line, so that a reduced program has no endless loop.
        self.line(&format!("add.u32 %i{depth}, %i{depth}, 1; setp.lt.u32 %p, %i{depth}, {limit}; @%p bra LOOP{label};"));
    }

    /// Sets the predicate to a random bit of the thread.
    fn predicate(&mut self) {
        let bit = self.rng.below(32);
        self.line(&format!("and.b32 %bit, %bits, {:#x};", 1_u32 << bit));
        self.line("setp.ne.u32 %p, %bit, 0;");
    }

    /// Returns a register, and sometimes a parameter or a number.
    fn operand(&mut self, may_be_constant: bool) -> String {
        match self.rng.below(100) {
            0..=9 if may_be_constant => if self.rng.chance(50) { "%x" } else { "%y" }.to_owned(),
            10..=24 if may_be_constant => {
                let number = *self.rng.pick(&[3.0, 0.5, -1.0, 2.0, 1.3, 0.7, -1.7, 1.0]);
                let literal = self.format.literal(number);
                if matches!(self.format, Format::F32 | Format::F64) {
                    return literal;
                }
                self.line(&format!("mov.{} %k, {literal};", self.format.storage()));
                "%k".to_owned()
            }
            _ => format!("%v{}", self.rng.below(VALUES)),
        }
    }

    fn arithmetic(&mut self) {
        let name = self.format.name();
        let ftz = if self.rng.chance(self.flushing) { ".ftz" } else { "" };
        let (is_wide, is_single) = (self.format == Format::F64, self.format == Format::F32);
        let result = self.rng.below(VALUES);
        let operation = match self.rng.below(100) {
            0..=29 => format!("mul{ftz}"),
            30..=49 => format!("add{ftz}"),
            50..=62 => format!("sub{ftz}"),
            63..=66 => format!("mul.rn{ftz}"),
            67..=69 => format!("add.rn{ftz}"),
            70..=73 => format!("fma.rn{ftz}"),
            74..=78 => format!("neg{ftz}"),
            79..=81 => format!("abs{ftz}"),
            82..=84 => "mov".to_owned(),
            85..=87 if !matches!(self.format, Format::F16 | Format::Bf16 | Format::F16x2) => format!("min{ftz}"),
            88..=90 => "selp".to_owned(),
            91 if is_single => format!("mul.sat{ftz}"),
            92 if is_single => format!("add.sat{ftz}"),
            _ if is_single && self.divides => {
                let kind = *self.rng.pick(&["div.approx", "div.full", "rcp.approx", "div.rn", "rcp.rn", "sqrt.rn", "sqrt.approx"]);
                format!("{kind}{ftz}")
            }
            _ => format!("mul{ftz}"),
        };
        let word = operation.split('.').next().unwrap_or_default();
        let sources: Vec<String> = match word {
            "neg" | "abs" | "mov" | "rcp" | "sqrt" => vec![self.operand(false)],
            "fma" => vec![self.operand(false), self.operand(true), self.operand(false)],
            "mul" | "add" | "sub" | "div" if self.rng.chance(20) => vec![self.operand(true), self.operand(false)],
            "min" | "selp" => vec![self.operand(false), self.operand(false)],
            _ => vec![self.operand(false), self.operand(true)],
        };
        let (ty, extra) = match word {
            "selp" => {
                self.predicate();
                (if is_wide || is_single { name } else { self.format.storage() }, ", %p")
            }
            "mov" => (self.format.storage(), ""),
            _ => (name, ""),
        };
        self.line(&format!("{operation}.{ty} %v{result}, {}{extra};", sources.join(", ")));
    }
}

/// A comparison of the compiler with another one, which is called as ptxas is.
pub struct Comparison {
    /// The other compiler.
    pub rival: PathBuf,
    /// A program that is called in place of this compiler, for example an older version of it.
    pub own: Option<PathBuf>,
    pub configuration: Configuration,
}

impl Comparison {
    /// Compiles a case with both compilers and runs both files. Returns the first element that differs, if one does.
    pub fn difference(&self, case: &Case) -> Result<Option<String>, Failure> {
        let rival = self.cubin_of_program(&self.rival, &case.text)?;
        let own = match &self.own {
            Some(program) => self.cubin_of_program(program, &case.text)?,
            None => judge::compiled(&case.text, self.configuration)?,
        };
        let contents = |cubin: &[u8]| judge::contents_after_run(case, cubin, self.configuration);
        Ok(judge::difference(&case.test, &contents(&rival)?, &contents(&own)?, "the other compiler"))
    }

    /// Returns whether a module is defined and the results differ.
    pub fn differs(&self, case: &Case) -> bool {
        judge::interpret(case).is_ok() && matches!(self.difference(case), Ok(Some(_)))
    }

    /// Compiles a module with a program.
    fn cubin_of_program(&self, program: &Path, text: &str) -> Result<Vec<u8>, Failure> {
        let refused = |message: String| Failure { kind: FailureKind::Refused, configuration: Some(self.configuration), message };
        let folder = env::temp_dir().join(format!("oriole-ptx-fuzz-{}", process::id()));
        let (source, file) = (folder.join("contract.ptx"), folder.join("contract.cubin"));
        fs::create_dir_all(&folder).and_then(|()| fs::write(&source, text)).map_err(|error| refused(error.to_string()))?;
        let output = run_program(program, self.configuration, &source, &file).map_err(|error| refused(error.to_string()))?;
        if !output.status.success() {
            return Err(refused(String::from_utf8_lossy(&output.stderr).into_owned()));
        }
        fs::read(&file).map_err(|error| refused(error.to_string()))
    }
}

/// Runs a compiler.
fn run_program(program: &Path, configuration: Configuration, source: &Path, file: &Path) -> std::io::Result<process::Output> {
    Command::new(program)
        .arg(format!("-arch={}", configuration.target))
        .arg(format!("-O{}", configuration.level))
        .arg(source)
        .arg("-o")
        .arg(file)
        .output()
}
