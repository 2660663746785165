//! Generates products of warpgroups (`wgmma`): several in flight, accumulators used after their wait, operands in registers or in shared
//! memory, and pipelines whose operands come by bulk copies.

use super::matrices::{Element, Sum};
use super::tensor::list;
use super::{Context, Generator, Level};
use crate::program::{OperandClass, Stmt};

/// A type of product: the types in the name, element types, accumulator, depth, and whether matrices may be transposed.
struct GroupKind {
    types: &'static str,
    element: Element,
    sum: Sum,
    depth: usize,
    /// Number of operands after `scale-d`: 4 with transposition (3 if A is in registers), 2 with scales, 0 for integers.
    scales: usize,
}

const KINDS: [GroupKind; 10] = [
    GroupKind { types: "f32.f16.f16", element: Element::F16, sum: Sum::Single, depth: 16, scales: 4 },
    GroupKind { types: "f32.f16.f16", element: Element::F16, sum: Sum::Single, depth: 16, scales: 4 },
    GroupKind { types: "f32.bf16.bf16", element: Element::Bf16, sum: Sum::Single, depth: 16, scales: 4 },
    GroupKind { types: "f16.f16.f16", element: Element::F16, sum: Sum::Half, depth: 16, scales: 4 },
    GroupKind { types: "f32.tf32.tf32", element: Element::Tf32, sum: Sum::Single, depth: 8, scales: 2 },
    GroupKind { types: "f32.e4m3.e4m3", element: Element::E4m3, sum: Sum::Single, depth: 32, scales: 2 },
    GroupKind { types: "f32.e5m2.e4m3", element: Element::E4m3, sum: Sum::Single, depth: 32, scales: 2 },
    GroupKind { types: "f16.e4m3.e5m2", element: Element::E5m2, sum: Sum::Half, depth: 32, scales: 2 },
    GroupKind { types: "s32.{s8/u8}.{s8/u8}", element: Element::Integer, sum: Sum::Integer, depth: 32, scales: 0 },
    GroupKind { types: "s32.{s8/u8}.{s8/u8}", element: Element::Integer, sum: Sum::Integer, depth: 32, scales: 0 },
];

/// The upper bits of a descriptor, and bytes per row of the matrix.
#[derive(Clone, Copy)]
struct Layout {
    /// Leading dimension, stride and swizzle.
    upper: u64,
    /// Bytes for each row of A or column of B that the matrix occupies.
    row_bytes: usize,
    transposed: bool,
}

impl Generator {
    /// Picks the layout of a matrix with `rows` rows (A) or columns (B).
    fn layout(&mut self, rows: usize, may_transpose: bool) -> Layout {
        let upper = |leading: usize, stride: usize, swizzle: u64| (leading as u64 >> 4) << 16 | (stride as u64 >> 4) << 32 | swizzle << 62;
        let &(row, swizzle) = self.rng.pick(&[(16, 0), (16, 0), (32, 3), (64, 2), (128, 1)]);
        let transposed = may_transpose && self.rng.chance(35) && (row == 16 || (rows * 2).is_multiple_of(row));
        match (row, transposed) {
            (16, _) => Layout { upper: upper(128, 256, 0), row_bytes: 32, transposed },
            (_, true) => Layout { upper: upper(16 * row, 8 * row, swizzle), row_bytes: 32, transposed },
            _ => Layout { upper: upper(16, 8 * row, swizzle), row_bytes: row, transposed },
        }
    }

    /// Returns the template that makes a descriptor of a matrix whose address is in a 32-bit register.
    fn descriptor(id: usize, to: &str, address: &str, layout: Layout) -> String {
        format!(
            "and.b32 %q{id}t, {address}, 0x3ffff; shr.u32 %q{id}t, %q{id}t, 4; cvt.u64.u32 {to}, %q{id}t; or.b64 {to}, {to}, {:#x}",
            layout.upper
        )
    }

    /// Generates products in several groups, with statements while they run. Each group has its own accumulator or that of the one before.
    pub(super) fn group_products(&mut self, cx: &Context) -> Option<Stmt> {
        let id = self.id();
        let kind = self.rng.pick(&KINDS);
        let columns = *self.rng.pick(&[8, 8, 16, 16, 24, 32, 64]);
        let a_in_registers = self.rng.chance(40);
        let layouts = [self.layout(64, kind.scales == 4 && !a_in_registers), self.layout(columns, kind.scales == 4)];
        let area = self.area_used;
        let bytes = [if a_in_registers { 0 } else { 64 * layouts[0].row_bytes }, columns * layouts[1].row_bytes];
        let start_a = self.reserve(bytes[0], 1024);
        let start_b = start_a.and_then(|_| self.reserve(bytes[1].max(128), 1024));
        let (Some(start_a), Some(start_b)) = (start_a, start_b) else {
            self.area_used = area;
            return None;
        };
        let sums = columns / if kind.sum == Sum::Half { 4 } else { 2 };
        let groups = self.rng.range(1, 3) as usize;
        let accumulators: Vec<Vec<String>> =
            (0..groups).map(|group| (0..sums).map(|number| format!("%q{id}g{group}c{number}")).collect()).collect();
        let a: Vec<String> = (0..4).map(|number| format!("%q{id}a{number}")).collect();
        let types = self.choose(kind.types);
        let saturates = kind.scales == 0 && self.rng.chance(20);
        let name =
            format!("wgmma.mma_async.sync.aligned.m64n{columns}k{}.{types}{}", kind.depth, if saturates { ".satfinite" } else { "" });
        let transposed = |layout: Layout| u8::from(layout.transposed);
        let rest = match kind.scales {
            0 => String::new(),
            2 => ", {1/1/-1}, {1/1/-1}".to_owned(),
            _ if a_in_registers => format!(", {{1/1/-1}}, {{1/1/-1}}, {}", transposed(layouts[1])),
            _ => format!(", {{1/1/-1}}, {{1/1/-1}}, {}, {}", transposed(layouts[0]), transposed(layouts[1])),
        };
        let operand_a = if a_in_registers { list(&a) } else { format!("%q{id}da") };
        let multiply = |sum: &[String], scale: &str| format!("{name} {}, {operand_a}, %q{id}db, {scale}{rest}", list(sum));
        let mut head = format!(
            ".reg .b32 {}, {}, %q{id}t, %q{id}x, %q{id}s, %q{id}n, %q{id}i; .reg .b64 %q{id}da, %q{id}db; .reg .pred %q{id}f, %q{id}d, %q{id}p; bar.sync 0",
            accumulators.concat().join(", "),
            a.join(", ")
        );
        let bound = self.bound(kind.element);
        if !a_in_registers {
            head += &format!("; {}", self.fill(id, start_a, bytes[0], bound));
        }
        head += &format!("; {}; fence.proxy.async; bar.sync 0", self.fill(id, start_b, bytes[1], bound));
        for (to, start, layout) in [("da", start_a, layouts[0]), ("db", start_b, layouts[1])] {
            head +=
                &format!("; add.u32 %q{id}t, %tsr, {start}; {}", Self::descriptor(id, &format!("%q{id}{to}"), &format!("%q{id}t"), layout));
        }
        for register in &a {
            head += &format!("; {}", bound.copy(register, "$r"));
        }
        for sum in &accumulators {
            head += &format!("; {}", self.start_sum(kind.sum, sum));
        }
        // Whether products add to the accumulator must be the same in all threads.
        let with_uniform = self.pool[OperandClass::Uniform as usize] > 0;
        head +=
            &if with_uniform { format!("; setp.{{ne/lt/ge}}.s32 %q{id}d, $u, {{0/1/2}}") } else { format!("; setp.eq.u32 %q{id}d, 0, 0") };
        let scale = |generator: &mut Self| generator.choose(&format!("{{1/1/1/0/%q{id}d}}"));
        if self.rng.chance(40) {
            return Some(self.loop_of_products(cx, id, head, &accumulators, &a, kind.sum, area, &multiply));
        }
        let (mut templates, mut holes) = (vec![head], vec![self.hole(cx, Level::Block, 1)]);
        let mut issue = "wgmma.fence.sync.aligned".to_owned();
        for (group, sum) in accumulators.iter().enumerate() {
            for _ in 0..self.rng.range(1, 3) {
                let scale = scale(self);
                issue += &format!("; {}", multiply(sum, &scale));
                if !a_in_registers && self.rng.chance(30) {
                    issue += &format!("; add.s64 %q{id}db, %q{id}db, 0");
                }
            }
            issue += "; wgmma.commit_group.sync.aligned";
            if group + 1 < groups && self.rng.chance(40) {
                templates.push(std::mem::take(&mut issue));
                holes.push(self.hole(cx, Level::Block, 1));
                issue = if self.rng.chance(50) { "wgmma.fence.sync.aligned".to_owned() } else { format!("add.u32 %q{id}s, %lin, 1") };
            }
        }
        templates.push(issue);
        holes.push(self.hole(cx, Level::Block, 1));
        // Groups end in order; each accumulator is read once all groups up to its own have ended.
        let mut waited = 0;
        while waited < groups {
            let now = waited + 1 + self.rng.below(groups - waited);
            let mut text = format!("wgmma.wait_group.sync.aligned {}", groups - now);
            for sum in &accumulators[waited..now] {
                text += &format!("; {}", self.take_sum(kind.sum, sum, &format!("%q{id}x")));
            }
            templates.push(text);
            holes.push(self.hole(cx, Level::Block, 1));
            waited = now;
        }
        holes.pop();
        let statement = self.staged(cx, &templates, holes);
        self.area_used = area;
        Some(statement)
    }

    /// Makes a loop with one group of products in flight across its back edge.
    #[allow(clippy::too_many_arguments)]
    fn loop_of_products(
        &mut self,
        cx: &Context,
        id: usize,
        head: String,
        accumulators: &[Vec<String>],
        a: &[String],
        sum: Sum,
        area: usize,
        multiply: &dyn Fn(&[String], &str) -> String,
    ) -> Stmt {
        let head = format!("{head}; {}; mov.u32 %q{id}i, 0", self.trips(id));
        let left = self.rng.below(2);
        let mut body = "wgmma.fence.sync.aligned".to_owned();
        for accumulator in accumulators {
            body += &format!("; {}", multiply(accumulator, "1"));
        }
        body += "; wgmma.commit_group.sync.aligned";
        let mut wait = format!("wgmma.wait_group.sync.aligned {left}");
        if left == 0 && self.rng.chance(60) {
            // No product is in flight, so operands and accumulators may change.
            wait += &format!("; mov.b32 {}, {}; mov.b32 {}, {}", a[0], a[3], accumulators[0][0], accumulators[0][1]);
        }
        let back = format!("add.u32 %q{id}i, %q{id}i, 1; setp.lt.u32 %q{id}p, %q{id}i, %q{id}n; @%q{id}p bra QT{id}");
        let mut end = "wgmma.wait_group.sync.aligned 0".to_owned();
        for accumulator in accumulators {
            end += &format!("; {}", self.take_sum(sum, accumulator, &format!("%q{id}x")));
        }
        let top = format!("QT{id}: add.u32 %q{id}s, %q{id}i, 1");
        let holes = vec![
            self.hole(cx, Level::Block, 1),
            self.hole(cx, Level::Block, 4),
            self.hole(cx, Level::Block, 4),
            self.hole(cx, Level::Block, 4),
            self.hole(cx, Level::Block, 1),
        ];
        let statement = self.staged(cx, &[head, top, body, wait, back, end], holes);
        self.area_used = area;
        statement
    }

    /// Generates a pipeline as in matrix kernels: one thread issues bulk copies of A and B, all warps multiply, and a buffer is given back
    /// when the product that reads it has ended.
    pub(super) fn group_pipeline(&mut self, cx: &Context) -> Option<Stmt> {
        let id = self.id();
        let stages = self.rng.range(2, 4) as usize;
        let columns = *self.rng.pick(&[8, 8, 16, 32]);
        let kind = &KINDS[*self.rng.pick(&[0, 2, 4, 8, 9])];
        let layouts = [
            Layout { upper: 0x10_0008_0000, row_bytes: 32, transposed: false },
            Layout { upper: 0x10_0008_0000, row_bytes: 32, transposed: kind.scales == 4 && self.rng.chance(40) },
        ];
        let sizes = [2048, columns * 32];
        let buffer = sizes[0] + sizes[1];
        let (area, gates) = (self.area_used, self.gates_used);
        let start = self.reserve(stages * buffer, 1024)?;
        let Some(gate) = self.reserve_gates(2 * stages) else {
            self.area_used = area;
            return None;
        };
        let empty = gate + 8 * stages;
        let threads = self.threads_per_block;
        let sum: Vec<String> = (0..columns / 2).map(|number| format!("%q{id}c{number}")).collect();
        let types = self.choose(kind.types);
        let rest = match kind.scales {
            0 => String::new(),
            2 => ", 1, 1".to_owned(),
            _ => format!(", 1, 1, 0, {}", u8::from(layouts[1].transposed)),
        };
        let mut head = format!(
            ".reg .b32 {}, %q{id}t, %q{id}x, %q{id}n, %q{id}i, %q{id}g, %q{id}j, %q{id}b, %q{id}d, %q{id}h, %q{id}u, %q{id}o, %q{id}y; \
             .reg .b64 %q{id}da, %q{id}db, %q{id}l; .reg .pred %q{id}p, %q{id}f, %q{id}e, %q{id}k; {}; mov.b32 %q{id}y, {{$u/%nthr}}; \
             setp.eq.u32 %q{id}k, %lin, 0; bar.sync 0",
            sum.join(", "),
            self.trips(id)
        );
        for stage in 0..stages {
            head += &format!("; @%q{id}k mbarrier.init.shared.b64 [%tgate+{}], 1", gate + 8 * stage);
            head += &format!("; @%q{id}k mbarrier.init.shared.b64 [%tgate+{}], {threads}", empty + 8 * stage);
        }
        head += "; fence.mbarrier_init.release.cluster; fence.proxy.async; bar.sync 0; ";
        head += &self.issuer(id);
        head += &format!("; {}; mov.u32 %q{id}i, 0", self.start_sum(kind.sum, &sum));
        let issue = |at: &str| {
            format!(
                "rem.u32 %q{id}j, {at}, {stages}; mad.lo.u32 %q{id}h, %q{id}j, 8, %tgate; mad.lo.u32 %q{id}d, %q{id}j, {buffer}, %tsr; \
                 add.u32 %q{id}d, %q{id}d, {start}; mad.lo.u32 %q{id}o, {at}, 80, %q{id}y; and.b32 %q{id}o, %q{id}o, 0x3f0; cvt.u64.u32 %q{id}l, %q{id}o; \
                 add.s64 %q{id}l, %q{id}l, %in; mbarrier.arrive.expect_tx.shared.b64 _, [%q{id}h+{gate}], {buffer}; \
                 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%q{id}d], [%in], {}, [%q{id}h+{gate}]; add.u32 %q{id}d, %q{id}d, {}; \
                 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%q{id}d], [%q{id}l], {}, [%q{id}h+{gate}]",
                sizes[0], sizes[0], sizes[1]
            )
        };
        let wait = |label: &str, at: usize, counter: &str| {
            format!(
                "div.u32 %q{id}u, {counter}, {stages}; and.b32 %q{id}u, %q{id}u, 1; rem.u32 %q{id}j, {counter}, {stages}; mad.lo.u32 %q{id}h, %q{id}j, 8, %tgate; \
                 {label}: mbarrier.try_wait.parity.shared.b64 %q{id}p, [%q{id}h+{at}], %q{id}u; @!%q{id}p bra {label}"
            )
        };
        let first = format!(
            "@!%q{id}e bra QS{id}; mov.u32 %q{id}g, 0; QI{id}: {}; add.u32 %q{id}g, %q{id}g, 1; setp.lt.u32 %q{id}p, %q{id}g, %q{id}n; \
             setp.lt.and.u32 %q{id}p, %q{id}g, {stages}, %q{id}p; @%q{id}p bra QI{id}; QS{id}: mov.u32 %q{id}i, 0",
            issue(&format!("%q{id}g"))
        );
        let top = format!("QT{id}: add.u32 %q{id}g, %q{id}i, {}", stages - 1);
        let ready = format!(
            "{}; mad.lo.u32 %q{id}b, %q{id}j, {buffer}, %tsr; add.u32 %q{id}b, %q{id}b, {start}; {}; add.u32 %q{id}b, %q{id}b, {}; {}; \
             wgmma.fence.sync.aligned; wgmma.mma_async.sync.aligned.m64n{columns}k{}.{types} {}, %q{id}da, %q{id}db, 1{rest}; wgmma.commit_group.sync.aligned",
            wait(&format!("QF{id}"), gate, &format!("%q{id}i")),
            Self::descriptor(id, &format!("%q{id}da"), &format!("%q{id}b"), layouts[0]),
            sizes[0],
            Self::descriptor(id, &format!("%q{id}db"), &format!("%q{id}b"), layouts[1]),
            kind.depth,
            list(&sum)
        );
        // The product of the iteration before has ended, so its buffer is free.
        let free = format!(
            "wgmma.wait_group.sync.aligned 1; setp.eq.u32 %q{id}f, %q{id}i, 0; @%q{id}f bra QN{id}; sub.u32 %q{id}x, %q{id}i, 1; \
             rem.u32 %q{id}j, %q{id}x, {stages}; mad.lo.u32 %q{id}h, %q{id}j, 8, %tgate; mbarrier.arrive.shared.b64 _, [%q{id}h+{empty}]; \
             setp.lt.and.u32 %q{id}f, %q{id}g, %q{id}n, %q{id}e; @!%q{id}f bra QN{id}; {}; {}; \
             QN{id}: add.u32 %q{id}i, %q{id}i, 1; setp.lt.u32 %q{id}p, %q{id}i, %q{id}n; @%q{id}p bra QT{id}",
            wait(&format!("QE{id}"), empty, &format!("%q{id}x")),
            issue(&format!("%q{id}g"))
        );
        let mut end = format!("wgmma.wait_group.sync.aligned 0; {}; bar.sync 0", self.take_sum(kind.sum, &sum, &format!("%q{id}x")));
        for number in 0..2 * stages {
            end += &format!("; @%q{id}k mbarrier.inval.shared.b64 [%tgate+{}]", gate + 8 * number);
        }
        let holes = vec![
            self.hole(cx, Level::Block, 1),
            Vec::new(),
            self.hole(cx, Level::Block, 4),
            self.hole(cx, Level::Block, 4),
            self.hole(cx, Level::Block, 1),
        ];
        let statement = self.staged(cx, &[head, first, top, ready, free, end], holes);
        (self.area_used, self.gates_used) = (area, gates);
        Some(statement)
    }
}
