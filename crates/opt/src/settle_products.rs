//! Inserts the waits and fences that asynchronous warpgroup matrix products (`wgmma`) need.
//!
//! A *product* is here a warpgroup matrix-multiply instruction, such as `HGMMA`. It executes asynchronously. Its accumulator, and the
//! registers of A if A is not in shared memory, are *in flight* from the product until a `WARPGROUP.DEPBAR` waits for its *group*:
//! consecutive products, of which the last one names `gsb0`. Meanwhile, no other instruction may write these registers, or read the
//! accumulator, with one exception: products of the same shape with the same accumulator follow each other without a wait, because the
//! hardware finishes them in order. Also, a `WARPGROUP.ARRIVE` (a *fence*) has to come between an ordinary access to a register of the
//! accumulator, or an ordinary write to a register of A, and the product.
//!
//! Programs request both with `wgmma.wait_group` and `wgmma.fence`. Where the program does not, or where the register allocator moved or
//! spilled a register, this pass corrects the code: it inserts waits and fences, and reports each as a [`ProductSyncRemark`]. A wait costs
//! time, because the product no longer overlaps with other code; that is why it is reported.
//!
//! ```text
//! R24:R27 = HGMMA.64x8x16.F32 gdesc[UR4:UR7], (else R24:R27), UPT, gsb0
//! R2 = FADD R24, R25                  // R24 is in flight: WARPGROUP.DEPBAR.LE gsb0, 0x0 is inserted before
//! ```
//!
//! A forward analysis over the blocks computes the registers in flight, each with the number of groups that have ended since its product: a
//! wait that leaves that many groups pending is enough. Where paths meet, the smaller number counts. The analysis terminates because the
//! state of a block changes in one direction only; in practice two or three sweeps are enough.
//!
//! Instruction selection ends each group with an empty product, which computes nothing (all operands are `RZ`) and names `gsb0`. If the
//! last real product of the group is in the same block, this pass makes it name `gsb0` instead.
//!
//! **Before**: physical registers, final order of instructions. **After**: the same with all waits and fences.

use oriole_ir::analysis::ControlFlow;
use oriole_ir::{Block, Function, Inst, Location, MemoryAccess, Op, Operand, OperandKind, Role, Space};
use oriole_isa::{Opcode, RegFile, Symbol, Symbols};
use oriole_support::IndexVec;
use rustc_hash::FxHashMap;

/// Number of general registers that an instruction can name.
const GENERAL_REGISTER_COUNT: usize = 256;
/// Largest number of pending groups of matrix products that `WARPGROUP.DEPBAR` can name.
const MAX_PENDING_GROUPS: u8 = 7;

/// A report about a wait or fence that the pass inserted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProductSyncRemark {
    /// Source location of the instruction that needs the wait or fence.
    pub location: Location,
    /// Why the wait or fence is needed.
    pub reason: ProductSyncReason,
}

/// The reason for an inserted wait or fence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum ProductSyncReason {
    /// An ordinary instruction writes a register of a matrix product in flight, or reads its accumulator.
    Access,
    /// A matrix product uses a register that an earlier product in flight uses with another shape or in another role (accumulator or
    /// source).
    OtherShape,
    /// The function calls another one, returns or ends while a matrix product is in flight.
    ControlTransfer,
    /// An ordinary instruction accessed the accumulator of a matrix product, or wrote another register that the product reads, since the
    /// last fence.
    Fence,
}

/// Inserts the waits and fences that the asynchronous matrix products of a function need. Returns a remark for each, in code order.
pub fn run(function: &mut Function) -> Vec<ProductSyncRemark> {
    let has_products =
        function.layout.iter().any(|&block| function.blocks[block].insts.iter().any(|&inst| function.is_warpgroup_product(inst)));
    if !has_products {
        return Vec::new();
    }
    end_groups_at_products(function);
    let flow = ControlFlow::compute(function);
    let mut chains = ProductChainNumbers::default();
    let entries = block_entry_states(function, &flow, &mut chains);
    let mut remarks = Vec::new();
    for &block in &function.layout.clone() {
        let Some(mut state) = entries[block].clone() else { continue };
        let insts = std::mem::take(&mut function.blocks[block].insts);
        let mut settled = Vec::with_capacity(insts.len());
        for inst in insts {
            let steps = state.transfer_inst(function, inst, &mut chains);
            settled.extend(steps.create_sync_insts(function, inst, &mut remarks));
            settled.push(inst);
        }
        function.blocks[block].insts = settled;
    }
    end_groups_at_products(function);
    remove_superseded_fences(function);
    remarks
}

/// Computes, for each block, the state of the registers at its start; `None` for unreachable blocks.
fn block_entry_states(
    function: &Function,
    flow: &ControlFlow,
    chains: &mut ProductChainNumbers,
) -> IndexVec<Block, Option<InFlightRegisterState>> {
    let mut entries: IndexVec<Block, Option<InFlightRegisterState>> = IndexVec::filled(function.blocks.len(), None);
    entries[function.entry()] = Some(InFlightRegisterState::at_function_entry());
    let mut is_changed = true;
    while is_changed {
        is_changed = false;
        for &block in flow.reverse_post_order() {
            let Some(mut state) = entries[block].clone() else { continue };
            for &inst in &function.blocks[block].insts {
                state.transfer_inst(function, inst, chains);
            }
            for &next in flow.successors(block) {
                match &mut entries[next] {
                    Some(old) => is_changed |= old.merge_other_path(&state),
                    slot => {
                        *slot = Some(state.clone());
                        is_changed = true;
                    }
                }
            }
        }
    }
    entries
}

/// Assigns numbers to chains. A chain is the set of all matrix products with the same shape and the same accumulator registers; these may
/// follow each other without a wait.
#[derive(Default)]
struct ProductChainNumbers {
    /// Maps a shape, and the first register and number of registers of an accumulator, to the number of the chain.
    chain_numbers: FxHashMap<(Symbols, u16, u8), u32>,
}

/// Chain number of a register whose matrix products in flight belong to different chains on different paths to a block.
const MIXED_CHAIN_NUMBER: u32 = 0;

impl ProductChainNumbers {
    /// Returns the number of the chain of matrix products with this shape and this accumulator (first register, number of registers). A new
    /// chain gets a new number.
    fn number_of_chain(&mut self, shape: &Symbols, first: u16, count: u8) -> u32 {
        let next = self.chain_numbers.len() as u32 + 1;
        *self.chain_numbers.entry((shape.clone(), first, count)).or_insert(next)
    }
}

/// The last asynchronous matrix product in flight that uses a certain register.
#[derive(Clone, Copy, PartialEq, Eq)]
struct InFlightProduct {
    /// Number of the chain whose product writes the register; `None` if a product only reads it.
    chain_number: Option<u32>,
    /// Number of groups that ended after the group of the product; a wait that leaves at most this many groups pending waits for the
    /// product. `None` if the group of the product has not ended.
    newer_groups: Option<u8>,
}

/// The state of all general registers at a point of the code, for the data-flow analysis.
#[derive(Clone, PartialEq, Eq)]
struct InFlightRegisterState {
    /// For each register, the last product in flight that uses it; `None` if there is none.
    in_flight: Vec<Option<InFlightProduct>>,
    /// For each register, whether an ordinary instruction may have read or written it since the last fence.
    accessed_since_fence: Vec<bool>,
    /// For each register, whether an ordinary instruction may have written it since the last fence.
    written_since_fence: Vec<bool>,
}

/// The waits and fences to insert before an instruction.
#[derive(Default)]
struct SyncInsertions {
    /// Whether to insert an empty matrix product first. It ends the open group, so that a wait can wait for the group.
    ends_group: bool,
    /// The wait to insert: the maximum number of groups that may stay pending, and the reason. `None` if no wait is needed.
    wait: Option<(u8, ProductSyncReason)>,
    /// Whether to insert a fence (`WARPGROUP.ARRIVE`).
    inserts_fence: bool,
}

/// A range of consecutive general registers.
#[derive(Clone, Copy)]
struct GeneralRegisterRange {
    /// Number of the first register.
    first: u16,
    /// Number of registers.
    count: u8,
}

impl GeneralRegisterRange {
    /// Returns the general registers of an operand; `None` if it has none.
    fn from_operand(operand: &Operand) -> Option<GeneralRegisterRange> {
        match operand.kind {
            OperandKind::Register { file: RegFile::General, first, count } => Some(GeneralRegisterRange { first, count }),
            _ => None,
        }
    }

    /// Returns the register numbers of the range.
    fn registers(self) -> std::ops::Range<usize> {
        usize::from(self.first)..usize::from(self.first) + usize::from(self.count)
    }
}

/// A summary of the conflicts between one instruction and the matrix products in flight that use the same registers. It determines the wait
/// before the instruction.
struct InFlightConflicts {
    /// Maximum number of groups that may stay pending when the instruction executes; `None` if there is no conflict.
    max_pending_groups: Option<u8>,
    /// Whether a conflicting product belongs to a group that has not ended, for which no wait is possible yet.
    is_open: bool,
}

impl InFlightConflicts {
    /// Adds the conflict with one matrix product in flight.
    fn add_conflict(&mut self, flight: InFlightProduct) {
        match flight.newer_groups {
            Some(pending) => self.max_pending_groups = Some(self.max_pending_groups.map_or(pending, |old| old.min(pending))),
            None => {
                self.is_open = true;
                self.max_pending_groups = Some(0);
            }
        }
    }
}

impl InFlightRegisterState {
    /// Returns the state at the start of a function: nothing is in flight, and any register may have been accessed.
    fn at_function_entry() -> InFlightRegisterState {
        InFlightRegisterState {
            in_flight: vec![None; GENERAL_REGISTER_COUNT],
            accessed_since_fence: vec![true; GENERAL_REGISTER_COUNT],
            written_since_fence: vec![true; GENERAL_REGISTER_COUNT],
        }
    }

    /// Merges the state of another path into this one; returns whether this changed the state.
    fn merge_other_path(&mut self, other: &InFlightRegisterState) -> bool {
        let mut is_changed = false;
        for (mine, theirs) in self.in_flight.iter_mut().zip(&other.in_flight) {
            let joined = match (*mine, *theirs) {
                (Some(one), Some(two)) => Some(InFlightProduct {
                    chain_number: if one.chain_number == two.chain_number { one.chain_number } else { Some(MIXED_CHAIN_NUMBER) },
                    newer_groups: one.newer_groups.zip(two.newer_groups).map(|(one, two)| one.min(two)),
                }),
                (one, two) => one.or(two),
            };
            is_changed |= joined != *mine;
            *mine = joined;
        }
        let flags = self
            .accessed_since_fence
            .iter_mut()
            .chain(&mut self.written_since_fence)
            .zip(other.accessed_since_fence.iter().chain(&other.written_since_fence));
        for (mine, &theirs) in flags {
            is_changed |= theirs && !*mine;
            *mine |= theirs;
        }
        is_changed
    }

    /// Returns the waits and fences to insert before an instruction. Updates the state for these and for the instruction itself.
    fn transfer_inst(&mut self, function: &Function, inst: Inst, chains: &mut ProductChainNumbers) -> SyncInsertions {
        let Op::Machine(opcode) = function.insts[inst].op else { return SyncInsertions::default() };
        if opcode.is_warpgroup_product() {
            return self.transfer_matrix_product(function, inst, chains);
        }
        if opcode == Opcode::WARPGROUP {
            match pending_groups_of_wait(function, inst) {
                Some(pending) => self.apply_wait(pending),
                None => self.apply_fence(),
            }
            return SyncInsertions::default();
        }
        self.transfer_ordinary_inst(function, inst, opcode)
    }

    /// Does the work of [`InFlightRegisterState::transfer_inst`] for an instruction other than a warpgroup matrix product, a wait or a
    /// fence.
    fn transfer_ordinary_inst(&mut self, function: &Function, inst: Inst, opcode: Opcode) -> SyncInsertions {
        let mut conflicts = InFlightConflicts { max_pending_groups: None, is_open: false };
        let leaves = matches!(opcode, Opcode::CALL | Opcode::RET | Opcode::EXIT);
        if leaves {
            self.in_flight.iter().flatten().for_each(|&flight| conflicts.add_conflict(flight));
        }
        let ranges = |operands: &[Operand]| {
            operands.iter().filter_map(GeneralRegisterRange::from_operand).flat_map(GeneralRegisterRange::registers).collect::<Vec<usize>>()
        };
        let (reads, writes) = (ranges(function.sources(inst)), ranges(function.results(inst)));
        for &register in &reads {
            self.in_flight[register]
                .filter(|flight| flight.chain_number.is_some())
                .into_iter()
                .for_each(|flight| conflicts.add_conflict(flight));
        }
        for &register in &writes {
            self.in_flight[register].into_iter().for_each(|flight| conflicts.add_conflict(flight));
        }
        let steps = SyncInsertions {
            ends_group: conflicts.is_open,
            wait: conflicts
                .max_pending_groups
                .map(|pending| (pending, if leaves { ProductSyncReason::ControlTransfer } else { ProductSyncReason::Access })),
            inserts_fence: false,
        };
        self.apply_insertions(&steps);
        for &register in reads.iter().chain(&writes) {
            self.accessed_since_fence[register] = true;
        }
        for &register in &writes {
            self.written_since_fence[register] = true;
        }
        if opcode == Opcode::CALL {
            self.accessed_since_fence.fill(true);
            self.written_since_fence.fill(true);
        }
        steps
    }

    /// Does the work of [`InFlightRegisterState::transfer_inst`] for a warpgroup matrix product.
    fn transfer_matrix_product(&mut self, function: &Function, inst: Inst, chains: &mut ProductChainNumbers) -> SyncInsertions {
        let result = function.results(inst).first().and_then(GeneralRegisterRange::from_operand);
        let chain = result.map(|range| chains.number_of_chain(&function.insts[inst].modifiers, range.first, range.count));
        let sources = function
            .sources(inst)
            .iter()
            .filter(|operand| !matches!(operand.role, Role::Tied(_)))
            .filter_map(GeneralRegisterRange::from_operand);
        let sources: Vec<usize> = sources.flat_map(GeneralRegisterRange::registers).collect();
        let results: Vec<usize> = result.into_iter().flat_map(GeneralRegisterRange::registers).collect();
        let mut conflicts = InFlightConflicts { max_pending_groups: None, is_open: false };
        for &register in &sources {
            self.in_flight[register]
                .filter(|flight| flight.chain_number.is_some())
                .into_iter()
                .for_each(|flight| conflicts.add_conflict(flight));
        }
        for &register in &results {
            let is_same_chain = |flight: &InFlightProduct| flight.chain_number.is_some() && flight.chain_number == chain;
            self.in_flight[register].filter(|flight| !is_same_chain(flight)).into_iter().for_each(|flight| conflicts.add_conflict(flight));
        }
        let needs_fence = results.iter().any(|&register| self.accessed_since_fence[register])
            || sources.iter().any(|&register| self.written_since_fence[register]);
        let steps = SyncInsertions {
            ends_group: conflicts.is_open,
            wait: conflicts.max_pending_groups.map(|pending| (pending, ProductSyncReason::OtherShape)),
            inserts_fence: needs_fence || conflicts.max_pending_groups.is_some(),
        };
        self.apply_insertions(&steps);
        for register in sources {
            // If two matrix products in flight read a register, only the later one has to be tracked, because it finishes last.
            self.in_flight[register] = Some(InFlightProduct { chain_number: None, newer_groups: None });
        }
        for register in results {
            self.in_flight[register] = Some(InFlightProduct { chain_number: chain, newer_groups: None });
        }
        if is_last_of_group(function, inst) {
            self.end_group();
        }
        steps
    }

    /// Updates the state for the waits and fences inserted before an instruction.
    fn apply_insertions(&mut self, steps: &SyncInsertions) {
        if steps.ends_group {
            self.end_group();
        }
        if let Some((pending, _)) = steps.wait {
            self.apply_wait(pending);
        }
        if steps.inserts_fence {
            self.apply_fence();
        }
    }

    /// Updates the state for the end of a group of matrix products.
    fn end_group(&mut self) {
        for flight in self.in_flight.iter_mut().flatten() {
            flight.newer_groups = Some(flight.newer_groups.map_or(0, |newer| (newer + 1).min(MAX_PENDING_GROUPS)));
        }
    }

    /// Updates the state for a wait (`WARPGROUP.DEPBAR`) that leaves `pending` groups pending.
    fn apply_wait(&mut self, pending: u8) {
        for flight in &mut self.in_flight {
            if flight.is_some_and(|flight| flight.newer_groups.is_some_and(|newer| newer >= pending)) {
                *flight = None;
            }
        }
    }

    /// Updates the state for a fence (`WARPGROUP.ARRIVE`).
    fn apply_fence(&mut self) {
        self.accessed_since_fence.fill(false);
        self.written_since_fence.fill(false);
    }
}

impl SyncInsertions {
    /// Creates and returns the instructions to insert before `inst`. Appends to `remarks` a remark for the wait, or for the fence if there
    /// is no wait.
    fn create_sync_insts(&self, function: &mut Function, inst: Inst, remarks: &mut Vec<ProductSyncRemark>) -> Vec<Inst> {
        let location = function.insts[inst].location;
        let mut insts = Vec::new();
        if self.ends_group {
            insts.push(new_group_end(function));
        }
        if let Some((pending, reason)) = self.wait {
            insts.push(new_group_wait(function, pending));
            remarks.push(ProductSyncRemark { location, reason });
        }
        if self.inserts_fence {
            insts.push(new_product_fence(function));
            if self.wait.is_none() {
                remarks.push(ProductSyncRemark { location, reason: ProductSyncReason::Fence });
            }
        }
        for &new in &insts {
            function.insts[new].location = location;
        }
        insts
    }
}

/// Returns the symbol with this spelling. All spellings that this file uses are in the instruction table.
fn symbol_named(spelling: &str) -> Symbol {
    Symbol::find(spelling).unwrap_or_else(|| panic!("no symbol is spelled {spelling}"))
}

/// Creates an empty matrix product, which computes nothing and only ends a group of products.
pub(crate) fn new_group_end(function: &mut Function) -> Inst {
    let zero = Operand::RZ;
    let operands = [
        zero,
        Operand::new(OperandKind::Address(symbol_named("gdesc"))),
        Operand::URZ.with_role(Role::Bracket(0)),
        zero,
        Operand::UPT.inverted_predicate(),
        symbol_named("gsb0").into(),
    ];
    let modifiers = Symbols::from_slice(&[symbol_named(".64x8x16"), symbol_named(".F16")]);
    let inst = function.new_inst(Op::Machine(Opcode::HGMMA), modifiers, None, &operands, 1);
    let access = function.accesses.push(MemoryAccess { volatile: true, ..MemoryAccess::weak(Space::Shared, 0) });
    function.insts[inst].memory = Some(access);
    inst
}

/// Creates a `WARPGROUP.DEPBAR` that waits until at most `pending` groups of matrix products are pending.
pub(crate) fn new_group_wait(function: &mut Function, pending: u8) -> Inst {
    let modifiers = Symbols::from_slice(&[symbol_named(".DEPBAR"), symbol_named(".LE")]);
    let operands = [symbol_named("gsb0").into(), i64::from(pending).into()];
    function.new_inst(Op::Machine(Opcode::WARPGROUP), modifiers, None, &operands, 0)
}

/// Creates a `WARPGROUP.ARRIVE`.
pub(crate) fn new_product_fence(function: &mut Function) -> Inst {
    function.new_inst(Op::Machine(Opcode::WARPGROUP), Symbols::from_slice(&[symbol_named(".ARRIVE")]), None, &[], 0)
}

/// Returns the number of product groups that a `WARPGROUP.DEPBAR` leaves pending; `None` for a `WARPGROUP.ARRIVE`.
pub(crate) fn pending_groups_of_wait(function: &Function, inst: Inst) -> Option<u8> {
    function.operands(inst).get(1).and_then(Operand::integer).map(|pending| pending.clamp(0, i64::from(MAX_PENDING_GROUPS)) as u8)
}

/// Returns whether a matrix product names `gsb0`, which ends a group of products.
pub(crate) fn is_last_of_group(function: &Function, inst: Inst) -> bool {
    function.sources(inst).iter().any(|operand| matches!(operand.kind, OperandKind::Name(name) if name == symbol_named("gsb0")))
}

/// If a group is ended by an empty matrix product and the last real product of the group is in the same block, ends the group with the real
/// product, and removes the empty one.
fn end_groups_at_products(function: &mut Function) {
    for block in function.layout.clone() {
        let mut last: Option<Inst> = None;
        let mut removed: Vec<Inst> = Vec::new();
        for inst in function.blocks[block].insts.clone() {
            if !function.is_warpgroup_product(inst) {
                continue;
            }
            let is_empty = function.results(inst).first().is_none_or(|result| GeneralRegisterRange::from_operand(result).is_none());
            match last.take() {
                Some(product) if is_empty && is_last_of_group(function, inst) => {
                    let operands: Vec<Operand> = function.operands(product).iter().copied().chain([symbol_named("gsb0").into()]).collect();
                    let results = function.insts[product].result_count();
                    function.set_operands(product, &operands, results);
                    removed.push(inst);
                }
                _ => last = (!is_last_of_group(function, inst)).then_some(inst),
            }
        }
        function.blocks[block].insts.retain(|inst| !removed.contains(inst));
    }
}

/// Removes each fence that is followed by another fence of the same block before any matrix product.
fn remove_superseded_fences(function: &mut Function) {
    for block in function.layout.clone() {
        let mut insts = std::mem::take(&mut function.blocks[block].insts);
        let mut is_superseded = false;
        for at in (0..insts.len()).rev() {
            let inst = insts[at];
            if function.is_warpgroup_product(inst) {
                is_superseded = false;
            } else if function.insts[inst].is_machine(Opcode::WARPGROUP) && pending_groups_of_wait(function, inst).is_none() {
                if is_superseded {
                    insts.remove(at);
                }
                is_superseded = true;
            }
        }
        function.blocks[block].insts = insts;
    }
}
