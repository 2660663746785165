#!/usr/bin/env python3
"""Makes docs/results/kernels-h200.md from what bench/measure.py measured with a bundle of bench/bundle.py.

    bench/table.py FOLDER TABLE.tsv > docs/results/kernels-h200.md
"""

import collections
import json
import math
import pathlib
import sys

RIVALS = {
    "rescored": "ptxas' code, control words of `oriole rescore`",
    "rescheduled": "ptxas' code, order and control words of `oriole rescore --schedule`",
    "oriole-O3": "Oriole -O3",
    "oriole-a": "Oriole -O3, backend A",
    "oriole-b": "Oriole -O3, backend B",
    "oriole-c": "Oriole -O3, backend C",
    "oriole-auto": "Oriole -O3, `auto`",
    "oriole-O0": "Oriole -O0",
}
# Less than this is noise.
NOISE = 1.01
# Kernels that are slower than this have a reason in bench/reasons.tsv.
SLOW = 1.05


def measured(path):
    """Medians in microseconds by kernel and set, and the kernels whose results differ by set."""
    times, different, unstable = collections.defaultdict(dict), collections.defaultdict(list), set()
    for line in pathlib.Path(path).read_text().splitlines():
        fields = line.split("\t")
        if line.startswith("#") or fields[0] == "kernel":
            continue
        kernel, label, _, median, _, _, result = fields
        times[kernel][label] = float(median)
        if result == "unstable":
            unstable.add(kernel)
        elif result != "same":
            different[label].append(kernel)
    return times, different, unstable


def reasons():
    """Why kernels are slow, by kernel."""
    lines = (pathlib.Path(__file__).parent / "reasons.tsv").read_text().splitlines()
    return dict(line.split("\t", 1) for line in lines if line and not line.startswith("#"))


def mean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    folder, table = pathlib.Path(sys.argv[1]), sys.argv[2]
    times, different, unstable = measured(table)

    def figures(kernel, label="oriole-O3"):
        path = folder / "figures" / label / f"{kernel}.json"
        return json.loads(path.read_text().splitlines()[0]) if path.exists() else None

    print("# Kernels on an H200: ptxas, its code with our words and our order, ours\n")
    print("`bench/bundle.py` makes the cubins, `bench/measure.py` runs them, `bench/table.py` writes this page: kernels of `bench/kernels` and")
    print("`tools/timing/kernels`, sets taken in turn, the median of each. Times in microseconds of a launch; the others divided by ptxas' (13.0.88,")
    print("-O3). All buffers are compared bit for bit with those of ptxas' code.\n")
    print("| set | kernels | geometric mean | most | least |\n|---|---|---|---|---|")
    for label, name in RIVALS.items():
        ratios = {kernel: of[label] / of["ptxas"] for kernel, of in times.items() if label in of}
        if ratios:
            most, least = max(ratios, key=ratios.get), min(ratios, key=ratios.get)
            print(f"| {name} | {len(ratios)} | {mean(ratios.values()):.3f} | {ratios[most]:.3f} `{most}` | {ratios[least]:.3f} `{least}` |")
    speedup = [of["oriole-O0"] / of["oriole-O3"] for of in times.values() if "oriole-O0" in of and "oriole-O3" in of]
    print(f"\nOriole -O3 is {mean(speedup):.2f} times as fast as Oriole -O0.")
    names = ", ".join(f"`{kernel}`" for kernel in different["oriole-O3"])
    print(f"\nResults are the same bit for bit but for {names}, where ptxas joins other products and sums (PTX without")
    print(f"`.rn` allows both), and {len(unstable)} kernels whose results depend on the order of atomic operations.\n")

    slow = {kernel: of["oriole-O3"] / of["ptxas"] for kernel, of in times.items() if "oriole-O3" in of and of["oriole-O3"] / of["ptxas"] > SLOW}
    if slow:
        known = reasons()
        print(f"## Slower than {SLOW} times ptxas\n\n| kernel | -O3 | why |\n|---|---|---|")
        for kernel in sorted(slow, key=slow.get, reverse=True):
            print(f"| `{kernel}` | {slow[kernel]:.3f} | {known.get(kernel, 'not known')} |")
        print()

    print("## Which backend wins where\n")
    wins = collections.defaultdict(list)
    for kernel, of in times.items():
        by = {name: of[f"oriole-{name}"] for name in "abc" if f"oriole-{name}" in of}
        if len(by) == 3:
            first, second = sorted(by, key=by.get)[:2]
            wins[first if by[second] / by[first] >= NOISE else "none"].append((by[second] / by[first], kernel))
    print("Faster than both others by 1% or more:\n\n| backend | kernels | which |\n|---|---|---|")
    for name in ["a", "b", "c", "none"]:
        best = ", ".join(f"`{kernel}` {ratio:.2f}" for ratio, kernel in sorted(wins[name], reverse=True)[:8]) if name != "none" else ""
        print(f"| {name.upper() if name != 'none' else 'none'} | {len(wins[name])} | {best} |")
    chosen = collections.Counter()
    for kernel in times:
        of = figures(kernel, "oriole-auto")
        if of and of["scheduler"]:
            chosen[f"{of['scheduler']} {of['schedule_mode']}"] += 1
    print("\n`auto` chose: " + ", ".join(f"{plan} {count} times" for plan, count in chosen.most_common()) + ".\n")

    print("## All kernels\n")
    print("Registers and occupancy are those of Oriole -O3 (by the block size that is declared, else 128 threads); backend and mode are its own choice.\n")
    print("| kernel | ptxas, us | rescored | rescheduled | -O3 | backend | registers | occupancy | a | b | c | auto | -O0 |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for kernel, of in sorted(times.items()):
        ratio = lambda label: f"{of[label] / of['ptxas']:.3f}" if label in of else ""
        known = figures(kernel)
        own = ["", "", ""]
        if known:
            occupancy = known["scheduling"]["after_allocation"]["Occupancy"]
            own = [f"{known['scheduler']} {known['schedule_mode']}", str(known["registers"]), f"{100 * occupancy:.0f}%"]
        columns = [f"`{kernel}`", f"{of['ptxas']:.2f}", ratio("rescored"), ratio("rescheduled"), ratio("oriole-O3"), *own]
        columns += [ratio(f"oriole-{name}") for name in ["a", "b", "c", "auto", "O0"]]
        print("| " + " | ".join(columns) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main())
