//! Expands texture fetches by the four threads of a quad ([`QuadFetch`]), on targets where the texture unit computes the derivatives of
//! three-dimensional textures, of cube maps and of fetches with a comparison as differences between the threads of a quad.
//!
//! A fetch is executed four times, once for each thread of the quad. In round `k` all four threads have the coordinates of thread `k`:
//! thread 0 exactly, thread 1 plus the derivatives by x, thread 2 plus those by y, thread 3 plus both. Thread 0 then has the result of
//! thread `k`.
//!
//! Threads of the quad that do not take part, because they are elsewhere in the program or have ended, have to execute the instructions
//! too. They must not lose their registers:
//!
//! ```text
//! B15 = the active threads
//! active = their quads                all instructions from here on are executed by whole quads
//! [R1-4] = mark; mark = predicates
//! active = B15
//! mark |= 0x200                       only in threads that take part
//! active = the quads of B15
//! P0 = mark & 0x200
//! @!P0 [R1-8...] = scratch and result registers
//! ...                                 the four rounds
//! @!P0 scratch and result registers = [R1-8...]
//! @!P0 predicates = mark; mark = [R1-4]
//! active = B15
//! ```
//!
//! Example of a round for the first coordinate, with the number of the thread in R23:
//!
//! ```text
//! SHFL.IDX PT, R24, R8, R23, 0x1c03        the coordinate of thread k, in all threads of the quad
//! SHFL.IDX PT, R22, R11, R23, 0x1c03       its derivative by x
//! FSWZADD.NDV R24, R22, R24, ZPPPZPPP      added in threads 1 and 3
//! SHFL.IDX PT, R22, R14, R23, 0x1c03       its derivative by y
//! FSWZADD.NDV R24, R22, R24, ZPZPPPPP      added in threads 2 and 3
//! ```
//!
//! If thread `k` does not take part, its round uses the operands of the first thread that does, so that the handle is always a valid one.
//! The sequence is that of ptxas 13.0.88 for device functions, without its branches.

use oriole_ir::{Function, Guard, Inst, Location, Op, Opcode, Operand, OperandKind, RegFile, Role, Symbol};
use oriole_isa::Symbols;
use oriole_isel::QuadFetch;

use crate::abi_registers::STACK_POINTER_REGISTER;

/// Operand of `SHFL` (exchange between threads of a warp) that limits the exchange to the four threads of a quad.
const SHFL_WITHIN_QUADS: i64 = 0x1c03;
/// Bit of the mark register that is set in threads that take part in the texture fetch. The saved predicates are in the bits below it.
const PARTICIPATES_BIT: i64 = 0x200;
/// Bits of the mark register in which the seven predicates P0 to P6 are saved.
const ALL_PREDICATE_BITS: i64 = 0x7f;
/// Bits of the mark register in which the predicates P1 to P6 are saved. P0 is restored separately, because it guards the restoring
/// instructions.
const LATER_PREDICATE_BITS: i64 = 0x7e;
/// Truth table of `LOP3.LUT` for `a & b`.
const LOP3_AND_TABLE: i64 = 0xc0;
/// Truth table of `LOP3.LUT` for `a | b`.
const LOP3_OR_TABLE: i64 = 0xfc;

/// Number of a scratch register for a temporary 32-bit value. Scratch registers come after the registers of the operands and results of a
/// [`QuadFetch`].
const TEMPORARY_REGISTER: u8 = QuadFetch::FIRST_SCRATCH;
/// Number of the register with the index, within the quad (four threads), of the thread whose operands a round of the fetch uses.
const ROUND_THREAD_REGISTER: u8 = TEMPORARY_REGISTER + 1;
/// Number of the first register of the texture coordinates. After the fetch, these registers hold the components of the result.
const FIRST_COORDINATE_REGISTER: u8 = ROUND_THREAD_REGISTER + 1;
/// Number of the first register of the other operands of the texture fetch: handle, offsets, and value to compare with.
const FIRST_OTHER_OPERAND_REGISTER: u8 = FIRST_COORDINATE_REGISTER + 4;
/// Number of the register with the set of threads of the quad that take part in the texture fetch, one bit each.
const PARTICIPANTS_REGISTER: u8 = FIRST_OTHER_OPERAND_REGISTER + 4;
/// Number of the register with the index, within the quad (four threads), of the first thread that takes part in the texture fetch.
const FIRST_PARTICIPANT_REGISTER: u8 = PARTICIPANTS_REGISTER + 1;
/// Number of the mark register, which holds the saved predicates of the thread, and whether it takes part in the texture fetch
/// ([`PARTICIPATES_BIT`]).
const MARK_REGISTER: u8 = FIRST_PARTICIPANT_REGISTER + 1;

/// Returns an operand that names `count` general registers starting at `number`.
fn register(number: u8, count: u8) -> Operand {
    Operand::new(OperandKind::Register { file: RegFile::General, first: number.into(), count })
}

/// Returns an operand that names the general register with this number.
fn general(number: u8) -> Operand {
    register(number, 1)
}

/// Returns an operand that names the predicate register with this number.
fn predicate(number: u16) -> Operand {
    Operand::new(OperandKind::Register { file: RegFile::Predicate, first: number, count: 1 })
}

/// Returns an operand that names the convergence barrier in which a texture fetch records the active threads.
fn barrier() -> Operand {
    Operand::new(OperandKind::Register { file: RegFile::Convergence, first: QuadFetch::BARRIER.into(), count: 1 })
}

/// Returns an operand that names a special register or another symbol.
fn symbol_operand(text: &str) -> Operand {
    Operand::from(Symbol::find(text).unwrap_or(Symbol::NAME_))
}

/// Appends the instructions of a texture fetch by quads (groups of four threads) to a list.
struct QuadFetchEmitter<'a> {
    /// The function that is compiled.
    function: &'a mut Function,
    /// The list that instructions are appended to.
    insts: &'a mut Vec<Inst>,
    /// Source location of the appended instructions.
    location: Location,
}

/// Appends the instructions of a texture fetch by quads (groups of four threads) to `insts`; `call` is the call that represents the fetch
/// in earlier passes.
pub fn expand_quad_fetch(function: &mut Function, call: Inst, fetch: QuadFetch, insts: &mut Vec<Inst>) {
    let location = function.insts[call].location;
    let mut writer = QuadFetchEmitter { function, insts, location };
    writer.save_and_activate_quads();
    writer.find_participants();
    for thread in 0..4 {
        writer.emit_fetch_round(fetch, thread);
    }
    writer.restore_and_deactivate_threads();
}

impl QuadFetchEmitter<'_> {
    /// Appends an unguarded instruction. The first `results` operands are its results.
    fn emit(&mut self, opcode: Opcode, modifiers: &[&str], operands: &[Operand], results: usize) {
        self.emit_guarded(None, opcode, modifiers, operands, results);
    }

    /// Appends an instruction with an optional guard. The first `results` operands are its results.
    fn emit_guarded(&mut self, guard: Option<Guard>, opcode: Opcode, modifiers: &[&str], operands: &[Operand], results: usize) {
        let symbols: Symbols = modifiers.iter().filter_map(|modifier| Symbol::find(modifier)).collect();
        let inst = self.function.new_inst(Op::Machine(opcode), symbols, guard, operands, results);
        self.function.insts[inst].location = self.location;
        self.insts.push(inst);
    }

    /// Appends instructions that record the active threads in the convergence barrier, and activate all threads of their quads.
    fn activate_quads(&mut self) {
        self.emit(Opcode::BMOV, &[".32"], &[barrier(), symbol_operand("MACTIVE")], 1);
        self.emit(Opcode::BMOV, &[".32", ".PQUAD"], &[symbol_operand("MACTIVE"), barrier()], 0);
    }

    /// Appends an instruction that activates only the threads that the convergence barrier has recorded.
    fn activate_recorded_threads(&mut self) {
        self.emit(Opcode::BMOV, &[".32"], &[symbol_operand("MACTIVE"), barrier()], 0);
    }

    /// Appends an instruction that sets the predicate `result` if a register has one of the bits of a mask.
    fn emit_bit_test(&mut self, result: Operand, register: u8, mask: i64) {
        let operands =
            [result, Operand::RZ, general(register), mask.into(), Operand::RZ, LOP3_AND_TABLE.into(), Operand::PT.inverted_predicate()];
        self.emit(Opcode::LOP3, &[".LUT"], &operands, 2);
    }

    /// Returns the operands for the address of the 4-byte slot with this number below the stack pointer.
    fn address(slot: usize) -> [Operand; 3] {
        let bracket = |operand: Operand| operand.with_role(Role::Bracket(0));
        let opening = Operand::new(OperandKind::Address(Symbol::NAME_));
        [opening, bracket(general(STACK_POINTER_REGISTER)), bracket(Operand::from(-4 * (slot as i64 + 1)))]
    }

    /// Appends a store of a register to a slot below the stack pointer.
    fn store(&mut self, guard: Option<Guard>, slot: usize, register: u8) {
        let [opening, base, offset] = Self::address(slot);
        self.emit_guarded(guard, Opcode::STL, &[], &[opening, base, offset, general(register)], 0);
    }

    /// Appends a load of a register from a slot below the stack pointer.
    fn load(&mut self, guard: Option<Guard>, slot: usize, register: u8) {
        let [opening, base, offset] = Self::address(slot);
        self.emit_guarded(guard, Opcode::LDL, &[], &[general(register), opening, base, offset], 1);
    }

    /// Returns the guard of instructions for the threads that do not take part in the texture fetch.
    fn nonparticipant_guard() -> Option<Guard> {
        Some(Guard { kind: predicate(0).kind, negated: true })
    }

    /// Appends instructions that activate all threads of the quads, and save the registers of the threads that do not take part in the
    /// texture fetch.
    fn save_and_activate_quads(&mut self) {
        self.activate_quads();
        self.store(None, 0, MARK_REGISTER);
        self.emit(Opcode::P2R, &[], &[general(MARK_REGISTER), symbol_operand("PR"), Operand::RZ, ALL_PREDICATE_BITS.into()], 1);
        self.activate_recorded_threads();
        let operands = [
            general(MARK_REGISTER),
            general(MARK_REGISTER),
            PARTICIPATES_BIT.into(),
            Operand::RZ,
            LOP3_OR_TABLE.into(),
            Operand::PT.inverted_predicate(),
        ];
        self.emit(Opcode::LOP3, &[".LUT"], &operands, 1);
        self.activate_quads();
        self.emit_bit_test(predicate(0), MARK_REGISTER, PARTICIPATES_BIT);
        for (number, register) in registers_saved_by_fetch().enumerate() {
            self.store(Self::nonparticipant_guard(), number + 1, register);
        }
    }

    /// Appends instructions that restore the registers of the threads that do not take part in the texture fetch, and deactivate these
    /// threads.
    fn restore_and_deactivate_threads(&mut self) {
        for (number, register) in registers_saved_by_fetch().enumerate() {
            self.load(Self::nonparticipant_guard(), number + 1, register);
        }
        self.emit_guarded(
            Self::nonparticipant_guard(),
            Opcode::R2P,
            &[],
            &[symbol_operand("PR"), general(MARK_REGISTER), LATER_PREDICATE_BITS.into()],
            0,
        );
        self.emit_bit_test(predicate(0), MARK_REGISTER, 1);
        self.load(None, 0, MARK_REGISTER);
        self.activate_recorded_threads();
    }

    /// Appends instructions that find the threads of the quad that take part in the texture fetch, and the first of them.
    fn find_participants(&mut self) {
        let not_true = Operand::PT.inverted_predicate();
        self.emit(Opcode::VOTE, &[".ANY"], &[general(PARTICIPANTS_REGISTER), Operand::PT, predicate(0)], 2);
        self.emit(Opcode::S2R, &[], &[general(TEMPORARY_REGISTER), symbol_operand("SR_LANEID")], 1);
        let operands =
            [general(TEMPORARY_REGISTER), general(TEMPORARY_REGISTER), 0x1c.into(), Operand::RZ, LOP3_AND_TABLE.into(), not_true];
        self.emit(Opcode::LOP3, &[".LUT"], &operands, 1);
        self.emit(
            Opcode::SHF,
            &[".R", ".U32", ".HI"],
            &[general(PARTICIPANTS_REGISTER), Operand::RZ, general(TEMPORARY_REGISTER), general(PARTICIPANTS_REGISTER)],
            1,
        );
        self.emit(Opcode::MOV, &[], &[general(FIRST_PARTICIPANT_REGISTER), 3.into()], 1);
        for thread in (0..3).rev() {
            self.select_thread(FIRST_PARTICIPANT_REGISTER, thread);
        }
    }

    /// Appends instructions that set register `to` to the number of a thread of the quad if that thread takes part in the texture fetch,
    /// otherwise to the number of the first one that does.
    fn select_thread(&mut self, to: u8, thread: i64) {
        self.emit_bit_test(predicate(1), PARTICIPANTS_REGISTER, 1 << thread);
        let number = if thread == 0 { Operand::RZ } else { thread.into() };
        self.emit(Opcode::SEL, &[], &[general(to), general(FIRST_PARTICIPANT_REGISTER), number, predicate(1).inverted_predicate()], 1);
    }

    /// Appends an instruction that copies register `from` of one thread of the quad to register `to` of all its threads.
    fn broadcast(&mut self, to: u8, from: u8, thread: Operand) {
        self.emit(Opcode::SHFL, &[".IDX"], &[Operand::PT, general(to), general(from), thread, SHFL_WITHIN_QUADS.into()], 2);
    }

    /// Appends the instructions that fetch the texture for one thread of the quad.
    fn emit_fetch_round(&mut self, fetch: QuadFetch, thread: i64) {
        self.select_thread(ROUND_THREAD_REGISTER, thread);
        let first = FIRST_COORDINATE_REGISTER + u8::from(fetch.has_index);
        for number in 0..fetch.dimensions {
            let place = first + number;
            self.broadcast(place, QuadFetch::COORDINATES + number, general(ROUND_THREAD_REGISTER));
            for (derivatives, threads) in [(QuadFetch::BY_X, "ZPPPZPPP"), (QuadFetch::BY_Y, "ZPZPPPPP")] {
                self.broadcast(TEMPORARY_REGISTER, derivatives + number, general(ROUND_THREAD_REGISTER));
                self.emit(
                    Opcode::FSWZADD,
                    &[".NDV"],
                    &[general(place), general(TEMPORARY_REGISTER), general(place), symbol_operand(threads)],
                    1,
                );
            }
        }
        if fetch.geometry.ends_with("CUBE") {
            self.project_to_cube(first);
        }
        if fetch.has_index {
            self.broadcast(FIRST_COORDINATE_REGISTER, QuadFetch::INDEX, general(ROUND_THREAD_REGISTER));
        }
        let mut rest = vec![QuadFetch::HANDLE];
        rest.extend(fetch.has_offsets.then_some(QuadFetch::OFFSETS));
        rest.extend(fetch.has_compare.then_some(QuadFetch::COMPARE));
        for (to, &from) in (FIRST_OTHER_OPERAND_REGISTER..).zip(&rest) {
            self.broadcast(to, from, general(ROUND_THREAD_REGISTER));
        }
        let mut modifiers = vec![".B"];
        modifiers.extend(fetch.has_offsets.then_some(".AOFFI"));
        modifiers.extend(fetch.has_compare.then_some(".DC"));
        modifiers.push(".NDV");
        let mut operands: Vec<Operand> = fetch.wants_absent.then(|| predicate(1)).into_iter().collect();
        operands.extend([register(FIRST_COORDINATE_REGISTER + 2, 2), register(FIRST_COORDINATE_REGISTER, 2)]);
        let results = operands.len();
        let places = fetch.dimensions + u8::from(fetch.has_index);
        operands.extend([
            register(FIRST_COORDINATE_REGISTER, places),
            register(FIRST_OTHER_OPERAND_REGISTER, rest.len() as u8),
            symbol_operand(fetch.geometry),
        ]);
        self.emit(Opcode::TEX, &modifiers, &operands, results);
        for component in 0..4 {
            self.broadcast(TEMPORARY_REGISTER, FIRST_COORDINATE_REGISTER + component, Operand::RZ);
            self.keep_in_thread(QuadFetch::COMPONENTS + component, thread);
        }
        if fetch.wants_absent {
            let operands = [general(TEMPORARY_REGISTER), Operand::RZ, u32::MAX.into(), predicate(1).inverted_predicate()];
            self.emit(Opcode::SEL, &[], &operands, 1);
            self.broadcast(TEMPORARY_REGISTER, TEMPORARY_REGISTER, Operand::RZ);
            self.keep_in_thread(QuadFetch::ABSENT, thread);
        }
    }

    /// Appends an instruction that copies the temporary register to a result register, only in one thread of the quad.
    fn keep_in_thread(&mut self, result: u8, thread: i64) {
        self.emit(Opcode::MOV, &[], &[general(result), general(TEMPORARY_REGISTER), (1_i64 << thread).into()], 1);
    }

    /// Appends instructions that divide the coordinates of a cube map by the largest magnitude among them.
    fn project_to_cube(&mut self, first: u8) {
        let not_true = Operand::PT.inverted_predicate();
        let [x, y, z] = [0, 1, 2].map(|number| general(first + number));
        let temporary = general(TEMPORARY_REGISTER);
        self.emit(Opcode::FMNMX, &[], &[temporary, x.absolute(), y.absolute(), not_true], 1);
        self.emit(Opcode::FMNMX, &[], &[temporary, temporary, z.absolute(), not_true], 1);
        self.emit(Opcode::MUFU, &[".RCP"], &[temporary, temporary], 1);
        for place in [x, y, z] {
            self.emit(Opcode::FMUL, &[], &[place, place, temporary], 1);
        }
    }
}

/// Returns the numbers of the registers, except the mark register, that the texture fetch also overwrites in threads that do not take part.
/// Their contents are saved.
fn registers_saved_by_fetch() -> impl Iterator<Item = u8> {
    (QuadFetch::ABSENT..QuadFetch::COMPONENTS + 4).chain(QuadFetch::FIRST_SCRATCH..MARK_REGISTER)
}
