//! Generates pipelines of asynchronous copies: `cp.async` with groups, bulk copies with barriers in shared memory (`mbarrier`).
//!
//! A pipeline has one buffer for each stage. Iteration `i` uses buffer `i % stages`, and the copy for iteration `i + stages - 1` (or
//! `i + stages`) is in flight meanwhile. A buffer is written again only after all threads have passed a barrier after their reads.

use super::matrices::Sum;
use super::tensor::list;
use super::{Context, Generator, Level};
use crate::features::Feature;
use crate::program::{BULK_BYTES, Stmt};

/// What an iteration does with the buffer of its stage: declarations, initialization, the work, and how the result is taken.
struct Consumer {
    start: String,
    work: String,
    end: String,
}

impl Generator {
    /// Picks the work of an iteration on a buffer of `bytes` bytes at `%q{id}b`. `element` is the size of a read in bytes, `limit` the
    /// number of bytes of each chunk of `chunk` bytes that may be read.
    fn consumer(&mut self, id: usize, bytes: usize, chunk: usize, limit: usize) -> Consumer {
        let matrices = self.sm >= 80 && chunk == limit && bytes >= 512 && self.features.has(Feature::Matrices);
        if !matrices || self.rng.chance(40) {
            let (kind, size) = *self.rng.pick(&[("u32", 4), ("u32", 4), ("u16", 2), ("s8", 1)]);
            let chunks = format!("and.b32 %q{id}r, %q{id}r, {:#x}", bytes - chunk);
            let within = format!("and.b32 %q{id}s, $r, {:#x}; add.u32 %q{id}r, %q{id}r, %q{id}s", limit - size);
            return Consumer {
                start: format!(".reg .b32 %q{id}x, %q{id}v, %q{id}r, %q{id}s; mov.u32 %q{id}x, $r"),
                work: format!(
                    "mad.lo.u32 %q{id}r, %lin, {chunk}, {}; {chunks}; {within}; add.u32 %q{id}r, %q{id}r, %q{id}b; \
                     ld.shared.{kind} %q{id}v, [%q{id}r]; mad.lo.u32 %q{id}x, %q{id}x, 31, %q{id}v",
                    self.rng.range(0, 3) * chunk as i64,
                ),
                end: format!("mov.b32 $=r, %q{id}x"),
            };
        }
        let name = |letter: char, count: usize| -> Vec<String> { (0..count).map(|number| format!("%q{id}{letter}{number}")).collect() };
        let (a, b, c) = (name('a', 4), name('e', 2), name('c', 4));
        let integers = self.rng.chance(40);
        let (element, sum, instruction) = if integers {
            (super::matrices::Element::Integer, Sum::Integer, "m16n8k32.row.col.s32.{s8/u8}.{s8/u8}.s32")
        } else {
            (super::matrices::Element::F16, Sum::Single, "m16n8k16.row.col.f32.f16.f16.f32")
        };
        let instruction = self.choose(instruction);
        let bound = self.bound(element);
        let start =
            format!(".reg .b32 {}, %q{id}x, %q{id}r; {}", [a.clone(), b.clone(), c.clone()].concat().join(", "), self.start_sum(sum, &c));
        let trans = self.choose("{/.trans}");
        let row = |offset: usize| {
            format!(
                "mov.u32 %q{id}r, %laneid; shl.b32 %q{id}r, %q{id}r, 4; add.u32 %q{id}r, %q{id}r, {offset}; and.b32 %q{id}r, %q{id}r, {:#x}; \
                 add.u32 %q{id}r, %q{id}r, %q{id}b",
                bytes - 16
            )
        };
        let mut work = format!(
            "{}; ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {}, [%q{id}r]; {}; ldmatrix.sync.aligned.m8n8.x2.shared.b16 {}, [%q{id}r]",
            row(0),
            list(&a),
            row(16 * self.rng.below(8)),
            list(&b)
        );
        for register in a.iter().chain(&b) {
            work += &format!("; {}", bound.copy(register, register));
        }
        work += &format!("; mma.sync.aligned.{instruction} {}, {}, {}, {}", list(&c), list(&a), list(&b), list(&c));
        let end = self.take_sum(sum, &c, &format!("%q{id}x"));
        Consumer { start, work, end }
    }

    /// Generates a pipeline of `cp.async` with groups, or with an arrival at a barrier in shared memory.
    pub(super) fn copy_pipeline(&mut self, cx: &Context) -> Option<Stmt> {
        let id = self.id();
        let stages = self.rng.range(1, 4) as usize;
        let buffer = self.threads_per_block * 16;
        let (area, gates) = (self.area_used, self.gates_used);
        let start = self.reserve(stages * buffer, 128)?;
        let by_gate = self.rng.chance(25);
        let gate = if by_gate { self.reserve_gates(stages) } else { Some(0) };
        let Some(gate) = gate else {
            self.area_used = area;
            return None;
        };
        let (bytes, how) = *self.rng.pick(&[(4, ".ca"), (8, ".ca"), (16, ".ca"), (16, ".cg"), (16, ".cg.shared.global.L2::128B")]);
        let how = if how.contains("shared") { how.to_owned() } else { format!("{how}.shared.global") };
        // Zeros are filled in after some bytes, or in place of all bytes.
        let rest = match self.rng.below(4) {
            0 => format!(", %q{id}z"),
            1 => format!(", %q{id}g"),
            _ => String::new(),
        };
        let consumer = self.consumer(id, buffer, 16, bytes);
        let copy = |at: &str, guard: &str| {
            // `at` is the iteration that the copy is for.
            let arrive = if by_gate {
                format!("; mad.lo.u32 %q{id}h, %q{id}s0, 8, %tgate; {guard}cp.async.mbarrier.arrive.noinc.shared.b64 [%q{id}h+{gate}]")
            } else {
                "; cp.async.commit_group".to_owned()
            };
            format!(
                "rem.u32 %q{id}s0, {at}, {stages}; mad.lo.u32 %q{id}d, %q{id}s0, {buffer}, %q{id}w; \
                 mad.lo.u32 %q{id}o, {at}, 48, %q{id}y; and.b32 %q{id}o, %q{id}o, {:#x}; cvt.u64.u32 %q{id}l, %q{id}o; add.s64 %q{id}l, %q{id}l, %in; \
                 {guard}cp.async{how} [%q{id}d], [%q{id}l], {bytes}{rest}{arrive}",
                2048 - bytes
            )
        };
        let first = if by_gate { stages } else { stages - 1 };
        let mut head = format!(
            "{}; .reg .b32 %q{id}n, %q{id}i, %q{id}j, %q{id}b, %q{id}d, %q{id}w, %q{id}o, %q{id}y, %q{id}z, %q{id}s0, %q{id}h, %q{id}u; .reg .b64 %q{id}l; \
             .reg .pred %q{id}p, %q{id}f, %q{id}g, %q{id}k; {}; setp.{{ne/eq}}.u32 %q{id}g, $r, 0; and.b32 %q{id}z, $r, {}; mov.b32 %q{id}y, $r; \
             mad.lo.u32 %q{id}w, %lin, 16, %tsr; add.u32 %q{id}w, %q{id}w, {start}",
            consumer.start,
            self.trips(id),
            *self.rng.pick(&[bytes, bytes - 1])
        );
        if by_gate {
            head += &format!("; setp.eq.u32 %q{id}k, %lin, 0; bar.sync 0");
            for stage in 0..stages {
                head += &format!("; @%q{id}k mbarrier.init.shared.b64 [%tgate+{}], %nthr", gate + stage * 8);
            }
        }
        head += "; bar.sync 0";
        for stage in 0..first {
            head += &format!(
                "; mov.u32 %q{id}j, {stage}; setp.lt.u32 %q{id}f, %q{id}j, %q{id}n; {}",
                copy(&format!("%q{id}j"), &format!("@%q{id}f "))
            );
        }
        head += &format!("; mov.u32 %q{id}i, 0");
        let top = format!("QT{id}: add.u32 %q{id}j, %q{id}i, {first}");
        let more = format!("setp.lt.u32 %q{id}f, %q{id}j, %q{id}n; {}", copy(&format!("%q{id}j"), &format!("@%q{id}f ")));
        let stage =
            format!("rem.u32 %q{id}s0, %q{id}i, {stages}; mad.lo.u32 %q{id}b, %q{id}s0, {buffer}, %tsr; add.u32 %q{id}b, %q{id}b, {start}");
        let (before, after) = if by_gate {
            let wait = if self.sm >= 90 { "{try_wait/test_wait}" } else { "test_wait" };
            let wait = format!(
                "div.u32 %q{id}u, %q{id}i, {stages}; and.b32 %q{id}u, %q{id}u, 1; rem.u32 %q{id}s0, %q{id}i, {stages}; \
                 mad.lo.u32 %q{id}h, %q{id}s0, 8, %tgate; QW{id}: mbarrier.{wait}.parity.shared.b64 %q{id}p, [%q{id}h+{gate}], %q{id}u; @!%q{id}p bra QW{id}"
            );
            (wait, format!("bar.sync 0; {more}"))
        } else {
            let all = if stages == 1 { "{wait_all/wait_group 0}" } else { "wait_group" };
            let count = if stages == 1 { String::new() } else { format!(" {}", stages - 1) };
            (format!("{more}; cp.async.{all}{count}; bar.sync 0"), "bar.sync 0".to_owned())
        };
        let back = format!("{after}; add.u32 %q{id}i, %q{id}i, 1; setp.lt.u32 %q{id}p, %q{id}i, %q{id}n; @%q{id}p bra QT{id}");
        let mut end = format!("cp.async.wait_all; {}", consumer.end);
        if by_gate {
            end = format!("{end}; bar.sync 0");
            for stage in 0..stages {
                end += &format!("; @%q{id}k mbarrier.inval.shared.b64 [%tgate+{}]", gate + stage * 8);
            }
        }
        let holes = vec![
            self.hole(cx, Level::Block, 1),
            self.hole(cx, Level::Block, 4),
            self.hole(cx, Level::Block, 4),
            self.hole(cx, Level::Block, 4),
            self.hole(cx, Level::Block, 1),
        ];
        let statement = self.staged(cx, &[head, top, format!("{before}; {stage}"), consumer.work, back, end], holes);
        (self.area_used, self.gates_used) = (area, gates);
        Some(statement)
    }

    /// Generates an exchange through shared memory that barriers in shared memory order, with statements between arrival and wait.
    pub(super) fn gate_exchange(&mut self, cx: &Context) -> Option<Stmt> {
        if self.sm < 80 {
            return None;
        }
        let id = self.id();
        let (area, gates) = (self.area_used, self.gates_used);
        let bytes = self.threads_per_block * 8;
        let start = self.reserve(bytes, 16)?;
        let Some(gate) = self.reserve_gates(2) else {
            self.area_used = area;
            return None;
        };
        let by_parity = self.rng.chance(50);
        let sm = self.sm;
        let wait = if self.sm >= 90 { "{try_wait/test_wait}" } else { "test_wait" };
        let wait = |number: usize, at: usize| {
            let (parity, state) = if by_parity { (".parity", format!("%q{id}u")) } else { ("", format!("%q{id}st{number}")) };
            format!("QW{id}x{number}: mbarrier.{wait}{parity}.shared.b64 %q{id}w, [%tgate+{at}], {state}; @!%q{id}w bra QW{id}x{number}")
        };
        let arrive = |number: usize, at: usize| {
            let state = if by_parity { "_".to_owned() } else { format!("%q{id}st{number}") };
            let result = if sm >= 90 || !by_parity { state } else { format!("%q{id}st{number}") };
            format!("mbarrier.arrive.shared.b64 {result}, [%tgate+{at}]")
        };
        let head = format!(
            ".reg .b32 %q{id}n, %q{id}i, %q{id}u, %q{id}a, %q{id}b, %q{id}v, %q{id}x, %q{id}y; .reg .b64 %q{id}st0, %q{id}st1; .reg .pred %q{id}p, %q{id}w, %q{id}k; \
             {}; setp.eq.u32 %q{id}k, %lin, {}; bar.sync 0; @%q{id}k mbarrier.init.shared.b64 [%tgate+{gate}], %nthr; \
             @%q{id}k mbarrier.init.shared.b64 [%tgate+{}], %nthr; bar.sync 0; mad.lo.u32 %q{id}a, %lin, 8, %tsr; add.u32 %q{id}a, %q{id}a, {start}; \
             mov.b32 %q{id}x, $r; mov.u32 %q{id}i, 0; mov.u32 %q{id}u, 0",
            self.trips(id),
            self.rng.below(self.threads_per_block),
            gate + 8
        );
        let first = arrive(0, gate);
        let top = format!("QT{id}: st.shared.b32 [%q{id}a], %q{id}x; st.shared.b32 [%q{id}a+4], $r; {first}");
        let second = arrive(1, gate + 8);
        let read = format!(
            "{}; and.b32 %q{id}b, $r, {:#x}; add.u32 %q{id}b, %q{id}b, %tsr; ld.shared.b32 %q{id}v, [%q{id}b+{start}]; \
             mad.lo.u32 %q{id}x, %q{id}x, 33, %q{id}v; {second}",
            wait(0, gate),
            bytes - 4
        );
        let statement = self.two_gate_loop(cx, id, gate, [head, top, read], &wait(1, gate + 8));
        (self.area_used, self.gates_used) = (area, gates);
        Some(statement)
    }

    /// Returns a loop whose iterations are ordered by two barriers in shared memory, at `gate` and `gate + 8`. `parts` are the templates before
    /// the loop, at the start of an iteration, and after the first barrier; `wait` waits for the second barrier.
    pub(super) fn two_gate_loop(&mut self, cx: &Context, id: usize, gate: usize, parts: [String; 3], wait: &str) -> Stmt {
        let [head, top, read] = parts;
        let back = format!(
            "{wait}; xor.b32 %q{id}u, %q{id}u, 1; add.u32 %q{id}i, %q{id}i, 1; setp.lt.u32 %q{id}p, %q{id}i, %q{id}n; @%q{id}p bra QT{id}"
        );
        let end = format!(
            "mov.b32 $=r, %q{id}x; bar.sync 0; @%q{id}k mbarrier.inval.shared.b64 [%tgate+{gate}]; @%q{id}k mbarrier.inval.shared.b64 [%tgate+{}]",
            gate + 8
        );
        let holes = vec![
            self.hole(cx, Level::Block, 1),
            self.hole(cx, Level::Block, 4),
            self.hole(cx, Level::Block, 4),
            self.hole(cx, Level::Block, 1),
        ];
        self.staged(cx, &[head, top, read, back, end], holes)
    }

    /// Returns the template that selects the thread that issues bulk copies, in the predicate `%q{id}e`.
    pub(super) fn issuer(&mut self, id: usize) -> String {
        if self.rng.chance(50) {
            return format!("setp.eq.u32 %q{id}e, %lin, {}", self.rng.below(self.threads_per_block));
        }
        format!("elect.sync _|%q{id}e, -1; setp.lt.and.u32 %q{id}e, %lin, 32, %q{id}e")
    }

    /// Generates a pipeline of bulk copies from global to shared memory. One thread issues the copies; all threads wait for the barrier of
    /// a stage, read, and arrive at the barrier after which the buffer is written again.
    pub(super) fn bulk_pipeline(&mut self, cx: &Context) -> Option<Stmt> {
        let id = self.id();
        let stages = self.rng.range(1, 4) as usize;
        let bytes = *self.rng.pick(&[16, 64, 256, 512, 1024]);
        let (area, gates) = (self.area_used, self.gates_used);
        let start = self.reserve(stages * bytes, 128)?;
        let Some(gate) = self.reserve_gates(2 * stages) else {
            self.area_used = area;
            return None;
        };
        let empty = gate + 8 * stages;
        let specialized = self.threads_per_block >= 64 && self.rng.chance(40);
        let consumers = if specialized { self.threads_per_block - 32 } else { self.threads_per_block };
        let mut consumer = self.consumer(id, bytes, bytes.min(16), bytes.min(16));
        if specialized {
            // Only some warps consume, so the result of a matrix product is complete in those.
            consumer.work = consumer.work.replace("bar.sync 0", "bar.warp.sync -1");
        }
        let parts = if bytes >= 64 && self.rng.chance(40) { 2 } else { 1 };
        let expect = if self.rng.chance(70) {
            format!("mbarrier.arrive.expect_tx.shared.b64 _, [%q{id}h+{gate}], {bytes}")
        } else {
            format!("mbarrier.expect_tx.relaxed.cta.shared.b64 [%q{id}h+{gate}], {bytes}; mbarrier.arrive.shared.b64 _, [%q{id}h+{gate}]")
        };
        let issue = |at: &str| {
            let mut text = format!(
                "rem.u32 %q{id}t, {at}, {stages}; mad.lo.u32 %q{id}h, %q{id}t, 8, %tgate; mad.lo.u32 %q{id}d, %q{id}t, {bytes}, %tsr; \
                 add.u32 %q{id}d, %q{id}d, {start}; mad.lo.u32 %q{id}o, {at}, 48, %q{id}y; and.b32 %q{id}o, %q{id}o, 0x3f0; \
                 cvt.u64.u32 %q{id}l, %q{id}o; add.s64 %q{id}l, %q{id}l, %in; {expect}"
            );
            for part in 0..parts {
                let (offset, size) = (part * bytes / parts, bytes / parts);
                text += &format!(
                    "; add.u32 %q{id}j, %q{id}d, {offset}; add.s64 %q{id}m, %q{id}l, {offset}; \
                     cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%q{id}j], [%q{id}m], {size}, [%q{id}h+{gate}]"
                );
            }
            text
        };
        let wait = |label: &str, at: usize, counter: &str, flip: usize| {
            format!(
                "div.u32 %q{id}u, {counter}, {stages}; add.u32 %q{id}u, %q{id}u, {flip}; and.b32 %q{id}u, %q{id}u, 1; rem.u32 %q{id}t, {counter}, {stages}; \
                 mad.lo.u32 %q{id}h, %q{id}t, 8, %tgate; {label}: mbarrier.{{try_wait/test_wait}}.parity.shared.b64 %q{id}p, [%q{id}h+{at}], %q{id}u; @!%q{id}p bra {label}"
            )
        };
        let mut head = format!(
            "{}; .reg .b32 %q{id}n, %q{id}i, %q{id}g, %q{id}j, %q{id}b, %q{id}d, %q{id}o, %q{id}y, %q{id}h, %q{id}u, %q{id}t; .reg .b64 %q{id}l, %q{id}m; \
             .reg .pred %q{id}p, %q{id}f, %q{id}k, %q{id}e, %q{id}c; {}; mov.b32 %q{id}y, {{$u/%nthr/0}}; setp.eq.u32 %q{id}k, %lin, 0; bar.sync 0",
            consumer.start,
            self.trips(id)
        );
        for stage in 0..stages {
            head += &format!("; @%q{id}k mbarrier.init.shared.b64 [%tgate+{}], 1", gate + 8 * stage);
            head += &format!("; @%q{id}k mbarrier.init.shared.b64 [%tgate+{}], {consumers}", empty + 8 * stage);
        }
        head += &format!("; fence.{{proxy.async/mbarrier_init.release.cluster}}; fence.proxy.async; bar.sync 0; mov.u32 %q{id}i, 0");
        let stage =
            format!("rem.u32 %q{id}t, %q{id}i, {stages}; mad.lo.u32 %q{id}b, %q{id}t, {bytes}, %tsr; add.u32 %q{id}b, %q{id}b, {start}");
        let arrive = format!(
            "rem.u32 %q{id}t, %q{id}i, {stages}; mad.lo.u32 %q{id}h, %q{id}t, 8, %tgate; mbarrier.arrive.shared.b64 _, [%q{id}h+{empty}]"
        );
        let next = format!("add.u32 %q{id}i, %q{id}i, 1; setp.lt.u32 %q{id}p, %q{id}i, %q{id}n; @%q{id}p bra QT{id}");
        let mut end = format!("{}; bar.sync 0", consumer.end);
        for number in 0..2 * stages {
            end += &format!("; @%q{id}k mbarrier.inval.shared.b64 [%tgate+{}]", gate + 8 * number);
        }
        let (templates, holes) = if specialized {
            // The first warp issues the copies, the others consume.
            let producer = format!(
                "setp.lt.u32 %q{id}c, %lin, 32; @!%q{id}c bra QC{id}; {}; @!%q{id}e bra QD{id}; QP{id}: {}; {}; add.u32 %q{id}i, %q{id}i, 1; \
                 setp.lt.u32 %q{id}p, %q{id}i, %q{id}n; @%q{id}p bra QP{id}; bra QD{id}; QC{id}: mov.u32 %q{id}i, 0",
                if self.rng.chance(50) {
                    format!("elect.sync _|%q{id}e, -1")
                } else {
                    format!("setp.eq.u32 %q{id}e, %lin, {}", self.rng.below(32))
                },
                wait(&format!("QE{id}"), empty, &format!("%q{id}i"), 1),
                issue(&format!("%q{id}i")),
            );
            let top = format!("QT{id}: add.u32 %q{id}g, %q{id}i, 1");
            let ready = format!("{}; {stage}", wait(&format!("QF{id}"), gate, &format!("%q{id}i"), 0));
            let done = format!("{arrive}; {next}; QD{id}: bar.sync 0");
            let holes = vec![
                self.hole(cx, Level::Block, 1),
                Vec::new(),
                self.hole(cx, Level::Thread, 4),
                self.hole(cx, Level::Thread, 4),
                self.hole(cx, Level::Thread, 4),
                self.hole(cx, Level::Block, 1),
            ];
            (vec![head, producer, top, ready, consumer.work, done, end], holes)
        } else {
            head += &format!("; {}", self.issuer(id));
            // Before the loop, the copies of the first stages; in the loop, that of the stage that has become free.
            let mut first =
                format!("@!%q{id}e bra QS{id}; mov.u32 %q{id}g, 0; QI{id}: {}; add.u32 %q{id}g, %q{id}g, 1", issue(&format!("%q{id}g")));
            first += &format!(
                "; setp.lt.u32 %q{id}p, %q{id}g, %q{id}n; setp.lt.and.u32 %q{id}p, %q{id}g, {stages}, %q{id}p; @%q{id}p bra QI{id}; QS{id}: mov.u32 %q{id}i, 0"
            );
            let top = format!("QT{id}: add.u32 %q{id}g, %q{id}i, {stages}");
            let ready = format!("{}; {stage}", wait(&format!("QF{id}"), gate, &format!("%q{id}i"), 0));
            let again = format!(
                "{arrive}; setp.lt.and.u32 %q{id}f, %q{id}g, %q{id}n, %q{id}e; @!%q{id}f bra QN{id}; {}; {}; QN{id}: {next}",
                wait(&format!("QE{id}"), empty, &format!("%q{id}i"), 0),
                issue(&format!("%q{id}g"))
            );
            let holes = vec![
                self.hole(cx, Level::Block, 1),
                Vec::new(),
                self.hole(cx, Level::Block, 4),
                self.hole(cx, Level::Block, 4),
                self.hole(cx, Level::Block, 4),
                self.hole(cx, Level::Block, 1),
            ];
            (vec![head, first, top, ready, consumer.work, again, end], holes)
        };
        let statement = self.staged(cx, &templates, holes);
        (self.area_used, self.gates_used) = (area, gates);
        Some(statement)
    }

    /// Generates bulk copies from shared to global memory, in groups, and reductions. Each thread copies to 64 bytes of its own, which no
    /// instruction reads.
    pub(super) fn bulk_store(&mut self, cx: &Context) -> Option<Stmt> {
        let id = self.id();
        let area = self.area_used;
        let groups = self.rng.range(1, 3) as usize;
        let buffer = self.threads_per_block * 16;
        let start = self.reserve(groups * buffer, 128)?;
        // Copies in flight must not write to the same bytes.
        let chunks = self.chunks_used;
        if chunks + groups > BULK_BYTES / 16 {
            self.area_used = area;
            return None;
        }
        self.chunks_used += groups;
        let mut templates = vec![format!(
            ".reg .b32 %q{id}t; .reg .b64 %q{id}l; .reg .pred %q{id}p; mad.lo.u32 %q{id}t, %lin, 16, %tsr; add.u32 %q{id}t, %q{id}t, {start}; \
             setp.{{lt/ne}}.u32 %q{id}p, $r, $r; bar.sync 0"
        )];
        let guard = self.choose(&format!("{{/@%q{id}p /@!%q{id}p }}"));
        let mut holes = Vec::new();
        for group in 0..groups {
            let at = 16 * (chunks + group);
            let copy = self.choose(
                "{cp.async.bulk.global.shared::cta.bulk_group/cp.async.bulk.global.shared::cta.bulk_group/cp.reduce.async.bulk.global.shared::cta.bulk_group.{add.u32/xor.b32/max.s32/and.b32/min.u32/add.u64}}",
            );
            templates.push(format!(
                "st.shared.v4.b32 [%q{id}t+{0}], <$r, $r, $r, $r>; fence.proxy.async; add.s64 %q{id}l, %blk, {at}; \
                 add.u32 %q{id}t, %q{id}t, {0}; {guard}{copy} [%q{id}l], [%q{id}t], 16; sub.u32 %q{id}t, %q{id}t, {0}; cp.async.bulk.commit_group",
                group * buffer
            ));
            holes.push(self.hole(cx, Level::Block, 1));
        }
        if groups > 1 && self.rng.chance(60) {
            // The buffer of the first group may be written again once it has been read.
            templates.push(format!(
                "cp.async.bulk.wait_group.read {}; st.shared.v4.b32 [%q{id}t], <$r, $r, $r, $r>; ld.shared.b32 $=r, [%q{id}t+{{0/4/8/12}}]",
                groups - 1
            ));
            holes.push(self.hole(cx, Level::Block, 1));
        }
        templates.push("cp.async.bulk.wait_group 0".to_owned());
        holes.push(self.hole(cx, Level::Block, 1));
        let statement = self.staged(cx, &templates, holes);
        (self.area_used, self.chunks_used) = (area, chunks);
        Some(statement)
    }
}
