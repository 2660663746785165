//! Generates tests of control flow that no `if` or `while` expresses: jumps into other branches, jump tables, early exits.

use super::{FAMILY, test};
use crate::kernel::{Generated, Kernel, bits};
use crate::ty::U32;

pub(super) fn tests() -> Vec<Generated> {
    let mut tests = Vec::new();
    tests.extend(jumps());
    tests.extend(jump_tables());
    tests.extend(endings());
    tests
}

fn jumps() -> Vec<Generated> {
    vec![
        test(
            "jump_into_other_arm",
            "one arm jumps into the middle of the other",
            "mov.u32 %r0, 0;
             and.b32 %r2, %r1, 3;
             setp.eq.u32 %p1, %r2, 0;
             setp.eq.u32 %p2, %r2, 1;
             @%p1 bra A;
             add.u32 %r0, %r0, 1;
             @%p2 bra MIDDLE;
             add.u32 %r0, %r0, 10;
             bra END;
             A:
             add.u32 %r0, %r0, 100;
             MIDDLE:
             mad.lo.u32 %r0, %r0, 7, %r1;
             END:
             add.u32 %r0, %r0, 3;",
            |_, x| {
                let y = match x & 3 {
                    0 => 700u32.wrapping_add(x),
                    1 => 7u32.wrapping_add(x),
                    _ => 11,
                };
                y.wrapping_add(3)
            },
        ),
        test(
            "irreducible_loop",
            "a loop with two entries",
            "mov.u32 %r0, %r1;
             mov.u32 %r2, 0;
             and.b32 %r3, %r1, 1;
             setp.ne.u32 %p1, %r3, 0;
             @%p1 bra SECOND;
             FIRST:
             mad.lo.u32 %r0, %r0, 3, 1;
             add.u32 %r2, %r2, 1;
             SECOND:
             xor.b32 %r0, %r0, 0x1234;
             add.u32 %r2, %r2, 1;
             setp.lt.u32 %p2, %r2, 11;
             @%p2 bra FIRST;",
            |_, x| {
                let (mut y, mut n, mut skip) = (x, 0, x & 1 != 0);
                loop {
                    if !skip {
                        y = y.wrapping_mul(3).wrapping_add(1);
                        n += 1;
                    }
                    skip = false;
                    y ^= 0x1234;
                    n += 1;
                    if n >= 11 {
                        return y;
                    }
                }
            },
        ),
        test(
            "state_machine",
            "jumps between states, each lane on its own path",
            "mov.u32 %r0, 0;
             mov.u32 %r2, 0;
             STATE_A:
             add.u32 %r2, %r2, 1;
             setp.gt.u32 %p1, %r2, 12;
             @%p1 bra END;
             shr.u32 %r3, %r1, %r2;
             and.b32 %r3, %r3, 1;
             setp.ne.u32 %p2, %r3, 0;
             @%p2 bra STATE_C;
             STATE_B:
             mad.lo.u32 %r0, %r0, 2, 1;
             and.b32 %r3, %r0, 4;
             setp.ne.u32 %p3, %r3, 0;
             @%p3 bra STATE_A;
             STATE_C:
             mad.lo.u32 %r0, %r0, 3, 2;
             add.u32 %r2, %r2, 1;
             and.b32 %r3, %r0, 8;
             setp.ne.u32 %p3, %r3, 0;
             setp.lt.u32 %p4, %r2, 12;
             and.pred %p3, %p3, %p4;
             @%p3 bra STATE_B;
             bra STATE_A;
             END:",
            |_, x| {
                let (mut y, mut n, mut state) = (0u32, 0u32, 'a');
                loop {
                    match state {
                        'a' => {
                            n += 1;
                            if n > 12 {
                                return y;
                            }
                            state = if x.checked_shr(n).unwrap_or(0) & 1 != 0 { 'c' } else { 'b' };
                        }
                        'b' => {
                            y = y.wrapping_mul(2).wrapping_add(1);
                            state = if y & 4 != 0 { 'a' } else { 'c' };
                        }
                        _ => {
                            y = y.wrapping_mul(3).wrapping_add(2);
                            n += 1;
                            state = if y & 8 != 0 && n < 12 { 'b' } else { 'a' };
                        }
                    }
                }
            },
        ),
    ]
}

fn jump_tables() -> Vec<Generated> {
    let cases = |labels: usize, last: &str| {
        let names: Vec<String> = (0..labels).map(|n| format!("L{n}")).collect();
        let mut text = format!("TABLE: .branchtargets {};\n", names.join(", "));
        text.push_str(last);
        for n in 0..labels {
            text.push_str(&format!("L{n}:\nmad.lo.u32 %r0, %r1, {}, {n};\nbra END;\n", 2 * n + 3));
        }
        text + "END:"
    };
    let result = |n: u32, x: u32| x.wrapping_mul(2 * n + 3).wrapping_add(n);
    vec![
        test(
            "brx_idx",
            "brx.idx, each lane another case",
            &format!("and.b32 %r2, %i, 7;\n{}", cases(8, "brx.idx %r2, TABLE;\n")),
            move |i, x| result(i & 7, x),
        ),
        test(
            "brx_idx_uniform",
            "brx.idx.uni, the case is the warp's number",
            &format!("shr.u32 %r2, %i, 5;\n{}", cases(8, "brx.idx.uni %r2, TABLE;\n")),
            move |i, x| result(i >> 5, x),
        ),
        test(
            "brx_idx_guarded",
            "brx.idx under a predicate",
            &format!(
                "and.b32 %r2, %i, 15;\nsetp.lt.u32 %p1, %r2, 12;\nmov.u32 %r0, 99;\n{}",
                cases(12, "@%p1 brx.idx %r2, TABLE;\nbra END;\n")
            ),
            move |i, x| if i & 15 < 12 { result(i & 15, x) } else { 99 },
        ),
        test(
            "brx_idx_fall_through",
            "cases that run into the next one",
            "and.b32 %r2, %i, 3;
             mov.u32 %r0, 0;
             TABLE: .branchtargets L0, L1, L2, L1;
             brx.idx %r2, TABLE;
             L0:
             add.u32 %r0, %r0, 1;
             L1:
             add.u32 %r0, %r0, 10;
             L2:
             add.u32 %r0, %r0, %r1;",
            |i, x| x.wrapping_add([11, 10, 0, 10][i as usize & 3]),
        ),
    ]
}

/// Generates tests in which threads end early; their outputs stay zero.
fn endings() -> Vec<Generated> {
    let early = |name: &str, how: &str| {
        test(
            name,
            "some threads end before the others",
            &format!("setp.lt.u32 %p1, %r1, 100;\n@%p1 {how};\nadd.u32 %r0, %r1, 1;"),
            |_, x| if x < 100 { 0 } else { x.wrapping_add(1) },
        )
    };
    let exits_in_loop = test(
        "exit_in_loop",
        "threads leave the program from inside a loop",
        "mov.u32 %r0, %r1;
         mov.u32 %r2, 0;
         NEXT:
         and.b32 %r3, %r0, 15;
         setp.eq.u32 %p1, %r3, 9;
         @%p1 exit;
         mad.lo.u32 %r0, %r0, 3, 4;
         add.u32 %r2, %r2, 1;
         setp.lt.u32 %p2, %r2, 8;
         @%p2 bra NEXT;",
        |_, x| {
            let mut y = x;
            for _ in 0..8 {
                if y & 15 == 9 {
                    return 0;
                }
                y = y.wrapping_mul(3).wrapping_add(4);
            }
            y
        },
    );
    let empty =
        Kernel::new(FAMILY, "empty", "a kernel that does nothing").threads(32).output("d", U32, bits(vec![0; 32])).body("ret;").finish();
    let never = test(
        "trap_never_taken",
        "trap and brkpt that no thread reaches",
        "setp.gt.u32 %p1, %i, 100000;
         @%p1 trap;
         @%p1 brkpt;
         not.b32 %r0, %r1;",
        |_, x| !x,
    );
    vec![early("early_ret", "ret"), early("early_exit", "exit"), exits_in_loop, empty, never]
}
