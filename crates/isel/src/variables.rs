//! Locations of variables, and the computation of their addresses.
//!
//! Every memory space has its own base: kernel parameters are counted from the first parameter, local variables from the stack pointer,
//! constants from the start of constant bank 3. Shared memory starts after the part that the system reserves; on targets with clusters a
//! special register contributes the upper bits of the address. The address of a global variable is read from a table in constant bank 4
//! (eight bytes per variable), or is a relocation that the linker resolves.

use oriole_ir::{Class, Operand, OperandKind, Reference, ReferenceKind, RegFile, Symbol};
use oriole_isa::{SharedWindow, SystemLayout};
use oriole_ptx::ast::{self, AddressBase, VariableId};

use crate::context::Select;
use crate::error::Unsupported;
use crate::variable_layout::{ADDRESS_BANK, SymbolSpace, VariableLocation};
use crate::variable_sizes::is_opaque;

/// An address as the sum of a base and an offset.
#[derive(Clone, Copy, Debug)]
pub struct BaseOffset {
    /// A register (32-bit address) or a register pair (64-bit address); `None` for an absolute address.
    pub base: Option<Operand>,
    /// Byte offset added to the base.
    pub offset: i64,
}

impl<'m> Select<'m> {
    /// Returns R1, the stack pointer.
    pub fn stack_pointer(&self) -> Operand {
        Operand::new(OperandKind::Register { file: RegFile::General, first: 1, count: 1 })
    }

    /// Returns the address denoted by an operand without brackets, as a 64-bit value in the memory space of its variable.
    pub fn address_value(&mut self, operand: ast::Operand) -> Result<Operand, Unsupported> {
        let (base, offset) = match operand {
            ast::Operand::Variable(id) if is_opaque(&self.frame.module.variables[id]) => return self.reference_handle(id),
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

    /// Returns base plus offset as one 64-bit value.
    pub(crate) fn place_sum(&mut self, place: BaseOffset) -> Operand {
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

    /// Returns the number of registers in an operand; an immediate counts as one.
    pub(crate) fn register_count(&self, operand: Operand) -> u8 {
        match operand.kind {
            OperandKind::Value(part) => part.count,
            OperandKind::Register { count, .. } => count,
            _ => 1,
        }
    }

    /// Emits a 64-bit addition of a constant.
    pub(crate) fn add_to_pair(&mut self, base: Operand, offset: i64) -> Operand {
        if offset == 0 {
            return base;
        }
        let (low, high) = (Operand::from(offset as u32), Operand::from((offset >> 32) as u32));
        self.add_pairs([self.low(base), self.high(base)], [low, high])
    }

    /// Emits a 64-bit addition of values given as 32-bit halves, low half first.
    pub(crate) fn add_pairs(&mut self, a: [Operand; 2], b: [Operand; 2]) -> Operand {
        let (low, carry) = self.b.define_two([Class::R, Class::P], "IADD3 $, $, PT, {}, {}, RZ", &[a[0], b[0]]);
        let high = self.b.define(Class::R, "IADD3.X $, PT, PT, {}, {}, RZ, {}, !PT", &[a[1], b[1], carry]);
        self.b.pack(Class::R2, &[low, high])
    }

    /// Emits a 64-bit subtraction of values given as 32-bit halves, low half first.
    pub(crate) fn subtract_pairs(&mut self, a: [Operand; 2], b: [Operand; 2]) -> Operand {
        let (low, carry) = self.b.define_two([Class::R, Class::P], "IADD3 $, $, PT, {}, -{}, RZ", &[a[0], b[0]]);
        let high = self.b.define(Class::R, "IADD3.X $, PT, PT, {}, ~{}, RZ, {}, !PT", &[a[1], b[1], carry]);
        self.b.pack(Class::R2, &[low, high])
    }

    /// Returns an address as base and offset, in the memory space of its variable.
    pub fn place(&mut self, base: AddressBase, offset: i64) -> Result<BaseOffset, Unsupported> {
        match base {
            AddressBase::Register(register) => {
                let value = self.variable(register, 0);
                Ok(BaseOffset { base: Some(self.b.whole(value)), offset })
            }
            AddressBase::Element(register, component) => {
                let value = self.variable(register, component.index().unwrap_or(0));
                Ok(BaseOffset { base: Some(self.b.whole(value)), offset })
            }
            AddressBase::Absolute => Ok(BaseOffset { base: None, offset }),
            AddressBase::Variable(id) => self.variable_place(id, offset),
            AddressBase::VariableMember(id, member) => {
                let stride = self.variables.stride(id).unwrap_or_default();
                self.variable_place(id, offset.wrapping_add(i64::from(stride) * i64::from(member)))
            }
            AddressBase::Function(id) => Ok(BaseOffset { base: Some(self.function_address(id, 0)), offset }),
        }
    }

    /// Returns the base and offset of a variable's location plus `offset`.
    fn variable_place(&mut self, id: VariableId, offset: i64) -> Result<BaseOffset, Unsupported> {
        match self.variables.get(id).cloned() {
            Some(VariableLocation::Parameter(start) | VariableLocation::Constant(start)) => {
                Ok(BaseOffset { base: None, offset: offset.wrapping_add(i64::from(start)) })
            }
            Some(VariableLocation::Local(start)) => {
                Ok(BaseOffset { base: Some(self.stack_pointer()), offset: offset.wrapping_add(i64::from(start + self.locals_start)) })
            }
            Some(VariableLocation::Shared(start)) => {
                Ok(BaseOffset { base: self.shared_start(), offset: offset.wrapping_add(i64::from(start)) })
            }
            Some(VariableLocation::AddressTableSlot(slot)) => {
                let halves = [slot, slot + 4].map(|at| self.b.define(Class::R, "MOV $, {}", &[Operand::constant(ADDRESS_BANK, at)]));
                Ok(BaseOffset { base: Some(self.b.pack(Class::R2, &halves)), offset })
            }
            Some(VariableLocation::Symbol { name, space }) => Ok(self.symbol_place(&name, space, offset)),
            // Variable arguments are in the caller's frame. Their distance from the stack pointer depends on the size of this frame, which
            // is unknown until registers are allocated, so the offset is a reference that is resolved later.
            None if self.variadic_parameter.is_some_and(|(open, _)| open == id) => {
                let start = self.variadic_parameter.map_or(0, |(_, start)| start);
                let own = self.b.function.name.clone();
                let symbol = self.b.symbol(&own);
                let incoming = Reference { symbol, offset: start as i32, kind: ReferenceKind::Incoming };
                let base = self.b.define(Class::R, "IADD3 $, PT, PT, {}, {}, RZ", &[self.stack_pointer(), incoming.into()]);
                Ok(BaseOffset { base: Some(base), offset })
            }
            // A parameter of a device function whose address is taken: the function entry stores it into the frame.
            None if self.parameter_slots.contains_key(&id) => {
                let start = self.parameter_slots[&id];
                Ok(BaseOffset { base: Some(self.stack_pointer()), offset: offset.wrapping_add(i64::from(start)) })
            }
            None => {
                let name = self.frame.module.name(self.frame.module.variables[id].name);
                Err(Unsupported::new(format!("the address of the variable {name}")))
            }
        }
    }

    /// Returns the address of a symbol as relocations.
    fn symbol_place(&mut self, name: &str, space: SymbolSpace, offset: i64) -> BaseOffset {
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
        BaseOffset { base: Some(base), offset }
    }

    /// Returns the start of this thread block's shared memory, after the part that the system reserves; `None` on targets without
    /// clusters, where shared addresses start at 0.
    ///
    /// In a cluster, blocks can access each other's shared memory: the upper eight bits of a shared address are the rank of the block in
    /// the cluster.
    pub(crate) fn shared_start(&mut self) -> Option<Operand> {
        let profile = SystemLayout::of(self.target);
        if profile.shared_window != SharedWindow::Cluster {
            return None;
        }
        let value = match self.shared_start {
            Some(value) => value,
            None => {
                let value = self.b.value(Class::R);
                let reserved = Operand::from(if self.options.without_shared_reservation { 0 } else { profile.reserved_shared });
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

    /// Returns the upper half of generic addresses of shared memory, on targets that have it in a special register.
    pub(crate) fn shared_window_high(&mut self) -> Operand {
        let name = Symbol::find("SR_SWINHI").expect("the table of special registers has it");
        self.b.define(Class::R, "S2R $, {}", &[name.into()])
    }
}
