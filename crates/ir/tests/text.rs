//! The text form: parsing a printed function gives the same function.

use crate::common::{Random, random_function};
use oriole_ir::text::{parse, print};
use oriole_ir::{
    Class, Function, FunctionKind, Guard, Location, MemoryAccess, Op, Opcode, Operand, OperandKind, Order, Part, Pseudo, Reference,
    ReferenceKind, RegFile, Role, Scope, Signs, Space, Symbol, construct_ssa,
};

/// Compares all contents of the blocks of two functions.
fn assert_same(one: &Function, other: &Function) {
    let header = |function: &Function| (function.name.clone(), function.kind, function.is_ssa, function.frame_bytes, function.frame_align);
    assert_eq!(header(one), header(other));
    assert_eq!((&one.layout, &one.symbols), (&other.layout, &other.symbols));
    for &block in &one.layout {
        let (mine, theirs) = (&one.blocks[block].insts, &other.blocks[block].insts);
        assert_eq!(mine.len(), theirs.len());
        for (&a, &b) in mine.iter().zip(theirs) {
            let access =
                |function: &Function, inst| -> Option<MemoryAccess> { function.insts[inst].memory.map(|id| function.accesses[id]) };
            assert_eq!(one.operands(a), other.operands(b), "{}", oriole_ir::text::print_inst(one, a));
            assert_eq!(access(one, a), access(other, b));
            let (x, y) = (&one.insts[a], &other.insts[b]);
            assert_eq!(
                (x.op, &x.modifiers, x.guard, x.location, x.result_count()),
                (y.op, &y.modifiers, y.guard, y.location, y.result_count())
            );
            for value in one.defined(a).chain(one.used(a).map(|part| part.value)) {
                assert_eq!(one.values[value], other.values[value]);
            }
        }
    }
}

fn round_trip(function: &Function) {
    let text = print(function);
    let read = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    assert_eq!(read.len(), 1);
    assert_eq!(print(&read[0]), text);
    assert_same(function, &read[0]);
}

#[test]
fn random_functions_are_read_back() {
    for seed in 0..200 {
        let mut random = Random::new(seed);
        let blocks = 1 + random.below(10);
        let mut function = random_function(&mut random, blocks, 8, false);
        round_trip(&function);
        construct_ssa(&mut function);
        round_trip(&function);
    }
}

/// Returns an operand of any kind, with any signs; it need not be meaningful.
fn random_operand(random: &mut Random, function: &mut Function, symbols: &[Symbol], names: &[Symbol]) -> Operand {
    let files =
        [RegFile::General, RegFile::Uniform, RegFile::Predicate, RegFile::UniformPredicate, RegFile::Convergence, RegFile::Scoreboard];
    let kind = match random.below(11) {
        0 | 1 => {
            let width = 1 + random.below(8) as u8;
            let mut class = Class::new(random.pick(&files), width);
            if random.chance(20) {
                class.align = 1 << random.below(4);
            }
            let value = function.new_value(class);
            let first = random.below(usize::from(width)) as u8;
            OperandKind::Value(Part { value, first, count: 1 + random.below(usize::from(width - first)) as u8 })
        }
        2 => OperandKind::Register { file: random.pick(&files), first: random.below(250) as u16, count: 1 + random.below(4) as u8 },
        3 => OperandKind::Zero(random.pick(&files)),
        4 => OperandKind::Integer((random.next() as i64).wrapping_mul(0x10001) >> random.below(60)),
        5 => OperandKind::Constant { bank: random.below(8) as u8, offset: random.below(1 << 16) as u32 },
        6 => OperandKind::Name(random.pick(names)),
        7 => OperandKind::Set(random.next()),
        8 => OperandKind::Block(function.entry()),
        9 => OperandKind::Undefined,
        _ => {
            use ReferenceKind::{Call, FunctionHigh, FunctionLow, High, Low};
            let symbol = function.symbol(["_Z5tablePf", "other$1"][random.below(2)]);
            let offset = random.pick(&[0, 4, -8, i32::MIN, i32::MAX]);
            OperandKind::Reference(Reference { symbol, offset, kind: random.pick(&[Low, High, FunctionLow, FunctionHigh, Call]) })
        }
    };
    let mut operand = Operand::new(kind);
    for sign in [Signs::NEGATE, Signs::INVERT, Signs::NOT, Signs::ABSOLUTE] {
        if random.chance(15) {
            operand.signs = operand.signs.with(sign);
        }
    }
    // Names have no signs, and a suffix after a name would be parsed as a part of the name.
    if matches!(kind, OperandKind::Name(_)) {
        operand.signs = Signs::NONE;
    } else {
        for slot in 0..random.below(3) {
            operand.suffixes[slot] = random.pick(symbols);
        }
    }
    operand
}

fn random_inst(random: &mut Random, function: &mut Function, symbols: &[Symbol], names: &[Symbol], words: &[Symbol]) {
    let opcodes: Vec<Opcode> = Opcode::all().collect();
    let op = if random.chance(15) { Op::Pseudo(random.pick(&Pseudo::ALL)) } else { Op::Machine(random.pick(&opcodes)) };
    let mut operands: Vec<Operand> = Vec::new();
    let results = random.below(3);
    for _ in 0..results {
        let class = Class::new(random.pick(&[RegFile::General, RegFile::Predicate, RegFile::Uniform]), 1 + random.below(4) as u8);
        let value = function.new_value(class);
        operands.push(function.whole(value).into());
    }
    for _ in 0..random.below(5) {
        if random.chance(20) {
            let mut opening = Operand::new(OperandKind::Address(random.pick(words)));
            if random.chance(30) {
                opening = opening.with_suffix(random.pick(symbols));
            }
            operands.push(opening);
            for bracket in 0..=random.below(2) as u8 {
                for _ in 0..=random.below(2) {
                    let piece = random_operand(random, function, symbols, names);
                    // Constant-bank operands do not occur in brackets.
                    if !matches!(piece.kind, OperandKind::Constant { .. }) {
                        operands.push(piece.with_role(Role::Bracket(bracket)));
                    }
                }
            }
        } else {
            let role = random.pick(&[Role::Plain, Role::Plain, Role::Plain, Role::Tied(0), Role::Tied(1), Role::Fixed(9)]);
            operands.push(random_operand(random, function, symbols, names).with_role(role));
        }
    }
    let modifiers = (0..random.below(4)).map(|_| random.pick(symbols)).collect();
    let guard = random.chance(30).then(|| Guard { kind: OperandKind::Zero(RegFile::Predicate), negated: random.chance(50) });
    let inst = function.new_inst(op, modifiers, guard, &operands, results);
    if random.chance(30) {
        let access = MemoryAccess {
            space: random.pick(&[Space::Generic, Space::Global, Space::Shared, Space::Local, Space::Constant, Space::Spill]),
            bytes: 1 << random.below(6),
            scope: random.pick(&[Scope::Thread, Scope::Block, Scope::Cluster, Scope::Gpu, Scope::System]),
            order: random.pick(&[
                Order::Weak,
                Order::Relaxed,
                Order::Acquire,
                Order::Release,
                Order::AcquireRelease,
                Order::SequentiallyConsistent,
            ]),
            volatile: random.chance(20),
            constant: random.chance(20),
        };
        function.insts[inst].memory = Some(function.accesses.push(access));
    }
    if random.chance(30) {
        function.insts[inst].location = Location { statement: random.below(9999) as u32, line: random.below(99) as u32 };
    }
    let entry = function.entry();
    function.blocks[entry].insts.push(inst);
}

#[test]
fn any_instruction_is_read_back() {
    let symbols: Vec<Symbol> = Symbol::all().filter(|symbol| symbol.spelling().starts_with('.')).collect();
    let is_register_or_number = |name: &str| matches!(name, "0x0" | "URZ");
    let is_name = |symbol: &Symbol| !symbol.spelling().starts_with('.') && !symbol.spelling().is_empty();
    let names: Vec<Symbol> = Symbol::all().filter(|symbol| is_name(symbol) && !is_register_or_number(symbol.spelling())).collect();
    let words: Vec<Symbol> = ["", "desc", "cx", "tmem"].map(|word| Symbol::find(word).unwrap()).to_vec();
    for seed in 0..400 {
        let mut random = Random::new(seed);
        let mut function = Function::new("any.name$", [FunctionKind::Kernel, FunctionKind::Device][random.below(2)]);
        function.frame_bytes = random.below(3) as u32 * 8;
        function.frame_align = random.pick(&[4, 8, 16]);
        let entry = function.new_block();
        function.layout.push(entry);
        for _ in 0..8 {
            random_inst(&mut random, &mut function, &symbols, &names, &words);
        }
        round_trip(&function);
    }
}

#[test]
fn mistakes_are_named_with_their_line() {
    let wrong = |body: &str| parse(&format!("func kernel @k {{\nbb0:\n    {body}\n}}\n")).unwrap_err();
    for (body, word) in [
        ("%0:R = FADDD RZ, RZ", "FADDD"),
        ("%0:R = FADD.QQ RZ, RZ", ".QQ"),
        ("%0:R = FADD %zz, RZ", "number"),
        ("%0:R = FADD RZ, nothing", "nothing"),
        ("%0:Q = FADD RZ, RZ", "register file"),
        ("%0:R = LDG desc[RZ][RZ", "bracket"),
        ("%0:R = LDG [RZ] !nowhere.4", "nowhere"),
        ("BRA bbx", "bbx"),
        ("EXIT 1 2", "too much"),
    ] {
        let error = wrong(body);
        assert!(error.line == 3 && error.message.contains(word), "{body}: {error}");
    }
    let undefined = wrong("KEEP %4");
    assert!(undefined.message.contains("%4"), "{undefined}");
    assert!(parse("func kernel @k {\nbb0:\n").unwrap_err().message.contains("no end"));
}
