//! Collects the register accesses of an instruction, and its properties that scoreboards depend on. Each access has a *port* of the
//! hardware model: the way in which an instruction class accesses a register. Latencies depend on the ports of both accesses.

use oriole_hardware::{Classes, ControlRules, DependenceKind, LatencyRequirement, Model, Port, SchedClass};
use oriole_isa::{AccessPlace, Instruction, Opcode, OperandValue, RegFile, accesses, released_registers};
use smallvec::SmallVec;

use super::machine_code::MachineCode;

/// A register of one of the four register files with latencies: 256 times the index of its register file in `FILES_WITH_LATENCIES`, plus
/// the number of the register in that file.
pub type Register = u16;

/// Number of possible [`Register`] numbers: 256 for each of the four register files with latencies.
pub const REGISTER_NUMBER_COUNT: usize = 4 * 256;

/// The register files whose registers have latencies in the hardware model.
const FILES_WITH_LATENCIES: [RegFile; 4] = [RegFile::General, RegFile::Predicate, RegFile::Uniform, RegFile::UniformPredicate];

/// Returns the register file of a register.
#[inline]
pub fn register_file_of(register: Register) -> RegFile {
    FILES_WITH_LATENCIES[usize::from(register / 256)]
}

/// Returns the number of a register in its register file.
pub fn number_in_file(register: Register) -> u16 {
    register % 256
}

/// An access to one register, with its port: the kind of access on which latencies depend in the hardware model.
#[derive(Clone, Copy, Debug)]
pub struct RegAccess {
    /// The register that is read or written.
    pub register: Register,
    /// The port of the access: the way in which the instruction's class accesses the register.
    pub port: Port,
}

/// The in-flight instructions that an instruction waits for, in addition to those that it depends on through registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AdditionalWaits {
    /// No further instructions: only register dependences count.
    Nothing,
    /// All instructions in flight, because the instruction transfers control to code that was compiled without knowledge of them.
    Everything,
    /// Loads and atomic operations, because the instruction invalidates a cache for an acquire, which must not happen before they are done.
    Loads,
    /// Loads from tensor memory, because the instruction is a `NOP`: `tcgen05.wait::ld` becomes a `NOP` that waits for them, as in the
    /// output of ptxas. Every other `NOP` waits too, because it looks the same.
    TensorLoads,
    /// Asynchronous matrix products, until at most this number of their groups (`wgmma.commit_group`) is in flight. The hardware does this
    /// without a scoreboard.
    Groups(u32),
}

/// Which of an instruction's two scoreboards, if any, is given by the code itself, because a later `DEPBAR` names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PinnedScoreboard {
    /// None: the scoreboards of the instruction can be chosen freely.
    No,
    /// The write barrier, the scoreboard that signals that results are written.
    Write,
    /// The read barrier, the scoreboard that signals that sources are read.
    Read,
}

/// Consecutive general registers that an instruction reads through an operand slot of the reuse cache.
#[derive(Clone, Copy, Debug)]
pub struct CachedRead {
    /// Index of the operand slot of the reuse cache.
    pub reuse_slot: u8,
    /// Number of the first register that is read.
    pub first: u16,
    /// Number of registers that are read.
    pub count: u16,
}

/// The register accesses of one instruction, and its properties that scoreboards depend on.
#[derive(Clone, Debug)]
pub struct InstAccesses {
    /// The scheduling class (latency class) of the instruction.
    pub class: SchedClass,
    /// The opcode of the instruction.
    pub opcode: Opcode,
    /// Registers that the instruction reads, its guard predicate included.
    pub reads: SmallVec<[RegAccess; 8]>,
    /// Registers that the instruction writes.
    pub writes: SmallVec<[RegAccess; 4]>,
    /// For `WARPGROUP.ARRIVE`: registers that the matrix products after it overwrite ([`add_fenced_registers`]); for `USETMAXREG.DEALLOC`:
    /// registers that the warp gives up. Earlier accesses to them have to be complete before this instruction.
    pub fenced_writes: Vec<RegAccess>,
    /// Registers that the instruction reads through the reuse cache of its class; empty if the class has no reuse cache.
    pub cached_reads: SmallVec<[CachedRead; 3]>,
    /// Whether the instruction has a guard other than the true predicate.
    pub guarded: bool,
    /// The register of the guard predicate, and whether the guard is negated; `None` for an unguarded instruction.
    pub guard: Option<(Register, bool)>,
    /// Whether the results are written after a variable time; a write barrier signals when that is done.
    pub late_results: bool,
    /// Whether the sources are read late, some time after the issue; a read barrier signals when that is done.
    pub late_reads: bool,
    /// Whether the encoding form of the instruction can name a write barrier. That of `HGMMA` cannot: `WARPGROUP.DEPBAR` waits for the
    /// results of `HGMMA`.
    pub can_set_write_barrier: bool,
    /// Whether the encoding form of the instruction can name a read barrier.
    pub can_set_read_barrier: bool,
    /// The in-flight instructions that the instruction waits for, in addition to those that it depends on through registers.
    pub additional_waits: AdditionalWaits,
    /// Whether the next instruction has to wait until this one is complete, even without a register dependence.
    pub is_fence: bool,
    /// Whether the next branch has to wait until this instruction has read its sources: behind it, other threads of the warp may write the
    /// uniform registers that the instruction reads.
    pub is_awaited_by_branches: bool,
    /// Whether the instruction is a load or atomic operation that an acquire has to wait for, even without a destination register.
    pub is_load: bool,
    /// Whether the instruction ends a group of asynchronous matrix products.
    pub ends_group: bool,
    /// The set of scoreboards that a `DEPBAR` names and waits for, as a bit mask, in addition to its wait mask.
    pub also_waits: u8,
    /// Which of the instruction's two scoreboards, if any, cannot be chosen, because the code itself names it.
    pub pinned: PinnedScoreboard,
    /// The in-order group of the instruction, whose members finish in the order of issue; `None` if it belongs to no group.
    pub completion_group: Option<u8>,
    /// The in-order group of the instruction, whose members read their sources in the order of issue; `None` if it belongs to no group.
    pub read_group: Option<u8>,
}

/// Returns whether an instruction without results takes a variable time, so that a write barrier signals its end.
fn completes_late(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::FENCE | Opcode::USETMAXREG)
}

/// Opcodes of global and generic loads and atomic operations, which have to be done before an acquire invalidates a cache.
const LOADS_BEFORE_ACQUIRE: [Opcode; 4] = [Opcode::LD, Opcode::LDG, Opcode::ATOM, Opcode::ATOMG];

impl InstAccesses {
    /// Collects the accesses and properties of an instruction.
    pub fn new(instruction: &Instruction, model: &Model, rules: &ControlRules) -> InstAccesses {
        let class = SchedClass::of(instruction);
        let written = instruction.written();
        let slot_of = |operand: u8| written.iter().take(usize::from(operand)).filter(|&&written| !written).count();
        let waits = model.waits(class);
        let wants = rules.requirements(instruction.opcode);
        let guard = instruction.guard;
        let has_uniform_guard = guard.uniform && !guard.is_always();
        let mut inst_accesses = InstAccesses {
            class,
            opcode: instruction.opcode,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            fenced_writes: Vec::new(),
            cached_reads: SmallVec::new(),
            guarded: !guard.is_always(),
            guard: None,
            late_results: false,
            late_reads: false,
            can_set_write_barrier: instruction.may_set_write_barrier() && !instruction.opcode.is_warpgroup_product(),
            can_set_read_barrier: instruction.may_set_read_barrier() && !instruction.opcode.is_warpgroup_product(),
            additional_waits: additional_waits_of(instruction, wants.waits_for_all_in_flight),
            // A uniform guard says that all threads of the warp are there, so that none of them writes the sources.
            is_fence: wants.next_waits || changes_shared_barrier(instruction) || wants.reads_late && !has_uniform_guard,
            is_awaited_by_branches: wants.reads_late && has_uniform_guard,
            is_load: LOADS_BEFORE_ACQUIRE.contains(&instruction.opcode),
            ends_group: ends_product_group(instruction),
            also_waits: scoreboard_set_of(instruction),
            pinned: match instruction.opcode {
                Opcode::LDGDEPBAR => PinnedScoreboard::Write,
                Opcode::UTMACMDFLUSH => PinnedScoreboard::Read,
                _ => PinnedScoreboard::No,
            },
            completion_group: class.order(),
            read_group: class.queue(),
        };
        let mut has_sources = false;
        let has_cache = rules.reuse_cache(class).is_some();
        for access in &accesses(instruction) {
            if has_cache && !access.written && access.file == RegFile::General {
                let slot = access.operand().and_then(|operand| instruction.reuse_slot(operand));
                inst_accesses.cached_reads.extend(slot.map(|slot| CachedRead {
                    reuse_slot: slot,
                    first: access.first,
                    count: access.count,
                }));
            }
            let Some(file) = FILES_WITH_LATENCIES.iter().position(|&file| file == access.file) else { continue };
            for (part, number) in access.registers().enumerate() {
                let port = match (access.place, access.written) {
                    (AccessPlace::Guard, _) => Some(Classes::get().guard_port(access.file == RegFile::UniformPredicate)),
                    (AccessPlace::Plain(operand) | AccessPlace::Address(operand), false) => {
                        class.read_port(access.file, slot_of(operand), part)
                    }
                    (_, true) => class.write_port(access.file, part),
                };
                let Some(port) = port else { continue };
                let reg_access = RegAccess { register: file as u16 * 256 + number, port };
                if access.place == AccessPlace::Guard {
                    inst_accesses.guard = Some((reg_access.register, guard.negated));
                }
                if access.written {
                    inst_accesses.writes.push(reg_access);
                } else {
                    inst_accesses.reads.push(reg_access);
                    // The guard is read at issue, so it is not a late source and needs no read barrier.
                    has_sources |= access.place != AccessPlace::Guard;
                }
            }
        }
        // Registers that the warp gives up may belong to another warp at once, so earlier accesses have to be complete.
        let port = class.read_port(RegFile::General, 0, 0);
        for (number, port) in released_registers(instruction).flat_map(|number| port.map(|port| (number, port))) {
            // The general registers come first in `FILES_WITH_LATENCIES`.
            let released = RegAccess { register: number, port };
            inst_accesses.reads.push(released);
            inst_accesses.fenced_writes.push(released);
        }
        inst_accesses.late_results =
            waits.results && !inst_accesses.writes.is_empty() || completes_late(instruction.opcode) || changes_shared_barrier(instruction);
        inst_accesses.late_reads = waits.sources && has_sources || instruction.opcode == Opcode::MEMBAR;
        inst_accesses
    }

    /// Returns whether this is `WARPGROUP.ARRIVE`, the fence between ordinary accesses and matrix products of a warpgroup.
    fn is_product_fence(&self) -> bool {
        self.opcode == Opcode::WARPGROUP && self.additional_waits == AdditionalWaits::Nothing
    }

    /// Returns whether two instructions have opposite guards on the same predicate. Unless the predicate is written in between, no thread
    /// executes both.
    pub(crate) fn has_opposite_guard(&self, other: &InstAccesses) -> bool {
        matches!((self.guard, other.guard), (Some((one, negated)), Some((two, other))) if one == two && negated != other)
    }
}

/// Makes each `WARPGROUP.ARRIVE` wait for earlier accesses to the registers of the matrix products between it and the next
/// `WARPGROUP.ARRIVE`.
///
/// The four warps of a warpgroup compute a matrix product together. Once all of them have passed the fence, the hardware may start when the
/// first warp issues the product instruction, and access the registers of the other three before they issue it. So earlier accesses to
/// these registers have to be complete at the fence; a wait at the product instruction itself comes too late. (On an H200, a reload that
/// the product waited for was lost this way, in every warp but the first.)
pub(crate) fn add_fenced_registers(code: &MachineCode<'_>, inst_accesses: &mut [InstAccesses]) {
    // Registers of matrix products that no fence precedes in their own block. The last fence of any other block may be the one that
    // precedes them.
    let mut exposed = FencedRegisters::default();
    let mut last_fences = Vec::new();
    for block in &code.blocks {
        let mut fenced = FencedRegisters::default();
        let mut is_last = true;
        for number in block.range.clone().rev() {
            let accesses = &mut inst_accesses[number];
            if accesses.opcode.is_warpgroup_product() {
                fenced.add(accesses);
            } else if accesses.is_product_fence() {
                std::mem::take(&mut fenced).add_to_fence(accesses);
                last_fences.extend(is_last.then_some(number));
                is_last = false;
            }
        }
        exposed.reads.append(&mut fenced.reads);
        exposed.writes.append(&mut fenced.writes);
    }
    if !exposed.writes.is_empty() {
        for number in last_fences {
            exposed.clone().add_to_fence(&mut inst_accesses[number]);
        }
    }
}

/// General registers that the matrix products after a fence (`WARPGROUP.ARRIVE`) access.
#[derive(Clone, Default)]
struct FencedRegisters {
    /// Registers that the matrix products read.
    reads: Vec<RegAccess>,
    /// Registers that the matrix products write.
    writes: Vec<RegAccess>,
}

impl FencedRegisters {
    /// Adds the general registers that a matrix product accesses.
    fn add(&mut self, product: &InstAccesses) {
        let general = |access: &&RegAccess| register_file_of(access.register) == RegFile::General;
        self.reads.extend(product.reads.iter().filter(general));
        self.writes.extend(product.writes.iter().filter(general));
    }

    /// Adds these registers, each once, to the accesses of a fence, so that the fence waits for earlier accesses to them.
    fn add_to_fence(mut self, fence: &mut InstAccesses) {
        for list in [&mut self.reads, &mut self.writes] {
            list.sort_unstable_by_key(|access| access.register);
            list.dedup_by_key(|access| access.register);
        }
        fence.reads.extend(self.reads);
        fence.fenced_writes.extend(self.writes);
    }
}

/// Returns whether an instruction initializes or invalidates a barrier in shared memory. Later accesses of the same thread to that memory,
/// and later barriers of the thread block, have to wait for the instruction: the hardware does not order them after it.
fn changes_shared_barrier(instruction: &Instruction) -> bool {
    let has = |name: &str| instruction.modifiers.iter().any(|modifier| modifier.spelling() == name);
    instruction.opcode == Opcode::SYNCS && (has(".EXCH") || has(".CCTL"))
}

/// Returns which in-flight instructions an instruction waits for in addition to those that it depends on through registers; `waits_for_all`
/// says whether its opcode waits for all of them.
fn additional_waits_of(instruction: &Instruction, waits_for_all: bool) -> AdditionalWaits {
    let has = |name: &str| instruction.modifiers.iter().any(|modifier| modifier.spelling() == name);
    let count = || match instruction.operands.get(1).map(|operand| &operand.value) {
        Some(OperandValue::Integer(number)) => u32::try_from(*number).ok(),
        _ => None,
    };
    match instruction.opcode {
        _ if waits_for_all => AdditionalWaits::Everything,
        Opcode::NOP => AdditionalWaits::TensorLoads,
        Opcode::CCTL if has(".IVALL") || has(".DEEP") => AdditionalWaits::Loads,
        // `UTMACCTL.IV` makes the copy engine read a tensor map again. A thread learns from a load or an atomic operation that the map has
        // changed, so these have to be complete before `UTMACCTL.IV`.
        Opcode::UTMACCTL if has(".IV") => AdditionalWaits::Loads,
        Opcode::WARPGROUP if matches!(instruction.operands.first().map(|operand| &operand.value), Some(OperandValue::Name(_))) => {
            count().map_or(AdditionalWaits::Nothing, AdditionalWaits::Groups)
        }
        _ => AdditionalWaits::Nothing,
    }
}

/// Returns the set of scoreboards that a `DEPBAR` waits for, as a bit mask.
fn scoreboard_set_of(instruction: &Instruction) -> u8 {
    let set = instruction.operands.iter().find_map(|operand| match operand.value {
        OperandValue::Set(bits) if instruction.opcode == Opcode::DEPBAR => Some(bits as u8),
        _ => None,
    });
    set.unwrap_or(0)
}

/// Returns whether an instruction is an asynchronous matrix product that ends a group: it names `gsb0`.
fn ends_product_group(instruction: &Instruction) -> bool {
    instruction.opcode.is_warpgroup_product()
        && instruction.operands.iter().any(|operand| matches!(operand.value, OperandValue::Name(name) if name.spelling() == "gsb0"))
}

/// Returns the minimum distance in cycles between two accesses to a register, and whether the second one needs a scoreboard. `kind` is the
/// kind of dependence (read after write and so on), `first` and `second` are the ports (kinds of access) in the hardware model, and
/// `guarded` says whether the first instruction has a guard.
#[inline]
pub(crate) fn latency_requirement(
    model: &Model,
    kind: DependenceKind,
    register: Register,
    first: Port,
    second: Port,
    guarded: bool,
) -> LatencyRequirement {
    let file = register_file_of(register);
    if guarded { model.need_guarded(kind, file, first, second) } else { model.need(kind, file, first, second) }
}

#[cfg(test)]
mod tests {
    use oriole_hardware::Hardware;
    use oriole_isa::{Target, parse};

    use super::*;
    use crate::flow::MachineBlock;

    /// Two matrix products add to the same registers, and the second one also reads R28 to R31. The fence before them waits for each
    /// register once.
    #[test]
    fn a_fence_has_each_register_of_its_products_once() {
        let lines = [
            "WARPGROUP.ARRIVE",
            "HGMMA.64x8x16.F32 R24, gdesc[UR4], R24",
            "HGMMA.64x8x16.F32 R24, R28, gdesc[UR8], R24, gsb0",
            "WARPGROUP.DEPBAR.LE gsb0, 0x0",
        ];
        let instructions = lines.map(|line| parse(line).unwrap());
        let hardware = Hardware::built_in(Target::parse("sm_90a").unwrap());
        let mut inst_accesses: Vec<InstAccesses> =
            instructions.iter().map(|instruction| InstAccesses::new(instruction, hardware.model, &hardware.rules)).collect();
        let code =
            MachineCode { instructions: &instructions, blocks: vec![MachineBlock { range: 0..lines.len(), successors: Vec::new() }] };
        add_fenced_registers(&code, &mut inst_accesses);
        let registers = |list: &[RegAccess]| list.iter().map(|access| access.register).collect::<Vec<Register>>();
        assert_eq!(registers(&inst_accesses[0].reads), (24..32).collect::<Vec<_>>());
        assert_eq!(registers(&inst_accesses[0].fenced_writes), (24..28).collect::<Vec<_>>());
    }
}
