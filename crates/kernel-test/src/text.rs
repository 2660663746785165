//! Parser and printer of the header: lines `// key: value`, continued by lines that start with `//  `.

use crate::{
    Element, Expectation, Expected, Fill, Image, KernelTest, Parameter, ParameterValue, Reference, ReferenceValue, Sampler, Segment,
    Source, TensorMap, Tolerance,
};
use std::fmt::Write;

/// The first line of every kernel test.
pub const FIRST_LINE: &str = "// kernel-test 1";
/// Maximum line length of printed headers, in characters.
const WIDTH: usize = 116;
/// Limit on the total number of elements of all buffers of a test, so that a header cannot request arbitrary amounts of memory.
const MOST_ELEMENTS: usize = 1 << 26;
/// Limits on the grid size and the block size in each dimension, as for all GPUs since sm_30.
const MOST_BLOCKS: [u32; 3] = [i32::MAX as u32, 0xffff, 0xffff];
const MOST_THREADS: [u32; 3] = [1024, 1024, 64];
const MOST_CLUSTER_BLOCKS: [u32; 3] = [16; 3];
/// Limit on the dynamic shared memory of a block, in bytes.
const MOST_SHARED_BYTES: u32 = 1 << 20;
/// The word for expected values that the interpreter computes.
const INTERPRETER: &str = "interpreter";

/// Parses the header of a file.
pub fn parse(text: &str) -> Result<KernelTest, String> {
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some(FIRST_LINE) {
        return Err(format!("the first line is not `{FIRST_LINE}`"));
    }
    let mut test = KernelTest {
        kernel: String::new(),
        grid: [1; 3],
        block: [1; 3],
        cluster: None,
        shared_bytes: 0,
        parameters: Vec::new(),
        references: Vec::new(),
        expectations: Vec::new(),
    };
    for entry in entries(lines) {
        read_entry(&mut test, &entry).map_err(|message| format!("{message} in `{}`", shortened(&entry)))?;
    }
    if test.kernel.is_empty() {
        return Err("no kernel named".into());
    }
    if test.expectations.is_empty() {
        return Err("nothing expected".into());
    }
    Ok(test)
}

fn shortened(entry: &str) -> String {
    entry.chars().take(60).collect()
}

/// Joins continuation lines; stops at the first line that is not a comment.
fn entries<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut entries: Vec<String> = Vec::new();
    for line in lines.map_while(|line| line.strip_prefix("//")) {
        match entries.last_mut() {
            Some(entry) if line.starts_with("  ") => {
                entry.push(' ');
                entry.push_str(line.trim());
            }
            _ => entries.push(line.trim().to_owned()),
        }
    }
    entries
}

/// Parses one entry and adds it to the test.
fn read_entry(test: &mut KernelTest, entry: &str) -> Result<(), String> {
    let (key, value) = entry.split_once(':').ok_or("no colon")?;
    let value = value.trim();
    let words: Vec<&str> = key.split_whitespace().collect();
    match words.as_slice() {
        ["about"] => {}
        ["kernel"] if value.split_whitespace().count() == 1 => test.kernel = value.to_owned(),
        ["kernel"] => return Err("the name of a kernel is one word".to_owned()),
        ["grid"] => test.grid = read_shape(value, MOST_BLOCKS)?,
        ["block"] => test.block = read_shape(value, MOST_THREADS)?,
        ["cluster"] => test.cluster = Some(read_shape(value, MOST_CLUSTER_BLOCKS)?),
        ["shared"] => {
            let bytes: u32 = value.parse().map_err(|_| "no byte count")?;
            test.shared_bytes = Some(bytes).filter(|&bytes| bytes <= MOST_SHARED_BYTES).ok_or("more shared memory than any GPU has")?;
        }
        ["param", name] => {
            let value = read_parameter(value)?;
            if let ParameterValue::TensorMap(map) = &value {
                check_tensor(test, map)?;
            }
            test.parameters.push(Parameter { name: (*name).to_owned(), value });
            check_elements(test)?;
        }
        ["reference", name] => {
            let value = match read_parameter(value)? {
                ParameterValue::Image(image) => ReferenceValue::Image(image),
                ParameterValue::Sampler(sampler) => ReferenceValue::Sampler(sampler),
                _ => return Err("a reference is a texture, a surface or a sampler".into()),
            };
            test.references.push(Reference { name: (*name).to_owned(), value });
            check_elements(test)?;
        }
        ["expect", name] => {
            let (_, count) = test.buffer(name).ok_or("no such buffer")?;
            test.expectations.push(read_expectation(name, value, count)?);
        }
        _ => return Err("unknown key".into()),
    }
    Ok(())
}

/// Fails if the buffers of a test have more elements than the limit.
fn check_elements(test: &KernelTest) -> Result<(), String> {
    let counts = test.parameters.iter().filter_map(|parameter| match parameter.value {
        ParameterValue::Buffer { count, .. } => Some(count),
        ParameterValue::Image(ref image) => Some(image.count()),
        _ => None,
    });
    let of_references = test.references.iter().map(|reference| match reference.value {
        ReferenceValue::Image(ref image) => image.count(),
        ReferenceValue::Sampler(_) => 0,
    });
    match counts.chain(of_references).fold(0, usize::saturating_add) {
        total if total > MOST_ELEMENTS => Err(format!("the buffers have {total} elements, more than {MOST_ELEMENTS},")),
        _ => Ok(()),
    }
}

/// Fails if the buffer of a tensor map is not an earlier parameter or is too small.
fn check_tensor(test: &KernelTest, map: &TensorMap) -> Result<(), String> {
    match test.buffer(&map.buffer) {
        None => Err("no such buffer before the tensor map".into()),
        Some((element, count)) if (element.bytes() * count) as u64 >= map.bytes() => Ok(()),
        Some(_) => Err("a tensor that is larger than its buffer".into()),
    }
}

/// Parses a grid, block or cluster size.
fn read_shape(text: &str, most: [u32; 3]) -> Result<[u32; 3], String> {
    let mut shape = [1; 3];
    for (i, word) in text.split_whitespace().enumerate() {
        let size: u32 = word.parse().map_err(|_| "a size is no number")?;
        let most = most.get(i).ok_or("more than three sizes")?;
        if size > *most {
            return Err(format!("a size of {size}, where GPUs have at most {most},"));
        }
        shape[i] = size;
    }
    Ok(shape)
}

/// Parses the value of a parameter: `f32[4] = FILL`, `bytes[3] = 01 02 ff`, `u16 = ffff`, `texture f32 8x8 clamp = FILL` or `sampler linear`.
fn read_parameter(text: &str) -> Result<ParameterValue, String> {
    if text.split_whitespace().next() == Some("sampler") {
        return Ok(ParameterValue::Sampler(Sampler::read(text)?));
    }
    let (kind, value) = text.split_once('=').ok_or("no `=`")?;
    let (kind, value) = (kind.trim(), value.trim());
    if kind.starts_with("tensormap ") {
        return Ok(ParameterValue::TensorMap(TensorMap::read(kind, value)?));
    }
    if kind.starts_with("texture ") || kind.starts_with("surface ") {
        return Ok(ParameterValue::Image(Image::read(kind, read_fill(value)?)?));
    }
    if let Some((name, count)) = kind.strip_suffix(']').and_then(|kind| kind.split_once('[')) {
        let count = count.parse().map_err(|_| "the count is no number")?;
        if name == "bytes" {
            return Ok(ParameterValue::Bytes(read_bytes(value, count)?));
        }
        let element = Element::from_name(name).ok_or("unknown element type")?;
        return Ok(ParameterValue::Buffer { element, count, fill: read_fill(value)? });
    }
    let element = Element::from_name(kind).ok_or("unknown type")?;
    Ok(ParameterValue::Scalar { element, bits: read_hex(value)? })
}

fn read_hex(text: &str) -> Result<u64, String> {
    u64::from_str_radix(text, 16).map_err(|_| format!("`{text}` is no hexadecimal number"))
}

fn read_bytes(text: &str, count: usize) -> Result<Vec<u8>, String> {
    let bytes: Result<Vec<u8>, String> =
        text.split_whitespace().map(|word| u8::from_str_radix(word, 16).map_err(|_| format!("`{word}` is no byte"))).collect();
    let bytes = bytes?;
    if bytes.len() == count { Ok(bytes) } else { Err(format!("{} bytes instead of {count}", bytes.len())) }
}

fn read_fill(text: &str) -> Result<Fill, String> {
    text.split_whitespace().map(read_segment).collect::<Result<_, _>>().map(Fill)
}

/// Parses one word of a fill, such as `random:7*100`.
fn read_segment(word: &str) -> Result<Segment, String> {
    let (body, count) = match word.split_once('*') {
        Some((body, count)) => (body, Some(count.parse::<usize>().map_err(|_| "a repeat count is no number")?)),
        None => (word, None),
    };
    let seed = |text: &str| text.parse().map_err(|_| format!("`{text}` is no seed"));
    let source = match body.split_once([':', '/']) {
        Some(("boundary", stride)) => Source::Boundary { stride: stride.parse().ok().filter(|&n| n > 0).ok_or("no stride")? },
        Some(("pick", text)) => Source::Pick { seed: seed(text)? },
        Some(("random", text)) => Source::Random { seed: seed(text)? },
        Some(("sized", text)) => Source::Sized { seed: seed(text)? },
        _ if body == "zero" => Source::Value(0),
        _ if body == "index" => Source::Index,
        _ => return Ok(Segment { source: Source::Value(read_hex(body)?), count: Some(count.unwrap_or(1)) }),
    };
    Ok(Segment { source, count })
}

/// Parses the expectation of a buffer with `count` elements: `interpreter`, or `TOLERANCE = VALUES`.
fn read_expectation(name: &str, text: &str, count: usize) -> Result<Expectation, String> {
    if text == INTERPRETER {
        let values = vec![Expected::Interpreter; count];
        return Ok(Expectation { parameter: name.to_owned(), tolerance: Tolerance::Exact, values });
    }
    let (how, values) = text.split_once('=').ok_or("no `=`")?;
    let mut tolerance = Tolerance::Exact;
    let words: Vec<&str> = how.split_whitespace().collect();
    for pair in words.chunks(2) {
        let (ulp, absolute, relative) = match tolerance {
            Tolerance::Near { ulp, absolute, relative } => (ulp, absolute, relative),
            _ => (0, 0.0, 0.0),
        };
        tolerance = match pair {
            ["exact"] => Tolerance::Exact,
            ["any", "order"] => Tolerance::AnyOrder,
            ["ulp", n] => Tolerance::Near { ulp: n.parse().map_err(|_| "no ulp count")?, absolute, relative },
            ["abs", x] => Tolerance::Near { ulp, absolute: x.parse().map_err(|_| "no absolute tolerance")?, relative },
            ["rel", x] => Tolerance::Near { ulp, absolute, relative: x.parse().map_err(|_| "no relative tolerance")? },
            _ => return Err("unknown tolerance".into()),
        };
    }
    let mut expected = Vec::with_capacity(count);
    for word in values.split_whitespace() {
        let (body, times) = match word.split_once('*') {
            Some((body, times)) => (body, times.parse::<usize>().map_err(|_| "a repeat count is no number")?),
            None => (word, 1),
        };
        let total = expected.len().saturating_add(times);
        if total > count {
            return Err(format!("{total} values or more expected of {count} elements"));
        }
        expected.extend(std::iter::repeat_n(read_expected(body)?, times));
    }
    if expected.len() != count {
        return Err(format!("{} values expected of {count} elements", expected.len()));
    }
    Ok(Expectation { parameter: name.to_owned(), tolerance, values: expected })
}

fn read_expected(body: &str) -> Result<Expected, String> {
    Ok(match body {
        "?" => Expected::Any,
        "nan" => Expected::Nan,
        INTERPRETER => Expected::Interpreter,
        _ => match body.split_once('|') {
            Some((a, b)) => Expected::Either(read_hex(a)?, read_hex(b)?),
            None => Expected::Bits(read_hex(body)?),
        },
    })
}

impl KernelTest {
    /// Returns the header as comment lines that [`parse`] accepts.
    pub fn header(&self, about: &str) -> String {
        let mut out = format!("{FIRST_LINE}\n");
        push_wrapped(&mut out, &format!("about: {about}"));
        push_wrapped(&mut out, &format!("kernel: {}", self.kernel));
        push_wrapped(&mut out, &format!("grid: {} {} {}", self.grid[0], self.grid[1], self.grid[2]));
        push_wrapped(&mut out, &format!("block: {} {} {}", self.block[0], self.block[1], self.block[2]));
        if let Some([x, y, z]) = self.cluster {
            push_wrapped(&mut out, &format!("cluster: {x} {y} {z}"));
        }
        if self.shared_bytes > 0 {
            push_wrapped(&mut out, &format!("shared: {}", self.shared_bytes));
        }
        for parameter in &self.parameters {
            push_wrapped(&mut out, &parameter.text());
        }
        for reference in &self.references {
            push_wrapped(&mut out, &reference.text());
        }
        for expectation in &self.expectations {
            push_wrapped(&mut out, &expectation.text());
        }
        out
    }
}

impl Parameter {
    fn text(&self) -> String {
        let value = match &self.value {
            ParameterValue::Buffer { element, count, fill } => format!("{}[{count}] = {}", element.name(), fill.text(*count)),
            ParameterValue::Scalar { element, bits } => format!("{} = {bits:x}", element.name()),
            ParameterValue::Bytes(bytes) => {
                let words: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
                format!("bytes[{}] = {}", bytes.len(), words.join(" "))
            }
            ParameterValue::TensorMap(map) => format!("{} = {}", map.text(), map.buffer),
            ParameterValue::Image(image) => image_text(image),
            ParameterValue::Sampler(sampler) => sampler_text(sampler),
        };
        format!("param {}: {value}", self.name)
    }
}

impl Reference {
    fn text(&self) -> String {
        let value = match &self.value {
            ReferenceValue::Image(image) => image_text(image),
            ReferenceValue::Sampler(sampler) => sampler_text(sampler),
        };
        format!("reference {}: {value}", self.name)
    }
}

/// Returns the text of a texture or surface in a header.
fn image_text(image: &Image) -> String {
    format!("{} = {}", image.text(), image.fill.text(image.count()))
}

/// Returns the text of a sampler in a header.
fn sampler_text(sampler: &Sampler) -> String {
    format!("sampler{}", sampler.words())
}

impl Fill {
    fn text(&self, count: usize) -> String {
        let mut left = count;
        let mut words = Vec::new();
        for segment in &self.0 {
            let length = segment.count.unwrap_or(left).min(left);
            left -= length;
            // A value without a count stands for one element, so a count is printed for a value that fills the rest.
            let counted = matches!(segment.source, Source::Value(bits) if bits != 0);
            let count = if counted { Some(length) } else { segment.count };
            words.push(Segment { count, ..segment.clone() }.text());
        }
        words.join(" ")
    }
}

impl Segment {
    fn text(&self) -> String {
        let body = match self.source {
            Source::Value(0) => "zero".to_owned(),
            Source::Value(bits) => format!("{bits:x}"),
            Source::Index => "index".to_owned(),
            Source::Boundary { stride } => format!("boundary/{stride}"),
            Source::Pick { seed } => format!("pick:{seed}"),
            Source::Random { seed } => format!("random:{seed}"),
            Source::Sized { seed } => format!("sized:{seed}"),
        };
        match (self.source, self.count) {
            (Source::Value(bits), Some(1)) if bits != 0 => body,
            (_, Some(count)) => format!("{body}*{count}"),
            (_, None) => body,
        }
    }
}

impl Expectation {
    fn text(&self) -> String {
        if self.tolerance == Tolerance::Exact && self.values.iter().all(|value| *value == Expected::Interpreter) {
            return format!("expect {}: {INTERPRETER}", self.parameter);
        }
        let how = match self.tolerance {
            Tolerance::Exact => "exact".to_owned(),
            Tolerance::AnyOrder => "any order".to_owned(),
            Tolerance::Near { ulp, absolute, relative } => {
                let absolute = if absolute == 0.0 { String::new() } else { format!(" abs {absolute:e}") };
                let relative = if relative == 0.0 { String::new() } else { format!(" rel {relative:e}") };
                format!("ulp {ulp}{absolute}{relative}")
            }
        };
        let mut out = format!("expect {}: {how} =", self.parameter);
        for run in self.values.chunk_by(|a, b| a == b) {
            let word = match run[0] {
                Expected::Bits(bits) => format!("{bits:x}"),
                Expected::Either(a, b) => format!("{a:x}|{b:x}"),
                Expected::Nan => "nan".to_owned(),
                Expected::Any => "?".to_owned(),
                Expected::Interpreter => INTERPRETER.to_owned(),
            };
            match run.len() {
                1 => write!(out, " {word}"),
                n => write!(out, " {word}*{n}"),
            }
            .expect("writing to a string");
        }
        out
    }
}

/// Appends an entry as comment lines of limited length.
fn push_wrapped(out: &mut String, text: &str) {
    let mut line = String::from("//");
    let mut first = true;
    for word in text.split(' ') {
        if !first && line.len() + 1 + word.len() > WIDTH {
            out.push_str(&line);
            out.push('\n');
            line = String::from("//  ");
        }
        line.push(' ');
        line.push_str(word);
        first = false;
    }
    out.push_str(&line);
    out.push('\n');
}
