//! Costs and lower bounds of loops.
//!
//! No instruction order is faster than three bounds: one instruction issues per cycle; each unit needs its time for the instructions that
//! it executes; and a chain of dependences from one iteration to the next takes its latencies. With all resident warps, the first two count
//! for every warp, and latencies are hidden as long as other warps can issue.

use oriole_hardware::SchedClass;
use oriole_hardware::units::{UNITS, Unit};
use oriole_sched::resource::ResourceCosts;

use crate::code::{DecodedFunction, SIZE, TRIP_COUNT};
use crate::dependences::recurrence;
use crate::model::{Bound, Loop, Occupancy, Occupied};
use crate::time::Times;

/// Weight from which on a block counts as executed in every iteration; sums of fractions are not exact.
const ALWAYS: f64 = 0.999;

/// Returns the loops of a function.
pub fn find(code: &DecodedFunction<'_>, times: &Times, costs: &ResourceCosts, occupancy: Option<&Occupancy>) -> Vec<Loop> {
    // A branch to itself in the padding at the end is no loop of the function. Such loops are the last ones, so that indices stay valid.
    let count = code.loops.partition_point(|found| found.start < code.length);
    let mut has_inner = vec![false; code.loops.len()];
    code.loops.iter().filter_map(|found| found.parent).for_each(|parent| has_inner[parent] = true);
    (0..count).map(|number| one(code, times, costs, occupancy, number, has_inner[number])).collect()
}

fn one(
    code: &DecodedFunction<'_>,
    times: &Times,
    costs: &ResourceCosts,
    occupancy: Option<&Occupancy>,
    number: usize,
    has_inner: bool,
) -> Loop {
    let found = &code.loops[number];
    let range = found.start..found.end;
    let blocks: Vec<usize> = code.blocks_in(&range).collect();
    let header = blocks.first().copied().unwrap_or(1);
    // Executions of a block for each execution of the header.
    let weight = |block: usize| {
        let inner = code.depth(block).saturating_sub(found.depth);
        code.local_frequency[block] / code.local_frequency[header].max(f64::MIN_POSITIVE) * TRIP_COUNT.powi(inner as i32)
    };
    let mut cycles = 0.0;
    let mut issued = 0.0;
    let mut busy = [0.0; UNITS];
    let mut body: Vec<usize> = Vec::new();
    for &block in &blocks {
        let weight = weight(block);
        let range = code.blocks()[block].range.clone();
        cycles += weight * f64::from(times.blocks[block].cycles);
        issued += weight * range.len() as f64;
        for instruction in &code.instructions()[range.clone()] {
            let class = SchedClass::of(instruction);
            busy[costs.unit_index(class)] += weight * f64::from(costs.cycles(class).max(1));
        }
        if weight >= ALWAYS {
            body.extend(range);
        }
    }
    let bounds = bounds(code, issued, &busy, if has_inner { &[] } else { &body });
    let above_bound = bounds.first().map_or(0.0, |bound| (cycles - bound.cycles).max(0.0));
    let occupied = occupancy.map(|occupancy| occupied(code, occupancy, cycles, issued, &busy));
    Loop {
        header: code.block_name(header),
        start: (found.start * SIZE) as u64,
        end: (found.end * SIZE) as u64,
        parent: found.parent,
        depth: found.depth,
        instructions: issued,
        cycles,
        bounds,
        above_bound,
        occupied,
    }
}

/// Returns the unit that is busy for the longest time, and that time.
fn busiest(busy: &[f64; UNITS]) -> (Unit, f64) {
    let by_time = |one: &usize, two: &usize| busy[*one].total_cmp(&busy[*two]).then(two.cmp(one));
    let unit = (0..UNITS).max_by(by_time).unwrap_or(0);
    (Unit::ALL[unit], busy[unit])
}

/// Returns the lower bounds of one iteration, the largest first.
fn bounds(code: &DecodedFunction<'_>, issued: f64, busy: &[f64; UNITS], body: &[usize]) -> Vec<Bound> {
    let bound = |kind: &str, cycles: f64, text: String| Bound { kind: kind.to_owned(), cycles, text, addresses: Vec::new() };
    let (unit, unit_cycles) = busiest(busy);
    let mut bounds = vec![
        bound("issue", issued, format!("{issued:.0} instructions, one issues in a cycle")),
        bound("unit", unit_cycles, format!("the {} unit is busy", unit.name())),
    ];
    let instructions: Vec<&oriole_isa::Instruction> = body.iter().map(|&number| &code.instructions()[number]).collect();
    if let Some((cycles, chain)) = recurrence(&instructions, code.hardware.model).filter(|_| !body.is_empty()) {
        let numbers: Vec<usize> = chain.iter().map(|&position| body[position]).collect();
        let text = match numbers.as_slice() {
            [first, .., last] if first == last && numbers.len() == 2 => {
                format!("{} needs its own result of the previous iteration", code.place(*first))
            }
            [first, ..] => {
                format!("{} depends on itself in the previous iteration, through {} instructions", code.place(*first), numbers.len() - 1)
            }
            [] => String::new(),
        };
        let addresses = numbers.iter().map(|&number| (number * SIZE) as u64).collect();
        bounds.push(Bound { addresses, ..bound("dependence", f64::from(cycles), text) });
    }
    bounds.sort_by(|one, two| two.cycles.total_cmp(&one.cycles));
    bounds
}

/// Returns the time of one iteration of all resident warps of a scheduler.
fn occupied(code: &DecodedFunction<'_>, occupancy: &Occupancy, alone: f64, issued: f64, busy: &[f64; UNITS]) -> Occupied {
    let warps = occupancy.warps.div_ceil(code.hardware.machine.schedulers).max(1);
    let (unit, unit_cycles) = busiest(busy);
    let all = f64::from(warps);
    let limits = [
        (alone, "the latencies of a single warp: more resident warps or more independent work would help".to_owned()),
        (all * issued, "the number of instructions: one issues in a cycle".to_owned()),
        (all * unit_cycles, format!("the {} unit", unit.name())),
    ];
    let (cycles, limited_by) = limits.into_iter().reduce(|one, two| if two.0 > one.0 { two } else { one }).unwrap_or_default();
    Occupied { warps, cycles, limited_by }
}
