//! Generates tests of special registers.

use crate::kernel::{Generated, Kernel, bits};
use crate::ty::{U32, U64};

const FAMILY: &str = "special";
const GRID: [u32; 3] = [3, 2, 2];
const BLOCK: [u32; 3] = [8, 4, 3];

pub fn tests() -> Vec<Generated> {
    let mut tests = vec![positions(), shapes(), lane_masks(), lanes_and_warps(), clocks(), shared_sizes()];
    tests.extend(sizes_in_bounds());
    tests
}

/// Computes the index of the thread in the whole grid in `%r10`.
const LINEAR: &str = "
    mov.u32 %r0, %tid.x;
    mov.u32 %r1, %tid.y;
    mov.u32 %r2, %tid.z;
    mov.u32 %r3, %ctaid.x;
    mov.u32 %r4, %ctaid.y;
    mov.u32 %r5, %ctaid.z;
    mad.lo.u32 %r6, %r2, 4, %r1;
    mad.lo.u32 %r6, %r6, 8, %r0;
    mad.lo.u32 %r7, %r5, 2, %r4;
    mad.lo.u32 %r7, %r7, 3, %r3;
    mad.lo.u32 %r10, %r7, 96, %r6;
    mad.wide.u32 %at, %r10, 4, %out;
";

struct Place {
    thread: [u32; 3],
    block: [u32; 3],
}

/// Returns all threads in the order of their index.
fn places() -> Vec<Place> {
    let all = |sizes: [u32; 3]| {
        let inner = move |z| (0..sizes[1]).flat_map(move |y| (0..sizes[0]).map(move |x| [x, y, z]));
        (0..sizes[2]).flat_map(inner)
    };
    all(GRID).flat_map(|block| all(BLOCK).map(move |thread| Place { thread, block })).collect()
}

fn positions() -> Generated {
    let value = |p: Place| {
        let digits = [p.thread[0], p.thread[1], p.thread[2], p.block[0], p.block[1], p.block[2]];
        u64::from(digits.iter().fold(0, |value, digit| value << 4 | digit))
    };
    let mut pack = String::from("mov.u32 %r20, 0;\n");
    for register in 0..6 {
        pack.push_str(&format!("shl.b32 %r20, %r20, 4;\nor.b32 %r20, %r20, %r{register};\n"));
    }
    Kernel::new(FAMILY, "tid_ctaid", "%tid and %ctaid in three dimensions")
        .shape(GRID, BLOCK)
        .output("out", U32, bits(places().into_iter().map(value)))
        .body(LINEAR)
        .body(&pack)
        .body("st.global.u32 [%at], %r20;")
        .finish()
}

fn shapes() -> Generated {
    let mut pack = String::from("mov.u32 %r20, 0;\n");
    for name in ["ntid.x", "ntid.y", "ntid.z", "nctaid.x", "nctaid.y", "nctaid.z"] {
        pack.push_str(&format!("mov.u32 %r21, %{name};\nshl.b32 %r20, %r20, 4;\nor.b32 %r20, %r20, %r21;\n"));
    }
    let value = [BLOCK, GRID].concat().iter().fold(0, |value, digit| value << 4 | u64::from(*digit));
    Kernel::new(FAMILY, "ntid_nctaid", "%ntid and %nctaid in three dimensions")
        .shape(GRID, BLOCK)
        .output("out", U32, bits(places().iter().map(|_| value)))
        .body(LINEAR)
        .body(&pack)
        .body("st.global.u32 [%at], %r20;")
        .finish()
}

fn lane_masks() -> Generated {
    let mut kernel = Kernel::new(FAMILY, "lanemask", "%lanemask_eq, le, lt, ge, gt").threads(96);
    let mut body = String::new();
    type Mask = fn(u32) -> u64;
    let masks: [(&str, Mask); 5] = [
        ("eq", |lane| 1 << lane),
        ("le", |lane| (2 << lane) - 1),
        ("lt", |lane| (1 << lane) - 1),
        ("ge", |lane| 0xffff_ffff & !((1 << lane) - 1)),
        ("gt", |lane| 0xffff_ffff & !((2 << lane) - 1)),
    ];
    for (name, mask) in masks {
        kernel = kernel.output(name, U32, bits((0..96).map(|i| mask(i % 32))));
        body.push_str(&format!("mov.u32 %r1, %lanemask_{name};\nmad.wide.u32 %at, %i, 4, %{name};\nst.global.u32 [%at], %r1;\n"));
    }
    kernel.body(&body).finish()
}

/// `%warpid` may change in theory. In a one-dimensional block it follows the thread order, which programs rely on, so only the range is
/// tested.
fn lanes_and_warps() -> Generated {
    Kernel::new(FAMILY, "laneid", "%laneid; %warpid below %nwarpid")
        .threads(128)
        .output("out", U32, bits((0..128).map(|i| i % 32 * 2 + 1)))
        .body(
            "mov.u32 %r1, %laneid;
             mov.u32 %r2, %warpid;
             mov.u32 %r3, %nwarpid;
             setp.lt.u32 %p1, %r2, %r3;
             selp.u32 %r4, 1, 0, %p1;
             mad.lo.u32 %r1, %r1, 2, %r4;
             mad.wide.u32 %at, %i, 4, %out;
             st.global.u32 [%at], %r1;",
        )
        .finish()
}

fn clocks() -> Generated {
    Kernel::new(FAMILY, "clocks", "clocks do not run backwards")
        .threads(32)
        .output("out", U32, bits(vec![7; 32]))
        .body(
            "mov.u64 %rd1, %clock64;
             mov.u32 %r1, %clock;
             mov.u64 %rd2, %globaltimer;
             mov.u32 %r10, 0;
             SPIN:
             add.u32 %r10, %r10, 1;
             setp.lt.u32 %p1, %r10, 100;
             @%p1 bra SPIN;
             mov.u64 %rd3, %clock64;
             mov.u32 %r2, %clock;
             mov.u64 %rd4, %globaltimer;
             setp.gt.u64 %p2, %rd3, %rd1;
             sub.u32 %r3, %r2, %r1;
             setp.gt.s32 %p3, %r3, 0;
             setp.ge.u64 %p4, %rd4, %rd2;
             selp.u32 %r4, 1, 0, %p2;
             @%p3 or.b32 %r4, %r4, 2;
             @%p4 or.b32 %r4, %r4, 4;
             mad.wide.u32 %at, %i, 4, %out;
             st.global.u32 [%at], %r4;",
        )
        .finish()
}

fn shared_sizes() -> Generated {
    Kernel::new(FAMILY, "smem_size", "%dynamic_smem_size is what the launch asked for; %total_smem_size holds it and the static part")
        .threads(32)
        .dynamic_shared(768)
        .module(".shared .align 4 .b8 fixed[256];\n.extern .shared .align 16 .b8 flexible[];")
        .output("out", U32, bits(vec![769; 32]))
        .body(
            "mov.u32 %r1, fixed;
             st.shared.u32 [%r1], %i;
             mov.u32 %r2, %dynamic_smem_size;
             mov.u32 %r3, %total_smem_size;
             setp.ge.u32 %p1, %r3, 1024;
             selp.u32 %r4, 1, 0, %p1;
             add.u32 %r2, %r2, %r4;
             mad.wide.u32 %at, %i, 4, %out;
             st.global.u32 [%at], %r2;",
        )
        .finish()
}

fn sizes_in_bounds() -> Vec<Generated> {
    let grid = Kernel::new(FAMILY, "smid", "%smid is below %nsmid")
        .threads(256)
        .output("out", U32, bits(vec![1; 256]))
        .body(
            "mov.u32 %r1, %smid;
             mov.u32 %r2, %nsmid;
             set.lt.u32.u32 %r3, %r1, %r2;
             and.b32 %r3, %r3, 1;
             mad.wide.u32 %at, %i, 4, %out;
             st.global.u32 [%at], %r3;",
        )
        .finish();
    let same = Kernel::new(FAMILY, "gridid", "%gridid is the same for all threads")
        .threads(256)
        .output("out", U64, bits(vec![0; 256]))
        .body(
            "mov.u64 %rd1, %gridid;
             mov.b64 {%r1, %r2}, %rd1;
             shfl.sync.idx.b32 %r3, %r1, 0, 31, 0xffffffff;
             sub.u32 %r4, %r3, %r1;
             cvt.u64.u32 %rd2, %r4;
             mad.wide.u32 %at, %i, 8, %out;
             st.global.u64 [%at], %rd2;",
        )
        .finish();
    vec![grid, same]
}
