#!/usr/bin/env python3
"""Compares registers and occupancy with those of ptxas, kernel by kernel.

    bench/registers.py OURS THEIRS [--arch sm_90a] [--jobs N] [--out TABLE.tsv] FILE-OR-FOLDER...

OURS is our `ptxas`, THEIRS that of NVIDIA. Every PTX file is compiled with both at -O3 -v; a file that one of them refuses is counted and left
out. Prints the geometric mean of registers, and in how many kernels fewer or more warps are resident. Resident warps follow from the
registers, in the units in which a multiprocessor of sm_80 to sm_90 hands them out, and from the declared number of threads of a block
(`.maxntid`, `.reqntid`) where there is one: only whole blocks are resident then. Shared memory is the same for both and does not count.
"""

import argparse
import concurrent.futures
import math
import pathlib
import re
import subprocess
import sys
import tempfile

REGISTERS_PER_SCHEDULER = 16384
SCHEDULERS = 4
WARPS_PER_SCHEDULER = 16
REGISTERS_UNIT = 256

PROPERTIES = re.compile(r"Compiling entry function '([^']+)'|Used (\d+) registers|(\d+) bytes spill stores")


def compile_file(compiler, arch, path):
    """Returns registers and bytes of spill stores by kernel; None if the compiler refuses the file."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "out.cubin"
        command = [compiler, "-O3", "-v", f"-arch={arch}", str(path), "-o", str(output)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return None
    if done.returncode != 0:
        return None
    found, name, spilled = {}, None, 0
    for match in PROPERTIES.finditer(done.stdout + done.stderr):
        if match.group(1):
            name, spilled = match.group(1), 0
        elif match.group(3):
            spilled = int(match.group(3))
        elif name:
            found[name] = (int(match.group(2)), spilled)
            name = None
    return found


def threads_of(text):
    """Returns the declared number of threads of a block by kernel."""
    found = {}
    for match in re.finditer(r"\.entry\s+([\w$]+)(.*?)\{", text, re.S):
        sizes = [re.search(rf"\.{word}\s+([\d,\s]+)", match.group(2)) for word in ("reqntid", "maxntid")]
        size = next((size for size in sizes if size), None)
        if size:
            found[match.group(1)] = math.prod(int(number) for number in size.group(1).split(",") if number.strip())
    return found


def resident_warps(registers, threads):
    """Returns the resident warps of a multiprocessor."""
    per_warp = -(-max(registers, 1) * 32 // REGISTERS_UNIT) * REGISTERS_UNIT
    warps = SCHEDULERS * min(REGISTERS_PER_SCHEDULER // per_warp, WARPS_PER_SCHEDULER)
    if not threads:
        return warps
    of_block = -(-threads // 32)
    return warps // of_block * of_block


def compare(arguments, path):
    ours = compile_file(arguments.ours, arguments.arch, path)
    theirs = compile_file(arguments.theirs, arguments.arch, path) if ours is not None else None
    if ours is None or theirs is None:
        return path, None
    threads = threads_of(path.read_text(errors="replace"))
    rows = []
    for name in sorted(ours.keys() & theirs.keys()):
        (registers, spilled), (rival, rival_spilled) = ours[name], theirs[name]
        size = threads.get(name)
        rows.append((name, registers, rival, resident_warps(registers, size), resident_warps(rival, size), spilled, rival_spilled))
    return path, rows


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("theirs")
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    lines = []
    print("| kernels of | kernels | registers, geometric mean | fewer | more | occupancy higher | occupancy lower | with spills | ptxas with spills |")
    print("|---|---|---|---|---|---|---|---|---|")
    total = []
    refused = 0
    for group in arguments.paths:
        files = sorted(group.rglob("*.ptx")) if group.is_dir() else [group]
        rows = []
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for path, found in pool.map(lambda path: compare(arguments, path), files):
                if found is None:
                    refused += 1
                    continue
                rows += found
                lines += ["\t".join(map(str, (path, *row))) for row in found]
        total += rows
        print(table_row(str(group), rows), flush=True)
    print(table_row("all", total))
    print(f"\n{refused} files were refused by one of the two and left out.")
    if arguments.out:
        arguments.out.write_text("file\tkernel\tregisters\tptxas\twarps\tptxas warps\tspilled\tptxas spilled\n" + "\n".join(lines) + "\n")
    return 0


def table_row(name, rows):
    if not rows:
        return f"| {name} | 0 | | | | | | | |"
    mean = math.exp(sum(math.log(max(row[1], 1) / max(row[2], 1)) for row in rows) / len(rows))
    fewer, more = sum(row[1] < row[2] for row in rows), sum(row[1] > row[2] for row in rows)
    higher, lower = sum(row[3] > row[4] for row in rows), sum(row[3] < row[4] for row in rows)
    spills = [sum(row[at] > 0 for row in rows) for at in (5, 6)]
    return f"| {name} | {len(rows)} | {mean:.3f} | {fewer} | {more} | {higher} | {lower} | {spills[0]} | {spills[1]} |"


if __name__ == "__main__":
    sys.exit(main())
