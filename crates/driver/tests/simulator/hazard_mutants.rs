//! Compares the static and the dynamic hazard check: control words of compiled kernels are weakened one at a time (a stall one cycle
//! shorter, a wait or a scoreboard removed), and every hazard that the dynamic check finds must also be found by the static one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use oriole_cubin::Cubin;
use oriole_driver::{Options as Compiler, compile};
use oriole_hardware::Model;
use oriole_isa::{Control, Target, decode};
use oriole_kernel_test::KernelTest;
use oriole_sim::hazard::{HazardObserver, HazardRegister, HazardSeverity, LocatedFinding, Problem, check_function};
use oriole_sim::sass::GridOptions;
use oriole_sim::sass::kernel_test::run;

const LIMIT: GridOptions = GridOptions::limited(1 << 22);
const INSTRUCTION_BYTES: usize = 16;
const SCOREBOARDS: u8 = 6;
/// Every `STEP`-th kernel test is used.
const STEP: usize = 97;

/// The part of a problem that does not depend on the path on which it was found.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Early(HazardRegister),
    Fresh(u8),
    Stale(HazardRegister),
    Ignored,
    Counted(u8),
    Unfenced(HazardRegister),
    Released(HazardRegister),
    Note,
}

fn kind(problem: &Problem) -> Kind {
    match *problem {
        Problem::TooSoon { register, .. } | Problem::NotWaited { register, .. } | Problem::NoScoreboardSet { register, .. } => {
            Kind::Early(register)
        }
        Problem::WaitTooSoon { scoreboard, .. } => Kind::Fresh(scoreboard),
        Problem::StaleReuse { register } => Kind::Stale(register),
        Problem::StallIgnored { .. } => Kind::Ignored,
        Problem::CountOutOfOrder { scoreboard } => Kind::Counted(scoreboard),
        Problem::OpenAtFence { register } => Kind::Unfenced(register),
        Problem::ReleasedInFlight { register, .. } => Kind::Released(register),
        Problem::PendingAtExit { .. } => Kind::Note,
        Problem::NeverSet { .. } => Kind::Note,
    }
}

/// Index of the first instruction and kind of problem. The second instruction is left out, and with it whether it reads or writes the
/// register: if several ones issue too early after the first, the two checks may report different ones. (On all paths a guarded reader
/// stands for all threads; while running, a thread in which the guard does not hold may be the first to overwrite the register.)
type Found = BTreeSet<(usize, Kind)>;

/// Returns the hazards of the static check.
fn on_all_paths(words: &[u128], target: Target) -> Found {
    let code: Vec<_> = words.iter().map(|&word| decode(word, target).expect("known words")).collect();
    let findings = check_function(&code, &[0], &|_| Vec::new(), Model::of(target));
    let hazards = findings.iter().filter(|finding| finding.problem.severity() == HazardSeverity::Hazard);
    hazards.map(|finding| (finding.first, kind(&finding.problem))).collect()
}

/// Returns the hazards of the dynamic check.
fn while_running(test: &KernelTest, cubin: &[u8]) -> Found {
    let mut watch = HazardObserver::new();
    run(test, cubin, &LIMIT, &mut watch).expect("control words do not change results in the simulator");
    let first = |sighting: &LocatedFinding| sighting.first.as_ref().unwrap_or(&sighting.second).offset as usize / INSTRUCTION_BYTES;
    watch.findings().iter().map(|sighting| (first(sighting), kind(&sighting.problem))).collect()
}

/// Returns all control words that lack one element of `control`.
fn weaker(control: Control) -> Vec<Control> {
    let mut list = Vec::new();
    if control.stall > 1 {
        list.push(Control { stall: control.stall - 1, ..control });
    }
    list.extend(
        (0..SCOREBOARDS).filter(|bit| control.wait >> bit & 1 == 1).map(|bit| Control { wait: control.wait & !(1 << bit), ..control }),
    );
    if control.write_barrier.is_some() {
        list.push(Control { write_barrier: None, ..control });
    }
    if control.read_barrier.is_some() {
        list.push(Control { read_barrier: None, ..control });
    }
    list
}

fn words_of(code: &[u8]) -> Vec<u128> {
    code.chunks_exact(INSTRUCTION_BYTES).map(|word| u128::from_le_bytes(word.try_into().expect("a word"))).collect()
}

/// Checks all mutants of a kernel. Returns their number, the number with static findings, and the number with dynamic findings.
fn mutants(name: &str, test: &KernelTest, cubin: &[u8], target: Target) -> [usize; 3] {
    let file = Cubin::read(cubin).expect("a cubin");
    let functions: Vec<_> = file.functions().collect();
    // Only kernels with one function; jump tables and calls between sections are not covered.
    let [function] = &functions[..] else { return [0; 3] };
    let words = words_of(function.code);
    let start = cubin.windows(function.code.len()).position(|window| window == function.code).expect("the code is in the file");
    let is_plain = words.iter().all(|&word| decode(word, target).is_some_and(|one| one.opcode.mnemonic() != "BRX"));
    if !is_plain {
        return [0; 3];
    }
    let mut counts = [0; 3];
    for at in 0..words.len() {
        for control in weaker(Control::of(words[at])) {
            let mut changed = words.clone();
            changed[at] = changed[at] & !Control::MASK | control.bits();
            let mut bytes = cubin.to_vec();
            let place = start + at * INSTRUCTION_BYTES;
            bytes[place..place + INSTRUCTION_BYTES].copy_from_slice(&changed[at].to_le_bytes());
            let (paths, running) = (on_all_paths(&changed, target), while_running(test, &bytes));
            let missed: Vec<_> = running.difference(&paths).collect();
            assert!(
                missed.is_empty(),
                "{name}: with [{control}] at {:#x}: {missed:?} found while running, {paths:?} on all paths",
                at * 16
            );
            counts = [counts[0] + 1, counts[1] + usize::from(!paths.is_empty()), counts[2] + usize::from(!running.is_empty())];
        }
    }
    counts
}

#[test]
fn dynamic_findings_are_also_static_findings() {
    let target = Target::parse("sm_90a").expect("a target");
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels");
    let mut paths: Vec<PathBuf> = Vec::new();
    for family in fs::read_dir(&root).expect("the kernel tests").flatten() {
        paths.extend(fs::read_dir(family.path()).expect("a family").flatten().map(|entry| entry.path()));
    }
    paths.sort();
    let mut counts = [0; 3];
    for path in paths.iter().step_by(crate::kernels::sample_step(STEP, STEP / 4)) {
        let text = fs::read_to_string(path).expect("a kernel test");
        let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
        let Ok(compiled) = compile(&[&module], &Compiler { level: 3, ..Compiler::new(target) }) else { continue };
        let test = oriole_kernel_test::parse(&text).expect("a header");
        let more = mutants(&path.display().to_string(), &test, &compiled.cubin, target);
        counts = std::array::from_fn(|at| counts[at] + more[at]);
    }
    let [all, on_paths, running] = counts;
    println!("{all} mutants: {on_paths} have hazards on some path, {running} while running");
    assert!(all >= 600 && running >= all / 4, "{counts:?}");
}
