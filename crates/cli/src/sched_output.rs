//! Scheduling reports of `oriole compile`: the options, and where each report is printed.

use clap::Args;
use oriole_driver::account::{DistanceKind, DistanceStatistics, LatencyCase, LoopMetrics, StatisticsFigure};
use oriole_driver::{Reports, SchedulingReport};
use oriole_ptxas::file_name::unescape;
use serde_json::{Map, Value, json};

use crate::output::write_file;
use crate::print;

/// The highest level of guidance.
const MOST_GUIDANCE: i64 = 4;

#[derive(Args)]
pub struct SchedulingOutput {
    /// Print statistics of each function, before and after register allocation, to standard error; `=worst` or `=average` adds a
    /// line with the latency of that case
    #[arg(long, value_name = "CASE", num_args = 0..=1, require_equals = true, default_missing_value = "neither", value_parser = parse_case)]
    sched_stats: Option<LatencyCase>,
    /// Print the final schedule to standard error: 1 blocks, 2 also the register target, 3 hidden latencies, 4 loops
    #[arg(long, value_name = "LEVEL", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=MOST_GUIDANCE))]
    sched_guidance: u8,
    /// Print every pick of the scheduler, the runner-up and the reason, to standard error or into a file
    #[arg(long, value_name = "FILE", num_args = 0..=1, require_equals = true, default_missing_value = "-")]
    sched_trace: Option<String>,
    /// Of this function only; may be given several times
    #[arg(long, value_name = "FUNCTION")]
    sched_trace_function: Vec<String>,
    /// Write the number of instructions and registers of each function into the cubin, as a note
    #[arg(long)]
    sched_record: bool,
}

fn parse_case(name: &str) -> Result<LatencyCase, String> {
    match name {
        "neither" => Ok(LatencyCase::Neither),
        "worst" => Ok(LatencyCase::Worst),
        "average" => Ok(LatencyCase::Average),
        _ => Err("expected worst or average".to_owned()),
    }
}

impl SchedulingOutput {
    /// Returns the data that the compiler has to collect for the reports.
    pub fn reports(&self, json: bool) -> Reports {
        Reports {
            figures: json || self.sched_stats.is_some() || self.sched_guidance > 0,
            trace: self.sched_trace.is_some(),
            traced_functions: self.sched_trace_function.clone(),
            record: self.sched_record,
            ..Reports::default()
        }
    }

    /// Returns whether the options print reports.
    pub fn wants_report(&self) -> bool {
        self.sched_stats.is_some() || self.sched_guidance > 0 || self.sched_trace.is_some()
    }

    /// Returns the name of a given option that makes sense for a single file only.
    pub fn single_file_option(&self) -> Option<&'static str> {
        self.sched_trace.as_ref().filter(|file| *file != "-").map(|_| "--sched-trace=FILE")
    }

    /// Returns the file that the trace goes to; `None` if there is none.
    pub fn trace_file(&self) -> Option<&str> {
        self.sched_trace.as_deref()
    }

    /// Prints the requested reports, one function after the other. The error is a message for the user.
    pub fn print(&self, reports: &[SchedulingReport]) -> Result<(), String> {
        let mut text = String::new();
        for report in reports {
            if let Some(case) = self.sched_stats {
                text.push_str(&report.statistics(case));
            }
            text.push_str(&report.guidance(self.sched_guidance));
        }
        if let Some(file) = &self.sched_trace {
            let mut trace = String::new();
            for report in reports.iter().filter(|report| !report.trace.is_empty()) {
                trace.push_str(&format!("{}\n{}", report.name, report.trace));
            }
            match file.as_str() {
                "-" => text.push_str(&trace),
                _ => write_file(unescape(file), trace.as_bytes()).map_err(|error| format!("{file}: {error}"))?,
            }
        }
        print::error(text.as_bytes());
        Ok(())
    }
}

fn number(figure: StatisticsFigure) -> Value {
    match figure {
        StatisticsFigure::Count(count) => json!(count),
        StatisticsFigure::Ratio(ratio) => json!(ratio),
    }
}

fn fields(figures: &[(String, StatisticsFigure)]) -> Value {
    Value::Object(figures.iter().map(|(name, figure)| (name.clone(), number(*figure))).collect())
}

/// Formats the distances of one latency category.
fn hiding((category, found): (DistanceKind, DistanceStatistics)) -> (String, Value) {
    let value = json!({
        "num": found.count,
        "min": found.least,
        "max": found.most,
        "avg": found.average(),
        "not_read_in_block": found.unread_in_block,
    });
    (category.name().to_owned(), value)
}

fn one_loop(metrics: &LoopMetrics) -> Value {
    json!({
        "header": format!("{:?}", metrics.header),
        "depth": metrics.depth,
        "cycles": metrics.cycles,
        "instructions": metrics.instructions,
        "blocks": metrics.blocks,
        "loads": metrics.loads,
        "stores": metrics.stores,
        "live_registers": metrics.live,
    })
}

/// Returns the scheduling statistics of a function as JSON.
pub fn json(report: &SchedulingReport) -> Value {
    let target = report.target.map(|target| {
        json!({
            "registers": target.registers,
            "live": target.live,
            "given": target.allocated,
            "free": target.max_for_occupancy,
            "limit": target.bounds.limit,
            "warps_kept": target.bounds.occupancy_percent,
            "warps_per_scheduler": target.warps,
            "blocks": target.blocks_and_threads.map(|(blocks, _)| blocks),
        })
    });
    let hidden: Map<String, Value> = report.latency_distances().map(hiding).collect();
    json!({
        "target": target,
        "before_allocation": fields(&report.before),
        "after_allocation": fields(&report.after),
        "latency_hiding": hidden,
        "loops": report.loops().iter().map(one_loop).collect::<Vec<Value>>(),
    })
}
