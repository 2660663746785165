//! A code section, decoded once and shared by all verifiers.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use oriole_cubin::info::{Attribute, AttributeCode, AttributeValue};
use oriole_cubin::relocation::Relocation;
use oriole_cubin::{CubinIndex, Function};
use oriole_hardware::Model;
use oriole_isa::{Instruction, Target, decode};

use crate::hazard::flow::{self, NextInsts};
use crate::hazard::{self, HazardStep};

/// Size of an instruction in bytes.
pub(crate) const INSTRUCTION_BYTES: usize = 16;

/// The code of a function and what the cubin declares about it. Derived data are computed on first use.
pub struct Section<'c> {
    pub(super) index: &'c CubinIndex<'c>,
    /// Index of the section in the file.
    pub(super) number: usize,
    /// Declared number of general registers; `None` if the cubin does not say.
    pub(super) register_count: Option<u32>,
    pub(super) target: Target,
    pub(super) model: &'static Model,
    /// Name of the section.
    pub name: &'c str,
    /// Name of the function.
    pub function: &'c str,
    pub(super) is_kernel: bool,
    /// Its encoded instructions.
    pub words: Vec<u128>,
    /// Number of bytes after the last whole instruction.
    pub(super) odd_bytes: usize,
    /// Decoded instructions; `None` for words that the instruction table does not know.
    pub(super) decoded: Vec<Option<Instruction>>,
    /// Byte offsets at which functions start, ascending.
    pub(super) entries: Vec<u64>,
    /// Relocations that patch this section, ascending by offset.
    pub(super) relocations: Vec<Relocation>,
    /// Targets of indirect branches: byte offset of the branch, byte offsets of its targets.
    pub(super) indirect: BTreeMap<u32, Vec<u32>>,
    /// Attributes of this function.
    pub(super) attributes: &'c [Attribute],
    code: OnceCell<Option<Vec<Instruction>>>,
    nexts: OnceCell<Vec<NextInsts>>,
    steps: OnceCell<Vec<HazardStep>>,
    hazards: OnceCell<Vec<hazard::HazardFinding>>,
}

impl<'c> Section<'c> {
    /// Decodes a function of the cubin.
    pub(super) fn new(index: &'c CubinIndex<'c>, function: &Function<'c>, target: Target) -> Section<'c> {
        let (words, tail) = function.code.as_chunks::<INSTRUCTION_BYTES>();
        let words: Vec<u128> = words.iter().map(|word| u128::from_le_bytes(*word)).collect();
        let decoded = words.iter().map(|&word| decode(word, target)).collect();
        let mut entries: Vec<u64> = index.functions_in(function.section).map(|symbol| symbol.value).collect();
        entries.sort_unstable();
        entries.dedup();
        let attributes = index.function_attributes(function.name);
        Section {
            index,
            number: function.section,
            register_count: index.register_count(function.symbol),
            target,
            model: Model::of(target),
            name: &index.cubin().sections()[function.section].name,
            function: function.name,
            is_kernel: function.is_kernel,
            words,
            odd_bytes: tail.len(),
            decoded,
            entries,
            relocations: index.relocations(function.section),
            indirect: indirect_branches(attributes),
            attributes,
            code: OnceCell::new(),
            nexts: OnceCell::new(),
            steps: OnceCell::new(),
            hazards: OnceCell::new(),
        }
    }

    /// Returns the instructions, or `None` if one of them cannot be decoded.
    pub(super) fn code(&self) -> Option<&[Instruction]> {
        self.code.get_or_init(|| self.decoded.iter().cloned().collect()).as_deref()
    }

    /// Returns the decodable instructions with their indices.
    pub(super) fn instructions(&self) -> impl Iterator<Item = (usize, &Instruction)> {
        self.decoded.iter().enumerate().filter_map(|(number, instruction)| Some((number, instruction.as_ref()?)))
    }

    /// Returns the instructions reduced for the hazard check; empty if one of them cannot be decoded.
    pub(super) fn steps(&self) -> &[HazardStep] {
        self.steps
            .get_or_init(|| self.code().unwrap_or_default().iter().map(|instruction| HazardStep::new(instruction, self.model)).collect())
    }

    /// Returns the control-flow successors of each instruction; empty if one of them cannot be decoded.
    pub(super) fn nexts(&self) -> &[NextInsts] {
        let targets = |branch: usize| self.branch_targets(branch);
        self.nexts.get_or_init(|| flow::nexts(self.code().unwrap_or_default(), &targets))
    }

    /// Returns the indices of the instructions at which functions start.
    pub(super) fn entry_numbers(&self) -> Vec<usize> {
        self.entries.iter().map(|&offset| offset as usize / INSTRUCTION_BYTES).filter(|&number| number < self.words.len()).collect()
    }

    /// Returns the indices of an indirect branch's targets, without those outside the section.
    fn branch_targets(&self, branch: usize) -> Vec<usize> {
        let targets = self.indirect.get(&((branch * INSTRUCTION_BYTES) as u32));
        let inside = |&target: &u32| Some(target as usize / INSTRUCTION_BYTES).filter(|&number| number < self.words.len());
        targets.into_iter().flatten().filter_map(inside).collect()
    }

    /// Returns the findings of the data-flow analysis, which three of the verifiers report.
    pub(super) fn hazards(&self) -> &[hazard::HazardFinding] {
        self.hazards.get_or_init(|| flow::check_steps(self.steps(), self.nexts(), &self.entry_numbers(), self.model))
    }

    /// Returns whether a relocation patches an instruction.
    pub(super) fn is_patched(&self, number: usize) -> bool {
        let offset = (number * INSTRUCTION_BYTES) as u64;
        let at = self.relocations.partition_point(|relocation| relocation.offset < offset);
        self.relocations.get(at).is_some_and(|relocation| relocation.offset < offset + INSTRUCTION_BYTES as u64)
    }
}

/// Collects the target lists of indirect branches from the attributes.
fn indirect_branches(attributes: &[Attribute]) -> BTreeMap<u32, Vec<u32>> {
    let mut branches = BTreeMap::new();
    for attribute in attributes {
        if let (AttributeCode::INDIRECT_BRANCH_TARGETS, AttributeValue::BranchTargets(list)) = (attribute.code, &attribute.value) {
            branches.extend(list.iter().map(|branch| (branch.branch, branch.targets.clone())));
        }
    }
    branches
}
