//! Handles of textures, samplers and surfaces, in the registers that the target wants.
//!
//! Up to Ada an instruction takes the handle from a general register, so each thread has its own. Since Hopper the handle is in uniform
//! registers. Where all threads have the same handle ([`super::invariant`]) it is copied there. Otherwise the instruction is executed in a
//! loop, once for each different handle in the warp:
//!
//! ```text
//! head:   UR4 = R2UR R2         the handle of one of the threads that are still in the loop
//!         P0 = R2 == UR4
//!         @P0 TEX ... UR4 ...
//!         @!P0 BRA head
//! after:
//! ```
//!
//! A thread leaves the loop after the iteration in which its guard held, so the results are defined after the loop without a phi. There is
//! no branch between `R2UR` and the access: other threads of the warp could overwrite the uniform register there. The pass
//! `uniform-handles` removes the loop where it finds that all threads have the same handle.
//!
//! Up to Ada an instruction can also name a word of constant bank 0; this is used for references ([`super::references`]).

use oriole_ir::{Class, Operand, OperandKind};
use oriole_isa::{SystemLayout, TextureHandle};
use oriole_ptx::ast::{self, VariableId};
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::texture::Invariants;
use crate::variable_layout::VariableLocation;

/// Position of the number of the sampler in a handle.
pub(super) const SAMPLER_SHIFT: u32 = 20;

/// The words that name a texture or surface: the handle, and the handle of a separate sampler.
pub(super) struct Handle {
    words: Vec<Operand>,
    is_invariant: bool,
    /// Number of the word of constant bank 0 with the handle, if the instruction names that word.
    bound: Option<u32>,
}

impl Handle {
    /// Returns whether the instruction names a word of constant bank 0.
    pub(super) fn is_bound(&self) -> bool {
        self.bound.is_some()
    }
}

/// A handle as an operand of a machine instruction.
#[derive(Clone, Copy)]
pub(super) enum HandleOperand {
    /// One word in a general register.
    General(Operand),
    /// The handle and the sampler, zero if the handle has it, in uniform registers.
    Uniform([Operand; 2]),
    /// The number of a word of constant bank 0.
    Bound(u32),
}

impl Select<'_> {
    /// Returns the handle of a texture or surface, and of a separate sampler if there is one.
    pub(super) fn handle(&mut self, texture: ast::Operand, sampler: Option<ast::Operand>) -> Result<Handle, Unsupported> {
        let names: Vec<ast::Operand> = std::iter::once(texture).chain(sampler).map(|operand| self.base_of(operand)).collect();
        let is_invariant = names.iter().all(|&name| self.is_invariant(name));
        let references: Vec<Option<VariableId>> = names.iter().map(|&name| self.reference(name)).collect();
        let in_register = SystemLayout::of(self.target).texture_handle == TextureHandle::General;
        let named = match references[..] {
            [Some(texture)] => Some((texture, None)),
            [Some(texture), Some(sampler)] => Some((texture, Some(sampler))),
            _ => None,
        };
        // The linker places the words of a relocatable file.
        if let Some((texture, sampler)) = named.filter(|_| in_register && !self.variables.is_relocatable) {
            let bound = Some(self.bound_word(texture, sampler)? / size_of::<u32>() as u32);
            return Ok(Handle { words: Vec::new(), is_invariant: true, bound });
        }
        let mut words = Vec::new();
        for (number, (name, reference)) in names.into_iter().zip(references).enumerate() {
            if let Some(id) = reference {
                let word = self.reference_word(id)?;
                let word = if number == 1 { self.sampler_number(word) } else { word };
                words.push(if is_invariant { word } else { self.in_register(word) });
                continue;
            }
            let parameter = if is_invariant { self.parameter_word(name) } else { None };
            words.push(match parameter {
                Some(word) => word,
                None => {
                    let [word, _] = self.halves(name, ScalarType::U64)?;
                    self.in_register(word)
                }
            });
        }
        Ok(Handle { words, is_invariant, bound: None })
    }

    /// Returns the handle in one word, as instructions take it from a general register.
    pub(super) fn general_word(&mut self, handle: &Handle) -> Operand {
        match handle.bound {
            Some(word) => Operand::constant(0, word * size_of::<u32>() as u32),
            None => self.combined(&handle.words),
        }
    }

    /// Returns the two words of the 64-bit handle of a texture or sampler.
    pub(super) fn handle_words(&mut self, operand: ast::Operand) -> Result<[Operand; 2], Unsupported> {
        let name = self.base_of(operand);
        if let Some(id) = self.reference(name) {
            let handle = self.reference_handle(id)?;
            return Ok([self.register_of(handle, 0), self.register_of(handle, 1)]);
        }
        self.halves(name, ScalarType::U64)
    }

    /// Returns the register or variable that an operand in brackets names.
    pub(super) fn base_of(&self, operand: ast::Operand) -> ast::Operand {
        let (ast::Operand::Address(position) | ast::Operand::AddressOf(position)) = operand else { return operand };
        match self.frame.body.addresses[position as usize].base {
            ast::AddressBase::Register(register) => ast::Operand::Register(register),
            ast::AddressBase::Element(register, component) => ast::Operand::Element(register, component),
            ast::AddressBase::Variable(id) => ast::Operand::Variable(id),
            _ => operand,
        }
    }

    /// Returns whether an operand has the same value in all threads of a warp.
    fn is_invariant(&mut self, operand: ast::Operand) -> bool {
        let (module, body, is_kernel) = (self.frame.module, self.frame.body, self.is_kernel);
        let invariants = self.invariants.get_or_insert_with(|| Invariants::of(module, body, is_kernel));
        invariants.holds(module, body, operand)
    }

    /// Returns the word of constant bank 0 with the lower half of a register that is loaded from a kernel parameter.
    fn parameter_word(&self, operand: ast::Operand) -> Option<Operand> {
        let (variable, offset) = self.invariants.as_ref()?.parameter(operand)?;
        let &VariableLocation::Parameter(start) = self.variables.get(variable)? else { return None };
        let offset = u32::try_from(offset).ok()?;
        Some(Operand::constant(0, self.variables.parameters_start + start + offset))
    }

    /// Calls `access` with the handle in the registers that the target wants, in a loop if threads may have different handles, and then
    /// `finish` with what `access` returned, outside of the loop. The instructions of `access` are guarded in the loop.
    pub(super) fn with_handle<T>(
        &mut self,
        handle: &Handle,
        access: impl FnOnce(&mut Self, HandleOperand) -> T,
        finish: impl FnOnce(&mut Self, T) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let operand = if let Some(word) = handle.bound {
            HandleOperand::Bound(word)
        } else if SystemLayout::of(self.target).texture_handle == TextureHandle::General {
            HandleOperand::General(self.combined(&handle.words))
        } else if handle.is_invariant {
            let guard = self.b.guard.take();
            let operand = self.uniform_handle(&handle.words);
            self.b.guard = guard;
            operand
        } else {
            return self.branch_around(|select| {
                let result = select.for_each_handle(handle, access);
                finish(select, result)
            });
        };
        let result = access(self, operand);
        finish(self, result)
    }

    /// Emits the loop over the different handles of a warp.
    fn for_each_handle<T>(&mut self, handle: &Handle, access: impl FnOnce(&mut Self, HandleOperand) -> T) -> T {
        let [head, after] = [(); 2].map(|()| self.b.new_block());
        self.b.branch(None, head);
        self.start(head);
        let mut chosen = [Operand::URZ; 2];
        let mut is_chosen = Operand::PT;
        for (uniform, &word) in chosen.iter_mut().zip(&handle.words) {
            *uniform = self.in_uniform(word);
            is_chosen = self.compare_words_and("EQ", false, word, *uniform, "AND", is_chosen);
        }
        self.b.guard = Some(self.condition(is_chosen));
        let result = access(self, HandleOperand::Uniform(chosen));
        self.b.guard = None;
        let is_left = self.condition(is_chosen.inverted_predicate());
        self.b.branch(Some(is_left), head);
        self.b.branch(None, after);
        self.start(after);
        result
    }

    /// Returns the words of a handle in uniform registers.
    fn uniform_handle(&mut self, words: &[Operand]) -> HandleOperand {
        let first = self.uniform_word(words[0]);
        let second = words.get(1).map_or(Operand::URZ, |&sampler| self.uniform_word(sampler));
        HandleOperand::Uniform([first, second])
    }

    /// Returns a word of a handle in a uniform register.
    fn uniform_word(&mut self, word: Operand) -> Operand {
        match word.kind {
            OperandKind::Constant { .. } => self.b.define(Class::UR, "ULDC $, {}", &[word]),
            _ => self.in_uniform(word),
        }
    }

    /// Returns one word with the numbers of the texture and of the sampler.
    fn combined(&mut self, words: &[Operand]) -> Operand {
        let words: Vec<Operand> = words.iter().map(|&word| self.in_register(word)).collect();
        let [texture, sampler] = words[..] else { return words[0] };
        let sampler = self.shift_left(sampler, SAMPLER_SHIFT.into());
        let mask = Operand::from((1_u32 << SAMPLER_SHIFT) - 1);
        self.b.define(Class::R, "LOP3.LUT $, {}, {}, {}, 0xe2, !PT", &[texture, mask, sampler])
    }
}

impl HandleOperand {
    /// Returns the two uniform registers that texture instructions read, as one operand. They are joined without the guard of the
    /// access, which belongs to single threads.
    pub(super) fn pair(select: &mut Select<'_>, words: [Operand; 2]) -> Operand {
        let guard = select.b.guard.take();
        let pair = select.b.pack(Class::UR2, &words);
        select.b.guard = guard;
        pair
    }
}
