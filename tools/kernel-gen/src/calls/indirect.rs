//! Generates tests of calls through function pointers.

use super::{function, test};
use crate::kernel::Generated;

pub(super) fn tests() -> Vec<Generated> {
    vec![function_table(), function_pointer()]
}

const PROTOTYPE: &str = "PROTOTYPE: .callprototype (.param .b32 _) _ (.param .b32 _);\n";

fn indirect_call(target: &str) -> String {
    format!(
        "{PROTOTYPE}
         {{
         .param .b32 argument;
         .param .b32 result;
         st.param.b32 [argument], %r1;
         call (result), {target}, (argument), PROTOTYPE;
         ld.param.b32 %r0, [result];
         }}"
    )
}

fn four_functions() -> String {
    [("f0", "add.u32 %r0, %r1, 5;"), ("f1", "mul.lo.u32 %r0, %r1, 9;"), ("f2", "not.b32 %r0, %r1;"), ("f3", "shl.b32 %r0, %r1, 2;")]
        .map(|(name, text)| function(name, text))
        .concat()
}

fn four_meanings(which: u32, x: u32) -> u32 {
    match which {
        0 => x.wrapping_add(5),
        1 => x.wrapping_mul(9),
        2 => !x,
        _ => x << 2,
    }
}

fn function_table() -> Generated {
    let module = four_functions() + ".global .align 8 .u64 table[4] = {f0, f1, f2, f3};";
    let body = format!(
        "mov.u64 %rd1, table;
         and.b32 %r2, %i, 3;
         mad.wide.u32 %rd2, %r2, 8, %rd1;
         ld.global.u64 %rd3, [%rd2];
         {}",
        indirect_call("%rd3")
    );
    test("function_table", "indirect calls through a table, lanes call different functions", &module, &body, |i, x| four_meanings(i & 3, x))
        .finish()
}

fn function_pointer() -> Generated {
    let body = format!(
        "mov.u64 %rd1, f1;
         mov.u64 %rd2, f2;
         setp.lt.s32 %p1, %r1, 0;
         selp.b64 %rd3, %rd1, %rd2, %p1;
         {}",
        indirect_call("%rd3")
    );
    test("function_pointer", "one of two addresses of functions", &four_functions(), &body, |_, x| {
        four_meanings(if (x as i32) < 0 { 1 } else { 2 }, x)
    })
    .finish()
}
