//! Propagation of demands over instructions of the original function: results satisfy demands, sources add demands.

use oriole_ir::{Guard, Inst, Opcode, Operand, OperandKind, RegFile, Role};

use super::checker::AllocationChecker;
use super::demands::{CheckError, Demands, LocationContent, TrackedLocation, constant_content, demand, error};
use super::inserted::MoveSource;
use crate::registers::Reg;

impl AllocationChecker<'_> {
    /// Propagates demands (the content that each location must have) backward over an instruction of the old function: results satisfy
    /// demands, sources add demands.
    pub(super) fn propagate_over_original(&self, inst: Inst, demands: &mut Demands) -> Result<(), CheckError> {
        let (old, new) = (self.old.operands(inst), self.new.operands(inst));
        let data = &self.new.insts[inst];
        if old.len() != new.len() || data.op != self.old.insts[inst].op || data.modifiers != self.old.insts[inst].modifiers {
            return error(format!("{inst:?} has become another instruction"));
        }
        let results = data.result_count();
        for (before, after) in old[..results].iter().zip(&new[..results]) {
            self.remove_demands_satisfied_by(inst, before, after, demands)?;
        }
        if data.is_machine(Opcode::CALL) {
            self.check_clobbers(inst, demands)?;
        }
        for (before, after) in old[results..].iter().zip(&new[results..]) {
            self.add_source_demands(inst, before, after, demands)?;
        }
        self.add_guard_demand(inst, self.old.insts[inst].guard, data.guard, demands)
    }

    /// Checks that a call overwrites no register whose content is still demanded after it.
    fn check_clobbers(&self, inst: Inst, demands: &Demands) -> Result<(), CheckError> {
        for (&at, content) in demands {
            if let TrackedLocation::Register(file, register) = at
                && self.env.clobbered_by(self.old, inst, file).has(register)
            {
                return error(format!("{inst:?} destroys {content:?} in {at:?}"));
            }
        }
        Ok(())
    }

    /// Removes the demands that a result of an instruction satisfies. Checks that the registers of the result are valid, that no other
    /// value is demanded in them, and that the value is demanded in no other register or slot.
    fn remove_demands_satisfied_by(&self, inst: Inst, before: &Operand, after: &Operand, demands: &mut Demands) -> Result<(), CheckError> {
        let OperandKind::Value(part) = before.kind else { return check_operand_unchanged(inst, before, after) };
        let class = self.old.values[part.value];
        let OperandKind::Register { file, first, count } = after.kind else {
            return error(format!("{inst:?} has no register for {:?}", part.value));
        };
        if file != class.file || count != class.width || !first.is_multiple_of(u16::from(class.align)) {
            return error(format!("{inst:?} writes {:?} to {}{first}+{count}", part.value, file.prefix()));
        }
        if let Role::Fixed(fixed) = before.role
            && u16::from(fixed) != first
        {
            return error(format!("{inst:?} writes {:?} to {first}, not to {fixed}", part.value));
        }
        for (register_index, register) in Reg::new(first).tuple(count).enumerate() {
            let at = TrackedLocation::Register(file, register);
            match demands.remove(&at) {
                Some(content) if content != LocationContent::ValueRegister(part.value, register_index as u8) => {
                    return error(format!("{inst:?} overwrites {content:?} in {at:?}"));
                }
                _ => {}
            }
        }
        match demands.iter().find(|(_, content)| matches!(content, LocationContent::ValueRegister(value, _) if *value == part.value)) {
            Some((at, content)) => error(format!("{content:?} is wanted in {at:?}, but {inst:?} defines it elsewhere")),
            None => Ok(()),
        }
    }

    /// Adds demands that the registers of a source hold the value that the original instruction reads. Checks that the registers are valid.
    fn add_source_demands(&self, inst: Inst, before: &Operand, after: &Operand, demands: &mut Demands) -> Result<(), CheckError> {
        if let (Role::Fixed(fixed), OperandKind::Register { file, first, count: 1 }) = (before.role, after.kind)
            && let Some(content) = before.part().is_none().then(|| constant_content(before, 0)).flatten()
        {
            if u16::from(fixed) != first {
                return error(format!("{inst:?} reads {content:?} in {first}, not in {fixed}"));
            }
            return demand(demands, TrackedLocation::Register(file, Reg::new(first)), content, || format!("by {inst:?}"));
        }
        let OperandKind::Value(part) = before.kind else { return check_operand_unchanged(inst, before, after) };
        let OperandKind::Register { file, first, count } = after.kind else {
            return error(format!("{inst:?} has no register for {:?}", part.value));
        };
        if file != self.old.values[part.value].file || count != part.count || before.signs != after.signs || before.role != after.role {
            return error(format!("{inst:?} reads {part:?} as {after:?}"));
        }
        match before.role {
            Role::Fixed(fixed) if u16::from(fixed) != first => return error(format!("{inst:?} reads {part:?} in {first}, not in {fixed}")),
            Role::Tied(result) if self.new.operands(inst)[usize::from(result)].kind != after.kind => {
                return error(format!("{inst:?} does not tie {part:?} to its result"));
            }
            _ => {}
        }
        self.demand_part_in_registers(part, file, Reg::new(first), demands, inst)
    }

    /// Adds the demand that the predicate register of a guard holds the original predicate. Checks that the guard is otherwise unchanged.
    fn add_guard_demand(&self, inst: Inst, before: Option<Guard>, after: Option<Guard>, demands: &mut Demands) -> Result<(), CheckError> {
        match (before, after) {
            (None, None) => Ok(()),
            (Some(before), Some(after)) if before.negated == after.negated => match (before.kind, after.kind) {
                (OperandKind::Value(part), OperandKind::Register { file, first, .. }) => {
                    self.demand_part_in_registers(part, file, Reg::new(first), demands, inst)
                }
                (before, after) if before == after => Ok(()),
                _ => error(format!("{inst:?} has another guard")),
            },
            _ => error(format!("{inst:?} has another guard")),
        }
    }

    /// Adds the demands of a `KEEP`, a pseudo operation that marks values as live: its operands must be in their fixed registers.
    pub(super) fn add_keep_demands(&self, keep: Inst, demands: &mut Demands) -> Result<(), CheckError> {
        for source in self.old.sources(keep) {
            let Role::Fixed(register) = source.role else { continue };
            match source.kind {
                OperandKind::Value(part) => {
                    let file = self.old.values[part.value].file;
                    self.demand_part_in_registers(part, file, Reg::from(register), demands, keep)?;
                }
                kind => {
                    let file = if let OperandKind::Zero(file) = kind { file } else { RegFile::General };
                    if let Some(content) = constant_content(source, 0) {
                        demand(demands, TrackedLocation::Register(file, Reg::from(register)), content, || format!("by {keep:?}"))?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Propagates demands backward over `inst`, the move of one register of a guarded copy. Where the guard is false, the destination keeps
    /// its content. So before the move the destination must hold the tied source of the copy, and the source of the move must hold the
    /// copied value.
    pub(super) fn propagate_guarded_move(
        &self,
        inst: Inst,
        copy: Inst,
        register_index: u8,
        demands: &mut Demands,
    ) -> Result<(), CheckError> {
        let (Some((to, from)), Some((result, source, tied))) = (self.as_move(inst), self.guarded_copy_operands(copy)) else {
            return error(format!("{inst:?} is no move of {copy:?}"));
        };
        let content = result.value().map(|value| LocationContent::ValueRegister(value, register_index));
        if demands.get(&to).is_some_and(|wanted| Some(*wanted) != content) {
            return error(format!("{inst:?} overwrites {:?} in {to:?}", demands[&to]));
        }
        demands.remove(&to);
        if let Some((at, stale)) = demands.iter().find(|(_, wanted)| Some(**wanted) == content) {
            return error(format!("{stale:?} is wanted in {at:?}, but {inst:?} defines it elsewhere"));
        }
        if let Some(kept) = self.content_of_operand(&tied, register_index) {
            demand(demands, to, kept, || format!("by {inst:?}"))?;
        }
        match (self.content_of_operand(&source, register_index), from) {
            (Some(wanted), MoveSource::Location(at)) => demand(demands, at, wanted, || format!("by {inst:?}"))?,
            (Some(wanted), MoveSource::LocationContent(found)) if wanted != found => {
                return error(format!("{inst:?} moves {found:?}, not {wanted:?}"));
            }
            _ => {}
        }
        self.add_guard_demand(inst, self.old.insts[copy].guard, self.new.insts[inst].guard, demands)
    }

    /// Returns the result, the source and the tied operand (the old value of the result) of a guarded copy; `None` if the instruction is
    /// not one.
    fn guarded_copy_operands(&self, copy: Inst) -> Option<(Operand, Operand, Operand)> {
        if self.old.insts.get(copy).is_none_or(|data| data.result_count() != 1) {
            return None;
        }
        let operands = self.old.operands(copy);
        Some((operands[0], operands[1], *self.old.tied_to(copy, 0)?))
    }
}

/// Checks that the allocator has not changed an operand that is no SSA value. Branch targets may change, because edges are split.
fn check_operand_unchanged(inst: Inst, before: &Operand, after: &Operand) -> Result<(), CheckError> {
    let is_target = matches!((before.kind, after.kind), (OperandKind::Block(_), OperandKind::Block(_)));
    if before == after || is_target {
        return Ok(());
    }
    error(format!("{inst:?}: {before:?} has become {after:?}"))
}
