//! Tests of the rules of `simplify`: test programs, at least one for each rule, are interpreted before and after the pass.
//!
//! Shifts are compared for all distances; sums, products and logic operations on the limits of the number range and on words with all bits
//! in use. The interpreter is that of the tests of `combine`, which shares no code with the pass.

use oriole_ir::text;

use oriole_opt::legalize::EncodabilityCache;
use oriole_opt::simplify::{SimplifyRule, Stats, run};

use crate::combine_rules::{WORDS, interpret, parse, target};
use crate::proofs::Pairs;

/// Four words with all 16 combinations of bits.
const LOGIC_WORDS: [u32; 4] = [0xff00_ff00, 0xf0f0_f0f0, 0xcccc_cccc, 0xaaaa_aaaa];

/// Runs the pass and compares the kept words for all choices of two inputs. Returns the statistics of the pass.
fn check(body: &str, kept: &str, pairs: &mut Pairs) -> Stats {
    let function = parse(2, body, kept);
    let mut after = function.clone();
    let stats = run(&mut after, &mut EncodabilityCache::new(target()));
    pairs.add(&function, &after);
    for inputs in WORDS.iter().chain(&LOGIC_WORDS).flat_map(|&a| WORDS.iter().chain(&LOGIC_WORDS).map(move |&b| [a, b])) {
        let (before, after_words) = (interpret(&function, &inputs), interpret(&after, &inputs));
        assert_eq!(before, after_words, "{inputs:x?}\n{}\n{}", text::print(&function), text::print(&after));
    }
    stats
}

/// Every rule is applied to at least one program, and no result changes.
#[test]
fn every_rule_is_applied_and_keeps_results() {
    let mut applied = [0; SimplifyRule::ALL.len()];
    let mut pairs = Pairs::default();
    let mut note = |body: &str, kept: &str| {
        let stats = check(body, kept, &mut pairs);
        applied.iter_mut().zip(stats.applied).for_each(|(sum, count)| *sum += count);
    };
    for distance in 0..=65 {
        for (modifiers, sources) in [
            ("L.U32", ["%0, #, RZ", "RZ, #, RZ", "%0, #, %1"].as_slice()),
            ("L.U64.HI", &["%0, #, %1", "RZ, #, %1", "%0, #, RZ"]),
            ("R.U64", &["%0, #, %1", "%0, #, RZ", "RZ, #, %1"]),
            ("R.S64", &["%0, #, %1", "%0, #, RZ", "RZ, #, %1"]),
            ("R.U32.HI", &["RZ, #, %1", "%0, #, %1", "RZ, #, RZ"]),
            ("R.S32.HI", &["RZ, #, %1", "%0, #, %1", "RZ, #, RZ"]),
        ] {
            for sources in sources {
                note(&format!("%2:R = SHF.{modifiers} {}", sources.replace('#', &distance.to_string())), "%2");
            }
        }
        // Shifts of a 64-bit number to the left by `distance` and to the right by `complement`. They form a rotation only if the sum of
        // both is 64; 63 is a shift count with which they rarely do.
        for complement in [64_u32.saturating_sub(distance), 63] {
            let shifts = format!(
                "%2:R = SHF.L.U32 %0, {distance}, RZ\n%3:R = SHF.L.U64.HI %0, {distance}, %1\n\
                 %4:R = SHF.R.U64 %0, {complement}, %1\n%5:R = SHF.R.U32.HI RZ, {complement}, %1\n"
            );
            for join in [
                "%6:R, %7:P, PT = IADD3 %2, %4, RZ\n%8:R, PT, PT = IADD3.X %3, %5, RZ, %7, !PT",
                "%6:R = LOP3.LUT %2, %4, RZ, 0xfc, !PT\n%8:R = LOP3.LUT %3, %5, RZ, 0x3c, !PT",
                "%6:R = LOP3.LUT %2, RZ, %4, 0xfa, !PT\n%8:R = LOP3.LUT RZ, %3, %5, 0x66, !PT",
                "%6:R = LOP3.LUT %2, RZ, %4, 0xa0, !PT\n%8:R = LOP3.LUT %3, %5, RZ, 0x30, !PT",
            ] {
                note(&format!("{shifts}{join}"), "%6, %8");
            }
        }
    }
    for sources in ["%0, RZ, %1", "RZ, %0, %1", "%0, 0x0, 0x5", "RZ, RZ, RZ", "%0, %1, RZ", "%0, 0x1, %1"] {
        note(&format!("%2:R = IMAD {sources}"), "%2");
    }
    for table in 0..=255 {
        for sources in ["%0, -1, RZ", "%0, RZ, %1", "RZ, %0, %0", "%0, %1, %0", "-1, RZ, %1", "RZ, RZ, RZ"] {
            note(&format!("%3:R = MOV -1\n%2:R = LOP3.LUT {}, {table:#x}, !PT", sources.replace("-1", "%3")), "%2");
        }
    }
    for sources in ["%0, RZ, RZ", "RZ, RZ, %1", "RZ, RZ, RZ", "%0, %1, RZ", "%0, RZ, 0x1", "-%0, RZ, RZ"] {
        note(&format!("%2:R, %3:P, %4:P = IADD3 {sources}\n%5:R, PT, PT = IADD3.X %0, RZ, RZ, %3, %4"), "%2, %5");
    }
    for sources in ["%0, %0", "RZ, 0x0", "%3, 0x7", "%0, %1", "0x7, %0"] {
        for predicate in ["%2", "!%2", "PT", "!PT"] {
            let compare = "%2:P, PT = ISETP.LT.AND %0, %1, PT\n%3:R = MOV 0x7";
            note(&format!("{compare}\n%4:R = SEL {sources}, {predicate}"), "%4");
        }
    }
    for first in [0x7770, 0x7710, 0x7732, 0x3340, 0x0123, 0x5410, 0x7654, 0x9910, 0x7777] {
        for second in [0x7771, 0x3210, 0x3340, 0x5410, 0x1110, 0x4444, 0x7610, 0x8880] {
            for join in [0x3340, 0x5410, 0x7710, 0x6420, 0x3210, 0x7654, 0x4440, 0xf340] {
                let permutations = format!("%2:R = PRMT %0, {first:#x}, RZ\n%3:R = PRMT %1, {second:#x}, %0\n");
                note(&format!("{permutations}%4:R = PRMT %2, {join:#x}, %3\n%5:R = PRMT %4, 0x5410, %2"), "%4, %5");
                let masks = "%6:R = LOP3.LUT %2, 0xff, RZ, 0xc0, !PT\n%7:R = LOP3.LUT %3, 0xff00ff, RZ, 0xc0, !PT\n";
                note(&format!("{permutations}{masks}%4:R = PRMT %6, {join:#x}, %7"), "%4, %7");
            }
        }
    }
    for mask in [0x3, 0x7f, 0x80, 0xff, 0x7fff, 0xffff, 0x7f_ffff] {
        for signs in [0x9910, 0x8880, 0xaa10, 0xb321, 0xc410, 0xd510] {
            let masked = format!("%2:R = LOP3.LUT %0, {mask:#x}, RZ, 0xc0, !PT\n");
            note(&format!("{masked}%3:R = PRMT %2, {signs:#x}, RZ\n%4:R = PRMT %1, {signs:#x}, %2"), "%3, %4");
        }
    }
    for distance in [0, 1, 8, 15, 16, 24, 31] {
        let shifts = format!("%2:R = SHF.R.U32.HI RZ, {distance}, %0\n%3:R = SHF.L.U32 %1, {distance}, RZ\n");
        note(&format!("{shifts}%4:R = PRMT %2, 0x7610, %3\n%5:R = PRMT %3, 0x7732, RZ"), "%4, %5");
        let sum = "%6:R = LOP3.LUT %0, 0xff, RZ, 0xc0, !PT\n%7:R = LOP3.LUT %1, 0x7f, RZ, 0xc0, !PT\n%8:R, PT, PT = IADD3 %6, %7, 0x2\n";
        let narrow =
            format!("%9:R = PRMT %8, 0x7710, RZ\n%10:R = SHF.R.U32.HI RZ, {distance}, %9\n%11:R = LOP3.LUT %10, 0xff, RZ, 0xc0, !PT");
        note(&format!("{sum}{narrow}"), "%9, %11");
    }
    for rule in SimplifyRule::ALL {
        assert!(applied[rule as usize] > 0, "{rule:?} is never applied");
    }
    pairs.check("simplify_rules");
}
