//! Compiled programs.

use oriole_cubin::info::AttributeCode;
use oriole_cubin::section::Content;
use oriole_cubin::{CubinIndex, FileType, Image, ImageKind};
use oriole_driver::FunctionReport;
use oriole_isa::SystemLayout;
use oriole_sass::control::ControlListing;
use oriole_sass::labels::Labels;
use oriole_sass::program::{Program, SIZE};

use crate::diagnostic::Diagnostic;
use crate::error::{Error, ErrorKind};
use crate::explanation::Explanation;
use crate::finding::{Finding, Verifier};
use crate::work::{self, Stack};

/// A compiled program: the bytes of a cubin file, and the properties of its functions.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cubin {
    bytes: Vec<u8>,
    arch: String,
    is_relocatable: bool,
    functions: Vec<Function>,
    warnings: Vec<Diagnostic>,
    remarks: Vec<String>,
}

/// A kernel or device function of a [`Cubin`].
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Function {
    /// Its name.
    pub name: String,
    /// Whether it is a kernel.
    pub is_kernel: bool,
    /// Registers of each thread.
    pub registers: u32,
    /// Named barriers.
    pub barriers: u32,
    /// Bytes of the stack frame in local memory.
    pub stack_bytes: u32,
    /// Bytes of static shared memory, without the part that the system reserves.
    pub shared_bytes: u64,
    /// Bytes of machine code, padding included.
    pub code_bytes: usize,
    /// Spilled registers; `None` if the cubin was read from a file, which does not say.
    pub spills: Option<Spills>,
    /// Machine instructions without padding; `None` if the cubin was read from a file.
    pub instructions: Option<usize>,
}

/// Accesses to spilled registers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Spills {
    /// Bytes that spill stores write.
    pub store_bytes: u32,
    /// Bytes that spill loads read.
    pub load_bytes: u32,
}

/// What [`Cubin::listing`] prints.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Listing {
    /// The kernel or function to print; all of them if there is none.
    pub function: Option<String>,
    /// Whether to print control words, in the syntax that `oriole asm` reads.
    pub control: bool,
}

fn wrong_file(error: impl ToString) -> Error {
    Error::new(ErrorKind::InvalidFile, error.to_string())
}

impl Cubin {
    /// Reads the cubin in a file: a cubin, a fatbin, an object file, an executable or a library. If the file has several cubins, `arch`
    /// chooses one.
    ///
    /// ```
    /// # let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }";
    /// # let file = oriole::Compiler::new().compile(ptx).unwrap().into_bytes();
    /// let cubin = oriole::Cubin::open(&file, None)?;
    /// assert_eq!((cubin.arch(), cubin.functions().len()), ("sm_80", 1));
    /// # Ok::<(), oriole::Error>(())
    /// ```
    pub fn open(file: &[u8], arch: Option<&str>) -> Result<Cubin, Error> {
        work::run(Stack::Large, || {
            let images = oriole_cubin::open(file).map_err(wrong_file)?;
            let is_wanted = |image: &&Image| image.kind == ImageKind::Cubin && arch.is_none_or(|arch| arch == image.target);
            let mut cubins: Vec<&Image> = images.iter().filter(is_wanted).collect();
            if cubins.len() > 1 {
                let targets: Vec<&str> = cubins.iter().map(|image| &image.target[..]).collect();
                return Err(wrong_file(format!("there are {} cubins; `arch` chooses one of {}", cubins.len(), targets.join(", "))));
            }
            let image = cubins.pop().ok_or_else(|| {
                let which = arch.map_or_else(|| "machine code".to_owned(), |arch| format!("cubin for {arch}"));
                wrong_file(format!("there is no {which} here"))
            })?;
            Cubin::read(image.bytes.clone())
        })
    }

    /// Reads a cubin.
    fn read(bytes: Vec<u8>) -> Result<Cubin, Error> {
        let file = oriole_cubin::Cubin::read(&bytes).map_err(wrong_file)?;
        let index = CubinIndex::new(&file);
        let reserved = file.target().map_or(0, |target| u64::from(SystemLayout::of(target).reserved_shared));
        let functions = file.functions().map(|function| {
            let text = file.section(function.section);
            let shared = index.section_named(&format!(".nv.shared.{}", function.name)).map_or(0, |section| match &section.content {
                Content::NoBits(size) => *size,
                _ => section.bytes().map_or(0, |bytes| bytes.len() as u64),
            });
            Function {
                name: function.name.to_owned(),
                is_kernel: function.is_kernel,
                registers: index.register_count(function.symbol).unwrap_or(0),
                barriers: text.map_or(0, |section| section.barrier_count(index.function_attributes(function.name))),
                stack_bytes: index.function_value(function.symbol, AttributeCode::FRAME_SIZE).unwrap_or(0),
                shared_bytes: shared.saturating_sub(reserved),
                code_bytes: function.code.len(),
                spills: None,
                instructions: None,
            }
        });
        let functions = functions.collect();
        let (arch, is_relocatable) = (file.target_name(), file.header.file_type == FileType::Relocatable);
        Ok(Cubin { bytes, arch, is_relocatable, functions, warnings: Vec::new(), remarks: Vec::new() })
    }

    /// Returns the result of a compilation for the target `arch`. Functions come in the order of the source. The file alone does not say
    /// whether it is for `sm_100` or for its family, `sm_100f`.
    pub(crate) fn of_compiler(
        bytes: Vec<u8>,
        arch: String,
        reports: &[FunctionReport],
        warnings: Vec<Diagnostic>,
        remarks: Vec<String>,
    ) -> Result<Cubin, Error> {
        let mut cubin = Cubin::read(bytes)?;
        let mut functions = Vec::new();
        for report in reports {
            let Some(position) = cubin.functions.iter().position(|function| function.name == report.name) else { continue };
            let spills = Spills { store_bytes: report.spill_store_bytes, load_bytes: report.spill_load_bytes };
            let instructions = Some(report.instructions);
            functions.push(Function { spills: Some(spills), instructions, ..cubin.functions.swap_remove(position) });
        }
        functions.append(&mut cubin.functions);
        Ok(Cubin { arch, functions, warnings, remarks, ..cubin })
    }

    /// Returns the bytes of the file, as `cuModuleLoadData` takes them.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the bytes of the file.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Returns the target, such as `sm_90a`.
    pub fn arch(&self) -> &str {
        &self.arch
    }

    /// Returns whether the file is an object for the linker instead of a program.
    pub fn is_relocatable(&self) -> bool {
        self.is_relocatable
    }

    /// Returns the kernels and device functions: of a compilation in the order of the source, else in the order of the file.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Returns the warnings about the PTX. Empty if the cubin was read from a file.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Returns the compiler's remarks about the code, for example about waits that it had to insert, one sentence each. Empty if the
    /// cubin was read from a file.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// Returns the machine code as text, in the format of `nvdisasm -c`.
    pub fn disassemble(&self) -> Result<String, Error> {
        self.listing(&Listing::default())
    }

    /// Returns the machine code as text.
    ///
    /// ```
    /// # let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }";
    /// # let cubin = oriole::Compiler::new().compile(ptx).unwrap();
    /// use oriole::Listing;
    ///
    /// let text = cubin.listing(&Listing { control: true, ..Listing::default() })?;
    /// assert!(text.contains("[B------:R-:W-:-:S"), "{text}");
    /// # Ok::<(), oriole::Error>(())
    /// ```
    pub fn listing(&self, options: &Listing) -> Result<String, Error> {
        work::run(Stack::Large, || {
            let file = oriole_cubin::Cubin::read(&self.bytes).map_err(wrong_file)?;
            let program = Program::new(&file).map_err(wrong_file)?;
            let is_wanted = |function: &str| options.function.as_deref().is_none_or(|wanted| wanted == function);
            if let Some(name) = options.function.as_deref().filter(|_| !file.functions().any(|function| is_wanted(function.name))) {
                return Err(Error::new(ErrorKind::InvalidArgument, format!("there is no kernel or function {name}")));
            }
            let labels = Labels::new(&program);
            let mut text = String::new();
            if options.control {
                ControlListing::new(&program, &labels, false).file(&mut text, &is_wanted).map_err(wrong_file)?;
                return Ok(text);
            }
            let mut listing = oriole_sass::listing::Listing::new(&program, &labels);
            listing.header(&mut text);
            for (position, section) in program.sections.iter().enumerate() {
                if is_wanted(section.function) {
                    listing.section(&mut text, position);
                }
            }
            Ok(text)
        })
    }

    /// Checks the machine code with all verifiers: control words, dependences on all paths, encodings, attributes. Returns the hazards;
    /// none if the code is sound.
    pub fn verify(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = self.findings(&Verifier::ALL)?;
        findings.retain(|finding| finding.severity == crate::FindingSeverity::Hazard);
        Ok(findings)
    }

    /// Checks the machine code with some verifiers. Returns hazards and notes.
    pub fn findings(&self, verifiers: &[Verifier]) -> Result<Vec<Finding>, Error> {
        work::run(Stack::Large, || {
            let report = oriole_sim::verify::verify_cubin(&self.bytes, verifiers).map_err(wrong_file)?;
            Ok(report.all().map(|(section, finding)| Finding::new(report.target, section, finding)).collect())
        })
    }

    /// Explains the machine code. Reasons are recovered from the code; [`Compiler::explain`](crate::Compiler::explain) also knows what the
    /// passes did.
    pub fn explain(&self) -> Result<Explanation, Error> {
        work::run(Stack::Large, || {
            let explanation = oriole_explain::explain_cubin("cubin", &self.bytes, None).map_err(wrong_file)?;
            Ok(Explanation::new(explanation))
        })
    }

    /// Like [`Cubin::explain`], for some functions, all if there are none. The explanation calls the file `name`.
    pub fn explain_functions(&self, name: &str, functions: Vec<String>) -> Result<Explanation, Error> {
        work::run(Stack::Large, || {
            let file = oriole_cubin::Cubin::read(&self.bytes).map_err(wrong_file)?;
            let unknown = || wrong_file(format!("there is no table of instructions for {}", self.arch));
            let options = oriole_explain::Options { functions, ..oriole_explain::Options::new(file.target().ok_or_else(unknown)?) };
            let explanation = oriole_explain::explain_cubin(name, &self.bytes, Some(&options)).map_err(wrong_file)?;
            Ok(Explanation::new(explanation))
        })
    }

    /// Returns the number of machine instructions, padding included.
    pub fn instructions(&self) -> usize {
        self.functions.iter().map(|function| function.code_bytes / SIZE as usize).sum()
    }
}

impl AsRef<[u8]> for Cubin {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
