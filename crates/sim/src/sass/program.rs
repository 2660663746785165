//! The executable form of the code for one launch: one step per instruction, indexed by (address - code start) / instruction size.

use oriole_isa::{Instruction, Opcode, Target};

use super::flow::{BranchTarget, ConvergenceTest, Flow};
use super::launch::LaunchInputs;
use super::load::{Code, INSTRUCTION, Kernel};
use super::site::Site;
use super::step::{Action, Built, Step, UnsupportedInst};
use super::warp::{PredicateSource, Row, WideSource};
use super::world::CODE_START;
use super::{arith, atomic, bulk, constant, driver, flow, lanes, mbarrier, memory, moves, register_pool, tensor, texture, warpgroup};

/// The steps of a kernel and of every function it may call.
pub(super) struct SassProgram<'c> {
    pub steps: Vec<Step>,
    /// Index of the kernel's first step.
    pub entry: u32,
    /// For each step the instruction it was built from, for observers and messages; `None` for padding and driver functions.
    pub sources: Vec<Option<SourceLine<'c>>>,
    /// For each step: the number of general registers that it needs. `None` if no code changes the number of registers of a warp.
    needed_registers: Option<Vec<u16>>,
    pub target: Target,
}

/// The instruction a step was built from.
#[derive(Clone, Copy)]
pub(super) struct SourceLine<'c> {
    pub instruction: &'c Instruction,
    pub word: u128,
    pub function: &'c super::load::LoadedFunction,
}

impl<'c> SassProgram<'c> {
    /// Builds the steps of a kernel and of all functions that are not kernels.
    pub fn build(code: &'c Code, kernel: &Kernel, prepared: &LaunchInputs) -> SassProgram<'c> {
        let mut program = SassProgram { steps: Vec::new(), entry: 0, sources: Vec::new(), needed_registers: None, target: code.target };
        let last = code.functions.last().map_or(CODE_START, |last| last.address + INSTRUCTION * last.words.len() as u64);
        for (number, function) in code.functions.iter().enumerate() {
            if number != kernel.function && function.is_kernel {
                continue;
            }
            program.pad_to(function.address);
            if number == kernel.function {
                program.entry = program.steps.len() as u32;
            }
            for (position, (&word, instruction)) in function.words.iter().zip(&function.instructions).enumerate() {
                let address = function.address + INSTRUCTION * position as u64;
                let Some(instruction) = instruction else {
                    program.push(PredicateSource::TRUE, Action::Refused(format!("the word {word:032x} is no known instruction")), None);
                    continue;
                };
                let site = Site {
                    instruction,
                    target: code.target,
                    address,
                    section: function.address,
                    constants: &prepared.constants,
                    registers: prepared.registers,
                };
                let action = build(&site).unwrap_or_else(|UnsupportedInst(what)| Action::Refused(format!("not simulated: {what}")));
                program.push(site.guard(), action, Some(SourceLine { instruction, word, function }));
            }
        }
        // Each driver function is two steps: its action, and a return to the caller.
        program.pad_to(last.next_multiple_of(8 * INSTRUCTION));
        for name in &code.externals {
            program.push(PredicateSource::TRUE, driver::build(name, prepared.registers), None);
            let address = WideSource::General(Row::source(Some(driver::RETURN_ADDRESS)));
            let branch_target = BranchTarget::Register { address, base: 0 };
            let back = Flow::Jump { condition: PredicateSource::TRUE, test: ConvergenceTest::Always, branch_target };
            program.push(PredicateSource::TRUE, Action::Flow(back), None);
        }
        let instructions = || program.sources.iter().map(|source| source.map(|source| source.instruction));
        if instructions().flatten().any(|instruction| oriole_isa::requested_registers(instruction).is_some()) {
            let needed = instructions().map(|instruction| instruction.map_or(0, register_pool::needed_registers)).collect();
            program.needed_registers = Some(needed);
        }
        program
    }

    /// Returns the number of general registers that a step needs if that is more than `count`.
    #[inline]
    pub fn missing_registers(&self, step: u32, count: u16) -> Option<u16> {
        let needed = self.needed_registers.as_ref()?;
        needed.get(step as usize).copied().filter(|&needed| needed > count)
    }

    fn push(&mut self, guard: PredicateSource, action: Action, source: Option<SourceLine<'c>>) {
        self.steps.push(Step { guard, action });
        self.sources.push(source);
    }

    /// Fills the gap before a function with steps that trap.
    fn pad_to(&mut self, address: u64) {
        while CODE_START + INSTRUCTION * (self.steps.len() as u64) < address {
            self.push(PredicateSource::TRUE, Action::Flow(Flow::Trap("there is no code here".into())), None);
        }
    }

    /// Returns the index of the step at an address.
    pub fn index(&self, address: u64) -> Option<u32> {
        let offset = address.checked_sub(CODE_START)?;
        let index = offset / INSTRUCTION;
        (offset % INSTRUCTION == 0 && index < self.steps.len() as u64).then_some(index as u32)
    }
}

/// Returns the address of a step.
pub(super) fn address_of(step: u32) -> u64 {
    CODE_START + INSTRUCTION * u64::from(step)
}

/// Builds the action of an instruction by the first family that knows its opcode.
fn build(site: &Site<'_>) -> Built {
    if oriole_isa::has_conflicting_signs(site.instruction) {
        return Err(site.unsupported("signs on both of the first two sources, which is an illegal instruction"));
    }
    let families: [fn(&Site<'_>) -> Option<Built>; 13] = [
        register_pool::build,
        arith::build,
        moves::build,
        constant::build,
        mbarrier::build,
        bulk::build,
        flow::build,
        memory::build,
        atomic::build,
        lanes::build,
        tensor::build,
        warpgroup::build,
        texture::build,
    ];
    families.iter().find_map(|family| family(site)).unwrap_or_else(|| {
        let opcode: Opcode = site.opcode();
        Err(site.unsupported(format!("instruction {}", opcode.mnemonic())))
    })
}
