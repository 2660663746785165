//! Tracks how busy the ten units are and how register pressure changes, for each block.
//!
//! A block has a [`BlockResourceUsage`]: cycles on each unit, register pressure changes by unit, and the current pressure. An instruction
//! is added in three steps, which are the modes of a published description of ptxas:
//!
//! 1. Its own cost: cycles on its unit, and the cost of the registers that it reads and that have not had their last use.
//! 2. The change of that cost when the registers that it reads for the last time are marked as consumed. The change is at most zero: its
//!    absolute value is the cost of the released registers.
//! 3. The resulting pressure: the number of registers that it makes live, minus the number of those that it releases, is added to the
//!    pressure of the block.
//!
//! Example: `FFMA R0, R1, R2, R3` with the last uses of R1 and R2 adds 1 cycle to the FMA unit, -2 to the delta of that unit, and
//! 1 - 2 = -1 to the pressure.
//!
//! [`ResourceTracker::schedule`] does all three steps. It returns the [`UndoRecord`] with which [`ResourceTracker::undo`] removes the
//! instruction, for schedulers that backtrack: the strategy `backtracking` undoes its decisions with it. The other strategies use
//! [`ResourceCosts`] only.

use oriole_hardware::machine::Machine;
use oriole_hardware::units::{Rates, UNITS, Unit};
use oriole_hardware::{Profile, SchedClass, ThroughputClass};
use oriole_isa::RegFile;

/// One number for each functional unit: busy cycles or register pressure changes.
pub(crate) type ResourceVector = [i32; UNITS];

/// Maximum number of registers that count as operands, or as results, of an instruction. The published description of ptxas keeps this
/// number in nine bits.
pub(crate) const MAX_COUNTED_REGISTERS: usize = 0x1ff;

/// Resource usage of a block. It has 84 bytes, as in the published description of ptxas.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct BlockResourceUsage {
    /// For each unit, the number of cycles for which the instructions of the block use it.
    pub usage: ResourceVector,
    /// For each unit, the sum of the register pressure changes that its instructions cause, in registers.
    pub delta: ResourceVector,
    /// Number of live registers, relative to the start of the block.
    pressure: i32,
}

const _: () = assert!(size_of::<BlockResourceUsage>() == 84);

impl BlockResourceUsage {
    /// Returns the number of live registers, relative to the start of the block.
    pub(crate) fn pressure(&self) -> i32 {
        self.pressure
    }

    /// Adds a change to the register pressure of the block.
    fn add_pressure(&mut self, change: i32) {
        self.pressure += change;
    }
}

/// One of the three steps in which the cost of an instruction is added to its block, in the order of the variants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CostMode {
    /// Modes 0 and 1 of the published description of ptxas: the cycles for which the instruction uses its unit. Starts a new instruction.
    Own,
    /// Mode 2: the change of the operand cost, in registers, since the previous evaluation of the same instruction.
    Differential,
    /// Mode 3: adds the register pressure change of the instruction to the pressure of the block.
    Pressure,
}

/// A register that the resource model tracks: its class and its number in the class. Every register has the same weight; the two-fold
/// weight of double-width registers and the separate halves of pairs in the published description of ptxas are left out, because the
/// strategy that uses this model counts single registers.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RegisterDescriptor {
    /// Register class, from 1; each register file has its own.
    class: u8,
    /// Register number within the class.
    index: u32,
}

impl RegisterDescriptor {
    /// The class number of scoreboards, which are not registers and have no cost. All lower class numbers are register files.
    const SCOREBOARD_CLASS: u8 = 7;

    /// Creates the descriptor of register number `index` of a register file.
    pub(crate) fn new(file: RegFile, index: u32) -> RegisterDescriptor {
        let class = match file {
            RegFile::General => 1,
            RegFile::Predicate => 2,
            RegFile::Uniform => 3,
            RegFile::UniformPredicate => 4,
            RegFile::Convergence => 5,
            RegFile::Scoreboard => RegisterDescriptor::SCOREBOARD_CLASS,
        };
        RegisterDescriptor { class, index }
    }

    /// Returns the class and the number of the register; `None` for a scoreboard.
    fn class_and_index(self) -> Option<(u8, u32)> {
        (self.class < RegisterDescriptor::SCOREBOARD_CLASS).then_some((self.class, self.index))
    }
}

/// A register operand. Immediates, constants, `RZ`, `PT` and their uniform counterparts are not register operands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct RegisterOperand {
    /// The register that is read or written.
    pub register: RegisterDescriptor,
    /// Whether the register is written; otherwise it is read.
    pub written: bool,
    /// Whether this operand is the last use of the value in the register.
    pub last_use: bool,
}

/// What an instruction needs: cycles of a functional unit, and registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ResourceNeeds {
    /// Index of the unit in the resource vector.
    pub unit: usize,
    /// Number of cycles for which the instruction occupies the unit.
    pub cycles: i32,
    /// The register operands.
    pub operands: Vec<RegisterOperand>,
}

/// For each scheduling class, the functional unit of its instructions, and the cycles for which an instruction occupies the unit; also some
/// limits of the machine.
#[derive(Clone, Debug)]
pub struct ResourceCosts {
    /// For each class, the index of its unit, and the number of cycles for which an instruction occupies the unit.
    classes: Vec<(usize, i32)>,
    /// Number of scoreboards of a warp.
    scoreboards: usize,
    /// Whether two instructions of a warp can issue in one cycle.
    dual_issue: bool,
    /// Number of cycles for which an instruction occupies the warp scheduler: 1, or the number of warps that execute the code in step.
    issue_cycles: u32,
}

impl ResourceCosts {
    /// Returns the costs for a hardware profile. Where no rate is known, an instruction occupies its unit for one cycle.
    pub fn new(profile: &Profile) -> ResourceCosts {
        ResourceCosts::from_rates(&profile.rates, &profile.machine)
    }

    /// Returns the costs for a machine with the given rates of its units. Where no rate is known, an instruction occupies its unit for one
    /// cycle.
    pub fn from_rates(rates: &Rates, machine: &Machine) -> ResourceCosts {
        let cost = |class: SchedClass| {
            let cycles = ThroughputClass::of(class).cycles(rates, machine).unwrap_or(1);
            (class.unit().index(), cycles as i32)
        };
        ResourceCosts {
            classes: oriole_hardware::Classes::get().all().map(cost).collect(),
            scoreboards: machine.scoreboards as usize,
            dual_issue: machine.dual_issue,
            issue_cycles: 1,
        }
    }

    /// Returns the costs if `warps` warps execute the same code at the same time: each instruction then takes an issue usage, and occupies
    /// its unit, once for each of these warps.
    pub(crate) fn in_step(&self, warps: u32) -> ResourceCosts {
        ResourceCosts {
            classes: self.classes.iter().map(|&(unit, cycles)| (unit, cycles * warps as i32)).collect(),
            issue_cycles: self.issue_cycles * warps,
            ..*self
        }
    }

    /// Returns the number of cycles for which an instruction occupies the warp scheduler: 1, or the number of warps that execute the code
    /// in step.
    pub(crate) fn issue_cycles(&self) -> u32 {
        self.issue_cycles
    }

    /// Returns the number of scoreboards of a warp.
    pub fn scoreboards(&self) -> usize {
        self.scoreboards
    }

    /// Returns whether two independent instructions of a warp can issue to different units in one cycle.
    pub fn dual_issue(&self) -> bool {
        self.dual_issue
    }

    /// Returns the costs of the same machine with dual issue.
    #[cfg(test)]
    pub(crate) fn with_dual_issue(self) -> ResourceCosts {
        ResourceCosts { dual_issue: true, ..self }
    }

    /// Returns whether an instruction of class `first` and one of class `second` after it may issue in the same cycle if they are
    /// independent: the machine has dual issue, different units execute them, and neither uses the branch unit (branches, convergence
    /// barriers, `NOP`).
    pub(crate) fn can_dual_issue_pair(&self, first: SchedClass, second: SchedClass) -> bool {
        let is_flow = |class: SchedClass| class.unit() == Unit::Branch;
        self.dual_issue && self.unit_index(first) != self.unit_index(second) && !is_flow(first) && !is_flow(second)
    }

    /// Returns the index of the unit of a class in the resource vector.
    pub fn unit_index(&self, class: SchedClass) -> usize {
        self.classes[class.index()].0
    }

    /// Returns the number of cycles for which an instruction of a class occupies its unit.
    pub fn cycles(&self, class: SchedClass) -> i32 {
        self.classes[class.index()].1
    }
}

/// A set of registers, by register class and number.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(crate) struct ClassRegisters {
    /// The members as bits: register `index` of a class is bit `index * MAX_REGISTER_CLASSES + class`.
    words: Vec<u64>,
}

impl ClassRegisters {
    /// Number of register classes for which the set has room.
    const MAX_REGISTER_CLASSES: u32 = 8;

    /// Returns the index of the word, and the mask of the bit, that represent a register.
    fn word_and_mask(class: u8, index: u32) -> (usize, u64) {
        let at = index * ClassRegisters::MAX_REGISTER_CLASSES + u32::from(class);
        ((at / 64) as usize, 1 << (at % 64))
    }

    /// Returns whether a register is in the set.
    pub(crate) fn contains(&self, class: u8, index: u32) -> bool {
        let (word, bit) = ClassRegisters::word_and_mask(class, index);
        self.words.get(word).is_some_and(|word| word & bit != 0)
    }

    /// Adds a register. Returns whether it was not in the set before.
    pub(crate) fn insert(&mut self, class: u8, index: u32) -> bool {
        let (word, bit) = ClassRegisters::word_and_mask(class, index);
        if word >= self.words.len() {
            self.words.resize(word + 1, 0);
        }
        let is_new = self.words[word] & bit == 0;
        self.words[word] |= bit;
        is_new
    }

    /// Removes a register from the set.
    pub(crate) fn remove(&mut self, class: u8, index: u32) {
        let (word, bit) = ClassRegisters::word_and_mask(class, index);
        if let Some(word) = self.words.get_mut(word) {
            *word &= !bit;
        }
    }
}

/// Costs of the instruction that is being added to a block, which are kept between the three steps ([`CostMode`]).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct CurrentInstCost {
    /// Cost of the operands of the instruction at the last evaluation, in registers.
    cost: i32,
    /// Change of the number of live registers by the instruction, as found by the steps so far.
    pressure: i32,
}

/// The registers that the scheduled instructions of a block have consumed, and the costs of the instruction that is being added.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceTracker {
    /// Registers that have had their last use and are not live.
    consumed: ClassRegisters,
    /// Costs of the instruction that is being added.
    current_inst: CurrentInstCost,
}

/// The information that is needed to remove the last instruction again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct UndoRecord {
    /// The resource usage of the block before the instruction was added.
    before: BlockResourceUsage,
    /// The registers that the instruction reads for the last time, as pairs of register class and register number. Undoing the instruction
    /// makes them live again.
    consumed: Vec<(u8, u32)>,
    /// Consumed registers that the instruction wrote, which made them live again.
    revived: Vec<(u8, u32)>,
}

impl ResourceTracker {
    /// Performs one step of adding an instruction, with the current set of consumed registers. Returns a change for each unit: cycles for
    /// [`CostMode::Own`], registers for [`CostMode::Differential`]. [`CostMode::Pressure`] instead updates the pressure in `usage`, the
    /// resource usage of the block, and returns zeros.
    pub(crate) fn evaluate_cost_step(&mut self, needs: &ResourceNeeds, mode: CostMode, usage: &mut BlockResourceUsage) -> ResourceVector {
        let mut answer = [0; UNITS];
        match mode {
            CostMode::Own => {
                self.current_inst = CurrentInstCost { cost: self.operand_cost(needs), ..CurrentInstCost::default() };
                self.current_inst.pressure = self.result_cost(needs);
                answer[needs.unit] = needs.cycles;
            }
            CostMode::Differential => {
                let now = self.operand_cost(needs);
                let change = now - self.current_inst.cost;
                self.current_inst.pressure += change;
                self.current_inst.cost = now;
                answer[needs.unit] = change;
            }
            CostMode::Pressure => usage.add_pressure(self.current_inst.pressure),
        }
        answer
    }

    /// Adds an instruction to the resource usage of a block in three steps ([`CostMode`]), and returns the information that removes it
    /// again.
    pub(crate) fn schedule(&mut self, needs: &ResourceNeeds, usage: &mut BlockResourceUsage) -> UndoRecord {
        let mut undo = UndoRecord { before: *usage, consumed: Vec::new(), revived: Vec::new() };
        let own = self.evaluate_cost_step(needs, CostMode::Own, usage);
        add_elementwise(&mut usage.usage, &own);
        for operand in needs.operands.iter().filter(|operand| !operand.written && operand.last_use) {
            if let Some((class, index)) = operand.register.class_and_index()
                && self.consumed.insert(class, index)
            {
                undo.consumed.push((class, index));
            }
        }
        let released = self.evaluate_cost_step(needs, CostMode::Differential, usage);
        add_elementwise(&mut usage.delta, &released);
        self.evaluate_cost_step(needs, CostMode::Pressure, usage);
        for operand in needs.operands.iter().filter(|operand| operand.written) {
            if let Some((class, index)) = operand.register.class_and_index()
                && self.consumed.contains(class, index)
            {
                self.consumed.remove(class, index);
                undo.revived.push((class, index));
            }
        }
        undo
    }

    /// Removes the instruction that was added last.
    pub(crate) fn undo(&mut self, undo: UndoRecord, usage: &mut BlockResourceUsage) {
        for (class, index) in undo.revived {
            self.consumed.insert(class, index);
        }
        for (class, index) in undo.consumed {
            self.consumed.remove(class, index);
        }
        *usage = undo.before;
    }

    /// Returns the number of registers that an instruction reads, consumed registers excluded, each register once; at most
    /// [`MAX_COUNTED_REGISTERS`].
    fn operand_cost(&self, needs: &ResourceNeeds) -> i32 {
        let mut seen: Vec<(u8, u32)> = Vec::new();
        for register in needs.operands.iter().filter(|operand| !operand.written).filter_map(|operand| operand.register.class_and_index()) {
            if !self.consumed.contains(register.0, register.1) && !seen.contains(&register) {
                seen.push(register);
            }
        }
        seen.len().min(MAX_COUNTED_REGISTERS) as i32
    }

    /// Returns the number of registers that an instruction writes; at most [`MAX_COUNTED_REGISTERS`].
    fn result_cost(&self, needs: &ResourceNeeds) -> i32 {
        let results = needs.operands.iter().filter(|operand| operand.written && operand.register.class_and_index().is_some());
        results.count().min(MAX_COUNTED_REGISTERS) as i32
    }
}

/// Adds each element of `more` to the same element of `sum`.
pub(crate) fn add_elementwise(sum: &mut ResourceVector, more: &ResourceVector) {
    for (sum, more) in sum.iter_mut().zip(more) {
        *sum += more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oriole_hardware::units::Unit;
    use oriole_isa::{Target, accesses, parse};

    /// Returns the unit costs of a target that is given by name.
    fn costs(target: &str) -> ResourceCosts {
        ResourceCosts::new(&Profile::of(Target::parse(target).unwrap()))
    }

    #[test]
    fn registers_of_all_classes_are_distinct() {
        let mut set = ClassRegisters::default();
        for index in 0..32 {
            for class in 0..8 {
                assert!(!set.contains(class, index), "{class} {index}");
                assert!(set.insert(class, index), "{class} {index}");
                assert!(set.contains(class, index) && !set.insert(class, index), "{class} {index}");
            }
        }
    }

    /// Returns the resource needs of an instruction that is given as text; `last` has the registers that it reads for the last time.
    fn needs_of(text: &str, last: &[u16]) -> ResourceNeeds {
        let (instruction, costs) = (parse(text).unwrap(), costs("sm_90"));
        let class = SchedClass::of(&instruction);
        let operands = accesses(&instruction).into_iter().flat_map(|access| {
            access.registers().map(move |number| RegisterOperand {
                register: RegisterDescriptor::new(access.file, number.into()),
                written: access.written,
                last_use: !access.written && access.file == RegFile::General && last.contains(&number),
            })
        });
        ResourceNeeds { unit: costs.unit_index(class), cycles: costs.cycles(class), operands: operands.collect() }
    }

    #[test]
    fn an_instruction_costs_cycles_on_its_unit() {
        let mut usage = BlockResourceUsage::default();
        let mut resources = ResourceTracker::default();
        resources.schedule(&needs_of("FFMA R0, R1, R2, R3", &[]), &mut usage);
        resources.schedule(&needs_of("MUFU.RCP R4, R5", &[]), &mut usage);
        assert_eq!((usage.usage[Unit::Fma.index()], usage.usage[Unit::Special.index()]), (1, 8));
        assert_eq!(usage.usage.iter().sum::<i32>(), 9);
        assert_eq!(costs("sm_86").cycles(SchedClass::of(&parse("DADD R0, R2, R4").unwrap())), 64);
    }

    #[test]
    fn pressure_counts_last_uses_and_results() {
        let mut usage = BlockResourceUsage::default();
        let mut resources = ResourceTracker::default();
        resources.schedule(&needs_of("FFMA R0, R1, R2, R3", &[1, 2]), &mut usage);
        assert_eq!(usage.delta[Unit::Fma.index()], -2);
        assert_eq!(usage.pressure(), -1);
        assert!(resources.consumed.contains(1, 1) && resources.consumed.contains(1, 2) && !resources.consumed.contains(1, 3));
        // A register that is already consumed is not released a second time.
        resources.schedule(&needs_of("FADD R7, R1, R3", &[1, 3]), &mut usage);
        assert_eq!(usage.delta[Unit::Fma.index()], -3);
    }

    /// Mode 2 gives the change of the operand cost since its last evaluation, so a second evaluation without a change gives zero.
    #[test]
    fn mode_2_is_zero_if_nothing_changed() {
        let (mut usage, mut resources) = (BlockResourceUsage::default(), ResourceTracker::default());
        let product = needs_of("FFMA R0, R1, R2, R3", &[1]);
        resources.evaluate_cost_step(&product, CostMode::Own, &mut usage);
        resources.consumed.insert(1, 1);
        let mut difference = || resources.evaluate_cost_step(&product, CostMode::Differential, &mut usage)[Unit::Fma.index()];
        assert_eq!((difference(), difference()), (-1, 0));
    }

    #[test]
    fn the_same_register_twice_counts_once() {
        let resources = ResourceTracker::default();
        assert_eq!(resources.operand_cost(&needs_of("FFMA R0, R1, R1, R1", &[])), 1);
        assert_eq!(resources.operand_cost(&needs_of("FFMA R0, R1, R2, RZ", &[])), 2);
        assert_eq!(resources.operand_cost(&needs_of("FADD R0, R1, 1", &[])), 1);
    }

    #[test]
    fn wide_operands_count_for_each_register() {
        let resources = ResourceTracker::default();
        assert_eq!(resources.operand_cost(&needs_of("DADD R0, R2, R4", &[])), 4);
        assert_eq!(resources.result_cost(&needs_of("DADD R0, R2, R4", &[])), 2);
    }

    #[test]
    fn the_cost_of_operands_fits_nine_bits() {
        let register = |index| RegisterDescriptor::new(RegFile::General, index);
        let operands = (0..600).map(|index| RegisterOperand { register: register(index), written: false, last_use: false }).collect();
        let work = ResourceNeeds { unit: 0, cycles: 1, operands };
        assert_eq!(ResourceTracker::default().operand_cost(&work), 0x1ff);
    }

    #[test]
    fn scoreboard_operands_do_not_count() {
        let register = RegisterDescriptor::new(RegFile::Scoreboard, 0);
        let work = ResourceNeeds { unit: 0, cycles: 1, operands: vec![RegisterOperand { register, written: false, last_use: true }] };
        assert_eq!(ResourceTracker::default().operand_cost(&work), 0);
    }

    #[test]
    fn differential_cost_is_relative_to_the_own_cost() {
        let mut usage = BlockResourceUsage::default();
        let mut resources = ResourceTracker::default();
        let sum = needs_of("FFMA R0, R1, R2, R3", &[]);
        assert_eq!(resources.evaluate_cost_step(&sum, CostMode::Own, &mut usage)[Unit::Fma.index()], 1);
        assert_eq!(resources.evaluate_cost_step(&sum, CostMode::Differential, &mut usage), [0; UNITS]);
        resources.consumed.insert(1, 2);
        assert_eq!(resources.evaluate_cost_step(&sum, CostMode::Differential, &mut usage)[Unit::Fma.index()], -1);
        assert_eq!(resources.evaluate_cost_step(&sum, CostMode::Pressure, &mut usage), [0; UNITS]);
        assert_eq!(usage.pressure(), 0);
        assert_eq!((usage.usage, usage.delta), ([0; UNITS], [0; UNITS]));
    }

    #[test]
    fn undo_restores_the_state() {
        let mut usage = BlockResourceUsage::default();
        let mut resources = ResourceTracker::default();
        resources.schedule(&needs_of("FFMA R0, R1, R2, R3", &[2]), &mut usage);
        let (before, consumed) = (usage, resources.consumed.clone());
        let undo = resources.schedule(&needs_of("FFMA R2, R0, R1, R3", &[0, 1]), &mut usage);
        assert_ne!(usage, before);
        resources.undo(undo, &mut usage);
        assert_eq!((usage, &resources.consumed), (before, &consumed));
    }

    #[test]
    fn a_consumed_register_that_is_written_again_is_not_consumed() {
        let mut usage = BlockResourceUsage::default();
        let mut resources = ResourceTracker::default();
        resources.schedule(&needs_of("FFMA R0, R1, R2, R3", &[2]), &mut usage);
        assert!(resources.consumed.contains(1, 2));
        let undo = resources.schedule(&needs_of("FADD R2, R1, R3", &[]), &mut usage);
        assert!(!resources.consumed.contains(1, 2));
        resources.undo(undo, &mut usage);
        assert!(resources.consumed.contains(1, 2));
    }
}
