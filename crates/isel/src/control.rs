//! Branches and the ends of functions.

use oriole_ptx::ast;

use crate::error::Unsupported;
use crate::ptx::Ptx;
use crate::select::Select;

/// `bra`
pub(crate) fn branch(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    let ast::Operand::Label(label) = ptx.operand(0) else { return select.unsupported(ptx) };
    let target = select.label(label);
    select.jump(target);
    Ok(())
}

/// `ret`, `exit`
pub(crate) fn leave(select: &mut Select<'_>, ptx: &Ptx<'_>) -> Result<(), Unsupported> {
    if let Some(exit) = select.frame.exit {
        select.jump(exit);
        return Ok(());
    }
    if !select.is_kernel {
        return select.unsupported(ptx);
    }
    select.b.emit("EXIT", &[]);
    if select.b.guard.is_none() {
        select.end_block();
    }
    Ok(())
}

impl Select<'_> {
    /// Leaves the function where its body ends without `ret`.
    pub(crate) fn leave(&mut self) {
        match self.frame.exit {
            Some(exit) => self.jump(exit),
            None => {
                self.b.emit("EXIT", &[]);
                self.end_block();
            }
        }
    }
}
