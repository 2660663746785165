//! Prints what the statements of a function use: arrays, masks, addresses, vector registers. Each is declared and initialized only if the
//! statements mention it.

use std::fmt::Write;

use crate::generate::{AREA_BYTES, GATES};
use crate::program::{BULK_BYTES, FLOAT_CELLS, Frame, Function, PRIVATE_BYTES, Program, SHARED_CELLS};

/// PTX code that computes the index of the thread in its block (`%lin`) and the number of threads (`%nthr`).
pub const THREAD_NUMBERS: &str = "    mov.u32 %lin, %tid.z;
    mov.u32 %pa, %ntid.y;
    mov.u32 %pb, %tid.y;
    mad.lo.u32 %lin, %lin, %pa, %pb;
    mov.u32 %pa, %ntid.x;
    mov.u32 %pb, %tid.x;
    mad.lo.u32 %lin, %lin, %pa, %pb;
    mov.u32 %nthr, %ntid.x;
    mov.u32 %pa, %ntid.y;
    mul.lo.u32 %nthr, %nthr, %pa;
    mov.u32 %pa, %ntid.z;
    mul.lo.u32 %nthr, %nthr, %pa;
";

/// Vector registers: name, type of a component, components.
pub const VECTORS: [(&str, &str, &str); 5] =
    [("%va", "b32", "xyzw"), ("%vb", "b32", "xy"), ("%vh", "b16", "xy"), ("%vq", "b16", "xyzw"), ("%vf", "f32", "xyzw")];

/// Returns whether a text mentions a register.
pub fn names(text: &str, register: &str) -> bool {
    text.match_indices(register).any(|(at, _)| !text[at + register.len()..].starts_with(|c: char| c.is_ascii_alphanumeric()))
}

/// Prints the array in local memory and generic addresses, if they are used.
pub fn arrays(text: &mut String, program: &Program, function: &Function, body: &str) {
    let suffix = program.seed;
    if names(body, "%loc") || names(body, "%gloc") {
        let Frame { bytes, window } = function.frame;
        let _ = writeln!(text, "    .local .align 16 .b8 local_array[{bytes}];\n    .reg .b64 %loc, %gloc;");
        let place = if window == 0 { "local_array".to_owned() } else { format!("local_array+{window}") };
        let _ = writeln!(text, "    mov.u64 %loc, {place};\n    cvta.local.u64 %gloc, %loc;");
        for (offset, words) in (0..PRIVATE_BYTES).step_by(8).zip(program.constants.chunks(2)) {
            let _ = writeln!(text, "    st.local.v2.b32 [local_array+{}], {{{:#x}, {:#x}}};", window + offset, words[0], words[1]);
        }
    }
    for (name, space, register) in [("cst", "const", "%gcst"), ("gvar", "global", "%ggvar")] {
        if names(body, register) {
            let _ = writeln!(text, "    .reg .b64 {register};\n    mov.u64 {register}, {name}{suffix};");
            let _ = writeln!(text, "    cvta.{space}.u64 {register}, {register};");
        }
    }
    if names(body, "%gpriv") {
        text.push_str("    .reg .b64 %gpriv;\n    cvta.global.u64 %gpriv, %priv;\n");
    }
    stack_memory(text, program, body);
    vectors(text, program, body);
}

/// Prints the allocation of stack memory by `alloca`, for the whole function.
fn stack_memory(text: &mut String, program: &Program, body: &str) {
    if names(body, "%alc") {
        let _ = writeln!(text, "    .reg .b64 %alc;\n    alloca.u64 %alc, {PRIVATE_BYTES}, 16;");
        for (offset, word) in (0..PRIVATE_BYTES).step_by(4).zip(&program.constants) {
            let _ = writeln!(text, "    st.local.b32 [%alc+{offset}], {word:#x};");
        }
    }
}

/// Prints named vector registers with initial values, and 128-bit registers.
fn vectors(text: &mut String, program: &Program, body: &str) {
    for (number, (register, kind, components)) in VECTORS.into_iter().enumerate() {
        if !body.contains(&format!("{register}.")) && !names(body, register) {
            continue;
        }
        let _ = writeln!(text, "    .reg .v{} .{kind} {register};", components.len());
        for (component, word) in components.chars().zip(&program.constants[number * 4..]) {
            let value = match kind {
                "f32" => format!("0f{word:08X}"),
                "b16" => format!("{}", *word as i16),
                _ => format!("{word:#x}"),
            };
            let _ = writeln!(text, "    mov.{kind} {register}.{component}, {value};");
        }
    }
    if names(body, "%oa") || names(body, "%ob") {
        let half = |at: usize| u64::from(program.constants[at]) << 32 | u64::from(program.constants[at + 1]);
        text.push_str("    .reg .b128 %oa, %ob;\n    .reg .b64 %oi, %oj;\n");
        let _ = writeln!(text, "    mov.b64 %oi, {:#x};\n    mov.b64 %oj, {:#x};", half(0), half(2));
        text.push_str("    mov.b128 %oa, {%oi, %oj};\n    mov.b128 %ob, {%oj, %oi};\n");
    }
}

/// Prints what a kernel uses: masks, shared memory, generic addresses.
pub fn kernel_extras(text: &mut String, program: &Program, body: &str) {
    arrays(text, program, &program.kernel, body);
    if names(body, "%gin") {
        text.push_str("    .reg .b64 %gin;\n    cvta.global.u64 %gin, %in;\n");
    }
    warp_mask(text, body);
    let threads = program.block_threads() as usize;
    if names(body, "%sh") || names(body, "%gsh") {
        let _ = writeln!(text, "    .shared .align 16 .b8 shared_array[{}];", threads * PRIVATE_BYTES);
        text.push_str("    .reg .b32 %sh;\n    .reg .b64 %gsh;\n    mov.u32 %sh, shared_array;\n");
        let _ =
            writeln!(text, "    mad.lo.u32 %sh, %lin, {PRIVATE_BYTES}, %sh;\n    cvt.u64.u32 %gsh, %sh;\n    cvta.shared.u64 %gsh, %gsh;");
        for offset in (0..PRIVATE_BYTES).step_by(4) {
            let _ = writeln!(text, "    st.shared.b32 [%sh+{offset}], {:#x};", program.constants[offset / 4]);
        }
    }
    if names(body, "%dy") || names(body, "%gdy") {
        let _ = writeln!(text, "    .reg .b32 %dy;\n    .reg .b64 %gdy;\n    mov.u32 %dy, dyn{};", program.seed);
        let _ =
            writeln!(text, "    mad.lo.u32 %dy, %lin, {PRIVATE_BYTES}, %dy;\n    cvt.u64.u32 %gdy, %dy;\n    cvta.shared.u64 %gdy, %gdy;");
        for offset in (0..PRIVATE_BYTES).step_by(8) {
            let word = program.constants[offset / 4 + 1];
            let _ = writeln!(text, "    st.shared.v2.b32 [%dy+{offset}], {{{word:#x}, %lin}};");
        }
    }
    if names(body, "%scell") {
        let _ = writeln!(text, "    .shared .align 16 .b8 shared_cells[{}];", (SHARED_CELLS + FLOAT_CELLS) * 8);
        text.push_str(
            "    .reg .b32 %scell;\n    .reg .pred %first;\n    mov.u32 %scell, shared_cells;\n    setp.eq.u32 %first, %lin, 0;\n",
        );
        for cell in 0..SHARED_CELLS {
            let _ = writeln!(text, "    @%first st.shared.b64 [%scell+{}], {:#x};", cell * 8, program.constants[cell]);
        }
        for cell in SHARED_CELLS..SHARED_CELLS + FLOAT_CELLS {
            let _ = writeln!(text, "    @%first st.shared.b64 [%scell+{}], 0;", cell * 8);
        }
        text.push_str("    bar.sync 0;\n");
    }
    exchange(text, program, body);
    tensor(text, program, body);
}

/// Prints the array in shared memory for matrices and copies, barriers in shared memory, and the address of the buffer for bulk copies.
fn tensor(text: &mut String, program: &Program, body: &str) {
    if names(body, "%tsr") {
        let _ =
            writeln!(text, "    .shared .align 1024 .b8 tensor_area[{AREA_BYTES}];\n    .reg .b32 %tsr;\n    mov.u32 %tsr, tensor_area;");
    }
    if names(body, "%tgate") {
        let _ = writeln!(text, "    .shared .align 8 .b64 gates[{GATES}];\n    .reg .b32 %tgate;\n    mov.u32 %tgate, gates;");
    }
    if program.has_bulk_stores() {
        text.push_str("    .reg .b64 %blk;\n    ld.param.u64 %blk, [bulk];\n    cvta.to.global.u64 %blk, %blk;\n");
        let _ = writeln!(text, "    mad.wide.u32 %blk, %gtid, {BULK_BYTES}, %blk;");
    }
}

/// Prints what a device function uses: its arrays, the thread index, the mask of the warp, memory for exchanges.
pub fn function_extras(text: &mut String, program: &Program, body: &str) {
    if ["%lin", "%nthr", "%wm", "%xch"].iter().any(|register| names(body, register)) {
        text.push_str("    .reg .b32 %lin, %nthr, %pa, %pb;\n");
        text.push_str(THREAD_NUMBERS);
    }
    warp_mask(text, body);
    exchange(text, program, body);
}

/// Prints the computation of the mask of the warp's threads; the last warp of a block may be partial.
fn warp_mask(text: &mut String, body: &str) {
    if names(body, "%wm") {
        text.push_str("    .reg .b32 %wm;\n    and.b32 %pa, %lin, 0xffffffe0;\n    sub.u32 %pa, %nthr, %pa;\n    min.u32 %pa, %pa, 32;\n");
        text.push_str("    sub.u32 %pa, 32, %pa;\n    mov.u32 %wm, -1;\n    shr.u32 %wm, %wm, %pa;\n");
    }
}

/// Prints shared memory with 8 bytes per thread, which statements use between barriers.
fn exchange(text: &mut String, program: &Program, body: &str) {
    if names(body, "%xch") {
        let _ = writeln!(text, "    .shared .align 16 .b8 xch[{}];", program.block_threads() * 8);
        text.push_str("    .reg .b32 %xch;\n    mov.u32 %xch, xch;\n    mad.lo.u32 %xch, %lin, 8, %xch;\n");
    }
}
