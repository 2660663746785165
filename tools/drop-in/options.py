#!/usr/bin/env python3
"""Compares Oriole's ptxas with NVIDIA's: every option in every spelling, options files, and wrong inputs.

    python3 tools/drop-in/options.py target/release/ptxas $(tools/oracles.sh)/ptxas [-v] [--random N [--seed S]]

Each call is made with both programs. The exit status, and whether there is an output file, must be the same. Messages are compared too; calls whose
messages differ are counted, and listed with -v: Oriole explains errors in PTX at more length, its register counts are its own, and some options
exist only in one of the programs. With `--random N`, N calls with up to five options chosen at random are made instead. The exit status is 1 if a call
differs in its exit status or its file; calls with an option that Oriole refuses by name are counted apart.
"""

import argparse
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = ".version 7.8\n.target sm_80\n.address_size 64\n"
KERNEL = HEADER + """.visible .entry k(.param .u64 p) {
    .reg .u64 %rd<2>; .reg .u32 %r<2>;
    ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd1, %rd1;
    ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, 1; st.global.u32 [%rd1], %r1; ret;
}
"""

# Options that callers use and `ptxas --help` does not list: long name, short name if there is one, values.
FLAG, TRUTH, COUNT, TEXT = [], ["true", "false", "maybe"], ["0", "2", "x"], ["x"]
HIDDEN = [
    ("regAllocOptLevel", "regAllocOptLevel", COUNT), ("uumn", "uumn", FLAG), ("cimm", "cimm", FLAG), ("jobserver", "jobserver", FLAG),
    ("fastimul", "fastimul", FLAG), ("noFwdPrg", "noFwdPrg", FLAG), ("tool-name", "tool-name", TEXT), ("verbose-tkinfo", "verbose-tkinfo", TRUTH),
    ("limit-fold-fp", "limit-fold-fp", TRUTH), ("membermask-overlap", "membermask-overlap", TRUTH),
    ("no-membermask-overlap", "no-membermask-overlap", TRUTH),
    ("assume-extern-functions-do-not-sync", "assume-extern-functions-do-not-sync", TRUTH), ("cloning", "cloning", TEXT),
    ("force-rela", "force-rela", FLAG), ("opt-pointers", "opt-pointers", FLAG), ("cuda-api-version", "cuda-api-version", ["13.0", "12.9", "x"]),
    ("nv-host", "nv-host", TEXT), ("sw200428197", "sw200428197", TRUTH), ("no-fastreg", "no-fastreg", FLAG), ("link-info", "link-info", TEXT),
    ("force-externals", "force-externals", FLAG), ("blocks-are-clusters", "blocks-are-clusters", TRUTH),
    ("disable-smem-reservation", "disable-smem-reservation", TRUTH),
]
# Values of the documented options, by the placeholder in the help.
VALUES = {
    "<N>": ["0", "1", "2", "x"], "<true|false>": TRUTH, "<0|min|mid|max>": ["0", "min", "mid", "max", "x"],
    "<archmax/archmin/N>": ["archmax", "archmin", "32", "x"], "<0..10>": ["0", "10", "11"], "<bits>": ["64", "32"], "<gpu name>": ["sm_80", "sm_7"],
    "<entry function>": ["k", "none"], "<Comma separated list of numbers>": ["32", "32,2", "x"], "<ptx string>": ["x"], "<file>": ["out.cubin"],
}
CACHE = {
    "def-load-cache": ["ca", "cg", "cs", "lu", "cv", "x", "wb", ""], "force-load-cache": ["ca", "cg", "x"],
    "def-store-cache": ["wb", "cg", "cs", "wt", "ca"], "force-store-cache": ["wb", "x"],
}
# For random combinations: two kernels with functions and local memory, and options whose effect is to print a text or read another input.
FUNCTIONS = """.version 7.8
.target sm_75
.address_size 64
.visible .func (.param .b32 r) square(.param .b32 a) { .reg .b32 %r<3>; ld.param.b32 %r1, [a]; mul.lo.s32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret; }
.visible .entry k(.param .u64 p) {
    .local .align 4 .b8 l[64]; .reg .b32 %r<4>; .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; and.b32 %r3, %r1, 60; cvt.u64.u32 %rd2, %r3; mov.u64 %rd3, l; add.u64 %rd2, %rd2, %rd3;
    st.local.u32 [%rd2], %r1; ld.local.u32 %r2, [l+8];
    { .param .b32 a; .param .b32 r; st.param.b32 [a], %r2; call (r), square, (a); ld.param.b32 %r2, [r]; }
    st.global.u32 [%rd1], %r2; ret;
}
.visible .entry other() { ret; }
"""
TEXT_OPTIONS = {"help", "version", "list-version", "output-file", "input-as-string"}
TARGETS = ["sm_75", "sm_80", "sm_90", "sm_90a", "sm_100", "sm_120a", "compute_80", "compute_90"]

# Oriole warns of the first, because it does not implement it; options files have calls of their own.
LEFT_OUT = {"sanitize", "options-file"}

OPTIONS_FILES = {
    "of1": "-arch=sm_80 -O2\n  --verbose", "of2": "k.ptx -o out.cubin", "of3": "-arch sm_90\n-optf of2\n", "of4": "-foo", "of5": "",
    "of6": "# comment\n-arch=sm_80 k.ptx", "of7": "\"-arch=sm_80\" 'k.ptx'",
}
OTHER_CALLS = [
    "-optf of1 k.ptx", "-optf=of1 k.ptx -o out.cubin", "--options-file of1,of2", "--options-file=of3", "-optf of4 k.ptx", "-optf of5 k.ptx -arch=sm_80",
    "-optf none k.ptx", "@of1 k.ptx", "@of3", "-arch=sm_80 @k.ptx", "-optf of6", "-optf of7", "-optf", "--options-file=", "missing.ptx -arch=sm_80", ".",
    "k.ptx -arch=sm_80 -o /nonexistent/x", "k.ptx -arch=sm_80 -o .", "k.ptx k.ptx -arch=sm_80", "-arch=sm_80 k.ptx -o a -o out.cubin",
    "-arch=sm_80 k.ptx duplicate.ptx", "-arch=sm_80 k.ptx syntax.ptx -o out.cubin", "-arch=sm_80 -e none k.ptx", "-arch=sm_80 -o out.cubin",
    "-arch=sm_80 -", "--version k.ptx", "-arch=sm_80 /dev/null", "-arch=sm_80 k.ptx -maxrregcount=16 -Werror", "-arch=sm_80 -g -O3 k.ptx",
    "-arch=sm_80 -warn-spills -v -O0 k.ptx", "-foo k.ptx", "--foo=1 k.ptx", "-arch=sm_80 -ewp k.ptx", "-arch=sm_80 -dlcm=cg -flcm=ca k.ptx",
]

WRONG = {
    "empty": "", "no_version": ".target sm_80\n.entry k(){ret;}", "version99": ".version 9.9\n.target sm_80\n.entry k(){ret;}",
    "version01": ".version 0.1\n.target sm_80\n.entry k(){ret;}", "no_target": ".version 7.8\n.entry k(){ret;}",
    "unknown_target": ".version 7.8\n.target sm_999\n.entry k(){ret;}", "old_version": ".version 7.0\n.target sm_90\n.entry k(){ret;}",
    "later_target": ".version 7.8\n.target sm_90\n.entry k(){ret;}", "address32": ".version 7.8\n.target sm_80\n.address_size 32\n.entry k(){ ret;}",
    "no_address": ".version 7.8\n.target sm_80\n.entry k(){ ret;}", "only_header": HEADER,
    "target_features": ".version 8.6\n.target sm_90\n.address_size 64\n.entry k(){ wgmma.fence.sync.aligned; ret;}",
}
BODIES = {
    "syntax": ".entry k(){ add.u32 ; ret; }", "header": ".entry k({ ret; }", "end": ".entry k(){ ret;", "opcode": ".entry k(){ foo.u32 %r1; ret; }",
    "register": ".entry k(){ add.u32 %r1,%r2,%r3; ret; }", "type": ".entry k(){ .reg .u32 %r<4>; .reg .f32 %f<3>; add.u32 %r1,%f1,%r2; ret; }",
    "modifier": ".entry k(){ .reg .u32 %r<4>; add.sat.u32 %r1,%r1,%r2; ret; }", "operands": ".entry k(){ .reg .u32 %r<4>; add.u32 %r1,%r1; ret; }",
    "duplicate": ".entry k(){ret;}\n.entry k(){ret;}", "two_variables": ".global .u32 a;\n.global .u32 a;\n.entry k(){ret;}",
    "two_registers": ".entry k(){.reg .u32 a; .reg .u32 a; ret;}", "two_labels": ".entry k(){ L: L: ret;}", "no_label": ".entry k(){ bra L; ret;}",
    "extern": ".extern .func f();\n.entry k(){ call f; ret;}", "no_function": ".entry k(){ call f; ret;}",
    "extern_variable": ".extern .global .u32 x;\n.entry k(){ .reg .u32 r; ld.global.u32 r,[x]; st.global.u32 [x],r; ret;}",
    "shared": ".entry k(){ .shared .b8 s[60000]; .reg .u32 r; ld.shared.u32 r,[s]; st.shared.u32 [s+4],r; ret;}",
    "parameters": ".entry k(.param .b8 p[5000]){ ret;}", "non_ascii": ".entry k(){ ret; }\n.entry \u00e9(){ret;}",
    "local": ".entry k(){ .local .b8 l[600000]; .reg .u32 r; ld.local.u32 r,[l]; st.local.u32 [l+4],r; ret;}",
    "constant": ".entry k(){ .reg .u32 r; mov.u32 r,99999999999; ret;}", "vector": ".entry k(){ .reg .u32 r; ld.global.v3.u32 {r,r,r},[4]; ret;}",
    "returns": ".func (.param .u32 a) f(){ret;}\n.entry k(){ call f; ret;}", "arguments": ".func f(.param .u32 a){ret;}\n.entry k(){ call f; ret;}",
    "pragma": ".entry k(){ .pragma \"foo\"; ret;}", "alignment": ".global .align 3 .u32 a;\n.entry k(){ ret;}",
    "size": ".global .u32 a[-1];\n.entry k(){ ret;}", "values": ".global .u32 a[2]={1,2,3};\n.entry k(){ ret;}",
    "guard": ".entry k(){ .reg .u32 r; @r ret;}", "bounds": ".entry k() .maxntid 5000 { ret;}",
    "space": ".entry k(){ .reg .u32 %r<3>; st.const.u32 [4],%r1; ret;}", "rounding": ".entry k(){ .reg .f32 %f<3>; div.f32 %f1,%f1,%f2; ret;}",
    "conversion": ".entry k(){ .reg .f32 %f<3>; .reg .u32 %r<2>; cvt.u32.f32 %r1,%f1; ret;}", "directive": ".foo 3\n.entry k(){ ret;}",
    "weak": ".weak .func f(){ret;}\n.weak .func f(){ret;}\n.entry k(){ call f; ret;}", "recursion": ".func f(){call f; ret;}\n.entry k(){ call f; ret;}",
}


def all_options(vendor):
    """Returns long name, short name and values of each option."""
    text = subprocess.run([vendor, "--help"], capture_output=True, text=True).stdout
    documented = re.findall(r"^--([\w-]+)\s*(<.*?>)?(?:,\.\.\.)?\s*\(-([\w-]+)\)", text, re.M)
    return [(long, short, CACHE.get(long) or VALUES.get(value, FLAG)) for long, value, short in documented] + HIDDEN


def calls(vendor):
    """Yields the arguments of all calls."""
    for long, short, values in all_options(vendor):
        if long in LEFT_OUT:
            continue
        rest = ([] if long == "gpu-name" else ["-arch=sm_80"]) + ["k.ptx"] + ([] if long == "output-file" else ["-o", "out.cubin"])
        if not values:
            for given in ([f"--{long}"], [f"-{short}"], [f"--{long}=true"], [f"-{short}=1"], [f"--{long}", f"--{long}"]):
                yield given + rest
        for value in values:
            for given in ([f"--{long}", value], [f"--{long}={value}"], [f"-{short}", value], [f"-{short}={value}"], [f"-{short}{value}"]):
                yield given + rest
        if values:
            yield [f"--{long}"]
            yield [f"-{short}"]
    for call in OTHER_CALLS:
        yield call.split(" ")
    for name in [*WRONG, *BODIES]:
        for options in ([], ["-c"]):
            yield ["-arch=sm_80", f"{name}.ptx", "-o", "out.cubin", *options]


def random_calls(vendor, count, seed):
    """Yields calls with a target and one to five options, most of them with a value that is valid."""
    choose = random.Random(seed)
    options = [option for option in all_options(vendor) if option[0] not in LEFT_OUT | TEXT_OPTIONS]
    for _ in range(count):
        given = [f"-arch={choose.choice(TARGETS)}"] if choose.random() < 0.95 else []
        for long, short, values in choose.sample(options, choose.randint(1, 5)):
            if not values:
                given.append(choose.choice([f"--{long}", f"-{short}"]))
                continue
            valid = [value for value in values if value not in ("x", "maybe", "none", "sm_7", "11", "32,2")]
            value = choose.choice(values if choose.random() < 0.2 or not valid else valid)
            given += choose.choice([[f"--{long}", value], [f"--{long}={value}"], [f"-{short}", value], [f"-{short}={value}"]])
        inputs = [choose.choice(["k75.ptx", "functions.ptx"]) if choose.random() < 0.9 else "opcode.ptx", "-o", "out.cubin"]
        yield choose.choice([given + inputs, inputs + given])


def run(program, arguments, folder):
    """Makes a call; returns the exit status, the files, and the messages without what is known to differ."""
    for name in ("out.cubin", "elf.o"):
        folder.joinpath(name).unlink(missing_ok=True)
    done = subprocess.run([program, *arguments], capture_output=True, text=True, errors="replace", input="no PTX", cwd=folder, timeout=60)
    files = [name for name in ("out.cubin", "elf.o") if folder.joinpath(name).exists()]
    known = ("Compile time", "has no effect in Oriole", "is not supported by Oriole, will be ignored", "Used ")
    return done.returncode, files, [line for line in done.stderr.split("\n") if not any(part in line for part in known)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ours", type=Path)
    parser.add_argument("vendor", type=Path)
    parser.add_argument("--random", type=int, metavar="N", help="make N calls with random options instead")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-v", action="store_true", help="list calls whose messages differ")
    arguments = parser.parse_args()
    ours, vendor = arguments.ours.resolve(strict=True), arguments.vendor.resolve(strict=True)
    count, other_words, refused, differences = 0, 0, 0, []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        texts = {"k": KERNEL, "k75": KERNEL.replace("sm_80", "sm_75"), "functions": FUNCTIONS, **WRONG, **{name: HEADER + body for name, body in BODIES.items()}}
        for name, text in texts.items():
            folder.joinpath(f"{name}.ptx").write_text(text, encoding="utf-8")
        for name, text in OPTIONS_FILES.items():
            folder.joinpath(name).write_text(text)
        chosen = calls(vendor) if arguments.random is None else random_calls(vendor, arguments.random, arguments.seed)
        for call in chosen:
            here, there = run(ours, call, folder), run(vendor, call, folder)
            count += 1
            if here[:2] != there[:2] and any("' is not supported by Oriole" in line for line in here[2]):
                refused += 1
            elif here[:2] != there[:2]:
                differences.append(f"ptxas {' '.join(call)}\n  ours:   {here}\n  theirs: {there}")
            elif here[2] != there[2]:
                other_words += 1
                if arguments.v:
                    print(f"ptxas {' '.join(call)}\n  ours:   {here[2][:2]}\n  theirs: {there[2][:2]}")
    print("\n".join(differences), end="\n" if differences else "")
    print(f"{count} calls: {len(differences)} with another exit status or file, {other_words} with other messages, {refused} refused by Oriole")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
