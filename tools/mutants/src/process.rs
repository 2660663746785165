//! Runs a program with limits on time and memory.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Limit on the address space of a process in KiB, because a mutant may allocate without bound.
const MEMORY_KIB: u64 = 12 << 20;

/// How a process ended.
pub enum End {
    Success,
    /// It failed, for this reason.
    Failure(String),
    Timeout,
}

/// The result of a process.
pub struct ProcessResult {
    pub end: End,
    pub seconds: f64,
    pub output: String,
}

/// Runs a program in a folder. Its output goes to the file `log`, temporary files to a folder next to it.
pub fn run(
    program: &Path,
    arguments: &[String],
    folder: &Path,
    environment: &[(&str, String)],
    limit_seconds: f64,
    log: &Path,
) -> ProcessResult {
    let file = File::create(log).expect("a log file");
    let temporary = log.with_extension("tmp");
    fs::create_dir_all(&temporary).expect("a folder for temporary files");
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("ulimit -v {MEMORY_KIB}; ulimit -c 0; exec \"$@\"")).arg("sh").arg(program).args(arguments);
    command
        .current_dir(folder)
        .env("RAYON_NUM_THREADS", "1")
        .env("RUST_BACKTRACE", "0")
        .env_remove("ORIOLE_ORACLES")
        .env("TMPDIR", &temporary);
    command.envs(environment.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stderr(file.try_clone().expect("a log file")).stdout(file).process_group(0);
    let start = Instant::now();
    let mut child = command.spawn().expect("sh runs");
    let success = wait(&mut child, start, Duration::from_secs_f64(limit_seconds));
    let _ = fs::remove_dir_all(&temporary);
    let output = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let end = match success {
        None => End::Timeout,
        Some(true) => End::Success,
        Some(false) => End::Failure(reason(&output)),
    };
    ProcessResult { end, seconds: start.elapsed().as_secs_f64(), output }
}

/// Waits for a process; returns whether it succeeded, or `None` after a timeout, which also kills its children.
fn wait(child: &mut Child, start: Instant, limit: Duration) -> Option<bool> {
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait().expect("the state of a process") {
            return Some(status.success());
        }
        if start.elapsed() > limit {
            let group = format!("-{}", child.id());
            let _ = Command::new("kill").args(["-KILL", "--", &group]).status();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(20));
    }
}

/// Returns the name of the first failed test and the first line of its message.
fn reason(output: &str) -> String {
    let failed = output.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix("FAILED"));
    let name = failed.map_or("", |rest| rest.trim_end_matches([' ', '.', '-']).trim());
    let mut lines = output.lines().skip_while(|line| !line.contains("panicked at"));
    let message = lines.nth(1).or_else(|| output.lines().last()).unwrap_or_default();
    let text = format!("{name}: {message}");
    text.chars().filter(|c| *c != '\t').take(200).collect()
}
