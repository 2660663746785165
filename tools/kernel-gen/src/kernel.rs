//! Builds a kernel test: parameters, launch shape, PTX body, expectations.
//!
//! Every kernel starts with the same prologue. `%i` is the index of the thread in the grid (x dimension only). `%NAME` holds each
//! parameter: the global address of a buffer, or the value of a scalar. The registers `%p<..>`, `%h<..>`, `%r<..>`, `%rd<..>`, `%f<..>`
//! and `%fd<..>` are declared if the body uses them.

use crate::ty::Ty;
use oriole_kernel_test::{Expectation, Expected, Fill, KernelTest, Parameter, ParameterValue, TensorMap, Tolerance};
use std::fmt::Write;

/// A generated test file.
pub struct Generated {
    /// Path below the folder of the tests, without extension.
    pub name: String,
    pub text: String,
}

pub struct Kernel {
    family: &'static str,
    name: String,
    about: String,
    version: &'static str,
    target: &'static str,
    module: String,
    attributes: String,
    registers: String,
    body: String,
    test: KernelTest,
    parameter_types: Vec<String>,
}

const REGISTER_FILES: [(&str, &str); 6] = [("%p", "pred"), ("%h", "b16"), ("%r", "b32"), ("%rd", "b64"), ("%f", "f32"), ("%fd", "f64")];
const REGISTERS_IN_FILE: usize = 64;

pub fn bits(values: impl IntoIterator<Item = u64>) -> Vec<Expected> {
    values.into_iter().map(Expected::Bits).collect()
}

impl Kernel {
    pub fn new(family: &'static str, name: impl Into<String>, about: impl Into<String>) -> Kernel {
        let name = name.into();
        Kernel {
            family,
            about: about.into(),
            version: "8.0",
            target: "sm_75",
            module: String::new(),
            attributes: String::new(),
            registers: String::new(),
            body: String::new(),
            test: KernelTest {
                kernel: name.clone(),
                grid: [1; 3],
                block: [1; 3],
                cluster: None,
                shared_bytes: 0,
                parameters: Vec::new(),
                references: Vec::new(),
                expectations: Vec::new(),
            },
            parameter_types: Vec::new(),
            name,
        }
    }

    pub fn platform(mut self, version: &'static str, target: &'static str) -> Kernel {
        self.version = version;
        self.target = target;
        self
    }

    pub fn threads(mut self, count: usize) -> Kernel {
        let block = [256, 128, 64, 32].into_iter().find(|block| count.is_multiple_of(*block)).unwrap_or(count);
        assert!(count.is_multiple_of(block), "{count} threads do not fill blocks of {block}");
        self.test.block = [block as u32, 1, 1];
        self.test.grid = [(count / block) as u32, 1, 1];
        self
    }

    pub fn shape(mut self, grid: [u32; 3], block: [u32; 3]) -> Kernel {
        self.test.grid = grid;
        self.test.block = block;
        self
    }

    /// Sets the cluster size of the launch.
    pub fn cluster(mut self, size: [u32; 3]) -> Kernel {
        self.test.cluster = Some(size);
        self
    }

    pub fn dynamic_shared(mut self, bytes: u32) -> Kernel {
        self.test.shared_bytes = bytes;
        self
    }

    /// Adds text before the kernel, such as variables and functions.
    pub fn module(mut self, text: &str) -> Kernel {
        self.module.push_str(text);
        self.module.push('\n');
        self
    }

    /// Adds directives between the parameters and the body.
    pub fn attributes(mut self, text: &str) -> Kernel {
        self.attributes.push_str(text);
        self.attributes.push('\n');
        self
    }

    pub fn registers(mut self, text: &str) -> Kernel {
        self.registers.push_str(text);
        self
    }

    pub fn buffer(mut self, name: &str, ty: Ty, registers: usize, fill: Fill) -> Kernel {
        let value = ParameterValue::Buffer { element: ty.element, count: registers * ty.lanes, fill };
        self.test.parameters.push(Parameter { name: name.to_owned(), value });
        self.parameter_types.push("u64".into());
        self
    }

    /// Adds a zeroed buffer that must hold these values after the launch.
    pub fn output(self, name: &str, ty: Ty, values: Vec<Expected>) -> Kernel {
        self.output_near(name, ty, Tolerance::Exact, values)
    }

    pub fn output_near(self, name: &str, ty: Ty, tolerance: Tolerance, values: Vec<Expected>) -> Kernel {
        let count = values.len() / ty.lanes;
        self.buffer(name, ty, count, Fill::zero()).expect(name, tolerance, values)
    }

    pub fn expect(mut self, name: &str, tolerance: Tolerance, values: Vec<Expected>) -> Kernel {
        self.test.expectations.push(Expectation { parameter: name.to_owned(), tolerance, values });
        self
    }

    pub fn scalar(mut self, name: &str, ty: Ty, bits: u64) -> Kernel {
        let ty = if ty.lanes == 1 { ty } else { crate::ty::B32 };
        self.test.parameters.push(Parameter { name: name.to_owned(), value: ParameterValue::Scalar { element: ty.element, bits } });
        self.parameter_types.push(ty.memory.to_owned());
        self
    }

    /// Adds a parameter passed by value; the body reads it with `ld.param`.
    pub fn bytes(mut self, name: &str, align: usize, bytes: Vec<u8>) -> Kernel {
        self.parameter_types.push(format!("align {align} .b8"));
        self.test.parameters.push(Parameter { name: name.to_owned(), value: ParameterValue::Bytes(bytes) });
        self
    }

    /// Adds a tensor map of a buffer; the body takes its address.
    pub fn tensor_map(mut self, name: &str, map: TensorMap) -> Kernel {
        self.parameter_types.push("align 64 .b8".into());
        self.test.parameters.push(Parameter { name: name.to_owned(), value: ParameterValue::TensorMap(map) });
        self
    }

    pub fn body(mut self, text: &str) -> Kernel {
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
            let indent = if line.ends_with(':') { "" } else { "    " };
            writeln!(self.body, "{indent}{line}").expect("writing to a string");
        }
        self
    }

    fn prologue(&self) -> String {
        let mut out = String::new();
        for (parameter, ty) in self.test.parameters.iter().zip(&self.parameter_types) {
            let name = &parameter.name;
            match parameter.value {
                ParameterValue::Bytes(_) | ParameterValue::TensorMap(_) => {}
                ParameterValue::Buffer { .. } => {
                    let _ = writeln!(out, "    .reg .u64 %{name};\n    ld.param.u64 %{name}, [{name}];");
                    let _ = writeln!(out, "    cvta.to.global.u64 %{name}, %{name};");
                }
                ParameterValue::Scalar { .. } | ParameterValue::Image(_) | ParameterValue::Sampler(_) => {
                    let _ = writeln!(out, "    .reg .{ty} %{name};\n    ld.param.{ty} %{name}, [{name}];");
                }
            }
        }
        out.push_str("    .reg .u32 %i, %block;\n    .reg .u64 %at;\n");
        if self.test.grid[0] == 1 {
            out.push_str("    mov.u32 %i, %tid.x;\n");
        } else {
            out.push_str("    mov.u32 %i, %tid.x;\n    mov.u32 %block, %ctaid.x;\n");
            let _ = writeln!(out, "    mad.lo.u32 %i, %block, {}, %i;", self.test.block[0]);
        }
        out
    }

    fn standard_registers(&self) -> String {
        let mut out = String::new();
        for (stem, ty) in REGISTER_FILES {
            let used = self.body.match_indices(stem).any(|(at, _)| self.body[at + stem.len()..].starts_with(|c: char| c.is_ascii_digit()));
            if used {
                let _ = writeln!(out, "    .reg .{ty} {stem}<{REGISTERS_IN_FILE}>;");
            }
        }
        out
    }

    pub fn finish(self) -> Generated {
        let parameters: Vec<String> = self
            .test
            .parameters
            .iter()
            .zip(&self.parameter_types)
            .map(|(parameter, ty)| match &parameter.value {
                ParameterValue::Bytes(bytes) => format!("    .param .{ty} {}[{}]", parameter.name, bytes.len()),
                ParameterValue::TensorMap(_) => format!("    .param .{ty} {}[128]", parameter.name),
                _ => format!("    .param .{ty} {}", parameter.name),
            })
            .collect();
        let mut text = self.test.header(&self.about);
        let read_back = oriole_kernel_test::parse(&text).unwrap_or_else(|message| panic!("{}: {message}", self.name));
        assert!(inputs(&read_back) == inputs(&self.test), "{}: the header changes the inputs", self.name);
        let _ = write!(text, "\n.version {}\n.target {}\n.address_size 64\n\n", self.version, self.target);
        if !self.module.is_empty() {
            let _ = writeln!(text, "{}", self.module);
        }
        let _ = write!(text, ".visible .entry {}(\n{}\n)\n{}{{\n", self.test.kernel, parameters.join(",\n"), self.attributes);
        text.push_str(&self.standard_registers());
        for line in self.registers.lines() {
            let _ = writeln!(text, "    {}", line.trim());
        }
        text.push_str(&self.prologue());
        text.push('\n');
        text.push_str(&self.body);
        if !self.body.trim_end().ends_with("ret;") && !self.body.trim_end().ends_with("exit;") {
            text.push_str("    ret;\n");
        }
        text.push_str("}\n");
        Generated { name: format!("{}/{}", self.family, self.name), text }
    }
}

/// Returns the contents of all buffers before the launch.
fn inputs(test: &KernelTest) -> Vec<Vec<u8>> {
    let bytes = |parameter: &Parameter| match &parameter.value {
        ParameterValue::Buffer { element, count, fill } => Some(KernelTest::initial_bytes(*element, *count, fill)),
        _ => None,
    };
    test.parameters.iter().filter_map(bytes).collect()
}

/// Returns code that loads element `%i` of a buffer.
pub fn load(ty: Ty, register: &str, buffer: &str) -> String {
    format!("mad.wide.u32 %at, %i, {}, %{buffer};\nld.global.{} {register}, [%at];\n", ty.bytes(), ty.memory)
}

/// Returns code that stores element `%i` of a buffer.
pub fn store(ty: Ty, register: &str, buffer: &str) -> String {
    format!("mad.wide.u32 %at, %i, {}, %{buffer};\nst.global.{} [%at], {register};\n", ty.bytes(), ty.memory)
}
