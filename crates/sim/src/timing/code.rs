//! What the model needs to know of an instruction, whoever issues it: pipe, rate, control, operands, and what it does to memory.

use oriole_hardware::ThroughputClass;
use oriole_hardware::costs::Costs;
use oriole_hardware::machine::Machine;
use oriole_hardware::units::Rates;
use oriole_hardware::{Class, Model, Time};
use oriole_isa::{AccessPlace, Control, File, Instruction, Opcode, Target, Value, accesses};
use smallvec::SmallVec;

use crate::sass::memory::address::Address;
use crate::sass::memory::space::Space;

/// A pipe of a sub-partition. Single precision has two halves, of which one also multiplies integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Pipe {
    Alu,
    Heavy,
    Light,
    Double,
    Tensor,
    Special,
    Uniform,
    Memory,
    /// Nothing but an issue slot.
    None,
}

/// Pipes that can be busy.
pub const PIPES: usize = 8;

impl Pipe {
    /// Its name for people.
    pub fn name(self) -> &'static str {
        match self {
            Pipe::Alu => "alu",
            Pipe::Heavy => "fma, heavy half",
            Pipe::Light => "fma, light half",
            Pipe::Double => "fp64",
            Pipe::Tensor => "tensor",
            Pipe::Special => "xu",
            Pipe::Uniform => "uniform",
            Pipe::Memory => "memory",
            Pipe::None => "none",
        }
    }
}

/// Which pipes an instruction takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    One(Pipe),
    /// Whichever half of single precision is free first.
    EitherHalf,
    BothHalves,
}

/// What an instruction asks of the units that all sub-partitions share.
#[derive(Clone, Debug)]
pub enum Work {
    None,
    /// Cycles of the memory unit, without an address.
    Memory(u32),
    /// Cycles of the unit of constant banks.
    Constant(u32),
    Access(Access),
    /// Waits for the asynchronous copies of the warp.
    CopyFence,
}

/// How memory is touched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    Load,
    Store,
    /// An atomic operation that gives the old value.
    Atomic,
    /// One that does not.
    Reduction,
}

#[derive(Clone, Debug)]
pub struct Access {
    pub space: Space,
    pub touch: Touch,
    pub bytes: u32,
    pub address: Option<Address>,
    /// Whether it may be served by the first-level cache.
    pub cached: bool,
    /// Whether it is an asynchronous copy.
    pub is_copy: bool,
}

/// What an instruction does to the flow of control.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turn {
    None,
    Branch,
    /// Threads wait for each other in the warp.
    Converge,
    /// Warps wait for each other in the block.
    Barrier,
    /// Arrives there and goes on.
    Arrive,
}

/// A register that is read from the banks.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    /// Operand position among the sources.
    pub slot: u8,
    pub first: u16,
    pub count: u16,
    pub reuse: bool,
}

/// An instruction of the program.
#[derive(Clone, Debug)]
pub struct Op {
    pub address: u64,
    pub control: Control,
    /// Scoreboards waited for, one bit each.
    pub wait: u8,
    pub place: Place,
    /// Cycles that it keeps its pipe busy.
    pub busy: u32,
    pub work: Work,
    pub turn: Turn,
    /// Cycles that the warp waits behind it, whatever its stall count.
    pub pause: u32,
    pub time: Option<Time>,
    pub sources: SmallVec<[Source; 3]>,
    /// The instruction as text.
    pub text: String,
}

/// The figures that turn instructions into operations.
pub struct Figures {
    pub target: Target,
    pub model: &'static Model,
    pub machine: &'static Machine,
    pub rates: &'static Rates,
    pub costs: &'static Costs,
}

impl Figures {
    pub fn of(target: Target) -> Figures {
        Figures { target, model: Model::of(target), machine: Machine::of(target), rates: Rates::of(target), costs: Costs::of(target) }
    }

    /// What an instruction is to the model.
    pub fn op(&self, address: u64, instruction: &Instruction, text: String) -> Op {
        let class = Class::of(instruction);
        let work = self.work(class, instruction);
        let (place, busy) = self.place(class, instruction, &work);
        let time = self.model.time(class);
        Op {
            address,
            control: instruction.control,
            wait: instruction.control.wait | counted_scoreboards(instruction),
            place,
            busy,
            work,
            turn: turn_of(instruction),
            pause: pause_of(instruction, time),
            time,
            sources: sources(class, instruction),
            text,
        }
    }

    fn published(&self, class: Class) -> u32 {
        ThroughputClass::of(class).cycles(self.rates, self.machine).unwrap_or(1)
    }

    fn place(&self, class: Class, instruction: &Instruction, work: &Work) -> (Place, u32) {
        let one = Place::One;
        let cycles = self.published(class);
        match (class.attribute("rate").unwrap_or_default(), class.name()) {
            (_, "half_compare") => (one(Pipe::Alu), self.alu()),
            (_, "half_tensor") => (one(Pipe::Double), self.alu()),
            // Single precision at full rate has two pipes of half the width.
            ("fma", _) if cycles == 1 => (Place::EitherHalf, 2),
            ("fma", _) => (one(Pipe::Heavy), cycles),
            ("imad", _) => (one(Pipe::Heavy), cycles),
            ("imad_wide", _) => (Place::BothHalves, cycles),
            ("half", _) => (Place::BothHalves, cycles.max(2)),
            ("alu" | "r2ur", _) => (one(Pipe::Alu), self.alu()),
            ("half_alu", _) => (one(Pipe::Alu), self.alu()),
            ("fp64", _) => (one(Pipe::Double), cycles),
            ("xu" | "xu64", _) => (one(Pipe::Special), cycles),
            ("mma_f64", _) => (one(Pipe::Tensor), self.costs.tensor_double),
            (_, "mma_two" | "imma_two") => (one(Pipe::Tensor), self.costs.tensor_two),
            ("mma", _) => (one(Pipe::Tensor), self.costs.tensor_one),
            ("uniform", "uniform_move" | "uniform_constant" | "uniform_vote") => (one(Pipe::Uniform), 1),
            ("uniform", _) => (one(Pipe::Uniform), cycles),
            ("bra" | "fence" | "bar", _) => (one(Pipe::None), 1),
            _ => match work {
                Work::Access(access) if access.touch != Touch::Load => (one(Pipe::Memory), self.costs.store_issue),
                Work::None if instruction.opcode != Opcode::NOP => (one(Pipe::Memory), self.costs.memory_issue),
                Work::None => (one(Pipe::None), 1),
                _ => (one(Pipe::Memory), self.costs.memory_issue),
            },
        }
    }

    fn alu(&self) -> u32 {
        let lanes = self.rates.logic.filter(|lanes| *lanes > 0);
        lanes.map_or(1, |lanes| (self.machine.threads_per_warp * self.machine.schedulers).div_ceil(lanes).max(1))
    }

    fn work(&self, class: Class, instruction: &Instruction) -> Work {
        let says = |name: &str| instruction.modifiers.iter().any(|symbol| symbol.spelling() == name);
        let (space, touch) = match instruction.opcode {
            Opcode::LDG => (Space::Global, Touch::Load),
            Opcode::LD => (Space::Generic, Touch::Load),
            Opcode::LDS | Opcode::LDSM => (Space::Shared, Touch::Load),
            Opcode::LDL => (Space::Local, Touch::Load),
            Opcode::STG => (Space::Global, Touch::Store),
            Opcode::ST => (Space::Generic, Touch::Store),
            Opcode::STS | Opcode::STSM => (Space::Shared, Touch::Store),
            Opcode::STL => (Space::Local, Touch::Store),
            Opcode::LDGSTS => (Space::Global, Touch::Load),
            Opcode::ATOMS => (Space::Shared, Touch::Atomic),
            Opcode::ATOMG => (Space::Global, Touch::Atomic),
            Opcode::ATOM => (Space::Generic, Touch::Atomic),
            Opcode::RED | Opcode::REDG => (Space::Global, Touch::Reduction),
            Opcode::LDGDEPBAR => return Work::CopyFence,
            Opcode::LDC => return Work::Constant(self.costs.constant_issue),
            _ => {
                return match class.attribute("rate") {
                    Some("shfl") => Work::Memory(1),
                    Some("s2r" | "redux") => Work::Memory(self.costs.system_issue),
                    _ => Work::None,
                };
            }
        };
        let widths = [(".U8", 1), (".S8", 1), (".U16", 2), (".S16", 2), (".64", 8), (".128", 16), (".U.128", 16), (".256", 32)];
        let bytes = match instruction.opcode {
            Opcode::LDSM | Opcode::STSM => 16,
            _ => widths.iter().find(|(name, _)| says(name)).map_or(4, |&(_, bytes)| bytes),
        };
        let is_wide = matches!(space, Space::Generic | Space::Global);
        let address = instruction.operands.iter().rev().find_map(|operand| match &operand.value {
            Value::Address(address) => match (address.word.spelling(), &address.parts[..]) {
                ("", [part]) | ("desc", [_, part]) => Address::of_part(part, is_wide, says(".E")),
                _ => None,
            },
            _ => None,
        });
        let cached = touch == Touch::Load && !says(".STRONG") && !says(".MMIO");
        Work::Access(Access { space, touch, bytes, address, cached, is_copy: instruction.opcode == Opcode::LDGSTS })
    }
}

fn turn_of(instruction: &Instruction) -> Turn {
    let says = |name: &str| instruction.modifiers.iter().any(|symbol| symbol.spelling() == name);
    match instruction.opcode {
        Opcode::BRA | Opcode::BRX | Opcode::BRXU | Opcode::CALL | Opcode::RET | Opcode::EXIT => Turn::Branch,
        Opcode::BSYNC => Turn::Converge,
        Opcode::BAR if says(".ARV") => Turn::Arrive,
        Opcode::BAR => Turn::Barrier,
        _ => Turn::None,
    }
}

/// Fences, waits and jumps by register keep a warp longer than its stall count says.
fn pause_of(instruction: &Instruction, time: Option<Time>) -> u32 {
    let says = |name: &str| instruction.modifiers.iter().any(|symbol| symbol.spelling() == name);
    let Some(time) = time else { return 0 };
    let cycles = match instruction.opcode {
        Opcode::YIELD | Opcode::NANOSLEEP => time.usual,
        Opcode::BRX | Opcode::BRXU => time.most,
        Opcode::MEMBAR if says(".CTA") => time.least,
        Opcode::MEMBAR if says(".SYS") => time.most,
        Opcode::MEMBAR => time.usual,
        _ => 0,
    };
    cycles.into()
}

/// Scoreboards that `DEPBAR` waits for; that it lets some accesses be under way is left out.
fn counted_scoreboards(instruction: &Instruction) -> u8 {
    let scoreboards = instruction.operands.iter().filter_map(|operand| match operand.value {
        Value::Register(File::Scoreboard, Some(number)) if instruction.opcode == Opcode::DEPBAR && number < 6 => Some(1 << number),
        _ => None,
    });
    scoreboards.fold(0, |mask: u8, bit: u8| mask | bit)
}

/// Registers that come from the banks at issue; those of memory accesses are read later.
fn sources(class: Class, instruction: &Instruction) -> SmallVec<[Source; 3]> {
    if matches!(class.attribute("pipe"), Some("C" | "all")) {
        return SmallVec::new();
    }
    let written = instruction.written().iter().filter(|written| **written).count();
    let found = accesses(instruction);
    let plain = found.iter().filter(|access| !access.written && access.file == File::General);
    plain
        .filter_map(|access| match access.place {
            AccessPlace::Plain(operand) => Some(Source {
                slot: (usize::from(operand)).saturating_sub(written) as u8,
                first: access.first,
                count: access.count,
                reuse: instruction.operands[usize::from(operand)].reuse,
            }),
            _ => None,
        })
        .collect()
}
