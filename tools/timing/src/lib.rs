//! Compares the predictions of `oriole_sim::timing` with measurements: rank correlation and ratios.

pub mod strategies;

use std::path::Path;

use oriole_driver::{Options, compile};
use oriole_isa::Target;
use oriole_kernel_test::KernelTest;
use oriole_sim::kernel_test::Setup;
use oriole_sim::sass::Code;
use oriole_sim::timing::{Effort, Estimate, estimate};

/// The measured time of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Measurement {
    pub kernel: String,
    pub compiler: String,
    pub microseconds: f64,
    pub clock_mhz: f64,
}

impl Measurement {
    /// Parses the output of `measure.py`.
    pub fn parse(text: &str) -> Result<Vec<Measurement>, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        lines
            .map(|line| {
                let fields: Vec<&str> = line.split('\t').collect();
                let number =
                    |at: usize| fields.get(at).and_then(|text: &&str| text.parse().ok()).ok_or_else(|| format!("`{line}`: no number"));
                Ok(Measurement {
                    kernel: fields[0].to_owned(),
                    compiler: fields.get(1).copied().unwrap_or_default().to_owned(),
                    microseconds: number(2)?,
                    clock_mhz: number(3)?,
                })
            })
            .collect()
    }

    /// Returns whether the kernel was written after the model had been fitted, so that it tests the model.
    pub fn is_new(&self) -> bool {
        self.kernel.starts_with("new_")
    }

    pub fn cycles(&self) -> f64 {
        self.microseconds * self.clock_mhz
    }
}

/// Reads a kernel test; also returns the text of the file.
pub fn read_test(path: &Path) -> Result<(KernelTest, String), String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let test = oriole_kernel_test::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok((test, text))
}

/// Compiles a module with Oriole to a cubin.
pub fn compile_ours(text: &str, target: Target) -> Result<Vec<u8>, String> {
    let module = oriole_ptx::check(text.as_bytes(), &oriole_ptx::Options::default()).module;
    let compiled = compile(&[&module], &Options::new(target));
    compiled.map(|compiled| compiled.cubin).map_err(|errors| errors.iter().map(|error| format!("{error:?}")).collect::<Vec<_>>().join("; "))
}

/// Predicts the time of a kernel test's launch.
pub fn predict(test: &KernelTest, cubin: &[u8], effort: &Effort) -> Result<Estimate, String> {
    let code = Code::load(cubin).map_err(|error| error.to_string())?;
    let mut setup = Setup::new(test);
    estimate(&code, &setup.launch, &mut setup.memory, effort).map_err(|failure| failure.to_string())
}

/// Agreement of predictions and measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Agreement {
    pub count: usize,
    /// Spearman's rank correlation.
    pub rank_correlation: f64,
    /// Geometric mean of predicted divided by measured time.
    pub mean_ratio: f64,
    /// Geometric standard deviation of the ratio.
    pub spread: f64,
    /// Share of predictions within 25% of the measurement, and within a factor of two.
    pub within_quarter: f64,
    pub within_double: f64,
}

impl Agreement {
    /// Computes the agreement of pairs of predicted and measured values.
    pub fn of(pairs: &[(f64, f64)]) -> Agreement {
        let count = pairs.len().max(1) as f64;
        let logarithms: Vec<f64> = pairs.iter().map(|(predicted, measured)| (predicted / measured).ln()).collect();
        let mean = logarithms.iter().sum::<f64>() / count;
        let variance = logarithms.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
        let share = |bound: f64| logarithms.iter().filter(|value| value.abs() <= bound.ln()).count() as f64 / count;
        Agreement {
            count: pairs.len(),
            rank_correlation: rank_correlation(pairs),
            mean_ratio: mean.exp(),
            spread: variance.sqrt().exp(),
            within_quarter: share(1.25),
            within_double: share(2.0),
        }
    }
}

impl std::fmt::Display for Agreement {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:4} kernels: rank correlation {:.3}, predicted/measured {:.2} (spread x{:.2}), {:.0}% within 25%, {:.0}% within x2",
            self.count,
            self.rank_correlation,
            self.mean_ratio,
            self.spread,
            100.0 * self.within_quarter,
            100.0 * self.within_double
        )
    }
}

/// Computes Spearman's rank correlation. Equal values share the mean of their ranks.
pub fn rank_correlation(pairs: &[(f64, f64)]) -> f64 {
    let first = ranks(&pairs.iter().map(|pair| pair.0).collect::<Vec<f64>>());
    let second = ranks(&pairs.iter().map(|pair| pair.1).collect::<Vec<f64>>());
    let mean = (pairs.len() as f64 - 1.0) / 2.0;
    let product = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    product(&first, &second) / (product(&first, &first) * product(&second, &second)).sqrt()
}

/// Returns the ranks of values, counted from 0; equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |value: f64| values.iter().filter(|other| **other < value).count() as f64;
    let same = |value: f64| values.iter().filter(|other| **other == value).count() as f64;
    values.iter().map(|&value| below(value) + (same(value) - 1.0) / 2.0).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_agree_and_disagree() {
        assert!((rank_correlation(&[(1.0, 10.0), (2.0, 40.0), (3.0, 41.0)]) - 1.0).abs() < 1e-9);
        assert!((rank_correlation(&[(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)]) + 1.0).abs() < 1e-9);
        // By hand: ranks 1 2 3 4 against 1 2 4 3, 1 - 6 * 2 / (4 * 15) = 0.8.
        assert!((rank_correlation(&[(1.0, 1.0), (2.0, 2.0), (3.0, 4.0), (4.0, 3.0)]) - 0.8).abs() < 1e-9);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [1.5, 0.0, 1.5]);
    }

    #[test]
    fn ratios() {
        let agreement = Agreement::of(&[(2.0, 1.0), (1.0, 2.0)]);
        assert!((agreement.mean_ratio - 1.0).abs() < 1e-9 && (agreement.spread - 2.0).abs() < 1e-9);
        assert_eq!((agreement.within_quarter, agreement.within_double), (0.0, 1.0));
    }
}
