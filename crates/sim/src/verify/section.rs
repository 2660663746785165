//! A code section, decoded once for all verifiers.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use oriole_cubin::info::{Attribute, Code, Value as AttributeValue};
use oriole_cubin::relocation::Relocation;
use oriole_cubin::{Function, Index};
use oriole_hardware::Model;
use oriole_isa::{Instruction, Target, decode};

use crate::hazard::flow::{self, Next};
use crate::hazard::{self, Step};

/// Bytes of an instruction.
pub(crate) const INSTRUCTION_BYTES: usize = 16;

/// The code of a function with what the cubin says about it.
pub struct Section<'c> {
    pub(super) index: &'c Index<'c>,
    /// Index of the section in the file.
    pub(super) number: usize,
    /// Registers that the file gives it.
    pub(super) register_count: Option<u32>,
    pub(super) target: Target,
    pub(super) model: &'static Model,
    /// Name of the section.
    pub name: &'c str,
    /// Name of the function.
    pub function: &'c str,
    pub(super) is_kernel: bool,
    /// Its instructions as they are in the file.
    pub words: Vec<u128>,
    /// Bytes behind the last whole instruction.
    pub(super) odd_bytes: usize,
    /// What the words mean; none for those that the table does not know.
    pub(super) decoded: Vec<Option<Instruction>>,
    /// Offsets at which functions begin.
    pub(super) entries: Vec<u64>,
    /// Whether each entry can be called from elsewhere.
    pub(super) relocations: Vec<Relocation>,
    /// Where indirect branches can go: offset of the branch, offsets of targets.
    pub(super) indirect: BTreeMap<u32, Vec<u32>>,
    /// Of this function.
    pub(super) attributes: &'c [Attribute],
    code: OnceCell<Option<Vec<Instruction>>>,
    nexts: OnceCell<Vec<Next>>,
    steps: OnceCell<Vec<Step>>,
    hazards: OnceCell<Vec<hazard::Finding>>,
}

impl<'c> Section<'c> {
    pub(super) fn new(index: &'c Index<'c>, function: &Function<'c>, target: Target) -> Section<'c> {
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

    /// The instructions, if all of them are known.
    pub(super) fn code(&self) -> Option<&[Instruction]> {
        self.code.get_or_init(|| self.decoded.iter().cloned().collect()).as_deref()
    }

    /// The known instructions with their numbers.
    pub(super) fn instructions(&self) -> impl Iterator<Item = (usize, &Instruction)> {
        self.decoded.iter().enumerate().filter_map(|(number, instruction)| Some((number, instruction.as_ref()?)))
    }

    /// Instructions as hazards see them; empty if some are not known.
    pub(super) fn steps(&self) -> &[Step] {
        self.steps.get_or_init(|| self.code().unwrap_or_default().iter().map(|instruction| Step::new(instruction, self.model)).collect())
    }

    /// Where control goes behind each instruction; empty if some are not known.
    pub(super) fn nexts(&self) -> &[Next] {
        let targets = |branch: usize| self.branch_targets(branch);
        self.nexts.get_or_init(|| flow::nexts(self.code().unwrap_or_default(), &targets))
    }

    /// Numbers of the instructions at which functions begin.
    pub(super) fn entry_numbers(&self) -> Vec<usize> {
        self.entries.iter().map(|&offset| offset as usize / INSTRUCTION_BYTES).filter(|&number| number < self.words.len()).collect()
    }

    fn branch_targets(&self, branch: usize) -> Vec<usize> {
        let targets = self.indirect.get(&((branch * INSTRUCTION_BYTES) as u32));
        let inside = |&target: &u32| Some(target as usize / INSTRUCTION_BYTES).filter(|&number| number < self.words.len());
        targets.into_iter().flatten().filter_map(inside).collect()
    }

    /// What the walk over all paths finds; three of the verifiers share it.
    pub(super) fn hazards(&self) -> &[hazard::Finding] {
        self.hazards.get_or_init(|| flow::check_steps(self.steps(), self.nexts(), &self.entry_numbers(), self.model))
    }

    /// Whether a relocation patches the instruction.
    pub(super) fn is_patched(&self, number: usize) -> bool {
        let offset = (number * INSTRUCTION_BYTES) as u64;
        let at = self.relocations.partition_point(|relocation| relocation.offset < offset);
        self.relocations.get(at).is_some_and(|relocation| relocation.offset < offset + INSTRUCTION_BYTES as u64)
    }
}

fn indirect_branches(attributes: &[Attribute]) -> BTreeMap<u32, Vec<u32>> {
    let mut branches = BTreeMap::new();
    for attribute in attributes {
        if let (Code::INDIRECT_BRANCH_TARGETS, AttributeValue::BranchTargets(list)) = (attribute.code, &attribute.value) {
            branches.extend(list.iter().map(|branch| (branch.branch, branch.targets.clone())));
        }
    }
    branches
}
