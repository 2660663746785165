//! What the old control words order beside registers.
//!
//! Most scoreboards say when registers are written or read, and `ctrl` finds these anew. Some say more: that a group of copies has
//! arrived (`LDGDEPBAR`), that an atomic operation without result has been done before a cache is invalidated, that a barrier in shared
//! memory has its first value. No register tells who has to wait for those, so the old waits are read: each is a pair of one that sets a
//! scoreboard and one that waits for it, found along all paths. Pairs that registers explain are forgotten; the others must hold in the
//! new words too.
//!
//! `DEPBAR.LE SB0, 0x2` waits until no more than two of those that set scoreboard 0 are outstanding. It names the scoreboard, so those
//! that it counts and that have no registers keep it. Anything else that sets it makes the wait longer, never shorter.

use std::collections::{BTreeMap, BTreeSet};

use oriole_ctrl::flow::Block;
use oriole_isa::{Control, File, Instruction, Opcode, Value, accesses};

use super::Obstacle;

/// What an instruction announces.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Part {
    /// That its results are there.
    Results,
    /// That its sources have been read.
    Reads,
}

/// One that sets a scoreboard: its number, and what for.
pub type Setter = (usize, Part);

/// Waits that must stay.
#[derive(Debug, Default)]
pub struct Order {
    /// Who waits for whom.
    pub pairs: BTreeSet<(Setter, usize)>,
    /// Those that must set a certain scoreboard, because it is counted.
    pub counted: BTreeMap<Setter, u8>,
    /// Scoreboards that are counted, one bit each, also where only instructions with registers were.
    pub named: u8,
    /// The scoreboard that each of the pairs' setters had.
    pub scoreboards: BTreeMap<Setter, u8>,
}

impl Order {
    /// The same for instructions that have gone to these places.
    pub fn renumbered(&self, places: &[usize]) -> Order {
        let setter = |(number, part): Setter| (places[number], part);
        Order {
            pairs: self.pairs.iter().map(|&(first, second)| (setter(first), places[second])).collect(),
            counted: self.counted.iter().map(|(&first, &index)| (setter(first), index)).collect(),
            named: self.named,
            scoreboards: self.scoreboards.iter().map(|(&first, &index)| (setter(first), index)).collect(),
        }
    }
}

const SCOREBOARDS: usize = 6;

/// Scoreboards, with those that may be outstanding on each.
type State = [BTreeSet<Setter>; SCOREBOARDS];

/// Reads the order that control words keep.
pub fn find(instructions: &[Instruction], controls: &[Control], blocks: &[Block]) -> Result<Order, Obstacle> {
    let roles: Vec<Role> = instructions.iter().map(Role::of).collect();
    let mut finder = Finder { controls, roles: &roles, order: Order::default() };
    let mut entry: Vec<Option<State>> = vec![None; blocks.len()];
    entry[0] = Some(State::default());
    let mut todo: BTreeSet<usize> = [0].into();
    while let Some(block) = todo.pop_first() {
        let Some(mut state) = entry[block].clone() else { continue };
        for number in blocks[block].range.clone() {
            finder.issue(number, &mut state)?;
        }
        for &next in &blocks[block].successors {
            if merge(&mut entry[next], &state) {
                todo.insert(next);
            }
        }
    }
    Ok(finder.order)
}

fn merge(into: &mut Option<State>, from: &State) -> bool {
    let Some(state) = into else {
        *into = Some(from.clone());
        return true;
    };
    let mut changed = false;
    for (old, new) in state.iter_mut().zip(from) {
        let before = old.len();
        old.extend(new);
        changed |= old.len() != before;
    }
    changed
}

/// What matters of an instruction here.
struct Role {
    writes: bool,
    reads: bool,
    /// Others may see when it happens: waits for it are kept, whoever waits.
    is_seen: bool,
    /// It orders what others do: its waits are kept, whatever it waits for.
    orders: bool,
    /// Scoreboard and number that may be left.
    counts: Option<(usize, u64)>,
    /// Scoreboards that it waits for without a wait mask.
    drains: u8,
}

impl Role {
    fn of(instruction: &Instruction) -> Role {
        let has_hazards = |file: File| matches!(file, File::General | File::Predicate | File::Uniform | File::UniformPredicate);
        let touched = accesses(instruction);
        let touches =
            |written: bool| touched.iter().any(|access| access.written == written && has_hazards(access.file) && !access.is_guard());
        let (counts, drains) = counted(instruction);
        Role {
            writes: touches(true),
            reads: touches(false),
            is_seen: is_seen(instruction),
            // Behind an acquire stands one that does nothing but wait.
            orders: orders(instruction.opcode) || instruction.opcode == Opcode::NOP,
            counts,
            drains,
        }
    }
}

/// Scoreboards that `DEPBAR` names.
fn counted(instruction: &Instruction) -> (Option<(usize, u64)>, u8) {
    if instruction.opcode != Opcode::DEPBAR {
        return (None, 0);
    }
    let (mut scoreboard, mut left, mut drains) = (None, 0, 0);
    for operand in &instruction.operands {
        match operand.value {
            Value::Register(File::Scoreboard, number) => scoreboard = number.map(usize::from),
            Value::Integer(number) => left = number as u64,
            Value::Set(set) => drains |= set as u8,
            _ => {}
        }
    }
    (scoreboard.filter(|&index| index < SCOREBOARDS).map(|index| (index, left)), drains)
}

/// Accesses whose order other threads may see.
fn is_seen(instruction: &Instruction) -> bool {
    let strong = |spelling: &str| spelling.contains(".STRONG") || spelling.contains(".MMIO");
    let atomic = matches!(
        instruction.opcode,
        Opcode::ATOM | Opcode::ATOMG | Opcode::ATOMS | Opcode::RED | Opcode::REDG | Opcode::REDAS | Opcode::SYNCS
    );
    atomic || instruction.modifiers.iter().any(|modifier| strong(modifier.spelling()))
}

/// Instructions that order what others do: barriers, fences, copies in the background and what waits for them.
pub fn orders(opcode: Opcode) -> bool {
    matches!(
        opcode,
        Opcode::CCTL
            | Opcode::CCTLL
            | Opcode::MEMBAR
            | Opcode::FENCE
            | Opcode::ERRBAR
            | Opcode::CGAERRBAR
            | Opcode::DEPBAR
            | Opcode::LDGDEPBAR
            | Opcode::ARRIVES
            | Opcode::SYNCS
            | Opcode::BAR
            | Opcode::UCGABAR_ARV
            | Opcode::UCGABAR_WAIT
            | Opcode::ACQBULK
            | Opcode::PREEXIT
            | Opcode::USETMAXREG
            | Opcode::ENDCOLLECTIVE
            | Opcode::WARPGROUP
            | Opcode::UTMACMDFLUSH
            | Opcode::UTMACCTL
            | Opcode::UTMALDG
            | Opcode::UTMASTG
            | Opcode::UTMAREDG
            | Opcode::UTMAPF
            | Opcode::UBLKCP
            | Opcode::UBLKPF
            | Opcode::UBLKRED
            | Opcode::UMEMSETS
            | Opcode::UTCBAR
            | Opcode::UTCATOMSWS
            | Opcode::UTCCP
            | Opcode::UTCSHIFT
            | Opcode::UTCHMMA
            | Opcode::UTCIMMA
            | Opcode::UTCOMMA
            | Opcode::UTCQMMA
            | Opcode::UVIRTCOUNT
            | Opcode::UGETNEXTWORKID
    )
}

struct Finder<'a> {
    controls: &'a [Control],
    roles: &'a [Role],
    order: Order,
}

impl Finder<'_> {
    fn issue(&mut self, number: usize, state: &mut State) -> Result<(), Obstacle> {
        let (control, role) = (self.controls[number], &self.roles[number]);
        if let Some((scoreboard, left)) = role.counts {
            self.count(number, scoreboard, left, &mut state[scoreboard])?;
        }
        for scoreboard in (0..SCOREBOARDS).filter(|&index| (control.wait | role.drains) >> index & 1 == 1) {
            for setter in std::mem::take(&mut state[scoreboard]) {
                if !self.is_explained(setter, number) {
                    self.order.pairs.insert((setter, number));
                    self.order.scoreboards.insert(setter, scoreboard as u8);
                }
            }
        }
        for (part, barrier) in [(Part::Results, control.write_barrier), (Part::Reads, control.read_barrier)] {
            if let Some(set) = barrier.and_then(|index| state.get_mut(usize::from(index))) {
                set.insert((number, part));
            }
        }
        Ok(())
    }

    /// `DEPBAR.LE`: those without registers are what it is about.
    fn count(&mut self, number: usize, scoreboard: usize, left: u64, outstanding: &mut BTreeSet<Setter>) -> Result<(), Obstacle> {
        let (with, without): (Vec<Setter>, Vec<Setter>) = outstanding.iter().copied().partition(|&setter| self.has_registers(setter));
        if left > 0 && !with.is_empty() && !without.is_empty() {
            return Err(Obstacle::MixedCount { at: number as u64 });
        }
        if left > 0 {
            self.order.named |= 1 << scoreboard;
        }
        self.order.counted.extend(without.into_iter().map(|setter| (setter, scoreboard as u8)));
        if left == 0 {
            outstanding.clear();
        }
        Ok(())
    }

    fn has_registers(&self, (number, part): Setter) -> bool {
        match part {
            Part::Results => self.roles[number].writes,
            Part::Reads => self.roles[number].reads,
        }
    }

    /// Whether registers alone say when the second has to wait.
    fn is_explained(&self, setter: Setter, second: usize) -> bool {
        self.has_registers(setter) && !self.roles[setter.0].is_seen && !self.roles[second].orders
    }
}
