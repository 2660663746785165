//! Generates the start and end of functions: the initial values of all registers, and the stores that make them observable.

use super::{Context, Generator, Level};
use crate::features::Feature;
use crate::program::{CLASSES, FLOAT_CELLS, Function, Op, OperandClass, PRIVATE_BYTES, SHARED_CELLS, Stmt, Together};
use crate::reduce::edits::mentions;
use crate::template::interesting;

impl Generator {
    /// Picks the number of registers of each class in a function.
    pub(super) fn choose_pool(&mut self, together: Together) -> [usize; 12] {
        let wide = usize::from(self.rng.chance(20)) * 6;
        let mut pool = [0; 12];
        for class in CLASSES {
            pool[class as usize] = match class {
                OperandClass::B32 => self.rng.range(4, 8) as usize + wide,
                OperandClass::B64 | OperandClass::F32 | OperandClass::B16 => self.rng.range(4, 5) as usize + wide / 3,
                OperandClass::Pred => self.rng.range(2, 5) as usize,
                OperandClass::Uniform if together == Together::Block => 2,
                OperandClass::Uniform => 0,
                _ => self.rng.range(2, 3) as usize,
            };
        }
        pool
    }

    /// Generates the kernel; also returns the number of slots per thread in the output.
    pub(super) fn make_kernel(&mut self, size: usize) -> (Function, usize) {
        let pool = self.choose_pool(Together::Block);
        self.begin(true, Together::Block, pool, 12_000);
        let inits = self.registers(&pool).into_iter().map(|(class, name)| self.kernel_init(class, &name)).collect();
        let with_exits = self.rng.chance(20);
        self.shared_cells = !with_exits && self.rng.chance(50);
        let tail = if with_exits { size / 3 } else { 0 };
        let cx = Context { level: Level::Block, weight: 1, executions: 1, depth: 0, exits: false };
        let mut body = self.statements(&cx, size - tail);
        self.call_collective(&cx, &mut body);
        if self.allows_tensor(&cx) {
            for _ in 0..2 {
                let at = self.rng.below(body.len() + 1);
                let statement = self.tensor(&cx);
                body.splice(at..at, statement);
            }
        }
        if with_exits {
            let cx = Context { level: Level::Thread, weight: 1, executions: 1, depth: 0, exits: true };
            body.extend(self.statements(&cx, tail));
        }
        let (finish, slots) = self.observe_all(&pool, &body);
        let function = Function {
            name: format!("k{}", self.seed),
            parameters: Vec::new(),
            results: Vec::new(),
            pool,
            inits,
            body,
            finish,
            ids: self.ids,
            recursive: false,
            by_register: false,
            together: Together::Block,
            // With functions or `alloca`, all frames together must fit into the 16 KB stack that the runner of GPU tests requests.
            frame: self.frame(if self.functions.is_empty() && !self.features.has(Feature::Alloca) { 40_000 } else { 3000 }),
        };
        (function, slots)
    }

    pub(super) fn registers(&self, pool: &[usize; 12]) -> Vec<(OperandClass, String)> {
        CLASSES.iter().flat_map(|&class| (0..pool[class as usize]).map(move |number| (class, class.register(number)))).collect()
    }

    /// Generates the initialization of a kernel's register: from the input buffer, a parameter, the thread index, or a constant.
    fn kernel_init(&mut self, class: OperandClass, name: &str) -> Op {
        let odd = self.rng.range(0, 40) * 8 + 8;
        let start = self.rng.below(256) * 8;
        let address = format!(
            ".reg .b64 %ta; .reg .b32 %tb; mad.lo.u32 %tb, %gtid, {odd}, {start}; and.b32 %tb, %tb, 0x7f8; cvt.u64.u32 %ta, %tb; add.u64 %ta, %ta, %in"
        );
        let template = match class {
            OperandClass::Uniform => self.choose(&format!("ld.param.u32 {name}, [{{n0/n1}}]")),
            OperandClass::Pred if self.rng.chance(50) => {
                let bit = 1 << self.rng.below(6);
                format!(".reg .b32 %ta; and.b32 %ta, %lin, {bit}; setp.ne.u32 {name}, %ta, 0")
            }
            OperandClass::Pred => format!("{address}; ld.global.u8 %tb, [%ta]; setp.gt.u32 {name}, %tb, 127"),
            _ if self.rng.chance(12) => return self.constant_init(class, name),
            OperandClass::B32 if self.rng.chance(15) => format!("mov.b32 {name}, %{}", self.rng.pick(&["lin", "gtid"])),
            _ => format!("{address}; ld.global.{} {name}, [%ta]", class.register_type()),
        };
        self.plain(&template)
    }

    pub(super) fn constant_init(&mut self, class: OperandClass, name: &str) -> Op {
        let bits = interesting(&mut self.rng, class.bytes() as u32 * 8, class.is_float());
        let template = match class {
            OperandClass::B8 => format!(".reg .b32 %ta; mov.u32 %ta, {bits}; cvt.u8.u32 {name}, %ta"),
            OperandClass::F32 => format!("mov.f32 {name}, 0f{bits:08X}"),
            OperandClass::F64 => format!("mov.f64 {name}, 0d{bits:016X}"),
            OperandClass::Uniform if bits & 1 == 1 => format!("mov.u32 {name}, %{}", self.rng.pick(&["ntid.x", "nctaid.x", "ctaid.x"])),
            OperandClass::Pred => format!("setp.{}.u32 {name}, 0, 0", if bits & 1 == 1 { "eq" } else { "ne" }),
            _ => format!("mov.{} {name}, {bits:#x}", class.register_type()),
        };
        self.plain(&template)
    }

    /// Generates stores of the registers and memory of a thread to its part of the output; also returns the number of slots.
    fn observe_all(&mut self, pool: &[usize; 12], body: &[Stmt]) -> (Vec<Op>, usize) {
        let seen_percent = *self.rng.pick(&[100, 100, 60, 25]);
        let mut finish = Vec::new();
        let text = format!("{body:?}");
        for (class, name) in self.registers(pool) {
            if mentions(&text, &name) && self.rng.chance(seen_percent) {
                let slot = finish.len() * 8;
                finish.push(self.plain(&observation(class, &name, slot)));
            }
        }
        for vector in ["%va", "%vb", "%vh", "%vq", "%oa", "%ob"].into_iter().filter(|vector| text.contains(vector)) {
            for part in vector_observations(vector) {
                let slot = finish.len() * 8;
                finish.push(self.plain(&part.replace("SLOT", &slot.to_string())));
            }
        }
        for (register, space) in [("%loc", "local"), ("%alc", "local"), ("%sh", "shared"), ("%dy", "shared")] {
            if text.contains(register) || text.contains(&register.replace('%', "%g")) {
                let slot = finish.len() * 8;
                finish.push(self.plain(&digest(register, space, PRIVATE_BYTES, slot)));
            }
        }
        if text.contains("%scell") {
            let slot = finish.len() * 8;
            finish.push(self.plain(&format!("bar.sync 0; {}", digest("%scell", "shared", (SHARED_CELLS + FLOAT_CELLS) * 8, slot))));
        }
        if finish.is_empty() {
            finish.push(self.plain(&observation(OperandClass::B32, "%r0", 0)));
        }
        let slots = finish.len();
        (finish, slots)
    }
}

/// Returns the template that stores a register; NaNs are made canonical.
fn observation(class: OperandClass, name: &str, slot: usize) -> String {
    match class {
        OperandClass::B8 => format!(".reg .b32 %ta; cvt.u32.u8 %ta, {name}; st.global.b32 [%out+{slot}], %ta"),
        OperandClass::B16 => format!("st.global.b16 [%out+{slot}], {name}"),
        OperandClass::B32 | OperandClass::Uniform => format!("st.global.b32 [%out+{slot}], {name}"),
        OperandClass::B64 => format!("st.global.b64 [%out+{slot}], {name}"),
        OperandClass::F32 => format!(
            ".reg .f32 %ta; .reg .pred %tp; setp.nan.f32 %tp, {name}, {name}; selp.f32 %ta, 0f7FFFFFFF, {name}, %tp; st.global.f32 [%out+{slot}], %ta"
        ),
        OperandClass::F64 => format!(
            ".reg .f64 %ta; .reg .pred %tp; setp.nan.f64 %tp, {name}, {name}; selp.f64 %ta, 0d7FF8000000000000, {name}, %tp; st.global.f64 [%out+{slot}], %ta"
        ),
        OperandClass::F16 => format!(
            ".reg .b16 %ta; .reg .pred %tp; setp.nan.f16 %tp, {name}, {name}; selp.b16 %ta, 0x7FFF, {name}, %tp; st.global.b16 [%out+{slot}], %ta"
        ),
        OperandClass::Bf16 => format!(
            ".reg .b16 %ta; .reg .pred %tp; and.b16 %ta, {name}, 0x7FFF; setp.gt.u16 %tp, %ta, 0x7F80; selp.b16 %ta, 0x7FFF, {name}, %tp; st.global.b16 [%out+{slot}], %ta"
        ),
        OperandClass::F16x2 => format!(
            ".reg .b16 %ta, %tb; .reg .pred %tp, %tq; setp.nan.f16x2 %tp|%tq, {name}, {name}; mov.b32 <%ta, %tb>, {name}; selp.b16 %ta, 0x7FFF, %ta, %tp; selp.b16 %tb, 0x7FFF, %tb, %tq; st.global.v2.b16 [%out+{slot}], <%ta, %tb>"
        ),
        OperandClass::Bf16x2 => format!(
            ".reg .b16 %ta, %tb, %tc; .reg .pred %tp; mov.b32 <%ta, %tb>, {name}; and.b16 %tc, %ta, 0x7FFF; setp.gt.u16 %tp, %tc, 0x7F80; selp.b16 %ta, 0x7FFF, %ta, %tp; and.b16 %tc, %tb, 0x7FFF; setp.gt.u16 %tp, %tc, 0x7F80; selp.b16 %tb, 0x7FFF, %tb, %tp; st.global.v2.b16 [%out+{slot}], <%ta, %tb>"
        ),
        OperandClass::Pred => format!(".reg .b32 %ta; selp.u32 %ta, 1, 0, {name}; st.global.b32 [%out+{slot}], %ta"),
    }
}

/// Returns the templates that store the components of a vector register, or the halves of a 128-bit register, in one slot each.
fn vector_observations(register: &str) -> Vec<String> {
    let pair = |first: char, second: char| format!("st.global.v2.b32 [%out+SLOT], <{register}.{first}, {register}.{second}>");
    match register {
        "%va" => vec![pair('x', 'y'), pair('z', 'w')],
        "%vb" => vec![pair('x', 'y')],
        "%vh" => vec![format!("st.global.v2.b16 [%out+SLOT], {register}")],
        "%vq" => vec![format!("st.global.v4.b16 [%out+SLOT], {register}")],
        _ => {
            let half = |stored: &str| format!(".reg .b64 %ta, %tb; mov.b128 <%ta, %tb>, {register}; st.global.b64 [%out+SLOT], {stored}");
            vec![half("%ta"), half("%tb")]
        }
    }
}

/// Returns the template that hashes an array of a thread into one number (FNV-1a over 64-bit words) and stores it.
fn digest(register: &str, space: &str, bytes: usize, slot: usize) -> String {
    let mut text = ".reg .b64 %ta, %tb; mov.u64 %ta, 0xcbf29ce484222325".to_owned();
    for offset in (0..bytes).step_by(8) {
        text += &format!("; ld.{space}.b64 %tb, [{register}+{offset}]; xor.b64 %ta, %ta, %tb; mul.lo.u64 %ta, %ta, 0x100000001b3");
    }
    text + &format!("; st.global.b64 [%out+{slot}], %ta")
}
