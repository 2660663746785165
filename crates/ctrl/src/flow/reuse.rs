//! The reuse cache: a register that the next instruction reads again through the same slot need not come from its bank twice.
//!
//! The cache keeps the value of the moment. Whoever uses the slot next with the same register gets that value, however long ago it was and
//! whether or not the register has been written since. So a slot is marked only where the next instruction that uses it is in sight:
//!
//! - both belong to units that read through the cache, and stand in one block;
//! - it reads the same single register through the same slot, and nothing from the first one on writes that register;
//! - the first one has no guard, so the value really goes through.
//!
//! Whatever the second one does, it uses the slot, and nothing is kept behind it unless it is marked itself. Between the two the warp must
//! not give way, or another one pushes the value out: stalls that yield end all hope, but do no harm.

use oriole_hardware::ControlRules;
use oriole_isa::{Control, File, Instruction, accesses};

use super::Code;
use super::touch::{Register, Touches, file_of};

/// Slots of the cache.
const SLOTS: usize = 4;

/// Who used a slot last, and for which register; none once the value is of no use.
type Slots = [Option<(usize, Register)>; SLOTS];

/// Marks the slots whose registers the next instructions read again.
pub fn mark(code: &Code<'_>, touches: &[Touches], rules: &ControlRules, controls: &mut [Control]) {
    for block in &code.blocks {
        let mut slots: Slots = [None; SLOTS];
        for number in block.range.clone() {
            let touched = &touches[number];
            if rules.reads_through_cache(touched.class) {
                use_slots(&code.instructions[number], number, touched.guarded, rules, &mut slots, controls);
            }
            for touch in touched.writes.iter().filter(|touch| file_of(touch.register) == File::General) {
                for slot in &mut slots {
                    *slot = slot.filter(|(_, register)| *register != touch.register);
                }
            }
            if u32::from(controls[number].stall) >= rules.facts.yield_from {
                slots = [None; SLOTS];
            }
        }
    }
}

fn use_slots(instruction: &Instruction, number: usize, guarded: bool, rules: &ControlRules, slots: &mut Slots, controls: &mut [Control]) {
    for access in accesses(instruction).iter().filter(|access| !access.written && access.file == File::General) {
        let Some(slot) = access.operand().and_then(|operand| instruction.reuse_slot(operand)).map(usize::from) else { continue };
        let register = access.first;
        let is_single = access.count == 1;
        if let Some((first, kept)) = slots[slot].take() {
            let is_near = number - first <= rules.facts.reuse_distance as usize;
            if kept == register && is_single && is_near {
                controls[first].reuse |= 1 << slot;
            }
        }
        slots[slot] = (is_single && !guarded).then_some((number, register));
    }
}
