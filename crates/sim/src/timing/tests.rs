//! Tests of the timing model, one rule each. The expected cycles were measured on an H200: see the `time` lines of
//! crates/hardware/data/measured/sm_90.tsv.

use oriole_isa::{Control, Target, parse};

use super::code::Figures;
use super::memory::LaunchContext;
use super::sm::{Multiprocessor, SmRun};
use super::trace::{BlockTrace, Event, Footprint, TimingTrace};

const ALONE: LaunchContext = LaunchContext { active: 1, from_dram: false, cache_bytes: 1 << 17 };

fn figures() -> Figures {
    Figures::of(Target::parse("sm_90").unwrap())
}

/// A trace of warps that repeat a few instructions, all of which fit into one instruction-cache line.
struct Body {
    figures: Figures,
    trace: TimingTrace,
    body: Vec<Event>,
}

impl Body {
    /// Builds the body from pairs of control word and instruction text.
    fn new(lines: &[(&str, &str)]) -> Body {
        let figures = figures();
        let op = |(index, (control, text)): (usize, &(&str, &str))| {
            let mut instruction = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            instruction.control = Control::parse(control).unwrap();
            figures.op(16 * index as u64, &instruction, (*text).to_owned())
        };
        let ops = lines.iter().enumerate().map(op).collect();
        let trace = TimingTrace { ops, footprints: Vec::new(), blocks: Vec::new(), contended: Default::default() };
        let body = (0..lines.len() as u32).map(|op| Event { op, footprint: None, is_split: false }).collect();
        Body { figures, trace, body }
    }

    /// Gives every instruction this memory footprint.
    fn touching(mut self, footprint: Footprint) -> Body {
        self.trace.footprints.push(footprint);
        self.body.iter_mut().for_each(|event| event.footprint = Some(0));
        self
    }

    /// Runs `copies` repetitions of the body in each of `warps` warps.
    fn run(&self, warps: usize, copies: usize) -> SmRun {
        let events: Vec<Event> = self.body.iter().copied().cycle().take(copies * self.body.len()).collect();
        let block = BlockTrace { warps: vec![events; warps] };
        Multiprocessor::new(&self.figures, &self.trace, ALONE).run(&[block], 1)
    }

    /// Returns the cycles per copy of the body in steady state, rounded to half cycles (some rates are 1.5).
    fn cycles(&self, warps: usize) -> f64 {
        const FEW: usize = 200;
        let (one, two) = (self.run(warps, FEW).cycles, self.run(warps, 2 * FEW).cycles);
        ((two - one) as f64 / FEW as f64 * 2.0).round() / 2.0
    }
}

/// Returns the issue interval, in cycles, of an instruction without dependences that one warp issues as fast as possible.
fn rate(text: &str) -> f64 {
    Body::new(&[("B------:R-:W-:-:S01", text)]).cycles(1)
}

#[test]
fn a_chain_takes_its_stall_counts() {
    let body = Body::new(&[("B------:R-:W-:-:S05", "IADD3 R4, R4, R16, RZ")]);
    let count = 100;
    assert_eq!(body.run(1, count).cycles, 5 * (count as u64 - 1) + 1);
    assert_eq!(body.cycles(1), 5.0);
}

#[test]
fn other_warps_hide_stalls_until_the_pipe_is_full() {
    let body = Body::new(&[("B------:R-:W-:-:S04", "IADD3 R4, R4, R16, RZ")]);
    // One, two and four warps per sub-partition; two warps already fill the pipe.
    assert_eq!([4, 8, 16].map(|warps| body.cycles(warps)), [4.0, 4.0, 8.0]);
}

#[test]
fn pipes_have_their_measured_rates() {
    let measured = [
        ("IADD3 R20, R4, R4, RZ", 2.0),
        ("LOP3.LUT R20, R4, R4, RZ, 0x3c, !PT", 2.0),
        ("IMAD R20, R4, R4, R4", 2.0),
        ("IMAD.WIDE R20, R4, R4, RZ", 4.0),
        ("FFMA R20, R4, R4, R4", 1.0),
        ("HFMA2 R20, R4, R4, R4", 2.0),
        ("DADD R20, R4, R4", 2.0),
        ("MUFU.EX2 R20, R4", 8.0),
        ("POPC R20, R4", 8.0),
        ("NOP", 1.0),
    ];
    for (text, cycles) in measured {
        assert_eq!(rate(text), cycles, "{text}");
    }
}

#[test]
fn pipes_share_and_do_not_share_as_measured() {
    let pair = |first: &str, second: &str| Body::new(&[("B------:R-:W-:-:S01", first), ("B------:R-:W-:-:S01", second)]).cycles(1);
    let (ffma, imad, iadd) = ("FFMA R20, R4, R4, R4", "IMAD R21, R4, R4, R4", "IADD3 R22, R4, R4, RZ");
    let (half, double, lop) = ("HFMA2 R23, R4, R4, R4", "DADD R24, R4, R4", "LOP3.LUT R26, R4, R4, RZ, 0x3c, !PT");
    let measured = [
        (ffma, imad, 2.0),
        (ffma, iadd, 2.0),
        (iadd, lop, 4.0),
        (iadd, imad, 2.0),
        (ffma, half, 4.0),
        (imad, half, 4.0),
        (ffma, double, 2.0),
    ];
    for (first, second, cycles) in measured {
        // An instruction that takes both halves of a pipe waits for the slower half, so the model may be one cycle off.
        assert!((pair(first, second) - cycles).abs() <= 1.0, "{first}; {second}: {}", pair(first, second));
    }
    assert_eq!(pair(iadd, lop), 4.0);
    assert_eq!(pair(iadd, imad), 2.0);
}

#[test]
fn register_banks_and_the_reuse_cache() {
    assert_eq!(rate("FFMA R20, R4, R5, R6"), 2.0);
    assert_eq!(rate("FFMA R20, R4, R6, R8"), 3.0);
    assert_eq!(rate("FFMA R20, R4.reuse, R6, R8"), 2.0);
    assert_eq!(rate("FFMA R20, R4.reuse, R6.reuse, R8"), 1.0);
    assert_eq!(rate("IMAD R20, R4, R6, R5"), 2.0);
    assert_eq!(rate("IMAD R20, R4, R6, R8"), 3.0);
}

#[test]
fn barriers_count_warps_one_after_the_other() {
    let body = Body::new(&[("B------:R-:W-:Y:S05", "BAR.SYNC.DEFER_BLOCKING 0x0")]);
    // 14 cycles for one warp, and 2 more for each further warp.
    for (warps, cycles) in [(1, 14.0), (2, 16.0), (8, 28.0), (32, 76.0)] {
        assert!((body.cycles(warps) - cycles).abs() <= 1.0, "{warps} warps: {}", body.cycles(warps));
    }
}

#[test]
fn scoreboards_are_waited_for() {
    let chain = |wavefronts| {
        let touched = Footprint { is_shared: true, wavefronts, lanes: 32, ..Footprint::default() };
        Body::new(&[("B0-----:R-:W0:-:S02", "LDS R4, [R4]")]).touching(touched).cycles(1)
    };
    // Each bank conflict adds two cycles.
    assert_eq!([1, 2, 8, 32].map(chain), [23.0, 25.0, 37.0, 85.0]);
    let special = Body::new(&[("B0-----:R-:W0:-:S02", "MUFU.RCP R4, R4")]);
    assert_eq!(special.cycles(1), 17.0);
}

#[test]
fn shared_memory_serves_a_wavefront_in_a_cycle() {
    let touched = |wavefronts| Footprint { is_shared: true, wavefronts, lanes: 32, ..Footprint::default() };
    let loads = |wavefronts| Body::new(&[("B------:R-:W-:-:S01", "LDS R20, [R4]")]).touching(touched(wavefronts)).cycles(16);
    assert_eq!([loads(1), loads(4)], [16.0, 64.0]);
}

#[test]
fn sectors_come_from_the_cache_or_the_next_level() {
    let loads = |sectors: Vec<u64>, strong: bool| {
        let text = if strong { "LDG.E.STRONG.GPU R4, desc[UR4][R4.64]" } else { "LDG.E R4, desc[UR4][R4.64]" };
        let touched = Footprint { wavefronts: 1, lines: 1, lanes: 1, sectors, ..Footprint::default() };
        Body::new(&[("B0-----:R-:W0:-:S02", text)]).touching(touched).cycles(1)
    };
    assert_eq!(loads(vec![7], false), 38.0);
    assert!((loads(vec![7], true) - 303.0).abs() <= 2.0);
}

#[test]
fn branches_that_are_taken_cost_more() {
    // The body is a loop of two instructions: the branch is taken because its target is not the next address.
    let body = Body::new(&[("B------:R-:W-:-:S01", "NOP"), ("B------:R-:W-:Y:S05", "BRA 0x0")]);
    assert_eq!(body.cycles(1), 11.0);
}

#[test]
fn fences_pause_a_warp() {
    let fence = |text: &str| Body::new(&[("B------:R-:W-:-:S01", text)]).cycles(1);
    assert_eq!([fence("MEMBAR.SC.CTA"), fence("MEMBAR.SC.GPU"), fence("MEMBAR.SC.SYS")], [6.0, 147.0, 900.0]);
}

#[test]
fn copies_are_over_when_their_fence_says_so() {
    let touched = Footprint { wavefronts: 1, lines: 1, lanes: 1, sectors: vec![7], ..Footprint::default() };
    let lines = [
        ("B------:R-:W-:-:S02", "LDGSTS.E [R6], desc[UR4][R4.64]"),
        ("B------:R-:W0:-:S02", "LDGDEPBAR"),
        ("B------:R-:W-:-:S02", "DEPBAR.LE SB0, 0x0"),
    ];
    // Measured on an H200: 114 cycles when the sector is in the L1 cache.
    let cycles = Body::new(&lines).touching(touched).cycles(1);
    assert!((cycles - 114.0).abs() <= 6.0, "{cycles}");
}

#[test]
fn stalls_say_what_was_waited_for() {
    let touched = Footprint { is_shared: true, wavefronts: 1, lanes: 32, ..Footprint::default() };
    let body = Body::new(&[("B0-----:R-:W0:-:S02", "LDS R4, [R4]")]).touching(touched);
    let outcome = body.run(1, 100);
    assert_eq!(outcome.instructions, 100);
    assert_eq!(outcome.stalls.0[0].0, "waits for LDS R4, [R4]");
}
