//! Assigns addresses to the variables of a module and evaluates their initializers.
//!
//! Constants and shared variables get an offset in their space; global variables become allocations when a program is loaded. All kernels
//! of a module use the same layout. All dynamic shared arrays start at the end of the static shared variables.

use oriole_ptx::ast::{Constant, Initializer, Item, Linkage, Module, Statement, Variable, VariableId, VariableType};
use oriole_ptx::types::{ScalarType, StateSpace};
use oriole_sem::Mode;
use oriole_sem::convert::{Overflow, float_to_float};
use oriole_sem::format::{BF16, F16, F32, F64};
use oriole_support::Name;
use rustc_hash::FxHashMap;

use super::program::{CONSTANT_WINDOW, FUNCTION_BASE, FUNCTION_SPACING, SHARED_WINDOW};
use crate::memory::GlobalMemory;

/// The location of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariableHome {
    /// Index of a global variable.
    Global(u32),
    /// Offset in constant memory.
    Constant(u32),
    /// Offset in shared memory.
    Shared(u32),
}

/// A global variable and its initial contents.
pub(crate) struct Global {
    name: String,
    bytes: Vec<u8>,
    addresses: Vec<StoredAddress>,
}

/// An address within the initial contents of a variable; its value is known when the program is loaded.
struct StoredAddress {
    offset: usize,
    bytes: usize,
    symbol: StoredSymbol,
    addend: i64,
    /// Whether it is a generic address (`generic(x)`).
    generic: bool,
    /// Selects bits of the address (`mask(x)`), shifted down to bit 0.
    mask: Option<u64>,
}

/// The symbol that a stored address refers to.
#[derive(Clone, Copy)]
enum StoredSymbol {
    Variable(VariableHome),
    Function(u32),
}

/// The layout and initial contents of all variables.
#[derive(Default)]
pub(crate) struct PtxVariables {
    homes: FxHashMap<VariableId, VariableHome>,
    /// The definition for each name at module scope.
    by_name: FxHashMap<Name, VariableId>,
    globals: Vec<Global>,
    constants: Vec<u8>,
    constant_addresses: Vec<StoredAddress>,
    /// Total size of all variables so far, in bytes.
    memory_bytes: u64,
    /// Bytes of static shared memory, which is the offset of dynamic shared memory.
    pub(crate) shared_bytes: u32,
}

/// Maximum total size of all variables, in bytes.
const MOST_MEMORY: u64 = 256 << 20;

/// Addresses of the global variables of a loaded program, and the contents of constant memory.
pub(crate) struct ImageVariable {
    pub(crate) globals: Vec<u64>,
    pub(crate) constants: Vec<u8>,
}

impl PtxVariables {
    /// Lays out all variables. `function_number` maps function names to indices.
    pub(crate) fn new(module: &Module, function_number: &FxHashMap<Name, u32>) -> Result<PtxVariables, String> {
        let mut variables = PtxVariables::default();
        let outer = module.items.iter().filter_map(|item| if let Item::Variable(id) = item { Some(*id) } else { None });
        let bodies = module.functions.iter().filter_map(|function| function.body.as_deref());
        let inner = bodies.flat_map(|body| &body.statements).filter_map(|statement| match statement {
            Statement::Variable(id) => Some(*id),
            _ => None,
        });
        let outer: Vec<VariableId> = outer.collect();
        for &id in &outer {
            let variable = &module.variables[id];
            if variable.linkage != Linkage::Extern || variable.space == StateSpace::Shared {
                variables.by_name.insert(variable.name, id);
            }
        }
        let all: Vec<VariableId> = outer.iter().copied().chain(inner).collect();
        let mut dynamic_align = 16;
        for &id in &all {
            variables.place(module, id, &mut dynamic_align)?;
        }
        let dynamic_start = variables.shared_bytes.checked_next_multiple_of(dynamic_align);
        variables.shared_bytes = dynamic_start.ok_or("the shared variables are too large")?;
        for &id in &all {
            let variable = &module.variables[id];
            let is_dynamic = variable.space == StateSpace::Shared && variable.size_bytes().is_none_or(|bytes| bytes == 0);
            if is_dynamic {
                variables.homes.insert(id, VariableHome::Shared(variables.shared_bytes));
            }
        }
        for &id in &all {
            variables.fill(module, id, function_number)?;
        }
        Ok(variables)
    }

    /// Assigns a location to one variable; dynamic shared arrays only contribute their alignment.
    fn place(&mut self, module: &Module, id: VariableId, dynamic_align: &mut u32) -> Result<(), String> {
        let variable = &module.variables[id];
        let name = module.name(variable.name);
        let too_large = || format!("the variable {name} is too large");
        let VariableType::Scalar(_) = variable.ty else { return Ok(()) };
        let align = u32::try_from(variable.align_bytes().max(1)).map_err(|_| too_large())?;
        if variable.size_bytes().is_none_or(|bytes| bytes == 0) && variable.space == StateSpace::Shared {
            *dynamic_align = (*dynamic_align).max(align);
            return Ok(());
        }
        if variable.linkage == Linkage::Extern {
            return Ok(());
        }
        let bytes = variable_bytes(variable).ok_or_else(too_large)?;
        self.memory_bytes += u64::from(bytes);
        if self.memory_bytes > MOST_MEMORY {
            return Err(format!("the variables of the module take more than {MOST_MEMORY} bytes, which the interpreter does not hold"));
        }
        let home = match variable.space {
            StateSpace::Global => {
                self.globals.push(Global { name: name.to_owned(), bytes: vec![0; bytes as usize], addresses: Vec::new() });
                VariableHome::Global(self.globals.len() as u32 - 1)
            }
            StateSpace::Const => {
                let start = (self.constants.len() as u32).checked_next_multiple_of(align).ok_or_else(too_large)?;
                let end = start.checked_add(bytes).filter(|&end| u64::from(end) <= MOST_MEMORY).ok_or_else(too_large)?;
                self.constants.resize(end as usize, 0);
                VariableHome::Constant(start)
            }
            StateSpace::Shared => {
                let start = self.shared_bytes.checked_next_multiple_of(align).ok_or_else(too_large)?;
                self.shared_bytes = start.checked_add(bytes).ok_or_else(too_large)?;
                VariableHome::Shared(start)
            }
            _ => return Ok(()),
        };
        self.homes.insert(id, home);
        Ok(())
    }

    /// Evaluates the initializer of a variable.
    fn fill(&mut self, module: &Module, id: VariableId, function_number: &FxHashMap<Name, u32>) -> Result<(), String> {
        let variable = &module.variables[id];
        let (Some(initializer), VariableType::Scalar(ty)) = (variable.initializer.as_deref(), variable.ty) else { return Ok(()) };
        let mut dimensions: Vec<usize> = variable.dimensions.iter().map(|dimension| dimension.unwrap_or(0) as usize).collect();
        if variable.lanes > 1 {
            dimensions.push(usize::from(variable.lanes));
        }
        let mut writer = VariableWriter { module, variables: self, function_number, ty, bytes: Vec::new(), addresses: Vec::new() };
        writer.bytes.resize(variable_bytes(variable).unwrap_or(0) as usize, 0);
        writer.write(initializer, &dimensions, 0)?;
        let (bytes, mut addresses) = (writer.bytes, writer.addresses);
        match self.homes.get(&id) {
            Some(&VariableHome::Global(number)) => {
                let global = &mut self.globals[number as usize];
                global.bytes = bytes;
                global.addresses = addresses;
            }
            Some(&VariableHome::Constant(start)) => {
                let start = start as usize;
                self.constants[start..start + bytes.len()].copy_from_slice(&bytes);
                addresses.iter_mut().for_each(|address| address.offset += start);
                self.constant_addresses.append(&mut addresses);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the location of a variable; a declaration has the location of the definition with its name.
    pub(crate) fn home(&self, module: &Module, id: VariableId) -> Option<VariableHome> {
        let own = self.homes.get(&id);
        own.or_else(|| self.by_name.get(&module.variables[id].name).and_then(|definition| self.homes.get(definition))).copied()
    }

    /// Allocates the global variables and fills in the addresses in their initial contents.
    pub(crate) fn load(&self, memory: &mut GlobalMemory) -> ImageVariable {
        let globals: Vec<u64> = self.globals.iter().map(|global| memory.allocate(&global.name, global.bytes.clone())).collect();
        for (global, &base) in self.globals.iter().zip(&globals) {
            for address in &global.addresses {
                let value = address.value(&globals);
                if let Ok(place) = memory.write(base + address.offset as u64, address.bytes) {
                    place.copy_from_slice(&value.to_le_bytes()[..address.bytes]);
                }
            }
        }
        let mut constants = self.constants.clone();
        for address in &self.constant_addresses {
            let value = address.value(&globals);
            constants[address.offset..address.offset + address.bytes].copy_from_slice(&value.to_le_bytes()[..address.bytes]);
        }
        ImageVariable { globals, constants }
    }
}

impl StoredAddress {
    /// Returns the value of the address.
    fn value(&self, globals: &[u64]) -> u64 {
        let base = match self.symbol {
            StoredSymbol::Variable(VariableHome::Global(number)) => globals[number as usize],
            StoredSymbol::Variable(VariableHome::Constant(offset)) => u64::from(offset) + if self.generic { CONSTANT_WINDOW } else { 0 },
            StoredSymbol::Variable(VariableHome::Shared(offset)) => u64::from(offset) + if self.generic { SHARED_WINDOW } else { 0 },
            StoredSymbol::Function(number) => function_address(number),
        };
        let address = base.wrapping_add_signed(self.addend);
        self.mask.map_or(address, |mask| (address & mask) >> mask.trailing_zeros().min(63))
    }
}

/// Returns the address of a function.
pub(crate) fn function_address(number: u32) -> u64 {
    FUNCTION_BASE + u64::from(number) * FUNCTION_SPACING
}

/// Returns the size in bytes of a variable, or of all variables of a parameterized declaration (`x<n>`).
pub(crate) fn variable_bytes(variable: &Variable) -> Option<u32> {
    let one = u32::try_from(variable.size_bytes()?).ok()?;
    match variable.count {
        Some(count) => member_stride(variable).checked_mul(count),
        None => Some(one),
    }
}

/// Returns the distance in bytes between the variables of a parameterized declaration.
pub(crate) fn member_stride(variable: &Variable) -> u32 {
    let bytes = variable.size_bytes().and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0);
    bytes.checked_next_multiple_of(u32::try_from(variable.align_bytes().max(1)).unwrap_or(1)).unwrap_or(u32::MAX)
}

/// Evaluates an initializer into bytes and addresses.
struct VariableWriter<'m> {
    module: &'m Module,
    variables: &'m PtxVariables,
    function_number: &'m FxHashMap<Name, u32>,
    ty: ScalarType,
    bytes: Vec<u8>,
    addresses: Vec<StoredAddress>,
}

impl VariableWriter<'_> {
    /// Writes an initializer for the sub-array with these dimensions, starting at element `first`.
    fn write(&mut self, initializer: &Initializer, dimensions: &[usize], first: usize) -> Result<(), String> {
        let Initializer::List(items) = initializer else { return self.write_one(initializer, first) };
        let inner = dimensions.get(1..).unwrap_or_default();
        let size: usize = inner.iter().product();
        let mut at = first;
        for item in items {
            self.write(item, inner, at)?;
            at += if matches!(item, Initializer::List(_)) { size } else { 1 };
        }
        Ok(())
    }

    /// Writes a scalar initializer to one element.
    fn write_one(&mut self, initializer: &Initializer, element: usize) -> Result<(), String> {
        let bytes = self.ty.bytes() as usize;
        let offset = element * bytes;
        let value = match initializer {
            Initializer::Constant(constant) => constant_bits(*constant, self.ty),
            Initializer::MaskedNumber { mask, value } => (*value as u64 & mask) >> mask.trailing_zeros().min(63),
            Initializer::Address { symbol, offset: addend, generic, mask } => {
                let symbol = self.symbol(*symbol)?;
                self.addresses.push(StoredAddress { offset, bytes, symbol, addend: *addend, generic: *generic, mask: *mask });
                0
            }
            Initializer::List(_) | Initializer::Opaque(_) => return Err("an initial value of a texture or sampler".to_owned()),
        };
        let place = self.bytes.get_mut(offset..offset + bytes).ok_or("an initial value that is longer than its variable")?;
        for (byte, target) in place.iter_mut().enumerate() {
            *target = if byte < 8 { value.to_le_bytes()[byte] } else { 0 };
        }
        Ok(())
    }

    /// Finds the function or variable with a name.
    fn symbol(&self, name: Name) -> Result<StoredSymbol, String> {
        if let Some(&number) = self.function_number.get(&name) {
            return Ok(StoredSymbol::Function(number));
        }
        let inner = || self.module.variables.iter_enumerated().find(|(_, variable)| variable.name == name).map(|(id, _)| id);
        let id = self.variables.by_name.get(&name).copied().or_else(inner);
        let home = id.and_then(|id| self.variables.home(self.module, id));
        home.map(StoredSymbol::Variable).ok_or_else(|| format!("the address of {}, which is not defined here", self.module.name(name)))
    }
}

/// Returns the bits of a constant, converted to a type.
pub(crate) fn constant_bits(constant: Constant, ty: ScalarType) -> u64 {
    let bits = match constant {
        Constant::Integer(number, _) => integer_bits(number, ty),
        Constant::Single(bits) => match ty {
            _ if ty.bits() == 64 => float_to_float(F64, F32, u64::from(bits), Mode::RN, Overflow::Ieee),
            ScalarType::F16 => float_to_float(F16, F32, u64::from(bits), Mode::RN, Overflow::Ieee),
            ScalarType::Bf16 => float_to_float(BF16, F32, u64::from(bits), Mode::RN, Overflow::Ieee),
            _ => u64::from(bits),
        },
        Constant::Double(bits) => double_bits(bits, ty),
        Constant::Decimal(number) => double_bits(number.to_bits(), ty),
    };
    bits & low_bits(ty.bits())
}

/// Returns the bits of an integer, converted to a type.
pub(crate) fn integer_bits(number: i64, ty: ScalarType) -> u64 {
    let bits = match ty {
        ScalarType::F16 | ScalarType::F32 | ScalarType::F64 => double_bits((number as f64).to_bits(), ty),
        _ => number as u64,
    };
    bits & low_bits(ty.bits())
}

/// Returns the bits of a double, converted to a type.
fn double_bits(bits: u64, ty: ScalarType) -> u64 {
    let to = match ty {
        _ if ty.bits() == 64 => return bits,
        ScalarType::F16 => F16,
        ScalarType::Bf16 => BF16,
        _ => F32,
    };
    float_to_float(to, F64, bits, Mode::RN, Overflow::Ieee)
}

/// Returns a mask of the `count` lowest bits.
pub(crate) fn low_bits(count: u32) -> u64 {
    match count {
        0 => 0,
        1..=63 => (1 << count) - 1,
        _ => u64::MAX,
    }
}
