//! Tests of the counts that the unroller returns. `filetests/unroll` has the code that it makes.

use oriole_hardware::Hardware;
use oriole_ir::{Target, text};
use oriole_opt::unroll::run;

/// A loop of three iterations is counted as fully unrolled; a loop with an unknown number of iterations as partially unrolled.
#[test]
fn statistics_count_full_and_partial_unrolling() {
    let counted = |limit: &str| {
        let text = format!(
            "func kernel @k ssa {{
bb0:
    %0:R, %1:R = ENTRY
    %2:R = MOV 0x0
    BRA bb1
bb1:
    %3:R = PHI %2, bb0, %5, bb1
    %4:R = PHI %0, bb0, %6, bb1
    %6:R = IMAD %4, %1, %3
    %5:R, PT, PT = IADD3 %3, 0x1, RZ
    %7:P, PT = ISETP.LT.AND %5, {limit}, PT
    @%7 BRA bb1
    BRA bb2
bb2:
    KEEP %6
    EXIT
}}"
        );
        let mut function = text::parse(&text).unwrap().remove(0);
        let stats = run(&mut function, &Hardware::built_in(Target::parse("sm_90a").unwrap()));
        (stats.fully_unrolled, stats.partially_unrolled)
    };
    assert_eq!(counted("0x3"), (1, 0));
    assert_eq!(counted("c[0x0][0x210]"), (0, 1));
}
