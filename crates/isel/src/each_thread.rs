//! Instructions of the uniform datapath in code that threads execute.
//!
//! Bulk copies and the initialization of barriers in shared memory exist in the uniform datapath only: their operands are uniform registers,
//! and they execute once for all active threads of a warp. In PTX every thread executes them with its own operands. The code selected for
//! such an instruction is a loop that lets one thread after another execute it:
//!
//! ```text
//! head:   P0 = ELECT            one of the threads that are still in the loop
//!         @!P0 BRA next
//! body:   UR4 = R2UR R2         only one thread is active: R2UR returns its value
//!         UBLKCP ...
//! next:   @!P0 BRA head
//! after:
//! ```
//!
//! The instruction has to be inside of the loop: all threads are converged again after a loop.
//!
//! ptxas emits such a loop, too. The loop is left out where at most one thread of a warp can be active: see [`crate::elected`].
//!
//! Stores of the copy engine and initializations of barriers have the same effect once and several times, so these are executed once for each
//! different set of operands ([`Select::for_each_set`]). Loads count bytes at a barrier each time.

use oriole_ir::{Class, Operand, OperandKind};
use oriole_isa::Opcode;

use crate::context::Select;
use crate::error::Unsupported;

impl Select<'_> {
    /// Calls `write`, whose code one thread of the warp executes at a time: once for each thread that is active and whose guard holds.
    pub(crate) fn for_each_thread(&mut self, write: impl FnOnce(&mut Self) -> Result<(), Unsupported>) -> Result<(), Unsupported> {
        if self.is_elected {
            return self.branch_around(write);
        }
        self.branch_around(|select| {
            let [head, body, next, after] = [(); 4].map(|()| select.b.new_block());
            select.b.branch(None, head);
            select.start(head);
            let elected = select.elect_one();
            let condition = select.condition(elected.inverted_predicate());
            select.b.branch(Some(condition), next);
            select.b.branch(None, body);
            select.start(body);
            write(select)?;
            select.b.branch(None, next);
            select.start(next);
            select.b.branch(Some(condition), head);
            select.b.branch(None, after);
            select.start(after);
            Ok(())
        })
    }

    /// Calls `write` with a tuple of uniform registers that holds `words`; see [`Select::for_each_set`].
    pub(crate) fn for_each_value(
        &mut self,
        words: &[Operand],
        write: impl FnOnce(&mut Self, Operand) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        self.for_each_set(words, |select, words| {
            let packed = select.pack_uniforms(words);
            write(select, packed)
        })
    }

    /// Calls `write` with uniform registers that hold `words`, one for each. Its code executes once for each different set of values that the
    /// words have in the active threads whose guard holds; for instructions that have the same effect once and several times.
    ///
    /// ```text
    /// head:   UR4 = R2UR R2         the value of one of the threads that are still in the loop
    ///         UTMACCTL.IV [UR4]
    ///         P0 = ISETP.EQ R2, UR4
    ///         @!P0 BRA head
    /// ```
    ///
    /// The pass `uniform-handles` removes the loop where all threads have the same values.
    pub(crate) fn for_each_set(
        &mut self,
        words: &[Operand],
        write: impl FnOnce(&mut Self, &[Operand]) -> Result<(), Unsupported>,
    ) -> Result<(), Unsupported> {
        let varies = |word: &Operand| word.value().is_some();
        if self.is_elected || !words.iter().any(varies) {
            return self.branch_around(|select| {
                let uniform: Vec<Operand> = words.iter().map(|&word| select.in_uniform(word)).collect();
                write(select, &uniform)
            });
        }
        self.branch_around(|select| {
            let [head, after] = [(); 2].map(|()| select.b.new_block());
            select.b.branch(None, head);
            select.start(head);
            let uniform: Vec<Operand> = words.iter().map(|&word| select.in_uniform(word)).collect();
            write(select, &uniform)?;
            let mut is_equal = Operand::PT;
            for (&word, &uniform) in words.iter().zip(&uniform).filter(|(word, _)| varies(word)) {
                is_equal = select.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, {}, {}", &[word, uniform, is_equal]);
            }
            let condition = select.condition(is_equal.inverted_predicate());
            select.b.branch(Some(condition), head);
            select.b.branch(None, after);
            select.start(after);
            Ok(())
        })
    }

    /// Emits a predicate that holds in one of the active threads.
    pub(crate) fn elect_one(&mut self) -> Operand {
        if Opcode::ELECT.exists_on(self.target) {
            return self.b.define(Class::P, "ELECT $, URZ, PT", &[]);
        }
        let active = self.b.define(Class::R, "VOTE.ANY $, PT, PT", &[]);
        let highest = self.b.define(Class::R, "FLO.U32 $, {}", &[active]);
        let lane = self.b.define(Class::R, "S2R $, SR_LANEID", &[]);
        self.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, {}, PT", &[lane, highest])
    }

    /// Returns the value of the only active thread in a uniform register.
    pub(crate) fn in_uniform(&mut self, operand: Operand) -> Operand {
        match operand.kind {
            OperandKind::Integer(0) => Operand::URZ,
            OperandKind::Integer(_) => self.b.define(Class::UR, "UMOV $, {}", &[operand]),
            _ if operand == Operand::RZ => Operand::URZ,
            _ => {
                let register = self.in_register(operand);
                self.b.define(Class::UR, "R2UR $, {}", &[register])
            }
        }
    }

    /// Returns consecutive uniform registers with the values of the only active thread.
    pub(crate) fn in_uniforms(&mut self, words: &[Operand]) -> Operand {
        let words: Vec<Operand> = words.iter().map(|&word| self.in_uniform(word)).collect();
        self.pack_uniforms(&words)
    }

    /// Returns consecutive uniform registers with the contents of other uniform registers.
    pub(crate) fn pack_uniforms(&mut self, words: &[Operand]) -> Operand {
        // The machine wants a tuple of more than four registers to start at a multiple of eight.
        let mut class = Class::new(oriole_ir::RegFile::Uniform, words.len() as u8);
        if class.width > 4 {
            class.align = 8;
        }
        self.b.pack(class, words)
    }

    /// Returns whether the target has barriers in shared memory with transaction counts, and bulk copies.
    pub(crate) fn has_transactions(&self) -> bool {
        Opcode::SYNCS.exists_on(self.target)
    }
}
