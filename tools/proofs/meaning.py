"""The meaning of machine instructions on integers and predicates, as terms of z3.

Written from the descriptions of the instructions (docs/isa.md and the PTX manual's wording of the operations they implement), and not from
`crates/sem`, which the compiler uses to evaluate constants. A register is a bit vector of 32 bits, a predicate a Boolean.
"""

import z3

from ori import Unsupported

WORD = 32


def word(number):
    return z3.BitVecVal(number, WORD)


def bits(term, high, low):
    return z3.Extract(high, low, term)


def widen(term, width=64):
    return z3.ZeroExt(width - term.size(), term)


def widen_signed(term, width=64):
    return z3.SignExt(width - term.size(), term)


def truth(predicate):
    """Returns a predicate as the word 0 or 1."""
    return z3.If(predicate, word(1), word(0))


def lookup(table, a, b, c):
    """Returns the function of three words, or three predicates, that a truth table of eight bits describes."""
    if isinstance(table, z3.BitVecRef):
        raise Unsupported("a truth table in a register")
    is_word = isinstance(a, z3.BitVecRef)
    result = word(0) if is_word else z3.BoolVal(False)
    for row in range(8):
        if table >> row & 1:
            literals = [term if row >> (2 - at) & 1 else (~term if is_word else z3.Not(term)) for at, term in enumerate((a, b, c))]
            all_hold = literals[0] & literals[1] & literals[2] if is_word else z3.And(*literals)
            result = result | all_hold if is_word else z3.Or(result, all_hold)
    return result


def sum_of_words(words, carries):
    """Adds words and carries. Returns the sum and how often it exceeds 32 bits."""
    total = z3.BitVecVal(0, 40)
    for term in words:
        total = total + widen(term, 40)
    for carry in carries:
        total = total + widen(truth(carry), 40)
    return bits(total, 31, 0), bits(total, 39, 32)


def product(a, b, signed):
    """Returns the 64-bit product of two words. Signed products are the unsigned one with corrections, so that terms are shared."""
    result = widen(a) * widen(b)
    if signed:
        zero = z3.BitVecVal(0, 64)
        shifted = [z3.Concat(term, word(0)) for term in (a, b)]
        result = result - z3.If(a < 0, shifted[1], zero) - z3.If(b < 0, shifted[0], zero)
    return result


def funnel_shift(modifiers, low, distance, high):
    """SHF: shifts a pair of words, and returns one half."""
    width = 64 if {"U64", "S64"} & modifiers else 32
    if "W" in modifiers:
        distance = distance & word(width - 1)
    else:
        distance = z3.If(z3.ULT(distance, word(width)), distance, word(width))
    pair = z3.Concat(high, low)
    amount = widen(distance)
    if "L" in modifiers:
        shifted = pair << amount
    elif {"S32", "S64"} & modifiers:
        shifted = pair >> amount
    else:
        shifted = z3.LShR(pair, amount)
    return bits(shifted, 63, 32) if "HI" in modifiers else bits(shifted, 31, 0)


def permute(low, selector, high):
    """PRMT without a mode: four bytes of a pair of words."""
    pair = z3.Concat(high, low)
    result = []
    for place in range(4):
        digit = bits(selector, 4 * place + 3, 4 * place)
        amount = widen(bits(digit, 2, 0)) << 3
        byte = bits(z3.LShR(pair, amount), 7, 0)
        sign = z3.If(bits(byte, 7, 7) == 1, z3.BitVecVal(0xFF, 8), z3.BitVecVal(0, 8))
        result.insert(0, z3.If(bits(digit, 3, 3) == 1, sign, byte))
    return z3.Concat(*result)


ORDERS = {
    "LT": lambda a, b, s: a < b if s else z3.ULT(a, b),
    "LE": lambda a, b, s: a <= b if s else z3.ULE(a, b),
    "GT": lambda a, b, s: a > b if s else z3.UGT(a, b),
    "GE": lambda a, b, s: a >= b if s else z3.UGE(a, b),
    "EQ": lambda a, b, s: a == b,
    "NE": lambda a, b, s: a != b,
    "T": lambda a, b, s: z3.BoolVal(True),
    "F": lambda a, b, s: z3.BoolVal(False),
}
STRICT = {"LE": "LT", "GE": "GT", "LT": "LT", "GT": "GT"}


def combine(modifiers, holds, other):
    """Joins the result of a comparison with another predicate."""
    if "XOR" in modifiers:
        return z3.Xor(holds, other)
    return z3.Or(holds, other) if "OR" in modifiers else z3.And(holds, other)


def compare(names, a, b, other, lower):
    """ISETP: `lower` is the result for the lower words with .EX, else None. Returns both results."""
    relation = names[0]
    signed = "U32" not in names
    holds = ORDERS[relation](a, b, signed)
    if lower is not None:
        if relation in STRICT:
            holds = z3.Or(ORDERS[STRICT[relation]](a, b, signed), z3.And(a == b, lower))
        elif relation == "EQ":
            holds = z3.And(a == b, lower)
        elif relation == "NE":
            holds = z3.Or(a != b, lower)
        else:
            raise Unsupported(f"ISETP.{relation}.EX")
    return combine(names, holds, other), combine(names, z3.Not(holds), other)


def smallest(words, signed, is_minimum):
    """Returns the smallest of the words if a predicate holds, else the greatest."""
    least = greatest = words[0]
    for term in words[1:]:
        is_less = term < least if signed else z3.ULT(term, least)
        is_more = term > greatest if signed else z3.UGT(term, greatest)
        least, greatest = z3.If(is_less, term, least), z3.If(is_more, term, greatest)
    return z3.If(is_minimum, least, greatest)


def count_ones(term):
    total = word(0)
    for at in range(32):
        total = total + widen(bits(term, at, at), 32)
    return total


def highest_one(term):
    """FLO.U32: the number of the highest bit that is one, or all ones."""
    result = word(0xFFFFFFFF)
    for at in range(32):
        result = z3.If(bits(term, at, at) == 1, word(at), result)
    return result


def reverse(term):
    return z3.Concat(*[bits(term, at, at) for at in range(32)])


def sign_extend_from(term, width, signed, wraps):
    """SGXT: the lowest `width` bits, extended to 32. Without .W, widths above 32 mean 32; a width of 0 gives 0."""
    width = width & word(31) if wraps else z3.If(z3.ULT(width, word(32)), width, word(32))
    unused = word(32) - width
    shifted = term << unused
    extended = shifted >> unused if signed else z3.LShR(shifted, unused)
    return z3.If(width == 0, word(0), extended)


def bit_mask(start, width, wraps):
    """BMSK: `width` ones from bit `start` on."""
    if wraps:
        start, width = start & word(31), width & word(31)
    start64 = widen(z3.If(z3.ULT(start, word(32)), start, word(32)))
    width64 = widen(z3.If(z3.ULT(width, word(32)), width, word(32)))
    one = z3.BitVecVal(1, 64)
    return bits(((one << width64) - one) << start64, 31, 0)
