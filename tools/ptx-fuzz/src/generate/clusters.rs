//! Statements of the feature `clusters`. A launch without clusters makes each block a cluster of its own, so a block accesses its own shared
//! memory as memory of the cluster, and the barrier of the cluster is one of the block.

use super::{Context, Generator, Level};
use crate::program::{Op, Stmt};

impl Generator {
    /// Returns the template of the registers `%q{id}r`, the rank of the block, and `%q{id}b`, the address in the cluster of the two words
    /// of the thread, which `%q{id}a` addresses in the block.
    fn own_place(&mut self, id: usize, start: usize) -> String {
        let rank = self
            .choose(&format!("{{mov.u32 %q{id}r, %cluster_ctarank/mov.u32 %q{id}r, 0/getctarank.shared::cluster.u32 %q{id}r, %q{id}a}}"));
        format!(
            "mad.lo.u32 %q{id}a, %lin, 8, %tsr; add.u32 %q{id}a, %q{id}a, {start}; {rank}; mapa.shared::cluster.u32 %q{id}b, %q{id}a, %q{id}r"
        )
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
        let head = format!(
            ".reg .b32 %q{id}n, %q{id}i, %q{id}r, %q{id}a, %q{id}b, %q{id}v, %q{id}x; .reg .b64 %q{id}g; .reg .pred %q{id}p; {}; bar.sync 0; \
             {}; mov.b32 %q{id}x, $r; mov.u32 %q{id}i, 0",
            self.trips(id),
            self.own_place(id, start)
        );
        let arrive = "barrier.cluster.arrive{/.release}{/.aligned}";
        let wait = "barrier.cluster.wait{/.acquire}{/.aligned}";
        let top = format!("QT{id}: st.shared::cluster.b32 [%q{id}b], %q{id}x; st.shared.b32 [%q{id}a+4], $r; {arrive}");
        let read = format!("{wait}; {}", self.read_of_cluster(id, start, bytes));
        let again = if self.rng.chance(50) { "bar.sync 0".to_owned() } else { format!("{arrive}; {wait}") };
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

    /// Generates a change of the number of registers, which has no effect on results.
    pub(super) fn register_count(&mut self) -> Op {
        self.plain("setmaxnreg.inc.sync.aligned.u32 {24/40/104/152/232}")
    }
}
