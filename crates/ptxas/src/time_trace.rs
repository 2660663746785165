//! `--fdevice-time-trace FILE`: adds the times of the compilation to a trace in the format of Chrome's trace viewer.
//!
//! As in ptxas, the file must exist and contain an object with a list `traceEvents`; nvcc creates it. The events have ptxas' names: the whole
//! time, parsing, each function, and what follows. Each pass is an event of its own too. Times are in microseconds from the start.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

use oriole_driver::PassLog;
use serde_json::{Value, json};

/// Name of the list of events.
const EVENTS: &str = "traceEvents";

/// A trace file that was read.
pub struct TimeTrace {
    path: String,
    content: Value,
}

impl TimeTrace {
    /// Reads the file. The error is a fatal message.
    pub fn open(path: &str) -> Result<TimeTrace, String> {
        let text = fs::read_to_string(path).map_err(|_| format!("File '{path}' could not be opened"))?;
        let content: Value = serde_json::from_str(&text).unwrap_or_default();
        if content.get(EVENTS).is_none_or(|events| !events.is_array()) {
            return Err(format!("Input file '{path}' not in expected format"));
        }
        Ok(TimeTrace { path: path.to_owned(), content })
    }

    /// Adds the events of a compilation and writes the file. `input` is the name of the first input; `started`, `parsed` and `compiled` are the
    /// times at which the call started, and at which parsing and code generation ended.
    pub fn write(mut self, input: &str, [started, parsed, compiled]: [Instant; 3], log: &PassLog) -> Result<(), String> {
        let process = std::process::id();
        let event = |name: &str, about: &str, thread: usize, start: Duration, length: Duration| {
            let (start, length) = (start.as_micros() as u64, length.as_micros() as u64);
            json!({ "args": { "name": about }, "dur": length, "name": name, "ph": "X", "pid": process, "tid": thread, "ts": start })
        };
        let (parse_time, code_time) = (parsed - started, compiled - started);
        let mut events = vec![event("PTX parsing and setup time", "", 0, Duration::ZERO, parse_time)];
        // Functions are compiled at the same time, so each has a row of its own in the viewer.
        let mut functions: BTreeMap<&str, (usize, Duration)> = BTreeMap::new();
        for run in &log.runs {
            let next = functions.len();
            let (thread, spent) = functions.entry(&run.function).or_insert((next, Duration::ZERO));
            events.push(event(run.pass, &run.function, *thread, parse_time + *spent, run.time));
            *spent += run.time;
        }
        for (function, (thread, spent)) in functions {
            events.push(event("Optimizing compilation unit", function, thread, parse_time, spent));
        }
        let end = started.elapsed();
        events.push(event("Post processing", "", 0, code_time, end.saturating_sub(code_time)));
        events.push(event("Total PTXAS Time", input, 0, Duration::ZERO, end));
        if let Some(list) = self.content.get_mut(EVENTS).and_then(Value::as_array_mut) {
            list.extend(events);
        }
        fs::write(&self.path, self.content.to_string()).map_err(|error| format!("File '{}' could not be written: {error}", self.path))
    }
}
