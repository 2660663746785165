//! Where variables live, and their addresses as values.
//!
//! Every space counts addresses from its own start: parameters of a kernel from the first one, shared memory from what a special
//! register and the system's reserved part give, local memory from the stack pointer, constants from the start of bank 3. Addresses of
//! global variables are in constant bank 4, one slot of eight bytes each, or references that the linker fills in.

use std::sync::Arc;

use oriole_ir::{Class, File, Operand, OperandKind, Reference, ReferenceKind, Symbol};
use oriole_isa::SharedWindow;
use oriole_ptx::ast::{self, AddressBase, VariableId};
use oriole_support::Name;
use rustc_hash::FxHashMap;

use crate::error::Unsupported;
use crate::select::Select;

/// The bank with the addresses of global variables.
pub const ADDRESS_BANK: u8 = 4;
/// The bank with the variables in `.const`.
pub const CONSTANT_BANK: u8 = 3;

/// Where a variable lives.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Home {
    /// A kernel's parameter: offset from the first one.
    Parameter(u32),
    /// In the frame: offset from the stack pointer.
    Local(u32),
    /// In shared memory: offset from its start, what the system reserves excluded.
    Shared(u32),
    /// In constant bank 3, at this offset.
    Constant(u32),
    /// In global memory; its address is at this offset of constant bank 4.
    Table(u32),
    /// At an address that the linker fills in.
    Symbol {
        /// The name.
        name: String,
        /// What kind of address it is.
        space: SymbolSpace,
    },
}

/// The space of a variable whose address the linker knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SymbolSpace {
    /// 64-bit addresses.
    Global,
    /// Offsets in shared memory, what the system reserves excluded.
    Shared,
    /// Offsets in constant bank 3.
    Constant,
}

/// What is the same for all functions of a module. Functions share it: a copy for each would make the time to compile a module grow with the
/// product of its functions and variables.
#[derive(Default, Debug)]
pub(crate) struct ModuleHomes {
    /// Variables in `.const` and `.global`.
    pub(crate) statics: FxHashMap<VariableId, Home>,
    /// Distance between the variables of a parameterized declaration (`.shared .b32 v<4>`).
    pub(crate) strides: FxHashMap<VariableId, u32>,
    /// What the aliases of the module stand for.
    pub(crate) aliases: FxHashMap<Name, Name>,
}

/// Where the variables of a module, as one function sees them, live, and what they take.
#[derive(Clone, Default, Debug)]
pub struct Homes {
    /// Variables of this function only.
    homes: FxHashMap<VariableId, Home>,
    pub(crate) module: Arc<ModuleHomes>,
    /// Bytes of parameters.
    pub parameter_bytes: u64,
    /// Bytes of static shared memory, what the system reserves excluded.
    pub shared_bytes: u64,
    /// The largest alignment in shared memory, dynamic arrays included.
    pub shared_align: u32,
    /// Whether it uses dynamic shared memory.
    pub uses_dynamic_shared: bool,
    /// Bytes of the variables in the frame.
    pub frame_bytes: u64,
    /// Their largest alignment.
    pub frame_align: u32,
    /// Bytes of constant bank 3.
    pub constant_bytes: u64,
}

impl Homes {
    /// Those of the module only.
    pub(crate) fn of(module: Arc<ModuleHomes>) -> Homes {
        Homes { module, ..Homes::default() }
    }

    /// Says where a variable lives.
    pub fn insert(&mut self, variable: VariableId, home: Home) {
        self.homes.insert(variable, home);
    }

    /// How far the variables of a parameterized declaration are apart.
    pub(crate) fn stride(&self, variable: VariableId) -> Option<u32> {
        self.module.strides.get(&variable).copied()
    }

    /// Where a variable lives.
    pub fn get(&self, variable: VariableId) -> Option<&Home> {
        self.homes.get(&variable).or_else(|| self.module.statics.get(&variable))
    }
}

/// An address split into what the machine adds up.
#[derive(Clone, Copy, Debug)]
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
            ast::Operand::Function(id) => return Ok(self.function_address(id, 0)),
            _ => return Err(Unsupported::new("this operand")),
        };
        let place = self.place(base, offset)?;
        Ok(self.place_sum(place))
    }

    /// A place as one 64-bit value.
    pub(crate) fn place_sum(&mut self, place: Place) -> Operand {
        let Some(base) = place.base else { return self.wide_number(place.offset as u64) };
        if self.register_count(base) == 1 {
            let low = if place.offset == 0 {
                self.in_register(base)
            } else {
                self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[base, Operand::from(place.offset as u32)])
            };
            return self.b.pack(Class::R2, &[low, Operand::RZ]);
        }
        self.add_to_pair(base, place.offset)
    }

    /// How many registers an operand is; numbers count as one.
    pub(crate) fn register_count(&self, operand: Operand) -> u8 {
        match operand.kind {
            OperandKind::Value(part) => part.count,
            OperandKind::Register { count, .. } => count,
            _ => 1,
        }
    }

    /// A 64-bit value plus a number.
    pub(crate) fn add_to_pair(&mut self, base: Operand, offset: i64) -> Operand {
        if offset == 0 {
            return base;
        }
        let (low, high) = (Operand::from(offset as u32), Operand::from((offset >> 32) as u32));
        self.add_pairs([self.low(base), self.high(base)], [low, high])
    }

    /// The sum of two 64-bit values in halves.
    pub(crate) fn add_pairs(&mut self, a: [Operand; 2], b: [Operand; 2]) -> Operand {
        let (low, carry) = self.b.define_two([Class::R, Class::P], "IADD3 $, $, PT, {}, {}, RZ", &[a[0], b[0]]);
        let high = self.b.define(Class::R, "IADD3.X $, PT, PT, {}, {}, RZ, {}, !PT", &[a[1], b[1], carry]);
        self.b.pack(Class::R2, &[low, high])
    }

    /// The difference of two 64-bit values in halves.
    pub(crate) fn subtract_pairs(&mut self, a: [Operand; 2], b: [Operand; 2]) -> Operand {
        let (low, carry) = self.b.define_two([Class::R, Class::P], "IADD3 $, $, PT, {}, -{}, RZ", &[a[0], b[0]]);
        let high = self.b.define(Class::R, "IADD3.X $, PT, PT, {}, ~{}, RZ, {}, !PT", &[a[1], b[1], carry]);
        self.b.pack(Class::R2, &[low, high])
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
            AddressBase::VariableMember(id, member) => {
                let stride = self.homes.stride(id).unwrap_or_default();
                self.variable_place(id, offset.wrapping_add(i64::from(stride) * i64::from(member)))
            }
            AddressBase::Function(id) => Ok(Place { base: Some(self.function_address(id, 0)), offset }),
        }
    }

    fn variable_place(&mut self, id: VariableId, offset: i64) -> Result<Place, Unsupported> {
        match self.homes.get(id).cloned() {
            Some(Home::Parameter(start) | Home::Constant(start)) => Ok(Place { base: None, offset: offset.wrapping_add(i64::from(start)) }),
            Some(Home::Local(start)) => {
                Ok(Place { base: Some(self.stack_pointer()), offset: offset.wrapping_add(i64::from(start + self.locals_start)) })
            }
            Some(Home::Shared(start)) => Ok(Place { base: self.shared_start(), offset: offset.wrapping_add(i64::from(start)) }),
            Some(Home::Table(slot)) => {
                let halves = [slot, slot + 4].map(|at| self.b.define(Class::R, "MOV $, {}", &[Operand::constant(ADDRESS_BANK, at)]));
                Ok(Place { base: Some(self.b.pack(Class::R2, &halves)), offset })
            }
            Some(Home::Symbol { name, space }) => Ok(self.symbol_place(&name, space, offset)),
            None if self.open_parameter.is_some_and(|(open, _)| open == id) => {
                let start = self.open_parameter.map_or(0, |(_, start)| start);
                let own = self.b.function.name.clone();
                let symbol = self.b.symbol(&own);
                let incoming = Reference { symbol, offset: start as i32, kind: ReferenceKind::Incoming };
                let base = self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[self.stack_pointer(), incoming.into()]);
                Ok(Place { base: Some(base), offset })
            }
            None if self.parameter_slots.contains_key(&id) => {
                let start = self.parameter_slots[&id];
                Ok(Place { base: Some(self.stack_pointer()), offset: offset.wrapping_add(i64::from(start)) })
            }
            None => {
                let name = self.frame.module.name(self.frame.module.variables[id].name);
                Err(Unsupported::new(format!("the address of the variable {name}")))
            }
        }
    }

    fn symbol_place(&mut self, name: &str, space: SymbolSpace, offset: i64) -> Place {
        let symbol = self.b.symbol(name);
        let mut part = |kind| {
            let reference = Reference { symbol, offset: 0, kind };
            self.b.define(Class::R, "MOV $, {}", &[reference.into()])
        };
        let base = match space {
            SymbolSpace::Global => {
                let halves = [part(ReferenceKind::Low), part(ReferenceKind::High)];
                self.b.pack(Class::R2, &halves)
            }
            SymbolSpace::Constant => part(ReferenceKind::ConstantOffset),
            SymbolSpace::Shared => {
                let start = part(ReferenceKind::SharedOffset);
                match self.shared_start() {
                    Some(window) => self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[window, start]),
                    None => start,
                }
            }
        };
        Place { base: Some(base), offset }
    }

    /// Where this block's shared memory starts, what the system reserves included; none where that is 0.
    ///
    /// Blocks of a cluster see each other's shared memory: the upper eight bits of an address are the number of the block.
    pub(crate) fn shared_start(&mut self) -> Option<Operand> {
        let profile = self.target.profile();
        if profile.shared_window != SharedWindow::Cluster {
            return None;
        }
        let value = match self.shared_start {
            Some(value) => value,
            None => {
                let value = self.b.value(Class::R);
                let reserved = Operand::from(profile.reserved_shared);
                self.b.at_entry(|b| {
                    let block = b.define(Class::R, "S2R $, SR_CgaCtaId", &[]);
                    let whole = b.whole(value);
                    b.emit("LEA {}, PT, {}, {}, 0x18", &[whole, block, reserved]);
                });
                self.shared_start = Some(value);
                value
            }
        };
        Some(self.b.whole(value))
    }

    /// The upper half of generic addresses of shared memory, where that is in a special register.
    pub(crate) fn shared_window_high(&mut self) -> Operand {
        let name = Symbol::find("SR_SWINHI").expect("the table of special registers has it");
        self.b.define(Class::R, "S2R $, {}", &[name.into()])
    }
}
