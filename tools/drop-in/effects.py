#!/usr/bin/env python3
"""Compares the effects of options of Oriole's ptxas with those of NVIDIA's: files, attributes, memory instructions, messages.

    python3 tools/drop-in/effects.py target/release/ptxas $(tools/oracles.sh)/ptxas [-v]

Each combination of options is used with two inputs, for a program and for a relocatable object (-c); those whose effect depends on the generation
of the GPU on two targets. Compared are the exit status, the messages without numbers that depend on the code, the type of the file, its debug
sections, the attributes about launch bounds and exits, and the cache operators of global accesses. Registers must stay within the limits of the
options. cuobjdump must be beside NVIDIA's ptxas. The exit status is 1 if something differs; -v lists every call.
"""

import argparse
import collections
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HEADER = ".version 7.8\n.target sm_75\n.address_size 64\n"


def kernel(name, bounds="", extra=""):
    """Returns a kernel with global accesses of several kinds and more values than the smallest register limits."""
    count = 48
    text = f".visible .entry {name}(.param .u64 p) {bounds}\n{{\n.reg .u64 %rd<4>; .reg .u32 %r<64>; .reg .f64 %d<4>; .reg .f32 %f<4>; .reg .pred %p<2>;\n"
    text += "ld.param.u64 %rd1, [p]; cvta.to.global.u64 %rd2, %rd1;\n"
    text += "".join(f"ld.global.u32 %r{number}, [%rd2+{4 * number}];\n" for number in range(count))
    text += "ld.global.cs.u32 %r60, [%rd2+1024]; ld.u32 %r61, [%rd1+1028]; ld.global.nc.u32 %r62, [%rd2+1032]; ld.volatile.global.u32 %r63, [%rd2+1036];\n"
    text += "setp.eq.u32 %p1, %r63, 0; @%p1 ret;\n"
    text += "".join(f"add.u32 %r{number}, %r{number}, %r{(number * 29 + 1) % count}; xor.b32 %r{number}, %r{number}, %r{60 + number % 4};\n" for number in range(count))
    text += "".join(f"st.global.u32 [%rd2+{4 * (number * 37 % count)}], %r{number};\n" for number in range(count))
    return text + extra + "st.global.cg.u32 [%rd2+1040], %r1; st.u32 [%rd1+1044], %r2; ret;\n}\n"


DOUBLE = "ld.global.f64 %d1, [%rd2+2048]; add.f64 %d1, %d1, %d1; st.global.f64 [%rd2+2048], %d1;\n"
LOCAL = ".local .align 4 .b8 space[64]; .reg .u64 %l; mov.u64 %l, space; add.u64 %l, %l, %rd1; st.local.u32 [%l], %r5; ld.local.u32 %r6, [space+4]; st.global.u32 [%rd2+3000], %r6;\n"
FILES = {
    "a.ptx": HEADER + kernel("plain") + kernel("bounded", ".maxntid 128, 2, 1 .minnctapersm 2"),
    "b.ptx": HEADER + kernel("limited", ".maxnreg 64") + kernel("double", ".reqntid 64", DOUBLE) + kernel("local", "", LOCAL),
}
OPTIONS = [
    "", "-maxntid=256", "-maxntid=32,4,2", "-maxntid=1024 -minnctapersm=2", "-minnctapersm=2", "-maxrregcount=32", "-maxrregcount=16",
    "-maxrregcount=archmin", "-maxrregcount=32 -override-directive-values", "-maxntid=512 -override-directive-values",
    "-maxntid=512 -minnctapersm=3 -override-directive-values", "-maxntid=256 -maxrregcount=32", "-minnctapersm=4 -maxrregcount=64", "-dlcm=cg",
    "-dlcm=cs", "-dlcm=cv", "-dscm=wt", "-dscm=cs", "-flcm=cg", "-flcm=ca", "-fscm=wb", "-dlcm=cg -flcm=cs", "-dlcm=cg -dscm=cg", "-warn-lmem-usage",
    "-warn-double-usage", "-warn-lmem-usage -warn-double-usage -w", "-warn-lmem-usage -Werror", "-make-errors-visible-at-exit",
    "-make-errors-visible-at-exit -O0", "-lineinfo", "-lineinfo -suppress-debug-info", "-suppress-debug-info", "-g", "-e=plain", "-e=plain,double",
    "-func-maxrregcount=32", "-split-compile=2", "-preserve-relocs", "-ewp", "-pic=true", "-pic=false", "-opt-fp-atomics", "-annotate",
    "-disable-optimizer-consts", "-regUsageLevel=3", "-Ofc=max", "--regAllocOptLevel=2", "--force-rela", "--opt-pointers", "--uumn",
    "--sw200428197=true", "-no-bb-merge", "-ret-end", "-legacy-bar-warp-wide-behavior", "-g-tmem-access-check", "-suppress-stack-size-warning",
]
# Options with another effect or message on sm_80 than on sm_90.
BY_GENERATION = ["lcm=", "scm=", "-make-errors-visible-at-exit", "-preserve-relocs", "-maxntid=1024 -minnctapersm=2"]
# The registers of the kernel `plain` at most, with these options; 65,536 registers for the threads that must be resident.
LIMITS = {
    "-maxrregcount=32": 32, "-maxrregcount=16": 24, "-maxrregcount=archmin": 32, "-maxrregcount=32 -override-directive-values": 32,
    "-maxntid=1024 -minnctapersm=2": 32, "-maxntid=512 -minnctapersm=3 -override-directive-values": 40, "-maxntid=256 -maxrregcount=32": 32,
}
# The exit of a thread is an attribute with addresses, which differ; these do not.
ATTRIBUTES = ["MAX_THREADS", "REQNTID", "MAXREG_COUNT", "MIN_CTA", "GEN_ERRBAR_AT_EXIT"]
# Messages that only one of the programs has. Register counts and sizes depend on the code.
OWN_MESSAGES = ["has no effect in Oriole", "is not supported by Oriole, will be ignored", "Compile time", "--gno-tensor-memory-access-check' not supported for"]


def attributes(text):
    """Returns the attributes of each section of `cuobjdump -elf` that are compared, with the values that do not depend on the code."""
    section, found, code = "", [], None
    for line in text.split("\n"):
        if re.match(r"\.nv\.info", line):
            section = line.strip()
        elif match := re.match(r"\s*Attribute:\s*(\w+)", line):
            code = match[1].removeprefix("EIATTR_")
            code = code if code in ATTRIBUTES else None
            if code:
                found.append((section, code))
        elif code and (match := re.match(r"\s*Value:\s*(.*)", line)):
            found[-1] += (match[1].strip(),)
    return sorted(found)


def examine(file, cuobjdump):
    """Returns what is compared of a file, and the registers of its functions."""
    text = subprocess.run([cuobjdump, "-elf", "-sass", file], capture_output=True, text=True, errors="replace").stdout
    registers = dict(re.findall(r"function: (\S+)\(\w+\)\s+register count: (\d+)", text))
    operators = collections.Counter()
    for function in re.split(r"\bFunction : ", text)[1:]:
        name = function.split("\n")[0].strip()
        for opcode in re.findall(r"\b((?:LDG|STG|LD|ST)\.[A-Z0-9.]+)", function):
            # Vector width and address form are the compiler's choice.
            kinds = [part for part in opcode.split(".") if part not in ("E", "64", "128", "CONSTANT", "32", "SYS", "U8", "GPU")]
            operators[name, ".".join(kinds)] = 1
        operators[name, "ERRBAR"] = int("ERRBAR" in function)
    sections = sorted(set(re.findall(r"\.debug_(?:line|info|abbrev|loc)\b", text)))
    # Of -ewp, Oriole makes an ordinary object.
    kind = re.search(r"type=(\w+)", text.replace("ET_EWP", "ET_REL"))
    return {"type": kind and kind[1], "sections": sections, "attributes": attributes(text), "operators": sorted(+operators)}, registers


def run(program, arguments, folder, cuobjdump):
    """Makes a call; returns what is compared, and the registers."""
    out = folder / "out.cubin"
    out.unlink(missing_ok=True)
    done = subprocess.run([program, *arguments, "-o", out], capture_output=True, text=True, errors="replace", cwd=folder, timeout=120)
    messages = [re.sub(r"\d+ bytes|size of stack frame: \d+", "N bytes", line) for line in done.stderr.split("\n")]
    # ptxas repeats some warnings for each instruction that it makes of one.
    messages = sorted({line for line in messages if line and not any(own in line for own in OWN_MESSAGES)})
    result, registers = examine(out, cuobjdump) if out.exists() else ({}, {})
    return {"status": done.returncode, "messages": messages, **result}, {name: int(count) for name, count in registers.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("ours", type=Path)
    parser.add_argument("vendor", type=Path)
    parser.add_argument("-v", action="store_true", help="list every call")
    parser.add_argument("--only", help="use only combinations that contain this text")
    arguments = parser.parse_args()
    ours, vendor = arguments.ours.resolve(strict=True), arguments.vendor.absolute()
    cuobjdump = vendor.parent / "cuobjdump"
    count, different = 0, 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, text in FILES.items():
            folder.joinpath(file).write_text(text)
        for options in (options for options in OPTIONS if arguments.only is None or arguments.only in options):
            for target in ["sm_90", *(["sm_80"] if any(part in options for part in BY_GENERATION) else [])]:
                for kind in ([], ["-c"]):
                    call = [f"-arch={target}", *kind, *options.split(), "a.ptx", "b.ptx"]
                    (here, registers), (there, _) = run(ours, call, folder, cuobjdump), run(vendor, call, folder, cuobjdump)
                    count += 1
                    over = [f"({registers['plain']} registers)"] if registers.get("plain", 0) > LIMITS.get(options, 255) else []
                    keys = [key for key in here.keys() | there.keys() if here.get(key) != there.get(key)]
                    different += bool(keys or over)
                    if arguments.v or keys or over:
                        print("ptxas", *call, *over, flush=True)
                    for key in keys:
                        left, right = here.get(key), there.get(key)
                        if isinstance(left, list) and isinstance(right, list):
                            left, right = [item for item in left if item not in right], [item for item in right if item not in left]
                        print(f"  {key}\n    ours:   {left}\n    theirs: {right}")
    print(f"{count} calls: {different} with another effect")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
