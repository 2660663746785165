//! Warp operations in threads that are not in their mask. PTX leaves their results undefined, so the interpreter refuses such programs, but
//! programs do this, and it works with ptxas' code where the warp is converged.

use oriole_driver::{Options, compile};
use oriole_isa::Target;
use oriole_sim::sass::kernel_test::run;
use oriole_sim::sass::{GridOptions, Silent};

const TARGETS: [&str; 6] = ["sm_75", "sm_80", "sm_86", "sm_90a", "sm_100a", "sm_120a"];

/// Builds a kernel test whose 32 threads all execute `operations` in a branch that no thread leaves out, with the mask 0xffff. The compiler
/// does not know that: the condition depends on memory. The result of each thread is in `%y`.
fn text(target: &str, operations: &str, expected: &str) -> String {
    format!(
        "// kernel-test 1
// kernel: partial
// grid: 1 1 1
// block: 32 1 1
// param out: u32[32] = zero
// param in: u32[32] = index
// expect out: exact = {expected}

.version 8.7
.target {target}
.address_size 64
.visible .entry partial(.param .u64 out, .param .u64 in)
{{
    .reg .b64 %o, %i, %d;
    .reg .b32 %t, %x, %y, %z;
    .reg .pred %p, %q;
    ld.param.u64 %o, [out];
    ld.param.u64 %i, [in];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %d, %t, 4;
    add.s64 %o, %o, %d;
    add.s64 %i, %i, %d;
    ld.global.u32 %x, [%i];
    mov.u32 %y, 0;
    setp.gt.u32 %p, %x, 1000;
    @%p bra DONE;
    {operations}
DONE:
    st.global.u32 [%o], %y;
    ret;
}}
"
    )
}

/// Returns the result of running `operations` on a target at an optimization level.
fn outcome(target: &str, operations: &str, expected: &str, options: impl Fn(Target) -> Options) -> Result<(), String> {
    let text = text(target, operations, expected);
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics);
    let cubin = compile(&[&checked.module], &options(Target::parse(target).unwrap())).expect("the kernel compiles").cubin;
    let test = oriole_kernel_test::parse(&text).unwrap();
    run(&test, &cubin, &GridOptions::limited(1 << 20), &mut Silent).map(|_| ()).map_err(|failure| failure.to_string())
}

/// The value of lane 3 reaches all threads, also those outside of the mask: they are active, and the source lane is, too.
const SHUFFLE: &str = "shfl.sync.idx.b32 %y, %x, 3, 31, 0xffff; shfl.sync.idx.b32 %y, %y, 2, 31, 0xffff;";
/// Bits of threads outside of the mask are not in the result.
const BALLOT: &str = "and.b32 %z, %x, 1; setp.eq.u32 %q, %z, 1; vote.sync.ballot.b32 %y, %q, 0xffff;";

#[test]
fn a_converged_warp_may_contain_threads_outside_of_the_mask() {
    for target in TARGETS {
        for level in 0..=3 {
            let options = |machine| Options { level, verify: true, ..Options::new(machine) };
            for (operations, expected) in [(SHUFFLE, "3*32"), (BALLOT, "aaaa*32")] {
                outcome(target, operations, expected, options).unwrap_or_else(|error| panic!("{target}, -O{level}: {error}"));
            }
        }
    }
}

/// Reductions and elections of such threads have undefined results, but do not trap either.
#[test]
fn reductions_and_elections_do_not_trap() {
    for (target, operations) in [
        ("sm_80", "redux.sync.add.s32 %y, %x, 0xffff;"),
        ("sm_90a", "redux.sync.add.s32 %y, %x, 0xffff; elect.sync %y|%q, 0xffff;"),
        ("sm_120a", "redux.sync.max.u32 %y, %x, 0xffff; match.any.sync.b32 %y, %y, 0xffff;"),
    ] {
        for level in 0..=3 {
            let options = |machine| Options { level, verify: true, ..Options::new(machine) };
            outcome(target, operations, "?*32", options).unwrap_or_else(|error| panic!("{target}, -O{level}: {error}"));
        }
    }
}

/// Without the test for divergence, the simulator reports what an H200 does.
#[test]
fn an_unconditional_synchronization_traps() {
    let options = |machine| {
        let mut options = Options::new(machine);
        options.passes.disabled.push("sync-diverged".to_owned());
        options
    };
    let error = outcome("sm_90a", SHUFFLE, "3*32", options).unwrap_err();
    assert!(error.contains("not in the mask of its WARPSYNC"), "{error}");
}
