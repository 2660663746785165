#!/usr/bin/env python3
"""Compares the processor time that two programs take to compile PTX files, one process for each file.

    python3 tools/compile-time.py target/release/ptxas $(tools/oracles.sh)/ptxas [--arch sm_90a] [--level 3] [--rounds 3] [FILE...]

Without files, those of `corpus`, `examples` and `bench/kernels` that both programs accept. Processor time (of all threads, with that of the system) hardly
depends on other work on the machine, unlike wall time. The first program is copied first, as an installation does: the page cache keeps a file that a linker wrote
in small pages, and each process that starts from it takes about a millisecond more. Of several rounds the smallest time of each file counts. Prints the sums, their ratio, the smallest ratio of
a file, and the time of a process that only prints its version.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def processor_time(command):
    """Runs a command; returns its processor time in seconds, or None if it fails."""
    process = subprocess.Popen([str(part) for part in command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return usage.ru_utime + usage.ru_stime if process.returncode == 0 else None


def smallest(command, rounds):
    """Returns the smallest processor time of several runs, or None if the command fails."""
    times = [processor_time(command)]
    while times[-1] is not None and len(times) < rounds:
        times.append(processor_time(command))
    return None if times[-1] is None else min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ours", type=Path)
    parser.add_argument("theirs", type=Path)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--level", type=int, default=3, help="optimization level")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_intermixed_args()
    programs = [arguments.ours.resolve(strict=True), arguments.theirs.resolve(strict=True)]
    folders = ("corpus", "examples", "bench/kernels")
    files = arguments.files or sorted(file for folder in folders for file in (ROOT / folder).rglob("*.ptx"))
    sums, ratios, refused = [0.0, 0.0], [], 0
    with tempfile.TemporaryDirectory() as folder:
        programs[0] = shutil.copy(programs[0], Path(folder, "ptxas"))
        for file in files:
            options = [f"-arch={arguments.arch}", f"-O{arguments.level}", file, "-o", Path(folder, "out.cubin")]
            times = [smallest([program, *options], arguments.rounds) for program in programs]
            if None in times:
                refused += 1
                continue
            sums = [total + time for total, time in zip(sums, times)]
            ratios.append((times[1] / max(times[0], 1e-6), file))
        starts = [smallest([program, "--version"], 20) for program in programs]
    if not ratios:
        sys.exit("no file is accepted by both programs")
    print(f"{len(ratios)} files, {refused} left out: {sums[0]:.2f} s and {sums[1]:.2f} s of processor time, {sums[1] / sums[0]:.2f} times")
    least, file = min(ratios)
    print(f"smallest ratio {least:.2f}: {file}")
    print(f"a process that prints its version: {1e3 * starts[0]:.2f} ms and {1e3 * starts[1]:.2f} ms")


if __name__ == "__main__":
    main()
