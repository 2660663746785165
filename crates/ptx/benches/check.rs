//! How fast and how lean checking is: `cargo bench -p oriole-ptx`.
//!
//! Texts are generated, the same every time. Each is checked several times in this process; the best time counts, because
//! everything else on the machine only adds. Memory is the peak of a fresh process that reads and checks the file, less that of
//! one that only starts and reads it, so it is what checking adds. If `ORIOLE_ORACLES` names a folder with ptxas, ptxas checks the same
//! file (`-arch=compute_90a`: no code) in the same run; its time is that of the process, so ours is measured as a process too.
//!
//! The program calls itself for the memory figures: `--measure check FILE`.

#[path = "check/generate.rs"]
mod generate;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

use oriole_ptx::{Options, check};

struct Case {
    name: &'static str,
    bytes: usize,
    statements_per_kernel: u32,
}

const CASES: &[Case] = &[
    Case { name: "1 MB, many kernels", bytes: 1_000_000, statements_per_kernel: 300 },
    Case { name: "12 MB, many kernels", bytes: 12_000_000, statements_per_kernel: 300 },
    Case { name: "5 MB, one kernel", bytes: 5_000_000, statements_per_kernel: u32::MAX },
];

const MEGABYTE: f64 = 1e6;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--measure", what, file] => measure_self(what == "check", file),
        // `cargo test --benches` runs this too, without `--bench`, and wants to be done soon.
        _ if arguments.iter().any(|argument| argument == "--bench") => bench(CASES, 10),
        _ => bench(&[Case { name: "small", bytes: 50_000, statements_per_kernel: 100 }], 1),
    }
    ExitCode::SUCCESS
}

fn bench(cases: &[Case], rounds: u32) {
    let ptxas = env::var_os("ORIOLE_ORACLES").map(|folder| PathBuf::from(folder).join("ptxas")).filter(|file| file.exists());
    println!("{:<22}{:>8}{:>10}{:>16}{:>14}{:>12}", "text", "check", "", "memory", "process", "ptxas");
    println!("{:<22}{:>8}{:>10}{:>16}{:>14}{:>12}{:>8}", "", "ms", "MB/s", "bytes per byte", "ms", "ms", "ratio");
    for case in cases {
        let text = generate::module(case.bytes, case.statements_per_kernel);
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{}.ptx", case.bytes));
        fs::write(&file, &text).expect("the target folder can be written to");
        let time = best(rounds, || check_valid(text.as_bytes()));
        let process = best(rounds.min(5), || {
            measured_child("check", &file);
        });
        let memory = measured_child("check", &file).saturating_sub(measured_child("read", &file));
        print!(
            "{:<22}{:>8.1}{:>10.0}{:>16.2}{:>14.1}",
            case.name,
            milliseconds(time),
            text.len() as f64 / MEGABYTE / time.as_secs_f64(),
            memory as f64 / text.len() as f64,
            milliseconds(process),
        );
        match &ptxas {
            Some(ptxas) => {
                let theirs = best(rounds.min(3), || run_ptxas(ptxas, &file));
                println!("{:>12.1}{:>8.1}", milliseconds(theirs), theirs.as_secs_f64() / process.as_secs_f64());
            }
            None => println!("{:>12}{:>8}", "-", "-"),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn best(rounds: u32, mut work: impl FnMut()) -> Duration {
    let times = (0..rounds).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed()
    });
    times.min().unwrap_or_default()
}

fn check_valid(text: &[u8]) {
    let checked = check(text, &Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
    // As `oriole check` does: freeing is not part of checking.
    std::mem::forget(checked);
}

fn run_ptxas(ptxas: &Path, file: &Path) {
    let output = Command::new(ptxas).arg("-arch=compute_90a").arg(file).output().expect("ptxas runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Starts this program again; it reads a file, checks it or not, and says what memory that took at most, in bytes.
fn measured_child(what: &str, file: &Path) -> u64 {
    let program = env::current_exe().expect("this program has a path");
    let output = Command::new(program).arg("--measure").arg(what).arg(file).output().expect("this program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().parse().unwrap_or_default()
}

fn measure_self(checks: bool, file: &str) {
    let text = fs::read(file).expect("the file can be read");
    if checks {
        check_valid(&text);
    }
    println!("{}", peak_memory_bytes().unwrap_or_default());
}

/// Linux keeps the peak of a process in `/proc`; elsewhere there is no figure.
fn peak_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}
