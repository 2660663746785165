//! `ptxas --fdevice-time-trace`: the file that nvcc creates gets the events of the compilation.

use std::fs;
use std::path::Path;

use crate::common::{folder, run};

const PTXAS: &str = env!("CARGO_BIN_EXE_ptxas");

#[test]
fn events_are_added_to_the_trace() {
    let folder = folder("time_trace");
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/block_sum.ptx").display().to_string();
    let arguments = ["-arch=sm_90a", &example, "-o", "out.cubin", "--fdevice-time-trace", "trace.json"];
    // ptxas 13.0.88 has the same messages.
    let done = run(PTXAS, &folder, &arguments, "");
    assert_eq!((done.code, done.stderr.trim()), (Some(255), "ptxas fatal   : File 'trace.json' could not be opened"));
    fs::write(folder.join("trace.json"), "[\n").unwrap();
    let done = run(PTXAS, &folder, &arguments, "");
    assert_eq!(done.code, Some(255));
    assert!(done.stderr.contains("'trace.json' not in expected format"), "{}", done.stderr);
    fs::write(folder.join("trace.json"), "{\"traceEvents\":[{\"name\":\"nvcc\"}],\"other\":1}").unwrap();
    for calls in 1..=2 {
        let done = run(PTXAS, &folder, &arguments, "");
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        let trace: serde_json::Value = serde_json::from_str(&fs::read_to_string(folder.join("trace.json")).unwrap()).unwrap();
        let events = trace["traceEvents"].as_array().unwrap();
        assert_eq!((events[0]["name"].as_str(), trace["other"].as_u64()), (Some("nvcc"), Some(1)));
        for name in ["Total PTXAS Time", "PTX parsing and setup time", "Optimizing compilation unit", "Post processing", "allocate"] {
            assert_eq!(events.iter().filter(|event| event["name"] == name).count(), calls, "{name}");
        }
        let unit = events.iter().find(|event| event["name"] == "Optimizing compilation unit").unwrap();
        assert!(unit["args"]["name"] == "block_sum" && unit["ph"] == "X" && unit["dur"].is_u64() && unit["ts"].is_u64(), "{unit}");
    }
}
