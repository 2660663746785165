//! Where variables live, and their addresses as values.

use oriole_ir::{Class, File, Operand, OperandKind};
use oriole_ptx::ast::{self, AddressBase, Module, Parameter, VariableId};
use rustc_hash::FxHashMap;

use crate::error::Unsupported;
use crate::select::Select;

/// Where a variable lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Home {
    /// A kernel's parameter: offset in constant bank 0.
    Parameter(u32),
    /// In the frame: offset from the stack pointer.
    Local(u32),
    /// In shared memory: offset from its start, what the system reserves excluded.
    Shared(u32),
    /// In a constant bank.
    Constant {
        /// The bank.
        bank: u8,
        /// The offset in bytes.
        offset: u32,
    },
    /// In global memory, or anywhere else that only the linker knows: by name.
    Symbol(String),
}

/// Where the variables of a module, as one function sees them, live.
#[derive(Clone, Default, Debug)]
pub struct Homes {
    homes: FxHashMap<VariableId, Home>,
}

impl Homes {
    /// Says where a variable lives.
    pub fn insert(&mut self, variable: VariableId, home: Home) {
        self.homes.insert(variable, home);
    }

    /// Where a variable lives.
    pub fn get(&self, variable: VariableId) -> Option<&Home> {
        self.homes.get(&variable)
    }
}

/// Offsets of a kernel's parameters from the first one, and their size together.
pub fn parameter_offsets(module: &Module, parameters: &[Parameter]) -> (Vec<(VariableId, u32)>, u32) {
    let mut end = 0_u32;
    let mut offsets = Vec::new();
    for parameter in parameters {
        let Parameter::Variable(id) = *parameter else { continue };
        let variable = &module.variables[id];
        let align = variable.align_bytes().max(1) as u32;
        end = end.next_multiple_of(align);
        offsets.push((id, end));
        end += variable.size_bytes().unwrap_or(8) as u32;
    }
    (offsets, end)
}

/// An address split into what the machine adds up.
pub struct Place {
    /// A register or pair; none for a fixed place.
    pub base: Option<Operand>,
    /// What is added to it.
    pub offset: i64,
}

impl<'m> Select<'m> {
    /// The stack pointer.
    pub fn stack_pointer(&self) -> Operand {
        Operand::new(OperandKind::Register { file: File::General, first: 1, count: 1 })
    }

    /// The address that an operand without brackets means, as a 64-bit value in its variable's space.
    pub fn address_value(&mut self, operand: ast::Operand) -> Result<Operand, Unsupported> {
        let (base, offset) = match operand {
            ast::Operand::Variable(id) => (AddressBase::Variable(id), 0),
            ast::Operand::AddressOf(position) => {
                let address = self.frame.body.addresses[position as usize];
                (address.base, address.offset)
            }
            _ => return Err(Unsupported::new("this operand")),
        };
        let place = self.place(base, offset)?;
        let start = place.base.unwrap_or(Operand::RZ);
        let low = self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[self.low(start), place.offset.into()]);
        Ok(self.b.pack(Class::R2, &[low, Operand::RZ]))
    }

    /// An address as base and offset, in the space of its variable.
    pub fn place(&mut self, base: AddressBase, offset: i64) -> Result<Place, Unsupported> {
        match base {
            AddressBase::Register(register) => {
                let value = self.variable(register, 0);
                Ok(Place { base: Some(self.b.whole(value)), offset })
            }
            AddressBase::Element(register, component) => {
                let value = self.variable(register, component.index().unwrap_or(0));
                Ok(Place { base: Some(self.b.whole(value)), offset })
            }
            AddressBase::Absolute => Ok(Place { base: None, offset }),
            AddressBase::Variable(id) => self.variable_place(id, offset),
            AddressBase::VariableMember(..) => Err(Unsupported::new("an address in a parameterized variable")),
            AddressBase::Function(_) => Err(Unsupported::new("the address of a function")),
        }
    }

    fn variable_place(&mut self, id: VariableId, offset: i64) -> Result<Place, Unsupported> {
        match self.homes.get(id).cloned() {
            Some(Home::Parameter(start)) => Ok(Place { base: None, offset: offset + i64::from(start) }),
            Some(Home::Local(start)) => Ok(Place { base: Some(self.stack_pointer()), offset: offset + i64::from(start) }),
            _ => {
                let name = self.frame.module.name(self.frame.module.variables[id].name);
                Err(Unsupported::new(format!("the address of the variable {name}")))
            }
        }
    }
}
