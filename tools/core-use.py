#!/usr/bin/env python3
"""Measures what share of the processors a program can use, also on a machine with other work.

    python3 tools/core-use.py [--runs 3] COMMAND ARGUMENT...
    python3 tools/core-use.py --kernels 1000 target/release/oriole
    python3 tools/core-use.py --kernels 1000 --like bench/kernels target/release/oriole

A thread that waits for a processor would run on an idle machine. So the share is the time that all threads run or wait for a processor, divided by the wall
time and the number of processors. It comes from /proc/PID/task/*/schedstat (Linux), read every two milliseconds. `--kernels N` writes a module with N kernels
of 80 instructions and compiles it in one call; with `--like FOLDER` the kernels are those of the PTX files of a folder, each with a number in its name, as
often as needed. The exit status is 1 if the median of the runs is below `--least` percent (default 80).
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"


def kernel(number):
    work = "".join(f"    fma.rn.f32 %xi, %xi, %alpha, 0f3F80{step:04X};\n" for step in range(60))
    return f""".visible .entry saxpy_{number}(.param .u32 n, .param .f32 alpha, .param .u64 x, .param .u64 y)
{{
    .reg .pred %p; .reg .b32 %i, %block, %threads, %thread, %n; .reg .f32 %alpha, %xi, %yi; .reg .b64 %px, %py;
    mov.u32 %block, %ctaid.x; mov.u32 %threads, %ntid.x; mov.u32 %thread, %tid.x;
    mad.lo.u32 %i, %block, %threads, %thread;
    ld.param.u32 %n, [n]; setp.ge.u32 %p, %i, %n;
    @%p bra done;
    ld.param.f32 %alpha, [alpha]; ld.param.u64 %px, [x]; ld.param.u64 %py, [y];
    mad.wide.u32 %px, %i, 4, %px; mad.wide.u32 %py, %i, 4, %py;
    ld.global.f32 %xi, [%px]; ld.global.f32 %yi, [%py];
{work}    fma.rn.f32 %yi, %alpha, %xi, %yi; st.global.f32 [%py], %yi;
done: ret;
}}
"""


def real_kernels(folder, count):
    """Returns a module with at least `count` kernels: those of the PTX files of a folder, with other names in each copy. Variables come first, as in
    the PTX of a compiler."""
    declaration = re.compile(r"(?m)^[ \t]*(?:\.(?:visible|extern|weak|common)\s+)?\.(?:global|const|shared)\b[^;={(]*?([\w$]+)(?:\[\d*\])*;[ \t]*$")
    files = []
    for path in sorted(Path(folder).glob("*.ptx")):
        body = re.sub(r"(?m)^\s*\.(version|target|address_size)\b.*$|//.*$", "", path.read_text())
        head, kernel, _ = body.partition("{")
        # Files with other declarations than variables without values are left out.
        if len(re.findall(r"\.entry\b", body)) != 1 or ".func" in body or ".entry" not in declaration.sub("", head).strip()[:40]:
            continue
        names = [found[1] for found in declaration.finditer(head)] + re.findall(r"\.entry\s+([\w$]+)", head)
        declarations = "".join(found[0].strip() + "\n" for found in declaration.finditer(head))
        files.append((declarations, declaration.sub("", head).strip() + kernel + body[len(head) + 1:], names))
    declared, kernels = [".version 9.0\n.target sm_90a\n.address_size 64\n"], []
    for number in range(count):
        declarations, kernel, names = files[number % len(files)]
        pattern = r"(?<![\w$.%])(" + "|".join(map(re.escape, names)) + r")(?![\w$])"
        declared.append(re.sub(pattern, rf"\1_{number}", declarations))
        kernels.append(re.sub(pattern, rf"\1_{number}", kernel).strip() + "\n")
    return "".join(declared + kernels)


def measure(command):
    """Runs a command; returns wall time, time on processors and time waiting for one, of all threads together, in seconds."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    start, seen = time.monotonic(), {}
    tasks = Path(f"/proc/{process.pid}/task")
    while process.poll() is None:
        for task in os.listdir(tasks) if tasks.exists() else []:
            try:
                running, waiting, _ = (tasks / task / "schedstat").read_text().split()
                seen[task] = int(running), int(waiting)
            except (OSError, ValueError):
                continue
        time.sleep(0.002)
    wall = time.monotonic() - start
    if process.returncode != 0:
        sys.exit(f"core-use.py: exit status {process.returncode}")
    return wall, *(sum(times[part] for times in seen.values()) / 1e9 for part in (0, 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--least", type=float, default=80)
    parser.add_argument("--kernels", type=int, help="compile a module with this number of kernels with the program `oriole` that follows")
    parser.add_argument("--like", metavar="FOLDER", help="with --kernels: copies of the kernels of this folder")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    command = arguments.command or parser.error("no command")
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory() as name:
        if arguments.kernels:
            module = Path(name, "many.ptx")
            small = "" if arguments.like else HEADER + "".join(map(kernel, range(arguments.kernels)))
            module.write_text(small or real_kernels(arguments.like, arguments.kernels))
            command = [command[0], "compile", module, "--arch", "sm_90a", "-o", Path(name, "many.cubin")]
        shares = []
        for _ in range(arguments.runs):
            wall, running, waiting = measure(command)
            shares.append(100 * (running + waiting) / wall / cores)
            print(f"{wall:.2f} s: running {running:.2f} s, waiting for a processor {waiting:.2f} s; {shares[-1]:.0f}% of {cores} processors", flush=True)
    if statistics.median(shares) < arguments.least:
        sys.exit(f"core-use.py: below {arguments.least:.0f}%")


if __name__ == "__main__":
    main()
