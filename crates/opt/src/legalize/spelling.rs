//! Enumerates the alternative spellings of an instruction: different targets write the same instruction with different mnemonics, modifiers
//! and operands.
//!
//! **Descriptors.** Instruction selection writes every access to global or generic memory with a descriptor, `desc[UR][R.64+offset]`. ptxas
//! writes an ordinary access the same way on sm_90 and later. On sm_80 to sm_89 the descriptor is an operand that the assembly text does
//! not show. Before sm_80, and for compare-and-swap and cache control on all targets, there is no descriptor. Forms with a visible
//! descriptor exist on sm_80 too, for cache policies: an access with a cache policy instead of the ordinary descriptor is written
//! `desc[UR.64][..]`.

use std::sync::LazyLock;

use oriole_ir::{Function, MAX_SUFFIXES, Operand, OperandKind, Role};
use oriole_isa::{Opcode, RegFile, Symbol};
use smallvec::SmallVec;

use crate::rewrite::{InstDraft, register_file_of};

/// A way to write an instruction: the set of changes to its original spelling. Bit `n` stands for entry `n` of [`SPELLING_CHANGES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SpellingChangeSet(u8);

/// A function that rewrites a draft into an equivalent one; it returns `None` if it does not apply.
type SpellingChange = fn(&Function, &InstDraft) -> Option<InstDraft>;

/// All changes of the spelling of an instruction, in the order in which they are applied.
const SPELLING_CHANGES: [SpellingChange; 8] = [
    |_, draft| with_hidden_descriptor(draft),
    |_, draft| with_unsigned_immediates(draft),
    |_, draft| without_policy_suffix(draft).or_else(|| warpsync_all_for_full_mask(draft)),
    |_, draft| without_descriptor(draft),
    |_, draft| with_system_scope(draft),
    |_, draft| with_other_mnemonic(draft, 0),
    |_, draft| with_other_mnemonic(draft, 1),
    with_unused_predicate_results,
];

impl SpellingChangeSet {
    /// Returns all sets of changes: first those that hide the descriptor, then the others, each group by the number of changes.
    pub(super) fn all_sets() -> impl Iterator<Item = SpellingChangeSet> {
        static SEARCH_ORDER: LazyLock<Vec<u8>> = LazyLock::new(|| {
            let mut all: Vec<u8> = (0..=u8::MAX).collect();
            all.sort_by_key(|bits| (bits & 1 == 0, bits.count_ones(), *bits));
            all
        });
        SEARCH_ORDER.iter().copied().map(SpellingChangeSet)
    }

    /// Returns the set without its last change, and that change; `None` for the empty set.
    fn without_last_change(self) -> Option<(SpellingChangeSet, SpellingChange)> {
        let last = self.0.checked_ilog2()?;
        Some((SpellingChangeSet(self.0 & !(1 << last)), SPELLING_CHANGES[last as usize]))
    }

    /// Returns the draft after all changes of the set, or `None` if one of them does not apply.
    pub(super) fn apply_to_draft(self, function: &Function, draft: &InstDraft) -> Option<InstDraft> {
        let mut spelled: Option<InstDraft> = None;
        for (number, change) in SPELLING_CHANGES.iter().enumerate() {
            if self.0 >> number & 1 == 1 {
                spelled = Some(change(function, spelled.as_ref().unwrap_or(draft))?);
            }
        }
        Some(spelled.unwrap_or_else(|| draft.clone()))
    }
}

/// The drafts of one instruction in all of its spellings. Each is computed from the draft with one change fewer.
pub(super) struct DraftsBySpelling {
    /// The drafts computed so far; the first one is the original draft.
    drafts: Vec<InstDraft>,
    /// For each set of changes (as a bit set), the index in `drafts` of the draft with these changes, or [`NO_DRAFT`].
    draft_indices: [u8; 256],
}

/// Index of a draft that does not exist, because a change does not apply or the draft was not computed yet.
const NO_DRAFT: u8 = u8::MAX;

impl DraftsBySpelling {
    /// Creates the set with only the unchanged draft.
    pub(super) fn new(draft: &InstDraft) -> DraftsBySpelling {
        let mut draft_indices = [NO_DRAFT; 256];
        draft_indices[0] = 0;
        DraftsBySpelling { drafts: vec![draft.clone()], draft_indices }
    }

    /// Returns the draft after all changes of the set `spelling`, or `None` if one of them does not apply. The sets must be requested in
    /// the order of [`SpellingChangeSet::all_sets`], because each draft is made from an earlier one.
    pub(super) fn draft_with_changes(&mut self, function: &Function, spelling: SpellingChangeSet) -> Option<&InstDraft> {
        if let Some((before, change)) = spelling.without_last_change() {
            let known = self.draft_indices[usize::from(before.0)];
            let spelled = change(function, self.drafts.get(usize::from(known))?)?;
            self.draft_indices[usize::from(spelling.0)] = self.drafts.len() as u8;
            self.drafts.push(spelled);
        }
        self.drafts.get(usize::from(self.draft_indices[usize::from(spelling.0)]))
    }
}

/// Returns the operand numbers of the `desc[` that opens an address and of the descriptor in it; `None` if there is no descriptor.
fn descriptor_positions(draft: &InstDraft) -> Option<(usize, usize)> {
    let opening = draft.operands.iter().position(|operand| operand.kind == OperandKind::Address(Symbol::NAME_desc))?;
    let is_descriptor = draft.operands.get(opening + 1)?.role == Role::Bracket(0);
    is_descriptor.then_some((opening, opening + 1))
}

/// Returns whether a descriptor is a cache policy, which has the suffix `.64`.
fn is_cache_policy(descriptor: &Operand) -> bool {
    descriptor.suffixes[0] == Symbol::_64
}

/// Returns the draft without the `.64` suffix that marks a descriptor as a cache policy; `None` if it has none.
fn without_policy_suffix(draft: &InstDraft) -> Option<InstDraft> {
    let (_, at) = descriptor_positions(draft).filter(|&(_, at)| is_cache_policy(&draft.operands[at]))?;
    let mut changed = draft.clone();
    changed.operands[at].suffixes = [Symbol::NAME_; MAX_SUFFIXES];
    Some(changed)
}

/// Moves the descriptor of an ordinary access from the address to the end of the operand list, where the assembly text does not show it.
/// Returns the changed draft; `None` if the address has no such descriptor.
pub(super) fn with_hidden_descriptor(draft: &InstDraft) -> Option<InstDraft> {
    let (_, at) = descriptor_positions(draft).filter(|&(_, at)| !is_cache_policy(&draft.operands[at]))?;
    let mut changed = draft.clone();
    remove_descriptor_bracket(&mut changed);
    changed.operands.push(draft.operands[at].with_role(Role::Plain));
    Some(changed)
}

/// Returns the draft without its descriptor if the descriptor is `URZ`; `None` otherwise.
pub(super) fn without_zero_descriptor(draft: &InstDraft) -> Option<InstDraft> {
    let (_, at) = descriptor_positions(draft)?;
    (draft.operands[at].kind == Operand::URZ.kind).then(|| without_descriptor(draft))?
}

/// Returns the draft of a memory access without its descriptor; `None` if it has none.
fn without_descriptor(draft: &InstDraft) -> Option<InstDraft> {
    descriptor_positions(draft)?;
    let mut changed = draft.clone();
    remove_descriptor_bracket(&mut changed);
    for operand in &mut changed.operands {
        if operand.role == Role::Bracket(0) && operand.suffixes[0] == Symbol::_64 {
            operand.suffixes = [Symbol::NAME_; MAX_SUFFIXES];
        }
    }
    Some(changed)
}

/// Deletes the bracket `desc[..]` of an address `desc[..][..]`. The operands of the second bracket are then in the first.
fn remove_descriptor_bracket(draft: &mut InstDraft) {
    let Some((opening, at)) = descriptor_positions(draft) else { return };
    draft.operands[opening].kind = OperandKind::Address(Symbol::NAME_);
    draft.operands.remove(at);
    for operand in &mut draft.operands {
        if operand.role == Role::Bracket(1) {
            operand.role = Role::Bracket(0);
        }
    }
}

/// Adds the scope `.SYS` to a memory access without a scope, because some targets require one. Returns the changed draft; `None` for other
/// instructions.
fn with_system_scope(draft: &InstDraft) -> Option<InstDraft> {
    let has_scope = [Symbol::CTA, Symbol::SM, Symbol::GPU, Symbol::SYS].into_iter().any(|scope| draft.has(scope));
    let is_access = matches!(draft.opcode, Opcode::LD | Opcode::LDG | Opcode::ST | Opcode::STG);
    (is_access && !has_scope).then(|| {
        let mut changed = draft.clone();
        changed.modifiers.push(Symbol::SYS);
        changed
    })
}

/// Returns the draft with the opcode that other targets use for the same instruction. If there are several such opcodes, `number` selects
/// one, counted from 0. `None` if there is no such opcode.
fn with_other_mnemonic(draft: &InstDraft, number: usize) -> Option<InstDraft> {
    let has_constant = draft.operands.iter().any(|operand| matches!(operand.kind, OperandKind::Constant { .. }));
    let opcodes: &[Opcode] = match draft.opcode {
        Opcode::RED => &[Opcode::REDG],
        Opcode::REDG => &[Opcode::RED],
        Opcode::ULDC => &[Opcode::LDCU],
        Opcode::LDCU => &[Opcode::ULDC],
        Opcode::MOV if has_constant => &[Opcode::LDC],
        Opcode::UMOV if has_constant => &[Opcode::ULDC, Opcode::LDCU],
        _ => &[],
    };
    opcodes.get(number).map(|&opcode| InstDraft { opcode, ..draft.clone() })
}

/// Adds the predicate results that some targets require, as `PT` or `UPT` because nothing reads them. Returns the changed draft; `None` if
/// it has them already.
fn with_unused_predicate_results(function: &Function, draft: &InstDraft) -> Option<InstDraft> {
    let mut operands: SmallVec<[Operand; 8]> = SmallVec::new();
    let mut taken = 0;
    for leading in draft.opcode.properties().leading {
        let is_given = taken < draft.result_count
            && draft
                .operands
                .get(taken)
                .and_then(|operand| register_file_of(function, operand))
                .is_some_and(|file| leading.files.contains(&file));
        if is_given {
            operands.push(draft.operands[taken]);
            taken += 1;
        } else if let (true, [file @ (RegFile::Predicate | RegFile::UniformPredicate), ..]) = (leading.written, leading.files) {
            operands.push(Operand::new(OperandKind::Zero(*file)));
        }
    }
    let added = operands.len() - taken;
    if added == 0 || taken < draft.result_count {
        return None;
    }
    operands.extend_from_slice(&draft.operands[taken..]);
    Some(InstDraft { operands, result_count: draft.result_count + added, ..draft.clone() })
}

/// Returns `WARPSYNC.ALL` for a `WARPSYNC` with a full mask; `None` for other instructions.
fn warpsync_all_for_full_mask(draft: &InstDraft) -> Option<InstDraft> {
    let is_full = |operand: &Operand| operand.integer().is_some_and(|mask| mask as u32 == u32::MAX);
    (draft.opcode == Opcode::WARPSYNC && draft.modifiers.is_empty() && draft.operands.last().is_some_and(is_full)).then(|| {
        let mut changed = draft.clone();
        changed.modifiers.push(Symbol::ALL);
        changed.operands.pop();
        changed
    })
}

/// Returns the draft with negative 32-bit immediates replaced by their unsigned bit patterns, because immediate fields of floating-point
/// instructions are unsigned; `None` if it has none.
fn with_unsigned_immediates(draft: &InstDraft) -> Option<InstDraft> {
    let mut changed = draft.clone();
    for operand in &mut changed.operands[draft.result_count..] {
        if let (OperandKind::Integer(number), Role::Plain) = (operand.kind, operand.role)
            && let (true, Ok(number)) = (number < 0, i32::try_from(number))
        {
            operand.kind = OperandKind::Integer(i64::from(number as u32));
        }
    }
    (changed.operands != draft.operands).then_some(changed)
}

#[cfg(test)]
mod tests {
    use oriole_ir::text::{parse, print_inst};

    use super::*;

    /// Parses a function that contains the instruction `line`. Returns the function and the draft of the instruction.
    fn parse_and_draft(line: &str) -> (Function, InstDraft) {
        let text = format!("func kernel @test ssa {{\nbb0:\n    %0:R2, %1:UR2, %2:R, %3:P = ENTRY\n    {line}\n    EXIT\n}}\n");
        let function = parse(&text).unwrap_or_else(|error| panic!("{line}: {error:?}")).remove(0);
        let inst = function.blocks[function.entry()].insts[1];
        let draft = InstDraft::from_inst(&function, inst, function.insts[inst].op.machine().unwrap());
        (function, draft)
    }

    /// Returns the text of the instruction `line` after a change, or `None` if the change does not apply.
    fn text_after_change(line: &str, change: impl Fn(&Function, &InstDraft) -> Option<InstDraft>) -> Option<String> {
        let (mut function, draft) = parse_and_draft(line);
        let inst = function.blocks[function.entry()].insts[1];
        change(&function, &draft)?.overwrite_inst(&mut function, inst);
        Some(print_inst(&function, inst).trim().to_owned())
    }

    #[test]
    fn system_scope_is_added_to_weak_accesses_only() {
        let scoped = |line| text_after_change(line, |_, draft| with_system_scope(draft));
        assert_eq!(scoped("%4:R = LDG.E desc[%1][%0.64]").as_deref(), Some("%4:R = LDG.E.SYS desc[%1][%0.64]"));
        assert_eq!(scoped("STG.E desc[%1][%0.64], %2").as_deref(), Some("STG.E.SYS desc[%1][%0.64], %2"));
        assert_eq!(scoped("%4:R = LDG.E.STRONG.GPU desc[%1][%0.64]"), None);
        assert_eq!(scoped("%4:R = LDG.E.STRONG.SYS desc[%1][%0.64]"), None);
        assert_eq!(scoped("%4:R = LDS [%2]"), None);
        assert_eq!(scoped("%4:R = MOV %2"), None);
    }

    #[test]
    fn mnemonics_of_other_targets_are_tried() {
        let other = |line, number| text_after_change(line, |_, draft| with_other_mnemonic(draft, number));
        assert_eq!(other("REDG.E.ADD desc[%1][%0.64], %2", 0).as_deref(), Some("RED.E.ADD desc[%1][%0.64], %2"));
        assert_eq!(other("RED.E.ADD desc[%1][%0.64], %2", 0).as_deref(), Some("REDG.E.ADD desc[%1][%0.64], %2"));
        assert_eq!(other("%4:R = MOV c[0x0][0x10]", 0).as_deref(), Some("%4:R = LDC c[0x0][0x10]"));
        assert_eq!(other("%4:UR = UMOV c[0x0][0x10]", 0).as_deref(), Some("%4:UR = ULDC c[0x0][0x10]"));
        assert_eq!(other("%4:UR = UMOV c[0x0][0x10]", 1).as_deref(), Some("%4:UR = LDCU c[0x0][0x10]"));
        assert_eq!(other("%4:R = MOV 0x10", 0), None);
        assert_eq!(other("%4:R = MOV c[0x0][0x10]", 1), None);
    }

    #[test]
    fn negative_numbers_become_bit_patterns() {
        let unsigned = |line| text_after_change(line, |_, draft| with_unsigned_immediates(draft));
        assert_eq!(unsigned("%4:R = FADD %2, -0x1").as_deref(), Some("%4:R = FADD %2, 0xffffffff"));
        assert_eq!(unsigned("%4:R = FADD %2, 0x1"), None);
        assert_eq!(unsigned("%4:R = LDS [%2+-0x4]"), None);
    }

    #[test]
    fn warpsync_of_a_full_mask_becomes_warpsync_all() {
        let full = |line| text_after_change(line, |_, draft| warpsync_all_for_full_mask(draft));
        assert_eq!(full("WARPSYNC 0xffffffff").as_deref(), Some("WARPSYNC.ALL"));
        assert_eq!(full("WARPSYNC 0xfffffffe"), None);
        assert_eq!(full("WARPSYNC %2"), None);
        assert_eq!(full("%4:R = MOV 0xffffffff"), None);
    }

    #[test]
    fn descriptors_are_hidden_or_deleted() {
        let load = "%4:R = LDG.E desc[%1][%0.64+0x10]";
        let policy = "%4:R = LDG.E desc[%1.64][%0.64+0x10]";
        assert_eq!(text_after_change(load, |_, draft| with_hidden_descriptor(draft)).as_deref(), Some("%4:R = LDG.E [%0.64+0x10], %1"));
        assert_eq!(text_after_change(policy, |_, draft| with_hidden_descriptor(draft)), None);
        assert_eq!(text_after_change(policy, |_, draft| without_policy_suffix(draft)).as_deref(), Some(load));
        assert_eq!(text_after_change(load, |_, draft| without_policy_suffix(draft)), None);
        assert_eq!(text_after_change(load, |_, draft| without_descriptor(draft)).as_deref(), Some("%4:R = LDG.E [%0+0x10]"));
        assert_eq!(text_after_change("%4:R = LDS [%2]", |_, draft| without_descriptor(draft)), None);
    }

    /// Applying all changes of a spelling at once gives the same draft as applying them one at a time.
    #[test]
    fn spellings_are_applied_in_order() {
        let (function, draft) = parse_and_draft("%4:R = LDG.E desc[%1][%0.64+0x10]");
        let mut spellings = DraftsBySpelling::new(&draft);
        let mut found = 0;
        for spelling in SpellingChangeSet::all_sets() {
            let operands = |draft: Option<&InstDraft>| draft.map(|draft| (draft.opcode, draft.modifiers.clone(), draft.operands.clone()));
            let direct = spelling.apply_to_draft(&function, &draft);
            assert_eq!(operands(spellings.draft_with_changes(&function, spelling)), operands(direct.as_ref()), "{spelling:?}");
            found += usize::from(direct.is_some());
        }
        // Twelve spellings: the descriptor shown, hidden or deleted; with and without the system scope; with and without an unused
        // predicate result.
        assert_eq!(found, 12);
        let order: Vec<u8> = SpellingChangeSet::all_sets().map(|spelling| spelling.0).collect();
        assert_eq!((order[0], order[1], order[127], order[128], order[129]), (1, 0b11, 0xff, 0, 0b10));
    }
}
