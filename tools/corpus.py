#!/usr/bin/env python3
"""Compiles corpus/*.cu to PTX with NVRTC and asks ptxas whether it accepts the result.

    tools/corpus.py [NAME ...]       write corpus/NAME.ptx (and variants) and check them; no NAME: all
    tools/corpus.py --check [NAME]   only check PTX that is there: corpus/, corpus/handwritten/, examples/
    tools/corpus.py --stale [NAME]   write nothing; exit 1 if the PTX on disk is not what NVRTC gives now

A source file says how it is compiled, in lines that start with `// oriole:`:

    // oriole: arch=compute_90a options="-lineinfo --use_fast_math" tag=fast

Each line makes one PTX file. The first, when it has no tag, is NAME.ptx; the others are NAME.TAG.ptx, where TAG is
`sm_NN` unless given. A PTX file is checked with `ptxas -arch` of its `.target`; a handwritten file whose target is
too old for this ptxas says `// oriole: arch=sm_75`, and `ptxas=...` on such a line adds options for ptxas.

Tools come from ORIOLE_ORACLES (the folder with ptxas) or .oracles/bin; see tools/oracles.sh.
"""

import argparse
import ctypes
import multiprocessing
import os
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CORPUS = ROOT / "corpus"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*["<]([^">]+)[">]', re.MULTILINE)
DIRECTIVE = re.compile(r"^// oriole:(.*)$", re.MULTILINE)
TARGET = re.compile(r"(?:^|\s)\.target[ \t]+(sm_\w+)")
BYTES = re.compile(r"^\.b8 ([\d, ]+)$", re.MULTILINE)
# What a path on the machine that made the file looks like: an absolute path with a folder in it.
ABSOLUTE_PATH = re.compile(r'"/[^"/]*/|(?:/home|/root|/tmp|/usr|/work|/opt|/Users)/')


class Problem(Exception):
    """Something the person running the script has to look at."""


def oracle_folder():
    folder = Path(os.environ.get("ORIOLE_ORACLES") or ROOT / ".oracles/bin").absolute()
    if not (folder / "ptxas").exists():
        raise Problem(f"no ptxas in {folder}; run tools/oracles.sh")
    return folder


def directives(text):
    """The `// oriole:` lines as dictionaries."""
    lines = []
    for match in DIRECTIVE.finditer(text):
        pairs = [word.partition("=") for word in shlex.split(match[1])]
        unknown = {key for key, _, _ in pairs} - {"arch", "options", "tag", "ptxas"}
        if unknown:
            raise Problem(f"unknown key in `// oriole:` line: {', '.join(sorted(unknown))}")
        lines.append({key: value for key, _, value in pairs})
    return lines


@dataclass
class Variant:
    """One PTX file to be made from one source."""

    source: Path
    arch: str
    options: list = field(default_factory=list)
    tag: str = ""

    @property
    def output(self):
        middle = f".{self.tag}" if self.tag else ""
        return self.source.with_name(f"{self.source.stem}{middle}.ptx")


def variants(source):
    found = []
    for line in directives(source.read_text()):
        if not line.get("arch", "").startswith("compute_"):
            raise Problem(f"{source.name}: `// oriole:` line without arch=compute_NN")
        tag = line.get("tag", line["arch"].replace("compute_", "sm_") if found else "")
        found.append(Variant(source, line["arch"], shlex.split(line.get("options", "")), tag))
    if not found:
        raise Problem(f"{source.name}: no `// oriole: arch=compute_NN` line")
    if len({v.output for v in found}) != len(found):
        raise Problem(f"{source.name}: two `// oriole:` lines write the same file; give them a tag")
    return found


class Nvrtc:
    """The few NVRTC calls needed. Headers are passed as text under plain names, so that no path gets into PTX."""

    def __init__(self, folder):
        library = folder.parent / "lib"
        self.include = folder.parent / "include"
        try:
            # NVRTC opens its builtins by bare name; having them loaded already makes that work.
            ctypes.CDLL(str(library / "libnvrtc-builtins.so"), mode=ctypes.RTLD_GLOBAL)
            self.api = ctypes.CDLL(str(library / "libnvrtc.so"))
        except OSError as error:
            raise Problem(f"cannot load NVRTC ({error}); run tools/oracles.sh") from error
        self.api.nvrtcGetErrorString.restype = ctypes.c_char_p

    def header_closure(self, text):
        """Every header reachable from the text, as {name in the #include: content}."""
        found, queue = {}, [(name, self.include) for name in INCLUDE.findall(text)]
        while queue:
            name, folder = queue.pop()
            path = next((p for p in (folder / name, self.include / name) if p.is_file()), None)
            if name in found or path is None:
                continue
            found[name] = path.read_bytes()
            queue += [(inner, path.parent) for inner in INCLUDE.findall(found[name].decode("utf-8", "replace"))]
        return found

    def text(self, program, what):
        size = ctypes.c_size_t()
        getattr(self.api, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        buffer = ctypes.create_string_buffer(max(size.value, 1))
        getattr(self.api, f"nvrtcGet{what}")(program, buffer)
        return buffer.value.decode()

    def compile(self, variant):
        source = variant.source.read_text()
        headers = self.header_closure(source)
        names = (ctypes.c_char_p * len(headers))(*[name.encode() for name in headers])
        texts = (ctypes.c_char_p * len(headers))(*headers.values())
        options = [f"-arch={variant.arch}", "-std=c++17", *variant.options]
        arguments = (ctypes.c_char_p * len(options))(*[option.encode() for option in options])
        program = ctypes.c_void_p()
        self.api.nvrtcCreateProgram(
            ctypes.byref(program), source.encode(), variant.source.name.encode(), len(headers), texts, names
        )
        try:
            result = self.api.nvrtcCompileProgram(program, len(options), arguments)
            if result != 0:
                reason = self.api.nvrtcGetErrorString(result).decode()
                raise Problem(f"{variant.source.name} ({variant.arch}): {reason}\n{self.text(program, 'ProgramLog')}")
            return self.text(program, "PTX")
        finally:
            self.api.nvrtcDestroyProgram(ctypes.byref(program))


def leaks(text):
    """Lines that tell where the file was made; strings in DWARF sections are lists of bytes."""
    debug = bytes(int(number) for run in BYTES.findall(text) for number in run.split(","))
    text += debug.replace(b"\0", b"\n").decode("latin-1")
    return [line.strip() for line in text.splitlines() if ABSOLUTE_PATH.search(line)]


def ptxas_verdict(folder, path):
    """None when ptxas accepts the file, else its complaint."""
    text = path.read_text()
    target = TARGET.search(text)
    given = next(iter(directives(text)), {})
    arch = given.get("arch") or (target and target[1])
    if not arch:
        return "no .target"
    command = [folder / "ptxas", f"-arch={arch}", *shlex.split(given.get("ptxas", "")), path, "-o", os.devnull]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else (done.stderr or done.stdout).strip() or f"exit {done.returncode}"


def chosen(paths, names):
    """The paths whose name, up to the first dot, was asked for; all when nothing was."""
    wanted = {Path(name).name.split(".")[0] for name in names}
    missing = wanted - {path.name.split(".")[0] for path in paths}
    if missing:
        raise Problem(f"no such file: {', '.join(sorted(missing))}")
    return [path for path in paths if not wanted or path.name.split(".")[0] in wanted]


def compile_variant(folder, variant):
    """Runs in a process of its own; returns (variant, PTX or None, complaint)."""
    os.chdir("/")  # NVRTC puts the current folder before file names: "/NAME.cu" says nothing about this machine
    try:
        return variant, Nvrtc(folder).compile(variant), ""
    except Problem as problem:
        return variant, None, str(problem)


def make(folder, names, write):
    """Compiles sources; returns (PTX paths, problems)."""
    wanted = [variant for source in chosen(sorted(CORPUS.glob("*.cu")), names) for variant in variants(source)]
    # A fresh process for each: the order of some instructions depends on what NVRTC compiled before.
    with multiprocessing.get_context("spawn").Pool(2, maxtasksperchild=1) as pool:
        results = pool.starmap(compile_variant, [(folder, variant) for variant in wanted], chunksize=1)
    made, problems = [], []
    for variant, text, complaint in results:
        output = variant.output
        if text is None:
            problems.append(complaint)
            continue
        problems += [f"{output.name}: path in output: {line}" for line in leaks(text)]
        if write:
            output.write_text(text)
            made.append(output)
        elif not output.exists() or output.read_text() != text:
            problems.append(f"{output.name}: stale")
    return made, problems


def check(folder, paths):
    with ThreadPoolExecutor(2) as pool:
        verdicts = pool.map(lambda path: ptxas_verdict(folder, path), paths)
        return [f"{path.relative_to(ROOT)}: ptxas: {verdict}" for path, verdict in zip(paths, verdicts) if verdict]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--check", action="store_true", help="only run ptxas on the PTX that is there")
    mode.add_argument("--stale", action="store_true", help="write nothing; report PTX that differs from a fresh compile")
    parser.add_argument("names", nargs="*", metavar="NAME", help="file names, with or without folder and extension")
    options = parser.parse_args()

    folder, problems = oracle_folder(), []
    if options.check:
        folders = (CORPUS, CORPUS / "handwritten", ROOT / "examples")
        paths = chosen([path for place in folders for path in sorted(place.glob("*.ptx"))], options.names)
    else:
        paths, problems = make(folder, options.names, write=not options.stale)
    problems += check(folder, paths)

    for problem in problems:
        print(problem, file=sys.stderr)
    if not options.stale:
        size = sum(path.stat().st_size for path in paths)
        print(f"{len(paths)} PTX files, {size / 1e6:.2f} MB, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Problem as problem:
        print(f"corpus.py: {problem}", file=sys.stderr)
        sys.exit(1)
