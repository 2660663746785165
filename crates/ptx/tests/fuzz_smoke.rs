//! One second of fuzzing in every test run: corpus files with small damage.
//!
//! The cases are the same on every machine, as far as time allows. A failing case is written to a file.

#[path = "../../../fuzz/check_case.rs"]
mod check_case;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use std::{fs, panic};

const TIME: Duration = Duration::from_secs(1);
/// Limit on the size of seeds in bytes. Small files give more cases per second and contain the same constructs as large ones.
const LARGEST_SEED: usize = 40_000;
/// Bytes that change the meaning of the text around them.
const ODD_BYTES: &[u8] = b"{}();,.<>[]|!@%\"\0\xff0x/*\n";

/// Pseudorandom numbers that are the same in every run (SplitMix64).
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn seeds() -> Vec<Vec<u8>> {
    let folders = ["corpus", "corpus/handwritten", "examples"];
    let mut files: Vec<PathBuf> =
        folders.iter().flat_map(|folder| fs::read_dir(root().join(folder)).unwrap()).map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts =
        files.into_iter().filter(|file| file.extension().is_some_and(|extension| extension == "ptx")).map(|file| fs::read(file).unwrap());
    texts.filter(|text| text.len() < LARGEST_SEED).collect()
}

/// Damages a text in one to four places: swaps, removes or inserts lines, changes bytes, or truncates it.
fn mutate(text: &mut Vec<u8>, seeds: &[Vec<u8>], numbers: &mut Numbers) {
    for _ in 0..=numbers.below(4) {
        let place = numbers.below(text.len());
        match numbers.below(8) {
            0 => text.truncate(place),
            1 | 2 => text.iter_mut().skip(place).take(1).for_each(|byte| *byte = ODD_BYTES[numbers.below(ODD_BYTES.len())]),
            3 => drop(text.drain(place..(place + 1 + numbers.below(40)).min(text.len()))),
            4 => {
                let copy = text[place..(place + 60).min(text.len())].to_vec();
                let target = numbers.below(text.len());
                text.splice(target..target, copy);
            }
            _ => {
                let other = &seeds[numbers.below(seeds.len())];
                let lines: Vec<&[u8]> = other.split_inclusive(|&byte| byte == b'\n').collect();
                let line = lines[numbers.below(lines.len())].to_vec();
                let start = text[..place].iter().rposition(|&byte| byte == b'\n').map_or(0, |position| position + 1);
                text.splice(start..start, line);
            }
        }
    }
}

#[test]
fn damaged_files_are_answered() {
    let seeds = seeds();
    assert!(seeds.len() > 50);
    let mut numbers = Numbers(1);
    let (start, mut cases, mut valid) = (Instant::now(), 0, 0);
    while start.elapsed() < TIME {
        let mut text = seeds[numbers.below(seeds.len())].clone();
        mutate(&mut text, &seeds, &mut numbers);
        match panic::catch_unwind(|| check_case::check_case(&text).is_valid()) {
            Ok(is_valid) => valid += usize::from(is_valid),
            Err(_) => {
                let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz_smoke.ptx");
                fs::write(&file, &text).unwrap();
                panic!("case {cases} fails; it is kept as {}", file.display());
            }
        }
        cases += 1;
    }
    println!("{cases} cases, {valid} of them valid");
    assert!(valid > 0, "no case was valid, so printing was never tried");
}

#[test]
fn undamaged_files_are_answered() {
    for text in seeds() {
        check_case::check_case(&text);
    }
}
