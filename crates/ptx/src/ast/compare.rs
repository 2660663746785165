//! Compares modules that have different interners.
//!
//! Names are numbered in the order of appearance, which may differ between two texts with the same meaning (a list `L<3>` mentions the
//! stem `L`). Therefore the names of one module are first translated into those of the other. Then everything is compared with the derived
//! equality, which covers every field of the tree. A name that the translation misses shows as a difference, never as a false match.

use oriole_support::{Interner, Name};

use super::{Body, DwarfItem, Function, Initializer, Item, Module, Operand, Parameter, Variable};

impl Module {
    /// Compares two modules; names are compared by their text and source positions are ignored. The error describes the first difference.
    pub fn same_as(&self, other: &Module) -> Result<(), String> {
        let mut names = self.names.clone();
        let mut other = other.clone();
        rename_module(&mut other, &mut |name, old| names.intern(old.resolve(name)));
        same("version", &self.version, &other.version)?;
        same("target", &self.target, &other.target)?;
        same("target options", &self.options, &other.options)?;
        same("address size", &self.address_size, &other.address_size)?;
        same_items("form", self.forms.as_slice(), other.forms.as_slice())?;
        same_items("variable", self.variables.as_slice(), other.variables.as_slice())?;
        same_items("item", &self.items, &other.items)?;
        for (mine, theirs) in self.functions.iter().zip(&other.functions) {
            same_function(mine, theirs).map_err(|difference| format!("function `{}`: {difference}", self.name(mine.name)))?;
        }
        same("number of functions", &self.functions.len(), &other.functions.len())
    }
}

fn same<T: PartialEq + std::fmt::Debug>(what: &str, mine: &T, theirs: &T) -> Result<(), String> {
    if mine == theirs { Ok(()) } else { Err(format!("{what}: {mine:?} is not {theirs:?}")) }
}

fn same_items<T: PartialEq + std::fmt::Debug>(what: &str, mine: &[T], theirs: &[T]) -> Result<(), String> {
    for (position, (mine, theirs)) in mine.iter().zip(theirs).enumerate() {
        if mine != theirs {
            return Err(format!("{what} {position}: {mine:?} is not {theirs:?}"));
        }
    }
    same(&format!("number of {what}s"), &mine.len(), &theirs.len())
}

/// Compares the parts of two functions one by one to describe the difference, and then the functions as a whole, so that no part is missed.
fn same_function(mine: &Function, theirs: &Function) -> Result<(), String> {
    if let (Some(mine), Some(theirs)) = (&mine.body, &theirs.body) {
        same_items("register declaration", mine.registers.as_slice(), theirs.registers.as_slice())?;
        same_items("statement", &mine.statements, &theirs.statements)?;
        same_items("label", mine.labels.as_slice(), theirs.labels.as_slice())?;
        same_items("operand", &mine.operands, &theirs.operands)?;
        same_items("instruction", mine.instructions.as_slice(), theirs.instructions.as_slice())?;
        same_items("constant", mine.constants.as_slice(), theirs.constants.as_slice())?;
        same_items("address", &mine.addresses, &theirs.addresses)?;
    }
    if mine == theirs { Ok(()) } else { Err(String::from("header or another part of the body differs")) }
}

/// Replaces a name of one interner by the same name of another.
type Rename<'a> = dyn FnMut(&mut Name) + 'a;

fn rename_module(module: &mut Module, translate: &mut dyn FnMut(Name, &Interner) -> Name) {
    let names = std::mem::take(&mut module.names);
    let mut rename = |name: &mut Name| *name = translate(*name, &names);
    (0..module.variables.len())
        .for_each(|position| rename_variable(&mut module.variables[oriole_support::Index::new(position)], &mut rename));
    (0..module.functions.len())
        .for_each(|position| rename_function(&mut module.functions[oriole_support::Index::new(position)], &mut rename));
    module.items.iter_mut().for_each(|item| rename_item(item, &mut rename));
    module.names = names;
}

fn rename_item(item: &mut Item, rename: &mut Rename<'_>) {
    match item {
        Item::Alias(alias) => {
            rename(&mut alias.name);
            rename(&mut alias.target);
        }
        Item::Section(section) => section.items.iter_mut().for_each(|item| match item {
            DwarfItem::Label(name) | DwarfItem::Label64(_, name, _) => rename(name),
            DwarfItem::Difference(_, first, second) => {
                rename(first);
                rename(second);
            }
            DwarfItem::Integers(..) => {}
        }),
        Item::Variable(_) | Item::Function(_) | Item::File { .. } | Item::Dwarf(_) | Item::Pragma(_) => {}
    }
}

fn rename_variable(variable: &mut Variable, rename: &mut Rename<'_>) {
    rename(&mut variable.name);
    if let Some(initializer) = &mut variable.initializer {
        rename_initializer(initializer, rename);
    }
}

fn rename_initializer(initializer: &mut Initializer, rename: &mut Rename<'_>) {
    match initializer {
        Initializer::List(values) => values.iter_mut().for_each(|value| rename_initializer(value, rename)),
        Initializer::Address { symbol, .. } => rename(symbol),
        Initializer::Opaque(fields) => fields.iter_mut().for_each(|field| {
            rename(&mut field.name);
            if let Err(name) = &mut field.value {
                rename(name);
            }
        }),
        Initializer::Constant(_) | Initializer::MaskedNumber { .. } => {}
    }
}

fn rename_function(function: &mut Function, rename: &mut Rename<'_>) {
    rename(&mut function.name);
    rename_parameters(&mut function.returns, rename);
    rename_parameters(&mut function.parameters, rename);
    if let Some(body) = &mut function.body {
        rename_body(body, rename);
    }
}

fn rename_parameters(parameters: &mut [Parameter], rename: &mut Rename<'_>) {
    for parameter in parameters {
        if let Parameter::Register { name, .. } = parameter {
            rename(name);
        }
    }
}

fn rename_body(body: &mut Body, rename: &mut Rename<'_>) {
    (0..body.registers.len()).for_each(|position| rename(&mut body.registers[oriole_support::Index::new(position)].name));
    (0..body.labels.len()).for_each(|position| rename(&mut body.labels[oriole_support::Index::new(position)].name));
    for operand in &mut body.operands {
        if let Operand::Selector(name) = operand {
            rename(name);
        }
    }
    for inlined in body.locations.iter_mut().filter_map(|location| location.inlined.as_mut()) {
        rename(&mut inlined.0);
    }
    for prototype in &mut body.prototypes {
        rename_parameters(&mut prototype.returns, rename);
        rename_parameters(&mut prototype.parameters, rename);
    }
    for alias in &mut body.aliases {
        rename(&mut alias.name);
        rename(&mut alias.target);
    }
}
