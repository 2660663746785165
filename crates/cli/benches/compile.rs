//! Measures the time to compile the corpus: `cargo bench -p oriole-cli --bench compile`.
//!
//! Each file of `corpus`, `corpus/handwritten` and `examples` that Oriole compiles for the target is compiled by a process of Oriole's
//! `ptxas` and by a process of NVIDIA's (`ORIOLE_ORACLES`, or `.oracles/bin`), in turn. The time of a file is the best of several
//! rounds, and the times of all files are added up. The third column is the time of the library, from text in memory to a cubin in
//! memory. Two kernels of 200,000 instructions follow: one without branches, and one with loops.

use std::fmt::Write;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use oriole_driver::{Options, compile};
use oriole_isa::Target;

const TARGET: &str = "sm_90a";
/// Time limit for a compiler process.
const LIMIT: Duration = Duration::from_secs(120);
/// Number of PTX instructions of a large kernel.
const LARGE: usize = 200_000;

fn main() {
    let rounds = if env::args().any(|argument| argument == "--bench") { 5 } else { 1 };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tools = env::var_os("ORIOLE_ORACLES").map_or_else(|| root.join(".oracles/bin"), PathBuf::from);
    let vendor = tools.join("ptxas");
    if !vendor.exists() {
        println!("skipped: no ptxas in {}", tools.display());
        return;
    }
    corpus(&root, &vendor, rounds);
    if rounds > 1 {
        large("one block", &straight_line(), &vendor);
        large("loops", &loops(), &vendor);
    }
}

fn corpus(root: &Path, vendor: &Path, rounds: u32) {
    let target = Target::parse(TARGET).expect("a target of the table");
    let mut files: Vec<PathBuf> = ["corpus", "corpus/handwritten", "examples"]
        .iter()
        .flat_map(|folder| fs::read_dir(root.join(folder)).expect("the corpus is there"))
        .map(|entry| entry.expect("the corpus can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "ptx"))
        .collect();
    files.sort();
    let mut slowest = (0.0, String::new());
    let (mut ours, mut theirs, mut inside) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let mut compiled = 0;
    for file in &files {
        let text = fs::read(file).expect("the corpus can be read");
        // NVIDIA's ptxas compiles debug modules at -O0 only.
        if file.to_string_lossy().ends_with(".debug.ptx") || translate(&text, target).is_none() {
            continue;
        }
        let mut best = [LIMIT; 3];
        for _ in 0..rounds {
            let times = [
                process(Path::new(env!("CARGO_BIN_EXE_ptxas")), "-O3", file),
                process(vendor, "-O3", file),
                translate(&text, target).unwrap_or(LIMIT),
            ];
            for (best, time) in best.iter_mut().zip(times) {
                *best = time.min(*best);
            }
        }
        compiled += 1;
        ours += best[0];
        theirs += best[1];
        inside += best[2];
        let share = best[0].as_secs_f64() / best[1].as_secs_f64();
        if share > slowest.0 {
            slowest = (share, file.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    println!("{compiled} of {} files for {TARGET} at -O3, one process for each", files.len());
    println!("ptxas, the vendor's {:>10.1} ms", milliseconds(theirs));
    println!("ptxas, ours         {:>10.1} ms   {:.1} times as fast", milliseconds(ours), theirs.as_secs_f64() / ours.as_secs_f64());
    println!("library, in memory  {:>10.1} ms   {:.1} times as fast", milliseconds(inside), theirs.as_secs_f64() / inside.as_secs_f64());
    println!("least gain: {}, {:.1} times as fast", slowest.1, 1.0 / slowest.0);
}

/// Returns the time from text to a cubin in this process; `None` if the file cannot be compiled.
fn translate(text: &[u8], target: Target) -> Option<Duration> {
    let start = Instant::now();
    let checked = oriole_ptx::check(text, &oriole_ptx::Options::default());
    let cubin = checked.is_valid().then(|| compile(&[&checked.module], &Options { verify: false, ..Options::new(target) }).ok())?;
    black_box(cubin?);
    Some(start.elapsed())
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn output() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("compile.cubin")
}

/// Returns the time of a process that compiles a file. This process blocks meanwhile: polling would take processor time from a compiler
/// with several threads.
fn process(program: &Path, level: &str, file: &Path) -> Duration {
    let start = Instant::now();
    let status = command(program, level, file).status().expect("the compiler starts");
    assert!(status.success(), "{} compiles {}", program.display(), file.display());
    start.elapsed()
}

fn command(program: &Path, level: &str, file: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(format!("-arch={TARGET}")).arg(level).arg(file).arg("-o").arg(output()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Like the function above, with a time limit of [`LIMIT`] and a resolution of 10 ms.
fn process_within_limit(program: &Path, level: &str, file: &Path) -> Duration {
    let start = Instant::now();
    let mut child = command(program, level, file).spawn().expect("the compiler starts");
    loop {
        if let Some(status) = child.try_wait().expect("the compiler can be waited for") {
            assert!(status.success(), "{} compiles {}", program.display(), file.display());
            return start.elapsed();
        }
        if start.elapsed() > LIMIT {
            child.kill().and_then(|()| child.wait()).expect("the compiler can be stopped");
            return LIMIT;
        }
        thread::sleep(Duration::from_millis(10));
    }
}

fn large(what: &str, text: &str, vendor: &Path) {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("large.ptx");
    fs::write(&file, text).expect("the target folder can be written to");
    println!("{LARGE} instructions, {what}:");
    for (who, program, level) in
        [("ours", Path::new(env!("CARGO_BIN_EXE_ptxas")), "-O3"), ("the vendor's", vendor, "-O3"), ("the vendor's", vendor, "-O1")]
    {
        let time = process_within_limit(program, level, &file);
        let note = if time >= LIMIT { "   stopped" } else { "" };
        println!("ptxas, {who:<13} {level} {:>10.1} ms{note}", milliseconds(time));
    }
}

const HEAD: &str = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry large(.param .u64 data, .param .u32 count)\n{\n\
    .reg .b32 %r<40>;\n.reg .b64 %rd<4>;\n.reg .f32 %f<40>;\n.reg .pred %p<2>;\nld.param.u64 %rd0, [data];\nld.param.u32 %r0, [count];\n\
    cvta.to.global.u64 %rd1, %rd0;\n";

/// Returns a kernel of sixteen chains of arithmetic instructions with occasional stores.
fn body(text: &mut String, number: usize) {
    let (a, b) = (number % 16 + 1, (number * 7 + 3) % 16 + 1);
    let offset = number / 8 % 1024 * 4;
    let _ = match number % 8 {
        0 => writeln!(text, "ld.global.f32 %f{a}, [%rd1+{offset}];"),
        1 | 4 => writeln!(text, "fma.rn.f32 %f{a}, %f{a}, %f{b}, %f{b};"),
        2 => writeln!(text, "mad.lo.s32 %r{a}, %r{a}, %r{b}, {number};"),
        3 => writeln!(text, "xor.b32 %r{a}, %r{a}, %r{b};"),
        5 => writeln!(text, "add.s32 %r{a}, %r{b}, %r0;"),
        6 => writeln!(text, "cvt.rn.f32.s32 %f{a}, %r{b};"),
        _ => writeln!(text, "st.global.f32 [%rd1+{offset}], %f{b};"),
    };
}

fn start() -> String {
    let mut text = String::from(HEAD);
    for register in 1..=16 {
        let _ = writeln!(text, "add.s32 %r{register}, %r0, {register};\ncvt.rn.f32.s32 %f{register}, %r{register};");
    }
    text
}

fn straight_line() -> String {
    let mut text = start();
    (0..LARGE).for_each(|number| body(&mut text, number));
    text + "ret;\n}\n"
}

/// Returns a kernel with a sequence of loops of sixty instructions.
fn loops() -> String {
    let mut text = start();
    for number in 0..LARGE / 64 {
        let _ = writeln!(text, "mov.u32 %r20, 0;\nL{number}:");
        (0..60).for_each(|step| body(&mut text, number * 60 + step));
        let _ = writeln!(text, "add.s32 %r20, %r20, 1;\nsetp.lt.s32 %p1, %r20, %r0;\n@%p1 bra L{number};");
    }
    text + "ret;\n}\n"
}
