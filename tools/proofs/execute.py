"""Executes a function of Ori without loops on terms of z3, and lists what can be observed of it.

Values of floating-point instructions, memory and special registers are uninterpreted functions: two executions agree on them if the same
operation has the same operands, after the same number of effects. That proves rewrites of integers, predicates and signs; rewrites that need
the arithmetic of floats are tested by execution instead (`crates/opt/tests/combine_rules.rs`).
"""

import re
from dataclasses import dataclass

import z3

import halves
import meaning
from meaning import bits, widen, word
from ori import Unsupported

FLOAT = re.compile(r"(F|D|H)(ADD|MUL|FMA|SETP|MNMX|SEL|SWZADD|CHK)|FFMA|DFMA|HFMA2|MUFU|F2|FRND")
COMMUTATIVE = re.compile(r"(FADD|FMUL|DADD|DMUL|FFMA|DFMA)(\.|$)")
# Instructions that change no value and touch no memory.
SILENT = re.compile(r"(NOP|BSSY|BSYNC|BREAK|WARPSYNC|YIELD|BMOV)(\.|$)")
# Atomic operations have results and an effect.
ATOMIC = re.compile(r"(ATOM|ATOMG|ATOMS|SUATOM)(\.|$)")


@dataclass
class Effect:
    """Something that can be observed: where `condition` holds, an operation with these operands."""

    condition: object
    name: str
    operands: list


class Execution:
    """The values and effects of one function."""

    def __init__(self, function):
        self.values = {}
        self.effects = []
        self.function = function
        # The condition under which a block runs, and under which control goes from one block to another.
        self.runs, self.edges = {}, {}

    def run(self):
        names = [name for name, _ in self.function.blocks]
        if not names:
            raise Unsupported("a function without blocks")
        self.runs[names[0]] = z3.BoolVal(True)
        for name, insts in self.ordered():
            incoming = [condition for (_, target), condition in self.edges.items() if target == name]
            if name != names[0]:
                self.runs[name] = z3.Or(*incoming) if incoming else z3.BoolVal(False)
            self.block(name, insts)
        return self

    def ordered(self):
        """Returns the blocks such that each follows all that lead to it."""
        blocks = dict(self.function.blocks)
        targets = {name: self.targets(insts) for name, insts in self.function.blocks}
        order, state = [], {}

        def visit(name):
            if state.get(name) == "open":
                raise Unsupported("a loop")
            if name in state:
                return
            state[name] = "open"
            for target in targets[name]:
                visit(target)
            state[name] = "done"
            order.append(name)

        visit(self.function.blocks[0][0])
        return [(name, blocks[name]) for name in reversed(order)]

    @staticmethod
    def targets(insts):
        found = []
        for inst in insts:
            if inst.opcode.startswith("BRA"):
                found.append(inst.sources[-1].text)
            elif inst.opcode.startswith(("BRX", "JMX", "CALL", "RET")):
                raise Unsupported(inst.opcode)
        return found

    def block(self, name, insts):
        here = self.runs[name]
        for inst in insts:
            guard = self.predicate(inst.guard) if inst.guard else z3.BoolVal(True)
            if inst.opcode.startswith("BRA"):
                if len(inst.sources) > 1:
                    guard = z3.And(guard, *[self.predicate(source) for source in inst.sources[:-1]])
                edge = (name, inst.sources[-1].text)
                self.edges[edge] = z3.Or(self.edges.get(edge, z3.BoolVal(False)), z3.And(here, guard))
                here = z3.And(here, z3.Not(guard))
            elif inst.opcode == "EXIT":
                here = z3.And(here, z3.Not(guard))
            elif inst.opcode == "PHI":
                self.phi(name, inst)
            elif not SILENT.match(inst.opcode):
                self.execute(inst, z3.And(here, guard), guard)

    def phi(self, name, inst):
        result = inst.results[0]
        chosen = None
        for at in range(0, len(inst.sources), 2):
            source, origin = inst.sources[at], inst.sources[at + 1].text
            if source.text == "undef":
                continue
            arm = self.all_parts(source, result)
            condition = self.edges[(origin, name)]
            chosen = arm if chosen is None else [z3.If(condition, new, old) for new, old in zip(arm, chosen)]
        self.values[result.value] = chosen

    def all_parts(self, source, result):
        if result.file.endswith("P"):
            return [self.predicate(source)]
        if source.kind == "number":
            bits_of_source = source.value & 0xFFFFFFFFFFFFFFFF
            return [word(bits_of_source >> 32 * at & 0xFFFFFFFF) for at in range(result.count)]
        words = self.words(source)
        return words * result.count if source.kind == "zero" else words

    # Operands

    def predicate(self, operand):
        if operand.kind == "true":
            term = z3.BoolVal(True)
        elif operand.kind == "value":
            term = self.values[operand.value][0]
            if not isinstance(term, z3.BoolRef):
                raise Unsupported(f"predicate {operand.text}")
        else:
            raise Unsupported(f"predicate {operand.text}")
        return z3.Not(term) if operand.invert else term

    def words(self, operand):
        """Returns the words of an operand without its signs."""
        if operand.kind == "value":
            words = self.values.get(operand.value)
            if words is None:
                raise Unsupported(f"value %{operand.value} before its definition")
            first, last = operand.parts or (0, len(words) - 1)
            return words[first : last + 1]
        if operand.kind == "number":
            return [word(operand.value)]
        if operand.kind == "zero":
            return [word(0)]
        if operand.kind == "constant":
            return [z3.BitVec(operand.text, 32)]
        raise Unsupported(f"operand {operand.text}")

    def integer(self, operand):
        """Returns a word with the signs of an integer operand."""
        if operand.suffix or operand.absolute:
            raise Unsupported(f"operand {operand.text}")
        words = self.words(operand)
        if len(words) != 1 or isinstance(words[0], z3.BoolRef):
            raise Unsupported(f"operand {operand.text} of several words")
        term = -words[0] if operand.negate else words[0]
        return ~term if operand.invert else term

    def pair(self, operand):
        """Returns two words as one term of 64 bits; a number is extended with its sign, and a constant names two words."""
        if operand.kind == "constant":
            bank, offset = re.findall(r"0x([0-9a-f]+)", operand.text)
            term = z3.Concat(z3.BitVec(f"c[0x{bank}][0x{int(offset, 16) + 4:x}]", 32), z3.BitVec(operand.text, 32))
        else:
            words = self.words(operand)
            if len(words) == 1 and operand.kind in ("number", "zero"):
                term = z3.BitVecVal(operand.value if operand.kind == "number" else 0, 64)
            elif len(words) == 2:
                term = z3.Concat(words[1], words[0])
            else:
                raise Unsupported(f"operand {operand.text} as a pair")
        term = -term if operand.negate else term
        return ~term if operand.invert else term

    # Instructions

    def execute(self, inst, condition, guard):
        terms = self.results_of(inst, condition)
        for number, (result, term) in enumerate(zip(inst.results, terms)):
            if result.value is None or term is None:
                continue
            if inst.guard is not None:
                old = inst.otherwise.get(number)
                kept = self.all_parts(old, result) if old else self.unknown(f"unwritten %{result.value}", result)
                term = [z3.If(guard, new, before) for new, before in zip(term, kept)]
            self.values[result.value] = [z3.simplify(part) for part in term]

    def unknown(self, name, result):
        if result.file.endswith("P"):
            return [z3.Bool(name)]
        return [z3.BitVec(f"{name}[{at}]", 32) for at in range(result.count)]

    def results_of(self, inst, condition):
        """Returns the words or predicates of each result."""
        opcode, *modifiers = inst.opcode.split(".")
        base = opcode[1:] if re.match(r"U(MOV|IADD3|IMAD|LOP3|SHF|ISETP|SEL|PRMT|PLOP3|POPC|FLO|BREV|SGXT|BMSK|LEA)$", opcode) else opcode
        if opcode in ("LDG", "LDS", "LDL", "LD"):
            found = self.load(inst)
            if found is not None:
                return found
        handler = HANDLERS.get(base)
        if handler:
            found = handler(self, inst, modifiers)
            if found is not None:
                return found
        return self.opaque(inst, condition)

    def load(self, inst):
        """A load of general registers: each word is a function of its address, of the memory space, and of the number of earlier effects."""
        opcode, *modifiers = inst.opcode.split(".")
        address = next((source for source in inst.sources if source.kind == "address"), None)
        if address is None or len(inst.results) != 1 or len(inst.sources) > 1:
            return None
        shape, [start] = self.address(address)
        sizes = {"U8", "S8", "U16", "S16", "64", "128"}
        kind = " ".join([opcode, *(name for name in modifiers if name not in sizes), shape, f"after {len(self.effects)}"])
        words = [self.function_of(kind, [start + 4 * at], z3.BitVecSort(32)) for at in range(inst.results[0].count)]
        for size in sizes.intersection(modifiers) - {"64", "128"}:
            part = bits(words[0], int(size[1:]) - 1, 0)
            words = [meaning.widen_signed(part, 32) if size[0] == "S" else widen(part, 32)]
        return [words]

    def opaque(self, inst, condition):
        """An instruction whose meaning is left open: an effect, or a function of its operands and of the number of earlier effects."""
        name, operands = inst.opcode, []
        is_float = bool(FLOAT.match(inst.opcode))
        width = 64 if re.match(r"D(ADD|MUL|FMA|SETP)", inst.opcode) else 0
        if match := re.match(r"ST\w*\..*\b(64|128)$", inst.opcode):
            width = int(match[1])
        for source in inst.sources:
            if source.kind == "address":
                shape, used = self.address(source)
                name += " " + shape
                operands += used
            elif source.kind in ("other", "true"):
                name += " " + source.text
            else:
                operands.append(self.opaque_operand(source, is_float, width))
                name += " #" + source.suffix
        if COMMUTATIVE.match(inst.opcode) and operands[0].size() == operands[1].size():
            swap = z3.ULT(operands[1], operands[0])
            operands[:2] = [z3.If(swap, operands[1], operands[0]), z3.If(swap, operands[0], operands[1])]
        reads_memory = re.match(r"(LD|SULD|TEX|TLD|TXQ|LDC|ULDC)", inst.opcode) and not re.match(r"U?LDC", inst.opcode)
        if not inst.results or ATOMIC.match(inst.opcode):
            version = len(self.effects)
            self.effects.append(Effect(condition, name, operands))
        else:
            version = len(self.effects) if reads_memory else None
        results = []
        for number, result in enumerate(inst.results):
            label = f"{name} -> {number}" + ("" if version is None else f" after {version}")
            if result.file.endswith("P"):
                results.append([self.function_of(label, operands, z3.BoolSort())])
            else:
                results.append([self.function_of(f"{label}[{at}]", operands, z3.BitVecSort(32)) for at in range(result.count)])
        return results

    @staticmethod
    def function_of(label, operands, sort):
        if not operands:
            return z3.Const(label, sort)
        sorts = [operand.sort() for operand in operands]
        return z3.Function(f"{label} {sorts}", *sorts, sort)(*operands)

    def wide_constant(self, source, width, is_float):
        """Returns an operand of 64 or 128 bits that is no register; a number in a double instruction is the upper half of the double."""
        if source.kind == "number" and is_float:
            return z3.BitVecVal(source.value << width - 32, width)
        if source.kind == "constant":
            if width != 64:
                raise Unsupported(f"operand {source.text} of {width} bits")
            bank, offset = re.findall(r"0x([0-9a-f]+)", source.text)
            return z3.Concat(z3.BitVec(f"c[0x{bank}][0x{int(offset, 16) + 4:x}]", 32), z3.BitVec(source.text, 32))
        if source.kind in ("number", "zero"):
            return z3.BitVecVal(source.value if source.kind == "number" else 0, width)
        raise Unsupported(f"operand {source.text} of {width} bits")

    def opaque_operand(self, source, is_float, width=0):
        if source.kind == "true":
            return self.predicate(source)
        if width and source.kind != "value":
            term = self.wide_constant(source, width, is_float)
            top = z3.BitVecVal(1 << width - 1, width)
            term = term & ~top if source.absolute else term
            return term ^ top if source.negate and is_float else -term if source.negate else term
        words = self.words(source)
        if isinstance(words[0], z3.BoolRef):
            return self.predicate(source)
        term = words[0] if len(words) == 1 else z3.Concat(*reversed(words))
        top = z3.BitVecVal(1 << term.size() - 1, term.size())
        if source.absolute:
            if not is_float:
                raise Unsupported(f"operand {source.text}")
            term = term & ~top
        if source.negate:
            term = term ^ top if is_float else -term
        return ~term if source.invert else term

    def address(self, source):
        """Returns the shape of an address operand and the terms in it; the parts of a simple address are added."""
        text = source.text
        descriptor = re.match(r"desc\[([^\]]*)\]", text)
        inner = re.search(r"\[([^\[\]]*(?:\[\d+(?::\d+)?\][^\[\]]*)*)\]$", text)[1]
        is_wide = ".64" in inner
        total = z3.BitVecVal(0, 64 if is_wide else 32)
        rest = []
        for part in re.findall(r"[+-]?[^+-]+", inner):
            sign = -1 if part.startswith("-") else 1
            part = part.lstrip("+-")
            name = re.sub(r"\.(64|U32)$", "", part)
            if re.fullmatch(r"0x[0-9a-f]+|\d+", name):
                total = total + z3.BitVecVal(sign * int(name, 0), total.size())
            elif name in ("RZ", "URZ"):
                continue
            elif match := re.fullmatch(r"%(\d+)(?:\[(\d+)(?::(\d+))?\])?", name):
                words = self.values[int(match[1])]
                if match[2]:
                    words = words[int(match[2]) : int(match[3] or match[2]) + 1]
                term = words[0] if len(words) == 1 else z3.Concat(*reversed(words))
                if term.size() > total.size():
                    raise Unsupported(f"address {text}")
                total = total + widen(term, total.size()) if term.size() < total.size() else total + term
            else:
                rest.append(part)
        return f"[{'desc ' if descriptor else ''}{total.size()} {' '.join(rest)}]", [total]

    def observed(self):
        """Returns the effects of the function, with simplified terms."""
        return [Effect(z3.simplify(effect.condition), effect.name, [z3.simplify(term) for term in effect.operands]) for effect in self.effects]


# What the instructions compute. Each handler returns the terms of each result, or None if it leaves the instruction open.


def entry(run, inst, _):
    return [run.unknown(f"input %{result.value}", result) for result in inst.results]


def pack(run, inst, _):
    return [[part for source in inst.sources for part in run.words(source)]]


def copy(run, inst, _):
    source, result = inst.sources[0], inst.results[0]
    if result.file.endswith("P"):
        return [[run.predicate(source)]]
    if source.kind == "other":
        return None
    if source.kind in ("constant", "number") and result.count == 2:
        term = run.pair(source)
        return [[bits(term, 31, 0), bits(term, 63, 32)]]
    words = run.words(source)
    if source.invert or source.negate:
        words = [run.integer(source)]
    return [words * result.count if len(words) == 1 and source.kind == "zero" else words]


def table(inst, at):
    if inst.sources[at].kind != "number":
        raise Unsupported("a truth table that is no number")
    return inst.sources[at].value & 0xFF


def logic(run, inst, modifiers):
    a, b, c = (run.integer(source) for source in inst.sources[:3])
    found = meaning.lookup(table(inst, 3), a, b, c)
    if len(inst.results) == 2:
        other = run.predicate(inst.sources[4])
        return [[z3.Or(found != word(0), other)], [found]]
    return [[found]]


def predicate_logic(run, inst, _):
    predicates = [run.predicate(source) for source in inst.sources[:3]]
    results = [[meaning.lookup(table(inst, 3), *predicates)]]
    if len(inst.results) == 2:
        results.append([meaning.lookup(table(inst, 4), *predicates)])
    return results


def addend(run, operand):
    """Returns a summand and the carry that its negation adds: -x is the complement of x, plus one."""
    if operand.negate:
        return ~run.words(operand)[0], 1
    return run.integer(operand), 0


def add(run, inst, modifiers):
    if set(modifiers) - {"X"} or len(inst.sources) < 3:
        return None
    summands = [addend(run, source) for source in inst.sources[:3]]
    incoming = [run.predicate(source) for source in inst.sources[3:5]]
    ones = [z3.BoolVal(True) for _, one in summands if one]
    _, overflow = meaning.sum_of_words([term for term, _ in summands], ones + incoming)
    total = sum((meaning.truth(carry) for carry in incoming), sum((run.integer(source) for source in inst.sources[:3]), word(0)))
    return [[total], [z3.UGE(overflow, 1)], [z3.UGE(overflow, 2)]][: len(inst.results)]


def add_two(run, inst, modifiers):
    if modifiers:
        return None
    return [[run.integer(inst.sources[0]) + run.integer(inst.sources[1])]]


def multiply(run, inst, modifiers):
    kinds = set(modifiers)
    if kinds - {"WIDE", "HI", "U32", "X", "MOV", "SHL", "IADD"}:
        return None
    a, b = (run.integer(source) for source in inst.sources[:2])
    if "X" in kinds:
        # With a negated product or sum, the hardware adds a complement; no pass writes that.
        if kinds != {"X"} or len(inst.results) > 1 or any(source.negate for source in inst.sources):
            return None
        total = bits(meaning.product(a, b, False), 31, 0) + run.integer(inst.sources[2])
        return [[total + meaning.truth(run.predicate(inst.sources[3]))]]
    if "WIDE" in kinds:
        if len(inst.sources) > 3 or len(inst.results) > 2 or (len(inst.results) > 1 and "U32" not in kinds):
            return None
        product, addend = meaning.product(a, b, "U32" not in kinds), run.pair(inst.sources[2])
        total = product + addend
        # The second result is the carry of the unsigned 64-bit sum.
        return [[bits(total, 31, 0), bits(total, 63, 32)], [z3.ULT(total, addend)]][: len(inst.results)]
    if len(inst.sources) > 3 or len(inst.results) > 1:
        return None
    c = run.integer(inst.sources[2])
    if "HI" in kinds:
        return [[bits(meaning.product(a, b, "U32" not in kinds), 63, 32) + c]]
    return [[bits(meaning.product(a, b, False), 31, 0) + c]]


def shift(run, inst, modifiers):
    low, distance, high = (run.integer(source) for source in inst.sources[:3])
    return [[meaning.funnel_shift(set(modifiers), low, distance, high)]]


def load_address(run, inst, modifiers):
    kinds = set(modifiers)
    if kinds - {"HI", "X", "SX32"}:
        return None
    sources = inst.sources
    if "HI" not in kinds:
        if "X" in kinds:
            return None
        (addend_word, one) = addend(run, sources[1])
        amount = run.integer(sources[2])
        shifted = run.integer(sources[0]) << amount
        total, overflow = meaning.sum_of_words([shifted, addend_word], [z3.BoolVal(True)] * one)
        return [[total], [z3.UGE(overflow, 1)]][: len(inst.results)]
    if "SX32" in kinds:
        wide, amount, carries = meaning.widen_signed(run.integer(sources[0])), sources[2], sources[3:]
    else:
        wide, amount, carries = z3.Concat(run.integer(sources[2]), run.integer(sources[0])), sources[3], sources[4:]
    shifted = bits(wide << widen(run.integer(amount)), 63, 32)
    carry = [run.predicate(carries[0])] if "X" in kinds else []
    total, overflow = meaning.sum_of_words([shifted, run.integer(sources[1])], carry)
    return [[total], [z3.UGE(overflow, 1)]][: len(inst.results)]


def compare(run, inst, modifiers):
    a, b = (run.integer(source) for source in inst.sources[:2])
    other = run.predicate(inst.sources[2])
    lower = run.predicate(inst.sources[3]) if "EX" in modifiers else None
    first, second = meaning.compare(modifiers, a, b, other, lower)
    return [[first], [second]][: len(inst.results)]


def select(run, inst, modifiers):
    if modifiers:
        return None
    return [[z3.If(run.predicate(inst.sources[2]), run.integer(inst.sources[0]), run.integer(inst.sources[1]))]]


def select_single(run, inst, modifiers):
    """FSEL: the signs change the top bit of a word, and no other bit, also of NaNs (measured on an H200)."""
    if modifiers:
        return None
    return [[z3.If(run.predicate(inst.sources[2]), *(run.opaque_operand(source, True) for source in inst.sources[:2]))]]


def permute(run, inst, modifiers):
    return None if modifiers else [[meaning.permute(*(run.integer(source) for source in inst.sources[:3]))]]


def extreme(run, inst, modifiers):
    if set(modifiers) - {"U32"}:
        return None
    *terms, choice = inst.sources
    return [[meaning.smallest([run.integer(term) for term in terms], "U32" not in modifiers, run.predicate(choice))]]


def sum_and_extreme(run, inst, modifiers):
    if set(modifiers) - {"U32"}:
        return None
    a, b, c = (run.integer(source) for source in inst.sources[:3])
    return [[meaning.smallest([a + b, c], "U32" not in modifiers, run.predicate(inst.sources[3]))]]


def absolute(run, inst, modifiers):
    term = run.integer(inst.sources[0])
    return [[z3.If(term < 0, -term, term)]]


def count(run, inst, modifiers):
    return None if modifiers else [[meaning.count_ones(run.integer(inst.sources[0]))]]


def highest(run, inst, modifiers):
    if modifiers not in (["U32"], ["U32", "SH"]) or len(inst.results) > 1:
        return None
    found = meaning.highest_one(run.integer(inst.sources[0]))
    return [[z3.If(found == word(-1), found, word(31) - found) if "SH" in modifiers else found]]


def reverse(run, inst, modifiers):
    return [[meaning.reverse(run.integer(inst.sources[0]))]]


def extend(run, inst, modifiers):
    if set(modifiers) - {"U32", "W"}:
        return None
    return [[meaning.sign_extend_from(run.integer(inst.sources[0]), run.integer(inst.sources[1]), "U32" not in modifiers, "W" in modifiers)]]


def mask(run, inst, modifiers):
    if set(modifiers) - {"W"}:
        return None
    return [[meaning.bit_mask(run.integer(inst.sources[0]), run.integer(inst.sources[1]), "W" in modifiers)]]


def load_constant(run, inst, modifiers):
    if inst.sources[0].kind != "constant" or set(modifiers) - {"64"}:
        return None
    if "64" in modifiers:
        term = run.pair(inst.sources[0])
        return [[bits(term, 31, 0), bits(term, 63, 32)]]
    return [run.words(inst.sources[0])]


# The relations of floating-point comparisons, as sets of: less, equal, greater, unordered.
RELATIONS = {"LT": "L", "EQ": "E", "LE": "LE", "GT": "G", "NE": "LG", "GE": "EG", "NUM": "LEG", "NAN": "U"}
RELATIONS |= {f"{name}U": kinds + "U" for name, kinds in RELATIONS.items() if name not in ("NUM", "NAN")}


def compare_floats(run, inst, modifiers):
    """A comparison of floats: how two numbers compare is an open function, and the relation asks for its value."""
    if modifiers[0] not in RELATIONS or len(inst.sources) != 3:
        return None
    width = 64 if inst.opcode.startswith("D") else 0
    a, b = (run.opaque_operand(source, True, width) for source in inst.sources[:2])
    if a.sort() != b.sort():
        return None
    flushes = "FTZ" in modifiers
    kind = run.function_of(f"comparison {flushes}", [a, b], z3.BitVecSort(2))
    holds = z3.Or(*[kind == "LEGU".index(name) for name in RELATIONS[modifiers[0]]])
    other = run.predicate(inst.sources[2])
    return [[meaning.combine(modifiers, holds, other)], [meaning.combine(modifiers, z3.Not(holds), other)]][: len(inst.results)]


HANDLERS = {
    "ENTRY": entry,
    "PACK": pack,
    "COPY": copy,
    "MOV": copy,
    "LOP3": logic,
    "PLOP3": predicate_logic,
    "IADD3": add,
    "VIADD": add_two,
    "IMAD": multiply,
    "SHF": shift,
    "LEA": load_address,
    "ISETP": compare,
    "SEL": select,
    "FSEL": select_single,
    "PRMT": permute,
    "VIMNMX": extreme,
    "IMNMX": extreme,
    "VIMNMX3": extreme,
    "VIADDMNMX": sum_and_extreme,
    "IABS": absolute,
    "POPC": count,
    "FLO": highest,
    "BREV": reverse,
    "SGXT": extend,
    "BMSK": mask,
    "LDC": load_constant,
    "ULDC": load_constant,
    "LDCU": load_constant,
    "FSETP": compare_floats,
    "DSETP": compare_floats,
} | halves.HANDLERS
