//! The reuse caches: a register that the next instruction reads again through the same slot need not come from its bank twice.
//!
//! A cache keeps the value of the moment. Whoever uses the slot next with the same register gets that value, however long ago it was and
//! whether or not the register has been written since. So a slot is marked only where the next instruction that uses it is in sight:
//!
//! - both read through the same cache (`reuse_caches` in `control.tbl`), and stand in one block;
//! - it reads the same registers through the same slot, and nothing from the first one on writes them;
//! - the first one has no guard, so the value really goes through.
//!
//! A slot has an entry for each bank of registers, so that an even and an odd register can be kept in it side by side; a pair of registers
//! takes both. Whatever the second one does, even if its guard does not hold, it uses the slot, and nothing is kept behind it unless it is
//! marked itself. Between the two the warp must not give way, or another one pushes the value out: yields end all hope, but do no harm.
//! Threads of a warp that has fallen apart share the caches: nothing is kept past branches and places where threads wait for each other, or others
//! that come there with another value in the same register would read it (found by random programs in the simulator).

use oriole_hardware::ControlRules;
use oriole_isa::{Control, File, Opcode, Pipe};

use super::Code;
use super::paths::Paths;
use super::touch::{Cached, Register, Touches, file_of};

/// Slots of a cache.
const SLOTS: usize = 4;

/// One that sent registers through a slot; they are as they were then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Use {
    by: usize,
    first: Register,
    count: u16,
}

/// The last use of every entry, none once it is of no more use: by cache, slot and bank.
struct Entries<'r> {
    rules: &'r ControlRules,
    last: Vec<Option<Use>>,
}

impl Entries<'_> {
    fn at(&mut self, cache: u8, slot: u8, register: Register) -> &mut Option<Use> {
        let banks = self.rules.facts.register_banks as usize;
        let place = (usize::from(cache) * SLOTS + usize::from(slot)) * banks;
        &mut self.last[place + usize::from(self.rules.register_bank(register))]
    }

    /// Sends registers through a slot; the last use of all their entries, if it was of the same registers.
    fn replace(&mut self, cache: u8, slot: u8, new: Use, is_kept: bool) -> Option<Use> {
        let mut found = Some(None);
        for register in new.first..new.first + new.count {
            let old = std::mem::replace(self.at(cache, slot, register), is_kept.then_some(new));
            let is_same = old.is_some_and(|old| (old.first, old.count) == (new.first, new.count));
            found = found.filter(|_| is_same).map(|_| old);
        }
        found.flatten()
    }

    fn forget(&mut self, register: Register) {
        for one in &mut self.last {
            *one = one.filter(|one| !(one.first..one.first + one.count).contains(&register));
        }
    }
}

/// Marks the slots whose registers the next instructions read again; yields are decided.
pub fn mark(code: &Code<'_>, paths: &Paths, touches: &[Touches], rules: &ControlRules, controls: &mut [Control]) {
    let caches = rules.facts.reuse_caches.iter().map(|&(_, number)| number as usize + 1).max().unwrap_or(0);
    let mut entries = Entries { rules, last: vec![None; caches * SLOTS * rules.facts.register_banks as usize] };
    for (number, block) in code.blocks.iter().enumerate() {
        if !paths.goes_on(code, number) {
            entries.last.fill(None);
        }
        for number in block.range.clone() {
            let touched = &touches[number];
            if let Some(cache) = rules.reuse_cache(touched.class) {
                use_slots(touched, number, cache, &mut entries, controls);
            }
            for touch in touched.writes.iter().filter(|touch| file_of(touch.register) == File::General) {
                entries.forget(touch.register);
            }
            if !controls[number].stay || may_change_threads(touched.opcode) {
                entries.last.fill(None);
            }
        }
    }
}

/// Whether the warp may go on with others of its threads behind an instruction. Those would find in the cache what these have left there.
fn may_change_threads(opcode: Opcode) -> bool {
    opcode.properties().pipe == Pipe::Branch && !matches!(opcode, Opcode::BSSY | Opcode::NOP)
}

fn use_slots(touched: &Touches, number: usize, cache: u8, entries: &mut Entries<'_>, controls: &mut [Control]) {
    for &Cached { slot, first, count } in &touched.cached {
        let new = Use { by: number, first, count };
        let fits = u32::from(count) <= entries.rules.facts.register_banks;
        let old = entries.replace(cache, slot, new, fits && !touched.guarded);
        if let Some(old) = old.filter(|old| number - old.by <= entries.rules.facts.reuse_distance as usize) {
            controls[old.by].reuse |= 1 << slot;
        }
    }
}
