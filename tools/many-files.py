#!/usr/bin/env python3
"""Measures `oriole compile` with many files: peak memory, time, and how busy the processors are.

    python3 tools/many-files.py target/release/oriole [--counts 100 1000] [--limit 2]

The files are those of `corpus` that compile for sm_90a, copied under new names, with a comment that makes each of them different. Every count
includes the same files equally often, so that memory would grow with the count if the compiler kept anything of a file. It does depend on chance:
on which files are in work together. The exit status is 1 if the highest count needs more than `--limit` times the memory of the lowest, or if a second
call with the cubins of the first in a cache has a miss.
"""

import argparse
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
# Counts are multiples of this number of different files.
DIFFERENT = 50


def measure(command):
    """Runs a command; returns its output, the seconds it took, the processor seconds, and the peak memory in MiB."""
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    seconds = time.monotonic() - start
    if process.returncode != 0:
        sys.exit(f"many-files.py: exit status {process.returncode}\n{output.decode(errors='replace')[-2000:]}")
    return output, seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("oriole", type=pathlib.Path)
    parser.add_argument("--counts", type=int, nargs="+", default=[100, 1000])
    parser.add_argument("--limit", type=float, default=2)
    arguments = parser.parse_args()
    oriole = arguments.oriole.resolve(strict=True)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        usable = []
        for path in sorted((ROOT / "corpus").glob("*.ptx")):
            if len(usable) < DIFFERENT:
                done = subprocess.run([oriole, "compile", path, "-o", folder / "one.cubin", "--arch", "sm_90a"], capture_output=True)
                usable += [path] if done.returncode == 0 else []
        print(f"{len(usable)} different files, {sum(path.stat().st_size for path in usable) >> 10} KiB; {os.cpu_count()} processors")
        peaks = []
        for count in sorted(arguments.counts):
            inputs = folder / f"in{count}"
            inputs.mkdir()
            files = []
            for number in range(count):
                files.append(inputs / f"file{number}.ptx")
                files[-1].write_bytes(usable[number % len(usable)].read_bytes() + f"// {number}\n".encode())
            out = folder / f"out{count}"
            command = [oriole, "compile", *files, "--out-dir", out, "--arch", "sm_90a", "--cache", folder / f"cache{count}", "-v"]
            _, seconds, busy, peak = measure(command)
            if sum(1 for _ in out.iterdir()) != count:
                sys.exit("many-files.py: not every file has a cubin")
            again, hit_seconds, _, _ = measure(command)
            hits = again.count(b"cache: hit")
            peaks.append(peak)
            print(f"{count} files: peak {peak:.0f} MiB, {seconds:.1f} s, processors {100 * busy / seconds / os.cpu_count():.0f}% busy; "
                  f"again from the cache: {hits} hits, {hit_seconds:.2f} s", flush=True)
            if hits != count:
                sys.exit(f"many-files.py: {count - hits} misses")
        if peaks[-1] > arguments.limit * peaks[0]:
            sys.exit(f"many-files.py: memory grows from {peaks[0]:.0f} to {peaks[-1]:.0f} MiB")


if __name__ == "__main__":
    main()
