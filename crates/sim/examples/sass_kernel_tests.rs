//! Runs kernel tests on cubins: `sass_kernel_tests TESTS CUBINS [FILTER] [--trace LANE]`.
//!
//! Runs `TESTS/FAMILY/NAME.ptx` with `CUBINS/FAMILY/NAME.cubin`; tests without a cubin are counted, but not run. Failures are listed; with
//! `--trace`, the last instructions of the first warp are printed for each failure.

use std::path::{Path, PathBuf};
use std::time::Instant;

use oriole_sim::sass::kernel_test::run;
use oriole_sim::sass::{GridOptions, Silent, Trace};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let lane =
        arguments.iter().position(|argument| argument == "--trace").map(|at| arguments.get(at + 1).and_then(|lane| lane.parse().ok()));
    let [tests, cubins, ..] = &arguments[..] else {
        eprintln!("usage: sass_kernel_tests TESTS CUBINS [FILTER] [--trace LANE]");
        std::process::exit(2);
    };
    let filter = arguments.get(2).filter(|argument| *argument != "--trace").map_or("", String::as_str);
    let mut files = Vec::new();
    collect(Path::new(tests), &mut files);
    files.sort();
    let start = Instant::now();
    let mut instructions = 0;
    let (mut passed, mut missing, mut failed) = (0, 0, 0);
    let options = GridOptions::limited(1 << 24);
    for file in files {
        let name = file.strip_prefix(tests).unwrap_or(&file).with_extension("");
        if !name.to_string_lossy().contains(filter) {
            continue;
        }
        let Ok(cubin) = std::fs::read(Path::new(cubins).join(&name).with_extension("cubin")) else {
            missing += 1;
            continue;
        };
        let test = match std::fs::read_to_string(&file).map_err(|error| error.to_string()).and_then(|text| oriole_kernel_test::parse(&text))
        {
            Ok(test) => test,
            Err(error) => {
                println!("{}: {error}", name.display());
                failed += 1;
                continue;
            }
        };
        let verdict = match lane {
            Some(lane) => {
                let mut trace = Trace::new(400, lane);
                let verdict = run(&test, &cubin, &options, &mut trace);
                if verdict.is_err() {
                    println!("{}", trace.text(0, 0));
                }
                verdict
            }
            None => run(&test, &cubin, &options, &mut Silent),
        };
        match verdict {
            Ok(report) => {
                passed += 1;
                instructions += report.warp_instructions;
            }
            Err(why) => {
                println!("{}: {why}", name.display());
                failed += 1;
            }
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let rate = instructions as f64 / seconds / 1e6;
    println!("{instructions} warp instructions in {seconds:.2} s, {rate:.2} million a second");
    println!("{passed} passed, {failed} failed, {missing} without a cubin");
    std::process::exit(i32::from(failed > 0));
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "ptx") {
            files.push(path);
        }
    }
}
