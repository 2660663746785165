"""Exact results with Python's rational numbers: slow, and independent of checker.cu, whose judge it is."""

import math
from fractions import Fraction

from instructions import BYTES

FORMATS = {"f32": (23, 8), "f64": (52, 11), "f16": (10, 5), "bf16": (7, 8), "tf32": (10, 8)}
NAN = "nan"


def decode(bits, name, ftz=False):
    """A Fraction with the sign of zero, or an infinity, or NAN."""
    fraction_bits, exponent_bits = FORMATS[name]
    sign = -1 if bits >> (fraction_bits + exponent_bits) & 1 else 1
    field = bits >> fraction_bits & (1 << exponent_bits) - 1
    fraction = bits & (1 << fraction_bits) - 1
    bias = (1 << exponent_bits - 1) - 1
    if field == (1 << exponent_bits) - 1:
        return NAN if fraction else (sign, math.inf)
    if field == 0:
        return sign, Fraction(0) if ftz else Fraction(fraction, 1 << fraction_bits + bias - 1)
    return sign, Fraction(fraction + (1 << fraction_bits)) * Fraction(2) ** (field - bias - fraction_bits)


def round_integer(value, mode, sign):
    """A nonnegative Fraction rounded to an integer."""
    whole, rest = divmod(value, 1)
    up = {"rn": rest > Fraction(1, 2) or rest == Fraction(1, 2) and whole % 2 == 1, "rna": rest >= Fraction(1, 2), "rz": False,
          "rm": sign < 0 and rest > 0, "rp": sign > 0 and rest > 0}[mode]
    return int(whole) + up


def exponent_of(value):
    """The exponent of the leading bit."""
    exponent = value.numerator.bit_length() - value.denominator.bit_length()
    return exponent if value >= Fraction(2) ** exponent else exponent - 1


def encode(sign, value, name, mode, ftz=False):
    fraction_bits, exponent_bits = FORMATS[name]
    bias = (1 << exponent_bits - 1) - 1
    top = (1 << fraction_bits + exponent_bits) if sign < 0 else 0
    infinity = (1 << exponent_bits) - 1 << fraction_bits
    if value == math.inf:
        return top | infinity
    if value == 0:
        return top
    least_normal = Fraction(2) ** (1 - bias)
    if ftz and value < least_normal:
        unit = Fraction(2) ** (exponent_of(value) - fraction_bits)
        if round_integer(value / unit, mode, sign) * unit < least_normal:
            return top
    unit = Fraction(2) ** (max(exponent_of(value), 1 - bias) - fraction_bits)
    rounded = round_integer(value / unit, mode, sign) * unit
    if rounded >= Fraction(2) ** (bias + 1):
        away = mode in ("rn", "rna") or mode == "rm" and sign < 0 or mode == "rp" and sign > 0
        return top | infinity - (0 if away else 1)
    if rounded < least_normal:
        return top | int(rounded / Fraction(2) ** (1 - bias - fraction_bits))
    exponent = exponent_of(rounded)
    significand = int(rounded / Fraction(2) ** (exponent - fraction_bits))
    return top | exponent + bias << fraction_bits | significand - (1 << fraction_bits)


def root(value):
    """The square root of a Fraction, exact or with so many bits that one more changes nothing."""
    scale = 2 * (200 + max(0, -exponent_of(value)))
    shifted = value * Fraction(2) ** scale
    whole = math.isqrt(int(shifted))
    exact = shifted.denominator == 1 and whole * whole == shifted
    # Off by a third of a unit: not a midpoint, on the right side of all of them.
    return (Fraction(whole) if exact else Fraction(whole) + Fraction(1, 3)) / Fraction(2) ** (scale // 2)


def signed(value, zero_sign):
    return (1 if value > 0 else -1, abs(value)) if value else (zero_sign, Fraction(0))


def integer_of(bits, name):
    width = 8 * BYTES[name]
    return bits - (1 << width) if name[0] == "s" and bits >> width - 1 else bits


def expected(instruction, a, b, c):
    """The bits of the result, or NAN; None where this module has no opinion."""
    op, mode, ftz, name, source = instruction.op, instruction.mode, instruction.ftz, instruction.type, instruction.source
    if op in ("idiv", "irem"):
        x, y = integer_of(a, name), integer_of(b, name)
        mask = (1 << 8 * BYTES[name]) - 1
        if y == 0:
            return mask
        quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
        return (quotient if op == "idiv" else x - y * quotient) & mask
    if op == "cvt":
        return convert(instruction, a)
    if op not in ("div", "rcp", "sqrt", "fma", "add", "mul"):
        return None
    x, y, z = (decode(bits, name, ftz) for bits in (a, b, c))
    one = (1, Fraction(1))
    if op == "sqrt":
        if x == NAN or x[0] < 0 and x[1] != 0:
            return NAN
        value = x[1] if x[1] in (0, math.inf) else root(x[1])
        return encode(x[0], value, name, mode, ftz)
    if op in ("div", "rcp"):
        x, y = (x, y) if op == "div" else (one, x)
        if NAN in (x, y) or x[1] == y[1] == 0 or x[1] == y[1] == math.inf:
            return NAN
        sign = x[0] * y[0]
        if x[1] == math.inf or y[1] == 0:
            return encode(sign, math.inf, name, mode)
        return encode(sign, Fraction(0) if y[1] == math.inf else x[1] / y[1], name, mode, ftz)
    if op == "add":
        x, y, z = x, one, y
    elif op == "mul":
        if NAN in (x, y):
            return NAN
        z = (x[0] * y[0], Fraction(0))
    if NAN in (x, y, z) or {x[1], y[1]} == {0, math.inf}:
        return NAN
    sign = x[0] * y[0]
    if math.inf in (x[1], y[1]):
        return NAN if z[1] == math.inf and z[0] != sign else encode(sign, math.inf, name, mode)
    if z[1] == math.inf:
        return encode(z[0], math.inf, name, mode)
    zero_sign = sign if x[1] * y[1] == z[1] == 0 and sign == z[0] else -1 if mode == "rm" else 1
    return encode(*signed(sign * x[1] * y[1] + z[0] * z[1], zero_sign), name, mode, ftz)


def convert(instruction, a):
    mode, name, source = instruction.mode, instruction.type, instruction.source
    if source in FORMATS:
        value = decode(a, source, instruction.ftz and source == "f32")
    else:
        number = integer_of(a, source)
        value = (-1 if number < 0 else 1, Fraction(abs(number)))
    if name in FORMATS:
        if value == NAN:
            return NAN
        bits = encode(*value, name, mode, instruction.ftz and name == "f32")
        return bits << 13 if name == "tf32" else bits
    width = 8 * BYTES[name]
    if value == NAN:
        return 1 << width - 1 if source == "f64" or width == 64 else 0
    low, high = (-(1 << width - 1), (1 << width - 1) - 1) if name[0] == "s" else (0, (1 << width) - 1)
    number = 1 << 100 if value[1] == math.inf else round_integer(value[1], mode, value[0])
    return min(max(value[0] * number, low), high) & (1 << width) - 1
