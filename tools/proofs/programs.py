"""Random PTX programs on integers and predicates, with what they compute as terms of z3.

The meaning of each statement is that of the PTX manual. Registers are assigned several times; some statements have a guard, and some groups of
statements are skipped by a branch. Programs read their inputs from memory and store all registers at the end.
"""

import random

import z3

from meaning import bits, lookup, product, truth, widen, widen_signed

WORDS, LONGS, PREDICATES = 6, 4, 3
NUMBERS = [0, 1, 2, 3, 4, 5, 7, 8, 15, 16, 24, 31, 32, 33, 63, 64, 0x7F, 0x80, 0xFF, 0x100, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
ORDERS = {"lt": ("<", z3.ULT), "le": ("<=", z3.ULE), "gt": (">", z3.UGT), "ge": (">=", z3.UGE)}


def clamped(amount, width):
    """Returns a shift distance of 32 bits as one of `width` bits; larger distances than the width count as the width."""
    limit = z3.If(z3.ULT(amount, z3.BitVecVal(width, 32)), amount, z3.BitVecVal(width, 32))
    return limit if width == 32 else widen(limit, width)


def relation(name, a, b, signed):
    if name == "eq":
        return a == b
    if name == "ne":
        return a != b
    if not signed:
        return ORDERS[name][1](a, b)
    return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[name]


def extract(a, position, length, signed):
    """bfe: `length` bits of a word from `position` on; both are the lowest 8 bits of a word."""
    position, length = position & 0xFF, length & 0xFF
    field = a >> clamped(position, 32) if signed else z3.LShR(a, clamped(position, 32))
    unused = z3.BitVecVal(32, 32) - clamped(length, 32)
    shifted = field << unused
    return z3.If(length == 0, z3.BitVecVal(0, 32), shifted >> unused if signed else z3.LShR(shifted, unused))


def insert(a, b, position, length):
    """bfi: `b` with the lowest `length` bits of `a` at `position`."""
    one = z3.BitVecVal(1, 64)
    position, length = widen(clamped(position & 0xFF, 32)), widen(clamped(length & 0xFF, 32))
    mask = bits(((one << length) - one) << position, 31, 0)
    return (b & ~mask) | (bits(widen(a) << position, 31, 0) & mask)


class Program:
    """A program: its text and, for each store, the address offset and the value."""

    def __init__(self, seed, statements, base):
        """`base(offset, words)` returns the memory at an offset of the buffer, as words."""
        self.random = random.Random(seed)
        self.lines = []
        self.words = [base(4 * at, 1)[0] for at in range(WORDS)]
        self.longs = [z3.Concat(*reversed(base(64 + 8 * at, 2))) for at in range(LONGS)]
        self.predicates = []
        self.guard = None
        for at in range(WORDS):
            self.lines.append(f"ld.global.u32 %r{at}, [%base+{4 * at}];")
        for at in range(LONGS):
            self.lines.append(f"ld.global.u64 %d{at}, [%base+{64 + 8 * at}];")
        for at in range(PREDICATES):
            self.lines.append(f"setp.lt.u32 %p{at}, %r{at}, %r{at + 1};")
            self.predicates.append(z3.ULT(self.words[at], self.words[at + 1]))
        self.statements(statements)
        self.stores = []
        for at in range(WORDS):
            self.store(f"st.global.u32 [%base+{128 + 4 * at}], %r{at};", 128 + 4 * at, self.words[at])
        for at in range(LONGS):
            self.store(f"st.global.u64 [%base+{192 + 8 * at}], %d{at};", 192 + 8 * at, self.longs[at])
        for at in range(PREDICATES):
            self.lines.append(f"selp.u32 %r0, 1, 0, %p{at};")
            self.store(f"st.global.u32 [%base+{256 + 4 * at}], %r0;", 256 + 4 * at, truth(self.predicates[at]))

    def text(self, target):
        body = "\n    ".join(self.lines)
        return (
            f".version 8.0\n.target {target}\n.address_size 64\n.visible .entry k(.param .u64 buffer) {{\n"
            "    .reg .b32 %r<16>; .reg .b64 %d<8>, %base; .reg .pred %p<8>;\n"
            f"    ld.param.u64 %base, [buffer];\n    {body}\n    ret;\n}}\n"
        )

    def store(self, line, offset, term):
        self.lines.append(line)
        self.stores.append((offset, term))

    def statements(self, count):
        labels = 0
        while count > 0:
            if self.random.random() < 0.08 and self.guard is None and count > 3:
                length = self.random.randint(1, min(6, count - 1))
                at = self.random.randrange(PREDICATES)
                self.lines.append(f"@%p{at} bra L{labels};")
                saved = list(self.words), list(self.longs), list(self.predicates)
                skips = self.predicates[at]
                for _ in range(length):
                    self.statement()
                self.lines.append(f"L{labels}:")
                for now, before in zip((self.words, self.longs, self.predicates), saved):
                    now[:] = [z3.If(skips, old, new) for old, new in zip(before, now)]
                labels, count = labels + 1, count - length - 1
                continue
            if self.random.random() < 0.1:
                self.guard = self.random.randrange(PREDICATES), self.random.random() < 0.5
            self.statement()
            self.guard, count = None, count - 1

    # Operands: each function returns the text and the term.

    def word(self, may_be_number=True):
        if may_be_number and self.random.random() < 0.3:
            number = self.random.choice(NUMBERS) if self.random.random() < 0.8 else self.random.getrandbits(32)
            return str(number), z3.BitVecVal(number, 32)
        at = self.random.randrange(WORDS)
        return f"%r{at}", self.words[at]

    def number(self, limit=1 << 32):
        number = self.random.choice(NUMBERS) % limit
        return str(number), z3.BitVecVal(number, 32)

    def long(self, may_be_number=True):
        if may_be_number and self.random.random() < 0.25:
            number = self.random.choice(NUMBERS) << self.random.choice([0, 0, 8, 32]) & 0xFFFFFFFFFFFFFFFF
            return str(number), z3.BitVecVal(number, 64)
        at = self.random.randrange(LONGS)
        return f"%d{at}", self.longs[at]

    def predicate(self):
        at = self.random.randrange(PREDICATES)
        return f"%p{at}", self.predicates[at]

    def assign(self, registers, prefix, text, term):
        """Adds a statement whose text has `@` in the place of its result."""
        at = self.random.randrange(len(registers))
        guard = ""
        if self.guard is not None:
            number, inverted = self.guard
            holds = self.predicates[number]
            guard = f"@{'!' if inverted else ''}%p{number} "
            term = z3.If(z3.Not(holds) if inverted else holds, term, registers[at])
        self.lines.append(guard + text.replace("@", f"%{prefix}{at}") + ";")
        registers[at] = term

    def assign_word(self, text, term):
        self.assign(self.words, "r", text, term)

    def assign_long(self, text, term):
        self.assign(self.longs, "d", text, term)

    def statement(self):
        kinds = [
            *[self.arithmetic] * 5, *[self.logic] * 4, *[self.shifts] * 4, self.products, *[self.fields] * 3, *[self.compare] * 3,
            *[self.select] * 2, self.predicate_logic, *[self.convert] * 4, self.bit_functions, self.carries, self.funnel, self.bytes,
        ]
        self.random.choice(kinds)()

    def sized(self):
        """Returns the width, and functions for an operand and for an assignment of that width."""
        return (32, self.word, self.assign_word) if self.random.random() < 0.6 else (64, self.long, self.assign_long)

    def arithmetic(self):
        width, operand, assign = self.sized()
        (a, x), (b, y) = operand(False), operand()
        name = self.random.choice(["add", "sub", "min", "max", "neg", "abs", "sub", "add"])
        signed = self.random.random() < 0.5
        ty = f"{'s' if signed or name in ('neg', 'abs') else 'u'}{width}"
        if name == "neg":
            assign(f"neg.{ty} @, {a}", -x)
        elif name == "abs":
            assign(f"abs.{ty} @, {a}", z3.If(x < 0, -x, x))
        else:
            less = x < y if signed else z3.ULT(x, y)
            terms = {"add": x + y, "sub": x - y, "min": z3.If(less, x, y), "max": z3.If(less, y, x)}
            if name == "sub" and self.random.random() < 0.3:
                a, b, terms["sub"] = b, a, y - x
            assign(f"{name}.{ty} @, {a}, {b}", terms[name])

    def logic(self):
        width, operand, assign = self.sized()
        (a, x), (b, y) = operand(False), operand()
        name = self.random.choice(["and", "or", "xor", "not", "lop3"])
        if name == "not":
            assign(f"not.b{width} @, {a}", ~x)
        elif name == "lop3":
            (a, x), (b, y), (c, z) = self.word(False), self.word(), self.word()
            table = self.random.getrandbits(8)
            self.assign_word(f"lop3.b32 @, {a}, {b}, {c}, {table}", lookup(table, x, y, z))
        else:
            assign(f"{name}.b{width} @, {a}, {b}", {"and": x & y, "or": x | y, "xor": x ^ y}[name])

    def shifts(self):
        width, operand, assign = self.sized()
        (a, x), (b, y) = operand(False), self.number() if self.random.random() < 0.7 else self.word(False)
        kind = self.random.choice(["shl.b", "shr.u", "shr.s"])
        amount = clamped(y, width)
        assign(f"{kind}{width} @, {a}, {b}", {"shl.b": x << amount, "shr.u": z3.LShR(x, amount), "shr.s": x >> amount}[kind])

    def products(self):
        (a, x), (b, y) = self.word(False), self.number()
        kind = self.random.choice(["lo", "wide.u32", "wide.s32", "mad", "mad.wide.u32", "mad.wide.s32"])
        if kind == "lo":
            self.assign_word(f"mul.lo.u32 @, {a}, {b}", x * y)
        elif kind == "mad":
            c, z = self.word()
            self.assign_word(f"mad.lo.s32 @, {a}, {b}, {c}", x * y + z)
        elif kind.startswith("wide"):
            self.assign_long(f"mul.{kind} @, {a}, {b}", product(x, y, kind.endswith("s32")))
        else:
            c, z = self.long(False)
            self.assign_long(f"{kind} @, {a}, {b}, {c}", product(x, y, kind.endswith("s32")) + z)

    def fields(self):
        (a, x), (b, y) = self.word(False), self.word()
        (c, position), (d, length) = [self.number(256) if self.random.random() < 0.8 else self.word(False) for _ in range(2)]
        kind = self.random.choice(["u32", "s32", "insert"])
        if kind == "insert":
            self.assign_word(f"bfi.b32 @, {a}, {b}, {c}, {d}", insert(x, y, position, length))
        else:
            self.assign_word(f"bfe.{kind} @, {a}, {c}, {d}", extract(x, position, length, kind == "s32"))

    def compare(self):
        width, operand, _ = self.sized()
        (a, x), (b, y) = operand(False), operand()
        name, signed = self.random.choice(["eq", "ne", *ORDERS]), self.random.random() < 0.5
        term, text = relation(name, x, y, signed), f"setp.{name}"
        if self.random.random() < 0.4:
            joined, (other, holds) = self.random.choice(["and", "or", "xor"]), self.predicate()
            inverted = self.random.random() < 0.3
            holds = z3.Not(holds) if inverted else holds
            term = {"and": z3.And, "or": z3.Or, "xor": z3.Xor}[joined](term, holds)
            text += f".{joined}.{'s' if signed else 'u'}{width} @, {a}, {b}, {'!' if inverted else ''}{other}"
        else:
            text += f".{'s' if signed else 'u'}{width} @, {a}, {b}"
        self.assign(self.predicates, "p", text, term)

    def select(self):
        width, operand, assign = self.sized()
        (a, x), (b, y), (p, holds) = operand(), operand(), self.predicate()
        assign(f"selp.b{width} @, {a}, {b}, {p}", z3.If(holds, x, y))

    def predicate_logic(self):
        (a, x), (b, y) = self.predicate(), self.predicate()
        name = self.random.choice(["and", "or", "xor", "not"])
        if name == "not":
            self.assign(self.predicates, "p", f"not.pred @, {a}", z3.Not(x))
        else:
            self.assign(self.predicates, "p", f"{name}.pred @, {a}, {b}", {"and": z3.And, "or": z3.Or, "xor": z3.Xor}[name](x, y))

    def convert(self):
        kind = self.random.choice(["u64.u32", "s64.s32", "u32.u64", "s32.s8", "s32.s16", "u32.u8", "u32.u16", "pack", "low", "high"])
        if kind == "pack":
            (a, x), (b, y) = self.word(False), self.word(False)
            self.assign_long(f"mov.b64 @, {{{a}, {b}}}", z3.Concat(y, x))
        elif kind in ("low", "high"):
            a, x = self.long(False)
            parts = ("@", "%r15") if kind == "low" else ("%r15", "@")
            self.assign_word(f"mov.b64 {{{parts[0]}, {parts[1]}}}, {a}", bits(x, 31, 0) if kind == "low" else bits(x, 63, 32))
        elif kind == "u32.u64":
            a, x = self.long(False)
            self.assign_word(f"cvt.{kind} @, {a}", bits(x, 31, 0))
        elif kind.endswith("32"):
            a, x = self.word(False)
            self.assign_long(f"cvt.{kind} @, {a}", widen_signed(x) if kind[0] == "s" else widen(x))
        else:
            a, x = self.word(False)
            part = bits(x, int(kind.split(".")[1][1:]) - 1, 0)
            self.assign_word(f"cvt.{kind} @, {a}", widen_signed(part, 32) if kind[0] == "s" else widen(part, 32))

    def bit_functions(self):
        a, x = self.word(False)
        kind = self.random.choice(["popc", "clz", "brev"])
        if kind == "popc":
            total = z3.BitVecVal(0, 32)
            for at in range(32):
                total = total + widen(bits(x, at, at), 32)
        elif kind == "clz":
            total = z3.BitVecVal(32, 32)
            for at in range(32):
                total = z3.If(bits(x, at, at) == 1, z3.BitVecVal(31 - at, 32), total)
        else:
            total = z3.Concat(*[bits(x, at, at) for at in range(32)])
        self.assign_word(f"{kind}.b32 @, {a}", total)

    def carries(self):
        """A sum or difference of two or three words; the guard would split it, so it has none."""
        self.guard = None
        name, limbs = self.random.choice(["add", "sub"]), self.random.choice([2, 3])
        targets = self.random.sample(range(WORDS), limbs)
        operands = [(self.word(False), self.word()) for _ in range(limbs)]
        width = 32 * limbs
        x, y = (z3.Concat(*reversed([operand[side][1] for operand in operands])) for side in (0, 1))
        total = x + y if name == "add" else x - y
        # Later limbs must not read results of earlier ones.
        for at, (((a, _), (b, _)), target) in enumerate(zip(operands, targets)):
            suffix = "c" if at else ""
            last = "" if at == limbs - 1 else ".cc"
            self.lines.append(f"{name}{suffix}{last}.u32 %r{8 + at}, {a}, {b};")
        for at, target in enumerate(targets):
            self.lines.append(f"mov.u32 %r{target}, %r{8 + at};")
            self.words[target] = bits(total, 32 * at + 31, 32 * at)
        assert total.size() == width

    def funnel(self):
        (a, x), (b, y) = self.word(False), self.word(False)
        c, amount = self.number() if self.random.random() < 0.7 else self.word(False)
        side, mode = self.random.choice("lr"), self.random.choice(["clamp", "wrap"])
        distance = widen(amount & 31 if mode == "wrap" else clamped(amount, 32))
        pair = z3.Concat(y, x)
        term = bits(pair << distance, 63, 32) if side == "l" else bits(z3.LShR(pair, distance), 31, 0)
        self.assign_word(f"shf.{side}.{mode}.b32 @, {a}, {b}, {c}", term)

    def bytes(self):
        (a, x), (b, y) = self.word(False), self.word()
        selector = self.random.choice([0x3210, 0x5410, 0x7632, 0x4321, 0x0123, 0x4440, 0x7770, 0x3340, 0x8880, 0x9910, self.random.getrandbits(16)])
        pair, result = z3.Concat(y, x), []
        for place in range(4):
            digit = selector >> 4 * place & 0xF
            byte = bits(pair, 8 * (digit & 7) + 7, 8 * (digit & 7))
            result.insert(0, z3.If(bits(byte, 7, 7) == 1, z3.BitVecVal(0xFF, 8), z3.BitVecVal(0, 8)) if digit & 8 else byte)
        self.assign_word(f"prmt.b32 @, {a}, {b}, {selector}", z3.Concat(*result))
