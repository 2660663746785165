//! Measures the time and the memory that checking PTX takes: `cargo bench -p oriole-ptx`.
//!
//! The texts are generated, always the same. Each is checked several times in this process; the result is the best time, because
//! other load on the machine can only add time. On Linux the processor time is measured, so that other processes hardly
//! matter; checking uses one thread, so on an idle machine processor time and wall-clock time are equal.
//!
//! Memory is the peak of a new process that reads and checks the file, minus the peak of a process that only reads it. If
//! `ORIOLE_ORACLES` names a folder with ptxas, ptxas checks the same file (`-arch=compute_90a`, which generates no
//! code). The time of a whole process of ptxas is compared with the time of a whole process of Oriole.
//!
//! To measure a process, the program starts itself with `--measure check FILE`.

#[path = "check/generate.rs"]
mod generate;

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

use oriole_ptx::{Checked, Options, check};

struct Case {
    name: &'static str,
    bytes: usize,
    statements_per_kernel: u32,
    /// Number of bytes of debug sections after the kernels.
    debug_bytes: usize,
}

const CASES: &[Case] = &[
    Case { name: "1 MB, many kernels", bytes: 1_000_000, statements_per_kernel: 300, debug_bytes: 0 },
    Case { name: "12 MB, many kernels", bytes: 12_000_000, statements_per_kernel: 300, debug_bytes: 0 },
    Case { name: "5 MB, one kernel", bytes: 5_000_000, statements_per_kernel: u32::MAX, debug_bytes: 0 },
    Case { name: "5 MB, mostly debug data", bytes: 1_000_000, statements_per_kernel: 300, debug_bytes: 4_000_000 },
];

const MEGABYTE: f64 = 1e6;

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--measure", what, file] => measure_self(what == "check", file),
        // `cargo test --benches` runs the program without `--bench` and only checks that it works.
        _ if arguments.iter().any(|argument| argument == "--bench") => bench(CASES, 10),
        _ => bench(&[Case { name: "small", bytes: 50_000, statements_per_kernel: 100, debug_bytes: 10_000 }], 1),
    }
    ExitCode::SUCCESS
}

fn bench(cases: &[Case], rounds: u32) {
    let ptxas = env::var_os("ORIOLE_ORACLES").map(|folder| PathBuf::from(folder).join("ptxas")).filter(|file| file.exists());
    println!("{:<22}{:>8}{:>10}{:>16}{:>14}{:>12}", "text", "check", "", "memory", "process", "ptxas");
    println!("{:<22}{:>8}{:>10}{:>16}{:>14}{:>12}{:>8}", "", "ms", "MB/s", "bytes per byte", "ms", "ms", "ratio");
    for case in cases {
        let text = generate::module(case.bytes, case.statements_per_kernel, case.debug_bytes);
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("bench-{}.ptx", case.bytes));
        fs::write(&file, &text).expect("the target folder can be written to");
        let time = best(rounds, || time_of_check(text.as_bytes()));
        let process = best(rounds, || measured_child("check", &file).time);
        let memory = measured_child("check", &file).memory_bytes.saturating_sub(measured_child("read", &file).memory_bytes);
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
                let theirs = best(rounds.min(3), || time_of_ptxas(ptxas, &file));
                println!("{:>12.0}{:>8.1}", milliseconds(theirs), theirs.as_secs_f64() / process.as_secs_f64());
            }
            None => println!("{:>12}{:>8}", "-", "-"),
        }
    }
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn best(rounds: u32, work: impl Fn() -> Duration) -> Duration {
    (0..rounds).map(|_| work()).min().unwrap_or_default()
}

fn time_of_check(text: &[u8]) -> Duration {
    let (start, processor) = (Instant::now(), own_processor_time());
    // Freeing memory is not measured: `oriole check` ends its process without freeing.
    let _checked = check_valid(text);
    match (processor, own_processor_time()) {
        (Some(before), Some(after)) => after - before,
        _ => start.elapsed(),
    }
}

fn check_valid(text: &[u8]) -> Checked {
    let checked = check(text, &Options::default());
    assert!(checked.is_valid(), "{:?}", checked.diagnostics.first());
    checked
}

fn time_of_ptxas(ptxas: &Path, file: &Path) -> Duration {
    let (start, processor) = (Instant::now(), processor_time_of_children());
    let output = Command::new(ptxas).arg("-arch=compute_90a").arg(file).output().expect("ptxas runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    match (processor, processor_time_of_children()) {
        (Some(before), Some(after)) => after - before,
        _ => start.elapsed(),
    }
}

/// Time and memory of a process of Oriole.
struct Measured {
    memory_bytes: u64,
    time: Duration,
}

/// Starts this program again, which reads a file, checks it if requested, and prints its time and memory.
fn measured_child(what: &str, file: &Path) -> Measured {
    let start = Instant::now();
    let program = env::current_exe().expect("this program has a path");
    let output = Command::new(program).arg("--measure").arg(what).arg(file).output().expect("this program runs");
    let passed = start.elapsed();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let memory_bytes = numbers.next().unwrap_or_default();
    let time = numbers.next().filter(|&nanoseconds| nanoseconds > 0).map_or(passed, Duration::from_nanos);
    Measured { memory_bytes, time }
}

fn measure_self(checks: bool, file: &str) {
    let text = fs::read(file).expect("the file can be read");
    if checks {
        std::mem::forget(check_valid(&text));
    }
    let time = own_processor_time().unwrap_or_default();
    println!("{} {}", peak_memory_bytes().unwrap_or_default(), time.as_nanos());
}

/// Returns the peak memory of this process in bytes; Linux only.
fn peak_memory_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// Returns the processor time since the start of this process; Linux only.
fn own_processor_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/self/schedstat").ok()?;
    text.split(' ').next()?.parse().ok().map(Duration::from_nanos)
}

/// Returns the processor time of child processes that have ended, with a resolution of 10 ms; Linux only.
fn processor_time_of_children() -> Option<Duration> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // The process name, in parentheses, may contain spaces. The user and system time of children are the 14th and 15th field after it.
    let fields: Vec<u64> = text.rsplit_once(')')?.1.split(' ').map(|field| field.parse().unwrap_or_default()).collect();
    Some(Duration::from_millis(10 * (fields.get(14)? + fields.get(15)?)))
}
