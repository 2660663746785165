#!/usr/bin/env python3
"""Runs every kernel of PTX modules twice on a GPU, from two cubins, and compares all memory they can reach.

    check.py FOLDER [--timeout S]

FOLDER holds NAME.ptx with NAME.a.cubin and NAME.b.cubin beside it, for instance by ptxas and by Oriole. Nothing is known about
what the kernels mean: every 8-byte parameter points to a buffer of its own, 4-byte parameters are small numbers, everything else is
zero. Buffers hold small integers in one run, floats in another. A kernel that faults or hangs with the first cubin is left out, and
so is one whose results differ from one run of the first cubin to the next. ptxas should get `--fmad=false`: it may otherwise fuse
products and sums.
Needs CuPy. Exits with 1 if anything differs.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys

BYTES = 1 << 20
COUNT = 96
# One warp: whatever several of them write to one place would depend on their order.
LAUNCH = ((1, 1, 1), (32, 1, 1))


def kernels(text):
    """Names, sizes of parameters and required block sizes of all kernels."""
    text = re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)
    for match in re.finditer(r"\.entry\s+([\w$%]+)\s*(?:\((.*?)\))?\s*((?:\.\w+[^{;]*)?)\{", text, flags=re.S):
        sizes = []
        for parameter in (match[2] or "").split(","):
            words = parameter.split()
            if not words:
                continue
            element = next(int(re.sub(r"\D", "", w) or 64) // 8 for w in words if re.fullmatch(r"\.[bsuf](8|16|32|64|128)", w))
            count = re.search(r"\[(\d+)\]", parameter)
            sizes.append((element, int(count[1]) if count else None))
        block = re.search(r"\.(?:reqntid|maxntid)\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", match[3] or "")
        yield match[1], sizes, block and [int(x or 1) for x in block.groups()], ".reqntid" in (match[3] or "")


def fill(cupy, mode, seed):
    random = cupy.random.RandomState(seed)
    if mode == "integers":
        return random.randint(0, 60, BYTES // 4, dtype=cupy.int32).view(cupy.uint8)
    if mode == "floats":
        return (random.random_sample(BYTES // 4).astype(cupy.float32) + 0.5).view(cupy.uint8)
    return (random.random_sample(BYTES // 8) + 0.5).view(cupy.uint8)


def run_kernel(cupy, numpy, function, sizes, block, mode):
    buffers, arguments = [], []
    for number, (element, count) in enumerate(sizes):
        if count is None and element == 8:
            buffers.append(fill(cupy, mode, number))
            arguments.append(buffers[-1])
        elif count is None and element == 4:
            arguments.append(numpy.int32(COUNT))
        elif count is None:
            arguments.append(numpy.zeros(1, dtype=f"u{element}")[0])
        else:
            arguments.append(numpy.zeros(1, dtype=numpy.dtype((numpy.void, element * count)))[0])
    function(LAUNCH[0], tuple(block or LAUNCH[1]), tuple(arguments), shared_mem=16384)
    cupy.cuda.runtime.deviceSynchronize()
    return [buffer.get() for buffer in buffers]


def work(path, skip):
    import cupy
    import numpy

    modules = {which: cupy.RawModule(path=str(path.with_suffix(f".{which}.cubin"))) for which in "ab"}
    for name, sizes, block, _ in kernels(path.read_text()):
        if name in skip:
            continue
        for mode in ("integers", "floats", "doubles"):
            results = {}
            for run, which in (("a", "a"), ("again", "a"), ("b", "b")):
                print(json.dumps(["start", name, which]), flush=True)
                results[run] = run_kernel(cupy, numpy, modules[which].get_function(name), sizes, block, mode)
            wrong = []
            if any(not numpy.array_equal(x, y) for x, y in zip(results["a"], results["again"])):
                print(json.dumps(["done", name, mode, wrong]), flush=True)
                continue
            for number, (x, y) in enumerate(zip(results["a"], results["b"])):
                if not numpy.array_equal(x, y):
                    words = numpy.flatnonzero(x.view(numpy.uint32) != y.view(numpy.uint32))
                    first = int(words[0])
                    wrong.append(f"buffer {number} word {first}: {x.view(numpy.uint32)[first]:08x} {y.view(numpy.uint32)[first]:08x}, {len(words)} differ")
            print(json.dumps(["done", name, mode, wrong]), flush=True)
    print(json.dumps(["end"]), flush=True)


def judge(path, timeout):
    """Runs a module in processes of its own until all kernels have had their turn."""
    skip, counts = set(), {"same": 0, "different": 0, "broken": 0, "left out": 0}
    while True:
        command = [sys.executable, __file__, "--work", str(path), "--skip", ",".join(skip)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout)
            output, error = done.stdout, done.stderr
        except subprocess.TimeoutExpired as expired:
            output, error = (expired.stdout or b"").decode(), "no end"
        lines = [json.loads(line) for line in output.splitlines() if line.startswith("[")]
        finished = {}
        for line in lines:
            if line[0] == "done":
                finished.setdefault(line[1], []).append(line)
        started = [line for line in lines if line[0] == "start"]
        for name, runs in finished.items():
            if name in skip:
                continue
            wrong = [f"{run[2]}: {text}" for run in runs for text in run[3]]
            if started and started[-1][1] == name and lines[-1][0] != "end" and len(runs) < 3:
                continue
            skip.add(name)
            counts["different" if wrong else "same"] += 1
            if wrong:
                print(f"{path.stem}: {name}: {'; '.join(wrong[:2])}", flush=True)
        if lines and lines[-1] == ["end"]:
            return counts
        if not started or started[-1][1] in skip:
            print(f"{path.stem}: {error.strip().splitlines()[-1] if error.strip() else 'no output'}", flush=True)
            counts["broken"] += 1
            return counts
        _, name, which = started[-1]
        skip.add(name)
        counts["left out" if which == "a" else "broken"] += 1
        if which == "b":
            print(f"{path.stem}: {name}: fails: {error.strip().splitlines()[-1] if error.strip() else ''}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path, nargs="?")
    parser.add_argument("--timeout", type=float, default=30, help="seconds for one process")
    parser.add_argument("--work", type=pathlib.Path, help=argparse.SUPPRESS)
    parser.add_argument("--skip", default="", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        return work(arguments.work, set(arguments.skip.split(",")))
    from concurrent.futures import ThreadPoolExecutor

    paths = [path for path in sorted(arguments.folder.glob("*.ptx")) if path.with_suffix(".b.cubin").exists()]
    with ThreadPoolExecutor(6) as pool:
        all_counts = list(pool.map(lambda path: judge(path, arguments.timeout), paths))
    total = {key: sum(counts[key] for counts in all_counts) for key in all_counts[0]}
    print(", ".join(f"{count} {key}" for key, count in total.items()))
    return 1 if total["different"] or total["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
