//! The compiler and its settings.

use std::sync::Arc;

use oriole_driver::{DebugInfo, DebugKind, Hooks, Options, Parallelism, Progress};
use oriole_explain::Failure;
use oriole_isa::Target;
use oriole_ptx::ast::{self, FunctionKind, Module};
use oriole_ptx::source::{LineIndex, Source};

use crate::arch;
use crate::cancel::CancelToken;
use crate::cubin::Cubin;
use crate::diagnostic::{self, Diagnostic};
use crate::error::{Error, ErrorKind};
use crate::explanation::Explanation;
use crate::work::{self, Stack};

/// Highest optimization level.
const MAX_LEVEL: u8 = 3;

/// A compiler with its settings. One value can compile many programs, also from several threads at the same time.
///
/// ```
/// # let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }";
/// let compiler = oriole::Compiler::new().arch("sm_90a")?.opt_level(3).max_registers(64).line_info(true);
/// let cubin = compiler.compile(ptx)?;
/// assert_eq!((cubin.arch(), cubin.functions()[0].name.as_str()), ("sm_90a", "k"));
/// # Ok::<(), oriole::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Compiler {
    target: Option<Target>,
    level: u8,
    fmad: bool,
    max_registers: Option<u32>,
    is_relocatable: bool,
    entries: Vec<String>,
    debug: Option<DebugKind>,
    self_check: bool,
    source_name: String,
    error_limit: usize,
    explained: Vec<String>,
    hooks: Hooks,
}

impl Default for Compiler {
    fn default() -> Compiler {
        Compiler {
            target: None,
            level: MAX_LEVEL,
            fmad: true,
            max_registers: None,
            is_relocatable: false,
            entries: Vec::new(),
            debug: None,
            self_check: false,
            source_name: "<ptx>".to_owned(),
            error_limit: oriole_ptx::Options::default().error_limit,
            explained: Vec::new(),
            hooks: Hooks::default(),
        }
    }
}

impl Compiler {
    /// Returns a compiler with default settings: the target of the PTX, optimization level 3, all kernels, all processors.
    pub fn new() -> Compiler {
        Compiler::default()
    }

    /// Sets the target, such as `sm_90a`. [`targets`](crate::targets) lists them; an unknown name is an error with a suggestion.
    ///
    /// ```
    /// let error = oriole::Compiler::new().arch("sm90").unwrap_err();
    /// assert!(error.to_string().ends_with("did you mean sm_90?"), "{error}");
    /// ```
    pub fn arch(mut self, name: &str) -> Result<Compiler, Error> {
        self.target = Some(arch::parse(name)?);
        Ok(self)
    }

    /// Sets the optimization level, 0 to 3. Higher numbers mean 3.
    pub fn opt_level(mut self, level: u8) -> Compiler {
        self.level = level.min(MAX_LEVEL);
        self
    }

    /// Sets whether floating-point products and sums without a rounding modifier may become multiply-adds. They do by default.
    pub fn fmad(mut self, is_allowed: bool) -> Compiler {
        self.fmad = is_allowed;
        self
    }

    /// Sets the maximum number of registers of each thread.
    pub fn max_registers(mut self, registers: u32) -> Compiler {
        self.max_registers = Some(registers);
        self
    }

    /// Sets whether to make an object for the linker instead of a program.
    pub fn relocatable(mut self, is_relocatable: bool) -> Compiler {
        self.is_relocatable = is_relocatable;
        self
    }

    /// Adds a kernel to compile. Without any, all kernels are compiled.
    pub fn entry(mut self, kernel: impl Into<String>) -> Compiler {
        self.entries.push(kernel.into());
        self
    }

    /// Sets whether to write line tables and the PTX text into the cubin, for debuggers and profilers.
    pub fn line_info(mut self, is_wanted: bool) -> Compiler {
        self.debug = is_wanted.then_some(DebugKind::Lines);
        self
    }

    /// Sets whether to write line tables and the debug sections of the PTX, and to compile without optimization.
    pub fn device_debug(mut self, is_wanted: bool) -> Compiler {
        self.debug = is_wanted.then_some(DebugKind::Full);
        self
    }

    /// Sets whether to check the code after every pass, which takes longer. A finding is an error of kind [`ErrorKind::Internal`].
    pub fn self_check(mut self, is_wanted: bool) -> Compiler {
        self.self_check = is_wanted;
        self
    }

    /// Sets the number of errors after which the check of the PTX stops.
    pub fn error_limit(mut self, errors: usize) -> Compiler {
        self.error_limit = errors;
        self
    }

    /// Adds a function to those that [`Compiler::explain`] explains; all if there are none.
    pub fn explain_function(mut self, function: impl Into<String>) -> Compiler {
        self.explained.push(function.into());
        self
    }

    /// Sets the file name in rendered diagnostics and explanations.
    pub fn source_name(mut self, name: impl Into<String>) -> Compiler {
        self.source_name = name.into();
        self
    }

    /// Sets a function to call when a pass starts on a function, and when a function is finished. It is called on the threads that
    /// compile, by one at a time, and should return quickly.
    ///
    /// ```
    /// # let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }";
    /// let compiler = oriole::Compiler::new().on_progress(|progress| match progress.pass {
    ///     Some(pass) => println!("{}: {pass}", progress.function),
    ///     None => println!("{} of {} functions are done", progress.functions_done, progress.functions),
    /// });
    /// compiler.compile(ptx)?;
    /// # Ok::<(), oriole::Error>(())
    /// ```
    pub fn on_progress(mut self, progress: impl Fn(&Progress<'_>) + Send + Sync + 'static) -> Compiler {
        self.hooks.progress = Some(Arc::new(progress));
        self
    }

    /// Sets a token that can cancel compilations. They end with an error of kind [`ErrorKind::Cancelled`].
    pub fn cancel_token(self, token: &CancelToken) -> Compiler {
        let token = token.clone();
        self.cancel_when(move || token.is_cancelled())
    }

    /// Sets a function that is called before every pass and cancels the compilation by returning true. Several threads may call it at the
    /// same time. It replaces a token.
    pub fn cancel_when(mut self, cancel: impl Fn() -> bool + Send + Sync + 'static) -> Compiler {
        self.hooks.cancel = Some(Arc::new(cancel));
        self
    }

    /// Compiles on the calling thread alone and starts no threads. The recursions of the compiler are bounded; for hostile input the stack
    /// of the thread should have 64 MiB.
    pub fn sequential(mut self) -> Compiler {
        self.hooks.parallelism = Parallelism::Sequential;
        self
    }

    /// Compiles functions on threads that the caller provides, such as those of a thread pool, instead of new ones. `execute(count, task)` must call `task` once with each number
    /// below `count`, in any order and on any threads, and return when all calls have returned. The result does not depend on it. The
    /// tasks with low numbers are the largest. For hostile input the threads should have stacks of 64 MiB.
    ///
    /// ```
    /// # let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }";
    /// use rayon::prelude::*;
    ///
    /// let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build()?;
    /// let compiler = oriole::Compiler::new()
    ///     .executor(move |count, task| pool.install(|| (0..count).into_par_iter().for_each(task)));
    /// assert_eq!(compiler.compile(ptx)?, oriole::Compiler::new().compile(ptx)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn executor(mut self, execute: impl Fn(usize, &(dyn Fn(usize) + Sync)) + Send + Sync + 'static) -> Compiler {
        self.hooks.parallelism = Parallelism::Executor(Arc::new(execute));
        self
    }

    /// Compiles PTX.
    pub fn compile(&self, ptx: impl AsRef<[u8]>) -> Result<Cubin, Error> {
        let ptx = ptx.as_ref();
        work::run(self.stack(ptx), || {
            let (module, warnings) = self.checked(ptx)?;
            let options = self.options(ptx, &module)?;
            let compiled = oriole_driver::compile(&[&module], &options);
            let compiled = compiled.map_err(|errors| Error::of_compiler(&self.source(ptx), warnings.clone(), &errors))?;
            let lines = LineIndex::new(ptx);
            let limits = compiled.functions.iter().flat_map(|function| function.warnings.iter().cloned());
            let remarks = compiled.functions.iter().flat_map(|function| &function.remarks).map(|remark| match remark.offset {
                Some(offset) => format!("{}:{}: {}", self.source_name, lines.line_column(offset).0, remark.text),
                None => remark.text.to_owned(),
            });
            let remarks = limits.chain(remarks).collect();
            Cubin::of_compiler(compiled.cubin, options.target.to_string(), &compiled.functions, warnings, remarks)
        })
    }

    /// Parses and checks PTX. Returns all errors and warnings, in the order of the text. An `Err` is a fault of Oriole itself.
    pub fn check(&self, ptx: impl AsRef<[u8]>) -> Result<Vec<Diagnostic>, Error> {
        let ptx = ptx.as_ref();
        work::run(self.stack(ptx), || {
            let checked = oriole_driver::check(ptx, &oriole_ptx::Options { error_limit: self.error_limit }, &self.hooks.parallelism);
            Ok(diagnostic::of_findings(&self.source(ptx), &checked.diagnostics))
        })
    }

    /// Compiles PTX and explains the result.
    ///
    /// ```
    /// # let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }";
    /// let explanation = oriole::Compiler::new().explain(ptx)?;
    /// assert!(explanation.summary().starts_with("k (kernel, sm_80, -O3)"));
    /// assert!(explanation.to_json()?.starts_with("{\"schema\""));
    /// # Ok::<(), oriole::Error>(())
    /// ```
    pub fn explain(&self, ptx: impl AsRef<[u8]>) -> Result<Explanation, Error> {
        let ptx = ptx.as_ref();
        work::run(self.stack(ptx), || {
            let (module, warnings) = self.checked(ptx)?;
            let compiler = self.options(ptx, &module)?;
            let options = oriole_explain::Options { functions: self.explained.clone(), with_sources: false, compiler };
            match oriole_explain::explain_module(&self.source_name, ptx, &module, &options) {
                Ok(explanation) => Ok(Explanation::new(explanation)),
                Err(Failure::Invalid(findings)) => Err(Error::invalid(diagnostic::of_findings(&self.source(ptx), &findings))),
                Err(Failure::Compile(errors)) => Err(Error::of_compiler(&self.source(ptx), warnings, &errors)),
                Err(Failure::File(message)) => Err(Error::new(ErrorKind::InvalidArgument, message)),
            }
        })
    }

    /// Returns where to run: without threads, on the stack of the caller.
    fn stack(&self, ptx: &[u8]) -> Stack {
        if matches!(self.hooks.parallelism, Parallelism::Sequential) { Stack::OfCaller } else { Stack::for_text(ptx) }
    }

    fn source<'a>(&'a self, ptx: &'a [u8]) -> Source<'a> {
        Source::new(&self.source_name, ptx)
    }

    /// Checks PTX. Returns the module and the warnings, or an error if it is invalid.
    fn checked(&self, ptx: &[u8]) -> Result<(Module, Vec<Diagnostic>), Error> {
        let is_cancelled = || self.hooks.cancel.as_ref().is_some_and(|cancel| cancel());
        if is_cancelled() {
            return Err(Error::cancelled());
        }
        let checked = oriole_driver::check(ptx, &oriole_ptx::Options { error_limit: self.error_limit }, &self.hooks.parallelism);
        let found = diagnostic::of_findings(&self.source(ptx), &checked.diagnostics);
        if checked.is_valid() { Ok((checked.module, found)) } else { Err(Error::invalid(found)) }
    }

    /// Returns the options of the driver for a module.
    fn options(&self, ptx: &[u8], module: &Module) -> Result<Options, Error> {
        let target = match self.target {
            Some(target) => target,
            None => arch::parse(&module.target.to_string())?,
        };
        self.check_entries(module)?;
        Ok(Options {
            level: if self.debug == Some(DebugKind::Full) { 0 } else { self.level },
            contract: self.fmad,
            max_registers: self.max_registers,
            relocatable: self.is_relocatable,
            entries: self.entries.clone(),
            verify: self.self_check,
            debug: self.debug.map(|kind| DebugInfo { kind, texts: vec![Arc::from(ptx)] }),
            hooks: self.hooks.clone(),
            ..Options::new(target)
        })
    }

    /// Checks that the module has all kernels that the settings name.
    fn check_entries(&self, module: &Module) -> Result<(), Error> {
        let is_kernel = |function: &&ast::Function| function.kind == FunctionKind::Entry && function.body.is_some();
        let kernels: Vec<&str> = module.functions.iter().filter(is_kernel).map(|function| module.name(function.name)).collect();
        match self.entries.iter().find(|entry| !kernels.contains(&entry.as_str())) {
            Some(missing) => {
                let message = format!("there is no kernel `{missing}`; the module has {}", kernels.join(", "));
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
            None => Ok(()),
        }
    }
}
