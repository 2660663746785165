//! Parses and checks PTX, large modules on several threads.

use oriole_ptx::{Checked, NumberedPart, Options, SplitModule};

use crate::hooks::Parallelism;
use crate::parallel;

/// Number of bytes of PTX text that take as long to parse as one PTX instruction takes to compile.
const PARSED_BYTES_PER_INSTRUCTION: usize = 700;

/// Time to renumber the objects of one part of a module, in units of the time to compile one PTX instruction.
const RENUMBERING_COST_INSTRUCTIONS: usize = 30;

/// Parses and checks a PTX module like [`oriole_ptx::check`], with the same result. A module with many kernels is parsed in parts, which
/// run in parallel as far as `parallelism` allows.
pub fn check(text: &[u8], options: &Options, parallelism: &Parallelism) -> Checked {
    if matches!(parallelism, Parallelism::Sequential) {
        return oriole_ptx::check(text, options);
    }
    check_in_parts(text, options, parallelism).unwrap_or_else(|| oriole_ptx::check(text, options))
}

/// Parses and checks a module in parts; `None` if it has to be parsed as a whole.
fn check_in_parts(text: &[u8], options: &Options, parallelism: &Parallelism) -> Option<Checked> {
    let split = SplitModule::new(text, options)?;
    let parts: Vec<(usize, usize)> = split.part_sizes().into_iter().enumerate().collect();
    let size = |&(_, bytes): &(usize, usize)| bytes / PARSED_BYTES_PER_INSTRUCTION;
    let parsed = parallel::map_in_parallel(parallelism, &parts, size, |&(part, _)| split.parse(part));
    let numbered = split.number(parsed)?;
    let renumbered = parallel::map_in_parallel(parallelism, numbered.parts(), |_| RENUMBERING_COST_INSTRUCTIONS, NumberedPart::renumber);
    numbered.join(renumbered)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::hooks::Executor;

    /// Returns a module of `count` kernels, each of which also contains the text `extra`.
    fn module(count: usize, extra: &str) -> String {
        let work = "    mad.lo.u32 %r1, %r1, %r2, %r3;\n".repeat(20);
        let kernel = |number| format!(".visible .entry kernel_{number}()\n{{\n    .reg .b32 %r<4>;\n{work}    {extra}\n    ret;\n}}\n");
        format!(".version 8.0\n.target sm_80\n.address_size 64\n{}", (0..count).map(kernel).collect::<String>())
    }

    /// A [`Parallelism`] that runs all tasks on the calling thread and counts them.
    #[derive(Default)]
    struct CountingExecutor(AtomicUsize);

    impl Executor for CountingExecutor {
        fn execute(&self, count: usize, task: &(dyn Fn(usize) + Sync)) {
            self.0.fetch_add(count, Ordering::Relaxed);
            (0..count).for_each(task);
        }
    }

    #[test]
    fn parts_give_the_same_module_and_messages() {
        for extra in ["add.u32 %r1, %r1, 1;", "add.u32 %r1, %r1, %r9;"] {
            let text = module(300, extra);
            let whole = oriole_ptx::check(text.as_bytes(), &Options::default());
            for parallelism in [Parallelism::Threads, Parallelism::Sequential, Parallelism::Executor(Arc::new(CountingExecutor::default()))]
            {
                let checked = check(text.as_bytes(), &Options::default(), &parallelism);
                assert_eq!(checked.diagnostics, whole.diagnostics);
                assert!(oriole_ptx::print(&checked.module) == oriole_ptx::print(&whole.module));
            }
        }
    }

    #[test]
    fn only_large_modules_are_split() {
        let tasks = |count| {
            let counting = Arc::new(CountingExecutor::default());
            check(module(count, "").as_bytes(), &Options::default(), &Parallelism::Executor(Arc::clone(&counting) as Arc<dyn Executor>));
            counting.0.load(Ordering::Relaxed)
        };
        assert_eq!(tasks(10), 0);
        assert!(tasks(600) > 3);
    }
}
