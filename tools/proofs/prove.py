#!/usr/bin/env python3
"""Proves with an SMT solver that passes do not change what functions compute. README.md in this folder describes it.

    prove.py rules [--record]                   the filetests of the passes in PASSES; writes their lines of proven.txt
    prove.py pairs FILE.pairs ... [--record]    pairs of functions of the rule tests
    prove.py random --oriole BIN [--count N]    random PTX against the code after the passes over SSA form

Needs z3: pip install z3-solver==5.4.0.0
"""

import argparse
import hashlib
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import z3

import ori
from execute import Execution
from ori import Unsupported
from programs import Program

ROOT = Path(__file__).resolve().parent.parent.parent
RECORD = Path(__file__).resolve().parent / "proven.txt"
# Functions that cannot be proven, each with the reason and with what tests them instead.
OPEN = Path(__file__).resolve().parent / "open.txt"
# The passes that rewrite integers and predicates.
PASSES = ["combine", "fold", "forward", "fuse", "halves", "if-convert", "legalize", "merge", "narrow", "share-products", "simplify", "simplify-again", "split-index"]


def difference(before, after, seconds):
    """Compares what two functions do. Returns None if it is proven to be the same, otherwise a description."""
    first, second = Execution(before).run().observed(), Execution(after).run().observed()
    if [effect.name for effect in first] != [effect.name for effect in second]:
        return f"other effects: {[effect.name for effect in first]} and {[effect.name for effect in second]}"
    for old, new in zip(first, second):
        pairs = [(old.condition, new.condition), *zip(old.operands, new.operands)]
        unequal = []
        for at, (a, b) in enumerate(pairs):
            if a.sort() != b.sort():
                return f"{old.name}: operands of {a.sort()} and {b.sort()}"
            if not a.eq(b):
                unequal.append(z3.And(old.condition, a != b) if at else a != b)
        if not unequal:
            continue
        solver = z3.Solver()
        solver.set("timeout", int(seconds * 1000))
        solver.add(z3.Or(*unequal))
        found = solver.check()
        if found == z3.sat:
            return f"{old.name}: differs for {solver.model()}"
        if found != z3.unsat:
            return f"unknown: {old.name}: no answer in {seconds} s"
    return None


def expected(lines):
    """Returns the function text that a filetest expects, or None if it expects the program itself."""
    after, unchanged = [], set()
    for line in lines:
        if not line.startswith("; expect:"):
            continue
        text = line[len("; expect:") :]
        if match := re.match(r" func \S+ @(\S+).*\{ unchanged \}", text):
            unchanged.add(match[1])
        elif text[1:2] != "-":
            after.append(text[3:])
    return after, unchanged


def prove_file(path, seconds):
    """Proves one filetest. Returns the outcome of each of its functions, by name."""
    lines = path.read_text().splitlines()
    before = ori.parse(lines)
    if any(line.strip() == "; unchanged" for line in lines):
        return {name: "same" for name in before}
    text, unchanged = expected(lines)
    after = ori.parse(text)
    outcomes = {}
    for name, function in before.items():
        if name in unchanged:
            outcomes[name] = "same"
        elif name not in after:
            outcomes[name] = "not proven: no expectation"
        else:
            outcomes[name] = outcome(function, after[name], seconds)
    return outcomes


def outcome(before, after, seconds):
    try:
        found = difference(before, after, seconds)
    except Unsupported as error:
        return f"not proven: {error}"
    except (KeyError, IndexError, AttributeError, z3.Z3Exception) as error:
        return f"not proven: {type(error).__name__} {error}"
    if found is None:
        return "proven"
    return f"not proven: {found}"


def fingerprint(data):
    """Returns the 64-bit FNV-1a hash of some bytes, as the tests compute it that compare the record."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def write_record(kind, lines):
    """Replaces the lines of one kind in the record."""
    names = {line.split()[1] for line in lines}
    kept = [line for line in RECORD.read_text().splitlines() if line.split()[:1] != [kind] or (kind == "pairs" and line.split()[1] not in names)]
    RECORD.write_text("\n".join([*kept, *lines]) + "\n")


def rules(arguments):
    """Proves the filetests; returns whether all are proven except those that `open.txt` names."""
    reasons = dict(line.split(": ", 1) for line in OPEN.read_text().splitlines() if line and not line.startswith("#"))
    used, lines, good = set(), [], True
    for name in PASSES:
        for path in sorted((ROOT / "filetests" / name).glob("*.oir")):
            try:
                outcomes = prove_file(path, arguments.seconds)
            except Unsupported as error:
                outcomes = {"*": f"not proven: {error}"}
            for function, result in outcomes.items():
                key = f"{name}/{path.name} {function}"
                if result not in ("proven", "same"):
                    used.add(key)
                    if key not in reasons:
                        good = False
                        print(f"{key}: {result[:1000]}")
            counts = Counter(result if result in ("proven", "same") else "open" for result in outcomes.values())
            told = ", ".join(f"{kind} {counts[kind]}" for kind in ("proven", "same", "open") if counts[kind])
            lines.append(f"filetest {name}/{path.name} {fingerprint(path.read_bytes())} {told}")
    for key in sorted(set(reasons) - used):
        good = False
        print(f"{key}: is proven or does not exist, but is in {OPEN.name}")
    totals = Counter()
    for line in lines:
        totals.update({kind: int(count) for kind, count in re.findall(r"(proven|same|open) (\d+)", line)})
    print(f"{len(lines)} files: {totals['proven']} functions proven, {totals['same']} left as they are, {totals['open']} open")
    if good and arguments.record:
        write_record("filetest", lines)
    return good


def pairs(arguments):
    """Proves the pairs of some files; returns whether all are proven."""
    good, lines = True, []
    for file in arguments.files:
        data = file.read_bytes()
        texts = data.decode().split("; pair\n")[1:]
        for text in texts:
            before, after = (next(iter(ori.parse(part.splitlines()).values())) for part in text.split("; after\n"))
            result = outcome(before, after, arguments.seconds)
            if result != "proven":
                good = False
                print(f"{file.name}: {result[:1000]}\n{text}", flush=True)
        print(f"{file.name}: {len(texts)} pairs")
        lines.append(f"pairs {file.stem} {fingerprint(data)} proven {len(texts)}")
    if good and arguments.record:
        write_record("pairs", lines)
    return good


def memory(offset, words):
    """Returns words of the buffer, as `Execution` names what a load from them yields."""
    start = parameter() + offset
    kind = "LDG E [desc 64 ] after 0"
    return [Execution.function_of(kind, [z3.simplify(start + 4 * at)], z3.BitVecSort(32)) for at in range(words)]


def parameter():
    return z3.Concat(z3.BitVec("c[0x0][0x214]", 32), z3.BitVec("c[0x0][0x210]", 32))


def disagreement(program, function, seconds):
    """Compares the stores of a program with those of the code for it. Returns None if they are proven to be the same."""
    effects = Execution(function).run().observed()
    stores = [effect for effect in effects if effect.name.startswith("STG")]
    if len(stores) != len(effects) or len(stores) != len(program.stores):
        return f"{len(program.stores)} stores, but {[effect.name for effect in effects]}"
    for (offset, term), effect in zip(program.stores, stores):
        address, value = effect.operands
        if value.sort() != term.sort():
            return f"offset {offset}: {term.sort()} in PTX, {value.sort()} in the code: {effect.name}"
        unequal = z3.Or(z3.Not(effect.condition), address != parameter() + offset, value != term)
        unequal = z3.simplify(unequal)
        if z3.is_false(unequal):
            continue
        solver = z3.Solver()
        solver.set("timeout", int(seconds * 1000))
        solver.add(unequal)
        found = solver.check()
        if found == z3.sat:
            model = solver.model()
            return f"offset {offset}: {model.eval(term)} in PTX, {model.eval(value)} in the code, for {model}"
        if found != z3.unsat:
            return f"unknown: offset {offset}: no answer in {seconds} s"
    return None


def compiled(oriole, text, target, level, stage):
    """Returns the function after a pass, as text."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "k.ptx")
        file.write_text(text)
        command = [oriole, "compile", file, "-o", Path(folder, "k.cubin"), "--arch", target, f"-O{level}", "--print-after", stage]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{command}: {done.stderr}\n{text}")
    return done.stdout


def prove_random(arguments):
    """Proves random programs; returns whether none was found wrong."""
    counts, wrong = Counter(), False
    for seed in range(arguments.seed, arguments.seed + arguments.count):
        program = Program(seed, arguments.statements, memory)
        text = program.text(arguments.target)
        function = ori.parse(compiled(arguments.oriole, text, arguments.target, arguments.level, arguments.stage).splitlines())["k"]
        found = disagreement(program, function, arguments.seconds)
        kind = "proven" if found is None else "no answer" if found.startswith("unknown") else "wrong"
        counts[kind] += 1
        if kind != "proven":
            print(f"seed {seed}: {found}", flush=True)
        if kind == "wrong":
            wrong = True
            Path(f"seed-{seed}.ptx").write_text(text)
    print(", ".join(f"{count} {kind}" for kind, count in sorted(counts.items())))
    return not wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["rules", "pairs", "random"])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--record", action="store_true", help="write the results to proven.txt")
    parser.add_argument("--oriole", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--statements", type=int, default=12)
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--level", type=int, default=3)
    parser.add_argument("--stage", default="constant-phis")
    parser.add_argument("--seconds", type=float, default=10)
    arguments = parser.parse_args()
    run = {"rules": rules, "pairs": pairs, "random": prove_random}[arguments.what]
    sys.exit(0 if run(arguments) else 1)


if __name__ == "__main__":
    main()
