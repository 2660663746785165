//! Modules with many of one thing.

use std::fmt::Write;

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n";

/// A kind of module: what there is many of, how many for the benchmark, and the text for any number.
#[allow(dead_code, reason = "the test that includes this file chooses numbers of its own")]
pub struct Case {
    pub what: &'static str,
    pub count: usize,
    pub options: &'static [&'static str],
    pub text: fn(usize) -> String,
}

const fn case(what: &'static str, count: usize, text: fn(usize) -> String) -> Case {
    Case { what, count, options: &[], text }
}

pub const CASES: [Case; 27] = [
    case("global variables", 100_000, |n| {
        with_items(n, |i| format!(".visible .global .align 4 .u32 g{i};\n"), "ld.global.u32 %r1, [g0];\n")
    }),
    case("global variables with values", 100_000, |n| {
        with_items(n, |i| format!(".global .align 1 .b8 s{i}[8] = {{72, 101, 108, 108, 111, {}}};\n", i % 256), "ld.global.u8 %r1, [s0];\n")
    }),
    case("global variables with addresses", 100_000, |n| {
        let item = |i| format!(".visible .global .align 4 .u32 g{i} = {i};\n.visible .global .align 8 .u64 h{i} = generic(g{i});\n");
        with_items(n / 2, item, "")
    }),
    case("global variables that code names", 20_000, |n| {
        with_items(
            n,
            |i| format!(".global .align 4 .u32 g{i};\n"),
            &repeat(n, |i| format!("ld.global.u32 %r1, [g{i}];\nst.global.u32 [%rd1], %r1;\n")),
        )
    }),
    case("initial values", 100_000, |n| {
        let values = repeat(n, |i| format!("{}{i}", if i > 0 { ", " } else { "" }));
        with_items(1, |_| format!(".visible .global .align 4 .u32 g[{n}] = {{{values}}};\n"), "")
    }),
    case("functions", 20_000, |n| with_items(n, |i| function(i, "", ".visible "), "")),
    case("functions that call the one before", 20_000, chain),
    case("functions in a table", 20_000, |n| {
        let names = repeat(n, |i| format!("{}f{i}", if i > 0 { ", " } else { "" }));
        with_items(
            n + 1,
            |i| if i < n { function(i, "", "") } else { format!(".visible .global .align 8 .u64 t[{n}] = {{{names}}};\n") },
            "",
        )
    }),
    case("kernels", 20_000, |n| HEAD.to_owned() + &repeat(n, |i| kernel(&format!("k{i}"), ""))),
    case("kernels and global variables", 10_000, |n| {
        let item = |i| format!(".visible .global .u32 g{i};\n") + &kernel(&format!("k{i}"), &format!("ld.global.u32 %r1, [g{i}];\n"));
        HEAD.to_owned() + &repeat(n, item)
    }),
    case("kernels that call a function", 10_000, |n| {
        HEAD.to_owned() + &function(0, "", "") + &repeat(n, |i| kernel(&format!("k{i}"), &call(0)))
    }),
    case("kernel parameters", 100_000, |n| {
        let list = |k: usize| repeat(100, |i| format!("{}.param .u32 p{k}_{i}", if i > 0 { ", " } else { "" }));
        HEAD.to_owned()
            + &repeat(n / 100, |k| format!(".visible .entry k{k}({})\n{{ .reg .b32 %r<2>; ld.param.u32 %r1, [p{k}_7]; ret; }}\n", list(k)))
    }),
    case("calls of one function", 20_000, |n| HEAD.to_owned() + &function(0, "", "") + &kernel("k", &repeat(n, |_| call(0)))),
    case("callees of one kernel", 20_000, |n| with_items(n, |i| function(i, "", ""), &repeat(n, call))),
    case("labels", 100_000, |n| HEAD.to_owned() + &kernel("k", &repeat(n, |i| format!("L{i}:\n")))),
    case("branches", 20_000, |n| {
        HEAD.to_owned()
            + &kernel("k", &repeat(n, |i| format!("setp.eq.s32 %p1, %r1, {i};\n@%p1 bra L{i};\nadd.s32 %r1, %r1, {i};\nL{i}:\n")))
    }),
    case("scopes", 100_000, |n| {
        HEAD.to_owned() + &kernel("k", &repeat(n, |i| format!("{{ .reg .b32 a; add.s32 a, %r1, {i}; xor.b32 %r1, a, %r2; }}\n")))
    }),
    case("scopes in scopes", 100_000, |n| {
        HEAD.to_owned() + &kernel("k", &(repeat(n, |i| format!("{{ .reg .b32 a{i};\n")) + &"}".repeat(n) + "\n"))
    }),
    case("registers", 100_000, |n| HEAD.to_owned() + &kernel("k", &repeat(n, |i| format!(".reg .b32 a{i};\nmov.u32 a{i}, {i};\n")))),
    case("shared variables", 40_000, |n| {
        with_items(n, |i| format!(".shared .align 1 .b8 s{i}[1];\n"), &repeat(n, |i| format!("st.shared.u8 [s{i}], 1;\n")))
    }),
    case("constants", 60_000, |n| {
        with_items(n, |i| format!(".const .align 1 .b8 c{i}[1];\n"), &repeat(n, |i| format!("ld.const.u8 %r1, [c{i}];\n")))
    }),
    case("local variables", 20_000, |n| {
        HEAD.to_owned() + &kernel("k", &repeat(n, |i| format!(".local .align 4 .b32 l{i};\nst.local.u32 [l{i}], %r1;\n")))
    }),
    case("declarations of functions", 100_000, |n| with_items(n, |i| format!(".extern .func f{i};\n"), "")),
    case("lines of source", 100_000, |n| {
        let files = repeat(n / 10, |i| format!(".file {} \"/a/file{i}.cu\"\n", i + 1));
        let lines = repeat(n, |i| format!(".loc {} {} 0\nadd.s32 %r1, %r1, {};\n", i % (n / 10) + 1, i + 1, i % 7));
        HEAD.to_owned() + &files + &kernel("k", &lines)
    }),
    case("targets of one branch", 10_000, |n| {
        let list = repeat(n, |i| format!("{}L{i}", if i > 0 { ", " } else { "" }));
        let bodies = repeat(n, |i| format!("L{i}: add.s32 %r1, %r1, {};\n", i + 1));
        HEAD.to_owned() + &kernel("k", &format!("ts: .branchtargets {list};\nbrx.idx %r1, ts;\n{bodies}"))
    }),
    case("functions that wait for a warp", 10_000, |n| {
        let body = |i: usize| if i == 0 { "barrier.sync 0;".to_owned() } else { format!("call f{};", i - 1) };
        with_items(n, |i| format!(".func f{i}()\n{{ {} ret; }}\n", body(i)), &format!("call f{};\n", n - 1))
    }),
    Case {
        what: "functions of other files",
        count: 10_000,
        options: &["-c"],
        text: |n| with_items(n, |i| format!(".extern .func (.param .b32 r) f{i}(.param .b32 a);\n"), &repeat(n, call)),
    },
];

fn repeat(count: usize, item: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, number| {
        let _ = write!(text, "{}", item(number));
        text
    })
}

/// Items, and a kernel.
fn with_items(count: usize, item: impl Fn(usize) -> String, body: &str) -> String {
    HEAD.to_owned() + &repeat(count, item) + &kernel("k", body)
}

fn kernel(name: &str, body: &str) -> String {
    format!(
        ".visible .entry {name}(.param .u64 p)\n{{\n.reg .b64 %rd<3>;\n.reg .b32 %r<3>;\n.reg .pred %p<2>;\nld.param.u64 %rd1, [p];\n\
         {body}st.global.u32 [%rd1], %r1;\nret;\n}}\n"
    )
}

fn function(number: usize, body: &str, linkage: &str) -> String {
    format!(
        "{linkage}.func (.param .b32 r) f{number}(.param .b32 a)\n{{\n.reg .b32 %r<3>;\nld.param.b32 %r1, [a];\n{body}\
         add.s32 %r2, %r1, {number};\nst.param.b32 [r], %r2;\nret;\n}}\n"
    )
}

fn call(number: usize) -> String {
    format!("{{ .param .b32 x; .param .b32 y; st.param.b32 [x], %r1; call (y), f{number}, (x); ld.param.b32 %r1, [y]; }}\n")
}

fn chain(count: usize) -> String {
    with_items(count, |i| function(i, &if i > 0 { call(i - 1) } else { String::new() }, ""), &call(count - 1))
}
