//! Reduces an instruction to the facts that the hazard check needs: register accesses, scoreboards, in-order groups, reuse.

use oriole_hardware::{Classes, ControlRules, Model, Port, SchedClass};
use oriole_isa::{AccessPlace, Control, Instruction, Opcode, Operand, OperandValue, RegFile, accesses, released_registers};
use smallvec::SmallVec;

use super::HazardRegister;

/// An access to one register, through the port that determines its latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HazardAccess {
    pub register: HazardRegister,
    pub port: Port,
}

/// An instruction: its register accesses and its control word.
#[derive(Clone, Debug)]
pub struct HazardStep {
    pub class: SchedClass,
    pub control: Control,
    pub reads: SmallVec<[HazardAccess; 8]>,
    pub writes: SmallVec<[HazardAccess; 4]>,
    /// Whether it has a guard that is not always true.
    pub guarded: bool,
    /// The guard predicate, and whether it must be false for the instruction to execute; `None` for no guard and for uniform guards.
    pub guard: Option<(HazardRegister, bool)>,
    /// Whether its results have variable latency and need a scoreboard.
    pub results_wait: bool,
    /// Whether its operands are read late, so that overwriting them needs a scoreboard.
    pub sources_wait: bool,
    /// In-order group for results: instructions of one group write their results in issue order.
    pub result_order_group: Option<u8>,
    /// In-order group for operands: instructions of one group read their operands in issue order.
    pub read_order_group: Option<u8>,
    /// Scoreboards it sets, one bit each: (released when results are written, released when operands are read).
    pub sets_scoreboards: (u8, u8),
    /// Whether it is an atomic: its predicate result reports the kind of the address, and is known once operands are read.
    pub predicate_after_read: bool,
    /// The memory queue, if it is a block barrier at which the warp stops until all earlier instructions of that queue have read their sources.
    pub drains_queue: Option<u8>,
    /// `DEPBAR.LE SBn, count` waits until at most `count` setters of scoreboard `n` are pending: (n, count).
    pub count_wait: Option<(u8, u32)>,
    /// `DEPBAR.LE SBn, count, {m, ...}` also waits until the scoreboards of the set are clear, one bit each.
    pub also_waits: u8,
    /// Cycles from its issue until a wait for its scoreboard takes effect.
    pub scoreboard_stall: u8,
    /// Reuse-cache entries it reads through: (entry, register, whether `.reuse` keeps the value).
    pub cached: SmallVec<[(ReuseEntry, HazardRegister, bool); 3]>,
    /// Whether its active threads exit.
    pub ends: bool,
    /// Its part in matrix products of a warpgroup.
    pub warpgroup: Option<WarpgroupRole>,
    /// Numbers of the general registers that the warp gives up, which may belong to another warp at once.
    pub releases: std::ops::Range<u16>,
}

/// The part of an instruction in matrix products of a warpgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarpgroupRole {
    /// `WARPGROUP.ARRIVE`: products after it may access the registers of a warp before that warp issues them.
    Fence,
    /// A product.
    Product,
}

impl HazardStep {
    /// Extracts the facts from a decoded instruction.
    pub fn new(instruction: &Instruction, model: &Model) -> HazardStep {
        let class = SchedClass::of(instruction);
        let is_redux = instruction.opcode == Opcode::REDUX;
        let written = instruction.written();
        let slot_of = |operand: u8| written.iter().take(usize::from(operand)).filter(|&&written| !written).count();
        let mut step = HazardStep {
            class,
            control: instruction.control,
            reads: SmallVec::new(),
            writes: SmallVec::new(),
            guarded: !instruction.guard.is_always(),
            guard: guard_of(instruction),
            results_wait: model.results_need_scoreboard(class),
            sources_wait: model.sources_need_scoreboard(class),
            result_order_group: class.order().or_else(|| is_redux.then_some(REDUX_ORDER)),
            read_order_group: read_order_group(instruction, class, model),
            sets_scoreboards: scoreboards_set_by(instruction),
            predicate_after_read: matches!(instruction.opcode, Opcode::ATOM | Opcode::ATOMS | Opcode::ATOMG),
            drains_queue: drained_queue(instruction, model),
            count_wait: count_wait(instruction),
            also_waits: also_waits(instruction),
            scoreboard_stall: model.waits(class).stall,
            cached: cached(instruction, class, ControlRules::of(model)),
            ends: instruction.opcode == Opcode::EXIT && !instruction.operands.iter().any(is_condition),
            warpgroup: warpgroup_role(instruction),
            releases: released_registers(instruction),
        };
        for access in accesses(instruction) {
            for (part, number) in access.registers().enumerate() {
                let Some(register) = HazardRegister::new(access.file, number) else { continue };
                let port = match (access.place, access.written) {
                    (AccessPlace::Guard, _) => Some(Classes::get().guard_port(access.file == RegFile::UniformPredicate)),
                    (AccessPlace::Plain(operand) | AccessPlace::Address(operand), false) => {
                        class.read_port(access.file, slot_of(operand), part)
                    }
                    (AccessPlace::Plain(_) | AccessPlace::Address(_), true) => class.write_port(access.file, part),
                };
                let Some(port) = port else { continue };
                if access.written {
                    step.writes.push(HazardAccess { register, port });
                } else {
                    step.reads.push(HazardAccess { register, port });
                }
            }
        }
        step
    }
}

/// In-order group of `REDUX` (reductions over a warp), which ptxas' code for sm_110a relies on. The class table does not state this order,
/// so that Oriole's compiler still waits for each one. The group is the last available number.
const REDUX_ORDER: u8 = super::track::GROUPS as u8 - 1;

/// In-order group of the copy engine's instructions: ptxas' code for sm_90a, sm_100a and sm_120a sets one read scoreboard for several of them,
/// and waits for the last. The class table does not state this order either.
const COPY_ORDER: u8 = REDUX_ORDER - 1;

/// Index of the counter of warpgroup matrix-product groups, after the six scoreboards.
const MATRIX_GROUPS: u8 = 6;

/// Returns the part of an instruction in matrix products of a warpgroup; see [`HazardStep::warpgroup`].
fn warpgroup_role(instruction: &Instruction) -> Option<WarpgroupRole> {
    let is_fence = instruction.opcode == Opcode::WARPGROUP && instruction.modifiers.iter().any(|modifier| modifier.spelling() == ".ARRIVE");
    match is_fence {
        true => Some(WarpgroupRole::Fence),
        false => is_matrix_group(instruction).then_some(WarpgroupRole::Product),
    }
}

/// Returns whether the instruction is a warpgroup matrix product.
fn is_matrix_group(instruction: &Instruction) -> bool {
    matches!(instruction.opcode, Opcode::HGMMA | Opcode::IGMMA | Opcode::QGMMA | Opcode::BGMMA)
}

/// Returns the scoreboards an instruction sets; see [`HazardStep::sets_scoreboards`].
fn scoreboards_set_by(instruction: &Instruction) -> (u8, u8) {
    // Index 6 does not exist in hardware and signals nothing.
    let bit = |scoreboard: Option<u8>| scoreboard.filter(|&index| index < MATRIX_GROUPS).map_or(0, |index| 1 << index);
    let names_group =
        instruction.operands.iter().any(|operand| matches!(operand.value, OperandValue::Name(name) if name.spelling() == "gsb0"));
    let group = u8::from(is_matrix_group(instruction) && names_group) << MATRIX_GROUPS;
    let (results, reads) = (bit(instruction.control.write_barrier) | group, bit(instruction.control.read_barrier));
    (results, reads)
}

/// Returns whether an operand is a predicate other than the constant true.
fn is_condition(operand: &Operand) -> bool {
    operand.not || matches!(operand.value, OperandValue::Register(_, Some(_)))
}

/// An entry of a reuse cache: each cache has slots, and each slot one entry per register bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ReuseEntry {
    pub cache: u8,
    pub slot: u8,
    pub bank: u8,
}

/// Returns the reuse-cache entries an instruction reads through; none for units without a cache, which do not affect the other caches.
fn cached(instruction: &Instruction, class: SchedClass, rules: &ControlRules) -> SmallVec<[(ReuseEntry, HazardRegister, bool); 3]> {
    let mut entries = SmallVec::new();
    let Some(cache) = rules.reuse_cache(class) else { return entries };
    for access in accesses(instruction).iter().filter(|access| !access.written && access.file == RegFile::General) {
        let Some(operand) = access.operand() else { continue };
        let Some(slot) = instruction.reuse_slot(operand) else { continue };
        for number in access.registers() {
            let entry = ReuseEntry { cache, slot, bank: rules.register_bank(number) };
            entries.extend(HazardRegister::new(access.file, number).map(|register| (entry, register, instruction.operands[operand].reuse)));
        }
    }
    entries
}

/// Returns the in-order group in which an instruction reads its operands.
fn read_order_group(instruction: &Instruction, class: SchedClass, model: &Model) -> Option<u8> {
    match instruction.opcode {
        Opcode::BAR => barrier_queue(instruction, model).or(class.queue()),
        Opcode::REDUX => class.queue().or(Some(REDUX_ORDER)),
        Opcode::UBLKCP | Opcode::UBLKPF | Opcode::UBLKRED | Opcode::UTMALDG | Opcode::UTMAPF | Opcode::UTMAREDG | Opcode::UTMASTG => {
            class.queue().or(Some(COPY_ORDER))
        }
        _ => class.queue(),
    }
}

/// Returns the queue of loads and stores if a block barrier is in it: on targets where barriers drain that queue.
fn barrier_queue(instruction: &Instruction, model: &Model) -> Option<u8> {
    let is_in_queue = instruction.opcode == Opcode::BAR && ControlRules::of(model).facts.barrier_drains == 1;
    Classes::get().of(Opcode::STS, &[]).queue().filter(|_| is_in_queue)
}

/// Returns the queue that a block barrier drains. `BAR.ARV` does not wait, and a barrier with `.DEFER_BLOCKING` does not wait for the queue.
fn drained_queue(instruction: &Instruction, model: &Model) -> Option<u8> {
    let waits = |modifier: &oriole_isa::Symbol| !matches!(modifier.spelling(), ".ARV" | ".DEFER_BLOCKING");
    barrier_queue(instruction, model).filter(|_| instruction.modifiers.iter().all(waits))
}

/// Decodes an instruction that waits for a count; see [`HazardStep::count_wait`].
fn count_wait(instruction: &Instruction) -> Option<(u8, u32)> {
    let number = |at: usize| match instruction.operands.get(at)?.value {
        OperandValue::Integer(number) => u32::try_from(number).ok(),
        _ => None,
    };
    match (instruction.opcode, &instruction.operands.first()?.value) {
        (Opcode::DEPBAR, OperandValue::Register(RegFile::Scoreboard, Some(scoreboard))) if *scoreboard < u16::from(MATRIX_GROUPS) => {
            Some((*scoreboard as u8, number(1)?))
        }
        (Opcode::WARPGROUP, OperandValue::Name(_)) => Some((MATRIX_GROUPS, number(1)?)),
        _ => None,
    }
}

/// Decodes the set of scoreboards of `DEPBAR`; see [`HazardStep::also_waits`].
fn also_waits(instruction: &Instruction) -> u8 {
    let set = instruction.operands.iter().find_map(|operand| match operand.value {
        OperandValue::Set(bits) if instruction.opcode == Opcode::DEPBAR => Some(bits as u8),
        _ => None,
    });
    set.unwrap_or(0) & ((1 << MATRIX_GROUPS) - 1)
}

/// Decodes the guard; see [`HazardStep::guard`].
fn guard_of(instruction: &Instruction) -> Option<(HazardRegister, bool)> {
    let guard = instruction.guard;
    if guard.uniform || guard.predicate == 7 {
        return None;
    }
    Some((HazardRegister::new(RegFile::Predicate, guard.predicate.into())?, guard.negated))
}
