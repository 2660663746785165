#!/usr/bin/env python3
"""Reference of magic.md: plans for division by constants, an interpreter for them, and a test. Run it to test."""

import random


def plan_unsigned(divisor, bits):
    """The steps for a / divisor, unsigned: a list of (name, argument), applied to a value that starts as the dividend."""
    assert 0 < divisor < 1 << bits
    if divisor & divisor - 1 == 0:
        return [("shift", divisor.bit_length() - 1)]
    log = (divisor - 1).bit_length()
    # The least shift for which some multiplier is exact for all dividends; it may need one bit too many.
    shift, low, high = log, (1 << bits + log) // divisor, ((1 << bits + log) + (1 << log)) // divisor
    while low // 2 < high // 2 and shift > 0:
        low, high, shift = low // 2, high // 2, shift - 1
    if high < 1 << bits:
        return [("mul_high", high), ("shift", shift)]
    zeros = (divisor & -divisor).bit_length() - 1
    if zeros:
        # An even divisor: halve both as often as possible, then the multiplier fits because the dividend is short.
        return [("shift", zeros)] + plan_odd_rest(divisor >> zeros, bits, zeros)
    return [("mul_high_add", high - (1 << bits)), ("shift", log - 1)]


def plan_odd_rest(divisor, bits, spare):
    """As plan_unsigned for dividends whose upper `spare` bits are zero."""
    log = (divisor - 1).bit_length()
    shift, low, high = log, (1 << bits + log) // divisor, ((1 << bits + log) + (1 << log + spare)) // divisor
    while low // 2 < high // 2 and shift > 0:
        low, high, shift = low // 2, high // 2, shift - 1
    assert high < 1 << bits
    return [("mul_high", high), ("shift", shift)]


def plan_signed(divisor, bits):
    """The steps for a / divisor, signed, rounded towards zero. The divisor is neither 0."""
    assert divisor and -(1 << bits - 1) <= divisor < 1 << bits - 1
    size = abs(divisor)
    negate = [("negate", None)] if divisor < 0 else []
    if size == 1:
        return negate
    if size & size - 1 == 0:
        log = size.bit_length() - 1
        return [("round_power", log), ("shift_signed", log)] + negate
    log = (size - 1).bit_length()
    # Dividends have bits - 1 bits of magnitude: the multiplier has at most `bits` bits.
    shift = log - 1
    low, high = (1 << bits + shift) // size, ((1 << bits + shift) + (1 << shift + 1)) // size
    while low // 2 < high // 2 and shift > 0:
        low, high, shift = low // 2, high // 2, shift - 1
    if high < 1 << bits - 1:
        steps = [("mul_high_signed", high)]
    else:
        steps = [("mul_high_signed_add", high - (1 << bits))]
    return steps + [("shift_signed", shift), ("add_sign_of_dividend", None)] + negate


def wrap(value, bits):
    """The signed number with these low bits."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value


def run(plan, dividend, bits):
    """Applies a plan with the machine's arithmetic: everything wraps at `bits`."""
    mask = (1 << bits) - 1
    value = dividend
    for name, argument in plan:
        if name == "shift":
            value = value >> argument
        elif name == "mul_high":
            assert 0 <= value <= mask and 0 <= argument <= mask
            value = value * argument >> bits
        elif name == "mul_high_add":
            high = value * argument >> bits
            value = ((value - high & mask) >> 1) + high & mask
        elif name == "round_power":
            sign = value >> bits - 1
            value = wrap(value + ((sign & mask) >> bits - argument), bits)
        elif name == "shift_signed":
            value = value >> argument
        elif name == "mul_high_signed":
            value = value * argument >> bits
        elif name == "mul_high_signed_add":
            value = wrap((value * argument >> bits) + value, bits)
        elif name == "add_sign_of_dividend":
            value = wrap(value + (1 if dividend < 0 else 0), bits)
        elif name == "negate":
            value = wrap(-value, bits)
        else:
            raise ValueError(name)
    return value


def truncated(a, b):
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def edges(divisor, bits, signed):
    """Dividends around the ends, around multiples of the divisor near the ends, and around powers of two."""
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
    size = abs(divisor)
    near = {low, high, 0, size, -size}
    near |= {end // size * size for end in (low, high)} | {(end // size - 1) * size for end in (low, high)}
    near |= {sign << power for power in range(bits) for sign in (1, -1)}
    return sorted({x + d for x in near for d in (-2, -1, 0, 1, 2) if low <= x + d <= high})


def test():
    generator = random.Random(1)
    checked = 0
    # Every divisor and dividend of 8 bits, every divisor of 16 bits.
    for divisor in range(1, 256):
        plan = plan_unsigned(divisor, 8)
        for a in range(256):
            assert run(plan, a, 8) == a // divisor, (a, divisor, plan)
        checked += 256
    for divisor in range(-128, 128):
        if divisor:
            plan = plan_signed(divisor, 8)
            for a in range(-128, 128):
                assert run(plan, a, 8) == wrap(truncated(a, divisor), 8), (a, divisor, plan)
            checked += 256
    for bits, samples in ((16, None), (32, 20000), (64, 20000)):
        top = 1 << bits
        if samples is None:
            unsigned = range(1, top)
        else:
            unsigned = {d for d in range(1, 3000)} | {top - d for d in range(1, 500)} | {(1 << p) + d for p in range(2, bits) for d in (-2, -1, 0, 1, 2)}
            unsigned |= {generator.randrange(1, 1 << generator.randrange(1, bits + 1)) for _ in range(samples)}
            unsigned = sorted(d for d in unsigned if 0 < d < top)
        for d in unsigned:
            plan = plan_unsigned(d, bits)
            for a in edges(d, bits, False) if samples else edges(d, bits, False)[::3]:
                assert run(plan, a, bits) == a // d, (a, d, plan)
                checked += 1
            divisor = wrap(d, bits)
            plan = plan_signed(divisor, bits)
            for a in edges(divisor, bits, True) if samples else edges(divisor, bits, True)[::3]:
                assert run(plan, a, bits) == wrap(truncated(a, divisor), bits), (a, divisor, plan)
                checked += 1
            for _ in range(4):
                a = generator.randrange(top)
                assert run(plan_unsigned(d, bits), a, bits) == a // d, (a, d)
                a = wrap(a, bits)
                assert run(plan, a, bits) == wrap(truncated(a, divisor), bits), (a, divisor)
                checked += 2
    print(f"{checked} quotients, all right")


if __name__ == "__main__":
    test()
    for bits, divisor in ((32, 3), (32, 7), (32, 14), (32, 10), (32, 641), (64, 7), (64, 10)):
        print(f"u{bits} / {divisor}: {[(n, hex(x) if n.startswith('mul') else x) for n, x in plan_unsigned(divisor, bits)]}")
    for bits, divisor in ((32, 3), (32, 7), (32, -7), (32, 8), (32, -2147483648), (64, 10)):
        print(f"s{bits} / {divisor}: {[(n, hex(x) if n.startswith('mul') else x) for n, x in plan_signed(divisor, bits)]}")
