//! Checks the plans for several targets: they can be generated, every word decodes, and no instruction with a fixed latency is missing.

use std::collections::BTreeSet;
use std::path::PathBuf;

use oriole_cubin::Cubin;
use oriole_isa::{Effect, Latency, Opcode, Pipe, Target, decode, parse};
use oriole_microbench::assembler::Assembler;
use oriole_microbench::{hazard, plan, table};

const INSTRUCTION_BYTES: usize = 16;

/// Instructions with fixed latency that are not measured: their result, in brackets, cannot be waited for by distance or is not possible in
/// a kernel of one warp; or they are not measured yet.
const NO_PRODUCER: &[&str] = &[
    "LEPC",      // [its own address: no small number]
    "RPCMOV",    // [the return address register]
    "VHMNMX",    // not measured yet; the tables give it the figures of HMNMX2
    "WARPGROUP", // [nothing]
];

fn folder(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Generates part of a plan and decodes all of it.
fn check(target: &str, only: &str, at_least: usize) {
    let folder = folder(&format!("{target}-{}", only.len()));
    let target = Target::parse(target).unwrap();
    let plan = plan::generate(target, &folder, Some(only)).unwrap();
    assert!(plan.experiments.len() >= at_least, "{} experiments; skipped: {:#?}", plan.experiments.len(), plan.skipped);
    for experiment in &plan.experiments {
        let bytes = std::fs::read(folder.join(&experiment.cubin)).unwrap();
        let cubin = Cubin::read(&bytes).unwrap();
        let code = cubin.find(".text.kernel").and_then(|index| cubin.bytes_of(index)).unwrap();
        for word in code.chunks(INSTRUCTION_BYTES) {
            let word = u128::from_le_bytes(word.try_into().unwrap());
            assert!(decode(word, target).is_some(), "{}: {word:#034x}", experiment.question.name());
        }
    }
}

const SAMPLE: &str =
    "quiet raw r iadd3 ,busy raw r imad.wide ,quiet waw ur uiadd3 ,war r stg,quiet raw p isetp ,chain LDS,rate FFMA,bank FFMA";

#[test]
fn sm_80() {
    check("sm_80", SAMPLE, 200);
}

#[test]
fn sm_90() {
    check("sm_90a", SAMPLE, 250);
}

#[test]
fn sm_120() {
    check("sm_120", SAMPLE, 180);
}

#[test]
fn every_fixed_latency_is_measured() {
    let producers = table::producers();
    let mut gaps = Vec::new();
    for name in ["sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120"] {
        let target = Target::parse(name).unwrap();
        let mut assembler = Assembler::new(target);
        let measured: BTreeSet<&str> = producers
            .iter()
            .filter_map(|producer| {
                let text = hazard::last_part(producer.text).replace("{new}", "0x0");
                assembler.word(&text).ok()?;
                Some(parse(&text).ok()?.opcode.mnemonic())
            })
            .collect();
        let is_wanted = |opcode: &Opcode| {
            let properties = opcode.properties();
            let writes = properties.leading.iter().any(|operand| operand.written);
            let is_computation =
                !matches!(properties.effect, Effect::Control | Effect::Barrier | Effect::Fence) && properties.pipe != Pipe::Branch;
            opcode.exists_on(target) && writes && is_computation && properties.latency(target) == Latency::Fixed
        };
        let missing: Vec<&str> = Opcode::all()
            .filter(is_wanted)
            .map(Opcode::mnemonic)
            .filter(|name| !measured.contains(name) && !NO_PRODUCER.contains(name))
            .collect();
        if !missing.is_empty() {
            gaps.push(format!("{name}: no producer for {missing:?}"));
        }
    }
    assert!(gaps.is_empty(), "{gaps:#?}");
}

/// The recorded figures belong to rows of the tables, and the best known of them have the expected values.
#[test]
fn kept_figures_belong_to_the_tables() {
    let kept = include_str!("../../../crates/hardware/data/measured/sm_90.tsv");
    let firsts: BTreeSet<&str> =
        [table::producers(), table::readers(), table::scoreboard_setters()].concat().iter().map(|access| access.name).collect();
    let seconds: BTreeSet<&str> = [table::consumers(), table::second_writers()].concat().iter().map(|access| access.name).collect();
    let mut pairs = 0;
    for line in kept.lines().filter(|line| !line.starts_with('#') && !line.starts_with("time\t")) {
        let columns: Vec<&str> = line.split('\t').collect();
        let [_, _, first, second, _, quiet, busy, _] = columns.as_slice() else { panic!("eight columns expected: {line}") };
        assert!(firsts.contains(first) && seconds.contains(second), "{line}");
        assert!([quiet, busy].iter().all(|figure| ["", "?", "-"].contains(figure) || figure.parse::<u32>().is_ok()), "{line}");
        pairs += 1;
    }
    assert!(pairs > 10_000, "{pairs}");
    for known in ["raw\tR\tIADD3\tIADD3.a\t0\t4\t", "raw\tR\tFFMA\tFFMA.a\t0\t4\t", "raw\tP\tISETP\tguard.BRA\t0\t13\t"] {
        assert!(kept.lines().any(|line| line.starts_with(known)), "{known}");
    }
}
