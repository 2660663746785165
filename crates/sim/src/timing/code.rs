//! Translates a machine instruction into the properties that the timing model needs ([`TimedOp`]): pipe, issue rate, control word, register
//! operands, memory access and effect on control flow. They do not depend on the warp that issues the instruction.

use std::borrow::Cow;

use oriole_hardware::ThroughputClass;
use oriole_hardware::costs::Costs;
use oriole_hardware::machine::Machine;
use oriole_hardware::units::Rates;
use oriole_hardware::{Model, Profile, SchedClass, VariableLatency};
use oriole_isa::{AccessPlace, Control, Instruction, Opcode, OperandValue, RegFile, Target, accesses};
use smallvec::SmallVec;

use crate::sass::memory::address::AddressSum;
use crate::sass::memory::space::Space;

/// A pipe of a sub-partition. Single-precision arithmetic (FMA) has two pipes of half width; only the heavy one also multiplies integers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SubPartitionPipe {
    Alu,
    Heavy,
    Light,
    Double,
    Tensor,
    Special,
    Uniform,
    Memory,
    /// Takes an issue slot and no pipe.
    None,
}

/// Number of pipes that can be busy, that is, all but [`SubPartitionPipe::None`].
pub const PIPES: usize = 8;

impl SubPartitionPipe {
    /// Returns the name of the pipe as printed in stall reasons.
    pub fn name(self) -> &'static str {
        match self {
            SubPartitionPipe::Alu => "alu",
            SubPartitionPipe::Heavy => "fma, heavy half",
            SubPartitionPipe::Light => "fma, light half",
            SubPartitionPipe::Double => "fp64",
            SubPartitionPipe::Tensor => "tensor",
            SubPartitionPipe::Special => "xu",
            SubPartitionPipe::Uniform => "uniform",
            SubPartitionPipe::Memory => "memory",
            SubPartitionPipe::None => "none",
        }
    }
}

/// The pipe or pipes an instruction occupies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PipeUse {
    One(SubPartitionPipe),
    /// Whichever FMA pipe is free; the light one if both are.
    EitherHalf,
    BothHalves,
}

/// Work an instruction gives to the units shared by all sub-partitions of the multiprocessor.
#[derive(Clone, Debug)]
pub enum SharedUnitWork {
    None,
    /// Occupies the memory unit for this number of cycles without accessing memory (shuffles, special registers).
    Memory(u32),
    /// Occupies the constant-bank unit for this number of cycles.
    Constant(u32),
    /// A memory access; its cost depends on the addresses, see [`super::trace::Footprint`].
    Access(MemoryTiming),
    /// `LDGDEPBAR`: its scoreboard is released when all asynchronous copies of the warp have completed.
    CopyFence,
}

/// The kind of a memory access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimedAccessKind {
    Load,
    Store,
    /// An atomic operation that returns the old value.
    Atomic,
    /// An atomic operation without a result (`RED`).
    Reduction,
}

/// The static part of a memory access.
#[derive(Clone, Debug)]
pub struct MemoryTiming {
    pub space: Space,
    pub kind: TimedAccessKind,
    /// Bytes accessed by each thread.
    pub bytes: u32,
    /// How to compute the address from registers; `None` for address forms that the model does not know.
    pub address: Option<AddressSum>,
    /// Whether the L1 cache may serve it: a load that is neither `.STRONG` nor `.MMIO`.
    pub cached: bool,
    /// Whether it is an asynchronous copy from global to shared memory (`LDGSTS`).
    pub is_copy: bool,
}

/// The effect of an instruction on control flow and synchronization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FlowEffect {
    None,
    Branch,
    /// Waits for the other threads of the warp (`BSYNC`).
    Converge,
    /// Waits for the other warps of the block (`BAR.SYNC`).
    Barrier,
    /// Counts as arrived at the block's barrier and does not wait (`BAR.ARV`).
    Arrive,
}

/// A register operand that is read from the register banks at issue.
#[derive(Clone, Copy, Debug)]
pub struct BankRead {
    /// Position among the source operands, which is also the slot of the reuse cache.
    pub slot: u8,
    /// Number of the first register.
    pub first: u16,
    /// Number of consecutive registers.
    pub count: u16,
    /// Whether the operand carries the `.reuse` flag.
    pub reuse: bool,
}

/// A static instruction of the program, as the timing model sees it.
#[derive(Clone, Debug)]
pub struct TimedOp {
    pub address: u64,
    pub control: Control,
    /// Scoreboards it waits for before issue, one bit each, including those named by `DEPBAR`.
    pub wait: u8,
    pub pipe_use: PipeUse,
    /// Cycles for which it occupies its pipe.
    pub busy: u32,
    pub work: SharedUnitWork,
    pub flow_effect: FlowEffect,
    /// Minimum number of cycles until the warp's next instruction, regardless of the stall count; 0 for most instructions.
    pub pause: u32,
    /// Latencies of an instruction of variable latency; `None` for fixed latency.
    pub time: Option<VariableLatency>,
    pub sources: SmallVec<[BankRead; 3]>,
    /// The instruction in SASS text, prefixed with its offset; used in stall reasons.
    pub text: String,
}

/// The hardware figures of one target, used to build [`TimedOp`]s.
pub struct Figures {
    pub target: Target,
    pub model: Cow<'static, Model>,
    pub machine: Cow<'static, Machine>,
    pub rates: Cow<'static, Rates>,
    pub costs: &'static Costs,
}

impl Figures {
    /// Collects the figures of a target from the hardware model.
    pub fn of(target: Target) -> Figures {
        Figures {
            target,
            model: Cow::Borrowed(Model::of(target)),
            machine: Cow::Borrowed(Machine::of(target)),
            rates: Cow::Borrowed(Rates::of(target)),
            costs: Costs::of(target),
        }
    }

    /// Collects the figures of a profile file.
    pub fn of_profile(profile: &Profile) -> Figures {
        Figures {
            target: profile.target,
            model: Cow::Owned(profile.model.clone()),
            machine: Cow::Owned(profile.machine.clone()),
            rates: Cow::Owned(profile.rates.clone()),
            costs: Costs::of(profile.target),
        }
    }

    /// Builds the model's view of `instruction` at byte address `address`.
    pub fn op(&self, address: u64, instruction: &Instruction, text: String) -> TimedOp {
        let class = SchedClass::of(instruction);
        let work = self.work(class, instruction);
        let (pipe_use, busy) = self.pipe_use(class, instruction, &work);
        let time = self.model.time(class);
        TimedOp {
            address,
            control: instruction.control,
            wait: instruction.control.wait | counted_scoreboards(instruction),
            pipe_use,
            busy,
            work,
            flow_effect: flow_effect_of(instruction),
            pause: pause_of(instruction, time),
            time,
            sources: sources(class, instruction),
            text,
        }
    }

    /// Returns the published issue interval of a class in cycles per warp instruction and sub-partition; 1 if unpublished.
    fn published(&self, class: SchedClass) -> u32 {
        ThroughputClass::of(class).cycles(&self.rates, &self.machine).unwrap_or(1)
    }

    /// Returns the pipe of an instruction and the number of cycles for which the instruction occupies it.
    fn pipe_use(&self, class: SchedClass, instruction: &Instruction, work: &SharedUnitWork) -> (PipeUse, u32) {
        let one = PipeUse::One;
        let cycles = self.published(class);
        match (class.attribute("rate").unwrap_or_default(), class.name()) {
            (_, "half_compare") => (one(SubPartitionPipe::Alu), self.alu()),
            (_, "half_tensor") => (one(SubPartitionPipe::Double), self.alu()),
            // At full rate (one per cycle), two pipes of half the width alternate, each busy for two cycles.
            ("fma", _) if cycles == 1 => (PipeUse::EitherHalf, 2),
            ("fma", _) => (one(SubPartitionPipe::Heavy), cycles),
            ("imad", _) => (one(SubPartitionPipe::Heavy), cycles),
            ("imad_wide", _) => (PipeUse::BothHalves, cycles),
            ("half", _) => (PipeUse::BothHalves, cycles.max(2)),
            ("alu" | "r2ur", _) => (one(SubPartitionPipe::Alu), self.alu()),
            ("half_alu", _) => (one(SubPartitionPipe::Alu), self.alu()),
            ("fp64", _) => (one(SubPartitionPipe::Double), cycles),
            ("xu" | "xu64", _) => (one(SubPartitionPipe::Special), cycles),
            ("mma_f64", _) => (one(SubPartitionPipe::Tensor), self.costs.tensor_double),
            (_, "mma_two" | "imma_two") => (one(SubPartitionPipe::Tensor), self.costs.tensor_two),
            ("mma", _) => (one(SubPartitionPipe::Tensor), self.costs.tensor_one),
            ("uniform", "uniform_move" | "uniform_constant" | "uniform_vote") => (one(SubPartitionPipe::Uniform), 1),
            ("uniform", _) => (one(SubPartitionPipe::Uniform), cycles),
            ("bra" | "fence" | "bar", _) => (one(SubPartitionPipe::None), 1),
            _ => match work {
                SharedUnitWork::Access(access) if access.kind != TimedAccessKind::Load => {
                    (one(SubPartitionPipe::Memory), self.costs.store_issue)
                }
                SharedUnitWork::None if instruction.opcode != Opcode::NOP => (one(SubPartitionPipe::Memory), self.costs.memory_issue),
                SharedUnitWork::None => (one(SubPartitionPipe::None), 1),
                _ => (one(SubPartitionPipe::Memory), self.costs.memory_issue),
            },
        }
    }

    /// Returns the number of cycles for which a warp instruction occupies the ALU pipe: threads per warp / ALU lanes of a sub-partition.
    fn alu(&self) -> u32 {
        let lanes = self.rates.logic.filter(|lanes| *lanes > 0);
        lanes.map_or(1, |lanes| (self.machine.threads_per_warp * self.machine.schedulers).div_ceil(lanes).max(1))
    }

    /// Returns the work for shared units, decoded from opcode and modifiers.
    fn work(&self, class: SchedClass, instruction: &Instruction) -> SharedUnitWork {
        let says = |name: &str| instruction.modifiers.iter().any(|symbol| symbol.spelling() == name);
        let (space, kind) = match instruction.opcode {
            Opcode::LDG => (Space::Global, TimedAccessKind::Load),
            Opcode::LD => (Space::Generic, TimedAccessKind::Load),
            Opcode::LDS | Opcode::LDSM => (Space::Shared, TimedAccessKind::Load),
            Opcode::LDL => (Space::Local, TimedAccessKind::Load),
            Opcode::STG => (Space::Global, TimedAccessKind::Store),
            Opcode::ST => (Space::Generic, TimedAccessKind::Store),
            Opcode::STS | Opcode::STSM => (Space::Shared, TimedAccessKind::Store),
            Opcode::STL => (Space::Local, TimedAccessKind::Store),
            Opcode::LDGSTS => (Space::Global, TimedAccessKind::Load),
            Opcode::ATOMS => (Space::Shared, TimedAccessKind::Atomic),
            Opcode::ATOMG => (Space::Global, TimedAccessKind::Atomic),
            Opcode::ATOM => (Space::Generic, TimedAccessKind::Atomic),
            Opcode::RED | Opcode::REDG => (Space::Global, TimedAccessKind::Reduction),
            // A prefetch is a load without a result.
            Opcode::CCTL if says(".PF1") => (Space::Global, TimedAccessKind::Load),
            Opcode::LDGDEPBAR => return SharedUnitWork::CopyFence,
            Opcode::LDC => return SharedUnitWork::Constant(self.costs.constant_issue),
            _ => {
                return match class.attribute("rate") {
                    Some("shfl") => SharedUnitWork::Memory(1),
                    Some("s2r" | "redux") => SharedUnitWork::Memory(self.costs.system_issue),
                    _ => SharedUnitWork::None,
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
            OperandValue::Address(address) => match (address.word.spelling(), &address.parts[..]) {
                ("", [part]) | ("desc", [_, part]) => AddressSum::of_part(part, is_wide, says(".E")),
                _ => None,
            },
            _ => None,
        });
        let cached = kind == TimedAccessKind::Load && !says(".STRONG") && !says(".MMIO");
        SharedUnitWork::Access(MemoryTiming { space, kind, bytes, address, cached, is_copy: instruction.opcode == Opcode::LDGSTS })
    }
}

/// Classifies the effect of an instruction on control flow.
fn flow_effect_of(instruction: &Instruction) -> FlowEffect {
    let says = |name: &str| instruction.modifiers.iter().any(|symbol| symbol.spelling() == name);
    match instruction.opcode {
        Opcode::BRA | Opcode::BRX | Opcode::BRXU | Opcode::CALL | Opcode::RET | Opcode::EXIT => FlowEffect::Branch,
        Opcode::BSYNC => FlowEffect::Converge,
        Opcode::BAR if says(".ARV") => FlowEffect::Arrive,
        Opcode::BAR => FlowEffect::Barrier,
        _ => FlowEffect::None,
    }
}

/// Returns the cycles for which a fence, a sleep or an indirect branch holds back its warp beyond the stall count; 0 for all others.
fn pause_of(instruction: &Instruction, time: Option<VariableLatency>) -> u32 {
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

/// Returns the scoreboards that `DEPBAR` waits for, one bit each. Its count of accesses that may remain in flight is ignored, so the model
/// waits for all of them.
fn counted_scoreboards(instruction: &Instruction) -> u8 {
    let scoreboards = instruction.operands.iter().filter_map(|operand| match operand.value {
        OperandValue::Register(RegFile::Scoreboard, Some(number)) if instruction.opcode == Opcode::DEPBAR && number < 6 => {
            Some(1 << number)
        }
        _ => None,
    });
    scoreboards.fold(0, |mask: u8, bit: u8| mask | bit)
}

/// Returns the registers read from the banks at issue. Memory instructions return none: they read their operands later.
fn sources(class: SchedClass, instruction: &Instruction) -> SmallVec<[BankRead; 3]> {
    if matches!(class.attribute("pipe"), Some("C" | "all")) {
        return SmallVec::new();
    }
    let written = instruction.written().iter().filter(|written| **written).count();
    let found = accesses(instruction);
    let plain = found.iter().filter(|access| !access.written && access.file == RegFile::General);
    plain
        .filter_map(|access| match access.place {
            AccessPlace::Plain(operand) => Some(BankRead {
                slot: (usize::from(operand)).saturating_sub(written) as u8,
                first: access.first,
                count: access.count,
                reuse: instruction.operands[usize::from(operand)].reuse,
            }),
            _ => None,
        })
        .collect()
}
