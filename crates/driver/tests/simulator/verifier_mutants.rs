//! Measures the detection rate of the seven verifiers: control words of compiled kernels are changed at random, one field at a time, and
//! the detected share is counted by kind of change. A change that is not detected must be harmless: the simulator runs it, and the dynamic
//! hazard check must find nothing on the executed path.
//!
//! One kind of hazard is invisible to the verifiers, because they follow one thread on its path: values that divergent threads of a warp
//! leave in the reuse cache for threads that arrive on another path. The dynamic check finds it, and the compiler keeps nothing in the
//! cache across divergence; such changes are counted separately.
//!
//! The code is compiled from kernel tests by Oriole and, if available, by ptxas.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use oriole_cubin::Cubin;
use oriole_driver::{Options as Compiler, compile};
use oriole_isa::{Control, Target, decode, form_of};
use oriole_kernel_test::KernelTest;
use oriole_sim::hazard::{HazardObserver, LocatedFinding, Mask, Problem};
use oriole_sim::sass::GridOptions;
use oriole_sim::sass::kernel_test::run;
use oriole_sim::verify::{Verifier, verify_cubin};

use crate::kernels::on_all_cores;

const LIMIT: GridOptions = GridOptions::limited(1 << 22);
const INSTRUCTION_BYTES: usize = 16;
/// Every `STEP`-th kernel test is used.
const STEP: usize = 41;
/// Number of changes of each kind per kernel.
const PER_KIND: usize = 3;

/// A deterministic pseudo-random generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % sides.max(1)
    }
}

/// The kind of a change to one instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    StallOneLess,
    StallOfOne,
    WaitRemoved,
    WaitSwapped,
    ResultBoardRemoved,
    ResultBoardSwapped,
    ReadBoardRemoved,
    ReadBoardSwapped,
    BoardSix,
    YieldRemoved,
    YieldAtReuse,
    ReuseAdded,
    BitWithoutMeaning,
}

const CHANGES: [Change; 13] = [
    Change::StallOneLess,
    Change::StallOfOne,
    Change::WaitRemoved,
    Change::WaitSwapped,
    Change::ResultBoardRemoved,
    Change::ResultBoardSwapped,
    Change::ReadBoardRemoved,
    Change::ReadBoardSwapped,
    Change::BoardSix,
    Change::YieldRemoved,
    Change::YieldAtReuse,
    Change::ReuseAdded,
    Change::BitWithoutMeaning,
];

/// Returns the changed word, or `None` if the change does not apply to it.
fn changed(change: Change, word: u128, target: Target, dice: &mut Dice) -> Option<u128> {
    let control = Control::of(word);
    let other = |board: u8, dice: &mut Dice| (board + 1 + dice.roll(5) as u8) % 6;
    let waited: Vec<u8> = (0..6).filter(|board| control.wait >> board & 1 == 1).collect();
    let new = match change {
        Change::StallOneLess => Control { stall: (control.stall > 1).then(|| control.stall - 1)?, ..control },
        Change::StallOfOne => Control { stall: (control.stall > 2).then_some(1)?, ..control },
        Change::WaitRemoved => Control { wait: control.wait & !(1 << waited.get(dice.roll(waited.len()))?), ..control },
        Change::WaitSwapped => {
            let board = *waited.get(dice.roll(waited.len()))?;
            Control { wait: control.wait & !(1 << board) | 1 << other(board, dice), ..control }
        }
        Change::ResultBoardRemoved => Control { write_barrier: control.write_barrier.and(None), ..boarded(control, true)? },
        Change::ResultBoardSwapped => Control { write_barrier: Some(other(control.write_barrier?, dice)), ..control },
        Change::ReadBoardRemoved => Control { read_barrier: None, ..boarded(control, false)? },
        Change::ReadBoardSwapped => Control { read_barrier: Some(other(control.read_barrier?, dice)), ..control },
        Change::BoardSix => Control { write_barrier: control.write_barrier.map(|_| 6), ..boarded(control, true)? },
        Change::YieldRemoved => Control { stay: (control.stall >= 12 && !control.stay).then_some(true)?, ..control },
        Change::YieldAtReuse => Control { stay: (control.reuse != 0 && control.stay).then_some(false)?, ..control },
        Change::ReuseAdded => {
            let instruction = decode(word, target)?;
            let slots: Vec<u8> = (0..instruction.operands.len()).filter_map(|operand| instruction.reuse_slot(operand)).collect();
            let slot = *slots.get(dice.roll(slots.len()))?;
            (control.stay && control.reuse >> slot & 1 == 0).then_some(Control { reuse: control.reuse | 1 << slot, ..control })?
        }
        Change::BitWithoutMeaning => {
            let form = form_of(word, target)?.form();
            let free: Vec<u32> = (16..105).filter(|bit| (form.carried | form.mask) >> bit & 1 == 0).collect();
            return Some(word ^ 1 << free.get(dice.roll(free.len()))?);
        }
    };
    Some(word & !Control::MASK | new.bits())
}

/// Returns the control word if it sets a scoreboard for results (or for reads).
fn boarded(control: Control, results: bool) -> Option<Control> {
    let board = if results { control.write_barrier } else { control.read_barrier };
    board.map(|_| control)
}

#[derive(Clone, Copy, Default)]
struct Count {
    tried: usize,
    found: usize,
    /// Not detected, and the test still passes.
    harmless: usize,
    /// Not detected, because the hazard is between threads on different paths.
    between_threads: usize,
}

/// Applies random changes to a kernel and counts which ones the verifiers detect.
fn mutate(name: &str, test: &KernelTest, cubin: &[u8], dice: &mut Dice) -> BTreeMap<Change, Count> {
    let mut counts: BTreeMap<Change, Count> = BTreeMap::new();
    let report = verify_cubin(cubin, &Verifier::ALL).expect("it can be verified");
    assert_eq!(report.complaint(4), None, "{name}");
    let file = Cubin::read(cubin).expect("a cubin");
    let target = report.target;
    let functions: Vec<_> = file.functions().collect();
    let [function] = &functions[..] else { return counts };
    let start = cubin.windows(function.code.len()).position(|window| window == function.code).expect("the code is in the file");
    let words = &report.sections[0].words;
    for change in CHANGES {
        for _ in 0..PER_KIND {
            let candidates = (0..8 * words.len()).map(|_| dice.roll(words.len())).collect::<Vec<_>>();
            let Some((number, word)) = candidates.iter().find_map(|&at| Some((at, changed(change, words[at], target, dice)?))) else {
                break;
            };
            let mut bytes = cubin.to_vec();
            let place = start + number * INSTRUCTION_BYTES;
            bytes[place..place + INSTRUCTION_BYTES].copy_from_slice(&word.to_le_bytes());
            let count = counts.entry(change).or_default();
            count.tried += 1;
            if !verify_cubin(&bytes, &Verifier::ALL).expect("it can be read").is_clean() {
                count.found += 1;
                continue;
            }
            let mut watch = HazardObserver::new();
            let outcome = run(test, &bytes, &LIMIT, &mut watch);
            let is_of_some_threads =
                |sighting: &&LocatedFinding| sighting.lanes != Mask::MAX && matches!(sighting.problem, Problem::StaleReuse { .. });
            count.between_threads += usize::from(watch.findings().iter().any(|sighting| is_of_some_threads(&sighting)));
            let missed = watch.findings().iter().find(|sighting| !is_of_some_threads(sighting));
            assert!(missed.is_none(), "{name}: {change:?} at {:#x} is not found, but {}", number * INSTRUCTION_BYTES, missed.unwrap());
            count.harmless += usize::from(outcome.is_ok());
        }
    }
    counts
}

fn tests() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/kernels");
    let mut paths: Vec<PathBuf> = Vec::new();
    for family in fs::read_dir(root).expect("the kernel tests").flatten() {
        paths.extend(fs::read_dir(family.path()).expect("a family").flatten().map(|entry| entry.path()));
    }
    paths.sort();
    crate::kernels::sample(paths, STEP)
}

fn judge(whose: &str, of_kernels: Vec<BTreeMap<Change, Count>>) {
    let mut counts: BTreeMap<Change, Count> = BTreeMap::new();
    for (change, Count { tried, found, harmless, between_threads }) in of_kernels.into_iter().flatten() {
        let sum = counts.entry(change).or_default();
        sum.tried += tried;
        sum.found += found;
        sum.harmless += harmless;
        sum.between_threads += between_threads;
    }
    for (change, Count { tried, found, harmless, between_threads }) in &counts {
        let share = found * 100 / tried;
        println!(
            "{whose} {change:?}: {tried} tried, {found} found ({share} %), {harmless} others right, {between_threads} wrong between threads"
        );
    }
    // Most of them are in kernels whose threads diverge in loops: the two instructions are on different paths, which the verifier does not
    // combine.
    assert!(counts.values().map(|count| count.between_threads).sum::<usize>() <= 6, "more than a few changes are wrong between threads");
    let share = |change: Change| counts.get(&change).map_or(100, |count| count.found * 100 / count.tried);
    for sure in [Change::BoardSix, Change::YieldRemoved, Change::YieldAtReuse] {
        assert_eq!(share(sure), 100, "{sure:?}");
    }
    assert!(share(Change::BitWithoutMeaning) >= 95, "{}", share(Change::BitWithoutMeaning));
    assert!(share(Change::ResultBoardRemoved) >= 80, "{}", share(Change::ResultBoardRemoved));
    assert!(counts.values().map(|count| count.tried).sum::<usize>() >= 500, "too few changes");
}

#[test]
fn changes_of_our_code() {
    let target = Target::parse("sm_90a").expect("a target");
    let counts = on_all_cores(tests().into_iter().enumerate().collect(), |(number, path)| {
        let text = fs::read_to_string(&path).expect("a kernel test");
        let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
        let Ok(compiled) = compile(&[&module], &Compiler { level: 3, ..Compiler::new(target) }) else { return BTreeMap::new() };
        let test = oriole_kernel_test::parse(&text).expect("a header");
        mutate(&path.display().to_string(), &test, &compiled.cubin, &mut Dice(number as u64))
    });
    judge("ours", counts);
}

#[test]
fn changes_of_what_ptxas_makes() {
    let Some(ptxas) = oriole_oracles::tool("ptxas") else { return };
    let folder = env::temp_dir().join(format!("oriole-mutants-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    let counts = on_all_cores(tests().into_iter().enumerate().collect(), |(number, path)| {
        let out = folder.join(format!("{number}.cubin"));
        let made = Command::new(&ptxas).args(["-arch", "sm_90a", "-o"]).arg(&out).arg(&path).output().expect("ptxas runs");
        if !made.status.success() {
            return BTreeMap::new();
        }
        let text = fs::read_to_string(&path).expect("a kernel test");
        let test = oriole_kernel_test::parse(&text).expect("a header");
        mutate(&path.display().to_string(), &test, &fs::read(&out).expect("a cubin"), &mut Dice(number as u64))
    });
    fs::remove_dir_all(&folder).expect("the folder");
    judge("ptxas", counts);
}
