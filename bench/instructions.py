#!/usr/bin/env python3
"""Compares the length of code and the registers with those of ptxas, file by file.

    bench/instructions.py OURS THEIRS [--arch sm_90a,sm_80] [--oriole ORIOLE] [--worst N] [--out TABLE.tsv] FILE-OR-FOLDER...

OURS is our `ptxas`, THEIRS that of NVIDIA, ORIOLE our `oriole` (next to OURS if not given), which lists both cubins. Every PTX file is
compiled with both at -O3 -v; a file that one of them refuses is counted and left out. The instructions of a file are those of all kernels
and functions together, because ptxas copies functions into their callers: without `NOP`, and without the branch to itself that ends every
function. The registers are the largest number of a kernel of the file. Prints sums and geometric means by folder or file and target, and the
files with the greatest ratios of instructions.
"""

import argparse
import concurrent.futures
import math
import pathlib
import re
import subprocess
import sys
import tempfile

INSTRUCTION = re.compile(r"^\s+/\*[0-9a-f]{4,}\*/\s+(.*?)\s*;", re.M)
FUNCTION = re.compile(r"^\.text\.([\w$.]+):", re.M)
ENTRY = re.compile(r"Compiling entry function '([^']+)'|Used (\d+) registers")


def instructions_of(listing):
    """Returns the number of instructions of a listing that are neither padding nor the branch after the end of a function."""
    functions = FUNCTION.split(listing)[2::2]
    texts = [text for function in functions for text in INSTRUCTION.findall(function)]
    return sum(not re.search(r"(^|\s)NOP$", text) for text in texts) - len(functions)


def registers_of(messages):
    """Returns the largest number of registers of a kernel."""
    found, is_kernel = [0], False
    for match in ENTRY.finditer(messages):
        if match.group(1):
            is_kernel = True
        elif is_kernel:
            found.append(int(match.group(2)))
            is_kernel = False
    return max(found)


def measure(compiler, oriole, arch, path):
    """Returns instructions and registers of a file; None if the compiler refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder) / "out.cubin"
        command = [compiler, "-O3", "-v", f"-arch={arch}", str(path), "-o", str(output)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
        except subprocess.TimeoutExpired:
            return None
        if done.returncode != 0:
            return None
        listing = subprocess.run([oriole, "disasm", str(output)], capture_output=True, text=True, check=True).stdout
    return instructions_of(listing), registers_of(done.stdout + done.stderr)


def compare(arguments, arch, path):
    ours = measure(arguments.ours, arguments.oriole, arch, path)
    theirs = measure(arguments.theirs, arguments.oriole, arch, path) if ours else None
    return path, (*ours, *theirs) if theirs and theirs[0] > 0 else None


def mean_ratio(rows, at):
    """Returns the geometric mean of the ratios of one column."""
    return math.exp(sum(math.log(max(row[at], 1) / max(row[at + 2], 1)) for _, row in rows) / len(rows))


def table_row(name, arch, rows):
    if not rows:
        return f"| {name} | {arch} | 0 | | | | |"
    sums = [sum(row[at] for _, row in rows) for at in range(4)]
    worst = max(row[0] / row[2] for _, row in rows)
    figures = f"{sums[0] / sums[2]:.3f} | {mean_ratio(rows, 0):.3f} | {worst:.2f} | {mean_ratio(rows, 1):.3f}"
    return f"| {name} | {arch} | {len(rows)} | {figures} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("ours")
    parser.add_argument("theirs")
    parser.add_argument("paths", nargs="+", type=pathlib.Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--oriole")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--worst", type=int, default=10)
    parser.add_argument("--out", type=pathlib.Path)
    arguments = parser.parse_args()
    arguments.oriole = arguments.oriole or str(pathlib.Path(arguments.ours).with_name("oriole"))
    print("| files of | target | files | instructions, sums | geometric mean | greatest | registers, geometric mean |")
    print("|---|---|---|---|---|---|---|")
    found, refused = [], 0
    for group in arguments.paths:
        files = sorted(group.rglob("*.ptx")) if group.is_dir() else [group]
        for arch in arguments.arch.split(","):
            with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
                results = list(pool.map(lambda path, arch=arch: compare(arguments, arch, path), files))
            rows = [(path, row) for path, row in results if row]
            refused += len(results) - len(rows)
            found += [(path, arch, row) for path, row in rows]
            print(table_row(str(group), arch, rows), flush=True)
    print(f"\n{refused} compilations were refused by one of the two and left out.\n")
    found.sort(key=lambda entry: (-entry[2][0] / entry[2][2], str(entry[0]), entry[1]))
    for path, arch, row in found[: arguments.worst]:
        print(f"{row[0] / row[2]:.2f}  {row[0]:5} {row[2]:5} instructions, {row[1]:3} {row[3]:3} registers  {arch} {path}")
    if arguments.out:
        lines = ["\t".join(map(str, (path, arch, *row))) for path, arch, row in found]
        arguments.out.write_text("file\ttarget\tinstructions\tregisters\tptxas instructions\tptxas registers\n" + "\n".join(lines) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
