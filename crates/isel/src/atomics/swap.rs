//! Compare-and-swap loops, for atomic operations without an instruction.
//!
//! ```text
//! old = load
//! loop:  new = operation(old)
//!        seen = compare_and_swap(old, new)
//!        if seen != old { old = seen; goto loop }
//! ```
//!
//! The loaded value is a guess. If it is outdated, the first swap fails and returns the current value. In each iteration at least one
//! thread of the warp succeeds, so the loop terminates.
//!
//! In shared memory, `ATOMS.CAST.SPIN` returns whether it has swapped instead of the value found, so the loop loads the value again:
//!
//! ```text
//! loop:  old = load
//!        new = operation(old)
//!        if !compare_and_swap_tests(old, new) { goto loop }
//! ```
//!
//! It is several times as fast as `ATOMS.CAS` where many threads access one address.

use oriole_ir::{Class, Guard, MemoryAccess, Operand, Value};
use oriole_isa::SystemLayout;

use super::AtomicOperands;
use super::operation::AtomicKind;
use crate::context::Select;
use crate::memory::{AccessSpace, AddressOperands, strong};

impl AtomicOperands {
    /// Emits the operation as a loop on the whole value at the address; returns the old value.
    pub(super) fn looped(&self, select: &mut Select<'_>) -> Operand {
        let old = select.b.value(self.class());
        self.swap_loop(select, old, self.address);
        select.b.whole(old)
    }

    /// Emits the loop; leaves the old value in the variable `old`.
    fn swap_loop(&self, select: &mut Select<'_>, old: Value, address: AddressOperands) {
        if self.access.space == AccessSpace::Shared {
            let again = select.open_loop();
            let before = self.load(select, self.class(), address);
            select.b.assign(old, before);
            let new = self.operation.apply(select, before, self.value);
            let is_done = self.swap_and_test(select, self.class(), address, before, new);
            select.close_loop(is_done, again);
            return;
        }
        let guess = self.load(select, self.class(), address);
        select.b.assign(old, guess);
        let again = select.open_loop();
        let before = select.b.whole(old);
        let new = self.operation.apply(select, before, self.value);
        let seen = self.swap(select, self.class(), address, before, new);
        let is_done = select.equal(seen, before);
        select.b.assign(old, seen);
        select.close_loop(is_done, again);
    }

    /// Emits a generic operation that works in global memory only, with a fallback for shared and local memory. Returns the old value.
    pub(super) fn with_fallback(&self, select: &mut Select<'_>) -> Operand {
        let (is_done, result) = self.emit_atom(select, true);
        let old = select.b.value(self.class());
        select.b.assign(old, result);
        let (after, local) = (select.b.new_block(), select.b.new_block());
        let condition = select.condition(is_done);
        select.jump_if(condition, after);
        if self.operation.is_native_in_shared() {
            select.b.branch(None, local);
        } else {
            let whole = select.add_to_pair(self.address.base, self.address.offset);
            let is_local = select.query_space("L", whole);
            let condition = select.condition(is_local);
            select.jump_if(condition, local);
            self.swap_loop(select, old, self.address);
            select.b.branch(None, after);
        }
        select.start(local);
        self.in_local(select, old);
        select.b.branch(None, after);
        select.start(after);
        select.b.whole(old)
    }

    /// Emits the operation for local memory, which no other thread accesses: load, compute, store.
    fn in_local(&self, select: &mut Select<'_>, old: Value) {
        let found = self.load(select, self.class(), self.address);
        select.b.assign(old, found);
        let before = select.b.whole(old);
        let new = match self.expected {
            None => self.operation.apply(select, before, self.value),
            Some(expected) => {
                let is_equal = select.equal(before, expected);
                let words = 0..self.class().width;
                let chosen: Vec<Operand> = words
                    .map(|word| {
                        let (new, kept) = (select.register_of(self.value, word), select.register_of(before, word));
                        select.b.define(Class::R, "SEL $, {}, {}, {}", &[new, kept, is_equal])
                    })
                    .collect();
                if chosen.len() == 1 { chosen[0] } else { select.b.pack(self.class(), &chosen) }
            }
        };
        let size = if self.class().width == 2 { ".64" } else { "" };
        let template = format!("ST.E{size}{} desc[{{}}][{{}}.64+{{}}], {{}}", plain(select));
        select.b.emit(&template, &[self.descriptor, self.address.base, self.address.offset.into(), new]);
        select.b.describe(MemoryAccess::weak(oriole_ir::Space::Generic, 4 * self.class().width));
    }

    /// Emits a load of the current value.
    fn load(&self, select: &mut Select<'_>, class: Class, address: AddressOperands) -> Operand {
        let size = if class.width == 2 { ".64" } else { "" };
        let place = [address.base, address.offset.into()];
        let value = match self.access.space {
            AccessSpace::Shared => {
                let template = format!("{}{size} $, [{{}}+{{}}]", crate::memory::shared_load(select.target));
                select.b.define(class, &template, &place)
            }
            space => {
                let opcode = if space == AccessSpace::Global { "LDG" } else { "LD" };
                let template = format!("{opcode}.E{size}{} $, desc[{{}}][{{}}.64+{{}}]", plain(select));
                select.b.define(class, &template, &[self.descriptor, place[0], place[1]])
            }
        };
        let description = self.description();
        select.b.describe(MemoryAccess { bytes: 4 * class.width, ..description });
        value
    }

    /// Emits a compare-and-swap; returns the value found in memory.
    fn swap(&self, select: &mut Select<'_>, class: Class, address: AddressOperands, expected: Operand, new: Operand) -> Operand {
        let size = if class.width == 2 { ".64" } else { "" };
        let arguments = [address.base, address.offset.into(), expected, new];
        let seen = match self.access.space {
            AccessSpace::Shared => select.b.define(class, &format!("ATOMS.CAS{size} $, [{{}}+{{}}], {{}}, {{}}"), &arguments),
            space => {
                let opcode = if space == AccessSpace::Global { "ATOMG" } else { "ATOM" };
                let scope = strong(select.target, self.access.scope);
                select.b.define(class, &format!("{opcode}.E.CAS{size}{scope} PT, $, [{{}}+{{}}], {{}}, {{}}"), &arguments)
            }
        };
        let description = self.description();
        select.b.describe(MemoryAccess { bytes: 4 * class.width, ..description });
        seen
    }

    /// Emits a compare-and-swap in shared memory; returns whether the value in memory was the expected one and has been replaced.
    fn swap_and_test(&self, select: &mut Select<'_>, class: Class, address: AddressOperands, expected: Operand, new: Operand) -> Operand {
        let size = if class.width == 2 { ".64" } else { "" };
        let arguments = [address.base, address.offset.into(), expected, new];
        let has_predicate = select.encodes("ATOMS.CAST.SPIN P0, [R0], R1, R2");
        let result = if has_predicate { Class::P } else { class };
        let answer = select.b.define(result, &format!("ATOMS.CAST.SPIN{size} $, [{{}}+{{}}], {{}}, {{}}"), &arguments);
        let description = self.description();
        select.b.describe(MemoryAccess { bytes: 4 * class.width, ..description });
        // A register result is 1 or 0; its upper half is always 0.
        if has_predicate { answer } else { select.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, 0x1, PT", &[select.low(answer)]) }
    }

    /// Emits an operation on 16 bits as a compare-and-swap loop on the 32-bit word that contains them. Returns the old value in the lower
    /// half of a register.
    pub(super) fn half_word(&self, select: &mut Select<'_>) -> Operand {
        let low = select.low(self.address.base);
        let aligned = select.b.define(Class::R, "LOP3.LUT $, {}, 0xfffffffc, RZ, 0xc0, !PT", &[low]);
        let base = match select.register_count(self.address.base) {
            1 => aligned,
            _ => {
                let high = select.high(self.address.base);
                select.b.pack(Class::R2, &[aligned, high])
            }
        };
        let address = AddressOperands { base, offset: 0 };
        let upper = select.b.define(Class::R, "LOP3.LUT $, {}, 0x2, RZ, 0xc0, !PT", &[low]);
        let is_lower = select.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, RZ, PT", &[upper]);
        // Byte selector for `PRMT`: with (word, half) it replaces the addressed half of the word; with (word, RZ) it keeps only the other
        // half.
        let insert = self.selector(select, 0x3254, 0x5410, is_lower);
        let word = select.b.value(Class::R);
        let swaps_half = self.operation.kind == AtomicKind::CompareAndSwap;
        let loads_again = self.access.space == AccessSpace::Shared && !swaps_half;
        let mut again = select.open_loop();
        let guess = self.load(select, Class::R, address);
        select.b.assign(word, guess);
        if !loads_again {
            again = select.open_loop();
        }
        let before = select.b.whole(word);
        let (expected, new) = if swaps_half {
            let compared = self.expected.unwrap_or(Operand::RZ);
            let expected = select.b.define(Class::R, "PRMT $, {}, {}, {}", &[before, insert, compared]);
            (expected, select.b.define(Class::R, "PRMT $, {}, {}, {}", &[before, insert, self.value]))
        } else {
            // The operation computes both halves; the half that is not addressed keeps its old bytes.
            let sums = self.operation.apply(select, before, self.value);
            let keep = self.selector(select, 0x3254, 0x7610, is_lower);
            (before, select.b.define(Class::R, "PRMT $, {}, {}, {}", &[before, keep, sums]))
        };
        let is_done = if loads_again {
            self.swap_and_test(select, Class::R, address, before, new)
        } else {
            let seen = self.swap(select, Class::R, address, expected, new);
            let is_done = if swaps_half { self.keeps_other_half(select, seen, expected, insert) } else { select.equal(seen, before) };
            select.b.assign(word, seen);
            is_done
        };
        select.close_loop(is_done, again);
        let found = select.b.whole(word);
        let distance = select.b.define(Class::R, "SHF.L.U32 $, {}, 0x3, RZ", &[upper]);
        select.b.define(Class::R, "SHF.R.U32.HI $, RZ, {}, {}", &[distance, found])
    }

    /// Emits a test whether the half of a word that is not addressed is the same in two words. If it has not changed, a compare-and-swap of
    /// the addressed half is done: either the swap succeeded, or the addressed half differs from the compare value.
    fn keeps_other_half(&self, select: &mut Select<'_>, seen: Operand, expected: Operand, insert: Operand) -> Operand {
        let others = [seen, expected].map(|whole| select.b.define(Class::R, "PRMT $, {}, {}, RZ", &[whole, insert]));
        select.equal(others[0], others[1])
    }

    /// Returns one of two byte selectors, depending on whether the lower half is addressed.
    fn selector(&self, select: &mut Select<'_>, lower: u32, upper: u32, is_lower: Operand) -> Operand {
        let lower = select.in_register(Operand::from(lower));
        select.b.define(Class::R, "SEL $, {}, {}, {}", &[lower, upper.into(), is_lower])
    }
}

/// Returns the modifier of an ordinary (weak) access.
fn plain(select: &Select<'_>) -> &'static str {
    if SystemLayout::of(select.target).descriptor.is_none() { ".SYS" } else { "" }
}

impl Select<'_> {
    /// Starts a loop: jumps to a new block and continues there.
    fn open_loop(&mut self) -> oriole_ir::Block {
        let block = self.b.new_block();
        self.b.branch(None, block);
        self.start(block);
        block
    }

    /// Ends a loop: jumps back to `block` unless `is_done` holds.
    fn close_loop(&mut self, is_done: Operand, block: oriole_ir::Block) {
        let condition = self.condition(is_done);
        self.jump_if(Guard { negated: !condition.negated, ..condition }, block);
    }

    /// Emits a test whether two 32-bit or 64-bit values are equal.
    fn equal(&mut self, a: Operand, b: Operand) -> Operand {
        let low = self.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, {}, PT", &[self.low(a), self.low(b)]);
        if self.register_count(a) == 1 {
            return low;
        }
        self.b.define(Class::P, "ISETP.EQ.U32.AND $, PT, {}, {}, {}", &[self.high(a), self.high(b), low])
    }
}
