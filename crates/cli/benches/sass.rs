//! Measures the speed of decoding, printing and encoding machine code: `cargo bench -p oriole-cli --bench sass`.
//!
//! NVIDIA's ptxas compiles the corpus to a cubin, so the benchmark needs NVIDIA's tools (`ORIOLE_ORACLES`, or
//! `.oracles/bin`). Whole processes are timed first: `nvdisasm -c FILE` and `oriole disasm FILE`, in turn. Then, on one
//! core and in memory: decoding and printing; encoding decoded instructions in their known form; and encoding the same
//! instructions with a search of all forms. Each result is the best of
//! several rounds, because other load on the machine can only add time.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use oriole_cubin::Cubin;
use oriole_isa::{Instruction, Target, decode, encode, print_with};

/// Files of the corpus whose common cubin has more than 10,000 instructions.
const SOURCES: [&str; 8] = ["unrolled", "attention", "double_math", "wide_integers", "matmul_tiled", "float_math", "sorting", "irregular"];
const TARGET: &str = "sm_90a";

fn main() {
    let rounds = if env::args().any(|argument| argument == "--bench") { 40 } else { 1 };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tools = env::var_os("ORIOLE_ORACLES").map_or_else(|| root.join(".oracles/bin"), PathBuf::from);
    if !tools.join("ptxas").exists() || !tools.join("nvdisasm").exists() {
        println!("skipped: no ptxas and nvdisasm in {}", tools.display());
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench.cubin");
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench.ptx");
    fs::write(&source, module(&root)).expect("the target folder can be written to");
    let made = Command::new(tools.join("ptxas")).arg(format!("-arch={TARGET}")).arg(&source).arg("-o").arg(&file).status();
    assert!(made.is_ok_and(|status| status.success()), "ptxas makes a cubin");
    let cubin = Cubin::read(&fs::read(&file).expect("ptxas wrote a file")).expect("ptxas writes cubins");
    let target = Target::parse(TARGET).expect("a target of the table");
    let code = cubin.functions().flat_map(|function| function.code.as_chunks::<16>().0);
    let words: Vec<u128> = code.map(|word| u128::from_le_bytes(*word)).collect();
    println!("one cubin for {TARGET}: {} instructions", words.len());

    let theirs = best(rounds, || time(Command::new(tools.join("nvdisasm")).arg("-c").arg(&file)));
    let ours = best(rounds, || time(Command::new(env!("CARGO_BIN_EXE_oriole")).arg("disasm").arg(&file)));
    println!("nvdisasm -c      {:>9.2} ms", milliseconds(theirs));
    println!("oriole disasm    {:>9.2} ms   {:.0} times as fast", milliseconds(ours), theirs.as_secs_f64() / ours.as_secs_f64());
    report("decode and print", words.len(), best(rounds, || print_all(&words, target)));
    report("decode", words.len(), best(rounds, || decode_all(&words, target)));
    let decoded: Vec<Instruction> = words.iter().filter_map(|&word| decode(word, target)).collect();
    report("encode, same form", decoded.len(), best(rounds, || encode_all(&decoded, target)));
    let new: Vec<Instruction> = decoded.iter().map(|instruction| Instruction { form: None, ..instruction.clone() }).collect();
    report("encode, contest", new.len(), best(rounds, || encode_all(&new, target)));
}

/// Combines several modules into one; renames functions and variables that occur in more than one.
fn module(root: &Path) -> String {
    let mut text = format!(".version 9.0\n.target {TARGET}\n.address_size 64\n");
    for (index, name) in SOURCES.iter().enumerate() {
        let part = fs::read_to_string(root.join(format!("corpus/{name}.ptx"))).expect("the corpus is there");
        let is_header = |line: &&str| [".version", ".target", ".address_size"].iter().any(|word| line.starts_with(word));
        for line in part.lines().filter(|line| !is_header(line)) {
            text += &line.replace("__cudart_", &format!("__cudart{index}_")).replace("__internal_", &format!("__internal{index}_"));
            text.push('\n');
        }
    }
    text
}

fn report(what: &str, count: usize, time: Duration) {
    let rate = count as f64 / time.as_secs_f64() / 1e6;
    println!("{what:<17}{:>9.2} ms   {rate:.2} million instructions a second", milliseconds(time));
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

fn best(rounds: u32, work: impl Fn() -> Duration) -> Duration {
    (0..rounds).map(|_| work()).min().unwrap_or_default()
}

fn time(command: &mut Command) -> Duration {
    let start = Instant::now();
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()));
    start.elapsed()
}

fn print_all(words: &[u128], target: Target) -> Duration {
    let start = Instant::now();
    let mut text = String::new();
    for (index, &word) in words.iter().enumerate() {
        print_with(&mut text, word, target, index as u64 * 16, &mut |_| None);
        text.push('\n');
    }
    black_box(&text);
    start.elapsed()
}

fn decode_all(words: &[u128], target: Target) -> Duration {
    let start = Instant::now();
    for &word in words {
        black_box(decode(word, target));
    }
    start.elapsed()
}

fn encode_all(instructions: &[Instruction], target: Target) -> Duration {
    let start = Instant::now();
    for instruction in instructions {
        let _ = black_box(encode(instruction, target));
    }
    start.elapsed()
}
