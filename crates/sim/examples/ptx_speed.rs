//! Measures the speed of the PTX interpreter, in thread instructions per second on one host core.
//!
//! `cargo run --release -p oriole-sim --example ptx_speed`

use std::time::Instant;

use oriole_sim::ptx::{PtxOptions, PtxProgram};
use oriole_sim::{GlobalMemory, Launch};

const INTEGER: &str = "mad.lo.u32 %r1, %r1, 1664525, 1013904223;\nshr.u32 %r2, %r1, 7;\nxor.b32 %r3, %r3, %r2;\nadd.u32 %r4, %r4, %r3;\n\
                       and.b32 %r5, %r4, %r1;\nsub.u32 %r3, %r3, %r5;\nmax.s32 %r4, %r4, %r2;";
const FLOAT: &str = "fma.rn.f32 %f1, %f1, %f2, %f3;\nadd.f32 %f2, %f2, %f1;\nmul.f32 %f3, %f3, %f2;\nmin.f32 %f2, %f2, 0f3f800000;";
const SHARED: &str = "st.shared.u32 [%a], %r1;\nld.shared.u32 %r2, [%a];\nadd.u32 %r1, %r1, %r2;";

fn kernel(body: &str) -> String {
    format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.shared .align 4 .b8 area[1024];\n.visible .entry k(.param .u64 out, .param .u32 count)\n{{\n\
         .reg .pred %p; .reg .b32 %r<9>, %i, %n, %a; .reg .f32 %f<9>; .reg .b64 %out;\n\
         ld.param.u64 %out, [out]; ld.param.u32 %n, [count]; mov.u32 %r1, %tid.x; mov.u32 %a, area; mad.lo.u32 %a, %r1, 4, %a;\n\
         mov.u32 %r3, 0; mov.u32 %r4, 0; mov.f32 %f1, 0f3f800000; mov.f32 %f2, 0f3f000000; mov.f32 %f3, 0f3e800000; mov.u32 %i, 0;\n\
         LOOP:\n{body}\nadd.u32 %i, %i, 1;\nsetp.lt.u32 %p, %i, %n;\n@%p bra LOOP;\n\
         cvt.rzi.u32.f32 %r6, %f1; add.u32 %r4, %r4, %r6; add.u32 %r4, %r4, %r1; mov.u32 %r1, %tid.x; mad.wide.u32 %out, %r1, 4, %out;\n\
         st.global.u32 [%out], %r4;\nret;\n}}\n"
    )
}

fn main() {
    let checks = PtxOptions::default();
    let no_checks = PtxOptions { undefined_values: false, races: false, ..PtxOptions::default() };
    for (name, body, count) in [("integer", INTEGER, 20_000_u32), ("float", FLOAT, 5_000), ("shared memory", SHARED, 5_000)] {
        for (how, options) in [("with all checks", &checks), ("without checks", &no_checks)] {
            let text = kernel(body);
            let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
            assert!(checked.is_valid(), "{:?}", checked.diagnostics);
            let program = PtxProgram::new(&checked.module, text.as_bytes()).expect("the kernel is supported");
            let mut memory = GlobalMemory::new();
            let out = memory.allocate("out", vec![0; 1024]);
            let arguments = vec![out.to_le_bytes().to_vec(), count.to_le_bytes().to_vec()];
            let launch = Launch { kernel: "k".into(), grid: [1; 3], block: [256, 1, 1], cluster: None, shared_bytes: 0, arguments };
            let start = Instant::now();
            let report = program.load(&mut memory).run(&launch, &mut memory, options).expect("the kernel runs");
            let seconds = start.elapsed().as_secs_f64();
            println!("{name}, {how}: {:.1} million instructions a second", report.instructions as f64 / seconds / 1e6);
        }
    }
}
