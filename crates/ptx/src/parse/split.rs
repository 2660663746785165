//! Parses a module with many kernels in parts, which the caller can run on several threads.
//!
//! A kernel sees the declarations before the first kernel, but hardly ever another kernel. So the text after those declarations is split
//! at lines that start a kernel, and the parts are parsed independently, each with a copy of the state after the declarations:
//!
//! ```text
//! .version 8.0  .target sm_90  .global .u32 g;     parsed once: the state that all parts start with
//! .entry a() { ... }  .entry b() { ... }           part 0
//! .entry c() { ... }                               part 1; stops before `.section`
//! .section .debug_str { ... }                      parsed after the parts are joined
//! ```
//!
//! The places to split at are guesses, because a comment may contain such a line. A guess is right if the part before it ends exactly
//! there. Whatever could make a difference (an error or warning, a device function between kernels, a name of an earlier kernel)
//! makes one of the steps return `None`, and the caller parses the module as a whole, which also gives the messages.
//!
//! Names, forms, variables and functions get numbers in the order of the text, so that the module is the same as without parts. One thread
//! assigns the numbers ([`SplitModule::number`]), any thread replaces them in a part ([`NumberedPart::renumber`]), and one thread appends
//! the parts to the module ([`NumberedModule::join`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use oriole_support::{Index, IndexVec, Name};
use rustc_hash::FxHashSet;

use super::declare::MOST_BYTES;
use super::module::{Globals, KnownFunction};
use super::symbols::Symbol;
use super::{Checked, Options, Parser};
use crate::ast::{
    AddressBase, Body, FormId, Function, FunctionId, FunctionKind, Initializer, Item, Linkage, Module, Operand, Parameter, Statement,
    Variable, VariableId,
};
use crate::source::Span;

/// Size of a part in bytes of text, unless there would be more than [`MOST_PARTS`]. Parsing it takes several times as long as starting a
/// thread.
const PART_BYTES: usize = 24 << 10;

/// Limit on the number of parts: enough to keep all threads busy until the end.
const MOST_PARTS: usize = 256;

/// A module is not split if the part before the first kernel, which is copied for each part, is larger than this share of it.
const LEAST_SHARE_OF_KERNELS: usize = 16;

/// A module that is parsed in parts.
pub struct SplitModule<'s> {
    /// The state after the declarations before the first kernel.
    first: Parser<'s>,
    /// Offset of the start of each part.
    starts: Vec<usize>,
    /// Whether a part cannot be joined, so that the other parts need not be parsed.
    has_failed: AtomicBool,
}

/// The result of parsing one part.
pub struct ParsedPart {
    module: Module,
    globals: Globals,
    /// Offset of the first token after the part.
    end: usize,
    /// The source position of the name of each kernel, once the part is renumbered.
    spans: Vec<Span>,
}

impl<'s> SplitModule<'s> {
    /// Splits a module. Returns `None` if it is too small or has an unusual structure.
    pub fn new(text: &'s [u8], options: &Options) -> Option<SplitModule<'s>> {
        SplitModule::with_part_size(text, options, PART_BYTES)
    }

    /// Splits a module into parts of at least `bytes` bytes.
    pub fn with_part_size(text: &'s [u8], options: &Options, bytes: usize) -> Option<SplitModule<'s>> {
        if text.len() < 2 * bytes || u32::try_from(text.len()).is_err() {
            return None;
        }
        let bytes = bytes.max(text.len() / MOST_PARTS);
        let head = &text[..text.len() / LEAST_SHARE_OF_KERNELS];
        let mut starts = vec![next_kernel(head, 0)?];
        while let Some(start) = next_kernel(text, starts[starts.len() - 1] + bytes) {
            starts.push(start);
        }
        let mut first = Parser::new(text, options);
        first.parse_module_header().ok()?;
        while !first.at_end() && (first.span().start as usize) < starts[0] {
            first.parse_item().ok()?;
        }
        let is_usual = first.span().start as usize == starts[0] && first.diagnostics.is_empty() && starts.len() > 1;
        is_usual.then(|| SplitModule { first, starts, has_failed: AtomicBool::new(false) })
    }

    /// Returns the size of each part in bytes of text.
    pub fn part_sizes(&self) -> Vec<usize> {
        let ends = self.starts[1..].iter().copied().chain([self.first.lexer.source().len()]);
        self.starts.iter().zip(ends).map(|(start, end)| end - start).collect()
    }

    /// Parses the part with this number. Returns `None` if the module has to be parsed as a whole.
    pub fn parse(&self, part: usize) -> Option<ParsedPart> {
        let parsed = self.parse_kernels(part);
        if parsed.is_none() {
            self.has_failed.store(true, Ordering::Relaxed);
        }
        parsed
    }

    fn parse_kernels(&self, part: usize) -> Option<ParsedPart> {
        let mut parser = self.first.fork(self.starts[part]);
        let limit = self.starts.get(part + 1).copied();
        let (first_function, first_item) = (parser.module.functions.len(), parser.module.items.len());
        let mut end = self.starts[part];
        while limit != Some(end) && starts_kernel(&parser.lexer.source()[end..]) {
            if self.has_failed.load(Ordering::Relaxed) || parser.parse_item().is_err() || !parser.diagnostics.is_empty() {
                return None;
            }
            end = parser.span().start as usize;
        }
        if limit.is_some_and(|limit| limit != end) {
            return None;
        }
        let Parser { module, globals, .. } = parser;
        let functions = &module.functions.as_slice()[first_function..];
        let is_kernel = |function: &Function| {
            function.kind == FunctionKind::Entry && function.body.as_ref().is_some_and(|body| body.aliases.is_empty())
        };
        // Declarations inside a body would be functions without an item.
        let only_kernels = functions.iter().all(is_kernel) && functions.len() == module.items.len() - first_item;
        let base = &self.first.globals;
        let no_more_state = globals.signatures.len() == base.signatures.len()
            && globals.constant_bytes == base.constant_bytes
            && globals.initial_bytes == base.initial_bytes;
        (only_kernels && no_more_state).then_some(ParsedPart { module, globals, end, spans: Vec::new() })
    }

    /// Assigns the numbers that names, forms, variables and functions of the parts have in the whole module. Returns `None` if the module
    /// has to be parsed as a whole.
    pub fn number(self, parts: Vec<Option<ParsedPart>>) -> Option<NumberedModule<'s>> {
        let mut parser = self.first;
        let base = Base::of(&parser);
        let (mut variables, mut functions) = (0, 0);
        let mut kernels: FxHashSet<Name> = FxHashSet::default();
        let mut numbered = Vec::with_capacity(parts.len());
        let mut end = self.starts[0];
        for part in parts {
            let part = part?;
            end = part.end;
            let renumbering = parser.number(&part, base, variables, functions, &mut kernels)?;
            variables += part.module.variables.len() - base.variables;
            functions += part.module.functions.len() - base.functions;
            numbered.push(NumberedPart(Mutex::new(Some((part, renumbering)))));
        }
        Some(NumberedModule { parser, base, parts: numbered, end })
    }
}

/// A module whose parts are parsed, and whose numbers are assigned.
pub struct NumberedModule<'s> {
    /// The state after the declarations before the first kernel, with all names and forms of the parts.
    parser: Parser<'s>,
    base: Base,
    parts: Vec<NumberedPart>,
    /// Offset of the first token after the last part.
    end: usize,
}

impl NumberedModule<'_> {
    /// Returns the parts, for [`NumberedPart::renumber`].
    pub fn parts(&self) -> &[NumberedPart] {
        &self.parts
    }

    /// Joins the renumbered parts, in their order, and parses the rest of the module. Returns `None` if the module has to be parsed as a
    /// whole.
    pub fn join(self, parts: Vec<Option<ParsedPart>>) -> Option<Checked> {
        let NumberedModule { mut parser, base, end, .. } = self;
        for part in parts {
            parser.append(part?, &base)?;
        }
        if parser.globals.variable_bytes >= MOST_BYTES {
            return None;
        }
        parser.lexer.seek(end);
        parser.parse_items();
        let diagnostics = parser.diagnostics.finish();
        diagnostics.is_empty().then_some(Checked { module: parser.module, diagnostics })
    }
}

/// A parsed part and its numbers in the whole module, until a thread takes them.
pub struct NumberedPart(Mutex<Option<(ParsedPart, Renumbering)>>);

impl NumberedPart {
    /// Returns the part with the numbers of the whole module; `None` if it was taken before.
    pub fn renumber(&self) -> Option<ParsedPart> {
        let (mut part, renumbering) = self.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        renumbering.change_part(&mut part)?;
        Some(part)
    }
}

/// Returns the offset of the next line that starts a kernel, at or after `from`.
fn next_kernel(text: &[u8], from: usize) -> Option<usize> {
    let is_start = |&position: &usize| (position == 0 || text[position - 1] == b'\n') && starts_kernel(&text[position..]);
    (from..text.len()).filter(|&position| text[position] == b'.').find(is_start)
}

/// Returns whether the text starts with the definition of a kernel, or looks like it.
fn starts_kernel(text: &[u8]) -> bool {
    let after = [&b".visible "[..], b".weak "].iter().find_map(|word| text.strip_prefix(*word)).unwrap_or(text);
    after.starts_with(b".entry ")
}

/// Sizes of the tables of a module before its parts, which are the numbers of the first new elements in each part.
#[derive(Clone, Copy)]
struct Base {
    names: usize,
    variables: usize,
    functions: usize,
    items: usize,
    variable_bytes: u128,
    inlined_functions: usize,
}

impl Base {
    fn of(parser: &Parser<'_>) -> Base {
        let module = &parser.module;
        Base {
            names: module.names.len(),
            variables: module.variables.len(),
            functions: module.functions.len(),
            items: module.items.len(),
            variable_bytes: parser.globals.variable_bytes,
            inlined_functions: parser.globals.inlined_functions.len(),
        }
    }
}

impl<'s> Parser<'s> {
    /// Returns a parser with the declarations of this one, at another offset of the text. Bodies of functions are not copied, and heads of
    /// instructions are analysed anew.
    fn fork(&self, position: usize) -> Parser<'s> {
        let Module { version, target, options, address_size, ref names, ref variables, ref functions, ref items, .. } = self.module;
        let mut copies = IndexVec::new();
        for function in functions.iter() {
            copies.push(without_body(function));
        }
        let module = Module {
            version,
            target,
            options,
            address_size,
            names: names.clone(),
            forms: IndexVec::new(),
            variables: variables.clone(),
            functions: copies,
            items: items.clone(),
        };
        let mut lexer = self.lexer.clone();
        lexer.seek(position);
        Parser {
            lexer,
            diagnostics: self.diagnostics.clone(),
            module,
            platform: self.platform,
            symbols: self.symbols.clone(),
            heads: Default::default(),
            function: Default::default(),
            scratch: Default::default(),
            globals: self.globals.clone(),
        }
    }

    /// Assigns the numbers of a part. `variables` and `functions` are the numbers of those in the parts before it, and `kernels` has their
    /// kernels. Returns `None` if the part uses the name of one of them.
    fn number(
        &mut self,
        part: &ParsedPart,
        base: Base,
        variables: usize,
        functions: usize,
        kernels: &mut FxHashSet<Name>,
    ) -> Option<Renumbering> {
        let module = &part.module;
        let names: Vec<Name> =
            (base.names..module.names.len()).map(|name| self.module.names.intern(module.names.resolve(Name::new(name)))).collect();
        if names.iter().any(|name| kernels.contains(name)) {
            return None;
        }
        let forms = module.forms.iter().map(|form| self.heads.number_of(form, &mut self.module.forms)).collect();
        let renumbering = Renumbering { base, names, forms, variables, functions };
        kernels.extend(module.functions.iter().skip(base.functions).map(|function| renumbering.name(function.name)));
        Some(renumbering)
    }

    /// Appends the kernels of a renumbered part. Returns `None` if it defines a function that is known.
    fn append(&mut self, part: ParsedPart, base: &Base) -> Option<()> {
        let ParsedPart { module, globals, spans, .. } = part;
        for variable in module.variables.into_vec().into_iter().skip(base.variables) {
            self.module.variables.push(variable);
        }
        for (function, span) in module.functions.into_vec().into_iter().skip(base.functions).zip(spans) {
            self.add_kernel(function, span)?;
        }
        self.module.items.extend(module.items.into_iter().skip(base.items));
        self.globals.variable_bytes = self.globals.variable_bytes.saturating_add(globals.variable_bytes - base.variable_bytes);
        for (file, span) in globals.used_files {
            self.globals.used_files.entry(file).or_insert(span);
        }
        self.globals.places.extend(globals.places);
        self.globals.inlined_functions.extend(globals.inlined_functions.into_iter().skip(base.inlined_functions));
        Some(())
    }

    /// Declares a kernel and adds it to the module. Returns `None` if its name is known.
    fn add_kernel(&mut self, function: Function, span: Span) -> Option<()> {
        let name = function.name;
        if self.globals.functions.contains_key(&name) || self.symbols.plain(name).is_some() {
            return None;
        }
        let first_extern = function.linkage == Linkage::Extern;
        let id = self.module.functions.push(function);
        self.globals.functions.insert(name, KnownFunction { id, span, defined: true, first_extern });
        self.globals.function_order.push(name);
        self.symbols.replace_at(name, Symbol::Function(id), span, 0);
        Some(())
    }
}

fn without_body(function: &Function) -> Function {
    let &Function { name, kind, linkage, ref attributes, ref returns, ref parameters, has_parameter_list, ref bounds, body: _ } = function;
    Function {
        name,
        kind,
        linkage,
        attributes: attributes.clone(),
        returns: returns.clone(),
        parameters: parameters.clone(),
        has_parameter_list,
        bounds: bounds.clone(),
        body: None,
    }
}

/// Maps the numbers in a part to those in the whole module.
struct Renumbering {
    base: Base,
    /// The names that are new in the part.
    names: Vec<Name>,
    /// All forms of the part.
    forms: Vec<FormId>,
    /// Number of variables, and of functions, of the parts before this one.
    variables: usize,
    functions: usize,
}

impl Renumbering {
    /// Changes the new elements of a part. Returns `None` if it has other items than kernels.
    fn change_part(&self, part: &mut ParsedPart) -> Option<()> {
        let base = &self.base;
        let ParsedPart { module, globals, spans, .. } = part;
        module.variables.iter_mut().skip(base.variables).for_each(|variable| self.change_variable(variable));
        for function in module.functions.iter_mut().skip(base.functions) {
            spans.push(globals.functions.get(&function.name)?.span);
            self.change_function(function);
        }
        for item in module.items.iter_mut().skip(base.items) {
            let Item::Function(id) = item else { return None };
            *id = self.function(*id);
        }
        globals.inlined_functions.iter_mut().skip(base.inlined_functions).for_each(|(name, _)| *name = self.name(*name));
        Some(())
    }

    fn name(&self, name: Name) -> Name {
        name.position().checked_sub(self.base.names).map_or(name, |position| self.names[position])
    }

    fn variable(&self, id: VariableId) -> VariableId {
        if id.position() < self.base.variables { id } else { VariableId::new(id.position() + self.variables) }
    }

    fn function(&self, id: FunctionId) -> FunctionId {
        if id.position() < self.base.functions { id } else { FunctionId::new(id.position() + self.functions) }
    }

    fn change_variable(&self, variable: &mut Variable) {
        variable.name = self.name(variable.name);
        if let Some(initializer) = &mut variable.initializer {
            self.change_initializer(initializer);
        }
    }

    fn change_initializer(&self, initializer: &mut Initializer) {
        match initializer {
            Initializer::Constant(_) | Initializer::MaskedNumber { .. } => {}
            Initializer::List(list) => list.iter_mut().for_each(|element| self.change_initializer(element)),
            Initializer::Address { symbol, .. } => *symbol = self.name(*symbol),
            Initializer::Opaque(fields) => {
                for field in fields {
                    field.name = self.name(field.name);
                    field.value = field.value.map_err(|name| self.name(name));
                }
            }
        }
    }

    fn change_parameter(&self, parameter: &mut Parameter) {
        match parameter {
            Parameter::Variable(id) => *id = self.variable(*id),
            Parameter::Register { name, .. } => *name = self.name(*name),
        }
    }

    fn change_function(&self, function: &mut Function) {
        function.name = self.name(function.name);
        function.returns.iter_mut().chain(&mut function.parameters).for_each(|parameter| self.change_parameter(parameter));
        if let Some(body) = &mut function.body {
            self.change_body(body);
        }
    }

    fn change_body(&self, body: &mut Body) {
        body.registers.iter_mut().for_each(|declaration| declaration.name = self.name(declaration.name));
        body.labels.iter_mut().for_each(|label| label.name = self.name(label.name));
        for statement in &mut body.statements {
            match statement {
                Statement::Variable(id) => *id = self.variable(*id),
                Statement::Function(id) => *id = self.function(*id),
                _ => {}
            }
        }
        body.instructions.iter_mut().for_each(|instruction| instruction.form = self.forms[instruction.form.position()]);
        body.operands.iter_mut().for_each(|operand| self.change_operand(operand));
        for address in &mut body.addresses {
            match &mut address.base {
                AddressBase::Variable(id) | AddressBase::VariableMember(id, _) => *id = self.variable(*id),
                AddressBase::Function(id) => *id = self.function(*id),
                AddressBase::Register(_) | AddressBase::Element(..) | AddressBase::Absolute => {}
            }
        }
        for inlined in body.locations.iter_mut().filter_map(|location| location.inlined.as_mut()) {
            inlined.0 = self.name(inlined.0);
        }
        body.target_lists.iter_mut().flat_map(|list| &mut list.targets).for_each(|operand| self.change_operand(operand));
        for prototype in &mut body.prototypes {
            prototype.returns.iter_mut().chain(&mut prototype.parameters).for_each(|parameter| self.change_parameter(parameter));
        }
    }

    fn change_operand(&self, operand: &mut Operand) {
        match operand {
            Operand::Selector(name) => *name = self.name(*name),
            Operand::Variable(id) => *id = self.variable(*id),
            Operand::Function(id) => *id = self.function(*id),
            _ => {}
        }
    }
}
