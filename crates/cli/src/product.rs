//! The result of `oriole compile` for one file: the cubin and the messages about it. It can be stored in the cache.

use oriole_driver::{Compiled, FunctionReport, SchedulingReport};
use oriole_ptx::source::{LineIndex, Source};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::sched_output;

/// A compiled file. No text contains the name of the file, because files with the same contents share an entry of the cache.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
pub struct Product {
    #[serde(skip)]
    pub cubin: Vec<u8>,
    /// Whether the checker has findings, which are warnings.
    pub has_findings: bool,
    warnings: Vec<String>,
    /// Line, if known, and text of each remark.
    remarks: Vec<(Option<u32>, String)>,
    functions: Vec<ProductFunction>,
}

/// What is printed about a function.
#[derive(Serialize, Deserialize, PartialEq, Eq, Debug)]
struct ProductFunction {
    /// Lines of `-v`.
    lines: Vec<String>,
    /// The object of `--json`, if requested. It is text, so that numbers are not converted twice.
    json: Option<String>,
}

impl Product {
    /// Collects the messages about a compiled file.
    pub fn new(source: &Source<'_>, compiled: Compiled, has_findings: bool, wants_json: bool) -> Product {
        let functions = compiled.functions.iter().zip(&compiled.scheduling).map(|(function, scheduling)| ProductFunction {
            lines: lines(function, scheduling),
            json: wants_json.then(|| json(function, scheduling).to_string()),
        });
        let functions = functions.collect();
        let warnings = compiled.functions.iter().flat_map(|function| &function.warnings).cloned().collect();
        let remarks = remarks(source, &compiled);
        Product { cubin: compiled.cubin, has_findings, warnings, remarks, functions }
    }

    /// Prints warnings, remarks, and the reports about functions that the options request.
    pub fn print(&self, name: &str, verbose: bool) {
        for warning in &self.warnings {
            errln!("warning: {name}: {warning}");
        }
        for (line, text) in &self.remarks {
            let line = line.map_or(String::new(), |line| format!(":{line}"));
            errln!("remark: {name}{line}: {text}");
        }
        for function in &self.functions {
            if let Some(object) = &function.json {
                outln!("{{\"file\":{},{}", Value::from(name), object.trim_start_matches('{'));
            } else if verbose {
                function.lines.iter().for_each(|line| errln!("{name}: {line}"));
            }
        }
    }

    /// Returns the bytes to store in the cache: the length of the texts, the texts as JSON, and the cubin.
    pub fn write(&self) -> Vec<u8> {
        // The structure has no maps with keys that are not text, so that conversion cannot fail.
        let texts = serde_json::to_vec(self).unwrap_or_default();
        [&(texts.len() as u64).to_le_bytes(), &texts[..], &self.cubin].concat()
    }

    /// Reads what [`Product::write`] returned.
    pub fn read(bytes: &[u8]) -> Option<Product> {
        let (length, rest) = bytes.split_first_chunk()?;
        let (texts, cubin) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
        let product: Product = serde_json::from_slice(texts).ok()?;
        Some(Product { cubin: cubin.to_vec(), ..product })
    }
}

/// Returns the remarks about waits and fences that the compiler inserted.
fn remarks(source: &Source<'_>, compiled: &Compiled) -> Vec<(Option<u32>, String)> {
    let mut remarks = compiled.functions.iter().flat_map(|function| &function.remarks).peekable();
    if remarks.peek().is_none() {
        return Vec::new();
    }
    let lines = LineIndex::new(source.text);
    remarks.map(|remark| (remark.offset.map(|offset| lines.line_column(offset).0), remark.text.to_owned())).collect()
}

/// Returns the lines of `-v` about a function.
fn lines(function: &FunctionReport, scheduling: &SchedulingReport) -> Vec<String> {
    let mut lines = vec![format!(
        "{}: {} registers, {} barriers, {} bytes stack, {} bytes shared, {} instructions",
        function.name, function.registers, function.barriers, function.stack_bytes, function.shared_bytes, function.instructions
    )];
    if function.spill_store_bytes + function.spill_load_bytes > 0 {
        lines.push(format!(
            "{}: registers are spilled to local memory: {} bytes of stores, {} bytes of loads",
            function.name, function.spill_store_bytes, function.spill_load_bytes
        ));
    }
    lines.extend(scheduling.target.as_ref().map(|target| format!("{}: {target}", function.name)));
    lines
}

/// Returns the object of `--json` about a function.
fn json(function: &FunctionReport, scheduling: &SchedulingReport) -> Value {
    serde_json::json!({
        "function": function.name,
        "kernel": function.is_kernel,
        "registers": function.registers,
        "barriers": function.barriers,
        "stack_bytes": function.stack_bytes,
        "spill_store_bytes": function.spill_store_bytes,
        "spill_load_bytes": function.spill_load_bytes,
        "shared_bytes": function.shared_bytes,
        "instructions": function.instructions,
        "scheduler": function.plan.map(|plan| plan.backend.name()),
        "schedule_mode": function.plan.map(|plan| plan.mode.name()),
        "scheduling": sched_output::json(scheduling),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let function = ProductFunction { lines: vec!["k: 8 registers".into()], json: Some("{\"ratio\":0.1}".into()) };
        let product = Product {
            cubin: b"\x7fELF\0".to_vec(),
            has_findings: true,
            warnings: vec!["w".into()],
            remarks: vec![(Some(3), "r".into()), (None, "s".into())],
            functions: vec![function],
        };
        let bytes = product.write();
        assert_eq!(Product::read(&bytes), Some(product));
        assert_eq!(Product::read(&bytes[..9]), None);
        assert_eq!(Product::read(&[]), None);
    }
}
