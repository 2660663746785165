//! Small texts are compiled on the stack of the caller. They must not need more of it than any thread has.

use std::thread;

use oriole::Compiler;

/// Size in bytes of the largest text that is compiled on the stack of the caller (`oriole_support::SMALL_TEXT_BYTES`).
const SMALL_TEXT_BYTES: usize = 4 << 10;
/// Size in bytes of a small stack: that of secondary threads on macOS. Rust's threads have 2 MiB, those of most C programs 8 MiB.
const SMALL_STACK_BYTES: usize = 512 << 10;

/// Returns a module with this body of a kernel, in which `open` and `close` are repeated around `inner` as often as a small text allows.
fn nested(before: &str, open: &str, inner: &str, close: &str, after: &str) -> String {
    let head = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<9>; .reg .pred %q;\n";
    let rest = SMALL_TEXT_BYTES - head.len() - before.len() - inner.len() - after.len() - 3;
    let count = rest / (open.len() + close.len());
    format!("{head}{before}{}{inner}{}{after}\n}}\n", open.repeat(count), close.repeat(count))
}

#[test]
fn small_texts_need_little_stack() {
    let store = "ld.param.u64 %rd1, [p]; st.global.u32 [%rd1], %r1; ret;";
    let doubles = ".reg .b64 %rd<2>; .reg .f64 %d<3>; ld.param.u64 %rd1, [p]; ld.global.f64 %d1, [%rd1]; mov.f64 %d2, %d1;";
    let programs = [
        ("scopes", nested("", "{", "ret;", "}", "")),
        ("parentheses", nested("mov.u32 %r1, ", "(", "1", ")", "; ret;")),
        ("signs", nested("mov.u32 %r1, ", "-", "1", "", "; ret;")),
        ("conditions", nested("mov.u32 %r1, ", "1?", "1", ":2", "; ret;")),
        ("sums", nested("mov.u32 %r1, 1", "+1", "", "", "; ret;")),
        ("instructions", nested(".reg .b64 %rd<2>; mov.u32 %r1, 0;", "add.u32 %r1,%r1,%r2;", "", "", store)),
        ("branches", nested(".reg .b64 %rd<2>; mov.u32 %r1, 0; setp.eq.u32 %q, %r1, 0; L:", "@%q bra L;", "", "", store)),
        ("selections", nested(".reg .b64 %rd<2>; mov.u32 %r1,%tid.x;", "selp.u32 %r1,%r1,3,%q;", "", "", store)),
        ("functions of the runtime", nested(doubles, "div.rn.f64 %d1,%d1,%d2;", "", "", "st.global.f64 [%rd1], %d1; ret;")),
        ("vectors", nested("mov.b64 %r1, ", "{", "%r1", "}", "; ret;")),
        ("brackets", nested("ld.global.u32 %r1, ", "[", "%r1", "]", "; ret;")),
    ];
    for (name, text) in programs {
        assert!((SMALL_TEXT_BYTES - 100..=SMALL_TEXT_BYTES).contains(&text.len()), "{name}: {} bytes", text.len());
        for level in 0..=3 {
            let (text, compiler) = (text.clone(), Compiler::new().opt_level(level));
            // An overflow of the stack ends the process. Expressions that are nested too deeply are errors.
            let compile = move || compiler.compile(text).is_ok();
            let thread = thread::Builder::new().stack_size(SMALL_STACK_BYTES).spawn(compile).expect("a thread");
            let valid = thread.join().expect("no panic");
            assert!(
                valid || !["scopes", "instructions", "branches", "selections", "functions of the runtime"].contains(&name),
                "{name} at -O{level}"
            );
        }
    }
}
