//! Constant banks up to their end: 64 KiB of `.const` variables, more variable addresses than half a bank holds, and kernel parameters up
//! to the limit of 32,764 bytes. Instructions encode offsets in the upper half of a bank as negative numbers. Each test runs in the PTX
//! interpreter, and compiled for targets with different layouts in the simulator; if `ORIOLE_ORACLES` is set, also compiled by ptxas.

use std::fmt::Write as _;
use std::process::Command;
use std::{env, fs};

use oriole_driver::{Options as Compiler, compile};
use oriole_isa::Target;
use oriole_sim::ptx::PtxProgram;
use oriole_sim::sass::kernel_test::run;
use oriole_sim::sass::{GridOptions, Silent};

const TARGETS: [(&str, u8); 6] = [("sm_75", 3), ("sm_80", 0), ("sm_90a", 0), ("sm_90a", 3), ("sm_100a", 3), ("sm_120a", 2)];
const LIMIT: GridOptions = GridOptions::limited(1 << 24);

/// Runs a kernel test in the interpreter and, compiled by Oriole and by ptxas, in the simulator.
fn check(name: &str, text: &str, targets: &[(&str, u8)]) {
    check_ours(name, text, targets);
    let test = oriole_kernel_test::parse(text).unwrap();
    for &(target, _) in targets {
        if let Some(cubin) = by_ptxas(name, text, target) {
            run(&test, &cubin, &LIMIT, &mut Silent).unwrap_or_else(|why| panic!("{name} (ptxas, {target}): {why}"));
        }
    }
}

/// Runs a kernel test in the interpreter and, compiled by Oriole, in the simulator.
fn check_ours(name: &str, text: &str, targets: &[(&str, u8)]) {
    let test = oriole_kernel_test::parse(text).unwrap_or_else(|error| panic!("{name}: {error:?}"));
    let checked = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default());
    assert!(checked.is_valid(), "{name} is not accepted");
    let program = PtxProgram::new(&checked.module, text.as_bytes()).unwrap_or_else(|error| panic!("{name}: {error}"));
    let report = program.run_test(&test, &oriole_sim::ptx::PtxOptions::default()).unwrap_or_else(|failure| panic!("{name}: {failure}"));
    assert!(report.findings.is_empty(), "{name}: {}", report.findings[0]);
    for &(target, level) in targets {
        let machine = Target::parse(target).unwrap();
        let compiled = compile(&[&checked.module], &Compiler { level, ..Compiler::new(machine) });
        let compiled = compiled.unwrap_or_else(|errors| panic!("{name} ({target}, -O{level}): {errors:?}"));
        run(&test, &compiled.cubin, &LIMIT, &mut Silent).unwrap_or_else(|why| panic!("{name} ({target}, -O{level}): {why}"));
    }
}

/// Compiles a test with ptxas; `None` if ptxas is not available.
fn by_ptxas(name: &str, text: &str, target: &str) -> Option<Vec<u8>> {
    let ptxas = oriole_oracles::tool("ptxas")?;
    let path = env::temp_dir().join(format!("oriole-banks-{name}-{target}-{}", std::process::id()));
    let (source, cubin) = (path.with_extension("ptx"), path.with_extension("cubin"));
    fs::write(&source, text).unwrap();
    let output = Command::new(ptxas).args(["-arch", target, "-o"]).arg(&cubin).arg(&source).output().expect("ptxas runs");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    let bytes = fs::read(&cubin).unwrap();
    fs::remove_file(source).unwrap();
    fs::remove_file(cubin).unwrap();
    Some(bytes)
}

fn hex<T: std::fmt::LowerHex>(values: impl IntoIterator<Item = T>) -> String {
    values.into_iter().map(|value| format!("{value:x}")).collect::<Vec<_>>().join(" ")
}

/// Returns the 64-bit words of a full bank.
fn bank_words() -> Vec<u64> {
    (0..8192_u64).map(|index| (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7).collect()
}

fn bank_variable() -> String {
    let words: Vec<String> = bank_words().iter().map(|word| format!("{word:#x}")).collect();
    format!(".const .align 16 .u64 bank[8192] = {{{}}};\n", words.join(","))
}

/// Returns the value at a byte offset of the bank, extended to 64 bits according to the type.
fn bank_value(ty: &str, offset: usize) -> u64 {
    let bytes: Vec<u8> = bank_words().iter().flat_map(|word| word.to_le_bytes()).collect();
    let bits: u32 = ty[1..].parse().unwrap();
    let value = (0..bits as usize / 8).fold(0, |value, at| value | u64::from(bytes[offset + at]) << (8 * at));
    let unused = 64 - bits;
    if ty.starts_with('s') { ((value << unused) as i64 >> unused) as u64 } else { value }
}

#[test]
fn every_part_of_a_full_bank_is_read_at_fixed_offsets() {
    let mut cases: Vec<(&str, usize)> = Vec::new();
    for offset in [0, 0x7ff8, 0x7ffc, 0x8000, 0x8004, 0x9c48, 0xfff8, 0xfffc] {
        cases.push(("u32", offset));
        cases.extend((offset % 8 == 0).then_some(("u64", offset)));
        cases.extend([("u8", offset + 3), ("s8", offset + 2), ("u16", offset + 2), ("s16", offset)]);
    }
    let mut code = String::new();
    for (number, (ty, offset)) in cases.iter().enumerate() {
        let wide = if ty.starts_with('s') { "s64" } else { "u64" };
        let load = match *ty {
            "u64" => format!("ld.const.u64 %v, [bank+{offset}];"),
            "u32" => format!("ld.const.u32 %w, [bank+{offset}]; cvt.u64.u32 %v, %w;"),
            _ => format!("ld.const.{ty} %h, [bank+{offset}]; cvt.{wide}.{ty} %v, %h;"),
        };
        writeln!(code, "{load} st.global.u64 [%d+{}], %v;", 8 * number).unwrap();
    }
    let vectors = cases.len();
    for (number, offset) in [0x7ff0, 0x8000, 0xfff0].into_iter().enumerate() {
        writeln!(code, "ld.const.v2.u64 {{%v, %x}}, [bank+{offset}];").unwrap();
        writeln!(code, "st.global.v2.u64 [%d+{}], {{%v, %x}};", 16 * number + 8 * (vectors + vectors % 2)).unwrap();
    }
    // 64-bit operands of an addition and a multiplication.
    let sums = vectors + vectors % 2 + 6;
    writeln!(code, "ld.const.u64 %v, [bank+0x8008]; add.u64 %v, %v, %d; sub.u64 %v, %v, %d; st.global.u64 [%d+{}], %v;", 8 * sums).unwrap();
    writeln!(code, "ld.const.u64 %v, [bank+0xfff8]; mul.lo.u64 %v, %v, %n; st.global.u64 [%d+{}], %v;", 8 * sums + 8).unwrap();
    let mut expected: Vec<u64> = cases.iter().map(|&(ty, offset)| bank_value(ty, offset)).collect();
    expected.resize(vectors + vectors % 2, 0);
    expected.extend([0x7ff0, 0x7ff8, 0x8000, 0x8008, 0xfff0, 0xfff8].map(|offset| bank_value("u64", offset)));
    expected.extend([bank_value("u64", 0x8008), bank_value("u64", 0xfff8).wrapping_mul(0x1_0000_0003)]);
    let text = format!(
        "// kernel-test 1
// kernel: fixed
// grid: 1 1 1
// block: 1 1 1
// param d: u64[{}] = zero
// param n: u64 = 100000003
// expect d: exact = {}

.version 8.0
.target sm_75
.address_size 64
{}
.visible .entry fixed(.param .u64 d, .param .u64 n) {{
.reg .b64 %d, %n, %v, %x; .reg .b32 %w; .reg .b16 %h;
ld.param.u64 %d, [d]; ld.param.u64 %n, [n];
{code}ret;
}}
",
        expected.len(),
        hex(expected.iter().copied()),
        bank_variable(),
    );
    check("fixed", &text, &TARGETS);
}

#[test]
fn every_part_of_a_full_bank_is_read_by_index() {
    // Offsets that are added to an index; below, each is combined with the indices that keep the sum inside the bank.
    let offsets = [0_i64, 0x7ffc, 0x8000, 0x8004, 0xfffc, -4];
    let starts = [0_u32, 4, 0x7ff8, 0x7ffc, 0x8000, 0x9c40, 0xfff8, 0xfffc];
    let pairs: Vec<(u32, i64)> = starts
        .into_iter()
        .flat_map(|start| offsets.map(|offset| (start, offset)))
        .filter(|&(start, offset)| (0..0x1_0000).contains(&(i64::from(start) + offset)))
        .collect();
    let mut code = String::new();
    for (number, offset) in offsets.into_iter().enumerate() {
        writeln!(code, "setp.eq.u32 %p, %k, {number}; @%p ld.const.u32 %w, [%a+{offset}];").unwrap();
    }
    let kinds = pairs.iter().map(|(_, offset)| offsets.iter().position(|other| other == offset).unwrap());
    let expected = pairs.iter().map(|&(start, offset)| bank_value("u32", (i64::from(start) + offset) as usize));
    let count = pairs.len();
    let text = format!(
        "// kernel-test 1
// kernel: indexed
// grid: 1 1 1
// block: {count} 1 1
// param d: u32[{count}] = zero
// param i: u32[{count}] = {}
// param k: u32[{count}] = {}
// param u: u32 = 8004
// param e: u32[3] = zero
// expect d: exact = {}
// expect e: exact = {}

.version 8.0
.target sm_75
.address_size 64
{}
.visible .entry indexed(.param .u64 d, .param .u64 i, .param .u64 k, .param .u32 u, .param .u64 e) {{
.reg .b64 %d, %a, %i, %k64, %t; .reg .b32 %w, %k, %x, %u; .reg .pred %p;
mov.u32 %x, %tid.x; mul.wide.u32 %t, %x, 4;
ld.param.u64 %d, [d]; ld.param.u64 %i, [i]; ld.param.u64 %k64, [k]; ld.param.u32 %u, [u];
add.u64 %d, %d, %t; add.u64 %i, %i, %t; add.u64 %k64, %k64, %t;
ld.global.u32 %w, [%i]; ld.global.u32 %k, [%k64];
mov.u64 %a, bank; cvt.u64.u32 %t, %w; add.u64 %a, %a, %t;
{code}st.global.u32 [%d], %w;
setp.ne.u32 %p, %x, 0; @%p ret;
mov.u64 %a, bank; cvt.u64.u32 %t, %u; add.u64 %a, %a, %t;
ld.const.u32 %w, [%a+0x7ff8]; ld.param.u64 %d, [e]; st.global.u32 [%d], %w;
sub.u64 %a, %a, 0x8000; ld.const.v2.u32 {{%w, %x}}, [%a+0x7ffc]; st.global.u32 [%d+4], %w; st.global.u32 [%d+8], %x;
ret;
}}
",
        hex(pairs.iter().map(|pair| pair.0)),
        hex(kinds),
        hex(expected),
        hex([0xfffc, 0x8000, 0x8004].map(|offset| bank_value("u32", offset))),
        bank_variable(),
    );
    check("indexed", &text, &TARGETS);
}

/// Returns the initial value of a global variable.
fn global_value(index: u32) -> u32 {
    index.wrapping_mul(2_654_435_761)
}

fn global_variables(count: u32) -> String {
    let variable = |index: u32| format!(".visible .global .u32 g{index} = {};\n", global_value(index));
    (0..count).map(variable).collect()
}

/// Makes a kernel that increments some of many global variables and stores their values before and after.
fn globals(count: u32, used: &[u32]) -> String {
    let variables = global_variables(count);
    let mut code = String::new();
    for (number, index) in used.iter().enumerate() {
        let at = 8 * number;
        writeln!(code, "ld.global.u32 %w, [g{index}]; st.global.u32 [%d+{at}], %w; add.u32 %w, %w, 1; st.global.u32 [g{index}], %w;")
            .unwrap();
        writeln!(code, "ld.global.u32 %w, [g{index}]; st.global.u32 [%d+{}], %w;", at + 4).unwrap();
    }
    let expected = used.iter().flat_map(|&index| [global_value(index), global_value(index).wrapping_add(1)]);
    format!(
        "// kernel-test 1
// kernel: globals
// grid: 1 1 1
// block: 1 1 1
// param d: u32[{}] = zero
// expect d: exact = {}

.version 8.0
.target sm_75
.address_size 64
{variables}
.visible .entry globals(.param .u64 d) {{
.reg .b64 %d; .reg .b32 %w;
ld.param.u64 %d, [d];
{code}ret;
}}
",
        2 * used.len(),
        hex(expected),
    )
}

/// Makes a kernel that replaces each global variable by the prefix sum up to it, and stores the last one.
fn running_sum(count: u32) -> String {
    let mut code = String::new();
    for index in 0..count {
        writeln!(code, "ld.global.u32 %w, [g{index}]; add.u32 %s, %s, %w; st.global.u32 [g{index}], %s;").unwrap();
    }
    let last = count - 1;
    let sum = (0..count).map(global_value).fold(0, u32::wrapping_add);
    format!(
        "// kernel-test 1
// kernel: running_sum
// grid: 1 1 1
// block: 1 1 1
// param d: u32[1] = zero
// expect d: exact = {sum:x}

.version 8.0
.target sm_75
.address_size 64
{}
.visible .entry running_sum(.param .u64 d) {{
.reg .b64 %d; .reg .b32 %w, %s;
ld.param.u64 %d, [d]; mov.u32 %s, 0;
{code}ld.global.u32 %w, [g{last}]; st.global.u32 [%d], %w;
ret;
}}
",
        global_variables(count),
    )
}

#[test]
fn five_thousand_global_variables_are_read_and_written() {
    // Not compiled by ptxas, which takes twenty seconds for this kernel.
    check_ours("running_sum", &running_sum(5000), &[("sm_90a", 0)]);
    let some: Vec<u32> = [0, 1, 4094, 4095, 4096, 4097, 4999].into_iter().chain((100..5000).step_by(300)).collect();
    check("some_globals", &globals(5000, &some), &TARGETS);
}

/// Addresses that do not fit into the bank become relocations in the code.
#[test]
fn more_global_variables_than_a_bank_has_addresses() {
    let used = [0, 1, 8189, 8190, 8191, 8192, 8193, 8499];
    check("many_globals", &globals(8500, &used), &[("sm_75", 3), ("sm_80", 0), ("sm_90a", 3), ("sm_120a", 3)]);
}

#[test]
fn parameters_are_read_up_to_the_limit() {
    let (size, last) = (32_748_usize, 32_760_usize);
    let bytes: Vec<u8> = (0..size).map(|at| (at.wrapping_mul(0x9e37_79b1) >> 11) as u8).collect();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    let offsets = [0, 4, 0x10e8, 0x10ec, 0x7bf4, 0x7c00, 0x7de0, 0x7df0, 0x7df4, 0x7fe4, 0x7fe8];
    let mut code = String::new();
    for (number, offset) in offsets.into_iter().enumerate() {
        writeln!(code, "ld.param.u32 %w, [q+{offset}]; st.global.u32 [%d+{}], %w;", 4 * number).unwrap();
    }
    let count = offsets.len();
    let expected = offsets.map(word).into_iter().chain([0xfeed_f00d, word(0x7fe8), word(0x7c08)]);
    let text = format!(
        "// kernel-test 1
// kernel: parameters
// grid: 1 1 1
// block: 1 1 1
// param d: u32[{}] = zero
// param i: u32 = 7fe8
// param q: bytes[{size}] = {}
// param z: u32 = feedf00d
// expect d: exact = {}

.version 8.1
.target sm_75
.address_size 64
.visible .entry parameters(.param .u64 d, .param .u32 i, .param .align 4 .b8 q[{size}], .param .u32 z) {{
.reg .b64 %d, %a, %t; .reg .b32 %w, %i;
ld.param.u64 %d, [d]; ld.param.u32 %i, [i];
{code}ld.param.u32 %w, [z]; st.global.u32 [%d+{}], %w;
mov.b64 %a, q; cvt.u64.u32 %t, %i; add.u64 %a, %a, %t; ld.param.u32 %w, [%a]; st.global.u32 [%d+{}], %w;
mov.b64 %a, q; cvta.param.u64 %a, %a; ld.u32 %w, [%a+0x7c08]; st.global.u32 [%d+{}], %w;
ret;
}}
",
        count + 3,
        bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" "),
        hex(expected),
        4 * count,
        4 * count + 4,
        4 * count + 8,
    );
    assert_eq!(8 + 4 + size, last, "the last parameter ends at the limit of 32,764 bytes");
    check("parameters", &text, &TARGETS);
}
