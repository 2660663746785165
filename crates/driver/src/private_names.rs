//! Gives different names to the private symbols of modules that are compiled together.
//!
//! A function or variable without a linkage directive is private to its module, so several modules may use one name for different things.
//! In the file each symbol needs a name of its own. The first module with a private symbol of a name keeps the name, unless it is also the
//! name of a symbol that is not private. In other modules the number of the module is appended (`table$1`), and underscores if a module has
//! a symbol of that name. A variable of the function `table` has a name such as `table$x` in the file, which is different because no
//! identifier starts with a digit.

use std::borrow::Cow;

use oriole_ptx::ast::{FunctionKind, Initializer, Item, Linkage, Module};
use oriole_support::Name;
use rustc_hash::{FxHashMap, FxHashSet};

/// Returns the modules, with private symbols of the same name renamed so that all names are distinct. Modules that need no renaming are not
/// copied.
pub fn with_distinct_names<'m>(modules: &[&'m Module]) -> Vec<Cow<'m, Module>> {
    let mut copies: Vec<Cow<'m, Module>> = modules.iter().map(|&module| Cow::Borrowed(module)).collect();
    if modules.len() < 2 {
        return copies;
    }
    let used: FxHashSet<&str> = modules.iter().flat_map(|module| symbols(module)).map(|symbol| symbol.0).collect();
    let visible: FxHashSet<&str> =
        modules.iter().flat_map(|module| symbols(module)).filter(|symbol| !symbol.2).map(|symbol| symbol.0).collect();
    let mut taken: FxHashSet<&str> = visible;
    for (number, module) in modules.iter().enumerate() {
        let private: FxHashSet<(&str, Name)> = symbols(module).filter(|symbol| symbol.2).map(|(text, name, _)| (text, name)).collect();
        let renamed: Vec<(&str, Name)> = private.into_iter().filter(|(text, _)| !taken.insert(text)).collect();
        if renamed.is_empty() {
            continue;
        }
        let copy = copies[number].to_mut();
        let names: FxHashMap<Name, Name> =
            renamed.into_iter().map(|(text, name)| (name, copy.names.intern(&unused_name(text, number, &used)))).collect();
        rename_symbols(copy, &names);
    }
    copies
}

/// Returns the new name of a private symbol of module `number`, which is none of the `used` names.
fn unused_name(text: &str, number: usize, used: &FxHashSet<&str>) -> String {
    let mut name = format!("{text}${number}");
    while used.contains(name.as_str()) {
        name.push('_');
    }
    name
}

/// Returns the functions and variables at module scope, as (name as text, interned name, whether the symbol is private to the module).
fn symbols(module: &Module) -> impl Iterator<Item = (&str, Name, bool)> {
    let functions = module.functions.iter().map(|function| {
        let is_private = function.kind == FunctionKind::Function && function.linkage == Linkage::Internal;
        (module.name(function.name), function.name, is_private)
    });
    let variables = module.items.iter().filter_map(|item| match item {
        Item::Variable(id) => Some(&module.variables[*id]),
        _ => None,
    });
    functions.chain(variables.map(|variable| (module.name(variable.name), variable.name, variable.linkage == Linkage::Internal)))
}

/// Renames functions and variables at module scope, and all references to them by name. `names` maps old names to new ones.
fn rename_symbols(module: &mut Module, names: &FxHashMap<Name, Name>) {
    let change = |name: &mut Name| *name = names.get(name).copied().unwrap_or(*name);
    module.functions.iter_mut().for_each(|function| change(&mut function.name));
    for item in &mut module.items {
        match item {
            Item::Variable(id) => change(&mut module.variables[*id].name),
            Item::Alias(alias) => {
                change(&mut alias.name);
                change(&mut alias.target);
            }
            _ => {}
        }
    }
    for initializer in module.variables.iter_mut().filter_map(|variable| variable.initializer.as_deref_mut()) {
        rename_in_initializer(initializer, &change);
    }
}

/// Calls `change` on each symbol name in an initial value.
fn rename_in_initializer(initializer: &mut Initializer, change: &impl Fn(&mut Name)) {
    match initializer {
        Initializer::Address { symbol, .. } => change(symbol),
        Initializer::List(items) => items.iter_mut().for_each(|item| rename_in_initializer(item, change)),
        _ => {}
    }
}
