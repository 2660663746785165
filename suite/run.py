#!/usr/bin/env python3
"""Builds the programs of suite/programs with nvcc, once with its ptxas and once with Oriole's, runs both on this machine's GPU and compares.

    python3 suite/run.py --nvcc /usr/local/cuda/bin/nvcc --ptxas target/release/ptxas [--arch sm_90a] [PROGRAM ...]

A program compares its results with those of the CPU and exits with status 1 if they are wrong. Standard output must be the same for both
builds. Times are those of kernels, by CUDA events; the time of a program is the sum over its kernels. The exit status is 0 if all programs
were built, ran and printed the same, 1 if not, 2 for wrong arguments. --build-only needs no GPU.
"""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

PROGRAMS = pathlib.Path(__file__).resolve().parent / "programs"
# `// suite: options="-rdc=true" needs=cub/cub.cuh` in a source: options for nvcc, a header without which the program is left out.
DIRECTIVE = re.compile(r"^// suite:(.*)$", re.MULTILINE)
BUILD_SECONDS = 300
RUN_SECONDS = 60
SETS = ("ptxas", "oriole")


def directives(source):
    pairs = [word.partition("=") for line in DIRECTIVE.findall(source.read_text()) for word in shlex.split(line)]
    unknown = {key for key, _, _ in pairs} - {"options", "needs"}
    if unknown:
        sys.exit(f"{source.name}: unknown key in a `// suite:` line: {', '.join(sorted(unknown))}")
    return {key: value for key, _, value in pairs}


def toolkit(nvcc, ptxas, folder):
    """Makes a folder like that of nvcc's toolkit, where only ptxas is another; returns its nvcc.

    nvcc finds its tools next to itself and everything else relative to that folder. nvcc itself is copied: it would follow a link.
    """
    top = nvcc.parent.parent
    (folder / "bin").mkdir(parents=True)
    for entry in top.iterdir():
        if entry.name != "bin":
            (folder / entry.name).symlink_to(entry)
    for entry in nvcc.parent.iterdir():
        if entry.name in ("nvcc", "nvcc.profile"):
            shutil.copy2(entry, folder / "bin" / entry.name)
        elif entry.name != "ptxas":
            (folder / "bin" / entry.name).symlink_to(entry)
    shutil.copy2(ptxas, folder / "bin/ptxas")
    (folder / "bin/ptxas").chmod(0o755)
    return folder / "bin/nvcc"


def has_header(nvcc, name):
    include = nvcc.parent.parent / "include"
    targets = nvcc.parent.parent.glob("targets/*/include")
    return any((place / sub / name).exists() for place in (include, *targets) for sub in ("", "cccl"))


def build(nvcc, source, output, arch, log):
    """Returns None and the seconds, or what went wrong and the seconds."""
    # No PTX in the program: the driver must not compile it if it rejects the machine code.
    target = f"arch={arch.replace('sm_', 'compute_')},code={arch}"
    command = [nvcc, "-gencode", target, "-O3", "-std=c++17", "-w", *shlex.split(directives(source).get("options", ""))]
    # The packages of PyPI have the runtime library in a folder that nvcc does not search.
    library = nvcc.parent.parent / "lib"
    if (library / "libcudart_static.a").exists():
        command += ["-L", library]
    start = time.monotonic()
    with subprocess.Popen([*command, source, "-o", output], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True) as process:
        try:
            text, _ = process.communicate(timeout=BUILD_SECONDS)
            complaint = None if process.returncode == 0 else text.strip() or f"exit status {process.returncode}"
        except subprocess.TimeoutExpired:
            # The compilers that nvcc has started as well.
            os.killpg(process.pid, signal.SIGKILL)
            complaint = f"more than {BUILD_SECONDS} seconds"
    if complaint:
        log.write_text(complaint + "\n")
        errors = [line for line in complaint.splitlines() if "error" in line or "fatal" in line]
        complaint = (errors or complaint.splitlines())[0]
    return complaint, time.monotonic() - start


def run(program):
    """Returns the exit status or what went wrong, standard output, {kernel: microseconds} and {result: hash}."""
    try:
        done = subprocess.run([program], capture_output=True, text=True, timeout=RUN_SECONDS, check=False, errors="replace")
    except subprocess.TimeoutExpired:
        return f"more than {RUN_SECONDS} seconds", "", {}, {}
    times, bits = {}, {}
    for line in done.stderr.splitlines():
        words = line.split(" ")
        if words[0] == "time" and len(words) >= 3:
            times[" ".join(words[1:-1])] = float(words[-1])
        elif words[0] == "bits":
            bits[" ".join(words[1:-1])] = words[-1]
    return done.returncode, done.stdout, times, bits


def last_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if "wrong" in line or "error" in line]
    return (wrong or lines or ["no output"])[-1]


def judge(results):
    """A word or sentence on the results of a program in both builds; `same` is good, `same, other bits` as well."""
    (old, old_text, _, old_bits), (new, new_text, _, new_bits) = (results[label] for label in SETS)
    if old != 0:
        return f"fails with ptxas ({old}): {last_line(old_text)}"
    if new != 0:
        return f"FAILS ({new}): {last_line(new_text)}"
    if old_text != new_text:
        return "DIFFERENT output"
    return "same" if old_bits == new_bits else "same, other bits"


def merge(first, second):
    """Least times of two runs of one program; results must not change from run to run."""
    if first[:2] != second[:2] and first[0] == 0:
        return (second[0] or "output changes from run to run", *second[1:])
    return (*first[:2], {name: min(value, second[2].get(name, value)) for name, value in first[2].items()}, first[3])


def mean(values):
    return math.exp(sum(map(math.log, values)) / len(values))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", nargs="*", help="names of programs; without them, all")
    parser.add_argument("--nvcc", type=pathlib.Path, default=shutil.which("nvcc"), help="nvcc of a CUDA toolkit; without it, that of PATH")
    parser.add_argument("--ptxas", type=pathlib.Path, required=True, help="Oriole's ptxas")
    parser.add_argument("--arch", default="sm_90a")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="builds at a time")
    parser.add_argument("--rounds", type=int, default=1, help="runs of each program; the least times count")
    parser.add_argument("--work", type=pathlib.Path, help="folder for programs, logs and outputs; without it, a temporary one")
    parser.add_argument("--build-only", action="store_true")
    parser.add_argument("--kernels", action="store_true", help="a row for each kernel, too")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="also write all figures to a file")
    options = parser.parse_args()
    if not options.nvcc or not options.nvcc.exists():
        parser.error("no nvcc: say --nvcc PATH")
    if not options.ptxas.exists():
        parser.error(f"{options.ptxas} does not exist")
    sources = sorted(PROGRAMS.glob("*.cu"))
    unknown = set(options.programs) - {source.stem for source in sources}
    if unknown:
        parser.error(f"no such program: {', '.join(sorted(unknown))}")
    sources = [source for source in sources if not options.programs or source.stem in options.programs]
    with tempfile.TemporaryDirectory(prefix="oriole-suite-") as temporary:
        work = (options.work or pathlib.Path(temporary)).absolute()
        return compare(options, sources, work)


def compare(options, sources, work):
    # nvcc may be a link into the toolkit.
    nvcc = options.nvcc.resolve()
    shutil.rmtree(work / "toolkit", ignore_errors=True)
    compilers = {"ptxas": nvcc, "oriole": toolkit(nvcc, options.ptxas.resolve(), work / "toolkit")}
    failed = 0
    left_out = [source for source in sources if (needs := directives(source).get("needs")) and not has_header(nvcc, needs)]
    for source in left_out:
        print(f"{source.stem}: left out, the toolkit has no {directives(source)['needs']}")
    sources = [source for source in sources if source not in left_out]
    begin = time.monotonic()
    place = lambda label, source: work / label / source.stem
    # Sources that include large headers take longest: they begin first.
    order = sorted(sources, key=lambda source: "needs" not in directives(source))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        builds = {}
        for source in order:
            for label, compiler in compilers.items():
                place(label, source).parent.mkdir(parents=True, exist_ok=True)
                log = place(label, source).with_suffix(".log")
                builds[label, source] = pool.submit(build, compiler, source, place(label, source), options.arch, log)
        built = {key: future.result() for key, future in builds.items()}
    for (label, source), (complaint, _) in sorted(built.items()):
        if complaint:
            failed += 1
            print(f"{source.stem}: not built with {label}: {complaint}")
    print(f"{sum(complaint is None for complaint, _ in built.values())} of {len(built)} builds in {time.monotonic() - begin:.0f} s")
    if options.build_only:
        return 1 if failed else 0

    begin = time.monotonic()
    rows, record = [], {}
    for source in sources:
        if any(built[label, source][0] for label in SETS):
            continue
        results = {label: run(place(label, source)) for label in SETS}
        for _ in range(options.rounds - 1):
            for label in reversed(SETS):
                results[label] = merge(results[label], run(place(label, source)))
        verdict = judge(results)
        failed += not verdict.startswith("same")
        times = {label: results[label][2] for label in SETS}
        for label in SETS:
            place(label, source).with_suffix(".out").write_text(results[label][1])
        rows.append((source.stem, times, verdict))
        record[source.stem] = {"times": times, "verdict": verdict}
    print("| program | ptxas, us | Oriole, us | ratio | output |\n|---|---|---|---|---|")
    ratios = {}
    for name, times, verdict in rows:
        old, new = (sum(times[label].values()) for label in SETS)
        ratio = ""
        if verdict.startswith("same") and old:
            # All kernels of a program count alike, whatever they take.
            ratios[name] = mean([times["oriole"][kernel] / value for kernel, value in times["ptxas"].items()])
            ratio = f"{ratios[name]:.3f}"
        print(f"| `{name}` | {old:.1f} | {new:.1f} | {ratio} | {verdict} |")
        if options.kernels:
            for kernel, value in times["ptxas"].items():
                other = times["oriole"].get(kernel)
                print(f"| &nbsp; {kernel} | {value:.1f} | " + (f"{other:.1f} | {other / value:.3f} | |" if other else "| | |"))
    if ratios:
        most, least = max(ratios, key=ratios.get), min(ratios, key=ratios.get)
        print(f"\n{len(ratios)} programs, geometric mean {mean(ratios.values()):.3f}, from {ratios[least]:.3f} `{least}` to {ratios[most]:.3f} `{most}`;", end=" ")
    print(f"{failed} failures; {time.monotonic() - begin:.0f} s")
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
