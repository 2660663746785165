#!/usr/bin/env python3
"""Writes the floating-point part of crates/isel/library: the same code once per width, rounding mode and .ftz.

The files it writes are the library; this script only spares keeping dozens of near-copies alike by hand.
Run from the repository root: python3 tools/mathlib-check/library.py
"""

import pathlib
import re

HEADER = ".version 8.0\n.target sm_75\n.address_size 64\n"
LIBRARY = pathlib.Path("crates/isel/library")
MODES = ["rn", "rz", "rm", "rp"]


class Format:
    """Constants of an IEEE format, as PTX spells them."""

    def __init__(self, bits):
        self.bits = bits
        self.fraction = 23 if bits == 32 else 52
        self.exponent_bits = 8 if bits == 32 else 11
        self.bias = (1 << (self.exponent_bits - 1)) - 1
        self.top = (1 << self.exponent_bits) - 1
        self.sign_mask = 1 << (bits - 1)

    def value(self, exponent, sign=0):
        """2^exponent as a float literal."""
        word = (sign << (self.bits - 1)) | ((exponent + self.bias) << self.fraction)
        return f"0f{word:08x}" if self.bits == 32 else f"0d{word:016x}"

    def word(self, value):
        return f"0x{value:0{self.bits // 4}x}"


def tidy(text):
    """Indents the statements of functions; labels and braces stand at the margin."""
    lines = []
    inside = False
    for line in text.strip("\n").split("\n"):
        line = line.strip()
        if line.startswith("{"):
            inside = True
        elif line.startswith("}"):
            inside = False
        elif inside and line and not re.match(r"^\w+:$", line):
            line = "    " + line
        lines.append(line)
    return "\n".join(lines) + "\n"


def registers(f):
    b, t = f.bits, f"f{f.bits}"
    return f"""
    .reg .pred fast, special, special_a, special_b, low_a, low_b, tiny, inexact, overflow, negative;
    .reg .{t} r, e, c, x, y, rem, zero_rounded, rounded, huge, one;
    .reg .b{b} abits, bbits, sign, magnitude_a, magnitude_b, bits, kept, half, odd, round;
    .reg .b32 exponent_a, exponent_b, adjust, guard_a, guard_b, shift, shift1, difference, unused;
    """


def high_word(f, to, source):
    """The word with sign and exponent."""
    if f.bits == 32:
        return f"mov.b32 {to}, {source};"
    return f"mov.b64 {{unused, {to}}}, {source};"


def reciprocal(f, r, y, rounded):
    """r = 1/y to within half an ulp and a hair; `rounded`: correctly rounded."""
    t = f"f{f.bits}"
    one = f.value(0)
    start = f"""
        neg.{t} c, {y};
        rcp.approx.ftz.{t} {r}, {y};
        fma.rn.{t} e, c, {r}, {one};
        """
    if f.bits == 32:
        return start + f"fma.rn.{t} {r}, {r}, e, {r};"
    # e + e*e rounded up is never below the true correction by as much as a reciprocal can be close to a midpoint.
    # A quotient does without: from an odd start the reciprocal of the significand of all ones is not 0.5.
    odd_start = f"""
        mov.b64 {{unused, guard_a}}, {r};
        mov.b64 {r}, {{1, guard_a}};
        """
    if not rounded:
        start = start.replace(f"fma.rn.{t} e, c", odd_start + f"fma.rn.{t} e, c")
    return start + f"""
        fma.rn.{t} e, e, e, e;
        fma.rn.{t} {r}, {r}, e, {r};
        fma.rn.{t} e, c, {r}, {one};
        {f"fma.rp.{t} e, e, e, e;" if rounded else ""}
        fma.rn.{t} {r}, {r}, e, {r};
        """


def round_tiny(f, mode):
    """bits = sign | significand `kept` (one sticky bit below it) shifted right by `shift` + 1 and rounded."""
    b = f.bits
    away = f"""
        shl.b{b} round, 1, shift1;
        sub.u{b} round, round, 1;
        setp.ne.u{b} negative, sign, 0;
        {"selp" if mode in ("rm", "rp") else ""}.b{b} round, {"round, 0" if mode == "rm" else "0, round"}, negative;
        add.u{b} kept, kept, round;
        """
    nearest = f"""
        shl.b{b} half, 1, shift;
        sub.u{b} half, half, 1;
        shr.u{b} odd, kept, shift1;
        and.b{b} odd, odd, 1;
        add.u{b} kept, kept, half;
        add.u{b} kept, kept, odd;
        """
    return f"""
        min.s32 shift, shift, {f.fraction + 2};
        add.s32 shift1, shift, 1;
        {nearest if mode == "rn" else "" if mode == "rz" else away}
        shr.u{b} kept, kept, shift1;
        or.b{b} bits, kept, sign;
        """


def finish(f, mode, ftz):
    """From x/y = rounded, y*rounded + rem = x and `difference` of exponents to the result q, with its exponent range."""
    t, b = f"f{f.bits}", f.bits
    exponent = lambda to, source: f"""
        {high_word(f, to, source)}
        shr.u32 {to}, {to}, {23 if b == 32 else 20};
        and.b32 {to}, {to}, {f.top};
        add.s32 {to}, {to}, difference;
        """
    move = f"""
        shl.b32 shift, difference, {23 if b == 32 else 20};
        """
    if b == 32:
        move += "add.u32 bits, bits, shift;"
    else:
        move += """
        mov.b64 {guard_a, guard_b}, bits;
        add.u32 guard_b, guard_b, shift;
        mov.b64 bits, {guard_a, guard_b};
        """
    tiny = (
        f"mov.b{b} q, sign;"
        if ftz
        else f"""
        mov.b{b} kept, zero_rounded;
        and.b{b} kept, kept, {f.word((1 << f.fraction) - 1)};
        or.b{b} kept, kept, {f.word(1 << f.fraction)};
        shl.b{b} kept, kept, 1;
        setp.neu.{t} inexact, rem, {"0f00000000" if b == 32 else "0d0000000000000000"};
        selp.b{b} odd, 1, 0, inexact;
        or.b{b} kept, kept, odd;
        sub.s32 shift, 1, exponent_a;
        {round_tiny(f, mode)}
        mov.b{b} q, bits;
        """
    )
    return f"""
        fma.rz.{t} zero_rounded, rem, r, rounded;
        {f"fma.{mode}.{t} rounded, rem, r, rounded;" if mode != "rn" else ""}
        {exponent("exponent_a", "zero_rounded")}
        setp.lt.s32 tiny, exponent_a, 1;
        @tiny bra TINY;
        {exponent("exponent_b", "rounded")}
        setp.gt.s32 overflow, exponent_b, {f.top - 1};
        mov.b{b} bits, rounded;
        {move}
        mov.b{b} q, bits;
        or.b{b} bits, sign, {f.word((f.top - 1) << f.fraction)};
        mov.b{b} huge, bits;
        mov.{t} one, {f.value(f.bias)};
        mul.{mode}.{t} huge, huge, one;
        selp.{t} q, huge, q, overflow;
        ret;
TINY:
        {tiny}
        ret;
        """


def to_unit(f, magnitude, bits, source, low, exponent, adjusted, ftz):
    """Scales a finite nonzero number to [1, 2), sign kept; its biased exponent goes to `exponent`."""
    b, t = f.bits, f"f{f.bits}"
    scale = f.value(f.fraction + 1)
    normalize = (
        ""
        if ftz
        else f"""
        setp.lt.u{b} {low}, {magnitude}, {f.word(1 << f.fraction)};
        @{low} mul.rn.{t} {source}, {source}, {scale};
        mov.b{b} {bits}, {source};
        """
    )
    undo = "" if ftz else f"@{low} sub.s32 {exponent}, {exponent}, {f.fraction + 1};"
    return f"""
        {normalize}
        {high_word(f, exponent, source)}
        shr.u32 {exponent}, {exponent}, {23 if b == 32 else 20};
        and.b32 {exponent}, {exponent}, {f.top};
        {undo}
        and.b{b} {bits}, {bits}, {f.word(f.sign_mask | ((1 << f.fraction) - 1))};
        or.b{b} {bits}, {bits}, {f.word(f.bias << f.fraction)};
        mov.b{b} {adjusted}, {bits};
        """


def quieted(to, source):
    """MUFU.RCP64H sees the upper word only, where a NaN may look like an infinity until it is quiet."""
    return f"add.rn.f64 {to}, {source}, {source};"


def special_test(f, which, ftz):
    """Zero, infinite or NaN; under .ftz subnormal too."""
    b = f.bits
    least = 1 << f.fraction if ftz else 1
    infinity = f.top << f.fraction
    return f"""
        and.b{b} magnitude_{which}, {which}bits, {f.word(f.sign_mask - 1)};
        sub.u{b} bits, magnitude_{which}, {least};
        setp.ge.u{b} special_{which}, bits, {f.word(infinity - least)};
        """


def divide(f, mode, ftz):
    b, t, z = f.bits, f"f{f.bits}", ".ftz" if ftz else ""
    name = f"div_{mode}{'_ftz' if ftz else ''}_{t}"
    shift = 32 - 1 - f.exponent_bits
    # Both operands in [2^-63, 2^63) (2^-511, 2^511): neither quotient nor remainders leave the normal range.
    reach = (f.bias + 1) // 2
    low = (f.bias - reach + 1) << (shift + 1)
    width = ((f.bias + reach - 1) << (shift + 1)) - low
    quotient = f"""
        mul.rn.{t} q, QX, r;
        fma.rn.{t} rem, c, q, QX;
        fma.rn.{t} q, rem, r, q;
        """
    again = f"""
        fma.rn.{t} rem, c, q, QX;
        """
    return f"""
// div.{mode}{z}.{t}: fast for operands in [2^-{reach - 1}, 2^{reach - 1}).
.func (.reg .{t} q) __oriole_{name} (.reg .{t} a, .reg .{t} b)
{{
    {registers(f)}
    {high_word(f, "guard_a", "a")}
    {high_word(f, "guard_b", "b")}
    shl.b32 guard_a, guard_a, 1;
    shl.b32 guard_b, guard_b, 1;
    sub.u32 guard_a, guard_a, 0x{low:08x};
    sub.u32 guard_b, guard_b, 0x{low:08x};
    setp.lt.u32 fast, guard_a, 0x{width:08x};
    setp.lt.and.u32 fast, guard_b, 0x{width:08x}, fast;
    {reciprocal(f, "r", "b", False)}
    {quotient.replace("QX", "a")}
    {again.replace("QX", "a") + f"fma.{mode}.{t} q, rem, r, q;" if mode != "rn" else ""}
    @!fast bra SLOW;
    ret;
SLOW:
    mov.b{b} abits, a;
    mov.b{b} bbits, b;
    xor.b{b} sign, abits, bbits;
    and.b{b} sign, sign, {f.word(f.sign_mask)};
    {special_test(f, "a", ftz)}
    {special_test(f, "b", ftz)}
    or.pred special, special_a, special_b;
    @special bra SPECIAL;
    {to_unit(f, "magnitude_a", "abits", "a", "low_a", "exponent_a", "x", ftz)}
    {to_unit(f, "magnitude_b", "bbits", "b", "low_b", "exponent_b", "y", ftz)}
    sub.s32 difference, exponent_a, exponent_b;
    {reciprocal(f, "r", "y", False)}
    {quotient.replace("QX", "x")}
    {again.replace("QX", "x")}
    mov.{t} rounded, q;
    {finish(f, mode, ftz)}
SPECIAL:
    // What is finite and not zero counts as 1 with its sign: 0, infinity and NaN decide.
    and.b{b} abits, abits, {f.word(f.sign_mask)};
    or.b{b} abits, abits, {f.word(f.bias << f.fraction)};
    mov.b{b} x, abits;
    and.b{b} bbits, bbits, {f.word(f.sign_mask)};
    or.b{b} bbits, bbits, {f.word(f.bias << f.fraction)};
    mov.b{b} y, bbits;
    selp.{t} x, a, x, special_a;
    selp.{t} y, b, y, special_b;
    {f"mul.rn.ftz.f32 x, x, {f.value(0)};" if ftz else ""}
    {quieted("y", "y") if b == 64 else ""}
    rcp.approx.ftz.{t} y, y;
    mul.rn.{t} q, x, y;
    ret;
}}
"""


def invert(f, mode, ftz):
    b, t, z = f.bits, f"f{f.bits}", ".ftz" if ftz else ""
    name = f"rcp_{mode}{'_ftz' if ftz else ''}_{t}"
    shift = 32 - 1 - f.exponent_bits
    low = 1 << (shift + 1)
    width = ((f.top - 2) << (shift + 1)) - low
    return f"""
// rcp.{mode}{z}.{t}: fast for normal operands below 2^{f.bias - 1}, whose reciprocals are normal.
.func (.reg .{t} q) __oriole_{name} (.reg .{t} b)
{{
    {registers(f)}
    {high_word(f, "guard_b", "b")}
    shl.b32 guard_b, guard_b, 1;
    sub.u32 guard_b, guard_b, 0x{low:08x};
    setp.lt.u32 fast, guard_b, 0x{width:08x};
    {reciprocal(f, "r", "b", True)}
    {f"fma.rn.{t} e, c, r, {f.value(0)}; fma.{mode}.{t} q, r, e, r;" if mode != "rn" else f"mov.{t} q, r;"}
    @!fast bra SLOW;
    ret;
SLOW:
    mov.b{b} bbits, b;
    and.b{b} sign, bbits, {f.word(f.sign_mask)};
    {special_test(f, "b", ftz)}
    @special_b bra SPECIAL;
    {to_unit(f, "magnitude_b", "bbits", "b", "low_b", "exponent_b", "y", ftz)}
    sub.s32 difference, {f.bias}, exponent_b;
    {reciprocal(f, "r", "y", True)}
    fma.rn.{t} rem, c, r, {f.value(0)};
    mov.{t} rounded, r;
    {finish(f, mode, ftz)}
SPECIAL:
    {quieted("b", "b") if b == 64 else ""}
    rcp.approx.ftz.{t} q, b;
    ret;
}}
"""


def root32(mode, ftz):
    z = ".ftz" if ftz else ""
    return f"""
// sqrt.{mode}{z}.f32: no branch; small operands are scaled by 2^64, zero and infinity are their own roots.
.func (.reg .f32 q) __oriole_sqrt_{mode}{'_ftz' if ftz else ''}_f32 (.reg .f32 a)
{{
    .reg .pred small, own;
    .reg .f32 r, h, c, rem, x;
    {"mul.rn.ftz.f32 a, a, 0f3f800000;" if ftz else ""}
    setp.eq.f32 own, a, 0f00000000;
    setp.eq.or.f32 own, a, 0f7f800000, own;
    setp.lt.f32 small, a, 0f0d000000;
    mov.f32 x, a;
    @small mul.rn.f32 x, x, 0f5f800000;
    rsqrt.approx.ftz.f32 r, x;
    mul.rn.f32 q, x, r;
    mul.rn.f32 h, r, 0f3f000000;
    neg.f32 c, q;
    fma.rn.f32 rem, c, q, x;
    fma.rn.f32 q, rem, h, q;
    {f"neg.f32 c, q; fma.rn.f32 rem, c, q, x; fma.{mode}.f32 q, rem, h, q;" if mode != "rn" else ""}
    @small mul.rn.f32 q, q, 0f2f800000;
    selp.f32 q, a, q, own;
    ret;
}}
"""


def root64(mode):
    refine = """
    mul.rn.f64 e, r, r;
    neg.f64 c, x;
    fma.rn.f64 e, c, e, 0d3ff0000000000000;
    fma.rn.f64 h, e, 0d3fd8000000000000, 0d3fe0000000000000;
    mul.rn.f64 e, r, e;
    fma.rn.f64 r, h, e, r;
    mul.rn.f64 q, x, r;
    mul.rn.f64 h, r, 0d3fe0000000000000;
    neg.f64 c, q;
    fma.rn.f64 rem, c, q, x;
    fma.rn.f64 q, rem, h, q;
    """ + (
        f"""
    neg.f64 c, q;
    fma.rn.f64 rem, c, q, x;
    fma.{mode}.f64 q, rem, h, q;
    """
        if mode != "rn"
        else ""
    )
    return f"""
// sqrt.{mode}.f64: fast from 2^-970 up to infinity.
.func (.reg .f64 q) __oriole_sqrt_{mode}_f64 (.reg .f64 a)
{{
    .reg .pred fast, own, invalid, nan;
    .reg .f64 r, e, h, c, x, rem;
    .reg .b32 high, top, unused;
    mov.b64 {{unused, high}}, a;
    sub.u32 high, high, 0x03500000;
    setp.lt.u32 fast, high, 0x7ca00000;
    mov.f64 x, a;
    rsqrt.approx.ftz.f64 r, x;
    mov.b64 {{unused, top}}, r;
    mov.b64 r, {{high, top}};
    {refine}
    @!fast bra SLOW;
    ret;
SLOW:
    setp.eq.f64 own, a, 0d0000000000000000;
    setp.eq.or.f64 own, a, 0d7ff0000000000000, own;
    setp.lt.f64 invalid, a, 0d0000000000000000;
    setp.nan.f64 nan, a, a;
    mul.rn.f64 x, a, 0d47f0000000000000;
    rsqrt.approx.ftz.f64 r, x;
    {refine}
    mul.rn.f64 q, q, 0d3bf0000000000000;
    selp.f64 q, 0dfff8000000000000, q, invalid;
    add.rn.f64 x, a, a;
    selp.f64 q, x, q, nan;
    selp.f64 q, a, q, own;
    ret;
}}
"""


def write(name, about, functions):
    text = "".join(f"// {line}\n".replace("//  ", "// ").rstrip() + "\n" for line in about.strip().split("\n")) + HEADER
    for function in functions:
        lines = [line.strip() for line in function.split("\n")]
        text += "\n" + tidy("\n".join(line for line in lines if line))
    (LIBRARY / name).write_text(text)


def prune(function):
    """Drops declarations of registers that a function does not use."""
    def keep(match):
        rest = function.replace(match.group(0), "")
        names = [n.strip() for n in match.group(2).split(",")]
        used = [n for n in names if re.search(rf"\b{n}\b", rest)]
        return f".reg .{match.group(1)} {', '.join(used)};" if used else ""
    return re.sub(r"\.reg \.(\w+) ([\w, ]+);", keep, function)


def main():
    single, double = Format(32), Format(64)
    both = [(m, z) for z in (False, True) for m in MODES]
    common = """
A quotient: the reciprocal r of the divisor by Newton, q = a*r, then q += (a - b*q)*r, which rounds correctly because
the remainder is exact. Directed modes do that step once more in their mode: then only the remainder's sign counts.
The slow path takes both significands to [1, 2), divides those, and puts the exponent back; a result below the normal
range is the truncated significand and a sticky bit, shifted and rounded as an integer.
"""
    write("div_f32.ptx", "f32 division, correctly rounded.\n" + common.strip(), [prune(divide(single, m, z)) for m, z in both])
    common64 = """
MUFU.RCP64H gives the upper word of r only; its lower word starts as 1, so that for a significand of all ones r does not
end at 0.5, from where quotients would end in ties. NVIDIA's own code, documented as IEEE, starts and goes on like this.
"""
    write("div_f64.ptx", "f64 division, correctly rounded.\n" + common.strip() + common64.rstrip(), [prune(divide(double, m, False)) for m in MODES])
    inverse = """
Newton's iteration; directed modes repeat the step in their mode. The slow path is that of the division.
"""
    inverse32 = """
One step from MUFU.RCP is enough: of all values within one ulp only 33 pairs of significand and approximation would round
wrongly, and NVIDIA's own code, documented as IEEE, takes the same step on every target.
"""
    inverse64 = """
The last correction is e + e*e rounded up; without it the reciprocal of the significand of all ones ends in a tie.
"""
    write("rcp_f32.ptx", "f32 reciprocal, correctly rounded.\n" + inverse.strip() + inverse32.rstrip(), [prune(invert(single, m, z)) for m, z in both])
    write("rcp_f64.ptx", "f64 reciprocal, correctly rounded.\n" + inverse.strip() + inverse64.rstrip(), [prune(invert(double, m, False)) for m in MODES])
    roots = """
s = a/sqrt(a), then s += (a - s*s) * 1/(2*sqrt(a)); the remainder is exact. Directed modes do the step once more in their
mode: then only the remainder's sign counts.
"""
    roots32 = """
One step from MUFU.RSQ is enough: of all values within two ulps only 26 pairs of operand and approximation would round
wrongly, and NVIDIA's own code, documented as IEEE, takes the same step on every target.
"""
    roots64 = """
MUFU.RSQ64H computes the upper word of 1/sqrt(a), to two units of its last bit; the lower word may be any number, and is the register
that is at hand. After the step of third order the relative error of 1/sqrt(a) is below 2^-52, that of s below 2^-51.7, and that
of the sum before rounding below 2^-102.9. Roots that are nearer to the midpoint of two doubles belong to 178 significands, for which
`mathlib-check` computes the result with every error of MUFU; the next one is 2^-100 away.
"""
    write("sqrt_f32.ptx", "f32 square root, correctly rounded.\n" + roots.strip() + roots32.rstrip(), [root32(m, z) for m, z in both])
    write("sqrt_f64.ptx", "f64 square root, correctly rounded.\n" + roots.strip() + roots64.rstrip(), [root64(m) for m in MODES])


if __name__ == "__main__":
    main()
