//! Generates tests of clusters: remote shared memory, the barrier of the cluster, remote `mbarrier` arrivals, multicast copies, `st.async`
//! and `red.async`.
//!
//! Thread `i` of the grid starts with word `i` of `a` in the shared memory of its block. A test then reads or changes the word of the same
//! thread in another block of the cluster, mostly the next one, and stores the result as word `i` of `d`.

use oriole_kernel_test::{Fill, Source};

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::U32;

const FAMILY: &str = "cluster";
/// Threads of a block.
const THREADS: usize = 64;
/// Clusters of the grid.
const CLUSTERS: usize = 2;
/// Mask of a word.
const WORD: u64 = 0xffff_ffff;

/// Number of blocks of a cluster along x and y, and whether the launch or the kernel specifies it.
#[derive(Clone, Copy)]
struct Shape {
    width: usize,
    height: usize,
    at_launch: bool,
}

impl Shape {
    const fn of(width: usize, height: usize, at_launch: bool) -> Shape {
        Shape { width, height, at_launch }
    }

    fn blocks(self) -> usize {
        self.width * self.height
    }

    fn name(self) -> String {
        let launch = if self.at_launch { "_launched" } else { "" };
        format!("{}x{}{launch}", self.width, self.height)
    }

    fn words(self) -> usize {
        CLUSTERS * self.blocks() * THREADS
    }

    /// Returns the position in `a` and `d` of the word of a thread in the block with a rank of a cluster. The clusters are side by side.
    fn position(self, cluster: usize, rank: usize, thread: usize) -> usize {
        let (x, y) = (cluster * self.width + rank % self.width, rank / self.width);
        (y * CLUSTERS * self.width + x) * THREADS + thread
    }

    /// Returns the words of `d`, computed from cluster, rank and thread.
    fn results(self, value: impl Fn(usize, usize, usize) -> u64) -> Vec<u64> {
        let mut words = vec![0; self.words()];
        for cluster in 0..CLUSTERS {
            for rank in 0..self.blocks() {
                for thread in 0..THREADS {
                    words[self.position(cluster, rank, thread)] = value(cluster, rank, thread) & WORD;
                }
            }
        }
        words
    }
}

const PAIR: Shape = Shape::of(2, 1, false);
const FOUR: Shape = Shape::of(4, 1, false);
const SQUARE: Shape = Shape::of(2, 2, false);
const LAUNCHED: Shape = Shape::of(2, 1, true);

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for shape in [PAIR, FOUR, SQUARE, LAUNCHED] {
        tests.push(ranks(shape));
        tests.push(remote(shape, "load", LOAD, |own, next, _| own.wrapping_add(next)));
        tests.push(remote(shape, "generic_load", GENERIC_LOAD, |own, next, _| own ^ next));
        tests.push(store(shape));
        tests.push(arrivals(shape));
        tests.push(multicast(shape));
    }
    tests.push(remote(PAIR, "vector_load", VECTOR_LOAD, |own, next, _| own ^ next));
    for shape in [PAIR, FOUR] {
        tests.extend(ATOMICS.map(|operation| atomic(shape, operation)));
        tests.push(split_barrier(shape));
        tests.push(store_async(shape, 1));
        tests.push(store_async(shape, 2));
        tests.push(store_async(shape, 4));
        tests.extend(ATOMICS.map(|operation| reduce_async(shape, operation)));
        tests.push(remote_copy(shape));
        tests.push(exchange_in_loop(shape));
    }
    tests
}

fn fill() -> Fill {
    Fill::all(Source::Random { seed: 117 })
}

fn input(shape: Shape) -> Vec<u64> {
    fill().values(U32.element, shape.words())
}

/// Makes a kernel. Its code starts with `%r1`, the rank; `%r2`, the rank of the next block; `%r3`, the address of the thread's word;
/// `%r4`, the thread's word; `%r5`, the position of the word; `%r6`, the number of the thread in its block.
fn kernel(shape: Shape, name: &str, about: &str) -> Kernel {
    let mut kernel = Kernel::new(FAMILY, format!("{name}_{}", shape.name()), about)
        .platform("8.1", "sm_90")
        .shape([(CLUSTERS * shape.width) as u32, shape.height as u32, 1], [THREADS as u32, 1, 1])
        .module(".shared .align 128 .b8 area[1024]; .shared .align 128 .b8 target[1024]; .shared .align 8 .b64 gate;")
        .buffer("a", U32, shape.words(), fill());
    if shape.at_launch {
        kernel = kernel.cluster([shape.width as u32, shape.height as u32, 1]);
    } else {
        kernel = kernel.attributes(&format!(".reqnctapercluster {}, {}, 1", shape.width, shape.height));
    }
    kernel
}

/// Code that sets the registers that [`kernel`] describes and stores the thread's word in `area`.
fn start() -> String {
    format!(
        "mov.u32 %r6, %tid.x;
         mov.u32 %r7, %ctaid.y;
         mov.u32 %r8, %nctaid.x;
         mov.u32 %r9, %ctaid.x;
         mad.lo.u32 %r9, %r7, %r8, %r9;
         mad.lo.u32 %r5, %r9, {THREADS}, %r6;
         mad.wide.u32 %rd1, %r5, 4, %a;
         ld.global.u32 %r4, [%rd1];
         mov.u32 %r3, area;
         mad.lo.u32 %r3, %r6, 4, %r3;
         st.shared.u32 [%r3], %r4;
         mov.u32 %r1, %cluster_ctarank;
         mov.u32 %r7, %cluster_nctarank;
         add.u32 %r2, %r1, 1;
         rem.u32 %r2, %r2, %r7;"
    )
}

const SYNC: &str = "barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;";

/// Code that stores the result `%r10`. No block may end while others access its shared memory.
const FINISH: &str = "barrier.cluster.arrive;
    barrier.cluster.wait;
    mad.wide.u32 %at, %r5, 4, %d;
    st.global.u32 [%at], %r10;";

/// Code by which thread 0 of each block makes `gate` expect `count` arrivals.
fn make_gate(count: usize) -> String {
    format!(
        "setp.eq.u32 %p1, %r6, 0;
         @%p1 mbarrier.init.shared::cta.b64 [gate], {count};
         fence.mbarrier_init.release.cluster;
         {SYNC}"
    )
}

/// Code that waits for the first phase of `gate`.
const WAIT: &str = "WAIT: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p2, [gate], 0;
    @!%p2 bra WAIT;";

fn ranks(shape: Shape) -> Generated {
    let value = |cluster: usize, rank: usize, thread: usize| {
        let blocks = shape.blocks();
        let (x, y) = (rank % shape.width, rank / shape.width);
        let digits = [rank, x, y, blocks, shape.width, shape.height, cluster, 0, CLUSTERS, (rank + 1) % blocks, 1, thread % 16];
        digits.iter().fold(0, |sum: u64, &digit| (5 * sum + digit as u64) & WORD)
    };
    kernel(shape, "ranks", "special registers of clusters, getctarank, isspacep")
        .output("d", U32, bits(shape.results(value)))
        .registers(".reg .u32 %n<12>;\n.reg .u64 %g<4>;")
        .body(&start())
        .body(
            "mov.u32 %n0, %cluster_ctarank;
             mov.u32 %n1, %cluster_ctaid.x;
             mov.u32 %n2, %cluster_ctaid.y;
             mov.u32 %n3, %cluster_nctarank;
             mov.u32 %n4, %cluster_nctaid.x;
             mov.u32 %n5, %cluster_nctaid.y;
             mov.u32 %n6, %clusterid.x;
             mov.u32 %n7, %clusterid.y;
             mov.u32 %n8, %nclusterid.x;
             cvta.shared.u64 %g1, area;
             mapa.u64 %g2, %g1, %r2;
             getctarank.u64 %n9, %g2;
             isspacep.shared::cluster %p1, %g2;
             isspacep.shared::cta %p2, %g2;
             isspacep.shared::cta %p3, %g1;
             not.pred %p2, %p2;
             and.pred %p1, %p1, %p2;
             and.pred %p1, %p1, %p3;
             selp.u32 %n10, 1, 0, %p1;
             and.b32 %n11, %r6, 15;
             mov.u32 %r10, 0;",
        )
        .body(&(0..12).map(|digit| format!("mad.lo.u32 %r10, %r10, 5, %n{digit};\n")).collect::<String>())
        .body(FINISH)
        .finish()
}

const LOAD: &str = "mapa.shared::cluster.u32 %r8, %r3, %r2;
    ld.shared::cluster.u32 %r9, [%r8];
    add.u32 %r10, %r4, %r9;";

const GENERIC_LOAD: &str = "cvt.u64.u32 %rd2, %r3;
    cvta.shared.u64 %rd2, %rd2;
    mapa.u64 %rd3, %rd2, %r2;
    ld.u32 %r9, [%rd3];
    ld.u32 %r8, [%rd2];
    xor.b32 %r10, %r8, %r9;";

const VECTOR_LOAD: &str = "and.b32 %r8, %r6, 60;
    mov.u32 %r9, area;
    mad.lo.u32 %r8, %r8, 4, %r9;
    mapa.shared::cluster.u32 %r8, %r8, %r2;
    ld.shared::cluster.v4.u32 {%r11, %r12, %r13, %r14}, [%r8];
    and.b32 %r8, %r6, 1;
    setp.eq.u32 %p1, %r8, 1;
    selp.b32 %r11, %r12, %r11, %p1;
    selp.b32 %r13, %r14, %r13, %p1;
    and.b32 %r8, %r6, 2;
    setp.eq.u32 %p1, %r8, 2;
    selp.b32 %r9, %r13, %r11, %p1;
    xor.b32 %r10, %r4, %r9;";

/// A test in which each thread reads the word of the next block.
fn remote(shape: Shape, name: &str, code: &str, value: impl Fn(u64, u64, usize) -> u64) -> Generated {
    let input = input(shape);
    let word = |cluster: usize, rank: usize, thread: usize| input[shape.position(cluster, rank % shape.blocks(), thread)];
    let results = shape.results(|cluster, rank, thread| value(word(cluster, rank, thread), word(cluster, rank + 1, thread), thread));
    kernel(shape, name, "reads of the shared memory of the next block of the cluster")
        .output("d", U32, bits(results))
        .body(&start())
        .body(SYNC)
        .body(code)
        .body(FINISH)
        .finish()
}

fn store(shape: Shape) -> Generated {
    let input = input(shape);
    let blocks = shape.blocks();
    let value = |cluster: usize, rank: usize, thread: usize| {
        let before = input[shape.position(cluster, (rank + blocks - 1) % blocks, thread ^ 1)];
        before.wrapping_add(input[shape.position(cluster, rank, thread)])
    };
    kernel(shape, "store", "each thread stores its word in the shared memory of the next block")
        .output("d", U32, bits(shape.results(value)))
        .body(&start())
        .body(
            "mov.u32 %r8, target;
             xor.b32 %r9, %r6, 1;
             mad.lo.u32 %r8, %r9, 4, %r8;
             mapa.shared::cluster.u32 %r9, %r8, %r2;
             st.shared::cluster.u32 [%r9], %r4;",
        )
        .body(SYNC)
        .body(
            "mov.u32 %r8, target;
             mad.lo.u32 %r8, %r6, 4, %r8;
             ld.shared.u32 %r9, [%r8];
             add.u32 %r10, %r9, %r4;",
        )
        .body(FINISH)
        .finish()
}

/// Operations whose result does not depend on the order of the threads: name, type, function.
type Operation = (&'static str, &'static str, fn(u64, u64) -> u64);

const ATOMICS: [Operation; 5] = [
    ("add", "u32", |a, b| a.wrapping_add(b) & WORD),
    ("min", "s32", |a, b| if (a as u32 as i32) < (b as u32 as i32) { a } else { b }),
    ("max", "u32", |a, b| a.max(b)),
    ("and", "b32", |a, b| a & b),
    ("xor", "b32", |a, b| a ^ b),
];

/// All threads of a block apply an operation to eight words of the next block.
fn atomic(shape: Shape, (operation, ty, function): Operation) -> Generated {
    let input = input(shape);
    let blocks = shape.blocks();
    let value = |cluster: usize, rank: usize, thread: usize| {
        let own = input[shape.position(cluster, rank, thread)];
        let others = (0..THREADS).filter(|other| thread < 8 && other % 8 == thread);
        others.map(|other| input[shape.position(cluster, (rank + blocks - 1) % blocks, other)]).fold(own, function)
    };
    kernel(shape, &format!("atom_{operation}"), "atomics on the shared memory of the next block of the cluster")
        .output("d", U32, bits(shape.results(value)))
        .body(&start())
        .body(SYNC)
        .body(&format!(
            "and.b32 %r8, %r6, 7;
             mov.u32 %r9, area;
             mad.lo.u32 %r8, %r8, 4, %r9;
             mapa.shared::cluster.u32 %r8, %r8, %r2;
             atom.relaxed.cluster.shared::cluster.{operation}.{ty} %r11, [%r8], %r4;"
        ))
        .body(SYNC)
        .body("ld.shared.u32 %r10, [%r3];")
        .body(FINISH)
        .finish()
}

/// Work between arrival and wait, twice.
fn split_barrier(shape: Shape) -> Generated {
    let input = input(shape);
    let blocks = shape.blocks();
    let value = |cluster: usize, rank: usize, thread: usize| {
        let word = |rank: usize| input[shape.position(cluster, rank % blocks, thread)];
        let first = |rank: usize| word(rank).wrapping_mul(3) & WORD;
        word(rank + 1).wrapping_add(first(rank + 1)).wrapping_add(first(rank))
    };
    kernel(shape, "split_barrier", "two phases of the cluster's barrier, with work between arrival and wait")
        .output("d", U32, bits(shape.results(value)))
        .body(&start())
        .body(
            "barrier.cluster.arrive.release.aligned;
             mul.lo.u32 %r11, %r4, 3;
             mapa.shared::cluster.u32 %r8, %r3, %r2;
             barrier.cluster.wait.acquire.aligned;
             ld.shared::cluster.u32 %r9, [%r8];
             st.shared.u32 [%r3+512], %r11;
             barrier.cluster.arrive.release;
             add.u32 %r10, %r9, %r11;
             barrier.cluster.wait.acquire;
             ld.shared::cluster.u32 %r9, [%r8+512];
             add.u32 %r10, %r10, %r9;",
        )
        .body(FINISH)
        .finish()
}

/// All threads of the cluster arrive at the barriers of all blocks.
fn arrivals(shape: Shape) -> Generated {
    let input = input(shape);
    let blocks = shape.blocks();
    let value = |cluster: usize, rank: usize, thread: usize| {
        (0..blocks).filter(|&other| other != rank).fold(0_u64, |sum, other| sum.wrapping_add(input[shape.position(cluster, other, thread)]))
    };
    let mut arrive = String::new();
    for block in 0..blocks {
        arrive += &format!(
            "mapa.shared::cluster.u32 %r8, %r7, {block};
             mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];\n"
        );
    }
    let mut add = String::new();
    for block in 0..blocks {
        add += &format!(
            "mapa.shared::cluster.u32 %r8, %r3, {block};
             ld.shared::cluster.u32 %r9, [%r8];
             add.u32 %r10, %r10, %r9;\n"
        );
    }
    kernel(shape, "arrivals", "all threads of the cluster arrive at an mbarrier of each block")
        .output("d", U32, bits(shape.results(value)))
        .body(&start())
        .body(&make_gate(blocks * THREADS))
        .body("mov.u32 %r7, gate;")
        .body(&arrive)
        .body(WAIT)
        .body("mov.u32 %r10, 0;")
        .body(&add)
        .body("sub.u32 %r10, %r10, %r4;")
        .body(FINISH)
        .finish()
}

/// Block 0 copies words of `a` to all blocks.
fn multicast(shape: Shape) -> Generated {
    let input = input(shape);
    let value = |cluster: usize, rank: usize, thread: usize| {
        input[shape.position(cluster, 0, thread)].wrapping_add(input[shape.position(cluster, rank, thread)])
    };
    let (bytes, mask) = (4 * THREADS, (1 << shape.blocks()) - 1);
    kernel(shape, "multicast", "a bulk copy to all blocks of the cluster")
        .output("d", U32, bits(shape.results(value)))
        .body(&start())
        .body(&make_gate(1))
        .body(&format!(
            "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], {bytes};
             setp.eq.u32 %p3, %r1, 0;
             and.pred %p3, %p3, %p1;
             mov.u16 %rs1, {mask};
             @!%p3 bra WAIT;
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [target], [%rd1], {bytes}, [gate], %rs1;"
        ))
        .registers(".reg .u16 %rs<4>;")
        .body(WAIT)
        .body(
            "mov.u32 %r8, target;
             mad.lo.u32 %r8, %r6, 4, %r8;
             ld.shared.u32 %r9, [%r8];
             add.u32 %r10, %r9, %r4;",
        )
        .body(FINISH)
        .finish()
}

/// Each thread sends `words` words to the next block.
fn store_async(shape: Shape, words: usize) -> Generated {
    let input = input(shape);
    let blocks = shape.blocks();
    let value = |cluster: usize, rank: usize, thread: usize| {
        let sent = input[shape.position(cluster, (rank + blocks - 1) % blocks, thread)];
        (0..words).fold(0_u64, |sum, word| sum.wrapping_add(sent ^ word as u64))
    };
    let bytes = 4 * words;
    let (vector, registers) = match words {
        1 => ("", "%r11".to_owned()),
        _ => (
            if words == 2 { ".v2" } else { ".v4" },
            format!("{{{}}}", (11..11 + words).map(|n| format!("%r{n}")).collect::<Vec<_>>().join(", ")),
        ),
    };
    let values: String = (0..words).map(|word| format!("xor.b32 %r{}, %r4, {word};\n", 11 + word)).collect();
    let sum: String = (0..words).map(|word| format!("ld.shared.u32 %r9, [%r8+{}];\nadd.u32 %r10, %r10, %r9;\n", 4 * word)).collect();
    kernel(shape, &format!("st_async_{words}"), "st.async to the next block of the cluster")
        .output("d", U32, bits(shape.results(value)))
        .body(&start())
        .body(&make_gate(1))
        .body(&format!("@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], {};", bytes * THREADS))
        .body(&values)
        .body(&format!(
            "mov.u32 %r8, target;
             mad.lo.u32 %r8, %r6, {bytes}, %r8;
             mapa.shared::cluster.u32 %r9, %r8, %r2;
             mov.u32 %r15, gate;
             mapa.shared::cluster.u32 %r15, %r15, %r2;
             st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vector}.u32 [%r9], {registers}, [%r15];"
        ))
        .body(WAIT)
        .body("mov.u32 %r10, 0;")
        .body(&sum)
        .body(FINISH)
        .finish()
}

/// All threads of a block reduce into eight words of the next block.
fn reduce_async(shape: Shape, (operation, ty, function): Operation) -> Generated {
    let input = input(shape);
    let blocks = shape.blocks();
    let value = |cluster: usize, rank: usize, thread: usize| {
        let own = input[shape.position(cluster, rank, thread)];
        let others = (0..THREADS).filter(|other| thread < 8 && other % 8 == thread);
        others.map(|other| input[shape.position(cluster, (rank + blocks - 1) % blocks, other)]).fold(own, function)
    };
    kernel(shape, &format!("red_async_{operation}"), "red.async to the next block of the cluster")
        .output("d", U32, bits(shape.results(value)))
        .body(&start())
        .body(&make_gate(1))
        .body(&format!(
            "@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], {};
             and.b32 %r8, %r6, 7;
             mov.u32 %r9, area;
             mad.lo.u32 %r8, %r8, 4, %r9;
             mapa.shared::cluster.u32 %r8, %r8, %r2;
             mov.u32 %r15, gate;
             mapa.shared::cluster.u32 %r15, %r15, %r2;
             red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{operation}.{ty} [%r8], %r4, [%r15];",
            4 * THREADS
        ))
        .body(WAIT)
        .body("ld.shared.u32 %r10, [%r3];")
        .body(FINISH)
        .finish()
}

/// Thread 0 of each block copies the words of the block to the next one.
fn remote_copy(shape: Shape) -> Generated {
    let input = input(shape);
    let blocks = shape.blocks();
    let value = |cluster: usize, rank: usize, thread: usize| {
        input[shape.position(cluster, (rank + blocks - 1) % blocks, thread)].wrapping_add(input[shape.position(cluster, rank, thread)])
    };
    let bytes = 4 * THREADS;
    kernel(shape, "remote_copy", "a bulk copy from shared memory to that of the next block of the cluster")
        .output("d", U32, bits(shape.results(value)))
        .body(&start())
        .body(&make_gate(1))
        .body(&format!(
            "fence.proxy.async.shared::cta;
             bar.sync 0;
             @!%p1 bra WAIT;
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [gate], {bytes};
             mov.u32 %r8, target;
             mapa.shared::cluster.u32 %r8, %r8, %r2;
             mov.u32 %r9, gate;
             mapa.shared::cluster.u32 %r9, %r9, %r2;
             cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r8], [area], {bytes}, [%r9];"
        ))
        .body(WAIT)
        .body(
            "mov.u32 %r8, target;
             mad.lo.u32 %r8, %r6, 4, %r8;
             ld.shared.u32 %r9, [%r8];
             add.u32 %r10, %r9, %r4;",
        )
        .body(FINISH)
        .finish()
}

/// Rounds of the loop of [`exchange_in_loop`].
const ROUNDS: usize = 5;

/// Generates a kernel with a loop, in each iteration of which each block of the cluster adds the words of the next block to its own words.
fn exchange_in_loop(shape: Shape) -> Generated {
    let input = input(shape);
    let blocks = shape.blocks();
    let value = |cluster: usize, rank: usize, thread: usize| {
        let mut words: Vec<u64> = (0..blocks).map(|rank| input[shape.position(cluster, rank, thread)]).collect();
        for _ in 0..ROUNDS {
            words = (0..blocks).map(|rank| words[rank].wrapping_add(words[(rank + 1) % blocks]) & WORD).collect();
        }
        words[rank]
    };
    kernel(shape, "exchange", "rounds of sums with the words of the next block, with two barriers each")
        .output("d", U32, bits(shape.results(value)))
        .body(&start())
        .body(&format!(
            "mapa.shared::cluster.u32 %r8, %r3, %r2;
             mov.u32 %r10, %r4;
             mov.u32 %r11, 0;
             ROUND: {SYNC}
             ld.shared::cluster.u32 %r9, [%r8];
             add.u32 %r10, %r10, %r9;
             {SYNC}
             st.shared.u32 [%r3], %r10;
             add.u32 %r11, %r11, 1;
             setp.lt.u32 %p1, %r11, {ROUNDS};
             @%p1 bra ROUND;"
        ))
        .body(FINISH)
        .finish()
}
