//! An instruction as hazards see it.

use oriole_hardware::{Class, Classes, ControlRules, Model, Port};
use oriole_isa::{AccessPlace, Control, File, Instruction, Opcode, Operand, Value, accesses};
use smallvec::SmallVec;

use super::Register;

/// A register and the port by which it is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Touch {
    pub register: Register,
    pub port: Port,
}

/// An instruction: what it touches and what its control word says.
#[derive(Clone, Debug)]
pub struct Step {
    pub class: Class,
    pub control: Control,
    pub reads: SmallVec<[Touch; 8]>,
    pub writes: SmallVec<[Touch; 4]>,
    pub guarded: bool,
    /// The predicate it depends on, and whether it must be false.
    pub guard: Option<(Register, bool)>,
    /// Whether results come at a time of their own.
    pub results_wait: bool,
    /// Whether sources are read at a time of their own.
    pub sources_wait: bool,
    /// Instructions of one group finish in the order of issue.
    pub order: Option<u8>,
    /// Instructions of one group read their sources in the order of issue.
    pub queue: Option<u8>,
    /// Scoreboards that it sets, one bit each, for results and for reads.
    pub announces: (u8, u8),
    /// The predicate of an atomic operation says whether the address was of the right kind, which is known once sources are read.
    pub tells_early: bool,
    /// The warp stops until all that is in front of it in the queue of memory operations has been taken from there.
    pub drains_queue: bool,
    /// `DEPBAR.LE SBn, count`: waits until no more than `count` are left.
    pub count_wait: Option<(u8, u32)>,
    /// Cycles from its issue until a wait for its scoreboards sees them.
    pub scoreboard_stall: u8,
    /// Entries of the reuse caches that it reads through: entry, register, whether it is kept there for the next one.
    pub cached: SmallVec<[(Entry, Register, bool); 3]>,
    /// Whether its threads end here.
    pub ends: bool,
}

impl Step {
    /// What matters of an instruction.
    pub fn new(instruction: &Instruction, model: &Model) -> Step {
        let class = Class::of(instruction);
        let is_redux = instruction.opcode == Opcode::REDUX;
        let written = instruction.written();
        let slot_of = |operand: u8| written.iter().take(usize::from(operand)).filter(|&&written| !written).count();
        let mut step = Step {
            class,
            control: instruction.control,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            guarded: !instruction.guard.is_always(),
            guard: guard_of(instruction),
            results_wait: model.results_wait(class),
            sources_wait: model.sources_wait(class),
            order: class.order().or_else(|| is_redux.then_some(REDUX_ORDER)),
            queue: class.queue().or_else(|| is_redux.then_some(REDUX_ORDER)),
            announces: announced(instruction),
            tells_early: matches!(instruction.opcode, Opcode::ATOM | Opcode::ATOMS | Opcode::ATOMG),
            drains_queue: ControlRules::of(model).facts.barrier_drains == 1
                && instruction.opcode == Opcode::BAR
                && !instruction.modifiers.iter().any(|modifier| modifier.spelling() == ".ARV"),
            count_wait: count_wait(instruction),
            scoreboard_stall: model.waits(class).stall,
            cached: cached(instruction, class, ControlRules::of(model)),
            ends: instruction.opcode == Opcode::EXIT && !instruction.operands.iter().any(is_condition),
        };
        for access in accesses(instruction) {
            for (part, number) in access.registers().enumerate() {
                let Some(register) = Register::new(access.file, number) else { continue };
                let port = match (access.place, access.written) {
                    (AccessPlace::Guard, _) => Some(Classes::get().guard_port(access.file == File::UniformPredicate)),
                    (AccessPlace::Plain(operand) | AccessPlace::Address(operand), false) => {
                        class.read_port(access.file, slot_of(operand), part)
                    }
                    (AccessPlace::Plain(_) | AccessPlace::Address(_), true) => class.write_port(access.file, part),
                };
                let Some(port) = port else { continue };
                if access.written {
                    step.writes.push(Touch { register, port });
                } else {
                    step.reads.push(Touch { register, port });
                }
            }
        }
        step
    }
}

/// Reductions over a warp end in order, as ptxas' code for sm_110a counts on. The classes do not say so, so that compilers who ask them
/// wait for each; the group is the last that there is room for.
const REDUX_ORDER: u8 = super::track::GROUPS as u8 - 1;

/// The counter of groups of matrix products, beside the six scoreboards.
const MATRIX_GROUPS: u8 = 6;

fn is_matrix_group(instruction: &Instruction) -> bool {
    matches!(instruction.opcode, Opcode::HGMMA | Opcode::IGMMA | Opcode::QGMMA | Opcode::BGMMA)
}

fn announced(instruction: &Instruction) -> (u8, u8) {
    // A number beyond the scoreboards that exist announces nothing.
    let bit = |scoreboard: Option<u8>| scoreboard.filter(|&index| index < MATRIX_GROUPS).map_or(0, |index| 1 << index);
    let names_group = instruction.operands.iter().any(|operand| matches!(operand.value, Value::Name(name) if name.spelling() == "gsb0"));
    let group = u8::from(is_matrix_group(instruction) && names_group) << MATRIX_GROUPS;
    let (results, reads) = (bit(instruction.control.write_barrier) | group, bit(instruction.control.read_barrier));
    (results, reads)
}

/// A predicate that is not always true.
fn is_condition(operand: &Operand) -> bool {
    operand.not || matches!(operand.value, Value::Register(_, Some(_)))
}

/// What can hold a register: each cache has slots, each slot an entry for every bank of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub cache: u8,
    pub slot: u8,
    pub bank: u8,
}

/// Units that have no cache leave those of others alone.
fn cached(instruction: &Instruction, class: Class, rules: &ControlRules) -> SmallVec<[(Entry, Register, bool); 3]> {
    let mut entries = SmallVec::new();
    let Some(cache) = rules.reuse_cache(class) else { return entries };
    for access in accesses(instruction).iter().filter(|access| !access.written && access.file == File::General) {
        let Some(operand) = access.operand() else { continue };
        let Some(slot) = instruction.reuse_slot(operand) else { continue };
        for number in access.registers() {
            let entry = Entry { cache, slot, bank: rules.register_bank(number) };
            entries.extend(Register::new(access.file, number).map(|register| (entry, register, instruction.operands[operand].reuse)));
        }
    }
    entries
}

fn count_wait(instruction: &Instruction) -> Option<(u8, u32)> {
    let number = |at: usize| match instruction.operands.get(at)?.value {
        Value::Integer(number) => u32::try_from(number).ok(),
        _ => None,
    };
    match (instruction.opcode, &instruction.operands.first()?.value) {
        (Opcode::DEPBAR, Value::Register(File::Scoreboard, Some(scoreboard))) if *scoreboard < u16::from(MATRIX_GROUPS) => {
            Some((*scoreboard as u8, number(1)?))
        }
        (Opcode::WARPGROUP, Value::Name(_)) => Some((MATRIX_GROUPS, number(1)?)),
        _ => None,
    }
}

fn guard_of(instruction: &Instruction) -> Option<(Register, bool)> {
    let guard = instruction.guard;
    if guard.uniform || guard.predicate == 7 {
        return None;
    }
    Some((Register::new(File::Predicate, guard.predicate.into())?, guard.negated))
}
