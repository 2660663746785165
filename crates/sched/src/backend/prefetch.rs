//! Strategy `prefetch`: in a loop of one block, prefetches the lines that later iterations load, and then orders regions as backend B.
//!
//! If an iteration is shorter than the way to memory, loading one iteration ahead ([`super::software_pipelining`]) does not hide that way.
//! A prefetch (`CCTL.PF1`) needs no registers for its result, so it can be several iterations ahead:
//!
//! ```text
//! bb1:  %i = PHI %z, bb0, %j, bb1           bb1:  %i = PHI %z, bb0, %j, bb1
//!       %a = IMAD.WIDE %i, 0x80, %b               %a = IMAD.WIDE %i, 0x80, %b
//!       %x = LDG [%a]                             %x = LDG [%a]
//!       ...                         becomes       ...
//!       %j = IADD3 %i, 1                          %j = IADD3 %i, 1
//!       %p = ISETP.LT %j, %n                      %p = ISETP.LT %j, %n
//!       @%p BRA bb1                               %k = IADD3 %j, 1                   two iterations ahead
//!                                                 %q = ISETP.LT %k, %n, %p           if both are executed
//!                                                 %c = IMAD.WIDE %k, 0x80, %b
//!                                                 @%q CCTL.E.PF1 [%c]
//!                                                 @%p BRA bb1
//! ```
//!
//! The distance is the latency of the load divided by the cycles of an iteration, at most `prefetch-distance`. The counters and the
//! condition of the loop are computed for the iterations in between, and the conditions are joined, so only addresses that a later iteration
//! loads are prefetched; the prefetch cannot fault. For a loop whose condition is not of the form above the distance is 1, and the
//! condition of the loop is the guard. At most `prefetch-lines` lines are prefetched in an iteration.
//!
//! The first-level cache is not coherent: a line must not be fetched before a synchronization that precedes the load. So only loads are
//! prefetched that [`super::software_pipelining`] could move: those of loops that write no memory which they may read and do not
//! synchronize, and those of memory that is constant while the kernel runs.
//!
//! The description of ptxas says that its strategy "inserts and schedules memory prefetch instructions".

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Function, Guard, Inst, MemoryAccess, Op, Operand, OperandKind, Part, Pseudo, RegFile, Role, Space, Value};
use oriole_isa::{Opcode, Symbol, Symbols};
use rustc_hash::{FxHashMap, FxHashSet};

use super::rearrange::{BlockTimes, Change, ChangeReason, Surroundings, class_of, insert_before_end, is_arithmetic, plain_load};
use super::reason::Reason;
use super::software_pipelining::{Conflicts, LoopShape, Renaming, address_slice, definitions};
use super::strategy::{RegionScheduler, Strategy};
use super::weighted::WeightedScheduling;

/// Bytes of a cache line.
const LINE: i64 = 128;

/// The strategy `prefetch`.
pub(super) struct Prefetch;

impl Strategy for Prefetch {
    fn name(&self) -> &'static str {
        "prefetch"
    }

    fn description(&self) -> &'static str {
        "prefetches the lines that later iterations load, then as b"
    }

    fn reasons(&self) -> &'static [Reason] {
        WeightedScheduling.reasons()
    }

    fn scheduler(&self) -> RegionScheduler {
        WeightedScheduling.scheduler()
    }

    fn reports_register_demand(&self) -> bool {
        false
    }

    fn rearranges(&self) -> bool {
        true
    }

    fn rearrange(&self, function: &mut Function, surroundings: Surroundings<'_>) -> Vec<Change> {
        let flow = ControlFlow::compute(function);
        let times = BlockTimes::new(function, surroundings);
        let mut changes = Vec::new();
        for block in function.layout.clone() {
            let Some(shape) = LoopShape::find(function, &flow, block) else { continue };
            let Some(plan) = Plan::find(function, &shape, &times, surroundings) else { continue };
            for inst in plan.apply(function, &shape) {
                changes.push(Change { inst, from: block, to: block, reason: ChangeReason::LaterIteration });
            }
        }
        changes
    }
}

/// What to prefetch in a loop.
struct Plan {
    /// The base of each address, and the constant that is added to it.
    lines: Vec<(Part, i64)>,
    /// The arithmetic of the bases, in order.
    addresses: Vec<Inst>,
    /// Iterations ahead.
    distance: u32,
    /// The arithmetic that leads from an iteration to the next one, and the comparison of the loop; empty if the distance is 1.
    steps: Vec<Inst>,
}

impl Plan {
    fn find(function: &Function, shape: &LoopShape, times: &BlockTimes<'_>, surroundings: Surroundings<'_>) -> Option<Plan> {
        let insts = &function.blocks[shape.block].insts;
        let homes = definitions(function, shape.block);
        let conflicts = Conflicts::of(function, shape.block);
        let mut slices: FxHashSet<Inst> = FxHashSet::default();
        let mut lines: Vec<(Part, i64)> = Vec::new();
        let mut latency = 0;
        for &inst in insts {
            if lines.len() >= surroundings.knobs.prefetch_lines {
                break;
            }
            let Some(access) = plain_load(function, inst).filter(|access| access.space == Space::Global && conflicts.allow(access)) else {
                continue;
            };
            let Some((base, offset)) = plain_address(function, inst) else { continue };
            // An address that does not change would be loaded once and stay in the cache.
            let Some(slice) = address_slice(function, shape, &homes, inst).filter(|_| homes.contains_key(&base.value)) else { continue };
            if access.bytes == 0 || lines.iter().any(|&(known, at)| known == base && at.div_euclid(LINE) == offset.div_euclid(LINE)) {
                continue;
            }
            slices.extend(slice);
            lines.push((base, offset));
            let usual = class_of(function, inst).and_then(|class| surroundings.model.time(class)).map_or(0, |time| u32::from(time.usual));
            latency = latency.max(usual);
        }
        if lines.is_empty() || slices.len() > surroundings.knobs.pipeline_address {
            return None;
        }
        // A prefetched load still takes the way to the first-level cache; the rest of the latency is hidden.
        let longest = times.heights(function, shape.block).into_iter().max().unwrap_or(0);
        let iteration = longest.saturating_sub(latency).max(insts.len() as u32);
        let wanted = latency.div_ceil(iteration.max(1)).clamp(1, surroundings.knobs.prefetch_distance.max(1));
        let steps = steps(function, shape, &homes, &slices).filter(|steps| steps.len() <= surroundings.knobs.pipeline_address);
        let (distance, steps) = match steps {
            Some(steps) if wanted > 1 => (wanted, steps),
            _ => (1, Vec::new()),
        };
        let addresses = insts.iter().copied().filter(|inst| slices.contains(inst)).collect();
        Some(Plan { lines, addresses, distance, steps })
    }

    /// Inserts the prefetches at the end of the loop. Returns them.
    fn apply(&self, function: &mut Function, shape: &LoopShape) -> Vec<Inst> {
        let mut insts = Vec::new();
        let mut ahead = Renaming::new(shape, true);
        let mut guard = shape.guard;
        for _ in 1..self.distance {
            let mut next = ahead.clone();
            for &inst in &self.steps {
                let copy = next.copy(function, inst, None);
                if function.insts[copy].is_machine(Opcode::ISETP) {
                    // The last source joins the conditions.
                    if let (Some(last), OperandKind::Value(joined)) = (function.sources_mut(copy).last_mut(), guard.kind) {
                        *last = Operand::from(joined);
                    }
                    if let Some(result) = function.results(copy)[0].value() {
                        guard = Guard { kind: OperandKind::Value(function.whole(result)), negated: false };
                    }
                }
                insts.push(copy);
            }
            ahead = next.advanced(shape);
        }
        for &inst in &self.addresses {
            insts.push(ahead.copy(function, inst, None));
        }
        let mut prefetches = Vec::new();
        for &(base, offset) in &self.lines {
            let word = OperandKind::Address(Symbol::NAME_);
            let base = Operand::new(ahead.kind(OperandKind::Value(base))).with_role(Role::Bracket(0));
            let operands = [Operand::new(word), base, Operand::from(offset).with_role(Role::Bracket(0))];
            let modifiers = Symbols::from_slice(&[Symbol::E, Symbol::PF1]);
            let inst = function.new_inst(Op::Machine(Opcode::CCTL), modifiers, Some(guard), &operands, 0);
            function.insts[inst].memory = Some(function.accesses.push(MemoryAccess::weak(Space::Generic, 0)));
            prefetches.push(inst);
        }
        insts.extend(&prefetches);
        insert_before_end(function, shape.block, insts);
        prefetches
    }
}

/// Returns base and constant of the address of a global load with a 64-bit base register and no other register; `None` for other forms.
fn plain_address(function: &Function, inst: Inst) -> Option<(Part, i64)> {
    let terms: Vec<&Operand> = function.sources(inst).iter().filter(|operand| operand.role == Role::Bracket(1)).collect();
    let base = terms.first().and_then(|base| base.part())?;
    let is_pair = base.count == 2 && function.values[base.value].file == RegFile::General;
    match terms[1..] {
        [] if is_pair => Some((base, 0)),
        [offset] if is_pair => Some((base, offset.integer()?)),
        _ => None,
    }
}

/// Returns the arithmetic of the loop that computes the next values of the phis that the instructions of `slices` and the condition depend
/// on, and the comparison that is the condition, in order. `None` if the loop does not continue while one comparison of counters holds.
fn steps(function: &Function, shape: &LoopShape, homes: &FxHashMap<Value, Inst>, slices: &FxHashSet<Inst>) -> Option<Vec<Inst>> {
    let OperandKind::Value(condition) = shape.guard.kind else { return None };
    let compare = *homes.get(&condition.value)?;
    let data = &function.insts[compare];
    let is_joined = data.modifiers.last() == Some(&Symbol::AND) && function.sources(compare).last() == Some(&Operand::PT);
    let is_plain = data.is_machine(Opcode::ISETP) && data.guard.is_none() && function.results(compare)[0].value() == Some(condition.value);
    if shape.guard.negated || !is_joined || !is_plain || function.results(compare)[1].value().is_some() {
        return None;
    }
    let mut found: FxHashSet<Inst> = FxHashSet::default();
    let mut phis: FxHashSet<Value> = FxHashSet::default();
    let mut work: Vec<Part> = slices.iter().chain([&compare]).flat_map(|&inst| function.used(inst)).collect();
    let mut followed: FxHashSet<Value> = FxHashSet::default();
    while let Some(part) = work.pop() {
        let Some(&home) = homes.get(&part.value).filter(|_| followed.insert(part.value)) else { continue };
        if function.insts[home].is(Pseudo::Phi) {
            let &(_, next) = shape.phis.get(&part.value)?;
            phis.insert(part.value);
            // The value of the next iteration is computed by a step, or is another phi.
            work.push(next);
        } else if is_arithmetic(function, home) {
            found.insert(home);
            work.extend(function.used(home));
        } else {
            return None;
        }
    }
    // Steps are the arithmetic that phis or the condition need; that of the addresses alone is not copied for each iteration.
    let mut needed: FxHashSet<Inst> = FxHashSet::default();
    let mut work: Vec<Part> =
        phis.iter().filter_map(|phi| shape.phis.get(phi)).map(|&(_, next)| next).chain(function.used(compare)).collect();
    while let Some(part) = work.pop() {
        if let Some(&home) = homes.get(&part.value)
            && found.contains(&home)
            && needed.insert(home)
        {
            work.extend(function.used(home));
        }
    }
    needed.insert(compare);
    let insts: &[Inst] = &function.blocks[shape.block].insts;
    Some(insts.iter().copied().filter(|inst| needed.contains(inst)).collect())
}
