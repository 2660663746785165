//! A line on the terminal about work that takes more than two seconds: functions done, the pass that runs, and the time left; with several
//! input files, files done and the time left.
//!
//! The line is written on standard error if that is a terminal, over itself, and removed at the end, so that messages and pipes never
//! contain it. A thread writes it, because one function can take long. It is also removed when a signal ends the program, at the next update.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use oriole_driver::{Hooks, Progress};

use crate::output::signals::EndDelay;

/// Time before the line appears.
const QUIET: Duration = Duration::from_secs(2);
/// Time between two lines.
const INTERVAL: Duration = Duration::from_millis(200);
/// Returns to the start of the line on the terminal and clears it.
const CLEAR: &str = "\r\x1b[K";
/// Longest function name in the line, in characters.
const LONGEST_NAME: usize = 30;

/// What the line says.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct State {
    function: String,
    pass: &'static str,
    functions_done: usize,
    functions: usize,
    instructions_done: usize,
    instructions: usize,
    /// The number of input files, if there are several.
    files: Option<usize>,
    files_done: usize,
    bytes_done: u64,
    bytes: u64,
    /// Whether the line is on the terminal.
    is_shown: bool,
}

impl State {
    fn update(&mut self, progress: &Progress<'_>) {
        if let Some(pass) = progress.pass {
            self.pass = pass;
            progress.function.clone_into(&mut self.function);
        }
        self.functions_done = progress.functions_done;
        self.functions = progress.functions;
        self.instructions_done = progress.instructions_done;
        self.instructions = progress.instructions;
    }

    /// Returns the line after `elapsed` time.
    fn line(&self, elapsed: Duration) -> String {
        if let Some(files) = self.files {
            let mut text = format!("{} of {files} files, {} s", self.files_done, elapsed.as_secs());
            if self.bytes_done > 0 {
                let rest = self.bytes.saturating_sub(self.bytes_done) as f64 / self.bytes_done as f64;
                text += &format!(", about {:.0} s left", elapsed.as_secs_f64() * rest);
            }
            return text;
        }
        if self.functions == 0 {
            return format!("reading, {} s", elapsed.as_secs());
        }
        let mut text = format!("{} of {} functions, {} s", self.functions_done, self.functions, elapsed.as_secs());
        if self.instructions_done > 0 {
            let rest = self.instructions.saturating_sub(self.instructions_done) as f64 / self.instructions_done as f64;
            text += &format!(", about {:.0} s left", elapsed.as_secs_f64() * rest);
        }
        let name: String = self.function.chars().take(LONGEST_NAME).collect();
        let dots = if self.function.chars().count() > LONGEST_NAME { "..." } else { "" };
        text + &format!("; {} of {name}{dots}", self.pass)
    }
}

/// The line about a compilation. Dropping it removes the line.
pub struct ProgressLine {
    state: Arc<Mutex<State>>,
    /// Writes to the terminal.
    write: Arc<dyn Fn(&str) + Send + Sync>,
    /// Closing the channel ends the thread.
    writer: Option<(Sender<()>, JoinHandle<()>)>,
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

impl ProgressLine {
    /// Starts to watch a compilation, if standard error is a terminal.
    pub fn start() -> Option<ProgressLine> {
        if !io::stderr().is_terminal() {
            return None;
        }
        // While the line is on the terminal, a signal does not end the program.
        let delay: Mutex<Option<EndDelay>> = Mutex::new(None);
        Some(ProgressLine::with(QUIET, move |text| {
            let mut delay = delay.lock().unwrap_or_else(PoisonError::into_inner);
            if text != CLEAR {
                delay.get_or_insert_with(EndDelay::new);
            }
            // Work does not fail because its progress cannot be shown.
            let _ = io::stderr().lock().write_all(text.as_bytes());
            let is_last = text != CLEAR && delay.as_ref().is_some_and(EndDelay::is_end_requested);
            if is_last {
                let _ = io::stderr().lock().write_all(CLEAR.as_bytes());
            }
            if is_last || text == CLEAR {
                *delay = None;
            }
        }))
    }

    /// Starts to watch the compilation of several files of these sizes, if standard error is a terminal.
    pub fn start_for_files(sizes: &[u64]) -> Option<ProgressLine> {
        let line = ProgressLine::start()?;
        line.set_files(sizes);
        Some(line)
    }

    fn set_files(&self, sizes: &[u64]) {
        let mut state = lock(&self.state);
        state.files = Some(sizes.len());
        state.bytes = sizes.iter().sum();
    }

    /// Counts a file of this size as done. Removes the line while `print` prints the messages of files.
    pub fn file_done(&self, size: u64, print: impl FnOnce()) {
        let mut state = lock(&self.state);
        state.files_done += 1;
        state.bytes_done += size;
        if state.is_shown {
            (self.write)(CLEAR);
            state.is_shown = false;
        }
        print();
    }

    fn with(quiet: Duration, write: impl Fn(&str) + Send + Sync + 'static) -> ProgressLine {
        let state = Arc::<Mutex<State>>::default();
        let write: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(write);
        let own_write = Arc::clone(&write);
        let (sender, receiver) = mpsc::channel::<()>();
        let seen = Arc::clone(&state);
        let started = Instant::now();
        let watch = move || {
            let mut wait = quiet;
            while receiver.recv_timeout(wait) == Err(RecvTimeoutError::Timeout) {
                // The lock is held while the line is written, so that it does not mix with messages of files.
                let mut state = lock(&seen);
                let line = state.line(started.elapsed());
                write(&format!("{CLEAR}{line}"));
                state.is_shown = true;
                wait = INTERVAL;
            }
            if lock(&seen).is_shown {
                write(CLEAR);
            }
        };
        // Without a thread there is no line; the work does not depend on it.
        let writer = thread::Builder::new().name("progress".to_owned()).spawn(watch).ok();
        ProgressLine { state, write: own_write, writer: writer.map(|thread| (sender, thread)) }
    }

    /// Returns hooks for the compiler that feed the line.
    pub fn hooks(&self) -> Hooks {
        let state = Arc::clone(&self.state);
        Hooks { progress: Some(Arc::new(move |progress: &Progress<'_>| lock(&state).update(progress))), ..Hooks::default() }
    }
}

impl Drop for ProgressLine {
    fn drop(&mut self) {
        if let Some((sender, thread)) = self.writer.take() {
            drop(sender);
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(pass: Option<&'static str>, functions_done: usize, instructions_done: usize) -> Progress<'static> {
        Progress { function: "gemm", pass, functions_done, functions: 4, instructions_done, instructions: 400 }
    }

    #[test]
    fn the_line_estimates_the_time_left() {
        let mut state = State::default();
        assert_eq!(state.line(Duration::from_secs(3)), "reading, 3 s");
        state.update(&progress(Some("allocate"), 0, 0));
        assert_eq!(state.line(Duration::from_secs(4)), "0 of 4 functions, 4 s; allocate of gemm");
        state.update(&progress(None, 1, 100));
        assert_eq!(state.line(Duration::from_secs(10)), "1 of 4 functions, 10 s, about 30 s left; allocate of gemm");
    }

    #[test]
    fn files_are_counted_and_messages_come_without_the_line() {
        let written = Arc::<Mutex<String>>::default();
        let copy = Arc::clone(&written);
        let line = ProgressLine::with(Duration::ZERO, move |text| copy.lock().unwrap().push_str(text));
        line.set_files(&[100, 300]);
        while !written.lock().unwrap().contains("0 of 2 files") {
            thread::yield_now();
        }
        let inside = Arc::clone(&written);
        line.file_done(100, move || inside.lock().unwrap().push_str("message\n"));
        assert!(written.lock().unwrap().contains("\r\x1b[Kmessage\n"));
        assert_eq!(lock(&line.state).line(Duration::from_secs(5)), "1 of 2 files, 5 s, about 15 s left");
        drop(line);
        assert!(written.lock().unwrap().ends_with(CLEAR) || written.lock().unwrap().ends_with("message\n"));
    }

    #[test]
    fn short_work_is_silent_and_long_work_cleans_up() {
        for (quiet, work, is_silent) in [(Duration::from_secs(60), 0, true), (Duration::ZERO, 60, false)] {
            let written = Arc::<Mutex<String>>::default();
            let copy = Arc::clone(&written);
            let line = ProgressLine::with(quiet, move |text| copy.lock().unwrap().push_str(text));
            if let Some(report) = line.hooks().progress {
                report(&progress(Some("select"), 2, 200));
            }
            thread::sleep(Duration::from_millis(work));
            drop(line);
            let written = written.lock().unwrap();
            assert_eq!(written.is_empty(), is_silent, "{written:?}");
            assert!(is_silent || written.starts_with(CLEAR) && written.ends_with(CLEAR) && written.len() > 2 * CLEAR.len(), "{written:?}");
        }
    }
}
