//! Branches, function exits, and instructions that stop or delay a thread.

use oriole_ir::{Block, Class, Guard, Operand, Order, Scope};
use oriole_isa::Opcode;
use oriole_ptx::ast::{self, LabelId, Statement};
use oriole_ptx::table::Modifier;
use oriole_ptx::types::ScalarType;

use crate::context::Select;
use crate::error::Unsupported;
use crate::ptx::Ptx;

/// Selects `bra`.
pub(crate) fn branch(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ast::Operand::Label(label) = ptx.operand(0) else { return select.unsupported(ptx) };
    let target = select.label(label);
    select.jump(target);
    Ok(())
}

/// Selects `brx.idx` as a binary search: a balanced tree of comparisons of the index.
pub(crate) fn indexed_branch(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ast::Operand::Label(list) = ptx.operand(1) else { return select.unsupported(ptx) };
    let Some(targets) = target_list(select, list) else { return select.unsupported(ptx) };
    let index = select.source(ptx.operand(0), ScalarType::U32)?;
    let blocks: Vec<Block> = targets.into_iter().map(|label| select.label(label)).collect();
    if blocks.is_empty() {
        return select.unsupported(ptx);
    }
    select.branch_around(|select| select.jump_by_index(index, &blocks, 0));
    Ok(())
}

/// Returns the labels of the `.branchtargets` list with this name.
fn target_list(select: &Select<'_>, name: LabelId) -> Option<Vec<LabelId>> {
    let body = select.frame.body;
    let list = body.statements.windows(2).find_map(|pair| match *pair {
        [Statement::Label(label), Statement::BranchTargets(list)] if label == name => Some(list),
        _ => None,
    })?;
    let label = |operand: &ast::Operand| if let ast::Operand::Label(label) = *operand { Some(label) } else { None };
    body.target_lists[list as usize].targets.iter().map(label).collect()
}

impl Select<'_> {
    /// Emits a binary search that jumps to one of `blocks`; `first` is the index value of the first of these blocks.
    fn jump_by_index(&mut self, index: Operand, blocks: &[Block], first: u32) {
        if let [only] = blocks {
            self.jump(*only);
            return;
        }
        let middle = blocks.len() / 2;
        let limit = Operand::from(first + middle as u32);
        let is_low = self.b.define(Class::P, "ISETP.LT.U32.AND $, PT, {}, {}, PT", &[index, limit]);
        let low = self.b.new_block();
        let condition = self.condition(is_low);
        self.jump_if(Guard { negated: false, ..condition }, low);
        self.jump_by_index(index, &blocks[middle..], first + middle as u32);
        self.start(low);
        self.jump_by_index(index, &blocks[..middle], first);
    }

    /// Emits the exit of a function whose body ends without `ret`.
    pub(crate) fn leave(&mut self) {
        match self.frame.exit {
            Some(exit) => self.jump(exit),
            None if !self.is_kernel => {
                let end = self.return_block();
                self.jump(end);
            }
            None => {
                self.exit();
                self.end_block();
            }
        }
    }

    /// Emits the end of the thread, under the current guard.
    fn exit(&mut self) {
        if self.options.waits_for_errors {
            self.wait_for_errors(Order::Release, Scope::System);
        }
        self.b.emit("EXIT", &[]);
    }
}

/// Selects `ret`.
pub(crate) fn ret(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if let Some(exit) = select.frame.exit {
        select.jump(exit);
        return Ok(());
    }
    if !select.is_kernel {
        let end = select.return_block();
        select.jump(end);
        return Ok(());
    }
    exit(select, ptx)
}

/// Selects `exit`.
pub(crate) fn exit(select: &mut Select<'_>, _: &Ptx<'_>) -> Result<(), Unsupported> {
    select.exit();
    if select.b.guard.is_none() {
        select.end_block();
    }
    Ok(())
}

/// Selects `trap`, `brkpt`.
pub(crate) fn trap(select: &mut Select<'_>, _: &Ptx<'_>) -> Result<(), Unsupported> {
    select.b.emit("BPT.TRAP 0x1", &[]);
    Ok(())
}

/// Selects `nanosleep`.
pub(crate) fn nanosleep(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let duration = select.source(ptx.operand(0), ScalarType::U32)?;
    // Turing cannot suspend single threads of a warp: the whole warp has to sleep.
    let opcode = if Opcode::REDUX.exists_on(select.target) { "NANOSLEEP" } else { "NANOSLEEP.WARP" };
    select.b.emit(&format!("{opcode} {{}}"), &[duration]);
    Ok(())
}

/// Selects `pmevent`.
pub(crate) fn pmevent(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let Some(number) = select.literal(ptx.operand(0), ScalarType::U32) else { return select.unsupported(ptx) };
    let events = if ptx.has(Modifier::Mask) { number as u32 } else { 1 << (number & 0xf) };
    select.b.emit("PMTRIG {}", &[events.into()]);
    Ok(())
}

/// Selects `griddepcontrol`: waits for the grids before this one, or lets the grids after it start.
pub(crate) fn dependent_grids(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let opcode = if ptx.has(Modifier::Wait) { "ACQBULK" } else { "PREEXIT" };
    select.b.emit(opcode, &[]);
    Ok(())
}

/// Selects `setmaxnreg`, which moves registers between the warp and a pool of its block. More registers may not be available until another
/// warp gives some up, so the warp asks for them in a loop. Each change starts a block, because the blocks before and after it may use
/// different numbers of registers.
pub(crate) fn set_register_count(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if !select.options.follows_register_counts {
        select.ignored_register_counts.push(select.b.location);
        return Ok(());
    }
    let Some(count) = select.literal(ptx.operand(0), ScalarType::U32) else { return select.unsupported(ptx) };
    let count = Operand::from(count as u32);
    select.branch_around(|select| {
        let is_converged = select.is_warp_converged();
        let block = select.b.new_block();
        select.jump(block);
        select.start(block);
        if !is_converged {
            select.reconverge_warp();
        }
        if ptx.has(Modifier::Dec) {
            select.b.emit("USETMAXREG.DEALLOC.CTAPOOL {}", &[count]);
            return;
        }
        let is_granted = select.b.define(Class::UP, "USETMAXREG.TRY_ALLOC.CTAPOOL $, {}", &[count]);
        let is_granted = select.b.define(Class::P, "PLOP3.LUT $, PT, PT, PT, {}, 0x80, 0x8", &[is_granted]);
        select.jump_if(select.condition(is_granted.inverted_predicate()), block);
    });
    Ok(())
}
