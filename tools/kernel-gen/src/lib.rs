//! Generates the kernel tests.
//!
//! Each family is a file with generators; [`all`] calls them. A generator produces PTX and the expected results according to `oriole-sem`.
//! Nothing here depends on the compiler. The files are a pure function of this code, so a test can check whether those in the
//! repository are up to date.

mod aggregate;
mod approx;
mod async_forms;
mod atomics;
mod barrier;
mod barrier_apart;
mod bulk;
mod bulk_forms;
mod calls;
mod calls_registers;
mod cluster;
mod compare;
mod control;
mod copies;
mod cvt;
mod elementwise;
mod float;
mod found;
mod fragments;
mod half;
mod integer;
mod kernel;
mod limits;
mod logic;
mod loops;
mod memory;
mod moves;
mod narrow;
mod own_space;
mod register_counts;
mod sparse;
mod special;
mod tensor;
mod tensor_copy;
mod tensor_map;
mod tensor_modes;
mod ty;
mod variables;
mod video;
mod warp;
mod warp_apart;
mod warpgroup;

pub use kernel::Generated;

/// Returns all tests, sorted by name.
pub fn all() -> Vec<Generated> {
    let mut tests = Vec::new();
    for family in [
        integer::tests,
        narrow::tests,
        logic::tests,
        float::tests,
        approx::tests,
        half::tests,
        compare::tests,
        cvt::tests,
        moves::tests,
        special::tests,
        warp::tests,
        warp_apart::tests,
        memory::tests,
        atomics::tests,
        aggregate::tests,
        barrier::tests,
        barrier_apart::tests,
        control::tests,
        loops::tests,
        calls::tests,
        calls_registers::tests,
        variables::tests,
        own_space::tests,
        register_counts::tests,
        found::tests,
        limits::tests,
        tensor::tests,
        sparse::tests,
        fragments::tests,
        bulk::tests,
        bulk_forms::tests,
        async_forms::tests,
        cluster::tests,
        tensor_copy::tests,
        tensor_modes::tests,
        tensor_map::tests,
        copies::tests,
        warpgroup::tests,
        video::tests,
    ] {
        tests.extend(family());
    }
    tests.sort_by(|a, b| a.name.cmp(&b.name));
    let duplicate = tests.windows(2).find(|pair| pair[0].name == pair[1].name);
    assert!(duplicate.is_none(), "two tests are named {}", duplicate.map_or("", |pair| &pair[0].name));
    tests
}
