//! Allocates random functions under many register limits and verifies each allocation with the checker.

use crate::generate::{Shape, function};
use oriole_ir::Target;
use oriole_regalloc::check::check;
use oriole_regalloc::{AllocationEnvironment, Clobbers, Reg, RegisterSet, allocate};

/// Allocates one function and checks it. Returns the number of registers used and the bytes of spill loads.
fn run(seed: u64, shape: Shape, env: &AllocationEnvironment) -> Result<(u32, u32), String> {
    let before = function(seed, shape);
    let mut after = before.clone();
    let allocation = allocate(&mut after, env).map_err(|error| error.to_string())?;
    check(&before, &after, env, &allocation).map_err(|error| error.to_string())?;
    if allocation.registers_used > env.max_registers {
        return Err("too many registers".into());
    }
    Ok((allocation.registers_used, allocation.spill_load_bytes))
}

/// Allocates one function for each seed and limit, and reports all failures together. In every second one, callees preserve R12 to R211.
fn sweep(name: &str, seeds: std::ops::Range<u64>, limits: &[u32], shape: Shape) {
    let mut failures = Vec::new();
    let mut spilled = 0;
    let mut count = 0;
    for seed in seeds {
        for &limit in limits {
            let mut env = AllocationEnvironment::new(Target::parse("sm_90").unwrap(), limit);
            if seed % 2 == 1 {
                let mut callee_saved = RegisterSet::EMPTY;
                callee_saved.insert(Reg::new(12), 200);
                env.clobbers = Clobbers { general: RegisterSet::ALL.without(&callee_saved), ..Clobbers::ALL };
            }
            count += 1;
            match run(seed, shape, &env) {
                Ok((_, loads)) => spilled += u32::from(loads > 0),
                Err(error) => failures.push(format!("{name}: seed {seed} limit {limit}: {error}")),
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} failed\n{}", failures.len(), failures[..failures.len().min(12)].join("\n"));
    eprintln!("{name}: {count} allocations, {spilled} with spills");
}

const LIMITS: [u32; 6] = [16, 20, 24, 40, 64, 255];

#[test]
fn straight_code() {
    let shape = Shape { regions: 1, piece: 60, reach: 40, calls: false, wide: false };
    sweep("small", 0..100, &LIMITS, shape);
}

#[test]
fn branches_and_loops() {
    let shape = Shape { regions: 6, piece: 15, reach: 60, calls: false, wide: false };
    sweep("branches", 0..120, &LIMITS, shape);
}

#[test]
fn high_pressure() {
    let shape = Shape { regions: 10, piece: 40, reach: 1000, calls: false, wide: false };
    sweep("pressure", 0..16, &LIMITS, shape);
}

#[test]
fn calls() {
    let shape = Shape { regions: 8, piece: 20, reach: 100, calls: true, wide: false };
    sweep("calls", 0..120, &[16, 24, 64], shape);
}

#[test]
fn wide_tuples() {
    let shape = Shape { regions: 8, piece: 20, reach: 100, calls: false, wide: true };
    sweep("wide", 0..60, &[64, 100, 255], shape);
}
