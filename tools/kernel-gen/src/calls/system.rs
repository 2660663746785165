//! Generates tests of calls of functions that the CUDA driver provides: `malloc`, `free`, `vprintf`, `__assertfail`.

use super::test;
use crate::kernel::Generated;

pub(super) fn tests() -> Vec<Generated> {
    vec![heap(), printing(), assertion()]
}

fn heap() -> Generated {
    let module = ".extern .func (.param .b64 result) malloc(.param .b64 size);\n.extern .func free(.param .b64 pointer);";
    let body = "{
        .param .b64 size;
        .param .b64 back;
        st.param.b64 [size], 64;
        call.uni (back), malloc, (size);
        ld.param.b64 %rd1, [back];
        }
        mov.u32 %r0, 0;
        setp.eq.u64 %p1, %rd1, 0;
        @%p1 bra END;
        st.u32 [%rd1+60], %r1;
        ld.volatile.u32 %r2, [%rd1+60];
        add.u32 %r0, %r2, 1;
        {
        .param .b64 pointer;
        st.param.b64 [pointer], %rd1;
        call.uni free, (pointer);
        }
        END:";
    test("malloc_and_free", "the driver's heap", module, body, |_, x| x.wrapping_add(1)).finish()
}

/// The printed text is not checked; the call must not change anything else.
fn printing() -> Generated {
    let module = ".extern .func (.param .b32 result) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 format[13] = {107, 101, 114, 110, 101, 108, 58, 32, 37, 117, 10, 0, 0};";
    let body = "mov.u32 %r0, %r1;
        setp.ne.u32 %p1, %i, 5;
        @%p1 bra END;
        mov.u64 %rd1, area;
        st.local.u32 [%rd1], %r1;
        cvta.local.u64 %rd2, %rd1;
        mov.u64 %rd3, format;
        cvta.global.u64 %rd4, %rd3;
        {
        .param .b64 q0;
        .param .b64 q1;
        .param .b32 back;
        st.param.b64 [q0], %rd4;
        st.param.b64 [q1], %rd2;
        call (back), vprintf, (q0, q1);
        ld.param.b32 %r2, [back];
        }
        ld.local.u32 %r0, [%rd1];
        END:";
    test("printing", "vprintf: one thread prints its input", module, body, |_, x| x).registers(".local .align 8 .b8 area[8];").finish()
}

fn assertion() -> Generated {
    let module =
        ".extern .func __assertfail(.param .b64 message, .param .b64 file, .param .b32 line, .param .b64 function, .param .b64 size);
.global .align 1 .b8 text[2] = {120, 0};";
    let body = "setp.lt.u32 %p1, %i, 1000;
        @%p1 bra FINE;
        mov.u64 %rd1, text;
        cvta.global.u64 %rd2, %rd1;
        {
        .param .b64 q0;
        .param .b64 q1;
        .param .b32 q2;
        .param .b64 q3;
        .param .b64 q4;
        st.param.b64 [q0], %rd2;
        st.param.b64 [q1], %rd2;
        st.param.b32 [q2], 7;
        st.param.b64 [q3], %rd2;
        st.param.b64 [q4], 1;
        call.uni __assertfail, (q0, q1, q2, q3, q4);
        }
        FINE:
        add.u32 %r0, %r1, 3;";
    test("assertfail_not_reached", "an assertion that holds", module, body, |_, x| x.wrapping_add(3)).finish()
}
