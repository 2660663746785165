//! Code for rare cases after the end of a function: it takes no time, and the branches back from it make no loops.

use oriole_explain::{Options, explain_ptx};
use oriole_isa::Target;

/// A kernel in which half of a warp shuffles three times with different constant masks: each is tested, with a `WARPSYNC` after the end.
const MASKS: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry masks(.param .u64 out)
{
    .reg .b64 %o, %d;
    .reg .b32 %t, %x;
    .reg .pred %p;
    ld.param.u64 %o, [out];
    mov.u32 %t, %tid.x;
    mul.wide.u32 %d, %t, 4;
    add.s64 %o, %o, %d;
    ld.global.u32 %x, [%o];
    setp.gt.u32 %p, %x, 9;
    @%p bra DONE;
    shfl.sync.bfly.b32 %x, %x, 3, 31, 0x00ff;
    shfl.sync.bfly.b32 %x, %x, 3, 31, 0x0fff;
    shfl.sync.bfly.b32 %x, %x, 3, 31, 0xffff;
DONE:
    st.global.u32 [%o], %x;
    ret;
}
";

#[test]
fn rare_cases_after_the_end_take_no_time() {
    for target in ["sm_80", "sm_90a", "sm_120a"] {
        let explained = explain_ptx("masks.ptx", MASKS.as_bytes(), &Options::new(Target::parse(target).unwrap())).unwrap();
        let [function] = explained.functions.as_slice() else { panic!("one function") };
        assert!(function.loops.is_empty(), "{target}: {} loops", function.loops.len());
        let of_block = |number: usize| function.instructions.iter().filter(move |inst| inst.block == Some(number));
        let is_rare = |number: usize| of_block(number).any(|inst| inst.text.starts_with("WARPSYNC"));
        let (rare, usual): (Vec<usize>, Vec<usize>) = (0..function.blocks.len()).partition(|&number| is_rare(number));
        assert_eq!(rare.len(), 3, "{target}");
        assert!(rare.iter().all(|&number| function.blocks[number].executions == 0.0), "{target}");
        // The first and the last block are executed once, and all of the shuffles half as often: they are in one arm of a branch.
        let shuffles = usual.iter().filter(|&&number| of_block(number).any(|inst| inst.text.starts_with("SHFL")));
        let executions: Vec<f64> = shuffles.map(|&number| function.blocks[number].executions).collect();
        assert_eq!(executions, [0.5; 3], "{target}");
        assert_eq!(function.blocks[0].executions, 1.0, "{target}");
        let sum: f64 = usual.iter().map(|&number| function.blocks[number].executions * f64::from(function.blocks[number].cycles)).sum();
        assert_eq!(function.cycles, sum, "{target}");
    }
}
