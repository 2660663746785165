//! Emits moves: selects the instructions for every pair of register files, and appends them to a list.
//!
//! [`Emitter::emit_move`] emits one move, [`Emitter::emit_parallel_copy`] a parallel copy between registers of one file (see
//! [`crate::moves`]).

use std::sync::{PoisonError, RwLock};

use oriole_ir::{Class, Function, Guard, Inst, Location, Op, Opcode, Operand, OperandKind, RegFile, Signs, Symbol, Target};
use oriole_isa::Symbols;

use crate::moves::{CopyStep, Move, sequentialize};
use crate::operands::{register, register_file_of};
use crate::outcome::AllocateError;
use crate::registers::Reg;

/// The truth table of PLOP3 for the conjunction of its three sources. If two of them are PT, the result is the third source.
const PLOP3_AND_TABLE: i64 = 0x80;
/// The truth table of PLOP3 for the exclusive or of its first two sources, if the third source is PT.
const PLOP3_XOR_TABLE: i64 = 0x28;
/// The truth table of LOP3 for the exclusive or of its first two sources.
const LOP3_XOR_TABLE: i64 = 0x3c;

/// Returns the instruction modifier with this spelling. Panics if the instruction table has none.
fn modifier(spelling: &str) -> Symbol {
    Symbol::find(spelling).unwrap_or_else(|| panic!("the table has no modifier {spelling}"))
}

/// The capabilities of a target that determine which instructions implement moves.
#[derive(Clone, Copy)]
pub(crate) struct MoveCapabilities {
    /// Whether `MOV` can read a constant bank.
    mov_reads_constants: bool,
    /// Whether the target has the instruction `ULDC`, a load from a constant bank into uniform registers.
    has_uldc: bool,
    /// Whether `CS2R` can set two registers to zero at once.
    clears_pairs: bool,
}

/// Returns whether an instruction, given in SASS syntax, can be encoded for a target.
fn is_encodable(text: &str, target: Target) -> bool {
    oriole_isa::parse(text).is_ok_and(|instruction| oriole_isa::encode(&instruction, target).is_ok())
}

impl MoveCapabilities {
    /// Returns the capabilities of a target. They are looked up in the instruction table once per target and process.
    pub fn new(target: Target) -> MoveCapabilities {
        static MOVE_CAPABILITIES_CACHE: RwLock<Vec<(Target, MoveCapabilities)>> = RwLock::new(Vec::new());
        let find = |known: &[(Target, MoveCapabilities)]| {
            known.iter().find(|(other, _)| *other == target).map(|&(_, move_capabilities)| move_capabilities)
        };
        let known = find(&MOVE_CAPABILITIES_CACHE.read().unwrap_or_else(PoisonError::into_inner));
        known.unwrap_or_else(|| {
            let move_capabilities = MoveCapabilities::look_up_capabilities(target);
            let mut list = MOVE_CAPABILITIES_CACHE.write().unwrap_or_else(PoisonError::into_inner);
            if find(&list).is_none() {
                list.push((target, move_capabilities));
            }
            move_capabilities
        })
    }

    /// Returns the capabilities of a target, from the instruction table.
    fn look_up_capabilities(target: Target) -> MoveCapabilities {
        MoveCapabilities {
            mov_reads_constants: is_encodable("MOV R4, c[0x0][0x28]", target),
            has_uldc: is_encodable("ULDC UR4, c[0x0][0x28]", target),
            clears_pairs: is_encodable("CS2R R4, SRZ", target),
        }
    }
}

/// Creates instructions and appends them to a list.
pub(crate) struct Emitter<'a> {
    /// The function that the instructions are added to.
    pub function: &'a mut Function,
    /// The list that instructions are appended to.
    pub out: &'a mut Vec<Inst>,
    /// The register file that is being allocated, to which the destinations of moves belong.
    pub file: RegFile,
    /// The capabilities of the target that determine how moves are made.
    move_capabilities: MoveCapabilities,
    /// Source location of the new instructions.
    location: Location,
    /// The instruction that the code is emitted for, for error messages.
    inst: Inst,
    /// The guard of the new instructions; `None` for unguarded ones.
    pub guard: Option<Guard>,
}

impl<'a> Emitter<'a> {
    /// Creates an emitter for moves and spill code that the allocation of `inst` needs. They get the source location of `inst`.
    pub fn new(
        function: &'a mut Function,
        move_capabilities: MoveCapabilities,
        file: RegFile,
        out: &'a mut Vec<Inst>,
        inst: Inst,
    ) -> Emitter<'a> {
        let location = function.insts[inst].location;
        Emitter { function, out, file, move_capabilities, location, inst, guard: None }
    }

    /// Returns the error for a copy that no instruction can make.
    pub fn unsupported_error(&self, copy: impl Into<String>) -> AllocateError {
        AllocateError::Unsupported { inst: self.inst, copy: copy.into() }
    }

    /// Appends an instruction, which gets the emitter's location, and returns it.
    pub fn push(&mut self, inst: Inst) -> Inst {
        self.function.insts[inst].location = self.location;
        self.out.push(inst);
        inst
    }

    /// Appends a machine instruction and returns it. The first `results` operands are its results.
    pub fn push_machine_inst(&mut self, opcode: Opcode, modifiers: &[&str], operands: &[Operand], results: usize) -> Inst {
        let modifiers: Symbols = modifiers.iter().map(|spelling| modifier(spelling)).collect();
        let inst = self.function.new_inst(Op::Machine(opcode), modifiers, self.guard, operands, results);
        self.push(inst)
    }

    /// Emits a move of one register or constant into a register of the register file being allocated.
    pub fn emit_move(&mut self, to: Reg, from: Operand) -> Result<(), AllocateError> {
        self.emit_move_to(self.file, register(self.file, to, 1), from)
    }

    /// Emits one instruction that sets the two registers starting at `to` to zero. Returns false if the target has no such instruction for
    /// the register file.
    pub fn emit_pair_clear(&mut self, to: Reg) -> bool {
        let can = self.move_capabilities.clears_pairs && self.file == RegFile::General && to.is_aligned(2);
        if can && let Some(zero) = Symbol::find("SRZ") {
            self.push_machine_inst(Opcode::CS2R, &[], &[register(self.file, to, 2), Operand::new(OperandKind::Name(zero))], 1);
            return true;
        }
        false
    }

    /// Emits a move of one register or constant into `to`, an operand of register file `file`: a physical register, or a value of a file
    /// that is allocated later. An undefined source emits nothing. Returns an error if no instruction can make the move.
    pub fn emit_move_to(&mut self, file: RegFile, to: Operand, from: Operand) -> Result<(), AllocateError> {
        use RegFile::{Convergence, General, Predicate, Uniform, UniformPredicate};
        if from.kind == OperandKind::Undefined {
            return Ok(());
        }
        let source_file = register_file_of(self.function, &from);
        let not = from.with_signs(from.signs.toggled(Signs::NOT));
        let zero = |file| Operand::new(OperandKind::Zero(file));
        let is_constant = matches!(from.kind, OperandKind::Constant { .. });
        match (file, source_file) {
            (General, None | Some(General | Uniform)) => {
                let opcode = if is_constant && !self.move_capabilities.mov_reads_constants { Opcode::LDC } else { Opcode::MOV };
                self.push_machine_inst(opcode, &[], &[to, from], 1)
            }
            (General, Some(Predicate)) => self.push_machine_inst(Opcode::SEL, &[], &[to, Operand::RZ, 1.into(), not], 1),
            (General, Some(Convergence)) => self.push_machine_inst(Opcode::BMOV, &[".32"], &[to, from], 1),
            (Uniform, Some(General)) => self.push_machine_inst(Opcode::R2UR, &[], &[to, from], 1),
            (Uniform, None | Some(Uniform)) => {
                let opcode = if !is_constant {
                    Opcode::UMOV
                } else if self.move_capabilities.has_uldc {
                    Opcode::ULDC
                } else {
                    Opcode::LDCU
                };
                self.push_machine_inst(opcode, &[], &[to, from], 1)
            }
            (Uniform, Some(UniformPredicate)) => self.push_machine_inst(Opcode::USEL, &[], &[to, Operand::URZ, 1.into(), not], 1),
            (Predicate | UniformPredicate, None) => {
                let Some(number) = from.integer() else {
                    return Err(self.unsupported_error(format!("a predicate cannot be {:?}", from.kind)));
                };
                let truth = zero(file).with_signs(if number == 0 { Signs::NOT } else { Signs::NONE });
                return self.emit_move_to(file, to, truth);
            }
            (Predicate, Some(General)) => {
                self.push_machine_inst(Opcode::ISETP, &[".NE", ".AND"], &[to, Operand::PT, from, Operand::RZ, Operand::PT], 2)
            }
            (Predicate, Some(Predicate)) => self.emit_plop3(Predicate, to, [from, Operand::PT, Operand::PT], PLOP3_AND_TABLE),
            (Predicate, Some(UniformPredicate)) => self.emit_plop3(Predicate, to, [Operand::PT, Operand::PT, from], PLOP3_AND_TABLE),
            (UniformPredicate, Some(UniformPredicate)) => {
                self.emit_plop3(UniformPredicate, to, [from, Operand::UPT, Operand::UPT], PLOP3_AND_TABLE)
            }
            (UniformPredicate, Some(Uniform)) => {
                self.push_machine_inst(Opcode::UISETP, &[".NE", ".AND"], &[to, Operand::UPT, from, Operand::URZ, Operand::UPT], 2)
            }
            (Convergence, Some(General)) => self.push_machine_inst(Opcode::BMOV, &[".32"], &[to, from], 1),
            // No instruction copies one convergence barrier to another. So the move goes through a new value in a general register, which
            // is allocated later.
            (Convergence, Some(Convergence)) => {
                let between = self.function.new_value(Class::R);
                let between: Operand = self.function.whole(between).into();
                self.push_machine_inst(Opcode::BMOV, &[".32"], &[between, from], 1);
                self.push_machine_inst(Opcode::BMOV, &[".32"], &[to, between], 1)
            }
            _ => return Err(self.unsupported_error(format!("no instruction moves {:?} to a {} register", from.kind, file.prefix()))),
        };
        Ok(())
    }

    /// Emits `PLOP3.LUT` or `UPLOP3.LUT` with an eight-bit truth table, and returns the instruction.
    fn emit_plop3(&mut self, file: RegFile, to: Operand, sources: [Operand; 3], table: i64) -> Inst {
        let opcode = if file == RegFile::Predicate { Opcode::PLOP3 } else { Opcode::UPLOP3 };
        let nowhere = Operand::new(OperandKind::Zero(file));
        let [a, b, c] = sources;
        self.push_machine_inst(opcode, &[".LUT"], &[to, nowhere, a, b, c, table.into(), (table >> 4).into()], 2)
    }

    /// Emits three exclusive ors that swap two registers without a scratch register. The checker recognizes this sequence.
    fn swap(&mut self, first: Reg, second: Reg) -> Result<(), AllocateError> {
        let file = self.file;
        let (a, b) = (register(file, first, 1), register(file, second, 1));
        for (to, other) in [(a, b), (b, a), (a, b)] {
            match file {
                RegFile::General => {
                    let never = Operand::PT.inverted_predicate();
                    self.push_machine_inst(Opcode::LOP3, &[".LUT"], &[to, to, other, Operand::RZ, LOP3_XOR_TABLE.into(), never], 1);
                }
                RegFile::Uniform => {
                    let never = Operand::UPT.inverted_predicate();
                    self.push_machine_inst(Opcode::ULOP3, &[".LUT"], &[to, to, other, Operand::URZ, LOP3_XOR_TABLE.into(), never], 1);
                }
                RegFile::Predicate => {
                    self.emit_plop3(file, to, [to, other, Operand::PT], PLOP3_XOR_TABLE);
                }
                RegFile::UniformPredicate => {
                    self.emit_plop3(file, to, [to, other, Operand::UPT], PLOP3_XOR_TABLE);
                }
                RegFile::Convergence | RegFile::Scoreboard => {
                    return Err(self.unsupported_error("convergence barriers would have to change places"));
                }
            }
        }
        Ok(())
    }

    /// Emits a parallel copy between registers of one register file. `scratch` is a register that may be overwritten; without one, cycles
    /// are resolved by swaps of three instructions each.
    pub fn emit_parallel_copy(&mut self, moves: &[Move], scratch: Option<Reg>) -> Result<(), AllocateError> {
        if moves.is_empty() {
            return Ok(());
        }
        for step in sequentialize(moves, scratch) {
            match step {
                CopyStep::Move(Move { to, from }) => self.emit_move(to, register(self.file, from, 1))?,
                CopyStep::Swap(first, second) => self.swap(first, second)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use oriole_ir::Target;

    use super::is_encodable;

    #[test]
    fn emitted_moves_are_encodable_on_every_target() {
        for target in Target::all_with_machine_code() {
            for text in [
                "MOV R4, R5",
                "MOV R4, 0x5",
                "MOV R4, UR5",
                "UMOV UR4, UR5",
                "R2UR UR4, R5",
                "PLOP3.LUT P0, PT, P1, PT, PT, 0x80, 0x8",
                "PLOP3.LUT P0, PT, P0, P1, PT, 0x28, 0x2",
                "PLOP3.LUT P0, PT, PT, PT, UP1, 0x80, 0x8",
                "UPLOP3.LUT UP0, UPT, UP0, UP1, UPT, 0x28, 0x2",
                "SEL R4, RZ, 0x1, !P0",
                "ISETP.NE.AND P0, PT, R4, RZ, PT",
                "USEL UR4, URZ, 0x1, !UP0",
                "UISETP.NE.AND UP0, UPT, UR4, URZ, UPT",
                "BMOV.32 R4, B1",
                "BMOV.32 B1, R4",
                "LOP3.LUT R4, R4, R5, RZ, 0x3c, !PT",
                "ULOP3.LUT UR4, UR4, UR5, URZ, 0x3c, !UPT",
                "STL.128 [R1+0x10], R4",
                "LDL.64 R4, [R1+0x8]",
            ] {
                // Volta has no uniform registers.
                let is_uniform = text.split([' ', ',']).any(|word| word.trim_start_matches('!').starts_with('U'));
                assert_eq!(is_encodable(text, target), target.number() >= 75 || !is_uniform, "{text} on {target}");
            }
        }
    }
}
