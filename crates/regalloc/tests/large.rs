//! Allocates functions of about 50,000 instructions within a time limit that only a roughly linear allocator meets. Prints the times.

use std::time::Instant;

use crate::generate::{Shape, function};
use oriole_ir::Target;
use oriole_regalloc::{AllocationEnvironment, allocate};

fn measure(name: &str, shape: Shape, limit: u32) {
    let mut function = function(7, shape);
    let (insts, blocks) = (function.inst_count(), function.layout.len());
    let env = AllocationEnvironment::new(Target::parse("sm_90").unwrap(), limit);
    let start = Instant::now();
    let allocation = allocate(&mut function, &env).unwrap();
    let took = start.elapsed();
    eprintln!(
        "{name}: {insts} instructions in {blocks} blocks, {} registers, {} bytes reloaded: {took:?}",
        allocation.registers_used, allocation.spill_load_bytes
    );
    assert!(insts > 37_000, "the function has become small");
    // Several times what a busy machine needs for an unoptimized build. A quadratic algorithm takes far longer.
    assert!(took.as_secs() < 60, "{name} took {took:?}");
}

#[test]
fn straight() {
    measure("straight", Shape { regions: 1, piece: 105_000, reach: 60, calls: false, wide: false }, 255);
}

#[test]
fn straight_under_pressure() {
    measure("straight, 32 registers", Shape { regions: 1, piece: 105_000, reach: 200, calls: false, wide: false }, 32);
}

#[test]
fn many_blocks() {
    measure("many blocks", Shape { regions: 1_750, piece: 20, reach: 60, calls: true, wide: false }, 255);
}

#[test]
fn many_blocks_under_pressure() {
    measure("many blocks, 32 registers", Shape { regions: 1_750, piece: 20, reach: 400, calls: true, wide: false }, 32);
}
