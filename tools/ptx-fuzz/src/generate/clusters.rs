//! Statements of the feature `clusters`. A launch without clusters makes each block a cluster of its own, so a block accesses its own shared
//! memory as memory of the cluster, and the barrier of the cluster is one of the block. In programs with clusters of several blocks, all of
//! them execute these statements together, read each other's shared memory, and send data to each other.

use super::{Context, Generator, Level};
use crate::program::{CHANGED_REGISTERS, INPUT_WORDS, Stmt};

/// Instructions after which all threads of the cluster are together.
const CLUSTER_SYNC: &str = "barrier.cluster.arrive{/.release}{/.aligned}; barrier.cluster.wait{/.acquire}{/.aligned}";
/// Size of the buffer `input` in bytes, which multicast copies read.
const INPUT_BYTES: usize = 4 * INPUT_WORDS;

impl Generator {
    /// Returns the template of the registers `%q{id}r`, the rank of the block, and `%q{id}b`, the address in the cluster of the two words
    /// of the thread, which `%q{id}a` addresses in the block.
    fn own_place(&mut self, id: usize, start: usize) -> String {
        let zero = if self.cluster == 1 { format!("mov.u32 %q{id}r, 0/") } else { String::new() };
        let rank = self.choose(&format!("{{mov.u32 %q{id}r, %cluster_ctarank/{zero}getctarank.shared::cluster.u32 %q{id}r, %q{id}a}}"));
        format!(
            "mad.lo.u32 %q{id}a, %lin, 8, %tsr; add.u32 %q{id}a, %q{id}a, {start}; {rank}; mapa.shared::cluster.u32 %q{id}b, %q{id}a, %q{id}r"
        )
    }

    /// Returns the template of the register `%q{id}r` for the rank of a block of the cluster, the same distance from each block. Clusters
    /// have a power of two of blocks.
    fn other_rank(&mut self, id: usize) -> String {
        match self.rng.below(self.cluster) {
            0 => format!("mov.u32 %q{id}r, %cluster_ctarank"),
            distance => format!(
                "mov.u32 %q{id}r, %cluster_ctarank; add.u32 %q{id}r, %q{id}r, {distance}; and.b32 %q{id}r, %q{id}r, {}",
                self.cluster - 1
            ),
        }
    }

    /// Returns the template that reads a word of any thread through an address in the cluster, shared or generic, and adds it to `%q{id}x`.
    fn read_of_cluster(&mut self, id: usize, start: usize, bytes: usize) -> String {
        let place = format!("and.b32 %q{id}v, $r, {:#x}; add.u32 %q{id}v, %q{id}v, %tsr", bytes - 4);
        let load = if self.rng.chance(50) {
            format!("mapa.shared::cluster.u32 %q{id}v, %q{id}v, %q{id}r; ld.shared::cluster.b32 %q{id}v, [%q{id}v+{start}]")
        } else {
            format!(
                "cvt.u64.u32 %q{id}g, %q{id}v; cvta.shared.u64 %q{id}g, %q{id}g; mapa.u64 %q{id}g, %q{id}g, %q{id}r; ld.b32 %q{id}v, [%q{id}g+{start}]"
            )
        };
        format!("{place}; {load}; mad.lo.u32 %q{id}x, %q{id}x, 33, %q{id}v")
    }

    /// Generates an exchange through shared memory that the barrier of the cluster orders, with statements between arrival and wait.
    pub(super) fn cluster_exchange(&mut self, cx: &Context) -> Option<Stmt> {
        let id = self.id();
        let area = self.area_used;
        let bytes = self.threads_per_block * 8;
        let start = self.reserve(bytes, 16)?;
        let is_alone = self.cluster == 1;
        // The number of trips must be the same in all blocks; other blocks may still read the part of the array.
        let (trips, sync) = match is_alone {
            true => (self.trips(id), "bar.sync 0".to_owned()),
            false => (format!("mov.u32 %q{id}n, {}", self.rng.range(1, 4)), CLUSTER_SYNC.to_owned()),
        };
        let head = format!(
            ".reg .b32 %q{id}n, %q{id}i, %q{id}r, %q{id}a, %q{id}b, %q{id}v, %q{id}x; .reg .b64 %q{id}g; .reg .pred %q{id}p; {trips}; {sync}; \
             {}; mov.b32 %q{id}x, $r; mov.u32 %q{id}i, 0{}",
            self.own_place(id, start),
            if is_alone { String::new() } else { format!("; {}", self.other_rank(id)) },
        );
        let arrive = "barrier.cluster.arrive{/.release}{/.aligned}";
        let wait = "barrier.cluster.wait{/.acquire}{/.aligned}";
        let top = format!("QT{id}: st.shared::cluster.b32 [%q{id}b], %q{id}x; st.shared.b32 [%q{id}a+4], $r; {arrive}");
        let read = format!("{wait}; {}", self.read_of_cluster(id, start, bytes));
        let again = if is_alone && self.rng.chance(50) { "bar.sync 0".to_owned() } else { format!("{arrive}; {wait}") };
        // All threads have read, so each may change its own words.
        let back = format!(
            "{again}; atom.shared::cluster.{{add.u32/xor.b32/exch.b32}} %q{id}v, [%q{id}b+4], %q{id}x; xor.b32 %q{id}x, %q{id}x, %q{id}v; \
             add.u32 %q{id}i, %q{id}i, 1; setp.lt.u32 %q{id}p, %q{id}i, %q{id}n; @%q{id}p bra QT{id}"
        );
        let end = format!("mov.b32 $=r, %q{id}x");
        let mut holes = vec![self.hole(cx, Level::Block, 1)];
        // A thread that has arrived waits before it arrives again.
        self.in_cluster_phase = true;
        holes.push(self.hole(cx, Level::Block, 4));
        self.in_cluster_phase = false;
        holes.extend([self.hole(cx, Level::Block, 4), self.hole(cx, Level::Block, 1)]);
        let statement = self.staged(cx, &[head, top, read, back, end], holes);
        self.area_used = area;
        Some(statement)
    }

    /// Generates an exchange ordered by barriers in shared memory at which threads arrive through addresses in the cluster.
    pub(super) fn remote_arrivals(&mut self, cx: &Context) -> Option<Stmt> {
        let id = self.id();
        let (area, gates) = (self.area_used, self.gates_used);
        let bytes = self.threads_per_block * 8;
        let start = self.reserve(bytes, 16)?;
        let Some(gate) = self.reserve_gates(2) else {
            self.area_used = area;
            return None;
        };
        let head = format!(
            ".reg .b32 %q{id}n, %q{id}i, %q{id}u, %q{id}r, %q{id}a, %q{id}b, %q{id}v, %q{id}x, %q{id}h; .reg .b64 %q{id}g; \
             .reg .pred %q{id}p, %q{id}w, %q{id}k; {}; setp.eq.u32 %q{id}k, %lin, {}; bar.sync 0; \
             @%q{id}k mbarrier.init.shared.b64 [%tgate+{gate}], %nthr; @%q{id}k mbarrier.init.shared.b64 [%tgate+{}], %nthr; \
             fence.mbarrier_init.release.cluster; bar.sync 0; {}; add.u32 %q{id}h, %tgate, {gate}; \
             mapa.shared::cluster.u32 %q{id}h, %q{id}h, %q{id}r; mov.b32 %q{id}x, $r; mov.u32 %q{id}i, 0; mov.u32 %q{id}u, 0",
            self.trips(id),
            self.rng.below(self.threads_per_block),
            gate + 8,
            self.own_place(id, start)
        );
        let arrive = |at: usize| format!("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%q{id}h+{at}]");
        let wait = |number: usize| {
            let scope = "{.acquire.cluster/.acquire.cta/}";
            format!(
                "QW{id}x{number}: mbarrier.{{try_wait/test_wait}}.parity{scope}.shared::cta.b64 %q{id}w, [%tgate+{}], %q{id}u; \
                 @!%q{id}w bra QW{id}x{number}",
                gate + 8 * number
            )
        };
        let top = format!("QT{id}: st.shared::cluster.b32 [%q{id}b], %q{id}x; st.shared.b32 [%q{id}a+4], $r; {}", arrive(0));
        let read = format!("{}; {}; {}", wait(0), self.read_of_cluster(id, start, bytes), arrive(8));
        let statement = self.two_gate_loop(cx, id, gate, [head, top, read], &wait(1));
        (self.area_used, self.gates_used) = (area, gates);
        Some(statement)
    }

    /// Generates data that each block sends to another one, or one block to all: `st.async`, `red.async`, bulk copies, stores followed by
    /// arrivals.
    pub(super) fn cluster_sends(&mut self, cx: &Context) -> Option<Stmt> {
        let id = self.id();
        let (area, gates) = (self.area_used, self.gates_used);
        let bytes = self.threads_per_block * 16;
        let start = self.reserve(2 * bytes, 128)?;
        let Some(gate) = self.reserve_gates(1) else {
            self.area_used = area;
            return None;
        };
        let from = start + bytes;
        let kind = self.rng.below(5);
        let arrivals = if kind == 4 { self.threads_per_block } else { 1 };
        let head = format!(
            ".reg .b32 %q{id}r, %q{id}a, %q{id}b, %q{id}c, %q{id}v, %q{id}x, %q{id}h, %q{id}o; .reg .b64 %q{id}g; .reg .b16 %q{id}m; \
             .reg .pred %q{id}w, %q{id}k; setp.eq.u32 %q{id}k, %lin, {}; {CLUSTER_SYNC}; \
             @%q{id}k mbarrier.init.shared.b64 [%tgate+{gate}], {arrivals}; fence.mbarrier_init.release.cluster; \
             mad.lo.u32 %q{id}a, %lin, 16, %tsr; st.shared.b32 [%q{id}a+{start}], $r; st.shared.b32 [%q{id}a+{}], $r; \
             st.shared.b32 [%q{id}a+{}], $r; st.shared.b32 [%q{id}a+{}], $r; \
             st.shared.b32 [%q{id}a+{from}], $r; st.shared.b32 [%q{id}a+{}], $r; st.shared.b32 [%q{id}a+{}], $r; st.shared.b32 [%q{id}a+{}], $r; \
             fence.proxy.async; {CLUSTER_SYNC}; {}; \
             add.u32 %q{id}h, %tgate, {gate}; mapa.shared::cluster.u32 %q{id}h, %q{id}h, %q{id}r; \
             add.u32 %q{id}b, %q{id}a, {start}; mapa.shared::cluster.u32 %q{id}b, %q{id}b, %q{id}r; mov.u32 %q{id}v, $r",
            self.rng.below(self.threads_per_block),
            start + 4,
            start + 8,
            start + 12,
            from + 4,
            from + 8,
            from + 12,
            self.other_rank(id),
        );
        let expect =
            |bytes: usize| format!("@%q{id}k mbarrier.arrive.expect_tx{{/.release.cta}}.shared::cta.b64 _, [%tgate+{gate}], {bytes}");
        let threads = self.threads_per_block;
        let complete = "mbarrier::complete_tx::bytes";
        let send = match kind {
            0 => {
                let (size, form) = *self.rng.pick(&[
                    (4, ".b32 [%qB], $r, [%qH]"),
                    (8, ".v2.b32 [%qB], <$r, $r>, [%qH]"),
                    (16, ".v4.b32 [%qB], <$r, %qV, $r, $r>, [%qH]"),
                ]);
                let form = form.replace("%qB", &format!("%q{id}b")).replace("%qH", &format!("%q{id}h")).replace("%qV", &format!("%q{id}v"));
                format!("{}; st.async.weak.shared::cluster.{complete}{form}", expect(size * threads))
            }
            1 => format!(
                "{}; and.b32 %q{id}c, %q{id}b, 0xffffff8f; \
                 red.async.relaxed.cluster.shared::cluster.{complete}.{{add.u32/min.s32/max.u32/and.b32/or.b32/xor.b32}} [%q{id}c], %q{id}v, [%q{id}h]",
                expect(4 * threads)
            ),
            2 => format!(
                "{}; add.u32 %q{id}c, %tsr, {from}; add.u32 %q{id}o, %tsr, {start}; mapa.shared::cluster.u32 %q{id}o, %q{id}o, %q{id}r; \
                 @%q{id}k cp.async.bulk.shared::cluster.shared::cta.{complete} [%q{id}o], [%q{id}c], {bytes}, [%q{id}h]",
                expect(bytes)
            ),
            3 => {
                let sender = self.rng.below(self.cluster);
                let size = bytes.min(INPUT_BYTES);
                format!(
                    "{}; mov.u32 %q{id}o, %cluster_ctarank; setp.eq.and.u32 %q{id}k, %q{id}o, {sender}, %q{id}k; \
                     add.u32 %q{id}o, %tsr, {start}; add.u32 %q{id}c, %tgate, {gate}; mov.b16 %q{id}m, {}; \
                     @%q{id}k cp.async.bulk.shared::cluster.global.{complete}.multicast::cluster [%q{id}o], [%in], {size}, [%q{id}c], %q{id}m",
                    expect(size),
                    (1 << self.cluster) - 1
                )
            }
            _ => format!(
                "st.shared::cluster.b32 [%q{id}b], $r; st.shared::cluster.b32 [%q{id}b+8], %q{id}v; \
                 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%q{id}h]"
            ),
        };
        let wait = format!(
            "QW{id}: mbarrier.{{try_wait/test_wait}}.parity.acquire.cluster.shared::cta.b64 %q{id}w, [%tgate+{gate}], 0; @!%q{id}w bra QW{id}; \
             and.b32 %q{id}v, $r, {:#x}; add.u32 %q{id}v, %q{id}v, %tsr; ld.shared.b32 %q{id}x, [%q{id}v+{start}]",
            bytes - 4
        );
        let end = format!("{CLUSTER_SYNC}; mov.b32 $=r, %q{id}x");
        // Nothing between the parts uses the barrier of the cluster.
        self.in_cluster_phase = true;
        let holes = vec![self.hole(cx, Level::Block, 1), self.hole(cx, Level::Block, 1), self.hole(cx, Level::Block, 1)];
        self.in_cluster_phase = false;
        let statement = self.staged(cx, &[head, send, wait, end], holes);
        (self.area_used, self.gates_used) = (area, gates);
        Some(statement)
    }

    /// Generates statements between two changes of the number of registers: all warps give up registers and take them back. The changes have
    /// no effect on results.
    pub(super) fn register_counts(&mut self, cx: &Context) -> Stmt {
        self.has_few_registers = true;
        let hole = self.hole(cx, Level::Block, 1);
        self.has_few_registers = false;
        let fewer = "setmaxnreg.dec.sync.aligned.u32 {40/56/72}".to_owned();
        let again = format!("setmaxnreg.inc.sync.aligned.u32 {CHANGED_REGISTERS}");
        self.staged(cx, &[fewer, again], vec![hole])
    }
}
