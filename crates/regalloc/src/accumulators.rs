//! Divides the accumulators of matrix products (`wgmma`) that do not fit into the registers together, so that only parts of them are
//! spilled.
//!
//! A product reads and writes its accumulator in up to 128 consecutive registers. A loop with two such accumulators leaves no register for
//! anything else, and a value that is spilled as a whole costs a store and a load of 128 registers for each product. But only the
//! registers that the two have in common need to change their content:
//!
//! ```text
//! R8 ......................... R111  R112 ........... R135  R136 ....................... R239
//! first accumulator ........................................
//!                                    second accumulator .....................................
//! ```
//!
//! So each accumulator gets *home* registers, and while it is not the operand of a product it is a list of *pieces* of four registers,
//! which are spilled one by one:
//!
//! ```text
//! bb1: %a:R128 = PHI 0x0, bb0, %b, bb1            bb1: %p0:R4 = PHI 0x0, bb0, %q0, bb1        .. %p31
//!      %b:R128 = HGMMA .., (else %a)                   %a:R128 = PACK %p0, .., %p31
//!      ...                                             %b:R128 = HGMMA .., (else %a)
//!                                                      %q0:R4 = COPY %b[0..3]                 .. %q31
//! ```
//!
//! Pieces with the same index in an accumulator are never live together, so they share one spill slot. Other values of a loop avoid the
//! home registers as long as other registers are free. Most of these values are loop-invariant: if one is spilled, the loop needs a load
//! for it but no store.
//!
//! **Conditions.** The phis of a loop header carry at least two accumulators, these leave fewer than [`MAX_NON_ACCUMULATOR_REGISTERS`]
//! registers for other values, and the loop needs more registers than there are. An accumulator consists of the results of products and
//! phis that are connected by such instructions. Products and phis read its values as a whole, other instructions read registers of one
//! piece only, and no two of the values are live at the same time.
//!
//! Cost: linear in the size of the function, apart from the search for loops and live values.

use oriole_ir::analysis::{ControlFlow, Dominators, Liveness, LoopId, Loops};
use oriole_ir::{Block, Class, Function, Inst, Op, Operand, OperandKind, Part, Pseudo, RegFile, Role, Value};
use oriole_isa::Symbols;
use oriole_support::{IndexVec, SparseSet};
use rustc_hash::FxHashMap;

use crate::environment::AllocationEnvironment;
use crate::pressure::general_register_pressure;
use crate::registers::{Reg, RegisterSet};

/// Maximum number of general registers that are left for values other than accumulators, in loops that access at most
/// [`FEW_REGISTERS_ACCESSED`]. More registers would save reloads of other values, but then accumulators share more registers, and each shared
/// register is stored and loaded again for every matrix product.
const MAX_NON_ACCUMULATOR_REGISTERS: u32 = 20;
/// If the values other than accumulators that a loop accesses in every iteration need more general registers than this, all of these
/// registers are left for them, up to [`MAX_REGISTERS_ACCESSED`].
const FEW_REGISTERS_ACCESSED: u32 = 32;
/// Maximum number of general registers that are left for the values that a loop accesses in every iteration. Most of these values are
/// addresses. If they were spilled, each would be reloaded just before its access, one after the other, whereas the shared registers of
/// accumulators are stored and loaded four at a time, all in parallel. Measured on an H200 with 36 to 84 registers: products of 128 x 256
/// elements took 0.5 to 0.7 of the time that they took with 20, the backward pass of attention 0.67.
const MAX_REGISTERS_ACCESSED: u32 = 84;
/// Minimum number of general registers that are left for values other than accumulators.
const MIN_NON_ACCUMULATOR_REGISTERS: u32 = 8;
/// Number of registers of a piece, the part of an accumulator that is spilled separately: as many as one spill load or store transfers.
const ACCUMULATOR_PIECE_REGISTERS: u8 = 4;
/// Minimum width, in registers, of an accumulator that may be divided into pieces.
const MIN_ACCUMULATOR_WIDTH: u8 = 32;

/// The accumulators of matrix products that were divided into pieces: their values and registers.
#[derive(Default)]
pub(crate) struct Accumulators {
    /// For each divided accumulator and each piece of one: the first of its home registers, the consecutive registers that are set aside
    /// for it.
    homes: FxHashMap<Value, Reg>,
    /// For each piece (four registers) of an accumulator: the piece whose spill slot it shares.
    spill_slot_owners: FxHashMap<Value, Value>,
    /// The home registers of all divided accumulators: those that are set aside for them.
    registers: RegisterSet,
}

impl Accumulators {
    /// Returns whether no accumulator was divided.
    pub fn is_empty(&self) -> bool {
        self.homes.is_empty()
    }

    /// Returns the first register of the home (the registers set aside) of a value; `None` if it belongs to no divided accumulator.
    pub fn home_register_of(&self, value: Value) -> Option<Reg> {
        if self.homes.is_empty() { None } else { self.homes.get(&value).copied() }
    }

    /// Returns the values of divided accumulators in no particular order, each with its first home register (one that is set aside for it).
    pub fn homes(&self) -> impl Iterator<Item = (Value, Reg)> + '_ {
        self.homes.iter().map(|(&value, &home)| (value, home))
    }

    /// Returns the home registers of all divided accumulators.
    pub fn registers(&self) -> &RegisterSet {
        &self.registers
    }

    /// Returns whether a value is one of the four-register pieces of a divided accumulator.
    pub fn is_accumulator_piece(&self, value: Value) -> bool {
        !self.spill_slot_owners.is_empty() && self.spill_slot_owners.contains_key(&value)
    }

    /// Returns the pieces of divided accumulators, each with the piece whose spill slot it shares.
    pub fn spill_slot_owners(&self) -> &FxHashMap<Value, Value> {
        &self.spill_slot_owners
    }
}

/// Divides accumulators into pieces that can be spilled separately, where the accumulators of a loop do not fit into the registers
/// together. Returns the divided accumulators; see the module description.
pub(crate) fn divide_accumulators(function: &mut Function, env: &AllocationEnvironment) -> Accumulators {
    let has_products = |block: &Block| function.blocks[*block].insts.iter().any(|&inst| function.is_warpgroup_product(inst));
    if !function.layout.iter().any(has_products) {
        return Accumulators::default();
    }
    let mut webs = AccumulatorWebs::find(function);
    let flow = ControlFlow::compute(function);
    let limit = env.block_limits(function, &flow).smallest(function.layout.iter().copied().filter(|block| has_products(block)));
    let usable = env.usable_registers(RegFile::General).and(&RegisterSet::first_n(limit));
    let loops = Loops::compute(function, &flow);
    if webs.find_crowded_loops(function, &loops, &usable, &|_| u32::MAX).is_empty() {
        return Accumulators::default();
    }
    webs.mark_overlapping_webs_indivisible(function, &flow);
    let pressure = general_register_pressure(function, &flow);
    let demand = |id: LoopId| loops.blocks(id).iter().map(|&block| pressure[block]).max().unwrap_or(0);
    let crowded_loops = webs.find_crowded_loops(function, &loops, &usable, &demand);
    let mut crowded: Vec<usize> = crowded_loops.iter().flat_map(|found| found.carried.iter().copied()).collect();
    crowded.sort_by_key(|&web| (webs.webs[web].first_product, web));
    crowded.dedup();
    let dominators = Dominators::compute(function, &flow);
    let of_loop = |found: &CrowdedLoop| {
        let few = demand(found.id).saturating_sub(found.width).min(MAX_NON_ACCUMULATOR_REGISTERS);
        let accessed = webs.registers_accessed_around_products(function, (&flow, &dominators, &loops), found);
        if accessed <= FEW_REGISTERS_ACCESSED { few } else { accessed }
    };
    let spare = crowded_loops.iter().map(of_loop).max().unwrap_or(0).max(MIN_NON_ACCUMULATOR_REGISTERS);
    let Some(homes) = choose_home_registers(&webs, &crowded, &usable, spare) else { return Accumulators::default() };
    AccumulatorDivider::new(function, &webs, homes).run()
}

/// A web: the SSA values that one accumulator has in turn. A matrix product or phi that reads one value of a web defines another one.
struct AccumulatorWeb {
    /// The register class (width and alignment) of the accumulator's values.
    class: Class,
    /// Whether the accumulator may be divided into pieces, judging by the instructions that read its values.
    is_divisible: bool,
    /// The number of the accumulator's first matrix product, counting all products of the function in the order of the blocks; `None` if it
    /// has no product.
    first_product: Option<usize>,
}

/// A loop whose accumulators are divided.
struct CrowdedLoop {
    /// The loop.
    id: LoopId,
    /// The numbers of the accumulators' webs, in ascending order.
    carried: Vec<usize>,
    /// The sum of the accumulators' widths, in registers.
    width: u32,
}

/// The accumulators of matrix products in a function, as a union-find structure.
struct AccumulatorWebs {
    /// For each wide tuple that a matrix product or phi defines: the number of its web (accumulator), or of an earlier web that has been
    /// joined with it.
    numbers: FxHashMap<Value, usize>,
    /// For each web number: the number of the web that it was joined with, or the number itself.
    parents: Vec<usize>,
    /// The webs (accumulators) by number. A web that was joined with one of a lower number is not used any more.
    webs: Vec<AccumulatorWeb>,
    /// For each value of a web: whether it has to be divided into pieces. A value that a matrix product defines is not divided if only a
    /// product of the same block, which adds to the value, reads it.
    must_be_divided: FxHashMap<Value, bool>,
}

impl AccumulatorWebs {
    /// Finds the accumulators of matrix products in a function.
    fn find(function: &Function) -> AccumulatorWebs {
        let mut found =
            AccumulatorWebs { numbers: FxHashMap::default(), parents: Vec::new(), webs: Vec::new(), must_be_divided: FxHashMap::default() };
        let mut blocks: FxHashMap<Value, Block> = FxHashMap::default();
        let mut products = 0;
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                let is_product = function.is_warpgroup_product(inst);
                if !is_product && !function.insts[inst].is(Pseudo::Phi) {
                    continue;
                }
                products += usize::from(is_product);
                for value in function.defined(inst) {
                    let class = function.values[value];
                    if class.file == RegFile::General
                        && class.width >= MIN_ACCUMULATOR_WIDTH
                        && class.width.is_multiple_of(ACCUMULATOR_PIECE_REGISTERS)
                    {
                        found.numbers.insert(value, found.webs.len());
                        found.parents.push(found.webs.len());
                        found.webs.push(AccumulatorWeb { class, is_divisible: true, first_product: is_product.then_some(products) });
                        found.must_be_divided.insert(value, !is_product);
                        blocks.insert(value, block);
                    }
                }
            }
        }
        for &block in &function.layout {
            for &inst in &function.blocks[block].insts {
                found.record_accumulator_uses(function, inst, block, &blocks);
            }
        }
        found
    }

    /// Joins the webs (accumulators) that an instruction connects. Records which of the values that it reads have to be divided into
    /// pieces, and which webs cannot be divided. `blocks` has the defining block of each value of a web.
    fn record_accumulator_uses(&mut self, function: &Function, inst: Inst, block: Block, blocks: &FxHashMap<Value, Block>) {
        let result = function.defined(inst).next().and_then(|value| self.accumulator_web_of(value));
        let is_phi = function.insts[inst].is(Pseudo::Phi);
        for source in function.sources(inst) {
            let Some(part) = source.part() else { continue };
            let web = self.accumulator_web_of(part.value);
            let is_whole = part == function.whole(part.value);
            let is_connected = is_phi || function.is_warpgroup_product(inst) && matches!(source.role, Role::Tied(_));
            match (web, result.filter(|_| is_connected)) {
                (Some(web), Some(result)) if is_whole => self.join_webs(web, result),
                (Some(web), Some(result)) => [web, result].into_iter().for_each(|web| self.webs[web].is_divisible = false),
                (Some(web), None) if !is_within_one_piece(part) || function.insts[inst].is(Pseudo::Keep) => {
                    self.webs[web].is_divisible = false;
                }
                _ => {}
            }
            if let Some(&defined_in) = blocks.get(&part.value)
                && (is_phi || !is_connected || defined_in != block)
            {
                self.must_be_divided.insert(part.value, true);
            }
        }
    }

    /// Returns the number of the web (accumulator) that a value belongs to; `None` if the value is not a wide tuple defined by a matrix
    /// product or phi.
    fn accumulator_web_of(&self, value: Value) -> Option<usize> {
        let mut number = *self.numbers.get(&value)?;
        while self.parents[number] != number {
            number = self.parents[number];
        }
        Some(number)
    }

    /// Joins two webs, given by their numbers, under the lower number. A function has few webs, so the paths of this union-find structure
    /// are not compressed.
    fn join_webs(&mut self, first: usize, second: usize) {
        let (kept, joined) = (first.min(second), first.max(second));
        if kept == joined {
            return;
        }
        self.parents[joined] = kept;
        let (other, product) = (self.webs[joined].is_divisible, self.webs[joined].first_product);
        let is_same_class = self.webs[joined].class == self.webs[kept].class;
        let web = &mut self.webs[kept];
        web.is_divisible &= other && is_same_class;
        web.first_product = [web.first_product, product].into_iter().flatten().min();
    }

    /// Finds the loops with accumulators to divide: the phis of the loop header carry at least two divisible webs with a matrix product, these
    /// webs leave too few registers for other values, and the loop needs more registers than there are. `demand` returns the maximum number
    /// of registers that are live at once in a loop, with the accumulators, or an upper bound of it.
    fn find_crowded_loops(
        &self,
        function: &Function,
        loops: &Loops,
        usable: &RegisterSet,
        demand: &dyn Fn(LoopId) -> u32,
    ) -> Vec<CrowdedLoop> {
        let mut found: Vec<CrowdedLoop> = Vec::new();
        for id in loops.iter() {
            let values = function.phis(loops.get(id).header).iter().flat_map(|&phi| function.defined(phi));
            let is_wanted = |web: &usize| self.webs[*web].is_divisible && self.webs[*web].first_product.is_some();
            let mut carried: Vec<usize> = values.filter_map(|value| self.accumulator_web_of(value)).filter(is_wanted).collect();
            carried.sort_unstable();
            carried.dedup();
            let width: u32 = carried.iter().map(|&web| u32::from(self.webs[web].class.width)).sum();
            if carried.len() > 1 && width + MAX_NON_ACCUMULATOR_REGISTERS > usable.count() && demand(id) > usable.count() {
                found.push(CrowdedLoop { id, carried, width });
            }
        }
        found
    }

    /// Returns the largest number of general registers that are live at a matrix product of a loop, at most [`MAX_REGISTERS_ACCESSED`],
    /// without the accumulators to divide. Only values that the loop accesses in every iteration count: others can be spilled where they
    /// cost less. Products in a loop inside this one do not count either.
    fn registers_accessed_around_products(
        &self,
        function: &Function,
        (flow, dominators, loops): (&ControlFlow, &Dominators, &Loops),
        crowded: &CrowdedLoop,
    ) -> u32 {
        let header = loops.get(crowded.id).header;
        let is_in_every_iteration = |block: Block| {
            let mut latches = flow.predecessors(header).iter().filter(|&&latch| loops.contains(crowded.id, latch));
            loops.innermost(block) == Some(crowded.id) && latches.all(|&latch| dominators.dominates(block, latch))
        };
        let blocks: Vec<Block> = loops.blocks(crowded.id).iter().copied().filter(|&block| is_in_every_iteration(block)).collect();
        let mut is_accessed: IndexVec<Value, bool> = IndexVec::filled(function.values.len(), false);
        for &inst in blocks.iter().flat_map(|&block| &function.blocks[block].insts) {
            function.used(inst).map(|part| part.value).chain(function.defined(inst)).for_each(|value| is_accessed[value] = true);
        }
        let is_general = |value: Value| is_accessed[value] && function.values[value].file == RegFile::General;
        let is_counted = |value: Value| {
            is_general(value) && self.accumulator_web_of(value).is_none_or(|web| crowded.carried.binary_search(&web).is_err())
        };
        let liveness = Liveness::compute_for(function, flow, is_counted);
        let mut live = SparseSet::new(function.values.len());
        let mut most = 0;
        for &block in &blocks {
            liveness.walk(function, block, &mut live, |inst, live| {
                if function.is_warpgroup_product(inst) {
                    let counted = live.members().iter().filter(|&&value| is_counted(value));
                    most = most.max(counted.map(|&value| u32::from(function.values[value].width)).sum());
                }
            });
        }
        most.min(MAX_REGISTERS_ACCESSED)
    }

    /// Marks each web (accumulator) as not divisible if two of its values are live at the same time.
    fn mark_overlapping_webs_indivisible(&mut self, function: &Function, flow: &ControlFlow) {
        let liveness = Liveness::compute_for(function, flow, |value| self.numbers.contains_key(&value));
        let mut live = SparseSet::new(function.values.len());
        let mut overlapping: Vec<usize> = Vec::new();
        for &block in flow.reverse_post_order() {
            liveness.walk(function, block, &mut live, |inst, live| {
                for value in function.defined(inst) {
                    let Some(web) = self.accumulator_web_of(value) else { continue };
                    if live.members().iter().any(|&other| other != value && self.accumulator_web_of(other) == Some(web)) {
                        overlapping.push(web);
                    }
                }
            });
        }
        overlapping.into_iter().for_each(|web| self.webs[web].is_divisible = false);
    }
}

/// Returns whether all registers of a part of an accumulator belong to the same piece.
fn is_within_one_piece(part: Part) -> bool {
    part.first / ACCUMULATOR_PIECE_REGISTERS == (part.first + part.count - 1) / ACCUMULATOR_PIECE_REGISTERS
}

/// Chooses the home registers (registers set aside) of the accumulators with the numbers `crowded`, side by side from the lowest register
/// upwards. An accumulator that does not fit above the others gets the highest registers, which it then shares with them. `spare` registers
/// stay outside the homes, if possible. Returns the first home register of each accumulator, by number; `None` if `crowded` is empty or the
/// usable registers have no window for one of them.
fn choose_home_registers(webs: &AccumulatorWebs, crowded: &[usize], usable: &RegisterSet, spare: u32) -> Option<FxHashMap<usize, Reg>> {
    let mut homes = FxHashMap::default();
    let mut next = 0;
    for &web in crowded {
        let class = webs.webs[web].class;
        let starts: Vec<Reg> = usable.gap_starts(class).iter().collect();
        let lowest = starts.first()?.number();
        // The usable registers below the first home register count as spare (not set aside for accumulators), too.
        let below = usable.and(&RegisterSet::first_n(lowest.into())).count();
        let above = spare.saturating_sub(below);
        let is_below_spare = |start: &&Reg| usable.count() - usable.and(&registers_below_tuple_end(**start, class)).count() >= above;
        let home = starts.iter().find(|start| start.number() >= next).filter(is_below_spare);
        let home = home.or_else(|| starts.iter().rev().find(is_below_spare)).or(starts.first())?;
        homes.insert(web, *home);
        next = home.number() + u16::from(class.width);
    }
    (!homes.is_empty()).then_some(homes)
}

/// Returns the set of all registers from register 0 to the last register of a tuple of `class` that starts at `start`.
fn registers_below_tuple_end(start: Reg, class: Class) -> RegisterSet {
    RegisterSet::first_n(u32::from(start.number()) + u32::from(class.width))
}

/// The state of the pass that rewrites a function so that its accumulators are divided into pieces.
struct AccumulatorDivider<'a> {
    function: &'a mut Function,
    webs: &'a AccumulatorWebs,
    /// For each divided web (accumulator), by number: its first home register.
    homes: FxHashMap<usize, Reg>,
    /// For each value that is divided: the values of its pieces, in ascending order of registers.
    pieces: FxHashMap<Value, Vec<Value>>,
    /// For each divided web (by number) and each index of a piece in the accumulator: the piece whose spill slot all pieces at this index
    /// share.
    owners: FxHashMap<(usize, usize), Value>,
    /// The divided accumulators found so far, the result of the pass.
    found: Accumulators,
}

impl<'a> AccumulatorDivider<'a> {
    fn new(function: &'a mut Function, webs: &'a AccumulatorWebs, homes: FxHashMap<usize, Reg>) -> AccumulatorDivider<'a> {
        let (pieces, owners) = (FxHashMap::default(), FxHashMap::default());
        AccumulatorDivider { function, webs, homes, pieces, owners, found: Accumulators::default() }
    }

    /// Rewrites the function so that the chosen accumulators are divided into pieces. Returns their values and home registers.
    fn run(mut self) -> Accumulators {
        let blocks = self.function.layout.clone();
        for &block in &blocks {
            for inst in self.function.blocks[block].insts.clone() {
                let values: Vec<Value> = self.function.defined(inst).collect();
                values.into_iter().for_each(|value| self.make_pieces(value));
            }
        }
        for block in blocks {
            self.divide_accumulators_in_block(block);
        }
        for (&web, &home) in &self.homes {
            self.found.registers.insert(home, self.webs.webs[web].class.width);
        }
        self.found
    }

    /// Returns the number of the web (accumulator) of a value and the first home register of the web; `None` if the web is not divided.
    fn accumulator_web_of(&self, value: Value) -> Option<(usize, Reg)> {
        let web = self.webs.accumulator_web_of(value)?;
        self.homes.get(&web).map(|&home| (web, home))
    }

    /// Records the home register of a value of a divided web (accumulator), and creates the pieces of the value if it has to be divided.
    fn make_pieces(&mut self, value: Value) {
        let Some((web, home)) = self.accumulator_web_of(value) else { return };
        self.found.homes.insert(value, home);
        if !self.webs.must_be_divided[&value] {
            return;
        }
        let count = usize::from(self.function.values[value].width / ACCUMULATOR_PIECE_REGISTERS);
        let class = Class { width: ACCUMULATOR_PIECE_REGISTERS, align: ACCUMULATOR_PIECE_REGISTERS, file: RegFile::General };
        let pieces: Vec<Value> = (0..count).map(|_| self.function.new_value(class)).collect();
        for (place, &piece) in pieces.iter().enumerate() {
            let owner = *self.owners.entry((web, place)).or_insert(piece);
            self.found.spill_slot_owners.insert(piece, owner);
            self.found.homes.insert(piece, home + place as u8 * ACCUMULATOR_PIECE_REGISTERS);
        }
        self.pieces.insert(value, pieces);
    }

    /// Rewrites the instructions of a block so that they read and write pieces of the divided accumulators.
    fn divide_accumulators_in_block(&mut self, block: Block) {
        let first_terminator = self.function.terminators(block).first().copied();
        let insts = std::mem::take(&mut self.function.blocks[block].insts);
        let mut end = insts.iter().position(|&inst| Some(inst) == first_terminator).unwrap_or(insts.len());
        // Copies of pieces are inserted before `end`. A `KEEP` (a pseudo operation that extends live ranges) directly before the
        // terminators stays next to them.
        end -= usize::from(end > 0 && self.function.insts[insts[end - 1]].is(Pseudo::Keep));
        let mut kept: Vec<Inst> = Vec::with_capacity(insts.len());
        // Results of matrix products whose pieces are not copied out yet.
        let mut pending: Vec<Value> = Vec::new();
        for (at, inst) in insts.into_iter().enumerate() {
            if self.function.insts[inst].is(Pseudo::Phi) {
                self.append_divided_phi(inst, &mut kept);
                continue;
            }
            let own_web = self.function.defined(inst).next().and_then(|value| self.accumulator_web_of(value));
            let reads = |value: &Value| self.function.used(inst).any(|part| part.value == *value);
            if at == end || pending.iter().any(reads) || !pending.is_empty() && own_web.is_some() {
                pending.drain(..).for_each(|value| self.append_piece_copies(value, &mut kept));
            }
            self.replace_divided_sources(inst, &mut kept);
            kept.push(inst);
            pending.extend(self.function.defined(inst).filter(|value| self.pieces.contains_key(value)));
        }
        self.function.blocks[block].insts = kept;
    }

    /// Appends to `kept`, the new instructions of the block, one phi for each piece of a divided phi, in place of the phi itself; any other
    /// phi is appended unchanged.
    fn append_divided_phi(&mut self, phi: Inst, kept: &mut Vec<Inst>) {
        let result = self.function.results(phi)[0].value();
        let Some(pieces) = result.and_then(|value| self.pieces.get(&value)) else {
            kept.push(phi);
            return;
        };
        for (place, &piece) in pieces.iter().enumerate() {
            let mut operands = vec![Operand::from(self.function.whole(piece))];
            for &source in self.function.sources(phi) {
                operands.push(match source.part() {
                    Some(part) => Operand::from(match self.pieces.get(&part.value) {
                        Some(pieces) => self.function.whole(pieces[place]),
                        None => Part {
                            first: part.first + place as u8 * ACCUMULATOR_PIECE_REGISTERS,
                            count: ACCUMULATOR_PIECE_REGISTERS,
                            ..part
                        },
                    }),
                    // A constant source has 64 bits, which the first two registers of the tuple hold; the other registers are zero.
                    None if place > 0 && matches!(source.kind, OperandKind::Integer(_)) => Operand::new(OperandKind::Integer(0)),
                    None => source,
                });
            }
            let location = self.function.insts[phi].location;
            kept.push(self.function.new_inst(Op::Pseudo(Pseudo::Phi), Symbols::new(), None, &operands, 1));
            self.function.insts[kept[kept.len() - 1]].location = location;
        }
    }

    /// Appends copies of the pieces of `value`, the result of a matrix product, to `kept`, the new instructions of the block.
    fn append_piece_copies(&mut self, value: Value, kept: &mut Vec<Inst>) {
        for (place, &piece) in self.pieces[&value].iter().enumerate() {
            let part = Part { value, first: place as u8 * ACCUMULATOR_PIECE_REGISTERS, count: ACCUMULATOR_PIECE_REGISTERS };
            let operands = [Operand::from(self.function.whole(piece)), Operand::from(part)];
            let copy = self.function.new_inst(Op::Pseudo(Pseudo::Copy), Symbols::new(), None, &operands, 1);
            if let Some(&last) = kept.last() {
                self.function.insts[copy].location = self.function.insts[last].location;
            }
            kept.push(copy);
        }
    }

    /// Replaces the divided values that an instruction reads. A part of an accumulator becomes a part of a piece. A whole accumulator
    /// becomes a new tuple; the `PACK` that builds the tuple from the pieces is appended to `kept`, the new instructions of the block.
    fn replace_divided_sources(&mut self, inst: Inst, kept: &mut Vec<Inst>) {
        for number in 0..self.function.sources(inst).len() {
            let source = self.function.sources(inst)[number];
            let Some(part) = source.part() else { continue };
            let Some(pieces) = self.pieces.get(&part.value) else { continue };
            let replacement = if part == self.function.whole(part.value) {
                let tuple = self.function.new_value(self.function.values[part.value]);
                let operands: Vec<Operand> = [tuple].iter().chain(pieces).map(|&value| Operand::from(self.function.whole(value))).collect();
                let pack = self.function.new_inst(Op::Pseudo(Pseudo::Pack), Symbols::new(), None, &operands, 1);
                self.function.insts[pack].location = self.function.insts[inst].location;
                self.found.homes.insert(tuple, self.found.homes[&part.value]);
                kept.push(pack);
                self.function.whole(tuple)
            } else {
                Part {
                    value: pieces[usize::from(part.first / ACCUMULATOR_PIECE_REGISTERS)],
                    first: part.first % ACCUMULATOR_PIECE_REGISTERS,
                    count: part.count,
                }
            };
            self.function.sources_mut(inst)[number].kind = OperandKind::Value(replacement);
        }
    }
}
