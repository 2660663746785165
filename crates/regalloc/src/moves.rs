//! Selects move instructions for every pair of register files, and turns parallel copies into sequences of moves.
//!
//! [`Mover::emit`] is one move. [`Mover::emit_parallel`] is a parallel copy: all sources are read before any destination is written.
//! `sequentialize` orders it by the usual algorithm (Boissinot et al. 2009, "Revisiting Out-of-SSA Translation"; verified by Rideau,
//! Serpette and Leroy 2008, "Tilting at Windmills with Coq"): first every move whose destination no other move reads, then the
//! remaining cycles. Where no scratch register is free a cycle is done with exclusive-or swaps.
//!
//! Example, copying R4 to R5, R5 to R4 and R4 to R6 at once:
//!
//! ```text
//! R6 <- R4          no move reads R6, so this one comes first
//! R4 <-> R5         a cycle: with scratch R7:  R7 <- R5;  R5 <- R4;  R4 <- R7
//!                            without scratch:  R5 ^= R4;  R4 ^= R5;  R5 ^= R4
//! ```

use std::sync::{PoisonError, RwLock};

use oriole_ir::{Class, Function, Guard, Inst, Location, Op, Opcode, Operand, OperandKind, RegFile, Signs, Symbol, Target};
use oriole_isa::Symbols;

/// The truth table of PLOP3 for the conjunction of its three sources. With two of them true, it is the third source.
const LUT_AND: i64 = 0x80;
/// The truth table of PLOP3 for the exclusive or of its first two sources, where the third source is true.
const LUT_XOR: i64 = 0x28;
/// The truth table of LOP3 for the exclusive or of its first two sources.
const LUT_XOR_BITS: i64 = 0x3c;

/// Returns an operand of `count` physical registers.
pub(crate) fn register(file: RegFile, first: u16, count: u8) -> Operand {
    Operand::new(OperandKind::Register { file, first, count })
}

/// Returns the modifier with this spelling. Panics if the instruction table has none.
pub(crate) fn modifier(spelling: &str) -> Symbol {
    Symbol::find(spelling).unwrap_or_else(|| panic!("the table has no modifier {spelling}"))
}

/// Returns the register file of an operand; `None` for constants and other operands that are no registers.
pub(crate) fn file_of(function: &Function, operand: &Operand) -> Option<RegFile> {
    match operand.kind {
        OperandKind::Value(part) => Some(function.values[part.value].file),
        OperandKind::Register { file, .. } | OperandKind::Zero(file) => Some(file),
        _ => None,
    }
}

/// Emits moves for one target: the differences between targets that matter to moves.
#[derive(Clone, Copy)]
pub(crate) struct Mover {
    /// Whether `MOV` reads constant banks.
    mov_reads_constants: bool,
    /// Whether `ULDC` exists.
    has_uldc: bool,
}

/// The place where moves are appended, and the source location and guard that they get.
pub(crate) struct Sink<'a> {
    pub function: &'a mut Function,
    pub out: &'a mut Vec<Inst>,
    pub location: Location,
    pub guard: Option<Guard>,
}

impl Sink<'_> {
    /// Appends a machine instruction and returns it. `results` is the number of operands that are results.
    pub fn machine(&mut self, opcode: Opcode, modifiers: &[&str], operands: &[Operand], results: usize) -> Inst {
        let modifiers: Symbols = modifiers.iter().map(|spelling| modifier(spelling)).collect();
        let inst = self.function.new_inst(Op::Machine(opcode), modifiers, self.guard, operands, results);
        self.function.insts[inst].location = self.location;
        self.out.push(inst);
        inst
    }
}

/// Returns whether an instruction exists on a target.
fn encodes(text: &str, target: Target) -> bool {
    oriole_isa::parse(text).is_ok_and(|instruction| oriole_isa::encode(&instruction, target).is_ok())
}

impl Mover {
    /// Returns the mover for a target. The instruction table is asked once for each target in a process.
    pub fn new(target: Target) -> Mover {
        static KNOWN: RwLock<Vec<(Target, Mover)>> = RwLock::new(Vec::new());
        let find = |known: &[(Target, Mover)]| known.iter().find(|(other, _)| *other == target).map(|&(_, mover)| mover);
        let known = find(&KNOWN.read().unwrap_or_else(PoisonError::into_inner));
        known.unwrap_or_else(|| {
            let mover = Mover::ask(target);
            let mut list = KNOWN.write().unwrap_or_else(PoisonError::into_inner);
            if find(&list).is_none() {
                list.push((target, mover));
            }
            mover
        })
    }

    fn ask(target: Target) -> Mover {
        Mover { mov_reads_constants: encodes("MOV R4, c[0x0][0x28]", target), has_uldc: encodes("ULDC UR4, c[0x0][0x28]", target) }
    }

    /// Emits a move of one register or constant into `to`, an operand of register file `file`: a physical register, or a value of a file
    /// that is allocated later. An undefined source emits nothing. Returns the reason if no instruction can make the move.
    pub fn emit(&self, sink: &mut Sink<'_>, file: RegFile, to: Operand, from: Operand) -> Result<(), String> {
        use RegFile::{Convergence, General, Predicate, Uniform, UniformPredicate};
        if from.kind == OperandKind::Undefined {
            return Ok(());
        }
        let source_file = file_of(sink.function, &from);
        let not = from.with_signs(from.signs.toggled(Signs::NOT));
        let zero = |file| Operand::new(OperandKind::Zero(file));
        let is_constant = matches!(from.kind, OperandKind::Constant { .. });
        match (file, source_file) {
            (General, None | Some(General | Uniform)) => {
                let opcode = if is_constant && !self.mov_reads_constants { Opcode::LDC } else { Opcode::MOV };
                sink.machine(opcode, &[], &[to, from], 1)
            }
            (General, Some(Predicate)) => sink.machine(Opcode::SEL, &[], &[to, Operand::RZ, 1.into(), not], 1),
            (General, Some(Convergence)) => sink.machine(Opcode::BMOV, &[".32"], &[to, from], 1),
            (Uniform, Some(General)) => sink.machine(Opcode::R2UR, &[], &[to, from], 1),
            (Uniform, None | Some(Uniform)) => {
                let opcode = if !is_constant {
                    Opcode::UMOV
                } else if self.has_uldc {
                    Opcode::ULDC
                } else {
                    Opcode::LDCU
                };
                sink.machine(opcode, &[], &[to, from], 1)
            }
            (Uniform, Some(UniformPredicate)) => sink.machine(Opcode::USEL, &[], &[to, Operand::URZ, 1.into(), not], 1),
            (Predicate | UniformPredicate, None) => {
                let Some(number) = from.integer() else { return Err(format!("a predicate cannot be {:?}", from.kind)) };
                let truth = zero(file).with_signs(if number == 0 { Signs::NOT } else { Signs::NONE });
                return self.emit(sink, file, to, truth);
            }
            (Predicate, Some(General)) => {
                sink.machine(Opcode::ISETP, &[".NE", ".AND"], &[to, Operand::PT, from, Operand::RZ, Operand::PT], 2)
            }
            (Predicate, Some(Predicate)) => self.logic(sink, Predicate, to, [from, Operand::PT, Operand::PT], LUT_AND),
            (Predicate, Some(UniformPredicate)) => self.logic(sink, Predicate, to, [Operand::PT, Operand::PT, from], LUT_AND),
            (UniformPredicate, Some(UniformPredicate)) => {
                self.logic(sink, UniformPredicate, to, [from, Operand::UPT, Operand::UPT], LUT_AND)
            }
            (UniformPredicate, Some(Uniform)) => {
                sink.machine(Opcode::UISETP, &[".NE", ".AND"], &[to, Operand::UPT, from, Operand::URZ, Operand::UPT], 2)
            }
            (Convergence, Some(General)) => sink.machine(Opcode::BMOV, &[".32"], &[to, from], 1),
            // No instruction moves between convergence barriers: the move goes through a new value, allocated with the general file.
            (Convergence, Some(Convergence)) => {
                let between = sink.function.new_value(Class::R);
                let between: Operand = sink.function.whole(between).into();
                sink.machine(Opcode::BMOV, &[".32"], &[between, from], 1);
                sink.machine(Opcode::BMOV, &[".32"], &[to, between], 1)
            }
            _ => return Err(format!("no instruction moves {:?} to a {} register", from.kind, file.prefix())),
        };
        Ok(())
    }

    /// Emits `PLOP3.LUT` or `UPLOP3.LUT` with a truth table of eight bits.
    fn logic(&self, sink: &mut Sink<'_>, file: RegFile, to: Operand, sources: [Operand; 3], table: i64) -> Inst {
        let opcode = if file == RegFile::Predicate { Opcode::PLOP3 } else { Opcode::UPLOP3 };
        let nowhere = Operand::new(OperandKind::Zero(file));
        let [a, b, c] = sources;
        sink.machine(opcode, &[".LUT"], &[to, nowhere, a, b, c, table.into(), (table >> 4).into()], 2)
    }

    /// Emits three exclusive ors that exchange two registers without a scratch register. The checker recognizes this sequence.
    fn swap(&self, sink: &mut Sink<'_>, file: RegFile, first: u16, second: u16) -> Result<(), String> {
        let (a, b) = (register(file, first, 1), register(file, second, 1));
        for (to, other) in [(a, b), (b, a), (a, b)] {
            match file {
                RegFile::General => {
                    let never = Operand::PT.inverted_predicate();
                    sink.machine(Opcode::LOP3, &[".LUT"], &[to, to, other, Operand::RZ, LUT_XOR_BITS.into(), never], 1);
                }
                RegFile::Uniform => {
                    let never = Operand::UPT.inverted_predicate();
                    sink.machine(Opcode::ULOP3, &[".LUT"], &[to, to, other, Operand::URZ, LUT_XOR_BITS.into(), never], 1);
                }
                RegFile::Predicate => {
                    self.logic(sink, file, to, [to, other, Operand::PT], LUT_XOR);
                }
                RegFile::UniformPredicate => {
                    self.logic(sink, file, to, [to, other, Operand::UPT], LUT_XOR);
                }
                RegFile::Convergence | RegFile::Scoreboard => return Err("convergence barriers would have to change places".into()),
            }
        }
        Ok(())
    }

    /// Emits a parallel copy between registers of one file. `scratch` is a register that may be overwritten; without one, cycles take
    /// three instructions for each exchange.
    pub fn emit_parallel(&self, sink: &mut Sink<'_>, file: RegFile, moves: &[Move], scratch: Option<u16>) -> Result<(), String> {
        for step in sequentialize(moves, scratch) {
            match step {
                Step::Move(to, from) => self.emit(sink, file, register(file, to, 1), register(file, from, 1))?,
                Step::Swap(first, second) => self.swap(sink, file, first, second)?,
            }
        }
        Ok(())
    }
}

/// A move between two registers of one file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Move {
    pub to: u16,
    pub from: u16,
}

/// One step of a sequentialized parallel copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Destination, source.
    Move(u16, u16),
    Swap(u16, u16),
}

/// Turns a parallel copy into steps to execute one after the other. Destinations must be distinct.
fn sequentialize(moves: &[Move], scratch: Option<u16>) -> Vec<Step> {
    const NONE: u16 = u16::MAX;
    // `source`: by destination, the source of the move still to be made. `readers`: by register, the number of such moves that read it.
    let mut source = [NONE; 256];
    let mut readers = [0u16; 256];
    for &Move { to, from } in moves.iter().filter(|one| one.to != one.from) {
        debug_assert_eq!(source[usize::from(to)], NONE, "two moves to one register");
        source[usize::from(to)] = from;
        readers[usize::from(from)] += 1;
    }
    let mut steps = Vec::new();
    let mut ready: Vec<u16> =
        moves.iter().rev().map(|one| one.to).filter(|&to| source[usize::from(to)] != NONE && readers[usize::from(to)] == 0).collect();
    let drain = |ready: &mut Vec<u16>, source: &mut [u16; 256], readers: &mut [u16; 256], steps: &mut Vec<Step>| {
        while let Some(to) = ready.pop() {
            let from = std::mem::replace(&mut source[usize::from(to)], NONE);
            if from == NONE {
                continue;
            }
            steps.push(Step::Move(to, from));
            readers[usize::from(from)] -= 1;
            if readers[usize::from(from)] == 0 && source[usize::from(from)] != NONE {
                ready.push(from);
            }
        }
    };
    drain(&mut ready, &mut source, &mut readers, &mut steps);
    // Every remaining destination is read by a remaining move. There are as many reads as destinations, so each is read exactly once:
    // only disjoint cycles remain.
    for &Move { to: start, .. } in moves {
        if source[usize::from(start)] == NONE {
            continue;
        }
        if let Some(scratch) = scratch {
            steps.push(Step::Move(scratch, start));
            let mut to = start;
            while source[usize::from(to)] != start {
                let from = std::mem::replace(&mut source[usize::from(to)], NONE);
                steps.push(Step::Move(to, from));
                to = from;
            }
            source[usize::from(to)] = NONE;
            steps.push(Step::Move(to, scratch));
        } else {
            // After each swap `to` has its final content, and the content that was in `to` has moved on to `from`.
            let mut to = start;
            while source[usize::from(to)] != start {
                let from = std::mem::replace(&mut source[usize::from(to)], NONE);
                steps.push(Step::Swap(to, from));
                to = from;
            }
            source[usize::from(to)] = NONE;
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use oriole_ir::Target;

    use super::{Move, Step, encodes, sequentialize};

    /// Executes the steps of a parallel copy and compares every register but the scratch register with the expected content.
    fn execute(moves: &[Move], scratch: Option<u16>) {
        let before: Vec<u16> = (0..256).collect();
        let mut state = before.clone();
        for step in sequentialize(moves, scratch) {
            match step {
                Step::Move(to, from) => state[usize::from(to)] = state[usize::from(from)],
                Step::Swap(a, b) => state.swap(usize::from(a), usize::from(b)),
            }
        }
        for register in (0..256u16).filter(|&register| Some(register) != scratch) {
            let expected = moves.iter().find(|one| one.to == register).map_or(register, |one| one.from);
            assert_eq!(state[usize::from(register)], expected, "{moves:?} at {register}");
        }
    }

    #[test]
    fn every_parallel_copy_of_five_registers_is_correct() {
        for code in 0..5u32.pow(5) {
            let moves: Vec<Move> = (0..5).map(|to| Move { to: to as u16, from: (code / 5u32.pow(to) % 5) as u16 }).collect();
            execute(&moves, None);
            execute(&moves, Some(9));
        }
    }

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
                assert!(encodes(text, target), "{text} on {target}");
            }
        }
    }
}
