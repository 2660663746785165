#!/usr/bin/env python3
"""Bounds what the records of `oriole explain` cost a compilation that does not ask for them, in executed instructions.

    python3 tools/explain-cost.py target/debug/oriole corpus/matmul_tiled.ptx corpus/float_math.ptx corpus/softmax_layernorm.ptx

Needs Valgrind, and a program with symbols in which small functions are not inlined: the dev profile. The cost has two parts. The functions that record
something return at once; callgrind counts their instructions. The schedulers test in their loops whether a trace is wanted; each test is at most three
instructions and runs at most as often as the most frequent instruction of its function. The exit status is 1 if the sum is above 1%.
"""

import collections
import re
import subprocess
import sys
import tempfile
from pathlib import Path

RECORDERS = re.compile(r"Alternatives::(reject|is_recording)|Remarks::(add|done|missed|forget_missed)|history::History|Decisions|uniform_trace")

# Functions of the schedulers with tests of `trace`, and the number of tests in each, at least as large as in the source.
TESTS = {"weighted::pass::Pass::run": 2, "engine::": 3, "list::": 2, "backend::pressure": 1, "oriole_sched::function": 4, "weighted::run": 2, "tree::run": 2}
TEST_INSTRUCTIONS = 3


def executions(profile):
    """Returns, for each function of a callgrind profile, the executions of each of its instructions by address."""
    names, counts = {}, collections.defaultdict(collections.Counter)
    function, address, is_call = None, 0, False
    for line in profile.read_text(errors="replace").splitlines():
        named = re.match(r"(c?fn)=\((\d+)\)(?: (.*))?", line)
        if named:
            names.setdefault(named[2], named[3])
            if named[1] == "fn":
                function = names[named[2]]
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"0x|[+*-]", line):
            place, *_, count = line.split()
            address = int(place, 16) if place.startswith("0x") else address + (int(place, 0) if place != "*" else 0)
            # The line after `calls=` has the cost of the called function.
            if not is_call:
                counts[function][address] += int(count)
            is_call = False
    return counts


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    program, *files = sys.argv[1:]
    worst = 0.0
    for file in files:
        with tempfile.TemporaryDirectory() as folder:
            profile = Path(folder, "profile")
            command = ["valgrind", "--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={profile}", program, "compile", file]
            subprocess.run([*command, "-o", f"{folder}/out.cubin", "--arch", "sm_90a"], check=True, capture_output=True)
            counts = executions(profile)
        total = sum(sum(function.values()) for function in counts.values())
        records = sum(sum(function.values()) for name, function in counts.items() if RECORDERS.search(name))
        tests = 0
        for part, number in TESTS.items():
            found = [max(function.values()) for name, function in counts.items() if "oriole_sched" in name and part in name]
            tests += TEST_INSTRUCTIONS * number * sum(found)
        if records == 0 or tests == 0:
            sys.exit(f"{file}: the program has no symbols, or the functions have other names")
        share = 100 * (records + tests) / total
        worst = max(worst, share)
        print(f"{file}: {total:,} instructions, {records:,} in functions that record, at most {tests:,} in tests: {share:.2f}%", flush=True)
    sys.exit(1 if worst > 1 else 0)


if __name__ == "__main__":
    main()
