//! Measures the cost of calls of the library: a small kernel, first and later calls, and many kernels in one call.
//!
//!     cargo run --release -p oriole --example overhead

use std::time::{Duration, Instant};
use std::{fs, thread};

use oriole::{Compiler, Error};

/// A kernel of 20 lines.
const SMALL: &str = ".version 8.0
.target sm_80
.address_size 64
.visible .entry saxpy(.param .u32 n, .param .f32 alpha, .param .u64 x, .param .u64 y)
{
    .reg .pred %p; .reg .b32 %i, %block, %threads, %thread, %n; .reg .f32 %alpha, %xi, %yi; .reg .b64 %px, %py;
    mov.u32 %block, %ctaid.x;
    mov.u32 %threads, %ntid.x;
    mov.u32 %thread, %tid.x;
    mad.lo.u32 %i, %block, %threads, %thread;
    ld.param.u32 %n, [n];
    setp.ge.u32 %p, %i, %n;
    @%p bra done;
    ld.param.f32 %alpha, [alpha]; ld.param.u64 %px, [x]; ld.param.u64 %py, [y];
    mad.wide.u32 %px, %i, 4, %px;
    mad.wide.u32 %py, %i, 4, %py;
    ld.global.f32 %xi, [%px]; ld.global.f32 %yi, [%py];
    fma.rn.f32 %yi, %alpha, %xi, %yi; st.global.f32 [%py], %yi;
done: ret;
}
";

/// Number of later calls to measure.
const CALLS: usize = 1000;
/// Number of kernels in one module.
const KERNELS: usize = 1000;

/// Returns a module with many copies of the kernel, each with more arithmetic.
fn many() -> String {
    let (header, kernel) = SMALL.split_at(SMALL.find(".visible").unwrap_or(0));
    let work: String = (0..60).map(|step| format!("    fma.rn.f32 %xi, %xi, %alpha, 0f3F80{step:04X};\n")).collect();
    let kernel = kernel.replace("    fma.rn.f32 %yi", &format!("{work}    fma.rn.f32 %yi"));
    let kernels: String = (0..KERNELS).map(|number| kernel.replace("saxpy", &format!("saxpy_{number}"))).collect();
    format!("{header}{kernels}")
}

/// Returns the processor time of this process, all threads together; zero where the system does not tell it in this way.
fn processor_time() -> Duration {
    let status = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name in parentheses may contain spaces. After it, user and system time are fields 12 and 13, in hundredths of a second.
    let fields = status.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(10 * ticks)
}

fn main() -> Result<(), Error> {
    let compiler = Compiler::new().arch("sm_90a")?;
    for (name, compiler) in [("default", compiler.clone()), ("sequential", compiler.clone().sequential())] {
        let mut times = Vec::new();
        let mut used = Duration::ZERO;
        for number in 0..=CALLS {
            let start = Instant::now();
            compiler.compile(SMALL)?;
            times.push(start.elapsed());
            if number == 0 {
                used = processor_time();
            }
        }
        let used = processor_time().saturating_sub(used) / CALLS as u32;
        let first = times.remove(0);
        times.sort();
        let (median, slow) = (times[CALLS / 2], times[CALLS * 99 / 100]);
        println!("{name}: first call {first:?}; later calls: median {median:?}, 99% {slow:?}, processor time {used:?} each");
    }
    let module = many();
    let cores = thread::available_parallelism().map_or(1, usize::from);
    for (name, compiler, cores) in [("default", compiler.clone(), cores), ("sequential", compiler.sequential(), 1)] {
        let (start, used) = (Instant::now(), processor_time());
        let cubin = compiler.compile(&module)?;
        let (wall, used) = (start.elapsed(), processor_time().saturating_sub(used));
        let share = 100.0 * used.as_secs_f64() / wall.as_secs_f64() / cores as f64;
        println!("{name}: {} kernels in {wall:.2?}, processor time {used:.2?}, {share:.0}% of {cores} cores", cubin.functions().len());
    }
    Ok(())
}
