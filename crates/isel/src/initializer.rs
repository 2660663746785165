//! Computes the initial contents of variables from their PTX initializers.

use oriole_ptx::ast::{Initializer, Module, VariableId, VariableType};
use oriole_ptx::types::{ScalarType, StateSpace};
use oriole_support::Name;

use crate::error::Unsupported;
use crate::layout::{Layout, Linking};
use crate::operands::constant_bits;
use crate::static_data::{Data, DataAddress};

/// Computes the initial contents of a variable. A texture, sampler or surface has a handle of eight zero bytes.
pub(crate) fn initial_data(module: &Module, layout: &Layout, id: VariableId) -> Result<Data, Unsupported> {
    let variable = &module.variables[id];
    let VariableType::Scalar(ty) = variable.ty else { return Ok(Data { bytes: vec![0; 8], addresses: Vec::new() }) };
    let size = usize::try_from(variable.size_bytes().unwrap_or(0)).unwrap_or(usize::MAX);
    let mut data = Data::default();
    let Some(initializer) = variable.initializer.as_deref() else { return Ok(data) };
    let mut dimensions: Vec<usize> = variable.dimensions.iter().map(|dimension| dimension.unwrap_or(0) as usize).collect();
    if variable.lanes > 1 {
        dimensions.push(usize::from(variable.lanes));
    }
    let mut writer = InitializerWriter { module, layout, ty, size, data: &mut data };
    writer.write(initializer, &dimensions, 0)?;
    Ok(data)
}

/// The state of writing the initializer of one variable.
struct InitializerWriter<'m> {
    module: &'m Module,
    layout: &'m Layout,
    /// The type of an element.
    ty: ScalarType,
    /// Size of the variable in bytes.
    size: usize,
    data: &'m mut Data,
}

impl InitializerWriter<'_> {
    /// Writes an initializer whose first element is number `first` of the variable and whose array dimensions are `dimensions`.
    fn write(&mut self, initializer: &Initializer, dimensions: &[usize], first: usize) -> Result<(), Unsupported> {
        let Initializer::List(items) = initializer else { return self.write_one(initializer, first) };
        let inner = dimensions.get(1..).unwrap_or_default();
        let size = inner.iter().fold(1, |size: usize, &dimension| size.saturating_mul(dimension));
        let mut at = first;
        for item in items {
            self.write(item, inner, at)?;
            at = at.saturating_add(if matches!(item, Initializer::List(_)) { size } else { 1 });
        }
        Ok(())
    }

    /// Writes the value of one element.
    fn write_one(&mut self, initializer: &Initializer, element: usize) -> Result<(), Unsupported> {
        let bytes = self.ty.bytes() as usize;
        let offset = element.saturating_mul(bytes);
        let value = match initializer {
            Initializer::Constant(constant) => constant_bits(*constant, self.ty),
            Initializer::MaskedNumber { mask, value } => (*value as u64 & mask) >> mask.trailing_zeros(),
            Initializer::Address { symbol, offset: addend, generic, mask } => {
                if let Some(known) = self.known_address(*symbol, *generic) {
                    let address = known.wrapping_add_signed(*addend);
                    mask.map_or(address, |mask| (address & mask) >> mask.trailing_zeros())
                } else {
                    let byte = mask.map(|mask| (mask.trailing_zeros() / 8) as u8);
                    let symbol = self.file_name(*symbol);
                    let address =
                        DataAddress { offset: offset as u64, bytes: bytes as u32, symbol, addend: *addend, is_generic: *generic, byte };
                    self.data.addresses.push(address);
                    0
                }
            }
            Initializer::List(_) | Initializer::Opaque(_) => return Err(Unsupported::new("this initial value")),
        };
        let end = offset.saturating_add(bytes);
        if end > self.size {
            return Err(Unsupported::new("an initial value that is longer than its variable"));
        }
        if self.data.bytes.len() < end {
            self.data.bytes.resize(end, 0);
        }
        let place = &mut self.data.bytes[offset..end];
        // A constant has 64 bits. ptxas puts zeros above, also where it is negative.
        place.copy_from_slice(&u128::from(value).to_le_bytes()[..bytes]);
        Ok(())
    }

    /// Returns the address of a `.const` variable in its own space (its offset in bank 3), if it is known without linking.
    fn known_address(&self, name: Name, generic: bool) -> Option<u64> {
        if generic || self.layout.linking == Linking::Relocatable {
            return None;
        }
        let id = self.layout.variable(name)?;
        if self.module.variables[id].space != StateSpace::Const {
            return None;
        }
        self.layout.constant_offset(id).map(u64::from)
    }

    /// Returns the name of a symbol in the output file.
    fn file_name(&self, name: Name) -> String {
        // The address of an alias is that of its function.
        let name = self.layout.resolve_alias(name);
        let known = self.layout.variable(name).and_then(|id| self.layout.name(id));
        known.unwrap_or_else(|| self.module.name(name)).to_owned()
    }
}
