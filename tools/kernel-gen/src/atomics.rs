//! Generates tests of `atom` and `red`: all operations, types, spaces, orders and scopes.

use crate::kernel::{Generated, Kernel, bits, load, store};
use crate::ty::{B16, B32, B64, BF16, BF16X2, F16, F16X2, F32, F64, S32, S64, Ty, U32, U64};
use oriole_kernel_test::{Expected, Fill, Source, Tolerance};
use oriole_sem::float::add as float_add;
use oriole_sem::{Int, Mode};
use std::rc::Rc;

const FAMILY: &str = "atomics";
const THREADS: usize = 64;

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for row in rows() {
        tests.extend(row.elementwise());
    }
    tests.extend(compare_and_swap());
    tests.extend(exchange_128());
    tests.extend(orders_and_scopes());
    tests.extend(contention());
    tests.extend(vectors());
    tests.extend(vectors_of_halves());
    tests
}

/// Computes the new value from the old value, the operand and the space.
type Meaning = Rc<dyn Fn(u64, u64, &str) -> Vec<Expected>>;

/// One operation on one type, with the value in memory afterwards.
struct Row {
    name: &'static str,
    /// The modifier between the operation and the type, such as `.noftz`.
    modifier: &'static str,
    ty: Ty,
    version: &'static str,
    target: &'static str,
    has_red: bool,
    meaning: Meaning,
}

fn row(name: &'static str, ty: Ty, meaning: impl Fn(Int, u64, u64) -> u64 + 'static) -> Row {
    let meaning = Rc::new(move |a, b, _: &str| vec![Expected::Bits(meaning(ty.int(), a, b))]);
    Row { name, modifier: "", ty, version: "8.0", target: "sm_75", has_red: name != "exch", meaning }
}

fn rows() -> Vec<Row> {
    let mut rows = Vec::new();
    for ty in [B32, B64] {
        rows.push(row("and", ty, |_, a, b| a & b));
        rows.push(row("or", ty, |_, a, b| a | b));
        rows.push(row("xor", ty, |_, a, b| a ^ b));
        rows.push(row("exch", ty, |_, _, b| b));
    }
    for ty in [U32, S32, U64] {
        rows.push(row("add", ty, Int::add));
    }
    for ty in [U32, S32, U64, S64] {
        rows.push(row("min", ty, Int::min));
        rows.push(row("max", ty, Int::max));
    }
    rows.push(row("inc", U32, |_, a, b| if a >= b { 0 } else { a + 1 }));
    rows.push(row("dec", U32, |_, a, b| if a == 0 || a > b { b } else { a - 1 }));
    rows.extend(float_rows());
    rows
}

/// Returns the rows of float `add`. f32 is flushed in global memory but not in shared memory.
fn float_rows() -> Vec<Row> {
    let types: [(Ty, &'static str, &'static str); 6] = [
        (F32, "", "sm_75"),
        (F64, "", "sm_75"),
        (F16, ".noftz", "sm_75"),
        (F16X2, ".noftz", "sm_75"),
        (BF16, ".noftz", "sm_90"),
        (BF16X2, ".noftz", "sm_90"),
    ];
    let make = |(ty, modifier, target): (Ty, &'static str, &'static str)| {
        let meaning = move |a: u64, b: u64, space: &str| {
            let mode = Mode::RN.ftz(ty == F32 && space != "shared");
            let lanes = ty.split(a).into_iter().zip(ty.split(b));
            let sum = |(a, b)| float_add(ty.format(), a, b, mode);
            lanes.map(sum).map(|bits| if ty.format().is_nan(bits) { Expected::Nan } else { Expected::Bits(bits) }).collect()
        };
        Row { name: "add", modifier, ty, version: "7.8", target, has_red: true, meaning: Rc::new(meaning) }
    };
    types.map(make).into()
}

impl Row {
    /// Generates tests in which each thread has its own location, so that both the old and the new value are known.
    fn elementwise(&self) -> Vec<Generated> {
        let mut tests = Vec::new();
        for space in ["global", "shared", "generic"] {
            tests.push(self.in_space("atom", space));
            if self.has_red {
                tests.push(self.in_space("red", space));
            }
        }
        tests
    }

    fn in_space(&self, instruction: &str, space: &str) -> Generated {
        let (ty, count) = (self.ty, THREADS * self.ty.lanes);
        let seed = 31;
        let half = count / 2;
        let fill = |seed: u32| Fill::of(&[(Source::Pick { seed }, half), (Source::Sized { seed }, half)]);
        let join = |fill: &Fill| -> Vec<u64> { fill.values(ty.element, count).chunks(ty.lanes).map(|lanes| ty.join(lanes)).collect() };
        let (a, b) = (join(&fill(seed)), join(&fill(seed + 1)));
        let after: Vec<Expected> = a.iter().zip(&b).flat_map(|(&a, &b)| (self.meaning)(a, b, space)).collect();
        let space_part = if space == "generic" { String::new() } else { format!(".{space}") };
        let head = format!("{instruction}{space_part}.{}{}.{}", self.name, self.modifier, ty.name);
        let atomic = if instruction == "atom" { format!("{head} %old, [%place], %val;") } else { format!("{head} [%place], %val;") };
        let mut kernel =
            Kernel::new(FAMILY, format!("{instruction}_{}_{}_{space}", self.name, ty.name), format!("{head}, one thread a place"))
                .platform(self.version, self.target)
                .threads(THREADS)
                .registers(&format!(".reg .{} %val, %old;\n.reg .u64 %place;", ty.register))
                .buffer("b", ty, THREADS, fill(seed + 1));
        if space == "shared" {
            kernel = kernel
                .buffer("a", ty, THREADS, fill(seed))
                .output("d", ty, after)
                .module(&format!(".shared .align 8 .b8 area[{}];", THREADS * ty.bytes()));
        } else {
            kernel = kernel.buffer("d", ty, THREADS, fill(seed)).expect("d", Tolerance::Exact, after);
        }
        kernel = kernel.body(&load(ty, "%val", "b")).body(&self.place(space)).body(&atomic);
        if space == "shared" {
            kernel = kernel.body(&format!("ld.shared.{} %val, [%place];", ty.memory)).body(&store(ty, "%val", "d"));
        }
        if instruction == "atom" {
            let before = a.iter().flat_map(|&bits| ty.split(bits)).map(Expected::Bits).collect();
            kernel = kernel.output("before", ty, before);
            kernel = kernel.registers("\n.reg .u64 %old_at;").body(&format!(
                "mad.wide.u32 %old_at, %i, {}, %before;\nst.global.{} [%old_at], %old;",
                ty.bytes(),
                ty.memory
            ));
        }
        kernel.finish()
    }

    /// Returns code that puts the address of the thread's location into `%place` and, in shared memory, stores the initial value.
    fn place(&self, space: &str) -> String {
        let (step, t) = (self.ty.bytes(), self.ty.memory);
        match space {
            "global" => format!("mad.wide.u32 %place, %i, {step}, %d;"),
            "generic" => format!("mad.wide.u32 %place, %i, {step}, %d;\ncvta.global.u64 %place, %place;"),
            _ => format!(
                "mov.u64 %place, area;
                 mad.wide.u32 %place, %i, {step}, %place;
                 mad.wide.u32 %at, %i, {step}, %a;
                 ld.global.{t} %old, [%at];
                 st.shared.{t} [%place], %old;"
            ),
        }
    }
}

fn compare_and_swap() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [B16, B32, B64] {
        for space in ["global", "shared"] {
            let values: Vec<u64> = (0..THREADS as u64).map(|i| (i * 0x0123_4567_89ab % 0xffff) & ty.mask()).collect();
            let wanted: Vec<u64> = (0..THREADS).map(|i| if i % 3 == 0 { values[i] ^ 1 } else { values[i] }).collect();
            let explicit = |values: &[u64]| Fill(values.iter().map(|&bits| crate::elementwise::value(bits)).collect());
            let after = (0..THREADS).map(|i| if i % 3 == 0 { values[i] } else { 0x55aa & ty.mask() });
            let t = ty.memory;
            let step = ty.bytes();
            let place = if space == "global" {
                format!("mad.wide.u32 %place, %i, {step}, %d;")
            } else {
                format!(
                    "mov.u64 %place, area;
                     mad.wide.u32 %place, %i, {step}, %place;
                     mad.wide.u32 %at, %i, {step}, %d;
                     ld.global.{t} %old, [%at];
                     st.shared.{t} [%place], %old;"
                )
            };
            let back = if space == "global" {
                String::new()
            } else {
                format!("ld.shared.{t} %wanted_value, [%place];\nmad.wide.u32 %at, %i, {step}, %d;\nst.global.{t} [%at], %wanted_value;")
            };
            let test = Kernel::new(FAMILY, format!("atom_cas_{}_{space}", ty.name), format!("atom.{space}.cas.{}", ty.name))
                .threads(THREADS)
                .module(&if space == "shared" { format!(".shared .align 8 .b8 area[{}];", THREADS * step) } else { String::new() })
                .registers(&format!(".reg .{} %wanted_value, %new, %old;\n.reg .u64 %place;", ty.register))
                .buffer("d", ty, THREADS, explicit(&values))
                .expect("d", Tolerance::Exact, bits(after))
                .buffer("wanted", ty, THREADS, explicit(&wanted))
                .output("before", ty, bits(values.iter().copied()))
                .body(&load(ty, "%wanted_value", "wanted"))
                .body(&format!("mov.{} %new, 0x55aa;", ty.register))
                .body(&place)
                .body(&format!("atom.{space}.cas.{} %old, [%place], %wanted_value, %new;", ty.name))
                .body(&store(ty, "%old", "before"))
                .body(&back);
            tests.push(test.finish());
        }
    }
    tests
}

fn exchange_128() -> Vec<Generated> {
    let values: Vec<u64> = (0..2 * THREADS as u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    let fill = Fill(values.iter().map(|&bits| crate::elementwise::value(bits)).collect());
    let after = (0..THREADS as u64).flat_map(|i| [i, 7]);
    let exchange = Kernel::new(FAMILY, "atom_exch_b128", "atom.exch.b128")
        .platform("8.3", "sm_90")
        .threads(THREADS)
        .registers(".reg .b128 %new, %old;")
        .buffer("d", U64, 2 * THREADS, fill.clone())
        .expect("d", Tolerance::Exact, bits(after.clone()))
        .output("before", U64, bits(values.iter().copied()))
        .body(
            "mad.wide.u32 %at, %i, 16, %d;
             cvt.u64.u32 %rd1, %i;
             mov.u64 %rd2, 7;
             mov.b128 %new, {%rd1, %rd2};
             atom.global.exch.b128 %old, [%at], %new;
             mov.b128 {%rd3, %rd4}, %old;
             mad.wide.u32 %at, %i, 16, %before;
             st.global.v2.u64 [%at], {%rd3, %rd4};",
        );
    let swap = Kernel::new(FAMILY, "atom_cas_b128", "atom.cas.b128 that finds what it wants")
        .platform("8.3", "sm_90")
        .threads(THREADS)
        .registers(".reg .b128 %new, %old, %now;")
        .buffer("d", U64, 2 * THREADS, fill)
        .expect("d", Tolerance::Exact, bits(after))
        .body(
            "mad.wide.u32 %at, %i, 16, %d;
             ld.global.v2.u64 {%rd5, %rd6}, [%at];
             mov.b128 %now, {%rd5, %rd6};
             cvt.u64.u32 %rd1, %i;
             mov.u64 %rd2, 7;
             mov.b128 %new, {%rd1, %rd2};
             atom.global.cas.b128 %old, [%at], %now, %new;",
        );
    [exchange, swap].map(Kernel::finish).into()
}

fn orders_and_scopes() -> Vec<Generated> {
    let mut tests = Vec::new();
    let count = THREADS as u64;
    for order in ["relaxed", "acquire", "release", "acq_rel"] {
        for scope in ["cta", "cluster", "gpu", "sys"] {
            let target = if scope == "cluster" { "sm_90" } else { "sm_75" };
            let test =
                Kernel::new(FAMILY, format!("atom_{order}_{scope}"), format!("atom.{order}.{scope}: tickets of one counter, in any order"))
                    .platform("8.0", target)
                    .threads(THREADS)
                    .buffer("counter", U32, 1, Fill::zero())
                    .expect("counter", Tolerance::Exact, bits([count]))
                    .output_near("d", U32, Tolerance::AnyOrder, bits(0..count))
                    .body(&format!("atom.{order}.{scope}.global.add.u32 %r1, [%counter], 1;"))
                    .body(&store(U32, "%r1", "d"));
            tests.push(test.finish());
            if matches!(order, "relaxed" | "release") {
                let test = Kernel::new(FAMILY, format!("red_{order}_{scope}"), format!("red.{order}.{scope}"))
                    .platform("8.0", target)
                    .threads(THREADS)
                    .buffer("counter", U64, 1, Fill::zero())
                    .expect("counter", Tolerance::Exact, bits([count * (count - 1) / 2]))
                    .body(&format!("cvt.u64.u32 %rd1, %i;\nred.{order}.{scope}.global.add.u64 [%counter], %rd1;"));
                tests.push(test.finish());
            }
        }
    }
    tests
}

/// Generates tests with many threads and blocks on few locations.
fn contention() -> Vec<Generated> {
    let mut tests = Vec::new();
    let threads = 1024u64;
    type Fold = fn(u64, u64) -> u64;
    let rows: [(&str, Ty, u64, Fold); 7] = [
        ("add", U32, 0, |a, b| a + b),
        ("min", S32, 0x7fff_ffff, |a, b| Int { bits: 32, signed: true }.min(a, b)),
        ("max", U32, 0, |a, b| a.max(b)),
        ("and", B32, 0xffff_ffff, |a, b| a & b),
        ("or", B32, 0, |a, b| a | b),
        ("xor", B32, 0, |a, b| a ^ b),
        ("add", U64, 0, |a, b| a + b),
    ];
    for (name, ty, start, fold) in rows {
        let wide = ty.bits() == 64;
        let value = |i: u64| (i * 0x9e35) & 0x7fff_ffff ^ 0x155;
        for instruction in ["red", "atom"] {
            let result = if instruction == "atom" { if wide { "%rd2, " } else { "%r2, " } } else { "" };
            let test =
                Kernel::new(FAMILY, format!("{instruction}_{name}_{}_contended", ty.name), "all threads of several blocks, eight places")
                    .threads(threads as usize)
                    .buffer("d", ty, 8, Fill::all(Source::Value(start)))
                    .expect(
                        "d",
                        Tolerance::Exact,
                        bits((0..8).map(|place| (0..threads).filter(|i| i % 8 == place).map(value).fold(start, fold))),
                    )
                    .body(&format!(
                        "mul.lo.u32 %r1, %i, 0x9e35;
                     and.b32 %r1, %r1, 0x7fffffff;
                     xor.b32 %r1, %r1, 0x155;
                     cvt.u64.u32 %rd1, %r1;
                     and.b32 %r3, %i, 7;
                     mad.wide.u32 %at, %r3, {}, %d;
                     {instruction}.global.{name}.{} {result}[%at], {};",
                        ty.bytes(),
                        ty.name,
                        if wide { "%rd1" } else { "%r1" }
                    ));
            tests.push(test.finish());
        }
    }
    tests.push(histogram());
    tests.push(cas_loop());
    tests.push(one_address(threads));
    tests.extend(["global", "shared"].map(contended_halves));
    tests
}

fn histogram() -> Generated {
    let fill = Fill::all(Source::Random { seed: 99 });
    let values = fill.values(U32.element, 512);
    Kernel::new(FAMILY, "shared_histogram", "counts in shared memory, added to global memory")
        .threads(512)
        .module(".shared .align 4 .b8 counts[128];")
        .buffer("a", U32, 512, fill)
        .output("d", U32, bits((0..32).map(|bin| values.iter().filter(|&&x| x % 32 == bin).count() as u64)))
        .body(
            "mov.u32 %r1, %tid.x;
             mov.u32 %r2, counts;
             setp.lt.u32 %p1, %r1, 32;
             mad.lo.u32 %r3, %r1, 4, %r2;
             @%p1 st.shared.u32 [%r3], 0;
             bar.sync 0;",
        )
        .body(&load(U32, "%r4", "a"))
        .body(
            "and.b32 %r4, %r4, 31;
             mad.lo.u32 %r5, %r4, 4, %r2;
             red.shared.add.u32 [%r5], 1;
             bar.sync 0;
             @!%p1 bra DONE;
             ld.shared.u32 %r6, [%r3];
             mad.wide.u32 %at, %r1, 4, %d;
             red.global.add.u32 [%at], %r6;
             DONE:",
        )
        .finish()
}

fn cas_loop() -> Generated {
    let product = (0..256u64).fold(1u32, |product, i| product.wrapping_mul(2 * i as u32 + 1));
    Kernel::new(FAMILY, "cas_loop_multiply", "a product by compare-and-swap loops")
        .threads(256)
        .buffer("d", U32, 1, Fill::all(Source::Value(1)))
        .expect("d", Tolerance::Exact, bits([u64::from(product)]))
        .body(
            "mad.lo.u32 %r1, %i, 2, 1;
             ld.global.u32 %r2, [%d];
             AGAIN:
             mul.lo.u32 %r3, %r2, %r1;
             atom.global.cas.b32 %r4, [%d], %r2, %r3;
             setp.ne.u32 %p1, %r4, %r2;
             mov.u32 %r2, %r4;
             @%p1 bra AGAIN;",
        )
        .finish()
}

/// Generates a test in which each thread replaces its number by the next one in the same 16 bits. In any order of execution, the value
/// afterwards is the number of successful swaps.
fn contended_halves(space: &str) -> Generated {
    let place = if space == "global" { "%word" } else { "area" };
    let name = format!("atom_cas_b16_{space}_contended");
    Kernel::new(FAMILY, name, format!("atom.{space}.cas.b16 by all threads of a warp on one place: value minus successes, plus 7"))
        .shape([1; 3], [32, 1, 1])
        .module(if space == "shared" { ".shared .align 4 .b32 area;" } else { "" })
        .registers(".reg .b16 %wanted, %new, %old;")
        .buffer("word", U32, 1, Fill::zero())
        .buffer("successes", U32, 1, Fill::zero())
        .output("d", U32, bits([7]))
        .body(&format!(
            "{}cvt.u16.u32 %wanted, %i;
             add.u16 %new, %wanted, 1;
             atom.{space}.cas.b16 %old, [{place}+2], %wanted, %new;
             setp.eq.u16 %p1, %old, %wanted;
             @%p1 red.global.add.u32 [%successes], 1;
             bar.sync 0;
             setp.ne.u32 %p2, %i, 0;
             @%p2 bra DONE;
             ld.{space}.u16 %r1, [{place}+2];
             ld.global.u32 %r2, [%successes];
             sub.u32 %r3, %r1, %r2;
             add.u32 %r3, %r3, 7;
             st.global.u32 [%d], %r3;
             DONE:",
            if space == "shared" { "st.shared.u32 [area], 0;\nbar.sync 0;\n" } else { "" }
        ))
        .finish()
}

/// Generates a test of the pattern that compilers turn into one atomic per warp.
fn one_address(threads: u64) -> Generated {
    Kernel::new(FAMILY, "atom_add_same_address", "one address for all: sums and tickets under a predicate")
        .threads(threads as usize)
        .buffer("counter", U32, 1, Fill::zero())
        .expect("counter", Tolerance::Exact, bits([threads / 2 * 3]))
        .output_near("d", U32, Tolerance::AnyOrder, bits((0..threads).map(|i| if i < threads / 2 { i * 3 } else { 9_999_999 })))
        .body(
            "and.b32 %r1, %i, 1;
             setp.eq.u32 %p1, %r1, 0;
             mov.u32 %r2, 9999999;
             @%p1 atom.global.add.u32 %r2, [%counter], 3;",
        )
        .body(&store(U32, "%r2", "d"))
        .finish()
}

fn vectors() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (vector, instruction) in [(2, "atom"), (4, "atom"), (2, "red"), (4, "red")] {
        let count = THREADS * vector;
        let fill = |seed: u32| Fill::all(Source::Sized { seed });
        let (a, b) = (fill(1).values(F32.element, count), fill(2).values(F32.element, count));
        let sum = a.iter().zip(&b).map(|(&a, &b)| float_add(F32.format(), a, b, Mode::RN.ftz(true)));
        let names = |stem: &str| (0..vector).map(|n| format!("%{stem}{n}")).collect::<Vec<_>>().join(", ");
        let (values, old) = (names("val"), names("old"));
        let step = vector * 4;
        let atomic = match instruction {
            "atom" => format!(
                "atom.global.v{vector}.f32.add {{{old}}}, [%at], {{{values}}};\nmad.wide.u32 %at, %i, {step}, %before;\nst.global.v{vector}.f32 [%at], {{{old}}};"
            ),
            _ => format!("red.global.v{vector}.f32.add [%at], {{{values}}};"),
        };
        let mut kernel = Kernel::new(FAMILY, format!("{instruction}_add_v{vector}_f32"), format!("{instruction}.global.v{vector}.f32.add"))
            .platform("8.1", "sm_90")
            .threads(THREADS)
            .registers(".reg .f32 %val<4>, %old<4>;")
            .buffer("b", F32, count, fill(2))
            .buffer("d", F32, count, fill(1))
            .expect("d", Tolerance::Exact, bits(sum));
        if instruction == "atom" {
            kernel = kernel.output("before", F32, bits(a.iter().copied()));
        }
        let test = kernel.body(&format!(
            "mad.wide.u32 %at, %i, {step}, %b;
             ld.global.v{vector}.f32 {{{values}}}, [%at];
             mad.wide.u32 %at, %i, {step}, %d;
             {atomic}"
        ));
        tests.push(test.finish());
    }
    tests
}

fn vectors_of_halves() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (vector, ty) in [(2, F16), (4, BF16), (8, F16)] {
        let (count, step) = (THREADS * vector, 2 * vector);
        let fill = |seed: u32| Fill::all(Source::Sized { seed });
        let (a, b) = (fill(1).values(ty.element, count), fill(2).values(ty.element, count));
        let sum = a.iter().zip(&b).map(|(&a, &b)| float_add(ty.format(), a, b, Mode::RN));
        let names = |stem: &str| (0..vector).map(|n| format!("%{stem}{n}")).collect::<Vec<_>>();
        let (values, old) = (names("val"), names("old"));
        // Loads and stores have at most four elements.
        let parts = |text: &dyn Fn(usize, &str) -> String, names: &[String]| {
            let part = |(number, names): (usize, &[String])| text(8 * number, &names.join(", "));
            names.chunks(4).enumerate().map(part).collect::<Vec<_>>().join("\n")
        };
        let width = vector.min(4);
        let loads = parts(&|offset, names| format!("ld.global.v{width}.b16 {{{names}}}, [%at+{offset}];"), &values);
        let stores = parts(&|offset, names| format!("st.global.v{width}.b16 [%at+{offset}], {{{names}}};"), &old);
        let head = format!("atom.global.add.noftz.v{vector}.{}", ty.name);
        let test = Kernel::new(FAMILY, format!("atom_add_v{vector}_{}", ty.name), head.clone())
            .platform("8.1", "sm_90")
            .threads(THREADS)
            .registers(".reg .b16 %val<8>, %old<8>;")
            .buffer("b", ty, count, fill(2))
            .buffer("d", ty, count, fill(1))
            .expect("d", Tolerance::Exact, bits(sum))
            .output("before", ty, bits(a.iter().copied()))
            .body(&format!(
                "mad.wide.u32 %at, %i, {step}, %b;
                 {loads}
                 mad.wide.u32 %at, %i, {step}, %d;
                 {head} {{{}}}, [%at], {{{}}};
                 mad.wide.u32 %at, %i, {step}, %before;
                 {stores}",
                old.join(", "),
                values.join(", ")
            ));
        tests.push(test.finish());
    }
    tests
}
