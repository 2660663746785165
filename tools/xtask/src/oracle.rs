//! Determines which instructions ptxas accepts, many at a time.
//!
//! Instructions are compiled in batches, one kernel each. If ptxas accepts a batch, it accepts every instruction in it. Otherwise the
//! instructions in the lines of its errors are rejected and the rest is tried again; an error without a line splits the batch.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use oriole_ptx::enumerate::{Case, module_text};
use oriole_ptx::target::Target;

/// The location of ptxas, and a folder for temporary files.
pub struct Oracle {
    ptxas: PathBuf,
    scratch: PathBuf,
}

impl Oracle {
    /// Finds ptxas in `ORIOLE_ORACLES` or `.oracles/bin`.
    pub fn find() -> Result<Oracle, String> {
        let folder = env::var_os("ORIOLE_ORACLES").map_or_else(|| PathBuf::from(".oracles/bin"), PathBuf::from);
        let ptxas = folder.join("ptxas");
        if !ptxas.exists() {
            return Err("ptxas not found; run tools/oracles.sh".to_string());
        }
        let scratch = env::temp_dir().join(format!("oriole-verdicts-{}", std::process::id()));
        fs::create_dir_all(&scratch).map_err(|e| e.to_string())?;
        Ok(Oracle { ptxas, scratch })
    }

    /// Returns whether ptxas accepts each case. `batch_size` is the number of cases to try at once: large if most are accepted, small if
    /// most are rejected.
    pub fn verdicts(&self, cases: &[Case], batch_size: usize) -> Vec<bool> {
        let mut order: Vec<usize> = (0..cases.len()).collect();
        order.sort_by_key(|&index| (cases[index].platform.version, cases[index].platform.target, cases[index].independent_textures, index));
        let mut batches: Vec<Vec<usize>> = Vec::new();
        for index in order {
            let fits = batches.last().is_some_and(|batch: &Vec<usize>| {
                let first = &cases[batch[0]];
                batch.len() < batch_size
                    && first.platform == cases[index].platform
                    && first.independent_textures == cases[index].independent_textures
            });
            if fits {
                batches.last_mut().expect("a batch").push(index);
            } else {
                batches.push(vec![index]);
            }
        }
        let next = AtomicUsize::new(0);
        let workers: Vec<Vec<(usize, bool)>> = thread::scope(|scope| {
            let handles: Vec<_> = (0..thread::available_parallelism().map_or(2, usize::from))
                .map(|worker| {
                    let (batches, next) = (&batches, &next);
                    scope.spawn(move || {
                        let mut answers = Vec::new();
                        while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                            self.judge(cases, batch, worker, &mut answers);
                        }
                        answers
                    })
                })
                .collect();
            handles.into_iter().map(|handle| handle.join().expect("a worker that ends")).collect()
        });
        let mut verdicts = vec![false; cases.len()];
        for (index, verdict) in workers.into_iter().flatten() {
            verdicts[index] = verdict;
        }
        verdicts
    }

    /// Judges the cases of one batch and appends the verdicts to `answers`.
    fn judge(&self, cases: &[Case], batch: &[usize], worker: usize, answers: &mut Vec<(usize, bool)>) {
        let mut pending: Vec<Vec<usize>> = vec![batch.to_vec()];
        while let Some(batch) = pending.pop() {
            if batch.is_empty() {
                continue;
            }
            let chosen: Vec<Case> = batch.iter().map(|&index| cases[index].clone()).collect();
            let (text, lines) = module_text(&chosen);
            let file = self.scratch.join(format!("{worker}.ptx"));
            let Some(bad_lines) = self.compile(&file, &text, chosen[0].platform.target) else {
                answers.extend(batch.iter().map(|&index| (index, true)));
                continue;
            };
            let (rejected, rest): (Vec<usize>, Vec<usize>) =
                (0..batch.len()).partition(|&position| bad_lines.contains(&lines[position]) || bad_lines.contains(&(lines[position] + 1)));
            if rejected.is_empty() {
                if batch.len() == 1 {
                    answers.push((batch[0], false));
                } else {
                    let (left, right) = batch.split_at(batch.len() / 2);
                    pending.push(left.to_vec());
                    pending.push(right.to_vec());
                }
                continue;
            }
            answers.extend(rejected.iter().map(|&position| (batch[position], false)));
            pending.push(rest.into_iter().map(|position| batch[position]).collect());
        }
    }

    /// Compiles a module; returns `None` if ptxas accepts it, otherwise the lines in its errors.
    fn compile(&self, file: &Path, text: &str, target: Target) -> Option<Vec<u32>> {
        if fs::write(file, text).is_err() {
            return Some(Vec::new());
        }
        // Some invalid instructions make ptxas allocate memory endlessly.
        let output = Command::new("sh")
            .args(["-c", "ulimit -v 4000000; exec timeout 20 \"$0\" \"$@\""])
            .arg(&self.ptxas)
            .arg(format!("-arch={}", architecture(target)))
            .args(["-O0", "-c"])
            .arg(file)
            .args(["-o", "/dev/null"])
            .output();
        let Ok(output) = output else { return Some(Vec::new()) };
        if output.status.success() {
            return None;
        }
        let messages = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let errors = messages.lines().filter(|line| line.contains("error") || line.contains("fatal"));
        Some(errors.filter_map(|line| line.split(", line ").nth(1)?.split(';').next()?.trim().parse().ok()).collect())
    }
}

impl Drop for Oracle {
    fn drop(&mut self) {
        // Leftovers in the temporary folder do no harm.
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Returns the architecture to compile for. ptxas 13 starts at sm_75, does not know sm_82, and calls sm_101 sm_110.
fn architecture(target: Target) -> Target {
    let number = match target.number() {
        101 => 110,
        82 => 86,
        number => number.max(75),
    };
    Target::new(number, target.suffix()).unwrap_or(target)
}
