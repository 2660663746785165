#!/usr/bin/env python3
"""Makes the folder that bench/measure.py takes to a machine with a GPU.

    bench/bundle.py FOLDER [--arch sm_90a] [--oriole PATH] [--no-oriole-code] [--backends] [--strategies [NAME,...]]
    bench/bundle.py FOLDER --kernel-tests RUNNER [--arch sm_90a] [--oriole PATH]

Tests are those of bench/kernels and tools/timing/kernels. Sets of cubins: `ptxas` (-O3), `rescored` (the same with control words of
`oriole rescore`), `rescheduled` (with the order of `oriole rescore --schedule` as well), `oriole-O3` and `oriole-O0` where Oriole can compile
the kernel. ptxas is in ORIOLE_ORACLES or .oracles/bin
(tools/oracles.sh). `--strategies` adds a set `strategy-NAME` for each scheduling strategy, or for those that are named. What `oriole compile --json` says of each kernel goes to FOLDER/figures. On the other machine:

    python3 measure.py . > table.tsv

and then bench/table.py makes a page of it. With --kernel-tests it takes tests/kernels instead, and the sets `ptxas`, `rescored` and `rescheduled`, and RUNNER, the program `oriole-gpu-tests`, which judges
results by what the tests expect:

    ./oriole-gpu-tests --bundle . --jobs 4
"""

import argparse
import os
import pathlib
import resource
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
SOURCES = [ROOT / "bench/kernels", ROOT / "tools/timing/kernels"]
KERNEL_TESTS = ROOT / "tests/kernels"
# Bytes and seconds that a compiler may take for a kernel.
MEMORY = 6_000_000 << 10
SECONDS = 120
BACKENDS = ["a", "b", "c", "auto"]


def call(command, output=None):
    """None if all is well, else what the tool said. Its standard output may go to a file."""
    limit = lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, preexec_fn=limit, check=False)
    except subprocess.TimeoutExpired:
        return f"more than {SECONDS} seconds"
    if done.returncode == 0 and output:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_text(done.stdout)
    return None if done.returncode == 0 else (done.stderr or done.stdout).strip().splitlines()[0]


def strategies(oriole, wanted):
    """The names of the strategies in the help of the compiler; all of them, or those that are wanted."""
    shown = subprocess.run([oriole, "compile", "--sched-strategy", "help"], capture_output=True, text=True, check=True).stdout
    names = [line.split()[0] for line in shown.splitlines()]
    if wanted == "all":
        return names
    unknown = set(wanted.split(",")) - set(names)
    assert not unknown, f"no strategies: {unknown}"
    return wanted.split(",")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--oriole", type=pathlib.Path, default=ROOT / "target/debug/oriole")
    parser.add_argument("--no-oriole-code", action="store_true", help="leave out what Oriole compiles itself")
    parser.add_argument("--backends", action="store_true", help="also a set for each backend of the scheduler")
    parser.add_argument(
        "--strategies",
        nargs="?",
        const="all",
        metavar="NAME,...",
        help="also a set for each scheduling strategy (oriole compile --sched-strategy help), or for those that are named",
    )
    parser.add_argument("--kernel-tests", type=pathlib.Path, metavar="RUNNER")
    options = parser.parse_args()
    ptxas = pathlib.Path(os.environ.get("ORIOLE_ORACLES") or ROOT / ".oracles/bin") / "ptxas"
    if options.folder.exists():
        shutil.rmtree(options.folder)
    is_plain = options.no_oriole_code or options.kernel_tests
    compiled = {"oriole-O3": ["-O3"], "oriole-O0": ["-O0"]}
    if options.backends:
        compiled |= {f"oriole-{backend}": ["-O3", "--sched-backend", backend] for backend in BACKENDS}
    if options.strategies:
        compiled |= {f"strategy-{name}": ["-O3", "--sched-strategy", name] for name in strategies(options.oriole, options.strategies)}
    sets = ["ptxas", "rescored", "rescheduled"] + ([] if is_plain else list(compiled))
    if options.kernel_tests:
        sources = [(path, path.relative_to(KERNEL_TESTS)) for path in sorted(KERNEL_TESTS.glob("*/*.ptx"))]
        tools = [options.kernel_tests]
    else:
        sources = [(path, pathlib.Path(path.name)) for folder in SOURCES for path in sorted(folder.glob("*.ptx"))]
        tools = [ROOT / "bench/measure.py", ROOT / "bench/fill.ptx"]
    assert len({name for _, name in sources}) == len(sources), "two kernels have the same name"
    options.folder.mkdir(parents=True)
    for tool in tools:
        shutil.copy(tool, options.folder)
    made = dict.fromkeys(sets, 0)
    for source, name in sources:
        cubin = lambda label: options.folder / "cubins" / label / name.with_suffix(".cubin")
        for place in [options.folder / "tests" / name, *map(cubin, sets)]:
            place.parent.mkdir(parents=True, exist_ok=True)
        commands = {
            "ptxas": [ptxas, f"-arch={options.arch}", "-O3", source, "-o", cubin("ptxas")],
            "rescored": [options.oriole, "rescore", cubin("ptxas"), "-o", cubin("rescored")],
            "rescheduled": [options.oriole, "rescore", "--schedule", cubin("ptxas"), "-o", cubin("rescheduled")],
        }
        for label, flags in compiled.items():
            commands[label] = [options.oriole, "compile", source, "-o", cubin(label), "--arch", options.arch, "--json", *flags]
        shutil.copy(source, options.folder / "tests" / name)
        for label in sets:
            figures = options.folder / "figures" / label / name.with_suffix(".json")
            complaint = call(commands[label], figures if label in compiled else None)
            if complaint:
                print(f"{name}: {label}: {complaint}", file=sys.stderr)
                cubin(label).unlink(missing_ok=True)
            made[label] += complaint is None
    size = sum(path.stat().st_size for path in options.folder.rglob("*") if path.is_file())
    print(f"{options.folder}: {made}, {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
