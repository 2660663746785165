#!/usr/bin/env python3
"""Builds a program with NVIDIA's nvPTXCompiler and with Oriole's library, runs all forms, and compares what they print.

    python3 tools/drop-in/nvptxcompiler.py target/release [--package FOLDER]

The program (`nvptxcompiler.c`) is compiled with NVIDIA's header, of the package nvidia-nvptxcompiler 13.0.88 from PyPI, and linked with NVIDIA's static
library, with liboriole_c.a and with liboriole_c.so of the given folder. Each form compiles correct and wrong programs with correct and wrong
options. The status of every call and the logs must be the same, except for register counts, times, the wording of errors in PTX, and messages that
only Oriole has. The exit status is 1 if something differs. Needs a C compiler, and libstdc++ for NVIDIA's library.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = "nvidia-nvptxcompiler==13.0.88"

HEADER = ".version 8.0\n.target sm_80\n.address_size 64\n"
KERNEL = """.visible .entry k(.param .u64 p) {
    .reg .b64 %a; .reg .b32 %i; .reg .f64 %d;
    ld.param.u64 %a, [p]; mov.u32 %i, %tid.x; st.global.u32 [%a], %i;
    ld.global.f64 %d, [%a+8]; add.f64 %d, %d, %d; st.global.f64 [%a+8], %d; ret;
}
"""
FUNCTION = ".extern .func f();\n.visible .entry k() { call f; ret; }\n"
INPUTS = {
    "kernel": HEADER + KERNEL, "syntax": HEADER + KERNEL.replace("ret;", "ret"), "opcode": HEADER + KERNEL.replace("add.f64", "ad.f64"),
    "label": HEADER + KERNEL.replace("ret;", "bra L;"), "later_version": ".version 9.9\n.target sm_80\n", "empty": "", "extern": HEADER + FUNCTION,
    "later_target": HEADER.replace("sm_80", "sm_100a").replace("8.0", "8.8") + KERNEL,
}
OPTIONS = [
    ["--gpu-name=sm_90"], ["--gpu-name=sm_90", "--verbose"], ["-arch=sm_80", "-O0", "-lineinfo"], ["--gpu-name", "sm_90"], ["--gpu-name=sm_90 --verbose"],
    ["--gpu-name=sm_90", "--no-such-option"], ["--gpu-name=sm_12"], [], ["--gpu-name=sm_90", "--compile-only"], ["--gpu-name=sm_90", "-maxrregcount=16"],
    ["--gpu-name=sm_90", "-warn-double-usage"], ["--gpu-name=sm_90", "-suppress-debug-info", "-Werror"], ["--gpu-name=sm_90", "-e", "k"], ["--gpu-name=sm_90", "--entry=none"], ["--gpu-name=sm_90", "-g", "-O3"],
]


def build(program, header, link):
    command = [os.environ.get("CC", "cc"), "-std=c99", "-Wall", "-Wextra", "-Werror", f"-I{header}", str(HERE / "nvptxcompiler.c"), *link, "-o", program]
    subprocess.run(command, check=True)


def run(program, folder, arguments):
    """Returns the lines that a program printed, without what may differ, and whether it wrote a cubin."""
    out = folder / "out.cubin"
    out.unlink(missing_ok=True)
    done = subprocess.run([program, folder / "in.ptx", out, *arguments], capture_output=True, text=True, errors="replace", timeout=120, cwd=folder)
    # One line for each error in PTX, with its line and without its words, which are longer than those of ptxas.
    lines = [re.sub(r"(line \d+; (?:error|fatal  ) *:).*", r"\1", line) for line in done.stdout.split("\n")]
    lines = [re.sub(r"ptxas application ptx input", "ptxas <input>", re.sub(r"Used \d+ registers", "Used N registers", line)) for line in lines]
    lines.insert(0, f"exit status {done.returncode}")
    own = ("Compile time", "has no effect in Oriole")
    return [line for line in lines if not any(part in line for part in own)], out.exists() and out.read_bytes()[:4] == b"\x7fELF"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("libraries", type=Path, help="folder with liboriole_c.a and liboriole_c.so")
    parser.add_argument("--package", type=Path, help="folder with the unpacked package, instead of a download")
    arguments = parser.parse_args()
    libraries = arguments.libraries.resolve(strict=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        package = arguments.package
        if package is None:
            package = folder / "package"
            subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", package, PACKAGE], check=True)
        header = next(package.rglob("nvPTXCompiler.h")).parent
        vendor = next(package.rglob("libnvptxcompiler_static.a"))
        system = ["-lpthread", "-ldl", "-lm"]
        forms = {"NVIDIA": [str(vendor), "-lstdc++", *system], "static": [str(libraries / "liboriole_c.a"), *system],
                 "shared": [f"-L{libraries}", f"-Wl,-rpath,{libraries}", "-loriole_c"]}
        for form, link in forms.items():
            build(folder / form, header, link)
        count, different = 0, 0
        for input_name, text in INPUTS.items():
            (folder / "in.ptx").write_text(text)
            for options in OPTIONS if input_name == "kernel" else OPTIONS[:2] + [["--gpu-name=sm_90", "--compile-only"]]:
                results = {form: run(folder / form, folder, options) for form in forms}
                count += 1
                if results["static"] != results["NVIDIA"] or results["shared"] != results["NVIDIA"]:
                    different += 1
                    print(f"{input_name} {' '.join(options)}")
                    for form, (lines, has_cubin) in results.items():
                        own = [line for line in lines if any(line not in other for other, _ in results.values())]
                        print(f"  {form}, cubin: {has_cubin}", *own, sep="\n    ")
    print(f"{count} programs and options, {len(forms)} forms: {different} differ")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
