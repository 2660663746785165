//! Tests what the programs show on a terminal during long work, and what remains after Ctrl-C.
#![cfg(target_os = "linux")]

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::common::{files, folder, module};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");
const ORIOLE: &str = env!("CARGO_BIN_EXE_oriole");
/// Returns to the start of the line and clears it.
const CLEAR: &str = "\r\x1b[K";

/// A program whose standard error is a terminal.
struct OnTerminal {
    child: Child,
    /// What the terminal has received.
    text: Arc<Mutex<String>>,
    reader: JoinHandle<()>,
}

impl OnTerminal {
    fn start(program: &str, folder: &Path, arguments: &[&str]) -> OnTerminal {
        let controller = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&controller).unwrap();
        unlockpt(&controller).unwrap();
        let name = ptsname(&controller, Vec::new()).unwrap();
        let user = File::options().read(true).write(true).open(OsStr::from_bytes(name.as_bytes())).unwrap();
        let child = Command::new(program)
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(user)
            .spawn()
            .unwrap();
        let text = Arc::<Mutex<String>>::default();
        let copy = Arc::clone(&text);
        let mut controller = File::from(controller);
        let reader = thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails when no process has the terminal open any more.
            while let Ok(count) = controller.read(&mut bytes) {
                copy.lock().unwrap().push_str(&String::from_utf8_lossy(&bytes[..count]));
            }
        });
        OnTerminal { child, text, reader }
    }

    /// Waits until the terminal has received `words`. The program must not end before that.
    fn wait_for(&mut self, words: &str) {
        let started = Instant::now();
        while !self.text.lock().unwrap().contains(words) {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none() && started.elapsed() < Duration::from_secs(60), "{ended:?}: {:?}", self.text.lock().unwrap());
            thread::sleep(Duration::from_millis(10));
        }
    }

    /// Sends the signal of Ctrl-C.
    fn interrupt(&self) {
        assert!(Command::new("kill").args(["-s", "INT", &self.child.id().to_string()]).status().unwrap().success());
    }

    /// Waits for the end of the program; returns its status and what the terminal received.
    fn end(mut self) -> (ExitStatus, String) {
        let status = self.child.wait().unwrap();
        self.reader.join().unwrap();
        let text = self.text.lock().unwrap().clone();
        (status, text)
    }
}

/// Returns a module with one kernel of 400,000 instructions, which takes many seconds to compile, on any number of processors.
fn long_work() -> String {
    const VALUES: usize = 64;
    let mut text = String::from(".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry huge(.param .u64 p)\n{\n");
    text += ".reg .b64 %a;\n.reg .b32 %v<64>;\nld.param.u64 %a, [p];\n";
    (0..VALUES).for_each(|number| writeln!(text, "ld.global.b32 %v{number}, [%a+{}];", 4 * number).unwrap());
    for number in 0..400_000 {
        let (sum, left, right) = (number * 37 % VALUES, (number * 11 + 1) % VALUES, (number * 29 + 2) % VALUES);
        writeln!(text, "mad.lo.s32 %v{sum}, %v{left}, %v{right}, %v{sum};").unwrap();
    }
    (0..VALUES).for_each(|number| writeln!(text, "st.global.b32 [%a+{}], %v{number};", 4 * number).unwrap());
    text + "ret;\n}\n"
}

/// After two seconds a line shows the functions done and the pass. Ctrl-C, which sends SIGINT, removes the line and leaves no file.
#[test]
fn long_work_is_shown_and_an_interrupt_leaves_nothing() {
    let folder = folder("terminal-long");
    fs::write(folder.join("huge.ptx"), long_work()).unwrap();
    fs::write(folder.join("small.ptx"), module("sm_80", "small", "")).unwrap();
    fs::create_dir(folder.join("out")).unwrap();
    let before = files(&folder);
    for (arguments, words) in [
        ("compile huge.ptx --arch sm_80 -o huge.cubin", "0 of 1 functions, "),
        ("compile huge.ptx small.ptx --arch sm_80 --out-dir out", "1 of 2 files, "),
    ] {
        let started = Instant::now();
        let mut running = OnTerminal::start(ORIOLE, &folder, &arguments.split(' ').collect::<Vec<_>>());
        running.wait_for(words);
        assert!(started.elapsed() >= Duration::from_secs(2), "{arguments}: the line came after {:?}", started.elapsed());
        running.interrupt();
        let (status, text) = running.end();
        assert_eq!(status.signal(), Some(2), "{arguments}: {status}");
        assert!(text.starts_with(CLEAR) && text.ends_with(CLEAR), "{arguments}: {text:?}");
        assert_eq!(files(&folder), before, "{arguments}");
    }
    // The other file was complete when the signal came.
    assert_eq!(files(&folder.join("out")), ["small.cubin"]);
}

/// `ptxas` shows nothing, as NVIDIA's: build systems run several of them on one terminal.
#[test]
fn ptxas_is_silent_and_an_interrupt_leaves_nothing() {
    let folder = folder("terminal-ptxas");
    fs::write(folder.join("huge.ptx"), long_work()).unwrap();
    let running = OnTerminal::start(PTXAS, &folder, &["-arch=sm_80", "huge.ptx", "-o", "huge.cubin"]);
    thread::sleep(Duration::from_secs(3));
    running.interrupt();
    let (status, text) = running.end();
    assert_eq!((status.signal(), text.as_str()), (Some(2), ""), "{status}");
    assert_eq!(files(&folder), ["huge.ptx"]);
}

#[test]
fn short_work_is_silent() {
    let folder = folder("terminal-short");
    fs::write(folder.join("small.ptx"), module("sm_80", "small", "")).unwrap();
    for (program, arguments) in [
        (PTXAS, &["-arch=sm_80", "small.ptx", "-o", "small.cubin"][..]),
        (ORIOLE, &["compile", "small.ptx", "--arch", "sm_80", "-o", "small.cubin"]),
    ] {
        let (status, text) = OnTerminal::start(program, &folder, arguments).end();
        assert_eq!((status.code(), text.as_str()), (Some(0), ""), "{arguments:?}");
    }
}
