//! Generates random functions in SSA form, with branches, loops, jump tables, tuples, packs, copies, guarded instructions with tied
//! operands, calls, and values of every register file.
//!
//! Only data flow matters to the allocator, so the opcodes and the numbers of operands are not meaningful.

use oriole_ir::{Block, Class, Function, FunctionKind, Guard, Inst, Op, Opcode, Operand, OperandKind, Part, Pseudo, RegFile, Role, Value};

/// A pseudo-random number generator (SplitMix64); the field is its state.
pub struct Random(pub u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// Returns a number below `bound`; 0 if that is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    /// Returns true with a probability of `percent` in a hundred.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Parameters of a generated function.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Number of regions at the top level: straight code, branches, jump tables or loops.
    pub regions: usize,
    /// Maximum number of instructions in a piece of straight code.
    pub piece: usize,
    /// Operands are chosen from this many of the newest values. A larger number means higher register pressure.
    pub reach: usize,
    /// Whether the function has calls.
    pub calls: bool,
    /// Whether the function has tuples of 3 and of 16 registers.
    pub wide: bool,
}

/// Generates a function. The same seed and shape give the same function.
pub fn function(seed: u64, shape: Shape) -> Function {
    let mut function = Function::new("random", FunctionKind::Kernel);
    function.is_ssa = true;
    let block = function.new_block();
    function.layout.push(block);
    let mut maker = Maker { function, block, random: Random(seed), pool: Vec::new(), shape, depth: 0 };
    maker.entry();
    maker.regions(shape.regions);
    maker.exit();
    maker.function
}

struct Maker {
    function: Function,
    /// The block that instructions are appended to.
    block: Block,
    random: Random,
    /// Values whose definitions dominate the current position, oldest first.
    pool: Vec<Value>,
    shape: Shape,
    /// Nesting depth of the current region.
    depth: usize,
}

impl Maker {
    fn append(&mut self, op: Op, guard: Option<Guard>, operands: &[Operand], results: usize) -> Inst {
        let inst = self.function.new_inst(op, Default::default(), guard, operands, results);
        self.function.blocks[self.block].insts.push(inst);
        inst
    }

    fn machine(&mut self, opcode: Opcode, guard: Option<Guard>, operands: &[Operand], results: usize) {
        self.append(Op::Machine(opcode), guard, operands, results);
    }

    fn value(&mut self, class: Class) -> Operand {
        let value = self.function.new_value(class);
        self.function.whole(value).into()
    }

    /// Returns the values that operands are chosen from.
    fn newest(&self) -> Vec<Value> {
        self.pool[self.pool.len().saturating_sub(self.shape.reach)..].to_vec()
    }

    fn keep(&mut self, result: Operand) {
        self.pool.extend(result.value());
    }

    fn class(&mut self) -> Class {
        match self.random.below(if self.shape.wide { 22 } else { 20 }) {
            0..8 => Class::R,
            8..12 => Class::R2,
            12..14 => Class::R4,
            14..17 => Class::P,
            17 => Class::UR,
            18 => Class::UR2,
            19 => Class::UP,
            20 => Class::new(RegFile::General, 3),
            _ => Class::new(RegFile::General, 16),
        }
    }

    /// Returns one of the newest values that has a class; `None` if there is none.
    fn pick(&mut self, class: Class) -> Option<Value> {
        let fitting: Vec<Value> =
            self.pool.iter().rev().take(self.shape.reach).copied().filter(|&value| self.function.values[value] == class).collect();
        (!fitting.is_empty()).then(|| fitting[self.random.below(fitting.len())])
    }

    /// Returns a source of a class: a value, a part of a wider value, or a constant.
    fn source(&mut self, class: Class) -> Operand {
        if class == Class::R && self.random.chance(25) {
            for wide in [Class::R2, Class::R4] {
                if let Some(value) = self.pick(wide)
                    && self.random.chance(50)
                {
                    return Part { value, first: self.random.below(usize::from(wide.width)) as u8, count: 1 }.into();
                }
            }
        }
        if class == Class::R2
            && self.random.chance(25)
            && let Some(value) = self.pick(Class::R4)
        {
            return Part { value, first: 2 * self.random.below(2) as u8, count: 2 }.into();
        }
        match self.pick(class) {
            Some(value) => self.function.whole(value).into(),
            None => self.number(class),
        }
    }

    fn number(&mut self, class: Class) -> Operand {
        match class.file {
            RegFile::Predicate => Operand::PT,
            RegFile::UniformPredicate => Operand::UPT,
            RegFile::Uniform => Operand::URZ,
            _ if self.random.chance(50) => Operand::RZ,
            _ => (self.random.below(1000) as i64).into(),
        }
    }

    fn guard(&mut self) -> Option<Guard> {
        let value = self.pick(Class::P)?;
        Some(Guard { kind: OperandKind::Value(self.function.whole(value)), negated: self.random.chance(50) })
    }

    fn entry(&mut self) {
        let mut results: Vec<Operand> = (4..8).map(|register| self.value(Class::R).with_role(Role::Fixed(register))).collect();
        results.push(self.value(Class::R2).with_role(Role::Fixed(8)));
        self.append(Op::Pseudo(Pseudo::Entry), None, &results, results.len());
        results.into_iter().for_each(|result| self.keep(result));
    }

    fn exit(&mut self) {
        for _ in 0..6 {
            let class = self.class();
            let source = self.source(class);
            self.machine(Opcode::STG, None, &[source], 0);
        }
        let kept: Vec<Operand> = (4..6)
            .filter_map(|register| {
                self.pick(Class::R).map(|value| Operand::from(self.function.whole(value)).with_role(Role::Fixed(register)))
            })
            .collect();
        let link = self.source(Class::R2);
        self.append(Op::Pseudo(Pseudo::Keep), None, &kept, 0);
        self.machine(Opcode::RET, None, &[link], 0);
    }

    fn regions(&mut self, count: usize) {
        for _ in 0..count {
            let nested = self.depth < 3;
            self.depth += 1;
            match self.random.below(10) {
                0..2 if nested => self.branch(),
                2 if nested => self.table(),
                3..5 if nested => self.cycle(),
                _ => self.piece(),
            }
            self.depth -= 1;
        }
    }

    fn piece(&mut self) {
        for _ in 0..1 + self.random.below(self.shape.piece) {
            match self.random.below(20) {
                0..2 => self.pack(),
                2..4 => self.copy(),
                4..7 => self.guarded(),
                7 => self.constant(),
                8 if self.shape.calls && self.random.chance(60) => self.call(),
                9 => self.barrier(),
                10 => {
                    let class = self.class();
                    let (address, data) = (self.source(Class::R2), self.source(class));
                    let guard = if self.random.chance(30) { self.guard() } else { None };
                    self.machine(Opcode::STG, guard, &[address, data], 0);
                }
                _ => self.plain(),
            }
        }
    }

    fn plain(&mut self) {
        let class = self.class();
        let result = self.value(class);
        let mut operands = vec![result];
        let mut results = 1;
        if class == Class::R && self.random.chance(20) {
            operands.push(self.value(Class::P));
            results = 2;
        }
        for _ in 0..1 + self.random.below(3) {
            let class = if self.random.chance(70) && class.width <= 2 { Class { align: class.align, ..class } } else { Class::R };
            operands.push(self.source(class));
        }
        self.machine(Opcode::IADD3, None, &operands, results);
        operands[..results].iter().for_each(|&result| self.keep(result));
    }

    fn constant(&mut self) {
        let result = self.value(Class::R);
        let number = (self.random.below(100_000) as i64).into();
        self.machine(Opcode::MOV, None, &[result, number], 1);
        self.keep(result);
    }

    fn guarded(&mut self) {
        let class = self.class();
        let (Some(guard), Some(tied)) = (self.guard(), self.pick(class)) else { return };
        let result = self.value(class);
        let source = self.source(class);
        let tied: Operand = self.function.whole(tied).into();
        let number = self.number(class);
        let tied = if self.random.chance(10) && class.width == 1 { number } else { tied };
        let operands = [result, source, tied.with_role(Role::Tied(0))];
        if self.random.chance(30) {
            self.append(Op::Pseudo(Pseudo::Copy), Some(guard), &operands, 1);
        } else if self.random.chance(20) {
            self.machine(Opcode::IADD3, Some(guard), &operands[..2], 1);
        } else {
            self.machine(Opcode::IADD3, Some(guard), &operands, 1);
        }
        self.keep(result);
    }

    fn pack(&mut self) {
        let class = if self.random.chance(60) { Class::R2 } else { Class::R4 };
        let result = self.value(class);
        let mut operands = vec![result];
        let mut left = class.width;
        while left > 0 {
            if left >= 2 && self.random.chance(30) {
                if let Some(value) = self.pick(Class::R2) {
                    operands.push(self.function.whole(value).into());
                    left -= 2;
                }
            } else {
                let class = if self.random.chance(10) { Class::UR } else { Class::R };
                operands.push(self.source(class));
                left -= 1;
            }
        }
        self.append(Op::Pseudo(Pseudo::Pack), None, &operands, 1);
        self.keep(result);
    }

    fn copy(&mut self) {
        let mut results = Vec::new();
        let mut sources = Vec::new();
        for _ in 0..1 + self.random.below(3) {
            let class = self.class();
            results.push(self.value(class));
            let from = if class == Class::R && self.random.chance(20) { Class::UR } else { class };
            sources.push(self.source(from));
        }
        let operands: Vec<Operand> = results.iter().chain(&sources).copied().collect();
        self.append(Op::Pseudo(Pseudo::Copy), None, &operands, results.len());
        results.into_iter().for_each(|result| self.keep(result));
    }

    fn barrier(&mut self) {
        if let Some(value) = self.pick(Class::B)
            && self.random.chance(50)
        {
            let source = self.function.whole(value).into();
            self.machine(Opcode::BSYNC, None, &[source], 0);
            return;
        }
        let result = self.value(Class::B);
        self.machine(Opcode::BSSY, None, &[result, 0.into()], 1);
        self.keep(result);
    }

    fn call(&mut self) {
        let results = [self.value(Class::R).with_role(Role::Fixed(4)), self.value(Class::R2).with_role(Role::Fixed(6))];
        let arguments = [
            self.pick(Class::R).map(|value| Operand::from(self.function.whole(value)).with_role(Role::Fixed(4))),
            self.pick(Class::R2).map(|value| Operand::from(self.function.whole(value)).with_role(Role::Fixed(6))),
            self.pick(Class::R4).map(|value| Operand::from(Part { value, first: 1, count: 2 }).with_role(Role::Fixed(8))),
            self.pick(Class::R2).map(Some).filter(|_| self.random.chance(30)).flatten().map(|value| self.function.whole(value).into()),
        ];
        let number = self.number(Class::R).with_role(Role::Fixed(11));
        let operands: Vec<Operand> = results.into_iter().chain(arguments.into_iter().flatten()).chain([number]).collect();
        self.machine(Opcode::CALL, None, &operands, 2);
        results.into_iter().for_each(|result| self.keep(result));
    }

    fn start(&mut self, block: Block) {
        self.function.layout.push(block);
        self.block = block;
    }

    fn jump(&mut self, guard: Option<Guard>, to: Block) {
        self.machine(Opcode::BRA, guard, &[to.into()], 0);
    }

    /// Appends phis that merge values of several predecessors, given as (block, values there). `outer` has the values that dominate the
    /// join.
    fn merge(&mut self, ends: &[(Block, Vec<Value>)], outer: &[Value]) {
        let mut results = Vec::new();
        for _ in 0..self.random.below(7) {
            let class = self.class();
            let result = self.value(class);
            let mut operands = vec![result];
            for (from, pool) in ends {
                self.pool = pool.clone();
                let source = if self.random.chance(5) { Operand::new(OperandKind::Undefined) } else { self.source(class) };
                operands.push(source);
                operands.push((*from).into());
            }
            self.append(Op::Pseudo(Pseudo::Phi), None, &operands, 1);
            results.push(result);
        }
        self.pool = outer.to_vec();
        results.into_iter().for_each(|result| self.keep(result));
    }

    /// Appends a conditional with or without an else branch.
    fn branch(&mut self) {
        let outer = self.newest();
        let (then, join) = (self.function.new_block(), self.function.new_block());
        let with_else = self.random.chance(50);
        let other = if with_else { self.function.new_block() } else { join };
        let mut ends = Vec::new();
        match self.guard() {
            Some(guard) => {
                self.jump(Some(guard), then);
                self.jump(None, other);
                if !with_else {
                    ends.push((self.block, outer.clone()));
                }
            }
            None => self.jump(None, then),
        }
        let reachable_else =
            with_else && self.function.blocks[self.block].insts.len() >= 2 && self.function.successors(self.block).contains(&other);
        self.start(then);
        let count = self.random.below(3);
        self.regions(count);
        self.jump(None, join);
        ends.push((self.block, self.newest()));
        if reachable_else {
            self.pool = outer.clone();
            self.start(other);
            let count = self.random.below(3);
            self.regions(count);
            self.jump(None, join);
            ends.push((self.block, self.newest()));
        }
        self.start(join);
        self.merge(&ends, &outer);
    }

    /// Appends a jump table.
    fn table(&mut self) {
        let outer = self.newest();
        let join = self.function.new_block();
        let cases: Vec<Block> = (0..2 + self.random.below(3)).map(|_| self.function.new_block()).collect();
        let index = self.source(Class::R2);
        let direct = self.random.chance(50);
        let mut operands = vec![index];
        operands.extend(cases.iter().map(|&block| Operand::from(block)));
        operands.push(cases[0].into());
        let mut ends = Vec::new();
        if direct {
            operands.push(join.into());
            ends.push((self.block, outer.clone()));
        }
        self.machine(Opcode::BRX, None, &operands, 0);
        for case in cases {
            self.pool = outer.clone();
            self.start(case);
            self.piece();
            self.jump(None, join);
            ends.push((self.block, self.newest()));
        }
        self.start(join);
        self.merge(&ends, &outer);
    }

    /// Appends a loop that is tested at the top or at the bottom. Without a predicate for the test, its body is executed once.
    fn cycle(&mut self) {
        let (header, after) = (self.function.new_block(), self.function.new_block());
        let before = self.block;
        self.jump(None, header);
        let outer = self.newest();
        self.start(header);
        let mut phis: Vec<(Class, Vec<Operand>)> = Vec::new();
        for _ in 0..self.random.below(9) {
            let class = self.class();
            let (result, source) = (self.value(class), self.source(class));
            phis.push((class, vec![result, source, before.into()]));
        }
        let places: Vec<Inst> = phis.iter().map(|(_, operands)| self.append(Op::Pseudo(Pseudo::Phi), None, operands, 1)).collect();
        self.pool = outer;
        phis.iter().for_each(|(_, operands)| self.pool.extend(operands[0].value()));
        if self.random.chance(30)
            && let Some(guard) = self.guard()
        {
            // A loop that is tested at the top.
            let body = self.function.new_block();
            self.jump(Some(guard), after);
            self.jump(None, body);
            let at_header = self.newest();
            self.start(body);
            let count = 1 + self.random.below(3);
            self.regions(count);
            self.jump(None, header);
            self.finish_cycle(&phis, &places);
            self.pool = at_header;
        } else {
            let count = 1 + self.random.below(3);
            self.regions(count);
            match self.guard() {
                Some(guard) => {
                    self.jump(Some(guard), header);
                    self.jump(None, after);
                    self.finish_cycle(&phis, &places);
                }
                None => {
                    self.jump(None, after);
                    for (inst, (_, operands)) in places.iter().zip(&phis) {
                        self.function.set_operands(*inst, operands, 1);
                    }
                }
            }
        }
        self.start(after);
    }

    /// Adds the sources for the back edge to the phis of a loop.
    fn finish_cycle(&mut self, phis: &[(Class, Vec<Operand>)], places: &[Inst]) {
        for (number, &inst) in places.iter().enumerate() {
            let (class, mut operands) = phis[number].clone();
            // Sometimes the source is another phi of the loop, so that phis exchange values.
            let exchanged = phis.iter().filter(|(other, _)| *other == class).nth(self.random.below(3)).map(|(_, operands)| operands[0]);
            let source = match exchanged {
                Some(result) if self.random.chance(30) => result,
                _ => self.source(class),
            };
            operands.extend([source, self.block.into()]);
            self.function.set_operands(inst, &operands, 1);
        }
    }
}
