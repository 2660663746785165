//! Decodes operands: registers, numbers, addresses, and the parts of vectors and pairs.

use oriole_ptx::ast::{self, AddressBase, RegisterId};
use oriole_ptx::table::Component;
use oriole_ptx::types::{ScalarType, StateSpace};

use super::{Decode, FunctionDecoder, Missing, slots_of};
use crate::ptx::program::{PtxAction, PtxAddress, PtxSource, PtxSpace, Pure, RegisterSlot, SINK, Taint};
use crate::ptx::variables::{VariableHome, constant_bits, function_address, integer_bits, low_bits};

impl FunctionDecoder<'_> {
    /// Returns the slot of a register, or of one element of a vector register.
    pub(crate) fn slot(&self, register: RegisterId, element: u8) -> RegisterSlot {
        let declaration = self.body.declaration_of(register);
        let slots = slots_of(declaration.ty);
        let new = || self.new_slots(u32::from(declaration.lanes.max(1)) * slots);
        let first = *self.slots.borrow_mut().entry(register).or_insert_with(new);
        first + u32::from(element) * slots
    }

    /// Returns the declared width of a destination in bits; 0 for `_`.
    pub(crate) fn width(&self, operand: ast::Operand) -> u32 {
        match operand {
            ast::Operand::Register(register) | ast::Operand::Element(register, _) => self.body.declaration_of(register).ty.bits(),
            _ => 0,
        }
    }

    /// Returns the slot of a destination.
    pub(crate) fn destination(&self, operand: ast::Operand) -> Decode<RegisterSlot> {
        match operand {
            ast::Operand::Register(register) => Ok(self.slot(register, 0)),
            ast::Operand::Element(register, component) => Ok(self.slot(register, component.index().unwrap_or(0))),
            ast::Operand::Sink => Ok(SINK),
            _ => Err(Missing::new("this operand as a destination")),
        }
    }

    /// Returns the bits of a literal operand, converted to a type; `None` if the operand is not a literal.
    pub(crate) fn literal(&self, operand: ast::Operand, ty: ScalarType) -> Option<u64> {
        let bits = match operand {
            ast::Operand::Integer(number) => integer_bits(i64::from(number), ty),
            ast::Operand::WarpSize => 32,
            ast::Operand::Constant(id) => constant_bits(self.body.constants[id], ty),
            _ => return None,
        };
        Some(bits & low_bits(ty.bits()))
    }

    /// Returns a source of up to 64 bits.
    pub(crate) fn source(&mut self, operand: ast::Operand, ty: ScalarType) -> Decode<PtxSource> {
        if ty == ScalarType::Pred {
            return self.predicate(operand);
        }
        if let Some(bits) = self.literal(operand, ty) {
            return Ok(self.constant(bits));
        }
        match operand {
            ast::Operand::Register(register) => Ok(PtxSource::register(self.slot(register, 0))),
            ast::Operand::Element(register, component) => Ok(PtxSource::register(self.slot(register, component.index().unwrap_or(0)))),
            ast::Operand::Special(special) => Ok(PtxSource::register(self.special(special)?)),
            ast::Operand::Vector(list) if self.body.list(list).len() == 1 => self.source(self.body.list(list)[0], ty),
            _ => self.address_value(operand),
        }
    }

    /// Returns both halves of a 128-bit source, the lower one first.
    pub(crate) fn halves(&mut self, operand: ast::Operand, ty: ScalarType) -> Decode<[PtxSource; 2]> {
        match operand {
            ast::Operand::Register(register) if self.width(operand) == 128 => {
                let low = self.slot(register, 0);
                Ok([PtxSource::register(low), PtxSource::register(low + 1)])
            }
            // A constant has 64 bits. ptxas puts zeros above, also where it is negative.
            ast::Operand::Integer(number) => Ok([self.constant(i64::from(number) as u64), self.zero()]),
            _ => Ok([self.source(operand, ty)?, self.zero()]),
        }
    }

    /// Returns a predicate source, negated if the operand says so.
    pub(crate) fn predicate(&mut self, operand: ast::Operand) -> Decode<PtxSource> {
        Ok(match operand {
            ast::Operand::Register(register) => PtxSource::register(self.slot(register, 0)),
            ast::Operand::NotRegister(register) => {
                let register = PtxSource::register(self.slot(register, 0));
                self.inverted(register)
            }
            ast::Operand::Integer(number) => self.constant(u64::from(number != 0)),
            ast::Operand::WarpSize => self.constant(1),
            ast::Operand::Constant(id) if matches!(self.body.constants[id], ast::Constant::Integer(..)) => {
                let is_true = !matches!(self.body.constants[id], ast::Constant::Integer(0, _));
                self.constant(u64::from(is_true))
            }
            ast::Operand::Special(special) => PtxSource::register(self.special(special)?),
            ast::Operand::Selected(list) => match *self.body.list(list) {
                [ast::Operand::Special(special), ast::Operand::Minus] => {
                    let slot = self.special(special)?;
                    self.inverted(PtxSource::register(slot))
                }
                _ => return Err(Missing::new("this operand as a predicate")),
            },
            _ => return Err(Missing::new("this operand as a predicate")),
        })
    }

    /// Emits the negation of a predicate.
    fn inverted(&mut self, predicate: PtxSource) -> PtxSource {
        let destination = self.temporary();
        let sources = [predicate, self.zero(), self.zero(), self.zero(), self.zero()];
        self.push_always(PtxAction::Compute { destination, sources, function: Pure::One(Box::new(|a| a ^ 1)), taint: Taint::Bits });
        PtxSource::register(destination)
    }

    /// Returns the number of elements of an operand.
    pub(crate) fn lanes(&self, operand: ast::Operand) -> usize {
        match operand {
            ast::Operand::Vector(list) => self.body.list(list).len(),
            ast::Operand::Register(register) => usize::from(self.body.declaration_of(register).lanes.max(1)),
            _ => 1,
        }
    }

    /// Returns the elements of `{a, b}` or of a vector register, or the operand itself.
    pub(crate) fn elements(&self, operand: ast::Operand, count: usize) -> Vec<ast::Operand> {
        use Component::{W, X, Y, Z};
        match operand {
            ast::Operand::Vector(list) => self.body.list(list).to_vec(),
            ast::Operand::Register(register) if count > 1 => {
                [X, Y, Z, W][..count.min(4)].iter().map(|&component| ast::Operand::Element(register, component)).collect()
            }
            ast::Operand::Special(special) if special.is_whole_vector() => {
                [X, Y, Z, W].map(|component| ast::Operand::Special(special.with_component(component))).to_vec()
            }
            ast::Operand::Sink => vec![ast::Operand::Sink; count],
            _ => vec![operand],
        }
    }

    /// Returns the two sides of `d|p`; the second is `_` if only one is written.
    pub(crate) fn pair(&self, operand: ast::Operand) -> (ast::Operand, ast::Operand) {
        match operand {
            ast::Operand::Pair(list) => {
                let sides = self.body.list(list);
                (sides[0], sides.get(1).copied().unwrap_or(ast::Operand::Sink))
            }
            _ => (operand, ast::Operand::Sink),
        }
    }

    /// Returns the address that an operand without brackets denotes, in the space of its variable.
    pub(crate) fn address_value(&mut self, operand: ast::Operand) -> Decode<PtxSource> {
        let (base, offset) = match operand {
            ast::Operand::Variable(id) => (AddressBase::Variable(id), 0),
            ast::Operand::AddressOf(position) => {
                let address = self.body.addresses[position as usize];
                (address.base, address.offset)
            }
            ast::Operand::Function(id) => (AddressBase::Function(id), 0),
            _ => return Err(Missing::new("this operand")),
        };
        let place = self.place(base, offset)?;
        if place.in_frame {
            let destination = self.temporary();
            self.push_always(PtxAction::FrameAddress { destination, offset: place.offset as u32 });
            return Ok(PtxSource::register(destination));
        }
        if place.offset == 0 {
            return Ok(place.base);
        }
        let destination = self.temporary();
        let sources = [place.base, self.zero(), self.zero(), self.zero(), self.zero()];
        let offset = place.offset;
        let function = Pure::One(Box::new(move |a| a.wrapping_add_signed(offset)));
        self.push_always(PtxAction::Compute { destination, sources, function, taint: Taint::Whole });
        Ok(PtxSource::register(destination))
    }

    /// Returns the space of the variable in an address. Call parameters are in the frame, so they are local.
    pub(crate) fn space_of_variable(&self, operand: ast::Operand) -> Option<PtxSpace> {
        let base = match operand {
            ast::Operand::Variable(id) => AddressBase::Variable(id),
            ast::Operand::AddressOf(position) | ast::Operand::Address(position) | ast::Operand::UnifiedAddress(position) => {
                self.body.addresses[position as usize].base
            }
            _ => return None,
        };
        let (AddressBase::Variable(id) | AddressBase::VariableMember(id, _)) = base else { return None };
        Some(match self.module.variables[id].space {
            StateSpace::Global | StateSpace::Tex => PtxSpace::Global,
            StateSpace::Shared => PtxSpace::Shared,
            StateSpace::Local => PtxSpace::Local,
            StateSpace::Const => PtxSpace::Constant,
            StateSpace::Param if self.frame.contains_key(&id) => PtxSpace::Local,
            StateSpace::Param => PtxSpace::Parameter,
        })
    }

    /// Returns base and offset of an address; its space is filled in by the caller.
    fn place(&mut self, base: AddressBase, offset: i64) -> Decode<PtxAddress> {
        let of = |base: PtxSource, offset: i64, in_frame: bool| PtxAddress { space: PtxSpace::Generic, base, offset, in_frame };
        Ok(match base {
            AddressBase::Register(register) => of(PtxSource::register(self.slot(register, 0)), offset, false),
            AddressBase::Element(register, component) => {
                of(PtxSource::register(self.slot(register, component.index().unwrap_or(0))), offset, false)
            }
            AddressBase::Absolute => of(self.zero(), offset, false),
            AddressBase::Variable(id) => self.variable_place(id, offset)?,
            AddressBase::VariableMember(id, member) => {
                let stride = i64::from(self.stride(id));
                self.variable_place(id, offset + stride * i64::from(member))?
            }
            AddressBase::Function(id) => {
                let name = self.module.functions[id].name;
                let number = self.functions.number_of(name).ok_or_else(|| Missing::new("the address of this function"))?;
                let address = self.constant(function_address(number));
                of(address, offset, false)
            }
        })
    }

    /// Returns the address of a variable.
    fn variable_place(&mut self, id: ast::VariableId, offset: i64) -> Decode<PtxAddress> {
        let of = |base: PtxSource, offset: i64, in_frame: bool| PtxAddress { space: PtxSpace::Generic, base, offset, in_frame };
        if let Some(&start) = self.frame.get(&id) {
            return Ok(of(self.zero(), offset + i64::from(start), true));
        }
        if let Some(&start) = self.kernel_parameters.get(&id) {
            let base = self.constant((offset + i64::from(start)) as u64);
            return Ok(of(base, 0, false));
        }
        match self.program.variables.home(self.module, id) {
            Some(VariableHome::Global(number)) => {
                let base = self.global_address(number, offset);
                Ok(of(base, 0, false))
            }
            Some(VariableHome::Constant(start)) => {
                let base = self.constant((offset + i64::from(start)) as u64);
                Ok(of(base, 0, false))
            }
            Some(VariableHome::Shared(start)) => {
                let base = self.shared_address((offset + i64::from(start)) as u64);
                Ok(of(base, 0, false))
            }
            None => {
                let name = self.module.name(self.module.variables[id].name);
                Err(Missing::new(format!("the address of {name}, which is not defined here")))
            }
        }
    }

    /// Decodes an address in brackets. If the space is generic or parameter, an address of a variable has the variable's own space.
    pub(crate) fn address(&mut self, operand: ast::Operand, space: PtxSpace) -> Decode<PtxAddress> {
        let position = match operand {
            ast::Operand::Address(position) | ast::Operand::UnifiedAddress(position) => position,
            ast::Operand::Bracket(list) => return self.address(self.body.list(list)[0], space),
            _ => return Err(Missing::new("this operand as an address")),
        };
        let address = self.body.addresses[position as usize];
        let variable_space = self.space_of_variable(operand);
        let place = self.place(address.base, address.offset)?;
        let space = match (space, variable_space) {
            (PtxSpace::Generic | PtxSpace::Parameter, Some(own)) => own,
            (space, _) => space,
        };
        Ok(PtxAddress { space, ..place })
    }

    /// Decodes the address of an instruction that accesses shared memory only. Without a state space it is generic; of a 32-bit register,
    /// which has no window, the value is the address in shared memory.
    pub(crate) fn address_in_shared(&mut self, operand: ast::Operand, space: PtxSpace) -> Decode<PtxAddress> {
        let address = self.address(operand, space)?;
        Ok(if address.space == PtxSpace::Generic && self.has_32_bit_base(operand) {
            PtxAddress { space: PtxSpace::Shared, ..address }
        } else {
            address
        })
    }

    /// Returns whether an address in brackets is a 32-bit register, perhaps with an offset.
    fn has_32_bit_base(&self, operand: ast::Operand) -> bool {
        let ast::Operand::Address(position) = operand else { return false };
        match self.body.addresses[position as usize].base {
            AddressBase::Register(register) | AddressBase::Element(register, _) => self.body.declaration_of(register).ty.bits() == 32,
            _ => false,
        }
    }
}
