//! Generates tests of calls: parameters of every type, structures, recursion, indirect calls, functions of the driver, `alloca`.

mod indirect;
mod system;

use crate::kernel::{Generated, Kernel, bits, load, store};
use crate::ty::{F32, F64, S32, S64, Ty, U32, U64};
use oriole_kernel_test::{Fill, Source};
use oriole_sem::Mode;
use oriole_sem::float;

const FAMILY: &str = "calls";
const THREADS: usize = 64;

pub fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    for ty in [U32, S32, U64, S64, F32, F64] {
        tests.push(identity(ty));
    }
    tests.extend([several_parameters(), structure(), two_level(), divergent_call(), call_in_loop(), many_live()]);
    tests.extend([factorial(), recursive_fibonacci(), mutual_recursion()]);
    tests.extend([register_arguments(), pointer_argument(), stack_array(), alloca(), predicate_result(), float_result()]);
    tests.extend(indirect::tests());
    tests.extend(system::tests());
    tests
}

fn input() -> (Fill, Vec<u32>) {
    let fill = Fill::of(&[(Source::Boundary { stride: 1 }, 22), (Source::Random { seed: 61 }, THREADS - 22)]);
    let values = fill.values(U32.element, THREADS).into_iter().map(|x| x as u32).collect();
    (fill, values)
}

/// Creates a test whose body reads the input from `%r1` and leaves the result in `%r0`.
fn test(name: &str, about: &str, module: &str, body: &str, meaning: impl Fn(u32, u32) -> u32) -> Kernel {
    let (fill, values) = input();
    Kernel::new(FAMILY, name, about)
        .threads(THREADS)
        .module(module)
        .buffer("a", U32, THREADS, fill)
        .output("d", U32, bits(values.iter().enumerate().map(|(i, &x)| u64::from(meaning(i as u32, x)))))
        .body(&load(U32, "%r1", "a"))
        .body(body)
        .body(&store(U32, "%r0", "d"))
}

/// Passes a value to a function and back. Floats are unchanged; integers are incremented by one.
fn identity(ty: Ty) -> Generated {
    let fill = Fill::all(Source::Random { seed: 5 });
    let values = fill.values(ty.element, THREADS);
    let passed = |x: u64| if ty.is_float() { x } else { x.wrapping_add(1) & ty.mask() };
    let (t, register) = (ty.memory, ty.register);
    let step = match (ty.is_float(), ty.bits()) {
        (true, _) => String::new(),
        (false, _) => format!("add.{register} %v, %v, 1;"),
    };
    Kernel::new(FAMILY, format!("pass_{t}"), format!("a .{t} parameter and a .{t} result"))
        .threads(THREADS)
        .module(&format!(
            ".func (.param .{t} result) pass(.param .{t} argument)\n{{\n    .reg .{register} %v;\n    ld.param.{t} %v, [argument];\n    {step}\n    st.param.{t} [result], %v;\n    ret;\n}}"
        ))
        .registers(&format!(".reg .{register} %v;"))
        .buffer("a", ty, THREADS, fill)
        .output("d", ty, bits(values.into_iter().map(passed)))
        .body(&load(ty, "%v", "a"))
        .body(&format!(
            "{{
             .param .{t} argument;
             .param .{t} result;
             st.param.{t} [argument], %v;
             call.uni (result), pass, (argument);
             ld.param.{t} %v, [result];
             }}"
        ))
        .body(&store(ty, "%v", "d"))
        .finish()
}

const CALL_ONE: &str = "
    {
    .param .b32 sent;
    .param .b32 back;
    st.param.b32 [sent], %r1;
    call (back), NAME, (sent);
    ld.param.b32 %r0, [back];
    }
";

fn call_one(name: &str) -> String {
    CALL_ONE.replace("NAME", name)
}

fn several_parameters() -> Generated {
    let module = ".func (.param .b32 result) mix(.param .b32 p0, .param .b64 p1, .param .b8 p2, .param .f32 p3, .param .b16 p4)
{
    .reg .b32 %r<8>;
    .reg .b64 %rd<2>;
    .reg .b16 %h<2>;
    .reg .f32 %f<2>;
    ld.param.b32 %r1, [p0];
    ld.param.b64 %rd1, [p1];
    ld.param.u8 %r2, [p2];
    ld.param.f32 %f1, [p3];
    ld.param.b16 %h1, [p4];
    cvt.u32.u64 %r3, %rd1;
    cvt.rzi.u32.f32 %r4, %f1;
    cvt.u32.u16 %r5, %h1;
    mad.lo.u32 %r1, %r1, 3, %r3;
    mad.lo.u32 %r1, %r1, 3, %r2;
    mad.lo.u32 %r1, %r1, 3, %r4;
    mad.lo.u32 %r1, %r1, 3, %r5;
    st.param.b32 [result], %r1;
    ret;
}";
    let body = "cvt.u64.u32 %rd1, %r1;
        mul.lo.u64 %rd1, %rd1, 5;
        cvt.u16.u32 %h1, %r1;
        {
        .param .b32 q0;
        .param .b64 q1;
        .param .b8 q2;
        .param .f32 q3;
        .param .b16 q4;
        .param .b32 back;
        st.param.b32 [q0], %r1;
        st.param.b64 [q1], %rd1;
        st.param.b8 [q2], %h1;
        st.param.f32 [q3], 0f42280000;
        st.param.b16 [q4], %h1;
        call.uni (back), mix, (q0, q1, q2, q3, q4);
        ld.param.b32 %r0, [back];
        }";
    test("several_parameters", "parameters of different sizes in one call", module, body, |_, x| {
        [x.wrapping_mul(5), x & 0xff, 42, x & 0xffff].iter().fold(x, |y, z| y.wrapping_mul(3).wrapping_add(*z))
    })
    .finish()
}

fn structure() -> Generated {
    let module = ".func (.param .align 8 .b8 result[24]) turn(.param .align 8 .b8 argument[24])
{
    .reg .b32 %r<5>;
    .reg .b64 %rd<3>;
    ld.param.b32 %r1, [argument];
    ld.param.b32 %r2, [argument+4];
    ld.param.b64 %rd1, [argument+8];
    ld.param.v2.b32 {%r3, %r4}, [argument+16];
    st.param.b32 [result], %r4;
    st.param.b32 [result+4], %r3;
    add.u64 %rd2, %rd1, 9;
    st.param.b64 [result+8], %rd2;
    st.param.v2.b32 [result+16], {%r2, %r1};
    ret;
}";
    let body = "add.u32 %r2, %r1, 1;
        cvt.u64.u32 %rd1, %r1;
        add.u32 %r3, %r1, 2;
        add.u32 %r4, %r1, 3;
        {
        .param .align 8 .b8 q[24];
        .param .align 8 .b8 back[24];
        st.param.b32 [q], %r1;
        st.param.b32 [q+4], %r2;
        st.param.b64 [q+8], %rd1;
        st.param.v2.b32 [q+16], {%r3, %r4};
        call.uni (back), turn, (q);
        ld.param.v2.b32 {%r5, %r6}, [back];
        ld.param.b64 %rd2, [back+8];
        ld.param.b32 %r7, [back+16];
        ld.param.b32 %r8, [back+20];
        }
        cvt.u32.u64 %r9, %rd2;
        mad.lo.u32 %r0, %r5, 3, %r6;
        mad.lo.u32 %r0, %r0, 3, %r9;
        mad.lo.u32 %r0, %r0, 3, %r7;
        mad.lo.u32 %r0, %r0, 3, %r8;";
    test("structure_by_value", "a structure of 24 bytes in, another out", module, body, |_, x| {
        [x.wrapping_add(2), x.wrapping_add(9), x.wrapping_add(1), x]
            .iter()
            .fold(x.wrapping_add(3), |y, z| y.wrapping_mul(3).wrapping_add(*z))
    })
    .finish()
}

/// Returns a function of one word: `text` computes `%r0` from `%r1`.
fn function(name: &str, text: &str) -> String {
    format!(
        ".func (.param .b32 result) {name}(.param .b32 argument)\n{{\n    .reg .b32 %r<10>;\n    .reg .pred %p<4>;\n    ld.param.b32 %r1, [argument];\n    {}\n    st.param.b32 [result], %r0;\n    ret;\n}}\n",
        text.trim()
    )
}

fn two_level() -> Generated {
    let inner = function("inner", "mad.lo.u32 %r0, %r1, 7, 3;");
    let outer = function("outer", &format!("add.u32 %r1, %r1, 1;\n{}\nxor.b32 %r0, %r0, %r1;", call_one("inner")));
    test("two_levels", "a function that calls another and needs its own value afterwards", &(inner + &outer), &call_one("outer"), |_, x| {
        let y = x.wrapping_add(1);
        y.wrapping_mul(7).wrapping_add(3) ^ y
    })
    .finish()
}

fn divergent_call() -> Generated {
    let module = function("triple", "mul.lo.u32 %r0, %r1, 3;") + &function("half", "shr.u32 %r0, %r1, 1;");
    let body = format!(
        "and.b32 %r2, %r1, 1;
         setp.eq.u32 %p1, %r2, 0;
         @%p1 bra EVEN;
         {}
         bra END;
         EVEN:
         {}
         END:
         add.u32 %r0, %r0, %i;",
        call_one("triple"),
        call_one("half")
    );
    test("divergent_calls", "lanes of a warp call different functions", &module, &body, |i, x| {
        (if x & 1 == 0 { x >> 1 } else { x.wrapping_mul(3) }).wrapping_add(i)
    })
    .finish()
}

fn call_in_loop() -> Generated {
    let module = function("step", "mad.lo.u32 %r0, %r1, 1664525, 1013904223;");
    let body = format!(
        "and.b32 %r2, %i, 7;
         mov.u32 %r3, 0;
         mov.u32 %r0, %r1;
         NEXT:
         setp.ge.u32 %p1, %r3, %r2;
         @%p1 bra END;
         {}
         mov.u32 %r1, %r0;
         add.u32 %r3, %r3, 1;
         bra NEXT;
         END:",
        call_one("step")
    );
    test("call_in_loop", "a call in a loop that lanes leave at different times", &module, &body, |i, x| {
        (0..i & 7).fold(x, |y, _| y.wrapping_mul(1_664_525).wrapping_add(1_013_904_223))
    })
    .finish()
}

/// Many values are live across a call.
fn many_live() -> Generated {
    let module = function("double", "add.u32 %r0, %r1, %r1;");
    let mut body = String::new();
    for k in 10..50 {
        body.push_str(&format!("mad.lo.u32 %r{k}, %r1, {k}, {};\n", k * k));
    }
    body.push_str(&call_one("double"));
    for k in 10..50 {
        body.push_str(&format!("mad.lo.u32 %r0, %r0, 3, %r{k};\n"));
    }
    test("live_across_call", "forty values survive a call", &module, &body, |_, x| {
        (10..50u32).fold(x.wrapping_add(x), |y, k| y.wrapping_mul(3).wrapping_add(x.wrapping_mul(k).wrapping_add(k * k)))
    })
    .finish()
}

fn factorial() -> Generated {
    let module = ".func (.param .b32 result) factorial(.param .b32 argument)
{
    .reg .b32 %r<6>;
    .reg .pred %p<2>;
    ld.param.b32 %r1, [argument];
    setp.gt.u32 %p1, %r1, 1;
    @%p1 bra MORE;
    st.param.b32 [result], 1;
    ret;
MORE:
    sub.u32 %r2, %r1, 1;
    {
    .param .b32 next;
    .param .b32 back;
    st.param.b32 [next], %r2;
    call (back), factorial, (next);
    ld.param.b32 %r3, [back];
    }
    mul.lo.u32 %r4, %r3, %r1;
    st.param.b32 [result], %r4;
    ret;
}";
    let body = format!("and.b32 %r1, %i, 15;\n{}", call_one("factorial"));
    test("recursion_factorial", "each lane recurses to another depth", module, &body, |i, _| (1..=i & 15).fold(1u32, u32::wrapping_mul))
        .finish()
}

fn recursive_fibonacci() -> Generated {
    let call = |from: &str, to: &str| {
        format!(
            "{{
             .param .b32 next;
             .param .b32 back;
             st.param.b32 [next], {from};
             call (back), fibonacci, (next);
             ld.param.b32 {to}, [back];
             }}"
        )
    };
    let text = format!(
        "mov.u32 %r0, %r1;
         setp.lt.u32 %p1, %r1, 2;
         @%p1 bra END;
         sub.u32 %r2, %r1, 1;
         {}
         sub.u32 %r4, %r1, 2;
         {}
         add.u32 %r0, %r3, %r5;
         END:",
        call("%r2", "%r3"),
        call("%r4", "%r5")
    );
    let body = format!("rem.u32 %r1, %i, 12;\n{}", call_one("fibonacci"));
    let fibonacci = |n: u32| (0..n).fold((0u32, 1u32), |(a, b), _| (b, a + b)).0;
    test("recursion_fibonacci", "two recursive calls in one function", &function("fibonacci", &text), &body, move |i, _| fibonacci(i % 12))
        .finish()
}

fn mutual_recursion() -> Generated {
    let member = |other: &str, at_zero: u32| {
        format!(
            "mov.u32 %r0, {at_zero};
             setp.eq.u32 %p1, %r1, 0;
             @%p1 bra END;
             sub.u32 %r1, %r1, 1;
             {}
             END:",
            call_one(other)
        )
    };
    let module = format!(
        ".func (.param .b32 result) is_odd(.param .b32 argument);\n{}{}",
        function("is_even", &member("is_odd", 1)),
        function("is_odd", &member("is_even", 0))
    );
    let body = format!("and.b32 %r1, %i, 31;\n{}", call_one("is_even"));
    test("recursion_mutual", "two functions that call each other", &module, &body, |i, _| u32::from(i & 1 == 0)).finish()
}

/// Parameters and results are declared as registers.
fn register_arguments() -> Generated {
    let module = ".func (.reg .b32 %result) sum3(.reg .b32 %x, .reg .b32 %y, .reg .b32 %z)
{
    add.u32 %result, %x, %y;
    mad.lo.u32 %result, %result, 3, %z;
    ret;
}";
    let body = "call (%r0), sum3, (%r1, %i, 17);";
    test("register_arguments", "arguments and result in registers, one of them a constant", module, body, |i, x| {
        x.wrapping_add(i).wrapping_mul(3).wrapping_add(17)
    })
    .finish()
}

/// The generic address of a local variable is passed to a function that writes through it.
fn pointer_argument() -> Generated {
    let module = ".func fill(.param .b64 pointer, .param .b32 value)
{
    .reg .b64 %rd<2>;
    .reg .b32 %r<3>;
    ld.param.b64 %rd1, [pointer];
    ld.param.b32 %r1, [value];
    st.u32 [%rd1], %r1;
    not.b32 %r2, %r1;
    st.u32 [%rd1+4], %r2;
    ret;
}";
    let body = "mov.u64 %rd1, area;
        cvta.local.u64 %rd1, %rd1;
        {
        .param .b64 q0;
        .param .b32 q1;
        st.param.b64 [q0], %rd1;
        st.param.b32 [q1], %r1;
        call.uni fill, (q0, q1);
        }
        ld.u32 %r2, [%rd1];
        ld.u32 %r3, [%rd1+4];
        mad.lo.u32 %r0, %r2, 3, %r3;";
    test("pointer_argument", "a function writes through a pointer to a local variable", module, body, |_, x| {
        x.wrapping_mul(3).wrapping_add(!x)
    })
    .registers(".local .align 8 .b8 area[16];")
    .finish()
}

/// Every level of a recursion has its own array.
fn stack_array() -> Generated {
    let text = "
    .local .align 4 .b8 area[32];
    .reg .b64 %rd<4>;
    mov.u64 %rd1, area;
    and.b32 %r2, %r1, 7;
    mad.wide.u32 %rd2, %r2, 4, %rd1;
    st.local.u32 [%rd2], %r1;
    mov.u32 %r0, 0;
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra END;
    sub.u32 %r3, %r1, 1;
    {
    .param .b32 next;
    .param .b32 back;
    st.param.b32 [next], %r3;
    call (back), down, (next);
    ld.param.b32 %r0, [back];
    }
    END:
    ld.local.u32 %r4, [%rd2];
    mad.lo.u32 %r0, %r0, 3, %r4;";
    let body = format!("and.b32 %r1, %i, 15;\n{}", call_one("down"));
    test("recursion_with_array", "local arrays of all active calls are distinct", &function("down", text), &body, |i, _| {
        (0..=i & 15).fold(0u32, |y, n| y.wrapping_mul(3).wrapping_add(n))
    })
    .finish()
}

fn alloca() -> Generated {
    let body = "and.b32 %r2, %i, 3;
        add.u32 %r2, %r2, 1;
        mul.wide.u32 %rd1, %r2, 16;
        stacksave.u64 %rd5;
        alloca.u64 %rd2, %rd1, 16;
        mov.u32 %r3, 0;
        FILL:
        mad.wide.u32 %rd3, %r3, 4, %rd2;
        add.u32 %r4, %r1, %r3;
        st.local.u32 [%rd3], %r4;
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %r3, %r2;
        @%p1 bra FILL;
        mov.u32 %r0, 0;
        mov.u32 %r3, 0;
        SUM:
        mad.wide.u32 %rd3, %r3, 4, %rd2;
        ld.local.u32 %r4, [%rd3];
        mad.lo.u32 %r0, %r0, 3, %r4;
        add.u32 %r3, %r3, 1;
        setp.lt.u32 %p1, %r3, %r2;
        @%p1 bra SUM;
        stackrestore.u64 %rd5;";
    test("alloca", "memory on the stack whose size the thread decides", "", body, |i, x| {
        (0..=i & 3).fold(0u32, |y, n| y.wrapping_mul(3).wrapping_add(x.wrapping_add(n)))
    })
    .platform("7.3", "sm_75")
    .finish()
}

fn predicate_result() -> Generated {
    let module = function("is_big", "setp.gt.u32 %p1, %r1, 0x10000;\nselp.u32 %r0, 1, 0, %p1;");
    let body = format!(
        "setp.ne.u32 %p2, %r1, 3;
         mov.u32 %r0, 77;
         @!%p2 bra END;
         {}
         END:",
        call_one("is_big")
    );
    test("guarded_call", "a call that some lanes skip", &module, &body, |_, x| if x == 3 { 77 } else { u32::from(x > 0x10000) }).finish()
}

fn float_result() -> Generated {
    let fill = Fill::all(Source::Sized { seed: 12 });
    let values = fill.values(F64.element, THREADS);
    let format = F64.format();
    let square = move |x: u64| float::fma(format, x, x, float::div(format, format.one(), x, Mode::RN), Mode::RN);
    Kernel::new(FAMILY, "f64_function", "a function of a double that divides")
        .threads(THREADS)
        .module(
            ".func (.param .f64 result) curve(.param .f64 argument)
{
    .reg .f64 %fd<4>;
    ld.param.f64 %fd1, [argument];
    rcp.rn.f64 %fd2, %fd1;
    fma.rn.f64 %fd3, %fd1, %fd1, %fd2;
    st.param.f64 [result], %fd3;
    ret;
}",
        )
        .buffer("a", F64, THREADS, fill)
        .output("d", F64, bits(values.into_iter().map(square)))
        .body(&load(F64, "%fd1", "a"))
        .body(
            "{
             .param .f64 argument;
             .param .f64 result;
             st.param.f64 [argument], %fd1;
             call.uni (result), curve, (argument);
             ld.param.f64 %fd2, [result];
             }",
        )
        .body(&store(F64, "%fd2", "d"))
        .finish()
}
