//! What an instruction touches, in the terms of the hardware model.

use oriole_hardware::{Class, Classes, ControlRules, Kind, Model, Need, Port};
use oriole_isa::{AccessPlace, File, Instruction, Opcode, Value, accesses};
use smallvec::SmallVec;

/// A register of a file that has latencies, as one number.
pub type Register = u16;

/// Registers of all four files.
pub const REGISTERS: usize = 4 * 256;

const FILES: [File; 4] = [File::General, File::Predicate, File::Uniform, File::UniformPredicate];

/// The file of a register.
#[inline]
pub fn file_of(register: Register) -> File {
    FILES[usize::from(register / 256)]
}

/// Its number in its file.
pub fn number_in_file(register: Register) -> u16 {
    register % 256
}

/// One register, and the port by which it is read or written.
#[derive(Clone, Copy, Debug)]
pub struct Touch {
    pub register: Register,
    pub port: Port,
}

/// Which of those in flight an instruction waits for, whatever they touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    Nothing,
    /// All: it hands over to code that knows nothing of them.
    Everything,
    /// Loads and atomic operations: what L1 holds is dropped behind them.
    Loads,
    /// Groups of matrix products until no more than so many are left, by itself.
    Groups(u32),
}

/// Scoreboards that the code names itself, in a `DEPBAR` further on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pinned {
    No,
    Write,
    Read,
}

/// General registers that an instruction reads through a slot of the reuse cache.
#[derive(Clone, Copy, Debug)]
pub struct Cached {
    pub slot: u8,
    pub first: u16,
    pub count: u16,
}

/// What an instruction does with registers and scoreboards.
#[derive(Clone, Debug)]
pub struct Touches {
    pub class: Class,
    pub opcode: Opcode,
    pub reads: SmallVec<[Touch; 8]>,
    pub writes: SmallVec<[Touch; 4]>,
    /// What it reads through the reuse cache of its class, if that has one.
    pub cached: SmallVec<[Cached; 3]>,
    pub guarded: bool,
    /// The predicate it depends on, and whether it must be false.
    pub guard: Option<(Register, bool)>,
    /// Results come at a time of their own, and a scoreboard can tell.
    pub announces_results: bool,
    /// Sources are read at a time of their own, and a scoreboard can tell.
    pub announces_reads: bool,
    /// Whether its form may set a scoreboard for its results. `HGMMA` may not: `WARPGROUP.DEPBAR` waits for its results.
    pub may_set_for_results: bool,
    /// Whether its form may set a scoreboard for its reads.
    pub may_set_for_reads: bool,
    pub drain: Drain,
    /// Whether the next instruction has to wait for it, whatever it is.
    pub is_fence: bool,
    /// Whether it reads memory, with or without a register for what it reads.
    pub is_load: bool,
    /// Whether it closes a group of matrix products.
    pub ends_group: bool,
    pub pinned: Pinned,
    pub order: Option<u8>,
    pub queue: Option<u8>,
}

/// What an acquire may be about: it has to be done before L1 is emptied.
const LOADS: [Opcode; 4] = [Opcode::LD, Opcode::LDG, Opcode::ATOM, Opcode::ATOMG];

impl Touches {
    /// What an instruction touches.
    pub fn new(instruction: &Instruction, model: &Model, rules: &ControlRules) -> Touches {
        let class = Class::of(instruction);
        let written = instruction.written();
        let slot_of = |operand: u8| written.iter().take(usize::from(operand)).filter(|&&written| !written).count();
        let waits = model.waits(class);
        let wants = rules.wants(instruction.opcode);
        let guard = instruction.guard;
        let mut touches = Touches {
            class,
            opcode: instruction.opcode,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            cached: SmallVec::new(),
            guarded: !guard.is_always(),
            guard: None,
            announces_results: false,
            announces_reads: false,
            may_set_for_results: instruction.may_set_write_barrier(),
            may_set_for_reads: instruction.may_set_read_barrier(),
            drain: drain_of(instruction, wants.settles),
            is_fence: wants.fences,
            is_load: LOADS.contains(&instruction.opcode),
            ends_group: names_group(instruction),
            pinned: match instruction.opcode {
                Opcode::LDGDEPBAR => Pinned::Write,
                Opcode::UTMACMDFLUSH => Pinned::Read,
                _ => Pinned::No,
            },
            order: class.order(),
            queue: class.queue(),
        };
        let mut has_sources = false;
        let has_cache = rules.reuse_cache(class).is_some();
        for access in &accesses(instruction) {
            if has_cache && !access.written && access.file == File::General {
                let slot = access.operand().and_then(|operand| instruction.reuse_slot(operand));
                touches.cached.extend(slot.map(|slot| Cached { slot, first: access.first, count: access.count }));
            }
            let Some(file) = FILES.iter().position(|&file| file == access.file) else { continue };
            for (part, number) in access.registers().enumerate() {
                let port = match (access.place, access.written) {
                    (AccessPlace::Guard, _) => Some(Classes::get().guard_port(access.file == File::UniformPredicate)),
                    (AccessPlace::Plain(operand) | AccessPlace::Address(operand), false) => {
                        class.read_port(access.file, slot_of(operand), part)
                    }
                    (_, true) => class.write_port(access.file, part),
                };
                let Some(port) = port else { continue };
                let touch = Touch { register: file as u16 * 256 + number, port };
                if access.place == AccessPlace::Guard {
                    touches.guard = Some((touch.register, guard.negated));
                }
                if access.written {
                    touches.writes.push(touch);
                } else {
                    touches.reads.push(touch);
                    // A guard is read at issue, so it is no late source.
                    has_sources |= access.place != AccessPlace::Guard;
                }
            }
        }
        touches.announces_results = waits.results && !touches.writes.is_empty() || instruction.opcode == Opcode::FENCE;
        touches.announces_reads = waits.sources && has_sources || instruction.opcode == Opcode::MEMBAR;
        touches
    }

    /// Whether two are never executed by the same thread, if nobody writes the predicate in between.
    pub fn excludes(&self, other: &Touches) -> bool {
        matches!((self.guard, other.guard), (Some((one, negated)), Some((two, other))) if one == two && negated != other)
    }
}

fn drain_of(instruction: &Instruction, settles: bool) -> Drain {
    let has = |name: &str| instruction.modifiers.iter().any(|modifier| modifier.spelling() == name);
    let count = || match instruction.operands.get(1).map(|operand| &operand.value) {
        Some(Value::Integer(number)) => u32::try_from(*number).ok(),
        _ => None,
    };
    match instruction.opcode {
        _ if settles => Drain::Everything,
        Opcode::CCTL if has(".IVALL") => Drain::Loads,
        Opcode::WARPGROUP if matches!(instruction.operands.first().map(|operand| &operand.value), Some(Value::Name(_))) => {
            count().map_or(Drain::Nothing, Drain::Groups)
        }
        _ => Drain::Nothing,
    }
}

fn names_group(instruction: &Instruction) -> bool {
    let is_product = matches!(instruction.opcode, Opcode::HGMMA | Opcode::IGMMA | Opcode::QGMMA | Opcode::BGMMA);
    is_product && instruction.operands.iter().any(|operand| matches!(operand.value, Value::Name(name) if name.spelling() == "gsb0"))
}

/// What must lie between two that touch a register.
#[inline]
pub fn need(model: &Model, kind: Kind, register: Register, first: Port, second: Port, guarded: bool) -> Need {
    let file = file_of(register);
    if guarded { model.need_guarded(kind, file, first, second) } else { model.need(kind, file, first, second) }
}
