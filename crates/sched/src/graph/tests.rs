use super::*;
use crate::check::{self, OrderViolation};
use crate::code::{AliasSpace, MemAccess, MemAccessKind, from_machine};
use oriole_isa::{Target, parse};

fn code(lines: &[&str]) -> SchedCode {
    from_machine::code(&lines.iter().map(|line| parse(line).unwrap_or_else(|error| panic!("{line}: {error}"))).collect::<Vec<_>>())
}

fn graph(code: &SchedCode) -> Graph {
    let model = Model::of(Target::parse("sm_90a").unwrap());
    GraphBuilder::new(model, code.registers()).build(code, 0..code.items.len())
}

/// Returns whether a path leads from one item to another.
fn has_path(graph: &Graph, first: u32, second: u32) -> bool {
    graph.successors(first).iter().any(|edge| edge.node == second || has_path(graph, edge.node, second))
}

fn ordered_pairs(lines: &[&str]) -> Vec<(u32, u32)> {
    let code = code(lines);
    let graph = graph(&code);
    let count = lines.len() as u32;
    let all = (0..count).flat_map(|first| (first + 1..count).map(move |second| (first, second)));
    all.filter(|&(first, second)| has_path(&graph, first, second)).collect()
}

#[test]
fn registers_order_reads_and_writes() {
    let code = code(&["FADD R0, R1, R2", "FADD R3, R0, R1", "FADD R1, R4, R5", "FADD R0, R6, R7"]);
    let graph = graph(&code);
    let mut found: Vec<(u32, u32, EdgeKind, u16)> = Vec::new();
    for node in 0..4 {
        found.extend(graph.successors(node).iter().map(|edge| (node, edge.node, edge.kind, edge.latency)));
    }
    let kinds: Vec<(u32, u32, EdgeKind)> = found.iter().map(|edge| (edge.0, edge.1, edge.2)).collect();
    let expected = [(0, 1, EdgeKind::Raw), (0, 2, EdgeKind::War), (0, 3, EdgeKind::Waw), (1, 2, EdgeKind::War), (1, 3, EdgeKind::War)];
    assert_eq!(kinds, expected);
    // Dependent FADDs issue four cycles apart on Hopper, as measured.
    assert_eq!(found[0].3, 4);
}

#[test]
fn load_edges_have_the_usual_latency() {
    let code = code(&["LDG.E R0, desc[UR4][R2.64]", "FADD R5, R0, R1"]);
    let model = Model::of(Target::parse("sm_90a").unwrap());
    let edge = graph(&code).successors(0)[0];
    assert!(edge.scoreboard && edge.kind == EdgeKind::Raw);
    assert_eq!(Some(edge.latency), model.time(code.items[0].class).map(|time| time.usual));
}

#[test]
fn guarded_write_keeps_the_previous_writer() {
    assert_eq!(ordered_pairs(&["MOV R0, 0x1", "@P0 MOV R0, 0x2", "FADD R1, R0, R0"]), [(0, 1), (0, 2), (1, 2)]);
}

#[test]
fn same_base_is_compared_by_offset() {
    let lines = ["STG.E desc[UR4][R2.64], R6", "LDG.E R7, desc[UR4][R2.64+0x4]", "LDG.E R8, desc[UR4][R2.64]"];
    assert_eq!(ordered_pairs(&lines), [(0, 2)]);
    // A 64-bit store overlaps the load at offset 4, but not the load at offset 8.
    let lines = ["STG.E.64 desc[UR4][R2.64], R6", "LDG.E R8, desc[UR4][R2.64+0x4]", "LDG.E R9, desc[UR4][R2.64+0x8]"];
    assert_eq!(ordered_pairs(&lines), [(0, 1)]);
}

#[test]
fn overwritten_base_register_makes_a_new_base() {
    let lines = ["STS [R2], R6", "IADD3 R2, R2, 0x4, RZ", "LDS R7, [R2+0x10]"];
    assert_eq!(ordered_pairs(&lines), [(0, 1), (0, 2), (1, 2)]);
}

#[test]
fn different_bases_may_alias_in_one_space() {
    let lines = ["STG.E desc[UR4][R2.64], R6", "LDG.E R7, desc[UR4][R8.64]", "LDS R10, [R12]", "LD.E R11, desc[UR4][R14.64]"];
    assert_eq!(ordered_pairs(&lines), [(0, 1), (0, 3)]);
    let lines = ["LDS R10, [R12]", "STL [R1], R6", "ST.E desc[UR4][R14.64], R7", "LDG.E.CONSTANT R11, desc[UR4][R16.64]"];
    assert_eq!(ordered_pairs(&lines), [(0, 2), (1, 2)]);
}

#[test]
fn only_strong_loads_order_each_other() {
    let lines = ["LDG.E R7, desc[UR4][R2.64]", "LDG.E R8, desc[UR4][R4.64]"];
    assert_eq!(ordered_pairs(&lines), []);
    let lines = ["LDG.E.STRONG.GPU R7, desc[UR4][R2.64]", "LDG.E R9, desc[UR4][R2.64]", "LDG.E.STRONG.SYS R8, desc[UR4][R4.64]"];
    assert_eq!(ordered_pairs(&lines), [(0, 2)]);
}

#[test]
fn fences_and_barriers_order_accesses() {
    let lines = ["LDG.E R7, desc[UR4][R2.64]", "FADD R0, R1, R1", "MEMBAR.SC.GPU", "STS [R12], R6", "SHFL.IDX PT, R20, R21, R22, R23"];
    assert_eq!(ordered_pairs(&lines), [(0, 2), (0, 3), (2, 3)]);
    let lines = ["SHFL.IDX PT, R20, R21, R22, R23", "LDS R7, [R2]", "BAR.SYNC.DEFER_BLOCKING 0x0", "FADD R0, R1, R1", "UMOV UR4, 0x1"];
    // A barrier does not change the set of active threads, so uniform registers may be written before or after it.
    assert_eq!(ordered_pairs(&lines), [(0, 2), (1, 2)]);
    let lines = ["SHFL.IDX PT, R20, R21, R22, R23", "LDS R7, [R2]", "BSYNC B0", "FADD R0, R1, R1", "UMOV UR4, 0x1"];
    assert_eq!(ordered_pairs(&lines), [(0, 2), (0, 4), (1, 2), (1, 4), (2, 4)]);
}

/// Diverged threads share uniform registers, and other threads may overwrite a uniform register before the reconvergence point. So a
/// uniform register must be read before `WARPSYNC`.
#[test]
fn uniform_accesses_do_not_cross_reconvergence() {
    let lines = ["REDUX UR2, R0", "MOV R1, UR2", "WARPSYNC R8", "MOV R3, R4"];
    assert_eq!(ordered_pairs(&lines), [(0, 1), (0, 2), (1, 2)]);
}

#[test]
fn clocks_keep_their_order_and_fixed_registers_do_not() {
    let lines = ["CS2R R2, SR_CLOCKLO", "S2R R4, SR_TID.X", "FADD R0, R1, R1", "CS2R R6, SR_CLOCKLO", "ATOMS.ADD R8, [R9], R10"];
    assert_eq!(ordered_pairs(&lines), [(0, 3), (0, 4), (3, 4)]);
}

#[test]
fn accesses_stay_after_a_guarded_exit() {
    let lines = ["FADD R0, R1, R1", "@P0 EXIT", "LDG.E.CONSTANT R7, desc[UR4][R2.64]", "LDC R8, c[0x0][0x210]"];
    assert_eq!(ordered_pairs(&lines), [(1, 2)]);
}

#[test]
fn regions_end_at_sched_barriers_and_at_their_maximum_length() {
    let lines = ["FADD R0, R1, R1", "CALL.REL.NOINC 0x0", "FADD R0, R1, R1", "FADD R2, R1, R1", "FADD R3, R1, R1", "EXIT"];
    assert_eq!(code(&lines).regions(0..6, 2), [0..1, 2..4, 4..5]);
}

/// Instructions that random code is composed of.
const INSTRUCTION_POOL: [&str; 26] = [
    "FADD R0, R1, R2",
    "FADD R1, R0, R3",
    "FADD R2, R3, R0",
    "@P0 FADD R0, R3, R3",
    "@!P0 MOV R3, R1",
    "ISETP.GT.AND P0, PT, R0, R1, PT",
    "IADD3 R4, R4, 0x8, RZ",
    "STS [R4], R0",
    "STS [R4+0x4], R1",
    "STS.64 [R4+0x4], R2",
    "LDS R1, [R4]",
    "LDS R2, [R4+0x8]",
    "LDS R3, [R5]",
    "STS [R5+0x2], R3",
    "LDG.E R0, desc[UR4][R6.64]",
    "STG.E desc[UR4][R6.64], R1",
    "LDG.E.CONSTANT R2, desc[UR4][R6.64]",
    "LD.E R3, desc[UR4][R6.64]",
    "ST.E desc[UR4][R8.64], R2",
    "LDG.E.STRONG.GPU R1, desc[UR4][R6.64]",
    "ATOMS.ADD R2, [R5], R3",
    "MEMBAR.SC.GPU",
    "BAR.SYNC.DEFER_BLOCKING 0x0",
    "SHFL.IDX PT, R0, R1, R2, R3",
    "CS2R R2, SR_CLOCKLO",
    "LDL R0, [R1]",
];

struct Random(u64);

impl Random {
    fn random_below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }
}

/// Returns the last item before index `place` of `order` that writes `register`; `None` if there is none.
fn last_writer_before(code: &SchedCode, order: &[usize], place: usize, register: u32) -> Option<usize> {
    order[..place].iter().rev().copied().find(|&other| code.writes(&code.items[other]).iter().any(|access| access.register == register))
}

/// Returns whether the last writers of registers are the same in both orders: before every read, before every guarded write (which may keep
/// the old value), and at the end of the code.
fn has_same_last_writers(code: &SchedCode, old: &[usize], new: &[usize]) -> bool {
    let same = |old_place: usize, new_place: usize, register: u32| {
        last_writer_before(code, old, old_place, register) == last_writer_before(code, new, new_place, register)
    };
    let of_items = new.iter().enumerate().all(|(place, &item)| {
        let (reads, writes) = (code.reads(&code.items[item]), code.writes(&code.items[item]));
        let kept = if code.items[item].guarded { writes } else { &[] };
        reads.iter().chain(kept).all(|access| same(item, place, access.register))
    });
    of_items && (0..code.registers() as u32).all(|register| same(old.len(), new.len(), register))
}

fn accesses_mutable_memory(access: &MemAccess) -> bool {
    access.kind != MemAccessKind::ReadConstant
}

/// Returns whether two items must keep their order regardless of registers. Applies the rules directly, pair by pair.
fn must_keep_order(code: &SchedCode, old: &[usize], first: usize, second: usize) -> bool {
    let (a, b) = (&code.items[first], &code.items[second]);
    let is_strong =
        |item: &Item| matches!(item.effect, OrderEffect::Clock) || matches!(item.effect, OrderEffect::Access(access) if access.strong);
    let has_order = |item: &Item| match item.effect {
        OrderEffect::None => false,
        OrderEffect::Access(access) => accesses_mutable_memory(&access),
        _ => true,
    };
    let is_barrier = |item: &Item| matches!(item.effect, OrderEffect::Barrier | OrderEffect::Sync);
    let is_fence = |item: &Item| item.effect == OrderEffect::Fence || is_barrier(item);
    let follows_sync = |item: &Item| item.needs_convergence || matches!(item.effect, OrderEffect::Access(_));
    let follows_barrier = |item: &Item| item.exchanges_lanes || matches!(item.effect, OrderEffect::Access(_));
    if is_barrier(a) && follows_barrier(b) || follows_barrier(a) && is_barrier(b) {
        return true;
    }
    if is_strong(a) && is_strong(b) || is_fence(a) && has_order(b) || has_order(a) && is_fence(b) {
        return true;
    }
    if a.effect == OrderEffect::Sync && follows_sync(b) || follows_sync(a) && b.effect == OrderEffect::Sync {
        return true;
    }
    let (OrderEffect::Access(a), OrderEffect::Access(b)) = (a.effect, b.effect) else { return false };
    let is_apart = a.space != b.space
        && (a.space == AliasSpace::Spill
            || b.space == AliasSpace::Spill
            || a.space != AliasSpace::Generic && b.space != AliasSpace::Generic);
    if is_apart
        || !accesses_mutable_memory(&a)
        || !accesses_mutable_memory(&b)
        || a.kind == MemAccessKind::Read && b.kind == MemAccessKind::Read
    {
        return false;
    }
    let (Some(x), Some(y)) = (a.address, b.address) else { return true };
    let contents = |item: usize, address| -> Vec<(u32, Option<usize>)> {
        code.address_registers(address).iter().map(|&register| (register, last_writer_before(code, old, item, register))).collect()
    };
    let same_base = x.form == y.form && contents(first, &x) == contents(second, &y);
    let cells = |address: &crate::code::AccessAddress| {
        (address.offset.div_euclid(4), (address.offset + i64::from(address.bytes) - 1).div_euclid(4))
    };
    let ((x_first, x_last), (y_first, y_last)) = (cells(&x), cells(&y));
    !same_base || x_first <= y_last && y_first <= x_last
}

/// Returns a random order of the graph's items in which no item comes before one that it depends on.
fn random_topological_order(graph: &Graph, random: &mut Random) -> Vec<usize> {
    let mut left = graph.predecessor_counts().to_vec();
    let mut ready: Vec<u32> = (0..graph.nodes() as u32).filter(|&node| left[node as usize] == 0).collect();
    let mut order = Vec::new();
    while !ready.is_empty() {
        let node = ready.swap_remove(random.random_below(ready.len()));
        if (node as usize) < graph.items() {
            order.push(node as usize);
        }
        for edge in graph.successors(node) {
            left[edge.node as usize] -= 1;
            if left[edge.node as usize] == 0 {
                ready.push(edge.node);
            }
        }
    }
    order
}

/// On random code, every order that respects the edges of the graph keeps all pairs of conflicting items in order, and the checker accepts
/// an order if and only if it keeps these pairs in order. Legal and illegal orders are tried.
#[test]
fn graph_and_checker_agree_with_the_rules_on_random_code() {
    let mut random = Random(7);
    let (mut accepted, mut refused) = (0, 0);
    for _ in 0..600 {
        let length = 2 + random.random_below(14);
        let lines: Vec<&str> = (0..length).map(|_| INSTRUCTION_POOL[random.random_below(INSTRUCTION_POOL.len())]).collect();
        let code = code(&lines);
        let graph = graph(&code);
        let old: Vec<usize> = (0..length).collect();
        let keeps = |order: &[usize]| {
            let mut place = vec![0; length];
            order.iter().enumerate().for_each(|(at, &item)| place[item] = at);
            let mut all = (0..length).flat_map(|first| (first + 1..length).map(move |second| (first, second)));
            let in_order = all.all(|(first, second)| place[first] < place[second] || !must_keep_order(&code, &old, first, second));
            in_order && has_same_last_writers(&code, &old, order)
        };
        for _ in 0..4 {
            let order = random_topological_order(&graph, &mut random);
            assert!(keeps(&order), "the graph allows {order:?} of {lines:#?}");
            assert_eq!(check::check(&code, 0..length, &order), Ok(()), "{order:?} of {lines:#?}");
        }
        for _ in 0..6 {
            let mut order = random_topological_order(&graph, &mut random);
            for _ in 0..1 + random.random_below(2) {
                let at = random.random_below(length - 1);
                order.swap(at, at + 1);
            }
            let verdict = check::check(&code, 0..length, &order);
            assert_eq!(verdict.is_ok(), keeps(&order), "{order:?}: {verdict:?} of {lines:#?}");
            if verdict.is_ok() { accepted += 1 } else { refused += 1 }
        }
    }
    assert!(accepted > 300 && refused > 300, "{accepted} orders accepted, {refused} refused");
}

#[test]
fn checker_reports_the_violation() {
    let lines = ["FADD R0, R1, R2", "FADD R3, R0, R1", "STS [R4], R3", "LDS R5, [R4]", "CALL.REL.NOINC 0x0", "FADD R9, R9, R9"];
    let code = code(&lines);
    let judge = |order: [usize; 6]| check::check(&code, 0..6, &order);
    assert_eq!(judge([0, 1, 2, 3, 4, 5]), Ok(()));
    assert!(matches!(judge([1, 0, 2, 3, 4, 5]), Err(OrderViolation::Read { item: 1, .. })));
    assert_eq!(judge([0, 1, 3, 2, 4, 5]), Err(OrderViolation::Memory { item: 2 }));
    assert!(matches!(judge([0, 1, 2, 3, 5, 4]), Err(OrderViolation::SchedBarrier { .. })));
    assert_eq!(judge([0, 1, 2, 3, 4, 4]), Err(OrderViolation::NotAPermutation));
}

/// With many loads and stores of two bases, the number of edges must be linear in the number of accesses, not quadratic.
#[test]
fn edge_count_is_linear_in_accesses() {
    let edges = |count: usize| {
        let mut lines: Vec<String> = (0..count).map(|at| format!("LDG.E R{}, desc[UR4][R2.64+{:#x}]", 20 + at % 100, 4 * at)).collect();
        lines.extend((0..count).map(|at| format!("STG.E desc[UR4][R4.64+{:#x}], R6", 4 * at)));
        lines.extend((0..count).map(|at| format!("LDG.E R{}, desc[UR4][R{}.64]", 20 + at % 100, 130 + 2 * (at % 40))));
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        graph(&code(&lines)).edge_count() as f64 / count as f64
    };
    let (small, large) = (edges(200), edges(2000));
    assert!(large < small * 1.2, "{small} and {large} edges for an access");
}
