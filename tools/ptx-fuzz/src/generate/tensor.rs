//! Statements of the tensor features: selection, shared memory, loops with holes for other statements.
//!
//! All threads of the block execute these statements together. They use parts of one array in shared memory (`%tsr`) that they reserve
//! while they run, so that statements in between, which may be of the same kind, use other parts. Each starts with a barrier before it
//! writes to its part.

use super::matrices::Bound;
use super::{Context, Generator, Level};
use crate::features::Feature;
use crate::program::{Op, OperandClass, Stmt};

/// Bytes of the array in shared memory.
pub const AREA_BYTES: usize = 16 << 10;
/// Number of barriers in shared memory.
pub const GATES: usize = 24;

/// Returns a list of registers as a vector of a template.
pub(super) fn list(names: &[String]) -> String {
    format!("<{}>", names.join(", "))
}

impl Generator {
    /// Returns whether a statement of a tensor feature may be generated at this place: where all threads of the thread block execute the
    /// statement, in full warps, and, for features other than matrix products, in a kernel.
    pub(super) fn allows_tensor(&self, cx: &Context) -> bool {
        self.full_warps
            && cx.level == Level::Block
            && (self.in_kernel || self.features.has(Feature::Matrices))
            && self.features.has_tensor()
    }

    /// Generates a statement of one of the tensor features of the program; `None` if it does not fit.
    pub(super) fn tensor(&mut self, cx: &Context) -> Option<Stmt> {
        let mut kinds = Vec::new();
        for feature in Feature::TENSOR.into_iter().filter(|&feature| self.features.has(feature)) {
            match feature {
                Feature::Matrices if self.in_kernel => kinds.extend([0, 0, 1, 2]),
                Feature::Matrices => kinds.push(0),
                Feature::AsyncCopies if self.in_kernel => kinds.extend([3, 3]),
                Feature::MemoryBarriers if self.in_kernel && self.sm >= 90 => kinds.extend([4, 5, 5, 6]),
                Feature::MemoryBarriers if self.in_kernel => kinds.extend([4]),
                // The accumulators of a product may need more registers than a warp has that has given some up.
                Feature::Warpgroups if self.in_kernel && !self.has_few_registers => kinds.extend([7, 7, 8]),
                _ => {}
            }
        }
        if self.features.has(Feature::Clusters) && self.in_kernel {
            kinds.push(10);
            // Blocks of one cluster execute the same statements only outside of branches and loops.
            if !self.in_cluster_phase && (self.cluster == 1 || cx.depth == 0) {
                kinds.extend([9, 9]);
                if self.cluster > 1 {
                    kinds.extend([9, 9, 12, 12, 12, 12]);
                }
            }
            if self.features.has(Feature::Warpgroups) && !self.has_few_registers {
                kinds.push(11);
            }
        }
        if kinds.is_empty() || self.cost_limit < self.cost + 200 * cx.weight {
            return None;
        }
        match *self.rng.pick(&kinds) {
            0 => self.matrix_products(cx),
            1 => self.matrix_moves().map(Stmt::Op),
            2 => self.fragment_product(cx),
            3 => self.copy_pipeline(cx),
            4 => self.gate_exchange(cx),
            5 => self.bulk_pipeline(cx),
            6 => self.bulk_store(cx),
            7 => self.group_products(cx),
            8 => self.group_pipeline(cx),
            9 => self.cluster_exchange(cx),
            10 => self.remote_arrivals(cx),
            12 => self.cluster_sends(cx),
            _ => Some(self.register_counts(cx)),
        }
    }

    /// Reserves a part of the array in shared memory and returns its offset.
    pub(super) fn reserve(&mut self, bytes: usize, align: usize) -> Option<usize> {
        let start = self.area_used.next_multiple_of(align);
        if start + bytes > AREA_BYTES {
            return None;
        }
        self.area_used = start + bytes;
        Some(start)
    }

    /// Reserves barriers in shared memory and returns the offset of the first one in bytes.
    pub(super) fn reserve_gates(&mut self, count: usize) -> Option<usize> {
        if self.gates_used + count > GATES {
            return None;
        }
        self.gates_used += count;
        Some((self.gates_used - count) * 8)
    }

    /// Returns the template by which all threads fill a part of the array. Uses `%q{id}t` and the predicate `%q{id}f`.
    pub(super) fn fill(&mut self, id: usize, start: usize, bytes: usize, bound: Bound) -> String {
        let mut text = format!("mad.lo.u32 %q{id}t, %lin, 16, %tsr");
        let step = self.threads_per_block * 16;
        let mut at = 0;
        while at < bytes {
            let values: Vec<String> = (0..4).map(|number| format!("%q{id}v{number}")).collect();
            if at == 0 {
                text = format!(".reg .b32 {}; {text}", values.join(", "));
            }
            let only = if at + step > bytes {
                text += &format!("; setp.lt.u32 %q{id}f, %lin, {}", (bytes - at) / 16);
                format!("@%q{id}f ")
            } else {
                String::new()
            };
            for value in &values {
                text += &format!("; {}", bound.copy(value, "$r"));
            }
            text += &format!("; {only}st.shared.v4.b32 [%q{id}t+{}], {}", start + at, list(&values));
            at += step;
        }
        text
    }

    /// Generates statements in the middle of a construct. They do not jump out of it.
    pub(super) fn hole(&mut self, cx: &Context, level: Level, trips: usize) -> Vec<Stmt> {
        let loops = std::mem::take(&mut self.loops);
        let size = *self.rng.pick(&[0, 0, 1, 2, 4, 8]);
        let inner = Context { level, weight: cx.weight * trips, executions: cx.executions * trips, depth: cx.depth + 1, exits: false };
        let statements = self.statements(&inner, size);
        self.loops = loops;
        statements
    }

    /// Returns the template that computes the number of trips in `%q{id}n`, at most four, equal in all threads.
    pub(super) fn trips(&mut self, id: usize) -> String {
        if self.pool[OperandClass::Uniform as usize] > 0 && self.rng.chance(50) {
            format!("and.b32 %q{id}n, $u, {{1/3}}; add.u32 %q{id}n, %q{id}n, 1")
        } else {
            format!("mov.u32 %q{id}n, {}", self.rng.range(1, 4))
        }
    }

    /// Makes a construct of templates and the statements between them.
    pub(super) fn staged(&mut self, cx: &Context, templates: &[String], holes: Vec<Vec<Stmt>>) -> Stmt {
        let mut parts: Vec<Op> = templates.iter().map(|template| self.plain(template)).collect();
        let mut declared = Vec::new();
        for part in &mut parts {
            part.declarations.retain(|declaration| {
                !declared.contains(declaration) && {
                    declared.push(declaration.clone());
                    true
                }
            });
        }
        self.cost += parts.iter().map(|part| part.lines.len()).sum::<usize>() * cx.weight * 3;
        Stmt::Staged { parts, holes }
    }

    /// Returns a statement that is a loop in PTX text: `start` before the loop, `body` in each iteration, `end` after the loop. `id` makes the
    /// names of its registers and its label unique. Random statements are generated between these parts.
    pub(super) fn looped(&mut self, cx: &Context, id: usize, start: String, body: String, end: String) -> Stmt {
        let trips = self.trips(id);
        let start = format!("{start}; .reg .b32 %q{id}n, %q{id}i; .reg .pred %q{id}p; {trips}; mov.u32 %q{id}i, 0");
        let top = format!("QT{id}: add.u32 %q{id}i, %q{id}i, 1");
        let back = format!("setp.lt.u32 %q{id}p, %q{id}i, %q{id}n; @%q{id}p bra QT{id}");
        let level = || Level::Block;
        let holes = vec![self.hole(cx, level(), 1), self.hole(cx, level(), 4), self.hole(cx, level(), 4), self.hole(cx, level(), 1)];
        self.staged(cx, &[start, top, body, back, end], holes)
    }
}
