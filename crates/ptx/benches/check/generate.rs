//! PTX of any size for measuring: kernels of the mix that compilers write, the same text on every machine.

use std::fmt::Write;

/// Numbers that look random and are the same every time (a linear congruential generator).
pub struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as u32) % limit
    }
}

const HEADER: &str = "//\n// Generated for measuring.\n//\n.version 8.0\n.target sm_90a\n.address_size 64\n\n";

/// Registers of each type in a kernel.
const REGISTERS: u32 = 200;

/// Generates a module of about `bytes` bytes in kernels of about `statements_per_kernel` statements, and `debug_bytes` of debug data.
pub fn module(bytes: usize, statements_per_kernel: u32, debug_bytes: usize) -> String {
    let mut text = String::with_capacity(bytes + 100_000);
    text += HEADER;
    let mut numbers = Numbers(1);
    let mut kernel = 0;
    while text.len() < bytes {
        write_kernel(&mut text, kernel, statements_per_kernel, &mut numbers, bytes);
        kernel += 1;
    }
    if debug_bytes > 0 {
        write_debug_section(&mut text, debug_bytes, &mut numbers);
    }
    text
}

/// One number a line, as compilers write debug information.
fn write_debug_section(text: &mut String, bytes: usize, numbers: &mut Numbers) {
    let end = text.len() + bytes;
    text.push_str("\t.section\t.debug_info\n\t{\n");
    while text.len() < end {
        let _ = writeln!(text, ".b8 {}", numbers.below(256));
    }
    text.push_str("\t}\n");
}

fn write_kernel(text: &mut String, kernel: u32, statements: u32, numbers: &mut Numbers, most_bytes: usize) {
    let name = format!("_Z6kernelILi{kernel}EEvPKfPfi");
    let _ = write!(
        text,
        "\t// .globl\t{name}\n.visible .entry {name}(\n\t.param .u64 .ptr .align 1 {name}_param_0,\n\t.param .u64 .ptr .align 1 {name}_param_1,\n\t.param .u32 {name}_param_2\n)\n.maxntid 256, 1, 1\n{{\n"
    );
    for (ty, stem) in [("pred", "p"), ("b16", "rs"), ("b32", "r"), ("f32", "f"), ("b64", "rd"), ("f64", "fd")] {
        let _ = writeln!(text, "\t.reg .{ty} \t%{stem}<{}>;", REGISTERS + 1);
    }
    let _ = write!(
        text,
        "\t.shared .align 16 .b8 tile[4096];\n\n\tld.param.u64 \t%rd1, [{name}_param_0];\n\tld.param.u64 \t%rd2, [{name}_param_1];\n\tld.param.u32 \t%r1, [{name}_param_2];\n\tcvta.to.global.u64 \t%rd3, %rd1;\n"
    );
    text.push_str("\tmov.u32 \t%r2, %ctaid.x;\n\tmov.u32 \t%r3, %ntid.x;\n\tmov.u32 \t%r4, %tid.x;\n\tmad.lo.s32 \t%r5, %r2, %r3, %r4;\n");
    let mut block = 0;
    for statement in 0..statements {
        if text.len() >= most_bytes {
            break;
        }
        if statement % 24 == 23 {
            block += 1;
            write_branch(text, kernel, block, numbers);
        } else {
            write_statement(text, numbers);
        }
    }
    text.push_str("\tret;\n\n}\n");
}

/// Ends a block: half of the branches go back to the block's start, half go on.
fn write_branch(text: &mut String, kernel: u32, block: u32, numbers: &mut Numbers) {
    let predicate = numbers.below(REGISTERS) + 1;
    let (a, b) = (numbers.below(REGISTERS) + 1, numbers.below(4096));
    let target = if block > 1 && numbers.below(2) == 0 { block - 1 } else { block };
    let _ = write!(
        text,
        "\tsetp.lt.s32 \t%p{predicate}, %r{a}, {b};\n\t@%p{predicate} bra \t$L__BB{kernel}_{target};\n\n$L__BB{kernel}_{block}:\n"
    );
}

fn write_statement(text: &mut String, numbers: &mut Numbers) {
    let mut register = || numbers.below(REGISTERS) + 1;
    let (a, b, c, d) = (register(), register(), register(), register());
    let (e, f) = (register(), register());
    let offset = numbers.below(256) * 16;
    let _ = match numbers.below(40) {
        0..=3 => writeln!(text, "\tld.global.f32 \t%f{a}, [%rd{b}+{offset}];"),
        4 => writeln!(text, "\tld.global.nc.v4.f32 \t{{%f{a}, %f{b}, %f{c}, %f{d}}}, [%rd{e}+{offset}];"),
        5 | 6 => writeln!(text, "\tst.global.f32 \t[%rd{a}+{offset}], %f{b};"),
        7 => writeln!(text, "\tld.shared.v2.f32 \t{{%f{a}, %f{b}}}, [%r{c}+{offset}];"),
        8 => writeln!(text, "\tst.shared.f32 \t[%r{a}], %f{b};"),
        9..=16 => writeln!(text, "\tfma.rn.f32 \t%f{a}, %f{b}, %f{c}, %f{d};"),
        17 => writeln!(text, "\tmul.f32 \t%f{a}, %f{b}, 0f3F8CCCCD;"),
        18 => writeln!(text, "\tadd.f32 \t%f{a}, %f{b}, %f{c};"),
        19 | 20 => writeln!(text, "\tmul.wide.s32 \t%rd{a}, %r{b}, 4;"),
        21..=23 => writeln!(text, "\tadd.s64 \t%rd{a}, %rd{b}, %rd{c};"),
        24 | 25 => writeln!(text, "\tadd.s32 \t%r{a}, %r{b}, {offset};"),
        26 => writeln!(text, "\tmad.lo.s32 \t%r{a}, %r{b}, %r{c}, %r{d};"),
        27 => writeln!(text, "\tshl.b32 \t%r{a}, %r{b}, 3;"),
        28 => writeln!(text, "\tand.b32 \t%r{a}, %r{b}, 31;"),
        29 => writeln!(text, "\tselp.b32 \t%r{a}, %r{b}, %r{c}, %p{d};"),
        30 => writeln!(text, "\tcvt.rn.f32.s32 \t%f{a}, %r{b};"),
        31 => writeln!(text, "\tcvt.f64.f32 \t%fd{a}, %f{b};"),
        32 => writeln!(text, "\tfma.rn.f64 \t%fd{a}, %fd{b}, %fd{c}, %fd{d};"),
        33 => writeln!(text, "\tmov.b32 \t%r{a}, {{%rs{b}, %rs{c}}};"),
        34 => writeln!(text, "\tshfl.sync.down.b32 \t%r{a}|%p{b}, %r{c}, 16, 31, -1;"),
        35 | 36 => writeln!(
            text,
            "\tmma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 \t{{%f{a}, %f{b}, %f{c}, %f{d}}}, {{%r{a}, %r{b}, %r{c}, %r{d}}}, {{%r{e}, %r{f}}}, {{%f{a}, %f{b}, %f{c}, %f{d}}};"
        ),
        37 => writeln!(
            text,
            "\t// begin inline asm\n\t{{\n\t.reg .pred p;\n\tsetp.ne.b32 p, %r{a}, 0;\n\t@p cp.async.cg.shared.global [%r{b}], [%rd{c}], 16;\n\t}}\n\t// end inline asm"
        ),
        38 => writeln!(text, "\tbar.sync \t0;"),
        _ => writeln!(text, "\tmov.u32 \t%r{a}, %r{b};"),
    };
}
