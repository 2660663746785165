#!/usr/bin/env python3
"""Times the kernels of docs/stories before and after the change, on the GPU of this machine.

    examples/stories/measure.py ORIOLE [--arch sm_90a] [--runs 20] [STORY ...]

ORIOLE is the program `oriole`. Needs Python and the CUDA driver, nothing else. Prints one line of a Markdown table for each story: median time
of a launch in microseconds before and after (of 20 runs, each of several launches between two events), their ratio, the ratio of the times
that `oriole run --timing` predicts, and whether both kernels wrote the same results.
"""

import argparse
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
BENCH = HERE.parent.parent / "bench"
sys.path.insert(0, str(BENCH))
import measure as bench

STORIES = ["structs", "transpose", "constants", "registers", "histogram"]
# Stories whose two kernels read different inputs, so that their results differ.
OTHER_INPUT = {"structs"}


def compiled(oriole, arch, source, folder):
    """Compiles a kernel; returns its machine code."""
    output = pathlib.Path(folder) / f"{source.stem}.cubin"
    subprocess.run([oriole, "compile", source, "-o", output, "--arch", arch], check=True)
    return output.read_bytes()


def predicted(oriole, arch, source):
    """Returns the predicted microseconds of a launch."""
    done = subprocess.run([oriole, "run", source, "--arch", arch, "--timing"], capture_output=True, text=True, check=True)
    return float(re.search(r"about ([\d.]+) us", done.stdout)[1])


def times_of(driver, oriole, arch, source, runs, folder):
    """Launches a kernel; returns the times of its runs and a digest of its last buffer."""
    kernel, (grid, block), shared, arguments, buffers = bench.prepare(driver, source)
    _, function = driver.load(compiled(oriole, arch, source, folder), kernel)
    launch = (function, grid, block, shared, bench.pointers(arguments))
    digests = bench.results(driver, launch, buffers)
    count = max(5, min(100, int(1000 / driver.time(launch, 3))))
    times = [driver.time(launch, count) for _ in range(runs)]
    for buffer in buffers:
        driver.check(driver.cuda.cuMemFree_v2(buffer.address))
    return times, digests[-1]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("oriole")
    parser.add_argument("stories", nargs="*")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    driver = bench.Driver((BENCH / "fill.ptx").read_bytes())
    print(f"{driver.name}, {options.arch}, median of {options.runs} runs\n")
    print("| story | before, us | after, us | measured gain | predicted gain | results |\n|---|---|---|---|---|---|", flush=True)
    failed = False
    with tempfile.TemporaryDirectory() as folder:
        for story in options.stories or STORIES:
            sources = [HERE / f"{story}_{which}.ptx" for which in ("before", "after")]
            (before, one), (after, two) = (times_of(driver, options.oriole, options.arch, source, options.runs, folder) for source in sources)
            before, after = statistics.median(before), statistics.median(after)
            guesses = [predicted(options.oriole, options.arch, source) for source in sources]
            results = "other input" if story in OTHER_INPUT else "same" if one == two else "DIFFERENT"
            failed |= results == "DIFFERENT"
            gains = f"{before / after:.2f} | {guesses[0] / guesses[1]:.2f}"
            print(f"| {story} | {before:.2f} | {after:.2f} | {gains} | {results} |", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
