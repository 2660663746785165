"""Half-precision instructions as open functions of the halves that they read."""

import z3

from meaning import bits
from ori import Unsupported

# Instructions whose operands are pairs of halves.
ON_PAIRS = ("HADD2", "HMUL2", "HFMA2", "HMNMX2", "HSETP2", "HSET2")
SIGN = 1 << 15
HALVES_OF_SUFFIX = {"": (0, 1), ".H0_H0": (0, 0), ".H1_H1": (1, 1)}


def pair_read(run, source, has_single_result):
    """Returns the two halves that a register, a zero or a word of a constant bank stands for, the lower one first."""
    term = run.words(source)[0]
    if has_single_result and source.kind == "value" and not source.suffix:
        raise Unsupported(f"operand {source.text} of a sum in single precision")
    if source.suffix not in HALVES_OF_SUFFIX:
        raise Unsupported(f"operand {source.text}")
    pair = [bits(term, 16 * half + 15, 16 * half) for half in HALVES_OF_SUFFIX[source.suffix]]
    pair = [half & ~z3.BitVecVal(SIGN, 16) for half in pair] if source.absolute else pair
    return [half ^ SIGN for half in pair] if source.negate else pair


def on_pairs(run, inst, modifiers):
    """Every half of every operand is an operand of the open function. Two numbers are one operand, the upper half first."""
    operands, names, sources = [], [], list(inst.sources)
    while sources:
        source = sources.pop(0)
        if source.kind in ("true", "other"):
            names.append(source.text)
        elif source.kind == "value" and isinstance(run.words(source)[0], z3.BoolRef):
            operands.append(run.predicate(source))
        elif source.kind == "number":
            if not sources or sources[0].kind != "number":
                raise Unsupported(f"one number as a pair of halves: {inst.text}")
            lower = sources.pop(0)
            operands.append(z3.Concat(z3.BitVecVal(source.value, 16), z3.BitVecVal(lower.value, 16)))
        else:
            lower, upper = pair_read(run, source, "F32" in modifiers)
            operands.append(z3.Concat(upper, lower))
    if not inst.opcode.startswith("HSET"):
        # The order of two factors, summands or candidates does not matter.
        swap = z3.ULT(operands[1], operands[0])
        operands[:2] = [z3.If(swap, operands[1], operands[0]), z3.If(swap, operands[0], operands[1])]
    label = " ".join([inst.opcode, *names])
    results = []
    for number, result in enumerate(inst.results):
        sort = z3.BoolSort() if result.file.endswith("P") else z3.BitVecSort(32)
        results.append([run.function_of(f"{label} -> {number}", operands, sort)])
    return results


def pack(run, inst, modifiers):
    """`F2FP.PACK_AB`: each half is an open function of one single."""
    if "PACK_AB" not in modifiers or len(inst.sources) != 2:
        return None
    singles = [run.opaque_operand(source, True) for source in inst.sources]
    upper, lower = (run.function_of(f"half {inst.opcode}", [single], z3.BitVecSort(16)) for single in singles)
    return [[z3.Concat(upper, lower)]]


HANDLERS = {opcode: on_pairs for opcode in ON_PAIRS} | {"F2FP": pack}
