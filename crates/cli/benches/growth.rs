//! Measures how the compile time grows with the number of functions, variables, labels and other items:
//! `cargo bench -p oriole-cli --bench growth [-- WORD...]`.
//!
//! Each kind of module is compiled at a quarter of its size and at full size by Oriole's `ptxas`, and at full size by NVIDIA's
//! (`ORIOLE_ORACLES`, or `.oracles/bin`). The last column is the ratio of the two times of Oriole, which should be about 4. Then the other
//! commands read the cubins. With WORD arguments, only kinds whose names contain one of the words are measured.

#[path = "growth/modules.rs"]
mod modules;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use modules::{CASES, Case};

/// Time limit for a process.
const LIMIT: Duration = Duration::from_secs(60);

fn main() {
    let words: Vec<String> = env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    if !env::args().any(|argument| argument == "--bench") {
        // `cargo test --benches` only checks that the benchmark runs.
        return run(&CASES[0], 100, None);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tools = env::var_os("ORIOLE_ORACLES").map_or_else(|| root.join(".oracles/bin"), PathBuf::from);
    let vendor = Some(tools.join("ptxas")).filter(|vendor| vendor.exists());
    if vendor.is_none() {
        println!("no ptxas in {} to compare with", tools.display());
    }
    println!("{:<40}{:>8}{:>10}{:>10}{:>8}{:>12}", "many", "number", "ours, 1/4", "ours", "growth", "the vendor's");
    for case in CASES.iter().filter(|case| words.is_empty() || words.iter().any(|word| case.what.contains(word.as_str()))) {
        run(case, case.count, vendor.as_deref());
    }
}

fn run(case: &Case, count: usize, vendor: Option<&Path>) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("growth");
    fs::create_dir_all(&folder).expect("the target folder can be written to");
    let [small, large] = [count / 4, count].map(|count| {
        let file = folder.join(format!("{count}.ptx"));
        fs::write(&file, (case.text)(count)).expect("the target folder can be written to");
        file
    });
    let output = folder.join("out.cubin");
    let compile = |program: &Path, file: &Path| {
        let mut command = Command::new(program);
        command.arg("-arch=sm_90a").args(case.options).arg(file).arg("-o").arg(&output);
        timed(&mut command)
    };
    let own = Path::new(env!("CARGO_BIN_EXE_ptxas"));
    let (quarter, whole) = (compile(own, &small), compile(own, &large));
    let read: Vec<String> = READERS.iter().map(|words| format!("{} {}", words[0], show(read_back(words, &output, &folder)))).collect();
    let theirs = vendor.map_or_else(|| "-".to_owned(), |vendor| show(compile(vendor, &large)));
    let growth =
        quarter.zip(whole).map_or_else(|| "-".to_owned(), |(quarter, whole)| format!("{:.1}", whole.as_secs_f64() / quarter.as_secs_f64()));
    println!("{:<40}{count:>8}{:>10}{:>10}{growth:>8}{theirs:>12}   {}", case.what, show(quarter), show(whole), read.join(", "));
    for file in [small, large, output] {
        let _ = fs::remove_file(file);
    }
}

/// The commands that read a cubin.
const READERS: [&[&str]; 4] = [&["disasm"], &["roundtrip"], &["verify"], &["rescore", "--stats"]];

fn read_back(words: &[&str], cubin: &Path, folder: &Path) -> Option<Duration> {
    timed(Command::new(env!("CARGO_BIN_EXE_oriole")).args(words).arg(cubin).current_dir(folder))
}

/// Returns the time of a process; `None` if it fails or exceeds the limit.
fn timed(command: &mut Command) -> Option<Duration> {
    let start = Instant::now();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("the program starts");
    loop {
        if let Some(status) = child.try_wait().expect("the program can be waited for") {
            return status.success().then(|| start.elapsed());
        }
        if start.elapsed() > LIMIT {
            child.kill().and_then(|()| child.wait()).expect("the program can be stopped");
            return None;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn show(time: Option<Duration>) -> String {
    time.map_or_else(|| "failed".to_owned(), |time| format!("{:.2} s", time.as_secs_f64()))
}
