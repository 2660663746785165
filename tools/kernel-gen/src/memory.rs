//! Generates tests of loads and stores: spaces, types, vectors, modifiers, addresses.

mod locations;

use crate::kernel::{Generated, Kernel, bits, store};
use crate::ty::{B8, B16, B32, B64, F32, F64, INTEGERS, S8, S16, S32, S64, Ty, U8, U16, U32, U64};
use oriole_kernel_test::{Fill, Source};
use oriole_sem::convert;

const FAMILY: &str = "memory";
const THREADS: usize = 64;

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(all_types());
    tests.extend(modifiers());
    tests.extend(extensions());
    tests.extend(locations::tests());
    tests.extend(hints());
    tests
}

fn all_memory_types() -> Vec<Ty> {
    INTEGERS.into_iter().chain([U8, S8, B8, B16, B32, B64, F32, F64]).collect()
}

fn input(ty: Ty, count: usize) -> (Fill, Vec<u64>) {
    let fill = Fill::all(Source::Random { seed: 77 + ty.bits() });
    let values = fill.values(ty.element, count);
    (fill, values)
}

/// Returns `%t0` or `{%t0, %t1, ..}`.
fn registers_of(vector: usize) -> String {
    let names: Vec<String> = (0..vector).map(|n| format!("%t{n}")).collect();
    if vector == 1 { names[0].clone() } else { format!("{{{}}}", names.join(", ")) }
}

fn vector_suffix(vector: usize) -> String {
    if vector == 1 { String::new() } else { format!(".v{vector}") }
}

/// A test that copies the input buffer to the output buffer with one kind of load and store.
struct Copy<'a> {
    name: String,
    about: String,
    ty: Ty,
    vector: usize,
    load: &'a str,
    store: &'a str,
    version: &'static str,
    target: &'static str,
    /// Code before the load; the address of the source is in `%at`.
    before_load: &'a str,
    /// The last operand of the load and the store.
    hint: &'a str,
}

impl<'a> Copy<'a> {
    fn new(name: impl Into<String>, ty: Ty, vector: usize, load: &'a str, store: &'a str) -> Copy<'a> {
        let name = name.into();
        let about = format!("{load}{0}.{1} and {store}{0}.{1}", vector_suffix(vector), ty.memory);
        Copy { name, about, ty, vector, load, store, version: "8.0", target: "sm_75", before_load: "", hint: "" }
    }

    fn finish(&self) -> Generated {
        let (fill, values) = input(self.ty, THREADS * self.vector);
        let (suffix, t, step) = (vector_suffix(self.vector), self.ty.memory, self.ty.bytes() * self.vector);
        let registers = registers_of(self.vector);
        Kernel::new(FAMILY, self.name.clone(), self.about.clone())
            .platform(self.version, self.target)
            .threads(THREADS)
            .registers(&format!(".reg .{} %t<4>;", self.ty.register))
            .buffer("a", self.ty, THREADS * self.vector, fill)
            .output("d", self.ty, bits(values))
            .body(&format!("mad.wide.u32 %at, %i, {step}, %a;"))
            .body(self.before_load)
            .body(&format!("{}{suffix}.{t} {registers}, [%at]{};", self.load, self.hint))
            .body(&format!("mad.wide.u32 %at, %i, {step}, %d;"))
            .body(&format!("{}{suffix}.{t} [%at], {registers}{};", self.store, self.hint))
            .finish()
    }
}

fn all_types() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in all_memory_types() {
        for vector in [1, 2, 4] {
            if vector * ty.bytes() > 16 {
                continue;
            }
            let suffix = if vector == 1 { String::new() } else { format!("_v{vector}") };
            tests.push(Copy::new(format!("global{suffix}_{}", ty.name), ty, vector, "ld.global", "st.global").finish());
            tests.push(through_generic(ty, vector, &suffix));
            tests.push(through_shared(ty, vector, &suffix));
            tests.push(through_local(ty, vector, &suffix));
        }
    }
    tests
}

fn through_generic(ty: Ty, vector: usize, suffix: &str) -> Generated {
    let (fill, values) = input(ty, THREADS * vector);
    let (v, t, step, registers) = (vector_suffix(vector), ty.memory, ty.bytes() * vector, registers_of(vector));
    Kernel::new(FAMILY, format!("generic{suffix}_{}", ty.name), format!("ld{v}.{t} and st{v}.{t} with generic addresses"))
        .threads(THREADS)
        .registers(&format!(".reg .{} %t<4>;", ty.register))
        .buffer("a", ty, THREADS * vector, fill)
        .output("d", ty, bits(values))
        .body(&format!(
            "mad.wide.u32 %at, %i, {step}, %a;
             cvta.global.u64 %at, %at;
             ld{v}.{t} {registers}, [%at];
             mad.wide.u32 %at, %i, {step}, %d;
             cvta.global.u64 %at, %at;
             st{v}.{t} [%at], {registers};"
        ))
        .finish()
}

/// Each thread reads the value that the thread at the other end of the block wrote.
fn through_shared(ty: Ty, vector: usize, suffix: &str) -> Generated {
    let (fill, values) = input(ty, THREADS * vector);
    let (v, t, step, registers) = (vector_suffix(vector), ty.memory, ty.bytes() * vector, registers_of(vector));
    let mirrored = values.chunks(vector).rev().flatten().copied();
    Kernel::new(FAMILY, format!("shared{suffix}_{}", ty.name), format!("ld.shared{v}.{t} and st.shared{v}.{t}"))
        .threads(THREADS)
        .module(&format!(".shared .align 16 .b8 area[{}];", THREADS * step))
        .registers(&format!(".reg .{} %t<4>;", ty.register))
        .buffer("a", ty, THREADS * vector, fill)
        .output("d", ty, bits(mirrored))
        .body(&format!(
            "mad.wide.u32 %at, %i, {step}, %a;
             ld.global{v}.{t} {registers}, [%at];
             mov.u32 %r1, area;
             mad.lo.u32 %r2, %i, {step}, %r1;
             st.shared{v}.{t} [%r2], {registers};
             bar.sync 0;
             sub.u32 %r3, {last}, %i;
             mad.lo.u32 %r4, %r3, {step}, %r1;
             ld.shared{v}.{t} {registers}, [%r4];
             mad.wide.u32 %at, %i, {step}, %d;
             st.global{v}.{t} [%at], {registers};",
            last = THREADS - 1
        ))
        .finish()
}

/// The index into the local array depends on the thread, so that the array cannot be kept in registers.
fn through_local(ty: Ty, vector: usize, suffix: &str) -> Generated {
    let (fill, values) = input(ty, THREADS * vector);
    let (v, t, step, registers) = (vector_suffix(vector), ty.memory, ty.bytes() * vector, registers_of(vector));
    Kernel::new(FAMILY, format!("local{suffix}_{}", ty.name), format!("ld.local{v}.{t} and st.local{v}.{t}"))
        .threads(THREADS)
        .registers(&format!(".reg .{} %t<4>;\n.local .align 16 .b8 area[{}];", ty.register, step * 8))
        .buffer("a", ty, THREADS * vector, fill)
        .output("d", ty, bits(values))
        .body(&format!(
            "mad.wide.u32 %at, %i, {step}, %a;
             ld.global{v}.{t} {registers}, [%at];
             mov.u64 %rd1, area;
             and.b32 %r1, %i, 7;
             mad.wide.u32 %rd2, %r1, {step}, %rd1;
             st.local{v}.{t} [%rd2], {registers};
             xor.b32 %r2, %i, 9;
             and.b32 %r2, %r2, 7;
             xor.b32 %r2, %r2, 1;
             mad.wide.u32 %rd3, %r2, {step}, %rd1;
             ld.local{v}.{t} {registers}, [%rd3];
             mad.wide.u32 %at, %i, {step}, %d;
             st.global{v}.{t} [%at], {registers};"
        ))
        .finish()
}

fn modifiers() -> Vec<Generated> {
    let mut tests = Vec::new();
    let pairs: [(&str, &str, &str, &str); 39] = [
        ("ld.global.ca", "st.global.wb", "8.0", "sm_75"),
        ("ld.global.cg", "st.global.cg", "8.0", "sm_75"),
        ("ld.global.cs", "st.global.cs", "8.0", "sm_75"),
        ("ld.global.lu", "st.global.wt", "8.0", "sm_75"),
        ("ld.global.cv", "st.global.wt", "8.0", "sm_75"),
        ("ld.global.nc", "st.global", "8.0", "sm_75"),
        ("ld.global.ca.nc", "st.global", "8.0", "sm_75"),
        ("ld.global.cg.nc", "st.global", "8.0", "sm_75"),
        ("ld.global.cs.nc", "st.global", "8.0", "sm_75"),
        ("ldu.global", "st.global", "8.0", "sm_75"),
        ("ld.volatile.global", "st.volatile.global", "8.0", "sm_75"),
        ("ld.weak.global", "st.weak.global", "8.0", "sm_75"),
        ("ld.relaxed.cta.global", "st.relaxed.cta.global", "8.0", "sm_75"),
        ("ld.relaxed.gpu.global", "st.relaxed.gpu.global", "8.0", "sm_75"),
        ("ld.relaxed.sys.global", "st.relaxed.sys.global", "8.0", "sm_75"),
        ("ld.relaxed.cluster.global", "st.relaxed.cluster.global", "8.0", "sm_90"),
        ("ld.acquire.cta.global", "st.release.cta.global", "8.0", "sm_75"),
        ("ld.acquire.gpu.global", "st.release.gpu.global", "8.0", "sm_75"),
        ("ld.acquire.sys.global", "st.release.sys.global", "8.0", "sm_75"),
        ("ld.acquire.cluster.global", "st.release.cluster.global", "8.0", "sm_90"),
        ("ld.relaxed.gpu.global.L1::no_allocate", "st.relaxed.gpu.global.L1::no_allocate", "8.0", "sm_75"),
        ("ld.global.L1::evict_normal", "st.global.L1::evict_normal", "8.0", "sm_75"),
        ("ld.global.L1::evict_unchanged", "st.global.L1::evict_unchanged", "8.0", "sm_75"),
        ("ld.global.L1::evict_first", "st.global.L1::evict_first", "8.0", "sm_75"),
        ("ld.global.L1::evict_last", "st.global.L1::evict_last", "8.0", "sm_75"),
        ("ld.global.L1::no_allocate", "st.global.L1::no_allocate", "8.0", "sm_75"),
        ("ld.global.nc.L1::no_allocate", "st.global", "8.0", "sm_75"),
        ("ld.global.nc.L1::evict_last", "st.global", "8.0", "sm_75"),
        ("ld.global.L2::64B", "st.global", "8.0", "sm_75"),
        ("ld.global.L2::128B", "st.global", "8.0", "sm_75"),
        ("ld.global.L2::256B", "st.global", "8.0", "sm_80"),
        ("ld.global.nc.L2::128B", "st.global", "8.0", "sm_75"),
        ("ld.global.L1::evict_last.L2::256B", "st.global", "8.0", "sm_80"),
        ("ld.mmio.relaxed.sys.global", "st.mmio.relaxed.sys.global", "8.2", "sm_75"),
        ("ld.volatile", "st.volatile", "8.0", "sm_75"),
        ("ld.relaxed.gpu", "st.relaxed.gpu", "8.0", "sm_75"),
        ("ld.acquire.gpu", "st.release.gpu", "8.0", "sm_75"),
        ("ld.ca", "st.wb", "8.0", "sm_75"),
        ("ld.cs", "st.cs", "8.0", "sm_75"),
    ];
    for (load, store, version, target) in pairs {
        let generic = !load.contains("global");
        for ty in [U32, F64, U16] {
            let name = format!("{}_{}", load.replace("::", "_").replace('.', "_"), ty.name);
            let mut copy = Copy::new(name, ty, 1, load, store);
            (copy.version, copy.target) = (version, target);
            // Buffers are in global memory, whose generic addresses are the same.
            copy.before_load = if generic { "cvta.global.u64 %at, %at;" } else { "" };
            if !(load.contains("mmio") && ty == U16) {
                tests.push(copy.finish());
            }
        }
        let plain_memory = ["relaxed", "acquire", "volatile", "mmio", "weak"].iter().all(|word| !load.contains(word));
        if plain_memory && !generic {
            let name = format!("{}_v4_f32", load.replace("::", "_").replace('.', "_"));
            let mut copy = Copy::new(name, F32, 4, load, store);
            (copy.version, copy.target) = (version, target);
            tests.push(copy.finish());
        }
    }
    tests.extend(shared_modifiers());
    tests
}

fn shared_modifiers() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (load, store) in [
        ("ld.volatile.shared", "st.volatile.shared"),
        ("ld.relaxed.cta.shared", "st.relaxed.cta.shared"),
        ("ld.acquire.cta.shared", "st.release.cta.shared"),
        ("ld.weak.shared", "st.weak.shared"),
        ("ld.shared::cta", "st.shared::cta"),
    ] {
        let name = load.replace("::", "_").replace('.', "_");
        let test = Kernel::new(FAMILY, name, format!("{load} and {store}"))
            .threads(THREADS)
            .module(".shared .align 8 .b8 area[512];")
            .output("d", U64, bits((0..THREADS as u64).map(|i| (i ^ 21) * 0x1_0000_0001)))
            .body(&format!(
                "mov.u32 %r1, area;
                 mad.lo.u32 %r2, %i, 8, %r1;
                 mov.b64 %rd1, {{%i, %i}};
                 {store}.u64 [%r2], %rd1;
                 bar.sync 0;
                 xor.b32 %r3, %i, 21;
                 mad.lo.u32 %r2, %r3, 8, %r1;
                 {load}.u64 %rd2, [%r2];"
            ))
            .body(&store_line(U64, "%rd2"));
        tests.push(test.finish());
    }
    tests
}

fn store_line(ty: Ty, register: &str) -> String {
    store(ty, register, "d")
}

/// Generates narrow loads into wide registers, and stores of the lower parts of wide registers.
fn extensions() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (from, to) in [
        (U8, U32),
        (S8, S32),
        (U8, U64),
        (S8, S64),
        (U16, U32),
        (S16, S32),
        (U16, U64),
        (S16, S64),
        (U32, U64),
        (S32, S64),
        (B8, B32),
        (B16, B64),
    ] {
        for space in ["global", "shared"] {
            let (fill, values) = input(from, THREADS);
            let extended = values.iter().map(|&x| convert::int_to_int(to.int(), from.int(), x, false));
            let step = from.bytes();
            let through = if space == "shared" {
                format!(
                    "ld.global.{0} %t0, [%at];
                     mov.u32 %r1, area;
                     mad.lo.u32 %r2, %i, {step}, %r1;
                     st.shared.{0} [%r2], %t0;
                     ld.shared.{0} %t1, [%r2];",
                    from.memory
                )
            } else {
                format!("ld.global.{} %t1, [%at];", from.memory)
            };
            let test = Kernel::new(FAMILY, format!("extend_{}_{}_{space}", from.name, to.name), "a narrow load fills a wide register")
                .threads(THREADS)
                .module(if space == "shared" { ".shared .align 8 .b8 area[512];" } else { "" })
                .registers(&format!(".reg .{} %t<2>;", to.register))
                .buffer("a", from, THREADS, fill)
                .output("d", to, bits(extended))
                .body(&format!("mad.wide.u32 %at, %i, {step}, %a;"))
                .body(&through)
                .body(&store_line(to, "%t1"));
            tests.push(test.finish());
        }
        let (fill, values) = input(to, THREADS);
        let truncated = values.iter().map(|&x| x & from.mask());
        let test =
            Kernel::new(FAMILY, format!("truncate_{}_{}", to.name, from.name), "a narrow store takes the lower part of a wide register")
                .threads(THREADS)
                .registers(&format!(".reg .{} %t0;", to.register))
                .buffer("a", to, THREADS, fill)
                .output("d", from, bits(truncated))
                .body(&format!("mad.wide.u32 %at, %i, {}, %a;\nld.global.{} %t0, [%at];", to.bytes(), to.memory))
                .body(&store_line(from, "%t0"));
        tests.push(test.finish());
    }
    tests
}

/// Generates hints that must not change the result.
fn hints() -> Vec<Generated> {
    let mut tests = Vec::new();
    for (name, hint, version, target) in [
        ("prefetch_L1", "prefetch.global.L1 [%at];", "8.0", "sm_75"),
        ("prefetch_L2", "prefetch.global.L2 [%at];", "8.0", "sm_75"),
        ("prefetch_evict_last", "prefetch.global.L2::evict_last [%at];", "8.0", "sm_80"),
        ("prefetch_evict_normal", "prefetch.global.L2::evict_normal [%at];", "8.0", "sm_80"),
        ("applypriority", "and.b64 %rd1, %at, -128;\napplypriority.global.L2::evict_normal [%rd1], 128;", "8.0", "sm_80"),
        ("prefetch_generic", "cvta.global.u64 %rd1, %at;\nprefetch.L1 [%rd1];", "8.0", "sm_75"),
        ("prefetchu", "cvta.global.u64 %rd1, %at;\nprefetchu.L1 [%rd1];", "8.0", "sm_75"),
    ] {
        let mut copy = Copy::new(name, U32, 1, "ld.global", "st.global");
        (copy.before_load, copy.version, copy.target) = (hint, version, target);
        tests.push(copy.finish());
    }
    for (name, policy) in [
        ("policy_fractional", "createpolicy.fractional.L2::evict_last.b64 %rd9, 0.5;"),
        ("policy_evict_first", "createpolicy.fractional.L2::evict_first.b64 %rd9;"),
        ("policy_two", "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %rd9, 0.25;"),
    ] {
        let mut copy = Copy::new(name, F32, 4, "ld.global.L2::cache_hint", "st.global.L2::cache_hint");
        (copy.before_load, copy.version, copy.target, copy.hint) = (policy, "8.0", "sm_80", ", %rd9");
        tests.push(copy.finish());
    }
    tests
}
