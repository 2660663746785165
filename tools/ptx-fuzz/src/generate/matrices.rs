//! Generates matrix products (`mma`, `wmma`) and moves of matrices (`ldmatrix`, `stmatrix`, `movmatrix`).
//!
//! The result of a product of floats depends on the target: how many products one step sums and how many bits an addend keeps. The
//! interpreter computes as Hopper does, so programs for sm_90a multiply any bits. Programs for other targets also run on GPUs that sum in
//! another way; there all elements are 1 or 1.5 with a sign, and all sums are exact ([`Element::exact`]).

use super::{Context, Generator, tensor::list};
use crate::program::{Op, Stmt};

/// The type of the elements of a matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Element {
    F16,
    Bf16,
    Tf32,
    E4m3,
    E5m2,
    /// Integers and bits, whose sums are always exact.
    Integer,
}

impl Element {
    /// Returns the bits of a register that vary and those that are set, so that all elements are 1 or 1.5 with a sign.
    fn exact(self) -> (u32, u32) {
        match self {
            Element::F16 => (0x8200_8200, 0x3c00_3c00),
            Element::Bf16 => (0x8040_8040, 0x3f80_3f80),
            Element::Tf32 => (0x8040_0000, 0x3f80_0000),
            Element::E4m3 => (0x8484_8484, 0x3838_3838),
            Element::E5m2 => (0x8282_8282, 0x3c3c_3c3c),
            Element::Integer => (u32::MAX, 0),
        }
    }

    /// Returns the bits of a register that vary if no element is infinite, NaN or 2 or more.
    fn below_two(self) -> u32 {
        match self {
            Element::F16 | Element::Bf16 => 0xbfff_bfff,
            Element::Tf32 => 0xbfff_ffff,
            Element::E4m3 | Element::E5m2 => 0xbfbf_bfbf,
            Element::Integer => u32::MAX,
        }
    }
}

/// The bits of a register that vary, and those that are set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bound(u32, u32);

impl Bound {
    /// Returns the template that copies a register or a placeholder with the bound applied.
    pub(super) fn copy(self, to: &str, from: &str) -> String {
        match self {
            Bound(u32::MAX, 0) => format!("mov.b32 {to}, {from}"),
            Bound(varying, 0) => format!("and.b32 {to}, {from}, {varying:#x}"),
            Bound(varying, set) => format!("and.b32 {to}, {from}, {varying:#x}; or.b32 {to}, {to}, {set:#x}"),
        }
    }
}

/// The type of an accumulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    Single,
    Half,
    Double,
    Integer,
}

/// A product of `mma.sync`: name of the instruction after `mma`, registers of A, B and C, element types, accumulator, lowest target, and
/// whether A is sparse.
struct Product {
    name: &'static str,
    registers: [usize; 3],
    elements: [Element; 2],
    sum: Sum,
    least_sm: u32,
    sparse: bool,
}

const fn product(least_sm: u32, registers: [usize; 3], element: Element, sum: Sum, name: &'static str) -> Product {
    Product { name, registers, elements: [element; 2], sum, least_sm, sparse: false }
}

const fn sparse(registers: [usize; 3], element: Element, sum: Sum, name: &'static str) -> Product {
    Product { name, registers, elements: [element; 2], sum, least_sm: 80, sparse: true }
}

const PRODUCTS: [Product; 30] = [
    product(75, [2, 1, 4], Element::F16, Sum::Single, "m16n8k8.row.col.f32.f16.f16.f32"),
    product(75, [2, 1, 2], Element::F16, Sum::Half, "m16n8k8.row.col.f16.f16.f16.f16"),
    product(75, [1, 1, 2], Element::Integer, Sum::Integer, "m8n8k16.row.col.s32.{s8/u8}.{s8/u8}.s32"),
    product(75, [1, 1, 2], Element::Integer, Sum::Integer, "m8n8k32.row.col.s32.{s4/u4}.{s4/u4}.s32"),
    product(75, [1, 1, 2], Element::Integer, Sum::Integer, "m8n8k128.row.col.s32.b1.b1.s32.xor.popc"),
    product(80, [4, 2, 4], Element::F16, Sum::Single, "m16n8k16.row.col.f32.f16.f16.f32"),
    product(80, [4, 2, 4], Element::F16, Sum::Single, "m16n8k16.row.col.f32.f16.f16.f32"),
    product(80, [4, 2, 2], Element::F16, Sum::Half, "m16n8k16.row.col.f16.f16.f16.f16"),
    product(80, [4, 2, 4], Element::Bf16, Sum::Single, "m16n8k16.row.col.f32.bf16.bf16.f32"),
    product(80, [2, 1, 4], Element::Bf16, Sum::Single, "m16n8k8.row.col.f32.bf16.bf16.f32"),
    product(80, [2, 1, 4], Element::Tf32, Sum::Single, "m16n8k4.row.col.f32.tf32.tf32.f32"),
    product(80, [4, 2, 4], Element::Tf32, Sum::Single, "m16n8k8.row.col.f32.tf32.tf32.f32"),
    product(80, [2, 1, 4], Element::Integer, Sum::Integer, "m16n8k16.row.col.s32.{s8/u8}.{s8/u8}.s32"),
    product(80, [4, 2, 4], Element::Integer, Sum::Integer, "m16n8k32.row.col.s32.{s8/u8}.{s8/u8}.s32"),
    product(80, [2, 1, 4], Element::Integer, Sum::Integer, "m16n8k32.row.col.s32.{s4/u4}.{s4/u4}.s32"),
    product(80, [4, 2, 4], Element::Integer, Sum::Integer, "m16n8k64.row.col.s32.{s4/u4}.{s4/u4}.s32"),
    product(80, [2, 1, 4], Element::Integer, Sum::Integer, "m16n8k128.row.col.s32.b1.b1.s32.{xor/and}.popc"),
    product(80, [4, 2, 4], Element::Integer, Sum::Integer, "m16n8k256.row.col.s32.b1.b1.s32.{xor/and}.popc"),
    product(80, [1, 1, 2], Element::Integer, Sum::Double, "m8n8k4.row.col{/.rn/.rz/.rm/.rp}.f64.f64.f64.f64"),
    product(90, [2, 1, 4], Element::Integer, Sum::Double, "m16n8k4.row.col{/.rn/.rz}.f64.f64.f64.f64"),
    product(90, [4, 2, 4], Element::Integer, Sum::Double, "m16n8k8.row.col.f64.f64.f64.f64"),
    product(90, [8, 4, 4], Element::Integer, Sum::Double, "m16n8k16.row.col{/.rp}.f64.f64.f64.f64"),
    product(89, [4, 2, 4], Element::E4m3, Sum::Single, "m16n8k32.row.col.f32.e4m3.e4m3.f32"),
    product(89, [4, 2, 4], Element::E5m2, Sum::Single, "m16n8k32.row.col.f32.e5m2.e5m2.f32"),
    sparse([2, 2, 4], Element::F16, Sum::Single, "m16n8k16.row.col.f32.f16.f16.f32"),
    sparse([4, 4, 4], Element::F16, Sum::Single, "m16n8k32.row.col.f32.f16.f16.f32"),
    sparse([4, 4, 2], Element::F16, Sum::Half, "m16n8k32.row.col.f16.f16.f16.f16"),
    sparse([4, 4, 4], Element::Bf16, Sum::Single, "m16n8k32.row.col.f32.bf16.bf16.f32"),
    sparse([2, 2, 4], Element::Integer, Sum::Integer, "m16n8k32.row.col.s32.{s8/u8}.{s8/u8}.s32"),
    sparse([4, 4, 4], Element::Integer, Sum::Integer, "m16n8k64.row.col.s32.{s8/u8}.{s8/u8}.s32"),
];

/// Shapes of `wmma`: name, type, registers of A, B and C, element type, accumulator, bytes of A, B and C, lowest target.
type Fragments = (&'static str, &'static str, [usize; 3], Element, Sum, [usize; 3], u32);
const FRAGMENTS: [Fragments; 8] = [
    ("m16n16k16", "f16", [8, 8, 8], Element::F16, Sum::Single, [512, 512, 1024], 75),
    ("m32n8k16", "f16", [8, 8, 8], Element::F16, Sum::Single, [1024, 256, 1024], 75),
    ("m8n32k16", "f16", [8, 8, 8], Element::F16, Sum::Single, [256, 1024, 1024], 75),
    ("m16n16k16", "s8", [2, 2, 8], Element::Integer, Sum::Integer, [256, 256, 1024], 75),
    ("m32n8k16", "u8", [4, 1, 8], Element::Integer, Sum::Integer, [512, 128, 1024], 75),
    ("m8n32k16", "s8", [1, 4, 8], Element::Integer, Sum::Integer, [128, 512, 1024], 75),
    ("m16n16k16", "bf16", [4, 4, 8], Element::Bf16, Sum::Single, [512, 512, 1024], 80),
    ("m16n16k16", "f16", [8, 8, 4], Element::F16, Sum::Half, [512, 512, 512], 75),
];

impl Generator {
    /// Picks how the bits of the elements of a matrix are restricted.
    pub(super) fn bound(&mut self, element: Element) -> Bound {
        let (varying, set) = element.exact();
        match self.rng.below(4) {
            _ if self.exact => Bound(varying, set),
            0 => Bound(varying, set),
            1 => Bound(u32::MAX, 0),
            _ => Bound(element.below_two(), 0),
        }
    }

    /// Returns the template that initializes an accumulator, from registers or with zeros.
    pub(super) fn start_sum(&mut self, sum: Sum, names: &[String]) -> String {
        let zero = self.rng.chance(25);
        let element = match sum {
            Sum::Single => Element::Tf32,
            Sum::Half => Element::F16,
            Sum::Double | Sum::Integer => Element::Integer,
        };
        let bound = self.bound(element);
        let lines: Vec<String> = names
            .iter()
            .map(|name| match sum {
                Sum::Double if zero => format!("mov.f64 {name}, 0d0000000000000000"),
                Sum::Double => format!("mov.f64 {name}, $e"),
                _ if zero => format!("mov.b32 {name}, 0"),
                _ => bound.copy(name, "$r"),
            })
            .collect();
        lines.join("; ")
    }

    /// Returns the template that puts an accumulator into registers of the pool: all in one number, or one each.
    pub(super) fn take_sum(&mut self, sum: Sum, names: &[String], scratch: &str) -> String {
        match sum {
            Sum::Double => names.iter().map(|name| format!("mov.f64 $=e, {name}")).collect::<Vec<_>>().join("; "),
            Sum::Single if names.len() <= 4 && self.rng.chance(50) => {
                names.iter().map(|name| format!("mov.b32 $=f, {name}")).collect::<Vec<_>>().join("; ")
            }
            _ => {
                let mut text = format!("mov.u32 {scratch}, 0x{:x}", self.rng.below(1 << 16));
                for name in names {
                    text += &format!("; mad.lo.u32 {scratch}, {scratch}, 31, {name}");
                }
                text + &format!("; mov.b32 $=r, {scratch}")
            }
        }
    }

    /// Generates a loop of matrix products on registers, with statements between them.
    pub(super) fn matrix_products(&mut self, cx: &Context) -> Option<Stmt> {
        let id = self.id();
        let fitting: Vec<&Product> = PRODUCTS.iter().filter(|product| product.least_sm <= self.sm).collect();
        let product = *self.rng.pick(&fitting);
        let (a, b, c) = (product.registers[0], product.registers[1], product.registers[2]);
        let is_double = product.sum == Sum::Double;
        let name = |letter: char, count: usize| -> Vec<String> { (0..count).map(|number| format!("%q{id}{letter}{number}")).collect() };
        let (a, b, c) = (name('a', a), name('b', b), name('c', c));
        let kind = if is_double { "f64" } else { "b32" };
        let mut start = format!(".reg .{kind} {}; .reg .b32 %q{id}x, %q{id}m", [a.clone(), b.clone(), c.clone()].concat().join(", "));
        // How a GPU sums the products of a sparse matrix was measured only for exact sums.
        let is_exact = self.exact;
        self.exact |= product.sparse;
        for (registers, element) in [(&a, product.elements[0]), (&b, product.elements[1])] {
            let bound = self.bound(element);
            for register in registers {
                start += &if is_double { format!("; mov.f64 {register}, $e") } else { format!("; {}", bound.copy(register, "$r")) };
            }
        }
        start += &format!("; {}", self.start_sum(product.sum, &c));
        self.exact = is_exact;
        let shape = self.choose(product.name);
        let sat =
            if !self.exact && product.sum == Sum::Integer && !shape.contains("b1") && self.rng.chance(30) { ".satfinite" } else { "" };
        let shape = shape.replace("col.", &format!("col{sat}."));
        let (sp, metadata) = if product.sparse {
            // Each half byte has the positions of two elements in ascending order.
            start += &format!("; selp.b32 %q{id}m, 0x{{44444444/4e8d9c4e/eeeeeeee}}, 0x{{dcdcdcdc/9d8e4c9e}}, $p");
            // Threads of an even pair hold the metadata of most shapes; 0 is a selector of all of them.
            (".sp", format!(", %q{id}m, 0x0"))
        } else {
            ("", String::new())
        };
        let multiply = format!("mma{sp}.sync.aligned.{shape} {}, {}, {}, {}{metadata}", list(&c), list(&a), list(&b), list(&c));
        let end = self.take_sum(product.sum, &c, &format!("%q{id}x"));
        if self.rng.chance(40) {
            return Some(Stmt::Op(self.plain(&format!("{start}; {multiply}; {end}"))));
        }
        // Between two products an operand changes, as it does where the next tile is loaded.
        let exchange =
            if a.len() > 1 && self.rng.chance(50) { format!("; mov.{kind} {}, {}", a[0], a[a.len() - 1]) } else { String::new() };
        let again = if self.rng.chance(50) { format!("; {multiply}") } else { String::new() };
        Some(self.looped(cx, id, start, format!("{multiply}{exchange}{again}"), end))
    }

    /// Generates a move of matrices between registers and shared memory, or a transposition.
    pub(super) fn matrix_moves(&mut self) -> Option<Op> {
        if self.rng.chance(20) {
            return Some(self.plain("movmatrix.sync.aligned.m8n8.trans.b16 $=r, $r"));
        }
        let (before, bytes) = (self.area_used, self.threads_per_block * 16);
        let start = self.reserve(bytes, 128)?;
        self.area_used = before;
        let count = *self.rng.pick(&[1, 2, 4]);
        let trans = self.choose("{/.trans}");
        let results = vec!["$=r"; count].join(", ");
        let load = format!("ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 <{results}>, [%ta]");
        // Any thread may name any row.
        let rows = format!("and.b32 %ta, $r, {:#x}; add.u32 %ta, %ta, %tsr; add.u32 %ta, %ta, {start}", (bytes - 1) & !15);
        let own = format!("mad.lo.u32 %ta, %lin, 16, %tsr; add.u32 %ta, %ta, {start}");
        let fill = format!(".reg .b32 %ta; bar.sync 0; {own}; st.shared.v4.b32 [%ta], <$r, $r, $r, $r>");
        let text = if self.sm >= 90 && self.rng.chance(50) {
            let stored = vec!["$r"; count].join(", ");
            let store = format!("{own}; stmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 [%ta], <{stored}>");
            let read = if self.rng.chance(50) { format!("{rows}; {load}") } else { format!("{rows}; ld.shared.v2.b32 <$=r, $=r>, [%ta]") };
            format!("{fill}; bar.sync 0; {store}; bar.sync 0; {read}")
        } else {
            format!("{fill}; bar.sync 0; {rows}; {load}")
        };
        Some(self.plain(&text))
    }

    /// Generates a product of `wmma`: loads of fragments from shared memory, products, a store.
    pub(super) fn fragment_product(&mut self, cx: &Context) -> Option<Stmt> {
        let id = self.id();
        let fitting: Vec<&Fragments> = FRAGMENTS.iter().filter(|fragments| fragments.6 <= self.sm).collect();
        let &(shape, kind, registers, element, sum, bytes, _) = *self.rng.pick(&fitting);
        let before = self.area_used;
        let warps = self.threads_per_block / 32;
        // A is at the start, B after it; each warp stores its result in a part of its own.
        let start = self.reserve(bytes[0] + bytes[1], 128);
        let stored = start.and_then(|_| self.reserve(warps * bytes[2], 128));
        let (Some(start), Some(stored)) = (start, stored) else {
            self.area_used = before;
            return None;
        };
        let name = |letter: char, count: usize| -> Vec<String> { (0..count).map(|number| format!("%q{id}{letter}{number}")).collect() };
        let (a, b, c) = (name('a', registers[0]), name('b', registers[1]), name('c', registers[2]));
        let mut text = format!(
            ".reg .b32 {}; .reg .b32 %q{id}x, %q{id}t, %q{id}o; .reg .pred %q{id}f",
            [a.clone(), b.clone(), c.clone()].concat().join(", ")
        );
        let bound = self.bound(element);
        text += &format!("; bar.sync 0; {}; bar.sync 0", self.fill(id, start, bytes[0] + bytes[1], bound));
        let (rows, columns, depth) = match shape {
            "m32n8k16" => (32, 8, 16),
            "m8n32k16" => (8, 32, 16),
            _ => (16, 16, 16),
        };
        let layouts = [self.choose("{row/col}"), self.choose("{row/col}"), self.choose("{row/col}")];
        let stride = |layout: &str, in_row: usize, in_column: usize| if layout == "row" { in_row } else { in_column };
        for (matrix, registers, at, stride) in
            [('a', &a, start, stride(&layouts[0], depth, rows)), ('b', &b, start + bytes[0], stride(&layouts[1], columns, depth))]
        {
            let layout = &layouts[usize::from(matrix == 'b')];
            text += &format!(
                "; add.u32 %q{id}t, %tsr, {at}; wmma.load.{matrix}.sync.aligned.{layout}.{shape}.shared.{kind} {}, [%q{id}t], {stride}",
                list(registers)
            );
        }
        text += &format!("; {}", self.start_sum(sum, &c));
        let (d, types) = match sum {
            Sum::Integer => ("s32", format!("s32.{kind}.{kind}.s32")),
            Sum::Half => ("f16", "f16.f16".to_owned()),
            _ if kind == "f16" => ("f32", "f32.f32".to_owned()),
            _ => ("f32", format!("f32.{kind}.{kind}.f32")),
        };
        let multiply = format!(
            "wmma.mma.sync.aligned.{}.{}.{shape}.{types} {}, {}, {}, {}",
            layouts[0],
            layouts[1],
            list(&c),
            list(&a),
            list(&b),
            list(&c)
        );
        let end = format!(
            "shr.u32 %q{id}o, %lin, 5; mad.lo.u32 %q{id}o, %q{id}o, {}, %tsr; add.u32 %q{id}o, %q{id}o, {stored}; \
             wmma.store.d.sync.aligned.{}.{shape}.shared.{d} [%q{id}o], {}, {}; bar.{{sync 0/warp.sync -1}}; and.b32 %q{id}x, $r, {:#x}; \
             add.u32 %q{id}o, %q{id}o, %q{id}x; ld.shared.b32 $=r, [%q{id}o]",
            bytes[2],
            layouts[2],
            list(&c),
            stride(&layouts[2], columns, rows),
            bytes[2] - 4
        );
        let statement = self.looped(cx, id, text, multiply, end);
        self.area_used = before;
        Some(statement)
    }
}
